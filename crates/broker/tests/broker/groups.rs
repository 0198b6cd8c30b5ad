use std::io;

use bytes::Bytes;
use coordination::error_code::ErrorCode;
use coordination::ids::OrgId;
use coordination::op::{self, Op, TopicRef};
use coordination::reply::{GroupState, Reply};
use coordination::settings::CompressionType;
use rail::Answer;
use store::{Crash, Fault, FaultKind};

use crate::group_world::{AT_ONCE, commit_op, committed, join_op, soon, sync_op};
use crate::world::World;

#[tokio::test]
async fn a_member_joins_syncs_heartbeats_commits_and_fetches() {
    let world = World::with_groups().await;
    let (member, generation) = world.stable("billing").await;
    assert_eq!(generation, 1);
    assert_eq!(world.heartbeat("billing", &member, 1), None);
    assert_eq!(world.offset("billing").await, Ok(-1));
    assert_eq!(world.commit("billing", &member, 1, 42).await, None);
    assert_eq!(world.offset("billing").await, Ok(42));
    assert_eq!(world.state("billing").await, GroupState::Stable);
    let described = world.describe("billing").await;
    assert_eq!(described.members[0].client_host, "/127.0.0.1");
    let listed: Vec<_> = world.list().await.unwrap().into_iter().map(|group| group.group).collect();
    assert_eq!(listed, ["billing"]);
}

/// Proves LOAD-01.
#[tokio::test]
async fn a_stable_group_is_stable_after_a_crash_and_its_members_carry_on() {
    let world = World::with_groups().await;
    let (member, generation) = world.stable("billing").await;
    assert_eq!(world.commit("billing", &member, generation, 42).await, None);
    let story = world.broker.group_story(OrgId::DEFAULT, "billing").await.unwrap().unwrap();
    assert!(!story.events.is_empty(), "the first rebalance left an event");
    let world = world.crash(Crash::LosesAll).await;
    world.groups_are_loaded().await;
    assert_eq!(world.state("billing").await, GroupState::Stable);
    assert_eq!(world.heartbeat("billing", &member, generation), None);
    assert_eq!(world.commit("billing", &member, generation, 43).await, None);
    assert_eq!(world.offset("billing").await, Ok(43));
    let assignment = world.sync(sync_op("billing", &member, generation, &[])).await;
    assert_eq!(assignment, Ok(Bytes::from_static(b"mine")));
    assert_eq!(world.broker.group_story(OrgId::DEFAULT, "billing").await, Ok(Some(story)));
}

#[tokio::test]
async fn a_group_in_good_order_is_there_after_a_restart_and_a_snapshot() {
    let world = World::with_groups().await;
    let (member, generation) = world.stable("billing").await;
    assert_eq!(world.commit("billing", &member, generation, 7).await, None);
    let copy = world.snapshot().await;
    copy.groups_are_loaded().await;
    assert_eq!(copy.offset("billing").await, Ok(7));
    let world = world.restart().await;
    world.groups_are_loaded().await;
    assert_eq!(world.heartbeat("billing", &member, generation), None);
    assert_eq!(world.offset("billing").await, Ok(7));
}

#[tokio::test]
async fn a_generation_that_a_member_has_seen_is_never_given_out_again() {
    let world = World::with_groups().await;
    let (member, generation) = world.stable("billing").await;
    // The second generation is given out and never synced.
    let rejoined = world.join("billing", &member).await;
    assert_eq!(rejoined.result.unwrap().generation, generation + 1);
    let world = world.crash(Crash::LosesAll).await;
    world.groups_are_loaded().await;
    assert_eq!(world.state("billing").await, GroupState::Stable);
    assert_eq!(world.heartbeat("billing", &member, generation), None, "it is back where it was stable");
    assert_eq!(world.heartbeat("billing", &member, generation + 1), Some(ErrorCode::IllegalGeneration));
    let rejoined = world.join("billing", &member).await;
    assert_eq!(rejoined.result.unwrap().generation, generation + 2);
}

/// Proves EXP-15, RT-26.
#[tokio::test]
async fn offsets_of_a_deleted_topic_are_gone_when_the_deletion_is_answered() {
    let world = World::with_groups().await;
    assert_eq!(world.commit("tool", "", -1, 5).await, None);
    world.delete("orders").await;
    assert_eq!(world.offset("tool").await, Ok(-1));
    world.create("orders", 4, &[]).await;
    assert_eq!(world.offset("tool").await, Ok(-1), "another topic of that name is another topic");
    let world = world.crash(Crash::LosesAll).await;
    world.groups_are_loaded().await;
    assert_eq!(world.offset("tool").await, Ok(-1));
}

/// Proves COMMIT-17, COMMIT-19, COMMIT-30.
#[tokio::test]
async fn what_does_not_exist_is_refused_partition_by_partition() {
    let world = World::with_groups().await;
    let part = |index| op::OffsetCommitPartition { index, offset: 1, leader_epoch: -1, metadata: None };
    let unknown_id = coordination::ids::TopicId::from_u128(77);
    let orders = world.topic("orders").id;
    let mut commit = commit_op("tool", "", -1, 1);
    commit.topics = vec![
        op::OffsetCommitTopic { topic: TopicRef::Name("nowhere".into()), partitions: vec![part(0), part(1)] },
        op::OffsetCommitTopic { topic: TopicRef::Id(unknown_id), partitions: vec![part(0)] },
        op::OffsetCommitTopic { topic: TopicRef::Id(orders), partitions: vec![part(4), part(3), part(-1)] },
    ];
    let Reply::OffsetCommit(reply) =
        soon(world.call(Op::OffsetCommit(commit.clone())).reply()).await.unwrap()
    else {
        panic!("a commit is answered as one")
    };
    let (missing, unknown) = (Some(ErrorCode::UnknownTopicOrPartition), Some(ErrorCode::UnknownTopicId));
    let errors: Vec<_> = reply.topics.iter().map(|topic| topic.partitions.clone()).collect();
    assert_eq!(
        errors,
        [vec![(0, missing), (1, missing)], vec![(0, unknown)], vec![(4, missing), (3, None), (-1, missing)],]
    );
    // With nothing left to commit, nobody looks at the group: this member does not exist.
    commit.topics.truncate(1);
    commit.generation = 9;
    let Answer::Now(Reply::OffsetCommit(reply)) = world.call(Op::OffsetCommit(commit)) else {
        panic!("it is answered at once")
    };
    assert_eq!(reply.topics[0].partitions, [(0, missing), (1, missing)]);
}

/// Proves RT-13.
#[tokio::test]
async fn offsets_of_several_groups_are_fetched_together_by_name_and_by_id() {
    let world = World::with_groups().await;
    for (group, offset) in [("one", 1), ("two", 2), ("three", 3)] {
        assert_eq!(world.commit(group, "", -1, offset).await, None);
    }
    let orders = world.topic("orders").id;
    let unknown = coordination::ids::TopicId::from_u128(77);
    let asked = |group: &str, topics| op::OffsetFetchGroup {
        group: group.to_owned(),
        member_id: None,
        member_epoch: -1,
        topics,
    };
    let topic = |topic| op::OffsetFetchTopic { topic, partitions: vec![0, 1] };
    let groups = vec![
        asked("three", None),
        asked("one", Some(vec![topic(TopicRef::Id(unknown)), topic(TopicRef::Id(orders))])),
        asked("nobody", None),
        asked("two", Some(Vec::new())),
    ];
    let op = op::OffsetFetch { groups, require_stable: false, by_id: true };
    let Reply::OffsetFetch(reply) = soon(world.call(Op::OffsetFetch(op)).reply()).await.unwrap() else {
        panic!("a fetch is answered as one")
    };
    let seen: Vec<_> = reply
        .groups
        .iter()
        .map(|group| {
            assert_eq!(group.error, None);
            let topics = group.topics.iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|part| (part.index, part.offset, part.error));
                (topic.id, partitions.collect::<Vec<_>>())
            });
            (group.group.as_str(), topics.collect::<Vec<_>>())
        })
        .collect();
    let no_such = Some(ErrorCode::UnknownTopicId);
    assert_eq!(
        seen,
        [
            ("three", vec![(orders, vec![(0, 3, None)])]),
            (
                "one",
                vec![
                    (unknown, vec![(0, -1, no_such), (1, -1, no_such)]),
                    (orders, vec![(0, 1, None), (1, -1, None)]),
                ]
            ),
            ("nobody", vec![]),
            ("two", vec![]),
        ]
    );
}

/// Proves ODEL-05, ODEL-12, ODEL-13, ODEL-14.
#[tokio::test]
async fn groups_and_offsets_are_deleted_for_good() {
    let world = World::with_groups().await;
    assert_eq!(world.commit("tool", "", -1, 5).await, None);
    let (_member, _) = world.stable("busy").await;
    let names = ["tool", "busy", "nobody", "tool"];
    let op = op::DeleteGroups { groups: names.iter().map(|&name| name.to_owned()).collect() };
    let Reply::DeleteGroups(reply) = soon(world.call(Op::DeleteGroups(op)).reply()).await.unwrap() else {
        panic!("a deletion is answered as one")
    };
    assert_eq!(
        reply.groups,
        [
            ("tool".to_owned(), None),
            ("busy".to_owned(), Some(ErrorCode::NonEmptyGroup)),
            ("nobody".to_owned(), Some(ErrorCode::GroupIdNotFound)),
        ]
    );
    assert_eq!(world.commit("other", "", -1, 5).await, None);
    let topics = vec![("orders".to_owned(), vec![0, 1, 9]), ("nowhere".to_owned(), vec![0])];
    let op = op::OffsetDelete { group: "other".to_owned(), topics };
    let Reply::OffsetDelete(reply) = soon(world.call(Op::OffsetDelete(op)).reply()).await.unwrap() else {
        panic!("a deletion is answered as one")
    };
    let missing = Some(ErrorCode::UnknownTopicOrPartition);
    assert_eq!(
        reply.result.unwrap(),
        [
            ("orders".to_owned(), vec![(0, None), (1, None), (9, missing)]),
            ("nowhere".to_owned(), vec![(0, missing)]),
        ]
    );
    let world = world.crash(Crash::LosesAll).await;
    world.groups_are_loaded().await;
    assert_eq!(world.offset("tool").await, Ok(-1));
    assert_eq!(world.offset("other").await, Ok(-1));
    assert_eq!(world.broker.group_story(OrgId::DEFAULT, "tool").await, Ok(None));
}

/// Commits again and again while the n-th operation of a kind fails, and looks at what is there afterwards.
async fn nth_fault(kind: FaultKind, nth: u64, from_then_on: bool) -> bool {
    let world = World::with_groups().await;
    let (member, generation) = world.stable("billing").await;
    world.disk.fail(Fault { kind, nth, error: io::ErrorKind::Other, from_then_on });
    let (mut refused, mut last) = (0, -1);
    for offset in 0..6 {
        loop {
            match world.commit("billing", &member, generation, offset).await {
                None => break,
                Some(ErrorCode::NotCoordinator) => {
                    refused += 1;
                    world.disk.heal();
                    assert!(refused < 100, "the group works again once the disk does");
                }
                Some(ErrorCode::CoordinatorLoadInProgress) => {
                    assert_eq!(world.heartbeat("billing", &member, generation), None);
                    world.groups_are_loaded().await;
                    // A commit that failed may be there, where its frame got to the disk before the sync failed.
                    let there = world.offset("billing").await;
                    assert!(there == Ok(last) || there == Ok(offset), "{there:?} after {last}");
                }
                other => panic!("{other:?}"),
            }
        }
        last = offset;
    }
    world.disk.heal();
    assert_eq!(world.heartbeat("billing", &member, generation), None);
    let world = world.crash(Crash::LosesAll).await;
    world.groups_are_loaded().await;
    assert_eq!(world.offset("billing").await, Ok(5), "{kind:?} {nth}");
    assert_eq!(world.heartbeat("billing", &member, generation), None);
    refused > 0
}

/// Proves RT-09, RT-20, GATE-09.
#[tokio::test]
async fn a_write_that_fails_is_told_and_the_groups_come_back_with_what_was_durable() {
    for kind in [FaultKind::Write, FaultKind::Sync] {
        for from_then_on in [false, true] {
            let mut hits = 0;
            for nth in 0..8 {
                hits += u32::from(nth_fault(kind, nth, from_then_on).await);
            }
            assert!(hits > 0, "no {kind:?} was met");
        }
    }
}

#[tokio::test]
async fn a_full_disk_refuses_commits_and_keeps_members() {
    let world = World::with_groups().await;
    let (member, generation) = world.stable("billing").await;
    world.disk.fail(Fault {
        kind: FaultKind::Write,
        nth: 0,
        error: io::ErrorKind::StorageFull,
        from_then_on: true,
    });
    for _ in 0..3 {
        assert_eq!(world.commit("billing", &member, generation, 9).await, Some(ErrorCode::NotCoordinator));
        world.groups_are_loaded().await;
        assert_eq!(world.heartbeat("billing", &member, generation), None);
        assert_eq!(world.offset("billing").await, Ok(-1));
    }
    world.disk.heal();
    assert_eq!(world.commit("billing", &member, generation, 9).await, None);
    assert_eq!(world.offset("billing").await, Ok(9));
}

/// Proves COMMIT-28.
#[tokio::test]
async fn what_is_committed_at_the_moment_of_a_crash_is_there_or_not_and_never_half() {
    for seed in 0..20 {
        let world = World::with_groups().await;
        for offset in 0..5 {
            assert_eq!(world.commit("tool", "", -1, offset).await, None);
        }
        let mut late = commit_op("tool", "", -1, 5);
        let part = late.topics[0].partitions[0].clone();
        late.topics[0]
            .partitions
            .extend((1..4).map(|index| op::OffsetCommitPartition { index, ..part.clone() }));
        let late = world.call(Op::OffsetCommit(late));
        let world = world.crash(Crash::Tears(seed)).await;
        drop(late);
        world.groups_are_loaded().await;
        let there = world.offsets("tool", &[0, 1, 2, 3]).await.unwrap();
        assert!(there == [4, -1, -1, -1] || there == [5; 4], "{there:?} with seed {seed}");
    }
}

/// Proves LOAD-06, LOAD-07, RT-23.
#[tokio::test]
async fn a_broker_that_ends_answers_who_is_parked() {
    let world = World::with_groups().await;
    let (member, _) = world.stable("billing").await;
    // The first group waits for a member that does not join again, the second for a leader that brings nothing.
    let join = world.call(Op::JoinGroup(join_op("billing", "")));
    let one = world.call(Op::JoinGroup(join_op("shipping", "")));
    let one = soon(one.reply()).await.unwrap();
    let Reply::JoinGroup(one) = one else { panic!("a join is answered as one") };
    let (two, again) = tokio::join!(world.join("shipping", ""), world.join("shipping", &one.member_id));
    let generation = again.result.unwrap().generation;
    let sync = world.call(Op::SyncGroup(sync_op("shipping", &two.member_id, generation, &[])));
    assert!(matches!((&join, &sync), (Answer::Later(_), Answer::Later(_))));
    world.broker.drain();
    let Reply::JoinGroup(reply) = soon(join.reply()).await.unwrap() else {
        panic!("a join is answered as one")
    };
    assert_eq!(reply.result, Err(ErrorCode::NotCoordinator));
    let Reply::SyncGroup(reply) = soon(sync.reply()).await.unwrap() else {
        panic!("a sync is answered as one")
    };
    assert_eq!(reply.result, Err(ErrorCode::NotCoordinator));
    let again = world.join("billing", &member).await;
    assert_eq!((again.member_id, again.result), (member, Err(ErrorCode::NotCoordinator)));
}

#[tokio::test]
async fn a_parked_join_goes_with_its_client_and_the_member_stays() {
    let world = World::with_groups().await;
    let (member, _) = world.stable("billing").await;
    // A second member joins; the first has to join again before anybody is answered.
    let second = world.call(Op::JoinGroup(join_op("billing", "")));
    assert!(matches!(second, Answer::Later(_)));
    drop(second);
    let first = world.call(Op::JoinGroup(join_op("billing", &member)));
    let Reply::JoinGroup(first) = soon(first.reply()).await.unwrap() else {
        panic!("a join is answered as one")
    };
    let joined = first.result.unwrap();
    assert_eq!(joined.members.len(), 2, "the client has gone, the member has not");
}

#[tokio::test]
async fn many_commits_at_once_are_few_writes_and_all_survive() {
    let world = World::with_groups().await;
    let before = world.broker.store().metrics().appends.load(std::sync::atomic::Ordering::Relaxed);
    let answers: Vec<_> =
        (0..1000).map(|offset| world.call(Op::OffsetCommit(commit_op("tool", "", -1, offset)))).collect();
    for answer in answers {
        assert_eq!(committed(soon(answer.reply()).await.unwrap()), None);
    }
    let after = world.broker.store().metrics().appends.load(std::sync::atomic::Ordering::Relaxed);
    assert!(after - before < 500, "{} appends for 1000 commits", after - before);
    let world = world.crash(Crash::LosesAll).await;
    world.groups_are_loaded().await;
    assert_eq!(world.offset("tool").await, Ok(999));
}

#[tokio::test]
async fn members_of_many_groups_are_told_apart() {
    let world = World::with(&AT_ONCE).await;
    world.create("orders", 1, &[]).await;
    world.groups_are_loaded().await;
    let mut members = Vec::new();
    for number in 0..120 {
        let group = format!("group-{number}");
        members.push((world.stable(&group).await, group));
    }
    for ((member, generation), group) in &members {
        assert_eq!(world.heartbeat(group, member, *generation), None);
        assert_eq!(world.commit(group, member, *generation, 1).await, None);
    }
    assert_eq!(world.list().await.unwrap().len(), 120);
    let world = world.crash(Crash::LosesAll).await;
    world.groups_are_loaded().await;
    for ((member, generation), group) in &members {
        assert_eq!(world.heartbeat(group, member, *generation), None);
    }
}

#[tokio::test]
async fn a_broker_that_ends_while_it_loads_starts_again() {
    let world = World::with_groups().await;
    assert_eq!(world.commit("tool", "", -1, 5).await, None);
    let world = world.restart().await.restart().await.restart().await;
    world.groups_are_loaded().await;
    assert_eq!(world.offset("tool").await, Ok(5));
}

/// Proves GATE-12.
#[tokio::test]
async fn the_offsets_topic_is_there_from_the_start() {
    let world = World::with(&[
        ("offsets.topic.num.partitions", "7"),
        ("offsets.topic.segment.bytes", "2000000"),
        // That of other topics.
        ("compression.type", "zstd"),
    ])
    .await;
    let topic = world.topic("__consumer_offsets");
    assert_eq!(topic.config.compression_type, CompressionType::Producer);
    assert!(topic.internal && topic.config.cleanup_policy.compact && !topic.config.cleanup_policy.delete);
    assert_eq!((topic.partitions.len(), topic.config.segment_bytes), (7, 2_000_000));
    let id = topic.id;
    let world = world.restart().await;
    assert_eq!(world.topic("__consumer_offsets").id, id, "it is made once");
}

/// Proves LOAD-11, LOAD-12, LOAD-13: what compaction leaves is enough.
#[tokio::test]
async fn groups_are_what_they_were_after_their_logs_were_compacted() {
    let world = World::with(&[
        ("group.initial.rebalance.delay.ms", "0"),
        ("offsets.topic.num.partitions", "1"),
        ("log.cleaner.min.cleanable.ratio", "0"),
    ])
    .await;
    world.create("orders", 4, &[]).await;
    world.groups_are_loaded().await;
    let log = world.topic("__consumer_offsets").partitions[0].log().clone();
    let (member, generation) = world.stable("billing").await;
    let (leaver, _) = world.stable("leaving").await;
    for offset in 0..5 {
        assert_eq!(world.commit("billing", &member, generation, offset).await, None);
        assert_eq!(world.commit("deleted", "", -1, offset).await, None);
        world.settle().await;
        log.roll();
    }
    let leave = op::LeaveGroup {
        group: "leaving".to_owned(),
        members: vec![op::LeavingMember { member_id: leaver, instance_id: None, reason: None }],
    };
    let _ = soon(world.call(Op::LeaveGroup(leave)).reply()).await.unwrap();
    let delete = op::DeleteGroups { groups: vec!["deleted".to_owned()] };
    let _ = soon(world.call(Op::DeleteGroups(delete)).reply()).await.unwrap();
    world.settle().await;
    log.roll();
    assert_eq!(world.commit("last", "", -1, 1).await, None);
    world.settle().await;
    let before = log.size_bytes();
    world.broker.clean().await;
    assert!(log.size_bytes() < before, "something was dropped");
    let world = world.restart().await;
    world.groups_are_loaded().await;
    assert_eq!(world.heartbeat("billing", &member, generation), None);
    assert_eq!(world.offset("billing").await, Ok(4));
    assert_eq!(world.state("leaving").await, GroupState::Empty);
    assert_eq!(world.state("deleted").await, GroupState::Dead);
    assert_eq!(world.offset("deleted").await, Ok(-1));
}
