//! The requests about topics and settings, each with its answer.

use std::sync::Arc;

use coordination::access::Operations;
use coordination::catalog::{Decision, Minted};
use coordination::error_code::ErrorCode;
use coordination::ids::OrgId;
use coordination::op;
use coordination::reply::{self, Refusal, Reply};
use rail::Answer;

use super::Admin;
use super::change::mint_topic_ids;

impl Admin {
    /// Which topics there are. A topic that is made because it was asked for is shown at once.
    pub fn metadata(self: &Arc<Self>, org: OrgId, op: op::Metadata) -> Answer {
        let (missing, refusal, reply) = self.look(|catalog| {
            let (missing, refusal) = catalog.topics_to_auto_create(org, &op);
            (missing.len(), refusal, if missing.is_empty() { Some(catalog.metadata(org, &op)) } else { None })
        });
        if let Some(refusal) = refusal {
            self.tell_unmade(org, &refusal);
        }
        if let Some(reply) = reply {
            return Reply::Metadata(reply).into();
        }
        let admin = Arc::clone(self);
        Answer::Later(Box::pin(async move {
            let ids = mint_topic_ids(missing);
            let asked = op.clone();
            let created = admin.change_in(org, move |catalog, now_ms| {
                let records = catalog.handle_auto_create(org, &asked, Minted { now_ms, topic_ids: &ids });
                Decision { records, reply: () }
            });
            // What could not be made is shown as what it is: unknown. The client asks again.
            let _ = created.await;
            Reply::Metadata(admin.look(|catalog| catalog.metadata(org, &op)))
        }))
    }

    /// Logs now and then why a topic is not made that was only asked for: the answer has no room for words.
    fn tell_unmade(&self, org: OrgId, refusal: &Refusal) {
        if self.told_unmade.lock().entry(org).or_default().is_due(self.began.elapsed()) {
            let reason = refusal.message.as_deref().unwrap_or_default();
            tracing::warn!(reason, "a topic that a client asked for is not made");
        }
    }

    /// Makes topics.
    pub fn create_topics(self: &Arc<Self>, org: OrgId, op: op::CreateTopics) -> Answer {
        let admin = Arc::clone(self);
        Answer::Later(Box::pin(async move {
            let names: Vec<String> = op.topics.iter().map(|topic| topic.name.clone()).collect();
            let ids = mint_topic_ids(names.len());
            let made = admin.change_in(org, move |catalog, now_ms| {
                catalog.handle_create_topics(org, &op, Minted { now_ms, topic_ids: &ids })
            });
            Reply::CreateTopics(made.await.unwrap_or_else(|code| {
                let refused = |name| reply::CreatedTopic { name, result: Err(stored_nothing(code)) };
                reply::CreateTopics { topics: names.into_iter().map(refused).collect() }
            }))
        }))
    }

    /// Removes topics.
    pub fn delete_topics(self: &Arc<Self>, org: OrgId, op: op::DeleteTopics) -> Answer {
        let admin = Arc::clone(self);
        Answer::Later(Box::pin(async move {
            let named = op.clone();
            let deleted = admin.change_in(org, move |catalog, _| catalog.handle_delete_topics(org, &op));
            Reply::DeleteTopics(deleted.await.unwrap_or_else(|code| {
                let refused = |topic: &op::TopicRef| {
                    let (name, id) = match topic {
                        op::TopicRef::Name(name) => (Some(name.clone()), coordination::ids::TopicId::ZERO),
                        op::TopicRef::Id(id) => (None, *id),
                    };
                    reply::DeletedTopic { name, id, error: Some(stored_nothing(code)) }
                };
                reply::DeleteTopics { topics: named.topics.iter().flatten().map(refused).collect() }
            }))
        }))
    }

    /// Gives topics more partitions.
    pub fn create_partitions(self: &Arc<Self>, org: OrgId, op: op::CreatePartitions) -> Answer {
        let admin = Arc::clone(self);
        Answer::Later(Box::pin(async move {
            let names: Vec<String> = op.topics.iter().map(|topic| topic.name.clone()).collect();
            let grown = admin.change_in(org, move |catalog, _| catalog.handle_create_partitions(org, &op));
            Reply::CreatePartitions(grown.await.unwrap_or_else(|code| {
                let refused = |name| (name, Some(stored_nothing(code)));
                reply::CreatePartitions { topics: names.into_iter().map(refused).collect() }
            }))
        }))
    }

    /// Changes settings.
    pub fn alter_configs(self: &Arc<Self>, org: OrgId, op: op::AlterConfigs) -> Answer {
        let admin = Arc::clone(self);
        Answer::Later(Box::pin(async move {
            let resources: Vec<_> = op.resources.iter().map(|(resource, _)| resource.clone()).collect();
            let altered = admin.change_in(org, move |catalog, _| catalog.handle_alter_configs(org, &op));
            Reply::AlterConfigs(altered.await.unwrap_or_else(|code| {
                let refused = |resource| (resource, Some(stored_nothing(code)));
                reply::AlterConfigs { resources: resources.into_iter().map(refused).collect() }
            }))
        }))
    }

    /// Shows settings.
    pub fn describe_configs(&self, org: OrgId, op: &op::DescribeConfigs) -> Answer {
        Reply::DescribeConfigs(self.look(|catalog| catalog.describe_configs(org, op))).into()
    }

    /// Shows topics page by page.
    pub fn describe_topic_partitions(&self, org: OrgId, op: &op::DescribeTopicPartitions) -> Answer {
        Reply::DescribeTopicPartitions(self.look(|catalog| catalog.describe_topic_partitions(org, op))).into()
    }

    /// Shows which partitions are on the move: none, there is nowhere to go.
    pub fn list_partition_reassignments(&self) -> Answer {
        Reply::ListPartitionReassignments(reply::ListPartitionReassignments { error: None }).into()
    }

    /// Says which cluster this is.
    pub fn describe_cluster(&self, op: &op::DescribeCluster) -> Answer {
        let result = match op.endpoint_type {
            1 => Ok(self.look(|catalog| catalog.cluster_id().unwrap_or_default().to_owned())),
            2 => Err(Refusal::new(
                ErrorCode::MismatchedEndpointType,
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
            )),
            other => {
                let message = format!("Unsupported endpoint type {other}");
                Err(Refusal::new(ErrorCode::UnsupportedEndpointType, message))
            }
        };
        Reply::DescribeCluster(reply::DescribeCluster { result, operations: Operations::OF_CLUSTER }).into()
    }
}

/// Why a change was not made, for each that asked for a part of it.
pub(super) fn stored_nothing(code: ErrorCode) -> Refusal {
    let why = match code {
        ErrorCode::ClusterAuthorizationFailed => "The organisation does not exist any more.",
        _ => "The change could not be stored; nothing has changed.",
    };
    Refusal::new(code, why)
}
