//! Checks against reading every rule one after the other.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;
use crate::access::Judge;

const NAMES: [&str; 8] = ["*", "a", "ab", "abc", "abd", "hardcode", "ä", "äö"];
const PRINCIPALS: [&str; 3] = ["User:*", "User:ann", "User:bob"];
const HOSTS: [&str; 4] = ["*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1"];
const OPERATIONS: [Operation; 7] = [
    Operation::All,
    Operation::Read,
    Operation::Write,
    Operation::Alter,
    Operation::Describe,
    Operation::DescribeConfigs,
    Operation::AlterConfigs,
];

fn acl() -> impl Strategy<Value = Acl> {
    let kind = select(vec![ResourceType::Topic, ResourceType::Topic, ResourceType::Group]);
    let resource = (kind, select(NAMES.to_vec()), select(PatternType::ALL.to_vec()));
    let entry = (
        select(PRINCIPALS.to_vec()),
        select(HOSTS.to_vec()),
        select(OPERATIONS.to_vec()),
        select(Permission::ALL.to_vec()),
    );
    (resource, entry).prop_map(|((kind, name, pattern), (principal, host, operation, permission))| Acl {
        resource: Resource { kind, name: name.to_owned(), pattern },
        principal: principal.to_owned(),
        host: host.to_owned(),
        operation,
        permission,
    })
}

fn rules(acls: &[Acl]) -> Rules {
    let mut rules = Rules::new();
    for acl in acls {
        rules.insert(acl.clone());
    }
    rules
}

fn is_for(acl: &Acl, judge: &Judge<'_>) -> bool {
    let from = acl.host == "*" || acl.host.parse::<IpAddr>() == Ok(judge.host);
    (acl.principal == judge.principal || acl.principal == "User:*") && from
}

fn is_about(acl: &Acl, kind: ResourceType, name: &str) -> bool {
    let pattern = &acl.resource;
    pattern.kind == kind
        && match pattern.pattern {
            PatternType::Literal => pattern.name == name || pattern.name == "*",
            PatternType::Prefixed => name.starts_with(&pattern.name),
        }
}

fn covers(acl: &Acl, operation: Operation) -> bool {
    if acl.operation == Operation::All || acl.operation == operation {
        return true;
    }
    let implied: &[Operation] = match operation {
        Operation::Describe => &[Operation::Read, Operation::Write, Operation::Delete, Operation::Alter],
        Operation::DescribeConfigs => &[Operation::AlterConfigs],
        _ => &[],
    };
    acl.permission == Permission::Allow && implied.contains(&acl.operation)
}

/// The rules one after the other, as Kafka's documentation tells them.
fn naive(acls: &[Acl], judge: &Judge<'_>, operation: Operation, kind: ResourceType, name: &str) -> bool {
    let about: Vec<&Acl> = acls.iter().filter(|acl| is_about(acl, kind, name)).collect();
    if about.is_empty() {
        return judge.everyone_if_no_rule;
    }
    let mut mine = about.iter().filter(|acl| is_for(acl, judge) && covers(acl, operation));
    let denied = mine.clone().any(|acl| acl.permission == Permission::Deny);
    !denied && mine.any(|acl| acl.permission == Permission::Allow)
}

/// What Kafka calls authorizing by resource type, one rule after the other.
fn naive_any(acls: &[Acl], judge: &Judge<'_>, operation: Operation, kind: ResourceType) -> bool {
    if naive(acls, judge, operation, kind, "hardcode") {
        return true;
    }
    let is_this = |acl: &&Acl| matches!(acl.operation, Operation::All) || acl.operation == operation;
    let mine: Vec<&Acl> =
        acls.iter().filter(|acl| acl.resource.kind == kind && is_for(acl, judge)).filter(is_this).collect();
    let of = |permission, pattern| {
        let mine = mine.iter().filter(move |acl| acl.permission == permission);
        mine.filter(move |acl| acl.resource.pattern == pattern).map(|acl| acl.resource.name.as_str())
    };
    let denied = |name: &str| of(Permission::Deny, PatternType::Prefixed).any(|deny| name.starts_with(deny));
    let denied_literally = |name: &str| of(Permission::Deny, PatternType::Literal).any(|deny| name == deny);
    if denied_literally("*") {
        return false;
    }
    of(Permission::Allow, PatternType::Literal)
        .any(|name| name == "*" || !denied_literally(name) && !denied(name))
        || of(Permission::Allow, PatternType::Prefixed).any(|name| !denied(name))
}

proptest! {
    #[test]
    fn checks_agree_with_reading_every_rule(
        acls in prop::collection::vec(acl(), 0..12),
        principal in select(vec!["User:ann", "User:bob", "User:eve"]),
        host in select(vec!["10.0.0.1", "10.0.0.3", "::1"]),
        everyone_if_no_rule: bool,
    ) {
        let rules = rules(&acls);
        let host = host.parse().expect("it is an address");
        let judge = Judge { rules: &rules, principal, host, is_super: false, everyone_if_no_rule };
        for kind in [ResourceType::Topic, ResourceType::Group, ResourceType::Cluster] {
            for operation in OPERATIONS {
                for name in ["", "a", "aa", "ab", "abc", "abcd", "abe", "b", "*", "*a", "ä", "äöü", "äx"] {
                    let expected = naive(&acls, &judge, operation, kind, name);
                    prop_assert_eq!(judge.may(operation, kind, name), expected, "{:?} {:?} {}", operation, kind, name);
                }
                let expected = naive_any(&acls, &judge, operation, kind);
                prop_assert_eq!(judge.may_any(operation, kind), expected, "any {:?} {:?}", operation, kind);
            }
        }
    }

    #[test]
    fn what_is_removed_was_never_there(
        acls in prop::collection::btree_set(acl(), 0..20),
        gone in subsequence((0..20_usize).collect::<Vec<_>>(), 0..20),
    ) {
        let acls: Vec<Acl> = acls.into_iter().collect();
        let mut all = rules(&acls);
        prop_assert_eq!(all.len(), acls.len());
        let listed: Vec<Acl> = all.iter().collect();
        prop_assert_eq!(listed.len(), acls.len());
        prop_assert!(acls.iter().all(|acl| all.contains(acl) && listed.contains(acl)));

        let (gone, kept): (Vec<_>, Vec<_>) = acls.iter().cloned().enumerate().partition(|(at, _)| gone.contains(at));
        for (_, acl) in &gone {
            prop_assert!(all.remove(acl));
            prop_assert!(!all.remove(acl));
        }
        let kept: Vec<Acl> = kept.into_iter().map(|(_, acl)| acl).collect();
        prop_assert_eq!(all, rules(&kept));
    }
}

#[test]
fn super_users_are_never_denied() {
    let deny = Acl {
        resource: Resource { kind: ResourceType::Topic, name: "*".to_owned(), pattern: PatternType::Literal },
        principal: "User:*".to_owned(),
        host: "*".to_owned(),
        operation: Operation::All,
        permission: Permission::Deny,
    };
    let rules = rules(&[deny]);
    let host = "10.0.0.1".parse().expect("it is an address");
    let judge =
        Judge { rules: &rules, principal: "User:root", host, is_super: true, everyone_if_no_rule: false };
    assert!(judge.may_read("t"));
    assert!(judge.may_any(Operation::Write, ResourceType::Topic));
    assert!(!Judge { is_super: false, ..judge }.may_read("t"));
}
