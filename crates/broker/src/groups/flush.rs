//! One flush of a shard: batches for two logs, queued together, over when the last of them is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use coordination::catalog::LEADER_EPOCH;
use rail::Progress;
use store::{Append, AppendError};

use super::gathering::Gathered;
use super::shard::GroupShard;

/// Records on their way to the disk. At most one of a shard is at any time.
#[derive(Debug)]
pub(super) struct Flush {
    pub(super) shard: Arc<GroupShard>,
    /// Whose flush it is, should the shard have been read back meanwhile.
    pub(super) progress: Arc<Progress>,
    pub(super) number: u64,
    pub(super) gathered: Gathered,
}

impl Flush {
    /// Queues all of it. No lock of the shard may be held: a refusal comes back before this returns.
    pub(super) fn write(self) {
        let Self { shard, progress, number, gathered } = self;
        let (kohort, offsets) = match gathered.close() {
            Ok(batches) => batches,
            Err(error) => {
                tracing::error!(org = %shard.org, partition = shard.partition, %error, "close a batch of group records");
                shard.landed(&progress, number, false);
                return;
            }
        };
        let landing = Arc::new(Landing {
            shard: Arc::clone(&shard),
            progress,
            number,
            left: AtomicUsize::new(kohort.len() + offsets.len()),
            failed: AtomicBool::new(false),
        });
        shard.outstanding.fetch_add(kohort.len() + offsets.len(), Ordering::AcqRel);
        // Before the others, so that a crash leaves nothing of a group in Kafka's formats without what ours say of it.
        // When a batch of another shard fails in between it may be so; the machine puts that right when it has read
        // it back.
        for (batch, records) in kohort {
            let landing = Arc::clone(&landing);
            shard.shared.own_log.append_then(&batch, records, move |outcome| landing.one(outcome));
        }
        // Nothing else writes to this log and nothing of this shard is under way.
        let mut offset = shard.log.end_offset();
        for (batch, records) in offsets {
            let landing = Arc::clone(&landing);
            match Append::at(&batch, offset, LEADER_EPOCH) {
                // What was refused at once is not to be in one log alone.
                _ if landing.failed.load(Ordering::Acquire) => landing.one(Err(AppendError::Poisoned)),
                Ok(append) => shard.log.append_then(append, move |outcome| landing.one(outcome)),
                Err(error) => landing.one(Err(AppendError::Batch(error))),
            }
            offset = offset.saturating_add(records);
        }
    }
}

/// What is left of a flush.
#[derive(Debug)]
struct Landing {
    shard: Arc<GroupShard>,
    progress: Arc<Progress>,
    number: u64,
    left: AtomicUsize,
    failed: AtomicBool,
}

impl Landing {
    /// One of its batches has ended.
    fn one(&self, outcome: Result<(), AppendError>) {
        let shard = &self.shard;
        if let Err(error) = outcome
            && !self.failed.swap(true, Ordering::AcqRel)
            // The broker has ended, or the organisation is gone; nobody waits for what came after.
            && !matches!(error, AppendError::Closed | AppendError::Removed)
        {
            let error = &error as &dyn std::error::Error;
            tracing::error!(org = %shard.org, partition = shard.partition, error, "store group records; they are read back");
        }
        shard.outstanding.fetch_sub(1, Ordering::AcqRel);
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            shard.landed(&self.progress, self.number, !self.failed.load(Ordering::Acquire));
        }
    }
}
