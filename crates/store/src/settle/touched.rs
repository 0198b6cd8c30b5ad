//! The files that a settling has written to and that are not durable yet.

use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, Open};
use crate::limits::SYNC_AHEAD_MIN;

/// The files of one partition.
pub(super) struct Touched {
    files: Vec<(PathBuf, Option<Arc<dyn DiskFile>>)>,
    /// Whether they stay open until they are synced, as they do where each is synced for itself: so it tells of every write
    /// that has failed. Thousands do not. They are synced together with their file system.
    keeps_open: bool,
}

impl Touched {
    pub(super) fn new(keeps_open: bool) -> Self {
        Self { files: Vec::new(), keeps_open }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.files.clear();
    }

    /// Opens a file, makes it if it is missing, and cuts what it has beyond `size` bytes.
    pub(super) fn cut(&mut self, disk: &dyn Disk, path: PathBuf, size: u64) -> io::Result<()> {
        let file = disk.open(&path, Open::Create)?;
        shorten(&*file, size)?;
        self.add(path, &file);
        Ok(())
    }

    /// Gives a file this content, over what it held before.
    pub(super) fn write_over(&mut self, disk: &dyn Disk, path: PathBuf, content: &[u8]) -> io::Result<()> {
        let file = disk.open(&path, Open::Create)?;
        file.write_at(0, &mut [IoSlice::new(content)])?;
        shorten(&*file, content.len() as u64)?;
        self.add(path, &file);
        Ok(())
    }

    /// Writes to the end of a file that has `at` bytes that count. Says how many count then.
    pub(super) fn append(
        &mut self,
        disk: &dyn Disk,
        path: PathBuf,
        at: u64,
        bytes: &[u8],
    ) -> io::Result<u64> {
        let known = self.files.iter().find(|(known, _)| *known == path);
        let file = match known.and_then(|(_, file)| file.clone()) {
            Some(file) => file,
            None => disk.open(&path, Open::Create)?,
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

    /// Makes each durable.
    pub(super) fn sync_each(&self, disk: &dyn Disk) -> io::Result<()> {
        self.files.iter().try_for_each(|(path, file)| match file {
            Some(file) => file.sync_data(),
            None => disk.open(path, Open::Write)?.sync_data(),
        })
    }

    fn add(&mut self, path: PathBuf, file: &Arc<dyn DiskFile>) {
        self.files.push((path, self.keeps_open.then(|| Arc::clone(file))));
    }
}

fn shorten(file: &dyn DiskFile, size: u64) -> io::Result<()> {
    if file.size()? > size { file.truncate(size) } else { Ok(()) }
}
