//! How many connections, how long, and how much memory each may hold.

use std::time::Duration;

use gateway::Options;

use crate::script::{Client, Running, describe, fetch, soon};

#[tokio::test]
async fn one_connection_too_many_is_closed_and_a_seat_given_back_is_used() {
    for options in [
        Options { max_connections: 2, ..Options::default() },
        Options { max_connections_per_ip: 2, ..Options::default() },
    ] {
        let gateway = Running::start(options);
        let mut first = gateway.connect().await;
        let mut second = gateway.connect().await;
        for client in [&mut first, &mut second] {
            client.send(&describe(1)).await;
            assert_eq!(client.receive_id().await, Some(1));
        }
        assert!(gateway.connect().await.is_closed().await);
        assert_eq!(gateway.metric("connections_refused_total"), Some(1.0));
        assert_eq!(gateway.metric("connections"), Some(2.0));
        drop(first);
        // The gateway notices in its own time.
        soon(async {
            loop {
                let mut client = gateway.connect().await;
                let _ = tokio::io::AsyncWriteExt::write_all(&mut client.stream, &describe(2)).await;
                if client.receive_id().await == Some(2) {
                    break;
                }
            }
        })
        .await;
        second.send(&describe(3)).await;
        assert_eq!(second.receive_id().await, Some(3));
    }
}

#[tokio::test]
async fn a_connection_per_address_does_not_count_for_another_address() {
    let gateway = Running::start_on(
        vec![crate::script::listener("0.0.0.0:0")],
        Options { max_connections_per_ip: 1, ..Options::default() },
    );
    let port = gateway.addrs[0].port();
    let connect_from = async |ip: &str| {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(format!("{ip}:0").parse().expect("an address")).expect("a loopback address");
        let stream = socket.connect(format!("127.0.0.1:{port}").parse().expect("an address")).await;
        Client { stream: stream.expect("the gateway listens") }
    };
    let mut clients = [connect_from("127.0.0.1").await, connect_from("127.0.0.2").await];
    for client in &mut clients {
        client.send(&describe(1)).await;
        assert_eq!(client.receive_id().await, Some(1));
    }
    assert!(connect_from("127.0.0.2").await.is_closed().await);
}

#[tokio::test]
async fn a_silent_connection_is_closed() {
    let gateway =
        Running::start(Options { connections_max_idle: Duration::from_millis(30), ..Options::default() });
    let mut silent = gateway.connect().await;
    assert!(silent.is_closed().await);
    let mut halfway = gateway.connect().await;
    // It may be too late already on a busy machine, which shows the same.
    let _ = tokio::io::AsyncWriteExt::write_all(&mut halfway.stream, &describe(1)[..6]).await;
    assert!(halfway.is_closed().await);
    assert_eq!(gateway.metric("connections_idle_closed_total"), Some(2.0));
}

#[tokio::test]
async fn a_connection_that_waits_for_an_answer_is_not_idle() {
    let mut gateway =
        Running::start(Options { connections_max_idle: Duration::from_millis(500), ..Options::default() });
    let mut waiting = gateway.connect().await;
    waiting.send(&fetch(1)).await;
    let parked = gateway.next_call().await;
    // Another connection is silent for longer than allowed, and so is this one.
    assert!(gateway.connect().await.is_closed().await);
    parked.answer();
    assert_eq!(waiting.receive_id().await, Some(1));
}

#[tokio::test]
async fn a_client_that_does_not_read_is_not_read_either_and_is_cut_off_in_the_end() {
    let options = Options {
        write_timeout: Duration::from_millis(200),
        socket_send_buffer_bytes: Some(16 << 10),
        socket_receive_buffer_bytes: Some(16 << 10),
        ..Options::default()
    };
    let mut gateway = Running::start(options);
    let client = gateway.connect().await;
    // Each answer is larger than its request, so if the gateway went on reading its output would grow for ever.
    let requests: Vec<u8> = (0..1000).flat_map(describe).collect();
    let (replies, mut sender) = client.stream.into_split();
    let mut sent = 0;
    while tokio::io::AsyncWriteExt::write_all(&mut sender, &requests).await.is_ok() {
        sent += 1000;
        assert!(sent < 1_000_000, "the gateway reads what it cannot answer");
    }
    let mut started = 0;
    while gateway.calls.try_recv().is_ok() {
        started += 1;
    }
    assert!(started < 200_000, "{started} requests were answered into memory");
    assert_eq!(gateway.metric("connections_stalled_closed_total"), Some(1.0));
    drop(replies);
}
