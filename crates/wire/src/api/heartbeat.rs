//! Heartbeat (12): a member is still there.

use std::sync::Arc;

use coordination::error_code::ErrorCode;
use coordination::op::{self, Op};
use coordination::reply;

use crate::message::message;

message! {
    /// A member that is still there.
    pub struct HeartbeatRequest {
        group_id: String [0+],
        generation_id: i32 [0+],
        member_id: String [0+],
        group_instance_id: Option<String> [3+, null 3+],
    }

    /// Whether all is well.
    pub struct HeartbeatResponse {
        throttle_time_ms: i32 [1+],
        error_code: i16 [0+],
    }
}

impl HeartbeatRequest {
    pub(crate) fn into_op(self) -> Op {
        Op::Heartbeat(Arc::new(op::Heartbeat {
            group: self.group_id,
            generation: self.generation_id,
            member_id: self.member_id,
            instance_id: self.group_instance_id,
        }))
    }
}

pub(crate) fn response(reply: reply::Heartbeat) -> HeartbeatResponse {
    HeartbeatResponse { throttle_time_ms: 0, error_code: ErrorCode::number_of(reply.error) }
}
