//! One group at work: etcd, two instances that both believe that they lead, and processes that obey what they are told.

use std::collections::{BTreeMap, BTreeSet};

use coordination::handoff::{
    self, Ack, Change, Command, Consumer, ConsumerName, ConsumerState, Deregistered, Entry, HandoffId, Key,
    Phase, Refusal, SessionId, Settings, State, Step, Topic, TopicPartition, View,
};

use crate::{Action, Flaw, Scene};

pub(crate) const INSTANCES: usize = 2;

/// Beyond every deadline of a handoff that began at 0, which all do.
const LATE_MS: u64 = 10_000_000;

/// All that there is at one moment.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) settings: Settings,
    flaw: Option<Flaw>,
    pub(crate) truth: Mirror,
    /// What each instance has heard of the truth.
    pub(crate) mirrors: Vec<Mirror>,
    pub(crate) processes: Vec<Process>,
    /// Handoffs that are over.
    pub(crate) over: BTreeSet<HandoffId>,
    minted: u128,
    leases: u64,
    /// How many times something went wrong, and how many processes have been started since the beginning.
    pub(crate) mishaps: u8,
    pub(crate) starts: u8,
    pub(crate) broken: Option<String>,
}

/// What etcd holds, as of some revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Mirror {
    pub(crate) state: State,
    /// The lease of each consumer's key.
    pub(crate) leases: BTreeMap<ConsumerName, u64>,
}

/// A process that is or was registered under a name.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) name: ConsumerName,
    pub(crate) session: SessionId,
    /// It will never work again.
    pub(crate) is_down: bool,
    /// It has stopped in order, and has yet to say so.
    pub(crate) owes_stopped: bool,
    pub(crate) is_leaving: bool,
    pub(crate) working: BTreeSet<TopicPartition>,
    pub(crate) stream: Option<Stream>,
    /// What it has said, and what has not been answered.
    pub(crate) said: Vec<Said>,
}

#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) instance: usize,
    pub(crate) lease: u64,
    /// The revision of its registration.
    pub(crate) since: u64,
    /// What it was last told.
    pub(crate) view: Option<View>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Said {
    pub(crate) is_ready: bool,
    pub(crate) partition: TopicPartition,
    pub(crate) handoff: HandoffId,
    pub(crate) epoch: handoff::Epoch,
}

impl World {
    /// The first consumers share the partitions; one more has just registered if there is another.
    pub(crate) fn new(scene: &Scene) -> Self {
        let settings = Settings { mode: scene.mode, ..Settings::default() };
        let mut world = Self {
            settings,
            flaw: scene.flaw,
            truth: Mirror::default(),
            mirrors: vec![Mirror::default(); INSTANCES],
            processes: Vec::new(),
            over: BTreeSet::new(),
            minted: 0,
            leases: 0,
            mishaps: 0,
            starts: 0,
            broken: None,
        };
        let topic = Entry::Topic("t".parse().expect("a name"), Topic::new(scene.partitions));
        world.truth.state.apply(1, Change::Put(topic));
        for (count, last) in [(scene.settled, true), (scene.newcomers, false)] {
            for _ in 0..count {
                world.sync();
                let number = world.processes.len();
                let name = ["a", "b", "c", "d", "e", "f"][number].parse().expect("a name");
                world.start(name, number % INSTANCES);
            }
            if last {
                world.rest().expect("a group without mishaps settles");
            }
        }
        world.starts = 0;
        world
    }

    /// What an instance has heard is at most all there is.
    pub(crate) fn sync(&mut self) {
        self.mirrors.fill(self.truth.clone());
    }

    /// Whether anything has come of it.
    pub(crate) fn act(&mut self, action: Action) -> bool {
        self.mishaps += u8::from(action.is_mishap());
        match action {
            Action::Sync(instance) => {
                let is_new = self.mirrors[instance].state.revision != self.truth.state.revision;
                self.mirrors[instance] = self.truth.clone();
                is_new
            }
            Action::Plan { instance, step, is_late } => self.plan(instance, step, is_late),
            Action::Settle { instance, step } => self.settle(instance, step),
            Action::Start { beside, instance } => {
                self.starts += 1;
                self.start(self.processes[beside].name.clone(), instance)
            }
            Action::Register { process, instance } => self.register(process, instance),
            Action::Deliver(process) => self.deliver(process),
            Action::Hear { process, said, instance, again } => self.hear(process, said, instance, again),
            Action::Leave { process, instance, .. } => self.leave(process, instance),
            Action::SayStopped { process, instance } => self.say_stopped(process, instance),
            Action::Waited(process) => self.waited(process),
            Action::Expire(process) => self.expire(process),
            Action::StopItself(process) => {
                self.processes[process].working.clear();
                true
            }
            Action::Crash(process) => {
                self.down(process, false);
                true
            }
            Action::Lose(process) => self.processes[process].stream.take().is_some(),
            Action::Restart(instance) => {
                for process in &mut self.processes {
                    process.stream.take_if(|stream| stream.instance == instance);
                }
                self.mirrors[instance] = self.truth.clone();
                true
            }
            Action::Cancel { instance, partition } => {
                let place = TopicPartition { topic: "t".parse().expect("a name"), partition };
                let cancelled = handoff::cancel(&self.mirrors[instance].state, 0, &place, None);
                cancelled.ok().flatten().is_some_and(|step| self.carry_out(&step, None))
            }
        }
    }

    /// One step of what an instance plans on what it has heard. The steps need not all be carried out.
    pub(crate) fn plan(&mut self, instance: usize, step: usize, is_late: bool) -> bool {
        let now_ms = if is_late { LATE_MS } else { 0 };
        let mut minted = self.minted;
        let state = &self.mirrors[instance].state;
        let plan = handoff::plan(state, &self.settings, now_ms, &mut || {
            minted += 1;
            HandoffId::from_u128(minted)
        });
        self.minted = minted;
        plan.steps.get(step).is_some_and(|step| self.carry_out(step, None))
    }

    pub(crate) fn settle(&mut self, instance: usize, step: usize) -> bool {
        let state = &self.mirrors[instance].state;
        let plan = handoff::settle(state, &self.settings, 0, &mut || HandoffId::from_u128(0));
        plan.steps.get(step).is_some_and(|step| self.carry_out(step, None))
    }

    /// Starts a process, whatever others of its name do.
    fn start(&mut self, name: ConsumerName, instance: usize) -> bool {
        let session = SessionId::from_u128(self.processes.len() as u128 + 1);
        self.processes.push(Process {
            name,
            session,
            is_down: false,
            owes_stopped: false,
            is_leaving: false,
            working: BTreeSet::new(),
            stream: None,
            said: Vec::new(),
        });
        let process = self.processes.len() - 1;
        self.register(process, instance)
    }

    pub(crate) fn register(&mut self, process: usize, instance: usize) -> bool {
        let Process { name, session, .. } = self.processes[process].clone();
        let registered = handoff::register(&self.mirrors[instance].state, &name, Consumer::new(session, 0));
        self.leases += 1;
        let lease = self.leases;
        if !self.carry_out(&registered.step, Some(lease)) {
            return false;
        }
        let since = self.truth.state.revision;
        self.processes[process].stream = Some(Stream { instance, lease, since, view: None });
        true
    }

    /// The instance tells a process what there is to tell, by what it has heard itself.
    pub(crate) fn deliver(&mut self, process: usize) -> bool {
        let Process { name, session, stream, .. } = self.processes[process].clone();
        let Some(stream) = stream else { return false };
        let mirror = &self.mirrors[stream.instance];
        if mirror.state.revision < stream.since {
            return false;
        }
        if mirror.leases.get(&name) != Some(&stream.lease) {
            let is_fenced = mirror.state.consumers.get(&name).is_some_and(|it| it.value.session != session);
            if is_fenced {
                self.down(process, true);
            } else {
                // Its lease has ended, so it has stopped before.
                self.processes[process].stream = None;
            }
            return true;
        }
        let (commands, view) = handoff::commands(&name, stream.view.as_ref(), &mirror.state);
        if commands.is_empty() && stream.view.is_some() {
            return false;
        }
        let told = &mut self.processes[process];
        told.stream = Some(Stream { view: Some(view), ..stream });
        for command in commands {
            match command {
                Command::Assignment { assigned, unassigned, is_snapshot } => {
                    if is_snapshot {
                        told.working.clear();
                    }
                    for place in &unassigned {
                        told.working.remove(place);
                    }
                    told.working.extend(assigned.into_iter().map(|assigned| assigned.partition));
                }
                Command::Warm { partition, handoff, epoch, .. } => {
                    told.say(Said { is_ready: true, partition, handoff, epoch });
                }
                Command::Release { partition, handoff, epoch, .. } => {
                    told.working.remove(&partition);
                    told.say(Said { is_ready: false, partition, handoff, epoch });
                }
                Command::Cancel { handoff, .. } => told.said.retain(|said| said.handoff != handoff),
            }
        }
        true
    }

    /// An instance hears what a process says. It may be said again although it was heard.
    pub(crate) fn hear(&mut self, process: usize, said: usize, instance: usize, again: bool) -> bool {
        let Process { name, session, said: all, .. } = self.processes[process].clone();
        let Some(Said { is_ready, partition, handoff, epoch }) = all.get(said).cloned() else { return false };
        let ack = Ack { caller: name, session, partition, handoff: Some(handoff), epoch: Some(epoch) };
        let state = &self.mirrors[instance].state;
        let result = if is_ready { handoff::ready(state, 0, &ack) } else { handoff::released(state, &ack) };
        let is_answered = match result {
            Ok(Some(step)) => self.carry_out(&step, None),
            Ok(None) => true,
            // Another may have told the client something that this one has not heard: it looks first.
            Err(_) => self.is_current(instance),
        };
        if is_answered && !again {
            self.processes[process].said.remove(said);
        }
        is_answered
    }

    pub(crate) fn leave(&mut self, process: usize, instance: usize) -> bool {
        let Process { name, session, is_leaving, .. } = self.processes[process].clone();
        match handoff::deregister(&self.mirrors[instance].state, &name, session) {
            Ok(Deregistered::WaitForDrain { step }) => {
                let is_done = step.is_none_or(|step| self.carry_out(&step, None));
                self.processes[process].is_leaving |= is_done;
                is_done && !is_leaving
            }
            Ok(Deregistered::ShutdownNow { step }) => {
                let is_done = step.is_none_or(|step| self.carry_out(&step, None));
                if is_done {
                    self.down(process, true);
                }
                is_done
            }
            Err(Refusal::Fenced { .. }) if self.is_current(instance) => {
                self.down(process, true);
                true
            }
            Err(_) => false,
        }
    }

    pub(crate) fn say_stopped(&mut self, process: usize, instance: usize) -> bool {
        let Process { name, session, .. } = self.processes[process].clone();
        let is_answered = match handoff::gone(&self.mirrors[instance].state, &name, session) {
            Ok(Some(step)) => self.carry_out(&step, None),
            Ok(None) => true,
            Err(_) => self.is_current(instance),
        };
        self.processes[process].owes_stopped &= !is_answered;
        is_answered
    }

    /// A lease after the process registered: all before it have stopped by themselves.
    pub(crate) fn waited(&mut self, process: usize) -> bool {
        let Process { name, session, stream, .. } = self.processes[process].clone();
        let Some(stream) = stream else { return false };
        let mirror = &self.mirrors[stream.instance];
        if mirror.leases.get(&name) != Some(&stream.lease) || !self.are_others_idle(process) {
            return false;
        }
        let step = handoff::predecessors_gone(&mirror.state, &name, session);
        step.is_some_and(|step| self.carry_out(&step, None))
    }

    /// A lease ends. Nobody has renewed it for longer than it takes the process, and those before it, to stop.
    pub(crate) fn expire(&mut self, process: usize) -> bool {
        let Process { name, session, .. } = &self.processes[process];
        let registered = self.truth.state.consumers.get(name);
        let is_its = registered.is_some_and(|stored| stored.value.session == *session);
        if !is_its || !self.is_idle(process) || !self.are_others_idle(process) {
            return false;
        }
        let revision = self.truth.state.revision + 1;
        let name = name.clone();
        self.truth.state.apply(revision, Change::Delete(Key::Consumer(name.clone())));
        self.truth.leases.remove(&name);
        true
    }

    /// Whether a process does nothing, and will not before it registers anew.
    fn is_idle(&self, process: usize) -> bool {
        let process = &self.processes[process];
        process.is_down || process.stream.is_none() && process.working.is_empty()
    }

    fn are_others_idle(&self, process: usize) -> bool {
        let name = &self.processes[process].name;
        (0..self.processes.len())
            .all(|other| other == process || self.processes[other].name != *name || self.is_idle(other))
    }

    fn is_current(&self, instance: usize) -> bool {
        self.mirrors[instance].state.revision == self.truth.state.revision
    }

    fn down(&mut self, process: usize, in_order: bool) {
        let process = &mut self.processes[process];
        process.is_down = true;
        process.owes_stopped = in_order;
        process.is_leaving = false;
        process.stream = None;
        process.working.clear();
        // What it had said may still be under way.
        if in_order {
            process.said.clear();
        }
    }

    /// Writes what a step says if its guards hold. `lease` is for the consumer's key that it puts.
    fn carry_out(&mut self, step: &Step, lease: Option<u64>) -> bool {
        let mut step = step.clone();
        if self.flaw == Some(Flaw::NoGuards) {
            step.guards.clear();
        }
        let key = |change: &Change| match change {
            Change::Put(entry) => entry.key(),
            Change::Delete(key) => key.clone(),
        };
        let reads = step.writes.iter().map(|write| (key(&write.change), write.read_at));
        let mut reads = reads.chain(step.guards.iter().map(|guard| (guard.key.clone(), guard.read_at)));
        if reads.any(|(key, read_at)| self.truth.state.read_at(&key) != read_at) {
            return false;
        }
        let revision = self.truth.state.revision + 1;
        for write in &mut step.writes {
            match &mut write.change {
                Change::Put(Entry::Handoff(_, handoff)) => handoff.phase_since_ms = 0,
                Change::Put(Entry::Consumer(name, consumer)) => {
                    // Nothing is decided by it here: a fenced process may come back as often as it likes.
                    consumer.fenced.clear();
                    if self.flaw == Some(Flaw::NoPredecessors) {
                        consumer.predecessors.clear();
                    }
                    if let Some(lease) = lease {
                        self.truth.leases.insert(name.clone(), lease);
                    }
                }
                Change::Delete(Key::Consumer(name)) => {
                    self.truth.leases.remove(name);
                }
                Change::Put(_) | Change::Delete(_) => {}
            }
            if let Err(why) = self.check_write(&write.change) {
                self.broken.get_or_insert(why);
            }
        }
        for write in step.writes {
            self.truth.state.apply(revision, write.change);
        }
        true
    }

    /// What must be true of every write, by what is there before it.
    fn check_write(&mut self, change: &Change) -> Result<(), String> {
        let State { consumers, assignments, handoffs, .. } = &self.truth.state;
        match change {
            Change::Put(Entry::Assignment(place, next)) => {
                let owner = consumers.get(&next.owner).map(|stored| &stored.value);
                if !owner.is_some_and(|owner| owner.takes(&place.topic)) {
                    return Err(format!("{place} is given to {}, who takes nothing", next.owner));
                }
                if assignments.get(place).is_some_and(|before| before.value.epoch >= next.epoch) {
                    return Err(format!("the epoch of {place} does not grow"));
                }
            }
            Change::Put(Entry::Handoff(place, next)) => {
                if self.over.contains(&next.id) {
                    return Err(format!("handoff {} of {place} is back", next.id));
                }
                let owner = assignments.get(place).map(|stored| &stored.value);
                let fits = owner.is_some_and(|owner| {
                    owner.owner == next.from && owner.epoch.next() == next.epoch && next.from != next.to
                });
                if next.phase != Phase::Complete && !fits {
                    return Err(format!("handoff {} of {place} does not begin at its owner", next.id));
                }
                if let Some(before) = handoffs.get(place).filter(|before| before.value.id != next.id) {
                    if next.phase != Phase::Warming {
                        return Err(format!("handoff {} of {place} is overtaken", before.value.id));
                    }
                    self.over.insert(before.value.id);
                }
            }
            Change::Delete(Key::Handoff(place)) => {
                self.over.extend(handoffs.get(place).map(|stored| stored.value.id));
            }
            Change::Put(Entry::Consumer(name, next)) => {
                let before = consumers.get(name).map(|stored| &stored.value);
                let is_back = before.is_some_and(|before| {
                    before.session == next.session
                        && before.state == ConsumerState::Draining
                        && next.state == ConsumerState::Ready
                });
                if is_back {
                    return Err(format!("{name} drained and takes partitions again"));
                }
            }
            Change::Put(Entry::Topic(..)) | Change::Delete(_) => {}
        }
        Ok(())
    }

    /// The partition on which two work, if there is one.
    pub(crate) fn two_at_work(&self) -> Option<&TopicPartition> {
        let mut seen = BTreeSet::new();
        self.processes.iter().flat_map(|process| &process.working).find(|place| !seen.insert(*place))
    }
}

impl Process {
    fn say(&mut self, said: Said) {
        if !self.said.contains(&said) {
            self.said.push(said);
        }
    }
}
