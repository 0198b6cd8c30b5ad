//! The rails between gateways and the broker: how ops travel on them, and what becomes of them when a rail dies.
//!
//! As long as a rail lives nothing on it is lost: what is dropped is sent again, which makes it and what is behind it on
//! its lane late. A rail dies as a whole, and its ends notice that at different times, each by its own silence.

use std::collections::BTreeSet;

use crate::gateway::{self, LANES};
use crate::message::{Call, Carrier, Request, Response};

use super::{Event, World};

/// The rail within the process, when the gateway is part of the broker.
pub(super) const WITHIN: u64 = 0;

/// After so long a silence an end takes its rail for dead.
const IDLE_MS: u64 = 6_000;

/// The longest time between two attempts to reach the broker.
const LONGEST_BACKOFF_MS: u64 = 2_000;

/// By then both ends of a rail that was cut have noticed, and what was cancelled is known to be.
const FORGOTTEN_MS: u64 = 15_000;

/// One rail. Another one, with another number, takes its place when it is dead.
pub(super) struct Rail {
    gateway: usize,
    /// Whatever comes out after then is lost.
    cut_at: Option<u64>,
    /// Nothing comes out before then.
    stalled_until: u64,
    /// The earliest time at which the next message of each lane may come out, each way.
    to_broker: [u64; LANES],
    to_gateway: [u64; LANES],
    /// Whether the broker takes it for alive.
    is_open: bool,
}

/// How a gateway comes to its rail.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dialling {
    /// Which of the gateway's lives it is. What an earlier one wanted is of no interest.
    life: u64,
    /// How often in a row it has failed.
    failed: u32,
}

/// What travels on a rail.
#[derive(Debug)]
pub(super) enum Parcel {
    Op(Carrier, Request),
    Cancel,
    Reply(Response),
}

impl World {
    pub(super) fn gateway_starts(&mut self, at: usize) {
        if !self.gateways[at].is_up() {
            self.trace.note(|| format!("g{at} starts"));
            self.gateways[at].start();
            self.dialling[at].failed = 0;
            self.dial_rail(at);
        }
    }

    fn dial_rail(&mut self, at: usize) {
        let Dialling { life, failed } = self.dialling[at];
        let longest = LONGEST_BACKOFF_MS.min(100 << failed.min(10));
        let delay = self.random.between(longest / 2, longest);
        self.after(delay, Event::RailDialled(at, life));
    }

    /// A gateway has tried to reach the broker.
    pub(super) fn rail_dialled(&mut self, at: usize, life: u64) {
        if self.dialling[at].life != life {
            return;
        }
        if !self.up || self.stalled_until > self.now {
            self.dialling[at].failed += 1;
            self.dial_rail(at);
            return;
        }
        let link = self.next_rail;
        self.next_rail += 1;
        self.trace.note(|| format!("g{at} has rail {link}"));
        let lanes = [0; LANES];
        let rail = Rail {
            gateway: at,
            cut_at: None,
            stalled_until: 0,
            to_broker: lanes,
            to_gateway: lanes,
            is_open: true,
        };
        self.rails.insert(link, rail);
        self.dialling[at].failed = 0;
        self.gateways[at].connect(link);
        self.disturb_all();
    }

    /// Does what the gateways want, in the order in which they want it: while the broker answers one op, within the
    /// process, the gateway may already send the next.
    pub(super) fn serve(&mut self, gateway: usize) -> Result<(), String> {
        self.wishes.extend(self.gateways[gateway].take_outputs());
        if std::mem::replace(&mut self.is_serving, true) {
            return Ok(());
        }
        while let Some(wish) = self.wishes.pop_front() {
            match wish {
                gateway::Output::Call(call, carrier, request) => {
                    self.send(call, Parcel::Op(carrier, request))?;
                }
                gateway::Output::Cancel(call) => self.send(call, Parcel::Cancel)?,
                gateway::Output::Answer(connection, response) => self.answer(connection, response),
                gateway::Output::Close(connection) => self.shut(connection),
            }
        }
        self.is_serving = false;
        Ok(())
    }

    fn send(&mut self, call: Call, parcel: Parcel) -> Result<(), String> {
        if call.link == WITHIN {
            return self.broker_takes(call, parcel);
        }
        let delay = self.rail_delay();
        let rail = self.rails.get_mut(&call.link).expect("a gateway has a rail that there is");
        let lane = &mut rail.to_broker[call.lane];
        let arrives = (*lane).max(self.now + delay);
        *lane = arrives;
        self.at(arrives, Event::Carried(call, parcel));
        Ok(())
    }

    pub(super) fn broker_answers(&mut self, call: Call, response: Response) -> Result<(), String> {
        if call.link == WITHIN {
            return self.gateway_takes(0, call, response);
        }
        self.trace.note(|| format!("broker -> rail {} {}", call.link, response.summary()));
        let delay = self.rail_delay();
        let rail = self.rails.get_mut(&call.link).expect("the broker has a rail that there is");
        let lane = &mut rail.to_gateway[call.lane];
        let arrives = (*lane).max(self.now + delay);
        *lane = arrives;
        self.at(arrives, Event::Carried(call, Parcel::Reply(response)));
        Ok(())
    }

    /// A packet that is lost is sent again, after one or several timeouts.
    fn rail_delay(&mut self) -> u64 {
        if !self.is_calm() && self.random.per_mille(self.faults.late + self.faults.lost) {
            self.summary.counts.late += 1;
            self.random.between(10, 3_000)
        } else {
            self.random.between(0, 3)
        }
    }

    /// Something comes out of a rail, unless that is cut or nothing moves on it.
    pub(super) fn carried(&mut self, number: u64, call: Call, parcel: Parcel) -> Result<(), String> {
        let rail = &self.rails[&call.link];
        if rail.cut_at.is_some_and(|at| at < self.now) {
            return Ok(());
        }
        if rail.stalled_until > self.now {
            self.put_off(rail.stalled_until, number, Event::Carried(call, parcel));
            return Ok(());
        }
        match parcel {
            Parcel::Reply(response) if self.gateways[rail.gateway].link() == Some(call.link) => {
                self.gateway_takes(rail.gateway, call, response)
            }
            Parcel::Reply(_) => Ok(()),
            parcel => self.taken(number, call, parcel),
        }
    }

    /// The broker takes up what has come out of a rail, once it gets any time.
    pub(super) fn taken(&mut self, number: u64, call: Call, parcel: Parcel) -> Result<(), String> {
        if !self.rails[&call.link].is_open {
            return Ok(());
        }
        if self.stalled_until > self.now {
            self.put_off(self.stalled_until, number, Event::Taken(call, parcel));
            return Ok(());
        }
        self.broker_takes(call, parcel)
    }

    fn broker_takes(&mut self, call: Call, parcel: Parcel) -> Result<(), String> {
        match parcel {
            Parcel::Op(carrier, request) => {
                if call.link != WITHIN {
                    self.trace.note(|| format!("broker <- rail {} {}", call.link, request.summary()));
                }
                self.with_broker(|broker, context| broker.receive(context, call, &carrier, &request))
            }
            Parcel::Cancel => {
                self.summary.counts.cancelled_ops += u64::from(self.broker.cancel(call));
                Ok(())
            }
            Parcel::Reply(response) => Err(format!("the broker is told {}", response.summary())),
        }
    }

    fn gateway_takes(&mut self, gateway: usize, call: Call, response: Response) -> Result<(), String> {
        let refused = self.gateways[gateway].handle_reply(self.now, call, response)?;
        self.summary.counts.refused_ops += refused;
        self.serve(gateway)
    }

    pub(super) fn gateway_sees_cut(&mut self, link: u64) -> Result<(), String> {
        let at = self.rails[&link].gateway;
        if self.gateways[at].link() != Some(link) {
            return Ok(());
        }
        let lost = self.gateways[at].disconnect();
        self.trace.note(|| format!("g{at} sees rail {link} dead, with {lost} ops"));
        self.summary.counts.lost_ops += lost as u64;
        self.dial_rail(at);
        self.disturb_all();
        self.serve(at)
    }

    pub(super) fn broker_sees_cut(&mut self, number: u64, link: u64) {
        if !self.rails[&link].is_open {
            return;
        }
        if self.stalled_until > self.now {
            self.put_off(self.stalled_until, number, Event::BrokerSeesCut(link));
            return;
        }
        self.trace.note(|| format!("broker sees rail {link} dead"));
        self.close_at_broker(link);
        self.disturb_all();
    }

    fn close_at_broker(&mut self, link: u64) {
        self.rails.get_mut(&link).expect("rails stay").is_open = false;
        self.broker.close_link(link);
    }

    /// Cuts a rail; each end finds out by itself.
    fn cut(&mut self, link: u64, at: u64, gateway_sees: u64, broker_sees: u64) {
        let rail = self.rails.get_mut(&link).expect("rails stay");
        if rail.cut_at.is_none() {
            self.trace.note(|| format!("     rail {link} is cut"));
            self.summary.counts.cut_rails += 1;
            rail.cut_at = Some(at);
        }
        self.after(gateway_sees, Event::GatewaySeesCut(link));
        self.after(broker_sees, Event::BrokerSeesCut(link));
    }

    /// How long it takes until an end has missed the other for too long.
    fn silence(&mut self) -> u64 {
        self.random.between(IDLE_MS - 1_000, IDLE_MS + 1_000)
    }

    /// A rail that works, if the gateway that chance names has one.
    fn some_rail(&mut self) -> Option<u64> {
        let at = self.random.index(self.gateways.len());
        self.gateways[at].link().filter(|link| self.rails[link].cut_at.is_none())
    }

    pub(super) fn cut_some_rail(&mut self) {
        let Some(link) = self.some_rail() else { return };
        let (gateway_sees, broker_sees) = match self.random.between(0, 3) {
            // One end closes it.
            0 => (self.random.between(0, 50), self.random.between(0, 50)),
            // Nothing gets through.
            1 => (self.silence(), self.silence()),
            // Nothing gets through one way: one end is still heard until it has missed the other.
            2 => (self.silence(), self.silence() + IDLE_MS),
            _ => (self.silence() + IDLE_MS, self.silence()),
        };
        self.cut(link, self.now, gateway_sees, broker_sees);
    }

    pub(super) fn stall_some_rail(&mut self) {
        let Some(link) = self.some_rail() else { return };
        let until = (self.now + self.random.between(10, IDLE_MS - 1_000)).min(self.calm_at);
        self.trace.note(|| format!("     nothing moves on rail {link} until {until}"));
        self.summary.counts.stalled_rails += 1;
        let rail = self.rails.get_mut(&link).expect("it was just found");
        rail.stalled_until = until.max(rail.stalled_until);
    }

    /// The broker gets no time for a while. When that is long, its gateways miss it; when it wakes, it takes up what had
    /// come out of their rails before, and then finds them dead.
    pub(super) fn rails_feel_stall(&mut self) {
        if self.stalled_until < self.now + IDLE_MS || self.random.per_mille(500) {
            return;
        }
        let open: Vec<u64> = self.open_rails();
        for link in open {
            let gateway_sees = self.silence();
            let wakes = self.stalled_until - self.now;
            let broker_sees = wakes + self.random.between(0, 50);
            self.cut(link, self.now, gateway_sees, broker_sees);
        }
    }

    fn open_rails(&self) -> Vec<u64> {
        self.rails.iter().filter(|(_, rail)| rail.is_open).map(|(link, _)| *link).collect()
    }

    /// The broker's process has ended. What it said last may still be heard.
    pub(super) fn broker_leaves_rails(&mut self) {
        for link in self.open_rails() {
            self.close_at_broker(link);
            let last = self.now + self.random.between(0, 20);
            let gateway_sees =
                if self.random.per_mille(600) { self.random.between(20, 70) } else { self.silence() };
            self.cut(link, last, gateway_sees, 0);
        }
    }

    pub(super) fn kill_some_gateway(&mut self) {
        let at = self.random.index(self.gateways.len());
        if !self.gateways[at].is_up() {
            return;
        }
        self.trace.note(|| format!("g{at} is killed"));
        self.summary.counts.killed_gateways += 1;
        if let Some(link) = self.gateways[at].link() {
            let broker_sees =
                if self.random.per_mille(300) { self.random.between(0, 50) } else { self.silence() };
            // What it had sent is on its way.
            let last = self.now + self.random.between(0, 5);
            self.cut(link, last, 0, broker_sees);
        }
        self.dialling[at].life += 1;
        let connections = self.gateways[at].kill();
        self.tell_closed(connections);
        if self.random.per_mille(800) {
            let delay = self.random.between(1, 15_000);
            self.after(delay, Event::GatewayStarts(at));
        }
    }

    /// Has most of these clients see at once that their connections are gone; the others have to find out.
    pub(super) fn tell_closed(&mut self, connections: Vec<u64>) {
        for connection in connections {
            if self.random.per_mille(800) {
                let delay = self.random.between(1, 50);
                self.after(delay, Event::ConsumerSeesClosed(connection));
            }
        }
    }

    /// The faults are over. One gateway is enough for everybody, but there has to be one.
    pub(super) fn start_gateways(&mut self) {
        if !self.has_rail {
            return;
        }
        for at in 0..self.gateways.len() {
            if at == 0 || self.random.per_mille(500) {
                self.after(0, Event::GatewayStarts(at));
            }
        }
    }

    fn disturb_all(&mut self) {
        for group in self.groups.clone() {
            self.disturb(&group);
        }
    }

    /// Nothing is left at the broker that no gateway waits for, and nobody waits at a gateway for what the broker does
    /// not know of. What is on its way when this looks has arrived when it looks again.
    pub(super) fn check_rails(&mut self) -> Result<(), String> {
        let is_old = |since: u64| self.now > since.max(self.calm_at) + FORGOTTEN_MS;
        let mut astray = BTreeSet::new();
        for (call, request, since) in self.broker.open().filter(|(_, _, since)| is_old(*since)) {
            if self.gateways.iter().any(|gateway| gateway.awaits(call)) {
                continue;
            }
            astray.insert(call);
            if self.astray.contains(&call) {
                let what = request.summary();
                return Err(format!("nobody waits any more for {what}, which the broker has since {since}"));
            }
        }
        for (at, gateway) in self.gateways.iter().enumerate() {
            for (call, since) in gateway.under_way().filter(|(_, since)| is_old(*since)) {
                if self.broker.has_open(call) {
                    continue;
                }
                astray.insert(call);
                if self.astray.contains(&call) {
                    return Err(format!("g{at} waits since {since} for {call:?}, unknown to the broker"));
                }
            }
        }
        self.astray = astray;
        Ok(())
    }
}
