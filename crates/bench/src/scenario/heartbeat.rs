//! `heartbeat`: members of groups that say that they are alive.

use std::net::SocketAddr;
use std::ops::Range;

use anyhow::Result;
use clap::Args;
use wire::ApiKey;
use wire::api::heartbeat::{HeartbeatRequest, HeartbeatResponse};

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
use crate::scenario::{self, Scenario, echo, habits, spread};
use crate::setting::Setting;
use crate::template::Template;

/// Members and groups.
#[derive(Args, Debug)]
pub(crate) struct Heartbeat {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    loaded: Loaded,
    /// Members, spread evenly over the groups
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least_one)]
    members: usize,
    /// Groups, not more than members
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least_one)]
    groups: usize,
    /// Measure an echo of the same frames beside it, as the first target
    #[arg(long)]
    with_echo: bool,
}

const WHAT: &str = "heartbeats";

impl Scenario for Heartbeat {
    fn name(&self) -> &'static str {
        "heartbeat"
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Vec<Setting> {
        let own = [Setting::new("members", self.members), Setting::new("groups", self.groups)];
        own.into_iter().chain(self.loaded.settings()).collect()
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut usize)> {
        vec![
            ("members", &mut self.members),
            ("groups", &mut self.groups),
            ("connections", &mut self.loaded.connections),
        ]
    }

    fn check(&self) -> Result<(), Misuse> {
        let Self { groups, members, .. } = self;
        if groups > members {
            return Err(Misuse::new(format!(
                "{groups} groups need as many members, and there are {members}; say --groups or --members"
            )));
        }
        self.loaded.check()
    }

    fn targets(&self) -> Result<Vec<Target>> {
        Target::all_behind_echo(&self.common, self.with_echo)
    }

    fn measure(&self, target: &Target) -> Result<Outcome> {
        if let Place::Echo = target.place {
            let request = request(&Identity::sample("heartbeat"), 4);
            return echo::measure(&self.common, &self.loaded, 1, WHAT, &request);
        }
        let (address, process) = target.server()?;
        self.measure_server(address, process)
    }
}

impl Heartbeat {
    fn measure_server(&self, address: SocketAddr, process: Option<ServerProcess>) -> Result<Outcome> {
        let mut dialogue = Dialogue::with_one_broker(address)?;
        let version = dialogue.versions().of(ApiKey::Heartbeat, 4)?;
        let groups = spread("heartbeat", self.members, self.groups);
        progress::step(&format!("{} members join", self.members));
        let members = gather(address, &mut dialogue, &habits(), &groups, scenario::SETTLES_WITHIN)?;
        let mut outcome = Outcome::default();
        for &pipeline in &self.loaded.pipeline {
            let pressure = self.loaded.pressure(&self.common, pipeline);
            progress::step(&format!("heartbeats, {pipeline} in flight"));
            let work = |lines: Range<usize>| {
                let connections = self.loaded.connections;
                Heartbeats::new(
                    lines.map(|line| share(&members, line, connections, version)).collect(),
                    version,
                )
            };
            let gained = closed_loop::run(address, pressure, process, work)?;
            outcome.load(WHAT, pressure, &gained);
        }
        disperse(&mut dialogue, &members)?;
        let names: Vec<_> = groups.into_iter().map(|(name, _)| name).collect();
        dialogue.delete_empty_groups(&names)?;
        Ok(outcome)
    }
}

/// The requests of the members that a connection speaks for: every n-th of them, or a single one when there are
/// more connections than members.
fn share(members: &[Identity], line: usize, connections: usize, version: i16) -> Vec<Template> {
    let first = line % members.len();
    members.iter().skip(first).step_by(connections).map(|member| request(member, version)).collect()
}

fn request(member: &Identity, version: i16) -> Template {
    let request = HeartbeatRequest {
        group_id: member.group.clone(),
        generation_id: member.generation,
        member_id: member.member.clone(),
        group_instance_id: None,
    };
    Template::new(&request, version)
}

/// Heartbeats of each connection's members in turn.
#[derive(Debug)]
struct Heartbeats {
    lines: Vec<(Vec<Template>, usize)>,
    check: ReplyCheck<HeartbeatRequest>,
}

impl Heartbeats {
    fn new(lines: Vec<Vec<Template>>, version: i16) -> Self {
        let judge = |response: &HeartbeatResponse| accepted(response.error_code, "Heartbeat");
        let lines = lines.into_iter().map(|requests| (requests, 0)).collect();
        Self { lines, check: ReplyCheck::new(version, judge) }
    }
}

impl Work for Heartbeats {
    #[inline]
    fn put(&mut self, line: usize, correlation_id: i32, outbox: &mut Vec<u8>) {
        let (requests, next) = &mut self.lines[line];
        requests[*next].put(correlation_id, 0, outbox);
        *next = if *next + 1 == requests.len() { 0 } else { *next + 1 };
    }

    #[inline]
    fn check(&mut self, _: usize, frame: &[u8]) -> Result<i32> {
        self.check.check(frame)
    }
}
