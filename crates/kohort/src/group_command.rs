//! `kohort group`: consumer groups of any Kafka, through its protocol; and why they rebalanced, from Kohort's admin
//! listener.

mod delete;
mod describe;
mod events;
mod lag;
mod list;
mod members;
pub(crate) mod moment;
mod offsets_file;
mod remove_member;
mod reset;
mod reset_plan;
mod wishes;

use client::{Client, ClientError, LONGEST_TEXT};

use crate::cli::group::{GroupCommand, GroupsArgs};
use crate::dial::failure;
use crate::failure::{Failure, Kind};
use crate::output::name;

/// Runs `kohort group …`.
pub(crate) async fn run(command: GroupCommand) -> anyhow::Result<()> {
    refuse_long(&command)?;
    match command {
        GroupCommand::List { state, r#type, client } => {
            list::run(&state.unwrap_or_default(), &r#type.unwrap_or_default(), &client).await
        }
        GroupCommand::Describe(args) => describe::run(&args).await,
        GroupCommand::Events(args) => events::run(&args).await,
        GroupCommand::Delete { groups, if_exists, client } => {
            delete::groups(&groups, if_exists, &client).await
        }
        GroupCommand::DeleteOffsets { group, topic, client } => {
            delete::offsets(&group, &topic, &client).await
        }
        GroupCommand::Reset(args) => reset::run(&args).await,
        GroupCommand::RemoveMember { group, member, instance_id, all, reason, client } => {
            let whom = if all { None } else { Some(remove_member::named(member, instance_id)) };
            remove_member::run(&group, whom, &reason, &client).await
        }
    }
}

/// Refuses names of groups that no broker could be asked about, before anything is done about others.
fn refuse_long(command: &GroupCommand) -> Result<(), Failure> {
    let names = match command {
        GroupCommand::List { .. } => &[],
        GroupCommand::Describe(args) => &args.groups.groups[..],
        GroupCommand::Delete { groups, .. } => &groups.groups[..],
        GroupCommand::Reset(args) => &args.groups.groups[..],
        GroupCommand::Events(args) => std::slice::from_ref(&args.group),
        GroupCommand::DeleteOffsets { group, .. } | GroupCommand::RemoveMember { group, .. } => {
            std::slice::from_ref(group)
        }
    };
    match names.iter().find(|name| name.len() > LONGEST_TEXT) {
        None => Ok(()),
        Some(long) => {
            let (group, length) = (name(long), long.len());
            let message = format!(
                "the name of group {group} has {length} bytes; Kafka's protocol has room for {LONGEST_TEXT}"
            );
            Err(Failure::new(Kind::Usage, message))
        }
    }
}

/// The groups that are named, or all there are.
async fn named(args: &GroupsArgs, client: &mut Client) -> anyhow::Result<Vec<String>> {
    if !args.all_groups {
        let mut names = args.groups.clone();
        names.sort();
        names.dedup();
        return Ok(names);
    }
    let listed = client.list_groups(&[], &[]).await.map_err(failure)?;
    Ok(listed.into_iter().filter(list::is_of_consumers).map(|listing| listing.group).collect())
}

/// Whether the groups that follow had to wait in vain, after this error with one of them.
fn is_in_vain(client: &Client, error: &ClientError) -> bool {
    !client.is_usable() || matches!(error, ClientError::TimedOut { .. })
}

/// What is said about a group that is not there.
fn no_such_group(group: &str) -> String {
    format!("group {} does not exist; `kohort group list` shows those that do", name(group))
}

/// A name in a cell of a table, where nothing would not be seen.
fn cell(name: &str) -> String {
    if name.is_empty() { "\"\"".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::failure::kind as failure_kind;

    #[test]
    fn names_of_groups_that_are_not_there_leave_the_terminal_alone() {
        assert_eq!(no_such_group("a\u{7}").split(';').next(), Some("group \"a\\u{7}\" does not exist"));
        assert_eq!(no_such_group("").split(';').next(), Some("group \"\" does not exist"));
    }

    #[test]
    fn a_name_that_kafka_has_no_room_for_is_refused_by_every_command() {
        let long = "g".repeat(LONGEST_TEXT + 1);
        let longest = "g".repeat(LONGEST_TEXT);
        for words in [
            &["describe", "a", &long][..],
            &["delete", "a", &long],
            &["reset", &long, "--all-topics", "--to-latest"],
            &["events", &long],
            &["delete-offsets", &long, "--topic", "orders"],
            &["remove-member", &long, "--all"],
        ] {
            let parse = |words: &[&str]| match Cli::try_parse_from([&["kohort", "group"], words].concat()) {
                Ok(Cli { command: Some(Command::Group(command)), .. }) => command,
                other => panic!("{other:?}"),
            };
            let refusal = refuse_long(&parse(words)).unwrap_err();
            assert!(refusal.to_string().ends_with("… has 32768 bytes; Kafka's protocol has room for 32767"));
            assert_eq!(failure_kind(&refusal.into()), Kind::Usage);
            let shorter: Vec<&str> =
                words.iter().map(|word| if *word == long { longest.as_str() } else { word }).collect();
            refuse_long(&parse(&shorter)).unwrap();
        }
    }
}
