//! A lone consumer with its client's default settings, from subscribe to the first record.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::{checkout, jars};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

/// How long a first record may take before the run is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Milliseconds from subscribe to the first record with librdkafka; the client exists before the clock starts.
pub(crate) fn librdkafka(bootstrap: &str, topic: &str, rounds: usize) -> Result<Vec<f64>> {
    (0..rounds)
        .map(|round| one_of_librdkafka(bootstrap, topic, &format!("{topic}-rdkafka-{round}")))
        .collect()
}

fn one_of_librdkafka(bootstrap: &str, topic: &str, group: &str) -> Result<f64> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", group)
        // The record is there before the consumer.
        .set("auto.offset.reset", "earliest")
        .create()
        .context("create a librdkafka consumer")?;
    let begun = Instant::now();
    consumer.subscribe(&[topic]).context("subscribe")?;
    loop {
        match consumer.poll(Duration::from_millis(100)) {
            Some(message) => {
                message.context("poll")?;
                return Ok(begun.elapsed().as_secs_f64() * 1e3);
            }
            None => ensure!(begun.elapsed() < PATIENCE, "librdkafka got no record within {PATIENCE:?}"),
        }
    }
}

/// The same with Kafka's own client. One consumer before those that count has its classes loaded.
pub(crate) fn java(bootstrap: &str, topic: &str, rounds: usize) -> Result<Vec<f64>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/side_by_side/FirstRecord.java");
    let classes = checkout::tools().join("first-record");
    let jars = jars::fetch()?;
    let compiled = Command::new("javac")
        .arg("-cp")
        .arg(jars.join("*"))
        .arg("-d")
        .arg(&classes)
        .arg(&source)
        .output()
        .context("run javac (cargo xtask setup installs a JDK)")?;
    ensure!(compiled.status.success(), "javac: {}", String::from_utf8_lossy(&compiled.stderr));
    let mut class_path = jars.join("*").into_os_string();
    class_path.push(":");
    class_path.push(&classes);
    let output = Command::new("java")
        .args(["-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp"])
        .arg(class_path)
        .args(["FirstRecord", bootstrap, topic, &format!("{topic}-java"), &rounds.to_string()])
        .output()
        .context("run java")?;
    ensure!(output.status.success(), "the Java consumer: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let times: Vec<f64> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
    ensure!(times.len() == rounds, "the Java consumer printed {text:?}");
    Ok(times)
}
