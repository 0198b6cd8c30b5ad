//! When the faults have stopped, everybody has to come to rest, and in time.

use std::collections::BTreeSet;

use coordination::reply::GroupState;

use crate::consumer::{Consumer, Phase, Profile};

use super::{Event, World};

impl World {
    /// Looks whether everybody has settled; true when that has lasted long enough.
    pub(super) fn look(&mut self) -> Result<bool, String> {
        self.after(250, Event::Look);
        let longest = |wait: fn(&Profile) -> u64| {
            self.everybody.iter().map(|it| wait(&it.consumer.profile)).max().unwrap_or(0)
        };
        let session = longest(|it| it.session_ms);
        let rebalance = longest(Profile::rebalance_timeout_ms);
        let patience = longest(Profile::join_ms);
        let metadata = longest(|it| it.metadata_ms);
        self.check_parked()?;
        match self.unsettled() {
            None => {
                let since = *self.settled_since.get_or_insert(self.now);
                self.summary.settled_after_ms = since - self.calm_at;
                if self.now < since + session + metadata {
                    return Ok(false);
                }
                // What a static member says when it comes back is written down and, as in Kafka, not heeded until the
                // next generation, so those groups are left out.
                let plain = |it: &Profile| it.protocols.len() == 1 && it.instance_id.is_none();
                if self.everybody.iter().all(|it| plain(&it.consumer.profile)) {
                    self.broker.check_bytes(self.now)?;
                }
                Ok(true)
            }
            Some(why) => {
                self.settled_since = None;
                let bound = patience + session + rebalance + metadata + 10_000;
                if self.now > self.calm_at + bound {
                    return Err(format!("{why}, {bound} ms after the faults stopped"));
                }
                Ok(false)
            }
        }
    }

    /// Nobody waits for longer than a rebalance of its group may take.
    pub(super) fn check_parked(&self) -> Result<(), String> {
        for (request, since) in self.broker.parked().filter(|(_, since)| *since >= self.calm_at) {
            let members = self.everybody.iter().map(|it| &it.consumer.profile);
            let longest = members
                .filter(|profile| profile.group == request.group())
                .map(Profile::rebalance_timeout_ms)
                .max()
                .unwrap_or(0);
            if self.now - since > longest + 5_000 {
                return Err(format!("{} waits for {} ms", request.summary(), self.now - since));
            }
        }
        Ok(())
    }

    /// Why somebody has not settled, if so.
    pub(super) fn unsettled(&self) -> Option<String> {
        if !self.up || !self.broker.is_loaded() {
            return Some("the broker is not ready".to_owned());
        }
        self.groups.iter().find_map(|group| self.unsettled_group(group))
    }

    pub(super) fn unsettled_group(&self, group: &str) -> Option<String> {
        let described = self.broker.describe(group)?;
        let members: Vec<(usize, &Consumer)> = self
            .everybody
            .iter()
            .enumerate()
            .map(|(at, process)| (at, &process.consumer))
            .filter(|(_, consumer)| consumer.profile.group == group && consumer.lives())
            .collect();
        if members.is_empty() {
            return (!matches!(described.state, GroupState::Empty | GroupState::Dead))
                .then(|| format!("{group} is {} although nobody lives", described.state));
        }
        if described.state != GroupState::Stable {
            return Some(format!("{group} is {}", described.state));
        }
        let mut owned = BTreeSet::new();
        let mut wanted = BTreeSet::new();
        for (at, consumer) in &members {
            if consumer.phase != Phase::Stable || !consumer.assigned {
                return Some(format!("c{at} of {group} is {:?}", consumer.phase));
            }
            if consumer.generation != members[0].1.generation {
                return Some(format!("c{at} of {group} is in generation {}", consumer.generation));
            }
            for partition in consumer.owned.keys() {
                if !owned.insert(partition.clone()) {
                    return Some(format!("{partition:?} of {group} has two owners"));
                }
            }
            // A static member that was restarted with other topics keeps its assignment, as in Kafka.
            let topics = consumer.profile.topics.iter().filter(|_| consumer.profile.instance_id.is_none());
            for topic in topics {
                let count = self.first_topics.get(topic).copied().unwrap_or(0);
                wanted.extend((0..count).map(|partition| (topic.clone(), partition)));
            }
        }
        if let Some(partition) = wanted.difference(&owned).next() {
            return Some(format!("{partition:?} of {group} has no owner"));
        }
        let known: BTreeSet<&str> = described.members.iter().map(|it| it.member_id.as_str()).collect();
        let living: BTreeSet<&str> = members.iter().map(|(_, it)| it.member_id.as_str()).collect();
        (known != living).then(|| format!("{group} has members {known:?} although {living:?} live"))
    }
}
