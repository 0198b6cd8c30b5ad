//! What a machine is handed and what it hands out.

use crate::ids::GroupId;
use crate::reply::Reply;

use super::record::GroupRecord;

/// A reply still owed, numbered by the driver. Each one is answered exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What one step asks of the outside world.
///
/// The driver makes `records` durable, in their order and each in its own log; only then may it send `replies`.
#[derive(Debug, Default)]
#[must_use]
pub struct Effects {
    /// Facts that have to survive a restart.
    pub records: Vec<GroupRecord>,
    /// Answers to requests, some of them parked long ago.
    pub replies: Vec<(Ticket, Reply)>,
}

impl Effects {
    /// Empties both lists and keeps their memory.
    pub fn clear(&mut self) {
        self.records.clear();
        self.replies.clear();
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.replies.is_empty()
    }
}

/// Who sends a request, as far as groups remember it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller<'a> {
    /// What the client calls itself; empty where the request header has null.
    pub client_id: &'a str,
    /// The client's address as Kafka writes it: a slash and the address, `/127.0.0.1`.
    pub host: &'a str,
}

/// What a join may need that has to be unique. Handed in with every join, used or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minted {
    /// Random bits for the UUID in a new member's id.
    pub member: u128,
    /// The id of the group, should it be new.
    pub group: GroupId,
}

/// What the broker still has room for, beyond what its groups already use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// More groups.
    pub groups: usize,
    /// More members, of whichever groups.
    pub members: usize,
    /// More bytes of members, offsets and what belongs to them.
    pub bytes: usize,
}

impl Room {
    /// No limit.
    pub const UNLIMITED: Self = Self { groups: usize::MAX, members: usize::MAX, bytes: usize::MAX };
}

/// What the groups of a shard take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many groups there are.
    pub groups: usize,
    /// How many members they have.
    pub members: usize,
    /// About how much memory all of it takes, in bytes.
    pub bytes: usize,
}

impl Usage {
    pub(super) fn add(&mut self, more: Self) {
        self.groups += more.groups;
        self.members += more.members;
        self.bytes += more.bytes;
    }

    pub(super) fn take(&mut self, less: Self) {
        self.groups -= less.groups;
        self.members -= less.members;
        self.bytes -= less.bytes;
    }

    pub(super) fn change(&mut self, before: Self, after: Self) {
        self.add(after);
        self.take(before);
    }
}
