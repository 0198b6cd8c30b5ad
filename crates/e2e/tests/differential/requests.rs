//! Requests, built from the little that a script says about them.

use batch::{BatchBuilder, Codec, NewRecord, ProducerFields, TimestampType};
use bytes::Bytes;
use wire::api::*;
use wire::{AnyRequest, Uuid};

use crate::names::Names;

/// The time that records are given, so that lookups by time are the same everywhere: 2026 began about then.
pub(crate) const TIME: i64 = 1_767_225_600_000;
/// The settings of a topic, and one that is none.
pub(crate) const SETTINGS: [&str; 33] = [
    "cleanup.policy",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "remote.log.copy.disable",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
    "no.such",
];

/// Values, none of which fits everywhere.
pub(crate) const VALUES: [&str; 31] = [
    "",
    " ",
    "0",
    "1",
    "-1",
    "-2",
    "-3",
    "7",
    " 7 ",
    "+7",
    "07",
    "0x7",
    "1e3",
    "0.5",
    "1.0",
    "2",
    "4096",
    "1048576",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "true",
    "TRUE",
    "yes",
    "compact",
    "delete,compact",
    "compact,",
    "zstd",
    "LogAppendTime",
    "*",
];

pub(crate) fn find_group(group: &str) -> AnyRequest {
    AnyRequest::FindCoordinator(find_coordinator::FindCoordinatorRequest {
        key: group.to_owned(),
        ..Default::default()
    })
}

pub(crate) fn all_topics(operations: bool) -> AnyRequest {
    AnyRequest::Metadata(metadata::MetadataRequest {
        topics: None,
        allow_auto_topic_creation: false,
        include_cluster_authorized_operations: operations,
        include_topic_authorized_operations: operations,
    })
}

pub(crate) fn metadata(topics: &[(Uuid, Option<&str>)], auto_create: bool) -> AnyRequest {
    let topics = topics.iter().map(|(topic_id, name)| metadata::MetadataRequestTopic {
        topic_id: *topic_id,
        name: name.map(str::to_owned),
    });
    AnyRequest::Metadata(metadata::MetadataRequest {
        topics: Some(topics.collect()),
        allow_auto_topic_creation: auto_create,
        ..Default::default()
    })
}

pub(crate) fn page(topics: &[&str], limit: i32, cursor: Option<(&str, i32)>) -> AnyRequest {
    AnyRequest::DescribeTopicPartitions(describe_topic_partitions::DescribeTopicPartitionsRequest {
        topics: topics
            .iter()
            .map(|name| describe_topic_partitions::TopicRequest { name: (*name).to_owned() })
            .collect(),
        response_partition_limit: limit,
        cursor: cursor.map(|(topic, partition_index)| describe_topic_partitions::Cursor {
            topic_name: topic.to_owned(),
            partition_index,
        }),
    })
}

pub(crate) fn topic(
    name: &str,
    num_partitions: i32,
    replication_factor: i16,
) -> create_topics::CreatableTopic {
    create_topics::CreatableTopic {
        name: name.to_owned(),
        num_partitions,
        replication_factor,
        ..Default::default()
    }
}

pub(crate) fn config(name: &str, value: &str) -> create_topics::CreatableTopicConfig {
    create_topics::CreatableTopicConfig { name: name.to_owned(), value: Some(value.to_owned()) }
}

pub(crate) fn create(topics: &[create_topics::CreatableTopic], validate_only: bool) -> AnyRequest {
    AnyRequest::CreateTopics(create_topics::CreateTopicsRequest {
        topics: topics.to_vec(),
        timeout_ms: 10_000,
        validate_only,
    })
}

pub(crate) fn more_partitions(
    name: &str,
    count: i32,
    assignments: Option<Vec<Vec<i32>>>,
    validate_only: bool,
) -> AnyRequest {
    let assignments = assignments.map(|nodes| {
        nodes
            .into_iter()
            .map(|broker_ids| create_partitions::CreatePartitionsAssignment { broker_ids })
            .collect()
    });
    AnyRequest::CreatePartitions(create_partitions::CreatePartitionsRequest {
        topics: vec![create_partitions::CreatePartitionsTopic { name: name.to_owned(), count, assignments }],
        timeout_ms: 10_000,
        validate_only,
    })
}

pub(crate) fn delete(version: i16, topics: &[&str]) -> AnyRequest {
    let mut request = delete_topics::DeleteTopicsRequest { timeout_ms: 10_000, ..Default::default() };
    if version < 6 {
        request.topic_names = topics.iter().map(|name| (*name).to_owned()).collect();
    } else {
        let by_name = |name: &&str| delete_topics::DeleteTopicState {
            name: Some((*name).to_owned()),
            ..Default::default()
        };
        request.topics = topics.iter().map(by_name).collect();
    }
    AnyRequest::DeleteTopics(request)
}

pub(crate) fn delete_by_id(topic_id: Uuid, name: Option<&str>) -> AnyRequest {
    AnyRequest::DeleteTopics(delete_topics::DeleteTopicsRequest {
        topics: vec![delete_topics::DeleteTopicState { name: name.map(str::to_owned), topic_id }],
        timeout_ms: 10_000,
        ..Default::default()
    })
}

pub(crate) fn produce(
    names: &Names,
    topic: &str,
    index: i32,
    records: Option<Bytes>,
    acks: i16,
) -> AnyRequest {
    AnyRequest::Produce(produce::ProduceRequest {
        transactional_id: None,
        acks,
        timeout_ms: 10_000,
        topic_data: vec![produce::TopicProduceData {
            name: topic.to_owned(),
            topic_id: names.topic_id(topic),
            partition_data: vec![produce::PartitionProduceData { index, records }],
        }],
    })
}

pub(crate) fn records(count: usize, codec: Codec, producer: Option<ProducerFields>) -> Bytes {
    let mut builder = BatchBuilder::new(0).codec(codec).timestamp_type(TimestampType::CreateTime);
    if let Some(producer) = producer {
        builder = builder.producer(producer);
    }
    for n in 0..count {
        let (key, value) = (format!("key {n}"), format!("value {n} {}", "x".repeat(n)));
        let record = NewRecord {
            timestamp: TIME + i64::try_from(n).expect("few records"),
            key: Some(key.as_bytes()),
            value: Some(value.as_bytes()),
            headers: &[(b"h", Some(b"1")), (b"h", None)],
        };
        builder.push(&record).expect("a small record");
    }
    builder.finish().expect("a small batch")
}

pub(crate) fn keyless(count: usize) -> Bytes {
    let mut builder = BatchBuilder::new(0);
    for n in 0..count {
        let key = (n == 1).then_some(&b"key"[..]);
        builder
            .push(&NewRecord { timestamp: TIME, key, value: Some(b"v"), headers: &[] })
            .expect("a small record");
    }
    builder.finish().expect("a small batch")
}

/// The batch with one byte changed and a checksum that fits.
pub(crate) fn resealed(batch: &Bytes, at: usize, to: u8) -> Bytes {
    let mut bytes = batch.to_vec();
    bytes[at] = to;
    let crc = batch::crc_of(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes.into()
}

pub(crate) fn init_producer(
    transactional_id: Option<&str>,
    producer_id: i64,
    producer_epoch: i16,
) -> AnyRequest {
    AnyRequest::InitProducerId(init_producer_id::InitProducerIdRequest {
        transactional_id: transactional_id.map(str::to_owned),
        transaction_timeout_ms: 60_000,
        producer_id,
        producer_epoch,
    })
}

pub(crate) fn fetch(
    names: &Names,
    version: i16,
    topic: &str,
    partition: i32,
    offset: i64,
    change: impl Fn(&mut fetch::FetchPartition),
) -> AnyRequest {
    let mut wanted = fetch::FetchPartition {
        partition,
        fetch_offset: offset,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    change(&mut wanted);
    AnyRequest::Fetch(fetch::FetchRequest {
        replica_id: -1,
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 50 << 20,
        session_epoch: -1,
        topics: vec![fetch::FetchTopic {
            topic: if version < 13 { topic.to_owned() } else { String::new() },
            topic_id: names.topic_id(topic),
            partitions: vec![wanted],
        }],
        ..Default::default()
    })
}

pub(crate) fn find_offsets(topic: &str, partition_index: i32, timestamp: i64) -> AnyRequest {
    AnyRequest::ListOffsets(list_offsets::ListOffsetsRequest {
        replica_id: -1,
        isolation_level: 0,
        topics: vec![list_offsets::ListOffsetsTopic {
            name: topic.to_owned(),
            partitions: vec![list_offsets::ListOffsetsPartition {
                partition_index,
                current_leader_epoch: -1,
                timestamp,
            }],
        }],
        timeout_ms: 10_000,
    })
}

pub(crate) fn describe(
    resource_type: i8,
    name: &str,
    keys: Option<&[&str]>,
    include_synonyms: bool,
    include_documentation: bool,
) -> AnyRequest {
    AnyRequest::DescribeConfigs(describe_configs::DescribeConfigsRequest {
        resources: vec![describe_configs::DescribeConfigsResource {
            resource_type,
            resource_name: name.to_owned(),
            configuration_keys: keys.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect()),
        }],
        include_synonyms,
        include_documentation,
    })
}

pub(crate) fn alter(
    resource_type: i8,
    name: &str,
    configs: &[(&str, i8, Option<&str>)],
    validate_only: bool,
) -> AnyRequest {
    AnyRequest::IncrementalAlterConfigs(incremental_alter_configs::IncrementalAlterConfigsRequest {
        resources: vec![incremental_alter_configs::AlterConfigsResource {
            resource_type,
            resource_name: name.to_owned(),
            configs: configs
                .iter()
                .map(|(name, config_operation, value)| incremental_alter_configs::AlterableConfig {
                    name: (*name).to_owned(),
                    config_operation: *config_operation,
                    value: value.map(str::to_owned),
                })
                .collect(),
        }],
        validate_only,
    })
}

pub(crate) fn forget(topic: &str, partition_index: i32, offset: i64) -> AnyRequest {
    AnyRequest::DeleteRecords(delete_records::DeleteRecordsRequest {
        topics: vec![delete_records::DeleteRecordsTopic {
            name: topic.to_owned(),
            partitions: vec![delete_records::DeleteRecordsPartition { partition_index, offset }],
        }],
        timeout_ms: 10_000,
    })
}

/// A fetch of partitions from offsets, in a session or for a new one.
pub(crate) fn fetch_in_session(
    names: &Names,
    session_id: i32,
    session_epoch: i32,
    wanted: &[(&str, i32, i64)],
) -> AnyRequest {
    let topic = |&(topic, partition, fetch_offset): &(&str, i32, i64)| fetch::FetchTopic {
        topic: topic.to_owned(),
        topic_id: names.topic_id(topic),
        partitions: vec![fetch::FetchPartition {
            partition,
            fetch_offset,
            partition_max_bytes: 1 << 20,
            ..Default::default()
        }],
    };
    AnyRequest::Fetch(fetch::FetchRequest {
        replica_id: -1,
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 50 << 20,
        session_id,
        session_epoch,
        topics: wanted.iter().map(topic).collect(),
        ..Default::default()
    })
}
