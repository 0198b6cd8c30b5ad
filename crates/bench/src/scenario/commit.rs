//! `commit`: members of groups that say how far they have read.

use std::net::SocketAddr;
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use clap::Args;
use wire::ApiKey;
use wire::api::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use wire::api::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};

use crate::closed_loop::{self, Work};
use crate::compare::{self, Place, Target};
use crate::dialogue::{Dialogue, accepted};
use crate::figure::Outcome;
use crate::members::{Identity, disperse, gather};
use crate::options::{Common, Loaded, at_least_one};
use crate::process::ServerProcess;
use crate::reply_check::ReplyCheck;
use crate::scenario::{self, echo, habits, spread, unique};
use crate::template::{PLACEHOLDER, Template};

/// Groups and what they commit.
#[derive(Args, Debug)]
pub(crate) struct Commit {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    loaded: Loaded,
    /// Groups, over which the connections are spread; each connection commits for a member of its own
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least_one)]
    groups: usize,
    /// Partitions in each commit
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    partitions: usize,
    /// Measure an echo of the same frames beside it, as the first target
    #[arg(long)]
    with_echo: bool,
}

const WHAT: &str = "commits";

/// The last version that names topics; the next has their ids.
const BY_NAME: i16 = 9;

impl Commit {
    pub(crate) fn run(&self) -> Result<()> {
        let settings = vec![
            ("groups", self.groups.to_string()),
            ("connections", self.loaded.connections.to_string()),
            ("partitions per commit", self.partitions.to_string()),
        ];
        let targets = scenario::targets(&self.common, self.with_echo)?;
        compare::run("commit", settings, &self.common, &targets, |target: &Target| match target.place {
            Place::Server(address, process) => self.measure(address, process),
            Place::Echo => {
                let sample = Identity {
                    group: unique("commit-0"),
                    member: format!("{}-00000000-0000-0000-0000-000000000000", crate::template::CLIENT_ID),
                    generation: 1,
                };
                let request = self.request(&sample, "bench-topic", 0, BY_NAME);
                echo::measure(&self.common, &self.loaded, 1, WHAT, &request)
            }
        })
    }

    fn measure(&self, address: SocketAddr, process: Option<ServerProcess>) -> Result<Outcome> {
        let mut dialogue = Dialogue::open(address)?;
        let version = dialogue.versions().of(ApiKey::OffsetCommit, BY_NAME)?;
        let topic = unique("commit");
        let connections = self.loaded.connections;
        dialogue.create_topic(&topic, connections * self.partitions)?;
        let groups = spread("commit", connections, self.groups);
        compare::progress(&format!("{connections} members join"));
        let members = gather(address, &mut dialogue, &habits(), &groups, scenario::SETTLES_WITHIN)?;
        let mut outcome = Outcome::default();
        let mut next_offset = 0;
        for &pipeline in &self.loaded.pipeline {
            let pressure = self.loaded.pressure(&self.common, pipeline);
            compare::progress(&format!("commits, {pipeline} in flight"));
            let work = |lines: Range<usize>| {
                let template = |line: usize| self.request(&members[line], &topic, line, version);
                Commits::new(lines.map(template).collect(), next_offset, version)
            };
            let gained = closed_loop::run(address, pressure, process, work)?;
            outcome.load(WHAT, pressure, &gained);
            let acknowledged: Vec<i64> =
                gained.works.iter().flat_map(|work| &work.lines).map(|line| line.next - 1).collect();
            self.verify(&mut dialogue, &topic, &members, &acknowledged)
                .context("check that the last commits are there")?;
            next_offset = acknowledged.iter().max().map_or(0, |offset| offset + 1);
        }
        disperse(&mut dialogue, &members)?;
        let names: Vec<_> = groups.into_iter().map(|(name, _)| name).collect();
        dialogue.delete_groups(&names)?;
        dialogue.delete_topic(&topic)?;
        Ok(outcome)
    }

    /// The partitions that a connection commits: nobody else does.
    fn own_partitions(&self, line: usize) -> Vec<i32> {
        let own = line * self.partitions..(line + 1) * self.partitions;
        own.map(|partition| i32::try_from(partition).expect("partitions are counted in 31 bits")).collect()
    }

    fn request(&self, member: &Identity, topic: &str, line: usize, version: i16) -> Template {
        let partition = |partition_index: i32| OffsetCommitRequestPartition {
            partition_index,
            committed_offset: PLACEHOLDER,
            committed_leader_epoch: 0,
            committed_metadata: Some(String::new()),
        };
        let request = OffsetCommitRequest {
            group_id: member.group.clone(),
            generation_id_or_member_epoch: member.generation,
            member_id: member.member.clone(),
            topics: vec![OffsetCommitRequestTopic {
                name: topic.to_owned(),
                partitions: self.own_partitions(line).into_iter().map(partition).collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        Template::new(&request, version)
    }

    /// Compares what each group has with the last offset that was acknowledged to each connection.
    fn verify(
        &self,
        dialogue: &mut Dialogue,
        topic: &str,
        members: &[Identity],
        acknowledged: &[i64],
    ) -> Result<()> {
        for (line, (member, &offset)) in members.iter().zip(acknowledged).enumerate() {
            let wanted = self.own_partitions(line);
            let found = committed(dialogue, &member.group, topic, &wanted)?;
            ensure!(
                found.len() == wanted.len(),
                "OffsetFetch gave {} partitions of {}",
                found.len(),
                wanted.len()
            );
            for (partition, found) in found {
                ensure!(
                    found == offset,
                    "group {} has offset {found} of partition {partition}, but {offset} was acknowledged",
                    member.group
                );
            }
        }
        Ok(())
    }
}

/// What a group has committed: partitions and offsets.
pub(crate) fn committed(
    dialogue: &mut Dialogue,
    group: &str,
    topic: &str,
    partitions: &[i32],
) -> Result<Vec<(i32, i64)>> {
    let request = OffsetFetchRequest {
        group_id: group.to_owned(),
        topics: Some(vec![OffsetFetchRequestTopic {
            name: topic.to_owned(),
            partition_indexes: partitions.to_vec(),
        }]),
        groups: vec![OffsetFetchRequestGroup {
            group_id: group.to_owned(),
            topics: Some(vec![OffsetFetchRequestTopics {
                name: topic.to_owned(),
                partition_indexes: partitions.to_vec(),
                ..Default::default()
            }]),
            ..Default::default()
        }],
        require_stable: false,
    };
    let answer = dialogue.ask(&request, BY_NAME)?;
    accepted(answer.error_code, "OffsetFetch")?;
    let mut found = Vec::new();
    for partition in answer.topics.iter().flat_map(|topic| &topic.partitions) {
        accepted(partition.error_code, "OffsetFetch")?;
        found.push((partition.partition_index, partition.committed_offset));
    }
    for group in &answer.groups {
        accepted(group.error_code, "OffsetFetch")?;
        for partition in group.topics.iter().flat_map(|topic| &topic.partitions) {
            accepted(partition.error_code, "OffsetFetch")?;
            found.push((partition.partition_index, partition.committed_offset));
        }
    }
    Ok(found)
}

/// Fails unless every partition of the answer is without error.
pub(crate) fn judge(response: &OffsetCommitResponse) -> Result<()> {
    let mut partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.try_for_each(|partition| accepted(partition.error_code, "OffsetCommit"))
}

/// Commits of growing offsets.
#[derive(Debug)]
struct Commits {
    lines: Vec<CommitLine>,
}

#[derive(Debug)]
struct CommitLine {
    request: Template,
    next: i64,
    /// Each connection's reply names other partitions.
    check: ReplyCheck<OffsetCommitRequest>,
}

impl Commits {
    fn new(requests: Vec<Template>, next: i64, version: i16) -> Self {
        let line = |request| CommitLine { request, next, check: ReplyCheck::new(version, judge) };
        Self { lines: requests.into_iter().map(line).collect() }
    }
}

impl Work for Commits {
    #[inline]
    fn put(&mut self, line: usize, correlation_id: i32, outbox: &mut Vec<u8>) {
        let line = &mut self.lines[line];
        line.request.put(correlation_id, line.next, outbox);
        line.next += 1;
    }

    #[inline]
    fn check(&mut self, line: usize, frame: &[u8]) -> Result<i32> {
        self.lines[line].check.check(frame)
    }
}
