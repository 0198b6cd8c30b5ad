//! `consume`: records that are fetched from the start of their partitions to the end, again and again.

use std::ops::Range;

use anyhow::{Context, Result, ensure};
use batch::BatchHeader;
use clap::Args;
use wire::ApiKey;
use wire::api::fetch::FetchRequest;

use crate::closed_loop::{self, Work};
use crate::compare::Target;
use crate::dialogue::Dialogue;
use crate::figure::{Better, Outcome};
use crate::options::{Common, at_least_one};
use crate::progress;
use crate::records::{FETCH_BY_NAME, append_times, batch, fetch, judge_fetched};
use crate::scenario::produce::Records;
use crate::scenario::{Scenario, unique};
use crate::template::{PLACEHOLDER, Template};

/// What is consumed and how.
#[derive(Args, Debug)]
pub(crate) struct Consume {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    records: Records,
    /// Records that are produced to each partition before, uncompressed
    #[arg(long, value_name = "MIB", default_value_t = 32, value_parser = at_least_one)]
    mebibytes: usize,
    /// Connections, each of which reads one partition
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_least_one)]
    connections: usize,
    /// Threads that bring the load
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    threads: usize,
    /// Bytes that one fetch brings at most
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    fetch_bytes: i32,
}

impl Scenario for Consume {
    fn name(&self) -> &'static str {
        "consume"
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = self.records.settings();
        settings.push(("connections", self.connections.to_string()));
        settings.push(("bytes per fetch", self.fetch_bytes.to_string()));
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
        let mut dialogue = Dialogue::open(address)?;
        let version = dialogue.versions().of(ApiKey::Fetch, FETCH_BY_NAME)?;
        let topic = unique("consume");
        let partitions = self.records.partitions;
        dialogue.create_topic(&topic, partitions)?;
        progress::step("records are produced");
        let batch = batch(self.records.batch, self.records.size, self.records.codec.codec())?;
        let batches = ((self.mebibytes << 20) / (self.records.batch * self.records.size).max(1)).max(1);
        for partition in 0..i32::try_from(partitions).context("count partitions")? {
            append_times(&mut dialogue, &topic, partition, &batch, batches)?;
        }
        let end = i64::try_from(batches * self.records.batch).context("count records")?;
        let pressure = closed_loop::Pressure {
            connections: self.connections,
            pipeline: 1,
            threads: self.threads,
            warmup: self.common.warmup,
            duration: self.common.duration,
        };
        progress::step("records are fetched");
        let work = |lines: Range<usize>| {
            let request = |line: usize| {
                let partition = i32::try_from(line % partitions).expect("partitions are counted in 31 bits");
                Template::new(&fetch(&topic, partition, PLACEHOLDER, self.fetch_bytes), version)
            };
            let readers = lines.map(|line| Reader { request: request(line), offset: 0 }).collect();
            Fetches { readers, version, end, weight: 0 }
        };
        let gained = closed_loop::run(address, pressure, process, work)?;
        let mut outcome = Outcome::default();
        outcome.load("records", pressure, &gained);
        #[expect(clippy::cast_precision_loss, reason = "the size of a record")]
        let megabytes = gained.per_second * self.records.size as f64 / 1e6;
        outcome.add("  megabytes per second", "/s", Better::Higher, megabytes);
        dialogue.delete_topic(&topic)?;
        Ok(outcome)
    }
}

/// Fetches that each go on where the one before ended.
#[derive(Debug)]
struct Fetches {
    readers: Vec<Reader>,
    version: i16,
    /// Where a partition ends, and its readers begin again.
    end: i64,
    /// Records in the last answer.
    weight: u64,
}

#[derive(Debug)]
struct Reader {
    request: Template,
    offset: i64,
}

impl Work for Fetches {
    fn put(&mut self, line: usize, correlation_id: i32, outbox: &mut Vec<u8>) {
        let reader = &self.readers[line];
        reader.request.put(correlation_id, reader.offset, outbox);
    }

    fn check(&mut self, line: usize, frame: &[u8]) -> Result<i32> {
        let frame = bytes::Bytes::copy_from_slice(frame);
        let (id, response) =
            wire::decode_response::<FetchRequest>(frame, self.version).context("read the answer to Fetch")?;
        judge_fetched(&response)?;
        let reader = &mut self.readers[line];
        let before = reader.offset;
        let partitions = response.responses.into_iter().flat_map(|topic| topic.partitions);
        for records in partitions.filter_map(|partition| partition.records) {
            let bytes = records.into_bytes();
            let mut rest = &bytes[..];
            // The last batch may be cut off by the limit on bytes.
            while let Ok(header) = BatchHeader::parse(rest) {
                let Some(behind) = rest.get(header.size()..) else { break };
                ensure!(
                    header.base_offset == reader.offset,
                    "a batch begins at offset {} where {} was next",
                    header.base_offset,
                    reader.offset
                );
                reader.offset = header.last_offset() + 1;
                rest = behind;
            }
        }
        ensure!(reader.offset > before, "a fetch in the middle of a partition brought nothing");
        self.weight = u64::try_from(reader.offset - before).unwrap_or(0);
        if reader.offset >= self.end {
            ensure!(reader.offset == self.end, "the partition has more records than were produced");
            reader.offset = 0;
        }
        Ok(id)
    }

    fn weight(&self) -> u64 {
        self.weight
    }
}
