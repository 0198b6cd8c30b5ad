//! The broker of a run: the production machine, driven as the broker's own driver drives it, on a disk that fails.
//!
//! The contract is that of `broker::groups`: a step's records join the next flush, of which at most one of a shard is
//! under way; every reply but a heartbeat's waits until all that the shard has emitted is durable; a flush that fails
//! costs the shard its memory, and everybody who waits is told 16.

mod admin;
mod asking;
mod comparing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coordination::error_code::ErrorCode;
use coordination::group::{
    Caller, Effects, GroupRecord, GroupSettings, Minted, Room, Shard, Ticket, Timestamp,
};
use coordination::ids::{GroupId, OrgId, TopicId};
use coordination::op;
use coordination::reply::{self, Reply};

use crate::checker::Checker;
use crate::disk::{self, Disk, Entry, ReadOrder};
use crate::message::{Request, Response};
use crate::random::Random;
use crate::trace::Trace;

use admin::{Forgetting, see_forgotten};
use asking::{commit_offsets, fetch_all, fetch_offsets, now};
use comparing::{check_same, check_usage};

pub use admin::Deed;

/// A connection, numbered.
pub type Connection = u64;

/// Changes what the machine hands out, to see whether anybody notices.
pub type Tamper = Box<dyn FnMut(&mut Effects)>;

/// What the broker wants of the world.
#[derive(Debug)]
pub enum Output {
    /// Send this reply.
    Send(Connection, Response),
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
    /// Who writes it down.
    pub trace: &'a mut Trace,
    /// What the broker wants done.
    pub outputs: Vec<Output>,
}

/// The broker.
pub struct Broker {
    settings: GroupSettings,
    shards: Vec<Hosted>,
    pipelines: BTreeMap<Connection, Pipeline>,
    parked: BTreeMap<Ticket, Parked>,
    /// Tickets that the machine has answered, whoever was still there to hear it.
    answered: BTreeSet<Ticket>,
    next_ticket: u64,
    next_slot: u64,
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
    gathering: Vec<GroupRecord>,
    flushing: Option<Vec<Vec<Entry>>>,
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
    connection: Connection,
    slot: u64,
    response: Response,
}

struct Parked {
    shard: usize,
    connection: Connection,
    slot: u64,
    since: u64,
}

/// What one connection has asked. Replies leave in the order of requests.
struct Pipeline {
    client_id: String,
    host: String,
    started: VecDeque<Slot>,
    waiting: VecDeque<Request>,
}

struct Slot {
    number: u64,
    request: Request,
    response: Option<Response>,
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
        topic_ids: BTreeMap<String, TopicId>,
        tamper: Option<Tamper>,
    ) -> Self {
        let hosted = || Hosted { life: 0, disk: Disk::default(), live: None };
        Self {
            settings,
            shards: (0..shards).map(|_| hosted()).collect(),
            pipelines: BTreeMap::new(),
            parked: BTreeMap::new(),
            answered: BTreeSet::new(),
            next_ticket: 0,
            next_slot: 0,
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

    /// A connection is open.
    pub fn accept(&mut self, connection: Connection, client_id: &str) {
        let pipeline = Pipeline {
            client_id: client_id.to_owned(),
            host: format!("/10.0.0.{}", connection % 250),
            started: VecDeque::new(),
            waiting: VecDeque::new(),
        };
        self.pipelines.insert(connection, pipeline);
    }

    /// Whether the connection is open here.
    pub fn knows(&self, connection: Connection) -> bool {
        self.pipelines.contains_key(&connection)
    }

    /// A connection is closed. What it waited for is dropped; members stay.
    pub fn close(&mut self, connection: Connection) {
        self.pipelines.remove(&connection);
        self.parked.retain(|_, parked| parked.connection != connection);
        for hosted in &mut self.shards {
            if let Some(live) = &mut hosted.live {
                live.held.retain(|held| held.connection != connection);
            }
        }
    }

    /// A request has arrived.
    pub fn receive(
        &mut self,
        context: &mut Context<'_>,
        connection: Connection,
        request: Request,
    ) -> Result<(), String> {
        let Some(pipeline) = self.pipelines.get_mut(&connection) else { return Ok(()) };
        pipeline.waiting.push_back(request);
        self.start_waiting(context, connection)
    }

    /// Starts what need not wait for an earlier request of its connection.
    fn start_waiting(&mut self, context: &mut Context<'_>, connection: Connection) -> Result<(), String> {
        loop {
            let Some(pipeline) = self.pipelines.get_mut(&connection) else { return Ok(()) };
            let Some(next) = pipeline.waiting.front() else { return Ok(()) };
            let overlaps = next.may_overlap() && pipeline.started.iter().all(|it| it.request.may_overlap());
            if !pipeline.started.is_empty() && !overlaps {
                return Ok(());
            }
            let request = pipeline.waiting.pop_front().expect("there is one");
            let slot = self.next_slot;
            self.next_slot += 1;
            pipeline.started.push_back(Slot { number: slot, request: request.clone(), response: None });
            self.start(context, connection, slot, request)?;
        }
    }

    fn start(
        &mut self,
        context: &mut Context<'_>,
        connection: Connection,
        slot: u64,
        request: Request,
    ) -> Result<(), String> {
        let shard = self.shard_of(request.group());
        let pipeline = &self.pipelines[&connection];
        let (client_id, host) = (pipeline.client_id.clone(), pipeline.host.clone());
        let caller = Caller { client_id: &client_id, host: &host };
        let now = now(context.now);
        let Some(live) = &mut self.shards[shard].live else {
            let response = match &request {
                Request::FindCoordinator => Response::Coordinator,
                Request::Heartbeat(_) => Response::Heartbeat(reply::Heartbeat { error: None }),
                _ => request.refusal(ErrorCode::CoordinatorLoadInProgress),
            };
            return self.respond(context, connection, slot, response);
        };
        let mut effects = Effects::default();
        let response = match request {
            Request::FindCoordinator => {
                return self.respond(context, connection, slot, Response::Coordinator);
            }
            Request::Heartbeat(op) => {
                let reply = live.machine.handle_heartbeat(now, &op);
                return self.respond(context, connection, slot, Response::Heartbeat(reply));
            }
            Request::Join(op) => {
                let ticket = Ticket(self.next_ticket);
                let minted = Minted {
                    member: context.random.bits(),
                    group: GroupId::from_u128(context.random.bits() >> 1),
                };
                live.machine.handle_join(now, ticket, &op, caller, minted, Room::UNLIMITED, &mut effects);
                self.park(context.now, shard, connection, slot);
                None
            }
            Request::Sync(op) => {
                live.machine.handle_sync(now, Ticket(self.next_ticket), &op, Room::UNLIMITED, &mut effects);
                self.park(context.now, shard, connection, slot);
                None
            }
            Request::Leave(op) => {
                Some(Response::Leave(live.machine.handle_leave(now, &op, caller, &mut effects)))
            }
            Request::Commit(commit) => {
                let minted = GroupId::from_u128(context.random.bits() >> 1);
                let error =
                    commit_offsets(&mut live.machine, now, &commit, &self.topic_ids, minted, &mut effects)?;
                if error.is_none() {
                    context.checker.see_commit(context.now, &commit)?;
                }
                Some(Response::Commit(error))
            }
            Request::Fetch(fetch) => {
                let found = fetch_offsets(&live.machine, &fetch);
                for partition in &fetch.partitions {
                    let found = found.iter().find(|it| it.partition == *partition);
                    context.checker.check_offset(&fetch.group, partition, found)?;
                }
                Some(Response::Fetch(Ok(found)))
            }
        };
        self.take_up(context, shard, &mut effects, Forgetting::Nothing)?;
        match response {
            Some(response) => self.hold(context, shard, connection, slot, response),
            None => Ok(()),
        }
    }

    fn park(&mut self, now: u64, shard: usize, connection: Connection, slot: u64) {
        self.parked.insert(Ticket(self.next_ticket), Parked { shard, connection, slot, since: now });
        self.next_ticket += 1;
    }

    /// Gathers what the machine has emitted, holds its replies back until that is durable, and starts a flush if
    /// there is something to write and none under way.
    fn take_up(
        &mut self,
        context: &mut Context<'_>,
        shard: usize,
        effects: &mut Effects,
        forgetting: Forgetting,
    ) -> Result<(), String> {
        let live = self.shards[shard].live.as_mut().expect("a step was made");
        see_forgotten(context, &self.settings, &effects.records, forgetting)?;
        if let Some(tamper) = &mut self.tamper {
            tamper(effects);
        }
        for record in &effects.records {
            context.trace.note(|| format!("     record {record:?}"));
        }
        live.emitted += effects.records.len() as u64;
        live.gathering.append(&mut effects.records);
        if live.flushing.is_none() && !live.gathering.is_empty() {
            context.outputs.push(Output::Flush(self.start_flush(shard)));
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
            match self.parked.remove(&ticket) {
                Some(parked) if parked.shard == shard => {
                    self.hold(context, shard, parked.connection, parked.slot, response)?;
                }
                Some(_) => return Err(format!("{ticket:?} is answered by another shard")),
                None if self.answered.contains(&ticket) => {
                    return Err(format!("{ticket:?} is answered twice, now with {}", response.summary()));
                }
                // Its connection has gone.
                None => {}
            }
            self.answered.insert(ticket);
        }
        self.check_shard(context, shard)
    }

    fn start_flush(&mut self, shard: usize) -> Place {
        let hosted = &mut self.shards[shard];
        let live = hosted.live.as_mut().expect("there is something to write");
        let records = std::mem::take(&mut live.gathering);
        live.under_way = records.len() as u64;
        live.flushing = Some(disk::batches(&records));
        Place { shard, life: hosted.life }
    }

    /// A reply is ready. It leaves once everything that the shard has emitted is durable.
    fn hold(
        &mut self,
        context: &mut Context<'_>,
        shard: usize,
        connection: Connection,
        slot: u64,
        response: Response,
    ) -> Result<(), String> {
        let live = self.shards[shard].live.as_mut().expect("a step was made");
        if live.durable < live.emitted {
            live.held.push_back(Held { until: live.emitted, connection, slot, response });
            return Ok(());
        }
        self.respond(context, connection, slot, response)
    }

    /// A reply leaves, or waits for those before it on its connection.
    fn respond(
        &mut self,
        context: &mut Context<'_>,
        connection: Connection,
        slot: u64,
        response: Response,
    ) -> Result<(), String> {
        let Some(pipeline) = self.pipelines.get_mut(&connection) else { return Ok(()) };
        let place = pipeline
            .started
            .iter_mut()
            .find(|it| it.number == slot)
            .ok_or_else(|| format!("a request is answered twice, now with {}", response.summary()))?;
        if place.response.replace(response).is_some() {
            return Err("a request is answered twice".to_owned());
        }
        while let Some(Slot { request, response, .. }) =
            pipeline.started.pop_front_if(|it| it.response.is_some())
        {
            let response = response.expect("it was just found");
            context.checker.see_reply(&request, &response)?;
            context.outputs.push(Output::Send(connection, response));
        }
        self.start_waiting(context, connection)
    }

    /// The disk is done with a flush.
    pub fn handle_flushed(
        &mut self,
        context: &mut Context<'_>,
        place: Place,
        outcome: Outcome,
    ) -> Result<(), String> {
        let Place { shard, life } = place;
        let hosted = &mut self.shards[shard];
        let Some(live) = hosted.live.as_mut().filter(|_| hosted.life == life) else { return Ok(()) };
        let batches = live.flushing.take().expect("a flush is under way");
        if outcome == Outcome::Failed {
            context.trace.note(|| format!("     the disk refuses a flush of shard {shard}"));
            // The two logs fail separately: any of the batches may be there, but not all.
            let refused = context.random.index(batches.len());
            for (at, batch) in batches.iter().enumerate() {
                if at != refused && context.random.per_mille(500) {
                    hosted.disk.append(batch);
                }
            }
            return self.drop_shard(context, shard);
        }
        for entry in batches.iter().flatten() {
            live.durable_machine.apply(&entry.decode()?);
        }
        for batch in &batches {
            hosted.disk.append(batch);
        }
        live.durable += live.under_way;
        live.under_way = 0;
        let durable = live.durable;
        if !live.gathering.is_empty() {
            context.outputs.push(Output::Flush(self.start_flush(shard)));
        }
        self.check_shard(context, shard)?;
        loop {
            let Some(live) = &mut self.shards[shard].live else { return Ok(()) };
            let Some(held) = live.held.pop_front_if(|it| it.until <= durable) else { return Ok(()) };
            self.respond(context, held.connection, held.slot, held.response)?;
        }
    }

    /// Memory is ahead of the log: it is dropped, and everybody who waits is told to come back.
    fn drop_shard(&mut self, context: &mut Context<'_>, shard: usize) -> Result<(), String> {
        let live = self.shards[shard].live.take().expect("it was live");
        let mut refused: Vec<(Connection, u64)> =
            live.held.into_iter().map(|it| (it.connection, it.slot)).collect();
        self.parked.retain(|_, parked| {
            let stays = parked.shard != shard;
            if !stays {
                refused.push((parked.connection, parked.slot));
            }
            stays
        });
        for (connection, slot) in refused {
            let Some(pipeline) = self.pipelines.get(&connection) else { continue };
            let Some(place) = pipeline.started.iter().find(|it| it.number == slot) else { continue };
            let response = place.request.refusal(ErrorCode::NotCoordinator);
            self.respond(context, connection, slot, response)?;
        }
        Ok(())
    }

    /// Power is cut: of what was under way a beginning is on the disk, and all connections are gone.
    pub fn crash(&mut self, random: &mut Random) {
        self.pipelines.clear();
        self.parked.clear();
        for hosted in &mut self.shards {
            let Some(live) = hosted.live.take() else { continue };
            let batches = live.flushing.unwrap_or_default();
            let kept = random.index(batches.len() + 1);
            for batch in &batches[..kept] {
                hosted.disk.append(batch);
            }
        }
    }

    /// A shutdown in good order: everybody who is parked is told to come back, and all is written.
    pub fn unload(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        for shard in 0..self.shards.len() {
            let Some(live) = &mut self.shards[shard].live else { continue };
            let mut effects = Effects::default();
            live.machine.handle_unload(&mut effects);
            live.is_unloaded = true;
            self.take_up(context, shard, &mut effects, Forgetting::Nothing)?;
            if let Some((ticket, _)) = self.parked.iter().find(|(_, parked)| parked.shard == shard) {
                return Err(format!("{ticket:?} is still parked after the unload"));
            }
            loop {
                let hosted = &self.shards[shard];
                let place = Place { shard, life: hosted.life };
                if hosted.live.as_ref().is_none_or(|live| live.flushing.is_none()) {
                    break;
                }
                self.handle_flushed(context, place, Outcome::Durable)?;
            }
        }
        Ok(())
    }

    /// Which shards have to be loaded.
    pub fn unloaded(&self) -> Vec<usize> {
        (0..self.shards.len()).filter(|at| self.shards[*at].live.is_none()).collect()
    }

    /// Reads a shard back from its disk and puts it to work.
    pub fn load(&mut self, context: &mut Context<'_>, shard: usize) -> Result<(), String> {
        if self.shards[shard].live.is_some() {
            return Ok(());
        }
        let machine = self.read_back(shard, ReadOrder::Loaded)?;
        context
            .trace
            .note(|| format!("     shard {shard} is loaded from {} records", self.shards[shard].disk.size()));
        self.check_read_back(context, shard, &machine)?;
        self.next_life += 1;
        let hosted = &mut self.shards[shard];
        hosted.life = self.next_life;
        hosted.live = Some(Live {
            machine,
            durable_machine: Shard::new(OrgId::DEFAULT, self.settings.clone()),
            gathering: Vec::new(),
            flushing: None,
            emitted: 0,
            durable: 0,
            under_way: 0,
            held: VecDeque::new(),
            deadline: None,
            is_unloaded: false,
        });
        let durable_machine = self.read_back(shard, ReadOrder::Loaded)?;
        let live = self.shards[shard].live.as_mut().expect("it was just put there");
        live.durable_machine = durable_machine;
        let mut effects = Effects::default();
        live.machine.handle_loaded(now(context.now), &mut effects);
        self.take_up(context, shard, &mut effects, Forgetting::Leftovers)
    }

    fn read_back(&self, shard: usize, order: ReadOrder) -> Result<Shard, String> {
        let mut machine = Shard::new(OrgId::DEFAULT, self.settings.clone());
        for record in self.shards[shard].disk.read(order)? {
            machine.apply(&record);
        }
        Ok(machine)
    }

    /// Holds what came back against what was seen, and against other ways of reading the same logs.
    fn check_read_back(
        &mut self,
        context: &mut Context<'_>,
        shard: usize,
        machine: &Shard,
    ) -> Result<(), String> {
        let again = self.read_back(shard, ReadOrder::OffsetsFirst)?;
        check_same(machine, &again, || format!("shard {shard} read the other way round"))?;
        if context.random.per_mille(300) {
            self.shards[shard].disk.compact(context.random.per_mille(500));
            let again = self.read_back(shard, ReadOrder::Loaded)?;
            check_same(machine, &again, || format!("shard {shard} after compaction"))?;
        }
        self.check_still_members(context, shard)?;
        let groups: Vec<String> = context.checker.groups().map(str::to_owned).collect();
        for group in groups.iter().filter(|group| self.shard_of(group) == shard) {
            let found = fetch_all(machine, group);
            context.checker.check_restored(group, &found)?;
            let highest = machine.identity(group).map_or(0, |identity| identity.generation);
            context.checker.check_highest(group, highest)?;
        }
        Ok(())
    }

    /// A restart is not noticed by members that heartbeat: those of the last stable generation are in it still.
    fn check_still_members(&self, context: &mut Context<'_>, shard: usize) -> Result<(), String> {
        let mut machine = self.read_back(shard, ReadOrder::Loaded)?;
        machine.handle_loaded(now(context.now), &mut Effects::default());
        for record in machine.durable() {
            let GroupRecord::Group { group, value: Some(value) } = record else { continue };
            if value.members.len() > self.settings.members_max {
                continue;
            }
            for member in value.members {
                let op = op::Heartbeat {
                    group: group.to_string(),
                    generation: value.generation,
                    member_id: member.member_id,
                    instance_id: member.instance_id,
                };
                context.checker.checks += 1;
                if let Some(error) = machine.handle_heartbeat(now(context.now), &op).error {
                    return Err(format!("{group}: after a restart {op:?} is answered {error}"));
                }
            }
        }
        Ok(())
    }

    /// Fails unless the machines' running count of bytes is what reading them back comes to. That holds when all
    /// groups are at rest and every member offers the one protocol that is written down.
    pub fn check_bytes(&self, at: u64) -> Result<(), String> {
        for (shard, hosted) in self.shards.iter().enumerate() {
            let Some(live) = hosted.live.as_ref().filter(|live| live.durable == live.emitted) else {
                continue;
            };
            let mut read = self.read_back(shard, ReadOrder::Loaded)?;
            // A group that has become too large would rebalance.
            read.configure(GroupSettings { members_max: usize::MAX, ..self.settings.clone() });
            read.handle_loaded(now(at), &mut Effects::default());
            let (usage, counted) = (live.machine.usage(), read.usage());
            if usage != counted {
                return Err(format!("shard {shard} counts {usage:?} and holds {counted:?}"));
            }
        }
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
        self.take_up(context, shard, &mut effects, Forgetting::Nothing)
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
            check_usage(&live.machine)?;
            check_same(&live.machine, &live.durable_machine, || format!("shard {shard} read back"))?;
        }
        Ok(())
    }

    /// The requests that are parked, and since when.
    pub fn parked(&self) -> impl Iterator<Item = (&Request, u64)> {
        self.parked.values().filter_map(|parked| {
            let started = &self.pipelines.get(&parked.connection)?.started;
            let slot = started.iter().find(|it| it.number == parked.slot)?;
            Some((&slot.request, parked.since))
        })
    }

    /// Whether all shards are at work.
    pub fn is_loaded(&self) -> bool {
        self.shards.iter().all(|it| it.live.is_some())
    }
}
