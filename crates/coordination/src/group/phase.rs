//! What a group is doing, with the data that each phase needs and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::reply::GroupState;

use super::effects::Ticket;
use super::event::{Cause, Culprit};
use super::timestamp::{Now, Timestamp};

/// Where a group stands between two generations.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// Nobody is in it.
    Empty,
    /// Members are joining.
    Preparing(Box<Preparing>),
    /// Every member has its generation; they wait for the leader's assignment.
    Completing(Box<Completing>),
    /// Every member has its assignment, or may fetch it.
    Stable(Stable),
    /// The shard has been unloaded.
    Dead,
}

/// Collecting joins: each waits on its ticket until the phase ends.
#[derive(Clone, Debug)]
pub(super) struct Preparing {
    pub(super) joined: BTreeMap<Arc<str>, Ticket>,
    /// When the phase ends although not everybody has joined.
    pub(super) ends: Timestamp,
    /// Set in the first join phase of a group that was empty, which waits for more members to arrive.
    pub(super) initial: Option<Initial>,
    pub(super) story: Story,
}

/// How a first join phase waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Initial {
    /// Until nobody has arrived for a while.
    Quiet {
        /// When it ends although members still arrive.
        latest: Timestamp,
    },
    /// For a fixed time, and again for as long as members have arrived in it: Kafka's way.
    Delayed {
        /// How long it waits this time.
        wait: Duration,
        /// How much longer it may wait after that.
        budget: Duration,
        /// Whether somebody arrived during this wait.
        newcomers: bool,
    },
}

/// Waiting for the leader's assignment.
#[derive(Clone, Debug)]
pub(super) struct Completing {
    /// Who waits for it.
    pub(super) syncing: BTreeMap<Arc<str>, Ticket>,
    pub(super) unsynced: Unsynced,
    pub(super) story: Story,
}

/// Everybody has an assignment.
#[derive(Clone, Debug)]
pub(super) struct Stable {
    pub(super) unsynced: Unsynced,
    /// What has lost its owner, for the rebalance that follows: partitions that the assignment took from a member and gave
    /// to nobody yet, and all that members had who have just been removed.
    pub(super) lost: Owned,
    /// What the former take. The latter are no sooner lost than the rebalance begins.
    pub(super) lost_bytes: usize,
}

/// Owners of partitions, each with an assignment. One may come more than once.
pub(super) type Owned = Vec<(Arc<str>, Bytes)>;

/// Members that have not come for their assignment in this generation.
#[derive(Clone, Debug, Default)]
pub(super) struct Unsynced {
    pub(super) members: BTreeSet<Arc<str>>,
    /// When they are removed; `None` once there is nobody to remove.
    pub(super) ends: Option<Timestamp>,
}

/// A rebalance that is under way, for the event that it will leave.
#[derive(Clone, Debug)]
pub(super) struct Story {
    pub(super) why: Why,
    pub(super) began: Now,
    /// When the join phase ended.
    pub(super) joined: Option<Timestamp>,
    /// Who owned what in the last stable generation, behind what had lost its owner before.
    pub(super) owned: Owned,
    /// What `owned` takes: members that leave or are assigned something else do not give it back before the story ends.
    pub(super) owned_bytes: usize,
}

/// Why a rebalance begins, and because of whom.
#[derive(Clone, Debug)]
pub(super) struct Why {
    pub(super) cause: Cause,
    pub(super) who: Option<Culprit>,
    /// How many members there were when it happened.
    pub(super) members_before: usize,
}

impl Story {
    /// A static member goes on under another id; what it owned it still owns.
    pub(super) fn rename(&mut self, old: &Arc<str>, id: &Arc<str>) {
        rename(&mut self.owned, old, id);
    }
}

impl Stable {
    /// As [`Story::rename`].
    pub(super) fn rename(&mut self, old: &Arc<str>, id: &Arc<str>) {
        rename(&mut self.lost, old, id);
    }
}

fn rename(owned: &mut [(Arc<str>, Bytes)], old: &Arc<str>, id: &Arc<str>) {
    // Ids are shared, so that a glance is enough: all members may be restarted at once.
    for (owner, _) in owned.iter_mut().filter(|(owner, _)| Arc::ptr_eq(owner, old)) {
        *owner = Arc::clone(id);
    }
}

impl Phase {
    pub(super) fn state(&self) -> GroupState {
        match self {
            Self::Empty => GroupState::Empty,
            Self::Preparing(_) => GroupState::PreparingRebalance,
            Self::Completing(_) => GroupState::CompletingRebalance,
            Self::Stable(_) => GroupState::Stable,
            Self::Dead => GroupState::Dead,
        }
    }

    /// What the owners take that are remembered for a story, under way or to come.
    pub(super) fn owned_bytes(&self) -> usize {
        match self {
            Self::Preparing(phase) => phase.story.owned_bytes,
            Self::Completing(phase) => phase.story.owned_bytes,
            Self::Stable(phase) => phase.lost_bytes,
            Self::Empty | Self::Dead => 0,
        }
    }

    /// Whether the member waits for an answer to a join or a sync, and so is alive.
    pub(super) fn is_parked(&self, member: &str) -> bool {
        match self {
            Self::Preparing(phase) => phase.joined.contains_key(member),
            Self::Completing(phase) => phase.syncing.contains_key(member),
            Self::Empty | Self::Stable(_) | Self::Dead => false,
        }
    }
}
