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
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(30);

/// How to start a [`Kohort`]; the default is an empty directory, free ports and no settings.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The binary; without one, [`binary`] looks for it.
    pub binary: Option<PathBuf>,
    /// Where the data lives; without one, in a temporary directory that goes with the process.
    pub data_dir: Option<PathBuf>,
    /// Broker properties, each given as `--set name=value`.
    pub settings: Vec<(String, String)>,
    /// Whether it has one processor, and with it one thread for all connections: what was sent first is taken first.
    pub one_processor: bool,
    /// The names of further listeners, each on a port of its own.
    pub listeners: Vec<String>,
}

impl Options {
    /// Adds a listener of this name and security protocol.
    #[must_use]
    pub fn listen(mut self, name: &str, protocol: &str) -> Self {
        self.listeners.push(name.to_owned());
        let map = "listener.security.protocol.map";
        match self.settings.iter_mut().find(|(name, _)| name == map) {
            Some((_, value)) => {
                value.push_str(&format!(",{name}:{protocol}"));
                self
            }
            None => self.set(map, &format!("PLAINTEXT:PLAINTEXT,{name}:{protocol}")),
        }
    }

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
    one_processor: bool,
    /// Further listeners by name.
    listeners: Vec<(String, SocketAddr)>,
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
        let Options { settings, one_processor, listeners: names, .. } = options;
        let mut free = ports::several_lasting_ports(2 + names.len())?;
        let listeners: Vec<_> = names.into_iter().zip(free.split_off(2)).collect();
        let [bootstrap, admin] = free[..] else { bail!("two ports") };
        let mut command = command(&binary, bootstrap, admin, &data_dir, &settings, one_processor);
        listen(&mut command, &listeners);
        let (child, ready_after) = launch(command, bootstrap, scratch.path())?;
        Ok(Self {
            child,
            binary,
            bootstrap,
            admin,
            data_dir,
            settings,
            one_processor,
            listeners,
            scratch,
            ready_after,
        })
    }

    /// The address that clients begin with, as `host:port`.
    pub fn bootstrap(&self) -> String {
        self.bootstrap.to_string()
    }

    /// The address of a further listener, as `host:port`; empty if there is no such one.
    pub fn listener(&self, name: &str) -> String {
        let found = self.listeners.iter().find(|(known, _)| known == name);
        found.map(|(_, address)| address.to_string()).unwrap_or_default()
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
        let output = self.scratch.path().join("output");
        let mut child = record_output(&mut command, &output)?.spawn().context("start Kohort")?;
        thread::sleep(after);
        child.kill().context("kill Kohort")?;
        child.wait().context("wait for the killed Kohort")?;
        Ok(())
    }

    /// Asks the broker to end (SIGTERM) and waits for it.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        terminate(&self.child)?;
        self.child.wait().context("wait for Kohort to stop")
    }

    fn command(&self) -> Command {
        let mut command = command(
            &self.binary,
            self.bootstrap,
            self.admin,
            &self.data_dir,
            &self.settings,
            self.one_processor,
        );
        listen(&mut command, &self.listeners);
        command
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
    record_output(&mut command, &scratch.join("output"))?;
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
    one_processor: bool,
) -> Command {
    let mut command = if one_processor { on_one_processor(binary) } else { command_of(binary) };
    command.arg("serve").arg("--listen").arg(bootstrap.to_string()).arg("--admin").arg(admin.to_string());
    command.arg("--data-dir").arg(data_dir);
    for (name, value) in settings {
        command.arg("--set").arg(format!("{name}={value}"));
    }
    command
}

/// The binary on the first of the processors that this process may use.
fn on_one_processor(binary: &Path) -> Command {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    let first = allowed.trim().split([',', '-']).next().filter(|it| !it.is_empty()).unwrap_or("0");
    // It becomes the binary, under the same process id.
    let mut command = command_of(Path::new("taskset"));
    command.args(["--cpu-list", first]).arg(binary);
    command
}

fn listen(command: &mut Command, listeners: &[(String, SocketAddr)]) {
    for (name, address) in listeners {
        command.arg("--listen").arg(format!("{name}://{address}"));
    }
}

/// Our binary, with none of the variables that it would take for settings.
pub fn clean_command() -> Result<Command> {
    Ok(command_of(&binary()?))
}

fn command_of(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    // Every KOHORT_ variable is a setting to the broker, and those of the tests are none.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"KOHORT_") {
            command.env_remove(name);
        }
    }
    command
}

/// Asks a process to end (SIGTERM).
pub(crate) fn terminate(child: &Child) -> Result<()> {
    match i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        Some(pid) => kill_process(pid, Signal::TERM).context("ask a process to stop"),
        None => Ok(()),
    }
}

/// Lets the process append what it says to a file.
pub(crate) fn record_output<'a>(command: &'a mut Command, file: &Path) -> Result<&'a mut Command> {
    let mut options = OpenOptions::new();
    let output = options.create(true).append(true).open(file).context("open Kohort's output")?;
    command.stdin(Stdio::null()).stdout(output.try_clone().context("share Kohort's output")?).stderr(output);
    Ok(command)
}
