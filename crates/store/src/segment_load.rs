//! Taking stock of a partition's segment files after a start.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use batch::{BatchHeader, HEADER_LEN, verify_crc};
use coordination::producer::ProducerTable;

use crate::checkpoint::{Checkpoint, observe};
use crate::disk::{Disk, DiskFile, Open};
use crate::partition::PartitionConfig;
use crate::recovery::{Cut, OpenError, Recovery};
use crate::segment::{Segment, TIME_ENTRY, segment_path};
use crate::segment_index::{IndexState, SegmentIndexer};

/// What was found of a partition.
pub(crate) struct Loaded {
    pub(crate) segments: VecDeque<Segment>,
    /// How far the indexes of the last segment go.
    pub(crate) index: IndexState,
    pub(crate) producers: ProducerTable,
    /// More than counts was cut off the last segment, and that is not durable.
    pub(crate) torn: bool,
}

/// Finds the segments in `dir`. Those that end at or below `start` are removed.
pub(crate) fn load_segments(
    disk: &dyn Disk,
    dir: &Path,
    start: i64,
    checkpoint: Option<Checkpoint>,
    recovery: &mut Recovery,
) -> Result<Loaded, OpenError> {
    crate::compact::finish_replacements(disk, dir)?;
    let mut bases = Vec::new();
    let mut had_checkpoint = false;
    for name in disk.list(dir).map_err(OpenError::disk(dir))? {
        let path = dir.join(&name);
        had_checkpoint |= path == Checkpoint::path(dir);
        if name.ends_with(".new") {
            // Never written over: if a power failure takes a change of names back, it may be the one that counts.
            disk.remove_file(&path).map_err(OpenError::disk(&path))?;
        } else if let Some(base) = parse_segment_name(&name) {
            bases.push(base);
        }
    }
    bases.sort_unstable();
    while let [first, second, ..] = bases[..]
        && second <= start
    {
        remove_segment(disk, dir, first)?;
        bases.remove(0);
    }
    match checkpoint {
        Some(checkpoint) => load_settled(disk, dir, start, &bases, checkpoint, recovery),
        None => load_unknown(disk, dir, &bases, had_checkpoint, recovery),
    }
}

/// Takes the segments as the checkpoint says that they are.
fn load_settled(
    disk: &dyn Disk,
    dir: &Path,
    start: i64,
    bases: &[i64],
    checkpoint: Checkpoint,
    recovery: &mut Recovery,
) -> Result<Loaded, OpenError> {
    let mut segments = VecDeque::new();
    let last_base = checkpoint.last.as_ref().map_or(i64::MIN, |(last, _)| last.base);
    for (at, &base) in bases.iter().enumerate() {
        if base > last_base {
            // Of an attempt to settle that did not come to its end.
            remove_segment(disk, dir, base)?;
        } else if base < last_base {
            let next = bases.get(at + 1).copied().unwrap_or(last_base);
            if next <= start {
                remove_segment(disk, dir, base)?;
                continue;
            }
            segments.push_back(load_closed(disk, dir, base, next, recovery)?);
        }
    }
    let mut index = IndexState::default();
    let mut torn = false;
    if let Some((mut last, state)) = checkpoint.last {
        if last.end <= start {
            remove_segment(disk, dir, last.base)?;
        } else {
            let sizes = [("log", last.bytes), ("index", state.index_len), ("timeindex", state.time_len)];
            for (extension, size) in sizes {
                let path = segment_path(dir, last.base, extension);
                let found = cut_to(disk, &path, size).map_err(OpenError::disk(&path))?;
                torn |= found > size;
                if found < size {
                    damaged(recovery, &path, found);
                    // What is missing cannot be appended to; reads of it will say where it ends.
                    last.closed = true;
                }
            }
            segments.push_back(last);
            index = state;
        }
    }
    Ok(Loaded { segments, index, producers: checkpoint.producers, torn })
}

/// Reads every batch of segments of which nothing is known, writes their indexes anew and makes them durable.
///
/// If the partition `had_checkpoint`, batches behind a damaged one were settled, too. Otherwise nobody was ever told
/// that there was more than the first sound ones.
fn load_unknown(
    disk: &dyn Disk,
    dir: &Path,
    bases: &[i64],
    had_checkpoint: bool,
    recovery: &mut Recovery,
) -> Result<Loaded, OpenError> {
    let mut loaded = Loaded {
        segments: VecDeque::new(),
        index: IndexState::default(),
        producers: ProducerTable::default(),
        torn: false,
    };
    for (at, &base) in bases.iter().enumerate() {
        let path = segment_path(dir, base, "log");
        let fault = |source| OpenError::Disk { path: path.clone(), source };
        let file = disk.open(&path, Open::Write).map_err(fault)?;
        let size = file.size().map_err(fault)?;
        let mut segment = Segment::new(base, 0);
        let mut indexer = SegmentIndexer::default();
        let mut take = |segment: &mut Segment, header: &BatchHeader| {
            if segment.bytes == 0 {
                segment.first_append_ms = header.max_timestamp;
            }
            observe(&mut loaded.producers, header, header.max_timestamp);
            indexer.push(segment, header, PartitionConfig::default().index_interval_bytes);
        };
        let next = bases.get(at + 1).copied();
        let mut whole = scan(&*file, &mut segment, size, &mut take).map_err(fault)?;
        while !whole
            && had_checkpoint
            && let Some(sound) = next_sound(&*file, &segment, size).map_err(fault)?
        {
            damaged(recovery, &path, segment.bytes);
            (segment.bytes, segment.closed) = (sound, true);
            whole = scan(&*file, &mut segment, size, &mut take).map_err(fault)?;
        }
        indexer.push_time(&segment);
        if !whole && next.is_none() {
            // Nothing says that there was more.
            file.truncate(segment.bytes).map_err(fault)?;
            let (position, bytes) = (segment.bytes, Some(size - segment.bytes));
            tracing::warn!(file = %path.display(), position, ?bytes, "the torn end of a segment was cut off");
            recovery.cuts.push(Cut { file: path.clone(), position, bytes });
        } else if let (false, Some(next)) = (whole, next) {
            damaged(recovery, &path, segment.bytes);
            segment.bytes = size;
            segment.end = next;
        }
        file.sync_data().map_err(fault)?;
        for (extension, entries) in [("index", &indexer.index_entries), ("timeindex", &indexer.time_entries)]
        {
            let path = segment_path(dir, base, extension);
            let written = disk.open(&path, Open::Replace).and_then(|file| {
                file.write_at(0, &mut [IoSlice::new(entries)])?;
                file.sync_data()
            });
            written.map_err(OpenError::disk(&path))?;
        }
        if segment.bytes == 0 {
            remove_segment(disk, dir, base)?;
            continue;
        }
        if let Some(next) = next {
            segment.end = segment.end.max(next);
            segment.closed = true;
        }
        loaded.index = indexer.state;
        loaded.segments.push_back(segment);
    }
    disk.sync_dir(dir).map_err(OpenError::disk(dir))?;
    Ok(loaded)
}

/// Takes stock of a segment that another one follows.
fn load_closed(
    disk: &dyn Disk,
    dir: &Path,
    base: i64,
    next: i64,
    recovery: &mut Recovery,
) -> Result<Segment, OpenError> {
    let path = segment_path(dir, base, "log");
    let fault = |source| OpenError::Disk { path: path.clone(), source };
    let file = disk.open(&path, Open::Read).map_err(fault)?;
    let size = file.size().map_err(fault)?;
    let mut segment = Segment::new(base, 0);
    segment.closed = true;
    let last_time = last_time_entry(disk, dir, base).map_err(fault)?;
    match last_time {
        Some((timestamp, relative)) if timestamp >= 0 => {
            segment.max_timestamp = timestamp;
            segment.max_timestamp_offset = base + i64::from(relative);
            let mut head = [0; HEADER_LEN];
            let read = file.read_at(0, &mut head).map_err(fault)?;
            segment.first_append_ms =
                BatchHeader::parse(&head[..read]).map_or(0, |header| header.max_timestamp);
        }
        _ => {
            if !scan(&*file, &mut segment, size, &mut |segment, header| segment.push(header))
                .map_err(fault)?
            {
                damaged(recovery, &path, segment.bytes);
            }
        }
    }
    segment.bytes = size;
    segment.end = next;
    Ok(segment)
}

/// The last entry of a time index: the largest timestamp of a closed segment.
fn last_time_entry(disk: &dyn Disk, dir: &Path, base: i64) -> io::Result<Option<(i64, i32)>> {
    let file = match disk.open(&segment_path(dir, base, "timeindex"), Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let entries = file.size()? / TIME_ENTRY;
    if entries == 0 {
        return Ok(None);
    }
    let mut entry = [0; 12];
    file.read_at((entries - 1) * TIME_ENTRY, &mut entry)?;
    let [t0, t1, t2, t3, t4, t5, t6, t7, o0, o1, o2, o3] = entry;
    let timestamp = i64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
    Ok(Some((timestamp, i32::from_be_bytes([o0, o1, o2, o3]))))
}

/// Cuts a file that is longer than `size`, and says how long it was.
fn cut_to(disk: &dyn Disk, path: &Path, size: u64) -> io::Result<u64> {
    let file = match disk.open(path, Open::Write) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let found = file.size()?;
    if found > size {
        file.truncate(size)?;
    }
    Ok(found)
}

/// Walks over all batches and checks them. `false` if it met damage, at `segment.bytes`.
fn scan(
    file: &dyn DiskFile,
    segment: &mut Segment,
    size: u64,
    take: &mut dyn FnMut(&mut Segment, &BatchHeader),
) -> io::Result<bool> {
    let mut batch = Vec::new();
    while segment.bytes < size {
        let at = segment.bytes;
        let mut head = [0; HEADER_LEN];
        let read = file.read_at(at, &mut head)?;
        let Ok(header) = BatchHeader::parse(&head[..read]) else { return Ok(false) };
        let len = header.size();
        if at + len as u64 > size || header.base_offset < segment.end || header.last_offset_delta < 0 {
            return Ok(false);
        }
        batch.resize(len, 0);
        if file.read_at(at, &mut batch)? < len || verify_crc(&batch).is_err() {
            return Ok(false);
        }
        take(segment, &header);
    }
    Ok(true)
}

/// Where the next sound batch begins behind damage at `segment.bytes`.
fn next_sound(file: &dyn DiskFile, segment: &Segment, size: u64) -> io::Result<Option<u64>> {
    let mut window = vec![0; 1 << 20];
    let mut batch = Vec::new();
    let mut at = segment.bytes + 1;
    loop {
        let read = file.read_at(at, &mut window)?;
        let Some(starts) = (read + 1).checked_sub(HEADER_LEN).filter(|starts| *starts > 0) else {
            return Ok(None);
        };
        for (here, head) in (at..).zip(window[..read].windows(HEADER_LEN)) {
            let Ok(header) = BatchHeader::parse(head) else { continue };
            // What is skipped had fewer offsets than bytes; anything else is no batch of this segment.
            let skipped = i64::try_from(here - segment.bytes).unwrap_or(i64::MAX);
            let fits = here + header.size() as u64 <= size && header.last_offset_delta >= 0;
            if !fits || !(0..=skipped).contains(&header.base_offset.saturating_sub(segment.end)) {
                continue;
            }
            batch.resize(header.size(), 0);
            if file.read_at(here, &mut batch)? == batch.len() && verify_crc(&batch).is_ok() {
                return Ok(Some(here));
            }
        }
        at += starts as u64;
    }
}

fn damaged(recovery: &mut Recovery, path: &Path, position: u64) {
    tracing::error!(file = %path.display(), position, "a settled file is damaged");
    recovery.damage.push(format!("{} is damaged at position {position}", path.display()));
}

/// Removes a segment's files, the batches last: what has no batches is no segment.
pub(crate) fn remove_segment(disk: &dyn Disk, dir: &Path, base: i64) -> Result<(), OpenError> {
    for extension in ["index", "timeindex", "log"] {
        let path: PathBuf = segment_path(dir, base, extension);
        match disk.remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(OpenError::disk(&path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Reads a name like `00000000000000000000.log`.
pub(crate) fn parse_segment_name(name: &str) -> Option<i64> {
    crate::log_file::parse_name(name, "log").and_then(|base| i64::try_from(base).ok())
}
