//! DeleteGroups (42): removes groups with their offsets.

use coordination::error_code::ErrorCode;
use coordination::op::{self, Op};
use coordination::reply;

use crate::message::message;

message! {
    /// Groups to remove.
    pub struct DeleteGroupsRequest {
        groups_names: Vec<String> [0+],
    }

    /// What became of them.
    pub struct DeleteGroupsResponse {
        throttle_time_ms: i32 [0+],
        results: Vec<DeletableGroupResult> [0+],
    }

    /// What became of one group.
    pub struct DeletableGroupResult {
        group_id: String [0+],
        error_code: i16 [0+],
    }
}

impl DeleteGroupsRequest {
    pub(crate) fn into_op(self) -> Op {
        Op::DeleteGroups(op::DeleteGroups { groups: self.groups_names })
    }
}

pub(crate) fn response(reply: reply::DeleteGroups) -> DeleteGroupsResponse {
    let result =
        |(group_id, error)| DeletableGroupResult { group_id, error_code: ErrorCode::number_of(error) };
    DeleteGroupsResponse { throttle_time_ms: 0, results: reply.groups.into_iter().map(result).collect() }
}
