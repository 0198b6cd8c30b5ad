//! How clients are let in, and leave again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use coordination::error_code::ErrorCode;
use coordination::ids::OrgId;
use coordination::op::Op;
use coordination::reply::Refusal;
use gateway::{Options, Security};
use rail::{ANONYMOUS, Node, Roster};
use wire::api::api_versions::ApiVersionsRequest;
use wire::api::describe_cluster::DescribeClusterRequest;
use wire::api::find_coordinator::FindCoordinatorRequest;

use crate::script::{Client, Running, describe, guarded, heartbeat, join, listener};

#[tokio::test]
async fn a_client_is_let_in_with_its_first_request_and_gives_its_place_back() {
    let listeners = vec![guarded("INSIDE", "127.0.0.1:0", Security::default())];
    let gateway = Running::start_on(listeners, Options::default());
    let mut client = gateway.connect().await;
    client.ask(&ApiVersionsRequest::default(), 0).await;
    assert!(gateway.script.entered.lock().is_empty(), "anyone may ask what can be asked");
    for id in 0..3 {
        client.send(&describe(id)).await;
        assert_eq!(client.receive_id().await, Some(id));
    }
    let entered = gateway.script.entered.lock().clone();
    let [carrier] = &entered[..] else { panic!("it is let in once: {entered:?}") };
    assert_eq!((&**carrier.listener(), &**carrier.principal()), ("INSIDE", ANONYMOUS));
    assert_eq!(carrier.org(), OrgId::DEFAULT);
    assert!(gateway.script.left.lock().is_empty());
    drop(client);
    gateway.until(|gateway| *gateway.script.left.lock() == [carrier.number()]).await;
}

#[tokio::test]
async fn a_client_that_only_asks_for_versions_takes_no_place() {
    let gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    client.ask(&ApiVersionsRequest::default(), 0).await;
    drop(client);
    gateway.until(|gateway| gateway.metric("connections") == Some(0.0)).await;
    assert!(gateway.script.entered.lock().is_empty() && gateway.script.left.lock().is_empty());
}

#[tokio::test]
async fn a_client_that_the_broker_does_not_let_in_is_closed_and_counted() {
    let mut gateway = Running::start(Options::default());
    *gateway.script.denial.lock() = Some(Refusal::new(ErrorCode::PolicyViolation, "max.connections"));
    let mut client = gateway.connect().await;
    client.send(&describe(1)).await;
    assert!(client.is_closed().await);
    assert_eq!(gateway.metric("connections_denied_total"), Some(1.0));
    assert!(gateway.calls.try_recv().is_err(), "nothing was carried out");
    *gateway.script.denial.lock() = None;
    let mut client = gateway.connect().await;
    client.send(&describe(2)).await;
    assert_eq!(client.receive_id().await, Some(2));
}

#[tokio::test]
async fn requests_wait_until_the_broker_lets_their_client_in() {
    let mut gateway = Running::start(Options::default());
    gateway.script.enters_later.store(true, Ordering::SeqCst);
    let mut client = gateway.connect().await;
    client.send(&[describe(1), heartbeat(2)].concat()).await;
    let enter = gateway.next_call().await;
    assert!(matches!(enter.op, Op::Enter), "{:?}", enter.op);
    assert!(gateway.calls.try_recv().is_err(), "nothing starts before");
    enter.answer();
    for id in [1, 2] {
        assert_eq!(client.receive_id().await, Some(id));
    }
    assert!(matches!(gateway.next_call().await.op, Op::DescribeCluster(_)));
}

#[tokio::test]
async fn a_client_that_goes_while_it_is_let_in_leaves_too() {
    let mut gateway = Running::start(Options::default());
    gateway.script.enters_later.store(true, Ordering::SeqCst);
    let mut client = gateway.connect().await;
    client.send(&describe(1)).await;
    let enter = gateway.next_call().await;
    drop(client);
    let number = enter.carrier.number();
    enter.answer();
    gateway.until(|gateway| *gateway.script.left.lock() == [number]).await;
}

#[tokio::test]
async fn what_a_client_waits_for_is_given_up_before_the_client_leaves() {
    let options = Options { drain_timeout: Duration::from_millis(50), ..Options::default() };
    let mut gateway = Running::start(options);
    let mut client = gateway.connect().await;
    client.send(&join(1)).await;
    let _join = gateway.next_call().await;
    drop(client);
    gateway.until(|gateway| !gateway.script.left.lock().is_empty()).await;
    assert_eq!(*gateway.script.owed_at_leave.lock(), [0]);

    gateway.script.enters_later.store(true, Ordering::SeqCst);
    let mut client = gateway.connect().await;
    client.send(&describe(1)).await;
    let _enter = gateway.next_call().await;
    gateway.stop();
    gateway.until(|gateway| gateway.script.left.lock().len() == 2).await;
    assert_eq!(*gateway.script.owed_at_leave.lock(), [0, 0]);
}

#[tokio::test]
async fn clients_of_a_listener_belong_to_its_organisation() {
    let security = || Security { org: Some("acme".to_owned()), ..Security::default() };
    let listeners = vec![guarded("ACME", "127.0.0.1:0", security())];
    let mut gateway = Running::start_on(listeners, Options::default());
    let mut stranger = gateway.connect().await;
    stranger.send(&describe(1)).await;
    assert!(stranger.is_closed().await, "there is no such organisation yet");
    assert!(gateway.calls.try_recv().is_err(), "nothing was carried out");
    let acme = gateway.script.add_org("acme", 7);
    let mut client = gateway.connect().await;
    client.send(&describe(2)).await;
    assert_eq!(client.receive_id().await, Some(2));
    let carrier = gateway.next_call().await.carrier;
    assert_eq!((carrier.org(), &**carrier.principal()), (acme, ANONYMOUS));
}

#[tokio::test]
async fn a_login_where_nobody_is_asked_for_one_is_out_of_place() {
    let gateway = Running::start(Options::default());
    let mut client = gateway.connect().await;
    for version in [0, 1] {
        let answer = client.choose("PLAIN", version).await;
        assert_eq!((answer.error_code, answer.mechanisms.len()), (34, 0));
    }
    assert_eq!(client.show("\0ann\0secret", 2).await.error_code, 34);
    client.send(&describe(1)).await;
    assert_eq!(client.receive_id().await, Some(1), "the connection is still good");
}

#[tokio::test]
async fn clients_are_told_of_the_gateways_there_are() {
    let listeners = vec![listener("127.0.0.1:0"), guarded("OTHER", "127.0.0.1:0", Security::default())];
    let gateway = Running::start_on(listeners, Options { node_id: 1, ..Options::default() });
    let nodes = async |client: &mut Client| {
        let request = DescribeClusterRequest { endpoint_type: 1, ..Default::default() };
        let answer = client.ask(&request, 1).await;
        let nodes: Vec<_> =
            answer.brokers.iter().map(|it| (it.broker_id, it.host.clone(), it.port)).collect();
        (answer.controller_id, nodes)
    };
    let mut client = gateway.connect().await;
    let here = |id: i32| (id, "127.0.0.1".to_owned(), i32::from(gateway.addrs[0].port()));
    assert_eq!(nodes(&mut client).await, (1, vec![here(1)]));

    let node = |id, listener: &str, port| {
        let host = format!("gateway-{id}");
        Node { id, listeners: vec![(listener.to_owned(), host, port)] }
    };
    let all = vec![node(5, "PLAINTEXT", 9005), node(6, "PLAINTEXT", 9006), node(7, "ELSEWHERE", 9007)];
    *gateway.script.roster.lock() = Some(Roster { me: 5, nodes: all }.into());
    let there = (6, "gateway-6".to_owned(), 9006);
    assert_eq!(nodes(&mut client).await, (5, vec![here(5), there]));
    let request = FindCoordinatorRequest { key: "group".to_owned(), ..Default::default() };
    let coordinator = client.ask(&request, 3).await;
    let here = here(5);
    assert_eq!((coordinator.node_id, coordinator.host, coordinator.port), here, "who was asked");

    let mut other = Client::connect(gateway.addrs[1]).await;
    let (_, others) = nodes(&mut other).await;
    assert_eq!(others.len(), 1, "nobody else has this listener: {others:?}");
    *gateway.script.roster.lock() = None;
    assert_eq!(nodes(&mut client).await.0, 1);
}
