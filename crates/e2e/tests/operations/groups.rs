//! What becomes of groups when their broker ends, or starts with other settings.

use std::io::Read;
use std::thread;

use e2e::kohort::{Kohort, Options};
use wire::api::join_group::JoinGroupRequest;
use wire::encode_request;

use crate::metrics;
use crate::support::member::{
    GROUP_MAX_SIZE_REACHED, JOIN, MEMBER_ID_REQUIRED, Member, NONE, NOT_COORDINATOR, REBALANCE_IN_PROGRESS,
    SYNC,
};
use crate::support::{Connection, wait_until};

/// LOAD-06, LOAD-07, RT-23: who waits for others when the broker is told to end hears that it has to look elsewhere,
/// and under which name to come back.
#[test]
fn parked_members_are_sent_away_by_name_before_the_broker_ends() {
    let at_once = Options::default().set("group.initial.rebalance.delay.ms", "0");
    let mut broker = Kohort::start(at_once).unwrap();
    let address = broker.bootstrap();
    Connection::open(&address).create_topic("t", 1);
    // One group waits for a member that does not join again, the other for a leader that brings no assignment.
    let mut absent = Member::alone(&address, "joining");
    let mut joining: Vec<Member> = (0..20).map(|_| Member::new(&address, "joining")).collect();
    for member in &mut joining {
        assert_eq!(member.ask_for_id().unwrap(), MEMBER_ID_REQUIRED);
        member.send_join().unwrap();
    }
    let mut leader = Member::alone(&address, "syncing");
    let mut syncing: Vec<Member> = (0..20).map(|_| Member::new(&address, "syncing")).collect();
    for member in &mut syncing {
        assert_eq!(member.ask_for_id().unwrap(), MEMBER_ID_REQUIRED);
        member.send_join().unwrap();
    }
    let mut looking = Connection::open(&address);
    let mut members = |group: &str| looking.described(group).members.len();
    wait_until("all are parked", || members("joining") == 21 && members("syncing") == 21);
    assert_eq!(leader.join().unwrap(), NONE);
    assert!(leader.is_leader());
    assert_eq!(absent.commit(0, 7).unwrap(), NONE);
    for member in &mut syncing {
        assert_eq!(member.joined().unwrap(), NONE);
    }
    // Nothing shows that a sync is parked; but it is when the broker has read it.
    let received = || metrics(&broker)["kohort_received_bytes_total"];
    let before = received();
    let mut sent = 0;
    for member in &mut syncing {
        sent += encode_request(&member.sync_request(), SYNC, 1, Some("a test")).len();
        member.send_sync().unwrap();
    }
    let sent = f64::from(u32::try_from(sent).unwrap());
    wait_until("the syncs are read", || received() >= before + sent);

    let ended = thread::scope(|scope| {
        let answers = scope.spawn(|| {
            for member in &mut joining {
                let answer = member.connection.receive::<JoinGroupRequest>(JOIN).unwrap();
                assert_eq!((answer.error_code, &answer.member_id), (NOT_COORDINATOR, &member.id));
                assert_eq!(ended_by(member), 0, "nothing comes behind it");
            }
            for member in &mut syncing {
                assert_eq!(member.synced().unwrap(), NOT_COORDINATOR);
                assert_eq!(ended_by(member), 0);
            }
        });
        let status = broker.stop().unwrap();
        answers.join().unwrap();
        status
    });
    assert_eq!(ended.code(), Some(0), "{}", broker.output());
    assert!(!broker.output().contains("ERROR"), "{}", broker.output());

    // The group that was stable before is so again, and its member has lost nothing.
    broker.restart().unwrap();
    absent.connection = Connection::open(&address);
    wait_until("the groups are loaded", || absent.connection.groups().is_some());
    assert_eq!((absent.heartbeat().unwrap(), absent.commit(0, 8).unwrap()), (NONE, NONE));
    assert_eq!(absent.connection.described("joining").members.len(), 1);
}

/// SIZE-06, SIZE-08.
#[test]
fn a_group_shrinks_to_a_smaller_limit_after_a_restart() {
    let scratch = tempfile::tempdir().unwrap();
    let data_dir = scratch.path().join("data");
    let start = |most: &str| {
        let options = Options { data_dir: Some(data_dir.clone()), ..Options::default() };
        Kohort::start(options.set("group.max.size", most).set("group.initial.rebalance.delay.ms", "0"))
            .unwrap()
    };
    let mut broker = start("5");
    let address = broker.bootstrap();
    Connection::open(&address).create_topic("t", 1);
    let mut leader = Member::new(&address, "large");
    leader.rebalance_ms = 12_000;
    leader.settle_alone();
    let mut members: Vec<Member> = (1..5).map(|_| Member::new(&address, "large")).collect();
    for member in &mut members {
        member.rebalance_ms = 12_000;
        assert_eq!(member.ask_for_id().unwrap(), MEMBER_ID_REQUIRED);
        member.send_join().unwrap();
    }
    let mut looking = Connection::open(&address);
    wait_until("all are parked", || looking.described("large").members.len() == 5);
    assert_eq!(leader.join().unwrap(), NONE);
    for member in &mut members {
        assert_eq!(member.joined().unwrap(), NONE);
        member.send_sync().unwrap();
    }
    assert_eq!(leader.sync().unwrap(), NONE);
    assert!(members.iter_mut().all(|member| member.synced().unwrap() == NONE));
    members.push(leader);
    assert_eq!(Member::new(&address, "large").join().unwrap(), GROUP_MAX_SIZE_REACHED);
    let generation = members[0].generation;
    assert_eq!(broker.stop().unwrap().code(), Some(0));

    let broker = start("3");
    for member in &mut members {
        member.connection = Connection::open(&broker.bootstrap());
    }
    let mut looking = Connection::open(&broker.bootstrap());
    wait_until("the groups are loaded", || looking.groups().is_some());
    assert_eq!(looking.described("large").group_state, "PreparingRebalance");
    for member in &mut members {
        assert_eq!(member.heartbeat().unwrap(), REBALANCE_IN_PROGRESS);
        member.send_join().unwrap();
    }
    // The first three to come back stay; the others learn that there is no room for them. As in Kafka, the time for
    // the rebalance passes before the three go on.
    members.retain_mut(|member| {
        let error = member.joined().unwrap();
        assert!([NONE, GROUP_MAX_SIZE_REACHED].contains(&error), "error {error}");
        error == NONE
    });
    assert_eq!(members.len(), 3);
    members.sort_by_key(|member| member.is_leader());
    members.iter_mut().for_each(|member| member.send_sync().unwrap());
    assert!(members.iter_mut().all(|member| member.synced().unwrap() == NONE));
    assert!(members[0].generation > generation);
    let shown = looking.described("large");
    assert_eq!((shown.group_state.as_str(), shown.members.len()), ("Stable", 3));
    assert!(members.iter_mut().all(|member| member.heartbeat().unwrap() == NONE));
}

/// How many bytes come until the broker closes the connection.
fn ended_by(member: &mut Member) -> usize {
    let mut rest = Vec::new();
    member.connection.stream.read_to_end(&mut rest).unwrap()
}
