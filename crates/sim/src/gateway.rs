//! A gateway of a run: connections of clients in front, the rail behind, and nothing that has to survive it.
//!
//! The contract is that of the production gateway. Requests of one connection take effect in order and are answered in
//! order. Without a rail a request is refused at once, in a way that clients repeat. An op whose rail dies may or may
//! not have been heard, so its client gets no answer, but its connection closed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coordination::error_code::ErrorCode;

use crate::message::{Call, Carrier, Request, Response};

/// A client's connection, numbered.
pub type Connection = u64;

/// How many lanes a rail has for the ops of groups. What is on one of them keeps its order; the lanes are independent.
pub const LANES: usize = 2;

/// What a gateway wants of the world.
#[derive(Debug)]
pub enum Output {
    /// Send this op on the rail.
    Call(Call, Carrier, Request),
    /// Tell the broker, behind the op itself, that nobody waits for this one any more.
    Cancel(Call),
    /// Send this reply to the client.
    Answer(Connection, Response),
    /// Close the client's connection.
    Close(Connection),
}

/// One gateway.
#[derive(Debug, Default)]
pub struct Gateway {
    is_up: bool,
    link: Option<u64>,
    connections: BTreeMap<Connection, Pipeline>,
    /// Ops that are on the rail or at the broker.
    under_way: BTreeMap<Call, UnderWay>,
    /// Ops that nobody waits for any more, and whose answers may have left before the broker knew.
    cancelled: BTreeSet<Call>,
    next_number: u64,
    outputs: Vec<Output>,
}

/// Whose an op is, and since when it is under way.
#[derive(Debug)]
struct UnderWay {
    connection: Connection,
    since: u64,
}

/// What one connection has asked.
#[derive(Debug)]
struct Pipeline {
    carrier: Carrier,
    started: VecDeque<Slot>,
    waiting: VecDeque<Request>,
}

#[derive(Debug)]
struct Slot {
    number: u64,
    request: Request,
    response: Option<Response>,
}

impl Gateway {
    /// Whether its process runs.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// The rail that it takes for alive.
    pub fn link(&self) -> Option<u64> {
        self.link
    }

    /// Whether the connection is open here.
    pub fn knows(&self, connection: Connection) -> bool {
        self.connections.contains_key(&connection)
    }

    /// Whether somebody waits here for the answer to this op.
    pub fn awaits(&self, call: Call) -> bool {
        self.under_way.contains_key(&call)
    }

    /// The ops that are on the rail or at the broker, and since when.
    pub fn under_way(&self) -> impl Iterator<Item = (Call, u64)> {
        self.under_way.iter().map(|(call, it)| (*call, it.since))
    }

    /// What it wants done, in this order.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// The process starts. It knows nothing.
    pub fn start(&mut self) {
        self.is_up = true;
    }

    /// The process ends without a word. Says whose connections were open.
    pub fn kill(&mut self) -> Vec<Connection> {
        // Ops stay numbered apart, so that what is still on its way is never taken for something else.
        let before = std::mem::take(self);
        self.next_number = before.next_number;
        before.connections.into_keys().collect()
    }

    /// The rail stands.
    pub fn connect(&mut self, link: u64) {
        self.link = Some(link);
    }

    /// The rail is dead: whoever has an op on it loses its connection. Says how many ops were lost.
    pub fn disconnect(&mut self) -> usize {
        self.link = None;
        self.cancelled.clear();
        let lost = std::mem::take(&mut self.under_way);
        for UnderWay { connection, .. } in lost.values() {
            if self.connections.remove(connection).is_some() {
                self.outputs.push(Output::Close(*connection));
            }
        }
        lost.len()
    }

    /// A client's connection is open.
    pub fn accept(&mut self, connection: Connection, client_id: &str) {
        let carrier =
            Carrier { client_id: client_id.to_owned(), host: format!("/10.0.0.{}", connection % 250) };
        let pipeline = Pipeline { carrier, started: VecDeque::new(), waiting: VecDeque::new() };
        self.connections.insert(connection, pipeline);
    }

    /// A client's connection is closed: what it waits for is cancelled.
    pub fn close(&mut self, connection: Connection) {
        let Some(pipeline) = self.connections.remove(&connection) else { return };
        let Some(link) = self.link else { return };
        for slot in pipeline.started {
            let call = call(link, connection, slot.number);
            if self.under_way.remove(&call).is_some() {
                self.cancelled.insert(call);
                self.outputs.push(Output::Cancel(call));
            }
        }
    }

    /// A client's request has arrived. Says how many requests were refused for want of a rail.
    pub fn receive(&mut self, now: u64, connection: Connection, request: Request) -> u64 {
        if let Some(pipeline) = self.connections.get_mut(&connection) {
            pipeline.waiting.push_back(request);
        }
        self.start_waiting(now, connection)
    }

    /// A reply has come over the rail. Says how many requests behind it were refused for want of a rail.
    ///
    /// # Errors
    /// When nobody has asked for it.
    pub fn handle_reply(&mut self, now: u64, call: Call, response: Response) -> Result<u64, String> {
        if self.cancelled.remove(&call) {
            return Ok(0);
        }
        let Some(UnderWay { connection, .. }) = self.under_way.remove(&call) else {
            return Err(format!("a gateway gets {} in answer to nothing", response.summary()));
        };
        self.respond(connection, call.number, response)?;
        Ok(self.start_waiting(now, connection))
    }

    /// Starts what need not wait for an earlier request of its connection.
    fn start_waiting(&mut self, now: u64, connection: Connection) -> u64 {
        let mut refused = 0;
        while let Some(pipeline) = self.connections.get_mut(&connection)
            && let Some(next) = pipeline.waiting.front()
        {
            let overlaps = next.may_overlap() && pipeline.started.iter().all(|it| it.request.may_overlap());
            if !pipeline.started.is_empty() && !overlaps {
                break;
            }
            let request = pipeline.waiting.pop_front().expect("there is one");
            let number = self.next_number;
            self.next_number += 1;
            pipeline.started.push_back(Slot { number, request: request.clone(), response: None });
            if let Some(link) = self.link {
                let call = call(link, connection, number);
                let carrier = pipeline.carrier.clone();
                self.under_way.insert(call, UnderWay { connection, since: now });
                self.outputs.push(Output::Call(call, carrier, request));
            } else {
                refused += 1;
                let response = request.refusal(match request {
                    Request::FindCoordinator => ErrorCode::CoordinatorNotAvailable,
                    _ => ErrorCode::NotCoordinator,
                });
                self.respond(connection, number, response).expect("it was just started");
            }
        }
        refused
    }

    /// A reply leaves, or waits for those before it on its connection.
    fn respond(&mut self, connection: Connection, number: u64, response: Response) -> Result<(), String> {
        let slots = self.connections.get_mut(&connection).map(|pipeline| &mut pipeline.started);
        let slots = slots.ok_or_else(|| "a connection is gone, but not what it waits for".to_owned())?;
        let slot = slots
            .iter_mut()
            .find(|it| it.number == number && it.response.is_none())
            .ok_or_else(|| format!("a request is answered twice, now with {}", response.summary()))?;
        slot.response = Some(response);
        while let Some(slot) = slots.pop_front_if(|it| it.response.is_some()) {
            let response = slot.response.expect("it was just found");
            self.outputs.push(Output::Answer(connection, response));
        }
        Ok(())
    }
}

/// All ops of a connection share a lane: a heartbeat and a commit may be under way at once, and two commits must not
/// change places.
fn call(link: u64, connection: Connection, number: u64) -> Call {
    let lane = usize::try_from(connection).expect("there are few connections") % LANES;
    Call { link, lane, number }
}

#[cfg(test)]
mod tests {
    use coordination::{op, reply};

    use super::*;

    fn heartbeat() -> Request {
        let (group, member_id) = ("g".to_owned(), "m".to_owned());
        Request::Heartbeat(op::Heartbeat { group, generation: 1, member_id, instance_id: None })
    }

    fn fine() -> Response {
        Response::Heartbeat(reply::Heartbeat { error: None })
    }

    fn connected() -> Gateway {
        let mut gateway = Gateway::default();
        gateway.start();
        gateway.connect(1);
        gateway.accept(4, "client");
        gateway
    }

    fn calls(gateway: &mut Gateway) -> Vec<Call> {
        let outputs = gateway.take_outputs().into_iter();
        outputs
            .filter_map(|it| match it {
                Output::Call(call, ..) => Some(call),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn answers_leave_in_the_order_of_requests() {
        let mut gateway = connected();
        for _ in 0..2 {
            assert_eq!(gateway.receive(0, 4, heartbeat()), 0);
        }
        let calls = calls(&mut gateway);
        assert_eq!(calls.len(), 2);
        gateway.handle_reply(0, calls[1], fine()).expect("it was asked");
        assert!(gateway.take_outputs().is_empty());
        gateway.handle_reply(0, calls[0], fine()).expect("it was asked");
        assert_eq!(gateway.take_outputs().len(), 2);
        assert!(gateway.handle_reply(0, calls[0], fine()).is_err());
    }

    #[test]
    fn what_nobody_waits_for_is_cancelled_and_its_answer_ignored() {
        let mut gateway = connected();
        gateway.receive(0, 4, heartbeat());
        let call = calls(&mut gateway)[0];
        gateway.close(4);
        assert!(matches!(gateway.take_outputs()[..], [Output::Cancel(cancelled)] if cancelled == call));
        assert_eq!(gateway.handle_reply(0, call, fine()), Ok(0));
        assert!(gateway.take_outputs().is_empty());
    }

    #[test]
    fn a_dead_rail_costs_those_who_were_on_it_their_connection_and_the_others_are_refused() {
        let mut gateway = connected();
        gateway.accept(5, "other");
        gateway.receive(0, 4, heartbeat());
        gateway.take_outputs();
        assert_eq!(gateway.disconnect(), 1);
        assert!(matches!(gateway.take_outputs()[..], [Output::Close(4)]));
        assert_eq!(gateway.receive(0, 5, Request::FindCoordinator), 1);
        assert_eq!(gateway.receive(0, 5, heartbeat()), 1);
        let errors = gateway.take_outputs().into_iter().map(|output| match output {
            Output::Answer(5, response) => response.error(),
            other => panic!("{other:?}"),
        });
        let expected = [Some(ErrorCode::CoordinatorNotAvailable), Some(ErrorCode::NotCoordinator)];
        assert_eq!(errors.collect::<Vec<_>>(), expected);
    }
}
