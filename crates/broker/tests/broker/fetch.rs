use std::time::{Duration, Instant};

use coordination::error_code::ErrorCode;
use coordination::ids::TopicId;
use coordination::op::{self, Op, TopicRef};
use coordination::reply::Reply;
use rail::Answer;

use crate::world::{World, batch, fetch, fetch_topic, produced, records};

/// Long enough that a test which waits for it has failed.
const LONG: Duration = Duration::from_secs(60);

fn waiting(topic: &str, partitions: &[(i32, i64)], min_bytes: i32) -> Op {
    Op::Fetch(op::Fetch { max_wait: LONG, min_bytes, ..fetch(topic, partitions) })
}

fn fetched(reply: Reply) -> coordination::reply::Fetch {
    match reply {
        Reply::Fetch(fetch) => fetch,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_empty_partition_is_answered_with_its_bounds() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    let read = world.read("orders", 0, 0).await;
    assert_eq!(
        (read.error, read.high_watermark, read.last_stable_offset, read.log_start_offset),
        (None, 0, 0, 0)
    );
    assert!(read.records.is_empty());
}

#[tokio::test]
async fn offsets_outside_of_the_log_are_out_of_range() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.append("orders", 0, 3).await;
    for offset in [-1, 4, i64::MAX] {
        let read = world.read("orders", 0, offset).await;
        assert_eq!((read.error, read.high_watermark), (Some(ErrorCode::OffsetOutOfRange), -1), "{offset}");
    }
    assert_eq!(world.read("orders", 0, 3).await.error, None);
}

#[tokio::test]
async fn leader_epochs_are_compared() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.append("orders", 0, 3).await;
    let ask = |current, last, offset| {
        let mut fetch = fetch("orders", &[(0, offset)]);
        fetch.topics[0].partitions[0].current_leader_epoch = current;
        fetch.topics[0].partitions[0].last_fetched_epoch = last;
        fetch
    };
    let one = async |fetch| world.fetch(fetch).await.topics[0].partitions[0].clone();
    assert_eq!(one(ask(Some(0), None, 0)).await.error, None);
    assert_eq!(one(ask(Some(1), None, 0)).await.error, Some(ErrorCode::UnknownLeaderEpoch));
    assert_eq!(one(ask(None, Some(0), 2)).await.diverging_epoch, None);
    assert_eq!(one(ask(None, Some(0), 9)).await.diverging_epoch, Some((0, 3)));
    assert_eq!(one(ask(None, Some(1), 2)).await.error, Some(ErrorCode::OffsetOutOfRange));
}

#[tokio::test]
async fn what_does_not_exist_is_answered_behind_what_does() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.append("orders", 0, 1).await;
    let mut request = fetch("nowhere", &[(0, 0)]);
    request.topics.push(fetch_topic(TopicRef::Name("orders".into()), &[(7, 0), (0, 0)]));
    request.topics.push(fetch_topic(TopicRef::Id(TopicId::from_u128(9)), &[(0, 0)]));
    let reply = world.fetch(request).await;
    let seen: Vec<_> = reply
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|part| (topic.topic.clone(), part.index, part.error)))
        .collect();
    let unknown = Some(ErrorCode::UnknownTopicOrPartition);
    let (orders, nowhere) = (TopicRef::Name("orders".into()), TopicRef::Name("nowhere".into()));
    let id = TopicRef::Id(TopicId::from_u128(9));
    let expected = [
        (orders.clone(), 0, None),
        (id, 0, Some(ErrorCode::UnknownTopicId)),
        (nowhere, 0, unknown),
        (orders, 7, unknown),
    ];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn an_answer_knows_its_topic_whatever_the_client_calls_it() {
    let world = World::new().await;
    let orders = world.create("orders", 2, &[]).await;
    let bills = world.create("bills", 1, &[]).await;
    let named = |name: &str| TopicRef::Name(name.to_owned());
    let mut request = fetch("orders", &[(0, 0), (1, 0), (7, 0)]);
    request.topics.push(fetch_topic(named("nowhere"), &[(0, 0)]));
    request.topics.push(fetch_topic(TopicRef::Id(bills), &[(0, 0)]));
    request.topics.push(fetch_topic(named("orders"), &[(1, 0)]));
    let reply = world.fetch(request).await;
    let seen: Vec<_> = reply.topics.iter().map(|topic| (topic.topic.clone(), topic.id)).collect();
    for (topic, id) in &seen {
        let expected = match topic {
            TopicRef::Id(_) => Some(bills),
            TopicRef::Name(name) => (name == "orders").then_some(orders),
        };
        assert_eq!(*id, expected, "{topic:?} of {seen:?}");
    }
    assert!(seen.len() >= 3);
}

#[tokio::test]
async fn a_topic_is_found_by_its_id_too() {
    let world = World::new().await;
    let id = world.create("orders", 1, &[]).await;
    world.append("orders", 0, 2).await;
    let request = op::Fetch { topics: vec![fetch_topic(TopicRef::Id(id), &[(0, 0)])], ..fetch("", &[]) };
    let reply = world.fetch(request).await;
    assert_eq!(records(&reply.topics[0].partitions[0].records).len(), 2);
}

#[tokio::test]
async fn batches_are_whole_and_the_first_comes_whatever_the_bounds() {
    let world = World::new().await;
    world.create("orders", 2, &[]).await;
    let size = i32::try_from(batch(3).len()).unwrap();
    for partition in [0, 1] {
        world.append("orders", partition, 3).await;
        world.append("orders", partition, 3).await;
    }
    let counts = async |max_bytes, partition_max_bytes| {
        let mut request = fetch("orders", &[(0, 0), (1, 0)]);
        request.max_bytes = max_bytes;
        request.topics[0].partitions.iter_mut().for_each(|part| part.max_bytes = partition_max_bytes);
        let reply = world.fetch(request).await;
        reply.topics[0].partitions.iter().map(|part| records(&part.records).len()).collect::<Vec<_>>()
    };
    assert_eq!(counts(1 << 20, 1 << 20).await, [6, 6]);
    assert_eq!(counts(0, 1 << 20).await, [3, 0]);
    assert_eq!(counts(1 << 20, 0).await, [3, 0]);
    assert_eq!(counts(1 << 20, 2 * size - 1).await, [3, 3]);
    assert_eq!(counts(3 * size, 1 << 20).await, [6, 3]);
}

#[tokio::test]
async fn a_consumer_reads_from_the_middle_of_a_batch_by_getting_all_of_it() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.append("orders", 0, 5).await;
    assert_eq!(world.values("orders", 0, 3).await, ["v0", "v1", "v2", "v3", "v4"]);
}

#[tokio::test]
async fn settled_records_are_read_from_disk_and_older_ones_before_newer() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.append("orders", 0, 2).await;
    world.settle().await;
    world.append("orders", 0, 1).await;
    let world = world.restart().await;
    assert!(matches!(world.call(Op::Fetch(fetch("orders", &[(0, 0)]))), Answer::Later(_)));
    let mut offset = 0;
    let mut all = Vec::new();
    while offset < 3 {
        let read = world.read("orders", 0, offset).await;
        let found = records(&read.records);
        offset = found.last().unwrap().offset + 1;
        all.extend(found.into_iter().map(|record| record.offset));
    }
    assert_eq!(all, [0, 1, 2]);
}

#[tokio::test]
async fn recent_records_are_answered_within_the_call() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.append("orders", 0, 2).await;
    assert!(matches!(world.call(waiting("orders", &[(0, 0)], 1)), Answer::Now(_)));
    assert!(matches!(world.call(waiting("orders", &[(0, 2)], 1)), Answer::Later(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_fetch_wakes_when_its_records_are_durable() {
    let world = World::new().await;
    world.create("orders", 3, &[]).await;
    let Answer::Later(parked) = world.call(waiting("orders", &[(0, 0), (1, 0), (2, 0)], 1)) else { panic!() };
    let parked = tokio::spawn(parked);
    let begun = Instant::now();
    world.append("orders", 1, 2).await;
    let reply = fetched(parked.await.unwrap());
    assert!(begun.elapsed() < LONG / 2);
    let counts: Vec<_> = reply.topics[0].partitions.iter().map(|part| records(&part.records).len()).collect();
    assert_eq!(counts, [0, 2, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_fetch_waits_for_min_bytes() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    let min_bytes = i32::try_from(3 * batch(1).len()).unwrap();
    let Answer::Later(parked) = world.call(waiting("orders", &[(0, 0)], min_bytes)) else { panic!() };
    let parked = tokio::spawn(parked);
    for _ in 0..3 {
        assert!(!parked.is_finished());
        world.append("orders", 0, 1).await;
    }
    let reply = fetched(parked.await.unwrap());
    assert_eq!(records(&reply.topics[0].partitions[0].records).len(), 3);
}

#[tokio::test]
async fn a_fetch_that_waited_in_vain_is_answered_with_nothing() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    let request = op::Fetch { max_wait: Duration::from_millis(1), ..fetch("orders", &[(0, 0)]) };
    let reply = world.fetch(request).await;
    assert_eq!(reply.topics[0].partitions[0].high_watermark, 0);
    assert!(reply.topics[0].partitions[0].records.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_fetch_hears_when_its_topic_is_deleted() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    let Answer::Later(parked) = world.call(waiting("orders", &[(0, 0)], 1)) else { panic!() };
    let parked = tokio::spawn(parked);
    world.delete("orders").await;
    let reply = fetched(parked.await.unwrap());
    assert_eq!(reply.topics[0].partitions[0].error, Some(ErrorCode::UnknownTopicOrPartition));
}

#[tokio::test]
async fn a_broker_that_ends_keeps_no_fetch_waiting() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    let Answer::Later(mut parked) = world.call(waiting("orders", &[(0, 0)], 1)) else {
        panic!("there is nothing yet");
    };
    let early = tokio::time::timeout(Duration::from_millis(1), &mut parked).await;
    assert!(early.is_err(), "it waits");
    let started = Instant::now();
    world.broker.drain();
    let answered = fetched(parked.await);
    assert_eq!((answered.error, answered.topics[0].partitions[0].error), (None, None));
    // Nor does one that was read before the connection was closed.
    fetched(world.call(waiting("orders", &[(0, 0)], 1)).reply().await.unwrap());
    assert!(started.elapsed() < LONG / 2);
}

#[tokio::test]
async fn nothing_is_read_that_is_not_durable() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    let answer = world.send("orders", 0, batch(1));
    let read = world.read("orders", 0, 0).await;
    // The writer may have been quick; but what is shown is below the high watermark, and that is durable.
    assert_eq!(records(&read.records).len(), usize::try_from(read.high_watermark).unwrap());
    produced(answer.reply().await.unwrap()).unwrap();
    assert_eq!(world.read("orders", 0, 0).await.high_watermark, 1);
}

#[tokio::test]
async fn a_negative_size_is_an_error_where_there_is_something_to_read() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.append("orders", 0, 1).await;
    let one = async |offset, max_bytes| {
        let request = op::Fetch { max_bytes, ..fetch("orders", &[(0, offset)]) };
        world.fetch(request).await.topics[0].partitions[0].error
    };
    assert_eq!(one(0, -1).await, Some(ErrorCode::UnknownServerError));
    assert_eq!(one(1, -1).await, None);
}

#[tokio::test]
async fn only_the_first_partition_meets_a_negative_size() {
    let world = World::new().await;
    world.create("orders", 2, &[]).await;
    world.append("orders", 0, 1).await;
    world.append("orders", 1, 2).await;
    let reply = world.fetch(op::Fetch { max_bytes: -1, ..fetch("orders", &[(0, 0), (1, 0)]) }).await;
    let parts = &reply.topics[0].partitions;
    assert_eq!(parts[0].error, Some(ErrorCode::UnknownServerError));
    assert_eq!((parts[1].error, records(&parts[1].records).len()), (None, 2));
}
