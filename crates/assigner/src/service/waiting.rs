//! Since when a newcomer waits for the processes that had its name before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use coordination::handoff::{ConsumerName, SessionId};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::groups::GroupId;

use super::limits::STREAMS_MAX;

/// A process that waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiting {
    pub(super) group: GroupId,
    pub(super) name: ConsumerName,
    pub(super) session: SessionId,
}

/// Those who wait at this instance. One whose stream breaks again and again would otherwise begin to wait anew each time,
/// and never get anything.
#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<BTreeMap<Waiting, Since>>);

#[derive(Debug)]
struct Since {
    at: Instant,
    /// Whom it waits for.
    predecessors: BTreeSet<SessionId>,
}

impl Waits {
    /// Since when nobody of these has renewed its lease: since the process has first registered here, if there was
    /// nobody else in between; else since `registered`. Leases last for `ttl`.
    pub(super) fn since(
        &self,
        waiting: &Waiting,
        predecessors: &BTreeSet<SessionId>,
        registered: Instant,
        ttl: Duration,
    ) -> Instant {
        if predecessors.is_empty() {
            return registered;
        }
        let mut waits = self.0.lock();
        if let Some(known) = waits.get(waiting)
            && predecessors.is_subset(&known.predecessors)
        {
            return known.at;
        }
        // Whoever has waited for so long has been served, or will not come back.
        waits.retain(|_, known| known.at.elapsed() < ttl * 2);
        if waits.len() < STREAMS_MAX {
            waits.insert(waiting.clone(), Since { at: registered, predecessors: predecessors.clone() });
        }
        registered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn waiting(session: u128) -> Waiting {
        Waiting { group: None, name: "a".parse().unwrap(), session: SessionId::from_u128(session) }
    }

    fn sessions(numbers: &[u128]) -> BTreeSet<SessionId> {
        numbers.iter().map(|number| SessionId::from_u128(*number)).collect()
    }

    #[test]
    fn whoever_comes_back_goes_on_waiting_and_does_not_begin_anew() {
        let waits = Waits::default();
        let first = Instant::now();
        let later = first + Duration::from_secs(9);
        assert_eq!(waits.since(&waiting(3), &sessions(&[1, 2]), first, TTL), first);
        assert_eq!(waits.since(&waiting(3), &sessions(&[1, 2]), later, TTL), first);
        assert_eq!(waits.since(&waiting(3), &sessions(&[2]), later, TTL), first, "one has stopped");
    }

    #[test]
    fn whoever_has_another_before_it_begins_anew() {
        let waits = Waits::default();
        let first = Instant::now();
        let later = first + Duration::from_secs(9);
        waits.since(&waiting(3), &sessions(&[1]), first, TTL);
        assert_eq!(waits.since(&waiting(4), &sessions(&[1, 3]), later, TTL), later);
        assert_eq!(waits.since(&waiting(3), &sessions(&[1, 4]), later, TTL), later);
        assert_eq!(waits.since(&waiting(5), &sessions(&[]), later, TTL), later);
    }
}
