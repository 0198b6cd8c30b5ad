//! How long the assigner's leader takes to decide for a whole group: in this process, without etcd.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use coordination::handoff::{
    Change, ConsumerName, Entry, HandoffId, Key, Plan, SessionId, Settings, State, TopicName, plan,
};
use serde_json::{Value, json};

use crate::statistics::Times;

/// How large the group is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) partitions: usize,
    /// At least two: one of them leaves.
    pub(crate) consumers: usize,
}

/// How long plans are made before they count, and how long they count, for each occasion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
}

/// What calls for a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    First,
    OneJoins,
    OneLeaves,
    Nothing,
}

impl Occasion {
    pub(crate) const ALL: [Self; 4] = [Self::First, Self::OneJoins, Self::OneLeaves, Self::Nothing];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::First => "first assignment",
            Self::OneJoins => "one joins",
            Self::OneLeaves => "one leaves",
            Self::Nothing => "nothing to do",
        }
    }
}

/// Fewer plans than this say nothing about how long one may take.
const PLANS_AT_LEAST: usize = 5;

/// The time of all decisions; no deadline passes.
const NOW_MS: u64 = 1_000_000;

/// Plans again and again on each occasion, and says how long each plan took. A plan that is not what the occasion calls
/// for is an error.
pub(crate) fn measure(size: Size, effort: Effort) -> Result<Vec<(Occasion, Times)>> {
    Occasion::ALL
        .into_iter()
        .map(|occasion| {
            let state = state_at(size, occasion)?;
            check(size, occasion, &state, &planned(&state))
                .with_context(|| format!("plan, {}", occasion.name()))?;
            Ok((occasion, time(&state, effort)))
        })
        .collect()
}

fn time(state: &State, effort: Effort) -> Times {
    let mut times = Times::default();
    let begun = Instant::now();
    while times.len() < PLANS_AT_LEAST || begun.elapsed() < effort.warmup + effort.duration {
        let before = Instant::now();
        // It is put away after the clock is read.
        let plan = planned(state);
        let took = before.elapsed();
        drop(plan);
        if begun.elapsed() > effort.warmup {
            times.record(took);
        }
    }
    times
}

fn planned(state: &State) -> Plan {
    let mut minted = 0;
    plan(state, &Settings::default(), NOW_MS, &mut || {
        minted += 1;
        HandoffId::from_u128(minted)
    })
}

/// The group just before the plan.
fn state_at(size: Size, occasion: Occasion) -> Result<State> {
    let mut state = State::default();
    put(&mut state, Key::Topic(topic()), &json!({ "version": 1, "partitions": size.partitions }))?;
    for number in 0..size.consumers {
        add_consumer(&mut state, number)?;
    }
    if occasion == Occasion::First {
        return Ok(state);
    }
    let first = planned(&state);
    carry_out(&mut state, first);
    match occasion {
        Occasion::OneJoins => add_consumer(&mut state, size.consumers)?,
        Occasion::OneLeaves => {
            let revision = state.revision + 1;
            state.apply(revision, Change::Delete(Key::Consumer(consumer(0))));
        }
        Occasion::First | Occasion::Nothing => {}
    }
    Ok(state)
}

fn add_consumer(state: &mut State, number: usize) -> Result<()> {
    let value = json!({
        "version": 1,
        "session": SessionId::from_u128(number as u128 + 1).to_string(),
        "state": "ready",
        "registered_ms": 0,
    });
    put(state, Key::Consumer(consumer(number)), &value)
}

/// Takes in a value as the assigner reads it from etcd.
fn put(state: &mut State, key: Key, value: &Value) -> Result<()> {
    let entry = Entry::decode(key, value.to_string().as_bytes()).context("make up a group")?;
    let revision = state.revision + 1;
    state.apply(revision, Change::Put(entry));
    Ok(())
}

fn carry_out(state: &mut State, plan: Plan) {
    for write in plan.steps.into_iter().flat_map(|step| step.writes) {
        let revision = state.revision + 1;
        state.apply(revision, write.change);
    }
}

fn topic() -> TopicName {
    "bench".parse().expect("the name is legal")
}

fn consumer(number: usize) -> ConsumerName {
    format!("consumer-{number}").parse().expect("the name is legal")
}

fn check(size: Size, occasion: Occasion, state: &State, plan: &Plan) -> Result<()> {
    let Size { partitions, consumers } = size;
    let mut after = state.clone();
    let steps = plan.steps.len();
    carry_out(&mut after, plan.clone());
    match occasion {
        Occasion::First => ensure!(steps == partitions, "{steps} steps for {partitions} partitions"),
        Occasion::Nothing => ensure!(steps == 0, "{steps} steps though nothing has changed"),
        Occasion::OneJoins => {
            let fair = partitions / (consumers + 1)..=partitions.div_ceil(consumers + 1);
            ensure!(fair.contains(&steps), "{steps} partitions move to the one that joins, and not {fair:?}");
            let newcomer = consumer(consumers);
            let moving = after.handoffs.values().filter(|stored| stored.value.to == newcomer).count();
            ensure!(moving == steps, "of {steps} steps {moving} are handoffs to the one that joins");
            return Ok(());
        }
        Occasion::OneLeaves => {
            let left = state.assignments.values().filter(|stored| stored.value.owner == consumer(0)).count();
            ensure!(steps == left, "{steps} steps for the {left} partitions of the one that has left");
        }
    }
    let mut owned: BTreeMap<&ConsumerName, usize> = after.consumers.keys().map(|name| (name, 0)).collect();
    for stored in after.assignments.values() {
        let owner = &stored.value.owner;
        *owned.get_mut(owner).with_context(|| format!("{owner} owns a partition and is not there"))? += 1;
    }
    ensure!(after.assignments.len() == partitions, "{} have an owner", after.assignments.len());
    let (least, most) = (owned.values().min(), owned.values().max());
    let is_fair = least.zip(most).is_some_and(|(least, most)| most - least <= 1);
    ensure!(is_fair, "one owns {least:?} partitions and another {most:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { partitions: 103, consumers: 5 };

    #[test]
    fn every_occasion_is_timed() {
        let effort = Effort { warmup: Duration::ZERO, duration: Duration::ZERO };
        for size in [SIZE, Size { partitions: 1, consumers: 2 }] {
            let times = measure(size, effort).expect("plans are as they should be");
            assert_eq!(times.len(), 4);
            for (occasion, times) in times {
                assert!(times.percentile(50) > Duration::ZERO, "{occasion:?}");
            }
        }
    }

    #[test]
    fn a_plan_for_another_occasion_is_no_result() {
        let plan_of = |occasion| planned(&state_at(SIZE, occasion).expect("a group"));
        for (occasion, other) in [
            (Occasion::First, Occasion::Nothing),
            (Occasion::OneJoins, Occasion::First),
            (Occasion::OneLeaves, Occasion::Nothing),
            (Occasion::Nothing, Occasion::OneJoins),
        ] {
            let state = state_at(SIZE, occasion).expect("a group");
            assert!(check(SIZE, occasion, &state, &plan_of(other)).is_err(), "{occasion:?}");
            check(SIZE, occasion, &state, &plan_of(occasion)).expect("its own plan");
        }
    }
}
