//! Processes that come back, and processes that take each other's place.

use std::time::{Duration, Instant};

use assigner_client::proto::kafka_assigner_client::KafkaAssignerClient;
use assigner_client::proto::{DeregisterAction, ListHandoffsRequest, RegisterRequest};
use tonic::Code;

use crate::consumer::{Consumer, hand_over, kind, newer, original};
use crate::world::{World, admin, dial, with_short_leases};

#[tokio::test]
async fn whoever_comes_back_within_its_lease_finds_everything_as_it_was() {
    let world = World::with_topic("t", 4).await;
    let (one, other) = (world.instance(world.settings()).await, world.instance(world.settings()).await);
    let mut a = Consumer::register(&one, newer("a", "t")).await;
    a.until_it_owns(4).await;
    assert_eq!((a.lease_ttl_ms, a.keep_alive_interval_ms), (120_000, 5_000));
    let mut b = Consumer::register(&one, newer("b", "t")).await;
    b.until("to warm up", |b| b.warming.len() == 2).await;
    let (owned, warming) = (a.owned.clone(), b.warming.clone());

    // At the other instance as well as at the same one, Warm is said again.
    let mut b = b.reconnect(&other).await;
    b.until("to warm up again", |b| b.warming.len() == 2).await;
    assert_eq!(b.warming, warming, "the same handoffs");
    let place = warming.keys().next().unwrap().clone();
    b.ready(&place).await.unwrap();
    a.until("to let go", |a| a.releasing.contains_key(&place)).await;
    let releasing = a.releasing.clone();

    let mut a = a.reconnect(&other).await;
    assert_eq!(a.owned, owned);
    a.until("to be told again to let go", |a| a.releasing.contains_key(&place)).await;
    assert_eq!(a.releasing, releasing);
    a.released(&place).await.unwrap();
    b.until("to own it", |b| b.owned.contains_key(&place)).await;
    assert_eq!(b.owned[&place], warming[&place].epoch);
    b.until("to warm up still", |b| b.warming.len() == 1).await;
    hand_over(&mut a, &mut b, 1).await;
}

#[tokio::test]
async fn however_often_someone_comes_back_nothing_moves() {
    let world = World::with_topic("t", 6).await;
    let instances = [world.instance(world.settings()).await, world.instance(world.settings()).await];
    let mut a = Consumer::register(&instances[0], newer("a", "t")).await;
    a.until_it_owns(6).await;
    let mut b = Consumer::register(&instances[0], original("b", "t")).await;
    hand_over(&mut a, &mut b, 3).await;
    let owned = (a.owned.clone(), b.owned.clone());
    for number in 1..=25 {
        a = a.reconnect(&instances[number % 2]).await;
        b = b.reconnect(&instances[number / 2 % 2]).await;
        assert_eq!((&a.owned, &b.owned), (&owned.0, &owned.1), "after {number}");
    }
    a.keep_alive().await.unwrap();
    let handoffs = admin(&instances[0]).await.list_handoffs(ListHandoffsRequest::default()).await;
    assert!(handoffs.unwrap().into_inner().handoffs.is_empty());
}

#[tokio::test]
async fn a_stream_that_the_same_process_has_replaced_is_ended() {
    let world = World::with_topic("t", 1).await;
    let instance = world.instance(world.settings()).await;
    let mut former = Consumer::register(&instance, newer("a", "t")).await;
    former.until_it_owns(1).await;
    let again = Consumer::register(&instance, former.registration.clone()).await;
    assert_eq!(kind(&former.until_its_end().await), (Code::Aborted, "superseded"));
    assert_eq!(again.owned, former.owned);
    // It is one process, so whichever connection it uses.
    former.keep_alive().await.unwrap();
}

#[tokio::test]
async fn a_newcomer_gets_the_partitions_when_the_fenced_one_says_that_it_has_stopped() {
    let world = World::with_topic("t", 2).await;
    let (one, other) = (world.instance(world.settings()).await, world.instance(world.settings()).await);
    let mut first = Consumer::register(&one, newer("a", "t")).await;
    first.until_it_owns(2).await;
    let mut second = Consumer::register(&other, newer("a", "t")).await;
    assert!(second.owned.is_empty(), "the first one may still work");
    assert_eq!(kind(&first.until_its_end().await), (Code::Aborted, "fenced"));
    assert_eq!(kind(&first.keep_alive().await.unwrap_err()), (Code::Aborted, "fenced"));
    let again = KafkaAssignerClient::new(dial(&one).await);
    let back = Consumer::register_by(again, first.registration.clone()).await.err().unwrap();
    assert_eq!(kind(&back), (Code::Aborted, "fenced"));

    first.deregister(true).await.unwrap();
    second.until_it_owns(2).await;
    assert_eq!(second.owned, first.owned, "the partitions have not moved");
    first.deregister(true).await.unwrap();
    second.keep_alive().await.unwrap();
}

#[tokio::test]
async fn a_newcomer_waits_for_a_whole_lease_if_nothing_is_heard_of_the_fenced_one() {
    let world = World::with_topic("t", 2).await;
    let instance = world.instance(with_short_leases(world.settings(), 6)).await;
    let mut first = Consumer::register(&instance, newer("a", "t")).await;
    first.until_it_owns(2).await;
    first.keep_alive().await.unwrap();
    let last_sign_of_life = Instant::now();
    let mut second = Consumer::register(&instance, newer("a", "t")).await;
    assert!(second.owned.is_empty());
    let (mut living, mut calls) = (second.client.clone(), 0);
    let request = assigner_client::proto::KeepAliveRequest {
        consumer_name: "a".to_owned(),
        session: second.registration.session.clone(),
        ..Default::default()
    };
    let signs_of_life = async {
        loop {
            living.keep_alive(request.clone()).await.unwrap();
            calls += 1;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    tokio::select! {
        () = second.until_it_owns(2) => {}
        () = signs_of_life => {}
    }
    // The fenced one begins to stop after four seconds; the rest is for what it has under way.
    assert!(last_sign_of_life.elapsed() >= Duration::from_secs(6), "{:?}", last_sign_of_life.elapsed());
    assert_eq!(second.owned, first.owned);
    assert!(calls > 0);

    // Now the fenced one is heard of again. The name is not its own any more, though nobody waits for it.
    let again = KafkaAssignerClient::new(dial(&instance).await);
    let back = Consumer::register_by(again, first.registration.clone()).await.err().unwrap();
    assert_eq!(kind(&back), (Code::Aborted, "fenced"));
    second.keep_alive().await.unwrap();
}

#[tokio::test]
async fn a_process_of_the_original_contract_speaks_for_nobody_who_has_a_session() {
    let world = World::with_topic("t", 1).await;
    let instance = world.instance(world.settings()).await;
    let mut old = Consumer::register(&instance, original("a", "t")).await;
    old.until_it_owns(1).await;
    let mut b = Consumer::register(&instance, newer("b", "t")).await;
    assert_eq!(old.deregister(false).await.unwrap(), DeregisterAction::WaitForDrain);
    b.until("to warm up", |b| b.warming.len() == 1).await;
    let place = b.warming.keys().next().unwrap().clone();
    b.ready(&place).await.unwrap();
    old.until("to let go", |old| old.releasing.len() == 1).await;

    // Its successor has the name before the old process has finished what it was told to.
    let mut new = Consumer::register(&instance, newer("a", "t")).await;
    new.until("to let go", |new| new.releasing.len() == 1).await;
    assert_eq!(kind(&old.released(&place).await.unwrap_err()), (Code::Aborted, "fenced"));
    assert_eq!(kind(&old.ready(&place).await.unwrap_err()), (Code::Aborted, "fenced"));
    assert_eq!(kind(&old.deregister(false).await.unwrap_err()), (Code::Aborted, "fenced"));
    assert_eq!(kind(&old.keep_alive().await.unwrap_err()), (Code::Aborted, "fenced"));
    old.deregister(true).await.unwrap();
    new.keep_alive().await.unwrap();
    assert!(b.owned.is_empty());
    new.released(&place).await.unwrap();
    b.until_it_owns(1).await;
}

#[tokio::test]
async fn a_lease_is_as_long_as_the_one_that_a_former_process_was_promised() {
    let world = World::with_topic("t", 1).await;
    let former = world.instance(world.settings()).await;
    let later = world.instance(with_short_leases(world.settings(), 6)).await;
    let first = Consumer::register(&former, newer("a", "t")).await;
    assert_eq!(first.lease_ttl_ms, 120_000);
    let back = first.reconnect(&later).await;
    assert_eq!(back.lease_ttl_ms, 120_000);
    let second = Consumer::register(&later, newer("a", "t")).await;
    assert_eq!(second.lease_ttl_ms, 120_000);
    let other = Consumer::register(&later, newer("b", "t")).await;
    assert_eq!(other.lease_ttl_ms, 6_000);
}

#[tokio::test]
async fn nobody_but_the_client_renews_the_lease_of_one_that_has_a_session() {
    let world = World::with_topic("t", 1).await;
    let instance = world.instance(with_short_leases(world.settings(), 8)).await;
    let mut a = Consumer::register(&instance, newer("a", "t")).await;
    a.until_it_owns(1).await;
    assert_eq!(kind(&a.until_its_end().await), (Code::Unavailable, "unregistered"));
    assert_eq!(kind(&a.keep_alive().await.unwrap_err()), (Code::NotFound, "unknown-consumer"));
}

#[tokio::test]
async fn an_instance_that_stops_sends_its_consumers_elsewhere_and_nothing_moves() {
    let world = World::with_topic("t", 4).await;
    let (one, other) = (world.instance(world.settings()).await, world.instance(world.settings()).await);
    let mut a = Consumer::register(&one, newer("a", "t")).await;
    a.until_it_owns(4).await;
    let stopping = tokio::spawn(one.stop());
    let status = a.until_its_end().await;
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    crate::world::within("the end of the instance", stopping).await.unwrap();
    let owned = a.owned.clone();
    let mut a = a.reconnect(&other).await;
    assert_eq!(a.owned, owned);
    // The other one leads now, and hands over what this one has.
    let mut b = Consumer::register(&other, newer("b", "t")).await;
    hand_over(&mut a, &mut b, 2).await;
}

#[tokio::test]
async fn an_instance_that_is_dropped_takes_its_streams_with_it() {
    let world = World::with_topic("t", 1).await;
    let instance = world.instance(world.settings()).await;
    let mut a = Consumer::register(&instance, newer("a", "t")).await;
    a.until_it_owns(1).await;
    drop(instance);
    assert_eq!(a.until_its_end().await.code(), Code::Unavailable);
}

#[tokio::test]
async fn groups_do_not_see_each_other() {
    let world = World::with_topic("t", 2).await;
    world.add_topic(Some("g"), "t", 3).await;
    let instance = world.instance(world.settings()).await;
    let mut nameless = Consumer::register(&instance, newer("a", "t")).await;
    let in_group = RegisterRequest { group: "g".to_owned(), ..newer("a", "t") };
    let mut grouped = Consumer::register(&instance, in_group).await;
    nameless.until_it_owns(2).await;
    grouped.until_it_owns(3).await;
}
