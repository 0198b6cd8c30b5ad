//! `consume`: records that are fetched from the start of their partitions to the end, again and again.

use std::ops::Range;

use anyhow::{Context, Result, bail, ensure};
use batch::{BatchError, BatchHeader};
use clap::Args;
use wire::ApiKey;
use wire::api::fetch::FetchRequest;

use crate::closed_loop::{self, Work};
use crate::compare::Target;
use crate::dialogue::Dialogue;
use crate::figure::{Better, Outcome};
use crate::misuse::Misuse;
use crate::options::{Common, at_least_one};
use crate::progress;
use crate::records::{FETCH_BY_NAME, append_times, batch, fetch, fetched};
use crate::scenario::produce::Records;
use crate::scenario::{Scenario, unique};
use crate::setting::Setting;
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
    /// Connections, each of which reads one partition at a time; together they go round all
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_least_one)]
    connections: usize,
    /// Threads that bring the load
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    threads: usize,
    /// Bytes that one fetch brings at most
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(i32).range(1..))]
    fetch_bytes: i32,
}

impl Scenario for Consume {
    fn name(&self) -> &'static str {
        "consume"
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Vec<Setting> {
        let mut settings = self.records.settings();
        settings.push(Setting::new("connections", self.connections));
        settings.push(Setting::called("fetch-bytes", "bytes per fetch", self.fetch_bytes));
        settings.push(Setting::unsaid("mebibytes", self.mebibytes));
        settings.push(Setting::unsaid("threads", self.threads));
        settings
    }

    fn check(&self) -> Result<(), Misuse> {
        self.records.check()
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut usize)> {
        let mut numbers = self.records.numbers();
        numbers.push(("connections", &mut self.connections));
        numbers
    }

    fn measure(&self, target: &Target) -> Result<Outcome> {
        let (address, process) = target.server()?;
        let mut dialogue = Dialogue::with_one_broker(address)?;
        let version = dialogue.versions().of(ApiKey::Fetch, FETCH_BY_NAME)?;
        let topic = unique("consume");
        let partitions = self.records.partitions;
        dialogue.create_topic(&topic, partitions)?;
        progress::step("records are produced");
        let batch = batch(self.records.batch, self.records.size, self.records.codec.codec())?;
        // What a batch takes beside its values is counted too, or tiny records would be very many.
        let each = batch.len().max(self.records.batch * self.records.size);
        let batches = (self.mebibytes.saturating_mul(1 << 20) / each).max(1);
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
        let request =
            |partition: i32| Template::new(&fetch(&topic, partition, PLACEHOLDER, self.fetch_bytes), version);
        let count = i32::try_from(partitions).context("count partitions")?;
        let requests: Vec<Template> = (0..count).map(request).collect();
        let work = |lines: Range<usize>| Fetches {
            requests: requests.clone(),
            readers: lines.map(|line| Reader { partition: line % partitions, offset: 0 }).collect(),
            stride: self.connections,
            version,
            end,
            weight: 0,
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
    /// By partition.
    requests: Vec<Template>,
    readers: Vec<Reader>,
    /// How many partitions further a reader begins when it has read one; with as many readers, all have their turn.
    stride: usize,
    version: i16,
    /// Where a partition ends.
    end: i64,
    /// Records in the last answer.
    weight: u64,
}

#[derive(Debug)]
struct Reader {
    partition: usize,
    offset: i64,
}

impl Work for Fetches {
    fn put(&mut self, line: usize, correlation_id: i32, outbox: &mut Vec<u8>) {
        let reader = &self.readers[line];
        self.requests[reader.partition].put(correlation_id, reader.offset, outbox);
    }

    fn check(&mut self, line: usize, frame: &[u8]) -> Result<i32> {
        let frame = bytes::Bytes::copy_from_slice(frame);
        let (id, response) =
            wire::decode_response::<FetchRequest>(frame, self.version).context("read the answer to Fetch")?;
        let reader = &mut self.readers[line];
        let before = reader.offset;
        let partition = i32::try_from(reader.partition).context("count partitions")?;
        let bytes = fetched(response, partition)?;
        let mut rest = &bytes[..];
        loop {
            let header = match BatchHeader::parse(rest) {
                Ok(header) => header,
                // The last batch may be cut off by the limit on bytes.
                Err(BatchError::Truncated { .. }) => break,
                Err(error) => bail!(anyhow::Error::new(error).context("read a batch that was fetched")),
            };
            let Some(behind) = rest.get(header.size()..) else { break };
            ensure!(
                header.base_offset == reader.offset,
                "a batch begins at offset {} where {} was next",
                header.base_offset,
                reader.offset
            );
            let (records, offsets) =
                (i64::from(header.records_count), i64::from(header.last_offset_delta) + 1);
            ensure!(records == offsets, "a batch has {records} records at {offsets} offsets");
            reader.offset = header.last_offset() + 1;
            rest = behind;
        }
        ensure!(reader.offset > before, "a fetch in the middle of a partition brought nothing");
        self.weight = u64::try_from(reader.offset - before).unwrap_or(0);
        if reader.offset >= self.end {
            ensure!(reader.offset == self.end, "the partition has more records than were produced");
            let partition = onwards(reader.partition, self.stride, self.requests.len());
            *reader = Reader { partition, offset: 0 };
        }
        Ok(id)
    }

    fn weight(&self) -> u64 {
        self.weight
    }
}

/// The partition that a reader goes on with.
fn onwards(partition: usize, stride: usize, partitions: usize) -> usize {
    (partition + stride) % partitions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted_server::{FetchedBatch, Tamper, measured, start};

    /// Consumes from a server whose answers are tampered with, and says what was wrong.
    fn check(tamper: Tamper, expected: &str) {
        let flags = [
            "--mebibytes",
            "1",
            "--size",
            "10000",
            "--batch",
            "10",
            "--partitions",
            "3",
            "--connections",
            "2",
        ];
        let said = measured::<Consume>(start(tamper), &flags);
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn a_log_that_is_read_from_end_to_end_is_a_result() {
        check(|_, _| (), "nothing");
    }

    #[test]
    fn a_gap_spoils_the_run() {
        check(
            |_, answer| answer.batch(|base| if base > 0 { base + 1 } else { base }),
            "offset 11 where 10 was next",
        );
    }

    #[test]
    fn a_repetition_spoils_the_run() {
        check(|_, answer| answer.batch(|_| 0), "a batch begins at offset 0 where 10 was next");
    }

    #[test]
    fn a_log_that_ends_too_early_spoils_the_run() {
        let short: Tamper = |_, answer| {
            if answer.base_offset().is_some_and(|base| base > 20) {
                answer.take_records();
            }
        };
        check(short, "a fetch in the middle of a partition brought nothing");
    }

    #[test]
    fn fewer_records_than_offsets_spoil_the_run() {
        check(|_, answer| answer.drop_a_record(), "a batch has 9 records at 10 offsets");
    }

    #[test]
    fn bytes_that_are_no_batch_spoil_the_run() {
        check(|_, answer| answer.spoil_magic(), "read a batch that was fetched");
    }

    #[test]
    fn readers_go_round_all_partitions() {
        for (partitions, readers) in [(3, 2), (6, 4), (8, 1), (2, 5)] {
            let mut seen = vec![false; partitions];
            for reader in 0..readers {
                let mut partition = reader % partitions;
                for _ in 0..partitions {
                    seen[partition] = true;
                    partition = onwards(partition, readers, partitions);
                }
            }
            assert!(seen.iter().all(|seen| *seen), "{readers} readers of {partitions} partitions");
        }
    }
}
