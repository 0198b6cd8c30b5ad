//! `recovery`: from a kill to the first answers about groups that the server had.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Args;
use coordination::error_code::ErrorCode;

use crate::compare::{self, Place, Target};
use crate::dialogue::{Dialogue, accepted, comes_later};
use crate::figure::Outcome;
use crate::options::{Common, at_least_one};
use crate::scenario::groups::{OFFSET, create};
use crate::scenario::{self, unique};
use crate::server_command::Server;

/// How to start it, and what it has when it is killed.
#[derive(Args, Debug)]
pub(crate) struct Recovery {
    #[command(flatten)]
    common: Common,
    /// The command that starts the server at --bootstrap, always on the same data
    #[arg(long, value_name = "COMMAND", conflicts_with = "compare")]
    command: String,
    /// Groups with committed offsets
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = at_least_one)]
    groups: usize,
    /// Committed offsets in each
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = at_least_one)]
    offsets: usize,
}

/// Groups that are looked at after the restart: enough to meet every partition of the offsets topic.
const SAMPLES: usize = 1000;

/// How long groups may take to be there again.
const LOADED_WITHIN: Duration = Duration::from_secs(120);

impl Recovery {
    pub(crate) fn run(&self) -> Result<()> {
        let settings =
            vec![("groups", self.groups.to_string()), ("offsets per group", self.offsets.to_string())];
        let targets = scenario::targets(&self.common, false)?;
        compare::run("recovery", settings, &self.common, &targets, |target: &Target| match target.place {
            Place::Server(address, _) => self.measure(address),
            Place::Echo => Ok(Outcome::default()),
        })
    }

    fn measure(&self, address: SocketAddr) -> Result<Outcome> {
        let server = Server::start(&self.command, address)?;
        let mut dialogue = Dialogue::open(address)?;
        let (topic, run) = (unique("recovery"), unique("recovery"));
        dialogue.create_topic(&topic, self.offsets)?;
        compare::progress(&format!("{} groups commit {} offsets each", self.groups, self.offsets));
        let names: Vec<String> = (0..self.groups).map(|number| format!("{run}-{number}")).collect();
        dialogue.await_coordinators(&names)?;
        create(address, dialogue.versions(), &topic, self.offsets, &names)?;
        drop(dialogue);
        server.kill()?;

        compare::progress("the server starts again");
        let begun = Instant::now();
        let server = Server::start(&self.command, address)?;
        let mut outcome = Outcome::default();
        outcome.time("first answer after", server.ready_after);
        let mut dialogue = Dialogue::open(address)?;
        let samples: Vec<&String> = names.iter().step_by(self.groups.div_ceil(SAMPLES)).collect();
        for group in samples {
            while !self.is_loaded(&mut dialogue, group)? {
                ensure!(begun.elapsed() < LOADED_WITHIN, "groups are not loaded after {LOADED_WITHIN:?}");
                thread::sleep(Duration::from_millis(1));
            }
        }
        outcome.time("all groups there after", begun.elapsed());
        #[expect(clippy::cast_precision_loss, reason = "memory is shown in a few digits")]
        outcome.bytes("memory", "MB", server.process().resident()? as f64 / 1e6);
        server.kill()?;
        Ok(outcome)
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
