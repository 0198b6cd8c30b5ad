//! What is said about groups.

use bytes::Bytes;
use coordination::access::Operations;
use coordination::error_code::ErrorCode;
use coordination::ids::TopicId;
use coordination::op::{LeavingMember, Op, TopicRef};
use coordination::reply::{self, FetchedOffset, GroupState, Reply};
use wire::api::*;
use wire::{DecodeError, Problem, RequestMessage, Uuid, decode_request, encode_request};

use super::{exchange, op};

fn text(text: &str) -> String {
    text.to_owned()
}

fn join_request() -> join_group::JoinGroupRequest {
    join_group::JoinGroupRequest {
        group_id: text("g"),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        member_id: text("m"),
        group_instance_id: Some(text("i")),
        protocol_type: text("consumer"),
        protocols: vec![join_group::JoinGroupRequestProtocol {
            name: text("range"),
            metadata: Bytes::from_static(b"metadata"),
        }],
        reason: Some(text("why")),
    }
}

fn joined(request: &join_group::JoinGroupRequest, version: i16) -> op::JoinGroup {
    match op(request, version) {
        Op::JoinGroup(join) => join,
        op => panic!("{op:?}"),
    }
}

#[test]
fn what_a_join_says_depends_on_its_version() {
    let newest = op::JoinGroup {
        group: text("g"),
        member_id: text("m"),
        instance_id: Some(text("i")),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: text("consumer"),
        protocols: vec![(text("range"), Bytes::from_static(b"metadata"))],
        reason: Some(text("why")),
        takes_member_id_first: true,
        can_skip_assignment: true,
    };
    assert_eq!(joined(&join_request(), 9), newest);
    for version in 0..=9 {
        let expected = op::JoinGroup {
            rebalance_timeout_ms: if version == 0 { 10_000 } else { 60_000 },
            instance_id: newest.instance_id.clone().filter(|_| version >= 5),
            reason: newest.reason.clone().filter(|_| version >= 8),
            takes_member_id_first: version >= 4,
            can_skip_assignment: version >= 9,
            ..newest.clone()
        };
        assert_eq!(joined(&join_request(), version), expected, "version {version}");
    }
}

#[test]
fn what_a_group_keeps_of_a_join_does_not_keep_the_frame() {
    let frame = encode_request(&join_request(), 9, 1, None).into_content();
    let Ok(wire::Request { body: wire::Body::Op(Op::JoinGroup(join)), .. }) = decode_request(frame.clone())
    else {
        panic!("a join");
    };
    assert!(!frame.as_ptr_range().contains(&join.protocols[0].1.as_ptr()));
}

/// GATE-15, JOIN-15.
#[test]
fn a_refused_join_names_no_generation_and_no_leader() {
    for version in 0..=9 {
        let reply = reply::JoinGroup { member_id: text("m"), result: Err(ErrorCode::MemberIdRequired) };
        let refused = exchange(&join_request(), version, Reply::JoinGroup(reply));
        assert_eq!((refused.error_code, refused.generation_id), (79, -1));
        assert_eq!((refused.leader.as_str(), refused.member_id.as_str()), ("", "m"));
        assert!(refused.members.is_empty());
        assert_eq!(refused.protocol_type, None);
        let no_name = if version >= 7 { None } else { Some("") };
        assert_eq!(refused.protocol_name.as_deref(), no_name, "version {version}");
    }
}

/// JOIN-16.
#[test]
fn a_join_without_a_protocol_is_answered_with_null_since_version_7() {
    let shown = |version, protocol: Option<&str>| {
        let member = reply::JoinedMember {
            member_id: text("m"),
            instance_id: Some(text("i")),
            metadata: Bytes::from_static(b"metadata"),
        };
        let joined = reply::Joined {
            generation: 3,
            protocol_type: Some(text("consumer")),
            protocol: protocol.map(text),
            leader: text("m"),
            members: vec![member],
            skip_assignment: true,
        };
        let reply = reply::JoinGroup { member_id: text("m"), result: Ok(joined.into()) };
        exchange(&join_request(), version, Reply::JoinGroup(reply))
    };
    for nothing in [None, Some("")] {
        assert_eq!(shown(6, nothing).protocol_name.as_deref(), Some(""));
        assert_eq!(shown(7, nothing).protocol_name, None);
    }
    let newest = shown(9, Some("range"));
    assert_eq!((newest.error_code, newest.generation_id, newest.skip_assignment), (0, 3, true));
    assert_eq!(newest.protocol_type.as_deref(), Some("consumer"));
    assert_eq!(newest.protocol_name.as_deref(), Some("range"));
    assert_eq!(newest.members[0].group_instance_id.as_deref(), Some("i"));
    assert_eq!(newest.members[0].metadata, "metadata");
    let old = shown(4, Some("range"));
    assert_eq!((old.protocol_type, old.skip_assignment), (None, false));
    assert_eq!(old.members[0].group_instance_id, None);
}

#[test]
fn a_sync_must_name_the_protocol_since_version_5() {
    let request = sync_group::SyncGroupRequest {
        group_id: text("g"),
        generation_id: 3,
        member_id: text("m"),
        group_instance_id: Some(text("i")),
        protocol_type: Some(text("consumer")),
        protocol_name: Some(text("range")),
        assignments: vec![sync_group::SyncGroupRequestAssignment {
            member_id: text("m"),
            assignment: Bytes::from_static(b"all"),
        }],
    };
    let synced = |version| match op(&request, version) {
        Op::SyncGroup(sync) => sync,
        op => panic!("{op:?}"),
    };
    let newest = op::SyncGroup {
        group: text("g"),
        generation: 3,
        member_id: text("m"),
        instance_id: Some(text("i")),
        protocol_type: Some(text("consumer")),
        protocol: Some(text("range")),
        must_name_protocol: true,
        assignments: vec![(text("m"), Bytes::from_static(b"all"))],
    };
    assert_eq!(synced(5), newest);
    let older = op::SyncGroup { protocol_type: None, protocol: None, must_name_protocol: false, ..newest };
    assert_eq!(synced(4), older);
    assert_eq!(synced(2), op::SyncGroup { instance_id: None, ..older });

    let result = reply::Synced {
        protocol_type: Some(text("consumer")),
        protocol: Some(text("range")),
        assignment: Bytes::from_static(b"all"),
    };
    let answered = exchange(&request, 5, Reply::SyncGroup(reply::SyncGroup { result: Ok(result.into()) }));
    assert_eq!((answered.error_code, &answered.assignment[..]), (0, &b"all"[..]));
    assert_eq!(answered.protocol_name.as_deref(), Some("range"));
    let refused = reply::SyncGroup { result: Err(ErrorCode::RebalanceInProgress) };
    let refused = exchange(&request, 5, Reply::SyncGroup(refused));
    assert_eq!((refused.error_code, refused.protocol_type, refused.assignment.len()), (27, None, 0));
}

#[test]
fn a_heartbeat_is_understood_and_answered() {
    let request = heartbeat::HeartbeatRequest {
        group_id: text("g"),
        generation_id: 3,
        member_id: text("m"),
        group_instance_id: Some(text("i")),
    };
    let expected = |instance_id| {
        let heartbeat = op::Heartbeat { group: text("g"), generation: 3, member_id: text("m"), instance_id };
        Op::Heartbeat(heartbeat.into())
    };
    assert_eq!(op(&request, 2), expected(None));
    assert_eq!(op(&request, 4), expected(Some(text("i"))));
    let code = |error| exchange(&request, 4, Reply::Heartbeat(reply::Heartbeat { error })).error_code;
    assert_eq!(code(None), 0);
    assert_eq!(code(Some(ErrorCode::RebalanceInProgress)), 27);
}

#[test]
fn one_member_leaves_up_to_version_2_and_its_error_is_the_answers() {
    let request = leave_group::LeaveGroupRequest {
        group_id: text("g"),
        member_id: text("old"),
        members: vec![leave_group::MemberIdentity {
            member_id: text("new"),
            group_instance_id: Some(text("i")),
            reason: Some(text("why")),
        }],
    };
    let leaving = |version| match op(&request, version) {
        Op::LeaveGroup(leave) => leave.members,
        op => panic!("{op:?}"),
    };
    let member = |member_id, instance_id: Option<&str>, reason: Option<&str>| {
        let (instance_id, reason) = (instance_id.map(text), reason.map(text));
        vec![LeavingMember { member_id: text(member_id), instance_id, reason }]
    };
    assert_eq!(leaving(2), member("old", None, None));
    assert_eq!(leaving(3), member("new", Some("i"), None));
    assert_eq!(leaving(5), member("new", Some("i"), Some("why")));

    let left = |version, result| exchange(&request, version, Reply::LeaveGroup(reply::LeaveGroup { result }));
    let unknown = || {
        let error = Some(ErrorCode::UnknownMemberId);
        vec![reply::LeftMember { member_id: text("m"), instance_id: Some(text("i")), error }]
    };
    assert_eq!(left(2, Ok(unknown())).error_code, 25);
    let batch = left(3, Ok(unknown()));
    assert_eq!((batch.error_code, batch.members[0].error_code), (0, 25));
    assert_eq!(batch.members[0].group_instance_id.as_deref(), Some("i"));
    for version in 0..=5 {
        let refused = left(version, Err(ErrorCode::InvalidGroupId));
        assert_eq!((refused.error_code, refused.members.len()), (24, 0));
    }
}

fn commit_request() -> offset_commit::OffsetCommitRequest {
    offset_commit::OffsetCommitRequest {
        group_id: text("g"),
        generation_id_or_member_epoch: 3,
        member_id: text("m"),
        group_instance_id: Some(text("i")),
        retention_time_ms: 1000,
        topics: vec![offset_commit::OffsetCommitRequestTopic {
            name: text("t"),
            topic_id: Uuid(5),
            partitions: vec![offset_commit::OffsetCommitRequestPartition {
                partition_index: 1,
                committed_offset: 42,
                committed_leader_epoch: 7,
                committed_metadata: Some(text("note")),
            }],
        }],
    }
}

#[test]
fn what_a_commit_says_depends_on_its_version() {
    for version in 2..=10 {
        let topic =
            if version >= 10 { TopicRef::Id(TopicId::from_u128(5)) } else { TopicRef::Name(text("t")) };
        let partition = op::OffsetCommitPartition {
            index: 1,
            offset: 42,
            leader_epoch: if version >= 6 { 7 } else { -1 },
            metadata: Some(text("note")),
        };
        let expected = op::OffsetCommit {
            group: text("g"),
            generation: 3,
            member_id: text("m"),
            instance_id: (version >= 7).then(|| text("i")),
            retention_ms: (version <= 4).then_some(1000),
            knows_missing_groups: version >= 9,
            topics: vec![op::OffsetCommitTopic { topic, partitions: vec![partition] }],
        };
        assert_eq!(op(&commit_request(), version), Op::OffsetCommit(expected), "version {version}");
    }
}

#[test]
fn a_commit_without_a_retention_of_its_own_says_minus_one() {
    let request = offset_commit::OffsetCommitRequest { retention_time_ms: -1, ..commit_request() };
    let Op::OffsetCommit(commit) = op(&request, 2) else { panic!("a commit") };
    assert_eq!(commit.retention_ms, None);
}

#[test]
fn commits_are_answered_by_topic() {
    let topic = |topic, partitions| reply::OffsetCommitTopic { topic, partitions };
    let name = || TopicRef::Name(text("t"));
    let topics = vec![
        topic(name(), vec![(1, None)]),
        topic(TopicRef::Name(text("u")), vec![(0, Some(ErrorCode::UnknownTopicOrPartition))]),
        topic(name(), vec![(2, Some(ErrorCode::IllegalGeneration))]),
    ];
    let reply = Reply::OffsetCommit(reply::OffsetCommit { topics });
    let answered = exchange(&commit_request(), 9, reply);
    let shown: Vec<_> = answered
        .topics
        .iter()
        .map(|topic| {
            let codes = topic.partitions.iter().map(|found| (found.partition_index, found.error_code));
            (topic.name.as_str(), codes.collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(shown, [("t", vec![(1, 0), (2, 22)]), ("u", vec![(0, 3)])]);

    let by_id = vec![topic(TopicRef::Id(TopicId::from_u128(5)), vec![(1, None)])];
    let reply = Reply::OffsetCommit(reply::OffsetCommit { topics: by_id });
    assert_eq!(exchange(&commit_request(), 10, reply).topics[0].topic_id, Uuid(5));
}

fn fetch_request() -> offset_fetch::OffsetFetchRequest {
    offset_fetch::OffsetFetchRequest {
        group_id: text("old"),
        topics: Some(vec![offset_fetch::OffsetFetchRequestTopic {
            name: text("t"),
            partition_indexes: vec![1],
        }]),
        groups: vec![offset_fetch::OffsetFetchRequestGroup {
            group_id: text("new"),
            member_id: Some(text("m")),
            member_epoch: 3,
            topics: Some(vec![offset_fetch::OffsetFetchRequestTopics {
                name: text("u"),
                topic_id: Uuid(5),
                partition_indexes: vec![2],
            }]),
        }],
        require_stable: true,
    }
}

#[test]
fn offsets_are_asked_for_of_one_group_up_to_version_7_and_of_several_later() {
    let group = |group: &str, member: Option<(&str, i32)>, topic, index| op::OffsetFetchGroup {
        group: text(group),
        member_id: member.map(|(id, _)| text(id)),
        member_epoch: member.map_or(-1, |(_, epoch)| epoch),
        topics: Some(vec![op::OffsetFetchTopic { topic, partitions: vec![index] }]),
    };
    for version in 1..=10 {
        let groups = match version {
            ..=7 => vec![group("old", None, TopicRef::Name(text("t")), 1)],
            8 => vec![group("new", None, TopicRef::Name(text("u")), 2)],
            9 => vec![group("new", Some(("m", 3)), TopicRef::Name(text("u")), 2)],
            _ => vec![group("new", Some(("m", 3)), TopicRef::Id(TopicId::from_u128(5)), 2)],
        };
        let expected = op::OffsetFetch { groups, require_stable: version >= 7, by_id: version >= 10 };
        assert_eq!(op(&fetch_request(), version), Op::OffsetFetch(expected), "version {version}");
    }
}

#[test]
fn null_asks_for_all_offsets_since_version_2() {
    let mut request = offset_fetch::OffsetFetchRequest { topics: None, ..fetch_request() };
    request.groups[0].topics = None;
    for version in 2..=10 {
        let Op::OffsetFetch(fetch) = op(&request, version) else { panic!("a fetch") };
        assert_eq!(fetch.groups[0].topics, None);
    }
    // Version 1 cannot say it: an empty list asks for nothing.
    let Op::OffsetFetch(fetch) = op(&request, 1) else { panic!("a fetch") };
    assert_eq!(fetch.groups[0].topics, Some(vec![]));
}

/// FETCH-08.
#[test]
fn what_is_wrong_with_a_whole_group_is_said_where_the_version_has_a_place_for_it() {
    let error = Some(ErrorCode::NotCoordinator);
    let topic = reply::OffsetFetchTopic {
        name: text("t"),
        id: TopicId::ZERO,
        partitions: vec![FetchedOffset::none(1, error)],
    };
    let group = reply::OffsetFetchGroup { group: text("g"), error, topics: vec![topic] };
    let reply = Reply::OffsetFetch(reply::OffsetFetch { groups: vec![group] });
    for version in 1..=10 {
        let answered = exchange(&fetch_request(), version, reply.clone());
        match version {
            1 => {
                let partition = &answered.topics[0].partitions[0];
                assert_eq!((partition.partition_index, partition.committed_offset), (1, -1));
                assert_eq!(partition.error_code, 16);
            }
            2..=7 => assert_eq!((answered.error_code, answered.topics.len()), (16, 0)),
            _ => {
                let group = &answered.groups[0];
                assert_eq!((group.error_code, group.group_id.as_str(), group.topics.len()), (16, "g", 0));
            }
        }
    }
}

#[test]
fn offsets_are_told_with_name_or_id() {
    let partition =
        FetchedOffset { index: 1, offset: 42, leader_epoch: 7, metadata: text("note"), error: None };
    let topic = reply::OffsetFetchTopic {
        name: text("t"),
        id: TopicId::from_u128(5),
        partitions: vec![partition, FetchedOffset::none(2, None)],
    };
    let group =
        |name| reply::OffsetFetchGroup { group: text(name), error: None, topics: vec![topic.clone()] };
    let reply = Reply::OffsetFetch(reply::OffsetFetch { groups: vec![group("g"), group("h")] });
    let old = exchange(&fetch_request(), 4, reply.clone());
    let [first, second] = &old.topics[0].partitions[..] else { panic!("{old:?}") };
    assert_eq!((first.committed_offset, first.metadata.as_deref()), (42, Some("note")));
    assert_eq!(first.committed_leader_epoch, -1, "version 4 cannot tell it");
    assert_eq!((second.committed_offset, second.metadata.as_deref(), second.error_code), (-1, Some(""), 0));
    assert_eq!(
        exchange(&fetch_request(), 5, reply.clone()).topics[0].partitions[0].committed_leader_epoch,
        7
    );

    let named = exchange(&fetch_request(), 9, reply.clone());
    assert_eq!((named.groups.len(), named.groups[1].group_id.as_str()), (2, "h"));
    assert_eq!(
        (named.groups[0].topics[0].name.as_str(), named.groups[0].topics[0].topic_id),
        ("t", Uuid::ZERO)
    );
    let by_id = exchange(&fetch_request(), 10, reply);
    assert_eq!((by_id.groups[0].topics[0].name.as_str(), by_id.groups[0].topics[0].topic_id), ("", Uuid(5)));
}

#[test]
fn offsets_to_forget_are_answered_each_or_refused_as_a_whole() {
    let request = offset_delete::OffsetDeleteRequest {
        group_id: text("g"),
        topics: vec![offset_delete::OffsetDeleteRequestTopic {
            name: text("t"),
            partitions: vec![offset_delete::OffsetDeleteRequestPartition { partition_index: 1 }],
        }],
    };
    let expected = op::OffsetDelete { group: text("g"), topics: vec![(text("t"), vec![1])] };
    assert_eq!(op(&request, 0), Op::OffsetDelete(expected));
    let result = Ok(vec![(text("t"), vec![(1, Some(ErrorCode::GroupSubscribedToTopic))])]);
    let answered = exchange(&request, 0, Reply::OffsetDelete(reply::OffsetDelete { result }));
    assert_eq!((answered.error_code, answered.topics[0].partitions[0].error_code), (0, 86));
    let result = Err(ErrorCode::GroupIdNotFound);
    let refused = exchange(&request, 0, Reply::OffsetDelete(reply::OffsetDelete { result }));
    assert_eq!((refused.error_code, refused.topics.len()), (69, 0));
}

/// LIST-01.
#[test]
fn groups_are_listed_with_state_and_type_where_the_version_shows_them() {
    let request = list_groups::ListGroupsRequest {
        states_filter: vec![text("stable")],
        types_filter: vec![text("classic")],
    };
    let filters = |version| match op(&request, version) {
        Op::ListGroups(list) => (list.states.len(), list.types.len()),
        op => panic!("{op:?}"),
    };
    assert_eq!((filters(3), filters(4), filters(5)), ((0, 0), (1, 0), (1, 1)));

    let group =
        reply::ListedGroup { group: text("g"), protocol_type: text("consumer"), state: GroupState::Stable };
    let listed = |version| {
        let reply = reply::ListGroups { result: Ok(vec![group.clone()]) };
        let answered = exchange(&request, version, Reply::ListGroups(reply));
        let listed = &answered.groups[0];
        (listed.group_state.clone(), listed.group_type.clone())
    };
    assert_eq!(listed(3), (text(""), text("")));
    assert_eq!(listed(4), (text("Stable"), text("")));
    assert_eq!(listed(5), (text("Stable"), text("classic")));
    let refused = reply::ListGroups { result: Err(ErrorCode::CoordinatorLoadInProgress) };
    assert_eq!(exchange(&request, 5, Reply::ListGroups(refused)).error_code, 14);
}

fn described(
    group: reply::DescribedGroup,
    version: i16,
    operations: bool,
) -> describe_groups::DescribedGroup {
    let request = describe_groups::DescribeGroupsRequest {
        groups: vec![text("g")],
        include_authorized_operations: operations,
    };
    let reply = Reply::DescribeGroups(reply::DescribeGroups { groups: vec![group] });
    exchange(&request, version, reply).groups.remove(0)
}

fn dead_group() -> reply::DescribedGroup {
    reply::DescribedGroup {
        group: text("g"),
        error: None,
        state: GroupState::Dead,
        protocol_type: String::new(),
        protocol: String::new(),
        members: Vec::new(),
        operations: Operations::OF_GROUP,
    }
}

/// What a live Kafka 4.3 answers.
#[test]
fn a_group_that_does_not_exist_is_an_error_since_version_6_and_dead_before() {
    let old = described(dead_group(), 5, true);
    assert_eq!((old.error_code, old.group_state.as_str(), old.authorized_operations), (0, "Dead", 3400));
    let new = described(dead_group(), 6, true);
    assert_eq!((new.error_code, new.group_state.as_str(), new.authorized_operations), (69, "Dead", i32::MIN));
    assert_eq!(new.error_message.as_deref(), Some("Group g not found."));
}

/// LIST-13.
#[test]
fn groups_are_shown_with_members_and_with_operations_when_asked() {
    let member = reply::DescribedMember {
        member_id: text("m"),
        instance_id: Some(text("i")),
        client_id: text("c"),
        client_host: text("/127.0.0.1"),
        metadata: Bytes::from_static(b"metadata"),
        assignment: Bytes::from_static(b"assignment"),
    };
    let group = reply::DescribedGroup {
        state: GroupState::Stable,
        protocol_type: text("consumer"),
        protocol: text("range"),
        members: vec![member],
        ..dead_group()
    };
    let shown = described(group.clone(), 6, false);
    assert_eq!((shown.error_code, shown.error_message, shown.authorized_operations), (0, None, i32::MIN));
    assert_eq!((shown.group_state.as_str(), shown.protocol_data.as_str()), ("Stable", "range"));
    assert_eq!(shown.members[0].group_instance_id.as_deref(), Some("i"));
    assert_eq!(shown.members[0].client_host, "/127.0.0.1");
    assert_eq!(described(group.clone(), 3, true).authorized_operations, 3400);

    let refused = reply::DescribedGroup { error: Some(ErrorCode::NotCoordinator), ..group };
    let refused = described(refused, 6, true);
    assert_eq!((refused.error_code, refused.group_state.as_str()), (16, ""));
    assert_eq!((refused.members.len(), refused.authorized_operations), (0, i32::MIN));
}

#[test]
fn groups_to_remove_are_answered_each() {
    let request = delete_groups::DeleteGroupsRequest { groups_names: vec![text("g")] };
    assert_eq!(op(&request, 2), Op::DeleteGroups(op::DeleteGroups { groups: vec![text("g")] }));
    let reply = reply::DeleteGroups { groups: vec![(text("g"), Some(ErrorCode::NonEmptyGroup))] };
    assert_eq!(exchange(&request, 2, Reply::DeleteGroups(reply)).results[0].error_code, 68);
}

/// GATE-02. As in a live Kafka, the connection is closed.
#[test]
fn a_group_id_that_is_null_cannot_be_read() {
    fn check<R: RequestMessage>(field: &str) {
        let flexible = R::API.versions().find(|&version| R::API.is_flexible(version));
        for version in [Some(*R::API.versions().start()), flexible].into_iter().flatten() {
            let mut frame = encode_request(&R::default(), version, 1, None).into_content().to_vec();
            // The body begins behind key, version, correlation id, the null for a client id, and tagged fields.
            if R::API.is_flexible(version) {
                frame[11] = 0;
            } else {
                frame[10..12].copy_from_slice(&[0xff, 0xff]);
            }
            let Err(DecodeError::Malformed { problem, place }) = decode_request(frame.into()) else {
                panic!("{} version {version} is read", R::NAME);
            };
            assert_eq!((problem, place.field), (Problem::UnexpectedNull, field), "{}", R::NAME);
        }
    }
    check::<join_group::JoinGroupRequest>("group_id");
    check::<sync_group::SyncGroupRequest>("group_id");
    check::<heartbeat::HeartbeatRequest>("group_id");
    check::<leave_group::LeaveGroupRequest>("group_id");
    check::<offset_commit::OffsetCommitRequest>("group_id");
    check::<offset_delete::OffsetDeleteRequest>("group_id");
}

/// LIST-12. As in a live Kafka, the connection is closed.
#[test]
fn a_null_in_a_list_of_groups_cannot_be_read() {
    fn check<R: RequestMessage>(request: &R, version: i16) {
        let mut frame = encode_request(request, version, 1, None).into_content().to_vec();
        // Behind the header stands the number of groups, then the first one's length.
        let length = if R::API.is_flexible(version) { 12..13 } else { 14..16 };
        let null = if R::API.is_flexible(version) { 0 } else { 0xff };
        frame[length].fill(null);
        let refused = decode_request(frame.into());
        let Err(DecodeError::Malformed { problem, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(problem, Problem::UnexpectedNull);
    }
    let describe = describe_groups::DescribeGroupsRequest { groups: vec![text("g")], ..Default::default() };
    check(&describe, 4);
    check(&describe, 6);
    let delete = delete_groups::DeleteGroupsRequest { groups_names: vec![text("g")] };
    check(&delete, 1);
    check(&delete, 2);
}
