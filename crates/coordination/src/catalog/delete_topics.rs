//! DeleteTopics.

use std::collections::BTreeSet;

use super::{Catalog, Decision, TOPIC_NAME_OF_OFFSETS, repeated};
use crate::error_code::ErrorCode;
use crate::ids::{OrgId, TopicId};
use crate::op::{self, NoTopicRef, TopicRef};
use crate::record::Record;
use crate::reply::{self, DeletedTopic, Refusal};

impl Catalog {
    /// Removes the topics that exist.
    pub fn handle_delete_topics(&self, org: OrgId, op: &op::DeleteTopics) -> Decision<reply::DeleteTopics> {
        let twice = repeated(op.topics.iter().flatten());
        let once: BTreeSet<&TopicRef> =
            op.topics.iter().flatten().filter(|topic| !twice.contains(topic)).collect();
        let mut answered = BTreeSet::new();
        let mut records = Vec::new();
        let mut topics = Vec::new();
        for topic in &op.topics {
            let named = match topic {
                Ok(named) => named,
                Err(unnamed) => {
                    topics.push(unnamed_refusal(unnamed));
                    continue;
                }
            };
            if !self.settings.delete_topics() {
                topics.push(refused(named, ErrorCode::TopicDeletionDisabled));
                continue;
            }
            if twice.contains(named) {
                if answered.insert(named) {
                    topics.push(refused(named, repeated_refusal(named)));
                }
                continue;
            }
            let Some(found) = self.topic(org, named) else {
                topics.push(refused(named, unknown_refusal(named)));
                continue;
            };
            if found.name == TOPIC_NAME_OF_OFFSETS {
                let error = Some(groups_refusal());
                topics.push(DeletedTopic { name: Some(found.name.clone()), id: found.id, error });
                continue;
            }
            // The same topic by its name and by its id is a contradiction; Kafka says so once and removes nothing.
            match named {
                TopicRef::Name(_) if once.contains(&TopicRef::Id(found.id)) => {
                    let refusal = invalid("The provided topic name maps to an ID that was already supplied.");
                    topics.push(DeletedTopic { id: found.id, ..refused(named, refusal) });
                    continue;
                }
                TopicRef::Id(_) if once.contains(&TopicRef::Name(found.name.clone())) => continue,
                TopicRef::Name(_) | TopicRef::Id(_) => {}
            }
            records.push(Record::TopicDeleted(found.id));
            topics.push(DeletedTopic { name: Some(found.name.clone()), id: found.id, error: None });
        }
        Decision { records, reply: reply::DeleteTopics { topics } }
    }
}

fn refused(topic: &TopicRef, refusal: impl Into<Refusal>) -> DeletedTopic {
    let (name, id) = match topic {
        TopicRef::Name(name) => (Some(name.clone()), TopicId::ZERO),
        TopicRef::Id(id) => (None, *id),
    };
    DeletedTopic { name, id, error: Some(refusal.into()) }
}

/// Kafka would delete the topic, and with it every group and committed offset. Nobody means that; groups are deleted
/// one by one.
fn groups_refusal() -> Refusal {
    let message =
        format!("Cannot delete the internal topic {TOPIC_NAME_OF_OFFSETS}, which holds all groups.");
    Refusal::new(ErrorCode::InvalidTopic, message)
}

fn unnamed_refusal(topic: &NoTopicRef) -> DeletedTopic {
    let (name, id, message) = match topic {
        NoTopicRef::Neither => (None, TopicId::ZERO, "Neither topic name nor id were specified."),
        NoTopicRef::Both { name, id } => {
            (Some(name.clone()), *id, "You may not specify both topic name and topic id.")
        }
    };
    DeletedTopic { name, id, error: Some(invalid(message)) }
}

fn invalid(message: &str) -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, message)
}

fn repeated_refusal(topic: &TopicRef) -> Refusal {
    match topic {
        TopicRef::Name(_) => invalid("Duplicate topic name."),
        TopicRef::Id(_) => invalid("Duplicate topic id."),
    }
}

fn unknown_refusal(topic: &TopicRef) -> Refusal {
    match topic {
        TopicRef::Name(_) => Refusal::new(
            ErrorCode::UnknownTopicOrPartition,
            "This server does not host this topic-partition.",
        ),
        TopicRef::Id(_) => {
            Refusal::new(ErrorCode::UnknownTopicId, "This server does not host this topic ID.")
        }
    }
}
