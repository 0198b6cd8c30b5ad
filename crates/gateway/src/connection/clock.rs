//! The one clock of a connection.

use std::collections::VecDeque;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::{Connection, Hold, Intake, REST_AFTER};
use crate::ending::Ending;
use crate::limits::DRAIN_LOOK;

impl Connection {
    /// Ends what has lasted too long. Always the last thing asked, so that traffic counts before clocks.
    pub(super) fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let options = &self.shared.options;
            let mut next = now + REST_AFTER;
            if let Some(since) = self.stalled_since {
                let deadline = after(since, options.write_timeout);
                if deadline <= now {
                    self.shared.metrics.connections_stalled_closed.inc();
                    return Poll::Ready(Ending::Stalled);
                }
                next = next.min(deadline);
            }
            if let Intake::Finishing { since, .. } = self.intake {
                let until = self.finished_by(since);
                if until <= now {
                    return Poll::Ready(Ending::Drained);
                }
                // The next request that has been read may be parked.
                next = next.min(until).min(now + DRAIN_LOOK);
            }
            if let Some(deadline) = self.guard.as_ref().and_then(|guard| guard.deadline) {
                if deadline <= now {
                    self.shared.metrics.authentication_timeouts.inc();
                    return Poll::Ready(Ending::TooSlow);
                }
                next = next.min(deadline);
            }
            match self.hold {
                Some(Hold::Muted(until)) if until <= now => {
                    self.hold = None;
                    self.active_at = now;
                    // What waits may start; that is not decided here.
                    cx.waker().wake_by_ref();
                }
                Some(Hold::Muted(until)) => next = next.min(until),
                Some(Hold::Step(_)) | None => {}
            }
            if self.owed.is_empty() && self.is_written() && self.hold.is_none() {
                let deadline = after(self.active_at, options.connections_max_idle);
                if deadline <= now {
                    self.shared.metrics.connections_idle_closed.inc();
                    return Poll::Ready(Ending::Idle);
                }
                let rest_at = self.active_at + REST_AFTER;
                if now < rest_at {
                    next = next.min(rest_at).min(deadline);
                } else {
                    self.input.rest();
                    self.output.rest();
                    self.stream.rest();
                    self.known_heartbeat = None;
                    self.owed = VecDeque::new();
                    self.is_resting = true;
                    // Thousands of clients may be connected for hours without a word; they cost nothing until then.
                    next = deadline;
                }
            }
            self.timer.as_mut().reset(next);
        }
        Poll::Pending
    }

    /// Makes the timer ring at `deadline` unless it does earlier.
    pub(super) fn ring_by(&mut self, deadline: Instant) {
        if deadline < self.timer.deadline() {
            self.timer.as_mut().reset(deadline);
        }
    }
}

/// `start + duration`, or a time that nobody lives to see.
pub(crate) fn after(start: Instant, duration: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
    start + duration.min(NEVER)
}
