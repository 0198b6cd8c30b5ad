//! DescribeGroups (15): shows groups with their members.

use bytes::Bytes;
use coordination::error_code::ErrorCode;
use coordination::op::{self, Op};
use coordination::reply::{self, GroupState};

use crate::api::operations;
use crate::message::message;
use crate::request::Asked;

message! {
    /// Groups to show.
    pub struct DescribeGroupsRequest {
        groups: Vec<String> [0+],
        include_authorized_operations: bool [3+],
    }

    /// Groups with their members.
    pub struct DescribeGroupsResponse {
        throttle_time_ms: i32 [1+],
        groups: Vec<DescribedGroup> [0+],
    }

    /// One group.
    pub struct DescribedGroup {
        error_code: i16 [0+],
        error_message: Option<String> [6+, null 6+],
        group_id: String [0+],
        group_state: String [0+],
        protocol_type: String [0+],
        protocol_data: String [0+],
        members: Vec<DescribedGroupMember> [0+],
        authorized_operations: i32 [3+] = i32::MIN,
    }

    /// One member.
    pub struct DescribedGroupMember {
        member_id: String [0+],
        group_instance_id: Option<String> [4+, null 4+],
        client_id: String [0+],
        client_host: String [0+],
        member_metadata: Bytes [0+],
        member_assignment: Bytes [0+],
    }
}

impl DescribeGroupsRequest {
    pub(crate) fn into_op(self, asked: &mut Asked) -> Op {
        asked.group_operations = self.include_authorized_operations;
        Op::DescribeGroups(op::DescribeGroups { groups: self.groups })
    }
}

pub(crate) fn response(reply: reply::DescribeGroups, version: i16, asked: Asked) -> DescribeGroupsResponse {
    let groups = reply.groups.into_iter().map(|group| shown(group, version, asked)).collect();
    DescribeGroupsResponse { throttle_time_ms: 0, groups }
}

fn shown(group: reply::DescribedGroup, version: i16, asked: Asked) -> DescribedGroup {
    let member = |member: reply::DescribedMember| DescribedGroupMember {
        member_id: member.member_id,
        group_instance_id: member.instance_id,
        client_id: member.client_id,
        client_host: member.client_host,
        member_metadata: member.metadata,
        member_assignment: member.assignment,
    };
    if let Some(error) = group.error {
        return DescribedGroup {
            error_code: error.number(),
            group_id: group.group,
            ..DescribedGroup::default()
        };
    }
    // Since version 6 a group that does not exist is an error (KIP-1043).
    if version >= 6 && group.state == GroupState::Dead {
        return DescribedGroup {
            error_code: ErrorCode::GroupIdNotFound.number(),
            error_message: Some(format!("Group {} not found.", group.group)),
            group_id: group.group,
            group_state: group.state.name().to_owned(),
            ..DescribedGroup::default()
        };
    }
    DescribedGroup {
        error_code: 0,
        error_message: None,
        group_id: group.group,
        group_state: group.state.name().to_owned(),
        protocol_type: group.protocol_type,
        protocol_data: group.protocol,
        members: group.members.into_iter().map(member).collect(),
        authorized_operations: operations(group.operations, asked.group_operations),
    }
}
