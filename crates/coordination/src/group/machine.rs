//! One group, and what a step of it may touch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::ids::{GroupId, OrgId};
use crate::limits::READ_ASSIGNMENT_BYTES_MAX;
use crate::reply::Reply;

use super::consumer_protocol::{self, Moves};
use super::deadlines::{Deadlines, Due};
use super::effects::{Effects, Room, Ticket, Usage};
use super::event::{Culprit, Events};
use super::member::{Member, Members, offered_bytes};
use super::offsets::Offsets;
use super::phase::{Owned, Phase};
use super::record::{GroupRecord, GroupValue, Identity, MemberValue};
use super::settings::GroupSettings;
use super::timestamp::{Now, Timestamp};

/// Everything about one group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: Arc<str>,
    /// Set from the first join or commit on; a group of a log that Kafka wrote gets one when it is next used.
    pub(super) identity: Option<GroupIdentity>,
    /// The highest generation that may have been given out, whether or not it became stable.
    pub(super) highest_generation: i32,
    /// Whether the log holds a record of the group itself. A group that only has offsets has none.
    pub(super) is_recorded: bool,
    /// What kind of group it is; kept when the last member has left.
    pub(super) protocol_type: Option<Arc<str>>,
    pub(super) generation: i32,
    /// What the members of this generation speak.
    pub(super) protocol: Option<Arc<str>>,
    /// What the members said they read when this generation began; `None` before the first. Kafka goes by it until the
    /// next one begins, whoever joins or leaves meanwhile.
    pub(super) subscriptions: Option<Vec<Bytes>>,
    pub(super) subscriptions_bytes: usize,
    /// Who leads this generation; none between the loss of a leader and the next one.
    pub(super) leader: Option<Arc<str>>,
    /// When the group came into its phase, in milliseconds since 1970.
    pub(super) phase_since_ms: Option<i64>,
    pub(super) members: Members,
    /// Ids that were given out and have not joined yet (KIP-394), and when each is forgotten.
    pub(super) pending: BTreeMap<Arc<str>, Timestamp>,
    pub(super) pending_bytes: usize,
    pub(super) phase: Phase,
    pub(super) offsets: Offsets,
    pub(super) events: Events,
}

/// What a group keeps for as long as it exists.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupIdentity {
    pub(super) id: GroupId,
    pub(super) created_ms: i64,
}

/// What one step of a group may look at and touch beside the group.
#[derive(Debug)]
pub(super) struct Step<'a> {
    pub(super) now: Now,
    pub(super) org: OrgId,
    pub(super) settings: &'a GroupSettings,
    /// What the broker has room for. Steps that only give back do not ask.
    pub(super) room: Room,
    pub(super) deadlines: &'a mut Deadlines,
    pub(super) effects: &'a mut Effects,
}

impl Step<'_> {
    pub(super) fn reply(&mut self, ticket: Ticket, reply: Reply) {
        self.effects.replies.push((ticket, reply));
    }
}

/// What a group takes beside its name, members, offsets and events: itself and its places in maps.
pub(super) const GROUP_BYTES: usize = size_of::<Group>() + 128;

/// What an id takes that was given out, beside its text: its places in maps.
pub(super) const PENDING_BYTES: usize = 160;

impl Group {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            identity: None,
            highest_generation: 0,
            is_recorded: false,
            protocol_type: None,
            generation: 0,
            protocol: None,
            subscriptions: None,
            subscriptions_bytes: 0,
            leader: None,
            phase_since_ms: None,
            members: Members::default(),
            pending: BTreeMap::new(),
            pending_bytes: 0,
            phase: Phase::Empty,
            offsets: Offsets::default(),
            events: Events::default(),
        }
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            groups: 1,
            members: self.members.len(),
            bytes: GROUP_BYTES
                + self.name.len()
                + self.protocol_type.as_ref().map_or(0, |kind| kind.len())
                + self.members.bytes()
                + self.subscriptions_bytes
                + self.phase.owned_bytes()
                + self.pending_bytes
                + self.offsets.bytes()
                + self.events.bytes(),
        }
    }

    /// Whether the log says that there is such a group.
    pub(super) fn is_stored(&self) -> bool {
        self.is_recorded || !self.offsets.is_empty()
    }

    pub(super) fn is_leader(&self, id: &str) -> bool {
        self.leader.as_deref() == Some(id)
    }

    /// Comes into a phase, and notes when.
    pub(super) fn enter(&mut self, step: &Step<'_>, phase: Phase) {
        self.phase = phase;
        self.phase_since_ms = Some(step.now.wall_ms);
    }

    /// Gives the group its id, if it has none yet.
    pub(super) fn identify(&mut self, step: &mut Step<'_>, minted: GroupId) {
        if self.identity.is_none() {
            self.identity = Some(GroupIdentity { id: minted, created_ms: step.now.wall_ms });
            self.store_identity(step);
        }
    }

    pub(super) fn store_identity(&self, step: &mut Step<'_>) {
        step.effects.records.extend(self.identity_value(step.org).map(GroupRecord::Identity));
    }

    pub(super) fn identity_value(&self, org: OrgId) -> Option<Identity> {
        self.identity.map(|GroupIdentity { id, created_ms }| Identity {
            id,
            org,
            name: Arc::clone(&self.name),
            generation: self.highest_generation.max(self.generation),
            created_ms,
        })
    }

    /// Writes down who is in the group now.
    pub(super) fn store(&mut self, step: &mut Step<'_>) {
        self.is_recorded = true;
        step.effects
            .records
            .push(GroupRecord::Group { group: Arc::clone(&self.name), value: Some(Box::new(self.value())) });
    }

    pub(super) fn value(&self) -> GroupValue {
        let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let members = self.members.iter().map(|(id, member)| MemberValue {
            member_id: id.to_string(),
            instance_id: text(&member.instance),
            client_id: member.client_id.to_string(),
            client_host: member.host.to_string(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            subscription: member.metadata(protocol).cloned().unwrap_or_default(),
            assignment: member.assignment().clone(),
        });
        GroupValue {
            protocol_type: text(&self.protocol_type).unwrap_or_default(),
            generation: self.generation,
            protocol: text(&self.protocol),
            leader: text(&self.leader),
            state_timestamp_ms: self.phase_since_ms,
            members: members.collect(),
        }
    }

    /// Gives out an id that has to join within `expires`.
    pub(super) fn add_pending(&mut self, step: &mut Step<'_>, id: Arc<str>, expires: Timestamp) {
        step.deadlines.set(expires, &self.name, Due::Pending(Arc::clone(&id)));
        self.pending_bytes += PENDING_BYTES + id.len();
        self.pending.insert(id, expires);
    }

    /// Forgets an id that was given out; says whether it was.
    pub(super) fn remove_pending(&mut self, step: &mut Step<'_>, id: &str) -> Option<Arc<str>> {
        let (id, expires) = self.pending.remove_entry(id)?;
        self.pending_bytes -= PENDING_BYTES + id.len();
        if self.pending.is_empty() {
            // A map keeps some room when its last entry goes.
            self.pending = BTreeMap::new();
        }
        step.deadlines.cancel(expires, &self.name, Due::Pending(Arc::clone(&id)));
        Some(id)
    }

    /// A member as it is named in events.
    pub(super) fn culprit(&self, id: &str) -> Option<Culprit> {
        let member = self.members.get(id)?;
        Some(Culprit {
            member: self.members.key(id)?,
            instance: member.instance.clone(),
            client_id: Arc::clone(&member.client_id),
            host: Arc::clone(&member.host),
        })
    }

    /// Notes what the members of the generation that begins read.
    pub(super) fn note_subscriptions(&mut self) {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let subscription = |(_, member): (_, &Member)| member.metadata(protocol).cloned().unwrap_or_default();
        let subscriptions: Vec<Bytes> = self.members.iter().map(subscription).collect();
        // Members hold the same bytes, but may let go of them before the group does.
        self.subscriptions_bytes = subscriptions.iter().map(|bytes| size_of::<Bytes>() + bytes.len()).sum();
        self.subscriptions = Some(subscriptions);
    }

    /// Those of `topics` that a group of consumers reads; `None` if that cannot be told.
    pub(super) fn subscribed<'a>(&self, topics: impl Iterator<Item = &'a str>) -> Option<BTreeSet<&'a str>> {
        if self.protocol_type.as_deref() != Some(CONSUMER) {
            return None;
        }
        let mut others: BTreeSet<&str> = topics.collect();
        let mut subscribed = BTreeSet::new();
        for subscription in self.subscriptions.as_ref()? {
            consumer_protocol::visit_subscribed_topics(subscription, |topic| {
                subscribed.extend(others.take(&*topic));
            })?;
        }
        Some(subscribed)
    }

    /// How many partitions have another owner than in `owned`, if this is a group of consumers; and those that nobody has
    /// now, as assignments of their last owners.
    pub(super) fn moves(&self, owned: &[(Arc<str>, Bytes)]) -> Option<(usize, Owned)> {
        if self.protocol_type.as_deref() != Some(CONSUMER) {
            return None;
        }
        if self.members.assigned_bytes() + owned_bytes(owned) > READ_ASSIGNMENT_BYTES_MAX {
            return None;
        }
        let before = owned.iter().map(|(id, assignment)| (id, &**assignment));
        let after = self.members.iter().map(|(id, member)| (id, &**member.assignment()));
        let Moves { moved, mut unowned } = consumer_protocol::moves(before, after)?;
        let topics = unowned.values().flat_map(BTreeMap::keys).map(|topic| &**topic);
        if let Some(subscribed) = self.subscribed(topics) {
            // What nobody reads any more has no next owner. Without this a group that reads a topic a day would remember
            // them all.
            let subscribed: BTreeSet<String> = subscribed.into_iter().map(str::to_owned).collect();
            for topics in unowned.values_mut() {
                topics.retain(|topic, _| subscribed.contains(&**topic));
            }
        }
        let unowned = unowned.into_iter().filter(|(_, topics)| !topics.is_empty()).map(|(owner, topics)| {
            let topics = topics.iter().map(|(topic, partitions)| (&**topic, partitions.iter().copied()));
            (Arc::clone(owner), consumer_protocol::encode_assignment(topics))
        });
        Some((moved, unowned.collect()))
    }

    /// Whether the member asks for the same as before with these protocols, if this is a group of consumers whose
    /// subscriptions can be read.
    pub(super) fn wants_the_same(&self, member: &Member, protocols: &[(Arc<str>, Bytes)]) -> bool {
        let before = member.protocols();
        let is_too_long = offered_bytes(before) + offered_bytes(protocols) > READ_ASSIGNMENT_BYTES_MAX;
        if is_too_long || self.protocol_type.as_deref() != Some(CONSUMER) {
            return false;
        }
        let is_known = |name| !member.may_offer_more || before.iter().any(|(known, _)| known == name);
        let mut after = protocols.iter().filter(|(name, _)| is_known(name));
        let is_same = before.iter().all(|(name, before)| {
            after.next().is_some_and(|(offered, after)| {
                let is_same = || consumer_protocol::same_topics(before, after) == Some(true);
                offered == name && (after == before || is_same())
            })
        });
        is_same && after.next().is_none()
    }
}

/// What owners and their assignments take.
pub(super) fn owned_bytes(owned: &[(Arc<str>, Bytes)]) -> usize {
    owned.iter().map(|(_, assignment)| size_of::<(Arc<str>, Bytes)>() + assignment.len()).sum()
}

/// The protocol type of consumers, whose metadata and assignments can be read.
pub(super) const CONSUMER: &str = "consumer";
