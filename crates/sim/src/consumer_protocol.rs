//! What consumers tell each other through the group: subscriptions and assignments, as Kafka's consumer protocol
//! writes them, and the two oldest ways of assigning.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use coordination::group::consumer_protocol;

/// One partition of one topic.
pub type Partition = (String, i32);

/// A subscription as a member's metadata. `note` is the user data, which some assignors fill anew at each join.
pub fn encode_subscription(topics: &BTreeSet<String>, note: u64) -> Bytes {
    let note = note.to_be_bytes();
    let note = Some(note.as_slice()).filter(|note| note.iter().any(|byte| *byte != 0));
    consumer_protocol::encode_subscription(topics.iter().map(String::as_str), note)
}

/// The topics of a subscription; `None` if it is not one.
pub fn decode_subscription(bytes: &[u8]) -> Option<BTreeSet<String>> {
    let topics = consumer_protocol::subscribed_topics(bytes)?;
    Some(topics.into_iter().map(Cow::into_owned).collect())
}

/// An assignment.
pub fn encode_assignment(partitions: &BTreeSet<Partition>) -> Bytes {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in partitions {
        topics.entry(topic).or_default().push(*partition);
    }
    consumer_protocol::encode_assignment(topics)
}

/// The partitions of an assignment. No bytes at all mean no partitions; `None` if it is not one.
pub fn decode_assignment(bytes: &[u8]) -> Option<BTreeSet<Partition>> {
    let topics = consumer_protocol::assigned_partitions(bytes)?;
    let each = topics.into_iter().flat_map(|(topic, partitions)| {
        partitions.into_iter().map(move |partition| (topic.clone().into_owned(), partition))
    });
    Some(each.collect())
}

/// Deals the partitions of each topic to the members that want it: in ranges, or one by one for `roundrobin`.
pub fn assign(
    protocol: &str,
    members: &BTreeMap<String, BTreeSet<String>>,
    topics: &BTreeMap<String, i32>,
) -> BTreeMap<String, BTreeSet<Partition>> {
    let mut assigned: BTreeMap<String, BTreeSet<Partition>> =
        members.keys().map(|member| (member.clone(), BTreeSet::new())).collect();
    let mut turn = 0;
    for (topic, &count) in topics {
        let takers: Vec<&String> =
            members.iter().filter(|(_, wanted)| wanted.contains(topic)).map(|(member, _)| member).collect();
        if takers.is_empty() {
            continue;
        }
        let count = usize::try_from(count).expect("a topic has no negative number of partitions");
        for partition in 0..count {
            let taker = if protocol == "roundrobin" {
                turn += 1;
                turn % takers.len()
            } else {
                partition * takers.len() / count
            };
            let index = i32::try_from(partition).expect("few partitions");
            assigned.entry(takers[taker].clone()).or_default().insert((topic.clone(), index));
        }
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_and_assignments_come_back_as_they_went() {
        let topics = BTreeSet::from(["orders".to_owned(), "people".to_owned()]);
        assert_eq!(decode_subscription(&encode_subscription(&topics, 7)), Some(topics));
        let partitions =
            BTreeSet::from([("orders".to_owned(), 1), ("orders".to_owned(), 0), ("x".to_owned(), 3)]);
        assert_eq!(decode_assignment(&encode_assignment(&partitions)), Some(partitions));
        assert_eq!(decode_assignment(b""), Some(BTreeSet::new()));
        assert_eq!(decode_assignment(b"\0\0\0"), None);
    }

    #[test]
    fn every_partition_goes_to_one_member_that_wants_it() {
        let members = BTreeMap::from([
            ("a".to_owned(), BTreeSet::from(["t".to_owned()])),
            ("b".to_owned(), BTreeSet::from(["t".to_owned(), "u".to_owned()])),
        ]);
        let topics = BTreeMap::from([("t".to_owned(), 5), ("u".to_owned(), 2)]);
        for protocol in ["range", "roundrobin"] {
            let assigned = assign(protocol, &members, &topics);
            let all: Vec<&Partition> = assigned.values().flatten().collect();
            assert_eq!(all.len(), 7, "{protocol}");
            assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), 7, "{protocol}");
            assert!(assigned["a"].iter().all(|(topic, _)| topic == "t"), "{protocol}");
        }
    }
}
