//! DeleteTopics (20).

use coordination::error_code::ErrorCode;
use coordination::op::{self, NoTopicRef, Op, TopicRef};
use coordination::reply::{self, Refusal};

use crate::api::{refusal_message, refusal_number};
use crate::field::Uuid;
use crate::message::message;

message! {
    /// Topics to remove: a list of names, or since version 6 of names or ids.
    pub struct DeleteTopicsRequest {
        topics: Vec<DeleteTopicState> [6+],
        topic_names: Vec<String> [0-5],
        timeout_ms: i32 [0+],
    }

    /// One topic to remove, by name or by id.
    pub struct DeleteTopicState {
        name: Option<String> [6+, null 6+],
        topic_id: Uuid [6+],
    }

    /// What became of each topic.
    pub struct DeleteTopicsResponse {
        throttle_time_ms: i32 [1+],
        responses: Vec<DeletableTopicResult> [0+],
    }

    /// What became of one topic.
    pub struct DeletableTopicResult {
        name: Option<String> [0+, null 6+],
        topic_id: Uuid [6+],
        error_code: i16 [0+],
        error_message: Option<String> [5+, null 5+],
    }
}

impl DeleteTopicsRequest {
    pub(crate) fn into_op(self, version: i16) -> Op {
        let topics = if version >= 6 {
            self.topics.into_iter().map(DeleteTopicState::into_ref).collect()
        } else {
            self.topic_names.into_iter().map(|name| Ok(TopicRef::Name(name))).collect()
        };
        Op::DeleteTopics(op::DeleteTopics { topics })
    }
}

impl DeleteTopicState {
    /// Exactly one of name and id must be there.
    fn into_ref(self) -> Result<TopicRef, NoTopicRef> {
        match (self.name, self.topic_id) {
            (Some(name), Uuid::ZERO) => Ok(TopicRef::Name(name)),
            (None, Uuid::ZERO) => Err(NoTopicRef::Neither),
            (Some(name), id) => Err(NoTopicRef::Both { name, id: id.into() }),
            (None, id) => Ok(TopicRef::Id(id.into())),
        }
    }
}

pub(crate) fn response(reply: reply::DeleteTopics, version: i16) -> DeleteTopicsResponse {
    let topic = |topic: reply::DeletedTopic| DeletableTopicResult {
        name: topic.name,
        topic_id: topic.id.into(),
        error_code: error_number(topic.error.as_ref(), version),
        error_message: refusal_message(topic.error),
    };
    DeleteTopicsResponse { throttle_time_ms: 0, responses: reply.topics.into_iter().map(topic).collect() }
}

/// Before version 3 there was no number for a broker that deletes no topics.
fn error_number(error: Option<&Refusal>, version: i16) -> i16 {
    match error {
        Some(refusal) if version < 3 && refusal.code == ErrorCode::TopicDeletionDisabled => {
            ErrorCode::InvalidRequest.number()
        }
        error => refusal_number(error),
    }
}
