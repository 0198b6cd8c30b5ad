//! Topics, organisations, users, rules and settings: the catalog at work.
//!
//! [`Admin`] holds the [`Catalog`] and the log of its records, partition 0 of `__kohort`. A change is decided by
//! the catalog, made durable, applied, told to the [`Follower`], and only then answered. Changes go one at a time;
//! requests that only look take the catalog's lock for a moment.
//!
//! Start it with [`Admin::recover`], which reads the records back and tells the follower of every topic, then
//! [`Admin::ensure_cluster_id`] and [`Admin::ensure_offsets_topic`].

mod change;
mod cluster_id;
mod log_dirs;
mod orgs;
mod producer_ids;
mod record_log;
mod requests;
mod security;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use coordination::catalog::{Catalog, is_internal};
use coordination::ids::{OrgId, TopicId};
use coordination::record::{Org, Topic};
use coordination::settings::Settings;
use parking_lot::{Mutex, RwLock};
use store::LocalStore;
use tokio::runtime::Handle;

pub use orgs::Failure;
pub(crate) use record_log::PARTITION as CATALOG_PARTITION;
pub use record_log::RecordLogError;

use crate::share::Told;
use crate::topics::TopicSpec;
use record_log::RecordLog;

/// Who does the work on the topics that the catalog lists.
///
/// It is told of every topic in recovery, and of each change once that is durable and before it is answered.
/// Calls come one at a time.
pub trait Follower: Send + Sync + 'static {
    /// The topic is as `spec` says: it is new, has grown, or has other settings.
    fn put(&self, spec: TopicSpec);

    /// The topic is gone. What the store holds of it is removed afterwards.
    fn remove(&self, topic: TopicId);

    /// There is this organisation, with these limits. It comes before the organisation's first topic.
    fn put_org(&self, org: &Org);

    /// The organisation is gone. Its topics went before.
    fn remove_org(&self, org: OrgId);

    /// The broker's settings are these now. Topics whose settings follow from them are told by [`Self::put`].
    fn reconfigure(&self, settings: &Settings);
}

/// The catalog, its log and its follower.
pub struct Admin {
    store: Arc<LocalStore>,
    follower: Arc<dyn Follower>,
    catalog: RwLock<Catalog>,
    /// Held from a decision until it is applied, so that no two are made from the same state.
    records: tokio::sync::Mutex<RecordLog>,
    /// Ids that are set aside durably and not given out.
    producer_ids: Mutex<Range<i64>>,
    /// Where changes are carried out. Whoever asks for one may be on a thread that ends before it does.
    runtime: Handle,
    began: Instant,
    /// That topics are not made which were only asked for, by organisation.
    told_unmade: Mutex<BTreeMap<OrgId, Told>>,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

impl Admin {
    /// Reads back what the broker knew, removes what is left of topics that were deleted, and tells `follower`
    /// what there is. Blocks. Must be called within a tokio runtime, which changes are then carried out on.
    ///
    /// # Errors
    /// When a record cannot be read: going on without it would lose what it says.
    pub fn recover(
        store: Arc<LocalStore>,
        settings: Settings,
        follower: Arc<dyn Follower>,
    ) -> Result<Arc<Self>, RecordLogError> {
        let records = RecordLog::new(&store);
        let mut catalog = Catalog::new(settings);
        records.replay(|record| catalog.apply(&record))?;

        let known: BTreeSet<TopicId> =
            catalog.topics().map(|topic| topic.id).chain([TopicId::KOHORT]).collect();
        let stored: BTreeSet<TopicId> =
            store.partitions().iter().map(|partition| partition.key().topic).collect();
        for orphan in stored.difference(&known) {
            // Deleted just before the broker ended. What cannot be removed now is tried at the next start.
            if let Err(error) = store.remove_topic(*orphan) {
                tracing::warn!(topic = %orphan, %error, "a deleted topic's files could not be removed");
            }
        }

        follower.reconfigure(catalog.settings());
        for org in catalog.orgs() {
            follower.put_org(org);
        }
        for topic in catalog.topics() {
            follower.put(spec(&catalog, topic));
        }
        Ok(Arc::new(Self {
            store,
            follower,
            catalog: RwLock::new(catalog),
            records: tokio::sync::Mutex::new(records),
            producer_ids: Mutex::new(0..0),
            runtime: Handle::current(),
            began: Instant::now(),
            told_unmade: Mutex::default(),
        }))
    }

    /// What `look` sees in the catalog. Short: who changes the catalog waits meanwhile.
    pub fn look<T>(&self, look: impl FnOnce(&Catalog) -> T) -> T {
        look(&self.catalog.read())
    }

    /// The settings that hold now.
    pub fn settings(&self) -> Settings {
        self.look(|catalog| catalog.settings().clone())
    }
}

/// What the follower is told of a topic.
fn spec(catalog: &Catalog, topic: &Topic) -> TopicSpec {
    TopicSpec {
        id: topic.id,
        org: topic.org,
        name: topic.name.as_str().into(),
        internal: is_internal(&topic.name),
        partitions: topic.partitions,
        config: catalog.topic_config(topic),
    }
}

#[cfg(test)]
mod tests;
