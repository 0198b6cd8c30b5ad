//! Consumer groups at work.
//!
//! [`Groups`] knows the shards of every organisation: one for each partition of its `__consumer_offsets`. A request
//! finds its shard by the group's id and is handled in [`requests`] or [`offset_requests`]; a [`shard`] runs the machine
//! behind a short lock and writes what it emits; replies are [`rail::Gated`] until that is durable. [`load`] reads
//! shards back, at the start and after a failure; [`timer`] calls them when something is due.

mod clock;
mod flush;
mod gathering;
mod load;
mod metrics;
mod offset_requests;
mod own_log;
mod refusals;
mod requests;
mod shard;
mod spans;
mod step;
mod telling;
mod timer;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use coordination::error_code::ErrorCode;
use coordination::group::{Event, GroupSettings, Identity, Room, Shard, Ticket, Underway, group_partition};
use coordination::ids::{OrgId, TopicId};
use coordination::reply::GroupState;
use coordination::settings::Settings;
use rail::Dropped;
use store::LocalStore;

use crate::share::Told;
use crate::topics::{Topic, Topics};
use clock::Clock;
use gathering::Split;
use load::ReadingBack;
use metrics::{Metrics, TotalUsage};
use own_log::OwnLog;
use shard::GroupShard;
use step::{NotReady, Stepped};
use timer::Timer;

pub(crate) use own_log::PARTITION as OWN_PARTITION;

/// What is remembered of a group beside Kafka's formats.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupStory {
    /// Its id, and when it was first seen.
    pub identity: Identity,
    /// Its last rebalances, the oldest first.
    pub events: Vec<Event>,
    /// The one that has not ended.
    pub underway: Option<Underway>,
}

/// However small the setting, expiry does not keep the processor busy.
const EXPIRY_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// All groups of all organisations.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) shared: Arc<Shared>,
    topics: Arc<Topics>,
    /// The shards of each organisation, by partition. There is one for each partition that the topic had at the
    /// start: as in Kafka, which group is where does not change while the broker runs.
    orgs: RwLock<Orgs>,
    is_loading: AtomicBool,
}

type Orgs = HashMap<OrgId, Arc<[Arc<GroupShard>]>>;

/// What all shards share.
#[derive(Debug)]
pub(crate) struct Shared {
    clock: Clock,
    timer: Timer,
    own_log: OwnLog,
    metrics: Metrics,
    usage: TotalUsage,
    /// When each limit of the broker was last logged, by [`BrokerLimit`].
    told: [Told; 2],
    settings: RwLock<Configured>,
    draining: AtomicBool,
    /// Whether the groups that there were at the start have been read, as far as they can be.
    first_load: watch::Sender<bool>,
    reading_back: ReadingBack,
    /// What loads in the background.
    tasks: Mutex<JoinSet<()>>,
    ended: AtomicBool,
    tickets: AtomicU64,
    runtime: Handle,
    store: Weak<LocalStore>,
    groups: OnceLock<Weak<Groups>>,
}

/// What the groups of all organisations may have together.
#[derive(Clone, Copy, Debug)]
enum BrokerLimit {
    Groups,
    Bytes,
}

/// What the broker's settings come to for groups.
#[derive(Clone, Debug)]
struct Configured {
    machine: GroupSettings,
    room: Room,
    expiry_interval: Duration,
}

impl Shared {
    fn settings(&self) -> GroupSettings {
        self.settings.read().machine.clone()
    }

    fn expiry_interval(&self) -> Duration {
        self.settings.read().expiry_interval
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    fn next_ticket(&self) -> Ticket {
        Ticket(self.tickets.fetch_add(1, Ordering::Relaxed))
    }

    /// What the broker still has room for.
    fn room(&self) -> Room {
        let max = self.settings.read().room;
        let used = self.usage.now();
        Room {
            groups: max.groups.saturating_sub(used.groups),
            members: max.members,
            bytes: max.bytes.saturating_sub(used.bytes),
        }
    }

    /// Logs that a limit of the broker was met, now and then.
    fn tell_broker_limit(&self, now: Duration, limit: BrokerLimit) {
        if !self.told[limit as usize].is_due(now) {
            return;
        }
        let max = self.settings.read().room;
        let (name, max) = match limit {
            BrokerLimit::Groups => ("kohort.groups.max", max.groups),
            BrokerLimit::Bytes => ("kohort.groups.max.bytes", max.bytes),
        };
        tracing::warn!(
            limit = name,
            max,
            "groups have met the broker's limit; joins and commits that need more are refused"
        );
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Does something in the background until the broker ends.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        if !self.has_ended() {
            tasks.spawn_on(task, &self.runtime);
        }
    }

    /// Does something in the background where blocking is allowed. The end of the broker waits for it.
    fn spawn_blocking(&self, task: impl FnOnce() + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        if !self.has_ended() {
            tasks.spawn_blocking_on(task, &self.runtime);
        }
    }

    fn groups(&self) -> Option<Arc<Groups>> {
        self.groups.get()?.upgrade()
    }
}

impl Groups {
    /// No groups yet. Must be called within a tokio runtime.
    pub(crate) fn new(store: &Arc<LocalStore>, topics: Arc<Topics>, settings: &Settings) -> Arc<Self> {
        let shared = Arc::new(Shared {
            clock: Clock::new(),
            timer: Timer::default(),
            own_log: OwnLog::new(store),
            metrics: Metrics::default(),
            usage: TotalUsage::default(),
            told: Default::default(),
            settings: RwLock::new(configured(settings)),
            draining: AtomicBool::new(false),
            first_load: watch::Sender::new(false),
            reading_back: ReadingBack::default(),
            tasks: Mutex::default(),
            ended: AtomicBool::new(false),
            tickets: AtomicU64::new(0),
            runtime: Handle::current(),
            store: Arc::downgrade(store),
            groups: OnceLock::new(),
        });
        let groups =
            Arc::new(Self { shared, topics, orgs: RwLock::default(), is_loading: AtomicBool::new(false) });
        let _ = groups.shared.groups.set(Arc::downgrade(&groups));
        groups
    }

    /// Takes note of an organisation's `__consumer_offsets`. Its groups answer that they are being loaded until
    /// [`Self::load`] was called and has done its work.
    pub(crate) fn adopt(self: &Arc<Self>, topic: &Topic) {
        let mut orgs = self.orgs.write();
        if orgs.contains_key(&topic.org) {
            return;
        }
        let shards: Arc<[_]> = (0_u32..)
            .zip(&topic.partitions)
            .map(|(number, partition)| {
                let log = Arc::clone(partition.log());
                let share = Arc::clone(&topic.share);
                Arc::new(GroupShard::new(topic.org, number, log, share, Arc::clone(&self.shared)))
            })
            .collect();
        orgs.insert(topic.org, Arc::clone(&shards));
        drop(orgs);
        if !self.is_loading.load(Ordering::Acquire) {
            return;
        }
        if shards.iter().all(|shard| shard.log.end_offset() == 0) {
            // The organisation is new, and there is nothing to read.
            for shard in shards.iter() {
                shard.go_live(Shard::new(topic.org, self.shared.settings()));
            }
        } else {
            load::load_all(self, shards.to_vec());
        }
    }

    /// The organisation is gone, and so are its groups. What they wrote beside Kafka's formats goes in the background.
    pub(crate) fn abandon(self: &Arc<Self>, org: OrgId) {
        let Some(shards) = self.orgs.write().remove(&org) else { return };
        for shard in shards.iter() {
            shard.close();
        }
        load::forget_strangers(self);
    }

    /// Begins to load all groups in the background, and to look after their deadlines.
    pub(crate) fn start(self: &Arc<Self>) -> JoinHandle<()> {
        self.is_loading.store(true, Ordering::Release);
        load::load_all(self, self.all());
        tokio::spawn(timer::run(Arc::clone(self)))
    }

    /// Waits until the groups that there were at the start have been read, as far as they can be.
    pub(crate) async fn loaded(&self) {
        // The sender lives as long as `self`.
        let _ = self.shared.first_load.subscribe().wait_for(|&is_loaded| is_loaded).await;
    }

    /// Answers who is parked, now and from now on: the broker ends.
    pub(crate) fn drain(&self) {
        self.shared.draining.store(true, Ordering::Release);
        for shard in self.all() {
            shard.refuse_parked();
        }
    }

    /// Ends what is done in the background. Loading stops where it is.
    pub(crate) async fn shutdown(&self) {
        let mut tasks = {
            let mut tasks = self.shared.tasks.lock();
            self.shared.ended.store(true, Ordering::Release);
            std::mem::take(&mut *tasks)
        };
        tasks.shutdown().await;
        // What rested was to be woken by what has just ended. The store takes it, or says that it does not.
        for shard in self.all() {
            shard.resume();
        }
    }

    /// Uses other settings.
    pub(crate) fn configure(&self, settings: &Settings) {
        let configured = configured(settings);
        let machine = configured.machine.clone();
        let before = std::mem::replace(&mut *self.shared.settings.write(), configured);
        if before.machine != machine {
            for shard in self.all() {
                // One that is being loaded takes them when it is done.
                let _ = shard.step(Split::Anywhere, |step| step.machine.configure(machine.clone()));
            }
        }
        if before.expiry_interval != self.shared.expiry_interval() {
            self.shared.timer.is_due(0);
        }
    }

    /// A topic is gone, and so are the offsets that groups have in it.
    pub(crate) fn topic_deleted(&self, org: OrgId, name: &Arc<str>, id: TopicId) {
        for shard in self.of(org).iter() {
            shard.topic_deleted(name, id);
        }
    }

    /// Adds what is counted of groups to `registry`.
    pub(crate) fn register_metrics(self: &Arc<Self>, registry: &mut Registry) {
        self.shared.metrics.register(self, registry);
    }

    /// What is remembered of a group, once it is durable; `None` if there is no such group.
    ///
    /// # Errors
    /// When its shard is being loaded or cannot be, with what clients are told then.
    pub(crate) async fn story(&self, org: OrgId, group: &str) -> Result<Option<GroupStory>, ErrorCode> {
        let Some(shard) = self.shard(org, group) else { return Ok(None) };
        let told = shard.look(|machine| {
            machine.identity(group).map(|identity| GroupStory {
                identity,
                events: machine.events(group),
                underway: machine.underway(group),
            })
        });
        let Stepped { value, until } = told.map_err(NotReady::code)?;
        match until {
            Some(until) => until.await.map(|()| value).map_err(|Dropped| ErrorCode::NotCoordinator),
            None => Ok(value),
        }
    }

    /// How many partitions an organisation's groups are spread over.
    fn partitions(&self, org: OrgId) -> Option<u32> {
        self.orgs.read().get(&org).and_then(|shards| u32::try_from(shards.len()).ok())
    }

    /// The shard that a group belongs to; `None` where the organisation has none.
    fn shard(&self, org: OrgId, group: &str) -> Option<Arc<GroupShard>> {
        Self::shard_in(&self.orgs.read(), org, group).cloned()
    }

    fn shard_in<'a>(orgs: &'a Orgs, org: OrgId, group: &str) -> Option<&'a Arc<GroupShard>> {
        let shards = orgs.get(&org).filter(|shards| !shards.is_empty())?;
        let partition = group_partition(group, u32::try_from(shards.len()).ok()?);
        shards.get(usize::try_from(partition).ok()?)
    }

    fn of(&self, org: OrgId) -> Arc<[Arc<GroupShard>]> {
        self.orgs.read().get(&org).map_or_else(|| Arc::from([]), Arc::clone)
    }

    fn all(&self) -> Vec<Arc<GroupShard>> {
        self.orgs.read().values().flat_map(|shards| shards.iter().cloned()).collect()
    }

    /// When the first of all shards is due, in milliseconds.
    fn next_due(&self) -> u64 {
        let orgs = self.orgs.read();
        orgs.values().flat_map(|shards| shards.iter()).map(|shard| shard.due()).min().unwrap_or(shard::NEVER)
    }

    fn count_by_state(&self) -> BTreeMap<GroupState, usize> {
        let mut counts = BTreeMap::new();
        for shard in self.all() {
            // What is being loaded is counted afterwards.
            let _ = shard.look(|machine| machine.count_by_state(&mut counts));
        }
        counts
    }
}

fn configured(settings: &Settings) -> Configured {
    Configured {
        machine: settings.group_settings(),
        room: Room { groups: settings.groups_max(), members: usize::MAX, bytes: settings.groups_max_bytes() },
        expiry_interval: settings.offsets_retention_check_interval().max(EXPIRY_INTERVAL_MIN),
    }
}

#[cfg(test)]
mod tests;
