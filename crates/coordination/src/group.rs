//! Classic consumer groups: who is a member, who reads what, and how far each group has read.
//!
//! A [`Shard`] is all groups of one partition of `__consumer_offsets`. Call its `handle_*` functions with a request
//! and the time; append the [`Effects::records`] to their logs, then send the [`Effects::replies`]. Memory runs
//! ahead of the log: if an append fails, drop the shard, read it back with [`Shard::apply`] and tell everybody who
//! waits that this is no coordinator (16), so that they come back.
//!
//! Requests that have to wait (JoinGroup, SyncGroup) are [`Ticket`]s. Each is answered exactly once, by a later step
//! if need be; [`Shard::next_deadline`] says when to call [`Shard::handle_deadlines`] if nothing else happens.

mod effects;
mod timestamp;

mod machine;
mod member;
mod phase;

mod heartbeat;
mod join_group;
mod leave_group;
mod rebalance;
mod sync_group;

mod admin;
mod by_name;
mod commit;
mod consistency;
pub mod consumer_protocol;
mod deadlines;
mod event;
mod java_hash;
mod offsets;
mod record;
mod recovery;
mod settings;
mod slug;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::{GroupId, OrgId};

pub use commit::{Commit, CommitOffset, WantedOffsets};
pub use effects::{Caller, Effects, Minted, Room, Ticket, Usage};
pub use event::{Cause, Culprit, Event, Outcome, Stage, Underway};
pub use java_hash::group_partition;
pub use offsets::{CommittedOffset, ExpiryBase, Offsets, metadata_fits};
pub use record::{
    Decoded, GroupLog, GroupRecord, GroupRecordError, GroupValue, Identity, KAFKA_TEXT_MAX, MemberValue,
    OffsetValue,
};
pub use settings::GroupSettings;
pub use slug::Slug;
pub use timestamp::{Now, Timestamp};

use by_name::ByName;
use deadlines::Deadlines;
use machine::{Group, Step};
use recovery::Loading;

/// All groups of one partition of `__consumer_offsets`.
#[derive(Clone, Debug)]
pub struct Shard {
    org: OrgId,
    settings: GroupSettings,
    groups: ByName<Group>,
    /// The names of the groups that have an id.
    ids: BTreeMap<GroupId, Arc<str>>,
    deadlines: Deadlines,
    usage: Usage,
    loading: Loading,
}

impl Shard {
    /// A shard without groups.
    pub fn new(org: OrgId, settings: GroupSettings) -> Self {
        Self {
            org,
            settings,
            groups: ByName::default(),
            ids: BTreeMap::new(),
            deadlines: Deadlines::default(),
            usage: Usage::default(),
            loading: Loading::default(),
        }
    }

    /// Whose groups these are.
    pub fn org(&self) -> OrgId {
        self.org
    }

    /// Uses other settings from now on. Deadlines that are set stay.
    pub fn configure(&mut self, settings: GroupSettings) {
        self.settings = settings;
    }

    /// When to call [`Self::handle_deadlines`] if nothing else happens first.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.next()
    }

    /// Does what is due. Call it after the input that has arrived: a member whose heartbeat waited behind a stall is
    /// alive.
    pub fn handle_deadlines(&mut self, now: Now, effects: &mut Effects) {
        while let Some((name, due)) = self.deadlines.pop(now.at) {
            self.within(now, &name, effects, |group, step| group.handle_deadline(step, due));
        }
    }

    /// What the groups take.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Runs one step of one group, if there is such a group, and keeps count of what it takes.
    fn within<T>(
        &mut self,
        now: Now,
        name: &str,
        effects: &mut Effects,
        step: impl FnOnce(&mut Group, &mut Step<'_>) -> T,
    ) -> Option<T> {
        let group = self.groups.get_mut(name)?;
        let before = group.usage();
        let had_id = group.identity.is_some();
        let settings = &self.settings;
        let result = step(
            group,
            &mut Step {
                now,
                org: self.org,
                settings,
                room: Room::UNLIMITED,
                deadlines: &mut self.deadlines,
                effects,
            },
        );
        self.usage.change(before, group.usage());
        if let Some(identity) = group.identity.filter(|_| !had_id) {
            self.ids.insert(identity.id, Arc::clone(&group.name));
        }
        Some(result)
    }

    /// Changes a group as the log says, and makes it if there is none.
    fn recovering(&mut self, name: &str, change: impl FnOnce(&mut Group, &mut Deadlines)) {
        if !self.groups.contains_key(name) {
            self.add_group(name);
        }
        if let Some(group) = self.groups.get_mut(name) {
            let before = group.usage();
            change(group, &mut self.deadlines);
            self.usage.change(before, group.usage());
        }
    }

    fn add_group(&mut self, name: &str) {
        let group = Group::new(name);
        self.usage.add(group.usage());
        self.groups.insert(Arc::clone(&group.name), Box::new(group));
    }

    fn drop_group(&mut self, name: &str) {
        if let Some((_, group)) = self.groups.remove(name) {
            self.usage.take(group.usage());
            if let Some(identity) = &group.identity {
                self.ids.remove(&identity.id);
            }
        }
    }
}
