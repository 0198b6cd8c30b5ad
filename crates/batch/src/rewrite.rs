use bytes::{Bytes, BytesMut};

use crate::error::BatchError;
use crate::header::{BatchHeader, CRC_COVERS_FROM, HEADER_LEN, TimestampType, crc_of};

/// How many bytes [`patched_head`] replaces at the front of a batch.
pub const PATCHED_HEAD_LEN: usize = 16;

/// The first bytes of the batch with its place in the log filled in.
///
/// They are not covered by the checksum, so a store writes these and then the rest of the bytes as
/// they came, from [`PATCHED_HEAD_LEN`] on, without a copy.
#[must_use]
pub fn patched_head(header: &BatchHeader, base_offset: i64, leader_epoch: i32) -> [u8; PATCHED_HEAD_LEN] {
    let mut head = [0; PATCHED_HEAD_LEN];
    head[..8].copy_from_slice(&base_offset.to_be_bytes());
    head[8..12].copy_from_slice(&header.batch_length.to_be_bytes());
    head[12..].copy_from_slice(&leader_epoch.to_be_bytes());
    head
}

/// A copy of the batch whose records all have the time `now_ms`, that of the append.
///
/// # Errors
/// When `batch` is not the bytes of one whole batch.
pub fn with_log_append_time(batch: &[u8], now_ms: i64) -> Result<Bytes, BatchError> {
    with_max_timestamp(batch, TimestampType::LogAppendTime, now_ms)
}

/// A copy of the batch with this timestamp type and largest timestamp.
///
/// For a batch whose producer was wrong about the largest timestamp of its records: lookups by time
/// go by the header.
///
/// # Errors
/// When `batch` is not the bytes of one whole batch.
pub fn with_max_timestamp(
    batch: &[u8],
    timestamp_type: TimestampType,
    max_timestamp: i64,
) -> Result<Bytes, BatchError> {
    let mut header = BatchHeader::parse(batch)?;
    let Some(batch) = batch.get(..header.size()) else {
        return Err(BatchError::Truncated { need: header.size(), have: batch.len() });
    };
    header.attributes = header.attributes.with_timestamp_type(timestamp_type);
    header.max_timestamp = max_timestamp;

    let mut copy = BytesMut::with_capacity(batch.len());
    copy.extend_from_slice(&header.to_bytes());
    copy.extend_from_slice(&batch[HEADER_LEN..]);
    seal(&mut copy);
    Ok(copy.freeze())
}

/// Writes the checksum of a batch that is otherwise complete.
pub(crate) fn seal(batch: &mut [u8]) {
    let crc = crc_of(&batch[CRC_COVERS_FROM..]);
    batch[CRC_COVERS_FROM - 4..CRC_COVERS_FROM].copy_from_slice(&crc.to_be_bytes());
}
