//! How the system's scheduler treats our threads.
//!
//! A thread calls [`prefer_batches`] once when it begins. Threads that should not meet on one processor get a [`Place`] each
//! from [`places`], and call [`Place::stay`] themselves; whatever they start calls [`Place::anywhere`]. None of this can
//! fail: where the system refuses, threads go on as before.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tracing::debug;

/// Asks the scheduler not to interrupt others for this thread (`SCHED_BATCH`).
///
/// Where clients run beside the broker, a thread that is given the processor with the first request of many serves one,
/// sleeps again, and is woken for the second: half of the time goes into changing places. One that waits for its turn
/// finds all requests that have come meanwhile, and the store's writer all appends for one sync. Where a processor is free
/// it runs at once either way.
pub fn prefer_batches() {
    // SAFETY: all zeros is a valid value of this struct of numbers; 0 is the priority that this policy wants.
    #[expect(unsafe_code, reason = "no safe wrapper of this call is among our dependencies")]
    let answer = unsafe {
        let parameters: libc::sched_param = std::mem::zeroed();
        // 0 is the thread that calls.
        libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters)
    };
    if answer != 0 {
        // It works without, and a sandbox may not allow it.
        debug!(failure = %io::Error::last_os_error(), "this thread is scheduled as all others");
    }
}

/// A processor for one thread, and all of them for those that it starts.
#[derive(Clone, Copy)]
pub struct Place {
    own: CpuSet,
    all: CpuSet,
}

/// A place for each of `count` threads, if the calling thread may use as many processors.
///
/// Otherwise some would be shared or left out, and the scheduler is better at that.
#[must_use]
pub fn places(count: usize) -> Option<Vec<Place>> {
    let all = sched_getaffinity(None)
        .inspect_err(|failure| debug!(%failure, "the system does not tell which processors there are"))
        .ok()?;
    let alone = |processor| {
        let mut own = CpuSet::new();
        own.set(processor);
        Place { own, all }
    };
    let places: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&processor| all.is_set(processor)).map(alone).collect();
    (places.len() == count).then_some(places)
}

impl Place {
    /// From now on the calling thread runs in this place only, and so do threads that it starts.
    pub fn stay(&self) {
        run_on(&self.own);
    }

    /// From now on the calling thread runs wherever there is room.
    pub fn anywhere(&self) {
        run_on(&self.all);
    }
}

fn run_on(processors: &CpuSet) {
    if let Err(failure) = sched_setaffinity(None, processors) {
        // As above; a processor may also have been taken from this process meanwhile.
        debug!(%failure, "this thread runs where it did before");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_may_ask_for_batches() {
        thread::spawn(|| {
            prefer_batches();
            let policy = fs::read_to_string("/proc/thread-self/stat").expect("Linux tells");
            // Field 41, counted behind the name, which may hold spaces.
            let (_, fields) = policy.rsplit_once(')').expect("the name is in parentheses");
            assert_eq!(fields.split_whitespace().nth(38), Some(&*libc::SCHED_BATCH.to_string()));
        })
        .join()
        .expect("it is allowed here");
    }

    #[test]
    fn a_thread_stays_in_its_place_and_one_that_it_starts_may_go_anywhere() {
        thread::spawn(|| {
            let all = own_processors();
            for (place, processor) in places(all.len()).expect("as many as there are").iter().zip(&all) {
                place.stay();
                assert_eq!(own_processors(), [*processor]);
                let own = *place;
                let started = thread::spawn(move || {
                    let at_first = own_processors();
                    own.anywhere();
                    (at_first, own_processors())
                });
                assert_eq!(started.join().expect("it ends"), (vec![*processor], all.clone()));
            }
        })
        .join()
        .expect("it is allowed here");
    }

    #[test]
    fn there_are_no_places_for_more_or_fewer_threads_than_processors() {
        let processors = own_processors().len();
        assert!(places(processors).is_some());
        assert!(places(processors + 1).is_none());
        assert!(places(processors - 1).is_none());
    }

    fn own_processors() -> Vec<usize> {
        let set = sched_getaffinity(None).expect("the system tells");
        (0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect()
    }
}
