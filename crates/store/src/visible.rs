//! What readers of a partition see, and where a read finds it.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use coordination::producer::ProducerTable;

use crate::log_file::LogFile;
use crate::partition::PartitionConfig;
use crate::read::{ReadBatches, ReadError};
use crate::segment::Segment;
use crate::unsettled::{LogEntry, LogRun, UnsettledBatch};

/// What readers see.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) start: i64,
    /// One past the last visible offset.
    pub(crate) end: i64,
    pub(crate) segments: VecDeque<Segment>,
    /// Every batch below is in the segments.
    pub(crate) settled_end: i64,
    /// Batches that are only in the log, by log file, oldest first.
    pub(crate) unsettled: VecDeque<LogRun>,
    pub(crate) unsettled_bytes: u64,
    /// The last batches, in memory. Always the end of the log, because the oldest leave first.
    pub(crate) recent: VecDeque<Recent>,
    pub(crate) config: PartitionConfig,
    /// The producers of all that is visible.
    pub(crate) producers: ProducerTable,
    /// Where recent reads of segments ended, so that a consumer that goes on needs no index.
    hints: [Hint; HINTS],
    next_hint: usize,
    /// Changes whenever segment files are removed or replaced, so that a read begun before leaves no hint, and no client is
    /// given what its gateway kept of them.
    pub(crate) files_version: u64,
}

/// How many consumers in different places of the segments read on without an index.
const HINTS: usize = 4;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hint {
    pub(crate) offset: i64,
    pub(crate) base: i64,
    pub(crate) position: u64,
}

/// A batch in memory: in one piece, or with its head apart from what the network delivered.
#[derive(Debug, Clone)]
pub(crate) struct Recent {
    pub(crate) base_offset: i64,
    pub(crate) end_offset: i64,
    pub(crate) head: Bytes,
    pub(crate) body: Bytes,
}

impl Recent {
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    pub(crate) fn whole(&self) -> Bytes {
        if self.body.is_empty() {
            return self.head.clone();
        }
        let mut whole = BytesMut::with_capacity(self.len());
        whole.put_slice(&self.head);
        whole.put_slice(&self.body);
        whole.freeze()
    }
}

/// Where a read finds its batches.
pub(crate) enum Place {
    Found(ReadBatches),
    Log(Vec<(Arc<LogFile>, Vec<LogEntry>)>),
    Segment { segment: Segment, hint: Option<u64>, version: u64 },
}

impl State {
    pub(crate) fn new(
        start: i64,
        settled_end: i64,
        segments: VecDeque<Segment>,
        producers: ProducerTable,
    ) -> Self {
        Self {
            start,
            end: settled_end.max(start),
            segments,
            settled_end,
            unsettled: VecDeque::new(),
            unsettled_bytes: 0,
            recent: VecDeque::new(),
            config: PartitionConfig::default(),
            producers,
            hints: [Hint::default(); HINTS],
            next_hint: 0,
            files_version: 0,
        }
    }

    pub(crate) fn recent(
        &self,
        offset: i64,
        max_bytes: usize,
        at_least_one: bool,
    ) -> Result<Option<ReadBatches>, ReadError> {
        if offset < self.start || offset > self.end {
            return Err(ReadError::OutOfRange { offset, start: self.start, end: self.end });
        }
        if offset == self.end {
            return Ok(Some(ReadBatches::empty(offset)));
        }
        if self.recent.front().is_none_or(|first| first.base_offset > offset) {
            return Ok(None);
        }
        let from = self.recent.partition_point(|recent| recent.end_offset <= offset);
        let mut found = ReadBatches::empty(offset);
        for recent in self.recent.range(from..) {
            let fits = found.bytes + recent.len() <= max_bytes || (found.bytes == 0 && at_least_one);
            if !fits {
                break;
            }
            found.bytes += recent.len();
            found.next_offset = recent.end_offset;
            found.chunks.push(recent.head.clone());
            if !recent.body.is_empty() {
                found.chunks.push(recent.body.clone());
            }
        }
        Ok(Some(found))
    }

    pub(crate) fn place(
        &self,
        offset: i64,
        max_bytes: usize,
        at_least_one: bool,
    ) -> Result<Place, ReadError> {
        if let Some(found) = self.recent(offset, max_bytes, at_least_one)? {
            return Ok(Place::Found(found));
        }
        if offset < self.settled_end
            && let Some(segment) = self.segments.get(self.segments.partition_point(|seg| seg.end <= offset))
        {
            let hint = self.hints.iter().find(|hint| hint.offset == offset && hint.base == segment.base);
            let hint = hint.filter(|hint| hint.position > 0 && hint.position < segment.bytes);
            return Ok(Place::Segment {
                segment: segment.clone(),
                hint: hint.map(|hint| hint.position),
                version: self.files_version,
            });
        }
        let mut pieces = Vec::new();
        let mut bytes = 0;
        for run in &self.unsettled {
            let from = run.entries.partition_point(|entry| entry.end() <= offset);
            let mut to = from;
            for entry in &run.entries[from..] {
                let more = bytes + entry.length as usize;
                if more > max_bytes && !(bytes == 0 && at_least_one) {
                    break;
                }
                bytes = more;
                to += 1;
            }
            if to > from {
                pieces.push((Arc::clone(&run.file), run.entries[from..to].to_vec()));
            }
            if to < run.entries.len() {
                break;
            }
        }
        if pieces.is_empty() { Ok(Place::Found(ReadBatches::empty(offset))) } else { Ok(Place::Log(pieces)) }
    }

    /// The batches that are only in the log and hold something at or behind the start.
    pub(crate) fn live_entries(&self) -> impl Iterator<Item = (&LogRun, &LogEntry)> {
        let all = self.unsettled.iter().flat_map(|run| run.entries.iter().map(move |entry| (run, entry)));
        all.filter(|(_, entry)| entry.end() > self.start)
    }

    /// One of them, from memory if it is there.
    pub(crate) fn unsettled_batch(&self, run: &LogRun, entry: &LogEntry) -> UnsettledBatch {
        let at = self.recent.partition_point(|recent| recent.end_offset <= entry.base_offset);
        match self.recent.get(at).filter(|recent| recent.base_offset == entry.base_offset) {
            Some(recent) => UnsettledBatch::Recent(recent.clone()),
            None => UnsettledBatch::Log(Arc::clone(&run.file), *entry),
        }
    }

    pub(crate) fn push_entry(&mut self, file: &Arc<LogFile>, entry: LogEntry) {
        self.end = entry.end();
        self.unsettled_bytes += u64::from(entry.length);
        match self.unsettled.back_mut() {
            Some(run) if Arc::ptr_eq(&run.file, file) => run.entries.push(entry),
            _ => self.unsettled.push_back(LogRun { file: Arc::clone(file), entries: vec![entry] }),
        }
    }

    /// Forgets where in the log files up to `last` the batches are that have been settled.
    pub(crate) fn forget_settled(&mut self, last: u64) {
        while let Some(run) = self.unsettled.front_mut().filter(|run| run.file.first <= last) {
            let settled = run.entries.partition_point(|entry| entry.end() <= self.settled_end);
            let all = settled == run.entries.len();
            let bytes = run.entries.drain(..settled).map(|entry| u64::from(entry.length)).sum::<u64>();
            self.unsettled_bytes -= bytes;
            if !all {
                return;
            }
            self.unsettled.pop_front();
        }
    }

    pub(crate) fn remember(&mut self, hint: Hint, version: u64) {
        if version == self.files_version {
            self.hints[self.next_hint] = hint;
            self.next_hint = (self.next_hint + 1) % HINTS;
        }
    }

    pub(crate) fn files_changed(&mut self) {
        self.files_version += 1;
        self.hints = [Hint::default(); HINTS];
    }
}
