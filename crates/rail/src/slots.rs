//! The replies that are owed on one lane.

use std::task::{Context, Poll, Waker};

use coordination::reply::Reply;

use crate::Lost;
use crate::limits::IN_FLIGHT;

/// A place for each op that was sent. The place's number is what the op is called by on the lane, and it is given to
/// another op only when the broker has said its last word on this one.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    places: Vec<Slot>,
    free: Vec<u32>,
    is_closed: bool,
}

#[derive(Debug)]
enum Slot {
    Free,
    /// The reply has not come. Who waits for it is known once it was asked for.
    Waiting(Option<Waker>),
    /// The reply is there, and nobody has taken it yet.
    Done(Reply),
    /// Nobody waits, but the broker has not said its last word.
    Given,
    Lost,
}

/// The broker spoke of an op that it was not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reply to the request {0}, which was not asked")]
pub(crate) struct Unasked(pub(crate) u32);

impl Slots {
    /// A place for an op; none when the link is gone or too many are owed.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.is_closed {
            return None;
        }
        if let Some(id) = self.free.pop() {
            self.places[id as usize] = Slot::Waiting(None);
            return Some(id);
        }
        let id = u32::try_from(self.places.len()).ok().filter(|_| self.places.len() < IN_FLIGHT)?;
        self.places.push(Slot::Waiting(None));
        Some(id)
    }

    /// Gives a place back whose op was never sent.
    pub(crate) fn give_back(&mut self, id: u32) {
        self.places[id as usize] = Slot::Free;
        self.free.push(id);
    }

    /// The broker's last word on an op: a reply, or that there will be none. Says who is to be woken.
    pub(crate) fn settle(&mut self, id: u32, reply: Option<Reply>) -> Result<Option<Waker>, Unasked> {
        let slot = self.places.get_mut(id as usize).ok_or(Unasked(id))?;
        match (std::mem::replace(slot, Slot::Free), reply) {
            (Slot::Waiting(waker), Some(reply)) => {
                *slot = Slot::Done(reply);
                Ok(waker)
            }
            (Slot::Given, _) => {
                self.free.push(id);
                Ok(None)
            }
            (before, _) => {
                *slot = before;
                Err(Unasked(id))
            }
        }
    }

    /// Asks for the reply. Once it is taken the place may be another op's.
    pub(crate) fn poll(&mut self, id: u32, context: &Context<'_>) -> Poll<Result<Reply, Lost>> {
        let slot = &mut self.places[id as usize];
        match slot {
            Slot::Waiting(waker) => {
                match waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => *waker = Some(context.waker().clone()),
                }
                Poll::Pending
            }
            Slot::Done(_) => {
                let Slot::Done(reply) = std::mem::replace(slot, Slot::Free) else {
                    return Poll::Ready(Err(Lost));
                };
                self.free.push(id);
                Poll::Ready(Ok(reply))
            }
            Slot::Lost | Slot::Given | Slot::Free => Poll::Ready(Err(Lost)),
        }
    }

    /// Nobody waits for the reply any more. Says whether the broker still works on it.
    pub(crate) fn give_up(&mut self, id: u32) -> bool {
        let slot = &mut self.places[id as usize];
        match slot {
            Slot::Waiting(_) => {
                *slot = Slot::Given;
                true
            }
            Slot::Done(_) => {
                self.give_back(id);
                false
            }
            Slot::Lost | Slot::Given | Slot::Free => false,
        }
    }

    /// There will be no reply. Says who is to be woken.
    pub(crate) fn lose(&mut self, id: u32) -> Option<Waker> {
        match std::mem::replace(&mut self.places[id as usize], Slot::Lost) {
            Slot::Waiting(waker) => waker,
            _ => None,
        }
    }

    /// The link is gone: whoever waits, waits for nothing. Says who is to be woken.
    pub(crate) fn lose_all(&mut self) -> Vec<Waker> {
        self.is_closed = true;
        let mut wakers = Vec::new();
        for slot in &mut self.places {
            if let Slot::Waiting(waker) = slot {
                wakers.extend(waker.take());
                *slot = Slot::Lost;
            }
        }
        wakers
    }
}

#[cfg(test)]
mod tests {
    use coordination::reply::Heartbeat;

    use super::*;

    fn reply() -> Reply {
        Reply::Heartbeat(Heartbeat { error: None })
    }

    #[test]
    fn a_place_is_given_to_another_op_only_after_the_brokers_last_word() {
        let mut slots = Slots::default();
        let id = slots.take().expect("room");
        assert!(slots.give_up(id), "the broker works on it");
        assert_ne!(slots.take(), Some(id));
        slots.settle(id, None).expect("it was asked");
        assert_eq!(slots.take(), Some(id));
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
        let id = slots.take().expect("room");
        slots.give_up(id);
        slots.settle(id, Some(reply())).expect("it was asked");
        assert_eq!(slots.take(), Some(id));
    }

    #[test]
    fn an_op_that_was_not_cancelled_is_not_told_that_it_is_gone() {
        let mut slots = Slots::default();
        let id = slots.take().expect("room");
        assert!(slots.settle(id, None).is_err());
    }

    #[test]
    fn when_the_link_is_gone_all_is_lost_but_what_has_come() {
        let mut slots = Slots::default();
        let context = Context::from_waker(Waker::noop());
        let [there, owed] = [slots.take().expect("room"), slots.take().expect("room")];
        slots.settle(there, Some(reply())).expect("it was asked");
        assert_eq!(slots.poll(owed, &context), Poll::Pending);
        assert_eq!(slots.lose_all().len(), 1);
        assert_eq!(slots.poll(owed, &context), Poll::Ready(Err(Lost)));
        assert_eq!(slots.poll(there, &context), Poll::Ready(Ok(reply())));
        assert_eq!(slots.take(), None);
    }

    #[test]
    fn the_number_of_unanswered_ops_is_bounded() {
        let mut slots = Slots::default();
        let taken = std::iter::from_fn(|| slots.take()).take(IN_FLIGHT + 1).count();
        assert_eq!(taken, IN_FLIGHT);
    }
}
