//! Records and the process itself: starting, producing, consuming, memory, recovery.

use std::time::Duration;

use anyhow::Result;
use bench::plot::Aim;
use e2e::kafka::Kafka;
use e2e::kohort::{Kohort, Options};

use crate::generator::{Generator, On};
use crate::load::Connection;
use crate::owed::Owed;
use crate::page::{Page, Part, What};
use crate::process::megabytes;
use crate::tools::Tools;
use crate::{Scale, growth, recovery, unread};

const READY: What = lower("ready after start", "ms");
const IDLE: What = lower("memory, idle", "MB");
const RDKAFKA_IN: What = higher("produce, librdkafka's tool, 1 KiB, acks=all", "records/s");
const RDKAFKA_OUT: What = higher("consume, librdkafka's tool", "records/s");
const JAVA_IN: What = higher("produce, Kafka's tool, 1 KiB, acks=all", "records/s");
const AFTER: What = lower("memory after the load", "MB");
const P50: What = lower("produce latency, one in flight, p50", "ms");
const P99: What = lower("produce latency, one in flight, p99", "ms");
const OUR_IN: What = higher("produce, our generator, 4 × 5 batches of 16 KiB in flight", "records/s");
const OUR_OUT: What = higher("consume, our generator, 4 connections", "records/s");
const CONNECTED: What = lower("5,000 connections made and answered", "ms");
const ASKED: What = higher("requests on 5,000 connections", "/s");
const PARTITIONS: What = lower("the same batches over 1,000 partitions instead of 1", "times the time");
const RECOVERED: What = lower("1 GiB of unsettled records there again after kill -9", "ms");
const UNREAD: What = lower("memory under 20 readers that ask for 400 × 50 MiB and never read", "MB");

/// How long a broker is left alone before its idle memory is read.
const IDLE_FOR: Duration = Duration::from_secs(2);

/// The cache of recent batches, the budget of answers that nobody reads, and as much again for the rest.
const UNREAD_AT_MOST: f64 = 256.0;

const fn lower(name: &'static str, unit: &'static str) -> What {
    What { part: Part::Records, name, unit, aim: Aim::Less }
}

const fn higher(name: &'static str, unit: &'static str) -> What {
    What { part: Part::Records, name, unit, aim: Aim::More }
}

/// Measures all but groups.
pub(crate) fn measure(tools: &Tools, scale: Scale, generator: &mut Generator, page: &mut Page) -> Result<()> {
    for repetition in 1..=scale.repetitions {
        println!("-- Kohort under the clients' own tools, {repetition} of {}", scale.repetitions);
        let kohort = Kohort::start(Options::default())?;
        let side = Side { is_kohort: true, bootstrap: kohort.bootstrap(), pid: kohort.pid() };
        side.measure(kohort.ready_after(), tools, scale, page)?;
        drop(kohort);
        println!("-- Kafka under the clients' own tools, {repetition} of {}", scale.repetitions);
        let kafka = Kafka::start()?;
        let side = Side { is_kohort: false, bootstrap: kafka.bootstrap(), pid: kafka.pid() };
        side.measure(kafka.ready_after(), tools, scale, page)?;
    }
    page.owe(READY, Owed::ShareOfKafka(0.05));
    page.owe(IDLE, Owed::AtMost(25.0));
    for what in [RDKAFKA_IN, RDKAFKA_OUT, JAVA_IN] {
        page.owe(what, Owed::TimesKafka(1.0));
    }
    page.owe(AFTER, Owed::ShareOfKafka(0.2));
    side_by_side(scale, generator, page)?;
    records_after_a_kill(scale, generator, page)?;
    page.add(UNREAD, true, vec![unread::measure()?]);
    page.owe(UNREAD, Owed::AtMost(UNREAD_AT_MOST));
    Ok(())
}

/// A broker that was just started.
struct Side {
    is_kohort: bool,
    bootstrap: String,
    pid: u32,
}

impl Side {
    fn measure(&self, ready: Duration, tools: &Tools, scale: Scale, page: &mut Page) -> Result<()> {
        let bootstrap = &self.bootstrap;
        let mut add = |what, value| page.add(what, self.is_kohort, vec![value]);
        add(READY, ready.as_secs_f64() * 1e3);
        std::thread::sleep(IDLE_FOR);
        add(IDLE, megabytes(self.pid)?);
        let mut connection = Connection::open(bootstrap)?;
        for topic in ["rdkafka", "java"] {
            connection.create_topic(topic, 1)?;
        }
        add(RDKAFKA_IN, tools.rdkafka_produce(bootstrap, "rdkafka", scale.rdkafka_records)?);
        connection.expect_records("rdkafka", scale.rdkafka_records)?;
        add(RDKAFKA_OUT, tools.rdkafka_consume(bootstrap, "rdkafka", scale.rdkafka_records)?);
        add(JAVA_IN, tools.java_produce(bootstrap, "java", scale.java_records, &[])?);
        connection.expect_records("java", scale.java_records)?;
        add(AFTER, megabytes(self.pid)?);
        Ok(())
    }
}

/// What the generator measures on both in turn.
fn side_by_side(scale: Scale, generator: &mut Generator, page: &mut Page) -> Result<()> {
    let (kohort, kafka) = (Kohort::start(Options::default())?, Kafka::start()?);
    let both = On::Both { kohort: kohort.bootstrap(), kafka: kafka.bootstrap() };
    // A JVM compiles what it runs often; what it does until then is thrown away.
    generator.warm(&["produce", "--pipeline", "5"], &both)?;
    let latency = generator.run(&["latency", "--request", "produce"], &both)?;
    page.note("latency", &latency);
    page.compare(P50, &latency, "Produce, p50")?;
    page.compare(P99, &latency, "Produce, p99")?;
    page.owe(P99, Owed::AtMost(5.0));
    let produced = generator.run(&["produce", "--pipeline", "5"], &both)?;
    page.note("produce", &produced);
    page.compare(OUR_IN, &produced, "records per second, 5 in flight")?;
    let consumed = generator.run(&["consume"], &both)?;
    page.note("consume", &consumed);
    page.compare(OUR_OUT, &consumed, "records per second, 1 in flight")?;
    let connections = scale.connections.to_string();
    let connected = generator.run(&["connections", "--connections", &connections], &both)?;
    page.note("connections", &connected);
    page.compare(CONNECTED, &connected, "all connected and answered after")?;
    page.compare(ASKED, &connected, "requests per second on all")?;
    let points = growth::of_records(scale, &both, generator, page)?;
    for (target, is_kohort) in [("kohort", true), ("kafka", false)] {
        // The same work at a rate that is lower takes a time that is longer.
        let time = 1.0 / points.growth(target, "records per second, 5 in flight")?;
        page.add(PARTITIONS, is_kohort, vec![time]);
    }
    page.owe(PARTITIONS, Owed::AtMost(1.3));
    Ok(())
}

fn records_after_a_kill(scale: Scale, generator: &mut Generator, page: &mut Page) -> Result<()> {
    // Nothing is settled, so that all of it has to be read back.
    let unsettled = ["kohort.settle.interval.ms=3600000", "kohort.settle.backlog.bytes=8589934592"];
    let mebibytes = scale.recovery_mebibytes.to_string();
    let state = ["--groups", "0", "--mebibytes", &mebibytes];
    const THERE: &str = "all records there after";
    for _ in 0..scale.repetitions {
        let ours = recovery::of_kohort(generator, &state, &unsettled)?;
        page.add(RECOVERED, true, ours.values("server", THERE)?);
        let theirs = recovery::of_kafka(generator, &state)?;
        page.add(RECOVERED, false, theirs.values("server", THERE)?);
    }
    page.owe(RECOVERED, Owed::AtMost(2000.0));
    Ok(())
}
