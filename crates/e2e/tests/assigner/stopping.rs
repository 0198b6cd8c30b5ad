//! Instances that are asked to end.

use std::time::{Duration, Instant};

use crate::worker::Worker;
use crate::world::{World, becomes_so};

#[test]
fn a_leader_that_is_asked_to_end_hands_over_at_once() {
    // Nobody could wait for these to end.
    let leases = [
        ("leader_lease_ttl_secs", "120"),
        ("leader_keepalive_interval_secs", "20"),
        ("consumer_lease_ttl_secs", "120"),
        ("election_retry_interval_secs", "30"),
    ];
    let mut world = World::start_with(2, 6, &leases);
    let leader = world.wait_for_leader(&[0, 1]);
    let other = 1 - leader;
    let a = world.worker("a", leader);
    let b = world.worker("b", other);
    let before = world.rest(&[&a, &b]);
    let begun = world.journal.begun(&a.life);
    let description = world.consumer("c", leader);
    let c = Worker::start_held(&world.journal, "c", description, [false, true]);
    world.until("it is to warm two up", || c.hands.warming().len() == 2);

    let asked = Instant::now();
    world.assigners[leader].ask_to_stop().unwrap();
    world.wait_for_leader(&[other]);
    let after = asked.elapsed();
    println!("another instance leads {after:?} after the leader was asked to end");
    // By themselves, those who do not lead look after half a minute.
    assert!(after < Duration::from_secs(25), "{after:?}");
    c.hands.may_get_warm(true);
    let now = world.rest(&[&a, &b, &c]);
    assert_eq!(now.moved_since(&before), 2);
    assert_eq!(world.journal.begun(&a.life), begun, "its work was not interrupted");
    let mut ended = None;
    let has_ended = becomes_so(|| {
        ended = world.assigners[leader].ended().unwrap();
        ended.is_some()
    });
    assert!(has_ended && ended.is_some_and(|status| status.success()), "{ended:?}");
}
