//! When two worlds are the same: revisions, leases, epochs and ids differ from way to way, but nothing is decided by
//! them apart from which are equal and which epoch follows which.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use coordination::handoff::{Command, Epoch, HandoffId, State};

use crate::world::{Mirror, Process, World};

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        let fingerprint = |world: &Self| {
            let mut hasher = DefaultHasher::new();
            world.hash(&mut hasher);
            hasher.finish()
        };
        fingerprint(self) == fingerprint(other)
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let names = Names::of(self);
        names.hash_state(&self.truth.state, None, hasher);
        for mirror in &self.mirrors {
            names.hash_state(&mirror.state, Some(&self.truth.state), hasher);
            // Whose lease a stream has is all that leases are for.
            for process in &self.processes {
                let lease = process.stream.as_ref().map(|stream| stream.lease);
                (lease.as_ref() == mirror.leases.get(&process.name)).hash(hasher);
            }
            (mirror.state.revision == self.truth.state.revision).hash(hasher);
        }
        for process in &self.processes {
            (&process.name, process.is_down, process.owes_stopped, process.is_leaving).hash(hasher);
            process.working.hash(hasher);
            let mut said: Vec<_> = process
                .said
                .iter()
                .map(|said| (said.is_ready, &said.partition, names.id(said.handoff), names.epoch(said.epoch)))
                .collect();
            said.sort();
            said.hash(hasher);
            let Some(stream) = &process.stream else {
                0.hash(hasher);
                continue;
            };
            let is_heard = self.mirrors[stream.instance].state.revision >= stream.since;
            (stream.instance + 1, is_heard).hash(hasher);
            for command in told(process) {
                names.hash_command(command, hasher);
            }
            stream.view.is_some().hash(hasher);
        }
        (self.mishaps, self.starts, &self.broken).hash(hasher);
    }
}

/// What a stream's process was told, as what it would be told if it knew nothing.
fn told(process: &Process) -> Vec<Command> {
    let view = process.stream.as_ref().and_then(|stream| stream.view.as_ref());
    view.map(|view| view.commands(None)).unwrap_or_default()
}

/// Small numbers for ids and epochs.
struct Names {
    ids: BTreeMap<HandoffId, usize>,
    epochs: BTreeMap<Epoch, u64>,
    over: BTreeSet<HandoffId>,
}

impl Names {
    fn of(world: &World) -> Self {
        let (mut ids, mut epochs) = (BTreeSet::new(), BTreeSet::new());
        let states = world.mirrors.iter().chain([&world.truth]).map(|Mirror { state, .. }| state);
        for state in states {
            for stored in state.handoffs.values() {
                ids.insert(stored.value.id);
                epochs.insert(stored.value.epoch);
            }
            epochs.extend(state.assignments.values().map(|stored| stored.value.epoch));
        }
        for process in &world.processes {
            for said in &process.said {
                ids.insert(said.handoff);
                epochs.insert(said.epoch);
            }
            for command in told(process) {
                match command {
                    Command::Assignment { assigned, .. } => {
                        epochs.extend(assigned.iter().map(|assigned| assigned.epoch));
                    }
                    Command::Warm { handoff, epoch, .. } | Command::Release { handoff, epoch, .. } => {
                        ids.insert(handoff);
                        epochs.insert(epoch);
                    }
                    Command::Cancel { handoff, .. } => {
                        ids.insert(handoff);
                    }
                }
            }
        }
        let over = world.over.intersection(&ids).copied().collect();
        let mut named = BTreeMap::new();
        let (mut last, mut number) = (Epoch(0), 0);
        for epoch in epochs {
            number += (epoch.0 - last.0).min(2);
            last = epoch;
            named.insert(epoch, number);
        }
        Self { ids: ids.into_iter().zip(0..).collect(), epochs: named, over }
    }

    fn id(&self, id: HandoffId) -> (usize, bool) {
        (self.ids[&id], self.over.contains(&id))
    }

    fn epoch(&self, epoch: Epoch) -> u64 {
        self.epochs[&epoch]
    }

    /// The state, and which of its values are not those of the truth.
    fn hash_state<H: Hasher>(&self, state: &State, truth: Option<&State>, hasher: &mut H) {
        let is_old = |revision: u64, now: Option<u64>| truth.is_some() && now != Some(revision);
        for (name, stored) in &state.consumers {
            let now = truth.and_then(|truth| truth.consumers.get(name)).map(|stored| stored.revision);
            (name, is_old(stored.revision, now), &stored.value).hash(hasher);
        }
        for (place, stored) in &state.assignments {
            let now = truth.and_then(|truth| truth.assignments.get(place)).map(|stored| stored.revision);
            let epoch = self.epoch(stored.value.epoch);
            (place, is_old(stored.revision, now), &stored.value.owner, epoch).hash(hasher);
        }
        for (place, stored) in &state.handoffs {
            let now = truth.and_then(|truth| truth.handoffs.get(place)).map(|stored| stored.revision);
            let handoff = &stored.value;
            (place, is_old(stored.revision, now), self.id(handoff.id), self.epoch(handoff.epoch))
                .hash(hasher);
            (&handoff.from, &handoff.to, handoff.to_session, handoff.phase).hash(hasher);
        }
        usize::MAX.hash(hasher);
    }

    fn hash_command<H: Hasher>(&self, command: Command, hasher: &mut H) {
        match command {
            Command::Assignment { assigned, .. } => {
                for assigned in assigned {
                    (assigned.partition, self.epoch(assigned.epoch)).hash(hasher);
                }
            }
            Command::Warm { partition, handoff, epoch, .. } => {
                (1, partition, self.id(handoff), self.epoch(epoch)).hash(hasher);
            }
            Command::Release { partition, handoff, epoch, .. } => {
                (2, partition, self.id(handoff), self.epoch(epoch)).hash(hasher);
            }
            Command::Cancel { partition, handoff } => (3, partition, self.id(handoff)).hash(hasher),
        }
    }
}
