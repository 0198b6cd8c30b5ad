//! The writer: takes what is queued, writes it to the one log, syncs once, and tells everybody.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use batch::HEADER_LEN;
use bytes::{BufMut, Bytes, BytesMut};

use crate::append::{AppendError, Ended};
use crate::disk::{Disk, DiskFile, Open};
use crate::limits::{CACHE_ENTRY_OVERHEAD, LOG_FILE_APPENDS_MAX, SMALL_BATCH_BYTES, WRITE_AHEAD};
use crate::local_store::{Flush, Options};
use crate::log_file::{
    FILE_HEAD_LEN, FRAME_HEAD_LEN, FileHead, FrameHead, LogFile, Salt, log_path, next_era, write_head,
};
use crate::metrics::Metrics;
use crate::partition::PartitionLog;
use crate::queue::{Pending, Queue};
use crate::sealed::{Sealed, SealedFiles};
use crate::unsettled::LogEntry;
use crate::visible::Recent;

/// Where the log ended when the store was opened.
#[derive(Debug, Default)]
pub(crate) struct LogEnd {
    /// One past the last frame that counts.
    pub(crate) log_end: u64,
    /// A number no smaller than that of any frame in any file, as far as it can be known.
    pub(crate) last_number: u64,
    /// Files without frames that stay until the next file is there.
    pub(crate) leftovers: Vec<Arc<LogFile>>,
}

/// The end of the log.
#[derive(Debug)]
pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    log_dir: PathBuf,
    flush: Flush,
    log_file_bytes: u64,
    settle_interval: Duration,
    cache_bytes: usize,
    active: Option<Active>,
    /// The number of the next frame.
    next: u64,
    /// Makes the salts of log files, with a secret of this process.
    salts: RandomState,
    /// One past the number of the last frame that counts.
    log_end: u64,
    /// One past the last frame that is known to be on disk.
    durable_end: u64,
    last_sync: Instant,
    /// Files without frames, which still tell where the log ended before them. The next file will tell it, too.
    leftovers: Vec<Arc<LogFile>>,
    cache: Cache,
    sealed: Arc<SealedFiles>,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct Active {
    file: Arc<LogFile>,
    size: u64,
    position: u64,
    appends: u64,
    /// When it is sealed although it has room; set by the first append.
    seal_at: Option<Instant>,
    unsynced: bool,
}

/// The order in which kept batches leave memory: the oldest first.
#[derive(Debug, Default)]
struct Cache {
    bytes: usize,
    order: VecDeque<(Arc<PartitionLog>, i64, usize)>,
}

impl Writer {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        log_dir: PathBuf,
        options: &Options,
        recovered: LogEnd,
        sealed: Arc<SealedFiles>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let LogEnd { log_end, last_number, leftovers } = recovered;
        Self {
            disk,
            log_dir,
            flush: options.flush,
            log_file_bytes: options.log_file_bytes.clamp(MIN_LOG_FILE_BYTES, MAX_LOG_FILE_BYTES),
            settle_interval: options.settle_interval,
            cache_bytes: options.cache_bytes,
            active: None,
            next: next_era(last_number),
            salts: RandomState::new(),
            log_end,
            durable_end: log_end,
            last_sync: Instant::now(),
            leftovers,
            cache: Cache::default(),
            sealed,
            metrics,
        }
    }

    /// When the writer has something to do although nothing is queued.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let active = self.active.as_ref()?;
        let sync = match self.flush {
            Flush::Interval(interval) if active.unsynced => Some(self.last_sync + interval),
            _ => None,
        };
        [active.seal_at, sync].into_iter().flatten().min()
    }

    /// Does what is due by the clock: seals a log file that has become old, syncs what was only written.
    pub(crate) fn handle_deadlines(&mut self, now: Instant) {
        if let Flush::Interval(interval) = self.flush
            && self.active.as_ref().is_some_and(|active| active.unsynced)
            && now >= self.last_sync + interval
        {
            self.sync_written();
        }
        let Some(active) = &mut self.active else { return };
        if active.seal_at.is_some_and(|at| now >= at) {
            if self.sealed.must_wait() {
                // Each file takes its full size on disk. As long as nobody empties the ones before it, this one
                // may as well fill up.
                active.seal_at = Some(now + self.settle_interval.max(SEAL_RETRY));
                return;
            }
            self.seal();
            // Made now, so that the next append does not wait for it. If it cannot be made, that append will say so.
            let _ = self.open_file(0);
        }
    }

    /// Writes and syncs one group. Gives back the appends that have ended, well or not; who waits for them is told
    /// by the caller, once it holds the writer no longer.
    pub(crate) fn commit_once(&mut self, queue: &Queue) -> Vec<Ended> {
        let Some(first) = queue.next_frame_len() else { return Vec::new() };
        let full = self.active.as_ref().is_some_and(|active| {
            active.position + first as u64 > active.size || active.appends >= LOG_FILE_APPENDS_MAX
        });
        if full {
            self.seal();
            if let Some(empty) = self.active.take() {
                // Nothing is in it, and still it is too small.
                self.next = next_era(self.next);
                self.leftovers.push(empty.file);
            }
        }
        let ready = if self.active.is_none() { self.open_file(first as u64) } else { Ok(()) };
        let room = match (&ready, &self.active) {
            (Ok(()), Some(active)) => usize::try_from(active.size - active.position).unwrap_or(usize::MAX),
            // All of them fail together, as if they had been written together.
            _ => usize::MAX,
        };
        let taken = queue.take(room);
        let mut ended = Vec::with_capacity(taken.len());
        let mut group = Vec::with_capacity(taken.len());
        for pending in taken {
            if pending.partition.is_poisoned() {
                let error =
                    if pending.partition.is_removed() { AppendError::Removed } else { AppendError::Poisoned };
                ended.push(pending.fail(error, &self.metrics));
            } else {
                group.push(pending);
            }
        }
        if group.is_empty() {
            return ended;
        }
        match ready.and_then(|()| self.write(&group)) {
            Ok(written) => self.publish(group, &written, &mut ended),
            Err(error) => self.fail(group, error, &mut ended),
        }
        ended
    }

    /// Closes the active file, if anything is in it, and leaves it to the settler.
    pub(crate) fn seal(&mut self) {
        if self.flush != Flush::Always {
            // Only the end of the last file may be lost: the head of the next one vouches for what is durable.
            self.sync_written();
        }
        let Some(active) = self.active.take_if(|active| active.appends > 0) else { return };
        self.give_to_settler(active);
    }

    /// Syncs what the relaxed flush modes have only written.
    pub(crate) fn sync_written(&mut self) {
        let Some(active) = &mut self.active else { return };
        if !active.unsynced {
            return;
        }
        let began = Instant::now();
        match active.file.file.sync_data() {
            Ok(()) => {
                active.unsynced = false;
                self.durable_end = self.log_end;
                self.last_sync = Instant::now();
                self.metrics.synced(began.elapsed());
            }
            Err(error) => {
                // These were acknowledged and are readable; the flush mode says that a crash may lose them. The
                // settler copies them, which is the best that can still be done.
                tracing::error!(file = %active.file.path.display(), %error, "the log could not be synced");
                active.unsynced = false;
                if let Some(active) = self.active.take() {
                    self.give_to_settler(active);
                }
                self.next = next_era(self.next);
            }
        }
    }

    fn give_to_settler(&self, active: Active) {
        self.sealed.push(Sealed {
            file: active.file,
            end: self.log_end,
            end_position: active.position,
            appends: active.appends,
        });
    }

    /// Makes the file that the next frame goes into. After a failure nothing has changed, and the next append
    /// tries again.
    fn open_file(&mut self, frame_len: u64) -> io::Result<()> {
        let size = self.log_file_bytes.max(FILE_HEAD_LEN as u64 + frame_len);
        let path = log_path(&self.log_dir, self.next);
        let head = FileHead {
            first: self.next,
            log_end_before: self.log_end,
            durable_before: self.durable_end,
            salt: Salt(self.salts.hash_one(self.next)),
        };
        let spare = self.sealed.spares.lock().pop();
        let written = AtomicU64::new(spare.as_ref().map_or(0, |spare| spare.written));
        let disk = &*self.disk;
        let made = match spare {
            Some(spare) => rename_spare(disk, &self.log_dir, &spare.path, &path),
            None => disk.open(&path, Open::Create),
        };
        let opened = made.and_then(|file| {
            let ready = prepare(disk, &self.log_dir, &*file, size, head);
            ready.map(|()| Arc::clone(&file)).inspect_err(|_| {
                // It holds no frame. Removed, it makes room for the next attempt, which takes another name.
                if disk.remove_file(&path).is_err() {
                    self.leftovers.push(Arc::new(LogFile {
                        first: head.first,
                        salt: head.salt,
                        path: path.clone(),
                        file,
                        written: AtomicU64::new(0),
                    }));
                }
            })
        });
        match opened {
            Ok(file) => {
                let file = Arc::new(LogFile { first: self.next, salt: head.salt, path, file, written });
                self.active = Some(Active {
                    file,
                    size,
                    position: FILE_HEAD_LEN as u64,
                    appends: 0,
                    seal_at: None,
                    unsynced: false,
                });
                let leftovers = self.leftovers.drain(..).map(|file| (file.first, file));
                self.sealed.drained.lock().extend(leftovers);
                Ok(())
            }
            Err(error) => {
                self.next = next_era(self.next);
                Err(error)
            }
        }
    }

    fn write(&mut self, group: &[Pending]) -> io::Result<Written> {
        let active = self.active.as_mut().ok_or_else(|| io::Error::other("no log file is open"))?;
        let mut buffer = BytesMut::with_capacity(group.iter().map(in_buffer).sum());
        let wall_ms = wall_ms();
        for (sequence, pending) in (self.next..).zip(group) {
            let head = FrameHead {
                length: u32::try_from(pending.header.size()).unwrap_or(u32::MAX),
                key: pending.partition.key,
                sequence,
                durable_end: self.durable_end,
                wall_ms,
            };
            head.encode(active.file.salt, &pending.append.head, &mut buffer);
            if is_small(pending) {
                buffer.put_slice(&pending.append.body);
            }
        }
        let buffer = buffer.freeze();
        let bytes = group.iter().map(|pending| pending.frame_len() as u64).sum();
        let end = active.position + bytes;
        let written = active.file.written.load(Ordering::Relaxed);
        let zeros = match self.flush {
            Flush::Always if end > written => zeros_ahead(end, bytes, active.size),
            _ => 0,
        };
        let mut slices = slices(group, &buffer);
        slices.extend(pieces(zeros).map(|piece| IoSlice::new(&ZEROS[..piece])));
        active.file.file.write_at(active.position, &mut slices)?;
        active.file.written.store(written.max(end + zeros as u64), Ordering::Relaxed);
        if self.flush == Flush::Always {
            let began = Instant::now();
            active.file.file.sync_data()?;
            self.metrics.synced(began.elapsed());
        } else {
            active.unsynced = true;
        }
        let position = active.position;
        active.position += bytes;
        active.appends += group.len() as u64;
        active.seal_at.get_or_insert_with(|| Instant::now() + self.settle_interval);
        self.next += group.len() as u64;
        self.log_end = self.next;
        if self.flush == Flush::Always {
            self.durable_end = self.log_end;
        }
        Ok(Written { file: Arc::clone(&active.file), position, bytes, buffer, wall_ms })
    }

    fn publish(&mut self, group: Vec<Pending>, written: &Written, ended: &mut Vec<Ended>) {
        Metrics::add(&self.metrics.appends, group.len() as u64);
        Metrics::add(&self.metrics.appended_bytes, written.bytes);
        Metrics::add(&self.metrics.backlog_bytes, written.bytes);
        Metrics::add(&self.metrics.backlog_appends, group.len() as u64);
        let mut position = written.position;
        let mut at = 0;
        for pending in &group {
            let entry = LogEntry::new(&pending.header, position);
            position += pending.frame_len() as u64;
            let head_at = at + FRAME_HEAD_LEN;
            let (head, body) = if is_small(pending) {
                at = head_at + pending.header.size();
                (written.buffer.slice(head_at..at), Bytes::new())
            } else {
                at = head_at + HEADER_LEN;
                (written.buffer.slice(head_at..at), pending.append.body.clone())
            };
            let cost = pending.header.size() + CACHE_ENTRY_OVERHEAD;
            let recent = (cost <= self.cache_bytes).then(|| Recent {
                base_offset: pending.header.base_offset,
                end_offset: pending.header.last_offset() + 1,
                head,
                body,
            });
            if recent.is_some() {
                self.cache.push(&pending.partition, pending.header.base_offset, cost);
            }
            pending.partition.publish(&written.file, entry, recent, &pending.header, written.wall_ms);
        }
        self.cache.shrink_to(self.cache_bytes);
        self.metrics.cache_bytes.store(self.cache.bytes as u64, Ordering::Relaxed);
        for pending in group {
            pending.partition.ended();
            pending.partition.announce();
            ended.push(Ended { done: pending.done, outcome: Ok(()) });
        }
    }

    /// Fails a group that is not, or not surely, on disk.
    fn fail(&mut self, group: Vec<Pending>, error: io::Error, ended: &mut Vec<Ended>) {
        tracing::error!(%error, appends = group.len(), "the log could not be written");
        let error = Arc::new(error);
        // Poison first: who sees one append fail must not get another one past it.
        for pending in &group {
            pending.partition.poison();
        }
        // Behind the last good frame the file may hold anything. It counts up to there, and the next file's head
        // will say so.
        if let Some(active) = self.active.take() {
            self.next = next_era(self.next + group.len() as u64);
            if active.appends > 0 {
                self.give_to_settler(active);
            } else {
                self.leftovers.push(active.file);
            }
        }
        for pending in group {
            ended.push(pending.fail(AppendError::from_disk(&error), &self.metrics));
        }
    }

    /// Fails whatever is left in the queue, and gives it back.
    pub(crate) fn abandon(&mut self, queue: &Queue) -> Vec<Ended> {
        let mut ended = Vec::new();
        loop {
            let group = queue.take(usize::MAX);
            if group.is_empty() {
                return ended;
            }
            for pending in group {
                pending.partition.poison();
                ended.push(pending.fail(AppendError::Closed, &self.metrics));
            }
        }
    }

    /// Forgets kept batches of partitions that were removed.
    pub(crate) fn forget_removed(&mut self) {
        let Cache { bytes, order } = &mut self.cache;
        order.retain(|(partition, _, cost)| {
            let keep = !partition.is_removed();
            *bytes -= if keep { 0 } else { *cost };
            keep
        });
    }
}

impl Cache {
    fn push(&mut self, partition: &Arc<PartitionLog>, base_offset: i64, cost: usize) {
        self.bytes += cost;
        self.order.push_back((Arc::clone(partition), base_offset, cost));
    }

    fn shrink_to(&mut self, bound: usize) {
        while self.bytes > bound
            && let Some((partition, base_offset, cost)) = self.order.pop_front()
        {
            self.bytes -= cost;
            partition.evict(base_offset);
        }
    }
}

/// Opens a spare file under its new name.
fn rename_spare(disk: &dyn Disk, log_dir: &Path, spare: &Path, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
    // The new name must be durable before the new head: under its old one the file would look damaged.
    let renamed = disk.rename(spare, path).and_then(|()| disk.sync_dir(log_dir));
    renamed.and_then(|()| disk.open(path, Open::Write)).inspect_err(|_| {
        // Nobody knows of it any more, whatever its name is now. The next attempt makes a new one.
        if disk.remove_file(path).is_err() && disk.remove_file(spare).is_err() {
            tracing::warn!(file = %spare.display(), "a spare log file stays until the next start");
        }
    })
}

/// Gives a new log file its size and its head, and makes it and its name durable.
fn prepare(
    disk: &dyn Disk,
    log_dir: &Path,
    file: &dyn DiskFile,
    size: u64,
    head: FileHead,
) -> io::Result<()> {
    if file.size()? < size {
        file.allocate(size)?;
    }
    write_head(file, head)?;
    disk.sync_dir(log_dir)
}

/// A group that is in the log.
#[derive(Debug)]
struct Written {
    file: Arc<LogFile>,
    position: u64,
    bytes: u64,
    /// Frame heads, batch heads and small bodies, one after the other.
    buffer: Bytes,
    wall_ms: i64,
}

/// When a file that is old enough to be sealed has to wait, it waits at least so long.
const SEAL_RETRY: Duration = Duration::from_millis(100);

/// A file below this would be sealed with every other batch.
const MIN_LOG_FILE_BYTES: u64 = 4 << 10;

/// Positions in log files are kept in 32 bits.
const MAX_LOG_FILE_BYTES: u64 = 1 << 30;

/// How many bytes of a frame are in the buffer of its group: all, or all but a large body.
fn in_buffer(pending: &Pending) -> usize {
    let body = if is_small(pending) { pending.append.body.len() } else { 0 };
    FRAME_HEAD_LEN + HEADER_LEN + body
}

/// What a group writes. Neighbouring frames without a body of their own are one slice.
fn slices<'a>(group: &'a [Pending], buffer: &'a Bytes) -> Vec<IoSlice<'a>> {
    let mut slices = Vec::new();
    let (mut from, mut at) = (0, 0);
    for pending in group {
        at += in_buffer(pending);
        if !is_small(pending) {
            slices.push(IoSlice::new(&buffer[from..at]));
            slices.push(IoSlice::new(&pending.append.body));
            from = at;
        }
    }
    if from < at {
        slices.push(IoSlice::new(&buffer[from..at]));
    }
    slices
}

/// How many zeros are written behind a group of `bytes` bytes that ends at `end`.
///
/// The blocks of a new file have a place on the disk but count as unwritten. The sync of the first write to one has to
/// note that it is written, too, which takes the disk half as long again. So one write of zeros does it for many small
/// groups that follow. A large group gains nothing by it, and a file that holds little yet gets no more zeros than data.
fn zeros_ahead(end: u64, bytes: u64, file_size: u64) -> usize {
    if bytes >= WRITE_AHEAD / 8 {
        return 0;
    }
    let until = file_size.min((end + 1).next_multiple_of(WRITE_AHEAD)).min(2 * end);
    usize::try_from(until.saturating_sub(end)).unwrap_or(0)
}

/// `bytes` in pieces of what [`ZEROS`] has.
fn pieces(bytes: usize) -> impl Iterator<Item = usize> {
    (0..bytes).step_by(ZEROS.len()).map(move |from| ZEROS.len().min(bytes - from))
}

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

fn is_small(pending: &Pending) -> bool {
    pending.header.size() < SMALL_BATCH_BYTES
}

fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: u64 = 1 << 20;

    #[test]
    fn small_groups_are_followed_by_zeros_up_to_the_next_boundary_and_never_past_the_file() {
        for (end, bytes, zeros) in [
            (5_000, 100, 5_000),
            (WRITE_AHEAD - 1, 100, 1),
            (WRITE_AHEAD, 100, WRITE_AHEAD),
            (WRITE_AHEAD + 100, 100, WRITE_AHEAD - 100),
            (FILE - 10, 100, 10),
            (FILE, 100, 0),
            (FILE / 2, WRITE_AHEAD / 8, 0),
        ] {
            assert_eq!(zeros_ahead(end, bytes, FILE) as u64, zeros, "{bytes} bytes up to {end}");
        }
        for bytes in [0, 1, ZEROS.len(), ZEROS.len() + 1, 4 * ZEROS.len()] {
            assert_eq!(pieces(bytes).sum::<usize>(), bytes);
            assert!(pieces(bytes).all(|piece| 0 < piece && piece <= ZEROS.len()));
        }
    }
}
