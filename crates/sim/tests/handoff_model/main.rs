//! Every order of plans, answers, lost streams, crashes, fencings, leaves, expired leases and restarts that a small group
//! of the assigner can see, with the production functions deciding each step.
//!
//! Both instances believe that they lead, all the time, and each decides on what it has heard of etcd, which may be old:
//! whatever a zombie could do, they do. Steps of a plan are carried out in any order, or not at all. What a process says
//! is heard by any instance, late, twice or never. A process that hears nothing works on until it stops by itself.
//! Clocks are left out but for one rule, on which everything rests: a lease ends, and a newcomer is told what it owns,
//! only after all processes that could have counted on another lease have stopped.

#![expect(
    clippy::print_stdout,
    reason = "the number of states is what a person wants to know of a test that holds"
)]

mod canonical;
mod rest;
mod world;

use std::time::Instant;

use coordination::handoff::Mode;
use stateright::{Checker as _, HasDiscoveries, Model, Property};

use sim::random::Random;

use world::{INSTANCES, World};

const EXCLUSIVE: &str = "never two work on a partition";
const LAWFUL: &str = "drained is final, and no handoff is planned twice";
const CONVERGES: &str = "once nothing goes wrong any more, every partition is worked on by who should";
/// What must be possible, or the rest proves nothing.
const MOVED: &str = "a partition is worked on by a process that had none";

/// Who is there, and how much may happen to them.
#[derive(Clone, Debug)]
struct Scene {
    mode: Mode,
    partitions: u32,
    /// Consumers that share the partitions when it begins.
    settled: usize,
    /// Consumers that have just registered then.
    newcomers: usize,
    /// How many processes may be started beside or after those of the same name.
    starts: u8,
    /// How many times something may happen that is nobody's plain duty.
    mishaps: u8,
    flaw: Option<Flaw>,
}

/// Something that is left out on purpose, to see that the model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// A newcomer does not wait for its predecessors.
    NoPredecessors,
    /// A step rests on nothing but what it replaces.
    NoGuards,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    /// An instance hears of all that has happened.
    Sync(usize),
    /// An instance carries out one step of its plan, before or after all deadlines have passed.
    Plan {
        instance: usize,
        step: usize,
        is_late: bool,
    },
    /// An instance carries out one step of what cannot wait.
    Settle {
        instance: usize,
        step: usize,
    },
    /// Another process is started under the name of one.
    Start {
        beside: usize,
        instance: usize,
    },
    /// A process without a stream registers again.
    Register {
        process: usize,
        instance: usize,
    },
    /// A process is told what there is to tell, and obeys.
    Deliver(usize),
    Hear {
        process: usize,
        said: usize,
        instance: usize,
        again: bool,
    },
    Leave {
        process: usize,
        instance: usize,
        is_first: bool,
    },
    SayStopped {
        process: usize,
        instance: usize,
    },
    /// Two thirds of a lease have passed since the process registered.
    Waited(usize),
    /// The lease of a process ends.
    Expire(usize),
    /// A process has not been answered for two thirds of its lease.
    StopItself(usize),
    Crash(usize),
    /// The stream of a process breaks.
    Lose(usize),
    /// An instance is started anew.
    Restart(usize),
    /// An operator gives a handoff up.
    Cancel {
        instance: usize,
        partition: u32,
    },
}

impl Action {
    fn is_mishap(self) -> bool {
        match self {
            Self::Leave { is_first, .. } => is_first,
            Self::Crash(_) | Self::Lose(_) | Self::Restart(_) | Self::Cancel { .. } => true,
            Self::Plan { is_late, .. } => is_late,
            Self::Hear { again, .. } => again,
            _ => false,
        }
    }
}

impl Scene {
    fn possible(&self, world: &World, actions: &mut Vec<Action>) {
        let calm = world.mishaps >= self.mishaps;
        let steps = usize::try_from(self.partitions).expect("few partitions");
        for instance in 0..INSTANCES {
            actions.push(Action::Sync(instance));
            for step in 0..steps {
                actions.push(Action::Plan { instance, step, is_late: false });
                actions.push(Action::Settle { instance, step });
                if !calm && !world.mirrors[instance].state.handoffs.is_empty() {
                    actions.push(Action::Plan { instance, step, is_late: true });
                    actions.push(Action::Cancel { instance, partition: u32::try_from(step).expect("few") });
                }
            }
            if !calm {
                actions.push(Action::Restart(instance));
            }
        }
        for (process, it) in world.processes.iter().enumerate() {
            for instance in 0..INSTANCES {
                for said in 0..it.said.len() {
                    actions.push(Action::Hear { process, said, instance, again: false });
                    if !calm {
                        actions.push(Action::Hear { process, said, instance, again: true });
                    }
                }
                if it.owes_stopped {
                    actions.push(Action::SayStopped { process, instance });
                }
                if world.starts < self.starts {
                    actions.push(Action::Start { beside: process, instance });
                }
                if !it.is_down && it.stream.is_none() {
                    actions.push(Action::Register { process, instance });
                }
                if it.is_leaving || it.stream.is_some() && !calm {
                    actions.push(Action::Leave { process, instance, is_first: !it.is_leaving });
                }
            }
            actions.push(Action::Expire(process));
            if it.is_down {
                continue;
            }
            if it.stream.is_some() {
                actions.extend([Action::Deliver(process), Action::Waited(process)]);
                if !calm {
                    actions.push(Action::Lose(process));
                }
            } else if !it.working.is_empty() {
                actions.push(Action::StopItself(process));
            }
            if !calm {
                actions.push(Action::Crash(process));
            }
        }
    }
}

impl Model for Scene {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.broken.is_none() {
            self.possible(world, actions);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        world.act(action).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSIVE, |_, world: &World| world.two_at_work().is_none()),
            Property::always(LAWFUL, |_, world: &World| world.broken.is_none()),
            Property::always(CONVERGES, |_, world: &World| {
                world.broken.is_some() || world.two_at_work().is_some() || world.clone().rest().is_ok()
            }),
            Property::sometimes(MOVED, |scene, world: &World| {
                let partitions = usize::try_from(scene.partitions).unwrap_or(usize::MAX);
                let mut others = world.processes.iter().skip(scene.settled.min(partitions));
                others.any(|process| !process.working.is_empty())
            }),
        ]
    }
}

/// Goes every way of a scene, and says how many states there are.
fn check(scene: &Scene) {
    let began = Instant::now();
    let checker = scene.clone().checker().threads(2).spawn_bfs().join();
    for (name, path) in checker.discoveries() {
        if name == MOVED {
            continue;
        }
        let last = path.last_state().clone();
        let why = last.broken.clone().or_else(|| last.clone().rest().err());
        panic!("{name}: {why:?} after {:?}\n{last:#?}", path.into_actions());
    }
    checker.assert_any_discovery(MOVED);
    println!("{} states in {:?}: {scene:?}", checker.unique_state_count(), began.elapsed());
}

/// Goes every way until one breaks what should hold.
fn check_that_it_fails(scene: &Scene, property: &'static str) {
    let began = Instant::now();
    let enough = HasDiscoveries::AnyOf([property].into());
    let checker = scene.clone().checker().threads(2).finish_when(enough).spawn_bfs().join();
    let path = checker.assert_any_discovery(property);
    println!("{} states in {:?}: {scene:?}", checker.unique_state_count(), began.elapsed());
    println!("{:?}", path.into_actions());
}

const SCENE: Scene = Scene {
    mode: Mode::Exclusive,
    partitions: 1,
    settled: 1,
    newcomers: 0,
    starts: 0,
    mishaps: 0,
    flaw: None,
};

/// Less in a build without optimisation, which is many times slower.
const fn few(optimised: u8) -> u8 {
    if cfg!(debug_assertions) { optimised / 2 } else { optimised }
}

#[test]
fn one_of_two_partitions_is_handed_to_a_newcomer() {
    check(&Scene { partitions: 2, newcomers: 1, mishaps: few(1), ..SCENE });
}

#[test]
fn much_happens_to_two_who_share_one_partition() {
    check(&Scene { newcomers: 1, mishaps: few(3), ..SCENE });
}

#[test]
fn a_name_is_taken_by_another_process_while_a_partition_is_handed_over() {
    check(&Scene { newcomers: 1, starts: 1, mishaps: few(1), ..SCENE });
}

#[test]
fn a_name_is_taken_again_and_again() {
    check(&Scene { starts: few(3), ..SCENE });
}

#[test]
fn a_name_is_taken_while_partitions_are_handed_over() {
    check(&Scene { partitions: 2, newcomers: 1, starts: few(2), ..SCENE });
}

#[test]
fn three_share_one_partition() {
    check(&Scene { settled: 2, newcomers: 1, mishaps: few(2), ..SCENE });
}

#[test]
fn the_overlap_mode_is_seen_to_have_two_at_work() {
    let mode = Mode::Overlap;
    check_that_it_fails(&Scene { mode, partitions: 2, newcomers: 1, ..SCENE }, EXCLUSIVE);
}

#[test]
fn a_newcomer_that_does_not_wait_is_seen() {
    let flaw = Some(Flaw::NoPredecessors);
    check_that_it_fails(&Scene { starts: 1, mishaps: 1, flaw, ..SCENE }, EXCLUSIVE);
}

#[test]
fn steps_without_guards_are_seen() {
    let flaw = Some(Flaw::NoGuards);
    check_that_it_fails(&Scene { newcomers: 1, starts: 1, mishaps: 1, flaw, ..SCENE }, LAWFUL);
}

/// Longer histories of more consumers than all of which could be gone.
#[test]
fn long_histories_keep_what_short_ones_do() {
    let scene = Scene { partitions: 5, settled: 3, newcomers: 1, starts: 20, mishaps: 40, ..SCENE };
    let first = World::new(&scene);
    let mut moved = 0;
    let seeds = if cfg!(debug_assertions) { 40 } else { 2_000 };
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let mut world = first.clone();
        let mut way = Vec::new();
        for _ in 0..2_000 {
            let mut actions = Vec::new();
            scene.possible(&world, &mut actions);
            let action = *random.pick(&actions);
            // Most of what could happen is a mishap; if most of what happens were, nothing would ever be handed over.
            let is_trouble = action.is_mishap() || matches!(action, Action::Start { .. });
            if is_trouble && !random.per_mille(40) {
                continue;
            }
            let mut next = world.clone();
            if !next.act(action) {
                continue;
            }
            world = next;
            way.push(action);
            assert_eq!(world.two_at_work(), None, "seed {seed} after {way:?}");
            assert_eq!(world.broken, None, "seed {seed} after {way:?}");
        }
        let rest = world.rest();
        assert_eq!(rest, Ok(()), "seed {seed} after {way:?}");
        moved += u64::try_from(world.over.len()).expect("few handoffs");
    }
    assert!(moved > seeds * 4, "{moved} handoffs are too few to show anything");
    println!("{moved} handoffs in {seeds} histories");
}
