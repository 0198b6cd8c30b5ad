//! Runs seeds until the time is up, or one seed with its whole story.

use std::io::Write;
use std::panic;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use sim::counts::Counts;

/// From so many seeds on, a run in which some fault has never happened proves less than it promises, and fails. Each
/// happens in more than one of a hundred seeds.
const SEEDS_FOR_ALL_FAULTS: u64 = 500;

/// Consumer groups under simulated clients, networks, clocks, crashes and disks.
#[derive(Debug, Parser)]
struct Arguments {
    /// For how long to try seeds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How many seeds have to hold: a run that tried none proves nothing, and fails
    #[arg(long, default_value_t = 1)]
    at_least: u64,
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
    say(&format!("seeds from {} for {} s", arguments.from, arguments.seconds));
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let results: Vec<(Totals, bool)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..arguments.threads)
            .map(|thread| scope.spawn(move || try_seeds(arguments, thread, end)))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("panics of runs are caught")).collect()
    });
    let mut totals = Totals::default();
    let mut failed = false;
    for (one, held) in results {
        totals.merge(&one);
        failed |= !held;
    }
    say(&totals.to_string());
    let missing = totals.counts.missing();
    if totals.seeds >= SEEDS_FOR_ALL_FAULTS && !missing.is_empty() {
        failed = true;
        say(&format!("never happened: {}", missing.join(", ")));
    }
    if !failed && totals.seeds < arguments.at_least {
        failed = true;
        say(&format!("too few: at least {} have to hold", arguments.at_least));
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Tries every so-manieth seed until the time is up or one fails, which is told at once. Says whether all held.
fn try_seeds(arguments: &Arguments, thread: u64, end: Instant) -> (Totals, bool) {
    let mut totals = Totals::default();
    let mut seed = arguments.from.wrapping_add(thread);
    while Instant::now() < end {
        // Within the machine a broken rule is a panic, which does not know its seed.
        let why = match panic::catch_unwind(|| sim::run(seed, false, None)) {
            Ok(Ok(summary)) => {
                totals.add(&summary);
                seed = seed.wrapping_add(arguments.threads);
                continue;
            }
            Ok(Err(failure)) => {
                format!("after {} steps at {} ms: {}", failure.step, failure.at_ms, failure.message)
            }
            Err(_) => "with a panic, see above".to_owned(),
        };
        let replay = format!("replay it with: cargo run -p sim --release -- --seed {seed}");
        say(&format!("seed {seed} fails {why}\n{replay}"));
        return (totals, false);
    }
    (totals, true)
}

#[derive(Debug, Default)]
struct Totals {
    seeds: u64,
    steps: u64,
    checks: u64,
    virtual_ms: u64,
    longest_settling_ms: u64,
    longest_settling_per_mille: u64,
    counts: Counts,
}

impl Totals {
    fn add(&mut self, summary: &sim::Summary) {
        self.merge(&Self {
            seeds: 1,
            steps: summary.steps,
            checks: summary.checks,
            virtual_ms: summary.virtual_ms,
            longest_settling_ms: summary.settled_after_ms,
            longest_settling_per_mille: summary.settled_per_mille,
            counts: summary.counts,
        });
    }

    fn merge(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.checks += other.checks;
        self.virtual_ms += other.virtual_ms;
        self.longest_settling_ms = self.longest_settling_ms.max(other.longest_settling_ms);
        self.longest_settling_per_mille =
            self.longest_settling_per_mille.max(other.longest_settling_per_mille);
        self.counts.add(&other.counts);
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} seeds held: {} steps, {} checks, {} hours of virtual time\n{}\nthe slowest group took {} s to settle; \
             none took more than {} % of what its own timeouts allow",
            self.seeds,
            self.steps,
            self.checks,
            self.virtual_ms / 3_600_000,
            self.counts,
            self.longest_settling_ms / 1_000,
            self.longest_settling_per_mille.div_ceil(10)
        )
    }
}

fn say(line: &str) {
    // Nobody is left to tell when standard output is gone.
    let _ = writeln!(std::io::stdout(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_tried_no_seed_fails() {
        let arguments = Arguments::parse_from(["sim", "--seconds", "0"]);
        assert_eq!(explore(&arguments), ExitCode::FAILURE);
        let arguments = Arguments::parse_from(["sim", "--seconds", "0", "--at-least", "0"]);
        assert_eq!(explore(&arguments), ExitCode::SUCCESS);
    }
}
