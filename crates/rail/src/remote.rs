//! The broker as a gateway sees it that is another process.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use coordination::op::Op;
use coordination::reply::Reply;
use iroh::Endpoint;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time;

use crate::carrier::Carrier;
use crate::dialler::{Dialler, LinkState};
use crate::format::{Hello, LaneClass, Run, Version, is_gathered};
use crate::keys::BrokerAddress;
use crate::lane::{Asked, Lane, Unsent};
use crate::refuse::unknown_to_broker;
use crate::roster::Roster;
use crate::slots::Replies;
use crate::{Answer, Lost, Rail, refuse};

/// The way to a broker in another process.
///
/// Ops of one client and one class (what is light; produce; fetch) take effect in the order in which they are handed
/// over. While there is no link they are refused with what makes clients try again.
#[derive(Debug)]
pub struct RemoteRail {
    shared: Arc<Shared>,
    state: watch::Receiver<LinkState>,
    task: Mutex<Option<JoinHandle<()>>>,
    endpoint: Endpoint,
}

/// What outlives a link.
#[derive(Debug)]
pub(crate) struct Shared {
    link: RwLock<Option<Arc<Link>>>,
    roster: RwLock<Option<Arc<Roster>>>,
    /// The clients that have a place among their organisation's connections, by number. Over a new link they take it again
    /// before anybody else comes.
    places: Mutex<HashMap<u64, Carrier>>,
    state: watch::Sender<LinkState>,
}

/// One connection to the broker.
#[derive(Debug)]
pub(crate) struct Link {
    version: Version,
    lanes: Vec<Lane>,
}

/// The lanes of a link, in order. Clients share those of one class by their number.
pub(crate) const LANES: [LaneClass; 7] = [
    LaneClass::Light,
    LaneClass::Light,
    LaneClass::Produce,
    LaneClass::Produce,
    LaneClass::Fetch,
    LaneClass::Fetch,
    LaneClass::Bulk,
];

/// How long the end of a gateway waits for the broker to hear of it.
const GOODBYE: Duration = Duration::from_millis(500);

/// From this size on, a group's metadata or assignment does not go before heartbeats.
const LIGHT_MAX: usize = 64 << 10;

impl RemoteRail {
    /// Dials `broker` for ever, from the runtime that this is called in.
    ///
    /// `record_memory` bytes of the records that were fetched are kept, so that they do not cross the link again when
    /// they are fetched again. It is shared by the lanes evenly.
    pub fn connect(
        endpoint: Endpoint,
        broker: BrokerAddress,
        hello: Hello,
        record_memory: usize,
    ) -> Arc<Self> {
        Self::dial(endpoint, broker, hello, Version::ALL, record_memory)
    }

    /// The same, for one who speaks these versions and no others, and keeps no records.
    pub fn connect_as(
        endpoint: Endpoint,
        broker: BrokerAddress,
        hello: Hello,
        versions: &'static [Version],
    ) -> Arc<Self> {
        Self::dial(endpoint, broker, hello, versions, 0)
    }

    fn dial(
        endpoint: Endpoint,
        broker: BrokerAddress,
        hello: Hello,
        versions: &'static [Version],
        record_memory: usize,
    ) -> Arc<Self> {
        let (state, watched) = watch::channel(LinkState::Dialling);
        let shared = Arc::new(Shared {
            link: RwLock::default(),
            roster: RwLock::default(),
            places: Mutex::default(),
            state,
        });
        let dialler = Dialler {
            endpoint: endpoint.clone(),
            broker,
            hello,
            versions,
            record_memory,
            shared: Arc::clone(&shared),
        };
        let task = Mutex::new(Some(tokio::spawn(dialler.run())));
        Arc::new(Self { shared, state: watched, task, endpoint })
    }

    /// Waits until there is a link.
    pub async fn connected(&self) {
        // The sender is in `shared`, so it is there as long as this is.
        let _ = self.state.clone().wait_for(|state| matches!(state, LinkState::Up { .. })).await;
    }

    /// How the link is, now and from now on.
    pub fn link(&self) -> watch::Receiver<LinkState> {
        self.state.clone()
    }

    /// Gives the link up. What is owed is lost. The broker is told, as far as that takes no longer than half a second.
    pub async fn close(&self) {
        let task = self.task.lock().take();
        if let Some(task) = task {
            task.abort();
            let _ = task.await;
        }
        self.shared.down(LinkState::Closed);
        // Who waits longer waits for an acknowledgement, for seconds where nobody has ever answered. iroh complains aloud of
        // an endpoint that goes before its close has ended, so this one goes with the process.
        if time::timeout(GOODBYE, self.endpoint.close()).await.is_err() {
            std::mem::forget(self.endpoint.clone());
        }
    }

    /// The answer to an op that could not be sent.
    fn refused(&self, carrier: &Carrier, op: &Op) -> Answer {
        if matches!(op, Op::Enter) {
            // It is let in uncounted now. Its place is taken as soon as the broker hears of it.
            self.shared.places.lock().insert(carrier.number(), carrier.clone());
        }
        match refuse(op) {
            Ok(reply) => Answer::Now(reply),
            Err(lost) => Answer::Sent(Box::pin(async move { Err(lost) })),
        }
    }
}

impl Drop for RemoteRail {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
        self.shared.down(LinkState::Closed);
    }
}

impl Rail for RemoteRail {
    fn call(&self, carrier: &Carrier, op: Op) -> Answer {
        let link = self.shared.link.read().clone();
        let Some(link) = link else { return self.refused(carrier, &op) };
        if let Some(reply) = unknown_to_broker(link.version, &op) {
            return Answer::Now(reply);
        }
        let lane = lane_of(carrier, &op);
        let is_enter = matches!(op, Op::Enter);
        // To ask who coordinates changes nothing, so whoever has lost the answer may be told to ask again. kafkajs ends for
        // good when its connection ends instead.
        let if_lost = if matches!(op, Op::FindCoordinator(_)) { refuse(&op).ok() } else { None };
        let has_place = || self.shared.places.lock().contains_key(&carrier.number());
        let mut asked = Asked::One(op);
        match link.lanes[lane].send(carrier, &mut asked, has_place) {
            Ok(id) if is_enter => {
                let shared = Arc::clone(&self.shared);
                let carrier = carrier.clone();
                let owed = Owed(Claim { link, lane, id, is_owed: true });
                Answer::Sent(Box::pin(async move {
                    let reply = owed.await?;
                    if matches!(reply, Reply::Enter(None)) {
                        shared.places.lock().insert(carrier.number(), carrier);
                    }
                    Ok(reply)
                }))
            }
            Ok(id) => {
                let owed = Owed(Claim { link, lane, id, is_owed: true });
                match if_lost {
                    Some(reply) => Answer::Sent(Box::pin(async move { Ok(owed.await.unwrap_or(reply)) })),
                    None => Answer::Owed(owed),
                }
            }
            Err(unsent) => match (unsent, asked) {
                (Unsent::Refused, Asked::One(op)) => self.refused(carrier, &op),
                _ => Answer::Sent(Box::pin(async { Err(Lost) })),
            },
        }
    }

    fn gathers(&self, op: &Op) -> bool {
        is_gathered(op)
    }

    fn call_together(&self, carrier: &Carrier, ops: Vec<Op>) -> Result<OwedTogether, Vec<Op>> {
        let link = self.shared.link.read().clone();
        let Some(link) = link.filter(|link| link.version >= Version::Five) else { return Err(ops) };
        let Some(first) = ops.first() else { return Err(ops) };
        let lane = lane_of(carrier, first);
        let has_place = || self.shared.places.lock().contains_key(&carrier.number());
        let mut asked = Asked::Together(ops);
        match link.lanes[lane].send(carrier, &mut asked, has_place) {
            Ok(id) => Ok(OwedTogether(Claim { link, lane, id, is_owed: true })),
            Err(Unsent::Refused | Unsent::Impossible) => Err(asked.into_ops()),
        }
    }

    fn leave(&self, carrier: &Carrier) {
        self.shared.places.lock().remove(&carrier.number());
        let link = self.shared.link.read().clone();
        for lane in link.iter().flat_map(|link| &link.lanes) {
            lane.leave(carrier.number());
        }
    }

    fn roster(&self) -> Option<Arc<Roster>> {
        self.shared.roster.read().clone()
    }
}

impl Shared {
    /// There is a link.
    pub(crate) fn up(&self, link: Arc<Link>, roster: Roster) {
        let node = roster.me;
        self.told(roster);
        // Held until the link is known: a client that leaves now was not announced, or finds the link to say so over.
        let places = self.places.lock();
        for carrier in places.values() {
            link.lanes[lane_of(carrier, &Op::Enter)].announce(carrier);
        }
        *self.link.write() = Some(link);
        drop(places);
        self.state.send_replace(LinkState::Up { node });
    }

    /// The gateways there are.
    pub(crate) fn told(&self, roster: Roster) {
        *self.roster.write() = Some(Arc::new(roster));
    }

    /// There is no link. All that was owed over it is lost.
    pub(crate) fn down(&self, state: LinkState) {
        let link = self.link.write().take();
        self.state.send_if_modified(|before| {
            let is_news = *before != state && *before != LinkState::Closed;
            if is_news {
                *before = state;
            }
            is_news
        });
        if let Some(link) = link {
            link.close();
        }
    }
}

impl Link {
    /// A link whose lanes keep `record_memory` bytes of records together, where the broker names what it has sent.
    pub(crate) fn new(version: Version, record_memory: usize) -> Self {
        let fetching = LANES.iter().filter(|&&class| class == LaneClass::Fetch).count();
        let keeps = |class| match class {
            LaneClass::Fetch if version >= Version::Three => record_memory / fetching,
            _ => 0,
        };
        Self { version, lanes: LANES.iter().map(|&class| Lane::new(class, version, keeps(class))).collect() }
    }

    pub(crate) fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    fn close(&self) {
        // First all lanes, then whoever waits: it may call again at once.
        let wakers: Vec<_> = self.lanes.iter().flat_map(Lane::close).collect();
        for waker in wakers {
            waker.wake();
        }
    }
}

/// A reply that comes over a link. Dropped before, it tells the broker that nobody waits any more.
#[derive(Debug)]
pub struct Owed(Claim);

/// The same for ops that were handed over together.
#[derive(Debug)]
pub struct OwedTogether(Claim);

#[derive(Debug)]
struct Claim {
    link: Arc<Link>,
    lane: usize,
    id: u32,
    is_owed: bool,
}

impl Claim {
    fn poll(&mut self, context: &Context<'_>) -> Poll<Result<Replies, Lost>> {
        if !self.is_owed {
            return Poll::Ready(Err(Lost));
        }
        let polled = self.link.lanes[self.lane].poll(self.id, context);
        self.is_owed = polled.is_pending();
        polled
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.is_owed {
            self.link.lanes[self.lane].give_up(self.id);
        }
    }
}

impl Future for Owed {
    type Output = Result<Reply, Lost>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context).map(|replies| match replies? {
            Replies::One(reply) => Ok(reply),
            Replies::Together(_) => Err(Lost),
        })
    }
}

impl Future for OwedTogether {
    type Output = Result<Vec<Run>, Lost>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context).map(|replies| match replies? {
            Replies::Together(runs) => Ok(runs),
            Replies::One(_) => Err(Lost),
        })
    }
}

/// Which lane an op takes. The three whose order matters always take the same for one client.
fn lane_of(carrier: &Carrier, op: &Op) -> usize {
    let (first, count) = match class_of(op) {
        LaneClass::Light => (0, 2),
        LaneClass::Produce => (2, 2),
        LaneClass::Fetch => (4, 2),
        LaneClass::Bulk => (6, 1),
    };
    first + usize::try_from(carrier.number() % count).unwrap_or_default()
}

fn class_of(op: &Op) -> LaneClass {
    match op {
        Op::Produce(_) => LaneClass::Produce,
        Op::Fetch(_) => LaneClass::Fetch,
        Op::JoinGroup(op) if total(&op.protocols) > LIGHT_MAX => LaneClass::Bulk,
        Op::SyncGroup(op) if total(&op.assignments) > LIGHT_MAX => LaneClass::Bulk,
        Op::Metadata(_)
        | Op::ListOffsets(_)
        | Op::OffsetForLeaderEpoch(_)
        | Op::InitProducerId(_)
        | Op::JoinGroup(_)
        | Op::SyncGroup(_)
        | Op::Heartbeat(_)
        | Op::LeaveGroup(_)
        | Op::OffsetCommit(_)
        | Op::OffsetFetch(_)
        | Op::FindCoordinator(_)
        | Op::Credentials(_)
        | Op::Enter => LaneClass::Light,
        Op::CreateTopics(_)
        | Op::DeleteTopics(_)
        | Op::CreatePartitions(_)
        | Op::DeleteRecords(_)
        | Op::DescribeConfigs(_)
        | Op::AlterConfigs(_)
        | Op::DescribeTopicPartitions(_)
        | Op::DescribeLogDirs(_)
        | Op::ListPartitionReassignments(_)
        | Op::DescribeCluster(_)
        | Op::OffsetDelete(_)
        | Op::ListGroups(_)
        | Op::DescribeGroups(_)
        | Op::DeleteGroups(_)
        | Op::CreateAcls(_)
        | Op::DescribeAcls(_)
        | Op::DeleteAcls(_)
        | Op::DescribeClientQuotas(_)
        | Op::DescribeUserScramCredentials(_)
        | Op::AlterUserScramCredentials(_) => LaneClass::Bulk,
    }
}

fn total(parts: &[(String, Bytes)]) -> usize {
    parts.iter().map(|(name, bytes)| name.len() + bytes.len()).sum()
}
