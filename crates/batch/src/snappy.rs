use std::io::{self, Read};
use std::mem;

use bytes::{Buf, Bytes};
use snap::raw::{Decoder, Encoder, decompress_len};

/// How xerial's framing begins: its name, the version it is and the oldest that can read it.
const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
const VERSION: [u8; 4] = [0, 0, 0, 1];
const FRAME_HEADER_LEN: usize = 16;

/// How much xerial's writer puts into one block.
const BLOCK: usize = 32 * 1024;

/// Snappy's best copy makes 64 bytes of 3, so a block that claims to be larger than this many times
/// its bytes lies, and nothing is allocated for it.
const MAX_RATIO: usize = 22;

/// Compresses `plain` into blocks in xerial's framing, which every Kafka client reads.
pub(crate) fn compress(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut framed = Vec::with_capacity(FRAME_HEADER_LEN + plain.len() / 2);
    framed.extend_from_slice(&MAGIC);
    framed.extend_from_slice(&VERSION);
    framed.extend_from_slice(&VERSION);
    let mut encoder = Encoder::new();
    for block in plain.chunks(BLOCK) {
        let packed = encoder.compress_vec(block)?;
        let length = u32::try_from(packed.len()).map_err(|_| bad("a block is too large"))?;
        framed.extend_from_slice(&length.to_be_bytes());
        framed.extend_from_slice(&packed);
    }
    Ok(framed)
}

/// Reads blocks in xerial's framing, or else the one block that some clients write without it.
pub(crate) struct SnappyReader {
    packed: Bytes,
    framed: bool,
    decoder: Decoder,
    block: Vec<u8>,
    /// How much of `block` was read.
    at: usize,
}

impl SnappyReader {
    pub(crate) fn new(mut packed: Bytes) -> Self {
        let framed = packed.len() >= FRAME_HEADER_LEN && packed.starts_with(&MAGIC);
        if framed {
            packed.advance(FRAME_HEADER_LEN);
        }
        Self { packed, framed, decoder: Decoder::new(), block: Vec::new(), at: 0 }
    }

    fn next_block(&mut self) -> io::Result<()> {
        let block = if self.framed {
            let length = self.packed.try_get_u32().map_err(|_| bad("a block's length is cut off"))?;
            match usize::try_from(length) {
                Ok(length) if length <= self.packed.len() => self.packed.split_to(length),
                _ => return Err(bad("a block is cut off")),
            }
        } else {
            mem::take(&mut self.packed)
        };
        let plain_len = decompress_len(&block)?;
        if plain_len > block.len().saturating_mul(MAX_RATIO) {
            return Err(bad("a block claims more than its bytes can hold"));
        }
        self.block.resize(plain_len, 0);
        let written = self.decoder.decompress(&block, &mut self.block)?;
        self.block.truncate(written);
        self.at = 0;
        Ok(())
    }
}

impl Read for SnappyReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.block.len() {
            if self.packed.is_empty() {
                return Ok(0);
            }
            self.next_block()?;
        }
        let left = &self.block[self.at..];
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

fn bad(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        SnappyReader::new(Bytes::copy_from_slice(packed)).read_to_end(&mut plain)?;
        Ok(plain)
    }

    #[test]
    fn many_blocks_come_back_as_one_stream() {
        let plain: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        assert_eq!(read_all(&compress(&plain).unwrap()).unwrap(), plain);
    }

    #[test]
    fn a_block_without_framing_is_read() {
        let packed = Encoder::new().compress_vec(b"plain and unframed").unwrap();
        assert_eq!(read_all(&packed).unwrap(), b"plain and unframed");
    }

    #[test]
    fn a_block_that_claims_gigabytes_is_refused() {
        // The length 2^31 - 1 in front of one literal byte.
        let lie = [0xff, 0xff, 0xff, 0xff, 0x07, 0x00, b'a'];
        assert!(read_all(&lie).is_err());
    }

    #[test]
    fn a_cut_anywhere_is_an_error_or_a_shorter_stream() {
        let plain = vec![7; 70_000];
        let packed = compress(&plain).unwrap();
        for cut in 0..packed.len() {
            if let Ok(read) = read_all(&packed[..cut]) {
                assert!(plain.starts_with(&read) && read.len() < plain.len());
            }
        }
    }
}
