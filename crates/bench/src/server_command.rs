//! A server that the benchmark starts and ends itself.

use std::io::{self, PipeReader, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::dialogue::Dialogue;
use crate::process::ServerProcess;

/// How long a server may take to its first answer.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// How long its address may stay in use after a kill, when a program that it has started listens there.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// The process group of the server that runs now; 0 when none does.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// A running server; dropping it kills it, with all that it has started.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    /// From exec to the first answer.
    pub(crate) ready_after: Duration,
}

impl Server {
    /// Runs the command, a program with its arguments as the shell reads them, and waits until an ApiVersions is
    /// answered at the address.
    pub(crate) fn start(command: &str, address: SocketAddr) -> Result<Self> {
        if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
            bail!("somebody listens at {address} already");
        }
        end_with_us()?;
        let (said, says) = io::pipe().context("listen to the server")?;
        let started = Instant::now();
        // In a group of its own, so that what it starts itself is found when it is killed.
        let child = Command::new("sh")
            .arg("-c")
            .arg(format!("exec {command}"))
            .stdin(Stdio::null())
            .stdout(says.try_clone().context("listen to the server")?)
            .stderr(says)
            .process_group(0)
            .spawn()
            .context("start the server")?;
        RUNNING.store(child.id(), Ordering::Relaxed);
        let mut server = Self { child, address, ready_after: Duration::ZERO };
        let said = listen(said);
        let failure = loop {
            if TcpStream::connect(address).is_ok() && Dialogue::open(address).is_ok() {
                server.ready_after = started.elapsed();
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait().context("watch the server")? {
                break format!("ended before it answered: {status}");
            }
            if started.elapsed() > READY_WITHIN {
                break format!("did not answer within {READY_WITHIN:?}");
            }
            thread::sleep(Duration::from_millis(1));
        };
        // Whoever is left of it would keep us listening.
        drop(server);
        let said = said.join().unwrap_or_default();
        bail!("the server {failure}; it said:\n{}", said.trim_end());
    }

    /// The process that answers: the command's own, or one that it has started.
    pub(crate) fn process(&self) -> ServerProcess {
        ServerProcess::listening_at(self.address).unwrap_or(ServerProcess { pid: self.child.id() })
    }

    /// Ends it at once, whatever it is doing (SIGKILL).
    pub(crate) fn kill(self) -> Result<()> {
        let address = self.address;
        drop(self);
        let killed = Instant::now();
        while TcpStream::connect(address).is_ok() {
            if killed.elapsed() > GONE_WITHIN {
                bail!("somebody still listens at {address} {GONE_WITHIN:?} after the server was killed");
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when the processes are gone already, which is what is wanted.
        kill_group(self.child.id());
        let _ = RUNNING.compare_exchange(self.child.id(), 0, Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.child.wait();
    }
}

fn kill_group(leader: u32) {
    if let Some(group) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Lets a signal that ends this process end the server too, which has a process group of its own and would stay.
fn end_with_us() -> Result<()> {
    static WATCHED: Once = Once::new();
    if WATCHED.is_completed() {
        return Ok(());
    }
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("wait for signals")?;
    WATCHED.call_once(|| {
        thread::spawn(move || {
            for signal in signals.forever() {
                kill_group(RUNNING.load(Ordering::Relaxed));
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        });
    });
    Ok(())
}

/// Takes what the server says until it ends, so that it never waits for a reader, and keeps the end of it.
fn listen(mut says: PipeReader) -> JoinHandle<String> {
    const KEPT: usize = 4096;
    thread::spawn(move || {
        let (mut said, mut part) = (Vec::new(), [0; 1024]);
        while let Ok(length @ 1..) = says.read(&mut part) {
            said.extend_from_slice(&part[..length]);
            let surplus = said.len().saturating_sub(KEPT);
            said.drain(..surplus);
        }
        String::from_utf8_lossy(&said).into_owned()
    })
}
