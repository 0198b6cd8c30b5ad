//! When something has to happen by itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::timestamp::Timestamp;

/// All deadlines of a shard, the next one first.
///
/// Heartbeats do not come here: a member's deadline stands at the time that it was first set for, and when it is
/// due and the member has been heard of since, it is set again.
#[derive(Clone, Debug, Default)]
pub(super) struct Deadlines(BTreeSet<(Timestamp, Arc<str>, Due)>);

/// What is due in a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// The join phase ends.
    JoinPhase,
    /// Whoever has not come for its assignment is removed.
    SyncPhase,
    /// A member's session may have expired.
    Member(Arc<str>),
    /// An id that was given out (KIP-394) and has not joined is forgotten.
    Pending(Arc<str>),
}

impl Deadlines {
    pub(super) fn set(&mut self, at: Timestamp, group: &Arc<str>, due: Due) {
        self.0.insert((at, Arc::clone(group), due));
    }

    pub(super) fn cancel(&mut self, at: Timestamp, group: &Arc<str>, due: Due) {
        self.0.remove(&(at, Arc::clone(group), due));
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.0.first().map(|(at, ..)| *at)
    }

    /// Takes out the first deadline that has come.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<(Arc<str>, Due)> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, group, due)| (group, due))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
