//! Requests take effect and are answered in order, and overlap only where nobody can tell.

use std::sync::atomic::Ordering;

use coordination::op::Op;
use gateway::Options;
use tokio::io::AsyncWriteExt;
use wire::api::api_versions::ApiVersionsRequest;
use wire::api::delete_topics::DeleteTopicsRequest;
use wire::api::fetch::FetchRequest;
use wire::api::find_coordinator::FindCoordinatorRequest;

use crate::script::{
    CLIENT_ID, Call, REFUSED, Running, commit, describe, fetch, fetch_of, frame, heartbeat, join, pattern,
    produce, receive_id, soon,
};

#[tokio::test]
async fn a_thousand_requests_in_one_write_are_answered_in_order() {
    let gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    let requests: Vec<u8> = (0..1000).flat_map(describe).collect();
    client.send(&requests).await;
    for id in 0..1000 {
        assert_eq!(client.receive_id().await, Some(id));
    }
    assert_eq!(gateway.metric("requests_total{api=\"DescribeCluster\",error=\"NONE\"}"), Some(1000.0));
    assert_eq!(gateway.metric("received_bytes_total"), Some(requests.len() as f64));
}

#[tokio::test]
async fn a_request_that_arrives_byte_by_byte_is_answered() {
    let gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    for byte in describe(1).iter().chain(&describe(2)) {
        client.send(&[*byte]).await;
    }
    assert_eq!(client.receive_id().await, Some(1));
    assert_eq!(client.receive_id().await, Some(2));
}

#[tokio::test]
async fn half_a_request_does_not_hold_up_the_answer_to_the_one_before() {
    let gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    let second = describe(2);
    let (head, tail) = second.split_at(9);
    client.send(&[&describe(1)[..], head].concat()).await;
    assert_eq!(client.receive_id().await, Some(1));
    client.send(tail).await;
    assert_eq!(client.receive_id().await, Some(2));
}

#[tokio::test]
async fn nothing_behind_a_parked_request_starts_before_it_is_answered() {
    let mut gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    client.send(&[fetch(1), produce(2, "t", 1, 10), describe(3)].concat()).await;
    let parked = gateway.next_call().await;
    assert_eq!(parked.mark(), 1);

    // Another connection goes through meanwhile, so the gateway has had its chance to start the next one.
    let mut other = gateway.connect().await;
    other.send(&describe(9)).await;
    assert_eq!(other.receive_id().await, Some(9));
    let _describe = gateway.next_call().await;
    assert!(gateway.calls.try_recv().is_err(), "a request started behind a parked one");

    parked.answer();
    for id in 1..=3 {
        assert_eq!(client.receive_id().await, Some(id));
    }
    assert_eq!(gateway.next_call().await.mark(), 2);
}

#[tokio::test]
async fn what_piles_up_behind_a_parked_request_is_answered_after_it() {
    const COUNT: i32 = 20_000;
    let mut gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    client.send(&fetch(0)).await;
    let parked = gateway.next_call().await;
    let (replies, mut requests) = client.stream.into_split();
    let sending = tokio::spawn(async move {
        let bytes: Vec<u8> = (1..=COUNT).flat_map(describe).collect();
        requests.write_all(&bytes).await.expect("the gateway reads in the end");
        requests
    });
    parked.answer();
    let mut replies = tokio::io::BufReader::new(replies);
    for id in 0..=COUNT {
        assert_eq!(receive_id(&mut replies).await, id);
    }
    drop(sending.await);
}

#[tokio::test]
async fn many_producers_together_hold_little_more_than_their_requests() {
    const SIZE: usize = 4 << 20;
    let mut gateway = Running::start(Options::default());
    let (mut clients, mut calls) = (Vec::new(), Vec::new());
    // Three from each of five connections come close to what all may hold together.
    for _ in 0..5 {
        let mut client = gateway.connect().await;
        for id in 1..=3 {
            client.send(&produce(id, "t", -1, SIZE)).await;
            calls.push(gateway.next_call().await);
        }
        clients.push(client);
    }
    let mut client = gateway.connect().await;
    client.send(&[produce(7, "t", -1, SIZE), produce(8, "t", -1, SIZE)].concat()).await;
    let first = gateway.next_call().await;
    assert_eq!(first.mark(), 7);

    // Another connection goes through meanwhile, so the gateway has had its chance to start the next one.
    let mut other = gateway.connect().await;
    other.send(&describe(9)).await;
    assert_eq!(other.receive_id().await, Some(9));
    let _describe = gateway.next_call().await;
    assert!(gateway.calls.try_recv().is_err(), "a request overlaps although too much is held");

    first.answer();
    assert_eq!(client.receive_id().await, Some(7));
    assert_eq!(gateway.next_call().await.mark(), 8);
}

#[tokio::test]
async fn a_large_answer_arrives_whole_through_small_socket_buffers() {
    const SIZE: i32 = 5_000_000;
    let options = Options { socket_send_buffer_bytes: Some(8 << 10), ..Options::default() };
    let mut gateway = Running::start(options);
    let mut client = gateway.connect().await;
    client.send(&[describe(1), fetch_of(2, SIZE), describe(3)].concat()).await;
    assert_eq!(client.receive_id().await, Some(1));
    let _describe = gateway.next_call().await;
    gateway.next_call().await.answer();
    let answer = client.receive().await.expect("an answer");
    let (id, answer) = wire::decode_response::<FetchRequest>(answer, 12).expect("a well-formed answer");
    assert_eq!(id, 2);
    let records = answer.responses[0].partitions[0].records.as_ref().expect("records");
    assert!(records.0.concat() == pattern(usize::try_from(SIZE).expect("a size")));
    assert_eq!(client.receive_id().await, Some(3));
}

#[tokio::test]
async fn a_bug_in_the_broker_costs_one_connection() {
    let gateway = Running::start(Options::default());
    let mut other = gateway.connect().await;
    let mut client = gateway.connect().await;
    client.send(&frame(&DeleteTopicsRequest::default(), 4, 1)).await;
    assert!(client.is_closed().await);
    other.send(&describe(1)).await;
    assert_eq!(other.receive_id().await, Some(1));
    assert_eq!(gateway.metric("connections"), Some(1.0));
}

#[tokio::test]
async fn produce_requests_wait_for_the_disk_together_and_are_answered_in_order() {
    let mut gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    let requests = [
        produce(1, "t", -1, 10),
        produce(2, "t", -1, 10),
        produce(3, "t", 1, 10),
        produce(4, "t", -1, 10),
        describe(5),
        produce(6, "t", -1, 10),
    ];
    client.send(&requests.concat()).await;
    let first = gateway.next_call().await;
    let second = gateway.next_call().await;
    let third = gateway.next_call().await;
    let fourth = gateway.next_call().await;
    assert_eq!([first.mark(), second.mark(), third.mark(), fourth.mark()], [1, 2, 3, 4]);
    assert!(third.reply.is_none(), "answered by the broker, held back by the gateway");

    // The disk is done with them in another order; DescribeCluster waits for all of them.
    fourth.answer();
    second.answer();
    assert!(gateway.calls.try_recv().is_err());
    first.answer();
    for id in 1..=5 {
        assert_eq!(client.receive_id().await, Some(id));
    }
    assert_eq!(gateway.next_call().await.mark(), -1);
    gateway.next_call().await.answer();
    assert_eq!(client.receive_id().await, Some(6));
}

#[tokio::test]
async fn commits_heartbeats_and_produce_overlap_and_are_answered_in_order() {
    let mut gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    let requests = [commit(1), heartbeat(2), commit(3), produce(4, "t", -1, 10), heartbeat(5), join(6)];
    client.send(&requests.concat()).await;
    let mut calls = Vec::new();
    for mark in 1..=5 {
        calls.push(gateway.next_call().await);
        assert_eq!(calls.last().map(Call::mark), Some(mark));
    }
    assert!(gateway.calls.try_recv().is_err(), "a join started before a commit was answered");
    // The disk is done with them in another order; the heartbeats were answered by the broker long ago.
    for waiting in calls.into_iter().rev().filter(|call| call.reply.is_some()) {
        waiting.answer();
    }
    for id in 1..=5 {
        assert_eq!(client.receive_id().await, Some(id));
    }
    assert_eq!(gateway.next_call().await.mark(), 6);
}

#[tokio::test]
async fn neither_a_heartbeat_nor_a_commit_starts_behind_a_parked_join() {
    let mut gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    client.send(&[join(1), heartbeat(2), commit(3)].concat()).await;
    let parked = gateway.next_call().await;
    let mut other = gateway.connect().await;
    other.send(&describe(9)).await;
    assert_eq!(other.receive_id().await, Some(9));
    let _describe = gateway.next_call().await;
    assert!(gateway.calls.try_recv().is_err(), "a request started behind a parked one");
    parked.answer();
    assert_eq!(gateway.next_call().await.mark(), 2);
    gateway.next_call().await.answer();
    for id in 1..=3 {
        assert_eq!(client.receive_id().await, Some(id));
    }
}

#[tokio::test]
async fn a_join_whose_client_has_closed_is_given_up() {
    let mut gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    client.send(&join(1)).await;
    let mut parked = gateway.next_call().await;
    drop(client);
    let mut sender = parked.reply.take().expect("a join waits");
    soon(sender.closed()).await;
}

#[tokio::test]
async fn requests_that_overlap_are_bounded_by_number() {
    const COUNT: i32 = 1_500;
    let mut gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    let requests: Vec<u8> = (0..COUNT).flat_map(commit).collect();
    client.send(&requests).await;
    let mut waiting = Vec::new();
    for _ in 0..1_000 {
        waiting.push(gateway.next_call().await);
    }
    let mut other = gateway.connect().await;
    other.send(&describe(9)).await;
    assert_eq!(other.receive_id().await, Some(9));
    let _describe = gateway.next_call().await;
    assert!(gateway.calls.try_recv().is_err(), "more than a thousand requests overlap");
    for call in waiting {
        call.answer();
    }
    for id in 0..1_000 {
        assert_eq!(client.receive_id().await, Some(id));
    }
    for id in 1_000..COUNT {
        gateway.next_call().await.answer();
        assert_eq!(client.receive_id().await, Some(id));
    }
}

#[tokio::test]
async fn produce_requests_in_flight_are_bounded_by_bytes_and_go_on_afterwards() {
    const COUNT: i32 = 40;
    let mut gateway = Running::start(Options::default());
    let client = gateway.connect().await;
    let (mut replies, mut requests) = client.stream.into_split();
    let sending = tokio::spawn(async move {
        for id in 0..COUNT {
            requests.write_all(&produce(id, "t", -1, 1 << 20)).await.expect("the gateway reads in the end");
        }
        requests
    });
    let mut waiting = Vec::new();
    for _ in 0..15 {
        waiting.push(gateway.next_call().await);
    }
    // A request on another connection shows that the gateway had its chance to start more.
    let mut other = gateway.connect().await;
    other.send(&describe(1)).await;
    assert_eq!(other.receive_id().await, Some(1));
    let mut extra = 0;
    while let Ok(call) = gateway.calls.try_recv() {
        extra += usize::from(call.reply.is_some());
        waiting.extend(call.reply.is_some().then_some(call));
    }
    assert!(waiting.len() <= 16, "{} MiB wait for the disk ({extra} more than expected)", waiting.len());

    let mut next = 0;
    while next < i64::from(COUNT) {
        let call = if waiting.is_empty() { gateway.next_call().await } else { waiting.remove(0) };
        assert_eq!(call.mark(), next);
        call.answer();
        next += 1;
    }
    for id in 0..COUNT {
        assert_eq!(receive_id(&mut replies).await, id);
    }
    drop(sending.await.expect("no panic"));
}

#[tokio::test]
async fn what_was_answered_before_a_request_was_lost_leaves_and_is_counted_one_by_one() {
    let mut gateway = Running::start(Options::default());
    gateway.script.may_lose.store(true, Ordering::SeqCst);
    let mut client = gateway.connect().await;
    let topics = ["t", "t", REFUSED, "t", "t", "t"];
    let requests = (1..).zip(topics).flat_map(|(id, topic)| produce(id, topic, -1, 10));
    client.send(&requests.collect::<Vec<_>>()).await;
    let mut calls = Vec::new();
    for _ in topics {
        calls.push(gateway.next_call().await);
    }
    let lost = calls.split_off(4);
    drop(lost);
    // The first comes last, so that all of them are there together.
    for call in calls.into_iter().rev() {
        call.answer();
    }
    for id in 1..=4 {
        assert_eq!(client.receive_id().await, Some(id));
    }
    assert!(client.is_closed().await);
    let count = |error| gateway.metric(&format!("requests_total{{api=\"Produce\",error=\"{error}\"}}"));
    assert_eq!((count("NONE"), count("CORRUPT_MESSAGE")), (Some(3.0), Some(1.0)));
}

#[tokio::test]
async fn records_and_the_clients_name_reach_the_broker_as_they_were_sent() {
    let mut gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    client.send(&produce(7, "t", 1, 3_000_000)).await;
    let call = gateway.next_call().await;
    assert_eq!(call.carrier.client_id().map(|id| &**id), Some(CLIENT_ID));
    assert!(call.carrier.host().is_loopback());
    let Op::Produce(op) = call.op else { panic!("a Produce was sent") };
    let records = op.topics[0].partitions[0].records.as_ref().expect("records were sent");
    assert!(records.len() == 3_000_000 && records.iter().all(|&byte| byte == 1));
    assert_eq!(client.receive_id().await, Some(7));
}

#[tokio::test]
async fn a_producer_without_acks_gets_no_answer_and_is_cut_off_on_an_error() {
    let mut gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    client.send(&[produce(1, "t", 0, 10), describe(2)].concat()).await;
    assert_eq!(client.receive_id().await, Some(2), "the first answer is for the second request");
    client.send(&[describe(3), produce(4, REFUSED, 0, 10), describe(5)].concat()).await;
    assert_eq!(client.receive_id().await, Some(3));
    assert!(client.is_closed().await);
    let marks: Vec<i64> = [
        gateway.next_call().await,
        gateway.next_call().await,
        gateway.next_call().await,
        gateway.next_call().await,
    ]
    .iter()
    .map(Call::mark)
    .collect();
    assert_eq!(marks, [1, -1, -1, 4]);
    assert!(gateway.calls.try_recv().is_err(), "nothing starts behind the error");
    assert_eq!(gateway.metric("requests_total{api=\"Produce\",error=\"CORRUPT_MESSAGE\"}"), Some(1.0));
}

#[tokio::test]
async fn what_a_client_sent_before_it_closed_takes_effect() {
    let mut gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    client.send(&[produce(1, "t", -1, 10), produce(2, "t", 0, 10), produce(3, "t", 0, 10)].concat()).await;
    drop(client);
    let first = gateway.next_call().await;
    assert_eq!(first.mark(), 1);
    assert_eq!(gateway.next_call().await.mark(), 2);
    assert_eq!(gateway.next_call().await.mark(), 3);
}

#[tokio::test]
async fn an_answer_that_nobody_waits_for_any_more_is_given_up() {
    let mut gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    client.send(&fetch(1)).await;
    let mut parked = gateway.next_call().await;
    drop(client);
    let mut sender = parked.reply.take().expect("a fetch waits");
    soon(sender.closed()).await;
}

#[tokio::test]
async fn a_stuck_client_does_not_hold_up_another() {
    let mut gateway = Running::start(Options::default());
    let mut stuck = gateway.connect().await;
    stuck.send(&fetch(1)).await;
    let parked = gateway.next_call().await;
    let mut halfway = gateway.connect().await;
    halfway.send(&describe(1)[..7]).await;
    let mut other = gateway.connect().await;
    for id in 0..100 {
        other.send(&describe(id)).await;
        assert_eq!(other.receive_id().await, Some(id));
    }
    parked.answer();
    assert_eq!(stuck.receive_id().await, Some(1));
}

#[tokio::test]
async fn the_gateway_answers_by_itself_what_needs_no_broker() {
    let mut gateway = Running::start(Options { node_id: 5, ..Options::default() });
    let mut client = gateway.connect().await;
    let named =
        ApiVersionsRequest { client_software_name: "test".into(), client_software_version: "1.0".into() };
    let versions = client.ask(&named, 4).await;
    assert_eq!(versions.error_code, 0);
    assert_eq!(versions.api_keys.len(), wire::ApiKey::ANSWERED.len());
    assert_eq!(client.ask(&ApiVersionsRequest::default(), 3).await.error_code, 42);

    let group = FindCoordinatorRequest { coordinator_keys: vec!["g".into()], ..Default::default() };
    let found = client.ask(&group, 4).await.coordinators.remove(0);
    assert_eq!((found.error_code, found.node_id, found.port), (0, 5, i32::from(gateway.addrs[0].port())));
    let asked = gateway.next_call().await.op;
    assert!(matches!(asked, Op::FindCoordinator(_)), "the broker says only who may know: {asked:?}");
    let transaction = FindCoordinatorRequest { key: "t".into(), key_type: 1, ..Default::default() };
    assert_eq!(client.ask(&transaction, 2).await.error_code, 53);

    // A version nobody knows yet is answered in version 0, with what is known.
    let mut unknown = frame(&named, 3, 1).to_vec();
    unknown[6..8].copy_from_slice(&99_i16.to_be_bytes());
    client.send(&unknown).await;
    let answer = client.receive().await.expect("an answer");
    assert_eq!(&answer[4..6], 35_i16.to_be_bytes());
    assert!(gateway.calls.try_recv().is_err(), "the broker was not asked again");
}
