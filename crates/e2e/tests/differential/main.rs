//! The same requests to a real Apache Kafka 4.3 and to Kohort, good and bad, scripted and random; the replies are
//! compared field by field, after ids, times and addresses have been given names. What waits for somebody else, as
//! joins do, is compared, too, by when it is answered.
//!
//! A difference is either mended or stands in [`differences`] and in docs/compatibility.md with its reason.

#![expect(clippy::print_stdout, reason = "the number of requests and the seed are of use to who runs it")]

mod acl_requests;
mod acl_scripts;
mod differences;
mod group_admin_scripts;
mod group_clock_scripts;
mod group_requests;
mod group_scripts;
mod guests;
mod login_scripts;
mod many_at_once;
mod names;
mod offset_scripts;
mod pair;
mod permission_cases;
mod permission_scripts;
mod random;
mod random_groups;
mod record_scripts;
mod requests;
mod scripts;
mod seats;
mod static_member_scripts;
mod topic_scripts;
mod words;

use std::time::{Duration, Instant};

use crate::pair::Pair;
use crate::random::Dice;
use crate::random_groups::Crowd;

#[test]
fn scripted_requests_are_answered_as_kafka_answers_them() {
    let mut pair = Pair::start();
    scripts::run(&mut pair);
    pair.finish();
}

#[test]
fn random_requests_are_answered_as_kafka_answers_them() {
    let (seed, budget) = seed_and_budget();
    let mut pair = Pair::start();
    let mut dice = Dice::new(seed);
    let begun = Instant::now();
    while begun.elapsed() < budget {
        random::step(&mut pair, &mut dice);
    }
    pair.finish();
}

#[test]
fn groups_are_kept_as_kafka_keeps_them() {
    let mut pair = Pair::start_for_groups();
    group_scripts::run(&mut pair);
    static_member_scripts::run(&mut pair);
    offset_scripts::run(&mut pair);
    group_admin_scripts::run(&mut pair);
    group_clock_scripts::run(&mut pair);
    pair.finish();
}

#[test]
fn random_members_are_answered_as_kafka_answers_them() {
    let (seed, budget) = seed_and_budget();
    let mut pair = Pair::start_for_groups();
    pair.impatient = true;
    group_scripts::prepare(&mut pair);
    let mut dice = Dice::new(seed);
    let mut crowd = Crowd::gather(&mut pair);
    let begun = Instant::now();
    while begun.elapsed() < budget {
        crowd.step(&mut pair, &mut dice);
    }
    pair.finish();
}

#[test]
fn who_may_do_what_is_answered_as_kafka_answers_it() {
    let mut pair = Pair::start_with_an_authorizer();
    login_scripts::run(&mut pair);
    acl_scripts::run(&mut pair);
    permission_scripts::run(&mut pair);
    pair.finish();
}

fn seed_and_budget() -> (u64, Duration) {
    let seed = number("KOHORT_DIFFERENTIAL_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let budget = Duration::from_secs(number("KOHORT_DIFFERENTIAL_SECONDS").unwrap_or(40));
    println!("replay with KOHORT_DIFFERENTIAL_SEED={seed}");
    (seed, budget)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
