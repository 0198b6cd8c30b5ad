//! How long the assigner's decisions take for a large group: 10,000 partitions and 200 consumers.
//!
//! Times are of this machine, so nothing is held against them here: run it with `--ignored --nocapture` and read.

#![expect(clippy::print_stdout, reason = "the times are what a person wants to know")]
#![expect(clippy::unwrap_used, reason = "names that are written here are names")]

use std::time::{Duration, Instant};

use coordination::handoff::{
    Change, Consumer, ConsumerName, Entry, HandoffId, Key, Plan, SessionId, Settings, State, Step, Topic,
    TopicPartition, commands, plan, settle, views,
};

const TOPICS: u32 = 10;
const PARTITIONS: u32 = 1_000;
const CONSUMERS: u32 = 200;
const RUNS: u32 = 21;

#[test]
#[ignore = "a measurement, for a person to read"]
fn a_plan_for_ten_thousand_partitions_and_two_hundred_consumers() {
    for is_mixed in [false, true] {
        println!(
            "{}",
            if is_mixed { "topics, weights, racks and capacities of many kinds" } else { "all alike" }
        );
        let mut state = State::default();
        for number in 0..TOPICS {
            put(
                &mut state,
                Entry::Topic(format!("orders.{number}").parse().unwrap(), topic(number, is_mixed)),
            );
        }
        for number in 0..CONSUMERS {
            put(&mut state, Entry::Consumer(name(number), consumer(number, is_mixed)));
        }
        let first = timed("  first assignment", || decide(&state));
        carry_out(&mut state, &first.steps);
        let _ = timed("  steady state", || decide(&state));

        let mut joined = state.clone();
        put(&mut joined, Entry::Consumer(name(CONSUMERS), consumer(CONSUMERS, is_mixed)));
        let moves = timed("  one joins", || decide(&joined));
        println!("    {} steps", moves.steps.len());
        carry_out(&mut joined, &moves.steps);
        let _ = timed("  handoffs to it under way", || decide(&joined));

        let mut left = state.clone();
        let revision = left.revision + 1;
        left.apply(revision, Change::Delete(Key::Consumer(name(7))));
        let moves = timed("  one leaves", || decide(&left));
        println!("    {} steps", moves.steps.len());

        let mut target_lost = joined.clone();
        let revision = target_lost.revision + 1;
        target_lost.apply(revision, Change::Delete(Key::Consumer(name(CONSUMERS))));
        let settled = timed("  settle when it dies", || {
            settle(&target_lost, &Settings::default(), 2_000, &mut || HandoffId::from_u128(7))
        });
        println!("    {} steps", settled.steps.len());

        let mut doubled = state.clone();
        for number in CONSUMERS..CONSUMERS * 2 {
            put(&mut doubled, Entry::Consumer(name(number), consumer(number, is_mixed)));
        }
        let moves = timed("  two hundred join", || decide(&doubled));
        println!("    {} steps", moves.steps.len());
        carry_out(&mut doubled, &moves.steps);
        timed("  views of all", || views(&doubled));
        timed("  commands of one", || commands(&name(3), None, &doubled));
    }
}

fn timed<T>(what: &str, mut run: impl FnMut() -> T) -> T {
    let mut times = Vec::new();
    for _ in 1..RUNS {
        let began = Instant::now();
        let result = run();
        times.push(began.elapsed());
        drop(result);
    }
    times.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
    let (best, median) = (times[0], times[times.len() / 2]);
    let worst = times[times.len() - 1];
    println!("{what}: best {:.2} ms, median {:.2} ms, worst {:.2} ms", ms(best), ms(median), ms(worst));
    run()
}

fn decide(state: &State) -> Plan {
    let mut minted = 0;
    plan(state, &Settings::default(), 1_000, &mut || {
        minted += 1;
        HandoffId::from_u128(minted)
    })
}

fn carry_out(state: &mut State, steps: &[Step]) {
    let revision = state.revision + 1;
    for write in steps.iter().flat_map(|step| &step.writes) {
        state.apply(revision, write.change.clone());
    }
}

fn put(state: &mut State, entry: Entry) {
    let revision = state.revision + 1;
    state.apply(revision, Change::Put(entry));
}

fn name(number: u32) -> ConsumerName {
    format!("consumer-{number:03}").parse().unwrap()
}

fn topic(number: u32, is_mixed: bool) -> Topic {
    let plain = Topic::new(PARTITIONS);
    if !is_mixed {
        return plain;
    }
    let weights = (0..PARTITIONS).filter(|partition| partition % 9 == 0).map(|partition| (partition, 3));
    let racks = (0..PARTITIONS).map(|partition| (partition, format!("rack-{}", partition % 3)));
    Topic { weight: number % 4 + 1, weights: weights.collect(), racks: racks.collect(), ..plain }
}

fn consumer(number: u32, is_mixed: bool) -> Consumer {
    let plain = Consumer::new(SessionId::from_u128(u128::from(number) + 1), 0);
    if !is_mixed {
        return plain;
    }
    let topics = if number.is_multiple_of(2) { 0..0 } else { 0..TOPICS / 2 };
    let hold = |partition| TopicPartition { topic: "orders.1".parse().unwrap(), partition };
    Consumer {
        capacity: number % 3 + 1,
        rack: Some(format!("rack-{}", number % 3)),
        topics: topics.map(|topic| format!("orders.{topic}").parse().unwrap()).collect(),
        holds: (number * 4..number * 4 + 20).map(hold).collect(),
        ..plain
    }
}
