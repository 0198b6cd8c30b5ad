//! CreateAcls (30): allows or denies.

use coordination::access::Acl;
use coordination::op::{self, Op};
use coordination::reply::{self, Refusal};

use crate::api::acl::{LITERAL, rule};
use crate::api::refusal_number;
use crate::message::message;

message! {
    /// Rules to add.
    pub struct CreateAclsRequest {
        creations: Vec<AclCreation> [0+],
    }

    /// One rule.
    pub struct AclCreation {
        resource_type: i8 [0+],
        resource_name: String [0+],
        resource_pattern_type: i8 [1+] = LITERAL,
        principal: String [0+],
        host: String [0+],
        operation: i8 [0+],
        permission_type: i8 [0+],
    }

    /// Whether each was added.
    pub struct CreateAclsResponse {
        throttle_time_ms: i32 [0+],
        results: Vec<AclCreationResult> [0+],
    }

    /// Whether one was added.
    pub struct AclCreationResult {
        error_code: i16 [0+],
        error_message: Option<String> [0+, null 0+],
    }
}

impl CreateAclsRequest {
    pub(crate) fn into_op(self) -> Op {
        Op::CreateAcls(op::CreateAcls { acls: self.creations.into_iter().map(rule).collect() })
    }
}

impl From<&Acl> for AclCreation {
    fn from(acl: &Acl) -> Self {
        Self {
            resource_type: acl.resource.kind.number(),
            resource_name: acl.resource.name.clone(),
            resource_pattern_type: acl.resource.pattern.number(),
            principal: acl.principal.clone(),
            host: acl.host.clone(),
            operation: acl.operation.number(),
            permission_type: acl.permission.number(),
        }
    }
}

pub(crate) fn response(reply: reply::CreateAcls) -> CreateAclsResponse {
    let result = |refusal: Option<Refusal>| AclCreationResult {
        error_code: refusal_number(refusal.as_ref()),
        // A live Kafka 4.3 says nothing where nothing is wrong, rather than null.
        error_message: refusal.map_or(Some(String::new()), |refusal| refusal.message),
    };
    CreateAclsResponse { throttle_time_ms: 0, results: reply.results.into_iter().map(result).collect() }
}
