//! What happened, for a person to read; kept only when somebody wants to.

use std::fmt::Write;

/// The story of a run.
#[derive(Debug, Default)]
pub struct Trace {
    text: Option<String>,
    now: u64,
}

impl Trace {
    /// A trace that is kept, or one that costs nothing.
    pub fn new(kept: bool) -> Self {
        Self { text: kept.then(String::new), now: 0 }
    }

    /// The clock has moved.
    pub fn at(&mut self, now: u64) {
        self.now = now;
    }

    /// Adds a line. The line is made only if it is kept.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(text) = &mut self.text {
            let (seconds, millis) = (self.now / 1_000, self.now % 1_000);
            writeln!(text, "{seconds:>5}.{millis:03} {}", line()).expect("a text takes all that is written");
        }
    }

    /// All lines.
    pub fn into_text(self) -> String {
        self.text.unwrap_or_default()
    }
}
