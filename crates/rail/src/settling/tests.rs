//! Two ends of the QUIC library in one thread: time is counted, datagrams are lost and late by a seed, and nothing waits.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use noq_proto::congestion::CubicConfig;
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::{
    AckFrequencyConfig, ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint,
    Endpoint, EndpointConfig, FourTuple, IdleTimeout, ServerConfig, StreamId, TransportConfig, VarInt,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{self, RootCertStore};

use super::Settling;

const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2);

/// How many links begin, and how much is seen of each. The library panics in about one of three hundred.
const LINKS: u64 = 2000;
const BEGINNING: Duration = Duration::from_millis(600);

#[test]
fn links_that_begin_with_lost_datagrams_do_not_panic() {
    let keys = Keys::new();
    let panicked: Vec<u64> = (0..LINKS).filter(|seed| !survives(*seed, &keys, true)).collect();
    assert_eq!(panicked, [0; 0]);
}

/// Says so when `Settling` can go.
#[test]
fn without_settling_the_library_panics() {
    let keys = Keys::new();
    assert!((0..LINKS).any(|seed| !survives(seed, &keys, false)));
}

fn survives(seed: u64, keys: &Keys, held: bool) -> bool {
    catch_unwind(AssertUnwindSafe(|| Network::new(seed, keys, held).run())).is_ok()
}

/// What both ends prove themselves with. The sizes of packets must depend on nothing but the seed.
struct Keys {
    client: Arc<QuicClientConfig>,
    server: Arc<QuicServerConfig>,
}

impl Keys {
    fn new() -> Self {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let certificate =
            rcgen::CertificateParams::new(["broker".to_owned()]).unwrap().self_signed(&pair).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let client = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(pair.serialize_der().into()),
            )
            .unwrap();
        Self { client: Arc::new(client.try_into().unwrap()), server: Arc::new(server.try_into().unwrap()) }
    }
}

struct Network {
    random: StdRng,
    now: Instant,
    until: Instant,
    sent: u64,
    client: End,
    server: End,
}

/// Datagrams on their way to an end, by when they arrive and when they were sent.
type Coming = BTreeMap<(Instant, u64), (BytesMut, Option<EcnCodepoint>)>;

struct End {
    endpoint: Endpoint,
    link: Option<(ConnectionHandle, Connection)>,
    coming: Coming,
    peer: SocketAddr,
    lanes: Vec<StreamId>,
    /// Before this it does nothing.
    awake: Instant,
}

impl Network {
    fn new(seed: u64, keys: &Keys, held: bool) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let transport = Arc::new(transport(held));
        let mut server = ServerConfig::with_crypto(keys.server.clone());
        server.transport_config(Arc::clone(&transport));
        let mut client = ClientConfig::new(keys.client.clone());
        client.transport_config(transport);
        let now = Instant::now();
        let mut end = |server, peer| {
            let mut config = EndpointConfig::default();
            config.rng_seed(Some(random.random()));
            End {
                endpoint: Endpoint::new(Arc::new(config), server, true),
                link: None,
                coming: BTreeMap::new(),
                peer,
                lanes: Vec::new(),
                awake: now,
            }
        };
        let mut dialling = end(None, SERVER);
        let accepting = end(Some(Arc::new(server)), CLIENT);
        dialling.link = Some(dialling.endpoint.connect(now, client, SERVER, "broker").unwrap());
        Self { random, now, until: now + BEGINNING, sent: 0, client: dialling, server: accepting }
    }

    fn run(mut self) {
        while self.now < self.until {
            if self.client.awake <= self.now {
                self.client.turn(self.now, &mut self.random);
                self.client.send(self.now, &mut self.random, &mut self.server.coming, &mut self.sent);
            }
            if self.server.awake <= self.now {
                self.server.turn(self.now, &mut self.random);
                self.server.send(self.now, &mut self.random, &mut self.client.coming, &mut self.sent);
            }
            self.now = self.client.awake.min(self.server.awake);
        }
    }
}

impl End {
    /// Takes what has arrived, lets timers fire, reads all, and writes a little.
    fn turn(&mut self, now: Instant, random: &mut StdRng) {
        while let Some(first) = self.coming.first_entry().filter(|first| first.key().0 <= now) {
            let (datagram, ecn) = first.remove();
            let from = FourTuple::new(self.peer, None);
            match self.endpoint.handle(now, from, ecn, datagram, &mut Vec::new()) {
                Some(DatagramEvent::NewConnection(incoming)) => {
                    self.link = self.endpoint.accept(incoming, now, &mut Vec::new(), None).ok();
                }
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    self.link.as_mut().unwrap().1.handle_event(event);
                }
                _ => {}
            }
        }
        let Some((handle, link)) = &mut self.link else { return };
        if link.poll_timeout().is_some_and(|at| at <= now) {
            link.handle_timeout(now);
        }
        while let Some(event) = link.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                link.handle_event(event);
            }
        }
        while link.poll().is_some() {}
        if link.is_handshaking() || link.is_closed() {
            return;
        }
        self.lanes.extend(link.streams().open(Dir::Bi));
        while let Some(lane) = link.streams().accept(Dir::Bi) {
            self.lanes.push(lane);
        }
        for lane in &self.lanes {
            if let Ok(mut chunks) = link.recv_stream(*lane).read(true) {
                while let Ok(Some(_)) = chunks.next(usize::MAX) {}
                let _ = chunks.finalize();
            }
            if random.random_bool(0.2) {
                let _ = link.send_stream(*lane).write(&vec![0; random.random_range(1..2000)]);
            }
        }
    }

    /// Sends what there is to send, and decides when this end has its next turn.
    fn send(&mut self, now: Instant, random: &mut StdRng, there: &mut Coming, sent: &mut u64) {
        self.awake = now + Duration::from_micros(random.random_range(50..2000));
        if random.random_bool(0.02) {
            self.awake = now + Duration::from_millis(random.random_range(0..200));
        }
        let Some((_, link)) = &mut self.link else { return };
        let mut batch = Vec::new();
        while let Some(transmit) = link.poll_transmit(now, NonZeroUsize::new(10).unwrap(), &mut batch) {
            for datagram in batch[..transmit.size].chunks(transmit.segment_size.unwrap_or(transmit.size)) {
                *sent += 1;
                if random.random_bool(0.7) {
                    let arrives = now + Duration::from_micros(random.random_range(20..60));
                    there.insert((arrives, *sent), (BytesMut::from(datagram), transmit.ecn));
                }
            }
            batch.clear();
        }
    }
}

/// Small windows make for many small frames.
fn transport(held: bool) -> TransportConfig {
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(VarInt::from_u32(10)).max_ack_delay(Some(Duration::from_millis(1)));
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(Some(IdleTimeout::try_from(Duration::from_secs(3)).unwrap()))
        .max_concurrent_multipath_paths(8)
        .max_concurrent_bidi_streams(VarInt::from_u32(9))
        .stream_receive_window(VarInt::from_u32(3000))
        .receive_window(VarInt::from_u32(2000))
        .mtu_discovery_config(None)
        .ack_frequency_config(Some(acks));
    if held {
        let rates = Arc::new(CubicConfig::default());
        transport
            .congestion_controller_factory(Arc::new(Settling { rates, at_most: Duration::from_secs(3) }));
    }
    transport
}
