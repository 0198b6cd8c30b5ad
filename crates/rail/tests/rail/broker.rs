//! A broker that does what a test says, gateways before it, and links between them.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coordination::op::{self, Op};
use coordination::reply::{self, Reply};
use rail::format::Version;
use rail::{
    Acceptor, Answer, BrokerAddress, Carrier, Endpoint, EndpointId, Gatekeeper, Hello, Key, Rail, Refused,
    RemoteRail, bind, bind_to_dial, local_address,
};
use tokio::sync::{oneshot, watch};

use crate::golden::every_reply;

/// What is waited for in vain after this long does not come.
const DEADLINE: Duration = Duration::from_secs(60);

/// Waits for an event.
pub(crate) async fn within<T>(event: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, event).await.expect("it happens in time")
}

/// What a broker does with an op.
type Answering = dyn Fn(&Carrier, Op) -> Answer + Send + Sync;

/// A broker whose answers are a function.
pub(crate) struct Script {
    answer: Box<Answering>,
    calls: watch::Sender<Vec<(Carrier, Op)>>,
    left: watch::Sender<Vec<u64>>,
}

impl Rail for Script {
    fn call(&self, carrier: &Carrier, op: Op) -> Answer {
        let answer = (self.answer)(carrier, op.clone());
        self.calls.send_modify(|calls| calls.push((carrier.clone(), op)));
        answer
    }

    fn leave(&self, carrier: &Carrier) {
        self.left.send_modify(|left| left.push(carrier.number()));
    }
}

impl Script {
    pub(crate) fn new(answer: impl Fn(&Carrier, Op) -> Answer + Send + Sync + 'static) -> Arc<Self> {
        let (calls, left) = (watch::Sender::default(), watch::Sender::default());
        Arc::new(Self { answer: Box::new(answer), calls, left })
    }

    /// Answers each op with a reply of its kind.
    pub(crate) fn obliging() -> Arc<Self> {
        Self::new(|_, op| reply_to(&op).into())
    }

    /// The calls, once there are this many.
    pub(crate) async fn calls(&self, count: usize) -> Vec<(Carrier, Op)> {
        let mut calls = self.calls.subscribe();
        let calls = within(calls.wait_for(|calls| calls.len() >= count)).await.expect("the script is there");
        calls.clone()
    }

    /// The calls so far.
    pub(crate) fn calls_now(&self) -> Vec<Op> {
        self.calls.borrow().iter().map(|(_, op)| op.clone()).collect()
    }

    /// The clients that have left, once there are this many.
    pub(crate) async fn left(&self, count: usize) -> Vec<u64> {
        let mut left = self.left.subscribe();
        let left = within(left.wait_for(|left| left.len() >= count)).await.expect("the script is there");
        left.clone()
    }
}

/// Answers that come when a test says so, in the order of their calls.
#[derive(Clone, Default)]
pub(crate) struct Parking {
    parked: Arc<parking_lot::Mutex<Vec<Option<oneshot::Sender<Reply>>>>>,
    dropped: Arc<watch::Sender<usize>>,
}

impl Parking {
    pub(crate) fn park(&self) -> Answer {
        let (give, take) = oneshot::channel();
        self.parked.lock().push(Some(give));
        let noticed = Noticed(Arc::clone(&self.dropped));
        Answer::Later(Box::pin(async move {
            let _noticed = noticed;
            take.await.expect("the test answers what it waits for")
        }))
    }

    /// Answers the op that was parked at this place.
    pub(crate) fn answer(&self, place: usize, reply: Reply) {
        let give = self.parked.lock()[place].take().expect("it was not answered yet");
        let _ = give.send(reply);
    }

    /// Waits until this many answers are given or dropped.
    pub(crate) async fn dropped(&self, count: usize) {
        let mut dropped = self.dropped.subscribe();
        within(dropped.wait_for(|dropped| *dropped >= count)).await.expect("the parking is there");
    }
}

struct Noticed(Arc<watch::Sender<usize>>);

impl Drop for Noticed {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count += 1);
    }
}

/// Lets in whom it is told to, or everybody.
#[derive(Default)]
pub(crate) struct Doors {
    pub(crate) is_closed: bool,
    pub(crate) nodes: parking_lot::Mutex<BTreeMap<EndpointId, i32>>,
    pub(crate) refused: AtomicUsize,
    pub(crate) left: watch::Sender<usize>,
}

impl Gatekeeper for Doors {
    fn admit(&self, gateway: EndpointId, _: &Hello) -> Result<i32, Refused> {
        if self.is_closed {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(Refused(format!("{gateway} is not on the list")));
        }
        let mut nodes = self.nodes.lock();
        let next = i32::try_from(nodes.len()).expect("few") + 1;
        Ok(*nodes.entry(gateway).or_insert(next))
    }

    fn left(&self, _: EndpointId) {
        self.left.send_modify(|left| *left += 1);
    }
}

/// A broker that listens.
pub(crate) struct Broker {
    pub(crate) acceptor: Arc<Acceptor>,
    pub(crate) address: BrokerAddress,
    pub(crate) doors: Arc<Doors>,
    key: Key,
}

pub(crate) const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl Broker {
    pub(crate) async fn start(script: &Arc<Script>) -> Self {
        Self::start_as(script, Doors::default(), Version::ALL).await
    }

    pub(crate) async fn start_as(script: &Arc<Script>, doors: Doors, versions: &'static [Version]) -> Self {
        let key = Key::generate();
        let endpoint = bind(&key, LOCAL).await.expect("a socket");
        Self::on(endpoint, script, Arc::new(doors), versions, key)
    }

    fn on(
        endpoint: Endpoint,
        script: &Arc<Script>,
        doors: Arc<Doors>,
        versions: &'static [Version],
        key: Key,
    ) -> Self {
        let address = local_address(&endpoint).expect("it is bound").to_string();
        let address = BrokerAddress { id: key.id(), address };
        let rail: Arc<dyn Rail> = Arc::clone(script) as _;
        let acceptor = Acceptor::listen_as(endpoint, rail, Arc::clone(&doors) as _, versions);
        Self { acceptor, address, doors, key }
    }

    /// Stops, and starts again at the same address with another script.
    pub(crate) async fn restart(self, script: &Arc<Script>) -> Self {
        let Self { acceptor, address, doors, key } = self;
        within(acceptor.close()).await;
        drop(acceptor);
        let at = address.address.parse().expect("an address");
        // The socket is given back by a task that has yet to end.
        let endpoint = within(async {
            loop {
                match bind(&key, at).await {
                    Ok(endpoint) => return endpoint,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        })
        .await;
        Self::on(endpoint, script, doors, Version::ALL, key)
    }

    /// A gateway that dials it.
    pub(crate) async fn gateway(&self) -> Arc<RemoteRail> {
        let gateway = self.dialling(Hello::default(), Version::ALL).await;
        within(gateway.connected()).await;
        gateway
    }

    pub(crate) async fn dialling(&self, hello: Hello, versions: &'static [Version]) -> Arc<RemoteRail> {
        let endpoint = bind_to_dial(&Key::generate(), &self.address).await.expect("a socket");
        RemoteRail::connect_as(endpoint, self.address.clone(), hello, versions)
    }
}

/// A client of a gateway.
pub(crate) fn client() -> Carrier {
    Carrier::new(Ipv4Addr::new(10, 1, 2, 3).into(), Arc::from("PLAINTEXT"))
}

/// A reply of the kind that belongs to `op`.
pub(crate) fn reply_to(op: &Op) -> Reply {
    let name = |text: String| text.split(['(', ' ']).next().unwrap_or_default().to_owned();
    let wanted = name(format!("{op:?}"));
    every_reply(1)
        .into_iter()
        .find(|reply| name(format!("{reply:?}")) == wanted)
        .expect("each op has a reply")
}

pub(crate) fn heartbeat(generation: i32) -> Op {
    Op::Heartbeat(Arc::new(op::Heartbeat {
        group: "readers".to_owned(),
        generation,
        member_id: "member-1".to_owned(),
        instance_id: None,
    }))
}

pub(crate) fn heard() -> Reply {
    Reply::Heartbeat(reply::Heartbeat { error: None })
}
