//! Compaction against a model: the last value of every key stays, at its offset.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use batch::{BatchBuilder, Codec, NewRecord};
use common::*;
use store::{CompactOptions, Crash, Fault, FaultKind, LocalStore, MemoryDisk, PartitionConfig, PartitionLog};

/// A record as a consumer sees it.
type Seen = (i64, Option<String>, Option<String>);

fn config() -> PartitionConfig {
    PartitionConfig { segment_bytes: 1500, index_interval_bytes: 200, ..PartitionConfig::default() }
}

fn options(now_ms: i64) -> CompactOptions {
    CompactOptions {
        now_ms,
        delete_retention: Duration::from_millis(1000),
        min_dirty_ratio: 0.0,
        ..CompactOptions::default()
    }
}

fn text(bytes: &bytes::Bytes) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn records(log: &PartitionLog) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut offset = log.start_offset();
    while offset < log.end_offset() {
        let read = log.read(offset, 400, true).unwrap();
        assert!(read.next_offset > offset);
        for batch in batch::Batches::new(&read.concat()) {
            let (_, batch) = batch.unwrap();
            for record in batch::Records::new(&batch).unwrap() {
                let record = record.unwrap();
                seen.push((record.offset, record.key.as_ref().map(text), record.value.as_ref().map(text)));
            }
        }
        offset = read.next_offset;
    }
    assert!(seen.is_sorted_by(|a, b| a.0 < b.0), "offsets grow");
    seen
}

/// Appends a batch of random records and takes note of them.
fn append_random(store: &LocalStore, log: &Arc<PartitionLog>, dice: &mut Dice, all: &mut Vec<Seen>) {
    let codec = [Codec::None, Codec::Lz4, Codec::Zstd][usize::try_from(dice.roll(3)).unwrap()];
    let mut builder = BatchBuilder::new(0).codec(codec);
    for _ in 0..=dice.roll(4) {
        let offset = i64::try_from(all.len()).unwrap();
        let key = (dice.roll(10) > 0).then(|| format!("key-{}", dice.roll(12)));
        let value = (dice.roll(5) > 0).then(|| format!("value-{offset}-{}", "x".repeat(40)));
        let new = NewRecord {
            timestamp: offset,
            key: key.as_ref().map(String::as_bytes),
            value: value.as_ref().map(String::as_bytes),
            headers: &[],
        };
        builder.push(&new).unwrap();
        all.push((offset, key, value));
    }
    append(store, log, &builder.finish().unwrap()).unwrap();
}

/// What is visible is a part of what was appended that has lost nothing that matters.
fn check(log: &PartitionLog, all: &[Seen]) {
    let seen = records(log);
    for record in &seen {
        assert_eq!(record, &all[usize::try_from(record.0).unwrap()], "a record is as it was appended");
    }
    let last = |records: &[Seen]| {
        let keyed = records.iter().filter_map(|(_, key, value)| Some((key.clone()?, value.clone())));
        let mut map: BTreeMap<String, Option<String>> = keyed.collect();
        map.retain(|_, value| value.is_some());
        map
    };
    assert_eq!(last(&seen), last(all), "the last value of every key is there");
    let without_key =
        |records: &[Seen]| records.iter().filter(|record| record.1.is_none()).cloned().collect::<Vec<_>>();
    assert_eq!(without_key(&seen), without_key(all), "records without a key stay");
}

#[test]
fn the_last_value_of_every_key_survives_any_number_of_compactions() {
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let mut disk = MemoryDisk::new();
        let mut all = Vec::new();
        for life in 0..3 {
            let (store, recovery) = open(&disk, small()).unwrap();
            assert_eq!(recovery.damage, Vec::<String>::new(), "seed {seed}");
            let log = store.partition(key(0));
            log.configure(config());
            check(&log, &all);
            for round in 0..dice.roll(8) {
                for _ in 0..dice.roll(12) {
                    append_random(&store, &log, &mut dice, &mut all);
                }
                store.settle_all().unwrap();
                let keys_max = if dice.roll(2) == 0 { 3 } else { 1000 };
                let now = i64::try_from(life * 10 + round).unwrap() * 700;
                let options = CompactOptions { keys_max, ..options(now) };
                store.compact(&log, &options).unwrap();
                check(&log, &all);
            }
            let after = disk.crash(Crash::Tears(seed));
            drop((store, log));
            disk = after;
        }
    }
}

#[test]
fn compaction_shrinks_the_log_and_a_second_one_finds_nothing() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = store.partition(key(0));
    log.configure(config());
    let (mut dice, mut all) = (Dice::new(1), Vec::new());
    for _ in 0..100 {
        append_random(&store, &log, &mut dice, &mut all);
    }
    store.settle_all().unwrap();
    let done = store.compact(&log, &options(5)).unwrap().unwrap();
    assert!(done.records_dropped > 100, "{done:?}");
    assert!(done.bytes_after * 2 < done.bytes_before, "{done:?}");
    let segments = log.segments();
    assert!(segments.len() < 12, "small segments are merged: {}", segments.len());
    assert_eq!(store.compact(&log, &options(6)).unwrap(), None);
    check(&log, &all);
}

#[test]
fn tombstones_stay_for_their_time_and_then_go() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = store.partition(key(0));
    log.configure(config());
    let put = |key: &str, value: Option<&str>| {
        let mut builder = BatchBuilder::new(0);
        let (key, value) = (Some(key.as_bytes()), value.map(str::as_bytes));
        builder.push(&NewRecord { timestamp: 1, key, value, headers: &[] }).unwrap();
        append(&store, &log, &builder.finish().unwrap()).unwrap();
    };
    put("a", Some("1"));
    put("b", Some("2"));
    put("a", None);
    store.settle_all().unwrap();
    log.roll();
    put("c", Some("3"));
    store.settle_all().unwrap();
    let keys =
        |log: &PartitionLog| records(log).into_iter().filter_map(|record| record.1).collect::<Vec<_>>();
    store.compact(&log, &options(10_000)).unwrap().unwrap();
    assert_eq!(keys(&log), ["b", "a", "c"], "the deletion is still to be seen");
    assert_eq!(store.compact(&log, &options(10_999)).unwrap(), None);
    store.compact(&log, &options(11_000)).unwrap().unwrap();
    assert_eq!(keys(&log), ["b", "c"]);
    assert_eq!(log.read(2, 1000, true).unwrap().next_offset, 4, "a read in the gap finds what follows");
}

#[test]
fn a_reader_meets_no_batches_that_compaction_has_emptied_until_the_end() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = store.partition(key(0));
    log.configure(PartitionConfig { segment_bytes: 300, ..config() });
    let one = |key: &str, value: &str| {
        let mut builder = BatchBuilder::new(0);
        let new = NewRecord {
            timestamp: 1,
            key: Some(key.as_bytes()),
            value: Some(value.as_bytes()),
            headers: &[],
        };
        builder.push(&new).unwrap();
        builder.finish().unwrap()
    };
    // One key, again and again, compacted each time: every pass empties what was there before.
    for round in 0..30 {
        for _ in 0..3 {
            append(&store, &log, &one("same", &"x".repeat(150))).unwrap();
        }
        store.settle_all().unwrap();
        store.compact(&log, &options(10 + round)).unwrap();
    }
    let mut offset = 0;
    let mut reads = 0;
    while offset < log.end_offset() {
        let read = log.read(offset, 1, true).unwrap();
        let batches: Vec<_> = batch::Batches::new(&read.concat()).map(Result::unwrap).collect();
        assert!(batches.iter().all(|(header, _)| header.records_count > 0), "{batches:?}");
        offset = read.next_offset;
        reads += 1;
    }
    assert!(reads <= 5, "little is left of 90 batches, but it took {reads} reads");
    store.close();
}

#[test]
fn every_single_fault_during_compaction_is_survived() {
    for kind in [FaultKind::Write, FaultKind::Sync, FaultKind::Read] {
        for from_then_on in [false, true] {
            for nth in 0.. {
                let disk = MemoryDisk::new();
                let (store, _) = open(&disk, small()).unwrap();
                let log = store.partition(key(0));
                log.configure(config());
                let (mut dice, mut all) = (Dice::new(3), Vec::new());
                for _ in 0..30 {
                    append_random(&store, &log, &mut dice, &mut all);
                }
                store.settle_all().unwrap();
                disk.fail(Fault { kind, nth, error: ErrorKind::Other, from_then_on });
                let failed = store.compact(&log, &options(5)).is_err();
                let hit = disk.faults_hit() > 0;
                for crash in [Crash::LosesAll, Crash::KeepsAll, Crash::Tears(nth)] {
                    let (after, recovery) = open(&disk.crash(crash), small()).unwrap();
                    assert_eq!(recovery.damage, Vec::<String>::new());
                    check(&after.partition(key(0)), &all);
                }
                disk.heal();
                check(&log, &all);
                store.compact(&log, &options(6)).unwrap();
                check(&log, &all);
                assert!(hit || !failed);
                if !hit {
                    break;
                }
            }
        }
    }
}
