//! What can be typed after `kohort assigner` and `kohort handoff`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use super::{LogArgs, OutputArgs, key_value};

const ASSIGNER_EXAMPLES: &str = "\
Examples:
  kohort assigner --etcd http://127.0.0.1:2379 --kafka 127.0.0.1:9092
  kohort assigner --config assigner.toml --set handoff_timeout_secs=600
  kohort assigner config list
  kohort assigner status
  kohort assigner plan --dry-run --without worker-3 --changes
  kohort assigner explain orders/7
  kohort assigner topic orders --weight 5 --partition-weight 3=20

Settings have the names that `kohort assigner config list` shows. They come from --config FILE (the
table [assigner] of a TOML file), then from the environment (etcd_endpoints is ETCD_ENDPOINTS, or
KOHORT_ASSIGNER_ETCD_ENDPOINTS, which is stronger), then from flags; the last one wins.";

/// `kohort assigner`: an instance, or a question to one.
#[derive(Debug, Args)]
#[command(after_help = ASSIGNER_EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct AssignerArgs {
    /// What to do; without it, run an instance.
    #[command(subcommand)]
    pub(crate) command: Option<AssignerCommand>,

    /// The flags of an instance.
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// The flags of an instance.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RunArgs {
    /// Where settings come from.
    #[command(flatten)]
    pub(crate) settings: AssignerSettingsArgs,

    /// What is logged, and how.
    #[command(flatten)]
    pub(crate) logging: LogArgs,
}

/// Where the assigner's settings come from.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AssignerSettingsArgs {
    /// Reach etcd here; several with commas [default: http://127.0.0.1:2379]
    #[arg(long, value_name = "URL")]
    pub(crate) etcd: Option<String>,

    /// Read topics from this Kafka; several brokers with commas
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) kafka: Option<String>,

    /// Serve gRPC here [default: 0.0.0.0:50051]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<String>,

    /// Be known among the instances by this name [default: made up]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Serve health and metrics over HTTP here, or `none` [default: 127.0.0.1:9645]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) http: Option<String>,

    /// Read settings from the table [assigner] of this TOML file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Set a setting by its name; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
}

/// What can be asked of a running assigner.
#[derive(Debug, Subcommand)]
pub(crate) enum AssignerCommand {
    /// Show who leads, and the consumers and topics of each group
    Status {
        /// Show only this group
        #[arg(long, short, value_name = "NAME")]
        group: Option<String>,
        /// How to reach the assigner.
        #[command(flatten)]
        reach: ReachArgs,
        /// How to show results.
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show what the leader would do now, or with other consumers; nothing is done
    Plan(PlanArgs),
    /// Say why each partition is where it is, or moves
    Explain {
        /// Only this topic, or this partition of it
        #[arg(value_name = "TOPIC[/PARTITION]", value_parser = topic_scope)]
        of: Option<TopicScope>,
        /// Which group.
        #[command(flatten)]
        group: GroupArgs,
        /// How to reach the assigner.
        #[command(flatten)]
        reach: ReachArgs,
        /// How to show results.
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show a topic as a group works on it, or set how heavy its partitions are
    Topic {
        /// The topic's name
        topic: String,
        /// How heavy each partition is compared with those of other topics
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
        weight: Option<u32>,
        /// How heavy one partition is, 0 for as heavy as the others; may be repeated
        #[arg(long, value_name = "PARTITION=NUMBER", value_parser = partition_weight)]
        partition_weight: Vec<(u32, u32)>,
        /// Which group.
        #[command(flatten)]
        group: GroupArgs,
        /// How to reach the assigner.
        #[command(flatten)]
        reach: ReachArgs,
        /// How to show results.
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Check and list the assigner's settings
    #[command(subcommand)]
    Config(AssignerConfigCommand),
}

/// The flags of `kohort assigner plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Only show it; the leader carries its plans out by itself, so there is no other way
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// As if this consumer were gone; may be repeated
    #[arg(long, value_name = "CONSUMER")]
    pub(crate) without: Vec<String>,

    /// As if this consumer were registered and ready; may be repeated
    #[arg(long, value_name = "CONSUMER")]
    pub(crate) with: Vec<String>,

    /// Leave out partitions about which nothing would be done
    #[arg(long)]
    pub(crate) changes: bool,

    /// Which group.
    #[command(flatten)]
    pub(crate) group: GroupArgs,

    /// How to reach the assigner.
    #[command(flatten)]
    pub(crate) reach: ReachArgs,

    /// How to show results.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What can be done with the assigner's settings.
#[derive(Debug, Subcommand)]
pub(crate) enum AssignerConfigCommand {
    /// Check the settings that an instance would use and show those that are set
    Check {
        /// Where settings come from.
        #[command(flatten)]
        settings: AssignerSettingsArgs,
        /// How to show results.
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List every setting with its variable, default and meaning
    List {
        /// How to show results.
        #[command(flatten)]
        output: OutputArgs,
    },
}

const HANDOFF_EXAMPLES: &str = "\
Examples:
  kohort handoff list --all
  kohort handoff show orders/7 --group counters
  kohort handoff cancel orders/7 --assigner http://assigner.example:50051";

/// What can be done with handoffs.
#[derive(Debug, Subcommand)]
#[command(after_help = HANDOFF_EXAMPLES)]
pub(crate) enum HandoffCommand {
    /// List the handoffs that are under way, and who is waited for
    #[command(group = ArgGroup::new("whose"))]
    List {
        /// Only those of this group [default: consumers that name no group]
        #[arg(long, short, value_name = "NAME", group = "whose")]
        group: Option<String>,
        /// Those of every group
        #[arg(long, group = "whose")]
        all: bool,
        /// How to reach the assigner.
        #[command(flatten)]
        reach: ReachArgs,
        /// How to show results.
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show all that is known of a partition's handoff
    Show {
        /// The partition
        #[arg(value_name = "TOPIC/PARTITION", value_parser = partition)]
        partition: Partition,
        /// Which group.
        #[command(flatten)]
        group: GroupArgs,
        /// How to reach the assigner.
        #[command(flatten)]
        reach: ReachArgs,
        /// How to show results.
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Give a partition's handoff up; it stays with its owner until the leader tries again
    Cancel {
        /// The partition
        #[arg(value_name = "TOPIC/PARTITION", value_parser = partition)]
        partition: Partition,
        /// Only if the handoff has this id
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// Which group.
        #[command(flatten)]
        group: GroupArgs,
        /// How to reach the assigner.
        #[command(flatten)]
        reach: ReachArgs,
        /// How to show results.
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// One group.
#[derive(Debug, Clone, Args)]
pub(crate) struct GroupArgs {
    /// The group [default: consumers that name no group]
    #[arg(long, short, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) group: String,
}

/// How to reach an instance of the assigner.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReachArgs {
    /// An instance to ask; any will do
    #[arg(long, env = "KOHORT_ASSIGNER", default_value = "http://127.0.0.1:50051", value_name = "URL")]
    pub(crate) assigner: String,

    /// Read the token from this file
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Trust the authorities in this PEM file; needed for https
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Show the certificate in this PEM file
    #[arg(long, value_name = "FILE", requires = "key_file")]
    pub(crate) cert_file: Option<PathBuf>,

    /// The certificate's key, a PEM file
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    pub(crate) key_file: Option<PathBuf>,

    /// Give up after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,
}

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partition {
    /// The topic.
    pub(crate) topic: String,
    /// Its number.
    pub(crate) partition: u32,
}

/// A topic, or one partition of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicScope {
    /// The topic.
    pub(crate) topic: String,
    /// The number of the one partition.
    pub(crate) partition: Option<u32>,
}

/// Names of topics hold no slash.
fn topic_scope(text: &str) -> Result<TopicScope, String> {
    let wrong = || "expected TOPIC or TOPIC/PARTITION".to_owned();
    let (topic, partition) = match text.split_once('/') {
        Some((topic, number)) => (topic, Some(number.parse().map_err(|_| wrong())?)),
        None => (text, None),
    };
    if topic.is_empty() { Err(wrong()) } else { Ok(TopicScope { topic: topic.to_owned(), partition }) }
}

fn partition(text: &str) -> Result<Partition, String> {
    match topic_scope(text) {
        Ok(TopicScope { topic, partition: Some(partition) }) => Ok(Partition { topic, partition }),
        _ => Err("expected TOPIC/PARTITION".to_owned()),
    }
}

fn partition_weight(text: &str) -> Result<(u32, u32), String> {
    let parsed = text
        .split_once('=')
        .and_then(|(partition, weight)| Some((partition.trim().parse().ok()?, weight.trim().parse().ok()?)));
    parsed.ok_or_else(|| "expected PARTITION=NUMBER".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::{Cli, Command};

    use super::*;

    #[test]
    fn an_instance_runs_without_a_further_word() {
        let words = ["kohort", "assigner", "--etcd", "http://e:2379", "--set", "bind_port=0"];
        let Some(Command::Assigner(args)) = Cli::try_parse_from(words).unwrap().command else {
            panic!("assigner");
        };
        assert!(args.command.is_none());
        assert_eq!(args.run.settings.etcd.as_deref(), Some("http://e:2379"));
        assert_eq!(args.run.settings.set, [("bind_port".to_owned(), "0".to_owned())]);
        assert!(Cli::try_parse_from(["kohort", "assigner", "--etcd", "e", "status"]).is_err());
    }

    #[test]
    fn partitions_are_written_with_a_slash() {
        assert_eq!(partition("a.b/7"), Ok(Partition { topic: "a.b".to_owned(), partition: 7 }));
        for wrong in ["a", "a/", "/7", "a/x", "a/7/8", "a/-1", ""] {
            assert!(partition(wrong).is_err(), "{wrong}");
        }
        assert_eq!(topic_scope("a"), Ok(TopicScope { topic: "a".to_owned(), partition: None }));
        assert_eq!(partition_weight("3=20"), Ok((3, 20)));
        assert!(partition_weight("3").is_err() && partition_weight("a=1").is_err());
    }

    #[test]
    fn one_group_or_all() {
        let parse = |words: &str| Cli::try_parse_from(words.split(' '));
        assert!(parse("kohort handoff list --all").is_ok() && parse("kohort handoff list -g a").is_ok());
        assert!(parse("kohort handoff list --all --group a").is_err());
        assert!(parse("kohort handoff list --cert-file a").is_err());
    }
}
