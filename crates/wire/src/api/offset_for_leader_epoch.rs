//! OffsetForLeaderEpoch (23): where leader epochs ended.

use coordination::error_code::ErrorCode;
use coordination::op::{self, Op};
use coordination::reply;

use crate::api::known_epoch;
use crate::message::message;

message! {
    /// Leader epochs whose ends are asked for.
    pub struct OffsetForLeaderEpochRequest {
        replica_id: i32 [3+] = -2,
        topics: Vec<OffsetForLeaderTopic> [0+],
    }

    /// Leader epochs of one topic.
    pub struct OffsetForLeaderTopic {
        topic: String [0+],
        partitions: Vec<OffsetForLeaderPartition> [0+],
    }

    /// The leader epoch of one partition.
    pub struct OffsetForLeaderPartition {
        partition: i32 [0+],
        current_leader_epoch: i32 [2+] = -1,
        leader_epoch: i32 [0+],
    }

    /// Where leader epochs ended.
    pub struct OffsetForLeaderEpochResponse {
        throttle_time_ms: i32 [2+],
        topics: Vec<OffsetForLeaderTopicResult> [0+],
    }

    /// Where leader epochs of one topic ended.
    pub struct OffsetForLeaderTopicResult {
        topic: String [0+],
        partitions: Vec<EpochEndOffset> [0+],
    }

    /// An epoch and where it ended.
    pub struct EpochEndOffset {
        error_code: i16 [0+],
        partition: i32 [0+],
        leader_epoch: i32 [1+] = -1,
        end_offset: i64 [0+] = -1,
    }
}

impl OffsetForLeaderEpochRequest {
    pub(crate) fn into_op(self) -> Op {
        let partition = |partition: OffsetForLeaderPartition| op::EpochPartition {
            index: partition.partition,
            current_leader_epoch: known_epoch(partition.current_leader_epoch),
            leader_epoch: partition.leader_epoch,
        };
        let topic = |topic: OffsetForLeaderTopic| op::EpochTopic {
            name: topic.topic,
            partitions: topic.partitions.into_iter().map(partition).collect(),
        };
        Op::OffsetForLeaderEpoch(op::OffsetForLeaderEpoch {
            topics: self.topics.into_iter().map(topic).collect(),
        })
    }
}

pub(crate) fn response(reply: reply::OffsetForLeaderEpoch) -> OffsetForLeaderEpochResponse {
    let partition = |partition: reply::EpochPartition| {
        let (leader_epoch, end_offset) = partition.result.unwrap_or((-1, -1));
        EpochEndOffset {
            error_code: ErrorCode::number_of(partition.result.err()),
            partition: partition.index,
            leader_epoch,
            end_offset,
        }
    };
    let topic = |topic: reply::EpochTopic| OffsetForLeaderTopicResult {
        topic: topic.name,
        partitions: topic.partitions.into_iter().map(partition).collect(),
    };
    OffsetForLeaderEpochResponse {
        throttle_time_ms: 0,
        topics: reply.topics.into_iter().map(topic).collect(),
    }
}
