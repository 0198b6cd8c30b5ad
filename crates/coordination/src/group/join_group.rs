//! JoinGroup: becoming a member, and staying one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error_code::ErrorCode;
use crate::limits::{NEW_MEMBER_JOIN_TIMEOUT_MS, PENDING_MEMBERS_MAX, REASON_CHARS_MAX};
use crate::op;
use crate::reply::Reply;

use super::Shard;
use super::consumer_protocol;
use super::effects::{Caller, Effects, Minted, Room, Ticket};
use super::event::{Cause, Culprit};
use super::machine::{GROUP_BYTES, Group, Step};
use super::member::{Member, NewMember, Protocols, member_bytes, offered_bytes};
use super::phase::{Phase, Why};
use super::rebalance::{join_refusal, sync_refusal};
use super::record::{GroupRecord, GroupValue, KAFKA_TEXT_MAX};
use super::timestamp::Now;

impl Shard {
    /// A member joins, or joins again; answered when the next generation begins.
    #[expect(clippy::too_many_arguments, reason = "each is a different kind of thing")]
    pub fn handle_join(
        &mut self,
        now: Now,
        ticket: Ticket,
        op: &op::JoinGroup,
        caller: Caller<'_>,
        minted: Minted,
        room: Room,
        effects: &mut Effects,
    ) {
        let join = Join { op, protocols: distinct(&op.protocols), caller, minted, ticket };
        let is_new_group = match self.check_join(&join, room) {
            Ok(is_new_group) => is_new_group,
            Err(code) => {
                effects.replies.push((ticket, join_refusal(&op.member_id, code)));
                return;
            }
        };
        if is_new_group {
            self.add_group(&op.group);
        }
        self.within(now, &op.group, effects, |group, step| {
            step.room = room;
            group.identify(step, minted.group);
            let records_before = step.effects.records.len();
            group.join(step, join);
            let is_stored = step.effects.records[records_before..]
                .iter()
                .any(|record| matches!(record, GroupRecord::Group { .. }));
            // Also one that has had only offsets: if it lost them and the broker crashed before the first sync,
            // nothing would speak for it, and its generations would begin anew.
            if (is_new_group || !group.members.is_empty()) && !group.is_recorded && !is_stored {
                group.store_as_new(step);
            }
        });
    }

    /// What can be refused without a look into the group. Says whether the group has to be made.
    fn check_join(&self, join: &Join<'_>, room: Room) -> Result<bool, ErrorCode> {
        let op = join.op;
        if op.group.is_empty() || op.group.len() > KAFKA_TEXT_MAX {
            return Err(ErrorCode::InvalidGroupId);
        }
        let session = Duration::from_millis(u64::try_from(op.session_timeout_ms).unwrap_or(0));
        if session < self.settings.session_timeout_min || session > self.settings.session_timeout_max {
            return Err(ErrorCode::InvalidSessionTimeout);
        }
        let group = self.groups.get(&op.group);
        if group.is_none() && !op.member_id.is_empty() {
            return Err(ErrorCode::UnknownMemberId);
        }
        if group.is_none() && room.groups == 0 {
            return Err(ErrorCode::PolicyViolation);
        }
        // An empty group takes the kind of the member that comes first.
        let kind = match group.and_then(|group| group.protocol_type.as_ref()) {
            Some(kind) => op.protocol_type.len().saturating_sub(kind.len()),
            None => op.protocol_type.len(),
        };
        let place = group.and_then(|group| join.place_in(group));
        if place.is_none() && room.members == 0 {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        let more = match place {
            Some(member) => offered_bytes(&join.protocols).saturating_sub(offered_bytes(member.protocols())),
            None => join.bytes() + kind + if group.is_none() { GROUP_BYTES + op.group.len() } else { 0 },
        };
        // Whoever is in already and asks for no more than before is never in the way.
        if more > room.bytes {
            return Err(ErrorCode::PolicyViolation);
        }
        Ok(group.is_none())
    }
}

/// A join as the group looks at it.
struct Join<'a> {
    op: &'a op::JoinGroup,
    protocols: Protocols,
    caller: Caller<'a>,
    minted: Minted,
    ticket: Ticket,
}

impl<'a> Join<'a> {
    /// The member that joins again, or that a static one takes the place of.
    fn place_in<'g>(&self, group: &'g Group) -> Option<&'g Member> {
        let id = match &self.op.instance_id {
            Some(instance) if self.op.member_id.is_empty() => group.members.of_instance(instance)?,
            _ => self.op.member_id.as_str(),
        };
        group.members.get(id)
    }

    fn bytes(&self) -> usize {
        let ids =
            self.op.instance_id.as_ref().map_or(self.caller.client_id.len(), |name| 3 * name.len()) + 37;
        // The group notes once more what the chosen protocol says.
        let noted = self.protocols.iter().map(|(_, metadata)| metadata.len()).max().unwrap_or(0);
        let noted = noted + size_of::<Bytes>();
        noted + member_bytes(ids, self.caller.client_id.len() + self.caller.host.len(), &self.protocols)
    }

    /// A new member's id: random, after a name that people recognise. The name may be as long as a text can be; an id
    /// that is longer could not be told to its member.
    fn new_id(&self) -> Arc<str> {
        let name = self.op.instance_id.as_deref().unwrap_or(self.caller.client_id);
        let uuid = uuid(self.minted.member);
        let prefix = &name[..name.floor_char_boundary(KAFKA_TEXT_MAX - 1 - uuid.len())];
        format!("{prefix}-{uuid}").into()
    }

    fn into_member(self) -> NewMember<'a> {
        NewMember {
            instance: self.op.instance_id.as_deref(),
            client_id: self.caller.client_id,
            host: self.caller.host,
            session_timeout_ms: self.op.session_timeout_ms,
            rebalance_timeout_ms: self.op.rebalance_timeout_ms,
            protocols: self.protocols,
        }
    }

    fn reason(&self) -> Option<Arc<str>> {
        reason(self.op.reason.as_deref())
    }

    fn culprit(&self, id: &Arc<str>) -> Culprit {
        Culprit {
            member: Arc::clone(id),
            instance: self.op.instance_id.as_deref().map(Arc::from),
            client_id: self.caller.client_id.into(),
            host: self.caller.host.into(),
        }
    }
}

impl Group {
    /// In Kafka's order: is there room, is the group alive, can it speak with this member, who is it.
    fn join(&mut self, step: &mut Step<'_>, join: Join<'_>) {
        let id = &join.op.member_id;
        if !self.has_room_for(step, id) {
            self.forget(step, id);
            return step.reply(join.ticket, join_refusal("", ErrorCode::GroupMaxSizeReached));
        }
        if matches!(self.phase, Phase::Dead) {
            return step.reply(join.ticket, join_refusal(id, ErrorCode::CoordinatorNotAvailable));
        }
        if !self.understands(&join) {
            return step.reply(join.ticket, join_refusal(id, ErrorCode::InconsistentGroupProtocol));
        }
        if id.is_empty() { self.join_new(step, join) } else { self.join_known(step, join) }
    }

    fn has_room_for(&self, step: &Step<'_>, id: &str) -> bool {
        let max = step.settings.members_max;
        match &self.phase {
            Phase::Empty | Phase::Dead => true,
            // In a group that is too large the first to join again stay.
            Phase::Preparing(phase) => phase.joined.contains_key(id) || phase.joined.len() < max,
            Phase::Completing(_) | Phase::Stable(_) => self.members.contains(id) || self.members.len() < max,
        }
    }

    /// Forgets one that there is no room for. It has nothing parked, and nobody is told: as in Kafka the others go
    /// on waiting until their rebalance ends by itself.
    fn forget(&mut self, step: &mut Step<'_>, id: &str) {
        self.remove_pending(step, id);
        self.remove_member(step, id);
    }

    fn understands(&self, join: &Join<'_>) -> bool {
        let protocol_type = join.op.protocol_type.as_str();
        if matches!(self.phase, Phase::Empty) {
            return !protocol_type.is_empty() && !join.protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type) && self.members.can_agree_on(&join.protocols)
    }

    fn join_new(&mut self, step: &mut Step<'_>, join: Join<'_>) {
        let id = join.new_id();
        if let Some(instance) = &join.op.instance_id {
            return match self.members.of_instance(instance) {
                Some(old) => {
                    let old = Arc::clone(old);
                    self.join_replacing(step, join, &old, id);
                }
                None => self.join_adding(step, join, id),
            };
        }
        if !join.op.takes_member_id_first {
            return self.join_adding(step, join, id);
        }
        if self.pending.len() >= PENDING_MEMBERS_MAX {
            return step.reply(join.ticket, join_refusal("", ErrorCode::GroupMaxSizeReached));
        }
        let session = Duration::from_millis(u64::try_from(join.op.session_timeout_ms).unwrap_or(0));
        step.reply(join.ticket, join_refusal(&id, ErrorCode::MemberIdRequired));
        self.add_pending(step, id, step.now.at.after(session));
        self.note_arrival(step, false);
    }

    fn join_known(&mut self, step: &mut Step<'_>, join: Join<'_>) {
        let id = join.op.member_id.as_str();
        if self.pending.contains_key(id) {
            if join.op.instance_id.is_some() {
                // Kafka stumbles here, because only dynamic members are given an id first.
                return step.reply(join.ticket, join_refusal("", ErrorCode::UnknownServerError));
            }
            if let Some(id) = self.remove_pending(step, id) {
                self.join_adding(step, join, id);
            }
            return;
        }
        if let Err(code) = self.members.check(id, join.op.instance_id.as_deref()) {
            return step.reply(join.ticket, join_refusal(id, code));
        }
        let is_leader = self.is_leader(id);
        let is_unchanged = self.members.get(id).is_some_and(|member| *member.protocols() == *join.protocols);
        match self.phase {
            Phase::Preparing(_) => self.join_again(step, join, is_unchanged),
            // It may not have received the answer to its join. The rebalance goes on.
            Phase::Completing(_) if is_unchanged => {
                let members = if is_leader { self.joined_members() } else { Vec::new() };
                step.reply(join.ticket, self.joined(id, members));
            }
            // A leader joins again to say that the topics have changed; a follower only to learn where it stands.
            Phase::Stable(_) if is_unchanged && !is_leader => {
                step.reply(join.ticket, self.joined(id, Vec::new()));
            }
            Phase::Completing(_) | Phase::Stable(_) => self.join_again(step, join, is_unchanged),
            Phase::Empty | Phase::Dead => {
                step.reply(join.ticket, join_refusal(id, ErrorCode::UnknownMemberId));
            }
        }
    }

    /// A new member, which waits for its first generation.
    fn join_adding(&mut self, step: &mut Step<'_>, join: Join<'_>, id: Arc<str>) {
        let why = Why {
            cause: Cause::MemberJoined { reason: join.reason() },
            who: Some(join.culprit(&id)),
            members_before: self.members.len(),
        };
        if self.members.is_empty() {
            self.protocol_type = Some(join.op.protocol_type.as_str().into());
        }
        let ticket = join.ticket;
        let expires = step.now.at.after(Duration::from_millis(NEW_MEMBER_JOIN_TIMEOUT_MS));
        self.members.add(&id, join.into_member(), expires, &self.name, step.deadlines);
        self.note_arrival(step, true);
        self.park_join(step, id, ticket, why);
    }

    /// A member that has something new to say, or takes part in the next generation.
    fn join_again(&mut self, step: &mut Step<'_>, join: Join<'_>, is_unchanged: bool) {
        let Some(id) = self.members.key(&join.op.member_id) else { return };
        let why = Why {
            cause: self.rejoin_cause(&id, &join, is_unchanged),
            who: self.culprit(&id),
            members_before: self.members.len(),
        };
        let ticket = join.ticket;
        self.members.update(&id, join.into_member(), step.now.at, &self.name, step.deadlines);
        self.park_join(step, id, ticket, why);
    }

    /// Why a rebalance begins with this join of somebody who is in already. As in Kafka any change of the metadata begins
    /// one; but consumers put into it what they have at the moment, and that is no other subscription.
    fn rejoin_cause(&self, id: &str, join: &Join<'_>, is_unchanged: bool) -> Cause {
        let reason = join.reason();
        // In a rebalance that is under way nobody will ask.
        if is_unchanged || matches!(self.phase, Phase::Preparing(_)) {
            return Cause::LeaderRejoined { reason };
        }
        let same = self.members.get(id).filter(|member| self.wants_the_same(member, &join.protocols));
        let Some(member) = same else { return Cause::SubscriptionChanged { reason } };
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let after = join.protocols.iter().find(|(name, _)| **name == *protocol);
        let given_up = match (member.metadata(protocol), after) {
            (Some(before), Some((_, after))) => consumer_protocol::partitions_given_up(before, after),
            _ => 0,
        };
        if given_up == 0 && self.is_leader(id) {
            Cause::LeaderRejoined { reason }
        } else {
            Cause::MemberRejoined { given_up, reason }
        }
    }

    /// A static member that was restarted takes the place of its former self (KIP-345).
    fn join_replacing(&mut self, step: &mut Step<'_>, join: Join<'_>, old: &Arc<str>, id: Arc<str>) {
        let leader_before = self.leader.clone();
        self.fence(step, old, &id);
        self.members.replace(old, &id, step.now.at, &self.name, step.deadlines);
        if self.is_leader(old) {
            self.leader = Some(Arc::clone(&id));
        }
        let why = Why {
            cause: Cause::StaticReplaced,
            who: Some(join.culprit(&id)),
            members_before: self.members.len(),
        };
        let (ticket, can_skip_assignment) = (join.ticket, join.op.can_skip_assignment);
        self.members.update(&id, join.into_member(), step.now.at, &self.name, step.deadlines);
        self.members.renew(&id, step.now.at);
        if !matches!(self.phase, Phase::Stable(_)) || self.members.vote() != self.protocol {
            return self.park_join(step, id, ticket, why);
        }
        // Nothing changes for anybody else: the place and its assignment only have a new id.
        self.store(step);
        let is_leader = self.is_leader(&id);
        let members = if is_leader && can_skip_assignment { self.joined_members() } else { Vec::new() };
        let mut reply = self.joined(&id, members);
        if let Reply::JoinGroup(crate::reply::JoinGroup { result: Ok(joined), .. }) = &mut reply {
            if can_skip_assignment {
                joined.skip_assignment = is_leader;
            } else {
                // An older client that sees itself lead would assign, and rebalance everybody (KIP-814).
                joined.leader = leader_before.as_deref().unwrap_or_default().to_owned();
            }
        }
        step.reply(ticket, reply);
    }

    /// Whoever still waits under a static member's former id learns that another one has taken its name.
    fn fence(&mut self, step: &mut Step<'_>, old: &Arc<str>, id: &Arc<str>) {
        match &mut self.phase {
            Phase::Preparing(phase) => {
                phase.story.rename(old, id);
                if let Some(ticket) = phase.joined.remove(old) {
                    step.reply(ticket, join_refusal(old, ErrorCode::FencedInstanceId));
                }
            }
            Phase::Completing(phase) => {
                phase.story.rename(old, id);
                phase.unsynced.members.remove(old);
                if let Some(ticket) = phase.syncing.remove(old) {
                    step.reply(ticket, sync_refusal(ErrorCode::FencedInstanceId));
                }
            }
            Phase::Stable(phase) => {
                phase.rename(old, id);
                phase.unsynced.members.remove(old);
            }
            Phase::Empty | Phase::Dead => {}
        }
        self.end_sync_wait_if_all_synced(step);
    }

    /// Writes down that the group exists, before anybody is in it.
    fn store_as_new(&mut self, step: &mut Step<'_>) {
        self.is_recorded = true;
        self.phase_since_ms.get_or_insert(step.now.wall_ms);
        let value = GroupValue { state_timestamp_ms: self.phase_since_ms, ..GroupValue::default() };
        step.effects
            .records
            .push(GroupRecord::Group { group: Arc::clone(&self.name), value: Some(Box::new(value)) });
    }
}

/// The protocols of a request, each name once: Kafka counts a name that comes twice twice, and the group never
/// settles. The bytes are copied, so that they do not keep the whole request in memory.
fn distinct(protocols: &[(String, Bytes)]) -> Protocols {
    let mut seen = BTreeSet::new();
    let first = protocols.iter().filter(|(name, _)| seen.insert(name.as_str()));
    first.map(|(name, metadata)| (Arc::from(name.as_str()), Bytes::copy_from_slice(metadata))).collect()
}

/// What a client says about its reasons, as much of it as is kept.
pub(super) fn reason(text: Option<&str>) -> Option<Arc<str>> {
    let text = text.filter(|text| !text.is_empty())?;
    let end = text.char_indices().nth(REASON_CHARS_MAX).map_or(text.len(), |(end, _)| end);
    Some(text[..end].into())
}

/// Random bits as Java writes a random UUID.
fn uuid(bits: u128) -> String {
    const VERSION: u128 = 0xf << 76;
    const VARIANT: u128 = 0b11 << 62;
    let bits = (bits & !VERSION & !VARIANT) | (4 << 76) | (0b10 << 62);
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// JOIN-04
    #[test]
    fn an_id_ends_with_a_random_uuid_as_java_writes_it() {
        assert_eq!(uuid(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef), "01234567-89ab-4def-8123-456789abcdef");
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        assert_eq!(reason(None), None);
        assert_eq!(reason(Some("")), None);
        assert_eq!(reason(Some("scaled down")).as_deref(), Some("scaled down"));
        assert_eq!(reason(Some(&"é".repeat(300))).as_deref(), Some("é".repeat(255).as_str()));
    }
}
