//! The topics of the groups, as Kafka has them.

mod refresh;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use client::{Client, ClientError};
use coordination::handoff::{Change, Entry, Key, Step, Topic, TopicName, Write, check_topic};
use parking_lot::Mutex;

use crate::groups::{Group, GroupId, Groups, SettleError};
use crate::planner::OPERATIONS_MAX;
use crate::settings::Settings;

pub(crate) use refresh::keep_fresh;

/// How many topics Kafka is asked about at a time.
const NAMES_PER_REQUEST_MAX: usize = 1000;

/// How much is written at a time; etcd takes half as much again.
const TRANSACTION_BYTES_MAX: usize = 1 << 20;

/// Kafka's answer for a topic that there is not.
const UNKNOWN_TOPIC: i16 = 3;

/// What is known of Kafka's topics. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Topics {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    hosts: Vec<String>,
    options: client::Options,
    /// One question at a time.
    kafka: tokio::sync::Mutex<Kafka>,
    /// What came of the last question, if it was not an answer.
    problem: Mutex<Option<String>>,
}

#[derive(Debug, Default)]
struct Kafka {
    client: Option<Client>,
    /// When it was last found that Kafka cannot be reached.
    failed: Option<(Instant, Unreachable)>,
}

/// Kafka has not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Kafka cannot be asked for topics: {0}")]
pub(crate) struct Unreachable(String);

/// What Kafka says of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It has these partitions.
    Known(Known),
    /// There is none.
    Unknown,
    /// Something else.
    Refused(String),
}

/// A topic as Kafka has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) partitions: u32,
    /// The racks of the leaders, where they have one.
    pub(crate) racks: BTreeMap<u32, String>,
}

/// Why a group does not work on a topic.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TopicError {
    /// Kafka does not know it.
    #[error("Kafka has no topic {topic}")]
    Unknown { topic: TopicName },
    /// This instance knows no Kafka to ask.
    #[error("topic {topic} is not configured, and no Kafka is (kafka_hosts) that could be asked for it")]
    NoKafka { topic: TopicName },
    /// Kafka knows it, but does not say what we need.
    #[error("Kafka does not tell the partitions of topic {topic}: {reason}")]
    Refused { topic: TopicName, reason: String },
    /// What lies in etcd for it cannot be read.
    #[error("what is configured for topic {topic} cannot be read by this version of the assigner")]
    Unreadable { topic: TopicName },
    /// Kafka cannot be reached.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    /// It could not be written.
    #[error(transparent)]
    Settle(#[from] SettleError<Infallible>),
}

impl Topics {
    pub(crate) fn new(settings: &Settings) -> Self {
        let shared = Shared {
            hosts: settings.kafka_hosts.clone(),
            options: settings.kafka.clone(),
            kafka: tokio::sync::Mutex::default(),
            problem: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// What is wrong with reading topics from Kafka, if anything is.
    pub(crate) fn problem(&self) -> Option<String> {
        self.shared.problem.lock().clone()
    }

    fn is_configured(&self) -> bool {
        !self.shared.hosts.is_empty()
    }

    /// Makes sure that the group works on topics: about those on which it does not yet, Kafka is asked how many partitions
    /// they have.
    pub(crate) async fn ensure(
        &self,
        groups: &Groups,
        group: &GroupId,
        topics: &BTreeSet<TopicName>,
    ) -> Result<(), TopicError> {
        let (missing, unreadable) = groups.with(group, |known| {
            let is_missing = |topic: &&TopicName| !known.state.topics.contains_key(*topic);
            let missing: Vec<TopicName> = topics.iter().filter(is_missing).cloned().collect();
            let is_unreadable =
                |topic: &&TopicName| known.unreadable.contains_key(&Key::Topic((*topic).clone()));
            let unreadable = missing.iter().find(is_unreadable).cloned();
            (missing, unreadable)
        });
        if let Some(topic) = unreadable {
            return Err(TopicError::Unreadable { topic });
        }
        let Some(first) = missing.first() else { return Ok(()) };
        if !self.is_configured() {
            return Err(TopicError::NoKafka { topic: first.clone() });
        }
        let mut answers = self.ask(&missing).await?;
        let mut found = Vec::with_capacity(missing.len());
        for topic in missing {
            match answers.remove(&topic) {
                Some(Answer::Known(known)) => found.push((topic, known.topic())),
                Some(Answer::Unknown) | None => return Err(TopicError::Unknown { topic }),
                Some(Answer::Refused(reason)) => return Err(TopicError::Refused { topic, reason }),
            }
        }
        for found in chunks(&found) {
            let decide = |group: &Group| {
                let new = found.iter().filter(|(topic, _)| !group.state.topics.contains_key(topic));
                let writes: Vec<Write> = new
                    .map(|(topic, value)| {
                        let change = Change::Put(Entry::Topic(topic.clone(), value.clone()));
                        Write { change, read_at: 0 }
                    })
                    .collect();
                Ok(((!writes.is_empty()).then_some(Step { writes, guards: Vec::new() }), ()))
            };
            groups.settle(group, None, decide).await?;
        }
        for (topic, value) in &found {
            let partitions = value.partitions;
            tracing::info!(group = %shown(group), %topic, partitions, "the group works on a new topic");
        }
        Ok(())
    }

    /// Asks Kafka about topics.
    async fn ask(&self, names: &[TopicName]) -> Result<BTreeMap<TopicName, Answer>, Unreachable> {
        let asked = Instant::now();
        let mut kafka = self.shared.kafka.lock().await;
        // Whoever has waited while somebody else found out that Kafka cannot be reached need not find out again.
        if let Some((failed, error)) = &kafka.failed
            && *failed >= asked
        {
            return Err(error.clone());
        }
        let answers = kafka.ask(&self.shared.hosts, &self.shared.options, names).await;
        let answers = answers.map_err(|error| Unreachable(in_full(&error)));
        *self.shared.problem.lock() = answers.as_ref().err().map(Unreachable::to_string);
        if let Err(error) = &answers {
            *kafka = Kafka { client: None, failed: Some((Instant::now(), error.clone())) };
        }
        answers
    }
}

impl Kafka {
    async fn ask(
        &mut self,
        hosts: &[String],
        options: &client::Options,
        names: &[TopicName],
    ) -> Result<BTreeMap<TopicName, Answer>, ClientError> {
        let mut client = match self.client.take().filter(Client::is_usable) {
            Some(client) => client,
            None => Client::connect(hosts, options.clone()).await?,
        };
        let mut answers = BTreeMap::new();
        for names in names.chunks(NAMES_PER_REQUEST_MAX) {
            let texts: Vec<String> = names.iter().map(|name| name.as_str().to_owned()).collect();
            let metadata = client.metadata(Some(&texts)).await?;
            let racks: BTreeMap<i32, &str> = metadata
                .brokers
                .iter()
                .filter_map(|broker| Some((broker.node_id, broker.rack.as_deref()?)))
                .filter(|(_, rack)| !rack.is_empty())
                .collect();
            for topic in &metadata.topics {
                // Only what was asked for: whatever else comes is no name of ours.
                let Some(name) = names.iter().find(|name| Some(name.as_str()) == topic.name.as_deref())
                else {
                    continue;
                };
                let partitions =
                    topic.partitions.iter().map(|partition| (partition.partition_index, partition.leader_id));
                let answer = answer(topic.error_code, partitions, &racks);
                answers.insert(name.clone(), answer);
            }
        }
        self.client = Some(client);
        Ok(answers)
    }
}

/// What Kafka says of one topic, given its partitions with their leaders.
fn answer(
    error_code: i16,
    partitions: impl Iterator<Item = (i32, i32)>,
    racks: &BTreeMap<i32, &str>,
) -> Answer {
    match error_code {
        0 => {}
        UNKNOWN_TOPIC => return Answer::Unknown,
        code => return Answer::Refused(format!("error {code}")),
    }
    let mut known = Known { partitions: 0, racks: BTreeMap::new() };
    for (index, leader) in partitions {
        let Ok(index) = u32::try_from(index) else { continue };
        known.partitions = known.partitions.max(index.saturating_add(1));
        if let Some(rack) = racks.get(&leader) {
            known.racks.insert(index, (*rack).to_owned());
        }
    }
    // Kafka says so while it makes a topic.
    if known.partitions == 0 {
        Answer::Refused("it has no partitions yet".to_owned())
    } else {
        Answer::Known(known)
    }
}

impl Known {
    fn topic(&self) -> Topic {
        writable(Topic { racks: self.racks.clone(), ..Topic::new(self.partitions) })
    }
}

/// Topics in parts that etcd takes in one transaction.
fn chunks(topics: &[(TopicName, Topic)]) -> Vec<&[(TopicName, Topic)]> {
    let mut chunks = Vec::new();
    let (mut begin, mut bytes) = (0, 0);
    for (number, (name, topic)) in topics.iter().enumerate() {
        let length = Entry::Topic(name.clone(), topic.clone()).encode().len();
        if number > begin && (number - begin == OPERATIONS_MAX || bytes + length > TRANSACTION_BYTES_MAX) {
            chunks.push(&topics[begin..number]);
            (begin, bytes) = (number, 0);
        }
        bytes += length;
    }
    chunks.push(&topics[begin..]);
    chunks
}

/// The topic without its racks, if it would be more than etcd takes with them.
fn writable(topic: Topic) -> Topic {
    if check_topic(&topic).is_ok() { topic } else { Topic { racks: BTreeMap::new(), ..topic } }
}

/// One write to a key as it was read.
fn step(change: Change, read_at: u64) -> Step {
    Step { writes: vec![Write { change, read_at }], guards: Vec::new() }
}

/// A group's name for people.
pub(crate) fn shown(group: &GroupId) -> &str {
    group.as_ref().map_or("", coordination::handoff::GroupName::as_str)
}

fn in_full(error: &ClientError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_has_the_racks_of_its_leaders() {
        let racks = BTreeMap::from([(1, "a"), (2, "b")]);
        let found = answer(0, [(0, 1), (2, 2), (1, -1)].into_iter(), &racks);
        let racks = BTreeMap::from([(0, "a".to_owned()), (2, "b".to_owned())]);
        assert_eq!(found, Answer::Known(Known { partitions: 3, racks }));
    }

    #[test]
    fn a_topic_with_more_racks_than_can_be_written_has_none() {
        let of_length = |length: usize| {
            let racks = BTreeMap::from([(0, "r".repeat(length))]);
            Known { partitions: 2, racks }.topic()
        };
        assert_eq!(of_length(9).racks.len(), 1);
        assert_eq!(of_length(1 << 20), Topic::new(2));
    }

    #[test]
    fn topics_are_written_in_parts_that_etcd_takes() {
        let topics = |count: u32, racks: u32| -> Vec<(TopicName, Topic)> {
            let racks: BTreeMap<u32, String> = (0..racks).map(|number| (number, "r".repeat(90))).collect();
            (0..count)
                .map(|number| {
                    let topic = Topic { racks: racks.clone(), ..Topic::new(10_000) };
                    (format!("t{number}").parse().unwrap(), topic)
                })
                .collect()
        };
        let lengths = |topics: &[(TopicName, Topic)]| -> Vec<usize> {
            chunks(topics).iter().map(|chunk| chunk.len()).collect()
        };
        assert_eq!(lengths(&topics(300, 0)), [128, 128, 44]);
        assert_eq!(lengths(&topics(1, 0)), [1]);
        // About a million bytes each.
        assert_eq!(lengths(&topics(3, 10_000)), [1, 1, 1]);
    }

    #[test]
    fn only_kafkas_word_makes_a_topic_unknown() {
        assert_eq!(answer(3, std::iter::empty(), &BTreeMap::new()), Answer::Unknown);
        assert!(matches!(answer(29, std::iter::empty(), &BTreeMap::new()), Answer::Refused(_)));
        assert!(matches!(answer(0, std::iter::empty(), &BTreeMap::new()), Answer::Refused(_)));
    }
}
