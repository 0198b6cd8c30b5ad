//! The store and the broker of this process.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use broker::{Broker, GroupStory};
use coordination::error_code::ErrorCode;
use coordination::group::Slug;
use coordination::settings::{Flush, Settings};
use prometheus_client::registry::Registry;
use rail::Rail;
use store::{LocalStore, Metrics, RealDisk, Recovery};
use tracing::{error, info, warn};

use crate::admin::{FindGroupEvents, GroupEvents, GroupNamed, NoEvents, TakeSnapshot};
use crate::data_dir;
use crate::output::milliseconds;

/// Opens the data directory and recovers what it holds; blocks.
pub(crate) fn open(settings: &Settings) -> anyhow::Result<Opened> {
    let data_dir = settings.data_dir();
    data_dir::make(data_dir.as_ref()).with_context(|| format!("open the data directory {data_dir}"))?;
    if let Some(objection) = data_dir::objection(data_dir.as_ref()) {
        warn!("{objection}");
    }
    let (store, recovery) = LocalStore::open(Arc::new(RealDisk), data_dir.as_ref(), options(settings))
        .with_context(|| format!("open the data directory {data_dir}"))?;
    Ok(Opened { store: Arc::new(store), recovery })
}

fn options(settings: &Settings) -> store::Options {
    store::Options {
        flush: match settings.flush() {
            Flush::Always => store::Flush::Always,
            Flush::Interval => store::Flush::Interval(Duration::from_millis(settings.flush_interval_ms())),
            Flush::Os => store::Flush::Os,
        },
        log_file_bytes: settings.log_file_bytes(),
        cache_bytes: settings.cache_bytes(),
        backlog_bytes: settings.settle_backlog_bytes(),
        settle_interval: Duration::from_millis(settings.settle_interval_ms()),
    }
}

/// A data directory that has been recovered and not yet been put to work.
pub(crate) struct Opened {
    store: Arc<LocalStore>,
    recovery: Recovery,
}

/// What is in the data directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contents {
    /// How many topics.
    pub(crate) topics: usize,
    /// How many partitions.
    pub(crate) partitions: usize,
    /// How many bytes recovery read back from the log.
    pub(crate) replayed_bytes: u64,
}

impl Opened {
    /// Tells what recovery has cut and what it found damaged; a start after a clean end has nothing to tell.
    pub(crate) fn report_recovery(&self) {
        let recovery = &self.recovery;
        for cut in &recovery.cuts {
            let (file, position, bytes) = (cut.file.display(), cut.position, cut.bytes);
            warn!(%file, position, bytes, "cut an unfinished write; nothing in it was acknowledged");
        }
        for damage in &recovery.damage {
            error!(damage, "a settled file is damaged; reads of the damaged part fail");
        }
        if recovery.replayed_appends > 0 {
            info!(
                batches = recovery.replayed_appends,
                bytes = recovery.replayed_bytes,
                ms = milliseconds(recovery.took),
                "recovered from the log"
            );
        }
    }

    /// Starts the broker on it.
    pub(crate) async fn start(self, settings: Settings) -> anyhow::Result<Running> {
        let broker = Broker::start(Arc::clone(&self.store), settings).await.context("start the broker")?;
        // Nobody waits longer for groups than that: whoever asks while they are loaded is told so.
        let _ = tokio::time::timeout(GROUPS_PATIENCE, broker.groups_loaded()).await;
        Ok(Running { store: self.store, broker, replayed_bytes: self.recovery.replayed_bytes })
    }
}

/// How long the listeners wait for groups to be loaded. Usually that is a matter of milliseconds, and some clients
/// (aiokafka 0.14) take the answer "still loading" to OffsetFetch for "nothing is committed".
const GROUPS_PATIENCE: Duration = Duration::from_millis(250);

/// A broker at work.
pub(crate) struct Running {
    store: Arc<LocalStore>,
    broker: Arc<Broker>,
    replayed_bytes: u64,
}

impl Running {
    /// The way to the broker.
    pub(crate) fn rail(&self) -> Arc<dyn Rail> {
        Arc::clone(&self.broker) as Arc<dyn Rail>
    }

    /// The broker itself.
    pub(crate) fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// Where its data is.
    pub(crate) fn data_dir(&self) -> &Path {
        self.store.dir()
    }

    /// What the store counts.
    pub(crate) fn store_metrics(&self) -> Arc<Metrics> {
        Arc::clone(self.store.metrics())
    }

    /// Copies the data while the broker runs.
    pub(crate) fn take_snapshot(&self) -> TakeSnapshot {
        let store = Arc::clone(&self.store);
        Box::new(move |directory| {
            check_place(store.dir(), directory)?;
            data_dir::make(directory).with_context(|| format!("make {}", directory.display()))?;
            let taken = store.snapshot(directory)?;
            info!(directory = %directory.display(), bytes = taken.bytes, "took a snapshot");
            Ok(taken)
        })
    }

    /// What is remembered of a group's rebalances.
    pub(crate) fn group_events(&self) -> FindGroupEvents {
        let broker = Arc::clone(&self.broker);
        Box::new(move |GroupNamed { group, org }| {
            let broker = Arc::clone(&broker);
            Box::pin(async move {
                let id = broker.admin().look(|catalog| catalog.org_named(&org).map(|org| org.id));
                match broker.group_story(id.ok_or(NoEvents::NoOrg)?, &group).await {
                    Ok(Some(GroupStory { identity, events, underway })) => {
                        let rrl = Slug::sanitize(&group, identity.id).rrl(&org);
                        Ok(GroupEvents { group, id: identity.id, rrl, events, underway })
                    }
                    Ok(None) => Err(NoEvents::Absent),
                    Err(ErrorCode::CoordinatorLoadInProgress) => Err(NoEvents::Loading),
                    Err(_) => Err(NoEvents::Unreadable),
                }
            })
        })
    }

    /// What there is to serve.
    pub(crate) fn contents(&self) -> Contents {
        let (topics, partitions) = self.broker.topics().count();
        Contents { topics, partitions, replayed_bytes: self.replayed_bytes }
    }

    /// Adds what the broker counts to `registry`.
    pub(crate) fn register(&self, registry: &mut Registry) {
        self.broker.register_metrics(registry);
    }

    /// What answers fetches that wait, so that nobody waits for them.
    pub(crate) fn drain(&self) -> impl FnOnce() + use<> {
        let broker = Arc::clone(&self.broker);
        move || broker.drain()
    }

    /// Writes and syncs what waits.
    pub(crate) async fn close(self) {
        self.broker.shutdown().await;
    }
}

/// Refuses a place within the data directory: a copy there would go with the original, and be a riddle to the next
/// start.
fn check_place(data_dir: &Path, directory: &Path) -> anyhow::Result<()> {
    let place = resolve(directory).with_context(|| format!("find {}", directory.display()))?;
    let data_dir =
        data_dir.canonicalize().with_context(|| format!("find the data directory {}", data_dir.display()))?;
    anyhow::ensure!(
        !place.starts_with(&data_dir),
        "{} is in the data directory {}; name a directory elsewhere",
        directory.display(),
        data_dir.display()
    );
    Ok(())
}

/// Where an absolute path leads, although the end of it may not exist yet.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    for known in path.ancestors() {
        match known.canonicalize() {
            Ok(real) => {
                let rest = path.strip_prefix(known).unwrap_or(Path::new(""));
                if rest.components().any(|part| part == Component::ParentDir) {
                    let reason = "a directory that does not exist has no directory above it";
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
                }
                return Ok(real.join(rest));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_goes_anywhere_but_into_the_data_directory() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir_all(data.join("topics")).unwrap();
        std::os::unix::fs::symlink(data.join("topics"), dir.path().join("link")).unwrap();
        let check =
            |path: &str| check_place(&data, &dir.path().join(path)).map_err(|error| format!("{error:#}"));
        for outside in ["copy", "data-copy", "new/copy", "data/../copy", "data/topics/../../copy"] {
            assert_eq!(check(outside), Ok(()), "{outside}");
        }
        for inside in ["data", "data/copy", "data/topics/new/copy", "link", "link/copy", "data/../data/copy"]
        {
            let refusal = check(inside).unwrap_err();
            assert!(refusal.contains("is in the data directory"), "{inside}: {refusal}");
        }
        let refusal = check("new/../data/copy").unwrap_err();
        assert!(refusal.contains("has no directory above it"), "{refusal}");
    }
}
