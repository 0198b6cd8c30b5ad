//! SyncGroup: the leader brings the assignment, everybody fetches it.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use bytes::Bytes;

use crate::error_code::ErrorCode;
use crate::op;
use crate::reply::{self, Reply};

use super::Shard;
use super::deadlines::Due;
use super::effects::{Effects, Room, Ticket};
use super::event::{Cause, Outcome};
use super::machine::{Group, Step};
use super::phase::{Completing, Phase, Stable, Unsynced, Why};
use super::rebalance::{By, sync_refusal};
use super::timestamp::Now;

impl Shard {
    /// A member asks for its assignment, or the leader brings everybody's.
    pub fn handle_sync(
        &mut self,
        now: Now,
        ticket: Ticket,
        op: &op::SyncGroup,
        room: Room,
        effects: &mut Effects,
    ) {
        let refusal = if op.must_name_protocol && (op.protocol_type.is_none() || op.protocol.is_none()) {
            Some(ErrorCode::InconsistentGroupProtocol)
        } else if op.group.is_empty() {
            Some(ErrorCode::InvalidGroupId)
        } else if !self.groups.contains_key(&op.group) {
            Some(ErrorCode::UnknownMemberId)
        } else {
            None
        };
        match refusal {
            Some(code) => effects.replies.push((ticket, sync_refusal(code))),
            None => {
                self.within(now, &op.group, effects, |group, step| {
                    step.room = room;
                    group.sync(step, ticket, op);
                });
            }
        }
    }
}

impl Group {
    fn sync(&mut self, step: &mut Step<'_>, ticket: Ticket, op: &op::SyncGroup) {
        let id = match self.check_sync(op) {
            Ok(id) => id,
            Err(code) => return step.reply(ticket, sync_refusal(code)),
        };
        match &mut self.phase {
            Phase::Preparing(_) | Phase::Empty | Phase::Dead => {
                step.reply(ticket, sync_refusal(ErrorCode::RebalanceInProgress));
            }
            Phase::Completing(phase) => {
                // What the generation before had goes when this one has its own.
                let room = step.room.bytes.saturating_add(phase.story.owned_bytes);
                if self.leader.as_ref() == Some(&id) && assigned_bytes(op) > room {
                    return step.reply(ticket, sync_refusal(ErrorCode::PolicyViolation));
                }
                phase.unsynced.members.remove(&id);
                if let Some(before) = phase.syncing.insert(Arc::clone(&id), ticket) {
                    // As with a join that was sent again: the older request still gets an answer.
                    step.reply(before, sync_refusal(ErrorCode::RebalanceInProgress));
                }
                self.end_sync_wait_if_all_synced(step);
                if self.is_leader(&id) {
                    self.assign(step, op);
                }
            }
            Phase::Stable(phase) => {
                phase.unsynced.members.remove(&id);
                self.end_sync_wait_if_all_synced(step);
                step.reply(ticket, self.synced(&id));
                self.members.renew(&id, step.now.at);
            }
        }
    }

    /// In Kafka's order: is there a member, is it of this generation, does it speak the same.
    fn check_sync(&self, op: &op::SyncGroup) -> Result<Arc<str>, ErrorCode> {
        match self.phase {
            Phase::Empty => return Err(ErrorCode::UnknownMemberId),
            Phase::Dead => return Err(ErrorCode::CoordinatorNotAvailable),
            Phase::Preparing(_) | Phase::Completing(_) | Phase::Stable(_) => {}
        }
        self.members.check(&op.member_id, op.instance_id.as_deref())?;
        if op.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |asked: &Option<String>, own: &Option<Arc<str>>| match (asked, own) {
            (Some(asked), Some(own)) => asked.as_str() != &**own,
            (None, _) | (_, None) => false,
        };
        if differs(&op.protocol_type, &self.protocol_type) || differs(&op.protocol, &self.protocol) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        self.members.key(&op.member_id).ok_or(ErrorCode::UnknownMemberId)
    }

    /// The leader's assignment makes the group stable. The answers leave once the record is durable.
    fn assign(&mut self, step: &mut Step<'_>, op: &op::SyncGroup) {
        let Phase::Completing(phase) = mem::replace(&mut self.phase, Phase::Empty) else { return };
        let Completing { syncing, unsynced, story } = *phase;
        let assigned: BTreeMap<&str, &Bytes> =
            op.assignments.iter().map(|(id, assignment)| (id.as_str(), assignment)).collect();
        // The bytes are copied, so that they do not keep the whole request in memory.
        self.members
            .assign(|id| assigned.get(&**id).map_or_else(Bytes::new, |bytes| Bytes::copy_from_slice(bytes)));
        self.enter(step, Phase::Stable(Stable { unsynced, lost: Vec::new(), lost_bytes: 0 }));
        self.store(step);
        for (id, ticket) in syncing {
            step.reply(ticket, self.synced(&id));
            self.members.renew(&id, step.now.at);
        }
        self.leave_event(step, &story, Outcome::Stable, self.members.len());
    }

    fn synced(&self, id: &str) -> Reply {
        Reply::SyncGroup(reply::SyncGroup {
            result: Ok(Box::new(reply::Synced {
                protocol_type: self.protocol_type.as_deref().map(str::to_owned),
                protocol: self.protocol.as_deref().map(str::to_owned),
                assignment: self
                    .members
                    .get(id)
                    .map(|member| member.assignment().clone())
                    .unwrap_or_default(),
            })),
        })
    }

    pub(super) fn unsynced_mut(&mut self) -> Option<&mut Unsynced> {
        match &mut self.phase {
            Phase::Completing(phase) => Some(&mut phase.unsynced),
            Phase::Stable(phase) => Some(&mut phase.unsynced),
            Phase::Empty | Phase::Preparing(_) | Phase::Dead => None,
        }
    }

    /// Once everybody has come for an assignment, nobody has to be waited for.
    pub(super) fn end_sync_wait_if_all_synced(&mut self, step: &mut Step<'_>) {
        let ended = self.unsynced_mut().filter(|unsynced| unsynced.members.is_empty());
        // Taken as a whole: an empty set keeps some room, and most groups are in this state for most of their lives.
        if let Some(ends) = ended.and_then(|unsynced| mem::take(unsynced).ends) {
            step.deadlines.cancel(ends, &self.name, Due::SyncPhase);
        }
    }

    /// Whoever has not come for its assignment in time is removed, static members too. Heartbeats do not count.
    pub(super) fn handle_sync_deadline(&mut self, step: &mut Step<'_>) {
        let Some(unsynced) = self.unsynced_mut().map(mem::take) else { return };
        let members_before = self.members.len();
        let who = unsynced.members.first().and_then(|id| self.culprit(id));
        for id in &unsynced.members {
            self.remove_member(step, id);
        }
        self.rebalance(step, Why { cause: Cause::SyncMissed, who, members_before }, By::Expiry);
    }
}

fn assigned_bytes(op: &op::SyncGroup) -> usize {
    op.assignments.iter().map(|(_, assignment)| assignment.len()).sum()
}
