//! Compaction: of records with the same key only the last one stays.
//!
//! Kafka's rules: the last segment is left alone; offsets stay as they are; a tombstone stays for
//! `delete.retention.ms` after the first pass that saw it, so that consumers that are behind learn of the deletion.
//! A first walk over what has come since the last pass remembers the last offset of each key; a second one over
//! everything before writes the segments anew. When there are more keys than fit into memory, this is done in
//! several passes.

mod output;
mod replacement;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use batch::{BatchBuilder, BatchError, BatchHeader, RecordCursor};
use bytes::Bytes;

use crate::checkpoint::{read_numbers, write_numbers};
use crate::partition::{PartitionConfig, PartitionLog};
use crate::read::ReadError;
use crate::segment::{Segment, SegmentReader};
use output::Output;
pub(crate) use replacement::finish_replacements;
use replacement::{Replacement, replace_pending};

/// When and how far to compact.
#[derive(Debug, Clone, Copy)]
pub struct CompactOptions {
    /// The time, in milliseconds since 1970.
    pub now_ms: i64,
    /// `delete.retention.ms`: how long tombstones stay.
    pub delete_retention: Duration,
    /// `min.compaction.lag.ms`: younger records are left alone.
    pub min_lag: Duration,
    /// `max.compaction.lag.ms`: older records are compacted however few they are.
    pub max_lag: Duration,
    /// `min.cleanable.dirty.ratio`: so much of the log must be new for a pass to be worth it.
    pub min_dirty_ratio: f64,
    /// How many keys are remembered in one pass; each takes about 50 bytes.
    pub keys_max: usize,
}

impl Default for CompactOptions {
    /// Kafka's defaults, at the beginning of 1970.
    fn default() -> Self {
        Self {
            now_ms: 0,
            delete_retention: Duration::from_secs(24 * 3600),
            min_lag: Duration::ZERO,
            max_lag: Duration::MAX,
            min_dirty_ratio: 0.5,
            keys_max: 1 << 20,
        }
    }
}

/// What a compaction has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compacted {
    /// How often the keys were collected and the segments rewritten.
    pub passes: u32,
    /// Records that are gone.
    pub records_dropped: u64,
    /// The size of the compacted segments before.
    pub bytes_before: u64,
    /// Their size now.
    pub bytes_after: u64,
}

/// Why a compaction ended early. What was not replaced is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// A segment could not be read.
    #[error("read what is to be compacted")]
    Read(#[from] ReadError),
    /// The disk refused.
    #[error("write compacted segments")]
    Disk(#[from] io::Error),
    /// Records that were kept do not fit into a batch again.
    #[error("write a batch anew")]
    Batch(#[from] BatchError),
}

/// What is remembered of a partition between two compactions.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Below this offset every key is unique; `None` until it has been read from the disk.
    cleaned_to: Option<i64>,
    /// The first moment at which a tombstone may go.
    next_horizon: Option<i64>,
    /// A replacement that the disk has interrupted.
    pending: Option<Replacement>,
}

/// Compacts a partition if that is due. `None` if it is not.
pub(crate) fn compact(
    log: &PartitionLog,
    options: &CompactOptions,
) -> Result<Option<Compacted>, CompactError> {
    let mut progress = log.compacting.lock();
    if log.is_removed() {
        return Ok(None);
    }
    let path = log.dir.join("compacted");
    let mut cleaned_to = match progress.cleaned_to {
        Some(cleaned_to) => cleaned_to,
        None => read_numbers(&*log.disk, &path)?.and_then(|numbers| numbers.first().copied()).unwrap_or(0),
    };
    progress.cleaned_to = Some(cleaned_to);
    replace_pending(log, &mut progress)?;
    let segments: Vec<Segment> = {
        let tail = log.tail.lock();
        if tail.unconfirmed {
            // The checkpoint that a crash may leave takes a segment that is closed by now for the one in use, with
            // so many bytes; it must find them.
            return Ok(None);
        }
        log.state.lock().segments.iter().cloned().collect()
    };
    let Some(to) = plan(&segments, cleaned_to, progress.next_horizon, options) else { return Ok(None) };
    let config = log.state.lock().config;
    let mut done = Compacted::default();
    loop {
        let segments: Vec<Segment> = log.state.lock().segments.iter().cloned().collect();
        let segments: Vec<Segment> = segments.into_iter().take_while(|segment| segment.base < to).collect();
        let keys = LastOffsets::collect(log, &segments, cleaned_to, to, options.keys_max)?;
        let mut pass =
            Pass { log, options, keys, config, done: &mut done, progress: &mut progress, next_horizon: None };
        if pass.done.passes == 0 {
            pass.done.bytes_before = segments.iter().map(|segment| segment.bytes).sum();
        }
        for group in groups(&segments, pass.keys.to, config.segment_bytes) {
            pass.rewrite(group)?;
        }
        let next_horizon = pass.next_horizon;
        cleaned_to = pass.keys.to;
        progress.next_horizon = next_horizon;
        done.passes += 1;
        write_numbers(&*log.disk, &path, &[cleaned_to])?;
        progress.cleaned_to = Some(cleaned_to);
        if cleaned_to >= to {
            break;
        }
    }
    let state = log.state.lock();
    done.bytes_after =
        state.segments.iter().filter(|segment| segment.base < to).map(|segment| segment.bytes).sum();
    Ok(Some(done))
}

/// How far to compact, if it is worth it.
fn plan(
    segments: &[Segment],
    cleaned_to: i64,
    horizon: Option<i64>,
    options: &CompactOptions,
) -> Option<i64> {
    let (_active, closed) = segments.split_last()?;
    let before = |lag: Duration| {
        let lag = i64::try_from(lag.as_millis()).unwrap_or(i64::MAX);
        options.now_ms.saturating_sub(lag)
    };
    let young =
        |segment: &Segment| !options.min_lag.is_zero() && segment.max_timestamp > before(options.min_lag);
    let old_enough = closed.iter().position(young).unwrap_or(closed.len());
    let closed = &closed[..old_enough];
    let to = closed.last()?.end;
    let dirty = || closed.iter().filter(|segment| segment.end > cleaned_to);
    let dirty_bytes: u64 = dirty().map(|segment| segment.bytes).sum();
    let all_bytes: u64 = closed.iter().map(|segment| segment.bytes).sum();
    #[expect(clippy::cast_precision_loss, reason = "a ratio of sizes needs no more")]
    let worth_it = dirty_bytes > 0 && dirty_bytes as f64 >= options.min_dirty_ratio * all_bytes as f64;
    let overdue = dirty().any(|segment| segment.first_append_ms <= before(options.max_lag));
    let tombstones_due = horizon.is_some_and(|horizon| horizon <= options.now_ms);
    (worth_it || overdue || tombstones_due).then_some(to)
}

/// Neighbouring segments that fit into one.
fn groups(segments: &[Segment], to: i64, segment_bytes: u64) -> Vec<&[Segment]> {
    let mut groups = Vec::new();
    let mut rest = segments;
    while let Some(first) = rest.first().filter(|first| first.base < to) {
        let mut bytes = first.bytes;
        let mut count = 1;
        for segment in &rest[1..] {
            bytes += segment.bytes;
            let small = bytes <= segment_bytes && segment.end - first.base <= i64::from(i32::MAX);
            if !small || segment.base >= to {
                break;
            }
            count += 1;
        }
        let (group, after) = rest.split_at(count);
        groups.push(group);
        rest = after;
    }
    groups
}

/// The last offset of each key in a part of the log.
struct LastOffsets {
    offsets: HashMap<u128, i64>,
    hashers: [RandomState; 2],
    /// Keys of records at or behind this offset are not in here.
    to: i64,
}

impl LastOffsets {
    fn collect(
        log: &PartitionLog,
        segments: &[Segment],
        from: i64,
        to: i64,
        keys_max: usize,
    ) -> Result<Self, CompactError> {
        let mut keys =
            Self { offsets: HashMap::new(), hashers: [RandomState::new(), RandomState::new()], to };
        for segment in segments.iter().filter(|segment| segment.end > from) {
            let full = for_each_batch(log, segment, &mut |header, batch| {
                if header.last_offset() < from || header.is_control() {
                    return Ok(false);
                }
                keys.add(batch, from, keys_max)
            })?;
            if full {
                break;
            }
        }
        Ok(keys)
    }

    /// Adds the keys of a batch. `true` when no more fit.
    fn add(&mut self, batch: &Bytes, from: i64, keys_max: usize) -> Result<bool, CompactError> {
        let Ok(mut records) = RecordCursor::new(batch) else { return Ok(false) };
        while let Some(Ok(record)) = records.next_record() {
            let Some(key) = record.key.filter(|_| record.offset >= from) else { continue };
            let hash = self.hash(key);
            if self.offsets.len() >= keys_max.max(1) && !self.offsets.contains_key(&hash) {
                self.to = record.offset;
                return Ok(true);
            }
            self.offsets.insert(hash, record.offset);
        }
        Ok(false)
    }

    /// The last offset of a key, if it has been seen.
    fn last(&self, key: &[u8]) -> Option<i64> {
        self.offsets.get(&self.hash(key)).copied()
    }

    /// 128 bits with a secret of this process: two keys do not meet by chance, nor by design.
    fn hash(&self, key: &[u8]) -> u128 {
        let [a, b] = &self.hashers;
        u128::from(a.hash_one(key)) << 64 | u128::from(b.hash_one(key))
    }
}

/// One walk over the segments.
struct Pass<'a> {
    log: &'a PartitionLog,
    options: &'a CompactOptions,
    keys: LastOffsets,
    config: PartitionConfig,
    done: &'a mut Compacted,
    progress: &'a mut Progress,
    next_horizon: Option<i64>,
}

/// What becomes of a batch.
enum Fate {
    Kept,
    Rewritten(Bytes),
    Dropped,
}

impl Pass<'_> {
    /// Writes a group of segments anew as one, if that changes anything.
    fn rewrite(&mut self, group: &[Segment]) -> Result<(), CompactError> {
        let Some(first) = group.first() else { return Ok(()) };
        let (disk, dir) = (Arc::clone(&self.log.disk), self.log.dir.clone());
        let mut output = Output::create(&*disk, &dir, first, self.config.index_interval_bytes)?;
        let mut changed = group.len() > 1;
        let mut last_dropped = None;
        for segment in group {
            for_each_batch(self.log, segment, &mut |header, batch| {
                match self.fate(header, batch)? {
                    // A mark that an earlier compaction left is worth nothing between other batches.
                    Fate::Kept if header.records_count == 0 && group.len() > 1 => {
                        last_dropped = Some(*header);
                    }
                    Fate::Kept => output.push(header, batch)?,
                    Fate::Rewritten(batch) => {
                        changed = true;
                        let header = BatchHeader::parse(&batch)?;
                        output.push(&header, &batch)?;
                    }
                    Fate::Dropped => {
                        changed = true;
                        last_dropped = Some(*header);
                    }
                }
                Ok(false)
            })?;
        }
        if !changed {
            output.discard();
            return Ok(());
        }
        if output.segment.bytes == 0
            && let Some(header) = last_dropped
        {
            // A segment is not left empty, so that the log keeps its start: an emptied batch marks the place.
            let batch = BatchBuilder::keeping(&header)?.finish()?;
            output.push(&BatchHeader::parse(&batch)?, &batch)?;
        }
        let mut segment = output.finish()?;
        segment.end = group.last().map_or(segment.end, |last| last.end);
        self.progress.pending = Some(Replacement { group: group.to_vec(), segment });
        replace_pending(self.log, self.progress)
    }

    fn fate(&mut self, header: &BatchHeader, batch: &Bytes) -> Result<Fate, CompactError> {
        if header.is_control() || header.base_offset >= self.keys.to {
            return Ok(Fate::Kept);
        }
        let horizon = header.attributes.has_delete_horizon().then_some(header.base_timestamp);
        let may_go = horizon.is_some_and(|horizon| horizon <= self.options.now_ms);
        let Ok(mut records) = RecordCursor::new(batch) else { return Ok(Fate::Kept) };
        let mut keep = Vec::new();
        let mut tombstones = false;
        while let Some(record) = records.next_record() {
            // What cannot be read cannot be judged.
            let Ok(record) = record else { return Ok(Fate::Kept) };
            let stays = match record.key {
                Some(key) if record.offset < self.keys.to => {
                    let last = self.keys.last(key).is_none_or(|last| last <= record.offset);
                    tombstones |= last && record.value.is_none() && !may_go;
                    last && (record.value.is_some() || !may_go)
                }
                _ => true,
            };
            keep.push(stays);
        }
        let dropped = keep.iter().filter(|stays| !**stays).count();
        self.done.records_dropped += dropped as u64;
        if !keep.is_empty() && dropped == keep.len() {
            return Ok(Fate::Dropped);
        }
        let mut header = *header;
        let begins_horizon = tombstones && horizon.is_none();
        if begins_horizon {
            let retention = i64::try_from(self.options.delete_retention.as_millis()).unwrap_or(i64::MAX);
            header.attributes = header.attributes.with_delete_horizon(true);
            header.base_timestamp = self.options.now_ms.saturating_add(retention);
        }
        if tombstones {
            let horizon = header.base_timestamp;
            self.next_horizon = Some(self.next_horizon.map_or(horizon, |next| next.min(horizon)));
        }
        if dropped == 0 && !begins_horizon {
            return Ok(Fate::Kept);
        }
        let mut builder = BatchBuilder::keeping(&header)?;
        let mut records = RecordCursor::new(batch)?;
        for stays in keep {
            let Some(record) = records.next_record() else { break };
            if stays {
                builder.keep(&record?)?;
            }
        }
        Ok(Fate::Rewritten(builder.finish()?))
    }
}

/// Calls `each` with every batch of a segment until it says `true`, which is then given back.
fn for_each_batch(
    log: &PartitionLog,
    segment: &Segment,
    each: &mut dyn FnMut(&BatchHeader, &Bytes) -> Result<bool, CompactError>,
) -> Result<bool, CompactError> {
    let mut position = 0;
    while position < segment.bytes {
        let (read, next) = {
            let _files = log.files.read();
            SegmentReader::open(&*log.disk, &log.dir, segment)?.read(position, READ_BYTES, true)?
        };
        let mut rest = read.concat();
        while !rest.is_empty() {
            let header = BatchHeader::parse(&rest)?;
            let batch = rest.split_to(header.size());
            if each(&header, &batch)? {
                return Ok(true);
            }
        }
        position = next;
    }
    Ok(false)
}

/// How much of a segment is read at once.
const READ_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(base: i64, end: i64, bytes: u64, at: i64) -> Segment {
        Segment { end, bytes, max_timestamp: at, ..Segment::new(base, at) }
    }

    #[test]
    fn compaction_waits_until_enough_is_new() {
        let segments = [
            segment(0, 10, 500, 100),
            segment(10, 20, 300, 200),
            segment(20, 30, 200, 300),
            segment(30, 31, 9, 400),
        ];
        let half = CompactOptions { now_ms: 1000, ..CompactOptions::default() };
        assert_eq!(plan(&segments, 0, None, &half), Some(30), "all of it is new");
        assert_eq!(plan(&segments, 10, None, &half), Some(30), "half of it is");
        assert_eq!(plan(&segments, 20, None, &half), None, "a fifth is too little");
        assert_eq!(plan(&segments, 30, None, &half), None);
        let late = CompactOptions { max_lag: Duration::from_millis(700), ..half };
        assert_eq!(plan(&segments, 20, None, &late), Some(30), "but not when it is old");
        assert_eq!(plan(&segments, 30, Some(1000), &half), Some(30), "nor when tombstones may go");
        let young = CompactOptions { min_lag: Duration::from_millis(750), ..half };
        assert_eq!(plan(&segments, 0, None, &young), Some(20), "and what is young is left alone");
        assert_eq!(plan(&segments[3..], 0, None, &young), None, "the last segment never is compacted");
    }

    #[test]
    fn small_neighbours_become_one_segment() {
        let segments =
            [segment(0, 10, 50, 0), segment(10, 20, 40, 0), segment(20, 30, 60, 0), segment(30, 40, 1, 0)];
        let sizes = |to| groups(&segments, to, 100).iter().map(|group| group.len()).collect::<Vec<_>>();
        assert_eq!(sizes(40), [2, 2]);
        assert_eq!(sizes(30), [2, 1]);
        assert_eq!(sizes(5), [1]);
    }
}
