use coordination::error_code::ErrorCode;
use store::Crash;

use crate::world::{World, batch, from_producer};

#[tokio::test]
async fn topics_settings_and_records_are_there_after_a_restart() {
    let world = World::new().await;
    let id = world.create("small", 3, &[("max.message.bytes", "100")]).await;
    world.append("small", 2, 1).await;
    let world = world.restart().await;
    let topic = world.topic("small");
    assert_eq!((topic.id, &*topic.name, topic.partitions.len()), (id, "small", 3));
    assert_eq!(world.values("small", 2, 0).await, ["v0"]);
    assert_eq!(world.refusal("small", batch(30)).await, ErrorCode::MessageTooLarge);
}

#[tokio::test]
async fn a_deleted_topic_does_not_come_back() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.append("orders", 0, 1).await;
    world.delete("orders").await;
    let world = world.crash(Crash::KeepsAll).await;
    assert_eq!(world.broker.topics().count(), (0, 0));
    world.create("orders", 1, &[]).await;
    assert_eq!(world.append("orders", 0, 1).await, 0, "a topic of the same name is another topic");
}

#[tokio::test]
async fn a_snapshot_is_a_broker_of_its_own() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.produce("orders", 0, from_producer(2, 7, 0, 0)).await.unwrap();
    let copy = world.snapshot().await;
    world.append("orders", 0, 5).await;
    assert_eq!(copy.values("orders", 0, 0).await, ["v0", "v1"]);
    assert_eq!(copy.produce("orders", 0, from_producer(2, 7, 0, 0)).await.unwrap().base_offset, 0);
    assert_eq!(copy.append("orders", 0, 1).await, 2);
    assert_eq!(world.values("orders", 0, 0).await.len(), 7);
}
