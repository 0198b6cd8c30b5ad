use bytes::Bytes;

use crate::codec::{Codec, DecompressionBudget, Inflate};
use crate::error::{BatchError, RecordFault};
use crate::header::{BatchHeader, HEADER_LEN, TimestampType, verify_crc};
use crate::rewrite::with_max_timestamp;
use crate::varint::{Slice, Source};
use crate::window::Window;

/// The most refused records that [`check_records`] lists; one is enough to refuse the batch.
pub const MAX_REFUSALS: usize = 1_000;

/// A batch whose header and checksum have been found good.
#[derive(Debug, Clone)]
pub struct CheckedBatch {
    /// The fields in front.
    pub header: BatchHeader,
    /// How the records are compressed.
    pub codec: Codec,
    /// The whole batch, header included, sharing the bytes it came in.
    pub bytes: Bytes,
}

/// Checks what a producer sent for one partition, in the order in which Kafka 4.3 does.
///
/// There must be exactly one batch; bytes of an unfinished one after it are ignored. The records
/// themselves are for [`check_records`].
///
/// # Errors
/// The first thing that is wrong.
pub fn check_produced(records: &Bytes, max_bytes: usize) -> Result<CheckedBatch, BatchError> {
    let mut batches = Batches::new(records);
    let (header, bytes) = batches.next().ok_or(BatchError::Empty)??;
    if let Some(next) = batches.next() {
        next?;
        return Err(BatchError::MoreThanOne);
    }
    if header.base_offset != 0 {
        return Err(BatchError::BaseOffset(header.base_offset));
    }
    if bytes.len() > max_bytes {
        return Err(BatchError::TooLarge { size: bytes.len(), max: max_bytes });
    }
    check_batch(header, bytes)
}

impl CheckedBatch {
    /// The batch with its timestamps as Kafka stores them: by the topic's type, and with the header's
    /// largest one true of the records, whatever the producer has claimed.
    ///
    /// Most batches are right as they came and stay the same bytes.
    ///
    /// # Errors
    /// None for a batch that was checked.
    pub fn with_timestamps(
        self,
        seen: &RecordsSeen,
        timestamp_type: TimestampType,
        now_ms: i64,
    ) -> Result<Self, BatchError> {
        let max_timestamp = match timestamp_type {
            TimestampType::CreateTime => seen.max_timestamp,
            TimestampType::LogAppendTime => now_ms,
        };
        if (self.header.timestamp_type(), self.header.max_timestamp) == (timestamp_type, max_timestamp) {
            return Ok(self);
        }
        let bytes = with_max_timestamp(&self.bytes, timestamp_type, max_timestamp)?;
        Ok(Self { header: BatchHeader::parse(&bytes)?, codec: self.codec, bytes })
    }
}

/// Splits `bytes` into whole batches and checks each one's header and checksum.
///
/// Bytes of an unfinished batch at the end are ignored, as Kafka ignores them.
///
/// # Errors
/// The first thing that is wrong, or [`BatchError::Empty`] without any whole batch.
pub fn check_batches(bytes: &Bytes) -> Result<Vec<CheckedBatch>, BatchError> {
    let checked = Batches::new(bytes)
        .map(|batch| batch.and_then(|(header, bytes)| check_batch(header, bytes)))
        .collect::<Result<Vec<_>, _>>()?;
    if checked.is_empty() { Err(BatchError::Empty) } else { Ok(checked) }
}

fn check_batch(header: BatchHeader, bytes: Bytes) -> Result<CheckedBatch, BatchError> {
    verify_crc(&bytes)?;
    let codec = header.codec()?;
    let (count, last_offset_delta) = (header.records_count, header.last_offset_delta);
    if last_offset_delta < 0 {
        return Err(BatchError::OffsetRange(last_offset_delta));
    }
    if count <= 0 {
        return Err(BatchError::Count(count));
    }
    if count - 1 != last_offset_delta {
        return Err(BatchError::CountAndOffsets { count, last_offset_delta });
    }
    if header.is_control() {
        return Err(BatchError::Control);
    }
    if header.has_producer() && header.base_sequence < 0 {
        return Err(BatchError::Sequence(header.base_sequence));
    }
    Ok(CheckedBatch { header, codec, bytes })
}

/// The whole batches in a row of them; an unfinished one at the end is not given out.
#[derive(Debug, Clone)]
pub struct Batches {
    left: Bytes,
}

impl Batches {
    /// Begins at the front of `bytes`.
    #[must_use]
    pub fn new(bytes: &Bytes) -> Self {
        Self { left: bytes.clone() }
    }

    /// What was not given out yet; after the last batch, the unfinished one.
    #[must_use]
    pub fn remaining(&self) -> &Bytes {
        &self.left
    }
}

impl Iterator for Batches {
    type Item = Result<(BatchHeader, Bytes), BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        match BatchHeader::parse(&self.left) {
            Ok(header) if header.size() <= self.left.len() => {
                Some(Ok((header, self.left.split_to(header.size()))))
            }
            Ok(_) | Err(BatchError::Truncated { .. }) => None,
            Err(error) => {
                self.left.clear();
                Some(Err(error))
            }
        }
    }
}

/// What the records of a produced batch must satisfy, by the topic's settings.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecordChecks {
    /// Every record needs a key: the topic is compacted.
    pub require_key: bool,
    /// The bounds for the producers' timestamps, or none where the broker sets them itself.
    pub timestamps: Option<TimestampBounds>,
}

/// How far a record's timestamp may be from the broker's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampBounds {
    /// The broker's time, in milliseconds since 1970.
    pub now_ms: i64,
    /// `message.timestamp.before.max.ms`.
    pub before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub after_max_ms: i64,
}

impl TimestampBounds {
    fn allow(&self, timestamp: i64) -> bool {
        // Wide enough for any two times: a record from the beginning of 64 bits must not pass for a young one.
        let age = i128::from(self.now_ms) - i128::from(timestamp);
        age <= i128::from(self.before_max_ms) && -age <= i128::from(self.after_max_ms)
    }
}

/// What a walk over the records has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordsSeen {
    /// The largest timestamp of a record, or -1 for none.
    ///
    /// Where it is not that of the header, the header is wrong and lookups by time would be too:
    /// see [`CheckedBatch::with_timestamps`].
    pub max_timestamp: i64,
    /// The records that the topic does not accept, at most [`MAX_REFUSALS`] of them.
    pub refused: Vec<RecordRefusal>,
    /// How many records it does not accept.
    pub refused_count: usize,
}

/// A record that can be read but is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordRefusal {
    /// Which record of the batch, from 0.
    pub index: i32,
    /// What the topic holds against it.
    pub reason: RefusalReason,
}

/// What a topic can hold against a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// The topic is compacted and the record has no key.
    MissingKey,
    /// The timestamp is too far from the broker's time.
    TimestampOutOfRange {
        /// The record's timestamp.
        timestamp: i64,
    },
    /// The producer claims that the broker has set the timestamp.
    LogAppendTimeFromProducer,
}

/// Walks over the records of a batch: each must be well formed, have the next offset, and satisfy
/// `checks`; after the last there must be nothing.
///
/// Keys and values are passed over, not touched. Compressed records are decompressed piece by piece
/// as far as `budget` reaches, which pays for them whether they are good or not. Of offset deltas that do not count up from 0, Kafka 4.3
/// refuses compressed ones (with an unknown server error) and stores others, which then stand at the
/// offsets of records to come; here all are refused.
///
/// # Errors
/// When the records are not well formed; a record that is, but is not accepted, is listed in the
/// answer instead.
pub fn check_records(
    batch: &CheckedBatch,
    checks: &RecordChecks,
    budget: &mut DecompressionBudget,
) -> Result<RecordsSeen, BatchError> {
    let mut walk = Walk {
        checks,
        count: batch.header.records_count,
        base_timestamp: batch.header.base_timestamp,
        append_time: match batch.header.timestamp_type() {
            TimestampType::CreateTime => None,
            TimestampType::LogAppendTime => Some(batch.header.max_timestamp),
        },
        seen: RecordsSeen { max_timestamp: -1, refused: Vec::new(), refused_count: 0 },
    };
    match batch.codec {
        Codec::None => {
            let mut source = Slice::new(&batch.bytes[HEADER_LEN..]);
            walk.run(&mut source).map_err(|(index, fault)| BatchError::Record { index, fault })?;
            if !source.rest().is_empty() {
                return Err(BatchError::RecordsRemain);
            }
        }
        codec => {
            let inflate = Inflate::new(codec, batch.bytes.slice(HEADER_LEN..), budget.left())?;
            let mut window = Window::new(inflate);
            let walked = walk.run(&mut window);
            let at_end = walked.is_ok() && window.is_at_end();
            budget.spend(window.inflate());
            if let Err((index, fault)) = walked {
                return Err(window.failure().unwrap_or(BatchError::Record { index, fault }));
            }
            if let Some(failure) = window.failure() {
                return Err(failure);
            }
            if !at_end {
                return Err(BatchError::RecordsRemain);
            }
        }
    }
    Ok(walk.seen)
}

struct Walk<'a> {
    checks: &'a RecordChecks,
    count: i32,
    base_timestamp: i64,
    append_time: Option<i64>,
    seen: RecordsSeen,
}

impl Walk<'_> {
    fn run<S: Source>(&mut self, source: &mut S) -> Result<(), (i32, RecordFault)> {
        for index in 0..self.count {
            let record = pass_record(source).map_err(|fault| (index, fault))?;
            if record.offset_delta != index {
                return Err((index, RecordFault::OffsetDelta));
            }
            let timestamp =
                self.append_time.unwrap_or_else(|| self.base_timestamp.wrapping_add(record.timestamp_delta));
            self.seen.max_timestamp = self.seen.max_timestamp.max(timestamp);
            if let Some(reason) = self.refuse(record.has_key, timestamp) {
                self.seen.refused_count += 1;
                if self.seen.refused.len() < MAX_REFUSALS {
                    self.seen.refused.push(RecordRefusal { index, reason });
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn refuse(&self, has_key: bool, timestamp: i64) -> Option<RefusalReason> {
        if self.checks.require_key && !has_key {
            return Some(RefusalReason::MissingKey);
        }
        match &self.checks.timestamps {
            Some(bounds) if timestamp != -1 => {
                (!bounds.allow(timestamp)).then_some(RefusalReason::TimestampOutOfRange { timestamp })
            }
            _ => self.append_time.map(|_| RefusalReason::LogAppendTimeFromProducer),
        }
    }
}

struct Passed {
    timestamp_delta: i64,
    offset_delta: i32,
    has_key: bool,
}

/// Passes over one record.
///
/// A record that reads beyond its declared size is found out at its end, so the lengths within it
/// need no comparison of their own.
#[inline(always)]
fn pass_record<S: Source>(source: &mut S) -> Result<Passed, RecordFault> {
    let size = u64::try_from(source.varint()?).map_err(|_| RecordFault::NegativeLength)?;
    let end = source.position() + size;
    source.skip(1)?;
    let timestamp_delta = source.varlong()?;
    let offset_delta = source.varint()?;
    let has_key = pass_nullable(source)?;
    pass_nullable(source)?;
    let headers = source.varint()?;
    if headers < 0 {
        return Err(RecordFault::NegativeLength);
    }
    for _ in 0..headers {
        if !pass_nullable(source)? {
            return Err(RecordFault::NegativeLength);
        }
        pass_nullable(source)?;
    }
    if source.position() == end {
        Ok(Passed { timestamp_delta, offset_delta, has_key })
    } else {
        Err(RecordFault::Size)
    }
}

/// Passes over bytes behind their length and says whether there were any, be it none of them.
#[inline(always)]
fn pass_nullable<S: Source>(source: &mut S) -> Result<bool, RecordFault> {
    match u64::try_from(source.varint()?) {
        Ok(length) => source.skip(length).map(|()| true),
        Err(_) => Ok(false),
    }
}
