//! One process of the example.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::history::Life;
use crate::world::{World, now_us};

/// A process that runs, or ran. Dropping it kills it.
pub(crate) struct Counter {
    pub(crate) name: String,
    child: Child,
    journal: PathBuf,
    output: PathBuf,
    was_asked: bool,
    killed_us: Option<u64>,
    ended: Option<ExitStatus>,
}

/// How all of them are started.
pub(crate) struct Program {
    pub(crate) binary: PathBuf,
    pub(crate) topic: &'static str,
    pub(crate) group: &'static str,
}

impl Counter {
    /// Starts a process under a name that others may have had before; `number` tells it from all others.
    pub(crate) fn start(world: &World, program: &Program, name: &str, number: usize) -> Self {
        let directory = world.directory.path();
        let output = directory.join(format!("{number}-{name}.output"));
        let journal = directory.join(format!("{number}-{name}.journal"));
        let mut command = Command::new(&program.binary);
        command.args(["--name", name, "--topic", program.topic, "--group", program.group]);
        command.args(["--assigner", &world.assigner_urls().join(","), "--kafka", &world.broker.bootstrap()]);
        command.arg("--state-dir").arg(state_directory(directory, name));
        command.arg("--results").arg(results_directory(directory));
        command.arg("--journal").arg(&journal);
        let file = File::create(&output).unwrap();
        command.env("RUST_LOG", "info").env("RUST_BACKTRACE", "0").env("NO_COLOR", "1").stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(file);
        let child = command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
        Self { name: name.to_owned(), child, journal, output, was_asked: false, killed_us: None, ended: None }
    }

    /// Ends it at once (SIGKILL), whatever it is doing.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.ended = Some(self.child.wait().unwrap());
        self.killed_us = Some(now_us());
    }

    /// Asks it to hand everything over and leave.
    pub(crate) fn ask_to_leave(&mut self) {
        self.was_asked = true;
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
    }

    /// Whether it has ended by itself or was killed.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap();
        }
        self.ended.is_some()
    }

    /// Whether it was asked to leave and could not.
    pub(crate) fn has_failed_to_leave(&self) -> bool {
        self.was_asked && self.ended.is_some_and(|status| !status.success())
    }

    /// What is known of its life.
    pub(crate) fn life(&self) -> Life {
        let journal = fs::read_to_string(&self.journal).unwrap_or_default();
        Life::read(&self.name, &journal, self.killed_us, self.ended.is_some())
    }

    pub(crate) fn begun(&self) -> usize {
        fs::read_to_string(&self.journal).unwrap_or_default().matches("\"begins\"").count()
    }

    /// The end of what it has logged.
    pub(crate) fn story(&self) -> String {
        let said = fs::read_to_string(&self.output).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(40)..].join("\n");
        format!("--- {} ({:?}), as of {}:\n{last}\n", self.name, self.ended, self.output.display())
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn state_directory(directory: &Path, name: &str) -> PathBuf {
    directory.join("state").join(name)
}

pub(crate) fn results_directory(directory: &Path) -> PathBuf {
    directory.join("results")
}
