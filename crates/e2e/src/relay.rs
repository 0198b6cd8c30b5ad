//! A connection that can be cut or frozen: what stands between two processes instead of a network.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::mem;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result};

/// Passes on what comes to its own address to another one. Threads end with their connections.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    state: Mutex<State>,
    has_changed: Condvar,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    /// The ends of what passes, by the number of their connection.
    connections: BTreeMap<u64, [TcpStream; 2]>,
    next_connection: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Open,
    /// Connections end, and new ones end at once.
    Cut,
    /// Connections stay, new ones are accepted, and nothing passes: as when packets are lost.
    Frozen,
    /// For good.
    Over,
}

impl Relay {
    /// Listens on a free port for the target.
    pub fn start(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen for the relay")?;
        let address = listener.local_addr().context("read the relay's port")?;
        let state = State { mode: Mode::Open, connections: BTreeMap::new(), next_connection: 0 };
        let shared = Arc::new(Shared { target, state: Mutex::new(state), has_changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Ok(Self { address, shared })
    }

    /// Where to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections, and each new one at once.
    pub fn cut(&self) {
        self.enter(Mode::Cut);
    }

    /// Lets nothing pass in either direction; nobody is told.
    pub fn freeze(&self) {
        self.enter(Mode::Frozen);
    }

    /// Lets all pass again, what waited included.
    pub fn mend(&self) {
        self.enter(Mode::Open);
    }

    fn enter(&self, mode: Mode) {
        let mut state = self.shared.lock();
        state.mode = mode;
        if matches!(mode, Mode::Cut | Mode::Over) {
            for end in mem::take(&mut state.connections).into_values().flatten() {
                // Fails only when it has ended already.
                let _ = end.shutdown(Shutdown::Both);
            }
        }
        self.shared.has_changed.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.enter(Mode::Over);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while nothing may pass; says whether anything may at all.
    fn may_pass(&self) -> bool {
        let mut state = self.lock();
        while state.mode == Mode::Frozen {
            state = self.has_changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.mode == Mode::Open
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for accepted in listener.incoming() {
        let mut state = shared.lock();
        match state.mode {
            Mode::Over => return,
            Mode::Cut => continue,
            Mode::Open | Mode::Frozen => {}
        }
        let Ok(near) = accepted else { continue };
        // Nobody may be listening there at the moment; the connection just ends then.
        let Ok(far) = TcpStream::connect(shared.target) else { continue };
        let _ = (near.set_nodelay(true), far.set_nodelay(true));
        let (Ok(near_too), Ok(far_too)) = (near.try_clone(), far.try_clone()) else { continue };
        let (Ok(near_end), Ok(far_end)) = (near.try_clone(), far.try_clone()) else { continue };
        let connection = state.next_connection;
        state.next_connection += 1;
        state.connections.insert(connection, [near_end, far_end]);
        let (there, back) = (Arc::clone(shared), Arc::clone(shared));
        thread::spawn(move || pass(near, far, connection, &there));
        thread::spawn(move || pass(far_too, near_too, connection, &back));
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, connection: u64, shared: &Shared) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read) = from.read(&mut buffer) {
        if read == 0 || !shared.may_pass() || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    // Either has ended; the other must hear of it.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    shared.lock().connections.remove(&connection);
}
