//! Groups under load while their broker is killed again and again: members that stay do not notice, nothing that was
//! acknowledged is lost, and no generation is given out twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::number;
use crate::support::member::{
    COORDINATOR_LOAD_IN_PROGRESS, HEARTBEAT, ILLEGAL_GENERATION, LONG, Member, NONE, NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID,
};
use crate::support::{Connection, code, get_with, kohort, wait_until, wait_until_or_tell};
use crate::victim::{Apart, Victim, Whole};

/// Groups whose members come once and stay.
const CALM: [&str; 2] = ["calm-0", "calm-1"];
/// Groups whose members come and go.
const BUSY: [&str; 3] = ["busy-0", "busy-1", "busy-2"];
const MEMBERS: usize = 3;

/// A member of a busy group that left may be back after a kill, as in Kafka: what it left was not written yet. The
/// others then wait until its session is over.
const BUSY_SESSION_MS: i32 = 3_000;
const BUSY_REBALANCE_MS: i32 = 10_000;

/// Small files that are settled and compacted all the while, so that kills meet that, too.
const SETTINGS: [(&str, &str); 6] = [
    ("kohort.log.file.bytes", "1048576"),
    ("kohort.settle.interval.ms", "100"),
    ("log.cleaner.backoff.ms", "50"),
    ("offsets.topic.segment.bytes", "65536"),
    ("offsets.topic.num.partitions", "3"),
    ("group.min.session.timeout.ms", "1000"),
];

/// COMMIT-27, E2E-06, E2E-07, RT-05, RT-20: acknowledged commits, memberships and ids survive every kill.
#[test]
fn groups_outlive_every_kill() {
    groups_survive(Whole::start(&SETTINGS));
}

#[test]
fn groups_outlive_every_kill_of_gateways_and_their_broker() {
    groups_survive(Apart::start(&SETTINGS));
}

fn groups_survive(mut victim: impl Victim) {
    let kills: u32 = number("KOHORT_CRASH_KILLS").unwrap_or(5);
    let seed: u64 = number("KOHORT_CRASH_SEED").unwrap_or_else(rand::random);
    println!("{kills} kills of groups, KOHORT_CRASH_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);

    let addresses = victim.addresses();
    let address = addresses[0].clone();
    Connection::open(&address).create_topic("t", i32::try_from(MEMBERS).unwrap());

    let company = Company::start(&addresses, victim.is_apart(), &mut random);
    let mut looking = Connection::open(&address);
    wait_until("all groups are stable", || company.is_stable(&mut looking));
    company.beat_on(&victim);
    // From here on nobody comes to a calm group, and nobody goes.
    company.frozen.store(true, Ordering::Release);
    let ids = group_ids(&victim);
    println!("{ids:?}");

    let started = Instant::now();
    let (mut slowest, mut slowest_to_settle) = (Duration::ZERO, Duration::ZERO);
    for kill in 1..=kills {
        // The moment is what is random here, so it has to be waited for.
        thread::sleep(Duration::from_millis(random.random_range(0..400)));
        slowest = slowest.max(victim.strike(&mut random));
        company.is_sound();
        // Every other kill meets groups that have not found together yet.
        if random.random_bool(0.5) {
            let began = Instant::now();
            company.beat_on(&victim);
            slowest_to_settle = slowest_to_settle.max(began.elapsed());
            assert_eq!(group_ids(&victim), ids, "after kill {kill}");
        }
    }
    company.beat_on(&victim);
    println!(
        "killed {kills} times in {:.1} s; slowest start {slowest:?}, slowest to settle {slowest_to_settle:?}",
        started.elapsed().as_secs_f64()
    );
    company.check_offsets(&address);
    assert_eq!(group_ids(&victim), ids);
    company.finish(&address);

    victim.stop();
    let said = victim.output();
    assert!(!said.contains("panicked") && !said.contains("ERROR"), "{said}");
    let (_, data_dir) = victim.admin();
    let data_dir = data_dir.to_str().unwrap().to_owned();
    let verified = kohort(&["log", "verify", "--data-dir", &data_dir]);
    assert_eq!(code(&verified), Some(0), "{verified:?}");
}

/// The id of every group, as the admin listener tells it.
fn group_ids(victim: &impl Victim) -> BTreeMap<&'static str, String> {
    let (admin, data_dir) = victim.admin();
    let token = fs::read_to_string(data_dir.join("admin-token")).unwrap();
    let id = |group: &str| {
        let mut id = String::new();
        wait_until("the group's id is told", || {
            let path = format!("/v1/group-events?group={group}");
            let (status, body) = get_with(&admin, &path, Some(token.trim()));
            // It is not known while it is being loaded.
            assert!([200, 404, 503].contains(&status), "{status} {body}");
            if status == 200 {
                let told: serde_json::Value = serde_json::from_str(&body).unwrap();
                told["id"].as_str().unwrap().clone_into(&mut id);
            }
            status == 200
        });
        assert!(id.starts_with("cgp_"), "{id}");
        id
    };
    CALM.into_iter().chain(BUSY).map(|group| (group, id(group))).collect()
}

/// All members of all groups.
struct Company {
    actors: Vec<Actor>,
    journal: Arc<Journal>,
    frozen: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

struct Actor {
    group: &'static str,
    partition: i32,
    progress: Arc<Progress>,
    thread: JoinHandle<()>,
}

/// How far a member has come.
#[derive(Default)]
struct Progress {
    /// One more than the last offset that was acknowledged.
    acknowledged: AtomicI64,
    /// One more than the last offset that was sent.
    sent: AtomicI64,
    commits: AtomicUsize,
    /// Rounds that ended well: commits and a heartbeat.
    rounds: AtomicUsize,
}

/// What all members have been told about generations, over all lives of the broker.
#[derive(Default)]
struct Journal(Mutex<BTreeMap<(String, i32), Generation>>);

#[derive(Default)]
struct Generation {
    leader: String,
    /// As the leader was told.
    members: Option<BTreeSet<String>>,
    /// Who has been told that it is in.
    told: BTreeSet<String>,
}

impl Company {
    fn start(addresses: &[String], is_apart: bool, random: &mut StdRng) -> Self {
        let (journal, stop, frozen) = (Arc::default(), Arc::default(), Arc::default());
        let mut actors = Vec::new();
        for group in CALM.into_iter().chain(BUSY) {
            for partition in 0..i32::try_from(MEMBERS).unwrap() {
                let progress: Arc<Progress> = Arc::default();
                let mut role = Role {
                    addresses: addresses.to_vec(),
                    is_apart,
                    is_calm: CALM.contains(&group),
                    partition,
                    is_in: false,
                    member: None,
                    random: StdRng::seed_from_u64(random.random()),
                    progress: Arc::clone(&progress),
                    journal: Arc::clone(&journal),
                    frozen: Arc::clone(&frozen),
                    stop: Arc::clone(&stop),
                };
                let thread = thread::spawn(move || role.play(group));
                actors.push(Actor { group, partition, progress, thread });
            }
        }
        Self { actors, journal, frozen, stop }
    }

    fn is_stable(&self, looking: &mut Connection) -> bool {
        self.is_sound();
        CALM.into_iter().all(|group| {
            let shown = looking.described(group);
            shown.group_state == "Stable" && shown.members.len() == MEMBERS
        }) && BUSY.into_iter().all(|group| !looking.described(group).members.is_empty())
    }

    /// Waits until every member has committed and is told that all is well: every group has settled.
    fn beat_on(&self, victim: &impl Victim) {
        let rounds = || {
            self.actors.iter().map(|actor| actor.progress.rounds.load(Ordering::Acquire)).collect::<Vec<_>>()
        };
        let before = rounds();
        let stuck = || {
            let goes_on = rounds().into_iter().zip(&before).map(|(now, before)| now >= before + 2);
            let stuck = self.actors.iter().zip(goes_on).filter(|(_, goes_on)| !goes_on);
            stuck.map(|(actor, _)| (actor.group, actor.partition)).collect::<Vec<_>>()
        };
        let goes_on = || {
            self.is_sound();
            stuck().is_empty()
        };
        let story = || format!("; these do not: {:?}\n{}", stuck(), victim.output());
        wait_until_or_tell("every member goes on", goes_on, story);
    }

    /// No member has met what it must not.
    fn is_sound(&self) {
        for actor in &self.actors {
            assert!(!actor.thread.is_finished(), "a member of {} has ended; see above", actor.group);
        }
    }

    /// What is committed is between what was acknowledged and what was sent.
    fn check_offsets(&self, address: &str) {
        let mut client = Connection::open(address);
        for Actor { group, partition, progress, .. } in &self.actors {
            let acknowledged = progress.acknowledged.load(Ordering::Acquire);
            let found = client.committed_offset(group, *partition).unwrap() + 1;
            let sent = progress.sent.load(Ordering::Acquire);
            assert!((acknowledged..=sent).contains(&found), "{group}: {acknowledged} <= {found} <= {sent}");
        }
    }

    fn finish(self, address: &str) {
        for group in BUSY {
            wait_until("every busy group has rebalanced", || {
                let generations = self.journal.0.lock().unwrap();
                generations.keys().filter(|(name, _)| name == group).count() > 1
            });
        }
        self.stop.store(true, Ordering::Release);
        let mut client = Connection::open(address);
        let (mut commits, mut rounds) = (0, 0);
        for Actor { group, partition, progress, thread } in self.actors {
            thread.join().unwrap();
            commits += progress.commits.load(Ordering::Acquire);
            rounds += progress.rounds.load(Ordering::Acquire);
            let acknowledged = progress.acknowledged.load(Ordering::Acquire);
            let found = client.committed_offset(group, partition).unwrap() + 1;
            assert!(found >= acknowledged, "{group}: {acknowledged} <= {found}");
        }
        let generations = self.journal.0.lock().unwrap();
        println!("{commits} commits acknowledged in {rounds} rounds, {} generations seen", generations.len());
    }
}

impl Journal {
    /// Takes note of a generation that a member was given; it must be what others were given under that number.
    fn note(&self, member: &Member) {
        let mut generations = self.0.lock().unwrap();
        let key = (member.group.clone(), member.generation);
        let seen = generations.entry(key).or_default();
        let place = format!("generation {} of {}", member.generation, member.group);
        if seen.leader.is_empty() {
            seen.leader.clone_from(&member.leader);
        }
        assert_eq!(seen.leader, member.leader, "{place} has two leaders");
        seen.told.insert(member.id.clone());
        if member.is_leader() && !member.members.is_empty() {
            let members: BTreeSet<String> = member.members.iter().cloned().collect();
            let before = seen.members.get_or_insert_with(|| members.clone());
            assert_eq!(*before, members, "{place} was given out twice");
        }
        if let Some(members) = &seen.members {
            assert!(seen.told.is_subset(members), "{place}: {:?} of {members:?}", seen.told);
        }
    }
}

/// One member's life, over all connections that it has.
struct Role {
    /// It takes any of them each time it connects.
    addresses: Vec<String>,
    /// Whether what it talks to can be cut off from the broker, and says so.
    is_apart: bool,
    is_calm: bool,
    /// The partition that nobody else in the group commits to.
    partition: i32,
    /// Whether it has a generation that it believes in.
    is_in: bool,
    member: Option<Member>,
    random: StdRng,
    progress: Arc<Progress>,
    journal: Arc<Journal>,
    frozen: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

/// What a member does next on its connection.
type Turn = io::Result<()>;

impl Role {
    fn play(&mut self, group: &str) {
        while !self.stop.load(Ordering::Acquire) {
            let address = &self.addresses[self.random.random_range(0..self.addresses.len())];
            let Ok(connection) = Connection::try_open(address) else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            let mut member = match self.member.take() {
                Some(member) => Member { connection, ..member },
                None => Member::on(connection, group),
            };
            (member.session_ms, member.rebalance_ms) =
                if self.is_calm { (LONG, LONG) } else { (BUSY_SESSION_MS, BUSY_REBALANCE_MS) };
            let ended = loop {
                if self.stop.load(Ordering::Acquire) {
                    break Ok(());
                }
                if let Err(error) = self.turn(&mut member) {
                    break Err(error);
                }
            };
            // A broker that is killed breaks connections; one that lives answers.
            if let Err(error) = ended {
                let is_silent = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(!is_silent, "{} of {group} is not answered", member.id);
            }
            self.member = Some(member);
        }
    }

    fn turn(&mut self, member: &mut Member) -> Turn {
        if !self.is_in {
            return self.enter(member);
        }
        self.work(member)?;
        if self.random.random_bool(0.05) {
            self.look_back(member)?;
        }
        if self.is_calm {
            return Ok(());
        }
        match self.random.random_range(0..1_000) {
            0..10 => {
                let error = member.leave()?;
                self.expect("leave", error, &[UNKNOWN_MEMBER_ID]);
                self.is_in = false;
                member.id.clear();
            }
            10..20 => self.is_in = false,
            20..25 => {
                member.send_join()?;
                self.is_in = false;
                return Err(io::Error::other("goes away while it is joining"));
            }
            25..30 => return Err(io::Error::other("goes away")),
            _ => {}
        }
        Ok(())
    }

    fn enter(&mut self, member: &mut Member) -> Turn {
        let error = member.join()?;
        if error == UNKNOWN_MEMBER_ID {
            member.id.clear();
        }
        if error != NONE {
            self.expect("join", error, &[UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS]);
            return Ok(());
        }
        self.journal.note(member);
        let error = member.sync()?;
        self.is_in = error == NONE;
        self.expect("sync", error, &[UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION]);
        Ok(())
    }

    /// A few commits and a heartbeat behind them, all sent before any is answered.
    fn work(&mut self, member: &mut Member) -> Turn {
        let first = self.progress.sent.load(Ordering::Relaxed);
        let commits = self.random.random_range(1..=16);
        for offset in first..first + commits {
            self.progress.sent.store(offset + 1, Ordering::Release);
            member.send_commit(self.partition, offset)?;
        }
        let request = member.heartbeat_request();
        member.connection.send(&request, HEARTBEAT)?;
        let mut is_well = true;
        for offset in first..first + commits {
            let error = member.committed()?;
            if error == NONE {
                self.progress.acknowledged.store(offset + 1, Ordering::Release);
                self.progress.commits.fetch_add(1, Ordering::Relaxed);
            }
            is_well &= self.heard("commit", error, member);
        }
        let error =
            member.connection.receive::<wire::api::heartbeat::HeartbeatRequest>(HEARTBEAT)?.error_code;
        is_well &= self.heard("heartbeat", error, member);
        if is_well {
            self.progress.rounds.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    /// Whether all is well; a member that hears otherwise joins again.
    fn heard(&mut self, what: &str, error: i16, member: &mut Member) -> bool {
        self.expect(what, error, &[REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID]);
        if error == UNKNOWN_MEMBER_ID {
            member.id.clear();
        }
        self.is_in &= [NONE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR].contains(&error);
        error == NONE
    }

    /// An offset that was acknowledged does not go back.
    fn look_back(&mut self, member: &mut Member) -> Turn {
        let acknowledged = self.progress.acknowledged.load(Ordering::Acquire);
        let group = member.group.clone();
        match member.connection.try_committed_offset(&group, self.partition)? {
            Ok(found) => {
                let sent = self.progress.sent.load(Ordering::Acquire);
                assert!(
                    (acknowledged..=sent).contains(&(found + 1)),
                    "{group} {}: {acknowledged} <= {found} + 1 <= {sent}",
                    self.partition
                );
            }
            Err(error) => self.expect("fetch", error, &[]),
        }
        Ok(())
    }

    /// Whoever stays hears of nothing but loading; the others also of what rebalances bring.
    fn expect(&self, what: &str, error: i16, rebalance: &[i16]) {
        let is_passing = error == NONE
            || ([COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR].contains(&error)
                && (what != "heartbeat" || self.is_apart));
        let may_rebalance = !(self.is_calm && self.frozen.load(Ordering::Acquire));
        assert!(is_passing || (may_rebalance && rebalance.contains(&error)), "{what}: error {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes what `id` was told, on a connection that nobody answers.
    fn note(journal: &Journal, id: &str, generation: i32, leader: &str, members: &[&str]) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut member = Member::new(&listener.local_addr().unwrap().to_string(), "g");
        (member.id, member.generation, member.leader) = (id.to_owned(), generation, leader.to_owned());
        member.members = members.iter().map(|&id| id.to_owned()).collect();
        journal.note(&member);
    }

    #[test]
    fn the_same_generation_may_be_told_again() {
        let journal = Journal::default();
        for _ in 0..2 {
            note(&journal, "b", 1, "a", &[]);
            note(&journal, "a", 1, "a", &["a", "b"]);
            note(&journal, "c", 2, "c", &["c"]);
        }
    }

    #[test]
    #[should_panic(expected = "two leaders")]
    fn a_generation_with_another_leader_is_noticed() {
        let journal = Journal::default();
        note(&journal, "b", 1, "a", &[]);
        note(&journal, "b", 1, "b", &["b"]);
    }

    #[test]
    #[should_panic(expected = "given out twice")]
    fn a_generation_with_other_members_is_noticed() {
        let journal = Journal::default();
        note(&journal, "a", 1, "a", &["a"]);
        note(&journal, "a", 1, "a", &["a", "b"]);
    }

    #[test]
    #[should_panic(expected = "generation 1 of g")]
    fn a_member_that_the_leader_does_not_know_is_noticed() {
        let journal = Journal::default();
        note(&journal, "c", 1, "a", &[]);
        note(&journal, "a", 1, "a", &["a", "b"]);
    }
}
