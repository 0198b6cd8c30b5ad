//! Logins that end, and are renewed before (KIP-368).

use std::time::{Duration, Instant};

use gateway::{Sasl, Security};
use sasl::scram::Variant;
use wire::api::sasl_handshake::SaslHandshakeRequest;

use crate::logins::{FAILED, impatient};
use crate::script::{Client, Running, describe, fetch, frame, guarded};

fn start(max_reauth: Option<Duration>) -> Running {
    let security = Security { sasl: Some(Sasl { max_reauth, ..Sasl::default() }), ..Security::default() };
    let gateway = Running::start_on(vec![guarded("SASL", "127.0.0.1:0", security)], impatient());
    for variant in Variant::ALL {
        gateway.script.add_user("alice", "wonderland", variant);
        gateway.script.add_user("bob", "builder", variant);
    }
    gateway
}

async fn log_in(gateway: &Running) -> (Client, i64) {
    let mut client = gateway.connect().await;
    let answer = client.scram(Variant::Sha256, "alice", "wonderland").await;
    assert_eq!(answer.error_code, 0);
    (client, answer.session_lifetime_ms)
}

async fn works(client: &mut Client) {
    client.send(&describe(1)).await;
    assert_eq!(client.receive_id().await, Some(1));
}

#[tokio::test]
async fn a_login_is_renewed_on_the_same_connection_and_by_the_same_user() {
    let gateway = start(Some(Duration::from_secs(3600)));
    let (mut client, lifetime) = log_in(&gateway).await;
    assert_eq!(lifetime, 3_600_000);
    works(&mut client).await;
    let renewed = client.scram(Variant::Sha256, "alice", "wonderland").await;
    assert_eq!((renewed.error_code, renewed.session_lifetime_ms), (0, 3_600_000));
    works(&mut client).await;
    assert_eq!(gateway.script.entered.lock().len(), 1, "its place is kept");
    let again = client.choose("SCRAM-SHA-256", 1).await;
    assert_eq!(again.error_code, 34, "not twice within a second, as in Kafka");
    works(&mut client).await;
}

#[tokio::test]
async fn a_login_that_was_not_renewed_ends_with_the_next_request() {
    let lifetime = Duration::from_millis(300);
    let mut gateway = start(Some(lifetime));
    let begun = Instant::now();
    let (mut client, _) = log_in(&gateway).await;
    let mut answered = 0;
    loop {
        client.send(&describe(7)).await;
        match client.receive_id().await {
            Some(_) => answered += 1,
            None => break,
        }
        tokio::task::yield_now().await;
    }
    assert!(begun.elapsed() >= lifetime, "{:?}", begun.elapsed());
    let mut calls = 0;
    while gateway.calls.try_recv().is_ok() {
        calls += 1;
    }
    assert_eq!(calls, answered, "nothing is carried out that is not answered");
    assert_eq!(gateway.metric("sessions_expired_total"), Some(1.0));
}

#[tokio::test]
async fn what_waited_behind_others_does_not_outlive_its_login() {
    let lifetime = Duration::from_millis(300);
    let mut gateway = start(Some(lifetime));
    let (mut client, _) = log_in(&gateway).await;
    let ends = Instant::now() + lifetime;
    client.send(&[fetch(1), describe(2)].concat()).await;
    let call = gateway.next_call().await;
    gateway.until(|_| Instant::now() > ends).await;
    call.answer();
    assert_eq!(client.receive_id().await, Some(1), "it began in time");
    assert!(client.is_closed().await);
    assert!(gateway.calls.try_recv().is_err());
}

#[tokio::test]
async fn a_login_that_has_ended_can_still_be_renewed() {
    let lifetime = Duration::from_millis(50);
    let gateway = start(Some(lifetime));
    let (mut client, _) = log_in(&gateway).await;
    let ends = Instant::now() + lifetime;
    gateway.until(|_| Instant::now() > ends).await;
    assert_eq!(client.scram(Variant::Sha256, "alice", "wonderland").await.error_code, 0);
}

#[tokio::test]
async fn nobody_becomes_somebody_else() {
    let gateway = start(Some(Duration::from_secs(3600)));
    let (mut client, _) = log_in(&gateway).await;
    let answer = client.scram(Variant::Sha256, "bob", "builder").await;
    let said = "Cannot change principals during re-authentication from User.alice: User.bob";
    assert_eq!((answer.error_code, answer.error_message.as_deref()), (FAILED, Some(said)));
    assert!(client.is_closed().await);

    let (mut client, _) = log_in(&gateway).await;
    let answer = client.scram(Variant::Sha256, "alice", "wrong").await;
    let said = "Authentication failed during re-authentication due to invalid credentials with SASL mechanism \
                SCRAM-SHA-256";
    assert_eq!((answer.error_code, answer.error_message.as_deref()), (FAILED, Some(said)));
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn a_login_is_renewed_by_the_mechanism_that_it_was_made_by() {
    let mut gateway = start(Some(Duration::from_secs(3600)));
    let (mut client, _) = log_in(&gateway).await;
    assert_ne!(client.choose("SCRAM-SHA-512", 1).await.error_code, 0);
    assert!(client.is_closed().await);
    let (mut client, _) = log_in(&gateway).await;
    client.choose("SCRAM-SHA-256", 1).await;
    client.send(&describe(1)).await;
    assert!(client.is_closed().await, "nothing else is asked in between");
    assert!(gateway.calls.try_recv().is_err());
}

#[tokio::test]
async fn a_login_that_never_ends_is_not_renewed() {
    let gateway = start(None);
    let (mut client, lifetime) = log_in(&gateway).await;
    assert_eq!(lifetime, 0);
    assert_eq!(client.choose("SCRAM-SHA-256", 1).await.error_code, 34);
    assert_eq!(client.show("x", 1).await.error_code, 34);
    works(&mut client).await;
}

#[tokio::test]
async fn a_renewal_waits_for_what_was_asked_before() {
    let mut gateway = start(Some(Duration::from_secs(3600)));
    let (mut client, _) = log_in(&gateway).await;
    let choose = frame(&SaslHandshakeRequest { mechanism: "SCRAM-SHA-256".to_owned() }, 1, 6);
    client.send(&[fetch(5), choose].concat()).await;
    gateway.next_call().await.answer();
    assert_eq!(client.receive_id().await, Some(5));
    assert_eq!(client.receive_id().await, Some(6));
}
