//! What consumers tell each other through their group: which topics they want, which partitions they have.
//!
//! Groups of protocol type `consumer` agree on these bytes, which the broker otherwise only carries. Anybody can join
//! with other bytes, so all of this is a guess that may fail.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

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

/// Whether two subscriptions ask for the same topics, in any order; `None` if one is no subscription.
///
/// Nothing else of them counts. The partitions that a member has and the generation that it has them from change with
/// every rebalance, and so does the data of assignors that keep the same there, as the sticky one does. That an assignor
/// might ask for something else through its data cannot be told from that. A rack is where a member runs, not what it
/// wants.
pub(super) fn same_topics(one: &[u8], other: &[u8]) -> Option<bool> {
    if topics_part(one)? == topics_part(other)? {
        return Some(true);
    }
    let set = |subscription| {
        let mut topics = BTreeSet::new();
        visit_subscribed_topics(subscription, |topic| {
            topics.insert(topic);
        })?;
        Some(topics)
    };
    Some(set(one)? == set(other)?)
}

/// The bytes of a subscription that name its topics.
fn topics_part(subscription: &[u8]) -> Option<&[u8]> {
    let mut left = 0;
    read(subscription, |bytes| {
        for _ in 0..bytes.count()? {
            bytes.text()?;
        }
        left = bytes.left();
        Ok(())
    })?;
    subscription.get(size_of_val(&VERSION)..subscription.len() - left)
}

/// How many partitions the member of two subscriptions had in the former and has no more in the latter. None where they
/// do not say: before version 1 they cannot.
pub(super) fn partitions_given_up(before: &[u8], after: &[u8]) -> usize {
    let (Some(before), Some(after)) = (owned_partitions(before), owned_partitions(after)) else { return 0 };
    let given_up = |(topic, partitions): (&Cow<'_, str>, &BTreeSet<i32>)| match after.get(topic) {
        Some(kept) => partitions.difference(kept).count(),
        None => partitions.len(),
    };
    before.iter().map(given_up).sum()
}

/// The partitions that a member says it has, by topic; `None` if it does not say. A name is held once: it may be long, and
/// its partitions many.
fn owned_partitions(subscription: &[u8]) -> Option<BTreeMap<Cow<'_, str>, BTreeSet<i32>>> {
    let mut bytes = KafkaBytes::new(subscription);
    if bytes.i16().ok()? < 1 {
        return None;
    }
    for _ in 0..bytes.count().ok()? {
        bytes.text().ok()?;
    }
    bytes.nullable_bytes().ok()?;
    let mut owned: BTreeMap<_, BTreeSet<i32>> = BTreeMap::new();
    for _ in 0..bytes.count().ok()? {
        let partitions = owned.entry(bytes.text().ok()?).or_default();
        for _ in 0..bytes.count().ok()? {
            partitions.insert(bytes.i32().ok()?);
        }
    }
    Some(owned)
}

/// What became of partitions between two generations.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Moves<'a, O> {
    /// How many have another owner than before.
    pub(super) moved: usize,
    /// Those that nobody has any more, by topic, under their last owner.
    pub(super) unowned: BTreeMap<O, BTreeMap<Cow<'a, str>, Vec<i32>>>,
}

/// Compares who had what with who has what; `None` if an assignment cannot be read. Each item is an owner and its
/// assignment; of a partition that comes twice in `before` the last owner counts.
///
/// A partition that nobody had does not move, nor does one that nobody has now. A cooperative rebalance takes a partition
/// in one generation and gives it away in a later one: with what was unowned among `before` it counts once, when it
/// arrives.
pub(super) fn moves<'a, O: Copy + Ord>(
    before: impl IntoIterator<Item = (O, &'a [u8])>,
    after: impl IntoIterator<Item = (O, &'a [u8])>,
) -> Option<Moves<'a, O>> {
    // A name is held once: it may be long, and its partitions many.
    let mut owners: BTreeMap<Cow<'a, str>, BTreeMap<i32, O>> = BTreeMap::new();
    for (owner, assignment) in before {
        for (topic, partitions) in assigned_partitions(assignment)? {
            owners
                .entry(topic)
                .or_default()
                .extend(partitions.into_iter().map(|partition| (partition, owner)));
        }
    }
    let mut moved = 0;
    for (owner, assignment) in after {
        for (topic, partitions) in assigned_partitions(assignment)? {
            let Some(owners) = owners.get_mut(&topic) else { continue };
            for partition in partitions {
                if owners.remove(&partition).is_some_and(|last| last != owner) {
                    moved += 1;
                }
            }
        }
    }
    let mut unowned: BTreeMap<O, BTreeMap<Cow<'a, str>, Vec<i32>>> = BTreeMap::new();
    for (topic, partitions) in owners {
        for (partition, owner) in partitions {
            let topics = unowned.entry(owner).or_default();
            match topics.get_mut(&topic) {
                Some(partitions) => partitions.push(partition),
                None => drop(topics.insert(topic.clone(), vec![partition])),
            }
        }
    }
    Some(Moves { moved, unowned })
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

    /// A subscription of version 3, as Java writes it.
    fn subscription(topics: &[&str], data: Option<&[u8]>, owned: &[i32], generation: i32) -> Vec<u8> {
        let mut bytes = vec![0, 3];
        put_list(&mut bytes, topics.iter().copied(), put_text);
        put_user_data(&mut bytes, data);
        bytes.extend(&assignment(owned)[2..]);
        // No data behind the partitions of a subscription.
        bytes.truncate(bytes.len() - 4);
        bytes.extend(generation.to_be_bytes());
        put_text(&mut bytes, "rack");
        bytes
    }

    #[test]
    fn only_other_topics_are_another_subscription() {
        let before = subscription(&["a", "b"], None, &[0, 1], 1);
        for same in [
            subscription(&["a", "b"], None, &[0, 1], 1),
            subscription(&["a", "b"], None, &[], -1),
            subscription(&["a", "b"], Some(b"sticky"), &[0, 1, 2], 2),
            subscription(&["b", "a", "b"], None, &[0, 1], 1),
            encode_subscription(["a", "b"], None).to_vec(),
        ] {
            assert_eq!(same_topics(&before, &same), Some(true), "{same:?}");
        }
        for other in [&["a"][..], &["a", "b", "c"], &["a", "c"], &[]] {
            assert_eq!(
                same_topics(&before, &subscription(other, None, &[0, 1], 1)),
                Some(false),
                "{other:?}"
            );
        }
        for unreadable in [&b""[..], b"hello world", b"\0\x01\x7f\xff\xff\xff", &before[..10]] {
            assert_eq!(same_topics(&before, unreadable), None, "{unreadable:?}");
            assert_eq!(same_topics(unreadable, unreadable), None, "{unreadable:?}");
        }
    }

    #[test]
    fn a_member_tells_what_it_has_given_up() {
        let before = subscription(&["t"], None, &[0, 1, 2], 1);
        let given_up = |after: &[u8]| partitions_given_up(&before, after);
        assert_eq!(given_up(&before), 0);
        assert_eq!(given_up(&subscription(&["t"], Some(b"data"), &[2, 3], 2)), 2);
        assert_eq!(given_up(&subscription(&["t"], None, &[], -1)), 3);
        assert_eq!(given_up(SUBSCRIPTION), 3);
        // One that does not say, one that ends too early, and one that lies about how much there is.
        assert_eq!(given_up(b"\0\0\0\0\0\0\xff\xff\xff\xff\0\0\0\0"), 0);
        assert_eq!(given_up(b"\0\x01\0\0\0\0\xff\xff\xff\xff"), 0);
        assert_eq!(given_up(b"\0\x01\0\0\0\0\xff\xff\xff\xff\0\0\0\x01\0\x01t\x7f\xff\xff\xff"), 0);
    }

    #[test]
    fn a_long_name_that_is_no_text_costs_its_length_once() {
        let name = vec![0xff; 30_000];
        let mut part = vec![0, 0, 0, 1, 0x75, 0x30];
        part.extend(&name);
        part.extend(200_000_i32.to_be_bytes());
        part.extend((0..200_000_i32).flat_map(i32::to_be_bytes));
        let owned = [&b"\0\x01\0\0\0\0\xff\xff\xff\xff"[..], &part].concat();
        // With a copy for each partition this would take 18 GB.
        assert_eq!(partitions_given_up(&owned, &subscription(&["t"], None, &[], -1)), 200_000);
        let assigned = [&b"\0\x01"[..], &part, b"\xff\xff\xff\xff"].concat();
        let all = [("a", &assigned[..])];
        let Moves { moved, unowned } = moves(all, [("b", &assigned[..])]).expect("it can be read");
        assert_eq!((moved, unowned.len()), (200_000, 0));
        let Moves { moved, unowned } = moves(all, []).expect("it can be read");
        assert_eq!((moved, unowned["a"].values().map(Vec::len).sum::<usize>()), (0, 200_000));
    }

    #[test]
    fn a_partition_moves_when_it_gets_another_owner() {
        let (all, low, high, none) =
            (assignment(&[0, 1, 2]), assignment(&[0, 1]), assignment(&[2]), assignment(&[]));
        let garbage = vec![1];
        let check = |before: &[(&str, &Vec<u8>)], after: &[(&str, &Vec<u8>)], expected: &str| {
            let before = before.iter().map(|(owner, bytes)| (*owner, bytes.as_slice()));
            let after = after.iter().map(|(owner, bytes)| (*owner, bytes.as_slice()));
            let shown = moves(before, after).map(|Moves { moved, unowned }| format!("{moved} {unowned:?}"));
            assert_eq!(shown.as_deref().unwrap_or("none"), expected);
        };
        check(&[], &[("a", &all)], "0 {}");
        check(&[("a", &all)], &[("a", &all)], "0 {}");
        check(&[("a", &all)], &[("a", &low), ("b", &high)], "1 {}");
        check(&[("a", &low), ("b", &high)], &[("a", &high), ("b", &low)], "3 {}");
        check(&[("a", &garbage)], &[], "none");
        // Cooperative: taken first, given away later.
        check(&[("a", &all)], &[("a", &low), ("b", &none)], r#"0 {"a": {"t": [2]}}"#);
        check(&[("a", &high), ("a", &low), ("b", &none)], &[("a", &low), ("b", &high)], "1 {}");
        check(&[("a", &high), ("a", &low), ("b", &none)], &[("a", &all), ("b", &none)], "0 {}");
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
            for one in [&bytes, &versioned] {
                for other in [&bytes, &versioned] {
                    let _ = (same_topics(one, other), partitions_given_up(one, other));
                }
            }
        }
    }
}
