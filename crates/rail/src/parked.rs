//! Answers that are not there yet, on the broker's side of a lane.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};

use parking_lot::Mutex;

use crate::fast_map::FastMap;
use crate::format::Run;
use crate::gated::GatedRuns;
use crate::slots::Replies;
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
    /// How many ops are not answered.
    ops: usize,
}

struct Place {
    owed: Option<Owed>,
    waker: Arc<PlaceWaker>,
}

struct Owed {
    id: u32,
    /// To how many ops.
    ops: usize,
    awaited: Awaited,
}

/// What is not there yet.
pub(crate) enum Awaited {
    /// An answer.
    One(Answer),
    /// The answers to ops that came together.
    Together(Answers),
}

/// Answers that are told together, when the last of them is there.
#[derive(Default)]
pub(crate) struct Answers {
    told: Vec<Run>,
    /// Those that are not there, in order.
    later: VecDeque<Later>,
}

enum Later {
    /// An answer, and how often it is told.
    One(Answer, u32),
    /// Those that wait for one shard.
    Gated(GatedRuns),
}

impl Answers {
    /// Adds an answer, which is told as often as `count` says.
    pub(crate) fn add(&mut self, answer: Answer, count: u32) {
        let later = match (answer, self.later.back_mut()) {
            (Answer::Now(reply), None) => return Run::add(&mut self.told, reply, count),
            (Answer::Gated(gated), Some(Later::Gated(runs))) if count == 1 => match runs.add(gated) {
                Ok(()) => return,
                Err(gated) => Later::Gated(GatedRuns::new(gated)),
            },
            (Answer::Gated(gated), _) if count == 1 => Later::Gated(GatedRuns::new(gated)),
            (answer, _) => Later::One(answer, count),
        };
        self.later.push_back(later);
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Vec<Run>, Lost>> {
        while let Some(later) = self.later.front_mut() {
            match later {
                Later::One(answer, count) => {
                    let reply = ready!(answer.poll(context))?;
                    Run::add(&mut self.told, reply, *count);
                }
                Later::Gated(runs) => {
                    for Run { reply, count } in ready!(runs.poll(context)) {
                        Run::add(&mut self.told, reply, count);
                    }
                }
            }
            self.later.pop_front();
        }
        Poll::Ready(Ok(std::mem::take(&mut self.told)))
    }
}

impl Awaited {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Replies, Lost>> {
        match self {
            Self::One(answer) => answer.poll(context).map_ok(Replies::One),
            Self::Together(answers) => answers.poll(context).map_ok(Replies::Together),
        }
    }
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
    /// How many ops are not answered.
    pub(crate) fn ops(&self) -> usize {
        self.ops
    }

    /// Whether the answer to this request is owed.
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Keeps the answer to so many ops until it is there, unless it is there already.
    pub(crate) fn park(&mut self, id: u32, ops: usize, mut awaited: Awaited) -> Poll<Result<Replies, Lost>> {
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
        let polled = awaited.poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            self.free.push(place);
        } else {
            kept.owed = Some(Owed { id, ops, awaited });
            self.by_id.insert(id, place);
            self.ops += ops;
        }
        polled
    }

    /// Drops the answer to a request. Says whether there was one.
    pub(crate) fn cancel(&mut self, id: u32) -> bool {
        let Some(place) = self.by_id.remove(&id) else { return false };
        self.vacate(place);
        true
    }

    fn vacate(&mut self, place: u32) {
        if let Some(Owed { ops, .. }) = self.places[place as usize].owed.take() {
            self.ops -= ops;
        }
        self.free.push(place);
    }

    /// The next answer that is there.
    pub(crate) fn next(&mut self) -> Option<(u32, Result<Replies, Lost>)> {
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
            let Some(Owed { id, awaited, .. }) = &mut kept.owed else { continue };
            let waker = Waker::from(Arc::clone(&kept.waker));
            if let Poll::Ready(replies) = awaited.poll(&mut Context::from_waker(&waker)) {
                let id = *id;
                self.by_id.remove(&id);
                self.vacate(place);
                return Some((id, replies));
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
