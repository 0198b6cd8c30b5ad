//! What consumers tell each other through their group: which topics they want, which partitions they have.
//!
//! Groups of protocol type `consumer` agree on these bytes, which the broker otherwise only carries. Anybody can join
//! with other bytes, so all of this is a guess that may fail.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;

use super::record::kafka_bytes::{KafkaBytes, Problem, put_bytes, put_count, put_text};

/// The version of both formats that is written here. The next ones only add fields behind.
const VERSION: i16 = 1;

/// The topics that a member subscribes to; `None` if the bytes are no subscription.
///
/// Every version begins with version 0, and Kafka reads no more of it than that, because some clients announce
/// a version that they do not write.
pub fn subscribed_topics(subscription: &[u8]) -> Option<Vec<Cow<'_, str>>> {
    let mut topics = Vec::new();
    visit_subscribed_topics(subscription, |topic| topics.push(topic))?;
    Some(topics)
}

/// The subscription of a member that owns nothing yet, as [`subscribed_topics`] reads it. `user_data` belongs to the
/// member's assignor.
pub fn encode_subscription<'a>(topics: impl IntoIterator<Item = &'a str>, user_data: Option<&[u8]>) -> Bytes {
    let mut out = VERSION.to_be_bytes().to_vec();
    put_list(&mut out, topics, put_text);
    put_user_data(&mut out, user_data);
    put_count(&mut out, 0);
    out.into()
}

/// Shows `visit` the topics of [`subscribed_topics`], some of them even if the bytes turn out to be no subscription.
/// Keeps nothing: a list of them can take many times the memory of the bytes.
pub(super) fn visit_subscribed_topics<'a>(
    subscription: &'a [u8],
    mut visit: impl FnMut(Cow<'a, str>),
) -> Option<()> {
    read(subscription, |bytes| {
        for _ in 0..bytes.count()? {
            visit(bytes.text()?);
        }
        Ok(())
    })
}

/// The partitions that a member was assigned, topic by topic; `None` if the bytes are no assignment. A member that the
/// leader left out has no bytes and no partitions.
pub fn assigned_partitions(assignment: &[u8]) -> Option<Vec<(Cow<'_, str>, Vec<i32>)>> {
    if assignment.is_empty() {
        return Some(Vec::new());
    }
    read(assignment, |bytes| {
        let mut topics = Vec::new();
        for _ in 0..bytes.count()? {
            let topic = bytes.text()?;
            let mut partitions = Vec::new();
            for _ in 0..bytes.count()? {
                partitions.push(bytes.i32()?);
            }
            topics.push((topic, partitions));
        }
        Ok(topics)
    })
}

/// An assignment, as [`assigned_partitions`] reads it.
pub fn encode_assignment<'a, P>(topics: impl IntoIterator<Item = (&'a str, P)>) -> Bytes
where
    P: IntoIterator<Item = i32>,
{
    let mut out = VERSION.to_be_bytes().to_vec();
    put_list(&mut out, topics, |out, (topic, partitions)| {
        put_text(out, topic);
        put_list(out, partitions, |out, partition: i32| out.extend(partition.to_be_bytes()));
    });
    put_user_data(&mut out, None);
    out.into()
}

/// How many partitions were taken from their owner, whether somebody else has them now or nobody; `None` if an
/// assignment cannot be read.
///
/// A partition that nobody had does not count. So a cooperative rebalance, which takes a partition in one generation
/// and gives it away in the next, counts it once.
/// Each item is an owner and its assignment.
pub fn partitions_moved<'a>(
    before: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    after: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Option<usize> {
    let mut owners: BTreeMap<(Cow<'a, str>, i32), &'a str> = BTreeMap::new();
    for (owner, assignment) in before {
        for (topic, partitions) in assigned_partitions(assignment)? {
            owners.extend(partitions.into_iter().map(|partition| ((topic.clone(), partition), owner)));
        }
    }
    for (owner, assignment) in after {
        for (topic, partitions) in assigned_partitions(assignment)? {
            let mut place = (topic, 0);
            for partition in partitions {
                place.1 = partition;
                if owners.get(&place) == Some(&owner) {
                    owners.remove(&place);
                }
            }
        }
    }
    Some(owners.len())
}

/// Reads the part that all versions share: the version, what `part` takes, and data of the client's own.
fn read<'a, T>(bytes: &'a [u8], part: impl FnOnce(&mut KafkaBytes<'a>) -> Result<T, Problem>) -> Option<T> {
    let mut bytes = KafkaBytes::new(bytes);
    if bytes.i16().ok()? < 0 {
        return None;
    }
    let read = part(&mut bytes).ok()?;
    bytes.nullable_bytes().ok()?;
    Some(read)
}

/// Appends each item behind the number of all of them.
fn put_list<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, mut put: impl FnMut(&mut Vec<u8>, T)) {
    let start = out.len();
    put_count(out, 0);
    let mut count = 0_i32;
    for item in items {
        put(out, item);
        count = count.saturating_add(1);
    }
    out[start..start + size_of_val(&count)].copy_from_slice(&count.to_be_bytes());
}

fn put_user_data(out: &mut Vec<u8>, data: Option<&[u8]>) {
    match data {
        Some(data) => put_bytes(out, data),
        None => out.extend((-1_i32).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As a live librdkafka sends it: version 3, one topic, no data, no owned partitions, generation -1, no rack.
    const SUBSCRIPTION: &[u8] = b"\0\x03\0\0\0\x01\0\x06orders\0\0\0\0\0\0\0\0\xff\xff\xff\xff\0\0";

    /// As a live librdkafka sends it: version 0, partitions 0 and 1 of one topic, no data.
    const ASSIGNMENT: &[u8] = b"\0\0\0\0\0\x01\0\x06orders\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0";

    fn assignment(partitions: &[i32]) -> Vec<u8> {
        let mut bytes = b"\0\x01\0\0\0\x01\0\x01t".to_vec();
        bytes.extend(i32::try_from(partitions.len()).unwrap().to_be_bytes());
        bytes.extend(partitions.iter().flat_map(|partition| partition.to_be_bytes()));
        bytes.extend([0xff; 4]);
        bytes
    }

    #[test]
    fn what_real_clients_send_is_understood() {
        assert_eq!(subscribed_topics(SUBSCRIPTION), Some(vec!["orders".into()]));
        assert_eq!(assigned_partitions(ASSIGNMENT), Some(vec![("orders".into(), vec![0, 1])]));
        assert_eq!(assigned_partitions(b""), Some(vec![]));
    }

    #[test]
    fn a_subscription_is_written_as_kafka_writes_it() {
        let written = encode_subscription(["orders"], None);
        assert_eq!(&*written, b"\0\x01\0\0\0\x01\0\x06orders\xff\xff\xff\xff\0\0\0\0");
        let written = encode_assignment([("orders", [0, 1])]);
        let expected: &[u8] = b"\0\x01\0\0\0\x01\0\x06orders\0\0\0\x02\0\0\0\0\0\0\0\x01\xff\xff\xff\xff";
        assert_eq!(&*written, expected);
    }

    #[test]
    fn other_bytes_are_nothing() {
        let negative = [&[0xff, 0xff], &SUBSCRIPTION[2..]].concat();
        for bytes in [
            &b""[..],
            b"\0",
            b"\0\0",
            b"hello world",
            &negative,
            b"\0\0\x7f\xff\xff\xff",
            b"\0\0\xff\xff\xff\xff",
        ] {
            assert_eq!(subscribed_topics(bytes), None, "{bytes:?}");
        }
        assert_eq!(assigned_partitions(b"\0\0\0\0\0\x01\0\x01t\x7f\xff\xff\xff"), None);
        // The data behind the topics belongs to version 0 as well.
        assert_eq!(subscribed_topics(&SUBSCRIPTION[..14]), None);
    }

    #[test]
    fn partitions_that_changed_their_owner_are_counted() {
        let (all, low, high, none) =
            (assignment(&[0, 1, 2]), assignment(&[0, 1]), assignment(&[2]), assignment(&[]));
        let moved = |before: &[(&'static str, &Vec<u8>)], after: &[(&'static str, &Vec<u8>)]| {
            let owned = |list: &[(&'static str, &Vec<u8>)]| -> Vec<(&'static str, Vec<u8>)> {
                list.iter().map(|(owner, bytes)| (*owner, (*bytes).clone())).collect()
            };
            let (before, after) = (owned(before), owned(after));
            partitions_moved(
                before.iter().map(|(owner, bytes)| (*owner, bytes.as_slice())),
                after.iter().map(|(owner, bytes)| (*owner, bytes.as_slice())),
            )
        };
        assert_eq!(moved(&[], &[("a", &all)]), Some(0));
        assert_eq!(moved(&[("a", &all)], &[("a", &all)]), Some(0));
        assert_eq!(moved(&[("a", &all)], &[("a", &low), ("b", &high)]), Some(1));
        assert_eq!(moved(&[("a", &low), ("b", &high)], &[("a", &high), ("b", &low)]), Some(3));
        // Cooperative: taken first, given away later.
        assert_eq!(moved(&[("a", &all)], &[("a", &low), ("b", &none)]), Some(1));
        assert_eq!(moved(&[("a", &low), ("b", &none)], &[("a", &low), ("b", &high)]), Some(0));
        assert_eq!(moved(&[("a", &vec![1])], &[]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            topics in proptest::collection::vec((".{0,20}", proptest::collection::vec(any::<i32>(), 0..4)), 0..4),
            data in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)),
        ) {
            let names: Vec<&str> = topics.iter().map(|(topic, _)| topic.as_str()).collect();
            let subscription = encode_subscription(names.iter().copied(), data.as_deref());
            prop_assert_eq!(subscribed_topics(&subscription).unwrap(), names);
            let assignment = encode_assignment(
                topics.iter().map(|(topic, partitions)| (topic.as_str(), partitions.iter().copied())),
            );
            let expected: Vec<(Cow<'_, str>, Vec<i32>)> =
                topics.iter().map(|(topic, partitions)| (topic.as_str().into(), partitions.clone())).collect();
            prop_assert_eq!(assigned_partitions(&assignment).unwrap(), expected);
        }

        #[test]
        fn hostile_bytes_are_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = subscribed_topics(&bytes);
            let _ = assigned_partitions(&bytes);
            let versioned = [&[0, 0, 0, 0, 0, 2], &bytes[..]].concat();
            let _ = (subscribed_topics(&versioned), assigned_partitions(&versioned));
        }
    }
}
