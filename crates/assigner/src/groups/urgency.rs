//! How soon a change asks for a plan.

use coordination::handoff::{Entry, Handoff, Phase, State};

/// How soon a group is to be planned after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// Something has come to an end; there may be more to do, but nothing new has come up.
    Eventually,
    /// Consumers or topics have changed. More such changes are likely to come, so it waits until they have settled.
    Settled,
    /// One of the two consumers of a handoff is gone.
    AtOnce,
}

/// How soon to plan after a change of one key; `None` if no plan could be another because of it.
pub(super) fn urgency(state: &State, before: Option<&Entry>, after: Option<&Entry>) -> Option<Urgency> {
    if before == after {
        // A consumer that has come back within its lease, for example.
        return None;
    }
    match (before, after) {
        (Some(Entry::Consumer(name, before)), after) => {
            let session = match after {
                Some(Entry::Consumer(_, after)) => Some(after.session),
                _ => None,
            };
            // An owner that is started anew is still the owner; a target that is has to begin again.
            let is_lost = |handoff: &Handoff| {
                let is_open = matches!(handoff.phase, Phase::Warming | Phase::Ready);
                let is_owner_lost = handoff.from == *name && session.is_none();
                let is_target_lost = handoff.to == *name && session != Some(handoff.to_session);
                is_open && (is_owner_lost || is_target_lost)
            };
            let is_replaced = session != Some(before.session);
            let is_urgent = is_replaced && state.handoffs.values().any(|stored| is_lost(&stored.value));
            Some(if is_urgent { Urgency::AtOnce } else { Urgency::Settled })
        }
        (_, Some(Entry::Consumer(..) | Entry::Topic(..))) | (Some(Entry::Topic(..)), _) => {
            Some(Urgency::Settled)
        }
        // Of one that begins or goes on, whoever plans knows the deadline, or finds it when everything is planned anew.
        (_, Some(Entry::Handoff(_, handoff))) if handoff.phase != Phase::Cancelled => None,
        _ => Some(Urgency::Eventually),
    }
}
