//! Why a partition moves or stays, for those who ask.

use std::fmt;

use super::desired::Because;
use super::names::ConsumerName;

/// What a plan does about one partition, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What is done.
    pub action: Action,
    /// Why.
    pub cause: Cause,
    /// Why the consumer that should own the partition was chosen, if there is one.
    pub choice: Option<Because>,
}

/// What a plan does about one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Stays,
    /// It is assigned directly.
    Assigned {
        /// The new owner.
        to: ConsumerName,
    },
    /// A handoff begins.
    HandoffBegins {
        /// The target.
        to: ConsumerName,
    },
    /// A handoff is given up, and another begins.
    HandoffReplaced {
        /// The target that there was.
        former: ConsumerName,
        /// The target.
        to: ConsumerName,
    },
    /// A handoff is under way.
    HandoffWaits {
        /// The target.
        to: ConsumerName,
    },
    /// A handoff ends with the target as the owner.
    HandoffCompletes {
        /// The new owner.
        to: ConsumerName,
    },
    /// A handoff is given up.
    HandoffCancelled {
        /// The target that there was.
        former: ConsumerName,
    },
    /// Nobody owns it any more.
    Unassigned,
}

/// Why a plan does what it does about a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The owner is who it should be.
    Balanced,
    /// Another has less to do.
    Balance,
    /// Nobody owned it.
    Unowned,
    /// The owner is gone.
    OwnerDied,
    /// The owner is about to leave.
    OwnerDrains,
    /// The owner no longer works on the topic.
    OwnerUnsubscribed,
    /// The target is gone, was started anew or takes nothing any more.
    TargetLost,
    /// Another target is better by now, or none.
    NewerPlan,
    /// The handoff does not fit the assignment.
    OwnerChanged,
    /// The target is warming up.
    TargetWarms,
    /// The old owner has been told to let go.
    OwnerReleases,
    /// The target took too long to warm up.
    WarmingTimedOut,
    /// The old owner took too long to let go.
    ReleaseTimedOut,
    /// The last handoff was given up a short while ago.
    RetriesLater,
    /// Nobody who takes partitions works on the topic.
    NobodyTakesIt,
    /// All consumers are about to leave.
    NobodyReady,
    /// There are no consumers.
    NobodyRegistered,
    /// There is no such partition any more.
    PartitionGone,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Balanced => "the load is balanced",
            Self::Balance => "another has less to do",
            Self::Unowned => "nobody owned it",
            Self::OwnerDied => "its owner is gone",
            Self::OwnerDrains => "its owner drains",
            Self::OwnerUnsubscribed => "its owner no longer works on the topic",
            Self::TargetLost => "the target is gone, new or draining",
            Self::NewerPlan => "a newer plan wants it elsewhere",
            Self::OwnerChanged => "its owner has changed",
            Self::TargetWarms => "the target warms up",
            Self::OwnerReleases => "the old owner has been told to let go",
            Self::WarmingTimedOut => "the target took too long to warm up",
            Self::ReleaseTimedOut => "the old owner took too long to let go",
            Self::RetriesLater => "the last handoff was given up a short while ago",
            Self::NobodyTakesIt => "nobody who takes partitions works on the topic",
            Self::NobodyReady => "no consumer is ready",
            Self::NobodyRegistered => "no consumer is registered",
            Self::PartitionGone => "there is no such partition any more",
        })
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Owns => "it owns the partition and is not too full",
            Self::UnderWay => "a handoff to it is under way",
            Self::Warm => "it says it is warm",
            Self::Rack => "it is in the same rack",
            Self::LeastLoaded => "it has the least to do",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = self.cause;
        let to = match &self.action {
            Action::Stays => return write!(f, "stays: {cause}"),
            Action::Unassigned => return write!(f, "is unassigned: {cause}"),
            Action::HandoffCancelled { former } => {
                return write!(f, "handoff to {former} is given up: {cause}");
            }
            Action::HandoffWaits { to } => return write!(f, "handoff to {to} waits: {cause}"),
            Action::HandoffCompletes { to } => return write!(f, "handoff to {to} completes: {cause}"),
            Action::Assigned { to } => {
                write!(f, "is assigned to {to}: {cause}")?;
                to
            }
            Action::HandoffBegins { to } => {
                write!(f, "handoff to {to} begins: {cause}")?;
                to
            }
            Action::HandoffReplaced { former, to } => {
                write!(f, "handoff to {to} replaces the one to {former}: {cause}")?;
                to
            }
        };
        match self.choice {
            Some(because) => write!(f, "; {to} because {because}"),
            None => Ok(()),
        }
    }
}
