//! CreateAcls, DescribeAcls and DeleteAcls.

use std::collections::BTreeSet;

use super::rules::Rule;
use super::{Acl, PatternType, Resource, ResourceType, Rules};
use crate::error_code::ErrorCode;
use crate::limits::{ACL_COMPARISONS_MAX, ACL_NAME_MAX, ACLS_PER_ORG_MAX};
use crate::op::{self, AclFilter};
use crate::reply::{self, Refusal};

/// What a request changes, and what is answered once it is durable.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a change that is not made is a reply that lies"]
pub struct AclChange<R> {
    /// The rules to add, or to take away, each once.
    pub acls: Vec<Acl>,
    /// What the client is told then.
    pub reply: R,
}

impl Rules {
    /// What CreateAcls adds: what it names, is sound and is not there yet.
    pub fn create(&self, op: &op::CreateAcls) -> AclChange<reply::CreateAcls> {
        let mut new = BTreeSet::new();
        let mut add = |acl: &Result<Acl, Refusal>| {
            let acl = acl.as_ref().map_err(Refusal::clone)?;
            check(acl)?;
            if self.contains(acl) || new.contains(acl) {
                return Ok(());
            }
            if self.len() + new.len() >= ACLS_PER_ORG_MAX {
                let message = format!("An organisation has at most {ACLS_PER_ORG_MAX} ACLs.");
                return Err(Refusal::new(ErrorCode::PolicyViolation, message));
            }
            new.insert(acl.clone());
            Ok(())
        };
        let results = op.acls.iter().map(|acl| add(acl).err()).collect();
        AclChange { acls: new.into_iter().collect(), reply: reply::CreateAcls { results } }
    }

    /// The rules that DescribeAcls asks for, by resource.
    pub fn describe(&self, op: &op::DescribeAcls) -> reply::DescribeAcls {
        reply::DescribeAcls { result: op.filter.clone().and_then(|filter| self.matching(&filter)) }
    }

    /// What DeleteAcls takes away. As in Kafka, a rule that several filters mean is told for each of them.
    pub fn delete(&self, op: &op::DeleteAcls) -> AclChange<reply::DeleteAcls> {
        self.delete_within(op, ACL_COMPARISONS_MAX)
    }

    fn delete_within(&self, op: &op::DeleteAcls, comparisons: usize) -> AclChange<reply::DeleteAcls> {
        // A filter is a few bytes that may mean all rules. A request tells as many as there can be, and compares as much
        // as can be waited for; what is beyond is refused, and takes nothing away.
        let (mut comparisons, mut told) = (Some(comparisons), Some(ACLS_PER_ORG_MAX));
        let matching = |filter: &Result<AclFilter, Refusal>| {
            let filter = filter.as_ref().map_err(Refusal::clone)?;
            comparisons = comparisons.and_then(|left| left.checked_sub(self.len()));
            let found = match comparisons.and(told) {
                Some(_) => self.matching(filter)?,
                None => return Err(too_many_filters()),
            };
            told = told.and_then(|left| left.checked_sub(found.len()));
            told.map(|_| found).ok_or_else(too_many_filters)
        };
        let results: Vec<_> = op.filters.iter().map(matching).collect();
        let gone: BTreeSet<&Acl> = results.iter().flatten().flatten().collect();
        let acls = gone.into_iter().cloned().collect();
        AclChange { acls, reply: reply::DeleteAcls { results } }
    }

    /// The rules that a filter means, by resource.
    ///
    /// # Errors
    /// When the number of the filter's pattern is none of Kafka's.
    pub fn matching(&self, filter: &AclFilter) -> Result<Vec<Acl>, Refusal> {
        let pattern = Pattern::from_number(filter.pattern)
            .ok_or_else(|| Refusal::new(ErrorCode::InvalidRequest, "Unknown patternFilter."))?;
        let is_meant = |rule: &Rule<'_>| pattern.matches(filter, rule) && is_about(filter, rule);
        Ok(self.each().filter(is_meant).map(Rule::to_acl).collect())
    }
}

/// Which names a filter means.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    /// The same, whatever the rule's pattern.
    Any,
    /// Every rule that applies to the name.
    Match,
    /// The same, in rules of this pattern.
    Of(PatternType),
}

impl Pattern {
    fn from_number(number: i8) -> Option<Self> {
        match number {
            1 => Some(Self::Any),
            2 => Some(Self::Match),
            other => PatternType::from_number(other).map(Self::Of),
        }
    }

    fn matches(self, filter: &AclFilter, rule: &Rule<'_>) -> bool {
        let name = match &filter.name {
            _ if filter.kind.is_some_and(|kind| kind != rule.kind) => return false,
            None => return !matches!(self, Self::Of(pattern) if pattern != rule.pattern),
            Some(name) => name,
        };
        match (self, rule.pattern) {
            (Self::Any, _) => name == rule.name,
            (Self::Match, PatternType::Literal) => name == rule.name || rule.name == Resource::ANY,
            (Self::Match, PatternType::Prefixed) => name.starts_with(rule.name),
            (Self::Of(pattern), of) => pattern == of && name == rule.name,
        }
    }
}

/// Whether the filter means such rules, the resource aside.
fn is_about(filter: &AclFilter, rule: &Rule<'_>) -> bool {
    filter.principal.as_ref().is_none_or(|principal| principal == rule.principal)
        && filter.host.as_ref().is_none_or(|host| host == rule.host)
        && filter.operation.is_none_or(|operation| operation == rule.operation)
        && filter.permission.is_none_or(|permission| permission == rule.permission)
}

fn too_many_filters() -> Refusal {
    Refusal::new(
        ErrorCode::PolicyViolation,
        "The filters of this request mean too many ACLs; use fewer of them.",
    )
}

/// Whether a rule makes sense, in Kafka's words.
fn check(acl: &Acl) -> Result<(), Refusal> {
    let name = &acl.resource.name;
    let wrong = if acl.resource.kind == ResourceType::Cluster && name != Resource::CLUSTER {
        format!("The only valid name for the CLUSTER resource is {}", Resource::CLUSTER)
    } else if name.is_empty() {
        "Invalid empty resource name".to_owned()
    } else if !acl.principal.contains(':') {
        format!(
            "Could not parse principal from `{}` (no colon is present separating the principal type from the \
             principal name)",
            acl.principal
        )
    } else if let Some((_, user)) = acl.principal.strip_prefix("User:").and_then(|name| name.split_once('/'))
    {
        // Kafka takes it. Here a slash in a login, a token or a certificate ends the organisation's name, so nobody is
        // ever called so, and a rule that denies would deny nothing.
        let example = if user.is_empty() || user.contains('/') { "alice" } else { user };
        format!(
            "Nobody can be {}: within an organisation the principal is User:{example}, without the organisation",
            acl.principal
        )
    } else if [name, &acl.principal, &acl.host].iter().any(|name| name.len() > ACL_NAME_MAX) {
        format!("A name in an ACL has at most {ACL_NAME_MAX} bytes")
    } else {
        return Ok(());
    };
    Err(Refusal::new(ErrorCode::InvalidRequest, wrong))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Operation, Permission};

    fn acl(kind: ResourceType, pattern: PatternType, name: &str) -> Acl {
        Acl {
            resource: Resource { kind, name: name.to_owned(), pattern },
            principal: "User:ann".to_owned(),
            host: "*".to_owned(),
            operation: Operation::Read,
            permission: Permission::Allow,
        }
    }

    fn literal(name: &str) -> Acl {
        acl(ResourceType::Topic, PatternType::Literal, name)
    }

    fn prefixed(name: &str) -> Acl {
        acl(ResourceType::Topic, PatternType::Prefixed, name)
    }

    fn any() -> AclFilter {
        let (name, principal, host) = (None, None, None);
        AclFilter { kind: None, name, pattern: 1, principal, host, operation: None, permission: None }
    }

    fn rules(acls: &[Acl]) -> Rules {
        let mut rules = Rules::new();
        for acl in acls {
            rules.insert(acl.clone());
        }
        rules
    }

    /// Which names of the rules a filter finds, prefixes with a `-` behind them.
    fn found(rules: &Rules, filter: &AclFilter) -> Vec<String> {
        let name = |acl: Acl| match acl.resource.pattern {
            PatternType::Literal => acl.resource.name,
            PatternType::Prefixed => format!("{}-", acl.resource.name),
        };
        rules.matching(filter).expect("the filter is sound").into_iter().map(name).collect()
    }

    #[test]
    fn filters_compare_names_in_four_ways() {
        let rules = rules(&[
            literal("abc"),
            literal("*"),
            literal("ab"),
            prefixed("ab"),
            prefixed("abc"),
            prefixed("b"),
        ]);
        let named = |pattern, name: &str| AclFilter { pattern, name: Some(name.to_owned()), ..any() };
        assert_eq!(found(&rules, &named(1, "abc")), ["abc", "abc-"]);
        assert_eq!(found(&rules, &named(2, "abc")), ["*", "abc", "ab-", "abc-"]);
        assert_eq!(found(&rules, &named(3, "abc")), ["abc"]);
        assert_eq!(found(&rules, &named(3, "*")), ["*"]);
        assert_eq!(found(&rules, &named(4, "ab")), ["ab-"]);
        assert_eq!(found(&rules, &any()).len(), 6);
        assert_eq!(found(&rules, &AclFilter { pattern: 2, ..any() }).len(), 6);
        assert_eq!(found(&rules, &AclFilter { pattern: 3, ..any() }), ["*", "ab", "abc"]);
        assert_eq!(found(&rules, &AclFilter { pattern: 4, ..any() }), ["ab-", "abc-", "b-"]);
        assert_eq!(found(&rules, &AclFilter { kind: Some(ResourceType::Group), ..any() }), [""; 0]);
    }

    #[test]
    fn filters_compare_who_where_and_what() {
        let rules = rules(&[literal("a")]);
        let is_found = |filter: AclFilter| !found(&rules, &filter).is_empty();
        assert!(is_found(AclFilter { principal: Some("User:ann".to_owned()), ..any() }));
        assert!(!is_found(AclFilter { principal: Some("User:*".to_owned()), ..any() }));
        assert!(is_found(AclFilter { host: Some("*".to_owned()), ..any() }));
        assert!(!is_found(AclFilter { host: Some("10.0.0.1".to_owned()), ..any() }));
        assert!(is_found(AclFilter { operation: Some(Operation::Read), ..any() }));
        assert!(!is_found(AclFilter { operation: Some(Operation::All), ..any() }));
        assert!(is_found(AclFilter { permission: Some(Permission::Allow), ..any() }));
        assert!(!is_found(AclFilter { permission: Some(Permission::Deny), ..any() }));
    }

    #[test]
    fn filters_that_mean_everything_again_and_again_are_refused_in_the_end() {
        let mut rules = Rules::new();
        for number in 0..ACLS_PER_ORG_MAX / 4 {
            rules.insert(literal(&number.to_string()));
        }
        let op = op::DeleteAcls { filters: vec![Ok(any()); 20] };
        let change = rules.delete(&op);
        assert_eq!(change.acls.len(), ACLS_PER_ORG_MAX / 4);
        let refused = change.reply.results.iter().filter(|result| result.is_err()).count();
        assert_eq!(refused, 16, "what is told is bounded");
        let nothing = AclFilter { principal: Some("User:nobody".to_owned()), ..any() };
        let op = op::DeleteAcls { filters: vec![Ok(nothing); 3] };
        let results = rules.delete_within(&op, 2 * rules.len()).reply.results;
        assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1, "and so is what is compared");
    }

    #[test]
    fn rules_that_make_no_sense_are_refused_one_by_one() {
        let cluster = |name| acl(ResourceType::Cluster, PatternType::Literal, name);
        let of = |principal: &str| Acl { principal: principal.to_owned(), ..literal("t") };
        let refused = Refusal::new(ErrorCode::InvalidRequest, "no such kind");
        let op = op::CreateAcls {
            acls: vec![
                Ok(literal("")),
                Ok(cluster("*")),
                Ok(cluster("kafka-cluster")),
                Ok(of("ann")),
                Ok(of("User:")),
                Ok(of("User:acme/alice")),
                Ok(of("User:CN=svc,O=A/B/C")),
                Ok(of("Group:acme/alice")),
                Err(refused),
                Ok(of(&format!("User:{}", "n".repeat(ACL_NAME_MAX)))),
            ],
        };
        let change = Rules::new().create(&op);
        let messages: Vec<Option<String>> = change
            .reply
            .results
            .into_iter()
            .map(|refusal| refusal.and_then(|refusal| refusal.message))
            .collect();
        let expected = [
            Some("Invalid empty resource name"),
            Some("The only valid name for the CLUSTER resource is kafka-cluster"),
            None,
            Some(
                "Could not parse principal from `ann` (no colon is present separating the principal type from the \
                 principal name)",
            ),
            None,
            Some(
                "Nobody can be User:acme/alice: within an organisation the principal is User:alice, without the \
                 organisation",
            ),
            Some(
                "Nobody can be User:CN=svc,O=A/B/C: within an organisation the principal is User:alice, without the \
                 organisation",
            ),
            None,
            Some("no such kind"),
            Some("A name in an ACL has at most 2048 bytes"),
        ];
        assert_eq!(messages, expected.map(|message| message.map(str::to_owned)));
        assert_eq!(change.acls, [of("Group:acme/alice"), of("User:"), cluster("kafka-cluster")]);
    }

    #[test]
    fn a_rule_is_added_once() {
        let op = op::CreateAcls { acls: vec![Ok(literal("a")), Ok(literal("b")), Ok(literal("b"))] };
        let change = rules(&[literal("a")]).create(&op);
        assert_eq!(change.acls, [literal("b")]);
        assert_eq!(change.reply.results, [None, None, None]);
    }

    #[test]
    fn a_rule_that_two_filters_mean_is_told_twice_and_removed_once() {
        let rules = rules(&[literal("a"), literal("b")]);
        let named = |name: &str| Ok(AclFilter { name: Some(name.to_owned()), ..any() });
        let unknown = Refusal::new(ErrorCode::InvalidRequest, "Unknown patternFilter.");
        let filters = vec![Ok(any()), named("b"), named("c"), Ok(AclFilter { pattern: 9, ..any() })];
        let change = rules.delete(&op::DeleteAcls { filters });
        assert_eq!(change.acls, [literal("a"), literal("b")]);
        let expected = [
            Ok(vec![literal("a"), literal("b")]),
            Ok(vec![literal("b")]),
            Ok(Vec::new()),
            Err(unknown.clone()),
        ];
        assert_eq!(change.reply.results, expected);
        let filter = Ok(AclFilter { pattern: 0, ..any() });
        assert_eq!(rules.describe(&op::DescribeAcls { filter }).result, Err(unknown));
    }
}
