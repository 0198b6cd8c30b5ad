//! LeaveGroup, and every other way of losing a member.

use std::sync::Arc;

use crate::error_code::ErrorCode;
use crate::op::{self, LeavingMember};
use crate::reply::{self, LeftMember};

use super::Shard;
use super::deadlines::Due;
use super::effects::{Caller, Effects};
use super::event::{Cause, Culprit};
use super::join_group::reason;
use super::machine::{Group, Step};
use super::member::Session;
use super::phase::{Phase, Why};
use super::rebalance::{By, join_refusal, sync_refusal};
use super::timestamp::Now;

impl Shard {
    /// Members leave, or are made to leave.
    pub fn handle_leave(
        &mut self,
        now: Now,
        op: &op::LeaveGroup,
        caller: Caller<'_>,
        effects: &mut Effects,
    ) -> reply::LeaveGroup {
        if op.group.is_empty() {
            return reply::LeaveGroup { result: Err(ErrorCode::InvalidGroupId) };
        }
        let left = self.within(now, &op.group, effects, |group, step| group.leave(step, &op.members, caller));
        let nobody =
            || op.members.iter().map(|leaving| left_member(leaving, Err(ErrorCode::UnknownMemberId)));
        reply::LeaveGroup { result: left.unwrap_or_else(|| Ok(nobody().collect())) }
    }
}

impl Group {
    fn leave(
        &mut self,
        step: &mut Step<'_>,
        leaving: &[LeavingMember],
        caller: Caller<'_>,
    ) -> Result<Vec<LeftMember>, ErrorCode> {
        if matches!(self.phase, Phase::Dead) {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let members_before = self.members.len();
        let mut gone = 0;
        let mut first = None;
        let mut left = Vec::with_capacity(leaving.len());
        for member in leaving {
            let result = self.leave_one(step, member, caller);
            left.push(left_member(member, result.as_ref().map(|_| ()).map_err(|code| *code)));
            let gone_before = gone;
            gone = members_before - self.members.len();
            // Ids that have not joined yet are no members; one of them is named only if nobody else has left.
            if first.is_none() || (gone_before == 0 && gone == 1) {
                first = result.ok();
            }
        }
        if let Some((mut cause, who)) = first {
            if gone > 1 {
                cause = several(cause, gone - 1);
            }
            self.note_arrival(step, false);
            self.rebalance(step, Why { cause, who: Some(who), members_before }, By::Request);
        }
        Ok(left)
    }

    fn leave_one(
        &mut self,
        step: &mut Step<'_>,
        leaving: &LeavingMember,
        caller: Caller<'_>,
    ) -> Result<(Cause, Culprit), ErrorCode> {
        let instance = leaving.instance_id.as_deref();
        let who = |member: Arc<str>| Culprit {
            member,
            instance: instance.map(Arc::from),
            client_id: caller.client_id.into(),
            host: caller.host.into(),
        };
        let reason = reason(leaving.reason.as_deref());
        if let Some(pending) = self.remove_pending(step, &leaving.member_id) {
            return Ok((Cause::MemberLeft { reason }, who(pending)));
        }
        let id = match instance {
            // An administrator removes a static member by its name alone.
            Some(instance) if leaving.member_id.is_empty() => self.members.of_instance(instance).cloned(),
            _ => {
                self.members.check(&leaving.member_id, instance)?;
                self.members.key(&leaving.member_id)
            }
        };
        let id = id.ok_or(ErrorCode::UnknownMemberId)?;
        let is_itself = self.members.get(&id).is_some_and(|member| *member.client_id == *caller.client_id);
        self.remove_member(step, &id);
        let cause = if is_itself && !leaving.member_id.is_empty() {
            Cause::MemberLeft { reason }
        } else {
            Cause::MemberRemoved { reason }
        };
        Ok((cause, who(id)))
    }

    /// Takes a member out of the group; what it still waits for is answered. The rebalance is the caller's.
    pub(super) fn remove_member(&mut self, step: &mut Step<'_>, id: &str) {
        let Some((id, member)) = self.members.remove(id, &self.name, step.deadlines) else { return };
        if self.is_leader(&id) {
            self.leader = None;
        }
        match &mut self.phase {
            Phase::Preparing(phase) => {
                if let Some(ticket) = phase.joined.remove(&id) {
                    step.reply(ticket, join_refusal("", ErrorCode::UnknownMemberId));
                }
            }
            Phase::Completing(phase) => {
                phase.unsynced.members.remove(&id);
                // Kafka never answers it.
                if let Some(ticket) = phase.syncing.remove(&id) {
                    step.reply(ticket, sync_refusal(ErrorCode::UnknownMemberId));
                }
            }
            Phase::Stable(phase) => {
                phase.unsynced.members.remove(&id);
                phase.lost.push((id, member.assignment().clone()));
            }
            Phase::Empty | Phase::Dead => {}
        }
    }

    /// Does what is due in this group.
    pub(super) fn handle_deadline(&mut self, step: &mut Step<'_>, due: Due) {
        match due {
            Due::JoinPhase => self.handle_join_deadline(step),
            Due::SyncPhase => self.handle_sync_deadline(step),
            Due::Member(id) => self.handle_session_deadline(step, &id),
            Due::Pending(id) => {
                if self.remove_pending(step, &id).is_some() {
                    self.note_arrival(step, false);
                    self.end_join_phase_if_all_joined(step, By::Expiry);
                }
            }
        }
    }

    fn handle_session_deadline(&mut self, step: &mut Step<'_>, id: &Arc<str>) {
        let alive = self.phase.is_parked(id);
        let session = self.members.handle_deadline(id, step.now.at, alive, &self.name, step.deadlines);
        if session == Session::Over {
            let why = Why {
                cause: Cause::SessionExpired,
                who: self.culprit(id),
                members_before: self.members.len(),
            };
            self.remove_member(step, id);
            self.note_arrival(step, false);
            self.rebalance(step, why, By::Expiry);
        }
    }
}

/// The cause of a rebalance after the loss of one member and `more` others. No member leaves for others, so that all of
/// them were removed, whoever sent the request.
fn several(cause: Cause, more: usize) -> Cause {
    match cause {
        Cause::MemberLeft { reason } | Cause::MemberRemoved { reason } => {
            Cause::MembersRemoved { more, reason }
        }
        other => other,
    }
}

fn left_member(leaving: &LeavingMember, result: Result<(), ErrorCode>) -> LeftMember {
    LeftMember {
        member_id: leaving.member_id.clone(),
        instance_id: leaving.instance_id.clone(),
        error: result.err(),
    }
}
