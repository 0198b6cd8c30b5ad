//! What a step of a shard has to work with, and what comes of it.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use coordination::error_code::ErrorCode;
use coordination::group::{Effects, Now, Shard, Ticket};
use coordination::ids::TopicId;
use coordination::reply::Reply;
use rail::Durable;

/// Why a shard could not be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotReady {
    /// It is being read back.
    Loading,
    /// It cannot be read back, or was just dropped.
    Gone,
}

impl NotReady {
    /// What clients are told.
    pub(crate) fn code(self) -> ErrorCode {
        match self {
            Self::Loading => ErrorCode::CoordinatorLoadInProgress,
            Self::Gone => ErrorCode::NotCoordinator,
        }
    }
}

/// What came of a step, and what to wait for before anybody hears of it.
#[derive(Debug)]
pub(crate) struct Stepped<T> {
    pub(crate) value: T,
    /// `None` when all that the shard knows is durable.
    pub(crate) until: Option<Durable>,
}

/// What a step has to work with.
pub(crate) struct Step<'a> {
    pub(crate) machine: &'a mut Shard,
    pub(crate) now: Now,
    pub(crate) effects: &'a mut Effects,
    pub(super) parked: &'a mut HashMap<u64, Parked>,
    pub(super) deleted: &'a mut Vec<DeletedTopic>,
}

impl Step<'_> {
    /// Parks a request under `ticket`: the machine answers it now or later.
    pub(crate) fn park(&mut self, ticket: Ticket, sender: oneshot::Sender<Reply>, refusal: Reply) {
        self.parked.insert(ticket.0, Parked { sender, refusal });
    }
}

/// A topic that groups have to forget.
#[derive(Clone, Debug)]
pub(super) struct DeletedTopic {
    pub(super) name: Arc<str>,
    pub(super) id: TopicId,
    /// The flush that tells of it, once there is one.
    pub(super) flush: Option<u64>,
}

/// A request that the machine has not answered.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) sender: oneshot::Sender<Reply>,
    /// What is answered when the shard is dropped, or the broker ends.
    pub(super) refusal: Reply,
}
