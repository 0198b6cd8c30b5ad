//! `start`: from exec to the first answer, and the memory of a server that nobody uses.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::compare::{self, Place, Target};
use crate::figure::Outcome;
use crate::options::Common;
use crate::scenario;
use crate::server_command::Server;

/// How to start it.
#[derive(Args, Debug)]
pub(crate) struct Start {
    #[command(flatten)]
    common: Common,
    /// The command that starts the server at --bootstrap; it is killed afterwards
    #[arg(long, value_name = "COMMAND", conflicts_with = "compare")]
    command: String,
}

impl Start {
    pub(crate) fn run(&self) -> Result<()> {
        let targets = scenario::targets(&self.common, false)?;
        compare::run("start", Vec::new(), &self.common, &targets, |target: &Target| {
            let Place::Server(address, _) = target.place else { return Ok(Outcome::default()) };
            let server = Server::start(&self.command, address)?;
            let mut outcome = Outcome::default();
            outcome.time("first answer after", server.ready_after);
            thread::sleep(Duration::from_secs(2));
            #[expect(clippy::cast_precision_loss, reason = "memory is shown in a few digits")]
            outcome.bytes("memory, idle", "MB", server.process().resident()? as f64 / 1e6);
            server.kill()?;
            Ok(outcome)
        })
    }
}
