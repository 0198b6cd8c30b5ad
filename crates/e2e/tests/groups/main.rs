//! Groups of real clients, rebalancing for real, against a real Kohort.
//!
//! Each cell is the whole life of a group of one client with one assignor: members join, leave, crash and return while
//! records flow, and the broker is killed twice in the middle. The table in `docs/compatibility.md` is made here with
//! `KOHORT_WRITE_GRID=1`. A client that cannot run on this machine is listed as not run, which is a failure where
//! `CI=true`. `KOHORT_E2E_BROKER=kafka` lets the groups live on a real Kafka instead, which tests the lives,
//! and `KOHORT_E2E_BROKER=gateways` behind two gateways apart from the broker. `KOHORT_GROUPS_OF` names the clients whose
//! groups live, with commas. Arguments restrict the run to cells whose names contain them all; `KOHORT_GROUPS_AT_ONCE` says how many run beside
//! each other.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test program of its own, which prints its table"
)]

mod cast;
mod check;
mod events;
mod flow;
#[path = "../clients/grid.rs"]
mod grid;
mod life;
mod plan;
mod rdkafka_member;
mod tools;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result};
use e2e::process::run_within;

use crate::grid::{Cell, Grid, Row};
use crate::plan::{ACT_AS_MEMBER, COLUMNS, LIBRARIES, Library, Life, Plan};

/// Every client with every assignor.
const GRID: Grid = Grid { mark: "groups", heading: "## Groups", columns: &COLUMNS };

/// Most of a life is waiting for sessions to end, so two cores have time for several.
const AT_ONCE: usize = 3;

/// How long a client may take to tell its version.
const VERSION_WITHIN: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [first, rest @ ..] = arguments.as_slice()
        && first == ACT_AS_MEMBER
    {
        return finish(rdkafka_member::run(rest).map(|()| true));
    }
    // Flags are for the usual test program, which this is not.
    let filters: Vec<_> = arguments.into_iter().filter(|it| !it.starts_with('-')).collect();
    finish(run(&filters))
}

fn finish(outcome: Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(filters: &[String]) -> Result<bool> {
    check::prove().context("prove the checks")?;
    let started = Instant::now();
    let mut plans: Vec<(Library, &'static str, Plan)> = Vec::new();
    let wanted = env::var("KOHORT_GROUPS_OF").ok();
    let is_wanted = |library: &Library| {
        wanted.as_deref().is_none_or(|names| names.split(',').any(|name| name == library.name()))
    };
    for library in LIBRARIES.into_iter().filter(is_wanted) {
        for column in COLUMNS {
            let named = |filter: &String| library.name().contains(filter) || column.contains(filter.as_str());
            if filters.iter().all(named) {
                plans.push((library, column, library.plan(column)));
            }
        }
    }
    let mut lives: Vec<Life> = plans
        .iter()
        .filter_map(|(_, _, plan)| if let Plan::Live(life) = plan { Some(*life) } else { None })
        .collect();
    // The longest begin first.
    lives.sort_by_key(|it| !it.is_static);
    let wants_tools = filters.iter().all(|filter| "kafka-consumer-groups".contains(filter.as_str()));
    let tools = wants_tools.then(|| thread::spawn(tools::run));
    let ended = live_all(lives);

    let mut problems = Vec::new();
    let mut rows = Vec::new();
    for library in LIBRARIES {
        let mut row =
            Row { client: library.name().to_owned(), version: version(library)?, cells: BTreeMap::new() };
        for (_, column, plan) in plans.iter().filter(|(it, _, _)| *it == library) {
            let cell = match plan {
                Plan::Live(life) => ended
                    .iter()
                    .find(|(it, _)| it.client == library && it.column == life.column)
                    .map_or(Cell::Failed, |(_, cell)| cell.clone()),
                Plan::Cannot(reason) => Cell::Unsupported((*reason).to_owned()),
                Plan::Skip => continue,
            };
            let missing = matches!(cell, Cell::NotRun(_)) && env::var("CI").is_ok_and(|it| it == "true");
            if missing || cell == Cell::Failed {
                problems.push(format!(
                    "{}: {column}: {}",
                    row.client,
                    if missing { "not run" } else { "failed" }
                ));
            }
            row.cells.insert(column, cell);
        }
        rows.push(row);
    }
    match tools.map(thread::JoinHandle::join) {
        None | Some(Ok(Ok(_))) => {}
        Some(Ok(Err(error))) => problems.push(format!("kafka-consumer-groups: {error:#}")),
        Some(Err(_)) => problems.push("kafka-consumer-groups: panicked".to_owned()),
    }
    println!("groups: {:.1} s", started.elapsed().as_secs_f64());
    if filters.is_empty() && wanted.is_none() && env::var_os("KOHORT_E2E_BROKER").is_none() {
        problems.extend(GRID.keep(&rows)?);
    }
    println!("{} lives, {} problems", ended.len(), problems.len());
    for problem in &problems {
        println!("  {problem}");
    }
    Ok(problems.is_empty())
}

/// Lets all groups live, some at a time.
fn live_all(lives: Vec<Life>) -> Vec<(Life, Cell)> {
    let at_once = env::var("KOHORT_GROUPS_AT_ONCE").ok().and_then(|it| it.parse().ok()).unwrap_or(AT_ONCE);
    let waiting = Mutex::new(lives.into_iter());
    let ended = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(life) = waiting.lock().ok().and_then(|mut it| it.next()) {
                    let cell = live(&life);
                    if let Ok(mut ended) = ended.lock() {
                        ended.push((life, cell));
                    }
                }
            });
        }
    });
    ended.into_inner().unwrap_or_default()
}

fn live(life: &Life) -> Cell {
    let started = Instant::now();
    let lived = life.client.member().and_then(|member| match member {
        Ok(program) => life::live(life, program).map(Ok),
        Err(missing) => Ok(Err(missing)),
    });
    let place =
        format!("{:16} {:18} {:6.1} s", life.client.name(), life.column, started.elapsed().as_secs_f64());
    match lived {
        Ok(Ok(said)) => {
            println!("{place}  passed: {said}");
            Cell::Passed { skipped: life.skips() }
        }
        Ok(Err(missing)) => {
            println!("{place}  not run: {missing}");
            Cell::NotRun(missing)
        }
        Err(error) => {
            println!("{place}  failed: {error:#}");
            Cell::Failed
        }
    }
}

fn version(library: Library) -> Result<String> {
    let Library::Program(client) = library else {
        let (_, librdkafka) = rdkafka::util::get_rdkafka_version();
        return Ok(format!("0.39 (librdkafka {librdkafka})"));
    };
    let Ok(mut command) = client.command() else { return Ok(String::new()) };
    command.args(["", "version", ""]);
    let finished = run_within(command, VERSION_WITHIN)?;
    let line: serde_json::Value = serde_json::from_str(finished.stdout.trim()).unwrap_or_default();
    Ok(line["version"].as_str().unwrap_or_default().to_owned())
}
