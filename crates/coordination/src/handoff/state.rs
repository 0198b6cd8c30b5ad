//! What etcd holds of one group, and how it is to be changed.

use std::collections::BTreeMap;

use super::key::Key;
use super::names::{ConsumerName, SessionId, TopicName, TopicPartition};
use super::value::{Assignment, Consumer, Entry, Handoff, Topic};

/// All that etcd holds of one group, as of one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The revision as of which this is true. First owners get it as their epoch, so it must not go back.
    pub revision: u64,
    /// The consumers whose leases live.
    pub consumers: BTreeMap<ConsumerName, Stored<Consumer>>,
    /// Who owns what.
    pub assignments: BTreeMap<TopicPartition, Stored<Assignment>>,
    /// What is changing its owner.
    pub handoffs: BTreeMap<TopicPartition, Stored<Handoff>>,
    /// The topics that the group works on.
    pub topics: BTreeMap<TopicName, Stored<Topic>>,
}

/// A value and the revision at which it was last written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stored<T> {
    /// The value.
    pub value: T,
    /// The revision of its last change.
    pub revision: u64,
}

/// Changes that are made together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The writes, each to another key.
    pub writes: Vec<Write>,
    /// What must be unchanged besides, though it is not written.
    pub guards: Vec<Guard>,
}

/// One key that is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// What is written.
    pub change: Change,
    /// The revision at which the key was read; 0 if there was none. The write is void if it is another by now.
    pub read_at: u64,
}

/// What becomes of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// It gets this value.
    Put(Entry),
    /// It goes.
    Delete(Key),
}

/// A key that must not have changed since it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// The key.
    pub key: Key,
    /// The revision at which it was read; 0 if there was none.
    pub read_at: u64,
}

/// All that is known of one partition.
pub(super) struct Row<'a> {
    pub(super) place: TopicPartition,
    /// Its topic, if there is such a partition.
    pub(super) topic: Option<&'a Topic>,
    pub(super) assignment: Option<&'a Stored<Assignment>>,
    pub(super) handoff: Option<&'a Stored<Handoff>>,
}

impl State {
    /// Takes in what etcd tells of one key. Apply all changes of one revision before anything is decided.
    pub fn apply(&mut self, revision: u64, change: Change) {
        self.revision = self.revision.max(revision);
        match change {
            Change::Put(Entry::Consumer(name, value)) => {
                self.consumers.insert(name, Stored { value, revision });
            }
            Change::Put(Entry::Assignment(place, value)) => {
                self.assignments.insert(place, Stored { value, revision });
            }
            Change::Put(Entry::Handoff(place, value)) => {
                self.handoffs.insert(place, Stored { value, revision });
            }
            Change::Put(Entry::Topic(name, value)) => {
                self.topics.insert(name, Stored { value, revision });
            }
            Change::Delete(Key::Consumer(name)) => {
                self.consumers.remove(&name);
            }
            Change::Delete(Key::Assignment(place)) => {
                self.assignments.remove(&place);
            }
            Change::Delete(Key::Handoff(place)) => {
                self.handoffs.remove(&place);
            }
            Change::Delete(Key::Topic(name)) => {
                self.topics.remove(&name);
            }
            Change::Delete(Key::Leader) => {}
        }
    }

    /// The revision at which a key was last written; 0 if there is none, and for the leader's key, which is not here.
    pub fn read_at(&self, key: &Key) -> u64 {
        let found = match key {
            Key::Consumer(name) => self.consumers.get(name).map(|stored| stored.revision),
            Key::Assignment(place) => self.assignments.get(place).map(|stored| stored.revision),
            Key::Handoff(place) => self.handoffs.get(place).map(|stored| stored.revision),
            Key::Topic(name) => self.topics.get(name).map(|stored| stored.revision),
            Key::Leader => None,
        };
        found.unwrap_or(0)
    }

    /// Whether the group works on such a partition.
    pub fn has_partition(&self, place: &TopicPartition) -> bool {
        let topic = self.topics.get(&place.topic);
        topic.is_some_and(|topic| topic.value.partition_numbers().contains(&place.partition))
    }

    /// All partitions of the group's topics, and those of which something is left.
    pub fn partitions(&self) -> Vec<TopicPartition> {
        self.rows().into_iter().map(|row| row.place).collect()
    }

    /// All that is known of each partition, in the order of partitions. Everything is in that order already, so that
    /// nothing has to be searched for: a large group is planned in a few milliseconds.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let known = self.topics.iter().flat_map(|(name, stored)| {
            let topic = &stored.value;
            topic.partition_numbers().map(move |partition| (name, partition, topic))
        });
        let mut known = known.peekable();
        let mut assignments = self.assignments.iter().peekable();
        let mut handoffs = self.handoffs.iter().peekable();
        let mut rows = Vec::with_capacity(self.assignments.len());
        loop {
            let heads = [
                known.peek().map(|(topic, partition, _)| (*topic, *partition)),
                assignments.peek().map(|(place, _)| (&place.topic, place.partition)),
                handoffs.peek().map(|(place, _)| (&place.topic, place.partition)),
            ];
            let Some((topic, partition)) = heads.into_iter().flatten().min() else { return rows };
            let is_here = |place: &TopicPartition| place.partition == partition && place.topic == *topic;
            let place = TopicPartition { topic: topic.clone(), partition };
            let assignment = assignments.next_if(|(place, _)| is_here(place)).map(|(_, stored)| stored);
            let handoff = handoffs.next_if(|(place, _)| is_here(place)).map(|(_, stored)| stored);
            let known = known.next_if(|(name, number, _)| *number == partition && *name == topic);
            rows.push(Row { place, topic: known.map(|(_, _, topic)| topic), assignment, handoff });
        }
    }

    /// What is known of one partition.
    pub(super) fn row(&self, place: &TopicPartition) -> Row<'_> {
        let topic = self.topics.get(&place.topic).filter(|_| self.has_partition(place));
        Row {
            place: place.clone(),
            topic: topic.map(|stored| &stored.value),
            assignment: self.assignments.get(place),
            handoff: self.handoffs.get(place),
        }
    }

    /// Whether this very process is registered and takes partitions of the topic.
    pub(super) fn takes(&self, name: &ConsumerName, session: SessionId, topic: &TopicName) -> bool {
        let consumer = self.consumers.get(name).map(|stored| &stored.value);
        consumer.is_some_and(|consumer| consumer.session == session && consumer.takes(topic))
    }

    /// Whether there may be processes under the name that have been fenced and still work.
    pub(super) fn has_predecessors(&self, name: &ConsumerName) -> bool {
        self.consumers.get(name).is_some_and(|stored| !stored.value.predecessors.is_empty())
    }

    pub(super) fn put(&self, entry: Entry) -> Write {
        let read_at = self.read_at(&entry.key());
        Write { change: Change::Put(entry), read_at }
    }

    pub(super) fn delete(&self, key: Key) -> Write {
        Write { read_at: self.read_at(&key), change: Change::Delete(key) }
    }

    pub(super) fn guard(&self, key: Key) -> Guard {
        Guard { read_at: self.read_at(&key), key }
    }
}

/// Cuts steps into transactions of at most `operations_max` writes and as many comparisons, etcd's limit being 128. One
/// comparison is left free for the guard of the leadership.
///
/// A step is never cut, and no step needs another: whatever has been carried out when the rest is not, the state is
/// sound, and the next plan goes on from there.
pub fn transactions(steps: &[Step], operations_max: usize) -> Vec<&[Step]> {
    let mut cut = Vec::new();
    let (mut start, mut writes, mut comparisons) = (0, 0, 1);
    for (index, step) in steps.iter().enumerate() {
        let (more_writes, more_comparisons) = (step.writes.len(), step.writes.len() + step.guards.len());
        let is_full =
            writes + more_writes > operations_max || comparisons + more_comparisons > operations_max;
        if is_full && index > start {
            cut.push(&steps[start..index]);
            (start, writes, comparisons) = (index, 0, 1);
        }
        writes += more_writes;
        comparisons += more_comparisons;
    }
    if start < steps.len() {
        cut.push(&steps[start..]);
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_stay_within_the_limit_and_keep_steps_whole() {
        let step = |partition| {
            let place = TopicPartition { topic: "t".parse().unwrap(), partition };
            let writes = [Key::Assignment(place.clone()), Key::Handoff(place)];
            let writes = writes.map(|key| Write { change: Change::Delete(key), read_at: 1 }).to_vec();
            Step { writes, guards: vec![Guard { key: Key::Leader, read_at: 1 }] }
        };
        let steps: Vec<Step> = (0..100).map(step).collect();
        let cut = transactions(&steps, 128);
        // Three comparisons for each step, and one for the leadership.
        assert_eq!(cut.iter().map(|steps| steps.len()).collect::<Vec<_>>(), [42, 42, 16]);
        assert_eq!(cut.concat(), steps);
        assert!(transactions(&[], 128).is_empty());
    }
}
