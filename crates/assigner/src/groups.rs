//! What etcd holds under the prefix, group by group, in memory, and how it is written.
//!
//! Everything is decided on this mirror by the pure functions of `coordination::handoff`, and every write is guarded by
//! what was read. So it does no harm that the mirror is always a little late: a write that rests on what is no longer
//! true is refused, the mirror catches up, and it is decided again.

mod contents;
mod slot;
mod urgency;

mod settle;
mod views;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coordination::handoff::{ConsumerName, GroupName, Key, State};
use etcd::{Etcd, EtcdError, KeyValue, LeaseId, Update};
use parking_lot::{RwLock, RwLockWriteGuard};
use tokio::sync::{Notify, watch};

use crate::metrics::{EtcdRequest, Metrics};

pub(crate) use contents::HandoffChange;
use contents::{Changed, Contents};
pub(crate) use settle::SettleError;
pub(crate) use urgency::Urgency;
pub(crate) use views::{Seen, ViewReceiver};

/// A group's name, or none: the group that lies directly under the prefix.
pub(crate) type GroupId = Option<GroupName>;

/// How long to wait for the mirror to reach a revision that etcd has answered with. It takes a millisecond unless the
/// watch is broken.
const REACH_MAX: Duration = Duration::from_secs(5);

/// How many updates are taken in before those who watch are told.
const UPDATES_MAX: usize = 32;

/// The mirror of all groups. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    etcd: Etcd,
    prefix: String,
    metrics: Arc<Metrics>,
    contents: RwLock<Contents>,
    /// The revision up to which the mirror is complete; 0 before the first snapshot.
    revision: watch::Sender<u64>,
    /// Told when there is something for [`Groups::take_due`].
    due: Notify,
}

/// What is known of one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// What the decisions rest on.
    pub(crate) state: State,
    /// The lease of each consumer's key.
    pub(crate) leases: BTreeMap<ConsumerName, LeaseId>,
    /// Keys whose values this version cannot read, with their revisions. They are never written, and nothing is decided
    /// that rests on them.
    pub(crate) unreadable: BTreeMap<Key, u64>,
}

/// The mirror does not show what etcd has, because the watch is broken.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("this instance does not see the current state of etcd")]
pub(crate) struct Behind;

impl Groups {
    /// An empty mirror, to be filled by [`Self::follow`].
    pub(crate) fn new(etcd: Etcd, prefix: String) -> Self {
        let shared = Shared {
            etcd,
            prefix,
            metrics: Arc::default(),
            contents: RwLock::new(Contents::new(Instant::now())),
            revision: watch::Sender::new(0),
            due: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Mirrors the prefix for ever.
    pub(crate) async fn follow(self) {
        let mut mirror = self.shared.etcd.mirror(&self.shared.prefix);
        loop {
            // A plan for a large group comes in many parts, and consumers need not be told of each of them.
            let mut updates = vec![mirror.next().await];
            while updates.len() < UPDATES_MAX
                && let Some(update) = mirror.try_next()
            {
                updates.push(update);
            }
            self.take_in(updates);
        }
    }

    fn take_in(&self, updates: Vec<Update>) {
        let Shared { prefix, metrics, contents, revision, due, .. } = &*self.shared;
        let mut contents = contents.write();
        let (mut reached, mut changed) = (None, Changed::default());
        for update in updates {
            if !matches!(update, Update::Interrupted(_)) && contents.resume() {
                tracing::info!("the watch of etcd goes on");
            }
            let (revision, brought) = match update {
                Update::Snapshot(snapshot) => {
                    let revision = snapshot.revision;
                    if contents.is_filled() {
                        metrics.resyncs.inc();
                    }
                    tracing::debug!(revision, keys = snapshot.entries.len(), "read all keys");
                    (revision, contents.replace(prefix, snapshot))
                }
                Update::Changes { revision, changes } => {
                    (revision, contents.apply(prefix, revision, changes))
                }
                Update::Current { revision } => (revision, contents.current()),
                Update::Interrupted(error) => {
                    if contents.interrupt(Instant::now()) {
                        tracing::warn!(%error, "the watch of etcd is interrupted; what is known may be old");
                    }
                    continue;
                }
            };
            reached = Some(revision);
            changed.extend(brought);
        }
        let Some(reached) = reached else { return };
        // Whoever asks for the state from now on sees the new one, and the views below are of no older one.
        let contents = RwLockWriteGuard::downgrade(contents);
        contents.publish(&changed.touched);
        revision.send_replace(reached);
        drop(contents);
        for error in changed.unreadable {
            metrics.unreadable_values.inc();
            tracing::error!("{error}; it is left alone, and what rests on it is not decided");
        }
        for change in changed.handoffs {
            metrics.observe(&change);
        }
        if changed.is_due {
            due.notify_one();
        }
    }

    /// Whether there is a snapshot and the watch is not interrupted.
    pub(crate) fn is_current(&self) -> bool {
        self.shared.contents.read().behind_since().is_none()
    }

    /// How long the mirror has not been current; zero if it is.
    pub(crate) fn behind(&self) -> Duration {
        let since = self.shared.contents.read().behind_since();
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// The groups of which there is anything.
    pub(crate) fn ids(&self) -> Vec<GroupId> {
        self.shared.contents.read().ids()
    }

    /// The groups in which there is something to plan.
    pub(crate) fn busy_ids(&self) -> Vec<GroupId> {
        self.shared.contents.read().busy_ids()
    }

    /// Looks at a group, or at an empty one if there is none. The mirror stands still meanwhile, so it has to be short.
    pub(crate) fn with<T>(&self, group: &GroupId, look: impl FnOnce(&Group) -> T) -> T {
        let contents = self.shared.contents.read();
        match contents.group(group) {
            Some(group) => look(group),
            None => look(&Group::default()),
        }
    }

    /// The group as it is now, for those who take their time with it.
    pub(crate) fn get(&self, group: &GroupId) -> Arc<Group> {
        self.shared.contents.read().group(group).cloned().unwrap_or_default()
    }

    /// The revision up to which the mirror is complete, and each change of it; 0 before there is a snapshot.
    pub(crate) fn revisions(&self) -> watch::Receiver<u64> {
        self.shared.revision.subscribe()
    }

    /// Waits until the mirror is at `revision`, however long that takes.
    pub(crate) async fn reach(&self, revision: u64) {
        let mut revisions = self.revisions();
        // The sender lives as long as this.
        let _ = revisions.wait_for(|reached| *reached >= revision).await;
    }

    /// Waits for [`Self::reach`] a short while.
    pub(crate) async fn reach_soon(&self, revision: u64) -> Result<(), Behind> {
        tokio::time::timeout(REACH_MAX, self.reach(revision)).await.map_err(|_| Behind)
    }

    /// What a consumer should know, and each change of it.
    pub(crate) fn views(&self, group: &GroupId, consumer: &ConsumerName) -> ViewReceiver {
        let seen = self.shared.contents.write().watch(group, consumer);
        ViewReceiver::new(self.clone(), group.clone(), consumer.clone(), seen)
    }

    /// Waits until something has changed that a plan could depend on.
    pub(crate) async fn due(&self) {
        self.shared.due.notified().await;
    }

    /// The groups of which something has changed that a plan could depend on, since this was last asked.
    pub(crate) fn take_due(&self) -> BTreeMap<GroupId, Urgency> {
        self.shared.contents.write().take_due()
    }

    /// Whether the group is there, or there are fewer than so many.
    pub(crate) fn has_room_for(&self, group: &GroupId, max: usize) -> bool {
        let contents = self.shared.contents.read();
        contents.group(group).is_some_and(|group| !group.is_empty()) || contents.len() < max
    }

    /// What etcd itself has under a key, for those who must not rely on the mirror.
    pub(crate) async fn read(&self, group: &GroupId, key: &Key) -> Result<Option<KeyValue>, EtcdError> {
        let key = key.encode(&self.shared.prefix, group.as_ref());
        self.shared.metrics.timed(EtcdRequest::Read, self.shared.etcd.get(&key)).await
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.shared.metrics
    }

    /// A new lease.
    pub(crate) async fn grant(&self, ttl: Duration) -> Result<LeaseId, EtcdError> {
        self.shared.metrics.timed(EtcdRequest::Grant, self.shared.etcd.grant(ttl)).await
    }

    /// Renews a lease and says how long it lasts; `None` if it has ended.
    pub(crate) async fn keep_alive(&self, lease: LeaseId) -> Result<Option<Duration>, EtcdError> {
        self.shared.metrics.timed(EtcdRequest::KeepAlive, self.shared.etcd.keep_alive(lease)).await
    }

    /// Ends a lease and the keys that live by it.
    pub(crate) async fn revoke(&self, lease: LeaseId) -> Result<(), EtcdError> {
        self.shared.metrics.timed(EtcdRequest::Revoke, self.shared.etcd.revoke(lease)).await
    }
}

impl Group {
    /// Whether there is nothing in it.
    fn is_empty(&self) -> bool {
        let State { revision: _, consumers, assignments, handoffs, topics } = &self.state;
        consumers.is_empty()
            && assignments.is_empty()
            && handoffs.is_empty()
            && topics.is_empty()
            && self.unreadable.is_empty()
    }

    /// Whether nobody works in it and nothing is owned.
    pub(crate) fn is_idle(&self) -> bool {
        let State { consumers, assignments, handoffs, .. } = &self.state;
        consumers.is_empty() && assignments.is_empty() && handoffs.is_empty()
    }
}
