//! The decisions of a consumer, without any I/O: what the assigner says, what the handler has done and the time go in,
//! and what is to be done comes out.

mod messages;

mod leaving;
mod link;
mod seat;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

pub(crate) use leaving::Outcome;
pub(crate) use link::LinkId;
pub use messages::WarmEnd;
pub(crate) use messages::{
    Action, Answer, Call, Command, Failure, FailureKind, Handoff, Loss, Request, Snapshot, Ticket,
};

use leaving::Life;
use link::{Lease, Link, PAUSE_MAX};
use seat::{Do, Seat, Wanted};

use crate::partition::Partition;

/// How long after a reconnect the assigner may take to repeat that we are to warm up.
const DOUBT: Duration = Duration::from_secs(2);
/// How long an instance may take to register us: it may have to ask Kafka for the topic.
const REGISTER_WITHIN: Duration = Duration::from_secs(10);
const REGISTER_WITHIN_MIN: Duration = Duration::from_millis(500);
/// How long to wait before something is said again that did not get through.
const SAY_AGAIN: Duration = Duration::from_millis(500);
/// How long to wait before something is said again that was refused although it is still wanted of us. The one who is
/// to take over may have been away for a moment.
const SAY_AGAIN_REFUSED: Duration = Duration::from_secs(5);
/// How long an acknowledgement may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// After so many calls in a row that were not answered another endpoint is tried.
const UNANSWERED_MAX: u32 = 2;

#[derive(Debug)]
struct Asked {
    request: Request,
    sent_at: Duration,
}

/// The decisions of one consumer.
#[derive(Debug)]
pub(crate) struct Machine {
    life: Life,
    link: Link,
    lease: Option<Lease>,
    /// When to say next that we live, unless that is being said.
    keep_alive_at: Option<Duration>,
    unanswered: u32,
    has_registered: bool,
    /// A registration was under way when we left, and may have reached the assigner.
    may_have_registered: bool,
    seats: BTreeMap<Partition, Seat>,
    /// The seats for which something is to be done at some time.
    timed: BTreeSet<Partition>,
    /// The epochs of those to whom we gave partitions. An assignment with a lower one was true once; we have heard
    /// since that it is over.
    given_away: BTreeMap<Partition, u64>,
    asked: BTreeMap<Ticket, Asked>,
    next_ticket: u64,
    actions: Vec<Action>,
}

impl Machine {
    /// A consumer that is about to connect; `seed` decides the pauses between attempts.
    pub(crate) fn new(endpoints: usize, seed: u64) -> Self {
        Self {
            life: Life::Working,
            link: Link::new(endpoints, seed),
            lease: None,
            keep_alive_at: None,
            unanswered: 0,
            has_registered: false,
            may_have_registered: false,
            seats: BTreeMap::new(),
            timed: BTreeSet::new(),
            given_away: BTreeMap::new(),
            asked: BTreeMap::new(),
            next_ticket: 0,
            actions: Vec::new(),
        }
    }

    /// What is to be done, in this order.
    #[must_use]
    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        mem::take(&mut self.actions)
    }

    /// Whether it comes to its end.
    pub(crate) fn is_leaving(&self) -> bool {
        self.life.is_leaving()
    }

    /// Whether it is about to leave, or does so.
    pub(crate) fn is_going(&self) -> bool {
        !matches!(self.life, Life::Working)
    }

    /// The partitions whose handlers are warming up, to be asked for their progress.
    pub(crate) fn warming(&self) -> impl Iterator<Item = &Partition> {
        self.seats.iter().filter(|(_, seat)| seat.is_warming()).map(|(partition, _)| partition)
    }

    /// The assigner says something.
    pub(crate) fn handle_command(&mut self, now: Duration, link: LinkId, command: Command) {
        self.check_lease(now);
        if !self.link.is(link) || self.life.is_leaving() {
            return;
        }
        if !self.link.is_up() && !matches!(command, Command::Assignment { snapshot: Some(_), .. }) {
            // Whatever this is, it does not keep the contract.
            self.drop_link(now);
            return;
        }
        match command {
            Command::Assignment { assigned, unassigned: _, snapshot: Some(snapshot) } => {
                self.handle_snapshot(now, assigned, snapshot);
            }
            Command::Assignment { assigned, unassigned, snapshot: None } => {
                for partition in unassigned {
                    self.want_if_known(now, &partition, Wanted::Nothing);
                }
                for (partition, epoch) in assigned {
                    if self.is_current(&partition, epoch) {
                        self.want(now, &partition, Wanted::Own { epoch });
                    }
                }
            }
            Command::Warm { partition, handoff, current_owner } => {
                self.want(now, &partition, Wanted::Warm { handoff, current_owner });
            }
            Command::Release { partition, handoff, new_owner } => {
                self.want(now, &partition, Wanted::Release { handoff, new_owner });
            }
            Command::Cancel { partition, id } => {
                let wanted = self.seats.get(&partition).map(Seat::wanted);
                if let Some(Wanted::Warm { handoff, .. }) = wanted
                    && handoff.id == id
                {
                    self.want(now, &partition, Wanted::Nothing);
                }
            }
        }
        self.advance(now);
    }

    fn handle_snapshot(&mut self, now: Duration, assigned: Vec<(Partition, u64)>, snapshot: Snapshot) {
        // A connection begins with one. Later ones say what the first said.
        let sent_at = self.link.handle_up(now);
        if let Some(sent_at) = sent_at {
            self.has_registered = true;
            self.unanswered = 0;
            let is_new = self.lease.is_none();
            let lease = Lease::new(snapshot.lease_ttl, snapshot.keep_alive_interval, sent_at);
            self.keep_alive_at = Some(sent_at + lease.interval());
            self.lease = Some(lease);
            self.actions.push(Action::Until { stop_at: lease.stop_at(), is_new });
            if now >= lease.stop_at() {
                self.lose_lease(now, Loss::Unheard);
                return;
            }
        }
        let mut assigned: BTreeMap<Partition, u64> = assigned.into_iter().collect();
        assigned.retain(|partition, epoch| self.is_current(partition, *epoch));
        for (partition, seat) in &mut self.seats {
            match (seat.wanted(), assigned.remove(partition)) {
                // The release itself is about to be repeated, unless it was given up. Time does not tell which: what
                // we have said of it may still arrive. The answer to it does.
                (Wanted::Release { handoff, .. }, Some(epoch)) if epoch < handoff.epoch => {
                    seat.doubt(None, Wanted::Own { epoch });
                }
                (_, Some(epoch)) => seat.want(Wanted::Own { epoch }),
                (Wanted::Warm { .. }, None) => seat.doubt(Some(now + DOUBT), Wanted::Nothing),
                (_, None) => seat.want(Wanted::Nothing),
            }
        }
        for (partition, epoch) in assigned {
            self.seats.entry(partition).or_insert_with(Seat::new).want(Wanted::Own { epoch });
        }
        self.settle_all(now);
    }

    /// The connection is gone, or could not be made.
    pub(crate) fn handle_disconnected(&mut self, now: Duration, link: LinkId, failure: &Failure) {
        self.check_lease(now);
        if !self.link.is(link) {
            return;
        }
        match failure.kind {
            FailureKind::Fenced => self.fence(now),
            FailureKind::Hopeless if !self.has_registered => {
                self.leave(now, Outcome::Refused(failure.message.clone()));
            }
            FailureKind::Unregistered => {
                // It is not our silence that ended the lease, or we would know: others may work by now.
                self.lose_registration(now);
                if !self.link.is_down() {
                    self.handle_down(now);
                }
            }
            FailureKind::Later | FailureKind::Refused | FailureKind::Hopeless => self.handle_down(now),
        }
        self.advance(now);
    }

    /// A call of the handler has returned.
    pub(crate) fn handle_return(&mut self, now: Duration, partition: &Partition, is_ok: bool) {
        self.check_lease(now);
        if let Some(seat) = self.seats.get_mut(partition) {
            seat.handle_return(now, is_ok);
            self.settle(now, partition);
        }
        self.advance(now);
    }

    /// The handler is so far with warming up.
    pub(crate) fn handle_progress(&mut self, now: Duration, partition: &Partition, done: u64, total: u64) {
        self.check_lease(now);
        if let Some(seat) = self.seats.get_mut(partition) {
            seat.handle_progress(done, total);
            self.settle(now, partition);
        }
    }

    /// The assigner has answered, or could not.
    pub(crate) fn handle_answer(&mut self, now: Duration, ticket: Ticket, result: Result<Answer, Failure>) {
        self.check_lease(now);
        let Some(Asked { request, sent_at }) = self.asked.remove(&ticket) else { return };
        let is_old = self.lease.is_some_and(|lease| sent_at < lease.registered_at());
        let mut result = result;
        if let Err(failure) = &mut result {
            match failure.kind {
                FailureKind::Fenced => self.fence(now),
                // It is about the registration before the present one.
                FailureKind::Unregistered if is_old => failure.kind = FailureKind::Later,
                FailureKind::Unregistered => self.lose_registration(now),
                FailureKind::Later | FailureKind::Refused | FailureKind::Hopeless => {}
            }
        }
        match request {
            Request::KeepAlive if is_old => {}
            Request::KeepAlive => self.handle_alive(now, sent_at, &result),
            Request::Ready { partition, handoff } => {
                self.handle_said(now, &partition, &handoff, result.map(|_| None));
            }
            Request::Released { partition, handoff } => {
                let given_away = Some(handoff.epoch);
                self.handle_said(now, &partition, &handoff, result.map(|_| given_away));
            }
            Request::Progress { .. } => {}
            Request::Deregister { has_stopped } => self.handle_deregistered(now, has_stopped, result),
        }
        self.advance(now);
    }

    fn handle_alive(&mut self, now: Duration, sent_at: Duration, result: &Result<Answer, Failure>) {
        let Some(lease) = &mut self.lease else { return };
        match result {
            Ok(answer) => {
                if let Answer::Alive { lease_ttl } = answer {
                    lease.renew(*lease_ttl, sent_at);
                }
                self.unanswered = 0;
                self.keep_alive_at = Some(sent_at + lease.interval());
                self.actions.push(Action::Until { stop_at: lease.stop_at(), is_new: false });
            }
            // Whatever the reason, another endpoint may do better, and until then the lease decides.
            Err(_) => {
                self.unanswered += 1;
                self.keep_alive_at = Some(now + lease.answer_within() / 4);
                if self.unanswered >= UNANSWERED_MAX && self.link.is_up() {
                    self.drop_link(now);
                }
            }
        }
    }

    /// An acknowledgement was answered. When a partition was given away, `given_away` is the epoch of its new owner.
    fn handle_said(
        &mut self,
        now: Duration,
        partition: &Partition,
        handoff: &Handoff,
        result: Result<Option<u64>, Failure>,
    ) {
        if let Ok(Some(epoch)) = result {
            let known = self.given_away.entry(partition.clone()).or_insert(epoch);
            *known = epoch.max(*known);
        }
        // The same may have been said over another connection too, and may still be heard there.
        let is_open = self.asked.values().any(|asked| match &asked.request {
            Request::Released { partition: place, handoff: said } => {
                place == partition && said.id == handoff.id
            }
            _ => false,
        });
        let Some(seat) = self.seats.get_mut(partition) else { return };
        match result {
            Ok(None) => {}
            Ok(Some(given_away)) => {
                let is_over = match seat.wanted() {
                    Wanted::Release { handoff: wanted, .. } => wanted.id == handoff.id,
                    Wanted::Own { epoch } => *epoch < given_away,
                    Wanted::Nothing | Wanted::Warm { .. } | Wanted::Leave => false,
                };
                if is_over {
                    seat.want(Wanted::Nothing);
                }
            }
            Err(_) if is_open => {}
            Err(failure) if failure.kind == FailureKind::Refused => {
                seat.handle_refusal(&handoff.id, now + SAY_AGAIN_REFUSED);
            }
            Err(_) => seat.handle_failure(&handoff.id, now + SAY_AGAIN),
        }
        self.settle(now, partition);
    }

    /// The time has come that [`Self::next_deadline`] named, or a later one.
    pub(crate) fn handle_time(&mut self, now: Duration) {
        self.check_lease(now);
        for partition in self.timed.clone() {
            self.settle(now, &partition);
        }
        self.advance(now);
    }

    /// Somebody looked at the clock before us and was told that the lease is over. So it is.
    pub(crate) fn handle_over(&mut self, now: Duration) {
        if self.lease.is_some() {
            self.lose_lease(now, Loss::Unheard);
            self.advance(now);
        }
    }

    /// When to call [`Self::handle_time`] if nothing else happens first.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let is_linked = self.link.is_up();
        let seats = self.timed.iter().filter_map(|partition| self.seats.get(partition));
        let seat = seats.filter_map(|seat| seat.next_deadline(is_linked)).min();
        let link = self.link.next_deadline().filter(|_| !self.life.is_leaving());
        let keep_alive = self.keep_alive_at.filter(|_| is_linked);
        let stop = self.lease.map(|lease| lease.stop_at());
        [seat, link, keep_alive, stop, self.life.next_deadline(is_linked)].into_iter().flatten().min()
    }

    /// Does what is due and concerns no partition by itself.
    fn advance(&mut self, now: Duration) {
        if !self.life.is_leaving()
            && let Some((link, endpoint)) = self.link.connect(now)
        {
            // While there is a lease to keep, one endpoint that hangs must not use up all its time.
            let left = self.lease.map_or(REGISTER_WITHIN, |lease| lease.stop_at().saturating_sub(now) / 2);
            let within = left.clamp(REGISTER_WITHIN_MIN, REGISTER_WITHIN);
            self.actions.push(Action::Connect { link, endpoint, within });
        }
        if let Some(lease) = self.lease
            && self.link.is_up()
            && self.keep_alive_at.is_some_and(|at| now >= at)
        {
            self.keep_alive_at = None;
            self.send(now, Request::KeepAlive, lease.answer_within());
        }
        self.advance_life(now);
    }

    fn send(&mut self, now: Duration, request: Request, within: Duration) {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.asked.insert(ticket, Asked { request: request.clone(), sent_at: now });
        self.actions.push(Action::Send { ticket, request, within });
    }

    fn is_current(&self, partition: &Partition, epoch: u64) -> bool {
        self.given_away.get(partition).is_none_or(|given_away| epoch > *given_away)
    }

    fn want(&mut self, now: Duration, partition: &Partition, wanted: Wanted) {
        self.seats.entry(partition.clone()).or_insert_with(Seat::new).want(wanted);
        self.settle(now, partition);
    }

    fn want_if_known(&mut self, now: Duration, partition: &Partition, wanted: Wanted) {
        if self.seats.contains_key(partition) {
            self.want(now, partition, wanted);
        }
    }

    fn want_of_all(&mut self, now: Duration, wanted: &Wanted) {
        for seat in self.seats.values_mut() {
            seat.want(wanted.clone());
        }
        self.settle_all(now);
    }

    fn settle_all(&mut self, now: Duration) {
        let partitions: Vec<Partition> = self.seats.keys().cloned().collect();
        for partition in partitions {
            self.settle(now, &partition);
        }
    }

    fn settle(&mut self, now: Duration, partition: &Partition) {
        let is_linked = self.link.is_up();
        let Some(seat) = self.seats.get_mut(partition) else { return };
        let todo = seat.settle(now, is_linked);
        if seat.next_deadline(true).is_some() {
            self.timed.insert(partition.clone());
        } else {
            self.timed.remove(partition);
        }
        if seat.is_over() {
            self.seats.remove(partition);
        }
        for item in todo {
            let partition = partition.clone();
            match item {
                Do::Own { epoch } => self.actions.push(Action::Own { partition, epoch }),
                Do::Disown => self.actions.push(Action::Disown { partition }),
                Do::Call(call) => self.actions.push(Action::Call { partition, call }),
                Do::EndWarm(end) => self.actions.push(Action::EndWarm { partition, end }),
                Do::SayReady(handoff) => self.send(now, Request::Ready { partition, handoff }, ANSWER_WITHIN),
                Do::SayReleased(handoff) => {
                    self.send(now, Request::Released { partition, handoff }, ANSWER_WITHIN);
                }
                Do::SayProgress { handoff, done, total } => {
                    self.send(now, Request::Progress { partition, handoff, done, total }, ANSWER_WITHIN);
                }
            }
        }
    }

    fn drop_link(&mut self, now: Duration) {
        self.actions.push(Action::Disconnect);
        self.handle_down(now);
    }

    fn handle_down(&mut self, now: Duration) {
        self.link.handle_down(now, self.lease.map_or(PAUSE_MAX, |lease| lease.pause_max()));
    }

    /// After so long without an answer others may be given what we own.
    fn check_lease(&mut self, now: Duration) {
        if self.lease.is_some_and(|lease| now >= lease.stop_at()) {
            self.lose_lease(now, Loss::Unheard);
        }
    }

    /// The assigner does not know us any more. To someone who has stopped that is no news.
    fn lose_registration(&mut self, now: Duration) {
        if self.lease.is_some() && !(self.life.is_leaving() && self.seats.is_empty()) {
            self.lose_lease(now, Loss::Unregistered);
        }
    }

    /// Nothing is ours any more. What we own after the next connection begins anew.
    fn lose_lease(&mut self, now: Duration, loss: Loss) {
        self.lease = None;
        self.keep_alive_at = None;
        self.given_away.clear();
        self.actions.push(Action::Stopped(loss));
        self.want_of_all(now, &Wanted::Nothing);
        if self.link.is_up() {
            self.drop_link(now);
        }
        self.leave_if_draining(now);
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod walks;
