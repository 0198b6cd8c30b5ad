//! One shard at work: the machine behind its lock, its records on their way to the disk, its replies behind them.
//!
//! A step takes the lock, lets the machine decide, gathers the records it emits and lets go. If no flush is under way
//! the step starts one; otherwise the flush that is takes the next one along when it ends. So a thousand commits that
//! come while the disk is busy are one batch, and no step ever waits.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use coordination::error_code::ErrorCode;
use coordination::group::{Effects, Now, Shard, Ticket, Timestamp, Usage};
use coordination::ids::{OrgId, TopicId};
use coordination::reply::Reply;
use coordination::{op, reply};
use rail::{Durable, Progress};
use store::PartitionLog;

use super::Shared;
use super::flush::Flush;
use super::gathering::{Gathering, Split};
use super::step::{DeletedTopic, NotReady, Parked, Step, Stepped};
use crate::share::Share;

/// All groups of one partition of an organisation's `__consumer_offsets`.
#[derive(Debug)]
pub(crate) struct GroupShard {
    pub(crate) org: OrgId,
    /// The partition's number.
    pub(crate) partition: u32,
    pub(crate) log: Arc<PartitionLog>,
    /// What the organisation may have.
    pub(crate) share: Arc<Share>,
    pub(crate) shared: Arc<Shared>,
    /// Held for one step of the machine, never while anything is waited for.
    state: Mutex<State>,
    /// When the machine has to be called next, in milliseconds; [`NEVER`] if it need not.
    due: AtomicU64,
    /// Appends that were queued and have not ended.
    pub(super) outstanding: AtomicUsize,
    /// How often in a row it had to be read back.
    failures: AtomicU32,
}

/// There is nothing to wait for.
pub(crate) const NEVER: u64 = u64::MAX;

#[derive(Debug)]
enum State {
    /// It is being read from the log. Topics that are deleted meanwhile are told to the machine afterwards.
    Loading {
        deleted: Vec<DeletedTopic>,
    },
    Live(Box<Live>),
    /// The log holds what cannot be understood; going on without it would lose it.
    Unreadable,
    /// The organisation is gone.
    Closed,
}

/// A machine with what it has promised.
#[derive(Debug)]
pub(crate) struct Live {
    machine: Shard,
    effects: Effects,
    gathering: Gathering,
    progress: Arc<Progress>,
    /// The flush that holds the last record that was emitted; it may be under way, or still be gathered.
    last_flush: u64,
    /// The flush that is under way, if any.
    flushing: Option<u64>,
    /// No flush begins until the store has caught up.
    resting: bool,
    parked: HashMap<u64, Parked>,
    /// Replies to parked requests that wait for a flush, in the order of flushes.
    held: Vec<Held>,
    /// Topics that the log may still have offsets of. They are gone whatever becomes of the flush, so a shard that is
    /// read back is told again.
    deleted: Vec<DeletedTopic>,
    usage: Usage,
}

#[derive(Debug)]
struct Held {
    flush: u64,
    sender: oneshot::Sender<Reply>,
    reply: Reply,
    refusal: Reply,
}

impl GroupShard {
    pub(crate) fn new(
        org: OrgId,
        partition: u32,
        log: Arc<PartitionLog>,
        share: Arc<Share>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            org,
            partition,
            log,
            share,
            shared,
            state: Mutex::new(State::Loading { deleted: Vec::new() }),
            due: AtomicU64::new(NEVER),
            outstanding: AtomicUsize::new(0),
            failures: AtomicU32::new(0),
        }
    }

    /// A member is still there: the one request that emits nothing, waits for nothing and is asked for all the time.
    pub(crate) fn heartbeat(self: &Arc<Self>, op: &op::Heartbeat) -> Option<ErrorCode> {
        // Before the lock, which is shared by all members of a large group: that another request is a moment ahead does
        // not matter to the end of a session. Elsewhere it is under the lock, so that time never goes back.
        let now = self.shared.clock.now();
        let mut state = self.state.lock();
        match &mut *state {
            State::Live(live) => {
                let machine = &mut live.machine;
                match catch_unwind(AssertUnwindSafe(|| machine.handle_heartbeat(now, op))) {
                    Ok(reply::Heartbeat { error }) => error,
                    Err(_) => {
                        self.drop_after_panic(&mut state);
                        Some(ErrorCode::NotCoordinator)
                    }
                }
            }
            // As Kafka: whoever is a member will be found to be one, and must not be sent away meanwhile.
            State::Loading { .. } => None,
            State::Unreadable | State::Closed => Some(ErrorCode::NotCoordinator),
        }
    }

    /// Has the machine do one thing; its records go on their way.
    pub(crate) fn step<T>(
        self: &Arc<Self>,
        split: Split,
        work: impl FnOnce(&mut Step<'_>) -> T,
    ) -> Result<Stepped<T>, NotReady> {
        let mut state = self.state.lock();
        let now = self.shared.clock.now();
        let live = match &mut *state {
            State::Live(live) => live,
            State::Loading { .. } => return Err(NotReady::Loading),
            State::Unreadable | State::Closed => return Err(NotReady::Gone),
        };
        let Live { machine, effects, parked, deleted, .. } = &mut **live;
        let mut step = Step { machine, now, effects, parked, deleted };
        let Ok(value) = catch_unwind(AssertUnwindSafe(|| work(&mut step))) else {
            self.drop_after_panic(&mut state);
            return Err(NotReady::Gone);
        };
        let Ok(flush) = self.take_up(live, now, split) else {
            tracing::error!(org = %self.org, partition = self.partition, "records do not fit into a batch");
            self.drop_live(&mut state);
            return Err(NotReady::Gone);
        };
        let until = (live.last_flush > live.progress.durable())
            .then(|| Durable::new(Arc::clone(&live.progress), live.last_flush));
        self.set_due(live.machine.next_deadline());
        drop(state);
        if let Some(flush) = flush {
            flush.write();
        }
        Ok(Stepped { value, until })
    }

    /// Looks at what is there; nothing changes.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Shard) -> T) -> Result<Stepped<T>, NotReady> {
        let state = self.state.lock();
        match &*state {
            State::Live(live) => {
                let value = look(&live.machine);
                let until = (live.last_flush > live.progress.durable())
                    .then(|| Durable::new(Arc::clone(&live.progress), live.last_flush));
                Ok(Stepped { value, until })
            }
            State::Loading { .. } => Err(NotReady::Loading),
            State::Unreadable | State::Closed => Err(NotReady::Gone),
        }
    }

    /// A topic is gone, and so are the offsets that groups have in it.
    pub(crate) fn topic_deleted(self: &Arc<Self>, name: &Arc<str>, id: TopicId) {
        loop {
            if let State::Loading { deleted } = &mut *self.state.lock() {
                deleted.push(DeletedTopic { name: Arc::clone(name), id, flush: None });
                return;
            }
            let told = self.step(Split::Anywhere, |step| {
                step.machine.handle_topic_deleted(step.now, name, id, step.effects);
                step.deleted.push(DeletedTopic { name: Arc::clone(name), id, flush: None });
            });
            // Unless it has begun to load in between.
            if told.err() != Some(NotReady::Loading) {
                return;
            }
        }
    }

    /// Does what is due.
    pub(crate) fn handle_deadlines(self: &Arc<Self>) {
        // A shard that is being loaded has no deadlines.
        let _ = self.step(Split::Anywhere, |step| step.machine.handle_deadlines(step.now, step.effects));
    }

    /// Forgets what is too old.
    pub(crate) fn expire(self: &Arc<Self>) {
        // A shard that is being loaded has its turn the next time.
        let _ = self.step(Split::Anywhere, |step| step.machine.handle_expiry(step.now, step.effects));
    }

    /// When the machine has to be called next, in milliseconds.
    pub(crate) fn due(&self) -> u64 {
        // In one order with the timer's look at what is due and at when it sleeps.
        self.due.load(Ordering::SeqCst)
    }

    /// Puts a machine that was read back to work.
    pub(crate) fn go_live(self: &Arc<Self>, mut machine: Shard) {
        let now = self.shared.clock.now();
        let mut effects = Effects::default();
        let mut state = self.state.lock();
        let State::Loading { deleted } = &mut *state else { return };
        machine.configure(self.shared.settings());
        machine.handle_loaded(now, &mut effects);
        let mut forgotten = std::mem::take(deleted);
        for topic in &mut forgotten {
            topic.flush = None;
            machine.handle_topic_deleted(now, &topic.name, topic.id, &mut effects);
        }
        *state = State::Live(Box::new(Live {
            machine,
            effects,
            gathering: Gathering::default(),
            progress: Arc::default(),
            last_flush: 0,
            flushing: None,
            resting: false,
            parked: HashMap::new(),
            held: Vec::new(),
            deleted: forgotten,
            usage: Usage::default(),
        }));
        drop(state);
        // An empty step takes up what loading has left to do.
        let _ = self.step(Split::Anywhere, |_| ());
    }

    /// Takes note that the log cannot be understood. Only a person can help.
    pub(crate) fn give_up(&self) {
        let mut state = self.state.lock();
        if let State::Loading { .. } = &*state {
            *state = State::Unreadable;
        }
    }

    /// Ends for good, with all its groups: the organisation is gone.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        if let State::Live(live) = std::mem::replace(&mut *state, State::Closed) {
            drop(self.send_away(*live));
        }
    }

    /// Whether it has ended for good, so that there is nothing to read back.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(&*self.state.lock(), State::Closed)
    }

    /// Whether nothing is on its way to the disk, so that the log can be read back.
    pub(crate) fn is_quiet(&self) -> bool {
        self.outstanding.load(Ordering::Acquire) == 0
    }

    /// Takes note that it has to be read back.
    pub(crate) fn count_failure(&self) {
        // Pauses have long reached their bound where this would wrap.
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// How often in a row it had to be read back.
    pub(crate) fn failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Answers what is parked: the broker ends.
    pub(crate) fn refuse_parked(&self) {
        if let State::Live(live) = &mut *self.state.lock() {
            live.refuse_parked();
        }
    }

    /// Forgets a parked request whose client has gone. The member stays, as in Kafka.
    pub(crate) fn forget(&self, ticket: Ticket) {
        if let State::Live(live) = &mut *self.state.lock() {
            live.parked.remove(&ticket.0);
        }
    }

    /// How many requests are parked.
    #[cfg(test)]
    pub(crate) fn parked(&self) -> usize {
        match &*self.state.lock() {
            State::Live(live) => live.parked.len(),
            _ => 0,
        }
    }

    /// Gathers what the machine has emitted, and sends replies that need not wait.
    fn take_up(
        self: &Arc<Self>,
        live: &mut Live,
        now: Now,
        split: Split,
    ) -> Result<Option<Flush>, batch::BatchError> {
        if !live.effects.records.is_empty() {
            self.shared.metrics.emitted(self.org, &live.effects.records);
            live.gathering.push(&mut live.effects, now.wall_ms, split)?;
            live.last_flush = live.flushing.unwrap_or(live.progress.durable()) + 1;
        }
        if !live.deleted.is_empty() {
            for topic in &mut live.deleted {
                topic.flush.get_or_insert(live.last_flush);
            }
            let durable = live.progress.durable();
            live.deleted.retain(|topic| topic.flush.is_none_or(|flush| flush > durable));
        }
        let usage = live.machine.usage();
        if usage != live.usage {
            self.shared.usage.replace(live.usage, usage);
            self.share.replace(live.usage, usage);
            live.usage = usage;
        }
        if !live.effects.replies.is_empty() {
            deliver(live);
        }
        // Nobody waits for a broker that ends; who is answered already is not sent away.
        if self.shared.is_draining() {
            live.refuse_parked();
        }
        Ok(self.next_flush(live))
    }

    /// What to write now, if there is something and nothing is under way.
    fn next_flush(self: &Arc<Self>, live: &mut Live) -> Option<Flush> {
        if live.flushing.is_some() || live.resting || live.gathering.is_empty() {
            return None;
        }
        let number = live.progress.durable() + 1;
        live.flushing = Some(number);
        let (records, bytes) = live.gathering.size();
        self.shared.metrics.flushed(records, bytes);
        Some(Flush {
            shard: Arc::clone(self),
            progress: Arc::clone(&live.progress),
            number,
            gathered: live.gathering.take(),
        })
    }

    /// A flush has ended.
    pub(super) fn landed(self: &Arc<Self>, progress: &Arc<Progress>, number: u64, is_durable: bool) {
        let mut state = self.state.lock();
        let State::Live(live) = &mut *state else { return };
        if !Arc::ptr_eq(&live.progress, progress) {
            // That shard was dropped, and everybody has been told.
            return;
        }
        if !is_durable {
            self.drop_live(&mut state);
            return;
        }
        self.failures.store(0, Ordering::Relaxed);
        live.flushing = None;
        live.deleted.retain(|topic| topic.flush.is_none_or(|flush| flush > number));
        let woken = progress.advance(number);
        let ready = live.held.iter().take_while(|held| held.flush <= number).count();
        let ready: Vec<Held> = live.held.drain(..ready).collect();
        // What is gathered waits while the store has too much to settle: who commits slows down, nothing fails.
        live.resting = self.rest();
        let flush = self.next_flush(live);
        drop(state);
        // The next flush first: the disk should not wait for those who hear of the last one.
        if let Some(flush) = flush {
            flush.write();
        }
        for Held { sender, reply, .. } in ready {
            let _ = sender.send(reply);
        }
        woken.wake();
    }

    /// Whether the next flush has to wait for the store, and has it resume then.
    fn rest(self: &Arc<Self>) -> bool {
        if self.shared.has_ended() {
            return false;
        }
        let Some(store) = self.shared.store.upgrade().filter(|store| store.is_behind()) else { return false };
        let shard = Arc::clone(self);
        self.shared.spawn(async move {
            store.caught_up().await;
            drop(store);
            shard.resume();
        });
        true
    }

    /// Writes what was gathered while it rested.
    pub(crate) fn resume(self: &Arc<Self>) {
        let flush = match &mut *self.state.lock() {
            State::Live(live) => {
                live.resting = false;
                self.next_flush(live)
            }
            State::Loading { .. } | State::Unreadable | State::Closed => None,
        };
        if let Some(flush) = flush {
            flush.write();
        }
    }

    fn drop_after_panic(self: &Arc<Self>, state: &mut State) {
        tracing::error!(org = %self.org, partition = self.partition, "a step of the groups panicked; they are read back");
        self.drop_live(state);
    }

    /// Memory is ahead of the log, or is not to be trusted: forgets it and has it read back. Everybody who waits is
    /// told that this is not the coordinator, so that they come back.
    fn drop_live(self: &Arc<Self>, state: &mut State) {
        let State::Live(live) = std::mem::replace(state, State::Loading { deleted: Vec::new() }) else {
            return;
        };
        self.count_failure();
        self.shared.metrics.read_back();
        let (machine, deleted) = self.send_away(*live);
        *state = State::Loading { deleted };
        super::load::read_back(Arc::clone(self), Some(machine));
    }

    /// Ends a machine; who waits for it is refused.
    fn send_away(&self, live: Live) -> (Shard, Vec<DeletedTopic>) {
        self.due.store(NEVER, Ordering::SeqCst);
        let Live { machine, progress, parked, held, deleted, usage, .. } = live;
        self.shared.usage.replace(usage, Usage::default());
        self.share.replace(usage, Usage::default());
        let woken = progress.fail();
        for (_, Parked { sender, refusal }) in parked {
            let _ = sender.send(refusal);
        }
        for Held { sender, refusal, .. } in held {
            let _ = sender.send(refusal);
        }
        woken.wake();
        (machine, deleted)
    }

    fn set_due(&self, deadline: Option<Timestamp>) {
        let due = deadline.map_or(NEVER, Timestamp::as_millis);
        if self.due.swap(due, Ordering::SeqCst) != due {
            self.shared.timer.is_due(due);
        }
    }
}

impl Live {
    fn refuse_parked(&mut self) {
        for (_, Parked { sender, refusal }) in self.parked.drain() {
            // The client may have gone.
            let _ = sender.send(refusal);
        }
    }
}

/// Hands the machine's replies to who waits for them, at once or behind the flush that they wait for.
fn deliver(live: &mut Live) {
    let must_wait = live.last_flush > live.progress.durable();
    for (ticket, reply) in live.effects.replies.drain(..) {
        // Whoever asked may have gone.
        let Some(Parked { sender, refusal }) = live.parked.remove(&ticket.0) else { continue };
        if must_wait {
            live.held.push(Held { flush: live.last_flush, sender, reply, refusal });
        } else {
            let _ = sender.send(reply);
        }
    }
}
