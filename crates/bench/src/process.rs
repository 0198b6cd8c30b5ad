//! What the kernel knows of this process and of the server's: processor time and memory.

use std::fs;
use std::net::{IpAddr, SocketAddr};
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

/// Processor time that this process has used.
pub(crate) fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
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
        let inodes = listening_inodes(address);
        for entry in fs::read_dir("/proc").ok()?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if holds_socket(&entry.path(), &inodes) {
                return Some(Self { pid });
            }
        }
        None
    }

    /// What it is called.
    pub(crate) fn name(self) -> Option<String> {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.pid)).ok()?;
        Some(name.trim_end().to_owned())
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

/// Processor time used so far by all processes of this name that run on this machine.
pub(crate) fn cpu_of_all(name: &str) -> Duration {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let named =
        pids.map(|pid| ServerProcess { pid }).filter(|process| process.name().as_deref() == Some(name));
    named.filter_map(|process| process.cpu().ok()).sum()
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

fn listening_inodes(address: SocketAddr) -> Vec<String> {
    const LISTEN: &str = "0A";
    let mut inodes = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, local, _, state, _, _, _, _, _, inode, ..] = fields[..] else { continue };
            if state == LISTEN && listens(local, address) {
                inodes.push(format!("socket:[{inode}]"));
            }
        }
    }
    inodes
}

/// Whether a socket that listens at `local`, as the kernel writes it, is asked at the address: it has the same one, or
/// listens at all.
fn listens(local: &str, address: SocketAddr) -> bool {
    let Some((ip, port)) = local.split_once(':') else { return false };
    if u16::from_str_radix(port, 16) != Ok(address.port()) {
        return false;
    }
    // Groups of four bytes, each in the machine's order.
    let group = |at: usize| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let Some(bytes) = (0..ip.len()).step_by(8).map(group).collect::<Option<Vec<_>>>() else { return false };
    let bytes = bytes.as_flattened();
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let ip = four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
    ip.is_ok_and(|ip| ip.is_unspecified() || ip.to_canonical() == address.ip().to_canonical())
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
    fn the_process_that_listens_is_found_by_its_address() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        let found = ServerProcess::listening_at(address).expect("this process listens");
        assert_eq!(found.pid, std::process::id());
        assert!(found.resident().expect("memory") > 0);
        found.cpu().expect("processor time");
        assert!(found.name().is_some_and(|name| !name.is_empty()));
        let beside: SocketAddr = ([127, 0, 0, 2], address.port()).into();
        assert!(ServerProcess::listening_at(beside).is_none(), "nobody listens there");
    }

    #[test]
    fn a_socket_is_asked_at_its_own_address_or_at_any() {
        let [v4, v6] = ["127.0.0.1:9092", "[::1]:9092"].map(|it| it.parse::<SocketAddr>().expect("address"));
        // As a kernel writes them whose machine has the lowest byte first.
        for (local, at_v4, at_v6) in [
            ("0100007F:2384", true, false),
            ("0200007F:2384", false, false),
            ("0100007F:2385", false, false),
            ("00000000:2384", true, true),
            ("00000000000000000000000001000000:2384", false, true),
            ("0000000000000000FFFF00000100007F:2384", true, false),
            ("00000000000000000000000000000000:2384", true, true),
            ("nonsense", false, false),
        ] {
            if cfg!(target_endian = "little") {
                assert_eq!((listens(local, v4), listens(local, v6)), (at_v4, at_v6), "{local}");
            }
        }
    }
}
