//! From the log to memory, and out of memory again.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use bytes::Bytes;

use crate::error_code::ErrorCode;
use crate::ids::GroupId;

use super::Shard;
use super::deadlines::Deadlines;
use super::effects::Effects;
use super::event::{Cause, Event};
use super::machine::{Group, GroupIdentity, Step};
use super::member::{NewMember, Protocols};
use super::phase::{Phase, Stable, Unsynced, Why};
use super::rebalance::{By, join_refusal, sync_refusal};
use super::record::{GroupRecord, GroupValue, Identity};
use super::timestamp::{Now, Timestamp};

/// What is only needed while the log is read.
#[derive(Clone, Debug, Default)]
pub(super) struct Loading {
    /// Events whose group has not been named yet.
    homeless_events: BTreeMap<GroupId, Vec<Event>>,
    /// The names of topics, so that groups that read the same ones share them.
    topics: BTreeSet<Arc<str>>,
}

impl Loading {
    fn topic(&mut self, name: &Arc<str>) -> Arc<str> {
        if let Some(known) = self.topics.get(name) {
            return Arc::clone(known);
        }
        self.topics.insert(Arc::clone(name));
        Arc::clone(name)
    }
}

impl Shard {
    /// Makes `record` true, as it was when it was written.
    ///
    /// For recovery: call it with all records of the shard's partition of `__consumer_offsets` and all of its groups
    /// in `__kohort`, each log in its order and one log after the other, then [`Self::handle_loaded`] once. The handlers
    /// have already done what the records say that they hand out.
    pub fn apply(&mut self, record: &GroupRecord) {
        match record {
            GroupRecord::Offset { group, topic, partition, value } => {
                if value.is_some() || self.groups.contains_key(group) {
                    let topic = self.loading.topic(topic);
                    self.recovering(group, |group, _| group.offsets.set(&topic, *partition, value.as_ref()));
                }
            }
            GroupRecord::Group { group, value } => {
                if value.is_some() || self.groups.contains_key(group) {
                    self.recovering(group, |group, deadlines| group.restore(value.as_deref(), deadlines));
                }
            }
            GroupRecord::Identity(identity) => self.apply_identity(identity),
            GroupRecord::IdentityDeleted(id) => {
                self.loading.homeless_events.remove(id);
                if let Some(name) = self.ids.remove(id) {
                    self.recovering(&name, |group, _| {
                        group.identity = None;
                        group.highest_generation = 0;
                        group.events = Default::default();
                    });
                }
            }
            GroupRecord::Event { id, slot, event } => self.apply_event(*id, *slot, event.as_deref()),
        }
    }

    fn apply_identity(&mut self, identity: &Identity) {
        let Identity { id, name, generation, created_ms, .. } = identity;
        self.ids.insert(*id, Arc::clone(name));
        // Compaction keeps the last record of a key where it was written, so that events can come before the
        // identity that they belong to.
        let events = self.loading.homeless_events.remove(id).unwrap_or_default();
        self.recovering(name, |group, _| {
            group.identity = Some(GroupIdentity { id: *id, created_ms: *created_ms });
            group.highest_generation = *generation;
            for event in events {
                group.events.push(event.into());
            }
        });
    }

    fn apply_event(&mut self, id: GroupId, slot: u32, event: Option<&Event>) {
        match (self.ids.get(&id).cloned(), event) {
            (Some(name), Some(event)) => {
                self.recovering(&name, |group, _| group.events.push(event.clone().into()));
            }
            (Some(name), None) => self.recovering(&name, |group, _| group.events.forget(slot)),
            (None, Some(event)) => {
                self.loading.homeless_events.entry(id).or_default().push(event.clone());
            }
            (None, None) => {
                let homeless = self.loading.homeless_events.get_mut(&id);
                if let Some(events) = homeless {
                    events.retain(|event| event.slot() != slot);
                }
            }
        }
    }

    /// After the last record: sessions begin, groups that are too large rebalance, and what a crash left half done
    /// is cleaned up.
    pub fn handle_loaded(&mut self, now: Now, effects: &mut Effects) {
        self.loading = Loading::default();
        for name in self.groups.names() {
            let exists = self.within(now, &name, effects, |group, step| {
                if group.is_stored() {
                    group.handle_loaded(step);
                } else {
                    group.store_identity_removal(step);
                }
                group.is_stored()
            });
            if exists == Some(false) {
                self.drop_group(&name);
            }
        }
    }

    /// The shard goes away: parked requests are answered 16, and later ones for the groups that were here 15.
    pub fn handle_unload(&mut self, effects: &mut Effects) {
        self.deadlines.clear();
        for name in self.groups.names() {
            let Some(group) = self.groups.get_mut(&name) else { continue };
            let before = group.usage();
            match mem::replace(&mut group.phase, Phase::Dead) {
                Phase::Preparing(phase) => {
                    for (id, ticket) in phase.joined {
                        effects.replies.push((ticket, join_refusal(&id, ErrorCode::NotCoordinator)));
                    }
                }
                Phase::Completing(phase) => {
                    for (_, ticket) in phase.syncing {
                        effects.replies.push((ticket, sync_refusal(ErrorCode::NotCoordinator)));
                    }
                }
                Phase::Empty | Phase::Stable(_) | Phase::Dead => {}
            }
            self.usage.change(before, group.usage());
        }
    }

    /// The records that say all that is durable now: what a compacted log would hold. A group that is rebalancing
    /// has none of its own, because its last record is of the generation before; one that has lost its last offset
    /// and never had a member has none at all.
    ///
    /// For checking that recovery gives back what was in memory.
    pub fn durable(&self) -> Vec<GroupRecord> {
        let mut records = Vec::new();
        for (_, group) in self.groups.in_order().into_iter().filter(|(_, group)| group.is_stored()) {
            records.extend(group.identity_value(self.org).map(GroupRecord::Identity));
            if let Some(identity) = &group.identity {
                records.extend(group.events.iter().map(|event| GroupRecord::Event {
                    id: identity.id,
                    slot: event.slot(),
                    event: Some(Box::new(event.clone())),
                }));
            }
            if group.is_recorded && matches!(group.phase, Phase::Empty | Phase::Stable(_)) {
                let value = Some(Box::new(group.value()));
                records.push(GroupRecord::Group { group: Arc::clone(&group.name), value });
            }
            records.extend(group.offsets.iter().map(|(topic, partition, offset)| GroupRecord::Offset {
                group: Arc::clone(&group.name),
                topic: Arc::clone(topic),
                partition,
                value: Some(offset.into()),
            }));
        }
        records
    }
}

impl Group {
    /// Becomes what the log says of the group. Sessions begin when everything is loaded.
    pub(super) fn restore(&mut self, value: Option<&GroupValue>, deadlines: &mut Deadlines) {
        let ids: Vec<Arc<str>> = self.members.iter().map(|(id, _)| Arc::clone(id)).collect();
        for id in ids {
            self.members.remove(&id, &self.name, deadlines);
        }
        self.is_recorded = value.is_some();
        let none = GroupValue::default();
        let value = value.unwrap_or(&none);
        self.protocol_type =
            Some(value.protocol_type.as_str()).filter(|kind| !kind.is_empty()).map(Arc::from);
        self.generation = value.generation;
        self.protocol = value.protocol.as_deref().map(Arc::from);
        self.leader = value.leader.as_deref().map(Arc::from);
        self.phase_since_ms = value.state_timestamp_ms;
        let protocol = self.protocol.clone().unwrap_or_default();
        for member in &value.members {
            let session_timeout_ms = member.session_timeout_ms;
            let has_own = member.rebalance_timeout_ms != -1;
            let new = NewMember {
                instance: member.instance_id.as_deref(),
                client_id: &member.client_id,
                host: &member.client_host,
                session_timeout_ms,
                // Records of version 0 do not have it.
                rebalance_timeout_ms: if has_own { member.rebalance_timeout_ms } else { session_timeout_ms },
                // Only the chosen protocol is stored. A member that joins again with all of its own has changed.
                protocols: Protocols::from([(Arc::clone(&protocol), copy(&member.subscription))]),
            };
            let id: Arc<str> = member.member_id.as_str().into();
            let is_twice = new.instance.is_some_and(|name| self.members.of_instance(name).is_some());
            if is_twice || self.members.contains(&id) {
                continue;
            }
            self.members.add(&id, new, Timestamp::from_millis(u64::MAX), &self.name, deadlines);
            self.members.restore(&id, copy(&member.assignment));
        }
        self.note_subscriptions();
        self.phase = if self.members.is_empty() {
            Phase::Empty
        } else {
            Phase::Stable(Stable { unsynced: Unsynced::default(), lost: Vec::new(), lost_bytes: 0 })
        };
    }

    fn handle_loaded(&mut self, step: &mut Step<'_>) {
        self.members.renew_all(step.now.at, &self.name, step.deadlines);
        if self.members.len() > step.settings.members_max {
            let why = Why { cause: Cause::TooLarge, who: None, members_before: self.members.len() };
            self.rebalance(step, why, By::Request);
        }
    }
}

/// Bytes of its own, so that they do not keep the log's buffer in memory.
fn copy(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}
