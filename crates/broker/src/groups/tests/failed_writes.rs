//! What becomes of groups whose records cannot be written or read.

use std::io::ErrorKind;

use super::*;

impl Stage {
    fn fail(&self, kind: FaultKind, error: ErrorKind) {
        self.disk.fail(Fault { kind, nth: 0, error, from_then_on: false });
    }

    /// A static member joins, again or for the first time.
    fn join_as(&self, group: &str, instance: &str) -> Answer {
        let op = op::JoinGroup { instance_id: Some(instance.to_owned()), ..join_op(group, "") };
        self.groups.join(&self.carrier(), op)
    }

    /// Somebody who brings no assignments waits for them.
    fn wait_for_assignment(&self, group: &str, member: &str, generation: i32) -> Answer {
        self.groups.sync(&self.carrier(), &sync_op(group, member, generation, Vec::new()))
    }

    /// The first member of a group, with its assignment, in generation 1.
    async fn stable(&self, group: &str) -> String {
        let join = self.join(group, "");
        self.write();
        let member = joined(join).await.member_id;
        let sync = self.sync(group, &member, 1);
        self.write();
        assert!(synced(sync).await.is_ok());
        member
    }

    async fn described(&self, group: &str) -> reply::DescribedGroup {
        match self.describe(group).reply().await.expect("no link is lost") {
            Reply::DescribeGroups(mut reply) => reply.groups.remove(0),
            other => panic!("{other:?}"),
        }
    }
}

/// Proves JOIN-08, JOIN-09: whatever is wrong with the disk, clients are told to look for the coordinator again.
#[tokio::test]
async fn a_join_whose_first_record_cannot_be_written_fails_and_leaves_no_group() {
    let faults = [
        (FaultKind::Write, ErrorKind::Other),
        (FaultKind::Write, ErrorKind::StorageFull),
        (FaultKind::Sync, ErrorKind::Other),
    ];
    for (kind, error) in faults {
        let stage = Stage::loaded().await;
        let join = stage.join("billing", "");
        stage.fail(kind, error);
        stage.write();
        let failed = joined(join).await;
        assert_eq!((failed.member_id.as_str(), failed.result), ("", Err(ErrorCode::NotCoordinator)));
        stage.settled().await;
        // What a failed sync left may have to be written off.
        stage.write();
        assert_eq!(stage.described("billing").await.state, GroupState::Dead, "{kind:?} {error:?}");
        assert_eq!(stage.list().await.result, Ok(Vec::new()));
        assert_eq!(stage.groups.shared.usage.now().groups, 0);
        stage.stable("billing").await;
    }
    let stage = Stage::loaded().await;
    stage.store.close();
    let refused = joined(stage.join("billing", "")).await;
    assert_eq!(refused.result, Err(ErrorCode::NotCoordinator), "the broker ends");
}

/// Proves STATIC-08.
#[tokio::test]
async fn a_static_return_that_cannot_be_written_leaves_the_old_member() {
    let stage = Stage::loaded().await;
    let join = stage.join_as("billing", "one");
    stage.write();
    let old = joined(join).await.member_id;
    let sync = stage.sync("billing", &old, 1);
    stage.write();
    assert!(synced(sync).await.is_ok());

    let back = stage.join_as("billing", "one");
    stage.fail_the_next_sync();
    stage.write();
    let failed = joined(back).await;
    assert_eq!((failed.member_id.as_str(), failed.result), ("", Err(ErrorCode::NotCoordinator)));
    stage.settled().await;
    assert_eq!(stage.heartbeat("billing", &old, 1), None);
    let described = stage.described("billing").await;
    let ids: Vec<_> = described.members.iter().map(|member| member.member_id.as_str()).collect();
    assert_eq!((described.state, ids), (GroupState::Stable, vec![old.as_str()]));

    let again = stage.join_as("billing", "one");
    stage.write();
    let again = joined(again).await;
    assert!(again.result.is_ok() && again.member_id != old);
    assert_eq!(stage.heartbeat("billing", &old, 1), Some(ErrorCode::UnknownMemberId));
    assert_eq!(stage.heartbeat("billing", &again.member_id, 1), None);
}

/// Proves SYNC-15.
#[tokio::test]
async fn when_the_leaders_assignment_cannot_be_written_all_who_wait_are_told_and_the_group_goes_on() {
    let stage = Stage::loaded().await;
    let leader = stage.stable("billing").await;
    let second = stage.join("billing", "");
    let first = stage.join("billing", &leader);
    stage.write();
    assert_eq!(joined(first).await.result.expect("it has joined").generation, 2);
    let follower = joined(second).await.member_id;

    let mut waiting = stage.wait_for_assignment("billing", &follower, 2);
    assert!(waits(&mut waiting).await);
    let bringing = stage.sync("billing", &leader, 2);
    stage.fail_the_next_sync();
    stage.write();
    assert_eq!(synced(waiting).await, Err(ErrorCode::NotCoordinator));
    assert_eq!(synced(bringing).await, Err(ErrorCode::NotCoordinator));
    stage.settled().await;
    assert_eq!(stage.shard("billing").parked(), 0);

    // Back at what was stored last, and what was given out since is not given out again.
    assert_eq!(stage.heartbeat("billing", &leader, 1), None);
    let second = stage.join("billing", "");
    let first = stage.join("billing", &leader);
    stage.write();
    assert_eq!(joined(first).await.result.expect("it has joined").generation, 3);
    let follower = joined(second).await.member_id;
    let waiting = stage.wait_for_assignment("billing", &follower, 3);
    let bringing = stage.sync("billing", &leader, 3);
    stage.write();
    assert!(synced(waiting).await.is_ok() && synced(bringing).await.is_ok());
}

/// Proves SYNC-16.
#[tokio::test]
async fn an_assignment_that_becomes_durable_after_the_next_rebalance_began_changes_nothing() {
    let stage = Stage::loaded().await;
    let join = stage.join("billing", "");
    stage.write();
    let leader = joined(join).await.member_id;
    let sync = stage.sync("billing", &leader, 1);
    let second = stage.join("billing", "");
    assert_eq!(stage.heartbeat("billing", &leader, 1), Some(ErrorCode::RebalanceInProgress));
    stage.write();
    // The leader may hear that it was done; its next heartbeat says that it was in vain.
    let _ = synced(sync).await;
    assert_eq!(stage.heartbeat("billing", &leader, 1), Some(ErrorCode::RebalanceInProgress));
    assert_eq!(stage.described("billing").await.state, GroupState::PreparingRebalance);
    let first = stage.join("billing", &leader);
    stage.write();
    assert_eq!(joined(first).await.result.expect("it has joined").generation, 2);
    assert_eq!(joined(second).await.result.expect("it has joined").generation, 2);
}

/// Proves RT-20.
#[tokio::test]
async fn groups_that_could_not_be_read_for_a_moment_are_read_again() {
    let mut stage = Stage::with(Options { cache_bytes: 0, ..Options::default() });
    stage.load().await;
    let commit = stage.commit("tool", 5);
    stage.write();
    assert_eq!(commit_error(commit).await, None);
    stage.store.settle_all().expect("the disk works");
    stage.groups = Groups::new(&stage.store, Arc::clone(&stage.topics), &Settings::default());
    stage.groups.adopt(&stage.topics.by_id(ORG, OFFSETS).expect("it is there"));
    stage.fail(FaultKind::Read, ErrorKind::Other);
    stage.load().await;
    assert_eq!(stage.shard("tool").failures(), 1, "the fault was met");
    assert_eq!(fetched(stage.fetch("tool")).await, (None, 5));
}

#[tokio::test]
async fn all_shards_that_fail_together_are_read_back() {
    let stage = Stage::loaded().await;
    let other =
        ["b", "c", "d"].into_iter().find(|name| stage.shard(name).partition != stage.shard("a").partition);
    let other = other.expect("not all names are in one partition");
    for offset in 0..3 {
        let commits = [stage.commit("a", offset), stage.commit(other, offset)];
        stage.fail_the_next_sync();
        stage.write();
        for commit in commits {
            assert_eq!(commit_error(commit).await, Some(ErrorCode::NotCoordinator));
        }
        stage.settled().await;
        let commits = [stage.commit("a", offset), stage.commit(other, offset)];
        stage.write();
        for commit in commits {
            assert_eq!(commit_error(commit).await, None);
        }
    }
    assert_eq!(fetched(stage.fetch("a")).await, (None, 2));
    assert_eq!(fetched(stage.fetch(other)).await, (None, 2));
}

#[tokio::test]
async fn what_waits_for_the_store_to_catch_up_is_written_when_the_broker_ends() {
    let mut stage = Stage::with(Options { backlog_bytes: 0, ..Options::default() });
    stage.load().await;
    let first = stage.commit("tool", 5);
    let mut second = stage.commit("tool", 6);
    stage.write();
    assert_eq!(commit_error(first).await, None);
    assert!(waits(&mut second).await, "nothing is settled here");
    stage.groups.shutdown().await;
    stage.write();
    let answered = tokio::time::timeout(Duration::from_secs(20), commit_error(second)).await;
    assert_eq!(answered, Ok(None));
}

#[tokio::test]
async fn a_topic_that_was_deleted_before_a_crash_takes_its_offsets_along() {
    let mut stage = Stage::loaded().await;
    let commit = stage.commit("tool", 5);
    stage.write();
    assert_eq!(commit_error(commit).await, None);
    // The catalog knows that it is gone, and the groups were not told before the crash.
    stage.topics.remove(ORDERS);
    stage.groups = Groups::new(&stage.store, Arc::clone(&stage.topics), &Settings::default());
    stage.groups.adopt(&stage.topics.by_id(ORG, OFFSETS).expect("it is there"));
    stage.load().await;
    let fetch = stage.fetch("tool");
    stage.write();
    assert_eq!(fetched(fetch).await, (None, -1));
}
