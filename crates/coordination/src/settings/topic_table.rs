//! Every property of a topic, in the order of their names, and the broker's property that stands in for each.

use super::broker_table::{CLEANUP_POLICIES, COMPRESSION_TYPES, TIMESTAMP_TYPES};
use super::property::Property;
use super::value::Check;

/// A property that a topic can override.
#[derive(Debug, Clone, Copy)]
pub struct TopicProperty {
    /// The property as a topic has it.
    pub property: Property,
    /// The broker's properties that give its value when the topic does not; the first that has a value wins.
    pub synonyms: &'static [Synonym],
}

/// A broker property behind a topic property.
#[derive(Debug, Clone, Copy)]
pub struct Synonym {
    /// The broker property's name.
    pub name: &'static str,
    /// What one of its units is in the topic property's.
    pub factor: i64,
}

const fn same(name: &'static str) -> Synonym {
    Synonym { name, factor: 1 }
}

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;

const fn topic(property: Property, synonyms: &'static [Synonym]) -> TopicProperty {
    // Everything about a topic can be changed at any time.
    TopicProperty { property: property.dynamic(), synonyms }
}

/// Every property of a topic, in the order of their names.
pub const TOPIC_PROPERTIES: &[TopicProperty] = &[
    topic(
        Property::list(
            "cleanup.policy",
            "delete",
            "What happens to old records: `delete`, `compact` or both.",
        )
        .check(Check::ListOf(CLEANUP_POLICIES)),
        &[same("log.cleanup.policy")],
    ),
    topic(
        Property::int("compression.gzip.level", "-1", "Level when the broker compresses with gzip.")
            .check(Check::GzipLevel)
            .without_effect(),
        &[same("compression.gzip.level")],
    ),
    topic(
        Property::int("compression.lz4.level", "9", "Level when the broker compresses with lz4.")
            .check(Check::Between(1, 17))
            .without_effect(),
        &[same("compression.lz4.level")],
    ),
    topic(
        Property::string(
            "compression.type",
            "producer",
            "Codec of stored batches; `producer` keeps what the producer chose, which costs nothing.",
        )
        .check(Check::OneOf(COMPRESSION_TYPES)),
        &[same("compression.type")],
    ),
    topic(
        Property::int("compression.zstd.level", "3", "Level when the broker compresses with zstd.")
            .check(Check::Between(-131_072, 22))
            .without_effect(),
        &[same("compression.zstd.level")],
    ),
    topic(
        Property::long(
            "delete.retention.ms",
            "86400000",
            "How long a deletion marker stays in a compacted topic.",
        )
        .at_least(0),
        &[same("log.cleaner.delete.retention.ms")],
    ),
    topic(
        Property::long("file.delete.delay.ms", "60000", "Time before a dropped segment's file is removed.")
            .at_least(0)
            .without_effect(),
        &[same("log.segment.delete.delay.ms")],
    ),
    topic(
        Property::long(
            "flush.messages",
            "9223372036854775807",
            "Records between two syncs; see kohort.flush.",
        )
        .at_least(1)
        .without_effect(),
        &[same("log.flush.interval.messages")],
    ),
    topic(
        Property::long("flush.ms", "9223372036854775807", "Time between two syncs; see kohort.flush.")
            .at_least(0)
            .without_effect(),
        &[same("log.flush.interval.ms"), same("log.flush.scheduler.interval.ms")],
    ),
    topic(
        Property::list(
            "follower.replication.throttled.replicas",
            "",
            "Replicas whose followers are throttled.",
        )
        .check(Check::ThrottledReplicas)
        .without_effect(),
        &[],
    ),
    topic(
        Property::int(
            "index.interval.bytes",
            "4096",
            "Bytes of records between two entries of a segment's index.",
        )
        .at_least(0),
        &[same("log.index.interval.bytes")],
    ),
    topic(
        Property::list("leader.replication.throttled.replicas", "", "Replicas whose leaders are throttled.")
            .check(Check::ThrottledReplicas)
            .without_effect(),
        &[],
    ),
    topic(
        Property::long("local.retention.bytes", "-2", "Bytes kept locally with remote storage.")
            .at_least(-2)
            .without_effect(),
        &[same("log.local.retention.bytes")],
    ),
    topic(
        Property::long("local.retention.ms", "-2", "Time kept locally with remote storage.")
            .at_least(-2)
            .without_effect(),
        &[same("log.local.retention.ms")],
    ),
    topic(
        Property::long(
            "max.compaction.lag.ms",
            "9223372036854775807",
            "Longest time a record may stay uncompacted.",
        )
        .at_least(1),
        &[same("log.cleaner.max.compaction.lag.ms")],
    ),
    topic(
        Property::int("max.message.bytes", "1048588", "Largest record batch, as it is sent.").at_least(0),
        &[same("message.max.bytes")],
    ),
    topic(
        Property::long(
            "message.timestamp.after.max.ms",
            "3600000",
            "How far a record's timestamp may lie after the broker's clock.",
        )
        .at_least(0),
        &[same("log.message.timestamp.after.max.ms")],
    ),
    topic(
        Property::long(
            "message.timestamp.before.max.ms",
            "9223372036854775807",
            "How far a record's timestamp may lie before the broker's clock.",
        )
        .at_least(0),
        &[same("log.message.timestamp.before.max.ms")],
    ),
    topic(
        Property::string(
            "message.timestamp.type",
            "CreateTime",
            "Whose timestamp a record gets: the producer's or the broker's.",
        )
        .check(Check::OneOf(TIMESTAMP_TYPES)),
        &[same("log.message.timestamp.type")],
    ),
    topic(
        Property::double(
            "min.cleanable.dirty.ratio",
            "0.5",
            "Part of a log that must be uncompacted before it is compacted again.",
        )
        .check(Check::BetweenDouble(0.0, 1.0)),
        &[same("log.cleaner.min.cleanable.ratio")],
    ),
    topic(
        Property::long("min.compaction.lag.ms", "0", "Least time a record stays uncompacted.").at_least(0),
        &[same("log.cleaner.min.compaction.lag.ms")],
    ),
    topic(
        Property::int(
            "min.insync.replicas",
            "1",
            "Replicas that must have a record before acks=all is answered.",
        )
        .at_least(1)
        .without_effect(),
        &[same("min.insync.replicas")],
    ),
    topic(
        Property::boolean(
            "preallocate",
            "false",
            "Allocate segment files in advance; Kohort always does for its log.",
        )
        .without_effect(),
        &[same("log.preallocate")],
    ),
    topic(
        Property::boolean("remote.log.copy.disable", "false", "Stop copying to remote storage.")
            .without_effect(),
        &[],
    ),
    topic(
        Property::boolean(
            "remote.log.delete.on.disable",
            "false",
            "Delete remote data when remote storage is switched off.",
        )
        .without_effect(),
        &[],
    ),
    topic(
        Property::boolean("remote.storage.enable", "false", "Keep old segments in remote storage.")
            .without_effect(),
        &[],
    ),
    topic(
        Property::long("retention.bytes", "-1", "Bytes kept of each partition; -1 keeps all."),
        &[same("log.retention.bytes")],
    ),
    topic(
        Property::long(
            "retention.ms",
            "604800000",
            "Milliseconds that records are kept; -1 keeps them for ever.",
        )
        .at_least(-1),
        &[
            same("log.retention.ms"),
            Synonym { name: "log.retention.minutes", factor: MINUTE_MS },
            Synonym { name: "log.retention.hours", factor: HOUR_MS },
        ],
    ),
    topic(
        Property::int("segment.bytes", "1073741824", "Size at which a segment is closed.")
            .at_least(1_048_576),
        &[same("log.segment.bytes")],
    ),
    topic(
        Property::int("segment.index.bytes", "10485760", "Largest index of a segment.")
            .at_least(4)
            .without_effect(),
        &[same("log.index.size.max.bytes")],
    ),
    topic(
        Property::long("segment.jitter.ms", "0", "Random milliseconds taken off segment.ms.")
            .at_least(0)
            .without_effect(),
        &[same("log.roll.jitter.ms"), Synonym { name: "log.roll.jitter.hours", factor: HOUR_MS }],
    ),
    topic(
        Property::long(
            "segment.ms",
            "604800000",
            "Milliseconds after which a segment is closed even if it is not full.",
        )
        .at_least(1),
        &[same("log.roll.ms"), Synonym { name: "log.roll.hours", factor: HOUR_MS }],
    ),
    topic(
        Property::boolean("unclean.leader.election.enable", "false", "Allow a replica that lags to lead.")
            .without_effect(),
        &[same("unclean.leader.election.enable")],
    ),
];
