//! `kohort acl`: who may do what, with any Kafka that has an authorizer.

use std::net::IpAddr;

use client::ClientError;
use coordination::access::{Acl, Operation, PatternType, Permission, Resource, ResourceType};
use coordination::op::AclFilter;
use serde::Serialize;

use crate::cli::ClientArgs;
use crate::cli::acl::{AclCommand, AddArgs, FilterArgs, RemoveArgs, ResourceArgs};
use crate::dial::{connect, describe, failure};
use crate::failure::{Failure, Kind};
use crate::output::{Table, count, plain, show};

/// Runs `kohort acl …`.
pub(crate) async fn run(command: AclCommand) -> anyhow::Result<()> {
    match command {
        AclCommand::Add(args) => {
            let acls = to_add(&args)?;
            let mut client = connect(&args.client).await?;
            let results = client.create_acls(&acls).await.map_err(failure)?;
            let refused = |(acl, result): (&Acl, Result<(), ClientError>)| {
                result.err().map(|error| format!("{}: {}", said(acl), describe(&error)))
            };
            let problems: Vec<String> = acls.iter().zip(results).filter_map(refused).collect();
            if !problems.is_empty() {
                let message = format!("some ACLs were not added:\n  {}", problems.join("\n  "));
                return Err(Failure::new(Kind::Failed, message).into());
            }
            shown(&acls, "added", &args.client)
        }
        AclCommand::List(args) => {
            let mut client = connect(&args.client).await?;
            let mut acls = Vec::new();
            for filter in to_list(&args)? {
                acls.extend(client.describe_acls(&filter).await.map_err(failure)?);
            }
            acls.sort();
            acls.dedup();
            let shown: Vec<Shown> = acls.iter().map(Shown::of).collect();
            Ok(show(args.client.output.output, &shown, |shown| render(shown))?)
        }
        AclCommand::Remove(args) => {
            let filters = to_remove(&args)?;
            let mut client = connect(&args.client).await?;
            let mut acls = Vec::new();
            for result in client.delete_acls(&filters).await.map_err(failure)? {
                acls.extend(result.map_err(failure)?);
            }
            acls.sort();
            acls.dedup();
            shown(&acls, "removed", &args.client)
        }
    }
}

/// A rule as it is shown.
#[derive(Serialize)]
struct Shown {
    resource_type: &'static str,
    resource: String,
    pattern: &'static str,
    principal: String,
    host: String,
    operation: &'static str,
    permission: &'static str,
}

impl Shown {
    fn of(acl: &Acl) -> Self {
        Self {
            resource_type: acl.resource.kind.name(),
            resource: acl.resource.name.clone(),
            pattern: acl.resource.pattern.name(),
            principal: acl.principal.clone(),
            host: acl.host.clone(),
            operation: acl.operation.name(),
            permission: acl.permission.name(),
        }
    }
}

fn shown(acls: &[Acl], outcome: &str, args: &ClientArgs) -> anyhow::Result<()> {
    let listed: Vec<Shown> = acls.iter().map(Shown::of).collect();
    Ok(show(args.output.output, &listed, |listed| {
        let heading = format!("{} {outcome}\n", count(listed.len(), "ACL"));
        if listed.is_empty() { heading } else { heading + &render(listed) }
    })?)
}

fn render(acls: &[Shown]) -> String {
    let mut table =
        Table::new(&["RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"]);
    for acl in acls {
        table.row([
            acl.resource_type.to_owned(),
            acl.resource.clone(),
            acl.pattern.to_owned(),
            acl.principal.clone(),
            acl.host.clone(),
            acl.operation.to_owned(),
            acl.permission.to_owned(),
        ]);
    }
    table.render()
}

fn said(acl: &Acl) -> String {
    let Acl { resource, principal, operation, permission, .. } = acl;
    let (kind, operation, permission) = (resource.kind.name(), operation.name(), permission.name());
    plain(&format!("{permission} {principal} {operation} {kind} {}", resource.name))
}

fn to_add(args: &AddArgs) -> anyhow::Result<Vec<Acl>> {
    let pattern = match args.resource_pattern_type.to_ascii_lowercase().as_str() {
        "literal" => PatternType::Literal,
        "prefixed" => PatternType::Prefixed,
        other => {
            return Err(wrong(&format!("--resource-pattern-type {other}: expected literal or prefixed")));
        }
    };
    let resources = resources(&args.resources);
    if resources.is_empty() {
        return Err(wrong("name what it is about: --topic, --group, --cluster or --transactional-id"));
    }
    let named = operations(&args.operation)?;
    let parties = [
        (Permission::Allow, &args.allow_principal, &args.allow_host),
        (Permission::Deny, &args.deny_principal, &args.deny_host),
    ];
    let mut acls = Vec::new();
    for (permission, principals, hosts) in parties {
        let anywhere = vec!["*".to_owned()];
        let hosts = if hosts.is_empty() { &anywhere } else { hosts };
        for host in hosts {
            check_host(host)?;
        }
        for principal in principals {
            check_principal(principal)?;
            for (kind, name) in &resources {
                // The cluster has one name, of which there is no beginning.
                let pattern = if *kind == ResourceType::Cluster { PatternType::Literal } else { pattern };
                let operations = if args.producer || args.consumer {
                    of_role(args, *kind)?
                } else {
                    applicable(&named, *kind)?
                };
                for host in hosts {
                    acls.extend(operations.iter().map(|operation| Acl {
                        resource: Resource { kind: *kind, name: name.clone(), pattern },
                        principal: principal.clone(),
                        host: host.clone(),
                        operation: *operation,
                        permission,
                    }));
                }
            }
        }
    }
    Ok(acls)
}

/// The operations named, if there are such on a resource of this kind. Kafka's tool refuses others, too: a rule about them
/// would never be asked for.
fn applicable(named: &[Operation], kind: ResourceType) -> anyhow::Result<Vec<Operation>> {
    let possible = possible(kind);
    let is_possible = |operation: &Operation| *operation == Operation::All || possible.contains(operation);
    match named.iter().find(|operation| !is_possible(operation)) {
        None => Ok(named.to_vec()),
        Some(other) => {
            let (other, possible) = (as_typed(&[*other]), as_typed(possible));
            let kind = kind.name().to_ascii_lowercase().replace('_', " ");
            Err(wrong(&format!("--operation {other}: not done with a {kind}; expected all, {possible}")))
        }
    }
}

/// Operations as they may be typed.
fn as_typed(operations: &[Operation]) -> String {
    let names: Vec<String> = operations.iter().map(|known| known.name().to_ascii_lowercase()).collect();
    names.join(", ")
}

fn possible(kind: ResourceType) -> &'static [Operation] {
    use Operation::{
        Alter, AlterConfigs, ClusterAction, Create, CreateTokens, Delete, Describe, DescribeConfigs,
        DescribeTokens, IdempotentWrite, Read, TwoPhaseCommit, Write,
    };
    match kind {
        ResourceType::Topic => &[Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs],
        ResourceType::Group => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
        ResourceType::Cluster => {
            &[Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite]
        }
        ResourceType::TransactionalId => &[Write, Describe, TwoPhaseCommit],
        ResourceType::DelegationToken => &[Describe],
        ResourceType::User => &[CreateTokens, DescribeTokens],
    }
}

/// What producers and consumers do with a resource, as Kafka's tool has it.
fn of_role(args: &AddArgs, kind: ResourceType) -> anyhow::Result<Vec<Operation>> {
    use Operation::{Create, Describe, Read, Write};
    let writes: &[Operation] = match kind {
        ResourceType::Topic => &[Write, Describe, Create],
        ResourceType::TransactionalId => &[Write, Describe],
        _ => &[],
    };
    let reads: &[Operation] = match kind {
        ResourceType::Topic => &[Read, Describe],
        ResourceType::Group => &[Read],
        _ => &[],
    };
    let mut operations = Vec::new();
    for (is_meant, done) in [(args.producer, writes), (args.consumer, reads)] {
        operations.extend(done.iter().filter(|_| is_meant));
    }
    operations.sort_unstable();
    operations.dedup();
    match (operations.is_empty(), args.producer) {
        (false, _) => Ok(operations),
        (true, true) => Err(wrong("a producer has topics and transactional ids; for groups add --consumer")),
        (true, false) => Err(wrong("a consumer has topics and groups; for transactional ids add --producer")),
    }
}

fn to_list(args: &FilterArgs) -> anyhow::Result<Vec<AclFilter>> {
    let pattern = filter_pattern(&args.resource_pattern_type)?;
    let principals = or_any(&args.principal);
    let mut filters = Vec::new();
    for (kind, name) in resources_or_any(&args.resources) {
        filters.extend(principals.iter().map(|principal| AclFilter {
            kind,
            name: name.clone(),
            pattern,
            principal: principal.clone(),
            host: None,
            operation: None,
            permission: None,
        }));
    }
    Ok(filters)
}

fn to_remove(args: &RemoveArgs) -> anyhow::Result<Vec<AclFilter>> {
    let pattern = filter_pattern(&args.resource_pattern_type)?;
    let RemoveArgs { topic, group, cluster, transactional_id, .. } = args;
    let resources = ResourceArgs {
        topic: topic.clone(),
        group: group.clone(),
        cluster: *cluster,
        transactional_id: transactional_id.clone(),
    };
    let allowed = args.allow_principal.iter().map(|name| (Some(name.clone()), Some(Permission::Allow)));
    let denied = args.deny_principal.iter().map(|name| (Some(name.clone()), Some(Permission::Deny)));
    let mut parties: Vec<_> = allowed.chain(denied).collect();
    if parties.is_empty() {
        parties.push((None, None));
    }
    let mut operations: Vec<Option<Operation>> = operations(&args.operation)?.into_iter().map(Some).collect();
    if operations.is_empty() {
        operations.push(None);
    }
    let mut filters = Vec::new();
    for (kind, name) in resources_or_any(&resources) {
        for (principal, permission) in &parties {
            filters.extend(operations.iter().map(|operation| AclFilter {
                kind,
                name: name.clone(),
                pattern,
                principal: principal.clone(),
                host: args.host.clone(),
                operation: *operation,
                permission: *permission,
            }));
        }
    }
    Ok(filters)
}

fn resources(args: &ResourceArgs) -> Vec<(ResourceType, String)> {
    let named = |kind: ResourceType, names: &[String]| {
        names.iter().map(move |name| (kind, name.clone())).collect::<Vec<_>>()
    };
    let mut resources = named(ResourceType::Topic, &args.topic);
    resources.extend(named(ResourceType::Group, &args.group));
    if args.cluster {
        resources.push((ResourceType::Cluster, Resource::CLUSTER.to_owned()));
    }
    resources.extend(named(ResourceType::TransactionalId, &args.transactional_id));
    resources
}

fn resources_or_any(args: &ResourceArgs) -> Vec<(Option<ResourceType>, Option<String>)> {
    let named = resources(args);
    if named.is_empty() {
        return vec![(None, None)];
    }
    named.into_iter().map(|(kind, name)| (Some(kind), Some(name))).collect()
}

fn or_any(names: &[String]) -> Vec<Option<String>> {
    if names.is_empty() { vec![None] } else { names.iter().cloned().map(Some).collect() }
}

fn operations(names: &[String]) -> anyhow::Result<Vec<Operation>> {
    // Kafka's tools write `DescribeConfigs`, its documents DESCRIBE_CONFIGS.
    let normal = |name: &str| name.to_ascii_lowercase().replace(['_', '-'], "");
    let found = |name: &String| {
        let known = Operation::ALL.iter().find(|known| normal(known.name()) == normal(name.trim()));
        known.copied().ok_or_else(|| {
            wrong(&format!("--operation {name}: expected one of {}", as_typed(Operation::ALL)))
        })
    };
    names.iter().map(found).collect()
}

/// Kafka's number of what a filter asks of patterns.
fn filter_pattern(name: &str) -> anyhow::Result<i8> {
    match name.to_ascii_lowercase().as_str() {
        "any" => Ok(1),
        "match" => Ok(2),
        "literal" => Ok(PatternType::Literal.number()),
        "prefixed" => Ok(PatternType::Prefixed.number()),
        other => {
            Err(wrong(&format!("--resource-pattern-type {other}: expected literal, prefixed, any or match")))
        }
    }
}

fn check_principal(principal: &str) -> anyhow::Result<()> {
    match principal.split_once(':') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok(()),
        _ => Err(wrong(&format!("{principal} is no principal; expected User:name"))),
    }
}

/// A rule about anything else never applies: hosts are compared by the address that a client comes from.
fn check_host(host: &str) -> anyhow::Result<()> {
    // Java names the interface of a local address behind it.
    let address = host.split_once('%').map_or(host, |(address, _)| address);
    if host == "*" || address.parse::<IpAddr>().is_ok() {
        return Ok(());
    }
    Err(wrong(&format!("{host} is no host; expected an IP address, or * for all")))
}

fn wrong(message: &str) -> anyhow::Error {
    Failure::new(Kind::Usage, plain(message)).into()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use expect_test::expect;

    use super::*;
    use crate::cli::{Cli, Command};

    fn parse(line: &str) -> AclCommand {
        let words = ["kohort", "acl"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).unwrap().command {
            Some(Command::Acl(command)) => command,
            other => panic!("{other:?}"),
        }
    }

    fn added(line: &str) -> anyhow::Result<String> {
        let AclCommand::Add(args) = parse(line) else { panic!("add") };
        Ok(render(&to_add(&args)?.iter().map(Shown::of).collect::<Vec<_>>()))
    }

    #[test]
    fn flags_multiply_as_with_kafkas_tool() {
        let line = "add --allow-principal User:a --allow-principal User:b --operation Describe,DescribeConfigs \
                    --topic t --cluster --deny-principal User:c --deny-host 10.0.0.1 --resource-pattern-type prefixed";
        expect![[r#"
            RESOURCE  NAME           PATTERN   PRINCIPAL  HOST      OPERATION         PERMISSION
            TOPIC     t              PREFIXED  User:a     *         DESCRIBE          ALLOW
            TOPIC     t              PREFIXED  User:a     *         DESCRIBE_CONFIGS  ALLOW
            CLUSTER   kafka-cluster  LITERAL   User:a     *         DESCRIBE          ALLOW
            CLUSTER   kafka-cluster  LITERAL   User:a     *         DESCRIBE_CONFIGS  ALLOW
            TOPIC     t              PREFIXED  User:b     *         DESCRIBE          ALLOW
            TOPIC     t              PREFIXED  User:b     *         DESCRIBE_CONFIGS  ALLOW
            CLUSTER   kafka-cluster  LITERAL   User:b     *         DESCRIBE          ALLOW
            CLUSTER   kafka-cluster  LITERAL   User:b     *         DESCRIBE_CONFIGS  ALLOW
            TOPIC     t              PREFIXED  User:c     10.0.0.1  DESCRIBE          DENY
            TOPIC     t              PREFIXED  User:c     10.0.0.1  DESCRIBE_CONFIGS  DENY
            CLUSTER   kafka-cluster  LITERAL   User:c     10.0.0.1  DESCRIBE          DENY
            CLUSTER   kafka-cluster  LITERAL   User:c     10.0.0.1  DESCRIBE_CONFIGS  DENY
        "#]]
        .assert_eq(&added(line).unwrap());
    }

    #[test]
    fn producers_and_consumers_get_what_kafkas_tool_gives_them() {
        let line = "add --allow-principal User:a --producer --topic t --transactional-id x";
        expect![[r#"
            RESOURCE          NAME  PATTERN  PRINCIPAL  HOST  OPERATION  PERMISSION
            TOPIC             t     LITERAL  User:a     *     WRITE      ALLOW
            TOPIC             t     LITERAL  User:a     *     CREATE     ALLOW
            TOPIC             t     LITERAL  User:a     *     DESCRIBE   ALLOW
            TRANSACTIONAL_ID  x     LITERAL  User:a     *     WRITE      ALLOW
            TRANSACTIONAL_ID  x     LITERAL  User:a     *     DESCRIBE   ALLOW
        "#]]
        .assert_eq(&added(line).unwrap());
        let line = "add --allow-principal User:a --producer --consumer --topic t --group g";
        expect![[r#"
            RESOURCE  NAME  PATTERN  PRINCIPAL  HOST  OPERATION  PERMISSION
            TOPIC     t     LITERAL  User:a     *     READ       ALLOW
            TOPIC     t     LITERAL  User:a     *     WRITE      ALLOW
            TOPIC     t     LITERAL  User:a     *     CREATE     ALLOW
            TOPIC     t     LITERAL  User:a     *     DESCRIBE   ALLOW
            GROUP     g     LITERAL  User:a     *     READ       ALLOW
        "#]]
        .assert_eq(&added(line).unwrap());
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anybody_is_asked() {
        for (line, problem) in [
            ("add --allow-principal User:a", "name what it is about"),
            ("add --allow-principal alice --topic t", "expected User:name"),
            (
                "add --deny-principal User:a --topic t --deny-host 10.0.0.0/8",
                "10.0.0.0/8 is no host; expected an IP address, or * for all",
            ),
            ("add --allow-principal User:a --topic t --allow-host localhost", "localhost is no host"),
            ("add --allow-principal User:a --topic t --operation fly", "expected one of all, read"),
            (
                "add --allow-principal User:a --group g --operation read,create",
                "--operation create: not done with a group; expected all, read, delete, describe, describe_configs",
            ),
            (
                "add --allow-principal User:a --transactional-id x --operation read",
                "not done with a transactional id; expected all, write, describe",
            ),
            ("add --allow-principal User:a --topic t --resource-pattern-type match", "literal or prefixed"),
            ("add --allow-principal User:a --topic t --group g --producer", "for groups add --consumer"),
            ("add --allow-principal User:a --consumer --transactional-id x", "add --producer"),
        ] {
            let refusal = added(line).unwrap_err().to_string();
            assert!(refusal.contains(problem), "{line}: {refusal}");
        }
        for line in [
            "add --topic t",
            "add --allow-principal User:a --producer --topic t --operation read",
            "add --deny-principal User:a --producer --topic t",
            "remove",
            "remove --host 10.0.0.1",
        ] {
            let words = ["kohort", "acl"].into_iter().chain(line.split_whitespace());
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
    }

    #[test]
    fn without_names_all_are_meant() {
        let AclCommand::List(args) = parse("list") else { panic!("list") };
        let filters = to_list(&args).unwrap();
        assert_eq!(filters.len(), 1);
        assert_eq!((filters[0].kind, &filters[0].name, filters[0].pattern), (None, &None, 1));
        let AclCommand::Remove(args) = parse("remove --deny-principal User:a --operation read,write") else {
            panic!("remove")
        };
        let filters = to_remove(&args).unwrap();
        assert_eq!(filters.len(), 2);
        assert_eq!(filters[0].permission, Some(Permission::Deny));
    }
}
