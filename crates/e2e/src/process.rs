//! Running a program within a time limit.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

/// What a program left behind.
#[derive(Debug)]
pub struct Finished {
    /// How it ended; `None` when it was killed because its time was over.
    pub status: Option<ExitStatus>,
    /// What it wrote to its standard output.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
}

impl Finished {
    /// Whether it ended by itself and said that all is well.
    pub fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// Runs `command` and waits for it; after `limit` it is killed together with everything it started.
pub fn run_within(mut command: Command, limit: Duration) -> Result<Finished> {
    // Files instead of pipes: a program that nobody reads from must not stand still because a pipe is full.
    let mut stdout = tempfile::tempfile().context("create a file for the output")?;
    let mut stderr = tempfile::tempfile().context("create a file for the errors")?;
    command.stdin(Stdio::null()).process_group(0);
    command.stdout(stdout.try_clone().context("share the output")?);
    command.stderr(stderr.try_clone().context("share the errors")?);
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| format!("start {:?}", command.get_program()))?;
    let status = loop {
        if let Some(status) = child.try_wait().context("wait for the program")? {
            break Some(status);
        }
        if started.elapsed() > limit {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                kill_process_group(group, Signal::KILL).context("kill a program whose time is over")?;
            }
            child.wait().context("wait for the killed program")?;
            break None;
        }
        thread::sleep(Duration::from_millis(5));
    };
    Ok(Finished { status, stdout: text(&mut stdout)?, stderr: text(&mut stderr)?, took: started.elapsed() })
}

fn text(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).context("read what the program wrote")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a program of this name is on the path.
pub fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .any(|directory| fs::metadata(directory.join(name)).is_ok_and(|it| it.is_file()))
}
