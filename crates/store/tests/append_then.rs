//! Appends whose end is told by a call.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use common::*;
use store::{Append, AppendError, Fault, FaultKind, LocalStore, MemoryDisk, PartitionLog};

type Outcomes = mpsc::Receiver<(i64, Result<(), AppendError>)>;

/// Queues a batch at the offset `at` that reports itself by it.
fn queue_then(
    log: &Arc<PartitionLog>,
    at: i64,
    text: &str,
    told: &mpsc::Sender<(i64, Result<(), AppendError>)>,
) {
    let told = told.clone();
    let append = Append::at(&batch_of(text, 1, 5), at, 0).unwrap();
    log.append_then(append, move |outcome| told.send((at, outcome)).unwrap());
}

fn told(outcomes: &Outcomes) -> Vec<(i64, bool)> {
    outcomes.try_iter().map(|(at, outcome)| (at, outcome.is_ok())).collect()
}

fn start() -> (MemoryDisk, LocalStore, Arc<PartitionLog>) {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk, small()).unwrap();
    let log = store.partition(key(0));
    (disk, store, log)
}

#[test]
fn the_call_comes_once_in_order_and_when_the_batch_is_visible() {
    let (_disk, store, log) = start();
    let (tell, outcomes) = mpsc::channel();
    for at in 0..3 {
        queue_then(&log, at, "a", &tell);
    }
    let handle = queue(&log, 3, &batch_of("b", 1, 5));
    assert_eq!(told(&outcomes), []);
    let (end_tell, end) = mpsc::channel();
    let watched = Arc::clone(&log);
    log.append_then(Append::at(&batch_of("c", 1, 5), 4, 0).unwrap(), move |_| {
        end_tell.send(watched.end_offset()).unwrap();
    });
    store.commit_once();
    assert_eq!(told(&outcomes), [(0, true), (1, true), (2, true)]);
    handle.wait().unwrap();
    assert_eq!(end.try_recv(), Ok(5));
    store.commit_once();
    assert_eq!(told(&outcomes), []);
}

#[test]
fn what_is_called_may_append_again_to_the_same_partition() {
    let (_disk, store, log) = start();
    let again = Arc::clone(&log);
    let (tell, outcomes) = mpsc::channel();
    log.append_then(Append::at(&batch_of("a", 1, 5), 0, 0).unwrap(), move |outcome| {
        outcome.unwrap();
        assert_eq!(again.end_offset(), 1);
        queue_then(&again, 1, "b", &tell);
    });
    store.commit_once();
    assert_eq!(told(&outcomes), []);
    store.commit_once();
    assert_eq!(told(&outcomes), [(1, true)]);
    assert_eq!(contents(&log), [(0, "a".to_owned()), (1, "b".to_owned())]);
}

#[test]
fn a_chain_of_appends_runs_on_the_writers_thread() {
    fn next(log: &Arc<PartitionLog>, left: i64, tell: mpsc::Sender<i64>) {
        let at = log.end_offset();
        let append = Append::at(&batch_of("chain", 1, 5), at, 0).unwrap();
        let again = Arc::clone(log);
        log.append_then(append, move |outcome| {
            outcome.unwrap();
            match left {
                0 => tell.send(at).unwrap(),
                _ => next(&again, left - 1, tell),
            }
        });
    }
    let (_disk, store, log) = start();
    store.start();
    let (tell, last) = mpsc::channel();
    next(&log, 99, tell);
    assert_eq!(last.recv_timeout(Duration::from_secs(60)), Ok(99));
    store.close();
}

#[test]
fn a_failed_write_is_told_to_all_behind_it_and_the_partition_can_be_reset_at_once() {
    let (disk, store, log) = start();
    let (tell, outcomes) = mpsc::channel();
    let other = store.partition(key(1));
    queue_then(&log, 0, "a", &tell);
    queue_then(&log, 1, "b", &tell);
    let resetting = Arc::clone(&log);
    let (reset_tell, reset) = mpsc::channel();
    log.append_then(Append::at(&batch_of("c", 1, 5), 2, 0).unwrap(), move |outcome| {
        outcome.unwrap_err();
        reset_tell.send(resetting.reset().is_ok()).unwrap();
    });
    disk.fail(Fault { kind: FaultKind::Sync, nth: 0, error: io::ErrorKind::Other, from_then_on: false });
    store.commit_once();
    assert_eq!(told(&outcomes), [(0, false), (1, false)]);
    assert_eq!(reset.try_recv(), Ok(true));
    queue_then(&log, 0, "again", &tell);
    queue_then(&other, 0, "other", &tell);
    store.commit_once();
    assert_eq!(told(&outcomes), [(0, true), (0, true)]);
    assert_eq!(contents(&log), [(0, "again".to_owned())]);
}

#[test]
fn a_refusal_is_told_before_the_call_returns() {
    let (_disk, store, log) = start();
    let (tell, outcomes) = mpsc::channel();
    queue_then(&log, 7, "a", &tell);
    assert!(matches!(outcomes.try_recv(), Ok((7, Err(AppendError::Offset { found: 7, expected: 0 })))));
    store.close();
    queue_then(&log, 0, "a", &tell);
    assert!(matches!(outcomes.try_recv(), Ok((0, Err(AppendError::Closed)))));
    queue_then(&log, 0, "a", &tell);
    assert!(matches!(outcomes.try_recv(), Ok((0, Err(AppendError::Poisoned)))));
}

#[test]
fn a_panic_in_what_is_called_leaves_the_store_at_work() {
    let (_disk, store, log) = start();
    let (tell, outcomes) = mpsc::channel();
    log.append_then(Append::at(&batch_of("a", 1, 5), 0, 0).unwrap(), |_| panic!("on purpose"));
    queue_then(&log, 1, "b", &tell);
    store.commit_once();
    assert_eq!(told(&outcomes), [(1, true)]);
}

#[test]
fn whoever_is_told_may_be_the_last_to_hold_the_store() {
    let (_disk, store, log) = start();
    store.start();
    let (tell, ended) = mpsc::channel();
    log.append_then(Append::at(&batch_of("a", 1, 5), 0, 0).unwrap(), move |outcome| {
        drop(store);
        tell.send(outcome.is_ok()).unwrap();
    });
    assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(true));
}
