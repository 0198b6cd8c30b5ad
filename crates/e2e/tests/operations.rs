//! What whoever runs a Kohort does with it: start, stop, look, copy, command.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use batch::Codec;
use e2e::kohort::{Kohort, Options};
use e2e::ports::free_ports;
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, Producer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use wire::api::join_group::JoinGroupRequest;
use wire::encode_request;

use support::member::{
    GROUP_MAX_SIZE_REACHED, JOIN, MEMBER_ID_REQUIRED, Member, NONE, NOT_COORDINATOR, REBALANCE_IN_PROGRESS,
    SYNC,
};
use support::{Connection, batch_of, code, get, kohort, kohort_command, kohort_with, one, wait_until};

#[test]
fn a_second_process_on_the_same_directory_is_refused() {
    let first = Kohort::start(Options::default()).unwrap();
    let second = serve_until_it_ends(&first);
    assert_eq!(code(&second), Some(1), "{second:?}");
    assert!(second.stderr.contains("in use by another process"), "{}", second.stderr);
    assert!(second.stderr.contains(data_dir(&first)), "{}", second.stderr);
    let mut client = Connection::open(&first.bootstrap());
    client.create_topic("t", 1);
    assert_eq!(client.produce("t", 0, one("served all the while")), Ok(0));

    let verified = kohort(&["log", "verify", "--data-dir", data_dir(&first)]);
    assert_eq!(code(&verified), Some(1), "{verified:?}");
    assert!(verified.stderr.contains("in use by another process"), "{}", verified.stderr);
}

#[test]
fn data_of_a_newer_version_is_refused_and_left_alone() {
    let mut broker = Kohort::start(Options::default()).unwrap();
    Connection::open(&broker.bootstrap()).create_topic("t", 1);
    broker.stop().unwrap();
    let format = broker.data_dir().join("format");
    let ours = fs::read(&format).unwrap();
    let mut newer: Value = serde_json::from_slice(&ours).unwrap();
    newer["version"] = json!(newer["version"].as_u64().unwrap() + 1);
    fs::write(&format, newer.to_string()).unwrap();

    let refused = serve_until_it_ends(&broker);
    assert_eq!(code(&refused), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("format version 2"), "{}", refused.stderr);
    let verified = kohort(&["log", "verify", "--data-dir", data_dir(&broker)]);
    assert_eq!(code(&verified), Some(1), "{verified:?}");

    fs::write(&format, ours).unwrap();
    broker.restart().unwrap();
    assert_eq!(Connection::open(&broker.bootstrap()).values("t", 0, 0), Ok(Vec::new()));
}

#[test]
fn a_signal_lets_what_is_in_flight_finish_and_ends_with_zero() {
    const SENT: usize = 300;
    let mut broker = Kohort::start(Options::default()).unwrap();
    let mut client = Connection::open(&broker.bootstrap());
    client.create_topic("t", 1);
    let value = |number: usize| format!("{number} {}", "s".repeat(20_000));
    let mut sender = client.twin();
    let sending = thread::spawn(move || {
        for number in 0..SENT {
            // The broker may close before it has read all.
            if sender.send_produce("t", 0, one(&value(number))).is_err() {
                return;
            }
        }
    });
    assert_eq!(client.produced().unwrap(), Ok(0));
    let mut answered = 1;
    let status = thread::scope(|scope| {
        let stopping = scope.spawn(|| broker.stop().unwrap());
        while let Ok(outcome) = client.produced() {
            assert_eq!(outcome, Ok(i64::try_from(answered).unwrap()), "an answer during the drain");
            answered += 1;
        }
        stopping.join().unwrap()
    });
    sending.join().unwrap();
    assert_eq!(status.code(), Some(0), "{}", broker.output());
    println!("{answered} of {SENT} answered");
    assert!(broker.output().contains("draining"), "{}", broker.output());
    assert!(!broker.output().contains("panicked"), "{}", broker.output());

    broker.restart().unwrap();
    assert!(!broker.output().contains("cut an unfinished write"), "{}", broker.output());
    let stored = Connection::open(&broker.bootstrap()).values("t", 0, 0).unwrap();
    let expected: Vec<String> = (0..answered).map(value).collect();
    assert!(stored == expected, "{} stored, {answered} answered", stored.len());
}

#[test]
fn a_second_signal_ends_a_drain_that_takes_too_long() {
    let mut broker = Kohort::start(Options::default()).unwrap();
    let mut client = Connection::open(&broker.bootstrap());
    client.create_topic("t", 1);
    client.produce("t", 0, one(&"x".repeat(900_000))).unwrap();
    // A client that is owed more than the sockets hold and reads none of it holds the drain up.
    let sent = || metrics(&broker)["kohort_sent_bytes_total"];
    for _ in 0..100 {
        client.send_fetch("t", 0, 0).unwrap();
    }
    let mut last = 0.0;
    wait_until("the client is owed what it does not read", || {
        let before = std::mem::replace(&mut last, sent());
        thread::sleep(Duration::from_millis(100));
        before > 900_000.0 && last - before < 1.0
    });

    signal(&broker, Signal::TERM);
    wait_until("the broker says that it drains", || get(&broker.admin(), "/readyz").0 == 503);
    assert_eq!(get(&broker.admin(), "/readyz"), (503, "draining\n".to_owned()));
    assert_eq!(get(&broker.admin(), "/livez").0, 200);
    let asked_again = Instant::now();
    let status = broker.stop().unwrap();
    assert_eq!(status.code(), Some(143), "{}", broker.output());
    assert!(asked_again.elapsed() < Duration::from_secs(3), "{:?}", asked_again.elapsed());
}

#[test]
fn a_snapshot_under_load_is_a_directory_that_serves_all_that_was_acknowledged() {
    const PARTITIONS: i32 = 3;
    // Small files and short intervals, so that settling goes on while the copy is made.
    let options =
        Options::default().set("kohort.log.file.bytes", "1048576").set("kohort.settle.interval.ms", "20");
    let broker = Kohort::start(options).unwrap();
    Connection::open(&broker.bootstrap()).create_topic("t", PARTITIONS);
    let loads: Vec<Load> =
        (0..PARTITIONS).map(|partition| Load::start(&broker.bootstrap(), partition)).collect();
    let scratch = tempfile::tempdir().unwrap();
    let mut taken = Vec::new();
    for number in 0..3 {
        for load in &loads {
            let so_far = load.acknowledged();
            wait_until("the load goes on", || load.acknowledged() > so_far + 20);
        }
        let directory = scratch.path().join(format!("copy-{number}"));
        let before: Vec<usize> = loads.iter().map(Load::acknowledged).collect();
        let path = directory.to_str().unwrap();
        let arguments =
            ["snapshot", path, "--admin", &broker.admin(), "--data-dir", data_dir(&broker), "-o", "json"];
        let done = kohort(&arguments);
        assert_eq!(code(&done), Some(0), "{done:?}");
        let told: Value = serde_json::from_str(&done.stdout).unwrap();
        assert!(told["bytes"].as_u64().unwrap() > 0, "{told}");
        taken.push((directory, before));
    }
    let again = kohort(&[
        "snapshot",
        taken[0].0.to_str().unwrap(),
        "--admin",
        &broker.admin(),
        "--data-dir",
        data_dir(&broker),
    ]);
    assert_eq!(code(&again), Some(1), "a place that is taken is refused: {again:?}");
    let counts: Vec<usize> = loads.into_iter().map(Load::finish).collect();

    for (directory, before) in taken {
        let verified = kohort(&["log", "verify", "--data-dir", directory.to_str().unwrap(), "-o", "json"]);
        assert_eq!(code(&verified), Some(0), "{verified:?}");
        let report: Value = serde_json::from_str(&verified.stdout).unwrap();
        assert_eq!(report["findings"], json!([]), "a copy has not even what a crash may leave");
        let copy = Kohort::start(Options { data_dir: Some(directory), ..Options::default() }).unwrap();
        let mut client = Connection::open(&copy.bootstrap());
        for (partition, (before, sent)) in (0..PARTITIONS).zip(before.into_iter().zip(&counts)) {
            let stored = client.values("t", partition, 0).unwrap();
            assert!(stored.len() >= before, "{} of {before} records are in the copy", stored.len());
            assert!(stored.len() <= *sent + 1);
            assert_eq!(stored, (0..stored.len()).map(numbered).collect::<Vec<_>>());
        }
        client.produce("t", 0, one("the copy goes its own way")).unwrap();
    }
    for (partition, sent) in (0..PARTITIONS).zip(counts) {
        let stored = Connection::open(&broker.bootstrap()).values("t", partition, 0).unwrap();
        assert_eq!(stored, (0..sent).map(numbered).collect::<Vec<_>>(), "the original is as it was");
    }
}

#[test]
fn health_and_metrics_tell_what_the_broker_does() {
    let broker = Kohort::start(Options::default()).unwrap();
    assert_eq!(get(&broker.admin(), "/livez"), (200, "alive\n".to_owned()));
    wait_until("the broker is ready", || get(&broker.admin(), "/readyz") == (200, "ready\n".to_owned()));
    assert_eq!(get(&broker.admin(), "/nothing").0, 404);

    let mut client = Connection::open(&broker.bootstrap());
    client.create_topic("t", 1);
    client.produce("t", 0, one("first")).unwrap();
    let before = metrics(&broker);
    for _ in 0..7 {
        client.produce("t", 0, one("more")).unwrap();
    }
    client.values("t", 0, 0).unwrap();
    client.produce("t", 9, one("nowhere")).unwrap_err();
    let after = metrics(&broker);
    let grown = |name: &str| after.get(name).unwrap_or(&0.0) - before.get(name).unwrap_or(&0.0);
    let exactly = |name: &str, count: f64| {
        assert!((grown(name) - count).abs() < 0.5, "{name} grew by {} instead of {count}", grown(name));
    };
    exactly("kohort_requests_total{api=\"Produce\",error=\"NONE\"}", 7.0);
    exactly("kohort_requests_total{api=\"Produce\",error=\"UNKNOWN_TOPIC_OR_PARTITION\"}", 1.0);
    exactly("kohort_requests_total{api=\"Fetch\",error=\"NONE\"}", 2.0);
    exactly("kohort_request_latency_seconds_count{api=\"Produce\"}", 8.0);
    exactly("kohort_log_appends_total", 7.0);
    // One after the other, so each has a sync of its own.
    exactly("kohort_log_sync_seconds_count", 7.0);
    exactly("kohort_log_sync_seconds_bucket{le=\"+Inf\"}", 7.0);
    assert!(grown("kohort_log_sync_seconds_sum") > 0.0);
    assert!(
        grown("kohort_received_bytes_total") > 7.0 * 60.0 && grown("kohort_sent_bytes_total") > 7.0 * 30.0
    );
}

#[test]
fn topics_are_created_listed_described_altered_and_deleted_by_commands() {
    let broker = Kohort::start(Options::default()).unwrap();
    let address = broker.bootstrap();
    let topic = |arguments: &[&str]| {
        let done = kohort(&[&["topic"], arguments, &["-b", &address, "-o", "json"]].concat());
        let value = serde_json::from_str(&done.stdout).unwrap_or(Value::Null);
        (code(&done), value, done.stderr)
    };
    let outcome = |value: &str| json!({ "topic": "orders", "outcome": value });

    let create = ["create", "orders", "--partitions", "3", "--config", "retention.ms=60000"];
    assert_eq!(topic(&create), (Some(0), outcome("created"), String::new()));
    let (exit, _, complaint) = topic(&create);
    assert_eq!(exit, Some(4), "{complaint}");
    assert!(complaint.contains("orders"), "{complaint}");
    assert_eq!(
        topic(&["create", "orders", "--if-not-exists"]),
        (Some(0), outcome("exists already"), String::new())
    );
    let (exit, _, complaint) = topic(&["create", "other", "--config", "retention.mss=1"]);
    assert_eq!(exit, Some(1));
    assert!(complaint.contains("did you mean retention.ms?"), "{complaint}");
    let (exit, _, complaint) = topic(&["create", "no/name"]);
    assert_eq!(exit, Some(1), "{complaint}");
    assert_eq!(topic(&["create", "orders", "--partitions", "0"]).0, Some(2));

    let (exit, listed, _) = topic(&["list"]);
    assert_eq!(exit, Some(0));
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|topic| &topic["name"]).collect();
    assert_eq!(names, ["orders"]);
    assert_eq!((&listed[0]["partitions"], &listed[0]["internal"]), (&json!(3), &json!(false)));
    assert!(listed[0]["id"].as_str().unwrap().starts_with("top_"), "{listed}");

    Connection::open(&address).produce("orders", 1, batch_of(&["a", "b"], Codec::None)).unwrap();
    let (exit, described, _) = topic(&["describe", "orders"]);
    assert_eq!(exit, Some(0));
    let ends: Vec<_> = described[0]["partitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|partition| &partition["end_offset"])
        .collect();
    assert_eq!(ends, [0, 2, 0]);
    assert_eq!(described[0]["configs"], json!({ "retention.ms": "60000" }));
    assert_eq!(topic(&["describe", "unheard-of"]).0, Some(4));

    let alter = [
        "alter",
        "orders",
        "--partitions",
        "5",
        "--config",
        "segment.bytes=2000000",
        "--delete-config",
        "retention.ms",
    ];
    assert_eq!(topic(&alter), (Some(0), outcome("altered"), String::new()));
    let (_, described, _) = topic(&["describe", "orders"]);
    assert_eq!(described[0]["partitions"].as_array().unwrap().len(), 5);
    assert_eq!(described[0]["configs"], json!({ "segment.bytes": "2000000" }));
    assert_eq!(topic(&["alter", "orders", "--partitions", "2"]).0, Some(1), "partitions only become more");
    assert_eq!(topic(&["alter", "unheard-of", "--config", "retention.ms=1"]).0, Some(4));
    assert_eq!(topic(&["alter", "orders"]).0, Some(2), "nothing to alter is wrong usage");

    assert_eq!(topic(&["delete", "orders"]), (Some(0), outcome("deleted"), String::new()));
    assert_eq!(topic(&["delete", "orders"]).0, Some(4));
    assert_eq!(topic(&["delete", "orders", "--if-exists"]).0, Some(0));
    assert_eq!(topic(&["list"]).1, json!([]));

    drop(broker);
    assert_eq!(topic(&["list", "--timeout", "1"]).0, Some(3), "nobody is there");
}

#[test]
fn wrong_settings_are_refused_with_the_nearest_right_one() {
    let checked = kohort(&["config", "check", "--set", "num.partition=3"]);
    assert_eq!(code(&checked), Some(2), "{checked:?}");
    assert!(checked.stderr.contains("num.partition; did you mean num.partitions?"), "{}", checked.stderr);
    let checked = kohort(&["config", "check", "--set", "num.partitions=3", "-o", "json"]);
    assert_eq!(code(&checked), Some(0), "{checked:?}");
    let changed: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!((&changed[0]["name"], &changed[0]["value"]), (&json!("num.partitions"), &json!("3")));

    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("never-made");
    let serve =
        ["serve", "--listen", "127.0.0.1:0", "--admin", "none", "--data-dir", directory.to_str().unwrap()];
    let refused = kohort_with(&serve, &[("KOHORT_NUM_PARTITION", "3")]);
    assert_eq!(code(&refused), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("did you mean KOHORT_NUM_PARTITIONS?"), "{}", refused.stderr);
    let refused = kohort_with(&serve, &[("KOHORT_FLUSH", "sometimes")]);
    assert_eq!(code(&refused), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("KOHORT_FLUSH"), "{}", refused.stderr);
    assert!(!directory.exists(), "wrong settings leave nothing behind");
}

#[test]
fn every_client_is_told_the_address_that_it_dialled() {
    let scratch = tempfile::tempdir().unwrap();
    let data_dir = scratch.path().join("data");
    let mut command = kohort_command(&["serve", "--listen", "[::]:0", "--admin", "none", "--data-dir"]);
    command.arg(data_dir).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = Process(command.spawn().unwrap());
    let stdout = BufReader::new(process.0.stdout.take().unwrap());
    let mut lines = stdout.lines().map(Result::unwrap);
    let clients = lines.find_map(|line| Some(line.split_once("bootstrap.servers=")?.1.to_owned())).unwrap();
    let port: i32 = clients.rsplit(':').next().unwrap().parse().unwrap();
    let dialled = |host: &str, address: String| {
        assert_eq!(Connection::open(&address).advertised(), (host.to_owned(), port));
    };
    dialled("127.0.0.1", format!("127.0.0.1:{port}"));
    // The whole of 127/8 is this machine on Linux.
    dialled("127.0.0.2", format!("127.0.0.2:{port}"));
    if TcpListener::bind("[::1]:0").is_ok() {
        dialled("::1", format!("[::1]:{port}"));
    } else {
        println!("left out: this machine has no IPv6");
    }
}

#[test]
fn a_broker_whose_output_nobody_can_take_starts_serves_and_ends() {
    let scratch = tempfile::tempdir().unwrap();
    let [address] = free_ports().unwrap().map(|address| address.to_string());
    let mut command = kohort_command(&["serve", "--listen", &address, "--admin", "none", "--data-dir"]);
    command.arg(scratch.path().join("data")).stdin(Stdio::null());
    // Every write to it fails as on a full disk.
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut process = Process(command.stdout(full()).stderr(full()).spawn().unwrap());
    wait_until("it listens", || Connection::try_open(&address).is_ok());
    let mut client = Connection::open(&address);
    client.create_topic("t", 1);
    assert_eq!(client.produce("t", 0, one("kept")), Ok(0));
    drop(client);
    let pid = i32::try_from(process.0.id()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(process.0.wait().unwrap().code(), Some(0));
}

#[test]
fn no_flush_mode_loses_what_was_acknowledged_when_the_process_is_killed() {
    for flush in ["always", "interval", "os"] {
        let options = Options::default()
            .set("kohort.flush", flush)
            .set("kohort.log.file.bytes", "1048576")
            .set("kohort.settle.interval.ms", "50");
        let mut broker = Kohort::start(options).unwrap();
        Connection::open(&broker.bootstrap()).create_topic("t", 2);
        for partition in 0..2 {
            let load = Load::start(&broker.bootstrap(), partition);
            wait_until("enough is acknowledged", || load.acknowledged() > 300);
            broker.kill().unwrap();
            let acknowledged = load.finish();
            broker.restart().unwrap();
            let stored = Connection::open(&broker.bootstrap()).values("t", partition, 0).unwrap();
            println!("{flush}: {acknowledged} acknowledged, {} stored", stored.len());
            // The last one may have been written without its answer having arrived.
            assert!((acknowledged..=acknowledged + 1).contains(&stored.len()), "{flush}");
            assert_eq!(stored, (0..stored.len()).map(numbered).collect::<Vec<_>>(), "{flush}");
        }
        let said = broker.output();
        assert!(!said.contains("panicked") && !said.contains("ERROR"), "{said}");
    }
}

/// A producer of numbered records, one after the other, until it is told to stop or the broker goes.
struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Load {
    fn start(address: &str, partition: i32) -> Self {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (told, count) = (Arc::clone(&stop), Arc::clone(&acknowledged));
        let mut client = Connection::open(address);
        let thread = thread::spawn(move || {
            for number in 0.. {
                if told.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(outcome) = client.try_produce("t", partition, one(&numbered(number))) else { return };
                assert_eq!(outcome, Ok(i64::try_from(number).unwrap()));
                count.store(number + 1, Ordering::Release);
            }
        });
        Self { stop, acknowledged, thread }
    }

    fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Stops and gives the number of records that were acknowledged.
    fn finish(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the load has met no error");
        self.acknowledged.load(Ordering::Acquire)
    }
}

/// The record with this number; sizes differ.
fn numbered(number: usize) -> String {
    format!("{number} {}", "n".repeat(number * 37 % 3000))
}

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts another broker on the same data, which is expected to end by itself.
fn serve_until_it_ends(other: &Kohort) -> e2e::process::Finished {
    kohort(&["serve", "--listen", "127.0.0.1:0", "--admin", "none", "--data-dir", data_dir(other)])
}

fn data_dir(broker: &Kohort) -> &str {
    broker.data_dir().to_str().unwrap()
}

fn signal(broker: &Kohort, signal: Signal) {
    let pid = i32::try_from(broker.pid()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Everything that `/metrics` shows, by name and labels; fails when it is no OpenMetrics text.
fn metrics(broker: &Kohort) -> BTreeMap<String, f64> {
    let (status, text) = get(&broker.admin(), "/metrics");
    assert_eq!(status, 200);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.last(), Some(&"# EOF"), "{text}");
    let mut families = Vec::new();
    let mut samples = BTreeMap::new();
    for line in &lines[..lines.len() - 1] {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.split(' ');
            let (kind, family) = (words.next().unwrap(), words.next().unwrap());
            assert!(["HELP", "TYPE", "UNIT"].contains(&kind), "{line}");
            if kind == "TYPE" {
                assert!(!families.contains(&family), "{family} is there twice");
                families.push(family);
            }
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value in {line}"));
        let value: f64 = value.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        let bare = name.split('{').next().unwrap();
        assert!(families.iter().any(|family| bare.starts_with(family)), "{line} has no type");
        assert!(samples.insert(name.to_owned(), value).is_none(), "{name} is there twice");
    }
    samples
}

#[test]
fn a_transactional_producer_is_refused_at_once_and_in_words() {
    let kohort = Kohort::start(Options::default()).unwrap();
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", kohort.bootstrap())
        .set("transactional.id", "payments")
        .create()
        .unwrap();
    // The time only bounds the test: a client that tried again and again would use it up and say so.
    let error = producer.init_transactions(Duration::from_secs(60)).unwrap_err();
    let KafkaError::Transaction(error) = error else { panic!("{error:?}") };
    assert!(!error.is_retriable(), "{error:?}");
}

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

/// How many bytes come until the broker closes the connection.
fn ended_by(member: &mut Member) -> usize {
    let mut rest = Vec::new();
    member.connection.stream.read_to_end(&mut rest).unwrap()
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
