use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use batch::{BatchError, BatchHeader, HEADER_LEN};
use bytes::Bytes;
use tokio::sync::oneshot;

/// One record batch on its way into the log, with its offset and leader epoch filled in.
///
/// The head is apart from the body, so that what a broker changes (offset, epoch, append time) costs 61 bytes
/// and the records stay where the network put them.
#[derive(Debug, Clone)]
pub struct Append {
    /// The batch's first [`HEADER_LEN`] bytes, as they are to be stored.
    pub head: [u8; HEADER_LEN],
    /// All that follows them.
    pub body: Bytes,
}

impl Append {
    /// The append of `batch` at `base_offset`, with nothing else changed but the leader epoch.
    ///
    /// # Errors
    /// When `batch` does not begin with a header.
    pub fn at(batch: &Bytes, base_offset: i64, leader_epoch: i32) -> Result<Self, BatchError> {
        let mut header = BatchHeader::parse(batch)?;
        header.base_offset = base_offset;
        header.partition_leader_epoch = leader_epoch;
        Ok(Self { head: header.to_bytes(), body: batch.slice(HEADER_LEN..) })
    }
}

/// Resolves once the append is durable (under the flush mode) and visible to readers, or has failed.
///
/// Dropping it changes nothing about the append.
#[derive(Debug)]
#[must_use = "an append is acknowledged only when this has resolved"]
pub struct AppendHandle {
    outcome: oneshot::Receiver<Result<(), AppendError>>,
}

impl AppendHandle {
    pub(crate) fn new() -> (Completion, Self) {
        let (sender, outcome) = oneshot::channel();
        (Completion(Some(Told::Handle(sender))), Self { outcome })
    }

    /// Blocks until the append has ended. For callers outside of any async runtime.
    ///
    /// # Errors
    /// When nothing was stored.
    pub fn wait(self) -> Result<(), AppendError> {
        self.outcome.blocking_recv().unwrap_or(Err(AppendError::Closed))
    }

    /// The outcome, if there is one already.
    pub fn outcome(&mut self) -> Option<Result<(), AppendError>> {
        match self.outcome.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(AppendError::Closed)),
        }
    }
}

impl Future for AppendHandle {
    type Output = Result<(), AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.outcome).poll(context).map(|outcome| outcome.unwrap_or(Err(AppendError::Closed)))
    }
}

/// Whom the writer tells how an append has ended. Told exactly once, whatever becomes of the writer.
pub(crate) struct Completion(Option<Told>);

enum Told {
    /// Who holds the [`AppendHandle`].
    Handle(oneshot::Sender<Result<(), AppendError>>),
    /// Who gave the function.
    Call(Box<dyn FnOnce(Result<(), AppendError>) + Send>),
}

impl Completion {
    pub(crate) fn call(done: impl FnOnce(Result<(), AppendError>) + Send + 'static) -> Self {
        Self(Some(Told::Call(Box::new(done))))
    }

    /// Tells it. A function that was given may append again, so no lock of the store may be held here.
    pub(crate) fn finish(mut self, outcome: Result<(), AppendError>) {
        self.tell(outcome);
    }

    fn tell(&mut self, outcome: Result<(), AppendError>) {
        let panicked = match self.0.take() {
            None => false,
            Some(Told::Handle(sender)) => {
                // Nobody may wait any more: the client has gone, the batch stays.
                let _ = sender.send(outcome);
                false
            }
            // What fails there must not take the writer, and with it every partition, along.
            Some(Told::Call(done)) => catch_unwind(AssertUnwindSafe(|| done(outcome))).is_err(),
        };
        if panicked {
            tracing::error!("whoever waited for an append panicked when it ended");
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.tell(Err(AppendError::Closed));
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").finish_non_exhaustive()
    }
}

/// An append that has ended, and whom to tell.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) done: Completion,
    pub(crate) outcome: Result<(), AppendError>,
}

impl Ended {
    /// Tells all of them, in their order. No lock of the store may be held here.
    pub(crate) fn tell(all: Vec<Self>) {
        for Self { done, outcome } in all {
            done.finish(outcome);
        }
    }
}

/// Why an append was not stored. Nothing of it is or becomes visible while this process runs.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// There is no room on the disk. Later appends succeed once there is.
    #[error("the disk is full")]
    DiskFull(#[source] Arc<io::Error>),
    /// The disk refused a write or a sync.
    #[error("write to the log")]
    Disk(#[source] Arc<io::Error>),
    /// An append queued before it failed, and the partition has not been reset since.
    #[error("an earlier append to the partition failed")]
    Poisoned,
    /// The batch's offset is not the one that follows the last queued.
    #[error("offset {found} where {expected} follows")]
    Offset {
        /// The batch's base offset.
        found: i64,
        /// The offset that comes next.
        expected: i64,
    },
    /// The bytes are not one whole record batch.
    #[error("not a record batch")]
    Batch(#[source] BatchError),
    /// The partition's topic was removed.
    #[error("the topic was removed")]
    Removed,
    /// The store was closed before the append was written.
    #[error("the store is closed")]
    Closed,
}

impl AppendError {
    pub(crate) fn from_disk(error: &Arc<io::Error>) -> Self {
        if crate::disk::is_full(error) {
            Self::DiskFull(Arc::clone(error))
        } else {
            Self::Disk(Arc::clone(error))
        }
    }
}
