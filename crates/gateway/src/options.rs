//! What a person can set about sockets, by Kafka's names where Kafka has one.

use std::net::SocketAddr;
use std::time::Duration;

use crate::security::Security;

/// An address that clients can dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// What it is called in logs and settings.
    pub name: String,
    /// Where to listen; port 0 takes any free one.
    pub addr: SocketAddr,
    /// The host and port that clients are told to dial. Without one, each client is told the address that it
    /// dialled itself, which is right whenever nothing translates addresses on the way.
    pub advertised: Option<(String, u16)>,
    /// What clients have to do and show before they are let in.
    pub security: Security,
}

/// How a gateway treats its connections.
#[derive(Clone, Debug)]
pub struct Options {
    /// `node.id`: the node that all partitions are said to be led by.
    pub node_id: i32,
    /// `socket.request.max.bytes`: a larger request closes the connection.
    pub socket_request_max_bytes: usize,
    /// `max.connections`: one more is closed at once.
    pub max_connections: usize,
    /// `max.connections.per.ip`: one more from the same address is closed at once.
    pub max_connections_per_ip: usize,
    /// `connections.max.idle.ms`: how long a connection may be silent while no answer is owed.
    pub connections_max_idle: Duration,
    /// How long a client may take nothing of an answer that waits for it.
    ///
    /// Kafka has no such setting and waits for `connections.max.idle.ms`. A client that is only busy reads
    /// again within seconds; one that has not for a minute is more likely gone than slow, and holds the
    /// memory of its answer.
    pub write_timeout: Duration,
    /// How long a drain waits for answers that are still owed.
    pub drain_timeout: Duration,
    /// The same for answers that may be parked: to fetches that wait for records, and to joins and syncs that wait for
    /// other members. Their clients ask again elsewhere, and are not counted among those that were cut.
    pub drain_parked_timeout: Duration,
    /// `socket.send.buffer.bytes`; `None` leaves it to the system, as -1 does in Kafka.
    pub socket_send_buffer_bytes: Option<usize>,
    /// `socket.receive.buffer.bytes`; `None` leaves it to the system, which then adapts it to the traffic.
    pub socket_receive_buffer_bytes: Option<usize>,
    /// `socket.listen.backlog.size`.
    pub socket_listen_backlog_size: i32,
    /// `connection.failed.authentication.delay.ms`: how long a client that failed to show who it is waits for the
    /// answer. An address that keeps failing waits longer.
    pub failed_authentication_delay: Duration,
    /// `kohort.authentication.timeout.ms`: how long a client may take to show who it is, TLS included.
    pub authentication_timeout: Duration,
    /// `kohort.connection.threads.pinned`: whether each thread of connections keeps to a processor of its own, on a
    /// small machine.
    pub connection_threads_pinned: bool,
}

impl Default for Options {
    /// Kafka's defaults, except that the system sizes the socket buffers: it does better than a fixed number
    /// on fast networks and on idle connections.
    fn default() -> Self {
        Self {
            node_id: 1,
            socket_request_max_bytes: 104_857_600,
            max_connections: 2_147_483_647,
            max_connections_per_ip: 2_147_483_647,
            connections_max_idle: Duration::from_secs(600),
            write_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(10),
            drain_parked_timeout: Duration::from_secs(10),
            socket_send_buffer_bytes: None,
            socket_receive_buffer_bytes: None,
            socket_listen_backlog_size: 1024,
            failed_authentication_delay: Duration::from_millis(100),
            authentication_timeout: Duration::from_secs(10),
            connection_threads_pinned: true,
        }
    }
}
