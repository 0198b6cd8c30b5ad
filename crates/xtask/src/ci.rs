//! `cargo xtask ci` and `cargo xtask quick`.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use e2e::checkout;

use crate::steps::Steps;

/// Crates whose tests need nothing but a disk.
const QUICK: [&str; 5] = ["coordination", "batch", "wire", "scheduling", "store"];

/// What can be known in a few minutes.
pub(crate) fn quick() -> Result<ExitCode> {
    let mut steps = steps(&[])?;
    steps.command("format", 2, cargo(FORMAT));
    steps.command("lints", 20, cargo(LINTS));
    let mut test = cargo(["test"]);
    for package in QUICK {
        test.args(["--package", package]);
    }
    steps.command("tests of the pure crates and the store", 15, test);
    Ok(steps.finish())
}

const FORMAT: [&str; 3] = ["fmt", "--all", "--check"];
const LINTS: [&str; 6] = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
const RELEASE_BUILD: [&str; 4] = ["build", "--release", "--package", "kohort"];

/// What steps say is kept with what they build.
fn steps(wanted: &[String]) -> Result<Steps> {
    Steps::new(wanted, &checkout::target().join("steps"))
}

/// The suites against the release build, and the minutes that each may take.
const SUITES: [(&str, u64, &str); 16] = [
    ("hostile bytes", 5, "hostile"),
    ("disks that fail", 5, "disk"),
    ("operations", 5, "operations"),
    ("Kafka's own tools", 8, "kafka_tools"),
    ("crashes", 8, "crash"),
    ("differential test against a real Kafka", 10, "differential"),
    ("real clients", 12, "clients"),
    ("the group command", 5, "group_command"),
    ("the bench command", 5, "bench_command"),
    ("consumers in groups", 6, "consumers"),
    ("groups of real clients", 15, "groups"),
    ("a Kafka with TLS and SASL", 5, "secure_kafka"),
    ("listeners that ask who one is", 8, "security"),
    ("etcd, alone and in threes", 6, "etcd"),
    ("the assigner and what can fail", 10, "assigner"),
    ("records through handoffs", 12, "handoff_records"),
];

/// How long the simulator looks for a seed that breaks a group; the long runs are made by hand.
const SIMULATION_SECONDS: u64 = 300;

/// So many seeds have to hold in that time; from as many on, each kind of fault has to happen.
const SEEDS_AT_LEAST: &str = "500";

/// How long each fuzz target runs in CI; the long runs are made by hand.
const FUZZ_SECONDS: u32 = 20;

/// Fuzzes alone, for as long as is asked for with `--seconds`.
pub(crate) fn fuzz_alone(arguments: &[String]) -> Result<ExitCode> {
    let seconds = match arguments {
        [] => FUZZ_SECONDS,
        [flag, seconds] if flag == "--seconds" => seconds.parse().context("read --seconds")?,
        _ => bail!("usage: cargo xtask fuzz [--seconds N]"),
    };
    let mut steps = steps(&[])?;
    fuzz(&mut steps, seconds);
    Ok(steps.finish())
}

/// What `bench` can be told.
const BENCH_FLAGS: [&str; 5] = ["--quick", "--groups", "--records", "--assigner", "--gateways"];

/// Measures Kohort beside Kafka and writes docs/benchmarks.md with its plots, and the pages of the assigner and of
/// gateways; `--quick`, `--groups`, `--records`, `--assigner` and `--gateways` measure less.
pub(crate) fn bench(arguments: &[String]) -> Result<ExitCode> {
    // It would be refused after minutes of building.
    if let Some(unknown) = arguments.iter().find(|argument| !BENCH_FLAGS.contains(&argument.as_str())) {
        bail!("bench has no {unknown}; it has {}", BENCH_FLAGS.join(", "));
    }
    let mut steps = steps(&[])?;
    steps.command("setup", 20, setup()?);
    steps.command("release build", 20, cargo(RELEASE_BUILD));
    // The binary of an earlier build is still there, and its figures would pass for those of this checkout.
    if !steps.all_passed() {
        return Ok(steps.finish());
    }
    let mut command = cargo(["run", "--release", "--package", "e2e", "--example", "side_by_side", "--"]);
    command.args(arguments);
    command.env("KOHORT_BIN", checkout::target().join("release/kohort"));
    steps.command("side by side", 120, command);
    Ok(steps.finish())
}

/// Everything, or the steps whose names contain one of `wanted`.
///
/// The budgets are bounds for a cold machine of two cores, not what the steps usually take.
pub(crate) fn all(wanted: &[String]) -> Result<ExitCode> {
    let mut steps = steps(wanted)?;
    // Nothing compiles without the packages; the rest is mostly waiting for downloads.
    let mut packages = setup()?;
    packages.arg("packages");
    steps.command("packages", 10, packages);
    let setup = steps.beside("setup", 20, setup()?);
    steps.command("format", 2, cargo(FORMAT));
    steps.command("lints", 20, cargo(LINTS));
    steps.join(setup);
    let mut docs = cargo(["doc", "--workspace", "--no-deps"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    steps.command("docs", 10, docs);
    steps.command("dependency directions", 5, cargo(["test", "--package", "xtask"]));
    let tests = ["test", "--workspace", "--exclude", "e2e", "--exclude", "xtask", "--no-fail-fast"];
    steps.command("tests", 25, cargo(tests));
    // Its last minutes need one core, which leaves the other for what builds in a directory of its own.
    let release = steps.beside("release build", 30, cargo(RELEASE_BUILD));
    let comparison = ["test", "--package", "e2e", "--example", "side_by_side"];
    steps.command("tests of the comparison with Kafka", 15, cargo(comparison));
    steps.command("build of the suites", 25, cargo(["test", "--package", "e2e", "--tests", "--no-run"]));
    steps.command("build of the example", 15, cargo(["build", "--package", "word-counters"]));
    fuzz(&mut steps, FUZZ_SECONDS);
    steps.join(release);
    let model = ["test", "--release", "--package", "sim", "--test", "model"];
    steps.command("model check of groups", 10, cargo(model));
    let handoffs = ["test", "--release", "--package", "sim", "--test", "handoff_model", "--", "--nocapture"];
    steps.command("model check of handoffs", 10, cargo(handoffs));
    let mut simulation = cargo(["run", "--release", "--package", "sim", "--", "--at-least", SEEDS_AT_LEAST]);
    simulation.args(["--seconds", &SIMULATION_SECONDS.to_string(), "--from", FIRST_SEED]);
    steps.command("simulation of groups", 5 + SIMULATION_SECONDS / 60, simulation);
    steps.command("instruction counts", 8, cargo(["xtask", "instructions"]));
    for (name, minutes, suite) in SUITES {
        steps.command(name, minutes, end_to_end(suite));
    }
    let mut through_gateways = end_to_end("groups");
    through_gateways.env("KOHORT_E2E_BROKER", "gateways").env("KOHORT_GROUPS_OF", THROUGH_GATEWAYS);
    steps.command("groups of real clients through two gateways", 10, through_gateways);
    Ok(steps.finish())
}

/// This program as `cargo xtask setup`. Cargo itself would wait for whoever compiles.
fn setup() -> Result<Command> {
    let mut command = Command::new(env::current_exe().context("find this program")?);
    command.arg("setup");
    Ok(command)
}

/// The clients whose groups also live behind gateways apart from the broker; all others do by hand.
const THROUGH_GATEWAYS: &str = "Java client,confluent-kafka,franz-go";

/// A suite against the release build.
fn end_to_end(suite: &str) -> Command {
    let mut command = cargo(["test", "--package", "e2e", "--test", suite, "--", "--nocapture"]);
    command.env("KOHORT_BIN", checkout::target().join("release/kohort"));
    // What could not run counts as failed here.
    command.env("CI", "true");
    command.env("WORD_COUNTERS_BIN", checkout::target().join("debug/word-counters"));
    // As for the simulator; without it what is random takes another way each time.
    for suite in ["CHAOS", "CRASH", "DIFFERENTIAL", "DISK", "HANDOFFS", "HOSTILE"] {
        command.env(format!("KOHORT_{suite}_SEED"), SEED);
    }
    command
}

/// Where the simulator begins. Every run of CI walks the same way, as far as its time allows, so that what fails is the
/// change and not the luck; to look elsewhere, start the simulator by hand with another seed.
const FIRST_SEED: &str = "27947833740000";

/// Where what is random in the suites begins.
const SEED: &str = "20261116";

/// A short run of every fuzz target, where the machine has what that takes.
fn fuzz(steps: &mut Steps, seconds: u32) {
    let directory = checkout::root().join("fuzz");
    let available = Command::new("cargo").args(["+nightly", "fuzz", "--version"]).output();
    if !available.is_ok_and(|it| it.status.success()) {
        println!(
            "\n==> fuzzing: not run: needs a nightly toolchain and cargo-fuzz; the tests hold hostile input too"
        );
        return;
    }
    for target in fuzz_targets(&directory) {
        let mut command = Command::new("cargo");
        command.args(["+nightly", "fuzz", "run", "--fuzz-dir", ".", &target, "--"]);
        command.arg(format!("-max_total_time={seconds}")).args(["-rss_limit_mb=2048", "-verbosity=0"]);
        command.current_dir(&directory);
        steps.command(&format!("fuzz {target}"), 15 + u64::from(seconds) / 60, command);
    }
}

fn fuzz_targets(directory: &Path) -> Vec<String> {
    let files = std::fs::read_dir(directory.join("fuzz_targets")).into_iter().flatten().flatten();
    let mut targets: Vec<_> =
        files.filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_owned())).collect();
    targets.sort();
    targets
}

/// Cargo without what the cargo that runs this has said about this package: build scripts that look at it would take
/// it for a change, and crates would be built again whenever `cargo xtask` and `cargo` take turns.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(checkout::root());
    for (variable, _) in env::vars_os() {
        let name = variable.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&variable);
        }
    }
    command
}
