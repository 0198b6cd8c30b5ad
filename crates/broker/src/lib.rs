//! Owns topics and partitions: the rail in front, the store behind.
//!
//! [`Broker::start`] recovers from a store and gives a [`rail::Rail`]; every op goes to the file of its name. The
//! catalog of topics lives in [`admin`]; after its records are durable it tells [`topics::Topics`], where requests
//! find partitions: read [`topics`], [`partition`], then `produce` and `fetch`. Produce waits for the disk, fetch
//! for the end of a log to move, and housekeeping for its time. Consumer groups are in `groups`.
//!
//! Everything is looked for under the organisation that the carrier names, and nowhere else. Where an `authorizer` is
//! set, it screens each op before it is carried out; what an organisation may have is its `share`; `gateways` says
//! which gateways of other processes come in.

pub mod admin;
mod authorizer;
mod compaction;
mod delete_records;
mod fetch;
mod fetch_session;
mod gateways;
mod groups;
mod housekeeping;
mod leader_epoch;
mod list_offsets;
mod metrics;
pub mod partition;
mod produce;
mod read_budget;
pub mod retention;
mod security;
mod share;
mod throttle;
pub mod topics;

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use coordination::catalog::TOPIC_NAME_OF_OFFSETS;
use coordination::error_code::ErrorCode;
use coordination::ids::{OrgId, TopicId};
use coordination::op::{self, Op};
use coordination::record::Org;
use coordination::settings::Settings;
use rail::{Answer, Carrier, Rail, Roster, SentRecords};
use store::LocalStore;

use admin::{Admin, Follower, RecordLogError};
use authorizer::Authorizer;
use fetch_session::FetchSessions;
use gateways::Gateways;
use groups::Groups;
use read_budget::{READ_BYTES_MAX, ReadBudget};
use topics::{TopicSpec, Topics};

pub use groups::GroupStory;
pub use metrics::Metrics;
pub use share::ShareUsage;

/// The broker: all topics and partitions of one data directory.
#[derive(Debug)]
pub struct Broker {
    inner: Arc<Inner>,
    housekeeping: Mutex<Vec<JoinHandle<()>>>,
}

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// What the broker knew could not be read back.
    #[error("read the catalog of topics")]
    Catalog(#[from] RecordLogError),
    /// A new data directory could not be given its identity.
    #[error("store the cluster id: {0}")]
    ClusterId(ErrorCode),
    /// The topic of the groups could not be made.
    #[error("make the topic __consumer_offsets: {0}")]
    OffsetsTopic(ErrorCode),
}

impl Broker {
    /// Recovers what the store holds and begins to work. The broker is ready when this returns; groups are loaded
    /// in the background, and answer that they are until then.
    ///
    /// Starts the store's threads. Must be called within a tokio runtime, which housekeeping then runs on.
    ///
    /// # Errors
    /// When what was acknowledged cannot be read back, or the disk refuses the first record.
    pub async fn start(store: Arc<LocalStore>, settings: Settings) -> Result<Arc<Self>, StartError> {
        store.start();
        Self::start_without_store_threads(store, settings).await
    }

    /// As [`Self::start`], but leaves the store's threads to the caller. Without them what is appended becomes durable
    /// only when [`LocalStore::commit_once`] is called, already while this is awaited: who counts what a request
    /// costs has all of it on one thread.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_without_store_threads(
        store: Arc<LocalStore>,
        settings: Settings,
    ) -> Result<Arc<Self>, StartError> {
        let topics = Arc::new(Topics::new(Arc::clone(&store)));
        let limits = Arc::new(Limits::new(&settings));
        let groups = Groups::new(&store, Arc::clone(&topics), &settings);
        let follower = Arc::new(Following {
            topics: Arc::clone(&topics),
            limits: Arc::clone(&limits),
            groups: Arc::clone(&groups),
        });
        let (authorizer, node_id) = (Authorizer::new(&settings), settings.node_id());
        let admin = Admin::recover(Arc::clone(&store), settings, follower)?;
        admin.ensure_cluster_id().await.map_err(StartError::ClusterId)?;
        // Other organisations got theirs when they were made.
        admin.ensure_offsets_topic(OrgId::DEFAULT).await.map_err(StartError::OffsetsTopic)?;
        let inner = Arc::new(Inner {
            store,
            topics,
            limits,
            admin,
            authorizer,
            groups,
            sessions: Mutex::default(),
            read_budget: ReadBudget::new(READ_BYTES_MAX),
            metrics: Metrics::default(),
            gateways: Gateways::default(),
            node_id,
            draining: watch::Sender::new(false),
            started: Instant::now(),
        });
        compaction::own_logs(&inner);
        let mut housekeeping = housekeeping::start(&inner);
        housekeeping.push(inner.groups.start());
        Ok(Arc::new(Self { inner, housekeeping: Mutex::new(housekeeping) }))
    }

    /// From now on nobody waits for long: a fetch is answered with what is there, and members that wait for their
    /// group are told that this is not its coordinator any more (16), as Kafka does. They would hold up the end.
    pub fn drain(&self) {
        self.inner.draining.send_replace(true);
        self.inner.groups.drain();
    }

    /// Ends housekeeping, makes durable what waits, and closes the store. Ops after this are refused by the store.
    pub async fn shutdown(&self) {
        self.drain();
        let housekeeping = std::mem::take(&mut *self.housekeeping.lock());
        for task in housekeeping {
            task.abort();
            // Once it has ended it holds the store, and with it the directory's lock, no longer.
            let _ = task.await;
        }
        self.inner.groups.shutdown().await;
        self.inner.gateways.end();
        let store = Arc::clone(&self.inner.store);
        // A panic there has been reported by its thread; there is nothing left to do here.
        let _ = tokio::task::spawn_blocking(move || store.close()).await;
    }

    /// Adds what the broker counts to `registry`.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.inner.metrics.register(&self.inner.topics, registry);
        self.inner.groups.register_metrics(registry);
    }

    /// The topics there are.
    pub fn topics(&self) -> &Arc<Topics> {
        &self.inner.topics
    }

    /// The catalog at work.
    pub fn admin(&self) -> &Arc<Admin> {
        &self.inner.admin
    }

    /// The store behind the broker.
    pub fn store(&self) -> &Arc<LocalStore> {
        &self.inner.store
    }

    /// Waits until the groups that there were at the start are loaded. Ops about them are refused until then.
    pub async fn groups_loaded(&self) {
        self.inner.groups.loaded().await;
    }

    /// What is remembered of a group beside Kafka's formats, once it is durable; `None` if there is no such group.
    ///
    /// # Errors
    /// When the groups among which it would be are being loaded or cannot be read, with what clients are told then.
    pub async fn group_story(&self, org: OrgId, group: &str) -> Result<Option<GroupStory>, ErrorCode> {
        self.inner.groups.story(org, group).await
    }

    /// How much an organisation has of what can be limited, besides topics and partitions.
    pub fn usage(&self, org: OrgId) -> ShareUsage {
        self.inner.topics.shares().usage(org)
    }

    /// Runs retention, compaction and the expiry of producers now instead of at their times.
    pub async fn clean(&self) {
        housekeeping::retain(&self.inner).await;
        compaction::compact_all(&self.inner).await;
    }
}

impl Rail for Broker {
    fn call(&self, carrier: &Carrier, op: Op) -> Answer {
        match &self.inner.authorizer {
            None => self.inner.perform(carrier, op),
            Some(authorizer) => authorizer.call(&self.inner, carrier, op, None),
        }
    }

    fn fetch(&self, carrier: &Carrier, fetch: op::Fetch, sent: &SentRecords) -> Answer {
        match &self.inner.authorizer {
            None => fetch::handle_fetch(&self.inner, carrier, None, fetch, Some(sent)),
            Some(authorizer) => authorizer.call(&self.inner, carrier, Op::Fetch(fetch), Some(sent)),
        }
    }

    fn leave(&self, carrier: &Carrier) {
        self.inner.topics.shares().leave(carrier.number());
    }

    fn roster(&self) -> Option<Arc<Roster>> {
        self.inner.gateways.roster(self.inner.node_id)
    }
}

/// What every op works on.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) store: Arc<LocalStore>,
    pub(crate) topics: Arc<Topics>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) admin: Arc<Admin>,
    /// `None` where everybody may do everything.
    authorizer: Option<Authorizer>,
    pub(crate) groups: Arc<Groups>,
    pub(crate) sessions: Mutex<FetchSessions>,
    /// What answers read from disk may hold, over all clients.
    pub(crate) read_budget: Arc<ReadBudget>,
    pub(crate) metrics: Metrics,
    /// Where gateways of other processes come in.
    gateways: Gateways,
    /// Under which clients know the broker itself, where it listens.
    node_id: i32,
    /// Whether fetches no longer wait.
    pub(crate) draining: watch::Sender<bool>,
    started: Instant,
}

impl Inner {
    /// Does what is asked, whoever asks.
    fn perform(self: &Arc<Self>, carrier: &Carrier, op: Op) -> Answer {
        let (admin, groups) = (&self.admin, &self.groups);
        let org = carrier.org();
        match op {
            Op::Produce(op) => produce::handle_produce(self, org, op),
            Op::Fetch(op) => fetch::handle_fetch(self, carrier, None, op, None),
            Op::ListOffsets(op) => list_offsets::handle_list_offsets(self, org, op),
            Op::OffsetForLeaderEpoch(op) => leader_epoch::handle_offset_for_leader_epoch(self, org, op),
            Op::DeleteRecords(op) => delete_records::handle_delete_records(self, org, op),
            Op::Metadata(op) => admin.metadata(org, op),
            Op::CreateTopics(op) => admin.create_topics(org, op),
            Op::DeleteTopics(op) => admin.delete_topics(org, op),
            Op::CreatePartitions(op) => admin.create_partitions(org, op),
            Op::InitProducerId(op) => admin.init_producer_id(&op),
            Op::DescribeConfigs(op) => admin.describe_configs(org, &op),
            Op::AlterConfigs(op) => admin.alter_configs(org, op),
            Op::DescribeTopicPartitions(op) => admin.describe_topic_partitions(org, &op),
            Op::DescribeLogDirs(op) => admin.describe_log_dirs(org, &op),
            Op::ListPartitionReassignments(_) => admin.list_partition_reassignments(),
            Op::DescribeCluster(op) => admin.describe_cluster(&op),
            Op::JoinGroup(op) => groups.join(carrier, op),
            Op::SyncGroup(op) => groups.sync(carrier, &op),
            Op::Heartbeat(op) => groups.heartbeat(carrier, &op),
            Op::LeaveGroup(op) => groups.leave(carrier, &op),
            Op::OffsetCommit(op) => groups.commit(org, op),
            Op::OffsetFetch(op) => groups.fetch_offsets(org, op),
            Op::OffsetDelete(op) => groups.delete_offsets(org, op),
            Op::ListGroups(op) => groups.list(org, &op),
            Op::DescribeGroups(op) => groups.describe(org, op),
            Op::DeleteGroups(op) => groups.delete(org, op),
            Op::FindCoordinator(op) => security::find_coordinator(op),
            Op::Enter => security::enter(self, carrier),
            Op::Credentials(op) => admin.credentials(&op),
            // As in Kafka, there are no rules to see or to change where nobody would ask them.
            Op::CreateAcls(op) if self.authorizer.is_none() => security::create_acls_disabled(&op),
            Op::DescribeAcls(_) if self.authorizer.is_none() => security::describe_acls_disabled(),
            Op::DeleteAcls(op) if self.authorizer.is_none() => security::delete_acls_disabled(&op),
            Op::CreateAcls(op) => admin.create_acls(org, op),
            Op::DescribeAcls(op) => admin.describe_acls(org, &op),
            Op::DeleteAcls(op) => admin.delete_acls(org, op),
            Op::DescribeClientQuotas(op) => security::describe_client_quotas(&op),
            Op::DescribeUserScramCredentials(op) => admin.describe_scram(org, &op),
            Op::AlterUserScramCredentials(op) => admin.alter_scram(org, op),
        }
    }

    /// The clock of fetch sessions.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Settings that every request needs, parsed once.
#[derive(Debug)]
pub(crate) struct Limits {
    fetch_max_bytes: AtomicI32,
    settings: RwLock<Arc<Settings>>,
}

impl Limits {
    fn new(settings: &Settings) -> Self {
        let limits = Self { fetch_max_bytes: AtomicI32::new(0), settings: RwLock::default() };
        limits.set(settings);
        limits
    }

    fn set(&self, settings: &Settings) {
        let fetch_max_bytes = i32::try_from(settings.fetch_max_bytes()).unwrap_or(i32::MAX);
        self.fetch_max_bytes.store(fetch_max_bytes, Ordering::Relaxed);
        *self.settings.write() = Arc::new(settings.clone());
    }

    /// `fetch.max.bytes`.
    pub(crate) fn fetch_max_bytes(&self) -> i32 {
        self.fetch_max_bytes.load(Ordering::Relaxed)
    }

    /// All settings that hold now.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read())
    }
}

/// Does what the catalog says.
struct Following {
    topics: Arc<Topics>,
    limits: Arc<Limits>,
    groups: Arc<Groups>,
}

impl Follower for Following {
    fn put(&self, spec: TopicSpec) {
        let topic = self.topics.put(spec);
        if *topic.name == *TOPIC_NAME_OF_OFFSETS {
            self.groups.adopt(&topic);
        }
    }

    fn remove(&self, topic: TopicId) {
        let Some(topic) = self.topics.remove(topic) else { return };
        if *topic.name == *TOPIC_NAME_OF_OFFSETS {
            // It goes with its organisation only.
            self.groups.abandon(topic.org);
        } else {
            self.groups.topic_deleted(topic.org, &topic.name, topic.id);
        }
    }

    fn put_org(&self, org: &Org) {
        self.topics.shares().limit(org.id, &org.limits);
    }

    fn remove_org(&self, org: OrgId) {
        self.topics.shares().remove(org);
    }

    fn reconfigure(&self, settings: &Settings) {
        self.limits.set(settings);
        self.groups.configure(settings);
    }
}
