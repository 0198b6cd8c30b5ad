//! From an accepted socket to a connection at work.

use std::io;
use std::net::{self, SocketAddr};
use std::sync::Arc;
use std::time::Instant as Clock;

use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{self, Instant};
use tokio_rustls::rustls::ServerConfig;
use tracing::{debug, info};

use crate::admission::Seat;
use crate::authentication::Visitor;
use crate::connection::{Caller, Connection, Shared, after};
use crate::entrance::Entrance;
use crate::guard::{Guard, Stage};
use crate::limits::LINGER;
use crate::metrics::Traffic;
use crate::relay::Relayed;
use crate::stream::{Stream, drain};
use crate::tls;

/// A client that was accepted.
pub(crate) struct Newcomer {
    pub(crate) stream: net::TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) entrance: Arc<Entrance>,
    /// How TLS is spoken with it.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) seat: Seat,
    pub(crate) connected: Connected,
}

/// Serves a client, from its first byte to its last.
pub(crate) async fn arrive(
    newcomer: Newcomer,
    shared: Arc<Shared>,
    traffic: Arc<Traffic>,
    on_answer: Arc<Relayed>,
    draining: watch::Receiver<bool>,
) {
    // Boxed, because the task would else keep room for what only the beginning needs.
    let Some(caller) = Box::pin(receive(newcomer, shared, draining.clone())).await else { return };
    Box::new(Connection::new(caller, traffic, on_answer)).run(draining).await;
}

/// Sets up the socket, with TLS if the listener speaks it.
async fn receive(
    newcomer: Newcomer,
    shared: Arc<Shared>,
    mut draining: watch::Receiver<bool>,
) -> Option<Caller> {
    let Newcomer { stream, peer, entrance, tls, mut seat, connected } = newcomer;
    let deadline = after(Instant::now(), shared.options.authentication_timeout);
    let (stream, local) = match set_up(stream) {
        Ok(stream) => stream,
        Err(failure) => {
            // The client is gone already.
            debug!(%peer, %failure, "could not set up a connection");
            return None;
        }
    };
    let stream = match tls {
        None => Stream::Plain(stream),
        Some(config) => {
            let handshake = time::timeout_at(deadline, tls::accept(stream, config));
            let shaken = tokio::select! {
                shaken = handshake => shaken,
                _ = draining.wait_for(|&draining| draining) => return None,
            };
            match shaken {
                Ok(Ok(stream)) => Stream::Tls(Box::new(stream)),
                Ok(Err((failure, stream))) => {
                    turn_away(stream, peer, &failure, &entrance, &shared).await;
                    return None;
                }
                Err(_) => {
                    shared.metrics.authentication_timeouts.inc();
                    debug!(%peer, "TLS did not come about in time");
                    return None;
                }
            }
        }
    };
    let guard = match &entrance.logins {
        Some(_) => Guard { stage: Stage::Choosing, deadline: Some(deadline) },
        None => {
            seat.becomes_known();
            let login = stream.certificate().map(|certificate| entrance.login_of(certificate));
            let visitor = login.map_or(Visitor::Unknown, Visitor::Certified);
            Guard { stage: Stage::Door(visitor), deadline: None }
        }
    };
    Some(Caller { connected, stream, peer, local, guard, entrance, seat, shared })
}

fn set_up(stream: net::TcpStream) -> io::Result<(TcpStream, SocketAddr)> {
    let stream = TcpStream::from_std(stream)?;
    // Replies are gathered here, so waiting for more before sending would only delay them.
    stream.set_nodelay(true)?;
    // As Kafka: a client whose machine is gone is noticed in the end, even while an answer is owed to it.
    SockRef::from(&stream).set_keepalive(true)?;
    let local = stream.local_addr()?;
    Ok((stream, local))
}

/// Says why TLS did not come about, and closes.
async fn turn_away(
    mut stream: TcpStream,
    peer: SocketAddr,
    failure: &io::Error,
    entrance: &Entrance,
    shared: &Shared,
) {
    shared.metrics.tls_failures.inc();
    let problem = tls::problem(failure);
    // Who connects and goes without a word, as those do that only look whether someone listens, is no news.
    let is_news = failure.kind() != io::ErrorKind::UnexpectedEof;
    let due = if is_news { entrance.broken_handshakes.is_due(Clock::now()) } else { None };
    match due {
        Some(unsaid) => {
            info!(listener = &*entrance.name, %peer, problem, unsaid, "TLS did not come about");
        }
        None => debug!(%peer, problem, "TLS did not come about"),
    }
    // The alert would be lost if the kernel reset the connection because of what the client still sends.
    let until_closed = async {
        if stream.shutdown().await.is_ok() {
            drain(&mut stream).await;
        }
    };
    let _ = time::timeout(LINGER, until_closed).await;
}

/// A client that is counted as connected.
pub(crate) struct Connected(Arc<Shared>);

impl Connected {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        shared.metrics.connections.inc();
        Self(Arc::clone(shared))
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.metrics.connections.dec();
    }
}
