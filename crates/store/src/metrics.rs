use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds, in seconds, of the buckets in [`Metrics::sync_buckets`]; a last one takes the rest.
pub const SYNC_BUCKETS_SECONDS: [f64; 10] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0];

/// What the store has done and holds, as plain counters that may be read at any time.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Syncs of the log that succeeded.
    pub syncs: AtomicU64,
    /// Time spent in them, in nanoseconds.
    pub sync_nanos: AtomicU64,
    /// How many syncs took how long; see [`SYNC_BUCKETS_SECONDS`]. Not cumulative.
    pub sync_buckets: [AtomicU64; SYNC_BUCKETS_SECONDS.len() + 1],
    /// Batches made durable.
    pub appends: AtomicU64,
    /// Their bytes.
    pub appended_bytes: AtomicU64,
    /// Batches whose append failed.
    pub failed_appends: AtomicU64,
    /// Bytes that wait in the queue of the writer.
    pub queued_bytes: AtomicU64,
    /// Bytes in the log that are not settled.
    pub backlog_bytes: AtomicU64,
    /// Batches in the log that are not settled.
    pub backlog_appends: AtomicU64,
    /// Bytes of recent batches held in memory.
    pub cache_bytes: AtomicU64,
    /// Log files that have been settled.
    pub settled_files: AtomicU64,
    /// Attempts to settle that failed and will be repeated.
    pub failed_settles: AtomicU64,
    /// Torn tails that recovery cut.
    pub cuts: AtomicU64,
}

impl Metrics {
    /// Reads a counter.
    #[must_use]
    pub fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    pub(crate) fn add(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn subtract(counter: &AtomicU64, less: u64) {
        counter.fetch_sub(less, Ordering::Relaxed);
    }

    pub(crate) fn synced(&self, took: Duration) {
        Self::add(&self.syncs, 1);
        Self::add(&self.sync_nanos, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        let seconds = took.as_secs_f64();
        let bucket = SYNC_BUCKETS_SECONDS.iter().position(|&bound| seconds <= bound);
        Self::add(&self.sync_buckets[bucket.unwrap_or(SYNC_BUCKETS_SECONDS.len())], 1);
    }
}
