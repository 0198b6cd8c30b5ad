//! DeleteAcls (31): no longer allows or denies.

use coordination::access::Acl;
use coordination::op::{self, AclFilter, Op};
use coordination::reply::{self, Refusal};

use crate::api::acl::{LITERAL, SentFilter, filter, sent};
use crate::message::message;

message! {
    /// Which rules to remove.
    pub struct DeleteAclsRequest {
        filters: Vec<DeleteAclsFilter> [0+],
    }

    /// Some of them.
    pub struct DeleteAclsFilter {
        resource_type_filter: i8 [0+],
        resource_name_filter: Option<String> [0+, null 0+],
        pattern_type_filter: i8 [1+] = LITERAL,
        principal_filter: Option<String> [0+, null 0+],
        host_filter: Option<String> [0+, null 0+],
        operation: i8 [0+],
        permission_type: i8 [0+],
    }

    /// The rules that are gone.
    pub struct DeleteAclsResponse {
        throttle_time_ms: i32 [0+],
        filter_results: Vec<DeleteAclsFilterResult> [0+],
    }

    /// The rules that one filter meant.
    pub struct DeleteAclsFilterResult {
        error_code: i16 [0+],
        error_message: Option<String> [0+, null 0+],
        matching_acls: Vec<DeleteAclsMatchingAcl> [0+],
    }

    /// One rule that is gone.
    pub struct DeleteAclsMatchingAcl {
        error_code: i16 [0+],
        error_message: Option<String> [0+, null 0+],
        resource_type: i8 [0+],
        resource_name: String [0+],
        pattern_type: i8 [1+] = LITERAL,
        principal: String [0+],
        host: String [0+],
        operation: i8 [0+],
        permission_type: i8 [0+],
    }
}

impl DeleteAclsRequest {
    pub(crate) fn into_op(self) -> Op {
        let meant = |sent: DeleteAclsFilter| {
            filter(SentFilter {
                kind: sent.resource_type_filter,
                name: sent.resource_name_filter,
                pattern: sent.pattern_type_filter,
                principal: sent.principal_filter,
                host: sent.host_filter,
                operation: sent.operation,
                permission: sent.permission_type,
            })
        };
        Op::DeleteAcls(op::DeleteAcls { filters: self.filters.into_iter().map(meant).collect() })
    }
}

impl From<&AclFilter> for DeleteAclsFilter {
    fn from(filter: &AclFilter) -> Self {
        let sent = sent(filter);
        Self {
            resource_type_filter: sent.kind,
            resource_name_filter: sent.name,
            pattern_type_filter: sent.pattern,
            principal_filter: sent.principal,
            host_filter: sent.host,
            operation: sent.operation,
            permission_type: sent.permission,
        }
    }
}

pub(crate) fn response(reply: reply::DeleteAcls) -> DeleteAclsResponse {
    let result = |result: Result<Vec<Acl>, Refusal>| match result {
        Ok(acls) => DeleteAclsFilterResult {
            matching_acls: acls.into_iter().map(gone).collect(),
            ..DeleteAclsFilterResult::default()
        },
        Err(refusal) => DeleteAclsFilterResult {
            error_code: refusal.code.number(),
            error_message: refusal.message,
            matching_acls: Vec::new(),
        },
    };
    DeleteAclsResponse {
        throttle_time_ms: 0,
        filter_results: reply.results.into_iter().map(result).collect(),
    }
}

fn gone(acl: Acl) -> DeleteAclsMatchingAcl {
    DeleteAclsMatchingAcl {
        error_code: 0,
        error_message: None,
        resource_type: acl.resource.kind.number(),
        resource_name: acl.resource.name,
        pattern_type: acl.resource.pattern.number(),
        principal: acl.principal,
        host: acl.host,
        operation: acl.operation.number(),
        permission_type: acl.permission.number(),
    }
}
