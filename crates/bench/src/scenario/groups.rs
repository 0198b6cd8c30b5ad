//! `groups`: what idle groups and members cost the server in memory.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use wire::api::offset_commit::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use wire::{ApiKey, encode_request};

use crate::compare::Target;
use crate::cores::Watch;
use crate::dialogue::{Dialogue, Versions};
use crate::figure::Outcome;
use crate::lines::Lines;
use crate::members::{Habits, Identity, WAVE, disperse, gather};
use crate::options::{Common, at_least_one};
use crate::process::{ServerProcess, room_for_connections};
use crate::progress;
use crate::reply_check::ReplyCheck;
use crate::scenario::commit::{committed, judge};
use crate::scenario::{self, Scenario, habits, unique};
use crate::setting::Setting;
use crate::template::CLIENT_ID;

/// How many.
#[derive(Args, Debug)]
pub(crate) struct Groups {
    #[command(flatten)]
    common: Common,
    /// Groups with committed offsets and no member
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = at_least_one)]
    groups: usize,
    /// Committed offsets in each of them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    offsets: usize,
    /// Members that join groups of 200 and stay without their connections. 0 leaves them out
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    members: usize,
    /// Leave the groups on the server
    #[arg(long)]
    keep: bool,
}

/// Connections that create the groups, and commits in flight on each.
const CONNECTIONS: usize = 16;
const IN_FLIGHT: usize = 32;

/// Members of one group. The leader of a large one is told of all of them at once, and the memory for that would hide
/// what a member takes.
const GROUP_SIZE: usize = 200;

/// How long the server is left alone before its memory is read.
const IDLE_FOR: Duration = Duration::from_secs(2);

impl Scenario for Groups {
    fn name(&self) -> &'static str {
        "groups"
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Vec<Setting> {
        vec![
            Setting::new("groups", self.groups),
            Setting::called("offsets", "offsets per group", self.offsets),
            Setting::new("members", self.members),
        ]
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut usize)> {
        vec![("groups", &mut self.groups), ("offsets", &mut self.offsets), ("members", &mut self.members)]
    }

    fn measure(&self, target: &Target) -> Result<Outcome> {
        let (address, process) = target.server()?;
        let process = process.context("name the server's process with --pid")?;
        room_for_connections(self.members.min(WAVE))?;
        let mut dialogue = Dialogue::with_one_broker(address)?;
        let (topic, run) = (unique("groups"), unique("groups"));
        dialogue.create_topic(&topic, self.offsets)?;
        let names: Vec<String> = (0..self.groups).map(|number| format!("{run}-{number}")).collect();
        dialogue.await_coordinators(&names)?;
        let mut outcome = Outcome::default();
        let at_rest = || self.at_rest(address, process);
        let before = at_rest()?;
        outcome.bytes("memory before", "MB", before / 1e6);

        progress::step(&format!("{} groups commit", self.groups));
        let watch = Watch::begin(Some(process));
        let begun = Instant::now();
        create(address, dialogue.versions(), &topic, self.offsets, &names)?;
        outcome.time("groups made in", begun.elapsed());
        outcome.doubts.extend(watch.end().doubts("groups made in", 1));
        for sample in names.iter().step_by(self.groups.div_ceil(100)) {
            let found = committed(&mut dialogue, sample, &topic, &[0])?;
            ensure!(found == [(0, OFFSET)], "group {sample} has {found:?} instead of the committed offset");
        }
        let with_groups = at_rest()?;
        #[expect(clippy::cast_precision_loss, reason = "counts of groups and members are small")]
        let (groups, members) = (self.groups as f64, self.members as f64);
        outcome.bytes("memory of all groups", "MB", (with_groups - before) / 1e6);
        outcome.bytes("  per group", "bytes", (with_groups - before) / groups);

        if self.members > 0 {
            let joined = join(address, &mut dialogue, self.members)?;
            let with_members = at_rest()?;
            outcome.bytes("memory of all members", "MB", (with_members - with_groups) / 1e6);
            outcome.bytes("  per member", "bytes", (with_members - with_groups) / members);
            leave(&mut dialogue, &joined)?;
        }
        if !self.keep {
            progress::step("the groups are removed");
            dialogue.delete_groups(&names)?;
            dialogue.delete_topic(&topic)?;
        }
        Ok(outcome)
    }
}

impl Groups {
    /// The server's memory in bytes when it has had a moment to rest.
    ///
    /// Before each reading members come and go, if there are to be some. What they leave behind, and what the server gives back only when it has
    /// something to do, is then the same in all readings.
    fn at_rest(&self, address: SocketAddr, process: ServerProcess) -> Result<f64> {
        if self.members > 0 {
            let mut dialogue = Dialogue::with_one_broker(address)?;
            let guests = join(address, &mut dialogue, self.members.min(WAVE))?;
            leave(&mut dialogue, &guests)?;
        }
        thread::sleep(IDLE_FOR);
        #[expect(clippy::cast_precision_loss, reason = "memory is shown in a few digits")]
        process.resident().map(|bytes| bytes as f64)
    }
}

/// Lets members join new groups and closes their connections.
fn join(address: SocketAddr, dialogue: &mut Dialogue, members: usize) -> Result<Vec<Identity>> {
    progress::step(&format!("{members} members join"));
    let habits = Habits { partitions: GROUP_SIZE.min(members), ..habits() };
    let run = unique("groups-members");
    let size = |from: usize| (format!("{run}-{from}"), GROUP_SIZE.min(members - from));
    let sizes: Vec<_> = (0..members).step_by(GROUP_SIZE).map(size).collect();
    gather(address, dialogue, &habits, &sizes, scenario::SETTLES_WITHIN)
}

/// Lets members leave their groups, and removes those.
fn leave(dialogue: &mut Dialogue, members: &[Identity]) -> Result<()> {
    disperse(dialogue, members)?;
    let mut groups: Vec<_> = members.iter().map(|member| member.group.clone()).collect();
    groups.sort();
    groups.dedup();
    dialogue.delete_empty_groups(&groups)
}

/// What every group commits.
pub(crate) const OFFSET: i64 = 42;

/// Commits offsets of the first partitions in each group, without members.
pub(crate) fn create(
    address: SocketAddr,
    versions: &Versions,
    topic: &str,
    offsets: usize,
    names: &[String],
) -> Result<()> {
    let version = versions.of(ApiKey::OffsetCommit, 9)?;
    let mut lines = Lines::connect(address, CONNECTIONS)?;
    let mut names = names.iter();
    let mut check = ReplyCheck::<OffsetCommitRequest>::new(version, move |it| judge(it, offsets));
    let mut next = |outbox: &mut Vec<u8>| -> bool {
        let Some(name) = names.next() else { return false };
        let partition = |partition_index| OffsetCommitRequestPartition {
            partition_index,
            committed_offset: OFFSET,
            committed_leader_epoch: 0,
            committed_metadata: Some(String::new()),
        };
        let partitions = (0..i32::try_from(offsets).unwrap_or(i32::MAX)).map(partition).collect();
        let request = OffsetCommitRequest {
            group_id: name.clone(),
            topics: vec![OffsetCommitRequestTopic {
                name: topic.to_owned(),
                partitions,
                ..Default::default()
            }],
            ..Default::default()
        };
        outbox.extend_from_slice(&encode_request(&request, version, 0, Some(CLIENT_ID)).into_bytes());
        true
    };
    let mut owed = 0;
    for line in 0..CONNECTIONS {
        for _ in 0..IN_FLIGHT {
            owed += usize::from(next(lines.outbox(line)));
        }
        lines.flush(line)?;
    }
    let mut heard = Instant::now();
    while owed > 0 {
        lines.turn(Duration::from_millis(100), |arrival, frame, outbox| {
            heard = arrival.at;
            check.check(frame)?;
            if !next(outbox) {
                owed -= 1;
            }
            Ok(())
        })?;
        ensure!(heard.elapsed() < Duration::from_secs(30), "no answer to {owed} commits");
    }
    Ok(())
}
