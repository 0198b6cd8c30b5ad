//! A member of a group that sends exactly what a test tells it to.

use std::io;

use bytes::Bytes;
use wire::api::{
    describe_groups, heartbeat, join_group, leave_group, list_groups, offset_commit, offset_fetch, sync_group,
};

use super::{Connection, wait_until};

pub(crate) const NONE: i16 = 0;
pub(crate) const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
pub(crate) const NOT_COORDINATOR: i16 = 16;
pub(crate) const ILLEGAL_GENERATION: i16 = 22;
pub(crate) const UNKNOWN_MEMBER_ID: i16 = 25;
pub(crate) const REBALANCE_IN_PROGRESS: i16 = 27;
pub(crate) const POLICY_VIOLATION: i16 = 44;
pub(crate) const MEMBER_ID_REQUIRED: i16 = 79;
pub(crate) const GROUP_MAX_SIZE_REACHED: i16 = 81;

pub(crate) const JOIN: i16 = 9;
/// The last version in which a member need not ask for an id first.
pub(crate) const JOIN_AT_ONCE: i16 = 3;
pub(crate) const SYNC: i16 = 5;
pub(crate) const HEARTBEAT: i16 = 4;
pub(crate) const LEAVE: i16 = 5;
pub(crate) const COMMIT: i16 = 9;
const FETCH: i16 = 9;

/// The topic that members commit to, unless they are told another.
const TOPIC: &str = "t";

/// Longer than any test takes.
pub(crate) const LONG: i32 = 600_000;

/// One member on a connection of its own.
pub(crate) struct Member {
    pub(crate) connection: Connection,
    pub(crate) group: String,
    /// Empty until it has one.
    pub(crate) id: String,
    pub(crate) generation: i32,
    pub(crate) leader: String,
    /// The members of the generation, as the leader is told; empty for others.
    pub(crate) members: Vec<String>,
    pub(crate) session_ms: i32,
    pub(crate) rebalance_ms: i32,
    pub(crate) metadata: Bytes,
}

impl Member {
    pub(crate) fn new(address: &str, group: &str) -> Self {
        Self::on(Connection::open(address), group)
    }

    pub(crate) fn on(connection: Connection, group: &str) -> Self {
        Self {
            connection,
            group: group.to_owned(),
            id: String::new(),
            generation: -1,
            leader: String::new(),
            members: Vec::new(),
            session_ms: LONG,
            rebalance_ms: LONG,
            metadata: subscription(TOPIC),
        }
    }

    /// A group's only member, settled.
    pub(crate) fn alone(address: &str, group: &str) -> Self {
        let mut member = Self::new(address, group);
        member.settle_alone();
        member
    }

    /// Joins a group that nobody is in, once it is loaded, and takes all that there is.
    pub(crate) fn settle_alone(&mut self) {
        wait_until("the group is loaded", || match self.join().expect("join") {
            NONE => true,
            error => {
                assert_eq!(error, COORDINATOR_LOAD_IN_PROGRESS);
                false
            }
        });
        assert_eq!(self.sync().expect("sync"), NONE);
    }

    pub(crate) fn join_request(&self) -> join_group::JoinGroupRequest {
        join_group::JoinGroupRequest {
            group_id: self.group.clone(),
            session_timeout_ms: self.session_ms,
            rebalance_timeout_ms: self.rebalance_ms,
            member_id: self.id.clone(),
            protocol_type: "consumer".to_owned(),
            protocols: vec![join_group::JoinGroupRequestProtocol {
                name: "range".to_owned(),
                metadata: self.metadata.clone(),
            }],
            ..Default::default()
        }
    }

    /// Joins, with a first request for an id if it has none, and waits for its generation.
    pub(crate) fn join(&mut self) -> io::Result<i16> {
        if self.id.is_empty() {
            let error = self.ask_for_id()?;
            if error != MEMBER_ID_REQUIRED {
                return Ok(error);
            }
        }
        self.send_join()?;
        self.joined()
    }

    /// Asks for an id, without waiting for a generation.
    pub(crate) fn ask_for_id(&mut self) -> io::Result<i16> {
        let answer = self.connection.try_ask(&self.join_request(), JOIN)?;
        self.id = answer.member_id;
        Ok(answer.error_code)
    }

    pub(crate) fn send_join(&mut self) -> io::Result<()> {
        let request = self.join_request();
        self.connection.send(&request, JOIN)
    }

    /// The answer to a join.
    pub(crate) fn joined(&mut self) -> io::Result<i16> {
        let answer = self.connection.receive::<join_group::JoinGroupRequest>(JOIN)?;
        if answer.error_code == NONE {
            self.id = answer.member_id;
            self.generation = answer.generation_id;
            self.leader = answer.leader;
            self.members = answer.members.into_iter().map(|member| member.member_id).collect();
        }
        Ok(answer.error_code)
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.leader == self.id
    }

    /// A sync; the leader's assigns to everybody what [`assignment_of`] says.
    pub(crate) fn sync_request(&self) -> sync_group::SyncGroupRequest {
        let assignment = |id: &String| sync_group::SyncGroupRequestAssignment {
            member_id: id.clone(),
            assignment: assignment_of(id, self.generation),
        };
        sync_group::SyncGroupRequest {
            group_id: self.group.clone(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            protocol_type: Some("consumer".to_owned()),
            protocol_name: Some("range".to_owned()),
            assignments: self.members.iter().map(assignment).collect(),
            ..Default::default()
        }
    }

    pub(crate) fn send_sync(&mut self) -> io::Result<()> {
        let request = self.sync_request();
        self.connection.send(&request, SYNC)
    }

    /// The answer to a sync; what is assigned must be what the leader meant.
    pub(crate) fn synced(&mut self) -> io::Result<i16> {
        let answer = self.connection.receive::<sync_group::SyncGroupRequest>(SYNC)?;
        if answer.error_code == NONE {
            let meant = assignment_of(&self.id, self.generation);
            assert_eq!(answer.assignment, meant, "{} of group {}", self.id, self.group);
        }
        Ok(answer.error_code)
    }

    pub(crate) fn sync(&mut self) -> io::Result<i16> {
        self.send_sync()?;
        self.synced()
    }

    pub(crate) fn heartbeat_request(&self) -> heartbeat::HeartbeatRequest {
        heartbeat::HeartbeatRequest {
            group_id: self.group.clone(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            group_instance_id: None,
        }
    }

    pub(crate) fn heartbeat(&mut self) -> io::Result<i16> {
        let request = self.heartbeat_request();
        Ok(self.connection.try_ask(&request, HEARTBEAT)?.error_code)
    }

    pub(crate) fn commit_request(&self, partition: i32, offset: i64) -> offset_commit::OffsetCommitRequest {
        offset_commit::OffsetCommitRequest {
            group_id: self.group.clone(),
            generation_id_or_member_epoch: self.generation,
            member_id: self.id.clone(),
            topics: vec![offset_commit::OffsetCommitRequestTopic {
                name: TOPIC.to_owned(),
                partitions: vec![offset_commit::OffsetCommitRequestPartition {
                    partition_index: partition,
                    committed_offset: offset,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    pub(crate) fn send_commit(&mut self, partition: i32, offset: i64) -> io::Result<()> {
        let request = self.commit_request(partition, offset);
        self.connection.send(&request, COMMIT)
    }

    /// The answer to the oldest commit that was sent and not answered.
    pub(crate) fn committed(&mut self) -> io::Result<i16> {
        let answer = self.connection.receive::<offset_commit::OffsetCommitRequest>(COMMIT)?;
        Ok(answer.topics[0].partitions[0].error_code)
    }

    pub(crate) fn commit(&mut self, partition: i32, offset: i64) -> io::Result<i16> {
        self.send_commit(partition, offset)?;
        self.committed()
    }

    pub(crate) fn leave(&mut self) -> io::Result<i16> {
        let request = leave_group::LeaveGroupRequest {
            group_id: self.group.clone(),
            members: vec![leaver(&self.id)],
            ..Default::default()
        };
        let answer = self.connection.try_ask(&request, LEAVE)?;
        let error = if answer.error_code == NONE { answer.members[0].error_code } else { answer.error_code };
        if error == NONE {
            self.id.clear();
        }
        Ok(error)
    }
}

/// What the leader assigns to a member, so that it can tell whether it got it.
fn assignment_of(id: &str, generation: i32) -> Bytes {
    format!("{id} in {generation}").into()
}

pub(crate) fn leaver(id: &str) -> leave_group::MemberIdentity {
    leave_group::MemberIdentity { member_id: id.to_owned(), ..Default::default() }
}

/// What a consumer of one topic says of itself.
pub(crate) fn subscription(topic: &str) -> Bytes {
    let mut bytes = vec![0, 0, 0, 0, 0, 1];
    bytes.extend(u16::try_from(topic.len()).expect("a short name").to_be_bytes());
    bytes.extend(topic.as_bytes());
    bytes.extend(u32::MAX.to_be_bytes());
    bytes.into()
}

impl Connection {
    /// The offset that a group has committed in a partition, or the error of the group.
    pub(crate) fn committed_offset(&mut self, group: &str, partition: i32) -> Result<i64, i16> {
        self.try_committed_offset(group, partition).unwrap_or_else(|error| panic!("fetch offsets: {error}"))
    }

    pub(crate) fn try_committed_offset(
        &mut self,
        group: &str,
        partition: i32,
    ) -> io::Result<Result<i64, i16>> {
        let request = offset_fetch::OffsetFetchRequest {
            groups: vec![offset_fetch::OffsetFetchRequestGroup {
                group_id: group.to_owned(),
                topics: Some(vec![offset_fetch::OffsetFetchRequestTopics {
                    name: TOPIC.to_owned(),
                    partition_indexes: vec![partition],
                    ..Default::default()
                }]),
                ..Default::default()
            }],
            ..Default::default()
        };
        let answer = self.try_ask(&request, FETCH)?;
        let group = &answer.groups[0];
        Ok(match group.error_code {
            NONE => Ok(group.topics[0].partitions[0].committed_offset),
            error => Err(error),
        })
    }

    /// A group as DescribeGroups shows it.
    pub(crate) fn described(&mut self, group: &str) -> describe_groups::DescribedGroup {
        let request =
            describe_groups::DescribeGroupsRequest { groups: vec![group.to_owned()], ..Default::default() };
        self.ask(&request, 6).groups.remove(0)
    }

    /// All groups with their states; `None` while some are being loaded.
    pub(crate) fn groups(&mut self) -> Option<Vec<(String, String)>> {
        let answer = self.ask(&list_groups::ListGroupsRequest::default(), 5);
        if answer.error_code == COORDINATOR_LOAD_IN_PROGRESS {
            return None;
        }
        assert_eq!(answer.error_code, NONE, "list groups");
        Some(answer.groups.into_iter().map(|group| (group.group_id, group.group_state)).collect())
    }
}
