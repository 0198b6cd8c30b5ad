//! One group of the mirror, and who watches its consumers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coordination::handoff::{
    Change, ConsumerName, Entry, Handoff, Key, State, Stored, Topic, TopicPartition, View, commands, views,
};
use etcd::{KeyValue, LeaseId};
use tokio::sync::watch;

use super::Group;
use super::views::Seen;

/// With more consumers than this to be told something, one pass over the group for all of them may be cheaper.
const SINGLE_VIEWS_MAX: usize = 4;

/// A group and who watches it.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Copied when it changes while somebody still looks at it.
    pub(super) group: Arc<Group>,
    pub(super) watchers: BTreeMap<ConsumerName, watch::Sender<Seen>>,
    /// For each consumer the partitions that it owns, gets or lets go of. Without it, every acknowledgement in a group
    /// of ten thousand partitions would have to look at all of them.
    places: BTreeMap<ConsumerName, BTreeSet<TopicPartition>>,
}

/// Who may have to be told something.
#[derive(Debug, Default)]
pub(super) struct Touched {
    is_everyone: bool,
    consumers: BTreeSet<ConsumerName>,
}

impl Touched {
    pub(super) fn everyone() -> Self {
        Self { is_everyone: true, consumers: BTreeSet::new() }
    }

    pub(super) fn extend(&mut self, others: Self) {
        self.is_everyone |= others.is_everyone;
        self.consumers.extend(others.consumers);
    }
}

impl Slot {
    /// Takes in a key. A value that cannot be read is as if it were not there, except that a topic keeps the number of
    /// partitions that it had: without it all its consumers would have to stop.
    pub(super) fn put(&mut self, key: Key, entry: &KeyValue) -> Result<(), String> {
        if key == Key::Leader {
            return Ok(());
        }
        let KeyValue { key: text, value, modified, lease } = entry;
        match Entry::decode(key.clone(), value) {
            Ok(value) => {
                self.apply(&key, *modified, Some(Change::Put(value)), *lease);
                Ok(())
            }
            Err(error) => {
                let change = (!matches!(key, Key::Topic(_))).then(|| Change::Delete(key.clone()));
                self.apply(&key, *modified, change, 0);
                Arc::make_mut(&mut self.group).unreadable.insert(key, *modified);
                Err(format!("`{text}` at revision {modified}: {error}"))
            }
        }
    }

    /// Goes on where the mirror was before it was filled anew.
    pub(super) fn inherit(&mut self, former: Option<&Group>, now_ms: u64) {
        let group = Arc::make_mut(&mut self.group);
        for key in group.unreadable.keys() {
            if let Key::Topic(name) = key
                && let Some(topic) = former.and_then(|former| former.state.topics.get(name))
            {
                group.state.topics.insert(name.clone(), topic.clone());
            }
        }
        for (place, stored) in &mut group.state.handoffs {
            let before = former.and_then(|former| former.state.handoffs.get(place));
            date(&mut stored.value, before.map(|stored| &stored.value), |written_ms| written_ms.min(now_ms));
        }
    }

    /// A handoff has just been written: what is new of it is of now.
    pub(super) fn date(&mut self, place: &TopicPartition, before: Option<&Entry>, now_ms: u64) {
        let before = match before {
            Some(Entry::Handoff(_, before)) => Some(before),
            _ => None,
        };
        if let Some(stored) = Arc::make_mut(&mut self.group).state.handoffs.get_mut(place) {
            date(&mut stored.value, before, |_| now_ms);
        }
    }

    pub(super) fn delete(&mut self, key: &Key, revision: u64) {
        self.apply(key, revision, Some(Change::Delete(key.clone())), 0);
    }

    fn apply(&mut self, key: &Key, revision: u64, change: Option<Change>, lease: LeaseId) {
        for name in concerned(&self.group.state, key) {
            self.leave(&name, key);
        }
        let group = Arc::make_mut(&mut self.group);
        group.unreadable.remove(key);
        if let Key::Consumer(name) = key {
            if lease == 0 {
                group.leases.remove(name);
            } else {
                group.leases.insert(name.clone(), lease);
            }
        }
        if let Some(change) = change {
            group.state.apply(revision, change);
        }
        if let Key::Assignment(place) | Key::Handoff(place) = key {
            for name in concerned(&self.group.state, key) {
                self.places.entry(name).or_default().insert(place.clone());
            }
        }
    }

    /// Forgets that a partition concerns a consumer.
    fn leave(&mut self, name: &ConsumerName, key: &Key) {
        let (Key::Assignment(place) | Key::Handoff(place)) = key else { return };
        if let Some(places) = self.places.get_mut(name) {
            places.remove(place);
            if places.is_empty() {
                self.places.remove(name);
            }
        }
    }

    /// What lies under a key.
    pub(super) fn entry(&self, key: &Key) -> Option<Entry> {
        let State { consumers, assignments, handoffs, topics, .. } = &self.group.state;
        Some(match key {
            Key::Consumer(name) => Entry::Consumer(name.clone(), consumers.get(name)?.value.clone()),
            Key::Assignment(place) => Entry::Assignment(place.clone(), assignments.get(place)?.value.clone()),
            Key::Handoff(place) => Entry::Handoff(place.clone(), handoffs.get(place)?.value.clone()),
            Key::Topic(name) => Entry::Topic(name.clone(), topics.get(name)?.value.clone()),
            Key::Leader => return None,
        })
    }

    /// Notes whom a key concerns as it is.
    pub(super) fn touch(&self, key: &Key, touched: &mut Touched) {
        match key {
            Key::Consumer(name) => {
                touched.consumers.insert(name.clone());
            }
            Key::Assignment(_) | Key::Handoff(_) => {
                touched.consumers.extend(concerned(&self.group.state, key));
            }
            Key::Topic(_) => touched.is_everyone = true,
            Key::Leader => {}
        }
    }

    /// Tells the watchers of those who were touched what is new to them.
    pub(super) fn publish(&self, touched: &Touched) {
        let Self { group, watchers, .. } = self;
        let told: Vec<(&ConsumerName, &watch::Sender<Seen>)> = watchers
            .iter()
            .filter(|(name, _)| touched.is_everyone || touched.consumers.contains(*name))
            .collect();
        let are_many = told.len() > SINGLE_VIEWS_MAX && told.len() > watchers.len() / 4;
        let mut all = are_many.then(|| views(&group.state));
        for (name, watcher) in told {
            let view = match &mut all {
                Some(all) => all.remove(name).unwrap_or_default(),
                None => self.view(name),
            };
            let seen = Seen::new(group, name, view);
            watcher.send_if_modified(|known| {
                let is_new = *known != seen;
                *known = seen;
                is_new
            });
        }
    }

    /// What a consumer should know. It depends on nothing but its own key, the partitions that concern it, and how many
    /// their topics have.
    fn view(&self, name: &ConsumerName) -> View {
        let State { revision, consumers, assignments, handoffs, topics } = &self.group.state;
        let mut part = State { revision: *revision, ..State::default() };
        if let Some(consumer) = consumers.get(name) {
            part.consumers.insert(name.clone(), consumer.clone());
        }
        for place in self.places.get(name).into_iter().flatten() {
            if let Some(assignment) = assignments.get(place) {
                part.assignments.insert(place.clone(), assignment.clone());
            }
            if let Some(handoff) = handoffs.get(place) {
                part.handoffs.insert(place.clone(), handoff.clone());
            }
            if let Some(topic) = topics.get(&place.topic)
                && !part.topics.contains_key(&place.topic)
            {
                let value = Topic::new(topic.value.partitions);
                part.topics.insert(place.topic.clone(), Stored { value, revision: topic.revision });
            }
        }
        commands(name, None, &part).1
    }

    pub(super) fn watch(&mut self, name: &ConsumerName) -> watch::Receiver<Seen> {
        if let Some(watcher) = self.watchers.get(name) {
            return watcher.subscribe();
        }
        let (watcher, receiver) = watch::channel(Seen::new(&self.group, name, self.view(name)));
        self.watchers.insert(name.clone(), watcher);
        receiver
    }

    pub(super) fn unwatch(&mut self, name: &ConsumerName) {
        if self.watchers.get(name).is_some_and(|watcher| watcher.receiver_count() == 0) {
            self.watchers.remove(name);
        }
    }
}

/// Whom the partition of a key concerns, as it is.
fn concerned(state: &State, key: &Key) -> Vec<ConsumerName> {
    let (Key::Assignment(place) | Key::Handoff(place)) = key else { return Vec::new() };
    let mut names: Vec<ConsumerName> = Vec::new();
    names.extend(state.assignments.get(place).map(|stored| stored.value.owner.clone()));
    let both = |handoff: &Handoff| [handoff.from.clone(), handoff.to.clone()];
    names.extend(state.handoffs.get(place).into_iter().flat_map(|stored| both(&stored.value)));
    names
}

/// Brings the times of a handoff to this instance's clock: a phase has lasted, and a target has made no progress, for as
/// long as has been seen here. Others' clocks may be wrong by more than a handoff may take. `unseen` says what to make
/// of a time that is new here.
fn date(handoff: &mut Handoff, before: Option<&Handoff>, unseen: impl Fn(u64) -> u64) {
    let before = before.filter(|before| before.id == handoff.id);
    handoff.phase_since_ms = match before.filter(|before| before.phase == handoff.phase) {
        Some(before) => before.phase_since_ms,
        None => unseen(handoff.phase_since_ms),
    };
    let known = before.and_then(|before| before.progress);
    if let Some(progress) = &mut handoff.progress {
        progress.at_ms = match known.filter(|known| known.done == progress.done) {
            Some(known) => known.at_ms,
            None => unseen(progress.at_ms),
        };
    }
}
