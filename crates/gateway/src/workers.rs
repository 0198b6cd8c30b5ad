//! The threads that serve connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use scheduling::Place;
use tokio::runtime::{self, Runtime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time;
use tracing::{error, info};

use crate::arrival::{Newcomer, arrive};
use crate::connection::Shared;
use crate::limits::{BLOCKING_THREADS, LET_GO, PINNED_PROCESSORS};
use crate::metrics::Traffic;
use crate::options::Options;
use crate::relay::Relay;

/// As many threads as there are processors, each with a runtime of its own.
///
/// A connection stays on the thread it was given to. Requests are so short that handing them from thread to thread
/// would cost more than it gains: one that is moved to an idle thread has to wake that first.
pub(crate) struct Workers {
    all: Vec<Worker>,
}

/// One thread, as the listeners see it.
struct Worker {
    newcomers: mpsc::UnboundedSender<Newcomer>,
    /// How many connections it has.
    load: Arc<AtomicUsize>,
    /// Says how many connections it cut, when it ends.
    ended: oneshot::Receiver<usize>,
}

impl Workers {
    /// How many threads there will be.
    pub(crate) fn count() -> usize {
        thread::available_parallelism().map_or(1, usize::from)
    }

    /// Starts a thread for each place that there is to count in. They end when `self` is told to or is gone.
    pub(crate) fn start(shared: &Arc<Shared>, draining: &watch::Receiver<bool>) -> io::Result<Self> {
        let traffic = &shared.metrics.traffic;
        let mut places = places(&shared.options, traffic.len()).into_iter().flatten();
        let start = |traffic: &Arc<Traffic>| {
            Worker::start(Arc::clone(shared), Arc::clone(traffic), draining.clone(), places.next())
        };
        Ok(Self { all: traffic.iter().map(start).collect::<Result<_, _>>()? })
    }

    /// Gives a client to the thread with the fewest.
    pub(crate) fn adopt(&self, newcomer: Newcomer) {
        let alive = self.all.iter().filter(|worker| !worker.newcomers.is_closed());
        let Some(worker) = alive.min_by_key(|worker| worker.load.load(Ordering::Relaxed)) else { return };
        worker.load.fetch_add(1, Ordering::Relaxed);
        // Should the thread end just now, the client is closed and dials again.
        let _ = worker.newcomers.send(newcomer);
    }

    /// Waits for all connections to end, once the drain has begun; says how many did not in time.
    pub(crate) async fn end(self) -> usize {
        let (newcomers, ended): (Vec<_>, Vec<_>) =
            self.all.into_iter().map(|worker| (worker.newcomers, worker.ended)).unzip();
        drop(newcomers);
        let mut cut = 0;
        for ended in ended {
            cut += ended.await.unwrap_or_default();
        }
        cut
    }
}

/// Where so many threads of connections stay, if they are to.
fn places(options: &Options, threads: usize) -> Option<Vec<Place>> {
    if !options.connection_threads_pinned || threads > PINNED_PROCESSORS {
        return None;
    }
    let mut places = scheduling::places(threads)?;
    // The first client goes to the first thread; those of several gateways on a machine should not all meet there.
    let first = rand::random_range(0..places.len());
    places.rotate_left(first);
    Some(places)
}

impl Worker {
    fn start(
        shared: Arc<Shared>,
        traffic: Arc<Traffic>,
        draining: watch::Receiver<bool>,
        place: Option<Place>,
    ) -> io::Result<Self> {
        let (newcomers, arriving) = mpsc::unbounded_channel();
        let (end, ended) = oneshot::channel();
        let load = Arc::new(AtomicUsize::new(0));
        let serving = Serving { shared, traffic, draining, load: Arc::clone(&load) };
        // The thread comes first: a runtime that finds no thread could not be dropped here, where another one runs.
        let (give, take) = std::sync::mpsc::channel();
        let work = move || {
            scheduling::prefer_batches();
            if let Some(place) = place {
                place.stay();
            }
            if let Ok(runtime) = take.recv() {
                serve(runtime, serving, arriving, end);
            }
        };
        thread::Builder::new().name("kohort-net".to_owned()).spawn(work)?;
        let mut builder = runtime::Builder::new_current_thread();
        if let Some(place) = place {
            // What blocks must not hold up the thread of connections from where it runs.
            builder.on_thread_start(move || place.anywhere());
        }
        let runtime = builder.enable_all().max_blocking_threads(BLOCKING_THREADS).build()?;
        // The thread waits for it.
        let _ = give.send(runtime);
        Ok(Self { newcomers, load, ended })
    }
}

fn serve(
    runtime: Runtime,
    serving: Serving,
    arriving: mpsc::UnboundedReceiver<Newcomer>,
    end: oneshot::Sender<usize>,
) {
    let cut = runtime.block_on(serving.run(arriving));
    // What was cut lets go of the broker now; a read of the disk that hangs must not hold up the end.
    runtime.shutdown_timeout(LET_GO);
    // Nobody asks any more when the gateway was dropped.
    let _ = end.send(cut);
}

/// One thread at work.
struct Serving {
    shared: Arc<Shared>,
    traffic: Arc<Traffic>,
    draining: watch::Receiver<bool>,
    load: Arc<AtomicUsize>,
}

impl Serving {
    async fn run(self, mut arriving: mpsc::UnboundedReceiver<Newcomer>) -> usize {
        let relay = Arc::new(Relay::default());
        tokio::spawn(Arc::clone(&relay).run());
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                newcomer = arriving.recv() => match newcomer {
                    Some(newcomer) => self.take_in(newcomer, &relay, &mut connections),
                    None => break,
                },
                Some(ended) = connections.join_next(), if !connections.is_empty() => self.report(ended),
            }
        }
        let all_ended = async {
            while let Some(ended) = connections.join_next().await {
                self.report(ended);
            }
        };
        if time::timeout(self.shared.options.drain_timeout, all_ended).await.is_err() {
            info!(connections = connections.len(), "cut connections that still owed answers");
        }
        connections.len()
    }

    fn take_in(&self, newcomer: Newcomer, relay: &Arc<Relay>, connections: &mut JoinSet<()>) {
        let (shared, traffic) = (Arc::clone(&self.shared), Arc::clone(&self.traffic));
        connections.spawn(arrive(newcomer, shared, traffic, relay.waker(), self.draining.clone()));
    }

    /// A connection that panicked took nothing else with it, but somebody must look.
    fn report(&self, ended: Result<(), JoinError>) {
        self.load.fetch_sub(1, Ordering::Relaxed);
        if let Err(failure) = ended {
            error!(%failure, "a connection's task failed");
        }
    }
}
