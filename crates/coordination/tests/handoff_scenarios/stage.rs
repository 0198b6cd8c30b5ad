//! A group, the consumers that obey it, and the etcd that it lives in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use coordination::handoff::{
    self, Ack, Change, Command, Consumer, ConsumerName, ConsumerState, Deregistered, Entry, HandoffId, Key,
    Mode, Newcomers, Phase, Progress, Refusal, SessionId, Settings, State, Step, Topic, TopicName,
    TopicPartition, View,
};

use crate::text::{Words, place, shown_change, shown_command};

/// What a consumer says and nobody has heard yet.
#[derive(Clone)]
pub(crate) enum Said {
    Ready(Ack),
    Released(Ack),
}

pub(crate) struct Stage {
    pub(crate) state: State,
    pub(crate) settings: Settings,
    pub(crate) now_ms: u64,
    minted: u128,
    /// What each consumer was last told.
    views: BTreeMap<ConsumerName, View>,
    /// What each process works on.
    pub(crate) working: BTreeMap<(ConsumerName, SessionId), BTreeSet<TopicPartition>>,
    /// Whether consumers answer what they are told, by themselves.
    pub(crate) answers: bool,
    pub(crate) said: Vec<Said>,
    /// What instances believe that have not heard of anything since.
    remembered: BTreeMap<String, State>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            state: State::default(),
            settings: Settings::default(),
            now_ms: 1_000,
            minted: 0,
            views: BTreeMap::new(),
            working: BTreeMap::new(),
            answers: false,
            said: Vec::new(),
            remembered: BTreeMap::new(),
        }
    }

    /// Does what a line of a script says, tells everybody what there is to tell, and says what came of it.
    pub(crate) fn step(&mut self, command: &str) -> String {
        let words = Words::of(command);
        let mut out = String::new();
        self.run(&words, &mut out);
        for name in self.state.consumers.keys().cloned().collect::<Vec<_>>() {
            self.tell(&name, &mut out);
        }
        self.check();
        out
    }

    pub(crate) fn run(&mut self, words: &Words<'_>, out: &mut String) {
        match words.verb {
            "settings" => self.set(words),
            "topic" => self.topic(words),
            "consumers" => {
                for name in &words.plain {
                    self.register(words, &name.parse().unwrap(), out);
                }
            }
            "dies" => self.dies(&words.plain[0].parse().unwrap()),
            "forgets" => {
                self.views.remove(&words.plain[0].parse::<ConsumerName>().unwrap());
            }
            "wait" => self.now_ms += words.plain[0].parse::<u64>().unwrap(),
            "plan" => {
                self.plan(out);
            }
            "remember" => {
                self.remembered.insert(words.plain[0].to_owned(), self.state.clone());
            }
            "zombie" => self.zombie(words, out),
            "urgent" => {
                let plan = handoff::settle(&self.state, &self.settings, self.now_ms, &mut || {
                    panic!("what cannot wait begins no handoff")
                });
                for step in &plan.steps {
                    self.apply(step, out);
                }
            }
            "dry-run" => {
                let plan =
                    handoff::plan(&self.state, &self.settings, self.now_ms, &mut || HandoffId::from_u128(0));
                for (place, reason) in &plan.reasons {
                    writeln!(out, "{place} {reason}").unwrap();
                }
                for name in &plan.desired.capped {
                    writeln!(out, "{name} is new and gets no more").unwrap();
                }
            }
            "ready" => self.hear(&Said::Ready(self.ack(words)), out),
            "released" => self.hear(&Said::Released(self.ack(words)), out),
            "progress" => {
                let done = words.number("done", 1);
                let progress = Progress { done, total: 100, at_ms: self.now_ms };
                let result = handoff::progress(&self.state, &self.ack(words), progress);
                self.outcome(result, out);
            }
            "cancel" => {
                let id = words.get("id").map(|id| HandoffId::from_u128(id.parse().unwrap()));
                let result = handoff::cancel(&self.state, self.now_ms, &place(words.plain[0]), id);
                self.outcome(result, out);
            }
            "deregister" => self.deregister(words, out),
            "stopped" => {
                let name: ConsumerName = words.plain[0].parse().unwrap();
                let session = SessionId::from_u128(words.number("session", 1));
                self.working.remove(&(name.clone(), session));
                let result = handoff::gone(&self.state, &name, session);
                self.outcome(result, out);
            }
            "waited" => self.waited(&words.plain[0].parse().unwrap(), out),
            "owners" => {
                let mut owners: BTreeMap<&ConsumerName, Vec<String>> = BTreeMap::new();
                for (place, stored) in &self.state.assignments {
                    owners.entry(&stored.value.owner).or_default().push(place.to_string());
                }
                for (name, places) in owners {
                    writeln!(out, "{name} {}: {}", places.len(), places.join(" ")).unwrap();
                }
            }
            "settle" => self.settle(),
            verb => panic!("there is no command {verb}"),
        }
    }

    /// Writes what the leader plans, and says whether there was anything to write.
    pub(crate) fn plan(&mut self, out: &mut String) -> bool {
        let mut minted = self.minted;
        let plan = handoff::plan(&self.state, &self.settings, self.now_ms, &mut || {
            minted += 1;
            HandoffId::from_u128(minted)
        });
        self.minted = minted;
        for step in &plan.steps {
            self.apply(step, out);
        }
        !plan.steps.is_empty()
    }

    /// Lets consumers answer, plans and lets time pass until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        let answers = std::mem::replace(&mut self.answers, true);
        let mut quiet = 0;
        for _ in 0..200 {
            for name in self.state.consumers.keys().cloned().collect::<Vec<_>>() {
                self.waited(&name, &mut String::new());
            }
            let mut is_busy = self.plan(&mut String::new());
            for name in self.state.consumers.keys().cloned().collect::<Vec<_>>() {
                self.tell(&name, &mut String::new());
            }
            for said in std::mem::take(&mut self.said) {
                is_busy = true;
                self.hear(&said, &mut String::new());
            }
            self.check();
            quiet = if is_busy { 0 } else { quiet + 1 };
            if quiet == 4 {
                self.answers = answers;
                return;
            }
            if !is_busy {
                self.now_ms += self.settings.warming_ms.max(self.settings.release_ms);
            }
        }
        panic!("it does not come to rest: {:?}", self.state);
    }

    /// Tells one consumer what it has to know, and lets it obey.
    pub(crate) fn tell(&mut self, name: &ConsumerName, out: &mut String) {
        let Some(consumer) = self.state.consumers.get(name) else { return };
        let session = consumer.value.session;
        let (commands, view) = handoff::commands(name, self.views.get(name), &self.state);
        let together = handoff::views(&self.state).remove(name).unwrap_or_default();
        assert_eq!(view, together, "one by one or together, it is the same");
        self.views.insert(name.clone(), view);
        let working = self.working.entry((name.clone(), session)).or_default();
        for command in commands {
            writeln!(out, "to {name}: {}", shown_command(&command)).unwrap();
            let ack = |partition, handoff, epoch| Ack {
                caller: name.clone(),
                session,
                partition,
                handoff: Some(handoff),
                epoch: Some(epoch),
            };
            match command {
                Command::Assignment { assigned, unassigned, is_snapshot } => {
                    if is_snapshot {
                        working.clear();
                    }
                    for place in &unassigned {
                        working.remove(place);
                    }
                    working.extend(assigned.into_iter().map(|assigned| assigned.partition));
                }
                Command::Warm { partition, handoff, epoch, .. } => {
                    if self.answers {
                        self.said.push(Said::Ready(ack(partition, handoff, epoch)));
                    }
                }
                Command::Release { partition, handoff, epoch, .. } => {
                    if self.answers {
                        working.remove(&partition);
                        self.said.push(Said::Released(ack(partition, handoff, epoch)));
                    }
                }
                Command::Cancel { .. } => {}
            }
        }
    }

    pub(crate) fn hear(&mut self, said: &Said, out: &mut String) {
        let result = match said {
            Said::Ready(ack) => handoff::ready(&self.state, self.now_ms, ack),
            Said::Released(ack) => {
                let result = handoff::released(&self.state, ack);
                if result.is_ok()
                    && !self.answers
                    && let Some(consumer) = self.state.consumers.get(&ack.caller)
                    && let Some(working) = self.working.get_mut(&(ack.caller.clone(), consumer.value.session))
                {
                    working.remove(&ack.partition);
                }
                result
            }
        };
        self.outcome(result, out);
    }

    fn outcome(&mut self, result: Result<Option<Step>, Refusal>, out: &mut String) {
        match result {
            Ok(None) => writeln!(out, "nothing to do").unwrap(),
            Ok(Some(step)) => self.apply(&step, out),
            Err(refusal) => writeln!(out, "refused: {refusal}").unwrap(),
        }
    }

    fn apply(&mut self, step: &Step, out: &mut String) {
        for guard in &step.guards {
            assert_eq!(self.state.read_at(&guard.key), guard.read_at, "nobody else writes");
        }
        let revision = self.state.revision + 1;
        for write in &step.writes {
            let key = match &write.change {
                Change::Put(entry) => {
                    assert_eq!(Entry::decode(entry.key(), &entry.encode()).as_ref(), Ok(entry));
                    entry.key()
                }
                Change::Delete(key) => key.clone(),
            };
            assert_eq!(self.state.read_at(&key), write.read_at, "nobody else writes");
            if let Change::Put(Entry::Assignment(place, next)) = &write.change {
                let before = self.state.assignments.get(place);
                assert!(before.is_none_or(|before| before.value.epoch < next.epoch), "epochs grow");
                assert!(next.epoch.0 <= revision, "epochs grow slower than revisions");
                let owner = self.state.consumers.get(&next.owner).map(|stored| &stored.value);
                assert!(owner.is_some_and(|owner| owner.takes(&place.topic)), "{} takes {place}", next.owner);
            }
            writeln!(out, "{}", shown_change(&write.change)).unwrap();
            self.state.apply(revision, write.change.clone());
        }
    }

    /// An instance decides on what it remembers, and its steps are carried out if their guards hold.
    fn zombie(&mut self, words: &Words<'_>, out: &mut String) {
        let (state, what) = (&self.remembered[words.plain[0]], words.plain[1]);
        let words = Words { verb: what, plain: words.plain[2..].to_vec(), named: words.named.clone() };
        let mut minted = self.minted;
        let steps = match what {
            "plan" => {
                let mint = &mut || {
                    minted += 1;
                    HandoffId::from_u128(minted)
                };
                handoff::plan(state, &self.settings, self.now_ms, mint).steps
            }
            "ready" => handoff::ready(state, self.now_ms, &self.ack(&words)).unwrap().into_iter().collect(),
            "released" => handoff::released(state, &self.ack(&words)).unwrap().into_iter().collect(),
            what => panic!("a zombie does not {what}"),
        };
        self.minted = minted;
        for step in steps {
            let key = |change: &Change| match change {
                Change::Put(entry) => entry.key(),
                Change::Delete(key) => key.clone(),
            };
            let mut reads = step.writes.iter().map(|write| (key(&write.change), write.read_at));
            let mut guards = step.guards.iter().map(|guard| (guard.key.clone(), guard.read_at));
            let is_overtaken = |(key, read_at): (Key, u64)| self.state.read_at(&key) != read_at;
            if reads.any(is_overtaken) || guards.any(is_overtaken) {
                writeln!(out, "overtaken").unwrap();
            } else {
                self.apply(&step, out);
            }
        }
    }

    fn set(&mut self, words: &Words<'_>) {
        let settings = &mut self.settings;
        if let Some(mode) = words.get("mode") {
            settings.mode = if mode == "overlap" { Mode::Overlap } else { Mode::Exclusive };
        }
        settings.warming_ms = words.number("warming", settings.warming_ms);
        settings.release_ms = words.number("release", settings.release_ms);
        settings.retry_ms = words.number("retry", settings.retry_ms);
        if let Some((partitions_max, lasts_ms)) = words.get("newcomers").and_then(|text| text.split_once('/'))
        {
            let (partitions_max, lasts_ms) = (partitions_max.parse().unwrap(), lasts_ms.parse().unwrap());
            settings.newcomers = Some(Newcomers { partitions_max, lasts_ms });
        }
    }

    fn topic(&mut self, words: &Words<'_>) {
        let name: TopicName = words.plain[0].parse().unwrap();
        let revision = self.state.revision + 1;
        if words.plain[1] == "gone" {
            return self.state.apply(revision, Change::Delete(Key::Topic(name)));
        }
        let racks = words.list("racks").into_iter().enumerate();
        let racks = racks.map(|(number, rack)| (u32::try_from(number).unwrap(), rack.to_owned())).collect();
        let weights = words.list("weights").into_iter().map(|word| {
            let (partition, weight) = word.split_once(':').unwrap();
            (partition.parse().unwrap(), weight.parse().unwrap())
        });
        let topic = Topic {
            weight: words.number("weight", 1),
            weights: weights.collect(),
            racks,
            ..Topic::new(words.plain[1].parse().unwrap())
        };
        self.state.apply(revision, Change::Put(Entry::Topic(name, topic)));
    }

    fn register(&mut self, words: &Words<'_>, name: &ConsumerName, out: &mut String) {
        let session = SessionId::from_u128(words.number("session", 1));
        let consumer = Consumer {
            topics: words.list("topics").into_iter().map(|topic| topic.parse().unwrap()).collect(),
            capacity: words.number("capacity", 1),
            rack: words.get("rack").map(str::to_owned),
            holds: words.list("holds").into_iter().map(place).collect(),
            ..Consumer::new(session, self.now_ms)
        };
        let registered = handoff::register(&self.state, name, consumer);
        if let Some(fenced) = registered.fenced {
            writeln!(out, "session {} of {name} is fenced", fenced.as_u128()).unwrap();
            // What a client without a session does then is not ours to know.
            self.working.remove(&(name.clone(), SessionId::NIL));
        }
        self.views.remove(name);
        self.apply(&registered.step, &mut String::new());
    }

    /// A lease has passed since the consumer was registered, and whoever was fenced has stopped.
    fn waited(&mut self, name: &ConsumerName, out: &mut String) {
        let Some(consumer) = self.state.consumers.get(name).map(|stored| &stored.value) else { return };
        let session = consumer.session;
        self.working.retain(|(whose, which), _| whose != name || *which == session);
        let step = handoff::predecessors_gone(&self.state, name, session);
        self.outcome(Ok(step), out);
    }

    /// Its lease has ended, and it has stopped before, and so have its predecessors.
    pub(crate) fn dies(&mut self, name: &ConsumerName) {
        self.working.retain(|(whose, _), _| whose != name);
        self.views.remove(name);
        let revision = self.state.revision + 1;
        self.state.apply(revision, Change::Delete(Key::Consumer(name.clone())));
    }

    fn deregister(&mut self, words: &Words<'_>, out: &mut String) {
        let name = words.plain[0].parse().unwrap();
        let session = self.session(words, &name);
        match handoff::deregister(&self.state, &name, session) {
            Err(refusal) => writeln!(out, "refused: {refusal}").unwrap(),
            Ok(Deregistered::WaitForDrain { step }) => {
                writeln!(out, "wait for drain").unwrap();
                step.iter().for_each(|step| self.apply(step, out));
            }
            Ok(Deregistered::ShutdownNow { step }) => {
                writeln!(out, "shut down now").unwrap();
                step.iter().for_each(|step| self.apply(step, out));
            }
        }
    }

    /// The process that says something: the one that is registered, if the script does not say which.
    fn session(&self, words: &Words<'_>, name: &ConsumerName) -> SessionId {
        let registered = self.state.consumers.get(name).map_or(1, |stored| stored.value.session.as_u128());
        SessionId::from_u128(words.number("session", registered))
    }

    fn ack(&self, words: &Words<'_>) -> Ack {
        let id = |name| words.get(name).map(|id| id.parse::<u128>().unwrap());
        let caller: ConsumerName = words.plain[0].parse().unwrap();
        Ack {
            session: self.session(words, &caller),
            caller,
            partition: place(words.plain[1]),
            handoff: id("id").map(HandoffId::from_u128),
            epoch: words.get("epoch").map(|epoch| handoff::Epoch(epoch.parse().unwrap())),
        }
    }

    /// Nobody works on what another works on, unless both may.
    pub(crate) fn check(&self) {
        if self.settings.mode == Mode::Exclusive {
            self.check_owners();
        }
    }

    fn check_owners(&self) {
        let mut seen = BTreeMap::new();
        for (name, places) in &self.working {
            for place in places {
                if let Some(other) = seen.insert(place, name) {
                    panic!("{place} has two owners, {other:?} and {name:?}");
                }
            }
        }
    }

    /// At rest, everything that somebody can take is owned by who should own it, and that one works on it.
    pub(crate) fn check_settled(&self) {
        self.check_owners();
        let desired = handoff::desired(&self.state, &self.settings, self.now_ms);
        let is_open = |phase: Phase| phase != Phase::Cancelled;
        let mut handoffs = self.state.handoffs.values();
        assert!(
            desired.choices.is_empty() || !handoffs.any(|stored| is_open(stored.value.phase)),
            "handoffs end"
        );
        for (place, choice) in &desired.choices {
            let owner = self.state.assignments.get(place).map(|stored| &stored.value.owner);
            assert_eq!(owner, Some(&choice.owner), "{place}");
            let session = self.state.consumers[&choice.owner].value.session;
            let working = &self.working[&(choice.owner.clone(), session)];
            assert!(working.contains(place), "{place} is worked on by {}", choice.owner);
        }
        let takes = self.state.consumers.values().any(|stored| stored.value.state == ConsumerState::Ready);
        for (name, stored) in &self.state.consumers {
            if takes && stored.value.state == ConsumerState::Draining {
                let mut owned = desired.choices.keys().filter_map(|place| self.state.assignments.get(place));
                assert!(!owned.any(|stored| stored.value.owner == *name), "{name} is drained");
            }
        }
    }
}
