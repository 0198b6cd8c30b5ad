//! What consumers tell each other through the group: subscriptions and assignments, as Kafka's consumer protocol
//! writes them, and the two oldest ways of assigning.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{BufMut, Bytes, BytesMut};

/// One partition of one topic.
pub type Partition = (String, i32);

/// A subscription as a member's metadata, version 0. `note` is the user data, which some assignors fill anew at
/// each join.
pub fn encode_subscription(topics: &BTreeSet<String>, note: u64) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(0);
    put_count(&mut out, topics.len());
    for topic in topics {
        put_string(&mut out, topic);
    }
    if note == 0 {
        out.put_i32(-1);
    } else {
        out.put_i32(8);
        out.put_u64(note);
    }
    out.freeze()
}

/// The topics of a subscription; `None` if it is not one.
pub fn decode_subscription(bytes: &[u8]) -> Option<BTreeSet<String>> {
    let mut rest = bytes;
    take_i16(&mut rest)?;
    let count = take_i32(&mut rest)?;
    (0..count).map(|_| take_string(&mut rest)).collect()
}

/// An assignment, version 0.
pub fn encode_assignment(partitions: &BTreeSet<Partition>) -> Bytes {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in partitions {
        topics.entry(topic).or_default().push(*partition);
    }
    let mut out = BytesMut::new();
    out.put_i16(0);
    put_count(&mut out, topics.len());
    for (topic, partitions) in topics {
        put_string(&mut out, topic);
        put_count(&mut out, partitions.len());
        for partition in partitions {
            out.put_i32(partition);
        }
    }
    out.put_i32(-1);
    out.freeze()
}

/// The partitions of an assignment. No bytes at all mean no partitions; `None` if it is not one.
pub fn decode_assignment(bytes: &[u8]) -> Option<BTreeSet<Partition>> {
    if bytes.is_empty() {
        return Some(BTreeSet::new());
    }
    let mut rest = bytes;
    take_i16(&mut rest)?;
    let mut partitions = BTreeSet::new();
    for _ in 0..take_i32(&mut rest)? {
        let topic = take_string(&mut rest)?;
        for _ in 0..take_i32(&mut rest)? {
            partitions.insert((topic.clone(), take_i32(&mut rest)?));
        }
    }
    Some(partitions)
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

fn put_count(out: &mut BytesMut, count: usize) {
    out.put_i32(i32::try_from(count).expect("a short list"));
}

fn put_string(out: &mut BytesMut, text: &str) {
    out.put_i16(i16::try_from(text.len()).expect("a short name"));
    out.put_slice(text.as_bytes());
}

fn take_i16(rest: &mut &[u8]) -> Option<i16> {
    let (head, tail) = rest.split_first_chunk::<2>()?;
    *rest = tail;
    Some(i16::from_be_bytes(*head))
}

fn take_i32(rest: &mut &[u8]) -> Option<i32> {
    let (head, tail) = rest.split_first_chunk::<4>()?;
    *rest = tail;
    Some(i32::from_be_bytes(*head))
}

fn take_string(rest: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(take_i16(rest)?).ok()?;
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    String::from_utf8(head.to_vec()).ok()
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
