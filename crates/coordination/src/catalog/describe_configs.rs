//! DescribeConfigs.

use std::collections::{BTreeMap, BTreeSet};

use super::{Catalog, check_topic_name};
use crate::error_code::ErrorCode;
use crate::ids::OrgId;
use crate::op::{self, ConfigResource};
use crate::reply::{self, ConfigEntry, ConfigSource, ConfigSynonym, Refusal};
use crate::settings::{TOPIC_PROPERTIES, broker_property};

impl Catalog {
    /// Settings of topics, groups and the broker.
    pub fn describe_configs(&self, org: OrgId, op: &op::DescribeConfigs) -> reply::DescribeConfigs {
        let unknown_type = op.resources.iter().any(|(resource, _)| ResourceKind::of(resource).is_none());
        let describe = |(resource, names): &(ConfigResource, Option<Vec<String>>)| {
            // One resource of a type that Kafka does not know spoils its whole answer.
            let entries = if unknown_type { Err(malformed()) } else { self.configs_of(org, resource) };
            let wanted = |entry: &ConfigEntry| match names.as_deref() {
                None | Some([]) => true,
                Some(names) => names.contains(&entry.name),
            };
            let shown = |mut entry: ConfigEntry| {
                if !op.include_synonyms {
                    entry.synonyms.clear();
                }
                entry.documentation = entry.documentation.filter(|_| op.include_documentation);
                entry
            };
            let entries = entries.map(|entries| entries.into_iter().filter(wanted).map(shown).collect());
            (resource.clone(), entries)
        };
        reply::DescribeConfigs { resources: op.resources.iter().map(describe).collect() }
    }

    fn configs_of(&self, org: OrgId, resource: &ConfigResource) -> Result<Vec<ConfigEntry>, Refusal> {
        let name = resource.name.as_str();
        let invalid = |message: String| Refusal::new(ErrorCode::InvalidRequest, message);
        let here = self.settings.node_id();
        match ResourceKind::of(resource).ok_or_else(malformed)? {
            ResourceKind::Topic => {
                check_topic_name(name)?;
                let topic = self.topic_named(org, name);
                let topic = topic.ok_or_else(|| Refusal::new(ErrorCode::UnknownTopicOrPartition, ""))?;
                Ok(self.settings.describe_topic(&topic.configs))
            }
            ResourceKind::Broker if name.is_empty() => Ok(shown_to(org, self.configs_for_all_brokers())),
            ResourceKind::Broker => {
                match name.parse::<i32>() {
                    Ok(node) if self.is_node(node) => {
                        let mut entries = self.settings.describe_broker();
                        entries.extend(self.foreign_configs(&[
                            ConfigSource::DynamicBroker,
                            ConfigSource::DynamicDefaultBroker,
                        ]));
                        Ok(shown_to(org, entries))
                    }
                    Ok(node) => Err(invalid(format!(
                        "Unexpected broker id, expected {here} or empty string, but received {node}"
                    ))),
                    Err(_) => Err(invalid(format!("Broker id must be an integer, but it is: {name}"))),
                }
            }
            ResourceKind::BrokerLogger if name.is_empty() => {
                Err(invalid("Broker id must not be empty".to_owned()))
            }
            ResourceKind::BrokerLogger => match name.parse::<i32>() {
                Ok(node) if self.is_node(node) => Ok(Vec::new()),
                Ok(node) => {
                    Err(invalid(format!("Unexpected broker id, expected {here} but received {node}")))
                }
                Err(_) => Err(invalid(format!("Broker id must be an integer, but it is: {name}"))),
            },
            ResourceKind::ClientMetrics if name.is_empty() => {
                Err(invalid("Client metrics subscription name must not be empty".to_owned()))
            }
            ResourceKind::Group if name.is_empty() => Err(invalid("Group name must not be empty".to_owned())),
            ResourceKind::Group => {
                let none = BTreeMap::new();
                let own = self.own_group_configs(org, name).unwrap_or(&none);
                Ok(self.settings.describe_group(own))
            }
            ResourceKind::ClientMetrics => Ok(Vec::new()),
        }
    }

    /// What is set for all brokers together; where nothing is, there is nothing to show.
    fn configs_for_all_brokers(&self) -> Vec<ConfigEntry> {
        let entries = self.settings.describe_broker().into_iter();
        entries
            .filter_map(|mut entry| {
                let value = self.broker_configs.all.get(&entry.name)?;
                entry.value = Some(value.clone());
                entry.source = ConfigSource::DynamicDefaultBroker;
                entry.synonyms.retain(|synonym| synonym.source == ConfigSource::DynamicDefaultBroker);
                Some(entry)
            })
            .chain(self.foreign_configs(&[ConfigSource::DynamicDefaultBroker]))
            .collect()
    }

    /// What is set for the broker under names that it does not know, as plugins of a Kafka would have them. What
    /// they mean is unknown, so their values are not told.
    fn foreign_configs(&self, scopes: &[ConfigSource]) -> Vec<ConfigEntry> {
        let set_in = |scope: ConfigSource| match scope {
            ConfigSource::DynamicBroker => &self.broker_configs.own,
            _ => &self.broker_configs.all,
        };
        let names: BTreeSet<&String> = scopes.iter().flat_map(|scope| set_in(*scope).keys()).collect();
        let entry = |name: &String| {
            let synonyms: Vec<ConfigSynonym> = scopes
                .iter()
                .filter(|scope| set_in(**scope).contains_key(name))
                .map(|scope| ConfigSynonym { name: name.clone(), value: None, source: *scope })
                .collect();
            ConfigEntry {
                name: name.clone(),
                value: None,
                read_only: true,
                source: synonyms.first().map_or(ConfigSource::Default, |synonym| synonym.source),
                sensitive: true,
                synonyms,
                config_type: 0,
                documentation: None,
            }
        };
        names.into_iter().filter(|name| broker_property(name).is_none()).map(entry).collect()
    }
}

/// What an organisation is shown of the broker's settings. Whoever only shares the broker sees what holds for its own
/// topics and groups, but neither addresses and files nor who else is here.
fn shown_to(org: OrgId, mut entries: Vec<ConfigEntry>) -> Vec<ConfigEntry> {
    let concerns_all = |name: &str| {
        let is_synonym =
            TOPIC_PROPERTIES.iter().any(|topic| topic.synonyms.iter().any(|synonym| synonym.name == name));
        is_synonym
            || name.starts_with("group.")
            || matches!(
                name,
                "auto.create.topics.enable"
                    | "default.replication.factor"
                    | "delete.topic.enable"
                    | "fetch.max.bytes"
                    | "node.id"
                    | "num.partitions"
                    | "offset.metadata.max.bytes"
                    | "offsets.retention.minutes"
                    | "socket.request.max.bytes"
            )
    };
    if org != OrgId::DEFAULT {
        entries.retain(|entry| concerns_all(&entry.name));
    }
    entries
}

/// What kinds of things have settings in Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceKind {
    Topic,
    Broker,
    BrokerLogger,
    ClientMetrics,
    Group,
}

impl ResourceKind {
    pub(super) fn of(resource: &ConfigResource) -> Option<Self> {
        match resource.resource_type {
            2 => Some(Self::Topic),
            4 => Some(Self::Broker),
            8 => Some(Self::BrokerLogger),
            16 => Some(Self::ClientMetrics),
            32 => Some(Self::Group),
            _ => None,
        }
    }
}

fn malformed() -> Refusal {
    Refusal::new(
        ErrorCode::InvalidRequest,
        "This most likely occurs because of a request being malformed by the client library or the message was \
         sent to an incompatible broker. See the broker logs for more details.",
    )
}
