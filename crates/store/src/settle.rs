//! The settler: copies the batches of a sealed log file into the segments of their partitions, then gives the
//! log file back.
//!
//! It may be interrupted anywhere. Until everything of a log file is durable in the segments nobody sees any of
//! it, and the next attempt begins again from what was published before.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use batch::BatchHeader;
use coordination::producer::ProducerTable;
use parking_lot::Mutex;

use crate::checkpoint::{Checkpoint, observe};
use crate::disk::{Disk, Open, is_full, parent, replace_file, staged_name};
use crate::limits::{SPARE_FILES_MAX, SYNC_EACH_FILES_MAX};
use crate::log_file::{FILE_HEAD_LEN, LogFile};
use crate::metrics::Metrics;
use crate::partition::{PartitionConfig, PartitionLog};
use crate::read::ReadError;
use crate::sealed::{SealedFiles, Spare};
use crate::segment::{Segment, segment_path};
use crate::segment_index::{IndexState, SegmentIndexer};
use crate::unsettled::{LogEntry, for_each_frame};

/// What is known of the segment that batches are added to, beyond what readers see.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    pub(crate) index: IndexState,
    /// The producers of all that is settled.
    pub(crate) producers: ProducerTable,
    /// The next batch begins a new segment.
    pub(crate) roll_requested: bool,
    /// The settler is at work on this partition; the last segment must stay.
    settling: bool,
    /// A checkpoint is durable, so that a restart knows what of the segments counts.
    pub(crate) has_checkpoint: bool,
    /// The last checkpoint may not be durable. After a crash the one before it may count again, which knows the
    /// segments as they were then.
    pub(crate) unconfirmed: bool,
    /// The files of the last segment may hold more than counts, or may have held it when they were last durable.
    pub(crate) torn: bool,
    /// Segments begun by attempts that did not come to their end. They must be gone before a later one counts,
    /// or a restart would take them for closed ones.
    strays: Vec<i64>,
}

impl Tail {
    pub(crate) fn new(index: IndexState, producers: ProducerTable) -> Self {
        Self { index, producers, ..Self::default() }
    }

    pub(crate) fn is_settling(&self) -> bool {
        self.settling
    }

    /// The last segment is gone.
    pub(crate) fn forget(&mut self) {
        self.index = IndexState::default();
        self.torn = false;
    }
}

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
        let mut run =
            SettleRun { disk: &*self.disk, dir: &self.dir, partitions: Vec::new(), damaged: Vec::new() };
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
                    replace_file(&*self.disk, &Checkpoint::path(&partition.dir), &checkpoint.encode())?;
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

/// The settling of some log files.
struct SettleRun<'a> {
    disk: &'a dyn Disk,
    /// The data directory.
    dir: &'a Path,
    partitions: Vec<Staged>,
    damaged: Vec<Damaged>,
}

/// What one partition will look like when the log file is settled.
struct Staged {
    partition: Arc<PartitionLog>,
    config: PartitionConfig,
    start: i64,
    settled_end: i64,
    /// The segments that change: first the one that was last before, if it goes on.
    segments: Vec<Segment>,
    continues: bool,
    /// The segment that goes on was to be closed before the next batch, and whether it still is.
    roll_requested: bool,
    roll_first: bool,
    indexer: SegmentIndexer,
    producers: ProducerTable,
    /// Batches that are not written yet, for the last of `segments`.
    log: Vec<u8>,
    /// Where they and the index entries go.
    log_at: u64,
    index_at: u64,
    time_at: u64,
    touched: Vec<PathBuf>,
    /// Batches were settled, if only by finding that they were deleted.
    advanced: bool,
    /// The index files of the segment are not as they should be after this run.
    indexes_due: bool,
}

/// So many bytes of the log are settled together when several files wait: syncing many small files costs much the
/// same whether little or much was written to each.
const SETTLE_BYTES_MAX: u64 = 512 << 20;

/// Beyond so many new partitions, their first checkpoints are synced together: each would take five syncs.
const FIRST_CHECKPOINTS_EACH_MAX: usize = SYNC_EACH_FILES_MAX / 5;

/// How many bytes of batches are held before they are written.
const BUFFERED_MAX: usize = 4 << 20;

impl SettleRun<'_> {
    /// Copies one partition's batches after the other, so that each is written in few large pieces however many
    /// there are.
    fn copy(&mut self, last: u64, mut partitions: Vec<Arc<PartitionLog>>) -> Result<(), SettleError> {
        let waits = |partition: &Arc<PartitionLog>| {
            partition.state.lock().unsettled.front().is_some_and(|run| run.file.first <= last)
        };
        partitions.retain(waits);
        self.write_first_checkpoints(&partitions)?;
        for partition in partitions {
            let runs: Vec<_> = {
                let state = partition.state.lock();
                let runs = state.unsettled.iter().take_while(|run| run.file.first <= last);
                runs.map(|run| (Arc::clone(&run.file), run.entries.clone())).collect()
            };
            if runs.is_empty() {
                continue;
            }
            let Some(staged) = Staged::begin(self.disk, partition)? else { continue };
            self.partitions.push(staged);
            let Some(staged) = self.partitions.last_mut() else { continue };
            let disk = self.disk;
            for (file, entries) in &runs {
                if let Some((file, position)) = staged.copy(disk, file, entries)? {
                    // The others must not wait for it.
                    let partition = Arc::clone(&staged.partition);
                    self.damaged.push(Damaged { partition, file, position });
                    break;
                }
            }
            staged.flush(disk, true)?;
            staged.log = Vec::new();
        }
        Ok(())
    }

    /// Gives partitions that have no checkpoint one, durably, that says that nothing is settled.
    ///
    /// Without it, a restart after a power failure in the middle of the first settling would have to guess which of
    /// the segments were whole, and the log would not be asked for what they lack.
    fn write_first_checkpoints(&self, partitions: &[Arc<PartitionLog>]) -> io::Result<()> {
        let has_none = |partition: &&Arc<PartitionLog>| !partition.tail.lock().has_checkpoint;
        let new: Vec<_> = partitions.iter().filter(has_none).collect();
        let together = new.len() > FIRST_CHECKPOINTS_EACH_MAX;
        // A topic that is being removed must not get its directory back, and is not waited for.
        let for_each = |action: &dyn Fn(&PartitionLog, &mut Tail) -> io::Result<()>| {
            new.iter().try_for_each(|partition| {
                let mut tail = partition.tail.lock();
                if partition.is_removed() { Ok(()) } else { action(partition, &mut tail) }
            })
        };
        for_each(&|partition, tail| {
            self.disk.create_dir_all(&partition.dir)?;
            let path = Checkpoint::path(&partition.dir);
            let content = checkpoint_of(partition, tail).encode();
            if together {
                let file = self.disk.open(&staged_name(&path), Open::Replace)?;
                return file.write_at(0, &mut [IoSlice::new(&content)]);
            }
            replace_file(self.disk, &path, &content)?;
            sync_partition_dir(self.disk, &partition.dir)?;
            tail.has_checkpoint = true;
            Ok(())
        })?;
        if together {
            self.disk.sync_all(self.dir)?;
            for_each(&|partition, _| {
                let path = Checkpoint::path(&partition.dir);
                self.disk.rename(&staged_name(&path), &path)
            })?;
            self.disk.sync_all(self.dir)?;
            for_each(&|_, tail| {
                tail.has_checkpoint = true;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Makes all that was written durable, with the checkpoints that do not count yet.
    fn sync(&mut self) -> io::Result<()> {
        for staged in &mut self.partitions {
            if (staged.touched.is_empty() && !staged.advanced) || staged.partition.is_removed() {
                staged.touched.clear();
                continue;
            }
            let path = staged_name(&Checkpoint::path(&staged.partition.dir));
            let file = self.disk.open(&path, Open::Replace)?;
            file.write_at(0, &mut [IoSlice::new(&staged.checkpoint().encode())])?;
            staged.touched.push(path);
        }
        if self.syncs_together() {
            return self.disk.sync_all(self.dir);
        }
        for staged in self.touched() {
            for path in &staged.touched {
                self.disk.open(path, Open::Write)?.sync_data()?;
            }
            sync_partition_dir(self.disk, &staged.partition.dir)?;
        }
        Ok(())
    }

    /// Makes the new checkpoints count.
    fn replace_checkpoints(&self) -> io::Result<()> {
        for staged in self.touched() {
            let path = Checkpoint::path(&staged.partition.dir);
            self.disk.rename(&staged_name(&path), &path)?;
        }
        if self.syncs_together() {
            return self.disk.sync_all(self.dir);
        }
        self.touched().try_for_each(|staged| self.disk.sync_dir(&staged.partition.dir))
    }

    fn touched(&self) -> impl Iterator<Item = &Staged> {
        self.partitions.iter().filter(|staged| !staged.touched.is_empty())
    }

    fn syncs_together(&self) -> bool {
        self.touched().map(|staged| staged.touched.len()).sum::<usize>() > SYNC_EACH_FILES_MAX
    }

    /// Lets readers find the batches in the segments. Gives back the partitions that were touched.
    fn publish(self, last: u64, confirmed: bool) -> Vec<Arc<PartitionLog>> {
        let mut touched = Vec::new();
        for staged in self.partitions {
            if !staged.touched.is_empty() {
                touched.push(Arc::clone(&staged.partition));
            }
            staged.publish(last, confirmed);
        }
        touched
    }

    fn abandon(self) {
        for staged in self.partitions {
            staged.abandon();
        }
    }
}

impl Staged {
    fn begin(disk: &dyn Disk, partition: Arc<PartitionLog>) -> io::Result<Option<Self>> {
        let mut tail = partition.tail.lock();
        if partition.is_removed() {
            return Ok(None);
        }
        while let Some(&base) = tail.strays.last() {
            for extension in ["log", "index", "timeindex"] {
                remove_if_there(disk, &segment_path(&partition.dir, base, extension))?;
            }
            tail.strays.pop();
        }
        let state = partition.state.lock();
        let last = state.segments.back().filter(|last| !last.closed).cloned();
        let (config, start, settled_end) = (state.config, state.start, state.settled_end);
        drop(state);
        let index = if last.is_some() { tail.index } else { IndexState::default() };
        let mut touched = Vec::new();
        if let Some(last) = last.as_ref().filter(|_| tail.torn) {
            let sizes = [("log", last.bytes), ("index", index.index_len), ("timeindex", index.time_len)];
            for (extension, size) in sizes {
                let path = segment_path(&partition.dir, last.base, extension);
                cut_to(disk, &path, size)?;
                touched.push(path);
            }
        }
        let (roll_first, producers) = (tail.roll_requested, tail.producers.clone());
        tail.roll_requested = false;
        tail.settling = true;
        drop(tail);
        Ok(Some(Self {
            config,
            start,
            settled_end,
            continues: last.is_some(),
            roll_requested: roll_first,
            roll_first,
            log_at: last.as_ref().map_or(0, |last| last.bytes),
            index_at: index.index_len,
            time_at: index.time_len,
            segments: last.into_iter().collect(),
            indexer: SegmentIndexer::continuing(index),
            producers,
            log: Vec::new(),
            touched,
            advanced: false,
            indexes_due: false,
            partition,
        }))
    }

    fn checkpoint(&self) -> Checkpoint {
        let last = self.segments.last().map(|last| (last.clone(), self.indexer.state));
        Checkpoint { settled_end: self.settled_end, last, producers: self.producers.clone() }
    }

    /// Copies batches up to one that cannot be read, and says where that is.
    fn copy(
        &mut self,
        disk: &dyn Disk,
        file: &LogFile,
        entries: &[LogEntry],
    ) -> Result<Option<(PathBuf, u64)>, ReadError> {
        let mut rest = entries;
        loop {
            let outcome = for_each_frame(file, rest, &mut |_, head, header, batch| {
                let pushed = self.push(disk, header, &batch, head.wall_ms);
                pushed.map_err(|source| ReadError::disk(&self.partition.dir, source))
            });
            let (file, position) = match outcome {
                Ok(()) => return Ok(None),
                Err(ReadError::Corrupt { file, position }) => (file, position),
                Err(error) => return Err(error),
            };
            let found = rest.iter().position(|entry| u64::from(entry.position) == position);
            let Some(at) = found.filter(|at| rest[*at].end() <= self.start) else {
                return Ok(Some((file, position)));
            };
            // Deleted before it was settled, so nobody will miss it.
            self.settled_end = self.settled_end.max(rest[at].end());
            self.advanced = true;
            rest = &rest[at + 1..];
        }
    }

    fn push(&mut self, disk: &dyn Disk, header: &BatchHeader, batch: &[u8], wall_ms: i64) -> io::Result<()> {
        if header.base_offset < self.settled_end {
            return Ok(()); // An attempt before a crash came this far.
        }
        self.settled_end = header.last_offset() + 1;
        self.advanced = true;
        observe(&mut self.producers, header, wall_ms);
        if header.last_offset() < self.start {
            return Ok(()); // Deleted before it was settled.
        }
        let full = self.segments.last().is_none_or(|last| self.is_full(last, header, wall_ms));
        if full || self.roll_first {
            self.roll_first = false;
            self.roll(disk, header.base_offset, wall_ms)?;
        }
        let Some(segment) = self.segments.last_mut() else { return Ok(()) };
        self.indexer.push(segment, header, self.config.index_interval_bytes);
        self.log.extend_from_slice(batch);
        if self.log.len() >= BUFFERED_MAX { self.flush(disk, false) } else { Ok(()) }
    }

    fn is_full(&self, last: &Segment, header: &BatchHeader, wall_ms: i64) -> bool {
        let age = i64::try_from(self.config.segment_age.as_millis()).unwrap_or(i64::MAX);
        last.bytes + header.size() as u64 > self.config.segment_bytes.min(i32::MAX as u64)
            || header.last_offset() - last.base > i64::from(i32::MAX)
            || (last.bytes > 0 && wall_ms.saturating_sub(last.first_append_ms) > age)
    }

    /// Begins a new segment.
    fn roll(&mut self, disk: &dyn Disk, base: i64, wall_ms: i64) -> io::Result<()> {
        if let Some(last) = self.segments.last_mut() {
            last.closed = true;
            self.indexer.push_time(last);
            self.indexes_due |= !self.indexer.time_entries.is_empty();
            self.flush(disk, true)?;
        }
        self.segments.push(Segment::new(base, wall_ms));
        self.indexer = SegmentIndexer::default();
        (self.log_at, self.index_at, self.time_at) = (0, 0, 0);
        Ok(())
    }

    /// Writes the batches that are held, and at the end of a segment or of the run its index entries, too.
    fn flush(&mut self, disk: &dyn Disk, with_indexes: bool) -> io::Result<()> {
        let Some(base) = self.segments.last().map(|last| last.base) else { return Ok(()) };
        if self.log.is_empty() && !(with_indexes && self.indexes_due) {
            return Ok(());
        }
        // Held so that a topic that is being removed does not get its directory back.
        let _tail = self.partition.tail.lock();
        if self.partition.is_removed() {
            return Ok(());
        }
        let dir = &self.partition.dir;
        if !self.log.is_empty() {
            let path = segment_path(dir, base, "log");
            append_to(disk, &path, &mut self.log_at, &self.log, &mut self.touched)?;
            self.log.clear();
            self.indexes_due = true;
        }
        if with_indexes {
            let SegmentIndexer { index_entries, time_entries, .. } = &mut self.indexer;
            let path = segment_path(dir, base, "index");
            append_to(disk, &path, &mut self.index_at, index_entries, &mut self.touched)?;
            let path = segment_path(dir, base, "timeindex");
            append_to(disk, &path, &mut self.time_at, time_entries, &mut self.touched)?;
            index_entries.clear();
            time_entries.clear();
            self.indexes_due = false;
        }
        Ok(())
    }

    fn publish(self, last: u64, confirmed: bool) {
        let partition = &self.partition;
        let mut tail = partition.tail.lock();
        let mut state = partition.state.lock();
        if self.continues {
            state.segments.pop_back();
        }
        state.segments.extend(self.segments);
        state.settled_end = state.settled_end.max(self.settled_end);
        state.forget_settled(last);
        drop(state);
        tail.index = self.indexer.state;
        tail.producers = self.producers;
        tail.settling = false;
        if !self.touched.is_empty() {
            tail.torn = false;
            tail.unconfirmed = !confirmed;
        }
        // Rolling waits for a batch to begin the new segment with.
        tail.roll_requested |= self.roll_first;
        partition.remove_dead_segments(&mut tail);
    }

    fn abandon(self) {
        let mut tail = self.partition.tail.lock();
        tail.settling = false;
        tail.torn |= self.continues && !self.touched.is_empty();
        tail.roll_requested |= self.roll_requested;
        tail.strays.extend(self.segments[usize::from(self.continues)..].iter().map(|segment| segment.base));
    }
}

/// Writes to the end of a file that has `at` bytes that count, and remembers that it must be synced.
fn append_to(
    disk: &dyn Disk,
    path: &Path,
    at: &mut u64,
    bytes: &[u8],
    touched: &mut Vec<PathBuf>,
) -> io::Result<()> {
    let file = disk.open(path, Open::Create)?;
    if !touched.iter().any(|known| known == path) {
        // More than counts was left by an attempt that did not come to its end.
        if file.size()? > *at {
            file.truncate(*at)?;
        }
        touched.push(path.to_owned());
    }
    if !bytes.is_empty() {
        file.write_at(*at, &mut [IoSlice::new(bytes)])?;
    }
    *at += bytes.len() as u64;
    Ok(())
}

/// Cuts what a file has beyond the bytes that count.
fn cut_to(disk: &dyn Disk, path: &Path, size: u64) -> io::Result<()> {
    let file = disk.open(path, Open::Create)?;
    if file.size()? > size { file.truncate(size) } else { Ok(()) }
}

/// What a checkpoint says of a partition as it is now.
fn checkpoint_of(partition: &PartitionLog, tail: &Tail) -> Checkpoint {
    let state = partition.state.lock();
    let last = state.segments.back().map(|last| (last.clone(), tail.index));
    Checkpoint { settled_end: state.settled_end, last, producers: tail.producers.clone() }
}

fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
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
