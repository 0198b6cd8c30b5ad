//! A network that loses, delays and cuts datagrams: what stands between two processes that speak QUIC.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How often threads look whether they shall end.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// No datagram is larger.
const DATAGRAM_MAX: usize = 65_536;

/// What happens to datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Weather {
    /// How long each takes.
    pub delay: Duration,
    /// So many of a thousand are lost.
    pub lost_per_mille: u64,
    /// All are lost, both ways.
    pub is_cut: bool,
}

/// Passes on the datagrams that come to its own address to another one, and the answers back. Its own address is one of
/// IPv4: a target of IPv6 is out of reach for who binds IPv4 only, and so cannot be found by a way around.
#[derive(Debug)]
pub struct UdpRelay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    state: Mutex<State>,
    has_changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    weather: Weather,
    is_over: bool,
    /// What is on its way, the next to arrive first.
    on_the_way: BinaryHeap<Reverse<Datagram>>,
    sent: u64,
    /// For each who sends to us, the socket by which the target knows it.
    faces: HashMap<SocketAddr, Arc<UdpSocket>>,
}

#[derive(Debug)]
struct Datagram {
    due: Instant,
    number: u64,
    by: Arc<UdpSocket>,
    to: SocketAddr,
    bytes: Vec<u8>,
}

impl PartialEq for Datagram {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Datagram {}

impl PartialOrd for Datagram {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Datagram {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl UdpRelay {
    /// Listens on a free port for the target.
    pub fn start(target: SocketAddr) -> Result<Self> {
        let socket = Arc::new(bind(Ipv4Addr::LOCALHOST.into())?);
        let address = socket.local_addr().context("read the relay's port")?;
        let shared = Arc::new(Shared { target, state: Mutex::default(), has_changed: Condvar::new() });
        let (receiving, delivering) = (Arc::clone(&shared), Arc::clone(&shared));
        thread::spawn(move || receive_there(&socket, &receiving));
        thread::spawn(move || deliver(&delivering));
        Ok(Self { address, shared })
    }

    /// Where to send to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what happens to datagrams from now on.
    pub fn set(&self, weather: Weather) {
        self.shared.lock().weather = weather;
    }

    /// How many datagrams came, lost ones included.
    pub fn count(&self) -> u64 {
        self.shared.lock().sent
    }
}

impl Drop for UdpRelay {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.has_changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a datagram on its way, unless it is lost.
    fn carry(&self, by: &Arc<UdpSocket>, to: SocketAddr, bytes: &[u8]) {
        let mut state = self.lock();
        let number = state.sent;
        state.sent += 1;
        let Weather { delay, lost_per_mille, is_cut } = state.weather;
        // Keyed anew each time, so this is a random number.
        if is_cut || RandomState::new().hash_one(number) % 1000 < lost_per_mille {
            return;
        }
        let due = Instant::now() + delay;
        state.on_the_way.push(Reverse(Datagram {
            due,
            number,
            by: Arc::clone(by),
            to,
            bytes: bytes.to_vec(),
        }));
        self.has_changed.notify_all();
    }
}

fn bind(ip: IpAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind((ip, 0)).context("bind the relay")?;
    socket.set_read_timeout(Some(LOOK_EVERY)).context("set the relay up")?;
    Ok(socket)
}

/// Receives until the relay is over, and hands on what comes.
fn receive(socket: &UdpSocket, shared: &Shared, mut hand_on: impl FnMut(&[u8], SocketAddr)) {
    let mut buffer = vec![0; DATAGRAM_MAX];
    while !shared.lock().is_over {
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => hand_on(&buffer[..length], from),
            // Nobody listens at the other end at the moment, or nothing came.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused
                ) => {}
            Err(_) => return,
        }
    }
}

fn receive_there(socket: &Arc<UdpSocket>, shared: &Arc<Shared>) {
    receive(socket, shared, |bytes, from| {
        let known = shared.lock().faces.get(&from).cloned();
        let face = match known {
            Some(face) => face,
            None => {
                let ip: IpAddr = match shared.target {
                    SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                    SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
                };
                let Ok(face) = bind(ip).map(Arc::new) else { return };
                shared.lock().faces.insert(from, Arc::clone(&face));
                let (near, back, shared) = (Arc::clone(socket), Arc::clone(&face), Arc::clone(shared));
                thread::spawn(move || receive(&back, &shared, |bytes, _| shared.carry(&near, from, bytes)));
                face
            }
        };
        shared.carry(&face, shared.target, bytes);
    });
}

/// Delivers what is due until the relay is over.
fn deliver(shared: &Shared) {
    let mut state = shared.lock();
    while !state.is_over {
        let wait = match state.on_the_way.peek() {
            None => LOOK_EVERY,
            Some(Reverse(next)) => next.due.saturating_duration_since(Instant::now()),
        };
        if wait.is_zero() {
            if let Some(Reverse(datagram)) = state.on_the_way.pop() {
                drop(state);
                // A datagram that cannot be sent is one that is lost.
                let _ = datagram.by.send_to(&datagram.bytes, datagram.to);
                state = shared.lock();
            }
        } else {
            let waited = shared.has_changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_pass_both_ways_unless_they_are_cut() -> Result<()> {
        let server = bind(Ipv6Addr::LOCALHOST.into())?;
        let relay = UdpRelay::start(server.local_addr()?)?;
        let client = bind(Ipv4Addr::LOCALHOST.into())?;
        client.set_read_timeout(Some(Duration::from_secs(10)))?;
        server.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut buffer = [0; 16];

        client.send_to(b"there", relay.address())?;
        let (length, face) = server.recv_from(&mut buffer)?;
        assert_eq!(&buffer[..length], b"there");
        server.send_to(b"back", face)?;
        let (length, from) = client.recv_from(&mut buffer)?;
        assert_eq!((&buffer[..length], from), (&b"back"[..], relay.address()));

        relay.set(Weather { is_cut: true, ..Weather::default() });
        client.send_to(b"lost", relay.address())?;
        while relay.count() < 3 {
            thread::yield_now();
        }
        relay.set(Weather { delay: Duration::from_millis(1), ..Weather::default() });
        client.send_to(b"late", relay.address())?;
        let (length, _) = server.recv_from(&mut buffer)?;
        assert_eq!(&buffer[..length], b"late", "what was sent while it was cut never comes");
        Ok(())
    }
}
