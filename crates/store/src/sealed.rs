//! Log files between the writer and the settler, and back.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::disk::Disk;
use crate::limits::SPARE_FILES_MAX;
use crate::log_file::LogFile;

/// A log file that takes no more appends and waits to be settled.
#[derive(Debug, Clone)]
pub(crate) struct Sealed {
    pub(crate) file: Arc<LogFile>,
    /// The number of its first frame that does not count, and where that would be.
    pub(crate) end: u64,
    pub(crate) end_position: u64,
    pub(crate) appends: u64,
}

/// A drained log file that waits to be used again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spare {
    pub(crate) path: PathBuf,
    /// Up to where its blocks are known to have been written.
    pub(crate) written: u64,
}

/// Log files that wait to be settled, and drained ones that wait to be used again.
#[derive(Debug, Default)]
pub(crate) struct SealedFiles {
    pub(crate) waiting: Mutex<VecDeque<Sealed>>,
    pub(crate) arrived: Condvar,
    /// Settled, or without frames, and not yet removed; by their first number.
    pub(crate) drained: Mutex<BTreeMap<u64, Arc<LogFile>>>,
    pub(crate) spares: Mutex<Vec<Spare>>,
    /// Drained files have to stay, because they hold batches that cannot be read and so cannot be settled.
    pub(crate) held: AtomicBool,
}

impl SealedFiles {
    pub(crate) fn push(&self, sealed: Sealed) {
        self.waiting.lock().push_back(sealed);
        self.arrived.notify_all();
    }

    /// The files that have waited longest, up to `bytes` of them, and at least one.
    pub(crate) fn oldest(&self, bytes: u64) -> Vec<Sealed> {
        let mut sum = 0;
        let mut oldest = Vec::new();
        for sealed in &*self.waiting.lock() {
            sum += sealed.end_position;
            if sum > bytes && !oldest.is_empty() {
                break;
            }
            oldest.push(sealed.clone());
        }
        oldest
    }

    /// Whether a file that is sealed now would only be one more that waits.
    pub(crate) fn must_wait(&self) -> bool {
        self.held.load(Ordering::Relaxed) || !self.waiting.lock().is_empty()
    }

    /// Waits until a file is there, or until `timeout` has passed. `false` once `stopping` says so.
    pub(crate) fn wait(&self, timeout: Option<Duration>, stopping: impl Fn() -> bool) -> bool {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut waiting = self.waiting.lock();
        while waiting.is_empty() && !stopping() {
            match deadline {
                Some(deadline) => {
                    if self.arrived.wait_until(&mut waiting, deadline).timed_out() {
                        break;
                    }
                }
                None => self.arrived.wait(&mut waiting),
            }
        }
        !stopping()
    }

    /// Waits until `at`, or until `enough` says that there is no reason to; it is asked again with every file that
    /// arrives and after every [`Self::wake`].
    pub(crate) fn wait_until(&self, at: Instant, enough: impl Fn() -> bool) {
        let mut waiting = self.waiting.lock();
        while !enough() && !self.arrived.wait_until(&mut waiting, at).timed_out() {}
    }

    /// Has whoever waits look again at whether there is a reason to.
    pub(crate) fn wake(&self) {
        let _waiting = self.waiting.lock();
        self.arrived.notify_all();
    }

    /// Keeps a drained file for reuse unless there are enough.
    pub(crate) fn keep_spare(&self, spare: Spare) -> Result<(), Spare> {
        let mut spares = self.spares.lock();
        if spares.len() >= SPARE_FILES_MAX {
            return Err(spare);
        }
        spares.push(spare);
        Ok(())
    }

    /// Removes all spare files but so many.
    pub(crate) fn trim_spares(&self, disk: &dyn Disk, keep: usize) {
        let surplus = {
            let mut spares = self.spares.lock();
            let keep = keep.min(spares.len());
            spares.split_off(keep)
        };
        // Without the lock, so that the writer does not wait for this.
        for spare in surplus {
            if let Err(error) = disk.remove_file(&spare.path) {
                tracing::warn!(file = %spare.path.display(), %error, "a spare log file stays for now");
                self.spares.lock().push(spare);
            }
        }
    }
}
