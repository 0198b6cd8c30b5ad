//! A real Apache Kafka broker, started from its published artifacts.

use std::fs::{self, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{jars, ports};

/// How long a broker may take until it listens; a cold JVM on a busy machine of two cores takes a while.
const READY_WITHIN: Duration = Duration::from_secs(90);

/// One node of Kafka (KRaft, defaults, replication factors of 1) on a free port, with its data in a temporary
/// directory. Dropping it kills the process and removes the data.
#[derive(Debug)]
pub struct Kafka {
    child: Child,
    bootstrap: SocketAddr,
    directory: TempDir,
    ready_after: Duration,
}

impl Kafka {
    /// Starts a broker with default settings.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// Starts a broker with `properties` beside, or instead of, the defaults, and waits until it listens.
    pub fn start_with(properties: &[(&str, &str)]) -> Result<Self> {
        let jars = jars::fetch()?;
        let directory =
            tempfile::Builder::new().prefix("kafka-").tempdir().context("create Kafka's directory")?;
        let [bootstrap, controller] = ports::free_ports()?;
        let config = directory.path().join("server.properties");
        fs::write(&config, server_properties(bootstrap, controller, directory.path(), properties))
            .context("write server.properties")?;
        format_storage(&jars, &config)?;
        let started = Instant::now();
        let child = launch(&jars, directory.path())?;
        let mut kafka = Self { child, bootstrap, directory, ready_after: Duration::ZERO };
        kafka.wait_until_ready()?;
        kafka.ready_after = started.elapsed();
        Ok(kafka)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        if let Err(error) = ports::wait_until_serving(self.bootstrap, &mut self.child, READY_WITHIN) {
            let said = fs::read_to_string(self.log()).unwrap_or_default();
            return Err(error.context(format!("start Kafka; it said:\n{said}")));
        }
        Ok(())
    }

    /// Ends the process at once (SIGKILL), whatever it is doing.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().context("kill Kafka")?;
        self.child.wait().context("wait for the killed Kafka")?;
        Ok(())
    }

    /// Starts the broker again on the same directory and ports; it must have been killed.
    pub fn restart(&mut self) -> Result<()> {
        let started = Instant::now();
        self.child = launch(&jars::fetch()?, self.directory.path())?;
        self.wait_until_ready()?;
        self.ready_after = started.elapsed();
        Ok(())
    }

    /// What starts it on its directory and ports, for a shell; it must have been killed.
    pub fn command_line(&self) -> Result<String> {
        let command = server_command(&jars::fetch()?, self.directory.path());
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let quoted: Vec<String> = words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
        Ok(quoted.join(" "))
    }

    /// The address that clients begin with, as `host:port`.
    pub fn bootstrap(&self) -> String {
        self.bootstrap.to_string()
    }

    /// The process id, for those who measure it.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How long the start took from exec until the port accepted.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Where the broker keeps its partitions.
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// What the broker has logged.
    pub fn log(&self) -> PathBuf {
        self.directory.path().join("server.log")
    }

    /// Asks the broker to end and waits for it.
    pub fn stop(mut self) -> Result<()> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM).context("ask Kafka to stop")?;
        }
        self.child.wait().context("wait for Kafka to stop")?;
        Ok(())
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(jars: &Path, directory: &Path) -> Result<Child> {
    let mut options = OpenOptions::new();
    let log = directory.join("server.log");
    let output = options.create(true).append(true).open(log).context("open Kafka's log")?;
    let mut command = server_command(jars, directory);
    command.stdin(Stdio::null());
    command.stdout(output.try_clone().context("share Kafka's log")?).stderr(output);
    command.spawn().context("start Kafka")
}

/// Kafka as its own start script runs it: the optimising compiler and G1, since it is also measured.
fn server_command(jars: &Path, directory: &Path) -> Command {
    let mut command = Command::new("java");
    command.args(["-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]);
    command.args(["-XX:InitiatingHeapOccupancyPercent=35", "-Djava.awt.headless=true"]);
    command.arg("-cp").arg(jars.join("*")).arg("kafka.Kafka").arg(directory.join("server.properties"));
    command
}

fn format_storage(jars: &Path, config: &Path) -> Result<()> {
    let output = jars::java(jars, "-Xmx256m")
        .args(["kafka.tools.StorageTool", "format", "--cluster-id", "a29ob3J0LXBlZXItMDAwMQ", "--config"])
        .arg(config)
        .stdin(Stdio::null())
        .output()
        .context("run Kafka's storage tool (cargo xtask setup installs a JDK)")?;
    if !output.status.success() {
        bail!("Kafka's storage tool failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn server_properties(
    bootstrap: SocketAddr,
    controller: SocketAddr,
    directory: &Path,
    overrides: &[(&str, &str)],
) -> String {
    let mut text = format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@{controller}\n\
         controller.listener.names=CONTROLLER\n\
         listeners=PLAINTEXT://{bootstrap},CONTROLLER://{controller}\n\
         advertised.listeners=PLAINTEXT://{bootstrap}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         log.dirs={}\n\
         offsets.topic.replication.factor=1\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         share.coordinator.state.topic.replication.factor=1\n\
         share.coordinator.state.topic.min.isr=1\n",
        directory.join("data").display(),
    );
    for (name, value) in overrides {
        text.push_str(&format!("{name}={value}\n"));
    }
    text
}
