//! Listening, accepting and draining.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{self, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use rail::Rail;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time;
use tracing::{debug, error, warn};

use crate::admission::{Admission, Full};
use crate::arrival::{Connected, Newcomer};
use crate::bind::{self, BindError};
use crate::complaint::Complaint;
use crate::connection::Shared;
use crate::entrance::Entrance;
use crate::limits::{ACCEPT_PAUSE, HASHING};
use crate::metrics::Metrics;
use crate::options::{ListenerConfig, Options};
use crate::pauses::Pauses;
use crate::penalty::Penalties;
use crate::workers::Workers;

/// Listens for Kafka clients and carries their requests to the broker.
pub struct Gateway {
    listeners: Vec<Listener>,
    options: Options,
    metrics: Metrics,
}

struct Listener {
    entrance: Entrance,
    socket: net::TcpListener,
    local_addr: SocketAddr,
}

/// Why no client can be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The system took a listening socket away.
    #[error("serve listener {name}")]
    Listener {
        /// The listener.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// The system gives no threads.
    #[error("start the threads that serve connections")]
    Threads(#[source] io::Error),
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("addrs", &self.local_addrs()).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Takes all addresses, or none: clients can connect from now on, and are answered once
    /// [`Gateway::serve`] runs. Certificates and keys are read as well.
    pub fn bind(configs: Vec<ListenerConfig>, options: Options) -> Result<Self, BindError> {
        let sockets: Vec<_> =
            configs.iter().map(|config| bind::bind(config, &configs, &options)).collect::<Result<_, _>>()?;
        let entrances: Vec<_> = configs.into_iter().map(open).collect::<Result<_, _>>()?;
        let listeners = entrances
            .into_iter()
            .zip(sockets)
            .map(|(entrance, (socket, local_addr))| Listener { entrance, socket, local_addr })
            .collect();
        Ok(Self { listeners, options, metrics: Metrics::new(Workers::count()) })
    }

    /// Where it listens, in the order of the listeners, with the ports that were found for port 0.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(|listener| listener.local_addr).collect()
    }

    /// What this gateway counts.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Serves until `shutdown` is there, then drains: accepts no more, answers every request it has read but those that
    /// stay parked for [`Options::drain_parked_timeout`], closes. Returns how many connections still owed an answer after
    /// [`Options::drain_timeout`] and were cut.
    pub async fn serve(
        self,
        rail: Arc<dyn Rail>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<usize, ServeError> {
        let (drain, draining) = watch::channel(false);
        let admission = Admission::new(self.options.max_connections, self.options.max_connections_per_ip);
        let shared = Arc::new(Shared {
            rail,
            options: self.options,
            metrics: self.metrics,
            in_flight: AtomicUsize::new(0),
            pauses: Pauses::default(),
            penalties: Penalties::default(),
            hashing: Arc::new(Semaphore::new(HASHING)),
        });
        let workers = Arc::new(Workers::start(&shared, &draining).map_err(ServeError::Threads)?);
        let mut doors = JoinSet::new();
        for listener in self.listeners {
            let Listener { entrance, socket, local_addr } = listener;
            let socket = TcpListener::from_std(socket)
                .map_err(|source| ServeError::Listener { name: entrance.name.to_string(), source })?;
            debug!(listener = &*entrance.name, addr = %local_addr, "listening");
            let door = Door {
                shared: Arc::clone(&shared),
                entrance: Arc::new(entrance),
                workers: Arc::clone(&workers),
                admission: Arc::clone(&admission),
                draining: draining.clone(),
                refusals: Complaint::default(),
                failures: Complaint::default(),
            };
            doors.spawn(door.serve(socket));
        }

        shutdown.await;
        drain.send_replace(true);
        while let Some(door) = doors.join_next().await {
            if let Err(failure) = door {
                error!(%failure, "a listener's task failed");
            }
        }
        let workers = Arc::into_inner(workers).expect("listeners that have ended hold nothing");
        Ok(workers.end().await)
    }
}

/// Reads what a listener needs to protect its clients.
fn open(config: ListenerConfig) -> Result<Entrance, BindError> {
    let (name, addr) = (config.name.clone(), config.addr);
    Entrance::open(config).map_err(|unusable| BindError { name, addr, source: io::Error::other(unusable) })
}

/// One listener at work.
struct Door {
    shared: Arc<Shared>,
    entrance: Arc<Entrance>,
    workers: Arc<Workers>,
    admission: Arc<Admission>,
    draining: watch::Receiver<bool>,
    refusals: Complaint,
    failures: Complaint,
}

impl Door {
    /// Accepts until the drain begins.
    async fn serve(mut self, socket: TcpListener) {
        let mut draining = self.draining.clone();
        loop {
            tokio::select! {
                () = begun(&mut draining) => return,
                accepted = socket.accept() => match accepted {
                    Ok((stream, peer)) => self.admit(stream, peer),
                    Err(failure) => self.survive(&failure).await,
                },
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) {
        let metrics = &self.shared.metrics;
        let seat = match self.admission.admit(peer.ip().to_canonical(), self.entrance.is_guarded()) {
            Ok(seat) => seat,
            Err(full) => {
                metrics.connections_refused.inc();
                if let Some(unsaid) = self.refusals.is_due(Instant::now()) {
                    let limit = match full {
                        Full::Total => "max.connections",
                        Full::PerIp => "max.connections.per.ip",
                        Full::UnknownPerIp => "clients of one address that have not shown who they are",
                    };
                    warn!(listener = &*self.entrance.name, %peer, limit, unsaid, "refused a connection");
                }
                return;
            }
        };
        // Counted before it is known to have come: when all that came are gone, none is on its way any more.
        let connected = Connected::new(&self.shared);
        metrics.connections_accepted.inc();
        // Taken out of this runtime, to be put into that of its thread.
        match stream.into_std() {
            Ok(stream) => {
                let entrance = Arc::clone(&self.entrance);
                let tls = entrance.tls.as_ref().map(|tls| tls.current(Instant::now()));
                self.workers.adopt(Newcomer { stream, peer, entrance, tls, seat, connected });
            }
            // The client is gone already.
            Err(failure) => debug!(%peer, %failure, "could not set up a connection"),
        }
    }

    /// Goes on after accepting failed. Out of file descriptors, trying again at once would only burn the
    /// processor that is needed to get some back.
    async fn survive(&self, failure: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
        if matches!(failure.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
            return;
        }
        if let Some(unsaid) = self.failures.is_due(Instant::now()) {
            warn!(listener = &*self.entrance.name, %failure, unsaid, "cannot accept connections at the moment");
        }
        let mut draining = self.draining.clone();
        tokio::select! {
            () = time::sleep(ACCEPT_PAUSE) => {}
            () = begun(&mut draining) => {}
        }
    }
}

/// Waits for the drain to begin. A gateway that is gone without a word ends its connections as well.
async fn begun(draining: &mut watch::Receiver<bool>) {
    let _ = draining.wait_for(|&draining| draining).await;
}
