//! How a consumer comes to its end: it leaves, it is stopped, or another process takes its name.

use std::time::Duration;

use super::seat::{Seat, Wanted};
use super::{ANSWER_WITHIN, Action, Answer, Failure, FailureKind, Machine, Request, SAY_AGAIN};

/// How long the last word may take, and how often it is tried: at every endpoint, if there are not too many. If nobody
/// hears it the lease ends by itself.
const LAST_WORD_WITHIN: Duration = Duration::from_secs(3);
const LAST_WORD_ATTEMPTS: usize = 3;
const LAST_WORD_ATTEMPTS_MAX: usize = 6;
/// How often to ask again while others take over what we own: they may all be gone by then.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// How everything ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As it was asked to.
    Left,
    /// Another process has taken the name.
    Fenced,
    /// The assigner does not want us, for this reason.
    Refused(String),
}

#[derive(Debug)]
pub(super) enum Life {
    Working,
    /// Others take over what we own.
    Draining {
        ask_at: Option<Duration>,
        /// Whether it was asked after there was nothing left.
        asked_when_drained: bool,
    },
    /// The handler ends all work; then that is said.
    Leaving {
        outcome: Outcome,
        attempts: usize,
        last_word: LastWord,
    },
    Ended,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum LastWord {
    NotYet,
    Asked,
    Again { at: Duration },
}

impl Life {
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self, Self::Leaving { .. } | Self::Ended)
    }

    pub(super) fn next_deadline(&self, is_linked: bool) -> Option<Duration> {
        match self {
            Self::Draining { ask_at, .. } => ask_at.filter(|_| is_linked),
            Self::Leaving { last_word: LastWord::Again { at }, .. } => Some(*at),
            Self::Working | Self::Leaving { .. } | Self::Ended => None,
        }
    }
}

impl Machine {
    /// Leaves when others have taken over what we own.
    pub(crate) fn deregister(&mut self, now: Duration) {
        self.check_lease(now);
        if matches!(self.life, Life::Working) {
            self.life = Life::Draining { ask_at: Some(now), asked_when_drained: false };
            // Nothing is owned that would have to be handed over.
            if self.lease.is_none() {
                self.leave(now, Outcome::Left);
            }
        }
        self.advance(now);
    }

    /// Ends all work now, and leaves.
    pub(crate) fn stop(&mut self, now: Duration) {
        self.check_lease(now);
        if !self.life.is_leaving() {
            self.leave(now, Outcome::Left);
        }
        self.advance(now);
    }

    /// Another process has taken our name and is told what we own as soon as we say that we have stopped.
    pub(super) fn fence(&mut self, now: Duration) {
        match &mut self.life {
            Life::Ended | Life::Leaving { outcome: Outcome::Fenced, .. } => return,
            Life::Leaving { outcome, .. } => *outcome = Outcome::Fenced,
            Life::Working | Life::Draining { .. } => {
                let last_word = LastWord::NotYet;
                self.life = Life::Leaving { outcome: Outcome::Fenced, attempts: 0, last_word };
            }
        }
        self.keep_alive_at = None;
        self.actions.push(Action::Fenced);
        self.want_of_all(now, &Wanted::Nothing);
        if !self.link.is_down() {
            self.drop_link(now);
        }
    }

    pub(super) fn leave(&mut self, now: Duration, outcome: Outcome) {
        self.may_have_registered = outcome == Outcome::Left && self.link.is_connecting();
        self.life = Life::Leaving { outcome, attempts: 0, last_word: LastWord::NotYet };
        self.want_of_all(now, &Wanted::Leave);
        // Work may take a while to end, and what it does until then counts as long as the lease is renewed.
        if !self.link.is_up() && !self.link.is_down() {
            self.drop_link(now);
        }
    }

    pub(super) fn leave_if_draining(&mut self, now: Duration) {
        if matches!(self.life, Life::Draining { .. }) {
            self.leave(now, Outcome::Left);
        }
    }

    pub(super) fn handle_deregistered(
        &mut self,
        now: Duration,
        has_stopped: bool,
        result: Result<Answer, Failure>,
    ) {
        match &mut self.life {
            Life::Draining { ask_at, .. } if !has_stopped => match result {
                Ok(Answer::ShutDownNow) => self.leave(now, Outcome::Left),
                Err(failure) if failure.kind == FailureKind::Later => *ask_at = Some(now + SAY_AGAIN),
                Ok(_) | Err(_) => *ask_at = Some(now + ASK_AGAIN),
            },
            Life::Leaving { attempts, last_word, .. } if has_stopped => {
                let is_lost = matches!(&result, Err(failure)
                    if matches!(failure.kind, FailureKind::Later | FailureKind::Hopeless));
                let attempts_max = self.link.endpoints().clamp(LAST_WORD_ATTEMPTS, LAST_WORD_ATTEMPTS_MAX);
                if is_lost && *attempts < attempts_max {
                    *last_word = LastWord::Again { at: now + SAY_AGAIN };
                    // That instance may be gone itself.
                    if !self.link.is_down() {
                        self.drop_link(now);
                    }
                    self.actions.push(Action::Turn { endpoint: self.link.take_turn() });
                } else {
                    self.end();
                }
            }
            Life::Working | Life::Draining { .. } | Life::Leaving { .. } | Life::Ended => {}
        }
    }

    pub(super) fn advance_life(&mut self, now: Duration) {
        match &mut self.life {
            Life::Working | Life::Ended => {}
            Life::Draining { ask_at, asked_when_drained } => {
                let is_drained = !self.seats.values().any(Seat::is_working);
                let is_due = ask_at.is_some_and(|at| now >= at || (is_drained && !*asked_when_drained));
                if is_due && self.link.is_up() {
                    *ask_at = None;
                    *asked_when_drained = is_drained;
                    self.send(now, Request::Deregister { has_stopped: false }, ANSWER_WITHIN);
                }
            }
            Life::Leaving { attempts, last_word, .. } => {
                if !self.seats.is_empty() {
                    return;
                }
                if !self.has_registered && !self.may_have_registered {
                    self.end();
                    return;
                }
                let is_due = match last_word {
                    LastWord::NotYet => true,
                    LastWord::Asked => false,
                    LastWord::Again { at } => now >= *at,
                };
                if is_due {
                    *last_word = LastWord::Asked;
                    *attempts += 1;
                    self.send(now, Request::Deregister { has_stopped: true }, LAST_WORD_WITHIN);
                }
            }
        }
    }

    fn end(&mut self) {
        let life = std::mem::replace(&mut self.life, Life::Ended);
        if !self.link.is_down() {
            self.actions.push(Action::Disconnect);
        }
        self.lease = None;
        self.keep_alive_at = None;
        if let Life::Leaving { outcome, .. } = life {
            self.actions.push(Action::End(outcome));
        }
    }
}
