//! `cargo xtask instructions`: how many instructions the hot paths take, beside what was accepted.
//!
//! docs/instruction-counts.md tells what is counted and when to accept more.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use e2e::checkout;

use crate::accepted_counts::{AcceptedCounts, Counted, LIMIT_PERCENT, Verdict};
use crate::ci;

/// The function in the crate `microbench` that callgrind counts, with all that it calls.
const COUNTED: &str = "*counted_by_callgrind*";

/// Builds the benchmarks, counts each and compares; with `--accept`, what was counted is what counts from now on. Words
/// choose the benchmarks whose names contain one of them.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let (flags, words): (Vec<_>, Vec<_>) = arguments.iter().partition(|argument| argument.starts_with('-'));
    let accept = match flags.as_slice() {
        [] => false,
        [flag] if *flag == "--accept" => true,
        _ => bail!("usage: cargo xtask instructions [--accept] [WORD]…"),
    };
    let binary = build()?;
    let names = benchmarks(&binary)?;
    let toolchain = toolchain()?;
    let path = checkout::root().join("crates/microbench/counts.txt");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let mut accepted = AcceptedCounts::parse(&text).with_context(|| format!("read {}", path.display()))?;

    let profiles = checkout::target().join("instructions");
    fs::create_dir_all(&profiles).context("create the directory of the profiles")?;
    println!("{:42} {:>9} {:>9}", "instructions per operation", "accepted", "now");
    let mut verdicts = Vec::new();
    for name in &names {
        if !words.is_empty() && !words.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let now = count(&binary, name, &profile(&profiles, name))?;
        let counted = Counted { name: name.clone(), accepted: accepted.of(&toolchain, name), now };
        println!("{counted}");
        if accept {
            accepted.accept(&toolchain, name, now);
        }
        verdicts.push((counted.verdict(), counted));
    }
    ensure!(!verdicts.is_empty(), "no benchmark is called so");
    if accept {
        accepted.keep_only(&toolchain, &names);
        // After some of them the counts of another compiler are still all there is for the others.
        if words.is_empty() {
            accepted.forget_others(&toolchain);
        }
        fs::write(&path, accepted.to_string()).with_context(|| format!("write {}", path.display()))?;
        println!("\naccepted: commit {} and say why", path.display());
        return Ok(ExitCode::SUCCESS);
    }
    Ok(judge(&verdicts, &accepted.unknown(&toolchain, &names), &toolchain, &profiles))
}

/// Says what is wrong, and what to do about it.
fn judge(verdicts: &[(Verdict, Counted)], unknown: &[String], toolchain: &str, profiles: &Path) -> ExitCode {
    let of = |wanted: Verdict| verdicts.iter().filter(move |(it, _)| *it == wanted).map(|(_, it)| it);
    for counted in of(Verdict::Fewer) {
        println!("\n{} has become cheaper; `cargo xtask instructions --accept` holds the gain", counted.name);
    }
    let mut code = ExitCode::SUCCESS;
    for counted in of(Verdict::More) {
        println!(
            "\nREGRESSION: {}: {} instructions per operation were accepted, now it takes {}: {:+.1} %, and \
             {LIMIT_PERCENT} % is the limit.\nWhere they go: callgrind_annotate {}",
            counted.name,
            counted.accepted.unwrap_or_default(),
            counted.now,
            counted.change_percent().unwrap_or_default(),
            profile(profiles, &counted.name).display(),
        );
        code = ExitCode::FAILURE;
    }
    for counted in of(Verdict::Unknown) {
        println!("\nUNKNOWN: {}: no count was accepted with {toolchain}", counted.name);
        code = ExitCode::FAILURE;
    }
    for name in unknown {
        println!("\nGONE: {name}: a count was accepted with {toolchain}, but there is no such benchmark");
        code = ExitCode::FAILURE;
    }
    if code == ExitCode::FAILURE {
        println!(
            "\nIf that is meant: `cargo xtask instructions --accept` writes what was counted to \
             crates/microbench/counts.txt;\ncommit it together with the change, whose message says why it is worth \
             it. See docs/instruction-counts.md."
        );
    }
    code
}

fn build() -> Result<PathBuf> {
    let status =
        ci::cargo(["build", "--release", "--package", "microbench"]).status().context("run cargo")?;
    ensure!(status.success(), "the benchmarks do not build: {status}");
    Ok(checkout::target().join("release/microbench"))
}

fn benchmarks(binary: &Path) -> Result<Vec<String>> {
    let output = Command::new(binary).output().context("list the benchmarks")?;
    ensure!(output.status.success(), "list the benchmarks: {}", output.status);
    let text = String::from_utf8(output.stdout).context("read the list of benchmarks")?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// What counts depend on: the compiler and the instruction set.
fn toolchain() -> Result<String> {
    let output = Command::new("rustc").arg("--version").current_dir(checkout::root()).output();
    let text = String::from_utf8(output.context("run rustc")?.stdout).context("read the version of rustc")?;
    let version = text.split(' ').nth(1).context("rustc tells its version")?;
    Ok(format!("rustc {version} {}", env::consts::ARCH))
}

fn profile(profiles: &Path, name: &str) -> PathBuf {
    profiles.join(format!("{name}.callgrind"))
}

/// Runs one benchmark under callgrind and gives the instructions of one operation.
fn count(binary: &Path, name: &str, profile: &Path) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind", &format!("--toggle-collect={COUNTED}")]);
    command.arg(format!("--callgrind-out-file={}", profile.display()));
    // What is set for an allocator or a loader here must not be counted there.
    command.env_clear();
    for variable in ["PATH", "TMPDIR"] {
        command.envs(env::var_os(variable).map(|value| (variable, value)));
    }
    let output =
        command.arg(binary).arg(name).output().context("run valgrind, which `cargo xtask setup` installs")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} ended with {}: {complaint}", output.status);
    let operations: u64 = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .with_context(|| format!("read how many operations {name} measured"))?;
    let text = fs::read_to_string(profile).with_context(|| format!("read {}", profile.display()))?;
    let total = total(&text).with_context(|| format!("find the sum in {}", profile.display()))?;
    // A sum of nothing means that the function was not found, and would look like a great gain.
    ensure!(total > 0 && operations > 0, "callgrind counted nothing in {name}");
    Ok(total / operations)
}

/// The sum in a profile of callgrind.
fn total(profile: &str) -> Option<u64> {
    profile.lines().find_map(|line| line.strip_prefix("summary:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_found_in_a_profile() {
        assert_eq!(
            total("version: 1\nevents: Ir\nsummary: 1405641\n\nfn=(1)\n1 2\ntotals: 7\n"),
            Some(1_405_641)
        );
        assert_eq!(total("events: Ir\n"), None);
    }
}
