//! The settings of a broker and its topics: one table of properties, layered values, typed views.
//!
//! A property has Kafka's name where Kafka has one; ours begin with `kohort.`. Values come from layers: what is
//! set while the broker runs wins over flags, flags over the environment, that over the file, that over defaults.

mod broker_table;
mod describe;
mod group;
mod group_table;
mod listener;
mod nearest;
mod of_listener;
mod property;
mod security;
mod topic;
mod topic_table;
mod value;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::group::GroupSettings;
use crate::limits::PARTITIONS_PER_TOPIC_MAX;

pub use broker_table::BROKER_PROPERTIES;
pub(crate) use group::group_property_named;
pub use group::{GroupConfig, validate_group_configs};
pub use group_table::{GROUP_PROPERTIES, GroupProperty};
pub use listener::{Listener, parse_listeners};
pub use nearest::nearest;
pub use of_listener::{LISTENER_PREFIX, is_per_listener};
pub use property::Property;
pub use security::{ClientAuth, Oauth, SecurityProtocol, SuperUser};
pub use topic::{
    CleanupPolicy, CompressionType, TimestampType, TopicConfig, nearest_topic_property, topic_property,
    validate_topic_config, validate_topic_configs,
};
pub use topic_table::{Synonym, TOPIC_PROPERTIES, TopicProperty};
pub use value::{Check, Kind, items};

/// The smallest segment that a topic may have.
const SEGMENT_BYTES_MIN: i32 = 1_048_576;

/// The settings of a broker.
///
/// The typed getters parse on each call; read once what is needed for every request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Values as Kafka writes them back, checked when they were set.
    values: Values,
    /// What listeners have of their own, by their names in small letters.
    of_listeners: BTreeMap<String, Values>,
}

type Values = BTreeMap<&'static str, BTreeMap<Layer, String>>;

/// Where a value was set; later ones win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// In the configuration file.
    File,
    /// By an environment variable.
    Environment,
    /// By a flag of the command.
    Flags,
    /// While the broker runs, for all brokers.
    DynamicDefault,
    /// While the broker runs, for this broker.
    DynamicBroker,
}

impl Layer {
    /// The layer in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Environment => "environment",
            Self::Flags => "flag",
            Self::DynamicDefault => "dynamic default",
            Self::DynamicBroker => "dynamic",
        }
    }
}

/// Why a setting was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is no such property.
    #[error("unknown property {name}{}", nearest.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default())]
    Unknown {
        /// The name that was given.
        name: String,
        /// The known one that it most likely meant.
        nearest: Option<String>,
    },
    /// The value does not fit; the text says why.
    #[error("{0}")]
    Invalid(String),
    /// The property cannot be changed while the broker runs.
    #[error("Cannot update these configs dynamically: [{0}]")]
    ReadOnly(String),
}

/// When an acknowledged record is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Before it is acknowledged.
    Always,
    /// Within `kohort.flush.interval.ms` after.
    Interval,
    /// When the operating system writes it, as with Kafka.
    Os,
}

/// The broker property of this name.
pub fn broker_property(name: &str) -> Option<&'static Property> {
    BROKER_PROPERTIES
        .binary_search_by(|candidate| candidate.name.cmp(name))
        .ok()
        .map(|index| &BROKER_PROPERTIES[index])
}

/// The broker property whose name is nearest to `given`, for messages to people.
pub fn nearest_broker_property(given: &str) -> Option<&'static str> {
    // A topic's name for a property is the most common mistake, and its broker name is often not similar.
    if let Some(synonym) = topic_property(given).and_then(|topic| topic.synonyms.first()) {
        return Some(synonym.name);
    }
    nearest(given, BROKER_PROPERTIES.iter().map(|property| property.name))
}

impl Settings {
    /// Sets `name` in `layer`. The last value set in a layer stays.
    pub fn set(&mut self, layer: Layer, name: &str, value: &str) -> Result<(), SettingError> {
        if let Some(place) = name.strip_prefix(LISTENER_PREFIX) {
            return self.set_of_listener(layer, place, value);
        }
        let property = known(name)?;
        if layer >= Layer::DynamicDefault && !property.dynamic {
            return Err(SettingError::ReadOnly(name.to_owned()));
        }
        let mut value = property.normalise(value).map_err(SettingError::Invalid)?;
        if matches!(property.name, "listeners" | "advertised.listeners") {
            let listeners = parse_listeners(&value).map_err(SettingError::Invalid)?;
            value = listeners.iter().map(Listener::to_string).collect::<Vec<_>>().join(",");
        }
        self.values.entry(property.name).or_default().insert(layer, value);
        Ok(())
    }

    /// Takes back what was set for `name` in `layer`.
    pub fn unset(&mut self, layer: Layer, name: &str) -> Result<(), SettingError> {
        let property = known(name)?;
        if layer >= Layer::DynamicDefault && !property.dynamic {
            return Err(SettingError::ReadOnly(name.to_owned()));
        }
        if let Some(layers) = self.values.get_mut(property.name) {
            layers.remove(&layer);
        }
        Ok(())
    }

    /// The value of `name` from its strongest layer, or its default.
    pub fn value(&self, name: &str) -> Option<String> {
        let property = broker_property(name)?;
        match self.origin(name) {
            Some((_, value)) => Some(value.to_owned()),
            None => property.default.map(str::to_owned),
        }
    }

    /// Where the value of `name` was set and what it is; none while it has its default.
    pub fn origin(&self, name: &str) -> Option<(Layer, &str)> {
        let (layer, value) = self.values.get(name)?.last_key_value()?;
        Some((*layer, value))
    }

    /// What `layer` sets for `name`.
    pub fn set_in(&self, layer: Layer, name: &str) -> Option<String> {
        self.values.get(name)?.get(&layer).cloned()
    }

    /// Everything that is set somewhere, in the order of names: property, layer and value.
    pub fn changed(&self) -> impl Iterator<Item = (&'static Property, Layer, &str)> {
        self.values.keys().filter_map(|name| {
            let (layer, value) = self.origin(name)?;
            Some((broker_property(name)?, layer, value))
        })
    }

    /// The names that are set and do nothing in Kohort.
    pub fn without_effect(&self) -> impl Iterator<Item = &'static str> {
        self.changed().filter(|(property, ..)| !property.effective).map(|(property, ..)| property.name)
    }

    /// The value of a topic property for a topic with these overrides.
    pub(crate) fn topic_value(&self, topic: &TopicProperty, overrides: &BTreeMap<String, String>) -> String {
        let own = overrides.get(topic.property.name).and_then(|value| topic.property.normalise(value).ok());
        own.or_else(|| {
            topic.synonyms.iter().find_map(|synonym| {
                let value = self.value(synonym.name)?;
                if synonym.factor == 1 {
                    return Some(value);
                }
                let number: i64 = value.parse().ok()?;
                Some(if number < 0 { number } else { number.saturating_mul(synonym.factor) }.to_string())
            })
        })
        .unwrap_or_else(|| topic.property.default.unwrap_or_default().to_owned())
    }

    fn text(&self, name: &str) -> String {
        self.value(name).unwrap_or_default()
    }

    fn long(&self, name: &str) -> i64 {
        self.text(name).parse().expect("a number has a default, and only values that parse are set")
    }

    fn int(&self, name: &str) -> i32 {
        self.text(name).parse().expect("a number has a default, and only values that parse are set")
    }

    fn size(&self, name: &str) -> usize {
        usize::try_from(self.long(name)).unwrap_or(0)
    }

    fn boolean(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// `node.id`: this broker's number.
    pub fn node_id(&self) -> i32 {
        self.int("node.id")
    }

    /// `listeners`: where to listen.
    pub fn listeners(&self) -> Vec<Listener> {
        parse_listeners(&self.text("listeners")).unwrap_or_default()
    }

    /// `advertised.listeners`: what clients are told; empty means the address that each client dialled.
    pub fn advertised_listeners(&self) -> Vec<Listener> {
        parse_listeners(&self.text("advertised.listeners")).unwrap_or_default()
    }

    /// `log.dirs`: where data lives.
    pub fn data_dir(&self) -> String {
        self.text("log.dirs")
    }

    /// `kohort.admin.address`: where the admin listener is; none for no admin listener.
    pub fn admin_address(&self) -> Option<String> {
        Some(self.text("kohort.admin.address")).filter(|address| address != "none")
    }

    /// `auto.create.topics.enable`.
    pub fn auto_create_topics(&self) -> bool {
        self.boolean("auto.create.topics.enable")
    }

    /// `delete.topic.enable`.
    pub fn delete_topics(&self) -> bool {
        self.boolean("delete.topic.enable")
    }

    /// `num.partitions`: partitions of topics created without a number.
    pub fn num_partitions(&self) -> i32 {
        self.int("num.partitions")
    }

    /// `fetch.max.bytes`: most bytes in the answer to one fetch.
    pub fn fetch_max_bytes(&self) -> usize {
        self.size("fetch.max.bytes")
    }

    /// `socket.request.max.bytes`: largest request.
    pub fn socket_request_max_bytes(&self) -> usize {
        self.size("socket.request.max.bytes")
    }

    /// `max.connections`.
    pub fn max_connections(&self) -> usize {
        self.size("max.connections")
    }

    /// `max.connections.per.ip`.
    pub fn max_connections_per_ip(&self) -> usize {
        self.size("max.connections.per.ip")
    }

    /// `connections.max.idle.ms`; none for connections that may stay idle for ever.
    pub fn connections_max_idle_ms(&self) -> Option<u64> {
        u64::try_from(self.long("connections.max.idle.ms")).ok()
    }

    /// `socket.send.buffer.bytes` if it is set; none leaves the size to the system.
    pub fn socket_send_buffer_bytes(&self) -> Option<usize> {
        self.buffer("socket.send.buffer.bytes")
    }

    /// `socket.receive.buffer.bytes` if it is set; none leaves the size to the system.
    pub fn socket_receive_buffer_bytes(&self) -> Option<usize> {
        self.buffer("socket.receive.buffer.bytes")
    }

    /// `socket.listen.backlog.size` if it is set.
    pub fn socket_listen_backlog_size(&self) -> Option<i32> {
        self.origin("socket.listen.backlog.size").and_then(|(_, size)| size.parse().ok())
    }

    /// Systems size their buffers better than Kafka's default, which therefore counts for nothing here.
    fn buffer(&self, name: &str) -> Option<usize> {
        self.origin(name).and_then(|(_, size)| size.parse().ok())
    }

    /// `log.retention.check.interval.ms`: how often old segments are looked for.
    pub fn retention_check_interval_ms(&self) -> i64 {
        self.long("log.retention.check.interval.ms")
    }

    /// `log.cleaner.enable`: whether compaction runs.
    pub fn cleaner_enabled(&self) -> bool {
        self.boolean("log.cleaner.enable")
    }

    /// `log.cleaner.backoff.ms`: pause of the cleaner when there is nothing to do.
    pub fn cleaner_backoff_ms(&self) -> i64 {
        self.long("log.cleaner.backoff.ms")
    }

    /// `log.cleaner.dedupe.buffer.size`: memory for the keys of one compaction pass.
    pub fn cleaner_dedupe_buffer_bytes(&self) -> usize {
        self.size("log.cleaner.dedupe.buffer.size")
    }

    /// `producer.id.expiration.ms`: how long a silent idempotent producer is remembered.
    pub fn producer_id_expiration_ms(&self) -> i64 {
        self.long("producer.id.expiration.ms")
    }

    /// `kohort.flush`: when an acknowledged record is on disk.
    pub fn flush(&self) -> Flush {
        match self.text("kohort.flush").as_str() {
            "interval" => Flush::Interval,
            "os" => Flush::Os,
            _ => Flush::Always,
        }
    }

    /// `kohort.flush.interval.ms`: time between two syncs in the mode `interval`.
    pub fn flush_interval_ms(&self) -> u64 {
        u64::try_from(self.long("kohort.flush.interval.ms")).unwrap_or(1)
    }

    /// `kohort.cache.bytes`: memory for recent batches.
    pub fn cache_bytes(&self) -> usize {
        self.size("kohort.cache.bytes")
    }

    /// `kohort.settle.interval.ms`: how often sealed log files are settled.
    pub fn settle_interval_ms(&self) -> u64 {
        u64::try_from(self.long("kohort.settle.interval.ms")).unwrap_or(1)
    }

    /// `kohort.settle.backlog.bytes`: how much may wait to be settled before producers are slowed down.
    pub fn settle_backlog_bytes(&self) -> u64 {
        u64::try_from(self.long("kohort.settle.backlog.bytes")).unwrap_or(0)
    }

    /// `kohort.log.file.bytes`: size of one file of the log.
    pub fn log_file_bytes(&self) -> u64 {
        u64::try_from(self.long("kohort.log.file.bytes")).unwrap_or(0)
    }

    /// What `group.*`, `offset.*`, `offsets.*` and `kohort.initial.rebalance.quiet.ms` say about groups.
    pub fn group_settings(&self) -> GroupSettings {
        // Kafka takes a negative time where it sets no limit; it means what none at all means.
        let millis = |name| Duration::from_millis(u64::try_from(self.int(name)).unwrap_or(0));
        GroupSettings {
            session_timeout_min: millis("group.min.session.timeout.ms"),
            session_timeout_max: millis("group.max.session.timeout.ms"),
            members_max: self.size("group.max.size"),
            initial_rebalance_delay: millis("group.initial.rebalance.delay.ms"),
            initial_rebalance_quiet: millis("kohort.initial.rebalance.quiet.ms"),
            offset_metadata_max: self.size("offset.metadata.max.bytes"),
            offsets_retention: Duration::from_secs(60 * self.size("offsets.retention.minutes") as u64),
        }
    }

    /// `offsets.retention.check.interval.ms`: how often expired offsets are looked for.
    pub fn offsets_retention_check_interval(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.long("offsets.retention.check.interval.ms")).unwrap_or(1))
    }

    /// `offsets.topic.num.partitions`: partitions that `__consumer_offsets` is created with.
    pub fn offsets_topic_partitions(&self) -> u32 {
        self.int("offsets.topic.num.partitions").clamp(1, PARTITIONS_PER_TOPIC_MAX).unsigned_abs()
    }

    /// `offsets.topic.segment.bytes`: segment size that `__consumer_offsets` is created with.
    pub fn offsets_topic_segment_bytes(&self) -> i32 {
        self.int("offsets.topic.segment.bytes").max(SEGMENT_BYTES_MIN)
    }

    /// `kohort.groups.max`: how many groups there may be.
    pub fn groups_max(&self) -> usize {
        self.size("kohort.groups.max")
    }

    /// `kohort.groups.max.bytes`: how much memory groups may take.
    pub fn groups_max_bytes(&self) -> usize {
        self.size("kohort.groups.max.bytes")
    }

    /// The settings of a topic that overrides none of them.
    pub fn topic_defaults(&self) -> TopicConfig {
        TopicConfig::new(&BTreeMap::new(), self)
    }
}

fn known(name: &str) -> Result<&'static Property, SettingError> {
    broker_property(name).ok_or_else(|| SettingError::Unknown {
        name: name.to_owned(),
        nearest: nearest_broker_property(name).map(str::to_owned),
    })
}

#[cfg(test)]
mod tests;
