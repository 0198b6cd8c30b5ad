//! ListPartitionReassignments (46): partitions on the move.

use coordination::error_code::ErrorCode;
use coordination::op::{self, Op};
use coordination::reply;

use crate::message::message;

message! {
    /// Asks which partitions are on the move; null asks about all.
    pub struct ListPartitionReassignmentsRequest {
        timeout_ms: i32 [0+] = 60_000,
        topics: Option<Vec<ListPartitionReassignmentsTopics>> [0+, null 0+],
    }

    /// Partitions of one topic.
    pub struct ListPartitionReassignmentsTopics {
        name: String [0+],
        partition_indexes: Vec<i32> [0+],
    }

    /// Partitions on the move.
    pub struct ListPartitionReassignmentsResponse {
        throttle_time_ms: i32 [0+],
        error_code: i16 [0+],
        error_message: Option<String> [0+, null 0+],
        topics: Vec<OngoingTopicReassignment> [0+],
    }

    /// Partitions of one topic on the move.
    pub struct OngoingTopicReassignment {
        name: String [0+],
        partitions: Vec<OngoingPartitionReassignment> [0+],
    }

    /// One partition on the move.
    pub struct OngoingPartitionReassignment {
        partition_index: i32 [0+],
        replicas: Vec<i32> [0+],
        adding_replicas: Vec<i32> [0+],
        removing_replicas: Vec<i32> [0+],
    }
}

impl ListPartitionReassignmentsRequest {
    pub(crate) fn into_op(self) -> Op {
        let topics = self
            .topics
            .map(|topics| topics.into_iter().map(|topic| (topic.name, topic.partition_indexes)).collect());
        Op::ListPartitionReassignments(op::ListPartitionReassignments { topics })
    }
}

pub(crate) fn response(reply: &reply::ListPartitionReassignments) -> ListPartitionReassignmentsResponse {
    let error = reply.error.as_ref();
    ListPartitionReassignmentsResponse {
        error_code: ErrorCode::number_of(error.map(|refusal| refusal.code)),
        error_message: error.and_then(|refusal| refusal.message.clone()),
        ..ListPartitionReassignmentsResponse::default()
    }
}
