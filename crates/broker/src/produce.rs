//! Produce: batches are checked, get their offsets, and are answered when they are durable.
//!
//! Everything of one request is queued before any of it is waited for, so that one sync serves all. Queuing
//! happens within the call, so that requests of one connection keep their order however long the disk takes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use batch::{
    BatchBuilder, BatchError, BatchHeader, CheckedBatch, Codec, DecompressionBudget, MAX_DECOMPRESSED,
    RecordChecks, RecordCursor, RecordRefusal, RefusalReason, TimestampBounds,
};
use coordination::error_code::ErrorCode;
use coordination::ids::OrgId;
use coordination::op::{self, TopicRef};
use coordination::reply::{self, Appended, NO_TRANSACTIONS, ProduceRefusal, Refusal, Reply};
use coordination::settings::{CompressionType, TimestampType};
use rail::Answer;
use store::{AppendError, AppendHandle};

use crate::partition::{Original, Partition, Queued, Ticket};
use crate::topics::Topic;
use crate::{Inner, now_ms};

/// Handles one produce request.
pub(crate) fn handle_produce(inner: &Arc<Inner>, org: OrgId, op: op::Produce) -> Answer {
    let now_ms = now_ms();
    let skipped = repeated_partitions(&op.topics);
    let mut reply = reply::Produce { topics: Vec::with_capacity(op.topics.len()), throttle: Duration::ZERO };
    let mut waiting = Vec::new();
    let (mut bytes, mut asked_bytes) = (0, 0);
    let mut throttled = None;
    let mut budget = DecompressionBudget::default();
    for (topic_at, asked) in op.topics.into_iter().enumerate() {
        let topic = inner.topics.find(org, &asked.topic);
        if let Some(topic) = topic.as_deref().filter(|topic| topic.share.is_throttled()) {
            let records = asked.partitions.iter().filter_map(|part| part.records.as_ref());
            asked_bytes += records.map(Bytes::len).sum::<usize>();
            throttled.get_or_insert_with(|| Arc::clone(&topic.share));
        }
        let mut partitions = Vec::with_capacity(asked.partitions.len());
        for (partition_at, part) in asked.partitions.into_iter().enumerate() {
            if skipped.contains(&(topic_at, partition_at)) {
                continue;
            }
            let refused = |code| Err(ProduceRefusal::from(code));
            let result = match topic.as_deref() {
                None if matches!(asked.topic, TopicRef::Id(_)) => refused(ErrorCode::UnknownTopicId),
                None => refused(ErrorCode::UnknownTopicOrPartition),
                Some(topic) => match topic.partition(part.index) {
                    None => refused(ErrorCode::UnknownTopicOrPartition),
                    Some(_) if !op.zstd && part.records.as_deref().is_some_and(is_zstd) => {
                        refused(ErrorCode::UnsupportedCompressionType)
                    }
                    Some(_) if !matches!(op.acks, -1..=1) => refused(ErrorCode::InvalidRequiredAcks),
                    Some(partition) => {
                        let records = part.records.unwrap_or_default();
                        let queued = queue(
                            topic,
                            partition,
                            part.index,
                            &records,
                            now_ms,
                            op.transactional_id.as_deref(),
                            &mut budget,
                        );
                        queued.map(|(outcome, log_append_time_ms)| {
                            let place = (reply.topics.len(), partitions.len());
                            let partition = Arc::clone(partition);
                            let base_offset = match outcome {
                                Queued::Append { base_offset, handle, ticket } => {
                                    bytes += records.len();
                                    waiting.push(Waiting {
                                        place,
                                        partition,
                                        until: Some(Until::Durable(handle, ticket)),
                                    });
                                    base_offset
                                }
                                Queued::Duplicate(original) => {
                                    waiting.push(Waiting {
                                        place,
                                        partition,
                                        until: Some(Until::Original(original)),
                                    });
                                    original.place.base_offset
                                }
                            };
                            // The start of the log is filled in when the answer leaves.
                            Appended { base_offset, log_append_time_ms, log_start_offset: -1 }
                        })
                    }
                },
            };
            partitions.push(reply::ProducePartition { index: part.index, result });
        }
        reply.topics.push(reply::ProduceTopic { topic: asked.topic, partitions });
    }
    inner.metrics.produced(bytes);
    if let Some(share) = throttled {
        // What is refused has come all the same.
        reply.throttle = share.take_in(inner.uptime(), asked_bytes);
    }
    if waiting.is_empty() {
        return Reply::Produce(reply).into();
    }
    let inner = Arc::clone(inner);
    Answer::Later(Box::pin(async move {
        let mut stored = false;
        for waiting in waiting {
            let (topic_at, partition_at) = waiting.place;
            let (partition, outcome) = waiting.end().await;
            stored |= outcome.is_ok();
            let result = &mut reply.topics[topic_at].partitions[partition_at].result;
            match (outcome, &mut *result) {
                (Ok(()), Ok(appended)) => appended.log_start_offset = partition.log().start_offset(),
                (Ok(()), Err(_)) => {}
                (Err(code), _) => *result = Err(code.into()),
            }
        }
        // While too much waits to be settled, answers wait too: producers slow down and nothing fails. What they
        // sent is in memory already, so queuing it first costs nothing and keeps its order. What a full disk has
        // refused is told at once: nothing may be settled before there is space again.
        if stored {
            inner.store.caught_up().await;
        }
        Reply::Produce(reply)
    }))
}

/// An answer that is owed to one partition of the request.
struct Waiting {
    /// Where the answer goes: topic and partition in the reply.
    place: (usize, usize),
    partition: Arc<Partition>,
    /// `None` once that is over.
    until: Option<Until>,
}

enum Until {
    Durable(AppendHandle, Ticket),
    Original(Original),
}

impl Waiting {
    async fn end(mut self) -> (Arc<Partition>, Result<(), ErrorCode>) {
        let outcome = match &mut self.until {
            Some(Until::Durable(handle, ticket)) => match handle.await {
                Ok(()) => Ok(()),
                Err(error) => {
                    self.partition.fail(*ticket);
                    Err(append_refusal(&self.partition, &error))
                }
            },
            Some(Until::Original(original)) => self.partition.original_is_durable(*original).await,
            None => Ok(()),
        };
        self.until = None;
        (Arc::clone(&self.partition), outcome)
    }
}

impl Drop for Waiting {
    /// A client that goes away leaves its append behind. Should that fail, the partition must hear of it: the client
    /// would come back, send the batch again, and wait for an original that never becomes durable.
    fn drop(&mut self) {
        let Some(Until::Durable(handle, ticket)) = self.until.take() else { return };
        let partition = Arc::clone(&self.partition);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if handle.await.is_err() {
                    partition.fail(ticket);
                }
            });
        }
    }
}

fn append_refusal(partition: &Partition, error: &AppendError) -> ErrorCode {
    match error {
        AppendError::Removed => ErrorCode::UnknownTopicOrPartition,
        // It failed with an earlier one, and that has been reported.
        AppendError::Poisoned | AppendError::Closed => ErrorCode::KafkaStorageError,
        error => {
            let key = partition.log().key();
            tracing::error!(partition = %key, error = error as &dyn std::error::Error, "append records");
            ErrorCode::KafkaStorageError
        }
    }
}

/// Checks a partition's batch and queues it; gives what became of it and the time it was given, or -1.
fn queue(
    topic: &Topic,
    partition: &Partition,
    index: i32,
    records: &Bytes,
    now_ms: i64,
    transactional_id: Option<&str>,
    budget: &mut DecompressionBudget,
) -> Result<(Queued, i64), ProduceRefusal> {
    // Kafka fills in the start of the log where the log itself has refused, and only there.
    let at_log = |code: ErrorCode| ProduceRefusal {
        log_start_offset: partition.log().start_offset(),
        ..ProduceRefusal::from(code)
    };
    if topic.internal {
        return Err(ErrorCode::InvalidTopic.into());
    }
    let config = &*topic.config;
    // There are no transactions yet, and clients give up at once on this error. Without a transactional id in the
    // request Kafka says the same, and not a word more,
    // before it looks at anything else in the batch.
    if BatchHeader::parse(records).is_ok_and(|header| header.is_transactional()) {
        let message = transactional_id.map(|_| NO_TRANSACTIONS.to_owned());
        return Err(Refusal { code: ErrorCode::TransactionalIdAuthorizationFailed, message }.into());
    }
    let checked = batch::check_produced(records, config.max_message_bytes).map_err(|error| {
        let (code, message) = batch_refusal(&error);
        match at_request(&error) {
            true => Refusal { code, message }.into(),
            false => ProduceRefusal { refusal: Refusal { code, message }, ..at_log(code) },
        }
    })?;
    let timestamps = match config.message_timestamp_type {
        TimestampType::LogAppendTime => None,
        TimestampType::CreateTime => Some(TimestampBounds {
            now_ms,
            before_max_ms: config.message_timestamp_before_max_ms,
            after_max_ms: config.message_timestamp_after_max_ms,
        }),
    };
    let checks = RecordChecks { require_key: config.cleanup_policy.compact, timestamps };
    let seen = batch::check_records(&checked, &checks, budget).map_err(|error| match error {
        // Others of the request have used up what it may decompress to. Alone, or with fewer, it will do: clients
        // try again on this error.
        BatchError::TooLargeDecompressed { limit } if limit < MAX_DECOMPRESSED => {
            let message = format!(
                "The record batches of one request may decompress to {MAX_DECOMPRESSED} bytes in all. Send fewer \
                 at once."
            );
            let refusal = Refusal { code: ErrorCode::KafkaStorageError, message: Some(message) };
            ProduceRefusal { refusal, ..at_log(ErrorCode::KafkaStorageError) }
        }
        error => at_log(batch_refusal(&error).0),
    })?;
    if !seen.refused.is_empty() {
        let refusal = record_refusals(&seen.refused, topic, index, timestamps);
        return Err(ProduceRefusal { log_start_offset: partition.log().start_offset(), ..refusal });
    }

    let (bytes, log_append_time) = match config.message_timestamp_type {
        TimestampType::LogAppendTime => (with_codec(checked, config.compression_type, Some(now_ms)), now_ms),
        TimestampType::CreateTime => {
            let right = checked.header.max_timestamp == seen.max_timestamp
                && checked.header.timestamp_type() == batch::TimestampType::CreateTime;
            let checked = match right {
                true => Ok(checked),
                false => corrected(&checked, seen.max_timestamp),
            };
            (checked.and_then(|checked| with_codec(checked, config.compression_type, None)), -1)
        }
    };
    let checked = bytes.map_err(|error| at_log(batch_refusal(&error).0))?;
    // Other compression may have made it larger.
    if checked.bytes.len() > config.max_message_bytes {
        return Err(ErrorCode::MessageTooLarge.into());
    }
    if u64::try_from(checked.bytes.len()).unwrap_or(u64::MAX) > config.segment_bytes {
        return Err(ErrorCode::RecordListTooLarge.into());
    }
    match partition.append(&checked.header, &checked.bytes, now_ms) {
        // Kafka tells when the original was written, whatever the topic's type of timestamps.
        Ok(Queued::Duplicate(original)) => Ok((Queued::Duplicate(original), original.place.timestamp)),
        Ok(queued) => Ok((queued, log_append_time)),
        Err(code) => Err(at_log(code)),
    }
}

/// Whether the first batch is compressed with zstd.
fn is_zstd(records: &[u8]) -> bool {
    BatchHeader::parse(records).is_ok_and(|header| header.codec().is_ok_and(|codec| codec == Codec::Zstd))
}

/// Whether Kafka finds this before it looks at the partition's log, and so cannot tell where that begins.
fn at_request(error: &BatchError) -> bool {
    matches!(
        error,
        BatchError::Empty
            | BatchError::MoreThanOne
            | BatchError::Truncated { .. }
            | BatchError::Length(_)
            | BatchError::OldMagic(_)
            | BatchError::UnknownMagic(_)
            | BatchError::TooLarge { .. }
            | BatchError::Crc { .. }
    )
}

/// What Kafka 4.3 answers to a batch that is wrong in this way.
fn batch_refusal(error: &BatchError) -> (ErrorCode, Option<String>) {
    match error {
        BatchError::TooLarge { .. } => (ErrorCode::MessageTooLarge, None),
        BatchError::Crc { .. } => (ErrorCode::CorruptMessage, None),
        BatchError::UnknownMagic(magic) => {
            (ErrorCode::CorruptMessage, Some(format!("Invalid magic found in record: {magic}")))
        }
        BatchError::Length(length) if *length < SMALLEST_MESSAGE => {
            let message =
                format!("Record size {length} is less than the minimum record overhead ({SMALLEST_MESSAGE})");
            (ErrorCode::CorruptMessage, Some(message))
        }
        BatchError::Length(_) => (ErrorCode::CorruptMessage, None),
        BatchError::UnknownCodec(_)
        | BatchError::Compressed { .. }
        | BatchError::TooLargeDecompressed { .. }
        | BatchError::DoesNotFit(_) => (ErrorCode::UnknownServerError, None),
        BatchError::Empty
        | BatchError::MoreThanOne
        | BatchError::Truncated { .. }
        | BatchError::OldMagic(_)
        | BatchError::BaseOffset(_)
        | BatchError::OffsetRange(_)
        | BatchError::Count(_)
        | BatchError::CountAndOffsets { .. }
        | BatchError::Control
        | BatchError::Sequence(_)
        | BatchError::Record { .. }
        | BatchError::RecordsRemain => (ErrorCode::InvalidRecord, None),
    }
}

/// What follows the length in the smallest message of any format.
const SMALLEST_MESSAGE: i32 = 14;

/// The answer to records that can be read but are not accepted, in Kafka's words.
fn record_refusals(
    refused: &[RecordRefusal],
    topic: &Topic,
    index: i32,
    bounds: Option<TimestampBounds>,
) -> ProduceRefusal {
    let mut about_time = false;
    let record_errors: Vec<(i32, Option<String>)> = refused
        .iter()
        .map(|record| {
            let message = match record.reason {
                RefusalReason::MissingKey => {
                    let name = &topic.name;
                    format!("Compacted topic cannot accept message without key in topic partition {name}-{index}")
                }
                RefusalReason::TimestampOutOfRange { timestamp } => {
                    about_time = true;
                    let (from, to) = bounds.map_or((i64::MIN, i64::MAX), |bounds| {
                        let from = bounds.now_ms.wrapping_sub(bounds.before_max_ms);
                        (from, bounds.now_ms.wrapping_add(bounds.after_max_ms))
                    });
                    format!(
                        "Timestamp {timestamp} of message with offset {} is out of range. The timestamp should be \
                         within [{from}, {to}]",
                        record.index
                    )
                }
                RefusalReason::LogAppendTimeFromProducer => {
                    about_time = true;
                    format!(
                        "Invalid timestamp type in message {}. Producer should not set timestamp type to \
                         LogAppendTime.",
                        record.index
                    )
                }
            };
            (record.index, Some(message))
        })
        .collect();
    let refusal = if about_time {
        Refusal::new(
            ErrorCode::InvalidTimestamp,
            "One or more records have been rejected due to invalid timestamp",
        )
    } else {
        let shown: Vec<String> = record_errors
            .iter()
            .take(3)
            .map(|(index, message)| {
                format!(
                    "RecordError(batchIndex={index}, message='{}')",
                    message.as_deref().unwrap_or_default()
                )
            })
            .collect();
        let message = format!(
            "One or more records have been rejected due to {} record errors in total, and only showing the first \
             three errors at most: [{}]",
            record_errors.len(),
            shown.join(", ")
        );
        Refusal::new(ErrorCode::InvalidRecord, message)
    };
    ProduceRefusal { refusal, record_errors, log_start_offset: -1 }
}

/// The batch with the largest timestamp that its records have, under the producers' type of timestamps.
fn corrected(checked: &CheckedBatch, max_timestamp: i64) -> Result<CheckedBatch, BatchError> {
    parsed(batch::with_max_timestamp(&checked.bytes, batch::TimestampType::CreateTime, max_timestamp)?)
}

/// The batch as the topic wants it: compressed by the topic's codec if it names one, with the broker's time if
/// one is given.
fn with_codec(
    checked: CheckedBatch,
    wanted: CompressionType,
    append_time: Option<i64>,
) -> Result<CheckedBatch, BatchError> {
    let wanted = match wanted {
        CompressionType::Producer => checked.codec,
        CompressionType::Uncompressed => Codec::None,
        CompressionType::Gzip => Codec::Gzip,
        CompressionType::Snappy => Codec::Snappy,
        CompressionType::Lz4 => Codec::Lz4,
        CompressionType::Zstd => Codec::Zstd,
    };
    let checked = if wanted == checked.codec {
        checked
    } else {
        let mut builder = BatchBuilder::keeping(&checked.header)?.codec(wanted);
        let mut records = RecordCursor::new(&checked.bytes)?;
        while let Some(record) = records.next_record() {
            builder.keep(&record?)?;
        }
        parsed(builder.finish()?)?
    };
    match append_time {
        Some(now_ms) => parsed(batch::with_log_append_time(&checked.bytes, now_ms)?),
        None => Ok(checked),
    }
}

fn parsed(bytes: Bytes) -> Result<CheckedBatch, BatchError> {
    let header = BatchHeader::parse(&bytes)?;
    Ok(CheckedBatch { header, codec: header.codec()?, bytes })
}

/// The places of partitions that come again later in the request: as in Kafka, the last one counts.
fn repeated_partitions(topics: &[op::ProduceTopic]) -> HashSet<(usize, usize)> {
    if let [topic] = topics
        && topic.partitions.len() <= 1
    {
        return HashSet::new();
    }
    let mut last = HashMap::new();
    let mut repeated = HashSet::new();
    for (topic_at, topic) in topics.iter().enumerate() {
        for (partition_at, partition) in topic.partitions.iter().enumerate() {
            repeated.extend(last.insert((&topic.topic, partition.index), (topic_at, partition_at)));
        }
    }
    repeated
}
