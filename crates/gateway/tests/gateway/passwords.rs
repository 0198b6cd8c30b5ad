//! Clients that log in with a name and a password.

use coordination::ids::OrgId;
use gateway::{Mechanism, Sasl, Security};
use sasl::scram::{Client as ScramClient, Variant};
use wire::api::api_versions::ApiVersionsRequest;

use crate::logins::{FAILED, impatient};
use crate::script::{Running, describe, guarded};

const ALL: [Mechanism; 3] =
    [Mechanism::Plain, Mechanism::Scram(Variant::Sha256), Mechanism::Scram(Variant::Sha512)];

fn start(org: Option<&str>) -> Running {
    let sasl = Sasl { mechanisms: ALL.to_vec(), plain_without_tls: true, ..Sasl::default() };
    let security = Security { sasl: Some(sasl), org: org.map(str::to_owned), ..Security::default() };
    let gateway = Running::start_on(vec![guarded("SASL", "127.0.0.1:0", security)], impatient());
    for variant in Variant::ALL {
        gateway.script.add_user("alice", "wonderland", variant);
    }
    gateway
}

/// What the connection's requests are carried out as.
async fn principal(gateway: &mut Running, client: &mut crate::script::Client) -> (OrgId, String) {
    client.send(&describe(9)).await;
    assert_eq!(client.receive_id().await, Some(9));
    let carrier = gateway.next_call().await.carrier;
    (carrier.org(), carrier.principal().to_string())
}

#[tokio::test]
async fn who_knows_the_password_is_let_in_by_every_mechanism() {
    let mut gateway = start(None);
    for variant in Variant::ALL {
        let mut client = gateway.connect().await;
        client.ask(&ApiVersionsRequest::default(), 0).await;
        let answer = client.scram(variant, "alice", "wonderland").await;
        assert_eq!((answer.error_code, answer.error_message.as_deref()), (0, Some("")), "as in Kafka");
        assert_eq!(answer.session_lifetime_ms, 0);
        let expected = (OrgId::DEFAULT, "User:alice".to_owned());
        assert_eq!(principal(&mut gateway, &mut client).await, expected);
    }
    let mut client = gateway.connect().await;
    assert_eq!(client.plain("alice", "wonderland").await.error_code, 0);
    assert_eq!(principal(&mut gateway, &mut client).await.1, "User:alice");
    assert_eq!(gateway.script.entered.lock().len(), 3);
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let name = format!("authentications_total{{mechanism=\"{mechanism}\"}}");
        assert_eq!(gateway.metric(&name), Some(1.0), "{mechanism}");
    }
}

#[tokio::test]
async fn wrong_passwords_and_unknown_users_get_the_same_answer_and_are_closed() {
    let mut gateway = start(None);
    for (user, password) in [("alice", "wrong"), ("nobody", "wonderland"), ("acme/alice", "wonderland")] {
        for variant in Variant::ALL {
            let mut client = gateway.connect().await;
            let answer = client.scram(variant, user, password).await;
            let said = format!(
                "Authentication failed during authentication due to invalid credentials with SASL mechanism {}",
                variant.name()
            );
            assert_eq!((answer.error_code, answer.error_message), (FAILED, Some(said)), "{user}");
            assert!(client.is_closed().await);
        }
        let mut client = gateway.connect().await;
        let answer = client.plain(user, password).await;
        let said = "Authentication failed: Invalid username or password";
        assert_eq!((answer.error_code, answer.error_message.as_deref()), (FAILED, Some(said)));
        assert!(client.is_closed().await);
    }
    assert!(gateway.calls.try_recv().is_err() && gateway.script.entered.lock().is_empty());
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let name = format!("authentication_failures_total{{mechanism=\"{mechanism}\"}}");
        assert_eq!(gateway.metric(&name), Some(3.0), "{mechanism}");
    }
}

#[tokio::test]
async fn who_does_not_exist_is_always_asked_with_the_same_salt() {
    let gateway = start(None);
    let mut challenges = Vec::new();
    for _ in 0..2 {
        let mut client = gateway.connect().await;
        client.choose("SCRAM-SHA-256", 1).await;
        let scram = ScramClient::new(Variant::Sha256, "nobody", "x", "nonce".to_owned());
        let answer = client.show(scram.first_message(), 1).await;
        assert_eq!(answer.error_code, 0);
        let challenge = String::from_utf8(answer.auth_bytes.to_vec()).expect("text");
        let (nonce, rest) = challenge.split_once(',').expect("a nonce");
        challenges.push((nonce.to_owned(), rest.to_owned()));
    }
    assert_ne!(challenges[0].0, challenges[1].0);
    assert_eq!(challenges[0].1, challenges[1].1);
}

#[tokio::test]
async fn messages_may_travel_bare_after_the_first_version_of_the_handshake() {
    let mut gateway = start(None);
    let mut client = gateway.connect().await;
    assert_eq!(client.choose("SCRAM-SHA-512", 0).await.error_code, 0);
    let scram = ScramClient::new(Variant::Sha512, "alice", "wonderland", "nonce".to_owned());
    let challenge = client.exchange_bare(scram.first_message().as_bytes()).await.expect("a challenge");
    let (proof, signature) = scram.last_message(&challenge).expect("a challenge");
    let last = client.exchange_bare(proof.as_bytes()).await.expect("a signature");
    signature.check(&last).expect("the server knows the password too");
    assert_eq!(principal(&mut gateway, &mut client).await.1, "User:alice");

    let mut client = gateway.connect().await;
    client.choose("PLAIN", 0).await;
    assert_eq!(client.exchange_bare(b"\0alice\0wonderland").await.as_deref(), Some(&b""[..]));
    assert_eq!(principal(&mut gateway, &mut client).await.1, "User:alice");

    let mut client = gateway.connect().await;
    client.choose("PLAIN", 0).await;
    assert_eq!(client.exchange_bare(b"\0alice\0wrong").await, None, "there is no answer that could say so");
}

#[tokio::test]
async fn a_login_names_its_organisation() {
    let mut gateway = start(None);
    let acme = gateway.script.add_org("acme", 7);
    gateway.script.add_user("acme/bob", "builder", Variant::Sha256);
    let mut client = gateway.connect().await;
    assert_eq!(client.scram(Variant::Sha256, "acme/bob", "builder").await.error_code, 0);
    assert_eq!(principal(&mut gateway, &mut client).await, (acme, "User:bob".to_owned()));
    for login in ["bob", "default/bob", "other/bob", "acme/alice", "acme/bob/x", "/bob"] {
        let mut client = gateway.connect().await;
        assert_eq!(client.scram(Variant::Sha256, login, "builder").await.error_code, FAILED, "{login}");
    }
}

#[tokio::test]
async fn a_listener_of_an_organisation_knows_only_its_users() {
    let mut gateway = start(Some("acme"));
    let acme = gateway.script.add_org("acme", 7);
    gateway.script.add_org("umbrella", 8);
    for login in ["acme/bob", "umbrella/bob"] {
        gateway.script.add_user(login, "builder", Variant::Sha256);
    }
    for login in ["bob", "acme/bob"] {
        let mut client = gateway.connect().await;
        assert_eq!(client.plain(login, "builder").await.error_code, 0, "{login}");
        assert_eq!(principal(&mut gateway, &mut client).await, (acme, "User:bob".to_owned()));
    }
    for (login, password) in
        [("umbrella/bob", "builder"), ("alice", "wonderland"), ("default/alice", "wonderland")]
    {
        let mut client = gateway.connect().await;
        assert_eq!(client.plain(login, password).await.error_code, FAILED, "{login}");
        assert!(client.is_closed().await);
    }
}

#[tokio::test]
async fn messages_that_make_no_sense_are_failures_like_others() {
    let gateway = start(None);
    for (mechanism, message) in [
        ("PLAIN", &b"alice wonderland"[..]),
        ("PLAIN", b"\0\0"),
        ("PLAIN", b"\xff\0alice\0wonderland"),
        ("PLAIN", b""),
        ("SCRAM-SHA-256", b"n,,n=alice"),
        ("SCRAM-SHA-256", b"p=tls-unique,,n=alice,r=nonce"),
        ("SCRAM-SHA-512", b"\0alice\0wonderland"),
    ] {
        let mut client = gateway.connect().await;
        client.choose(mechanism, 1).await;
        let answer = client.show(message, 1).await;
        assert_eq!(answer.error_code, FAILED, "{mechanism} {message:?}");
        assert!(client.is_closed().await);
    }
    let mut client = gateway.connect().await;
    client.choose("PLAIN", 1).await;
    let answer = client.show("root\0alice\0wonderland", 1).await;
    let said = "Authentication failed: Client requested an authorization id that is different from username";
    assert_eq!((answer.error_code, answer.error_message.as_deref()), (FAILED, Some(said)));
}
