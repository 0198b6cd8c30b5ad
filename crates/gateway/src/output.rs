//! Replies on their way to the client.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use wire::Frame;

use crate::limits::{OUTPUT_COPY, OUTPUT_SLICES, READ_MAX};

/// Bytes that wait to be written, in order: `chunks`, then `tail`.
///
/// Small pieces are copied together into `tail`; large ones, such as fetched records, are shared and let go
/// as soon as they are written.
#[derive(Debug, Default)]
pub(crate) struct Output {
    chunks: VecDeque<Bytes>,
    tail: BytesMut,
    length: usize,
    /// The last reply, if it is small, to be sent again.
    last: Vec<u8>,
}

impl Output {
    /// How many bytes wait.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds bytes behind all others.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.length += chunk.len();
        if chunk.len() < OUTPUT_COPY {
            self.tail.extend_from_slice(&chunk);
        } else {
            if !self.tail.is_empty() {
                self.chunks.push_back(self.tail.split().freeze());
            }
            self.chunks.push_back(chunk);
        }
    }

    /// Adds a reply behind all others, by a function that writes small ones straight behind what waits and gives large
    /// ones back in pieces.
    pub(crate) fn push_with(&mut self, encode: impl FnOnce(&mut BytesMut) -> Frame) {
        let before = self.tail.len();
        let frame = encode(&mut self.tail);
        self.length += self.tail.len() - before;
        for chunk in frame.into_chunks() {
            self.push(chunk);
        }
    }

    /// Notes the last `count` bytes as what [`Self::push_again`] sends, unless a part of them is shared. Says whether it has.
    pub(crate) fn note_last(&mut self, count: usize) -> bool {
        let Some(start) = self.tail.len().checked_sub(count) else { return false };
        self.last.clear();
        self.last.extend_from_slice(&self.tail[start..]);
        true
    }

    /// Adds once more what was noted last, as `change` makes it.
    pub(crate) fn push_again(&mut self, change: impl FnOnce(&mut [u8])) {
        change(&mut self.last);
        self.tail.extend_from_slice(&self.last);
        self.length += self.last.len();
    }

    /// Writes what one call takes, by a function that is given all pieces and says how many bytes it took.
    pub(crate) fn write_with(
        &mut self,
        write: impl FnOnce(&[IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.chunks.is_empty() {
            // By far the most often.
            let written = ready!(write(&[IoSlice::new(&self.tail)]))?;
            self.advance(written);
            return Poll::Ready(Ok(written));
        }
        let mut slices = [IoSlice::new(&[]); OUTPUT_SLICES];
        let mut count = 0;
        let tail = Some(&self.tail[..]).filter(|tail| !tail.is_empty());
        for (slice, bytes) in slices.iter_mut().zip(self.chunks.iter().map(|chunk| &chunk[..]).chain(tail)) {
            *slice = IoSlice::new(bytes);
            count += 1;
        }
        let written = ready!(write(&slices[..count]))?;
        self.advance(written);
        Poll::Ready(Ok(written))
    }

    fn advance(&mut self, mut written: usize) {
        self.length -= written;
        while let Some(front) = self.chunks.front_mut() {
            if written < front.len() {
                front.advance(written);
                return;
            }
            written -= front.len();
            self.chunks.pop_front();
        }
        if written == self.tail.len() {
            // Without moving its start, so that the whole of it is used again.
            self.tail.clear();
        } else {
            self.tail.advance(written);
        }
        if self.length == 0 && self.tail.capacity() > READ_MAX {
            self.rest();
        }
    }

    /// Lets go of memory that a connection without anything to do should not keep.
    pub(crate) fn rest(&mut self) {
        if self.length == 0 {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_they_came_however_few_are_taken() {
        for step in [1, 7, 4096, 1 << 20] {
            let mut output = Output::default();
            let mut expected = Vec::new();
            for i in 0..200_usize {
                let size = if i % 5 == 0 { OUTPUT_COPY + i } else { i };
                let chunk = vec![u8::try_from(i).expect("below 256"); size];
                expected.extend_from_slice(&chunk);
                output.push(chunk.into());
            }
            assert_eq!(output.len(), expected.len());
            let mut sent = Vec::new();
            while !output.is_empty() {
                let written = output
                    .write_with(|slices| {
                        let before = sent.len();
                        for slice in slices {
                            let left = step - (sent.len() - before);
                            sent.extend_from_slice(&slice[..slice.len().min(left)]);
                        }
                        Poll::Ready(Ok(sent.len() - before))
                    })
                    .map(|written| written.expect("nothing fails here"));
                assert_ne!(written, Poll::Pending);
            }
            assert!(sent == expected, "in steps of {step}");
        }
    }
}
