//! The command line: what can be typed, and how it is explained.

pub(crate) mod acl;
pub(crate) mod assigner;
pub(crate) mod broker;
pub(crate) mod gateway;
pub(crate) mod group;
pub(crate) mod org;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use self::acl::AclCommand;
use self::assigner::{AssignerArgs, HandoffCommand};
use self::broker::BrokerArgs;
use self::gateway::GatewayArgs;
use self::group::GroupCommand;
use self::org::{OrgCommand, UserCommand};

const EXAMPLES: &str = "\
Examples:
  kohort                                          serve on localhost:9092, data in ./kohort-data
  kohort --listen 0.0.0.0:9092 --advertise broker.example:9092
  kohort --set num.partitions=6 --set log.retention.hours=24
  kohort topic create orders --partitions 6 --config cleanup.policy=compact
  kohort topic list -o json
  kohort group describe billing
  kohort user create alice
  kohort broker --rail-listen 0.0.0.0:9643        and gateways elsewhere: kohort gateway --help
  kohort assigner --etcd http://127.0.0.1:2379    assign partitions to stateful consumers
  kohort bench heartbeat --compare kohort=127.0.0.1:9092,kafka=127.0.0.1:19092

Settings are properties with Kafka's names; `kohort config list` shows them all. They come from
--config FILE (TOML), then from the environment (num.partitions is KOHORT_NUM_PARTITIONS), then
from flags; the last one wins.

Exit codes:
  0  done
  1  failed
  2  wrong usage or wrong settings
  3  the server cannot be reached
  4  what was asked for does not exist, or exists already";

/// A Kafka-compatible broker in one binary.
#[derive(Debug, Parser)]
#[command(name = "kohort", version, about, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    /// What to do; without it, `serve`.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// The flags of `serve`, which may be left out.
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// What `kohort` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the broker (the same as `kohort` alone)
    Serve(Box<ServeArgs>),
    /// Run a broker that only gateways reach, or say which gateways may
    Broker(Box<BrokerArgs>),
    /// Run a gateway: Kafka listeners in front of a broker elsewhere
    Gateway(Box<GatewayArgs>),
    /// Create, list, describe, alter and delete topics of any Kafka
    #[command(subcommand)]
    Topic(TopicCommand),
    /// List, describe, explain, reset and delete consumer groups of any Kafka
    #[command(subcommand)]
    Group(GroupCommand),
    /// Allow and deny: ACLs of any Kafka
    #[command(subcommand)]
    Acl(AclCommand),
    /// Create, list, limit and delete organisations, which share a broker and never meet
    #[command(subcommand)]
    Org(OrgCommand),
    /// Create, list and delete users, and change their passwords
    #[command(subcommand)]
    User(UserCommand),
    /// Check and list settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Assign partitions of any Kafka to stateful consumers by warm handoff, or ask about it
    Assigner(Box<AssignerArgs>),
    /// List, show and cancel handoffs of partitions between the assigner's consumers
    #[command(subcommand)]
    Handoff(HandoffCommand),
    /// Read a data directory while no broker runs on it
    #[command(subcommand)]
    Log(LogCommand),
    /// Copy the data of a running broker into a new directory
    #[command(after_help = SNAPSHOT_EXAMPLES)]
    Snapshot(SnapshotArgs),
    /// Measure any Kafka: heartbeats, commits, joins, records, memory; alone or side by side
    Bench(Box<bench::Command>),
    /// Show the version
    Version(OutputArgs),
}

/// How results are shown.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OutputArgs {
    /// Show results as a table for people or as JSON for programs
    #[arg(short, long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(crate) output: Format,
}

/// A way to show results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

const LISTEN_HELP: &str = "Listen here; may be repeated. NAME://ADDR:PORT gives the listener a name \
                           [default: 127.0.0.1:9092 and [::1]:9092]";

/// Where settings come from.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SettingsArgs {
    /// Where to listen.
    #[arg(long, value_name = "ADDR:PORT", help = LISTEN_HELP)]
    pub(crate) listen: Vec<String>,

    /// Give clients this address instead of the one they dialled; may be repeated with NAME://ADDR:PORT
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) advertise: Vec<String>,

    /// Keep data in this directory [default: ./kohort-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Read settings from this TOML file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Serve health, metrics, group events and snapshots here, or `none` [default: 127.0.0.1:9644]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<String>,

    /// Set a property by its name; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
}

/// The flags of `kohort serve`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServeArgs {
    /// Where settings come from.
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,

    /// What is logged, and how.
    #[command(flatten)]
    pub(crate) logging: LogArgs,
}

/// What a server logs.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LogArgs {
    /// Write logs as text for people or as JSON for programs [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,

    /// Log this and what is worse: error, warn, info, debug, trace; or filters like gateway=debug
    /// [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

const TOPIC_EXAMPLES: &str = "\
Examples:
  kohort topic create orders --partitions 6
  kohort topic create users --config cleanup.policy=compact --if-not-exists
  kohort topic alter orders --partitions 12 --config retention.ms=3600000
  kohort topic describe orders -o json
  kohort topic delete orders --bootstrap kafka.example:9092";

/// What can be done with topics.
#[derive(Debug, Subcommand)]
#[command(after_help = TOPIC_EXAMPLES)]
pub(crate) enum TopicCommand {
    /// Create a topic
    Create {
        /// The topic's name
        name: String,
        /// How many partitions [default: the broker's num.partitions]
        #[arg(long, short, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..))]
        partitions: Option<i32>,
        /// How many replicas [default: the broker's default.replication.factor]
        #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i16).range(1..))]
        replication_factor: Option<i16>,
        /// Set a property of the topic; may be repeated
        #[arg(long, short, value_name = "KEY=VALUE", value_parser = key_value)]
        config: Vec<(String, String)>,
        /// Succeed if the topic exists already
        #[arg(long)]
        if_not_exists: bool,
        /// How to reach the broker and show results.
        #[command(flatten)]
        client: ClientArgs,
    },
    /// List topics
    List {
        /// Show the broker's own topics too
        #[arg(long)]
        internal: bool,
        /// How to reach the broker and show results.
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Show partitions, leaders, offsets and the settings that are set
    Describe {
        /// The topics' names
        #[arg(required = true)]
        names: Vec<String>,
        /// How to reach the broker and show results.
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Add partitions, or set and unset properties
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Alter {
        /// The topic's name
        name: String,
        /// How many partitions the topic shall have in all
        #[arg(long, short, value_name = "COUNT", group = "change", value_parser = clap::value_parser!(i32).range(1..))]
        partitions: Option<i32>,
        /// Set a property of the topic; may be repeated
        #[arg(long, short, value_name = "KEY=VALUE", group = "change", value_parser = key_value)]
        config: Vec<(String, String)>,
        /// Take back a property of the topic; may be repeated
        #[arg(long, value_name = "KEY", group = "change")]
        delete_config: Vec<String>,
        /// How to reach the broker and show results.
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Delete topics with all they hold
    Delete {
        /// The topics' names
        #[arg(required = true)]
        names: Vec<String>,
        /// Succeed if a topic does not exist
        #[arg(long)]
        if_exists: bool,
        /// How to reach the broker and show results.
        #[command(flatten)]
        client: ClientArgs,
    },
}

/// How to reach a broker and show what it answers.
#[derive(Debug, Clone, Args)]
pub(crate) struct ClientArgs {
    /// A broker to ask; several with commas
    #[arg(
        long,
        short,
        env = "KOHORT_BOOTSTRAP",
        default_value = "127.0.0.1:9092",
        value_name = "ADDR:PORT",
        value_delimiter = ','
    )]
    pub(crate) bootstrap: Vec<String>,

    /// Log in and speak TLS as this file of properties says, the same as for Kafka's own tools
    #[arg(long, value_name = "FILE", env = "KOHORT_COMMAND_CONFIG")]
    pub(crate) command_config: Option<PathBuf>,

    /// Give up a request that is not answered within this many seconds; it holds for each request
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,

    /// How to show results.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What can be done with settings.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check the settings that `serve` or a gateway would use, with the files they name, and show those that are set
    Check {
        /// Where settings come from.
        #[command(flatten)]
        settings: SettingsArgs,
        /// How to show results.
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List every property with its default and meaning
    List {
        /// List properties of topics instead of the broker's
        #[arg(long)]
        topic: bool,
        /// Leave out properties that are accepted but have no effect
        #[arg(long)]
        effective: bool,
        /// How to show results.
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// What can be done with a data directory.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Read everything and report what is damaged
    Verify {
        /// Which directory.
        #[command(flatten)]
        directory: DirectoryArgs,
        /// How to show results.
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show the record batches, settled ones first
    Dump(DumpArgs),
}

/// The flags of `kohort log dump`.
#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// Which directory.
    #[command(flatten)]
    pub(crate) directory: DirectoryArgs,

    /// Show only the topic with this id, as `kohort topic list` shows it
    #[arg(long, value_name = "ID")]
    pub(crate) topic: Option<String>,

    /// Show every record, not only batches
    #[arg(long)]
    pub(crate) records: bool,

    /// How to show results; JSON is one object a line.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A data directory to read.
#[derive(Debug, Clone, Args)]
pub(crate) struct DirectoryArgs {
    /// The data directory
    #[arg(long, value_name = "DIR", env = "KOHORT_DATA_DIR", default_value = "kohort-data")]
    pub(crate) data_dir: PathBuf,
}

const SNAPSHOT_EXAMPLES: &str = "\
Examples:
  kohort snapshot /backup/monday
  kohort --data-dir /backup/monday --listen 127.0.0.1:19092     serve the copy

The copy is consistent: it holds all that was acknowledged when it was taken. The directory is
made by the broker, on its machine, and must not exist yet.";

/// The flags of `kohort snapshot`.
///
/// The answer comes when the copy is made, which takes as long as it takes.
#[derive(Debug, Args)]
#[command(mut_arg("timeout", |timeout| timeout.default_value("86400")))]
pub(crate) struct SnapshotArgs {
    /// The new directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Where to ask.
    #[command(flatten)]
    pub(crate) admin: AdminArgs,

    /// How to show results.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// How to reach a running broker's admin listener.
#[derive(Debug, Clone, Args)]
pub(crate) struct AdminArgs {
    /// The running broker's admin listener
    #[arg(long, env = "KOHORT_ADMIN", default_value = "127.0.0.1:9644", value_name = "ADDR:PORT", value_parser = admin_address)]
    pub(crate) admin: String,

    /// The running broker's data directory, where its token is
    #[arg(long, value_name = "DIR", env = "KOHORT_DATA_DIR", default_value = "kohort-data")]
    pub(crate) data_dir: PathBuf,

    /// Read the token from this file instead
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Give up a request that is not answered within this many seconds; it holds for each request
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
}

/// The address of an admin listener, also out of a URL as the broker prints it.
pub(crate) fn admin_address(text: &str) -> Result<String, String> {
    let address = text.strip_prefix("http://").map_or(text, |rest| rest.split('/').next().unwrap_or(rest));
    if address.is_empty() {
        return Err("expected ADDR:PORT".to_owned());
    }
    Ok(address.to_owned())
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn serve_is_what_happens_without_a_command() {
        let alone =
            Cli::try_parse_from(["kohort", "--listen", "127.0.0.1:0", "--set", "num.partitions=3"]).unwrap();
        assert!(alone.command.is_none());
        assert_eq!(alone.serve.settings.listen, ["127.0.0.1:0"]);
        let named = Cli::try_parse_from(["kohort", "serve", "--listen", "127.0.0.1:0"]).unwrap();
        assert!(matches!(named.command, Some(Command::Serve(_))));
    }

    #[test]
    fn an_admin_listener_may_be_named_by_the_url_that_the_broker_prints() {
        for text in [
            "127.0.0.1:9644",
            "http://127.0.0.1:9644",
            "http://127.0.0.1:9644/",
            "http://127.0.0.1:9644/v1/orgs",
        ] {
            assert_eq!(admin_address(text).as_deref(), Ok("127.0.0.1:9644"), "{text}");
        }
        for wrong in ["", "http://", "http:///v1"] {
            assert!(admin_address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_snapshot_has_more_time_than_other_requests_to_the_admin_listener() {
        let timeout = |words: &[&str]| match Cli::try_parse_from(words).unwrap().command {
            Some(Command::Snapshot(args)) => args.admin.timeout,
            Some(Command::Group(GroupCommand::Events(args))) => args.admin.timeout,
            other => panic!("{other:?}"),
        };
        assert_eq!(timeout(&["kohort", "group", "events", "billing"]), 15);
        assert_eq!(timeout(&["kohort", "group", "events", "billing", "--timeout", "3"]), 3);
        assert_eq!(timeout(&["kohort", "snapshot", "/backup"]), 86_400);
        assert_eq!(timeout(&["kohort", "snapshot", "/backup", "--timeout", "3"]), 3);
    }

    #[test]
    fn alter_must_change_something() {
        assert!(Cli::try_parse_from(["kohort", "topic", "alter", "orders"]).is_err());
        let more = ["kohort", "topic", "alter", "orders", "--partitions", "2", "--config", "a=b=c"];
        let Some(Command::Topic(TopicCommand::Alter { config, .. })) =
            Cli::try_parse_from(more).unwrap().command
        else {
            panic!("topic alter");
        };
        assert_eq!(config, [("a".to_owned(), "b=c".to_owned())]);
    }
}
