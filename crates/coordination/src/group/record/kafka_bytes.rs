//! The bytes of Kafka's records: numbers in big endian, texts and lists behind their length.
//!
//! Two encodings of lengths exist side by side: the old one of two or four bytes, and the compact one of the
//! "flexible" versions, a number of seven bits a byte that is one more than the length and 0 for null.

use std::borrow::Cow;

/// The longest text, in bytes, that a key or an old version can hold.
pub const KAFKA_TEXT_MAX: usize = 0x7fff;

/// What a reader says when it cannot go on.
pub(in crate::group) type Problem = &'static str;

const SHORT: Problem = "it ends too early";
const NULL: Problem = "a text or a list that must be there is null";
const ENDLESS: Problem = "a length has no end";

/// A place in the bytes of a key or a value. No length is believed before it is compared with what is left.
pub(in crate::group) struct KafkaBytes<'a> {
    left: &'a [u8],
    flexible: bool,
}

impl<'a> KafkaBytes<'a> {
    pub(in crate::group) fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes, flexible: false }
    }

    /// The rest is in compact lengths.
    pub(super) fn set_flexible(&mut self) {
        self.flexible = true;
    }

    /// How many bytes have not been read.
    pub(in crate::group) fn left(&self) -> usize {
        self.left.len()
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Problem> {
        let (taken, left) = self.left.split_at_checked(length).ok_or(SHORT)?;
        self.left = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let (taken, left) = self.left.split_first_chunk().ok_or(SHORT)?;
        self.left = left;
        Ok(*taken)
    }

    pub(in crate::group) fn i16(&mut self) -> Result<i16, Problem> {
        self.array().map(i16::from_be_bytes)
    }

    pub(in crate::group) fn i32(&mut self) -> Result<i32, Problem> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, Problem> {
        self.array().map(i64::from_be_bytes)
    }

    pub(super) fn u128(&mut self) -> Result<u128, Problem> {
        self.array().map(u128::from_be_bytes)
    }

    fn unsigned_varint(&mut self) -> Result<u32, Problem> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ENDLESS)
    }

    fn compact_length(&mut self) -> Result<Option<usize>, Problem> {
        let length = self.unsigned_varint()? as usize;
        Ok(length.checked_sub(1))
    }

    /// The length of a list or of bytes; `None` is null.
    fn long_length(&mut self) -> Result<Option<usize>, Problem> {
        if self.flexible { self.compact_length() } else { Ok(usize::try_from(self.i32()?).ok()) }
    }

    /// How many elements a list has, each of which takes at least one byte.
    pub(in crate::group) fn count(&mut self) -> Result<usize, Problem> {
        let count = self.long_length()?.ok_or(NULL)?;
        if count > self.left.len() { Err(SHORT) } else { Ok(count) }
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Problem> {
        self.nullable_bytes()?.ok_or(NULL)
    }

    pub(in crate::group) fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, Problem> {
        let length = self.long_length()?;
        length.map(|length| self.take(length)).transpose()
    }

    /// What is not UTF-8 becomes U+FFFD, as in Kafka.
    pub(super) fn nullable_text(&mut self) -> Result<Option<Cow<'a, str>>, Problem> {
        let length = if self.flexible { self.compact_length()? } else { usize::try_from(self.i16()?).ok() };
        length.map(|length| self.take(length).map(String::from_utf8_lossy)).transpose()
    }

    pub(in crate::group) fn text(&mut self) -> Result<Cow<'a, str>, Problem> {
        self.nullable_text()?.ok_or(NULL)
    }

    /// Hands each tagged field to `known`; what it does not read is skipped. Old versions have none.
    pub(super) fn tagged(
        &mut self,
        mut known: impl FnMut(u32, &mut KafkaBytes<'_>) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        if !self.flexible {
            return Ok(());
        }
        for _ in 0..self.unsigned_varint()? {
            let tag = self.unsigned_varint()?;
            let size = self.unsigned_varint()? as usize;
            known(tag, &mut KafkaBytes { left: self.take(size)?, flexible: true })?;
        }
        Ok(())
    }
}

/// Appends a text behind a length of two bytes, cut to what such a length can say.
pub(in crate::group) fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(KAFKA_TEXT_MAX)];
    out.extend_from_slice(&i16::try_from(text.len()).unwrap_or(i16::MAX).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// As [`put_text`], and -1 for null.
pub(super) fn put_nullable_text(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => put_text(out, text),
        None => out.extend_from_slice(&(-1_i16).to_be_bytes()),
    }
}

/// Appends bytes behind a length of four bytes.
pub(in crate::group) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends the number of a list's elements in four bytes.
pub(in crate::group) fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&i32::try_from(count).unwrap_or(i32::MAX).to_be_bytes());
}

/// Appends a text behind a compact length.
pub(super) fn put_compact_text(out: &mut Vec<u8>, text: &str) {
    put_compact_bytes(out, text.as_bytes());
}

/// As [`put_compact_text`], and 0 for null.
pub(super) fn put_compact_nullable_text(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => put_compact_text(out, text),
        None => out.push(0),
    }
}

/// Appends bytes behind a compact length.
pub(super) fn put_compact_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_compact_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends the number of a list's elements as a compact length.
pub(super) fn put_compact_count(out: &mut Vec<u8>, count: usize) {
    let mut value = u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1);
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}
