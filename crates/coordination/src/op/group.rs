//! What is asked of groups. Ids are as the client sent them; checking them is the group's business.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::TopicRef;

/// A member that joins, or joins again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JoinGroup {
    /// The group's id.
    pub group: String,
    /// The member's id; empty when it has none yet.
    pub member_id: String,
    /// The name that a static member keeps over restarts (KIP-345).
    pub instance_id: Option<String>,
    /// How long the member may be silent.
    pub session_timeout_ms: i32,
    /// How long the member may take to join again; the session timeout in version 0, which cannot say it.
    pub rebalance_timeout_ms: i32,
    /// What kind of group it is; `consumer` for consumers.
    pub protocol_type: String,
    /// Names and metadata of the protocols that the member offers, the best first.
    pub protocols: Vec<(String, Bytes)>,
    /// Why the member joins, for people (KIP-800).
    pub reason: Option<String>,
    /// Whether the client's version takes a member id first and then joins with it (KIP-394).
    pub takes_member_id_first: bool,
    /// Whether the client's version can be told not to assign although it leads (KIP-814).
    pub can_skip_assignment: bool,
}

/// A member that waits for its assignment, or the leader that brings everybody's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SyncGroup {
    /// The group's id.
    pub group: String,
    /// The generation that the member is in.
    pub generation: i32,
    /// The member's id.
    pub member_id: String,
    /// The name that a static member keeps over restarts.
    pub instance_id: Option<String>,
    /// The kind of group that the member takes it for.
    pub protocol_type: Option<String>,
    /// The protocol that the member takes for chosen.
    pub protocol: Option<String>,
    /// Whether the client's version must name both of them (KIP-559).
    pub must_name_protocol: bool,
    /// Member ids and their assignments; only the leader has any.
    pub assignments: Vec<(String, Bytes)>,
}

/// A member that is still there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The group's id.
    pub group: String,
    /// The generation that the member is in.
    pub generation: i32,
    /// The member's id.
    pub member_id: String,
    /// The name that a static member keeps over restarts.
    pub instance_id: Option<String>,
}

/// Members that leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaveGroup {
    /// The group's id.
    pub group: String,
    /// Who leaves, in the client's order.
    pub members: Vec<LeavingMember>,
}

/// One member that leaves, or is made to leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeavingMember {
    /// The member's id; empty when an administrator names it by its instance id alone.
    pub member_id: String,
    /// The name that a static member keeps over restarts.
    pub instance_id: Option<String>,
    /// Why, for people (KIP-800).
    pub reason: Option<String>,
}

/// How far a group has read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffsetCommit {
    /// The group's id; here it may be empty.
    pub group: String,
    /// The generation of the member that commits; negative for one that is no member.
    pub generation: i32,
    /// The member's id, or empty.
    pub member_id: String,
    /// The name that a static member keeps over restarts.
    pub instance_id: Option<String>,
    /// How long to keep the offsets, from the old versions that can say it.
    pub retention_ms: Option<i64>,
    /// Whether the client's version knows that a group can be missing.
    pub knows_missing_groups: bool,
    /// The topics, in the client's order.
    pub topics: Vec<OffsetCommitTopic>,
}

/// How far a group has read one topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffsetCommitTopic {
    /// The topic.
    pub topic: TopicRef,
    /// The partitions, in the client's order.
    pub partitions: Vec<OffsetCommitPartition>,
}

/// How far a group has read one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffsetCommitPartition {
    /// The partition's number as the client sent it.
    pub index: i32,
    /// The offset of the next record to read; not checked against anything.
    pub offset: i64,
    /// The leader epoch of the last record read, or -1.
    pub leader_epoch: i32,
    /// Whatever the client wants to remember with it.
    pub metadata: Option<String>,
}

/// Offsets that are asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffsetFetch {
    /// The groups, in the client's order.
    pub groups: Vec<OffsetFetchGroup>,
    /// Wait for what is being written, and refuse what a transaction has not decided.
    pub require_stable: bool,
    /// Whether the client's version names topics by id. Topics without one are then left out when all are asked
    /// for.
    pub by_id: bool,
}

/// Offsets that are asked for of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffsetFetchGroup {
    /// The group's id; here it may be empty.
    pub group: String,
    /// The member that asks, where the version has room for it (KIP-848).
    pub member_id: Option<String>,
    /// Its epoch, or -1.
    pub member_epoch: i32,
    /// The topics; `None` asks for all that have offsets.
    pub topics: Option<Vec<OffsetFetchTopic>>,
}

/// Offsets that are asked for of one topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffsetFetchTopic {
    /// The topic.
    pub topic: TopicRef,
    /// The partitions' numbers, in the client's order.
    pub partitions: Vec<i32>,
}

/// Offsets to forget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffsetDelete {
    /// The group's id.
    pub group: String,
    /// Names and partitions, in the client's order.
    pub topics: Vec<(String, Vec<i32>)>,
}

/// Which groups to list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListGroups {
    /// Names of states, in any case; empty asks for all.
    pub states: Vec<String>,
    /// Names of types, in any case; empty asks for all.
    pub types: Vec<String>,
}

/// Groups to show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeGroups {
    /// The groups' ids, in the client's order.
    pub groups: Vec<String>,
}

/// Groups to remove.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeleteGroups {
    /// The groups' ids, in the client's order.
    pub groups: Vec<String>,
}
