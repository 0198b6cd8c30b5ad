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
    /// When its registration began, by what is written. It stays the same for as long as nobody else has the name and the
    /// key is there.
    registered_ms: u64,
    /// Whom it waits for.
    predecessors: BTreeSet<SessionId>,
}

/// A registration that was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun<'a> {
    /// When, here.
    pub(super) at: Instant,
    /// When the process has first registered without a break since then, by what is written.
    pub(super) registered_ms: u64,
    /// Whom it has to wait for.
    pub(super) predecessors: &'a BTreeSet<SessionId>,
}

impl Waits {
    /// Since when nobody of the predecessors has renewed its lease: since the process has first registered here, if it
    /// has had the name ever since; else from now on. Leases last for `ttl`.
    pub(super) fn since(&self, waiting: &Waiting, begun: Begun<'_>, ttl: Duration) -> Instant {
        let Begun { at, registered_ms, predecessors } = begun;
        if predecessors.is_empty() {
            return at;
        }
        let mut waits = self.0.lock();
        if let Some(known) = waits.get(waiting)
            && known.registered_ms == registered_ms
            && predecessors.is_subset(&known.predecessors)
        {
            return known.at;
        }
        // Whoever has waited for so long has been served, or will not come back.
        waits.retain(|_, known| known.at.elapsed() < ttl * 2);
        if waits.len() < STREAMS_MAX {
            waits.insert(waiting.clone(), Since { at, registered_ms, predecessors: predecessors.clone() });
        }
        at
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

    fn since(
        waits: &Waits,
        session: u128,
        predecessors: &[u128],
        at: Instant,
        registered_ms: u64,
    ) -> Instant {
        let predecessors = sessions(predecessors);
        waits.since(&waiting(session), Begun { at, registered_ms, predecessors: &predecessors }, TTL)
    }

    #[test]
    fn whoever_comes_back_goes_on_waiting_and_does_not_begin_anew() {
        let waits = Waits::default();
        let first = Instant::now();
        let later = first + Duration::from_secs(9);
        assert_eq!(since(&waits, 3, &[1, 2], first, 5), first);
        assert_eq!(since(&waits, 3, &[1, 2], later, 5), first);
        assert_eq!(since(&waits, 3, &[2], later, 5), first, "one has stopped");
    }

    #[test]
    fn whoever_has_another_before_it_begins_anew() {
        let waits = Waits::default();
        let first = Instant::now();
        let later = first + Duration::from_secs(9);
        since(&waits, 3, &[1], first, 5);
        assert_eq!(since(&waits, 4, &[1, 3], later, 6), later);
        assert_eq!(since(&waits, 3, &[1, 4], later, 7), later);
        assert_eq!(since(&waits, 5, &[], later, 8), later);
    }

    #[test]
    fn whoever_had_lost_the_name_in_between_begins_anew() {
        let waits = Waits::default();
        let first = Instant::now();
        let later = first + Duration::from_secs(9);
        since(&waits, 3, &[1], first, 5);
        // The key was gone, and the former process had the name once more.
        assert_eq!(since(&waits, 3, &[1], later, 9), later);
        assert_eq!(since(&waits, 3, &[1], later + TTL, 9), later);
    }
}
