//! Who polls too seldom, and who is slow but in time.

use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode;

use crate::reader::{Reader, Told, partitions, until};
use crate::world::World;

/// Proves E2E-09.
#[test]
fn who_polls_too_seldom_leaves_and_joins_again_at_the_next_poll() {
    let world = World::enter("too-seldom");
    let topic = world.create("t", 2);
    let mut seldom = world.settings("g");
    seldom.set("session.timeout.ms", "3000").set("max.poll.interval.ms", "3000");
    let first = Reader::new(&seldom).subscribed(&[&topic]);
    let second = world.reader("g").subscribed(&[&topic]);
    let shared = || first.assignment().len() == 1 && second.assignment().len() == 1;
    until("they share", &[&first, &second], shared);
    let before = world.members("g");
    first.diary().clear();

    let whole = partitions(&topic, 0..2);
    until("one that polls has all", &[&second], || second.assignment() == whole);
    assert_eq!(world.members("g").len(), 1);
    assert!(world.members("g").is_subset(&before));

    until("the other is back", &[&first, &second], || first.met(RDKafkaErrorCode::PollExceeded) && shared());
    assert!(matches!(first.diary().told().first(), Some(Told::Lost(_))), "{first:?}");
    assert_eq!(world.members("g").intersection(&before).count(), 1, "it is back as a new member");
    assert_eq!(world.members("g").len(), 2);
}

/// Proves E2E-10.
#[test]
fn a_callback_slower_than_the_session_and_within_the_poll_interval_costs_nothing() {
    let world = World::enter("slow-callback");
    let topic = world.create("t", 2);
    let mut settings = world.settings("g");
    settings.set("session.timeout.ms", "6000").set("heartbeat.interval.ms", "200");
    let slow = Reader::new(&settings).subscribed(&[&topic]);
    until("it has all", &[&slow], || slow.assignment().len() == 2);
    let before = world.members("g");
    slow.diary().clear();
    slow.diary().dawdle(Duration::from_secs(7));

    let other = world.reader("g").subscribed(&[&topic]);
    until("they share", &[&slow, &other], || slow.assignment().len() == 1 && other.assignment().len() == 1);
    let half = slow.assignment();
    assert_eq!(slow.diary().told(), [Told::Revoked(partitions(&topic, 0..2)), Told::Assigned(half)]);
    assert!(world.members("g").is_superset(&before), "the slow one is still the same member");
    assert_eq!(world.members("g").len(), 2);
    slow.diary().dawdle(Duration::ZERO);
}
