//! A real etcd, alone or as a cluster of three.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{checkout, ports, process};

/// How long a node may take until it serves, the election of a leader included.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// How long one HTTP request may take.
const HTTP_LIMIT: Duration = Duration::from_secs(10);

/// How to start etcd; the default is as an operator would.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Does not wait for the disk. For tests of behaviour on a busy machine; nothing may be measured with it.
    pub without_fsync: bool,
    /// Clients have to come by TLS.
    pub tls: Option<Tls>,
    /// Further arguments.
    pub arguments: Vec<String>,
}

/// PEM texts of a server that demands certificates of its clients.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Whom it trusts.
    pub ca: String,
    /// Its certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// One etcd on free ports, with its data in a temporary directory. Dropping it kills the process and removes the data.
#[derive(Debug)]
pub struct Etcd {
    child: Child,
    scheme: &'static str,
    client: SocketAddr,
    metrics: SocketAddr,
    directory: TempDir,
    arguments: Vec<String>,
}

/// Three nodes of one cluster.
#[derive(Debug)]
pub struct EtcdCluster {
    /// The nodes.
    pub nodes: Vec<Etcd>,
}

impl Etcd {
    /// Starts one node and waits until it serves.
    pub fn start(options: &Options) -> Result<Self> {
        let [client, peer, metrics] = ports::lasting_ports()?;
        // Alone it need not wait for others, and the shorter the timeout, the shorter the leases that it grants.
        let alone = ["--heartbeat-interval=50".to_owned(), "--election-timeout=500".to_owned()];
        let mut etcd = Self::launch(
            "etcd-0",
            [client, peer, metrics],
            &format!("etcd-0=http://{peer}"),
            &alone,
            options,
        )?;
        etcd.wait_until_ready()?;
        Ok(etcd)
    }

    fn launch(
        name: &str,
        [client, peer, metrics]: [SocketAddr; 3],
        cluster: &str,
        timing: &[String],
        options: &Options,
    ) -> Result<Self> {
        let directory =
            tempfile::Builder::new().prefix("etcd-").tempdir().context("create etcd's directory")?;
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let mut arguments = vec![
            format!("--name={name}"),
            format!("--data-dir={}", directory.path().join("data").display()),
            format!("--listen-client-urls={scheme}://{client}"),
            format!("--advertise-client-urls={scheme}://{client}"),
            format!("--listen-peer-urls=http://{peer}"),
            format!("--initial-advertise-peer-urls=http://{peer}"),
            format!("--initial-cluster={cluster}"),
            format!("--listen-metrics-urls=http://{metrics}"),
            "--log-level=warn".to_owned(),
        ];
        arguments.extend_from_slice(timing);
        if options.without_fsync {
            arguments.push("--unsafe-no-fsync".to_owned());
        }
        if let Some(tls) = &options.tls {
            arguments.extend(tls.write(directory.path())?);
        }
        arguments.extend_from_slice(&options.arguments);
        let child = spawn(&arguments, directory.path())?;
        Ok(Self { child, scheme, client, metrics, directory, arguments })
    }

    /// Where clients reach it, as `http://host:port`.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.client)
    }

    /// Where clients reach it, as `host:port`.
    pub fn address(&self) -> SocketAddr {
        self.client
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged.
    pub fn output(&self) -> String {
        fs::read_to_string(self.directory.path().join("output")).unwrap_or_default()
    }

    /// Ends the process at once (SIGKILL), whatever it is doing.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().context("kill etcd")?;
        self.child.wait().context("wait for the killed etcd")?;
        Ok(())
    }

    /// Starts it again with the same data and ports and waits until it serves; it must have been killed.
    pub fn restart(&mut self) -> Result<()> {
        self.child = spawn(&self.arguments, self.directory.path())?;
        self.wait_until_ready()
    }

    /// Loses all data, as when it is set up anew; it must have been killed.
    pub fn forget(&self) -> Result<()> {
        fs::remove_dir_all(self.directory.path().join("data")).context("remove etcd's data")
    }

    /// Stops it in its tracks (SIGSTOP): it keeps its connections and answers nothing.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("etcd has a pid")?;
        kill_process(pid, signal).context("send etcd a signal")
    }

    /// Whether it leads its cluster.
    pub fn is_leader(&self) -> Result<bool> {
        let metrics = http(self.metrics, "GET", "/metrics", "", HTTP_LIMIT)?;
        Ok(metrics.lines().any(|line| line == "etcd_server_is_leader 1"))
    }

    /// Forgets all that was before a revision.
    pub fn compact(&self, revision: u64) -> Result<()> {
        self.post("/v3/kv/compaction", &format!(r#"{{"revision":"{revision}","physical":true}}"#)).map(drop)
    }

    /// Asks for something by etcd's own JSON interface, which it serves beside gRPC; not with TLS.
    pub fn post(&self, path: &str, json: &str) -> Result<String> {
        http(self.client, "POST", path, json, HTTP_LIMIT)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let started = Instant::now();
        loop {
            // Asks the whole cluster, so there is a leader when it says yes.
            let health = http(self.metrics, "GET", "/health", "", Duration::from_secs(2));
            if health.is_ok_and(|it| it.contains(r#""health":"true""#)) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait().context("look after etcd")? {
                bail!("etcd ended before it served: {status}; it said:\n{}", self.output());
            }
            if started.elapsed() > READY_WITHIN {
                bail!("etcd does not serve after {READY_WITHIN:?}; it said:\n{}", self.output());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl EtcdCluster {
    /// Starts three nodes and waits until all serve.
    pub fn start(options: &Options) -> Result<Self> {
        let ports: [SocketAddr; 9] = ports::lasting_ports()?;
        let peers = |index: usize| ports[3 * index + 1];
        let members: Vec<String> =
            (0..3).map(|index| format!("etcd-{index}=http://{}", peers(index))).collect();
        let cluster = members.join(",");
        let mut nodes = Vec::new();
        for index in 0..3 {
            let own = [ports[3 * index], peers(index), ports[3 * index + 2]];
            nodes.push(Etcd::launch(&format!("etcd-{index}"), own, &cluster, &[], options)?);
        }
        for node in &mut nodes {
            node.wait_until_ready()?;
        }
        Ok(Self { nodes })
    }

    /// Where clients reach the nodes.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Etcd::url).collect()
    }

    /// Which node leads; waits for one to. Nodes that are paused or killed are to be left out by `among`.
    pub fn leader(&self, among: &[usize]) -> Result<usize> {
        let started = Instant::now();
        while started.elapsed() < READY_WITHIN {
            for &index in among {
                if self.nodes[index].is_leader().unwrap_or(false) {
                    return Ok(index);
                }
            }
            thread::sleep(Duration::from_millis(20));
        }
        bail!("none of {among:?} leads after {READY_WITHIN:?}")
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted. A paused one is killed as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Tls {
    fn write(&self, directory: &Path) -> Result<Vec<String>> {
        let mut arguments = vec!["--client-cert-auth".to_owned()];
        for (option, text) in
            [("trusted-ca-file", &self.ca), ("cert-file", &self.certificate), ("key-file", &self.key)]
        {
            let path = directory.join(option);
            fs::write(&path, text).context("write a certificate of etcd")?;
            arguments.push(format!("--{option}={}", path.display()));
        }
        Ok(arguments)
    }
}

/// The binary that `cargo xtask setup` has built, or else the machine's own.
fn binary() -> Result<PathBuf> {
    let built = checkout::tools().join("etcd/etcd");
    if built.is_file() {
        return Ok(built);
    }
    if process::is_installed("etcd") {
        return Ok(PathBuf::from("etcd"));
    }
    bail!("no etcd; run cargo xtask setup")
}

fn spawn(arguments: &[String], directory: &Path) -> Result<Child> {
    let mut options = OpenOptions::new();
    let output =
        options.create(true).append(true).open(directory.join("output")).context("open etcd's log")?;
    let mut command = Command::new(binary()?);
    // Every ETCD_ variable is an option to etcd.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"ETCD_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    command.stdout(output.try_clone().context("share etcd's log")?).stderr(output);
    command.spawn().context("start etcd")
}

/// The body of an answer of success.
fn http(address: SocketAddr, method: &str, path: &str, body: &str, limit: Duration) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, limit).context("connect to etcd")?;
    stream.set_read_timeout(Some(limit)).context("bound the wait for etcd")?;
    let length = body.len();
    // Version 1.0, so that the answer ends with the connection.
    let request =
        format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).context("ask etcd")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("read etcd's answer")?;
    let (head, body) = answer.split_once("\r\n\r\n").context("etcd's answer has an end of its head")?;
    if head.split(' ').nth(1) != Some("200") {
        bail!("etcd answered {method} {path} with {head}: {body}");
    }
    Ok(body.to_owned())
}
