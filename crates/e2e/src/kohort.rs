//! Our own binary as a process that can be killed and started again.

use std::fs::{self, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{checkout, ports};

/// How long a broker may take until it listens, recovery after a kill included.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// How to start a [`Kohort`]; the default is an empty directory, free ports and no settings.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The binary; without one, [`binary`] looks for it.
    pub binary: Option<PathBuf>,
    /// Where the data lives; without one, in a temporary directory that goes with the process.
    pub data_dir: Option<PathBuf>,
    /// Broker properties, each given as `--set name=value`.
    pub settings: Vec<(String, String)>,
    /// Threads of the runtime; without a number, one for each core.
    pub workers: Option<usize>,
}

impl Options {
    /// Adds a broker property.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A running Kohort. Dropping it kills the process and removes its temporary directory.
#[derive(Debug)]
pub struct Kohort {
    child: Child,
    binary: PathBuf,
    bootstrap: SocketAddr,
    admin: SocketAddr,
    data_dir: PathBuf,
    settings: Vec<(String, String)>,
    workers: Option<usize>,
    scratch: TempDir,
    ready_after: Duration,
}

impl Kohort {
    /// Starts a broker and waits until it listens.
    pub fn start(options: Options) -> Result<Self> {
        let binary = match &options.binary {
            Some(binary) => binary.clone(),
            None => binary()?,
        };
        let scratch =
            tempfile::Builder::new().prefix("kohort-").tempdir().context("create Kohort's directory")?;
        let data_dir = options.data_dir.clone().unwrap_or_else(|| scratch.path().join("data"));
        let [bootstrap, admin] = ports::free_ports()?;
        let Options { settings, workers, .. } = options;
        let command = command(&binary, bootstrap, admin, &data_dir, &settings, workers);
        let (child, ready_after) = launch(command, bootstrap, scratch.path())?;
        Ok(Self { child, binary, bootstrap, admin, data_dir, settings, workers, scratch, ready_after })
    }

    /// The address that clients begin with, as `host:port`.
    pub fn bootstrap(&self) -> String {
        self.bootstrap.to_string()
    }

    /// The address of the admin HTTP listener, as `host:port`.
    pub fn admin(&self) -> String {
        self.admin.to_string()
    }

    /// The process id, for those who measure it.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where the data lives.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// How long the last start took from exec until the port accepted.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// What the broker printed, over all its starts.
    pub fn output(&self) -> String {
        fs::read_to_string(self.scratch.path().join("output")).unwrap_or_default()
    }

    /// Ends the process at once (SIGKILL), whatever it is doing.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().context("kill Kohort")?;
        self.child.wait().context("wait for the killed Kohort")?;
        Ok(())
    }

    /// Starts the broker again on the same directory and ports; it must have been killed or stopped.
    pub fn restart(&mut self) -> Result<()> {
        let (child, ready_after) = launch(self.command(), self.bootstrap, self.scratch.path())?;
        self.child = child;
        self.ready_after = ready_after;
        Ok(())
    }

    /// Starts the broker again and kills it `after` so long, ready or not; it must have been killed or stopped.
    pub fn stumble(&mut self, after: Duration) -> Result<()> {
        let mut command = self.command();
        let mut child = record_output(&mut command, self.scratch.path())?.spawn().context("start Kohort")?;
        thread::sleep(after);
        child.kill().context("kill Kohort")?;
        child.wait().context("wait for the killed Kohort")?;
        Ok(())
    }

    /// Asks the broker to end (SIGTERM) and waits for it.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM).context("ask Kohort to stop")?;
        }
        self.child.wait().context("wait for Kohort to stop")
    }

    fn command(&self) -> Command {
        command(&self.binary, self.bootstrap, self.admin, &self.data_dir, &self.settings, self.workers)
    }

    /// Whether the process still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Kohort {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The `kohort` binary: what `KOHORT_BIN` names, or the newest one that cargo has built.
pub fn binary() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("KOHORT_BIN") {
        let path = PathBuf::from(named);
        if path.is_file() {
            return Ok(path);
        }
        bail!("KOHORT_BIN names {}, which is not a file", path.display());
    }
    let built = |profile: &str| -> Option<(SystemTime, PathBuf)> {
        let path = checkout::target().join(profile).join("kohort");
        Some((path.metadata().ok()?.modified().ok()?, path))
    };
    match built("release").into_iter().chain(built("debug")).max() {
        Some((_, path)) => Ok(path),
        None => bail!("no kohort binary; run cargo build --release, or name one by KOHORT_BIN"),
    }
}

fn launch(mut command: Command, bootstrap: SocketAddr, scratch: &Path) -> Result<(Child, Duration)> {
    record_output(&mut command, scratch)?;
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| format!("start {:?}", command.get_program()))?;
    if let Err(error) = ports::wait_until_serving(bootstrap, &mut child, READY_WITHIN) {
        // Fails only when it is gone already.
        let _ = child.kill();
        let _ = child.wait();
        let said = fs::read_to_string(scratch.join("output")).unwrap_or_default();
        return Err(error.context(format!("start Kohort; it said:\n{said}")));
    }
    Ok((child, started.elapsed()))
}

fn command(
    binary: &Path,
    bootstrap: SocketAddr,
    admin: SocketAddr,
    data_dir: &Path,
    settings: &[(String, String)],
    workers: Option<usize>,
) -> Command {
    let mut command = Command::new(binary);
    // Every KOHORT_ variable is a setting to the broker, and those of the tests are none.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"KOHORT_") {
            command.env_remove(name);
        }
    }
    command.arg("serve").arg("--listen").arg(bootstrap.to_string()).arg("--admin").arg(admin.to_string());
    command.arg("--data-dir").arg(data_dir);
    for (name, value) in settings {
        command.arg("--set").arg(format!("{name}={value}"));
    }
    if let Some(workers) = workers {
        command.env("TOKIO_WORKER_THREADS", workers.to_string());
    }
    command
}

fn record_output<'a>(command: &'a mut Command, scratch: &Path) -> Result<&'a mut Command> {
    let mut options = OpenOptions::new();
    let output =
        options.create(true).append(true).open(scratch.join("output")).context("open Kohort's output")?;
    command.stdin(Stdio::null()).stdout(output.try_clone().context("share Kohort's output")?).stderr(output);
    Ok(command)
}
