//! Consumers that come and go.

use std::collections::BTreeSet;

use crate::limits::{FENCED_MAX, PREDECESSORS_MAX};

use super::acknowledge::Refusal;
use super::key::Key;
use super::names::{ConsumerName, SessionId, TopicName, TopicPartition};
use super::state::{State, Step};
use super::value::{Consumer, ConsumerState, Entry, Phase};

/// What comes of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// What to write, under the lease of the consumer. The value is the same as before if nothing has changed, but it is
    /// written all the same: the lease may be another.
    pub step: Step,
    /// The process that was registered under the name before. Its stream ends, and what it says is refused.
    pub fenced: Option<SessionId>,
}

/// Registers a consumer. A process that comes back is what it was: not new, and still draining if it was.
///
/// A process that was registered under the name until now may not hear of this before its lease would have ended, and
/// works until then. So it becomes a predecessor, and so do its own, until [`gone`] or [`predecessors_gone`] says
/// otherwise. Their names must not be lost: while one of them works, nothing that the name owns may be given away.
pub fn register(state: &State, name: &ConsumerName, mut consumer: Consumer) -> Registered {
    let before = state.consumers.get(name).map(|stored| &stored.value);
    let mut fenced = None;
    consumer.predecessors.clear();
    consumer.fenced.clear();
    if let Some(before) = before {
        consumer.predecessors.clone_from(&before.predecessors);
        consumer.fenced.clone_from(&before.fenced);
        if before.session == consumer.session {
            consumer.registered_ms = before.registered_ms;
            // Without a session a process that was started anew looks like one that came back. If it were taken for the
            // one that wanted to leave, it would wait for partitions for ever.
            if consumer.session != SessionId::NIL {
                consumer.state = before.state;
            }
        } else {
            fenced = Some(before.session);
            if before.session != SessionId::NIL {
                remember(&mut consumer.predecessors, before.session);
                consumer.fenced.push(before.session);
                let surplus = consumer.fenced.len().saturating_sub(FENCED_MAX);
                consumer.fenced.drain(..surplus);
            }
        }
        // It may have been fenced itself before. It is told now what it owns, and stops whatever else it works on.
        if consumer.session != SessionId::NIL {
            consumer.predecessors.remove(&consumer.session);
            consumer.fenced.retain(|fenced| *fenced != consumer.session);
        }
    }
    let writes = vec![state.put(Entry::Consumer(name.clone(), consumer))];
    Registered { step: Step { writes, guards: Vec::new() }, fenced }
}

/// When there are too many to know them all, who they were does not matter any more: one without a name stands for
/// those that are forgotten, and never says that it has stopped.
fn remember(predecessors: &mut BTreeSet<SessionId>, session: SessionId) {
    predecessors.insert(session);
    while predecessors.len() > PREDECESSORS_MAX {
        let eldest = predecessors.iter().find(|known| **known != SessionId::NIL).copied();
        predecessors.insert(SessionId::NIL);
        if let Some(eldest) = eldest {
            predecessors.remove(&eldest);
        }
    }
}

/// Says what to write once all predecessors of a consumer must have stopped; nothing if it has none, or is not this
/// process any more.
///
/// That is so when a whole lease has passed since the last moment at which anybody could have renewed the lease of a
/// predecessor, on the clock of one who has watched all the while. Predecessors have counted from before that moment, and
/// began to stop by themselves after two thirds of it; the last third is for what they had under way.
pub fn predecessors_gone(state: &State, name: &ConsumerName, session: SessionId) -> Option<Step> {
    let consumer = state.consumers.get(name).map(|stored| &stored.value)?;
    if consumer.session != session || consumer.predecessors.is_empty() {
        return None;
    }
    let alone = Consumer { predecessors: BTreeSet::new(), ..consumer.clone() };
    let writes = vec![state.put(Entry::Consumer(name.clone(), alone))];
    Some(Step { writes, guards: Vec::new() })
}

/// A process says that it has stopped all work, and will not begin again. If it is the consumer, its key goes and others
/// get what it owned; if it is a predecessor, it is one no more. For clients without sessions, which are
/// [`SessionId::NIL`], ask only if the lease of the key is still that of the stream which has ended.
///
/// # Errors
/// When it is neither: it is not registered, or another process is under its name that does not wait for it.
pub fn gone(state: &State, name: &ConsumerName, session: SessionId) -> Result<Option<Step>, Refusal> {
    let Some(consumer) = state.consumers.get(name).map(|stored| &stored.value) else {
        return Err(Refusal::UnknownConsumer { consumer: name.clone() });
    };
    let put = |consumer| state.put(Entry::Consumer(name.clone(), consumer));
    let write = if consumer.session != session {
        let mut rest = consumer.predecessors.clone();
        if session == SessionId::NIL || !rest.remove(&session) {
            return Err(Refusal::Fenced { consumer: name.clone() });
        }
        put(Consumer { predecessors: rest, ..consumer.clone() })
    } else if consumer.predecessors.is_empty() {
        state.delete(Key::Consumer(name.clone()))
    } else if consumer.state == ConsumerState::Draining {
        return Ok(None);
    } else {
        // While the key is there, nobody gets what a predecessor may be at work on. It ends with its lease, which nobody
        // renews, and which was granted after the predecessors could renew theirs for the last time: they stop after
        // two thirds of that.
        put(Consumer { state: ConsumerState::Draining, ..consumer.clone() })
    };
    Ok(Some(Step { writes: vec![write], guards: Vec::new() }))
}

/// What a consumer that wants to leave is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deregistered {
    /// Go on until each partition is released.
    WaitForDrain {
        /// What to write, if it is not written yet.
        step: Option<Step>,
    },
    /// Stop: there is nothing that another could take over.
    ShutdownNow {
        /// What to write, if it is not written yet. The consumer stays registered until its lease ends: something may
        /// just have been given to it, and nobody else must get that before it has stopped.
        step: Option<Step>,
    },
}

/// Says what a consumer that wants to leave is to do. From now on it gets nothing; there is no way back. Once it has
/// stopped, [`gone`] is for it.
///
/// # Errors
/// When it is not registered, or another process is under its name.
pub fn deregister(state: &State, name: &ConsumerName, session: SessionId) -> Result<Deregistered, Refusal> {
    let Some(consumer) = state.consumers.get(name).map(|stored| &stored.value) else {
        return Err(Refusal::UnknownConsumer { consumer: name.clone() });
    };
    if session != consumer.session {
        return Err(Refusal::Fenced { consumer: name.clone() });
    }
    let is_owned = |place: &TopicPartition, owner: &ConsumerName| owner == name && state.has_partition(place);
    let owned = state.assignments.iter().filter(|(place, stored)| is_owned(place, &stored.value.owner));
    // It may own thousands of partitions, but of few topics.
    let topics: BTreeSet<&TopicName> = owned.map(|(place, _)| &place.topic).collect();
    // In the overlap mode it may have to let go of what it does not own any more.
    let lets_go = state
        .handoffs
        .values()
        .any(|stored| stored.value.from == *name && stored.value.phase == Phase::Complete);
    let draining = Consumer { state: ConsumerState::Draining, ..consumer.clone() };
    let step = (consumer.state != ConsumerState::Draining).then(|| Step {
        writes: vec![state.put(Entry::Consumer(name.clone(), draining))],
        guards: Vec::new(),
    });
    let can_be_taken = topics.into_iter().any(|topic| {
        let mut others = state.consumers.iter().filter(|(other, _)| *other != name);
        others.any(|(_, other)| other.value.takes(topic))
    });
    Ok(if can_be_taken || lets_go {
        Deregistered::WaitForDrain { step }
    } else {
        Deregistered::ShutdownNow { step }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(state: &mut State, session: u128) -> Consumer {
        let name: ConsumerName = "a".parse().unwrap();
        let consumer = Consumer::new(SessionId::from_u128(session), 0);
        let step = register(state, &name, consumer).step;
        let revision = state.revision + 1;
        for write in step.writes {
            state.apply(revision, write.change);
        }
        state.consumers[&name].value.clone()
    }

    #[test]
    fn whoever_was_fenced_is_known_though_nobody_waits_for_it_any_more() {
        let mut state = State::default();
        registered(&mut state, 1);
        let second = registered(&mut state, 2);
        assert!(second.has_fenced(SessionId::from_u128(1)) && !second.has_fenced(second.session));
        let step = predecessors_gone(&state, &"a".parse().unwrap(), second.session).unwrap();
        for write in step.writes {
            state.apply(9, write.change);
        }
        let back = registered(&mut state, 2);
        assert!(back.predecessors.is_empty() && back.has_fenced(SessionId::from_u128(1)));
    }

    #[test]
    fn those_who_were_fenced_are_not_remembered_without_end() {
        let mut state = State::default();
        for session in 1..=100 {
            registered(&mut state, session);
        }
        let latest = registered(&mut state, 101);
        assert_eq!(latest.fenced.len(), FENCED_MAX);
        assert!(latest.has_fenced(SessionId::from_u128(100)) && !latest.has_fenced(SessionId::from_u128(1)));
    }
}
