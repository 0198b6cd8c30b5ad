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
use crate::options::{Common, at_least_one};
use crate::process::ServerProcess;
use crate::progress;
use crate::records::{self, PRODUCE_BY_NAME, batch};
use crate::scenario::{Scenario, unique};
use crate::template::CLIENT_ID;

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
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
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
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("record bytes", self.size.to_string()),
            ("records per batch", self.batch.to_string()),
            ("partitions", self.partitions.to_string()),
            ("codec", format!("{:?}", self.codec).to_lowercase()),
        ]
    }
}

impl Scenario for Produce {
    fn name(&self) -> &'static str {
        "produce"
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = self.records.settings();
        settings.push(("acks", format!("{:?}", self.acks).to_lowercase()));
        settings.push(("connections", self.connections.to_string()));
        settings
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut usize)> {
        let Self { records, connections, .. } = self;
        vec![
            ("size", &mut records.size),
            ("batch", &mut records.batch),
            ("partitions", &mut records.partitions),
            ("connections", connections),
        ]
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
    let mut dialogue = Dialogue::open(address)?;
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
    let acknowledged: u64 = gained.works.iter().map(|work| work.acknowledged).sum();
    let held = end_offsets(&mut dialogue, &topic, records.partitions)? - before;
    ensure!(held == acknowledged, "{acknowledged} records were acknowledged and the log has {held}");
    dialogue.delete_topic(&topic)?;
    Ok(gained)
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
    let mut sum = 0;
    for partition in answer.topics.iter().flat_map(|topic| &topic.partitions) {
        accepted(partition.error_code, "ListOffsets")?;
        sum += u64::try_from(partition.offset).context("read an end offset")?;
    }
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
