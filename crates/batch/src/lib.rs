//! Kafka record batches: checked, read, written and compressed.
//!
//! A batch is bytes and stays bytes: [`BatchHeader::parse`] reads the fixed fields in front,
//! [`check_produced`] and [`check_records`] say whether a producer's batch may be kept as it came,
//! [`RecordCursor`] and [`Records`] read its records, and [`BatchBuilder`] writes a new one. Any bytes
//! may be given to any of them; bad ones get a [`BatchError`].

mod build;
mod check;
mod codec;
mod error;
mod header;
mod record;
mod records;
mod rewrite;
mod snappy;
mod varint;
mod window;

pub use build::{BatchBuilder, NewRecord, ProducerFields};
pub use check::{
    Batches, CheckedBatch, MAX_REFUSALS, RecordChecks, RecordRefusal, RecordsSeen, RefusalReason,
    TimestampBounds, check_batches, check_produced, check_records,
};
pub use codec::{Codec, DecompressionBudget, MAX_DECOMPRESSED};
pub use error::{BatchError, RecordFault};
pub use header::{
    Attributes, BatchHeader, HEADER_LEN, LENGTH_PREFIX, MAGIC, TimestampType, crc_of, verify_crc,
};
pub use record::{HeadersView, Record, RecordHeader, RecordView};
pub use records::{RecordCursor, Records};
pub use rewrite::{PATCHED_HEAD_LEN, patched_head, with_log_append_time, with_max_timestamp};
