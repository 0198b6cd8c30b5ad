//! What is answered about users and what they may do.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Refusal;
use crate::access::Acl;
use crate::ids::OrgId;
use crate::record::{ScramCredential, ScramMechanism};

/// Whether groups may be asked for here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FindCoordinator {
    /// In the request's order: the group, and why it is not told.
    pub groups: Vec<(String, Option<Refusal>)>,
}

/// What there is to check a login against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Credentials {
    /// The organisation and the user's credentials; `None` when there is no such organisation.
    pub login: Option<Box<Login>>,
    /// A salt for a user that has none, always the same one: who tries names must not learn which exist.
    pub decoy_salt: Bytes,
}

/// What is known of a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Login {
    /// The organisation.
    pub org: OrgId,
    /// The user's passwords by kind; empty for a user that has none or does not exist.
    pub credentials: Vec<(ScramMechanism, ScramCredential)>,
}

/// Rules that were added, or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreateAcls {
    /// In the request's order: why one was not added.
    pub results: Vec<Option<Refusal>>,
}

/// Rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeAcls {
    /// The rules, by resource, or why they are not shown.
    pub result: Result<Vec<Acl>, Refusal>,
}

/// Rules that were removed, or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeleteAcls {
    /// In the request's order: the rules that are gone, or why none is.
    pub results: Vec<Result<Vec<Acl>, Refusal>>,
}

/// Quotas; there are none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeClientQuotas {
    /// Why they are not told.
    pub error: Option<Refusal>,
}

/// Users and the kinds of passwords they have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeUserScramCredentials {
    /// The users, or why none is shown.
    pub result: Result<Vec<ScramUser>, Refusal>,
}

/// One user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScramUser {
    /// The name.
    pub user: String,
    /// The kinds of passwords and how often each was hashed, or why they are not shown.
    pub result: Result<Vec<(ScramMechanism, i32)>, Refusal>,
}

/// What became of passwords.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlterUserScramCredentials {
    /// Each user once: the name, and why nothing was changed.
    pub users: Vec<(String, Option<Refusal>)>,
}
