//! `kohort group delete` and `kohort group delete-offsets`.

use std::collections::BTreeMap;

use client::{Client, ClientError, TopicPartition};
use coordination::error_code::ErrorCode;
use serde::Serialize;

use super::reset::members_of;
use super::{Problems, named, no_such_group};
use crate::cli::ClientArgs;
use crate::cli::group::{GroupsArgs, TopicScope};
use crate::dial::{connect, describe, failure, kind};
use crate::failure::{Failure, Kind};
use crate::output::{Table, show};

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
    for group in named(args, &mut client).await? {
        match client.delete_group(&group).await {
            Ok(()) => outcomes.push(Outcome { group, outcome: "deleted" }),
            Err(error) => match error.code() {
                Some(ErrorCode::GroupIdNotFound) if if_exists => {
                    outcomes.push(Outcome { group, outcome: "does not exist" });
                }
                Some(ErrorCode::GroupIdNotFound) => problems.add(Kind::Absent, no_such_group(&group)),
                Some(ErrorCode::NonEmptyGroup) => {
                    let who = members_of(&mut client, &group).await;
                    problems.add(Kind::Failed, format!("group {group} has members: {who}; stop them first"));
                }
                _ => problems.add(kind(&error), format!("delete group {group}: {}", describe(&error))),
            },
        }
    }
    let render = |outcomes: &Vec<Outcome>| {
        outcomes.iter().map(|outcome| format!("{}: {}\n", outcome.group, outcome.outcome)).collect()
    };
    show(format, &outcomes, render)?;
    problems.into_result("some groups cannot be deleted")
}

/// A partition whose offset is forgotten.
#[derive(Serialize)]
struct Forgotten {
    topic: String,
    partition: i32,
}

/// Forgets offsets; those that have to stay are told when the others are gone.
pub(super) async fn offsets(group: &str, scopes: &[TopicScope], args: &ClientArgs) -> anyhow::Result<()> {
    let mut client = connect(args).await?;
    let (partitions, mut problems) = partitions_in(&mut client, group, scopes).await?;
    let results = if partitions.is_empty() {
        BTreeMap::new()
    } else {
        client.delete_offsets(group, &partitions).await.map_err(|error| match error.code() {
            Some(ErrorCode::GroupIdNotFound) => Failure::new(Kind::Absent, no_such_group(group)).into(),
            _ => failure(error),
        })?
    };
    let mut forgotten = Vec::new();
    let mut subscribed = BTreeMap::new();
    for ((topic, partition), result) in results {
        match result {
            Ok(()) => forgotten.push(Forgotten { topic, partition }),
            Err(error) if error.code() == Some(ErrorCode::GroupSubscribedToTopic) => {
                subscribed.insert(topic, error);
            }
            Err(error) => {
                problems.add(kind(&error), format!("{topic}-{partition}: {}", describe(&error)));
            }
        }
    }
    for topic in subscribed.into_keys() {
        let who = members_of(&mut client, group).await;
        let message = format!("members of {group} are subscribed to {topic}: {who}; stop them first");
        problems.add(Kind::Failed, message);
    }
    show(args.output.output, &forgotten, |forgotten| render(group, forgotten))?;
    problems.into_result(&format!("some offsets of {group} cannot be forgotten"))
}

/// The partitions of the scopes. A topic that is gone is taken from what the group has committed.
async fn partitions_in(
    client: &mut Client,
    group: &str,
    scopes: &[TopicScope],
) -> anyhow::Result<(Vec<TopicPartition>, Problems)> {
    let committed = client.committed_offsets(group).await.map_err(failure)?;
    let mut partitions = Vec::new();
    let mut problems = Problems::default();
    for TopicScope { topic, partitions: numbers } in scopes {
        let numbers = match numbers {
            Some(numbers) => numbers.clone(),
            None => {
                let committed = committed.keys().filter(|(name, _)| name == topic).map(|(_, index)| *index);
                let committed: Vec<i32> = committed.collect();
                match client.topics(Some(std::slice::from_ref(topic))).await {
                    Ok(topics) => {
                        topics.iter().flat_map(|topic| &topic.partitions).map(|it| it.index).collect()
                    }
                    Err(error) if is_unknown(&error) && !committed.is_empty() => committed,
                    Err(error) if is_unknown(&error) => {
                        problems.add(Kind::Absent, describe(&error));
                        continue;
                    }
                    Err(error) => return Err(failure(error)),
                }
            }
        };
        partitions.extend(numbers.into_iter().map(|number| (topic.clone(), number)));
    }
    partitions.sort();
    partitions.dedup();
    Ok((partitions, problems))
}

fn is_unknown(error: &ClientError) -> bool {
    error.code() == Some(ErrorCode::UnknownTopicOrPartition)
}

fn render(group: &str, forgotten: &[Forgotten]) -> String {
    if forgotten.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["GROUP", "TOPIC", "PARTITION", "STATUS"]);
    for Forgotten { topic, partition } in forgotten {
        table.row([group.to_owned(), topic.clone(), partition.to_string(), "forgotten".to_owned()]);
    }
    table.render()
}
