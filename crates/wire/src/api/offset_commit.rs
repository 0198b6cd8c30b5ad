//! OffsetCommit (8): remembers how far a group has read.

use coordination::error_code::ErrorCode;
use coordination::op::{self, Op};
use coordination::reply;

use crate::api::{gathered_offsets, topic_named, topic_ref};
use crate::field::Uuid;
use crate::message::message;

message! {
    /// How far a group has read.
    pub struct OffsetCommitRequest {
        group_id: String [0+],
        generation_id_or_member_epoch: i32 [1+] = -1,
        member_id: String [1+],
        group_instance_id: Option<String> [7+, null 7+],
        retention_time_ms: i64 [2-4] = -1,
        topics: Vec<OffsetCommitRequestTopic> [0+],
    }

    /// How far it has read one topic: by name up to version 9, then by id.
    pub struct OffsetCommitRequestTopic {
        name: String [0-9],
        topic_id: Uuid [10+],
        partitions: Vec<OffsetCommitRequestPartition> [0+],
    }

    /// How far it has read one partition.
    pub struct OffsetCommitRequestPartition {
        partition_index: i32 [0+],
        committed_offset: i64 [0+],
        committed_leader_epoch: i32 [6+] = -1,
        committed_metadata: Option<String> [0+, null 0+],
    }

    /// What became of each offset.
    pub struct OffsetCommitResponse {
        throttle_time_ms: i32 [3+],
        topics: Vec<OffsetCommitResponseTopic> [0+],
    }

    /// What became of one topic's offsets.
    pub struct OffsetCommitResponseTopic {
        name: String [0-9],
        topic_id: Uuid [10+],
        partitions: Vec<OffsetCommitResponsePartition> [0+],
    }

    /// What became of one partition's offset.
    pub struct OffsetCommitResponsePartition {
        partition_index: i32 [0+],
        error_code: i16 [0+],
    }
}

impl OffsetCommitRequest {
    pub(crate) fn into_op(self, version: i16) -> Op {
        let partition = |partition: OffsetCommitRequestPartition| op::OffsetCommitPartition {
            index: partition.partition_index,
            offset: partition.committed_offset,
            leader_epoch: partition.committed_leader_epoch,
            metadata: partition.committed_metadata,
        };
        let topic = |topic: OffsetCommitRequestTopic| op::OffsetCommitTopic {
            topic: topic_ref(version >= 10, topic.name, topic.topic_id),
            partitions: topic.partitions.into_iter().map(partition).collect(),
        };
        Op::OffsetCommit(op::OffsetCommit {
            group: self.group_id,
            generation: self.generation_id_or_member_epoch,
            member_id: self.member_id,
            instance_id: self.group_instance_id,
            retention_ms: (self.retention_time_ms != -1).then_some(self.retention_time_ms),
            knows_missing_groups: version >= 9,
            topics: self.topics.into_iter().map(topic).collect(),
        })
    }
}

pub(crate) fn response(reply: reply::OffsetCommit) -> OffsetCommitResponse {
    let partition = |(partition_index, error)| OffsetCommitResponsePartition {
        partition_index,
        error_code: ErrorCode::number_of(error),
    };
    let topic = |topic: reply::OffsetCommitTopic| {
        let (name, topic_id) = topic_named(topic.topic);
        let partitions = topic.partitions.into_iter().map(partition).collect();
        OffsetCommitResponseTopic { name, topic_id, partitions }
    };
    let topics = gathered_offsets(reply.topics, |topic| &topic.topic, |topic| &mut topic.partitions);
    OffsetCommitResponse { throttle_time_ms: 0, topics: topics.into_iter().map(topic).collect() }
}
