//! Groups whose members are many, large, confused, gone or stuck.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wire::api::{
    delete_groups, describe_groups, find_coordinator, join_group, leave_group, offset_commit, offset_delete,
    offset_fetch, sync_group,
};
use wire::{ApiKey, RequestMessage, encode_request};

use crate::support::member::{
    COMMIT, GROUP_MAX_SIZE_REACHED, HEARTBEAT, ILLEGAL_GENERATION, JOIN, JOIN_AT_ONCE, LEAVE,
    MEMBER_ID_REQUIRED, Member, NONE, POLICY_VIOLATION, REBALANCE_IN_PROGRESS, SYNC, UNKNOWN_MEMBER_ID,
    leaver, subscription,
};
use crate::support::{ANSWER_WITHIN, Connection, wait_until};
use crate::victim::{AT_REST, Victim, framed, header, metric, read_to_the_end};

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const OFFSET_METADATA_TOO_LARGE: i16 = 12;
const GROUP_SUBSCRIBED_TO_TOPIC: i16 = 86;
const GROUP_ID_NOT_FOUND: i16 = 69;

/// As long as a list gets in these tests.
const MANY: usize = 100_000;

/// One partition, so that all groups have one lock, one log and one owner: the worst neighbours.
pub(crate) const ONE_SHARD: (&str, &str) = ("offsets.topic.num.partitions", "1");
/// Sessions may be short, so that who is gone is noticed soon.
pub(crate) const SHORT_SESSIONS: (&str, &str) = ("group.min.session.timeout.ms", "100");
const SHORT: i32 = 1_000;
/// What a group remembers of its rebalances, at most.
const EVENTS_BYTES: u64 = 32 << 10;
/// Nobody waits for others to come.
pub(crate) const AT_ONCE: (&str, &str) = ("group.initial.rebalance.delay.ms", "0");

pub(crate) fn attacked(family: u64, settings: &[(&str, &str)]) -> (Victim, String) {
    let victim = Victim::start_with(family, settings);
    let address = victim.kohort.bootstrap();
    Connection::open(&address).create_topic("t", 4);
    (victim, address)
}

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

#[test]
fn what_a_member_says_of_itself_is_kept_as_it_is_however_large_and_strange() {
    let (mut victim, address) = attacked(22, &[AT_ONCE]);
    let mut random = StdRng::seed_from_u64(victim.seed);
    let mut large = vec![0; 1 << 20];
    random.fill(&mut large[..]);
    // Nothing at all, a version alone, counts that lie, lengths that lie, names that are no text.
    let strange: Vec<Vec<u8>> = vec![
        large,
        vec![],
        vec![0],
        vec![0, 0],
        vec![0, 3, 0xff, 0xff, 0xff, 0xff],
        vec![0, 0, 0x7f, 0xff, 0xff, 0xff],
        vec![0, 1, 0, 0, 0, 1, 0x7f, 0xff, b'x'],
        vec![0, 1, 0, 0, 0, 1, 0, 2, 0xc3, 0x28, 0xff, 0xff, 0xff, 0xff],
        vec![0xff; 64],
        [&subscription("t")[..], &[9; 100]].concat(),
    ];
    let mut members: Vec<Member> = Vec::new();
    for (number, metadata) in strange.iter().enumerate() {
        let mut member = Member::new(&address, &format!("strange-{number}"));
        member.metadata = Bytes::copy_from_slice(metadata);
        assert_eq!(member.join().unwrap(), NONE);
        let mut request = member.sync_request();
        request.assignments[0].assignment = member.metadata.clone();
        let answer = member.connection.ask(&request, SYNC);
        assert_eq!((answer.error_code, &answer.assignment), (NONE, &member.metadata));
        members.push(member);
    }
    let check = |members: &mut [Member]| {
        for member in members {
            let shown = member.connection.described(&member.group);
            assert_eq!(shown.group_state, "Stable");
            assert_eq!(shown.members[0].member_metadata, member.metadata, "{}", member.group);
            assert_eq!(shown.members[0].member_assignment, member.metadata, "{}", member.group);
            assert_eq!(member.heartbeat().unwrap(), NONE);
            assert_eq!(member.commit(1, 5).unwrap(), NONE);
        }
    };
    check(&mut members);
    victim.kohort.kill().unwrap();
    victim.kohort.restart().unwrap();
    for member in &mut members {
        member.connection = Connection::open(&address);
    }
    loaded(&address);
    check(&mut members);
    victim.is_well(AT_REST + (64 << 20));
}

/// GATE-02.
#[test]
fn unknown_versions_and_groups_without_a_name_end_the_connection_and_nothing_else() {
    let (mut victim, address) = attacked(23, &[AT_ONCE]);
    let mut member = Member::alone(&address, "named");
    let ends = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
        stream.write_all(&framed(bytes)).unwrap();
        assert_eq!(read_to_the_end(&mut stream), Ok(0), "{bytes:02x?} is not answered");
    };
    let apis = [
        (ApiKey::JoinGroup, 9),
        (ApiKey::SyncGroup, 5),
        (ApiKey::Heartbeat, 4),
        (ApiKey::LeaveGroup, 5),
        (ApiKey::OffsetCommit, 10),
        (ApiKey::OffsetFetch, 10),
        (ApiKey::OffsetDelete, 0),
        (ApiKey::ListGroups, 5),
        (ApiKey::DescribeGroups, 6),
        (ApiKey::DeleteGroups, 2),
        (ApiKey::FindCoordinator, 6),
    ];
    for (api, newest) in apis {
        for version in [newest + 1, newest + 2, 100, i16::MAX, -1, i16::MIN] {
            ends(&[&header(api, version)[..], &[0; 64]].concat());
        }
    }
    for (api, newest) in &apis[..4] {
        for version in 0..=*newest {
            // A compact string says null by 0, the others by -1.
            let null: &[u8] = if api.is_flexible(version) { &[0] } else { &[0xff, 0xff] };
            ends(&[&header(*api, version)[..], null, &[0; 64]].concat());
        }
    }
    assert_eq!(member.heartbeat().unwrap(), NONE);
    victim.is_well(AT_REST);
}

#[test]
fn wrong_generations_and_requests_of_another_life_change_nothing() {
    let (mut victim, address) = attacked(24, &[AT_ONCE]);
    let mut member = Member::alone(&address, "replayed");
    let old = [
        frame(&member.join_request(), JOIN),
        frame(&member.sync_request(), SYNC),
        frame(&member.heartbeat_request(), HEARTBEAT),
        frame(&member.commit_request(0, 1), COMMIT),
    ];
    // The leader rejoins: another generation.
    assert_eq!(member.join().unwrap(), NONE);
    assert_eq!(member.sync().unwrap(), NONE);
    assert_eq!(member.commit(0, 100).unwrap(), NONE);
    let generation = member.generation;

    for wrong in [-1, 0, generation - 1, generation + 1, i32::MAX, i32::MIN] {
        member.generation = wrong;
        assert_eq!(member.heartbeat().unwrap(), ILLEGAL_GENERATION, "{wrong}");
        assert_eq!(member.sync().unwrap(), ILLEGAL_GENERATION, "{wrong}");
        assert_eq!(member.commit(0, 7).unwrap(), ILLEGAL_GENERATION, "{wrong}");
    }
    member.generation = generation;
    let id = std::mem::replace(&mut member.id, "somebody else".to_owned());
    assert_eq!(member.heartbeat().unwrap(), UNKNOWN_MEMBER_ID);
    assert_eq!(member.sync().unwrap(), UNKNOWN_MEMBER_ID);
    assert_eq!(member.commit(0, 7).unwrap(), UNKNOWN_MEMBER_ID);
    assert_eq!(member.join().unwrap(), UNKNOWN_MEMBER_ID);
    member.id = id;
    assert_eq!(member.heartbeat().unwrap(), NONE);

    // All but the join, which is as good as new: the leader may always ask for a rebalance.
    for bytes in &old[1..] {
        for _ in 0..50 {
            victim.throw(bytes);
        }
    }
    assert_eq!(member.heartbeat().unwrap(), NONE);
    assert_eq!(member.connection.committed_offset("replayed", 0), Ok(100));
    for _ in 0..20 {
        victim.throw(&old[0]);
    }
    // Each made a generation of it, for the one member that there is; it hears of it and goes on.
    assert_ne!(member.heartbeat().unwrap(), NONE);
    assert_eq!(member.join().unwrap(), NONE);
    assert!(member.generation > generation);
    assert_eq!((member.members.len(), member.sync().unwrap()), (1, NONE));
    assert_eq!(member.commit(0, 101).unwrap(), NONE);
    victim.is_well(AT_REST);
}

#[test]
fn a_join_that_is_sent_twice_joins_once_and_both_are_answered() {
    let (mut victim, address) = attacked(25, &[AT_ONCE]);
    let mut holder = Member::alone(&address, "twice");
    let mut first = Member::new(&address, "twice");
    assert_eq!(first.ask_for_id().unwrap(), MEMBER_ID_REQUIRED);
    let mut again = Member::new(&address, "twice");
    again.id = first.id.clone();
    first.send_join().unwrap();
    wait_until("the first is in", || holder.heartbeat().unwrap() == REBALANCE_IN_PROGRESS);
    again.send_join().unwrap();
    // The older one is told at once that another has taken its place.
    assert_eq!(first.joined().unwrap(), REBALANCE_IN_PROGRESS);
    assert_eq!(holder.join().unwrap(), NONE);
    assert_eq!(again.joined().unwrap(), NONE);
    let mut all: Vec<_> = [&holder, &again].into_iter().flat_map(|member| member.members.clone()).collect();
    all.sort();
    let mut meant = vec![holder.id.clone(), again.id.clone()];
    meant.sort();
    assert_eq!(all, meant, "one member, however often it asked");

    // The same with syncs.
    let (mut leader, mut follower) = if holder.is_leader() { (holder, again) } else { (again, holder) };
    let mut twin = Member::new(&address, "twice");
    (twin.id, twin.generation) = (follower.id.clone(), follower.generation);
    follower.send_sync().unwrap();
    // Nothing tells from outside which of the two came first, so one of them is answered before the leader comes.
    twin.send_sync().unwrap();
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| follower.synced().unwrap());
        let second = scope.spawn(|| twin.synced().unwrap());
        wait_until("one of them is refused", || first.is_finished() || second.is_finished());
        assert_eq!(leader.sync().unwrap(), NONE);
        (first.join().unwrap(), second.join().unwrap())
    });
    assert_eq!(BTreeSet::from([first, second]), BTreeSet::from([NONE, REBALANCE_IN_PROGRESS]));
    victim.is_well(AT_REST);
}

/// E2E-08: members whose connections have died are gone when their sessions are over, and nothing of them stays.
#[test]
fn parked_joins_of_connections_that_die_leave_nothing_behind() {
    const DYING: usize = 2_000;
    let (mut victim, address) = attacked(26, &[AT_ONCE, SHORT_SESSIONS, ONE_SHARD]);
    let mut holder = Member::alone(&address, "orphans");
    let mut looking = Connection::open(&address);
    let files = |victim: &Victim| fs::read_dir(format!("/proc/{}/fd", victim.kohort.pid())).unwrap().count();
    let (files_before, bytes_before) = (files(&victim), metric(&victim.kohort, "kohort_group_bytes"));
    for wave in 0..2 {
        for number in 0..DYING {
            let mut dying = Member::new(&address, "orphans");
            dying.session_ms = SHORT;
            let request = dying.join_request();
            dying.connection.send(&request, JOIN_AT_ONCE).unwrap();
            if number % 3 == 0 {
                // Nor do requests behind a parked one hold anything.
                dying.connection.send(&request, JOIN_AT_ONCE).unwrap();
            }
        }
        wait_until("the connections are gone", || metric(&victim.kohort, "kohort_connections") <= 2);
        println!("wave {wave}: {} members", metric(&victim.kohort, "kohort_group_members"));
        // The generation that they waited for begins without anybody to hear of it.
        assert_eq!(holder.join().unwrap(), NONE);
        let error = holder.sync().unwrap();
        assert!([NONE, REBALANCE_IN_PROGRESS].contains(&error), "error {error}");
        wait_until("only the living is left", || {
            match holder.heartbeat().unwrap() {
                NONE => {}
                REBALANCE_IN_PROGRESS => {
                    assert_eq!(holder.join().unwrap(), NONE);
                    let error = holder.sync().unwrap();
                    assert!([NONE, REBALANCE_IN_PROGRESS].contains(&error), "error {error}");
                }
                error => panic!("error {error}"),
            }
            let shown = looking.described("orphans");
            shown.group_state == "Stable" && shown.members.len() == 1
        });
        assert_eq!(metric(&victim.kohort, "kohort_group_members"), 1);
        let bytes = metric(&victim.kohort, "kohort_group_bytes");
        assert!(bytes <= bytes_before + EVENTS_BYTES, "{bytes} bytes are left of {bytes_before}");
        assert!(files(&victim) <= files_before + 4, "{} files, {files_before} before", files(&victim));
    }
    victim.is_well(AT_REST + (64 << 20));
}

#[test]
fn a_flood_of_groups_ends_at_the_limit_and_old_ones_go_on() {
    const MOST: usize = 50;
    let (mut victim, address) = attacked(27, &[AT_ONCE, ("kohort.groups.max", "50")]);
    let mut random = StdRng::seed_from_u64(victim.seed);
    let mut old = Member::alone(&address, "old");
    let mut flood = Connection::open(&address);
    let mut name = || format!("flood-{:016x}", random.random::<u64>());
    let (mut made, mut refused) = (Vec::new(), 0);
    for number in 0..1_000 {
        let (group, by_commit) = (name(), number % 2 == 1);
        let mut member = Member::on(flood, &group);
        let error = if by_commit { member.commit(0, 1).unwrap() } else { member.ask_for_id().unwrap() };
        flood = member.connection;
        match error {
            NONE | MEMBER_ID_REQUIRED => made.push(group),
            POLICY_VIOLATION => refused += 1,
            error => panic!("error {error}"),
        }
    }
    assert_eq!((made.len(), refused), (MOST - 1, 1_000 - MOST + 1), "one was there before");
    assert_eq!(flood.groups().unwrap().len(), MOST);
    // Those that are there are as free as before.
    assert_eq!((old.heartbeat().unwrap(), old.commit(0, 9).unwrap()), (NONE, NONE));
    assert_eq!((old.join().unwrap(), old.sync().unwrap()), (NONE, NONE));
    let mut second = Member::new(&address, "old");
    assert_eq!(second.ask_for_id().unwrap(), MEMBER_ID_REQUIRED);
    // One less, and there is room for one, and no more.
    let request = delete_groups::DeleteGroupsRequest { groups_names: vec![made[0].clone()] };
    assert_eq!(flood.ask(&request, 2).results[0].error_code, NONE);
    assert_eq!(Member::on(Connection::open(&address), "newcomer").commit(0, 1).unwrap(), NONE);
    assert_eq!(Member::on(Connection::open(&address), "late").commit(0, 1).unwrap(), POLICY_VIOLATION);
    assert_eq!(Member::on(Connection::open(&address), "late").join().unwrap(), POLICY_VIOLATION);

    // The limit holds over a restart, for what was there and for what comes.
    victim.kohort.kill().unwrap();
    victim.kohort.restart().unwrap();
    loaded(&address);
    old.connection = Connection::open(&address);
    assert_eq!(old.connection.groups().unwrap().len(), MOST);
    assert_eq!((old.heartbeat().unwrap(), old.commit(0, 10).unwrap()), (NONE, NONE));
    assert_eq!(Member::new(&address, "late").join().unwrap(), POLICY_VIOLATION);
    victim.is_well(AT_REST);
}

#[test]
fn a_flood_of_ids_in_one_group_ends_at_the_limit_and_its_members_go_on() {
    const ASKED: usize = 25_000;
    const MOST: usize = 20_000;
    let (mut victim, address) = attacked(28, &[AT_ONCE, SHORT_SESSIONS, ONE_SHARD]);
    let mut member = Member::alone(&address, "wanted");
    let mut flood = Member::new(&address, "wanted");
    // Long enough that none is over before all are asked for.
    flood.session_ms = 60_000;
    let asks = |flood: &mut Member, count: usize| -> Vec<i16> {
        let request = flood.join_request();
        let mut sender = flood.connection.twin();
        thread::scope(|scope| {
            scope.spawn(move || (0..count).for_each(|_| sender.send(&request, JOIN).unwrap()));
            let answer =
                |_| flood.connection.receive::<join_group::JoinGroupRequest>(JOIN).unwrap().error_code;
            (0..count).map(answer).collect()
        })
    };
    let told = asks(&mut flood, ASKED);
    assert!(told[..MOST].iter().all(|error| *error == MEMBER_ID_REQUIRED));
    assert!(told[MOST..].iter().all(|error| *error == GROUP_MAX_SIZE_REACHED));
    assert_eq!((member.heartbeat().unwrap(), member.commit(0, 3).unwrap()), (NONE, NONE));
    // Nobody waits for those who only asked.
    let shown = member.connection.described("wanted");
    assert_eq!((shown.group_state.as_str(), shown.members.len()), ("Stable", 1));
    victim.is_well(AT_REST + (64 << 20));

    // What is never used is forgotten; then others may ask again.
    let mut flood = Member::new(&address, "forgetful");
    flood.session_ms = SHORT;
    assert!(asks(&mut flood, MOST).iter().all(|error| *error == MEMBER_ID_REQUIRED));
    wait_until("ids are forgotten", || asks(&mut flood, 1) == [MEMBER_ID_REQUIRED]);
    victim.is_well(AT_REST + (64 << 20));
}

#[test]
fn members_take_no_more_memory_than_they_may_together() {
    const MOST: usize = 16 << 20;
    let (mut victim, address) =
        attacked(29, &[AT_ONCE, ("kohort.groups.max.bytes", "16777216"), ("kohort.groups.max", "100000")]);
    let mut old = Member::alone(&address, "old");
    assert_eq!(old.commit(0, 1).unwrap(), NONE);
    let mut large = Vec::new();
    let refused = loop {
        let mut member = Member::new(&address, &format!("large-{}", large.len()));
        member.metadata = Bytes::from(vec![7; 1 << 20]);
        match member.join().unwrap() {
            NONE => large.push(member),
            error => break error,
        }
    };
    assert_eq!(refused, POLICY_VIOLATION);
    // What they say counts twice: for the member, and for the group that knows what is subscribed to.
    assert!((5..=16).contains(&large.len()), "{} large members", large.len());
    // Assignments count as well, and who is refused can try again with less.
    let mut request = large[0].sync_request();
    request.assignments[0].assignment = Bytes::from(vec![8; MOST]);
    assert_eq!(large[0].connection.ask(&request, SYNC).error_code, POLICY_VIOLATION);
    assert_eq!(large[0].sync().unwrap(), NONE);
    // Then small ones, until there is no room for any.
    let mut flood = Connection::open(&address);
    let mut small = 0;
    loop {
        let mut member = Member::on(flood, &format!("small-{small}"));
        let error = member.commit(0, 1).unwrap();
        flood = member.connection;
        if error != NONE {
            assert_eq!(error, POLICY_VIOLATION);
            break;
        }
        small += 1;
    }
    println!("{} large members, {small} small groups", large.len());
    let held = metric(&victim.kohort, "kohort_group_bytes");
    assert!(usize::try_from(held).unwrap() <= MOST, "{held} bytes");
    // Who is there goes on.
    assert_eq!((old.heartbeat().unwrap(), old.commit(0, 2).unwrap()), (NONE, NONE));
    assert_eq!((old.join().unwrap(), old.sync().unwrap()), (NONE, NONE));
    assert_eq!(large[0].heartbeat().unwrap(), NONE);
    // Who leaves makes room.
    assert_eq!(large[1].leave().unwrap(), NONE);
    assert_eq!(Member::on(flood, "late").commit(0, 1).unwrap(), NONE);
    victim.is_well(AT_REST + 4 * MOST);
}

/// RT-01: what one group waits for, no other does, not even one that shares its log, its lock and its owner.
#[test]
fn a_group_that_is_stuck_delays_no_other() {
    let (mut victim, address) = attacked(30, &[AT_ONCE, ONE_SHARD]);
    let crowd = crowd();
    println!("{crowd} members are stuck");
    let mut quick = Member::alone(&address, "quick");
    let mut looking = Connection::open(&address);

    // A member that does not come to the rebalance, and thousands that wait for it.
    let _holder = Member::alone(&address, "crowd");
    let mut parked: Vec<Member> = (0..crowd).map(|_| Member::new(&address, "crowd")).collect();
    for member in &mut parked {
        let request = member.join_request();
        member.connection.send(&request, JOIN_AT_ONCE).unwrap();
    }
    wait_until("all are parked", || {
        usize::try_from(metric(&victim.kohort, "kohort_group_members")).unwrap() == crowd + 2
    });
    // A leader that never brings the assignment, and one that waits for it.
    let mut lazy = Member::alone(&address, "lazy");
    let mut eager = Member::new(&address, "lazy");
    assert_eq!(eager.ask_for_id().unwrap(), MEMBER_ID_REQUIRED);
    eager.send_join().unwrap();
    wait_until("the rebalance has begun", || lazy.heartbeat().unwrap() == REBALANCE_IN_PROGRESS);
    assert_eq!((lazy.join().unwrap(), eager.joined().unwrap()), (NONE, NONE));
    let mut follower = if lazy.is_leader() { eager } else { std::mem::replace(&mut lazy, eager) };
    follower.send_sync().unwrap();
    // A client that asks for megabytes and reads nothing.
    let mut deaf = Connection::open(&address);
    deaf.stream.set_nonblocking(true).unwrap();
    let request =
        describe_groups::DescribeGroupsRequest { groups: vec!["crowd".to_owned()], ..Default::default() };
    while deaf.send(&request, 6).is_ok() {}

    let states = |looking: &mut Connection| -> Vec<String> {
        ["crowd", "lazy"].map(|group| looking.described(group).group_state).to_vec()
    };
    assert_eq!(states(&mut looking), ["PreparingRebalance", "CompletingRebalance"]);
    for number in 0..1_000 {
        assert_eq!(quick.heartbeat().unwrap(), NONE);
        assert_eq!(quick.commit(0, number).unwrap(), NONE);
        if number % 100 == 0 {
            assert_eq!((quick.join().unwrap(), quick.sync().unwrap()), (NONE, NONE));
            assert_eq!(quick.connection.committed_offset("quick", 0), Ok(number));
            assert_eq!(lazy.heartbeat().unwrap(), NONE);
        }
    }
    // All that while the others were as stuck as before.
    assert_eq!(states(&mut looking), ["PreparingRebalance", "CompletingRebalance"]);
    for member in parked.iter_mut().step_by(97).chain([&mut follower]) {
        member.connection.stream.set_nonblocking(true).unwrap();
        let unanswered = member.connection.stream.read(&mut [0]).unwrap_err();
        assert_eq!(unanswered.kind(), std::io::ErrorKind::WouldBlock);
    }
    // What each of them costs, a connection and a parked request, twice over for a build without optimisation.
    victim.is_well(AT_REST + crowd * (64 << 10));
}

/// How many members a test may have, each with a connection of its own here and in the broker.
fn crowd() -> usize {
    const WANTED: u64 = 5_000;
    const OWN: u64 = 200;
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    let raised = Rlimit { current: Some(most.min(20_000)), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).unwrap();
    usize::try_from(WANTED.min(most.saturating_sub(OWN))).unwrap()
}

/// Waits until the groups are loaded.
pub(crate) fn loaded(address: &str) {
    let mut client = Connection::open(address);
    wait_until("the groups are loaded", || client.groups().is_some());
}

fn frame<R: RequestMessage>(request: &R, version: i16) -> Vec<u8> {
    encode_request(request, version, 1, Some("a test")).into_bytes().to_vec()
}
