//! The end of a partition's segments, as whoever writes there needs it.

use coordination::producer::ProducerTable;

use crate::segment_index::IndexState;

/// What is known of the segment that batches are added to, beyond what readers see.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    pub(crate) index: IndexState,
    /// The producers of all that is settled.
    pub(crate) producers: ProducerTable,
    /// The next batch begins a new segment.
    pub(crate) roll_requested: bool,
    /// The settler is at work on this partition; the last segment must stay.
    pub(crate) settling: bool,
    /// A checkpoint is durable, so that a restart knows what of the segments counts.
    pub(crate) has_checkpoint: bool,
    /// The last checkpoint may not be durable. After a crash the one before it may count again, which knows the
    /// segments as they were then.
    pub(crate) unconfirmed: bool,
    /// The files of the last segment may hold more than counts, or may have held it when they were last durable.
    pub(crate) torn: bool,
    /// Segments begun by attempts that did not come to their end. They must be gone before a later one counts,
    /// or a restart would take them for closed ones.
    pub(crate) strays: Vec<i64>,
}

impl Tail {
    pub(crate) fn new(index: IndexState, producers: ProducerTable) -> Self {
        Self { index, producers, ..Self::default() }
    }

    pub(crate) fn is_settling(&self) -> bool {
        self.settling
    }

    /// The last segment is gone.
    pub(crate) fn forget(&mut self) {
        self.index = IndexState::default();
        self.torn = false;
    }
}
