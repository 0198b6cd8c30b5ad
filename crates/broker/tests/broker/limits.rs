use std::time::Duration;

use coordination::error_code::ErrorCode;
use coordination::op::Op;
use coordination::reply::{Refusal, Reply};
use rail::{Answer, Rail};

use crate::group_world::sync_op;
use crate::world::{World, batch, fetch, produce, records};

impl World {
    async fn limit(&self, org: &str, name: &str, max: Option<u64>) {
        self.broker.admin().set_limits(org, vec![(name.to_owned(), max)]).await.unwrap();
    }

    fn enter(&self) -> Option<Refusal> {
        match self.call(Op::Enter) {
            Answer::Now(Reply::Enter(refusal)) => refusal,
            _ => panic!("a place is given at once"),
        }
    }

    async fn produce_throttle(&self) -> Duration {
        match self.call(produce(1, "orders", vec![(0, batch(100))])).reply().await.unwrap() {
            Reply::Produce(reply) => reply.throttle,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn groups_beyond_the_limit_are_refused_and_others_go_on() {
    let world = World::with_groups().await;
    let acme = world.seen_by(world.org("acme").await, "User:alice");
    acme.create("orders", 1, &[]).await;
    world.limit("acme", "max.groups", Some(1)).await;
    let (member, generation) = acme.stable("one").await;
    assert_eq!(acme.join("two", "").await.result.unwrap_err(), ErrorCode::PolicyViolation);
    assert_eq!(acme.commit("two", "", -1, 1).await, Some(ErrorCode::PolicyViolation));
    assert_eq!(acme.commit("one", &member, generation, 1).await, None);
    world.stable("two").await;
    world.stable("three").await;
    assert_eq!(world.broker.usage(acme.carrier.org()).groups, 1);
    world.limit("acme", "max.groups", None).await;
    assert_eq!(acme.commit("two", "", -1, 1).await, None, "a limit that is lifted is lifted at once");
}

#[tokio::test]
async fn members_beyond_the_limit_are_told_that_their_group_is_full() {
    let world = World::with_groups().await;
    let acme = world.seen_by(world.org("acme").await, "User:alice");
    let (member, generation) = acme.stable("one").await;
    world.limit("acme", "max.members", Some(1)).await;
    assert_eq!(acme.join("one", "").await.result.unwrap_err(), ErrorCode::GroupMaxSizeReached);
    assert_eq!(acme.join("two", "").await.result.unwrap_err(), ErrorCode::GroupMaxSizeReached);
    assert_eq!(acme.heartbeat("one", &member, generation), None);
    let again = acme.join("one", &member).await.result.unwrap();
    let assignment = acme.sync(sync_op("one", &member, again.generation, &[&member])).await;
    assert!(assignment.is_ok(), "who is in may come back");
    assert_eq!(world.broker.usage(acme.carrier.org()).members, 1);
    world.stable("one").await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_refused_by_name() {
    let world = World::new().await;
    let org = world.org("acme").await;
    world.limit("acme", "max.connections", Some(1)).await;
    let (first, second) = (world.seen_by(org, "User:alice"), world.seen_by(org, "User:bob"));
    assert_eq!(first.enter(), None);
    let refusal = second.enter().unwrap();
    assert_eq!(refusal.code, ErrorCode::PolicyViolation);
    assert!(refusal.message.unwrap().contains("max.connections"));
    assert_eq!(world.enter(), None, "others have their own");
    second.broker.leave(&second.carrier);
    assert!(second.enter().is_some());
    first.broker.leave(&first.carrier);
    assert_eq!(second.enter(), None);
    assert_eq!(world.broker.usage(org).connections, 1);
}

#[tokio::test]
async fn bytes_beyond_the_limit_cost_a_pause() {
    let world = World::new().await;
    let acme = world.seen_by(world.org("acme").await, "User:alice");
    for world in [&world, &acme] {
        world.create("orders", 1, &[]).await;
        assert_eq!(world.produce_throttle().await, Duration::ZERO);
    }
    world.limit("acme", "max.bytes.per.second", Some(10)).await;
    let pause = acme.produce_throttle().await;
    assert!(pause > Duration::from_secs(5) && pause <= Duration::from_secs(10), "{pause:?}");
    let first = acme.fetch(fetch("orders", &[(0, 0)])).await;
    assert!(first.throttle > Duration::from_secs(5), "{first:?}");
    assert_eq!(
        records(&first.topics[0].partitions[0].records).len(),
        100,
        "one of two batches is more than can be paid for"
    );
    let second = acme.fetch(fetch("orders", &[(0, 0)])).await;
    assert!(second.throttle > Duration::ZERO && second.throttle <= first.throttle, "{second:?}");
    assert!(second.topics[0].partitions[0].records.is_empty(), "what was read before is paid for first");
    assert_eq!(world.produce_throttle().await, Duration::ZERO, "others are not slowed down");
    world.limit("acme", "max.bytes.per.second", None).await;
    assert_eq!(acme.produce_throttle().await, Duration::ZERO);
    assert_eq!(records(&acme.read("orders", 0, 0).await.records).len(), 300);
}
