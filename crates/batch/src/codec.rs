use std::fmt;
use std::io::{self, Read, Write};

use bytes::Bytes;
use bytes::buf::{Buf, Reader};
use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

use crate::error::BatchError;
use crate::snappy::SnappyReader;

/// How the records of a batch are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    /// Not at all.
    #[default]
    None,
    /// gzip, RFC 1952.
    Gzip,
    /// Snappy in xerial's framing; unframed blocks are read too.
    Snappy,
    /// The LZ4 frame format.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Codec {
    /// Every codec, in the order of their ids.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The codec that a batch's attributes name by `id`.
    ///
    /// # Errors
    /// When there is none.
    pub fn from_id(id: u8) -> Result<Self, BatchError> {
        Self::ALL.get(usize::from(id)).copied().ok_or(BatchError::UnknownCodec(id))
    }

    /// The id in a batch's attributes.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Kafka's names, as in `compression.type`.
        f.write_str(match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}

/// The most that the records of one batch, or of all batches in one request, may decompress to.
///
/// A few kilobytes can claim to be gigabytes, so something must say when to stop. It is far above
/// what a producer can send by accident: Kafka's clients fill a batch to a `max.request.size` of
/// 1 MiB before compression by default, and brokers rarely allow more than 100 MiB after it.
pub const MAX_DECOMPRESSED: u64 = 256 * 1024 * 1024;

/// What the records of one request may still decompress to: one for all its batches, so that many of them cannot
/// do together what one may not.
#[derive(Debug)]
pub struct DecompressionBudget {
    left: u64,
}

impl DecompressionBudget {
    /// As much as `left` bytes.
    #[must_use]
    pub fn new(left: u64) -> Self {
        Self { left }
    }

    /// How many bytes are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Takes note of how far decompression has come, well or not.
    pub(crate) fn spend(&mut self, inflate: &Inflate) {
        self.left = inflate.left;
    }
}

impl Default for DecompressionBudget {
    /// [`MAX_DECOMPRESSED`] bytes.
    fn default() -> Self {
        Self::new(MAX_DECOMPRESSED)
    }
}

/// The level at which Kafka's clients compress with Zstandard unless told otherwise.
const ZSTD_LEVEL: i32 = 3;

/// Compresses the records of a batch.
///
/// # Errors
/// When the compressor fails, which for bytes in memory it has no reason to.
pub(crate) fn compress(codec: Codec, records: &[u8]) -> Result<Vec<u8>, BatchError> {
    let failed = |error: io::Error| BatchError::Compressed { codec, reason: error.to_string() };
    match codec {
        Codec::None => Ok(records.to_vec()),
        Codec::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(records).map_err(failed)?;
            encoder.finish().map_err(failed)
        }
        Codec::Snappy => crate::snappy::compress(records).map_err(failed),
        Codec::Lz4 => {
            // What the Java client writes; older readers know independent blocks only.
            let info = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
            let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
            encoder.write_all(records).map_err(failed)?;
            encoder.finish().map_err(|error| failed(error.into()))
        }
        Codec::Zstd => zstd::stream::encode_all(records, ZSTD_LEVEL).map_err(failed),
    }
}

/// The records of a batch as a stream of decompressed bytes, at most so many of them.
///
/// It holds one block of the codec at a time and never the whole.
pub(crate) struct Inflate {
    codec: Codec,
    decoder: Decoder,
    limit: u64,
    left: u64,
}

enum Decoder {
    None(Reader<Bytes>),
    Gzip(Box<MultiGzDecoder<Reader<Bytes>>>),
    Snappy(SnappyReader),
    Lz4(Box<FrameDecoder<Reader<Bytes>>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, Reader<Bytes>>>),
}

impl Inflate {
    /// Begins to read `packed`, which `codec` has compressed, up to `limit` bytes.
    pub(crate) fn new(codec: Codec, packed: Bytes, limit: u64) -> Result<Self, BatchError> {
        let decoder = match codec {
            Codec::None => Decoder::None(packed.reader()),
            Codec::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(packed.reader()))),
            Codec::Snappy => Decoder::Snappy(SnappyReader::new(packed)),
            Codec::Lz4 => Decoder::Lz4(Box::new(FrameDecoder::new(packed.reader()))),
            Codec::Zstd => Decoder::Zstd(Box::new(
                zstd::stream::read::Decoder::with_buffer(packed.reader())
                    .map_err(|error| BatchError::Compressed { codec, reason: error.to_string() })?,
            )),
        };
        Ok(Self { codec, decoder, limit, left: limit })
    }

    /// Reads some bytes into `into`, which must not be empty; none means the end.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> Result<usize, BatchError> {
        let read = match &mut self.decoder {
            Decoder::None(reader) => reader.read(into),
            Decoder::Gzip(reader) => reader.read(into),
            Decoder::Snappy(reader) => reader.read(into),
            Decoder::Lz4(reader) => reader.read(into),
            Decoder::Zstd(reader) => reader.read(into),
        };
        let read =
            read.map_err(|error| BatchError::Compressed { codec: self.codec, reason: error.to_string() })?;
        let left = self.left.checked_sub(read as u64);
        self.left = left.unwrap_or(0);
        left.map(|_| read).ok_or(BatchError::TooLargeDecompressed { limit: self.limit })
    }
}
