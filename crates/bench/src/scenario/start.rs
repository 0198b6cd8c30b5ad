//! `start`: from exec to the first answer, and the memory of a server that nobody uses.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::compare::Target;
use crate::figure::Outcome;
use crate::options::Common;
use crate::scenario::Scenario;
use crate::server_command::Server;
use crate::setting::Setting;

/// How to start it.
#[derive(Args, Debug)]
pub(crate) struct Start {
    #[command(flatten)]
    common: Common,
    /// The program that starts the server at --bootstrap, with its arguments, as a shell reads them; it is killed
    /// afterwards
    #[arg(long, value_name = "COMMAND", conflicts_with = "compare")]
    command: String,
}

/// How long the server is left alone before its memory is read.
const IDLE_FOR: Duration = Duration::from_secs(2);

impl Scenario for Start {
    fn name(&self) -> &'static str {
        "start"
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Vec<Setting> {
        vec![Setting::new("command", &self.command)]
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut usize)> {
        Vec::new()
    }

    fn measure(&self, target: &Target) -> Result<Outcome> {
        let (address, _) = target.server()?;
        let server = Server::start(&self.command, address)?;
        let mut outcome = Outcome::default();
        outcome.time("first answer after", server.ready_after);
        thread::sleep(IDLE_FOR);
        #[expect(clippy::cast_precision_loss, reason = "memory is shown in a few digits")]
        outcome.bytes("memory, idle", "MB", server.process().resident()? as f64 / 1e6);
        server.kill()?;
        Ok(outcome)
    }
}
