//! The same requests to a real Apache Kafka 4.3 and to Kohort, good and bad, scripted and random; the replies are
//! compared field by field, after ids, times and addresses have been given names.
//!
//! A difference is either mended or stands in [`differences`] and in docs/compatibility.md with its reason.

#![expect(clippy::print_stdout, reason = "the number of requests and the seed are of use to who runs it")]

mod differences;
mod many_at_once;
mod names;
mod pair;
mod random;
mod record_scripts;
mod requests;
mod scripts;
mod topic_scripts;

use std::time::{Duration, Instant};

use crate::pair::Pair;
use crate::random::Dice;

#[test]
fn scripted_requests_are_answered_as_kafka_answers_them() {
    let mut pair = Pair::start();
    scripts::run(&mut pair);
    pair.finish();
}

#[test]
fn random_requests_are_answered_as_kafka_answers_them() {
    let seed = number("KOHORT_DIFFERENTIAL_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let budget = Duration::from_secs(number("KOHORT_DIFFERENTIAL_SECONDS").unwrap_or(40));
    println!("replay with KOHORT_DIFFERENTIAL_SEED={seed}");
    let mut pair = Pair::start();
    let mut dice = Dice::new(seed);
    let begun = Instant::now();
    while begun.elapsed() < budget {
        random::step(&mut pair, &mut dice);
    }
    pair.finish();
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
