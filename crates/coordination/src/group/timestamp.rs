//! Time as the machine knows it: handed in, never read.

use std::time::Duration;

/// A moment of the broker's monotonic clock, in milliseconds since the clock's own beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment that is this many milliseconds after the clock's beginning.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the clock's beginning.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The moment that is `wait` later. What lies beyond the end of time is its end.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long ago `earlier` was; zero if it is still to come.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// The time of one input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// By the clock that deadlines are measured with.
    pub at: Timestamp,
    /// By the clock on the wall, in milliseconds since 1970; stored, and used for retention only.
    pub wall_ms: i64,
}
