//! Replies that are known and leave when what they tell is durable.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use coordination::reply::Reply;

use crate::format::Run;

/// How far the records of a shard of groups have come.
///
/// A shard writes in flushes, numbered from 1, one after the other: while one is under way the records for the next
/// are gathered. Whoever waits, waits for one of these two. A shard that is read back from the log gets a new
/// `Progress`, so that nobody takes its flushes for those of its predecessor.
#[derive(Debug, Default)]
pub struct Progress {
    /// The last flush that is durable.
    durable: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// No further flush will be durable.
    failed: bool,
    /// Who waits for the odd and for the even flush that are not durable yet. A place is empty when its owner has
    /// gone.
    wakers: [Vec<Option<Waker>>; 2],
}

/// The shard was dropped before the records were durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped;

/// Those to be woken, once no lock is held.
#[derive(Debug)]
#[must_use = "who is not woken waits for ever"]
pub struct Woken([Vec<Option<Waker>>; 2]);

impl Woken {
    /// Wakes them.
    pub fn wake(self) {
        for waker in self.0.into_iter().flatten().flatten() {
            waker.wake();
        }
    }
}

impl Progress {
    /// The last flush that is durable.
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Takes note that `flush` is durable.
    pub fn advance(&self, flush: u64) -> Woken {
        let mut waiting = self.waiting.lock();
        // Under the lock, so that nobody registers for what has just become durable.
        self.durable.store(flush, Ordering::Release);
        Woken([std::mem::take(&mut waiting.wakers[parity(flush)]), Vec::new()])
    }

    /// Takes note that nothing more becomes durable.
    pub fn fail(&self) -> Woken {
        let mut waiting = self.waiting.lock();
        waiting.failed = true;
        Woken(std::mem::take(&mut waiting.wakers))
    }
}

fn parity(flush: u64) -> usize {
    usize::from(flush % 2 == 1)
}

/// Waits for one flush. Costs nothing until it is polled, and leaves nothing behind.
#[derive(Debug)]
pub struct Durable {
    progress: Arc<Progress>,
    flush: u64,
    /// Its place among the wakers, once it has one.
    place: Option<usize>,
}

impl Durable {
    /// Resolves when `flush`, which is under way or being gathered, is durable.
    pub fn new(progress: Arc<Progress>, flush: u64) -> Self {
        Self { progress, flush, place: None }
    }
}

impl Future for Durable {
    type Output = Result<(), Dropped>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let progress = &this.progress;
        if progress.durable() >= this.flush {
            this.place = None;
            return Poll::Ready(Ok(()));
        }
        let mut waiting = progress.waiting.lock();
        if progress.durable() >= this.flush || waiting.failed {
            this.place = None;
            return Poll::Ready(if waiting.failed { Err(Dropped) } else { Ok(()) });
        }
        let wakers = &mut waiting.wakers[parity(this.flush)];
        match this.place.and_then(|place| wakers.get_mut(place)) {
            Some(Some(waker)) => waker.clone_from(context.waker()),
            Some(place) => *place = Some(context.waker().clone()),
            None => {
                this.place = Some(wakers.len());
                wakers.push(Some(context.waker().clone()));
            }
        }
        Poll::Pending
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let mut waiting = self.progress.waiting.lock();
        if self.progress.durable() >= self.flush || waiting.failed {
            return;
        }
        let wakers = &mut waiting.wakers[parity(self.flush)];
        if let Some(waker) = wakers.get_mut(place) {
            *waker = None;
        }
        // A client that asks and goes, again and again, must not make the list grow while a disk hangs.
        while wakers.last().is_some_and(Option::is_none) {
            wakers.pop();
        }
    }
}

/// A reply that is known, and leaves when the records before it are durable.
#[derive(Debug)]
pub struct Gated {
    until: Durable,
    reply: Option<Reply>,
    /// Makes of the reply what is told when they never will be.
    refuse: fn(Reply) -> Reply,
}

impl Gated {
    /// The reply leaves when `until` is over; as `refuse` makes it, if that fails.
    pub fn new(until: Durable, reply: Reply, refuse: fn(Reply) -> Reply) -> Self {
        Self { until, reply: Some(reply), refuse }
    }
}

/// Replies that leave together, because they wait for the same shard.
#[derive(Debug)]
pub(crate) struct GatedRuns {
    until: Durable,
    runs: Vec<Run>,
    refuse: fn(Reply) -> Reply,
}

impl GatedRuns {
    /// One that nobody has asked for yet.
    pub(crate) fn new(gated: Gated) -> Self {
        let runs = gated.reply.map(|reply| Run { reply, count: 1 }).into_iter().collect();
        Self { until: gated.until, runs, refuse: gated.refuse }
    }

    /// Adds one of the same shard, which waits for the same flush or a later one. Another one is given back.
    pub(crate) fn add(&mut self, gated: Gated) -> Result<(), Gated> {
        let is_same = Arc::ptr_eq(&self.until.progress, &gated.until.progress)
            && std::ptr::fn_addr_eq(self.refuse, gated.refuse)
            && self.until.place.is_none()
            && gated.until.place.is_none();
        if !is_same {
            return Err(gated);
        }
        self.until.flush = self.until.flush.max(gated.until.flush);
        if let Some(reply) = gated.reply {
            Run::add(&mut self.runs, reply, 1);
        }
        Ok(())
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Vec<Run>> {
        Pin::new(&mut self.until).poll(context).map(|outcome| {
            let mut runs = std::mem::take(&mut self.runs);
            if outcome.is_err() {
                runs = runs.into_iter().map(|run| Run { reply: (self.refuse)(run.reply), ..run }).collect();
            }
            runs
        })
    }
}

impl Future for Gated {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        let Poll::Ready(outcome) = Pin::new(&mut self.until).poll(context) else { return Poll::Pending };
        let reply = self.reply.take().expect("nobody polls a future that has ended");
        Poll::Ready(match outcome {
            Ok(()) => reply,
            Err(Dropped) => (self.refuse)(reply),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use coordination::error_code::ErrorCode;
    use coordination::reply;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn poll(waiting: &mut Durable, count: &Arc<Count>) -> Poll<Result<(), Dropped>> {
        let waker = Waker::from(Arc::clone(count));
        pin!(waiting).poll(&mut Context::from_waker(&waker))
    }

    fn places(progress: &Progress) -> usize {
        progress.waiting.lock().wakers.iter().map(Vec::len).sum()
    }

    #[test]
    fn who_waits_is_woken_once_by_its_own_flush() {
        let progress = Arc::new(Progress::default());
        let (first_woken, second_woken) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let mut first = Durable::new(Arc::clone(&progress), 1);
        let mut second = Durable::new(Arc::clone(&progress), 2);
        for _ in 0..3 {
            assert_eq!(poll(&mut first, &first_woken), Poll::Pending);
            assert_eq!(poll(&mut second, &second_woken), Poll::Pending);
        }
        assert_eq!(places(&progress), 2, "asking again takes no second place");
        progress.advance(1).wake();
        assert_eq!(first_woken.0.load(Ordering::SeqCst), 1);
        assert_eq!(second_woken.0.load(Ordering::SeqCst), 0);
        assert_eq!(poll(&mut first, &first_woken), Poll::Ready(Ok(())));
        assert_eq!(poll(&mut second, &second_woken), Poll::Pending);
        progress.advance(2).wake();
        assert_eq!(poll(&mut second, &second_woken), Poll::Ready(Ok(())));
    }

    #[test]
    fn who_goes_leaves_nothing_behind() {
        let progress = Arc::new(Progress::default());
        let count = Arc::new(Count::default());
        let mut waiting: Vec<_> = (0..100).map(|_| Durable::new(Arc::clone(&progress), 1)).collect();
        assert_eq!(places(&progress), 0, "who was never asked has no place");
        for waiting in &mut waiting {
            assert_eq!(poll(waiting, &count), Poll::Pending);
        }
        let mut last = waiting.pop().expect("there are a hundred");
        drop(waiting);
        assert_eq!(poll(&mut last, &count), Poll::Pending);
        progress.advance(1).wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        drop(last);
        assert_eq!(places(&progress), 0);
    }

    #[test]
    fn a_failure_is_told_to_all_who_wait_and_not_to_those_who_are_done() {
        let progress = Arc::new(Progress::default());
        let count = Arc::new(Count::default());
        let mut done = Durable::new(Arc::clone(&progress), 1);
        let mut waiting = Durable::new(Arc::clone(&progress), 2);
        assert_eq!(poll(&mut waiting, &count), Poll::Pending);
        progress.advance(1).wake();
        progress.fail().wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert_eq!(poll(&mut waiting, &count), Poll::Ready(Err(Dropped)));
        assert_eq!(poll(&mut done, &count), Poll::Ready(Ok(())));
    }

    fn gated(progress: &Arc<Progress>, flush: u64) -> Gated {
        Gated::new(Durable::new(Arc::clone(progress), flush), heartbeat(None), |_| refused())
    }

    fn heartbeat(error: Option<ErrorCode>) -> Reply {
        Reply::Heartbeat(reply::Heartbeat { error })
    }

    fn refused() -> Reply {
        heartbeat(Some(ErrorCode::NotCoordinator))
    }

    #[test]
    fn replies_of_one_shard_leave_when_the_last_of_them_may_and_are_refused_together() {
        for is_durable in [true, false] {
            let (progress, other) = (Arc::new(Progress::default()), Arc::new(Progress::default()));
            let mut runs = GatedRuns::new(gated(&progress, 1));
            runs.add(gated(&progress, 1)).expect("the same shard");
            runs.add(gated(&progress, 2)).expect("the same shard");
            assert!(runs.add(gated(&other, 1)).is_err(), "another shard");
            let context = &mut Context::from_waker(Waker::noop());
            progress.advance(1).wake();
            assert_eq!(runs.poll(context), Poll::Pending);
            assert!(runs.add(gated(&progress, 2)).is_err(), "it has been asked for");
            let reply = if is_durable { heartbeat(None) } else { refused() };
            let woken = if is_durable { progress.advance(2) } else { progress.fail() };
            woken.wake();
            assert_eq!(runs.poll(context), Poll::Ready(vec![Run { reply, count: 3 }]));
        }
    }
}
