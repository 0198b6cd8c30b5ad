//! ListGroups (16): which groups there are.

use coordination::op::{self, Op};
use coordination::reply;

use crate::message::message;

message! {
    /// Which groups to list; an empty filter lets all pass.
    pub struct ListGroupsRequest {
        states_filter: Vec<String> [4+],
        types_filter: Vec<String> [5+],
    }

    /// Groups.
    pub struct ListGroupsResponse {
        throttle_time_ms: i32 [1+],
        error_code: i16 [0+],
        groups: Vec<ListedGroup> [0+],
    }

    /// One group.
    pub struct ListedGroup {
        group_id: String [0+],
        protocol_type: String [0+],
        group_state: String [4+],
        group_type: String [5+],
    }
}

/// Kafka's name for the type of all groups that we have.
const CLASSIC: &str = "classic";

impl ListGroupsRequest {
    pub(crate) fn into_op(self) -> Op {
        Op::ListGroups(op::ListGroups { states: self.states_filter, types: self.types_filter })
    }
}

pub(crate) fn response(reply: reply::ListGroups) -> ListGroupsResponse {
    let group = |group: reply::ListedGroup| ListedGroup {
        group_id: group.group,
        protocol_type: group.protocol_type,
        group_state: group.state.name().to_owned(),
        group_type: CLASSIC.to_owned(),
    };
    match reply.result {
        Ok(groups) => ListGroupsResponse {
            groups: groups.into_iter().map(group).collect(),
            ..ListGroupsResponse::default()
        },
        Err(error) => ListGroupsResponse { error_code: error.number(), ..ListGroupsResponse::default() },
    }
}
