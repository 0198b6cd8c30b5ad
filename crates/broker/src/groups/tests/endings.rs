//! A broker, or an organisation, that ends while its groups are being read.

use std::sync::mpsc;

use super::*;

/// Groups that have not been read by anybody yet.
fn another_owner(stage: &Stage) -> Arc<Groups> {
    let groups = Groups::new(&stage.store, Arc::clone(&stage.topics), &Settings::default());
    groups.adopt(&stage.topics.by_id(ORG, OFFSETS).expect("it is there"));
    groups
}

/// Proves LOAD-22.
#[test]
fn loading_stops_when_the_broker_ends_and_loses_nothing() {
    // One thread to load in, which the test holds up.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.expect("a runtime starts").block_on(async {
        let mut stage = Stage::loaded().await;
        let commit = stage.commit("tool", 5);
        stage.write();
        assert_eq!(commit_error(commit).await, None);
        stage.groups = another_owner(&stage);
        let (go_on, held_up) = mpsc::channel::<()>();
        let holding = tokio::task::spawn_blocking(move || held_up.recv());
        stage.timer = Some(stage.groups.start());
        // As the end of the broker does it, but that the thread has not been told to drop what it has not begun.
        stage.groups.shared.ended.store(true, Ordering::Release);
        go_on.send(()).expect("the thread waits");
        assert_eq!(holding.await.expect("it is not cancelled"), Ok(()));
        stage.groups.loaded().await;
        assert_eq!(
            fetched(stage.fetch("tool")).await,
            (Some(ErrorCode::NotCoordinator), -1),
            "nothing was read"
        );
        stage.groups.shutdown().await;
        stage.groups = another_owner(&stage);
        stage.load().await;
        assert_eq!(fetched(stage.fetch("tool")).await, (None, 5));
    });
}

#[tokio::test]
async fn groups_of_an_organisation_that_goes_while_they_are_read_are_not_read_again() {
    let mut stage = Stage::with(Options { cache_bytes: 0, ..Options::default() });
    stage.load().await;
    let commit = stage.commit("tool", 5);
    stage.write();
    assert_eq!(commit_error(commit).await, None);
    for is_gone in [false, true] {
        let groups = another_owner(&stage);
        let shards = groups.all();
        if is_gone {
            groups.abandon(ORG);
        }
        // As the files of a topic that is removed.
        let (kind, error) = (FaultKind::Read, std::io::ErrorKind::NotFound);
        stage.disk.fail(Fault { kind, nth: 0, error, from_then_on: true });
        load::load_all(&groups, shards.clone());
        groups.loaded().await;
        assert_eq!(shards.iter().any(|shard| shard.failures() > 0), !is_gone);
        groups.shutdown().await;
    }
}
