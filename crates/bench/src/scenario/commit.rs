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
use crate::compare::{Place, Target};
use crate::dialogue::{Dialogue, accepted};
use crate::figure::Outcome;
use crate::members::{Identity, disperse, gather};
use crate::misuse::Misuse;
use crate::options::{Common, Loaded, at_least_one};
use crate::process::ServerProcess;
use crate::progress;
use crate::reply_check::ReplyCheck;
use crate::scenario::{self, Scenario, echo, habits, spread, unique};
use crate::setting::Setting;
use crate::template::{PLACEHOLDER, Template};

/// Groups and what they commit.
#[derive(Args, Debug)]
pub(crate) struct Commit {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    loaded: Loaded,
    /// Groups, over which the connections are spread; each connection commits for a member of its own, or for several
    /// in turn when there are more groups than connections
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

/// A member and the partitions that it commits: nobody else in its group does.
struct Committer {
    member: Identity,
    partitions: Vec<i32>,
    /// The last offset that was acknowledged to it; -1 before the first.
    acknowledged: i64,
}

impl Scenario for Commit {
    fn name(&self) -> &'static str {
        "commit"
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Vec<Setting> {
        let own = [
            Setting::new("groups", self.groups),
            Setting::called("partitions", "partitions per commit", self.partitions),
        ];
        own.into_iter().chain(self.loaded.settings()).collect()
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut usize)> {
        vec![
            ("groups", &mut self.groups),
            ("partitions", &mut self.partitions),
            ("connections", &mut self.loaded.connections),
        ]
    }

    fn check(&self) -> Result<(), Misuse> {
        self.loaded.check()
    }

    fn targets(&self) -> Result<Vec<Target>> {
        Target::all_behind_echo(&self.common, self.with_echo)
    }

    fn measure(&self, target: &Target) -> Result<Outcome> {
        if let Place::Echo = target.place {
            let member = Identity::sample("commit");
            let sample = Committer { member, partitions: self.partitions_at(0), acknowledged: -1 };
            let request = sample.request("bench-topic", BY_NAME);
            return echo::measure(&self.common, &self.loaded, 1, WHAT, &request);
        }
        let (address, process) = target.server()?;
        self.measure_server(address, process)
    }
}

impl Commit {
    fn measure_server(&self, address: SocketAddr, process: Option<ServerProcess>) -> Result<Outcome> {
        let mut dialogue = Dialogue::with_one_broker(address)?;
        let version = dialogue.versions().of(ApiKey::OffsetCommit, BY_NAME)?;
        let topic = unique("commit");
        let connections = self.loaded.connections;
        let groups = spread("commit", connections.max(self.groups), self.groups);
        let largest = groups.iter().map(|(_, size)| *size).max().unwrap_or(1);
        dialogue.create_topic(&topic, largest * self.partitions)?;
        progress::step(&format!("{} members join", connections.max(self.groups)));
        let members = gather(address, &mut dialogue, &habits(), &groups, scenario::SETTLES_WITHIN)?;
        let places = groups.iter().flat_map(|(_, size)| 0..*size);
        let committer =
            |(member, place)| Committer { member, partitions: self.partitions_at(place), acknowledged: -1 };
        let mut committers: Vec<Committer> = members.iter().cloned().zip(places).map(committer).collect();
        let mut outcome = Outcome::default();
        let mut first_offset = 0;
        for &pipeline in &self.loaded.pipeline {
            let pressure = self.loaded.pressure(&self.common, pipeline);
            progress::step(&format!("commits, {pipeline} in flight"));
            let work = |lines: Range<usize>| {
                let of = |line: usize| committers.iter().skip(line).step_by(connections);
                let line = |line| {
                    let requests = of(line).map(|it| it.request(&topic, version));
                    CommitLine::new(requests, first_offset, self.partitions, version)
                };
                Commits { lines: lines.map(line).collect() }
            };
            let gained = closed_loop::run(address, pressure, process, work)?;
            outcome.load(WHAT, pressure, &gained);
            let lines = gained.works.iter().flat_map(|work| &work.lines);
            for (number, line) in lines.enumerate() {
                for (seat, committer) in
                    line.seats.iter().zip(committers.iter_mut().skip(number).step_by(connections))
                {
                    if seat.next > first_offset {
                        committer.acknowledged = seat.next - 1;
                    }
                }
            }
            progress::step("what was acknowledged is looked for");
            for committer in &committers {
                committer.verify(&mut dialogue, &topic).context("check that the last commits are there")?;
            }
            first_offset = committers.iter().map(|it| it.acknowledged + 1).max().unwrap_or(0);
        }
        disperse(&mut dialogue, &members)?;
        let names: Vec<_> = groups.into_iter().map(|(name, _)| name).collect();
        dialogue.delete_groups(&names)?;
        dialogue.delete_topic(&topic)?;
        Ok(outcome)
    }

    /// What the n-th member of a group commits.
    fn partitions_at(&self, place: usize) -> Vec<i32> {
        let own = place * self.partitions..(place + 1) * self.partitions;
        own.map(|partition| i32::try_from(partition).expect("partitions are counted in 31 bits")).collect()
    }
}

impl Committer {
    fn request(&self, topic: &str, version: i16) -> Template {
        let partition = |&partition_index: &i32| OffsetCommitRequestPartition {
            partition_index,
            committed_offset: PLACEHOLDER,
            committed_leader_epoch: 0,
            committed_metadata: Some(String::new()),
        };
        let request = OffsetCommitRequest {
            group_id: self.member.group.clone(),
            generation_id_or_member_epoch: self.member.generation,
            member_id: self.member.member.clone(),
            topics: vec![OffsetCommitRequestTopic {
                name: topic.to_owned(),
                partitions: self.partitions.iter().map(partition).collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        Template::new(&request, version)
    }

    /// Compares what the group has with the last offset that was acknowledged.
    fn verify(&self, dialogue: &mut Dialogue, topic: &str) -> Result<()> {
        let group = &self.member.group;
        let found = committed(dialogue, group, topic, &self.partitions)?;
        let (asked, got) = (self.partitions.len(), found.len());
        ensure!(got == asked, "OffsetFetch gave {got} partitions of {asked}");
        for (partition, found) in found {
            ensure!(
                found == self.acknowledged,
                "group {group} has offset {found} of partition {partition}, but {} was acknowledged",
                self.acknowledged
            );
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

/// Fails unless so many partitions are in the answer, each without error.
pub(crate) fn judge(response: &OffsetCommitResponse, partitions: usize) -> Result<()> {
    let answered = || response.topics.iter().flat_map(|topic| &topic.partitions);
    answered().try_for_each(|partition| accepted(partition.error_code, "OffsetCommit"))?;
    let count = answered().count();
    ensure!(count == partitions, "OffsetCommit of {partitions} partitions was answered for {count}");
    Ok(())
}

/// Commits of growing offsets, of each connection's members in turn.
#[derive(Debug)]
struct Commits {
    lines: Vec<CommitLine>,
}

#[derive(Debug)]
struct CommitLine {
    seats: Vec<Seat>,
    /// Whose request leaves next, and whose answer comes next.
    sends: usize,
    hears: usize,
}

/// One member's commits.
#[derive(Debug)]
struct Seat {
    request: Template,
    next: i64,
    /// Each member's reply names other partitions.
    check: ReplyCheck<OffsetCommitRequest>,
}

impl CommitLine {
    fn new(requests: impl Iterator<Item = Template>, next: i64, partitions: usize, version: i16) -> Self {
        let good = move |response: &OffsetCommitResponse| judge(response, partitions);
        let seat = |request| Seat { request, next, check: ReplyCheck::new(version, good) };
        Self { seats: requests.map(seat).collect(), sends: 0, hears: 0 }
    }

    #[inline]
    fn behind(&self, seat: usize) -> usize {
        if seat + 1 == self.seats.len() { 0 } else { seat + 1 }
    }
}

impl Work for Commits {
    #[inline]
    fn put(&mut self, line: usize, correlation_id: i32, outbox: &mut Vec<u8>) {
        let line = &mut self.lines[line];
        let seat = &mut line.seats[line.sends];
        seat.request.put(correlation_id, seat.next, outbox);
        seat.next += 1;
        line.sends = line.behind(line.sends);
    }

    #[inline]
    fn check(&mut self, line: usize, frame: &[u8]) -> Result<i32> {
        let line = &mut self.lines[line];
        let hears = line.hears;
        line.hears = line.behind(hears);
        line.seats[hears].check.check(frame)
    }
}

#[cfg(test)]
mod tests {
    use wire::api::offset_commit::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};

    use super::*;

    #[test]
    fn an_answer_must_name_every_partition_that_was_committed() {
        let partitions = vec![OffsetCommitResponsePartition::default(); 2];
        let topics = vec![OffsetCommitResponseTopic { partitions, ..Default::default() }];
        let response = OffsetCommitResponse { topics, ..Default::default() };
        assert!(judge(&response, 2).is_ok());
        let error = judge(&response, 3).expect_err("one is missing").to_string();
        assert_eq!(error, "OffsetCommit of 3 partitions was answered for 2");
        assert!(judge(&OffsetCommitResponse::default(), 1).is_err());
    }
}
