//! A gateway that was let in and does not keep to the format.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use bytes::Bytes;
use coordination::op::Op;
use coordination::reply::Reply;
use iroh::endpoint::{Connection, ConnectionError, RecvStream, SendStream};
use iroh::{EndpointAddr, TransportAddr};
use rail::format::{
    self, FromBroker, FromGateway, Head, Hello, Inlet, KeptRecords, LaneClass, Said, Version,
};
use rail::{Endpoint, FRAME_MAX, Key, Rail, bind};

use crate::broker::{Broker, LOCAL, Script, client, heartbeat, reply_to, within};
use crate::golden::say_to_broker;
use crate::kept_records::fetched;
use crate::lanes::fetch;

/// The version that peers speak where it does not matter.
const NEWEST: Version = Version::Five;

pub(crate) struct Peer {
    connection: Connection,
    _first: (SendStream, RecvStream),
    _endpoint: Endpoint,
}

fn frame(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("short");
    [&length.to_le_bytes()[..], body].concat()
}

fn said(said: FromGateway) -> Vec<u8> {
    said_in(NEWEST, said)
}

/// What a gateway says in this version, as a frame.
pub(crate) fn said_in(version: Version, said: FromGateway) -> Vec<u8> {
    frame(&say_to_broker(version, said))
}

impl Peer {
    async fn greet(broker: &Broker, version: Version, first: &[u8]) -> Self {
        let endpoint = bind(&Key::generate(), LOCAL).await.expect("a socket");
        let address = TransportAddr::Ip(broker.address.address.parse().expect("an address"));
        let address = EndpointAddr::from_parts(broker.address.id, [address]);
        let connection = within(endpoint.connect(address, &version.alpn())).await.expect("a connection");
        let (mut send, receive) = within(connection.open_bi()).await.expect("a stream");
        within(send.write_all(first)).await.expect("written");
        Self { connection, _first: (send, receive), _endpoint: endpoint }
    }

    async fn admitted(broker: &Broker) -> Self {
        Self::admitted_as(broker, NEWEST).await
    }

    /// One that was let in and speaks this version.
    pub(crate) async fn admitted_as(broker: &Broker, version: Version) -> Self {
        let hello = said_in(version, FromGateway::Hello(Hello::default()));
        let mut peer = Self::greet(broker, version, &hello).await;
        let mut welcome = [0; 4];
        within(peer._first.1.read_exact(&mut welcome)).await.expect("a welcome");
        peer
    }

    /// Opens a lane and writes `bytes` to it.
    async fn lane(&self, bytes: &[u8]) -> (SendStream, RecvStream) {
        let (mut send, receive) = self.stream(&said(FromGateway::Lane(LaneClass::Light))).await;
        // It may be cut off while it writes.
        let _ = within(send.write_all(bytes)).await;
        (send, receive)
    }

    /// Opens a stream that begins with these bytes.
    pub(crate) async fn stream(&self, first: &[u8]) -> (SendStream, RecvStream) {
        let (mut send, receive) = within(self.connection.open_bi()).await.expect("a stream");
        within(send.write_all(first)).await.expect("written");
        (send, receive)
    }

    pub(crate) async fn cut_off(&self) -> String {
        match within(self.connection.closed()).await {
            ConnectionError::ApplicationClosed(close) => String::from_utf8_lossy(&close.reason).into_owned(),
            other => panic!("{other}"),
        }
    }
}

async fn assert_still_serves(broker: &Broker) {
    let gateway = broker.gateway().await;
    assert_eq!(within(gateway.call(&client(), heartbeat(1)).reply()).await, Ok(reply_to(&heartbeat(1))));
}

fn said_together(announce: &[u8], what: Said) -> Vec<u8> {
    [announce, &said(FromGateway::Together(1, 0, vec![what]))].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_ends_the_link_of_its_sender_and_no_other() {
    let script = Script::obliging();
    let broker = Broker::start(&script).await;
    let announce = said(FromGateway::Announce(0, crate::random::random(1)));
    let request = |id, carrier| said(FromGateway::Request(Head { id, carrier, trace: None }, heartbeat(1)));
    let together = |said| said_together(&announce, said);
    let cases: [(&str, Vec<u8>, &str); 14] = [
        ("a huge frame", u32::MAX.to_le_bytes().to_vec(), "a frame of 4294967295 bytes"),
        ("an empty frame", vec![0; 4], "a frame of 0 bytes"),
        ("an unknown code", frame(&[0x77, 0, 0, 0]), "no message has the code 0x77"),
        ("an op that is cut short", frame(&[0x08, 1, 0, 0, 5]), "Heartbeat"),
        ("an op of a client that was not announced", request(1, 0), "does not belong"),
        (
            "a client beyond all places",
            said(FromGateway::Announce(9, crate::random::random(1))),
            "does not belong",
        ),
        (
            "a heartbeat again of a client that has sent none",
            [announce.clone(), said(FromGateway::Again(1, 0))].concat(),
            "does not belong",
        ),
        (
            "heartbeats again of a client that has sent none",
            together(Said::HeartbeatAgain(2)),
            "does not belong",
        ),
        (
            "a commit like that of a client that has sent none",
            together(Said::CommitLike { front: 0, back: 1, middle: Bytes::new() }),
            "a part of the last commit 1 is out of bounds",
        ),
        (
            "a commit that is none",
            together(Said::Commit(Bytes::from_static(b"\xff\xff"))),
            "the message OffsetCommit cannot be read",
        ),
        (
            "ops together of a client that was not announced",
            said(FromGateway::Together(1, 0, vec![Said::HeartbeatAgain(1)])),
            "does not belong",
        ),
        ("a client that leaves and was not there", said(FromGateway::Leave(3)), "does not belong"),
        ("a reply", frame(&[0xf5, 1]), "no message has the code 0xf5"),
        ("a greeting in the wrong place", said(FromGateway::Hello(Hello::default())), "does not belong"),
    ];
    for (case, bytes, expected) in cases {
        let peer = Peer::admitted(&broker).await;
        let _lane = peer.lane(&bytes).await;
        let reason = peer.cut_off().await;
        assert!(reason.contains(expected), "{case}: {reason}");
    }
    assert!(script.calls_now().is_empty());

    let peer = Peer::admitted(&broker).await;
    let _lane = peer.lane(&[announce, request(1, 0)].concat()).await;
    script.calls(1).await;
    assert_still_serves(&broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_an_end_is_cut_off_and_unanswered_ids_are_not_given_twice() {
    let script = Script::new(|_, _| rail::Answer::Later(Box::pin(std::future::pending())));
    let broker = Broker::start(&script).await;
    let peer = Peer::admitted(&broker).await;
    let part = frame(&[&[0xfe, 1][..], &vec![0; FRAME_MAX - 2]].concat());
    let (mut send, _receive) = peer.lane(&[]).await;
    for _ in 0..200 {
        if within(send.write_chunk(Bytes::from(part.clone()))).await.is_err() {
            break;
        }
    }
    assert!(peer.cut_off().await.contains("a message of more than"), "after what a message may have");

    let peer = Peer::admitted(&broker).await;
    let announce = said(FromGateway::Announce(0, crate::random::random(1)));
    let request = said(FromGateway::Request(Head { id: 4, carrier: 0, trace: None }, heartbeat(1)));
    let _lane = peer.lane(&[&announce[..], &request, &request].concat()).await;
    assert!(peer.cut_off().await.contains("does not belong"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_greet_gets_no_further() {
    let script = Script::obliging();
    let broker = Broker::start(&script).await;
    let request = said(FromGateway::Request(Head { id: 4, carrier: 0, trace: None }, heartbeat(1)));
    for first in [request, u32::MAX.to_le_bytes().to_vec(), frame(&vec![0xf3; 100_000])] {
        let peer = Peer::greet(&broker, NEWEST, &first).await;
        peer.cut_off().await;
    }
    assert!(broker.acceptor.gateways().is_empty());
    assert!(script.calls_now().is_empty());
    assert_still_serves(&broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_does_not_read_holds_what_is_queued_for_it_and_no_more() {
    const REPLIES: u32 = 60;
    const SIZE: usize = 1 << 20;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let batch = Bytes::from(vec![7; SIZE]);
    let script = Script::new(move |_, op| {
        let Op::Fetch(_) = op else { return reply_to(&op).into() };
        let (counted, batch, mut is_first) = (Arc::clone(&counted), batch.clone(), true);
        rail::Answer::Later(Box::pin(std::future::poll_fn(move |context| {
            // Not there at once, as when the disk has to be read.
            if std::mem::take(&mut is_first) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            counted.fetch_add(1, Ordering::SeqCst);
            Poll::Ready(fetched(None, std::slice::from_ref(&batch)))
        })))
    });
    let broker = Broker::start(&script).await;
    let peer = Peer::admitted(&broker).await;
    let announce = said(FromGateway::Announce(0, crate::random::random(1)));
    let request = |id| said(FromGateway::Request(Head { id, carrier: 0, trace: None }, fetch()));
    let requests = (0..REPLIES).flat_map(request);
    let (_send, mut receive) = peer.lane(&announce.into_iter().chain(requests).collect::<Vec<_>>()).await;
    let gateway = broker.gateway().await;
    for _ in 0..100 {
        assert_eq!(within(gateway.call(&client(), heartbeat(1)).reply()).await, Ok(reply_to(&heartbeat(1))));
    }
    let held = asked.load(Ordering::SeqCst);
    assert!((1..10).contains(&held), "{held} answers are held for one that does not read");

    let mut inlet = Inlet::default();
    let mut replies = 0;
    within(async {
        while replies < REPLIES {
            inlet.feed(receive.read_chunk(SIZE).await.expect("the link is there").expect("more comes"));
            while let Some(message) = inlet.next_message().expect("the format is kept") {
                assert!(matches!(
                    format::decode_from_broker(NEWEST, &message, &mut KeptRecords::default()),
                    Ok(FromBroker::Reply(_, Reply::Fetch(_)))
                ));
                replies += 1;
            }
        }
    })
    .await;
    assert_eq!(asked.load(Ordering::SeqCst), usize::try_from(REPLIES).expect("few"));
}
