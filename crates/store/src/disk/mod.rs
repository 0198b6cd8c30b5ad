//! What the store needs of a file system, so that the same code runs over real files and over a disk in
//! memory that fails on demand.

mod memory;
mod real;

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

pub use memory::{Crash, Fault, FaultKind, MemoryDisk};
pub use real::RealDisk;

/// A file system.
pub trait Disk: Debug + Send + Sync {
    /// Makes a directory and those above it, if they are missing.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Opens a file for reading, or for reading and writing.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file or directory another name, replacing a file of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives the file `from` the name `to`, which another has, as [`Disk::rename`] does. Where the file system can, the
    /// other is called `from` from then on and can be written over, instead of being removed.
    fn swap(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name. Fails with `CrossesDevices` or `Unsupported` where it must be copied instead.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory with all it holds.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, sorted; what is not UTF-8 is left out.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// The file system that holds `path`, to sync all of it.
    fn file_system(&self, path: &Path) -> io::Result<Box<dyn FileSystem>>;

    /// Locks a file, which is made if missing, against every other opener until the guard is dropped.
    /// Fails with `WouldBlock` when another holds it.
    fn try_lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
}

/// All files of a file system.
pub trait FileSystem: Send + Sync {
    /// Makes everything durable that was written to it, and fails if a write has failed since this was asked for (Linux tells
    /// from 5.8 on). Who asks for it after having written may not hear of a failure that somebody else was told of.
    fn sync(&self) -> io::Result<()>;
}

/// An open file. Whoever syncs what was written must have had it open since before the write, for the same reason.
pub trait DiskFile: Debug + Send + Sync {
    /// Writes all of `slices`, one after the other, from `offset` on. The slices are used up.
    fn write_at(&self, offset: u64, slices: &mut [IoSlice<'_>]) -> io::Result<()>;

    /// Reads up to `buffer.len()` bytes; fewer only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Asks the system to begin to write a part of the file to the disk, so that a sync that comes later has less to do. The
    /// system may forget that part first when it wants memory.
    fn begin_to_sync(&self, offset: u64, len: u64);

    /// Makes what was written durable, the length included.
    fn sync_data(&self) -> io::Result<()>;

    /// Reserves space up to `len` bytes and makes the file that long.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Cuts or extends the file.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// How long the file is.
    fn size(&self) -> io::Result<u64>;
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// For reading; it must exist.
    Read,
    /// For reading and writing; it must exist.
    Write,
    /// For reading and writing; made empty if it is missing.
    Create,
    /// For reading and writing; empty, whatever was there.
    Replace,
}

/// Reads a whole file.
pub fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Open::Read)?;
    let size = usize::try_from(file.size()?).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    let mut bytes = vec![0; size];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Replaces a file so that after a crash either the old or the new content is there.
pub fn replace_file(disk: &dyn Disk, path: &Path, content: &[u8]) -> io::Result<()> {
    let staged = staged_name(path);
    let file = disk.open(&staged, Open::Replace)?;
    file.write_at(0, &mut [IoSlice::new(content)])?;
    file.sync_data()?;
    disk.rename(&staged, path)?;
    disk.sync_dir(parent(path))
}

/// Removes a file, if there is one.
pub(crate) fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The name under which the next content of `path` is written until it counts. After [`Disk::swap`] it is that of the
/// content before.
pub fn staged_name(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// Whether an error means that there is no room for more bytes.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}
