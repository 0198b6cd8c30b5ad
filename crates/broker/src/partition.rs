//! One partition at work: offsets are given out here, and producers are told apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use batch::{BatchHeader, HEADER_LEN};
use coordination::catalog::LEADER_EPOCH;
use coordination::error_code::ErrorCode;
use coordination::producer::{BatchPlace, Decision, ProducerBatch, ProducerTable};
use coordination::settings::TopicConfig;
use store::{Append, AppendHandle, PartitionConfig, PartitionLog};

/// A partition: its log, and what is needed to append to it.
#[derive(Debug)]
pub struct Partition {
    log: Arc<PartitionLog>,
    /// Held while an offset is given out and the append is queued, never longer.
    writing: Mutex<Writing>,
    closed: AtomicBool,
}

#[derive(Debug)]
struct Writing {
    /// The offset of the next record.
    next_offset: i64,
    /// What producers have sent, including what is still on its way to the disk.
    producers: ProducerTable,
    /// An append failed: what follows `next_offset` was never stored, and the log must be reset first.
    failed: bool,
    /// How often the log was reset. An append queued before a reset has failed.
    resets: u64,
}

/// What became of a batch when it was queued.
#[derive(Debug)]
pub enum Queued {
    /// It is on its way to the disk.
    Append {
        /// The offset of its first record.
        base_offset: i64,
        /// Resolves when it is durable.
        handle: AppendHandle,
        /// For [`Partition::fail`], should it not become so.
        ticket: Ticket,
    },
    /// The producer has sent it before.
    Duplicate(Original),
}

/// When an append was queued: before or after which reset of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    resets: u64,
}

/// A batch that came a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Original {
    /// Where it is.
    pub place: BatchPlace,
    /// When it was looked up.
    ticket: Ticket,
}

impl Partition {
    /// The partition behind `log`.
    pub fn new(log: Arc<PartitionLog>, config: &TopicConfig) -> Self {
        log.configure(store_config(config));
        let writing =
            Writing { next_offset: log.end_offset(), producers: log.producers(), failed: false, resets: 0 };
        Self { log, writing: Mutex::new(writing), closed: AtomicBool::new(false) }
    }

    /// The partition's log.
    pub fn log(&self) -> &Arc<PartitionLog> {
        &self.log
    }

    /// Tells the store of the topic's settings.
    pub fn configure(&self, config: &TopicConfig) {
        self.log.configure(store_config(config));
    }

    /// Marks the partition as gone. The store wakes who waits for it when it removes the topic.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether the topic was deleted.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Gives the batch its offsets and queues it behind all others of this partition.
    ///
    /// # Errors
    /// When the producer's sequence or epoch does not allow it, or the disk has failed and not recovered.
    pub fn append(&self, header: &BatchHeader, batch: &Bytes, now_ms: i64) -> Result<Queued, ErrorCode> {
        let mut writing = self.writing.lock();
        // Whoever waits for the append that failed may not have told yet, and may be waiting for this one.
        if writing.failed || self.log.is_poisoned() {
            self.recover(&mut writing)?;
        }
        let base_offset = writing.next_offset;
        let producer = header.has_producer().then(|| ProducerBatch {
            producer_id: header.producer_id,
            epoch: header.producer_epoch,
            first_sequence: header.base_sequence,
            last_sequence: header.last_sequence(),
        });
        match producer.map(|producer| writing.producers.check(&producer)) {
            None | Some(Decision::Append) => {}
            Some(Decision::Duplicate(place)) => {
                return Ok(Queued::Duplicate(Original { place, ticket: Ticket { resets: writing.resets } }));
            }
            Some(Decision::OutOfOrder) => return Err(ErrorCode::OutOfOrderSequenceNumber),
            Some(Decision::StaleEpoch) => return Err(ErrorCode::InvalidProducerEpoch),
        }
        let header = BatchHeader { base_offset, partition_leader_epoch: LEADER_EPOCH, ..*header };
        let append = Append { head: header.to_bytes(), body: batch.slice(HEADER_LEN..) };
        let handle = self.log.append(append);
        let last_offset = header.last_offset();
        writing.next_offset = last_offset.saturating_add(1);
        if let Some(producer) = producer {
            let place = BatchPlace { base_offset, last_offset, timestamp: header.max_timestamp };
            writing.producers.observe(&producer, place, now_ms);
        }
        Ok(Queued::Append { base_offset, handle, ticket: Ticket { resets: writing.resets } })
    }

    /// Waits until a batch that came before is durable: a client that hears of it may rely on it.
    ///
    /// # Errors
    /// When it has failed after all, and the client must send it again.
    pub async fn original_is_durable(&self, original: Original) -> Result<(), ErrorCode> {
        let moved = Arc::new(Notify::new());
        let _watch = self.log.watch(&moved);
        loop {
            {
                // The log is reset under this lock. Afterwards its offsets are given out again, and an end beyond
                // the batch says nothing about it.
                let writing = self.writing.lock();
                if writing.resets != original.ticket.resets {
                    return Err(ErrorCode::KafkaStorageError);
                }
                let failed = writing.failed || self.log.is_poisoned() || self.is_closed();
                if self.log.end_offset() > original.place.last_offset {
                    return Ok(());
                }
                if failed {
                    return Err(ErrorCode::KafkaStorageError);
                }
            }
            moved.notified().await;
        }
    }

    /// Takes note that an append failed. Nothing more is taken until the log could be reset.
    pub fn fail(&self, ticket: Ticket) {
        let mut writing = self.writing.lock();
        // One of several that failed together: the log may have been reset, and be at work again, since then.
        if writing.resets == ticket.resets {
            writing.failed = true;
            // If others are still failing, the next append tries again.
            let _ = self.recover(&mut writing);
        }
    }

    /// Forgets the records below `start`. They are gone for good when this returns.
    ///
    /// # Errors
    /// When the disk refuses.
    pub async fn move_start(&self, start: i64) -> Result<(), ErrorCode> {
        let log = Arc::clone(&self.log);
        let moved = tokio::task::spawn_blocking(move || {
            log.set_start_offset(start).inspect_err(|error| {
                tracing::error!(partition = %log.key(), %error, "move the start of the log");
            })
        });
        match moved.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(ErrorCode::KafkaStorageError),
            Err(_) => Err(ErrorCode::UnknownServerError),
        }
    }

    /// Forgets the producers that have been silent for too long.
    pub fn expire_producers(&self, now_ms: i64, after_ms: i64) {
        self.log.expire_producers(now_ms, after_ms);
        self.writing.lock().producers.expire(now_ms, after_ms);
    }

    fn recover(&self, writing: &mut Writing) -> Result<(), ErrorCode> {
        if self.is_closed() {
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        // While appends are still failing, so does this one: the client tries again soon.
        self.log.reset().map_err(|_| ErrorCode::KafkaStorageError)?;
        writing.next_offset = self.log.end_offset();
        writing.producers = self.log.producers();
        writing.failed = false;
        writing.resets += 1;
        Ok(())
    }
}

fn store_config(config: &TopicConfig) -> PartitionConfig {
    // Only closed segments are compacted, so as in Kafka one is closed when its records must be.
    let segment_ms = match config.cleanup_policy.compact {
        true => config.segment_ms.min(config.max_compaction_lag_ms),
        false => config.segment_ms,
    };
    PartitionConfig {
        segment_bytes: config.segment_bytes,
        segment_age: Duration::from_millis(u64::try_from(segment_ms).unwrap_or(u64::MAX)),
        index_interval_bytes: config.index_interval_bytes,
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    use batch::{BatchBuilder, NewRecord, ProducerFields};
    use coordination::ids::{PartitionKey, TopicId};
    use coordination::settings::Settings;
    use store::{Fault, FaultKind, LocalStore, MemoryDisk, Options};

    use super::*;

    fn start() -> (MemoryDisk, LocalStore, Partition) {
        let disk = MemoryDisk::new();
        let options = Options { log_file_bytes: 1 << 20, ..Options::default() };
        let (store, _) =
            LocalStore::open(Arc::new(disk.clone()), "data".as_ref(), options).expect("it opens");
        let key = PartitionKey { topic: TopicId::from_u128(7), partition: 0 };
        let partition = Partition::new(store.partition(key), &Settings::default().topic_defaults());
        (disk, store, partition)
    }

    fn send(partition: &Partition, producer_id: i64) -> Queued {
        let mut builder =
            BatchBuilder::new(0).producer(ProducerFields { id: producer_id, epoch: 0, base_sequence: 0 });
        builder
            .push(&NewRecord { timestamp: 1, key: None, value: Some(b"v"), headers: &[] })
            .expect("it fits");
        let bytes = builder.finish().expect("a batch");
        let header = BatchHeader::parse(&bytes).expect("a header");
        partition.append(&header, &bytes, 1).expect("queued")
    }

    fn send_twice(partition: &Partition) -> (AppendHandle, Ticket, Original) {
        let Queued::Append { handle, ticket, .. } = send(partition, 1) else { panic!("it is new") };
        let Queued::Duplicate(original) = send(partition, 1) else { panic!("it came before") };
        (handle, ticket, original)
    }

    #[tokio::test]
    async fn a_duplicate_is_answered_when_its_original_is_durable_and_not_before() {
        let (_disk, store, partition) = start();
        let (_handle, _, original) = send_twice(&partition);
        let mut waiting = pin!(partition.original_is_durable(original));
        assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending())).await);
        store.commit_once();
        assert_eq!(waiting.await, Ok(()));
    }

    #[tokio::test]
    async fn a_duplicate_hears_of_the_failure_of_its_original() {
        let (disk, store, partition) = start();
        let (handle, _, original) = send_twice(&partition);
        let mut waiting = pin!(partition.original_is_durable(original));
        assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending())).await);
        disk.fail(Fault {
            kind: FaultKind::Sync,
            nth: 0,
            error: std::io::ErrorKind::Other,
            from_then_on: false,
        });
        store.commit_once();
        assert_eq!(waiting.await, Err(ErrorCode::KafkaStorageError));
        handle.await.expect_err("it failed");
    }

    #[tokio::test]
    async fn a_duplicate_does_not_take_another_batch_for_its_original() {
        let (disk, store, partition) = start();
        let (handle, ticket, original) = send_twice(&partition);
        disk.fail(Fault {
            kind: FaultKind::Sync,
            nth: 0,
            error: std::io::ErrorKind::Other,
            from_then_on: false,
        });
        store.commit_once();
        handle.await.expect_err("it failed");
        partition.fail(ticket);
        let Queued::Append { base_offset, handle, .. } = send(&partition, 2) else { panic!("it is new") };
        store.commit_once();
        handle.await.expect("the disk is well again");
        assert_eq!(base_offset, original.place.base_offset);
        assert_eq!(partition.original_is_durable(original).await, Err(ErrorCode::KafkaStorageError));
    }
}
