//! OffsetFetch (9): how far groups have read: one group, or since version 8 several.

use coordination::error_code::ErrorCode;
use coordination::op::{self, Op, TopicRef};
use coordination::reply::{self, FetchedOffset};

use crate::api::topic_ref;
use crate::field::Uuid;
use crate::message::message;

message! {
    /// Offsets that are asked for.
    pub struct OffsetFetchRequest {
        group_id: String [0-7],
        topics: Option<Vec<OffsetFetchRequestTopic>> [0-7, null 2-7],
        groups: Vec<OffsetFetchRequestGroup> [8+],
        require_stable: bool [7+],
    }

    /// Offsets that are asked for of one topic, up to version 7.
    pub struct OffsetFetchRequestTopic {
        name: String [0-7],
        partition_indexes: Vec<i32> [0-7],
    }

    /// Offsets that are asked for of one group.
    pub struct OffsetFetchRequestGroup {
        group_id: String [8+],
        member_id: Option<String> [9+, null 9+],
        member_epoch: i32 [9+] = -1,
        topics: Option<Vec<OffsetFetchRequestTopics>> [8+, null 8+],
    }

    /// Offsets that are asked for of one topic: by name up to version 9, then by id.
    pub struct OffsetFetchRequestTopics {
        name: String [8-9],
        topic_id: Uuid [10+],
        partition_indexes: Vec<i32> [8+],
    }

    /// Offsets.
    pub struct OffsetFetchResponse {
        throttle_time_ms: i32 [3+],
        topics: Vec<OffsetFetchResponseTopic> [0-7],
        error_code: i16 [2-7],
        groups: Vec<OffsetFetchResponseGroup> [8+],
    }

    /// Offsets of one topic, up to version 7.
    pub struct OffsetFetchResponseTopic {
        name: String [0-7],
        partitions: Vec<OffsetFetchResponsePartition> [0-7],
    }

    /// The offset of one partition, up to version 7.
    pub struct OffsetFetchResponsePartition {
        partition_index: i32 [0-7],
        committed_offset: i64 [0-7],
        committed_leader_epoch: i32 [5-7] = -1,
        metadata: Option<String> [0-7, null 0-7],
        error_code: i16 [0-7],
    }

    /// Offsets of one group.
    pub struct OffsetFetchResponseGroup {
        group_id: String [8+],
        topics: Vec<OffsetFetchResponseTopics> [8+],
        error_code: i16 [8+],
    }

    /// Offsets of one topic.
    pub struct OffsetFetchResponseTopics {
        name: String [8-9],
        topic_id: Uuid [10+],
        partitions: Vec<OffsetFetchResponsePartitions> [8+],
    }

    /// The offset of one partition.
    pub struct OffsetFetchResponsePartitions {
        partition_index: i32 [8+],
        committed_offset: i64 [8+],
        committed_leader_epoch: i32 [8+] = -1,
        metadata: Option<String> [8+, null 8+],
        error_code: i16 [8+],
    }
}

impl OffsetFetchRequest {
    pub(crate) fn into_op(self, version: i16) -> Op {
        let by_id = version >= 10;
        let groups = if version >= 8 {
            self.groups.into_iter().map(|group| group.into_op(by_id)).collect()
        } else {
            let topic = |topic: OffsetFetchRequestTopic| op::OffsetFetchTopic {
                topic: TopicRef::Name(topic.name),
                partitions: topic.partition_indexes,
            };
            vec![op::OffsetFetchGroup {
                group: self.group_id,
                member_id: None,
                member_epoch: -1,
                topics: self.topics.map(|topics| topics.into_iter().map(topic).collect()),
            }]
        };
        Op::OffsetFetch(op::OffsetFetch { groups, require_stable: self.require_stable, by_id })
    }
}

impl OffsetFetchRequestGroup {
    fn into_op(self, by_id: bool) -> op::OffsetFetchGroup {
        let topic = |topic: OffsetFetchRequestTopics| op::OffsetFetchTopic {
            topic: topic_ref(by_id, topic.name, topic.topic_id),
            partitions: topic.partition_indexes,
        };
        op::OffsetFetchGroup {
            group: self.group_id,
            member_id: self.member_id,
            member_epoch: self.member_epoch,
            topics: self.topics.map(|topics| topics.into_iter().map(topic).collect()),
        }
    }
}

pub(crate) fn response(reply: reply::OffsetFetch, version: i16) -> OffsetFetchResponse {
    if version >= 8 {
        let groups = reply.groups.into_iter().map(shown).collect();
        return OffsetFetchResponse { groups, ..OffsetFetchResponse::default() };
    }
    let Some(only) = reply.groups.into_iter().next() else { return OffsetFetchResponse::default() };
    // Version 1 has no place for what is wrong with the whole group: there every partition says it.
    if version >= 2 && only.error.is_some() {
        let error_code = ErrorCode::number_of(only.error);
        return OffsetFetchResponse { error_code, ..OffsetFetchResponse::default() };
    }
    let partition = |fetched: FetchedOffset| OffsetFetchResponsePartition {
        partition_index: fetched.index,
        committed_offset: fetched.offset,
        committed_leader_epoch: fetched.leader_epoch,
        metadata: Some(fetched.metadata),
        error_code: ErrorCode::number_of(fetched.error),
    };
    let topic = |topic: reply::OffsetFetchTopic| OffsetFetchResponseTopic {
        name: topic.name,
        partitions: topic.partitions.into_iter().map(partition).collect(),
    };
    OffsetFetchResponse {
        topics: only.topics.into_iter().map(topic).collect(),
        ..OffsetFetchResponse::default()
    }
}

fn shown(group: reply::OffsetFetchGroup) -> OffsetFetchResponseGroup {
    let partition = |fetched: FetchedOffset| OffsetFetchResponsePartitions {
        partition_index: fetched.index,
        committed_offset: fetched.offset,
        committed_leader_epoch: fetched.leader_epoch,
        metadata: Some(fetched.metadata),
        error_code: ErrorCode::number_of(fetched.error),
    };
    let topic = |topic: reply::OffsetFetchTopic| OffsetFetchResponseTopics {
        name: topic.name,
        topic_id: topic.id.into(),
        partitions: topic.partitions.into_iter().map(partition).collect(),
    };
    OffsetFetchResponseGroup {
        group_id: group.group,
        topics: match group.error {
            None => group.topics.into_iter().map(topic).collect(),
            Some(_) => Vec::new(),
        },
        error_code: ErrorCode::number_of(group.error),
    }
}
