//! `kohort topic`: topics of any Kafka, through its protocol.

use std::collections::BTreeMap;

use client::{ClientError, ConfigChange, NewTopic, Topic};
use coordination::error_code::ErrorCode;
use coordination::ids::TopicId;
use coordination::settings::{nearest_topic_property, topic_property};
use serde::Serialize;

use crate::cli::{ClientArgs, TopicCommand};
use crate::dial::{connect, failure};
use crate::failure::{Failure, Kind};
use crate::output::{Table, plain, show};
use crate::problems::Problems;

/// Runs `kohort topic …`.
pub(crate) async fn run(command: TopicCommand) -> anyhow::Result<()> {
    match command {
        TopicCommand::Create { name, partitions, replication_factor, config, if_not_exists, client } => {
            let topic = NewTopic { name, partitions, replication_factor, configs: config };
            create(&topic, if_not_exists, &client).await
        }
        TopicCommand::List { internal, client } => list(internal, &client).await,
        TopicCommand::Describe { names, client } => describe(&names, &client).await,
        TopicCommand::Alter { name, partitions, config, delete_config, client } => {
            let set = config.into_iter().map(|(name, value)| ConfigChange::Set(name, value));
            let changes: Vec<_> = set.chain(delete_config.into_iter().map(ConfigChange::Delete)).collect();
            alter(&name, partitions, &changes, &client).await
        }
        TopicCommand::Delete { names, if_exists, client } => delete(&names, if_exists, &client).await,
    }
}

/// What a command that changes something answers.
#[derive(Serialize)]
struct Outcome<'a> {
    topic: &'a str,
    outcome: &'static str,
}

impl Outcome<'_> {
    fn show(&self, args: &ClientArgs) -> anyhow::Result<()> {
        Ok(show(args.output.output, self, |outcome| format!("{}: {}\n", outcome.topic, outcome.outcome))?)
    }
}

async fn create(topic: &NewTopic, if_not_exists: bool, args: &ClientArgs) -> anyhow::Result<()> {
    let mut client = connect(args).await?;
    let outcome = match client.create_topic(topic).await {
        Ok(()) => "created",
        Err(error) if if_not_exists && error.code() == Some(ErrorCode::TopicAlreadyExists) => {
            "exists already"
        }
        Err(error) => return Err(explain(error, topic.configs.iter().map(|(name, _)| name.as_str()))),
    };
    Outcome { topic: &topic.name, outcome }.show(args)
}

/// A line of `kohort topic list`.
#[derive(Serialize)]
struct Listed {
    name: String,
    id: Option<String>,
    partitions: usize,
    replication_factor: usize,
    internal: bool,
}

impl From<Topic> for Listed {
    fn from(topic: Topic) -> Self {
        Self {
            id: id(&topic),
            partitions: topic.partitions.len(),
            replication_factor: topic.partitions.first().map_or(0, |partition| partition.replicas.len()),
            internal: topic.internal,
            name: topic.name,
        }
    }
}

async fn list(internal: bool, args: &ClientArgs) -> anyhow::Result<()> {
    let mut client = connect(args).await?;
    let topics = client.topics(None).await.map_err(failure)?;
    let listed: Vec<Listed> =
        topics.into_iter().filter(|topic| internal || !topic.internal).map(Listed::from).collect();
    Ok(show(args.output.output, &listed, |listed| render_list(listed))?)
}

fn render_list(listed: &[Listed]) -> String {
    let mut table = Table::new(&["TOPIC", "PARTITIONS", "REPLICAS", "ID"]);
    for topic in listed {
        table.row([
            topic.name.clone(),
            topic.partitions.to_string(),
            topic.replication_factor.to_string(),
            topic.id.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table.render()
}

/// A topic as `kohort topic describe` shows it.
#[derive(Serialize)]
struct Described {
    name: String,
    id: Option<String>,
    internal: bool,
    partitions: Vec<DescribedPartition>,
    /// Settings that the topic itself sets.
    configs: BTreeMap<String, Option<String>>,
}

#[derive(Serialize)]
struct DescribedPartition {
    partition: i32,
    leader: i32,
    replicas: Vec<i32>,
    in_sync: Vec<i32>,
    /// None while nobody leads the partition.
    start_offset: Option<i64>,
    end_offset: Option<i64>,
}

async fn describe(names: &[String], args: &ClientArgs) -> anyhow::Result<()> {
    let mut client = connect(args).await?;
    let mut described = Vec::new();
    for topic in client.topics(Some(names)).await.map_err(failure)? {
        // Whoever may see the topic need not be allowed to see these.
        let failed = |what: &str, error: ClientError| {
            failure(error).context(format!("the {what} of topic {}", plain(&topic.name)))
        };
        let offsets = client.offsets(&topic).await.map_err(|error| failed("offsets", error))?;
        let settings = client.topic_settings(&topic.name).await.map_err(|error| failed("settings", error))?;
        let id = id(&topic);
        let partition = |partition: client::Partition| DescribedPartition {
            partition: partition.index,
            leader: partition.leader,
            start_offset: offsets.get(&partition.index).map(|(start, _)| *start),
            end_offset: offsets.get(&partition.index).map(|(_, end)| *end),
            replicas: partition.replicas,
            in_sync: partition.in_sync,
        };
        described.push(Described {
            name: topic.name,
            id,
            internal: topic.internal,
            partitions: topic.partitions.into_iter().map(partition).collect(),
            configs: settings.into_iter().filter(|s| s.set).map(|s| (s.name, s.value)).collect(),
        });
    }
    Ok(show(args.output.output, &described, |described| {
        described.iter().map(render_description).collect::<Vec<_>>().join("\n")
    })?)
}

fn render_description(topic: &Described) -> String {
    let mut text = format!("Topic {}", topic.name);
    if let Some(id) = &topic.id {
        text.push_str(&format!(" ({id})"));
    }
    if topic.internal {
        text.push_str(", internal");
    }
    text.push('\n');
    for (name, value) in &topic.configs {
        text.push_str(&format!("  {name} = {}\n", value.as_deref().unwrap_or("null")));
    }
    let mut table = Table::new(&["PARTITION", "LEADER", "REPLICAS", "IN SYNC", "START", "END"]);
    let offset = |offset: Option<i64>| offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string());
    let nodes = |nodes: &[i32]| nodes.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
    for partition in &topic.partitions {
        table.row([
            partition.partition.to_string(),
            partition.leader.to_string(),
            nodes(&partition.replicas),
            nodes(&partition.in_sync),
            offset(partition.start_offset),
            offset(partition.end_offset),
        ]);
    }
    text.push_str(&table.render());
    text
}

async fn alter(
    name: &str,
    partitions: Option<i32>,
    changes: &[ConfigChange],
    args: &ClientArgs,
) -> anyhow::Result<()> {
    let mut client = connect(args).await?;
    // Settings first: they are all or nothing, and a refusal leaves the topic as it was.
    if !changes.is_empty() {
        let names = changes.iter().map(|change| match change {
            ConfigChange::Set(name, _) | ConfigChange::Delete(name) => name.as_str(),
        });
        let altered = client.alter_topic(name, changes).await;
        altered.map_err(|error| explain(error, names).context(format!("alter topic {}", plain(name))))?;
    }
    if let Some(count) = partitions {
        let wish = format!("partitions of topic {}", plain(name));
        client.create_partitions(name, count).await.map_err(|error| failure(error).context(wish))?;
    }
    Outcome { topic: name, outcome: "altered" }.show(args)
}

async fn delete(names: &[String], if_exists: bool, args: &ClientArgs) -> anyhow::Result<()> {
    let mut client = connect(args).await?;
    let mut problems = Problems::default();
    for (tried, name) in names.iter().enumerate() {
        let outcome = match client.delete_topic(name).await {
            Ok(()) => "deleted",
            Err(error) if if_exists && error.code() == Some(ErrorCode::UnknownTopicOrPartition) => {
                "does not exist"
            }
            Err(error) => {
                problems.add_error(&format!("delete topic {name}"), &error);
                if !client.is_usable() {
                    problems.add_untried(names.len() - tried - 1, "topic");
                    break;
                }
                continue;
            }
        };
        Outcome { topic: name, outcome }.show(args)?;
    }
    problems.into_result("some topics were not deleted")
}

/// The topic's id as Kohort writes it; none if the broker tells no ids.
fn id(topic: &Topic) -> Option<String> {
    (topic.id.0 != 0).then(|| TopicId::from(topic.id).to_string())
}

/// A refusal of settings, with the name that was probably meant.
fn explain<'a>(error: ClientError, mut names: impl Iterator<Item = &'a str>) -> anyhow::Error {
    let invalid = error.code() == Some(ErrorCode::InvalidConfig);
    let hint = names
        .find(|name| topic_property(name).is_none())
        .and_then(|name| Some(format!("; {name}: did you mean {}?", nearest_topic_property(name)?)));
    match hint {
        Some(hint) if invalid => Failure::new(Kind::Failed, format!("{error}{hint}")).into(),
        _ => failure(error),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn described() -> Described {
        let partition = |partition, end_offset| DescribedPartition {
            partition,
            leader: 1,
            replicas: vec![1, 2],
            in_sync: vec![1],
            start_offset: Some(0),
            end_offset,
        };
        Described {
            name: "orders".to_owned(),
            id: Some("top_x".to_owned()),
            internal: false,
            partitions: vec![partition(0, Some(1234)), partition(1, None)],
            configs: BTreeMap::from([("retention.ms".to_owned(), Some("5".to_owned()))]),
        }
    }

    #[test]
    fn a_description_has_what_is_set_and_every_partition() {
        expect![[r#"
            Topic orders (top_x)
              retention.ms = 5
            PARTITION  LEADER  REPLICAS  IN SYNC  START  END
            0          1       1,2       1        0      1234
            1          1       1,2       1        0      -
        "#]]
        .assert_eq(&render_description(&described()));
    }

    #[test]
    fn a_description_in_json_keeps_its_names() {
        expect![[r#"{"name":"orders","id":"top_x","internal":false,"partitions":[{"partition":0,"leader":1,"replicas":[1,2],"in_sync":[1],"start_offset":0,"end_offset":1234},{"partition":1,"leader":1,"replicas":[1,2],"in_sync":[1],"start_offset":0,"end_offset":null}],"configs":{"retention.ms":"5"}}"#]]
        .assert_eq(&serde_json::to_string(&described()).unwrap());
    }

    #[test]
    fn a_list_is_a_table() {
        let topic = Listed {
            name: "orders".to_owned(),
            id: None,
            partitions: 6,
            replication_factor: 1,
            internal: false,
        };
        expect![[r#"
            TOPIC   PARTITIONS  REPLICAS  ID
            orders  6           1         -
        "#]]
        .assert_eq(&render_list(&[topic]));
    }
}
