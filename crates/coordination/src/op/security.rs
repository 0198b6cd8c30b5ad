//! What is asked about users and what they may do.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::access::{Acl, Operation, Permission, ResourceType};
use crate::record::{ScramCredential, ScramMechanism};
use crate::reply::Refusal;

/// Groups whose coordinator is looked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FindCoordinator {
    /// The groups' ids, in the client's order.
    pub groups: Vec<String>,
}

/// A login whose credentials a gateway needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Credentials {
    /// The organisation's name; `None` is `default`.
    pub org: Option<String>,
    /// The user's name within it.
    pub user: String,
}

/// Rules to add.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreateAcls {
    /// In the client's order. `Err` where a number in the request is no kind, pattern, operation or permission.
    pub acls: Vec<Result<Acl, Refusal>>,
}

/// Rules to show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeAcls {
    /// Which. `Err` where the request makes no sense.
    pub filter: Result<AclFilter, Refusal>,
}

/// Rules to remove.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeleteAcls {
    /// Which, in the client's order. `Err` where one makes no sense.
    pub filters: Vec<Result<AclFilter, Refusal>>,
}

/// Which rules are meant; `None` is any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AclFilter {
    /// The kind of resource.
    pub kind: Option<ResourceType>,
    /// The resource's name.
    pub name: Option<String>,
    /// How the rule's name is compared with it, by Kafka's number: 1 any, 2 all rules that match the name, 3 literal,
    /// 4 prefixed.
    pub pattern: i8,
    /// The principal.
    pub principal: Option<String>,
    /// The host.
    pub host: Option<String>,
    /// The operation.
    pub operation: Option<Operation>,
    /// The permission.
    pub permission: Option<Permission>,
}

/// Whose quotas are asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeClientQuotas {
    /// What is asked of each part of an entity.
    pub components: Vec<QuotaComponent>,
}

/// What is asked of one part of an entity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaComponent {
    /// `user`, `client-id` or `ip`.
    pub entity_type: String,
    /// 0 for the one with this name, 1 for the default, 2 for any.
    pub match_type: i8,
    /// The name.
    pub name: Option<String>,
}

/// Users whose kinds of passwords are asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeUserScramCredentials {
    /// Their names; `None` asks for all.
    pub users: Option<Vec<String>>,
}

/// Passwords to give and to take away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlterUserScramCredentials {
    /// To take away.
    pub deletions: Vec<ScramDeletion>,
    /// To give.
    pub upsertions: Vec<NewScramCredential>,
}

/// A password to take away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScramDeletion {
    /// The user.
    pub user: String,
    /// The kind; `Err` is a number that is none.
    pub mechanism: Result<ScramMechanism, i8>,
}

/// A password to give, salted by the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewScramCredential {
    /// The user.
    pub user: String,
    /// The kind; `Err` is a number that is none.
    pub mechanism: Result<ScramMechanism, i8>,
    /// How often it was hashed.
    pub iterations: i32,
    /// The salt.
    pub salt: Bytes,
    /// What is stored instead of the password, made by the gateway from what the client sent; `None` where that was
    /// not of the right length.
    pub credential: Option<ScramCredential>,
}
