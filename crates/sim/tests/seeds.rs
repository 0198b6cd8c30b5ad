//! A few seeds for every day. CI and people run many more with the binary.

use std::collections::BTreeSet;

use sim::counts::Counts;
use sim::plan::Plan;
use sim::random::Random;

#[test]
fn these_seeds_hold_and_meet_every_fault() {
    let mut counts = Counts::default();
    for seed in 1..=50 {
        match sim::run(seed, false, None) {
            Ok(summary) => counts.add(&summary.counts),
            Err(failure) => panic!(
                "seed {seed} fails after {} steps at {} ms: {}\nreplay it with: cargo run -p sim --release -- --seed {seed}",
                failure.step, failure.at_ms, failure.message
            ),
        }
    }
    assert_eq!(counts.missing(), Vec::<&str>::new(), "{counts}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| sim::run(seed, false, None).map_err(|failure| failure.message);
    // Some of them have a rail and some have none.
    for seed in 1..=10 {
        assert_eq!(run(seed), run(seed));
    }
    assert_ne!(run(7), run(8));
}

#[test]
fn some_seeds_have_gateways_apart_and_some_have_none() {
    let plans = (1..=50).map(|seed| Plan::new(&mut Random::new(seed)).gateways);
    assert_eq!(plans.collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2, 3]));
}
