//! Deadlines of all shards: sessions, joins and syncs that take too long, offsets that are too old.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use coordination::group::Timestamp;

use super::Groups;
use super::shard::NEVER;

/// Who waits for the next deadline, and how to tell it of an earlier one.
#[derive(Debug)]
pub(crate) struct Timer {
    wake: Notify,
    /// Until when it sleeps, in milliseconds; [`NEVER`] while it looks what is next.
    sleeps_until: AtomicU64,
}

impl Default for Timer {
    fn default() -> Self {
        Self { wake: Notify::new(), sleeps_until: AtomicU64::new(NEVER) }
    }
}

impl Timer {
    /// Something is due then, in milliseconds. Whoever says so has made it visible before.
    pub(crate) fn is_due(&self, due: u64) {
        if due < self.sleeps_until.load(Ordering::SeqCst) {
            self.wake.notify_one();
        }
    }
}

/// While there are deadlines the timer wakes at least this often, to notice when the process did not run.
const TICK: Duration = Duration::from_secs(1);

/// A timer that wakes this late did not run when it should have, and most likely nor did the threads of connections.
const STALL: Duration = Duration::from_millis(500);

/// How long after a stall nobody is expired. Heartbeats that came meanwhile wait in the sockets and are read within
/// milliseconds; clients that gave up connect again within about a second and are heard then.
const GRACE: Duration = Duration::from_secs(3);

/// Runs deadlines and expiry until it is aborted.
pub(crate) async fn run(groups: Arc<Groups>) {
    let shared = Arc::clone(&groups.shared);
    let (clock, timer) = (&shared.clock, &shared.timer);
    let mut patience = Patience::default();
    let mut expiry_at = clock.at().after(shared.expiry_interval());
    loop {
        timer.sleeps_until.store(NEVER, Ordering::SeqCst);
        // What becomes due from here on wakes the timer, if it is earlier than what is found here.
        let due = groups.next_due();
        let mut planned = expiry_at;
        if due != NEVER {
            let due = patience.until.map_or(due, |until| due.max(until.as_millis()));
            planned = planned.min(Timestamp::from_millis(due)).min(clock.at().after(TICK));
        }
        timer.sleeps_until.store(planned.as_millis(), Ordering::SeqCst);
        tokio::select! {
            () = tokio::time::sleep_until(clock.instant(planned)) => {}
            () = timer.wake.notified() => {}
        }
        let woke = clock.at();
        clock.look_at_the_wall();
        if patience.may_expire(planned, woke) {
            for shard in groups.all() {
                if shard.due() <= woke.as_millis() {
                    shard.handle_deadlines();
                }
            }
        }
        // The interval may have been changed, and what was to come in days is to come in minutes.
        expiry_at = expiry_at.min(woke.after(shared.expiry_interval()));
        if woke >= expiry_at {
            expiry_at = woke.after(shared.expiry_interval());
            for shard in groups.all() {
                shard.expire();
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Input before deadlines: whether members that were silent may be expired now.
///
/// A process that was stopped, or starved of its processors, wakes up with sessions that have run out and with the
/// heartbeats that would have renewed them unread in its sockets. Expiring first would send every member away for the
/// broker's own fault. So after a stall the sockets get their turn first. The grace is given once: a machine that is
/// always late still expires who is gone.
#[derive(Debug, Default)]
struct Patience {
    /// Until when nobody is expired.
    until: Option<Timestamp>,
}

impl Patience {
    /// Whether deadlines may be run by a timer that wanted to wake when it was `planned` and `woke` later.
    fn may_expire(&mut self, planned: Timestamp, woke: Timestamp) -> bool {
        match self.until {
            Some(until) if woke < until => false,
            Some(_) => {
                self.until = None;
                true
            }
            None if woke.since(planned) >= STALL => {
                self.until = Some(woke.after(GRACE));
                tracing::warn!(late = ?woke.since(planned), "the process was stalled; members get a grace period");
                false
            }
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_timer_that_wakes_in_time_expires_members() {
        let mut patience = Patience::default();
        assert!(patience.may_expire(at(1_000), at(900)), "woken early, by something that is due earlier");
        assert!(patience.may_expire(at(1_000), at(1_000)));
        assert!(patience.may_expire(at(1_000), at(1_400)));
    }

    #[test]
    fn after_a_stall_members_get_a_grace_period_once() {
        let mut patience = Patience::default();
        assert!(!patience.may_expire(at(1_000), at(31_000)));
        assert!(!patience.may_expire(at(32_000), at(32_000)));
        assert!(!patience.may_expire(at(32_000), at(33_900)));
        assert!(patience.may_expire(at(34_000), at(35_000)), "even if it is late again");
        assert!(!patience.may_expire(at(36_000), at(37_000)), "the next stall is another one");
    }
}
