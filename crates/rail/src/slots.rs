//! The replies that are owed on one lane.

use std::task::{Context, Poll, Waker};

use coordination::reply::Reply;

use crate::Lost;
use crate::format::Run;
use crate::limits::IN_FLIGHT;

/// A place for each op that was sent, or for several that were sent together. The place's number is what they are called
/// by on the lane, and it is given to another op only when the broker has said its last word on these.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    places: Vec<Slot>,
    free: Vec<u32>,
    /// How many ops have a place.
    ops: usize,
    is_closed: bool,
}

#[derive(Debug)]
struct Slot {
    state: State,
    /// For how many ops it is.
    ops: u32,
}

#[derive(Debug)]
enum State {
    Free,
    /// The reply has not come. Who waits for it is known once it was asked for.
    Waiting(Option<Waker>),
    /// The reply is there, and nobody has taken it yet.
    Done(Replies),
    /// Nobody waits, but the broker has not said its last word.
    Given,
    Lost,
}

/// What the broker has answered.
#[derive(Debug, PartialEq)]
pub(crate) enum Replies {
    /// One op.
    One(Reply),
    /// As many as were sent together.
    Together(Vec<Run>),
}

impl Replies {
    fn count(&self) -> u32 {
        match self {
            Self::One(_) => 1,
            Self::Together(runs) => runs.iter().map(|run| run.count).sum(),
        }
    }
}

/// The broker spoke of an op that it was not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reply to the request {0}, which was not asked")]
pub(crate) struct Unasked(pub(crate) u32);

impl Slots {
    /// A place for so many ops; none when the link is gone or too many are owed.
    pub(crate) fn take(&mut self, ops: u32) -> Option<u32> {
        let total = self.ops + usize::try_from(ops).unwrap_or(usize::MAX);
        if self.is_closed || total > IN_FLIGHT {
            return None;
        }
        let slot = Slot { state: State::Waiting(None), ops };
        let id = match self.free.pop() {
            Some(id) => {
                self.places[id as usize] = slot;
                id
            }
            None => {
                let id = u32::try_from(self.places.len()).ok()?;
                self.places.push(slot);
                id
            }
        };
        self.ops = total;
        Some(id)
    }

    /// Gives a place back whose op was never sent, or whose reply nobody wants.
    pub(crate) fn give_back(&mut self, id: u32) {
        self.vacate(id);
    }

    /// Makes a place free, and says what was there.
    fn vacate(&mut self, id: u32) -> State {
        let slot = &mut self.places[id as usize];
        self.ops -= usize::try_from(slot.ops).unwrap_or(usize::MAX);
        self.free.push(id);
        std::mem::replace(&mut slot.state, State::Free)
    }

    /// The broker's last word on an op: a reply, or that there will be none. Says who is to be woken.
    pub(crate) fn settle(&mut self, id: u32, replies: Option<Replies>) -> Result<Option<Waker>, Unasked> {
        let slot = self.places.get_mut(id as usize).ok_or(Unasked(id))?;
        match (&mut slot.state, replies) {
            (State::Waiting(waker), Some(replies)) if replies.count() == slot.ops => {
                let waker = waker.take();
                slot.state = State::Done(replies);
                Ok(waker)
            }
            (State::Given, _) => {
                self.vacate(id);
                Ok(None)
            }
            _ => Err(Unasked(id)),
        }
    }

    /// Asks for the reply. Once it is taken the place may be another op's.
    pub(crate) fn poll(&mut self, id: u32, context: &Context<'_>) -> Poll<Result<Replies, Lost>> {
        match &mut self.places[id as usize].state {
            State::Waiting(waker) => {
                match waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => *waker = Some(context.waker().clone()),
                }
                Poll::Pending
            }
            State::Done(_) | State::Lost => match self.vacate(id) {
                State::Done(replies) => Poll::Ready(Ok(replies)),
                _ => Poll::Ready(Err(Lost)),
            },
            State::Given | State::Free => Poll::Ready(Err(Lost)),
        }
    }

    /// Nobody waits for the reply any more. Says whether the broker still works on it.
    pub(crate) fn give_up(&mut self, id: u32) -> bool {
        let state = &mut self.places[id as usize].state;
        match state {
            State::Waiting(_) => {
                *state = State::Given;
                true
            }
            State::Done(_) | State::Lost => {
                self.give_back(id);
                false
            }
            State::Given | State::Free => false,
        }
    }

    /// There will be no reply. Says who is to be woken.
    pub(crate) fn lose(&mut self, id: u32) -> Option<Waker> {
        match std::mem::replace(&mut self.places[id as usize].state, State::Lost) {
            State::Waiting(waker) => waker,
            _ => None,
        }
    }

    /// The link is gone: whoever waits, waits for nothing. Says who is to be woken.
    pub(crate) fn lose_all(&mut self) -> Vec<Waker> {
        self.is_closed = true;
        let mut wakers = Vec::new();
        for slot in &mut self.places {
            if let State::Waiting(waker) = &mut slot.state {
                wakers.extend(waker.take());
                slot.state = State::Lost;
            }
        }
        wakers
    }
}

#[cfg(test)]
mod tests {
    use coordination::reply::Heartbeat;

    use super::*;

    fn reply() -> Replies {
        Replies::One(Reply::Heartbeat(Heartbeat { error: None }))
    }

    fn replies(count: u32) -> Replies {
        Replies::Together(vec![Run { reply: Reply::Heartbeat(Heartbeat { error: None }), count }])
    }

    #[test]
    fn a_place_is_given_to_another_op_only_after_the_brokers_last_word() {
        let mut slots = Slots::default();
        let id = slots.take(1).expect("room");
        assert!(slots.give_up(id), "the broker works on it");
        assert_ne!(slots.take(1), Some(id));
        slots.settle(id, None).expect("it was asked");
        assert_eq!(slots.take(1), Some(id));
        slots.settle(id, Some(reply())).expect("it was asked");
        assert!(slots.settle(id, Some(reply())).is_err(), "only once");
        assert!(slots.settle(77, None).is_err());
        let context = Context::from_waker(Waker::noop());
        assert_eq!(slots.poll(id, &context), Poll::Ready(Ok(reply())));
        assert!(slots.settle(id, Some(reply())).is_err(), "it is free");
    }

    #[test]
    fn a_reply_that_crosses_its_cancellation_frees_the_place() {
        let mut slots = Slots::default();
        let id = slots.take(1).expect("room");
        slots.give_up(id);
        slots.settle(id, Some(reply())).expect("it was asked");
        assert_eq!(slots.take(1), Some(id));
    }

    #[test]
    fn an_op_that_was_not_cancelled_is_not_told_that_it_is_gone() {
        let mut slots = Slots::default();
        let id = slots.take(1).expect("room");
        assert!(slots.settle(id, None).is_err());
    }

    #[test]
    fn when_the_link_is_gone_all_is_lost_but_what_has_come() {
        let mut slots = Slots::default();
        let context = Context::from_waker(Waker::noop());
        let [there, owed] = [slots.take(1).expect("room"), slots.take(1).expect("room")];
        slots.settle(there, Some(reply())).expect("it was asked");
        assert_eq!(slots.poll(owed, &context), Poll::Pending);
        assert_eq!(slots.lose_all().len(), 1);
        assert_eq!(slots.poll(owed, &context), Poll::Ready(Err(Lost)));
        assert_eq!(slots.poll(there, &context), Poll::Ready(Ok(reply())));
        assert_eq!(slots.take(1), None);
    }

    #[test]
    fn the_number_of_unanswered_ops_is_bounded() {
        let mut slots = Slots::default();
        let taken = std::iter::from_fn(|| slots.take(1)).take(IN_FLIGHT + 1).count();
        assert_eq!(taken, IN_FLIGHT);
    }

    #[test]
    fn ops_that_were_sent_together_count_one_by_one() {
        let most = u32::try_from(IN_FLIGHT).expect("few");
        let mut slots = Slots::default();
        let many = slots.take(most - 1).expect("room");
        let last = slots.take(1).expect("room");
        assert_eq!(slots.take(1), None);
        slots.settle(last, Some(reply())).expect("it was asked");
        assert_eq!(slots.take(1), None, "nobody has taken the reply");
        slots.give_up(last);
        assert_eq!(slots.take(1), Some(last));
        assert!(slots.give_up(many));
        slots.settle(many, None).expect("it was asked");
        let many = slots.take(most - 1).expect("room");
        slots.lose(many);
        let context = Context::from_waker(Waker::noop());
        assert_eq!(slots.poll(many, &context), Poll::Ready(Err(Lost)));
        assert!(slots.take(most - 1).is_some(), "what could not be sent gives its place back");
    }

    #[test]
    fn as_many_replies_come_as_ops_were_sent() {
        let mut slots = Slots::default();
        let id = slots.take(3).expect("room");
        for wrong in [reply(), replies(2), replies(4)] {
            assert!(slots.settle(id, Some(wrong)).is_err());
        }
        slots.settle(id, Some(replies(3))).expect("it was asked");
        let context = Context::from_waker(Waker::noop());
        assert_eq!(slots.poll(id, &context), Poll::Ready(Ok(replies(3))));
    }
}
