//! What must be true of every run, held against what is seen of it.
//!
//! The checker watches replies as the machine gives them and as they leave the broker, and commits as they are
//! accepted. It knows nothing of how groups work inside, so it cannot make the same mistake twice.

mod membership;

use std::collections::{BTreeMap, BTreeSet};

use coordination::error_code::ErrorCode;
use coordination::{op, reply};

use crate::consumer_protocol::{self, Partition};
use crate::message::{Commit, Committed, Request, Response};

use membership::{Given, Membership};

/// What was seen, and what it forbids.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    groups: BTreeMap<String, History>,
    /// Whether all groups together may have only so many members. Whoever is refused for that stays what it was.
    pub limits_members: bool,
    /// How many replies and commits were held against the rules.
    pub checks: u64,
}

/// What was seen of one group.
#[derive(Clone, Debug, Default)]
struct History {
    /// Every generation that was given out, and to whom.
    generations: BTreeMap<i32, Generation>,
    /// The highest generation in which an assignment was given out.
    assigned: i32,
    membership: Membership,
    offsets: BTreeMap<Partition, Offsets>,
}

/// A member as others would know it: a static one by its instance id, which outlives its member ids.
type Name = String;

#[derive(Clone, Debug, Default)]
struct Generation {
    /// As the leader saw them; `None` until a leader was told.
    members: Option<BTreeSet<Name>>,
    /// Who was told that it is in this generation.
    told: BTreeSet<Name>,
    /// The same by their member ids, and those that the leader was told of.
    ids: BTreeSet<String>,
    owners: BTreeMap<Partition, Name>,
}

/// All that may be found committed for one partition, the oldest first. The first is acknowledged, and whatever is
/// behind the last acknowledged one may be lost in a crash.
#[derive(Clone, Debug)]
struct Offsets(Vec<Entry>);

#[derive(Clone, Debug)]
struct Entry {
    /// `None` where the offset was deleted, or never committed.
    committed: Option<(i64, String)>,
    at: u64,
    /// Committed by a member, not by a tool.
    by_member: bool,
    acknowledged: bool,
}

impl Default for Offsets {
    fn default() -> Self {
        Self(vec![Entry { committed: None, at: 0, by_member: false, acknowledged: true }])
    }
}

impl Checker {
    /// A reply leaves the broker. Whatever it says is known outside from now on.
    pub fn see_reply(&mut self, request: &Request, response: &Response) -> Result<(), String> {
        self.checks += 1;
        match (request, response) {
            (Request::Join(op), Response::Join(reply)) => self.see_join(op, reply),
            (Request::Sync(op), Response::Sync(reply)) => self.see_sync(op, reply),
            (Request::Commit(commit), Response::Commit(None)) => {
                self.see_acknowledged(commit);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The machine answers a request that was parked, or need not be. Its answer may still wait for the disk.
    pub fn see_answer(&mut self, now: u64, request: &Request, response: &Response) -> Result<(), String> {
        self.checks += 1;
        let membership = &mut self.groups.entry(request.group().to_owned()).or_default().membership;
        match (request, response) {
            (Request::Join(op), Response::Join(reply)) => match &reply.result {
                Ok(joined) => {
                    let given = Given {
                        generation: joined.generation,
                        member_id: &reply.member_id,
                        instance_id: op.instance_id.as_deref(),
                        session_ms: u64::try_from(op.session_timeout_ms).unwrap_or(0),
                    };
                    membership.see_given(now, given);
                    for member in &joined.members {
                        membership.see_listed(joined.generation, &member.member_id);
                    }
                }
                Err(ErrorCode::GroupMaxSizeReached) if self.limits_members => {}
                Err(ErrorCode::GroupMaxSizeReached) => {
                    membership.see_gone(&op.member_id, "there was no room for it");
                }
                Err(_) => membership.see_alive(now, &op.member_id),
            },
            (Request::Sync(op), Response::Sync(reply)) => {
                if reply.result.is_ok() {
                    check_member("an assignment", op, membership.check(op.generation, &op.member_id))?;
                }
                membership.see_alive(now, &op.member_id);
            }
            (Request::Heartbeat(op), Response::Heartbeat(reply)) => match reply.error {
                None => {
                    check_member("a heartbeat", op, membership.check(op.generation, &op.member_id))?;
                    membership.see_alive(now, &op.member_id);
                }
                Some(ErrorCode::RebalanceInProgress) => membership.see_alive(now, &op.member_id),
                Some(_) => {}
            },
            // There is no room for what it commits, but it is there.
            (Request::Commit(commit), Response::Commit(Some(ErrorCode::PolicyViolation))) => {
                membership.see_alive(now, &commit.member_id);
            }
            (Request::Leave(op), Response::Leave(reply::LeaveGroup { result: Ok(left) })) => {
                for (leaving, _) in op.members.iter().zip(left).filter(|(_, left)| left.error.is_none()) {
                    match &leaving.instance_id {
                        Some(instance) if leaving.member_id.is_empty() => membership.see_name_gone(instance),
                        _ => membership.see_gone(&leaving.member_id, "it has left"),
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The machine has done what was due in these groups. `waits` says whether a member has a request parked there.
    /// Says how many members of current generations were silent for too long.
    pub fn see_deadlines(
        &mut self,
        now: u64,
        concerned: impl Fn(&str) -> bool,
        waits: impl Fn(&str, &str) -> bool,
    ) -> u64 {
        let groups = self.groups.iter_mut().filter(|(group, _)| concerned(group));
        groups.map(|(group, history)| history.membership.see_deadlines(now, |id| waits(group, id))).sum()
    }

    /// All that these groups have emitted is on the disk. `is_empty` says whether one has no members.
    pub fn see_durable(&mut self, concerned: impl Fn(&str) -> bool, is_empty: impl Fn(&str) -> bool) {
        for (group, history) in self.groups.iter_mut().filter(|(group, _)| concerned(group)) {
            history.membership.see_durable(is_empty(group));
        }
    }

    /// The broker has read this group back and works on with what it found.
    pub fn see_restored(&mut self, now: u64, group: &str) {
        if let Some(history) = self.groups.get_mut(group) {
            let told = history.generations.iter().map(|(number, generation)| (*number, &generation.ids));
            history.membership.see_restored(now, history.assigned, told);
        }
    }

    fn see_join(&mut self, op: &op::JoinGroup, reply: &reply::JoinGroup) -> Result<(), String> {
        let Ok(joined) = &reply.result else { return Ok(()) };
        let history = self.groups.entry(op.group.clone()).or_default();
        let number = joined.generation;
        if history.membership.has_ended(number, &reply.member_id) {
            return Ok(());
        }
        let highest = history.generations.last_key_value().map_or(0, |(number, _)| *number);
        if !history.generations.contains_key(&number) && number <= highest {
            return Err(format!(
                "{}: generation {number} is given out for the first time after {highest} was",
                op.group
            ));
        }
        let generation = history.generations.entry(number).or_default();
        generation.told.insert(name(&reply.member_id, op.instance_id.as_deref()));
        generation.ids.insert(reply.member_id.clone());
        generation.ids.extend(joined.members.iter().map(|it| it.member_id.clone()));
        if number == history.assigned {
            history.membership.see_replaced(&reply.member_id, op.instance_id.as_deref());
        }
        if reply.member_id == joined.leader && joined.members.is_empty() {
            return Err(format!("{}: the leader of generation {number} is told of no members", op.group));
        }
        if !joined.members.is_empty() {
            let members: BTreeSet<Name> =
                joined.members.iter().map(|it| name(&it.member_id, it.instance_id.as_deref())).collect();
            match &generation.members {
                Some(known) if *known != members => {
                    return Err(format!(
                        "{}: generation {number} is given out twice, for {known:?} and for {members:?}",
                        op.group
                    ));
                }
                Some(_) => {}
                None => generation.members = Some(members),
            }
        }
        if let Some(members) = &generation.members
            && let Some(stranger) = generation.told.difference(members).next()
        {
            return Err(format!(
                "{}: {stranger} is told that it is in generation {number}, which has {members:?}",
                op.group
            ));
        }
        Ok(())
    }

    fn see_sync(&mut self, op: &op::SyncGroup, reply: &reply::SyncGroup) -> Result<(), String> {
        let Ok(synced) = &reply.result else { return Ok(()) };
        let history = self.groups.entry(op.group.clone()).or_default();
        if history.membership.has_ended(op.generation, &op.member_id) {
            return Ok(());
        }
        let Some(generation) = history.generations.get_mut(&op.generation) else {
            return Err(format!(
                "{}: an assignment in generation {}, which nobody was given",
                op.group, op.generation
            ));
        };
        history.assigned = history.assigned.max(op.generation);
        let owner = name(&op.member_id, op.instance_id.as_deref());
        let partitions = consumer_protocol::decode_assignment(&synced.assignment)
            .ok_or_else(|| format!("{}: {owner} gets an assignment that is none", op.group))?;
        for partition in partitions {
            match generation.owners.get(&partition) {
                Some(other) if *other != owner => {
                    return Err(format!(
                        "{}: {} of {} has two owners in generation {}: {other} and {owner}",
                        op.group, partition.1, partition.0, op.generation
                    ));
                }
                Some(_) => {}
                None => {
                    generation.owners.insert(partition, owner.clone());
                }
            }
        }
        Ok(())
    }

    /// The broker has accepted a commit; its reply may still wait. As in Kafka a member that `waits` in its first join
    /// may commit in the generation that is ending.
    pub fn see_commit(&mut self, now: u64, commit: &Commit, waits: bool) -> Result<(), String> {
        self.checks += 1;
        let history = self.groups.entry(commit.group.clone()).or_default();
        if commit.generation >= 0 && commit.generation < history.assigned {
            return Err(format!(
                "{}: a commit of generation {} is accepted although generation {} has assignments",
                commit.group, commit.generation, history.assigned
            ));
        }
        if commit.generation >= 0 {
            let membership = &mut history.membership;
            if waits {
                membership.see_listed(commit.generation, &commit.member_id);
            }
            check_member("a commit", commit, membership.check(commit.generation, &commit.member_id))?;
            membership.see_alive(now, &commit.member_id);
        }
        for it in &commit.offsets {
            let entry = Entry {
                committed: Some((it.offset, it.metadata.clone())),
                at: now,
                by_member: commit.generation >= 0,
                acknowledged: false,
            };
            history.offsets.entry(it.partition.clone()).or_default().0.push(entry);
        }
        Ok(())
    }

    fn see_acknowledged(&mut self, commit: &Commit) {
        let history = self.groups.entry(commit.group.clone()).or_default();
        for it in &commit.offsets {
            if let Some(offsets) = history.offsets.get_mut(&it.partition) {
                offsets.acknowledge(&it.metadata);
            }
        }
    }

    /// An offset was forgotten on purpose.
    pub fn see_forgotten(&mut self, now: u64, group: &str, partition: &Partition) {
        let history = self.groups.entry(group.to_owned()).or_default();
        let entry = Entry { committed: None, at: now, by_member: false, acknowledged: false };
        history.offsets.entry(partition.clone()).or_default().0.push(entry);
    }

    /// When the newest offset of a partition was committed, if by a member. What a tool commits to an empty group
    /// counts, as in Kafka, from when the group became empty, and may expire at once.
    pub fn newest_commit(&self, group: &str, partition: &Partition) -> Option<u64> {
        let entry = self.groups.get(group)?.offsets.get(partition)?.0.last()?;
        (entry.committed.is_some() && entry.by_member).then_some(entry.at)
    }

    /// The group was removed. One that takes its name later counts generations anew.
    pub fn see_group_removed(&mut self, group: &str) {
        if let Some(history) = self.groups.get_mut(group) {
            history.generations.clear();
            history.assigned = 0;
            history.membership.see_removed();
        }
    }

    /// The broker says what is committed for this partition, in memory and thus as of the last commit.
    pub fn check_offset(
        &mut self,
        group: &str,
        partition: &Partition,
        found: Option<&Committed>,
    ) -> Result<(), String> {
        self.checks += 1;
        let history = self.groups.entry(group.to_owned()).or_default();
        let newest = history
            .offsets
            .get(partition)
            .and_then(|offsets| offsets.0.last())
            .and_then(|entry| entry.committed.clone());
        let found = found.map(|it| (it.offset, it.metadata.clone()));
        if newest == found {
            return Ok(());
        }
        Err(format!(
            "{group}: the last commit for {} of {} was {newest:?}, and {found:?} is there",
            partition.1, partition.0
        ))
    }

    /// The broker has read this group back from its log. What was acknowledged must be there; what was not may be.
    pub fn check_restored(
        &mut self,
        group: &str,
        found: &BTreeMap<Partition, (i64, String)>,
    ) -> Result<(), String> {
        self.checks += 1;
        let history = self.groups.entry(group.to_owned()).or_default();
        for (partition, offsets) in &mut history.offsets {
            let found = found.get(partition);
            let acknowledged =
                offsets.0.iter().rposition(|it| it.acknowledged).expect("the first one is acknowledged");
            let Some(at) = offsets.0.iter().rposition(|it| it.committed.as_ref() == found) else {
                return Err(format!(
                    "{group}: {} of {} came back with {found:?}, which nobody committed lately",
                    partition.1, partition.0
                ));
            };
            if at < acknowledged {
                return Err(format!(
                    "{group}: {} of {} came back with {found:?}, although {:?} was acknowledged",
                    partition.1, partition.0, offsets.0[acknowledged].committed
                ));
            }
            offsets.0.truncate(at + 1);
        }
        for partition in found.keys() {
            if !history.offsets.contains_key(partition) {
                return Err(format!("{group}: {} of {} came back from nowhere", partition.1, partition.0));
            }
        }
        Ok(())
    }

    /// The broker has read back the highest generation that it may have given out.
    pub fn check_highest(&mut self, group: &str, highest: i32) -> Result<(), String> {
        self.checks += 1;
        let seen = self.groups.get(group).and_then(|history| history.generations.last_key_value());
        match seen {
            Some((seen, _)) if *seen > highest => Err(format!(
                "{group}: generation {seen} was given out, and after a restart the highest is {highest}"
            )),
            _ => Ok(()),
        }
    }

    /// All groups that anything was seen of.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(String::as_str)
    }
}

impl Offsets {
    fn acknowledge(&mut self, metadata: &str) {
        let at =
            self.0.iter().rposition(|it| it.committed.as_ref().is_some_and(|(_, known)| known == metadata));
        if let Some(at) = at {
            self.0[at].acknowledged = true;
            // What is before an acknowledged one can never come back.
            self.0.drain(..at);
        }
    }
}

/// Says who was taken for a member although it is none.
fn check_member(what: &str, asked: &impl std::fmt::Debug, checked: Result<(), String>) -> Result<(), String> {
    checked.map_err(|why| format!("{what} is accepted {why}: {asked:?}"))
}

fn name(member_id: &str, instance_id: Option<&str>) -> Name {
    instance_id.map_or_else(|| member_id.to_owned(), |id| format!("static {id}"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use coordination::reply::{Joined, JoinedMember, Synced};

    use super::*;

    fn commit(generation: i32, offset: i64, metadata: &str) -> Commit {
        Commit {
            group: "g".to_owned(),
            generation,
            member_id: "m".to_owned(),
            instance_id: None,
            offsets: vec![Committed {
                partition: ("t".to_owned(), 0),
                offset,
                metadata: metadata.to_owned(),
            }],
        }
    }

    fn found(offset: i64, metadata: &str) -> BTreeMap<Partition, (i64, String)> {
        BTreeMap::from([(("t".to_owned(), 0), (offset, metadata.to_owned()))])
    }

    fn join(checker: &mut Checker, member: &str, generation: i32, members: &[&str]) -> Result<(), String> {
        let op = op::JoinGroup {
            group: "g".to_owned(),
            member_id: member.to_owned(),
            instance_id: None,
            session_timeout_ms: 1,
            rebalance_timeout_ms: 1,
            protocol_type: "consumer".to_owned(),
            protocols: Vec::new(),
            reason: None,
            takes_member_id_first: true,
            can_skip_assignment: true,
        };
        let members: Vec<JoinedMember> = members
            .iter()
            .map(|id| JoinedMember { member_id: (*id).to_owned(), instance_id: None, metadata: Bytes::new() })
            .collect();
        let leader = if members.is_empty() { "other".to_owned() } else { member.to_owned() };
        let joined = Joined {
            generation,
            protocol_type: None,
            protocol: None,
            leader,
            members,
            skip_assignment: false,
        };
        let reply = reply::JoinGroup { member_id: member.to_owned(), result: Ok(joined.into()) };
        let (request, response) = (Request::Join(op), Response::Join(reply));
        checker.see_answer(0, &request, &response)?;
        checker.see_reply(&request, &response)
    }

    fn sync(checker: &mut Checker, member: &str, generation: i32, partition: i32) -> Result<(), String> {
        let op = op::SyncGroup {
            group: "g".to_owned(),
            generation,
            member_id: member.to_owned(),
            instance_id: None,
            protocol_type: None,
            protocol: None,
            must_name_protocol: false,
            assignments: Vec::new(),
        };
        let assignment = consumer_protocol::encode_assignment(&BTreeSet::from([("t".to_owned(), partition)]));
        let reply = reply::SyncGroup {
            result: Ok(Synced { protocol_type: None, protocol: None, assignment }.into()),
        };
        checker.see_reply(&Request::Sync(op), &Response::Sync(reply))
    }

    #[test]
    fn what_was_acknowledged_must_come_back_and_what_was_not_may() {
        let mut checker = Checker::default();
        join(&mut checker, "m", 1, &["m"]).expect("it is the first");
        for (offset, metadata) in [(1, "a"), (2, "b"), (3, "c")] {
            checker.see_commit(0, &commit(1, offset, metadata), false).expect("it is current");
        }
        let acknowledged = Request::Commit(commit(1, 2, "b"));
        checker.see_reply(&acknowledged, &Response::Commit(None)).expect("replies may leave");
        assert!(checker.clone().check_restored("g", &found(3, "c")).is_ok());
        assert!(checker.clone().check_restored("g", &found(2, "b")).is_ok());
        assert!(checker.clone().check_restored("g", &found(1, "a")).is_err());
        assert!(checker.clone().check_restored("g", &found(9, "z")).is_err());
        assert!(checker.check_restored("g", &BTreeMap::new()).is_err());
    }

    #[test]
    fn a_generation_belongs_to_those_who_were_first_told_of_it() {
        let mut checker = Checker::default();
        assert!(join(&mut checker, "a", 2, &["a", "b"]).is_ok());
        assert!(join(&mut checker, "b", 2, &[]).is_ok());
        assert!(join(&mut checker.clone(), "c", 2, &[]).is_err(), "c is not in it");
        assert!(join(&mut checker.clone(), "a", 2, &["a", "c"]).is_err(), "it had other members");
        assert!(join(&mut checker.clone(), "a", 1, &["a"]).is_err(), "it comes too late");
        assert!(join(&mut checker, "a", 3, &["a"]).is_ok());
        assert!(checker.check_highest("g", 3).is_ok());
        assert!(checker.check_highest("g", 2).is_err());
    }

    #[test]
    fn a_partition_has_one_owner_in_a_generation() {
        let mut checker = Checker::default();
        join(&mut checker, "a", 1, &["a", "b"]).expect("it is the first");
        assert!(sync(&mut checker, "a", 1, 0).is_ok());
        assert!(sync(&mut checker, "a", 1, 0).is_ok());
        assert!(sync(&mut checker, "b", 1, 0).is_err());
        assert!(sync(&mut checker, "b", 2, 1).is_err(), "nobody was told of generation 2");
    }

    #[test]
    fn whoever_was_left_behind_cannot_commit() {
        let mut checker = Checker::default();
        join(&mut checker, "m", 4, &["m"]).expect("it is the first");
        join(&mut checker, "m", 5, &["m"]).expect("it is the next");
        sync(&mut checker, "m", 5, 0).expect("it is the only owner");
        assert!(checker.see_commit(0, &commit(4, 1, "a"), false).is_err());
        assert!(checker.see_commit(0, &commit(5, 1, "a"), false).is_ok());
    }

    #[test]
    fn whoever_is_not_in_the_group_gets_no_heartbeat_accepted() {
        let heartbeat = |checker: &mut Checker, member: &str, generation| {
            let (group, member_id) = ("g".to_owned(), member.to_owned());
            let op = op::Heartbeat { group, generation, member_id, instance_id: None };
            let reply = reply::Heartbeat { error: None };
            checker.see_answer(0, &Request::Heartbeat(op), &Response::Heartbeat(reply))
        };
        let mut checker = Checker::default();
        join(&mut checker, "a", 2, &["a", "b"]).expect("it is the first");
        assert!(heartbeat(&mut checker, "a", 2).is_ok());
        assert!(heartbeat(&mut checker, "a", 1).is_err());
        assert!(heartbeat(&mut checker, "b", 2).is_ok());
        assert!(heartbeat(&mut checker, "c", 2).is_err());
        join(&mut checker, "b", 3, &["b"]).expect("it is alone");
        assert!(heartbeat(&mut checker, "a", 2).is_err());
    }
}
