//! Random walks: whatever comes in whichever order, certain things never happen.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const SEEDS: u64 = 2_000;
const STEPS: usize = 150;
const PARTITIONS: u64 = 3;

/// What the outside world sees of a machine.
struct World {
    machine: Machine,
    seed: u64,
    now: Duration,
    link: Option<LinkId>,
    open: Vec<Ticket>,
    running: BTreeMap<Partition, Call>,
    mine: BTreeSet<Partition>,
    /// Partitions on which work was begun and has not ended.
    at_work: BTreeSet<Partition>,
    until: Duration,
    has_ended: bool,
}

impl World {
    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn partition(&mut self) -> Partition {
        Partition::new("t", u32::try_from(self.random(PARTITIONS)).unwrap())
    }

    fn handoff(&mut self) -> Handoff {
        Handoff { id: format!("h{}", self.random(4)), epoch: self.random(6) }
    }

    fn command(&mut self) -> Command {
        let partition = self.partition();
        let other = || "other".to_owned();
        match self.random(6) {
            0 => Command::Warm { partition, handoff: self.handoff(), current_owner: other() },
            1 => Command::Release { partition, handoff: self.handoff(), new_owner: other() },
            2 => Command::Cancel { partition, id: self.handoff().id },
            kind => {
                let assigned = (0..self.random(3)).map(|_| (self.partition(), self.random(6))).collect();
                let unassigned = (0..self.random(2)).map(|_| self.partition()).collect();
                let snapshot = (kind == 3).then_some(Snapshot {
                    lease_ttl: Duration::from_secs(9),
                    keep_alive_interval: Duration::from_secs(1),
                });
                Command::Assignment { assigned, unassigned, snapshot }
            }
        }
    }

    fn failure(&mut self) -> Failure {
        let kind = match self.random(12) {
            0 => FailureKind::Fenced,
            1 => FailureKind::Unregistered,
            2 => FailureKind::Hopeless,
            3..6 => FailureKind::Refused,
            _ => FailureKind::Later,
        };
        Failure { kind, message: String::new() }
    }

    fn step(&mut self) {
        let pause = [0, 10, 500, 2_500][usize::try_from(self.random(4)).unwrap()];
        self.now += Duration::from_millis(pause);
        match (self.random(10), self.link) {
            (0..4, Some(link)) => {
                let command = self.command();
                self.machine.handle_command(self.now, link, command);
            }
            (4, Some(link)) => {
                let failure = self.failure();
                self.machine.handle_disconnected(self.now, link, &failure);
            }
            (5 | 6, _) => {
                let partition = self.partition();
                if let Some(call) = self.running.remove(&partition) {
                    let is_ok = self.random(4) > 0;
                    if is_ok && call == Call::Release || call == Call::Revoke {
                        self.at_work.remove(&partition);
                    }
                    self.machine.handle_return(self.now, &partition, is_ok);
                }
            }
            (7 | 8, _) if !self.open.is_empty() => {
                let at = self.random(u64::try_from(self.open.len()).unwrap());
                let ticket = self.open.swap_remove(usize::try_from(at).unwrap());
                let answers = [Answer::Done, Answer::WaitForDrain, Answer::ShutDownNow];
                let result = match self.random(5) {
                    0 => Err(self.failure()),
                    1..4 => Ok(Answer::Alive { lease_ttl: Duration::from_secs(9) }),
                    _ => Ok(answers[usize::try_from(self.random(3)).unwrap()]),
                };
                self.machine.handle_answer(self.now, ticket, result);
            }
            (9, _) if self.random(30) == 0 => self.machine.deregister(self.now),
            _ => self.machine.handle_time(self.now),
        }
    }

    /// Looks at what the machine wants. Returns whether it wants nothing more at this time.
    fn check(&mut self) -> bool {
        for action in self.machine.take_actions() {
            assert!(!self.has_ended, "{action:?} after the end");
            match action {
                Action::Connect { link, .. } => self.link = Some(link),
                Action::Send { ticket, .. } => self.open.push(ticket),
                Action::Call { partition, call } => {
                    if matches!(call, Call::Warm { .. } | Call::Assign { .. }) {
                        assert!(
                            !self.at_work.contains(&partition),
                            "{call:?} of {partition} while it is worked on"
                        );
                    }
                    if matches!(call, Call::Assign { .. }) {
                        assert!(self.mine.contains(&partition), "{partition} is worked on but not ours");
                        self.at_work.insert(partition.clone());
                    }
                    if call == Call::Revoke {
                        assert!(!self.mine.contains(&partition), "{partition} is revoked but ours");
                    }
                    let before = self.running.insert(partition.clone(), call.clone());
                    assert_eq!(before, None, "{call:?} of {partition} before that has returned");
                }
                Action::Own { partition, .. } => {
                    assert!(self.now < self.until, "{partition} is taken after the lease");
                    assert!(self.mine.insert(partition), "it is ours already");
                }
                Action::Disown { partition } => assert!(self.mine.remove(&partition), "it is not ours"),
                Action::Until { stop_at, is_new } => {
                    assert!(!is_new || self.mine.is_empty(), "{:?} is ours from before", self.mine);
                    self.until = stop_at;
                }
                Action::End(_) => {
                    assert!(self.running.is_empty() && self.at_work.is_empty(), "work goes on");
                    self.has_ended = true;
                }
                Action::Disconnect
                | Action::Turn { .. }
                | Action::EndWarm { .. }
                | Action::Stopped(_)
                | Action::Fenced => {}
            }
        }
        self.machine.handle_time(self.now);
        let is_settled = self.machine.actions.is_empty();
        if is_settled {
            let deadline = self.machine.next_deadline();
            assert!(deadline.is_none_or(|at| at > self.now), "{deadline:?} is over: {:?}", self.machine);
            assert!(self.mine.is_empty() || self.now < self.until, "{:?} after the lease", self.mine);
        }
        is_settled
    }
}

#[test]
fn whatever_happens_no_partition_is_worked_on_twice_at_once_or_after_the_lease() {
    let mut ends = 0;
    for seed in 0..SEEDS {
        let mut world = World {
            machine: Machine::new(2, seed),
            seed,
            now: Duration::from_secs(1),
            link: None,
            open: Vec::new(),
            running: BTreeMap::new(),
            mine: BTreeSet::new(),
            at_work: BTreeSet::new(),
            until: Duration::ZERO,
            has_ended: false,
        };
        for _ in 0..STEPS {
            world.step();
            while !world.check() {}
        }
        ends += u64::from(world.has_ended);
    }
    assert!(ends > SEEDS / 20 && ends < SEEDS, "{ends} of {SEEDS} came to an end");
}
