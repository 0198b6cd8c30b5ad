//! Facts about groups that survive a restart, and the two logs that they stand in.
//!
//! Members, assignments and offsets are records of `__consumer_offsets` in Kafka's own formats, so that Kafka's tools
//! read them. What those formats have no room for stands in partition 1 of `__kohort`, with text keys and JSON values.
//! Both logs are compacted by key: a record says all there is to say under its key.

mod group_metadata;
pub(in crate::group) mod kafka_bytes;
mod kohort_value;
mod offset_commit;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::Event;
use crate::ids::{GroupId, OrgId};
use crate::record::RecordError;

pub use group_metadata::{GroupValue, MemberValue};
pub use kafka_bytes::KAFKA_TEXT_MAX;
pub use offset_commit::OffsetValue;

use kafka_bytes::{KafkaBytes, put_text};

/// One fact about a group. Applying all of a shard in their order gives back what the shard knew.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupRecord {
    /// How far the group has read one partition.
    Offset {
        /// The group's name.
        group: Arc<str>,
        /// The topic's name.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// The offset; `None` when it is forgotten.
        value: Option<OffsetValue>,
    },
    /// Who is in the group, as of its last complete rebalance.
    Group {
        /// The group's name.
        group: Arc<str>,
        /// The members; `None` when the group is gone.
        value: Option<Box<GroupValue>>,
    },
    /// Which group it is, and the highest generation that it may have given out.
    Identity(Identity),
    /// The group of this id is gone.
    IdentityDeleted(GroupId),
    /// One place in the ring of a group's events.
    Event {
        /// The group.
        id: GroupId,
        /// The place in the ring.
        slot: u32,
        /// What happened; `None` when the group is gone.
        event: Option<Box<Event>>,
    },
}

/// What is stored of a group beside Kafka's formats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The group's id, minted once.
    pub id: GroupId,
    /// The organisation that the group belongs to.
    pub org: OrgId,
    /// The name by which clients know it.
    pub name: Arc<str>,
    /// The highest generation that may have been given out.
    pub generation: i32,
    /// When the group was first seen, in milliseconds since 1970.
    pub created_ms: i64,
}

/// The log that a record belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupLog {
    /// The group's partition of its organisation's `__consumer_offsets`.
    Offsets,
    /// Partition 1 of `__kohort`, shared by all shards.
    Kohort,
}

/// What a key and a value of a log turn out to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded {
    /// A record.
    Record(GroupRecord),
    /// A record of `__consumer_offsets` of a type that is not used here, such as a share group's. It is skipped, as
    /// Kafka skips types that it does not know.
    Other {
        /// The number with which the key begins.
        kind: i16,
    },
}

/// A key and a value that cannot be taken for a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupRecordError {
    /// The key of a record in `__consumer_offsets` does not follow Kafka's format.
    #[error("a key in __consumer_offsets cannot be read: {reason}")]
    Key {
        /// What is wrong.
        reason: &'static str,
    },
    /// The value does not follow the format that its key promises.
    #[error("the {of} of group `{group}` in __consumer_offsets cannot be read: {reason}")]
    Value {
        /// What kind of value it should be.
        of: &'static str,
        /// The group's name.
        group: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The value is of a version that Kafka 4.3 does not know either.
    #[error(
        "the {of} of group `{group}` in __consumer_offsets has version {version}; this Kohort reads 0 to 4"
    )]
    Version {
        /// What kind of value it should be.
        of: &'static str,
        /// The group's name.
        group: String,
        /// The version.
        version: i16,
    },
    /// A record of `__kohort` that this version did not write.
    #[error(transparent)]
    Kohort(#[from] RecordError),
}

/// Record types of `__consumer_offsets`: the first two bytes of a key.
const LEGACY_OFFSET: i16 = 0;
const OFFSET: i16 = 1;
const GROUP: i16 = 2;

impl GroupRecord {
    /// The log that the record belongs to.
    pub fn log(&self) -> GroupLog {
        match self {
            Self::Offset { .. } | Self::Group { .. } => GroupLog::Offsets,
            Self::Identity(_) | Self::IdentityDeleted(_) | Self::Event { .. } => GroupLog::Kohort,
        }
    }

    /// Whether the record is a key without a value.
    pub fn is_tombstone(&self) -> bool {
        match self {
            Self::Offset { value, .. } => value.is_none(),
            Self::Group { value, .. } => value.is_none(),
            Self::Event { event, .. } => event.is_none(),
            Self::Identity(_) => false,
            Self::IdentityDeleted(_) => true,
        }
    }

    /// Replaces what is in `key` and `value` by the record's bytes. Nothing is allocated for a record of
    /// `__consumer_offsets` once the buffers have grown to its size.
    ///
    /// The value of a tombstone comes out empty; it is [`Self::is_tombstone`] that says it is null.
    /// Names longer than [`KAFKA_TEXT_MAX`] are cut, because Kafka's keys have no room for them: whoever takes a group
    /// name from a client refuses those first.
    pub fn encode_into(&self, key: &mut Vec<u8>, value: &mut Vec<u8>) {
        key.clear();
        value.clear();
        match self {
            Self::Offset { group, topic, partition, value: offset } => {
                key.extend_from_slice(&OFFSET.to_be_bytes());
                put_text(key, group);
                put_text(key, topic);
                key.extend_from_slice(&partition.to_be_bytes());
                if let Some(offset) = offset {
                    offset.encode_into(value);
                }
            }
            Self::Group { group, value: members } => {
                key.extend_from_slice(&GROUP.to_be_bytes());
                put_text(key, group);
                if let Some(members) = members {
                    members.encode_into(value);
                }
            }
            Self::Identity(identity) => {
                kohort_value::put_group_key(key, identity.id);
                kohort_value::put_json(value, identity);
            }
            Self::IdentityDeleted(id) => kohort_value::put_group_key(key, *id),
            Self::Event { id, slot, event } => {
                kohort_value::put_event_key(key, *id, *slot);
                if let Some(event) = event {
                    kohort_value::put_json(value, event);
                }
            }
        }
    }

    /// What [`Self::encode_into`], or Kafka, made these bytes of.
    ///
    /// # Errors
    /// When neither Kafka 4.3 nor this version of Kohort would write such bytes.
    pub fn decode(log: GroupLog, key: &[u8], value: Option<&[u8]>) -> Result<Decoded, GroupRecordError> {
        match log {
            GroupLog::Offsets => Self::decode_of_offsets(key, value),
            GroupLog::Kohort => Ok(Decoded::Record(kohort_value::decode(key, value)?)),
        }
    }

    fn decode_of_offsets(key: &[u8], value: Option<&[u8]>) -> Result<Decoded, GroupRecordError> {
        let bad_key = |reason| GroupRecordError::Key { reason };
        let mut key = KafkaBytes::new(key);
        let record = match key.i16().map_err(bad_key)? {
            LEGACY_OFFSET | OFFSET => {
                let group = key.text().map_err(bad_key)?;
                let topic = key.text().map_err(bad_key)?;
                let partition = key.i32().map_err(bad_key)?;
                let value = value.map(|value| OffsetValue::decode(&group, value)).transpose()?;
                Self::Offset { group: group.into(), topic: topic.into(), partition, value }
            }
            GROUP => {
                let group = key.text().map_err(bad_key)?;
                let value = value.map(|value| GroupValue::decode(&group, value)).transpose()?;
                Self::Group { group: group.into(), value: value.map(Box::new) }
            }
            kind => return Ok(Decoded::Other { kind }),
        };
        Ok(Decoded::Record(record))
    }
}

#[cfg(test)]
mod tests;
