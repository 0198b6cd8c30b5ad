//! Following a prefix: a snapshot, then every change.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::client::revision;
use crate::keys::{Span, key_value};
use crate::members::Member;
use crate::proto::etcdserverpb::WatchResponse;
use crate::proto::mvccpb::Event;
use crate::proto::mvccpb::event::EventType;
use crate::watch::Watch;
use crate::{Etcd, EtcdError, KeyValue, Snapshot};

/// How many updates wait for their reader before etcd is held back.
const UPDATES: usize = 16;

/// After how much silence the member is asked whether it is there.
const QUIET: Duration = Duration::from_secs(1);

/// How long it may take to answer that before the watch is begun again.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);

/// How long an answer may have told of a newer revision before the watch is asked how far it is: what one has written
/// oneself comes by itself, within a millisecond or two.
const GRACE: Duration = Duration::from_millis(5);

/// How long to wait before that is asked again: etcd says nothing while it has more to tell.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// How long a watch may lag behind without a word before it is begun again.
const LAG: Duration = Duration::from_secs(10);

/// The longest pause before another attempt.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How many changes are put together from parts of one answer before those of complete revisions are handed over.
const HELD: usize = 1000;

/// A prefix that is followed.
#[derive(Debug)]
pub struct Mirror {
    etcd: Etcd,
    span: Span,
    updates: mpsc::Receiver<Update>,
    task: AbortHandle,
}

/// What has become of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// All of it; whatever else was known is gone.
    Snapshot(Snapshot),
    /// All changes of some revisions, the last of which is complete.
    Changes {
        /// The last revision.
        revision: u64,
        /// The changes in order.
        changes: Vec<KeyChange>,
    },
    /// Nothing has changed up to this revision.
    Current {
        /// The revision.
        revision: u64,
    },
    /// The connection is broken; this is what is known until it is mended, which every other update says it is.
    Interrupted(EtcdError),
}

/// What has become of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// It is like this now.
    Put(KeyValue),
    /// It is gone.
    Deleted {
        /// The key.
        key: String,
        /// The revision at which it went.
        revision: u64,
    },
}

impl Etcd {
    /// Follows a prefix from now on, for ever: a snapshot first, then every change, in order, none left out. When the
    /// connection breaks it goes on where it was; when etcd has compacted that away, there is a new snapshot.
    ///
    /// When this side is told of a newer revision by any other answer (a transaction, [`Etcd::revision`]), the mirror
    /// gets there by itself, though nothing may have changed below its prefix.
    pub fn mirror(&self, prefix: &str) -> Mirror {
        Mirror::start(self, Span::prefix(prefix))
    }
}

impl Mirror {
    pub(crate) fn start(etcd: &Etcd, span: Span) -> Self {
        Self::start_after(Duration::ZERO, etcd, span)
    }

    fn start_after(after: Duration, etcd: &Etcd, span: Span) -> Self {
        let (sender, updates) = mpsc::channel(UPDATES);
        let follower = Follower {
            etcd: etcd.clone(),
            span: span.clone(),
            updates: sender,
            at: None,
            is_interrupted: false,
        };
        let task = tokio::spawn(async move {
            sleep(after).await;
            follower.run().await;
        });
        Self { etcd: etcd.clone(), span, updates, task: task.abort_handle() }
    }

    /// What has come already.
    pub fn try_next(&mut self) -> Option<Update> {
        self.updates.try_recv().ok()
    }

    /// What comes next; waits for it. May be dropped while it waits without losing anything.
    pub async fn next(&mut self) -> Update {
        match self.updates.recv().await {
            Some(update) => update,
            // Either the runtime is going away, and this side with it; or there was a bug, and whoever waits must not
            // take what it knows for the truth for ever.
            None => {
                tracing::error!("what follows etcd has broken off; it begins again");
                // If it breaks by what it reads, it must not read that as fast as etcd answers.
                *self = Self::start_after(LONGEST_PAUSE, &self.etcd, self.span.clone());
                Update::Interrupted(EtcdError::BrokenOff)
            }
        }
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads and watches for one mirror.
struct Follower {
    etcd: Etcd,
    span: Span,
    updates: mpsc::Sender<Update>,
    /// All up to here is handed over.
    at: Option<u64>,
    is_interrupted: bool,
}

enum End {
    NobodyListens,
    Broken(EtcdError),
}

impl From<EtcdError> for End {
    fn from(error: EtcdError) -> Self {
        Self::Broken(error)
    }
}

impl Follower {
    async fn run(mut self) {
        let mut failures: u32 = 0;
        loop {
            let before = self.at;
            let Err(end) = self.follow().await;
            let error = match end {
                End::NobodyListens => return,
                End::Broken(EtcdError::Compacted) => {
                    self.at = None;
                    EtcdError::Compacted
                }
                End::Broken(error) => error,
            };
            tracing::debug!(%error, at = self.at, "a mirror of etcd is interrupted");
            self.is_interrupted = true;
            if self.updates.send(Update::Interrupted(error)).await.is_err() {
                return;
            }
            failures = if self.at == before { failures.saturating_add(1) } else { 0 };
            sleep(pause(failures)).await;
        }
    }

    async fn follow(&mut self) -> Result<std::convert::Infallible, End> {
        let mut watch = loop {
            let at = match self.at {
                Some(at) => at,
                None => {
                    let snapshot = self.etcd.read_span(&self.span).await?;
                    let revision = snapshot.revision;
                    self.hand_over(revision, Update::Snapshot(snapshot)).await?;
                    revision
                }
            };
            let watch = Watch::open(&self.etcd, &self.span, at + 1).await?;
            // A cluster that was restored from a backup has forgotten what is held here, and would say nothing until
            // it got that far again. Asked behind the opening, since it may have been restored at any time before.
            let revision = self.etcd.revision().await?;
            if revision >= at {
                break watch;
            }
            self.etcd.has_gone_back_to(revision);
            self.at = None;
        };
        let result = self.listen(&mut watch).await;
        if let Err(End::Broken(error)) = &result
            && error.is_transient()
            && *error != EtcdError::Compacted
        {
            self.etcd.leave(watch.member());
        }
        result
    }

    async fn listen(&mut self, watch: &mut Watch) -> Result<std::convert::Infallible, End> {
        let updates = self.updates.clone();
        let member = Arc::clone(watch.member());
        let mut newest = self.etcd.newest();
        let mut held: Vec<Event> = Vec::new();
        if let Some(at) = self.at
            && self.is_interrupted
            && !self.is_behind(*newest.borrow())
        {
            self.hand_over(at, Update::Current { revision: at }).await?;
        }
        let mut death = pin!(member.death());
        let mut heard = Instant::now();
        let mut ask_at = Instant::now();
        // Asked beside the watch: how far it is, a watch does not say before something has happened anywhere.
        let mut sign_of_life = pin!(sign_of_life(Arc::clone(&member)));
        loop {
            let is_behind = self.is_behind(*newest.borrow_and_update());
            tokio::select! {
                answer = watch.next() => {
                    self.take(answer?, &mut held).await?;
                    heard = Instant::now();
                    ask_at = heard + ASK_AGAIN;
                }
                // Never an error, since `self` holds the sender.
                _ = newest.changed(), if !is_behind => ask_at = Instant::now() + GRACE,
                () = sleep_until(ask_at), if is_behind => {
                    if heard.elapsed() > LAG {
                        return Err(silence(&member, LAG));
                    }
                    watch.ask_how_far();
                    ask_at = Instant::now() + ASK_AGAIN;
                }
                is_alive = &mut sign_of_life => {
                    if !is_alive {
                        return Err(silence(&member, ANSWER_WITHIN));
                    }
                    sign_of_life.set(self::sign_of_life(Arc::clone(&member)));
                    if !is_behind {
                        heard = Instant::now();
                    }
                }
                () = &mut death => return Err(silence(&member, QUIET)),
                () = updates.closed() => return Err(End::NobodyListens),
            }
        }
    }

    fn is_behind(&self, newest: u64) -> bool {
        self.at.is_none_or(|at| at < newest)
    }

    async fn take(&mut self, answer: WatchResponse, held: &mut Vec<Event>) -> Result<(), End> {
        let told = self.etcd.saw(answer.header.as_ref());
        if answer.created {
            return Ok(());
        }
        held.extend(answer.events);
        if answer.fragment {
            if held.len() > HELD {
                let rest = last_revision(held);
                self.hand_over_changes(held.drain(..rest)).await?;
            }
            return Ok(());
        }
        if !held.is_empty() {
            return self.hand_over_changes(held.drain(..)).await;
        }
        if self.is_behind(told) || self.is_interrupted && self.at.is_some_and(|at| told == at) {
            self.hand_over(told, Update::Current { revision: told }).await?;
        }
        Ok(())
    }

    async fn hand_over_changes(&mut self, events: impl Iterator<Item = Event>) -> Result<(), End> {
        let at = self.at.unwrap_or(0);
        let mut last = at;
        let mut changes = Vec::new();
        for event in events {
            let is_deletion = event.r#type() == EventType::Delete;
            let Some(kv) = event.kv else { continue };
            let modified = revision(kv.mod_revision);
            if modified <= at {
                continue;
            }
            last = last.max(modified);
            let Some(kv) = key_value(kv) else { continue };
            changes.push(if is_deletion {
                KeyChange::Deleted { key: kv.key, revision: modified }
            } else {
                KeyChange::Put(kv)
            });
        }
        if last == at {
            return Ok(());
        }
        let update = if changes.is_empty() {
            Update::Current { revision: last }
        } else {
            Update::Changes { revision: last, changes }
        };
        self.hand_over(last, update).await
    }

    async fn hand_over(&mut self, revision: u64, update: Update) -> Result<(), End> {
        self.updates.send(update).await.map_err(|_| End::NobodyListens)?;
        self.at = Some(revision);
        self.is_interrupted = false;
        Ok(())
    }
}

/// Where the events of the last revision begin, which may not be complete.
fn last_revision(events: &[Event]) -> usize {
    let of = |event: &Event| event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
    let Some(last) = events.last().map(of) else { return 0 };
    events.iter().rposition(|event| of(event) != last).map_or(0, |index| index + 1)
}

/// Whether the member is there, a while from now.
async fn sign_of_life(member: Arc<Member>) -> bool {
    sleep(QUIET).await;
    member.is_well(ANSWER_WITHIN).await
}

fn silence(member: &Member, after: Duration) -> End {
    member.is_silent();
    End::Broken(EtcdError::TimedOut { endpoint: member.name(), after })
}

/// Doubles with each failure, and differs between mirrors so that they do not come back all at once.
fn pause(failures: u32) -> Duration {
    let longest = Duration::from_millis(20).saturating_mul(1 << failures.min(6)).min(LONGEST_PAUSE);
    longest.mul_f64(rand::random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::mvccpb;

    fn event(revision: i64) -> Event {
        let kv = mvccpb::KeyValue { mod_revision: revision, ..mvccpb::KeyValue::default() };
        Event { kv: Some(kv), ..Event::default() }
    }

    #[test]
    fn the_last_revision_of_a_part_is_held_until_it_is_complete() {
        let events: Vec<Event> = [1, 1, 2, 3, 3].into_iter().map(event).collect();
        assert_eq!(last_revision(&events), 3);
        assert_eq!(last_revision(&events[..2]), 0);
        assert_eq!(last_revision(&[]), 0);
    }

    #[tokio::test]
    async fn one_that_has_broken_off_says_so_and_begins_again() {
        let options = crate::Options { endpoints: vec!["127.0.0.1:1".to_owned()], ..Default::default() };
        let mut mirror = Etcd::new(options).unwrap().mirror("/");
        mirror.task.abort();
        while !mirror.task.is_finished() {
            tokio::task::yield_now().await;
        }
        assert_eq!(mirror.next().await, Update::Interrupted(EtcdError::BrokenOff));
        assert!(!mirror.task.is_finished());
    }

    #[test]
    fn pauses_grow_up_to_a_bound() {
        assert!(pause(0) <= Duration::from_millis(20));
        assert!(pause(1000) <= LONGEST_PAUSE && pause(1000) >= LONGEST_PAUSE / 2);
    }
}
