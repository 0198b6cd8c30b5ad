//! Groups whose members are too many, gone or stuck.

use std::fs;
use std::io::Read;
use std::thread;

use bytes::Bytes;
use coordination::limits;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wire::api::{delete_groups, describe_groups, join_group};

use crate::groups::{AT_ONCE, ONE_SHARD, SHORT_SESSIONS, attacked, loaded};
use crate::support::member::{
    GROUP_MAX_SIZE_REACHED, JOIN, JOIN_AT_ONCE, MEMBER_ID_REQUIRED, Member, NONE, POLICY_VIOLATION,
    REBALANCE_IN_PROGRESS, SYNC,
};
use crate::support::{Connection, wait_until};
use crate::victim::{AT_REST, Victim, metric};

const SHORT: i32 = 1_000;
/// What a group remembers of its rebalances, at most: an event has names and a reason.
const EVENTS_BYTES: u64 = limits::EVENTS_KEPT as u64 * 1024;

/// Members whose connections have died are gone when their sessions are over, and nothing of them stays.
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
    let (mut victim, address) = attacked(27, &[AT_ONCE, ("kohort.groups.max", &MOST.to_string())]);
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
    const MOST: usize = limits::PENDING_MEMBERS_MAX;
    const ASKED: usize = MOST + MOST / 4;
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
    let most = MOST.to_string();
    let (mut victim, address) =
        attacked(29, &[AT_ONCE, ("kohort.groups.max.bytes", &most), ("kohort.groups.max", "100000")]);
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
