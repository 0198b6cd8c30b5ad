//! The catalog, told as scripts: `scenarios/catalog/*.txt`.
//!
//! A step is a command, perhaps with lines of input, then `----` and what came of it. `REWRITE=1` writes what
//! came of it into the files. After each step the catalog must equal one that was told only the records, and one
//! that was told only what compaction leaves of them.

#![expect(
    clippy::unwrap_used,
    reason = "a script that cannot be read fails the test, and where is plain to see"
)]

#[path = "support/catalog_security.rs"]
mod catalog_security;
#[path = "support/scripts.rs"]
mod scripts;

use std::collections::BTreeMap;
use std::fmt::Write;

use coordination::catalog::{Catalog, Decision, Minted};
use coordination::ids::{OrgId, TopicId};
use coordination::op::{
    AlterConfigs, ConfigChanges, ConfigOperation, ConfigResource, CreatePartitions, CreateTopics,
    DeleteTopics, DescribeConfigs, DescribeTopicPartitions, Metadata, MorePartitions, NewTopic, NoTopicRef,
    ReplicaAssignment, TopicRef,
};
use coordination::record::Record;
use coordination::reply::{Refusal, TopicMetadata};
use coordination::settings::{Layer, Settings};
use proptest::prelude::*;

#[test]
fn scripts_come_out_as_written() {
    scripts::come_out_as_written("catalog", || {
        let mut stage = Stage::new();
        move |command, input| stage.step(command, input)
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// [`Stage::apply`] compares after every step.
    #[test]
    fn any_history_is_recovered_from_its_records(steps in prop::collection::vec(step(), 1..40)) {
        let mut stage = Stage::new();
        for (command, input) in steps {
            stage.step(&command, &[input.as_str()]);
        }
    }
}

/// One step among a few topics, so that steps meet.
fn step() -> impl Strategy<Value = (String, String)> {
    let name = || prop::sample::select(vec!["a", "b", "a.b", "a_b", "__kohort", "no such", "c"]);
    let id = || 1..20_u32;
    let config = prop::sample::select(vec![
        "retention.ms=5",
        "retention.ms=x",
        "-retention.ms",
        "cleanup.policy+=compact",
        "nope=1",
        "segment.ms=9",
    ]);
    let broker_config = prop::sample::select(vec![
        "message.max.bytes=5",
        "-message.max.bytes",
        "num.partitions=3",
        "log.retention.ms=-1",
        "unknown=1",
    ]);
    let group_config = prop::sample::select(vec![
        "consumer.session.timeout.ms=50000",
        "consumer.session.timeout.ms=5",
        "-consumer.session.timeout.ms",
        "consumer.heartbeat.interval.ms=6000",
    ]);
    let said = |command: &str, input: String| (command.to_owned(), input);
    prop_oneof![
        (name(), -2..5)
            .prop_map(move |(name, count)| said("create", format!("{name} | p={count} segment.ms=7"))),
        name().prop_map(move |name| said("metadata auto", name.to_owned())),
        name().prop_map(move |name| said("delete", format!("name {name}"))),
        id().prop_map(move |id| said("delete", format!("id {id}"))),
        (name(), 0..9)
            .prop_map(move |(name, count)| said("grow", format!("{} {count}", name.replace(' ', "!")))),
        (name(), config).prop_map(move |(name, config)| {
            said("alter", format!("2:{} {config}", name.replace(' ', "!")))
        }),
        broker_config.clone().prop_map(move |config| said("alter", format!("4:1 {config}"))),
        broker_config.prop_map(move |config| said("replace", format!("4: {config}"))),
        (name(), group_config).prop_map(move |(name, config)| {
            said("alter", format!("32:{} {config}", name.replace(' ', "!")))
        }),
        Just(said("start-of-groups", String::new())),
        Just(said("producer-ids", String::new())),
        Just(said("first-start one", String::new())),
        (0..2).prop_map(move |org| said(&format!("org {org}"), String::new())),
        Just(said("org default", String::new())),
        (0..3).prop_map(move |org| said(&format!("create-org o{org} max.topics={org}"), String::new())),
        (0..3).prop_map(move |org| said(&format!("delete-org o{org}"), String::new())),
        (0..3, 0..3)
            .prop_map(move |(org, most)| said(&format!("limit o{org} max.partitions={most}"), String::new())),
        (0..3).prop_map(move |user| said(&format!("create-user u{user}"), String::new())),
        (0..3).prop_map(move |user| said(&format!("delete-user u{user}"), String::new())),
        (0..3, 1..3).prop_map(move |(user, kind)| said("scram", format!("give u{user} {kind} 4096"))),
        (0..3, 1..3).prop_map(move |(user, kind)| said("scram", format!("take u{user} {kind}"))),
        (0..3).prop_map(move |gateway| said(&format!("allow {gateway}"), String::new())),
        (0..3).prop_map(move |gateway| said(&format!("deny {gateway}"), String::new())),
        (0..3).prop_map(move |name| said("create-acls", format!("2 3 t{name} User:a * 3 3"))),
        (0..3).prop_map(move |name| said("delete-acls", format!("2 3 t{name}"))),
    ]
}

struct Stage {
    settings: Settings,
    catalog: Catalog,
    records: Vec<Record>,
    org: OrgId,
    /// How many topic ids were minted.
    minted: u128,
}

impl Stage {
    fn new() -> Self {
        let settings = Settings::default();
        Self {
            catalog: Catalog::new(settings.clone()),
            settings,
            records: Vec::new(),
            org: OrgId::DEFAULT,
            minted: 0,
        }
    }

    fn step(&mut self, command: &str, input: &[&str]) -> String {
        let mut words = command.split_whitespace();
        let verb = words.next().unwrap();
        let words: Vec<&str> = words.collect();
        let validate_only = words.contains(&"validate-only");
        let mut out = String::new();
        let records = match verb {
            "settings" => {
                for word in words {
                    let (name, value) = word.split_once('=').unwrap();
                    self.settings.set(Layer::File, name, value).unwrap();
                }
                self.catalog = Catalog::new(self.settings.clone());
                self.records.clear();
                Vec::new()
            }
            "org" => {
                let named = self.catalog.org_named(words[0]).map(|org| org.id);
                self.org = named.unwrap_or_else(|| OrgId::from_u128(words[0].parse().unwrap()));
                Vec::new()
            }
            "create" => {
                let topics: Vec<NewTopic> = input.iter().map(|line| new_topic(line)).collect();
                let ids = self.mint(topics.len());
                let minted = Minted { now_ms: 1_000, topic_ids: &ids };
                let op = CreateTopics { topics, validate_only };
                let Decision { records, reply } = self.catalog.handle_create_topics(self.org, &op, minted);
                for topic in reply.topics {
                    match topic.result {
                        Ok(made) => {
                            let own: Vec<String> = made
                                .configs
                                .iter()
                                .flatten()
                                .filter(|entry| entry.source as i8 == 1)
                                .map(|entry| format!(" {}={}", entry.name, entry.value.as_deref().unwrap()))
                                .collect();
                            let (count, factor) = (made.num_partitions, made.replication_factor);
                            writeln!(
                                out,
                                "{} partitions={count} replicas={factor}{}",
                                topic.name,
                                own.concat()
                            )
                        }
                        Err(refusal) => writeln!(out, "{}: {}", topic.name, said(&refusal)),
                    }
                    .unwrap();
                }
                records
            }
            "delete" => {
                let topics = input
                    .iter()
                    .map(|line| match line.split_once(' ') {
                        Some(("name", name)) => Ok(TopicRef::Name(name.to_owned())),
                        Some(("id", id)) => Ok(TopicRef::Id(TopicId::from_u128(id.parse().unwrap()))),
                        Some(("both", name)) => {
                            Err(NoTopicRef::Both { name: name.to_owned(), id: TopicId::from_u128(9) })
                        }
                        _ => Err(NoTopicRef::Neither),
                    })
                    .collect();
                let Decision { records, reply } =
                    self.catalog.handle_delete_topics(self.org, &DeleteTopics { topics });
                for topic in reply.topics {
                    let name = topic.name.as_deref().unwrap_or("-");
                    let error = topic.error.as_ref().map_or("deleted".to_owned(), said);
                    writeln!(out, "{name} id={}: {error}", topic.id.as_u128()).unwrap();
                }
                records
            }
            "grow" => {
                let topics = input
                    .iter()
                    .map(|line| {
                        let words: Vec<&str> = line.split_whitespace().collect();
                        let assignments = words.get(2).map(|nodes| nodes.split(';').map(numbers).collect());
                        MorePartitions {
                            name: words[0].to_owned(),
                            count: words[1].parse().unwrap(),
                            assignments,
                        }
                    })
                    .collect();
                let op = CreatePartitions { topics, validate_only };
                let Decision { records, reply } = self.catalog.handle_create_partitions(self.org, &op);
                for (name, error) in reply.topics {
                    writeln!(out, "{name}: {}", error.as_ref().map_or("grown".to_owned(), said)).unwrap();
                }
                records
            }
            "alter" | "replace" => {
                let resources = input.iter().map(|line| changes(verb, line)).collect();
                let op = AlterConfigs { resources, validate_only };
                let Decision { records, reply } = self.catalog.handle_alter_configs(self.org, &op);
                for (resource, error) in reply.resources {
                    let error = error.as_ref().map_or("altered".to_owned(), said);
                    writeln!(out, "{}:{}: {error}", resource.resource_type, resource.name).unwrap();
                }
                records
            }
            "describe" => {
                let resources = input
                    .iter()
                    .map(|line| {
                        let mut words = line.split_whitespace();
                        let resource = resource(words.next().unwrap());
                        let names: Vec<String> = words.map(str::to_owned).collect();
                        (resource, Some(names).filter(|names| !names.is_empty()))
                    })
                    .collect();
                let include_synonyms = words.contains(&"synonyms");
                let op = DescribeConfigs { resources, include_synonyms, include_documentation: false };
                for (resource, entries) in self.catalog.describe_configs(self.org, &op).resources {
                    write!(out, "{}:{}:", resource.resource_type, resource.name).unwrap();
                    match entries {
                        Ok(entries) if entries.len() > 9 => {
                            writeln!(out, " {} settings", entries.len()).unwrap();
                        }
                        Ok(entries) => {
                            for entry in entries {
                                let value = entry.value.as_deref().unwrap_or("null");
                                write!(out, " {}={value}@{}", entry.name, entry.source as i8).unwrap();
                                for synonym in entry.synonyms {
                                    let value = synonym.value.as_deref().unwrap_or("null");
                                    let (name, source) = (synonym.name, synonym.source as i8);
                                    write!(out, " ({name}={value}@{source})").unwrap();
                                }
                            }
                            out.push('\n');
                        }
                        Err(refusal) => writeln!(out, " {}", said(&refusal)).unwrap(),
                    }
                }
                Vec::new()
            }
            "metadata" => {
                let topics = (!words.contains(&"all")).then(|| {
                    let topic = |line: &&str| match line.strip_prefix("id ") {
                        Some(id) => TopicRef::Id(TopicId::from_u128(id.parse().unwrap())),
                        None => TopicRef::Name(unquoted(line)),
                    };
                    input.iter().map(topic).collect()
                });
                let op = Metadata { topics, allow_auto_topic_creation: words.contains(&"auto") };
                let (missing, refusal) = self.catalog.topics_to_auto_create(self.org, &op);
                let ids = self.mint(missing.len());
                if let Some(refusal) = refusal {
                    writeln!(out, "not made: {}", refusal.message.unwrap_or_default()).unwrap();
                }
                let records =
                    self.catalog.handle_auto_create(self.org, &op, Minted { now_ms: 2_000, topic_ids: &ids });
                self.apply(&records, &mut out);
                for topic in self.catalog.metadata(self.org, &op).topics {
                    write_topic(&mut out, &topic);
                }
                Vec::new()
            }
            "pages" => {
                let mut op =
                    DescribeTopicPartitions { topics: Vec::new(), partition_limit: i32::MAX, cursor: None };
                op.topics = input.iter().map(|line| (*line).to_owned()).collect();
                for word in words {
                    match word.split_once('=').unwrap() {
                        ("limit", limit) => op.partition_limit = limit.parse().unwrap(),
                        ("cursor", cursor) => {
                            let (name, partition) = cursor.split_once(':').unwrap();
                            op.cursor = Some((name.to_owned(), partition.parse().unwrap()));
                        }
                        (other, _) => panic!("unknown option {other}"),
                    }
                }
                let reply = self.catalog.describe_topic_partitions(self.org, &op);
                for topic in &reply.topics {
                    write_topic(&mut out, topic);
                }
                if let Some((name, partition)) = reply.next_cursor {
                    writeln!(out, "next {name}:{partition}").unwrap();
                }
                Vec::new()
            }
            "producer-ids" => {
                let Decision { records, reply } = self.catalog.handle_producer_ids();
                writeln!(out, "ids {reply:?}").unwrap();
                records
            }
            "first-start" => self.catalog.handle_first_start(words[0]),
            "start-of-groups" => {
                let ids = self.mint(1);
                let minted = Minted { now_ms: 3_000, topic_ids: &ids };
                self.catalog.handle_start_of_groups(self.org, minted)
            }
            "groups-with-configs" => {
                for group in self.catalog.groups_with_configs(self.org) {
                    writeln!(out, "{group}").unwrap();
                }
                Vec::new()
            }
            other => catalog_security::step(&self.catalog, self.org, other, &words, input, &mut out),
        };
        self.apply(&records, &mut out);
        out
    }

    fn apply(&mut self, records: &[Record], out: &mut String) {
        for record in records {
            let (key, value) = record.encode();
            let value = value.map_or("deleted".to_owned(), |value| String::from_utf8(value).unwrap());
            writeln!(out, "record {} {value}", String::from_utf8(key).unwrap()).unwrap();
            self.catalog.apply(record);
            self.records.push(record.clone());
        }
        assert_eq!(self.recovered(self.records.clone()), self.catalog, "replay equals memory");
        let mut last: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for (index, record) in self.records.iter().enumerate() {
            last.insert(record.encode().0, index);
        }
        let compacted = self.records.iter().enumerate().filter(|(index, record)| {
            let (key, value) = record.encode();
            last[&key] == *index && value.is_some()
        });
        let compacted = compacted.map(|(_, record)| record.clone()).collect();
        assert_eq!(self.recovered(compacted), self.catalog, "what compaction leaves equals memory");
    }

    /// The catalog of a broker that was started again and found these records.
    fn recovered(&self, records: Vec<Record>) -> Catalog {
        let mut catalog = Catalog::new(self.settings.clone());
        for record in records {
            let (key, value) = record.encode();
            catalog.apply(&Record::decode(&key, value.as_deref()).unwrap());
        }
        catalog
    }

    fn mint(&mut self, count: usize) -> Vec<TopicId> {
        let first = self.minted + 1;
        self.minted += u128::try_from(count).unwrap();
        (first..=self.minted).map(TopicId::from_u128).collect()
    }
}

/// `name p=3 r=1 assign=0:1;1:1,5 retention.ms=5 segment.ms`; a setting without `=` has null for a value.
fn new_topic(line: &str) -> NewTopic {
    let (name, options) = line.split_once('|').unwrap_or((line, ""));
    let mut topic = NewTopic {
        name: unquoted(name.trim_end()),
        num_partitions: -1,
        replication_factor: -1,
        assignments: Vec::new(),
        configs: Vec::new(),
    };
    for word in options.split_whitespace() {
        match word.split_once('=') {
            Some(("p", count)) => topic.num_partitions = count.parse().unwrap(),
            Some(("r", factor)) => topic.replication_factor = factor.parse().unwrap(),
            Some(("assign", assignments)) => {
                let assignment = |text: &str| {
                    let (partition, nodes) = text.split_once(':').unwrap();
                    ReplicaAssignment { partition: partition.parse().unwrap(), nodes: numbers(nodes) }
                };
                topic.assignments = assignments.split(';').map(assignment).collect();
            }
            Some((name, value)) => topic.configs.push((name.to_owned(), Some(value.to_owned()))),
            None => topic.configs.push((word.to_owned(), None)),
        }
    }
    topic
}

/// `2:orders retention.ms=5 -segment.ms cleanup.policy+=compact cleanup.policy-=delete nothing`
fn changes(verb: &str, line: &str) -> (ConfigResource, ConfigChanges) {
    let mut words = line.split_whitespace();
    let resource = resource(words.next().unwrap());
    let entry = |word: &str| -> (String, Result<ConfigOperation, i8>, Option<String>) {
        if let Some(name) = word.strip_prefix('-') {
            return (name.to_owned(), Ok(ConfigOperation::Delete), None);
        }
        let operations = [
            ("+=", Ok(ConfigOperation::Append)),
            ("-=", Ok(ConfigOperation::Subtract)),
            ("?=", Err(9)),
            ("=", Ok(ConfigOperation::Set)),
        ];
        for (sign, operation) in operations {
            if let Some((name, value)) = word.split_once(sign) {
                return (name.to_owned(), operation, Some(value.to_owned()));
            }
        }
        (word.to_owned(), Ok(ConfigOperation::Set), None)
    };
    let entries = words.map(entry);
    let changes = if verb == "replace" {
        ConfigChanges::Replace(entries.map(|(name, _, value)| (name, value)).collect())
    } else {
        ConfigChanges::Incremental(entries.collect())
    };
    (resource, changes)
}

fn resource(text: &str) -> ConfigResource {
    let (resource_type, name) = text.split_once(':').unwrap();
    ConfigResource { resource_type: resource_type.parse().unwrap(), name: name.to_owned() }
}

/// `""` stands for the empty name.
fn unquoted(name: &str) -> String {
    if name == "\"\"" { String::new() } else { name.to_owned() }
}

fn numbers(text: &str) -> Vec<i32> {
    text.split(',').filter(|number| !number.is_empty()).map(|number| number.parse().unwrap()).collect()
}

fn said(refusal: &Refusal) -> String {
    format!("{} {}", refusal.code.number(), refusal.message.as_deref().unwrap_or("null"))
}

fn write_topic(out: &mut String, topic: &TopicMetadata) {
    let name = topic.name.as_deref().unwrap_or("-");
    let id = topic.id.as_u128();
    match (topic.error, topic.partitions.as_slice()) {
        (Some(error), _) => writeln!(out, "{name} id={id}: {}", error.number()),
        (None, []) => writeln!(out, "{name} id={id} no partitions"),
        (None, [first, .., last]) => {
            writeln!(out, "{name} id={id} partitions {}..{}", first.index, last.index)
        }
        (None, [only]) => writeln!(out, "{name} id={id} partition {}", only.index),
    }
    .unwrap();
}
