//! Kohort is killed at random moments under load, again and again, and nothing that was acknowledged is lost; as one
//! process, and as a broker with gateways apart from it, of which any may be killed or cut off.
//!
//! `KOHORT_CRASH_KILLS` says how often (5 unless told otherwise), `KOHORT_CRASH_SEED` repeats the moments of a run.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test ends where something is not as it should be"
)]

mod groups;
mod load;
mod reader;
#[path = "../support/mod.rs"]
mod support;
mod victim;

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::load::{Guarantee, Producer};
use crate::reader::{Gaps, Reader, read_to_end};
use crate::victim::{Apart, Victim, Whole};

/// The topic that several idempotent producers share.
const ONCE: &str = "once";
/// The topic of the producer without idempotence.
const AT_LEAST_ONCE: &str = "at-least-once";
/// The topic that is compacted all the while.
const COMPACTED: &str = "compacted";
const OFTEN_COMPACTED: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("segment.ms", "200"), ("min.cleanable.dirty.ratio", "0.01")];
const PARTITIONS: i32 = 4;
const PRODUCERS: usize = 3;

// Small files, so that kills also meet files being closed, settled and removed.
const SMALL_FILES: [(&str, &str); 4] = [
    ("kohort.log.file.bytes", "1048576"),
    ("kohort.settle.interval.ms", "100"),
    ("log.cleaner.backoff.ms", "50"),
    ("log.segment.bytes", "1048576"),
];

#[test]
fn acknowledged_records_are_there_once_and_in_order_after_every_kill() {
    records_survive(Whole::start(&SMALL_FILES));
}

#[test]
fn acknowledged_records_survive_kills_of_gateways_and_their_broker() {
    records_survive(Apart::start(&SMALL_FILES));
}

fn records_survive(mut victim: impl Victim) {
    let kills: u32 = number("KOHORT_CRASH_KILLS").unwrap_or(5);
    let seed: u64 = number("KOHORT_CRASH_SEED").unwrap_or_else(rand::random);
    println!("{kills} kills, KOHORT_CRASH_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);

    let bootstrap = victim.bootstrap();
    load::create_topic(&bootstrap, ONCE, PARTITIONS, &[]);
    load::create_topic(&bootstrap, AT_LEAST_ONCE, PARTITIONS, &[]);
    load::create_topic(&bootstrap, COMPACTED, PARTITIONS, &OFTEN_COMPACTED);

    let reader = Reader::start(&bootstrap, ONCE, PARTITIONS);
    let producers: Vec<_> =
        (0..PRODUCERS).map(|id| Producer::start(&bootstrap, ONCE, id, PARTITIONS, Guarantee::Once)).collect();
    let plain = Producer::start(&bootstrap, AT_LEAST_ONCE, PRODUCERS, PARTITIONS, Guarantee::AtLeastOnce);
    let keyed = Producer::start(&bootstrap, COMPACTED, PRODUCERS + 1, PARTITIONS, Guarantee::Once);

    let started = Instant::now();
    let mut slowest = Duration::ZERO;
    for _ in 0..kills {
        // The moment is what is random here, so it has to be waited for.
        thread::sleep(Duration::from_millis(random.random_range(0..400)));
        slowest = slowest.max(victim.strike(&mut random));
    }

    let sent: Vec<_> = producers.into_iter().map(Producer::finish).collect();
    let (plain, keyed) = (plain.finish(), keyed.finish());
    println!("killed {kills} times in {:.1} s; slowest start {slowest:?}", started.elapsed().as_secs_f64());
    let acknowledged: usize = sent.iter().map(|it| it.acknowledged()).sum();
    println!("{acknowledged} records acknowledged once, {} at least once", plain.acknowledged());
    println!("{} records acknowledged in the compacted topic", keyed.acknowledged());
    assert!(
        acknowledged > 0,
        "nothing was acknowledged, so nothing was tested; Kohort said:\n{}",
        victim.output()
    );

    let found = read_to_end(&bootstrap, ONCE, PARTITIONS, Gaps::Forbidden);
    for (partition, records) in (0..).zip(&found) {
        for producer in &sent {
            producer.check_once_in_order(partition, records);
        }
    }
    let in_log: usize = found.iter().map(Vec::len).sum();
    let sent_in_all: usize = sent.iter().map(|it| it.sent()).sum();
    assert_eq!(in_log, sent_in_all, "the log holds records that nobody sent, or one twice");
    reader.finish().check_against(&found);

    let found = read_to_end(&bootstrap, AT_LEAST_ONCE, PARTITIONS, Gaps::Forbidden);
    for (partition, records) in (0..).zip(&found) {
        plain.check_at_least_once(partition, records);
    }

    let found = read_to_end(&bootstrap, COMPACTED, PARTITIONS, Gaps::Allowed);
    println!("{} records left in the compacted topic", found.iter().map(Vec::len).sum::<usize>());
    for (partition, records) in (0..).zip(&found) {
        keyed.check_last_of_each_key(partition, records);
    }
}

fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    env::var(name).ok()?.parse().ok()
}
