use coordination::error_code::ErrorCode;
use coordination::op::{self, OffsetTarget, Op};
use coordination::reply::Reply;

use crate::world::{World, timed};

async fn list(
    world: &World,
    partitions: &[(i32, OffsetTarget)],
) -> Vec<(i32, Result<(i64, i64, i32), ErrorCode>)> {
    let part = |&(index, target): &(i32, OffsetTarget)| op::ListOffsetsPartition {
        index,
        current_leader_epoch: None,
        target: Ok(target),
    };
    let partitions = partitions.iter().map(part).collect();
    let topics = vec![op::ListOffsetsTopic { name: "orders".into(), partitions }];
    match world
        .call(Op::ListOffsets(op::ListOffsets { read_committed: false, topics }))
        .reply()
        .await
        .unwrap()
    {
        Reply::ListOffsets(reply) => reply.topics[0]
            .partitions
            .iter()
            .map(|part| {
                let found = part.result.map(|found| (found.offset, found.timestamp_ms, found.leader_epoch));
                (part.index, found)
            })
            .collect(),
        other => panic!("{other:?}"),
    }
}

async fn one(world: &World, target: OffsetTarget) -> (i64, i64, i32) {
    list(world, &[(0, target)]).await[0].1.unwrap()
}

async fn delete(world: &World, topic: &str, partition: i32, offset: i64) -> Result<i64, ErrorCode> {
    let topics = vec![op::DeleteRecordsTopic { name: topic.into(), partitions: vec![(partition, offset)] }];
    match world.call(Op::DeleteRecords(op::DeleteRecords { topics })).reply().await.unwrap() {
        Reply::DeleteRecords(reply) => reply.topics[0].partitions[0].1,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn offsets_are_found_by_meaning() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    assert_eq!(one(&world, OffsetTarget::Latest).await, (0, -1, 0));
    assert_eq!(one(&world, OffsetTarget::MaxTimestamp).await, (-1, -1, -1));
    world.produce("orders", 0, timed(&[100, 150, 120])).await.unwrap();
    assert_eq!(one(&world, OffsetTarget::Latest).await, (3, -1, 0));
    assert_eq!(one(&world, OffsetTarget::Earliest).await, (0, -1, 0));
    assert_eq!(one(&world, OffsetTarget::EarliestLocal).await, (0, -1, 0));
    assert_eq!(one(&world, OffsetTarget::MaxTimestamp).await, (1, 150, 0));
    assert_eq!(one(&world, OffsetTarget::LatestTiered).await, (-1, -1, -1));
    assert_eq!(one(&world, OffsetTarget::EarliestPendingUpload).await, (-1, -1, -1));
}

#[tokio::test]
async fn offsets_are_found_by_time_to_the_record() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.produce("orders", 0, timed(&[100, 150, 120])).await.unwrap();
    world.produce("orders", 0, timed(&[160, 160])).await.unwrap();
    for settled in [false, true] {
        if settled {
            world.settle().await;
        }
        let cases = [(0, (0, 100)), (100, (0, 100)), (101, (1, 150)), (151, (3, 160)), (161, (-1, -1))];
        for (time, (offset, timestamp)) in cases {
            let found = one(&world, OffsetTarget::Time(time)).await;
            assert_eq!((found.0, found.1), (offset, timestamp), "time {time}, settled {settled}");
        }
    }
    assert_eq!(delete(&world, "orders", 0, 2).await, Ok(2));
    assert_eq!(one(&world, OffsetTarget::Time(100)).await, (2, 120, 0));
}

#[tokio::test]
async fn a_partition_asked_for_twice_is_refused_once() {
    let world = World::new().await;
    world.create("orders", 2, &[]).await;
    let asked = [(0, OffsetTarget::Latest), (1, OffsetTarget::Latest), (0, OffsetTarget::Earliest)];
    let expected = [(0, Err(ErrorCode::InvalidRequest)), (1, Ok((0, -1, 0)))];
    assert_eq!(list(&world, &asked).await, expected);
    assert_eq!(
        list(&world, &[(9, OffsetTarget::Latest)]).await,
        [(9, Err(ErrorCode::UnknownTopicOrPartition))]
    );
}

#[tokio::test]
async fn deleted_records_are_gone_after_a_restart_too() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.append("orders", 0, 3).await;
    world.append("orders", 0, 3).await;
    assert_eq!(delete(&world, "orders", 0, 4).await, Ok(4));
    assert_eq!(delete(&world, "orders", 0, 2).await, Ok(4), "the start does not go back");
    for offset in [-2, 7] {
        assert_eq!(delete(&world, "orders", 0, offset).await, Err(ErrorCode::OffsetOutOfRange));
    }
    let world = world.crash(store::Crash::LosesAll).await;
    assert_eq!(one(&world, OffsetTarget::Earliest).await.0, 4);
    assert_eq!(world.read("orders", 0, 3).await.error, Some(ErrorCode::OffsetOutOfRange));
    assert_eq!(world.read("orders", 0, 4).await.log_start_offset, 4);
    assert_eq!(delete(&world, "orders", 0, -1).await, Ok(6));
    assert_eq!(world.append("orders", 0, 1).await, 6);
}

#[tokio::test]
async fn records_of_a_compacted_topic_cannot_be_deleted() {
    let world = World::new().await;
    world.create("state", 1, &[("cleanup.policy", "compact")]).await;
    world.create("both", 1, &[("cleanup.policy", "compact,delete")]).await;
    world.append("state", 0, 2).await;
    world.append("both", 0, 2).await;
    assert_eq!(delete(&world, "state", 0, 1).await, Err(ErrorCode::PolicyViolation));
    assert_eq!(delete(&world, "both", 0, 1).await, Ok(1));
    assert_eq!(delete(&world, "both", 3, 1).await, Err(ErrorCode::UnknownTopicOrPartition));
}

#[tokio::test]
async fn the_end_of_the_only_epoch_is_the_end_of_the_log() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.append("orders", 0, 3).await;
    let part = |leader_epoch| op::EpochPartition { index: 0, current_leader_epoch: None, leader_epoch };
    let partitions = vec![part(0), part(1)];
    let topics = vec![op::EpochTopic { name: "orders".into(), partitions }];
    let reply =
        world.call(Op::OffsetForLeaderEpoch(op::OffsetForLeaderEpoch { topics })).reply().await.unwrap();
    let Reply::OffsetForLeaderEpoch(reply) = reply else { panic!() };
    let results: Vec<_> = reply.topics[0].partitions.iter().map(|part| part.result).collect();
    assert_eq!(results, [Ok((0, 3)), Ok((-1, -1))]);
}
