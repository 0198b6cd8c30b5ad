//! The settler when something is in its way, and when it takes its time.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use std::future::Future;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use common::*;
use store::{Disk, Fault, FaultKind, LocalStore, MemoryDisk, Options, ReadError, SettleError};

fn roomy() -> Options {
    Options { log_file_bytes: 64 << 10, cache_bytes: 0, ..Options::default() }
}

/// The log files that are in use, oldest first.
fn log_files(disk: &MemoryDisk) -> Vec<PathBuf> {
    let dir = Path::new(DIR).join("log");
    let names = disk.list(&dir).unwrap().into_iter().filter(|name| !name.ends_with("spare"));
    let mut files: Vec<_> = names.map(|name| dir.join(name)).collect();
    files.sort();
    files
}

#[test]
fn a_batch_that_cannot_be_read_keeps_only_its_own_partition_from_being_settled() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, roomy()).unwrap();
    let (damaged, sound) = (store.partition(key(0)), store.partition(key(1)));
    for text in ["good", "bad", "behind"] {
        append(&store, &damaged, &batch_of(text, 1, 1)).unwrap();
    }
    append(&store, &sound, &batch_of("other", 1, 1)).unwrap();
    let file = log_files(&disk).pop().unwrap();
    let first = damaged.read(0, 1, true).unwrap().bytes;
    // Behind the file's head, a frame, the next frame's head and some of its batch.
    disk.corrupt(&file, 64 + 56 + first + 56 + 70, b"?").unwrap();

    for life in 1..4 {
        let error = store.settle_all().unwrap_err();
        assert!(
            matches!(&error, SettleError::Copy(ReadError::Corrupt { file: named, .. }) if *named == file),
            "{error:?}"
        );
        assert_eq!((damaged.settled_end(), sound.settled_end()), (1, life));
        assert_eq!(contents(&sound).len(), usize::try_from(life).unwrap());
        assert_eq!(damaged.read(0, 1, true).unwrap().next_offset, 1);
        damaged.read(1, 1, true).unwrap_err();
        assert_eq!(damaged.read(2, 1, true).unwrap().next_offset, 3);
        assert!(disk.list(file.parent().unwrap()).unwrap().iter().any(|name| file.ends_with(name)));
        append(&store, &sound, &batch_of("other", 1, 1)).unwrap();
    }

    // Once nobody needs the batch, all goes on as before.
    damaged.set_start_offset(2).unwrap();
    store.settle_all().unwrap();
    assert_eq!(contents(&damaged), [(2, "behind".to_owned())]);
    assert_eq!((damaged.settled_end(), sound.settled_end()), (3, 4));
    assert_eq!(log_files(&disk), [] as [PathBuf; 0]);
    drop((store, damaged, sound));
    let (store, recovery) = open(&disk, roomy()).unwrap();
    assert_eq!((recovery.cuts.len(), recovery.damage.len()), (0, 0));
    assert_eq!(contents(&store.partition(key(0))), [(2, "behind".to_owned())]);
}

#[test]
fn a_batch_that_cannot_be_read_is_forgotten_with_its_topic() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, roomy()).unwrap();
    append(&store, &store.partition(key(0)), &batch_of("bad", 1, 1)).unwrap();
    let file = log_files(&disk).pop().unwrap();
    disk.corrupt(&file, 64 + 56 + 70, b"?").unwrap();
    store.settle_all().unwrap_err();
    store.remove_topic(key(0).topic).unwrap();
    store.settle_all().unwrap();
    assert_eq!(log_files(&disk), [] as [PathBuf; 0]);
}

#[test]
fn a_settler_that_fails_again_and_again_keeps_nobody_waiting() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, Options { backlog_bytes: 0, ..roomy() }).unwrap();
    let log = store.partition(key(0));
    append(&store, &log, &batch_of("a", 1, 1)).unwrap();
    store.seal();
    let mut context = Context::from_waker(Waker::noop());
    let mut waits = |store: &LocalStore| pin!(store.caught_up()).poll(&mut context).is_pending();
    disk.fail(Fault { kind: FaultKind::Sync, nth: 0, error: ErrorKind::Other, from_then_on: true });
    for _ in 0..5 {
        assert!(waits(&store));
        store.settle_once().unwrap_err();
    }
    assert!(!waits(&store));
    disk.heal();
    store.settle_all().unwrap();
    append(&store, &log, &batch_of("b", 1, 1)).unwrap();
    assert!(waits(&store), "as long as the settler gets on, it is waited for");
}

#[test]
fn nobody_waits_for_a_file_that_nobody_fills() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, Options { backlog_bytes: 0, ..roomy() }).unwrap();
    let log = store.partition(key(0));
    append(&store, &log, &batch_of("a", 1, 1)).unwrap();
    store.seal();
    append(&store, &log, &batch_of("b", 1, 1)).unwrap();
    assert!(store.settle_once().unwrap());
    assert!(store.settle_once().unwrap(), "what came meanwhile was sealed, too");
    assert_eq!(log.settled_end(), 2);
}

#[test]
fn spare_files_are_given_back_when_the_disk_is_full() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, roomy()).unwrap();
    let log = store.partition(key(0));
    append(&store, &log, &batch_of("a", 1, 1)).unwrap();
    store.settle_all().unwrap();
    let spares = || {
        let names = disk.list(&Path::new(DIR).join("log")).unwrap();
        names.iter().filter(|name| name.ends_with("spare")).count()
    };
    assert_eq!(spares(), 1);
    for _ in 0..2 {
        append(&store, &log, &batch_of("b", 1, 1)).unwrap();
        store.seal();
    }
    store.settle_once().unwrap();
    assert_eq!(spares(), 2);
    append(&store, &log, &batch_of("c", 1, 1)).unwrap();
    disk.fail(Fault { kind: FaultKind::Write, nth: 0, error: ErrorKind::StorageFull, from_then_on: false });
    store.settle_all().unwrap_err();
    assert_eq!(spares(), 0);
}

#[test]
fn a_little_is_settled_soon_after_the_writer_has_nothing_more_to_do() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, Options { settle_interval: Duration::ZERO, ..roomy() }).unwrap();
    store.start();
    let log = store.partition(key(0));
    queue(&log, 0, &batch_of("a", 1, 1)).wait().unwrap();
    let patience = Instant::now() + Duration::from_secs(20);
    while log.settled_end() == 0 {
        assert!(Instant::now() < patience, "it is not settled");
        std::thread::yield_now();
    }
    assert_eq!(contents(&log), [(0, "a".to_owned())]);
}
