use bytes::{Bytes, BytesMut};

use crate::codec::{self, Codec};
use crate::error::BatchError;
use crate::header::{Attributes, BatchHeader, HEADER_LEN, LENGTH_PREFIX, MAGIC, TimestampType};
use crate::record::RecordView;
use crate::rewrite::seal;
use crate::varint;

/// Makes one batch, record by record.
///
/// [`Self::new`] is for new records, which get the offsets that follow one another;
/// [`Self::keeping`] is for writing a batch anew with some of its records.
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    header: BatchHeader,
    codec: Codec,
    /// The header's offsets and timestamps are those of another batch and stay.
    kept: bool,
    records: Vec<u8>,
    next_offset: i64,
}

/// A record to be written.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewRecord<'a> {
    /// Milliseconds since 1970, or -1 for none.
    pub timestamp: i64,
    /// The key, if it has one.
    pub key: Option<&'a [u8]>,
    /// The value, if it has one.
    pub value: Option<&'a [u8]>,
    /// Headers in their order.
    pub headers: &'a [(&'a [u8], Option<&'a [u8]>)],
}

/// The producer that a batch names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerFields {
    /// The producer's id.
    pub id: i64,
    /// The producer's epoch.
    pub epoch: i16,
    /// The sequence number of the batch's first record.
    pub base_sequence: i32,
}

impl BatchBuilder {
    /// An empty batch whose first record will have the offset `base_offset`.
    #[must_use]
    pub fn new(base_offset: i64) -> Self {
        let header = BatchHeader {
            base_offset,
            batch_length: 0,
            partition_leader_epoch: -1,
            magic: MAGIC,
            crc: 0,
            attributes: Attributes::default(),
            last_offset_delta: -1,
            base_timestamp: -1,
            max_timestamp: -1,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            records_count: 0,
        };
        Self { header, codec: Codec::None, kept: false, records: Vec::new(), next_offset: base_offset }
    }

    /// A batch that takes the place of the one with this header and keeps some of its records.
    ///
    /// Base offset, last offset, timestamps, producer and attributes stay as they are, whichever
    /// records are kept; none may be. Give them to [`Self::keep`] in their order.
    ///
    /// # Errors
    /// When the header's codec is unknown.
    pub fn keeping(header: &BatchHeader) -> Result<Self, BatchError> {
        let codec = header.codec()?;
        let header = BatchHeader { records_count: 0, ..*header };
        Ok(Self { header, codec, kept: true, records: Vec::new(), next_offset: header.base_offset })
    }

    /// Compresses the records with `codec`.
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Says what the timestamps mean; with [`TimestampType::LogAppendTime`] all records have the
    /// largest of them.
    #[must_use]
    pub fn timestamp_type(mut self, timestamp_type: TimestampType) -> Self {
        self.header.attributes = self.header.attributes.with_timestamp_type(timestamp_type);
        self
    }

    /// Names the producer.
    #[must_use]
    pub fn producer(mut self, producer: ProducerFields) -> Self {
        self.header.producer_id = producer.id;
        self.header.producer_epoch = producer.epoch;
        self.header.base_sequence = producer.base_sequence;
        self
    }

    /// Sets the leader epoch, which is -1 otherwise.
    #[must_use]
    pub fn leader_epoch(mut self, epoch: i32) -> Self {
        self.header.partition_leader_epoch = epoch;
        self
    }

    /// Adds a record with the next offset.
    ///
    /// # Errors
    /// When it does not fit; the batch is then as it was before.
    pub fn push(&mut self, record: &NewRecord<'_>) -> Result<(), BatchError> {
        let mut headers = Vec::new();
        for (key, value) in record.headers {
            put_nullable(Some(key), &mut headers)?;
            put_nullable(*value, &mut headers)?;
        }
        self.add(&Fields {
            offset: self.next_offset,
            timestamp: record.timestamp,
            key: record.key,
            value: record.value,
            header_count: record.headers.len(),
            headers: &headers,
        })
    }

    /// Adds a record of another batch, with the offset it has there.
    ///
    /// # Errors
    /// When it does not fit or comes after a record with a larger offset; the batch is then as it
    /// was before.
    pub fn keep(&mut self, record: &RecordView<'_>) -> Result<(), BatchError> {
        self.add(&Fields {
            offset: record.offset,
            timestamp: record.timestamp,
            key: record.key,
            value: record.value,
            header_count: record.headers.len(),
            headers: record.headers.encoded(),
        })
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.header.records_count).unwrap_or(0)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.header.records_count == 0
    }

    /// How many bytes the batch has before compression.
    #[must_use]
    pub fn size(&self) -> usize {
        HEADER_LEN + self.records.len()
    }

    /// The batch's bytes.
    ///
    /// # Errors
    /// When they are more than a batch can have.
    pub fn finish(self) -> Result<Bytes, BatchError> {
        let Self { mut header, codec, records, .. } = self;
        header.attributes = header.attributes.with_codec(codec);
        // No records compress to nothing: Kafka writes an emptied batch as a bare header.
        let packed = if codec == Codec::None || records.is_empty() {
            records
        } else {
            codec::compress(codec, &records)?
        };
        header.batch_length = i32::try_from(HEADER_LEN - LENGTH_PREFIX + packed.len())
            .map_err(|_| BatchError::DoesNotFit("the batch"))?;
        let mut batch = BytesMut::with_capacity(HEADER_LEN + packed.len());
        batch.extend_from_slice(&header.to_bytes());
        batch.extend_from_slice(&packed);
        seal(&mut batch);
        Ok(batch.freeze())
    }

    fn add(&mut self, record: &Fields<'_>) -> Result<(), BatchError> {
        let first = self.records.is_empty() && !self.kept;
        let base_timestamp = if first { record.timestamp } else { self.header.base_timestamp };
        let offset_delta = record
            .offset
            .checked_sub(self.header.base_offset)
            .and_then(|delta| i32::try_from(delta).ok())
            .filter(|_| record.offset >= self.next_offset)
            .filter(|delta| !self.kept || *delta <= self.header.last_offset_delta)
            .ok_or(BatchError::DoesNotFit("the record's offset"))?;
        let next_offset =
            record.offset.checked_add(1).ok_or(BatchError::DoesNotFit("the record's offset"))?;
        let count =
            self.header.records_count.checked_add(1).ok_or(BatchError::DoesNotFit("one more record"))?;

        // Readers add with wrapping, so any two timestamps have a delta.
        let timestamp_delta = record.timestamp.wrapping_sub(base_timestamp);
        let size = 1
            + varint::length(timestamp_delta)
            + varint::length(i64::from(offset_delta))
            + nullable_length(record.key)?
            + nullable_length(record.value)?
            + varint::length(fits(record.header_count)?)
            + record.headers.len();
        let size = fits(size)?;

        self.records.reserve(size.unsigned_abs().try_into().unwrap_or(0));
        varint::encode(size, &mut self.records);
        self.records.push(0);
        varint::encode(timestamp_delta, &mut self.records);
        varint::encode(i64::from(offset_delta), &mut self.records);
        put_nullable(record.key, &mut self.records)?;
        put_nullable(record.value, &mut self.records)?;
        varint::encode(fits(record.header_count)?, &mut self.records);
        self.records.extend_from_slice(record.headers);

        self.next_offset = next_offset;
        self.header.records_count = count;
        if !self.kept {
            self.header.base_timestamp = base_timestamp;
            self.header.max_timestamp = self.header.max_timestamp.max(record.timestamp);
            self.header.last_offset_delta = offset_delta;
        }
        Ok(())
    }
}

struct Fields<'a> {
    offset: i64,
    timestamp: i64,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    header_count: usize,
    headers: &'a [u8],
}

fn nullable_length(bytes: Option<&[u8]>) -> Result<usize, BatchError> {
    match bytes {
        Some(bytes) => Ok(varint::length(fits(bytes.len())?) + bytes.len()),
        None => Ok(varint::length(-1)),
    }
}

fn put_nullable(bytes: Option<&[u8]>, into: &mut Vec<u8>) -> Result<(), BatchError> {
    match bytes {
        Some(bytes) => {
            varint::encode(fits(bytes.len())?, into);
            into.extend_from_slice(bytes);
        }
        None => varint::encode(-1, into),
    }
    Ok(())
}

/// A length as the number of 32 bits that it must be in a record.
fn fits(length: usize) -> Result<i64, BatchError> {
    i32::try_from(length).map(i64::from).map_err(|_| BatchError::DoesNotFit("the record"))
}
