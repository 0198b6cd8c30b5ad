//! Rules and filters for rules, as the APIs about them write them down.

use coordination::access::{Acl, Operation, PatternType, Permission, Resource, ResourceType};
use coordination::error_code::ErrorCode;
use coordination::op::AclFilter;
use coordination::reply::Refusal;

use crate::api::create_acls::AclCreation;

/// The number of the pattern that is the name itself, which versions without patterns mean.
pub(crate) const LITERAL: i8 = PatternType::Literal.number();

/// The number that stands for any kind, pattern, operation or permission.
const ANY: i8 = 1;

/// The number of the pattern that asks for all rules that match a name.
const MATCH: i8 = 2;

/// A rule to add, or what Kafka says of a number in it that cannot be meant.
///
/// Kafka says so only of numbers that it has no name for. It closes the connection when there is a zero anywhere in
/// the request, and fails all rules with an unknown error when one of them says "any"; it helps more to say which one
/// is wrong.
pub(crate) fn rule(sent: AclCreation) -> Result<Acl, Refusal> {
    let invalid = |what: &str, number: i8| {
        let name = match number {
            ANY => "ANY",
            MATCH if what == "patternType" => "MATCH",
            _ => "UNKNOWN",
        };
        Refusal::new(ErrorCode::InvalidRequest, format!("Invalid {what} {name}"))
    };
    let kind = ResourceType::from_number(sent.resource_type);
    let pattern = PatternType::from_number(sent.resource_pattern_type);
    let operation = Operation::from_number(sent.operation);
    let permission = Permission::from_number(sent.permission_type);
    Ok(Acl {
        resource: Resource {
            kind: kind.ok_or_else(|| invalid("resourceType", sent.resource_type))?,
            name: sent.resource_name,
            pattern: pattern.ok_or_else(|| invalid("patternType", sent.resource_pattern_type))?,
        },
        principal: sent.principal,
        host: sent.host,
        operation: operation.ok_or_else(|| invalid("operation", sent.operation))?,
        permission: permission.ok_or_else(|| invalid("permissionType", sent.permission_type))?,
    })
}

/// A filter with Kafka's numbers.
pub(crate) struct SentFilter {
    pub(crate) kind: i8,
    pub(crate) name: Option<String>,
    pub(crate) pattern: i8,
    pub(crate) principal: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) operation: i8,
    pub(crate) permission: i8,
}

/// Which rules are meant, or what Kafka says of a number that it has no name for.
///
/// Kafka says so when rules are deleted. When they are shown it finds none, and a zero makes it close the connection;
/// it helps more to say what is wrong.
pub(crate) fn filter(sent: SentFilter) -> Result<AclFilter, Refusal> {
    fn named<T>(number: i8, from_number: fn(i8) -> Option<T>, what: &str) -> Result<Option<T>, Refusal> {
        match from_number(number) {
            None if number != ANY => Err(unknown(what)),
            named => Ok(named),
        }
    }
    fn unknown(what: &str) -> Refusal {
        Refusal::new(ErrorCode::InvalidRequest, format!("Unknown {what}."))
    }
    if !matches!(sent.pattern, ANY | MATCH) && PatternType::from_number(sent.pattern).is_none() {
        return Err(unknown("patternFilter"));
    }
    Ok(AclFilter {
        kind: named(sent.kind, ResourceType::from_number, "patternFilter")?,
        name: sent.name,
        pattern: sent.pattern,
        principal: sent.principal,
        host: sent.host,
        operation: named(sent.operation, Operation::from_number, "entryFilter")?,
        permission: named(sent.permission, Permission::from_number, "entryFilter")?,
    })
}

/// A filter as it is sent.
pub(crate) fn sent(filter: &AclFilter) -> SentFilter {
    SentFilter {
        kind: filter.kind.map_or(ANY, ResourceType::number),
        name: filter.name.clone(),
        pattern: filter.pattern,
        principal: filter.principal.clone(),
        host: filter.host.clone(),
        operation: filter.operation.map_or(ANY, Operation::number),
        permission: filter.permission.map_or(ANY, Permission::number),
    }
}
