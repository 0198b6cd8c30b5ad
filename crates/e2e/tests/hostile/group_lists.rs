//! Requests about groups that list more than anybody needs.

use bytes::Bytes;
use wire::api::{
    delete_groups, describe_groups, find_coordinator, leave_group, offset_commit, offset_delete,
    offset_fetch, sync_group,
};

use crate::groups::{AT_ONCE, attacked};
use crate::support::member::{
    COMMIT, JOIN_AT_ONCE, LEAVE, Member, NONE, POLICY_VIOLATION, SYNC, UNKNOWN_MEMBER_ID, leaver,
};
use crate::support::wait_until;
use crate::victim::{AT_REST, metric};

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const OFFSET_METADATA_TOO_LARGE: i16 = 12;
const GROUP_SUBSCRIBED_TO_TOPIC: i16 = 86;
const GROUP_ID_NOT_FOUND: i16 = 69;

/// As long as a list gets in these tests.
const MANY: usize = 100_000;

#[test]
fn lists_of_a_hundred_thousand_are_answered_one_by_one() {
    let (mut victim, address) = attacked(20, &[AT_ONCE]);
    let mut member = Member::alone(&address, "listed");
    let strangers = || (0..MANY).map(|number| format!("stranger-{number}"));

    let request = leave_group::LeaveGroupRequest {
        group_id: "listed".to_owned(),
        members: strangers().map(|id| leaver(&id)).collect(),
        ..Default::default()
    };
    let answer = member.connection.ask(&request, LEAVE);
    assert_eq!((answer.error_code, answer.members.len()), (NONE, MANY));
    assert!(answer.members.iter().all(|left| left.error_code == UNKNOWN_MEMBER_ID));
    let request = leave_group::LeaveGroupRequest { group_id: "nowhere".to_owned(), ..request };
    assert_eq!(member.connection.ask(&request, LEAVE).members.len(), MANY);

    // The leader assigns to everybody but itself.
    assert_eq!(member.join().unwrap(), NONE);
    let mut request = member.sync_request();
    request.assignments = strangers()
        .map(|member_id| sync_group::SyncGroupRequestAssignment {
            member_id,
            assignment: Bytes::from_static(b"all"),
        })
        .collect();
    let answer = member.connection.ask(&request, SYNC);
    assert_eq!((answer.error_code, answer.assignment.len()), (NONE, 0));
    let shown = member.connection.described("listed");
    assert_eq!((shown.group_state.as_str(), shown.members.len()), ("Stable", 1));

    let numbers = || 0..i32::try_from(MANY).unwrap();
    let mut request = member.commit_request(0, 7);
    let partition = request.topics[0].partitions[0].clone();
    let commit =
        |index| offset_commit::OffsetCommitRequestPartition { partition_index: index, ..partition.clone() };
    let mut errors = |request: &offset_commit::OffsetCommitRequest| -> Vec<i16> {
        let answer = member.connection.ask(request, COMMIT);
        answer.topics.iter().flat_map(|topic| &topic.partitions).map(|part| part.error_code).collect()
    };
    // Partitions that the topic does not have, but for the last.
    request.topics[0].partitions = numbers().rev().map(|number| commit(number + 3)).collect();
    let told = errors(&request);
    assert_eq!(told.len(), MANY);
    assert!(told[..MANY - 1].iter().all(|error| *error == UNKNOWN_TOPIC_OR_PARTITION));
    assert_eq!(told[MANY - 1], NONE);
    // One partition again and again; every other time with more metadata than is allowed.
    request.topics[0].partitions = numbers().map(|_| commit(0)).collect();
    for partition in request.topics[0].partitions.iter_mut().step_by(2) {
        partition.committed_metadata = Some("m".repeat(4097 >> 4));
    }
    let told = errors(&request);
    assert!(told.iter().all(|error| *error == NONE), "{:?}", told.iter().find(|error| **error != NONE));
    for partition in request.topics[0].partitions.iter_mut().step_by(100) {
        partition.committed_metadata = Some("m".repeat(4097));
    }
    let told = errors(&request);
    assert_eq!(told.len(), MANY);
    for (place, error) in told.iter().enumerate() {
        assert_eq!(*error, if place % 100 == 0 { OFFSET_METADATA_TOO_LARGE } else { NONE }, "place {place}");
    }
    // Topics that do not exist.
    let nowhere = |number| offset_commit::OffsetCommitRequestTopic {
        name: format!("nowhere-{number}"),
        partitions: vec![commit(0)],
        ..Default::default()
    };
    request.topics = numbers().map(nowhere).collect();
    let told = errors(&request);
    assert_eq!(told.len(), MANY);
    assert!(told.iter().all(|error| *error == UNKNOWN_TOPIC_OR_PARTITION));

    let partition = |index| offset_delete::OffsetDeleteRequestPartition { partition_index: index };
    let topic = offset_delete::OffsetDeleteRequestTopic {
        name: "t".to_owned(),
        partitions: numbers().map(|number| partition(number % 8)).collect(),
    };
    let request = offset_delete::OffsetDeleteRequest { group_id: "listed".to_owned(), topics: vec![topic] };
    let answer = member.connection.ask(&request, 0);
    assert_eq!((answer.error_code, answer.topics[0].partitions.len()), (NONE, MANY));
    for result in &answer.topics[0].partitions {
        let meant =
            if result.partition_index < 4 { GROUP_SUBSCRIBED_TO_TOPIC } else { UNKNOWN_TOPIC_OR_PARTITION };
        assert_eq!(result.error_code, meant, "{result:?}");
    }

    assert_eq!(member.heartbeat().unwrap(), NONE);
    // A hundred thousand offsets of metadata and their answer are what one request may take.
    victim.is_well(AT_REST + (192 << 20));
}

#[test]
fn ten_thousand_groups_are_asked_for_at_once() {
    let (mut victim, address) = attacked(21, &[AT_ONCE]);
    let mut member = Member::alone(&address, "asked");
    assert_eq!(member.commit(0, 42).unwrap(), NONE);
    let names: Vec<String> =
        (0..10_000).map(|number| format!("asked-{number}")).chain(["asked".to_owned()]).collect();
    let group = |name: &String| offset_fetch::OffsetFetchRequestGroup {
        group_id: name.clone(),
        topics: Some(vec![offset_fetch::OffsetFetchRequestTopics {
            name: "t".to_owned(),
            partition_indexes: vec![0, 1],
            ..Default::default()
        }]),
        ..Default::default()
    };
    let request =
        offset_fetch::OffsetFetchRequest { groups: names.iter().map(group).collect(), ..Default::default() };
    let answer = member.connection.ask(&request, 9);
    assert_eq!(answer.groups.len(), names.len());
    for (name, group) in names.iter().zip(&answer.groups) {
        let offsets: Vec<_> = group.topics[0].partitions.iter().map(|part| part.committed_offset).collect();
        assert_eq!((&group.group_id, group.error_code), (name, NONE));
        assert_eq!(offsets, [if name == "asked" { 42 } else { -1 }, -1]);
    }
    let request = describe_groups::DescribeGroupsRequest { groups: names.clone(), ..Default::default() };
    assert_eq!(member.connection.ask(&request, 6).groups.len(), names.len());
    let request =
        find_coordinator::FindCoordinatorRequest { coordinator_keys: names.clone(), ..Default::default() };
    assert_eq!(member.connection.ask(&request, 6).coordinators.len(), names.len());
    let nobody = delete_groups::DeleteGroupsRequest { groups_names: names[..10_000].to_vec() };
    let answer = member.connection.ask(&nobody, 2);
    assert!(answer.results.iter().all(|result| result.error_code == GROUP_ID_NOT_FOUND));
    assert_eq!(member.heartbeat().unwrap(), NONE);
    victim.is_well(AT_REST + (128 << 20));
}

#[test]
fn what_is_asked_for_again_and_again_is_not_told_for_ever() {
    const MEMBERS: usize = 500;
    let (mut victim, address) = attacked(31, &[AT_ONCE]);
    let mut holder = Member::alone(&address, "again");
    for partition in 0..4 {
        let mut request = holder.commit_request(partition, 1);
        request.topics[0].partitions[0].committed_metadata = Some("m".repeat(4_000));
        assert_eq!(holder.connection.ask(&request, COMMIT).topics[0].partitions[0].error_code, NONE);
    }
    for _ in 0..MEMBERS {
        let mut member = Member::new(&address, "again");
        let request = member.join_request();
        member.connection.send(&request, JOIN_AT_ONCE).unwrap();
    }
    wait_until("all are in", || metric(&victim.kohort, "kohort_group_members") > MEMBERS as u64);

    // Less than a megabyte is asked each time; all of it answered in full would be gigabytes.
    let names = vec!["again".to_owned(); MANY];
    let request = describe_groups::DescribeGroupsRequest { groups: names.clone(), ..Default::default() };
    let shown = holder.connection.ask(&request, 6).groups;
    let told = shown.iter().take_while(|group| group.error_code == NONE).count();
    println!("described {told} times");
    assert_eq!((shown.len(), shown[0].members.len()), (MANY, MEMBERS + 1));
    assert!((3..1_000).contains(&told), "{told}");
    assert!(shown[told..].iter().all(|group| group.error_code == POLICY_VIOLATION));

    let topics = |topics: Option<Vec<i32>>| {
        topics.map(|partition_indexes| {
            let name = "t".to_owned();
            vec![offset_fetch::OffsetFetchRequestTopics { name, partition_indexes, ..Default::default() }]
        })
    };
    let fetch = |names: &[String], partitions: Option<Vec<i32>>| offset_fetch::OffsetFetchRequest {
        groups: names
            .iter()
            .map(|group_id| offset_fetch::OffsetFetchRequestGroup {
                group_id: group_id.clone(),
                topics: topics(partitions.clone()),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    for partitions in [None, Some(vec![0, 1, 2, 3])] {
        let fetched = holder.connection.ask(&fetch(&names, partitions), 9).groups;
        let told = fetched.iter().take_while(|group| group.error_code == NONE).count();
        assert_eq!((fetched.len(), fetched[0].topics[0].partitions.len()), (MANY, 4));
        assert!((3..5_000).contains(&told), "{told}");
        assert!(fetched[told..].iter().all(|group| group.error_code == POLICY_VIOLATION));
    }
    let fetched = holder.connection.ask(&fetch(&names[..1], Some(vec![0; MANY])), 9).groups;
    let offsets = &fetched[0].topics[0].partitions;
    let told = offsets.iter().take_while(|offset| offset.error_code == NONE).count();
    assert_eq!((fetched[0].error_code, offsets.len()), (NONE, MANY));
    assert!((3..1_000).contains(&told), "{told}");
    assert!(offsets[told..].iter().all(|offset| offset.error_code == POLICY_VIOLATION));
    victim.is_well(AT_REST + (192 << 20));
}
