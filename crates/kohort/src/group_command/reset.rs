//! `kohort group reset`: asks what is there, plans, shows, and with `--execute` does it.

use client::{Client, ClientError, GroupDescription};
use coordination::error_code::ErrorCode;
use serde::Serialize;

use super::members::who;
use super::reset_plan::Planned;
use super::wishes::Wishes;
use super::{cell, describe, is_in_vain, named, offsets_file};
use crate::cli::group::ResetArgs;
use crate::dial::{self, connect};
use crate::failure::Kind;
use crate::output::{Table, count, name, note, print, show};
use crate::problems::Problems;

/// The new offsets of one group.
#[derive(Serialize)]
struct GroupPlan {
    group: String,
    /// Whether the offsets are set now, or only planned.
    executed: bool,
    /// What is planned; when it has been tried, what is set.
    offsets: Vec<Planned>,
    /// What should have been set, and why it was not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<Unset>,
}

/// An offset that was not set.
#[derive(Serialize)]
struct Unset {
    topic: String,
    partition: i32,
    error: String,
}

/// Resets groups, each for itself; what cannot be done is told at the end.
pub(super) async fn run(args: &ResetArgs) -> anyhow::Result<()> {
    let wishes = Wishes::from_flags(args)?;
    let mut client = connect(&args.client).await?;
    let all = args.groups.all_groups;
    let groups = match wishes.all_groups().filter(|_| all) {
        Some(groups) => groups?,
        None => wishes.choose(named(&args.groups, &mut client).await?)?,
    };
    if let Some(remark) = wishes.left_out(&groups) {
        note(&remark);
    }
    let several = all || groups.len() > 1;
    let mut problems = Problems::default();
    // What is wrong with the wishes shows before anything has been changed.
    let mut plans = plan_all(&wishes, &mut client, groups, &mut problems).await;
    if args.execute {
        execute_all(&mut client, &mut plans, &mut problems).await;
    }
    if args.export {
        print(&offsets_file::write(plans.iter().map(|it| (it.group.as_str(), &it.offsets[..])), several))?;
    } else {
        show(args.client.output.output, &plans, |plans| render(plans))?;
    }
    if !args.execute && !plans.is_empty() {
        note("a dry run: nothing has been changed; --execute does it");
    }
    problems.into_result("some groups cannot be reset as asked")
}

/// Plans for those groups that can be reset.
async fn plan_all(
    wishes: &Wishes<'_>,
    client: &mut Client,
    groups: Vec<String>,
    problems: &mut Problems,
) -> Vec<GroupPlan> {
    let mut plans = Vec::new();
    let mut groups = groups.into_iter();
    for group in groups.by_ref() {
        match plan(wishes, client, &group, problems).await {
            Ok(Some(offsets)) => {
                plans.push(GroupPlan { group, executed: false, offsets, failed: Vec::new() });
            }
            Ok(None) => {}
            Err(error) => {
                problems.add_error(&format!("reset group {}", name(&group)), &error);
                if is_in_vain(client, &error) {
                    break;
                }
            }
        }
    }
    problems.add_untried(groups.len(), "group");
    plans
}

/// The new offsets of a group. None, with the reason among the problems, if it cannot be reset.
async fn plan(
    wishes: &Wishes<'_>,
    client: &mut Client,
    group: &str,
    problems: &mut Problems,
) -> Result<Option<Vec<Planned>>, ClientError> {
    let found = describe::find(client, group).await?;
    if let Some(live) = found.as_ref().map(|found| &found.group).filter(|group| group.is_live()) {
        problems.add(Kind::Failed, &refuse_live(live));
        return Ok(None);
    }
    let planned = wishes.plan(client, group, problems).await?;
    if found.is_none() && planned.is_some() {
        note(&format!("group {} does not exist yet; it begins with these offsets", name(group)));
    }
    Ok(planned)
}

fn refuse_live(group: &GroupDescription) -> String {
    let GroupDescription { group: called, state, .. } = group;
    let (name, who) = (name(called), who(group));
    format!("group {name} is {state} and its members would overwrite the offsets: {who}; stop them first")
}

/// Sets what is planned.
async fn execute_all(client: &mut Client, plans: &mut [GroupPlan], problems: &mut Problems) {
    let mut in_vain = !client.is_usable();
    let mut untried = 0;
    for plan in plans {
        let offsets = std::mem::take(&mut plan.offsets);
        if in_vain {
            untried += 1;
            plan.failed.extend(offsets.into_iter().map(|it| Unset::new(it, "not tried".to_owned())));
            continue;
        }
        let wanted = offsets.iter().map(|it| ((it.topic.clone(), it.partition), it.new_offset)).collect();
        match client.commit_offsets(&plan.group, &wanted).await {
            Ok(mut results) => {
                for planned in offsets {
                    let result = results.remove(&(planned.topic.clone(), planned.partition));
                    match result.unwrap_or(Err(ClientError::Unanswered { request: "OffsetCommit" })) {
                        Ok(()) => plan.offsets.push(planned),
                        Err(error) => plan.fail(planned, &error, problems),
                    }
                }
            }
            Err(error) => {
                in_vain = is_in_vain(client, &error);
                let words = told(&error);
                problems.add(dial::kind(&error), &format!("reset group {}: {words}", name(&plan.group)));
                plan.failed.extend(offsets.into_iter().map(|it| Unset::new(it, words.clone())));
            }
        }
        plan.executed = !plan.offsets.is_empty();
    }
    if untried > 0 {
        let groups = count(untried, "more group");
        problems.add(Kind::Unreachable, &format!("{groups} planned, but nothing has been set"));
    }
}

impl GroupPlan {
    fn fail(&mut self, planned: Planned, error: &ClientError, problems: &mut Problems) {
        let words = told(error);
        let place = format!("{}-{}", planned.topic, planned.partition);
        let kind = if is_taken(error) { Kind::Failed } else { dial::kind(error) };
        problems.add(kind, &format!("set {place} of group {}: {words}", name(&self.group)));
        self.failed.push(Unset::new(planned, words));
    }
}

impl Unset {
    fn new(planned: Planned, error: String) -> Self {
        Self { topic: planned.topic, partition: planned.partition, error }
    }
}

/// Whether somebody has joined since the group was found without members.
fn is_taken(error: &ClientError) -> bool {
    error.code() == Some(ErrorCode::UnknownMemberId)
}

fn told(error: &ClientError) -> String {
    match is_taken(error) {
        true => "the group has members now; stop them first".to_owned(),
        false => dial::describe(error),
    }
}

fn render(plans: &[GroupPlan]) -> String {
    if plans.iter().all(|plan| plan.offsets.is_empty()) {
        return String::new();
    }
    let mut table = Table::new(&["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET", "CURRENT-OFFSET", "NEW-LAG"]);
    for plan in plans {
        for planned in &plan.offsets {
            table.row([
                cell(&plan.group),
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
