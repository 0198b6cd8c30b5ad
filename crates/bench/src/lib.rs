//! A load generator that speaks Kafka's wire itself, and what it measures.
//!
//! [`run`] carries out a [`Command`]: a scenario on one server, or on several in turn. A scenario prepares its state
//! over a `Dialogue`, brings load through `closed_loop` or lets `members` live through rebalances, checks every
//! reply, and gives an `Outcome` of figures. `compare` repeats it over targets and the values of a sweep into a
//! `study` of `report`s, which is shown as a table or as JSON and drawn with [`plot`] for a `page`. A run in which
//! any reply is wrong fails and gives no figures.
//!
//! The assigner speaks gRPC instead: two consumers hand partitions to each other (`handover`) and keep a `ledger` of who
//! works on what; how long its leader plans is measured without any server (`planning`).
//!
//! The load must cost less than what it measures: one thread serves many connections ([`mio`]), requests are encoded
//! once and patched, and a reply that is byte for byte a known good one is not decoded.

mod assigner;
mod closed_loop;
mod compare;
mod consumer;
mod cores;
mod dialogue;
mod duration;
mod echo;
mod figure;
mod handover;
mod histogram;
mod ledger;
mod lines;
mod machine;
mod members;
mod misuse;
mod number;
mod options;
mod page;
mod planning;
pub mod plot;
mod process;
mod progress;
mod records;
mod reply_check;
mod report;
mod scenario;
#[cfg(test)]
mod scripted_assigner;
#[cfg(test)]
mod scripted_server;
mod server_command;
mod setting;
mod statistics;
mod study;
mod svg;
mod template;

use clap::{Args, Subcommand};

pub use dialogue::Unreachable;
pub use machine::Machine;
pub use misuse::Misuse;
pub use process::ServerProcess;

const EXAMPLES: &str = "\
Examples:
  kohort bench heartbeat --groups 1 --members 64 --duration 10s
  kohort bench commit --compare kohort=127.0.0.1:9092,kafka=127.0.0.1:19092
  kohort bench join --members 1000 -o json
  kohort bench heartbeat --groups 1 --sweep members=1,10,100,1000 --report heartbeat.html
  kohort bench start --bootstrap 127.0.0.1:19092 \\
      --command 'kohort --listen 127.0.0.1:19092 --admin none --data-dir /tmp/empty'
  kohort bench handoff --assigner http://127.0.0.1:50051 --bootstrap 127.0.0.1:9092

Topics and groups that a run needs are made on the server, under names that begin with `bench-`, and
removed in the end, except by `recovery`, which needs data of its own for each run. A run in which
any reply is wrong fails and shows no figures.";

/// Measures a Kafka-compatible server
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
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
    /// The assigner: its plans, and how fast partitions change hands
    Handoff(scenario::handoff::Handoff),
}

/// Measures and shows the figures on standard output; fails when any reply was wrong.
pub fn run(command: Command) -> anyhow::Result<()> {
    let mut scenario: Box<dyn scenario::Scenario> = match command.scenario {
        Scenario::Echo(echo) => Box::new(echo),
        Scenario::Heartbeat(heartbeat) => Box::new(heartbeat),
        Scenario::Commit(commit) => Box::new(commit),
        Scenario::Join(join) => Box::new(join),
        Scenario::FirstRecord(first_record) => Box::new(first_record),
        Scenario::Churn(churn) => Box::new(churn),
        Scenario::Groups(groups) => Box::new(groups),
        Scenario::Latency(latency) => Box::new(latency),
        Scenario::Produce(produce) => Box::new(produce),
        Scenario::Consume(consume) => Box::new(consume),
        Scenario::Connections(connections) => Box::new(connections),
        Scenario::Start(start) => Box::new(start),
        Scenario::Recovery(recovery) => Box::new(recovery),
        Scenario::Handoff(handoff) => Box::new(handoff),
    };
    compare::run(scenario.as_mut())
}
