//! Consumers that come and go.

use super::acknowledge::Refusal;
use super::names::{ConsumerName, SessionId, TopicPartition};
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
pub fn register(state: &State, name: &ConsumerName, mut consumer: Consumer) -> Registered {
    let before = state.consumers.get(name).map(|stored| &stored.value);
    let mut fenced = None;
    if let Some(before) = before {
        if before.session == consumer.session {
            consumer.registered_ms = before.registered_ms;
            consumer.state = before.state;
        } else {
            fenced = Some(before.session);
        }
    }
    let writes = vec![state.put(Entry::Consumer(name.clone(), consumer))];
    Registered { step: Step { writes, guards: Vec::new() }, fenced }
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

/// Says what a consumer that wants to leave is to do. From now on it gets nothing; there is no way back.
///
/// # Errors
/// When it is not registered, or another process is under its name.
pub fn deregister(
    state: &State,
    name: &ConsumerName,
    session: Option<SessionId>,
) -> Result<Deregistered, Refusal> {
    let Some(consumer) = state.consumers.get(name).map(|stored| &stored.value) else {
        return Err(Refusal::UnknownConsumer { consumer: name.clone() });
    };
    if session.is_some_and(|session| session != consumer.session) {
        return Err(Refusal::Fenced { consumer: name.clone() });
    }
    let is_owned = |place: &TopicPartition, owner: &ConsumerName| owner == name && state.has_partition(place);
    let mut owned = state.assignments.iter().filter(|(place, stored)| is_owned(place, &stored.value.owner));
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
    let can_be_taken = owned.any(|(place, _)| {
        let mut others = state.consumers.iter().filter(|(other, _)| *other != name);
        others.any(|(_, other)| other.value.takes(&place.topic))
    });
    Ok(if can_be_taken || lets_go {
        Deregistered::WaitForDrain { step }
    } else {
        Deregistered::ShutdownNow { step }
    })
}
