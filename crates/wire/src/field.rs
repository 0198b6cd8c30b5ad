//! What a field can hold, and how each kind of value looks on the wire.

use std::fmt;

use bytes::Bytes;
use coordination::ids::TopicId;

#[cfg(test)]
use crate::arbitrary::Entropy;
use crate::error::Problem;
use crate::reader::Reader;
use crate::writer::{Writer, length32};

/// How a value is written: it depends on the message's version and on the field that holds it.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The message's version.
    pub(crate) version: i16,
    /// Whether the version has compact lengths and tagged fields (KIP-482).
    pub(crate) flexible: bool,
    /// Whether the field may be null in this version.
    pub(crate) nullable: bool,
}

/// A value that knows its bytes.
pub trait Field: Sized {
    /// The fewest bytes that any version spends on a value.
    const SMALLEST: usize;

    /// Reads a value.
    fn read(reader: &mut Reader, at: At) -> Result<Self, Problem>;

    /// Writes the value; the inverse of [`Field::read`].
    fn write(&self, writer: &mut Writer, at: At);

    /// Reads a value that may be null. A structure has a byte in front that says whether it is there;
    /// everything else has a special length.
    fn read_nullable(reader: &mut Reader, at: At) -> Result<Option<Self>, Problem> {
        match i8::read(reader, at)? {
            byte if byte < 0 => Ok(None),
            _ => Self::read(reader, at).map(Some),
        }
    }

    /// Writes a value that may be null; the inverse of [`Field::read_nullable`].
    fn write_nullable(value: Option<&Self>, writer: &mut Writer, at: At) {
        match value {
            None => (-1_i8).write(writer, at),
            Some(value) => {
                1_i8.write(writer, at);
                value.write(writer, at);
            }
        }
    }

    /// Some value that this version can carry.
    #[cfg(test)]
    fn arbitrary(entropy: &mut Entropy<'_>, at: At) -> Self;
}

macro_rules! number_field {
    ($($number:ty),*) => {$(
        impl Field for $number {
            const SMALLEST: usize = size_of::<Self>();

            #[inline]
            fn read(reader: &mut Reader, _: At) -> Result<Self, Problem> {
                reader.array().map(Self::from_be_bytes)
            }

            #[inline]
            fn write(&self, writer: &mut Writer, _: At) {
                writer.put_array(self.to_be_bytes());
            }

            #[cfg(test)]
            fn arbitrary(entropy: &mut Entropy<'_>, _: At) -> Self {
                Self::from_be_bytes(entropy.array())
            }
        }
    )*};
}

number_field!(i8, i16, i32, i64);

impl Field for f64 {
    const SMALLEST: usize = size_of::<Self>();

    fn read(reader: &mut Reader, _: At) -> Result<Self, Problem> {
        reader.array().map(Self::from_be_bytes)
    }

    fn write(&self, writer: &mut Writer, _: At) {
        writer.put_array(self.to_be_bytes());
    }

    #[cfg(test)]
    fn arbitrary(entropy: &mut Entropy<'_>, _: At) -> Self {
        // Never what is not a number, which is not even equal to itself.
        Self::from(i32::from_be_bytes(entropy.array()))
    }
}

impl Field for bool {
    const SMALLEST: usize = 1;

    #[inline]
    fn read(reader: &mut Reader, at: At) -> Result<Self, Problem> {
        i8::read(reader, at).map(|byte| byte != 0)
    }

    #[inline]
    fn write(&self, writer: &mut Writer, at: At) {
        i8::from(*self).write(writer, at);
    }

    #[cfg(test)]
    fn arbitrary(entropy: &mut Entropy<'_>, _: At) -> Self {
        entropy.byte() % 2 == 1
    }
}

/// A UUID. Zero stands for none.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub u128);

impl Uuid {
    /// What stands for no UUID.
    pub const ZERO: Self = Self(0);
}

impl From<TopicId> for Uuid {
    fn from(id: TopicId) -> Self {
        Self(id.as_u128())
    }
}

impl From<Uuid> for TopicId {
    fn from(id: Uuid) -> Self {
        Self::from_u128(id.0)
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Field for Uuid {
    const SMALLEST: usize = 16;

    #[inline]
    fn read(reader: &mut Reader, _: At) -> Result<Self, Problem> {
        reader.array().map(|bytes| Self(u128::from_be_bytes(bytes)))
    }

    #[inline]
    fn write(&self, writer: &mut Writer, _: At) {
        writer.put_array(self.0.to_be_bytes());
    }

    #[cfg(test)]
    fn arbitrary(entropy: &mut Entropy<'_>, _: At) -> Self {
        Self(u128::from_be_bytes(entropy.array()))
    }
}

impl<T: Field + Default> Field for Option<T> {
    const SMALLEST: usize = 1;

    #[inline]
    fn read(reader: &mut Reader, at: At) -> Result<Self, Problem> {
        if at.nullable { T::read_nullable(reader, at) } else { T::read(reader, at).map(Some) }
    }

    /// Where the version has no null, the type's default stands in: an empty text, an empty list.
    #[inline]
    fn write(&self, writer: &mut Writer, at: At) {
        match self {
            _ if at.nullable => T::write_nullable(self.as_ref(), writer, at),
            Some(value) => value.write(writer, at),
            None => T::default().write(writer, at),
        }
    }

    #[cfg(test)]
    fn arbitrary(entropy: &mut Entropy<'_>, at: At) -> Self {
        if at.nullable && entropy.byte().is_multiple_of(3) { None } else { Some(T::arbitrary(entropy, at)) }
    }
}

/// How wide a length is in the versions before compact lengths.
#[derive(Clone, Copy)]
enum Width {
    /// Texts.
    Two,
    /// Bytes and arrays.
    Four,
}

/// Reads a length; `None` stands for null, which Kafka reads in any length below zero.
#[inline]
fn read_length(reader: &mut Reader, at: At, width: Width) -> Result<Option<usize>, Problem> {
    if at.flexible {
        return Ok((reader.unsigned_varint()? as usize).checked_sub(1));
    }
    let length = match width {
        Width::Two => i32::from(reader.i16()?),
        Width::Four => reader.i32()?,
    };
    Ok(usize::try_from(length).ok())
}

#[inline]
fn write_length(writer: &mut Writer, at: At, width: Width, length: Option<usize>) {
    if at.flexible {
        writer.unsigned_varint(length.map_or(0, |length| length32(length + 1)));
        return;
    }
    match width {
        Width::Two => {
            let length = length.map_or(-1, |length| i16::try_from(length).unwrap_or(i16::MAX));
            length.write(writer, at);
        }
        Width::Four => {
            let length = length.map_or(-1, |length| i32::try_from(length).unwrap_or(i32::MAX));
            length.write(writer, at);
        }
    }
}

/// The longest text that Kafka and its clients read, also in the versions that could say more of its length.
pub const LONGEST_TEXT: usize = 0x7fff;

impl Field for String {
    const SMALLEST: usize = 1;

    #[inline]
    fn read(reader: &mut Reader, at: At) -> Result<Self, Problem> {
        Self::read_nullable(reader, at)?.ok_or(Problem::UnexpectedNull)
    }

    #[inline]
    fn write(&self, writer: &mut Writer, at: At) {
        // A sentence that quotes a long name can outgrow what older versions can say of its length and clients take
        // in any; its end is the part that can be spared. Of a name none can: see `encode_whole_request`.
        let text = if self.len() <= LONGEST_TEXT { self } else { writer.cut(self, LONGEST_TEXT) };
        write_length(writer, at, Width::Two, Some(text.len()));
        writer.put(text.as_bytes());
    }

    #[inline]
    fn read_nullable(reader: &mut Reader, at: At) -> Result<Option<Self>, Problem> {
        match read_length(reader, at, Width::Two)? {
            Some(length) if length > LONGEST_TEXT => Err(Problem::TextTooLong { length }),
            Some(length) => reader.text(length).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn write_nullable(value: Option<&Self>, writer: &mut Writer, at: At) {
        match value {
            Some(value) => value.write(writer, at),
            None => write_length(writer, at, Width::Two, None),
        }
    }

    #[cfg(test)]
    fn arbitrary(entropy: &mut Entropy<'_>, _: At) -> Self {
        entropy.text()
    }
}

impl Field for Bytes {
    const SMALLEST: usize = 1;

    #[inline]
    fn read(reader: &mut Reader, at: At) -> Result<Self, Problem> {
        Self::read_nullable(reader, at)?.ok_or(Problem::UnexpectedNull)
    }

    #[inline]
    fn write(&self, writer: &mut Writer, at: At) {
        write_length(writer, at, Width::Four, Some(self.len()));
        writer.share(self);
    }

    #[inline]
    fn read_nullable(reader: &mut Reader, at: At) -> Result<Option<Self>, Problem> {
        match read_length(reader, at, Width::Four)? {
            Some(length) => reader.bytes(length).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn write_nullable(value: Option<&Self>, writer: &mut Writer, at: At) {
        match value {
            Some(value) => value.write(writer, at),
            None => write_length(writer, at, Width::Four, None),
        }
    }

    #[cfg(test)]
    fn arbitrary(entropy: &mut Entropy<'_>, _: At) -> Self {
        entropy.bytes()
    }
}

/// Record batches that go out one after the other as one value, each sharing the memory it is in.
#[derive(Clone, Debug, Default)]
pub struct Records(pub Vec<Bytes>);

impl Records {
    /// How many bytes there are in all.
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Bytes::is_empty)
    }

    /// All bytes in one piece; copies unless there is only one.
    pub fn into_bytes(mut self) -> Bytes {
        if self.0.len() == 1 {
            return self.0.remove(0);
        }
        self.0.concat().into()
    }
}

/// The same bytes are the same records, wherever they are cut.
impl PartialEq for Records {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.0.iter().flatten().eq(other.0.iter().flatten())
    }
}

impl Field for Records {
    const SMALLEST: usize = 1;

    #[inline]
    fn read(reader: &mut Reader, at: At) -> Result<Self, Problem> {
        Bytes::read(reader, at).map(|bytes| Self(vec![bytes]))
    }

    #[inline]
    fn write(&self, writer: &mut Writer, at: At) {
        write_length(writer, at, Width::Four, Some(self.len()));
        for bytes in &self.0 {
            writer.share(bytes);
        }
    }

    fn read_nullable(reader: &mut Reader, at: At) -> Result<Option<Self>, Problem> {
        Ok(Bytes::read_nullable(reader, at)?.map(|bytes| Self(vec![bytes])))
    }

    fn write_nullable(value: Option<&Self>, writer: &mut Writer, at: At) {
        match value {
            Some(value) => value.write(writer, at),
            None => write_length(writer, at, Width::Four, None),
        }
    }

    #[cfg(test)]
    fn arbitrary(entropy: &mut Entropy<'_>, _: At) -> Self {
        Self((0..entropy.byte() % 4).map(|_| entropy.bytes()).collect())
    }
}

impl<T: Field> Field for Vec<T> {
    const SMALLEST: usize = 1;

    #[inline]
    fn read(reader: &mut Reader, at: At) -> Result<Self, Problem> {
        Self::read_nullable(reader, at)?.ok_or(Problem::UnexpectedNull)
    }

    #[inline]
    fn write(&self, writer: &mut Writer, at: At) {
        write_length(writer, at, Width::Four, Some(self.len()));
        let at = At { nullable: false, ..at };
        for element in self {
            element.write(writer, at);
        }
    }

    fn read_nullable(reader: &mut Reader, at: At) -> Result<Option<Self>, Problem> {
        let Some(count) = read_length(reader, at, Width::Four)? else { return Ok(None) };
        reader.claim(count, T::SMALLEST, size_of::<T>())?;
        let at = At { nullable: false, ..at };
        let mut elements = Self::with_capacity(count);
        for _ in 0..count {
            elements.push(T::read(reader, at)?);
        }
        Ok(Some(elements))
    }

    #[inline]
    fn write_nullable(value: Option<&Self>, writer: &mut Writer, at: At) {
        match value {
            Some(value) => value.write(writer, at),
            None => write_length(writer, at, Width::Four, None),
        }
    }

    #[cfg(test)]
    fn arbitrary(entropy: &mut Entropy<'_>, at: At) -> Self {
        let at = At { nullable: false, ..at };
        (0..entropy.byte() % 4).map(|_| T::arbitrary(entropy, at)).collect()
    }
}
