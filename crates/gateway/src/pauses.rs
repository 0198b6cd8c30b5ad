//! Organisations whose producers have to be quiet.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use coordination::ids::OrgId;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Until when the producers of organisations are kept waiting, whichever connections they use.
///
/// The broker says so in the answer to one of them. The others, and those that connect anew, would each send one request
/// more. Readers need no such list: the broker gives them nothing meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// How many there are, so that nobody takes the lock where nobody is kept waiting.
    count: AtomicUsize,
    until: Mutex<HashMap<OrgId, Instant>>,
}

impl Pauses {
    /// No producer of the organisation may send before then.
    pub(crate) fn begin(&self, org: OrgId, until: Instant) {
        let mut all = self.until.lock();
        all.entry(org).and_modify(|before| *before = until.max(*before)).or_insert(until);
        self.count.store(all.len(), Ordering::Relaxed);
    }

    /// Until when the organisation's producers wait, if they do.
    pub(crate) fn until(&self, org: OrgId) -> Option<Instant> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let now = Instant::now();
        let mut all = self.until.lock();
        if let Some(&until) = all.get(&org).filter(|&&until| until > now) {
            return Some(until);
        }
        // Whoever had to be quiet may never ask again.
        all.retain(|_, until| *until > now);
        self.count.store(all.len(), Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_the_organisations_own_and_ends() {
        let pauses = Pauses::default();
        let [ours, theirs] = [1, 2].map(OrgId::from_u128);
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        assert_eq!(pauses.until(ours), None);
        pauses.begin(ours, now + 2 * second);
        pauses.begin(ours, now + second);
        assert_eq!(pauses.until(ours), Some(now + 2 * second), "the longer one holds");
        assert_eq!(pauses.until(theirs), None);
        tokio::time::advance(2 * second).await;
        assert_eq!(pauses.until(theirs), None, "and who asks next finds nothing left of it");
        assert_eq!(pauses.count.load(Ordering::Relaxed), 0);
    }
}
