//! Groups over a store that writes only when the test says so.

mod deadlines;
mod endings;
mod failed_writes;
mod metrics;

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use batch::{BatchBuilder, NewRecord};
use bytes::Bytes;
use coordination::catalog::TOPIC_NAME_OF_OFFSETS;
use coordination::error_code::ErrorCode;
use coordination::op::{self, TopicRef};
use coordination::reply::{self, Reply};
use coordination::settings::Layer;
use rail::{Answer, Carrier};
use store::{Append, Fault, FaultKind, MemoryDisk, Options};

use super::*;
use crate::topics::TopicSpec;

const ORG: OrgId = OrgId::DEFAULT;
const OFFSETS: TopicId = TopicId::from_u128(1);
const ORDERS: TopicId = TopicId::from_u128(2);

struct Stage {
    disk: MemoryDisk,
    store: Arc<LocalStore>,
    topics: Arc<Topics>,
    groups: Arc<Groups>,
    timer: Option<JoinHandle<()>>,
}

impl Stage {
    /// With groups that are not loaded.
    fn new() -> Self {
        Self::with(Options { log_file_bytes: 1 << 20, ..Options::default() })
    }

    fn with(options: Options) -> Self {
        let disk = MemoryDisk::new();
        let (store, _) =
            LocalStore::open(Arc::new(disk.clone()), "data".as_ref(), options).expect("it opens");
        let store = Arc::new(store);
        let topics = Arc::new(Topics::new(Arc::clone(&store)));
        let mut settings = Settings::default();
        settings.set(Layer::Flags, "group.initial.rebalance.delay.ms", "0").expect("it can be set");
        let groups = Groups::new(&store, Arc::clone(&topics), &settings);
        let spec = |id, name: &str, internal, partitions| TopicSpec {
            id,
            org: ORG,
            name: name.into(),
            internal,
            partitions,
            config: settings.topic_defaults(),
        };
        groups.adopt(&topics.put(spec(OFFSETS, TOPIC_NAME_OF_OFFSETS, true, 2)));
        topics.put(spec(ORDERS, "orders", false, 4));
        Self { disk, store, topics, groups, timer: None }
    }

    async fn loaded() -> Self {
        let mut stage = Self::new();
        stage.load().await;
        stage
    }

    async fn load(&mut self) {
        self.timer = Some(self.groups.start());
        self.settled().await;
    }

    /// Waits until nothing is being loaded.
    async fn settled(&self) {
        let loaded = async {
            let everything = op::ListGroups { states: Vec::new(), types: Vec::new() };
            let loading = Err(ErrorCode::CoordinatorLoadInProgress);
            while let Answer::Now(Reply::ListGroups(list)) = self.groups.list(ORG, &everything)
                && list.result == loading
            {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), loaded).await.expect("loading ends");
    }

    fn carrier(&self) -> Carrier {
        let mut carrier = Carrier::new(IpAddr::V4(Ipv4Addr::LOCALHOST), "PLAINTEXT".into());
        carrier.calls_itself(Some("tester".into()));
        carrier
    }

    fn join(&self, group: &str, member: &str) -> Answer {
        self.groups.join(&self.carrier(), join_op(group, member))
    }

    fn sync(&self, group: &str, member: &str, generation: i32) -> Answer {
        let mine = vec![(member.to_owned(), Bytes::from_static(b"mine"))];
        self.groups.sync(&self.carrier(), &sync_op(group, member, generation, mine))
    }

    fn heartbeat(&self, group: &str, member: &str, generation: i32) -> Option<ErrorCode> {
        let op = op::Heartbeat {
            group: group.to_owned(),
            generation,
            member_id: member.to_owned(),
            instance_id: None,
        };
        match self.groups.heartbeat(&self.carrier(), &op) {
            Answer::Now(Reply::Heartbeat(reply)) => reply.error,
            _ => panic!("a heartbeat never waits"),
        }
    }

    fn commit(&self, group: &str, offset: i64) -> Answer {
        let partition = op::OffsetCommitPartition { index: 0, offset, leader_epoch: -1, metadata: None };
        let topic = TopicRef::Name("orders".to_owned());
        let op = op::OffsetCommit {
            group: group.to_owned(),
            generation: -1,
            member_id: String::new(),
            instance_id: None,
            retention_ms: None,
            knows_missing_groups: true,
            topics: vec![op::OffsetCommitTopic { topic, partitions: vec![partition] }],
        };
        self.groups.commit(ORG, op)
    }

    fn fetch(&self, group: &str) -> Answer {
        self.fetch_with(group, false)
    }

    fn fetch_with(&self, group: &str, require_stable: bool) -> Answer {
        let topic = op::OffsetFetchTopic { topic: TopicRef::Name("orders".to_owned()), partitions: vec![0] };
        let asked = op::OffsetFetchGroup {
            group: group.to_owned(),
            member_id: None,
            member_epoch: -1,
            topics: Some(vec![topic]),
        };
        self.groups.fetch_offsets(ORG, op::OffsetFetch { groups: vec![asked], require_stable, by_id: false })
    }

    fn describe(&self, group: &str) -> Answer {
        self.groups.describe(ORG, op::DescribeGroups { groups: vec![group.to_owned()] })
    }

    async fn list(&self) -> reply::ListGroups {
        let op = op::ListGroups { states: Vec::new(), types: Vec::new() };
        match self.groups.list(ORG, &op).reply().await.expect("no link is lost") {
            Reply::ListGroups(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    /// Writes what is queued, and what follows from it.
    fn write(&self) {
        while self.store.commit_once() > 0 {}
    }

    fn fail_the_next_sync(&self) {
        self.disk.fail(Fault {
            kind: FaultKind::Sync,
            nth: 0,
            error: std::io::ErrorKind::Other,
            from_then_on: false,
        });
    }

    /// Puts a record into the log of one shard before anybody has read it.
    fn put(&self, partition: u32, key: Option<&[u8]>, value: Option<&[u8]>) {
        let log = self.store.partition(coordination::ids::PartitionKey { topic: OFFSETS, partition });
        let mut builder = BatchBuilder::new(0);
        builder.push(&NewRecord { timestamp: 1, key, value, headers: &[] }).expect("it fits");
        let batch = builder.finish().expect("it is small");
        drop(log.append(Append::at(&batch, log.end_offset(), 0).expect("it is a batch")));
        self.write();
    }

    fn shard(&self, group: &str) -> Arc<GroupShard> {
        self.groups.shard(ORG, group).expect("the organisation has groups")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
    }
}

fn sync_op(group: &str, member: &str, generation: i32, assignments: Vec<(String, Bytes)>) -> op::SyncGroup {
    op::SyncGroup {
        group: group.to_owned(),
        generation,
        member_id: member.to_owned(),
        instance_id: None,
        protocol_type: Some("consumer".to_owned()),
        protocol: Some("range".to_owned()),
        must_name_protocol: true,
        assignments,
    }
}

fn join_op(group: &str, member: &str) -> op::JoinGroup {
    op::JoinGroup {
        group: group.to_owned(),
        member_id: member.to_owned(),
        instance_id: None,
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![("range".to_owned(), Bytes::from_static(b"topics"))],
        reason: None,
        takes_member_id_first: false,
        can_skip_assignment: true,
    }
}

/// Whether the answer has to wait; asked twice, as a connection that is woken for something else does.
async fn waits(answer: &mut Answer) -> bool {
    if !matches!(answer, Answer::Gated(_) | Answer::Later(_)) {
        return false;
    }
    poll_fn(|context| {
        let first = answer.poll(context).is_pending();
        Poll::Ready(first && answer.poll(context).is_pending())
    })
    .await
}

async fn commit_error(answer: Answer) -> Option<ErrorCode> {
    match answer.reply().await.expect("no link is lost") {
        Reply::OffsetCommit(reply) => reply.topics[0].partitions[0].1,
        other => panic!("{other:?}"),
    }
}

async fn fetched(answer: Answer) -> (Option<ErrorCode>, i64) {
    match answer.reply().await.expect("no link is lost") {
        Reply::OffsetFetch(reply) => (reply.groups[0].error, reply.groups[0].topics[0].partitions[0].offset),
        other => panic!("{other:?}"),
    }
}

async fn joined(answer: Answer) -> reply::JoinGroup {
    match answer.reply().await.expect("no link is lost") {
        Reply::JoinGroup(reply) => reply,
        other => panic!("{other:?}"),
    }
}

async fn synced(answer: Answer) -> Result<Bytes, ErrorCode> {
    match answer.reply().await.expect("no link is lost") {
        Reply::SyncGroup(reply) => reply.result.map(|synced| synced.assignment),
        other => panic!("{other:?}"),
    }
}

/// Proves RT-05, RT-06, RT-12, COMMIT-27, FETCH-15.
#[tokio::test]
async fn nothing_is_revealed_before_it_is_durable() {
    let stage = Stage::loaded().await;
    let mut commit = stage.commit("tool", 5);
    let mut fetch = stage.fetch("tool");
    let mut stable = stage.fetch_with("tool", true);
    let mut describe = stage.describe("tool");
    let mut list = stage.groups.list(ORG, &op::ListGroups { states: Vec::new(), types: Vec::new() });
    for answer in [&mut commit, &mut fetch, &mut stable, &mut describe, &mut list] {
        assert!(waits(answer).await);
    }
    stage.write();
    assert_eq!(commit_error(commit).await, None);
    assert_eq!(fetched(fetch).await, (None, 5));
    assert_eq!(fetched(stable).await, (None, 5));
    assert!(!waits(&mut stage.fetch("tool")).await, "when all is durable nobody waits");
    drop((describe, list));
}

/// Proves RT-05.
#[tokio::test]
async fn a_generation_is_told_when_it_is_durable_and_so_is_an_assignment() {
    let stage = Stage::loaded().await;
    let mut join = stage.join("billing", "");
    assert!(waits(&mut join).await);
    stage.write();
    let reply::JoinGroup { member_id, result } = joined(join).await;
    let generation = result.expect("it has joined").generation;
    let mut sync = stage.sync("billing", &member_id, generation);
    assert_eq!(stage.heartbeat("billing", &member_id, generation), None, "heartbeats wait for nothing");
    assert!(waits(&mut sync).await);
    stage.write();
    assert_eq!(synced(sync).await, Ok(Bytes::from_static(b"mine")));
    assert_eq!(stage.shard("billing").parked(), 0);
}

/// Proves RT-14.
#[tokio::test]
async fn what_comes_while_the_disk_is_busy_is_written_together() {
    let stage = Stage::loaded().await;
    let commits: Vec<_> = (0..100).map(|offset| stage.commit("tool", offset)).collect();
    let before = stage.store.metrics().appends.load(Ordering::Relaxed);
    stage.write();
    let appends = stage.store.metrics().appends.load(Ordering::Relaxed) - before;
    // The first commit names the group in __kohort and goes alone, the other ninety-nine follow together.
    assert_eq!(appends, 3);
    for commit in commits {
        assert_eq!(commit_error(commit).await, None);
    }
    assert_eq!(fetched(stage.fetch("tool")).await, (None, 99));
}

/// Proves RT-09, RT-20, GATE-09.
#[tokio::test]
async fn when_a_write_fails_everybody_is_told_and_the_shard_is_what_the_log_says() {
    let stage = Stage::loaded().await;
    let durable = stage.commit("tool", 5);
    stage.write();
    assert_eq!(commit_error(durable).await, None);
    let mut names = (0..).map(|number| format!("billing-{number}"));
    let neighbour = names.find(|name| stage.shard(name).partition == stage.shard("tool").partition);
    let neighbour = neighbour.expect("names do not end");
    let join = stage.join(&neighbour, "");
    stage.write();
    let member = joined(join).await.member_id;
    let sync = stage.sync(&neighbour, &member, 1);
    stage.write();
    assert!(synced(sync).await.is_ok());
    // A second member waits for the first, which never comes.
    let parked = stage.join(&neighbour, "");
    let commits: Vec<_> = (6..9).map(|offset| stage.commit("tool", offset)).collect();
    let fetch = stage.fetch("tool");
    stage.fail_the_next_sync();
    stage.write();
    for commit in commits {
        assert_eq!(commit_error(commit).await, Some(ErrorCode::NotCoordinator));
    }
    assert_eq!(fetched(fetch).await, (Some(ErrorCode::NotCoordinator), -1));
    assert_eq!(joined(parked).await.result, Err(ErrorCode::NotCoordinator));
    assert_eq!(commit_error(stage.commit("tool", 9)).await, Some(ErrorCode::CoordinatorLoadInProgress));
    stage.settled().await;
    stage.write();
    assert_eq!(fetched(stage.fetch("tool")).await, (None, 5));
    assert_eq!(stage.heartbeat(&neighbour, &member, 1), None);
    let again = stage.commit("tool", 9);
    stage.write();
    assert_eq!(commit_error(again).await, None);
}

#[tokio::test]
async fn parked_requests_leave_nothing_behind_when_their_clients_go() {
    let stage = Stage::loaded().await;
    let first = stage.join("billing", "");
    stage.write();
    joined(first).await.result.expect("it has joined");
    let parked: Vec<_> = (0..50).map(|_| stage.join("billing", "")).collect();
    assert_eq!(stage.shard("billing").parked(), 50);
    drop(parked);
    assert_eq!(stage.shard("billing").parked(), 0);
}

/// Proves GATE-07, LIST-06, LIST-12, RT-04.
#[tokio::test]
async fn while_groups_are_loaded_everybody_is_told_so_but_those_who_heartbeat() {
    let mut stage = Stage::new();
    let loading = ErrorCode::CoordinatorLoadInProgress;
    let join = joined(stage.join("billing", "me")).await;
    assert_eq!((join.member_id.as_str(), join.result), ("me", Err(loading)));
    assert_eq!(synced(stage.sync("billing", "me", 1)).await, Err(loading));
    assert_eq!(stage.heartbeat("billing", "me", 1), None);
    let leave = op::LeaveGroup { group: "billing".to_owned(), members: Vec::new() };
    let Reply::LeaveGroup(left) =
        stage.groups.leave(&stage.carrier(), &leave).reply().await.expect("no link is lost")
    else {
        panic!("it is answered as one")
    };
    assert_eq!(left.result, Err(loading));
    assert_eq!(commit_error(stage.commit("billing", 1)).await, Some(loading));
    assert_eq!(fetched(stage.fetch("billing")).await, (Some(loading), -1));
    assert_eq!(stage.list().await.result, Err(loading));
    let Reply::DescribeGroups(described) = stage.describe("billing").reply().await.expect("no link is lost")
    else {
        panic!("it is answered as one")
    };
    assert_eq!(described.groups[0].error, Some(loading));
    let delete = op::DeleteGroups { groups: vec!["billing".to_owned()] };
    let Reply::DeleteGroups(deleted) =
        stage.groups.delete(ORG, delete).reply().await.expect("no link is lost")
    else {
        panic!("it is answered as one")
    };
    assert_eq!(deleted.groups[0].1, Some(loading));
    let forget = op::OffsetDelete { group: "billing".to_owned(), topics: Vec::new() };
    let Reply::OffsetDelete(forgotten) =
        stage.groups.delete_offsets(ORG, forget).reply().await.expect("no link is lost")
    else {
        panic!("it is answered as one")
    };
    assert_eq!(forgotten.result, Err(loading));
    assert_eq!(stage.groups.story(ORG, "billing").await, Err(loading));
    stage.load().await;
    assert_eq!(stage.groups.story(ORG, "billing").await, Ok(None));
    assert_eq!(stage.heartbeat("billing", "me", 1), Some(ErrorCode::UnknownMemberId));
}

#[tokio::test(start_paused = true)]
async fn what_is_told_of_a_group_is_durable() {
    let stage = Stage::loaded().await;
    let commit = stage.commit("tool", 5);
    let mut story = pin!(stage.groups.story(ORG, "tool"));
    assert!(story.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    stage.write();
    assert!(story.await.is_ok_and(|story| story.is_some()));
    assert_eq!(commit_error(commit).await, None);
}

/// Proves GATE-02, GATE-03, GATE-04, GATE-06: what is wrong with the request comes before where the group is.
#[tokio::test]
async fn a_request_that_is_wrong_in_itself_is_refused_before_the_group_is_looked_for() {
    let stage = Stage::new();
    let join = joined(stage.join("", "me")).await;
    assert_eq!((join.member_id.as_str(), join.result), ("me", Err(ErrorCode::InvalidGroupId)));
    for session_timeout_ms in [-1, 0, 5_999, 1_800_001] {
        let join = op::JoinGroup { session_timeout_ms, ..join_op("billing", "me") };
        let join = joined(stage.groups.join(&stage.carrier(), join)).await;
        assert_eq!((join.member_id.as_str(), join.result), ("me", Err(ErrorCode::InvalidSessionTimeout)));
    }
    assert_eq!(synced(stage.sync("", "me", 1)).await, Err(ErrorCode::InvalidGroupId));
    assert_eq!(stage.heartbeat("", "me", 1), Some(ErrorCode::InvalidGroupId));
    let unnamed = op::SyncGroup { protocol_type: None, ..sync_op("", "me", 1, Vec::new()) };
    let refused = synced(stage.groups.sync(&stage.carrier(), &unnamed)).await;
    assert_eq!(refused, Err(ErrorCode::InconsistentGroupProtocol));
    let long = "g".repeat(40_000);
    assert_eq!(joined(stage.join(&long, "")).await.result, Err(ErrorCode::InvalidGroupId));
}

/// Proves LOAD-16, LOAD-18, LOAD-19, LOAD-20, RT-04.
#[tokio::test]
async fn a_record_that_cannot_be_understood_keeps_its_shard_from_answering() {
    let mut stage = Stage::new();
    let bad = stage.shard("a").partition;
    let other = ["b", "c", "d"].into_iter().find(|group| stage.shard(group).partition != bad);
    let other = other.expect("not all names are in one partition");
    stage.put(bad, Some(&[0, 2, 0, 1, b'a']), Some(&[0, 99]));
    stage.put(1 - bad, Some(&[0, 77, 1, 2, 3]), Some(&[0, 0]));
    stage.put(1 - bad, Some(&[0, 2, 0, 1, b'x']), None);
    stage.load().await;
    assert_eq!(commit_error(stage.commit("a", 1)).await, Some(ErrorCode::NotCoordinator));
    assert_eq!(stage.heartbeat("a", "me", 1), Some(ErrorCode::NotCoordinator));
    assert_eq!(joined(stage.join("a", "")).await.result, Err(ErrorCode::NotCoordinator));
    let commit = stage.commit(other, 1);
    stage.write();
    assert_eq!(commit_error(commit).await, None);
    assert_eq!(stage.list().await.result.map(|groups| groups.len()), Ok(1), "what is elsewhere is listed");
}

/// Proves RT-26.
#[tokio::test]
async fn a_topic_that_is_deleted_while_groups_are_loaded_takes_its_offsets_along() {
    let mut stage = Stage::loaded().await;
    let commit = stage.commit("tool", 5);
    stage.write();
    assert_eq!(commit_error(commit).await, None);
    // Another owner of the same log begins to load when the topic has gone.
    let groups = Groups::new(&stage.store, Arc::clone(&stage.topics), &Settings::default());
    groups.adopt(&stage.topics.by_id(ORG, OFFSETS).expect("it is there"));
    groups.topic_deleted(ORG, &Arc::from("orders"), ORDERS);
    stage.groups = groups;
    stage.load().await;
    let fetch = stage.fetch("tool");
    stage.write();
    assert_eq!(fetched(fetch).await, (None, -1));
}

#[tokio::test]
async fn a_topic_whose_deletion_could_not_be_stored_is_deleted_all_the_same() {
    let stage = Stage::loaded().await;
    let commit = stage.commit("tool", 5);
    stage.write();
    assert_eq!(commit_error(commit).await, None);
    stage.groups.topic_deleted(ORG, &Arc::from("orders"), ORDERS);
    stage.fail_the_next_sync();
    stage.write();
    stage.settled().await;
    let fetch = stage.fetch("tool");
    stage.write();
    assert_eq!(fetched(fetch).await, (None, -1));
}

/// Proves LOAD-21.
#[tokio::test]
async fn a_record_without_a_key_keeps_its_shard_from_answering() {
    let mut stage = Stage::new();
    stage.put(stage.shard("a").partition, None, Some(&[0, 1]));
    stage.load().await;
    assert_eq!(commit_error(stage.commit("a", 1)).await, Some(ErrorCode::NotCoordinator));
}

/// Proves RT-01.
#[tokio::test]
async fn groups_of_another_partition_do_not_wait() {
    let stage = Stage::loaded().await;
    let other =
        ["b", "c", "d"].into_iter().find(|group| stage.shard(group).partition != stage.shard("a").partition);
    let other = other.expect("not all names are in one partition");
    let mut commit = stage.commit("a", 1);
    assert!(waits(&mut stage.fetch("a")).await);
    assert!(!waits(&mut stage.fetch(other)).await);
    assert!(waits(&mut commit).await);
    stage.write();
    assert_eq!(commit_error(commit).await, None);
}

/// Proves GATE-08: an organisation that has no groups here.
#[tokio::test]
async fn groups_of_an_organisation_that_has_none_here_are_elsewhere() {
    let stage = Stage::loaded().await;
    let mut carrier = stage.carrier();
    carrier.belongs_to(OrgId::from_u128(7), "User:tester".into());
    let join = joined(stage.groups.join(&carrier, join_op("billing", "me"))).await;
    assert_eq!((join.member_id.as_str(), join.result), ("me", Err(ErrorCode::NotCoordinator)));
    let op = op::DescribeGroups { groups: vec!["billing".to_owned()] };
    let Reply::DescribeGroups(described) =
        stage.groups.describe(carrier.org(), op).reply().await.expect("no link is lost")
    else {
        panic!("it is answered as one")
    };
    assert_eq!(described.groups[0].error, Some(ErrorCode::NotCoordinator));
}
