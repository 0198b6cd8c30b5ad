//! `kohort group remove-member`.

use client::{GroupDescription, Leaver};
use coordination::error_code::ErrorCode;
use serde::Serialize;

use super::{describe, no_such_group};
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
        let unshown = || {
            format!("the broker does not show the members of group {}; name them with --member", name(group))
        };
        let message = unread.unwrap_or_else(unshown);
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
        match result {
            Ok(()) => outcomes.push(Outcome { member: leaver.text().to_owned(), outcome: "removed" }),
            Err(error) if error.code() == Some(ErrorCode::UnknownMemberId) => {
                let (kind, message) = unknown(&found, &leaver);
                problems.add(kind, &message);
            }
            Err(error) => problems.add_error(&format!("remove {}", name(leaver.text())), &error),
        }
    }
    show(args.output.output, &outcomes, |outcomes| render(outcomes))?;
    problems.into_result(&format!("some members of {} cannot be removed", name(group)))
}

/// What is said about a member that the broker says it does not know.
fn unknown(found: &GroupDescription, leaver: &Leaver) -> (Kind, String) {
    let is_newer = found.members.iter().any(|member| {
        leaver.is(&member.member_id, member.instance_id.as_deref())
            && member.progress.as_ref().is_some_and(|progress| progress.is_upgraded != Some(false))
    });
    let (group, member) = (name(&found.group), name(leaver.text()));
    if is_newer {
        // An old Kafka takes leave of members of the classic protocol alone.
        let why =
            "it is of the newer protocol (KIP-848), whose members Kafka removes since 4.0, or has just left";
        (Kind::Failed, format!("the broker did not remove {member} from group {group}: {why}"))
    } else {
        let hint = format!("`kohort group describe {group} --members` shows them");
        (Kind::Absent, format!("group {group} has no member {member}; {hint}"))
    }
}

fn render(outcomes: &[Outcome]) -> String {
    outcomes.iter().map(|it| format!("{}: {}\n", name(&it.member), it.outcome)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use client::MemberProgress;

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
    fn a_member_that_an_old_kafka_cannot_remove_is_not_said_to_be_absent() {
        let mut found = super::super::members::tests::description();
        let (kind, message) = unknown(&found, &Leaver::Member("a-1".to_owned()));
        assert!(kind == Kind::Absent && message.starts_with("group billing has no member a-1;"), "{message}");
        let progress = MemberProgress { epoch: 1, target: BTreeMap::new(), is_upgraded: None };
        found.members[0].progress = Some(progress);
        for leaver in [Leaver::Member("a-1".to_owned()), Leaver::Instance("pod-0".to_owned())] {
            let (kind, message) = unknown(&found, &leaver);
            assert!(kind == Kind::Failed && message.contains("since 4.0"), "{message}");
        }
        assert_eq!(unknown(&found, &Leaver::Member("b-2".to_owned())).0, Kind::Absent);
    }

    #[test]
    fn names_of_members_leave_the_terminal_alone() {
        let gone = Outcome { member: "a\u{1b}[2J".to_owned(), outcome: "removed" };
        assert_eq!(render(&[gone]), "\"a\\u{1b}[2J\": removed\n");
    }
}
