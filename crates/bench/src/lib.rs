//! A load generator that speaks Kafka's wire itself, and what it measures.
//!
//! [`run`] carries out a [`Command`]: a scenario on one server, or on several in turn. A scenario prepares its state
//! over a `Dialogue`, brings load through `closed_loop` or lets `members` live through rebalances, checks every
//! reply, and gives an `Outcome` of figures; `compare` repeats it over targets and `report` shows it. A run in which
//! any reply is wrong fails and gives no figures.
//!
//! The load must cost less than what it measures: one thread serves many connections ([`mio`]), requests are encoded
//! once and patched, and a reply that is byte for byte a known good one is not decoded.

mod closed_loop;
mod compare;
mod consumer_protocol;
mod dialogue;
mod duration;
mod echo;
mod figure;
mod histogram;
mod lines;
mod machine;
mod members;
mod options;
mod process;
mod records;
mod reply_check;
mod report;
mod scenario;
mod server_command;
mod statistics;
mod template;

use clap::{Args, Subcommand};

/// Measures a Kafka-compatible server
#[derive(Args, Debug)]
pub struct Command {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Debug, Subcommand)]
enum Scenario {
    /// Frames sent back by a server of our own: the limit on this machine
    Echo(scenario::echo::Echo),
    /// Members of groups that say that they are alive
    Heartbeat(scenario::heartbeat::Heartbeat),
    /// Members of groups that say how far they have read
    Commit(scenario::commit::Commit),
    /// Many members start at once, then one more comes
    Join(scenario::join::Join),
    /// A lone consumer, from subscribing to its first record
    FirstRecord(scenario::first_record::FirstRecord),
    /// One member leaves and comes back
    Churn(scenario::churn::Churn),
    /// What idle groups and members cost the server in memory
    Groups(scenario::groups::Groups),
    /// One request in flight on one connection
    Latency(scenario::latency::Latency),
    /// Record batches that are appended
    Produce(scenario::produce::Produce),
    /// Records that are fetched
    Consume(scenario::consume::Consume),
    /// Many connections, idle and active
    Connections(scenario::connections::Connections),
    /// From exec to the first answer
    Start(scenario::start::Start),
    /// From a kill to the first answers about groups
    Recovery(scenario::recovery::Recovery),
}

/// Measures and shows the figures on standard output; fails when any reply was wrong.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command.scenario {
        Scenario::Echo(echo) => echo.run(),
        Scenario::Heartbeat(heartbeat) => heartbeat.run(),
        Scenario::Commit(commit) => commit.run(),
        Scenario::Join(join) => join.run(),
        Scenario::FirstRecord(first_record) => first_record.run(),
        Scenario::Churn(churn) => churn.run(),
        Scenario::Groups(groups) => groups.run(),
        Scenario::Latency(latency) => latency.run(),
        Scenario::Produce(produce) => produce.run(),
        Scenario::Consume(consume) => consume.run(),
        Scenario::Connections(connections) => connections.run(),
        Scenario::Start(start) => start.run(),
        Scenario::Recovery(recovery) => recovery.run(),
    }
}
