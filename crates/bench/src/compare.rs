//! Runs a scenario on one server or on several in turn, once or for each value of a sweep.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::dialogue::resolve;
use crate::machine::Machine;
use crate::misuse::Misuse;
use crate::options::{Common, Format, Named};
use crate::page;
use crate::process::{ServerProcess, raise_open_files};
use crate::progress;
use crate::report::{Report, Series};
use crate::scenario::Scenario;
use crate::study::{Growth, Study};

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) place: Place,
}

/// Where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// A server, and its process when it is on this machine.
    Server(SocketAddr, Option<ServerProcess>),
    /// Our own server that sends frames back.
    Echo,
    /// No server: what is measured is done in this process.
    Here,
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

    /// The same behind the echo, if that is wanted.
    pub(crate) fn all_behind_echo(common: &Common, with_echo: bool) -> Result<Vec<Self>> {
        let mut targets = Self::all(common)?;
        if with_echo {
            targets.insert(0, Self::echo());
        }
        Ok(targets)
    }

    /// The echo, as one more target.
    pub(crate) fn echo() -> Self {
        Self { name: crate::echo::NAME.to_owned(), place: Place::Echo }
    }

    /// The server's address and process; the echo has no groups and no topics.
    pub(crate) fn server(&self) -> Result<(SocketAddr, Option<ServerProcess>)> {
        match self.place {
            Place::Server(address, process) => Ok((address, process)),
            Place::Echo => bail!("the echo only sends frames back"),
            Place::Here => bail!("no server was named"),
        }
    }
}

/// Measures as the options say and shows the figures.
pub(crate) fn run(scenario: &mut dyn Scenario) -> Result<()> {
    raise_open_files();
    let common = scenario.common().clone();
    if common.progress {
        progress::write_lines();
    }
    if let Some(file) = &common.report {
        check_writable(file)?;
    }
    let outcome = measure_all(scenario, &common);
    progress::end();
    let study = outcome?;
    let text = match common.output {
        Format::Table => study.table(),
        Format::Json => study.json()?,
    };
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{}", text.trim_end()).context("show the figures")?;
    match &common.report {
        Some(file) => study.draw(file),
        None => Ok(()),
    }
}

fn measure_all(scenario: &mut dyn Scenario, common: &Common) -> Result<Study> {
    let Some(sweep) = &common.sweep else {
        scenario.check()?;
        return Ok(Study::Single(measure(scenario, common, "")?));
    };
    // All values are looked at before the first is measured.
    for &value in &sweep.values {
        set(scenario, &sweep.name, value)?;
        scenario.check()?;
    }
    let mut runs = Vec::new();
    for &value in &sweep.values {
        set(scenario, &sweep.name, value)?;
        runs.push((value, measure(scenario, common, &format!(", {} {value}", sweep.name))?));
    }
    Ok(Study::Growth(Growth { name: sweep.name.clone(), runs }))
}

/// Gives one of the scenario's numbers another value.
fn set(scenario: &mut dyn Scenario, name: &str, value: usize) -> Result<(), Misuse> {
    let mut numbers = scenario.numbers();
    if let Some((_, number)) = numbers.iter_mut().find(|(known, _)| *known == name) {
        **number = value;
        return Ok(());
    }
    let known: Vec<_> = numbers.iter().map(|(known, _)| *known).collect();
    let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
    Err(Misuse::new(format!("--sweep {name}: here it can be {known}")))
}

/// Fails now rather than after a long run when nothing can be written there.
fn check_writable(file: &Path) -> Result<()> {
    let is_new = !file.exists();
    let opened = OpenOptions::new().append(true).create(true).open(file);
    opened.with_context(|| format!("write {}", file.display()))?;
    if is_new {
        // A run that fails leaves nothing behind.
        let _ = fs::remove_file(file);
    }
    Ok(())
}

/// Measures each target in turn, as often as the options say.
fn measure(scenario: &dyn Scenario, common: &Common, point: &str) -> Result<Report> {
    let name = scenario.name();
    let targets = scenario.targets()?;
    let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    Misuse::unless_distinct("--compare", &names)?;
    let repetitions = common.repetitions.unwrap_or(if targets.len() > 1 { 3 } else { 1 });
    let mut series: Vec<Series> = targets.iter().map(Series::new).collect();
    for repetition in 1..=repetitions {
        for (target, series) in targets.iter().zip(&mut series) {
            progress::stage(format!("{name}{point}: {}, {repetition} of {repetitions}", target.name));
            let outcome = scenario.measure(target);
            series.add(outcome.with_context(|| format!("{name}{point} on {} failed", target.name))?);
        }
    }
    Ok(Report {
        scenario: name,
        settings: scenario.settings(),
        duration: common.duration,
        warmup: common.warmup,
        repetitions,
        command: page::this_command(),
        machine: Machine::here(),
        series,
    })
}
