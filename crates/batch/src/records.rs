use std::ops::Range;

use bytes::Bytes;

use crate::codec::{Codec, Inflate, MAX_DECOMPRESSED};
use crate::error::{BatchError, RecordFault};
use crate::header::{BatchHeader, HEADER_LEN};
use crate::record::{Record, RecordView};
use crate::varint::{Slice, Source};
use crate::window::Window;

/// Reads the records of one batch, each borrowed until the next is asked for.
///
/// Nothing is copied where the batch is not compressed. The checksum is not looked at, and offsets
/// may have gaps, as compaction leaves them.
pub struct RecordCursor {
    header: BatchHeader,
    body: Body,
    /// How many records were read.
    index: i32,
    ended: bool,
}

enum Body {
    Plain { bytes: Bytes, at: usize },
    Packed(Box<Window>),
}

impl RecordCursor {
    /// Begins with the first record of the batch at the front of `batch`.
    ///
    /// # Errors
    /// When there is no whole batch or its codec is unknown.
    pub fn new(batch: &Bytes) -> Result<Self, BatchError> {
        Self::with_limit(batch, MAX_DECOMPRESSED)
    }

    /// The same with another bound on what the records may decompress to.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_limit(batch: &Bytes, limit: u64) -> Result<Self, BatchError> {
        let header = BatchHeader::parse(batch)?;
        let size = header.size();
        if batch.len() < size {
            return Err(BatchError::Truncated { need: size, have: batch.len() });
        }
        let bytes = batch.slice(HEADER_LEN..size);
        let body = match header.codec()? {
            Codec::None => Body::Plain { bytes, at: 0 },
            // An empty batch, as compaction leaves one, has no compressed stream either.
            _ if bytes.is_empty() => Body::Plain { bytes, at: 0 },
            codec => Body::Packed(Box::new(Window::new(Inflate::new(codec, bytes, limit)?))),
        };
        Ok(Self { header, body, index: 0, ended: false })
    }

    /// The header of the batch.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The next record, or the error that ends the reading.
    pub fn next_record(&mut self) -> Option<Result<RecordView<'_>, BatchError>> {
        let index = self.index;
        match self.advance()? {
            Ok(span) => {
                let view = RecordView::parse(&self.header, self.body.at(span));
                if view.is_err() {
                    self.ended = true;
                }
                Some(view.map_err(|fault| BatchError::Record { index, fault }))
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Where the next record is in its body.
    fn advance(&mut self) -> Option<Result<Range<usize>, BatchError>> {
        if self.ended {
            return None;
        }
        if self.index >= self.header.records_count {
            self.ended = true;
            return match self.body.is_at_end() {
                Ok(true) => None,
                Ok(false) => Some(Err(BatchError::RecordsRemain)),
                Err(error) => Some(Err(error)),
            };
        }
        match self.body.next_span() {
            Ok(span) => {
                self.index += 1;
                Some(Ok(span))
            }
            Err(fault) => {
                self.ended = true;
                let failure = self.body.failure();
                Some(Err(failure.unwrap_or(BatchError::Record { index: self.index, fault })))
            }
        }
    }
}

impl Body {
    fn next_span(&mut self) -> Result<Range<usize>, RecordFault> {
        match self {
            Self::Plain { bytes, at } => {
                let mut source = Slice::new(&bytes[*at..]);
                let size = length(source.varint()?)?;
                let from = bytes.len() - source.rest().len();
                source.take(size)?;
                *at = from + size;
                Ok(from..*at)
            }
            Self::Packed(window) => {
                let size = length(window.varint()?)?;
                window.take(size)
            }
        }
    }

    fn at(&self, span: Range<usize>) -> &[u8] {
        match self {
            Self::Plain { bytes, .. } => &bytes[span],
            Self::Packed(window) => &window.buffer()[span],
        }
    }

    fn share(&self, span: Range<usize>) -> Bytes {
        match self {
            Self::Plain { bytes, .. } => bytes.slice(span),
            Self::Packed(window) => Bytes::copy_from_slice(&window.buffer()[span]),
        }
    }

    fn is_at_end(&mut self) -> Result<bool, BatchError> {
        match self {
            Self::Plain { bytes, at } => Ok(*at == bytes.len()),
            Self::Packed(window) => {
                let at_end = window.is_at_end();
                window.failure().map_or(Ok(at_end), Err)
            }
        }
    }

    fn failure(&mut self) -> Option<BatchError> {
        match self {
            Self::Plain { .. } => None,
            Self::Packed(window) => window.failure(),
        }
    }
}

/// Iterates over the records of one batch as values of their own.
///
/// Records of a batch that is not compressed share its bytes; those of a compressed one have an
/// allocation each.
pub struct Records(RecordCursor);

impl Records {
    /// Begins with the first record of the batch at the front of `batch`.
    ///
    /// # Errors
    /// When there is no whole batch or its codec is unknown.
    pub fn new(batch: &Bytes) -> Result<Self, BatchError> {
        RecordCursor::new(batch).map(Self)
    }
}

impl From<RecordCursor> for Records {
    fn from(cursor: RecordCursor) -> Self {
        Self(cursor)
    }
}

impl Iterator for Records {
    type Item = Result<Record, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let cursor = &mut self.0;
        let index = cursor.index;
        let body = match cursor.advance()? {
            Ok(span) => cursor.body.share(span),
            Err(error) => return Some(Err(error)),
        };
        match RecordView::parse(&cursor.header, &body) {
            Ok(view) => Some(Ok(view.to_owned_in(&body))),
            Err(fault) => {
                cursor.ended = true;
                Some(Err(BatchError::Record { index, fault }))
            }
        }
    }
}

fn length(declared: i32) -> Result<usize, RecordFault> {
    usize::try_from(declared).map_err(|_| RecordFault::NegativeLength)
}
