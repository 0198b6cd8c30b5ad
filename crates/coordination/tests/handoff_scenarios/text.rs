//! Commands and changes as words of a script.

use std::collections::BTreeMap;

use coordination::handoff::{Change, Command, ConsumerState, Entry, Key, TopicPartition};

/// A command, its `name=value` words, and the others.
pub(crate) struct Words<'a> {
    pub(crate) verb: &'a str,
    pub(crate) plain: Vec<&'a str>,
    pub(crate) named: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    pub(crate) fn of(command: &'a str) -> Self {
        let mut words = command.split_whitespace();
        let mut all = Self { verb: words.next().unwrap(), plain: Vec::new(), named: BTreeMap::new() };
        for word in words {
            match word.split_once('=') {
                Some((name, value)) => {
                    all.named.insert(name, value);
                }
                None => all.plain.push(word),
            }
        }
        all
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.named.get(name).copied()
    }

    pub(crate) fn list(&self, name: &str) -> Vec<&'a str> {
        self.get(name).map(|list| list.split(',').collect()).unwrap_or_default()
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> T
    where
        T::Err: std::fmt::Debug,
    {
        self.get(name).map_or(default, |value| value.parse().unwrap())
    }
}

/// `t-0`: the topic and the partition.
pub(crate) fn place(text: &str) -> TopicPartition {
    let (topic, partition) = text.rsplit_once('-').unwrap();
    TopicPartition { topic: topic.parse().unwrap(), partition: partition.parse().unwrap() }
}

pub(crate) fn shown_change(change: &Change) -> String {
    match change {
        Change::Put(Entry::Consumer(name, consumer)) => {
            let does = match consumer.state {
                ConsumerState::Ready => "is ready",
                ConsumerState::Draining => "drains",
            };
            let before = consumer.predecessors.iter().map(|session| format!(" {}", session.as_u128()));
            let before: String = before.collect();
            let waits = if before.is_empty() { String::new() } else { format!(" and waits for{before}") };
            format!("consumer {name} {does}{waits}")
        }
        Change::Put(Entry::Assignment(place, assignment)) => {
            format!("{place} is owned by {} epoch={}", assignment.owner, assignment.epoch)
        }
        Change::Put(Entry::Handoff(place, handoff)) => {
            let progress = handoff.progress.map(|progress| format!(" done={}", progress.done));
            format!(
                "{place} handoff #{} {:?} {} to {} epoch={}{}",
                handoff.id.as_u128(),
                handoff.phase,
                handoff.from,
                handoff.to,
                handoff.epoch,
                progress.unwrap_or_default()
            )
        }
        Change::Put(Entry::Topic(name, topic)) => format!("topic {name} {}", topic.partitions),
        Change::Delete(Key::Assignment(place)) => format!("{place} is owned by nobody"),
        Change::Delete(Key::Handoff(place)) => format!("{place} handoff gone"),
        Change::Delete(key) => format!("gone {key:?}"),
    }
}

pub(crate) fn shown_command(command: &Command) -> String {
    match command {
        Command::Assignment { assigned, unassigned, is_snapshot } => {
            let mut line = if *is_snapshot { "all it owns" } else { "assignment" }.to_owned();
            for assigned in assigned {
                line.push_str(&format!(" +{}@{}", assigned.partition, assigned.epoch));
            }
            for partition in unassigned {
                line.push_str(&format!(" -{partition}"));
            }
            line
        }
        Command::Warm { partition, current_owner, handoff, epoch } => {
            format!("warm {partition} of {current_owner} #{} epoch={epoch}", handoff.as_u128())
        }
        Command::Release { partition, new_owner, handoff, epoch } => {
            format!("release {partition} for {new_owner} #{} epoch={epoch}", handoff.as_u128())
        }
        Command::Cancel { partition, handoff } => format!("cancel {partition} #{}", handoff.as_u128()),
    }
}
