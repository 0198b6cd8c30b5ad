//! The members of a group, as the value of a record in `__consumer_offsets`.

use bytes::Bytes;

use super::GroupRecordError;
use super::kafka_bytes::{
    KAFKA_TEXT_MAX, KafkaBytes, Problem, put_bytes, put_compact_bytes, put_compact_count,
    put_compact_nullable_text, put_compact_text, put_count, put_nullable_text, put_text,
};

/// A group as of its last complete rebalance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupValue {
    /// What kind of group it is; `consumer` for consumers.
    pub protocol_type: String,
    /// The generation.
    pub generation: i32,
    /// The protocol that was chosen; none while nobody is in the group.
    pub protocol: Option<String>,
    /// The leader's member id; none while nobody is in the group.
    pub leader: Option<String>,
    /// When the group came into its state, in milliseconds since 1970; records of old versions do not say it.
    pub state_timestamp_ms: Option<i64>,
    /// The members.
    pub members: Vec<MemberValue>,
}

/// A member of a group as of its last complete rebalance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberValue {
    /// The member's id.
    pub member_id: String,
    /// The name that a static member keeps over restarts.
    pub instance_id: Option<String>,
    /// What the client calls itself.
    pub client_id: String,
    /// The client's address as Kafka writes it, with a slash in front.
    pub client_host: String,
    /// How long the member may take to join again.
    pub rebalance_timeout_ms: i32,
    /// How long the member may be silent.
    pub session_timeout_ms: i32,
    /// What the member said about itself in the chosen protocol.
    pub subscription: Bytes,
    /// What the leader assigned to it.
    pub assignment: Bytes,
}

const WRITTEN: i16 = 3;
const NEWEST: i16 = 4;

impl GroupValue {
    /// Appends the bytes that Kafka 4.3 writes for it, which are of version 3.
    ///
    /// A member id made of the longest client id that Kafka allows is longer than that version can say. Kafka fails
    /// the rebalance then; here the value is written in version 4, whose lengths have no such bound.
    pub(super) fn encode_into(&self, out: &mut Vec<u8>) {
        if self.texts().any(|text| text.len() > KAFKA_TEXT_MAX) {
            return self.encode_flexible_into(out);
        }
        out.extend_from_slice(&WRITTEN.to_be_bytes());
        put_text(out, &self.protocol_type);
        out.extend_from_slice(&self.generation.to_be_bytes());
        put_nullable_text(out, self.protocol.as_deref());
        put_nullable_text(out, self.leader.as_deref());
        out.extend_from_slice(&self.state_timestamp_ms.unwrap_or(-1).to_be_bytes());
        put_count(out, self.members.len());
        for member in &self.members {
            put_text(out, &member.member_id);
            put_nullable_text(out, member.instance_id.as_deref());
            put_text(out, &member.client_id);
            put_text(out, &member.client_host);
            out.extend_from_slice(&member.rebalance_timeout_ms.to_be_bytes());
            out.extend_from_slice(&member.session_timeout_ms.to_be_bytes());
            put_bytes(out, &member.subscription);
            put_bytes(out, &member.assignment);
        }
    }

    pub(super) fn encode_flexible_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&NEWEST.to_be_bytes());
        put_compact_text(out, &self.protocol_type);
        out.extend_from_slice(&self.generation.to_be_bytes());
        put_compact_nullable_text(out, self.protocol.as_deref());
        put_compact_nullable_text(out, self.leader.as_deref());
        out.extend_from_slice(&self.state_timestamp_ms.unwrap_or(-1).to_be_bytes());
        put_compact_count(out, self.members.len());
        for member in &self.members {
            put_compact_text(out, &member.member_id);
            put_compact_nullable_text(out, member.instance_id.as_deref());
            put_compact_text(out, &member.client_id);
            put_compact_text(out, &member.client_host);
            out.extend_from_slice(&member.rebalance_timeout_ms.to_be_bytes());
            out.extend_from_slice(&member.session_timeout_ms.to_be_bytes());
            put_compact_bytes(out, &member.subscription);
            put_compact_bytes(out, &member.assignment);
            out.push(0);
        }
        out.push(0);
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        let own = [Some(&self.protocol_type), self.protocol.as_ref(), self.leader.as_ref()];
        let members = self.members.iter().flat_map(|member| {
            let ids = [Some(&member.member_id), member.instance_id.as_ref()];
            ids.into_iter().chain([Some(&member.client_id), Some(&member.client_host)])
        });
        own.into_iter().chain(members).flatten().map(String::as_str)
    }

    pub(super) fn decode(group: &str, value: &[u8]) -> Result<Self, GroupRecordError> {
        const OF: &str = "membership";
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
        let mut group = Self {
            protocol_type: value.text()?.into_owned(),
            generation: value.i32()?,
            protocol: value.nullable_text()?.map(Into::into),
            leader: value.nullable_text()?.map(Into::into),
            state_timestamp_ms: if version >= 2 {
                Some(value.i64()?).filter(|time| *time != -1)
            } else {
                None
            },
            members: Vec::new(),
        };
        for _ in 0..value.count()? {
            group.members.push(MemberValue::read(value, version)?);
        }
        value.tagged(|_, _| Ok(()))?;
        Ok(group)
    }
}

impl MemberValue {
    fn read(value: &mut KafkaBytes<'_>, version: i16) -> Result<Self, Problem> {
        let member_id = value.text()?.into_owned();
        let instance_id = if version >= 3 { value.nullable_text()?.map(Into::into) } else { None };
        let client_id = value.text()?.into_owned();
        let client_host = value.text()?.into_owned();
        let rebalance_timeout_ms = if version >= 1 { value.i32()? } else { -1 };
        let session_timeout_ms = value.i32()?;
        let subscription = Bytes::copy_from_slice(value.bytes()?);
        let assignment = Bytes::copy_from_slice(value.bytes()?);
        value.tagged(|_, _| Ok(()))?;
        Ok(Self {
            member_id,
            instance_id,
            client_id,
            client_host,
            // Members of the first protocol had one timeout for both.
            rebalance_timeout_ms: if rebalance_timeout_ms == -1 {
                session_timeout_ms
            } else {
                rebalance_timeout_ms
            },
            session_timeout_ms,
            subscription,
            assignment,
        })
    }
}
