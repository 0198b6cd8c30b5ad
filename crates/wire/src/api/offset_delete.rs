//! OffsetDelete (47): forgets how far a group has read.

use coordination::error_code::ErrorCode;
use coordination::op::{self, Op};
use coordination::reply;

use crate::api::gathered_offsets;
use crate::message::message;

message! {
    /// Offsets to forget.
    pub struct OffsetDeleteRequest {
        group_id: String [0+],
        topics: Vec<OffsetDeleteRequestTopic> [0+],
    }

    /// Offsets to forget of one topic.
    pub struct OffsetDeleteRequestTopic {
        name: String [0+],
        partitions: Vec<OffsetDeleteRequestPartition> [0+],
    }

    /// A partition whose offset to forget.
    pub struct OffsetDeleteRequestPartition {
        partition_index: i32 [0+],
    }

    /// What became of them.
    pub struct OffsetDeleteResponse {
        error_code: i16 [0+],
        throttle_time_ms: i32 [0+],
        topics: Vec<OffsetDeleteResponseTopic> [0+],
    }

    /// What became of one topic's offsets.
    pub struct OffsetDeleteResponseTopic {
        name: String [0+],
        partitions: Vec<OffsetDeleteResponsePartition> [0+],
    }

    /// What became of one partition's offset.
    pub struct OffsetDeleteResponsePartition {
        partition_index: i32 [0+],
        error_code: i16 [0+],
    }
}

impl OffsetDeleteRequest {
    pub(crate) fn into_op(self) -> Op {
        let topic = |topic: OffsetDeleteRequestTopic| {
            let partitions = topic.partitions.into_iter().map(|partition| partition.partition_index);
            (topic.name, partitions.collect())
        };
        Op::OffsetDelete(op::OffsetDelete {
            group: self.group_id,
            topics: self.topics.into_iter().map(topic).collect(),
        })
    }
}

pub(crate) fn response(reply: reply::OffsetDelete) -> OffsetDeleteResponse {
    let partition = |(partition_index, error)| OffsetDeleteResponsePartition {
        partition_index,
        error_code: ErrorCode::number_of(error),
    };
    let topic = |(name, partitions): (String, Vec<_>)| OffsetDeleteResponseTopic {
        name,
        partitions: partitions.into_iter().map(partition).collect(),
    };
    match reply.result {
        Ok(topics) => {
            let topics = gathered_offsets(topics, |(name, _)| name, |(_, partitions)| partitions);
            OffsetDeleteResponse {
                topics: topics.into_iter().map(topic).collect(),
                ..OffsetDeleteResponse::default()
            }
        }
        Err(error) => OffsetDeleteResponse { error_code: error.number(), ..OffsetDeleteResponse::default() },
    }
}
