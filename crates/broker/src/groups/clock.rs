//! The time that groups are handed.

use std::sync::atomic::{AtomicI64, Ordering};

use tokio::time::Instant;

use coordination::group::{Now, Timestamp};

/// One look at one clock gives both times, so that a heartbeat pays for one.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    /// What the clock on the wall showed, or would have shown, at the start.
    wall_at_start_ms: AtomicI64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let clock = Self { started: Instant::now(), wall_at_start_ms: AtomicI64::new(0) };
        clock.look_at_the_wall();
        clock
    }

    /// The time.
    pub(crate) fn now(&self) -> Now {
        let at = self.at();
        let since = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
        Now { at, wall_ms: self.wall_at_start_ms.load(Ordering::Relaxed).saturating_add(since) }
    }

    /// The moment by the clock of deadlines.
    pub(crate) fn at(&self) -> Timestamp {
        Timestamp::from_millis(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// When `at` is for the runtime's timers.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        self.started + std::time::Duration::from_millis(at.as_millis())
    }

    /// Follows the clock on the wall, which somebody may have set. The timer does so every now and then.
    pub(crate) fn look_at_the_wall(&self) {
        let since = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.wall_at_start_ms.store(crate::now_ms().saturating_sub(since), Ordering::Relaxed);
    }
}
