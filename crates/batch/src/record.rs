use bytes::Bytes;

use crate::error::RecordFault;
use crate::header::{BatchHeader, TimestampType};
use crate::varint::{Slice, Source};

/// One record, sharing the bytes it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its place in the partition.
    pub offset: i64,
    /// Milliseconds since 1970, or -1 for none.
    pub timestamp: i64,
    /// The key, if it has one.
    pub key: Option<Bytes>,
    /// The value; without one the record is a tombstone where keys matter.
    pub value: Option<Bytes>,
    /// Headers in their order; the same key may come again.
    pub headers: Vec<RecordHeader>,
}

/// One header of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordHeader {
    /// The key. Clients write UTF-8 here, and nobody checks.
    pub key: Bytes,
    /// The value, if it has one.
    pub value: Option<Bytes>,
}

/// One record, borrowed from the bytes it lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// Its place in the partition.
    pub offset: i64,
    /// Milliseconds since 1970, or -1 for none.
    pub timestamp: i64,
    /// The key, if it has one.
    pub key: Option<&'a [u8]>,
    /// The value, if it has one.
    pub value: Option<&'a [u8]>,
    /// The headers, in their order.
    pub headers: HeadersView<'a>,
}

/// The headers of a borrowed record: iterate over a copy of it for keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadersView<'a> {
    count: usize,
    encoded: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Reads the record that `body` is, without the size in front of it.
    pub(crate) fn parse(header: &BatchHeader, body: &'a [u8]) -> Result<Self, RecordFault> {
        let mut source = Slice::new(body);
        // The record's own attributes: no bit has a meaning.
        source.skip(1)?;
        let timestamp_delta = source.varlong()?;
        let offset_delta = source.varint()?;
        let key = nullable(&mut source)?;
        let value = nullable(&mut source)?;
        let count = usize::try_from(source.varint()?).map_err(|_| RecordFault::NegativeLength)?;
        let headers = HeadersView { count, encoded: source.rest() };
        for _ in 0..count {
            header_field(&mut source)?;
        }
        if !source.rest().is_empty() {
            return Err(RecordFault::Size);
        }
        Ok(Self {
            // Arithmetic wraps as Java's does: what was stored must stay readable.
            offset: header.base_offset.wrapping_add(i64::from(offset_delta)),
            timestamp: match header.timestamp_type() {
                TimestampType::CreateTime => header.base_timestamp.wrapping_add(timestamp_delta),
                TimestampType::LogAppendTime => header.max_timestamp,
            },
            key,
            value,
            headers,
        })
    }

    /// The same record, sharing `body`, which it was parsed from.
    pub(crate) fn to_owned_in(self, body: &Bytes) -> Record {
        let share = |part: Option<&[u8]>| part.map(|part| body.slice_ref(part));
        Record {
            offset: self.offset,
            timestamp: self.timestamp,
            key: share(self.key),
            value: share(self.value),
            headers: self
                .headers
                .map(|(key, value)| RecordHeader { key: body.slice_ref(key), value: share(value) })
                .collect(),
        }
    }
}

impl<'a> HeadersView<'a> {
    /// No headers.
    #[must_use]
    pub fn empty() -> Self {
        Self { count: 0, encoded: &[] }
    }

    /// The headers' bytes as they lie in a record, without their count.
    pub(crate) fn encoded(&self) -> &'a [u8] {
        self.encoded
    }
}

impl<'a> Iterator for HeadersView<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.count == 0 {
            return None;
        }
        let mut source = Slice::new(self.encoded);
        // The headers were read once before the record was given out, so this cannot fail.
        let field = header_field(&mut source).ok()?;
        self.count -= 1;
        self.encoded = source.rest();
        Some(field)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for HeadersView<'_> {}

fn header_field<'a>(source: &mut Slice<'a>) -> Result<(&'a [u8], Option<&'a [u8]>), RecordFault> {
    let key = nullable(source)?.ok_or(RecordFault::NegativeLength)?;
    Ok((key, nullable(source)?))
}

/// Bytes behind their length, of which any negative one means none, as Kafka reads it.
fn nullable<'a>(source: &mut Slice<'a>) -> Result<Option<&'a [u8]>, RecordFault> {
    match usize::try_from(source.varint()?) {
        Ok(length) => source.take(length).map(Some),
        Err(_) => Ok(None),
    }
}
