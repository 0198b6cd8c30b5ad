use coordination::error_code::ErrorCode;
use coordination::op::{self, ForgottenTopic, TopicRef};
use coordination::reply;

use crate::world::{World, fetch, fetch_topic};

fn next(session_id: i32, session_epoch: i32, partitions: &[(i32, i64)]) -> op::Fetch {
    let mut request = op::Fetch { session_id, session_epoch, ..fetch("orders", partitions) };
    if partitions.is_empty() {
        request.topics.clear();
    }
    request
}

fn indices(reply: &reply::Fetch) -> Vec<i32> {
    reply.topics.iter().flat_map(|topic| topic.partitions.iter().map(|part| part.index)).collect()
}

async fn world() -> World {
    let world = World::new().await;
    world.create("orders", 3, &[]).await;
    world
}

#[tokio::test]
async fn a_session_speaks_only_of_what_is_new() {
    let world = world().await;
    world.append("orders", 0, 1).await;
    let first = world.fetch(next(0, 0, &[(0, 0), (1, 0), (2, 0)])).await;
    assert!(first.session_id > 0);
    assert_eq!(indices(&first), [0, 1, 2]);
    let id = first.session_id;
    assert_eq!(indices(&world.fetch(next(id, 1, &[(0, 1)])).await), [0; 0]);
    world.append("orders", 2, 1).await;
    let third = world.fetch(next(id, 2, &[])).await;
    assert_eq!((indices(&third), third.session_id), (vec![2], id));
    assert_eq!(indices(&world.fetch(next(id, 3, &[])).await), [2], "records come until the client moves on");
    assert_eq!(indices(&world.fetch(next(id, 4, &[(2, 1)])).await), [0; 0]);
}

#[tokio::test]
async fn a_busy_partition_goes_to_the_end_of_the_line() {
    let world = world().await;
    world.append("orders", 0, 1).await;
    world.append("orders", 1, 1).await;
    let id = world.fetch(next(0, 0, &[(0, 0), (1, 0), (2, 0)])).await.session_id;
    let mut one_batch = next(id, 1, &[]);
    one_batch.max_bytes = 1;
    assert_eq!(indices(&world.fetch(one_batch.clone()).await), [0]);
    one_batch.session_epoch = 2;
    assert_eq!(indices(&world.fetch(one_batch).await), [1]);
}

#[tokio::test]
async fn unknown_sessions_and_wrong_epochs_are_refused() {
    let world = world().await;
    let refused = world.fetch(next(12_345, 1, &[])).await;
    assert_eq!((refused.error, refused.session_id), (Some(ErrorCode::FetchSessionIdNotFound), 0));
    let id = world.fetch(next(0, 0, &[(0, 0)])).await.session_id;
    let refused = world.fetch(next(id, 5, &[])).await;
    assert_eq!(refused.error, Some(ErrorCode::InvalidFetchSessionEpoch));
    assert_eq!(world.fetch(next(id, 1, &[])).await.error, None, "a refused request changes nothing");
}

#[tokio::test]
async fn a_session_does_not_mix_names_and_ids() {
    let world = world().await;
    let id = world.fetch(next(0, 0, &[(0, 0)])).await.session_id;
    let topic = world.topic("orders").id;
    let mut request = next(id, 1, &[]);
    request.by_id = true;
    assert_eq!(world.fetch(request.clone()).await.error, Some(ErrorCode::FetchSessionTopicIdError));
    request.topics.push(fetch_topic(TopicRef::Id(topic), &[(0, 0)]));
    assert_eq!(world.fetch(request).await.error, Some(ErrorCode::FetchSessionTopicIdError));
}

#[tokio::test]
async fn a_session_that_reads_nothing_any_more_ends() {
    let world = world().await;
    let id = world.fetch(next(0, 0, &[(0, 0), (1, 0)])).await.session_id;
    let mut forget = next(id, 1, &[]);
    forget.forgotten =
        vec![ForgottenTopic { topic: TopicRef::Name("orders".into()), partitions: vec![0, 1] }];
    let ended = world.fetch(forget).await;
    assert_eq!((ended.error, ended.session_id), (None, 0));
    assert_eq!(world.fetch(next(id, 2, &[])).await.error, Some(ErrorCode::FetchSessionIdNotFound));
}

#[tokio::test]
async fn the_final_epoch_ends_a_session() {
    let world = world().await;
    let id = world.fetch(next(0, 0, &[(0, 0)])).await.session_id;
    let last = world.fetch(next(id, -1, &[(0, 0)])).await;
    assert_eq!((last.session_id, indices(&last)), (0, vec![0]));
    assert_eq!(world.fetch(next(id, 1, &[])).await.error, Some(ErrorCode::FetchSessionIdNotFound));
}

#[tokio::test]
async fn an_error_in_a_session_is_told_until_it_is_gone_and_once_after() {
    let world = world().await;
    let id = world.fetch(next(0, 0, &[(0, 0)])).await.session_id;
    assert_eq!(indices(&world.fetch(next(id, 1, &[(1, 99)])).await), [1]);
    assert_eq!(indices(&world.fetch(next(id, 2, &[])).await), [1]);
    assert_eq!(indices(&world.fetch(next(id, 3, &[(1, 0)])).await), [1]);
    assert_eq!(indices(&world.fetch(next(id, 4, &[])).await), [0; 0]);
}
