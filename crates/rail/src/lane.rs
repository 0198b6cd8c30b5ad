//! One stream of a link, as the gateway uses it.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::future;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use coordination::op::Op;
use iroh::endpoint::{ReadError, RecvStream, SendStream, WriteError};
use parking_lot::Mutex;

use crate::Lost;
use crate::carrier::{Carrier, TraceContext};
use crate::fast_map::FastMap;
use crate::format::{
    self, Announced, FormatError, FromBroker, Head, Inlet, KeptRecords, LaneClass, Memory, Order, Outbox,
    Version,
};
use crate::limits::{CARRIERS, QUEUED_HEAVY, QUEUED_LIGHT};
use crate::slots::{Replies, Slots, Unasked};

/// One stream of a link: ops go out in the order in which they were handed over, and replies come back in any.
#[derive(Debug)]
pub(crate) struct Lane {
    version: Version,
    bound: usize,
    /// How many bytes are kept of the records that come.
    keeps: usize,
    outgoing: Mutex<Outgoing>,
    slots: Mutex<Slots>,
}

/// What goes out.
#[derive(Debug)]
struct Outgoing {
    outbox: Outbox,
    /// The clients that were announced, by their number.
    announced: FastMap<u64, Place>,
    free_places: Vec<u32>,
    /// Ops that wait for room, in order. What they hold is bounded by whoever handed them over.
    held_back: VecDeque<HeldBack>,
    /// The writer, when it has nothing to do.
    sleeping: Option<Waker>,
    is_closed: bool,
    /// Kept, so that a commit needs no memory of its own.
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Place {
    index: u32,
    revision: u32,
    /// What the broker remembers, too.
    memory: Memory,
}

#[derive(Debug)]
struct HeldBack {
    id: u32,
    carrier: Carrier,
    asked: Asked,
    has_place: bool,
}

/// What is asked in one message.
#[derive(Debug)]
pub(crate) enum Asked {
    One(Op),
    /// Heartbeats and commits, in version 5 and later.
    Together(Vec<Op>),
}

impl Asked {
    fn count(&self) -> u32 {
        match self {
            Self::One(_) => 1,
            Self::Together(ops) => u32::try_from(ops.len()).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn into_ops(self) -> Vec<Op> {
        match self {
            Self::One(op) => vec![op],
            Self::Together(ops) => ops,
        }
    }
}

/// Why an op was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// The link is gone or full: nothing has happened.
    Refused,
    /// The op has no form that can be sent.
    Impossible,
}

/// Why a lane ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaneError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Unasked(#[from] Unasked),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("the other end closed a lane")]
    Ended,
    #[error("a message that does not belong on a lane")]
    Misplaced,
}

/// How many pieces are taken from the connection at once.
pub(crate) const PIECES: usize = 32;

/// How many replies are settled under one lock.
const SETTLED: usize = 128;

impl Lane {
    /// A lane that `keeps` this many bytes of the records that come over it, which are none but for fetches.
    pub(crate) fn new(class: LaneClass, version: Version, keeps: usize) -> Self {
        let mut outbox = Outbox::new(Order::Kept);
        let written = outbox.push(|out, _| {
            format::lane(version, class, keeps as u64, out);
            Ok(())
        });
        debug_assert!(written.is_ok(), "a few bytes always fit");
        Self {
            version,
            bound: bound(class),
            keeps,
            outgoing: Mutex::new(Outgoing {
                outbox,
                announced: FastMap::default(),
                free_places: Vec::new(),
                held_back: VecDeque::new(),
                sleeping: None,
                is_closed: false,
                scratch: Vec::new(),
            }),
            slots: Mutex::default(),
        }
    }

    /// Hands over what is `asked`, which is as it was if that fails. `has_place` says of a client whether it had a place over
    /// an earlier link.
    pub(crate) fn send(
        &self,
        carrier: &Carrier,
        asked: &mut Asked,
        has_place: impl FnOnce() -> bool,
    ) -> Result<u32, Unsent> {
        let Some(id) = self.slots.lock().take(asked.count()) else { return Err(Unsent::Refused) };
        let mut outgoing = self.outgoing.lock();
        if outgoing.is_closed {
            return Err(Unsent::Refused);
        }
        if !outgoing.held_back.is_empty() || outgoing.outbox.queued() >= self.bound {
            // The writer is at work and comes back to them.
            let asked = std::mem::replace(asked, Asked::Together(Vec::new()));
            let held_back = HeldBack { id, carrier: carrier.clone(), asked, has_place: has_place() };
            outgoing.held_back.push_back(held_back);
            return Ok(id);
        }
        let pushed = outgoing.push(self.version, id, carrier, asked, has_place);
        let sleeping = outgoing.sleeping.take();
        drop(outgoing);
        if let Some(sleeping) = sleeping {
            sleeping.wake();
        }
        match pushed {
            Ok(()) => Ok(id),
            Err(_) => {
                self.slots.lock().give_back(id);
                Err(Unsent::Impossible)
            }
        }
    }

    /// Tells the broker of a client that had a place over an earlier link, before it asks for anything. Only for a lane that
    /// nobody else knows yet: whoever calls this holds the places, which [`Self::send`] asks for behind its own lock.
    pub(crate) fn announce(&self, carrier: &Carrier) {
        let mut outgoing = self.outgoing.lock();
        // One client too many is told so when it asks for something.
        let Outgoing { outbox, announced, free_places, .. } = &mut *outgoing;
        let _ = place_of(announced, free_places, outbox, carrier, || true);
        if let Some(sleeping) = outgoing.sleeping.take() {
            sleeping.wake();
        }
    }

    /// Asks for a reply.
    pub(crate) fn poll(&self, id: u32, context: &Context<'_>) -> Poll<Result<Replies, Lost>> {
        self.slots.lock().poll(id, context)
    }

    /// Nobody waits for the reply any more.
    pub(crate) fn give_up(&self, id: u32) {
        // Both locks, in this order: else the id could be another op's by the time that the word goes out.
        let mut outgoing = self.outgoing.lock();
        let mut slots = self.slots.lock();
        if !slots.give_up(id) || outgoing.is_closed {
            return;
        }
        if let Some(place) = outgoing.held_back.iter().position(|held| held.id == id) {
            outgoing.held_back.remove(place);
            slots.give_back(id);
            return;
        }
        drop(slots);
        outgoing.say(|out| format::cancel(id, out));
    }

    /// The client has gone.
    pub(crate) fn leave(&self, number: u64) {
        let mut outgoing = self.outgoing.lock();
        if let Some(Place { index, .. }) = outgoing.announced.remove(&number) {
            outgoing.free_places.push(index);
            outgoing.say(|out| format::leave(index, out));
        }
    }

    /// The link is gone. Says who is to be woken.
    pub(crate) fn close(&self) -> Vec<Waker> {
        let mut outgoing = self.outgoing.lock();
        outgoing.is_closed = true;
        outgoing.outbox = Outbox::new(Order::Kept);
        let held_back = std::mem::take(&mut outgoing.held_back);
        outgoing.announced = FastMap::default();
        drop(outgoing);
        drop(held_back);
        self.slots.lock().lose_all()
    }

    /// Writes what is handed over, all that there is at once, until the link is gone.
    pub(crate) async fn write(&self, mut stream: SendStream) -> Result<(), LaneError> {
        let mut in_hand = Vec::new();
        loop {
            future::poll_fn(|context| self.poll_take(context, &mut in_hand)).await;
            stream.write_all_chunks(&mut in_hand).await?;
            in_hand.clear();
        }
    }

    fn poll_take(&self, context: &Context<'_>, into: &mut Vec<Bytes>) -> Poll<()> {
        let mut outgoing = self.outgoing.lock();
        outgoing.outbox.take(into);
        while outgoing.outbox.queued() < self.bound {
            let Some(HeldBack { id, carrier, mut asked, has_place }) = outgoing.held_back.pop_front() else {
                break;
            };
            if outgoing.push(self.version, id, &carrier, &mut asked, || has_place).is_err()
                && let Some(waker) = self.slots.lock().lose(id)
            {
                waker.wake();
            }
        }
        if into.is_empty() {
            outgoing.outbox.take(into);
        }
        if into.is_empty() {
            outgoing.sleeping = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Reads replies until the link is gone.
    pub(crate) async fn read(&self, mut stream: RecvStream) -> Result<(), LaneError> {
        let mut inlet = Inlet::default();
        let mut kept = KeptRecords::new(self.keeps);
        let mut pieces = [const { Bytes::new() }; PIECES];
        let mut settled = Vec::with_capacity(SETTLED);
        let mut wakers = Vec::new();
        loop {
            let count = stream.read_many_chunks(&mut pieces).await?.ok_or(LaneError::Ended)?;
            for piece in &mut pieces[..count] {
                inlet.feed(std::mem::take(piece));
            }
            while let Some(message) = inlet.next_message()? {
                settled.push(match format::decode_from_broker(self.version, &message, &mut kept)? {
                    FromBroker::Reply(id, reply) => (id, Some(Replies::One(reply))),
                    FromBroker::Together(id, runs) => (id, Some(Replies::Together(runs))),
                    FromBroker::Gone(id) => (id, None),
                    FromBroker::Welcome(_) | FromBroker::Roster(_) => return Err(LaneError::Misplaced),
                });
                if settled.len() == SETTLED {
                    self.settle(&mut settled, &mut wakers)?;
                }
            }
            self.settle(&mut settled, &mut wakers)?;
        }
    }

    fn settle(
        &self,
        settled: &mut Vec<(u32, Option<Replies>)>,
        wakers: &mut Vec<Waker>,
    ) -> Result<(), Unasked> {
        let mut slots = self.slots.lock();
        for (id, replies) in settled.drain(..) {
            wakers.extend(slots.settle(id, replies)?);
        }
        drop(slots);
        for waker in wakers.drain(..) {
            waker.wake();
        }
        Ok(())
    }
}

impl Outgoing {
    fn push(
        &mut self,
        version: Version,
        id: u32,
        carrier: &Carrier,
        asked: &mut Asked,
        has_place: impl FnOnce() -> bool,
    ) -> Result<(), FormatError> {
        let Self { outbox, announced, free_places, scratch, .. } = self;
        let (index, memory) = place_of(announced, free_places, outbox, carrier, has_place)?;
        let head = Head { id, carrier: index, trace: carrier.trace };
        let pushed = outbox.push(|out, records| match asked {
            Asked::One(op) if version >= Version::Three && is_said_again(op, memory, head.trace) => {
                format::again(id, index, out);
                Ok(())
            }
            Asked::One(op) => format::request(head, op, out, records),
            Asked::Together(ops) => format::together(id, index, ops, memory, scratch, out),
        });
        if pushed.is_err() {
            // The broker has not heard what is remembered. Who remembers nothing says all of it.
            *memory = Memory::default();
        }
        pushed
    }

    /// Queues a word that always fits, and wakes the writer.
    fn say(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_closed {
            return;
        }
        let pushed = self.outbox.push(|out, _| {
            write(out);
            Ok(())
        });
        debug_assert!(pushed.is_ok(), "a few bytes always fit");
        if let Some(sleeping) = self.sleeping.take() {
            sleeping.wake();
        }
    }
}

/// Whether an op is the client's last heartbeat. It is from now on, if it is a heartbeat.
fn is_said_again(op: &Op, memory: &mut Memory, trace: Option<TraceContext>) -> bool {
    // A span is told with the op that it belongs to.
    matches!(op, Op::Heartbeat(heartbeat) if memory.is_said_again(heartbeat)) && trace.is_none()
}

/// What the client is called by on this lane, and what is remembered of it. It is announced if it was not, or is no longer
/// what it was.
fn place_of<'a>(
    announced: &'a mut FastMap<u64, Place>,
    free_places: &mut Vec<u32>,
    outbox: &mut Outbox,
    carrier: &Carrier,
    has_place: impl FnOnce() -> bool,
) -> Result<(u32, &'a mut Memory), FormatError> {
    let known = announced.len();
    let revision = carrier.revision();
    let place = match announced.entry(carrier.number()) {
        Entry::Occupied(place) => {
            let place = place.into_mut();
            if place.revision == revision {
                return Ok((place.index, &mut place.memory));
            }
            *place = Place { index: place.index, revision, memory: Memory::default() };
            place
        }
        Entry::Vacant(_) if known >= CARRIERS => {
            return Err(FormatError::Bound("the number of clients", known as u64));
        }
        Entry::Vacant(vacant) => {
            let index = free_places.pop().unwrap_or_else(|| u32::try_from(known).unwrap_or(u32::MAX));
            vacant.insert(Place { index, revision, memory: Memory::default() })
        }
    };
    let announced = Announced::of(carrier, has_place());
    outbox.push(|out, _| format::announce(place.index, &announced, out))?;
    Ok((place.index, &mut place.memory))
}

/// How much may be queued for a lane of this class.
pub(crate) const fn bound(class: LaneClass) -> usize {
    match class {
        LaneClass::Light => QUEUED_LIGHT,
        LaneClass::Produce | LaneClass::Fetch | LaneClass::Bulk => QUEUED_HEAVY,
    }
}
