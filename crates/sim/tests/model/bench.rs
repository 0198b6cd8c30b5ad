//! One group at work: the machine, its disk, its consumers and what everybody was told.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use bytes::Bytes;
use coordination::error_code::ErrorCode;
use coordination::group::{
    Caller, Effects, GroupLog, GroupRecord, GroupSettings, Minted, Now, Room, Shard, Ticket, Timestamp,
};
use coordination::ids::{GroupId, OrgId};
use coordination::op;
use coordination::reply::{GroupState, Reply};

use sim::checker::Checker;
use sim::consumer_protocol;
use sim::message::{Request, Response};

use crate::canonical::strip;
use crate::{Action, Kept, Kind, Scene, State};

const GROUP: &str = "g";

/// One group, those who want to be in it, and a disk: all that a way leads to.
pub(crate) struct Bench {
    scene: Scene,
    now: u64,
    shard: Shard,
    disk: BTreeMap<(GroupLog, Vec<u8>), GroupRecord>,
    gathering: Vec<GroupRecord>,
    held: Vec<(usize, Request, Response)>,
    /// Requests that the machine has not answered, and whose they were.
    owed: BTreeMap<Ticket, Owed>,
    next_ticket: u64,
    consumers: Vec<Consumer>,
    checker: Checker,
    /// How many mishaps there were.
    mishaps: u8,
    broken: Option<String>,
    /// Whether each step is held against what the disk would give back. On a way that was gone before, it was.
    is_checking: bool,
}

struct Owed {
    whose: usize,
    request: Request,
    /// Its connection is gone.
    is_lost: bool,
}

#[derive(Clone, Debug, Hash)]
struct Consumer {
    member_id: String,
    generation: i32,
    phase: Phase,
    /// How many ids it has been given, so that the next one is new.
    ids: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Out,
    Joining,
    /// With what it assigns, if it leads.
    Joined(Vec<(String, Bytes)>),
    Syncing,
    Stable,
}

impl Bench {
    pub(crate) fn new(scene: &Scene) -> Self {
        let consumer = Consumer { member_id: String::new(), generation: -1, phase: Phase::Out, ids: 0 };
        Self {
            scene: scene.clone(),
            now: 0,
            shard: Shard::new(OrgId::DEFAULT, settings(scene)),
            disk: BTreeMap::new(),
            gathering: Vec::new(),
            held: Vec::new(),
            owed: BTreeMap::new(),
            next_ticket: 0,
            consumers: vec![consumer; scene.consumers.len()],
            checker: Checker::default(),
            mishaps: 0,
            is_checking: true,
            broken: None,
        }
    }

    pub(crate) fn after(scene: &Scene, way: &[Action]) -> Self {
        let mut bench = Self::new(scene);
        for (at, action) in way.iter().enumerate() {
            bench.is_checking = at + 1 == way.len();
            if let Err(why) = bench.act(*action) {
                bench.broken = Some(why);
                break;
            }
        }
        bench
    }

    pub(crate) fn into_state(self, way: Vec<Action>) -> State {
        let mut hasher = DefaultHasher::new();
        self.canonical().hash(&mut hasher);
        State {
            way,
            next: self.possible(),
            fingerprint: hasher.finish(),
            generation: self.shard.identity(GROUP).map_or(0, |identity| identity.generation),
            is_stable: self.unsettled().is_none(),
            broken: self.broken,
        }
    }

    /// What can happen next.
    fn possible(&self) -> Vec<Action> {
        let mut duties = Vec::new();
        let mut mishaps = Vec::new();
        for (at, consumer) in self.consumers.iter().enumerate() {
            match consumer.phase {
                Phase::Out => duties.push(Action::Join(at)),
                Phase::Joined(_) => duties.extend([Action::Sync(at), Action::Heartbeat(at)]),
                Phase::Stable => duties.extend([Action::Join(at), Action::Heartbeat(at)]),
                Phase::Joining | Phase::Syncing => mishaps.push(Action::Lose(at)),
            }
            if !consumer.member_id.is_empty() {
                mishaps.push(Action::Leave(at));
            }
            if consumer.phase != Phase::Out {
                mishaps.push(Action::Restart(at));
            }
        }
        if !self.gathering.is_empty() {
            duties.push(Action::Flush);
        }
        if self.shard.next_deadline().is_some() {
            mishaps.push(Action::Deadline);
        }
        mishaps.push(Action::Crash(Kept::Nothing));
        if !self.gathering.is_empty() {
            mishaps.push(Action::Crash(Kept::Everything));
            let logs: BTreeSet<GroupLog> = self.gathering.iter().map(GroupRecord::log).collect();
            if logs.len() == 2 {
                mishaps.push(Action::Crash(Kept::Kohort));
            }
        }
        if self.mishaps < self.scene.mishaps {
            duties.append(&mut mishaps);
        }
        duties
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        let is_duty =
            matches!(action, Action::Join(_) | Action::Sync(_) | Action::Heartbeat(_) | Action::Flush);
        self.mishaps += u8::from(!is_duty);
        match action {
            Action::Join(at) => self.join(at),
            Action::Sync(at) => self.sync(at),
            Action::Heartbeat(at) => {
                self.heartbeat(at);
                Ok(())
            }
            Action::Leave(at) => self.leave(at),
            Action::Lose(at) => {
                self.hang_up(at);
                self.consumers[at].phase = Phase::Out;
                Ok(())
            }
            Action::Restart(at) => {
                self.hang_up(at);
                self.consumers[at].forget();
                Ok(())
            }
            Action::Flush => self.flush(),
            Action::Deadline => self.deadline(),
            Action::Crash(kept) => self.crash(kept),
        }
    }

    fn join(&mut self, at: usize) -> Result<(), String> {
        let kind = self.scene.consumers[at];
        let topics = BTreeSet::from(["t".to_owned()]);
        let metadata = consumer_protocol::encode_subscription(&topics, 0);
        let consumer = &mut self.consumers[at];
        consumer.phase = Phase::Joining;
        consumer.ids += u32::from(consumer.member_id.is_empty());
        let minted = Minted {
            member: (at as u128 + 1) << 64 | u128::from(consumer.ids),
            group: GroupId::from_u128(7),
        };
        let op = op::JoinGroup {
            group: GROUP.to_owned(),
            member_id: consumer.member_id.clone(),
            instance_id: instance(kind, at),
            // All different, so that sessions expire one by one.
            session_timeout_ms: 6_000 + i32::try_from(at).expect("few consumers") * 1_000,
            rebalance_timeout_ms: 10_000,
            protocol_type: "consumer".to_owned(),
            protocols: vec![("range".to_owned(), metadata)],
            reason: None,
            takes_member_id_first: !matches!(kind, Kind::Old),
            can_skip_assignment: true,
        };
        let ticket = self.owe(at, Request::Join(op.clone()));
        let client_id = format!("c{at}");
        let caller = Caller { client_id: &client_id, host: "/10.0.0.1" };
        let mut effects = Effects::default();
        self.shard.handle_join(now(self.now), ticket, &op, caller, minted, Room::UNLIMITED, &mut effects);
        self.take_up(effects)
    }

    fn sync(&mut self, at: usize) -> Result<(), String> {
        let consumer = &mut self.consumers[at];
        let Phase::Joined(assignments) = std::mem::replace(&mut consumer.phase, Phase::Syncing) else {
            return Err("only one that has joined syncs".to_owned());
        };
        let op = op::SyncGroup {
            group: GROUP.to_owned(),
            generation: consumer.generation,
            member_id: consumer.member_id.clone(),
            instance_id: instance(self.scene.consumers[at], at),
            protocol_type: Some("consumer".to_owned()),
            protocol: Some("range".to_owned()),
            must_name_protocol: true,
            assignments,
        };
        let ticket = self.owe(at, Request::Sync(op.clone()));
        let mut effects = Effects::default();
        self.shard.handle_sync(now(self.now), ticket, &op, Room::UNLIMITED, &mut effects);
        self.take_up(effects)
    }

    fn heartbeat(&mut self, at: usize) {
        let consumer = &mut self.consumers[at];
        let op = op::Heartbeat {
            group: GROUP.to_owned(),
            generation: consumer.generation,
            member_id: consumer.member_id.clone(),
            instance_id: instance(self.scene.consumers[at], at),
        };
        match self.shard.handle_heartbeat(now(self.now), &op).error {
            None => {}
            // One that still has to sync learns of it then.
            Some(ErrorCode::RebalanceInProgress) if consumer.phase != Phase::Stable => {}
            Some(error) => consumer.handle_error(error),
        }
    }

    fn leave(&mut self, at: usize) -> Result<(), String> {
        self.hang_up(at);
        let consumer = &mut self.consumers[at];
        let member = op::LeavingMember {
            member_id: consumer.member_id.clone(),
            instance_id: instance(self.scene.consumers[at], at),
            reason: None,
        };
        consumer.forget();
        let client_id = format!("c{at}");
        let caller = Caller { client_id: &client_id, host: "/10.0.0.1" };
        let op = op::LeaveGroup { group: GROUP.to_owned(), members: vec![member] };
        let mut effects = Effects::default();
        let _ = self.shard.handle_leave(now(self.now), &op, caller, &mut effects);
        self.take_up(effects)
    }

    fn deadline(&mut self) -> Result<(), String> {
        let Some(at) = self.shard.next_deadline() else { return Ok(()) };
        self.now = self.now.max(at.as_millis());
        let mut effects = Effects::default();
        self.shard.handle_deadlines(now(self.now), &mut effects);
        if self.shard.next_deadline().is_some_and(|at| at.as_millis() <= self.now) {
            return Err("a deadline that has come is left over".to_owned());
        }
        self.take_up(effects)
    }

    fn owe(&mut self, whose: usize, request: Request) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.owed.insert(ticket, Owed { whose, request, is_lost: false });
        ticket
    }

    /// The consumer's connection is gone, and with it what was on its way.
    fn hang_up(&mut self, at: usize) {
        for owed in self.owed.values_mut().filter(|owed| owed.whose == at) {
            owed.is_lost = true;
        }
        self.held.retain(|(whose, ..)| *whose != at);
    }

    fn take_up(&mut self, effects: Effects) -> Result<(), String> {
        self.gathering.extend(effects.records);
        for (ticket, reply) in effects.replies {
            let Some(Owed { whose, request, is_lost }) = self.owed.remove(&ticket) else {
                return Err(format!("{ticket:?} is answered twice"));
            };
            let response = match reply {
                Reply::JoinGroup(reply) => Response::Join(reply),
                Reply::SyncGroup(reply) => Response::Sync(reply),
                other => return Err(format!("{ticket:?} is answered with {other:?}")),
            };
            if !is_lost {
                self.held.push((whose, request, response));
            }
        }
        // When nothing more can go wrong, waiting for the disk is nothing but being slow.
        if self.gathering.is_empty() || self.mishaps == self.scene.mishaps {
            return self.flush();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        for record in std::mem::take(&mut self.gathering) {
            write(&mut self.disk, record);
        }
        self.check_disk()?;
        self.send()
    }

    /// Replies leave and arrive.
    fn send(&mut self) -> Result<(), String> {
        for (whose, request, response) in std::mem::take(&mut self.held) {
            self.checker.see_reply(&request, &response)?;
            self.consumers[whose].handle_response(&response)?;
        }
        Ok(())
    }

    /// With nothing on its way, reading the disk gives what is in memory.
    fn check_disk(&self) -> Result<(), String> {
        if !self.is_checking || !self.gathering.is_empty() {
            return Ok(());
        }
        let read = self.read_back();
        let rebalancing = matches!(
            self.shard.describe(GROUP).state,
            GroupState::PreparingRebalance | GroupState::CompletingRebalance
        );
        let durable = |shard: &Shard| -> Vec<GroupRecord> {
            let mut records = shard.durable();
            records.retain(|record| !(rebalancing && matches!(record, GroupRecord::Group { .. })));
            records
        };
        let (known, came_back) = (durable(&self.shard), durable(&read));
        if known == came_back { Ok(()) } else { Err(format!("{known:?} reads back as {came_back:?}")) }
    }

    fn read_back(&self) -> Shard {
        let mut shard = Shard::new(OrgId::DEFAULT, settings(&self.scene));
        // In the broker's order: first `__kohort`, identities before events.
        let of = |log| self.disk.iter().filter(move |((it, _), _)| *it == log).map(|(_, record)| record);
        let is_identity = |record: &&GroupRecord| matches!(record, GroupRecord::Identity(_));
        of(GroupLog::Kohort).filter(is_identity).for_each(|record| shard.apply(record));
        of(GroupLog::Kohort).filter(|it| !is_identity(it)).for_each(|record| shard.apply(record));
        of(GroupLog::Offsets).for_each(|record| shard.apply(record));
        shard
    }

    fn crash(&mut self, kept: Kept) -> Result<(), String> {
        for record in std::mem::take(&mut self.gathering) {
            let survives = match kept {
                Kept::Nothing => false,
                Kept::Kohort => record.log() == GroupLog::Kohort,
                Kept::Everything => true,
            };
            if survives {
                write(&mut self.disk, record);
            }
        }
        self.held.clear();
        self.owed.clear();
        for consumer in &mut self.consumers {
            if matches!(consumer.phase, Phase::Joining | Phase::Syncing) {
                consumer.phase = Phase::Out;
            }
        }
        self.shard = self.read_back();
        let highest = self.shard.identity(GROUP).map_or(0, |identity| identity.generation);
        self.checker.check_highest(GROUP, highest)?;
        let mut effects = Effects::default();
        self.shard.handle_loaded(now(self.now), &mut effects);
        self.take_up(effects)
    }

    /// Why not all consumers are in one stable generation with all partitions, if so.
    fn unsettled(&self) -> Option<String> {
        let described = self.shard.describe(GROUP);
        if described.state != GroupState::Stable {
            return Some(described.state.to_string());
        }
        let members: BTreeSet<&str> = described.members.iter().map(|it| it.member_id.as_str()).collect();
        let alive: BTreeSet<&str> = self.consumers.iter().map(|it| it.member_id.as_str()).collect();
        if members != alive {
            return Some(format!("{members:?} are members and {alive:?} are alive"));
        }
        let strays = self
            .consumers
            .iter()
            .any(|it| it.phase != Phase::Stable || it.generation != self.consumers[0].generation);
        if strays {
            return Some("somebody is elsewhere".to_owned());
        }
        let owned: Vec<_> = described
            .members
            .iter()
            .filter_map(|it| consumer_protocol::decode_assignment(&it.assignment))
            .flatten()
            .collect();
        (owned.len() != PARTITIONS).then(|| format!("{owned:?} are owned"))
    }

    /// From here on nothing goes wrong and everybody does its part: the group must come to rest.
    pub(crate) fn settles(mut self) -> Result<(), String> {
        self.is_checking = false;
        let mut why = String::new();
        for _ in 0..60 {
            self.flush()?;
            match self.unsettled() {
                None if self.owed.is_empty() => return Ok(()),
                None => why = "somebody is not answered".to_owned(),
                Some(it) => why = it,
            }
            let mut idle = true;
            for at in 0..self.consumers.len() {
                match self.consumers[at].phase {
                    Phase::Out => self.join(at)?,
                    Phase::Joined(_) => self.sync(at)?,
                    Phase::Stable => {
                        self.heartbeat(at);
                        idle &= self.consumers[at].phase == Phase::Stable;
                        continue;
                    }
                    Phase::Joining | Phase::Syncing => continue,
                }
                idle = false;
            }
            if idle && self.gathering.is_empty() {
                self.deadline()?;
            }
        }
        Err(why)
    }

    /// What decides what can happen from here on.
    fn canonical(&self) -> String {
        let tickets: BTreeMap<u64, String> = self
            .owed
            .iter()
            .map(|(ticket, owed)| {
                (ticket.0, format!("{}{}", owed.whose, if owed.is_lost { " lost" } else { "" }))
            })
            .collect();
        let machine = strip(&format!("{:?}", self.shard), self.now, &tickets);
        let told = |record: &&GroupRecord| !matches!(record, GroupRecord::Event { .. });
        let disk: Vec<&GroupRecord> = self.disk.values().filter(told).collect();
        let gathering: Vec<&GroupRecord> = self.gathering.iter().filter(told).collect();
        let held: Vec<(usize, String)> =
            self.held.iter().map(|(whose, _, response)| (*whose, response.summary())).collect();
        let mut checker = self.checker.clone();
        checker.checks = 0;
        format!(
            "{machine} {disk:?} {gathering:?} {} {held:?} {:?} {checker:?} {:?} {:?}",
            self.gathering.is_empty(),
            self.consumers,
            self.mishaps,
            self.broken
        )
    }
}

impl Consumer {
    fn forget(&mut self) {
        self.member_id.clear();
        self.generation = -1;
        self.phase = Phase::Out;
    }

    /// The consumer joins again next, under its id unless the broker does not know that.
    fn handle_error(&mut self, error: ErrorCode) {
        if matches!(error, ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId) {
            self.member_id.clear();
        }
        self.generation = -1;
        self.phase = Phase::Out;
    }

    fn handle_response(&mut self, response: &Response) -> Result<(), String> {
        match response {
            Response::Join(reply) => match &reply.result {
                Ok(joined) => {
                    self.member_id = reply.member_id.clone();
                    self.generation = joined.generation;
                    let mut assignments = Vec::new();
                    if joined.leader == self.member_id && !joined.skip_assignment {
                        let topics = BTreeSet::from(["t".to_owned()]);
                        let members =
                            joined.members.iter().map(|it| (it.member_id.clone(), topics.clone())).collect();
                        let count = i32::try_from(PARTITIONS).expect("few partitions");
                        let topics = BTreeMap::from([("t".to_owned(), count)]);
                        assignments = consumer_protocol::assign("range", &members, &topics)
                            .into_iter()
                            .map(|(member, it)| (member, consumer_protocol::encode_assignment(&it)))
                            .collect();
                    }
                    self.phase = Phase::Joined(assignments);
                }
                Err(ErrorCode::MemberIdRequired) => {
                    self.member_id = reply.member_id.clone();
                    self.phase = Phase::Out;
                }
                Err(error) => self.handle_error(*error),
            },
            Response::Sync(reply) => match &reply.result {
                Ok(_) => self.phase = Phase::Stable,
                Err(error) => self.handle_error(*error),
            },
            other => return Err(format!("{} was not asked for", other.summary())),
        }
        Ok(())
    }
}

const PARTITIONS: usize = 2;

fn settings(scene: &Scene) -> GroupSettings {
    GroupSettings {
        initial_rebalance_delay: Duration::from_millis(scene.initial_delay_ms),
        ..GroupSettings::default()
    }
}

fn instance(kind: Kind, at: usize) -> Option<String> {
    matches!(kind, Kind::Static).then(|| format!("i{at}"))
}

fn now(at: u64) -> Now {
    Now { at: Timestamp::from_millis(at), wall_ms: 0 }
}

/// The log after compaction, which keeps the last record of each key.
fn write(disk: &mut BTreeMap<(GroupLog, Vec<u8>), GroupRecord>, record: GroupRecord) {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record.encode_into(&mut key, &mut value);
    let key = (record.log(), key);
    if record.is_tombstone() {
        disk.remove(&key);
    } else {
        disk.insert(key, record);
    }
}
