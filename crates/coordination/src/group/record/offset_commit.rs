//! A committed offset, as the value of a record in `__consumer_offsets`.

use super::GroupRecordError;
use super::kafka_bytes::{KafkaBytes, Problem, put_compact_text, put_text};
use crate::ids::TopicId;

/// How far a group has read one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetValue {
    /// The offset of the next record to read.
    pub offset: i64,
    /// The leader epoch of the last record read, or -1.
    pub leader_epoch: i32,
    /// Whatever the client wanted to remember with it.
    pub metadata: Box<str>,
    /// When it was committed, in milliseconds since 1970.
    pub commit_ms: i64,
    /// When it expires, if the client said so, which only old versions of OffsetCommit can. The value's version that
    /// has this field has none for the leader epoch and the topic id, so they are -1 and zero beside it.
    pub expire_ms: Option<i64>,
    /// The topic's id when the offset was committed; zero where it was not known.
    pub topic_id: TopicId,
}

const WITH_EXPIRY: i16 = 1;
const NEWEST: i16 = 4;

impl OffsetValue {
    /// Appends the bytes that Kafka 4.3 writes for it: version 1 with an expiry, else version 4.
    pub(super) fn encode_into(&self, out: &mut Vec<u8>) {
        if let Some(expire_ms) = self.expire_ms {
            out.extend_from_slice(&WITH_EXPIRY.to_be_bytes());
            out.extend_from_slice(&self.offset.to_be_bytes());
            put_text(out, &self.metadata);
            out.extend_from_slice(&self.commit_ms.to_be_bytes());
            out.extend_from_slice(&expire_ms.to_be_bytes());
            return;
        }
        out.extend_from_slice(&NEWEST.to_be_bytes());
        out.extend_from_slice(&self.offset.to_be_bytes());
        out.extend_from_slice(&self.leader_epoch.to_be_bytes());
        put_compact_text(out, &self.metadata);
        out.extend_from_slice(&self.commit_ms.to_be_bytes());
        if self.topic_id.is_zero() {
            out.push(0);
        } else {
            // One tagged field: tag 0, 16 bytes long.
            out.extend_from_slice(&[1, 0, 16]);
            out.extend_from_slice(&self.topic_id.as_u128().to_be_bytes());
        }
    }

    pub(super) fn decode(group: &str, value: &[u8]) -> Result<Self, GroupRecordError> {
        const OF: &str = "committed offset";
        let bad = |reason| GroupRecordError::Value { of: OF, group: group.to_owned(), reason };
        let mut value = KafkaBytes::new(value);
        let version = value.i16().map_err(bad)?;
        if !(0..=NEWEST).contains(&version) {
            return Err(GroupRecordError::Version { of: OF, group: group.to_owned(), version });
        }
        Self::read(&mut value, version).map_err(bad)
    }

    fn read(value: &mut KafkaBytes<'_>, version: i16) -> Result<Self, Problem> {
        if version >= 4 {
            value.set_flexible();
        }
        let offset = value.i64()?;
        let leader_epoch = if version >= 3 { value.i32()? } else { -1 };
        let metadata = value.text()?.into();
        let commit_ms = value.i64()?;
        let expire_ms = if version == WITH_EXPIRY { Some(value.i64()?) } else { None };
        let mut topic_id = TopicId::ZERO;
        value.tagged(|tag, field| {
            if tag == 0 {
                topic_id = TopicId::from_u128(field.u128()?);
            }
            Ok(())
        })?;
        let expire_ms = expire_ms.filter(|expire_ms| *expire_ms != -1);
        Ok(Self { offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id })
    }
}
