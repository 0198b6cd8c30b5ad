//! Finding one leader.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::keys::Span;
use crate::{Etcd, EtcdError, Guard, KeyChange, KeyValue, LeaseId, Mirror, Outcome, Update, Write};

/// How long to wait before a lease is renewed again after an error.
const RENEW_AGAIN: Duration = Duration::from_millis(500);

/// How to take part in an election.
#[derive(Clone, Debug)]
pub struct Candidacy {
    /// The key that the leader holds.
    pub key: String,
    /// What the leader writes there: who it is.
    pub value: Bytes,
    /// How long its lease lasts.
    pub ttl: Duration,
    /// How often it renews it.
    pub keep_alive_interval: Duration,
    /// How long to wait before another attempt after an error; the end of a leader is noticed at once.
    pub retry_interval: Duration,
}

/// Takes part in an election until it is dropped, or resigns.
#[derive(Debug)]
pub struct Election {
    leadership: watch::Receiver<Leadership>,
    resignation: Option<oneshot::Sender<oneshot::Sender<()>>>,
    fitness: watch::Sender<bool>,
    task: AbortHandle,
}

/// How the election stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Another leads, or nobody.
    Following {
        /// What the leader has written; `None` if there is none or it is not known.
        leader: Option<Bytes>,
    },
    /// This side leads. Each write of a leader carries the guard: it does not hold any more once another leads.
    Leading {
        /// What holds only while this side leads.
        guard: Guard,
    },
}

impl Election {
    /// Begins to take part.
    pub fn start(etcd: &Etcd, candidacy: Candidacy) -> Self {
        let (sender, leadership) = watch::channel(Leadership::Following { leader: None });
        let (resignation, resigned) = oneshot::channel();
        let (fitness, is_fit) = watch::channel(true);
        let candidate = Candidate {
            etcd: etcd.clone(),
            key: Mirror::start(etcd, Span::key(&candidacy.key)),
            known: 0,
            holder: None,
            lease: None,
            candidacy,
            leadership: sender,
            is_fit,
        };
        let task = tokio::spawn(candidate.run(resigned)).abort_handle();
        Self { leadership, resignation: Some(resignation), fitness, task }
    }

    /// How it stands, and each change. A lease that could not be renewed in time by this side's own clock ends the
    /// leadership even if etcd cannot be reached.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// Where to say whether this side is fit to lead, which it is at first. While it is not, it leaves the leadership to
    /// others and does not stand for it.
    pub fn fitness(&self) -> watch::Sender<bool> {
        self.fitness.clone()
    }

    /// Gives the leadership up at once, so that another need not wait for the lease to end. Returns when that is done,
    /// or when etcd does not answer.
    pub async fn resign(mut self) {
        let (done, is_done) = oneshot::channel();
        if let Some(resignation) = self.resignation.take()
            && resignation.send(done).is_ok()
        {
            // It is an error if the task is gone, and then there is nothing to wait for.
            let _ = is_done.await;
        }
    }
}

impl Drop for Election {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One side's part in the election.
struct Candidate {
    etcd: Etcd,
    candidacy: Candidacy,
    /// Follows the leader's key.
    key: Mirror,
    /// Up to which revision the key is known.
    known: u64,
    /// Who holds it.
    holder: Option<KeyValue>,
    /// What this side may have put or be about to put the key under; to be ended.
    lease: Option<LeaseId>,
    leadership: watch::Sender<Leadership>,
    /// Whether this side can do what a leader has to.
    is_fit: watch::Receiver<bool>,
}

/// The time in which this side leads.
struct Term {
    lease: LeaseId,
    /// When etcd may end the lease at the earliest: counted by our clock, from before etcd was asked for it.
    expires: Instant,
    guard: Guard,
}

impl Candidate {
    async fn run(mut self, resigned: oneshot::Receiver<oneshot::Sender<()>>) {
        let done = tokio::select! {
            () = self.take_part() => return,
            done = resigned => done,
        };
        // Whoever works as the leader must hear of the end before another can begin.
        self.leadership.send_replace(Leadership::Following { leader: None });
        self.give_up().await;
        if let Ok(done) = done {
            // Nobody waits if the election was dropped meanwhile.
            let _ = done.send(());
        }
    }

    /// Follows and leads in turn, for ever. May be dropped at any time.
    async fn take_part(&mut self) {
        loop {
            self.wait_until_vacant().await;
            let pause = match self.stand().await {
                Ok(Some(term)) => {
                    tracing::info!(key = %self.candidacy.key, "leads");
                    self.lead(term).await;
                    tracing::info!(key = %self.candidacy.key, "leads no longer");
                    Duration::ZERO
                }
                Ok(None) => self.candidacy.retry_interval,
                Err(error) => {
                    tracing::warn!(key = %self.candidacy.key, %error, "cannot stand for election");
                    self.candidacy.retry_interval
                }
            };
            self.give_up().await;
            // News of the key is worth an attempt whatever happened before.
            let _ = timeout(pause, self.learn()).await;
        }
    }

    async fn wait_until_vacant(&mut self) {
        loop {
            let leader = self.holder.as_ref().map(|holder| holder.value.clone());
            self.follow(leader);
            let is_fit = *self.is_fit.borrow();
            if self.known > 0 && self.holder.is_none() && is_fit {
                return;
            }
            let mut fitness = self.is_fit.clone();
            tokio::select! {
                () = self.learn() => {}
                () = becomes(&mut fitness, true), if !is_fit => {}
            }
        }
    }

    /// Tries to put the key; `None` if another was faster.
    async fn stand(&mut self) -> Result<Option<Term>, EtcdError> {
        let Candidacy { key, value, ttl, .. } = self.candidacy.clone();
        let expires = Instant::now() + ttl;
        let lease = self.etcd.grant(ttl).await?;
        self.lease = Some(lease);
        let vacant = Guard { key: key.clone(), modified: 0 };
        let put = Write::Put { key: key.clone(), value, lease: Some(lease) };
        match self.etcd.transact(&[vacant], &[put]).await? {
            Outcome::Committed { revision } => {
                Ok(Some(Term { lease, expires, guard: Guard { key, modified: revision } }))
            }
            Outcome::Refused { .. } => Ok(None),
        }
    }

    /// Leads until the lease could not be renewed or the key is gone.
    async fn lead(&mut self, term: Term) {
        let Term { lease, mut expires, guard } = term;
        if Instant::now() >= expires {
            return;
        }
        self.leadership.send_replace(Leadership::Leading { guard: guard.clone() });
        let interval = self.candidacy.keep_alive_interval.min(self.candidacy.ttl / 2);
        let mut renewal = pin!(renew(self.etcd.clone(), lease, Instant::now() + interval));
        let mut fitness = self.is_fit.clone();
        loop {
            tokio::select! {
                biased;
                () = becomes(&mut fitness, false) => {
                    tracing::warn!(key = %guard.key, "the leader cannot lead, and leaves it to another");
                    break;
                }
                () = sleep_until(expires) => {
                    tracing::warn!(key = %guard.key, "the lease of the leader was not renewed in time");
                    break;
                }
                () = self.learn() => {
                    let modified = self.holder.as_ref().map_or(0, |holder| holder.modified);
                    if self.known >= guard.modified && modified != guard.modified {
                        tracing::warn!(key = %guard.key, "the key of the leader was taken away");
                        break;
                    }
                }
                (sent, renewed) = &mut renewal => {
                    let next = match renewed {
                        Ok(Some(ttl)) => {
                            expires = sent + ttl;
                            sent + interval
                        }
                        Ok(None) => {
                            tracing::warn!(key = %guard.key, "the lease of the leader has ended");
                            break;
                        }
                        Err(error) => {
                            tracing::warn!(key = %guard.key, %error, "cannot renew the lease of the leader");
                            Instant::now() + interval.min(RENEW_AGAIN)
                        }
                    };
                    renewal.set(renew(self.etcd.clone(), lease, next));
                }
            }
        }
        // What is known may be the key of this side, which is about to end.
        if self.holder.as_ref().is_some_and(|holder| holder.modified <= guard.modified) {
            self.holder = None;
        }
        self.follow(self.holder.as_ref().map(|holder| holder.value.clone()));
    }

    fn follow(&self, leader: Option<Bytes>) {
        let now = Leadership::Following { leader };
        self.leadership.send_if_modified(|before| {
            let is_new = *before != now;
            *before = now;
            is_new
        });
    }

    /// Ends the lease, if there is one, and with it the key.
    async fn give_up(&mut self) {
        if let Some(lease) = self.lease {
            // Without an answer it ends by itself, only later.
            if let Err(error) = self.etcd.revoke(lease).await {
                tracing::debug!(%error, "cannot revoke a lease");
            }
            self.lease = None;
        }
    }

    /// Takes in one piece of news of the key. May be dropped while it waits.
    async fn learn(&mut self) {
        match self.key.next().await {
            Update::Snapshot(snapshot) => {
                self.known = snapshot.revision;
                self.holder = snapshot.entries.into_iter().next();
            }
            Update::Changes { revision, changes } => {
                self.known = revision;
                for change in changes {
                    self.holder = match change {
                        KeyChange::Put(holder) => Some(holder),
                        KeyChange::Deleted { .. } => None,
                    };
                }
            }
            Update::Current { revision } => self.known = revision,
            Update::Interrupted(_) => {}
        }
    }
}

// A reader that outlives the election must not go on as its leader.
impl Drop for Candidate {
    fn drop(&mut self) {
        self.follow(None);
    }
}

/// Waits until this side is fit to lead, or is not.
async fn becomes(fitness: &mut watch::Receiver<bool>, is_fit: bool) {
    if fitness.wait_for(|known| *known == is_fit).await.is_err() {
        // Nobody is left who could say so.
        std::future::pending::<()>().await;
    }
}

/// Renews a lease at a time, and says when that was asked for.
async fn renew(etcd: Etcd, lease: LeaseId, at: Instant) -> (Instant, Result<Option<Duration>, EtcdError>) {
    sleep_until(at).await;
    let sent = Instant::now();
    (sent, etcd.keep_alive(lease).await)
}
