use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use batch::{BatchHeader, HEADER_LEN};
use bytes::Bytes;
use coordination::producer::ProducerTable;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::PartitionKey;
use crate::append::{Append, AppendError, AppendHandle, Completion};
use crate::checkpoint::{observe, write_start};
use crate::compact::Progress;
use crate::disk::Disk;
use crate::log_file::LogFile;
use crate::queue::{Pending, Queue};
use crate::read::{ReadBatches, ReadError};
use crate::segment::{Segment, SegmentReader, segment_path};
use crate::tail::Tail;
use crate::unsettled::{LogEntry, UnsettledBatch, read_log};
use crate::visible::{Hint, Place, Recent, State};

/// The log of one partition: what is settled, what is still in the one log, and what is kept in memory.
#[derive(Debug)]
pub struct PartitionLog {
    pub(crate) key: PartitionKey,
    pub(crate) dir: PathBuf,
    pub(crate) disk: Arc<dyn Disk>,
    queue: Arc<Queue>,
    start: AtomicI64,
    end: AtomicI64,
    /// Taken before the queue's lock, so that the queue has the order of the offsets.
    intake: Mutex<Intake>,
    pub(crate) state: Mutex<State>,
    /// Held for reading while segment files are read, for writing while they are removed or replaced.
    pub(crate) files: RwLock<()>,
    /// What only the settler and those who remove segments touch. Taken before `files` and `state`.
    pub(crate) tail: Mutex<Tail>,
    /// Held while the partition is being compacted, so that nobody else does it at the same time. Taken first.
    pub(crate) compacting: Mutex<Progress>,
    watchers: Mutex<Vec<Arc<Notify>>>,
    watching: AtomicUsize,
    /// The end has moved and who watches has not been woken. Only the writer looks at it.
    unannounced: AtomicBool,
}

/// What stands between a partition and the writer's queue.
#[derive(Debug)]
struct Intake {
    /// The offset that the next append must have.
    next: i64,
    /// Appends that were queued and have not ended.
    outstanding: usize,
    poisoned: bool,
    removed: bool,
}

/// What the store needs to know of a topic's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionConfig {
    /// `segment.bytes`: a segment is closed before it would become larger.
    pub segment_bytes: u64,
    /// `segment.ms`: a segment is closed when a batch comes so long after its first.
    pub segment_age: Duration,
    /// `index.interval.bytes`: so many bytes lie between two index entries.
    pub index_interval_bytes: u64,
}

impl Default for PartitionConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_age: Duration::from_secs(7 * 24 * 3600),
            index_interval_bytes: 4096,
        }
    }
}

/// The partition cannot be reset yet: this many appends have not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{outstanding} appends have not ended")]
pub struct ResetError {
    /// How many.
    pub outstanding: usize,
}

/// One segment, for decisions about retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSummary {
    /// The first offset it can hold.
    pub base_offset: i64,
    /// One past its last offset.
    pub end_offset: i64,
    /// The size of its batches.
    pub bytes: u64,
    /// The largest timestamp in it.
    pub max_timestamp: i64,
    /// Whether batches are still added to it.
    pub active: bool,
}

/// What a partition has when it comes out of recovery or into being.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) start: i64,
    pub(crate) settled_end: i64,
    pub(crate) segments: VecDeque<Segment>,
    pub(crate) tail: Tail,
}

impl PartitionLog {
    pub(crate) fn new(
        key: PartitionKey,
        dir: PathBuf,
        disk: Arc<dyn Disk>,
        queue: Arc<Queue>,
        settled: Settled,
    ) -> Self {
        let Settled { start, settled_end, segments, tail } = settled;
        let end = settled_end.max(start);
        Self {
            key,
            dir,
            disk,
            queue,
            start: AtomicI64::new(start),
            end: AtomicI64::new(end),
            intake: Mutex::new(Intake { next: end, outstanding: 0, poisoned: false, removed: false }),
            state: Mutex::new(State::new(start, settled_end, segments, tail.producers.clone())),
            files: RwLock::new(()),
            tail: Mutex::new(tail),
            compacting: Mutex::default(),
            watchers: Mutex::new(Vec::new()),
            watching: AtomicUsize::new(0),
            unannounced: AtomicBool::new(false),
        }
    }

    /// Which partition this is.
    #[must_use]
    pub fn key(&self) -> PartitionKey {
        self.key
    }

    /// The first offset that can be read.
    #[must_use]
    pub fn start_offset(&self) -> i64 {
        self.start.load(Ordering::Acquire)
    }

    /// One past the last offset that can be read: the high watermark. It never goes back.
    #[must_use]
    pub fn end_offset(&self) -> i64 {
        // In one order with the registration of a watch, so that who watches first misses nothing.
        self.end.load(Ordering::SeqCst)
    }

    /// Which files the log consists of, as a number that changes whenever some are removed or replaced. Two reads between
    /// which it has not changed find the same batches at the same offset.
    #[must_use]
    pub fn files_version(&self) -> u64 {
        self.state.lock().files_version
    }

    /// Tells the store of changed topic settings; they hold for what is settled from now on.
    pub fn configure(&self, config: PartitionConfig) {
        self.state.lock().config = config;
    }

    /// Queues a batch behind all that were queued for this partition before. Never waits for the disk.
    ///
    /// The batch is visible to readers when the handle resolves, not before.
    pub fn append(self: &Arc<Self>, append: Append) -> AppendHandle {
        let (done, handle) = AppendHandle::new();
        self.queue_up(append, done);
        handle
    }

    /// As [`Self::append`], and calls `done` with the outcome where [`AppendHandle`] would resolve: once, on the
    /// store's writer thread, or before this returns when the append is refused at once.
    ///
    /// No lock of the store is held meanwhile, so `done` may append again. It must be short and never block: every
    /// append of every partition waits for it.
    pub fn append_then(
        self: &Arc<Self>,
        append: Append,
        done: impl FnOnce(Result<(), AppendError>) + Send + 'static,
    ) {
        self.queue_up(append, Completion::call(done));
    }

    fn queue_up(self: &Arc<Self>, append: Append, done: Completion) {
        let header = match BatchHeader::parse(&append.head) {
            Ok(header)
                if header.size() == HEADER_LEN + append.body.len() && header.last_offset_delta >= 0 =>
            {
                header
            }
            Ok(header) => {
                let have = HEADER_LEN + append.body.len();
                done.finish(Err(AppendError::Batch(batch::BatchError::Truncated {
                    need: header.size(),
                    have,
                })));
                return;
            }
            Err(error) => {
                done.finish(Err(AppendError::Batch(error)));
                return;
            }
        };
        let mut intake = self.intake.lock();
        let refusal = if intake.removed {
            Some(AppendError::Removed)
        } else if intake.poisoned {
            Some(AppendError::Poisoned)
        } else if header.base_offset != intake.next {
            Some(AppendError::Offset { found: header.base_offset, expected: intake.next })
        } else {
            None
        };
        if let Some(refusal) = refusal {
            drop(intake);
            done.finish(Err(refusal));
            return;
        }
        let pending = Pending { partition: Arc::clone(self), append, header, done };
        match self.queue.push(pending) {
            Ok(()) => {
                intake.next = header.last_offset() + 1;
                intake.outstanding += 1;
            }
            Err(refused) => {
                drop(intake);
                self.poison();
                refused.done.finish(Err(AppendError::Closed));
            }
        }
    }

    /// Makes a poisoned partition take appends again, from [`Self::end_offset`] on. Changes nothing if it is not
    /// poisoned.
    ///
    /// # Errors
    /// While appends are outstanding; they are failing, and it is a matter of moments.
    pub fn reset(&self) -> Result<(), ResetError> {
        let mut intake = self.intake.lock();
        if !intake.poisoned {
            return Ok(());
        }
        if intake.outstanding > 0 {
            return Err(ResetError { outstanding: intake.outstanding });
        }
        intake.poisoned = false;
        intake.next = self.end_offset();
        Ok(())
    }

    /// Whole batches from the one that holds `offset` on, up to `max_bytes`; with `at_least_one` the first comes
    /// even if it is larger. May touch the disk.
    ///
    /// # Errors
    /// When the offset is outside of the log, or the disk or its content fails.
    pub fn read(&self, offset: i64, max_bytes: usize, at_least_one: bool) -> Result<ReadBatches, ReadError> {
        if let Some(found) = self.read_recent(offset, max_bytes, at_least_one) {
            return found;
        }
        // Whoever replaces or removes segment files waits until this read has ended.
        let _files = self.files.read();
        let mut offset = offset;
        // Batches without records are passed over: librdkafka takes an answer that holds nothing else for a record
        // that is too large, and gives up after ten of them. They are given out only where nothing follows, so that
        // a reader gets to the end.
        let mut emptied = None;
        loop {
            let place = self.state.lock().place(offset, max_bytes, at_least_one)?;
            match place {
                Place::Found(found) if found.bytes == 0 => return Ok(emptied.unwrap_or(found)),
                Place::Found(found) => return Ok(found),
                Place::Log(pieces) => return read_log(&pieces),
                Place::Segment { segment, hint, version } => {
                    let reader = SegmentReader::open(&*self.disk, &self.dir, &segment)?;
                    let from = match hint {
                        Some(position) => position,
                        None => reader.locate(offset)?,
                    };
                    let (found, position) = reader.read(from, max_bytes, at_least_one)?;
                    if found.bytes == 0 && position >= segment.bytes {
                        // Compaction has left nothing here behind `offset`.
                        offset = segment.end.max(offset + 1);
                        continue;
                    }
                    if found.bytes > 0 {
                        let hint = Hint { offset: found.next_offset, base: segment.base, position };
                        self.state.lock().remember(hint, version);
                    }
                    if found.is_emptied() {
                        offset = found.next_offset;
                        emptied = Some(found);
                        continue;
                    }
                    return Ok(found);
                }
            }
        }
    }

    /// As [`Self::read`], from memory alone; `None` when the disk is needed.
    pub fn read_recent(
        &self,
        offset: i64,
        max_bytes: usize,
        at_least_one: bool,
    ) -> Option<Result<ReadBatches, ReadError>> {
        self.state.lock().recent(offset, max_bytes, at_least_one).transpose()
    }

    /// The first batch that holds a record at or behind the start of the log and whose largest timestamp is at
    /// least `timestamp`, whole. Which of its records it is, the caller finds out. Blocks.
    ///
    /// # Errors
    /// When the disk or its content fails.
    pub fn find_by_time(&self, timestamp: i64) -> Result<Option<Bytes>, ReadError> {
        let _files = self.files.read();
        // All of it is looked at together: a batch that is settled meanwhile is in neither of two looks.
        let (segments, start, unsettled) = {
            let state = self.state.lock();
            let late = state.segments.iter().filter(|segment| segment.max_timestamp >= timestamp);
            let segments: Vec<Segment> = late.filter(|segment| segment.end > state.start).cloned().collect();
            let mut entries = state.live_entries();
            let unsettled = entries.find(|(_, entry)| entry.max_timestamp >= timestamp);
            (segments, state.start, unsettled.map(|(run, entry)| state.unsettled_batch(run, entry)))
        };
        for segment in &segments {
            let reader = SegmentReader::open(&*self.disk, &self.dir, segment)?;
            if let Some(found) = reader.find_by_time(timestamp, start)? {
                return Ok(Some(found));
            }
        }
        unsettled.map(UnsettledBatch::read).transpose()
    }

    /// The first batch with the largest timestamp of all, whole. Blocks.
    ///
    /// # Errors
    /// When the disk or its content fails.
    pub fn max_timestamp(&self) -> Result<Option<Bytes>, ReadError> {
        let _files = self.files.read();
        let (segments, start, unsettled) = {
            let state = self.state.lock();
            let live = state.segments.iter().filter(|segment| segment.end > state.start);
            let segments: Vec<Segment> = live.cloned().collect();
            // Of several equal ones the first.
            let latest = state
                .live_entries()
                .reduce(|best, next| if next.1.max_timestamp > best.1.max_timestamp { next } else { best });
            let unsettled =
                latest.map(|(run, entry)| (entry.max_timestamp, state.unsettled_batch(run, entry)));
            (segments, state.start, unsettled)
        };
        let mut best: Option<(i64, &Segment)> = None;
        for segment in &segments {
            let mut largest = segment.max_timestamp;
            if best.is_some_and(|(best, _)| best >= largest) {
                continue;
            }
            if segment.max_timestamp_offset < start {
                // That batch has been deleted; only the ones that are left know what is the largest now.
                let reader = SegmentReader::open(&*self.disk, &self.dir, segment)?;
                let Some(left) = reader.max_timestamp(start)? else { continue };
                largest = left;
            }
            if best.is_none_or(|(best, _)| best < largest) {
                best = Some((largest, segment));
            }
        }
        match (best, unsettled) {
            (Some((largest, _)), Some((later, batch))) if later > largest => batch.read().map(Some),
            (Some((largest, segment)), _) => {
                SegmentReader::open(&*self.disk, &self.dir, segment)?.find_by_time(largest, start)
            }
            (None, unsettled) => unsettled.map(|(_, batch)| batch.read()).transpose(),
        }
    }

    /// Has `notify` woken (`notify_one`) whenever the end offset moves or [`Self::is_poisoned`] becomes true, until
    /// the guard is dropped. One `Notify` may watch many partitions.
    ///
    /// Watch first, then look: what comes in between wakes too.
    pub fn watch(self: &Arc<Self>, notify: &Arc<Notify>) -> Watch {
        self.watchers.lock().push(Arc::clone(notify));
        self.watching.fetch_add(1, Ordering::SeqCst);
        Watch { partition: Arc::clone(self), notify: Arc::clone(notify) }
    }

    /// Forgets everything below `offset`, durably, and removes the segments that hold nothing else. Blocks.
    ///
    /// An offset beyond the end counts as the end; the start never goes back.
    ///
    /// # Errors
    /// When the disk refuses; what can be read is as before, but a restart may find the new start.
    pub fn set_start_offset(&self, offset: i64) -> io::Result<()> {
        let mut tail = self.tail.lock();
        let offset = offset.min(self.end_offset());
        if offset <= self.start_offset() || self.intake.lock().removed {
            return Ok(());
        }
        crate::settle::create_partition_dir(&*self.disk, &self.dir)?;
        write_start(&*self.disk, &self.dir, offset)?;
        self.state.lock().start = offset;
        self.start.store(offset, Ordering::Release);
        self.remove_dead_segments(&mut tail);
        Ok(())
    }

    /// Has the next batch that is settled begin a new segment. Blocks.
    pub fn roll(&self) {
        self.tail.lock().roll_requested = true;
    }

    /// The idempotent producers of all that is visible, and so durable.
    #[must_use]
    pub fn producers(&self) -> ProducerTable {
        self.state.lock().producers.clone()
    }

    /// Forgets the producers that have appended nothing for `after_ms`, as of `now_ms`. Blocks.
    pub fn expire_producers(&self, now_ms: i64, after_ms: i64) {
        self.tail.lock().producers.expire(now_ms, after_ms);
        self.state.lock().producers.expire(now_ms, after_ms);
    }

    /// The settled segments, oldest first. What is not settled yet is in none of them.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentSummary> {
        let state = self.state.lock();
        let summary = |segment: &Segment| SegmentSummary {
            base_offset: segment.base,
            end_offset: segment.end,
            bytes: segment.bytes,
            max_timestamp: segment.max_timestamp,
            active: !segment.closed,
        };
        state.segments.iter().map(summary).collect()
    }

    /// How many bytes of batches the partition has, settled or not.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.segments.iter().map(|segment| segment.bytes).sum::<u64>() + state.unsettled_bytes
    }

    /// One past the last offset that is in the segments; the rest is in the log.
    #[must_use]
    pub fn settled_end(&self) -> i64 {
        self.state.lock().settled_end
    }

    /// Deletes the files of segments that end at or below the start offset.
    pub(crate) fn remove_dead_segments(&self, tail: &mut Tail) {
        {
            let state = self.state.lock();
            if state.segments.front().is_none_or(|first| first.end > state.start) {
                return;
            }
        }
        let _files = self.files.write();
        let mut dead = Vec::new();
        {
            let mut state = self.state.lock();
            while let Some(first) = state.segments.front() {
                let last = state.segments.len() == 1;
                if first.end > state.start || (last && tail.is_settling()) {
                    break;
                }
                if last {
                    tail.forget();
                }
                dead.extend(state.segments.pop_front());
            }
            state.files_changed();
        }
        for segment in dead {
            for extension in ["index", "timeindex", "log"] {
                let path = segment_path(&self.dir, segment.base, extension);
                if let Err(error) = self.disk.remove_file(&path) {
                    // Below the start offset, so recovery removes it.
                    tracing::warn!(file = %path.display(), %error, "a segment that is no longer needed stays");
                }
            }
        }
    }

    /// Makes a durable batch visible. Those who watch learn of it from [`Self::announce`].
    pub(crate) fn publish(
        &self,
        file: &Arc<LogFile>,
        entry: LogEntry,
        recent: Option<Recent>,
        header: &BatchHeader,
        wall_ms: i64,
    ) {
        let mut state = self.state.lock();
        state.push_entry(file, entry);
        observe(&mut state.producers, header, wall_ms);
        match recent {
            Some(recent) => state.recent.push_back(recent),
            // The cache holds the end of the log without a gap, or nothing.
            None => state.recent.clear(),
        }
        self.end.store(state.end, Ordering::SeqCst);
        self.unannounced.store(true, Ordering::Relaxed);
    }

    /// Wakes who watches, once for all that was published since the last time.
    pub(crate) fn announce(&self) {
        if self.unannounced.swap(false, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Takes note of a batch found in the log by recovery.
    pub(crate) fn recover(&self, file: &Arc<LogFile>, entry: LogEntry, header: &BatchHeader, wall_ms: i64) {
        let mut state = self.state.lock();
        if state.segments.is_empty() && state.unsettled.is_empty() && state.end == 0 {
            // What came before belongs to a topic that was removed, with its files; this will follow it.
            state.start = state.start.max(entry.base_offset);
            self.start.store(state.start, Ordering::Release);
        }
        state.push_entry(file, entry);
        observe(&mut state.producers, header, wall_ms);
        self.end.store(state.end, Ordering::SeqCst);
        self.intake.lock().next = state.end;
    }

    /// Drops cached batches up to the one that begins at `base_offset`.
    pub(crate) fn evict(&self, base_offset: i64) {
        let mut state = self.state.lock();
        while state.recent.front().is_some_and(|recent| recent.base_offset <= base_offset) {
            state.recent.pop_front();
        }
        if state.recent.is_empty() {
            state.recent.shrink_to_fit();
        }
    }

    /// Whether nothing that is queued now will be stored: an append failed, until [`Self::reset`], or the topic was
    /// removed.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        let intake = self.intake.lock();
        intake.poisoned || intake.removed
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.intake.lock().removed
    }

    /// Marks the partition as one whose appends fail until it is reset, and wakes who waits for them.
    pub(crate) fn poison(&self) {
        self.intake.lock().poisoned = true;
        self.wake();
    }

    /// Marks the partition as gone: nothing is taken or settled any more, and who waits for data is woken.
    pub(crate) fn remove(&self) {
        self.intake.lock().removed = true;
        self.wake();
    }

    pub(crate) fn ended(&self) {
        self.intake.lock().outstanding -= 1;
    }

    fn wake(&self) {
        if self.watching.load(Ordering::SeqCst) == 0 {
            return;
        }
        for notify in &*self.watchers.lock() {
            notify.notify_one();
        }
    }
}

/// Keeps a `Notify` registered with a partition.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct Watch {
    partition: Arc<PartitionLog>,
    notify: Arc<Notify>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watchers = self.partition.watchers.lock();
        if let Some(at) = watchers.iter().position(|notify| Arc::ptr_eq(notify, &self.notify)) {
            watchers.swap_remove(at);
            self.partition.watching.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
