//! Counts words: an example of a consumer with state whose partitions move by warm handoff.
//!
//! Start it twice with different names, and the partitions are shared. Stop one with Ctrl-C, and the other takes its
//! partitions over: it warms up first, and no line is counted twice or left out.

mod counters;
mod counts;
mod journal;
mod kafka;
mod results;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result};
use assigner_client::{Consumer, Running};
use clap::Parser;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;

use crate::counters::Counters;
use crate::journal::Journal;
use crate::kafka::Kafka;

/// Counts the words of a topic together with others.
#[derive(Debug, Parser)]
struct Arguments {
    /// The name of this counter, different from that of all others.
    #[arg(long)]
    name: String,
    /// Instances of the assigner, such as http://localhost:50051.
    #[arg(long, value_delimiter = ',', required = true)]
    assigner: Vec<String>,
    /// Where Kafka or Kohort listens, as host:port.
    #[arg(long)]
    kafka: String,
    /// The topic whose lines are counted.
    #[arg(long)]
    topic: String,
    /// The group of counters that share the topic.
    #[arg(long, default_value = "word-counters")]
    group: String,
    /// Where this counter keeps its counts, for itself alone.
    #[arg(long)]
    state_dir: PathBuf,
    /// Where all counters write what they have worked on, the same directory for all of them.
    #[arg(long)]
    results: PathBuf,
    /// A file that is told when this counter begins and ends to work on a partition.
    #[arg(long)]
    journal: Option<PathBuf>,
    /// A token, if the assigner wants one.
    #[arg(long, env = "ASSIGNER_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    let arguments = Arguments::parse();
    fs::create_dir_all(&arguments.state_dir).context("create the directory of the state")?;

    let (topic, group) = (arguments.topic.clone(), arguments.group.clone());
    let kafka = Kafka { bootstrap: arguments.kafka, topic, group };
    let journal = Journal::open(arguments.journal.as_deref())?;
    let counters =
        Counters::new(&arguments.name, kafka, arguments.state_dir.clone(), arguments.results, journal)?;

    let mut consumer = Consumer::builder(&arguments.name)
        .group(&arguments.group)
        .topic(&arguments.topic)
        .endpoints(arguments.assigner);
    if let Some(token) = arguments.token {
        consumer = consumer.token(token);
    }
    // What was counted in an earlier run makes this counter the best owner.
    for partition in counts::stored(&arguments.state_dir, &arguments.topic)? {
        consumer = consumer.holds(partition);
    }
    // Whoever is told to leave before this would be killed instead.
    let signals = Signals::wait_for()?;
    let running = consumer.build()?.start(counters.clone());

    let (failed, failure) = oneshot::channel();
    thread::spawn({
        let counters = counters.clone();
        move || failed.send(counters.work())
    });
    until_the_end(&running, &counters, failure, signals).await
}

/// Works until it is told to leave, is fenced, or cannot go on.
async fn until_the_end(
    running: &Running,
    counters: &Counters,
    mut failure: oneshot::Receiver<Result<()>>,
    mut signals: Signals,
) -> Result<()> {
    loop {
        tokio::select! {
            ended = running.finished() => return ended.context("the consumer has ended"),
            failed = &mut failure => {
                // The work is at its end, so nobody waits for others to warm up.
                running.stop().await?;
                return failed.context("the work has ended")?;
            }
            _ = signals.report.recv() => print(counters)?,
            () = either(&mut signals.interrupt, &mut signals.terminate) => break,
        }
    }
    print(counters)?;
    tracing::info!("leaving; once more to leave without a warm handoff");
    tokio::select! {
        left = running.deregister() => left?,
        () = either(&mut signals.interrupt, &mut signals.terminate) => running.stop().await?,
    }
    Ok(())
}

/// What this process can be told.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    report: Signal,
}

impl Signals {
    fn wait_for() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            report: signal(SignalKind::user_defined1())?,
        })
    }
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

/// Prints what has been counted in the partitions that this process works on.
fn print(counters: &Counters) -> Result<()> {
    let mut out = io::stdout().lock();
    for (partition, counts) in counters.counts() {
        writeln!(out, "{partition}: {} lines before offset {}", counts.lines, counts.next_offset)?;
        for (word, count) in counts.words {
            writeln!(out, "{partition}: {word} {count}")?;
        }
    }
    out.flush().context("print the counts")
}
