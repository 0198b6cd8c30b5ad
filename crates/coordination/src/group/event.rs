//! What is remembered of every rebalance, so that nobody has to ask why it happened.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::EVENTS_KEPT;

/// One rebalance, written when it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts the group's rebalances from 0.
    pub number: u64,
    /// When it began, in milliseconds since 1970.
    pub began_ms: i64,
    /// Why it began.
    pub cause: Cause,
    /// Who caused it; `None` when nobody in particular did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Culprit>,
    /// How it ended.
    pub outcome: Outcome,
    /// The generation that it gave out; the one before if it gave out none.
    pub generation: i32,
    /// How many members there were when it began.
    pub members_before: usize,
    /// How many there were when it ended.
    pub members_after: usize,
    /// How long members were joining, in milliseconds.
    pub join_ms: u64,
    /// How long members waited for the leader's assignment, in milliseconds.
    pub sync_ms: u64,
    /// How many partitions were given to another member than the last one that had them, where the assignments are the
    /// consumer protocol's and not too long to be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions_moved: Option<usize>,
}

/// A rebalance that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Underway {
    /// When it began, in milliseconds since 1970.
    pub began_ms: i64,
    /// Why it began.
    pub cause: Cause,
    /// Who caused it; `None` when nobody in particular did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Culprit>,
    /// How many members there were when it began.
    pub members_before: usize,
    /// How many there are.
    pub members: usize,
    /// What is being done.
    pub stage: Stage,
    /// Members that the rest wait for, as many as are named.
    pub waits_for: Vec<Culprit>,
    /// How many more there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waits_for_more: usize,
    /// How many clients were given a member id and have not joined with it (KIP-394), while the others wait for them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub newcomers: usize,
}

/// What a rebalance has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Members join.
    Joining,
    /// All have joined who will, and the leader is to say who gets what.
    Assigning,
}

/// Why a rebalance began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A member was added.
    MemberJoined {
        /// What it said (KIP-800).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    /// A member left.
    MemberLeft {
        /// What it said (KIP-800).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    /// Somebody else removed a static member.
    MemberRemoved {
        /// What was said (KIP-800).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    /// Somebody removed several members with one request; one of them is named.
    MembersRemoved {
        /// How many beside that one.
        more: usize,
        /// What was said of that one (KIP-800).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    /// A member was silent for its session timeout.
    SessionExpired,
    /// A member did not come for its assignment in time.
    SyncMissed,
    /// A member joined again with other protocols or topics.
    SubscriptionChanged {
        /// What it said (KIP-800).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    /// A member joined again with the protocols and topics that it had: cooperative consumers do so when they have given
    /// up partitions for others (KIP-429), and any consumer may ask for a rebalance.
    MemberRejoined {
        /// How many partitions it no longer holds of those that it held when it joined before, as far as it says.
        #[serde(default, skip_serializing_if = "is_zero")]
        given_up: usize,
        /// What it said (KIP-800).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    /// The leader joined again, which is how it tells that partitions have changed.
    LeaderRejoined {
        /// What it said (KIP-800).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    /// A static member came back under a new member id.
    StaticReplaced,
    /// The group was larger than it may be when it was loaded.
    TooLarge,
}

/// Who caused a rebalance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Culprit {
    /// Its member id.
    pub member: Arc<str>,
    /// The name that a static member keeps over restarts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<Arc<str>>,
    /// What the client calls itself.
    pub client_id: Arc<str>,
    /// The client's address, with a slash in front.
    pub host: Arc<str>,
}

/// How a rebalance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everybody has an assignment.
    Stable,
    /// Nobody is left.
    Empty,
    /// The next rebalance began before it was done.
    Overtaken,
}

/// The last events of a group, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Events {
    /// Boxed, because most groups have few and the ring has room for more than it holds.
    ring: VecDeque<Box<Event>>,
    bytes: usize,
}

impl Events {
    /// The number of the event to come.
    pub(crate) fn next_number(&self) -> u64 {
        self.ring.back().map_or(0, |event| event.number + 1)
    }

    /// Remembers one more, in place of the oldest if there are too many. The order of coming does not matter.
    pub(crate) fn push(&mut self, event: Box<Event>) {
        let place = self.ring.partition_point(|kept| kept.number < event.number);
        if self.ring.get(place).is_some_and(|kept| kept.number == event.number) {
            return;
        }
        self.bytes += event.bytes();
        self.ring.insert(place, event);
        if self.ring.len() > EVENTS_KEPT
            && let Some(oldest) = self.ring.pop_front()
        {
            self.bytes -= oldest.bytes();
        }
    }

    /// Forgets the oldest until the others take no more than `bytes`; the last one stays. Tells their places in the ring.
    pub(crate) fn shrink_to(&mut self, bytes: usize) -> Vec<u32> {
        let mut forgotten = Vec::new();
        while self.bytes > bytes && self.ring.len() > 1 {
            let Some(oldest) = self.ring.pop_front() else { break };
            self.bytes -= oldest.bytes();
            forgotten.push(oldest.slot());
        }
        forgotten
    }

    /// Forgets what is in one place of the ring.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.ring.retain(|event| event.slot() != slot);
        self.bytes = self.ring.iter().map(|event| event.bytes()).sum();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.ring.iter().map(|event| &**event)
    }

    /// About how much memory they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Event {
    fn bytes(&self) -> usize {
        let reason = match &self.cause {
            Cause::MemberJoined { reason }
            | Cause::MemberLeft { reason }
            | Cause::MemberRemoved { reason }
            | Cause::MembersRemoved { reason, .. }
            | Cause::MemberRejoined { reason, .. }
            | Cause::SubscriptionChanged { reason }
            | Cause::LeaderRejoined { reason } => reason.as_deref().map_or(0, str::len),
            Cause::SessionExpired | Cause::SyncMissed | Cause::StaticReplaced | Cause::TooLarge => 0,
        };
        let who = self.who.as_ref().map_or(0, |who| {
            let instance = who.instance.as_deref().map_or(0, str::len);
            who.member.len() + instance + who.client_id.len() + who.host.len()
        });
        size_of::<Self>() + reason + who
    }

    /// Its place in the ring, which is part of its key.
    pub fn slot(&self) -> u32 {
        u32::try_from(self.number % EVENTS_KEPT as u64).expect("a remainder of a small number")
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64) -> Event {
        Event {
            number,
            began_ms: 0,
            cause: Cause::SessionExpired,
            who: None,
            outcome: Outcome::Stable,
            generation: 1,
            members_before: 2,
            members_after: 1,
            join_ms: 3,
            sync_ms: 4,
            partitions_moved: None,
        }
    }

    fn numbers(events: &Events) -> Vec<u64> {
        events.iter().map(|event| event.number).collect()
    }

    #[test]
    fn the_last_events_are_kept_in_whatever_order_they_come() {
        let kept = u64::try_from(EVENTS_KEPT).unwrap();
        let mut events = Events::default();
        for number in (0..kept + 3).rev().chain([1, kept]) {
            events.push(event(number).into());
        }
        assert_eq!(numbers(&events), (3..kept + 3).collect::<Vec<_>>());
        assert_eq!(events.next_number(), kept + 3);
        events.forget(4);
        assert_eq!(events.bytes(), (EVENTS_KEPT - 1) * event(0).bytes());
    }

    #[test]
    fn an_event_is_written_without_what_it_does_not_have() {
        let json = serde_json::to_string(&event(7)).unwrap();
        assert_eq!(
            json,
            r#"{"number":7,"began_ms":0,"cause":"session_expired","outcome":"stable","generation":1,"members_before":2,"members_after":1,"join_ms":3,"sync_ms":4}"#
        );
        assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event(7));
    }

    #[test]
    fn every_cause_is_written_under_a_name_that_stays() {
        let reason = || Some("so".into());
        for (cause, expected) in [
            (Cause::MemberJoined { reason: None }, r#"{"member_joined":{}}"#),
            (Cause::MemberLeft { reason: reason() }, r#"{"member_left":{"reason":"so"}}"#),
            (Cause::MemberRemoved { reason: None }, r#"{"member_removed":{}}"#),
            (
                Cause::MembersRemoved { more: 2, reason: reason() },
                r#"{"members_removed":{"more":2,"reason":"so"}}"#,
            ),
            (Cause::SessionExpired, r#""session_expired""#),
            (Cause::SyncMissed, r#""sync_missed""#),
            (Cause::SubscriptionChanged { reason: None }, r#"{"subscription_changed":{}}"#),
            (Cause::MemberRejoined { given_up: 0, reason: None }, r#"{"member_rejoined":{}}"#),
            (Cause::MemberRejoined { given_up: 3, reason: None }, r#"{"member_rejoined":{"given_up":3}}"#),
            (Cause::LeaderRejoined { reason: None }, r#"{"leader_rejoined":{}}"#),
            (Cause::StaticReplaced, r#""static_replaced""#),
            (Cause::TooLarge, r#""too_large""#),
        ] {
            assert_eq!(serde_json::to_string(&cause).unwrap(), expected);
            assert_eq!(serde_json::from_str::<Cause>(expected).unwrap(), cause);
        }
    }
}
