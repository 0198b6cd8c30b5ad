//! Metadata (3): topics and where they are led.

use std::borrow::Cow;
use std::collections::BTreeSet;

use coordination::error_code::ErrorCode;
use coordination::op::{self, Op, TopicRef};
use coordination::reply;

use crate::addresses::{Addresses, NodeAddress};
use crate::api::operations;
use crate::field::Uuid;
use crate::message::message;
use crate::request::{Asked, Body, Local};

message! {
    /// Asks about topics. All of them: an empty list in version 0, null since version 1.
    pub struct MetadataRequest {
        topics: Option<Vec<MetadataRequestTopic>> [0+, null 1+],
        allow_auto_topic_creation: bool [4+] = true,
        include_cluster_authorized_operations: bool [8-10],
        include_topic_authorized_operations: bool [8+],
    }

    /// One topic; since version 12 it may be named by its id alone.
    pub struct MetadataRequestTopic {
        topic_id: Uuid [10+],
        name: Option<String> [0+, null 10+],
    }

    /// Nodes and topics.
    pub struct MetadataResponse {
        throttle_time_ms: i32 [3+],
        brokers: Vec<MetadataResponseBroker> [0+],
        cluster_id: Option<String> [2+, null 2+],
        controller_id: i32 [1+] = -1,
        topics: Vec<MetadataResponseTopic> [0+],
        cluster_authorized_operations: i32 [8-10] = i32::MIN,
        error_code: i16 [13+],
    }

    /// One node.
    pub struct MetadataResponseBroker {
        node_id: i32 [0+],
        host: String [0+],
        port: i32 [0+],
        rack: Option<String> [1+, null 1+],
    }

    /// One topic.
    pub struct MetadataResponseTopic {
        error_code: i16 [0+],
        name: Option<String> [0+, null 12+],
        topic_id: Uuid [10+],
        is_internal: bool [1+],
        partitions: Vec<MetadataResponsePartition> [0+],
        topic_authorized_operations: i32 [8+] = i32::MIN,
    }

    /// One partition.
    pub struct MetadataResponsePartition {
        error_code: i16 [0+],
        partition_index: i32 [0+],
        leader_id: i32 [0+],
        leader_epoch: i32 [7+] = -1,
        replica_nodes: Vec<i32> [0+],
        isr_nodes: Vec<i32> [0+],
        offline_replicas: Vec<i32> [5+],
    }
}

impl MetadataRequest {
    pub(crate) fn into_body(self, version: i16, asked: &mut Asked) -> Body {
        asked.cluster_operations = self.include_cluster_authorized_operations;
        asked.topic_operations = self.include_topic_authorized_operations;
        let allow_auto_topic_creation = self.allow_auto_topic_creation;
        let op = |topics: Option<Vec<TopicRef>>| {
            let topics = topics.map(each_once);
            Body::Op(Op::Metadata(op::Metadata { topics, allow_auto_topic_creation }))
        };
        let topics = match self.topics {
            // Version 0 has no null.
            Some(topics) if version == 0 && topics.is_empty() => None,
            topics => topics,
        };
        let Some(topics) = topics else { return op(None) };
        let has_id = |topic: &MetadataRequestTopic| topic.topic_id != Uuid::ZERO;
        let has_no_name = |topic: &MetadataRequestTopic| topic.name.is_none();
        // Versions 10 and 11 have a field for the id, but nothing could be found by it then.
        if version < 12 && topics.iter().any(|topic| has_id(topic) || has_no_name(topic)) {
            return Body::Local(Local::Refused(refused(&topics, ErrorCode::InvalidRequest).into()));
        }
        // As soon as one topic has an id, Kafka looks at nothing else.
        if topics.iter().any(has_id) {
            let ids = topics.iter().map(|topic| topic.topic_id).filter(|id| *id != Uuid::ZERO);
            return op(Some(ids.map(|id| TopicRef::Id(id.into())).collect()));
        }
        if topics.iter().any(has_no_name) {
            return Body::Local(Local::Refused(refused(&topics, ErrorCode::UnknownServerError).into()));
        }
        op(Some(topics.into_iter().filter_map(|topic| topic.name.map(TopicRef::Name)).collect()))
    }
}

/// Topics that are named twice are answered once.
fn each_once(mut topics: Vec<TopicRef>) -> Vec<TopicRef> {
    let mut seen = BTreeSet::new();
    topics.retain(|topic| seen.insert(topic.clone()));
    topics
}

fn refused(topics: &[MetadataRequestTopic], error: ErrorCode) -> MetadataResponse {
    let refuse = |topic: &MetadataRequestTopic| MetadataResponseTopic {
        error_code: error.number(),
        name: Some(topic.name.clone().unwrap_or_default()),
        topic_id: topic.topic_id,
        ..MetadataResponseTopic::default()
    };
    MetadataResponse {
        topics: topics.iter().map(refuse).collect(),
        error_code: error.number(),
        ..MetadataResponse::default()
    }
}

pub(crate) fn response(reply: reply::Metadata, asked: Asked, addresses: &Addresses) -> MetadataResponse {
    let broker = |node: Cow<'_, NodeAddress>| MetadataResponseBroker {
        node_id: node.id,
        port: i32::from(node.port),
        host: node.into_owned().host,
        rack: None,
    };
    let topic = |topic: reply::TopicMetadata| MetadataResponseTopic {
        error_code: ErrorCode::number_of(topic.error),
        // Of a topic that the user may not see nothing is told.
        topic_authorized_operations: operations(
            topic.operations,
            asked.topic_operations
                && topic.name.is_some()
                && topic.error != Some(ErrorCode::TopicAuthorizationFailed),
        ),
        name: topic.name,
        topic_id: topic.id.into(),
        is_internal: topic.internal,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| shown(*partition, addresses.leader(topic.id, partition.index)))
            .collect(),
    };
    MetadataResponse {
        throttle_time_ms: 0,
        brokers: addresses.all().into_iter().map(broker).collect(),
        cluster_id: Some(reply.cluster_id),
        controller_id: addresses.node_id,
        topics: reply.topics.into_iter().map(topic).collect(),
        cluster_authorized_operations: operations(reply.operations, asked.cluster_operations),
        error_code: 0,
    }
}

fn shown(partition: reply::PartitionMetadata, leader_id: i32) -> MetadataResponsePartition {
    MetadataResponsePartition {
        error_code: 0,
        partition_index: partition.index,
        leader_id,
        leader_epoch: partition.leader_epoch,
        replica_nodes: vec![leader_id],
        isr_nodes: vec![leader_id],
        offline_replicas: Vec::new(),
    }
}
