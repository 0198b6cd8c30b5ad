//! LeaveGroup (13): members leave: one, or since version 3 several.

use coordination::error_code::ErrorCode;
use coordination::op::{self, LeavingMember, Op};
use coordination::reply;

use crate::message::message;

message! {
    /// Members that leave.
    pub struct LeaveGroupRequest {
        group_id: String [0+],
        member_id: String [0-2],
        members: Vec<MemberIdentity> [3+],
    }

    /// One member that leaves, or is made to leave.
    pub struct MemberIdentity {
        member_id: String [3+],
        group_instance_id: Option<String> [3+, null 3+],
        reason: Option<String> [5+, null 5+],
    }

    /// What became of them.
    pub struct LeaveGroupResponse {
        throttle_time_ms: i32 [1+],
        error_code: i16 [0+],
        members: Vec<MemberResponse> [3+],
    }

    /// What became of one member.
    pub struct MemberResponse {
        member_id: String [3+],
        group_instance_id: Option<String> [3+, null 3+],
        error_code: i16 [3+],
    }
}

impl LeaveGroupRequest {
    pub(crate) fn into_op(self, version: i16) -> Op {
        let member = |member: MemberIdentity| LeavingMember {
            member_id: member.member_id,
            instance_id: member.group_instance_id,
            reason: member.reason,
        };
        let members = if version >= 3 {
            self.members.into_iter().map(member).collect()
        } else {
            vec![LeavingMember { member_id: self.member_id, instance_id: None, reason: None }]
        };
        Op::LeaveGroup(op::LeaveGroup { group: self.group_id, members })
    }
}

pub(crate) fn response(reply: reply::LeaveGroup, version: i16) -> LeaveGroupResponse {
    let members = match reply.result {
        Ok(members) => members,
        Err(error) => {
            return LeaveGroupResponse { error_code: error.number(), ..LeaveGroupResponse::default() };
        }
    };
    // Up to version 2 there is a single member, whose error is that of the whole answer.
    let only = if version <= 2 { members.first().and_then(|member| member.error) } else { None };
    let member = |member: reply::LeftMember| MemberResponse {
        member_id: member.member_id,
        group_instance_id: member.instance_id,
        error_code: ErrorCode::number_of(member.error),
    };
    LeaveGroupResponse {
        throttle_time_ms: 0,
        error_code: ErrorCode::number_of(only),
        members: members.into_iter().map(member).collect(),
    }
}
