//! A consumer that keeps the rules of the real clients (Java's classic consumer and librdkafka).
//!
//! It finds its coordinator, joins (twice, when it is handed an id first), assigns if it leads, asks for its
//! assignment and its offsets, heartbeats, commits now and then and before it joins again, and goes back a step on
//! each error as the clients do. It is driven by a clock and by replies, and says what to do in [`Action`]s.

mod joining;
mod offsets;
mod profile;
mod setbacks;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coordination::error_code::ErrorCode;
use coordination::op;

use crate::consumer_protocol::Partition;
use crate::message::{Request, Response};
use crate::random::Random;

pub use profile::Profile;

/// What a consumer wants done.
#[derive(Debug)]
pub enum Action {
    /// Open a connection, closing the one that there was.
    Connect,
    /// Close the connection.
    Disconnect,
    /// Send on the connection.
    Send(Request),
}

/// Where a consumer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The process does not run.
    Down,
    /// There is no connection; the next is tried then.
    Unconnected(u64),
    /// A connection is being opened, for at most so long.
    Connecting(u64),
    /// It asks for its coordinator.
    Finding,
    /// It was told that there is none now, and asks again then.
    Unfound(u64),
    /// It joins then.
    Pausing(u64),
    /// It commits for the last time before it joins again.
    Committing,
    /// Its JoinGroup is under way.
    Joining,
    /// Its SyncGroup is under way.
    Syncing,
    /// It has its assignment.
    Stable,
    /// Its LeaveGroup is under way.
    Leaving,
    /// It gave up, as the real client does on this error.
    Stopped(ErrorCode),
}

/// What a consumer sees of the world.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// The time.
    pub now: u64,
    /// Chance.
    pub random: &'a mut Random,
    /// The topics and how many partitions each has.
    pub topics: &'a BTreeMap<String, i32>,
    /// What distinguishes the next commit from all others.
    pub commits: &'a mut u64,
}

/// One consumer.
#[derive(Debug)]
pub struct Consumer {
    /// What it is.
    pub profile: Profile,
    /// Where it stands.
    pub phase: Phase,
    /// Its member id, or empty.
    pub member_id: String,
    /// The generation that it is in, or -1.
    pub generation: i32,
    /// What it owns and how far it has read each; meaningless unless it is assigned.
    pub owned: BTreeMap<Partition, i64>,
    /// Whether it has an assignment that nothing has made doubtful.
    pub assigned: bool,
    /// The process gets no time before then: nothing is sent, nothing that arrives is seen.
    pub stalled_until: u64,
    leader: bool,
    protocol: String,
    positions_known: bool,
    wants_rejoin: bool,
    /// The application does not poll before then; heartbeats go on.
    busy: Option<(u64, u64)>,
    waiting: VecDeque<Waiting>,
    heartbeat_at: u64,
    commit_at: u64,
    metadata_at: u64,
    /// The partitions that the leader has dealt out.
    dealt: BTreeMap<String, i32>,
    /// What it said it reads when it last joined.
    joined_for: BTreeSet<String>,
}

#[derive(Debug)]
struct Waiting {
    what: What,
    until: u64,
    generation: i32,
    member_id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    FindCoordinator,
    Join,
    Sync,
    Heartbeat,
    Leave,
    Commit,
    Fetch,
}

impl Consumer {
    /// A consumer that does not run yet.
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            phase: Phase::Down,
            member_id: String::new(),
            generation: -1,
            owned: BTreeMap::new(),
            assigned: false,
            stalled_until: 0,
            leader: false,
            protocol: String::new(),
            positions_known: false,
            wants_rejoin: false,
            busy: None,
            waiting: VecDeque::new(),
            heartbeat_at: 0,
            commit_at: 0,
            metadata_at: 0,
            dealt: BTreeMap::new(),
            joined_for: BTreeSet::new(),
        }
    }

    /// Whether the process runs and wants to be in the group.
    pub fn lives(&self) -> bool {
        !matches!(self.phase, Phase::Down | Phase::Stopped(_) | Phase::Leaving)
    }

    /// Whether it has its assignment and nothing has told it to join again.
    pub fn is_at_rest(&self) -> bool {
        self.phase == Phase::Stable && self.assigned && self.positions_known && !self.wants_rejoin
    }

    /// Starts the process.
    pub fn start(&mut self, now: u64) {
        *self = Self::new(self.profile.clone());
        self.phase = Phase::Unconnected(now);
    }

    /// Ends the process without a word.
    pub fn crash(&mut self) {
        *self = Self::new(self.profile.clone());
    }

    /// Leaves in good order: the last commit, then LeaveGroup unless the member is static.
    pub fn leave(&mut self, around: &mut Surroundings<'_>, actions: &mut Vec<Action>) {
        if !self.connected() || self.member_id.is_empty() {
            self.crash();
            actions.push(Action::Disconnect);
            return;
        }
        if self.assigned && self.positions_known && !self.owned.is_empty() {
            self.send_commit(around, actions);
        }
        self.phase = Phase::Leaving;
        if self.profile.instance_id.is_none() {
            self.send_leave(around.now, "the consumer is being closed", actions);
        } else if self.waiting.is_empty() {
            self.crash();
            actions.push(Action::Disconnect);
        }
    }

    /// The application is busy from now until then and does not poll.
    pub fn be_busy(&mut self, now: u64, until: u64) {
        self.busy = Some((now, until));
    }

    /// Reads other topics from now on.
    pub fn subscribe(&mut self, topics: BTreeSet<String>) {
        self.profile.topics = topics;
        if self.assigned {
            self.wants_rejoin = true;
        }
    }

    /// Moves back in what it owns, as an application that wants to read something again.
    pub fn seek_back(&mut self, by: i64) {
        for position in self.owned.values_mut() {
            *position = (*position - by).max(0);
        }
    }

    /// The application has finished what kept it busy.
    pub fn be_free(&mut self, now: u64) {
        if let Phase::Pausing(at) = &mut self.phase {
            *at = now.min(*at);
        }
        if let Some((_, until)) = &mut self.busy {
            *until = now.min(*until);
        }
    }

    /// When [`Self::handle_time`] has something to do.
    pub fn next_wake(&self) -> Option<u64> {
        let own = match self.phase {
            Phase::Down | Phase::Stopped(_) => return None,
            Phase::Unconnected(at) | Phase::Connecting(at) | Phase::Unfound(at) | Phase::Pausing(at) => {
                Some(at)
            }
            Phase::Stable => {
                let rejoin = self.wants_rejoin.then(|| self.busy.map_or(0, |(_, until)| until));
                let commit =
                    if self.busy.is_some() { None } else { Some(self.commit_at.min(self.metadata_at)) };
                [rejoin, commit, Some(self.heartbeat_at), self.busy.map(|busy| self.busy_ends(busy))]
                    .into_iter()
                    .flatten()
                    .min()
            }
            Phase::Committing | Phase::Syncing => Some(self.heartbeat_at),
            Phase::Finding | Phase::Joining | Phase::Leaving => None,
        };
        let patience = self.waiting.iter().map(|it| it.until).min();
        let at = [own, patience].into_iter().flatten().min()?;
        Some(at.max(self.stalled_until))
    }

    /// Does what is due.
    pub fn handle_time(&mut self, around: &mut Surroundings<'_>, actions: &mut Vec<Action>) {
        let now = around.now;
        if self.waiting.iter().any(|it| it.until <= now) {
            self.lose_coordinator(now, actions);
            return;
        }
        match self.phase {
            Phase::Down | Phase::Stopped(_) | Phase::Finding | Phase::Joining | Phase::Leaving => {}
            Phase::Unconnected(at) if at <= now => {
                self.phase = Phase::Connecting(now + self.profile.request_ms);
                actions.push(Action::Connect);
            }
            Phase::Connecting(until) if until <= now => self.lose_coordinator(now, actions),
            Phase::Unfound(at) if at <= now => self.find(now, actions),
            Phase::Pausing(at) if at <= now => self.join(around, actions),
            Phase::Unconnected(_) | Phase::Connecting(_) | Phase::Unfound(_) | Phase::Pausing(_) => {}
            Phase::Committing | Phase::Syncing => self.heartbeat_if_due(now, actions),
            Phase::Stable => {
                self.heartbeat_if_due(now, actions);
                self.poll(around, actions);
            }
        }
    }

    /// The connection is open.
    pub fn handle_connected(&mut self, now: u64, actions: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Connecting(_)) {
            self.find(now, actions);
        }
    }

    /// The connection is gone.
    pub fn handle_disconnected(&mut self, now: u64, actions: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::Down | Phase::Stopped(_)) {
            self.lose_coordinator(now, actions);
        }
    }

    /// A reply has arrived.
    pub fn handle_response(
        &mut self,
        around: &mut Surroundings<'_>,
        response: Response,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        if matches!(self.phase, Phase::Down | Phase::Stopped(_)) {
            return Ok(());
        }
        let Some(waiting) = self.waiting.pop_front() else {
            return Err(format!("a reply to nothing: {}", response.summary()));
        };
        // What was asked as another member, or in another generation, says nothing about this one.
        let current = waiting.generation == self.generation && waiting.member_id == self.member_id;
        match (waiting.what, response) {
            (What::FindCoordinator, Response::Coordinator(error)) => match (self.phase, error) {
                (Phase::Finding, None) => self.found(around, actions),
                (Phase::Finding, Some(ErrorCode::CoordinatorNotAvailable)) => {
                    self.phase = Phase::Unfound(around.now + self.profile.backoff_ms);
                }
                (Phase::Finding, Some(error)) => self.member_error(around.now, error, actions),
                _ => {}
            },
            (What::Join, Response::Join(reply)) => {
                if self.phase == Phase::Joining {
                    return self.joined(around, reply, actions);
                }
            }
            (What::Sync, Response::Sync(reply)) => {
                if self.phase == Phase::Syncing && current {
                    return self.synced(around, reply, actions);
                }
            }
            (What::Heartbeat, Response::Heartbeat(reply)) => {
                if let (Some(error), true) = (reply.error, current) {
                    let doubtful = !matches!(self.phase, Phase::Joining | Phase::Leaving);
                    if error != ErrorCode::RebalanceInProgress && doubtful {
                        self.member_error(around.now, error, actions);
                    } else if self.phase == Phase::Stable {
                        self.wants_rejoin = true;
                    }
                }
            }
            (What::Commit, Response::Commit(error)) => self.committed(around, error, current, actions),
            (What::Fetch, Response::Fetch(found)) => {
                if self.phase == Phase::Stable && current {
                    self.fetched(around, found, actions);
                }
            }
            (What::Leave, Response::Leave(_)) => {
                if self.phase == Phase::Leaving {
                    self.crash();
                    actions.push(Action::Disconnect);
                }
            }
            (what, response) => return Err(format!("{what:?} was answered with {}", response.summary())),
        }
        Ok(())
    }

    fn connected(&self) -> bool {
        !matches!(self.phase, Phase::Down | Phase::Stopped(_) | Phase::Unconnected(_) | Phase::Connecting(_))
    }

    /// When the busy application has either finished or been thrown out by its own client.
    fn busy_ends(&self, (since, until): (u64, u64)) -> u64 {
        until.min(since + self.profile.rebalance_ms)
    }

    fn find(&mut self, now: u64, actions: &mut Vec<Action>) {
        self.phase = Phase::Finding;
        self.send(now, What::FindCoordinator, Request::FindCoordinator, actions);
    }

    fn found(&mut self, around: &mut Surroundings<'_>, actions: &mut Vec<Action>) {
        if self.assigned {
            self.phase = Phase::Stable;
            if !self.positions_known {
                self.fetch(around.now, actions);
            }
        } else {
            self.join(around, actions);
        }
    }

    /// What a client does between two polls of its application.
    fn poll(&mut self, around: &mut Surroundings<'_>, actions: &mut Vec<Action>) {
        let now = around.now;
        if let Some((since, until)) = self.busy {
            if until <= now {
                self.busy = None;
            } else if since + self.profile.rebalance_ms <= now {
                // `max.poll.interval.ms` has passed: the client itself leaves, and joins when the application is back.
                if self.profile.instance_id.is_none() {
                    self.send_leave(now, "consumer poll timeout has expired", actions);
                }
                self.forget_membership();
                self.member_id.clear();
                self.busy = None;
                self.phase = Phase::Pausing(until);
                return;
            } else {
                return;
            }
        }
        if self.metadata_at <= now {
            self.metadata_at = now + self.profile.metadata_ms;
            if self.leader && self.dealt != self.wanted(around.topics) {
                self.wants_rejoin = true;
            }
        }
        if self.wants_rejoin {
            if self.positions_known && !self.owned.is_empty() {
                self.phase = Phase::Committing;
                self.send_commit(around, actions);
            } else {
                self.join(around, actions);
            }
        } else if self.commit_at <= now {
            self.commit_at = now + self.profile.commit_ms;
            if self.positions_known && !self.owned.is_empty() {
                self.send_commit(around, actions);
            }
        }
    }

    fn wanted(&self, topics: &BTreeMap<String, i32>) -> BTreeMap<String, i32> {
        topics
            .iter()
            .filter(|(topic, _)| self.dealt.contains_key(*topic))
            .map(|(k, v)| (k.clone(), *v))
            .collect()
    }

    fn heartbeat_if_due(&mut self, now: u64, actions: &mut Vec<Action>) {
        if self.heartbeat_at > now {
            return;
        }
        self.heartbeat_at = now + self.profile.heartbeat_ms;
        if self.waiting.iter().any(|it| it.what == What::Heartbeat) {
            return;
        }
        let request = op::Heartbeat {
            group: self.profile.group.clone(),
            generation: self.generation,
            member_id: self.member_id.clone(),
            instance_id: self.profile.instance_id.clone(),
        };
        self.send(now, What::Heartbeat, Request::Heartbeat(request), actions);
    }

    fn send_leave(&mut self, now: u64, reason: &str, actions: &mut Vec<Action>) {
        let member = op::LeavingMember {
            member_id: self.member_id.clone(),
            instance_id: self.profile.instance_id.clone(),
            reason: Some(reason.to_owned()),
        };
        let request = op::LeaveGroup { group: self.profile.group.clone(), members: vec![member] };
        self.send(now, What::Leave, Request::Leave(request), actions);
    }

    fn send(&mut self, now: u64, what: What, request: Request, actions: &mut Vec<Action>) {
        let patience = if what == What::Join { self.profile.join_ms() } else { self.profile.request_ms };
        self.waiting.push_back(Waiting {
            what,
            until: now + patience,
            generation: self.generation,
            member_id: self.member_id.clone(),
        });
        actions.push(Action::Send(request));
    }
}

fn millis(millis: u64) -> i32 {
    i32::try_from(millis).expect("timeouts are far below the largest number")
}
