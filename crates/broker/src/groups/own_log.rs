//! What the shards write beside Kafka's formats: partition 1 of `__kohort`, one log for all of them.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use coordination::catalog::LEADER_EPOCH;
use coordination::ids::{PartitionKey, TopicId};
use store::{Append, AppendError, LocalStore, PartitionLog};

/// Where the records are. Partition 0 is the catalog's.
pub(crate) const PARTITION: PartitionKey = PartitionKey { topic: TopicId::KOHORT, partition: 1 };

/// The shards' common log.
#[derive(Debug)]
pub(crate) struct OwnLog {
    log: Arc<PartitionLog>,
    /// The offset of the next record. Held while an append is queued, so that the queue has the order of the
    /// offsets.
    next: Mutex<i64>,
}

impl OwnLog {
    pub(crate) fn new(store: &LocalStore) -> Self {
        let log = store.partition(PARTITION);
        let next = Mutex::new(log.end_offset());
        Self { log, next }
    }

    pub(crate) fn log(&self) -> &Arc<PartitionLog> {
        &self.log
    }

    /// Queues a batch of so many records. `done` may be called before this returns, and only with a refusal then.
    pub(crate) fn append_then(
        &self,
        batch: &Bytes,
        records: i64,
        done: impl FnOnce(Result<(), AppendError>) + Send + 'static,
    ) {
        let mut next = self.next.lock();
        // While batches of other shards are still failing, so does this one, and its shard tries again later.
        if self.log.is_poisoned() && self.log.reset().is_ok() {
            *next = self.log.end_offset();
        }
        match Append::at(batch, *next, LEADER_EPOCH) {
            Ok(append) => {
                *next = next.saturating_add(records);
                self.log.append_then(append, done);
            }
            Err(error) => done(Err(AppendError::Batch(error))),
        }
    }
}
