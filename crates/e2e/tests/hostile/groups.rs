//! Groups whose members are strange or confused.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::thread;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use wire::{ApiKey, RequestMessage, encode_request};

use crate::support::member::{
    COMMIT, HEARTBEAT, ILLEGAL_GENERATION, JOIN, MEMBER_ID_REQUIRED, Member, NONE, REBALANCE_IN_PROGRESS,
    SYNC, UNKNOWN_MEMBER_ID, subscription,
};
use crate::support::{ANSWER_WITHIN, Connection, wait_until};
use crate::victim::{AT_REST, Victim, framed, header, read_to_the_end};

/// One partition, so that all groups have one lock, one log and one owner: the worst neighbours.
pub(crate) const ONE_SHARD: (&str, &str) = ("offsets.topic.num.partitions", "1");
/// Sessions may be short, so that who is gone is noticed soon.
pub(crate) const SHORT_SESSIONS: (&str, &str) = ("group.min.session.timeout.ms", "100");
/// Nobody waits for others to come.
pub(crate) const AT_ONCE: (&str, &str) = ("group.initial.rebalance.delay.ms", "0");

pub(crate) fn attacked(family: u64, settings: &[(&str, &str)]) -> (Victim, String) {
    let victim = Victim::start_with(family, settings);
    let address = victim.kohort.bootstrap();
    Connection::open(&address).create_topic("t", 4);
    (victim, address)
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

/// Waits until the groups are loaded.
pub(crate) fn loaded(address: &str) {
    let mut client = Connection::open(address);
    wait_until("the groups are loaded", || client.groups().is_some());
}

fn frame<R: RequestMessage>(request: &R, version: i16) -> Vec<u8> {
    encode_request(request, version, 1, Some("a test")).into_bytes().to_vec()
}
