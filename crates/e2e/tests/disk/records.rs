//! Records and what else is written, where writes fail.

use std::fs;
use std::os::unix::fs::FileExt;
use std::thread;

use e2e::kohort::{Kohort, Options};

use crate::PASSING;
use crate::mount::Mount;
use crate::support::member::{Member, NONE};
use crate::support::{Connection, STORAGE_ERROR, code, kohort, one, wait_until};
use crate::world::{BadDays, World};

#[test]
fn a_write_that_fails_is_told_and_production_goes_on_when_writes_do() {
    // No new file is begun by the clock, whose first bytes could be written.
    let Some(mut world) = World::start(&[("kohort.settle.interval.ms", "3600000")]) else { return };
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        // Every write beyond the first bytes of a file fails now, whatever file it is.
        acknowledged.extend(world.fill(3));
        world.limit_files("4096");
        let mut client = Connection::open(&world.kohort.bootstrap());
        for attempt in 0..5 {
            let refused = client.produce("t", 0, one(&format!("refused {round} {attempt}")));
            assert_eq!(refused, Err(STORAGE_ERROR));
        }
        assert_eq!(
            client.values("t", 0, 0).unwrap(),
            acknowledged,
            "what is there can be read all the while"
        );

        world.limit_files("unlimited");
        let value = format!("after round {round}");
        client.produce("t", 0, one(&value)).expect("production goes on without a restart");
        acknowledged.push(value);
        assert_eq!(client.values("t", 0, 0).unwrap(), acknowledged);
    }
    world.survive_a_kill(&acknowledged);
}

#[test]
fn a_log_that_cannot_grow_keeps_what_it_has_and_goes_on_when_it_can() {
    // Small files that are settled often, so that new ones are needed all the time, and segments grow too.
    let settings = [("kohort.log.file.bytes", "1048576"), ("kohort.settle.interval.ms", "20")];
    let Some(mut world) = World::start(&settings) else { return };
    let mut acknowledged = world.fill(1);
    world.limit_files("524288");
    let mut client = Connection::open(&world.kohort.bootstrap());
    let mut refused = 0;
    for number in 0..400 {
        let value = format!("{number} {}", "x".repeat(4000));
        match client.produce("t", 0, one(&value)) {
            Ok(_) => acknowledged.push(value),
            Err(STORAGE_ERROR) => refused += 1,
            Err(other) => panic!("error {other}"),
        }
        if refused > 20 {
            break;
        }
    }
    assert!(refused > 0, "no write failed, so nothing was tested");
    assert_eq!(client.values("t", 0, 0).unwrap(), acknowledged);

    world.limit_files("unlimited");
    for number in 0..50 {
        let value = format!("later {number}");
        client.produce("t", 0, one(&value)).expect("production goes on without a restart");
        acknowledged.push(value);
    }
    assert_eq!(client.values("t", 0, 0).unwrap(), acknowledged);
    world.survive_a_kill(&acknowledged);
}

#[test]
fn a_full_file_system_is_told_and_production_goes_on_when_there_is_room() {
    let Some(mount) = Mount::tmpfs("24m") else { return };
    let options = Options { data_dir: Some(mount.path().join("data")), ..Options::default() }
        .set("kohort.log.file.bytes", "4194304")
        .set("kohort.settle.interval.ms", "50");
    let kohort = Kohort::start(options).unwrap();
    let mut world = World { kohort };
    let mut acknowledged = world.fill(1);
    let mut member = Member::alone(&world.kohort.bootstrap(), "g");
    assert_eq!(member.commit(0, 0).unwrap(), NONE);
    let mut committed = 0;
    let ballast = mount.path().join("ballast");
    // Grows beside the broker until nothing is left.
    let file = fs::File::create(&ballast).unwrap();
    let block = vec![1; 1 << 16];
    let mut position = 0;
    let mut grow = || {
        while let Ok(written) = file.write_at(&block, position) {
            if written == 0 {
                break;
            }
            position += written as u64;
        }
    };
    let mut client = Connection::open(&world.kohort.bootstrap());
    let mut refused = 0;
    for number in 0..4000 {
        grow();
        let value = format!("{number} {}", "y".repeat(8000));
        match client.produce("t", 0, one(&value)) {
            Ok(_) => acknowledged.push(value),
            Err(STORAGE_ERROR) => refused += 1,
            Err(other) => panic!("error {other}"),
        }
        // What is small may still find room.
        match member.commit(0, number).unwrap() {
            NONE => committed = number,
            error => assert!(PASSING.contains(&error), "error {error}"),
        }
        assert_eq!(member.heartbeat().unwrap(), NONE, "a member stays one");
        if refused > 20 {
            break;
        }
    }
    assert!(refused > 0, "the disk never became full; acknowledged {}", acknowledged.len());
    assert_eq!(client.values("t", 0, 0).unwrap(), acknowledged);
    match client.committed_offset("g", 0) {
        Ok(found) => assert!(found >= committed, "{found} is committed, {committed} was acknowledged"),
        Err(error) => assert!(PASSING.contains(&error), "error {error}"),
    }

    fs::remove_file(&ballast).unwrap();
    file.set_len(0).unwrap();
    let value = "there is room again".to_owned();
    client.produce("t", 0, one(&value)).expect("production goes on without a restart");
    acknowledged.push(value);
    wait_until("commits go on without a restart", || member.commit(0, 5_000).unwrap() == NONE);
    world.survive_a_kill(&acknowledged);
    world.kohort.restart().unwrap();
    let mut client = Connection::open(&world.kohort.bootstrap());
    wait_until("the groups are loaded", || client.groups().is_some());
    assert_eq!(client.committed_offset("g", 0), Ok(5_000));
    drop(world);
}

#[test]
fn writes_that_fail_now_and_then_under_load_lose_and_double_nothing() {
    let settings = [("kohort.log.file.bytes", "1048576"), ("kohort.settle.interval.ms", "20")];
    let Some(mut world) = World::start(&settings) else { return };
    let bad_days = BadDays::new();
    let address = world.kohort.bootstrap();
    Connection::open(&address).create_topic("shared", 2);
    let acknowledged: Vec<String> = thread::scope(|scope| {
        let produce = |producer: usize| {
            let mut client = Connection::open(&address);
            let mut acknowledged = Vec::new();
            for number in 0_usize.. {
                if bad_days.are_over() {
                    break;
                }
                let value = format!("{producer} {number} {}", "u".repeat(number * 37 % 3000));
                let outcome = client.produce("shared", i32::from(producer > 1), one(&value));
                bad_days.count(outcome.is_ok());
                match outcome {
                    Ok(_) => acknowledged.push(value),
                    Err(error) => assert_eq!(error, STORAGE_ERROR),
                }
            }
            acknowledged
        };
        let producers: Vec<_> = (0..4).map(|producer| scope.spawn(move || produce(producer))).collect();
        bad_days.come_and_go(&world, 12);
        producers.into_iter().flat_map(|producer| producer.join().unwrap()).collect()
    });
    let check = |client: &mut Connection| {
        let mut stored =
            [client.values("shared", 0, 0).unwrap(), client.values("shared", 1, 0).unwrap()].concat();
        let mut expected = acknowledged.clone();
        stored.sort_unstable();
        expected.sort_unstable();
        assert!(stored == expected, "{} records stored, {} acknowledged", stored.len(), expected.len());
    };
    check(&mut Connection::open(&address));
    world.kohort.kill().unwrap();
    world.kohort.restart().unwrap();
    check(&mut Connection::open(&address));
    world.survive_a_kill(&[]);
}

#[test]
fn a_snapshot_that_fails_leaves_nothing_that_passes_for_one() {
    let Some(world) = World::start(&[]) else { return };
    let acknowledged = world.fill(2);
    let scratch = tempfile::tempdir().unwrap();
    let take = |name: &str| {
        let directory = scratch.path().join(name);
        let (admin, data_dir) = (world.kohort.admin(), world.kohort.data_dir().to_str().unwrap());
        let done =
            kohort(&["snapshot", directory.to_str().unwrap(), "--admin", &admin, "--data-dir", data_dir]);
        (directory, done)
    };
    world.limit_files("4096");
    let (directory, failed) = take("failed");
    assert_eq!(code(&failed), Some(1), "{failed:?}");
    assert!(failed.stderr.contains("File too large"), "{failed:?}");
    let verified = kohort(&["log", "verify", "--data-dir", directory.to_str().unwrap()]);
    assert_eq!(code(&verified), Some(1), "a failed copy must not pass for one: {verified:?}");

    world.limit_files("unlimited");
    let (directory, done) = take("made");
    assert_eq!(code(&done), Some(0), "{done:?}");
    let copy = Kohort::start(Options { data_dir: Some(directory), ..Options::default() }).unwrap();
    assert_eq!(Connection::open(&copy.bootstrap()).values("t", 0, 0).unwrap(), acknowledged);
}

#[test]
fn a_broker_whose_log_lines_cannot_be_written_serves_on() {
    let Some(world) = World::start(&[]) else { return };
    let mut client = Connection::open(&world.kohort.bootstrap());
    // Nothing can be written any more, what the broker prints included: it has to complain about failing writes,
    // and cannot.
    world.limit_files("1");
    for _ in 0..20 {
        assert_eq!(client.produce("t", 0, one("refused")), Err(STORAGE_ERROR));
    }
    world.limit_files("unlimited");
    client.produce("t", 0, one("kept")).unwrap();
    let mut another = Connection::open(&world.kohort.bootstrap());
    assert_eq!(another.values("t", 0, 0).unwrap(), ["kept"]);
}
