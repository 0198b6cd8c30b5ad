//! One stream of a link, as the broker serves it.

use std::future::{self, Future};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use coordination::op::Op;
use iroh::endpoint::{RecvStream, SendStream};

use crate::carrier::Carrier;
use crate::format::{
    self, FromGateway, Head, Inlet, LaneClass, Memory, Order, Outbox, Said, SentRecords, Version,
};
use crate::lane::{LaneError, PIECES, bound};
use crate::limits::{CARRIER_BYTES, IN_FLIGHT};
use crate::parked::{Answers, Awaited, Parked};
use crate::served_link::ServedLink;
use crate::slots::Replies;
use crate::{Answer, Lost};

/// One stream: ops are called in the order in which they arrive, and replies leave as they are there.
///
/// While the gateway does not take what is queued for it, nothing more is read and no answer is asked for, so a slow
/// gateway holds what is queued and one answer more.
pub(crate) struct ServedLane {
    link: Arc<ServedLink>,
    receive: RecvStream,
    send: SendStream,
    inlet: Inlet,
    outbox: Outbox,
    /// What the gateway keeps of the records that were queued.
    sent: SentRecords,
    /// What is being written.
    in_hand: Vec<Bytes>,
    /// How much of it is written, by pieces.
    written: usize,
    carriers: Vec<Option<Announced>>,
    carrier_bytes: usize,
    parked: Parked,
    bound: usize,
}

/// A client that was announced on this lane.
struct Announced {
    carrier: Carrier,
    /// Its number in the gateway's process.
    number: u64,
    bytes: usize,
    /// What it may say again in a few bytes.
    memory: Memory,
}

/// How often a lane goes round before others get their turn.
const ROUNDS: usize = 16;

impl ServedLane {
    pub(crate) fn new(link: Arc<ServedLink>, send: SendStream, receive: RecvStream) -> Self {
        Self {
            link,
            receive,
            send,
            inlet: Inlet::default(),
            outbox: Outbox::new(Order::Free),
            sent: SentRecords::default(),
            in_hand: Vec::new(),
            written: 0,
            carriers: Vec::new(),
            carrier_bytes: 0,
            parked: Parked::default(),
            bound: bound(LaneClass::Light),
        }
    }

    /// Serves the stream until it ends.
    pub(crate) async fn run(mut self) -> LaneError {
        future::poll_fn(|context| match self.poll(context) {
            Poll::Ready(Err(error)) => Poll::Ready(error),
            Poll::Ready(Ok(never)) => match never {},
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<std::convert::Infallible, LaneError>> {
        for _ in 0..ROUNDS {
            while self.has_room()
                && let Some((id, reply)) = self.parked.next()
            {
                self.answer(id, reply)?;
            }
            while self.has_room()
                && let Some(message) = self.inlet.next_message()?
            {
                self.handle(&message)?;
            }
            let is_blocked = self.poll_write(context)?.is_pending();
            if !self.has_room() {
                if is_blocked {
                    return Poll::Pending;
                }
                continue;
            }
            let has_read = match pin!(read(&mut self.receive, &mut self.inlet)).poll(context) {
                Poll::Ready(read) => read.map(|()| true)?,
                Poll::Pending => false,
            };
            if !has_read && self.parked.poll_woken(context).is_pending() {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn has_room(&self) -> bool {
        self.outbox.queued() < self.bound
    }

    /// Writes until nothing is left or the gateway takes no more.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        loop {
            if self.written == self.in_hand.len() {
                self.in_hand.clear();
                self.written = 0;
                self.outbox.take(&mut self.in_hand);
                if self.in_hand.is_empty() {
                    return Poll::Ready(Ok(()));
                }
            }
            let mut rest = &mut self.in_hand[self.written..];
            let before = rest.len();
            let polled = pin!(self.send.write_many_chunks(&mut rest)).poll(context);
            self.written += before - rest.len();
            match polled {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn handle(&mut self, message: &Bytes) -> Result<(), LaneError> {
        match format::decode_from_gateway(self.link.version, message)? {
            FromGateway::Request(head, op) => {
                if let Op::Heartbeat(heartbeat) = &op
                    && self.link.version >= Version::Three
                {
                    client(&mut self.carriers, head.carrier)?.memory.hear(heartbeat);
                }
                self.call(head, op)
            }
            FromGateway::Again(id, place) => {
                let heartbeat = client(&mut self.carriers, place)?
                    .memory
                    .heartbeat
                    .clone()
                    .ok_or(LaneError::Misplaced)?;
                self.call(Head { id, carrier: place, trace: None }, Op::Heartbeat(heartbeat))
            }
            FromGateway::Together(id, place, said) => self.call_together(id, place, said),
            FromGateway::Announce(place, announced) => self.announce(place, announced, message.len()),
            FromGateway::Leave(place) => {
                let gone = self.carriers.get_mut(place as usize).and_then(Option::take);
                let Announced { carrier, number, bytes, .. } = gone.ok_or(LaneError::Misplaced)?;
                self.carrier_bytes -= bytes;
                self.link.leave(number, &carrier);
                Ok(())
            }
            FromGateway::Cancel(id) => {
                // A reply that crosses the word is the last one said.
                if self.parked.cancel(id) {
                    self.outbox.push(|out, _| {
                        format::gone(id, out);
                        Ok(())
                    })?;
                }
                Ok(())
            }
            FromGateway::Lane(class) => {
                self.open(class);
                Ok(())
            }
            FromGateway::KeepingLane(offered) => {
                // What was said before would be named to a gateway that has begun anew.
                if self.sent.is_on() {
                    return Err(LaneError::Misplaced);
                }
                self.sent = SentRecords::new(offered);
                // A small reply that overtook the parts of a large one could name records that are among them and not
                // all there. So a fetch waits for the one before it; heartbeats have lanes of their own.
                self.outbox.keep_order();
                self.open(LaneClass::Fetch);
                Ok(())
            }
            FromGateway::Hello(_) => Err(LaneError::Misplaced),
        }
    }

    fn open(&mut self, class: LaneClass) {
        self.bound = bound(class);
        // A stream that is gone already is noticed when it is used.
        let _ = self.send.set_priority(class.priority());
    }

    fn call(&mut self, head: Head, op: Op) -> Result<(), LaneError> {
        self.admit(head.id, 1)?;
        let Announced { carrier, number, .. } = client(&mut self.carriers, head.carrier)?;
        if matches!(op, Op::Enter) {
            self.link.entered(*number);
        }
        carrier.trace = head.trace;
        let answer = match op {
            Op::Fetch(fetch) if self.sent.is_on() => self.link.rail.fetch(carrier, fetch, &self.sent),
            op => self.link.rail.call(carrier, op),
        };
        match answer {
            Answer::Now(reply) => self.answer(head.id, Ok(Replies::One(reply))),
            later => self.park(head.id, 1, Awaited::One(later)),
        }
    }

    /// Heartbeats and commits that a client has sent together. A heartbeat that it says several times in one breath is
    /// heard once, and answered as often.
    fn call_together(&mut self, id: u32, place: u32, said: Vec<Said>) -> Result<(), LaneError> {
        let ops = said.iter().map(Said::count).sum::<u32>() as usize;
        self.admit(id, ops)?;
        let Announced { carrier, memory, .. } = client(&mut self.carriers, place)?;
        carrier.trace = None;
        let mut answers = Answers::default();
        for said in said {
            let (op, count) = match said {
                Said::Heartbeat(heartbeat) => {
                    memory.hear(&heartbeat);
                    (Op::Heartbeat(heartbeat), 1)
                }
                Said::HeartbeatAgain(count) => {
                    (Op::Heartbeat(memory.heartbeat.clone().ok_or(LaneError::Misplaced)?), count)
                }
                Said::Commit(body) => (Op::OffsetCommit(memory.commit(&body)?), 1),
                Said::CommitLike { front, back, middle } => {
                    (Op::OffsetCommit(memory.commit_like(front, back, &middle)?), 1)
                }
            };
            answers.add(self.link.rail.call(carrier, op), count);
        }
        self.park(id, ops, Awaited::Together(answers))
    }

    /// Whether a gateway may ask so much more, by this name.
    fn admit(&self, id: u32, ops: usize) -> Result<(), LaneError> {
        let has_room = self.parked.ops() + ops <= IN_FLIGHT;
        if has_room && !self.parked.contains(id) { Ok(()) } else { Err(LaneError::Misplaced) }
    }

    /// Answers when all is there.
    fn park(&mut self, id: u32, ops: usize, awaited: Awaited) -> Result<(), LaneError> {
        match self.parked.park(id, ops, awaited) {
            Poll::Ready(replies) => self.answer(id, replies),
            Poll::Pending => Ok(()),
        }
    }

    fn answer(&mut self, id: u32, replies: Result<Replies, Lost>) -> Result<(), LaneError> {
        // A broker that has lost its own way to the answer says so by ending the link.
        let mut replies = replies.map_err(|Lost| LaneError::Ended)?;
        let (version, sent) = (self.link.version, &mut self.sent);
        Ok(self.outbox.push(|out, records| match &mut replies {
            Replies::One(reply) => format::reply(version, id, reply, sent, out, records),
            Replies::Together(runs) => format::replies(id, runs, out),
        })?)
    }

    fn announce(&mut self, place: u32, announced: format::Announced, bytes: usize) -> Result<(), LaneError> {
        let place = place as usize;
        // Places are given out from the first on, so that none has to be kept for what was not said.
        if place > self.carriers.len() {
            return Err(LaneError::Misplaced);
        }
        if place == self.carriers.len() {
            self.carriers.push(None);
        }
        let before = self.carriers[place].as_ref();
        self.carrier_bytes = self.carrier_bytes - before.map_or(0, |before| before.bytes) + bytes;
        if self.carrier_bytes > CARRIER_BYTES {
            return Err(LaneError::Misplaced);
        }
        let number = announced.number;
        let is_known = match before {
            Some(before) if before.number == number => true,
            // A place is given to another client only when the one before has left it.
            Some(_) => return Err(LaneError::Misplaced),
            None => false,
        };
        let carrier = self.link.announced(announced, is_known);
        self.carriers[place] = Some(Announced { carrier, number, bytes, memory: Memory::default() });
        Ok(())
    }
}

/// The client with this place.
fn client(carriers: &mut [Option<Announced>], place: u32) -> Result<&mut Announced, LaneError> {
    carriers.get_mut(place as usize).and_then(Option::as_mut).ok_or(LaneError::Misplaced)
}

/// Reads what there is.
async fn read(stream: &mut RecvStream, inlet: &mut Inlet) -> Result<(), LaneError> {
    let mut pieces = [const { Bytes::new() }; PIECES];
    let count = stream.read_many_chunks(&mut pieces).await?.ok_or(LaneError::Ended)?;
    for piece in &mut pieces[..count] {
        inlet.feed(std::mem::take(piece));
    }
    Ok(())
}
