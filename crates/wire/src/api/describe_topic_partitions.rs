//! DescribeTopicPartitions (75): topics page by page.

use coordination::error_code::ErrorCode;
use coordination::op::{self, Op};
use coordination::reply;

use crate::addresses::Addresses;
use crate::api::operations;
use crate::field::Uuid;
use crate::message::message;

message! {
    /// A page of topics to show.
    pub struct DescribeTopicPartitionsRequest {
        topics: Vec<TopicRequest> [0+],
        response_partition_limit: i32 [0+] = 2000,
        cursor: Option<Cursor> [0+, null 0+],
    }

    /// One topic to show.
    pub struct TopicRequest {
        name: String [0+],
    }

    /// A page of topics.
    pub struct DescribeTopicPartitionsResponse {
        throttle_time_ms: i32 [0+],
        topics: Vec<DescribeTopicPartitionsResponseTopic> [0+],
        next_cursor: Option<Cursor> [0+, null 0+],
    }

    /// One topic.
    pub struct DescribeTopicPartitionsResponseTopic {
        error_code: i16 [0+],
        name: Option<String> [0+, null 0+],
        topic_id: Uuid [0+],
        is_internal: bool [0+],
        partitions: Vec<DescribeTopicPartitionsResponsePartition> [0+],
        topic_authorized_operations: i32 [0+] = i32::MIN,
    }

    /// One partition.
    pub struct DescribeTopicPartitionsResponsePartition {
        error_code: i16 [0+],
        partition_index: i32 [0+],
        leader_id: i32 [0+],
        leader_epoch: i32 [0+] = -1,
        replica_nodes: Vec<i32> [0+],
        isr_nodes: Vec<i32> [0+],
        eligible_leader_replicas: Option<Vec<i32>> [0+, null 0+],
        last_known_elr: Option<Vec<i32>> [0+, null 0+],
        offline_replicas: Vec<i32> [0+],
    }

    /// Where a page begins.
    pub struct Cursor {
        topic_name: String [0+],
        partition_index: i32 [0+],
    }
}

impl DescribeTopicPartitionsRequest {
    pub(crate) fn into_op(self) -> Op {
        Op::DescribeTopicPartitions(op::DescribeTopicPartitions {
            topics: self.topics.into_iter().map(|topic| topic.name).collect(),
            partition_limit: self.response_partition_limit,
            cursor: self.cursor.map(|cursor| (cursor.topic_name, cursor.partition_index)),
        })
    }
}

pub(crate) fn response(
    reply: reply::DescribeTopicPartitions,
    addresses: &Addresses,
) -> DescribeTopicPartitionsResponse {
    let topic = |topic: reply::TopicMetadata| DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::number_of(topic.error),
        name: topic.name,
        topic_id: topic.id.into(),
        is_internal: topic.internal,
        partitions: topic
            .partitions
            .into_iter()
            .map(|partition| shown(partition, addresses.leader(topic.id, partition.index)))
            .collect(),
        topic_authorized_operations: operations(topic.operations, has_operations(topic.error)),
    };
    DescribeTopicPartitionsResponse {
        throttle_time_ms: 0,
        topics: reply.topics.into_iter().map(topic).collect(),
        next_cursor: reply
            .next_cursor
            .map(|(topic_name, partition_index)| Cursor { topic_name, partition_index }),
    }
}

fn shown(partition: reply::PartitionMetadata, leader_id: i32) -> DescribeTopicPartitionsResponsePartition {
    DescribeTopicPartitionsResponsePartition {
        error_code: 0,
        partition_index: partition.index,
        leader_id,
        leader_epoch: partition.leader_epoch,
        replica_nodes: vec![leader_id],
        isr_nodes: vec![leader_id],
        eligible_leader_replicas: Some(Vec::new()),
        last_known_elr: Some(Vec::new()),
        offline_replicas: Vec::new(),
    }
}

/// A request that is refused as a whole is not looked at further, and of a topic that the user may not see nothing
/// is told.
fn has_operations(error: Option<ErrorCode>) -> bool {
    use ErrorCode::*;
    !matches!(error, Some(InvalidRequest | UnknownServerError | TopicAuthorizationFailed))
}
