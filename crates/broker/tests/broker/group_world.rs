//! Short ways to ask about groups.

use std::time::Duration;

use bytes::Bytes;
use coordination::error_code::ErrorCode;
use coordination::op::{self, Op, TopicRef};
use coordination::reply::{self, GroupState, Reply};
use rail::Answer;

use crate::world::World;

/// Joins end at once, so that no test waits for a clock.
pub(crate) const AT_ONCE: [(&str, &str); 1] = [("group.initial.rebalance.delay.ms", "0")];

/// What no step of a test takes unless something is broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// Fails the test if `step` takes for ever.
pub(crate) async fn soon<T>(step: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, step).await.expect("this happens soon")
}

pub(crate) fn join_op(group: &str, member: &str) -> op::JoinGroup {
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

pub(crate) fn sync_op(group: &str, member: &str, generation: i32, assignments: &[&str]) -> op::SyncGroup {
    op::SyncGroup {
        group: group.to_owned(),
        generation,
        member_id: member.to_owned(),
        instance_id: None,
        protocol_type: Some("consumer".to_owned()),
        protocol: Some("range".to_owned()),
        must_name_protocol: true,
        assignments: assignments
            .iter()
            .map(|member| ((*member).to_owned(), Bytes::from_static(b"mine")))
            .collect(),
    }
}

pub(crate) fn commit_op(group: &str, member: &str, generation: i32, offset: i64) -> op::OffsetCommit {
    let partition =
        op::OffsetCommitPartition { index: 0, offset, leader_epoch: -1, metadata: Some("here".to_owned()) };
    op::OffsetCommit {
        group: group.to_owned(),
        generation,
        member_id: member.to_owned(),
        instance_id: None,
        retention_ms: None,
        knows_missing_groups: true,
        topics: vec![op::OffsetCommitTopic {
            topic: TopicRef::Name("orders".to_owned()),
            partitions: vec![partition],
        }],
    }
}

pub(crate) fn committed(reply: Reply) -> Option<ErrorCode> {
    match reply {
        Reply::OffsetCommit(reply) => reply.topics[0].partitions[0].1,
        other => panic!("{other:?}"),
    }
}

impl World {
    /// A broker whose joins end at once, with a topic `orders` of four partitions and all groups loaded.
    pub(crate) async fn with_groups() -> Self {
        let world = Self::with(&AT_ONCE).await;
        world.create("orders", 4, &[]).await;
        world.groups_are_loaded().await;
        world
    }

    pub(crate) async fn groups_are_loaded(&self) {
        soon(async {
            while self.list().await == Err(ErrorCode::CoordinatorLoadInProgress) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    pub(crate) async fn list(&self) -> Result<Vec<reply::ListedGroup>, ErrorCode> {
        let op = op::ListGroups { states: Vec::new(), types: Vec::new() };
        match self.call(Op::ListGroups(op)).reply().await.unwrap() {
            Reply::ListGroups(reply) => reply.result,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn join(&self, group: &str, member: &str) -> reply::JoinGroup {
        match soon(self.call(Op::JoinGroup(join_op(group, member))).reply()).await.unwrap() {
            Reply::JoinGroup(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn sync(&self, op: op::SyncGroup) -> Result<Bytes, ErrorCode> {
        match soon(self.call(Op::SyncGroup(op)).reply()).await.unwrap() {
            Reply::SyncGroup(reply) => reply.result.map(|synced| synced.assignment),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn heartbeat(&self, group: &str, member: &str, generation: i32) -> Option<ErrorCode> {
        let op = op::Heartbeat {
            group: group.to_owned(),
            generation,
            member_id: member.to_owned(),
            instance_id: None,
        };
        match self.call(Op::Heartbeat(op.into())) {
            Answer::Now(Reply::Heartbeat(reply)) => reply.error,
            _ => panic!("a heartbeat never waits"),
        }
    }

    pub(crate) async fn commit(
        &self,
        group: &str,
        member: &str,
        generation: i32,
        offset: i64,
    ) -> Option<ErrorCode> {
        committed(
            soon(self.call(Op::OffsetCommit(commit_op(group, member, generation, offset))).reply())
                .await
                .unwrap(),
        )
    }

    /// What is committed for partition 0 of `orders`.
    pub(crate) async fn offset(&self, group: &str) -> Result<i64, ErrorCode> {
        self.offsets(group, &[0]).await.map(|offsets| offsets[0])
    }

    /// What is committed for these partitions of `orders`.
    pub(crate) async fn offsets(&self, group: &str, partitions: &[i32]) -> Result<Vec<i64>, ErrorCode> {
        let topic = TopicRef::Name("orders".to_owned());
        let asked = op::OffsetFetchGroup {
            group: group.to_owned(),
            member_id: None,
            member_epoch: -1,
            topics: Some(vec![op::OffsetFetchTopic { topic, partitions: partitions.to_vec() }]),
        };
        let op = op::OffsetFetch { groups: vec![asked], require_stable: true, by_id: false };
        match soon(self.call(Op::OffsetFetch(op)).reply()).await.unwrap() {
            Reply::OffsetFetch(reply) => match reply.groups[0].error {
                Some(code) => Err(code),
                None => Ok(reply.groups[0].topics[0].partitions.iter().map(|part| part.offset).collect()),
            },
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn describe(&self, group: &str) -> reply::DescribedGroup {
        let op = op::DescribeGroups { groups: vec![group.to_owned()] };
        match soon(self.call(Op::DescribeGroups(op)).reply()).await.unwrap() {
            Reply::DescribeGroups(mut reply) => reply.groups.remove(0),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn state(&self, group: &str) -> GroupState {
        self.describe(group).await.state
    }

    /// A group of one member with its assignment; gives the member's id and the generation.
    pub(crate) async fn stable(&self, group: &str) -> (String, i32) {
        let joined = self.join(group, "").await;
        let generation = joined.result.unwrap().generation;
        let member = joined.member_id;
        let assignment = self.sync(sync_op(group, &member, generation, &[&member])).await;
        assert_eq!(assignment, Ok(Bytes::from_static(b"mine")));
        (member, generation)
    }
}
