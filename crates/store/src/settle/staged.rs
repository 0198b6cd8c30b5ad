//! What the settling of log files makes of one partition.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use batch::BatchHeader;
use coordination::producer::ProducerTable;

use super::touched::Touched;
use crate::checkpoint::{Checkpoint, observe};
use crate::disk::{Disk, remove_if_there, staged_name};
use crate::log_file::LogFile;
use crate::partition::{PartitionConfig, PartitionLog};
use crate::read::ReadError;
use crate::segment::{Segment, segment_path};
use crate::segment_index::{IndexState, SegmentIndexer};
use crate::unsettled::{LogEntry, for_each_frame};

/// What one partition will look like when the log file is settled.
pub(super) struct Staged {
    pub(super) partition: Arc<PartitionLog>,
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
    pub(super) log: Vec<u8>,
    /// Where they and the index entries go.
    log_at: u64,
    index_at: u64,
    time_at: u64,
    pub(super) touched: Touched,
    /// Batches were settled, if only by finding that they were deleted.
    advanced: bool,
    /// The index files of the segment are not as they should be after this run.
    indexes_due: bool,
}

/// How many bytes of batches are held before they are written.
const BUFFERED_MAX: usize = 4 << 20;

impl Staged {
    pub(super) fn begin(
        disk: &dyn Disk,
        partition: Arc<PartitionLog>,
        keeps_open: bool,
    ) -> io::Result<Option<Self>> {
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
        let mut touched = Touched::new(keeps_open);
        if let Some(last) = last.as_ref().filter(|_| tail.torn) {
            let sizes = [("log", last.bytes), ("index", index.index_len), ("timeindex", index.time_len)];
            for (extension, size) in sizes {
                touched.append(disk, segment_path(&partition.dir, last.base, extension), size, &[])?;
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

    /// Forgives that files are missing of a topic that has been removed meanwhile.
    pub(super) fn unless_removed(&self, done: io::Result<()>) -> io::Result<()> {
        match done {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.partition.is_removed() => Ok(()),
            done => done,
        }
    }

    fn checkpoint(&self) -> Checkpoint {
        let last = self.segments.last().map(|last| (last.clone(), self.indexer.state));
        Checkpoint { settled_end: self.settled_end, last, producers: self.producers.clone() }
    }

    /// Writes the checkpoint that will count, over the one before the last if that is still there.
    pub(super) fn write_checkpoint(&mut self, disk: &dyn Disk) -> io::Result<()> {
        if self.touched.is_empty() && !self.advanced {
            return Ok(());
        }
        // Held so that nothing gets into the directory of a topic that is being removed.
        let _tail = self.partition.tail.lock();
        if self.partition.is_removed() {
            self.touched.clear();
            return Ok(());
        }
        let path = staged_name(&Checkpoint::path(&self.partition.dir));
        let content = self.checkpoint().encode();
        self.touched.write_over(disk, path, &content)
    }

    /// Makes it count. That is not durable yet.
    pub(super) fn replace_checkpoint(&self, disk: &dyn Disk) -> io::Result<()> {
        let _tail = self.partition.tail.lock();
        if self.partition.is_removed() {
            return Ok(());
        }
        let path = Checkpoint::path(&self.partition.dir);
        disk.swap(&staged_name(&path), &path)
    }

    /// Copies batches up to one that cannot be read, and says where that is.
    pub(super) fn copy(
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
    pub(super) fn flush(&mut self, disk: &dyn Disk, with_indexes: bool) -> io::Result<()> {
        let Some(base) = self.segments.last().map(|last| last.base) else { return Ok(()) };
        if self.log.is_empty() && !(with_indexes && self.indexes_due) {
            return Ok(());
        }
        // Held so that a topic that is being removed does not get its directory back.
        let _tail = self.partition.tail.lock();
        if self.partition.is_removed() {
            self.log.clear();
            return Ok(());
        }
        let dir = &self.partition.dir;
        if !self.log.is_empty() {
            let path = segment_path(dir, base, "log");
            self.log_at = self.touched.append(disk, path, self.log_at, &self.log)?;
            self.log.clear();
            self.indexes_due = true;
        }
        if with_indexes {
            let SegmentIndexer { index_entries, time_entries, .. } = &mut self.indexer;
            let path = segment_path(dir, base, "index");
            self.index_at = self.touched.append(disk, path, self.index_at, index_entries)?;
            let path = segment_path(dir, base, "timeindex");
            self.time_at = self.touched.append(disk, path, self.time_at, time_entries)?;
            index_entries.clear();
            time_entries.clear();
            self.indexes_due = false;
        }
        Ok(())
    }

    pub(super) fn publish(self, last: u64, confirmed: bool) {
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

    pub(super) fn abandon(self) {
        let mut tail = self.partition.tail.lock();
        tail.settling = false;
        tail.torn |= self.continues && !self.touched.is_empty();
        tail.roll_requested |= self.roll_requested;
        tail.strays.extend(self.segments[usize::from(self.continues)..].iter().map(|segment| segment.base));
    }
}
