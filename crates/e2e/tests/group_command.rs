//! `kohort group …` beside Kafka's own kafka-consumer-groups: on a real Kafka and on Kohort both say the same, and
//! what the one changes the other sees.
//!
//! Each test passes when the machine lacks Java or the jars, except where `CI=true`.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use e2e::jars;
use e2e::kafka::Kafka;
use e2e::kohort::{Kohort, Options};
use e2e::process::{Finished, run_within};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{code, kohort};

const GROUPS: &str = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
const TOOL_LIMIT: Duration = Duration::from_secs(60);
const SETTLE_WITHIN: Duration = Duration::from_secs(60);

/// The time of the first record: 2023-11-14T22:13:20Z. Each is a second younger than the one before.
const FIRST_MS: i64 = 1_700_000_000_000;
const RECORDS: i32 = 30;
const PARTITIONS: i32 = 3;

#[test]
fn on_kafka_the_command_agrees_with_kafkas_own() {
    let Some(jars) = jars::for_tests() else { return };
    // Neither Kafka's wait for more members nor how long it takes to make a topic is what is tested here.
    let settings = [("group.initial.rebalance.delay.ms", "0"), ("offsets.topic.num.partitions", "1")];
    let kafka = Kafka::start_with(&settings).unwrap();
    let pair = Pair { jars, bootstrap: kafka.bootstrap() };
    agree(&pair);
    commands_on_a_group_of_the_newer_protocol_agree(&pair);
}

/// Proves E2E-26: deleting offsets and removing members.
#[test]
fn on_kohort_the_command_agrees_with_kafkas_own_and_explains_rebalances() {
    let Some(jars) = jars::for_tests() else { return };
    let broker = Kohort::start(Options::default()).unwrap();
    let pair = Pair { jars, bootstrap: broker.bootstrap() };
    agree(&pair);
    explain(&pair, &broker);
    what_the_admin_listener_does_not_answer_is_told(&pair, &broker);
}

/// Our command and Kafka's, on the same broker.
struct Pair {
    jars: PathBuf,
    bootstrap: String,
}

impl Pair {
    fn ours(&self, arguments: &[&str]) -> Finished {
        kohort(&[&["group"], arguments, &["--bootstrap", &self.bootstrap]].concat())
    }

    /// What our command prints; it must succeed.
    fn told(&self, arguments: &[&str]) -> String {
        let finished = self.ours(arguments);
        assert!(finished.success(), "{arguments:?}: {}{}", finished.stdout, finished.stderr);
        finished.stdout
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.told(&[arguments, &["-o", "json"]].concat())).unwrap()
    }

    /// What Kafka's tool prints.
    fn theirs(&self, arguments: &[&str]) -> String {
        let mut command = jars::java(&self.jars, "-Xmx256m");
        command.arg(GROUPS).args(["--bootstrap-server", &self.bootstrap]).args(arguments);
        let finished = run_within(command, TOOL_LIMIT).unwrap();
        assert!(finished.success(), "{arguments:?}:\n{}\n{}", finished.stdout, finished.stderr);
        finished.stdout
    }

    /// What both tables say in the columns that both have, which must be the same.
    fn same_rows(&self, ours: &[&str], theirs: &[&str]) -> BTreeSet<Row> {
        let (our_text, their_text) = (self.told(ours), self.theirs(theirs));
        let (ours, theirs) = (rows(&our_text), rows(&their_text));
        let columns = |rows: &BTreeSet<Row>| -> BTreeSet<String> {
            rows.iter().flat_map(BTreeMap::keys).cloned().collect()
        };
        let shared = &columns(&ours) & &columns(&theirs);
        let only = |rows: BTreeSet<Row>| -> BTreeSet<Row> {
            let cells = |row: Row| row.into_iter().filter(|(name, _)| shared.contains(name)).collect();
            rows.into_iter().map(cells).collect()
        };
        let (ours, theirs) = (only(ours), only(theirs));
        assert!(shared.len() >= 3, "too few columns to compare:\n{our_text}\n{their_text}");
        assert_eq!(ours, theirs, "ours:\n{our_text}\ntheirs:\n{their_text}");
        ours
    }
}

/// The cells of a row, by column.
type Row = BTreeMap<String, String>;

/// The rows of all tables in a text: a line that begins with GROUP names the columns of those that follow.
fn rows(text: &str) -> BTreeSet<Row> {
    let mut columns: Option<Vec<&str>> = None;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split_whitespace().collect();
        match (cells.first(), &columns) {
            (None, _) => columns = None,
            (Some(&"GROUP"), _) => columns = Some(cells),
            (Some(_), Some(columns)) if columns.len() == cells.len() => {
                let named = columns.iter().zip(&cells);
                found.insert(named.map(|(name, cell)| ((*name).to_owned(), (*cell).to_owned())).collect());
            }
            _ => {}
        }
    }
    found
}

fn agree(pair: &Pair) {
    fill(&pair.bootstrap);
    commands_on_idle_groups_agree(pair);
    resets_agree(pair);
    files_name_their_groups(pair);
    odd_names_mean_no_other_group(pair);
    a_commit_beyond_the_end_has_the_same_lag_everywhere(pair);
    commands_on_a_live_group_agree(pair);
    what_is_deleted_is_gone(pair);
}

/// Two topics with records of known times.
fn fill(bootstrap: &str) {
    let topic = ["--config", "retention.ms=-1", "--bootstrap", bootstrap];
    for (name, partitions) in [("orders", PARTITIONS), ("users", 1)] {
        let partitions = partitions.to_string();
        let create = [&["topic", "create", name, "--partitions", &partitions], &topic[..]].concat();
        assert_eq!(code(&kohort(&create)), Some(0));
    }
    let producer: FutureProducer =
        ClientConfig::new().set("bootstrap.servers", bootstrap).set("linger.ms", "5").create().unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut sent = Vec::new();
        for i in 0..RECORDS {
            let time = FIRST_MS + i64::from(i) * 1000;
            let record = FutureRecord::<(), str>::to("orders").partition(i % PARTITIONS).payload("order");
            sent.push(producer.send_result(record.timestamp(time)).map_err(|(error, _)| error).unwrap());
        }
        for _ in 0..7 {
            let record = FutureRecord::<(), str>::to("users").partition(0).payload("user");
            sent.push(producer.send_result(record).map_err(|(error, _)| error).unwrap());
        }
        for delivery in sent {
            delivery.await.unwrap().map_err(|(error, _)| error).unwrap();
        }
    });
}

fn commands_on_idle_groups_agree(pair: &Pair) {
    // A group begins with its first commit, and that is what a reset is.
    pair.told(&["reset", "idle", "--topic", "orders:0", "--to-offset", "4", "--execute"]);
    pair.told(&["reset", "idle", "--topic", "orders:1", "--to-latest", "--execute"]);
    pair.told(&["reset", "idle", "--topic", "users", "--to-offset", "2", "--execute"]);
    pair.told(&["reset", "other", "--topic", "users", "--to-earliest", "--execute"]);

    let listed = pair.same_rows(&["list"], &["--list", "--state", "--type"]);
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert_eq!(pair.json(&["list", "--state", "stable"]), Value::Array(Vec::new()));

    let described = pair.same_rows(&["describe", "--all-groups"], &["--describe", "--all-groups"]);
    let lags: Vec<&str> = described.iter().map(|row| row["LAG"].as_str()).collect();
    assert_eq!(lags.len(), 4, "{described:?}");
    let idle = pair.json(&["describe", "idle"]);
    assert_eq!((&idle[0]["total_lag"], &idle[0]["members"]), (&Value::from(11), &Value::from(0)), "{idle}");
    pair.same_rows(&["describe", "--all-groups", "--state"], &["--describe", "--all-groups", "--state"]);

    let absent = pair.ours(&["describe", "unheard-of"]);
    assert_eq!((code(&absent), absent.stdout.as_str()), (Some(4), ""));
    assert!(absent.stderr.contains("group unheard-of does not exist"), "{}", absent.stderr);
}

fn resets_agree(pair: &Pair) {
    for scenario in [
        &["--topic", "orders", "--to-earliest"][..],
        &["--topic", "orders:0,2", "--topic", "users", "--to-offset", "500"],
        &["--all-topics", "--shift-by", "-3"],
        &["--topic", "orders", "--to-datetime", "2023-11-14T23:13:30.500+01:00"],
        &["--all-topics", "--to-current"],
    ] {
        let ours = [&["reset", "idle"], scenario].concat();
        let theirs = [&["--reset-offsets", "--dry-run", "--group", "idle"], scenario].concat();
        let planned = pair.same_rows(&ours, &theirs);
        assert!(!planned.is_empty(), "{scenario:?} resets nothing");
    }
    let planned = pair.json(&["reset", "idle", "--topic", "orders", "--by-duration", "P36500D"]);
    assert_eq!(
        planned[0]["offsets"].as_array().unwrap().iter().filter(|it| it["new_offset"] == 0).count(),
        3
    );
    let ancient = ["reset", "idle", "--topic", "orders", "--to-datetime", "1969-12-31T23:59:59.999"];
    assert_eq!(
        pair.json(&ancient)[0]["offsets"],
        planned[0]["offsets"],
        "to a broker -1 ms would be the end"
    );
    let fresh = pair.ours(&["reset", "fresh", "idle", "--all-topics", "--to-earliest"]);
    assert_eq!((code(&fresh), rows(&fresh.stdout).len()), (Some(4), 3), "{}{}", fresh.stdout, fresh.stderr);
    assert!(fresh.stderr.contains("group fresh has no committed offsets"), "{}", fresh.stderr);
    let unshiftable = pair.ours(&["reset", "idle", "--topic", "orders", "--shift-by", "1", "--execute"]);
    assert_eq!(code(&unshiftable), Some(1), "orders-2 has no offset to shift");
    assert!(unshiftable.stderr.contains("orders-2 has no committed offset"), "{}", unshiftable.stderr);
    assert_eq!(code(&pair.ours(&["reset", "idle", "--topic", "orders:9", "--to-latest"])), Some(4));

    // What one exports the other imports.
    let export = ["reset", "idle", "other", "--topic", "users", "--to-latest", "--export"];
    let exported = pair.told(&export);
    assert_eq!(exported, "idle,users,0,7\nother,users,0,7\n");
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let several = file("several.csv", &exported);
    let theirs = ["--reset-offsets", "--group", "idle", "--group", "other", "--execute", "--from-file"];
    pair.theirs(&[&theirs[..], &[&several]].concat());
    let described = pair.json(&["describe", "other"]);
    assert_eq!(described[0]["partitions"][0]["current_offset"], 7);
    let exported = pair.theirs(&[
        "--reset-offsets",
        "--dry-run",
        "--group",
        "idle",
        "--all-topics",
        "--to-current",
        "--export",
    ]);
    let one = file("one.csv", &exported);
    pair.told(&["reset", "idle", "--topic", "orders", "--to-earliest", "--execute"]);
    pair.told(&["reset", "idle", "--from-file", &one, "--execute"]);
    let described = pair.same_rows(&["describe", "idle"], &["--describe", "--group", "idle"]);
    let offsets: Vec<&str> = described.iter().map(|row| row["CURRENT-OFFSET"].as_str()).collect();
    assert_eq!(offsets, ["0", "10", "4", "7"], "in some order: {described:?}");
}

fn files_name_their_groups(pair: &Pair) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("groups.csv");
    fs::write(&path, "\u{feff}idle,users,0,3\n\"from a file\", users ,0,1\n").unwrap();
    let path = path.to_str().unwrap();

    let one = pair.ours(&["reset", "idle", "--from-file", path]);
    assert_eq!((code(&one), rows(&one.stdout).len()), (Some(0), 1), "{}{}", one.stdout, one.stderr);
    assert!(one.stderr.contains("left alone: \"from a file\""), "{}", one.stderr);

    let all = pair.ours(&["reset", "--all-groups", "--from-file", path, "--execute"]);
    assert_eq!(code(&all), Some(0), "{}", all.stderr);
    assert!(all.stderr.contains("group \"from a file\" does not exist yet"), "{}", all.stderr);
    for (group, offset) in [("idle", 3), ("from a file", 1)] {
        let described = pair.json(&["describe", group]);
        let offsets = described[0]["partitions"].as_array().unwrap().iter();
        let users = offsets.filter(|it| it["topic"] == "users").map(|it| &it["current_offset"]);
        assert_eq!(users.collect::<Vec<_>>(), [&Value::from(offset)], "{described}");
    }
    pair.told(&["delete", "from a file"]);

    fs::write(path, "idle,users,0,3\nidle,users,0,4\n").unwrap();
    let twice = pair.ours(&["reset", "idle", "--from-file", path]);
    assert_eq!((code(&twice), twice.stdout.as_str()), (Some(2), ""));
    assert!(twice.stderr.contains("line 2: partition 0 of topic users"), "{}", twice.stderr);
}

fn odd_names_mean_no_other_group(pair: &Pair) {
    let longest = "g".repeat(32_767);
    let longer = format!("{longest}g");
    // Kafka fails to commit for a group with such a name, so only on Kohort there is one to be mistaken for.
    let made = pair.ours(&["reset", &longest, "--topic", "users", "--to-earliest", "--execute"]);
    for command in [&["delete", &longer][..], &["describe", &longer], &["remove-member", &longer, "--all"]] {
        let refused = pair.ours(command);
        assert_eq!((code(&refused), refused.stdout.as_str()), (Some(2), ""), "{}", refused.stderr);
        assert!(refused.stderr.contains("has 32768 bytes"), "{}", refused.stderr);
    }
    let member = pair.ours(&["remove-member", "idle", "--member", &longer]);
    assert_eq!(code(&member), Some(2), "{}", member.stderr);
    if made.success() {
        pair.told(&["delete", &longest]);
    }

    let empty = pair.ours(&["describe", ""]);
    assert!(empty.stderr.contains("group \"\" "), "{}", empty.stderr);
    let gone = pair.ours(&["delete-offsets", "idle", "--topic", "users:9", "--topic", "unheard-of:0"]);
    assert_eq!((code(&gone), gone.stdout.as_str()), (Some(4), ""));
    for words in ["partition 9 of topic users does not exist", "topic unheard-of does not exist"] {
        assert!(gone.stderr.contains(words), "{}", gone.stderr);
    }
    let no_topic = pair.ours(&["reset", "idle", "--topic", "a b", "--to-latest"]);
    assert!(no_topic.stderr.contains("`a b` is no name of a topic"), "{}", no_topic.stderr);
}

fn a_commit_beyond_the_end_has_the_same_lag_everywhere(pair: &Pair) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &pair.bootstrap)
        .set("group.id", "beyond")
        .create()
        .unwrap();
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset("users", 0, Offset::Offset(20)).unwrap();
    consumer.commit(&offsets, CommitMode::Sync).unwrap();
    let planned = pair.json(&["reset", "beyond", "--all-topics", "--to-current"]);
    let described = pair.json(&["describe", "beyond"]);
    assert_eq!(planned[0]["offsets"][0]["new_lag"], -13, "{planned}");
    assert_eq!(described[0]["partitions"][0]["lag"], -13, "{described}");
    pair.told(&["delete", "beyond"]);
}

fn commands_on_a_live_group_agree(pair: &Pair) {
    let members = Members::start(&pair.bootstrap, "live", &["m-0", "m-1"], &[]);
    wait_until_settled(pair, "live", 2);
    pair.same_rows(&["describe", "live"], &["--describe", "--group", "live"]);
    let shown = pair.same_rows(
        &["describe", "live", "--members", "--verbose"],
        &["--describe", "--group", "live", "--members", "--verbose"],
    );
    assert_eq!(shown.len(), 2, "{shown:?}");

    members_in_the_way_are_named(pair, "live");
    let mixed = ["reset", "idle", "live", "other", "--topic", "users", "--to-earliest", "--execute"];
    let mixed = pair.ours(&mixed);
    let reset: Vec<String> =
        rows(&mixed.stdout).into_iter().map(|mut row| row.remove("GROUP").unwrap()).collect();
    assert_eq!(
        (code(&mixed), reset),
        (Some(1), vec!["idle".to_owned(), "other".to_owned()]),
        "{}",
        mixed.stderr
    );
    assert!(mixed.stderr.contains("group live is Stable"), "{}", mixed.stderr);
    assert_eq!(pair.json(&["describe", "other"])[0]["partitions"][0]["current_offset"], 0);
    assert_eq!(code(&pair.ours(&["remove-member", "live", "--member", "nobody"])), Some(4));

    // Static members do not leave when they end, so the group keeps them until somebody removes them.
    members.stop();
    let removed = pair.json(&["remove-member", "live", "--all", "--reason", "the test is over"]);
    assert_eq!(removed.as_array().map(Vec::len), Some(2), "{removed}");
    assert_eq!(pair.json(&["describe", "live", "--state"])[0]["state"], "Empty");
}

/// What would harm members is refused, and the refusal names them.
fn members_in_the_way_are_named(pair: &Pair, group: &str) {
    let members = pair.json(&["describe", group, "--members"]);
    let members: Vec<&str> = members[0]["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["consumer_id"].as_str().unwrap())
        .collect();
    assert_eq!(members.len(), 2, "{members:?}");
    for refused in [
        &["reset", group, "--topic", "orders", "--to-earliest", "--execute"][..],
        &["delete", group],
        &["delete-offsets", group, "--topic", "orders"],
    ] {
        let finished = pair.ours(refused);
        assert_eq!((code(&finished), finished.stdout.as_str()), (Some(1), ""), "{refused:?}");
        for words in members.iter().chain(&["stop them first"]) {
            assert!(finished.stderr.contains(words), "{refused:?}: {}", finished.stderr);
        }
    }
}

fn what_is_deleted_is_gone(pair: &Pair) {
    pair.told(&["delete-offsets", "idle", "--topic", "orders"]);
    let left = rows(&pair.theirs(&["--describe", "--group", "idle"]));
    assert_eq!(left.iter().map(|row| row["TOPIC"].as_str()).collect::<Vec<_>>(), ["users"]);

    let mixed = pair.ours(&["delete", "other", "unheard-of"]);
    assert_eq!((code(&mixed), mixed.stdout.as_str()), (Some(4), "other: deleted\n"), "{}", mixed.stderr);
    pair.told(&["delete", "--all-groups"]);
    assert_eq!(pair.theirs(&["--list"]).trim(), "");
}

/// What only Kohort tells: why there was a rebalance, and by what name a group goes for ever.
fn explain(pair: &Pair, broker: &Kohort) {
    let members = Members::start(&pair.bootstrap, "live", &["m-0", "m-1"], &[]);
    wait_until_settled(pair, "live", 2);
    members.stop();
    pair.told(&["remove-member", "live", "--all", "--reason", "the test is over"]);

    let admin =
        ["--admin", &broker.admin(), "--data-dir", broker.data_dir().to_str().unwrap()].map(str::to_owned);
    let admin: Vec<&str> = admin.iter().map(String::as_str).collect();
    let events =
        |group: &str, more: &[&str]| kohort(&[&["group", "events", group], &admin[..], more].concat());
    let told = events("live", &[]);
    assert!(told.success(), "{}", told.stderr);
    // Whichever of the two came first.
    let removed = "removed by client kohort-cli at 127.0.0.1: the test is over";
    for words in ["default/consumer-groups/live", "cgp_", "joined", "instance m-", removed, "→"] {
        assert!(told.stdout.contains(words), "no {words} in:\n{}", told.stdout);
    }
    let told: Value = serde_json::from_str(&events("live", &["-o", "json"]).stdout).unwrap();
    let all = told["events"].as_array().unwrap();
    assert_eq!(all.last().unwrap()["outcome"], "empty", "{told}");
    let last: Value = serde_json::from_str(&events("live", &["--last", "1", "-o", "json"]).stdout).unwrap();
    assert_eq!(last["events"].as_array().map(Vec::len), Some(1));
    assert_eq!(code(&events("unheard-of", &[])), Some(4));

    let state = [&["describe", "live", "--state"], &admin[..]].concat();
    let state = pair.json(&state);
    assert_eq!(state[0]["id"], told["id"], "{state}");
    assert_eq!(state[0]["rrl"], "default/consumer-groups/live");
}

/// What a stopped or absent admin listener does to those who ask it.
fn what_the_admin_listener_does_not_answer_is_told(pair: &Pair, broker: &Kohort) {
    let data_dir = broker.data_dir().to_str().unwrap();
    let url = format!("http://{}/", broker.admin());
    let asked = ["group", "events", "live", "--admin", &url, "--data-dir", data_dir];
    let state = ["describe", "live", "--state", "--data-dir", data_dir, "--admin"];
    assert_eq!(code(&kohort(&asked)), Some(0));
    assert_eq!(code(&pair.ours(&[&state[..], &[&url]].concat())), Some(0));

    let absent = pair.ours(&[&state[..], &["127.0.0.1:1"]].concat());
    assert_eq!((code(&absent), absent.stdout.contains("live")), (Some(3), true), "{}", absent.stdout);
    assert!(absent.stderr.contains("cannot reach the admin listener"), "{}", absent.stderr);

    let pid = Pid::from_raw(i32::try_from(broker.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let silent = kohort(&[&asked[..], &["--timeout", "1"]].concat());
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!((code(&silent), silent.stdout.as_str()), (Some(3), ""), "{}", silent.stderr);
    assert!(silent.stderr.contains("no answer from the admin listener"), "{}", silent.stderr);
}

/// Groups of KIP-848, which Kohort has none of.
fn commands_on_a_group_of_the_newer_protocol_agree(pair: &Pair) {
    let newer = [("group.protocol", "consumer")];
    let members = Members::start(&pair.bootstrap, "newer", &["n-0", "n-1"], &newer);
    wait_until_settled(pair, "newer", 2);
    pair.same_rows(&["list"], &["--list", "--state", "--type"]);
    let same = |view: &[&str]| {
        let theirs = [&["--describe", "--group", "newer"], view].concat();
        pair.same_rows(&[&["describe", "newer"], view].concat(), &theirs)
    };
    assert_eq!(same(&[]).len(), 3, "every partition has its owner");
    let shown = same(&["--members", "--verbose"]);
    assert_eq!(shown.len(), 2, "{shown:?}");
    for row in shown {
        assert_eq!(row["CURRENT-EPOCH"], row["TARGET-EPOCH"]);
        assert_eq!(row["CURRENT-ASSIGNMENT"], row["TARGET-ASSIGNMENT"]);
        assert!(row["CURRENT-ASSIGNMENT"].starts_with("orders:"), "{row:?}");
    }
    let state = same(&["--state", "--verbose"]).pop_first().unwrap();
    assert_eq!(state["GROUP-EPOCH"], state["TARGET-ASSIGNMENT-EPOCH"]);
    members_in_the_way_are_named(pair, "newer");

    // A member that speaks the classic protocol makes the group one that is being upgraded.
    let older = Members::start(&pair.bootstrap, "newer", &["o-0"], &[]);
    wait_until_settled(pair, "newer", 3);
    let mixed = same(&["--members", "--verbose"]);
    let upgraded: Vec<&str> = mixed.iter().map(|row| row["UPGRADED"].as_str()).collect();
    assert_eq!(upgraded.iter().filter(|it| **it == "false").count(), 1, "{mixed:?}");

    older.stop();
    members.stop();
    let removed = pair.json(&["remove-member", "newer", "--all", "--reason", "the test is over"]);
    assert_eq!(removed.as_array().map(Vec::len), Some(3), "{removed}");
    assert_eq!(pair.json(&["describe", "newer", "--state"])[0]["state"], "Empty");
    pair.told(&["delete", "newer"]);
}

/// Static members of a group that read `orders` until they are stopped.
struct Members {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Members {
    fn start(bootstrap: &str, group: &str, instances: &[&str], settings: &[(&str, &str)]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let member = |instance: &&str| {
            let mut config = ClientConfig::new();
            config
                .set("bootstrap.servers", bootstrap)
                .set("group.id", group)
                .set("group.instance.id", *instance)
                .set("client.id", format!("client-{instance}"))
                .set("enable.auto.commit", "false");
            for (name, value) in settings {
                config.set(*name, *value);
            }
            let consumer: BaseConsumer = config.create().unwrap();
            consumer.subscribe(&["orders"]).unwrap();
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    consumer.poll(Duration::from_millis(50));
                }
            })
        };
        let threads = instances.iter().map(member).collect();
        Self { stop, threads }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

/// Waits until a group has so many members and every one has its partitions.
fn wait_until_settled(pair: &Pair, group: &str, members: usize) {
    let started = Instant::now();
    loop {
        let shown = pair.ours(&["describe", group, "--members", "-o", "json"]);
        let value: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
        let found = value[0]["members"].as_array().cloned().unwrap_or_default();
        let at_work = found.iter().filter(|member| member["partitions"].as_u64() > Some(0)).count();
        if value[0]["state"] == "Stable" && at_work == members {
            return;
        }
        assert!(started.elapsed() < SETTLE_WITHIN, "{}{}", shown.stdout, shown.stderr);
    }
}
