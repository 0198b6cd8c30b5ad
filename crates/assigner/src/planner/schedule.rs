//! When each group is planned.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::groups::{GroupId, Urgency};
use crate::settings::Settings;

/// If consumers change all the time, this many times the debounce is waited for an end of it.
const DEBOUNCES_MAX: u32 = 5;

/// How much of a group is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Handoffs one of whose consumers is gone.
    Urgent,
    /// Everything.
    All,
}

/// When each group is planned. Changes of consumers come in swarms, so it waits until they have settled.
#[derive(Debug)]
pub(crate) struct Schedule {
    debounce: Duration,
    reconcile_interval: Duration,
    reconcile_at: Instant,
    groups: BTreeMap<GroupId, Times>,
    /// When each of them is planned in part, and when as a whole.
    urgent: BTreeSet<(Instant, GroupId)>,
    all: BTreeSet<(Instant, GroupId)>,
}

#[derive(Debug, Default)]
struct Times {
    /// Something has changed.
    settling: Option<Settling>,
    /// A consumer of a handoff is gone.
    urgent_at: Option<Instant>,
    /// A handoff ends by itself then.
    deadline: Option<Instant>,
    /// Nothing is tried before, since etcd could not be asked.
    not_before: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Settling {
    since: Instant,
    at: Instant,
}

impl Schedule {
    pub(crate) fn new(settings: &Settings, now: Instant) -> Self {
        Self {
            debounce: settings.rebalance_debounce_interval,
            reconcile_interval: settings.reconcile_interval,
            reconcile_at: now + settings.reconcile_interval,
            groups: BTreeMap::new(),
            urgent: BTreeSet::new(),
            all: BTreeSet::new(),
        }
    }

    fn change<T>(&mut self, group: &GroupId, change: impl FnOnce(&mut Times) -> T) -> T {
        let times = self.groups.entry(group.clone()).or_default();
        let before = times.next();
        let changed = change(times);
        let after = times.next();
        if before != after {
            self.unqueue(group, before);
            if let Some((at, scope)) = after {
                self.queue(scope).insert((at, group.clone()));
            }
        }
        changed
    }

    fn unqueue(&mut self, group: &GroupId, next: Option<(Instant, Scope)>) {
        if let Some((at, scope)) = next {
            self.queue(scope).remove(&(at, group.clone()));
        }
    }

    fn queue(&mut self, scope: Scope) -> &mut BTreeSet<(Instant, GroupId)> {
        match scope {
            Scope::Urgent => &mut self.urgent,
            Scope::All => &mut self.all,
        }
    }

    /// Something has changed in a group.
    pub(crate) fn note(&mut self, now: Instant, group: &GroupId, urgency: Urgency) {
        let debounce = self.debounce;
        self.change(group, |times| {
            let fresh = Settling { since: now, at: now + debounce };
            let settling = times.settling.get_or_insert(fresh);
            match urgency {
                Urgency::Eventually => {}
                Urgency::Settled | Urgency::AtOnce => {
                    settling.at = (now + debounce).min(settling.since + debounce * DEBOUNCES_MAX);
                }
            }
            if urgency == Urgency::AtOnce {
                times.urgent_at = Some(now);
            }
        });
    }

    /// Everything in these groups is planned again, if it is time for that. Those in which something has just changed
    /// are planned when that has settled.
    pub(crate) fn reconcile(&mut self, now: Instant, groups: impl FnOnce() -> Vec<GroupId>) {
        if now < self.reconcile_at {
            return;
        }
        self.reconcile_at = now + self.reconcile_interval;
        let groups: BTreeSet<GroupId> = groups().into_iter().collect();
        let gone: Vec<GroupId> = self.groups.keys().filter(|id| !groups.contains(*id)).cloned().collect();
        for id in gone {
            let times = self.groups.remove(&id);
            self.unqueue(&id, times.and_then(|times| times.next()));
        }
        for id in &groups {
            self.change(id, |times| {
                times.settling.get_or_insert(Settling { since: now, at: now });
            });
        }
    }

    /// Whether something is noted of a group.
    pub(crate) fn knows(&self, group: &GroupId) -> bool {
        self.groups.contains_key(group)
    }

    /// When there is something to do.
    pub(crate) fn next(&self) -> Instant {
        let first = [self.urgent.first(), self.all.first()].into_iter().flatten().map(|(at, _)| *at).min();
        first.map_or(self.reconcile_at, |first| first.min(self.reconcile_at))
    }

    /// A group that is to be planned now, the most urgent one first.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(GroupId, Scope)> {
        let due = |queue: &BTreeSet<(Instant, GroupId)>| queue.first().filter(|(at, _)| *at <= now).cloned();
        let urgent = due(&self.urgent).map(|(_, id)| (id, Scope::Urgent));
        let (id, scope) = urgent.or_else(|| due(&self.all).map(|(_, id)| (id, Scope::All)))?;
        self.change(&id, |times| {
            times.urgent_at = None;
            if scope == Scope::All {
                (times.settling, times.deadline) = (None, None);
            }
        });
        Some((id, scope))
    }

    /// A group has been planned; the next of its handoffs ends by itself after `deadline`.
    pub(crate) fn planned(&mut self, now: Instant, group: &GroupId, deadline: Option<Duration>) {
        self.change(group, |times| {
            times.not_before = None;
            times.deadline = deadline.and_then(|deadline| now.checked_add(deadline));
        });
    }

    /// A plan was refused because something changes all the time; everything is planned again after a pause. A death is
    /// acted on at once all the same: it need not have to do with that.
    pub(crate) fn refused(&mut self, now: Instant, group: &GroupId, pause: Duration) {
        self.change(group, |times| {
            times.not_before = None;
            times.settling.get_or_insert(Settling { since: now, at: now + pause });
        });
    }

    /// A plan could not be carried out; everything in the group is planned again after a pause.
    pub(crate) fn failed(&mut self, now: Instant, group: &GroupId, pause: Duration) {
        self.change(group, |times| {
            let at = now + pause;
            times.not_before = Some(at);
            times.settling.get_or_insert(Settling { since: now, at });
        });
    }
}

impl Times {
    fn next(&self) -> Option<(Instant, Scope)> {
        let settling = self.settling.map(|settling| settling.at);
        let all = [settling, self.deadline].into_iter().flatten().min().map(|at| (at, Scope::All));
        let urgent = self.urgent_at.map(|at| (at, Scope::Urgent));
        let (at, scope) = match (all, urgent) {
            (Some(all), Some(urgent)) => {
                if all.0 <= urgent.0 {
                    all
                } else {
                    urgent
                }
            }
            (all, urgent) => all.or(urgent)?,
        };
        Some((self.not_before.map_or(at, |not_before| at.max(not_before)), scope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn schedule(now: Instant) -> Schedule {
        let reconcile_interval = Duration::from_secs(1000);
        Schedule::new(&Settings { reconcile_interval, ..Settings::default() }, now)
    }

    #[test]
    fn changes_are_planned_when_they_have_settled() {
        let start = Instant::now();
        let mut schedule = schedule(start);
        schedule.note(start, &None, Urgency::Settled);
        schedule.note(start + SECOND / 2, &None, Urgency::Settled);
        assert_eq!(schedule.next(), start + SECOND * 3 / 2);
        assert_eq!(schedule.pop(start + SECOND), None);
        assert_eq!(schedule.pop(start + SECOND * 3 / 2), Some((None, Scope::All)));
        assert_eq!(schedule.pop(start + SECOND * 3 / 2), None);
    }

    #[test]
    fn changes_that_never_end_do_not_put_the_plan_off_for_ever() {
        let start = Instant::now();
        let mut schedule = schedule(start);
        for tenth in 0..100 {
            schedule.note(start + SECOND * tenth / 10, &None, Urgency::Settled);
        }
        assert_eq!(schedule.next(), start + SECOND * 5);
    }

    #[test]
    fn what_merely_ends_does_not_put_a_plan_off() {
        let start = Instant::now();
        let mut schedule = schedule(start);
        schedule.note(start, &None, Urgency::Settled);
        schedule.note(start + SECOND / 2, &None, Urgency::Eventually);
        assert_eq!(schedule.next(), start + SECOND);
    }

    #[test]
    fn a_death_is_acted_on_at_once_and_the_rest_settles() {
        let start = Instant::now();
        let mut schedule = schedule(start);
        schedule.note(start, &None, Urgency::AtOnce);
        assert_eq!(schedule.pop(start), Some((None, Scope::Urgent)));
        schedule.planned(start, &None, Some(SECOND * 9));
        assert_eq!(schedule.pop(start), None);
        assert_eq!(schedule.pop(start + SECOND), Some((None, Scope::All)));
        schedule.planned(start + SECOND, &None, Some(SECOND * 8));
        assert_eq!(schedule.next(), start + SECOND * 9);
        assert_eq!(schedule.pop(start + SECOND * 9), Some((None, Scope::All)));
    }

    #[test]
    fn a_group_that_changes_is_not_planned_early_because_all_are() {
        let start = Instant::now();
        let mut schedule = schedule(start);
        let tick = start + SECOND * 1000;
        let change = tick - SECOND / 2;
        schedule.note(change, &None, Urgency::Settled);
        let other: GroupId = Some("g".parse().unwrap());
        schedule.reconcile(tick, || vec![None, other.clone()]);
        assert_eq!(schedule.pop(tick), Some((other, Scope::All)));
        assert_eq!(schedule.pop(tick), None);
        assert_eq!(schedule.next(), change + SECOND);
    }

    #[test]
    fn after_a_failure_there_is_a_pause() {
        let start = Instant::now();
        let mut schedule = schedule(start);
        schedule.failed(start, &None, SECOND * 3);
        schedule.note(start, &None, Urgency::AtOnce);
        assert_eq!(schedule.next(), start + SECOND * 3);
        assert_eq!(schedule.pop(start + SECOND * 3), Some((None, Scope::Urgent)));
        schedule.planned(start + SECOND * 3, &None, None);
        assert_eq!(schedule.pop(start + SECOND * 3), Some((None, Scope::All)));
    }

    #[test]
    fn a_death_does_not_wait_because_others_change_all_the_time() {
        let start = Instant::now();
        let mut schedule = schedule(start);
        schedule.refused(start, &None, SECOND * 3);
        assert_eq!(schedule.next(), start + SECOND * 3);
        schedule.note(start, &None, Urgency::AtOnce);
        assert_eq!(schedule.pop(start), Some((None, Scope::Urgent)));
    }

    #[test]
    fn a_group_that_is_gone_is_not_planned() {
        let start = Instant::now();
        let mut schedule = schedule(start);
        let tick = start + SECOND * 1000;
        let gone: GroupId = Some("g".parse().unwrap());
        schedule.note(start, &gone, Urgency::AtOnce);
        schedule.note(start, &None, Urgency::Settled);
        schedule.reconcile(tick, || vec![None]);
        assert!(schedule.knows(&None) && !schedule.knows(&gone));
        assert_eq!(schedule.pop(tick), Some((None, Scope::All)));
        assert_eq!(schedule.pop(tick), None);
        assert_eq!(schedule.next(), tick + SECOND * 1000);
    }
}
