//! Power failures and failing disks: what was acknowledged stays, in order, and nothing is made up.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::*;
use store::{
    AppendError, CompactOptions, Crash, Disk, Fault, FaultKind, Flush, LocalStore, MemoryDisk, OpenError,
    Options, PartitionConfig, verify,
};

/// What a client of the store knows.
#[derive(Default, Clone)]
struct Model {
    partitions: BTreeMap<u32, Known>,
    attempts: u64,
}

/// A batch that was to be stored.
#[derive(Clone)]
struct Attempt {
    base: i64,
    end: i64,
    text: String,
}

#[derive(Default, Clone)]
struct Known {
    start: i64,
    acknowledged: Vec<Attempt>,
    /// Not acknowledged: each may be there after a crash or not, but only where it was meant to be.
    doubtful: Vec<Attempt>,
}

impl Model {
    /// Queues some appends to some partitions and commits them; a failed partition is reset.
    fn append_some(&mut self, store: &LocalStore, dice: &mut Dice) {
        let mut queued = Vec::new();
        let mut next: BTreeMap<u32, i64> = BTreeMap::new();
        for _ in 0..=dice.roll(6) {
            let partition = u32::try_from(dice.roll(3)).unwrap();
            let log = store.partition(key(partition));
            let at = *next.entry(partition).or_insert_with(|| log.end_offset());
            self.attempts += 1;
            let size =
                usize::try_from(if dice.roll(8) == 0 { dice.roll(6000) } else { dice.roll(300) }).unwrap();
            let text = format!("{}-{}", self.attempts, "v".repeat(size));
            let records = i64::try_from(dice.roll(3)).unwrap() + 1;
            let handle = queue(&log, at, &batch_of(&text, records, 1));
            next.insert(partition, at + records);
            queued.push((partition, Attempt { base: at, end: at + records, text }, handle));
        }
        while store.commit_once() > 0 {}
        for (partition, attempt, handle) in queued {
            let known = self.partitions.entry(partition).or_default();
            match handle.wait() {
                Ok(()) => known.acknowledged.push(attempt),
                Err(AppendError::Disk(_) | AppendError::DiskFull(_)) => known.doubtful.push(attempt),
                Err(AppendError::Poisoned) => {}
                Err(error) => panic!("{error}"),
            }
            store.partition(key(partition)).reset().unwrap();
        }
    }

    fn delete_some(&mut self, store: &LocalStore, dice: &mut Dice) {
        let partition = u32::try_from(dice.roll(3)).unwrap();
        let log = store.partition(key(partition));
        let span = u64::try_from(log.end_offset() - log.start_offset()).unwrap();
        let to = log.start_offset() + i64::try_from(dice.roll(span + 1)).unwrap();
        let known = self.partitions.entry(partition).or_default();
        if log.set_start_offset(to).is_ok() {
            known.start = known.start.max(to);
        }
    }

    /// The running store shows exactly what was acknowledged.
    fn check_live(&self, store: &LocalStore) {
        for (&partition, known) in &self.partitions {
            let log = store.partition(key(partition));
            assert_eq!(contents(&log), known.visible(log.start_offset()), "partition {partition}");
        }
    }

    /// After a crash the store shows what was acknowledged, and perhaps something doubtful behind it, which from
    /// then on counts.
    fn check_recovered(&mut self, store: &LocalStore) {
        for (&partition, known) in &mut self.partitions {
            let log = store.partition(key(partition));
            assert!(log.start_offset() >= known.start, "deleted records are back in {partition}");
            known.start = log.start_offset();
            let found = contents(&log);
            let expected = known.visible(log.start_offset());
            assert!(
                found.len() >= expected.len(),
                "partition {partition} lost {:?}",
                &expected[found.len()..]
            );
            assert_eq!(found[..expected.len()], expected, "partition {partition}");
            for extra in &found[expected.len()..] {
                let meant = known
                    .doubtful
                    .iter()
                    .find(|attempt| (attempt.base, &attempt.text) == (extra.0, &extra.1));
                let meant = meant.unwrap_or_else(|| panic!("partition {partition} made up {extra:?}"));
                known.acknowledged.push(meant.clone());
            }
            known.doubtful.clear();
        }
    }
}

impl Known {
    fn visible(&self, start: i64) -> Vec<(i64, String)> {
        let all = self.acknowledged.iter().filter(|attempt| attempt.end > start);
        all.map(|attempt| (attempt.base, attempt.text.clone())).collect()
    }
}

fn run(seed: u64) {
    let mut dice = Dice::new(seed);
    let mut model = Model::default();
    let mut disk = MemoryDisk::new();
    for _life in 0..4 {
        let (store, recovery) = open(&disk, small()).unwrap();
        assert_eq!(recovery.damage, Vec::<String>::new(), "seed {seed}");
        model.check_recovered(&store);
        for partition in 0..3 {
            let segment_bytes = 300 + dice.roll(3000);
            let config = PartitionConfig { segment_bytes, index_interval_bytes: 200, ..Default::default() };
            store.partition(key(partition)).configure(config);
        }
        if dice.roll(3) > 0 {
            let kind = if dice.roll(2) == 0 { FaultKind::Write } else { FaultKind::Sync };
            let from_then_on = dice.roll(2) == 0;
            disk.fail(Fault { kind, nth: dice.roll(60), error: ErrorKind::Other, from_then_on });
        }
        for _step in 0..dice.roll(40) {
            match dice.roll(13) {
                0 => store.seal(),
                1 | 2 => {
                    let _ = store.settle_once();
                }
                3 => {
                    let _ = store.settle_all();
                }
                4 => model.delete_some(&store, &mut dice),
                5 => store.partition(key(0)).roll(),
                6 => {
                    // No two batches have a key in common, so each keeps its last record.
                    let options = CompactOptions { now_ms: 1, min_dirty_ratio: 0.0, ..Default::default() };
                    let partition = u32::try_from(dice.roll(3)).unwrap();
                    let _ = store.compact(&store.partition(key(partition)), &options);
                }
                _ => model.append_some(&store, &mut dice),
            }
        }
        let crash = match dice.roll(6) {
            0 => Crash::LosesAll,
            1 => Crash::KeepsAll,
            _ => Crash::Tears(dice.roll(u64::MAX)),
        };
        let after = disk.crash(crash);
        model.check_live(&store);
        drop(store);
        if dice.roll(4) == 0 {
            // Only the process has ended; the operating system has all that was written.
            disk.heal();
        } else {
            disk = after;
        }
    }
    let (store, _) = open(&disk, small()).unwrap();
    model.check_recovered(&store);
    store.settle_all().unwrap();
    model.check_live(&store);
    drop(store);
    let shared: Arc<dyn Disk> = Arc::new(disk);
    let mut findings = verify(&shared, Path::new(DIR)).unwrap().findings;
    findings.retain(|finding| !finding.harmless);
    assert_eq!(findings, [], "seed {seed}");
}

#[test]
fn acknowledged_batches_survive_crashes_at_any_moment() {
    for seed in 0..300 {
        let outcome = std::panic::catch_unwind(|| run(seed));
        if let Err(panic) = outcome {
            eprintln!("seed {seed} failed");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Lives of all flush modes after each other: a relaxed one may lose what it has not synced, but what a start has
/// shown stays, and the store always opens.
fn run_relaxed(seed: u64) {
    let mut dice = Dice::new(seed);
    let mut disk = MemoryDisk::new();
    let mut shown: BTreeMap<u32, Vec<(i64, String)>> = BTreeMap::new();
    for life in 0..5 {
        let flush = [Flush::Always, Flush::Os, Flush::Interval(Duration::ZERO)]
            [usize::try_from(dice.roll(3)).unwrap()];
        let opened = open(&disk, Options { flush, ..small() });
        let (store, _) = opened.unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error}"));
        for partition in 0..3 {
            let log = store.partition(key(partition));
            let segment_bytes = 300 + dice.roll(3000);
            log.configure(PartitionConfig { segment_bytes, ..PartitionConfig::default() });
            let found = contents(&log);
            let before = shown.remove(&partition).unwrap_or_default();
            assert_eq!(found.get(..before.len()), Some(&before[..]), "seed {seed}, life {life}");
            shown.insert(partition, found);
        }
        if dice.roll(2) > 0 {
            let kind = if dice.roll(2) == 0 { FaultKind::Write } else { FaultKind::Sync };
            let from_then_on = dice.roll(3) == 0;
            disk.fail(Fault { kind, nth: dice.roll(40), error: ErrorKind::Other, from_then_on });
        }
        for step in 0..dice.roll(30) {
            match dice.roll(12) {
                0 => store.seal(),
                1 => {
                    let _ = store.settle_once();
                }
                2 => {
                    let _ = store.settle_all();
                }
                3 => store.sync(),
                4 => store.partition(key(0)).roll(),
                _ => {
                    let log = store.partition(key(u32::try_from(dice.roll(3)).unwrap()));
                    let _ = append(&store, &log, &batch_of(&format!("{life}-{step}"), 1, 1));
                    log.reset().unwrap();
                }
            }
        }
        let crash = match dice.roll(4) {
            0 => Crash::LosesAll,
            1 => Crash::KeepsAll,
            _ => Crash::Tears(dice.roll(u64::MAX)),
        };
        let after = disk.crash(crash);
        drop(store);
        if dice.roll(4) == 0 {
            disk.heal();
        } else {
            disk = after;
        }
    }
}

#[test]
fn what_a_start_has_shown_stays_whatever_the_flush_mode() {
    for seed in 0..300 {
        run_relaxed(seed);
    }
}

/// Does a bit of everything on `disk`, with whatever of it fails.
fn do_a_bit_of_everything(disk: &MemoryDisk, model: &mut Model) {
    let mut dice = Dice::new(7);
    let Ok((store, _)) = open(disk, small()) else { return };
    for round in 0..3 {
        for _ in 0..2 {
            model.append_some(&store, &mut dice);
        }
        let _ = store.settle_all();
        model.append_some(&store, &mut dice);
        if round == 1 {
            model.delete_some(&store, &mut dice);
        }
        for (&partition, known) in &model.partitions {
            let log = store.partition(key(partition));
            // A read may fail; what it shows must be right.
            let mut offset = log.start_offset();
            while let Ok(read) = log.read(offset, 500, true)
                && read.bytes > 0
            {
                for (base, text) in batches(&read.concat()) {
                    let known = known
                        .acknowledged
                        .iter()
                        .any(|attempt| (attempt.base, &attempt.text) == (base, &text));
                    assert!(known, "{text} at {base} was never acknowledged");
                }
                offset = read.next_offset;
            }
        }
    }
}

#[test]
fn every_single_fault_is_survived() {
    for kind in [FaultKind::Write, FaultKind::Sync, FaultKind::Read] {
        for (error, from_then_on) in [(ErrorKind::Other, false), (ErrorKind::StorageFull, true)] {
            for nth in 0.. {
                let disk = MemoryDisk::new();
                disk.fail(Fault { kind, nth, error, from_then_on });
                let mut model = Model::default();
                do_a_bit_of_everything(&disk, &mut model);
                let hit = disk.faults_hit() > 0;
                for crash in [Crash::LosesAll, Crash::KeepsAll, Crash::Tears(nth)] {
                    let after = disk.crash(crash);
                    let (store, _) = open(&after, small()).unwrap();
                    let mut model = model.clone();
                    model.check_recovered(&store);
                    // And it works again.
                    let mut dice = Dice::new(nth);
                    model.append_some(&store, &mut dice);
                    store.settle_all().unwrap();
                    model.check_live(&store);
                }
                if !hit {
                    assert!(nth > 10, "the faults are met at all");
                    break;
                }
            }
        }
    }
}

#[test]
fn a_start_offset_that_was_set_survives_and_one_that_failed_loses_nothing_else() {
    for (kind, nth, settle) in [FaultKind::Write, FaultKind::Sync]
        .into_iter()
        .flat_map(|kind| (0..12).flat_map(move |nth| [(kind, nth, false), (kind, nth, true)]))
    {
        let disk = MemoryDisk::new();
        let (store, _) = open(&disk, small()).unwrap();
        let log = store.partition(key(0));
        for number in 0..6 {
            append(&store, &log, &batch_of(&format!("{number}"), 1, 1)).unwrap();
        }
        if settle {
            store.settle_all().unwrap();
        }
        log.set_start_offset(2).unwrap();
        // All that the machine does before it stops.
        disk.fail(Fault { kind, nth, error: ErrorKind::Other, from_then_on: true });
        let set = log.set_start_offset(4);
        assert_eq!(log.start_offset(), if set.is_ok() { 4 } else { 2 });
        for crash in [Crash::LosesAll, Crash::KeepsAll, Crash::Tears(nth)] {
            let (store, recovery) = open(&disk.crash(crash), small()).unwrap();
            assert_eq!(recovery.damage, Vec::<String>::new());
            let log = store.partition(key(0));
            assert_eq!(log.end_offset(), 6);
            let start = log.start_offset();
            assert!(start == 4 || (start == 2 && set.is_err()), "{kind:?} {nth} {crash:?}: {start}");
            let expected: Vec<_> = (start..6).map(|offset| (offset, format!("{offset}"))).collect();
            assert_eq!(contents(&log), expected);
        }
    }
}

#[test]
fn a_full_disk_refuses_appends_serves_reads_and_recovers() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = store.partition(key(0));
    append(&store, &log, &batch_of("before", 1, 1)).unwrap();
    disk.set_capacity(Some(disk.used()));
    let mut refused = 0;
    for number in 0..100 {
        match append(&store, &log, &batch_of(&format!("{number}-{}", "f".repeat(500)), 1, 1)) {
            Ok(()) => assert_eq!(refused, 0, "a full disk does not become less full"),
            Err(AppendError::DiskFull(_)) => {
                refused += 1;
                assert!(matches!(
                    append(&store, &log, &batch_of("behind", 1, 1)),
                    Err(AppendError::Poisoned | AppendError::DiskFull(_))
                ));
                log.reset().unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 50);
    let before = contents(&log);
    assert_eq!(before.first().unwrap().1, "before");
    disk.set_capacity(None);
    append(&store, &log, &batch_of("after", 1, 1)).unwrap();
    store.settle_all().unwrap();
    assert_eq!(contents(&log).len(), before.len() + 1);
    assert_eq!(contents(&log).last().unwrap().1, "after");
}

#[test]
fn a_poisoned_partition_fails_what_is_queued_behind_and_leaves_others_alone() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let (bad, good) = (store.partition(key(0)), store.partition(key(1)));
    append(&store, &bad, &batch_of("a", 1, 1)).unwrap();
    disk.fail(Fault { kind: FaultKind::Sync, nth: 0, error: ErrorKind::Other, from_then_on: false });
    let first = queue(&bad, 1, &batch_of("b", 1, 1));
    store.commit_once();
    let outstanding = queue(&bad, 2, &batch_of("c", 1, 1));
    let fine = queue(&good, 0, &batch_of("d", 1, 1));
    assert!(matches!(first.wait(), Err(AppendError::Disk(_))));
    assert!(matches!(outstanding.wait(), Err(AppendError::Poisoned)));
    bad.reset().unwrap();
    store.commit_once();
    fine.wait().unwrap();
    assert_eq!(bad.end_offset(), 1);
    append(&store, &bad, &batch_of("b again", 1, 1)).unwrap();
    assert_eq!(contents(&bad), [(0, "a".to_owned()), (1, "b again".to_owned())]);
    drop((store, bad, good));
    let (store, _) = open(&disk.crash(Crash::KeepsAll), small()).unwrap();
    let found = contents(&store.partition(key(0)));
    assert_eq!(found, [(0, "a".to_owned()), (1, "b again".to_owned())], "the failed one does not come back");
}

#[test]
fn a_reset_waits_for_what_is_outstanding() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = store.partition(key(0));
    disk.fail(Fault { kind: FaultKind::Write, nth: 0, error: ErrorKind::Other, from_then_on: false });
    // The first group takes one append only, so that the second is still queued when the first has failed.
    let large = "l".repeat(40 << 20);
    let first = queue(&log, 0, &batch_of(&large, 1, 1));
    let second = queue(&log, 1, &batch_of("b", 1, 1));
    store.commit_once();
    assert!(first.wait().is_err());
    assert_eq!(log.reset().unwrap_err().outstanding, 1);
    store.commit_once();
    assert!(matches!(second.wait(), Err(AppendError::Poisoned)));
    log.reset().unwrap();
    append(&store, &log, &batch_of("fine", 1, 1)).unwrap();
}

#[test]
fn recycled_files_never_bring_old_batches_back() {
    let disk = MemoryDisk::new();
    // All batches have the same size, so that an old frame begins wherever a new one ends.
    let options = Options { log_file_bytes: 4 << 10, ..small() };
    let mut expected = Vec::new();
    let mut current = disk;
    for life in 0..30_u64 {
        let (store, _) = open(&current, options).unwrap();
        let log = store.partition(key(0));
        assert_eq!(contents(&log), expected, "in life {life}");
        for number in 0..life % 23 {
            let text = format!("{life:04}-{number:04}");
            expected.push((log.end_offset(), text.clone()));
            append(&store, &log, &batch_of(&text, 1, 1)).unwrap();
        }
        if life % 3 > 0 {
            store.settle_all().unwrap();
        }
        let after = current.crash(if life % 2 == 0 { Crash::Tears(life) } else { Crash::KeepsAll });
        drop((store, log));
        current = after;
    }
}

#[test]
fn damage_to_acknowledged_frames_is_refused_and_a_torn_tail_is_cut() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, Options { log_file_bytes: 1 << 20, ..small() }).unwrap();
    let log = store.partition(key(0));
    for number in 0..10 {
        append(&store, &log, &batch_of(&format!("{number}"), 1, 1)).unwrap();
    }
    drop((store, log));
    let log_dir = Path::new(DIR).join("log");
    let name = disk_list(&disk, &log_dir).into_iter().find(|name| name.ends_with(".log")).unwrap();
    let path = log_dir.join(name);
    let frame = 56 + batch_of("0", 1, 1).len();

    let damaged = disk.crash(Crash::KeepsAll);
    damaged.corrupt(&path, 64 + 3 * frame + 100, b"!!").unwrap();
    match open(&damaged, small()).unwrap_err() {
        OpenError::Corrupt { file, position, .. } => {
            assert_eq!((file, position), (path.clone(), u64::try_from(64 + 3 * frame).unwrap()));
        }
        other => panic!("{other}"),
    }

    let torn = disk.crash(Crash::KeepsAll);
    torn.corrupt(&path, 64 + 9 * frame + 100, b"!!").unwrap();
    let (store, recovery) = open(&torn, small()).unwrap();
    assert_eq!(recovery.cuts.len(), 1);
    assert_eq!(recovery.cuts[0].file, path);
    assert_eq!(recovery.cuts[0].position, u64::try_from(64 + 9 * frame).unwrap());
    assert_eq!(store.partition(key(0)).end_offset(), 9);
}

fn disk_list(disk: &MemoryDisk, dir: &Path) -> Vec<String> {
    Disk::list(disk, dir).unwrap()
}
