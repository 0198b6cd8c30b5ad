use crc_fast::CrcAlgorithm;

use crate::codec::Codec;
use crate::error::BatchError;

/// Bytes before the first record of a batch.
pub const HEADER_LEN: usize = 61;

/// Bytes before those that the batch's length field counts: base offset and the length itself.
pub const LENGTH_PREFIX: usize = 12;

/// The format that this crate reads and writes.
pub const MAGIC: i8 = 2;

/// Where the bytes that the checksum covers begin: with the attributes.
pub(crate) const CRC_COVERS_FROM: usize = 21;

/// Where the magic is, in this format and in those before it.
const MAGIC_AT: usize = 16;

/// What the length field of a message of magic 0 without key and value says.
const SMALLEST_OLD_MESSAGE: i32 = 14;

/// What the length field of a batch without records says.
const SMALLEST_LENGTH: i32 = 49;

/// The fixed fields in front of a batch's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// The offset of the first record (of the first there once was, after compaction).
    pub base_offset: i64,
    /// How many bytes follow this field.
    pub batch_length: i32,
    /// The epoch of the leader that appended the batch; not covered by the checksum.
    pub partition_leader_epoch: i32,
    /// Always [`MAGIC`] in a header that was parsed.
    pub magic: i8,
    /// CRC-32C of all that follows this field.
    pub crc: u32,
    /// Codec, timestamp type and the two flags.
    pub attributes: Attributes,
    /// Offset of the last record, from `base_offset`; kept when compaction drops that record.
    pub last_offset_delta: i32,
    /// What the records' timestamps count from.
    pub base_timestamp: i64,
    /// The largest timestamp of a record, or the time of the append.
    pub max_timestamp: i64,
    /// The idempotent producer, or -1.
    pub producer_id: i64,
    /// That producer's epoch, or -1.
    pub producer_epoch: i16,
    /// The sequence number of the first record, or -1.
    pub base_sequence: i32,
    /// How many records follow.
    pub records_count: i32,
}

/// The attribute bits of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes(pub i16);

impl Attributes {
    const CODEC: i16 = 0x07;
    const LOG_APPEND_TIME: i16 = 0x08;
    const TRANSACTIONAL: i16 = 0x10;
    const CONTROL: i16 = 0x20;
    const DELETE_HORIZON: i16 = 0x40;

    /// Attributes with this codec and timestamp type and no flag set.
    #[must_use]
    pub fn new(codec: Codec, timestamp_type: TimestampType) -> Self {
        Self(i16::from(codec.id())).with_timestamp_type(timestamp_type)
    }

    /// The id of the codec, known or not.
    #[must_use]
    pub fn codec_id(self) -> u8 {
        self.0.to_be_bytes()[1] & 0x07
    }

    /// What the records' timestamps mean.
    #[must_use]
    pub fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the batch is part of a transaction.
    #[must_use]
    pub fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    /// Whether the records are markers that a broker wrote and consumers never see.
    #[must_use]
    pub fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// Whether the base timestamp is the time from which compaction may drop the batch's tombstones.
    #[must_use]
    pub fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }

    /// The same with or without a delete horizon in the place of the base timestamp.
    #[must_use]
    pub fn with_delete_horizon(self, has: bool) -> Self {
        if has { Self(self.0 | Self::DELETE_HORIZON) } else { Self(self.0 & !Self::DELETE_HORIZON) }
    }

    /// The same with another codec.
    #[must_use]
    pub fn with_codec(self, codec: Codec) -> Self {
        Self(self.0 & !Self::CODEC | i16::from(codec.id()))
    }

    /// The same with another timestamp type.
    #[must_use]
    pub fn with_timestamp_type(self, timestamp_type: TimestampType) -> Self {
        match timestamp_type {
            TimestampType::CreateTime => Self(self.0 & !Self::LOG_APPEND_TIME),
            TimestampType::LogAppendTime => Self(self.0 | Self::LOG_APPEND_TIME),
        }
    }
}

/// What the timestamps of a batch mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimestampType {
    /// Each record has the time that its producer gave it.
    #[default]
    CreateTime,
    /// Every record has the time of the append, which is the batch's largest timestamp.
    LogAppendTime,
}

impl BatchHeader {
    /// Reads the header at the front of `bytes`, of which it needs [`HEADER_LEN`].
    ///
    /// The batch's own bytes may be missing: compare [`Self::size`] with what is there.
    ///
    /// # Errors
    /// When the bytes are too few, the length is too small for a header, or the magic is not 2.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        // Length and magic have kept their places through all formats. An old message can be shorter
        // than our header, and its sender is owed the error that names the format.
        if let Some(front) = bytes.first_chunk::<{ MAGIC_AT + 1 }>() {
            let length = i32::from_be_bytes([front[8], front[9], front[10], front[11]]);
            if length < SMALLEST_OLD_MESSAGE {
                return Err(BatchError::Length(length));
            }
            match i8::from_be_bytes([front[MAGIC_AT]]) {
                MAGIC if length < SMALLEST_LENGTH => return Err(BatchError::Length(length)),
                MAGIC => {}
                old @ (0 | 1) => return Err(BatchError::OldMagic(old)),
                unknown => return Err(BatchError::UnknownMagic(unknown)),
            }
        }
        let Some(head) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(BatchError::Truncated { need: HEADER_LEN, have: bytes.len() });
        };
        Ok(Self {
            base_offset: i64::from_be_bytes(at(head, 0)),
            batch_length: i32::from_be_bytes(at(head, 8)),
            partition_leader_epoch: i32::from_be_bytes(at(head, 12)),
            magic: i8::from_be_bytes(at(head, MAGIC_AT)),
            crc: u32::from_be_bytes(at(head, 17)),
            attributes: Attributes(i16::from_be_bytes(at(head, CRC_COVERS_FROM))),
            last_offset_delta: i32::from_be_bytes(at(head, 23)),
            base_timestamp: i64::from_be_bytes(at(head, 27)),
            max_timestamp: i64::from_be_bytes(at(head, 35)),
            producer_id: i64::from_be_bytes(at(head, 43)),
            producer_epoch: i16::from_be_bytes(at(head, 51)),
            base_sequence: i32::from_be_bytes(at(head, 53)),
            records_count: i32::from_be_bytes(at(head, 57)),
        })
    }

    /// The header's bytes, with `crc` as it stands.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut head = [0; HEADER_LEN];
        put(&mut head, 0, self.base_offset.to_be_bytes());
        put(&mut head, 8, self.batch_length.to_be_bytes());
        put(&mut head, 12, self.partition_leader_epoch.to_be_bytes());
        put(&mut head, MAGIC_AT, self.magic.to_be_bytes());
        put(&mut head, 17, self.crc.to_be_bytes());
        put(&mut head, CRC_COVERS_FROM, self.attributes.0.to_be_bytes());
        put(&mut head, 23, self.last_offset_delta.to_be_bytes());
        put(&mut head, 27, self.base_timestamp.to_be_bytes());
        put(&mut head, 35, self.max_timestamp.to_be_bytes());
        put(&mut head, 43, self.producer_id.to_be_bytes());
        put(&mut head, 51, self.producer_epoch.to_be_bytes());
        put(&mut head, 53, self.base_sequence.to_be_bytes());
        put(&mut head, 57, self.records_count.to_be_bytes());
        head
    }

    /// How many bytes the whole batch has, this header included.
    #[must_use]
    pub fn size(&self) -> usize {
        LENGTH_PREFIX + usize::try_from(self.batch_length).unwrap_or(0)
    }

    /// The offset of the last record there is or was.
    #[must_use]
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// The sequence number of the last record, or -1 without a sequence.
    ///
    /// Sequences go from `i32::MAX` to 0, as Kafka's do.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        // Both are in the range of i32, so their sum wraps at most once, into the sign bit.
        self.base_sequence.wrapping_add(self.last_offset_delta) & i32::MAX
    }

    /// How the records are compressed.
    ///
    /// # Errors
    /// When the id is none that is known.
    pub fn codec(&self) -> Result<Codec, BatchError> {
        Codec::from_id(self.attributes.codec_id())
    }

    /// What the records' timestamps mean.
    #[must_use]
    pub fn timestamp_type(&self) -> TimestampType {
        self.attributes.timestamp_type()
    }

    /// Whether the batch is part of a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes.is_transactional()
    }

    /// Whether the records are markers that a broker wrote.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes.is_control()
    }

    /// Whether an idempotent producer wrote the batch.
    #[must_use]
    pub fn has_producer(&self) -> bool {
        self.producer_id >= 0
    }
}

/// Checks the checksum of the one batch that `batch` is.
///
/// # Errors
/// When `batch` does not begin with a header, has fewer bytes than that says, or its checksum differs.
pub fn verify_crc(batch: &[u8]) -> Result<(), BatchError> {
    let header = BatchHeader::parse(batch)?;
    let Some(batch) = batch.get(..header.size()) else {
        return Err(BatchError::Truncated { need: header.size(), have: batch.len() });
    };
    let found = crc_of(&batch[CRC_COVERS_FROM..]);
    if found == header.crc { Ok(()) } else { Err(BatchError::Crc { declared: header.crc, found }) }
}

/// CRC-32C (Castagnoli).
#[must_use]
pub fn crc_of(bytes: &[u8]) -> u32 {
    narrow(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a 32-bit checksum comes in a u64 whose upper half is zero"
)]
pub(crate) fn narrow(checksum: u64) -> u32 {
    checksum as u32
}

fn at<const N: usize>(head: &[u8; HEADER_LEN], from: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&head[from..from + N]);
    field
}

fn put<const N: usize>(head: &mut [u8; HEADER_LEN], at: usize, field: [u8; N]) {
    head[at..at + N].copy_from_slice(&field);
}
