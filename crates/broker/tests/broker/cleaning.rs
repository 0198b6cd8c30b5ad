use std::sync::Arc;

use crate::world::{World, batch_at, keyed, now_ms};

const DAY_MS: i64 = 24 * 3600 * 1000;

#[tokio::test]
async fn old_segments_go_and_young_ones_stay() {
    let world = World::new().await;
    world.create("orders", 1, &[("retention.ms", "86400000")]).await;
    world.produce("orders", 0, batch_at(3, now_ms() - 2 * DAY_MS)).await.unwrap();
    world.settle().await;
    world.topic("orders").partitions[0].log().roll();
    world.append("orders", 0, 2).await;
    world.settle().await;
    world.broker.clean().await;
    assert_eq!(world.read("orders", 0, 3).await.log_start_offset, 3);
    let world = world.restart().await;
    assert_eq!(world.read("orders", 0, 3).await.log_start_offset, 3);
    assert_eq!(world.values("orders", 0, 3).await, ["v0", "v1"]);
}

#[tokio::test]
async fn no_more_than_retention_bytes_stays_in_whole_segments() {
    let world = World::new().await;
    world.create("orders", 1, &[("retention.bytes", "100")]).await;
    for _ in 0..4 {
        world.append("orders", 0, 5).await;
        world.settle().await;
        world.topic("orders").partitions[0].log().roll();
    }
    world.broker.clean().await;
    let read = world.read("orders", 0, 20).await;
    assert_eq!((read.log_start_offset, read.high_watermark), (15, 20));
}

#[tokio::test]
async fn compaction_keeps_the_last_value_of_every_key() {
    let world = World::new().await;
    world.create("state", 1, &[("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0")]).await;
    let log = Arc::clone(world.topic("state").partitions[0].log());
    for (a, b) in [("1", "1"), ("2", "2"), ("3", "2")] {
        world.produce("state", 0, keyed(&[(Some("a"), Some(a)), (Some("b"), Some(b))])).await.unwrap();
        world.settle().await;
        log.roll();
    }
    world.produce("state", 0, keyed(&[(Some("c"), Some("9"))])).await.unwrap();
    world.settle().await;
    world.broker.clean().await;
    let world = world.restart().await;
    assert_eq!(world.values("state", 0, 0).await, ["3", "2", "9"]);
    assert_eq!(world.append("state", 0, 1).await, 7);
}
