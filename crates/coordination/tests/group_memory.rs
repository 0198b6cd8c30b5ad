//! What groups cost, counted at the allocator.

#![expect(unsafe_code, reason = "counting what is allocated takes an allocator of our own")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use coordination::group::{
    Caller, Commit, CommitOffset, Effects, GroupSettings, Minted, Now, Room, Shard, Ticket, Timestamp,
};
use coordination::ids::{GroupId, OrgId, TopicId};
use coordination::op::{self, LeaveGroup, LeavingMember};
use coordination::reply::{self, Reply};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised to this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised to this function.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// All in one test: what is counted is counted for the whole process.
#[test]
fn groups_cost_what_they_may() {
    idle_groups_are_small();
    groups_that_were_used_are_small_again();
    members_are_small_and_heartbeats_allocate_nothing();
    what_a_rebalance_remembers_is_counted();
}

fn idle_groups_are_small() {
    const GROUPS: usize = 10_000;
    let topic: Arc<str> = "orders".into();
    let before = BYTES.load(Ordering::Relaxed);
    let mut shard = Shard::new(OrgId::DEFAULT, GroupSettings::default());
    let mut effects = Effects::default();
    for number in 0..GROUPS {
        let offsets = [CommitOffset {
            topic: &topic,
            topic_id: TopicId::from_u128(1),
            partition: 0,
            offset: 1,
            leader_epoch: -1,
            metadata: "",
        }];
        let commit = Commit {
            group: &format!("a-group-with-a-name-{number}"),
            generation: -1,
            member_id: "",
            instance_id: None,
            retention_ms: None,
            knows_missing_groups: true,
            offsets: &offsets,
        };
        let id = GroupId::from_u128(u128::try_from(number).unwrap());
        shard.handle_commit(at(0), &commit, id, Room::UNLIMITED, &mut effects).unwrap();
        effects.clear();
    }
    let each = (BYTES.load(Ordering::Relaxed) - before) / GROUPS;
    assert!(each <= 1_500, "an idle group takes {each} bytes");
    let counted = shard.usage().bytes / GROUPS;
    assert!(counted >= each / 2 && counted <= each * 2, "{counted} bytes are counted where {each} are taken");
}

/// One member came, committed and left: the group has an offset and the story of two rebalances.
fn groups_that_were_used_are_small_again() {
    const GROUPS: usize = 1_000;
    let before = BYTES.load(Ordering::Relaxed);
    let settings = GroupSettings { initial_rebalance_delay: Duration::ZERO, ..GroupSettings::default() };
    let mut shard = Shard::new(OrgId::DEFAULT, settings);
    let mut effects = Effects::default();
    let caller = Caller { client_id: "consumer-of-orders", host: "/127.0.0.1" };
    let topic: Arc<str> = "orders".into();
    for number in 0..GROUPS {
        let group = format!("a-group-with-a-name-{number}");
        let number = u128::try_from(number).unwrap();
        let minted = Minted { member: number, group: GroupId::from_u128(number) };
        let join = join_of(&group, String::new());
        shard.handle_join(at(0), Ticket(0), &join, caller, minted, Room::UNLIMITED, &mut effects);
        let Some((_, Reply::JoinGroup(reply::JoinGroup { member_id, .. }))) = effects.replies.pop() else {
            panic!("the join is answered")
        };
        let sync = sync_of(&group, &member_id, Vec::new());
        shard.handle_sync(at(0), Ticket(0), &sync, Room::UNLIMITED, &mut effects);
        let offsets = [CommitOffset {
            topic: &topic,
            topic_id: TopicId::from_u128(1),
            partition: 0,
            offset: 1,
            leader_epoch: -1,
            metadata: "",
        }];
        let commit = Commit {
            group: &group,
            generation: 1,
            member_id: &member_id,
            instance_id: None,
            retention_ms: None,
            knows_missing_groups: true,
            offsets: &offsets,
        };
        shard.handle_commit(at(0), &commit, minted.group, Room::UNLIMITED, &mut effects).unwrap();
        let member = LeavingMember { member_id, instance_id: None, reason: None };
        let left =
            shard.handle_leave(at(0), &LeaveGroup { group, members: vec![member] }, caller, &mut effects);
        assert!(left.result.is_ok());
        effects.clear();
    }
    effects = Effects::default();
    let each = (BYTES.load(Ordering::Relaxed) - before) / GROUPS;
    assert!(effects.is_empty() && each <= 1_900, "a group that was used takes {each} bytes");
}

fn join_of(group: &str, member_id: String) -> op::JoinGroup {
    op::JoinGroup {
        group: group.to_owned(),
        member_id,
        instance_id: None,
        session_timeout_ms: 45_000,
        rebalance_timeout_ms: 300_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![
            ("range".to_owned(), Bytes::from(vec![7; 60])),
            ("cooperative-sticky".to_owned(), Bytes::from(vec![7; 60])),
        ],
        reason: None,
        takes_member_id_first: false,
        can_skip_assignment: true,
    }
}

fn sync_of(group: &str, member_id: &str, assignments: Vec<(String, Bytes)>) -> op::SyncGroup {
    op::SyncGroup {
        group: group.to_owned(),
        generation: 1,
        member_id: member_id.to_owned(),
        instance_id: None,
        protocol_type: None,
        protocol: None,
        must_name_protocol: false,
        assignments,
    }
}

fn members_are_small_and_heartbeats_allocate_nothing() {
    const MEMBERS: usize = 10_000;
    let mut shard = Shard::new(OrgId::DEFAULT, GroupSettings::default());
    let mut effects = Effects::default();
    let before = BYTES.load(Ordering::Relaxed);
    let join = |shard: &mut Shard, effects: &mut Effects, number: usize, member_id: String| {
        let op = join_of("g", member_id);
        let number = u128::try_from(number).unwrap();
        let minted = Minted { member: number, group: GroupId::from_u128(number) };
        let caller = Caller { client_id: "consumer-of-orders", host: "/127.0.0.1" };
        let ticket = Ticket(u64::try_from(number).unwrap());
        shard.handle_join(at(0), ticket, &op, caller, minted, Room::UNLIMITED, effects);
    };
    for number in 0..MEMBERS {
        join(&mut shard, &mut effects, number, String::new());
    }
    effects.clear();
    shard.handle_deadlines(at(3_000), &mut effects);
    let mut leader = String::new();
    let ids: Vec<String> = effects
        .replies
        .drain(..)
        .map(|(_, reply)| match reply {
            Reply::JoinGroup(reply::JoinGroup { member_id, result: Ok(joined) }) => {
                assert_eq!(joined.generation, 1, "all are in one generation");
                leader = joined.leader;
                member_id
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids.len(), MEMBERS);
    for id in std::iter::once(&leader).chain(ids.iter().filter(|id| **id != leader)) {
        let leads = *id == leader;
        let assigned = ids.iter().filter(|_| leads).map(|id| (id.clone(), Bytes::from(vec![7; 40])));
        let op = sync_of("g", id, assigned.collect());
        shard.handle_sync(at(3_000), Ticket(0), &op, Room::UNLIMITED, &mut effects);
        effects.clear();
    }
    effects = Effects::default();
    assert_eq!(shard.describe("g").state, reply::GroupState::Stable);
    let own: usize = ids.iter().map(|id| size_of::<String>() + id.capacity()).sum();
    let each = (BYTES.load(Ordering::Relaxed) - before - own) / MEMBERS;
    assert!(each <= 2_000, "a member takes {each} bytes");

    let op =
        op::Heartbeat { group: "g".to_owned(), generation: 1, member_id: ids[77].clone(), instance_id: None };
    let allocations = ALLOCATIONS.load(Ordering::Relaxed);
    for ms in 3_000..4_000 {
        assert_eq!(shard.handle_heartbeat(at(ms), &op).error, None);
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), allocations, "a heartbeat allocates nothing");

    // One more, and everybody joins again.
    join(&mut shard, &mut effects, MEMBERS, String::new());
    for (number, id) in ids.into_iter().enumerate() {
        assert!(effects.replies.is_empty());
        join(&mut shard, &mut effects, number, id);
    }
    assert_eq!(effects.replies.len(), MEMBERS + 1, "the last one to join answers all");
}

/// Who owned what before is kept until the rebalance has ended, although the members have nothing any more.
fn what_a_rebalance_remembers_is_counted() {
    const BYTES_ASSIGNED: usize = 10_000_000;
    let settings = GroupSettings { initial_rebalance_delay: Duration::ZERO, ..GroupSettings::default() };
    let mut shard = Shard::new(OrgId::DEFAULT, settings);
    let mut effects = Effects::default();
    let caller = Caller { client_id: "consumer-of-orders", host: "/127.0.0.1" };
    let minted = Minted { member: 1, group: GroupId::from_u128(1) };
    let before = BYTES.load(Ordering::Relaxed);
    shard.handle_join(
        at(0),
        Ticket(0),
        &join_of("g", String::new()),
        caller,
        minted,
        Room::UNLIMITED,
        &mut effects,
    );
    let Some((_, Reply::JoinGroup(reply::JoinGroup { member_id, .. }))) = effects.replies.pop() else {
        panic!("the join is answered")
    };
    let assigned = vec![(member_id.clone(), Bytes::from(vec![7; BYTES_ASSIGNED]))];
    shard.handle_sync(at(0), Ticket(0), &sync_of("g", &member_id, assigned), Room::UNLIMITED, &mut effects);
    // The leader joins again, and then again with something else, so that the rebalance is overtaken.
    let mut join = join_of("g", member_id);
    for metadata in [60, 61] {
        join.protocols[0].1 = Bytes::from(vec![7; metadata]);
        shard.handle_join(at(0), Ticket(0), &join, caller, minted, Room::UNLIMITED, &mut effects);
    }
    drop(join);
    effects = Effects::default();
    let taken = BYTES.load(Ordering::Relaxed) - before;
    let counted = shard.usage().bytes;
    assert!(effects.is_empty() && taken > BYTES_ASSIGNED, "the assignment is still there");
    assert!(counted >= taken / 2, "{counted} bytes are counted where {taken} are taken");
}

fn at(ms: u64) -> Now {
    Now { at: Timestamp::from_millis(ms), wall_ms: 1_000_000 }
}
