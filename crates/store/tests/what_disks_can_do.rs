//! What the store owes on disks that fail: restarts, hostile bytes, failing settlers, lookups beside changes.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use batch::{BatchBuilder, BatchHeader, NewRecord, ProducerFields, crc_of};
use common::*;
use store::disk::Open;
use store::{
    CompactOptions, Crash, Disk, DiskFile, Fault, FaultKind, FileSystem, Flush, LocalStore, MemoryDisk,
    Options, PartitionConfig, PartitionKey, TopicId, verify,
};

type Hook = Box<dyn FnOnce() + Send>;

/// A disk whose lock is free for whoever comes, as after a process was killed; that counts the bytes read, that
/// does something once when a segment is opened for reading, something synced, or a checkpoint at a certain step, and that
/// refuses to replace files of one name.
#[derive(Clone, Default)]
struct Watched {
    disk: MemoryDisk,
    on_segment_read: Arc<Mutex<Option<Hook>>>,
    on_sync: Arc<Mutex<Option<(u32, Hook)>>>,
    on_checkpoint: Arc<Mutex<Option<(Step, Hook)>>>,
    /// Swaps as a file system does that has no such call.
    swaps_by_renaming: bool,
    bytes_read: Arc<AtomicU64>,
    writes: Arc<Mutex<Writes>>,
    /// Files of this name cannot be replaced.
    stubborn: Arc<Mutex<Option<&'static str>>>,
}

/// A step of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// It is about to be written beside the one that counts.
    Written,
    /// It is about to count.
    Counts,
}

/// What is written and not synced. Whoever opens a file after it was written, or asks for its file system then, may not be
/// told that the write has failed.
#[derive(Default)]
struct Writes {
    now: u64,
    unsynced: BTreeMap<PathBuf, u64>,
    /// What was synced by such a one.
    unheard: Vec<PathBuf>,
}

impl Writes {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn write(&mut self, path: &Path) {
        let now = self.tick();
        self.unsynced.entry(path.to_owned()).or_insert(now);
    }

    /// All those that `path` begins are synced by someone who came `at` this time.
    fn sync(&mut self, path: &Path, at: u64) {
        let Self { unsynced, unheard, .. } = self;
        unsynced.retain(|file, written| {
            let is_synced = file.starts_with(path);
            if is_synced && *written < at {
                unheard.push(file.clone());
            }
            !is_synced
        });
    }
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watched")
    }
}

impl Watched {
    fn on_segment_read(&self, hook: impl FnOnce() + Send + 'static) {
        *self.on_segment_read.lock().unwrap() = Some(Box::new(hook));
    }

    /// Before the sync of a directory or of everything that comes after so many others.
    fn on_sync(&self, after: u32, hook: impl FnOnce() + Send + 'static) {
        *self.on_sync.lock().unwrap() = Some((after, Box::new(hook)));
    }

    fn on_checkpoint(&self, step: Step, hook: impl FnOnce() + Send + 'static) {
        *self.on_checkpoint.lock().unwrap() = Some((step, Box::new(hook)));
    }

    fn before_checkpoint(&self, step: Step) {
        let hook = self.on_checkpoint.lock().unwrap().take_if(|(wanted, _)| *wanted == step);
        if let Some((_, hook)) = hook {
            hook();
        }
    }

    fn before_sync(&self) {
        let mut on_sync = self.on_sync.lock().unwrap();
        let hook = match &mut *on_sync {
            Some((after @ 1.., _)) => {
                *after -= 1;
                None
            }
            due => due.take(),
        };
        drop(on_sync);
        if let Some((_, hook)) = hook {
            hook();
        }
    }
}

impl Disk for Watched {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let segment = path.starts_with(Path::new(DIR).join("topics"))
            && path.extension().is_some_and(|extension| extension == "log");
        if segment && how == Open::Read {
            let hook = self.on_segment_read.lock().unwrap().take();
            if let Some(hook) = hook {
                hook();
            }
        }
        if path.ends_with("producers.new") {
            self.before_checkpoint(Step::Written);
        }
        let file = self.disk.open(path, how)?;
        let (bytes_read, writes) = (Arc::clone(&self.bytes_read), Arc::clone(&self.writes));
        let opened_at = writes.lock().unwrap().tick();
        Ok(Arc::new(WatchedFile { file, path: path.to_owned(), opened_at, bytes_read, writes }))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.stubborn.lock().unwrap().is_some_and(|name| to.ends_with(name)) {
            return Err(ErrorKind::StorageFull.into());
        }
        self.disk.rename(from, to)
    }
    fn swap(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.stubborn.lock().unwrap().is_some_and(|name| to.ends_with(name)) {
            return Err(ErrorKind::StorageFull.into());
        }
        self.before_checkpoint(Step::Counts);
        if self.swaps_by_renaming { self.disk.rename(from, to) } else { self.disk.swap(from, to) }
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.hard_link(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }
    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir_all(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.disk.list(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.before_sync();
        self.disk.sync_dir(path)
    }
    fn file_system(&self, _path: &Path) -> io::Result<Box<dyn FileSystem>> {
        let asked_at = self.writes.lock().unwrap().tick();
        Ok(Box::new(WatchedFileSystem { disk: self.clone(), asked_at }))
    }
    fn try_lock(&self, _path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        Ok(Box::new(()))
    }
}

struct WatchedFileSystem {
    disk: Watched,
    asked_at: u64,
}

impl FileSystem for WatchedFileSystem {
    fn sync(&self) -> io::Result<()> {
        self.disk.before_sync();
        self.disk.writes.lock().unwrap().sync(Path::new("/"), self.asked_at);
        self.disk.disk.sync()
    }
}

struct WatchedFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    opened_at: u64,
    bytes_read: Arc<AtomicU64>,
    writes: Arc<Mutex<Writes>>,
}

impl std::fmt::Debug for WatchedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WatchedFile")
    }
}

impl DiskFile for WatchedFile {
    fn write_at(&self, offset: u64, slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        self.writes.lock().unwrap().write(&self.path);
        self.file.write_at(offset, slices)
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.bytes_read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.file.read_at(offset, buffer)
    }
    fn begin_to_sync(&self, offset: u64, len: u64) {
        self.file.begin_to_sync(offset, len);
    }
    fn sync_data(&self) -> io::Result<()> {
        self.writes.lock().unwrap().sync(&self.path, self.opened_at);
        self.file.sync_data()
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}

fn roomy() -> Options {
    Options { log_file_bytes: 64 << 10, ..small() }
}

#[test]
fn what_a_restart_has_shown_survives_a_power_failure_that_follows() {
    let disk = Watched::default();
    let (store, _) = open(&disk, Options { flush: Flush::Os, ..roomy() }).unwrap();
    let log = store.partition(key(0));
    append(&store, &log, &batch_of("a", 1, 1)).unwrap();
    // The process is killed: what it wrote is with the operating system, and nobody synced it.
    std::mem::forget((store, log));

    let (store, _) = open(&disk, roomy()).unwrap();
    let log = store.partition(key(0));
    assert_eq!(contents(&log), [(0, "a".to_owned())]);
    append(&store, &log, &batch_of("b", 1, 1)).unwrap();
    let after = disk.disk.crash(Crash::LosesAll);
    std::mem::forget((store, log));

    let (store, _) = open(&after, roomy()).unwrap();
    assert_eq!(contents(&store.partition(key(0))), [(0, "a".to_owned()), (1, "b".to_owned())]);
}

#[test]
fn a_batch_whose_sync_failed_is_either_gone_after_a_restart_or_there_for_good() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, roomy()).unwrap();
    let log = store.partition(key(0));
    append(&store, &log, &batch_of("a", 1, 1)).unwrap();
    disk.fail(Fault { kind: FaultKind::Sync, nth: 0, error: ErrorKind::Other, from_then_on: false });
    append(&store, &log, &batch_of("b", 1, 1)).unwrap_err();
    disk.heal();
    drop((store, log));

    let (store, _) = open(&disk, roomy()).unwrap();
    let log = store.partition(key(0));
    append(&store, &log, &batch_of("c", 1, 1)).unwrap();
    let before = contents(&log);
    let after = disk.crash(Crash::LosesAll);
    drop((store, log));
    let (store, _) = open(&after, roomy()).unwrap();
    assert_eq!(contents(&store.partition(key(0))), before);
}

#[test]
fn with_a_relaxed_flush_a_failed_sync_and_a_power_failure_lose_batches_but_not_the_store() {
    let disk = MemoryDisk::new();
    let options = Options { flush: Flush::Os, ..roomy() };
    let (store, _) = open(&disk, options).unwrap();
    let log = store.partition(key(0));
    append(&store, &log, &batch_of("a", 1, 1)).unwrap();
    disk.fail(Fault { kind: FaultKind::Sync, nth: 0, error: ErrorKind::Other, from_then_on: false });
    store.sync();
    disk.heal();
    append(&store, &log, &batch_of("b", 1, 1)).unwrap();
    store.sync();
    let after = disk.crash(Crash::LosesAll);
    open(&after, options).unwrap();
}

/// The bytes of a frame as the log has them, for a producer to hide in a record.
fn forged_frame(sequence: u64, durable_end: u64, partition: u32, batch: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 56];
    frame[..4].copy_from_slice(b"KoFr");
    frame[8..12].copy_from_slice(&u32::try_from(batch.len()).unwrap().to_be_bytes());
    frame[12..16].copy_from_slice(&partition.to_be_bytes());
    frame[16..32].copy_from_slice(&key(0).topic.as_u128().to_be_bytes());
    frame[32..40].copy_from_slice(&sequence.to_be_bytes());
    frame[40..48].copy_from_slice(&durable_end.to_be_bytes());
    frame.extend_from_slice(batch);
    let crc = crc_of(&frame[8..56 + 21]);
    frame[4..8].copy_from_slice(&crc.to_be_bytes());
    frame
}

fn batch_with(value: &[u8]) -> bytes::Bytes {
    let mut builder = BatchBuilder::new(0);
    builder.push(&NewRecord { timestamp: 1, value: Some(value), ..NewRecord::default() }).unwrap();
    builder.finish().unwrap()
}

#[test]
fn a_record_that_looks_like_a_frame_does_not_keep_the_store_from_opening() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, roomy()).unwrap();
    let log = store.partition(key(0));
    let forged = forged_frame(u64::MAX - 1, u64::MAX, 0, &batch_of("forged", 1, 1));
    append(&store, &log, &batch_with(&forged.repeat(20))).unwrap();
    // The log file is used again, with the record behind its new end, and the store is closed in good order.
    store.settle_all().unwrap();
    append(&store, &log, &batch_of("b", 1, 1)).unwrap();
    drop((store, log));
    let (store, recovery) = open(&disk, roomy()).unwrap();
    assert_eq!(recovery.cuts, []);
    assert_eq!(store.partition(key(0)).end_offset(), 2);
}

#[test]
fn bytes_of_a_record_never_pass_for_a_frame() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, roomy()).unwrap();
    let log = store.partition(key(0));
    // Everybody can count: the first frame of all has this number, and the record below is in it.
    let first = 1_u64 << 32;
    let second = batch_of("an ordinary batch that is long enough to reach over the heads of the first", 1, 1);
    let end_of_second = 64 + 56 + second.len();
    let forged = forged_frame(first + 2, first, 7, &batch_of("forged", 1, 1));
    // How far into the value the forged frame must be is found by looking where the value begins.
    let probe = batch_with(&[b'#'; 4000]);
    let value_at = 64 + 56 + probe.iter().position(|byte| *byte == b'#').unwrap();
    let mut value = vec![b'.'; 4000];
    let at = end_of_second - value_at;
    value[at..at + forged.len()].copy_from_slice(&forged);
    append(&store, &log, &batch_with(&value)).unwrap();
    store.settle_all().unwrap();
    append(&store, &log, &second).unwrap();
    drop((store, log));
    let (store, _) = open(&disk, roomy()).unwrap();
    assert_eq!(store.partition(key(7)).end_offset(), 0, "nobody appended anything to this partition");
}

#[test]
fn a_segment_that_is_closed_after_a_failed_attempt_keeps_nothing_of_it() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, roomy()).unwrap();
    let log = store.partition(key(0));
    append(&store, &log, &batch_of("a", 1, 1)).unwrap();
    store.settle_all().unwrap();
    append(&store, &log, &batch_of("b", 1, 1)).unwrap();
    disk.fail(Fault { kind: FaultKind::Sync, nth: 0, error: ErrorKind::Other, from_then_on: false });
    store.settle_all().unwrap_err();
    disk.heal();
    log.roll();
    store.settle_all().unwrap();
    assert_eq!(log.segments().len(), 2);
    let sizes: Vec<u64> = log.segments().iter().map(|segment| segment.bytes).collect();
    drop((store, log));
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    assert_eq!(verify(&shared, Path::new(DIR)).unwrap().findings, []);
    let (store, _) = open(&disk, roomy()).unwrap();
    let found: Vec<u64> = store.partition(key(0)).segments().iter().map(|segment| segment.bytes).collect();
    assert_eq!(found, sizes);
}

#[test]
fn while_nothing_can_be_settled_the_log_does_not_grow_by_a_file_with_every_interval() {
    let disk = MemoryDisk::new();
    let options = Options { settle_interval: Duration::ZERO, ..roomy() };
    let (store, _) = open(&disk, options).unwrap();
    disk.fail(Fault { kind: FaultKind::Read, nth: 0, error: ErrorKind::Other, from_then_on: true });
    store.start();
    let log = store.partition(key(0));
    for number in 0..40 {
        queue(&log, number, &batch_of("x", 1, 1)).wait().unwrap();
    }
    disk.heal();
    let names = disk.list(&Path::new(DIR).join("log")).unwrap();
    let files = names.iter().filter(|name| !name.ends_with("spare")).count();
    assert!(files <= 4, "{files} files for {} bytes", log.size_bytes());
}

/// A log with a settled segment that a lookup by the time 100 opens in vain, and a batch of that time that is only
/// in the log and not in memory.
fn log_to_search(disk: &Watched) -> (Arc<LocalStore>, Arc<store::PartitionLog>) {
    let (store, _) = open(disk, Options { cache_bytes: 0, ..roomy() }).unwrap();
    let log = store.partition(key(0));
    log.configure(PartitionConfig { segment_bytes: 1 << 20, ..PartitionConfig::default() });
    append(&store, &log, &batch_of("late but deleted", 1, 100)).unwrap();
    append(&store, &log, &batch_of("early", 1, 1)).unwrap();
    store.settle_all().unwrap();
    log.set_start_offset(1).unwrap();
    append(&store, &log, &batch_of("late", 1, 100)).unwrap();
    (Arc::new(store), log)
}

#[test]
fn a_batch_that_is_settled_during_a_search_by_time_is_found() {
    let disk = Watched::default();
    let (store, log) = log_to_search(&disk);
    let settles = Arc::clone(&store);
    disk.on_segment_read(move || settles.settle_all().unwrap());
    let found = log.find_by_time(100).unwrap().expect("the batch is there all the time");
    assert_eq!(BatchHeader::parse(&found).unwrap().base_offset, 2);
}

#[test]
fn a_search_by_time_and_a_deletion_do_not_wait_for_each_other() {
    let disk = Watched::default();
    let (_store, log) = log_to_search(&disk);
    let (deleted, deletion) = mpsc::channel();
    let deletes = Arc::clone(&log);
    disk.on_segment_read(move || {
        std::thread::spawn(move || deleted.send(deletes.set_start_offset(2)));
        // It waits for this search to leave the files, and so does not end here.
        let _ = deletion.recv_timeout(Duration::from_millis(300));
    });
    let (found, search) = mpsc::channel();
    std::thread::spawn(move || found.send(log.find_by_time(100).map_err(|error| error.to_string())));
    let found = search.recv_timeout(Duration::from_secs(5)).expect("the search comes to an end");
    assert!(found.unwrap().is_some());
}

#[test]
fn the_largest_timestamp_is_one_of_a_record_that_was_not_deleted() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, roomy()).unwrap();
    let log = store.partition(key(0));
    append(&store, &log, &batch_of("late but deleted", 1, 100)).unwrap();
    append(&store, &log, &batch_of("early", 1, 1)).unwrap();
    store.settle_all().unwrap();
    log.set_start_offset(1).unwrap();
    let found = log.max_timestamp().unwrap().expect("a record is there");
    assert_eq!(BatchHeader::parse(&found).unwrap().base_offset, 1);
}

#[test]
fn a_read_of_the_log_takes_little_more_than_it_gives() {
    let disk = Watched::default();
    let options = Options { log_file_bytes: 8 << 20, cache_bytes: 0, ..small() };
    let (store, _) = open(&disk, options).unwrap();
    let (log, other) = (store.partition(key(0)), store.partition(key(1)));
    let filler = batch_of(&"f".repeat(7000), 1, 1);
    for _ in 0..200 {
        append(&store, &log, &batch_of("x", 1, 1)).unwrap();
        append(&store, &other, &filler).unwrap();
    }
    disk.bytes_read.store(0, Ordering::Relaxed);
    let read = log.read(0, 1 << 20, true).unwrap();
    let taken = disk.bytes_read.load(Ordering::Relaxed);
    assert!(taken < 64 << 10, "{taken} bytes are held in memory for {}", read.bytes);
}

#[test]
fn producers_of_records_that_were_deleted_before_they_were_settled_are_remembered() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, roomy()).unwrap();
    let log = store.partition(key(0));
    let fields = ProducerFields { id: 42, epoch: 1, base_sequence: 0 };
    let mut builder = BatchBuilder::new(0).producer(fields);
    builder.push(&NewRecord { timestamp: 1, value: Some(b"v"), ..NewRecord::default() }).unwrap();
    append(&store, &log, &builder.finish().unwrap()).unwrap();
    log.set_start_offset(1).unwrap();
    store.settle_all().unwrap();
    let before = log.producers();
    drop((store, log));
    let (store, _) = open(&disk, roomy()).unwrap();
    assert_eq!(store.partition(key(0)).producers(), before);
}

#[test]
fn a_power_failure_while_a_partition_is_settled_for_the_first_time_loses_nothing() {
    for (nth, seed) in (0..8).flat_map(|nth| (0..50).map(move |seed| (nth, seed))) {
        let disk = MemoryDisk::new();
        let (store, _) = open(&disk, roomy()).unwrap();
        let log = store.partition(key(0));
        log.configure(PartitionConfig { segment_bytes: 2000, ..PartitionConfig::default() });
        for number in 0..40 {
            append(&store, &log, &batch_of(&format!("{number}-{}", "x".repeat(150)), 1, 1)).unwrap();
        }
        let before = contents(&log);
        // The power fails before something of it is synced: what was written so far has what it has.
        disk.fail(Fault { kind: FaultKind::Sync, nth, error: ErrorKind::Other, from_then_on: true });
        let settled = store.settle_all();
        assert_eq!(settled.is_err(), disk.faults_hit() > 0);
        let after = disk.crash(Crash::Tears(seed));
        drop((store, log));
        let shared: Arc<dyn Disk> = Arc::new(after.clone());
        let findings = verify(&shared, Path::new(DIR)).unwrap().findings;
        assert!(findings.iter().all(|finding| finding.harmless), "sync {nth}, seed {seed}: {findings:?}");
        let (store, recovery) = open(&after, roomy()).unwrap();
        let found = contents(&store.partition(key(0)));
        assert_eq!(found.len(), before.len(), "sync {nth}, seed {seed}: {:?}", recovery.damage);
        assert_eq!(found, before, "sync {nth}, seed {seed}");
    }
}

#[test]
fn what_is_compacted_before_its_checkpoint_is_durable_survives_a_power_failure() {
    let disk = Watched::default();
    let (store, _) = open(&disk, roomy()).unwrap();
    let log = store.partition(key(0));
    log.configure(PartitionConfig { segment_bytes: 700, ..PartitionConfig::default() });
    append(&store, &log, &batch_of(&"a".repeat(100), 1, 1)).unwrap();
    store.settle_all().unwrap();
    append(&store, &log, &batch_of("b", 1, 1)).unwrap();
    append(&store, &log, &batch_of(&"a".repeat(100), 1, 1)).unwrap();
    for name in ["c", "d", "e", "f"] {
        append(&store, &log, &batch_of(&name.repeat(90), 1, 1)).unwrap();
    }
    *disk.stubborn.lock().unwrap() = Some("producers");
    store.settle_all().unwrap_err();
    let options = CompactOptions { now_ms: 1, min_dirty_ratio: 0.0, ..CompactOptions::default() };
    let _ = store.compact(&log, &options);
    let before = contents(&log);
    let after = disk.disk.crash(Crash::KeepsAll);
    drop((store, log));
    let (store, recovery) = open(&after, roomy()).unwrap();
    assert_eq!(recovery.damage, Vec::<String>::new());
    let log = store.partition(key(0));
    store.settle_all().unwrap();
    let found = contents(&log);
    assert_eq!(found[found.len() - before.len()..], before, "the last value of every key is there");
}

#[test]
fn a_topic_that_is_removed_while_it_is_settled_is_no_failure() {
    // Few partitions are synced file by file, many together.
    for partitions in [1, 5] {
        let mut was_removed = 0;
        for after in 0..20 {
            let disk = Watched::default();
            let (store, _) = open(&disk, roomy()).unwrap();
            let store = Arc::new(store);
            let stays = PartitionKey { topic: TopicId::from_u128(u128::MAX >> 1), partition: 0 };
            for text in ["first", "second"] {
                for key in (0..partitions).map(key).chain([stays]) {
                    append(&store, &store.partition(key), &batch_of(text, 1, 1)).unwrap();
                }
                if text == "first" {
                    store.settle_all().unwrap();
                }
            }
            let (removes, (told, removed)) = (Arc::clone(&store), mpsc::channel());
            disk.on_sync(after, move || told.send(removes.remove_topic(key(0).topic)).unwrap());
            let settled = store.settle_all();
            disk.on_sync.lock().unwrap().take();
            settled.unwrap_or_else(|error| panic!("{partitions}, sync {after}: {error:?}"));
            if let Ok(removed) = removed.try_recv() {
                removed.unwrap();
                was_removed += 1;
            }
            assert_eq!(store.partition(stays).settled_end(), 2);
            drop(store);
            let (store, _) = open(&disk, roomy()).unwrap();
            assert_eq!(contents(&store.partition(stays)).len(), 2);
        }
        assert!((2..20).contains(&was_removed), "{was_removed} of 20 times in the middle");
    }
}

#[test]
fn a_topic_is_not_removed_in_the_middle_of_a_checkpoint() {
    for step in [Step::Written, Step::Counts] {
        let disk = Watched::default();
        let (store, _) = open(&disk, roomy()).unwrap();
        let store = Arc::new(store);
        for text in ["first", "second"] {
            append(&store, &store.partition(key(0)), &batch_of(text, 1, 1)).unwrap();
            if text == "first" {
                store.settle_all().unwrap();
            }
        }
        let (told, removed) = mpsc::channel();
        let (passed_on, waited) = mpsc::channel();
        let removes = Arc::clone(&store);
        disk.on_checkpoint(step, move || {
            std::thread::spawn(move || told.send(removes.remove_topic(key(0).topic)));
            // It waits for the checkpoint, and so does not end here.
            let early = removed.recv_timeout(Duration::from_millis(100)).is_ok();
            passed_on.send((early, removed)).unwrap();
        });
        store.settle_all().unwrap_or_else(|error| panic!("{step:?}: {error:?}"));
        let (early, removed) = waited.try_recv().expect("there was a checkpoint");
        assert!(!early, "{step:?}");
        removed.recv_timeout(Duration::from_secs(5)).expect("it ends").unwrap();
        assert_eq!(disk.list(&Path::new(DIR).join("topics")).unwrap(), Vec::<String>::new(), "{step:?}");
    }
}

#[test]
fn the_checkpoint_that_counts_after_a_power_failure_is_whole_whatever_failed_before() {
    let failure = |kind, nth, from_then_on| Fault { kind, nth, error: ErrorKind::Other, from_then_on };
    for round in 0..12 * 8 * 8 * 2 {
        let (sync, write, seed) = (round % 12, round / 12 % 8, round / 12 / 8 % 8);
        let swaps_by_renaming = round / 12 / 8 / 8 == 1;
        let disk = Watched { swaps_by_renaming, ..Watched::default() };
        let (store, _) = open(&disk, roomy()).unwrap();
        let log = store.partition(key(0));
        for text in ["a", "b"] {
            append(&store, &log, &batch_of(text, 1, 1)).unwrap();
            store.settle_all().unwrap();
        }
        append(&store, &log, &batch_of("c", 1, 1)).unwrap();
        // Nobody knows then whether the new checkpoint counts; to make sure of it fails as well.
        disk.disk.fail(failure(FaultKind::Sync, sync, false));
        let settled = store.settle_all();
        disk.disk.heal();
        disk.disk.fail(failure(FaultKind::Write, write, true));
        let _ = store.settle_all();
        let before = contents(&log);
        let after = disk.disk.crash(if seed == 0 { Crash::LosesAll } else { Crash::Tears(seed) });
        drop((store, log));

        let shared: Arc<dyn Disk> = Arc::new(after.clone());
        let found = verify(&shared, Path::new(DIR)).unwrap().findings;
        let what =
            format!("sync {sync} ({settled:?}), write {write}, seed {seed}, renaming {swaps_by_renaming}");
        assert!(found.iter().all(|finding| finding.harmless), "{what}: {found:?}");
        let (store, recovery) = open(&after, roomy()).unwrap();
        assert_eq!(recovery.damage, Vec::<String>::new(), "{what}");
        assert_eq!(contents(&store.partition(key(0))), before, "{what}");
    }
}

/// What each partition has to settle.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Due {
    Records,
    /// They were deleted before.
    Deleted,
    /// As many segments as records.
    Segments,
    /// The first of two cannot be read.
    Damaged,
}

#[test]
fn who_syncs_what_is_settled_is_told_of_every_write_that_has_failed() {
    for due in [
        vec![Due::Records],
        vec![Due::Records; 3],
        vec![Due::Records; 20],
        vec![Due::Deleted; 4],
        vec![Due::Segments; 2],
        vec![Due::Records, Due::Records, Due::Records, Due::Damaged],
    ] {
        let disk = Watched::default();
        let (store, _) = open(&disk, roomy()).unwrap();
        for round in 0..3 {
            for (partition, due) in due.iter().enumerate() {
                let log = store.partition(key(u32::try_from(partition).unwrap()));
                if *due == Due::Segments {
                    log.configure(PartitionConfig { segment_bytes: 1, ..PartitionConfig::default() });
                }
                for _ in 0..8 {
                    append(&store, &log, &batch_of("x", 1, 1)).unwrap();
                }
                match due {
                    Due::Deleted => log.set_start_offset(log.end_offset()).unwrap(),
                    Due::Damaged if round == 0 => {
                        let names = disk.list(&Path::new(DIR).join("log")).unwrap();
                        let file = Path::new(DIR).join("log").join(&names[0]);
                        let frame = 56 + log.read(0, 1, true).unwrap().bytes;
                        disk.disk.corrupt(&file, 64 + 24 * frame + 56 + 70, b"?").unwrap();
                    }
                    _ => {}
                }
            }
            let settled = store.settle_all();
            assert_eq!(settled.is_err(), due.contains(&Due::Damaged), "{due:?}: {settled:?}");
        }
        let writes = disk.writes.lock().unwrap();
        assert_eq!(writes.unheard, Vec::<PathBuf>::new(), "{due:?}");
        let unsynced: Vec<_> =
            writes.unsynced.keys().filter(|path| path.starts_with("/data/topics")).collect();
        assert_eq!(unsynced, Vec::<&PathBuf>::new(), "{due:?}");
    }
}
