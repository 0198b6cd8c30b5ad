//! How messages travel between consumers and gateways, and how they do not.

use crate::gateway::Connection;
use crate::message::{Request, Response};

use super::{Event, World};

/// A connection between a consumer and a gateway.
pub(super) struct Link {
    /// `None` for the way that doubled messages take.
    pub(super) owner: Option<usize>,
    pub(super) gateway: usize,
    /// Nothing gets through any more, and perhaps nobody knows.
    pub(super) lost: bool,
    /// The earliest time at which the next message may arrive, each way: none overtakes another.
    pub(super) to_gateway: u64,
    pub(super) to_consumer: u64,
}

impl World {
    /// Opens a connection, mostly to the gateway of the last one.
    pub(super) fn dial(&mut self, at: usize) {
        self.hang_up(at);
        if self.gateways.len() > 1 && !self.is_calm() && self.random.per_mille(300) {
            self.everybody[at].gateway = self.random.index(self.gateways.len());
        }
        let gateway = self.everybody[at].gateway;
        let connection = self.next_connection;
        self.next_connection += 1;
        self.links.insert(connection, Link::new(Some(at), gateway));
        self.everybody[at].link = Some(connection);
        let delay = self.delay();
        self.after(delay, Event::Dialled(connection));
    }

    pub(super) fn dialled(&mut self, connection: Connection) {
        let Some(at) = self.owner(connection) else { return };
        let delay = self.random.between(0, 2);
        let gateway = self.links[&connection].gateway;
        if self.gateways[gateway].is_up() {
            let client_id = &self.everybody[at].consumer.profile.client_id;
            self.gateways[gateway].accept(connection, client_id);
            self.after(delay, Event::Connected(connection));
        } else {
            // A client knows several addresses, and tries the next.
            self.everybody[at].gateway = (gateway + 1) % self.gateways.len();
            self.after(delay, Event::ConsumerSeesClosed(connection));
        }
    }

    pub(super) fn asked(
        &mut self,
        number: u64,
        connection: Connection,
        request: Request,
    ) -> Result<(), String> {
        let gateway = self.links[&connection].gateway;
        if !self.gateways[gateway].is_up() {
            return Ok(());
        }
        if !self.has_rail && self.stalled_until > self.now {
            self.put_off(self.stalled_until, number, Event::Asked(connection, request));
            return Ok(());
        }
        if !self.gateways[gateway].knows(connection) {
            // It was opened before the gateway's last start, or is closed already.
            self.after(1, Event::ConsumerSeesClosed(connection));
            return Ok(());
        }
        self.trace.note(|| format!("g{gateway} <- {} {}", self.links[&connection].who(), request.summary()));
        if self.links[&connection].owner.is_none() {
            self.disturb(request.group());
        }
        self.summary.counts.refused_ops += self.gateways[gateway].receive(self.now, connection, request);
        self.serve(gateway)
    }

    pub(super) fn gateway_sees_closed(&mut self, connection: Connection) -> Result<(), String> {
        let gateway = self.links[&connection].gateway;
        self.gateways[gateway].close(connection);
        self.serve(gateway)
    }

    pub(super) fn delay(&mut self) -> u64 {
        if !self.is_calm() && self.random.per_mille(self.faults.late) {
            self.summary.counts.late += 1;
            self.random.between(10, 3_000)
        } else {
            self.random.between(0, 3)
        }
    }

    /// Whether the next message of a connection, and all after it, are lost.
    pub(super) fn loses(&mut self, connection: Connection) -> bool {
        if self.links[&connection].lost {
            self.summary.counts.lost += 1;
            return true;
        }
        if self.is_calm() || !self.random.per_mille(self.faults.lost) {
            return false;
        }
        self.trace.note(|| format!("     connection {connection} is lost"));
        self.summary.counts.lost += 1;
        self.links.get_mut(&connection).expect("it was just looked at").lost = true;
        // Each end may or may not find out before it loses patience.
        if self.random.per_mille(600) {
            let delay = self.random.between(0, 1_000);
            self.after(delay, Event::ConsumerSeesClosed(connection));
        }
        if self.random.per_mille(600) {
            let delay = self.random.between(0, 10_000);
            self.after(delay, Event::GatewaySeesClosed(connection));
        }
        true
    }

    pub(super) fn ask(&mut self, at: usize, request: Request) {
        let Some(connection) = self.everybody[at].link else { return };
        self.trace.note(|| format!("  c{at} -> {}", request.summary()));
        let delay = self.delay();
        let link = self.links.get_mut(&connection).expect("a process has a link that there is");
        let arrives = link.to_gateway.max(self.now + delay);
        link.to_gateway = arrives;
        if !self.is_calm() && self.random.per_mille(self.faults.doubled) {
            self.double(at, &request);
        }
        if !self.loses(connection) {
            self.at(arrives, Event::Asked(connection, request));
        }
    }

    /// Has a request arrive once more, later and by a way of its own, as after a client's own repetition.
    pub(super) fn double(&mut self, at: usize, request: &Request) {
        let mut request = request.clone();
        if let Request::Commit(commit) = &mut request {
            for it in &mut commit.offsets {
                it.metadata.push('\'');
                it.metadata.push_str(&self.next_connection.to_string());
            }
        }
        self.summary.counts.doubled += u64::from(self.stray(at, request));
    }

    /// Has a request arrive on a connection of its own, through any gateway; nobody reads the replies. Says
    /// whether there was one.
    pub(super) fn stray(&mut self, at: usize, request: Request) -> bool {
        let gateway = self.random.index(self.gateways.len());
        if !self.gateways[gateway].is_up() {
            return false;
        }
        let connection = self.next_connection;
        self.next_connection += 1;
        self.links.insert(connection, Link::new(None, gateway));
        self.gateways[gateway].accept(connection, &self.everybody[at].consumer.profile.client_id);
        let delay = self.random.between(0, 4_000);
        self.after(delay, Event::Asked(connection, request));
        if self.random.per_mille(500) {
            let longer = self.random.between(0, 60_000);
            self.after(delay + longer, Event::GatewaySeesClosed(connection));
        }
        true
    }

    pub(super) fn answer(&mut self, connection: Connection, response: Response) {
        let gateway = self.links[&connection].gateway;
        self.trace.note(|| format!("g{gateway} -> {} {}", self.links[&connection].who(), response.summary()));
        if self.links[&connection].owner.is_none() {
            return;
        }
        let delay = self.delay();
        let link = self.links.get_mut(&connection).expect("links stay");
        let arrives = link.to_consumer.max(self.now + delay);
        link.to_consumer = arrives;
        if !self.loses(connection) {
            self.at(arrives, Event::Answered(connection, response));
        }
    }

    /// A gateway closes a connection.
    pub(super) fn shut(&mut self, connection: Connection) {
        let link = &self.links[&connection];
        if link.owner.is_some() && !link.lost {
            let arrives = link.to_consumer.max(self.now + 1);
            self.at(arrives, Event::ConsumerSeesClosed(connection));
        }
    }

    /// A process closes its connection, or ends and its machine closes it.
    pub(super) fn hang_up(&mut self, at: usize) {
        if let Some(connection) = self.everybody[at].link.take() {
            let link = &self.links[&connection];
            if !link.lost {
                let arrives = link.to_gateway.max(self.now + 1);
                self.at(arrives, Event::GatewaySeesClosed(connection));
            }
        }
    }
}

impl Link {
    fn new(owner: Option<usize>, gateway: usize) -> Self {
        Self { owner, gateway, lost: false, to_gateway: 0, to_consumer: 0 }
    }

    fn who(&self) -> String {
        self.owner.map_or_else(|| "twice".to_owned(), |at| format!("c{at}"))
    }
}
