//! AlterConfigs and IncrementalAlterConfigs.

use std::collections::BTreeMap;

use super::describe_configs::ResourceKind;
use super::{Catalog, Decision, ORG_NAME_OF_DEFAULT, check_size, check_topic_name, repeated};
use crate::error_code::ErrorCode;
use crate::ids::OrgId;
use crate::limits::GROUP_CONFIGS_MAX;
use crate::op::{self, ConfigChanges, ConfigOperation, ConfigResource};
use crate::record::{BrokerConfigs, GroupConfigs, Record, Topic};
use crate::reply::{self, Refusal};
use crate::settings::{
    Kind, Property, broker_property, group_property_named, topic_property, validate_group_configs,
};

type Configs = BTreeMap<String, String>;

impl Catalog {
    /// Changes settings of topics, groups and the broker. Each resource gets all of its changes or none.
    pub fn handle_alter_configs(&self, org: OrgId, op: &op::AlterConfigs) -> Decision<reply::AlterConfigs> {
        let twice = repeated(op.resources.iter().map(|(resource, _)| resource));
        let mut records = Vec::new();
        let mut broker = self.broker_configs.clone();
        let mut resources = Vec::new();
        for (resource, changes) in &op.resources {
            let changed = if twice.contains(resource) {
                Err(invalid("Each resource must appear at most once."))
            } else {
                self.altered(org, resource, changes, records.len(), &mut broker)
            };
            let error = match changed {
                Ok(record) => {
                    records.extend(record);
                    None
                }
                Err(refusal) => Some(refusal),
            };
            resources.push((resource.clone(), error));
        }
        if broker != self.broker_configs {
            records.push(Record::BrokerConfigs(broker));
        }
        if op.validate_only {
            records.clear();
        }
        Decision { records, reply: reply::AlterConfigs { resources } }
    }

    /// Changes `broker`, or says what a topic or a group becomes if it becomes anything else. So many others of the
    /// request are `on_their_way`.
    fn altered(
        &self,
        org: OrgId,
        resource: &ConfigResource,
        changes: &ConfigChanges,
        on_their_way: usize,
        broker: &mut BrokerConfigs,
    ) -> Result<Option<Record>, Refusal> {
        check_changes(changes)?;
        let kind = ResourceKind::of(resource);
        match kind {
            Some(ResourceKind::Topic) => {
                Ok(self.altered_topic(org, &resource.name, changes)?.map(Record::Topic))
            }
            // What is set for the broker holds for everybody.
            Some(ResourceKind::Broker) if org != OrgId::DEFAULT => {
                let message = format!(
                    "Settings of the broker can be changed by users of the organisation {ORG_NAME_OF_DEFAULT} only."
                );
                Err(Refusal::new(ErrorCode::ClusterAuthorizationFailed, message))
            }
            Some(ResourceKind::Broker) => {
                let scope = if resource.name.is_empty() { &mut broker.all } else { &mut broker.own };
                self.check_node(&resource.name)?;
                *scope = altered_broker(scope, changes)?;
                Ok(None)
            }
            Some(ResourceKind::BrokerLogger) if matches!(changes, ConfigChanges::Incremental(_)) => {
                self.check_logger_node(&resource.name)?;
                let refuse = |name: &str| {
                    Err(Refusal::new(ErrorCode::InvalidConfig, format!("Logger {name} does not exist!")))
                };
                first_name(changes).map_or(Ok(None), refuse)
            }
            Some(ResourceKind::ClientMetrics) if resource.name.is_empty() => {
                Err(invalid("Subscription name can't be empty"))
            }
            Some(ResourceKind::ClientMetrics) => {
                let refuse =
                    |name: &str| Err(invalid(format!("Unknown client metrics configuration: {name}")));
                first_name(changes).map_or(Ok(None), refuse)
            }
            Some(ResourceKind::Group) => {
                let altered = self.altered_group(org, &resource.name, changes, on_their_way)?;
                Ok(altered.map(Record::GroupConfigs))
            }
            Some(ResourceKind::BrokerLogger) | None => {
                Err(invalid(format!("Unknown resource type {}", resource.resource_type)))
            }
        }
    }

    fn altered_topic(
        &self,
        org: OrgId,
        name: &str,
        changes: &ConfigChanges,
    ) -> Result<Option<Topic>, Refusal> {
        let topic = self.topic_named(org, name);
        let configs = match changes {
            ConfigChanges::Replace(configs) => replaced(configs),
            ConfigChanges::Incremental(changes) => {
                let mut configs = topic.map(|topic| topic.configs.clone()).unwrap_or_default();
                apply_all(changes, &mut configs, |name| topic_property(name).map(|topic| &topic.property))?;
                configs
            }
        };
        if name.is_empty() {
            return Err(invalid("Default topic resources are not allowed."));
        }
        check_topic_name(name)?;
        let configs = self.checked_topic_configs(configs)?;
        let Some(topic) = topic else {
            let message = format!("The topic '{name}' does not exist.");
            return Err(Refusal::new(ErrorCode::UnknownTopicOrPartition, message));
        };
        Ok((configs != topic.configs).then(|| Topic { configs, ..topic.clone() }))
    }

    fn altered_group(
        &self,
        org: OrgId,
        name: &str,
        changes: &ConfigChanges,
        on_their_way: usize,
    ) -> Result<Option<GroupConfigs>, Refusal> {
        let current = self.own_group_configs(org, name);
        let configs = match changes {
            ConfigChanges::Replace(configs) => replaced(configs),
            ConfigChanges::Incremental(changes) => {
                let mut configs = current.cloned().unwrap_or_default();
                apply_all(changes, &mut configs, group_property_named)?;
                configs
            }
        };
        if name.is_empty() {
            return Err(invalid("Default group resources are not allowed."));
        }
        let refuse = |message| Refusal::new(ErrorCode::InvalidConfig, message);
        let configs = validate_group_configs(&configs, &self.settings).map_err(refuse)?;
        if Some(&configs) == current || (configs.is_empty() && current.is_none()) {
            return Ok(None);
        }
        let kept = self.group_configs.get(&org).map_or(0, BTreeMap::len);
        if current.is_none() && kept + on_their_way >= GROUP_CONFIGS_MAX {
            let message = format!("{GROUP_CONFIGS_MAX} groups have settings of their own; no more are kept.");
            return Err(Refusal::new(ErrorCode::PolicyViolation, message));
        }
        Ok(Some(GroupConfigs { org, group: name.to_owned(), configs }))
    }

    /// The name of a broker resource is empty for all brokers, or this node's id.
    fn check_node(&self, name: &str) -> Result<(), Refusal> {
        let here = self.settings.node_id();
        match name.parse::<i32>() {
            _ if name.is_empty() => Ok(()),
            // What is set for a gateway is set for the broker behind it.
            Ok(node) if self.is_node(node) => Ok(()),
            Ok(node) => Err(invalid(format!("Unexpected broker id, expected {here}, but received {node}"))),
            Err(_) => Err(invalid(format!("Node id must be an integer, but it is: {name}"))),
        }
    }

    fn check_logger_node(&self, name: &str) -> Result<(), Refusal> {
        let here = self.settings.node_id();
        match name.parse::<i32>() {
            Ok(node) if self.is_node(node) => Ok(()),
            Ok(node) => Err(invalid(format!("Unexpected node id. Expected {here}, but received {node}"))),
            Err(_) => Err(invalid(format!("Node id must be an integer, but it is: {name}"))),
        }
    }
}

/// The settings of one scope of the broker after the changes.
fn altered_broker(current: &Configs, changes: &ConfigChanges) -> Result<Configs, Refusal> {
    let mut configs = match changes {
        ConfigChanges::Replace(configs) => replaced(configs),
        ConfigChanges::Incremental(changes) => {
            let mut configs = current.clone();
            for (name, operation, value) in changes {
                let operation =
                    (*operation).map_err(|number| invalid(format!("Unknown operations type {number}")))?;
                let property = broker_property(name);
                let change = Change { name, operation, value: value.as_deref().unwrap_or_default() };
                if !change.apply(&mut configs, property) {
                    let verb = if operation == ConfigOperation::Append { "append" } else { "subtract" };
                    let message = match property {
                        Some(_) => format!("Config value {verb} is not allowed for config key: {name}"),
                        None => format!("Unknown config name: {name}"),
                    };
                    return Err(Refusal::new(ErrorCode::InvalidConfig, message));
                }
            }
            configs
        }
    };
    let known = |name: &String| broker_property(name).is_some_and(|property| !property.dynamic);
    let fixed: Vec<&str> = names(changes)
        .filter(|name| configs.contains_key(*name) && known(name))
        .map(String::as_str)
        .collect();
    if !fixed.is_empty() {
        return Err(invalid(format!("Cannot update these configs dynamically: [{}]", fixed.join(", "))));
    }
    for name in names(changes) {
        if let (Some(property), Some(value)) = (broker_property(name), configs.get_mut(name)) {
            *value = property.normalise(value).map_err(invalid)?;
        }
    }
    check_size(&configs)?;
    Ok(configs)
}

/// What is wrong with the changes whatever they are for.
fn check_changes(changes: &ConfigChanges) -> Result<(), Refusal> {
    if !repeated(names(changes)).is_empty() {
        return Err(invalid("Error due to duplicate config keys"));
    }
    let without_value: Vec<&str> = match changes {
        ConfigChanges::Replace(configs) => {
            configs.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name.as_str()).collect()
        }
        ConfigChanges::Incremental(changes) => changes
            .iter()
            .filter(|(_, operation, value)| *operation != Ok(ConfigOperation::Delete) && value.is_none())
            .map(|(name, ..)| name.as_str())
            .collect(),
    };
    if without_value.is_empty() {
        return Ok(());
    }
    Err(invalid(format!("Null value not supported for : {}", without_value.join(", "))))
}

/// Takes all steps of an incremental change of a topic or a group.
fn apply_all(
    changes: &[(String, Result<ConfigOperation, i8>, Option<String>)],
    configs: &mut Configs,
    property: impl Fn(&str) -> Option<&'static Property>,
) -> Result<(), Refusal> {
    for (name, operation, value) in changes {
        // Kafka has no better answer either to an operation that does not exist.
        let operation = (*operation).map_err(|_| ErrorCode::UnknownServerError)?;
        let change = Change { name, operation, value: value.as_deref().unwrap_or_default() };
        if !change.apply(configs, property(name)) {
            let verb = if operation == ConfigOperation::Append { "APPEND" } else { "SUBTRACT" };
            let message = format!("Can't {verb} to key {name} because its type is not LIST.");
            return Err(Refusal::new(ErrorCode::InvalidConfig, message));
        }
    }
    Ok(())
}

/// One step of an incremental change.
struct Change<'a> {
    name: &'a str,
    operation: ConfigOperation,
    value: &'a str,
}

impl Change<'_> {
    /// Takes the step; false when it wants a list where there is none.
    fn apply(&self, configs: &mut Configs, property: Option<&Property>) -> bool {
        match self.operation {
            ConfigOperation::Set => {
                configs.insert(self.name.to_owned(), self.value.to_owned());
            }
            ConfigOperation::Delete => {
                configs.remove(self.name);
            }
            ConfigOperation::Append | ConfigOperation::Subtract => {
                let Some(property) = property.filter(|property| property.kind == Kind::List) else {
                    return false;
                };
                let current =
                    configs.get(self.name).map(String::as_str).or(property.default).unwrap_or_default();
                let mut items: Vec<&str> = current.split(',').filter(|item| !item.is_empty()).collect();
                for item in self.value.split(',') {
                    let item = item.trim();
                    if self.operation == ConfigOperation::Subtract {
                        items.retain(|other| *other != item);
                    } else if !items.contains(&item) {
                        items.push(item);
                    }
                }
                let joined = items.join(",");
                configs.insert(self.name.to_owned(), joined);
            }
        }
        true
    }
}

fn replaced(configs: &[(String, Option<String>)]) -> Configs {
    configs.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect()
}

fn names(changes: &ConfigChanges) -> Box<dyn Iterator<Item = &String> + '_> {
    match changes {
        ConfigChanges::Replace(configs) => Box::new(configs.iter().map(|(name, _)| name)),
        ConfigChanges::Incremental(changes) => Box::new(changes.iter().map(|(name, ..)| name)),
    }
}

fn first_name(changes: &ConfigChanges) -> Option<&str> {
    names(changes).next().map(String::as_str)
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, message)
}
