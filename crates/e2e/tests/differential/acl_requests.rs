//! Requests about rules and passwords, built from the little that a script says about them.

use bytes::Bytes;
use sasl::salt_password;
use sasl::scram::Variant;
use wire::AnyRequest;
use wire::api::*;

/// One rule, with Kafka's numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<'a> {
    pub(crate) kind: i8,
    pub(crate) name: &'a str,
    pub(crate) pattern: i8,
    pub(crate) user: &'a str,
    pub(crate) host: &'a str,
    pub(crate) operation: i8,
    pub(crate) permission: i8,
}

pub(crate) const TOPIC: i8 = 2;
pub(crate) const GROUP: i8 = 3;
pub(crate) const CLUSTER: i8 = 4;
pub(crate) const LITERAL: i8 = 3;
pub(crate) const PREFIXED: i8 = 4;
pub(crate) const DENY: i8 = 2;
pub(crate) const ALLOW: i8 = 3;

impl Default for Rule<'_> {
    fn default() -> Self {
        let (kind, pattern, operation, permission) = (TOPIC, LITERAL, 3, ALLOW);
        Self { kind, name: "t", pattern, user: "some", host: "*", operation, permission }
    }
}

pub(crate) fn create_rules(rules: &[Rule<'_>]) -> AnyRequest {
    let creation = |rule: &Rule<'_>| create_acls::AclCreation {
        resource_type: rule.kind,
        resource_name: rule.name.to_owned(),
        resource_pattern_type: rule.pattern,
        principal: format!("User:{}", rule.user),
        host: rule.host.to_owned(),
        operation: rule.operation,
        permission_type: rule.permission,
    };
    AnyRequest::CreateAcls(create_acls::CreateAclsRequest { creations: rules.iter().map(creation).collect() })
}

/// The rules that are meant, with Kafka's numbers; by itself, all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter<'a> {
    pub(crate) kind: i8,
    pub(crate) name: Option<&'a str>,
    pub(crate) pattern: i8,
    pub(crate) principal: Option<&'a str>,
    pub(crate) host: Option<&'a str>,
    pub(crate) operation: i8,
    pub(crate) permission: i8,
}

/// The number that stands for any kind, pattern, operation or permission.
pub(crate) const ANY: i8 = 1;

impl Default for Filter<'_> {
    fn default() -> Self {
        let (name, principal, host) = (None, None, None);
        Self { kind: ANY, name, pattern: ANY, principal, host, operation: ANY, permission: ANY }
    }
}

pub(crate) fn show_rules(filter: Filter<'_>) -> AnyRequest {
    AnyRequest::DescribeAcls(describe_acls::DescribeAclsRequest {
        resource_type_filter: filter.kind,
        resource_name_filter: filter.name.map(str::to_owned),
        pattern_type_filter: filter.pattern,
        principal_filter: filter.principal.map(str::to_owned),
        host_filter: filter.host.map(str::to_owned),
        operation: filter.operation,
        permission_type: filter.permission,
    })
}

pub(crate) fn all_rules() -> AnyRequest {
    show_rules(Filter::default())
}

pub(crate) fn delete_rules(filters: &[Filter<'_>]) -> AnyRequest {
    let meant = |filter: &Filter<'_>| delete_acls::DeleteAclsFilter {
        resource_type_filter: filter.kind,
        resource_name_filter: filter.name.map(str::to_owned),
        pattern_type_filter: filter.pattern,
        principal_filter: filter.principal.map(str::to_owned),
        host_filter: filter.host.map(str::to_owned),
        operation: filter.operation,
        permission_type: filter.permission,
    };
    AnyRequest::DeleteAcls(delete_acls::DeleteAclsRequest { filters: filters.iter().map(meant).collect() })
}

pub(crate) fn password_of(user: &str) -> String {
    format!("{user}s secret")
}

/// A password that a user is given.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) name: String,
    pub(crate) mechanism: i8,
    pub(crate) iterations: i32,
    pub(crate) salt: Bytes,
    pub(crate) salted: Bytes,
}

/// The password of a user, whose salt is the name so that both brokers show the same.
pub(crate) fn given(user: &str, variant: Variant) -> Given {
    let salt = format!("the salt of {user}");
    let salted = salt_password(variant, &password_of(user), salt.as_bytes(), 4096);
    let mechanism = match variant {
        Variant::Sha256 => 1,
        Variant::Sha512 => 2,
    };
    Given { name: user.to_owned(), mechanism, iterations: 4096, salt: salt.into(), salted: salted.into() }
}

pub(crate) fn give(users: &[(&str, Variant)]) -> AnyRequest {
    let given: Vec<Given> = users.iter().map(|(user, variant)| given(user, *variant)).collect();
    alter_users(&[], &given)
}

/// AlterUserScramCredentials: the passwords that are taken away, by user and mechanism, and those that are given.
pub(crate) fn alter_users(deleted: &[(&str, i8)], given: &[Given]) -> AnyRequest {
    let deletion = |(name, mechanism): &(&str, i8)| alter_user_scram_credentials::ScramCredentialDeletion {
        name: (*name).to_owned(),
        mechanism: *mechanism,
    };
    let upsertion = |given: &Given| alter_user_scram_credentials::ScramCredentialUpsertion {
        name: given.name.clone(),
        mechanism: given.mechanism,
        iterations: given.iterations,
        salt: given.salt.clone(),
        salted_password: given.salted.clone(),
    };
    AnyRequest::AlterUserScramCredentials(alter_user_scram_credentials::AlterUserScramCredentialsRequest {
        deletions: deleted.iter().map(deletion).collect(),
        upsertions: given.iter().map(upsertion).collect(),
    })
}

/// DescribeClientQuotas: of each part of an entity its type, how it is matched, and its name.
pub(crate) fn show_quotas(components: &[(&str, i8, Option<&str>)], strict: bool) -> AnyRequest {
    let component = |&(entity_type, match_type, name): &(&str, i8, Option<&str>)| {
        let (entity_type, match_name) = (entity_type.to_owned(), name.map(str::to_owned));
        describe_client_quotas::ComponentData { entity_type, match_type, match_name }
    };
    let components = components.iter().map(component).collect();
    AnyRequest::DescribeClientQuotas(describe_client_quotas::DescribeClientQuotasRequest {
        components,
        strict,
    })
}

pub(crate) fn show_users(users: Option<&[&str]>) -> AnyRequest {
    let named = |name: &&str| describe_user_scram_credentials::UserName { name: (*name).to_owned() };
    AnyRequest::DescribeUserScramCredentials(
        describe_user_scram_credentials::DescribeUserScramCredentialsRequest {
            users: users.map(|users| users.iter().map(named).collect()),
        },
    )
}
