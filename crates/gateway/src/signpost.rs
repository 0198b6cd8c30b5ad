//! Where clients are sent.

use std::net::SocketAddr;
use std::sync::Arc;

use rail::{Rail, Roster};
use wire::{Addresses, ApiKey, NodeAddress};

use crate::entrance::Entrance;

/// The nodes that the answers on one connection name.
pub(crate) struct Signpost {
    addresses: Addresses,
    listener: Arc<str>,
    /// This node's id, where there are no others.
    node_id: i32,
    /// What `addresses` was made of.
    roster: Option<Arc<Roster>>,
}

impl Signpost {
    /// For a client that has dialled `local`.
    pub(crate) fn new(entrance: &Entrance, node_id: i32, local: SocketAddr) -> Self {
        let (host, port) = match &entrance.advertised {
            Some(advertised) => advertised.clone(),
            // An IPv4 client of a `[::]` listener must not be told an address that only IPv6 can dial.
            None => (local.ip().to_canonical().to_string(), local.port()),
        };
        let addresses = Addresses::alone(node_id, host, port);
        Self { addresses, listener: Arc::clone(&entrance.name), node_id, roster: None }
    }

    /// The nodes for an answer of this API.
    #[inline]
    pub(crate) fn addresses(&mut self, api: ApiKey, rail: &dyn Rail) -> &Addresses {
        if is_about_nodes(api) {
            self.follow(rail.roster());
        }
        &self.addresses
    }

    fn follow(&mut self, roster: Option<Arc<Roster>>) {
        let is_same = match (&self.roster, &roster) {
            (Some(known), Some(roster)) => Arc::ptr_eq(known, roster),
            (None, None) => true,
            _ => false,
        };
        if is_same {
            return;
        }
        let (node_id, nodes) = match &roster {
            Some(roster) => (roster.me, reachable(roster, &self.listener)),
            None => (self.node_id, Vec::new()),
        };
        self.addresses.node_id = node_id;
        self.addresses.nodes = nodes.into();
        self.roster = roster;
    }
}

/// The nodes that clients of this listener can dial.
fn reachable(roster: &Roster, listener: &str) -> Vec<NodeAddress> {
    let address = |node: &rail::Node| {
        let (_, host, port) = node.listeners.iter().find(|(name, ..)| name == listener)?;
        Some(NodeAddress { id: node.id, host: host.clone(), port: *port })
    };
    roster.nodes.iter().filter_map(address).collect()
}

/// Whether its answers name nodes. Those of Fetch do only with errors; what the client was told last is good enough.
#[inline]
fn is_about_nodes(api: ApiKey) -> bool {
    use ApiKey::{DescribeCluster, DescribeTopicPartitions, FindCoordinator, Metadata};
    matches!(api, Metadata | FindCoordinator | DescribeCluster | DescribeTopicPartitions)
}
