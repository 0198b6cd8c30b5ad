//! `kohort group remove-member`.

use client::Leaver;
use coordination::error_code::ErrorCode;
use serde::Serialize;

use super::{describe, no_such_group, unread_members};
use crate::cli::ClientArgs;
use crate::dial::{connect, failure};
use crate::failure::{Failure, Kind};
use crate::output::{name, note, show};
use crate::problems::Problems;

/// Those who are named by id or by instance, each once: nobody can leave twice.
pub(super) fn named(members: Vec<String>, instances: Vec<String>) -> Vec<Leaver> {
    let mut leavers = Vec::new();
    let members = members.into_iter().map(Leaver::Member);
    for leaver in members.chain(instances.into_iter().map(Leaver::Instance)) {
        if !leavers.contains(&leaver) {
            leavers.push(leaver);
        }
    }
    leavers
}

/// What became of a member.
#[derive(Serialize)]
struct Outcome {
    member: String,
    outcome: &'static str,
}

/// Removes the members named, or everybody.
pub(super) async fn run(
    group: &str,
    whom: Option<Vec<Leaver>>,
    reason: &str,
    args: &ClientArgs,
) -> anyhow::Result<()> {
    let mut client = connect(args).await?;
    let Some(found) = describe::find(&mut client, group).await.map_err(failure)? else {
        return Err(Failure::new(Kind::Absent, no_such_group(group)).into());
    };
    let describe::Found { group: found, unread } = found;
    if whom.is_none() && found.member_count().is_none() {
        let message = match unread {
            Some(kind) => unread_members(group, &kind),
            None => {
                format!(
                    "the broker does not show the members of group {}; name them with --member",
                    name(group)
                )
            }
        };
        return Err(Failure::new(Kind::Failed, message).into());
    }
    let everybody = || found.members.iter().map(|member| Leaver::Member(member.member_id.clone())).collect();
    let leavers = whom.unwrap_or_else(everybody);
    if leavers.is_empty() {
        note(&format!("group {} has no members", name(group)));
    }
    let results = match leavers.is_empty() {
        true => Vec::new(),
        false => client.remove_members(group, &leavers, reason).await.map_err(failure)?,
    };
    let mut outcomes = Vec::new();
    let mut problems = Problems::default();
    for (leaver, result) in leavers.into_iter().zip(results) {
        let (Leaver::Member(member) | Leaver::Instance(member)) = leaver;
        match result {
            Ok(()) => outcomes.push(Outcome { member, outcome: "removed" }),
            Err(error) if error.code() == Some(ErrorCode::UnknownMemberId) => {
                let (group, member) = (name(group), name(&member));
                let message = format!(
                    "group {group} has no member {member}; `kohort group describe {group} --members` shows them"
                );
                problems.add(Kind::Absent, &message);
            }
            Err(error) => problems.add_error(&format!("remove {}", name(&member)), &error),
        }
    }
    show(args.output.output, &outcomes, |outcomes| render(outcomes))?;
    problems.into_result(&format!("some members of {} cannot be removed", name(group)))
}

fn render(outcomes: &[Outcome]) -> String {
    outcomes.iter().map(|it| format!("{}: {}\n", name(&it.member), it.outcome)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_named_twice_is_removed_once() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let leavers = named(names(&["a", "b", "a"]), names(&["a", "a"]));
        let expected = [
            Leaver::Member("a".to_owned()),
            Leaver::Member("b".to_owned()),
            Leaver::Instance("a".to_owned()),
        ];
        assert_eq!(leavers, expected);
    }

    #[test]
    fn names_of_members_leave_the_terminal_alone() {
        let gone = Outcome { member: "a\u{1b}[2J".to_owned(), outcome: "removed" };
        assert_eq!(render(&[gone]), "\"a\\u{1b}[2J\": removed\n");
    }
}
