//! Free ports and waiting for a server.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Ports of 127.0.0.1 that nobody listens on, all different.
///
/// Another process may take one before it is used. The kernel hands out ephemeral ports in no fixed order, so that
/// has to be an unlucky moment; a server that cannot bind then says so.
pub fn free_ports<const N: usize>() -> Result<[SocketAddr; N]> {
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    // All are held until all are found, so that none is found twice.
    let mut listeners = Vec::with_capacity(N);
    for address in &mut addresses {
        let listener = TcpListener::bind(*address).context("find a free port")?;
        *address = listener.local_addr().context("read the port")?;
        listeners.push(listener);
    }
    Ok(addresses)
}

/// The same, for servers that start slowly, or are killed and come back: from below the range out of which the kernel
/// takes ports for others, one of which would otherwise sooner or later sit on the port of a server that is away.
pub fn lasting_ports<const N: usize>() -> Result<[SocketAddr; N]> {
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    addresses.copy_from_slice(&several_lasting_ports(N)?);
    Ok(addresses)
}

/// The same where their number is known only now.
pub fn several_lasting_ports(count: usize) -> Result<Vec<SocketAddr>> {
    let mut addresses = Vec::with_capacity(count);
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..100 * count {
        // Keyed anew each time, so this is a random number.
        let random = RandomState::new().hash_one(count) % u64::from(LASTING.end - LASTING.start);
        let port = LASTING.start + u16::try_from(random).context("a port is small")?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if let Ok(listener) = TcpListener::bind(address) {
            addresses.push(address);
            listeners.push(listener);
            if listeners.len() == count {
                return Ok(addresses);
            }
        }
    }
    bail!("find a free port between {} and {}", LASTING.start, LASTING.end)
}

/// Linux begins outgoing connections at 32768.
const LASTING: Range<u16> = 16384..32768;

/// Waits until a broker at `address` answers; fails when `child` ends first or time runs out.
///
/// An open port is not enough: the kernel accepts connections before the process behind it has recovered.
pub fn wait_until_serving(address: SocketAddr, child: &mut Child, limit: Duration) -> Result<()> {
    let started = Instant::now();
    loop {
        if answers(address, limit).is_ok() {
            return Ok(());
        }
        if let Some(status) = child.try_wait().context("look after the process")? {
            bail!("the process ended before it served on {address}: {status}");
        }
        if started.elapsed() > limit {
            bail!("nothing serves on {address} after {limit:?}");
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a broker or gateway at `address` answers.
pub fn serves(address: SocketAddr) -> bool {
    answers(address, Duration::from_secs(1)).is_ok()
}

/// The status with which an HTTP server answers a GET.
pub fn get(address: SocketAddr, path: &str) -> Result<u16> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).context("read the status")
}

/// Asks for ApiVersions, version 0, and reads the beginning of the answer.
fn answers(address: SocketAddr, limit: Duration) -> io::Result<()> {
    const API_VERSIONS: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(&API_VERSIONS)?;
    stream.read_exact(&mut [0; 8])
}
