//! The records behind a head.

use bytes::Bytes;

use super::FormatError;

/// The records behind a head, as slices of the message.
pub(super) struct Records<'a> {
    message: &'a Bytes,
    from: usize,
}

impl<'a> Records<'a> {
    /// `rest` is what follows the head in `message`.
    pub(super) fn behind(message: &'a Bytes, rest: &[u8]) -> Self {
        Self { message, from: message.len() - rest.len() }
    }

    /// The next so many bytes.
    pub(super) fn next(&mut self, name: &'static str, length: u64) -> Result<Bytes, FormatError> {
        let left = self.message.len() - self.from;
        let length = usize::try_from(length).ok().filter(|&length| length <= left);
        let end = self.from + length.ok_or(FormatError::Short(name))?;
        let slice = self.message.slice(self.from..end);
        self.from = end;
        Ok(slice)
    }

    /// All have been taken.
    pub(super) fn end(self, name: &'static str) -> Result<(), FormatError> {
        all_read(name, &self.message[self.from..])
    }
}

/// Nothing is left of a message.
pub(super) fn all_read(name: &'static str, rest: &[u8]) -> Result<(), FormatError> {
    if rest.is_empty() { Ok(()) } else { Err(FormatError::Trailing(name, rest.len())) }
}
