//! Who used the processors while something was measured, and what that says against the figures.

use std::time::{Duration, Instant};

use crate::figure::{Doubt, DoubtKind};
use crate::machine;
use crate::process::{self, ServerProcess, process_cpu, thread_cpu};

/// The kernel counts the time of others in hundredths of a second; of a shorter time nothing is said.
const SHORTEST: Duration = Duration::from_millis(100);

/// Less than this share of a core is what any machine does beside.
const OTHERS_AT_MOST: f64 = 0.25;

/// Processors' worth of time over a while: 1.0 is one core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores {
    over: Duration,
    /// What the load itself took.
    pub(crate) load: f64,
    /// All of this process, with an echo that runs in it.
    own: f64,
    /// The server, when it is on this machine.
    pub(crate) server: Option<f64>,
    /// All that runs on this machine.
    machine: Option<f64>,
}

/// Looks on while something is measured.
#[derive(Debug)]
pub(crate) struct Watch {
    server: Option<ServerProcess>,
    before: Sample,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    thread: Duration,
    own: Duration,
    server: Option<Duration>,
    machine: Option<Duration>,
}

impl Sample {
    fn take(server: Option<ServerProcess>) -> Self {
        Self {
            at: Instant::now(),
            thread: thread_cpu(),
            own: process_cpu(),
            server: server.and_then(|server| server.cpu().ok()),
            machine: process::machine_cpu(),
        }
    }
}

impl Watch {
    pub(crate) fn begin(server: Option<ServerProcess>) -> Self {
        Self { server, before: Sample::take(server) }
    }

    /// What was used since then; the load is what the calling thread did.
    pub(crate) fn end(&self) -> Cores {
        let (before, after) = (self.before, Sample::take(self.server));
        let over = after.at - before.at;
        let share = |earlier: Duration, later: Duration| {
            later.saturating_sub(earlier).as_secs_f64() / over.as_secs_f64().max(f64::MIN_POSITIVE)
        };
        let both = |earlier: Option<Duration>, later: Option<Duration>| Some(share(earlier?, later?));
        Cores {
            over,
            load: share(before.thread, after.thread),
            own: share(before.own, after.own),
            server: both(before.server, after.server),
            machine: both(before.machine, after.machine),
        }
    }
}

impl Cores {
    /// Why the figures may say more about something else than about the server, if so. `threads` is how many the load
    /// may use.
    pub(crate) fn doubts(&self, about: &str, threads: usize) -> Vec<Doubt> {
        let load = self.doubt_about_load(threads, machine::cores()).map(|reason| Doubt {
            about: about.to_owned(),
            kind: DoubtKind::Load,
            gravity: self.load,
            reason,
        });
        load.into_iter().chain(self.doubt_about_others(about)).collect()
    }

    /// Counts processes on this machine that the server stands on as part of it; says what they took.
    pub(crate) fn add_to_server(&mut self, time: Duration) -> f64 {
        let share = time.as_secs_f64() / self.over.as_secs_f64().max(f64::MIN_POSITIVE);
        self.server = self.server.map(|server| server + share);
        share
    }

    /// Whether somebody else used the machine, which is all that can be wrong with one request at a time.
    pub(crate) fn doubt_about_others(&self, about: &str) -> Option<Doubt> {
        self.others(about, self.load + self.server?)
    }

    /// The same of an echo, which is in this process. That the load takes as much as the echo says nothing against it.
    pub(crate) fn doubt_about_others_than_us(&self, about: &str) -> Option<Doubt> {
        self.others(about, self.own)
    }

    fn others(&self, about: &str, known: f64) -> Option<Doubt> {
        let others = self.machine? - known;
        let cores = machine::cores();
        (others > OTHERS_AT_MOST && self.over >= SHORTEST).then(|| Doubt {
            about: about.to_owned(),
            kind: DoubtKind::Others,
            gravity: others,
            reason: format!(
                "other processes took {others:.1} of {cores} cores meanwhile; rates and times are not the best"
            ),
        })
    }

    fn doubt_about_load(&self, threads: usize, cores: usize) -> Option<String> {
        #[expect(clippy::cast_precision_loss, reason = "a few threads and cores")]
        let (threads, cores) = (threads as f64, cores as f64);
        let taken = self.load;
        if self.over < SHORTEST {
            return None;
        }
        let busy = taken > threads * 0.95;
        let Some(server) = self.server else {
            if taken > cores / 2.0 {
                return Some(format!(
                    "the load took {taken:.2} of {cores} cores; if the server is on this machine, that is more than its share"
                ));
            }
            return busy.then(|| {
                format!(
                    "the load took {taken:.2} cores, all that {threads} of its threads can; the server may do more than is seen"
                )
            });
        };
        if busy && taken + server < cores * 0.95 {
            return Some(format!(
                "the load took {taken:.2} cores on {threads} threads while the machine had time left; more threads may show more"
            ));
        }
        (taken > server).then(|| {
            format!(
                "the load took {taken:.2} cores and the server {server:.2}; the load is more than its share"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(load: f64, server: Option<f64>, machine: f64) -> Cores {
        Cores { over: Duration::from_secs(1), load, own: load, server, machine: Some(machine) }
    }

    #[test]
    fn a_load_that_can_no_more_is_noticed_wherever_the_server_is() {
        let says = |cores: Cores| cores.doubt_about_load(1, 4).unwrap_or_default();
        assert_eq!(says(cores(0.5, None, 0.5)), "");
        assert!(says(cores(0.98, None, 0.98)).contains("all that 1 of its threads can"));
        assert!(says(cores(0.98, Some(0.5), 1.5)).contains("more threads may show more"));
        assert!(says(cores(0.6, Some(0.5), 1.1)).contains("more than its share"));
        assert_eq!(says(cores(0.5, Some(0.6), 1.1)), "");
        assert_eq!(says(Cores { over: Duration::from_millis(20), ..cores(0.98, None, 0.98) }), "");
    }

    #[test]
    fn others_are_what_neither_load_nor_server_took() {
        let others = |cores: Cores| cores.doubt_about_others("join").map(|doubt| doubt.gravity);
        assert_eq!(others(cores(0.5, Some(0.5), 1.1)), None);
        assert_eq!(others(cores(0.5, Some(0.5), 2.0)), Some(1.0));
        assert_eq!(others(cores(0.5, None, 2.0)), None, "the server may be among them");
        let echo = Cores { own: 1.0, ..cores(0.5, None, 2.0) };
        assert_eq!(echo.doubt_about_others_than_us("echo").map(|doubt| doubt.gravity), Some(1.0));
        assert!(Cores { machine: Some(1.1), ..echo }.doubt_about_others_than_us("echo").is_none());
    }

    #[test]
    fn a_watch_sees_what_this_thread_does() {
        let watch = Watch::begin(None);
        let begun = thread_cpu();
        while thread_cpu() - begun < Duration::from_millis(5) {}
        let seen = watch.end();
        assert!(seen.load > 0.0 && seen.own > 0.0, "{seen:?}");
    }
}
