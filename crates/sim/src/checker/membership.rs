//! Who may speak for a group, as far as that can be known from outside.
//!
//! Whoever was told that it is in a generation, or was named to its leader, is in it until a later generation is given
//! out, it leaves, somebody takes its name, or it is silent for longer than its session. A restart takes back what was
//! not written: who has left may be back, and the group may be in the last generation that had an assignment. That a
//! group has lost its last member is written.

use std::collections::{BTreeMap, BTreeSet};

/// Who is in one group.
#[derive(Clone, Debug, Default)]
pub(super) struct Membership {
    /// The lowest generation that a member may still be in.
    floor: i32,
    /// The same after a restart: the generations before it ended with a group without members, and that is written.
    durable_floor: i32,
    /// Whether the broker that runs now has known somebody in the group: only then is it written that it lost the last.
    had_members: bool,
    /// Every generation, and the ids that the broker has answered with it, whether or not that was heard.
    given: BTreeMap<i32, BTreeSet<String>>,
    /// What was given before the group was removed, until that is durable.
    former: BTreeMap<i32, BTreeSet<String>>,
    /// What was given before the group was removed, if a crash may have undone that. It may as well have happened, and
    /// then the next group of this name counts from the beginning.
    doubtful: BTreeMap<i32, BTreeSet<String>>,
    /// Who is not in the group any more, and why.
    gone: BTreeMap<String, &'static str>,
    /// Who was replaced under its name, which is written down.
    fenced: BTreeSet<String>,
    /// The ids under which each static member was known, in the order in which they were given.
    names: BTreeMap<String, Vec<String>>,
    sessions: BTreeMap<String, Session>,
    /// Who was in which generation of a group of this name that was removed. What they were told may still be on its
    /// way.
    ended: BTreeSet<(i32, String)>,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    heard_at: u64,
    timeout_ms: u64,
}

/// A member that was given a generation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'a> {
    pub(super) generation: i32,
    pub(super) member_id: &'a str,
    pub(super) instance_id: Option<&'a str>,
    pub(super) session_ms: u64,
}

impl Membership {
    /// The broker answers a join; the answer may still wait.
    pub(super) fn see_given(&mut self, now: u64, given: Given<'_>) {
        let Given { generation, member_id, instance_id, session_ms } = given;
        self.had_members = true;
        if generation > self.floor {
            self.floor = generation;
            // With a new generation all sessions begin anew.
            for session in self.sessions.values_mut() {
                session.heard_at = now;
            }
        }
        self.given.entry(generation).or_default().insert(member_id.to_owned());
        self.sessions.insert(member_id.to_owned(), Session { heard_at: now, timeout_ms: session_ms });
        if let Some(instance) = instance_id {
            let ids = self.names.entry(instance.to_owned()).or_default();
            if !ids.iter().any(|id| id == member_id) {
                ids.push(member_id.to_owned());
            }
            for id in ids.iter().filter(|id| *id != member_id) {
                self.gone.insert(id.clone(), "another one has its name");
            }
        }
    }

    /// A leader is told who else is in its generation. Static members are without having asked.
    pub(super) fn see_listed(&mut self, generation: i32, member_id: &str) {
        self.given.entry(generation).or_default().insert(member_id.to_owned());
    }

    /// The answer to a join of a generation with assignments has left: whoever had the name before is replaced for
    /// good.
    pub(super) fn see_replaced(&mut self, member_id: &str, instance_id: Option<&str>) {
        let ids = instance_id.and_then(|instance| self.names.get(instance)).into_iter().flatten();
        self.fenced.extend(ids.take_while(|id| *id != member_id).cloned());
    }

    /// The member was heard of.
    pub(super) fn see_alive(&mut self, now: u64, member_id: &str) {
        if let Some(session) = self.sessions.get_mut(member_id) {
            session.heard_at = now;
        }
    }

    /// The broker has taken the member out of the group.
    pub(super) fn see_gone(&mut self, member_id: &str, why: &'static str) {
        self.gone.insert(member_id.to_owned(), why);
    }

    /// The broker has taken a static member out of the group, whatever its id.
    pub(super) fn see_name_gone(&mut self, instance_id: &str) {
        for id in self.names.get(instance_id).into_iter().flatten() {
            self.gone.insert(id.clone(), "it was removed by its name");
        }
    }

    /// The broker has looked for members that are silent. Says how many there were.
    pub(super) fn see_deadlines(&mut self, now: u64, waits: impl Fn(&str) -> bool) -> u64 {
        let mut expired = 0;
        let current = self.given.get(&self.floor);
        for (id, session) in &self.sessions {
            let silent = session.heard_at + session.timeout_ms < now && !waits(id);
            if silent && self.gone.insert(id.clone(), "its session is over").is_none() {
                expired += u64::from(current.is_some_and(|ids| ids.contains(id)));
            }
        }
        expired
    }

    /// The group is removed, which a crash may still undo.
    pub(super) fn see_removed(&mut self) {
        let Self { mut given, doubtful, mut ended, .. } = std::mem::take(self);
        for (generation, ids) in doubtful {
            given.entry(generation).or_default().extend(ids);
        }
        ended.extend(
            given.iter().flat_map(|(generation, ids)| ids.iter().map(|id| (*generation, id.clone()))),
        );
        *self = Self { former: given, ended, ..Self::default() };
    }

    /// Whether this is about a group that was removed since.
    pub(super) fn has_ended(&self, generation: i32, member_id: &str) -> bool {
        self.ended.contains(&(generation, member_id.to_owned()))
    }

    /// Nothing of the group waits for the disk. If it `is_empty`, nobody who was ever in it comes back.
    pub(super) fn see_durable(&mut self, is_empty: bool) {
        self.former.clear();
        if is_empty
            && self.had_members
            && let Some((last, _)) = self.given.last_key_value()
        {
            self.durable_floor = self.durable_floor.max(last + 1);
        }
    }

    /// The group was read back. `told` has every generation that was heard of, `assigned` is the last with assignments.
    pub(super) fn see_restored<'a>(
        &mut self,
        now: u64,
        assigned: i32,
        told: impl Iterator<Item = (i32, &'a BTreeSet<String>)>,
    ) {
        self.floor = assigned.max(self.durable_floor);
        // A generation that never had assignments is not written: the group is as it was before it.
        self.had_members = assigned > 0;
        self.gone.clear();
        self.given.clear();
        for (generation, ids) in std::mem::take(&mut self.former) {
            self.doubtful.entry(generation).or_default().extend(ids);
        }
        for (generation, ids) in told {
            self.given.entry(generation).or_default().extend(ids.iter().cloned());
        }
        for session in self.sessions.values_mut() {
            session.heard_at = now;
        }
    }

    /// Fails unless somebody may speak for the group as this member of this generation.
    pub(super) fn check(&self, generation: i32, member_id: &str) -> Result<(), String> {
        if generation < self.floor {
            return Err(format!("although generation {} was given out", self.floor));
        }
        let is_in = |given: &BTreeMap<i32, BTreeSet<String>>| {
            given.get(&generation).is_some_and(|ids| ids.contains(member_id))
        };
        if !is_in(&self.given) && !is_in(&self.doubtful) {
            return Err("although nobody was told that it is in it".to_owned());
        }
        if let Some(why) = self.gone.get(member_id) {
            return Err(format!("although {why}"));
        }
        if self.fenced.contains(member_id) {
            return Err("although somebody has taken its name for good".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(generation: i32, member_id: &str) -> Given<'_> {
        Given { generation, member_id, instance_id: None, session_ms: 100 }
    }

    fn named(member_id: &str) -> Given<'_> {
        Given { instance_id: Some("i"), ..given(1, member_id) }
    }

    #[test]
    fn only_who_was_told_is_a_member_and_only_until_the_next_generation() {
        let mut group = Membership::default();
        group.see_given(0, given(1, "a"));
        assert!(group.check(1, "a").is_ok());
        assert!(group.check(1, "b").is_err());
        assert!(group.check(2, "a").is_err());
        group.see_given(0, given(2, "b"));
        assert!(group.check(1, "a").is_err());
        assert!(group.check(2, "b").is_ok());
    }

    #[test]
    fn a_crash_may_bring_back_the_last_generation_that_was_assigned() {
        let mut group = Membership::default();
        group.see_given(0, given(1, "a"));
        group.see_given(0, given(2, "a"));
        let told = BTreeSet::from(["a".to_owned()]);
        group.see_restored(0, 1, [(1, &told)].into_iter());
        assert!(group.check(1, "a").is_ok());
        assert!(group.check(2, "a").is_err(), "nobody heard of it");
        group.see_restored(0, 2, [(1, &told)].into_iter());
        assert!(group.check(1, "a").is_err());
    }

    #[test]
    fn a_group_that_is_read_back_without_its_only_generation_is_where_it_was_before() {
        let mut group = Membership::default();
        group.see_given(0, given(1, "a"));
        let told = BTreeSet::from(["a".to_owned()]);
        group.see_restored(0, 0, [(1, &told)].into_iter());
        group.see_durable(true);
        group.see_listed(0, "b");
        assert!(group.check(0, "b").is_ok(), "it waits in its first join");
        group.see_given(0, given(2, "b"));
        group.see_durable(true);
        assert!(group.check(0, "b").is_err());
        let told = BTreeSet::from(["b".to_owned()]);
        group.see_restored(0, 2, [(2, &told)].into_iter());
        assert!(group.check(2, "b").is_err(), "that all have left it is written");
    }

    #[test]
    fn whoever_is_silent_or_has_left_is_no_member() {
        let mut group = Membership::default();
        group.see_given(0, given(1, "a"));
        group.see_given(0, given(1, "b"));
        group.see_alive(50, "b");
        assert_eq!(group.see_deadlines(100, |_| false), 0);
        assert_eq!(group.see_deadlines(101, |_| true), 0);
        assert_eq!(group.see_deadlines(101, |_| false), 1);
        assert!(group.check(1, "a").is_err());
        assert!(group.check(1, "b").is_ok());
        group.see_gone("b", "it has left");
        assert!(group.check(1, "b").is_err());
    }

    #[test]
    fn a_name_belongs_to_the_last_one_that_took_it() {
        let mut group = Membership::default();
        group.see_given(0, named("a"));
        group.see_given(0, named("b"));
        assert!(group.check(1, "a").is_err());
        let told = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        group.see_restored(0, 1, [(1, &told)].into_iter());
        assert!(group.check(1, "a").is_ok(), "it was not written down");
        group.see_replaced("b", Some("i"));
        group.see_restored(0, 1, [(1, &told)].into_iter());
        assert!(group.check(1, "a").is_err());
        assert!(group.check(1, "b").is_ok());
        group.see_replaced("a", Some("i"));
        assert!(group.check(1, "b").is_ok(), "the answer to an earlier one may leave later");
    }

    #[test]
    fn a_group_that_was_removed_comes_back_only_by_a_crash() {
        let mut group = Membership::default();
        group.see_given(0, given(1, "a"));
        group.see_removed();
        assert!(group.check(1, "a").is_err());
        assert!(group.has_ended(1, "a") && !group.has_ended(1, "b"));
        let mut undone = group.clone();
        undone.see_restored(0, 0, [].into_iter());
        assert!(undone.check(1, "a").is_ok());
        group.see_durable(false);
        group.see_restored(0, 0, [].into_iter());
        assert!(group.check(1, "a").is_err());
    }

    #[test]
    fn a_group_whose_removal_was_refused_but_happened_is_followed_by_one_that_counts_anew() {
        let mut group = Membership::default();
        group.see_given(0, given(1, "a"));
        group.see_removed();
        group.see_restored(0, 0, [].into_iter());
        group.see_durable(true);
        group.see_given(0, given(1, "b"));
        let told = BTreeSet::from(["b".to_owned()]);
        group.see_restored(0, 0, [(1, &told)].into_iter());
        assert!(group.check(1, "b").is_ok());
        group.see_removed();
        assert!(group.has_ended(1, "a") && group.has_ended(1, "b"));
    }

    #[test]
    fn the_last_one_to_leave_does_not_come_back_once_that_is_written() {
        let mut group = Membership::default();
        group.see_given(0, given(1, "a"));
        group.see_gone("a", "it has left");
        let told = BTreeSet::from(["a".to_owned()]);
        let mut rebalancing = group.clone();
        rebalancing.see_durable(false);
        rebalancing.see_restored(0, 1, [(1, &told)].into_iter());
        assert!(rebalancing.check(1, "a").is_ok(), "others were there, and nothing was written");
        group.see_durable(true);
        group.see_restored(0, 1, [(1, &told)].into_iter());
        assert!(group.check(1, "a").is_err());
        group.see_given(0, given(3, "b"));
        assert!(group.check(3, "b").is_ok());
    }
}
