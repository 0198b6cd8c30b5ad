use crate::codec::Codec;

/// Why bytes are not a record batch that may be kept or read.
///
/// The variants are as fine as a broker needs to answer as Kafka does. To a producer Kafka 4.3 says
/// CORRUPT_MESSAGE for [`Self::Length`], [`Self::UnknownMagic`] and [`Self::Crc`], MESSAGE_TOO_LARGE for
/// [`Self::TooLarge`], UNKNOWN_SERVER_ERROR for [`Self::UnknownCodec`] and [`Self::Compressed`], and
/// INVALID_RECORD for all others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// There are no whole batches where at least one was promised.
    #[error("no whole record batch")]
    Empty,
    /// More than one batch for one partition of a produce request.
    #[error("more than one record batch")]
    MoreThanOne,
    /// Fewer bytes than a batch of this size has.
    #[error("{have} bytes of a batch of {need}")]
    Truncated {
        /// How many bytes the batch has, by its own account or at the very least.
        need: usize,
        /// How many bytes there were.
        have: usize,
    },
    /// The length field is smaller than the smallest header.
    #[error("batch length {0} is too small")]
    Length(i32),
    /// A message set of the formats before record batches, magic 0 or 1.
    #[error("message format {0} is no longer written")]
    OldMagic(i8),
    /// A format nobody has defined.
    #[error("unknown magic {0}")]
    UnknownMagic(i8),
    /// The batch is larger than the topic allows.
    #[error("{size} bytes where {max} are allowed")]
    TooLarge {
        /// The size of the batch.
        size: usize,
        /// The most there may be.
        max: usize,
    },
    /// The checksum in the header is not that of the bytes.
    #[error("checksum {found:#010x} where the header says {declared:#010x}")]
    Crc {
        /// What the header says.
        declared: u32,
        /// What the bytes give.
        found: u32,
    },
    /// A compression id that is not 0 to 4.
    #[error("unknown compression codec {0}")]
    UnknownCodec(u8),
    /// A producer sent a batch that does not begin at offset 0.
    #[error("base offset {0} in a produced batch, which must be 0")]
    BaseOffset(i64),
    /// The last offset is before the first.
    #[error("last offset delta {0}")]
    OffsetRange(i32),
    /// A batch from a client has at least one record.
    #[error("{0} records")]
    Count(i32),
    /// The offsets and the number of records do not agree.
    #[error("{count} records with last offset delta {last_offset_delta}")]
    CountAndOffsets {
        /// The number of records that the header declares.
        count: i32,
        /// The header's last offset delta.
        last_offset_delta: i32,
    },
    /// Only brokers write control batches.
    #[error("a control batch from a client")]
    Control,
    /// A producer id without a sequence number.
    #[error("base sequence {0} with a producer id")]
    Sequence(i32),
    /// A record cannot be read as one.
    #[error("record {index}: {fault}")]
    Record {
        /// Which record of the batch, from 0.
        index: i32,
        /// What is wrong with it.
        fault: RecordFault,
    },
    /// Bytes remain after the last declared record.
    #[error("bytes remain after the last record")]
    RecordsRemain,
    /// The compressed records cannot be decompressed.
    #[error("{codec} records do not decompress: {reason}")]
    Compressed {
        /// How they were said to be compressed.
        codec: Codec,
        /// What the decompressor said.
        reason: String,
    },
    /// The records decompress to more than is allowed.
    #[error("records decompress to more than {limit} bytes")]
    TooLargeDecompressed {
        /// The bound that was passed.
        limit: u64,
    },
    /// What is to be written does not fit into the fields of a batch.
    #[error("{0} does not fit into a batch")]
    DoesNotFit(&'static str),
}

/// What is wrong with the structure of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// The bytes end within the record, or before it.
    #[error("the bytes end within the record")]
    Truncated,
    /// A variable-length number has more bytes than one can have.
    #[error("a variable-length number is too long")]
    Varint,
    /// A length or count is negative where that means nothing.
    #[error("a negative length")]
    NegativeLength,
    /// The record's fields do not add up to the size it declares.
    #[error("the fields do not add up to the record's size")]
    Size,
    /// The offset delta is not the next one.
    #[error("the offset delta is not the next one")]
    OffsetDelta,
}
