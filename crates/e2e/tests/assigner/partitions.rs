//! Instances that cannot reach etcd, and consumers that cannot reach instances.

use e2e::relay::Relay;

use crate::worker::Worker;
use crate::world::{LONGER_LEASE, World};

#[test]
fn an_instance_that_is_cut_off_from_etcd_is_left_by_its_consumers() {
    leave_an_instance(Relay::cut);
}

#[test]
fn an_instance_whose_packets_to_etcd_are_lost_is_left_by_its_consumers() {
    leave_an_instance(Relay::freeze);
}

fn leave_an_instance(part: impl Fn(&Relay)) {
    let world = World::start(2, 6);
    let leader = world.wait_for_leader(&[0, 1]);
    let other = 1 - leader;
    let a = world.worker("a", leader);
    let b = world.worker("b", other);
    world.rest(&[&a, &b]);
    let description = world.consumer("c", leader);
    let c = Worker::start_held(&world.journal, "c", description, [false, true]);
    world.until("it is to warm two up", || c.hands.warming().len() == 2);
    part(&world.relays[leader]);
    c.hands.may_get_warm(true);
    world.wait_for_leader(&[other]);
    world.rest(&[&a, &b, &c]);
    // One who asks the instance that is cut off finds the other.
    let d = world.worker("d", leader);
    world.rest(&[&a, &b, &c, &d]);
    world.relays[leader].mend();
    world.until("the instance is ready again", || world.assigners[leader].is_ready());
    let e = world.worker("e", leader);
    world.rest(&[&a, &b, &c, &d, &e]);
}

#[test]
fn a_stand_by_that_was_cut_off_takes_over_when_it_is_needed() {
    let mut world = World::start(2, 4);
    let leader = world.wait_for_leader(&[0, 1]);
    let other = 1 - leader;
    let a = world.worker("a", leader);
    world.rest(&[&a]);
    world.relays[other].freeze();
    let b = world.worker("b", leader);
    world.rest(&[&a, &b]);
    world.relays[other].mend();
    world.assigners[leader].kill().unwrap();
    world.wait_for_leader(&[other]);
    let c = world.worker("c", other);
    world.rest(&[&a, &b, &c]);
}

#[test]
fn a_consumer_that_reaches_nobody_has_stopped_when_others_begin() {
    let world = World::start(2, 6);
    let (a, relays) = world.worker_behind_relays("a", 0);
    let b = world.worker("b", 0);
    world.rest(&[&a, &b]);
    for part in [Relay::cut, Relay::freeze] {
        relays.iter().for_each(part);
        world.until("it has stopped", || world.journal.working(&a.life).is_empty());
        world.rest(&[&b]);
        relays.iter().for_each(Relay::mend);
        // It comes back by itself.
        world.rest(&[&a, &b]);
    }
}

#[test]
fn however_often_a_connection_breaks_nothing_moves() {
    let world = World::start_with(2, 6, &LONGER_LEASE);
    let (a, relays) = world.worker_behind_relays("a", 0);
    let b = world.worker("b", 1);
    let before = world.rest(&[&a, &b]);
    let begun = world.journal.begun(&a.life);
    for round in 0..30 {
        let lease = world.lease("a");
        relays.iter().for_each(Relay::cut);
        relays.iter().for_each(Relay::mend);
        world.until(&format!("it has come back, round {round}"), || {
            let now = world.lease("a");
            now.is_some() && now != lease
        });
    }
    let after = world.rest(&[&a, &b]);
    assert_eq!(after.owners, before.owners, "nothing was written");
    assert_eq!(world.journal.begun(&a.life), begun, "its work was not interrupted");
}
