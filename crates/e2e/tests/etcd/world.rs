//! An etcd, connections to it, and waiting for what has to come.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use etcd::{Etcd, Guard, KeyChange, Mirror, Options, Outcome, Snapshot, Update, Write};

/// How long anything may take on a busy machine before it counts as never.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// One node. What is tested here is behaviour, so it need not wait for the disk.
pub(crate) fn node() -> e2e::etcd::Etcd {
    e2e::etcd::Etcd::start(&without_fsync()).unwrap()
}

pub(crate) fn without_fsync() -> e2e::etcd::Options {
    e2e::etcd::Options { without_fsync: true, ..e2e::etcd::Options::default() }
}

pub(crate) fn connect(endpoints: &[String]) -> Etcd {
    Etcd::new(Options { endpoints: endpoints.to_vec(), ..Options::default() }).unwrap()
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain: {what}"),
    }
}

pub(crate) fn put(key: &str, value: &str) -> Write {
    Write::Put { key: key.to_owned(), value: Bytes::copy_from_slice(value.as_bytes()), lease: None }
}

pub(crate) fn delete(key: &str) -> Write {
    Write::Delete { key: key.to_owned() }
}

pub(crate) fn guard(key: &str, modified: u64) -> Guard {
    Guard { key: key.to_owned(), modified }
}

/// Writes without a guard, and says at which revision.
pub(crate) async fn write(etcd: &Etcd, writes: &[Write]) -> u64 {
    match etcd.transact(&[], writes).await.unwrap() {
        Outcome::Committed { revision } => revision,
        Outcome::Refused { .. } => panic!("there was no guard"),
    }
}

/// What a mirror adds up to.
#[derive(Debug, Default)]
pub(crate) struct Reflection {
    pub(crate) revision: u64,
    pub(crate) values: BTreeMap<String, (u64, Bytes)>,
    pub(crate) snapshots: usize,
    pub(crate) interruptions: usize,
}

impl Reflection {
    /// Takes in what comes next; fails when it comes twice or out of order.
    pub(crate) async fn next(&mut self, mirror: &mut Mirror) -> Update {
        let update = within("an update of the mirror", mirror.next()).await;
        match &update {
            Update::Snapshot(Snapshot { revision, entries }) => {
                assert!(*revision >= self.revision, "a snapshot goes back");
                assert!(entries.is_sorted_by(|a, b| a.key < b.key), "a snapshot is in order");
                self.revision = *revision;
                self.values =
                    entries.iter().map(|it| (it.key.clone(), (it.modified, it.value.clone()))).collect();
                self.snapshots += 1;
            }
            Update::Changes { revision, changes } => {
                let mut last = self.revision;
                for (index, change) in changes.iter().enumerate() {
                    let at = match change {
                        KeyChange::Put(it) => {
                            self.values.insert(it.key.clone(), (it.modified, it.value.clone()));
                            it.modified
                        }
                        KeyChange::Deleted { key, revision } => {
                            assert!(self.values.remove(key).is_some(), "{key} was deleted twice");
                            *revision
                        }
                    };
                    assert!(at > self.revision && at >= last, "change {index} of {changes:?} is old");
                    last = at;
                }
                assert_eq!(*revision, last, "the last change is of the last revision");
                self.revision = last;
            }
            Update::Current { revision } => {
                assert!(*revision >= self.revision, "current as of an older revision");
                self.revision = *revision;
            }
            Update::Interrupted(error) => {
                assert!(!error.to_string().is_empty());
                self.interruptions += 1;
            }
        }
        update
    }

    /// Takes in all up to a revision.
    pub(crate) async fn reach(&mut self, mirror: &mut Mirror, revision: u64) {
        while self.revision < revision {
            self.next(mirror).await;
        }
    }

    /// Fails unless it is what etcd holds.
    pub(crate) async fn is_the_same_as(&mut self, mirror: &mut Mirror, etcd: &Etcd, prefix: &str) {
        let snapshot = etcd.read(prefix).await.unwrap();
        self.reach(mirror, snapshot.revision).await;
        let expected: BTreeMap<_, _> =
            snapshot.entries.into_iter().map(|it| (it.key, (it.modified, it.value))).collect();
        assert_eq!(self.values, expected);
    }
}
