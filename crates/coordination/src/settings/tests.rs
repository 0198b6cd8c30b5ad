//! The tables are sound, and layers, synonyms and refusals are as Kafka has them.

use super::*;
use crate::reply::ConfigEntry;

fn settings(values: &[(Layer, &str, &str)]) -> Settings {
    let mut settings = Settings::default();
    for (layer, name, value) in values {
        settings.set(*layer, name, value).unwrap();
    }
    settings
}

fn overrides(values: &[(&str, &str)]) -> BTreeMap<String, String> {
    values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn tables_are_sorted_and_their_defaults_pass_their_checks() {
    assert!(BROKER_PROPERTIES.is_sorted_by(|a, b| a.name < b.name));
    assert!(TOPIC_PROPERTIES.is_sorted_by(|a, b| a.property.name < b.property.name));
    let topics = TOPIC_PROPERTIES.iter().map(|topic| &topic.property);
    for property in BROKER_PROPERTIES.iter().chain(topics) {
        if let Some(default) = property.default {
            assert_eq!(property.normalise(default).as_deref(), Ok(default), "{}", property.name);
        }
        assert!(property.doc.ends_with('.'), "{}", property.name);
    }
    for topic in TOPIC_PROPERTIES {
        for synonym in topic.synonyms {
            assert!(broker_property(synonym.name).is_some(), "{}", synonym.name);
        }
        let value = Settings::default().topic_value(topic, &BTreeMap::new());
        assert_eq!(Some(value.as_str()), topic.property.default, "{}", topic.property.name);
    }
}

#[test]
fn every_getter_finds_its_property() {
    let settings = Settings::default();
    assert_eq!(settings.node_id(), 1);
    assert_eq!(settings.listeners().len(), 2);
    assert!(settings.advertised_listeners().is_empty());
    assert_eq!(settings.data_dir(), "kohort-data");
    assert_eq!(settings.admin_address().as_deref(), Some("127.0.0.1:9644"));
    assert!(settings.auto_create_topics() && settings.delete_topics() && settings.cleaner_enabled());
    assert_eq!((settings.num_partitions(), settings.fetch_max_bytes()), (1, 57_671_680));
    assert_eq!(settings.topic_defaults().max_message_bytes, 1_048_588);
    assert_eq!(settings.socket_request_max_bytes(), 104_857_600);
    assert_eq!(settings.max_connections(), 2_147_483_647);
    assert_eq!(settings.max_connections_per_ip(), 2_147_483_647);
    assert_eq!(settings.connections_max_idle_ms(), Some(600_000));
    assert_eq!((settings.retention_check_interval_ms(), settings.cleaner_backoff_ms()), (300_000, 15_000));
    assert_eq!(settings.cleaner_dedupe_buffer_bytes(), 134_217_728);
    assert_eq!(settings.producer_id_expiration_ms(), 86_400_000);
    assert_eq!((settings.flush(), settings.flush_interval_ms()), (Flush::Always, 50));
    assert_eq!((settings.cache_bytes(), settings.log_file_bytes()), (67_108_864, 134_217_728));
    assert_eq!((settings.settle_interval_ms(), settings.settle_backlog_bytes()), (5000, 1_073_741_824));
    assert_eq!(settings.group_settings(), GroupSettings::default());
    assert_eq!(settings.offsets_retention_check_interval(), Duration::from_secs(600));
    assert_eq!(
        (settings.offsets_topic_partitions(), settings.offsets_topic_segment_bytes()),
        (50, 104_857_600)
    );
    assert_eq!((settings.groups_max(), settings.groups_max_bytes()), (1_000_000, 1_073_741_824));
}

#[test]
fn every_setting_of_groups_reaches_them() {
    let settings = settings(&[
        (Layer::File, "group.min.session.timeout.ms", "1"),
        (Layer::File, "group.max.session.timeout.ms", "2"),
        (Layer::File, "group.max.size", "3"),
        (Layer::File, "group.initial.rebalance.delay.ms", "-4"),
        (Layer::File, "kohort.initial.rebalance.quiet.ms", "5"),
        (Layer::File, "offset.metadata.max.bytes", "6"),
        (Layer::File, "offsets.retention.minutes", "7"),
        (Layer::File, "offsets.topic.segment.bytes", "8"),
        (Layer::File, "offsets.topic.num.partitions", "2147483647"),
    ]);
    let expected = GroupSettings {
        session_timeout_min: Duration::from_millis(1),
        session_timeout_max: Duration::from_millis(2),
        members_max: 3,
        initial_rebalance_delay: Duration::ZERO,
        initial_rebalance_quiet: Duration::from_millis(5),
        offset_metadata_max: 6,
        offsets_retention: Duration::from_secs(420),
    };
    assert_eq!(settings.group_settings(), expected);
    assert_eq!(settings.offsets_topic_segment_bytes(), SEGMENT_BYTES_MIN);
    assert_eq!(settings.offsets_topic_partitions(), PARTITIONS_PER_TOPIC_MAX.unsigned_abs());
    assert_eq!(settings.without_effect().count(), 0);
}

#[test]
fn later_layers_win_whatever_the_order_of_setting() {
    let mut settings = settings(&[
        (Layer::Flags, "message.max.bytes", "3"),
        (Layer::Environment, "message.max.bytes", "2"),
        (Layer::File, "message.max.bytes", "1"),
    ]);
    assert_eq!(settings.topic_defaults().max_message_bytes, 3);
    settings.set(Layer::DynamicDefault, "message.max.bytes", "4").unwrap();
    settings.set(Layer::DynamicBroker, "message.max.bytes", "5").unwrap();
    assert_eq!(settings.topic_defaults().max_message_bytes, 5);
    settings.unset(Layer::DynamicBroker, "message.max.bytes").unwrap();
    settings.unset(Layer::DynamicDefault, "message.max.bytes").unwrap();
    assert_eq!(settings.origin("message.max.bytes"), Some((Layer::Flags, "3")));
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest() {
    let mut settings = Settings::default();
    for (given, meant) in [
        ("num.partition", "num.partitions"),
        ("kohort.flsh", "kohort.flush"),
        ("max.message.bytes", "message.max.bytes"),
        ("retention.ms", "log.retention.ms"),
    ] {
        assert_eq!(
            settings.set(Layer::Flags, given, "1").unwrap_err().to_string(),
            format!("unknown property {given}; did you mean {meant}?")
        );
    }
    assert_eq!(settings.set(Layer::Flags, "xyzzy", "1").unwrap_err().to_string(), "unknown property xyzzy");
}

#[test]
fn what_cannot_change_at_run_time_is_refused_then() {
    let mut settings = Settings::default();
    let refusal = settings.set(Layer::DynamicBroker, "node.id", "2").unwrap_err();
    assert_eq!(refusal, SettingError::ReadOnly("node.id".to_owned()));
    assert!(settings.set(Layer::Flags, "node.id", "2").is_ok());
}

#[test]
fn retention_takes_the_finest_unit_that_is_set() {
    let retention = |values: &[(Layer, &str, &str)]| settings(values).topic_defaults().retention_ms;
    assert_eq!(retention(&[]), Some(604_800_000));
    assert_eq!(retention(&[(Layer::File, "log.retention.hours", "2")]), Some(7_200_000));
    let minutes = [(Layer::File, "log.retention.minutes", "1"), (Layer::Flags, "log.retention.hours", "2")];
    assert_eq!(retention(&minutes), Some(60_000));
    assert_eq!(retention(&[(Layer::File, "log.retention.ms", "-1")]), None);
    assert_eq!(retention(&[(Layer::File, "log.retention.hours", "-1")]), None);
    let own = overrides(&[("retention.ms", "5")]);
    assert_eq!(TopicConfig::new(&own, &Settings::default()).retention_ms, Some(5));
}

#[test]
fn a_topics_view_has_every_value() {
    let own = overrides(&[
        ("cleanup.policy", "compact, delete"),
        ("message.timestamp.type", "LogAppendTime"),
        ("compression.type", "zstd"),
        ("min.cleanable.dirty.ratio", "0.1"),
        ("retention.bytes", "1000"),
    ]);
    let config = TopicConfig::new(&own, &Settings::default());
    assert_eq!(config.cleanup_policy, CleanupPolicy { compact: true, delete: true });
    assert_eq!(config.message_timestamp_type, TimestampType::LogAppendTime);
    assert_eq!(config.compression_type, CompressionType::Zstd);
    assert!((config.min_cleanable_dirty_ratio - 0.1).abs() < f64::EPSILON);
    assert_eq!(config.retention_bytes, Some(1000));
    assert_eq!((config.segment_bytes, config.max_message_bytes), (1 << 30, 1_048_588));
}

#[test]
fn topic_overrides_are_checked_as_kafka_checks_them() {
    for (name, value, refusal) in [
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("foo", "1", "Unknown topic config name: foo"),
        ("kohort.flush", "os", "Unknown topic config name: kohort.flush"),
    ] {
        assert_eq!(validate_topic_config(name, value), Err(refusal.to_owned()));
    }
    let lags = overrides(&[("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")]);
    assert_eq!(
        validate_topic_configs(&lags, &Settings::default()),
        Err("conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)".to_owned())
    );
}

#[test]
fn settings_without_effect_are_named() {
    let settings = settings(&[(Layer::File, "num.io.threads", "2"), (Layer::File, "num.partitions", "2")]);
    assert_eq!(settings.without_effect().collect::<Vec<_>>(), ["num.io.threads"]);
}

#[test]
fn descriptions_name_sources_and_synonyms() {
    let settings = settings(&[
        (Layer::File, "message.max.bytes", "10"),
        (Layer::DynamicBroker, "message.max.bytes", "20"),
    ]);
    let own = overrides(&[("max.message.bytes", "30")]);
    let synonyms = |entries: Vec<ConfigEntry>, name: &str| {
        let entry = entries.into_iter().find(|entry| entry.name == name).unwrap();
        let behind: Vec<_> = entry
            .synonyms
            .into_iter()
            .map(|synonym| format!("{}={}@{}", synonym.name, synonym.value.unwrap(), synonym.source as i8))
            .collect();
        format!("{:?} {} {}", entry.value, entry.source as i8, behind.join(" "))
    };
    let broker = "message.max.bytes=20@2 message.max.bytes=10@4 message.max.bytes=1048588@5";
    assert_eq!(synonyms(settings.describe_broker(), "message.max.bytes"), format!("Some(\"20\") 2 {broker}"));
    assert_eq!(
        synonyms(settings.describe_topic(&own), "max.message.bytes"),
        format!("Some(\"30\") 1 max.message.bytes=30@1 {broker}")
    );
    assert_eq!(
        synonyms(settings.describe_topic(&BTreeMap::new()), "max.message.bytes"),
        format!("Some(\"20\") 2 {broker}")
    );
    assert_eq!(synonyms(settings.describe_broker(), "log.retention.ms"), "None 5 ");
}

/// Captured from a live Kafka 4.3.1: a topic with three settings of its own, by DescribeConfigs version 4.
const KAFKA_TOPIC: &str = include_str!("golden/topic-kafka-4.3.1.txt");

/// Captured from a live Kafka 4.3.1: CreateTopics with one wrong setting each, and what it said.
const KAFKA_REFUSALS: &str = include_str!("golden/refusals-kafka-4.3.1.txt");

#[test]
fn a_topic_is_described_as_a_live_kafka_describes_it() {
    let own = overrides(&[
        ("retention.ms", "5"),
        ("min.cleanable.dirty.ratio", "0.50"),
        ("cleanup.policy", "compact, delete"),
    ]);
    let line = |entry: ConfigEntry| {
        let value = |value: Option<String>| value.unwrap_or_default();
        let synonyms: Vec<_> = entry
            .synonyms
            .into_iter()
            .map(|synonym| format!("{}={}@{}", synonym.name, value(synonym.value), synonym.source as i8))
            .collect();
        let (kind, source) = (entry.config_type, entry.source as i8);
        let line = format!(
            "{}={} type={kind} source={source} synonyms={}",
            entry.name,
            value(entry.value),
            synonyms.join(" ")
        );
        line.trim_end().to_owned()
    };
    let ours: Vec<_> = Settings::default().describe_topic(&own).into_iter().map(line).collect();
    // Kafka sets min.insync.replicas for all brokers by itself when the feature ELR is on, which we do not have.
    let same = |line: &&str| !line.starts_with("min.insync.replicas=");
    let kafkas: Vec<_> = KAFKA_TOPIC.lines().filter(same).collect();
    let ours: Vec<_> = ours.iter().map(String::as_str).filter(same).collect();
    assert_eq!(ours, kafkas);
}

#[test]
fn wrong_settings_are_refused_in_kafkas_words() {
    for case in KAFKA_REFUSALS.lines() {
        let (setting, refusal) = case.split_once('\t').unwrap();
        let (name, value) = setting.split_once('=').unwrap();
        assert_eq!(validate_topic_config(name, value), Err(refusal.to_owned()), "{setting}");
    }
}

/// Captured from a live Kafka 4.3.1: IncrementalAlterConfigs of a group with one wrong setting each, and what it said.
const KAFKA_GROUP_REFUSALS: &str = include_str!("golden/group-refusals-kafka-4.3.1.txt");

/// Proves LIST-20.
#[test]
fn wrong_settings_of_a_group_are_refused_in_kafkas_words() {
    for case in KAFKA_GROUP_REFUSALS.lines() {
        let (setting, refusal) = case.split_once('\t').unwrap();
        let own = overrides(&[setting.split_once('=').unwrap()]);
        assert_eq!(validate_group_configs(&own, &Settings::default()), Err(refusal.to_owned()), "{setting}");
    }
    let fits =
        overrides(&[("consumer.session.timeout.ms", " 50000 "), ("consumer.assignment.interval.ms", "0")]);
    let stored =
        overrides(&[("consumer.session.timeout.ms", "50000"), ("consumer.assignment.interval.ms", "0")]);
    assert_eq!(validate_group_configs(&fits, &Settings::default()), Ok(stored));
    let settings = settings(&[(Layer::File, "group.consumer.max.heartbeat.interval.ms", "60000")]);
    let silent = overrides(&[("consumer.heartbeat.interval.ms", "45000")]);
    assert_eq!(
        validate_group_configs(&silent, &settings),
        Err("consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms".to_owned())
    );
}

/// Proves LIST-18: defaults first, then the group's own value with the source 8.
#[test]
fn a_group_is_described_as_a_live_kafka_describes_it() {
    let line = |entry: &ConfigEntry| {
        let behind: Vec<_> = entry
            .synonyms
            .iter()
            .map(|synonym| {
                format!("{}={}@{}", synonym.name, synonym.value.as_deref().unwrap(), synonym.source as i8)
            })
            .collect();
        let (value, source) = (entry.value.as_deref().unwrap(), entry.source as i8);
        format!(
            "{}={value} type={} source={source} synonyms={}",
            entry.name,
            entry.config_type,
            behind.join(" ")
        )
    };
    let lines = |own| Settings::default().describe_group(&own).iter().map(line).collect::<Vec<_>>();
    let assignment = "consumer.assignment.interval.ms=1000 type=3 source=5 \
                      synonyms=group.consumer.assignment.interval.ms=1000@5";
    let heartbeat = "consumer.heartbeat.interval.ms=5000 type=3 source=5 \
                     synonyms=group.consumer.heartbeat.interval.ms=5000@5";
    let session = "consumer.session.timeout.ms=45000 type=3 source=5 \
                   synonyms=group.consumer.session.timeout.ms=45000@5";
    assert_eq!(lines(overrides(&[])), [assignment, heartbeat, session]);
    let own = "consumer.session.timeout.ms=50000 type=3 source=8 \
               synonyms=consumer.session.timeout.ms=50000@8 group.consumer.session.timeout.ms=45000@5";
    assert_eq!(lines(overrides(&[("consumer.session.timeout.ms", "50000")])), [assignment, heartbeat, own]);
}

/// Proves LIST-21.
#[test]
fn a_groups_setting_beyond_the_brokers_bounds_counts_as_the_bound() {
    let own = overrides(&[
        ("consumer.session.timeout.ms", "59000"),
        ("consumer.heartbeat.interval.ms", "6000"),
        ("consumer.assignment.interval.ms", "0"),
    ]);
    let seconds = |config: GroupConfig| {
        let GroupConfig { assignment_interval, heartbeat_interval, session_timeout } = config;
        [assignment_interval, heartbeat_interval, session_timeout].map(|time| time.as_secs())
    };
    assert_eq!(seconds(GroupConfig::new(&own, &Settings::default())), [0, 6, 59]);
    let narrow = settings(&[
        (Layer::File, "group.consumer.max.session.timeout.ms", "50000"),
        (Layer::File, "group.consumer.min.heartbeat.interval.ms", "7000"),
        (Layer::File, "group.consumer.min.assignment.interval.ms", "2000"),
    ]);
    assert_eq!(seconds(GroupConfig::new(&own, &narrow)), [2, 7, 50]);
    assert_eq!(seconds(GroupConfig::new(&overrides(&[]), &Settings::default())), [1, 5, 45]);
}
