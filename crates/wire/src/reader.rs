//! Reading values off a frame. No length is believed before it is compared with what is left.

use std::ops::Range;

use bytes::Bytes;

use crate::error::{DecodeError, Place, Problem};

/// What decoded elements may take beyond a multiple of the frame, so that no ordinary request is refused.
const ELEMENTS_SLACK: usize = 16 << 20;

/// How many bytes of elements one byte of a frame may become. An element that says something takes about
/// a third of its memory on the wire; one that is empty takes as little as a fortieth, and a frame full of
/// those would become gigabytes.
const ELEMENTS_PER_BYTE: usize = 4;

/// What the elements of one request may take, however large its frame: hundreds of thousands of partitions. Each
/// element is answered, and the answer can take ten times as much.
const REQUEST_ELEMENTS: usize = 32 << 20;

/// A place in a frame.
#[derive(Debug)]
pub struct Reader {
    frame: Bytes,
    position: usize,
    end: usize,
    /// How much memory array elements may still take.
    budget: usize,
    place: Option<Place>,
}

impl Reader {
    /// Starts at the first byte of `frame`.
    #[inline]
    pub fn new(frame: Bytes) -> Self {
        let end = frame.len();
        let budget = ELEMENTS_SLACK.saturating_add(end.saturating_mul(ELEMENTS_PER_BYTE));
        Self { frame, position: 0, end, budget, place: None }
    }

    /// Starts at the first byte of a request, which may come from anybody.
    #[inline]
    pub(crate) fn of_request(frame: Bytes) -> Self {
        let reader = Self::new(frame);
        Self { budget: reader.budget.min(REQUEST_ELEMENTS), ..reader }
    }

    /// How many bytes are left.
    #[inline]
    pub fn left(&self) -> usize {
        self.end - self.position
    }

    /// The rest of the frame, shared, not copied.
    pub fn rest(&mut self) -> Bytes {
        let rest = self.frame.slice(self.position..self.end);
        self.position = self.end;
        rest
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        match self.frame[self.position..self.end].first_chunk::<N>() {
            Some(bytes) => {
                self.position += N;
                Ok(*bytes)
            }
            None => Err(Problem::Truncated { wanted: N, left: self.left() }),
        }
    }

    #[inline]
    pub(crate) fn i16(&mut self) -> Result<i16, Problem> {
        self.array().map(i16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i32(&mut self) -> Result<i32, Problem> {
        self.array().map(i32::from_be_bytes)
    }

    /// An unsigned number of seven bits a byte, at most 32 bits in all.
    #[inline]
    pub(crate) fn unsigned_varint(&mut self) -> Result<u32, Problem> {
        let [first] = self.array()?;
        if first < 0x80 {
            return Ok(u32::from(first));
        }
        let mut value = u32::from(first & 0x7f);
        for shift in [7, 14, 21, 28] {
            let [byte] = self.array()?;
            // Bits beyond the 32nd fall off, as they do in Kafka.
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Problem::EndlessNumber)
    }

    /// Reads text of `length` bytes. What is not UTF-8 in it becomes U+FFFD, as in Kafka: a client whose id is
    /// in another encoding is served like any other.
    #[inline]
    pub(crate) fn text(&mut self, length: usize) -> Result<String, Problem> {
        let span = self.span(length)?;
        let bytes = self.part(span);
        Ok(match str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => String::from_utf8_lossy(bytes).into_owned(),
        })
    }

    /// Passes over `length` bytes and says where they are.
    #[inline]
    pub(crate) fn span(&mut self, length: usize) -> Result<Range<usize>, Problem> {
        let start = self.position;
        self.skip(length)?;
        Ok(start..self.position)
    }

    /// A part of the frame that [`Self::span`] has passed over.
    #[inline]
    pub(crate) fn part(&self, span: Range<usize>) -> &[u8] {
        &self.frame[span]
    }

    /// The whole frame, when all has been read.
    #[inline]
    pub(crate) fn into_frame(self) -> Bytes {
        self.frame
    }

    /// Shares `length` bytes of the frame.
    #[inline]
    pub(crate) fn bytes(&mut self, length: usize) -> Result<Bytes, Problem> {
        let span = self.span(length)?;
        Ok(self.frame.slice(span))
    }

    #[inline]
    pub(crate) fn skip(&mut self, length: usize) -> Result<(), Problem> {
        if length > self.left() {
            return Err(Problem::Truncated { wanted: length, left: self.left() });
        }
        self.position += length;
        Ok(())
    }

    /// Allows an array of `count` elements, each at least `smallest` bytes on the wire and `size` bytes in
    /// memory. To be asked before anything is allocated for them.
    #[inline]
    pub(crate) fn claim(&mut self, count: usize, smallest: usize, size: usize) -> Result<(), Problem> {
        let left = self.left();
        if count > left / smallest.max(1) {
            return Err(Problem::TooManyElements { count, left });
        }
        match self.budget.checked_sub(count.saturating_mul(size)) {
            Some(budget) => {
                self.budget = budget;
                Ok(())
            }
            None => Err(Problem::TooExpensive),
        }
    }

    /// Reads the tagged fields at the end of a structure: hands each to `known`, which reads what it knows
    /// and leaves the rest.
    #[inline]
    pub(crate) fn tagged(
        &mut self,
        mut known: impl FnMut(u32, &mut Self) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let count = self.unsigned_varint()?;
        for _ in 0..count {
            let tag = self.unsigned_varint()?;
            let size = self.unsigned_varint()? as usize;
            if size > self.left() {
                return Err(Problem::Truncated { wanted: size, left: self.left() });
            }
            let after = self.position + size;
            let end = std::mem::replace(&mut self.end, after);
            known(tag, self)?;
            self.position = after;
            self.end = end;
        }
        Ok(())
    }

    /// Remembers where `problem` was noticed. The innermost place, which comes first, is kept.
    #[cold]
    pub(crate) fn locate(
        &mut self,
        problem: Problem,
        structure: &'static str,
        field: &'static str,
    ) -> Problem {
        self.place.get_or_insert(Place { structure, field });
        problem
    }

    /// The error for a problem met while reading `structure`.
    #[cold]
    pub(crate) fn malformed(&self, problem: Problem, structure: &'static str) -> DecodeError {
        let place = self.place.unwrap_or(Place { structure, field: "tagged fields" });
        DecodeError::Malformed { problem, place }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &'static [u8]) -> Reader {
        Reader::new(Bytes::from_static(bytes))
    }

    #[test]
    fn variable_length_numbers_are_read_up_to_32_bits() {
        assert_eq!(reader(&[0]).unsigned_varint(), Ok(0));
        assert_eq!(reader(&[0x7f]).unsigned_varint(), Ok(127));
        assert_eq!(reader(&[0xac, 0x02]).unsigned_varint(), Ok(300));
        assert_eq!(reader(&[0xff, 0xff, 0xff, 0xff, 0x0f]).unsigned_varint(), Ok(u32::MAX));
        assert_eq!(
            reader(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x01]).unsigned_varint(),
            Err(Problem::EndlessNumber)
        );
        assert_eq!(reader(&[0x80]).unsigned_varint(), Err(Problem::Truncated { wanted: 1, left: 0 }));
    }

    #[test]
    fn text_that_is_not_utf_8_is_read_as_far_as_it_is() {
        assert_eq!(reader(b"ab\xff\xfec").text(5).as_deref(), Ok("ab\u{fffd}\u{fffd}c"));
        assert_eq!(reader(b"ab").text(3), Err(Problem::Truncated { wanted: 3, left: 2 }));
    }

    #[test]
    fn an_array_that_cannot_fit_is_refused_before_it_is_allocated() {
        let mut reader = reader(&[0; 8]);
        assert_eq!(
            reader.claim(usize::MAX, 1, 40),
            Err(Problem::TooManyElements { count: usize::MAX, left: 8 })
        );
        assert_eq!(reader.claim(3, 4, 4), Err(Problem::TooManyElements { count: 3, left: 8 }));
        assert_eq!(reader.claim(2, 4, 4), Ok(()));
        assert_eq!(reader.claim(8, 1, 4 << 20), Err(Problem::TooExpensive));
    }

    #[test]
    fn a_tagged_field_cannot_reach_beyond_its_size() {
        // One field with tag 5 and size 2, then a byte that belongs to what follows.
        let mut reader = reader(&[1, 5, 2, 0xaa, 0xbb, 0xcc]);
        let mut seen = Vec::new();
        let read = reader.tagged(|tag, reader| {
            seen.push((tag, reader.left()));
            assert_eq!(reader.i32(), Err(Problem::Truncated { wanted: 4, left: 2 }));
            Ok(())
        });
        assert_eq!(read, Ok(()));
        assert_eq!(seen, [(5, 2)]);
        assert_eq!(reader.array(), Ok([0xcc]));
    }
}
