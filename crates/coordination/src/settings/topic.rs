//! What the settings mean for one topic.

use std::collections::BTreeMap;

use super::topic_table::{TOPIC_PROPERTIES, TopicProperty};
use super::value::items;
use super::{Settings, nearest};

/// A topic's settings as values: its own where it has them, the broker's elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicConfig {
    /// What happens to old records.
    pub cleanup_policy: CleanupPolicy,
    /// Milliseconds that records are kept; none keeps them for ever.
    pub retention_ms: Option<i64>,
    /// Bytes kept of each partition; none keeps all.
    pub retention_bytes: Option<u64>,
    /// Size at which a segment is closed.
    pub segment_bytes: u64,
    /// Milliseconds after which a segment is closed even if it is not full.
    pub segment_ms: i64,
    /// Bytes of records between two entries of a segment's index.
    pub index_interval_bytes: u64,
    /// Largest record batch, as it is sent.
    pub max_message_bytes: usize,
    /// Whose timestamp a record gets.
    pub message_timestamp_type: TimestampType,
    /// How far a record's timestamp may lie before the broker's clock.
    pub message_timestamp_before_max_ms: i64,
    /// How far a record's timestamp may lie after the broker's clock.
    pub message_timestamp_after_max_ms: i64,
    /// Least time a record stays uncompacted.
    pub min_compaction_lag_ms: i64,
    /// Longest time a record may stay uncompacted.
    pub max_compaction_lag_ms: i64,
    /// How long a deletion marker stays in a compacted topic.
    pub delete_retention_ms: i64,
    /// Part of a log that must be uncompacted before it is compacted again.
    pub min_cleanable_dirty_ratio: f64,
    /// Codec of stored batches.
    pub compression_type: CompressionType,
}

/// What happens to old records. Neither means that all are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// The last record of each key is kept.
    pub compact: bool,
    /// Records go when they are too old or too many.
    pub delete: bool,
}

/// Whose timestamp a record gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's.
    CreateTime,
    /// The broker's.
    LogAppendTime,
}

/// Codec of stored batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionType {
    /// As the producer chose.
    Producer,
    /// None.
    Uncompressed,
    /// gzip.
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl TopicConfig {
    /// The values for a topic with these overrides under these broker settings.
    ///
    /// Overrides that do not fit (none that went through [`validate_topic_config`]) count as absent.
    pub fn new(overrides: &BTreeMap<String, String>, settings: &Settings) -> Self {
        let text = |name: &str| -> String {
            topic_property(name)
                .map(|property| settings.topic_value(property, overrides))
                .expect("every name asked for here is in the table, as a test checks")
        };
        let long = |name: &str| text(name).parse::<i64>().expect("the table's values fit their types");
        let bytes = |name: &str| u64::try_from(long(name)).unwrap_or(0);
        let limit = |name: &str| Some(long(name)).filter(|limit| *limit >= 0);
        let policy = text("cleanup.policy");
        Self {
            cleanup_policy: CleanupPolicy {
                compact: items(&policy).any(|item| item == "compact"),
                delete: items(&policy).any(|item| item == "delete"),
            },
            retention_ms: limit("retention.ms"),
            retention_bytes: limit("retention.bytes").and_then(|limit| u64::try_from(limit).ok()),
            segment_bytes: bytes("segment.bytes"),
            segment_ms: long("segment.ms"),
            index_interval_bytes: bytes("index.interval.bytes"),
            max_message_bytes: usize::try_from(long("max.message.bytes")).unwrap_or(0),
            message_timestamp_type: match text("message.timestamp.type").as_str() {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            message_timestamp_before_max_ms: long("message.timestamp.before.max.ms"),
            message_timestamp_after_max_ms: long("message.timestamp.after.max.ms"),
            min_compaction_lag_ms: long("min.compaction.lag.ms"),
            max_compaction_lag_ms: long("max.compaction.lag.ms"),
            delete_retention_ms: long("delete.retention.ms"),
            min_cleanable_dirty_ratio: text("min.cleanable.dirty.ratio").parse().unwrap_or(0.5),
            compression_type: match text("compression.type").as_str() {
                "uncompressed" => CompressionType::Uncompressed,
                "gzip" => CompressionType::Gzip,
                "snappy" => CompressionType::Snappy,
                "lz4" => CompressionType::Lz4,
                "zstd" => CompressionType::Zstd,
                _ => CompressionType::Producer,
            },
        }
    }
}

/// The topic property of this name.
pub fn topic_property(name: &str) -> Option<&'static TopicProperty> {
    TOPIC_PROPERTIES
        .binary_search_by(|candidate| candidate.property.name.cmp(name))
        .ok()
        .map(|index| &TOPIC_PROPERTIES[index])
}

/// Checks one override of a topic; the error is the sentence that Kafka answers with INVALID_CONFIG.
pub fn validate_topic_config(name: &str, value: &str) -> Result<(), String> {
    match topic_property(name) {
        Some(topic) => {
            let value = topic.property.normalise(value)?;
            // A topic that asks for remote storage would expect its local records to go; Kafka without such
            // storage refuses it too.
            if name == "remote.storage.enable" && value == "true" {
                return Err("Tiered Storage functionality is disabled in the broker. \
                            Topic cannot be configured with remote log storage."
                    .to_owned());
            }
            Ok(())
        }
        None => Err(format!("Unknown topic config name: {name}")),
    }
}

/// Checks all overrides of a topic together.
pub fn validate_topic_configs(
    overrides: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<(), String> {
    for (name, value) in overrides {
        validate_topic_config(name, value)?;
    }
    let config = TopicConfig::new(overrides, settings);
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms {
        return Err(format!(
            "conflict topic config setting min.compaction.lag.ms ({}) > max.compaction.lag.ms ({})",
            config.min_compaction_lag_ms, config.max_compaction_lag_ms
        ));
    }
    Ok(())
}

/// The topic property whose name is nearest to `given`, for messages to people.
pub fn nearest_topic_property(given: &str) -> Option<&'static str> {
    nearest(given, TOPIC_PROPERTIES.iter().map(|topic| topic.property.name))
}
