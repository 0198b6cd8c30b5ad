//! Steps that run one after the other, each within its time, with a count at the end.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGINT, SIGTERM};

/// What became of the steps so far.
#[derive(Debug)]
pub(crate) struct Steps {
    /// Only steps whose name contains one of these; all when there are none.
    wanted: Vec<String>,
    interrupted: Arc<AtomicBool>,
    done: Vec<(String, bool, Duration)>,
}

impl Steps {
    /// Begins with nothing done; `wanted` restricts the steps by parts of their names.
    pub(crate) fn new(wanted: &[String]) -> Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted)).context("wait for signals")?;
        }
        Ok(Self { wanted: wanted.to_vec(), interrupted, done: Vec::new() })
    }

    /// Runs `command` and remembers how it went; it is killed when `minutes` are over.
    pub(crate) fn command(&mut self, name: &str, minutes: u64, command: &mut Command) {
        let interrupted = Arc::clone(&self.interrupted);
        self.run(name, || run_within(command, Duration::from_secs(minutes * 60), &interrupted));
    }

    /// Runs `step` and remembers how it went.
    pub(crate) fn run(&mut self, name: &str, step: impl FnOnce() -> Result<()>) {
        if !self.wanted.is_empty() && !self.wanted.iter().any(|part| name.contains(part.as_str())) {
            return;
        }
        println!("\n==> {name}");
        let started = Instant::now();
        let outcome = step();
        let took = started.elapsed();
        match &outcome {
            Ok(()) => println!("==> {name}: passed in {:.1} s", took.as_secs_f64()),
            Err(error) => println!("==> {name}: FAILED after {:.1} s: {error:#}", took.as_secs_f64()),
        }
        self.done.push((name.to_owned(), outcome.is_ok(), took));
    }

    /// Whether no step has failed so far, so that one may build on what they have made.
    pub(crate) fn all_passed(&self) -> bool {
        self.done.iter().all(|(_, passed, _)| *passed)
    }

    /// Prints what each step took, and the count alone on the last line.
    pub(crate) fn finish(self) -> ExitCode {
        println!();
        let mut total = Duration::ZERO;
        for (name, passed, took) in &self.done {
            total += *took;
            println!("{} {name:40} {:7.1} s", if *passed { "passed" } else { "FAILED" }, took.as_secs_f64());
        }
        println!("in all {:.1} minutes\n", total.as_secs_f64() / 60.0);
        let failed = self.done.iter().filter(|(_, passed, _)| !passed).count();
        println!("{} passed, {failed} failed", self.done.len() - failed);
        // A word that no step's name contains must not look like success.
        if failed == 0 && !self.done.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Runs a command with our own output; one that takes too long is killed with all that it started.
fn run_within(command: &mut Command, limit: Duration, interrupted: &AtomicBool) -> Result<()> {
    // A group of its own, so that what it starts can be ended with it. Ctrl-C no longer reaches it by itself.
    command.process_group(0);
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| format!("start {:?}", command.get_program()))?;
    loop {
        if let Some(status) = child.try_wait().context("wait for the command")? {
            ensure!(status.success(), "{status}");
            return Ok(());
        }
        if interrupted.load(Ordering::Relaxed) {
            end_group(&mut child)?;
            exit(130);
        }
        if started.elapsed() > limit {
            end_group(&mut child)?;
            bail!("it took longer than {} minutes", limit.as_secs() / 60);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn end_group(child: &mut Child) -> Result<()> {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        kill_process_group(group, Signal::KILL).context("kill the command")?;
    }
    child.wait().context("wait for the killed command")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_failed_is_not_forgotten_when_the_next_one_passes() {
        let mut steps = Steps::new(&[]).unwrap();
        assert!(steps.all_passed());
        steps.run("build", || bail!("it does not compile"));
        steps.run("look", || Ok(()));
        assert!(!steps.all_passed());
        assert_eq!(steps.finish(), ExitCode::FAILURE);
    }
}
