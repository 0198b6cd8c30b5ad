//! The assigner of our own binary, as a process.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{kohort, ports};

/// How long an instance may take until it serves.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// One instance on free ports. Dropping it kills the process.
#[derive(Debug)]
pub struct Assigner {
    child: Child,
    arguments: Vec<String>,
    address: SocketAddr,
    http: SocketAddr,
    scratch: TempDir,
}

impl Assigner {
    /// Starts an instance on this etcd and this Kafka and waits until it is ready. Without a Kafka, if that is empty,
    /// topics are what lies in etcd. Settings are given as `--set name=value`.
    pub fn start(etcd: &str, kafka: &str, settings: &[(&str, &str)]) -> Result<Self> {
        let [address, http] = ports::lasting_ports()?;
        let scratch = tempfile::Builder::new().prefix("assigner-").tempdir().context("create a directory")?;
        let mut arguments = ["assigner", "--etcd", etcd].map(str::to_owned).to_vec();
        if !kafka.is_empty() {
            arguments.extend(["--kafka", kafka].map(str::to_owned));
        }
        arguments.extend(["--listen".to_owned(), address.to_string(), "--http".to_owned(), http.to_string()]);
        for (name, value) in settings {
            arguments.extend(["--set".to_owned(), format!("{name}={value}")]);
        }
        let child = spawn(&arguments, scratch.path())?;
        let mut assigner = Self { child, arguments, address, http, scratch };
        assigner.wait_until_ready()?;
        Ok(assigner)
    }

    /// Where consumers reach it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where its health is asked for, as `host:port`.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged.
    pub fn output(&self) -> String {
        fs::read_to_string(self.scratch.path().join("output")).unwrap_or_default()
    }

    /// Ends the process at once (SIGKILL), whatever it is doing.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().context("kill the assigner")?;
        self.child.wait().context("wait for the killed assigner")?;
        Ok(())
    }

    /// Starts it again on the same ports and waits until it is ready; it must have been killed.
    pub fn restart(&mut self) -> Result<()> {
        self.child = spawn(&self.arguments, self.scratch.path())?;
        self.wait_until_ready()
    }

    /// Stops it in its tracks (SIGSTOP): it keeps its connections and answers nothing.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Asks it to end (SIGTERM) and does not wait for it.
    pub fn ask_to_stop(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("look after the assigner")
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("the assigner has a pid")?, signal).context("send the assigner a signal")
    }

    /// Whether it says that it is ready.
    pub fn is_ready(&self) -> bool {
        is_ready(self.http).unwrap_or(false)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let started = Instant::now();
        loop {
            if self.is_ready() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait().context("look after the assigner")? {
                bail!("the assigner ended before it was ready: {status}; it said:\n{}", self.output());
            }
            if started.elapsed() > READY_WITHIN {
                bail!("the assigner is not ready after {READY_WITHIN:?}; it said:\n{}", self.output());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Assigner {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(arguments: &[String], scratch: &Path) -> Result<Child> {
    let mut options = OpenOptions::new();
    let output = options.create(true).append(true).open(scratch.join("output"));
    let output = output.context("open the assigner's output")?;
    let mut command = Command::new(kohort::binary()?);
    // Many variables are settings to it, and none of those here is meant for it.
    command.args(arguments).env_clear().stdin(Stdio::null());
    command.stdout(output.try_clone().context("share the assigner's output")?).stderr(output);
    command.spawn().with_context(|| format!("start {:?}", command.get_program()))
}

fn is_ready(http: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&http, READY_WITHIN)?;
    stream.set_read_timeout(Some(READY_WITHIN))?;
    stream.write_all(format!("GET /readyz HTTP/1.0\r\nHost: {http}\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split(' ').nth(1) == Some("200"))
}
