//! Instances that stand still for longer than their lease and then go on as if nothing had happened.

use assigner_client::proto::kafka_assigner_admin_client::KafkaAssignerAdminClient;
use assigner_client::proto::{StatusRequest, StatusResponse};
use tonic::transport::Endpoint;

use crate::worker::Worker;
use crate::world::{LONGER_LEASE, World};

/// Waits until an instance that was away has seen all that happened meanwhile.
fn wait_until_it_has_caught_up(world: &World, instance: usize) {
    world.until("the instance is ready again", || world.assigners[instance].is_ready());
    let revision = world.revision();
    world.until("the instance has seen everything", || {
        status(world, instance).is_some_and(|status| status.revision >= revision)
    });
}

fn status(world: &World, instance: usize) -> Option<StatusResponse> {
    world.runtime().block_on(async {
        let channel = Endpoint::from_shared(world.assigners[instance].url()).unwrap().connect().await.ok()?;
        let mut admin = KafkaAssignerAdminClient::new(channel);
        Some(admin.status(StatusRequest::default()).await.ok()?.into_inner())
    })
}

#[test]
fn a_leader_that_was_paused_decides_nothing_any_more() {
    let world = World::start_with(3, 8, &LONGER_LEASE);
    let leader = world.wait_for_leader(&[0, 1, 2]);
    let others: Vec<usize> = (0..3).filter(|it| *it != leader).collect();
    let a = world.worker("a", others[0]);
    let b = world.worker("b", others[1]);
    world.rest(&[&a, &b]);
    // It has just heard of someone new, and is about to plan for three.
    let c = world.worker("c", others[0]);
    world.until("c is registered", || world.state().consumers.iter().any(|name| name == "c"));
    world.assigners[leader].pause().unwrap();

    let next = world.wait_for_leader(&others);
    world.rest(&[&a, &b, &c]);
    // The group is another one when it wakes up.
    let d = world.worker("d", others[1]);
    a.stop();
    let before = world.rest(&[&b, &c, &d]);
    world.assigners[leader].resume().unwrap();
    wait_until_it_has_caught_up(&world, leader);
    let after = world.rest(&[&b, &c, &d]);
    assert_eq!(after.owners, before.owners, "nothing was written");
    assert_eq!(world.leader_among(&[0, 1, 2]), Some(next));
    world.until("it knows who leads", || {
        status(&world, leader).is_some_and(|status| status.leader == format!("instance-{next}"))
    });
    assert_eq!(world.rest(&[&b, &c, &d]).owners, before.owners, "nothing was written");
}

#[test]
fn handoffs_that_a_paused_leader_began_are_finished_by_the_next_one() {
    let world = World::start_with(2, 6, &LONGER_LEASE);
    let leader = world.wait_for_leader(&[0, 1]);
    let other = 1 - leader;
    let a = world.worker("a", other);
    world.rest(&[&a]);
    let description = world.consumer("b", other);
    let b = Worker::start_held(&world.journal, "b", description, [false, true]);
    world.until("it is to warm three up", || b.hands.warming().len() == 3);
    world.assigners[leader].pause().unwrap();
    b.hands.may_get_warm(true);
    // Acknowledgements need no leader.
    world.rest(&[&a, &b]);
    world.wait_for_leader(&[other]);
    let c = world.worker("c", other);
    let before = world.rest(&[&a, &b, &c]);
    world.assigners[leader].resume().unwrap();
    wait_until_it_has_caught_up(&world, leader);
    assert_eq!(world.rest(&[&a, &b, &c]).owners, before.owners, "nothing was written");
}

#[test]
fn consumers_of_a_paused_instance_go_elsewhere_and_find_everything_as_it_was() {
    let world = World::start_with(2, 6, &LONGER_LEASE);
    let leader = world.wait_for_leader(&[0, 1]);
    let other = 1 - leader;
    let a = world.worker("a", leader);
    let b = world.worker("b", other);
    world.rest(&[&a, &b]);
    world.assigners[leader].pause().unwrap();
    world.wait_for_leader(&[other]);
    // It can only hear of this by the other instance.
    let c = world.worker("c", other);
    world.rest(&[&a, &b, &c]);
    world.assigners[leader].resume().unwrap();
    wait_until_it_has_caught_up(&world, leader);
    let d = world.worker("d", leader);
    world.rest(&[&a, &b, &c, &d]);
}
