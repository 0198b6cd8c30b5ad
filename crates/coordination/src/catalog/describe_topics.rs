//! Metadata and DescribeTopicPartitions.

use std::collections::BTreeSet;

use super::{Catalog, check_topic_name, is_internal};
use crate::access::Operations;
use crate::error_code::ErrorCode;
use crate::ids::{OrgId, TopicId};
use crate::limits::DESCRIBED_PARTITIONS_MAX;
use crate::op::{self, TopicRef};
use crate::record::Topic;
use crate::reply::{self, PartitionMetadata, TopicMetadata};

/// The one node leads every partition and never hands one over, so the epoch never moves.
pub const LEADER_EPOCH: i32 = 0;

impl Catalog {
    /// The topics asked for, each once.
    pub fn metadata(&self, org: OrgId, op: &op::Metadata) -> reply::Metadata {
        let topics = match &op.topics {
            None => self.topics_of(org).map(|topic| described(topic, 0..topic.partitions)).collect(),
            Some(asked) => {
                // As in Kafka: with ids in the request its names do not count.
                let by_id = asked.iter().any(|topic| matches!(topic, TopicRef::Id(_)));
                let counts = |topic: &&TopicRef| !by_id || matches!(topic, TopicRef::Id(_));
                let mut seen = BTreeSet::new();
                let asked = asked.iter().filter(counts).filter(|topic| seen.insert(*topic));
                asked.map(|topic| self.topic_metadata(org, topic)).collect()
            }
        };
        reply::Metadata {
            cluster_id: self.cluster_id.clone().unwrap_or_default(),
            topics,
            operations: Operations::OF_CLUSTER,
        }
    }

    /// A page of topics.
    pub fn describe_topic_partitions(
        &self,
        org: OrgId,
        op: &op::DescribeTopicPartitions,
    ) -> reply::DescribeTopicPartitions {
        let first = op.cursor.as_ref().map_or("", |(name, _)| name.as_str());
        let all = op.topics.is_empty();
        let names: BTreeSet<&str> = if all {
            self.topics_of(org).map(|topic| topic.name.as_str()).filter(|name| *name >= first).collect()
        } else {
            op.topics.iter().map(String::as_str).filter(|name| *name >= first).collect()
        };
        let start = op.cursor.as_ref().map_or(0, |(_, partition)| *partition);
        let cursor_is_asked_for = all || op.cursor.is_none() || names.contains(first);
        let Some(start) = u32::try_from(start).ok().filter(|_| cursor_is_asked_for) else {
            return refused(op, ErrorCode::InvalidRequest);
        };
        if names.contains("") {
            return refused(op, ErrorCode::UnknownServerError);
        }

        let mut left = u32::try_from(op.partition_limit).unwrap_or(0).clamp(1, DESCRIBED_PARTITIONS_MAX);
        let mut topics = Vec::new();
        for name in names {
            if left == 0 {
                return reply::DescribeTopicPartitions { topics, next_cursor: Some((name.to_owned(), 0)) };
            }
            let Some(topic) = self.topic_named(org, name) else {
                topics.push(missing(name));
                continue;
            };
            let start = if name == first { start.min(topic.partitions) } else { 0 };
            let end = topic.partitions.min(start.saturating_add(left));
            topics.push(described(topic, start..end));
            left -= end - start;
            if end < topic.partitions {
                let next = i32::try_from(end).unwrap_or(i32::MAX);
                return reply::DescribeTopicPartitions { topics, next_cursor: Some((name.to_owned(), next)) };
            }
        }
        reply::DescribeTopicPartitions { topics, next_cursor: None }
    }

    fn topic_metadata(&self, org: OrgId, asked: &TopicRef) -> TopicMetadata {
        match (self.topic(org, asked), asked) {
            (Some(topic), _) => described(topic, 0..topic.partitions),
            (None, TopicRef::Name(name)) => missing(name),
            (None, TopicRef::Id(id)) => TopicMetadata {
                error: Some(ErrorCode::UnknownTopicId),
                name: None,
                id: *id,
                internal: false,
                partitions: Vec::new(),
                operations: Operations::OF_TOPIC,
            },
        }
    }
}

fn described(topic: &Topic, partitions: std::ops::Range<u32>) -> TopicMetadata {
    let partition = |index: u32| PartitionMetadata {
        index: i32::try_from(index).unwrap_or(i32::MAX),
        leader_epoch: LEADER_EPOCH,
    };
    TopicMetadata {
        error: None,
        name: Some(topic.name.clone()),
        id: topic.id,
        internal: is_internal(&topic.name),
        partitions: partitions.map(partition).collect(),
        operations: Operations::OF_TOPIC,
    }
}

fn missing(name: &str) -> TopicMetadata {
    let error = match check_topic_name(name) {
        Ok(()) => ErrorCode::UnknownTopicOrPartition,
        Err(refusal) => refusal.code,
    };
    TopicMetadata {
        error: Some(error),
        name: Some(name.to_owned()),
        id: TopicId::ZERO,
        internal: is_internal(name),
        partitions: Vec::new(),
        operations: Operations::OF_TOPIC,
    }
}

/// As Kafka does, every topic of the request is refused for what is wrong with the request.
fn refused(op: &op::DescribeTopicPartitions, error: ErrorCode) -> reply::DescribeTopicPartitions {
    let topic = |name: &String| TopicMetadata { error: Some(error), internal: false, ..missing(name) };
    reply::DescribeTopicPartitions { topics: op.topics.iter().map(topic).collect(), next_cursor: None }
}
