//! Writing: one transaction for steps that were decided on the mirror, and deciding again when it was late.

use std::collections::BTreeSet;

use coordination::handoff::{Change, Entry, Key, Step};
use etcd::{EtcdError, Guard, LeaseId, Outcome, Write};

use crate::metrics::EtcdRequest;

use super::{Behind, Group, GroupId, Groups};

/// How often it is decided anew before the caller is told to come back: others write the same keys all the time, or a
/// key that cannot be read is in the way.
const ATTEMPTS_MAX: usize = 8;

/// Why nothing came of a decision.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettleError<E> {
    /// It was decided so, on a state that was current when it was asked.
    #[error(transparent)]
    Refused(E),
    /// Whenever it was decided, something had changed before it was written. Nothing is written.
    #[error("what this depends on changes all the time; try again")]
    Contended,
    /// The mirror is not current. It may be written or not.
    #[error(transparent)]
    Behind(#[from] Behind),
    /// etcd has not answered, or has refused. It may be written or not.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
}

impl Groups {
    /// Carries out steps in one transaction; `lease` is for consumers that are put. One that is put without keeps the
    /// lease it has.
    pub(crate) async fn carry_out(
        &self,
        group: &GroupId,
        steps: &[Step],
        leader: Option<&Guard>,
        lease: Option<LeaseId>,
    ) -> Result<Outcome, EtcdError> {
        let Some((guards, writes)) =
            self.with(group, |known| self.encode(group, known, steps, leader, lease))
        else {
            // The consumer is gone since it was decided.
            return Ok(Outcome::Refused { revision: *self.shared.revision.borrow() });
        };
        let transaction = self.shared.etcd.transact(&guards, &writes);
        self.shared.metrics.timed(EtcdRequest::Transaction, transaction).await
    }

    /// The transaction of some steps; `None` if a consumer has lost the lease that it would keep.
    fn encode(
        &self,
        group: &GroupId,
        known: &Group,
        steps: &[Step],
        leader: Option<&Guard>,
        lease: Option<LeaseId>,
    ) -> Option<(Vec<Guard>, Vec<Write>)> {
        let text = |key: &Key| key.encode(&self.shared.prefix, group.as_ref());
        // Several steps may rest on the same consumer.
        let mut guarded: BTreeSet<(String, u64)> = BTreeSet::new();
        let mut writes = Vec::new();
        for step in steps {
            guarded.extend(step.guards.iter().map(|guard| (text(&guard.key), guard.read_at)));
            for write in &step.writes {
                let (key, write_of_key) = match &write.change {
                    Change::Delete(key) => (text(key), Write::Delete { key: text(key) }),
                    Change::Put(entry) => {
                        let key = text(&entry.key());
                        let lease = match entry {
                            Entry::Consumer(name, _) => {
                                Some(lease.or_else(|| known.leases.get(name).copied())?)
                            }
                            Entry::Assignment(..) | Entry::Handoff(..) | Entry::Topic(..) => None,
                        };
                        (key.clone(), Write::Put { key, value: entry.encode().into(), lease })
                    }
                };
                guarded.insert((key, write.read_at));
                writes.push(write_of_key);
            }
        }
        let mut guards: Vec<Guard> = leader.cloned().into_iter().collect();
        guards.extend(guarded.into_iter().map(|(key, modified)| Guard { key, modified }));
        Some((guards, writes))
    }

    /// Decides on the mirror and writes. When that is refused, by the decision or by etcd, the mirror is brought up to
    /// date and it is decided again: the caller may have heard from another instance what this one has not seen yet.
    /// The mirror shows what was written when this returns.
    pub(crate) async fn settle<T, E>(
        &self,
        group: &GroupId,
        lease: Option<LeaseId>,
        decide: impl Fn(&Group) -> Result<(Option<Step>, T), E>,
    ) -> Result<T, SettleError<E>> {
        if *self.shared.revision.borrow() == 0 {
            return Err(Behind.into());
        }
        let mut is_current = false;
        for _ in 0..ATTEMPTS_MAX {
            let (step, value) = match self.with(group, &decide) {
                Ok((Some(step), value)) => (step, value),
                Ok((None, value)) => return Ok(value),
                Err(refusal) if is_current => return Err(SettleError::Refused(refusal)),
                Err(_) => {
                    self.catch_up().await?;
                    is_current = true;
                    continue;
                }
            };
            match self.carry_out(group, &[step], None, lease).await? {
                Outcome::Committed { revision } => {
                    self.reach_soon(revision).await?;
                    return Ok(value);
                }
                Outcome::Refused { revision } => {
                    self.reach_soon(revision).await?;
                    is_current = true;
                }
            }
        }
        Err(SettleError::Contended)
    }

    /// Waits until the mirror shows all that etcd had when this was called.
    async fn catch_up<E>(&self) -> Result<(), SettleError<E>> {
        let revision = self.shared.metrics.timed(EtcdRequest::Revision, self.shared.etcd.revision()).await?;
        Ok(self.reach_soon(revision).await?)
    }
}
