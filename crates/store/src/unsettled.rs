//! Batches that are only in the log: where they are, and reading them there.

use std::sync::Arc;

use batch::{BatchHeader, verify_crc};
use bytes::Bytes;

use crate::limits::{READ_GAP_BYTES, READ_WINDOW_BYTES, SETTLE_GAP_BYTES};
use crate::log_file::{FRAME_HEAD_LEN, FrameHead, LogFile};
use crate::read::{ReadBatches, ReadError};
use crate::visible::Recent;

/// One partition's batches in one log file.
#[derive(Debug)]
pub(crate) struct LogRun {
    pub(crate) file: Arc<LogFile>,
    pub(crate) entries: Vec<LogEntry>,
}

/// Where a batch is in a log file. One for each batch that is not settled, so it is small.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogEntry {
    pub(crate) base_offset: i64,
    pub(crate) max_timestamp: i64,
    pub(crate) last_offset_delta: u32,
    /// Of the frame.
    pub(crate) position: u32,
    /// Of the batch.
    pub(crate) length: u32,
}

impl LogEntry {
    pub(crate) fn new(header: &BatchHeader, position: u64) -> Self {
        Self {
            base_offset: header.base_offset,
            max_timestamp: header.max_timestamp,
            last_offset_delta: u32::try_from(header.last_offset_delta).unwrap_or(0),
            position: u32::try_from(position).unwrap_or(u32::MAX),
            length: u32::try_from(header.size()).unwrap_or(u32::MAX),
        }
    }

    /// One past the batch's last offset.
    pub(crate) fn end(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta) + 1
    }

    fn frame_end(&self) -> u64 {
        u64::from(self.position) + FRAME_HEAD_LEN as u64 + u64::from(self.length)
    }
}

/// What is done with each frame that is read.
type EachFrame<'a> = dyn FnMut(&LogEntry, &FrameHead, &BatchHeader, Bytes) -> Result<(), ReadError> + 'a;

/// Gives the frame of each entry, checked, to the settler, which keeps none of them.
pub(crate) fn for_each_frame(
    file: &LogFile,
    entries: &[LogEntry],
    each: &mut EachFrame<'_>,
) -> Result<(), ReadError> {
    read_frames(file, entries, Purpose::Settle, each)
}

/// What becomes of the batches that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// They are given out, and who gets them holds them for as long as he likes.
    Read,
    /// They are copied at once.
    Settle,
}

/// Reads frames that lie close together with one call.
fn read_frames(
    file: &LogFile,
    entries: &[LogEntry],
    purpose: Purpose,
    each: &mut EachFrame<'_>,
) -> Result<(), ReadError> {
    let gap = if purpose == Purpose::Read { READ_GAP_BYTES } else { SETTLE_GAP_BYTES };
    let mut rest = entries;
    while let Some(first) = rest.first() {
        let from = u64::from(first.position);
        let mut to = first.frame_end();
        let mut used = u64::from(first.length);
        let mut together = 1;
        for entry in &rest[1..] {
            let near = u64::from(entry.position) <= to + gap;
            if !near || entry.frame_end() > from + READ_WINDOW_BYTES {
                break;
            }
            to = entry.frame_end();
            used += u64::from(entry.length);
            together += 1;
        }
        // A slice of the window keeps all of it in memory.
        let copy_out = purpose == Purpose::Read && to - from > 2 * used;
        let mut window = vec![0; usize::try_from(to - from).unwrap_or(0)];
        let read =
            file.file.read_at(from, &mut window).map_err(|source| ReadError::disk(&file.path, source))?;
        let window = Bytes::from(window).slice(..read);
        for entry in &rest[..together] {
            let at = usize::try_from(u64::from(entry.position) - from).unwrap_or(usize::MAX);
            let end = at + FRAME_HEAD_LEN + entry.length as usize;
            let frame = (end <= read).then(|| window.slice(at..end));
            let sound = frame.and_then(|frame| {
                let (head, header) = FrameHead::decode(file.salt, &frame)?;
                let batch = frame.slice(FRAME_HEAD_LEN..);
                let batch = if copy_out { Bytes::copy_from_slice(&batch) } else { batch };
                let right = header.base_offset == entry.base_offset && verify_crc(&batch).is_ok();
                right.then_some((head, header, batch))
            });
            let Some((head, header, batch)) = sound else {
                let position = u64::from(entry.position);
                return Err(ReadError::Corrupt { file: file.path.clone(), position });
            };
            each(entry, &head, &header, batch)?;
        }
        rest = &rest[together..];
    }
    Ok(())
}

/// Reads batches out of log files.
pub(crate) fn read_log(pieces: &[(Arc<LogFile>, Vec<LogEntry>)]) -> Result<ReadBatches, ReadError> {
    let first = pieces.first().and_then(|(_, entries)| entries.first());
    let mut found = ReadBatches::empty(first.map_or(0, |entry| entry.base_offset));
    for (file, entries) in pieces {
        let outcome = read_frames(file, entries, Purpose::Read, &mut |entry, _, _, batch| {
            found.bytes += batch.len();
            found.next_offset = entry.end();
            found.chunks.push(batch);
            Ok(())
        });
        match outcome {
            Ok(()) => {}
            // What comes before damage is given out; the read that begins at the damage names it.
            Err(_) if found.bytes > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// A batch that was only in the log when it was found. It may be settled since; here it stays readable.
pub(crate) enum UnsettledBatch {
    Recent(Recent),
    Log(Arc<LogFile>, LogEntry),
}

impl UnsettledBatch {
    pub(crate) fn read(self) -> Result<Bytes, ReadError> {
        match self {
            Self::Recent(recent) => Ok(recent.whole()),
            Self::Log(file, entry) => Ok(read_log(&[(file, vec![entry])])?.concat()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_as_small_as_the_limits_say() {
        assert_eq!(size_of::<LogEntry>(), 32);
    }
}
