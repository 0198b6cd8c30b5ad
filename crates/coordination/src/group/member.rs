//! The members of one group.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error_code::ErrorCode;

use super::by_name::ByName;
use super::deadlines::{Deadlines, Due};
use super::java_hash::java_bucket;
use super::timestamp::Timestamp;

/// One member.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Counts the members of the group in the order of being added; a static member keeps it over restarts.
    pub(super) number: u64,
    /// The name that a static member keeps over restarts.
    pub(super) instance: Option<Arc<str>>,
    pub(super) client_id: Arc<str>,
    pub(super) host: Arc<str>,
    pub(super) session_timeout_ms: i32,
    pub(super) rebalance_timeout_ms: i32,
    /// Names and metadata of what it offers, the best first; no name twice.
    protocols: Protocols,
    /// Whether it may offer more than that: of a group in the log only the chosen protocol is known.
    pub(super) may_offer_more: bool,
    /// What the leader assigned last.
    assignment: Bytes,
    /// Whether it waits in its first join.
    pub(super) new: bool,
    /// When the session is over.
    expires: Timestamp,
    /// When its deadline comes: not after `expires`, but for the moment that a heartbeat may have waited for its turn, and
    /// not after the end of a session that begins now.
    queued: Timestamp,
}

/// Names and metadata, the best first.
pub(super) type Protocols = Box<[(Arc<str>, Bytes)]>;

/// What a member takes beside its texts and bytes: itself, its places in maps, its deadline, a parked request.
const MEMBER_BYTES: usize = 640;

impl Member {
    pub(super) fn session_timeout(&self) -> Duration {
        duration(self.session_timeout_ms)
    }

    pub(super) fn rebalance_timeout(&self) -> Duration {
        duration(self.rebalance_timeout_ms)
    }

    pub(super) fn protocols(&self) -> &[(Arc<str>, Bytes)] {
        &self.protocols
    }

    pub(super) fn assignment(&self) -> &Bytes {
        &self.assignment
    }

    /// What it said about itself in this protocol.
    pub(super) fn metadata(&self, protocol: &str) -> Option<&Bytes> {
        self.protocols.iter().find(|(name, _)| **name == *protocol).map(|(_, metadata)| metadata)
    }

    /// The member was heard of: its session begins anew. Its deadline stays where it is and is set again when it comes.
    pub(super) fn renew(&mut self, now: Timestamp) {
        self.expires = now.after(self.session_timeout());
    }

    /// Sees to it that the deadline does not come after `at`.
    fn queue_by(&mut self, at: Timestamp, id: &Arc<str>, group: &Arc<str>, deadlines: &mut Deadlines) {
        if at < self.queued {
            deadlines.cancel(self.queued, group, Due::Member(Arc::clone(id)));
            self.queued = at;
            deadlines.set(at, group, Due::Member(Arc::clone(id)));
        }
    }

    pub(super) fn bytes(&self, id: &str) -> usize {
        let texts = id.len() + self.instance.as_ref().map_or(0, |name| 2 * name.len());
        let caller = self.client_id.len() + self.host.len();
        MEMBER_BYTES + texts + caller + protocol_bytes(&self.protocols) + self.assignment.len()
    }
}

/// What a request asks to be remembered of a member.
#[derive(Debug)]
pub(super) struct NewMember<'a> {
    pub(super) instance: Option<&'a str>,
    pub(super) client_id: &'a str,
    pub(super) host: &'a str,
    pub(super) session_timeout_ms: i32,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) protocols: Protocols,
}

/// Those who are in a group, with counts that keep a join cheap in a large one.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    by_id: ByName<Member>,
    /// Static members: their own names and their member ids.
    instances: BTreeMap<Arc<str>, Arc<str>>,
    /// How many members offer each protocol.
    offered: BTreeMap<Arc<str>, usize>,
    /// How many were ever added.
    added: u64,
    bytes: usize,
}

impl Members {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of them, by id.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Member)> {
        self.by_id.in_order().into_iter()
    }

    /// All that is assigned, in bytes.
    pub(super) fn assigned_bytes(&self) -> usize {
        self.by_id.iter().map(|(_, member)| member.assignment.len()).sum()
    }

    pub(super) fn get(&self, id: &str) -> Option<&Member> {
        self.by_id.get(id)
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// The stored spelling of an id, so that it is kept in memory once.
    pub(super) fn key(&self, id: &str) -> Option<Arc<str>> {
        self.by_id.get_key_value(id).map(|(id, _)| Arc::clone(id))
    }

    /// The member id of a static member.
    pub(super) fn of_instance(&self, instance: &str) -> Option<&Arc<str>> {
        self.instances.get(instance)
    }

    pub(super) fn static_count(&self) -> usize {
        self.instances.len()
    }

    /// Whether these are the protocols that members offer, and how many offer each.
    pub(super) fn has_offers(&self, offered: &BTreeMap<&str, usize>) -> bool {
        self.offered
            .iter()
            .map(|(name, count)| (&**name, *count))
            .eq(offered.iter().map(|(name, count)| (*name, *count)))
    }

    /// Whether this is a member, under its own name if it gives one (KIP-345).
    pub(super) fn check(&self, id: &str, instance: Option<&str>) -> Result<(), ErrorCode> {
        self.check_instance(id, instance)?;
        if self.by_id.contains_key(id) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    /// The member that [`Self::check`] finds.
    pub(super) fn find_mut(&mut self, id: &str, instance: Option<&str>) -> Result<&mut Member, ErrorCode> {
        self.check_instance(id, instance)?;
        self.by_id.get_mut(id).ok_or(ErrorCode::UnknownMemberId)
    }

    fn check_instance(&self, id: &str, instance: Option<&str>) -> Result<(), ErrorCode> {
        match instance.map(|instance| self.instances.get(instance)) {
            None => Ok(()),
            Some(None) => Err(ErrorCode::UnknownMemberId),
            Some(Some(holder)) if **holder == *id => Ok(()),
            Some(Some(_)) => Err(ErrorCode::FencedInstanceId),
        }
    }

    /// Whether one of these protocols is offered by every member that there is.
    pub(super) fn can_agree_on(&self, protocols: &[(Arc<str>, Bytes)]) -> bool {
        protocols.iter().any(|(name, _)| self.offered.get(name).copied().unwrap_or(0) == self.len())
    }

    /// Adds a member whose session is over at `expires`.
    ///
    /// # Panics
    /// When there is one of this id or instance.
    pub(super) fn add(
        &mut self,
        id: &Arc<str>,
        new: NewMember<'_>,
        expires: Timestamp,
        group: &Arc<str>,
        deadlines: &mut Deadlines,
    ) {
        let instance: Option<Arc<str>> = new.instance.map(Arc::from);
        if let Some(instance) = &instance {
            let before = self.instances.insert(Arc::clone(instance), Arc::clone(id));
            assert!(before.is_none(), "a static member that is there is replaced, not added");
        }
        let member = Box::new(Member {
            number: self.added,
            instance,
            client_id: new.client_id.into(),
            host: new.host.into(),
            session_timeout_ms: new.session_timeout_ms,
            rebalance_timeout_ms: new.rebalance_timeout_ms,
            protocols: Protocols::default(),
            may_offer_more: false,
            assignment: Bytes::new(),
            new: true,
            expires,
            queued: expires,
        });
        deadlines.set(expires, group, Due::Member(Arc::clone(id)));
        self.added += 1;
        self.bytes += member.bytes(id);
        let before = self.by_id.insert(Arc::clone(id), member);
        assert!(before.is_none(), "a new member's id is random");
        self.set_protocols(id, new.protocols);
    }

    /// Forgets a member and its deadline.
    pub(super) fn remove(
        &mut self,
        id: &str,
        group: &Arc<str>,
        deadlines: &mut Deadlines,
    ) -> Option<(Arc<str>, Box<Member>)> {
        let (id, member) = self.by_id.remove(id)?;
        deadlines.cancel(member.queued, group, Due::Member(Arc::clone(&id)));
        self.bytes -= member.bytes(&id);
        self.count_offers(&member.protocols, false);
        if let Some(instance) = &member.instance {
            self.instances.remove(instance);
        }
        if self.by_id.is_empty() {
            // A map keeps some room when its last entry goes; a hundred thousand empty groups would feel it.
            self.by_id = ByName::default();
            self.instances = BTreeMap::new();
            self.offered = BTreeMap::new();
        }
        Some((id, member))
    }

    /// A static member goes on under a new id, with all that it has; its session begins anew.
    pub(super) fn replace(
        &mut self,
        old: &str,
        id: &Arc<str>,
        now: Timestamp,
        group: &Arc<str>,
        deadlines: &mut Deadlines,
    ) {
        let Some((old, mut member)) = self.by_id.remove(old) else { return };
        deadlines.cancel(member.queued, group, Due::Member(Arc::clone(&old)));
        self.bytes -= member.bytes(&old);
        if let Some(instance) = &member.instance {
            self.instances.insert(Arc::clone(instance), Arc::clone(id));
        }
        member.new = false;
        member.expires = now.after(member.session_timeout());
        member.queued = member.expires;
        deadlines.set(member.queued, group, Due::Member(Arc::clone(id)));
        self.bytes += member.bytes(id);
        self.by_id.insert(Arc::clone(id), member);
    }

    /// What a member says of itself when it joins again.
    ///
    /// The session goes on as it is; but from now on a shorter one may begin at any time, and its end must not be
    /// missed.
    pub(super) fn update(
        &mut self,
        id: &Arc<str>,
        request: NewMember<'_>,
        now: Timestamp,
        group: &Arc<str>,
        deadlines: &mut Deadlines,
    ) {
        if let Some(member) = self.by_id.get_mut(id) {
            member.session_timeout_ms = request.session_timeout_ms;
            member.rebalance_timeout_ms = request.rebalance_timeout_ms;
            member.queue_by(now.after(member.session_timeout()), id, group, deadlines);
            member.may_offer_more = false;
            self.set_protocols(id, request.protocols);
        }
    }

    fn set_protocols(&mut self, id: &str, protocols: Protocols) {
        let Some(member) = self.by_id.get_mut(id) else { return };
        let before = std::mem::take(&mut member.protocols);
        self.bytes = self.bytes - protocol_bytes(&before) + protocol_bytes(&protocols);
        self.count_offers(&before, false);
        self.count_offers(&protocols, true);
        let known = |name: &Arc<str>| self.offered.get_key_value(name).map(|(name, _)| Arc::clone(name));
        // All members hold the same copy of a protocol's name.
        let protocols: Protocols =
            protocols.into_iter().map(|(name, metadata)| (known(&name).unwrap_or(name), metadata)).collect();
        if let Some(member) = self.by_id.get_mut(id) {
            member.protocols = protocols;
        }
    }

    fn count_offers(&mut self, protocols: &[(Arc<str>, Bytes)], more: bool) {
        for (name, _) in protocols {
            let count = self.offered.entry(Arc::clone(name)).or_default();
            if *count == 0 {
                self.bytes += offer_bytes(name);
            }
            *count = if more { *count + 1 } else { *count - 1 };
            if *count == 0 {
                self.offered.remove(name);
                self.bytes -= offer_bytes(name);
            }
        }
    }

    /// Gives a member that the log tells of what it was assigned.
    pub(super) fn restore(&mut self, id: &str, assignment: Bytes) {
        if let Some(member) = self.by_id.get_mut(id) {
            member.may_offer_more = true;
            self.bytes = self.bytes - member.assignment.len() + assignment.len();
            member.assignment = assignment;
        }
    }

    /// Gives every member what `assignment` says, and takes away the rest.
    pub(super) fn assign(&mut self, mut assignment: impl FnMut(&Arc<str>) -> Bytes) {
        for (id, member) in self.by_id.iter_mut() {
            let assigned = assignment(id);
            self.bytes = self.bytes - member.assignment.len() + assigned.len();
            member.assignment = assigned;
        }
    }

    /// The member was heard of: its session begins anew.
    pub(super) fn renew(&mut self, id: &str, now: Timestamp) {
        if let Some(member) = self.by_id.get_mut(id) {
            member.renew(now);
        }
    }

    /// Begins every member's session anew, when a generation begins: nobody is new any more.
    pub(super) fn renew_all(&mut self, now: Timestamp, group: &Arc<str>, deadlines: &mut Deadlines) {
        for (id, member) in self.by_id.iter_mut() {
            member.new = false;
            member.renew(now);
            member.queue_by(member.expires, id, group, deadlines);
        }
    }

    /// A member's deadline has come. Sets it again if the session is not over, or if `alive` says that the member
    /// waits for an answer of ours.
    pub(super) fn handle_deadline(
        &mut self,
        id: &Arc<str>,
        now: Timestamp,
        alive: bool,
        group: &Arc<str>,
        deadlines: &mut Deadlines,
    ) -> Session {
        let Some(member) = self.by_id.get_mut(id) else { return Session::Goes };
        if member.expires <= now {
            if member.new || !alive {
                return Session::Over;
            }
            // It is renewed when the answer leaves; until then this looks again now and then.
            member.expires = now.after(member.session_timeout().max(Duration::from_millis(1)));
        }
        member.queued = member.expires;
        deadlines.set(member.queued, group, Due::Member(Arc::clone(id)));
        Session::Goes
    }

    /// How long a rebalance may take: as long as the slowest member asks for.
    pub(super) fn rebalance_timeout(&self) -> Duration {
        self.by_id.iter().map(|(_, member)| member.rebalance_timeout()).max().unwrap_or_default()
    }

    /// The protocol that most members like best, among those that all offer.
    ///
    /// Ties go to the name that comes first in Java's hash map, as in Kafka 4.3.
    pub(super) fn vote(&self) -> Option<Arc<str>> {
        let all = self.len();
        let mut votes: BTreeMap<&Arc<str>, usize> =
            self.offered.iter().filter(|(_, count)| **count == all).map(|(name, _)| (name, 0)).collect();
        if votes.len() > 1 {
            for (_, member) in self.by_id.iter() {
                let vote = member.protocols.iter().find(|(name, _)| votes.contains_key(name));
                if let Some(count) = vote.and_then(|(name, _)| votes.get_mut(name)) {
                    *count += 1;
                }
            }
        }
        let best = votes.into_iter().min_by_key(|(name, votes)| (usize::MAX - votes, java_bucket(name)));
        best.map(|(name, _)| Arc::clone(name))
    }
}

/// What a member's deadline comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Session {
    /// The member stays.
    Goes,
    /// The member has been silent for too long.
    Over,
}

/// About what a member that sends these would take.
pub(super) fn member_bytes(id: usize, caller: usize, protocols: &[(Arc<str>, Bytes)]) -> usize {
    MEMBER_BYTES + id + caller + offered_bytes(protocols)
}

/// About what a member takes that offers these and is the first to do so, with what the group notes of it when a
/// generation begins.
pub(super) fn offered_bytes(protocols: &[(Arc<str>, Bytes)]) -> usize {
    let noted = protocols.iter().map(|(_, metadata)| metadata.len()).max();
    let names: usize = protocols.iter().map(|(name, _)| offer_bytes(name)).sum();
    protocol_bytes(protocols) + names + size_of::<Bytes>() + noted.unwrap_or_default()
}

/// What the name of a protocol takes that at least one member offers. All members share it; but a hostile one can
/// offer any number of its own.
pub(super) fn offer_bytes(name: &str) -> usize {
    96 + name.len()
}

fn protocol_bytes(protocols: &[(Arc<str>, Bytes)]) -> usize {
    protocols
        .iter()
        .map(|(name, metadata)| size_of::<(Arc<str>, Bytes)>() + name.len() + metadata.len())
        .sum()
}

/// A timeout as clients send it; below zero is none.
fn duration(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
