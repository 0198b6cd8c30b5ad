//! Steps, each within its time, with a count at the end.
//!
//! What a step says goes into a file of its own. A person sees the last lines of it, more of them when it has failed:
//! the one failure of an hour must not be looked for among thousands of lines about what went well.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::mem;
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
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
    /// Where what they say is kept.
    directory: PathBuf,
    began: Instant,
    interrupted: Arc<AtomicBool>,
    done: Vec<Done>,
}

/// A step that runs beside others.
#[derive(Debug)]
pub(crate) struct Beside(Option<JoinHandle<Done>>);

/// A step that is over.
#[derive(Debug)]
struct Done {
    name: String,
    took: Duration,
    heard: Heard,
    failure: Option<anyhow::Error>,
}

/// What is remembered of what a step says.
#[derive(Debug, Default)]
struct Heard {
    /// Where something went wrong, each with some lines that follow. Much that went well may come after it.
    complaints: Vec<String>,
    /// How many of the lines that come now belong to the last complaint.
    more: usize,
    last_words: VecDeque<String>,
}

/// How many lines of a step are said again when it has failed. A test binary ends with the names of what failed.
const LAST_WORDS: usize = 80;

/// How many lines of complaints are said again when a step has failed, and how many of them for each.
const COMPLAINTS: usize = 160;
const EACH: usize = 16;

/// What a complaint of the compiler or of a test has in its first line.
const COMPLAINING: [&str; 4] = ["panicked at", "FAILED", "error:", "error["];

/// How many lines of a step are said when it has passed: a count of tests, of seeds or of kills.
const GOOD_NEWS: usize = 3;

impl Steps {
    /// Begins with nothing done; `wanted` restricts the steps by parts of their names. What they say is kept in
    /// `directory`.
    pub(crate) fn new(wanted: &[String], directory: &Path) -> Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted)).context("wait for signals")?;
        }
        fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
        Ok(Self {
            wanted: wanted.to_vec(),
            directory: directory.to_owned(),
            began: Instant::now(),
            interrupted,
            done: Vec::new(),
        })
    }

    /// Runs `command` and remembers how it went; it is killed when `minutes` are over.
    pub(crate) fn command(&mut self, name: &str, minutes: u64, command: Command) {
        let step = self.beside(name, minutes, command);
        self.join(step);
    }

    /// Starts `command` as a step that others may run beside; it is over with [`Steps::join`].
    pub(crate) fn beside(&self, name: &str, minutes: u64, mut command: Command) -> Beside {
        if !self.is_wanted(name) {
            return Beside(None);
        }
        let said =
            self.directory.join(format!("{}.log", name.replace(|it: char| !it.is_ascii_alphanumeric(), "-")));
        println!("==> {name}, into {}", said.display());
        let interrupted = Arc::clone(&self.interrupted);
        let limit = Duration::from_secs(minutes * 60);
        let name = name.to_owned();
        Beside(Some(thread::spawn(move || {
            let started = Instant::now();
            let (heard, outcome) = run_within(&mut command, limit, &interrupted, &said);
            Done { name, took: started.elapsed(), heard, failure: outcome.err() }
        })))
    }

    /// Waits for a step to end, and says how it went.
    pub(crate) fn join(&mut self, Beside(step): Beside) {
        match step.map(JoinHandle::join) {
            None => {}
            Some(Ok(done)) => self.add(done),
            Some(Err(panic)) => resume_unwind(panic),
        }
    }

    fn is_wanted(&self, name: &str) -> bool {
        is_named(name, &self.wanted) && !self.interrupted.load(Ordering::Relaxed)
    }

    fn add(&mut self, done: Done) {
        let Done { name, took, heard, failure } = &done;
        match failure {
            None => {
                let said: Vec<_> = heard.last_words.iter().filter(|line| !line.trim().is_empty()).collect();
                for line in said.iter().skip(said.len().saturating_sub(GOOD_NEWS)) {
                    println!("    {line}");
                }
                println!("==> {name}: passed in {:.1} s", took.as_secs_f64());
            }
            Some(error) => {
                // At once, too: whoever ends this before its end has seen it.
                println!("==> {name}: FAILED after {:.1} s: {error:#}", took.as_secs_f64());
                heard.say_again();
            }
        }
        self.done.push(done);
    }

    /// Whether no step has failed so far, so that one may build on what they have made.
    pub(crate) fn all_passed(&self) -> bool {
        self.done.iter().all(|step| step.failure.is_none())
    }

    /// Prints what each step took, what those that failed said last, and the count alone on the last line.
    pub(crate) fn finish(self) -> ExitCode {
        println!();
        for Done { name, took, failure, .. } in &self.done {
            let word = if failure.is_none() { "passed" } else { "FAILED" };
            println!("{word} {name:40} {:7.1} s", took.as_secs_f64());
        }
        println!("in all {:.1} minutes\n", self.began.elapsed().as_secs_f64() / 60.0);
        let mut failed = 0;
        for Done { name, heard, failure, .. } in &self.done {
            let Some(error) = failure else { continue };
            failed += 1;
            println!("==> {name}: FAILED: {error:#}");
            heard.say_again();
            println!();
        }
        println!("{} passed, {failed} failed", self.done.len() - failed);
        // Neither a word that no step's name contains nor Ctrl-C must look like success.
        if failed == 0 && !self.done.is_empty() && !self.interrupted.load(Ordering::Relaxed) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// Whether a step is one of those that were asked for, by parts of their names; without any, all are.
pub(crate) fn is_named(name: &str, wanted: &[String]) -> bool {
    wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()))
}

impl Heard {
    fn hear(&mut self, line: String) {
        if COMPLAINING.iter().any(|sign| line.contains(sign)) {
            self.more = EACH;
        }
        if self.more > 0 && self.complaints.len() < COMPLAINTS {
            self.more -= 1;
            self.complaints.push(line.clone());
        }
        if self.last_words.len() == LAST_WORDS {
            self.last_words.pop_front();
        }
        self.last_words.push_back(line);
    }

    fn say_again(&self) {
        for (title, lines) in [
            ("complaints", self.complaints.iter().collect()),
            ("last lines", Vec::from_iter(&self.last_words)),
        ] {
            println!("--- {title}:");
            for line in lines {
                println!("{line}");
            }
        }
    }
}

/// Runs a command and keeps what it says; one that takes too long is killed with all that it started.
fn run_within(
    command: &mut Command,
    limit: Duration,
    interrupted: &AtomicBool,
    said: &Path,
) -> (Heard, Result<()>) {
    let heard = Arc::new(Mutex::new(Heard::default()));
    let outcome = listen_within(command, limit, interrupted, said, &heard);
    // Somebody in a group of its own may still talk.
    let heard = mem::take(&mut *heard.lock().unwrap_or_else(PoisonError::into_inner));
    (heard, outcome)
}

fn listen_within(
    command: &mut Command,
    limit: Duration,
    interrupted: &AtomicBool,
    said: &Path,
    heard: &Arc<Mutex<Heard>>,
) -> Result<()> {
    let mut file = File::create(said).with_context(|| format!("make {}", said.display()))?;
    // A group of its own, so that what it starts can be ended with it. Ctrl-C no longer reaches it by itself.
    command.process_group(0);
    // Where a panic happened is said without it, and tests that are meant to panic would fill the log.
    command.env("RUST_BACKTRACE", "0");
    let (reader, writer) = io::pipe().context("make a pipe")?;
    command.stdout(writer.try_clone().context("share the pipe")?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("start {:?}", command.get_program()))?;
    // The pipe ends when nobody can write to it any more, so this side must let go of it.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let listener = thread::spawn({
        let heard = Arc::clone(heard);
        move || keep(reader, &mut file, &heard)
    });
    let outcome = wait_within(&mut child, limit, interrupted);
    // What the command has left running has no business here. If some of it is in a group of its own and holds the pipe
    // open, there is nothing more to wait for.
    end_group(&mut child)?;
    let ended = Instant::now();
    while !listener.is_finished() && ended.elapsed() < PIPE_PATIENCE {
        thread::sleep(Duration::from_millis(1));
    }
    outcome
}

/// How long to wait for the last lines of a command that has ended.
const PIPE_PATIENCE: Duration = Duration::from_secs(2);

/// Writes down what comes out of the pipe, and remembers some of it.
fn keep(pipe: impl Read, file: &mut File, heard: &Mutex<Heard>) {
    for line in BufReader::new(pipe).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line).into_owned();
        // A disk that is full is no reason to stop listening: the step would wait for this side for ever.
        writeln!(file, "{line}").ok();
        heard.lock().unwrap_or_else(PoisonError::into_inner).hear(line);
    }
}

fn wait_within(child: &mut Child, limit: Duration, interrupted: &AtomicBool) -> Result<()> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("wait for the command")? {
            ensure!(status.success(), "{status}");
            return Ok(());
        }
        ensure!(!interrupted.load(Ordering::Relaxed), "it was interrupted");
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
    use tempfile::TempDir;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_step_that_failed_is_not_forgotten_when_the_next_one_passes() {
        let directory = TempDir::new().unwrap();
        let mut steps = Steps::new(&[], directory.path()).unwrap();
        assert!(steps.all_passed());
        steps.command("build", 1, shell("exit 1"));
        steps.command("look", 1, shell("exit 0"));
        assert!(!steps.all_passed());
        assert_eq!(steps.finish(), ExitCode::FAILURE);
    }

    #[test]
    fn all_that_a_step_says_is_in_its_file_and_the_last_lines_are_at_hand() {
        let directory = TempDir::new().unwrap();
        let mut steps = Steps::new(&[], directory.path()).unwrap();
        steps.command("count & say", 1, shell("seq 200; echo and this >&2; exit 3"));
        let Done { failure, heard: Heard { last_words, .. }, .. } = &steps.done[0];
        assert_eq!(failure.as_ref().unwrap().to_string(), "exit status: 3");
        assert_eq!(last_words.len(), LAST_WORDS);
        assert_eq!(last_words.back().unwrap(), "and this");
        assert_eq!(last_words[LAST_WORDS - 2], "200");
        let said = fs::read_to_string(directory.path().join("count---say.log")).unwrap();
        assert_eq!(said.lines().count(), 201);
    }

    #[test]
    fn what_went_wrong_early_is_at_hand_whatever_went_well_after_it() {
        let mut heard = Heard::default();
        let early = ["test one ... ok", "thread 'two' panicked at lib.rs:1:2:", "left is not right"];
        let late = (0..500).map(|number| format!("test number {number} ... ok"));
        for line in early.into_iter().map(str::to_owned).chain(late) {
            heard.hear(line);
        }
        assert_eq!(heard.complaints.len(), EACH);
        assert_eq!(heard.complaints[..2], early[1..]);
        for _ in 0..COMPLAINTS {
            heard.hear("error: too many of them".to_owned());
        }
        assert_eq!(heard.complaints.len(), COMPLAINTS);
    }

    #[test]
    fn steps_beside_each_other_are_both_counted() {
        let directory = TempDir::new().unwrap();
        let pipe = directory.path().join("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let pipe = pipe.display();
        let mut steps = Steps::new(&[], directory.path()).unwrap();
        // Each waits for the other at the two ends of a pipe.
        let reader = steps.beside("reader", 1, shell(&format!("read word < {pipe}; echo $word; exit 1")));
        steps.command("writer", 1, shell(&format!("echo hello > {pipe}")));
        assert!(steps.all_passed());
        steps.join(reader);
        assert_eq!(steps.done[1].heard.last_words, ["hello"]);
        assert!(!steps.all_passed());
    }

    #[test]
    fn what_a_step_leaves_running_does_not_hold_it_up() {
        let directory = TempDir::new().unwrap();
        let mut steps = Steps::new(&[], directory.path()).unwrap();
        steps.command("start something", 1, shell("sleep 999 & setsid sleep 20 & echo started"));
        assert!(steps.all_passed());
        assert!(steps.done[0].took < Duration::from_secs(15));
    }
}
