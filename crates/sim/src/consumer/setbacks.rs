//! What a consumer does when it is told no, or loses its connection.

use coordination::error_code::ErrorCode;

use super::{Action, Consumer, Phase};

impl Consumer {
    /// What any request of a member does about an error that is not a matter of that request.
    pub(super) fn member_error(&mut self, now: u64, error: ErrorCode, actions: &mut Vec<Action>) {
        match error {
            ErrorCode::IllegalGeneration => {
                self.forget_membership();
                if self.profile.forgets_id {
                    self.member_id.clear();
                }
                self.pause(now);
            }
            // A group that an administrator has deleted has no members.
            ErrorCode::UnknownMemberId | ErrorCode::GroupIdNotFound => {
                self.forget_membership();
                self.member_id.clear();
                self.pause(now);
            }
            ErrorCode::CoordinatorLoadInProgress => {
                // A heartbeat that comes too early changes nothing for a member that has its assignment.
                if !self.assigned {
                    self.pause(now);
                }
            }
            ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator => {
                self.lose_coordinator(now, actions);
            }
            error => {
                self.crash();
                self.phase = Phase::Stopped(error);
                actions.push(Action::Disconnect);
            }
        }
    }

    pub(super) fn forget_membership(&mut self) {
        self.generation = -1;
        self.assigned = false;
        self.owned.clear();
        self.positions_known = false;
        self.leader = false;
    }

    pub(super) fn pause(&mut self, now: u64) {
        self.phase = Phase::Pausing(now + self.profile.backoff_ms);
    }

    pub(super) fn lose_coordinator(&mut self, now: u64, actions: &mut Vec<Action>) {
        actions.push(Action::Disconnect);
        self.waiting.clear();
        if self.phase == Phase::Leaving {
            self.crash();
        } else {
            self.phase = Phase::Unconnected(now + self.profile.backoff_ms);
        }
    }
}
