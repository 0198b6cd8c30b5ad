//! Consumers that leave.

use assigner_client::proto::DeregisterAction::{ShutdownNow, WaitForDrain};
use tonic::Code;

use crate::consumer::{Consumer, hand_over, kind, newer, original};
use crate::world::{World, eventually};

#[tokio::test]
async fn whoever_leaves_others_behind_gives_everything_away_first() {
    let world = World::with_topic("t", 4).await;
    let instance = world.instance(world.settings()).await;
    let mut a = Consumer::register(&instance, newer("a", "t")).await;
    a.until_it_owns(4).await;
    let mut b = Consumer::register(&instance, newer("b", "t")).await;
    hand_over(&mut a, &mut b, 2).await;

    assert_eq!(b.deregister(false).await.unwrap(), WaitForDrain);
    assert_eq!(b.deregister(false).await.unwrap(), WaitForDrain, "it still owns partitions");
    hand_over(&mut b, &mut a, 2).await;
    assert_eq!(b.deregister(false).await.unwrap(), ShutdownNow);
    assert!(world.is_registered("b").await, "it has not stopped yet");
    assert_eq!(b.deregister(true).await.unwrap(), ShutdownNow);
    assert!(!world.is_registered("b").await);
    assert_eq!(b.until_its_end().await.code(), Code::Unavailable);
    assert_eq!(a.owned.len(), 4);
    // The answer may have been lost.
    assert_eq!(b.deregister(true).await.unwrap(), ShutdownNow);
    assert_eq!(kind(&b.deregister(false).await.unwrap_err()), (Code::NotFound, "unknown-consumer"));
}

#[tokio::test]
async fn whoever_is_alone_stops_at_once_and_the_next_one_need_not_wait_for_a_lease() {
    let world = World::with_topic("t", 2).await;
    let instance = world.instance(world.settings()).await;
    let mut a = Consumer::register(&instance, newer("a", "t")).await;
    a.until_it_owns(2).await;
    assert_eq!(a.deregister(false).await.unwrap(), ShutdownNow);
    assert_eq!(a.deregister(true).await.unwrap(), ShutdownNow);
    let mut b = Consumer::register(&instance, newer("b", "t")).await;
    b.until_it_owns(2).await;
}

#[tokio::test]
async fn what_someone_owned_who_has_stopped_in_a_hurry_goes_to_the_others_at_once() {
    let world = World::with_topic("t", 4).await;
    let instance = world.instance(world.settings()).await;
    let mut a = Consumer::register(&instance, newer("a", "t")).await;
    a.until_it_owns(4).await;
    let mut b = Consumer::register(&instance, newer("b", "t")).await;
    b.until("to warm up", |b| b.warming.len() == 2).await;
    assert_eq!(a.deregister(true).await.unwrap(), ShutdownNow);
    b.until_it_owns(4).await;
}

#[tokio::test]
async fn a_client_of_the_original_contract_leaves_by_closing_its_stream_after_it_was_told_to() {
    let world = World::with_topic("t", 2).await;
    let instance = world.instance(world.settings()).await;
    let mut a = Consumer::register(&instance, original("a", "t")).await;
    a.until_it_owns(2).await;
    let mut b = Consumer::register(&instance, original("b", "t")).await;
    assert_eq!(a.deregister(false).await.unwrap(), WaitForDrain);
    hand_over(&mut a, &mut b, 2).await;
    assert_eq!(a.deregister(false).await.unwrap(), ShutdownNow);
    assert!(world.is_registered("a").await);
    drop(a);
    eventually("a is gone long before its lease ends", async || {
        (!world.is_registered("a").await).then_some(())
    })
    .await;

    // One that only loses its connection keeps its lease.
    drop(b);
    let c = Consumer::register(&instance, original("c", "t")).await;
    assert!(world.is_registered("b").await);
    drop(c);
}

#[tokio::test]
async fn whoever_leaves_while_a_former_process_may_work_keeps_the_name_until_the_lease_ends() {
    let world = World::with_topic("t", 2).await;
    let instance = world.instance(world.settings()).await;
    let mut former = Consumer::register(&instance, newer("a", "t")).await;
    former.until_it_owns(2).await;
    let mut a = Consumer::register(&instance, original("a", "t")).await;
    assert_eq!(former.until_its_end().await.code(), Code::Aborted);
    assert_eq!(a.deregister(false).await.unwrap(), ShutdownNow);
    drop(a);
    eventually("its stream is forgotten", async || {
        instance.metrics().contains("kohort_assigner_streams 0").then_some(())
    })
    .await;
    assert!(world.is_registered("a").await, "the former process has not said that it has stopped");
}
