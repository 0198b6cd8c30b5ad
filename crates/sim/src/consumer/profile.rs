//! What a consumer is and stays.

use std::collections::BTreeSet;

/// What stays the same over a consumer's restarts.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The group that it belongs to.
    pub group: String,
    /// What it calls itself.
    pub client_id: String,
    /// The name that makes it a static member.
    pub instance_id: Option<String>,
    /// Speaks the first versions: no member id before the join, no rebalance timeout of its own.
    pub old: bool,
    /// Knows that a leader may be told not to assign (KIP-814).
    pub can_skip_assignment: bool,
    /// How long it may be silent.
    pub session_ms: u64,
    /// How long it may take to join again, and may not poll.
    pub rebalance_ms: u64,
    /// How often it heartbeats.
    pub heartbeat_ms: u64,
    /// How often it commits.
    pub commit_ms: u64,
    /// How long it waits for a reply, other than JoinGroup's.
    pub request_ms: u64,
    /// How long it waits before it tries again.
    pub backoff_ms: u64,
    /// How often it looks whether its topics have new partitions.
    pub metadata_ms: u64,
    /// What it reads.
    pub topics: BTreeSet<String>,
    /// How it can assign, the best first.
    pub protocols: Vec<String>,
    /// Says something new about itself at each join, as sticky assignors do.
    pub restless: bool,
    /// Gives its member id up when its generation is over, as older clients do.
    pub forgets_id: bool,
}

impl Profile {
    /// How long the broker gives it to join again.
    pub fn rebalance_timeout_ms(&self) -> u64 {
        if self.old { self.session_ms } else { self.rebalance_ms }
    }

    /// How long it waits for JoinGroup's reply.
    pub fn join_ms(&self) -> u64 {
        self.request_ms.max(self.rebalance_timeout_ms() + 5_000)
    }
}
