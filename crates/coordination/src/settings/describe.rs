//! Settings as DescribeConfigs shows them.

use std::collections::BTreeMap;

use super::broker_table::BROKER_PROPERTIES;
use super::group_table::GROUP_PROPERTIES;
use super::property::Property;
use super::topic_table::TOPIC_PROPERTIES;
use super::value::Kind;
use super::{Layer, Settings};
use crate::reply::{ConfigEntry, ConfigSource, ConfigSynonym};

/// Sources of broker settings, strongest first, as Kafka lists synonyms.
const SOURCES: [ConfigSource; 4] = [
    ConfigSource::DynamicBroker,
    ConfigSource::DynamicDefaultBroker,
    ConfigSource::StaticBroker,
    ConfigSource::Default,
];

impl Settings {
    /// All broker settings, in the order of their names.
    pub fn describe_broker(&self) -> Vec<ConfigEntry> {
        BROKER_PROPERTIES
            .iter()
            .map(|property| {
                let synonyms = self.synonyms(property.name);
                entry(property, self.value(property.name), synonyms, !property.dynamic)
            })
            .collect()
    }

    /// All settings of a topic with these overrides, in the order of their names.
    pub fn describe_topic(&self, overrides: &BTreeMap<String, String>) -> Vec<ConfigEntry> {
        TOPIC_PROPERTIES
            .iter()
            .map(|topic| {
                let value = self.topic_value(topic, overrides);
                let mut synonyms = match topic.synonyms.first() {
                    Some(first) => self.synonyms(first.name),
                    None => Vec::new(),
                };
                if overrides.contains_key(topic.property.name) {
                    let own = ConfigSynonym {
                        name: topic.property.name.to_owned(),
                        value: Some(value.clone()),
                        source: ConfigSource::Topic,
                    };
                    synonyms.insert(0, own);
                }
                entry(&topic.property, Some(value), synonyms, false)
            })
            .collect()
    }

    /// All settings of a group with these overrides, in the order of their names. Whether the group exists does not
    /// matter.
    pub fn describe_group(&self, overrides: &BTreeMap<String, String>) -> Vec<ConfigEntry> {
        GROUP_PROPERTIES
            .iter()
            .map(|group| {
                let own = overrides.get(group.property.name);
                let mut synonyms = self.synonyms(group.synonym);
                if let Some(value) = own {
                    let own = ConfigSynonym {
                        name: group.property.name.to_owned(),
                        value: Some(value.clone()),
                        source: ConfigSource::Group,
                    };
                    synonyms.insert(0, own);
                }
                let value = own.cloned().or_else(|| self.value(group.synonym));
                entry(&group.property, value, synonyms, false)
            })
            .collect()
    }

    /// Everything that gives or would give the value of `name`, strongest first.
    fn synonyms(&self, name: &'static str) -> Vec<ConfigSynonym> {
        let family = family(name);
        SOURCES
            .iter()
            .flat_map(|source| family.iter().map(move |member| (*source, *member)))
            .filter_map(|(source, member)| {
                let value = self.value_from(source, member)?;
                Some(ConfigSynonym { name: member.to_owned(), value: Some(value), source })
            })
            // Kafka leaves out what stands before the asked name: log.retention.ms is no synonym of
            // log.retention.hours, though it wins over it.
            .skip_while(|synonym| synonym.name != name)
            .collect()
    }

    fn value_from(&self, source: ConfigSource, name: &str) -> Option<String> {
        let property = super::broker_property(name)?;
        match source {
            ConfigSource::Topic | ConfigSource::Group => None,
            ConfigSource::DynamicBroker => self.set_in(Layer::DynamicBroker, name),
            ConfigSource::DynamicDefaultBroker => self.set_in(Layer::DynamicDefault, name),
            ConfigSource::StaticBroker => [Layer::Flags, Layer::Environment, Layer::File]
                .into_iter()
                .find_map(|layer| self.set_in(layer, name)),
            ConfigSource::Default => property.default.map(str::to_owned),
        }
    }
}

fn entry(
    property: &Property,
    value: Option<String>,
    synonyms: Vec<ConfigSynonym>,
    read_only: bool,
) -> ConfigEntry {
    let sensitive = property.kind == Kind::Password;
    let mut synonyms = synonyms;
    if sensitive {
        synonyms.iter_mut().for_each(|synonym| synonym.value = None);
    }
    ConfigEntry {
        name: property.name.to_owned(),
        value: value.filter(|_| !sensitive),
        source: synonyms.first().map_or(ConfigSource::Default, |first| first.source),
        config_type: property.kind.number(),
        read_only,
        sensitive,
        synonyms,
        documentation: Some(property.doc.to_owned()),
    }
}

/// The broker properties that give one value in different units, strongest first.
fn family(name: &'static str) -> Vec<&'static str> {
    const FAMILIES: &[&[&str]] = &[
        &["log.retention.ms", "log.retention.minutes", "log.retention.hours"],
        &["log.roll.ms", "log.roll.hours"],
        &["log.roll.jitter.ms", "log.roll.jitter.hours"],
        &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"],
    ];
    FAMILIES.iter().find(|family| family.contains(&name)).map_or(vec![name], |family| family.to_vec())
}
