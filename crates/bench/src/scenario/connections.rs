//! `connections`: what idle connections cost, and what many active ones get.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use wire::ApiKey;

use crate::closed_loop::{self, Pressure, Work};
use crate::compare::Target;
use crate::dialogue::Dialogue;
use crate::figure::{Better, Outcome};
use crate::lines::Lines;
use crate::options::{Common, at_least_one};
use crate::process::{ServerProcess, room_for_connections};
use crate::progress;
use crate::scenario::Scenario;
use crate::scenario::latency::api_versions;
use crate::setting::Setting;

/// How many.
#[derive(Args, Debug)]
pub(crate) struct Connections {
    #[command(flatten)]
    common: Common,
    /// Connections, each of which has asked once
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = at_least_one)]
    connections: usize,
}

/// Connections that ask while the others are idle.
const FEW: usize = 64;

/// How long the server is left alone before its memory is read.
const IDLE_FOR: Duration = Duration::from_secs(1);

impl Scenario for Connections {
    fn name(&self) -> &'static str {
        "connections"
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Vec<Setting> {
        vec![Setting::new("connections", self.connections)]
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut usize)> {
        vec![("connections", &mut self.connections)]
    }

    fn measure(&self, target: &Target) -> Result<Outcome> {
        let (address, process) = target.server()?;
        room_for_connections(self.connections + FEW)?;
        let version = Dialogue::with_one_broker(address)?.versions().of(ApiKey::ApiVersions, 3)?;
        let mut outcome = Outcome::default();
        let before = memory(process)?;
        progress::step(&format!("{} connections are made", self.connections));
        let begun = Instant::now();
        let mut lines = Lines::connect(address, self.connections)?;
        let mut work = api_versions(version);
        for line in 0..self.connections {
            work.put(line, 0, lines.outbox(line));
            lines.flush(line)?;
        }
        let mut owed = self.connections;
        while owed > 0 {
            ensure!(begun.elapsed() < Duration::from_secs(120), "{owed} connections got no answer");
            lines.turn(Duration::from_millis(100), |arrival, frame, _| {
                owed -= 1;
                work.check(arrival.line, frame).map(|_| ())
            })?;
        }
        outcome.time("all connected and answered after", begun.elapsed());
        if let Some((before, after)) = before.zip(memory(process)?) {
            #[expect(clippy::cast_precision_loss, reason = "a count of connections")]
            let each = (after - before) / self.connections as f64;
            outcome.bytes("memory per idle connection", "bytes", each);
        }
        let (warmup, duration) = (self.common.warmup, self.common.duration);
        let few = Pressure { connections: FEW, pipeline: 1, threads: 1, warmup, duration };
        progress::step("64 more ask");
        let beside = closed_loop::run(address, few, process, |_| api_versions(version))?;
        outcome.add("requests per second on 64, the others idle", "/s", Better::Higher, beside.per_second);
        outcome.doubts.extend(beside.cores.doubts("64 ask", few.threads));
        drop(lines);
        progress::step("all of them ask");
        let all = Pressure { connections: self.connections, ..few };
        let gained = closed_loop::run(address, all, process, |_| api_versions(version))?;
        outcome.add("requests per second on all", "/s", Better::Higher, gained.per_second);
        outcome.time("  latency p99 on all", gained.latencies.percentile(0.99)).plotted = true;
        outcome.doubts.extend(gained.cores.doubts("all ask", all.threads));
        Ok(outcome)
    }
}

fn memory(process: Option<ServerProcess>) -> Result<Option<f64>> {
    let Some(process) = process else { return Ok(None) };
    thread::sleep(IDLE_FOR);
    #[expect(clippy::cast_precision_loss, reason = "memory is shown in a few digits")]
    process.resident().map(|bytes| Some(bytes as f64))
}
