//! Heartbeat: the member is there, and learns whether it has to join again.

use crate::error_code::ErrorCode;
use crate::op;
use crate::reply;

use super::Shard;
use super::phase::Phase;
use super::timestamp::Now;

impl Shard {
    /// A member is still there. Allocates nothing and may be answered at once.
    pub fn handle_heartbeat(&mut self, now: Now, op: &op::Heartbeat) -> reply::Heartbeat {
        reply::Heartbeat { error: self.heartbeat(now, op).err() }
    }

    fn heartbeat(&mut self, now: Now, op: &op::Heartbeat) -> Result<(), ErrorCode> {
        if op.group.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let group = self.groups.get_mut(&op.group).ok_or(ErrorCode::UnknownMemberId)?;
        if matches!(group.phase, Phase::Dead) {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let member = group.members.find_mut(&op.member_id, op.instance_id.as_deref())?;
        if op.generation != group.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        member.renew(now.at);
        match group.phase {
            Phase::Preparing(_) => Err(ErrorCode::RebalanceInProgress),
            // Members heartbeat while they wait for SyncGroup. Sending them back to join would restart the rebalance
            // that is about to complete.
            Phase::Completing(_) | Phase::Stable(_) => Ok(()),
            Phase::Empty | Phase::Dead => Err(ErrorCode::UnknownMemberId),
        }
    }
}
