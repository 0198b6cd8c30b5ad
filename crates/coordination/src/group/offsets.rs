//! The committed offsets of one group.
//!
//! There may be a million of them in a hundred thousand groups, so one takes 32 bytes unless it has metadata, an
//! expiry of its own or was committed to an earlier topic of the name.

use std::sync::Arc;
use std::time::Duration;

use super::record::{KAFKA_TEXT_MAX, OffsetValue};
use crate::ids::TopicId;

/// The committed offsets of one group, by topic and partition.
#[derive(Clone, Debug, Default)]
pub struct Offsets {
    /// By name.
    topics: Vec<TopicOffsets>,
    /// How many offsets there are.
    count: usize,
    /// About how much memory they take.
    bytes: usize,
}

/// One offset, as it was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedOffset<'a> {
    /// The offset of the next record to read.
    pub offset: i64,
    /// The leader epoch of the last record read, or -1.
    pub leader_epoch: i32,
    /// Whatever the client wanted to remember with it.
    pub metadata: &'a str,
    /// When it was committed, in milliseconds since 1970.
    pub commit_ms: i64,
    /// When it expires, if the client said so.
    pub expire_ms: Option<i64>,
    /// The topic's id when the offset was committed; zero where it was not known.
    pub topic_id: TopicId,
}

/// From when on the retention of an offset without an expiry of its own is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryBase {
    /// From its commit: groups without a protocol type, and topics that a stable consumer group no longer reads.
    Commit,
    /// From this moment, in milliseconds since 1970: when the group lost its last member.
    Since(i64),
}

/// Whether a metadata text is short enough to be stored.
///
/// As in Kafka, `offset.metadata.max.bytes` counts the text's UTF-16 units in spite of its name. A text also has to fit
/// the record's format, which Kafka's clients cannot exceed.
pub fn metadata_fits(metadata: &str, units_max: usize) -> bool {
    // A text never has more units than bytes, so that the usual ones are not counted at all.
    let fits = metadata.len() <= units_max || metadata.encode_utf16().count() <= units_max;
    fits && metadata.len() <= KAFKA_TEXT_MAX
}

#[derive(Clone, Debug)]
struct TopicOffsets {
    name: Arc<str>,
    /// The id that most of the offsets were committed to.
    id: TopicId,
    /// By partition. Partitions are mostly committed in their order, which appends.
    partitions: Vec<PartitionOffset>,
}

#[derive(Clone, Debug)]
struct PartitionOffset {
    offset: i64,
    commit_ms: i64,
    leader_epoch: i32,
    partition: i32,
    unusual: Option<Box<Unusual>>,
}

/// What most offsets do not have.
#[derive(Clone, Debug)]
struct Unusual {
    metadata: Box<str>,
    expire_ms: Option<i64>,
    topic_id: TopicId,
}

impl Offsets {
    /// Makes `value` the offset of a partition, or forgets the partition's offset when there is none.
    pub fn set(&mut self, topic: &Arc<str>, partition: i32, value: Option<&OffsetValue>) {
        match (value, self.place(topic)) {
            (Some(value), Ok(place)) => self.commit(place, partition, value),
            (Some(value), Err(place)) => {
                let id = value.topic_id;
                self.topics.insert(place, TopicOffsets { name: topic.clone(), id, partitions: Vec::new() });
                self.bytes += topic_bytes(topic);
                self.commit(place, partition, value);
            }
            (None, Ok(place)) => self.forget(place, partition),
            (None, Err(_)) => {}
        }
    }

    /// Forgets many offsets, by name and number, as one by one each would move all that come behind it.
    pub fn forget_all(&mut self, gone: &[(Arc<str>, i32)]) {
        for gone in gone.chunk_by(|(topic, _), (next, _)| topic == next) {
            let Ok(place) = self.place(&gone[0].0) else { continue };
            let topic = &mut self.topics[place];
            topic.partitions.retain(|offset| {
                let stays =
                    gone.binary_search_by_key(&offset.partition, |(_, partition)| *partition).is_err();
                if !stays {
                    self.bytes -= offset.bytes();
                    self.count -= 1;
                }
                stays
            });
            if topic.partitions.is_empty() {
                self.bytes -= topic_bytes(&topic.name);
            }
        }
        self.topics.retain(|topic| !topic.partitions.is_empty());
    }

    /// Makes places for offsets that are about to be set, as one by one each would move all that come behind it.
    pub fn make_places(&mut self, mut places: Vec<(&Arc<str>, TopicId, i32)>) {
        places.retain(|(topic, _, partition)| self.get(topic, *partition).is_none());
        if places.is_empty() {
            return;
        }
        places.sort_unstable_by_key(|(topic, _, partition)| (*topic, *partition));
        places.dedup_by_key(|(topic, _, partition)| (*topic, *partition));
        let mut new = Vec::new();
        for places in places.chunk_by(|(topic, ..), (next, ..)| topic == next) {
            let (name, id, _) = places[0];
            let partitions = places.iter().map(|(.., partition)| PartitionOffset::unset(*partition));
            self.count += places.len();
            self.bytes += places.len() * size_of::<PartitionOffset>();
            match self.place(name) {
                Ok(place) => {
                    let topic = &mut self.topics[place];
                    topic.partitions.extend(partitions);
                    topic.partitions.sort_by_key(|offset| offset.partition);
                }
                Err(_) => {
                    self.bytes += topic_bytes(name);
                    new.push(TopicOffsets { name: Arc::clone(name), id, partitions: partitions.collect() });
                }
            }
        }
        self.topics.extend(new);
        self.topics.sort_by(|topic, other| topic.name.cmp(&other.name));
    }

    /// The offset of a partition.
    pub fn get(&self, topic: &str, partition: i32) -> Option<CommittedOffset<'_>> {
        let topic = &self.topics[self.place(topic).ok()?];
        let place = topic.place(partition).ok()?;
        Some(topic.partitions[place].committed(topic.id))
    }

    /// The offset of a partition of the topic with this id. There is none if it was committed to another topic of the
    /// same name; an id that is not known, here or there, speaks for any topic.
    pub fn get_of(&self, topic: &str, id: TopicId, partition: i32) -> Option<CommittedOffset<'_>> {
        self.get(topic, partition)
            .filter(|committed| id.is_zero() || committed.topic_id.is_zero() || committed.topic_id == id)
    }

    /// Every offset with its topic and partition, by name and number.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, i32, CommittedOffset<'_>)> {
        self.topics.iter().flat_map(|topic| {
            let partitions = topic.partitions.iter();
            partitions.map(|offset| (&topic.name, offset.partition, offset.committed(topic.id)))
        })
    }

    /// The topics that have offsets, by name, each with its offsets, by partition.
    pub fn topics(
        &self,
    ) -> impl Iterator<Item = (&Arc<str>, impl Iterator<Item = (i32, CommittedOffset<'_>)>)> {
        self.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter();
            (&topic.name, partitions.map(|offset| (offset.partition, offset.committed(topic.id))))
        })
    }

    /// How many offsets there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether nothing is committed.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// About how much memory the offsets take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The offsets that nobody needs any more, by name and number.
    ///
    /// Offsets of topics that the group is subscribed to never expire. An offset with an expiry of its own follows that
    /// alone; every other one expires when `retention` has passed since `base`.
    pub fn expired(
        &self,
        now_ms: i64,
        retention: Duration,
        base: ExpiryBase,
        is_subscribed: impl Fn(&str) -> bool,
    ) -> Vec<(Arc<str>, i32)> {
        let retention_ms = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        let is_expired = |committed: CommittedOffset<'_>| match (committed.expire_ms, base) {
            (Some(expire_ms), _) => now_ms >= expire_ms,
            (None, ExpiryBase::Commit) => now_ms.saturating_sub(committed.commit_ms) >= retention_ms,
            (None, ExpiryBase::Since(base_ms)) => now_ms.saturating_sub(base_ms) >= retention_ms,
        };
        let mut expired = Vec::new();
        for topic in self.topics.iter().filter(|topic| !is_subscribed(&topic.name)) {
            let offsets = topic.partitions.iter().filter(|offset| is_expired(offset.committed(topic.id)));
            expired.extend(offsets.map(|offset| (topic.name.clone(), offset.partition)));
        }
        expired
    }

    /// The partitions whose offsets go with a deleted topic, by number: those committed to it, and those of which
    /// nobody knows any more which topic of the name it was.
    pub fn of_deleted_topic(&self, name: &str, id: TopicId) -> Vec<i32> {
        let Ok(place) = self.place(name) else { return Vec::new() };
        let topic = &self.topics[place];
        let partitions = topic.partitions.iter();
        let gone = partitions.filter(|offset| {
            let committed_to = offset.committed(topic.id).topic_id;
            committed_to.is_zero() || committed_to == id
        });
        gone.map(|offset| offset.partition).collect()
    }

    fn place(&self, topic: &str) -> Result<usize, usize> {
        self.topics.binary_search_by(|candidate| (*candidate.name).cmp(topic))
    }

    fn commit(&mut self, place: usize, partition: i32, value: &OffsetValue) {
        let topic = &mut self.topics[place];
        match topic.place(partition) {
            Ok(place) => {
                let offset = &mut topic.partitions[place];
                self.bytes -= offset.bytes();
                offset.update(topic.id, value);
                self.bytes += offset.bytes();
            }
            Err(place) => {
                let mut offset = PartitionOffset::unset(partition);
                offset.update(topic.id, value);
                self.bytes += offset.bytes();
                self.count += 1;
                topic.partitions.insert(place, offset);
            }
        }
    }

    fn forget(&mut self, topic_place: usize, partition: i32) {
        let topic = &mut self.topics[topic_place];
        let Ok(place) = topic.place(partition) else { return };
        let offset = topic.partitions.remove(place);
        self.bytes -= offset.bytes();
        self.count -= 1;
        if topic.partitions.is_empty() {
            let topic = self.topics.remove(topic_place);
            self.bytes -= topic_bytes(&topic.name);
        }
    }
}

/// What they say counts, not how it is stored, which depends on what was there before.
impl PartialEq for Offsets {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count && self.iter().eq(other.iter())
    }
}

impl TopicOffsets {
    fn place(&self, partition: i32) -> Result<usize, usize> {
        self.partitions.binary_search_by_key(&partition, |offset| offset.partition)
    }
}

impl PartitionOffset {
    fn unset(partition: i32) -> Self {
        Self { offset: 0, commit_ms: 0, leader_epoch: 0, partition, unusual: None }
    }

    /// Becomes `value` in place: a client that commits the same metadata again costs no allocation.
    fn update(&mut self, usual_id: TopicId, value: &OffsetValue) {
        self.offset = value.offset;
        self.commit_ms = value.commit_ms;
        self.leader_epoch = value.leader_epoch;
        if value.metadata.is_empty() && value.expire_ms.is_none() && value.topic_id == usual_id {
            self.unusual = None;
            return;
        }
        match &mut self.unusual {
            Some(unusual) => {
                if unusual.metadata != value.metadata {
                    unusual.metadata = value.metadata.clone();
                }
                unusual.expire_ms = value.expire_ms;
                unusual.topic_id = value.topic_id;
            }
            none => {
                *none = Some(Box::new(Unusual {
                    metadata: value.metadata.clone(),
                    expire_ms: value.expire_ms,
                    topic_id: value.topic_id,
                }));
            }
        }
    }

    fn committed(&self, usual_id: TopicId) -> CommittedOffset<'_> {
        let Self { offset, commit_ms, leader_epoch, .. } = *self;
        match &self.unusual {
            None => CommittedOffset {
                offset,
                leader_epoch,
                metadata: "",
                commit_ms,
                expire_ms: None,
                topic_id: usual_id,
            },
            Some(unusual) => CommittedOffset {
                offset,
                leader_epoch,
                metadata: &unusual.metadata,
                commit_ms,
                expire_ms: unusual.expire_ms,
                topic_id: unusual.topic_id,
            },
        }
    }

    fn bytes(&self) -> usize {
        let unusual = |unusual: &Unusual| size_of::<Unusual>() + unusual.metadata.len();
        size_of::<Self>() + self.unusual.as_deref().map_or(0, unusual)
    }
}

/// What a topic takes beside its offsets. The name is shared, but its last holder keeps it.
fn topic_bytes(name: &str) -> usize {
    size_of::<TopicOffsets>() + name.len()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const ID: TopicId = TopicId::from_u128(1);
    const OTHER: TopicId = TopicId::from_u128(2);

    fn at(offset: i64) -> OffsetValue {
        OffsetValue {
            offset,
            leader_epoch: -1,
            metadata: "".into(),
            commit_ms: 1_000,
            expire_ms: None,
            topic_id: ID,
        }
    }

    fn offsets(values: &[(&str, i32, OffsetValue)]) -> Offsets {
        let mut offsets = Offsets::default();
        for (topic, partition, value) in values {
            offsets.set(&Arc::from(*topic), *partition, Some(value));
        }
        offsets
    }

    fn names(list: &[(Arc<str>, i32)]) -> Vec<String> {
        list.iter().map(|(topic, partition)| format!("{topic}-{partition}")).collect()
    }

    #[test]
    fn an_offset_takes_32_bytes() {
        assert_eq!(size_of::<PartitionOffset>(), 32);
    }

    #[test]
    fn the_last_commit_counts_and_goes_back_too() {
        let offsets = offsets(&[("t", 0, at(7)), ("t", 0, at(3)), ("t", 1, at(-5))]);
        assert_eq!(offsets.get("t", 0).unwrap().offset, 3);
        assert_eq!(offsets.get("t", 1).unwrap().offset, -5);
        assert_eq!((offsets.get("t", 2), offsets.get("u", 0)), (None, None));
    }

    #[test]
    fn offsets_are_listed_by_name_and_number() {
        let offsets = offsets(&[("b", 2, at(1)), ("a", 10, at(2)), ("b", 1, at(3)), ("a", 9, at(4))]);
        let list: Vec<_> = offsets
            .iter()
            .map(|(topic, partition, at)| format!("{topic}-{partition}@{}", at.offset))
            .collect();
        assert_eq!(list, ["a-9@4", "a-10@2", "b-1@3", "b-2@1"]);
    }

    /// EXP-03, EXP-04, EXP-05: retention is counted from the commit, or from when the group became empty.
    #[test]
    fn an_offset_expires_when_its_retention_has_passed() {
        let offsets = offsets(&[("t", 0, at(1)), ("t", 1, OffsetValue { commit_ms: 2_000, ..at(1) })]);
        let expired = |now_ms, base| names(&offsets.expired(now_ms, Duration::from_secs(5), base, |_| false));
        assert!(expired(5_999, ExpiryBase::Commit).is_empty());
        assert_eq!(expired(6_000, ExpiryBase::Commit), ["t-0"]);
        assert_eq!(expired(7_000, ExpiryBase::Commit), ["t-0", "t-1"]);
        assert!(expired(7_000, ExpiryBase::Since(2_001)).is_empty());
        assert_eq!(expired(7_001, ExpiryBase::Since(2_001)), ["t-0", "t-1"]);
        assert!(expired(i64::MIN, ExpiryBase::Since(i64::MAX)).is_empty());
    }

    /// EXP-10.
    #[test]
    fn an_expiry_of_its_own_wins_over_the_retention() {
        let early = OffsetValue { expire_ms: Some(1_500), topic_id: TopicId::ZERO, ..at(1) };
        let late = OffsetValue { expire_ms: Some(90_000), topic_id: TopicId::ZERO, ..at(1) };
        let offsets = offsets(&[("t", 0, early), ("t", 1, late)]);
        let expired =
            |now_ms| names(&offsets.expired(now_ms, Duration::from_secs(5), ExpiryBase::Since(0), |_| false));
        assert!(expired(1_499).is_empty());
        assert_eq!(expired(1_500), ["t-0"]);
        assert_eq!(expired(89_999), ["t-0"]);
        assert_eq!(expired(90_000), ["t-0", "t-1"]);
    }

    #[test]
    fn offsets_of_subscribed_topics_never_expire() {
        let offsets = offsets(&[("read", 0, at(1)), ("left", 0, at(1))]);
        let expired =
            offsets.expired(i64::MAX, Duration::from_secs(1), ExpiryBase::Commit, |topic| topic == "read");
        assert_eq!(names(&expired), ["left-0"]);
    }

    /// EXP-15: the id rule of Kafka 4.3.
    #[test]
    fn a_deleted_topic_takes_its_own_offsets_and_those_of_unknown_topics() {
        let of = |topic_id| OffsetValue { topic_id, ..at(1) };
        let offsets = offsets(&[("t", 0, of(ID)), ("t", 1, of(OTHER)), ("t", 2, of(TopicId::ZERO))]);
        assert_eq!(offsets.of_deleted_topic("t", ID), [0, 2]);
        assert_eq!(offsets.of_deleted_topic("t", OTHER), [1, 2]);
        assert!(offsets.of_deleted_topic("u", ID).is_empty());
    }

    /// FETCH-18.
    #[test]
    fn an_offset_of_an_earlier_topic_is_not_found_by_the_new_id() {
        let mut offsets =
            offsets(&[("t", 0, at(1)), ("t", 1, OffsetValue { topic_id: TopicId::ZERO, ..at(2) })]);
        assert_eq!(offsets.get_of("t", ID, 0).unwrap().offset, 1);
        assert_eq!(offsets.get_of("t", OTHER, 0), None);
        assert_eq!(offsets.get_of("t", TopicId::ZERO, 0).unwrap().offset, 1);
        assert_eq!(offsets.get_of("t", OTHER, 1).unwrap().offset, 2);
        offsets.set(&Arc::from("t"), 0, Some(&OffsetValue { topic_id: OTHER, ..at(3) }));
        assert_eq!(offsets.get_of("t", OTHER, 0).unwrap().offset, 3);
    }

    #[test]
    fn metadata_is_measured_in_utf_16_units() {
        assert!(metadata_fits("", 0) && metadata_fits("abc", 3) && !metadata_fits("abcd", 3));
        assert!(metadata_fits("été", 3), "five bytes, three units");
        assert!(metadata_fits("🦀", 2) && !metadata_fits("🦀", 1), "a pair of surrogates");
        assert!(!metadata_fits(&"x".repeat(KAFKA_TEXT_MAX + 1), usize::MAX));
    }

    fn value() -> impl Strategy<Value = OffsetValue> {
        let metadata = prop_oneof![Just(""), Just("m"), Just("longer")];
        let ids = prop_oneof![Just(TopicId::ZERO), Just(ID), Just(OTHER)];
        (any::<i64>(), any::<i32>(), metadata, any::<i64>(), any::<Option<i64>>(), ids).prop_map(
            |(offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id)| OffsetValue {
                offset,
                leader_epoch,
                metadata: metadata.into(),
                commit_ms,
                expire_ms,
                topic_id,
            },
        )
    }

    proptest! {
        /// Whatever is set and forgotten, the compact form holds what a plain map would, and no byte is lost count of.
        #[test]
        fn the_compact_form_is_a_map(steps in proptest::collection::vec((0..3, 0..4, proptest::option::of(value())), 0..60)) {
            let mut offsets = Offsets::default();
            let mut plain = BTreeMap::new();
            for (topic, partition, value) in steps {
                let topic: Arc<str> = ["a", "b", "c"][usize::try_from(topic).unwrap()].into();
                offsets.set(&topic, partition, value.as_ref());
                match value {
                    Some(value) => plain.insert((topic, partition), value),
                    None => plain.remove(&(topic, partition)),
                };
            }
            // Many at once come out as one by one.
            let mut at_once = Offsets::default();
            at_once.make_places(plain.keys().rev().map(|(topic, partition)| (topic, ID, *partition)).collect());
            for ((topic, partition), value) in &plain {
                at_once.set(topic, *partition, Some(value));
            }
            prop_assert_eq!(&at_once, &offsets);
            let listed: Vec<_> = offsets.iter().map(|(topic, partition, at)| {
                let value = OffsetValue {
                    offset: at.offset,
                    leader_epoch: at.leader_epoch,
                    metadata: at.metadata.into(),
                    commit_ms: at.commit_ms,
                    expire_ms: at.expire_ms,
                    topic_id: at.topic_id,
                };
                ((topic.clone(), partition), value)
            }).collect();
            prop_assert_eq!(offsets.len(), plain.len());
            let keys: Vec<_> = plain.keys().cloned().collect();
            prop_assert_eq!(listed, plain.into_iter().collect::<Vec<_>>());
            let (one_by_one, together) = keys.split_at(keys.len() / 2);
            for (topic, partition) in one_by_one {
                offsets.set(topic, *partition, None);
            }
            offsets.forget_all(together);
            at_once.forget_all(&keys);
            prop_assert_eq!((at_once.is_empty(), at_once.bytes()), (true, 0));
            prop_assert_eq!((offsets.is_empty(), offsets.bytes()), (true, 0));
        }
    }
}
