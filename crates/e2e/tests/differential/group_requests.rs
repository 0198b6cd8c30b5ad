//! A group at both brokers and what its members send, each with the id and generation it was given last unless the
//! script says otherwise.

use std::panic::Location;

use bytes::Bytes;
use wire::api::*;
use wire::{AnyRequest, Uuid};

use crate::names::Names;
use crate::pair::Pair;
use crate::seats::Said;

/// Who plays: each has a connection of its own.
pub(crate) const ANNA: usize = 1;
pub(crate) const BEN: usize = 2;
pub(crate) const CARA: usize = 3;
pub(crate) const DAN: usize = 4;
pub(crate) const EVA: usize = 5;

/// Longer than any test takes.
pub(crate) const LONG: i32 = 600_000;

/// The member ids and generations that nobody was given.
pub(crate) const NOBODY: &str = "nobody-00000000";

/// One group, and the script that is played in it.
pub(crate) struct Group<'p> {
    pub(crate) pair: &'p mut Pair,
    pub(crate) name: String,
}

impl<'p> Group<'p> {
    /// A group that nobody has used yet, with nobody at the connections.
    pub(crate) fn new(pair: &'p mut Pair, name: &str) -> Self {
        (ANNA..=EVA).for_each(|seat| pair.vacate(seat));
        Self { pair, name: name.to_owned() }
    }

    /// JoinGroup; `answered` are those who are answered because of it, with their errors.
    #[track_caller]
    pub(crate) fn join(
        &mut self,
        seat: usize,
        version: i16,
        answered: &[(usize, i16)],
        edit: impl Fn(&Names, &mut join_group::JoinGroupRequest),
    ) {
        let said = self.pair.act("join", seat, version, &self.name, |names| {
            let mut request = join(&self.name, seat, names);
            edit(names, &mut request);
            AnyRequest::JoinGroup(request)
        });
        self.check(said, answered);
    }

    /// SyncGroup, with what is assigned to whom.
    #[track_caller]
    pub(crate) fn sync(
        &mut self,
        seat: usize,
        version: i16,
        answered: &[(usize, i16)],
        edit: impl Fn(&Names, &mut sync_group::SyncGroupRequest),
    ) {
        let said = self.pair.act("sync", seat, version, &self.name, |names| {
            let mut request = sync(&self.name, seat, names);
            edit(names, &mut request);
            AnyRequest::SyncGroup(request)
        });
        self.check(said, answered);
    }

    #[track_caller]
    pub(crate) fn beat(
        &mut self,
        seat: usize,
        version: i16,
        answered: &[(usize, i16)],
        edit: impl Fn(&Names, &mut heartbeat::HeartbeatRequest),
    ) {
        let said = self.pair.act("heartbeat", seat, version, &self.name, |names| {
            let mut request = heartbeat::HeartbeatRequest {
                group_id: self.name.clone(),
                generation_id: names.generation(seat),
                member_id: names.member_id(seat),
                group_instance_id: None,
            };
            edit(names, &mut request);
            AnyRequest::Heartbeat(request)
        });
        self.check(said, answered);
    }

    /// LeaveGroup sent from the connection of `seat`: the member itself unless `edit` says who.
    #[track_caller]
    pub(crate) fn leave(
        &mut self,
        seat: usize,
        version: i16,
        answered: &[(usize, i16)],
        edit: impl Fn(&Names, &mut leave_group::LeaveGroupRequest),
    ) {
        let said = self.pair.act("leave", seat, version, &self.name, |names| {
            let mut request = leave_group::LeaveGroupRequest {
                group_id: self.name.clone(),
                member_id: names.member_id(seat),
                members: vec![leaver(&names.member_id(seat), None)],
            };
            edit(names, &mut request);
            AnyRequest::LeaveGroup(request)
        });
        self.check(said, answered);
    }

    /// OffsetCommit of partition 0 of topic "t".
    #[track_caller]
    pub(crate) fn commit(
        &mut self,
        seat: usize,
        version: i16,
        answered: &[(usize, i16)],
        edit: impl Fn(&Names, &mut offset_commit::OffsetCommitRequest),
    ) {
        let said = self.pair.act("commit", seat, version, &self.name, |names| {
            let mut request = commit(&self.name, seat, names, &[("t", &[0])]);
            edit(names, &mut request);
            AnyRequest::OffsetCommit(request)
        });
        self.check(said, answered);
    }

    /// OffsetFetch of some offsets, or all, in every version.
    pub(crate) fn fetch(&mut self, topics: Option<&[(&str, &[i32])]>) {
        for version in 1..=10 {
            if topics.is_some() || version >= 2 {
                self.pair.ask("offsets", version, |names| fetch(names, &[self.name.as_str()], topics, false));
            }
        }
    }

    /// OffsetDelete.
    pub(crate) fn forget(&mut self, topics: &[(&str, &[i32])]) {
        let name = self.name.clone();
        self.pair.ask("offsets to forget", 0, |_| forget(&name, topics));
    }

    /// DescribeGroups, ListGroups and OffsetFetch in every version.
    pub(crate) fn look_in_each_version(&mut self) {
        (0..=6).for_each(|version| self.describe(version));
        for version in 0..=5 {
            self.pair.ask("all groups", version, |_| AnyRequest::ListGroups(Default::default()));
        }
        self.fetch(None);
        self.fetch(Some(&[("t", &[0, 1, 9]), ("nosuch", &[0])]));
    }

    /// The group and its offsets as they are now.
    pub(crate) fn look(&mut self) {
        self.describe(6);
        let name = self.name.clone();
        self.pair.ask("offsets", 9, |names| fetch(names, &[&name], None, false));
    }

    fn describe(&mut self, version: i16) {
        self.pair.ask("the group", version, |_| {
            AnyRequest::DescribeGroups(describe_groups::DescribeGroupsRequest {
                groups: vec![self.name.clone()],
                include_authorized_operations: version % 2 == 1,
            })
        });
    }

    /// Two members, Anna the leader, both with an assignment.
    pub(crate) fn two_settled(&mut self) {
        self.join(ANNA, 9, &[(ANNA, 79)], |_, _| {});
        self.join(ANNA, 9, &[(ANNA, 0)], |_, _| {});
        self.sync(ANNA, 5, &[(ANNA, 0)], assign(&[ANNA]));
        self.join(BEN, 9, &[(BEN, 79)], |_, _| {});
        self.join(BEN, 9, &[], |_, _| {});
        self.join(ANNA, 9, &[(ANNA, 0), (BEN, 0)], |_, _| {});
        self.sync(BEN, 5, &[], |_, _| {});
        self.sync(ANNA, 5, &[(ANNA, 0), (BEN, 0)], assign(&[ANNA, BEN]));
    }

    /// A member alone, settled.
    pub(crate) fn one_settled(&mut self) {
        self.join(ANNA, 9, &[(ANNA, 79)], |_, _| {});
        self.join(ANNA, 9, &[(ANNA, 0)], |_, _| {});
        self.sync(ANNA, 5, &[(ANNA, 0)], assign(&[ANNA]));
    }

    /// Waits until both show the state, and checks who was answered meanwhile.
    #[track_caller]
    pub(crate) fn until(&mut self, state: &str, answered: &[(usize, i16)]) {
        let said = self.pair.until(&self.name, state);
        self.check(said, answered);
    }

    #[track_caller]
    fn check(&mut self, mut said: Said, answered: &[(usize, i16)]) {
        said.sort_unstable();
        if said != answered {
            let at = Location::caller();
            self.pair.found(format!("{at}: Kafka answers {said:?}, not {answered:?}"));
        }
    }
}

pub(crate) fn join(group: &str, seat: usize, names: &Names) -> join_group::JoinGroupRequest {
    join_group::JoinGroupRequest {
        group_id: group.to_owned(),
        session_timeout_ms: LONG,
        rebalance_timeout_ms: LONG,
        member_id: names.member_id(seat),
        group_instance_id: None,
        protocol_type: "consumer".to_owned(),
        protocols: vec![protocol("range", &subscription(&["t"], seat))],
        reason: None,
    }
}

pub(crate) fn sync(group: &str, seat: usize, names: &Names) -> sync_group::SyncGroupRequest {
    sync_group::SyncGroupRequest {
        group_id: group.to_owned(),
        generation_id: names.generation(seat),
        member_id: names.member_id(seat),
        group_instance_id: None,
        protocol_type: Some("consumer".to_owned()),
        protocol_name: Some("range".to_owned()),
        assignments: Vec::new(),
    }
}

pub(crate) fn commit(
    group: &str,
    seat: usize,
    names: &Names,
    topics: &[(&str, &[i32])],
) -> offset_commit::OffsetCommitRequest {
    let partition = |index: &i32| offset_commit::OffsetCommitRequestPartition {
        partition_index: *index,
        committed_offset: 100 + i64::from(*index),
        committed_leader_epoch: 7,
        committed_metadata: Some(format!("note of {seat}")),
    };
    let topic = |(name, parts): &(&str, &[i32])| offset_commit::OffsetCommitRequestTopic {
        name: (*name).to_owned(),
        topic_id: names.topic_id(name),
        partitions: parts.iter().map(partition).collect(),
    };
    offset_commit::OffsetCommitRequest {
        group_id: group.to_owned(),
        generation_id_or_member_epoch: names.generation(seat),
        member_id: names.member_id(seat),
        group_instance_id: None,
        retention_time_ms: -1,
        topics: topics.iter().map(topic).collect(),
    }
}

/// A commit of somebody who is no member.
pub(crate) fn simple(_: &Names, request: &mut offset_commit::OffsetCommitRequest) {
    request.generation_id_or_member_epoch = -1;
    request.member_id.clear();
}

/// Offsets that are asked for, in the shapes of all versions.
pub(crate) fn fetch(
    names: &Names,
    groups: &[&str],
    topics: Option<&[(&str, &[i32])]>,
    require_stable: bool,
) -> AnyRequest {
    let before_8 = |(name, parts): &(&str, &[i32])| offset_fetch::OffsetFetchRequestTopic {
        name: (*name).to_owned(),
        partition_indexes: parts.to_vec(),
    };
    let since_8 = |(name, parts): &(&str, &[i32])| offset_fetch::OffsetFetchRequestTopics {
        name: (*name).to_owned(),
        topic_id: names.topic_id(name),
        partition_indexes: parts.to_vec(),
    };
    let group = |group: &&str| offset_fetch::OffsetFetchRequestGroup {
        group_id: (*group).to_owned(),
        member_id: None,
        member_epoch: -1,
        topics: topics.map(|topics| topics.iter().map(since_8).collect()),
    };
    AnyRequest::OffsetFetch(offset_fetch::OffsetFetchRequest {
        group_id: groups.first().copied().unwrap_or_default().to_owned(),
        topics: topics.map(|topics| topics.iter().map(before_8).collect()),
        groups: groups.iter().map(group).collect(),
        require_stable,
    })
}

pub(crate) fn forget(group: &str, topics: &[(&str, &[i32])]) -> AnyRequest {
    let partition = |index: &i32| offset_delete::OffsetDeleteRequestPartition { partition_index: *index };
    let topic = |(name, parts): &(&str, &[i32])| offset_delete::OffsetDeleteRequestTopic {
        name: (*name).to_owned(),
        partitions: parts.iter().map(partition).collect(),
    };
    AnyRequest::OffsetDelete(offset_delete::OffsetDeleteRequest {
        group_id: group.to_owned(),
        topics: topics.iter().map(topic).collect(),
    })
}

pub(crate) fn delete_groups(groups: &[&str]) -> AnyRequest {
    AnyRequest::DeleteGroups(delete_groups::DeleteGroupsRequest {
        groups_names: groups.iter().map(|&group| group.to_owned()).collect(),
    })
}

pub(crate) fn describe_groups(groups: &[&str]) -> AnyRequest {
    AnyRequest::DescribeGroups(describe_groups::DescribeGroupsRequest {
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        include_authorized_operations: true,
    })
}

pub(crate) fn leaver(member_id: &str, instance: Option<&str>) -> leave_group::MemberIdentity {
    leave_group::MemberIdentity {
        member_id: member_id.to_owned(),
        group_instance_id: instance.map(str::to_owned),
        reason: Some("the script says so".to_owned()),
    }
}

pub(crate) fn protocol(name: &str, metadata: &[u8]) -> join_group::JoinGroupRequestProtocol {
    join_group::JoinGroupRequestProtocol { name: name.to_owned(), metadata: Bytes::copy_from_slice(metadata) }
}

/// Joins as a static member.
pub(crate) fn named(instance: &str) -> impl Fn(&Names, &mut join_group::JoinGroupRequest) {
    move |_, request| request.group_instance_id = Some(instance.to_owned())
}

/// Joins as a static member that has lost its id.
pub(crate) fn renamed(instance: &str) -> impl Fn(&Names, &mut join_group::JoinGroupRequest) {
    move |_, request| {
        request.member_id.clear();
        request.group_instance_id = Some(instance.to_owned());
    }
}

/// Joins with these protocols, in this order.
pub(crate) fn offering(protocols: &[&str]) -> impl Fn(&Names, &mut join_group::JoinGroupRequest) {
    move |_, request| {
        let metadata = request.protocols[0].metadata.clone();
        request.protocols = protocols.iter().map(|name| protocol(name, &metadata)).collect();
    }
}

/// Each of `seats` gets an assignment of its own.
pub(crate) fn assign(seats: &[usize]) -> impl Fn(&Names, &mut sync_group::SyncGroupRequest) {
    move |names, request| {
        let assignment = |seat: &usize| sync_group::SyncGroupRequestAssignment {
            member_id: names.member_id(*seat),
            assignment: format!("what {seat} does").into(),
        };
        request.assignments = seats.iter().map(assignment).collect();
    }
}

/// What a consumer subscribes to, in version 0 of the consumer protocol, with its seat as user data.
pub(crate) fn subscription(topics: &[&str], seat: usize) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    bytes.extend(u32::try_from(topics.len()).expect("few topics").to_be_bytes());
    for topic in topics {
        bytes.extend(u16::try_from(topic.len()).expect("a short name").to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    let data = format!("seat {seat}");
    bytes.extend(u32::try_from(data.len()).expect("short").to_be_bytes());
    bytes.extend(data.as_bytes());
    bytes
}

/// The id of no topic.
pub(crate) const NO_TOPIC: Uuid = Uuid(0xdead_beef);
