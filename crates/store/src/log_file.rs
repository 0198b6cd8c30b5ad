//! The files of the one log: a head, then frames, each a small header and a record batch.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use batch::{BatchHeader, HEADER_LEN, crc_of};
use bytes::{BufMut, BytesMut};

use crate::disk::DiskFile;
use crate::{PartitionKey, TopicId};

/// Bytes before the first frame of a log file.
pub(crate) const FILE_HEAD_LEN: usize = 64;

/// Bytes before the record batch of a frame.
pub(crate) const FRAME_HEAD_LEN: usize = 56;

/// Where in a frame's head its number ends.
pub(crate) const NUMBER_END: usize = 40;

/// The part of a record batch that its own checksum does not cover: the frame's does.
const UNCOVERED: usize = 21;

const FILE_MAGIC: [u8; 8] = *b"KOHORTLG";
const FILE_VERSION: u32 = 1;
const FRAME_MAGIC: [u8; 4] = *b"KoFr";

/// An open file of the log.
#[derive(Debug)]
pub(crate) struct LogFile {
    /// The sequence number of its first frame, which names it.
    pub(crate) first: u64,
    pub(crate) salt: Salt,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Up to where its blocks are known to have been written, in this life or an earlier one.
    pub(crate) written: AtomicU64,
}

/// A secret of one log file in one of its lives, which is in every frame's head.
///
/// Without it a producer could put bytes into a record that look like a frame, and a file that is used again would
/// present them as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Salt(pub(crate) u64);

impl Salt {
    /// What every frame of the file begins with.
    fn magic(self) -> [u8; 4] {
        let [salt, _] = self.halves();
        (u32::from_be_bytes(FRAME_MAGIC) ^ salt).to_be_bytes()
    }

    /// The checksum of a frame whose bytes have this one.
    fn crc(self, crc: u32) -> u32 {
        let [_, salt] = self.halves();
        crc ^ salt
    }

    fn halves(self) -> [u32; 2] {
        let [a, b, c, d, e, f, g, h] = self.0.to_be_bytes();
        [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
    }
}

/// The first bytes of a log file.
///
/// Every file says where the log before it ended. What an older file holds beyond that was never acknowledged
/// (a failed sync, a torn tail), and whatever it lacks below that is missing: so neither can pass unnoticed. With a
/// relaxed flush, what it lacks may never have been durable; then the loss was agreed to, and is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHead {
    pub(crate) first: u64,
    /// One past the last frame of the log before this file.
    pub(crate) log_end_before: u64,
    /// One past the last frame of the log before this file that was durable when this file was made.
    pub(crate) durable_before: u64,
    pub(crate) salt: Salt,
}

impl FileHead {
    pub(crate) fn encode(&self) -> [u8; FILE_HEAD_LEN] {
        let mut bytes = [0; FILE_HEAD_LEN];
        bytes[..8].copy_from_slice(&FILE_MAGIC);
        bytes[8..12].copy_from_slice(&FILE_VERSION.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.first.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.log_end_before.to_be_bytes());
        bytes[32..40].copy_from_slice(&self.salt.0.to_be_bytes());
        bytes[40..48].copy_from_slice(&self.durable_before.to_be_bytes());
        let crc = crc_of(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<FILE_HEAD_LEN>()?;
        let sound = bytes[..8] == FILE_MAGIC
            && u32_at(bytes, 8) == FILE_VERSION
            && u32_at(bytes, 60) == crc_of(&bytes[..60]);
        sound.then(|| Self {
            first: u64_at(bytes, 16),
            log_end_before: u64_at(bytes, 24),
            durable_before: u64_at(bytes, 40),
            salt: Salt(u64_at(bytes, 32)),
        })
    }
}

/// What stands before each record batch in the log.
///
/// The sequence number grows by one from frame to frame and is never used twice, and the file's salt is in the magic
/// and in the checksum, so that neither frames left in a recycled file nor bytes of a record can pass for frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) length: u32,
    pub(crate) key: PartitionKey,
    pub(crate) sequence: u64,
    /// One past the last frame that was durable when this one was written. A bad frame below it was acknowledged.
    pub(crate) durable_end: u64,
    pub(crate) wall_ms: i64,
}

impl FrameHead {
    /// Appends the frame's head and `batch_head`, the first bytes of its batch, to `buffer`.
    pub(crate) fn encode(&self, salt: Salt, batch_head: &[u8; HEADER_LEN], buffer: &mut BytesMut) {
        let mut bytes = [0; FRAME_HEAD_LEN + HEADER_LEN];
        bytes[..4].copy_from_slice(&salt.magic());
        bytes[8..12].copy_from_slice(&self.length.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.key.partition.to_be_bytes());
        bytes[16..32].copy_from_slice(&self.key.topic.as_u128().to_be_bytes());
        bytes[32..40].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[40..48].copy_from_slice(&self.durable_end.to_be_bytes());
        bytes[48..56].copy_from_slice(&self.wall_ms.to_be_bytes());
        bytes[FRAME_HEAD_LEN..].copy_from_slice(batch_head);
        let crc = salt.crc(crc_of(&bytes[8..FRAME_HEAD_LEN + UNCOVERED]));
        bytes[4..8].copy_from_slice(&crc.to_be_bytes());
        buffer.put_slice(&bytes);
    }

    /// Reads the head of the frame at the front of `bytes`, of which it needs the frame's head and the batch's.
    /// `None` when it is not a frame, or a damaged one.
    pub(crate) fn decode(salt: Salt, bytes: &[u8]) -> Option<(Self, BatchHeader)> {
        let bytes = bytes.first_chunk::<{ FRAME_HEAD_LEN + HEADER_LEN }>()?;
        if bytes[..4] != salt.magic()
            || u32_at(bytes, 4) != salt.crc(crc_of(&bytes[8..FRAME_HEAD_LEN + UNCOVERED]))
        {
            return None;
        }
        let header = BatchHeader::parse(&bytes[FRAME_HEAD_LEN..]).ok()?;
        let topic = u128::from(u64_at(bytes, 16)) << 64 | u128::from(u64_at(bytes, 24));
        let head = Self {
            length: u32_at(bytes, 8),
            key: PartitionKey { topic: TopicId::from_u128(topic), partition: u32_at(bytes, 12) },
            sequence: u64_at(bytes, 32),
            durable_end: u64_at(bytes, 40),
            wall_ms: u64_at(bytes, 48).cast_signed(),
        };
        (header.size() == head.length as usize).then_some((head, header))
    }

    /// How many bytes the frame takes in the file.
    pub(crate) fn frame_len(&self) -> u64 {
        FRAME_HEAD_LEN as u64 + u64::from(self.length)
    }
}

/// Reads frames from one file in order, in large pieces.
#[derive(Debug)]
pub(crate) struct FrameReader {
    file: Arc<dyn DiskFile>,
    salt: Salt,
    file_len: u64,
    buffer: Vec<u8>,
    /// Where in the file the buffer begins.
    buffer_at: u64,
    filled: usize,
    chunk: usize,
    pub(crate) position: u64,
}

/// A frame whose checksums are right.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) head: FrameHead,
    pub(crate) header: BatchHeader,
    pub(crate) position: u64,
    pub(crate) batch: &'a [u8],
}

impl FrameReader {
    /// Reads the frames of a file whose head has told the salt.
    pub(crate) fn new(file: Arc<dyn DiskFile>, salt: Salt, chunk: usize) -> io::Result<Self> {
        let file_len = file.size()?;
        let position = FILE_HEAD_LEN as u64;
        Ok(Self { file, salt, file_len, buffer: Vec::new(), buffer_at: position, filled: 0, chunk, position })
    }

    /// The next frame if it is whole, undamaged and has the number `sequence`.
    pub(crate) fn next(&mut self, sequence: u64) -> io::Result<Option<Frame<'_>>> {
        let position = self.position;
        if !self.fill(position, FRAME_HEAD_LEN + HEADER_LEN)? {
            return Ok(None);
        }
        let Some((head, header)) = FrameHead::decode(self.salt, self.at(position)) else { return Ok(None) };
        if head.sequence != sequence {
            return Ok(None);
        }
        let length = FRAME_HEAD_LEN + head.length as usize;
        if !self.fill(position, length)? {
            return Ok(None);
        }
        let frame = &self.at(position)[FRAME_HEAD_LEN..length];
        if crc_of(&frame[UNCOVERED..]) != header.crc {
            return Ok(None);
        }
        self.position = position + head.frame_len();
        let batch = &self.at(position)[FRAME_HEAD_LEN..length];
        Ok(Some(Frame { head, header, position, batch }))
    }

    /// The first undamaged frame head at or behind the position and before `limit`, wherever it begins. Only the
    /// end of the log is searched like this.
    pub(crate) fn search(&mut self, limit: u64) -> io::Result<Option<(u64, FrameHead)>> {
        const HEADS: usize = FRAME_HEAD_LEN + HEADER_LEN;
        let magic = self.salt.magic();
        let mut at = self.position;
        while at < limit && self.fill(at, HEADS)? {
            let window = self.at(at);
            let starts = window.len() - HEADS + 1;
            let mut step = 0;
            while step < starts {
                // Most of it was never written.
                let block = &window[step..(step + 4096).min(starts)];
                if block.iter().fold(0, |all, byte| all | byte) == 0 {
                    step += block.len();
                    continue;
                }
                for (offset, byte) in block.iter().enumerate() {
                    if *byte == magic[0]
                        && let Some((head, _)) = FrameHead::decode(self.salt, &window[step + offset..])
                    {
                        return Ok(Some((at + (step + offset) as u64, head)));
                    }
                }
                step += block.len();
            }
            at += starts as u64;
        }
        Ok(None)
    }

    fn at(&self, position: u64) -> &[u8] {
        let from = usize::try_from(position - self.buffer_at).unwrap_or(usize::MAX);
        &self.buffer[from..self.filled]
    }

    /// Makes `len` bytes from `position` on available, if the file has them.
    fn fill(&mut self, position: u64, len: usize) -> io::Result<bool> {
        let have = (self.buffer_at + self.filled as u64).saturating_sub(position);
        if have >= len as u64 {
            return Ok(true);
        }
        // A damaged length must not make us allocate what the file does not hold.
        let left = self.file_len.saturating_sub(position);
        if left < len as u64 {
            return Ok(false);
        }
        let want = usize::try_from(left.min(self.chunk.max(len) as u64)).unwrap_or(len);
        if self.buffer.len() < want {
            self.buffer.resize(want, 0);
        }
        // What is already there moves to the front instead of being read again.
        let keep = usize::try_from(have).unwrap_or(0);
        self.buffer.copy_within(self.filled - keep..self.filled, 0);
        let read = self.file.read_at(position + have, &mut self.buffer[keep..want])?;
        self.buffer_at = position;
        self.filled = keep + read;
        Ok(self.filled >= len)
    }
}

/// The name of the log file that begins with the frame `first`.
pub(crate) fn log_path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:020}.log"))
}

/// Reads a name like `00000000004294967296.log`.
pub(crate) fn parse_name(name: &str, extension: &str) -> Option<u64> {
    let digits = name.strip_suffix(extension)?.strip_suffix('.')?;
    (digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// The first number of a run of frames that shares none with anything up to `last`, whatever of it was lost.
///
/// After a crash or a failed sync the disk may hold frames with numbers that nobody remembers. Fewer than 2^32
/// of them can be unaccounted for.
pub(crate) fn next_era(last: u64) -> u64 {
    ((last.saturating_add(1 << 20) >> 32) + 1) << 32
}

/// Writes the file's head and makes it durable.
pub(crate) fn write_head(file: &dyn DiskFile, head: FileHead) -> io::Result<()> {
    file.write_at(0, &mut [IoSlice::new(&head.encode())])?;
    file.sync_data()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(field)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(field)
}
