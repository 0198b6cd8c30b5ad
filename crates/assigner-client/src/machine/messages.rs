//! What goes into the machine and what comes out.

use std::time::Duration;

use super::leaving::Outcome;
use super::link::LinkId;
use crate::partition::Partition;

/// A handoff as the assigner names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handoff {
    pub(crate) id: String,
    pub(crate) epoch: u64,
}

/// What the assigner says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Assignment { assigned: Vec<(Partition, u64)>, unassigned: Vec<Partition>, snapshot: Option<Snapshot> },
    Warm { partition: Partition, handoff: Handoff, current_owner: String },
    Release { partition: Partition, handoff: Handoff, new_owner: String },
    Cancel { partition: Partition, id: String },
}

/// What the first message says of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) lease_ttl: Duration,
    pub(crate) keep_alive_interval: Duration,
}

/// A call of the handler. Of one partition there is never more than one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Warm { handoff: Handoff, current_owner: String },
    Assign { epoch: u64 },
    Release,
    Cancel,
    Revoke,
}

/// Why a handler that warms up is to come to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmEnd {
    /// The partition goes elsewhere.
    Cancelled,
    /// Its owner is gone, and this consumer owns it now: what it has must be enough.
    Assigned,
}

/// Names a request whose answer is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(super) u64);

/// What is asked of the assigner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    KeepAlive,
    Ready { partition: Partition, handoff: Handoff },
    Released { partition: Partition, handoff: Handoff },
    Progress { partition: Partition, handoff: Handoff, done: u64, total: u64 },
    Deregister { has_stopped: bool },
}

/// What the assigner answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Alive { lease_ttl: Duration },
    WaitForDrain,
    ShutDownNow,
}

/// Why there is no answer, or no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
}

/// What can be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// It may work later, or elsewhere.
    Later,
    /// What was said is void.
    Refused,
    /// We are not registered.
    Unregistered,
    /// Another process has taken our name.
    Fenced,
    /// It will not work, as long as this process asks the way it does.
    Hopeless,
}

/// Why nothing is ours any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The assigner was not heard of for too long.
    Unheard,
    /// It says that we are not registered.
    Unregistered,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Register at this endpoint, if it answers within this time. What comes of it is said with the same id.
    Connect { link: LinkId, endpoint: usize, within: Duration },
    /// Drop the connection.
    Disconnect,
    /// Ask this endpoint from now on, without registering there.
    Turn { endpoint: usize },
    /// Ask the assigner, by the present connection or the last one.
    Send { ticket: Ticket, request: Request, within: Duration },
    /// Call the handler.
    Call { partition: Partition, call: Call },
    /// Tell the handler that warms up to come to an end.
    EndWarm { partition: Partition, end: WarmEnd },
    /// From now on the partition is ours.
    Own { partition: Partition, epoch: u64 },
    /// The partition is not ours any more.
    Disown { partition: Partition },
    /// What is ours is so until then; it begins with nothing if `is_new`.
    Until { stop_at: Duration, is_new: bool },
    /// Nothing is ours any more.
    Stopped(Loss),
    /// Another process has taken our name.
    Fenced,
    /// Everything has come to its end.
    End(Outcome),
}
