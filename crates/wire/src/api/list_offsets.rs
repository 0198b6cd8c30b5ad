//! ListOffsets (2): finds offsets by time or by meaning.

use coordination::error_code::ErrorCode;
use coordination::op::{self, OffsetTarget, Op};
use coordination::reply::{self, FoundOffset};

use crate::api::{gathered, known_epoch};
use crate::message::message;

message! {
    /// Offsets to find.
    pub struct ListOffsetsRequest {
        replica_id: i32 [0+],
        isolation_level: i8 [2+],
        topics: Vec<ListOffsetsTopic> [0+],
        timeout_ms: i32 [10+],
    }

    /// Offsets to find in one topic.
    pub struct ListOffsetsTopic {
        name: String [0+],
        partitions: Vec<ListOffsetsPartition> [0+],
    }

    /// What to find in one partition: a time, or a negative number with a meaning of its own.
    pub struct ListOffsetsPartition {
        partition_index: i32 [0+],
        current_leader_epoch: i32 [4+] = -1,
        timestamp: i64 [0+],
    }

    /// Found offsets.
    pub struct ListOffsetsResponse {
        throttle_time_ms: i32 [2+],
        topics: Vec<ListOffsetsTopicResponse> [0+],
    }

    /// Found offsets of one topic.
    pub struct ListOffsetsTopicResponse {
        name: String [0+],
        partitions: Vec<ListOffsetsPartitionResponse> [0+],
    }

    /// The found offset of one partition; -1 when there is none.
    pub struct ListOffsetsPartitionResponse {
        partition_index: i32 [0+],
        error_code: i16 [0+],
        timestamp: i64 [1+] = -1,
        offset: i64 [1+] = -1,
        leader_epoch: i32 [4+] = -1,
    }
}

impl ListOffsetsRequest {
    pub(crate) fn into_op(self, version: i16) -> Op {
        let partition = |partition: ListOffsetsPartition| op::ListOffsetsPartition {
            index: partition.partition_index,
            current_leader_epoch: known_epoch(partition.current_leader_epoch),
            target: target(partition.timestamp, version),
        };
        let topic = |topic: ListOffsetsTopic| op::ListOffsetsTopic {
            name: topic.name,
            partitions: topic.partitions.into_iter().map(partition).collect(),
        };
        Op::ListOffsets(op::ListOffsets {
            read_committed: self.isolation_level == 1,
            topics: self.topics.into_iter().map(topic).collect(),
        })
    }
}

/// What a timestamp asks for. Negative ones have meanings that came one by one with newer versions.
fn target(timestamp: i64, version: i16) -> Result<OffsetTarget, ErrorCode> {
    let (target, since) = match timestamp {
        0.. => (OffsetTarget::Time(timestamp), 1),
        -1 => (OffsetTarget::Latest, 1),
        -2 => (OffsetTarget::Earliest, 1),
        -3 => (OffsetTarget::MaxTimestamp, 7),
        -4 => (OffsetTarget::EarliestLocal, 8),
        -5 => (OffsetTarget::LatestTiered, 9),
        -6 => (OffsetTarget::EarliestPendingUpload, 11),
        _ => return Err(ErrorCode::UnsupportedVersion),
    };
    if version < since { Err(ErrorCode::UnsupportedVersion) } else { Ok(target) }
}

pub(crate) fn response(reply: reply::ListOffsets) -> ListOffsetsResponse {
    let partition = |partition: reply::ListOffsetsPartition| {
        let found = partition.result.unwrap_or(FoundOffset::NONE);
        ListOffsetsPartitionResponse {
            partition_index: partition.index,
            error_code: ErrorCode::number_of(partition.result.err()),
            timestamp: found.timestamp_ms,
            offset: found.offset,
            leader_epoch: found.leader_epoch,
        }
    };
    let topic = |topic: reply::ListOffsetsTopic| ListOffsetsTopicResponse {
        name: topic.name,
        partitions: topic.partitions.into_iter().map(partition).collect(),
    };
    let topics = gathered(reply.topics, |topic| &topic.name, |topic| &mut topic.partitions);
    ListOffsetsResponse { throttle_time_ms: 0, topics: topics.into_iter().map(topic).collect() }
}
