//! The bounds of everything in the store that can grow, each with the reason for its number.

/// The most bytes written and synced as one group. A larger group delays its first append without making
/// the disk faster.
pub const GROUP_BYTES_MAX: usize = 32 << 20;

/// The most appends in one group, so that answering them all stays short beside writing them.
pub const GROUP_APPENDS_MAX: usize = 16_384;

/// After so many appends a log file is sealed although it has room, because each append not yet settled
/// costs an index entry of 32 bytes in memory.
pub const LOG_FILE_APPENDS_MAX: u64 = 1 << 18;

/// When more appends than this wait for the settler, those who append should wait too.
pub const UNSETTLED_APPENDS_MAX: u64 = 1 << 20;

/// Batches below this size are copied when they are kept, so that a cached batch of 100 bytes does not pin
/// the read buffer of 64 KiB that it came in.
pub const SMALL_BATCH_BYTES: usize = 4 << 10;

/// What one kept batch costs in memory beside its own bytes; counted against the cache's bound.
pub const CACHE_ENTRY_OVERHEAD: usize = 128;

/// Log files are read in pieces of this size in recovery and by the settler.
pub const SCAN_CHUNK_BYTES: usize = 4 << 20;

/// Two batches of the log this close to each other are read together. What lies between them is read in vain, so
/// it costs no more than a call would.
pub const READ_GAP_BYTES: u64 = 1 << 10;

/// As [`READ_GAP_BYTES`], for the settler, which reads once for each partition: with more it would read much of the
/// log again and again.
pub const SETTLE_GAP_BYTES: u64 = 4 << 10;

/// The most that is read of a log file at once, unless a single batch is larger.
pub const READ_WINDOW_BYTES: u64 = 2 << 20;

/// How many drained log files are kept for reuse; the rest is given back to the file system. Several are drained at
/// once, and under load as many are needed again.
pub const SPARE_FILES_MAX: usize = 4;

/// How many of them stay when the writer has nothing to do.
pub const SPARE_FILES_IDLE: usize = 1;

/// The most buffers the kernel takes in one vectored write (`IOV_MAX` on Linux).
pub const WRITE_SLICES_MAX: usize = 1024;

/// From this size on, what the settler has written is on its way to the disk before everything is synced.
pub(crate) const SYNC_AHEAD_MIN: usize = 64 << 10;

/// Beyond so many files one sync of the whole file system is cheaper than a sync of each.
pub const SYNC_EACH_FILES_MAX: usize = 12;

/// How far a log file is written with zeros ahead of small groups: hundreds of them, in a write that takes the disk
/// about as long as one more sync.
pub(crate) const WRITE_AHEAD: u64 = 256 << 10;
