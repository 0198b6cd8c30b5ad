//! CreatePartitions (37): more partitions for a topic.

use coordination::op::{self, Op};
use coordination::reply;

use crate::api::{refusal_message, refusal_number};
use crate::message::message;

message! {
    /// Topics that shall have more partitions.
    pub struct CreatePartitionsRequest {
        topics: Vec<CreatePartitionsTopic> [0+],
        timeout_ms: i32 [0+],
        validate_only: bool [0+],
    }

    /// One topic and how many partitions it shall have in all.
    pub struct CreatePartitionsTopic {
        name: String [0+],
        count: i32 [0+],
        assignments: Option<Vec<CreatePartitionsAssignment>> [0+, null 0+],
    }

    /// The nodes for one new partition.
    pub struct CreatePartitionsAssignment {
        broker_ids: Vec<i32> [0+],
    }

    /// What became of each topic.
    pub struct CreatePartitionsResponse {
        throttle_time_ms: i32 [0+],
        results: Vec<CreatePartitionsTopicResult> [0+],
    }

    /// What became of one topic.
    pub struct CreatePartitionsTopicResult {
        name: String [0+],
        error_code: i16 [0+],
        error_message: Option<String> [0+, null 0+],
    }
}

impl CreatePartitionsRequest {
    pub(crate) fn into_op(self) -> Op {
        let topic = |topic: CreatePartitionsTopic| op::MorePartitions {
            name: topic.name,
            count: topic.count,
            assignments: topic
                .assignments
                .map(|assignments| assignments.into_iter().map(|assignment| assignment.broker_ids).collect()),
        };
        Op::CreatePartitions(op::CreatePartitions {
            topics: self.topics.into_iter().map(topic).collect(),
            validate_only: self.validate_only,
        })
    }
}

pub(crate) fn response(reply: reply::CreatePartitions) -> CreatePartitionsResponse {
    let result = |(name, error): (String, Option<reply::Refusal>)| CreatePartitionsTopicResult {
        name,
        error_code: refusal_number(error.as_ref()),
        error_message: refusal_message(error),
    };
    CreatePartitionsResponse { throttle_time_ms: 0, results: reply.topics.into_iter().map(result).collect() }
}
