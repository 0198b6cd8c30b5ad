//! A gateway whose broker is at the other end of a link: what a client sends together travels together, and nobody can tell.

use std::pin::pin;

use bytes::Bytes;
use coordination::op::Op;
use gateway::Options;
use rail::LinkState;
use wire::api::heartbeat::HeartbeatRequest;
use wire::api::offset_commit::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};

use crate::script::{CLIENT_ID, Running, commit, describe, frame, heartbeat, soon};

/// A heartbeat that is the same whatever its number.
fn beat(version: i16, id: i32, client_id: &str) -> Bytes {
    let request = HeartbeatRequest {
        group_id: "readers".to_owned(),
        generation_id: 7,
        member_id: "m".to_owned(),
        ..Default::default()
    };
    wire::encode_request(&request, version, id, Some(client_id)).into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_together_takes_effect_and_is_answered_in_order() {
    const ROUNDS: i32 = 40;
    let (mut gateway, _acceptor, _rail) = Running::start_apart(Options::default()).await;
    let mut client = gateway.connect().await;
    let mut requests = Vec::new();
    let mut expected = Vec::new();
    for round in 0..ROUNDS {
        let first = round * 100;
        requests.extend((0..30).map(|id| beat(4, first + id, CLIENT_ID)));
        requests.extend((30..50).map(|id| commit(first + id)));
        requests.extend((50..55).map(|id| beat(if id % 2 == 0 { 3 } else { 4 }, first + id, CLIENT_ID)));
        requests.extend((55..60).map(|id| heartbeat(first + id)));
        // Everything else waits for those before it.
        requests.push(describe(first + 60));
        expected.extend(first..=first + 60);
    }
    client.send(&requests.concat()).await;
    // One future for all of them: an answer may come in two parts, and the first must not be forgotten.
    let mut answers = pin!(async {
        for next in expected {
            assert_eq!(client.receive_id().await, Some(next));
        }
    });
    let mut commits = Vec::new();
    let mut last_beat = -1;
    loop {
        tokio::select! {
            () = &mut answers => break,
            call = gateway.calls.recv() => {
                let call = call.expect("the gateway runs");
                assert_eq!(call.carrier.client_id().map(|id| &**id), Some(CLIENT_ID));
                match &call.op {
                    Op::OffsetCommit(_) => {
                        commits.push(call.mark());
                        call.answer();
                    }
                    Op::Heartbeat(beat) if beat.group.is_empty() => {
                        assert!(call.mark() > last_beat, "{} after {last_beat}", call.mark());
                        last_beat = call.mark();
                    }
                    _ => {}
                }
            }
        }
    }
    let all = (0..ROUNDS).flat_map(|round| (30..50).map(move |id| i64::from(round * 100 + id)));
    assert_eq!(commits, all.collect::<Vec<_>>());
    for (api, count) in [("Heartbeat", 40.0), ("OffsetCommit", 20.0), ("DescribeCluster", 1.0)] {
        let name = format!("requests_total{{api=\"{api}\",error=\"NONE\"}}");
        assert_eq!(gateway.metric(&name), Some(f64::from(ROUNDS) * count), "{api}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_whole_in_the_version_of_each_request() {
    let (gateway, _acceptor, _rail) = Running::start_apart(Options::default()).await;
    let mut client = gateway.connect().await;
    let versions: Vec<i16> = (0..200).map(|number| number / 3 % 5).collect();
    let requests: Vec<Bytes> =
        versions.iter().zip(0..).map(|(&version, id)| beat(version, id, CLIENT_ID)).collect();
    client.send(&requests.concat()).await;
    for (&version, expected) in versions.iter().zip(0..) {
        let answer = client.receive().await.expect("an answer");
        let (id, response) =
            wire::decode_response::<HeartbeatRequest>(answer, version).expect("a well-formed answer");
        assert_eq!((id, response.error_code), (expected, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_calls_itself_something_else_is_heard_under_that_name() {
    let (mut gateway, _acceptor, _rail) = Running::start_apart(Options::default()).await;
    let mut client = gateway.connect().await;
    for name in ["one", "other", "one", "one", "other"] {
        client.send(&[beat(4, 1, name), beat(4, 2, name)].concat()).await;
        assert_eq!(client.receive_id().await, Some(1));
        assert_eq!(client.receive_id().await, Some(2));
        let call = gateway.next_call().await;
        assert_eq!(call.carrier.client_id().map(|id| &**id), Some(name));
        while gateway.calls.try_recv().is_ok() {}
    }
    // All in one write, where each name waits for the one before.
    let names = ["one", "other", "third"];
    client.send(&names.map(|name| [beat(4, 1, name), beat(4, 2, name)].concat()).concat()).await;
    for expected in names.iter().flat_map(|_| 1..=2) {
        assert_eq!(client.receive_id().await, Some(expected));
    }
    for name in names {
        let call = gateway.next_call().await;
        assert_eq!(call.carrier.client_id().map(|id| &**id), Some(name));
        let again = gateway.next_call().await;
        assert_eq!(again.carrier.client_id().map(|id| &**id), Some(name));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_commit_travels_alone_and_keeps_its_place() {
    let (mut gateway, _acceptor, _rail) = Running::start_apart(Options::default()).await;
    let mut client = gateway.connect().await;
    let large = |id: i32| {
        let partitions = (0..2_000)
            .map(|index| OffsetCommitRequestPartition { partition_index: index, ..Default::default() })
            .collect();
        let topics =
            vec![OffsetCommitRequestTopic { name: "orders".to_owned(), partitions, ..Default::default() }];
        let request = OffsetCommitRequest { generation_id_or_member_epoch: id, topics, ..Default::default() };
        frame(&request, 8, id)
    };
    client.send(&[commit(1), commit(2), large(3), commit(4), large(5)].concat()).await;
    for mark in 1..=5 {
        let call = gateway.next_call().await;
        assert_eq!(call.mark(), mark);
        call.answer();
    }
    for id in 1..=5 {
        assert_eq!(client.receive_id().await, Some(id));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_link_breaks_the_connection_ends_and_later_ones_are_refused() {
    let (mut gateway, acceptor, rail) = Running::start_apart(Options::default()).await;
    let mut client = gateway.connect().await;
    client.send(&[commit(1), commit(2)].concat()).await;
    let calls = [gateway.next_call().await, gateway.next_call().await];
    soon(acceptor.close()).await;
    assert!(client.is_closed().await, "nobody knows what became of its commits");
    drop(calls);
    soon(rail.link().wait_for(|state| !matches!(state, LinkState::Up { .. }))).await.expect("it is there");
    let mut client = gateway.connect().await;
    client.send(&[beat(4, 1, CLIENT_ID), beat(4, 2, CLIENT_ID), commit(3)].concat()).await;
    for expected in 1..=2 {
        let answer = client.receive().await.expect("an answer");
        let (id, response) = wire::decode_response::<HeartbeatRequest>(answer, 4).expect("well-formed");
        assert!(id == expected && response.error_code != 0, "{id}: {response:?}");
    }
    assert_eq!(client.receive_id().await, Some(3));
}
