//! What lies in etcd for consumers that name no group.

use std::collections::BTreeMap;

use coordination::handoff::{Entry, Handoff, Key};
use etcd::Snapshot;

use crate::world::PREFIX;

#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct State {
    /// How many partitions each topic has.
    pub(crate) topics: BTreeMap<String, u32>,
    pub(crate) consumers: Vec<String>,
    pub(crate) owners: BTreeMap<Place, Owner>,
    /// Owners of partitions that are gone. They are kept for as long as the consumers are there, so that nobody else
    /// begins if the topic is made anew.
    pub(crate) of_gone: BTreeMap<Place, Owner>,
    pub(crate) handoffs: BTreeMap<Place, Handoff>,
    /// Who leads, as it wrote it.
    pub(crate) leader: Option<String>,
}

pub(crate) type Place = (String, u32);

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Owner {
    pub(crate) name: String,
    pub(crate) epoch: u64,
    /// When this was written.
    pub(crate) modified: u64,
}

impl State {
    pub(crate) fn read(snapshot: &Snapshot) -> Self {
        let mut state = Self::default();
        for entry in &snapshot.entries {
            let (group, key) = Key::decode(PREFIX, &entry.key).unwrap();
            if group.is_some() {
                continue;
            }
            if key == Key::Leader {
                state.leader = Some(String::from_utf8(entry.value.to_vec()).unwrap());
                continue;
            }
            match Entry::decode(key, &entry.value).unwrap() {
                Entry::Consumer(name, _) => state.consumers.push(name.to_string()),
                Entry::Assignment(place, assignment) => {
                    let name = assignment.owner.to_string();
                    let owner = Owner { name, epoch: assignment.epoch.0, modified: entry.modified };
                    state.owners.insert((place.topic.to_string(), place.partition), owner);
                }
                Entry::Handoff(place, handoff) => {
                    state.handoffs.insert((place.topic.to_string(), place.partition), handoff);
                }
                Entry::Topic(name, topic) => {
                    state.topics.insert(name.to_string(), topic.partitions);
                }
            }
        }
        let Self { topics, owners, .. } = &mut state;
        let is_gone = |(topic, number): &Place| topics.get(topic).is_none_or(|count| number >= count);
        let of_gone = owners.extract_if(.., |place, _| is_gone(place)).collect();
        Self { of_gone, ..state }
    }

    /// How many partitions each consumer owns.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts: BTreeMap<String, usize> =
            self.consumers.iter().map(|name| (name.clone(), 0)).collect();
        for owner in self.owners.values() {
            *counts.entry(owner.name.clone()).or_default() += 1;
        }
        counts
    }

    /// What stands between this and a group at rest whose consumers are these.
    pub(crate) fn unrest(&self, living: &[&str]) -> Option<String> {
        let mut expected: Vec<&str> = living.to_vec();
        expected.sort_unstable();
        if self.consumers != expected {
            return Some(format!("{:?} are registered and not {expected:?}", self.consumers));
        }
        if !self.handoffs.is_empty() {
            return Some(format!("there are handoffs: {:?}", self.handoffs));
        }
        let partitions = self.topics.iter().flat_map(|(topic, count)| (0..*count).map(move |it| (topic, it)));
        let missing: Vec<_> =
            partitions.filter(|(topic, it)| !self.owners.contains_key(&((*topic).clone(), *it))).collect();
        if living.is_empty() {
            let left: Vec<_> = self.owners.iter().chain(&self.of_gone).collect();
            return (!left.is_empty())
                .then(|| format!("nobody is there, but partitions have owners: {left:?}"));
        }
        if !missing.is_empty() {
            return Some(format!("nobody owns {missing:?}"));
        }
        let counts = self.counts();
        if let Some(stranger) = counts.keys().find(|name| !living.contains(&name.as_str())) {
            return Some(format!("{stranger} owns partitions"));
        }
        let (least, most) = (counts.values().min(), counts.values().max());
        if most.unwrap_or(&0) - least.unwrap_or(&0) > 1 {
            return Some(format!("there is no balance: {counts:?}"));
        }
        None
    }

    /// How many partitions have another owner than before.
    pub(crate) fn moved_since(&self, before: &Self) -> usize {
        let both = self.owners.iter().filter_map(|(place, owner)| Some((before.owners.get(place)?, owner)));
        both.filter(|(old, new)| old.name != new.name).count()
    }
}
