//! The catalog's records in the store: partition 0 of `__kohort`.

use std::sync::Arc;

use batch::{BatchBuilder, BatchError, Batches, NewRecord, Records};
use coordination::catalog::LEADER_EPOCH;
use coordination::ids::{PartitionKey, TopicId};
use coordination::record::{Record, RecordError};
use store::{Append, AppendError, LocalStore, PartitionLog, ReadError};

/// Where the records are.
pub(crate) const PARTITION: PartitionKey = PartitionKey { topic: TopicId::KOHORT, partition: 0 };

/// How many bytes of records are read at a time.
const READ_BYTES: usize = 4 << 20;

/// Why the broker's own records could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordLogError {
    /// They could not be read from the store.
    #[error("read the broker's records")]
    Read(#[from] ReadError),
    /// They are not record batches.
    #[error("a batch of the broker's records is damaged")]
    Batch(#[from] BatchError),
    /// They say what this version does not understand.
    #[error("understand the broker's records")]
    Record(#[from] RecordError),
    /// The store did not take them. Nothing has changed.
    #[error("store the broker's records")]
    Append(#[from] AppendError),
}

/// The log of the catalog's records.
#[derive(Debug)]
pub(super) struct RecordLog {
    partition: Arc<PartitionLog>,
}

impl RecordLog {
    pub(super) fn new(store: &LocalStore) -> Self {
        Self { partition: store.partition(PARTITION) }
    }

    /// Gives every record that is there to `apply`, in order. Blocks.
    pub(super) fn replay(&self, mut apply: impl FnMut(Record)) -> Result<(), RecordLogError> {
        let mut offset = self.partition.start_offset();
        while offset < self.partition.end_offset() {
            let read = self.partition.read(offset, READ_BYTES, true)?;
            for batch in Batches::new(&read.concat()) {
                let (_, batch) = batch?;
                for record in Records::new(&batch)? {
                    let record = record?;
                    // The batch that holds the start of the log may begin before it.
                    if record.offset >= offset {
                        apply(Record::decode(&record.key.unwrap_or_default(), record.value.as_deref())?);
                    }
                }
            }
            if read.next_offset <= offset {
                // Compaction may leave nothing at the very end.
                break;
            }
            offset = read.next_offset;
        }
        Ok(())
    }

    /// Makes the records durable, all or none.
    pub(super) async fn append(&mut self, records: &[Record], now_ms: i64) -> Result<(), RecordLogError> {
        if records.is_empty() {
            return Ok(());
        }
        let offset = self.partition.end_offset();
        let mut builder = BatchBuilder::new(offset);
        for record in records {
            let (key, value) = record.encode();
            builder.push(&NewRecord {
                timestamp: now_ms,
                key: Some(&key),
                value: value.as_deref(),
                headers: &[],
            })?;
        }
        let append = Append::at(&builder.finish()?, offset, LEADER_EPOCH)?;
        let outcome = self.partition.append(append).await;
        if outcome.is_err() {
            // Nothing else is under way here, so this works and the next append may try again.
            let _ = self.partition.reset();
        }
        Ok(outcome?)
    }
}
