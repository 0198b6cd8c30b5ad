//! Groups where writes fail.

use std::thread;

use crate::PASSING;
use crate::support::member::{Member, NONE, NOT_COORDINATOR};
use crate::support::{Connection, wait_until};
use crate::world::{BadDays, World};

/// GATE-09, RT-04, RT-09, RT-20: commits that cannot be written are refused and undone, members stay, and all goes on
/// when there is room.
#[test]
fn groups_sit_out_a_disk_that_takes_nothing() {
    // No new file is begun by the clock, whose first bytes could be written.
    let Some(mut world) = World::start(&[("kohort.settle.interval.ms", "3600000")]) else { return };
    let address = world.kohort.bootstrap();
    let mut produced = Vec::new();
    let mut made = Vec::new();
    let mut member = Member::alone(&address, "g");
    let mut looking = Connection::open(&address);
    let mut offset = 0;
    for round in 0..3 {
        offset += 100;
        assert_eq!(member.commit(0, offset).unwrap(), NONE);
        // The log is behind the bytes that can still be written.
        produced.extend(world.fill(3));
        world.limit_files("4096");
        let mut refusals = Vec::new();
        for attempt in 1..200 {
            // The first bytes of a new file can be written, should one be begun; then what is told counts.
            match member.commit(0, offset + 1).unwrap() {
                NONE => offset += 1,
                error => refusals.push(error),
            }
            assert_eq!(member.heartbeat().unwrap(), NONE, "a member stays one");
            match looking.committed_offset("g", 0) {
                Ok(found) => assert_eq!(found, offset, "what was refused is not there"),
                Err(error) => assert!(PASSING.contains(&error), "error {error}"),
            }
            let mut newcomer = Member::on(looking, &format!("new-{round}-{attempt}"));
            match newcomer.join().unwrap() {
                NONE => made.push(newcomer.group),
                error => assert!(PASSING.contains(&error), "error {error}"),
            }
            looking = newcomer.connection;
        }
        assert!(refusals.contains(&NOT_COORDINATOR), "{refusals:?}");
        assert!(refusals.iter().all(|error| PASSING.contains(error)), "{refusals:?}");

        world.limit_files("unlimited");
        let generation = member.generation;
        offset += 1_000;
        wait_until("the group goes on without a restart", || match member.commit(0, offset).unwrap() {
            NONE => true,
            error => {
                assert!(PASSING.contains(&error), "error {error}");
                false
            }
        });
        assert_eq!(member.heartbeat().unwrap(), NONE);
        assert_eq!((member.generation, looking.committed_offset("g", 0)), (generation, Ok(offset)));
    }
    // It can also rebalance again.
    assert_eq!((member.join().unwrap(), member.sync().unwrap()), (NONE, NONE));
    world.kohort.kill().unwrap();
    world.kohort.restart().unwrap();
    member.connection = Connection::open(&address);
    wait_until("the groups are loaded", || member.connection.groups().is_some());
    println!("{} groups were made all the same", made.len());
    for group in made {
        assert_eq!(member.connection.described(&group).group_state, "Empty", "{group}");
    }
    assert_eq!(member.connection.committed_offset("g", 0), Ok(offset));
    assert_eq!((member.heartbeat().unwrap(), member.commit(0, offset + 1).unwrap()), (NONE, NONE));
    world.survive_a_kill(&produced);
}

/// RT-09: commits of many groups while writes fail now and then; what was acknowledged stays.
#[test]
fn groups_lose_no_commit_to_writes_that_fail_now_and_then() {
    let settings = [("kohort.log.file.bytes", "1048576"), ("kohort.settle.interval.ms", "20")];
    let Some(mut world) = World::start(&settings) else { return };
    let produced = world.fill(1);
    let bad_days = BadDays::new();
    let address = world.kohort.bootstrap();
    let mut members: Vec<Member> =
        (0..4).map(|number| Member::alone(&address, &format!("g-{number}"))).collect();
    // The last offset that each was told is kept, and the last that it sent.
    let outcomes: Vec<(i64, i64)> = thread::scope(|scope| {
        let commit = |member: &mut Member| {
            let (mut acknowledged, mut sent) = (-1, -1);
            while !bad_days.are_over() {
                let first = sent + 1;
                for _ in 0..10 {
                    sent += 1;
                    member.send_commit(0, sent).unwrap();
                }
                for offset in first..=sent {
                    let error = member.committed().unwrap();
                    bad_days.count(error == NONE);
                    match error {
                        NONE => acknowledged = offset,
                        error => assert!(PASSING.contains(&error), "error {error}"),
                    }
                }
                assert_eq!(member.heartbeat().unwrap(), NONE, "a member stays one");
            }
            (acknowledged, sent)
        };
        let threads: Vec<_> = members.iter_mut().map(|member| scope.spawn(move || commit(member))).collect();
        bad_days.come_and_go(&world, 6);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let check = |members: &mut [Member]| {
        for (member, &(acknowledged, sent)) in members.iter_mut().zip(&outcomes) {
            member.connection = Connection::open(&address);
            wait_until("the groups are loaded", || member.connection.groups().is_some());
            let found = member.connection.committed_offset(&member.group, 0).unwrap();
            assert!((acknowledged..=sent).contains(&found), "{acknowledged} <= {found} <= {sent}");
            assert_eq!(member.heartbeat().unwrap(), NONE);
        }
    };
    check(&mut members);
    world.kohort.kill().unwrap();
    world.kohort.restart().unwrap();
    check(&mut members);
    world.survive_a_kill(&produced);
}
