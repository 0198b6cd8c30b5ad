//! The settler: copies the batches of a sealed log file into the segments of their partitions, then gives the
//! log file back.
//!
//! It may be interrupted anywhere. Until everything of a log file is durable in the segments nobody sees any of
//! it, and the next attempt begins again from what was published before.

mod run;
mod staged;
mod touched;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use crate::checkpoint::Checkpoint;
use crate::disk::{Disk, is_full, parent, remove_if_there, replace_file, staged_name};
use crate::limits::SPARE_FILES_MAX;
use crate::log_file::{FILE_HEAD_LEN, LogFile};
use crate::metrics::Metrics;
use crate::partition::PartitionLog;
use crate::read::ReadError;
use crate::sealed::{SealedFiles, Spare};
use crate::tail::Tail;
use run::SettleRun;

/// Takes sealed log files one after the other.
#[derive(Debug)]
pub(crate) struct Settler {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) sealed: Arc<SealedFiles>,
    pub(crate) metrics: Arc<Metrics>,
    unconfirmed: Mutex<Vec<Unconfirmed>>,
    /// Partitions with a batch in the log that cannot be read. All behind it stays in the log, and so do the files.
    damaged: Mutex<Vec<Damaged>>,
    /// Held while a log file is settled: one at a time, in their order.
    busy: Mutex<()>,
}

/// Log files that are settled, and the partitions whose checkpoints may not be durable.
#[derive(Debug)]
struct Unconfirmed {
    files: Vec<Arc<LogFile>>,
    partitions: Vec<Arc<PartitionLog>>,
}

/// A partition and the place in the log at which its settling ends.
#[derive(Debug)]
struct Damaged {
    partition: Arc<PartitionLog>,
    file: PathBuf,
    position: u64,
}

/// Why a log file is still not settled. It will be tried again.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// The disk refused.
    #[error("settle the log")]
    Disk(#[from] io::Error),
    /// The log file cannot be read back as it was written, or a segment cannot be written.
    #[error("copy batches to their segments")]
    Copy(#[from] ReadError),
}

impl SettleError {
    pub(crate) fn is_storage_full(&self) -> bool {
        let (Self::Disk(error) | Self::Copy(ReadError::Disk { source: error, .. })) = self else {
            return false;
        };
        is_full(error)
    }
}

/// So many bytes of the log are settled together when several files wait: syncing many small files costs much the
/// same whether little or much was written to each.
const SETTLE_BYTES_MAX: u64 = 512 << 20;

impl Settler {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        sealed: Arc<SealedFiles>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (unconfirmed, damaged, busy) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { disk, dir, sealed, metrics, unconfirmed, damaged, busy }
    }

    /// Settles the oldest sealed log files. `false` if there are none.
    pub(crate) fn settle_once(
        &self,
        partitions: &dyn Fn() -> Vec<Arc<PartitionLog>>,
    ) -> Result<bool, SettleError> {
        let _busy = self.busy.lock();
        self.confirm()?;
        let sealed = self.sealed.oldest(SETTLE_BYTES_MAX);
        let mut last = sealed.last().map(|sealed| sealed.file.first);
        if last.is_none() && !self.damaged.lock().is_empty() {
            // What could not be read may be readable now, or not be needed any more.
            last = self.sealed.drained.lock().last_key_value().map(|(first, _)| *first);
        }
        let Some(last) = last else { return Ok(false) };
        let file_system = self.disk.file_system(&self.dir);
        let file_system = file_system.inspect_err(|_| Metrics::add(&self.metrics.failed_settles, 1))?;
        let mut run =
            SettleRun { disk: &*self.disk, file_system, partitions: Vec::new(), damaged: Vec::new() };
        let outcome = run.copy(last, partitions()).and_then(|()| Ok(run.sync()?));
        if let Err(error) = outcome {
            run.abandon();
            Metrics::add(&self.metrics.failed_settles, 1);
            return Err(error);
        }
        // From here on the new checkpoints may or may not count after a crash, so nothing of this is undone: the
        // batches are durable where they are now. Only the log file has to wait until the checkpoints are, too.
        let confirmed = run.replace_checkpoints();
        self.note_damage(std::mem::take(&mut run.damaged));
        let partitions = run.publish(last, confirmed.is_ok());
        let any = !sealed.is_empty();
        let mut files = Vec::new();
        for sealed in sealed {
            self.sealed.waiting.lock().pop_front();
            Metrics::subtract(&self.metrics.backlog_bytes, sealed.end_position - FILE_HEAD_LEN as u64);
            Metrics::subtract(&self.metrics.backlog_appends, sealed.appends);
            Metrics::add(&self.metrics.settled_files, 1);
            files.push(sealed.file);
        }
        match confirmed {
            Ok(()) => {
                self.sealed.drained.lock().extend(files.into_iter().map(|file| (file.first, file)));
                self.give_back();
                Ok(any)
            }
            Err(error) => {
                self.unconfirmed.lock().push(Unconfirmed { files, partitions });
                Metrics::add(&self.metrics.failed_settles, 1);
                Err(error.into())
            }
        }
    }

    /// Whether something is left to do although no file waits.
    pub(crate) fn is_unfinished(&self) -> bool {
        !self.unconfirmed.lock().is_empty()
            || !self.damaged.lock().is_empty()
            || !self.sealed.drained.lock().is_empty()
    }

    /// The first place in the log that keeps a partition from being settled.
    ///
    /// # Errors
    /// When there is one.
    pub(crate) fn check_damage(&self) -> Result<(), SettleError> {
        match self.damaged.lock().first() {
            Some(Damaged { file, position, .. }) => {
                Err(ReadError::Corrupt { file: file.clone(), position: *position }.into())
            }
            None => Ok(()),
        }
    }

    fn note_damage(&self, found: Vec<Damaged>) {
        let mut damaged = self.damaged.lock();
        for Damaged { partition, file, position } in &found {
            if !damaged.iter().any(|known| Arc::ptr_eq(&known.partition, partition)) {
                let (key, file) = (partition.key, file.display());
                tracing::error!(
                    %file,
                    position,
                    ?key,
                    "a batch in the log cannot be read; it and all behind it stay there until the records up to \
                     it, or the topic, are deleted"
                );
                Metrics::add(&self.metrics.failed_settles, 1);
            }
        }
        *damaged = found;
    }

    /// The first log file that has to stay because of what cannot be read.
    fn held_from(&self) -> Option<u64> {
        let mut damaged = self.damaged.lock();
        // With a topic that was removed its damage is gone, too.
        damaged.retain(|damaged| !damaged.partition.is_removed());
        let first = |damaged: &Damaged| {
            let state = damaged.partition.state.lock();
            state.unsettled.front().map(|run| run.file.first)
        };
        damaged.iter().filter_map(first).min()
    }

    /// Writes again the checkpoints of which nobody knows whether they are durable.
    fn confirm(&self) -> io::Result<()> {
        let mut unconfirmed = self.unconfirmed.lock();
        while let Some(Unconfirmed { partitions, .. }) = unconfirmed.first_mut() {
            while let Some(partition) = partitions.last() {
                let mut tail = partition.tail.lock();
                if !partition.is_removed() {
                    let checkpoint = checkpoint_of(partition, &tail);
                    let path = Checkpoint::path(&partition.dir);
                    // The one before may still be what counts after a crash, so it is not written over.
                    remove_if_there(&*self.disk, &staged_name(&path))?;
                    replace_file(&*self.disk, &path, &checkpoint.encode())?;
                    tail.unconfirmed = false;
                }
                drop(tail);
                partitions.pop();
            }
            let Unconfirmed { files, .. } = unconfirmed.remove(0);
            self.sealed.drained.lock().extend(files.into_iter().map(|file| (file.first, file)));
        }
        drop(unconfirmed);
        self.give_back();
        Ok(())
    }

    /// Keeps drained log files for reuse, or removes them, oldest first.
    ///
    /// A file that cannot be removed keeps the later ones, too: a log with a hole in it would look damaged.
    fn give_back(&self) {
        let held_from = self.held_from();
        self.sealed.held.store(held_from.is_some(), Ordering::Relaxed);
        let mut drained = self.sealed.drained.lock();
        while let Some((first, mut file)) = drained.pop_first() {
            if held_from.is_some_and(|held| first >= held) {
                drained.insert(first, file);
                return;
            }
            let path = file.path.clone();
            // A reader may still be at it, and must not see it overwritten.
            let gone = match Arc::get_mut(&mut file) {
                Some(_) if self.sealed.spares.lock().len() < SPARE_FILES_MAX => {
                    let written = file.written.load(Ordering::Relaxed);
                    let spare = Spare { path: path.with_extension("spare"), written };
                    let renamed = self.disk.rename(&path, &spare.path);
                    if renamed.is_ok() {
                        self.sealed.spares.lock().push(spare);
                    }
                    renamed
                }
                _ => self.disk.remove_file(&path),
            };
            if let Err(error) = gone {
                tracing::warn!(file = %path.display(), %error, "a settled log file stays for now");
                drained.insert(first, file);
                return;
            }
        }
    }
}

/// What a checkpoint says of a partition as it is now.
fn checkpoint_of(partition: &PartitionLog, tail: &Tail) -> Checkpoint {
    let state = partition.state.lock();
    let last = state.segments.back().map(|last| (last.clone(), tail.index));
    Checkpoint { settled_end: state.settled_end, last, producers: tail.producers.clone() }
}

/// Makes a partition's directory and its name durable.
pub(crate) fn create_partition_dir(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    disk.create_dir_all(dir)?;
    sync_partition_dir(disk, dir)
}

fn sync_partition_dir(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    disk.sync_dir(dir)?;
    disk.sync_dir(parent(dir))?;
    disk.sync_dir(parent(parent(dir)))
}
