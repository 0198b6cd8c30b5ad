use coordination::error_code::ErrorCode;
use store::Crash;

use crate::world::{World, from_producer, produced};

#[tokio::test]
async fn a_batch_that_comes_again_is_answered_with_its_offset_and_stored_once() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.append("orders", 0, 4).await;
    let first = world.produce("orders", 0, from_producer(2, 7, 0, 0)).await.unwrap();
    let again = world.produce("orders", 0, from_producer(2, 7, 0, 0)).await.unwrap();
    assert_eq!((first.base_offset, again.base_offset), (4, 4));
    assert_eq!(world.read("orders", 0, 0).await.high_watermark, 6);
    assert!(again.log_append_time_ms > 0, "Kafka tells the time of the original");
}

#[tokio::test]
async fn a_batch_that_comes_again_while_the_first_is_on_its_way_waits_for_it() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    let first = world.send("orders", 0, from_producer(2, 7, 0, 0));
    let again = world.send("orders", 0, from_producer(2, 7, 0, 0));
    assert_eq!(produced(again.reply().await.unwrap()).unwrap().base_offset, 0);
    assert_eq!(world.read("orders", 0, 0).await.high_watermark, 2);
    assert_eq!(produced(first.reply().await.unwrap()).unwrap().base_offset, 0);
}

#[tokio::test]
async fn sequences_have_no_gaps_and_epochs_do_not_go_back() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    assert!(world.produce("orders", 0, from_producer(2, 7, 0, 0)).await.is_ok());
    assert_eq!(world.refusal("orders", from_producer(1, 7, 0, 5)).await, ErrorCode::OutOfOrderSequenceNumber);
    assert!(world.produce("orders", 0, from_producer(1, 7, 0, 2)).await.is_ok());
    assert_eq!(world.refusal("orders", from_producer(1, 7, 1, 3)).await, ErrorCode::OutOfOrderSequenceNumber);
    assert!(world.produce("orders", 0, from_producer(1, 7, 1, 0)).await.is_ok());
    assert_eq!(world.refusal("orders", from_producer(1, 7, 0, 3)).await, ErrorCode::InvalidProducerEpoch);
    assert!(
        world.produce("orders", 0, from_producer(1, 8, 0, 9)).await.is_ok(),
        "an unknown producer may begin"
    );
}

#[tokio::test]
async fn producers_are_known_again_after_a_restart() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.produce("orders", 0, from_producer(2, 7, 3, 0)).await.unwrap();
    world.produce("orders", 0, from_producer(2, 7, 3, 2)).await.unwrap();
    let world = world.restart().await;
    let again = world.produce("orders", 0, from_producer(2, 7, 3, 0)).await.unwrap();
    assert_eq!(again.base_offset, 0);
    assert_eq!(world.refusal("orders", from_producer(1, 7, 2, 0)).await, ErrorCode::InvalidProducerEpoch);
    assert_eq!(world.refusal("orders", from_producer(1, 7, 3, 9)).await, ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(world.produce("orders", 0, from_producer(1, 7, 3, 4)).await.unwrap().base_offset, 4);
}

#[tokio::test]
async fn producers_are_known_again_after_their_batches_were_settled_and_the_power_went() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.produce("orders", 0, from_producer(2, 7, 0, 0)).await.unwrap();
    world.settle().await;
    world.produce("orders", 0, from_producer(2, 7, 0, 2)).await.unwrap();
    let world = world.crash(Crash::LosesAll).await;
    for sequence in [0, 2] {
        let again = world.produce("orders", 0, from_producer(2, 7, 0, sequence)).await.unwrap();
        assert_eq!(again.base_offset, i64::from(sequence));
    }
    assert_eq!(world.read("orders", 0, 0).await.high_watermark, 4);
}

#[tokio::test]
async fn silent_producers_are_forgotten() {
    let world = World::with(&[("producer.id.expiration.ms", "1")]).await;
    world.create("orders", 1, &[]).await;
    world.produce("orders", 0, from_producer(2, 7, 5, 0)).await.unwrap();
    let topic = world.topic("orders");
    topic.partitions[0].expire_producers(i64::MAX, 1);
    assert!(world.produce("orders", 0, from_producer(1, 7, 0, 9)).await.is_ok());
}
