//! One partition: what the assigner wants of us, what the handler has made of it, and what comes next.

use std::time::Duration;

use super::{Call, Handoff, WarmEnd};

/// How long a handler has before it is called again after it failed, the first time.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// And after it has failed many times.
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(30);
/// How often progress is reported. Every report is a write, and the deadlines of warming are minutes.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// What the assigner wants of us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// To have nothing to do with the partition.
    Nothing,
    /// To warm up.
    Warm { handoff: Handoff, current_owner: String },
    /// To work on it.
    Own { epoch: u64 },
    /// To let go of it and say so.
    Release { handoff: Handoff, new_owner: String },
    /// To let go of it without saying so by itself: this process ends, and says that of everything at once.
    Leave,
}

/// What the handler has.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Has {
    Nothing,
    /// It is warm, by the handoff with this id.
    Warmth(String),
    /// It has begun to warm up and did not finish.
    HalfWarm,
    /// It works.
    Work,
    /// It could not begin to work.
    Broken,
    /// It could not let go as it should.
    Unreleased,
}

/// A call of the handler that has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Busy {
    Warm { id: String, told: Option<WarmEnd> },
    Assign,
    Release,
    Cancel,
    Revoke,
}

/// Work that was begun and of which the handler has not said that it has ended.
#[derive(Clone, Debug)]
struct Work {
    epoch: u64,
    /// It is not ours any more. It stays so, whatever the assigner wants later: the handler has to end it and begin
    /// anew, since another may have worked meanwhile.
    is_lost: bool,
}

/// Whether the assigner knows how far we are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    No,
    /// It did not get through.
    Again {
        at: Duration,
    },
    /// It was sent, or there is an answer.
    Yes,
}

/// What a seat asks of the outside world.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Do {
    Own { epoch: u64 },
    Disown,
    Call(Call),
    EndWarm(WarmEnd),
    SayReady(Handoff),
    SayReleased(Handoff),
    SayProgress { handoff: Handoff, done: u64, total: u64 },
}

#[derive(Debug)]
pub(super) struct Seat {
    wanted: Wanted,
    /// What to want instead, unless the assigner says that nothing has changed. After a reconnect it repeats what it
    /// wants, one message after the other, and nothing is to be dropped between them.
    doubt: Option<Doubt>,
    has: Has,
    busy: Option<Busy>,
    work: Option<Work>,
    /// Whether it was said that the partition is ours.
    is_owned: bool,
    /// The handoff for which warming failed. It is not tried again; the assigner gives it up when its time is over.
    failed_warm: Option<String>,
    said: Said,
    failures: u32,
    not_before: Option<Duration>,
    progress: Progress,
}

#[derive(Debug)]
struct Doubt {
    /// When it ends by itself. If never, only an answer ends it.
    until: Option<Duration>,
    otherwise: Wanted,
}

#[derive(Debug, Default)]
struct Progress {
    done: u64,
    total: u64,
    said: Option<u64>,
    next_at: Duration,
}

impl Seat {
    pub(super) fn new() -> Self {
        Self {
            wanted: Wanted::Nothing,
            doubt: None,
            has: Has::Nothing,
            busy: None,
            work: None,
            is_owned: false,
            failed_warm: None,
            said: Said::No,
            failures: 0,
            not_before: None,
            progress: Progress::default(),
        }
    }

    pub(super) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// The assigner wants this. Said again, it wants to hear again how far we are.
    pub(super) fn want(&mut self, wanted: Wanted) {
        let is_confirmed = self.doubt.take().is_some() && self.wanted == wanted;
        if !is_confirmed {
            self.said = Said::No;
        }
        if self.wanted != wanted {
            self.wanted = wanted;
            self.failures = 0;
            self.not_before = None;
        }
    }

    /// Wants something else at that time, unless the present wish is repeated before. How far we are is said again: it
    /// may not have been heard.
    pub(super) fn doubt(&mut self, until: Option<Duration>, otherwise: Wanted) {
        self.doubt = Some(Doubt { until, otherwise });
        self.said = Said::No;
    }

    /// What was said about this handoff was refused. If it is in doubt, it is over; else it is said again at that time.
    pub(super) fn handle_refusal(&mut self, id: &str, again_at: Duration) {
        let is_release = match &self.wanted {
            Wanted::Release { handoff, .. } => handoff.id == id,
            _ => false,
        };
        match self.doubt.take_if(|_| is_release) {
            Some(Doubt { otherwise, .. }) => self.want(otherwise),
            None => self.handle_failure(id, again_at),
        }
    }

    /// What was said about this handoff did not get through.
    pub(super) fn handle_failure(&mut self, id: &str, again_at: Duration) {
        let is_meant = match &self.wanted {
            Wanted::Release { handoff, .. } | Wanted::Warm { handoff, .. } => handoff.id == id,
            _ => false,
        };
        if is_meant && self.said == Said::Yes {
            self.said = Said::Again { at: again_at };
        }
    }

    pub(super) fn handle_progress(&mut self, done: u64, total: u64) {
        self.progress.done = self.progress.done.max(done);
        self.progress.total = total;
    }

    /// The handler's call has returned.
    pub(super) fn handle_return(&mut self, now: Duration, is_ok: bool) {
        let Some(busy) = self.busy.take() else { return };
        match busy {
            Busy::Warm { id, told } => {
                let is_whole = match told {
                    None => is_ok,
                    // It was cut short because we own the partition now; that goes on from what there is.
                    Some(WarmEnd::Assigned) => is_ok && matches!(self.wanted, Wanted::Own { .. }),
                    Some(WarmEnd::Cancelled) => false,
                };
                if told.is_none() && !is_ok {
                    self.failed_warm = Some(id.clone());
                }
                self.has = if is_whole { Has::Warmth(id) } else { Has::HalfWarm };
            }
            Busy::Assign if is_ok => self.has = Has::Work,
            Busy::Assign => {
                self.has = Has::Broken;
                self.fail(now);
            }
            Busy::Release if is_ok => {
                self.has = Has::Nothing;
                self.work = None;
            }
            Busy::Release => {
                self.has = Has::Unreleased;
                self.fail(now);
            }
            Busy::Cancel => self.has = Has::Nothing,
            Busy::Revoke => {
                self.has = Has::Nothing;
                self.work = None;
            }
        }
    }

    fn fail(&mut self, now: Duration) {
        let pause = AGAIN_AFTER.saturating_mul(1 << self.failures.min(10)).min(AGAIN_AFTER_MAX);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + pause);
    }

    /// Does all that can be done now. Nothing can be said while the link is down.
    pub(super) fn settle(&mut self, now: Duration, is_linked: bool) -> Vec<Do> {
        let mut todo = Vec::new();
        let is_over = |doubt: &mut Doubt| doubt.until.is_some_and(|until| now >= until);
        if let Some(Doubt { otherwise, .. }) = self.doubt.take_if(is_over) {
            self.want(otherwise);
        }
        self.not_before = self.not_before.filter(|at| now < *at);
        self.lose();
        if self.is_owned && self.work.as_ref().is_none_or(|work| work.is_lost) {
            self.is_owned = false;
            todo.push(Do::Disown);
        }
        if let Some(busy) = &mut self.busy {
            if let Busy::Warm { id, told } = busy {
                let end = match &self.wanted {
                    Wanted::Warm { handoff, .. } if handoff.id == *id => None,
                    Wanted::Own { .. } => Some(WarmEnd::Assigned),
                    _ => Some(WarmEnd::Cancelled),
                };
                if let Some(end) = end.filter(|_| told.is_none()) {
                    *told = Some(end);
                    todo.push(Do::EndWarm(end));
                }
            }
        } else if let Some(call) = self.next_call() {
            self.begin(&call, &mut todo);
            todo.push(Do::Call(call));
        }
        if is_linked {
            self.say(now, &mut todo);
        }
        todo
    }

    /// Notices that the work is not ours any more.
    fn lose(&mut self) {
        let Some(work) = self.work.as_mut().filter(|work| !work.is_lost) else { return };
        let is_ours = match &self.wanted {
            Wanted::Own { epoch } => *epoch == work.epoch,
            Wanted::Release { .. } => true,
            Wanted::Leave => self.has != Has::Unreleased,
            Wanted::Nothing | Wanted::Warm { .. } => false,
        };
        let is_kept_after_failure = self.has == Has::Unreleased && matches!(self.wanted, Wanted::Own { .. });
        if !is_ours || self.has == Has::Broken || is_kept_after_failure {
            work.is_lost = true;
        }
    }

    fn next_call(&self) -> Option<Call> {
        let is_due = self.not_before.is_none();
        if self.work.as_ref().is_some_and(|work| work.is_lost) {
            return Some(Call::Revoke);
        }
        match (&self.has, &self.wanted) {
            (Has::Nothing, Wanted::Warm { handoff, current_owner }) => {
                let is_new = self.failed_warm.as_ref() != Some(&handoff.id);
                let (handoff, current_owner) = (handoff.clone(), current_owner.clone());
                is_new.then_some(Call::Warm { handoff, current_owner })
            }
            (Has::Nothing | Has::Warmth(_), Wanted::Own { epoch }) => {
                is_due.then_some(Call::Assign { epoch: *epoch })
            }
            (Has::Nothing, Wanted::Nothing | Wanted::Release { .. } | Wanted::Leave) => None,
            (Has::Warmth(id), Wanted::Warm { handoff, .. }) if *id == handoff.id => None,
            (Has::Warmth(_) | Has::HalfWarm, _) => Some(Call::Cancel),
            (Has::Work, Wanted::Own { .. }) => None,
            (Has::Work, Wanted::Release { .. } | Wanted::Leave) => Some(Call::Release),
            (Has::Unreleased, Wanted::Release { .. }) => is_due.then_some(Call::Release),
            (Has::Work | Has::Unreleased | Has::Broken, _) => Some(Call::Revoke),
        }
    }

    fn begin(&mut self, call: &Call, todo: &mut Vec<Do>) {
        self.busy = Some(match call {
            Call::Warm { handoff, .. } => {
                self.progress = Progress::default();
                Busy::Warm { id: handoff.id.clone(), told: None }
            }
            Call::Assign { epoch } => {
                self.work = Some(Work { epoch: *epoch, is_lost: false });
                self.is_owned = true;
                todo.push(Do::Own { epoch: *epoch });
                Busy::Assign
            }
            Call::Release => Busy::Release,
            Call::Cancel => Busy::Cancel,
            Call::Revoke => Busy::Revoke,
        });
    }

    fn say(&mut self, now: Duration, todo: &mut Vec<Do>) {
        if let (Some(Busy::Warm { told: None, .. }), Wanted::Warm { handoff, .. }) =
            (&self.busy, &self.wanted)
        {
            let Progress { done, total, said, next_at } = self.progress;
            if self.doubt.is_none() && said.is_none_or(|said| done > said) && done > 0 && now >= next_at {
                todo.push(Do::SayProgress { handoff: handoff.clone(), done, total });
                self.progress.said = Some(done);
                self.progress.next_at = now + PROGRESS_INTERVAL;
            }
        }
        let is_due = match self.said {
            Said::No => true,
            Said::Again { at } => now >= at,
            Said::Yes => false,
        };
        if !is_due || self.busy.is_some() {
            return;
        }
        match (&self.has, &self.wanted) {
            (Has::Warmth(id), Wanted::Warm { handoff, .. }) if *id == handoff.id => {
                todo.push(Do::SayReady(handoff.clone()));
                self.said = Said::Yes;
            }
            (Has::Nothing, Wanted::Release { handoff, .. }) => {
                todo.push(Do::SayReleased(handoff.clone()));
                self.said = Said::Yes;
            }
            _ => {}
        }
    }

    /// Whether the seat can be forgotten.
    pub(super) fn is_over(&self) -> bool {
        let is_unwanted = matches!(self.wanted, Wanted::Nothing | Wanted::Leave);
        is_unwanted && self.has == Has::Nothing && self.busy.is_none()
    }

    /// Whether the handler works on it or may do so.
    pub(super) fn is_working(&self) -> bool {
        self.work.is_some() || matches!(self.wanted, Wanted::Own { .. } | Wanted::Release { .. })
    }

    /// Whether a handler is warming up.
    pub(super) fn is_warming(&self) -> bool {
        matches!(self.busy, Some(Busy::Warm { .. }))
    }

    /// When to settle again if nothing happens before.
    pub(super) fn next_deadline(&self, is_linked: bool) -> Option<Duration> {
        let again = match self.said {
            Said::Again { at } if is_linked => Some(at),
            Said::Again { .. } | Said::No | Said::Yes => None,
        };
        let call = self.not_before.filter(|_| self.busy.is_none());
        let doubt = self.doubt.as_ref().and_then(|doubt| doubt.until);
        [again, call, doubt].into_iter().flatten().min()
    }
}
