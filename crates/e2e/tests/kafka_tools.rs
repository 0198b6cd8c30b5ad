//! Kafka's own command line tools, from its published artifacts, against Kohort.
//!
//! Each test passes when the machine lacks Java or the jars, except where `CI=true`.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::broker::Broker;
use e2e::jars;
use e2e::process::run_within;
use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};

const TOOL_LIMIT: Duration = Duration::from_secs(60);
const SETTLE_WITHIN: Duration = Duration::from_secs(60);

const TOPICS: &str = "org.apache.kafka.tools.TopicCommand";
const CONFIGS: &str = "kafka.admin.ConfigCommand";
const OFFSETS: &str = "org.apache.kafka.tools.GetOffsetShell";
const DUMP: &str = "org.apache.kafka.tools.DumpLogSegments";
const LOG_DIRS: &str = "org.apache.kafka.tools.LogDirsCommand";

/// Runs a tool and returns what it printed; it must succeed.
fn tool(jars: &Path, class: &str, arguments: &[&str]) -> String {
    let mut command: Command = jars::java(jars, "-Xmx256m");
    command.arg(class).args(arguments);
    let finished = run_within(command, TOOL_LIMIT).unwrap();
    assert!(finished.success(), "{class} {arguments:?}:\n{}\n{}", finished.stdout, finished.stderr);
    finished.stdout
}

fn produce(bootstrap: &str, topic: &str, codec: &str, count: usize) {
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("compression.type", codec)
        .set("acks", "all")
        .set("linger.ms", "5")
        .create()
        .unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut sent = Vec::new();
        for i in 0..count {
            let (key, value) = (format!("key-{i}"), format!("{codec} {i} ").repeat(100));
            let headers = OwnedHeaders::new().insert(Header { key: "number", value: Some(&i.to_string()) });
            let record = FutureRecord::to(topic).partition(0).key(&key).payload(&value).headers(headers);
            sent.push(producer.send_result(record).map_err(|(error, _)| error).unwrap());
        }
        for delivery in sent {
            delivery.await.unwrap().map_err(|(error, _)| error).unwrap();
        }
    });
}

#[test]
fn kafka_topics_creates_lists_describes_alters_and_deletes() {
    let Some(jars) = jars::for_tests() else { return };
    let broker = Broker::start(&[]).unwrap();
    let at = ["--bootstrap-server", &broker.bootstrap()];
    let topics = |more: &[&str]| tool(&jars, TOPICS, &[&at, more].concat());
    // The topic of the groups is always there, and internal.
    let listed = || topics(&["--list", "--exclude-internal"]);

    let said =
        topics(&["--create", "--topic", "orders", "--partitions", "3", "--config", "retention.ms=1000000"]);
    assert!(said.contains("Created topic orders"), "{said}");
    assert_eq!(listed().trim(), "orders");
    let said = topics(&["--describe", "--topic", "orders"]);
    assert!(said.contains("PartitionCount: 3") && said.contains("retention.ms=1000000"), "{said}");
    topics(&["--alter", "--topic", "orders", "--partitions", "5"]);
    let said = topics(&["--describe", "--topic", "orders"]);
    assert!(said.contains("PartitionCount: 5"), "{said}");
    topics(&["--delete", "--topic", "orders"]);
    assert_eq!(listed().trim(), "");
}

#[test]
fn kafka_configs_describes_and_alters() {
    let Some(jars) = jars::for_tests() else { return };
    let broker = Broker::start(&[]).unwrap();
    let at = ["--bootstrap-server", &broker.bootstrap()];
    tool(&jars, TOPICS, &[&at[..], &["--create", "--topic", "orders", "--partitions", "1"]].concat());
    let entity = ["--entity-type", "topics", "--entity-name", "orders"];
    let configs = |more: &[&str]| tool(&jars, CONFIGS, &[&at[..], &entity, more].concat());

    let said = configs(&["--alter", "--add-config", "retention.ms=123456,cleanup.policy=[compact,delete]"]);
    assert!(said.contains("Completed updating config"), "{said}");
    let said = configs(&["--describe"]);
    assert!(said.contains("retention.ms=123456") && said.contains("cleanup.policy=compact,delete"), "{said}");
    let said = configs(&["--describe", "--all"]);
    assert!(said.contains("max.message.bytes=1048588") && said.contains("DEFAULT_CONFIG"), "{said}");
    configs(&["--alter", "--delete-config", "retention.ms"]);
    assert!(!configs(&["--describe"]).contains("retention.ms=123456"), "the setting is back at its default");

    let said =
        tool(&jars, CONFIGS, &[&at[..], &["--entity-type", "brokers", "--all", "--describe"]].concat());
    assert!(said.contains("message.max.bytes=1048588"), "{said}");
}

#[test]
fn kafka_get_offsets_and_log_dirs_see_what_was_produced() {
    let Some(jars) = jars::for_tests() else { return };
    let broker = Broker::start(&[]).unwrap();
    let bootstrap = broker.bootstrap();
    let at = ["--bootstrap-server", &bootstrap];
    tool(&jars, TOPICS, &[&at[..], &["--create", "--topic", "orders", "--partitions", "2"]].concat());
    produce(&bootstrap, "orders", "zstd", 250);

    let offsets =
        |time: &str| tool(&jars, OFFSETS, &[&at[..], &["--topic", "orders", "--time", time]].concat());
    assert_eq!(offsets("latest").lines().collect::<Vec<_>>(), ["orders:0:250", "orders:1:0"]);
    assert_eq!(offsets("earliest").lines().collect::<Vec<_>>(), ["orders:0:0", "orders:1:0"]);
    let said = tool(&jars, LOG_DIRS, &[&at[..], &["--describe", "--topic-list", "orders"]].concat());
    assert!(said.contains("\"partition\":\"orders-0\""), "{said}");
}

#[test]
fn dump_log_reads_a_settled_segment() {
    let Some(jars) = jars::for_tests() else { return };
    let broker =
        Broker::start(&[("log.segment.bytes", "1048576"), ("kohort.settle.interval.ms", "200")]).unwrap();
    let bootstrap = broker.bootstrap();
    let at = ["--bootstrap-server", &bootstrap];
    tool(&jars, TOPICS, &[&at[..], &["--create", "--topic", "orders", "--partitions", "1"]].concat());

    // More is sent until a whole segment lies in its own file; how much that takes is the store's business.
    let started = Instant::now();
    let segment = loop {
        for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
            produce(&bootstrap, "orders", codec, 1000);
        }
        if let Some(segment) = first_of_two_segments(&broker) {
            break segment;
        }
        assert!(started.elapsed() < SETTLE_WITHIN, "no segment was settled");
    };

    let file = segment.to_str().unwrap();
    let said = tool(&jars, DUMP, &["--files", file, "--deep-iteration", "--print-data-log"]);
    let records: Vec<&str> = said.lines().filter(|line| line.starts_with("| offset: ")).collect();
    assert!(records.len() > 100, "the tool found {} records in {file}:\n{said}", records.len());
    for (i, record) in records.iter().enumerate() {
        assert!(record.starts_with(&format!("| offset: {i} ")), "record {i} is out of place: {record}");
        assert!(record.contains("headerKeys: [number]"), "{record}");
    }
    let batches: Vec<&str> = said.lines().filter(|line| line.starts_with("baseOffset: ")).collect();
    assert!(
        batches.iter().all(|batch| batch.contains("isvalid: true")),
        "a batch is damaged:\n{}",
        batches.join("\n")
    );
    for problem in ["mismatch", "corrupt", "Non-consecutive", "Found"] {
        assert!(!said.contains(problem), "the tool complains: {said}");
    }
}

/// The oldest segment of the partition that has at least two, so that it is closed.
fn first_of_two_segments(broker: &Broker) -> Option<PathBuf> {
    let partitions = match broker {
        Broker::Kohort(kohort) => kohort.data_dir().join("topics"),
        Broker::Gateways(deployment) => deployment.data_dir().join("topics"),
        Broker::Kafka(kafka) => kafka.data(),
    };
    let mut segments = BTreeMap::new();
    collect_segments(&partitions, &mut segments);
    segments
        .into_values()
        .filter(|segments| segments.len() >= 2)
        .filter_map(|segments| segments.into_iter().min())
        .next()
}

fn collect_segments(directory: &Path, found: &mut BTreeMap<PathBuf, Vec<PathBuf>>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let stem = path.file_stem().and_then(|it| it.to_str()).unwrap_or_default();
        if path.is_dir() {
            // Kafka keeps its own metadata as a log, too.
            if !stem.starts_with("__") {
                collect_segments(&path, found);
            }
        } else if path.extension().is_some_and(|it| it == "log")
            && stem.len() == 20
            && stem.parse::<u64>().is_ok()
        {
            found.entry(directory.to_owned()).or_default().push(path);
        }
    }
}
