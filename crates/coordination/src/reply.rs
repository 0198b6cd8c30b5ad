//! What the broker answers: one shape for each [`Op`](crate::op::Op).

mod group;
mod security;

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::access::Operations;
use crate::error_code::ErrorCode;
use crate::ids::TopicId;
use crate::op::{ConfigResource, TopicRef};

pub use group::{
    DeleteGroups, DescribeGroups, DescribedGroup, DescribedMember, FetchedOffset, GroupState, Heartbeat,
    JoinGroup, Joined, JoinedMember, LeaveGroup, LeftMember, ListGroups, ListedGroup, OffsetCommit,
    OffsetCommitTopic, OffsetDelete, OffsetDeleteTopic, OffsetFetch, OffsetFetchGroup, OffsetFetchTopic,
    SyncGroup, Synced,
};
pub use security::{
    AlterUserScramCredentials, CreateAcls, Credentials, DeleteAcls, DescribeAcls, DescribeClientQuotas,
    DescribeUserScramCredentials, FindCoordinator, Login, ScramUser,
};

/// The answer to one op; each variant belongs to the op of the same name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each variant belongs to the op of the same name")]
pub enum Reply {
    Metadata(Metadata),
    Produce(Produce),
    Fetch(Fetch),
    ListOffsets(ListOffsets),
    OffsetForLeaderEpoch(OffsetForLeaderEpoch),
    CreateTopics(CreateTopics),
    DeleteTopics(DeleteTopics),
    CreatePartitions(CreatePartitions),
    DeleteRecords(DeleteRecords),
    InitProducerId(InitProducerId),
    DescribeConfigs(DescribeConfigs),
    AlterConfigs(AlterConfigs),
    DescribeTopicPartitions(DescribeTopicPartitions),
    DescribeLogDirs(DescribeLogDirs),
    ListPartitionReassignments(ListPartitionReassignments),
    DescribeCluster(DescribeCluster),
    JoinGroup(JoinGroup),
    SyncGroup(SyncGroup),
    Heartbeat(Heartbeat),
    LeaveGroup(LeaveGroup),
    OffsetCommit(OffsetCommit),
    OffsetFetch(OffsetFetch),
    OffsetDelete(OffsetDelete),
    ListGroups(ListGroups),
    DescribeGroups(DescribeGroups),
    DeleteGroups(DeleteGroups),
    FindCoordinator(FindCoordinator),
    Credentials(Credentials),
    Enter(Option<Refusal>),
    CreateAcls(CreateAcls),
    DescribeAcls(DescribeAcls),
    DeleteAcls(DeleteAcls),
    DescribeUserScramCredentials(DescribeUserScramCredentials),
    AlterUserScramCredentials(AlterUserScramCredentials),
    DescribeClientQuotas(DescribeClientQuotas),
}

/// A refusal with a sentence for the person behind the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The number clients act on.
    pub code: ErrorCode,
    /// What is wrong; `None` where Kafka sends null.
    pub message: Option<String>,
}

impl Refusal {
    /// A refusal that says what is wrong.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Self {
        Self { code, message: None }
    }
}

/// What is said to whoever asks for a transaction.
pub const NO_TRANSACTIONS: &str =
    "This broker does not support transactions yet. Use a producer without a transactional id.";

/// Topics and where they are led. The gateway adds the nodes' addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// The cluster's id, minted once for a data directory.
    pub cluster_id: String,
    /// In the request's order; all of them by name when all were asked for.
    pub topics: Vec<TopicMetadata>,
    /// What the user may do with the cluster.
    pub operations: Operations,
}

/// One topic, or why it cannot be shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicMetadata {
    /// What is wrong, if anything.
    pub error: Option<ErrorCode>,
    /// The name; `None` when an unknown id was asked for.
    pub name: Option<String>,
    /// The id; zero when the topic is not known.
    pub id: TopicId,
    /// Whether the topic is one of the broker's own.
    pub internal: bool,
    /// The partitions, by number.
    pub partitions: Vec<PartitionMetadata>,
    /// What the user may do with the topic.
    pub operations: Operations,
}

/// One partition. The node that leads it is the only replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionMetadata {
    /// The partition's number.
    pub index: i32,
    /// The leader's epoch.
    pub leader_epoch: i32,
}

/// What became of each batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Produce {
    /// In the request's order.
    pub topics: Vec<ProduceTopic>,
    /// How long the client shall wait, because its organisation has used up its bytes per second.
    pub throttle: Duration,
}

/// What became of one topic's batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProduceTopic {
    /// The topic as the client named it.
    pub topic: TopicRef,
    /// In the request's order.
    pub partitions: Vec<ProducePartition>,
}

/// What became of one partition's batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProducePartition {
    /// The partition's number.
    pub index: i32,
    /// Where the records are, or why they are not.
    pub result: Result<Appended, ProduceRefusal>,
}

/// Where appended records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Appended {
    /// The offset of the first record.
    pub base_offset: i64,
    /// The time given to the records when the topic uses the broker's time; -1 otherwise.
    pub log_append_time_ms: i64,
    /// The log's start.
    pub log_start_offset: i64,
}

/// Why records were not appended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProduceRefusal {
    /// The number and a sentence.
    pub refusal: Refusal,
    /// Which records in the batch are to blame, by their place in it, with a sentence each.
    pub record_errors: Vec<(i32, Option<String>)>,
    /// The log's start; -1 where Kafka sends none.
    pub log_start_offset: i64,
}

impl From<Refusal> for ProduceRefusal {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, record_errors: Vec::new(), log_start_offset: -1 }
    }
}

impl From<ErrorCode> for ProduceRefusal {
    fn from(code: ErrorCode) -> Self {
        Refusal::from(code).into()
    }
}

/// Record batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fetch {
    /// What is wrong with the request or its session as a whole.
    pub error: Option<ErrorCode>,
    /// The session that the answer belongs to; 0 for none.
    pub session_id: i32,
    /// In a running session, only what has something to say.
    pub topics: Vec<FetchTopic>,
    /// How long the client shall wait, because its organisation has used up its bytes per second.
    pub throttle: Duration,
}

/// Record batches of one topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FetchTopic {
    /// The topic as the client named it.
    pub topic: TopicRef,
    /// The topic itself, whatever the client calls it, where there is one. It is for whoever carries the answer and
    /// does not travel with it.
    #[serde(skip)]
    pub id: Option<TopicId>,
    /// The partitions.
    pub partitions: Vec<FetchPartition>,
}

/// Record batches of one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FetchPartition {
    /// The partition's number.
    pub index: i32,
    /// What is wrong, if anything.
    pub error: Option<ErrorCode>,
    /// The end of what is durable; -1 with an error.
    pub high_watermark: i64,
    /// The end of what a reader of committed records sees; -1 with an error.
    pub last_stable_offset: i64,
    /// The log's start; -1 with an error.
    pub log_start_offset: i64,
    /// Where the client's log departs from ours: an epoch and its end offset.
    pub diverging_epoch: Option<(i32, i64)>,
    /// The current leader epoch, told to a client that knows another.
    pub current_leader_epoch: Option<i32>,
    /// Whole batches, in order, sharing the broker's memory.
    pub records: Vec<Bytes>,
    /// What the broker tells of them to who carries the answer. It goes no further.
    #[serde(skip)]
    pub origin: Origin,
}

impl FetchPartition {
    /// Whether a client gets records by this.
    #[must_use]
    pub fn has_records(&self) -> bool {
        !self.records.is_empty() || self.origin.at_hand_bytes > 0
    }

    /// How many bytes of records a client gets by this.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.origin.at_hand_bytes + self.records.iter().map(Bytes::len).sum::<usize>()
    }

    /// Keeps all records back.
    pub fn clear_records(&mut self) {
        self.records.clear();
        self.origin = Origin::default();
    }
}

/// Where records of an answer come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The state of the log's files. As long as it is the same, the same records are at the same offset.
    pub files: u64,
    /// Records before all others that who carries the answer has at hand, by its own numbers for them.
    pub at_hand: Vec<u64>,
    /// How many bytes these are.
    pub at_hand_bytes: usize,
}

/// Found offsets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListOffsets {
    /// In the request's order.
    pub topics: Vec<ListOffsetsTopic>,
}

/// Found offsets of one topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListOffsetsTopic {
    /// The topic's name.
    pub name: String,
    /// In the request's order.
    pub partitions: Vec<ListOffsetsPartition>,
}

/// The found offset of one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListOffsetsPartition {
    /// The partition's number.
    pub index: i32,
    /// What was found, or why it could not be looked for.
    pub result: Result<FoundOffset, ErrorCode>,
}

/// An offset that was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundOffset {
    /// The offset; -1 when there is none.
    pub offset: i64,
    /// The record's timestamp when it was found by time; -1 otherwise.
    pub timestamp_ms: i64,
    /// The leader epoch of the offset; -1 when there is none.
    pub leader_epoch: i32,
}

impl FoundOffset {
    /// Nothing answers the question.
    pub const NONE: Self = Self { offset: -1, timestamp_ms: -1, leader_epoch: -1 };
}

/// Where leader epochs ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffsetForLeaderEpoch {
    /// In the request's order.
    pub topics: Vec<EpochTopic>,
}

/// Where leader epochs of one topic ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochTopic {
    /// The topic's name.
    pub name: String,
    /// In the request's order.
    pub partitions: Vec<EpochPartition>,
}

/// Where the leader epoch of one partition ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochPartition {
    /// The partition's number.
    pub index: i32,
    /// The largest epoch up to the one asked for and its end offset (-1 and -1 when there is none).
    pub result: Result<(i32, i64), ErrorCode>,
}

/// Topics that were made, or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreateTopics {
    /// In the request's order.
    pub topics: Vec<CreatedTopic>,
}

/// One topic that was made, or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreatedTopic {
    /// The name.
    pub name: String,
    /// What was made, or why nothing was.
    pub result: Result<TopicMade, Refusal>,
}

/// What a new topic is like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicMade {
    /// Its id; zero when the request was only a question.
    pub id: TopicId,
    /// How many partitions it has; -1 for a user who may not see its settings.
    pub num_partitions: i32,
    /// How many replicas each has; -1 for a user who may not see its settings.
    pub replication_factor: i16,
    /// All its settings; `None` for a user who may not see them.
    pub configs: Option<Vec<ConfigEntry>>,
}

/// Topics that were removed, or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeleteTopics {
    /// In the request's order.
    pub topics: Vec<DeletedTopic>,
}

/// One topic that was removed, or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeletedTopic {
    /// The name; `None` when an unknown id was given.
    pub name: Option<String>,
    /// The id; zero when an unknown name was given.
    pub id: TopicId,
    /// Why it was not removed.
    pub error: Option<Refusal>,
}

/// Topics that have more partitions, or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreatePartitions {
    /// In the request's order: the name, and why nothing was done.
    pub topics: Vec<(String, Option<Refusal>)>,
}

/// Where logs begin now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeleteRecords {
    /// In the request's order.
    pub topics: Vec<DeleteRecordsTopic>,
}

/// Where the logs of one topic begin now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeleteRecordsTopic {
    /// The topic's name.
    pub name: String,
    /// Partition numbers and the log's start, or why nothing was forgotten.
    pub partitions: Vec<(i32, Result<i64, ErrorCode>)>,
}

/// An id for a producer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InitProducerId {
    /// Producer id and epoch, or why there is none.
    pub result: Result<(i64, i16), ErrorCode>,
}

/// Settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeConfigs {
    /// In the request's order.
    pub resources: Vec<(ConfigResource, Result<Vec<ConfigEntry>, Refusal>)>,
}

/// One setting as Kafka's clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigEntry {
    /// Kafka's name for it, or ours beginning with `kohort.`.
    pub name: String,
    /// Its value; `None` for null or a secret.
    pub value: Option<String>,
    /// It cannot be changed while the broker runs.
    pub read_only: bool,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Its value is a secret.
    pub sensitive: bool,
    /// The value and all that it hides, the strongest first.
    pub synonyms: Vec<ConfigSynonym>,
    /// Kafka's number for the type of the value.
    pub config_type: i8,
    /// What it means.
    pub documentation: Option<String>,
}

/// A value that applies, or would if a stronger one were gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigSynonym {
    /// The name under which it is set.
    pub name: String,
    /// The value.
    pub value: Option<String>,
    /// Where it comes from.
    pub source: ConfigSource,
}

/// Where a value comes from, with Kafka's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(i8)]
pub enum ConfigSource {
    /// Set on the topic.
    Topic = 1,
    /// Set on this broker while it runs.
    DynamicBroker = 2,
    /// Set on all brokers while they run.
    DynamicDefaultBroker = 3,
    /// Set by file, environment or flag.
    StaticBroker = 4,
    /// Not set anywhere.
    Default = 5,
    /// Set on the group.
    Group = 8,
}

/// Settings that were changed, or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlterConfigs {
    /// In the request's order: the resource, and why nothing was changed.
    pub resources: Vec<(ConfigResource, Option<Refusal>)>,
}

/// A page of topics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeTopicPartitions {
    /// By name.
    pub topics: Vec<TopicMetadata>,
    /// Where the next page begins; `None` after the last.
    pub next_cursor: Option<(String, i32)>,
}

/// How much disk partitions take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeLogDirs {
    /// The data directory, or why it cannot be read.
    pub result: Result<Box<LogDir>, ErrorCode>,
}

/// The one data directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogDir {
    /// Its path.
    pub path: String,
    /// The size of the file system it is on; -1 if unknown.
    pub total_bytes: i64,
    /// What is left there; -1 if unknown.
    pub usable_bytes: i64,
    /// Topic names with partition numbers and sizes in bytes.
    pub topics: Vec<(String, Vec<(i32, i64)>)>,
}

/// Partitions on the move; on one node there are none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListPartitionReassignments {
    /// Why they are not told.
    pub error: Option<Refusal>,
}

/// Which cluster this is. The gateway adds the nodes' addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeCluster {
    /// The cluster's id, or why it is not told.
    pub result: Result<String, Refusal>,
    /// What the user may do with the cluster.
    pub operations: Operations,
}
