//! SyncGroup (14): the leader brings the assignment, and every member waits for its own.

use bytes::Bytes;
use coordination::op::{self, Op};
use coordination::reply;

use crate::api::kept;
use crate::message::message;

message! {
    /// A member that waits for its assignment, or the leader that brings everybody's.
    pub struct SyncGroupRequest {
        group_id: String [0+],
        generation_id: i32 [0+],
        member_id: String [0+],
        group_instance_id: Option<String> [3+, null 3+],
        protocol_type: Option<String> [5+, null 5+],
        protocol_name: Option<String> [5+, null 5+],
        assignments: Vec<SyncGroupRequestAssignment> [0+],
    }

    /// What the leader assigns to one member.
    pub struct SyncGroupRequestAssignment {
        member_id: String [0+],
        assignment: Bytes [0+],
    }

    /// The member's assignment.
    pub struct SyncGroupResponse {
        throttle_time_ms: i32 [1+],
        error_code: i16 [0+],
        protocol_type: Option<String> [5+, null 5+],
        protocol_name: Option<String> [5+, null 5+],
        assignment: Bytes [0+],
    }
}

impl SyncGroupRequest {
    pub(crate) fn into_op(self, version: i16) -> Op {
        let assignment = |given: SyncGroupRequestAssignment| (given.member_id, kept(&given.assignment));
        Op::SyncGroup(op::SyncGroup {
            group: self.group_id,
            generation: self.generation_id,
            member_id: self.member_id,
            instance_id: self.group_instance_id,
            protocol_type: self.protocol_type,
            protocol: self.protocol_name,
            must_name_protocol: version >= 5,
            assignments: self.assignments.into_iter().map(assignment).collect(),
        })
    }
}

pub(crate) fn response(reply: reply::SyncGroup) -> SyncGroupResponse {
    match reply.result {
        Ok(synced) => SyncGroupResponse {
            throttle_time_ms: 0,
            error_code: 0,
            protocol_type: synced.protocol_type,
            protocol_name: synced.protocol,
            assignment: synced.assignment,
        },
        Err(error) => SyncGroupResponse { error_code: error.number(), ..SyncGroupResponse::default() },
    }
}
