//! When the faults have stopped, every group has to come to rest within its own timeouts, and to stay there.

use std::collections::{BTreeMap, BTreeSet};

use coordination::reply::GroupState;

use crate::consumer::{Consumer, Profile};

use super::{Event, World};

/// How long after the last fault the broker may still be starting and reading its logs.
const STARTING_MS: u64 = 16_000;

/// How much longer until its gateways have reached it, at the latest of their attempts.
const REACHING_MS: u64 = 4_000;

/// What messages, flushes and pauses between two attempts may take beside all timeouts.
const SLACK_MS: u64 = 5_000;

/// The timeouts of one group: the longest of any of its members.
struct Timeouts {
    session: u64,
    rebalance: u64,
    /// How long a client waits for an answer that does not come.
    patience: u64,
    /// How long it takes until a leader has seen that a topic has changed.
    metadata: u64,
    heartbeat: u64,
}

impl Timeouts {
    /// How long a group may take to come to rest: a client notices that its connection is lost, whoever is dead
    /// expires, a rebalance waits for those that do not come, and the leader learns of new partitions.
    fn settling(&self) -> u64 {
        self.patience + self.session + self.rebalance + self.metadata + SLACK_MS
    }

    /// How long a group has to stay as it is: by then a member that does not heartbeat would be gone, and a leader
    /// that has missed something would have seen it.
    fn rest(&self) -> u64 {
        self.session + self.metadata
    }
}

impl World {
    /// Something comes to a group from outside, and its time to settle begins anew.
    pub(super) fn disturb(&mut self, group: &str) {
        self.disturbed_at.insert(group.to_owned(), self.now.max(self.calm_at));
    }

    /// Looks whether every group has settled; true when that has lasted long enough.
    pub(super) fn look(&mut self) -> Result<bool, String> {
        self.after(250, Event::Look);
        if !self.up || !self.broker.is_loaded() {
            if self.now > self.calm_at + STARTING_MS {
                return Err(format!("the broker is not ready {STARTING_MS} ms after the faults stopped"));
            }
            return Ok(false);
        }
        if let Some(at) = self.gateways.iter().position(|it| it.is_up() && it.link().is_none()) {
            if self.now > self.calm_at + STARTING_MS + REACHING_MS {
                return Err(format!(
                    "g{at} has no rail {} ms after the faults stopped",
                    self.now - self.calm_at
                ));
            }
            return Ok(false);
        }
        self.check_asked()?;
        self.check_rails()?;
        let mut all_rest = true;
        for group in self.groups.clone() {
            all_rest &= self.look_at(&group)?;
        }
        // What a static member says when it comes back is written down and, as in Kafka, not heeded until the next
        // generation, so those groups are left out.
        let plain = |it: &Profile| it.protocols.len() == 1 && it.instance_id.is_none();
        if all_rest && self.everybody.iter().all(|it| plain(&it.consumer.profile)) {
            self.broker.check_bytes(self.now)?;
        }
        Ok(all_rest)
    }

    /// Looks whether a group is at rest, and has been for long enough.
    fn look_at(&mut self, group: &str) -> Result<bool, String> {
        let disturbed_at = self.disturbed_at.get(group).copied().unwrap_or(self.calm_at);
        let timeouts = self.timeouts(group);
        let Some(why) = self.unsettled(group) else {
            let since = *self.settled_since.entry(group.to_owned()).or_insert(self.now);
            let took = since.saturating_sub(disturbed_at);
            let summary = &mut self.summary;
            summary.settled_after_ms = summary.settled_after_ms.max(took);
            summary.settled_per_mille = summary.settled_per_mille.max(took * 1_000 / timeouts.settling());
            return Ok(self.now >= since.max(disturbed_at) + timeouts.rest());
        };
        // Somebody that was silent for long may come back a moment before its session is over, and heartbeat a moment
        // after. The leader of a static group may learn late that its topics have changed while it was away.
        if let Some(since) = self.settled_since.remove(group)
            && self.now > since.max(disturbed_at) + timeouts.heartbeat + SLACK_MS
            && disturbed_at <= since
            && !self.has_static_members(group)
        {
            return Err(format!("{group} was at rest since {since}, and nothing happened, but {why}"));
        }
        if self.now > disturbed_at + timeouts.settling() {
            return Err(format!(
                "{why}, {} ms after the faults stopped and {} ms after the last disturbance",
                self.now - self.calm_at,
                self.now - disturbed_at
            ));
        }
        Ok(false)
    }

    /// No request waits for longer than a rebalance of its group may take, even if nobody reads the answer any more.
    fn check_asked(&self) -> Result<(), String> {
        for (request, since) in self.broker.asked() {
            let waits = self.now - since.max(self.calm_at);
            if waits > self.timeouts(request.group()).rebalance + SLACK_MS {
                return Err(format!("{} waits for {waits} ms", request.summary()));
            }
        }
        Ok(())
    }

    fn profiles(&self, group: &str) -> impl Iterator<Item = &Profile> {
        self.everybody.iter().map(|it| &it.consumer.profile).filter(move |profile| profile.group == group)
    }

    fn timeouts(&self, group: &str) -> Timeouts {
        let longest = |wait: fn(&Profile) -> u64| self.profiles(group).map(wait).max().unwrap_or(0);
        Timeouts {
            session: longest(|it| it.session_ms),
            rebalance: longest(Profile::rebalance_timeout_ms),
            patience: longest(Profile::join_ms),
            metadata: longest(|it| it.metadata_ms),
            heartbeat: longest(|it| it.heartbeat_ms),
        }
    }

    fn has_static_members(&self, group: &str) -> bool {
        self.profiles(group).any(|it| it.instance_id.is_some())
    }

    /// Why a group is not at rest, if so.
    fn unsettled(&self, group: &str) -> Option<String> {
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
        for (at, consumer) in &members {
            if !consumer.is_at_rest() {
                return Some(format!("c{at} of {group} is {:?}", consumer.phase));
            }
            let link = self.everybody[*at].link;
            let is_heard = |it| {
                let link = &self.links[&it];
                self.gateways[link.gateway].knows(it) && !link.lost
            };
            if !link.is_some_and(is_heard) {
                return Some(format!("c{at} of {group} speaks to nobody"));
            }
            if consumer.generation != members[0].1.generation {
                return Some(format!("c{at} of {group} is in generation {}", consumer.generation));
            }
            for partition in consumer.owned.keys() {
                if !owned.insert(partition.clone()) {
                    return Some(format!("{partition:?} of {group} has two owners"));
                }
            }
        }
        if owned.is_empty() {
            return Some(format!("nobody in {group} owns anything"));
        }
        let wanted = if self.has_static_members(group) {
            up_to_the_last(&owned)
        } else {
            self.read_by(members.iter().map(|(_, it)| *it))
        };
        if wanted != owned {
            let differ: Vec<_> = wanted.symmetric_difference(&owned).collect();
            return Some(format!("{differ:?} of {group} has no owner, or one that does not want it"));
        }
        let known: BTreeSet<&str> = described.members.iter().map(|it| it.member_id.as_str()).collect();
        let living: BTreeSet<&str> = members.iter().map(|(_, it)| it.member_id.as_str()).collect();
        (known != living).then(|| format!("{group} has members {known:?} although {living:?} live"))
    }

    /// All partitions that there are now of the topics that these consumers read.
    fn read_by<'a>(&self, consumers: impl Iterator<Item = &'a Consumer>) -> BTreeSet<(String, i32)> {
        let topics: BTreeSet<&String> = consumers.flat_map(|it| &it.profile.topics).collect();
        let all = topics.into_iter().flat_map(|topic| {
            let count = self.topics.get(topic).copied().unwrap_or(0);
            (0..count).map(move |partition| (topic.clone(), partition))
        });
        all.collect()
    }
}

/// These partitions and those before them. A static member that was restarted with other topics keeps its assignment,
/// as in Kafka, and so the topics of such a group say nothing about what it has; but whatever was dealt out was dealt
/// out entirely.
fn up_to_the_last(partitions: &BTreeSet<(String, i32)>) -> BTreeSet<(String, i32)> {
    let last: BTreeMap<&String, i32> =
        partitions.iter().map(|(topic, partition)| (topic, *partition)).collect();
    last.into_iter()
        .flat_map(|(topic, last)| (0..=last).map(move |partition| (topic.clone(), partition)))
        .collect()
}
