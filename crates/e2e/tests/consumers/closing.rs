//! Consumers that close: at rest, and in the middle of a rebalance.

use std::time::{Duration, Instant};

use crate::reader::{Reader, partitions, until};
use crate::world::World;

/// Much less than a session or a rebalance lasts in these tests, and more than a close needs on a busy machine.
const IN_TIME: Duration = Duration::from_secs(15);

/// Proves LEAVE-20, E2E-08: the partitions move at once, long before the session ends.
#[test]
fn a_consumer_that_closes_leaves_at_once() {
    let world = World::enter("leaves");
    let topic = world.create("t", 2);
    let mut settings = world.settings("g");
    settings.set("session.timeout.ms", "60000");
    let [first, second] = [(), ()].map(|()| Reader::new(&settings).subscribed(&[&topic]));
    until("they share", &[&first, &second], || {
        first.assignment().len() == 1 && second.assignment().len() == 1
    });
    assert!(first.close() < IN_TIME);
    // Not after a while: when closing has returned.
    assert_eq!(world.group("g").members.len(), 1);
    let whole = partitions(&topic, 0..2);
    let closed = Instant::now();
    until("the other has all", &[&second], || second.assignment() == whole);
    assert!(closed.elapsed() < IN_TIME, "{:?}", closed.elapsed());
}

/// Two consumers: the first has all and is asked to give up, the second waits to be let in.
fn in_a_rebalance(world: &World) -> (String, Reader, Reader) {
    let topic = world.create("t", 2);
    let mut settings = world.settings("g");
    settings.set("session.timeout.ms", "60000");
    let first = Reader::new(&settings).subscribed(&[&topic]);
    until("the first has all", &[&first], || first.assignment().len() == 2);
    let second = Reader::new(&settings).subscribed(&[&topic]);
    // The first does not poll, so it gives nothing up.
    until("the second waits", &[&second], || {
        let group = world.group("g");
        group.group_state == "PreparingRebalance" && group.members.len() == 2
    });
    (topic, first, second)
}

/// Proves E2E-24: who waits to be let in.
#[test]
fn closing_while_waiting_to_be_let_in_ends_in_time() {
    let world = World::enter("close-waiting");
    let (_, first, second) = in_a_rebalance(&world);
    let took = second.close();
    assert!(took < IN_TIME, "{took:?}");
    // The first was never polled in between; it is not lost.
    until("the first has some", &[&first], || !first.assignment().is_empty());
}

/// Proves E2E-24: who is waited for.
#[test]
fn closing_instead_of_giving_up_ends_in_time_and_lets_the_others_in() {
    let world = World::enter("close-awaited");
    let (topic, first, second) = in_a_rebalance(&world);
    let took = first.close();
    assert!(took < IN_TIME, "{took:?}");
    until("the second has all", &[&second], || second.assignment() == partitions(&topic, 0..2));
    assert_eq!(world.group("g").members.len(), 1);
}
