mod leaving;
mod reconnects;

use super::*;

const LEASE: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_secs(5);

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn place(number: u32) -> Partition {
    Partition::new("t", number)
}

fn handoff(id: &str, epoch: u64) -> Handoff {
    Handoff { id: id.to_owned(), epoch }
}

fn failure(kind: FailureKind) -> Failure {
    Failure { kind, message: "no".to_owned() }
}

/// A machine, its clock, and what it wants in words.
struct Rig {
    machine: Machine,
    now: Duration,
    link: Option<LinkId>,
    within: Duration,
    tickets: BTreeMap<String, Ticket>,
}

impl Rig {
    fn new() -> Self {
        let mut rig = Self {
            machine: Machine::new(2, 1),
            now: secs(100),
            link: None,
            within: Duration::ZERO,
            tickets: BTreeMap::new(),
        };
        rig.machine.handle_time(rig.now);
        assert_eq!(rig.wants(), ["connect 0"]);
        rig
    }

    /// A consumer that is connected and works on these.
    fn working(owned: &[(u32, u64)]) -> Self {
        let mut rig = Self::new();
        rig.snapshot(owned);
        let _ = rig.wants();
        for (number, _) in owned {
            rig.returns(*number);
        }
        let _ = rig.wants();
        rig
    }

    fn wants(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        for action in self.machine.take_actions() {
            words.push(match action {
                Action::Connect { link, endpoint, within } => {
                    self.link = Some(link);
                    self.within = within;
                    format!("connect {endpoint}")
                }
                Action::Disconnect => "disconnect".to_owned(),
                Action::Turn { endpoint } => format!("turn to {endpoint}"),
                Action::Send { ticket, request, .. } => {
                    let word = match request {
                        Request::KeepAlive => "alive".to_owned(),
                        Request::Ready { partition, handoff } => format!("ready {partition} {}", handoff.id),
                        Request::Released { partition, handoff } => {
                            format!("released {partition} {}", handoff.id)
                        }
                        Request::Progress { partition, done, total, .. } => {
                            format!("at {partition} {done}/{total}")
                        }
                        Request::Deregister { has_stopped: false } => "deregister".to_owned(),
                        Request::Deregister { has_stopped: true } => "stopped".to_owned(),
                    };
                    self.tickets.insert(word.clone(), ticket);
                    word
                }
                Action::Call { partition, call } => match call {
                    Call::Warm { handoff, .. } => format!("warm {partition} {}", handoff.id),
                    Call::Assign { epoch } => format!("assign {partition} {epoch}"),
                    Call::Release => format!("release {partition}"),
                    Call::Cancel => format!("cancel {partition}"),
                    Call::Revoke => format!("revoke {partition}"),
                },
                Action::EndWarm { partition, end } => format!("end warm {partition} {end:?}"),
                Action::Own { partition, .. } => format!("own {partition}"),
                Action::Disown { partition } => format!("disown {partition}"),
                // Only its time matters, and that is tested by itself.
                Action::Until { .. } => continue,
                Action::Stopped(_) => "nothing is ours".to_owned(),
                Action::Fenced => "fenced".to_owned(),
                Action::End(outcome) => format!("end {outcome:?}"),
            });
        }
        words
    }

    fn told(&mut self, command: Command) {
        let link = self.link.expect("it has connected");
        self.machine.handle_command(self.now, link, command);
    }

    fn snapshot(&mut self, owned: &[(u32, u64)]) {
        let assigned = owned.iter().map(|(number, epoch)| (place(*number), *epoch)).collect();
        let snapshot = Some(Snapshot { lease_ttl: LEASE, keep_alive_interval: INTERVAL });
        self.told(Command::Assignment { assigned, unassigned: Vec::new(), snapshot });
    }

    fn assigned(&mut self, number: u32, epoch: u64) {
        let assigned = vec![(place(number), epoch)];
        self.told(Command::Assignment { assigned, unassigned: Vec::new(), snapshot: None });
    }

    fn unassigned(&mut self, number: u32) {
        let unassigned = vec![place(number)];
        self.told(Command::Assignment { assigned: Vec::new(), unassigned, snapshot: None });
    }

    fn warm(&mut self, number: u32, id: &str, epoch: u64) {
        let (partition, handoff) = (place(number), handoff(id, epoch));
        self.told(Command::Warm { partition, handoff, current_owner: "other".to_owned() });
    }

    fn release(&mut self, number: u32, id: &str, epoch: u64) {
        let (partition, handoff) = (place(number), handoff(id, epoch));
        self.told(Command::Release { partition, handoff, new_owner: "other".to_owned() });
    }

    fn cancel(&mut self, number: u32, id: &str) {
        self.told(Command::Cancel { partition: place(number), id: id.to_owned() });
    }

    fn returns(&mut self, number: u32) {
        self.machine.handle_return(self.now, &place(number), true);
    }

    fn fails(&mut self, number: u32) {
        self.machine.handle_return(self.now, &place(number), false);
    }

    fn answer(&mut self, word: &str, result: Result<Answer, FailureKind>) {
        let ticket = self.tickets.remove(word).unwrap_or_else(|| panic!("nobody said `{word}`"));
        self.machine.handle_answer(self.now, ticket, result.map_err(failure));
    }

    fn loses_link(&mut self) {
        let link = self.link.expect("it has connected");
        self.machine.handle_disconnected(self.now, link, &failure(FailureKind::Later));
    }

    fn reconnects(&mut self) {
        self.loses_link();
        self.pass(secs(1));
        assert_eq!(self.wants(), ["connect 1"]);
    }

    /// Loses the link and tries the next endpoint.
    fn reconnects_somewhere(&mut self) {
        self.loses_link();
        while !self.wants().iter().any(|word| word.starts_with("connect")) {
            self.pass(Duration::from_millis(10));
        }
    }

    /// Lets time pass, with every deadline on the way.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut steps = 0;
        while let Some(at) = self.machine.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.machine.handle_time(self.now);
            steps += 1;
            assert!(steps < 1_000, "a deadline must not stay: {:?}", self.machine);
        }
        self.now = end;
        self.machine.handle_time(self.now);
    }
}

#[test]
fn what_the_snapshot_says_is_assigned_and_what_is_unassigned_revoked() {
    let mut rig = Rig::new();
    rig.snapshot(&[(0, 3), (1, 4)]);
    assert_eq!(rig.wants(), ["own t-0", "assign t-0 3", "own t-1", "assign t-1 4"]);
    rig.returns(0);
    rig.unassigned(0);
    assert_eq!(rig.wants(), ["disown t-0", "revoke t-0"]);
    rig.assigned(0, 5);
    assert_eq!(rig.wants(), [""; 0], "not before it is revoked");
    rig.returns(0);
    assert_eq!(rig.wants(), ["own t-0", "assign t-0 5"]);
}

#[test]
fn a_handoff_goes_through_all_its_steps_on_both_sides() {
    let mut rig = Rig::working(&[(0, 3)]);
    rig.warm(1, "h1", 8);
    assert_eq!(rig.wants(), ["warm t-1 h1"]);
    rig.returns(1);
    assert_eq!(rig.wants(), ["ready t-1 h1"]);
    rig.answer("ready t-1 h1", Ok(Answer::Done));
    rig.assigned(1, 8);
    assert_eq!(rig.wants(), ["own t-1", "assign t-1 8"]);

    rig.release(0, "h2", 4);
    assert_eq!(rig.wants(), ["release t-0"], "still ours: it has to commit");
    rig.returns(0);
    assert_eq!(rig.wants(), ["disown t-0", "released t-0 h2"]);
    rig.answer("released t-0 h2", Ok(Answer::Done));
    rig.unassigned(0);
    assert_eq!(rig.wants(), [""; 0]);
    rig.assigned(0, 3);
    assert_eq!(rig.wants(), [""; 0], "it was given away, and this is from before");
    rig.assigned(0, 5);
    assert_eq!(rig.wants(), ["own t-0", "assign t-0 5"]);
}

#[test]
fn an_acknowledgement_is_repeated_until_it_is_answered() {
    let mut rig = Rig::working(&[(0, 3)]);
    rig.release(0, "h", 4);
    rig.returns(0);
    assert_eq!(rig.wants(), ["release t-0", "disown t-0", "released t-0 h"]);
    for _ in 0..3 {
        rig.answer("released t-0 h", Err(FailureKind::Later));
        assert_eq!(rig.wants(), [""; 0]);
        rig.pass(SAY_AGAIN);
        assert_eq!(rig.wants(), ["released t-0 h"]);
    }
    rig.answer("released t-0 h", Err(FailureKind::Refused));
    rig.pass(secs(4));
    assert_eq!(rig.wants(), ["alive"], "refused is an answer");
    rig.assigned(0, 3);
    assert_eq!(rig.wants(), ["own t-0", "assign t-0 3"], "the handoff was given up");
}

#[test]
fn a_handoff_that_is_cancelled_ends_the_warming() {
    let mut rig = Rig::working(&[]);
    rig.warm(0, "h", 4);
    rig.cancel(0, "another");
    assert_eq!(rig.wants(), ["warm t-0 h"]);
    rig.cancel(0, "h");
    assert_eq!(rig.wants(), ["end warm t-0 Cancelled"]);
    rig.warm(0, "h2", 4);
    assert_eq!(rig.wants(), [""; 0], "one call at a time");
    rig.returns(0);
    assert_eq!(rig.wants(), ["cancel t-0"], "never said to be ready");
    rig.returns(0);
    assert_eq!(rig.wants(), ["warm t-0 h2"]);
}

#[test]
fn the_owners_death_ends_the_warming_and_it_is_assigned_as_it_is() {
    let mut rig = Rig::working(&[]);
    rig.warm(0, "h", 4);
    rig.assigned(0, 4);
    assert_eq!(rig.wants(), ["warm t-0 h", "end warm t-0 Assigned"]);
    rig.returns(0);
    assert_eq!(rig.wants(), ["own t-0", "assign t-0 4"]);
}

#[test]
fn a_warming_that_fails_is_not_repeated_for_the_same_handoff() {
    let mut rig = Rig::working(&[]);
    rig.warm(0, "h", 4);
    rig.fails(0);
    assert_eq!(rig.wants(), ["warm t-0 h", "cancel t-0"]);
    rig.returns(0);
    rig.warm(0, "h", 4);
    assert_eq!(rig.wants(), [""; 0]);
    rig.warm(0, "h2", 4);
    assert_eq!(rig.wants(), ["warm t-0 h2"]);
}

#[test]
fn progress_is_reported_when_it_grows_and_not_too_often() {
    let mut rig = Rig::working(&[]);
    rig.warm(0, "h", 4);
    let mut said = Vec::new();
    for done in [0, 1, 2, 3, 3, 3, 4, 4] {
        rig.machine.handle_progress(rig.now, &place(0), done, 9);
        rig.now += secs(2);
        said.extend(rig.wants().into_iter().filter(|word| word.starts_with("at ")));
    }
    assert_eq!(said, ["at t-0 1/9", "at t-0 3/9", "at t-0 4/9"]);
}

#[test]
fn a_release_that_fails_is_tried_again_and_nobody_is_told() {
    let mut rig = Rig::working(&[(0, 3)]);
    rig.release(0, "h", 4);
    rig.fails(0);
    assert_eq!(rig.wants(), ["release t-0"]);
    rig.pass(secs(1));
    assert_eq!(rig.wants(), ["release t-0"]);
    rig.fails(0);
    rig.assigned(0, 3);
    assert_eq!(rig.wants(), ["disown t-0", "revoke t-0"], "half stopped is not working");
    rig.returns(0);
    assert_eq!(rig.wants(), ["own t-0", "assign t-0 3"]);
}

#[test]
fn an_assignment_that_fails_is_revoked_and_tried_again() {
    let mut rig = Rig::new();
    rig.snapshot(&[(0, 3)]);
    rig.fails(0);
    assert_eq!(rig.wants(), ["own t-0", "assign t-0 3", "disown t-0", "revoke t-0"]);
    rig.returns(0);
    assert_eq!(rig.wants(), [""; 0]);
    rig.pass(secs(1));
    assert_eq!(rig.wants(), ["own t-0", "assign t-0 3"]);
}
