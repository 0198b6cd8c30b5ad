//! Stopping answers what was asked.

use std::time::Duration;

use gateway::Options;
use tokio::net::TcpStream;

use crate::script::{Call, Client, Running, commit, describe, fetch, join, produce, soon};

#[tokio::test]
async fn requests_that_were_read_are_answered_before_the_gateway_stops() {
    let mut gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    client.send(&[produce(1, "t", -1, 10), produce(2, "t", -1, 10), describe(3)].concat()).await;
    let first = gateway.next_call().await;
    let second = gateway.next_call().await;
    let mut idle = gateway.connect().await;
    idle.send(&describe(1)).await;
    assert_eq!(idle.receive_id().await, Some(1));

    gateway.stop();
    assert!(idle.is_closed().await, "a connection that owes nothing is closed at once");
    // No new connections, as soon as the listener has heard of it too.
    soon(async {
        while TcpStream::connect(gateway.addrs[0]).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    first.answer();
    second.answer();
    for id in 1..=3 {
        assert_eq!(client.receive_id().await, Some(id));
    }
    assert!(client.is_closed().await);
    drop(client);
    assert_eq!(gateway.stopped().await, 0);
}

#[tokio::test]
async fn a_drain_does_not_wait_for_ever() {
    let options = Options { drain_timeout: Duration::from_millis(50), ..Options::default() };
    let mut gateway = Running::start(options);
    let mut client = gateway.connect().await;
    client.send(&produce(1, "t", -1, 10)).await;
    let _owed = gateway.next_call().await;
    gateway.stop();
    assert!(client.is_closed().await);
    drop(client);
    gateway.stopped().await;
}

#[tokio::test]
async fn a_drain_waits_for_what_was_produced_and_not_for_what_is_parked() {
    let options = Options { drain_parked_timeout: Duration::from_millis(50), ..Options::default() };
    let mut gateway = Running::start(options);
    let mut producer = gateway.connect().await;
    producer.send(&produce(1, "t", -1, 10)).await;
    let produced = gateway.next_call().await;
    let mut parked = Vec::new();
    for request in [fetch(1), join(1)] {
        let mut client = gateway.connect().await;
        client.send(&request).await;
        parked.push((client, gateway.next_call().await));
    }
    // The join is parked only when the broker has taken the commit before it.
    let mut member = gateway.connect().await;
    member.send(&[commit(1), join(2)].concat()).await;
    let committed = gateway.next_call().await;

    gateway.stop();
    for (client, _) in &mut parked {
        assert!(client.is_closed().await);
    }
    committed.answer();
    assert_eq!(member.receive_id().await, Some(1));
    let _joining = gateway.next_call().await;
    assert!(member.is_closed().await);
    produced.answer();
    assert_eq!(producer.receive_id().await, Some(1));
    assert!(producer.is_closed().await);
    drop((producer, member, parked));
    assert_eq!(gateway.stopped().await, 0);
}

/// A client whose first request is parked, at a gateway where nobody would wait for that on its own.
async fn with_one_behind_a_parked_one() -> (Running, Client, Call) {
    let options = Options { drain_parked_timeout: Duration::ZERO, ..Options::default() };
    let mut gateway = Running::start(options);
    let mut client = gateway.connect().await;
    client.send(&[fetch(1), produce(2, "t", -1, 10)].concat()).await;
    let parked = gateway.next_call().await;
    (gateway, client, parked)
}

#[tokio::test]
async fn a_drain_answers_what_is_no_longer_parked_and_starts_what_came_behind_it() {
    let (mut gateway, mut client, parked) = with_one_behind_a_parked_one().await;
    let mut other = gateway.connect().await;
    other.send(&fetch(3)).await;
    let _other = gateway.next_call().await;
    gateway.stop();
    // At about this time the first client is looked at as well.
    assert!(other.is_closed().await);
    parked.answer();
    assert_eq!(client.receive_id().await, Some(1));
    let produced = gateway.next_call().await;
    assert_eq!(produced.mark(), 2);
    produced.answer();
    assert_eq!(client.receive_id().await, Some(2));
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn what_a_client_that_has_closed_sent_behind_a_parked_request_takes_effect() {
    let (mut gateway, client, parked) = with_one_behind_a_parked_one().await;
    drop(client);
    // Time for the gateway to hear of it.
    let mut other = gateway.connect().await;
    for id in 3..100 {
        other.send(&describe(id)).await;
        assert_eq!(other.receive_id().await, Some(id));
        gateway.next_call().await;
    }
    parked.answer();
    assert_eq!(gateway.next_call().await.mark(), 2);
}

#[tokio::test]
async fn clients_that_keep_sending_do_not_keep_the_gateway_up() {
    let mut gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    client.send(&describe(1)).await;
    assert_eq!(client.receive_id().await, Some(1));
    let mut stream = client.stream;
    let sending = tokio::spawn(async move {
        // Until the gateway refuses to read.
        while tokio::io::AsyncWriteExt::write_all(&mut stream, &describe(2)).await.is_ok() {}
    });
    gateway.stop();
    gateway.stopped().await;
    soon(sending).await.expect("no panic");
}
