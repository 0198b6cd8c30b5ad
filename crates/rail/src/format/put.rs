//! Numbers and postcard at the end of a buffer.

use postcard::ser_flavors::Flavor;
use serde::{Deserialize, Serialize};

use super::FormatError;

/// Appends `value` as postcard.
pub(super) fn put<T: Serialize + ?Sized>(
    name: &'static str,
    value: &T,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    postcard::serialize_with_flavor(value, Onto(out)).map_err(|error| FormatError::Unwritable { name, error })
}

/// Reads a value from the front of `bytes`.
pub(super) fn take<'a, T: Deserialize<'a>>(
    name: &'static str,
    bytes: &mut &'a [u8],
) -> Result<T, FormatError> {
    let (value, rest) =
        postcard::take_from_bytes(bytes).map_err(|error| FormatError::Body { name, error })?;
    *bytes = rest;
    Ok(value)
}

/// Appends a number, seven bits to the byte.
#[expect(clippy::cast_possible_truncation, reason = "the low seven bits are what is meant")]
pub(super) fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads a number from the front of `bytes`.
pub(super) fn take_number(name: &'static str, bytes: &mut &[u8]) -> Result<u64, FormatError> {
    let mut number = 0;
    for (place, &byte) in bytes.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte holds the last bit of 64.
        if place == 9 && bits > 1 {
            break;
        }
        number |= bits << (7 * place);
        if byte & 0x80 == 0 {
            *bytes = &bytes[place + 1..];
            return Ok(number);
        }
    }
    Err(FormatError::Short(name))
}

/// Reads a number that is at most `max`.
pub(super) fn take_bounded(name: &'static str, max: usize, bytes: &mut &[u8]) -> Result<u32, FormatError> {
    let number = take_number(name, bytes)?;
    match u32::try_from(number) {
        Ok(small) if usize::try_from(small).is_ok_and(|small| small <= max) => Ok(small),
        _ => Err(FormatError::Bound(name, number)),
    }
}

/// A vector as postcard wants it.
struct Onto<'a>(&'a mut Vec<u8>);

impl Flavor for Onto<'_> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}
