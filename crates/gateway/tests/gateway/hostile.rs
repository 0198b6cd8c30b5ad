//! Bytes that no client would send cost the sender its connection and nobody else anything.

use gateway::{Mechanism, Options, Sasl, Security, Tls};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use wire::api::sasl_authenticate::SaslAuthenticateRequest;
use wire::api::sasl_handshake::SaslHandshakeRequest;

use crate::certificates::{Authority, Files};
use crate::logins::impatient;
use crate::script::{Client, Running, describe, fetch, frame, guarded, listener, produce};

#[tokio::test]
async fn sizes_that_no_request_has_close_the_connection_after_earlier_answers() {
    let gateway = Running::start(Options { socket_request_max_bytes: 1000, ..Options::default() });
    for size in [0, -1, i32::MIN, i32::MAX, 1001] {
        let mut client = gateway.connect().await;
        client.send(&[&describe(1)[..], &size.to_be_bytes(), b"rest"].concat()).await;
        assert_eq!(client.receive_id().await, Some(1), "before size {size}");
        assert!(client.is_closed().await, "after size {size}");
    }
    assert_eq!(gateway.metric("undecodable_requests_total"), Some(5.0));
}

#[tokio::test]
async fn a_request_of_the_largest_size_is_taken_and_one_byte_more_is_not() {
    let largest = produce(1, "t", 1, 100_000).len() - 4;
    let gateway = Running::start(Options { socket_request_max_bytes: largest, ..Options::default() });
    let mut client = gateway.connect().await;
    client.send(&produce(1, "t", 1, 100_000)).await;
    assert_eq!(client.receive_id().await, Some(1));
    // The gateway closes at the size and may do so while the rest is being sent.
    let _ = tokio::io::AsyncWriteExt::write_all(&mut client.stream, &produce(2, "t", 1, 100_001)).await;
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn unknown_apis_versions_and_bodies_close_the_connection() {
    let gateway = Running::start(Options::default());
    let changed = |position: usize, byte: u8| {
        let mut frame = describe(1).to_vec();
        frame[position] = byte;
        frame
    };
    let cut = {
        let mut frame = fetch(1).to_vec();
        frame.truncate(30);
        frame[..4].copy_from_slice(&26_i32.to_be_bytes());
        frame
    };
    for (what, frame) in [("api", changed(5, 200)), ("version", changed(7, 90)), ("body", cut)] {
        let mut client = gateway.connect().await;
        client.send(&frame).await;
        assert!(client.is_closed().await, "unknown {what}");
    }
    assert_eq!(gateway.metric("undecodable_requests_total"), Some(3.0));
}

#[tokio::test]
async fn random_bytes_do_no_harm() {
    let gateway = Running::start(Options { socket_request_max_bytes: 4096, ..Options::default() });
    let mut random = StdRng::seed_from_u64(42);
    let mut bystander = gateway.connect().await;
    for round in 0..300 {
        let mut bytes = vec![0; random.random_range(1..2000)];
        random.fill_bytes(&mut bytes);
        if random.random_bool(0.7) {
            // A believable size and API, so that the body is reached.
            let size = i32::try_from(bytes.len()).expect("short") - 4;
            if let Some(prefix) = bytes.first_chunk_mut::<8>() {
                prefix[..4].copy_from_slice(&size.to_be_bytes());
                prefix[4..].copy_from_slice(&[0, random.random_range(0..4), 0, random.random_range(0..14)]);
            }
        }
        let mut client = gateway.connect().await;
        // The gateway may close while it is being written to.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut client.stream, &bytes).await;
        drop(client);
        bystander.send(&describe(round)).await;
        assert_eq!(bystander.receive_id().await, Some(round));
    }
}

#[tokio::test]
async fn random_bytes_do_no_harm_where_something_is_asked_of_clients() {
    let (files, authority) = (Files::new(), Authority::new());
    let sasl = Sasl { mechanisms: Mechanism::ALL[..3].to_vec(), plain_without_tls: true, ..Sasl::default() };
    let tls = Tls::new(files.put("listener.pem", &authority.listener().pem()));
    let listeners = vec![
        listener("127.0.0.1:0"),
        guarded("SASL", "127.0.0.1:0", Security { sasl: Some(sasl), ..Security::default() }),
        guarded("SSL", "127.0.0.1:0", Security { tls: Some(tls), ..Security::default() }),
    ];
    let gateway = Running::start_on(listeners, impatient());
    let mut random = StdRng::seed_from_u64(43);
    let mut bystander = gateway.connect().await;
    for round in 0..200 {
        let mut bytes = vec![0; random.random_range(1..600)];
        random.fill_bytes(&mut bytes);
        let secured = &gateway.addrs[1..];
        let mut client = Client::connect(secured[random.random_range(0..secured.len())]).await;
        let mechanism = Mechanism::ALL[random.random_range(0..3)].name().to_owned();
        let version = random.random_range(0..2);
        let choose = frame(&SaslHandshakeRequest { mechanism }, version, 1);
        let said = if version == 0 {
            let size = i32::try_from(bytes.len()).expect("short").to_be_bytes();
            [&choose[..], &size, &bytes].concat()
        } else {
            let show = frame(&SaslAuthenticateRequest { auth_bytes: bytes.into() }, 2, 2);
            [&choose[..], &show].concat()
        };
        let until = random.random_range(0..=said.len());
        // The gateway may close while it is being written to.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut client.stream, &said[..until]).await;
        drop(client);
        bystander.send(&describe(round)).await;
        assert_eq!(bystander.receive_id().await, Some(round));
    }
    assert_eq!(gateway.script.entered.lock().len(), 1, "nobody else was let in");
}
