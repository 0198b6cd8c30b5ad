//! One run: the clock, the network, everybody's turns and the chaos between them.

mod chaos;
mod network;
mod rail;
mod settling;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use coordination::error_code::ErrorCode;

use crate::broker::{Broker, Context, Outcome, Output, Place, Tamper};
use crate::checker::Checker;
use crate::consumer::{Action, Consumer, Phase, Surroundings};
use crate::counts::Counts;
use crate::gateway::{self, Connection, Gateway};
use crate::message::{Call, Request, Response};
use crate::plan::{Faults, Plan};
use crate::random::Random;
use crate::trace::Trace;

use network::Link;
use rail::{Dialling, Parcel, Rail};

/// What a run was like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many events took place.
    pub steps: u64,
    /// How many times something was held against a rule.
    pub checks: u64,
    /// What went wrong how often.
    pub counts: Counts,
    /// How long the run took by its own clock.
    pub virtual_ms: u64,
    /// How long the slowest group took to settle once its last disturbance was over.
    pub settled_after_ms: u64,
    /// The same as a part of what that group's own timeouts allow, of a thousand.
    pub settled_per_mille: u64,
}

/// Why a run failed.
#[derive(Debug)]
pub struct Failure {
    /// The seed that shows it.
    pub seed: u64,
    /// Which rule was broken, and how.
    pub message: String,
    /// When, by the run's own clock.
    pub at_ms: u64,
    /// After how many events.
    pub step: u64,
    /// The whole story, if it was asked for.
    pub trace: String,
}

/// Plays one seed.
///
/// # Errors
/// When a rule was broken.
pub fn run(seed: u64, traced: bool, tamper: Option<Tamper>) -> Result<Summary, Box<Failure>> {
    let mut world = World::new(seed, traced, tamper);
    match world.play() {
        Ok(()) => Ok(world.summary()),
        Err(message) => {
            world.trace.note(|| format!("FAILED {message}"));
            Err(Box::new(Failure {
                seed,
                message,
                at_ms: world.now,
                step: world.summary.steps,
                trace: world.trace.into_text(),
            }))
        }
    }
}

struct World {
    now: u64,
    random: Random,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    next_event: u64,
    trace: Trace,
    checker: Checker,
    summary: Summary,
    broker: Broker,
    /// Whether the broker's process runs.
    up: bool,
    stalled_until: u64,
    /// All gateways: those apart from the broker, or the one within it.
    gateways: Vec<Gateway>,
    /// What the gateways want done and is not done yet.
    wishes: VecDeque<gateway::Output>,
    /// Whether somebody is doing it.
    is_serving: bool,
    /// Whether gateways and broker are apart.
    has_rail: bool,
    rails: BTreeMap<u64, Rail>,
    next_rail: u64,
    /// How each gateway comes to its rail.
    dialling: Vec<Dialling>,
    /// Ops that only one end of their rail knew of, long after they had left, when that was last looked for.
    astray: BTreeSet<Call>,
    links: BTreeMap<Connection, Link>,
    next_connection: Connection,
    everybody: Vec<Process>,
    topics: BTreeMap<String, i32>,
    groups: Vec<String>,
    commits: u64,
    calm_at: u64,
    faults: Faults,
    lifts_limits: bool,
    /// Since when each group has been at rest; none while it is not.
    settled_since: BTreeMap<String, u64>,
    /// When something last came to each group from outside, after the faults had stopped.
    disturbed_at: BTreeMap<String, u64>,
}

/// A consumer and what the world keeps of it.
struct Process {
    consumer: Consumer,
    link: Option<Connection>,
    /// The gateway that it tries next.
    gateway: usize,
    wakes_at: Option<u64>,
}

#[derive(Debug)]
enum Event {
    Dialled(Connection),
    Connected(Connection),
    Asked(Connection, Request),
    Answered(Connection, Response),
    GatewaySeesClosed(Connection),
    ConsumerSeesClosed(Connection),
    GatewayStarts(usize),
    RailDialled(usize, u64),
    /// Something comes out of a rail.
    Carried(Call, Parcel),
    /// The broker takes up what has come out of a rail.
    Taken(Call, Parcel),
    GatewaySeesCut(u64),
    BrokerSeesCut(u64),
    Woken(usize),
    Started(usize),
    Flushed(Place),
    Due(Place),
    BrokerStarts,
    ShardLoads(usize),
    Chaos,
    Look,
}

impl World {
    fn new(seed: u64, traced: bool, tamper: Option<Tamper>) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::new(&mut random);
        let mut trace = Trace::new(traced);
        trace.note(|| format!("{plan:#?}"));
        let mut checker = Checker::default();
        checker.limits_members = plan.limits.members < usize::MAX;
        let gateways = plan.gateways.max(1);
        let everybody = plan
            .consumers
            .into_iter()
            .enumerate()
            .map(|(at, profile)| Process {
                consumer: Consumer::new(profile),
                link: None,
                gateway: at % gateways,
                wakes_at: None,
            })
            .collect();
        Self {
            now: 0,
            random,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            next_event: 0,
            trace,
            checker,
            summary: Summary::default(),
            broker: Broker::new(plan.shards, plan.settings, plan.limits, plan.topic_ids, tamper),
            up: false,
            stalled_until: 0,
            gateways: (0..gateways).map(|_| Gateway::default()).collect(),
            wishes: VecDeque::new(),
            is_serving: false,
            has_rail: plan.gateways > 0,
            rails: BTreeMap::new(),
            next_rail: 1,
            dialling: vec![Dialling::default(); gateways],
            astray: BTreeSet::new(),
            links: BTreeMap::new(),
            next_connection: 0,
            everybody,
            topics: plan.topics,
            groups: plan.groups,
            commits: 0,
            calm_at: plan.calm_at,
            faults: plan.faults,
            lifts_limits: plan.lifts_limits,
            settled_since: BTreeMap::new(),
            disturbed_at: BTreeMap::new(),
        }
    }

    fn summary(&self) -> Summary {
        Summary { checks: self.checker.checks, virtual_ms: self.now, ..self.summary }
    }

    fn play(&mut self) -> Result<(), String> {
        self.after(0, Event::BrokerStarts);
        if self.has_rail {
            for at in 0..self.gateways.len() {
                let delay = self.random.between(0, 1_000);
                self.after(delay, Event::GatewayStarts(at));
            }
        }
        for at in 0..self.everybody.len() {
            let delay = self.random.between(0, 5_000);
            self.after(delay, Event::Started(at));
        }
        self.after(1_000, Event::Chaos);
        while let Some(Reverse((at, number))) = self.queue.pop() {
            let event = self.events.remove(&number).expect("it was queued");
            self.now = at;
            self.trace.at(at);
            self.summary.steps += 1;
            if matches!(event, Event::Look) {
                if self.look()? {
                    return Ok(());
                }
            } else {
                self.step(number, event)?;
            }
        }
        Err("nothing is left to happen".to_owned())
    }

    fn at(&mut self, at: u64, event: Event) {
        self.queue.push(Reverse((at, self.next_event)));
        self.events.insert(self.next_event, event);
        self.next_event += 1;
    }

    /// Puts an event off whose time has come too early. It keeps its number, so that nothing overtakes it.
    fn put_off(&mut self, at: u64, number: u64, event: Event) {
        self.queue.push(Reverse((at, number)));
        self.events.insert(number, event);
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.at(self.now + delay, event);
    }

    fn is_calm(&self) -> bool {
        self.now >= self.calm_at
    }

    fn step(&mut self, number: u64, event: Event) -> Result<(), String> {
        match event {
            Event::Dialled(connection) => self.dialled(connection),
            Event::Connected(connection) => {
                if let Some(at) = self.owner(connection) {
                    self.with(at, Turn::Connected)?;
                }
            }
            Event::Asked(connection, request) => return self.asked(number, connection, request),
            Event::Answered(connection, response) => {
                if let Some(at) = self.owner(connection) {
                    let stalled = self.everybody[at].consumer.stalled_until;
                    if stalled > self.now {
                        self.put_off(stalled, number, Event::Answered(connection, response));
                        return Ok(());
                    }
                    self.trace.note(|| format!("  c{at} <- {}", response.summary()));
                    self.with(at, Turn::Response(response))?;
                }
            }
            Event::GatewaySeesClosed(connection) => return self.gateway_sees_closed(connection),
            Event::ConsumerSeesClosed(connection) => {
                if let Some(at) = self.owner(connection) {
                    self.trace.note(|| format!("  c{at} sees its connection closed"));
                    self.with(at, Turn::Disconnected)?;
                }
            }
            Event::GatewayStarts(at) => self.gateway_starts(at),
            Event::RailDialled(at, life) => self.rail_dialled(at, life),
            Event::Carried(call, parcel) => return self.carried(number, call, parcel),
            Event::Taken(call, parcel) => return self.taken(number, call, parcel),
            Event::GatewaySeesCut(link) => return self.gateway_sees_cut(link),
            Event::BrokerSeesCut(link) => self.broker_sees_cut(number, link),
            Event::Woken(at) => {
                if self.everybody[at].wakes_at == Some(self.now) {
                    self.everybody[at].wakes_at = None;
                    self.with(at, Turn::Time)?;
                }
            }
            Event::Started(at) => {
                let phase = self.everybody[at].consumer.phase;
                if matches!(phase, Phase::Down | Phase::Stopped(ErrorCode::PolicyViolation)) {
                    self.trace.note(|| format!("  c{at} starts"));
                    self.disturb(&self.everybody[at].consumer.profile.group.clone());
                    self.with(at, Turn::Start)?;
                }
            }
            Event::Flushed(place) => {
                let refused = !self.is_calm() && self.random.per_mille(self.faults.refused);
                let outcome = if refused { Outcome::Failed } else { Outcome::Durable };
                self.with_broker(|broker, context| broker.handle_flushed(context, place, outcome))?;
                self.load_what_is_not_loaded();
            }
            Event::Due(place) => {
                // After a stall what has arrived meanwhile comes first.
                if self.up && self.stalled_until > self.now {
                    self.at(self.stalled_until + 20, Event::Due(place));
                    return Ok(());
                }
                self.with_broker(|broker, context| broker.handle_deadlines(context, place))?;
            }
            Event::BrokerStarts => {
                self.trace.note(|| "broker starts".to_owned());
                self.up = true;
                if !self.has_rail {
                    self.gateways[0].start();
                    self.gateways[0].connect(rail::WITHIN);
                }
                self.load_what_is_not_loaded();
            }
            Event::ShardLoads(shard) => {
                if self.up {
                    self.with_broker(|broker, context| broker.load(context, shard))?;
                    for group in self.groups.clone() {
                        self.disturb(&group);
                    }
                }
            }
            Event::Chaos => self.chaos()?,
            Event::Look => {}
        }
        Ok(())
    }

    fn load_what_is_not_loaded(&mut self) {
        if self.up {
            for shard in self.broker.unloaded() {
                let delay = self.random.between(0, 300);
                self.after(delay, Event::ShardLoads(shard));
            }
        }
    }

    fn with_broker(
        &mut self,
        work: impl FnOnce(&mut Broker, &mut Context<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut context = Context {
            now: self.now,
            random: &mut self.random,
            checker: &mut self.checker,
            counts: &mut self.summary.counts,
            trace: &mut self.trace,
            outputs: Vec::new(),
        };
        work(&mut self.broker, &mut context)?;
        for output in context.outputs {
            match output {
                Output::Send(call, response) => self.broker_answers(call, response)?,
                Output::Flush(place) => {
                    let delay = if self.random.per_mille(20) {
                        self.random.between(10, 500)
                    } else {
                        self.random.between(0, 4)
                    };
                    self.after(delay, Event::Flushed(place));
                }
                Output::Deadline(place, at) => {
                    let late = self.random.between(0, 2);
                    self.at(at.max(self.now) + late, Event::Due(place));
                }
            }
        }
        Ok(())
    }

    /// Who is at the other end of a connection, if it still uses it.
    fn owner(&self, connection: Connection) -> Option<usize> {
        let at = self.links.get(&connection)?.owner?;
        (self.everybody[at].link == Some(connection)).then_some(at)
    }

    /// Gives one consumer its turn and does what it then wants.
    fn with(&mut self, at: usize, turn: Turn) -> Result<(), String> {
        let mut actions = Vec::new();
        let lived = self.everybody[at].consumer.lives();
        let consumer = &mut self.everybody[at].consumer;
        let mut around = Surroundings {
            now: self.now,
            random: &mut self.random,
            topics: &self.topics,
            commits: &mut self.commits,
        };
        match turn {
            Turn::Start => consumer.start(self.now),
            Turn::Time => consumer.handle_time(&mut around, &mut actions),
            Turn::Connected => consumer.handle_connected(self.now, &mut actions),
            Turn::Disconnected => {
                self.everybody[at].link = None;
                self.everybody[at].consumer.handle_disconnected(self.now, &mut actions);
            }
            Turn::Response(response) => consumer.handle_response(&mut around, response, &mut actions)?,
            Turn::Leave => consumer.leave(&mut around, &mut actions),
            Turn::Nothing => {}
        }
        for action in actions {
            match action {
                Action::Connect => self.dial(at),
                Action::Disconnect => self.hang_up(at),
                Action::Send(request) => self.ask(at, request),
            }
        }
        if lived && !self.everybody[at].consumer.lives() {
            self.disturb(&self.everybody[at].consumer.profile.group.clone());
        }
        let process = &mut self.everybody[at];
        if let Phase::Stopped(error) = process.consumer.phase
            && !matches!(
                error,
                ErrorCode::FencedInstanceId | ErrorCode::GroupMaxSizeReached | ErrorCode::PolicyViolation
            )
        {
            return Err(format!("c{at} is told {error}, which ends a real client"));
        }
        if let Some(wake) = process.consumer.next_wake() {
            let wake = wake.max(self.now);
            if process.wakes_at.is_none_or(|known| wake < known || known < self.now) {
                process.wakes_at = Some(wake);
                self.at(wake, Event::Woken(at));
            }
        }
        Ok(())
    }
}

/// What happens to a consumer.
enum Turn {
    Start,
    Time,
    Connected,
    Disconnected,
    Response(Response),
    Leave,
    Nothing,
}
