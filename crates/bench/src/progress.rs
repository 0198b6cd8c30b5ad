//! What is going on, for a person who waits: on standard error, so that standard output stays fit for programs.
//!
//! A terminal shows one line that changes. Anything else gets nothing, unless `--progress` asks for a line for each step.

use std::io::{self, IsTerminal, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

static SHOWN: Mutex<Shown> = Mutex::new(Shown { lines: false, stage: String::new(), step: String::new() });

struct Shown {
    /// Whether lines are written where there is no terminal.
    lines: bool,
    /// Which target is measured, how often it was.
    stage: String,
    /// What is done to it.
    step: String,
}

/// How often a terminal shows how far a load is.
const TICK: Duration = Duration::from_millis(250);

/// Writes lines also where standard error is no terminal.
pub(crate) fn write_lines() {
    shown().lines = true;
}

/// A run on one target begins.
pub(crate) fn stage(what: String) {
    let mut shown = shown();
    (shown.stage, shown.step) = (what, String::new());
    shown.show("");
}

/// The next step of this run.
pub(crate) fn step(what: &str) {
    let mut shown = shown();
    what.clone_into(&mut shown.step);
    shown.show("");
}

/// All is measured: a terminal is left as it was.
pub(crate) fn end() {
    let mut stderr = io::stderr().lock();
    if stderr.is_terminal() {
        // Nobody is helped when the terminal is gone.
        let _ = write!(stderr, "\r\x1b[K").and_then(|()| stderr.flush());
    }
}

/// Waits while others bring a load, unless it is `over` before, and shows how far it is: `behind` of `whole` has
/// passed already.
pub(crate) fn wait(time: Duration, behind: Duration, whole: Duration, over: impl Fn() -> bool) {
    let begun = Instant::now();
    while let Some(rest) = time.checked_sub(begun.elapsed()).filter(|_| !over()) {
        if io::stderr().is_terminal() {
            let passed = (behind + begun.elapsed()).as_secs_f64();
            shown().show(&format!(", {passed:.0} of {:.0} s", whole.as_secs_f64()));
        }
        thread::sleep(rest.min(TICK));
    }
}

fn shown() -> MutexGuard<'static, Shown> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shown {
    fn show(&self, passed: &str) {
        let colon = if self.step.is_empty() { "" } else { ": " };
        let line = format!("{}{colon}{}{passed}", self.stage, self.step);
        let mut stderr = io::stderr().lock();
        let _ = if stderr.is_terminal() {
            write!(stderr, "\r\x1b[K{line}").and_then(|()| stderr.flush())
        } else if self.lines {
            writeln!(stderr, "{line}")
        } else {
            Ok(())
        };
    }
}
