//! How a compacted segment takes the place of others, whatever interrupts it.

use std::io;
use std::path::{Path, PathBuf};

use super::{CompactError, Progress};
use crate::checkpoint::{read_numbers, write_numbers};
use crate::disk::{Disk, Open, remove_if_there};
use crate::partition::PartitionLog;
use crate::recovery::OpenError;
use crate::segment::{Segment, segment_path};

/// A new segment and those whose place it takes.
#[derive(Debug)]
pub(super) struct Replacement {
    pub(super) group: Vec<Segment>,
    pub(super) segment: Segment,
}

/// Puts a new segment in the place of others, so that a crash leaves either these or that. After a failure it is
/// still pending.
pub(super) fn replace_pending(log: &PartitionLog, progress: &mut Progress) -> Result<(), CompactError> {
    let Some(Replacement { group, segment }) = &progress.pending else { return Ok(()) };
    // Whoever else removes segments takes this, too; the settler only adds behind them.
    let _files = log.files.write();
    let place = |wanted: &[Segment]| {
        let state = log.state.lock();
        let at = state.segments.iter().position(|segment| Some(segment) == wanted.first());
        at.filter(|&at| state.segments.iter().skip(at).take(wanted.len()).eq(wanted.iter()))
    };
    let manifest = log.dir.join(MANIFEST);
    if place(group).is_some() {
        let bases: Vec<i64> = group.iter().map(|segment| segment.base).collect();
        write_numbers(&*log.disk, &manifest, &bases)?;
    } else if place(std::slice::from_ref(segment)).is_none() || log.is_removed() {
        // Retention was faster; what it has left is compacted another time.
        remove_if_there(&*log.disk, &manifest)?;
    }
    let mut moved = false;
    let replaced = replace(&*log.disk, &log.dir, &mut moved);
    // Once the batches have changed their place, readers must know, even if something behind that failed.
    if moved && let Some(at) = place(group) {
        let mut state = log.state.lock();
        state.segments.drain(at..at + group.len());
        state.segments.insert(at, segment.clone());
        // What is in memory is as it was before.
        while state.recent.front().is_some_and(|recent| recent.end_offset <= segment.end) {
            state.recent.pop_front();
        }
        state.files_changed();
    }
    replaced.map_err(|error| io::Error::other(error.to_string()))?;
    progress.pending = None;
    Ok(())
}

/// Names the segments that a finished `.compact` one takes the place of; its presence decides.
const MANIFEST: &str = "replacing";

pub(super) fn compact_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".compact");
    name.into()
}

/// Finishes a replacement that was decided on, or removes what is left of one that was not.
pub(crate) fn finish_replacements(disk: &dyn Disk, dir: &Path) -> Result<(), OpenError> {
    replace(disk, dir, &mut false)
}

/// As [`finish_replacements`]; says whether the new batches are in their place, however it ends.
fn replace(disk: &dyn Disk, dir: &Path, moved: &mut bool) -> Result<(), OpenError> {
    let manifest = dir.join(MANIFEST);
    let bases = read_numbers(disk, &manifest).map_err(OpenError::disk(&manifest))?;
    if let Some((first, others)) = bases.as_deref().and_then(<[i64]>::split_first) {
        // The process may have ended before the decision was durable.
        disk.sync_dir(dir).map_err(OpenError::disk(dir))?;
        // The old indexes go first: without an index a search is slow, with a wrong one it fails.
        let staged_log = compact_name(&segment_path(dir, *first, "log"));
        match disk.open(&staged_log, Open::Read) {
            Ok(_) => {
                for extension in ["index", "timeindex"] {
                    let path = segment_path(dir, *first, extension);
                    remove_if_there(disk, &path).map_err(OpenError::disk(&path))?;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(OpenError::disk(&staged_log)(error)),
        }
        for extension in ["log", "index", "timeindex"] {
            let path = segment_path(dir, *first, extension);
            match disk.rename(&compact_name(&path), &path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(OpenError::disk(&path)(error));
                }
                _ => *moved = true,
            }
        }
        for base in others {
            crate::segment_load::remove_segment(disk, dir, *base)?;
        }
        disk.sync_dir(dir).map_err(OpenError::disk(dir))?;
        disk.remove_file(&manifest).map_err(OpenError::disk(&manifest))?;
        disk.sync_dir(dir).map_err(OpenError::disk(dir))?;
    }
    let names = match disk.list(dir) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(OpenError::disk(dir)(error)),
    };
    for name in names.iter().filter(|name| name.ends_with(".compact")) {
        let path = dir.join(name);
        remove_if_there(disk, &path).map_err(OpenError::disk(&path))?;
    }
    Ok(())
}
