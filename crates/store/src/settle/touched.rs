//! The files that a settling has written to and that are not durable yet.

use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, Open};
use crate::limits::{SYNC_AHEAD_MIN, SYNC_EACH_FILES_MAX};

/// The files of one partition.
pub(super) struct Touched {
    paths: Vec<PathBuf>,
    /// All of them, open since before they were written, so that the sync of each tells of every write that has failed. None
    /// when they are too many for that.
    open: Option<Vec<Arc<dyn DiskFile>>>,
}

impl Touched {
    pub(super) fn new(keeps_open: bool) -> Self {
        Self { paths: Vec::new(), open: keeps_open.then(Vec::new) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether [`Self::sync_each`] will do. Otherwise the file system has to be synced.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.is_open());
    }

    /// Gives a file this content, over what it held before.
    pub(super) fn write_over(&mut self, disk: &dyn Disk, path: PathBuf, content: &[u8]) -> io::Result<()> {
        let file = disk.open(&path, Open::Create)?;
        file.write_at(0, &mut [IoSlice::new(content)])?;
        shorten(&*file, content.len() as u64)?;
        self.add(path, &file);
        Ok(())
    }

    /// Writes to the end of a file that has `at` bytes that count, and cuts what it has beyond them. Says how many count then.
    pub(super) fn append(
        &mut self,
        disk: &dyn Disk,
        path: PathBuf,
        at: u64,
        bytes: &[u8],
    ) -> io::Result<u64> {
        let known = self.paths.iter().position(|known| *known == path);
        let file = match (known, &self.open) {
            (Some(place), Some(open)) => Arc::clone(&open[place]),
            _ => disk.open(&path, Open::Create)?,
        };
        if known.is_none() {
            // More than counts was left by an attempt that did not come to its end.
            shorten(&*file, at)?;
            self.add(path, &file);
        }
        if !bytes.is_empty() {
            file.write_at(at, &mut [IoSlice::new(bytes)])?;
        }
        if bytes.len() >= SYNC_AHEAD_MIN {
            // All at once at the end would keep the log from the disk for as long as that takes.
            file.begin_to_sync(at, bytes.len() as u64);
        }
        Ok(at + bytes.len() as u64)
    }

    /// Makes each durable that is open.
    pub(super) fn sync_each(&self) -> io::Result<()> {
        self.open.iter().flatten().try_for_each(|file| file.sync_data())
    }

    fn add(&mut self, path: PathBuf, file: &Arc<dyn DiskFile>) {
        self.paths.push(path);
        match &mut self.open {
            // A partition that begins one segment after the other.
            Some(open) if open.len() >= SYNC_EACH_FILES_MAX => self.open = None,
            Some(open) => open.push(Arc::clone(file)),
            None => {}
        }
    }
}

fn shorten(file: &dyn DiskFile, size: u64) -> io::Result<()> {
    if file.size()? > size { file.truncate(size) } else { Ok(()) }
}
