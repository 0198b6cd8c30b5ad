//! What consumers say about handoffs, and what comes of it.

use super::key::Key;
use super::names::{ConsumerName, Epoch, HandoffId, SessionId, TopicPartition};
use super::plan::fits;
use super::state::{State, Step, Write};
use super::value::{Assignment, Entry, Handoff, Mode, Phase, Progress};

/// Who says something about which handoff. Clients of the original contract know no ids and epochs; what they do not say
/// is not checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ack {
    /// Who says it.
    pub caller: ConsumerName,
    /// Which process of that name says it; [`SessionId::NIL`] if it knows no sessions, and then it speaks for nobody who
    /// has one.
    pub session: SessionId,
    /// Which partition it is about.
    pub partition: TopicPartition,
    /// Which handoff it is about.
    pub handoff: Option<HandoffId>,
    /// The epoch of that handoff.
    pub epoch: Option<Epoch>,
}

/// Why an acknowledgement was not accepted. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The caller is not registered; it has to register again.
    #[error("consumer {consumer} is not registered")]
    UnknownConsumer {
        /// The caller.
        consumer: ConsumerName,
    },
    /// Another process has registered under the caller's name. The caller has to stop.
    #[error("another process has registered as {consumer}; this one has to stop")]
    Fenced {
        /// The caller.
        consumer: ConsumerName,
    },
    /// Another process that was registered under the caller's name may still work. The caller has not been told to let
    /// go, and cannot speak for the other.
    #[error("a former process of {consumer} may still be at work")]
    PredecessorWorks {
        /// The caller.
        consumer: ConsumerName,
    },
    /// The partition is not being handed over.
    #[error("no handoff of {partition} is under way")]
    UnknownHandoff {
        /// The partition.
        partition: TopicPartition,
    },
    /// The partition is being handed over by another handoff.
    #[error("handoff {given} of {partition} is over; {current} is under way")]
    StaleHandoff {
        /// The partition.
        partition: TopicPartition,
        /// The id that was given.
        given: HandoffId,
        /// The handoff that is under way.
        current: HandoffId,
    },
    /// The epoch is another.
    #[error("epoch {given} of {partition} is not that of its handoff, which has {current}")]
    StaleEpoch {
        /// The partition.
        partition: TopicPartition,
        /// The epoch that was given.
        given: Epoch,
        /// The epoch of the handoff.
        current: Epoch,
    },
    /// The partition is handed over to another.
    #[error("{partition} is handed over to {target}, not to {caller}")]
    NotTheTarget {
        /// The partition.
        partition: TopicPartition,
        /// The caller.
        caller: ConsumerName,
        /// The target of the handoff.
        target: ConsumerName,
    },
    /// The partition is handed over by another.
    #[error("{partition} is handed over by {owner}, not by {caller}")]
    NotTheOwner {
        /// The partition.
        partition: TopicPartition,
        /// The caller.
        caller: ConsumerName,
        /// The owner before.
        owner: ConsumerName,
    },
    /// It is not time to say this.
    #[error("the handoff of {partition} is in phase {phase:?}, where this cannot be said")]
    WrongPhase {
        /// The partition.
        partition: TopicPartition,
        /// The phase.
        phase: Phase,
    },
    /// The handoff has been given up. The owner goes on.
    #[error("handoff {handoff} of {partition} was given up")]
    Cancelled {
        /// The partition.
        partition: TopicPartition,
        /// The handoff.
        handoff: HandoffId,
    },
    /// The target is not there just now. To be said again, until the caller is told what becomes of the partition.
    #[error("{target}, which {partition} is handed over to, is away; say it again")]
    TargetAway {
        /// The partition.
        partition: TopicPartition,
        /// The target of the handoff.
        target: ConsumerName,
    },
    /// The partition's owner is not who it was when the handoff began. A plan will clear the handoff away.
    #[error("{partition} has another owner than when handoff {handoff} began")]
    OwnerChanged {
        /// The partition.
        partition: TopicPartition,
        /// The handoff.
        handoff: HandoffId,
    },
}

/// The target says that it is warm. Said again, it changes nothing.
///
/// # Errors
/// When the caller is not the target of such a handoff.
pub fn ready(state: &State, now_ms: u64, ack: &Ack) -> Result<Option<Step>, Refusal> {
    let place = &ack.partition;
    check_caller(state, ack)?;
    if is_settled(state, ack, |owner| *owner == ack.caller) {
        return Ok(None);
    }
    let handoff = as_target(state, ack)?;
    match handoff.phase {
        Phase::Ready | Phase::Complete => return Ok(None),
        Phase::Cancelled => return Err(cancelled(place, handoff)),
        Phase::Warming => {}
    }
    let assigned = check_owner(state, place, handoff)?;
    let next = |phase| {
        let next = Handoff { phase, phase_since_ms: now_ms, ..handoff.clone() };
        state.put(Entry::Handoff(place.clone(), next))
    };
    match handoff.mode {
        // The owner must still be who is told to let go now.
        Mode::Exclusive => {
            let mut step = step(state, ack, vec![next(Phase::Ready)]);
            step.guards.push(state.guard(Key::Assignment(place.clone())));
            Ok(Some(step))
        }
        Mode::Overlap => Ok(Some(step(state, ack, vec![assigned, next(Phase::Complete)]))),
    }
}

/// The old owner says that it has let go: it has stopped, and what it did is stored. Said again, it changes nothing.
///
/// # Errors
/// When the caller was not told to let go.
pub fn released(state: &State, ack: &Ack) -> Result<Option<Step>, Refusal> {
    let place = &ack.partition;
    check_caller(state, ack)?;
    if is_settled(state, ack, |owner| *owner != ack.caller) {
        return Ok(None);
    }
    let handoff = find(state, ack)?;
    if handoff.from != ack.caller {
        let (caller, owner) = (ack.caller.clone(), handoff.from.clone());
        return Err(Refusal::NotTheOwner { partition: place.clone(), caller, owner });
    }
    if state.has_predecessors(&ack.caller) {
        return Err(Refusal::PredecessorWorks { consumer: ack.caller.clone() });
    }
    let done = state.delete(Key::Handoff(place.clone()));
    match handoff.phase {
        Phase::Complete => Ok(Some(step(state, ack, vec![done]))),
        // The target may be back before a plan gives the handoff up, and an earlier call that says the same may still be
        // carried out then. So the caller must not go on by itself: it keeps the partition when it is told so.
        Phase::Ready if !is_target_alive(state, place, handoff) => {
            Err(Refusal::TargetAway { partition: place.clone(), target: handoff.to.clone() })
        }
        Phase::Ready => {
            let mut step = step(state, ack, vec![check_owner(state, place, handoff)?, done]);
            step.guards.push(state.guard(Key::Consumer(handoff.to.clone())));
            Ok(Some(step))
        }
        Phase::Warming => Err(Refusal::WrongPhase { partition: place.clone(), phase: handoff.phase }),
        Phase::Cancelled => Err(cancelled(place, handoff)),
    }
}

/// The target says how far it is. Only growth is worth writing, and only growth gives it more time; of `progress`, the
/// time is when it was said.
///
/// # Errors
/// When the caller is not the target of a handoff that is warming up.
pub fn progress(state: &State, ack: &Ack, progress: Progress) -> Result<Option<Step>, Refusal> {
    let place = &ack.partition;
    check_caller(state, ack)?;
    let handoff = as_target(state, ack)?;
    match handoff.phase {
        Phase::Warming => {}
        Phase::Cancelled => return Err(cancelled(place, handoff)),
        Phase::Ready | Phase::Complete => {
            return Err(Refusal::WrongPhase { partition: place.clone(), phase: handoff.phase });
        }
    }
    if handoff.progress.is_some_and(|known| progress.done <= known.done) {
        return Ok(None);
    }
    let next = Handoff { progress: Some(progress), ..handoff.clone() };
    Ok(Some(step(state, ack, vec![state.put(Entry::Handoff(place.clone(), next))])))
}

/// An operator gives a handoff up. The partition stays where it is for as long as after a handoff that took too long.
///
/// # Errors
/// When there is no such handoff, or the target is the owner already.
pub fn cancel(
    state: &State,
    now_ms: u64,
    partition: &TopicPartition,
    id: Option<HandoffId>,
) -> Result<Option<Step>, Refusal> {
    let Some(stored) = state.handoffs.get(partition) else {
        return Err(Refusal::UnknownHandoff { partition: partition.clone() });
    };
    let handoff = &stored.value;
    check_id(partition, handoff, id)?;
    match handoff.phase {
        Phase::Cancelled => return Ok(None),
        Phase::Complete => {
            return Err(Refusal::WrongPhase { partition: partition.clone(), phase: handoff.phase });
        }
        Phase::Warming | Phase::Ready => {}
    }
    let next = Handoff { phase: Phase::Cancelled, phase_since_ms: now_ms, ..handoff.clone() };
    let writes = vec![state.put(Entry::Handoff(partition.clone(), next))];
    Ok(Some(Step { writes, guards: Vec::new() }))
}

/// Whether what is said has come true before: the handoff is gone, and its epoch is that of the assignment. The answer
/// was lost, and the client says it again.
fn is_settled(state: &State, ack: &Ack, is_right_owner: impl Fn(&ConsumerName) -> bool) -> bool {
    let Some(assignment) = state.assignments.get(&ack.partition).map(|stored| &stored.value) else {
        return false;
    };
    !state.handoffs.contains_key(&ack.partition)
        && ack.epoch == Some(assignment.epoch)
        && is_right_owner(&assignment.owner)
}

fn check_caller(state: &State, ack: &Ack) -> Result<(), Refusal> {
    let consumer = ack.caller.clone();
    let Some(stored) = state.consumers.get(&consumer) else {
        return Err(Refusal::UnknownConsumer { consumer });
    };
    if ack.session != stored.value.session {
        return Err(Refusal::Fenced { consumer });
    }
    Ok(())
}

fn find<'a>(state: &'a State, ack: &Ack) -> Result<&'a Handoff, Refusal> {
    let partition = &ack.partition;
    let Some(stored) = state.handoffs.get(partition) else {
        return Err(Refusal::UnknownHandoff { partition: partition.clone() });
    };
    let handoff = &stored.value;
    check_id(partition, handoff, ack.handoff)?;
    match ack.epoch {
        Some(given) if given != handoff.epoch => {
            Err(Refusal::StaleEpoch { partition: partition.clone(), given, current: handoff.epoch })
        }
        _ => Ok(handoff),
    }
}

fn check_id(partition: &TopicPartition, handoff: &Handoff, given: Option<HandoffId>) -> Result<(), Refusal> {
    match given {
        Some(given) if given != handoff.id => {
            Err(Refusal::StaleHandoff { partition: partition.clone(), given, current: handoff.id })
        }
        _ => Ok(()),
    }
}

/// The handoff, if the caller is its target: the process that was told to warm up, not a later one of its name, and
/// not one that is about to leave.
fn as_target<'a>(state: &'a State, ack: &Ack) -> Result<&'a Handoff, Refusal> {
    let handoff = find(state, ack)?;
    let partition = ack.partition.clone();
    if handoff.to != ack.caller {
        let (caller, target) = (ack.caller.clone(), handoff.to.clone());
        return Err(Refusal::NotTheTarget { partition, caller, target });
    }
    if !is_target_alive(state, &partition, handoff) {
        return Err(cancelled(&partition, handoff));
    }
    Ok(handoff)
}

fn is_target_alive(state: &State, place: &TopicPartition, handoff: &Handoff) -> bool {
    state.takes(&handoff.to, handoff.to_session, &place.topic)
}

/// The write that makes the target the owner, if the owner is still who is to let go.
fn check_owner(state: &State, place: &TopicPartition, handoff: &Handoff) -> Result<Write, Refusal> {
    let assignment = state.assignments.get(place).map(|stored| &stored.value);
    if !assignment.is_some_and(|assignment| fits(handoff, assignment)) {
        return Err(Refusal::OwnerChanged { partition: place.clone(), handoff: handoff.id });
    }
    let moved = Assignment { owner: handoff.to.clone(), epoch: handoff.epoch };
    Ok(state.put(Entry::Assignment(place.clone(), moved)))
}

/// A process that registers under the caller's name after this was read is told what it owns, and begins. So what the
/// caller says is void then.
fn step(state: &State, ack: &Ack, writes: Vec<Write>) -> Step {
    Step { writes, guards: vec![state.guard(Key::Consumer(ack.caller.clone()))] }
}

fn cancelled(place: &TopicPartition, handoff: &Handoff) -> Refusal {
    Refusal::Cancelled { partition: place.clone(), handoff: handoff.id }
}
