//! Runs a scenario on one server or on several in turn.

use std::io::{IsTerminal, Write as _};
use std::net::SocketAddr;

use anyhow::{Context, Result};

use crate::dialogue::resolve;
use crate::figure::Outcome;
use crate::machine::Machine;
use crate::options::{Common, Format, Named};
use crate::process::{ServerProcess, raise_open_files};
use crate::report::{Report, Series};

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) place: Place,
}

/// Where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// A server that speaks Kafka, and its process when it is on this machine.
    Server(SocketAddr, Option<ServerProcess>),
    /// Our own server that sends frames back.
    Echo,
}

impl Target {
    /// The server that the options name, or those to compare.
    pub(crate) fn all(common: &Common) -> Result<Vec<Self>> {
        let alone = [Named { name: "server".to_owned(), address: common.bootstrap.clone() }];
        let named = if common.compare.is_empty() { &alone[..] } else { &common.compare };
        let target = |named: &Named| -> Result<Self> {
            let address = resolve(&named.address)?;
            let process = match common.pid {
                Some(pid) => Some(ServerProcess { pid }),
                None => ServerProcess::listening_at(address),
            };
            Ok(Self { name: named.name.clone(), place: Place::Server(address, process) })
        };
        named.iter().map(target).collect()
    }

    /// The echo, as one more target.
    pub(crate) fn echo() -> Self {
        Self { name: "echo".to_owned(), place: Place::Echo }
    }
}

/// Measures each target in turn as often as the options say, and shows the figures.
pub(crate) fn run(
    scenario: &'static str,
    settings: Vec<(&'static str, String)>,
    common: &Common,
    targets: &[Target],
    mut measure: impl FnMut(&Target) -> Result<Outcome>,
) -> Result<()> {
    raise_open_files();
    let repetitions = common.repetitions.unwrap_or(if targets.len() > 1 { 3 } else { 1 });
    let mut series: Vec<Series> = targets.iter().map(|target| Series::new(&target.name)).collect();
    for repetition in 1..=repetitions {
        for (target, series) in targets.iter().zip(&mut series) {
            progress(&format!("{scenario}: {}, {repetition} of {repetitions}", target.name));
            let outcome = measure(target).with_context(|| format!("{scenario} on {} failed", target.name))?;
            series.add(outcome);
        }
    }
    progress("");
    let report = Report { scenario, settings, repetitions, machine: Machine::here(), series };
    let text = match common.output {
        Format::Table => report.table(),
        Format::Json => report.json()?,
    };
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{}", text.trim_end()).context("show the figures")
}

/// Says what is going on to a person who waits.
pub(crate) fn progress(what: &str) {
    let mut stderr = std::io::stderr().lock();
    // Nobody is helped when the terminal is gone.
    let _ = if stderr.is_terminal() {
        write!(stderr, "\r\x1b[K{what}").and_then(|()| stderr.flush())
    } else if what.is_empty() {
        Ok(())
    } else {
        writeln!(stderr, "{what}")
    };
}
