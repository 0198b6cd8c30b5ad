//! How the system's scheduler treats the threads of connections.

use std::io;

use tracing::debug;

/// Asks the scheduler not to interrupt others for this thread (`SCHED_BATCH`).
///
/// Where clients run beside the broker, a thread that is given the processor with the first request of many serves one,
/// sleeps again, and is woken for the second: half of the time goes into changing places. One that waits for its turn
/// finds all requests that have come meanwhile. Where a processor is free it runs at once either way.
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
        debug!(failure = %io::Error::last_os_error(), "threads of connections are scheduled as all others");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_ask_for_batches() {
        std::thread::spawn(|| {
            prefer_batches();
            let policy = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux tells");
            // Field 41, counted behind the name, which may hold spaces.
            let (_, fields) = policy.rsplit_once(')').expect("the name is in parentheses");
            assert_eq!(fields.split_whitespace().nth(38), Some(&*libc::SCHED_BATCH.to_string()));
        })
        .join()
        .expect("it is allowed here");
    }
}
