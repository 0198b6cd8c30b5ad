//! What the leader writes next.

use std::collections::BTreeMap;

use super::desired::{Because, Desired, wanted};
use super::key::Key;
use super::names::{ConsumerName, Epoch, HandoffId, TopicPartition};
use super::reason::{Action, Cause, Reason};
use super::state::{Guard, Row, State, Step, Stored, Write};
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
    let rows = state.rows();
    let wanted = wanted(state, &rows, settings, now_ms);
    let mut planner = Planner::new(state, settings, now_ms, mint);
    let mut decided = Vec::with_capacity(rows.len());
    let mut steps = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let choice = wanted.choice(number);
        let (reason, step) = planner.decide(row, choice.map(|(owner, _)| owner)).into_reason(choice);
        steps.extend(step);
        decided.push((row.place.clone(), reason));
    }
    Plan { steps, reasons: decided.into_iter().collect(), desired: wanted.into_desired(&rows) }
}

/// Decides about handoffs whose owner is gone, or whose target is gone, was started anew or takes nothing any more, and
/// about nothing else. That need not wait until the group has come to rest: the one is about to get the partition
/// anyway, and the other may have let go of it for nobody.
///
/// Nothing is given to anybody whom an earlier plan has not chosen. A partition that is without an owner after this, or
/// with one that should not have it, is for the next [`plan`].
pub fn settle(state: &State, settings: &Settings, now_ms: u64, mint: &mut dyn FnMut() -> HandoffId) -> Plan {
    let mut planner = Planner::new(state, settings, now_ms, mint);
    let mut plan = Plan::default();
    for (place, stored) in &state.handoffs {
        let handoff = &stored.value;
        let owner = state.assignments.get(place).map(|assignment| &assignment.value.owner);
        let is_known = |name: &ConsumerName| state.consumers.contains_key(name);
        let is_open = matches!(handoff.phase, Phase::Warming | Phase::Ready);
        let is_urgent = !is_known(&handoff.from)
            || owner.is_some_and(|owner| !is_known(owner))
            || is_open && !planner.is_target_alive(place, handoff);
        if is_urgent {
            let (reason, step) = planner.decide(&state.row(place), None).into_reason(None);
            plan.steps.extend(step);
            plan.reasons.insert(place.clone(), reason);
        }
    }
    plan
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
    fn into_reason(self, choice: Option<(&ConsumerName, Because)>) -> (Reason, Option<Step>) {
        let Self { writes, guards, action, cause } = self;
        let reason = Reason { action, cause, choice: choice.map(|(_, because)| because) };
        (reason, (!writes.is_empty()).then_some(Step { writes, guards }))
    }

    fn nothing(action: Action, cause: Cause) -> Self {
        Self { writes: Vec::new(), guards: Vec::new(), action, cause }
    }

    /// One write that rests on nothing but what it replaces.
    fn one(write: Write, action: Action, cause: Cause) -> Self {
        Self { writes: vec![write], guards: Vec::new(), action, cause }
    }
}

impl<'a> Planner<'a> {
    fn new(
        state: &'a State,
        settings: &'a Settings,
        now_ms: u64,
        mint: &'a mut dyn FnMut() -> HandoffId,
    ) -> Self {
        let is_any_ready = state.consumers.values().any(|stored| stored.value.state == ConsumerState::Ready);
        Self { state, settings, now_ms, mint, is_any_ready }
    }

    fn decide(&mut self, row: &Row<'_>, wanted: Option<&ConsumerName>) -> Decision {
        let state = self.state;
        let Row { place, handoff, .. } = row;
        let Some(assignment) = row.assignment else {
            return self.assign_first(row, wanted);
        };
        let owner = &assignment.value.owner;
        if row.topic.is_none() {
            return self.unassign(place, owner, Cause::PartitionGone);
        }
        if state.consumers.is_empty() {
            return self.unassign(place, owner, Cause::NobodyRegistered);
        }
        if !self.is_any_ready {
            return Decision::nothing(Action::Stays, Cause::NobodyReady);
        }
        let Some(living) = state.consumers.get(owner) else {
            return self.replace_owner(place, assignment, *handoff, wanted);
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

    fn assign_first(&self, row: &Row<'_>, wanted: Option<&ConsumerName>) -> Decision {
        let state = self.state;
        let place = &row.place;
        let mut writes = Vec::new();
        if row.handoff.is_some() {
            writes.push(state.delete(Key::Handoff(place.clone())));
        }
        let Some(wanted) = wanted else {
            let cause = if row.topic.is_none() {
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
        let mut guards = Vec::new();
        match handoff {
            Some(_) => writes.push(state.delete(Key::Handoff(place.clone()))),
            // One that has begun meanwhile would be left over from an owner that is none any more.
            None => guards.push(state.guard(Key::Handoff(place.clone()))),
        }
        // If the owner is back before this is written, it has been told that it owns the partition. If the heir has
        // begun to drain, it must not get anything any more.
        guards.extend([owner, heir].map(|name| state.guard(Key::Consumer(name.clone()))));
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
