//! A broker as a process: started, used, drained, restarted.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::Duration;

use batch::{BatchBuilder, NewRecord};
use client::{Client, Options};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity};
use wire::api::api_versions::ApiVersionsRequest;
use wire::api::fetch::{FetchPartition, FetchRequest, FetchTopic};
use wire::api::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use wire::{RequestMessage, encode_request};

/// A running broker, killed when the test ends.
struct Broker {
    child: Child,
    stdout: BufReader<ChildStdout>,
    bootstrap: String,
    admin: String,
    announced: String,
}

impl Broker {
    fn start(data_dir: &Path) -> Self {
        Self::start_with(data_dir, &[])
    }

    /// Starts on free ports and reads what it announces up to the line that says it is ready.
    fn start_with(data_dir: &Path, args: &[&str]) -> Self {
        let mut child = serve(data_dir, args).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut announced = String::new();
        while !announced.lines().any(|line| line.starts_with("ready in ")) {
            assert_ne!(stdout.read_line(&mut announced).unwrap(), 0, "it ended after saying\n{announced}");
        }
        let after = |mark: &str| {
            let rest = announced.split_once(mark).map(|(_, rest)| rest).unwrap_or_default();
            rest.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or_default().to_owned()
        };
        let (bootstrap, admin) = (after("bootstrap.servers="), after("http://"));
        Self { child, stdout, bootstrap, admin, announced }
    }

    /// The threads with this name, as far as they have not ended meanwhile.
    fn threads(&self, name: &str) -> Vec<Thread> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        tasks.filter_map(|task| Thread::look(&task.ok()?.path(), name)).collect()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn wait(mut self) -> ExitStatus {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap()
    }

    fn topic(&self, args: &[&str]) -> Output {
        let mut command = kohort();
        command.arg("topic").args(args).args(["--bootstrap", &self.bootstrap]);
        command.output().unwrap()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // Fails only when it has ended already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command in an environment that nobody has touched.
fn kohort() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kohort"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("KOHORT_")) {
        command.env_remove(name);
    }
    command
}

fn serve(data_dir: &Path, args: &[&str]) -> Command {
    let mut command = kohort();
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data-dir"]);
    command.arg(data_dir).args(args).env("KOHORT_LOG", "warn");
    command
}

fn metrics(broker: &Broker) -> String {
    get(broker, "/metrics")
}

/// What the admin listener answers, head and all.
fn get(broker: &Broker, path: &str) -> String {
    let mut stream = TcpStream::connect(&broker.admin).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_start_says_where_data_lives_and_which_address_to_use() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let broker = Broker::start(&data);
    assert!(broker.announced.starts_with("kohort "), "{}", broker.announced);
    assert!(broker.announced.contains(&format!("data     {}", data.display())), "{}", broker.announced);
    TcpStream::connect(&broker.bootstrap).unwrap();
    TcpStream::connect(&broker.admin).unwrap();
}

#[test]
fn both_signals_drain_and_exit_with_0() {
    for signal in [Signal::TERM, Signal::INT] {
        let dir = tempfile::tempdir().unwrap();
        let broker = Broker::start(dir.path());
        // A client that is connected and asks nothing does not hold up the end.
        let _idle = TcpStream::connect(&broker.bootstrap).unwrap();
        broker.signal(signal);
        assert_eq!(broker.wait().code(), Some(0));
    }
}

/// Connects, asks for records of `topic` that may be long in coming, and returns once the broker has read that.
fn ask_for_records(broker: &Broker, topic: &str, partition_max_bytes: i32) -> TcpStream {
    let received = || {
        let metrics = metrics(broker);
        let line = metrics.lines().find_map(|line| line.strip_prefix("kohort_received_bytes_total "));
        line.unwrap().parse::<usize>().unwrap()
    };
    let partition = FetchPartition { partition_max_bytes, ..Default::default() };
    let topic = FetchTopic { topic: topic.to_owned(), partitions: vec![partition], ..Default::default() };
    let (max_wait_ms, min_bytes) = (600_000, 1);
    let fetch = FetchRequest { max_wait_ms, min_bytes, topics: vec![topic], ..Default::default() };
    let frame = encode_request(&fetch, 12, 1, None).into_bytes();
    let before = received();
    let mut client = TcpStream::connect(&broker.bootstrap).unwrap();
    client.write_all(&frame).unwrap();
    while received() < before + frame.len() {}
    client
}

/// A connection on which this request was answered.
fn answered<R: RequestMessage>(broker: &Broker, version: i16, request: &R) -> TcpStream {
    let mut client = TcpStream::connect(&broker.bootstrap).unwrap();
    client.write_all(&encode_request(request, version, 1, None).into_bytes()).unwrap();
    client.read_exact(&mut [0; 4]).unwrap();
    client
}

#[test]
fn a_fetch_that_waits_is_answered_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path());
    text(&broker.topic(&["create", "quiet"]));
    let mut client = ask_for_records(&broker, "quiet", 1);
    broker.signal(Signal::TERM);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert!(answer.len() > 4, "the connection was cut without an answer");
    assert_eq!(broker.wait().code(), Some(0));
}

#[tokio::test]
async fn a_second_signal_does_not_wait_for_the_drain() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start_with(dir.path(), &["--set", "socket.send.buffer.bytes=4096"]);
    text(&broker.topic(&["create", "large"]));
    let mut client =
        Client::connect(std::slice::from_ref(&broker.bootstrap), Options::default()).await.unwrap();
    for _ in 0..8 {
        let mut batch = BatchBuilder::new(0);
        batch.push(&NewRecord { timestamp: 1, value: Some(&[7; 1 << 19]), ..NewRecord::default() }).unwrap();
        client.produce("large", 0, batch.finish().unwrap()).await.unwrap();
    }
    // An answer that its client does not read is owed for as long as the drain has patience.
    let _unread = ask_for_records(&broker, "large", 1 << 23);
    broker.signal(Signal::TERM);
    while !get(&broker, "/readyz").ends_with("draining\n") {}
    broker.signal(Signal::INT);
    assert_eq!(broker.wait().code(), Some(130));
}

#[tokio::test]
async fn what_was_acknowledged_is_read_back_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path());
    text(&broker.topic(&["create", "orders"]));
    let mut client =
        Client::connect(std::slice::from_ref(&broker.bootstrap), Options::default()).await.unwrap();
    let mut batch = BatchBuilder::new(0);
    for value in [&b"first"[..], b"second"] {
        batch.push(&NewRecord { timestamp: 1, value: Some(value), ..NewRecord::default() }).unwrap();
    }
    let produced = client.produce("orders", 0, batch.finish().unwrap()).await.unwrap();
    assert_eq!(produced.base_offset, 0);
    broker.signal(Signal::KILL);
    broker.wait();

    let broker = Broker::start(dir.path());
    let mut client =
        Client::connect(std::slice::from_ref(&broker.bootstrap), Options::default()).await.unwrap();
    let fetched = client.fetch("orders", 0, 0, Duration::ZERO).await.unwrap();
    assert_eq!((fetched.log_start_offset, fetched.high_watermark), (0, 2));
    let described = text(&broker.topic(&["describe", "orders"]));
    assert!(described.ends_with("0          1       1         1        0      2\n"), "{described}");
}

#[test]
fn topics_survive_a_clean_end_and_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path());
    text(&broker.topic(&["create", "clean", "--partitions", "2", "--config", "retention.ms=1000"]));
    broker.signal(Signal::TERM);
    assert!(broker.wait().success());

    let broker = Broker::start(dir.path());
    assert!(broker.announced.contains("1 topic, 2 partitions"), "{}", broker.announced);
    text(&broker.topic(&["create", "killed"]));
    broker.signal(Signal::KILL);
    broker.wait();

    let broker = Broker::start(dir.path());
    let described = text(&broker.topic(&["describe", "clean", "killed"]));
    assert!(
        described.contains("Topic clean (top_") && described.contains("  retention.ms = 1000\n"),
        "{described}"
    );
    assert!(described.contains("Topic killed (top_"), "{described}");
    let shown = metrics(&broker);
    assert!(shown.contains("\nkohort_topics 2\n") && shown.contains("\nkohort_partitions 3\n"), "{shown}");
}

#[test]
fn topic_commands_exit_as_scripts_expect() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start_with(dir.path(), &["--set", "num.partitions=3"]);
    assert_eq!(text(&broker.topic(&["create", "orders"])), "orders: created\n");
    assert_eq!(broker.topic(&["create", "orders"]).status.code(), Some(4));
    assert_eq!(text(&broker.topic(&["create", "orders", "--if-not-exists"])), "orders: exists already\n");
    assert_eq!(text(&broker.topic(&["alter", "orders", "--partitions", "4"])), "orders: altered\n");
    let wrong = broker.topic(&["alter", "orders", "--config", "retention.hours=1"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("did you mean retention."), "{wrong:?}");
    let listed: serde_json::Value =
        serde_json::from_str(&text(&broker.topic(&["list", "-o", "json"]))).unwrap();
    assert_eq!((&listed[0]["name"], &listed[0]["partitions"]), (&"orders".into(), &4.into()));
    assert_eq!(text(&broker.topic(&["create", "invoices"])), "invoices: created\n");
    let some = broker.topic(&["delete", "nothing", "invoices"]);
    assert_eq!(some.status.code(), Some(4));
    assert_eq!(String::from_utf8_lossy(&some.stdout), "invoices: deleted\n");
    assert!(String::from_utf8_lossy(&some.stderr).starts_with("kohort: delete topic nothing: "), "{some:?}");
    assert_eq!(text(&broker.topic(&["delete", "orders"])), "orders: deleted\n");
    assert_eq!(broker.topic(&["delete", "orders"]).status.code(), Some(4));
    assert_eq!(broker.topic(&["describe", "orders"]).status.code(), Some(4));
}

#[test]
fn each_thread_of_connections_keeps_to_a_processor_on_a_small_machine_unless_the_setting_says_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let ours = processors(None).unwrap();
    let count = thread::available_parallelism().unwrap().get();
    let is_pinned = count == ours.len() && count <= 4;
    for (args, is_pinned) in
        [(&[][..], is_pinned), (&["--set", "kohort.connection.threads.pinned=false"], false)]
    {
        let broker = Broker::start_with(&dir.path().join(args.len().to_string()), args);
        text(&broker.topic(&["create", "orders"]));
        // Who has answered has begun: each thread that was given one of these connections, ...
        let _one_each: Vec<_> =
            (0..count).map(|_| answered(&broker, 0, &ApiVersionsRequest::default())).collect();
        let mut places: Vec<_> =
            broker.threads("kohort-net").into_iter().map(|thread| thread.processors).collect();
        places.sort();
        let own = ours.iter().map(|&processor| vec![processor]);
        let expected = if is_pinned { own.collect() } else { vec![ours.clone(); count] };
        assert_eq!(places, expected);

        // ... and one that it has started to look into a file.
        let partition = ListOffsetsPartition { timestamp: 1, ..Default::default() };
        let topic = ListOffsetsTopic { name: "orders".to_owned(), partitions: vec![partition] };
        let by_time = ListOffsetsRequest { topics: vec![topic], ..Default::default() };
        drop(answered(&broker, 1, &by_time));
        for others in ["kohort", "store-writer", "tokio-rt-worker"] {
            let threads = broker.threads(others);
            let may_go_anywhere = threads.iter().all(|thread| thread.processors == ours);
            assert!(!threads.is_empty() && may_go_anywhere, "{others}: {threads:?}");
        }
        for waiting in ["kohort-net", "store-writer"] {
            let threads = broker.threads(waiting);
            assert!(threads.iter().all(|thread| thread.policy == SCHED_BATCH), "{waiting}: {threads:?}");
        }
    }
}

/// The scheduler's number for threads that do not interrupt others.
const SCHED_BATCH: u32 = 3;

/// What the scheduler knows about a thread.
#[derive(Debug)]
struct Thread {
    processors: Vec<usize>,
    policy: u32,
}

impl Thread {
    /// Looks at the thread whose directory this is, if it has this name and has not ended.
    fn look(directory: &Path, name: &str) -> Option<Self> {
        let stat = fs::read_to_string(directory.join("stat")).ok()?;
        let (id, rest) = stat.split_once(" (")?;
        let (its_name, fields) = rest.rsplit_once(") ")?;
        if its_name != name {
            return None;
        }
        let policy = fields.split(' ').nth(38)?.parse().unwrap();
        Some(Self { processors: processors(Pid::from_raw(id.parse().unwrap()))?, policy })
    }
}

/// Where a thread may run, unless it has ended; `None` is the one that asks.
fn processors(thread: Option<Pid>) -> Option<Vec<usize>> {
    let set = sched_getaffinity(thread).ok()?;
    Some((0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect())
}

#[test]
fn a_second_broker_on_the_same_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let _first = Broker::start(dir.path());
    let second = serve(dir.path(), &[]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("is in use by another process"), "{second:?}");
}

#[tokio::test]
async fn a_snapshot_of_a_running_broker_can_be_served_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
    let broker = Broker::start(&data);
    text(&broker.topic(&["create", "orders"]));
    let mut client =
        Client::connect(std::slice::from_ref(&broker.bootstrap), Options::default()).await.unwrap();
    let mut batch = BatchBuilder::new(0);
    batch.push(&NewRecord { timestamp: 1, value: Some(b"kept"), ..NewRecord::default() }).unwrap();
    client.produce("orders", 0, batch.finish().unwrap()).await.unwrap();

    let snapshot = || {
        let mut command = kohort();
        command.arg("snapshot").arg(&copy).args(["--admin", &broker.admin, "--data-dir"]).arg(&data);
        command.output().unwrap()
    };
    text(&snapshot());
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o700);
    let again = snapshot();
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("is not empty"), "{again:?}");

    let log = |command: &str, args: &[&str]| {
        kohort().args(["log", command]).args(args).arg("--data-dir").arg(&copy).output().unwrap()
    };
    let verified = text(&log("verify", &[]));
    assert!(verified.starts_with("sound: "), "{verified}");
    assert!(text(&log("dump", &["--records"])).contains("value \"kept\""));
    let dumped = text(&log("dump", &["-o", "json"]));
    assert!(dumped.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{dumped}");

    let restored = Broker::start(&copy);
    let described = text(&restored.topic(&["describe", "orders"]));
    assert!(described.ends_with("0          1       1         1        0      1\n"), "{described}");
    let in_use = log("verify", &[]);
    assert_eq!(in_use.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&in_use.stderr).contains("in use"), "{in_use:?}");
}

/// What is logged up to the end of a start.
fn logged(data_dir: &Path, args: &[&str]) -> String {
    let mut child = serve(data_dir, &[args, &["--log", "info", "--log-format", "json"]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut logged = String::new();
    while !logged.contains("\"ready\"") {
        assert_ne!(stderr.read_line(&mut logged).unwrap(), 0, "it ended after saying\n{logged}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    logged
}

#[test]
fn the_data_directory_is_made_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let said = logged(&data, &[]);
    assert!(!said.contains("chmod"), "{said}");
    let mode = || fs::metadata(&data).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o700);
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    let said = logged(&data, &[]);
    assert_eq!(said.matches(&format!("run: chmod 700 {}", data.display())).count(), 1, "{said}");
    assert_eq!(mode(), 0o755);

    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let mut id = kohort();
    id.args(["broker", "id", "--data-dir"]).arg(&file);
    for mut command in [serve(&file, &[]), id] {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains(&format!("the data directory {}: it is not a directory", file.display())),
            "{said}"
        );
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_start_warns_of_a_listener_whose_organisation_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let said = logged(dir.path(), &["--set", "listener.name.plaintext.kohort.org=nonexist"]);
    assert!(said.contains("there is no such organisation") && said.contains("nonexist"), "{said}");
    let said = logged(dir.path(), &["--set", "listener.name.plaintext.kohort.org=default"]);
    assert!(!said.contains("there is no such organisation"), "{said}");
}

#[test]
fn logs_are_json_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let mut child =
        serve(dir.path(), &["--log", "info", "--log-format", "json", "--set", "num.io.threads=2"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let warning: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(warning["message"], "num.io.threads has no effect in Kohort");
    let ready = lines
        .map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap())
        .find(|line| line["message"] == "ready")
        .unwrap();
    assert!(ready["bootstrap"].as_str().unwrap().starts_with("127.0.0.1:"), "{ready}");
    child.kill().unwrap();
    child.wait().unwrap();
}
