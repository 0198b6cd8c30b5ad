//! Topics: listed, created, grown, deleted.

use std::collections::BTreeMap;

use coordination::error_code::ErrorCode;
use wire::Uuid;
use wire::api::create_partitions::{CreatePartitionsRequest, CreatePartitionsTopic};
use wire::api::create_topics::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use wire::api::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use wire::api::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use wire::api::metadata::{MetadataResponsePartition, MetadataResponseTopic};

use crate::cluster::{Client, unknown_partition};
use crate::error::{ClientError, accepted};
use crate::group_offsets::TopicPartition;

/// A topic as the cluster tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id; zero when the broker does not tell ids.
    pub id: Uuid,
    /// Whether it is one of the broker's own.
    pub internal: bool,
    /// Its partitions, by number.
    pub partitions: Vec<Partition>,
}

/// A partition as the cluster tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Its number.
    pub index: i32,
    /// The node that leads it; -1 for none.
    pub leader: i32,
    /// The nodes that hold it.
    pub replicas: Vec<i32>,
    /// The nodes that hold all of it.
    pub in_sync: Vec<i32>,
}

/// A topic to be created.
#[derive(Debug, Clone, Default)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions; the broker's choice without.
    pub partitions: Option<i32>,
    /// How many replicas; the broker's choice without.
    pub replication_factor: Option<i16>,
    /// Its settings.
    pub configs: Vec<(String, String)>,
}

const UNKNOWN_TOPIC: i16 = ErrorCode::UnknownTopicOrPartition.number();

const INVALID_TOPIC: i16 = ErrorCode::InvalidTopic.number();

/// The timestamp that stands for the first offset of a partition.
pub const EARLIEST: i64 = -2;

/// The timestamp that stands for the offset after the last one of a partition.
pub const LATEST: i64 = -1;

impl Client {
    /// All topics, or those named. A named topic that does not exist is an error.
    pub async fn topics(&mut self, names: Option<&[String]>) -> Result<Vec<Topic>, ClientError> {
        told(self.metadata(names).await?.topics)
    }

    /// Those of the named topics that exist.
    pub async fn existing_topics(&mut self, names: &[String]) -> Result<Vec<Topic>, ClientError> {
        let mut topics = self.metadata(Some(names)).await?.topics;
        topics.retain(|topic| topic.error_code != UNKNOWN_TOPIC);
        told(topics)
    }

    /// Creates a topic.
    pub async fn create_topic(&mut self, topic: &NewTopic) -> Result<(), ClientError> {
        let config = |(name, value): &(String, String)| CreatableTopicConfig {
            name: name.clone(),
            value: Some(value.clone()),
        };
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: topic.name.clone(),
                num_partitions: topic.partitions.unwrap_or(-1),
                replication_factor: topic.replication_factor.unwrap_or(-1),
                assignments: Vec::new(),
                configs: topic.configs.iter().map(config).collect(),
            }],
            timeout_ms: self.timeout_ms(),
            validate_only: false,
        };
        let response = self.call(&request).await?;
        let result = response.topics.into_iter().next().ok_or_else(unknown_partition)?;
        accepted(result.error_code, result.error_message)
    }

    /// Deletes a topic with all it holds.
    pub async fn delete_topic(&mut self, name: &str) -> Result<(), ClientError> {
        let request = DeleteTopicsRequest {
            topics: vec![DeleteTopicState { name: Some(name.to_owned()), ..Default::default() }],
            topic_names: vec![name.to_owned()],
            timeout_ms: self.timeout_ms(),
        };
        let response = self.call(&request).await?;
        let result = response.responses.into_iter().next().ok_or_else(unknown_partition)?;
        accepted(result.error_code, result.error_message)
    }

    /// Gives a topic more partitions, `count` in all.
    pub async fn create_partitions(&mut self, name: &str, count: i32) -> Result<(), ClientError> {
        let request = CreatePartitionsRequest {
            topics: vec![CreatePartitionsTopic { name: name.to_owned(), count, assignments: None }],
            timeout_ms: self.timeout_ms(),
            validate_only: false,
        };
        let response = self.call(&request).await?;
        let result = response.results.into_iter().next().ok_or_else(unknown_partition)?;
        accepted(result.error_code, result.error_message)
    }

    /// The first offset of each partition of a topic and the one after its last, by partition.
    ///
    /// A partition without a leader is left out.
    pub async fn offsets(&mut self, topic: &Topic) -> Result<BTreeMap<i32, (i64, i64)>, ClientError> {
        let earliest = self.list_offsets(topic, EARLIEST).await?;
        let latest = self.list_offsets(topic, LATEST).await?;
        let both = |(index, start): (i32, i64)| Some((index, (start, *latest.get(&index)?)));
        Ok(earliest.into_iter().filter_map(both).collect())
    }

    /// The offsets that ListOffsets finds for `timestamp`, by partition.
    pub async fn list_offsets(
        &mut self,
        topic: &Topic,
        timestamp: i64,
    ) -> Result<BTreeMap<i32, i64>, ClientError> {
        let found = self.list_offsets_of(std::slice::from_ref(topic), timestamp).await?;
        Ok(found.into_iter().map(|((_, partition), offset)| (partition, offset)).collect())
    }

    /// The offsets that ListOffsets finds for `timestamp` in several topics, with one request for each leader.
    ///
    /// The offset is -1 where there is none. A partition without a leader is left out.
    pub async fn list_offsets_of(
        &mut self,
        topics: &[Topic],
        timestamp: i64,
    ) -> Result<BTreeMap<TopicPartition, i64>, ClientError> {
        let mut by_leader: BTreeMap<i32, BTreeMap<&str, Vec<ListOffsetsPartition>>> = BTreeMap::new();
        for topic in topics {
            for partition in topic.partitions.iter().filter(|partition| partition.leader >= 0) {
                let wanted = by_leader.entry(partition.leader).or_default().entry(&topic.name).or_default();
                let partition_index = partition.index;
                wanted.push(ListOffsetsPartition { partition_index, timestamp, ..Default::default() });
            }
        }
        let metadata = self.metadata(Some(&[])).await?;
        let mut found = BTreeMap::new();
        for (leader, wanted) in by_leader {
            let topic =
                |(name, partitions): (&str, _)| ListOffsetsTopic { name: name.to_owned(), partitions };
            let request = ListOffsetsRequest {
                replica_id: -1,
                topics: wanted.into_iter().map(topic).collect(),
                timeout_ms: self.timeout_ms(),
                ..Default::default()
            };
            let response = self.node(leader, &metadata).await?.call(&request).await?;
            for topic in response.topics {
                for partition in topic.partitions {
                    let place = format!("{}-{}", topic.name, partition.partition_index);
                    accepted(partition.error_code, Some(place))?;
                    found.insert((topic.name.clone(), partition.partition_index), partition.offset);
                }
            }
        }
        Ok(found)
    }

    pub(crate) fn timeout_ms(&self) -> i32 {
        i32::try_from(self.options.patience.as_millis()).unwrap_or(i32::MAX)
    }
}

/// Topics as the cluster tells them, unless it has something against one.
fn told(found: Vec<MetadataResponseTopic>) -> Result<Vec<Topic>, ClientError> {
    let mut topics = Vec::with_capacity(found.len());
    for topic in found {
        let name = topic.name.unwrap_or_default();
        let said = match topic.error_code {
            UNKNOWN_TOPIC => format!("topic {name} does not exist"),
            INVALID_TOPIC => format!("`{name}` is no name of a topic"),
            _ => format!("topic {name}"),
        };
        accepted(topic.error_code, Some(said))?;
        let partition = |partition: MetadataResponsePartition| Partition {
            index: partition.partition_index,
            leader: partition.leader_id,
            replicas: partition.replica_nodes,
            in_sync: partition.isr_nodes,
        };
        let mut partitions: Vec<Partition> = topic.partitions.into_iter().map(partition).collect();
        partitions.sort_by_key(|partition| partition.index);
        topics.push(Topic { name, id: topic.topic_id, internal: topic.is_internal, partitions });
    }
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(topics)
}
