//! Which client is tried with which assignor.

use std::env;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use e2e::clients::Client;

/// The first argument that turns this program into a member that uses the crate rdkafka.
pub(crate) const ACT_AS_MEMBER: &str = "act-as-rdkafka-member";

/// The columns of the table.
pub(crate) const COLUMNS: [&str; 5] = ["range", "roundrobin", "sticky", "cooperative-sticky", "static"];

/// How long a member is missed. Short, because a killed one is waited for, and long enough that nobody is missed who
/// only had no time: the machine is shared by several lives. Kafka allows no less than six seconds.
const SESSION: Duration = Duration::from_secs(10);
/// Static members must come back within it, however long a JVM takes to start on a busy machine.
const STATIC_SESSION: Duration = Duration::from_secs(30);

/// A client library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    /// The crate, in this very program.
    Rdkafka,
    /// One with a program of its own.
    Program(Client),
}

/// The libraries in the order of the table.
pub(crate) const LIBRARIES: [Library; 8] = [
    Library::Rdkafka,
    Library::Program(Client::ConfluentKafka),
    Library::Program(Client::KafkaPython),
    Library::Program(Client::Aiokafka),
    Library::Program(Client::Kafkajs),
    Library::Program(Client::FranzGo),
    Library::Program(Client::Sarama),
    Library::Program(Client::Java),
];

/// One life of a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    pub(crate) client: Library,
    /// One of [`COLUMNS`].
    pub(crate) column: &'static str,
    pub(crate) assignor: &'static str,
    pub(crate) is_static: bool,
}

/// What is done in a cell of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Plan {
    Live(Life),
    /// The client has no such thing.
    Cannot(&'static str),
    /// Left out, since others stand for it.
    Skip,
}

impl Life {
    pub(crate) fn session(&self) -> Duration {
        if self.is_static { STATIC_SESSION } else { SESSION }
    }

    /// Whether the client can commit what it processed before it gives a partition up.
    pub(crate) fn commits_when_revoked(&self) -> bool {
        match self.client {
            // kafkajs tells of a rebalance when it is over with its work and about to join again.
            Library::Program(Client::Kafkajs) => false,
            // kafka-python refuses commits in the callback that comes within a cooperative rebalance.
            Library::Program(Client::KafkaPython) => self.assignor != "cooperative-sticky",
            _ => true,
        }
    }

    /// What is not looked at, since the client has its own ways.
    pub(crate) fn skips(&self) -> Vec<String> {
        let mut skips = Vec::new();
        let mut skip = |is_so: bool, what: &str| {
            if is_so {
                skips.push(what.to_owned());
            }
        };
        skip(
            !self.client.sits_out_a_restart(),
            "that a restart of the broker is not noticed (it joins again when a heartbeat finds nobody)",
        );
        skip(!self.client.reports_commits(), "which commits were acknowledged (it does not tell)");
        skip(
            !self.commits_when_revoked(),
            "that a rebalance in good order repeats nothing (it cannot commit when it gives partitions up)",
        );
        skip(
            self.is_static && !self.client.learns_of_a_twin(),
            "a twin that takes its place (it does not know the error, and takes the place back for ever)",
        );
        skip(
            self.is_static && !self.client.comes_back_quietly(),
            "that nobody notices its return (a leader joins once more when it learns of the partitions)",
        );
        skips
    }
}

impl Library {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rdkafka => "rdkafka",
            Self::Program(client) => client.name(),
        }
    }

    /// The command of a member, or what is missing on this machine.
    pub(crate) fn member(self) -> Result<Result<Command, String>> {
        match self {
            Self::Rdkafka => {
                let mut command = Command::new(env::current_exe().context("find this program")?);
                command.arg(ACT_AS_MEMBER);
                Ok(Ok(command))
            }
            Self::Program(client) => Ok(client.member()),
        }
    }

    /// What the client is put through in a column.
    pub(crate) fn plan(self, column: &'static str) -> Plan {
        let live =
            |assignor| Plan::Live(Life { client: self, column, assignor, is_static: column == "static" });
        match (self, column) {
            (Self::Rdkafka | Self::Program(Client::ConfluentKafka), "sticky") => {
                Plan::Cannot("librdkafka has only the cooperative one")
            }
            // confluent-kafka is the same librdkafka.
            (Self::Rdkafka, "roundrobin" | "static") => Plan::Skip,
            (Self::Program(Client::Kafkajs), "roundrobin") => live(column),
            (Self::Program(Client::Kafkajs), _) => Plan::Cannot("kafkajs has none"),
            (Self::Program(Client::Aiokafka | Client::Sarama), "cooperative-sticky") => {
                Plan::Cannot("the client has none")
            }
            (Self::Program(Client::ConfluentKafka | Client::KafkaPython), "static") => live("range"),
            (Self::Program(Client::Aiokafka), "static") => live("roundrobin"),
            (Self::Program(Client::Sarama), "static") => live("sticky"),
            (Self::Program(Client::FranzGo | Client::Java), "static") => live("cooperative-sticky"),
            (_, "range" | "roundrobin" | "sticky" | "cooperative-sticky") => live(column),
            _ => Plan::Skip,
        }
    }

    /// Whether its members print what the broker acknowledged.
    pub(crate) fn reports_commits(self) -> bool {
        self != Self::Program(Client::Sarama)
    }

    /// Whether a static member understands that another took its place.
    pub(crate) fn learns_of_a_twin(self) -> bool {
        // aiokafka does not know the error: it joins again, and the two take the place from each other for ever.
        self != Self::Program(Client::Aiokafka)
    }

    /// Whether nobody notices that a static member comes back.
    pub(crate) fn comes_back_quietly(self) -> bool {
        // A leader with kafka-python joins once more when it learns of the topic's partitions after it has joined.
        self != Self::Program(Client::KafkaPython)
    }

    /// Whether it stays in its group, and keeps its partitions, while the broker is away for less than its session.
    pub(crate) fn sits_out_a_restart(self) -> bool {
        // franz-go gives everything up, and joins again, when a heartbeat finds nobody who listens.
        self != Self::Program(Client::FranzGo)
    }
}
