//! What must be true after any step.

use std::collections::BTreeMap;

use coordination::group::{Decoded, Effects, GroupLog, GroupRecord, GroupSettings, Shard};
use coordination::ids::OrgId;
use coordination::op;
use coordination::reply::GroupState;

use crate::stage::{Stage, Stored};

impl Stage {
    /// Recovery must give back what is durable, from the whole log and from what compaction leaves of it.
    pub(crate) fn check(&self) {
        self.shard.assert_consistent();
        let rebalancing = |group: &str| {
            let state = self.shard.describe(group).state;
            matches!(
                state,
                GroupState::PreparingRebalance | GroupState::CompletingRebalance | GroupState::Dead
            )
        };
        let durable = |shard: &Shard| -> Vec<GroupRecord> {
            let is_settled = |record: &GroupRecord| !matches!(record, GroupRecord::Group { group, .. } if rebalancing(group));
            shard.durable().into_iter().filter(is_settled).collect()
        };
        let mut last: BTreeMap<(GroupLog, &[u8]), usize> = BTreeMap::new();
        for (index, stored) in self.log.iter().enumerate() {
            last.insert((stored.log, &stored.key), index);
        }
        let compacted = self.log.iter().enumerate().filter(|(index, stored)| {
            last[&(stored.log, stored.key.as_slice())] == *index && stored.value.is_some()
        });
        let compacted = compacted.map(|(_, stored)| stored.clone()).collect();
        for (log, first) in [(self.log.clone(), GroupLog::Kohort), (compacted, GroupLog::Offsets)] {
            // A limit that was lowered would make recovery begin a rebalance of its own.
            let settings = GroupSettings { members_max: usize::MAX, ..self.settings.clone() };
            let mut recovered = recovered(settings, &log, first);
            recovered.handle_loaded(self.now(), &mut Effects::default());
            assert_eq!(durable(&recovered), durable(&self.shard), "recovery equals memory");
        }
    }

    /// When nobody says anything any more, everybody is answered and every group becomes empty.
    pub(crate) fn check_end(&mut self) {
        let mut left = 1_000;
        while let Some(next) = self.shard.next_deadline() {
            self.now_ms = self.now_ms.max(next.as_millis());
            let mut effects = Effects::default();
            self.shard.handle_deadlines(self.now(), &mut effects);
            self.show(&effects, &mut String::new());
            left -= 1;
            assert!(left > 0, "deadlines come to an end");
        }
        self.check();
        assert!(self.tickets.iter().all(|(_, answered)| *answered), "everybody is answered");
        let mut listed = Vec::new();
        self.shard.list(&op::ListGroups { states: Vec::new(), types: Vec::new() }, &mut listed);
        assert!(listed.iter().all(|listed| listed.state == GroupState::Empty), "nobody is left");
    }

    /// Wherever a crash cuts the log, and even if it cuts one of the two a little earlier than the other, what is
    /// recovered is whole, is the same when it is recovered again, and gives out no generation twice.
    pub(crate) fn check_crashes(&self) {
        for cut in 0..=self.log.len() {
            for (cut_early, first) in [
                (None, GroupLog::Offsets),
                (Some(GroupLog::Offsets), GroupLog::Offsets),
                (Some(GroupLog::Kohort), GroupLog::Kohort),
            ] {
                let mut log = self.log[..cut].to_vec();
                // Records of one step and of the next may be in one flush.
                let last = log.split_off(cut.saturating_sub(5));
                log.extend(last.into_iter().filter(|stored| Some(stored.log) != cut_early));
                let mut once = recovered(self.settings.clone(), &log, first);
                let mut effects = Effects::default();
                once.handle_loaded(self.now(), &mut effects);
                once.assert_consistent();
                log.extend(effects.records.iter().map(stored));
                let mut again = recovered(self.settings.clone(), &log, first);
                again.handle_loaded(self.now(), &mut Effects::default());
                assert_eq!(again.durable(), once.durable(), "recovery cleans up for good");
                let Some(identity) = once.identity("g").filter(|_| cut_early.is_none()) else { continue };
                for (_, _, generation) in
                    self.given_out.iter().filter(|(length, id, _)| *length <= cut && *id == identity.id)
                {
                    assert!(identity.generation >= *generation, "a generation would be given out twice");
                }
            }
        }
    }
}

/// The shard of a broker that was started again and found these records, one log after the other.
pub(crate) fn recovered(settings: GroupSettings, log: &[Stored], first: GroupLog) -> Shard {
    let mut shard = Shard::new(OrgId::DEFAULT, settings);
    let second = if first == GroupLog::Offsets { GroupLog::Kohort } else { GroupLog::Offsets };
    for wanted in [first, second] {
        for Stored { log, key, value } in log.iter().filter(|stored| stored.log == wanted) {
            match GroupRecord::decode(*log, key, value.as_deref()).unwrap() {
                Decoded::Record(record) => shard.apply(&record),
                Decoded::Other { kind } => panic!("a record of kind {kind}"),
            }
        }
    }
    shard
}

pub(crate) fn stored(record: &GroupRecord) -> Stored {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record.encode_into(&mut key, &mut value);
    Stored { log: record.log(), key, value: Some(value).filter(|_| !record.is_tombstone()) }
}
