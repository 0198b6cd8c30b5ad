//! How messages travel, and how they do not.

use crate::broker::Connection;
use crate::message::{Request, Response};

use super::{Event, World};

/// A connection between a consumer and the broker.
pub(super) struct Link {
    /// `None` for the way that doubled messages take.
    pub(super) owner: Option<usize>,
    /// Nothing gets through any more, and perhaps nobody knows.
    pub(super) lost: bool,
    /// The earliest time at which the next message may arrive, each way: none overtakes another.
    pub(super) to_broker: u64,
    pub(super) to_consumer: u64,
}

impl World {
    pub(super) fn dialled(&mut self, connection: Connection) {
        let Some(at) = self.owner(connection) else { return };
        let delay = self.random.between(0, 2);
        if self.up {
            self.broker.accept(connection, &self.everybody[at].consumer.profile.client_id);
            self.after(delay, Event::Connected(connection));
        } else {
            self.after(delay, Event::ConsumerSeesClosed(connection));
        }
    }

    pub(super) fn asked(
        &mut self,
        number: u64,
        connection: Connection,
        request: Request,
    ) -> Result<(), String> {
        if !self.up {
            return Ok(());
        }
        if self.stalled_until > self.now {
            self.put_off(self.stalled_until, number, Event::Asked(connection, request));
            return Ok(());
        }
        if !self.broker.knows(connection) {
            // It was opened before the broker's last start.
            self.after(1, Event::ConsumerSeesClosed(connection));
            return Ok(());
        }
        self.trace.note(|| format!("broker <- {} {}", self.links[&connection].who(), request.summary()));
        if self.links[&connection].owner.is_none() {
            self.disturb(request.group());
        }
        self.with_broker(|broker, context| broker.receive(context, connection, request))
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
            self.after(delay, Event::BrokerSeesClosed(connection));
        }
        true
    }

    pub(super) fn ask(&mut self, at: usize, request: Request) {
        let Some(connection) = self.everybody[at].link else { return };
        self.trace.note(|| format!("  c{at} -> {}", request.summary()));
        let delay = self.delay();
        let link = self.links.get_mut(&connection).expect("a process has a link that there is");
        let arrives = link.to_broker.max(self.now + delay);
        link.to_broker = arrives;
        if !self.is_calm() && self.up && self.random.per_mille(self.faults.doubled) {
            self.double(at, &request);
        }
        if !self.loses(connection) {
            self.at(arrives, Event::Asked(connection, request));
        }
    }

    /// Has a request arrive once more, later and by a way of its own, as after a client's own repetition.
    pub(super) fn double(&mut self, at: usize, request: &Request) {
        self.summary.counts.doubled += 1;
        let mut request = request.clone();
        if let Request::Commit(commit) = &mut request {
            for it in &mut commit.offsets {
                it.metadata.push('\'');
                it.metadata.push_str(&self.next_connection.to_string());
            }
        }
        self.stray(at, request);
    }

    /// Has a request arrive on a connection of its own, whose replies nobody reads.
    pub(super) fn stray(&mut self, at: usize, request: Request) {
        let connection = self.next_connection;
        self.next_connection += 1;
        self.links.insert(connection, Link { owner: None, lost: false, to_broker: 0, to_consumer: 0 });
        self.broker.accept(connection, &self.everybody[at].consumer.profile.client_id);
        let delay = self.random.between(0, 4_000);
        self.after(delay, Event::Asked(connection, request));
        if self.random.per_mille(500) {
            let longer = self.random.between(0, 60_000);
            self.after(delay + longer, Event::BrokerSeesClosed(connection));
        }
    }

    pub(super) fn answer(&mut self, connection: Connection, response: Response) {
        self.trace.note(|| format!("broker -> {} {}", self.links[&connection].who(), response.summary()));
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

    /// A process closes its connection, or ends and its machine closes it.
    pub(super) fn hang_up(&mut self, at: usize) {
        if let Some(connection) = self.everybody[at].link.take() {
            let link = &self.links[&connection];
            if !link.lost {
                let arrives = link.to_broker.max(self.now + 1);
                self.at(arrives, Event::BrokerSeesClosed(connection));
            }
        }
    }
}

impl Link {
    fn who(&self) -> String {
        self.owner.map_or_else(|| "twice".to_owned(), |at| format!("c{at}"))
    }
}
