//! Makes record batches durable in local files, and gives them back.
//!
//! # How it works
//!
//! [`LocalStore`] owns a data directory. Every append of every partition goes into **one log**: whatever waits is
//! written with one vectored write and one `fdatasync` ([`Flush::Always`]), then becomes visible to readers, then
//! its [`AppendHandle`] resolves. Full (or old enough) log files are sealed; the settler copies their batches into
//! **segment files** of each partition, in Kafka's own format with Kafka's own indexes, and recycles the log file.
//! Recent batches are served from memory, the rest from the log or the segments.
//!
//! # How to drive it
//!
//! ```no_run
//! use std::sync::Arc;
//! use store::{Append, LocalStore, Options, RealDisk};
//! # async fn example(batch: bytes::Bytes, key: store::PartitionKey) -> Result<(), Box<dyn std::error::Error>> {
//! let (store, recovery) = LocalStore::open(Arc::new(RealDisk), "kohort-data".as_ref(), Options::default())?;
//! store.start(); // the writer's and the settler's threads; without them, call `commit_once` and `settle_once`
//! let partition = store.partition(key);
//! let append = Append::at(&batch, partition.end_offset(), 0)?;
//! partition.append(append).await?; // durable and visible
//! store.caught_up().await; // back-pressure: waits while too much waits to be settled
//! let read = partition.read(0, 1 << 20, true)?; // may touch the disk; `read_recent` never does
//! store.close();
//! # Ok(())
//! # }
//! ```
//!
//! # What a broker owes
//!
//! - Appends of one partition are queued in the order of their offsets: assign the offset and call
//!   [`PartitionLog::append`] under one lock. `append` never blocks on the disk.
//! - After a failed append the partition is *poisoned*: everything queued behind it fails unwritten. Call
//!   [`PartitionLog::reset`] (it succeeds once nothing is outstanding), then take the next offset from
//!   [`PartitionLog::end_offset`] and the producer table from [`PartitionLog::producers`] again.
//! - After opening, [`LocalStore::remove_topic`] whatever topic the broker's own records do not know: a topic
//!   removed just before a crash can still have batches in the log.
//! - [`PartitionLog::read`], [`PartitionLog::find_by_time`], [`PartitionLog::max_timestamp`],
//!   [`PartitionLog::set_start_offset`], [`LocalStore::remove_topic`], [`LocalStore::seal`], [`LocalStore::sync`],
//!   [`LocalStore::settle_all`], [`LocalStore::snapshot`], [`LocalStore::compact`] and [`LocalStore::close`] touch
//!   the disk, [`PartitionLog::roll`] and [`PartitionLog::expire_producers`] wait for the settler to leave the
//!   partition: call them where blocking is allowed.
//!
//! # What is where
//!
//! ```text
//! format                                       which version of all this it is
//! lock                                         held by the process that uses it
//! log/<first frame>.log                        the one log; *.spare are drained files to be used again
//! topics/top_<ulid>/<partition>/<offset>.log   record batches, with .index and .timeindex, as Kafka has them
//! topics/top_<ulid>/<partition>/producers      how far it is settled, and the producers as of there
//! topics/top_<ulid>/<partition>/start          the first offset, once records have been deleted
//! topics/top_<ulid>/<partition>/compacted      how far it is compacted
//! ```

pub mod disk;
pub mod limits;

// The way in: an append, the log it goes to, and what readers see of it.
mod append;
mod commit;
mod local_store;
mod log_file;
mod metrics;
mod partition;
mod queue;
mod read;
mod sealed;
mod unsettled;
mod visible;
// What is settled.
mod checkpoint;
mod compact;
mod segment;
mod segment_index;
mod segment_load;
mod settle;
mod snapshot;
mod tail;
// From a directory to a store, and without one.
mod recovery;
mod verify;

pub use append::{Append, AppendError, AppendHandle};
pub use compact::{CompactError, CompactOptions, Compacted};
pub use coordination::ids::{PartitionKey, TopicId};
pub use disk::{Crash, Disk, DiskFile, Fault, FaultKind, FileSystem, MemoryDisk, RealDisk};
pub use local_store::{Flush, LocalStore, Options};
pub use metrics::{Metrics, SYNC_BUCKETS_SECONDS};
pub use partition::{PartitionConfig, PartitionLog, ResetError, SegmentSummary, Watch};
pub use read::{ReadBatches, ReadError};
pub use recovery::{Cut, FORMAT_VERSION, OpenError, Recovery};
pub use settle::SettleError;
pub use snapshot::{SnapshotError, SnapshotSummary};
pub use verify::{DumpedBatch, Finding, Verified, dump, verify};
