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

/// How many listeners beside its own a broker can be given.
const MOST_LISTENERS: usize = 8;

/// What a broker is started with beside, or instead of, the defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup<'a> {
    /// Settings, by name.
    pub properties: &'a [(&'a str, &'a str)],
    /// Further listeners on free ports: the name of each, and its security protocol.
    pub listeners: &'a [(&'a str, &'a str)],
    /// Users with SCRAM credentials, as the storage tool takes them: `SCRAM-SHA-256=[name=ann,password=secret]`.
    pub scram_users: &'a [&'a str],
}

/// One node of Kafka (KRaft, defaults, replication factors of 1) on a free port, with its data in a temporary
/// directory. Dropping it kills the process and removes the data.
#[derive(Debug)]
pub struct Kafka {
    child: Child,
    bootstrap: SocketAddr,
    /// The listeners beside that one.
    listeners: Vec<(String, SocketAddr)>,
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
        Self::start_as(&Setup { properties, ..Setup::default() })
    }

    /// Starts a broker as `setup` says, and waits until it listens.
    pub fn start_as(setup: &Setup<'_>) -> Result<Self> {
        let jars = jars::fetch()?;
        let directory =
            tempfile::Builder::new().prefix("kafka-").tempdir().context("create Kafka's directory")?;
        let [bootstrap, controller, free @ ..] = ports::lasting_ports::<{ 2 + MOST_LISTENERS }>()?;
        if setup.listeners.len() > MOST_LISTENERS {
            bail!("a broker is given at most {MOST_LISTENERS} listeners");
        }
        let listeners: Vec<_> =
            setup.listeners.iter().zip(free).map(|((name, _), port)| ((*name).to_owned(), port)).collect();
        let config = directory.path().join("server.properties");
        let mut text = server_properties(bootstrap, controller, directory.path());
        text.push_str(&listener_properties(bootstrap, controller, setup, &listeners));
        for (name, value) in setup.properties {
            text.push_str(&format!("{name}={value}\n"));
        }
        fs::write(&config, text).context("write server.properties")?;
        format_storage(&jars, &config, setup.scram_users)?;
        let started = Instant::now();
        let child = launch(&jars, directory.path())?;
        let mut kafka = Self { child, bootstrap, listeners, directory, ready_after: Duration::ZERO };
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

    /// The address of one of the further listeners, as `host:port`.
    ///
    /// # Panics
    /// If it was started without one of that name.
    pub fn listener(&self, name: &str) -> String {
        let found = self.listeners.iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("there is no listener {name}")).1.to_string()
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

fn format_storage(jars: &Path, config: &Path, scram_users: &[&str]) -> Result<()> {
    let mut command = jars::java(jars, "-Xmx256m");
    // Java reads its arguments as the locale says; passwords may be more than ASCII.
    command.env("LC_ALL", "C.UTF-8");
    command
        .args(["kafka.tools.StorageTool", "format", "--cluster-id", "a29ob3J0LXBlZXItMDAwMQ", "--config"])
        .arg(config)
        .stdin(Stdio::null());
    for user in scram_users {
        command.args(["--add-scram", user]);
    }
    let output = command.output().context("run Kafka's storage tool (cargo xtask setup installs a JDK)")?;
    if !output.status.success() {
        bail!("Kafka's storage tool failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn server_properties(bootstrap: SocketAddr, controller: SocketAddr, directory: &Path) -> String {
    format!(
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
    )
}

/// The listeners again, with those of the setup; of two lines with one name Java takes the later.
fn listener_properties(
    bootstrap: SocketAddr,
    controller: SocketAddr,
    setup: &Setup<'_>,
    listeners: &[(String, SocketAddr)],
) -> String {
    if listeners.is_empty() {
        return String::new();
    }
    let advertised: String = listeners.iter().map(|(name, address)| format!(",{name}://{address}")).collect();
    let protocols: String =
        setup.listeners.iter().map(|(name, protocol)| format!(",{name}:{protocol}")).collect();
    format!(
        "listeners=PLAINTEXT://{bootstrap},CONTROLLER://{controller}{advertised}\n\
         advertised.listeners=PLAINTEXT://{bootstrap}{advertised}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT{protocols}\n\
         inter.broker.listener.name=PLAINTEXT\n"
    )
}
