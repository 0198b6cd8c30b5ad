//! Where clients reach the nodes: what an answer names as leader, controller and coordinator.

use std::borrow::Cow;
use std::sync::Arc;

use coordination::ids::TopicId;

/// Where clients of one listener reach this node, and the others if there are any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The node's id.
    pub node_id: i32,
    /// The host that clients of this listener dial.
    pub host: String,
    /// The port that clients of this listener dial.
    pub port: u16,
    /// All nodes that clients of this listener can dial, in any order; empty when this is the only one.
    pub nodes: Arc<[NodeAddress]>,
}

/// Where clients of one listener reach one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    /// The node's id.
    pub id: i32,
    /// The host that clients dial.
    pub host: String,
    /// The port that clients dial.
    pub port: u16,
}

impl Addresses {
    /// The addresses of a node that is the only one.
    pub fn alone(node_id: i32, host: impl Into<String>, port: u16) -> Self {
        Self { node_id, host: host.into(), port, nodes: Arc::default() }
    }

    /// The node that this listener's clients shall ask about the partition.
    pub(crate) fn leader(&self, topic: TopicId, partition: i32) -> i32 {
        leader(topic, partition, &self.nodes).unwrap_or(self.node_id)
    }

    /// All nodes by id. This one is always among them, since it is named as controller and coordinator, and a client
    /// asks only nodes that it has an address of.
    pub(crate) fn all(&self) -> Vec<Cow<'_, NodeAddress>> {
        let this = NodeAddress { id: self.node_id, host: self.host.clone(), port: self.port };
        let others = self.nodes.iter().filter(|node| node.id != self.node_id).map(Cow::Borrowed);
        let mut all: Vec<_> = others.chain([Cow::Owned(this)]).collect();
        all.sort_unstable_by_key(|node| node.id);
        all
    }

    /// Where the node with this id is.
    pub(crate) fn node(&self, id: i32) -> Option<Cow<'_, NodeAddress>> {
        self.all().into_iter().find(|node| node.id == id)
    }
}

/// The node that leads the partition, as clients are told; `None` when there are no nodes.
///
/// Every node can serve every partition, so this only spreads the work. Each node is given a number for the partition
/// and the highest one leads (rendezvous hashing): whoever is asked answers the same, and when a node comes or goes,
/// only the partitions that it leads move. Nodes of different versions answer the same clients, so the numbers must
/// never change.
pub fn leader(topic: TopicId, partition: i32, nodes: &[NodeAddress]) -> Option<i32> {
    let bits = topic.as_u128();
    #[expect(clippy::cast_possible_truncation, reason = "these are the two halves")]
    let (high, low) = ((bits >> 64) as u64, bits as u64);
    let partition = mix(mix(mix(high) ^ low) ^ u64::from(partition.cast_unsigned()));
    let rank = |id: i32| mix(partition ^ u64::from(id.cast_unsigned()));
    nodes.iter().map(|node| node.id).max_by_key(|id| (rank(*id), *id))
}

/// A number in which every bit depends on every bit of the given one (the end of SplitMix64).
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn nodes(ids: impl IntoIterator<Item = i32>) -> Vec<NodeAddress> {
        ids.into_iter().map(|id| NodeAddress { id, host: format!("node-{id}"), port: 9092 }).collect()
    }

    /// 20 topics of 50 partitions, with ids as they are minted one after the other.
    fn partitions() -> impl Iterator<Item = (TopicId, i32)> {
        let topic = |number: u128| TopicId::from_u128(0x0198_7654_3210_u128 << 80 | number);
        (0..20).flat_map(move |number| (0..50).map(move |index| (topic(number), index)))
    }

    #[test]
    fn everybody_is_told_the_same_leader_in_whatever_order_nodes_are_listed() {
        for (topic, index) in partitions() {
            let told = leader(topic, index, &nodes([1, 2, 3, 4, 5]));
            assert_eq!(leader(topic, index, &nodes([4, 2, 5, 1, 3])), told);
            assert_eq!(leader(topic, index, &nodes([5, 4, 3, 2, 1])), told);
        }
        assert_eq!(leader(TopicId::from_u128(1), 0, &[]), None);
    }

    #[test]
    fn only_the_partitions_of_a_node_that_goes_are_moved() {
        let (before, after) = (nodes([1, 2, 3, 4, 5]), nodes([1, 2, 4, 5]));
        for (topic, index) in partitions() {
            let told = leader(topic, index, &before);
            if told != Some(3) {
                assert_eq!(leader(topic, index, &after), told);
            }
        }
    }

    #[test]
    fn leaders_are_spread_fairly_evenly() {
        for count in [2, 3, 5, 10] {
            let nodes = nodes(1..=count);
            let mut led = BTreeMap::new();
            for (topic, index) in partitions() {
                *led.entry(leader(topic, index, &nodes)).or_insert(0_i32) += 1;
            }
            let fair = 1000 / count;
            let uneven = led.values().any(|led| (led - fair).abs() > fair / 3);
            assert!(!uneven && led.len() == nodes.len(), "{count} nodes: {led:?}");
        }
    }

    #[test]
    fn leaders_are_the_same_in_every_version_of_kohort() {
        let nodes = nodes(1..=5);
        let told: Vec<_> = (0..10).filter_map(|index| leader(TopicId::from_u128(7), index, &nodes)).collect();
        assert_eq!(told, [4, 1, 3, 5, 2, 5, 4, 2, 1, 5]);
    }

    #[test]
    fn this_node_is_listed_with_the_address_that_its_clients_dialled() {
        let ids = |addresses: &Addresses| -> Vec<_> { addresses.all().iter().map(|node| node.id).collect() };
        let mut addresses = Addresses::alone(2, "here", 9093);
        assert_eq!(ids(&addresses), [2]);
        addresses.nodes = nodes([3, 1]).into();
        assert_eq!(ids(&addresses), [1, 2, 3]);
        addresses.nodes = nodes([3, 2, 1]).into();
        assert_eq!(ids(&addresses), [1, 2, 3]);
        assert_eq!(
            addresses.node(2).map(|node| (node.host.clone(), node.port)),
            Some(("here".to_owned(), 9093))
        );
        assert_eq!(addresses.node(4), None);
    }
}
