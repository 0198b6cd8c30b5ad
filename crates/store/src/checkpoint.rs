//! The two small files of a partition of which a crash leaves either the old content or the new: how far it is settled, and where it starts.

use std::io;
use std::path::{Path, PathBuf};

use batch::{BatchHeader, crc_of};
use coordination::producer::{BatchPlace, ProducerBatch, ProducerTable};

use crate::disk::{Disk, read_file, replace_file};
use crate::segment::Segment;
use crate::segment_index::IndexState;

const CHECKPOINT_MAGIC: [u8; 8] = *b"KoSettl1";
const NUMBERS_MAGIC: [u8; 8] = *b"KoNumbr1";

/// What the settler leaves with a partition after each log file.
///
/// It counts only once it is durable. Whatever the files hold beyond what it says is of an attempt that did not
/// come to its end, and the log still has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Every batch below this offset is durable in the segment files.
    pub(crate) settled_end: i64,
    /// The last segment and how far its indexes go, if there are segments.
    pub(crate) last: Option<(Segment, IndexState)>,
    /// The producers as of that offset.
    pub(crate) producers: ProducerTable,
}

impl Checkpoint {
    pub(crate) fn path(dir: &Path) -> PathBuf {
        dir.join("producers")
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = CHECKPOINT_MAGIC.to_vec();
        bytes.extend(self.settled_end.to_be_bytes());
        bytes.push(u8::from(self.last.is_some()));
        if let Some((segment, index)) = &self.last {
            let numbers = [segment.base, segment.end, segment.max_timestamp, segment.max_timestamp_offset];
            bytes.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
            bytes.extend(segment.first_append_ms.to_be_bytes());
            bytes.push(u8::from(segment.closed));
            let numbers = [segment.bytes, index.since, index.index_len, index.time_len];
            bytes.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
            bytes.extend(index.last_time.unwrap_or(-1).to_be_bytes());
        }
        bytes.extend(self.producers.encode());
        seal(bytes)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut left = unseal(bytes, CHECKPOINT_MAGIC)?;
        let left = &mut left;
        let settled_end = i64::from_be_bytes(take(left)?);
        let [has_last] = take(left)?;
        let mut last = None;
        if has_last == 1 {
            let base = i64::from_be_bytes(take(left)?);
            let end = i64::from_be_bytes(take(left)?);
            let max_timestamp = i64::from_be_bytes(take(left)?);
            let max_timestamp_offset = i64::from_be_bytes(take(left)?);
            let first_append_ms = i64::from_be_bytes(take(left)?);
            let [closed] = take(left)?;
            let bytes = u64::from_be_bytes(take(left)?);
            let closed = closed == 1;
            let segment =
                Segment { base, end, bytes, max_timestamp, max_timestamp_offset, first_append_ms, closed };
            let index = IndexState {
                since: u64::from_be_bytes(take(left)?),
                index_len: u64::from_be_bytes(take(left)?),
                time_len: u64::from_be_bytes(take(left)?),
                last_time: Some(i64::from_be_bytes(take(left)?)).filter(|last| *last >= 0),
            };
            last = Some((segment, index));
        }
        Some(Self { settled_end, last, producers: ProducerTable::decode(left).ok()? })
    }

    /// The checkpoint in `dir`; `None` if there is none or it is damaged, in which case the batches themselves
    /// have to be read.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Option<Self>> {
        let path = Self::path(dir);
        let Some(bytes) = read_if_there(disk, &path)? else { return Ok(None) };
        let checkpoint = Self::decode(&bytes);
        if checkpoint.is_none() {
            tracing::error!(file = %path.display(), "a checkpoint is damaged; all segments are read instead");
        }
        Ok(checkpoint)
    }
}

/// Tells the table of a batch in the log, if an idempotent producer wrote it.
pub(crate) fn observe(table: &mut ProducerTable, header: &BatchHeader, wall_ms: i64) {
    if !header.has_producer() || header.base_sequence < 0 {
        return;
    }
    let batch = ProducerBatch {
        producer_id: header.producer_id,
        epoch: header.producer_epoch,
        first_sequence: header.base_sequence,
        last_sequence: header.last_sequence(),
    };
    let (base_offset, last_offset) = (header.base_offset, header.last_offset());
    table.observe(&batch, BatchPlace { base_offset, last_offset, timestamp: header.max_timestamp }, wall_ms);
}

/// Where a partition's log starts, when that is not simply at its first segment.
pub(crate) fn write_start(disk: &dyn Disk, dir: &Path, start: i64) -> io::Result<()> {
    write_numbers(disk, &start_path(dir), &[start])
}

/// The file that [`write_start`] writes.
pub(crate) fn start_path(dir: &Path) -> PathBuf {
    dir.join("start")
}

/// The start offset that [`write_start`] left in `dir`.
///
/// Nothing else knows it. To go on without it would bring deleted records back, so a file that is there and not
/// sound is an error.
pub(crate) fn read_start(disk: &dyn Disk, dir: &Path) -> io::Result<Option<i64>> {
    let path = start_path(dir);
    if let Some(numbers) = read_numbers(disk, &path)? {
        return Ok(numbers.first().copied());
    }
    match read_if_there(disk, &path)? {
        None => Ok(None),
        Some(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "the file `start` is damaged")),
    }
}

/// Replaces a file that holds a few numbers.
pub(crate) fn write_numbers(disk: &dyn Disk, path: &Path, numbers: &[i64]) -> io::Result<()> {
    replace_file(disk, path, &encode_numbers(numbers))
}

/// The content of such a file.
pub(crate) fn encode_numbers(numbers: &[i64]) -> Vec<u8> {
    let mut bytes = NUMBERS_MAGIC.to_vec();
    bytes.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    seal(bytes)
}

/// What [`write_numbers`] left; `None` if there is nothing, or nothing sound.
pub(crate) fn read_numbers(disk: &dyn Disk, path: &Path) -> io::Result<Option<Vec<i64>>> {
    let bytes = read_if_there(disk, path)?;
    let body = bytes.as_deref().and_then(|bytes| unseal(bytes, NUMBERS_MAGIC));
    let numbers = body.map(|body| body.as_chunks::<8>().0.iter().map(|number| i64::from_be_bytes(*number)));
    Ok(numbers.map(Iterator::collect))
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc_of(&bytes);
    bytes.extend(crc.to_be_bytes());
    bytes
}

fn unseal(bytes: &[u8], magic: [u8; 8]) -> Option<&[u8]> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    if u32::from_be_bytes(*crc) != crc_of(body) {
        return None;
    }
    body.strip_prefix(&magic)
}

fn take<const N: usize>(left: &mut &[u8]) -> Option<[u8; N]> {
    let (field, rest) = left.split_first_chunk::<N>()?;
    *left = rest;
    Some(*field)
}

fn read_if_there(disk: &dyn Disk, path: &Path) -> io::Result<Option<Vec<u8>>> {
    match read_file(disk, path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
