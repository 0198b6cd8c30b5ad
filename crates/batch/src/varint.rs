use crate::error::RecordFault;

/// The most bytes a variable-length number of 64 bits has.
pub(crate) const LONGEST: usize = 10;

/// Reads zigzag-encoded numbers of variable length and skips what lies between them.
///
/// Records are walked by the same code whether they lie in memory or come from a decompressor.
pub(crate) trait Source {
    /// The next number.
    fn varlong(&mut self) -> Result<i64, RecordFault>;
    /// Passes over so many bytes.
    fn skip(&mut self, count: u64) -> Result<(), RecordFault>;
    /// How many bytes were read or passed over so far.
    fn position(&self) -> u64;

    /// The next number, of 32 bits.
    #[inline(always)]
    fn varint(&mut self) -> Result<i32, RecordFault> {
        i32::try_from(self.varlong()?).map_err(|_| RecordFault::Varint)
    }
}

/// A source of bytes that lie in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slice<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Slice<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], RecordFault> {
        let end = self.at.checked_add(count).ok_or(RecordFault::Truncated)?;
        let taken = self.bytes.get(self.at..end).ok_or(RecordFault::Truncated)?;
        self.at = end;
        Ok(taken)
    }

    /// What was not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }
}

impl Source for Slice<'_> {
    #[inline(always)]
    fn varlong(&mut self) -> Result<i64, RecordFault> {
        // Most numbers of a record have one byte or two; of the others the word decides at once.
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                return Ok(unzigzag(u64::from(byte)));
            }
            Some(&byte) => {
                if let Some(&next) = self.bytes.get(self.at + 1)
                    && next < 0x80
                {
                    self.at += 2;
                    return Ok(unzigzag(u64::from(byte & 0x7f) | u64::from(next) << 7));
                }
            }
            None => return Err(RecordFault::Truncated),
        }
        if let Some(word) = self.bytes[self.at..].first_chunk()
            && let Some((number, length)) = decode_word(u64::from_le_bytes(*word))
        {
            self.at += length;
            return Ok(number);
        }
        let (number, length) = decode(&self.bytes[self.at..])?;
        self.at += length;
        Ok(number)
    }

    #[inline(always)]
    fn skip(&mut self, count: u64) -> Result<(), RecordFault> {
        match usize::try_from(count) {
            Ok(count) if count <= self.bytes.len() - self.at => {
                self.at += count;
                Ok(())
            }
            _ => Err(RecordFault::Truncated),
        }
    }

    #[inline(always)]
    fn position(&self) -> u64 {
        self.at as u64
    }
}

/// The number that begins in the lowest byte of `word` and how many bytes it has, if it ends there.
#[inline(always)]
fn decode_word(word: u64) -> Option<(i64, usize)> {
    let ends = !word & 0x8080_8080_8080_8080;
    if ends == 0 {
        return None;
    }
    // All bits up to the first byte without a continuation bit, and of these seven in each byte.
    let bits = word & (ends ^ (ends - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
    let pairs = bits & 0x007f_007f_007f_007f | (bits & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    let number = fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4;
    Some((unzigzag(number), ends.trailing_zeros() as usize / 8 + 1))
}

/// The number at the front of `bytes` and how many bytes it has.
pub(crate) fn decode(bytes: &[u8]) -> Result<(i64, usize), RecordFault> {
    let mut number = 0_u64;
    for (index, &byte) in bytes.iter().take(LONGEST).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Ok((unzigzag(number), index + 1));
        }
    }
    Err(if bytes.len() < LONGEST { RecordFault::Truncated } else { RecordFault::Varint })
}

/// Appends `number` to `into`.
pub(crate) fn encode(number: i64, into: &mut Vec<u8>) {
    let mut left = zigzag(number);
    while left >= 0x80 {
        into.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    into.push((left & 0x7f) as u8);
}

/// How many bytes `number` takes.
pub(crate) fn length(number: i64) -> usize {
    let bits = 64 - (zigzag(number) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

#[inline(always)]
fn unzigzag(number: u64) -> i64 {
    ((number >> 1) ^ (number & 1).wrapping_neg()).cast_signed()
}

fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_comes_back(number: i64) {
            let mut bytes = Vec::new();
            encode(number, &mut bytes);
            prop_assert_eq!(bytes.len(), length(number));
            prop_assert_eq!(decode(&bytes), Ok((number, bytes.len())));
            for padding in [0, 8] {
                let padded = [&bytes[..], &[0xff; 8][..padding]].concat();
                let mut source = Slice::new(&padded);
                prop_assert_eq!(source.varlong(), Ok(number));
                prop_assert_eq!(source.position(), bytes.len() as u64);
            }
        }

        #[test]
        fn numbers_of_every_length_come_back(number: i64, shift in 0..64) {
            let number = number >> shift;
            let mut bytes = Vec::new();
            encode(number, &mut bytes);
            prop_assert_eq!(Slice::new(&bytes).varlong(), Ok(number));
            bytes.extend_from_slice(&[0x80; 8]);
            prop_assert_eq!(Slice::new(&bytes).varlong(), Ok(number));
        }
    }

    #[test]
    fn a_number_that_never_ends_is_refused() {
        assert_eq!(Slice::new(&[0xff; 11]).varlong(), Err(RecordFault::Varint));
        assert_eq!(Slice::new(&[0xff; 9]).varlong(), Err(RecordFault::Truncated));
        assert_eq!(Slice::new(&[]).varlong(), Err(RecordFault::Truncated));
    }
}
