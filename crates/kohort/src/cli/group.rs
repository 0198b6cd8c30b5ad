//! What can be typed after `kohort group`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{ArgGroup, Args, Subcommand};

use super::{AdminArgs, ClientArgs, OutputArgs, admin_address};
use crate::group_command::moment::{parse_duration, parse_moment};

const GROUP_EXAMPLES: &str = "\
Examples:
  kohort group list --state stable,empty
  kohort group describe billing
  kohort group describe --all-groups --members --verbose
  kohort group events billing
  kohort group reset billing --topic orders --to-datetime 2026-11-15T08:00:00
  kohort group reset billing --topic orders:0,2 --shift-by -100 --execute
  kohort group reset billing --all-topics --to-current --export > billing.csv
  kohort group reset billing --from-file billing.csv --execute
  kohort group remove-member billing --all --reason \"moved to another cluster\"
  kohort group delete billing --bootstrap kafka.example:9092

All but `events` work with any Kafka.";

/// What can be done with consumer groups.
#[derive(Debug, Subcommand)]
#[command(after_help = GROUP_EXAMPLES)]
pub(crate) enum GroupCommand {
    /// List groups
    List {
        /// List only groups in these states, with commas: empty, preparingrebalance, completingrebalance,
        /// assigning, reconciling, stable, dead
        #[arg(long, value_name = "STATES", num_args = 0..=1, value_delimiter = ',')]
        state: Option<Vec<String>>,
        /// List only groups of these types, with commas: classic, consumer
        #[arg(long, value_name = "TYPES", num_args = 0..=1, value_delimiter = ',')]
        r#type: Option<Vec<String>>,
        /// How to reach the broker and show results.
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Show how far groups have read, who is in them, or their state
    Describe(Box<DescribeArgs>),
    /// Show why a group rebalanced: when, because of whom, how long it took (Kohort only)
    Events(Box<EventsArgs>),
    /// Delete groups with their offsets; they must have no members
    Delete {
        /// Which groups.
        #[command(flatten)]
        groups: GroupsArgs,
        /// Succeed if a group does not exist
        #[arg(long)]
        if_exists: bool,
        /// How to reach the broker and show results.
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Forget how far a group has read topics that nobody in it is subscribed to
    DeleteOffsets {
        /// The group's name
        group: String,
        /// Forget offsets of this topic, or of some of its partitions; may be repeated
        #[arg(long, required = true, value_name = "TOPIC[:PARTITION,…]", value_parser = topic_scope)]
        topic: Vec<TopicScope>,
        /// How to reach the broker and show results.
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Set how far groups without members have read; a dry run unless --execute
    #[command(after_help = RESET_NOTES, override_usage = RESET_USAGE)]
    Reset(Box<ResetArgs>),
    /// Make members leave a group
    #[command(group = ArgGroup::new("who").required(true).multiple(true))]
    RemoveMember {
        /// The group's name
        group: String,
        /// Remove the member with this id; may be repeated
        #[arg(long, value_name = "ID", group = "who", conflicts_with = "all")]
        member: Vec<String>,
        /// Remove the static member with this group.instance.id; may be repeated
        #[arg(long, value_name = "NAME", group = "who", conflicts_with = "all")]
        instance_id: Vec<String>,
        /// Remove everybody
        #[arg(long, group = "who")]
        all: bool,
        /// Tell the broker why
        #[arg(long, value_name = "TEXT", default_value = "removed by kohort group remove-member")]
        reason: String,
        /// How to reach the broker and show results.
        #[command(flatten)]
        client: ClientArgs,
    },
}

/// Groups by name, or all.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct GroupsArgs {
    /// The groups' names
    #[arg(value_name = "GROUP")]
    pub(crate) groups: Vec<String>,

    /// Take all groups
    #[arg(long)]
    pub(crate) all_groups: bool,
}

/// The flags of `kohort group describe`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("view"))]
pub(crate) struct DescribeArgs {
    /// Which groups.
    #[command(flatten)]
    pub(crate) groups: GroupsArgs,

    /// Show offsets and lag of every partition (the default)
    #[arg(long, group = "view")]
    pub(crate) offsets: bool,

    /// Show members
    #[arg(long, group = "view")]
    pub(crate) members: bool,

    /// Show state, coordinator and strategy
    #[arg(long, group = "view")]
    pub(crate) state: bool,

    /// Add columns: LEADER-EPOCH to --offsets, current and target assignments to --members, and the epochs of groups of
    /// the newer protocol (KIP-848) to --members and --state
    #[arg(long)]
    pub(crate) verbose: bool,

    /// How to reach the broker and show results.
    #[command(flatten)]
    pub(crate) client: ClientArgs,

    /// Ask Kohort's admin listener for the group's id and locator too, which KOHORT_ADMIN in the environment also
    /// asks for; for --state
    #[arg(long, value_name = "ADDR:PORT", requires = "state", value_parser = admin_address)]
    pub(crate) admin: Option<String>,

    /// The running broker's data directory, where the token for --admin is
    #[arg(long, value_name = "DIR", env = "KOHORT_DATA_DIR", default_value = "kohort-data")]
    pub(crate) data_dir: PathBuf,

    /// Read the token from this file instead
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

impl DescribeArgs {
    /// The admin listener, if it shall be asked.
    ///
    /// The variable is not the flag's own: one that is set for other commands must not make this one ask for --state.
    pub(crate) fn admin(&self) -> Option<AdminArgs> {
        let variable = || admin_address(&std::env::var("KOHORT_ADMIN").ok()?).ok();
        Some(AdminArgs {
            admin: self.admin.clone().or_else(variable)?,
            data_dir: self.data_dir.clone(),
            token_file: self.token_file.clone(),
            timeout: self.client.timeout,
        })
    }
}

/// The flags of `kohort group events`.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// The group's name
    pub(crate) group: String,

    /// Show only this many, the newest
    #[arg(long, value_name = "COUNT", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) last: Option<usize>,

    /// The organisation that the group belongs to [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) org: Option<String>,

    /// Where to ask.
    #[command(flatten)]
    pub(crate) admin: AdminArgs,

    /// How to show results.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

const RESET_USAGE: &str = "\
kohort group reset <GROUP>... --topic <TOPIC[:PARTITION,…]> <WHERE TO> [--execute] [OPTIONS]
       kohort group reset --all-groups --all-topics <WHERE TO> [--execute] [OPTIONS]
       kohort group reset <GROUP>... --from-file <FILE> [--execute] [OPTIONS]
       kohort group reset --all-groups --from-file <FILE> [--execute] [OPTIONS]";

const RESET_NOTES: &str = "\
Offsets before the first one of a partition become the first, those after the last the end; a line
on standard error says so. Only --to-current keeps what is committed, wherever that is: beyond the
end NEW-LAG is negative. Where no record is as young as --to-datetime or --by-duration ask for, the
end is taken.

--from-file reads lines of TOPIC,PARTITION,OFFSET or GROUP,TOPIC,PARTITION,OFFSET, as --export
writes them for one group or for several. With --all-groups the groups are those of the file. A
group that does not exist yet begins with the offsets that it gets.";

const SCOPE: &str = "Which offsets";
const SCENARIO: &str = "Where to";

/// The flags of `kohort group reset`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("scope").required(true))]
#[command(group = ArgGroup::new("scenario").required(true))]
pub(crate) struct ResetArgs {
    /// Which groups.
    #[command(flatten)]
    pub(crate) groups: GroupsArgs,

    /// Reset this topic, or some of its partitions; may be repeated
    #[arg(long, help_heading = SCOPE, value_name = "TOPIC[:PARTITION,…]", group = "scope", value_parser = topic_scope)]
    pub(crate) topic: Vec<TopicScope>,

    /// Reset every topic that the group has offsets of
    #[arg(long, help_heading = SCOPE, group = "scope")]
    pub(crate) all_topics: bool,

    /// To the first offset
    #[arg(long, help_heading = SCENARIO, group = "scenario")]
    pub(crate) to_earliest: bool,

    /// To the end
    #[arg(long, help_heading = SCENARIO, group = "scenario")]
    pub(crate) to_latest: bool,

    /// To what is committed already; to the end where nothing is
    #[arg(long, help_heading = SCENARIO, group = "scenario")]
    pub(crate) to_current: bool,

    /// To this offset
    #[arg(long, help_heading = SCENARIO, value_name = "OFFSET", group = "scenario", allow_negative_numbers = true)]
    pub(crate) to_offset: Option<i64>,

    /// To the first record of this time or later: YYYY-MM-DDThh:mm:ss.sss, in UTC unless it ends with an offset
    /// like +02:00
    #[arg(long, help_heading = SCENARIO, value_name = "DATETIME", group = "scenario", value_parser = parse_moment)]
    pub(crate) to_datetime: Option<i64>,

    /// To the first record that is no older than this: PnDTnHnMnS, so PT12H or P7D
    #[arg(long, help_heading = SCENARIO, value_name = "DURATION", group = "scenario", value_parser = parse_duration)]
    pub(crate) by_duration: Option<Duration>,

    /// Forward by so many records, or back if negative
    #[arg(long, help_heading = SCENARIO, value_name = "COUNT", group = "scenario", allow_negative_numbers = true)]
    pub(crate) shift_by: Option<i64>,

    /// To the offsets in this CSV file, which also says which partitions
    #[arg(long, help_heading = SCENARIO, value_name = "FILE", groups = ["scenario", "scope"])]
    pub(crate) from_file: Option<PathBuf>,

    /// Do it
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) execute: bool,

    /// Only show what would be done (the default)
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Show the new offsets as CSV, for --from-file
    #[arg(long, conflicts_with = "output")]
    pub(crate) export: bool,

    /// How to reach the broker and show results.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// A topic, or some of its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicScope {
    /// The topic's name.
    pub(crate) topic: String,
    /// Partition numbers; none for all.
    pub(crate) partitions: Option<Vec<i32>>,
}

/// Topic names have no colon, so the first one begins the partitions.
fn topic_scope(text: &str) -> Result<TopicScope, String> {
    let (topic, partitions) = match text.split_once(':') {
        None => (text, None),
        Some((topic, list)) => {
            let number = |part: &str| match part.trim().parse::<i32>() {
                Ok(number) if number >= 0 => Ok(number),
                _ => Err(format!(
                    "`{part}` is no partition; expected TOPIC or TOPIC:0,1,2, and --topic again for another topic"
                )),
            };
            (topic, Some(list.split(',').map(number).collect::<Result<Vec<_>, _>>()?))
        }
    };
    if topic.is_empty() {
        return Err("expected TOPIC or TOPIC:0,1,2".to_owned());
    }
    if topic.contains(',') {
        return Err(format!("`{topic}` is no name of a topic; repeat --topic for each of several"));
    }
    Ok(TopicScope { topic: topic.to_owned(), partitions })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Cli, Command};
    use super::*;

    fn parse(words: &str) -> Result<GroupCommand, String> {
        let words = ["kohort", "group"].into_iter().chain(words.split(' '));
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Some(Command::Group(command)) => Ok(command),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_topic_may_name_its_partitions() {
        let scope = |text: &str| topic_scope(text).map(|scope| (scope.topic, scope.partitions));
        assert_eq!(scope("orders"), Ok(("orders".to_owned(), None)));
        assert_eq!(scope("orders:0, 2"), Ok(("orders".to_owned(), Some(vec![0, 2]))));
        for wrong in ["", ":1", "orders:", "orders:-1", "orders:x", "orders:1,,2"] {
            assert!(scope(wrong).is_err(), "{wrong}");
        }
        for several in ["orders,users", "orders,users:0", "orders:0,users:1"] {
            let refusal = scope(several).unwrap_err();
            assert!(refusal.contains("--topic"), "{refusal}");
        }
    }

    #[test]
    fn without_a_group_it_is_said_that_all_can_be_taken() {
        for words in ["describe", "delete", "reset --all-topics --to-latest"] {
            let refusal = parse(words).unwrap_err();
            assert!(refusal.contains("GROUP") && refusal.contains("--all-groups"), "{refusal}");
        }
        assert!(parse("delete a --all-groups").is_err());
        parse("delete a b").unwrap();
        parse("delete --all-groups").unwrap();
    }

    #[test]
    fn the_admin_listener_is_asked_for_states_only() {
        parse("describe a --state --admin 127.0.0.1:9644").unwrap();
        let refusal = parse("describe a --admin 127.0.0.1:9644").unwrap_err();
        assert!(refusal.contains("--state"), "{refusal}");
    }

    #[test]
    fn the_newest_none_is_nothing_to_ask_for() {
        parse("events a --last 1").unwrap();
        let refusal = parse("events a --last 0").unwrap_err();
        assert!(refusal.contains("0 is not in 1.."), "{refusal}");
    }

    #[test]
    fn a_reset_needs_one_scope_and_one_scenario() {
        for right in [
            "reset g --topic a --topic b:1 --to-earliest",
            "reset g h --all-topics --shift-by -3",
            "reset --all-groups --all-topics --by-duration PT1H --execute",
            "reset g --from-file offsets.csv --dry-run",
            "reset g --topic a --to-current --export",
            "reset g --topic a --to-current -o json",
            "reset g --topic a --to-datetime 2026-11-15T08:00:00.000+02:00",
        ] {
            parse(right).unwrap();
        }
        for wrong in [
            "reset g --topic a",
            "reset g --to-earliest",
            "reset --topic a --to-earliest",
            "reset g --all-groups --topic a --to-earliest",
            "reset g --topic a --all-topics --to-earliest",
            "reset g --topic a --to-earliest --to-latest",
            "reset g --topic a --from-file offsets.csv",
            "reset g --topic a --to-earliest --execute --dry-run",
            "reset g --topic a --by-duration 1h",
            "reset g --topic a --to-earliest --export -o json",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn removing_members_needs_to_know_whom() {
        parse("remove-member g --member a --member b --instance-id c").unwrap();
        parse("remove-member g --all").unwrap();
        for wrong in ["remove-member g", "remove-member g --all --member a", "remove-member --all"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn filters_may_be_left_empty_as_in_kafkas_tool() {
        let state = |words: &str| match parse(words) {
            Ok(GroupCommand::List { state, .. }) => state,
            other => panic!("{other:?}"),
        };
        assert_eq!(state("list"), None);
        assert_eq!(state("list --state"), Some(vec![]));
        assert_eq!(state("list --state stable,empty --type"), Some(vec!["stable".into(), "empty".into()]));
    }
}
