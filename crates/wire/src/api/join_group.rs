//! JoinGroup (11): becomes a member of a group, and of its next generation.

use bytes::Bytes;
use coordination::op::{self, Op};
use coordination::reply::{self, Joined};

use crate::api::kept;
use crate::message::message;

message! {
    /// A member that joins, or joins again.
    pub struct JoinGroupRequest {
        group_id: String [0+],
        session_timeout_ms: i32 [0+],
        rebalance_timeout_ms: i32 [1+] = -1,
        member_id: String [0+],
        group_instance_id: Option<String> [5+, null 5+],
        protocol_type: String [0+],
        protocols: Vec<JoinGroupRequestProtocol> [0+],
        reason: Option<String> [8+, null 8+],
    }

    /// A protocol that the member offers.
    pub struct JoinGroupRequestProtocol {
        name: String [0+],
        metadata: Bytes [0+],
    }

    /// The generation as one member sees it.
    pub struct JoinGroupResponse {
        throttle_time_ms: i32 [2+],
        error_code: i16 [0+],
        generation_id: i32 [0+] = -1,
        protocol_type: Option<String> [7+, null 7+],
        protocol_name: Option<String> [0+, null 7+],
        leader: String [0+],
        skip_assignment: bool [9+],
        member_id: String [0+],
        members: Vec<JoinGroupResponseMember> [0+],
    }

    /// One member, for the leader.
    pub struct JoinGroupResponseMember {
        member_id: String [0+],
        group_instance_id: Option<String> [5+, null 5+],
        metadata: Bytes [0+],
    }
}

impl JoinGroupRequest {
    pub(crate) fn into_op(self, version: i16) -> Op {
        let protocol = |protocol: JoinGroupRequestProtocol| (protocol.name, kept(&protocol.metadata));
        Op::JoinGroup(op::JoinGroup {
            group: self.group_id,
            member_id: self.member_id,
            instance_id: self.group_instance_id,
            session_timeout_ms: self.session_timeout_ms,
            rebalance_timeout_ms: if version == 0 {
                self.session_timeout_ms
            } else {
                self.rebalance_timeout_ms
            },
            protocol_type: self.protocol_type,
            protocols: self.protocols.into_iter().map(protocol).collect(),
            reason: self.reason,
            takes_member_id_first: version >= 4,
            can_skip_assignment: version >= 9,
        })
    }
}

pub(crate) fn response(reply: reply::JoinGroup) -> JoinGroupResponse {
    let reply::JoinGroup { member_id, result } = reply;
    let joined = match result {
        Ok(joined) => joined,
        Err(error) => {
            let error_code = error.number();
            return JoinGroupResponse { error_code, member_id, ..JoinGroupResponse::default() };
        }
    };
    let Joined { generation, protocol_type, protocol, leader, members, skip_assignment } = *joined;
    let member = |member: reply::JoinedMember| JoinGroupResponseMember {
        member_id: member.member_id,
        group_instance_id: member.instance_id,
        metadata: member.metadata,
    };
    JoinGroupResponse {
        throttle_time_ms: 0,
        error_code: 0,
        generation_id: generation,
        protocol_type,
        // As in Kafka, no protocol is null in the versions that have a null, and an empty name before.
        protocol_name: protocol.filter(|name| !name.is_empty()),
        leader,
        skip_assignment,
        member_id,
        members: members.into_iter().map(member).collect(),
    }
}
