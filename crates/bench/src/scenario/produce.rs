//! `produce`: record batches that are appended.

use std::net::SocketAddr;
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use wire::ApiKey;
use wire::api::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use wire::api::produce::ProduceRequest;

use crate::closed_loop::{self, Work};
use crate::compare::Target;
use crate::dialogue::{Dialogue, accepted};
use crate::figure::{Better, Outcome};
use crate::misuse::Misuse;
use crate::options::{Common, at_least_one};
use crate::process::ServerProcess;
use crate::progress;
use crate::records::{self, PRODUCE_BY_NAME, batch};
use crate::scenario::{Scenario, unique};
use crate::setting::{Setting, listed};
use crate::template::CLIENT_ID;

/// No server takes larger batches, unless somebody has told it to.
const LARGEST_BATCH: usize = 64 << 20;

/// What is produced and how.
#[derive(Args, Debug)]
pub(crate) struct Produce {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    records: Records,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_least_one)]
    connections: usize,
    /// Requests in flight on each connection; several numbers are measured one after the other
    #[arg(long, value_name = "N,…", default_value = "1,5", value_delimiter = ',', value_parser = at_least_one)]
    pipeline: Vec<usize>,
    /// Threads that bring the load
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    threads: usize,
    /// When a batch is acknowledged
    #[arg(long, value_enum, default_value_t = Acks::All)]
    acks: Acks,
}

/// What records are like.
#[derive(Args, Clone, Debug)]
pub(crate) struct Records {
    /// Bytes in each record's value
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = at_least_one)]
    pub(crate) size: usize,
    /// Records in each batch
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = at_least_one)]
    pub(crate) batch: usize,
    /// Partitions, over which batches are spread
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_least_one)]
    pub(crate) partitions: usize,
    /// How batches are compressed
    #[arg(long, value_enum, default_value_t = Compression::None)]
    pub(crate) codec: Compression,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Acks {
    /// By the leader
    #[value(alias = "1")]
    One,
    /// By all replicas
    #[value(alias = "-1")]
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compression {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Compression {
    pub(crate) fn codec(self) -> ::batch::Codec {
        match self {
            Self::None => ::batch::Codec::None,
            Self::Gzip => ::batch::Codec::Gzip,
            Self::Snappy => ::batch::Codec::Snappy,
            Self::Lz4 => ::batch::Codec::Lz4,
            Self::Zstd => ::batch::Codec::Zstd,
        }
    }
}

impl Records {
    /// The numbers that can be swept, by their flags.
    pub(crate) fn numbers(&mut self) -> Vec<(&'static str, &mut usize)> {
        let Self { size, batch, partitions, .. } = self;
        vec![("size", size), ("batch", batch), ("partitions", partitions)]
    }

    pub(crate) fn settings(&self) -> Vec<Setting> {
        vec![
            Setting::called("size", "record bytes", self.size),
            Setting::called("batch", "records per batch", self.batch),
            Setting::new("partitions", self.partitions),
            Setting::new("codec", format!("{:?}", self.codec).to_lowercase()),
        ]
    }

    pub(crate) fn check(&self) -> Result<(), Misuse> {
        match self.batch.checked_mul(self.size) {
            Some(..=LARGEST_BATCH) => Ok(()),
            _ => Err(Misuse::new(format!(
                "{} records of {} bytes are more than the {LARGEST_BATCH} bytes that a batch may have here",
                self.batch, self.size
            ))),
        }
    }
}

impl Scenario for Produce {
    fn name(&self) -> &'static str {
        "produce"
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Vec<Setting> {
        let mut settings = self.records.settings();
        settings.push(Setting::new("acks", format!("{:?}", self.acks).to_lowercase()));
        settings.push(Setting::new("connections", self.connections));
        settings.push(Setting::unsaid("pipeline", listed(&self.pipeline)));
        settings.push(Setting::unsaid("threads", self.threads));
        settings
    }

    fn check(&self) -> Result<(), Misuse> {
        self.records.check()?;
        Misuse::unless_distinct("--pipeline", &self.pipeline)
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut usize)> {
        let mut numbers = self.records.numbers();
        numbers.push(("connections", &mut self.connections));
        numbers
    }

    fn measure(&self, target: &Target) -> Result<Outcome> {
        let (address, process) = target.server()?;
        let mut outcome = Outcome::default();
        for &pipeline in &self.pipeline {
            let pressure = closed_loop::Pressure {
                connections: self.connections,
                pipeline,
                threads: self.threads,
                warmup: self.common.warmup,
                duration: self.common.duration,
            };
            progress::step(&format!("produce, {pipeline} in flight"));
            let gained = produce(address, process, pressure, &self.records, self.acks)?;
            outcome.load("records", pressure, &gained);
            #[expect(clippy::cast_precision_loss, reason = "the size of a record")]
            let megabytes = gained.per_second * self.records.size as f64 / 1e6;
            outcome.add(
                format!("  megabytes per second, {pipeline} in flight"),
                "/s",
                Better::Higher,
                megabytes,
            );
        }
        Ok(outcome)
    }
}

/// Produces batches to a topic of their own and checks that the log has each acknowledged record once.
fn produce(
    address: SocketAddr,
    process: Option<ServerProcess>,
    pressure: closed_loop::Pressure,
    records: &Records,
    acks: Acks,
) -> Result<closed_loop::Yield<Batches>> {
    let mut dialogue = Dialogue::with_one_broker(address)?;
    let version = dialogue.versions().of(ApiKey::Produce, PRODUCE_BY_NAME)?;
    let topic = unique("produce");
    dialogue.create_topic(&topic, records.partitions)?;
    let batch = batch(records.batch, records.size, records.codec.codec())?;
    for partition in 0..i32::try_from(records.partitions).context("count partitions")? {
        records::append(&mut dialogue, &topic, partition, &batch)?;
    }
    let before = end_offsets(&mut dialogue, &topic, records.partitions)?;
    let acks = match acks {
        Acks::One => 1,
        Acks::All => -1,
    };
    let request = |partition: usize| -> Vec<u8> {
        let partition = i32::try_from(partition).expect("partitions are counted in 31 bits");
        let request = records::produce(&topic, partition, acks, &batch);
        wire::encode_request(&request, version, 0, Some(CLIENT_ID)).into_bytes().to_vec()
    };
    let requests: Vec<Vec<u8>> = (0..records.partitions).map(request).collect();
    let work = |lines: Range<usize>| Batches {
        next: lines.map(|line| line % records.partitions).collect(),
        requests: requests.clone(),
        version,
        records: records.batch as u64,
        acknowledged: 0,
    };
    let gained = closed_loop::run(address, pressure, process, work)?;
    let acknowledged = gained.works.iter().map(|work| work.acknowledged).sum();
    holds(&mut dialogue, &topic, records.partitions, before, acknowledged)?;
    dialogue.delete_topic(&topic)?;
    Ok(gained)
}

/// Fails unless the topic's end offsets have grown by exactly what was acknowledged.
pub(crate) fn holds(
    dialogue: &mut Dialogue,
    topic: &str,
    partitions: usize,
    before: u64,
    acknowledged: u64,
) -> Result<()> {
    let held = end_offsets(dialogue, topic, partitions)?.saturating_sub(before);
    ensure!(held == acknowledged, "{acknowledged} records were acknowledged and the log has {held}");
    Ok(())
}

/// The sum of a topic's end offsets.
pub(crate) fn end_offsets(dialogue: &mut Dialogue, topic: &str, partitions: usize) -> Result<u64> {
    const LATEST: i64 = -1;
    let count = i32::try_from(partitions).context("count partitions")?;
    let partition =
        |partition_index| ListOffsetsPartition { partition_index, timestamp: LATEST, ..Default::default() };
    let request = ListOffsetsRequest {
        replica_id: -1,
        isolation_level: 0,
        topics: vec![ListOffsetsTopic {
            name: topic.to_owned(),
            partitions: (0..count).map(partition).collect(),
        }],
        timeout_ms: 30_000,
    };
    let answer = dialogue.ask(&request, 9)?;
    let (mut sum, mut found) = (0, 0);
    for partition in answer.topics.iter().flat_map(|topic| &topic.partitions) {
        accepted(partition.error_code, "ListOffsets")?;
        sum += u64::try_from(partition.offset).context("read an end offset")?;
        found += 1;
    }
    ensure!(found == partitions, "ListOffsets of {partitions} partitions was answered for {found}");
    Ok(sum)
}

/// Batches for one partition after the other.
#[derive(Debug)]
struct Batches {
    /// By partition.
    requests: Vec<Vec<u8>>,
    /// By connection, the partition that is next.
    next: Vec<usize>,
    version: i16,
    records: u64,
    acknowledged: u64,
}

impl Work for Batches {
    fn put(&mut self, line: usize, correlation_id: i32, outbox: &mut Vec<u8>) {
        let start = outbox.len();
        outbox.extend_from_slice(&self.requests[self.next[line]]);
        outbox[start + 8..start + 12].copy_from_slice(&correlation_id.to_be_bytes());
        self.next[line] = (self.next[line] + 1) % self.requests.len();
    }

    fn check(&mut self, _: usize, frame: &[u8]) -> Result<i32> {
        let frame = bytes::Bytes::copy_from_slice(frame);
        let (id, response) = wire::decode_response::<ProduceRequest>(frame, self.version)
            .context("read the answer to Produce")?;
        records::judge_produced(&response)?;
        self.acknowledged += self.records;
        Ok(id)
    }

    fn weight(&self) -> u64 {
        self.records
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wire::AnyResponse;

    use super::*;
    use crate::scripted_server::{ListedOffset, Tamper, start};

    const RECORDS: Records = Records { size: 10, batch: 3, partitions: 2, codec: Compression::None };

    /// Produces to a server whose answers are tampered with, and says what was wrong.
    fn check(tamper: Tamper, expected: &str) {
        let pressure = closed_loop::Pressure {
            connections: 2,
            pipeline: 2,
            threads: 1,
            warmup: Duration::ZERO,
            duration: Duration::from_millis(20),
        };
        let outcome = produce(start(tamper), None, pressure, &RECORDS, Acks::All);
        let said = outcome.map_or_else(|error| format!("{error:#}"), |_| "nothing".to_owned());
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn a_log_with_every_acknowledged_record_is_a_result() {
        check(|_, _| (), "nothing");
    }

    #[test]
    fn a_log_that_lacks_a_record_spoils_the_run() {
        check(|_, answer| answer.list(|end| if end > 3 { end - 1 } else { end }), "and the log has");
    }

    #[test]
    fn a_log_that_has_a_record_twice_spoils_the_run() {
        check(|_, answer| answer.list(|end| if end > 3 { end + 1 } else { end }), "and the log has");
    }

    #[test]
    fn an_acknowledgement_of_nothing_spoils_the_run() {
        let nothing: Tamper = |_, answer| {
            if let AnyResponse::Produce(answer) = answer {
                answer.responses.clear();
            }
        };
        check(nothing, "Produce to one partition was answered for 0");
    }

    #[test]
    fn several_brokers_are_refused_at_once() {
        let cluster: Tamper = |_, answer| {
            if let AnyResponse::Metadata(answer) = answer {
                answer.brokers = vec![Default::default(); 3];
            }
        };
        check(cluster, "bench measures one broker; this cluster has 3");
    }
}
