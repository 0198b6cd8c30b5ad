//! Every order of joins, syncs, heartbeats, leaves, deadlines, lost connections, crashes and restarts that a small
//! group can see, with the production machine taking each step.
//!
//! Time passes only when a deadline fires, so that no order hides behind a clock. Records are durable, and replies
//! leave, when the disk says so and not before; a crash takes what it had not said. A state is the way that led to it;
//! two ways are the same state when they leave the same machine, disk, consumers and history behind, apart from the
//! story of past rebalances, which decides nothing.

mod bench;
mod canonical;

use std::hash::{Hash, Hasher};
use std::time::Instant;

use stateright::{Checker as _, Model, Property};

use bench::Bench;

/// What must be possible, or the rest proves nothing.
const STABLE: &str = "everybody is in a stable group";

/// The consumers and how much may happen to them.
#[derive(Clone, Debug)]
struct Scene {
    consumers: Vec<Kind>,
    /// How long a first join phase waits for others.
    initial_delay_ms: u64,
    /// How many generations may be given out.
    generations: i32,
    /// How many times something may happen that is no consumer's plain duty: a deadline, a crash, a restart, a lost
    /// connection, a leave.
    mishaps: u8,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Is given a member id first.
    Dynamic,
    /// Is a member from its first request on.
    Old,
    /// Keeps its name over restarts.
    Static,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Join(usize),
    Sync(usize),
    Heartbeat(usize),
    Leave(usize),
    /// The connection of one that waits breaks.
    Lose(usize),
    /// A consumer forgets everything but its name.
    Restart(usize),
    /// The disk has written what was emitted.
    Flush,
    /// The next deadline has come.
    Deadline,
    Crash(Kept),
}

/// What a crash leaves of what the disk had not confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kept {
    Nothing,
    /// The batch for `__kohort`, which is written first.
    Kohort,
    Everything,
}

#[derive(Clone, Debug)]
struct State {
    way: Vec<Action>,
    next: Vec<Action>,
    fingerprint: u64,
    generation: i32,
    is_stable: bool,
    broken: Option<String>,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fingerprint.hash(state);
    }
}

impl Model for Scene {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![Bench::new(self).into_state(Vec::new())]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_none() {
            actions.extend_from_slice(&state.next);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut way = last.way.clone();
        way.push(action);
        Some(Bench::after(self, &way).into_state(way))
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.generation <= self.generations
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no rule is broken", |_, state: &State| state.broken.is_none()),
            Property::always(
                "once nothing goes wrong any more, the group settles",
                |scene, state: &State| {
                    state.broken.is_some() || Bench::after(scene, &state.way).settles().is_ok()
                },
            ),
            Property::sometimes(STABLE, |_, state: &State| state.is_stable),
        ]
    }
}

/// Goes every way of a scene, and says how many states there are.
#[expect(
    clippy::print_stdout,
    reason = "the number of states is what a person wants to know of a test that holds"
)]
fn check(scene: &Scene) {
    let began = Instant::now();
    let checker = scene.clone().checker().threads(2).spawn_bfs().join();
    for (name, path) in checker.discoveries() {
        if name == STABLE {
            continue;
        }
        let state = path.last_state();
        let why = state.broken.clone().or_else(|| Bench::after(scene, &state.way).settles().err());
        panic!("{name}: {why:?} after {:?}", state.way);
    }
    checker.assert_any_discovery(STABLE);
    println!("{} states in {:?}: {scene:?}", checker.unique_state_count(), began.elapsed());
}

/// How much may go wrong: less in a build without optimisation, which is many times slower.
const fn mishaps(optimised: u8) -> u8 {
    if cfg!(debug_assertions) { optimised - 1 } else { optimised }
}

#[test]
fn two_that_start_together() {
    let consumers = vec![Kind::Dynamic, Kind::Dynamic];
    check(&Scene { consumers, initial_delay_ms: 3_000, generations: 2, mishaps: mishaps(3) });
}

#[test]
fn two_of_which_one_finds_the_other_at_work() {
    let consumers = vec![Kind::Dynamic, Kind::Dynamic];
    let generations = if cfg!(debug_assertions) { 2 } else { 3 };
    check(&Scene { consumers, initial_delay_ms: 0, generations, mishaps: 1 });
}

#[test]
fn a_static_member_and_a_dynamic_one() {
    let consumers = vec![Kind::Dynamic, Kind::Static];
    let generations = if cfg!(debug_assertions) { 2 } else { 3 };
    check(&Scene { consumers, initial_delay_ms: 0, generations, mishaps: 1 });
}

#[test]
fn an_old_client_and_a_new_one() {
    let consumers = vec![Kind::Old, Kind::Dynamic];
    check(&Scene { consumers, initial_delay_ms: 3_000, generations: 2, mishaps: mishaps(3) });
}

#[test]
fn one_static_member_to_which_much_happens() {
    check(&Scene { consumers: vec![Kind::Static], initial_delay_ms: 0, generations: 4, mishaps: mishaps(4) });
}

#[test]
fn three_that_start_together() {
    let consumers = vec![Kind::Dynamic, Kind::Old, Kind::Static];
    check(&Scene { consumers, initial_delay_ms: 3_000, generations: 1, mishaps: mishaps(2) });
}
