use std::ops::Range;

use crate::codec::Inflate;
use crate::error::{BatchError, RecordFault};
use crate::varint::{self, LONGEST, Source};

/// How much is decompressed at a time.
const STEP: usize = 32 * 1024;

/// A moving window on decompressed records: what was read lies before it, what is to come has not
/// been decompressed yet.
pub(crate) struct Window {
    inflate: Inflate,
    buffer: Vec<u8>,
    /// What of `buffer` is filled and not read yet.
    filled: Range<usize>,
    passed: u64,
    /// Why no more can be read, if it is not the end.
    failure: Option<BatchError>,
}

impl Window {
    pub(crate) fn new(inflate: Inflate) -> Self {
        Self { inflate, buffer: vec![0; STEP], filled: 0..0, passed: 0, failure: None }
    }

    /// Where the next `count` bytes are in [`Self::buffer`], which they stay until the next call.
    pub(crate) fn take(&mut self, count: usize) -> Result<Range<usize>, RecordFault> {
        self.fill_to(count);
        if self.filled.len() < count {
            return Err(RecordFault::Truncated);
        }
        let taken = self.filled.start..self.filled.start + count;
        self.advance(count);
        Ok(taken)
    }

    pub(crate) fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// Whether everything was read; decompresses a little more to find out.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.fill_to(1);
        self.filled.is_empty()
    }

    /// The decompressor, as far as it has come.
    pub(crate) fn inflate(&self) -> &Inflate {
        &self.inflate
    }

    /// What the decompressor complained of, which explains a record that seemed truncated.
    pub(crate) fn failure(&mut self) -> Option<BatchError> {
        self.failure.take()
    }

    /// Decompresses until `count` bytes lie in the window or no more come.
    ///
    /// The buffer grows with what has come, not with what was asked for: a record's declared size
    /// costs nothing until its bytes are there.
    fn fill_to(&mut self, count: usize) {
        if self.filled.len() >= count {
            return;
        }
        self.buffer.copy_within(self.filled.clone(), 0);
        self.filled = 0..self.filled.len();
        while self.filled.len() < count && self.failure.is_none() {
            if self.filled.end == self.buffer.len() {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            match self.inflate.read(&mut self.buffer[self.filled.end..]) {
                Ok(0) => return,
                Ok(read) => self.filled.end += read,
                Err(error) => self.failure = Some(error),
            }
        }
    }

    fn advance(&mut self, count: usize) {
        self.filled.start += count;
        self.passed += count as u64;
    }
}

impl Source for Window {
    #[inline]
    fn varlong(&mut self) -> Result<i64, RecordFault> {
        self.fill_to(LONGEST);
        let (number, length) = varint::decode(&self.buffer[self.filled.clone()])?;
        self.advance(length);
        Ok(number)
    }

    #[inline]
    fn skip(&mut self, count: u64) -> Result<(), RecordFault> {
        let mut left = count;
        loop {
            let here = usize::try_from(left).unwrap_or(usize::MAX).min(self.filled.len());
            self.advance(here);
            left -= here as u64;
            if left == 0 {
                return Ok(());
            }
            self.fill_to(1);
            if self.filled.is_empty() {
                return Err(RecordFault::Truncated);
            }
        }
    }

    fn position(&self) -> u64 {
        self.passed
    }
}
