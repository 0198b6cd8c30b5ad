//! What is answered about groups.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::access::Operations;
use crate::error_code::ErrorCode;
use crate::ids::TopicId;
use crate::op::TopicRef;

/// A member of the new generation, or why not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JoinGroup {
    /// The member's id: its own, a new one, or empty where Kafka gives none back.
    pub member_id: String,
    /// The generation that it is in, or why it is in none.
    pub result: Result<Box<Joined>, ErrorCode>,
}

/// A generation as one member sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    /// The generation.
    pub generation: i32,
    /// What kind of group it is.
    pub protocol_type: Option<String>,
    /// The protocol that was chosen.
    pub protocol: Option<String>,
    /// The leader's member id.
    pub leader: String,
    /// All members, if this one shall assign; else none.
    pub members: Vec<JoinedMember>,
    /// Whether the leader keeps the assignment that there is (KIP-814).
    pub skip_assignment: bool,
}

/// One member, as the leader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JoinedMember {
    /// The member's id.
    pub member_id: String,
    /// The name that a static member keeps over restarts.
    pub instance_id: Option<String>,
    /// What the member said about itself in the chosen protocol.
    pub metadata: Bytes,
}

/// The member's assignment, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SyncGroup {
    /// The assignment.
    pub result: Result<Box<Synced>, ErrorCode>,
}

/// An assignment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Synced {
    /// What kind of group it is.
    pub protocol_type: Option<String>,
    /// The protocol that was chosen.
    pub protocol: Option<String>,
    /// What the leader assigned; empty for a member that it left out.
    pub assignment: Bytes,
}

/// Whether all is well, or what the member must do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// What is wrong, if anything.
    pub error: Option<ErrorCode>,
}

/// What became of those who leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaveGroup {
    /// In the request's order, or why nobody could leave.
    pub result: Result<Vec<LeftMember>, ErrorCode>,
}

/// What became of one who leaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftMember {
    /// The member's id as it was sent.
    pub member_id: String,
    /// The instance id as it was sent.
    pub instance_id: Option<String>,
    /// What is wrong, if anything.
    pub error: Option<ErrorCode>,
}

/// What became of each offset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffsetCommit {
    /// In the request's order.
    pub topics: Vec<OffsetCommitTopic>,
}

/// What became of one topic's offsets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffsetCommitTopic {
    /// The topic as the client named it.
    pub topic: TopicRef,
    /// Partition numbers and what is wrong with each, in the request's order.
    pub partitions: Vec<(i32, Option<ErrorCode>)>,
}

/// Offsets of groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffsetFetch {
    /// In the request's order.
    pub groups: Vec<OffsetFetchGroup>,
}

/// Offsets of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffsetFetchGroup {
    /// The group's id.
    pub group: String,
    /// What is wrong with the whole group. The topics that were asked for are then there with the same error, for
    /// the version that has no other place for it.
    pub error: Option<ErrorCode>,
    /// In the request's order; by name when all were asked for.
    pub topics: Vec<OffsetFetchTopic>,
}

/// Offsets of one topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffsetFetchTopic {
    /// The topic's name; empty where an unknown id was asked for.
    pub name: String,
    /// The topic's id; zero where it is not known.
    pub id: TopicId,
    /// In the request's order; by number when all were asked for.
    pub partitions: Vec<FetchedOffset>,
}

/// The offset of one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FetchedOffset {
    /// The partition's number.
    pub index: i32,
    /// The offset of the next record to read; -1 where none is committed.
    pub offset: i64,
    /// The leader epoch of the last record read, or -1.
    pub leader_epoch: i32,
    /// Whatever the client wanted to remember with it.
    pub metadata: String,
    /// What is wrong, if anything.
    pub error: Option<ErrorCode>,
}

impl FetchedOffset {
    /// A partition for which nothing is committed, or nothing can be told.
    pub const fn none(index: i32, error: Option<ErrorCode>) -> Self {
        Self { index, offset: -1, leader_epoch: -1, metadata: String::new(), error }
    }
}

/// What became of the offsets to forget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffsetDelete {
    /// In the request's order, or why nothing was forgotten.
    pub result: Result<Vec<OffsetDeleteTopic>, ErrorCode>,
}

/// A topic's name, and its partitions with what is wrong with each.
pub type OffsetDeleteTopic = (String, Vec<(i32, Option<ErrorCode>)>);

/// The state of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GroupState {
    /// Nobody is in it.
    Empty,
    /// Members are joining.
    PreparingRebalance,
    /// Members wait for the leader's assignment.
    CompletingRebalance,
    /// Every member has its assignment.
    Stable,
    /// There is no such group.
    Dead,
}

impl GroupState {
    /// Every state.
    pub const ALL: [Self; 5] =
        [Self::Empty, Self::PreparingRebalance, Self::CompletingRebalance, Self::Stable, Self::Dead];

    /// Kafka's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        }
    }
}

impl fmt::Display for GroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The groups that there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListGroups {
    /// By id, or why they cannot be listed.
    pub result: Result<Vec<ListedGroup>, ErrorCode>,
}

/// One group in a list. All are classic groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedGroup {
    /// The group's id.
    pub group: String,
    /// What kind of group it is; empty for one that only has offsets.
    pub protocol_type: String,
    /// Its state.
    pub state: GroupState,
}

/// Groups with their members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeGroups {
    /// In the request's order.
    pub groups: Vec<DescribedGroup>,
}

/// One group with its members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribedGroup {
    /// The group's id.
    pub group: String,
    /// Why it cannot be shown now, if so. A group that does not exist is shown as dead and has no error here.
    pub error: Option<ErrorCode>,
    /// Its state.
    pub state: GroupState,
    /// What kind of group it is.
    pub protocol_type: String,
    /// The protocol that was chosen; empty unless the group is stable.
    pub protocol: String,
    /// The members, by id.
    pub members: Vec<DescribedMember>,
    /// What the user may do with the group.
    pub operations: Operations,
}

/// One member of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribedMember {
    /// The member's id.
    pub member_id: String,
    /// The name that a static member keeps over restarts.
    pub instance_id: Option<String>,
    /// What the client calls itself.
    pub client_id: String,
    /// The client's address as Kafka writes it, with a slash in front.
    pub client_host: String,
    /// What the member said about itself in the chosen protocol; empty unless the group is stable.
    pub metadata: Bytes,
    /// What the member was assigned last.
    pub assignment: Bytes,
}

/// What became of the groups to remove.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeleteGroups {
    /// Ids and what is wrong with each; an id that was sent twice is there once.
    pub groups: Vec<(String, Option<ErrorCode>)>,
}
