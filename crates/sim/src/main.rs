//! Runs seeds until the time is up, or one seed with its whole story.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

/// Consumer groups under simulated clients, networks, clocks, crashes and disks.
#[derive(Debug, Parser)]
struct Arguments {
    /// For how long to try seeds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// How many threads try seeds
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Play this seed alone and tell its story
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.seed {
        Some(seed) => replay(seed),
        None => explore(&arguments),
    }
}

fn replay(seed: u64) -> ExitCode {
    match sim::run(seed, true, None) {
        Ok(summary) => {
            say(&format!("seed {seed}: {summary:?}"));
            ExitCode::SUCCESS
        }
        Err(failure) => {
            say(&failure.trace);
            say(&format!(
                "seed {seed} fails after {} steps at {} ms: {}",
                failure.step, failure.at_ms, failure.message
            ));
            ExitCode::FAILURE
        }
    }
}

fn explore(arguments: &Arguments) -> ExitCode {
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let results: Vec<(Totals, Option<Box<sim::Failure>>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..arguments.threads)
            .map(|thread| scope.spawn(move || try_seeds(arguments, thread, end)))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a run panics only on a bug")).collect()
    });
    let mut totals = Totals::default();
    let mut failed = false;
    for (one, failure) in results {
        totals.merge(&one);
        if let Some(failure) = failure {
            failed = true;
            say(&format!(
                "seed {} fails after {} steps at {} ms: {}\nreplay it with: cargo run -p sim --release -- --seed {}",
                failure.seed, failure.step, failure.at_ms, failure.message, failure.seed
            ));
        }
    }
    say(&totals.to_string());
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Tries every so-manieth seed until the time is up or one fails.
fn try_seeds(arguments: &Arguments, thread: u64, end: Instant) -> (Totals, Option<Box<sim::Failure>>) {
    let mut totals = Totals::default();
    let mut seed = arguments.from + thread;
    while Instant::now() < end {
        match sim::run(seed, false, None) {
            Ok(summary) => totals.add(&summary),
            Err(failure) => return (totals, Some(failure)),
        }
        seed += arguments.threads;
    }
    (totals, None)
}

#[derive(Debug, Default)]
struct Totals {
    seeds: u64,
    steps: u64,
    checks: u64,
    restarts: u64,
    refusals: u64,
    virtual_ms: u64,
    longest_settling_ms: u64,
}

impl Totals {
    fn add(&mut self, summary: &sim::Summary) {
        self.merge(&Self {
            seeds: 1,
            steps: summary.steps,
            checks: summary.checks,
            restarts: summary.restarts,
            refusals: summary.refusals,
            virtual_ms: summary.virtual_ms,
            longest_settling_ms: summary.settled_after_ms,
        });
    }

    fn merge(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.checks += other.checks;
        self.restarts += other.restarts;
        self.refusals += other.refusals;
        self.virtual_ms += other.virtual_ms;
        self.longest_settling_ms = self.longest_settling_ms.max(other.longest_settling_ms);
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} seeds held: {} steps, {} checks, {} broker restarts, {} refused flushes, {} hours of virtual time; \
             the slowest took {} s to settle",
            self.seeds,
            self.steps,
            self.checks,
            self.restarts,
            self.refusals,
            self.virtual_ms / 3_600_000,
            self.longest_settling_ms / 1_000
        )
    }
}

fn say(line: &str) {
    // Nobody is left to tell when standard output is gone.
    let _ = writeln!(std::io::stdout(), "{line}");
}
