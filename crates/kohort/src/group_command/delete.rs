//! `kohort group delete` and `kohort group delete-offsets`.

use std::collections::{BTreeMap, BTreeSet};

use client::{Client, ClientError, Topic, TopicPartition};
use coordination::error_code::ErrorCode;
use serde::Serialize;

use super::members::members_of;
use super::{cell, is_in_vain, named, no_such_group};
use crate::cli::ClientArgs;
use crate::cli::group::{GroupsArgs, TopicScope};
use crate::dial::{connect, failure};
use crate::failure::{Failure, Kind};
use crate::output::{Table, name, show};
use crate::problems::Problems;

/// What became of a group.
#[derive(Serialize)]
struct Outcome {
    group: String,
    outcome: &'static str,
}

/// Deletes groups; those that cannot be deleted are told when the others are gone.
pub(super) async fn groups(args: &GroupsArgs, if_exists: bool, client: &ClientArgs) -> anyhow::Result<()> {
    let format = client.output.output;
    let mut client = connect(client).await?;
    let mut outcomes = Vec::new();
    let mut problems = Problems::default();
    let mut names = named(args, &mut client).await?.into_iter();
    for group in names.by_ref() {
        let Err(error) = client.delete_group(&group).await else {
            outcomes.push(Outcome { group, outcome: "deleted" });
            continue;
        };
        match error.code() {
            Some(ErrorCode::GroupIdNotFound) if if_exists => {
                outcomes.push(Outcome { group, outcome: "does not exist" });
            }
            Some(ErrorCode::GroupIdNotFound) => problems.add(Kind::Absent, &no_such_group(&group)),
            Some(ErrorCode::NonEmptyGroup) => {
                let who = members_of(&mut client, &group).await;
                let group = name(&group);
                problems.add(Kind::Failed, &format!("group {group} has members: {who}; stop them first"));
            }
            _ => problems.add_error(&format!("delete group {}", name(&group)), &error),
        }
        if is_in_vain(&client, &error) {
            break;
        }
    }
    problems.add_untried(names.len(), "group");
    show(format, &outcomes, |outcomes| render_outcomes(outcomes))?;
    problems.into_result("some groups cannot be deleted")
}

fn render_outcomes(outcomes: &[Outcome]) -> String {
    outcomes.iter().map(|it| format!("{}: {}\n", name(&it.group), it.outcome)).collect()
}

/// A partition whose offset is forgotten.
#[derive(Serialize)]
struct Forgotten<'a> {
    group: &'a str,
    topic: String,
    partition: i32,
    outcome: &'static str,
}

/// Forgets offsets; those that have to stay are told when the others are gone.
pub(super) async fn offsets(group: &str, scopes: &[TopicScope], args: &ClientArgs) -> anyhow::Result<()> {
    let mut client = connect(args).await?;
    let (partitions, mut problems) = partitions_in(&mut client, scopes).await.map_err(failure)?;
    let partitions = Vec::from_iter(partitions);
    let results = if partitions.is_empty() {
        BTreeMap::new()
    } else {
        client.delete_offsets(group, &partitions).await.map_err(|error| match error.code() {
            Some(ErrorCode::GroupIdNotFound) => Failure::new(Kind::Absent, no_such_group(group)).into(),
            _ => failure(error),
        })?
    };
    let mut forgotten = Vec::new();
    let mut subscribed = BTreeSet::new();
    for ((topic, partition), result) in results {
        match result {
            Ok(()) => forgotten.push(Forgotten { group, topic, partition, outcome: "forgotten" }),
            Err(error) if error.code() == Some(ErrorCode::GroupSubscribedToTopic) => {
                subscribed.insert(topic);
            }
            Err(error) if error.code() == Some(ErrorCode::UnknownTopicOrPartition) => {
                problems.add(Kind::Absent, &no_such_partition(&topic, partition));
            }
            Err(error) => problems.add_error(&format!("{topic}-{partition}"), &error),
        }
    }
    if !subscribed.is_empty() {
        let who = members_of(&mut client, group).await;
        let topics = Vec::from_iter(subscribed).join(", ");
        let group = name(group);
        let message = format!("members of {group} are subscribed to {topics}: {who}; stop them first");
        problems.add(Kind::Failed, &message);
    }
    show(args.output.output, &forgotten, |forgotten| render(forgotten))?;
    problems.into_result(&format!("some offsets of {} cannot be forgotten", name(group)))
}

/// The partitions of the scopes. What is gone is a problem: brokers forget offsets only of partitions that exist.
async fn partitions_in(
    client: &mut Client,
    scopes: &[TopicScope],
) -> Result<(BTreeSet<TopicPartition>, Problems), ClientError> {
    let names: BTreeSet<&String> = scopes.iter().map(|scope| &scope.topic).collect();
    let topics = client.existing_topics(&Vec::from_iter(names.into_iter().cloned())).await?;
    Ok(partitions_of(&topics, scopes))
}

fn partitions_of(topics: &[Topic], scopes: &[TopicScope]) -> (BTreeSet<TopicPartition>, Problems) {
    let mut partitions = BTreeSet::new();
    let mut problems = Problems::default();
    for TopicScope { topic, partitions: numbers } in scopes {
        let Some(found) = topics.iter().find(|found| found.name == *topic) else {
            problems.add(Kind::Absent, &format!("topic {} does not exist", name(topic)));
            continue;
        };
        let there: Vec<i32> = found.partitions.iter().map(|partition| partition.index).collect();
        for number in numbers.as_ref().unwrap_or(&there) {
            if there.contains(number) {
                partitions.insert((topic.clone(), *number));
            } else {
                problems.add(Kind::Absent, &no_such_partition(topic, *number));
            }
        }
    }
    (partitions, problems)
}

fn no_such_partition(topic: &str, partition: i32) -> String {
    format!("partition {partition} of topic {} does not exist", name(topic))
}

fn render(forgotten: &[Forgotten<'_>]) -> String {
    if forgotten.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["GROUP", "TOPIC", "PARTITION", "STATUS"]);
    for Forgotten { group, topic, partition, outcome } in forgotten {
        table.row([cell(group), topic.clone(), partition.to_string(), (*outcome).to_owned()]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use client::Partition;
    use wire::Uuid;

    use super::*;

    #[test]
    fn names_of_groups_leave_the_terminal_alone() {
        let gone = Outcome { group: "a\u{1b}[2J".to_owned(), outcome: "deleted" };
        assert_eq!(render_outcomes(&[gone]), "\"a\\u{1b}[2J\": deleted\n");
        let nameless = Outcome { group: String::new(), outcome: "deleted" };
        assert_eq!(render_outcomes(&[nameless]), "\"\": deleted\n");
    }

    #[test]
    fn what_does_not_exist_is_told_and_the_rest_goes_on() {
        let partition = |index| Partition { index, leader: 1, replicas: vec![1], in_sync: vec![1] };
        let orders = Topic {
            name: "orders".to_owned(),
            id: Uuid::ZERO,
            internal: false,
            partitions: vec![partition(0), partition(1)],
        };
        let scope = |topic: &str, partitions| TopicScope { topic: topic.to_owned(), partitions };
        let scopes = [scope("orders", Some(vec![1, 9])), scope("users", None), scope("orders", None)];
        let (partitions, problems) = partitions_of(&[orders], &scopes);
        assert_eq!(Vec::from_iter(partitions), [("orders".to_owned(), 0), ("orders".to_owned(), 1)]);
        let gone = [
            (Kind::Absent, "partition 9 of topic orders does not exist".to_owned()),
            (Kind::Absent, "topic users does not exist".to_owned()),
        ];
        assert_eq!(problems.0, gone);
    }
}
