//! A consumer by the client library, in this process, that does its work for the observer and stops where it is told.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use assigner_client::{
    Builder, Consumer, Handler, HandlerError, Owned, Partition, RunError, Running, Warming,
};
use tokio::runtime::{self, Runtime};
use tokio::sync::watch;

use crate::journal::{Journal, Life};

/// A consumer. Dropping it is as if its process were killed.
pub(crate) struct Worker {
    pub(crate) life: Life,
    pub(crate) hands: Hands,
    running: Option<Running>,
    /// Its own, so that it can end as a process does: at once and without a word.
    runtime: Option<Runtime>,
}

/// Clones share.
#[derive(Clone)]
pub(crate) struct Hands(Arc<Shared>);

struct Shared {
    life: Life,
    journal: Journal,
    warming: Gate,
    releasing: Gate,
}

/// Where work can be held up.
struct Gate {
    is_open: watch::Sender<bool>,
    waiting: Mutex<BTreeSet<u32>>,
}

impl Worker {
    /// Starts what is described, which is connected to wherever that says, under this name.
    pub(crate) fn start(journal: &Journal, name: &str, description: Builder) -> Self {
        Self::start_held(journal, name, description, [true, true])
    }

    /// The same, and says whether it may get warm and whether it may let go.
    pub(crate) fn start_held(
        journal: &Journal,
        name: &str,
        description: Builder,
        [warm, release]: [bool; 2],
    ) -> Self {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (hands, running) = {
            let _entered = runtime.enter();
            start(journal, name, description, [warm, release])
        };
        Self { life: hands.0.life.clone(), hands, running: Some(running), runtime: Some(runtime) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.life.name
    }

    /// Hands everything over and leaves.
    pub(crate) fn leave(mut self) {
        let running = self.running.take().unwrap();
        self.runtime.as_ref().unwrap().block_on(running.deregister()).unwrap();
    }

    /// Lets go of everything at once and leaves.
    pub(crate) fn stop(mut self) {
        let running = self.running.take().unwrap();
        self.runtime.as_ref().unwrap().block_on(running.stop()).unwrap();
    }

    /// Waits for its end, which it has not asked for.
    pub(crate) fn end(mut self) -> RunError {
        let running = self.running.take().unwrap();
        self.runtime.as_ref().unwrap().block_on(running.finished()).unwrap_err()
    }

    /// Ends without a word, in the middle of whatever it does.
    pub(crate) fn crash(self) {
        drop(self);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.hands.0.journal.die(&self.life);
        // Dropped, the handle would say farewell.
        std::mem::forget(self.running.take());
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Starts a consumer within the current runtime.
pub(crate) fn start(
    journal: &Journal,
    name: &str,
    description: Builder,
    [warm, release]: [bool; 2],
) -> (Hands, Running) {
    let life = journal.be_born(name);
    let (warming, releasing) = (Gate::new(warm), Gate::new(release));
    let hands = Hands(Arc::new(Shared { life, journal: journal.clone(), warming, releasing }));
    let consumer: Consumer = description.build().unwrap();
    let running = consumer.start(hands.clone());
    (hands, running)
}

impl Hands {
    /// Which partitions wait to be warm.
    pub(crate) fn warming(&self) -> BTreeSet<u32> {
        self.0.warming.lock().clone()
    }

    /// Which partitions wait to be let go.
    pub(crate) fn releasing(&self) -> BTreeSet<u32> {
        self.0.releasing.lock().clone()
    }

    pub(crate) fn may_get_warm(&self, may: bool) {
        self.0.warming.is_open.send_replace(may);
    }

    pub(crate) fn may_let_go(&self, may: bool) {
        self.0.releasing.is_open.send_replace(may);
    }

    pub(crate) fn life(&self) -> &Life {
        &self.0.life
    }
}

impl Handler for Hands {
    async fn assign(&self, owned: Owned) -> Result<(), HandlerError> {
        self.0.journal.begin(&self.0.life, &owned);
        Ok(())
    }

    async fn warm(&self, warming: Warming) -> Result<(), HandlerError> {
        tokio::select! {
            () = self.0.warming.pass(&warming.partition) => {}
            _ = warming.ended() => self.0.warming.leave(&warming.partition),
        }
        Ok(())
    }

    async fn release(&self, partition: Partition) -> Result<(), HandlerError> {
        self.0.releasing.pass(&partition).await;
        self.0.journal.end(&self.0.life, &partition);
        Ok(())
    }

    async fn cancel(&self, _: Partition) {}

    async fn revoke(&self, partition: Partition) {
        self.0.journal.end(&self.0.life, &partition);
    }
}

impl Gate {
    fn new(is_open: bool) -> Self {
        Self { is_open: watch::Sender::new(is_open), waiting: Mutex::default() }
    }

    /// Waits until it is open.
    async fn pass(&self, partition: &Partition) {
        self.lock().insert(partition.number);
        // It fails only when the gate is gone.
        let _ = self.is_open.subscribe().wait_for(|is_open| *is_open).await;
        self.leave(partition);
    }

    fn leave(&self, partition: &Partition) {
        self.lock().remove(&partition.number);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
