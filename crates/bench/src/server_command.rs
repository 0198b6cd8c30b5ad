//! A server that the benchmark starts and ends itself.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::dialogue::Dialogue;
use crate::process::ServerProcess;

/// How long a server may take to its first answer.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// A running server; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// From exec to the first answer.
    pub(crate) ready_after: Duration,
}

impl Server {
    /// Runs the command with the shell and waits until an ApiVersions is answered at the address.
    pub(crate) fn start(command: &str, address: SocketAddr) -> Result<Self> {
        if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
            bail!("somebody listens at {address} already");
        }
        let started = Instant::now();
        let child = Command::new("sh")
            .arg("-c")
            .arg(format!("exec {command}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("start the server")?;
        let mut server = Self { child, ready_after: Duration::ZERO };
        let complaints = server.child.stderr.take().map(listen);
        loop {
            if TcpStream::connect(address).is_ok() && Dialogue::open(address).is_ok() {
                break;
            }
            if let Some(status) = server.child.try_wait().context("watch the server")? {
                let said = complaints.and_then(|it| it.join().ok()).unwrap_or_default();
                bail!("the server ended before it answered: {status}; it said:\n{}", said.trim_end());
            }
            if started.elapsed() > READY_WITHIN {
                bail!("the server did not answer within {READY_WITHIN:?}");
            }
            thread::sleep(Duration::from_millis(1));
        }
        server.ready_after = started.elapsed();
        Ok(server)
    }

    pub(crate) fn process(&self) -> ServerProcess {
        ServerProcess { pid: self.child.id() }
    }

    /// Ends it at once, whatever it is doing (SIGKILL).
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill().context("kill the server")?;
        self.child.wait().context("wait for the killed server")?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes what the server complains about until it ends, so that it never waits for a reader, and keeps the end of it.
fn listen(mut stderr: ChildStderr) -> JoinHandle<String> {
    const KEPT: usize = 4096;
    thread::spawn(move || {
        let (mut said, mut part) = (Vec::new(), [0; 1024]);
        while let Ok(length @ 1..) = stderr.read(&mut part) {
            said.extend_from_slice(&part[..length]);
            let surplus = said.len().saturating_sub(KEPT);
            said.drain(..surplus);
        }
        String::from_utf8_lossy(&said).into_owned()
    })
}
