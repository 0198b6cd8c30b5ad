//! CreateTopics (19).

use coordination::error_code::ErrorCode;
use coordination::op::{self, Op};
use coordination::reply::{self, ConfigEntry};

use crate::field::Uuid;
use crate::message::message;

message! {
    /// Topics to make.
    pub struct CreateTopicsRequest {
        topics: Vec<CreatableTopic> [0+],
        timeout_ms: i32 [0+] = 60_000,
        validate_only: bool [1+],
    }

    /// One topic to make.
    pub struct CreatableTopic {
        name: String [0+],
        num_partitions: i32 [0+],
        replication_factor: i16 [0+],
        assignments: Vec<CreatableReplicaAssignment> [0+],
        configs: Vec<CreatableTopicConfig> [0+],
    }

    /// The nodes that a client wants for one partition.
    pub struct CreatableReplicaAssignment {
        partition_index: i32 [0+],
        broker_ids: Vec<i32> [0+],
    }

    /// One setting of a new topic.
    pub struct CreatableTopicConfig {
        name: String [0+],
        value: Option<String> [0+, null 0+],
    }

    /// What became of each topic.
    pub struct CreateTopicsResponse {
        throttle_time_ms: i32 [2+],
        topics: Vec<CreatableTopicResult> [0+],
    }

    /// What became of one topic.
    pub struct CreatableTopicResult {
        name: String [0+],
        topic_id: Uuid [7+],
        error_code: i16 [0+],
        error_message: Option<String> [1+, null 0+],
        topic_config_error_code: i16 [5+, tag 0],
        num_partitions: i32 [5+] = -1,
        replication_factor: i16 [5+] = -1,
        configs: Option<Vec<CreatableTopicConfigs>> [5+, null 5+],
    }

    /// One setting that a new topic has.
    pub struct CreatableTopicConfigs {
        name: String [5+],
        value: Option<String> [5+, null 5+],
        read_only: bool [5+],
        config_source: i8 [5+] = -1,
        is_sensitive: bool [5+],
    }
}

impl CreateTopicsRequest {
    pub(crate) fn into_op(self) -> Op {
        let assignment = |assignment: CreatableReplicaAssignment| op::ReplicaAssignment {
            partition: assignment.partition_index,
            nodes: assignment.broker_ids,
        };
        let topic = |topic: CreatableTopic| op::NewTopic {
            name: topic.name,
            num_partitions: topic.num_partitions,
            replication_factor: topic.replication_factor,
            assignments: topic.assignments.into_iter().map(assignment).collect(),
            configs: topic.configs.into_iter().map(|config| (config.name, config.value)).collect(),
        };
        Op::CreateTopics(op::CreateTopics {
            topics: self.topics.into_iter().map(topic).collect(),
            validate_only: self.validate_only,
        })
    }
}

pub(crate) fn response(reply: reply::CreateTopics) -> CreateTopicsResponse {
    CreateTopicsResponse { throttle_time_ms: 0, topics: reply.topics.into_iter().map(topic_result).collect() }
}

fn topic_result(topic: reply::CreatedTopic) -> CreatableTopicResult {
    let name = topic.name;
    match topic.result {
        Ok(made) => CreatableTopicResult {
            name,
            topic_id: made.id.into(),
            num_partitions: made.num_partitions,
            replication_factor: made.replication_factor,
            topic_config_error_code: match made.configs {
                Some(_) => 0,
                None => ErrorCode::TopicAuthorizationFailed.number(),
            },
            configs: Some(made.configs.into_iter().flatten().map(config).collect()),
            ..CreatableTopicResult::default()
        },
        Err(refusal) => CreatableTopicResult {
            name,
            error_code: refusal.code.number(),
            error_message: refusal.message,
            configs: Some(Vec::new()),
            ..CreatableTopicResult::default()
        },
    }
}

fn config(entry: ConfigEntry) -> CreatableTopicConfigs {
    CreatableTopicConfigs {
        name: entry.name,
        value: entry.value,
        read_only: entry.read_only,
        config_source: entry.source as i8,
        is_sensitive: entry.sensitive,
    }
}
