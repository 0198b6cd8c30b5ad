//! Answers that are not there yet, on the broker's side of a lane.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use coordination::reply::Reply;
use parking_lot::Mutex;

use crate::fast_map::FastMap;
use crate::{Answer, Lost};

/// Answers that the disk, time or another client has yet to complete. One costs a place and no task; only those that
/// were woken are asked again.
#[derive(Default)]
pub(crate) struct Parked {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Where the answer to a request is.
    by_id: FastMap<u32, u32>,
    ready: Arc<Ready>,
    /// Places that were woken and have not been asked yet.
    woken: Vec<u32>,
}

struct Place {
    owed: Option<(u32, Answer)>,
    waker: Arc<PlaceWaker>,
}

/// The places that were woken since the lane looked last.
#[derive(Default)]
struct Ready {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    places: Vec<u32>,
    /// The lane's task, when it has nothing to do.
    sleeping: Option<Waker>,
}

/// Wakes the lane for one place. It stays with the place, whatever is parked there.
struct PlaceWaker {
    place: u32,
    is_woken: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for PlaceWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_woken.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut state = self.ready.state.lock();
        state.places.push(self.place);
        let sleeping = state.sleeping.take();
        drop(state);
        if let Some(sleeping) = sleeping {
            sleeping.wake();
        }
    }
}

impl Parked {
    /// How many answers are owed.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether the answer to this request is owed.
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Keeps an answer until it is there, unless it is there already.
    pub(crate) fn park(&mut self, id: u32, mut answer: Answer) -> Poll<Result<Reply, Lost>> {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                let place = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
                let ready = Arc::clone(&self.ready);
                let waker = Arc::new(PlaceWaker { place, is_woken: AtomicBool::new(false), ready });
                self.places.push(Place { owed: None, waker });
                place
            }
        };
        let kept = &mut self.places[place as usize];
        let waker = Waker::from(Arc::clone(&kept.waker));
        let polled = answer.poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            self.free.push(place);
        } else {
            kept.owed = Some((id, answer));
            self.by_id.insert(id, place);
        }
        polled
    }

    /// Drops the answer to a request. Says whether there was one.
    pub(crate) fn cancel(&mut self, id: u32) -> bool {
        let Some(place) = self.by_id.remove(&id) else { return false };
        self.places[place as usize].owed = None;
        self.free.push(place);
        true
    }

    /// The next answer that is there.
    pub(crate) fn next(&mut self) -> Option<(u32, Result<Reply, Lost>)> {
        loop {
            if self.woken.is_empty() {
                std::mem::swap(&mut self.woken, &mut self.ready.state.lock().places);
                // Taken from the end, so that the one that was woken first is asked first.
                self.woken.reverse();
            }
            let place = self.woken.pop()?;
            let kept = &mut self.places[place as usize];
            kept.waker.is_woken.store(false, Ordering::Release);
            // Nothing is here any more, or something that was parked after the wake-up.
            let Some((id, answer)) = &mut kept.owed else { continue };
            let waker = Waker::from(Arc::clone(&kept.waker));
            if let Poll::Ready(reply) = answer.poll(&mut Context::from_waker(&waker)) {
                let id = *id;
                kept.owed = None;
                self.by_id.remove(&id);
                self.free.push(place);
                return Some((id, reply));
            }
        }
    }

    /// Whether an answer may be there; if not, the task of `context` is woken when one is.
    pub(crate) fn poll_woken(&self, context: &Context<'_>) -> Poll<()> {
        if !self.woken.is_empty() {
            return Poll::Ready(());
        }
        let mut state = self.ready.state.lock();
        if !state.places.is_empty() {
            return Poll::Ready(());
        }
        match &mut state.sleeping {
            Some(sleeping) => sleeping.clone_from(context.waker()),
            None => state.sleeping = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}
