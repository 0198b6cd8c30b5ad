//! Everything at once, in an order that a seed decides.

use std::env;
use std::str::FromStr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use e2e::relay::Relay;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::worker::Worker;
use crate::world::World;

const PARTITIONS: u32 = 12;
const NAMES: usize = 6;
const INSTANCES: usize = 3;

/// How long it goes on unless `KOHORT_CHAOS_SECS` says otherwise; `KOHORT_CHAOS_SEED` repeats the order.
const LASTS: u64 = 20;

#[derive(Clone, Copy, Debug)]
enum Act {
    Join,
    Leave,
    Stop,
    Crash,
    Hold,
    LetGo,
    /// A consumer loses some of its connections, or what is sent over them comes much later.
    Lose,
    Delay,
    Deliver,
    Kill,
    Restart,
    Pause,
    Resume,
    Cut,
    Freeze,
    Mend,
    PauseEtcd,
    RestartEtcd,
    Compact,
}

#[test]
fn whatever_happens_nobody_works_beside_another_and_in_the_end_all_is_well() {
    let seed = number("KOHORT_CHAOS_SEED").unwrap_or_else(rand::random);
    let lasts = Duration::from_secs(number("KOHORT_CHAOS_SECS").unwrap_or(LASTS));
    println!("KOHORT_CHAOS_SEED={seed}");
    let mut stage = Stage {
        world: World::start(INSTANCES, PARTITIONS),
        random: StdRng::seed_from_u64(seed),
        workers: Vec::new(),
        leaving: Vec::new(),
        conditions: vec![Condition::default(); INSTANCES],
        compacted: 0,
        acts: 0,
    };
    let started = Instant::now();
    while started.elapsed() < lasts {
        stage.act();
        stage.world.journal.check();
        thread::sleep(Duration::from_millis(stage.random.random_range(0..300)));
    }
    stage.heal();
    let Stage { world, workers, leaving, acts, .. } = stage;
    world.until("those who leave have left", || leaving.iter().all(|(_, thread)| thread.is_finished()));
    for (_, thread) in leaving {
        thread.join().unwrap();
    }
    world.rest(&workers.iter().map(|(worker, _)| worker).collect::<Vec<_>>());
    println!("{acts} acts, {} times somebody began to work on a partition", world.journal.all_begun());
}

struct Stage {
    world: World,
    random: StdRng,
    workers: Vec<(Worker, Vec<Relay>)>,
    leaving: Vec<(String, JoinHandle<()>)>,
    conditions: Vec<Condition>,
    compacted: u64,
    acts: usize,
}

/// What is the matter with an instance.
#[derive(Clone, Copy, Default)]
struct Condition {
    is_dead: bool,
    is_paused: bool,
    is_parted: bool,
}

impl Condition {
    fn is_well(self) -> bool {
        !self.is_dead && !self.is_paused && !self.is_parted
    }
}

impl Stage {
    fn act(&mut self) {
        use Act::{
            Compact, Crash, Cut, Delay, Deliver, Freeze, Hold, Join, Kill, Leave, LetGo, Lose, Mend, Pause,
            PauseEtcd, Restart, RestartEtcd, Resume, Stop,
        };
        let acts = [
            [Join, Join, Join, Join].as_slice(),
            &[Leave, Stop, Crash],
            &[Hold, LetGo, LetGo, LetGo],
            &[Lose, Delay, Deliver, Deliver],
            &[Kill, Restart, Restart, Pause, Resume, Resume],
            &[Cut, Freeze, Mend, Mend],
            &[PauseEtcd, RestartEtcd, Compact],
        ]
        .concat();
        let act = *acts.choose(&mut self.random).unwrap();
        let instance = self.random.random_range(0..INSTANCES);
        let condition = self.conditions[instance];
        let is_harmful = matches!(act, Kill | Pause | Cut | Freeze);
        let well = (0..INSTANCES).filter(|it| *it != instance && self.conditions[*it].is_well()).count();
        // Without an instance in reach, or with an etcd that is hardly ever there, nothing would happen.
        let is_harmful_to_all = matches!(act, PauseEtcd | RestartEtcd);
        if is_harmful && well == 0 || is_harmful_to_all && self.random.random_bool(0.7) {
            return;
        }
        self.acts += 1;
        match act {
            Join => self.join(),
            Leave => self.take_away(Worker::leave),
            Stop => self.take_away(Worker::stop),
            Crash => {
                if let Some((worker, _)) = self.take_one() {
                    worker.crash();
                }
            }
            Hold | LetGo => {
                let (warm, release) = (self.random.random(), self.random.random());
                if let Some((worker, _)) = self.workers.choose(&mut self.random) {
                    worker.hands.may_get_warm(warm || matches!(act, LetGo));
                    worker.hands.may_let_go(release || matches!(act, LetGo));
                }
            }
            Lose | Delay | Deliver => {
                let Some((_, relays)) = self.workers.choose(&mut self.random) else { return };
                for relay in relays {
                    match act {
                        Deliver => relay.mend(),
                        _ if self.random.random() => {}
                        Lose => relay.cut(),
                        _ => relay.freeze(),
                    }
                }
            }
            Kill => {
                self.world.assigners[instance].kill().unwrap();
                self.conditions[instance].is_dead = true;
                self.conditions[instance].is_paused = false;
            }
            Restart if condition.is_dead => self.restart(instance),
            Pause if !condition.is_dead => {
                self.world.assigners[instance].pause().unwrap();
                self.conditions[instance].is_paused = true;
            }
            Resume if condition.is_paused => {
                self.world.assigners[instance].resume().unwrap();
                self.conditions[instance].is_paused = false;
            }
            Cut | Freeze => {
                let relay = &self.world.relays[instance];
                if matches!(act, Cut) {
                    relay.cut();
                } else {
                    relay.freeze();
                }
                self.conditions[instance].is_parted = true;
            }
            Mend => {
                self.world.relays[instance].mend();
                self.conditions[instance].is_parted = false;
            }
            PauseEtcd => {
                self.world.cluster.nodes[0].pause().unwrap();
                thread::sleep(Duration::from_millis(self.random.random_range(0..1500)));
                self.world.cluster.nodes[0].resume().unwrap();
            }
            RestartEtcd => {
                self.world.cluster.nodes[0].kill().unwrap();
                self.world.cluster.nodes[0].restart().unwrap();
            }
            Compact => {
                let revision = self.world.revision();
                // Twice is an error.
                if std::mem::replace(&mut self.compacted, revision) < revision {
                    self.world.cluster.nodes[0].compact(revision).unwrap();
                }
            }
            Restart | Pause | Resume => {}
        }
    }

    /// Someone under a name that nobody uses at the moment, or that someone who crashed has used.
    fn join(&mut self) {
        for (_, thread) in self.leaving.extract_if(.., |(_, thread)| thread.is_finished()) {
            thread.join().unwrap();
        }
        let leaving = self.leaving.iter().map(|(name, _)| name.as_str());
        let taken: Vec<&str> = self.workers.iter().map(|(worker, _)| worker.name()).chain(leaving).collect();
        let names = (0..NAMES).map(|it| format!("w{it}")).filter(|name| !taken.contains(&name.as_str()));
        if let Some(name) = names.collect::<Vec<_>>().choose(&mut self.random) {
            let home = self.random.random_range(0..INSTANCES);
            self.workers.push(self.world.worker_behind_relays(name, home));
        }
    }

    fn take_one(&mut self) -> Option<(Worker, Vec<Relay>)> {
        if self.workers.is_empty() {
            return None;
        }
        let index = self.random.random_range(0..self.workers.len());
        Some(self.workers.swap_remove(index))
    }

    fn take_away(&mut self, leave: fn(Worker)) {
        if let Some((worker, relays)) = self.take_one() {
            let name = worker.name().to_owned();
            relieve(&worker, &relays);
            let thread = thread::spawn(move || {
                leave(worker);
                drop(relays);
            });
            self.leaving.push((name, thread));
        }
    }

    fn restart(&mut self, instance: usize) {
        // It is waited for.
        self.world.relays[instance].mend();
        self.world.assigners[instance].restart().unwrap();
        self.conditions[instance] = Condition::default();
    }

    fn heal(&mut self) {
        for instance in 0..INSTANCES {
            self.world.relays[instance].mend();
            if self.conditions[instance].is_paused {
                self.world.assigners[instance].resume().unwrap();
            }
            if self.conditions[instance].is_dead {
                self.restart(instance);
            }
        }
        for (worker, relays) in &self.workers {
            relieve(worker, relays);
        }
    }
}

/// Nothing holds it up any more.
fn relieve(worker: &Worker, relays: &[Relay]) {
    relays.iter().for_each(Relay::mend);
    worker.hands.may_get_warm(true);
    worker.hands.may_let_go(true);
}

fn number<T: FromStr>(name: &str) -> Option<T> {
    env::var(name).ok()?.parse().ok()
}
