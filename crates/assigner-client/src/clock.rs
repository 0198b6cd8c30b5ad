//! A clock that never goes back and also counts the time in which the machine was suspended.

use std::time::Duration;

/// The time since some moment in the past, which is the same for the whole process.
///
/// A machine that was suspended wakes up with a lease that is long over. The usual monotonic clock has stood still
/// meanwhile and would say that there is time left. No clock counts the time in which a hypervisor has paused the whole
/// machine or restored it from an image: against that only the epoch helps, where the writes are checked.
#[cfg(target_os = "linux")]
pub(crate) fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let whole = Duration::from_secs(u64::try_from(now.tv_sec).unwrap_or(0));
    whole + Duration::from_nanos(u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// The time since the first call.
#[cfg(not(target_os = "linux"))]
pub(crate) fn now() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;

    static BEGAN: OnceLock<Instant> = OnceLock::new();
    BEGAN.get_or_init(Instant::now).elapsed()
}
