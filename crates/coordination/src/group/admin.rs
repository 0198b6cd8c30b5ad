//! What administrators see of groups and do to them, and what happens to groups that nobody needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::access::Operations;
use crate::error_code::ErrorCode;
use crate::ids::TopicId;
use crate::op;
use crate::reply::{DescribedGroup, DescribedMember, GroupState, ListedGroup};

use super::Shard;
use super::effects::Effects;
use super::event::{Event, Stage, Underway};
use super::machine::{CONSUMER, Group, Step};
use super::offsets::ExpiryBase;
use super::phase::Phase;
use super::record::{GroupRecord, Identity};
use super::timestamp::Now;

/// How many members are named of those that the others wait for.
const NAMED: usize = 20;

impl Shard {
    /// Adds the groups that pass the filters to `list`, by name.
    pub fn list(&self, filter: &op::ListGroups, list: &mut Vec<ListedGroup>) {
        // A filter can be as long as a request; it is gone through once for each state and not for each group.
        let mut asked_for = GroupState::ALL.to_vec();
        asked_for.retain(|state| {
            let mut names = filter.states.iter().map(|name| name.trim());
            filter.states.is_empty() || names.any(|name| name.eq_ignore_ascii_case(state.name()))
        });
        // Unlike states, types are not trimmed, as in Kafka 4.3.
        let mut types = filter.types.iter();
        if !filter.types.is_empty() && !types.any(|name| name.eq_ignore_ascii_case("classic")) {
            return;
        }
        for (name, group) in self.groups.in_order() {
            let state = group.phase.state();
            if asked_for.contains(&state) {
                let protocol_type = group.protocol_type.as_deref().unwrap_or_default().to_owned();
                list.push(ListedGroup { group: name.to_string(), protocol_type, state });
            }
        }
    }

    /// Adds how many groups are in each state to `counts`.
    pub fn count_by_state(&self, counts: &mut BTreeMap<GroupState, usize>) {
        for (_, group) in self.groups.iter() {
            *counts.entry(group.phase.state()).or_default() += 1;
        }
    }

    /// Shows a group with its members; as dead if it does not exist.
    pub fn describe(&self, group: &str) -> DescribedGroup {
        let Some(found) = self.groups.get(group).filter(|group| !matches!(group.phase, Phase::Dead)) else {
            return DescribedGroup {
                group: group.to_owned(),
                error: None,
                state: GroupState::Dead,
                protocol_type: String::new(),
                protocol: String::new(),
                members: Vec::new(),
                operations: Operations::OF_GROUP,
            };
        };
        let is_stable = matches!(found.phase, Phase::Stable(_));
        let protocol = found.protocol.as_deref().filter(|_| is_stable).unwrap_or_default();
        let members = found.members.iter().map(|(id, member)| DescribedMember {
            member_id: id.to_string(),
            instance_id: member.instance.as_deref().map(str::to_owned),
            client_id: member.client_id.to_string(),
            client_host: member.host.to_string(),
            metadata: member.metadata(protocol).filter(|_| is_stable).cloned().unwrap_or_default(),
            assignment: member.assignment().clone(),
        });
        DescribedGroup {
            group: group.to_owned(),
            error: None,
            state: found.phase.state(),
            protocol_type: found.protocol_type.as_deref().unwrap_or_default().to_owned(),
            protocol: protocol.to_owned(),
            members: members.collect(),
            operations: Operations::OF_GROUP,
        }
    }

    /// The group's last rebalances, the oldest first.
    pub fn events(&self, group: &str) -> Vec<Event> {
        self.groups.get(group).map(|group| group.events.iter().cloned().collect()).unwrap_or_default()
    }

    /// The rebalance that the group is in.
    pub fn underway(&self, group: &str) -> Option<Underway> {
        self.groups.get(group)?.underway()
    }

    /// What is stored of the group beside Kafka's formats; `None` if there is no such group or it was never named.
    pub fn identity(&self, group: &str) -> Option<Identity> {
        self.groups.get(group)?.identity_value(self.org)
    }

    /// Removes a group with its offsets, or says why not.
    pub fn handle_delete_group(&mut self, now: Now, group: &str, effects: &mut Effects) -> Option<ErrorCode> {
        let refusal = match self.groups.get(group).map(|group| &group.phase) {
            None | Some(Phase::Dead) => Some(ErrorCode::GroupIdNotFound),
            Some(Phase::Empty) => None,
            Some(Phase::Preparing(_) | Phase::Completing(_) | Phase::Stable(_)) => {
                Some(ErrorCode::NonEmptyGroup)
            }
        };
        if refusal.is_none() {
            self.remove_group(now, group, effects);
        }
        refusal
    }

    /// Forgets the offsets of a topic that was deleted, in every group.
    pub fn handle_topic_deleted(&mut self, now: Now, name: &str, id: TopicId, effects: &mut Effects) {
        let readers = self
            .groups
            .in_order()
            .into_iter()
            .filter(|(_, group)| !group.offsets.of_deleted_topic(name, id).is_empty());
        let readers: Vec<Arc<str>> = readers.map(|(name, _)| Arc::clone(name)).collect();
        let topic: Arc<str> = name.into();
        for reader in readers {
            self.within(now, &reader, effects, |group, step| {
                let partitions = group.offsets.of_deleted_topic(&topic, id).into_iter();
                let gone: Vec<_> = partitions.map(|partition| (Arc::clone(&topic), partition)).collect();
                group.forget_offsets(step, gone);
            });
        }
    }

    /// Forgets offsets that are too old, and empty groups without offsets. Due every
    /// `offsets.retention.check.interval.ms`.
    pub fn handle_expiry(&mut self, now: Now, effects: &mut Effects) {
        for name in self.groups.names() {
            let is_over = self.within(now, &name, effects, Group::expire);
            if is_over == Some(true) {
                self.remove_group(now, &name, effects);
            }
        }
    }

    /// Removes a group: tombstones for its offsets first, so that a crash in between leaves a group without
    /// offsets and not offsets without a group.
    pub(super) fn remove_group(&mut self, now: Now, name: &str, effects: &mut Effects) {
        self.within(now, name, effects, Group::store_removal);
        self.drop_group(name);
    }
}

impl Group {
    fn underway(&self) -> Option<Underway> {
        let (story, stage, absent, newcomers): (_, _, Vec<&str>, _) = match &self.phase {
            Phase::Preparing(phase) => {
                let ids = self.members.iter().map(|(id, _)| &**id);
                let absent = ids.filter(|id| !phase.joined.contains_key(*id)).collect();
                (&phase.story, Stage::Joining, absent, self.pending.len())
            }
            Phase::Completing(phase) => {
                (&phase.story, Stage::Assigning, self.leader.as_deref().into_iter().collect(), 0)
            }
            Phase::Empty | Phase::Stable(_) | Phase::Dead => return None,
        };
        Some(Underway {
            began_ms: story.began.wall_ms,
            cause: story.why.cause.clone(),
            who: story.why.who.clone(),
            members_before: story.why.members_before,
            members: self.members.len(),
            stage,
            waits_for: absent.iter().take(NAMED).filter_map(|id| self.culprit(id)).collect(),
            waits_for_more: absent.len().saturating_sub(NAMED),
            newcomers,
        })
    }

    /// Forgets what is too old; says whether nothing is left to keep the group for.
    fn expire(&mut self, step: &mut Step<'_>) -> bool {
        let is_empty = matches!(self.phase, Phase::Empty);
        if !self.offsets.is_empty() {
            let base = match (&self.phase, &self.protocol_type) {
                (Phase::Empty, None) => Some(ExpiryBase::Commit),
                (Phase::Empty, Some(_)) => {
                    Some(self.phase_since_ms.map_or(ExpiryBase::Commit, ExpiryBase::Since))
                }
                (Phase::Stable(_), Some(kind)) if **kind == *CONSUMER => Some(ExpiryBase::Commit),
                (Phase::Stable(_) | Phase::Preparing(_) | Phase::Completing(_) | Phase::Dead, _) => None,
            };
            let subscribed = if is_empty {
                Some(BTreeSet::new())
            } else {
                self.subscribed(self.offsets.topics().map(|(name, _)| &**name))
            };
            if let (Some(base), Some(subscribed)) = (base, subscribed) {
                let retention = step.settings.offsets_retention;
                let expired = self
                    .offsets
                    .expired(step.now.wall_ms, retention, base, |topic| subscribed.contains(topic));
                self.forget_offsets(step, expired);
            }
        }
        is_empty && self.offsets.is_empty()
    }

    /// Writes down that nothing is left of the group.
    fn store_removal(&mut self, step: &mut Step<'_>) {
        let offsets: Vec<(Arc<str>, i32)> =
            self.offsets.iter().map(|(topic, partition, _)| (Arc::clone(topic), partition)).collect();
        self.forget_offsets(step, offsets);
        let pending: Vec<Arc<str>> = self.pending.keys().cloned().collect();
        for id in pending {
            self.remove_pending(step, &id);
        }
        step.effects.records.push(GroupRecord::Group { group: Arc::clone(&self.name), value: None });
        self.store_identity_removal(step);
    }

    /// Writes down that the group's id is given up, and its story with it.
    pub(super) fn store_identity_removal(&self, step: &mut Step<'_>) {
        if let Some(identity) = &self.identity {
            let slots = self.events.iter().map(Event::slot);
            let events = slots.map(|slot| GroupRecord::Event { id: identity.id, slot, event: None });
            step.effects.records.extend(events);
            step.effects.records.push(GroupRecord::IdentityDeleted(identity.id));
        }
    }
}
