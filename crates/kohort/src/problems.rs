//! What went wrong with some of several things.

use client::ClientError;

use crate::dial::{describe, kind};
use crate::failure::{Failure, Kind};
use crate::output::{count, plain};

/// What went wrong with some of several things, as one failure.
#[derive(Default)]
pub(crate) struct Problems(pub(crate) Vec<(Kind, String)>);

impl Problems {
    /// Adds one. Its words may hold names that somebody else chose.
    pub(crate) fn add(&mut self, kind: Kind, message: &str) {
        self.0.push((kind, plain(message)));
    }

    /// Adds what the broker has against a wish, which is told as "reset group billing" tells it.
    pub(crate) fn add_error(&mut self, wish: &str, error: &ClientError) {
        self.add(kind(error), &format!("{wish}: {}", describe(error)));
    }

    /// Adds that `untried` more have been left alone, because nobody would have answered.
    pub(crate) fn add_untried(&mut self, untried: usize, what: &str) {
        if untried > 0 {
            self.add(Kind::Unreachable, &format!("{} not tried", count(untried, &format!("more {what}"))));
        }
    }

    /// All is well only if nothing was added. The exit code is the one that all problems have, or the general one.
    pub(crate) fn into_result(self, heading: &str) -> anyhow::Result<()> {
        let Some((first, _)) = self.0.first() else { return Ok(()) };
        let kind = if self.0.iter().all(|(kind, _)| kind == first) { *first } else { Kind::Failed };
        let message = match &self.0[..] {
            [(_, only)] => only.clone(),
            several => {
                several.iter().fold(plain(heading) + ":", |text, (_, message)| text + "\n  " + message)
            }
        };
        Err(Failure::new(kind, message).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::kind as failure_kind;

    #[test]
    fn names_leave_the_terminal_alone_and_each_problem_has_a_line() {
        let mut problems = Problems::default();
        problems.add(Kind::Failed, "group a\u{1b}[2J has members");
        problems.add(Kind::Failed, "group b\nc has members");
        let failure = problems.into_result("some groups of d\r cannot be deleted").unwrap_err();
        assert_eq!(
            failure.to_string(),
            "some groups of d\\r cannot be deleted:\n  group a\\u{1b}[2J has members\n  group b\\nc has members"
        );
    }

    #[test]
    fn the_exit_code_is_that_of_all_or_the_general_one() {
        let of = |kinds: &[Kind]| {
            let mut problems = Problems::default();
            for kind in kinds {
                problems.add(*kind, "it went wrong");
            }
            problems.into_result("some went wrong").map_err(|failure| failure_kind(&failure))
        };
        assert_eq!(of(&[]), Ok(()));
        assert_eq!(of(&[Kind::Absent, Kind::Absent]), Err(Kind::Absent));
        assert_eq!(of(&[Kind::Absent, Kind::Unreachable]), Err(Kind::Failed));
    }
}
