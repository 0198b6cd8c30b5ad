//! Clients whose organisation has used up its bytes are kept waiting.

use std::time::{Duration, Instant};

use coordination::reply::Reply;
use gateway::Options;
use wire::api::produce::ProduceRequest;

use crate::script::{Call, Running, describe, fetch, produce, reply_to};

const THROTTLE: Duration = Duration::from_millis(300);

#[tokio::test]
async fn an_answer_that_throttles_leaves_at_once_and_nothing_starts_for_that_time() {
    let mut gateway = Running::start(Options::default());
    *gateway.script.throttle.lock() = THROTTLE;
    let mut client = gateway.connect().await;
    let begun = Instant::now();
    client.send(&[produce(1, "t", 1, 10), describe(2)].concat()).await;
    let answer = client.receive().await.expect("an answer");
    let (id, answer) = wire::decode_response::<ProduceRequest>(answer, 9).expect("a well-formed answer");
    assert_eq!((id, answer.throttle_time_ms), (1, 300));
    let first = gateway.next_call().await;
    assert_eq!(first.mark(), 1);
    if begun.elapsed() < THROTTLE {
        // On a busy machine it may be over already.
        assert!(gateway.calls.try_recv().is_err() || begun.elapsed() >= THROTTLE);
    }
    assert_eq!(client.receive_id().await, Some(2));
    assert!(begun.elapsed() >= THROTTLE, "{:?}", begun.elapsed());
    assert_eq!(gateway.metric("throttled_total"), Some(1.0));
}

#[tokio::test]
async fn producers_on_other_connections_of_the_organisation_wait_too() {
    let gateway = Running::start(Options::default());
    *gateway.script.throttle.lock() = THROTTLE;
    let mut first = gateway.connect().await;
    let begun = Instant::now();
    first.send(&produce(1, "t", 1, 10)).await;
    assert_eq!(first.receive_id().await, Some(1));
    let mut second = gateway.connect().await;
    second.send(&[describe(2), produce(3, "t", 1, 10)].concat()).await;
    assert_eq!(second.receive_id().await, Some(2));
    assert_eq!(second.receive_id().await, Some(3));
    assert!(begun.elapsed() >= THROTTLE, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn nobody_waits_again_for_what_others_have_taken_meanwhile() {
    let mut gateway = Running::start(Options::default());
    let (mut first, mut second) = (gateway.connect().await, gateway.connect().await);
    first.send(&produce(1, "t", -1, 10)).await;
    let asked_first = gateway.next_call().await;
    second.send(&produce(2, "t", -1, 10)).await;
    let asked_second = gateway.next_call().await;
    answer(asked_first, THROTTLE);
    assert_eq!(first.receive_id().await, Some(1));
    let mut third = gateway.connect().await;
    third.send(&[describe(3), produce(4, "t", 1, 10)].concat()).await;
    assert_eq!(third.receive_id().await, Some(3));
    answer(asked_second, Duration::from_secs(3600));
    assert_eq!(second.receive_id().await, Some(2));
    assert_eq!(third.receive_id().await, Some(4));
}

/// Answers a produce request that waits.
fn answer(call: Call, throttle: Duration) {
    let Reply::Produce(mut reply) = reply_to(&call.op) else { panic!("a Produce was sent") };
    reply.throttle = throttle;
    call.reply.expect("it waits").send(Reply::Produce(reply)).expect("the connection waits");
}

#[tokio::test]
async fn a_fetch_and_a_producer_without_answers_are_throttled_too() {
    let mut gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    client.send(&[fetch(1), describe(2)].concat()).await;
    let call = gateway.next_call().await;
    let Reply::Fetch(mut reply) = reply_to(&call.op) else { panic!("a Fetch was sent") };
    reply.throttle = THROTTLE;
    let begun = Instant::now();
    call.reply.expect("it waits").send(Reply::Fetch(reply)).expect("the connection waits");
    assert_eq!(client.receive_id().await, Some(1));
    assert_eq!(client.receive_id().await, Some(2));
    assert!(begun.elapsed() >= THROTTLE, "{:?}", begun.elapsed());

    *gateway.script.throttle.lock() = THROTTLE;
    let begun = Instant::now();
    client.send(&[produce(3, "t", 0, 10), describe(4)].concat()).await;
    assert_eq!(client.receive_id().await, Some(4));
    assert!(begun.elapsed() >= THROTTLE, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_connection_that_is_kept_waiting_is_not_idle() {
    let idle = Duration::from_millis(150);
    let gateway = Running::start(Options { connections_max_idle: idle, ..Options::default() });
    *gateway.script.throttle.lock() = THROTTLE;
    let mut client = gateway.connect().await;
    client.send(&[produce(1, "t", 1, 10), describe(2)].concat()).await;
    assert_eq!(client.receive_id().await, Some(1));
    assert_eq!(client.receive_id().await, Some(2));
}

#[tokio::test]
async fn a_drain_answers_what_was_read_from_a_client_that_is_kept_waiting_and_waits_no_longer() {
    let mut gateway = Running::start(Options::default());
    *gateway.script.throttle.lock() = Duration::from_secs(3600);
    let mut client = gateway.connect().await;
    client.send(&[produce(1, "t", 1, 10), produce(2, "t", 1, 10), describe(3)].concat()).await;
    assert_eq!(client.receive_id().await, Some(1));
    gateway.stop();
    assert_eq!(client.receive_id().await, Some(2));
    assert_eq!(client.receive_id().await, Some(3));
    assert!(client.is_closed().await);
    assert_eq!(gateway.stopped().await, 0);
}
