//! A server that the benchmark starts and ends itself.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
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
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("start the server")?;
        let mut server = Self { child, ready_after: Duration::ZERO };
        loop {
            if TcpStream::connect(address).is_ok() && Dialogue::open(address).is_ok() {
                break;
            }
            if let Some(status) = server.child.try_wait().context("watch the server")? {
                bail!("the server ended before it answered: {status}");
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
