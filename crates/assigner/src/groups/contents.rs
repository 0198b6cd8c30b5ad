//! What the mirror holds, and how it follows etcd.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use coordination::handoff::{ConsumerName, Entry, Handoff, Key, TopicPartition};
use etcd::{KeyChange, KeyValue, Snapshot};
use tokio::sync::watch;

use crate::clock::now_ms;

use super::slot::{Slot, Touched};
use super::urgency::{Urgency, urgency};
use super::views::Seen;
use super::{Group, GroupId};

/// All groups, and who watches them.
#[derive(Debug)]
pub(super) struct Contents {
    groups: BTreeMap<GroupId, Slot>,
    is_filled: bool,
    is_interrupted: bool,
    /// Since when this may be older than etcd.
    behind_since: Option<Instant>,
    due: BTreeMap<GroupId, Urgency>,
}

/// What has become of a handoff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandoffChange {
    pub(crate) group: GroupId,
    pub(crate) partition: TopicPartition,
    /// As it was.
    pub(crate) before: Handoff,
    /// As it is; `None` if it is gone.
    pub(crate) after: Option<Handoff>,
    /// Whether the target is the owner now.
    pub(crate) is_moved: bool,
}

/// What an update has brought.
#[derive(Debug, Default)]
pub(super) struct Changed {
    pub(super) touched: BTreeMap<GroupId, Touched>,
    /// Values that cannot be read, in words.
    pub(super) unreadable: Vec<String>,
    pub(super) handoffs: Vec<HandoffChange>,
    pub(super) is_due: bool,
}

impl Changed {
    /// Puts what a later update has brought to the rest.
    pub(super) fn extend(&mut self, later: Self) {
        for (id, touched) in later.touched {
            self.touched.entry(id).or_default().extend(touched);
        }
        self.unreadable.extend(later.unreadable);
        self.handoffs.extend(later.handoffs);
        self.is_due |= later.is_due;
    }
}

impl Contents {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            groups: BTreeMap::new(),
            is_filled: false,
            is_interrupted: false,
            behind_since: Some(now),
            due: BTreeMap::new(),
        }
    }

    pub(super) fn is_filled(&self) -> bool {
        self.is_filled
    }

    pub(super) fn behind_since(&self) -> Option<Instant> {
        self.behind_since
    }

    pub(super) fn ids(&self) -> Vec<GroupId> {
        let groups = self.groups.iter().filter(|(_, slot)| !slot.group.is_empty());
        groups.map(|(id, _)| id.clone()).collect()
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Groups in which there is something to plan.
    pub(super) fn busy_ids(&self) -> Vec<GroupId> {
        let groups = self.groups.iter().filter(|(_, slot)| !slot.group.is_idle());
        groups.map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn group(&self, id: &GroupId) -> Option<&Arc<Group>> {
        self.groups.get(id).map(|slot| &slot.group)
    }

    pub(super) fn take_due(&mut self) -> BTreeMap<GroupId, Urgency> {
        std::mem::take(&mut self.due)
    }

    /// Nothing more is heard for now. Says whether that is new.
    pub(super) fn interrupt(&mut self, now: Instant) -> bool {
        self.behind_since.get_or_insert(now);
        !std::mem::replace(&mut self.is_interrupted, true)
    }

    /// Something is heard. Says whether that is new.
    pub(super) fn resume(&mut self) -> bool {
        std::mem::replace(&mut self.is_interrupted, false)
    }

    /// Nothing has changed.
    pub(super) fn current(&mut self) -> Changed {
        if self.is_filled {
            self.behind_since = None;
        }
        Changed::default()
    }

    /// Takes in everything anew.
    pub(super) fn replace(&mut self, prefix: &str, snapshot: Snapshot) -> Changed {
        let mut changed = Changed::default();
        let mut former = std::mem::take(&mut self.groups);
        for entry in snapshot.entries {
            let known =
                |id: &GroupId, key: &Key| former.get(id).and_then(|slot| slot.group.unreadable.get(key));
            let Ok((id, key)) = Key::decode(prefix, &entry.key) else { continue };
            if key == Key::Leader {
                continue;
            }
            let is_known = known(&id, &key) == Some(&entry.modified);
            let slot = self.groups.entry(id).or_default();
            if let Err(unreadable) = slot.put(key, &entry)
                && !is_known
            {
                changed.unreadable.push(unreadable);
            }
        }
        let now_ms = now_ms();
        for (id, slot) in &mut self.groups {
            slot.inherit(former.get(id).map(|slot| &*slot.group), now_ms);
        }
        for (id, slot) in &mut former {
            slot.watchers.retain(|_, watcher| watcher.receiver_count() > 0);
            if !slot.watchers.is_empty() {
                self.groups.entry(id.clone()).or_default().watchers = std::mem::take(&mut slot.watchers);
            }
        }
        for (id, slot) in &mut self.groups {
            // What was deleted before the snapshot is younger than what is left of the group.
            Arc::make_mut(&mut slot.group).state.revision = snapshot.revision;
            changed.touched.insert(id.clone(), Touched::everyone());
        }
        self.due = self.groups.keys().map(|id| (id.clone(), Urgency::Settled)).collect();
        changed.is_due = true;
        (self.is_filled, self.behind_since) = (true, None);
        changed
    }

    /// Takes in the changes up to a revision.
    pub(super) fn apply(&mut self, prefix: &str, revision: u64, changes: Vec<KeyChange>) -> Changed {
        let mut changed = Changed::default();
        for change in changes {
            let (KeyChange::Put(KeyValue { key: text, .. }) | KeyChange::Deleted { key: text, .. }) = &change;
            // Keys that are none of ours are somebody else's affair.
            let Ok((id, key)) = Key::decode(prefix, text) else { continue };
            if key == Key::Leader {
                continue;
            }
            let slot = self.groups.entry(id.clone()).or_default();
            let touched = changed.touched.entry(id.clone()).or_default();
            slot.touch(&key, touched);
            let before = slot.entry(&key);
            match change {
                KeyChange::Put(entry) => {
                    if let Err(unreadable) = slot.put(key.clone(), &entry) {
                        changed.unreadable.push(unreadable);
                    }
                    if let Key::Handoff(place) = &key {
                        slot.date(place, before.as_ref(), now_ms());
                    }
                }
                KeyChange::Deleted { revision, .. } => slot.delete(&key, revision),
            }
            slot.touch(&key, touched);
            let after = slot.entry(&key);
            if let Some(urgency) = urgency(&slot.group.state, before.as_ref(), after.as_ref()) {
                let due = self.due.entry(id.clone()).or_insert(urgency);
                *due = urgency.max(*due);
                changed.is_due = true;
            }
            if let Some(Entry::Handoff(partition, before)) = before {
                let after = match after {
                    Some(Entry::Handoff(_, after)) => Some(after),
                    _ => None,
                };
                let is_moved = false;
                changed.handoffs.push(HandoffChange { group: id, partition, before, after, is_moved });
            }
        }
        // Only now, since the assignment and the handoff change in the same revision, in whatever order.
        for change in &mut changed.handoffs {
            let group = self.groups.get(&change.group).map(|slot| &slot.group);
            let assignment = group.and_then(|group| group.state.assignments.get(&change.partition));
            change.is_moved = assignment.is_some_and(|stored| {
                stored.value.owner == change.before.to && stored.value.epoch == change.before.epoch
            });
        }
        for id in changed.touched.keys() {
            let Some(slot) = self.groups.get_mut(id) else { continue };
            let group = Arc::make_mut(&mut slot.group);
            group.state.revision = group.state.revision.max(revision);
            slot.watchers.retain(|_, watcher| watcher.receiver_count() > 0);
            self.forget_if_empty(id);
        }
        self.behind_since = None;
        changed
    }

    /// Tells the watchers of those who were touched what is new to them.
    pub(super) fn publish(&self, touched: &BTreeMap<GroupId, Touched>) {
        for (id, touched) in touched {
            if let Some(slot) = self.groups.get(id) {
                slot.publish(touched);
            }
        }
    }

    /// Begins to watch a consumer.
    pub(super) fn watch(&mut self, id: &GroupId, consumer: &ConsumerName) -> watch::Receiver<Seen> {
        self.groups.entry(id.clone()).or_default().watch(consumer)
    }

    /// Somebody has ceased to watch a consumer.
    pub(super) fn unwatch(&mut self, id: &GroupId, consumer: &ConsumerName) {
        if let Some(slot) = self.groups.get_mut(id) {
            slot.unwatch(consumer);
        }
        self.forget_if_empty(id);
    }

    fn forget_if_empty(&mut self, id: &GroupId) {
        if self.groups.get(id).is_some_and(|slot| slot.group.is_empty() && slot.watchers.is_empty()) {
            self.groups.remove(id);
            self.due.remove(id);
        }
    }
}

#[cfg(test)]
mod tests;
