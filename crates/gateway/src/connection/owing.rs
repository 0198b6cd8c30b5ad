//! Answers that are owed: asked one by one or together, told in the order of their requests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use coordination::error_code::ErrorCode;
use coordination::op::Op;
use coordination::reply::Reply;
use rail::{Answer, Lost, OwedTogether, Run, TOGETHER_MAX};
use tokio::time::Instant;
use wire::Head;

use super::{Connection, Intake};
use crate::limits;
use crate::metrics::{ApiSlot, Traffic};
use crate::outcome::first_error;

/// An answer that a client waits for.
pub(super) struct Owed {
    pub(super) head: Head,
    pub(super) answer: Awaited,
    pub(super) started: Instant,
    /// What its frame holds in memory.
    pub(super) bytes: usize,
}

/// Where an answer comes from.
pub(super) enum Awaited {
    /// It comes by itself.
    One(Answer),
    /// It comes with those of the ops behind it that were handed over together with it.
    Together(OwedTogether),
    /// Its op was, or will be, handed over together with one before it.
    Behind,
}

enum Replies {
    One(Reply),
    Together(Vec<Run>),
}

/// Answers of one kind that came together.
struct Answered {
    slot: ApiSlot,
    error: Option<ErrorCode>,
    /// When their requests had been read.
    started: Instant,
    now: Instant,
    count: u64,
}

impl Answered {
    fn count(self, traffic: &Traffic) {
        traffic.count(self.slot, self.error, self.now - self.started, self.count);
    }
}

/// What has been told since answers were last asked for.
#[derive(Default)]
struct Told {
    /// Answers that come together were mostly asked for together, and are counted so.
    answered: Option<Answered>,
    /// How many bytes their requests held.
    released: usize,
}

impl Told {
    fn count(&mut self, owed: &Owed, error: Option<ErrorCode>, traffic: &Traffic) {
        self.released += owed.bytes;
        let (slot, started) = (ApiSlot::of(owed.head.api), owed.started);
        let now = self.answered.as_ref().map_or_else(Instant::now, |answered| answered.now);
        match &mut self.answered {
            Some(same) if (same.slot, same.error, same.started) == (slot, error, started) => {
                same.count += 1;
            }
            other => {
                if let Some(before) = other.replace(Answered { slot, error, started, now, count: 1 }) {
                    before.count(traffic);
                }
            }
        }
    }
}

impl Connection {
    /// Moves replies that are there from `owed` to the output, in order.
    pub(super) fn poll_answers(&mut self) {
        let mut told = Told::default();
        while let Some(front) = self.owed.front_mut() {
            // Only the front is asked: what is behind it could not leave anyway.
            let context = &mut Context::from_waker(&self.answer_waker);
            let polled = match &mut front.answer {
                Awaited::One(answer) => answer.poll(context).map_ok(Replies::One),
                Awaited::Together(runs) => Pin::new(runs).poll(context).map_ok(Replies::Together),
                Awaited::Behind => Poll::Pending,
            };
            match polled {
                Poll::Ready(Ok(Replies::One(reply))) => self.tell(reply, &mut told),
                Poll::Ready(Ok(Replies::Together(runs))) => self.tell_all(runs, &mut told),
                Poll::Ready(Err(lost)) => {
                    self.lose(lost);
                    told.released = 0;
                    break;
                }
                Poll::Pending => break,
            }
        }
        if let Some(last) = told.answered {
            self.active_at = last.now;
            last.count(&self.traffic);
        }
        if told.released > 0 {
            self.owed_bytes.release(told.released);
        }
    }

    /// Sends the reply to the request at the front.
    fn tell(&mut self, reply: Reply, told: &mut Told) {
        let Some(owed) = self.owed.pop_front() else { return };
        let error = first_error(&reply);
        told.count(&owed, error, &self.traffic);
        self.send(&owed.head, reply, error.is_some());
    }

    /// Sends replies to as many requests at the front.
    fn tell_all(&mut self, runs: Vec<Run>, told: &mut Told) {
        for Run { reply, count } in runs {
            let error = first_error(&reply);
            // Of which API and version the last answer was, if it can be sent again with another number.
            let mut last = None;
            for _ in 1..count {
                let Some(owed) = self.owed.pop_front() else { return };
                told.count(&owed, error, &self.traffic);
                let kind = (owed.head.api, owed.head.version);
                if last == Some(kind) {
                    self.output.push_again(|encoded| wire::address_reply(encoded, &owed.head));
                    continue;
                }
                let before = self.output.len();
                self.send(&owed.head, reply.clone(), error.is_some());
                last = self.output.note_last(self.output.len() - before).then_some(kind);
            }
            self.tell(reply, told);
        }
    }

    /// Keeps an op back until all that the client has sent is read.
    pub(super) fn gather(&mut self, head: Head, op: Op, bytes: usize) {
        const {
            assert!(limits::OVERLAPPING <= TOGETHER_MAX, "no more are owed than may travel together");
        }
        if self.gathered.is_empty() {
            // Likely as many as there are frames of this size.
            self.gathered.reserve((1 + self.input.len() / bytes.max(1)).min(limits::GATHERED_RESERVE));
        }
        self.gathered.push(op);
        self.owed.push_back(Owed { head, answer: Awaited::Behind, started: self.read_at, bytes });
        self.owed_bytes.add(bytes);
    }

    /// Hands over what was kept back. If the link breaks in this moment, the connection is closed afterwards.
    pub(super) fn hand_over_gathered(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let first = self.owed.len() - self.gathered.len();
        let rail = &*self.shared.rail;
        match (&self.gathered[..], self.owed.back_mut()) {
            // A heartbeat that comes alone needs no list, and leaves the memory for the next one.
            ([Op::Heartbeat(heartbeat)], Some(owed)) => {
                let op = Op::Heartbeat(Arc::clone(heartbeat));
                owed.answer = Awaited::One(rail.call(&self.carrier, op));
                self.gathered.clear();
            }
            _ => match rail.call_together(&self.carrier, std::mem::take(&mut self.gathered)) {
                Ok(replies) => self.owed[first].answer = Awaited::Together(replies),
                Err(ops) => {
                    for (owed, op) in self.owed.range_mut(first..).zip(ops) {
                        owed.answer = Awaited::One(rail.call(&self.carrier, op));
                    }
                }
            },
        }
        if first == 0 {
            // Nobody has asked for it yet, so nobody would be woken.
            self.poll_answers();
        }
    }

    /// Ends the connection: what became of its request is not known, and only an end without an answer says so.
    pub(super) fn lose(&mut self, lost: Lost) {
        self.owed.clear();
        self.gathered.clear();
        self.owed_bytes.release(self.owed_bytes.bytes);
        self.intake = Intake::Closed(lost.into());
    }
}
