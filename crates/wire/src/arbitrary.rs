//! Values made from bytes, for property tests: bytes shrink well, so the values do too.

use bytes::Bytes;

/// Bytes that decide what a value looks like. When they are used up, everything is zero and empty.
pub struct Entropy<'a> {
    bytes: &'a [u8],
}

impl<'a> Entropy<'a> {
    /// Starts with the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The next bytes, filled up with zeros.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = N.min(self.bytes.len());
        array[..taken].copy_from_slice(&self.bytes[..taken]);
        self.bytes = &self.bytes[taken..];
        array
    }

    /// The next byte, or zero.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// Mostly short; sometimes long enough that its compact length takes two bytes.
    fn length(&mut self) -> usize {
        match self.byte() {
            byte @ 250.. => usize::from(byte) * 20,
            byte => usize::from(byte % 9),
        }
    }

    /// A text.
    pub fn text(&mut self) -> String {
        const LETTERS: [char; 8] = ['a', 'Z', '_', '.', '0', 'é', '😀', '\0'];
        (0..self.length()).map(|_| LETTERS[usize::from(self.byte() % 8)]).collect()
    }

    /// Some bytes.
    pub fn bytes(&mut self) -> Bytes {
        (0..self.length()).map(|_| self.byte()).collect()
    }
}
