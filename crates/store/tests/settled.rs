//! What is settled: looked up by time, damaged, copied and inspected.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use batch::BatchHeader;
use common::*;
use store::{
    Crash, Disk, LocalStore, MemoryDisk, Options, PartitionConfig, PartitionKey, PartitionLog, ReadError,
    RealDisk, dump, verify,
};

fn partition_dir(dir: &Path, key: PartitionKey) -> PathBuf {
    dir.join("topics").join(key.topic.to_string()).join(key.partition.to_string())
}

/// A log with batches at the given times, partly settled.
fn log_with(store: &LocalStore, times: &[i64], settle_at: usize) -> Arc<PartitionLog> {
    let log = store.partition(key(0));
    log.configure(PartitionConfig {
        segment_bytes: 2000,
        index_interval_bytes: 300,
        ..PartitionConfig::default()
    });
    for (number, &time) in times.iter().enumerate() {
        append(store, &log, &batch_of(&format!("{number:03}-{}", "t".repeat(100)), 1, time)).unwrap();
        if number == settle_at {
            store.settle_all().unwrap();
        }
    }
    log
}

#[test]
fn the_first_batch_at_or_after_a_time_is_found_wherever_it_is() {
    let mut dice = Dice::new(5);
    // Times grow roughly, with steps back, as producers' clocks do.
    let times: Vec<i64> =
        (0..120).map(|number| number * 10 + i64::try_from(dice.roll(60)).unwrap() + 1).collect();
    for settle_at in [0, 40, 119] {
        let disk = MemoryDisk::new();
        let (store, _) = open(&disk, small()).unwrap();
        let log = log_with(&store, &times, settle_at);
        let check = |log: &PartitionLog| {
            let start = usize::try_from(log.start_offset()).unwrap();
            for wanted in (0..1300).step_by(7) {
                let expected = times[start..].iter().position(|time| *time >= wanted).map(|at| at + start);
                let found = log.find_by_time(wanted).unwrap();
                let found = found
                    .map(|batch| usize::try_from(BatchHeader::parse(&batch).unwrap().base_offset).unwrap());
                assert_eq!(found, expected, "time {wanted}");
            }
            let latest = times[start..].iter().max().unwrap();
            let found = log.max_timestamp().unwrap().unwrap();
            assert_eq!(BatchHeader::parse(&found).unwrap().max_timestamp, *latest);
        };
        check(&log);
        log.set_start_offset(33).unwrap();
        check(&log);
        drop((store, log));
        let (store, _) = open(&disk.crash(Crash::LosesAll), small()).unwrap();
        check(&store.partition(key(0)));
        drop(store);
    }
}

#[test]
fn a_damaged_settled_file_is_named_and_only_its_reads_fail() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = log_with(&store, &[1; 60], 59);
    let segments = log.segments();
    assert!(segments.len() > 3);
    let damaged = segments[1];
    let file = partition_dir(Path::new(DIR), key(0)).join(format!("{:020}.log", damaged.base_offset));
    // Within the records of the third batch of the segment.
    let batch_len =
        usize::try_from(damaged.bytes / u64::try_from(damaged.end_offset - damaged.base_offset).unwrap());
    let batch_len = batch_len.unwrap();
    disk.corrupt(&file, batch_len * 2 + 100, b"?").unwrap();
    let mut bad = 0;
    for offset in 0..60 {
        match log.read(offset, 1, true) {
            Ok(read) => assert_eq!(read.next_offset, offset + 1),
            Err(ReadError::Corrupt { file: named, position }) => {
                assert_eq!((named, position), (file.clone(), u64::try_from(batch_len * 2).unwrap()));
                assert_eq!(offset, damaged.base_offset + 2);
                bad += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(bad, 1);
    drop((store, log));
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let verified = verify(&disk, Path::new(DIR)).unwrap();
    let finding = verified.findings.iter().find(|finding| !finding.harmless).unwrap();
    assert_eq!((&finding.file, finding.position), (&file, u64::try_from(batch_len * 2).unwrap()));
}

#[test]
fn a_missing_segment_is_reported_and_the_rest_opens() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = log_with(&store, &[1; 60], 59);
    let last = *log.segments().last().unwrap();
    drop((store, log));
    let file = partition_dir(Path::new(DIR), key(0)).join(format!("{:020}.log", last.base_offset));
    disk.remove_file(&file).unwrap();
    let (store, recovery) = open(&disk, small()).unwrap();
    assert!(recovery.damage[0].contains(file.to_str().unwrap()), "{:?}", recovery.damage);
    let log = store.partition(key(0));
    assert_eq!(log.end_offset(), 60);
    log.read(0, 100, true).unwrap();
    log.read(59, 100, true).unwrap_err();
    append(&store, &log, &batch_of("goes on", 1, 1)).unwrap();
    store.settle_all().unwrap();
    assert_eq!(batches(&log.read(60, 100, true).unwrap().concat()), [(60, "goes on".to_owned())]);
}

#[test]
fn indexes_that_are_lost_are_written_anew_when_the_checkpoint_is_gone() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = log_with(&store, &[7; 60], 59);
    let before = contents(&log);
    drop((store, log));
    let dir = partition_dir(Path::new(DIR), key(0));
    for name in disk.list(&dir).unwrap() {
        if !name.ends_with(".log") {
            disk.remove_file(&dir.join(name)).unwrap();
        }
    }
    let (store, recovery) = open(&disk, small()).unwrap();
    assert_eq!(recovery.damage, Vec::<String>::new());
    assert_eq!(contents(&store.partition(key(0))), before);
    drop(store);
    let disk: Arc<dyn Disk> = Arc::new(disk);
    assert_eq!(verify(&disk, Path::new(DIR)).unwrap().findings, []);
}

#[test]
fn a_sound_directory_has_no_findings_and_dumps_every_batch() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    log_with(&store, &[1; 50], 30);
    let shared: Arc<dyn Disk> = Arc::new(disk);
    assert!(verify(&shared, Path::new(DIR)).is_err(), "not while it is in use");
    drop(store);
    let mut offsets = Vec::new();
    let dumped = dump(&shared, Path::new(DIR), &mut |batch| offsets.push(batch.header.base_offset)).unwrap();
    assert_eq!(dumped.findings, []);
    assert_eq!(offsets, (0..50).collect::<Vec<_>>());
    assert_eq!((dumped.batches, dumped.records), (50, 50));
}

#[test]
fn a_snapshot_of_a_running_store_opens_as_a_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (source, copy) = (dir.path().join("data"), dir.path().join("copy"));
    let (store, _) = LocalStore::open(Arc::new(RealDisk), &source, small()).unwrap();
    store.start();
    let log = store.partition(key(0));
    log.configure(PartitionConfig { segment_bytes: 2000, ..PartitionConfig::default() });
    for number in 0..100 {
        queue(&log, number, &batch_of(&format!("{number}-{}", "s".repeat(50)), 1, number)).wait().unwrap();
    }
    let before = contents(&log);
    let summary = store.snapshot(&copy).unwrap();
    assert_eq!(summary.partitions, 1);
    assert!(summary.linked_files > 0 && summary.copied_files > 0);
    store.snapshot(&copy).unwrap_err();
    // What comes later is not in it, and does not disturb it.
    for number in 100..200 {
        queue(&log, number, &batch_of("later", 1, number)).wait().unwrap();
    }
    store.settle_all().unwrap();
    let (other, recovery) = LocalStore::open(Arc::new(RealDisk), &copy, small()).unwrap();
    assert_eq!(recovery.damage, Vec::<String>::new());
    let log = other.partition(key(0));
    assert_eq!(contents(&log), before);
    append(&other, &log, &batch_of("own way", 1, 1)).unwrap();
    other.settle_all().unwrap();
    assert_eq!(contents(&log).len(), 101);
    drop((other, log));
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    assert_eq!(verify(&disk, &copy).unwrap().findings, []);
}

#[test]
fn segments_close_by_size_and_by_age() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = log_with(&store, &[1; 60], 59);
    let segments = log.segments();
    assert!(segments.iter().all(|segment| segment.bytes <= 2000));
    assert!(segments.is_sorted_by(|a, b| a.end_offset == b.base_offset));
    assert_eq!(segments.iter().filter(|segment| segment.active).count(), 1);
    assert_eq!(log.size_bytes(), segments.iter().map(|segment| segment.bytes).sum::<u64>());
    log.roll();
    append(&store, &log, &batch_of("new segment", 1, 1)).unwrap();
    store.settle_all().unwrap();
    assert_eq!(log.segments().last().unwrap().base_offset, 60);
}

#[test]
fn producers_are_remembered_over_restarts() {
    use batch::{BatchBuilder, NewRecord, ProducerFields};
    let disk = MemoryDisk::new();
    let mut sequence = 0;
    let mut before = None;
    for life in 0..4 {
        let (store, _) = open(&disk, small()).unwrap();
        let log = store.partition(key(0));
        if let Some(before) = &before {
            assert_eq!(&log.producers(), before, "in life {life}");
        }
        for _ in 0..10 {
            let fields = ProducerFields { id: 42, epoch: 1, base_sequence: sequence };
            let mut builder = BatchBuilder::new(0).producer(fields);
            builder.push(&NewRecord { timestamp: 1, value: Some(b"v"), ..NewRecord::default() }).unwrap();
            append(&store, &log, &builder.finish().unwrap()).unwrap();
            sequence += 1;
        }
        if life % 2 == 0 {
            store.settle_all().unwrap();
        }
        assert_eq!(log.producers().len(), 1);
        before = Some(log.producers());
    }
}

#[test]
fn who_appends_waits_while_too_much_waits_to_be_settled() {
    let (store, _) = open(&MemoryDisk::new(), Options { backlog_bytes: 0, ..small() }).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut is_behind = |store: &LocalStore| pin!(store.caught_up()).poll(&mut context).is_pending();
    assert!(!is_behind(&store));
    log_with(&store, &[1], usize::MAX);
    store.seal();
    assert!(is_behind(&store));
    store.settle_all().unwrap();
    assert!(!is_behind(&store));
    log_with(&store, &[1], usize::MAX);
    store.seal();
    assert!(is_behind(&store));
    store.close();
    assert!(!is_behind(&store));
}

#[test]
fn with_a_damaged_checkpoint_a_damaged_batch_does_not_take_those_behind_it_along() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = store.partition(key(0));
    for number in 0..6 {
        append(&store, &log, &batch_of(&format!("{number}"), 1, 1)).unwrap();
    }
    store.settle_all().unwrap();
    drop((store, log));
    let dir = partition_dir(Path::new(DIR), key(0));
    disk.corrupt(&dir.join("producers"), 20, b"!").unwrap();
    let size = batch_of("0", 1, 1).len();
    disk.corrupt(&dir.join("00000000000000000000.log"), 2 * size + 65, b"!!").unwrap();

    let (store, recovery) = open(&disk, small()).unwrap();
    assert_eq!(recovery.damage.len(), 1, "{:?}", recovery.damage);
    let log = store.partition(key(0));
    assert_eq!(log.end_offset(), 6);
    let found = batches(&log.read(3, 1000, true).unwrap().concat());
    assert_eq!(found, [3, 4, 5].map(|offset| (offset, offset.to_string())));
    log.read(2, 1000, true).unwrap_err();
    append(&store, &log, &batch_of("6", 1, 1)).unwrap();
    store.settle_all().unwrap();
    assert_eq!(batches(&log.read(6, 1000, true).unwrap().concat()), [(6, "6".to_owned())]);
}

#[test]
fn settling_again_and_again_makes_and_removes_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = LocalStore::open(Arc::new(RealDisk), dir.path(), small()).unwrap();
    if !swaps_names(dir.path()) {
        println!("this file system does not swap names");
        return;
    }
    let log = store.partition(key(0));
    let files = || {
        append(&store, &log, &batch_of("x", 1, 1)).unwrap();
        store.settle_all().unwrap();
        let topic = std::fs::read_dir(dir.path().join("topics")).unwrap().next().unwrap().unwrap();
        let partition = std::fs::read_dir(topic.path().join("0")).unwrap();
        let mut files: Vec<_> = partition
            .map(|entry| entry.unwrap())
            .map(|entry| std::os::unix::fs::DirEntryExt::ino(&entry))
            .collect();
        files.sort_unstable();
        files
    };
    files();
    let second = files();
    assert_eq!((files(), files()), (second.clone(), second));
}

fn swaps_names(dir: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let [one, other] = ["one", "other"].map(|name| dir.join(name));
    for file in [&one, &other] {
        std::fs::write(file, "").unwrap();
    }
    renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).is_ok()
}
