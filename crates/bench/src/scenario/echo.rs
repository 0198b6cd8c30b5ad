//! `echo`: the most that any server could reach here.

use anyhow::Result;
use clap::Args;
use wire::api::heartbeat::HeartbeatRequest;

use crate::closed_loop;
use crate::compare::Target;
use crate::echo::{self, Echoes};
use crate::figure::Outcome;
use crate::misuse::Misuse;
use crate::options::{Common, Loaded, at_least_one};
use crate::progress;
use crate::scenario::Scenario;
use crate::setting::Setting;
use crate::template::Template;

/// Frames of a heartbeat's size.
#[derive(Args, Debug)]
pub(crate) struct Echo {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    loaded: Loaded,
    /// Threads of the server
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    server_threads: usize,
}

impl Scenario for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Vec<Setting> {
        let own = [Setting::unsaid("server-threads", self.server_threads)];
        own.into_iter().chain(self.loaded.settings()).collect()
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut usize)> {
        vec![("connections", &mut self.loaded.connections)]
    }

    fn check(&self) -> Result<(), Misuse> {
        self.loaded.check()
    }

    fn targets(&self) -> Result<Vec<Target>> {
        Ok(vec![Target::echo()])
    }

    fn measure(&self, _: &Target) -> Result<Outcome> {
        let request = Template::new(&sample(), 4);
        measure(&self.common, &self.loaded, self.server_threads, "frames", &request)
    }
}

/// Sends copies of `request` to an echo of our own.
pub(crate) fn measure(
    common: &Common,
    loaded: &Loaded,
    server_threads: usize,
    what: &str,
    request: &Template,
) -> Result<Outcome> {
    let (mut outcome, mut disturbed) = (Outcome::default(), Vec::new());
    for &pipeline in &loaded.pipeline {
        let pressure = loaded.pressure(common, pipeline);
        progress::step(&format!("{what}, {pipeline} in flight"));
        let address = echo::start(loaded.connections, server_threads)?;
        let work =
            |lines: std::ops::Range<usize>| Echoes { requests: lines.map(|_| request.clone()).collect() };
        let gained = closed_loop::run(address, pressure, None, work)?;
        outcome.load(what, pressure, &gained);
        disturbed.extend(gained.cores.doubt_about_others_than_us(&format!("{pipeline} in flight")));
    }
    outcome.doubts = disturbed;
    Ok(outcome)
}

/// A heartbeat as a consumer sends it.
fn sample() -> HeartbeatRequest {
    HeartbeatRequest {
        group_id: "bench-group".to_owned(),
        generation_id: 1,
        member_id: format!("{}-00000000-0000-0000-0000-000000000000", crate::template::CLIENT_ID),
        group_instance_id: None,
    }
}
