//! DeleteRecords (21): forgets the beginning of logs.

use coordination::error_code::ErrorCode;
use coordination::op::{self, Op};
use coordination::reply;

use crate::api::gathered;
use crate::message::message;

message! {
    /// Records to forget.
    pub struct DeleteRecordsRequest {
        topics: Vec<DeleteRecordsTopic> [0+],
        timeout_ms: i32 [0+],
    }

    /// Records to forget in one topic.
    pub struct DeleteRecordsTopic {
        name: String [0+],
        partitions: Vec<DeleteRecordsPartition> [0+],
    }

    /// The first offset to keep in one partition; -1 forgets all.
    pub struct DeleteRecordsPartition {
        partition_index: i32 [0+],
        offset: i64 [0+],
    }

    /// Where logs begin now.
    pub struct DeleteRecordsResponse {
        throttle_time_ms: i32 [0+],
        topics: Vec<DeleteRecordsTopicResult> [0+],
    }

    /// Where the logs of one topic begin now.
    pub struct DeleteRecordsTopicResult {
        name: String [0+],
        partitions: Vec<DeleteRecordsPartitionResult> [0+],
    }

    /// Where one log begins now.
    pub struct DeleteRecordsPartitionResult {
        partition_index: i32 [0+],
        low_watermark: i64 [0+],
        error_code: i16 [0+],
    }
}

impl DeleteRecordsRequest {
    pub(crate) fn into_op(self) -> Op {
        let topic = |topic: DeleteRecordsTopic| op::DeleteRecordsTopic {
            name: topic.name,
            partitions: topic
                .partitions
                .into_iter()
                .map(|partition| (partition.partition_index, partition.offset))
                .collect(),
        };
        Op::DeleteRecords(op::DeleteRecords { topics: self.topics.into_iter().map(topic).collect() })
    }
}

pub(crate) fn response(reply: reply::DeleteRecords) -> DeleteRecordsResponse {
    let partition = |(partition_index, result): (i32, Result<i64, ErrorCode>)| DeleteRecordsPartitionResult {
        partition_index,
        low_watermark: result.unwrap_or(-1),
        error_code: ErrorCode::number_of(result.err()),
    };
    let topic = |topic: reply::DeleteRecordsTopic| DeleteRecordsTopicResult {
        name: topic.name,
        partitions: topic.partitions.into_iter().map(partition).collect(),
    };
    let topics = gathered(reply.topics, |topic| &topic.name, |topic| &mut topic.partitions);
    DeleteRecordsResponse { throttle_time_ms: 0, topics: topics.into_iter().map(topic).collect() }
}
