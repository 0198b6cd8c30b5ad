//! A consistent copy of a running data directory.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use crate::checkpoint::{Checkpoint, encode_numbers, start_path};
use crate::disk::{Disk, Open};
use crate::local_store::{Inner, partition_dir};
use crate::partition::PartitionLog;
use crate::recovery::write_format;
use crate::segment::segment_path;
use crate::settle::SettleError;

/// What a snapshot holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// How many partitions.
    pub partitions: usize,
    /// The bytes of their batches.
    pub bytes: u64,
    /// How many files share their space with the original.
    pub linked_files: usize,
    /// How many files were copied.
    pub copied_files: usize,
}

/// Why there is no snapshot. What was written of it has no format file and so is no data directory.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The place is taken.
    #[error("{} is not empty", dest.display())]
    NotEmpty {
        /// Where the snapshot was to go.
        dest: PathBuf,
    },
    /// The log could not be settled first.
    #[error("settle what is to be copied")]
    Settle(#[from] SettleError),
    /// The disk refused.
    #[error("copy to {}", path.display())]
    Disk {
        /// What was being written.
        path: PathBuf,
        /// What the disk said.
        source: io::Error,
    },
}

/// Makes the copy. The caller has settled the log.
///
/// Nothing is settled while it is decided what belongs to the copy, so that it has all partitions as of one moment.
/// What takes long, copying the segments that are still written to, happens afterwards.
pub(crate) fn copy_settled(inner: &Inner, dest: &Path) -> Result<SnapshotSummary, SnapshotError> {
    let fault = |path: &Path| {
        let path = path.to_owned();
        move |source| SnapshotError::Disk { path, source }
    };
    let disk = &*inner.disk;
    disk.create_dir_all(dest).map_err(fault(dest))?;
    let file_system = disk.file_system(dest).map_err(fault(dest))?;
    if !disk.list(dest).map_err(fault(dest))?.is_empty() {
        return Err(SnapshotError::NotEmpty { dest: dest.to_owned() });
    }
    let live = dest.join("live");
    for path in [&dest.join("log"), &dest.join("topics"), &live] {
        disk.create_dir_all(path).map_err(fault(path))?;
    }
    let mut copy = Copy { disk, live, summary: SnapshotSummary::default(), due: Vec::new() };
    {
        let _still = inner.changing_files.write();
        for partition in inner.all_partitions() {
            let to = partition_dir(dest, partition.key);
            copy.take(&partition, &to).map_err(fault(&to))?;
        }
    }
    for due in &copy.due {
        copy_file(disk, &due.from, &due.to, due.bytes).map_err(fault(&due.to))?;
        copy.summary.copied_files += 1;
    }
    disk.remove_dir_all(&copy.live).map_err(fault(&copy.live))?;
    file_system.sync().map_err(fault(dest))?;
    // Last, because it makes the directory one that can be opened.
    write_format(disk, dest).map_err(fault(dest))?;
    Ok(copy.summary)
}

/// A copy that is being made.
struct Copy<'a> {
    disk: &'a dyn Disk,
    /// Where files that are still written to have a second name, so that they stay until they are copied.
    live: PathBuf,
    summary: SnapshotSummary,
    due: Vec<Due>,
}

/// A file of which the first bytes have to be copied.
struct Due {
    from: PathBuf,
    to: PathBuf,
    bytes: u64,
}

impl Copy<'_> {
    fn take(&mut self, partition: &PartitionLog, to: &Path) -> io::Result<()> {
        let tail = partition.tail.lock();
        // Compaction and deletion wait until every file of the partition has its second name.
        let _files = partition.files.read();
        let state = partition.state.lock();
        let (segments, start, settled_end) = (state.segments.clone(), state.start, state.settled_end);
        drop(state);
        if (settled_end == 0 && start == 0) || partition.is_removed() {
            return Ok(());
        }
        self.disk.create_dir_all(to)?;
        for (at, segment) in segments.iter().enumerate() {
            self.summary.bytes += segment.bytes;
            let grows = at + 1 == segments.len();
            let lengths =
                [("log", segment.bytes), ("index", tail.index.index_len), ("timeindex", tail.index.time_len)];
            for (extension, bytes) in lengths {
                let from = segment_path(&partition.dir, segment.base, extension);
                self.take_file(&from, segment_path(to, segment.base, extension), grows.then_some(bytes))?;
            }
        }
        let last = segments.back().map(|last| (last.clone(), tail.index));
        let checkpoint = Checkpoint { settled_end, last, producers: tail.producers.clone() };
        self.write(&Checkpoint::path(to), &checkpoint.encode())?;
        self.write(&start_path(to), &encode_numbers(&[start]))?;
        self.summary.partitions += 1;
        Ok(())
    }

    /// Gives a file its name in the copy, or, if it `grows` beyond so many bytes, has it copied later. Only a file
    /// that nobody will write to again may be shared.
    fn take_file(&mut self, from: &Path, to: PathBuf, grows: Option<u64>) -> io::Result<()> {
        let Some(bytes) = grows else {
            if self.disk.hard_link(from, &to).is_ok() {
                self.summary.linked_files += 1;
                return Ok(());
            }
            copy_file(self.disk, from, &to, u64::MAX)?;
            self.summary.copied_files += 1;
            return Ok(());
        };
        let link = self.live.join(self.due.len().to_string());
        if self.disk.hard_link(from, &link).is_ok() {
            self.due.push(Due { from: link, to, bytes });
            return Ok(());
        }
        // Another file system, perhaps: then it is copied before it can go.
        copy_file(self.disk, from, &to, bytes)?;
        self.summary.copied_files += 1;
        Ok(())
    }

    /// Writes a small file, which is synced with everything else.
    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.disk.open(path, Open::Replace)?.write_at(0, &mut [IoSlice::new(content)])
    }
}

/// Copies a file, or its first `bytes`. What is missing is found missing in the copy, too.
fn copy_file(disk: &dyn Disk, from: &Path, to: &Path, bytes: u64) -> io::Result<()> {
    let from = match disk.open(from, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let to = disk.open(to, Open::Replace)?;
    let size = from.size()?.min(bytes);
    let mut buffer = vec![0; usize::try_from(size.min(1 << 20)).unwrap_or(0)];
    let mut at = 0;
    while at < size {
        let want = usize::try_from((size - at).min(buffer.len() as u64)).unwrap_or(0);
        let read = from.read_at(at, &mut buffer[..want])?;
        if read == 0 {
            break;
        }
        to.write_at(at, &mut [IoSlice::new(&buffer[..read])])?;
        at += read as u64;
    }
    Ok(())
}
