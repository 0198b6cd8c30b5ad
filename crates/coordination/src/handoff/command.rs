//! What a consumer has to be told.

use std::collections::BTreeMap;

use super::names::{ConsumerName, Epoch, HandoffId, TopicPartition};
use super::state::State;
use super::value::Phase;

/// Something that a consumer is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// What it owns from now on, and what no longer.
    Assignment {
        /// What it owns. A partition that it has been told to let go of, and that is named here again, it keeps.
        assigned: Vec<Assigned>,
        /// What it does not own any more.
        unassigned: Vec<TopicPartition>,
        /// Whether this is all it owns; whatever else it works on it has to stop.
        is_snapshot: bool,
    },
    /// It will own the partition and has to get ready, then say so.
    Warm {
        /// The partition.
        partition: TopicPartition,
        /// Who owns it.
        current_owner: ConsumerName,
        /// The handoff.
        handoff: HandoffId,
        /// The epoch that it will have as the owner.
        epoch: Epoch,
    },
    /// It has to let go of the partition, then say so.
    Release {
        /// The partition.
        partition: TopicPartition,
        /// Who will own it.
        new_owner: ConsumerName,
        /// The handoff.
        handoff: HandoffId,
        /// The epoch of the new owner.
        epoch: Epoch,
    },
    /// It will not own the partition after all. Clients that do not know this command are told that the partition is
    /// unassigned.
    Cancel {
        /// The partition.
        partition: TopicPartition,
        /// The handoff.
        handoff: HandoffId,
    },
}

/// A partition and the epoch of its owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assigned {
    /// The partition.
    pub partition: TopicPartition,
    /// The owner's epoch.
    pub epoch: Epoch,
}

/// The part of the state that one consumer knows of. Keep what a consumer was last told, to find out what is new.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct View {
    owned: BTreeMap<TopicPartition, Epoch>,
    warming: BTreeMap<TopicPartition, Other>,
    releasing: BTreeMap<TopicPartition, Other>,
}

/// The other side of a handoff.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Other {
    consumer: ConsumerName,
    handoff: HandoffId,
    epoch: Epoch,
}

/// What the consumer is to be told, and what it knows then. `before` is what it knows; without it everything is said: a
/// snapshot, even if it is empty, and what it has to warm up and let go of.
///
/// A consumer with predecessors is told of nothing that it owns or has to let go of: one of them may be at work on it.
/// So the view of a consumer is another as soon as its own key changes, even if nothing else does.
pub fn commands(name: &ConsumerName, before: Option<&View>, state: &State) -> (Vec<Command>, View) {
    let mut view = View::default();
    let is_hidden = state.has_predecessors(name);
    for (place, stored) in &state.assignments {
        if !is_hidden && stored.value.owner == *name && state.has_partition(place) {
            view.owned.insert(place.clone(), stored.value.epoch);
        }
    }
    for place in state.handoffs.keys() {
        for (consumer, part) in parts(state, place) {
            if *consumer == *name {
                view.add(place, part);
            }
        }
    }
    (view.commands(before), view)
}

/// What each consumer should know, for when many have to be told at once. Consumers that know nothing are left out.
pub fn views(state: &State) -> BTreeMap<ConsumerName, View> {
    let mut owned: BTreeMap<&ConsumerName, Vec<(TopicPartition, Epoch)>> = BTreeMap::new();
    for row in state.rows() {
        if let (Some(stored), Some(_)) = (row.assignment, row.topic) {
            owned.entry(&stored.value.owner).or_default().push((row.place, stored.value.epoch));
        }
    }
    owned.retain(|name, _| !state.has_predecessors(name));
    let view = |(name, owned): (&ConsumerName, Vec<_>)| {
        (name.clone(), View { owned: owned.into_iter().collect(), ..View::default() })
    };
    let mut views: BTreeMap<ConsumerName, View> = owned.into_iter().map(view).collect();
    for place in state.handoffs.keys() {
        for (consumer, part) in parts(state, place) {
            views.entry(consumer.clone()).or_default().add(place, part);
        }
    }
    views
}

/// What a handoff means to one of its two consumers.
enum Part {
    Warms(Other),
    Releases(Other),
}

fn parts<'a>(state: &'a State, place: &TopicPartition) -> Vec<(&'a ConsumerName, Part)> {
    let Some(handoff) = state.handoffs.get(place).map(|stored| &stored.value) else { return Vec::new() };
    let other = |consumer: &ConsumerName| Other {
        consumer: consumer.clone(),
        handoff: handoff.id,
        epoch: handoff.epoch,
    };
    let warms = || (&handoff.to, Part::Warms(other(&handoff.from)));
    let releases = || (&handoff.from, Part::Releases(other(&handoff.to)));
    let mut parts = match handoff.phase {
        Phase::Warming => vec![warms()],
        // The target has still got to hear of it if the handoff is given up.
        Phase::Ready => vec![warms(), releases()],
        Phase::Complete => vec![releases()],
        Phase::Cancelled => Vec::new(),
    };
    parts.retain(|(consumer, part)| match part {
        // Another process under the target's name has nothing that is warm, and a plan will give this handoff up.
        Part::Warms(_) => {
            let target = state.consumers.get(*consumer);
            target.is_none_or(|target| target.value.session == handoff.to_session)
        }
        Part::Releases(_) => !state.has_predecessors(consumer),
    });
    parts
}

impl View {
    fn add(&mut self, place: &TopicPartition, part: Part) {
        match part {
            Part::Warms(other) => self.warming.insert(place.clone(), other),
            Part::Releases(other) => self.releasing.insert(place.clone(), other),
        };
    }

    /// What a consumer that knows `before` is to be told so that it knows this.
    pub fn commands(&self, before: Option<&Self>) -> Vec<Command> {
        let nothing = Self::default();
        let is_snapshot = before.is_none();
        let before = before.unwrap_or(&nothing);
        let mut commands = Vec::new();
        for (place, other) in &before.warming {
            let goes_on = self.warming.get(place).is_some_and(|now| now.handoff == other.handoff);
            if !goes_on && !self.owned.contains_key(place) {
                commands.push(Command::Cancel { partition: place.clone(), handoff: other.handoff });
            }
        }
        let is_new = |place: &TopicPartition, epoch: &Epoch| {
            let is_kept = before.releasing.contains_key(place) && !self.releasing.contains_key(place);
            before.owned.get(place) != Some(epoch) || is_kept
        };
        let assigned = self.owned.iter().filter(|(place, epoch)| is_new(place, epoch));
        let assigned: Vec<Assigned> =
            assigned.map(|(place, epoch)| Assigned { partition: place.clone(), epoch: *epoch }).collect();
        // What it is told to let go of it is not told twice.
        let mut unassigned: Vec<TopicPartition> = before
            .owned
            .keys()
            .chain(before.releasing.keys())
            .filter(|place| !self.owned.contains_key(*place) && !self.releasing.contains_key(*place))
            .cloned()
            .collect();
        unassigned.sort();
        unassigned.dedup();
        if is_snapshot || !assigned.is_empty() || !unassigned.is_empty() {
            commands.push(Command::Assignment { assigned, unassigned, is_snapshot });
        }
        for (partition, other) in fresh(&before.releasing, &self.releasing) {
            let Other { consumer: new_owner, handoff, epoch } = other.clone();
            commands.push(Command::Release { partition: partition.clone(), new_owner, handoff, epoch });
        }
        for (partition, other) in fresh(&before.warming, &self.warming) {
            let Other { consumer: current_owner, handoff, epoch } = other.clone();
            commands.push(Command::Warm { partition: partition.clone(), current_owner, handoff, epoch });
        }
        commands
    }
}

/// What is in `now` by another handoff than before, or was not there at all.
fn fresh<'a>(
    before: &'a BTreeMap<TopicPartition, Other>,
    now: &'a BTreeMap<TopicPartition, Other>,
) -> impl Iterator<Item = (&'a TopicPartition, &'a Other)> {
    now.iter().filter(|(place, other)| before.get(*place).map(|known| known.handoff) != Some(other.handoff))
}
