//! What the leader writes next.

use std::collections::BTreeMap;

use super::desired::{Desired, desired};
use super::key::Key;
use super::names::{ConsumerName, Epoch, HandoffId, TopicPartition};
use super::reason::{Action, Cause, Reason};
use super::state::{Guard, State, Step, Stored, Write};
use super::value::{Assignment, Consumer, ConsumerState, Entry, Handoff, Mode, Phase};

/// What decides how partitions move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The mode of handoffs that begin from now on.
    pub mode: Mode,
    /// How long a target may warm up without any progress.
    pub warming_ms: u64,
    /// How long an owner may take to let go.
    pub release_ms: u64,
    /// How long a partition stays where it is after a handoff was given up for its time.
    pub retry_ms: u64,
    /// What new consumers get at most; `None` treats all alike.
    pub newcomers: Option<Newcomers>,
}

/// What consumers get at most while they are new, so that a bad version does not get all the work at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newcomers {
    /// How many partitions one gets. If all consumers are new and have as many, they get the rest all the same.
    pub partitions_max: usize,
    /// For how long it is new.
    pub lasts_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Exclusive,
            warming_ms: 300_000,
            release_ms: 300_000,
            retry_ms: 30_000,
            newcomers: None,
        }
    }
}

/// What to write, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Plan {
    /// The changes, at most one step for each partition. No step needs another.
    pub steps: Vec<Step>,
    /// For each partition what is done about it, and why.
    pub reasons: BTreeMap<TopicPartition, Reason>,
    /// Who should own what in the end.
    pub desired: Desired,
}

/// Decides for each partition by itself, so that a handoff that does not end holds up nothing but its own partition.
/// `mint` is asked for the id of each handoff that begins.
pub fn plan(state: &State, settings: &Settings, now_ms: u64, mint: &mut dyn FnMut() -> HandoffId) -> Plan {
    let desired = desired(state, settings, now_ms);
    let is_any_ready = state.consumers.values().any(|stored| stored.value.state == ConsumerState::Ready);
    let mut planner = Planner { state, settings, now_ms, mint, is_any_ready };
    let mut plan = Plan::default();
    for place in state.partitions() {
        let choice = desired.choices.get(&place);
        let Decision { writes, guards, action, cause } =
            planner.decide(&place, choice.map(|choice| &choice.owner));
        if !writes.is_empty() {
            plan.steps.push(Step { writes, guards });
        }
        plan.reasons.insert(place, Reason { action, cause, choice: choice.map(|choice| choice.because) });
    }
    plan.desired = desired;
    plan
}

/// When to plan again if nothing changes: the time at which the next handoff has lasted too long or can be tried again.
pub fn next_deadline_ms(state: &State, settings: &Settings) -> Option<u64> {
    state.handoffs.values().map(|stored| stored.value.deadline_ms(settings)).min()
}

struct Planner<'a> {
    state: &'a State,
    settings: &'a Settings,
    now_ms: u64,
    mint: &'a mut dyn FnMut() -> HandoffId,
    is_any_ready: bool,
}

struct Decision {
    writes: Vec<Write>,
    guards: Vec<Guard>,
    action: Action,
    cause: Cause,
}

impl Decision {
    fn nothing(action: Action, cause: Cause) -> Self {
        Self { writes: Vec::new(), guards: Vec::new(), action, cause }
    }

    /// One write that rests on nothing but what it replaces.
    fn one(write: Write, action: Action, cause: Cause) -> Self {
        Self { writes: vec![write], guards: Vec::new(), action, cause }
    }
}

impl Planner<'_> {
    fn decide(&mut self, place: &TopicPartition, wanted: Option<&ConsumerName>) -> Decision {
        let state = self.state;
        let handoff = state.handoffs.get(place);
        let Some(assignment) = state.assignments.get(place) else {
            return self.assign_first(place, wanted);
        };
        let owner = &assignment.value.owner;
        if !state.has_partition(place) {
            return self.unassign(place, owner, Cause::PartitionGone);
        }
        if state.consumers.is_empty() {
            return self.unassign(place, owner, Cause::NobodyRegistered);
        }
        if !self.is_any_ready {
            return Decision::nothing(Action::Stays, Cause::NobodyReady);
        }
        let Some(living) = state.consumers.get(owner) else {
            return self.replace_owner(place, assignment, handoff, wanted);
        };
        match handoff {
            None => match wanted {
                None => Decision::nothing(Action::Stays, Cause::NobodyTakesIt),
                Some(wanted) if wanted == owner => Decision::nothing(Action::Stays, Cause::Balanced),
                Some(wanted) => self.begin(place, assignment, wanted, why_move(place, &living.value)),
            },
            Some(handoff) => match handoff.value.phase {
                Phase::Warming | Phase::Ready => self.follow(place, assignment, &handoff.value, wanted),
                Phase::Complete => self.follow_complete(place, owner, &handoff.value),
                Phase::Cancelled => {
                    let cause = why_move(place, &living.value);
                    self.follow_cancelled(place, assignment, &handoff.value, wanted, cause)
                }
            },
        }
    }

    fn assign_first(&self, place: &TopicPartition, wanted: Option<&ConsumerName>) -> Decision {
        let state = self.state;
        let mut writes = Vec::new();
        if state.handoffs.contains_key(place) {
            writes.push(state.delete(Key::Handoff(place.clone())));
        }
        let Some(wanted) = wanted else {
            let cause = if !state.has_partition(place) {
                Cause::PartitionGone
            } else if state.consumers.is_empty() {
                Cause::NobodyRegistered
            } else if self.is_any_ready {
                Cause::NobodyTakesIt
            } else {
                Cause::NobodyReady
            };
            return Decision { writes, guards: Vec::new(), action: Action::Unassigned, cause };
        };
        // There may have been owners before whose assignments were deleted. Epochs grow slower than revisions, so the
        // revision is beyond all of theirs.
        let epoch = Epoch(state.revision.max(1));
        let assignment = Assignment { owner: wanted.clone(), epoch };
        writes.push(state.put(Entry::Assignment(place.clone(), assignment)));
        let guards = vec![state.guard(Key::Consumer(wanted.clone()))];
        let action = Action::Assigned { to: wanted.clone() };
        Decision { writes, guards, action, cause: Cause::Unowned }
    }

    /// Of a partition that is gone, the assignment stays for as long as its owner: the topic may be made anew before the
    /// owner has heard of its end, and then no other must begin.
    fn unassign(&self, place: &TopicPartition, owner: &ConsumerName, cause: Cause) -> Decision {
        let state = self.state;
        let mut writes = Vec::new();
        if state.handoffs.contains_key(place) {
            writes.push(state.delete(Key::Handoff(place.clone())));
        }
        if !state.consumers.contains_key(owner) {
            writes.push(state.delete(Key::Assignment(place.clone())));
        }
        // The owner may be back before this is written; then it goes on.
        let guards = vec![state.guard(Key::Consumer(owner.clone()))];
        Decision { writes, guards, action: Action::Unassigned, cause }
    }

    /// The owner is gone, so there is nobody who would have to let go. A target that warms up has the best claim.
    fn replace_owner(
        &self,
        place: &TopicPartition,
        assignment: &Stored<Assignment>,
        handoff: Option<&Stored<Handoff>>,
        wanted: Option<&ConsumerName>,
    ) -> Decision {
        let state = self.state;
        let Assignment { owner, epoch } = &assignment.value;
        let target = handoff.map(|stored| &stored.value).filter(|handoff| {
            let is_open = matches!(handoff.phase, Phase::Warming | Phase::Ready);
            is_open && fits(handoff, &assignment.value) && self.is_target_alive(place, handoff)
        });
        let (heir, action) = match (target, wanted) {
            (Some(handoff), _) => (&handoff.to, Action::HandoffCompletes { to: handoff.to.clone() }),
            (None, Some(wanted)) => (wanted, Action::Assigned { to: wanted.clone() }),
            (None, None) => {
                let mut decision = Decision::nothing(Action::Stays, Cause::NobodyTakesIt);
                if handoff.is_some() {
                    decision.writes.push(state.delete(Key::Handoff(place.clone())));
                }
                return decision;
            }
        };
        let moved = Assignment { owner: heir.clone(), epoch: epoch.next() };
        let mut writes = vec![state.put(Entry::Assignment(place.clone(), moved))];
        if handoff.is_some() {
            writes.push(state.delete(Key::Handoff(place.clone())));
        }
        // If the owner is back before this is written, it has been told that it owns the partition. If the heir has
        // begun to drain, it must not get anything any more.
        let guards = [owner, heir].map(|name| state.guard(Key::Consumer(name.clone()))).to_vec();
        Decision { writes, guards, action, cause: Cause::OwnerDied }
    }

    /// Begins a handoff, in the place of the one that there may be.
    fn begin(
        &mut self,
        place: &TopicPartition,
        assignment: &Stored<Assignment>,
        wanted: &ConsumerName,
        cause: Cause,
    ) -> Decision {
        let state = self.state;
        let Some(target) = state.consumers.get(wanted) else {
            return Decision::nothing(Action::Stays, Cause::NobodyTakesIt);
        };
        let handoff = Handoff {
            id: (self.mint)(),
            epoch: assignment.value.epoch.next(),
            from: assignment.value.owner.clone(),
            to: wanted.clone(),
            to_session: target.value.session,
            mode: self.settings.mode,
            phase: Phase::Warming,
            phase_since_ms: self.now_ms,
            progress: None,
        };
        let to = wanted.clone();
        let action = match state.handoffs.get(place) {
            Some(former) => Action::HandoffReplaced { former: former.value.to.clone(), to },
            None => Action::HandoffBegins { to },
        };
        Decision {
            writes: vec![state.put(Entry::Handoff(place.clone(), handoff))],
            guards: vec![
                state.guard(Key::Assignment(place.clone())),
                state.guard(Key::Consumer(wanted.clone())),
            ],
            action,
            cause,
        }
    }

    /// Gives a handoff up, for another if there is someone else who should own the partition.
    fn give_up(
        &mut self,
        place: &TopicPartition,
        assignment: &Stored<Assignment>,
        handoff: &Handoff,
        wanted: Option<&ConsumerName>,
        cause: Cause,
    ) -> Decision {
        match wanted.filter(|wanted| **wanted != assignment.value.owner) {
            Some(wanted) => self.begin(place, assignment, wanted, cause),
            None => Decision::one(
                self.state.delete(Key::Handoff(place.clone())),
                Action::HandoffCancelled { former: handoff.to.clone() },
                cause,
            ),
        }
    }

    fn follow(
        &mut self,
        place: &TopicPartition,
        assignment: &Stored<Assignment>,
        handoff: &Handoff,
        wanted: Option<&ConsumerName>,
    ) -> Decision {
        if !fits(handoff, &assignment.value) {
            return self.give_up(place, assignment, handoff, wanted, Cause::OwnerChanged);
        }
        if !self.is_target_alive(place, handoff) {
            return self.give_up(place, assignment, handoff, wanted, Cause::TargetLost);
        }
        let is_warming = handoff.phase == Phase::Warming;
        // Once the owner has been told to let go it may have stopped. The quickest way to have the partition worked on
        // again is to let the handoff end, and to move it once more then.
        if is_warming && wanted != Some(&handoff.to) {
            return self.give_up(place, assignment, handoff, wanted, Cause::NewerPlan);
        }
        if self.now_ms < handoff.deadline_ms(self.settings) {
            let cause = if is_warming { Cause::TargetWarms } else { Cause::OwnerReleases };
            return Decision::nothing(Action::HandoffWaits { to: handoff.to.clone() }, cause);
        }
        let former = handoff.to.clone();
        let cancelled = Handoff { phase: Phase::Cancelled, phase_since_ms: self.now_ms, ..handoff.clone() };
        let cause = if is_warming { Cause::WarmingTimedOut } else { Cause::ReleaseTimedOut };
        let write = self.state.put(Entry::Handoff(place.clone(), cancelled));
        Decision::one(write, Action::HandoffCancelled { former }, cause)
    }

    /// In the overlap mode the former owner has yet to let go. Nobody waits for that but the next handoff.
    fn follow_complete(&self, place: &TopicPartition, owner: &ConsumerName, handoff: &Handoff) -> Decision {
        let to = handoff.to.clone();
        let is_over = handoff.to != *owner
            || !self.state.consumers.contains_key(&handoff.from)
            || self.now_ms >= handoff.deadline_ms(self.settings);
        if !is_over {
            return Decision::nothing(Action::HandoffWaits { to }, Cause::OwnerReleases);
        }
        let write = self.state.delete(Key::Handoff(place.clone()));
        Decision::one(write, Action::HandoffCompletes { to }, Cause::Balanced)
    }

    fn follow_cancelled(
        &mut self,
        place: &TopicPartition,
        assignment: &Stored<Assignment>,
        handoff: &Handoff,
        wanted: Option<&ConsumerName>,
        cause: Cause,
    ) -> Decision {
        let is_same = wanted == Some(&handoff.to) && self.is_target_alive(place, handoff);
        if is_same && self.now_ms < handoff.deadline_ms(self.settings) {
            return Decision::nothing(Action::Stays, Cause::RetriesLater);
        }
        self.give_up(place, assignment, handoff, wanted, cause)
    }

    fn is_target_alive(&self, place: &TopicPartition, handoff: &Handoff) -> bool {
        self.state.takes(&handoff.to, handoff.to_session, &place.topic)
    }
}

/// Whether the handoff is from this owner to the next.
pub(super) fn fits(handoff: &Handoff, assignment: &Assignment) -> bool {
    handoff.from == assignment.owner && handoff.epoch == assignment.epoch.next()
}

fn why_move(place: &TopicPartition, owner: &Consumer) -> Cause {
    if owner.state == ConsumerState::Draining {
        Cause::OwnerDrains
    } else if !owner.subscribes(&place.topic) {
        Cause::OwnerUnsubscribed
    } else {
        Cause::Balance
    }
}
