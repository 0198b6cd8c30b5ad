//! `recovery`: from a kill to the first answers about groups and records that the server had.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use batch::Codec;
use clap::Args;
use coordination::error_code::ErrorCode;

use crate::compare::Target;
use crate::dialogue::{Dialogue, accepted, comes_later};
use crate::figure::Outcome;
use crate::misuse::Misuse;
use crate::options::{Common, at_least_one};
use crate::progress;
use crate::records::{append_times, batch};
use crate::scenario::groups::{OFFSET, create};
use crate::scenario::produce::end_offsets;
use crate::scenario::{Scenario, unique};
use crate::server_command::Server;
use crate::setting::Setting;

/// How to start it, and what it has when it is killed.
#[derive(Args, Debug)]
pub(crate) struct Recovery {
    #[command(flatten)]
    common: Common,
    /// The program that starts the server at --bootstrap, with its arguments, as a shell reads them; on the same data
    /// each time, which is empty before
    #[arg(long, value_name = "COMMAND", conflicts_with = "compare")]
    command: String,
    /// Groups with committed offsets
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    groups: usize,
    /// Committed offsets in each
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = at_least_one)]
    offsets: usize,
    /// Records, in batches of half a mebibyte
    #[arg(long, value_name = "MIB", default_value_t = 0)]
    mebibytes: usize,
}

/// Groups that are looked at after the restart: enough to meet every partition of the offsets topic.
const SAMPLES: usize = 1000;

/// How long groups and records may take to be there again.
const LOADED_WITHIN: Duration = Duration::from_secs(120);

/// Where the records go.
const PARTITIONS: usize = 4;

/// Records in each batch, of a KiB each.
const BATCH: usize = 512;

impl Scenario for Recovery {
    fn name(&self) -> &'static str {
        "recovery"
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Vec<Setting> {
        vec![
            Setting::new("groups", self.groups),
            Setting::called("offsets", "offsets per group", self.offsets),
            Setting::called("mebibytes", "MiB of records", self.mebibytes),
            Setting::unsaid("command", &self.command),
        ]
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut usize)> {
        vec![("groups", &mut self.groups), ("offsets", &mut self.offsets), ("mebibytes", &mut self.mebibytes)]
    }

    fn check(&self) -> Result<(), Misuse> {
        // What one run has made is there in the next, which would measure more than it says.
        if self.common.sweep.is_some() || self.common.repetitions.is_some_and(|often| often > 1) {
            return Err(Misuse::new(
                "recovery measures once, on data that nobody used before; start it anew for each run",
            ));
        }
        Ok(())
    }

    fn measure(&self, target: &Target) -> Result<Outcome> {
        let (address, _) = target.server()?;
        let server = Server::start(&self.command, address)?;
        let mut dialogue = Dialogue::with_one_broker(address)?;
        let (topic, run) = (unique("recovery"), unique("recovery"));
        dialogue.create_topic(&topic, self.offsets.max(PARTITIONS))?;
        let records = self.append_records(&mut dialogue, &topic)?;
        progress::step(&format!("{} groups commit {} offsets each", self.groups, self.offsets));
        let names: Vec<String> = (0..self.groups).map(|number| format!("{run}-{number}")).collect();
        dialogue.await_coordinators(&names)?;
        create(address, dialogue.versions(), &topic, self.offsets, &names)?;
        drop(dialogue);
        server.kill()?;

        progress::step("the server starts again");
        let begun = Instant::now();
        let server = Server::start(&self.command, address)?;
        let mut outcome = Outcome::default();
        outcome.time("first answer after", server.ready_after);
        let mut dialogue = Dialogue::open(address)?;
        if records > 0 {
            let held = loop {
                // Partitions may open one after the other.
                match end_offsets(&mut dialogue, &topic, PARTITIONS) {
                    Err(_) if begun.elapsed() < LOADED_WITHIN => thread::sleep(Duration::from_millis(1)),
                    held => break held?,
                }
            };
            ensure!(held == records, "{records} records were acknowledged and {held} came back");
            outcome.time("all records there after", begun.elapsed());
        }
        if !names.is_empty() {
            for group in names.iter().step_by(self.groups.div_ceil(SAMPLES)) {
                while !self.is_loaded(&mut dialogue, group)? {
                    ensure!(begun.elapsed() < LOADED_WITHIN, "groups are not loaded after {LOADED_WITHIN:?}");
                    thread::sleep(Duration::from_millis(1));
                }
            }
            outcome.time("all groups there after", begun.elapsed());
        }
        #[expect(clippy::cast_precision_loss, reason = "memory is shown in a few digits")]
        outcome.bytes("memory", "MB", server.process().resident()? as f64 / 1e6);
        server.kill()?;
        Ok(outcome)
    }
}

impl Recovery {
    /// Appends what is asked for and says how many records that are.
    fn append_records(&self, dialogue: &mut Dialogue, topic: &str) -> Result<u64> {
        progress::step(&format!("{} MiB of records are appended", self.mebibytes));
        let batch = batch(BATCH, 1024, Codec::None)?;
        let each = ((self.mebibytes << 20) / batch.len()).div_ceil(PARTITIONS);
        for partition in 0..i32::try_from(PARTITIONS).context("count partitions")? {
            append_times(dialogue, topic, partition, &batch, each)?;
        }
        Ok((each * PARTITIONS * BATCH) as u64)
    }

    /// Whether the group can be asked for its offsets; fails when it answers with wrong ones.
    fn is_loaded(&self, dialogue: &mut Dialogue, group: &str) -> Result<bool> {
        let answer = dialogue.all_offsets(group)?;
        if ErrorCode::from_number(answer.error_code).is_some_and(comes_later) {
            return Ok(false);
        }
        accepted(answer.error_code, "OffsetFetch")?;
        let found: Vec<i64> = answer
            .topics
            .iter()
            .flat_map(|topic| &topic.partitions)
            .map(|partition| partition.committed_offset)
            .collect();
        if found != vec![OFFSET; self.offsets] {
            bail!("group {group} came back with offsets {found:?}");
        }
        Ok(true)
    }
}
