//! What this process owns at this moment, to be asked before anything that another owner could see.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock;
use crate::partition::Partition;

/// How long [`Owned::lost`](crate::Owned::lost) waits at most before it looks at the clock again. Timers stand still while the machine
/// is suspended, but the clock of leases does not.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What this process owns. Clones share.
///
/// Callbacks come as soon as possible, but a process that was suspended runs on in the middle of whatever it did.
/// So whoever writes somewhere outside asks here just before: the answer comes from the clock, not from a callback.
#[derive(Clone)]
pub struct Ownership {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    owned: BTreeMap<Partition, Owning>,
    next_turn: u64,
    /// Until when what is owned is owned for sure.
    until: Duration,
    /// Someone was told that it is over. Then it is over, even if a later answer could still have extended it: whoever
    /// was told has stopped.
    is_over: bool,
}

struct Owning {
    epoch: u64,
    /// Tells it from earlier times at which the partition was ours, even if the epoch is the same.
    turn: u64,
    /// Goes with the ownership, and whoever waits for its end is woken.
    end: watch::Sender<()>,
}

impl Ownership {
    pub(crate) fn new() -> Self {
        let shared = Shared { owned: BTreeMap::new(), next_turn: 0, until: Duration::ZERO, is_over: true };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// Whether this process owns the partition now.
    pub fn is_mine(&self, partition: &Partition) -> bool {
        self.epoch(partition).is_some()
    }

    /// The epoch under which this process owns the partition now.
    pub fn epoch(&self, partition: &Partition) -> Option<u64> {
        let mut shared = self.lock();
        if shared.is_valid() { shared.owned.get(partition).map(|owning| owning.epoch) } else { None }
    }

    /// All that this process owns now, each with its epoch.
    pub fn owned(&self) -> BTreeMap<Partition, u64> {
        let mut shared = self.lock();
        if !shared.is_valid() {
            return BTreeMap::new();
        }
        shared.owned.iter().map(|(partition, owning)| (partition.clone(), owning.epoch)).collect()
    }

    /// The turn in which the partition is ours, if it is.
    pub(crate) fn turn(&self, partition: &Partition) -> Option<u64> {
        let mut shared = self.lock();
        if shared.is_valid() { shared.owned.get(partition).map(|owning| owning.turn) } else { None }
    }

    /// Returns when that turn is over.
    pub(crate) async fn lost(&self, partition: &Partition, turn: u64) {
        loop {
            let (mut end, left) = {
                let mut shared = self.lock();
                let is_valid = shared.is_valid();
                let Some(owning) = shared.owned.get(partition).filter(|it| is_valid && it.turn == turn)
                else {
                    return;
                };
                let left = shared.until.saturating_sub(clock::now()).min(LOOK_AGAIN);
                (owning.end.subscribe(), left)
            };
            tokio::select! {
                _ = end.changed() => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }

    /// What is owned is owned until then. Returns false if it was over before.
    pub(crate) fn extend(&self, until: Duration) -> bool {
        let mut shared = self.lock();
        if !shared.is_valid() {
            return false;
        }
        // It may be less than before: another instance grants shorter leases.
        shared.until = until;
        true
    }

    /// Begins anew with nothing, until then.
    pub(crate) fn begin(&self, until: Duration) {
        let mut shared = self.lock();
        shared.owned.clear();
        shared.until = until;
        shared.is_over = false;
    }

    /// Nothing is owned any more.
    pub(crate) fn end(&self) {
        let mut shared = self.lock();
        shared.owned.clear();
        shared.is_over = true;
    }

    pub(crate) fn insert(&self, partition: Partition, epoch: u64) {
        let mut shared = self.lock();
        let turn = shared.next_turn;
        shared.next_turn += 1;
        shared.owned.insert(partition, Owning { epoch, turn, end: watch::Sender::new(()) });
    }

    pub(crate) fn remove(&self, partition: &Partition) {
        self.lock().owned.remove(partition);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn is_valid(&mut self) -> bool {
        self.is_over |= clock::now() >= self.until;
        !self.is_over
    }
}

impl fmt::Debug for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.owned()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_to_be_over_is_not_extended() {
        let ownership = Ownership::new();
        let partition = Partition::new("t", 0);
        ownership.begin(clock::now() + Duration::from_secs(60));
        ownership.insert(partition.clone(), 3);
        assert_eq!(ownership.epoch(&partition), Some(3));
        assert!(ownership.extend(clock::now() + Duration::from_secs(90)));
        ownership.begin(clock::now());
        ownership.insert(partition.clone(), 4);
        assert!(!ownership.is_mine(&partition), "the time is over");
        assert!(!ownership.extend(clock::now() + Duration::from_secs(60)), "and it was said so");
    }

    #[test]
    fn a_shorter_lease_ends_sooner_than_the_longer_one_before() {
        let ownership = Ownership::new();
        let partition = Partition::new("t", 0);
        ownership.begin(clock::now() + Duration::from_secs(60));
        ownership.insert(partition.clone(), 3);
        assert!(ownership.extend(clock::now()));
        assert!(!ownership.is_mine(&partition));
    }

    #[tokio::test]
    async fn losing_wakes_those_who_wait_for_it() {
        let ownership = Ownership::new();
        let (kept, lost) = (Partition::new("t", 0), Partition::new("t", 1));
        ownership.begin(clock::now() + Duration::from_secs(60));
        ownership.insert(kept.clone(), 1);
        ownership.insert(lost.clone(), 1);
        let waiter = tokio::spawn({
            let (ownership, lost) = (ownership.clone(), lost.clone());
            async move { ownership.lost(&lost, 1).await }
        });
        ownership.remove(&lost);
        waiter.await.unwrap();
        assert!(ownership.is_mine(&kept));
        ownership.begin(clock::now() + Duration::from_millis(20));
        ownership.insert(kept.clone(), 1);
        ownership.lost(&kept, 2).await;
    }
}
