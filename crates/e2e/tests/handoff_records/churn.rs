//! Counters come, leave, are killed and come back, and so do instances of the assigner, while records come.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::counter::{Counter, Program, results_directory, state_directory};
use crate::history::{Moves, Run, Tenure, check};
use crate::load::{Producer, words};
use crate::world::{World, now_us, until, word_counters};

const TOPIC: &str = "lines";
const PARTITIONS: usize = 24;
/// One record for each partition each time this has passed.
const INTERVAL: Duration = Duration::from_millis(20);

/// So that deaths are noticed soon, and plans are made often.
const SETTINGS: [(&str, &str); 9] = [
    ("consumer_lease_ttl_secs", "6"),
    ("consumer_keepalive_interval_secs", "1"),
    ("leader_lease_ttl_secs", "3"),
    ("leader_keepalive_interval_secs", "0.5"),
    ("election_retry_interval_secs", "0.5"),
    ("rebalance_debounce_interval_secs", "0.2"),
    ("reconcile_interval_secs", "1"),
    ("handoff_timeout_secs", "30"),
    ("handoff_retry_interval_secs", "1"),
];

/// How long to go on unless told how many moves there are to be, and how many there are to be at least even so.
const BUDGET: Duration = Duration::from_secs(90);
const MOVES_AT_LEAST: usize = 48;

/// How many counters there are at a time.
const FEWEST: usize = 2;
const MOST: usize = 5;

#[test]
fn every_record_is_worked_on_by_one_owner_whoever_comes_leaves_or_is_killed() {
    let wanted: Option<usize> = number("KOHORT_HANDOFFS");
    let seed: u64 = number("KOHORT_HANDOFFS_SEED").unwrap_or_else(rand::random);
    println!("KOHORT_HANDOFFS_SEED={seed}");
    let binary = word_counters();
    let world = World::start(&SETTINGS, true);
    world.create_topic(TOPIC, PARTITIONS);
    let producer = Producer::start(&world.broker.bootstrap(), TOPIC, PARTITIONS, 1, INTERVAL);

    let program = Program { binary, topic: TOPIC, group: "counters" };
    let mut stage = Stage {
        world,
        program,
        counters: Vec::new(),
        leaving: Vec::new(),
        past: Vec::new(),
        started: 0,
        random: StdRng::seed_from_u64(seed),
        acts: BTreeMap::new(),
    };
    for _ in 0..FEWEST {
        stage.start_new();
    }
    stage.wait_for_work_everywhere();

    let started = Instant::now();
    loop {
        let moves = stage.begun().saturating_sub(PARTITIONS);
        let is_enough = match wanted {
            Some(wanted) => moves >= wanted,
            None => moves >= MOVES_AT_LEAST && started.elapsed() > BUDGET,
        };
        if is_enough {
            break;
        }
        stage.act();
    }
    let took = started.elapsed();
    stage.wait_for_work_everywhere();
    let records = producer.finish();
    stage.wait_for("all records are worked on", |stage| {
        (0..PARTITIONS).all(|partition| stage.last_run(partition).is_some_and(|it| it.last + 1 >= records))
    });
    stage.all_leave();

    let moves = stage.check_history(records);
    stage.check_states(records);
    println!(
        "{} moves of {PARTITIONS} partitions with {} records in {:.0} s: {} handed over, {} after a kill, {} after a \
         revocation",
        moves.all(),
        records * i64::try_from(PARTITIONS).unwrap(),
        took.as_secs_f64(),
        moves.handed_over,
        moves.after_kill,
        moves.after_revocation
    );
    println!("{:?}", stage.acts);
    assert!(moves.handed_over > 0 && moves.all() >= wanted.unwrap_or(MOVES_AT_LEAST));
}

struct Stage {
    world: World,
    program: Program,
    counters: Vec<Counter>,
    /// Those that were asked to leave, or replaced, and have not ended yet.
    leaving: Vec<Counter>,
    past: Vec<Counter>,
    started: usize,
    random: StdRng,
    acts: BTreeMap<&'static str, usize>,
}

#[derive(Clone, Copy)]
enum Act {
    Start,
    Leave,
    Kill,
    KillAndComeBack,
    Replace,
    KillAssigner,
}

impl Stage {
    /// Does something to somebody and, most of the time, waits for what comes of it.
    fn act(&mut self) {
        let mut acts = vec![Act::KillAssigner];
        let can_be_killed = self.counters.iter().any(|it| !self.replaces_another(it));
        if can_be_killed {
            acts.push(Act::KillAndComeBack);
        }
        let is_at_work = |counter: &Counter| counter.begun() > 0;
        let any_at_work = self.counters.iter().any(is_at_work);
        if any_at_work {
            acts.push(Act::Replace);
        }
        if self.counters.len() < MOST {
            acts.extend([Act::Start; 4]);
        }
        if self.counters.len() > FEWEST {
            if can_be_killed {
                acts.push(Act::Kill);
            }
            if any_at_work {
                acts.extend([Act::Leave; 3]);
            }
        }
        let act = *acts.choose(&mut self.random).unwrap();
        let name = match act {
            Act::Start => "started",
            Act::Leave => "asked to leave",
            Act::Kill => "killed",
            Act::KillAndComeBack => "killed and started again",
            Act::Replace => "replaced",
            Act::KillAssigner => "assigner killed",
        };
        *self.acts.entry(name).or_default() += 1;
        // Often enough the next thing happens in the middle of what comes of this one.
        let waits = self.random.random_bool(0.7);
        match act {
            Act::Start => {
                self.start_new();
                let members = self.counters.len() + self.leaving.len();
                let share = self.random.random_range(1..=PARTITIONS / members);
                if waits {
                    self.wait_for("a new counter gets its share", |stage| {
                        stage.counters.last().is_some_and(|it| it.begun() >= share)
                    });
                }
            }
            Act::Leave => {
                // One that is still starting up does not listen to signals yet.
                let mut leaver = self.take_one_that(is_at_work);
                leaver.ask_to_leave();
                self.leaving.push(leaver);
                if waits {
                    self.wait_for("those who want to leave have left", |stage| stage.leaving.is_empty());
                }
            }
            Act::Kill => {
                self.kill_one();
                if waits {
                    self.wait_for_work_everywhere();
                }
            }
            Act::KillAndComeBack => {
                let name = self.kill_one();
                // Its lease may still run, or be over.
                if self.random.random_bool(0.3) {
                    self.wait_for_work_everywhere();
                }
                self.start(&name);
                if waits {
                    self.wait_for_work_everywhere();
                }
            }
            Act::Replace => {
                // Of two that are still starting up, the one that was started first may register last.
                let older = self.take_one_that(is_at_work);
                let name = older.name.clone();
                self.leaving.push(older);
                self.start(&name);
                if waits {
                    self.wait_for("who was replaced has ended", |stage| stage.leaving.is_empty());
                }
            }
            Act::KillAssigner => {
                let index = self.random.random_range(0..self.world.assigners.len());
                self.world.assigners[index].kill().unwrap();
                if waits {
                    self.wait_for_work_everywhere();
                }
                self.world.assigners[index].restart().unwrap();
            }
        }
    }

    fn start_new(&mut self) {
        let name = format!("c{}", self.started);
        self.start(&name);
    }

    fn start(&mut self, name: &str) {
        let counter = Counter::start(&self.world, &self.program, name, self.started);
        self.started += 1;
        self.counters.push(counter);
    }

    fn take_one_that(&mut self, is_right: impl Fn(&Counter) -> bool) -> Counter {
        let right: Vec<usize> =
            (0..self.counters.len()).filter(|index| is_right(&self.counters[*index])).collect();
        let index = *right.choose(&mut self.random).unwrap();
        self.counters.remove(index)
    }

    /// Whether an older process of the same name has not ended yet. If this one were killed before it has registered, the
    /// older one would rightly stay.
    fn replaces_another(&self, counter: &Counter) -> bool {
        self.leaving.iter().any(|it| it.name == counter.name)
    }

    fn kill_one(&mut self) -> String {
        let names: Vec<String> = self.leaving.iter().map(|it| it.name.clone()).collect();
        let mut killed = self.take_one_that(|it| !names.contains(&it.name));
        killed.kill();
        let name = killed.name.clone();
        self.past.push(killed);
        name
    }

    /// Waits until each partition is worked on by somebody, as of now.
    fn wait_for_work_everywhere(&mut self) {
        let since = now_us();
        self.wait_for("each partition is worked on", |stage| {
            (0..PARTITIONS).all(|partition| stage.last_run(partition).is_some_and(|it| it.at_us > since))
        });
    }

    /// Waits until it is so, and looks after those who leave meanwhile.
    fn wait_for(&mut self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let stage = std::cell::RefCell::new(self);
        let story = || stage.borrow().story();
        until(what, story, || {
            let mut stage = stage.borrow_mut();
            stage.reap();
            is_so(&stage)
        });
    }

    fn reap(&mut self) {
        self.past.extend(self.leaving.extract_if(.., Counter::has_ended));
        let failed = self.past.iter().find(|it| it.has_failed_to_leave()).map(Counter::story);
        assert!(failed.is_none(), "a counter could not leave:\n{}", failed.unwrap_or_default());
        let fallen = self.counters.iter_mut().find_map(|it| it.has_ended().then(|| it.story()));
        assert!(fallen.is_none(), "a counter has ended by itself:\n{}", fallen.unwrap_or_default());
    }

    fn all(&self) -> impl Iterator<Item = &Counter> {
        self.past.iter().chain(&self.leaving).chain(&self.counters)
    }

    /// How often anybody has begun to work on a partition.
    fn begun(&self) -> usize {
        self.all().map(Counter::begun).sum()
    }

    fn results(&self, partition: usize) -> PathBuf {
        results_directory(self.world.directory.path()).join(format!("{TOPIC}-{partition}.results"))
    }

    fn runs(&self, partition: usize) -> Vec<Run> {
        Run::read_all(&fs::read_to_string(self.results(partition)).unwrap_or_default())
    }

    /// The last of them. This is asked all the time, so the rest is not read.
    fn last_run(&self, partition: usize) -> Option<Run> {
        const TAIL: i64 = 1_024;
        let mut file = File::open(self.results(partition)).ok()?;
        let is_longer = file.seek(SeekFrom::End(-TAIL)).is_ok();
        let mut tail = String::new();
        file.read_to_string(&mut tail).ok()?;
        let whole = if is_longer { tail.split_once('\n')?.1 } else { &tail };
        Run::read_all(whole).pop()
    }

    fn all_leave(&mut self) {
        self.wait_for("all are at work", |stage| stage.counters.iter().all(|it| it.begun() > 0));
        for mut counter in self.counters.drain(..) {
            counter.ask_to_leave();
            self.leaving.push(counter);
        }
        self.wait_for("all have left", |stage| stage.leaving.is_empty());
    }

    fn check_history(&self, records: i64) -> Moves {
        let lives: Vec<Vec<Tenure>> = self.all().map(|counter| counter.life().tenures).collect();
        let mut moves = Moves::default();
        for partition in 0..PARTITIONS {
            let tenures: Vec<Tenure> =
                lives.iter().flatten().filter(|it| it.partition == partition).cloned().collect();
            match check(&tenures, &self.runs(partition), records) {
                Ok(these) => moves.add(these),
                Err(problem) => panic!("partition {partition}: {problem}\n{}", self.story()),
            }
        }
        moves
    }

    /// Whatever state anybody has stored is that of the records before its offset, each counted once; and of each
    /// partition somebody has stored the state of all.
    fn check_states(&self, records: i64) {
        let mut newest = [0; PARTITIONS];
        let mut names: Vec<&str> = self.all().map(|counter| counter.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let directory = state_directory(self.world.directory.path(), name);
            for (partition, newest) in newest.iter_mut().enumerate() {
                let Ok(text) = fs::read(directory.join(format!("{TOPIC}-{partition}.counts"))) else {
                    continue;
                };
                let state: Value = serde_json::from_slice(&text).unwrap();
                let next = state["next_offset"].as_i64().unwrap();
                assert_eq!(state["lines"].as_i64(), Some(next), "{name}, partition {partition}");
                let counted: BTreeMap<String, u64> = serde_json::from_value(state["words"].clone()).unwrap();
                assert_eq!(counted, words(partition, next), "{name}, partition {partition}");
                *newest = next.max(*newest);
            }
        }
        assert_eq!(newest, [records; PARTITIONS]);
    }

    /// What everybody has said lately.
    fn story(&self) -> String {
        let mut story = String::new();
        for counter in self.leaving.iter().chain(&self.counters).chain(self.past.iter().rev().take(3)) {
            story.push_str(&counter.story());
        }
        for assigner in &self.world.assigners {
            let said = assigner.output();
            let lines: Vec<&str> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(60)..].join("\n");
            story.push_str(&format!("--- assigner {}:\n{last}\n", assigner.url()));
        }
        story
    }
}

fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    env::var(name).ok()?.parse().ok()
}
