//! What the leader does about one group: a plan, without what must not be touched or is not due yet.

mod schedule;

use std::fmt;

use coordination::handoff::{self, Action, Cause, Change, HandoffId, Key, Phase, Step, TopicPartition};

use crate::groups::Group;

pub(crate) use schedule::{Schedule, Scope};

/// How many writes or comparisons etcd takes in one transaction.
pub(crate) const OPERATIONS_MAX: usize = 128;

/// What to write, and what that means.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// What each step is about, in the same order.
    pub(crate) moves: Vec<Move>,
}

/// What one step does, for the log and the metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) partition: TopicPartition,
    pub(crate) kind: MoveKind,
    /// Why a handoff that was under way is given up by this.
    pub(crate) cancelled: Option<Cause>,
    /// In words.
    pub(crate) reason: String,
}

/// What becomes of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum MoveKind {
    Assigned,
    HandoffBegins,
    HandoffCancelled,
    HandoffCompletes,
    Other,
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.partition, self.reason)
    }
}

/// Plans what is to be done about a group now.
pub(crate) fn plan_group(group: &Group, settings: &handoff::Settings, scope: Scope, now_ms: u64) -> Plan {
    let mut mint = || mint(now_ms);
    let decided = match scope {
        Scope::All => handoff::plan(&group.state, settings, now_ms, &mut mint),
        Scope::Urgent => handoff::settle(&group.state, settings, now_ms, &mut mint),
    };
    let mut plan = Plan::default();
    for step in decided.steps {
        let Some(partition) = partition_of(&step).cloned() else { continue };
        let Some(reason) = decided.reasons.get(&partition) else { continue };
        let before = group.state.handoffs.get(&partition).map(|stored| stored.value.phase);
        if rests_on_unreadable(group, &step) {
            continue;
        }
        let kind = match reason.action {
            Action::Assigned { .. } => MoveKind::Assigned,
            Action::HandoffBegins { .. } | Action::HandoffReplaced { .. } => MoveKind::HandoffBegins,
            Action::HandoffCancelled { .. } => MoveKind::HandoffCancelled,
            Action::HandoffCompletes { .. } => MoveKind::HandoffCompletes,
            Action::Stays | Action::HandoffWaits { .. } | Action::Unassigned => MoveKind::Other,
        };
        let is_open = matches!(before, Some(Phase::Warming | Phase::Ready));
        let cancelled = (is_open && kind != MoveKind::HandoffCompletes).then_some(reason.cause);
        plan.moves.push(Move { partition, kind, cancelled, reason: reason.to_string() });
        plan.steps.push(step);
    }
    plan
}

/// In how many milliseconds a handoff of the group has lasted too long, or can be tried again. If nothing was done about
/// those for which that is so already, nothing can be for now, and asking for it at once would never end.
pub(crate) fn deadline_in_ms(group: &Group, settings: &handoff::Settings, now_ms: u64) -> Option<u64> {
    let deadlines = group.state.handoffs.values().map(|stored| stored.value.deadline_ms(settings));
    deadlines.filter_map(|deadline| deadline.checked_sub(now_ms)).filter(|left| *left > 0).min()
}

/// A name for the reason of a cancellation, for counting.
pub(crate) fn label(cause: Cause) -> &'static str {
    match cause {
        Cause::TargetLost => "target_lost",
        Cause::NewerPlan => "newer_plan",
        Cause::OwnerChanged => "owner_changed",
        Cause::OwnerDied => "owner_died",
        Cause::WarmingTimedOut => "warming_timed_out",
        Cause::ReleaseTimedOut => "release_timed_out",
        Cause::PartitionGone => "partition_gone",
        Cause::NobodyRegistered => "nobody_registered",
        _ => "other",
    }
}

fn mint(now_ms: u64) -> HandoffId {
    HandoffId::from_u128(ulid::Ulid::from_parts(now_ms, rand::random()).0)
}

/// The partition that a step is about. All writes of a step are about the same one.
fn partition_of(step: &Step) -> Option<&TopicPartition> {
    step.writes.iter().find_map(|write| match &write.change {
        Change::Put(handoff::Entry::Assignment(place, _) | handoff::Entry::Handoff(place, _)) => Some(place),
        Change::Delete(Key::Assignment(place) | Key::Handoff(place)) => Some(place),
        Change::Put(_) | Change::Delete(_) => None,
    })
}

/// Whether a step writes, or rests on, something that is there but cannot be read. etcd would refuse it, and with it
/// all others of its transaction.
fn rests_on_unreadable(group: &Group, step: &Step) -> bool {
    let is_unreadable = |key: &Key| {
        let topic = match key {
            Key::Assignment(place) | Key::Handoff(place) => Some(Key::Topic(place.topic.clone())),
            Key::Consumer(_) | Key::Topic(_) | Key::Leader => None,
        };
        group.unreadable.contains_key(key) || topic.is_some_and(|topic| group.unreadable.contains_key(&topic))
    };
    if group.unreadable.is_empty() {
        return false;
    }
    let written = step.writes.iter().map(|write| match &write.change {
        Change::Put(entry) => entry.key(),
        Change::Delete(key) => key.clone(),
    });
    written.chain(step.guards.iter().map(|guard| guard.key.clone())).any(|key| is_unreadable(&key))
}

#[cfg(test)]
mod tests {
    use coordination::handoff::{Consumer, ConsumerName, Entry, SessionId, Topic};

    use super::*;

    fn name(text: &str) -> ConsumerName {
        text.parse().unwrap()
    }

    fn place(partition: u32) -> TopicPartition {
        TopicPartition { topic: "t".parse().unwrap(), partition }
    }

    fn put(group: &mut Group, entry: Entry) {
        let revision = group.state.revision + 1;
        group.state.apply(revision, Change::Put(entry));
    }

    fn consumer(group: &mut Group, text: &str, session: u128) {
        put(group, Entry::Consumer(name(text), Consumer::new(SessionId::from_u128(session), 0)));
    }

    fn carry_out(group: &mut Group, plan: &Plan) {
        for write in plan.steps.iter().flat_map(|step| &step.writes) {
            let revision = group.state.revision + 1;
            group.state.apply(revision, write.change.clone());
        }
    }

    /// Two partitions that `a` owns, one of which warms up with `b`.
    fn group() -> Group {
        let mut group = Group::default();
        put(&mut group, Entry::Topic("t".parse().unwrap(), Topic::new(2)));
        consumer(&mut group, "a", 1);
        carry_out_all(&mut group);
        consumer(&mut group, "b", 2);
        carry_out_all(&mut group);
        assert_eq!(group.state.handoffs.len(), 1);
        group
    }

    fn all(group: &Group) -> Plan {
        plan_group(group, &handoff::Settings::default(), Scope::All, 0)
    }

    fn carry_out_all(group: &mut Group) {
        let plan = all(group);
        carry_out(group, &plan);
    }

    #[test]
    fn only_what_has_come_to_an_end_is_urgent() {
        let mut group = group();
        group.state.apply(50, Change::Delete(Key::Consumer(name("a"))));
        let all = all(&group);
        assert_eq!(all.steps.len(), 2, "both partitions of the dead are given away");
        let urgent = plan_group(&group, &handoff::Settings::default(), Scope::Urgent, 0);
        assert_eq!(
            urgent.moves.iter().map(|moved| moved.kind).collect::<Vec<_>>(),
            [MoveKind::HandoffCompletes]
        );
        assert_eq!(urgent.moves[0].cancelled, None);
    }

    #[test]
    fn a_target_that_is_lost_cancels_and_is_counted() {
        let mut group = group();
        group.state.apply(50, Change::Delete(Key::Consumer(name("b"))));
        let plan = plan_group(&group, &handoff::Settings::default(), Scope::Urgent, 0);
        let [moved] = &plan.moves[..] else { panic!("{plan:?}") };
        assert_eq!((moved.kind, moved.cancelled), (MoveKind::HandoffCancelled, Some(Cause::TargetLost)));
        assert_eq!(label(Cause::TargetLost), "target_lost");
    }

    #[test]
    fn a_target_that_is_lost_is_not_replaced_before_the_group_has_come_to_rest() {
        let mut group = group();
        consumer(&mut group, "c", 3);
        group.state.apply(50, Change::Delete(Key::Consumer(name("b"))));
        let urgent = plan_group(&group, &handoff::Settings::default(), Scope::Urgent, 0);
        let kinds: Vec<MoveKind> = urgent.moves.iter().map(|moved| moved.kind).collect();
        assert_eq!(kinds, [MoveKind::HandoffCancelled]);
        carry_out(&mut group, &urgent);
        assert_eq!(all(&group).moves[0].kind, MoveKind::HandoffBegins);
    }

    #[test]
    fn nothing_is_decided_that_rests_on_what_cannot_be_read() {
        let mut group = Group::default();
        put(&mut group, Entry::Topic("t".parse().unwrap(), Topic::new(3)));
        consumer(&mut group, "a", 1);
        group.unreadable.insert(Key::Assignment(place(1)), 9);
        let plan = all(&group);
        let planned: Vec<&TopicPartition> = plan.moves.iter().map(|moved| &moved.partition).collect();
        assert_eq!(planned, [&place(0), &place(2)]);
        group.unreadable.insert(Key::Topic("t".parse().unwrap()), 10);
        assert!(all(&group).steps.is_empty());
    }
}
