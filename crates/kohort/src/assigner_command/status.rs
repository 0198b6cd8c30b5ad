//! `kohort assigner status`: who leads, and the consumers and topics of each group.

use std::collections::BTreeMap;

use assigner_client::proto;
use serde::Serialize;

use super::reach::{connect, failure};
use crate::cli::OutputArgs;
use crate::cli::assigner::ReachArgs;
use crate::failure::{Failure, Kind};
use crate::output::{Table, count, plain, show};

/// What an instance says of itself and the groups.
#[derive(Debug, Serialize)]
struct Status {
    instance: String,
    version: String,
    /// None if nobody leads.
    leader: Option<String>,
    revision: u64,
    etcd_behind_ms: u64,
    kafka_problem: Option<String>,
    groups: Vec<Group>,
}

#[derive(Debug, Serialize)]
pub(super) struct Group {
    /// Empty for consumers that name no group.
    pub(super) group: String,
    handoffs: u32,
    consumers: Vec<Consumer>,
    pub(super) topics: Vec<Topic>,
}

#[derive(Debug, Serialize)]
struct Consumer {
    name: String,
    state: String,
    partitions: u32,
    warming: u32,
    releasing: u32,
    capacity: u32,
    rack: Option<String>,
    labels: BTreeMap<String, String>,
    topics: Vec<String>,
    registered_ms: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Topic {
    pub(super) topic: String,
    pub(super) partitions: u32,
    pub(super) assigned: u32,
    pub(super) weight: u32,
    /// Only of partitions whose weight is not that of the topic.
    pub(super) partition_weights: BTreeMap<u32, u32>,
}

impl From<proto::StatusResponse> for Status {
    fn from(said: proto::StatusResponse) -> Self {
        Self {
            instance: said.instance,
            version: said.version,
            leader: told(said.leader),
            revision: said.revision,
            etcd_behind_ms: said.etcd_behind_ms,
            kafka_problem: told(said.kafka_problem),
            groups: said.groups.into_iter().map(Group::from).collect(),
        }
    }
}

impl From<proto::GroupStatus> for Group {
    fn from(said: proto::GroupStatus) -> Self {
        Self {
            group: said.group,
            handoffs: said.handoffs,
            consumers: said.consumers.into_iter().map(Consumer::from).collect(),
            topics: said
                .topics
                .into_iter()
                .map(|proto::TopicStatus { topic, partitions, assigned, weight, partition_weights }| Topic {
                    topic,
                    partitions,
                    assigned,
                    weight,
                    partition_weights: partition_weights.into_iter().collect(),
                })
                .collect(),
        }
    }
}

impl From<proto::ConsumerStatus> for Consumer {
    fn from(said: proto::ConsumerStatus) -> Self {
        Self {
            name: said.name,
            state: said.state,
            partitions: said.partitions,
            warming: said.warming,
            releasing: said.releasing,
            capacity: said.capacity,
            rack: told(said.rack),
            labels: said.labels.into_iter().collect(),
            topics: said.topics,
            registered_ms: said.registered_ms,
        }
    }
}

/// What is said with an empty text is not there.
pub(crate) fn told(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// What a table shows for what may not be there.
pub(crate) fn dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

/// Shows all groups, or one.
pub(super) async fn run(group: Option<String>, reach: &ReachArgs, output: OutputArgs) -> anyhow::Result<()> {
    let status = ask(group.clone().unwrap_or_default(), reach).await?;
    // Any name is that of a group, though nobody may have used it yet.
    if let Some(group) = group
        && status.groups.iter().all(Group::is_empty)
    {
        return Err(Failure::new(Kind::Absent, no_such_group(&group)).into());
    }
    Ok(show(output.output, &status, |status| status.render())?)
}

/// The topics of one group, which may be the one without a name.
pub(super) async fn topics_of(group: &str, reach: &ReachArgs) -> anyhow::Result<Vec<Topic>> {
    let status = ask(group.to_owned(), reach).await?;
    let found = status.groups.into_iter().find(|known| known.group == group && !known.is_empty());
    Ok(found.ok_or_else(|| Failure::new(Kind::Absent, no_such_group(group)))?.topics)
}

async fn ask(group: String, reach: &ReachArgs) -> anyhow::Result<Status> {
    let mut admin = connect(reach).await?;
    let said = admin.status(proto::StatusRequest { group }).await;
    Ok(said.map_err(|status| failure("show the status", &status))?.into_inner().into())
}

/// What is said about a group that is not there.
pub(crate) fn no_such_group(group: &str) -> String {
    match group {
        "" => "there are no consumers that name no group; name one with --group".to_owned(),
        _ => format!("group {} does not exist; `kohort assigner status` shows those that do", plain(group)),
    }
}

impl Status {
    fn render(&self) -> String {
        let leader = match &self.leader {
            Some(leader) if *leader == self.instance => "it leads".to_owned(),
            Some(leader) => format!("{} leads", plain(leader)),
            None => "nobody leads".to_owned(),
        };
        let (instance, version) = (plain(&self.instance), plain(&self.version));
        let mut text =
            format!("Instance {instance} (kohort {version}): {leader}, revision {}\n", self.revision);
        if self.etcd_behind_ms > 0 {
            let seconds = seconds(self.etcd_behind_ms);
            text.push_str(&format!("etcd: not heard from for {seconds}; what follows may be old\n"));
        }
        if let Some(problem) = &self.kafka_problem {
            text.push_str(&format!("Kafka: {}\n", plain(problem)));
        }
        if self.groups.is_empty() {
            text.push_str("No consumer is registered, and no group works on a topic.\n");
        }
        for group in &self.groups {
            text.push('\n');
            text.push_str(&group.render());
        }
        text
    }
}

impl Group {
    fn is_empty(&self) -> bool {
        self.consumers.is_empty() && self.topics.is_empty() && self.handoffs == 0
    }

    fn render(&self) -> String {
        let name = match plain(&self.group) {
            name if name.is_empty() => "Consumers without a group".to_owned(),
            name => format!("Group {name}"),
        };
        let handoffs = usize::try_from(self.handoffs).unwrap_or(usize::MAX);
        let consumers = match self.consumers.len() {
            0 => "no consumers".to_owned(),
            number => count(number, "consumer"),
        };
        let mut text = format!(
            "{name}: {consumers}, {}, {}\n",
            count(self.topics.len(), "topic"),
            count(handoffs, "handoff")
        );
        if !self.consumers.is_empty() {
            let mut table = Table::new(&[
                "CONSUMER",
                "STATE",
                "PARTITIONS",
                "WARMING",
                "RELEASING",
                "CAPACITY",
                "RACK",
                "TOPICS",
            ]);
            for consumer in &self.consumers {
                table.row([
                    consumer.name.clone(),
                    consumer.state.clone(),
                    consumer.partitions.to_string(),
                    consumer.warming.to_string(),
                    consumer.releasing.to_string(),
                    consumer.capacity.to_string(),
                    dash(consumer.rack.as_deref().unwrap_or_default()),
                    if consumer.topics.is_empty() { "all".to_owned() } else { consumer.topics.join(",") },
                ]);
            }
            text.push_str(&table.render());
        }
        if !self.topics.is_empty() {
            text.push_str(&render_topics(&self.topics));
        }
        text
    }
}

/// Topics with how much of them has an owner.
pub(super) fn render_topics(topics: &[Topic]) -> String {
    let mut table = Table::new(&["TOPIC", "PARTITIONS", "ASSIGNED", "WEIGHT"]);
    for topic in topics {
        table.row([
            topic.topic.clone(),
            topic.partitions.to_string(),
            topic.assigned.to_string(),
            weights(topic),
        ]);
    }
    table.render()
}

/// The weight of a topic's partitions, and of those that have their own: as many as a line has room for.
fn weights(topic: &Topic) -> String {
    let mut text = topic.weight.to_string();
    let own = topic.partition_weights.iter().take(PARTITION_WEIGHTS_SHOWN);
    for (index, (partition, weight)) in own.enumerate() {
        let before = if index == 0 { " (partition " } else { ", " };
        text += &format!("{before}{partition}: {weight}");
    }
    match topic.partition_weights.len() {
        0 => text,
        1..=PARTITION_WEIGHTS_SHOWN => text + ")",
        _ => text + ", …)",
    }
}

const PARTITION_WEIGHTS_SHOWN: usize = 8;

/// A time for people.
pub(crate) fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn said() -> proto::StatusResponse {
        let consumer = |name: &str, rack: &str, topics: &[&str]| proto::ConsumerStatus {
            name: name.to_owned(),
            state: "ready".to_owned(),
            partitions: 5,
            warming: 1,
            capacity: 1,
            rack: rack.to_owned(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            ..proto::ConsumerStatus::default()
        };
        let topic = proto::TopicStatus {
            topic: "orders".to_owned(),
            partitions: 10,
            assigned: 10,
            weight: 1,
            partition_weights: [(3, 5), (7, 2)].into(),
        };
        let group = |name: &str, consumers| proto::GroupStatus {
            group: name.to_owned(),
            consumers,
            topics: vec![topic.clone()],
            handoffs: 1,
        };
        proto::StatusResponse {
            instance: "a".to_owned(),
            version: "0.1.0".to_owned(),
            leader: "b".to_owned(),
            revision: 42,
            groups: vec![
                group("", vec![consumer("worker-1", "r1", &["orders"]), consumer("worker-2", "", &[])]),
                group("counters", Vec::new()),
            ],
            ..proto::StatusResponse::default()
        }
    }

    #[test]
    fn groups_are_shown_with_consumers_and_topics() {
        expect![[r#"
            Instance a (kohort 0.1.0): b leads, revision 42

            Consumers without a group: 2 consumers, 1 topic, 1 handoff
            CONSUMER  STATE  PARTITIONS  WARMING  RELEASING  CAPACITY  RACK  TOPICS
            worker-1  ready  5           1        0          1         r1    orders
            worker-2  ready  5           1        0          1         -     all
            TOPIC   PARTITIONS  ASSIGNED  WEIGHT
            orders  10          10        1 (partition 3: 5, 7: 2)

            Group counters: no consumers, 1 topic, 1 handoff
            TOPIC   PARTITIONS  ASSIGNED  WEIGHT
            orders  10          10        1 (partition 3: 5, 7: 2)
        "#]]
        .assert_eq(&Status::from(said()).render());
    }

    #[test]
    fn what_is_wrong_is_said_and_so_is_that_there_is_nothing() {
        let status = proto::StatusResponse {
            leader: String::new(),
            etcd_behind_ms: 3250,
            kafka_problem: "no broker answers".to_owned(),
            groups: Vec::new(),
            ..said()
        };
        expect![[r#"
            Instance a (kohort 0.1.0): nobody leads, revision 42
            etcd: not heard from for 3.2 s; what follows may be old
            Kafka: no broker answers
            No consumer is registered, and no group works on a topic.
        "#]]
        .assert_eq(&Status::from(status).render());
    }
}
