//! Settled files: record batches one after the other, as in Kafka, with Kafka's two sparse indexes beside them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use batch::{BatchHeader, HEADER_LEN, verify_crc};
use bytes::Bytes;

use crate::disk::{Disk, DiskFile, Open};
use crate::read::{ReadBatches, ReadError};

/// Bytes of an entry of the offset index: offset from the segment's base, position of the batch.
pub(crate) const INDEX_ENTRY: u64 = 8;

/// Bytes of an entry of the time index: timestamp, offset from the segment's base.
pub(crate) const TIME_ENTRY: u64 = 12;

/// One settled segment, as far as it has been published to readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The offset that names its files; no batch in it begins below.
    pub(crate) base: i64,
    /// One past the last offset in it.
    pub(crate) end: i64,
    pub(crate) bytes: u64,
    /// The largest timestamp in it, and the last offset of the first batch that has it.
    pub(crate) max_timestamp: i64,
    pub(crate) max_timestamp_offset: i64,
    /// When its first batch was appended: what `segment.ms` counts from.
    pub(crate) first_append_ms: i64,
    /// Nothing more will be appended to it.
    pub(crate) closed: bool,
}

impl Segment {
    pub(crate) fn new(base: i64, first_append_ms: i64) -> Self {
        Self {
            base,
            end: base,
            bytes: 0,
            max_timestamp: -1,
            max_timestamp_offset: base,
            first_append_ms,
            closed: false,
        }
    }

    /// Takes note of a batch that follows all others.
    pub(crate) fn push(&mut self, header: &BatchHeader) {
        self.end = header.last_offset() + 1;
        self.bytes += header.size() as u64;
        if header.max_timestamp > self.max_timestamp {
            self.max_timestamp = header.max_timestamp;
            self.max_timestamp_offset = header.last_offset();
        }
    }
}

/// The file of the segment that begins at `base`.
pub(crate) fn segment_path(dir: &Path, base: i64, extension: &str) -> PathBuf {
    dir.join(format!("{base:020}.{extension}"))
}

/// An open segment, for reading.
#[derive(Debug)]
pub(crate) struct SegmentReader<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    segment: &'a Segment,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
}

impl<'a> SegmentReader<'a> {
    pub(crate) fn open(disk: &'a dyn Disk, dir: &'a Path, segment: &'a Segment) -> Result<Self, ReadError> {
        let path = segment_path(dir, segment.base, "log");
        let file = disk.open(&path, Open::Read).map_err(|source| ReadError::disk(&path, source))?;
        Ok(Self { disk, dir, segment, path, file })
    }

    /// Where the first batch begins that ends at or behind `offset`; the end of the segment if there is none.
    pub(crate) fn locate(&self, offset: i64) -> Result<u64, ReadError> {
        let mut position = self.position_of(offset)?;
        while position < self.segment.bytes {
            let window = self.window(position, LOCATE_WINDOW)?;
            let mut at = 0;
            while let Some(header) = self.header(&window, position, at)? {
                if header.last_offset() >= offset {
                    return Ok(position + at as u64);
                }
                at += header.size();
            }
            if at == 0 {
                return Err(self.corrupt(position));
            }
            position += at as u64;
        }
        Ok(position)
    }

    /// Whole batches from `position` on, which a [`Self::locate`] or the end of another read has given, and where
    /// the batch behind them begins. Empty at the end of the segment, and when the first batch is larger than
    /// `max_bytes` and `at_least_one` is not asked for.
    pub(crate) fn read(
        &self,
        position: u64,
        max_bytes: usize,
        at_least_one: bool,
    ) -> Result<(ReadBatches, u64), ReadError> {
        let mut window = self.window(position, max_bytes.clamp(WINDOW_MIN, WINDOW_MAX))?;
        if position >= self.segment.bytes {
            return Ok((ReadBatches::empty(self.segment.end), position));
        }
        let Some(first) = self.header(&window, position, 0)? else { return Err(self.corrupt(position)) };
        if first.size() > max_bytes && !at_least_one {
            return Ok((ReadBatches::empty(first.base_offset), position));
        }
        if first.size() > window.len() {
            window = self.window(position, first.size())?;
            if first.size() > window.len() {
                return Err(self.corrupt(position));
            }
        }
        let mut at = 0;
        let mut next_offset = first.base_offset;
        // What comes before damage is good and is given out; the read that begins at the damage names it.
        while let Ok(Some(header)) = self.header(&window, position, at) {
            let end = at + header.size();
            if end > window.len() || (at > 0 && end > max_bytes) {
                break;
            }
            if verify_crc(&window[at..end]).is_err() || header.last_offset() < next_offset {
                if at == 0 {
                    return Err(self.corrupt(position));
                }
                break;
            }
            next_offset = header.last_offset() + 1;
            at = end;
        }
        window.truncate(at);
        Ok((ReadBatches { chunks: vec![Bytes::from(window)], bytes: at, next_offset }, position + at as u64))
    }

    /// The first batch at or behind `from` that ends at or behind `from` and whose largest timestamp is at least
    /// `timestamp`.
    pub(crate) fn find_by_time(&self, timestamp: i64, from: i64) -> Result<Option<Bytes>, ReadError> {
        let after = self.offset_before(timestamp)?.max(from);
        let mut position = self.position_of(after)?;
        while position < self.segment.bytes {
            let window = self.window(position, SCAN_WINDOW)?;
            let mut at = 0;
            while let Some(header) = self.header(&window, position, at)? {
                if header.max_timestamp >= timestamp && header.last_offset() >= from {
                    let (found, _) = self.read(position + at as u64, 0, true)?;
                    return Ok(found.chunks.into_iter().next());
                }
                at += header.size();
            }
            if at == 0 {
                return Err(self.corrupt(position));
            }
            position += at as u64;
        }
        Ok(None)
    }

    /// The largest timestamp of the batches that end at or behind `from`.
    pub(crate) fn max_timestamp(&self, from: i64) -> Result<Option<i64>, ReadError> {
        let mut largest = None;
        let mut position = self.position_of(from)?;
        while position < self.segment.bytes {
            let window = self.window(position, SCAN_WINDOW)?;
            let mut at = 0;
            while let Some(header) = self.header(&window, position, at)? {
                if header.last_offset() >= from {
                    largest = largest.max(Some(header.max_timestamp));
                }
                at += header.size();
            }
            if at == 0 {
                return Err(self.corrupt(position));
            }
            position += at as u64;
        }
        Ok(largest)
    }

    /// Where a search for `offset` begins: at the last indexed batch that does not end behind it.
    pub(crate) fn position_of(&self, offset: i64) -> Result<u64, ReadError> {
        let path = segment_path(self.dir, self.segment.base, "index");
        let relative = offset - self.segment.base;
        let found = self.search(&path, INDEX_ENTRY, |entry| i64::from(i32_at(entry, 0)) <= relative)?;
        let position = found.map_or(0, |entry| u64::try_from(i32_at(&entry, 4)).unwrap_or(0));
        Ok(if position < self.segment.bytes { position } else { 0 })
    }

    /// An offset before which no batch has `timestamp` or a later one.
    fn offset_before(&self, timestamp: i64) -> Result<i64, ReadError> {
        let path = segment_path(self.dir, self.segment.base, "timeindex");
        let found = self.search(&path, TIME_ENTRY, |entry| i64_at(entry, 0) < timestamp)?;
        Ok(found.map_or(self.segment.base, |entry| self.segment.base + i64::from(i32_at(&entry, 8))))
    }

    /// The last entry of an index for which `before` holds; it holds for all entries before that.
    fn search(
        &self,
        path: &Path,
        width: u64,
        before: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<[u8; 12]>, ReadError> {
        let file = match self.disk.open(path, Open::Read) {
            Ok(file) => file,
            // Without an index the search begins at the front.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ReadError::disk(path, source)),
        };
        let fault = |source| ReadError::disk(path, source);
        let mut low = 0;
        let mut high = file.size().map_err(fault)? / width;
        let mut found = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let mut entry = [0; 12];
            let slot = &mut entry[..usize::try_from(width).unwrap_or(12)];
            if file.read_at(middle * width, slot).map_err(fault)? < slot.len() {
                return Ok(None);
            }
            if before(slot) {
                found = Some(entry);
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(found)
    }

    /// The header at `at` of a window that begins at `position`; `None` if the window ends before it does.
    fn header(&self, window: &[u8], position: u64, at: usize) -> Result<Option<BatchHeader>, ReadError> {
        let Some(bytes) = window.get(at..at + HEADER_LEN) else { return Ok(None) };
        let here = position + at as u64;
        match BatchHeader::parse(bytes) {
            Ok(header) if here + header.size() as u64 <= self.segment.bytes => Ok(Some(header)),
            _ => Err(self.corrupt(here)),
        }
    }

    fn window(&self, position: u64, len: usize) -> Result<Vec<u8>, ReadError> {
        let left = self.segment.bytes.saturating_sub(position);
        let mut window = vec![0; usize::try_from(left.min(len as u64)).unwrap_or(len)];
        let read =
            self.file.read_at(position, &mut window).map_err(|source| ReadError::disk(&self.path, source))?;
        window.truncate(read);
        Ok(window)
    }

    fn corrupt(&self, position: u64) -> ReadError {
        ReadError::Corrupt { file: self.path.clone(), position }
    }
}

/// The least that is read at once: an index interval and a usual batch.
const WINDOW_MIN: usize = 32 << 10;

/// The most that is read at once, unless a single batch is larger.
const WINDOW_MAX: usize = 8 << 20;

/// What is read at once to walk from an index entry to a batch.
const LOCATE_WINDOW: usize = 8 << 10;

/// What a search by time reads at once.
const SCAN_WINDOW: usize = 256 << 10;

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    i32::from_be_bytes(field)
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    i64::from_be_bytes(field)
}
