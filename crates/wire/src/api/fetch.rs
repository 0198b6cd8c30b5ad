//! Fetch (1): reads record batches.

use std::collections::BTreeSet;
use std::time::Duration;

use coordination::error_code::ErrorCode;
use coordination::op::{self, Op, TopicRef};
use coordination::reply;

use crate::addresses::Addresses;
use crate::api::{known_epoch, milliseconds, topic_named, topic_ref};
use crate::field::{Records, Uuid};
use crate::message::message;
use crate::request::Asked;

message! {
    /// What to read and how long to wait for it.
    pub struct FetchRequest {
        cluster_id: Option<String> [12+, null 12+, tag 0],
        replica_id: i32 [0-14] = -1,
        replica_state: ReplicaState [15+, tag 1],
        max_wait_ms: i32 [0+],
        min_bytes: i32 [0+],
        max_bytes: i32 [3+] = i32::MAX,
        isolation_level: i8 [4+],
        session_id: i32 [7+],
        session_epoch: i32 [7+] = -1,
        topics: Vec<FetchTopic> [0+],
        forgotten_topics_data: Vec<ForgottenTopic> [7+],
        rack_id: String [11+],
    }

    /// The broker that fetches, when it is one.
    pub struct ReplicaState {
        replica_id: i32 [15+] = -1,
        replica_epoch: i64 [15+] = -1,
    }

    /// Partitions to read of one topic: by name up to version 12, then by id.
    pub struct FetchTopic {
        topic: String [0-12],
        topic_id: Uuid [13+],
        partitions: Vec<FetchPartition> [0+],
    }

    /// Where to read in one partition.
    pub struct FetchPartition {
        partition: i32 [0+],
        current_leader_epoch: i32 [9+] = -1,
        fetch_offset: i64 [0+],
        last_fetched_epoch: i32 [12+] = -1,
        log_start_offset: i64 [5+] = -1,
        partition_max_bytes: i32 [0+],
        replica_directory_id: Uuid [17+, tag 0],
        high_watermark: i64 [18+, tag 1] = i64::MAX,
    }

    /// Partitions that leave the fetch session.
    pub struct ForgottenTopic {
        topic: String [7-12],
        topic_id: Uuid [13+],
        partitions: Vec<i32> [7+],
    }

    /// Record batches.
    pub struct FetchResponse {
        throttle_time_ms: i32 [1+],
        error_code: i16 [7+],
        session_id: i32 [7+],
        responses: Vec<FetchableTopicResponse> [0+],
        node_endpoints: Vec<NodeEndpoint> [16+, tag 0],
    }

    /// Record batches of one topic.
    pub struct FetchableTopicResponse {
        topic: String [0-12],
        topic_id: Uuid [13+],
        partitions: Vec<PartitionData> [0+],
    }

    /// Record batches of one partition.
    pub struct PartitionData {
        partition_index: i32 [0+],
        error_code: i16 [0+],
        high_watermark: i64 [0+],
        last_stable_offset: i64 [4+] = -1,
        log_start_offset: i64 [5+] = -1,
        diverging_epoch: EpochEndOffset [12+, tag 0],
        current_leader: LeaderIdAndEpoch [12+, tag 1],
        snapshot_id: SnapshotId [12+, tag 2],
        aborted_transactions: Option<Vec<AbortedTransaction>> [4+, null 4+],
        preferred_read_replica: i32 [11+] = -1,
        records: Option<Records> [0+, null 0+],
    }

    /// An epoch and where it ended.
    pub struct EpochEndOffset {
        epoch: i32 [12+] = -1,
        end_offset: i64 [12+] = -1,
    }

    /// Who leads a partition now.
    pub struct LeaderIdAndEpoch {
        leader_id: i32 [12+] = -1,
        leader_epoch: i32 [12+] = -1,
    }

    /// A snapshot that followers of a Raft log shall load.
    pub struct SnapshotId {
        end_offset: i64 [0+] = -1,
        epoch: i32 [0+] = -1,
    }

    /// A transaction whose records a reader of committed records skips.
    pub struct AbortedTransaction {
        producer_id: i64 [4+],
        first_offset: i64 [4+],
    }

    /// Where a node that is named in the answer can be reached.
    pub struct NodeEndpoint {
        node_id: i32 [16+],
        host: String [16+],
        port: i32 [16+],
        rack: Option<String> [16+, null 16+],
    }
}

/// The isolation level that hides what is not committed.
const READ_COMMITTED: i8 = 1;

impl FetchRequest {
    pub(crate) fn into_op(self, version: i16, asked: &mut Asked) -> Op {
        let by_id = version >= 13;
        asked.read_committed = self.isolation_level == READ_COMMITTED;
        let partition = |partition: FetchPartition| op::FetchPartition {
            index: partition.partition,
            current_leader_epoch: known_epoch(partition.current_leader_epoch),
            fetch_offset: partition.fetch_offset,
            last_fetched_epoch: known_epoch(partition.last_fetched_epoch),
            max_bytes: partition.partition_max_bytes,
        };
        let topic = |topic: FetchTopic| op::FetchTopic {
            topic: topic_ref(by_id, topic.topic, topic.topic_id),
            partitions: topic.partitions.into_iter().map(partition).collect(),
        };
        let forgotten = |topic: ForgottenTopic| op::ForgottenTopic {
            topic: topic_ref(by_id, topic.topic, topic.topic_id),
            partitions: topic.partitions,
        };
        Op::Fetch(op::Fetch {
            max_wait: Duration::from_millis(u64::try_from(self.max_wait_ms).unwrap_or(0)),
            min_bytes: self.min_bytes,
            max_bytes: self.max_bytes,
            read_committed: asked.read_committed,
            session_id: self.session_id,
            session_epoch: self.session_epoch,
            by_id,
            topics: self.topics.into_iter().map(topic).collect(),
            forgotten: self.forgotten_topics_data.into_iter().map(forgotten).collect(),
        })
    }
}

pub(crate) fn response(
    reply: reply::Fetch,
    version: i16,
    asked: Asked,
    addresses: &Addresses,
) -> FetchResponse {
    let mut leaders = BTreeSet::new();
    let mut current_leader = |topic: &TopicRef, partition: &reply::FetchPartition| {
        let Some(leader_epoch) = partition.current_leader_epoch else { return LeaderIdAndEpoch::default() };
        let leader_id = match topic {
            TopicRef::Id(id) => addresses.leader(*id, partition.index),
            // Who was asked serves it as well as any other.
            TopicRef::Name(_) => addresses.node_id,
        };
        leaders.insert(leader_id);
        LeaderIdAndEpoch { leader_id, leader_epoch }
    };
    let shown = |partition: reply::FetchPartition, current_leader| PartitionData {
        partition_index: partition.index,
        error_code: ErrorCode::number_of(partition.error.map(|error| known_to(version, error))),
        high_watermark: partition.high_watermark,
        last_stable_offset: partition.last_stable_offset,
        log_start_offset: partition.log_start_offset,
        diverging_epoch: partition
            .diverging_epoch
            .map_or_else(EpochEndOffset::default, |(epoch, end_offset)| EpochEndOffset { epoch, end_offset }),
        current_leader,
        snapshot_id: SnapshotId::default(),
        aborted_transactions: lists_aborted(partition.error, asked).then(Vec::new),
        preferred_read_replica: -1,
        records: Some(Records(partition.records)),
    };
    let topic = |topic: reply::FetchTopic| {
        let mut partition = |partition| {
            let leader = current_leader(&topic.topic, &partition);
            shown(partition, leader)
        };
        let partitions = topic.partitions.into_iter().map(&mut partition).collect();
        let (name, topic_id) = topic_named(topic.topic);
        FetchableTopicResponse { topic: name, topic_id, partitions }
    };
    FetchResponse {
        throttle_time_ms: milliseconds(reply.throttle),
        error_code: ErrorCode::number_of(reply.error),
        session_id: reply.session_id,
        responses: reply.topics.into_iter().map(topic).collect(),
        node_endpoints: leaders.into_iter().filter_map(|id| endpoint(id, addresses)).collect(),
    }
}

/// Where a leader that the answer names can be reached; versions before 16 leave it out.
fn endpoint(id: i32, addresses: &Addresses) -> Option<NodeEndpoint> {
    let node = addresses.node(id)?.into_owned();
    Some(NodeEndpoint { node_id: id, host: node.host, port: i32::from(node.port), rack: None })
}

/// Whether the answer has a list of aborted transactions, which is empty, rather than null. Kafka leaves it
/// out where it did not look for any, but not in answers it gives before it looks at the partition.
fn lists_aborted(error: Option<ErrorCode>, asked: Asked) -> bool {
    match error {
        None => asked.read_committed,
        Some(error) => {
            use ErrorCode::*;
            matches!(
                error,
                UnknownTopicOrPartition | UnknownTopicId | InconsistentTopicId | TopicAuthorizationFailed
            )
        }
    }
}

/// Clients of versions up to 5 do not know the error of a failed disk and would give up; told that the
/// leader has moved, they look for it and try again. Kafka does the same.
fn known_to(version: i16, error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::KafkaStorageError if version <= 5 => ErrorCode::NotLeaderOrFollower,
        error => error,
    }
}
