//! Steps that run one after the other, each within its time, with a count at the end.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::mem;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio, exit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGINT, SIGTERM};

/// What became of the steps so far.
#[derive(Debug)]
pub(crate) struct Steps {
    /// Only steps whose name contains one of these; all when there are none.
    wanted: Vec<String>,
    interrupted: Arc<AtomicBool>,
    done: Vec<Done>,
}

/// A step that is over.
#[derive(Debug)]
struct Done {
    name: String,
    took: Duration,
    failure: Option<Failure>,
}

/// Why a step failed.
#[derive(Debug)]
struct Failure {
    error: anyhow::Error,
    /// What it said last. Hours of other output may follow before a person looks.
    last_words: VecDeque<String>,
}

/// How many lines of a step are said again when it has failed. A test binary ends with the names of what failed.
const LAST_WORDS: usize = 80;

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
        let limit = Duration::from_secs(minutes * 60);
        self.watch(name, |last_words| run_within(command, limit, &interrupted, last_words));
    }

    /// Runs `step` and remembers how it went.
    pub(crate) fn run(&mut self, name: &str, step: impl FnOnce() -> Result<()>) {
        self.watch(name, |_| step());
    }

    fn watch(&mut self, name: &str, step: impl FnOnce(&mut VecDeque<String>) -> Result<()>) {
        if !self.wanted.is_empty() && !self.wanted.iter().any(|part| name.contains(part.as_str())) {
            return;
        }
        println!("\n==> {name}");
        let started = Instant::now();
        let mut last_words = VecDeque::new();
        let outcome = step(&mut last_words);
        let took = started.elapsed();
        match &outcome {
            Ok(()) => println!("==> {name}: passed in {:.1} s", took.as_secs_f64()),
            Err(error) => println!("==> {name}: FAILED after {:.1} s: {error:#}", took.as_secs_f64()),
        }
        let failure = outcome.err().map(|error| Failure { error, last_words });
        self.done.push(Done { name: name.to_owned(), took, failure });
    }

    /// Whether no step has failed so far, so that one may build on what they have made.
    pub(crate) fn all_passed(&self) -> bool {
        self.done.iter().all(|step| step.failure.is_none())
    }

    /// Prints what each step took, what those that failed said last, and the count alone on the last line.
    pub(crate) fn finish(self) -> ExitCode {
        println!();
        let mut total = Duration::ZERO;
        for Done { name, took, failure } in &self.done {
            total += *took;
            let word = if failure.is_none() { "passed" } else { "FAILED" };
            println!("{word} {name:40} {:7.1} s", took.as_secs_f64());
        }
        println!("in all {:.1} minutes\n", total.as_secs_f64() / 60.0);
        let failed = self.done.iter().filter_map(|step| Some((&step.name, step.failure.as_ref()?)));
        for (name, Failure { error, last_words }) in failed.clone() {
            println!("==> {name}: FAILED: {error:#}; its last lines:");
            for line in last_words {
                println!("{line}");
            }
            println!();
        }
        let failed = failed.count();
        println!("{} passed, {failed} failed", self.done.len() - failed);
        // A word that no step's name contains must not look like success.
        if failed == 0 && !self.done.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Runs a command and says what it says; one that takes too long is killed with all that it started.
fn run_within(
    command: &mut Command,
    limit: Duration,
    interrupted: &AtomicBool,
    last_words: &mut VecDeque<String>,
) -> Result<()> {
    // A group of its own, so that what it starts can be ended with it. Ctrl-C no longer reaches it by itself.
    command.process_group(0);
    // Where a panic happened is said without it, and tests that are meant to panic would fill the log.
    command.env("RUST_BACKTRACE", "0");
    let (reader, writer) = io::pipe().context("make a pipe")?;
    command.stdout(writer.try_clone().context("share the pipe")?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("start {:?}", command.get_program()))?;
    // The pipe ends when nobody can write to it any more, so this side must let go of it.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let heard = Arc::new(Mutex::new(VecDeque::with_capacity(LAST_WORDS)));
    let listener = thread::spawn({
        let heard = Arc::clone(&heard);
        move || pass_on(reader, &heard)
    });
    let outcome = wait_within(&mut child, limit, interrupted);
    // What the command has left running has no business here. If some of it is in a group of its own and holds the pipe
    // open, there is nothing more to wait for.
    end_group(&mut child)?;
    let ended = Instant::now();
    while !listener.is_finished() && ended.elapsed() < PIPE_PATIENCE {
        thread::sleep(Duration::from_millis(1));
    }
    *last_words = mem::take(&mut *heard.lock().unwrap_or_else(PoisonError::into_inner));
    outcome
}

/// How long to wait for the last lines of a command that has ended.
const PIPE_PATIENCE: Duration = Duration::from_secs(2);

/// Says what comes out of the pipe, and keeps the last of it.
fn pass_on(pipe: impl Read, heard: &Mutex<VecDeque<String>>) {
    for line in BufReader::new(pipe).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line).into_owned();
        // Nobody may be listening any more; the step goes on all the same.
        writeln!(io::stdout(), "{line}").ok();
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.len() == LAST_WORDS {
            heard.pop_front();
        }
        heard.push_back(line);
    }
}

fn wait_within(child: &mut Child, limit: Duration, interrupted: &AtomicBool) -> Result<()> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("wait for the command")? {
            ensure!(status.success(), "{status}");
            return Ok(());
        }
        if interrupted.load(Ordering::Relaxed) {
            end_group(child)?;
            exit(130);
        }
        if started.elapsed() > limit {
            bail!("it took longer than {} minutes", limit.as_secs() / 60);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn end_group(child: &mut Child) -> Result<()> {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        match kill_process_group(group, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(error).context("kill the command"),
        }
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

    #[test]
    fn of_a_step_that_fails_the_last_lines_are_kept() {
        let mut steps = Steps::new(&[]).unwrap();
        steps.command("count", 1, Command::new("sh").args(["-c", "seq 200; echo and this >&2; exit 3"]));
        let failure = steps.done[0].failure.as_ref().unwrap();
        assert_eq!(failure.error.to_string(), "exit status: 3");
        assert_eq!(failure.last_words.len(), LAST_WORDS);
        assert_eq!(failure.last_words.back().unwrap(), "and this");
        assert_eq!(failure.last_words[LAST_WORDS - 2], "200");
    }

    #[test]
    fn what_a_step_leaves_running_does_not_hold_it_up() {
        let mut steps = Steps::new(&[]).unwrap();
        steps.command(
            "start something",
            1,
            Command::new("sh").args(["-c", "sleep 999 & setsid sleep 20 & echo started"]),
        );
        assert!(steps.all_passed());
        assert!(steps.done[0].took < Duration::from_secs(15));
    }
}
