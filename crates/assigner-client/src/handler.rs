//! What a consumer does with its partitions.

use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use crate::machine::WarmEnd;
use crate::ownership::Ownership;
use crate::partition::Partition;

/// Why a handler could not do what was asked. It is logged.
pub type HandlerError = Box<dyn std::error::Error + Send + Sync>;

/// What a consumer does with its partitions.
///
/// Of one partition there is never more than one call at a time, and each begins after the one before has returned.
/// Calls for different partitions run at the same time, so a long `warm` holds up nothing but its own partition.
/// A partition goes one of these ways:
///
/// ```text
/// warm -> assign -> release        it comes warm, and is handed on
/// warm -> cancel                   it goes elsewhere after all
/// assign -> release                nobody had it before
/// assign -> revoke                 it is not ours any more, whatever we do
/// ```
pub trait Handler: Send + Sync + 'static {
    /// Begins to work on a partition, from where its former owner stopped. Returns once work has begun; the work itself
    /// goes on elsewhere until `release` or `revoke`.
    ///
    /// If it fails, `revoke` is called, and after a pause this again.
    fn assign(&self, owned: Owned) -> impl Future<Output = Result<(), HandlerError>> + Send;

    /// Gathers the state that the partition needs, while another works on it. Returns when there is little left to do;
    /// the rest is up to `assign`. Whoever takes long reports progress, and comes to an end when told so.
    ///
    /// If it fails, `cancel` is called, and the assigner is not told that we are ready: it gives the handoff up when
    /// its time is over. Without an implementation a consumer is always warm.
    fn warm(&self, warming: Warming) -> impl Future<Output = Result<(), HandlerError>> + Send {
        drop(warming);
        async { Ok(()) }
    }

    /// Stops work on a partition and stores what was done, offsets included. The next owner begins when this returns.
    ///
    /// If it fails, nobody else begins; it is called again after a pause.
    fn release(&self, partition: Partition) -> impl Future<Output = Result<(), HandlerError>> + Send;

    /// Forgets what `warm` has gathered.
    fn cancel(&self, partition: Partition) -> impl Future<Output = ()> + Send;

    /// Stops work on a partition at once. Another may work on it already: nothing may be stored or committed any more.
    fn revoke(&self, partition: Partition) -> impl Future<Output = ()> + Send;

    /// Another process has taken the name of this one. Everything is revoked, and this consumer ends.
    fn fenced(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// A partition that is ours.
#[derive(Clone, Debug)]
pub struct Owned {
    /// The partition.
    pub partition: Partition,
    /// Counts the partition's owners. A store that remembers the highest one it was shown can refuse earlier owners.
    pub epoch: u64,
    turn: Option<u64>,
    ownership: Ownership,
}

impl Owned {
    pub(crate) fn new(partition: Partition, epoch: u64, ownership: Ownership) -> Self {
        let turn = ownership.turn(&partition);
        Self { partition, epoch, turn, ownership }
    }

    /// Whether the partition has been ours ever since it was assigned. Ask just before an effect that others can see.
    pub fn is_mine(&self) -> bool {
        self.turn.is_some() && self.ownership.turn(&self.partition) == self.turn
    }

    /// Returns when the partition is not ours any more.
    pub async fn lost(&self) {
        if let Some(turn) = self.turn {
            self.ownership.lost(&self.partition, turn).await;
        }
    }
}

/// A partition for which state is gathered.
pub struct Warming {
    /// The partition.
    pub partition: Partition,
    /// The consumer that works on it.
    pub current_owner: String,
    progress: Arc<Progress>,
    end: watch::Receiver<Option<WarmEnd>>,
}

impl Warming {
    /// Says how much is done, in whatever unit, and how much there is to do; zero if that is not known. Say it as often
    /// as you like: what is sent is the newest, now and then. While `done` grows the handoff is not given up.
    pub fn report(&self, done: u64, total: u64) {
        self.progress.done.store(done, Ordering::Relaxed);
        self.progress.total.store(total, Ordering::Relaxed);
    }

    /// Whether to come to an end, and why.
    pub fn end(&self) -> Option<WarmEnd> {
        *self.end.borrow()
    }

    /// Returns when it is time to come to an end.
    pub async fn ended(&self) -> WarmEnd {
        let mut end = self.end.clone();
        match end.wait_for(Option::is_some).await.map(|end| *end) {
            Ok(Some(end)) => end,
            _ => pending().await,
        }
    }
}

impl fmt::Debug for Warming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Warming").field("partition", &self.partition).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Progress {
    done: AtomicU64,
    total: AtomicU64,
}

/// The other end of a [`Warming`].
#[derive(Debug)]
pub(crate) struct WarmControl {
    progress: Arc<Progress>,
    end: watch::Sender<Option<WarmEnd>>,
}

impl WarmControl {
    pub(crate) fn new(partition: Partition, current_owner: String) -> (Self, Warming) {
        let progress = Arc::new(Progress::default());
        let (sender, end) = watch::channel(None);
        let warming = Warming { partition, current_owner, progress: Arc::clone(&progress), end };
        (Self { progress, end: sender }, warming)
    }

    pub(crate) fn end(&self, end: WarmEnd) {
        self.end.send_replace(Some(end));
    }

    /// What is done, and what there is to do.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.progress.done.load(Ordering::Relaxed), self.progress.total.load(Ordering::Relaxed))
    }
}
