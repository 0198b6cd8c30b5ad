//! A broker without listeners and gateways apart from it, as processes that can be killed and started again.

use std::fs;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::kohort::{self, READY_WITHIN};
use crate::udp_relay::{UdpRelay, Weather};
use crate::{ports, process};

/// How long one command may take.
const COMMAND_WITHIN: Duration = Duration::from_secs(30);

/// How to start a [`Deployment`].
#[derive(Debug, Clone)]
pub struct Options {
    /// How many gateways.
    pub gateways: usize,
    /// Whether gateways reach the broker without a network of the test's own between them.
    pub is_direct: bool,
    /// Properties of the broker, each given as `--set name=value`.
    pub broker_settings: Vec<(String, String)>,
    /// Properties of every gateway, each given as `--set name=value`.
    pub gateway_settings: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self { gateways: 2, is_direct: false, broker_settings: Vec::new(), gateway_settings: Vec::new() }
    }
}

impl Options {
    /// Adds a property of the broker.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.broker_settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a property of every gateway.
    #[must_use]
    pub fn set_at_gateways(mut self, name: &str, value: &str) -> Self {
        self.gateway_settings.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A broker and its gateways, each gateway behind a network of its own. Dropping it kills all processes.
#[derive(Debug)]
pub struct Deployment {
    broker: Process,
    admin: SocketAddr,
    rail: SocketAddr,
    endpoint_id: String,
    gateways: Vec<Gateway>,
    options: Options,
    scratch: TempDir,
}

#[derive(Debug)]
struct Gateway {
    process: Process,
    address: SocketAddr,
    key_file: PathBuf,
    network: UdpRelay,
}

/// A process and what it said, over all its starts.
#[derive(Debug)]
struct Process {
    child: Option<Child>,
    output: PathBuf,
}

impl Deployment {
    /// Starts a broker, lets its gateways in, starts them and waits until they serve.
    pub fn start(options: Options) -> Result<Self> {
        let scratch = tempfile::Builder::new().prefix("kohort-").tempdir().context("create a directory")?;
        let [admin] = ports::lasting_ports()?;
        let rail = free_udp_port()?;
        let broker = Process { child: None, output: scratch.path().join("broker") };
        let mut deployment =
            Self { broker, admin, rail, endpoint_id: String::new(), gateways: Vec::new(), options, scratch };
        deployment.start_broker()?;
        let data_dir = deployment.data_dir();
        let id = kohort_command(&["broker", "id", "--data-dir", path_text(&data_dir)?])?;
        id.trim().clone_into(&mut deployment.endpoint_id);
        for number in 0..deployment.options.gateways {
            deployment.add_gateway(number)?;
        }
        Ok(deployment)
    }

    fn add_gateway(&mut self, number: usize) -> Result<()> {
        let key_file = self.scratch.path().join(format!("gateway-{number}.key"));
        let id = kohort_command(&["gateway", "id", "--key-file", path_text(&key_file)?])?;
        self.admin_command(&["broker", "allow", id.trim()])?;
        let [address] = ports::lasting_ports()?;
        let network = UdpRelay::start(self.rail)?;
        let process = Process { child: None, output: self.scratch.path().join(format!("gateway-{number}")) };
        self.gateways.push(Gateway { process, address, key_file, network });
        self.start_gateway(number)
    }

    /// The addresses of all gateways, as clients take them.
    pub fn bootstrap(&self) -> String {
        let addresses: Vec<String> = (0..self.gateways.len()).map(|number| self.gateway(number)).collect();
        addresses.join(",")
    }

    /// The address of one gateway.
    pub fn gateway(&self, number: usize) -> String {
        self.gateways[number].address.to_string()
    }

    /// How many gateways there are.
    pub fn gateways(&self) -> usize {
        self.gateways.len()
    }

    /// The address of the broker's admin listener.
    pub fn admin(&self) -> String {
        self.admin.to_string()
    }

    /// Where the broker's data is.
    pub fn data_dir(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// What gateways dial.
    pub fn endpoint_id(&self) -> &str {
        &self.endpoint_id
    }

    /// Where the broker listens for gateways.
    pub fn rail(&self) -> SocketAddr {
        self.rail
    }

    /// The process id of the broker.
    pub fn broker_pid(&self) -> Option<u32> {
        self.broker.child.as_ref().map(Child::id)
    }

    /// Changes the network between the broker and one gateway.
    pub fn set_weather(&self, gateway: usize, weather: Weather) {
        self.gateways[gateway].network.set(weather);
    }

    /// Runs a command that asks the broker's admin listener, and returns what it printed.
    pub fn admin_command(&self, arguments: &[&str]) -> Result<String> {
        let (admin, data_dir) = (self.admin(), self.data_dir());
        let place = ["--admin", &admin, "--data-dir", path_text(&data_dir)?];
        kohort_command(&[arguments, &place].concat())
    }

    /// Ends the broker at once (SIGKILL).
    pub fn kill_broker(&mut self) -> Result<()> {
        self.broker.kill()
    }

    fn launch_broker(&mut self) -> Result<()> {
        let mut command = kohort::clean_command()?;
        command.arg("broker").arg("--data-dir").arg(self.data_dir());
        command.arg("--rail-listen").arg(self.rail.to_string()).arg("--admin").arg(self.admin.to_string());
        set_all(&mut command, &self.options.broker_settings);
        self.broker.start(command)
    }

    /// Starts the broker, which must not be running, and waits until it is ready.
    pub fn start_broker(&mut self) -> Result<()> {
        self.launch_broker()?;
        let admin = self.admin;
        self.broker.wait_until("the broker is ready", || Ok(is_ready(admin)))
    }

    /// Waits until the broker that runs now knows all gateways. Those whose broker was killed find out in time.
    pub fn wait_for_gateways(&mut self) -> Result<()> {
        let started = Instant::now();
        let is_linked = |told: &String| told.matches("\"connected\":{").count() >= self.gateways.len();
        while !is_linked(&self.admin_command(&["broker", "list", "-o", "json"])?.replace(' ', "")) {
            ensure!(started.elapsed() < READY_WITHIN, "gateways are not linked in time:\n{}", self.output());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Starts the broker and kills it `after` so long, ready or not.
    pub fn stumble_broker(&mut self, after: Duration) -> Result<()> {
        self.launch_broker()?;
        std::thread::sleep(after);
        self.broker.kill()
    }

    /// Asks the broker to end (SIGTERM) and waits for it.
    pub fn stop_broker(&mut self) -> Result<ExitStatus> {
        self.broker.stop()
    }

    /// Ends a gateway at once (SIGKILL).
    pub fn kill_gateway(&mut self, number: usize) -> Result<()> {
        self.gateways[number].process.kill()
    }

    /// Asks a gateway to end (SIGTERM) and waits for it.
    pub fn stop_gateway(&mut self, number: usize) -> Result<ExitStatus> {
        self.gateways[number].process.stop()
    }

    /// Starts a gateway, which must not be running, and waits until it answers clients.
    pub fn start_gateway(&mut self, number: usize) -> Result<()> {
        let gateway = &mut self.gateways[number];
        let mut command = kohort::clean_command()?;
        let dialled = if self.options.is_direct { self.rail } else { gateway.network.address() };
        let broker = format!("{}@{dialled}", self.endpoint_id);
        let address = gateway.address.to_string();
        command.args(["gateway", "--broker", &broker, "--listen", &address, "--advertise", &address]);
        command.arg("--key-file").arg(&gateway.key_file);
        set_all(&mut command, &self.options.gateway_settings);
        gateway.process.start(command)?;
        let address = gateway.address;
        gateway.process.wait_until("the gateway serves", || Ok(ports::serves(address)))
    }

    /// What all processes said.
    pub fn output(&self) -> String {
        let gateways = self.gateways.iter().map(|gateway| &gateway.process);
        let all = std::iter::once(&self.broker).chain(gateways);
        all.map(|process| format!("{}:\n{}\n", process.output.display(), process.said())).collect()
    }
}

impl Process {
    fn start(&mut self, mut command: Command) -> Result<()> {
        ensure!(self.child.is_none(), "{:?} runs already", command.get_program());
        kohort::record_output(&mut command, &self.output)?;
        self.child = Some(command.spawn().with_context(|| format!("start {command:?}"))?);
        Ok(())
    }

    fn wait_until(&mut self, what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
        let started = Instant::now();
        while !is_so()? {
            let child = self.child.as_mut().context("nothing runs")?;
            if let Some(status) = child.try_wait().context("look after the process")? {
                self.child = None;
                bail!("the process ended before {what}: {status}; it said:\n{}", self.said());
            }
            ensure!(started.elapsed() < READY_WITHIN, "{what}: not so in time; it said:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill().context("kill a process")?;
        child.wait().context("wait for the killed process")?;
        Ok(())
    }

    fn stop(&mut self) -> Result<ExitStatus> {
        let mut child = self.child.take().context("nothing runs")?;
        kohort::terminate(&child)?;
        child.wait().context("wait for the process to stop")
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only when the process is gone already, which is what is wanted.
        let _ = self.kill();
    }
}

fn set_all(command: &mut Command, settings: &[(String, String)]) {
    for (name, value) in settings {
        command.arg("--set").arg(format!("{name}={value}"));
    }
}

/// Runs our binary to its end and returns what it printed.
fn kohort_command(arguments: &[&str]) -> Result<String> {
    let mut command = kohort::clean_command()?;
    command.args(arguments);
    let finished = process::run_within(command, COMMAND_WITHIN)?;
    ensure!(finished.success(), "kohort {}: {}", arguments.join(" "), finished.stderr);
    Ok(finished.stdout)
}

fn path_text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is text")
}

/// Of IPv6, so that gateways, which dial an address of IPv4, find no way around the network that they are put behind.
fn free_udp_port() -> Result<SocketAddr> {
    let socket = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).context("find a free port")?;
    socket.local_addr().context("read the port")
}

/// Whether the admin listener says that the broker is ready.
fn is_ready(admin: SocketAddr) -> bool {
    ports::get(admin, "/readyz").is_ok_and(|status| status == 200)
}
