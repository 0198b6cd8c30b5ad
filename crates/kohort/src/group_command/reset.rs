//! `kohort group reset`: asks what is there, plans, shows, and with `--execute` does it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use client::{Client, EARLIEST, GroupDescription, LATEST, Topic, TopicPartition};
use serde::Serialize;

use super::offsets_file::{self, Line};
use super::reset_plan::{Known, Planned, Target, plan};
use super::{Problems, describe, named};
use crate::cli::group::{ResetArgs, TopicScope};
use crate::dial::{self, connect, failure};
use crate::failure::{Failure, Kind};
use crate::output::{Table, note, plain, print, show};

/// The new offsets of one group.
#[derive(Serialize)]
struct GroupPlan {
    group: String,
    /// Whether they are set now, or only planned.
    executed: bool,
    offsets: Vec<Planned>,
}

/// Resets groups, each for itself; what cannot be done is told at the end.
pub(super) async fn run(args: &ResetArgs) -> anyhow::Result<()> {
    let wishes = Wishes::from_flags(args)?;
    let mut client = connect(&args.client).await?;
    let groups = named(&args.groups, &mut client).await?;
    wishes.check(&groups)?;
    let mut plans = Vec::new();
    let mut problems = Problems::default();
    for group in &groups {
        match describe::find(&mut client, group).await? {
            Some(live) if live.is_live() => {
                problems.add(Kind::Failed, refuse_live(&live));
                continue;
            }
            Some(_) => {}
            None => note(&format!("group {group} does not exist yet; it begins with these offsets")),
        }
        let offsets = wishes.plan(&mut client, group, &mut problems).await?;
        let executed = args.execute && !offsets.is_empty();
        let offsets = match executed {
            true => commit(&mut client, group, offsets, &mut problems).await?,
            false => offsets,
        };
        plans.push(GroupPlan { group: group.clone(), executed, offsets });
    }
    if args.export {
        let several = groups.len() > 1;
        print(&offsets_file::write(plans.iter().map(|it| (it.group.as_str(), &it.offsets[..])), several))?;
    } else {
        show(args.client.output.output, &plans, |plans| render(plans))?;
    }
    if !args.execute && plans.iter().any(|plan| !plan.offsets.is_empty()) {
        note("a dry run: nothing has been changed; --execute does it");
    }
    problems.into_result("some groups cannot be reset as asked")
}

fn refuse_live(group: &GroupDescription) -> String {
    let GroupDescription { group: name, state, .. } = group;
    let who = who(group);
    format!("group {name} is {state} and its members would overwrite the offsets: {who}; stop them first")
}

/// The members of a group for a message that asks to stop them.
pub(super) async fn members_of(client: &mut Client, group: &str) -> String {
    match client.describe_group(group).await {
        Ok(group) => who(&group),
        Err(error) => format!("(unknown: {error})"),
    }
}

/// More members than this are not named one by one.
const NAMED: usize = 10;

fn who(group: &GroupDescription) -> String {
    let name =
        |member: &client::GroupMember| format!("{} at {}", plain(&member.member_id), plain(&member.host));
    let mut names: Vec<String> = group.members.iter().take(NAMED).map(name).collect();
    match group.members.len().checked_sub(NAMED) {
        Some(more) if more > 0 => names.push(format!("{more} more")),
        _ if names.is_empty() => return "not shown by the broker".to_owned(),
        _ => {}
    }
    names.join(", ")
}

/// What the flags ask for.
enum Wishes<'a> {
    /// One target for all partitions of a scope.
    Scope { topics: Option<&'a [TopicScope]>, target: Target, since_ms: Option<i64> },
    /// An offset for each partition.
    File { path: &'a Path, lines: Vec<Line> },
}

impl<'a> Wishes<'a> {
    fn from_flags(args: &'a ResetArgs) -> anyhow::Result<Self> {
        if let Some(path) = &args.from_file {
            let wrong = |problem: String| Failure::new(Kind::Usage, format!("{}: {problem}", path.display()));
            let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
            let lines = offsets_file::read(&text).map_err(wrong)?;
            return Ok(Self::File { path, lines });
        }
        let since_ms = match (args.to_datetime, args.by_duration) {
            (Some(moment), _) => Some(moment),
            (None, Some(duration)) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Some(i64::try_from(now.saturating_sub(duration).as_millis()).unwrap_or(i64::MAX))
            }
            (None, None) => None,
        };
        let target = match (args.to_offset, args.shift_by) {
            _ if since_ms.is_some() => Target::Time,
            _ if args.to_earliest => Target::Earliest,
            _ if args.to_latest => Target::Latest,
            (Some(offset), _) => Target::Offset(offset),
            (_, Some(by)) => Target::Shift(by),
            (None, None) => Target::Current,
        };
        let topics = (!args.all_topics).then_some(&args.topic[..]);
        Ok(Self::Scope { topics, target, since_ms })
    }

    /// A file without names of groups is for one group, and one with names has to know those that are asked for.
    fn check(&self, groups: &[String]) -> anyhow::Result<()> {
        let Self::File { path, lines } = self else { return Ok(()) };
        let path = path.display();
        if groups.len() > 1 && lines.iter().any(|line| line.group.is_none()) {
            let message = format!("{path} does not say which group each offset is for; name one group");
            return Err(Failure::new(Kind::Usage, message).into());
        }
        let named = |group: &String| lines.iter().any(|line| line.is_for(group));
        match groups.iter().find(|group| !named(group)) {
            Some(group) => {
                Err(Failure::new(Kind::Usage, format!("{path} has no offsets for group {group}")).into())
            }
            None => Ok(()),
        }
    }

    /// The new offsets of a group's partitions. A group with a partition that cannot be planned is left alone.
    async fn plan(
        &self,
        client: &mut Client,
        group: &str,
        problems: &mut Problems,
    ) -> anyhow::Result<Vec<Planned>> {
        let committed = client.committed_offsets(group).await.map_err(failure)?;
        let targets = self.targets(client, group, committed.keys()).await?;
        let names: BTreeSet<&String> = targets.keys().map(|(topic, _)| topic).collect();
        let names: Vec<String> = names.into_iter().cloned().collect();
        let topics = only(client.topics(Some(&names)).await.map_err(failure)?, &targets);
        let starts = client.list_offsets_of(&topics, EARLIEST).await.map_err(failure)?;
        let ends = client.list_offsets_of(&topics, LATEST).await.map_err(failure)?;
        let found = match self {
            Self::Scope { since_ms: Some(since), .. } => {
                client.list_offsets_of(&topics, *since).await.map_err(failure)?
            }
            _ => BTreeMap::new(),
        };
        let (mut planned, mut remarks) = (Vec::new(), Vec::new());
        let mut refused = false;
        for (key, target) in targets {
            let Some((start, end)) = starts.get(&key).copied().zip(ends.get(&key).copied()) else {
                let (topic, partition) = key;
                problems.add(
                    Kind::Absent,
                    format!("topic {topic} has no partition {partition} that can be read"),
                );
                refused = true;
                continue;
            };
            let known = Known {
                committed: committed.get(&key).map(|commit| commit.offset),
                start,
                end,
                found: found.get(&key).copied().filter(|offset| *offset >= 0),
                topic: key.0,
                partition: key.1,
            };
            match plan(target, known) {
                Ok((partition, remark)) => {
                    remarks.extend(remark);
                    planned.push(partition);
                }
                Err(problem) => {
                    problems.add(Kind::Failed, problem);
                    refused = true;
                }
            }
        }
        if refused {
            return Ok(Vec::new());
        }
        for remark in remarks {
            note(&format!("group {group}: {remark}"));
        }
        Ok(planned)
    }

    /// Which partitions go where.
    async fn targets(
        &self,
        client: &mut Client,
        group: &str,
        committed: impl Iterator<Item = &TopicPartition>,
    ) -> anyhow::Result<BTreeMap<TopicPartition, Target>> {
        match self {
            Self::File { lines, .. } => {
                let mine = lines.iter().filter(|line| line.is_for(group));
                let target =
                    |line: &Line| ((line.topic.clone(), line.partition), Target::Offset(line.offset));
                Ok(mine.map(target).collect())
            }
            Self::Scope { topics: None, target, .. } => {
                Ok(committed.map(|partition| (partition.clone(), *target)).collect())
            }
            Self::Scope { topics: Some(scopes), target, .. } => {
                let mut targets = BTreeMap::new();
                for TopicScope { topic, partitions } in *scopes {
                    let numbers = match partitions {
                        Some(numbers) => numbers.clone(),
                        None => {
                            let found =
                                client.topics(Some(std::slice::from_ref(topic))).await.map_err(failure)?;
                            found.iter().flat_map(|topic| &topic.partitions).map(|it| it.index).collect()
                        }
                    };
                    targets.extend(numbers.into_iter().map(|number| ((topic.clone(), number), *target)));
                }
                Ok(targets)
            }
        }
    }
}

impl Line {
    fn is_for(&self, group: &str) -> bool {
        self.group.as_deref().is_none_or(|named| named == group)
    }
}

/// The topics with only the partitions that are to be reset.
fn only(mut topics: Vec<Topic>, targets: &BTreeMap<TopicPartition, Target>) -> Vec<Topic> {
    for topic in &mut topics {
        let name = topic.name.clone();
        topic.partitions.retain(|partition| targets.contains_key(&(name.clone(), partition.index)));
    }
    topics
}

/// Sets the offsets and returns those that are set.
async fn commit(
    client: &mut Client,
    group: &str,
    offsets: Vec<Planned>,
    problems: &mut Problems,
) -> anyhow::Result<Vec<Planned>> {
    let wanted = offsets.iter().map(|it| ((it.topic.clone(), it.partition), it.new_offset)).collect();
    let mut results = client.commit_offsets(group, &wanted).await.map_err(failure)?;
    let mut set = Vec::new();
    for planned in offsets {
        match results.remove(&(planned.topic.clone(), planned.partition)) {
            Some(Ok(())) => set.push(planned),
            Some(Err(error)) => {
                let place = format!("{}-{}", planned.topic, planned.partition);
                let message = format!("set {place} of group {group}: {}", dial::describe(&error));
                problems.add(dial::kind(&error), message);
            }
            None => {}
        }
    }
    Ok(set)
}

fn render(plans: &[GroupPlan]) -> String {
    if plans.iter().all(|plan| plan.offsets.is_empty()) {
        return String::new();
    }
    let mut table = Table::new(&["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET", "CURRENT-OFFSET", "NEW-LAG"]);
    for plan in plans {
        for planned in &plan.offsets {
            table.row([
                plan.group.clone(),
                planned.topic.clone(),
                planned.partition.to_string(),
                planned.new_offset.to_string(),
                planned.current_offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string()),
                planned.new_lag.to_string(),
            ]);
        }
    }
    table.render()
}
