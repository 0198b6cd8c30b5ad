//! Appending, reading back, and finding it all again after a restart.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::*;
use store::{Flush, LocalStore, MemoryDisk, OpenError, Options, ReadError, RealDisk};
use tokio::sync::Notify;

#[test]
fn what_was_appended_is_read_back_wherever_it_is() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = store.partition(key(0));
    let mut expected = Vec::new();
    for number in 0..200 {
        let text = format!("value-{number}-{}", "x".repeat(number));
        expected.push((log.end_offset(), text.clone()));
        append(&store, &log, &batch_of(&text, 2, 1000)).unwrap();
        if number % 50 == 20 {
            store.settle_once().unwrap();
        }
    }
    assert_eq!(log.end_offset(), 400);
    assert_eq!(contents(&log), expected);
    store.settle_all().unwrap();
    assert_eq!(log.settled_end(), 400);
    assert_eq!(contents(&log), expected);
    // From the middle of a batch, too.
    let read = log.read(201, 1, true).unwrap();
    assert_eq!(batches(&read.concat()), expected[100..101]);
    assert_eq!(read.next_offset, 202);
    assert_eq!(log.read(201, 1, false).unwrap().bytes, 0);
}

#[test]
fn a_restart_finds_everything_settled_or_not() {
    let disk = MemoryDisk::new();
    let mut expected = Vec::new();
    for round in 0..6 {
        let (store, recovery) = open(&disk, small()).unwrap();
        assert_eq!(recovery.cuts, []);
        assert_eq!(recovery.damage, Vec::<String>::new());
        let log = store.partition(key(3));
        assert_eq!(contents(&log), expected, "in round {round}");
        for number in 0..40 {
            let text = format!("{round}-{number}-{}", "y".repeat(300));
            expected.push((log.end_offset(), text.clone()));
            append(&store, &log, &batch_of(&text, 1, 5)).unwrap();
        }
        if round % 2 == 0 {
            store.settle_once().unwrap();
        }
    }
}

#[test]
fn real_files_work_with_threads() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { log_file_bytes: 1 << 20, ..Options::default() };
    let (store, recovery) = LocalStore::open(Arc::new(RealDisk), dir.path(), options).unwrap();
    assert_eq!(recovery.partitions, []);
    store.start();
    let mut handles = Vec::new();
    for number in 0..500_i64 {
        for partition in 0..4 {
            let log = store.partition(key(partition));
            let batch = batch_of(&format!("{number}-{}", "z".repeat(3000)), 2, number);
            handles.push(queue(&log, number * 2, &batch));
        }
    }
    for handle in handles {
        handle.wait().unwrap();
    }
    let before: Vec<_> = (0..4).map(|partition| contents(&store.partition(key(partition)))).collect();
    assert!(before.iter().all(|log| log.len() == 500));
    store.close();
    drop(store);
    let (store, recovery) = LocalStore::open(Arc::new(RealDisk), dir.path(), options).unwrap();
    assert_eq!(recovery.partitions.len(), 4);
    for (partition, before) in (0..).zip(&before) {
        assert_eq!(&contents(&store.partition(key(partition))), before);
    }
    store.settle_all().unwrap();
    for (partition, before) in (0..).zip(&before) {
        assert_eq!(&contents(&store.partition(key(partition))), before);
    }
}

#[test]
fn a_large_batch_does_not_need_a_large_log_file() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = store.partition(key(0));
    let text = "w".repeat(100_000);
    append(&store, &log, &batch_of(&text, 1, 1)).unwrap();
    append(&store, &log, &batch_of("small", 1, 1)).unwrap();
    assert_eq!(contents(&log), [(0, text.clone()), (1, "small".to_owned())]);
    store.settle_all().unwrap();
    assert_eq!(contents(&log), [(0, text), (1, "small".to_owned())]);
}

#[test]
fn appends_that_wait_together_are_synced_once_and_keep_their_order() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, Options { log_file_bytes: 1 << 20, ..small() }).unwrap();
    append(&store, &store.partition(key(9)), &batch_of("first", 1, 1)).unwrap();
    let before = store::Metrics::get(&store.metrics().syncs);
    let mut handles = Vec::new();
    for number in 0..50 {
        for partition in 0..5 {
            let batch = batch_of(&format!("{number}"), 1, 1);
            handles.push(queue(&store.partition(key(partition)), number, &batch));
        }
    }
    assert_eq!(store.partition(key(0)).end_offset(), 0, "nothing is visible before it is durable");
    assert_eq!(store.commit_once(), 250);
    assert_eq!(store::Metrics::get(&store.metrics().syncs), before + 1);
    for handle in handles {
        handle.wait().unwrap();
    }
    let expected: Vec<_> = (0..50).map(|number| (number, format!("{number}"))).collect();
    for partition in 0..5 {
        assert_eq!(contents(&store.partition(key(partition))), expected);
    }
}

#[test]
fn offsets_outside_of_the_log_are_refused() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = store.partition(key(0));
    append(&store, &log, &batch_of("a", 3, 1)).unwrap();
    assert!(matches!(log.read(4, 100, true), Err(ReadError::OutOfRange { offset: 4, start: 0, end: 3 })));
    assert!(matches!(log.read(-1, 100, true), Err(ReadError::OutOfRange { .. })));
    assert_eq!(log.read(3, 100, true).unwrap().bytes, 0);
    assert!(queue(&log, 7, &batch_of("b", 1, 1)).wait().is_err());
}

#[test]
fn a_second_opener_is_refused() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    assert!(matches!(open(&disk, small()), Err(OpenError::InUse { .. })));
    drop(store);
    open(&disk, small()).unwrap();

    let dir = tempfile::tempdir().unwrap();
    let (store, _) = LocalStore::open(Arc::new(RealDisk), dir.path(), small()).unwrap();
    let refused = LocalStore::open(Arc::new(RealDisk), dir.path(), small()).unwrap_err();
    assert!(refused.to_string().contains("in use by another process"), "{refused}");
    drop(store);
    LocalStore::open(Arc::new(RealDisk), dir.path(), small()).unwrap();
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    drop(LocalStore::open(Arc::new(RealDisk), dir.path(), small()).unwrap());
    std::fs::write(dir.path().join("format"), "{\"format\":\"kohort\",\"version\": 7}\n").unwrap();
    let refused = LocalStore::open(Arc::new(RealDisk), dir.path(), small()).unwrap_err();
    assert!(refused.to_string().contains("format version 7"), "{refused}");
}

#[test]
fn who_watches_is_woken_when_the_end_moves_and_not_afterwards() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = store.partition(key(0));
    let notify = Arc::new(Notify::new());
    let woken = |notify: &Arc<Notify>| {
        let mut waiting = std::pin::pin!(notify.notified());
        waiting.as_mut().enable()
    };
    let watch = log.watch(&notify);
    assert!(!woken(&notify));
    append(&store, &log, &batch_of("a", 1, 1)).unwrap();
    assert!(woken(&notify));
    drop(watch);
    append(&store, &log, &batch_of("b", 1, 1)).unwrap();
    assert!(!woken(&notify));
}

#[test]
fn the_relaxed_flush_modes_show_what_is_written() {
    for flush in [Flush::Os, Flush::Interval(std::time::Duration::from_secs(3600))] {
        let disk = MemoryDisk::new();
        let (store, _) = open(&disk, Options { flush, ..small() }).unwrap();
        let log = store.partition(key(0));
        for number in 0..100 {
            append(&store, &log, &batch_of(&format!("{number}"), 1, 1)).unwrap();
        }
        store.settle_all().unwrap();
        append(&store, &log, &batch_of("last", 1, 1)).unwrap();
        store.close();
        drop(store);
        let after = disk.crash(store::Crash::LosesAll);
        let (store, _) = open(&after, small()).unwrap();
        assert_eq!(store.partition(key(0)).end_offset(), 101, "a clean end syncs");
    }
}

#[test]
fn deleted_records_stay_deleted_and_offsets_go_on() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = store.partition(key(0));
    for number in 0..10 {
        append(&store, &log, &batch_of(&format!("{number}"), 1, 1)).unwrap();
    }
    log.set_start_offset(4).unwrap();
    store.settle_all().unwrap();
    log.set_start_offset(6).unwrap();
    assert_eq!(contents(&log).len(), 4);
    log.set_start_offset(1000).unwrap();
    assert_eq!((log.start_offset(), log.end_offset()), (10, 10));
    assert_eq!(log.segments(), []);
    drop((store, log));
    let after = disk.crash(store::Crash::LosesAll);
    let (store, _) = open(&after, small()).unwrap();
    let log = store.partition(key(0));
    assert_eq!((log.start_offset(), log.end_offset()), (10, 10));
    append(&store, &log, &batch_of("next", 1, 1)).unwrap();
    store.settle_all().unwrap();
    assert_eq!(contents(&log), [(10, "next".to_owned())]);
}

#[test]
fn a_damaged_start_offset_is_an_error_and_brings_nothing_back() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = store.partition(key(0));
    append(&store, &log, &batch_of("deleted", 1, 1)).unwrap();
    log.set_start_offset(1).unwrap();
    drop((store, log));
    let topic = Path::new(DIR).join("topics").join(key(0).topic.to_string());
    disk.corrupt(&topic.join("0/start"), 9, &[1]).unwrap();
    let error = open(&disk, small()).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Disk { .. }), "{error}");
}

#[test]
fn a_removed_topic_is_gone_and_others_stay() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let other = store::PartitionKey { topic: store::TopicId::from_u128(77), partition: 0 };
    for number in 0..30 {
        append(&store, &store.partition(key(0)), &batch_of(&format!("{number}"), 1, 1)).unwrap();
        append(&store, &store.partition(other), &batch_of(&format!("{number}"), 1, 1)).unwrap();
        if number == 10 {
            store.settle_all().unwrap();
        }
    }
    let gone = store.partition(key(0));
    store.remove_topic(key(0).topic).unwrap();
    assert!(queue(&gone, 30, &batch_of("late", 1, 1)).wait().is_err());
    store.settle_all().unwrap();
    drop((store, gone));
    let (store, recovery) = open(&disk, small()).unwrap();
    assert_eq!(recovery.partitions, [other]);
    assert_eq!(contents(&store.partition(other)).len(), 30);
}

#[test]
fn readers_see_every_batch_once_while_files_come_and_go() {
    let disk = MemoryDisk::new();
    // With this little the settler does not wait for a pause.
    let (store, _) = open(&disk, Options { backlog_bytes: 16 << 10, ..small() }).unwrap();
    store.start();
    let total = 600;
    let store = &store;
    std::thread::scope(|scope| {
        for partition in 0..3 {
            let log = store.partition(key(partition));
            log.configure(store::PartitionConfig {
                segment_bytes: 9000,
                ..store::PartitionConfig::default()
            });
            let writer = Arc::clone(&log);
            scope.spawn(move || {
                for number in 0..total {
                    let text = format!("{number}-{}", "c".repeat(usize::try_from(number % 500).unwrap()));
                    queue(&writer, number, &batch_of(&text, 1, number)).wait().unwrap();
                    // However busy the machine is, files go while others come.
                    while store.is_behind() {
                        std::thread::yield_now();
                    }
                }
            });
            scope.spawn(move || {
                let mut offset = 0;
                while offset < total {
                    let read = match log.read(offset, 3000, true) {
                        Ok(read) => read,
                        Err(ReadError::OutOfRange { start, .. }) => {
                            offset = start;
                            continue;
                        }
                        Err(error) => panic!("{error}"),
                    };
                    for (base, text) in batches(&read.concat()) {
                        assert_eq!(base, offset);
                        assert!(text.starts_with(&format!("{base}-")));
                        offset += 1;
                    }
                    std::thread::yield_now();
                }
            });
        }
        // Deletes from behind, as retention does.
        let log = store.partition(key(0));
        scope.spawn(move || {
            while log.end_offset() < total {
                log.set_start_offset(log.end_offset() - 100).unwrap();
                std::thread::yield_now();
            }
        });
    });
    store.close();
    assert!(store::Metrics::get(&store.metrics().settled_files) > 10, "files did come and go");
}
