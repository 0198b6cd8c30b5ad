//! Clients that know nothing but the fields with which the original service began.

use std::time::Duration;

use assigner_client::proto::CancelHandoffRequest;
use assigner_client::proto::kafka_assigner_client::KafkaAssignerClient;
use tokio::time::timeout;
use tonic::Code;

use crate::consumer::{Consumer, hand_over, kind, original, partition};
use crate::world::{World, admin, dial, eventually, with_short_leases};

#[tokio::test]
async fn a_partition_is_handed_over_by_those_who_say_only_their_names() {
    let world = World::with_topic("t", 4).await;
    let instance = world.instance(world.settings()).await;
    let mut a = Consumer::register(&instance, original("a", "t")).await;
    a.until_it_owns(4).await;
    let mut b = Consumer::register(&instance, original("b", "t")).await;
    assert!(b.owned.is_empty());
    b.until("to warm up", |b| b.warming.len() == 2).await;
    assert!(b.warming.values().all(|told| told.other == "a"));
    let place = b.warming.keys().next().unwrap().clone();
    let epoch = a.owned[&place];
    hand_over(&mut a, &mut b, 2).await;
    assert_eq!((a.owned.len(), b.owned.len()), (2, 2));
    assert!(b.owned[&place] > epoch, "epochs grow");
}

#[tokio::test]
async fn the_lease_is_renewed_for_as_long_as_the_stream_lives_and_runs_when_it_is_lost() {
    let world = World::with_topic("t", 2).await;
    let instance = world.instance(with_short_leases(world.settings(), 12)).await;
    let mut a = Consumer::register(&instance, original("a", "t")).await;
    a.until_it_owns(2).await;
    // A longer lease that nobody renews shows that the time of the consumer's own is over.
    let lease = world.etcd.grant(Duration::from_secs(15)).await.unwrap();
    let clock = etcd::Write::Put { key: "/clock".to_owned(), value: "".into(), lease: Some(lease) };
    world.etcd.transact(&[], &[clock]).await.unwrap();
    eventually("the clock runs out", async || {
        world.etcd.get("/clock").await.unwrap().is_none().then_some(())
    })
    .await;
    assert!(world.is_registered("a").await);
    let silence = timeout(Duration::ZERO, a.stream.message()).await;
    assert!(silence.is_err(), "it still owns its partitions: {silence:?}");
    let mut b = Consumer::register(&instance, original("b", "t")).await;
    assert!(world.is_registered("a").await);
    drop(a);
    b.until_it_owns(2).await;
    assert!(!world.is_registered("a").await);
}

#[tokio::test]
async fn a_second_process_of_the_same_name_ends_the_stream_of_the_first() {
    let world = World::with_topic("t", 2).await;
    let instance = world.instance(world.settings()).await;
    let mut first = Consumer::register(&instance, original("a", "t")).await;
    first.until_it_owns(2).await;
    let second = Consumer::register(&instance, original("a", "t")).await;
    assert_eq!(kind(&first.until_its_end().await), (Code::Aborted, "superseded"));
    assert_eq!(second.owned, first.owned, "without sessions it may be the same process");
}

#[tokio::test]
async fn a_handoff_that_is_given_up_looks_like_a_partition_that_is_taken_away() {
    let world = World::with_topic("t", 2).await;
    let instance = world.instance(world.settings()).await;
    let mut a = Consumer::register(&instance, original("a", "t")).await;
    a.until_it_owns(2).await;
    let mut b = Consumer::register(&instance, original("b", "t")).await;
    b.until("to warm up", |b| b.warming.len() == 1).await;
    let place = partition(b.warming.keys().next().unwrap());
    let cancel = CancelHandoffRequest { partition: Some(place), ..Default::default() };
    admin(&instance).await.cancel_handoff(cancel).await.unwrap();
    b.until("to hear of it", |b| b.warming.is_empty()).await;
    assert!(b.owned.is_empty());
}

#[tokio::test]
async fn an_instance_that_is_cut_off_from_etcd_sends_its_consumers_elsewhere_in_time() {
    let world = World::with_topic("t", 2).await;
    let instance = world.instance(with_short_leases(world.settings(), 18)).await;
    let other = world.instance(world.settings()).await;
    let mut a = Consumer::register(&instance, original("a", "t")).await;
    a.until_it_owns(2).await;
    let paused = std::time::Instant::now();
    world.node.pause().unwrap();
    let status = a.until_its_end().await;
    let took = paused.elapsed();
    world.node.resume().unwrap();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(took < Duration::from_secs(12), "it took {took:?} of a lease of 18 s");
    let back = eventually("the other instance takes it", async || {
        let client = KafkaAssignerClient::new(dial(&other).await);
        Consumer::register_by(client, a.registration.clone()).await.ok()
    })
    .await;
    assert_eq!(back.owned, a.owned, "nothing has moved meanwhile");
}

#[tokio::test]
async fn a_client_that_goes_away_is_noticed_at_once() {
    let world = World::with_topic("t", 1).await;
    let instance = world.instance(world.settings()).await;
    let streams = |count: &str| {
        let metrics = instance.metrics();
        metrics.lines().any(|line| line == format!("kohort_assigner_streams {count}")).then_some(())
    };
    let a = Consumer::register(&instance, original("a", "t")).await;
    eventually("the stream is counted", async || streams("1")).await;
    let left = std::time::Instant::now();
    drop(a);
    eventually("the stream is over", async || streams("0")).await;
    // Its lease is longer by far.
    assert!(left.elapsed() < Duration::from_secs(20), "{:?}", left.elapsed());
}
