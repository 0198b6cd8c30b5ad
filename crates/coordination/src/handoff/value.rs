//! What lies in etcd under the keys: JSON with a version. Fields that are not known are ignored, so that a newer
//! version can add some; a version that is not known is refused, since it means something else.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::limits::PARTITIONS_PER_TOPIC_MAX;

use super::key::Key;
use super::names::{ConsumerName, Epoch, HandoffId, SessionId, TopicName, TopicPartition};
use super::plan::Settings;

/// The version of all values that this version writes, and the only one it reads.
pub const VALUE_VERSION: u32 = 1;

/// A consumer that is registered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Consumer {
    /// The process behind the name.
    pub session: SessionId,
    /// The topics it works on; all topics of the group if there are none.
    #[serde(default)]
    pub topics: BTreeSet<TopicName>,
    /// How much it can carry, compared with the others.
    #[serde(default = "one")]
    pub capacity: u32,
    /// Where it runs. Partitions of the same place are preferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// What its operators say of it. Nothing is decided by it.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Whether it takes partitions.
    pub state: ConsumerState,
    /// Partitions whose state it says it has already.
    #[serde(default)]
    pub holds: BTreeSet<TopicPartition>,
    /// When its session began, in milliseconds since 1970.
    pub registered_ms: u64,
    /// Processes that were registered under the name before, and that may not have heard of it yet. Until they are gone
    /// the consumer is told of nothing that it owns.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub predecessors: BTreeSet<SessionId>,
    /// Processes that were registered under the name before, the latest last, whether they still work or not. They must
    /// not take the name back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fenced: Vec<SessionId>,
    /// The longest lease that the key has had since it is there, in milliseconds; zero if it is not known. Settings may
    /// have changed since a process was last told how long it may work.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lease_ttl_ms: u64,
}

/// Whether a consumer takes partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConsumerState {
    /// It does.
    Ready,
    /// It is about to leave: it gives away all that it owns and gets nothing. There is no way back for this session.
    Draining,
}

/// Who owns a partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Assignment {
    /// The owner.
    pub owner: ConsumerName,
    /// Counts the owners.
    pub epoch: Epoch,
}

/// A partition that is changing its owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Handoff {
    /// This handoff and no other.
    pub id: HandoffId,
    /// The epoch that the target will have as the owner.
    pub epoch: Epoch,
    /// The owner before.
    pub from: ConsumerName,
    /// The owner to be.
    pub to: ConsumerName,
    /// The process that warms up. A later one of the same name begins with nothing.
    pub to_session: SessionId,
    /// Whether both may work at the same time.
    pub mode: Mode,
    /// How far it has come.
    pub phase: Phase,
    /// When the phase began, in milliseconds since 1970.
    pub phase_since_ms: u64,
    /// How far the target is with warming up, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

/// Whether two consumers may work on a partition while it is handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Never: the target is assigned after the old owner has let go.
    #[default]
    Exclusive,
    /// The target is assigned when it is ready, and the old owner lets go after that. There is no pause, but what
    /// arrives meanwhile may be worked on twice.
    Overlap,
}

/// How far a handoff has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The target gathers its state while the owner works.
    Warming,
    /// The target is ready, and the owner has been told to let go. Only in the exclusive mode.
    Ready,
    /// The target is the owner, and the former one has been told to let go. Only in the overlap mode: in the exclusive
    /// one a handoff that is complete is deleted at once.
    Complete,
    /// It was given up. The partition stays where it is until it is time to try again.
    Cancelled,
}

/// How far a target is with warming up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Progress {
    /// How much is done, in whatever unit the consumer counts. Only growth extends the time it has.
    pub done: u64,
    /// How much there is to do; zero if it is not known.
    pub total: u64,
    /// When `done` last grew, in milliseconds since 1970.
    pub at_ms: u64,
}

/// A topic that the group works on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Topic {
    /// How many partitions it has.
    pub partitions: u32,
    /// How heavy each of its partitions is, compared with those of other topics.
    #[serde(default = "one")]
    pub weight: u32,
    /// How heavy single partitions are, if not as the topic says.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<u32, u32>,
    /// Where partitions are, for those of which it is known.
    #[serde(default)]
    pub racks: BTreeMap<u32, String>,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Consumer {
    /// A consumer that takes partitions of all topics, like any other.
    pub fn new(session: SessionId, registered_ms: u64) -> Self {
        Self {
            session,
            topics: BTreeSet::new(),
            capacity: 1,
            rack: None,
            labels: BTreeMap::new(),
            state: ConsumerState::Ready,
            holds: BTreeSet::new(),
            registered_ms,
            predecessors: BTreeSet::new(),
            fenced: Vec::new(),
            lease_ttl_ms: 0,
        }
    }

    /// Whether this process had the name before the one that has it now. Of two processes the later one has the name; the
    /// former one comes back because it has not heard of that.
    pub fn has_fenced(&self, session: SessionId) -> bool {
        self.predecessors.contains(&session) || self.fenced.contains(&session)
    }

    /// Whether it may be given partitions of this topic.
    pub fn takes(&self, topic: &TopicName) -> bool {
        self.state == ConsumerState::Ready && self.subscribes(topic)
    }

    /// Whether it works on this topic.
    pub fn subscribes(&self, topic: &TopicName) -> bool {
        self.topics.is_empty() || self.topics.contains(topic)
    }
}

impl Topic {
    /// A topic whose partitions all weigh the same.
    pub fn new(partitions: u32) -> Self {
        Self { partitions, weight: 1, weights: BTreeMap::new(), racks: BTreeMap::new() }
    }

    /// How heavy a partition is.
    pub fn weight_of(&self, partition: u32) -> u32 {
        self.weights.get(&partition).copied().unwrap_or(self.weight)
    }

    /// The numbers of its partitions. A typing error in the count must not fill the memory.
    pub fn partition_numbers(&self) -> std::ops::Range<u32> {
        0..self.partitions.min(PARTITIONS_PER_TOPIC_MAX.unsigned_abs())
    }
}

impl Handoff {
    /// When its phase has lasted too long, in milliseconds since 1970; for one that was given up, when to try again.
    pub fn deadline_ms(&self, settings: &Settings) -> u64 {
        let lasts = match self.phase {
            Phase::Warming => settings.warming_ms,
            Phase::Ready | Phase::Complete => settings.release_ms,
            Phase::Cancelled => settings.retry_ms,
        };
        let progressed =
            self.progress.filter(|_| self.phase == Phase::Warming).map_or(0, |known| known.at_ms);
        self.phase_since_ms.max(progressed).saturating_add(lasts)
    }
}

/// A key together with its value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// A consumer is registered.
    Consumer(ConsumerName, Consumer),
    /// A partition has an owner.
    Assignment(TopicPartition, Assignment),
    /// A partition is changing its owner.
    Handoff(TopicPartition, Handoff),
    /// The group works on a topic.
    Topic(TopicName, Topic),
}

/// A value that this version cannot read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ValueError {
    /// It has another version.
    #[error(
        "the value has version {found}, but this version of the assigner reads version {}",
        VALUE_VERSION
    )]
    Version {
        /// The version of the value.
        found: u32,
    },
    /// It does not say what its key promises.
    #[error("the value cannot be read: {reason}")]
    Unreadable {
        /// What is wrong.
        reason: String,
    },
    /// The key is the leader's.
    #[error("what the leader's key holds is no part of a group")]
    Leader,
}

impl Entry {
    /// Where it lies.
    pub fn key(&self) -> Key {
        match self {
            Self::Consumer(name, _) => Key::Consumer(name.clone()),
            Self::Assignment(place, _) => Key::Assignment(place.clone()),
            Self::Handoff(place, _) => Key::Handoff(place.clone()),
            Self::Topic(name, _) => Key::Topic(name.clone()),
        }
    }

    /// The value as it lies in etcd.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Consumer(_, value) => json(value),
            Self::Assignment(_, value) => json(value),
            Self::Handoff(_, value) => json(value),
            Self::Topic(_, value) => json(value),
        }
    }

    /// Reads the value that lies under `key`.
    ///
    /// # Errors
    /// When it is not of this version, or not what the key promises.
    pub fn decode(key: Key, value: &[u8]) -> Result<Self, ValueError> {
        Ok(match key {
            Key::Consumer(name) => Self::Consumer(name, read(value)?),
            Key::Assignment(place) => Self::Assignment(place, read(value)?),
            Key::Handoff(place) => Self::Handoff(place, read(value)?),
            Key::Topic(name) => Self::Topic(name, read(value)?),
            Key::Leader => return Err(ValueError::Leader),
        })
    }
}

#[derive(Serialize)]
struct Versioned<'a, T> {
    version: u32,
    #[serde(flatten)]
    value: &'a T,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(&Versioned { version: VALUE_VERSION, value }).expect("all keys of its maps are text")
}

/// How many bytes a value has in etcd.
pub(super) fn encoded_length<T: Serialize>(value: &T) -> usize {
    json(value).len()
}

fn read<T: DeserializeOwned>(value: &[u8]) -> Result<T, ValueError> {
    let unreadable = |error: serde_json::Error| ValueError::Unreadable { reason: error.to_string() };
    let Version { version } = serde_json::from_slice(value).map_err(unreadable)?;
    if version != VALUE_VERSION {
        return Err(ValueError::Version { found: version });
    }
    serde_json::from_slice(value).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry> {
        let place = TopicPartition { topic: "t".parse().unwrap(), partition: 3 };
        let name: ConsumerName = "a".parse().unwrap();
        let consumer = Consumer {
            session: SessionId::from_u128(1),
            topics: BTreeSet::from([place.topic.clone()]),
            capacity: 2,
            rack: Some("r1".to_owned()),
            labels: BTreeMap::from([("pod".to_owned(), "a-0".to_owned())]),
            state: ConsumerState::Draining,
            holds: BTreeSet::from([place.clone()]),
            registered_ms: 5,
            predecessors: BTreeSet::from([SessionId::from_u128(3)]),
            fenced: vec![SessionId::from_u128(3)],
            lease_ttl_ms: 30_000,
        };
        let handoff = Handoff {
            id: HandoffId::from_u128(9),
            epoch: Epoch(4),
            from: name.clone(),
            to: "b".parse().unwrap(),
            to_session: SessionId::from_u128(2),
            mode: Mode::Overlap,
            phase: Phase::Cancelled,
            phase_since_ms: 7,
            progress: Some(Progress { done: 1, total: 2, at_ms: 8 }),
        };
        let racks = BTreeMap::from([(3, "r1".to_owned())]);
        vec![
            Entry::Consumer(name.clone(), consumer),
            Entry::Assignment(place.clone(), Assignment { owner: name, epoch: Epoch(3) }),
            Entry::Handoff(place.clone(), handoff),
            Entry::Topic(
                place.topic,
                Topic { weight: 2, weights: BTreeMap::from([(2, 9)]), racks, ..Topic::new(4) },
            ),
        ]
    }

    #[test]
    fn values_are_read_back_and_carry_their_version() {
        for entry in entries() {
            let bytes = entry.encode();
            assert!(bytes.starts_with(b"{\"version\":1,"), "{entry:?}");
            assert_eq!(Entry::decode(entry.key(), &bytes), Ok(entry));
        }
    }

    #[test]
    fn unknown_fields_are_ignored_and_unknown_versions_refused() {
        let key = || Key::Topic("t".parse().unwrap());
        let topic = Topic::new(4);
        let newer = br#"{"version":1,"partitions":4,"colour":"red"}"#;
        assert_eq!(Entry::decode(key(), newer), Ok(Entry::Topic("t".parse().unwrap(), topic)));
        let other = br#"{"version":2,"partitions":"many"}"#;
        assert_eq!(Entry::decode(key(), other), Err(ValueError::Version { found: 2 }));
        for unreadable in [&b"{\"partitions\":4}"[..], b"{\"version\":1}", b"", b"4"] {
            let refused = Entry::decode(key(), unreadable);
            assert!(matches!(refused, Err(ValueError::Unreadable { .. })), "{refused:?}");
        }
    }
}
