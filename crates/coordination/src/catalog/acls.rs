//! The rules of organisations: CreateAcls, DescribeAcls, DeleteAcls.

use super::{Catalog, Decision};
use crate::access::{Acl, AclChange, Rules};
use crate::ids::OrgId;
use crate::op;
use crate::record::Record;
use crate::reply;

impl Catalog {
    /// The rules of the organisation.
    pub fn rules(&self, org: OrgId) -> &Rules {
        self.rules.get(&org).unwrap_or(&self.no_rules)
    }

    /// The rules of the organisation one by one, by resource.
    pub fn acls_of(&self, org: OrgId) -> impl Iterator<Item = Acl> {
        self.rules.get(&org).into_iter().flat_map(Rules::iter)
    }

    /// Adds rules.
    pub fn handle_create_acls(&self, org: OrgId, op: &op::CreateAcls) -> Decision<reply::CreateAcls> {
        let AclChange { acls, reply } = self.rules(org).create(op);
        let records = acls.into_iter().map(|acl| Record::Acl { org, acl }).collect();
        Decision { records, reply }
    }

    /// The rules that are asked for.
    pub fn describe_acls(&self, org: OrgId, op: &op::DescribeAcls) -> reply::DescribeAcls {
        self.rules(org).describe(op)
    }

    /// Takes rules away.
    pub fn handle_delete_acls(&self, org: OrgId, op: &op::DeleteAcls) -> Decision<reply::DeleteAcls> {
        let AclChange { acls, reply } = self.rules(org).delete(op);
        let records = acls.into_iter().map(|acl| Record::AclDeleted { org, acl }).collect();
        Decision { records, reply }
    }
}
