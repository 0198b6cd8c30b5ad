//! Clients that have not shown who they are get little: of memory, of time and of answers.

use std::time::{Duration, Instant};

use gateway::{Mechanism, Options, Sasl, Security};
use sasl::scram::Variant;
use tokio::io::AsyncWriteExt;
use wire::api::api_versions::ApiVersionsRequest;
use wire::api::sasl_authenticate::SaslAuthenticateRequest;

use crate::logins::FAILED;
use crate::script::{Client, Running, describe, frame, guarded, heartbeat, produce, soon};

fn start(sasl: Sasl, options: Options) -> Running {
    let security = Security { sasl: Some(sasl), ..Security::default() };
    let gateway = Running::start_on(vec![guarded("SASL", "127.0.0.1:0", security)], options);
    gateway.script.add_user("alice", "wonderland", Variant::Sha256);
    gateway
}

#[tokio::test]
async fn whatever_is_asked_before_the_login_closes_the_connection_unanswered() {
    let mut gateway = start(Sasl::default(), Options::default());
    let authenticate = frame(&SaslAuthenticateRequest::default(), 2, 1);
    for early in [describe(1), heartbeat(1), produce(1, "t", 1, 10), authenticate] {
        for is_chosen in [false, true] {
            let mut client = gateway.connect().await;
            client.ask(&ApiVersionsRequest::default(), 0).await;
            if is_chosen {
                client.choose("SCRAM-SHA-256", 1).await;
                client.send(&describe(1)).await;
            } else {
                client.send(&early).await;
            }
            assert!(client.is_closed().await);
        }
    }
    let mut client = gateway.connect().await;
    client.choose("SCRAM-SHA-256", 1).await;
    client.send(&frame(&ApiVersionsRequest::default(), 0, 1)).await;
    assert!(client.is_closed().await, "it has asked for a login and does something else");
    assert!(gateway.calls.try_recv().is_err() && gateway.script.entered.lock().is_empty());
}

#[tokio::test]
async fn a_mechanism_that_is_not_offered_is_refused_with_those_that_are() {
    let gateway = start(Sasl::default(), Options::default());
    for (mechanism, version) in [("PLAIN", 0), ("PLAIN", 1), ("GSSAPI", 1), ("scram-sha-256", 1), ("", 1)] {
        let mut client = gateway.connect().await;
        let answer = client.choose(mechanism, version).await;
        assert_eq!(answer.error_code, 33, "{mechanism}");
        assert_eq!(answer.mechanisms, ["SCRAM-SHA-256", "SCRAM-SHA-512"]);
        assert!(client.is_closed().await);
    }
}

#[tokio::test]
async fn who_takes_too_long_is_closed() {
    let options = Options { authentication_timeout: Duration::from_millis(50), ..Options::default() };
    let gateway = start(Sasl::default(), options);
    let mut silent = gateway.connect().await;
    assert!(silent.is_closed().await);
    let mut halfway = gateway.connect().await;
    // It may be too late already on a busy machine, which shows the same.
    let _ = halfway.stream.write_all(&frame(&ApiVersionsRequest::default(), 0, 1)).await;
    while halfway.receive().await.is_some() {}
    assert_eq!(gateway.metric("authentication_timeouts_total"), Some(2.0));
}

#[tokio::test]
async fn who_never_stops_asking_what_can_be_asked_is_closed_too() {
    let options = Options { authentication_timeout: Duration::from_millis(200), ..Options::default() };
    let gateway = start(Sasl::default(), options);
    let (mut answers, mut sender) = gateway.connect().await.stream.into_split();
    let reading = tokio::spawn(async move { tokio::io::copy(&mut answers, &mut tokio::io::sink()).await });
    let questions: Vec<u8> = (0..1000).flat_map(|id| frame(&ApiVersionsRequest::default(), 0, id)).collect();
    soon(async { while sender.write_all(&questions).await.is_ok() {} }).await;
    // The end may be a reset, since the gateway has not read all of it.
    let _ = soon(reading).await.expect("no panic");
    assert_eq!(gateway.metric("authentication_timeouts_total"), Some(1.0));
}

#[tokio::test]
async fn a_client_that_is_let_in_has_all_the_time_there_is() {
    let timeout = Duration::from_millis(500);
    let gateway = start(Sasl::default(), Options { authentication_timeout: timeout, ..Options::default() });
    let mut client = gateway.connect().await;
    assert_eq!(client.scram(Variant::Sha256, "alice", "wonderland").await.error_code, 0);
    assert!(gateway.connect().await.is_closed().await, "another one that says nothing is closed");
    client.send(&describe(1)).await;
    assert_eq!(client.receive_id().await, Some(1));
}

#[tokio::test]
async fn only_small_requests_are_read_before_the_login() {
    let gateway = start(Sasl { max_receive_size: 1000, ..Sasl::default() }, Options::default());
    let mut client = gateway.connect().await;
    client.send(&1001_i32.to_be_bytes()).await;
    assert!(client.is_closed().await);
    let mut client = gateway.connect().await;
    assert_eq!(client.scram(Variant::Sha256, "alice", "wonderland").await.error_code, 0);
    client.send(&produce(1, "t", 1, 100_000)).await;
    assert_eq!(client.receive_id().await, Some(1), "behind it they may be as large as they are");
}

#[tokio::test]
async fn failures_are_answered_late_and_later_each_time() {
    let delay = Duration::from_millis(40);
    let gateway =
        start(Sasl::default(), Options { failed_authentication_delay: delay, ..Options::default() });
    for times in [1, 2, 4] {
        let mut client = gateway.connect().await;
        let begun = Instant::now();
        assert_eq!(client.scram(Variant::Sha256, "alice", "wrong").await.error_code, FAILED);
        assert!(begun.elapsed() >= delay * times, "{:?}", begun.elapsed());
    }
    let mut client = gateway.connect().await;
    assert_eq!(client.scram(Variant::Sha256, "alice", "wonderland").await.error_code, 0);
}

#[tokio::test]
async fn one_address_has_only_so_many_connections_without_a_login() {
    const BOUND: usize = 256;
    let gateway = start(Sasl::default(), Options::default());
    let mut unknown = Vec::new();
    for _ in 0..BOUND {
        unknown.push(gateway.connect().await);
    }
    assert!(gateway.connect().await.is_closed().await);
    assert_eq!(unknown[0].scram(Variant::Sha256, "alice", "wonderland").await.error_code, 0);
    let mut next = gateway.connect().await;
    next.ask(&ApiVersionsRequest::default(), 0).await;
    assert_eq!(gateway.metric("connections_refused_total"), Some(1.0));
}

#[tokio::test]
async fn a_drain_does_not_wait_for_logins() {
    let options = Options { failed_authentication_delay: Duration::from_secs(3600), ..Options::default() };
    let mut gateway = start(Sasl::default(), options);
    let mut silent = gateway.connect().await;
    silent.ask(&ApiVersionsRequest::default(), 0).await;
    let mut failing = gateway.connect().await;
    failing.choose("SCRAM-SHA-256", 1).await;
    failing.send(&frame(&SaslAuthenticateRequest { auth_bytes: "nonsense".into() }, 1, 1)).await;
    gateway
        .until(|it| it.metric("authentication_failures_total{mechanism=\"SCRAM-SHA-256\"}").is_some())
        .await;
    gateway.stop();
    assert!(silent.is_closed().await && failing.is_closed().await);
    assert_eq!(gateway.stopped().await, 0);
}

#[tokio::test]
async fn plain_is_not_offered_where_passwords_could_be_read() {
    let sasl = Sasl { mechanisms: vec![Mechanism::Plain], ..Sasl::default() };
    let security = Security { sasl: Some(sasl), ..Security::default() };
    let refused = gateway::Gateway::bind(vec![guarded("SASL", "127.0.0.1:0", security)], Options::default());
    let said = refused.expect_err("nobody allowed it").to_string();
    assert!(said.contains("listener SASL") && said.contains("kohort.sasl.plain.without.tls"), "{said}");
}

#[tokio::test]
async fn tls_on_a_listener_without_it_is_closed() {
    let gateway = Running::start(Options::default());
    let mut client = Client::connect(gateway.addrs[0]).await;
    // The beginning of a ClientHello.
    client.send(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]).await;
    assert!(client.is_closed().await);
    assert_eq!(gateway.metric("undecodable_requests_total"), Some(1.0));
}
