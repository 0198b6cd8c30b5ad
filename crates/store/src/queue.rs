//! Appends on their way to the writer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use batch::BatchHeader;
use parking_lot::{Condvar, Mutex};

use crate::append::{Append, AppendError, Completion, Ended};
use crate::limits::{GROUP_APPENDS_MAX, GROUP_BYTES_MAX};
use crate::log_file::FRAME_HEAD_LEN;
use crate::metrics::Metrics;
use crate::partition::PartitionLog;

/// An append between its partition and the log.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) partition: Arc<PartitionLog>,
    pub(crate) append: Append,
    pub(crate) header: BatchHeader,
    pub(crate) done: Completion,
}

impl Pending {
    pub(crate) fn frame_len(&self) -> usize {
        FRAME_HEAD_LEN + self.header.size()
    }

    pub(crate) fn fail(self, error: AppendError, metrics: &Metrics) -> Ended {
        self.partition.ended();
        Metrics::add(&metrics.failed_appends, 1);
        Ended { done: self.done, outcome: Err(error) }
    }
}

/// Appends that wait for the writer, in the order in which they go into the log.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct Waiting {
    appends: VecDeque<Pending>,
    closed: bool,
}

impl Queue {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { waiting: Mutex::default(), arrived: Condvar::new(), metrics }
    }

    /// Takes an append, or gives it back when the store is closed.
    #[expect(clippy::result_large_err, reason = "what is refused is what was handed in")]
    pub(crate) fn push(&self, pending: Pending) -> Result<(), Pending> {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Err(pending);
        }
        Metrics::add(&self.metrics.queued_bytes, pending.frame_len() as u64);
        waiting.appends.push_back(pending);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits until there is something to do or `timeout` has passed. `false` when the store is closed and nothing
    /// is left.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> bool {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut waiting = self.waiting.lock();
        while waiting.appends.is_empty() && !waiting.closed {
            match deadline {
                Some(deadline) => {
                    if self.arrived.wait_until(&mut waiting, deadline).timed_out() {
                        break;
                    }
                }
                None => self.arrived.wait(&mut waiting),
            }
        }
        !(waiting.closed && waiting.appends.is_empty())
    }

    /// Refuses appends from now on; those that wait are still written.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.arrived.notify_all();
    }

    /// The size of the frame that is next.
    pub(crate) fn next_frame_len(&self) -> Option<usize> {
        self.waiting.lock().appends.front().map(Pending::frame_len)
    }

    /// Takes what goes out together, at most `room` bytes of it.
    pub(crate) fn take(&self, room: usize) -> Vec<Pending> {
        let mut waiting = self.waiting.lock();
        let mut group = Vec::new();
        let mut bytes = 0;
        while let Some(next) = waiting.appends.front() {
            let more = bytes + next.frame_len();
            let too_much =
                more > room || (more > GROUP_BYTES_MAX && bytes > 0) || group.len() >= GROUP_APPENDS_MAX;
            if too_much {
                break;
            }
            bytes = more;
            group.extend(waiting.appends.pop_front());
        }
        Metrics::subtract(&self.metrics.queued_bytes, bytes as u64);
        group
    }
}
