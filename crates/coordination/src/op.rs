//! What a gateway asks of the broker: one shape for each request, whatever version the client spoke.

mod group;
mod security;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error_code::ErrorCode;
use crate::ids::TopicId;

pub use group::{
    DeleteGroups, DescribeGroups, Heartbeat, JoinGroup, LeaveGroup, LeavingMember, ListGroups, OffsetCommit,
    OffsetCommitPartition, OffsetCommitTopic, OffsetDelete, OffsetFetch, OffsetFetchGroup, OffsetFetchTopic,
    SyncGroup,
};
pub use security::{
    AclFilter, AlterUserScramCredentials, CreateAcls, Credentials, DeleteAcls, DescribeAcls,
    DescribeClientQuotas, DescribeUserScramCredentials, FindCoordinator, NewScramCredential, QuotaComponent,
    ScramDeletion,
};

/// One request to the broker. The organisation travels on the carrier, not in here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Op {
    /// Which topics there are, and where their partitions are led.
    Metadata(Metadata),
    /// Append record batches.
    Produce(Produce),
    /// Read record batches, waiting for them if need be.
    Fetch(Fetch),
    /// Find offsets by time or by meaning.
    ListOffsets(ListOffsets),
    /// Find where a leader epoch ended.
    OffsetForLeaderEpoch(OffsetForLeaderEpoch),
    /// Make topics.
    CreateTopics(CreateTopics),
    /// Remove topics with all they hold.
    DeleteTopics(DeleteTopics),
    /// Give topics more partitions.
    CreatePartitions(CreatePartitions),
    /// Forget the records below an offset.
    DeleteRecords(DeleteRecords),
    /// Hand out an id for an idempotent producer.
    InitProducerId(InitProducerId),
    /// Show settings of topics and of the broker.
    DescribeConfigs(DescribeConfigs),
    /// Change settings one by one, or replace all that are set.
    AlterConfigs(AlterConfigs),
    /// Show topics page by page.
    DescribeTopicPartitions(DescribeTopicPartitions),
    /// Show how much disk partitions take.
    DescribeLogDirs(DescribeLogDirs),
    /// Show partitions that are being moved; on one node there are none.
    ListPartitionReassignments(ListPartitionReassignments),
    /// Which cluster this is.
    DescribeCluster(DescribeCluster),
    /// Become, or stay, a member of a group; answered when the group's next generation begins.
    JoinGroup(JoinGroup),
    /// Bring the assignment, as the leader, or wait for it.
    SyncGroup(SyncGroup),
    /// Still here. A member says the same until the next rebalance, so what it said can be kept and said again.
    Heartbeat(Arc<Heartbeat>),
    /// No longer a member.
    LeaveGroup(LeaveGroup),
    /// Remember how far a group has read.
    OffsetCommit(OffsetCommit),
    /// How far groups have read.
    OffsetFetch(OffsetFetch),
    /// Forget how far a group has read.
    OffsetDelete(OffsetDelete),
    /// Which groups there are.
    ListGroups(ListGroups),
    /// Show groups with their members.
    DescribeGroups(DescribeGroups),
    /// Remove groups with their offsets.
    DeleteGroups(DeleteGroups),
    /// Whether groups may be asked for here. Who coordinates them is always the gateway that was asked.
    FindCoordinator(FindCoordinator),
    /// What a gateway needs to know in order to check a login. No client can ask for it.
    Credentials(Credentials),
    /// Take a place among the connections that the carrier's organisation may have; `Rail::leave` gives it back.
    /// No client can ask for it.
    Enter,
    /// Allow or deny.
    CreateAcls(CreateAcls),
    /// What is allowed and denied.
    DescribeAcls(DescribeAcls),
    /// No longer allow or deny.
    DeleteAcls(DeleteAcls),
    /// Which users have passwords, and of which kind.
    DescribeUserScramCredentials(DescribeUserScramCredentials),
    /// Give users passwords, or take them away.
    AlterUserScramCredentials(AlterUserScramCredentials),
    /// What users, client ids and addresses are limited to.
    DescribeClientQuotas(DescribeClientQuotas),
}

/// How a request names a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TopicRef {
    /// By its name within the organisation.
    Name(String),
    /// By its id.
    Id(TopicId),
}

/// How a request fails to name one topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoTopicRef {
    /// By neither a name nor an id.
    Neither,
    /// By both, which may be two topics.
    Both {
        /// The name.
        name: String,
        /// The id.
        id: TopicId,
    },
}

/// Which topics [`Op::Metadata`] is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// `None` asks for all topics.
    pub topics: Option<Vec<TopicRef>>,
    /// Whether a named topic that does not exist may be created, if the broker's settings say so too.
    pub allow_auto_topic_creation: bool,
}

/// Record batches to append; answered per partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Produce {
    /// Set by transactional producers.
    pub transactional_id: Option<String>,
    /// 0: no answer is sent; 1 and -1: answered when durable.
    pub acks: i16,
    /// Whether the client's version knows zstd. From one that does not, such batches are refused.
    pub zstd: bool,
    /// The topics, in the client's order.
    pub topics: Vec<ProduceTopic>,
}

/// The batches for one topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProduceTopic {
    /// The topic.
    pub topic: TopicRef,
    /// The partitions, in the client's order.
    pub partitions: Vec<ProducePartition>,
}

/// The batches for one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProducePartition {
    /// The partition's number as the client sent it.
    pub index: i32,
    /// One or more record batches, sharing the client's frame; unchecked. `None` where the client sent null.
    pub records: Option<Bytes>,
}

/// What to read and how long to wait for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fetch {
    /// Answer after this time with whatever is there.
    pub max_wait: Duration,
    /// Answer as soon as this many bytes are there.
    pub min_bytes: i32,
    /// Stop adding batches beyond this many bytes; the first batch is always whole.
    pub max_bytes: i32,
    /// Read only what is below the last stable offset.
    pub read_committed: bool,
    /// The fetch session to use; 0 for none.
    pub session_id: i32,
    /// 0 asks for a new session, -1 for none, else the session's next epoch.
    pub session_epoch: i32,
    /// Whether the client's version names topics by id. A session goes on in the way in which it began.
    pub by_id: bool,
    /// What to read; in a running session, what is new or changed in it.
    pub topics: Vec<FetchTopic>,
    /// What a running session shall no longer read.
    pub forgotten: Vec<ForgottenTopic>,
}

/// The partitions to read of one topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FetchTopic {
    /// The topic.
    pub topic: TopicRef,
    /// The partitions, in the client's order.
    pub partitions: Vec<FetchPartition>,
}

/// Where to read in one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FetchPartition {
    /// The partition's number as the client sent it.
    pub index: i32,
    /// The leader epoch that the client knows; `None` skips the check.
    pub current_leader_epoch: Option<i32>,
    /// The first offset wanted.
    pub fetch_offset: i64,
    /// The epoch of the last record the client read; `None` skips the check for divergence.
    pub last_fetched_epoch: Option<i32>,
    /// At most this many bytes from this partition.
    pub max_bytes: i32,
}

/// Partitions that leave a fetch session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForgottenTopic {
    /// The topic.
    pub topic: TopicRef,
    /// The partitions' numbers.
    pub partitions: Vec<i32>,
}

/// Offsets to find.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListOffsets {
    /// Look only below the last stable offset.
    pub read_committed: bool,
    /// The topics, in the client's order.
    pub topics: Vec<ListOffsetsTopic>,
}

/// Offsets to find in one topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListOffsetsTopic {
    /// The topic's name.
    pub name: String,
    /// The partitions, in the client's order.
    pub partitions: Vec<ListOffsetsPartition>,
}

/// The offset to find in one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListOffsetsPartition {
    /// The partition's number as the client sent it.
    pub index: i32,
    /// The leader epoch that the client knows; `None` skips the check.
    pub current_leader_epoch: Option<i32>,
    /// What is looked for, or why the client's version cannot ask for it.
    pub target: Result<OffsetTarget, ErrorCode>,
}

/// What [`Op::ListOffsets`] can look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OffsetTarget {
    /// The end of what may be read (-1).
    Latest,
    /// The log's start (-2).
    Earliest,
    /// The record with the highest timestamp (-3).
    MaxTimestamp,
    /// The first offset kept on this machine (-4).
    EarliestLocal,
    /// The last offset kept elsewhere (-5); there is no elsewhere.
    LatestTiered,
    /// The first offset that is not kept elsewhere yet (-6).
    EarliestPendingUpload,
    /// The first record at or after this time.
    Time(i64),
}

/// Leader epochs whose ends are asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffsetForLeaderEpoch {
    /// The topics, in the client's order.
    pub topics: Vec<EpochTopic>,
}

/// Leader epochs of one topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochTopic {
    /// The topic's name.
    pub name: String,
    /// The partitions, in the client's order.
    pub partitions: Vec<EpochPartition>,
}

/// The leader epoch of one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochPartition {
    /// The partition's number as the client sent it.
    pub index: i32,
    /// The leader epoch that the client knows; `None` skips the check.
    pub current_leader_epoch: Option<i32>,
    /// The epoch whose end is asked for.
    pub leader_epoch: i32,
}

/// Topics to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreateTopics {
    /// The topics, in the client's order.
    pub topics: Vec<NewTopic>,
    /// Only say whether it would work.
    pub validate_only: bool,
}

/// One topic to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewTopic {
    /// The name, unchecked.
    pub name: String,
    /// How many partitions; -1 for the broker's default.
    pub num_partitions: i32,
    /// How many replicas; -1 for the broker's default.
    pub replication_factor: i16,
    /// A manual assignment of partitions to nodes, if the client insists on one.
    pub assignments: Vec<ReplicaAssignment>,
    /// Settings by name, in the client's order. A null value is an error, as in Kafka.
    pub configs: Vec<(String, Option<String>)>,
}

/// The nodes that a client wants for one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicaAssignment {
    /// The partition's number.
    pub partition: i32,
    /// The nodes, the preferred leader first.
    pub nodes: Vec<i32>,
}

/// Topics to remove.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeleteTopics {
    /// The topics, in the client's order. `Err` where the client named a topic in no legal way.
    pub topics: Vec<Result<TopicRef, NoTopicRef>>,
}

/// Topics that get more partitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreatePartitions {
    /// The topics, in the client's order.
    pub topics: Vec<MorePartitions>,
    /// Only say whether it would work.
    pub validate_only: bool,
}

/// One topic that gets more partitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MorePartitions {
    /// The topic's name.
    pub name: String,
    /// How many partitions it shall have in all.
    pub count: i32,
    /// The nodes of each new partition, if the client insists.
    pub assignments: Option<Vec<Vec<i32>>>,
}

/// Records to forget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeleteRecords {
    /// The topics, in the client's order.
    pub topics: Vec<DeleteRecordsTopic>,
}

/// Records to forget in one topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeleteRecordsTopic {
    /// The topic's name.
    pub name: String,
    /// Partition numbers and the first offset to keep; -1 forgets all that is there.
    pub partitions: Vec<(i32, i64)>,
}

/// A producer that introduces itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InitProducerId {
    /// Set by transactional producers.
    pub transactional_id: Option<String>,
    /// The id the producer has, or -1.
    pub producer_id: i64,
    /// The epoch the producer has, or -1.
    pub producer_epoch: i16,
}

/// A thing that has settings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConfigResource {
    /// Kafka's number for the type: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.
    pub resource_type: i8,
    /// The topic's name, or the node's id as text.
    pub name: String,
}

/// Settings to show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeConfigs {
    /// Resources and the names asked for; `None` asks for all.
    pub resources: Vec<(ConfigResource, Option<Vec<String>>)>,
    /// Show what would apply if the setting were not there.
    pub include_synonyms: bool,
    /// Show what the settings mean.
    pub include_documentation: bool,
}

/// Settings to change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlterConfigs {
    /// What to change, in the client's order.
    pub resources: Vec<(ConfigResource, ConfigChanges)>,
    /// Only say whether it would work.
    pub validate_only: bool,
}

/// How the settings of one resource change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ConfigChanges {
    /// AlterConfigs: what is listed is set, what is not listed is no longer set.
    Replace(Vec<(String, Option<String>)>),
    /// IncrementalAlterConfigs: name, operation and value, in order. `Err` is a number that is no operation's.
    Incremental(Vec<(String, Result<ConfigOperation, i8>, Option<String>)>),
}

/// What to do with one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfigOperation {
    /// Give it this value.
    Set,
    /// Take its value away.
    Delete,
    /// Add to a list.
    Append,
    /// Take from a list.
    Subtract,
}

/// Topics to show page by page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeTopicPartitions {
    /// Names; empty asks for all.
    pub topics: Vec<String>,
    /// At most this many partitions in one answer.
    pub partition_limit: i32,
    /// Where the last page ended: the topic and partition to begin with.
    pub cursor: Option<(String, i32)>,
}

/// Partitions whose disk use is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeLogDirs {
    /// Names and partitions; `None` asks for all.
    pub topics: Option<Vec<(String, Vec<i32>)>>,
}

/// Partitions that may be on the move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListPartitionReassignments {
    /// Names and partitions; `None` asks for all.
    pub topics: Option<Vec<(String, Vec<i32>)>>,
}

/// Which cluster this is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeCluster {
    /// 1 asks for brokers; a broker refuses the others.
    pub endpoint_type: i8,
}
