use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use coordination::error_code::ErrorCode;
use store::{Crash, Fault, FaultKind};

use crate::world::{World, from_producer, produced};

/// Sends batches of one producer while the n-th operation of a kind fails, each again until it is taken, and looks
/// at what is there afterwards.
async fn nth_fault(kind: FaultKind, nth: u64, from_then_on: bool) -> bool {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.disk.fail(Fault { kind, nth, error: io::ErrorKind::Other, from_then_on });
    let mut refused = 0;
    for sequence in 0..6 {
        loop {
            match world.produce("orders", 0, from_producer(1, 7, 0, sequence)).await {
                Ok(appended) => {
                    assert_eq!(appended.base_offset, i64::from(sequence));
                    break;
                }
                Err(refusal) => {
                    assert_eq!(refusal.refusal.code, ErrorCode::KafkaStorageError);
                    refused += 1;
                    let seen = world.read("orders", 0, 0).await.high_watermark;
                    assert_eq!(seen, i64::from(sequence), "what failed is not visible");
                    if from_then_on && refused > 2 {
                        world.disk.heal();
                    }
                    assert!(refused < 100, "the partition works again once the disk does");
                }
            }
        }
    }
    let hit = refused > 0;
    world.disk.heal();
    let world = world.crash(Crash::LosesAll).await;
    assert_eq!(world.values("orders", 0, 0).await.len(), 6, "{kind:?} {nth}");
    hit
}

#[tokio::test]
async fn a_produce_that_failed_is_never_seen_and_works_when_tried_again() {
    for kind in [FaultKind::Write, FaultKind::Sync] {
        for from_then_on in [false, true] {
            let mut hits = 0;
            for nth in 0..20 {
                hits += u32::from(nth_fault(kind, nth, from_then_on).await);
            }
            assert!(hits > 0, "no {kind:?} was met");
        }
    }
}

#[tokio::test]
async fn batches_queued_behind_one_that_fails_fail_with_it() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.disk.fail(Fault { kind: FaultKind::Sync, nth: 0, error: io::ErrorKind::Other, from_then_on: true });
    let answers: Vec<_> =
        (0..5).map(|sequence| world.send("orders", 0, from_producer(1, 7, 0, sequence))).collect();
    for answer in answers {
        assert_eq!(
            produced(answer.reply().await.unwrap()).unwrap_err().refusal.code,
            ErrorCode::KafkaStorageError
        );
    }
    world.disk.heal();
    for sequence in 0..5 {
        let mut tries = 0;
        while world.produce("orders", 0, from_producer(1, 7, 0, sequence)).await.is_err() {
            tries += 1;
            assert!(tries < 100);
        }
    }
    assert_eq!(world.values("orders", 0, 0).await.len(), 5);
}

#[tokio::test]
async fn a_batch_that_failed_when_nobody_waited_for_it_can_be_sent_again() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.disk.fail(Fault { kind: FaultKind::Sync, nth: 0, error: io::ErrorKind::Other, from_then_on: true });
    drop(world.send("orders", 0, from_producer(1, 7, 0, 0)));
    while world.broker.store().metrics().failed_appends.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    world.disk.heal();
    let again = async { while world.produce("orders", 0, from_producer(1, 7, 0, 0)).await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(20), again).await.expect("it is taken in the end");
    assert_eq!(world.values("orders", 0, 0).await.len(), 1);
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_serves_reads() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.append("orders", 0, 2).await;
    world.disk.fail(Fault {
        kind: FaultKind::Write,
        nth: 0,
        error: io::ErrorKind::StorageFull,
        from_then_on: true,
    });
    let refused = world.produce("orders", 0, from_producer(1, 7, 0, 0)).await.unwrap_err();
    assert_eq!(refused.refusal.code, ErrorCode::KafkaStorageError);
    assert_eq!(world.values("orders", 0, 0).await, ["v0", "v1"]);
    world.disk.heal();
    let mut tries = 0;
    while world.produce("orders", 0, from_producer(1, 7, 0, 0)).await.is_err() {
        tries += 1;
        assert!(tries < 100);
    }
    assert_eq!(world.values("orders", 0, 0).await.len(), 3);
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_crash_at_any_moment() {
    for seed in 0..20 {
        let world = World::new().await;
        world.create("orders", 1, &[]).await;
        for sequence in 0..5 {
            world.produce("orders", 0, from_producer(1, 7, 0, sequence)).await.unwrap();
        }
        let late = world.send("orders", 0, from_producer(1, 7, 0, 5));
        let world = world.crash(Crash::Tears(seed)).await;
        drop(late);
        let there = world.values("orders", 0, 0).await.len();
        assert!(there == 5 || there == 6, "{there} records with seed {seed}");
        let again = world.produce("orders", 0, from_producer(1, 7, 0, 5)).await.unwrap();
        assert_eq!(again.base_offset, 5);
        assert_eq!(world.values("orders", 0, 0).await.len(), 6);
    }
}
