//! The broker of a run: the production machine, driven as the broker's own driver drives it, on a disk that fails.
//!
//! The contract is that of `broker::groups`: a step's records join the next flush, of which at most one of a shard is
//! under way; every reply but a heartbeat's waits until all that the shard has emitted is durable; a flush that fails
//! costs the shard its memory, and everybody who waits is told 16.

mod admin;
mod asking;
mod comparing;
mod flushing;
mod loading;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coordination::error_code::ErrorCode;
use coordination::group::{Caller, Effects, GroupSettings, Minted, Room, Shard, Ticket, Timestamp};
use coordination::ids::{GroupId, TopicId};
use coordination::reply::{self, Reply};

use crate::checker::Checker;
use crate::counts::Counts;
use crate::disk::{Batches, Disk, Split, Written};
use crate::message::{Call, Carrier, Request, Response};
use crate::random::Random;
use crate::trace::Trace;

use admin::{Forgetting, see_forgotten};
use asking::{commit_offsets, fetch_offsets, now};
use comparing::{check_growth, check_same};

pub use admin::Deed;

/// Changes what the machine hands out, to see whether anybody notices.
pub type Tamper = Box<dyn FnMut(Handed<'_>)>;

/// What the machine hands out.
#[derive(Debug)]
pub enum Handed<'a> {
    /// Records, and answers to joins and syncs.
    Effects(&'a mut Effects),
    /// The answer to a request that never waits.
    Answer(&'a mut Response),
}

/// What the broker wants of the world.
#[derive(Debug)]
pub enum Output {
    /// Send this reply to the gateway that has asked.
    Send(Call, Response),
    /// Call [`Broker::handle_flushed`] when the disk is done.
    Flush(Place),
    /// Call [`Broker::handle_deadlines`] then.
    Deadline(Place, u64),
}

/// One life of one shard. What is meant for an earlier life is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which shard.
    pub shard: usize,
    /// Which of its lives.
    pub life: u64,
}

/// What the broker needs for a step.
#[derive(Debug)]
pub struct Context<'a> {
    /// The time.
    pub now: u64,
    /// Chance.
    pub random: &'a mut Random,
    /// Who watches.
    pub checker: &'a mut Checker,
    /// What has happened how often.
    pub counts: &'a mut Counts,
    /// Who writes it down.
    pub trace: &'a mut Trace,
    /// What the broker wants done.
    pub outputs: Vec<Output>,
}

/// The broker.
pub struct Broker {
    settings: GroupSettings,
    /// What all groups together may take.
    limits: Room,
    shards: Vec<Hosted>,
    /// The ops that are not answered yet.
    open: BTreeMap<Call, Open>,
    parked: BTreeMap<Ticket, Parked>,
    /// What the machine has not answered, also of those who have hung up.
    asked: BTreeMap<Ticket, Asked>,
    /// Tickets that the machine has answered, whoever was still there to hear it.
    answered: BTreeSet<Ticket>,
    next_ticket: u64,
    next_life: u64,
    topic_ids: BTreeMap<String, TopicId>,
    tamper: Option<Tamper>,
}

/// One shard, its disk and what lies between.
struct Hosted {
    life: u64,
    disk: Disk,
    /// `None` while it is being loaded.
    live: Option<Live>,
}

struct Live {
    machine: Shard,
    /// Has seen only what is durable. It is what a crash would leave.
    durable_machine: Shard,
    gathering: Vec<Written>,
    flushing: Option<Batches>,
    emitted: u64,
    durable: u64,
    /// How many records the flush under way has.
    under_way: u64,
    held: VecDeque<Held>,
    deadline: Option<u64>,
    /// It answers no more and only waits for its end.
    is_unloaded: bool,
}

struct Held {
    until: u64,
    call: Call,
    response: Response,
}

struct Open {
    request: Request,
    since: u64,
}

struct Asked {
    shard: usize,
    request: Request,
    since: u64,
}

struct Parked {
    shard: usize,
    call: Call,
}

/// How a flush ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it is on the disk.
    Durable,
    /// The disk refused some of it.
    Failed,
}

impl Broker {
    /// A broker that is down and has never run.
    pub fn new(
        shards: usize,
        settings: GroupSettings,
        limits: Room,
        topic_ids: BTreeMap<String, TopicId>,
        tamper: Option<Tamper>,
    ) -> Self {
        let hosted = || Hosted { life: 0, disk: Disk::default(), live: None };
        Self {
            settings,
            limits,
            shards: (0..shards).map(|_| hosted()).collect(),
            open: BTreeMap::new(),
            parked: BTreeMap::new(),
            asked: BTreeMap::new(),
            answered: BTreeSet::new(),
            next_ticket: 0,
            next_life: 0,
            topic_ids,
            tamper,
        }
    }

    /// The shard of a group.
    pub fn shard_of(&self, group: &str) -> usize {
        group.bytes().map(usize::from).sum::<usize>() % self.shards.len()
    }

    /// How the broker is set up.
    pub fn settings(&self) -> &GroupSettings {
        &self.settings
    }

    /// What the group's shard shows of it, unless it is being loaded.
    pub fn describe(&self, group: &str) -> Option<reply::DescribedGroup> {
        let live = self.shards[self.shard_of(group)].live.as_ref()?;
        Some(live.machine.describe(group))
    }

    /// Nobody waits for the answer to this op any more. What it has done stays done, and members stay. Says whether it
    /// was parked.
    pub fn cancel(&mut self, call: Call) -> bool {
        self.open.remove(&call);
        let parked = self.parked.len();
        self.drop_answers(|it| it == call);
        self.parked.len() < parked
    }

    /// A rail is dead, and so are the answers that it should have carried.
    pub fn close_link(&mut self, link: u64) {
        self.open.retain(|call, _| call.link != link);
        self.drop_answers(|call| call.link == link);
    }

    fn drop_answers(&mut self, of: impl Fn(Call) -> bool) {
        self.parked.retain(|_, parked| !of(parked.call));
        for live in self.shards.iter_mut().filter_map(|hosted| hosted.live.as_mut()) {
            live.held.retain(|held| !of(held.call));
        }
    }

    /// An op has arrived.
    pub fn receive(
        &mut self,
        context: &mut Context<'_>,
        call: Call,
        carrier: &Carrier,
        request: &Request,
    ) -> Result<(), String> {
        if self.open.contains_key(&call) {
            return Err(format!("{} arrives twice as {call:?}", request.summary()));
        }
        self.open.insert(call, Open { request: request.clone(), since: context.now });
        self.start(context, call, carrier, request)
    }

    fn start(
        &mut self,
        context: &mut Context<'_>,
        call: Call,
        carrier: &Carrier,
        request: &Request,
    ) -> Result<(), String> {
        let shard = self.shard_of(request.group());
        let caller = Caller { client_id: &carrier.client_id, host: &carrier.host };
        let now = now(context.now);
        let room = self.room();
        let Some(live) = &mut self.shards[shard].live else {
            let response = match request {
                Request::FindCoordinator => Response::Coordinator(None),
                Request::Heartbeat(_) => Response::Heartbeat(reply::Heartbeat { error: None }),
                _ => request.refusal(ErrorCode::CoordinatorLoadInProgress),
            };
            return self.respond(context, call, response);
        };
        let before = live.machine.usage();
        let is_empty = matches!(
            live.machine.describe(request.group()).state,
            reply::GroupState::Empty | reply::GroupState::Dead
        );
        let mut effects = Effects::default();
        let mut split = Split::Anywhere;
        let mut response = match request {
            Request::FindCoordinator => {
                return self.respond(context, call, Response::Coordinator(None));
            }
            Request::Heartbeat(op) => Some(Response::Heartbeat(live.machine.handle_heartbeat(now, op))),
            Request::Join(op) => {
                let minted = Minted {
                    member: context.random.bits(),
                    group: GroupId::from_u128(context.random.bits() >> 1),
                };
                let ticket = Ticket(self.next_ticket);
                live.machine.handle_join(now, ticket, op, caller, minted, room, &mut effects);
                None
            }
            Request::Sync(op) => {
                live.machine.handle_sync(now, Ticket(self.next_ticket), op, room, &mut effects);
                None
            }
            Request::Leave(op) => {
                Some(Response::Leave(live.machine.handle_leave(now, op, caller, &mut effects)))
            }
            Request::Commit(commit) => {
                split = Split::Never;
                let minted = GroupId::from_u128(context.random.bits() >> 1);
                let topic_ids = &self.topic_ids;
                Some(Response::Commit(commit_offsets(
                    &mut live.machine,
                    now,
                    commit,
                    topic_ids,
                    minted,
                    room,
                    &mut effects,
                )?))
            }
            Request::Fetch(fetch) => {
                let found = fetch_offsets(&live.machine, fetch);
                for partition in &fetch.partitions {
                    let found = found.iter().find(|it| it.partition == *partition);
                    context.checker.check_offset(&fetch.group, partition, found)?;
                }
                Some(Response::Fetch(Ok(found)))
            }
        };
        if !matches!(request, Request::Leave(_)) {
            check_growth(before, live.machine.usage(), room)?;
        }
        if let Some(response) = &mut response {
            if let Some(tamper) = &mut self.tamper {
                tamper(Handed::Answer(response));
            }
            context.checker.see_answer(context.now, request, response)?;
            if let (Request::Commit(commit), Response::Commit(None)) = (request, &*response) {
                if commit.generation < 0 && !is_empty {
                    return Err(format!("{commit:?} of no member is accepted although there are members"));
                }
                let waits = self.waits(&commit.group, &commit.member_id);
                context.checker.see_commit(context.now, commit, waits)?;
            }
        } else {
            self.park(context.now, shard, call, request.clone());
        }
        let at_once = matches!(request, Request::Heartbeat(_));
        if !at_once {
            self.take_up(context, shard, &mut effects, Forgetting::Nothing, split)?;
        }
        match response {
            Some(response) if at_once => self.respond(context, call, response),
            Some(response) => self.hold(context, shard, call, response),
            None => Ok(()),
        }
    }

    /// Whether the machine owes this member an answer to a join or a sync.
    fn waits(&self, group: &str, member_id: &str) -> bool {
        self.asked.values().any(|asked| asked.request.is_of(group, member_id))
    }

    /// What there is room for beside what all shards use.
    fn room(&self) -> Room {
        let mut room = self.limits;
        for live in self.shards.iter().filter_map(|hosted| hosted.live.as_ref()) {
            let used = live.machine.usage();
            room.groups = room.groups.saturating_sub(used.groups);
            room.members = room.members.saturating_sub(used.members);
            room.bytes = room.bytes.saturating_sub(used.bytes);
        }
        room
    }

    /// From now on there is room for everything.
    pub fn lift_limits(&mut self) {
        self.limits = Room::UNLIMITED;
    }

    fn park(&mut self, now: u64, shard: usize, call: Call, request: Request) {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.parked.insert(ticket, Parked { shard, call });
        self.asked.insert(ticket, Asked { shard, request, since: now });
    }

    /// Gathers what the machine has emitted, holds its replies back until that is durable, and starts a flush if
    /// there is something to write and none under way.
    fn take_up(
        &mut self,
        context: &mut Context<'_>,
        shard: usize,
        effects: &mut Effects,
        forgetting: Forgetting,
        split: Split,
    ) -> Result<(), String> {
        let live = self.shards[shard].live.as_mut().expect("a step was made");
        see_forgotten(context, &self.settings, self.limits, &effects.records, forgetting)?;
        if let Some(tamper) = &mut self.tamper {
            tamper(Handed::Effects(effects));
        }
        for record in &effects.records {
            context.trace.note(|| format!("     record {record:?}"));
        }
        live.emitted += effects.records.len() as u64;
        if !effects.records.is_empty() {
            live.gathering.push(Written { records: std::mem::take(&mut effects.records), split });
        }
        if live.flushing.is_none() && !live.gathering.is_empty() {
            self.start_flush(context, shard);
        }
        self.note_deadline(context, shard)?;
        for (ticket, reply) in std::mem::take(&mut effects.replies) {
            let response = match reply {
                Reply::JoinGroup(reply) => Response::Join(reply),
                Reply::SyncGroup(reply) => Response::Sync(reply),
                other => return Err(format!("{ticket:?} is answered with {other:?}")),
            };
            if ticket.0 >= self.next_ticket {
                return Err(format!("{ticket:?} is answered before it was given out"));
            }
            if let Some(asked) = self.asked.remove(&ticket) {
                context.checker.see_answer(context.now, &asked.request, &response)?;
            }
            match self.parked.remove(&ticket) {
                Some(parked) if parked.shard == shard => {
                    self.hold(context, shard, parked.call, response)?;
                }
                Some(_) => return Err(format!("{ticket:?} is answered by another shard")),
                None if self.answered.contains(&ticket) => {
                    return Err(format!("{ticket:?} is answered twice, now with {}", response.summary()));
                }
                // Nobody waits for it any more.
                None => {}
            }
            self.answered.insert(ticket);
        }
        self.check_shard(context, shard)
    }

    /// A reply leaves.
    fn respond(&mut self, context: &mut Context<'_>, call: Call, response: Response) -> Result<(), String> {
        let Some(Open { request, .. }) = self.open.remove(&call) else {
            return Err(format!("a request is answered twice, now with {}", response.summary()));
        };
        context.checker.see_reply(&request, &response)?;
        context.counts.fenced += u64::from(response.is_fenced());
        context.counts.no_room += u64::from(response.error() == Some(ErrorCode::PolicyViolation));
        context.outputs.push(Output::Send(call, response));
        Ok(())
    }

    /// Does what is due.
    pub fn handle_deadlines(&mut self, context: &mut Context<'_>, place: Place) -> Result<(), String> {
        let Place { shard, life } = place;
        let hosted = &mut self.shards[shard];
        let Some(live) = hosted.live.as_mut().filter(|_| hosted.life == life) else { return Ok(()) };
        live.deadline = None;
        if live.machine.next_deadline().is_none_or(|at| at.as_millis() > context.now) {
            return self.note_deadline(context, shard);
        }
        let mut effects = Effects::default();
        live.machine.handle_deadlines(now(context.now), &mut effects);
        if let Some(at) = live.machine.next_deadline()
            && at.as_millis() <= context.now
        {
            return Err(format!("a deadline at {} is left over at {}", at.as_millis(), context.now));
        }
        self.take_up(context, shard, &mut effects, Forgetting::Nothing, Split::Anywhere)?;
        // After what was given out: a generation that began now has renewed all sessions.
        let concerned = |group: &str| self.shard_of(group) == shard;
        let waits = |group: &str, member_id: &str| self.waits(group, member_id);
        context.counts.expired += context.checker.see_deadlines(context.now, concerned, waits);
        Ok(())
    }

    fn note_deadline(&mut self, context: &mut Context<'_>, shard: usize) -> Result<(), String> {
        let hosted = &mut self.shards[shard];
        let Some(live) = &mut hosted.live else { return Ok(()) };
        let Some(at) = live.machine.next_deadline().map(Timestamp::as_millis) else { return Ok(()) };
        if live.deadline.is_none_or(|known| at < known) {
            live.deadline = Some(at);
            context.outputs.push(Output::Deadline(Place { shard, life: hosted.life }, at));
        }
        Ok(())
    }

    /// Holds the shard's memory against what the disk would give back, whenever they should be the same.
    fn check_shard(&mut self, context: &mut Context<'_>, shard: usize) -> Result<(), String> {
        let Some(live) = self.shards[shard].live.as_ref().filter(|live| !live.is_unloaded) else {
            return Ok(());
        };
        if live.durable == live.emitted {
            context.checker.checks += 1;
            live.machine.assert_consistent();
            check_same(&live.machine, &live.durable_machine, || format!("shard {shard} read back"))?;
        }
        Ok(())
    }

    /// The requests that the machine owes an answer, whether or not somebody still waits for it, and since when.
    pub fn asked(&self) -> impl Iterator<Item = (&Request, u64)> {
        self.asked.values().map(|asked| (&asked.request, asked.since))
    }

    /// Whether this op is here and not answered.
    pub fn has_open(&self, call: Call) -> bool {
        self.open.contains_key(&call)
    }

    /// The ops that are not answered, and since when.
    pub fn open(&self) -> impl Iterator<Item = (Call, &Request, u64)> {
        self.open.iter().map(|(call, open)| (*call, &open.request, open.since))
    }
}
