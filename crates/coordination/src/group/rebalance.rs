//! A rebalance: how it begins, how its join phase ends, and what is remembered of it.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error_code::ErrorCode;
use crate::reply::{self, Reply};

use super::deadlines::Due;
use super::effects::Ticket;
use super::event::{Event, Outcome};
use super::machine::{Group, Step, owned_bytes};
use super::member::Member;
use super::phase::{Completing, Initial, Phase, Preparing, Story, Unsynced, Why};
use super::record::GroupRecord;

/// How often a join phase looks again that only silent static members keep from ending, should their own rebalance
/// timeouts be shorter.
const STATIC_WAIT_MIN: Duration = Duration::from_secs(1);

/// What may end a join phase once everybody has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A member joined or left. The first join phase of an empty group still waits for others.
    Request,
    /// A session expired. As in Kafka this also ends a first join phase.
    Expiry,
}

impl Group {
    /// Begins a rebalance, or looks whether the one under way can go on now that somebody is gone.
    pub(super) fn rebalance(&mut self, step: &mut Step<'_>, why: Why, by: By) {
        match self.phase {
            Phase::Completing(_) | Phase::Stable(_) => self.prepare(step, why, None),
            Phase::Preparing(_) => self.end_join_phase_if_all_joined(step, by),
            Phase::Empty | Phase::Dead => {}
        }
    }

    /// Lets a member's join wait for the end of the join phase, and begins one if need be.
    pub(super) fn park_join(&mut self, step: &mut Step<'_>, id: Arc<str>, ticket: Ticket, why: Why) {
        match &mut self.phase {
            Phase::Preparing(phase) => {
                if let Some(before) = phase.joined.insert(Arc::clone(&id), ticket) {
                    step.reply(before, superseded_join(&id));
                }
                self.end_join_phase_if_all_joined(step, By::Request);
            }
            Phase::Empty | Phase::Completing(_) | Phase::Stable(_) => {
                self.prepare(step, why, Some((id, ticket)));
            }
            Phase::Dead => step.reply(ticket, join_refusal(&id, ErrorCode::CoordinatorNotAvailable)),
        }
    }

    fn prepare(&mut self, step: &mut Step<'_>, why: Why, first: Option<(Arc<str>, Ticket)>) {
        let is_initial = matches!(self.phase, Phase::Empty);
        let owned = match mem::replace(&mut self.phase, Phase::Empty) {
            Phase::Stable(mut phase) => {
                self.cancel_sync_deadline(step, &phase.unsynced);
                let owned = self.members.iter();
                phase.lost.extend(owned.map(|(id, member)| (Arc::clone(id), member.assignment().clone())));
                phase.lost
            }
            Phase::Completing(mut phase) => {
                self.cancel_sync_deadline(step, &phase.unsynced);
                self.abort_sync(step, &mut phase.syncing);
                let owned = mem::take(&mut phase.story.owned);
                self.leave_event(step, &phase.story, Outcome::Overtaken, why.members_before);
                owned
            }
            Phase::Empty | Phase::Preparing(_) | Phase::Dead => Vec::new(),
        };
        let (initial, wait) =
            if is_initial { self.initial_wait(step) } else { (None, self.members.rebalance_timeout()) };
        let ends = step.now.at.after(wait);
        step.deadlines.set(ends, &self.name, Due::JoinPhase);
        let owned_bytes = owned_bytes(&owned);
        let story = Story { why, began: step.now, joined: None, owned, owned_bytes };
        let joined = first.into_iter().collect();
        self.enter(step, Phase::Preparing(Box::new(Preparing { joined, ends, initial, story })));
        if is_initial {
            if wait.is_zero() {
                self.end_join_phase(step);
            }
        } else {
            self.end_join_phase_if_all_joined(step, By::Request);
        }
    }

    /// How long a first join phase waits for others, at first.
    fn initial_wait(&self, step: &Step<'_>) -> (Option<Initial>, Duration) {
        let delay = step.settings.initial_rebalance_delay;
        let quiet = step.settings.initial_rebalance_quiet;
        if quiet.is_zero() {
            let budget = self.members.rebalance_timeout().saturating_sub(delay);
            (Some(Initial::Delayed { wait: delay, budget, newcomers: false }), delay)
        } else {
            let wait = quiet.min(delay);
            (Some(Initial::Quiet { latest: step.now.at.after(delay) }), wait)
        }
    }

    /// Somebody arrived in a first join phase, or is on its way, or has turned away.
    pub(super) fn note_arrival(&mut self, step: &mut Step<'_>, is_member: bool) {
        let Phase::Preparing(phase) = &mut self.phase else { return };
        match &mut phase.initial {
            Some(Initial::Quiet { latest }) => {
                step.deadlines.cancel(phase.ends, &self.name, Due::JoinPhase);
                phase.ends = step.now.at.after(step.settings.initial_rebalance_quiet).min(*latest);
                step.deadlines.set(phase.ends, &self.name, Due::JoinPhase);
            }
            Some(Initial::Delayed { newcomers, .. }) => *newcomers |= is_member,
            None => {}
        }
    }

    /// The time of the join phase is over.
    pub(super) fn handle_join_deadline(&mut self, step: &mut Step<'_>) {
        let Phase::Preparing(phase) = &mut self.phase else { return };
        let again = match &mut phase.initial {
            // An id that was given out a moment ago is about to join; without it there would be two rebalances.
            Some(Initial::Quiet { latest }) if !self.pending.is_empty() && step.now.at < *latest => {
                Some(*latest)
            }
            Some(Initial::Delayed { wait, budget, newcomers }) if *newcomers && !budget.is_zero() => {
                *newcomers = false;
                let next = step.settings.initial_rebalance_delay.min(*budget);
                *budget = budget.saturating_sub(*wait);
                *wait = next;
                Some(step.now.at.after(next))
            }
            Some(_) | None => None,
        };
        match again {
            Some(ends) => {
                phase.ends = ends;
                step.deadlines.set(ends, &self.name, Due::JoinPhase);
            }
            None => self.end_join_phase(step),
        }
    }

    pub(super) fn end_join_phase_if_all_joined(&mut self, step: &mut Step<'_>, by: By) {
        let Phase::Preparing(phase) = &self.phase else { return };
        let all_joined = phase.joined.len() == self.members.len() && self.pending.is_empty();
        if all_joined && (by == By::Expiry || phase.initial.is_none()) {
            self.end_join_phase(step);
        }
    }

    /// Begins the next generation with those who have joined, and answers them.
    fn end_join_phase(&mut self, step: &mut Step<'_>) {
        let Phase::Preparing(phase) = &mut self.phase else { return };
        step.deadlines.cancel(phase.ends, &self.name, Due::JoinPhase);
        if phase.joined.len() < self.members.len() {
            // Static members that have not joined again stay: their names are theirs until the session is over.
            let absent = self
                .members
                .iter()
                .filter(|(id, member)| member.instance.is_none() && !phase.joined.contains_key(*id));
            let absent: Vec<Arc<str>> = absent.map(|(id, _)| Arc::clone(id)).collect();
            for id in absent {
                self.members.remove(&id, &self.name, step.deadlines);
            }
        }
        if phase.joined.is_empty() && !self.members.is_empty() {
            phase.ends = step.now.at.after(self.members.rebalance_timeout().max(STATIC_WAIT_MIN));
            step.deadlines.set(phase.ends, &self.name, Due::JoinPhase);
            return;
        }
        self.generation = self.generation.max(self.highest_generation).saturating_add(1);
        let Phase::Preparing(phase) = mem::replace(&mut self.phase, Phase::Empty) else { return };
        let Preparing { joined, mut story, .. } = *phase;
        story.joined = Some(step.now.at);
        if self.members.is_empty() {
            self.protocol = None;
            self.leader = None;
            self.note_subscriptions();
            self.enter(step, Phase::Empty);
            self.store(step);
            self.leave_event(step, &story, Outcome::Empty, 0);
        } else {
            self.begin_generation(step, joined, story);
        }
    }

    fn begin_generation(&mut self, step: &mut Step<'_>, joined: BTreeMap<Arc<str>, Ticket>, story: Story) {
        self.protocol = self.members.vote();
        self.note_subscriptions();
        if !self.leader.as_ref().is_some_and(|leader| joined.contains_key(leader)) {
            // The one that has been in the group for longest; Kafka takes any.
            let members =
                joined.keys().filter_map(|id| self.members.get(id).map(|member| (member.number, id)));
            self.leader = members.min().map(|(_, id)| Arc::clone(id));
        }
        // A generation that a client has seen is never given out again, even if a crash takes the group back.
        self.highest_generation = self.generation;
        self.store_identity(step);
        for (id, ticket) in joined {
            let is_leader = self.leader.as_ref() == Some(&id);
            let reply = self.joined(&id, if is_leader { self.joined_members() } else { Vec::new() });
            step.reply(ticket, reply);
        }
        self.members.renew_all(step.now.at, &self.name, step.deadlines);
        let ends = step.now.at.after(self.members.rebalance_timeout());
        step.deadlines.set(ends, &self.name, Due::SyncPhase);
        let unsynced = Unsynced {
            members: self.members.iter().map(|(id, _)| Arc::clone(id)).collect(),
            ends: Some(ends),
        };
        self.enter(
            step,
            Phase::Completing(Box::new(Completing { syncing: BTreeMap::new(), unsynced, story })),
        );
    }

    /// The rebalance was overtaken before the leader brought the assignment: who waits for it joins again.
    fn abort_sync(&mut self, step: &mut Step<'_>, syncing: &mut BTreeMap<Arc<str>, Ticket>) {
        self.members.assign(|_| Bytes::new());
        for (id, ticket) in mem::take(syncing) {
            step.reply(ticket, sync_refusal(ErrorCode::RebalanceInProgress));
            self.members.renew(&id, step.now.at);
        }
    }

    pub(super) fn cancel_sync_deadline(&self, step: &mut Step<'_>, unsynced: &Unsynced) {
        if let Some(ends) = unsynced.ends {
            step.deadlines.cancel(ends, &self.name, Due::SyncPhase);
        }
    }

    /// The generation as one member sees it now.
    pub(super) fn joined(&self, id: &str, members: Vec<reply::JoinedMember>) -> Reply {
        Reply::JoinGroup(reply::JoinGroup {
            member_id: id.to_owned(),
            result: Ok(Box::new(reply::Joined {
                generation: self.generation,
                protocol_type: self.protocol_type.as_deref().map(str::to_owned),
                protocol: self.protocol.as_deref().map(str::to_owned),
                leader: self.leader.as_deref().unwrap_or_default().to_owned(),
                members,
                skip_assignment: false,
            })),
        })
    }

    /// All members, as the leader sees them.
    pub(super) fn joined_members(&self) -> Vec<reply::JoinedMember> {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let member = |(id, member): (&Arc<str>, &Member)| reply::JoinedMember {
            member_id: id.to_string(),
            instance_id: member.instance.as_deref().map(str::to_owned),
            metadata: member.metadata(protocol).cloned().unwrap_or_default(),
        };
        self.members.iter().map(member).collect()
    }

    /// Counts the partitions that have moved, and remembers who had those that nobody has now, if there is room for it
    /// beside the new assignment.
    fn note_moves(&mut self, step: &Step<'_>, story: &Story) -> Option<usize> {
        let (moved, unowned) = self.moves(&story.owned)?;
        let room = step.room.bytes.saturating_add(story.owned_bytes);
        let bytes = owned_bytes(&unowned);
        if let Phase::Stable(phase) = &mut self.phase
            && bytes <= room.saturating_sub(self.members.assigned_bytes())
        {
            (phase.lost, phase.lost_bytes) = (unowned, bytes);
        }
        Some(moved)
    }

    /// Writes down a rebalance that has ended.
    pub(super) fn leave_event(
        &mut self,
        step: &mut Step<'_>,
        story: &Story,
        outcome: Outcome,
        members_after: usize,
    ) {
        let Some(identity) = self.identity else { return };
        let joined = story.joined.unwrap_or(step.now.at);
        let event = Box::new(Event {
            number: self.events.next_number(),
            began_ms: story.began.wall_ms,
            cause: story.why.cause.clone(),
            who: story.why.who.clone(),
            outcome,
            generation: self.generation,
            members_before: story.why.members_before,
            members_after,
            join_ms: millis(joined.since(story.began.at)),
            sync_ms: millis(step.now.at.since(joined)),
            partitions_moved: match outcome {
                Outcome::Stable => self.note_moves(step, story),
                Outcome::Empty | Outcome::Overtaken => None,
            },
        });
        step.effects.records.push(GroupRecord::Event {
            id: identity.id,
            slot: event.slot(),
            event: Some(event.clone()),
        });
        let bytes = self.events.bytes();
        self.events.push(event);
        if self.events.bytes().saturating_sub(bytes) > step.room.bytes {
            // Members may rebalance as they like; where there is no room for one story more, it is told instead of others.
            let forgotten = self.events.shrink_to(bytes).into_iter();
            let forgotten = forgotten.map(|slot| GroupRecord::Event { id: identity.id, slot, event: None });
            step.effects.records.extend(forgotten);
        }
    }
}

/// The member has sent the same request again, on another connection: the one before is not waited for any more.
///
/// Kafka leaves it unanswered for ever. Here every request is answered; this tells whoever might still listen to try
/// again.
fn superseded_join(id: &str) -> Reply {
    join_refusal(id, ErrorCode::RebalanceInProgress)
}

pub(super) fn join_refusal(member_id: &str, code: ErrorCode) -> Reply {
    Reply::JoinGroup(reply::JoinGroup { member_id: member_id.to_owned(), result: Err(code) })
}

pub(super) fn sync_refusal(code: ErrorCode) -> Reply {
    Reply::SyncGroup(reply::SyncGroup { result: Err(code) })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
