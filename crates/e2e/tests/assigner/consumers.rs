//! Consumers that vanish in the middle of something.

use assigner_client::RunError;
use coordination::handoff::Phase;

use crate::worker::Worker;
use crate::world::{LONGER_LEASE, World};

#[test]
fn what_someone_who_crashed_was_warming_up_stays_and_goes_to_another() {
    let world = World::start_with(2, 9, &LONGER_LEASE);
    let a = world.worker("a", 0);
    world.rest(&[&a]);
    let description = world.consumer("b", 1);
    let b = Worker::start_held(&world.journal, "b", description, [false, true]);
    world.until("b is to warm four up", || b.hands.warming().len() == 4);
    let begun = world.journal.begun(&a.life);
    let target = b.life.clone();
    b.crash();
    world.until("its handoffs are given up", || {
        let handoffs = world.state().handoffs;
        handoffs.values().all(|handoff| handoff.phase == Phase::Cancelled)
    });
    // Those who were to give something away have not even noticed.
    assert_eq!(world.journal.working(&a.life).len(), 9);
    let c = world.worker("c", 1);
    world.rest(&[&a, &c]);
    assert_eq!(world.journal.begun(&a.life), begun);
    assert_eq!(world.journal.begun(&target), 0);
}

#[test]
fn what_someone_who_crashed_was_to_let_go_goes_to_those_who_are_warm() {
    let world = World::start(2, 6);
    let a = world.worker("a", 0);
    world.rest(&[&a]);
    a.hands.may_let_go(false);
    let b = world.worker("b", 1);
    world.until("a is to let go of three", || a.hands.releasing().len() == 3);
    assert_eq!(world.journal.begun(&b.life), 0, "b begins after a has let go");
    a.crash();
    world.rest(&[&b]);
}

#[test]
fn someone_who_crashed_and_comes_back_at_once_has_its_partitions_again() {
    let world = World::start_with(2, 6, &LONGER_LEASE);
    let a = world.worker("a", 0);
    let b = world.worker("b", 1);
    let before = world.rest(&[&a, &b]);
    a.crash();
    // A new process by the same name waits until the former one must have stopped; nobody else is disturbed.
    let a = world.worker("a", 1);
    let after = world.rest(&[&a, &b]);
    assert_eq!(after.owners, before.owners, "nothing was written");
}

#[test]
fn of_two_processes_with_one_name_the_later_works_and_the_other_has_stopped_before() {
    let world = World::start(2, 6);
    let first = world.worker("a", 0);
    let b = world.worker("b", 0);
    world.rest(&[&first, &b]);
    let second = world.worker("a", 1);
    assert_eq!(first.end(), RunError::Fenced { name: "a".to_owned() });
    world.rest(&[&second, &b]);
}

#[test]
fn the_observer_notices_those_who_work_beside_each_other() {
    // What this mode is for.
    let world = World::start_with(1, 2, &[("handoff_mode", "overlap")]);
    let a = world.worker("a", 0);
    world.rest(&[&a]);
    a.hands.may_let_go(false);
    let b = world.worker("b", 0);
    world.until("b works", || !world.journal.working(&b.life).is_empty());
    let noticed = world.journal.violations();
    assert!(noticed.len() == 1 && noticed[0].contains("while a#1 works on it"), "{noticed:?}");
}
