use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use tokio::sync::Notify;

use crate::append::Ended;
use crate::commit::Writer;
use crate::compact::{CompactError, CompactOptions, Compacted, compact};
use crate::disk::Disk;
use crate::limits::{SPARE_FILES_IDLE, UNSETTLED_APPENDS_MAX};
use crate::metrics::Metrics;
use crate::partition::{PartitionLog, Settled};
use crate::queue::Queue;
use crate::recovery::{OpenError, Recovery, recover};
use crate::sealed::SealedFiles;
use crate::settle::{SettleError, Settler};
use crate::snapshot::{SnapshotError, SnapshotSummary, copy_settled};
use crate::{PartitionKey, TopicId};

/// How a store is set up.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// When an append counts as durable.
    pub flush: Flush,
    /// The size of a log file, reserved when it is made.
    pub log_file_bytes: u64,
    /// How many bytes of recent batches are kept in memory.
    pub cache_bytes: usize,
    /// When more bytes than this wait to be settled, [`LocalStore::caught_up`] waits.
    pub backlog_bytes: u64,
    /// How long after its first append a log file is sealed although it has room, and how long after that it may
    /// wait to be settled while the writer is busy.
    pub settle_interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            flush: Flush::Always,
            log_file_bytes: 128 << 20,
            cache_bytes: 64 << 20,
            backlog_bytes: 1 << 30,
            settle_interval: Duration::from_secs(5),
        }
    }
}

/// When an append counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// After `fdatasync`: survives a power failure.
    Always,
    /// After the write; a sync follows within this time. A power failure may lose that much, the end of the
    /// process nothing.
    Interval(Duration),
    /// After the write; the operating system decides when it reaches the disk.
    Os,
}

/// A data directory and all that is in it. See the crate's documentation for how it is driven.
#[derive(Debug)]
pub struct LocalStore {
    pub(crate) inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

pub(crate) struct Inner {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) queue: Arc<Queue>,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) settler: Settler,
    /// Held for reading while batches are settled or topics removed, for writing while a snapshot decides what it
    /// holds. Not by compaction, which takes long and changes nothing that a snapshot would have to wait for.
    pub(crate) changing_files: RwLock<()>,
    partitions: RwLock<HashMap<PartitionKey, Arc<PartitionLog>>>,
    metrics: Arc<Metrics>,
    backlog_bytes: u64,
    settle_interval: Duration,
    settled: Notify,
    /// How often in a row settling has failed.
    failed_attempts: AtomicU32,
    last_commit: Mutex<Instant>,
    stopping: AtomicBool,
    _lock: Box<dyn Send + Sync>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl LocalStore {
    /// Opens the data directory, making it if it is missing, and recovers what it holds.
    ///
    /// # Errors
    /// When another process has it, its format is newer than this program, or what was acknowledged is not there.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: Options) -> Result<(Self, Recovery), OpenError> {
        let metrics = Arc::new(Metrics::default());
        let queue = Arc::new(Queue::new(Arc::clone(&metrics)));
        let sealed = Arc::new(SealedFiles::default());
        let recovered = recover(&disk, dir, &queue, &sealed, &metrics)?;
        let writer = Writer::new(
            Arc::clone(&disk),
            dir.join("log"),
            &options,
            recovered.end,
            Arc::clone(&sealed),
            Arc::clone(&metrics),
        );
        let settler = Settler::new(Arc::clone(&disk), dir.to_owned(), sealed, Arc::clone(&metrics));
        let inner = Inner {
            disk,
            dir: dir.to_owned(),
            queue,
            writer: Mutex::new(writer),
            settler,
            changing_files: RwLock::new(()),
            partitions: RwLock::new(recovered.partitions),
            metrics,
            backlog_bytes: options.backlog_bytes,
            settle_interval: options.settle_interval,
            settled: Notify::new(),
            failed_attempts: AtomicU32::new(0),
            last_commit: Mutex::new(Instant::now()),
            stopping: AtomicBool::new(false),
            _lock: recovered.lock,
        };
        Ok((Self { inner: Arc::new(inner), threads: Mutex::default() }, recovered.recovery))
    }

    /// Starts the writer's and the settler's threads. Without them the store moves only when
    /// [`Self::commit_once`] and [`Self::settle_once`] are called, which is what tests want.
    ///
    /// # Panics
    /// When the operating system has no thread left at the start.
    pub fn start(&self) {
        let spawn = |name: &str, run: fn(&Inner)| {
            let inner = Arc::clone(&self.inner);
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
                scheduling::prefer_batches();
                run(&inner);
            });
            thread.expect("a thread can be started")
        };
        let mut threads = self.threads.lock();
        if threads.is_empty() {
            threads.push(spawn("store-writer", Inner::run_writer));
            threads.push(spawn("store-settler", Inner::run_settler));
        }
    }

    /// The partition's log, which is made if there is none. That costs nothing on disk.
    #[must_use]
    pub fn partition(&self, key: PartitionKey) -> Arc<PartitionLog> {
        if let Some(known) = self.inner.partition(key) {
            return known;
        }
        let mut partitions = self.inner.partitions.write();
        let made = partitions.entry(key).or_insert_with(|| {
            let dir = partition_dir(&self.inner.dir, key);
            let (disk, queue) = (Arc::clone(&self.inner.disk), Arc::clone(&self.inner.queue));
            Arc::new(PartitionLog::new(key, dir, disk, queue, Settled::default()))
        });
        Arc::clone(made)
    }

    /// Every partition there is, in order.
    #[must_use]
    pub fn partitions(&self) -> Vec<Arc<PartitionLog>> {
        self.inner.all_partitions()
    }

    /// Removes a topic with all it holds. Appends on their way fail; who waits for data is woken. Blocks.
    ///
    /// The id must never be used again.
    ///
    /// # Errors
    /// When the disk refuses. The topic is gone all the same, but a restart may find what is left of it.
    pub fn remove_topic(&self, topic: TopicId) -> std::io::Result<()> {
        let _changing = self.inner.changing_files.read();
        let mut removed = Vec::new();
        self.inner.partitions.write().retain(|key, partition| {
            if key.topic == topic {
                removed.push(Arc::clone(partition));
            }
            key.topic != topic
        });
        for partition in &removed {
            partition.remove();
        }
        self.inner.writer.lock().forget_removed();
        // Whoever is at the files ends first; afterwards the mark keeps everybody off.
        let _tails: Vec<_> = removed.iter().map(|partition| partition.tail.lock()).collect();
        let _files: Vec<_> = removed.iter().map(|partition| partition.files.write()).collect();
        for partition in &removed {
            let mut state = partition.state.lock();
            state.unsettled.clear();
            state.recent = std::collections::VecDeque::new();
            state.unsettled_bytes = 0;
        }
        let topics = self.inner.dir.join("topics");
        let dir = topics.join(topic.to_string());
        let doomed = topics.join(format!("{topic}.removed"));
        match self.inner.disk.rename(&dir, &doomed) {
            Ok(()) => {
                self.inner.disk.sync_dir(&topics)?;
                self.inner.disk.remove_dir_all(&doomed)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Waits while more waits to be settled than [`Options::backlog_bytes`], or more appends than the store
    /// should keep in mind. Whoever appends and then waits for this slows down instead of filling disk and memory.
    /// A store that is closed keeps nobody waiting, nor does one whose settler fails again and again: what was
    /// appended is durable, and when the disk is full the next append says so.
    ///
    /// What is queued and not yet written is not bounded here but by who queues it.
    pub async fn caught_up(&self) {
        let inner = &*self.inner;
        loop {
            // Registered before the look, so that settling in between is not missed.
            let settled = inner.settled.notified();
            if !self.is_behind() {
                return;
            }
            settled.await;
        }
    }

    /// Whether [`Self::caught_up`] would wait.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        let inner = &*self.inner;
        inner.is_behind()
            && !inner.stopping.load(Ordering::SeqCst)
            && inner.failed_attempts.load(Ordering::SeqCst) < SETTLE_ATTEMPTS_MAX
    }

    /// Writes and syncs what is queued, as one group. Returns how many appends have ended.
    pub fn commit_once(&self) -> usize {
        self.inner.commit_once()
    }

    /// Seals the log file in use, so that the settler takes it.
    pub fn seal(&self) {
        self.inner.writer.lock().seal();
    }

    /// Makes durable what a relaxed flush mode has only written.
    pub fn sync(&self) {
        self.inner.writer.lock().sync_written();
    }

    /// Settles the oldest sealed log files. `false` if there are none.
    ///
    /// # Errors
    /// When it could not be settled; it stays, and can be tried again.
    pub fn settle_once(&self) -> Result<bool, SettleError> {
        self.inner.settle_once()
    }

    /// Seals the log and settles all of it, but not what is appended meanwhile.
    ///
    /// # Errors
    /// When it could not be settled; what was not stays in the log.
    pub fn settle_all(&self) -> Result<(), SettleError> {
        self.seal();
        let waiting = &self.inner.settler.sealed.waiting;
        let last = waiting.lock().back().map(|sealed| sealed.file.first);
        match last {
            Some(last) => {
                while waiting.lock().front().is_some_and(|sealed| sealed.file.first <= last) {
                    self.settle_once()?;
                }
            }
            // The last one may be under way, or have to be confirmed.
            None => {
                self.settle_once()?;
            }
        }
        self.inner.settler.check_damage()
    }

    /// Makes a consistent copy of the data directory at `dest`, which must be missing or empty, while the store goes
    /// on. It holds at least everything that was acknowledged before the call. Blocks.
    ///
    /// # Errors
    /// When the place is taken or the disk refuses.
    pub fn snapshot(&self, dest: &Path) -> Result<SnapshotSummary, SnapshotError> {
        self.settle_all()?;
        copy_settled(&self.inner, dest)
    }

    /// Compacts a partition if that is due; `None` if it is not. Blocks.
    ///
    /// # Errors
    /// When the disk or what it holds fails; the next attempt begins again.
    pub fn compact(
        &self,
        partition: &PartitionLog,
        options: &CompactOptions,
    ) -> Result<Option<Compacted>, CompactError> {
        compact(partition, options)
    }

    /// The store's counters.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.inner.metrics
    }

    /// The data directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// Takes no more appends, writes and syncs those that wait, and ends the threads. Nothing acknowledged
    /// depends on this being called. Blocks.
    pub fn close(&self) {
        self.inner.queue.close();
        self.inner.stopping.store(true, Ordering::SeqCst);
        self.inner.settler.sealed.wake();
        self.inner.settled.notify_waiters();
        let threads = std::mem::take(&mut *self.threads.lock());
        if threads.is_empty() {
            while self.commit_once() > 0 {}
        }
        for thread in threads {
            // Whoever is told of an append may be the last to hold the store, and the writer cannot wait for itself.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
        let abandoned = {
            let mut writer = self.inner.writer.lock();
            writer.sync_written();
            writer.abandon(&self.inner.queue)
        };
        Ended::tell(abandoned);
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl Inner {
    pub(crate) fn partition(&self, key: PartitionKey) -> Option<Arc<PartitionLog>> {
        self.partitions.read().get(&key).cloned()
    }

    pub(crate) fn all_partitions(&self) -> Vec<Arc<PartitionLog>> {
        let mut all: Vec<_> = self.partitions.read().values().cloned().collect();
        all.sort_unstable_by_key(|partition| partition.key);
        all
    }

    fn commit_once(&self) -> usize {
        let ended = self.writer.lock().commit_once(&self.queue);
        let count = ended.len();
        Ended::tell(ended);
        count
    }

    fn settle_once(&self) -> Result<bool, SettleError> {
        let settled = {
            let _changing = self.changing_files.read();
            self.settler.settle_once(&|| self.all_partitions())
        };
        match &settled {
            Ok(_) => {
                self.failed_attempts.store(0, Ordering::SeqCst);
                if self.is_behind() && self.settler.sealed.waiting.lock().is_empty() {
                    // All that is left is in the file in use, and who waits for it to be settled does not fill it.
                    self.writer.lock().seal();
                }
            }
            Err(error) => {
                self.failed_attempts.fetch_add(1, Ordering::SeqCst);
                if error.is_storage_full() {
                    // The segments need the room more than files that are kept to be used again.
                    self.settler.sealed.trim_spares(&*self.disk, 0);
                }
            }
        }
        self.settled.notify_waiters();
        settled
    }

    fn is_behind(&self) -> bool {
        self.backlog_exceeds(self.backlog_bytes, UNSETTLED_APPENDS_MAX)
    }

    fn backlog_exceeds(&self, bytes: u64, appends: u64) -> bool {
        Metrics::get(&self.metrics.backlog_bytes) > bytes
            || Metrics::get(&self.metrics.backlog_appends) > appends
    }

    fn run_writer(&self) {
        loop {
            let deadline = self.writer.lock().next_deadline();
            let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if !self.queue.wait(timeout) {
                return;
            }
            if self.commit_once() > 0 {
                *self.last_commit.lock() = Instant::now();
            }
            let mut writer = self.writer.lock();
            writer.handle_deadlines(Instant::now());
            // What waits to be settled and what waits for room would wait for each other otherwise.
            if self.is_behind() {
                if self.settler.sealed.waiting.lock().is_empty() {
                    writer.seal();
                }
                self.settler.sealed.wake();
            }
        }
    }

    fn run_settler(&self) {
        // Whoever waits for an answer goes first. In Linux this concerns the calling thread alone; where it is not
        // allowed, the settler competes as an equal.
        let _ = setpriority_process(Some(gettid()), SETTLER_PRIORITY);
        let sealed = &self.settler.sealed;
        let stopping = || self.stopping.load(Ordering::SeqCst);
        let mut pause = SETTLE_RETRY_MIN;
        while sealed.wait(self.settler.is_unfinished().then_some(SETTLE_RETRY_MAX), stopping) {
            let idle = self.wait_to_settle();
            if stopping() {
                return;
            }
            match self.settle_once() {
                Ok(_) => pause = SETTLE_RETRY_MIN,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, "a log file could not be settled and will be tried again");
                    sealed.wait_until(Instant::now() + pause, stopping);
                    pause = (pause * 2).min(SETTLE_RETRY_MAX);
                }
            }
            if idle {
                sealed.trim_spares(&*self.disk, SPARE_FILES_IDLE);
            }
        }
    }

    /// Settling and answering producers compete for the same disk, so the settler waits until the writer pauses.
    /// It does not wait when much has come together, and never longer than a file may take until it is sealed.
    /// Returns whether the writer is idle.
    fn wait_to_settle(&self) -> bool {
        let latest = Instant::now() + self.settle_interval;
        let due = || {
            self.stopping.load(Ordering::SeqCst)
                || self.backlog_exceeds(self.backlog_bytes / 2, UNSETTLED_APPENDS_MAX / 2)
        };
        loop {
            let now = Instant::now();
            let idle_at = *self.last_commit.lock() + SETTLE_IDLE;
            if now >= idle_at || now >= latest || due() {
                return now >= idle_at;
            }
            self.settler.sealed.wait_until(idle_at.min(latest), due);
        }
    }
}

/// The settler's place behind the threads that answer clients (19 would be the last).
const SETTLER_PRIORITY: i32 = 10;

/// The settler begins when the writer has had nothing to do for so long.
const SETTLE_IDLE: Duration = Duration::from_millis(200);

/// After so many failures in a row nobody is kept waiting for the settler any more.
const SETTLE_ATTEMPTS_MAX: u32 = 5;

/// After a failure the settler tries again after this time, and then after twice that, and so on.
const SETTLE_RETRY_MIN: Duration = Duration::from_millis(100);

/// The longest time between two attempts.
const SETTLE_RETRY_MAX: Duration = Duration::from_secs(10);

/// Where a partition's segments are.
pub(crate) fn partition_dir(dir: &Path, key: PartitionKey) -> PathBuf {
    dir.join("topics").join(key.topic.to_string()).join(key.partition.to_string())
}
