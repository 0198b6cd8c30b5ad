//! Disks that are full or damaged, under a real Kohort.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test ends where something is not as it should be"
)]

mod support;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use batch::Codec;
use e2e::kohort::{Kohort, Options};
use e2e::process::{is_installed, run_within};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use support::member::{COORDINATOR_LOAD_IN_PROGRESS, Member, NONE, NOT_COORDINATOR};
use support::{Connection, STORAGE_ERROR, batch_of, code, kohort, one, wait_until};

/// What clients take for a reason to come back soon.
const PASSING: [i16; 2] = [COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR];

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
    let seed: u64 = std::env::var("KOHORT_DISK_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(rand::random);
    println!("KOHORT_DISK_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (stop, kept, refused) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let address = world.kohort.bootstrap();
    Connection::open(&address).create_topic("shared", 2);
    let acknowledged: Vec<String> = thread::scope(|scope| {
        let produce = |producer: usize| {
            let mut client = Connection::open(&address);
            let mut acknowledged = Vec::new();
            for number in 0_usize.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let value = format!("{producer} {number} {}", "u".repeat(number * 37 % 3000));
                match client.produce("shared", i32::from(producer > 1), one(&value)) {
                    Ok(_) => {
                        acknowledged.push(value);
                        kept.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(STORAGE_ERROR) => {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(other) => panic!("error {other}"),
                }
            }
            acknowledged
        };
        let producers: Vec<_> = (0..4).map(|producer| scope.spawn(move || produce(producer))).collect();
        let grows = |what: &str, counter: &AtomicUsize| {
            let before = counter.load(Ordering::Relaxed);
            wait_until(what, || counter.load(Ordering::Relaxed) > before + 50);
        };
        for _ in 0..12 {
            grows("records are kept", &kept);
            world.limit_files(&random.random_range(500..800_000).to_string());
            grows("records are refused", &refused);
            world.limit_files("unlimited");
        }
        grows("records are kept in the end", &kept);
        stop.store(true, Ordering::Relaxed);
        producers.into_iter().flat_map(|producer| producer.join().unwrap()).collect()
    });
    println!("{} kept, {} refused", acknowledged.len(), refused.load(Ordering::Relaxed));

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
    let seed: u64 = std::env::var("KOHORT_DISK_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(rand::random);
    println!("KOHORT_DISK_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let address = world.kohort.bootstrap();
    let (stop, kept, refused) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let mut members: Vec<Member> =
        (0..4).map(|number| Member::alone(&address, &format!("g-{number}"))).collect();
    // The last offset that each was told is kept, and the last that it sent.
    let outcomes: Vec<(i64, i64)> = thread::scope(|scope| {
        let commit = |member: &mut Member| {
            let (mut acknowledged, mut sent) = (-1, -1);
            while !stop.load(Ordering::Relaxed) {
                let first = sent + 1;
                for _ in 0..10 {
                    sent += 1;
                    member.send_commit(0, sent).unwrap();
                }
                for offset in first..=sent {
                    match member.committed().unwrap() {
                        NONE => {
                            acknowledged = offset;
                            kept.fetch_add(1, Ordering::Relaxed);
                        }
                        error => {
                            assert!(PASSING.contains(&error), "error {error}");
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                assert_eq!(member.heartbeat().unwrap(), NONE, "a member stays one");
            }
            (acknowledged, sent)
        };
        let threads: Vec<_> = members.iter_mut().map(|member| scope.spawn(move || commit(member))).collect();
        let grows = |what: &str, counter: &AtomicUsize| {
            let before = counter.load(Ordering::Relaxed);
            wait_until(what, || counter.load(Ordering::Relaxed) > before + 50);
        };
        for _ in 0..6 {
            grows("commits are kept", &kept);
            world.limit_files(&random.random_range(500..800_000).to_string());
            grows("commits are refused", &refused);
            world.limit_files("unlimited");
        }
        grows("commits are kept in the end", &kept);
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    println!("{kept:?} kept, {refused:?} refused");

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

#[test]
fn a_damaged_settled_file_is_named_and_the_rest_is_served() {
    let options =
        Options::default().set("kohort.settle.interval.ms", "20").set("kohort.cache.bytes", "1048576");
    let mut kohort_process = Kohort::start(options).unwrap();
    let mut client = Connection::open(&kohort_process.bootstrap());
    client.create_topic("damaged", 1);
    client.create_topic("sound", 1);
    let value = |number: usize| format!("{number} {}", "z".repeat(500));
    for number in 0..100 {
        client.produce("damaged", 0, one(&value(number))).unwrap();
        client.produce("sound", 0, one(&value(number))).unwrap();
    }
    let ids = kohort(&["topic", "list", "-o", "json", "-b", &kohort_process.bootstrap()]);
    let listed: serde_json::Value = serde_json::from_str(&ids.stdout).unwrap();
    let find = |topic: &serde_json::Value| topic["name"] == "damaged";
    let id = listed.as_array().unwrap().iter().find(|topic| find(topic)).unwrap()["id"].as_str().unwrap();
    let segment = kohort_process.data_dir().join("topics").join(id).join("0/00000000000000000000.log");
    wait_until("all is settled", || fs::metadata(&segment).is_ok_and(|it| it.len() > 100 * 500));
    kohort_process.stop().unwrap();

    // In the middle of a record in the middle of the file.
    let file = fs::OpenOptions::new().read(true).write(true).open(&segment).unwrap();
    let middle = file.metadata().unwrap().len() / 2;
    let mut bytes = [0; 16];
    file.read_exact_at(&mut bytes, middle).unwrap();
    file.write_all_at(&bytes.map(|byte| !byte), middle).unwrap();
    file.sync_all().unwrap();

    let data_dir = kohort_process.data_dir().to_str().unwrap().to_owned();
    let verified = kohort(&["log", "verify", "--data-dir", &data_dir, "-o", "json"]);
    assert_eq!(code(&verified), Some(1), "{verified:?}");
    let report: serde_json::Value = serde_json::from_str(&verified.stdout).unwrap();
    assert_eq!(report["sound"], false);
    let finding = report["findings"].as_array().unwrap().iter().find(|finding| finding["harmless"] == false);
    let finding = finding.unwrap_or_else(|| panic!("no finding in {report}"));
    assert!(finding["file"].as_str().unwrap().ends_with(segment.to_str().unwrap()), "{finding}");
    let position = finding["position"].as_u64().unwrap();
    assert!(position <= middle && middle < position + 700, "{finding} for byte {middle}");

    kohort_process.restart().unwrap();
    let mut client = Connection::open(&kohort_process.bootstrap());
    let all: Vec<String> = (0..100).map(value).collect();
    assert_eq!(client.values("sound", 0, 0).unwrap(), all);
    // What lies before the damage is served, what lies behind it too.
    assert_eq!(client.values("damaged", 0, 90).unwrap(), all[90..]);
    let refused = client.values("damaged", 0, 0);
    assert!(refused.is_err(), "damaged bytes were served: {} values", refused.unwrap().len());
    let said = kohort_process.output();
    let told = said.lines().find(|line| line.contains("ERROR") && line.contains("00000000000000000000.log"));
    let told = told.unwrap_or_else(|| panic!("nobody was told; the broker said\n{said}"));
    assert!(told.contains(id) && told.contains(&position.to_string()), "{told}");
    client.produce("damaged", 0, one("goes on")).expect("a damaged partition takes new records");
    assert_eq!(client.values("damaged", 0, 100).unwrap(), ["goes on"]);
    assert!(!kohort_process.output().contains("panicked"), "{}", kohort_process.output());
}

#[test]
fn a_log_that_lacks_what_was_acknowledged_is_refused_by_name() {
    // Nothing is settled, so all is in the log.
    let mut broker = Kohort::start(Options::default().set("kohort.settle.interval.ms", "3600000")).unwrap();
    let mut client = Connection::open(&broker.bootstrap());
    client.create_topic("t", 1);
    let all: Vec<String> = (0..50).map(|number| format!("{number} {}", "d".repeat(500))).collect();
    for value in &all {
        client.produce("t", 0, one(value)).unwrap();
    }
    broker.kill().unwrap();
    let directory = fs::read_dir(broker.data_dir().join("log")).unwrap();
    let log = directory
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|it| it == "log"));
    let log = log.unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).open(&log).unwrap();
    let damaged = 10_000;
    let mut byte = [0];
    file.read_exact_at(&mut byte, damaged).unwrap();
    file.write_all_at(&[!byte[0]], damaged).unwrap();

    let data_dir = broker.data_dir().to_str().unwrap().to_owned();
    let refused = kohort(&["serve", "--listen", "127.0.0.1:0", "--admin", "none", "--data-dir", &data_dir]);
    assert_eq!(code(&refused), Some(1), "{refused:?}");
    assert!(refused.stderr.contains(log.to_str().unwrap()), "{}", refused.stderr);
    assert!(refused.stderr.contains("is damaged at position"), "{}", refused.stderr);
    let verified = kohort(&["log", "verify", "--data-dir", &data_dir]);
    assert_eq!(code(&verified), Some(1), "{verified:?}");
    assert!(verified.stdout.contains(log.file_name().unwrap().to_str().unwrap()), "{}", verified.stdout);

    // Neither has changed anything: with the byte as it was, all is there.
    file.write_all_at(&byte, damaged).unwrap();
    broker.restart().unwrap();
    assert_eq!(Connection::open(&broker.bootstrap()).values("t", 0, 0).unwrap(), all);
}

/// A running broker with the topic `t`.
struct World {
    kohort: Kohort,
}

impl World {
    fn start(settings: &[(&str, &str)]) -> Option<Self> {
        if !is_installed("prlimit") {
            println!("skipped: there is no prlimit, by which a running broker's writes can be made to fail");
            return None;
        }
        let options =
            settings.iter().fold(Options::default(), |options, (name, value)| options.set(name, value));
        let kohort = Kohort::start(options).unwrap();
        Connection::open(&kohort.bootstrap()).create_topic("t", 1);
        Some(Self { kohort })
    }

    /// Produces some records, well beyond the first 4 KiB of the log.
    fn fill(&self, batches: usize) -> Vec<String> {
        let mut client = Connection::open(&self.kohort.bootstrap());
        if client.values("t", 0, 0).is_err() {
            client.create_topic("t", 1);
        }
        let mut sent = Vec::new();
        for batch in 0..batches {
            let values: Vec<String> =
                (0..20).map(|number| format!("before {batch} {number} {}", "w".repeat(1000))).collect();
            client.produce("t", 0, batch_of(&values, Codec::None)).unwrap();
            sent.extend(values);
        }
        sent
    }

    /// From now on the process can write files up to this size, in bytes.
    fn limit_files(&self, size: &str) {
        let mut command = Command::new("prlimit");
        command.arg("--pid").arg(self.kohort.pid().to_string()).arg(format!("--fsize={size}:"));
        let done = run_within(command, Duration::from_secs(10)).unwrap();
        assert!(done.success(), "{done:?}");
    }

    /// Everything that was acknowledged, and nothing else, is there once after the end of the process.
    fn survive_a_kill(&mut self, acknowledged: &[String]) {
        for _ in 0..2 {
            self.kohort.kill().unwrap();
            self.kohort.restart().unwrap();
            let mut client = Connection::open(&self.kohort.bootstrap());
            assert_eq!(client.values("t", 0, 0).unwrap(), acknowledged);
        }
        self.kohort.stop().unwrap();
        let verified = kohort(&["log", "verify", "--data-dir", self.kohort.data_dir().to_str().unwrap()]);
        assert_eq!(code(&verified), Some(0), "{verified:?}");
        let said = self.kohort.output();
        assert!(!said.contains("panicked"), "{said}");
        assert!(said.contains("ERROR"), "failing writes are told\n{said}");
    }
}

/// A file system of its own, gone when dropped.
struct Mount {
    directory: tempfile::TempDir,
}

impl Mount {
    fn tmpfs(size: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(directory.path());
        match run_within(command, Duration::from_secs(10)) {
            Ok(done) if done.success() => Some(Self { directory }),
            Ok(done) => {
                println!("skipped: a file system cannot be mounted here: {}", done.stderr.trim());
                None
            }
            Err(error) => {
                println!("skipped: a file system cannot be mounted here: {error:#}");
                None
            }
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().to_owned()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        unmount(self.directory.path());
    }
}

/// Detached rather than unmounted, since a process that is about to end may still be in it.
fn unmount(path: &Path) {
    let mut command = Command::new("umount");
    command.arg("-l").arg(path);
    // If it stays, it stays until the next start of the machine; the test is over.
    let _ = run_within(command, Duration::from_secs(10));
}
