//! What a read gives back.

use std::io;
use std::path::{Path, PathBuf};

use batch::{BatchError, BatchHeader, Batches};
use bytes::Bytes;

/// Whole batches, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadBatches {
    /// The bytes; a chunk may hold part of a batch or several, but all chunks together are whole batches.
    pub chunks: Vec<Bytes>,
    /// How many bytes that is.
    pub bytes: usize,
    /// The offset behind the last batch, where reading goes on. With nothing read, where it would begin.
    pub next_offset: i64,
}

impl ReadBatches {
    pub(crate) fn empty(next_offset: i64) -> Self {
        Self { chunks: Vec::new(), bytes: 0, next_offset }
    }

    /// Whether compaction has left nothing in these batches but their offsets.
    pub(crate) fn is_emptied(&self) -> bool {
        let has_records = |batch: Result<(BatchHeader, Bytes), BatchError>| {
            batch.is_ok_and(|(header, _)| header.records_count > 0)
        };
        self.bytes > 0 && !Batches::new(&self.concat()).any(has_records)
    }

    /// Everything in one piece. Copies unless there is only one chunk.
    #[must_use]
    pub fn concat(&self) -> Bytes {
        match self.chunks.as_slice() {
            [one] => one.clone(),
            chunks => chunks.concat().into(),
        }
    }
}

/// Why nothing could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The offset is below the start or beyond the end of the log.
    #[error("offset {offset} is not within {start} to {end}")]
    OutOfRange {
        /// What was asked for.
        offset: i64,
        /// The first offset there is.
        start: i64,
        /// The offset behind the last.
        end: i64,
    },
    /// A settled file or a log file is damaged here. Other reads are not affected.
    #[error("{} is damaged at position {position}", file.display())]
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// Where in it the batch begins that cannot be read.
        position: u64,
    },
    /// The disk refused.
    #[error("read {}", file.display())]
    Disk {
        /// The file that could not be read.
        file: PathBuf,
        /// What the disk said.
        source: io::Error,
    },
}

impl ReadError {
    pub(crate) fn disk(file: &Path, source: io::Error) -> Self {
        Self::Disk { file: file.to_owned(), source }
    }
}
