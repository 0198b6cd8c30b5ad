//! Rules about who may do what: added, shown, taken away.

use coordination::access::{Acl, Operation, PatternType, Permission, Resource, ResourceType};
use coordination::op::AclFilter;
use wire::api::create_acls::{AclCreation, CreateAclsRequest};
use wire::api::delete_acls::{DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest};
use wire::api::describe_acls::DescribeAclsRequest;

use crate::cluster::Client;
use crate::error::{ClientError, accepted};

impl Client {
    /// Adds rules. Each has its own result, in their order.
    pub async fn create_acls(&mut self, acls: &[Acl]) -> Result<Vec<Result<(), ClientError>>, ClientError> {
        let request = CreateAclsRequest { creations: acls.iter().map(AclCreation::from).collect() };
        let mut results = self.call(&request).await?.results.into_iter();
        let outcome = |_| match results.next() {
            Some(result) => accepted(result.error_code, result.error_message),
            None => Err(ClientError::Unanswered { request: "CreateAcls" }),
        };
        Ok(acls.iter().map(outcome).collect())
    }

    /// The rules that the filter means, as the broker orders them.
    pub async fn describe_acls(&mut self, filter: &AclFilter) -> Result<Vec<Acl>, ClientError> {
        let response = self.call(&DescribeAclsRequest::from(filter)).await?;
        accepted(response.error_code, response.error_message)?;
        let mut acls = Vec::new();
        for resource in response.resources {
            let about = (resource.resource_type, resource.pattern_type);
            for acl in resource.acls {
                let says = (acl.operation, acl.permission_type);
                acls.push(rule(about, resource.resource_name.clone(), (acl.principal, acl.host), says)?);
            }
        }
        Ok(acls)
    }

    /// Takes rules away. Each filter has its own result, in their order: the rules that are gone.
    pub async fn delete_acls(
        &mut self,
        filters: &[AclFilter],
    ) -> Result<Vec<Result<Vec<Acl>, ClientError>>, ClientError> {
        let request = DeleteAclsRequest { filters: filters.iter().map(DeleteAclsFilter::from).collect() };
        let mut results = self.call(&request).await?.filter_results.into_iter();
        let outcome = |_| match results.next() {
            Some(result) => gone(result),
            None => Err(ClientError::Unanswered { request: "DeleteAcls" }),
        };
        Ok(filters.iter().map(outcome).collect())
    }
}

fn gone(result: DeleteAclsFilterResult) -> Result<Vec<Acl>, ClientError> {
    accepted(result.error_code, result.error_message)?;
    let mut acls = Vec::new();
    for acl in result.matching_acls {
        accepted(acl.error_code, acl.error_message)?;
        let (about, says) = ((acl.resource_type, acl.pattern_type), (acl.operation, acl.permission_type));
        acls.push(rule(about, acl.resource_name, (acl.principal, acl.host), says)?);
    }
    Ok(acls)
}

/// A rule by Kafka's numbers: of the resource's kind and pattern, and of the operation and the permission.
fn rule(
    (kind, pattern): (i8, i8),
    name: String,
    (principal, host): (String, String),
    (operation, permission): (i8, i8),
) -> Result<Acl, ClientError> {
    let unknown = |what, number| ClientError::UnknownNumber { what, number };
    let resource = Resource {
        kind: ResourceType::from_number(kind).ok_or_else(|| unknown("resource type", kind))?,
        name,
        pattern: PatternType::from_number(pattern).ok_or_else(|| unknown("pattern type", pattern))?,
    };
    let operation = Operation::from_number(operation).ok_or_else(|| unknown("operation", operation))?;
    let permission = Permission::from_number(permission).ok_or_else(|| unknown("permission", permission))?;
    Ok(Acl { resource, principal, host, operation, permission })
}
