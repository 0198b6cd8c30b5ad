//! DescribeAcls (29): shows what is allowed and denied.

use coordination::access::{Acl, Resource};
use coordination::op::{self, AclFilter, Op};
use coordination::reply;

use crate::api::acl::{LITERAL, SentFilter, filter, sent};
use crate::message::message;

message! {
    /// Which rules to show.
    pub struct DescribeAclsRequest {
        resource_type_filter: i8 [0+],
        resource_name_filter: Option<String> [0+, null 0+],
        pattern_type_filter: i8 [1+] = LITERAL,
        principal_filter: Option<String> [0+, null 0+],
        host_filter: Option<String> [0+, null 0+],
        operation: i8 [0+],
        permission_type: i8 [0+],
    }

    /// The rules, by resource.
    pub struct DescribeAclsResponse {
        throttle_time_ms: i32 [0+],
        error_code: i16 [0+],
        error_message: Option<String> [0+, null 0+] = Some(String::new()),
        resources: Vec<DescribeAclsResource> [0+],
    }

    /// The rules about one resource.
    pub struct DescribeAclsResource {
        resource_type: i8 [0+],
        resource_name: String [0+],
        pattern_type: i8 [1+] = LITERAL,
        acls: Vec<AclDescription> [0+],
    }

    /// One rule.
    pub struct AclDescription {
        principal: String [0+],
        host: String [0+],
        operation: i8 [0+],
        permission_type: i8 [0+],
    }
}

impl DescribeAclsRequest {
    pub(crate) fn into_op(self) -> Op {
        let sent = SentFilter {
            kind: self.resource_type_filter,
            name: self.resource_name_filter,
            pattern: self.pattern_type_filter,
            principal: self.principal_filter,
            host: self.host_filter,
            operation: self.operation,
            permission: self.permission_type,
        };
        Op::DescribeAcls(op::DescribeAcls { filter: filter(sent) })
    }
}

impl From<&AclFilter> for DescribeAclsRequest {
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

pub(crate) fn response(reply: reply::DescribeAcls) -> DescribeAclsResponse {
    match reply.result {
        Ok(acls) => DescribeAclsResponse { resources: by_resource(acls), ..DescribeAclsResponse::default() },
        Err(refusal) => DescribeAclsResponse {
            error_code: refusal.code.number(),
            error_message: refusal.message,
            ..DescribeAclsResponse::default()
        },
    }
}

/// Rules about the same resource, which follow each other, in one.
fn by_resource(acls: Vec<Acl>) -> Vec<DescribeAclsResource> {
    let mut resources: Vec<DescribeAclsResource> = Vec::new();
    let mut last: Option<Resource> = None;
    for acl in acls {
        if last.as_ref() != Some(&acl.resource) {
            resources.push(DescribeAclsResource {
                resource_type: acl.resource.kind.number(),
                resource_name: acl.resource.name.clone(),
                pattern_type: acl.resource.pattern.number(),
                acls: Vec::new(),
            });
            last = Some(acl.resource);
        }
        if let Some(resource) = resources.last_mut() {
            resource.acls.push(AclDescription {
                principal: acl.principal,
                host: acl.host,
                operation: acl.operation.number(),
                permission_type: acl.permission.number(),
            });
        }
    }
    resources
}
