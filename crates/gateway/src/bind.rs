//! Taking addresses.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

use crate::options::{ListenerConfig, Options};

/// Why an address could not be taken.
#[derive(Debug, thiserror::Error)]
#[error("listener {name} cannot listen on {addr}: {}", advice(.source, *.addr))]
pub struct BindError {
    /// The listener.
    pub name: String,
    /// The address.
    pub addr: SocketAddr,
    /// What the system said.
    pub source: io::Error,
}

impl BindError {
    /// Whether this machine does not have the address at all, as when IPv6 is switched off. Who listens on an
    /// address only by default can do without it.
    pub fn address_is_missing(&self) -> bool {
        // A machine without IPv6 refuses the socket itself; this has no `ErrorKind` of its own.
        const ADDRESS_FAMILY_NOT_SUPPORTED: i32 = 97;
        self.source.kind() == io::ErrorKind::AddrNotAvailable
            || self.source.raw_os_error() == Some(ADDRESS_FAMILY_NOT_SUPPORTED)
    }
}

fn advice(source: &io::Error, addr: SocketAddr) -> String {
    match source.kind() {
        io::ErrorKind::AddrInUse => format!(
            "port {} is in use; stop the program that has it (another broker?) or choose another port",
            addr.port()
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!("this machine has no address {}; choose one it has, or 0.0.0.0 for all", addr.ip())
        }
        io::ErrorKind::PermissionDenied => {
            format!("port {} needs privileges; choose one from 1024 upwards", addr.port())
        }
        _ => source.to_string(),
    }
}

/// Starts to listen on the address of `config`, and says which one it is if any port was free to choose.
/// Clients can connect from now on and wait to be accepted.
pub(crate) fn bind(
    config: &ListenerConfig,
    all: &[ListenerConfig],
    options: &Options,
) -> Result<(TcpListener, SocketAddr), BindError> {
    listen(config.addr, all, options).map_err(|source| BindError {
        name: config.name.clone(),
        addr: config.addr,
        source,
    })
}

fn listen(
    addr: SocketAddr,
    all: &[ListenerConfig],
    options: &Options,
) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // A restart must not wait for connections of the last run that linger in the kernel.
    socket.set_reuse_address(true)?;
    if addr.is_ipv6() {
        // `[::]` takes IPv4 clients too, unless a listener for these has the same port.
        let has_ipv4 = all.iter().any(|other| other.addr.is_ipv4() && other.addr.port() == addr.port());
        socket.set_only_v6(has_ipv4)?;
    }
    // Accepted connections inherit the sizes, and the kernel wants to know them before the handshake.
    if let Some(bytes) = options.socket_send_buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.socket_receive_buffer_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(&addr.into())?;
    socket.listen(options.socket_listen_backlog_size)?;
    socket.set_nonblocking(true)?;
    let listener = TcpListener::from(socket);
    let local_addr = listener.local_addr()?;
    Ok((listener, local_addr))
}
