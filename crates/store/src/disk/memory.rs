mod inode;
mod luck;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Disk, DiskFile, FileSystem, Open, parent};
use inode::Inode;
use luck::Luck;

/// A disk in memory that knows what was synced and what was only written, fails on demand, and can crash.
///
/// Clones share the same content. [`MemoryDisk::crash`] gives the disk that a machine would find after power
/// came back; whoever still uses the old one changes nothing on the new.
///
/// File data and names become durable apart: a synced file whose directory was not synced may have lost its
/// name. Names survive in the order in which they were changed, as on a file system with a journal; written
/// sectors survive in any order.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk {
    shared: Arc<Mutex<Shared>>,
}

/// Which operations count towards a [`Fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// Writes, reservations, truncations and changes of names.
    Write,
    /// Syncs of files, directories and of everything.
    Sync,
    /// Reads.
    Read,
}

/// An operation that will fail.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// What fails.
    pub kind: FaultKind,
    /// Which one, counting from 0 and from the moment the fault is set.
    pub nth: u64,
    /// How it fails.
    pub error: io::ErrorKind,
    /// Whether every later one of the kind fails too.
    pub from_then_on: bool,
}

/// What happens in a crash to bytes and names that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// All of it is lost.
    LosesAll,
    /// All of it survives.
    KeepsAll,
    /// Every sector of 512 bytes survives or not by its own luck, drawn from this seed.
    Tears(u64),
}

#[derive(Debug, Default)]
struct Shared {
    nodes: BTreeMap<PathBuf, Node>,
    /// Changes of names that no sync of a directory has made durable, oldest first.
    unsynced_names: Vec<NameChange>,
    locks: BTreeSet<PathBuf>,
    faults: Vec<(Fault, u64)>,
    /// How many operations of each kind there were; tests stop failing the n-th when there is none.
    counts: [u64; 3],
    faults_hit: u64,
    capacity: Option<u64>,
}

#[derive(Debug, Clone)]
enum Node {
    Dir,
    File(Arc<Mutex<Inode>>),
}

/// How to take a change of names back.
#[derive(Debug, Clone)]
struct NameChange {
    dirs: Vec<PathBuf>,
    before: Vec<(PathBuf, Option<Node>)>,
}

impl MemoryDisk {
    /// An empty disk without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an operation fail.
    pub fn fail(&self, fault: Fault) {
        self.shared.lock().faults.push((fault, 0));
    }

    /// Forgets all faults, hit or not.
    pub fn heal(&self) {
        let mut shared = self.shared.lock();
        shared.faults.clear();
        shared.faults_hit = 0;
    }

    /// How many operations have failed on demand since the last [`Self::heal`].
    #[must_use]
    pub fn faults_hit(&self) -> u64 {
        self.shared.lock().faults_hit
    }

    /// How many operations of a kind there have been.
    #[must_use]
    pub fn operations(&self, kind: FaultKind) -> u64 {
        self.shared.lock().counts[kind as usize]
    }

    /// Bounds what all files together may hold; beyond it writes fail as on a full disk.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.lock().capacity = bytes;
    }

    /// How many bytes all files hold together.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.shared.lock().used()
    }

    /// Changes bytes of a file behind the back of whoever uses it, durably.
    pub fn corrupt(&self, path: &Path, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let inode = self.shared.lock().file(path)?;
        let mut inode = inode.lock();
        match inode.content.get_mut(offset..offset + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// The disk as the next start would find it if the power failed now.
    #[must_use]
    pub fn crash(&self, crash: Crash) -> Self {
        let mut luck = Luck::new(crash);
        let shared = self.shared.lock();
        let mut nodes = shared.nodes.clone();
        let kept = luck.prefix(shared.unsynced_names.len());
        for change in shared.unsynced_names[kept..].iter().rev() {
            for (path, before) in &change.before {
                match before {
                    Some(node) => nodes.insert(path.clone(), node.clone()),
                    None => nodes.remove(path),
                };
            }
        }
        // A file with two names is one file.
        let mut survivors: Vec<[Arc<Mutex<Inode>>; 2]> = Vec::new();
        for node in nodes.values_mut() {
            if let Node::File(old) = node {
                let known = survivors.iter().find(|[before, _]| Arc::ptr_eq(before, old));
                let survivor = match known {
                    Some([_, after]) => Arc::clone(after),
                    None => Arc::new(Mutex::new(old.lock().after_crash(&mut luck))),
                };
                survivors.push([Arc::clone(old), Arc::clone(&survivor)]);
                *node = Node::File(survivor);
            }
        }
        Self {
            shared: Arc::new(Mutex::new(Shared { nodes, capacity: shared.capacity, ..Shared::default() })),
        }
    }
}

impl Shared {
    /// Counts an operation, and fails it if a fault says so.
    fn count(&mut self, kind: FaultKind) -> io::Result<()> {
        self.counts[kind as usize] += 1;
        for (fault, seen) in &mut self.faults {
            if fault.kind != kind {
                continue;
            }
            let at = *seen;
            *seen += 1;
            if at == fault.nth || (fault.from_then_on && at > fault.nth) {
                self.faults_hit += 1;
                return Err(fault.error.into());
            }
        }
        Ok(())
    }

    fn used(&self) -> u64 {
        let size = |node: &Node| match node {
            Node::Dir => 0,
            Node::File(inode) => inode.lock().content.len() as u64,
        };
        self.nodes.values().map(size).sum()
    }

    fn file(&self, path: &Path) -> io::Result<Arc<Mutex<Inode>>> {
        match self.nodes.get(path) {
            Some(Node::File(inode)) => Ok(Arc::clone(inode)),
            Some(Node::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Changes what names stand for, remembering how to take it back.
    fn change_names(&mut self, changes: Vec<(PathBuf, Option<Node>)>) {
        let mut before = Vec::new();
        let mut dirs = Vec::new();
        for (path, node) in changes {
            dirs.push(parent(&path).to_owned());
            let old = match node {
                Some(node) => self.nodes.insert(path.clone(), node),
                None => self.nodes.remove(&path),
            };
            before.push((path, old));
        }
        before.reverse();
        self.unsynced_names.push(NameChange { dirs, before });
    }

    fn below(&self, path: &Path) -> Vec<(PathBuf, Node)> {
        self.nodes
            .iter()
            .filter(|(name, _)| name.starts_with(path))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect()
    }
}

impl Disk for MemoryDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut shared = self.shared.lock();
        let missing: Vec<_> =
            path.ancestors().filter(|dir| !shared.nodes.contains_key(*dir)).map(Path::to_owned).collect();
        for dir in missing.into_iter().rev() {
            shared.count(FaultKind::Write)?;
            shared.change_names(vec![(dir, Some(Node::Dir))]);
        }
        Ok(())
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut shared = self.shared.lock();
        let inode = match (shared.file(path), how) {
            (Ok(inode), Open::Read | Open::Write | Open::Create) => inode,
            (Ok(inode), Open::Replace) => {
                shared.count(FaultKind::Write)?;
                inode.lock().set_len(0);
                inode
            }
            (Err(error), Open::Create | Open::Replace) if error.kind() == io::ErrorKind::NotFound => {
                shared.count(FaultKind::Write)?;
                if !matches!(shared.nodes.get(parent(path)), Some(Node::Dir)) {
                    return Err(error);
                }
                let inode = Arc::new(Mutex::new(Inode::default()));
                shared.change_names(vec![(path.to_owned(), Some(Node::File(Arc::clone(&inode))))]);
                inode
            }
            (Err(error), _) => return Err(error),
        };
        Ok(Arc::new(MemoryFile { inode, shared: Arc::clone(&self.shared) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut shared = self.shared.lock();
        shared.count(FaultKind::Write)?;
        let moved = shared.below(from);
        if moved.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut changes = Vec::new();
        for (name, node) in moved {
            let rest = name.strip_prefix(from).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
            let target = if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) };
            changes.push((name.clone(), None));
            changes.push((target, Some(node)));
        }
        shared.change_names(changes);
        Ok(())
    }

    fn swap(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut shared = self.shared.lock();
        shared.count(FaultKind::Write)?;
        let first = Node::File(shared.file(from)?);
        let second = shared.file(to).ok().map(Node::File);
        shared.change_names(vec![(from.to_owned(), second), (to.to_owned(), Some(first))]);
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut shared = self.shared.lock();
        shared.count(FaultKind::Write)?;
        let inode = shared.file(from)?;
        shared.change_names(vec![(to.to_owned(), Some(Node::File(inode)))]);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut shared = self.shared.lock();
        shared.count(FaultKind::Write)?;
        shared.file(path)?;
        shared.change_names(vec![(path.to_owned(), None)]);
        Ok(())
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut shared = self.shared.lock();
        shared.count(FaultKind::Write)?;
        let gone = shared.below(path);
        if gone.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        // From the leaves up and one by one: a crash can come between any two.
        for (name, _) in gone.into_iter().rev() {
            shared.change_names(vec![(name, None)]);
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut shared = self.shared.lock();
        shared.count(FaultKind::Read)?;
        if !matches!(shared.nodes.get(path), Some(Node::Dir)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let here = shared.nodes.keys().filter(|name| name.parent() == Some(path));
        Ok(here.filter_map(|name| name.file_name()?.to_str().map(str::to_owned)).collect())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut shared = self.shared.lock();
        shared.count(FaultKind::Sync)?;
        if !matches!(shared.nodes.get(path), Some(Node::Dir)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        // A journal is written in order: what came before goes with it.
        let last = shared.unsynced_names.iter().rposition(|change| change.dirs.iter().any(|dir| dir == path));
        if let Some(last) = last {
            shared.unsynced_names.drain(..=last);
        }
        Ok(())
    }

    fn file_system(&self, _path: &Path) -> io::Result<Box<dyn FileSystem>> {
        Ok(Box::new(self.clone()))
    }

    fn try_lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let mut shared = self.shared.lock();
        if !shared.locks.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(MemoryLock { path: path.to_owned(), shared: Arc::clone(&self.shared) }))
    }
}

impl FileSystem for MemoryDisk {
    fn sync(&self) -> io::Result<()> {
        let mut shared = self.shared.lock();
        shared.count(FaultKind::Sync)?;
        shared.unsynced_names.clear();
        for node in shared.nodes.values() {
            if let Node::File(inode) = node {
                inode.lock().sync();
            }
        }
        Ok(())
    }
}

struct MemoryLock {
    path: PathBuf,
    shared: Arc<Mutex<Shared>>,
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.shared.lock().locks.remove(&self.path);
    }
}

#[derive(Debug)]
struct MemoryFile {
    inode: Arc<Mutex<Inode>>,
    shared: Arc<Mutex<Shared>>,
}

impl MemoryFile {
    /// Counts a write that makes the file at least `len` long, and fails it if the disk is full.
    fn admit(&self, len: usize) -> io::Result<()> {
        let mut shared = self.shared.lock();
        shared.count(FaultKind::Write)?;
        if let Some(capacity) = shared.capacity {
            let more = len.saturating_sub(self.inode.lock().content.len()) as u64;
            if more > 0 && shared.used() + more > capacity {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        Ok(())
    }
}

impl DiskFile for MemoryFile {
    fn write_at(&self, offset: u64, slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let offset = index(offset)?;
        if let Err(error) = self.admit(offset + bytes.len()) {
            // A write that fails may have written something: here half of what is not zeros at its end, so that it is
            // torn where it matters.
            let told = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let some = &bytes[..told / 2];
            let mut inode = self.inode.lock();
            if offset + some.len() <= inode.content.len() {
                inode.write(offset, some);
            }
            return Err(error);
        }
        self.inode.lock().write(offset, &bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.shared.lock().count(FaultKind::Read)?;
        let inode = self.inode.lock();
        let rest = inode.content.get(index(offset)?..).unwrap_or(&[]);
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn begin_to_sync(&self, _offset: u64, _len: u64) {}

    fn sync_data(&self) -> io::Result<()> {
        let counted = self.shared.lock().count(FaultKind::Sync);
        let mut inode = self.inode.lock();
        match counted {
            Ok(()) => inode.sync(),
            Err(_) => inode.give_up(),
        }
        counted
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let len = index(len)?;
        self.admit(len)?;
        let mut inode = self.inode.lock();
        if inode.content.len() < len {
            inode.set_len(len);
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let len = index(len)?;
        self.admit(len)?;
        self.inode.lock().set_len(len);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.inode.lock().content.len() as u64)
    }
}

fn index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_keeps_what_was_synced_and_only_that() {
        let disk = MemoryDisk::new();
        disk.create_dir_all(Path::new("/d")).unwrap();
        let file = disk.open(Path::new("/d/a"), Open::Create).unwrap();
        file.write_at(0, &mut [IoSlice::new(b"kept")]).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        file.write_at(4, &mut [IoSlice::new(b" lost")]).unwrap();
        disk.rename(Path::new("/d/a"), Path::new("/d/b")).unwrap();

        let after = disk.crash(Crash::LosesAll);
        assert_eq!(super::super::read_file(&after, Path::new("/d/a")).unwrap(), b"kept");
        let after = disk.crash(Crash::KeepsAll);
        assert_eq!(super::super::read_file(&after, Path::new("/d/b")).unwrap(), b"kept lost");
    }

    #[test]
    fn a_failed_sync_is_never_made_good_by_a_later_one() {
        let disk = MemoryDisk::new();
        disk.create_dir_all(Path::new("/")).unwrap();
        let file = disk.open(Path::new("/a"), Open::Create).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        file.write_at(0, &mut [IoSlice::new(b"one")]).unwrap();
        disk.fail(Fault { kind: FaultKind::Sync, nth: 0, error: io::ErrorKind::Other, from_then_on: false });
        file.sync_data().unwrap_err();
        file.sync_data().unwrap();
        let after = disk.crash(Crash::LosesAll);
        assert_eq!(super::super::read_file(&after, Path::new("/a")).unwrap(), b"");
    }

    #[test]
    fn what_was_given_up_does_not_come_back_behind_an_end_that_was_synced() {
        let disk = MemoryDisk::new();
        disk.create_dir_all(Path::new("/")).unwrap();
        let file = disk.open(Path::new("/a"), Open::Create).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        file.write_at(0, &mut [IoSlice::new(b"one two")]).unwrap();
        disk.fail(Fault { kind: FaultKind::Sync, nth: 0, error: io::ErrorKind::Other, from_then_on: false });
        file.sync_data().unwrap_err();
        file.truncate(3).unwrap();
        file.write_at(0, &mut [IoSlice::new(b"1")]).unwrap();
        file.sync_data().unwrap();
        let after = disk.crash(Crash::KeepsAll);
        assert_eq!(super::super::read_file(&after, Path::new("/a")).unwrap(), b"1ne");
        let after = disk.crash(Crash::LosesAll);
        assert_eq!(super::super::read_file(&after, Path::new("/a")).unwrap(), b"1\0\0");
    }

    #[test]
    fn a_full_disk_refuses_growth_and_still_overwrites() {
        let disk = MemoryDisk::new();
        disk.create_dir_all(Path::new("/")).unwrap();
        let file = disk.open(Path::new("/a"), Open::Create).unwrap();
        file.allocate(8).unwrap();
        disk.set_capacity(Some(8));
        file.write_at(0, &mut [IoSlice::new(b"12345678")]).unwrap();
        let error = file.write_at(8, &mut [IoSlice::new(b"9")]).unwrap_err();
        assert!(super::super::is_full(&error));
    }
}
