//! Listeners that speak TLS.

use std::sync::Arc;
use std::time::Duration;

use gateway::{ClientAuth, Gateway, Options, Sasl, Security, Tls};
use rail::ANONYMOUS;
use sasl::scram::Variant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::rustls::HandshakeKind;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use wire::api::api_versions::ApiVersionsRequest;

use crate::certificates::{Authority, Files, SERVER, dial_with};
use crate::script::{
    Client, Running, describe, fetch_of, frame, guarded, pattern, produce, receive_id, soon,
};

fn start(tls: Tls) -> Running {
    start_with(Security { tls: Some(tls), ..Security::default() })
}

fn start_with(security: Security) -> Running {
    Running::start_on(vec![guarded("SSL", "127.0.0.1:0", security)], Options::default())
}

/// A listener whose clients show certificates of `authority`.
fn mutual(files: &Files, authority: &Authority, client_auth: ClientAuth) -> Tls {
    Tls {
        truststore: Some(files.put("trusted.pem", &authority.pem())),
        client_auth,
        ..Tls::new(files.put("listener.pem", &authority.listener().pem()))
    }
}

#[tokio::test]
async fn requests_and_answers_of_all_sizes_pass_in_both_versions() {
    let (files, authority) = (Files::new(), Authority::new());
    let mut gateway = start(Tls::new(files.put("listener.pem", &authority.listener().pem())));
    for version in [&TLS13, &TLS12] {
        let client = authority.client().speaking(version).dial(gateway.addrs[0], SERVER).await;
        let mut client = client.expect("a handshake");
        client.ask(&ApiVersionsRequest::default(), 0).await;
        client.send(&describe(1)).await;
        assert_eq!(client.receive_id().await, Some(1));
        assert_eq!(&**gateway.next_call().await.carrier.principal(), ANONYMOUS);
        client.send(&produce(2, "t", 1, 5_000_000)).await;
        assert_eq!(client.receive_id().await, Some(2));
        gateway.next_call().await;
        client.send(&fetch_of(3, 5_000_000)).await;
        gateway.next_call().await.answer();
        let answer = client.receive().await.expect("an answer");
        let records = pattern(5_000_000);
        assert!(answer.windows(64).any(|window| window == &records[records.len() - 64..]));
        assert!(answer.len() > 5_000_000);
    }
}

#[tokio::test]
async fn many_requests_in_a_row_are_answered_in_order() {
    let (files, authority) = (Files::new(), Authority::new());
    let gateway = start(Tls::new(files.put("listener.pem", &authority.listener().pem())));
    let client = authority.client().dial(gateway.addrs[0], SERVER).await.expect("a handshake");
    const COUNT: i32 = 20_000;
    let (mut replies, mut sender) = tokio::io::split(client.stream);
    let sending = tokio::spawn(async move {
        let requests: Vec<u8> = (0..COUNT).flat_map(describe).collect();
        soon(sender.write_all(&requests)).await.expect("the gateway reads");
        soon(sender.flush()).await.expect("the gateway reads");
        sender
    });
    for id in 0..COUNT {
        assert_eq!(receive_id(&mut replies).await, id);
    }
    drop(sending.await.expect("no panic"));
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let (files, authority) = (Files::new(), Authority::new());
    let tls = Tls::new(files.put("listener.pem", &authority.listener().pem()));
    let security = Security { tls: Some(tls), ..Security::default() };
    let options = Options {
        write_timeout: Duration::from_millis(200),
        socket_send_buffer_bytes: Some(16 << 10),
        socket_receive_buffer_bytes: Some(16 << 10),
        ..Options::default()
    };
    let gateway = Running::start_on(vec![guarded("SSL", "127.0.0.1:0", security)], options);
    let client = authority.client().dial(gateway.addrs[0], SERVER).await.expect("a handshake");
    let requests: Vec<u8> = (0..1000).flat_map(describe).collect();
    let (_replies, mut sender) = tokio::io::split(client.stream);
    let mut sent = 0;
    while sender.write_all(&requests).await.is_ok() {
        sent += 1000;
        assert!(sent < 1_000_000, "the gateway reads what it cannot answer");
    }
    assert_eq!(gateway.metric("connections_stalled_closed_total"), Some(1.0));
}

#[tokio::test]
async fn the_last_answers_arrive_before_a_drain_closes() {
    let (files, authority) = (Files::new(), Authority::new());
    let mut gateway = start(Tls::new(files.put("listener.pem", &authority.listener().pem())));
    let mut client = authority.client().dial(gateway.addrs[0], SERVER).await.expect("a handshake");
    client.send(&fetch_of(1, 3_000_000)).await;
    let call = gateway.next_call().await;
    gateway.stop();
    call.answer();
    assert!(client.receive().await.is_some_and(|answer| answer.len() > 3_000_000));
    let end = soon(client.stream.read(&mut [0; 1])).await;
    assert_eq!(end.expect("closed as TLS closes, not torn down"), 0);
    assert_eq!(gateway.stopped().await, 0);
}

#[tokio::test]
async fn plain_bytes_and_silence_end_cleanly() {
    let (files, authority) = (Files::new(), Authority::new());
    let tls = Tls::new(files.put("listener.pem", &authority.listener().pem()));
    let security = Security { tls: Some(tls), ..Security::default() };
    let options = Options { authentication_timeout: Duration::from_millis(300), ..Options::default() };
    let mut gateway = Running::start_on(vec![guarded("SSL", "127.0.0.1:0", security)], options);
    let mut plain = Client::connect(gateway.addrs[0]).await;
    plain.send(&frame(&ApiVersionsRequest::default(), 0, 1)).await;
    let mut said = Vec::new();
    let _ = soon(plain.stream.read_to_end(&mut said)).await;
    assert!(said.is_empty() || said[0] == 0x15, "nothing but an alert: {said:?}");
    assert_eq!(gateway.metric("tls_handshake_failures_total"), Some(1.0));
    assert!(Client::connect(gateway.addrs[0]).await.is_closed().await, "who says nothing is closed");
    gateway.until(|gateway| gateway.metric("authentication_timeouts_total") == Some(1.0)).await;
    assert!(gateway.calls.try_recv().is_err() && gateway.script.entered.lock().is_empty());
}

#[tokio::test]
async fn only_the_versions_that_are_switched_on_are_spoken() {
    let (files, authority) = (Files::new(), Authority::new());
    let keystore = files.put("listener.pem", &authority.listener().pem());
    for (tls12, tls13) in [(true, false), (false, true)] {
        let gateway = start(Tls { tls12, tls13, ..Tls::new(&keystore) });
        let dial = async |version| authority.client().speaking(version).dial(gateway.addrs[0], SERVER).await;
        assert_eq!(dial(&TLS12).await.is_ok(), tls12);
        assert_eq!(dial(&TLS13).await.is_ok(), tls13);
    }
}

#[tokio::test]
async fn the_user_is_the_one_in_the_certificate() {
    let (files, authority) = (Files::new(), Authority::new());
    for (rules, name, expected) in [
        ("DEFAULT", "alice", Some("User:CN=alice,O=Example")),
        ("RULE:^CN=([^,]+),.*$/$1/L", "Alice", Some("User:alice")),
        ("RULE:^CN=([^,]+),O=Other$/$1/", "alice", None),
        ("RULE:^CN=([^,]+),.*$/acme\\/$1/", "alice", Some("User:alice")),
        ("RULE:^CN=([^,]+),.*$/umbrella\\/$1/", "alice", None),
    ] {
        let tls = mutual(&files, &authority, ClientAuth::Required);
        let mut gateway = start(Tls { principal_mapping_rules: rules.to_owned(), ..tls });
        let acme = gateway.script.add_org("acme", 7);
        let client = authority.client().showing(&authority.user(name)).dial(gateway.addrs[0], SERVER).await;
        let mut client = client.expect("a handshake");
        client.send(&describe(1)).await;
        match expected {
            Some(expected) => {
                assert_eq!(client.receive_id().await, Some(1), "{rules}");
                let carrier = gateway.next_call().await.carrier;
                assert_eq!(&**carrier.principal(), expected);
                assert_eq!(carrier.org() == acme, rules.contains("acme"));
            }
            None => {
                assert!(client.is_closed().await, "{rules}");
                assert!(gateway.calls.try_recv().is_err());
                assert_eq!(gateway.metric("authentication_failures_total{mechanism=\"SSL\"}"), Some(1.0));
            }
        }
    }
}

#[tokio::test]
async fn who_shows_no_certificate_is_anonymous_or_not_let_in() {
    let (files, authority) = (Files::new(), Authority::new());
    let mut gateway = start(mutual(&files, &authority, ClientAuth::Requested));
    let mut client = authority.client().dial(gateway.addrs[0], SERVER).await.expect("a handshake");
    client.send(&describe(1)).await;
    assert_eq!(client.receive_id().await, Some(1));
    assert_eq!(&**gateway.next_call().await.carrier.principal(), ANONYMOUS);

    let mut gateway = start(mutual(&files, &authority, ClientAuth::Required));
    // In TLS 1.3 the client has shaken hands before it hears of it.
    if let Ok(mut client) = authority.client().dial(gateway.addrs[0], SERVER).await {
        let _ = client.stream.write_all(&describe(1)).await;
        let error = soon(client.stream.read(&mut [0; 1])).await.expect_err("an alert");
        assert!(error.to_string().contains("CertificateRequired"), "{error}");
    }
    assert!(gateway.calls.try_recv().is_err());
    gateway.until(|gateway| gateway.metric("tls_handshake_failures_total") == Some(1.0)).await;
}

#[tokio::test]
async fn certificates_that_are_not_to_be_trusted_are_refused_with_an_alert() {
    let (files, authority, other) = (Files::new(), Authority::new(), Authority::new());
    for client_auth in [ClientAuth::Requested, ClientAuth::Required] {
        let mut gateway = start(mutual(&files, &authority, client_auth));
        let expired = authority.certify(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
        let early = authority.certify(|params| params.not_before = rcgen::date_time_ymd(3000, 1, 1));
        let foreign = other.user("alice");
        for (identity, alerts) in [
            (expired, &["CertificateExpired"][..]),
            (early, &["CertificateExpired", "BadCertificate", "CertificateUnknown"]),
            (foreign, &["UnknownCA", "DecryptError", "BadCertificate"]),
        ] {
            for version in [&TLS13, &TLS12] {
                let dialler = authority.client().showing(&identity).speaking(version);
                let error = match dialler.dial(gateway.addrs[0], SERVER).await {
                    Err(error) => error,
                    Ok(mut client) => {
                        let _ = client.stream.write_all(&describe(1)).await;
                        soon(client.stream.read(&mut [0; 1])).await.expect_err("an alert")
                    }
                };
                let said = error.to_string();
                assert!(alerts.iter().any(|alert| said.contains(alert)), "{alerts:?}: {said}");
            }
        }
        assert!(gateway.calls.try_recv().is_err() && gateway.script.entered.lock().is_empty());
    }
}

#[tokio::test]
async fn a_certificate_is_shown_with_every_connection() {
    let (files, authority) = (Files::new(), Authority::new());
    let (alice, asks) = (authority.user("alice"), mutual(&files, &authority, ClientAuth::Required));
    let does_not = Tls { client_auth: ClientAuth::None, ..asks.clone() };
    for (tls, expected) in [(asks, HandshakeKind::Full), (does_not, HandshakeKind::Resumed)] {
        let gateway = start(tls);
        for version in [&TLS13, &TLS12] {
            let config = authority.client().showing(&alice).speaking(version).config();
            let mut again = None;
            for id in 0..2 {
                let client = dial_with(Arc::clone(&config), gateway.addrs[0], SERVER).await;
                let mut client = client.expect("a handshake");
                client.send(&describe(id)).await;
                assert_eq!(client.receive_id().await, Some(id));
                again = client.stream.get_ref().1.handshake_kind();
            }
            assert_eq!(again, Some(expected));
        }
    }
}

#[tokio::test]
async fn clients_find_out_that_a_listener_is_not_the_one_they_mean() {
    let (files, authority) = (Files::new(), Authority::new());
    let gateway = start(Tls::new(files.put("listener.pem", &authority.listener().pem())));
    let wrong_name = authority.client().dial(gateway.addrs[0], "other.test").await;
    assert!(wrong_name.err().expect("not for this name").to_string().contains("not valid for name"));
    let wrong_authority = Authority::new().client().dial(gateway.addrs[0], SERVER).await;
    assert!(wrong_authority.is_err());
    gateway.until(|gateway| gateway.metric("tls_handshake_failures_total") == Some(2.0)).await;
}

#[tokio::test]
async fn renewed_certificates_are_used_and_connections_go_on() {
    let (files, old, new) = (Files::new(), Authority::new(), Authority::new());
    let gateway = start(Tls::new(files.put("listener.pem", &old.listener().pem())));
    let mut before = old.client().dial(gateway.addrs[0], SERVER).await.expect("a handshake");
    before.send(&describe(1)).await;
    assert_eq!(before.receive_id().await, Some(1));
    // What is broken changes nothing.
    files.put("listener.pem", "no PEM at all");
    old.client().dial(gateway.addrs[0], SERVER).await.expect("the old one is still used");
    files.put("listener.pem", &new.listener().pem());
    soon(async { while new.client().dial(gateway.addrs[0], SERVER).await.is_err() {} }).await;
    before.send(&describe(2)).await;
    assert_eq!(before.receive_id().await, Some(2), "who is connected stays so");
}

#[tokio::test]
async fn keys_may_be_in_a_file_of_their_own() {
    let (files, authority) = (Files::new(), Authority::new());
    let identity = authority.listener();
    let keystore = files.put("chain.pem", &identity.certificate);
    let key = Some(files.put("key.pem", &identity.key));
    let gateway = start(Tls { key, ..Tls::new(keystore) });
    authority.client().dial(gateway.addrs[0], SERVER).await.expect("a handshake");
}

#[tokio::test]
async fn files_and_settings_that_cannot_work_are_refused_at_the_start() {
    let (files, authority) = (Files::new(), Authority::new());
    let (identity, other) = (authority.listener(), authority.listener());
    let good = || Tls::new(files.put("listener.pem", &identity.pem()));
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let in_file = |name: &str, text: &str| Tls::new(files.put(name, text));
    for (tls, expected) in [
        (Tls::new("/nonexistent/listener.pem"), "read /nonexistent/listener.pem: No such file"),
        (in_file("empty.pem", ""), "no certificate in PEM"),
        (in_file("no-key.pem", &identity.certificate), "no key in PEM"),
        (in_file("encrypted.pem", &format!("{}{encrypted}", identity.certificate)), "the key is encrypted"),
        (
            Tls { key: Some(files.put("other.pem", &other.key)), ..good() },
            "the certificate is not for the key",
        ),
        (Tls { tls12: false, tls13: false, ..good() }, "ssl.enabled.protocols"),
        (Tls { client_auth: ClientAuth::Required, ..good() }, "ssl.truststore.location"),
        (Tls { principal_mapping_rules: "RULE:(/x/".to_owned(), ..good() }, "ssl.principal.mapping.rules"),
    ] {
        let security = Security { tls: Some(tls), ..Security::default() };
        let error = Gateway::bind(vec![guarded("SSL", "127.0.0.1:0", security)], Options::default())
            .expect_err("it cannot work");
        let said = error.to_string();
        assert!(said.contains("listener SSL") && said.contains(expected), "{expected}: {said}");
        assert!(!error.address_is_missing());
    }
}

#[tokio::test]
async fn passwords_are_told_under_tls() {
    let (files, authority) = (Files::new(), Authority::new());
    let mechanisms = vec![gateway::Mechanism::Plain, gateway::Mechanism::Scram(Variant::Sha256)];
    let security = Security {
        tls: Some(Tls::new(files.put("listener.pem", &authority.listener().pem()))),
        sasl: Some(Sasl { mechanisms, ..Sasl::default() }),
        org: None,
    };
    let mut gateway = start_with(security);
    gateway.script.add_user("alice", "wonderland", Variant::Sha512);
    let mut client = authority.client().dial(gateway.addrs[0], SERVER).await.expect("a handshake");
    assert_eq!(client.plain("alice", "wonderland").await.error_code, 0);
    client.send(&describe(1)).await;
    assert_eq!(client.receive_id().await, Some(1));
    assert_eq!(&**gateway.next_call().await.carrier.principal(), "User:alice");
    let mut client = authority.client().dial(gateway.addrs[0], SERVER).await.expect("a handshake");
    assert_ne!(client.plain("alice", "wrong").await.error_code, 0);
    assert!(client.is_closed().await);
}
