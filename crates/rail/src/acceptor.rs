//! Lets gateways in.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use iroh::endpoint::{Connection, Incoming, IncomingAddr, RecvStream, SendStream};
use iroh::{Endpoint, EndpointId};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time;
use tracing::{debug, info, warn};

use crate::Rail;
use crate::dialler::closing;
use crate::format::version::listed;
use crate::format::{self, FromGateway, Hello, Inlet, Version};
use crate::lane::{LaneError, PIECES};
use crate::limits::{GREETING, GREETING_MAX, NEWCOMERS, REMEMBERED};
use crate::roster::{Node, Roster};
use crate::served_link::{self, ServedLink, Words};

/// Decides which gateways get in.
pub trait Gatekeeper: Send + Sync + 'static {
    /// Lets a gateway in, by the node id that it has from then on. It has shown to own the key behind `gateway`.
    ///
    /// # Errors
    /// When it is not on the list.
    fn admit(&self, gateway: EndpointId, hello: &Hello) -> Result<i32, Refused>;

    /// The link of a gateway is gone, and no newer one has taken its place.
    fn left(&self, gateway: EndpointId) {
        let _ = gateway;
    }
}

/// Why a gateway is not let in, as a sentence for both ends' logs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// A gateway that is linked now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveGateway {
    /// Who it is.
    pub id: EndpointId,
    /// What clients call it.
    pub node: i32,
    /// The listeners that clients can be sent to: name, host and port.
    pub listeners: Vec<(String, String, u16)>,
    /// What it runs.
    pub software: String,
    /// The version of the format that is spoken with it.
    pub version: Version,
    /// Where it dialled from.
    pub address: Option<SocketAddr>,
}

/// Accepts links of gateways and serves them from the broker's own rail.
pub struct Acceptor {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    rail: Arc<dyn Rail>,
    gatekeeper: Arc<dyn Gatekeeper>,
    versions: &'static [Version],
    live: Mutex<Live>,
    /// All nodes that clients can be sent to, by id.
    nodes: watch::Sender<Arc<[Node]>>,
    /// Those that were refused and logged.
    refused: Mutex<BTreeSet<EndpointId>>,
}

#[derive(Default)]
struct Live {
    own: Option<Node>,
    gateways: BTreeMap<EndpointId, Linked>,
    next_link: u64,
}

struct Linked {
    /// Which link of the gateway this is.
    link: u64,
    gateway: LiveGateway,
    connection: Connection,
}

/// What this software is called.
pub(crate) const SOFTWARE: &str = concat!("kohort/", env!("CARGO_PKG_VERSION"));

impl Acceptor {
    /// Accepts links on `endpoint`, in the runtime that this is called in.
    pub fn listen(endpoint: Endpoint, rail: Arc<dyn Rail>, gatekeeper: Arc<dyn Gatekeeper>) -> Arc<Self> {
        Self::listen_as(endpoint, rail, gatekeeper, Version::ALL)
    }

    /// The same, for one who speaks these versions and no others.
    pub fn listen_as(
        endpoint: Endpoint,
        rail: Arc<dyn Rail>,
        gatekeeper: Arc<dyn Gatekeeper>,
        versions: &'static [Version],
    ) -> Arc<Self> {
        endpoint.set_alpns(versions.iter().map(|version| version.alpn()).collect());
        let (nodes, _) = watch::channel(Arc::from([]));
        let shared = Arc::new(Shared {
            rail,
            gatekeeper,
            versions,
            live: Mutex::default(),
            nodes,
            refused: Mutex::default(),
        });
        let task = tokio::spawn(accept(endpoint.clone(), Arc::clone(&shared)));
        Arc::new(Self { shared, endpoint, task: Mutex::new(Some(task)) })
    }

    /// The gateways that are linked now, by id.
    pub fn gateways(&self) -> Vec<LiveGateway> {
        self.shared.live.lock().gateways.values().map(|linked| linked.gateway.clone()).collect()
    }

    /// The gateways there are, as told to one that is called `me`.
    pub fn roster(&self, me: i32) -> Arc<Roster> {
        Arc::new(Roster { me, nodes: self.shared.nodes.borrow().to_vec() })
    }

    /// Wakes whenever a gateway comes or goes.
    pub fn nodes(&self) -> watch::Receiver<Arc<[Node]>> {
        self.shared.nodes.subscribe()
    }

    /// The broker's own listeners, if it has some, as a gateway among the others.
    pub fn set_own(&self, own: Option<Node>) {
        let mut live = self.shared.live.lock();
        live.own = own;
        self.shared.tell(&live);
    }

    /// Ends the link of a gateway that is no longer on the list. Says whether there was one.
    pub fn cut(&self, gateway: EndpointId) -> bool {
        let live = self.shared.live.lock();
        let Some(linked) = live.gateways.get(&gateway) else { return false };
        linked.connection.close(closing::REFUSED, b"the broker no longer lets this gateway in");
        true
    }

    /// Ends all links and accepts no more.
    pub async fn close(&self) {
        let task = self.task.lock().take();
        for linked in self.shared.live.lock().gateways.values() {
            linked.connection.close(closing::STOPPING, b"the broker stops");
        }
        if let Some(task) = task {
            task.abort();
            let _ = task.await;
        }
        self.endpoint.close().await;
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}

async fn accept(endpoint: Endpoint, shared: Arc<Shared>) {
    let newcomers = Arc::new(Semaphore::new(NEWCOMERS));
    let mut links = JoinSet::new();
    loop {
        tokio::select! {
            incoming = endpoint.accept() => {
                let Some(incoming) = incoming else { return };
                match Arc::clone(&newcomers).try_acquire_owned() {
                    Ok(seat) => {
                        let welcome = welcome(endpoint.clone(), incoming, Arc::clone(&shared), seat);
                        links.spawn(Box::pin(welcome));
                    }
                    Err(_) => incoming.refuse(),
                }
            }
            // What a link that ends has to say it has logged.
            Some(_) = links.join_next(), if !links.is_empty() => {}
        }
    }
}

/// One peer from its first packet to the end of its link.
async fn welcome(
    endpoint: Endpoint,
    incoming: Incoming,
    shared: Arc<Shared>,
    seat: tokio::sync::OwnedSemaphorePermit,
) {
    let address = match incoming.remote_addr() {
        IncomingAddr::Ip(address) => Some(address),
        _ => None,
    };
    let offered = offered(&incoming);
    let is_understood = offered.is_empty() || offered.iter().any(|alpn| shared.version_of(alpn).is_some());
    let accepting = if is_understood {
        incoming.accept()
    } else {
        // Refused in the handshake it would not learn why.
        let config = endpoint.create_server_config_builder(offered.clone()).build();
        incoming.accept_with(Arc::new(config))
    };
    let Ok(accepting) = accepting else { return };
    let connection = match time::timeout(GREETING, accepting).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return debug!(?address, %error, "a handshake failed"),
        Err(_) => return,
    };
    let Some(version) = shared.version_of(connection.alpn()) else {
        let theirs: Vec<_> = offered.iter().map(|alpn| String::from_utf8_lossy(alpn)).collect();
        let reason =
            format!("the gateway speaks {}, the broker {}", theirs.join(" and "), listed(shared.versions));
        return shared.refuse(&connection, closing::VERSION, &reason).await;
    };
    let (hello, words) = match time::timeout(GREETING, greeting(&connection, version)).await {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(error)) => {
            debug!(?address, %error, "a peer that does not greet");
            return connection.close(closing::FORMAT, error.to_string().as_bytes());
        }
        Err(_) => return connection.close(closing::FORMAT, b"no greeting came"),
    };
    let id = connection.remote_id();
    let node = match shared.gatekeeper.admit(id, &hello) {
        Ok(node) => node,
        Err(Refused(reason)) => return shared.refuse(&connection, closing::REFUSED, &reason).await,
    };
    drop(seat);
    let gateway =
        LiveGateway { id, node, listeners: hello.listeners, software: hello.software, version, address };
    info!(gateway = %id, node, software = %gateway.software, version = version.number(), "a gateway is linked");
    let link = shared.come(gateway, connection.clone());
    // Also when this task is aborted, as when the broker stops.
    let _left = Left { shared: &shared, id, link };
    let served = Arc::new(ServedLink::new(Arc::clone(&shared.rail), version));
    let nodes = shared.nodes.subscribe();
    let error = served_link::serve(&connection, served, node, words, nodes, SOFTWARE.to_owned()).await;
    let reason = connection.close_reason().map_or_else(|| error.to_string(), |reason| reason.to_string());
    info!(gateway = %id, node, %reason, "the link of a gateway has ended");
    connection.close(closing::FORMAT, error.to_string().as_bytes());
}

/// The versions of the rail that a peer offers; empty if they cannot be read yet.
fn offered(incoming: &Incoming) -> Vec<Vec<u8>> {
    let alpns = incoming.decrypt().and_then(|initial| initial.alpns());
    let known = alpns.into_iter().flatten().filter_map(Result::ok);
    known.map(|alpn| alpn.to_vec()).filter(|alpn| Version::is_rail(alpn)).collect()
}

async fn greeting(connection: &Connection, version: Version) -> Result<(Hello, Words), LaneError> {
    let (send, mut receive): (SendStream, RecvStream) =
        connection.accept_bi().await.map_err(|_| LaneError::Ended)?;
    let mut inlet = Inlet::default();
    let mut pieces = [const { Bytes::new() }; PIECES];
    let mut length = 0;
    loop {
        if let Some(message) = inlet.next_message()? {
            return match format::decode_from_gateway(version, &message)? {
                FromGateway::Hello(hello) => Ok((hello, Words { send, _receive: receive })),
                _ => Err(LaneError::Misplaced),
            };
        }
        let count = receive.read_many_chunks(&mut pieces).await?.ok_or(LaneError::Ended)?;
        for piece in &mut pieces[..count] {
            length += piece.len();
            inlet.feed(std::mem::take(piece));
        }
        if length > GREETING_MAX {
            return Err(LaneError::Misplaced);
        }
    }
}

impl Shared {
    fn version_of(&self, alpn: &[u8]) -> Option<Version> {
        Version::of_alpn(alpn, self.versions)
    }

    /// Tells a peer that it is not wanted, and the log once.
    async fn refuse(&self, connection: &Connection, code: iroh::endpoint::VarInt, reason: &str) {
        let id = connection.remote_id();
        let is_first = {
            let mut refused = self.refused.lock();
            if refused.len() >= REMEMBERED {
                refused.clear();
            }
            refused.insert(id)
        };
        if is_first {
            warn!(gateway = %id, reason, "a gateway was refused");
        }
        connection.close(code, reason.as_bytes());
        // The reason is on its way; a connection that is dropped now might not say it.
        connection.closed().await;
    }

    /// A gateway is linked. An older link of the same one is a leftover that has not noticed yet.
    fn come(&self, gateway: LiveGateway, connection: Connection) -> u64 {
        self.refused.lock().remove(&gateway.id);
        let mut live = self.live.lock();
        let link = live.next_link;
        live.next_link += 1;
        if let Some(old) = live.gateways.insert(gateway.id, Linked { link, gateway, connection }) {
            old.connection.close(closing::REPLACED, b"a newer link of this gateway has taken over");
        }
        self.tell(&live);
        link
    }

    fn go(&self, id: EndpointId, link: u64) {
        let mut live = self.live.lock();
        if live.gateways.get(&id).is_none_or(|linked| linked.link != link) {
            return;
        }
        live.gateways.remove(&id);
        self.tell(&live);
        drop(live);
        self.gatekeeper.left(id);
    }

    fn tell(&self, live: &Live) {
        let gateways = live.gateways.values().map(|linked| &linked.gateway);
        let mut nodes: Vec<Node> = gateways
            .filter(|gateway| !gateway.listeners.is_empty())
            .map(|gateway| Node { id: gateway.node, listeners: gateway.listeners.clone() })
            .chain(live.own.clone())
            .collect();
        nodes.sort_by_key(|node| node.id);
        self.nodes.send_if_modified(|before| {
            let is_news = **before != *nodes;
            if is_news {
                *before = nodes.into();
            }
            is_news
        });
    }
}

/// Takes a gateway off the list of those that are linked.
struct Left<'a> {
    shared: &'a Shared,
    id: EndpointId,
    link: u64,
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.shared.go(self.id, self.link);
    }
}
