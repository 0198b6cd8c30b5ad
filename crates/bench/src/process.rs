//! What the kernel knows of this process and of the server's: processor time and memory.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::time::{ClockId, clock_gettime};

/// Kernel ticks per second in /proc; the same on every Linux that runs today.
const TICKS_PER_SECOND: u64 = 100;

/// Processor time that the calling thread has used.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time that everything on this machine has used, the kernel and other machines on the same iron included.
pub(crate) fn machine_cpu() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    // User, nice, system, interrupts and what was stolen, without idle and waiting for disks.
    let [user, nice, system, _, _, interrupts, soft, stolen, ..] = fields[..] else { return None };
    let ticks = user + nice + system + interrupts + soft + stolen;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// A server on this machine.
#[derive(Clone, Copy, Debug)]
pub struct ServerProcess {
    /// Its number.
    pub pid: u32,
}

impl ServerProcess {
    /// The process that listens at the address, when it is on this machine and we may look.
    pub(crate) fn listening_at(address: SocketAddr) -> Option<Self> {
        if !address.ip().is_loopback() {
            return None;
        }
        let inodes = listening_inodes(address.port());
        for entry in fs::read_dir("/proc").ok()?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if holds_socket(&entry.path(), &inodes) {
                return Some(Self { pid });
            }
        }
        None
    }

    /// Processor time used so far, in user and system mode together.
    pub(crate) fn cpu(self) -> Result<Duration> {
        let stat =
            fs::read_to_string(format!("/proc/{}/stat", self.pid)).context("read the server's times")?;
        // The command's name, in parentheses, may hold spaces; the fields are counted behind it.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
        let mut ticks = || -> Result<u64> {
            fields.next().context("find the server's times")?.parse().context("read the server's times")
        };
        Ok(Duration::from_millis((ticks()? + ticks()?) * 1000 / TICKS_PER_SECOND))
    }

    /// Resident memory in bytes.
    pub fn resident(self) -> Result<u64> {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.pid)).context("read the server's memory")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("find VmRSS")?;
        let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().context("read VmRSS")?;
        Ok(kibibytes * 1024)
    }
}

/// Lets this process have as many connections as the system allows it, and says how many that are.
pub(crate) fn raise_open_files() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};

    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Fails only where the soft limit is the hard one already in the kernel's eyes.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Fails when so many connections cannot be had.
pub(crate) fn room_for_connections(count: usize) -> Result<()> {
    let allowed = raise_open_files();
    if count as u64 + 64 > allowed {
        bail!("{count} connections need more open files than the {allowed} allowed here; raise ulimit -n");
    }
    Ok(())
}

fn listening_inodes(port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let mut inodes = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, local, _, state, _, _, _, _, _, inode, ..] = fields[..] else { continue };
            let here = local.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
            if state == LISTEN && here == Some(port) {
                inodes.push(format!("socket:[{inode}]"));
            }
        }
    }
    inodes
}

fn holds_socket(process: &Path, inodes: &[String]) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return false };
    let names = descriptors.flatten().filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    names.filter_map(|name| name.to_str().map(str::to_owned)).any(|name| inodes.contains(&name))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_process_that_listens_is_found_by_its_port() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        let found = ServerProcess::listening_at(address).expect("this process listens");
        assert_eq!(found.pid, std::process::id());
        assert!(found.resident().expect("memory") > 0);
        found.cpu().expect("processor time");
    }
}
