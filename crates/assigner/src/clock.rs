//! The time of day, for what is written down and read by others. Whatever only has to last is counted otherwise.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// When the clock was first looked at. It is not looked at again: deadlines must not come early or late because somebody
/// has set it.
static BEGAN: LazyLock<(Instant, Duration)> =
    LazyLock::new(|| (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()));

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let (began, time_of_day) = &*BEGAN;
    u64::try_from((*time_of_day + began.elapsed()).as_millis()).unwrap_or(u64::MAX)
}
