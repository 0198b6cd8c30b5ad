//! CreateTopics, and topics that come to be because someone asked for them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Catalog, Decision, Minted, check_size, check_topic_name, is_internal, repeated, topic_name};
use crate::error_code::ErrorCode;
use crate::ids::OrgId;
use crate::limits::{PARTITIONS_PER_REQUEST_MAX, PARTITIONS_PER_TOPIC_MAX};
use crate::op::{self, NewTopic, ReplicaAssignment};
use crate::record::{Record, Topic};
use crate::reply::{self, CreatedTopic, Refusal, TopicMade};
use crate::settings::{Check, topic_property, validate_topic_configs};

impl Catalog {
    /// Makes the topics that can be made.
    pub fn handle_create_topics(
        &self,
        org: OrgId,
        op: &op::CreateTopics,
        minted: Minted<'_>,
    ) -> Decision<reply::CreateTopics> {
        let twice = repeated(op.topics.iter().map(|topic| topic.name.as_str()));
        let prohibited = |topic: &&NewTopic| topic_name::is_prohibited(&topic.name);
        let once: Vec<&NewTopic> =
            op.topics.iter().filter(|topic| !twice.contains(topic.name.as_str())).collect();

        let mut partitions = 0_i64;
        for topic in once.iter().filter(|topic| !prohibited(topic)) {
            partitions += self.partitions_asked_for(topic).max(0);
        }
        if partitions > i64::from(PARTITIONS_PER_REQUEST_MAX) {
            let refusal = Refusal::new(
                ErrorCode::PolicyViolation,
                "Excessively large number of partitions per request.",
            );
            let refused =
                |topic: &NewTopic| CreatedTopic { name: topic.name.clone(), result: Err(refusal.clone()) };
            let topics = op.topics.iter().map(refused).collect();
            return Decision { records: Vec::new(), reply: reply::CreateTopics { topics } };
        }

        let mut records = Vec::new();
        let mut topics = Vec::new();
        let mut room = self.room(org);
        for (topic, id) in once.iter().filter(|topic| !prohibited(topic)).zip(minted.topic_ids) {
            let made = self.new_topic(org, topic).and_then(|(partitions, configs)| {
                // Also where the name is one of Kafka's own: it is a topic like any other here.
                room.take(1, u64::from(partitions))?;
                let (name, created_ms) = (topic.name.clone(), minted.now_ms);
                Ok(Topic { id: *id, org, name, partitions, configs, created_ms })
            });
            let result = made.map(|made| {
                let mut shown = self.made(&made);
                show_as_given(&mut shown, topic);
                if !op.validate_only {
                    records.push(Record::Topic(made));
                }
                shown
            });
            topics.push(CreatedTopic { name: topic.name.clone(), result });
        }
        // Kafka answers these last.
        for topic in once.iter().filter(|topic| prohibited(topic)) {
            let message = format!("Creation of internal topic {} is prohibited.", topic.name);
            let result = Err(Refusal::new(ErrorCode::InvalidRequest, message));
            topics.push(CreatedTopic { name: topic.name.clone(), result });
        }
        for name in twice {
            let result = Err(Refusal::new(ErrorCode::InvalidRequest, "Duplicate topic name."));
            topics.push(CreatedTopic { name: name.to_owned(), result });
        }
        Decision { records, reply: reply::CreateTopics { topics } }
    }

    /// The topics of this request that are to be made because they were asked for and do not exist, and what stands against
    /// more of them, if it is a limit of the organisation.
    pub fn topics_to_auto_create<'a>(
        &self,
        org: OrgId,
        op: &'a op::Metadata,
    ) -> (Vec<&'a str>, Option<Refusal>) {
        if !op.allow_auto_topic_creation || !self.settings.auto_create_topics() {
            return (Vec::new(), None);
        }
        let mut names = Vec::new();
        for topic in op.topics.iter().flatten() {
            match topic {
                op::TopicRef::Name(name) => names.push(name.as_str()),
                // With ids in the request its names do not count.
                op::TopicRef::Id(_) => return (Vec::new(), None),
            }
        }
        let mut seen = BTreeSet::new();
        let affordable = PARTITIONS_PER_REQUEST_MAX / self.default_partitions();
        let partitions = u64::from(self.default_partitions().unsigned_abs());
        let mut room = self.room(org);
        let mut refusal = None;
        let made = names
            .into_iter()
            .filter(|name| self.topic_named(org, name).is_none())
            .filter(|name| check_topic_name(name).is_ok() && self.colliding(org, name).is_none())
            .filter(|name| !is_internal(name) && !topic_name::is_prohibited(name))
            .filter(|name| seen.insert(*name))
            // Whoever asks for a topic beyond the limit is told that there is none; who creates it is told why.
            .take_while(|_| room.take(1, partitions).map_err(|refused| refusal = Some(refused)).is_ok())
            .take(usize::try_from(affordable).unwrap_or(0))
            .collect();
        (made, refusal)
    }

    /// Makes what [`Self::topics_to_auto_create`] says, as the broker's settings have it.
    pub fn handle_auto_create(&self, org: OrgId, op: &op::Metadata, minted: Minted<'_>) -> Vec<Record> {
        let partitions = self.default_partitions().unsigned_abs();
        let (names, _) = self.topics_to_auto_create(org, op);
        names
            .into_iter()
            .zip(minted.topic_ids)
            .map(|(name, id)| {
                Record::Topic(Topic {
                    id: *id,
                    org,
                    name: name.to_owned(),
                    partitions,
                    configs: BTreeMap::new(),
                    created_ms: minted.now_ms,
                })
            })
            .collect()
    }

    /// How many partitions the topic would have and its own settings, or what stands against it. What is looked
    /// at first is what Kafka looks at first.
    fn new_topic(&self, org: OrgId, topic: &NewTopic) -> Result<(u32, BTreeMap<String, String>), Refusal> {
        let name = &topic.name;
        if self.topic_named(org, name).is_some() {
            return Err(Refusal::new(
                ErrorCode::TopicAlreadyExists,
                format!("Topic '{name}' already exists."),
            ));
        }
        check_topic_name(name)?;
        if let Some(other) = self.colliding(org, name) {
            let message = format!("Topic '{name}' collides with existing topic: {other}");
            return Err(Refusal::new(ErrorCode::InvalidTopic, message));
        }
        let without_value: Vec<&str> = topic
            .configs
            .iter()
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| name.as_str())
            .collect();
        if !without_value.is_empty() {
            let message = format!("Null value not supported for topic configs: {}", without_value.join(","));
            return Err(Refusal::new(ErrorCode::InvalidConfig, message));
        }
        let configs =
            topic.configs.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect();
        let configs = self.checked_topic_configs(configs)?;
        let partitions = if topic.assignments.is_empty() {
            self.replicated(topic.replication_factor)?;
            self.counted(topic.num_partitions)?
        } else {
            self.assigned(topic)?
        };
        Ok((partitions, configs))
    }

    fn replicated(&self, factor: i16) -> Result<(), Refusal> {
        let message = match factor {
            // Whatever `default.replication.factor` says: there is one copy, and a configuration that was made
            // for a larger Kafka still makes topics.
            -1 | 1 => return Ok(()),
            ..=0 => "Replication factor must be larger than 0, or -1 to use the default value.".to_owned(),
            2.. => format!(
                "Unable to replicate the partition {factor} time(s): The target replication factor of {factor} \
                 cannot be reached because only 1 broker(s) are registered or some brokers have all their log \
                 directories cordoned."
            ),
        };
        Err(Refusal::new(ErrorCode::InvalidReplicationFactor, message))
    }

    fn counted(&self, partitions: i32) -> Result<u32, Refusal> {
        let partitions = if partitions == -1 { self.default_partitions() } else { partitions };
        match u32::try_from(partitions) {
            Ok(partitions) if partitions > 0 => Ok(partitions),
            _ => Err(Refusal::new(
                ErrorCode::InvalidPartitions,
                "Number of partitions was set to an invalid non-positive value.",
            )),
        }
    }

    /// How many partitions a manual assignment makes, if it fits the one node there is.
    fn assigned(&self, topic: &NewTopic) -> Result<u32, Refusal> {
        let both = |what: &str| {
            let message =
                format!("A manual partition assignment was specified, but {what} was not set to -1.");
            Err(Refusal::new(ErrorCode::InvalidRequest, message))
        };
        if topic.replication_factor != -1 {
            return both("replication factor");
        }
        if topic.num_partitions != -1 {
            return both("numPartitions");
        }
        let refuse = |message: String| Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message));
        let mut seen = BTreeSet::new();
        for ReplicaAssignment { partition, nodes } in &topic.assignments {
            if !seen.insert(*partition) {
                return refuse(format!(
                    "Found multiple manual partition assignments for partition {partition}"
                ));
            }
            self.check_nodes(nodes)?;
        }
        let count = u32::try_from(seen.len()).unwrap_or(u32::MAX);
        if !seen.into_iter().map(i64::from).eq(0..i64::from(count)) {
            return refuse("partitions should be a consecutive 0-based integer sequence".to_owned());
        }
        Ok(count)
    }

    /// Whether a partition can be put on these nodes.
    pub(super) fn check_nodes(&self, nodes: &[i32]) -> Result<(), Refusal> {
        let refuse = |what: String| {
            let message = format!("The manual partition assignment includes {what}");
            Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message))
        };
        if nodes.is_empty() {
            return refuse("an empty replica list.".to_owned());
        }
        let mut sorted = nodes.to_vec();
        sorted.sort_unstable();
        let mut previous = None;
        for node in sorted {
            if !self.is_node(node) {
                return refuse(format!("broker {node}, but no such broker is registered."));
            }
            if previous.replace(node) == Some(node) {
                return refuse(format!("the broker {node} more than once."));
            }
        }
        // Through several gateways there are several nodes, and still one copy.
        if nodes.len() > 1 {
            return refuse(format!("{} replicas, but there is one copy of each partition.", nodes.len()));
        }
        Ok(())
    }

    /// Checks the settings that a topic would have of its own, and writes them as they are stored.
    pub(super) fn checked_topic_configs(
        &self,
        configs: BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, Refusal> {
        let invalid = |message: String| Refusal::new(ErrorCode::InvalidConfig, message);
        // A name that nobody knows counts before any value.
        if let Some(name) = configs.keys().find(|name| topic_property(name).is_none()) {
            return Err(invalid(format!("Unknown topic config name: {name}")));
        }
        check_size(&configs)?;
        for (name, value) in &configs {
            let list_of =
                topic_property(name).is_some_and(|topic| matches!(topic.property.check, Check::ListOf(_)));
            // No item at all is an empty list; an empty item beside others is a mistake.
            if list_of && !value.is_empty() && value.split(',').any(|item| item.trim().is_empty()) {
                return Err(invalid(format!("Configuration '{name}' values must not be empty.")));
            }
        }
        validate_topic_configs(&configs, &self.settings).map_err(invalid)?;
        let stored = |(name, value): (String, String)| {
            let normal = topic_property(&name).and_then(|topic| topic.property.normalise(&value).ok());
            (name, normal.unwrap_or(value))
        };
        Ok(configs.into_iter().map(stored).collect())
    }

    fn made(&self, topic: &Topic) -> TopicMade {
        TopicMade {
            id: topic.id,
            num_partitions: i32::try_from(topic.partitions).unwrap_or(i32::MAX),
            replication_factor: 1,
            configs: Some(self.settings.describe_topic(&topic.configs)),
        }
    }

    fn partitions_asked_for(&self, topic: &NewTopic) -> i64 {
        match (topic.assignments.len(), topic.num_partitions) {
            (0, -1) => i64::from(self.default_partitions()),
            (0, partitions) => i64::from(partitions),
            (assigned, _) => i64::try_from(assigned).unwrap_or(i64::MAX),
        }
    }

    fn default_partitions(&self) -> i32 {
        self.settings.num_partitions().clamp(1, PARTITIONS_PER_TOPIC_MAX)
    }
}

/// Shows the settings that the client gave as it wrote them; only later are they shown in Kafka's own writing.
fn show_as_given(made: &mut TopicMade, topic: &NewTopic) {
    let given: BTreeMap<&str, &Option<String>> =
        topic.configs.iter().map(|(name, value)| (name.as_str(), value)).collect();
    for entry in made.configs.iter_mut().flatten() {
        if let Some(value) = given.get(entry.name.as_str()) {
            entry.value.clone_from(value);
        }
    }
}
