//! Commands about organisations, users, rules and gateways.

use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::Bytes;
use coordination::access::{Acl, Operation, PatternType, Permission, Resource, ResourceType};
use coordination::catalog::{AdminError, Catalog, Decision, Minted, MintedUser, NewOrg};
use coordination::ids::{OrgId, TopicId};
use coordination::op::{
    AclFilter, AlterUserScramCredentials, CreateAcls, Credentials, DeleteAcls, DescribeAcls,
    DescribeUserScramCredentials, NewScramCredential, ScramDeletion,
};
use coordination::record::{OrgLimits, Record, ScramCredential, ScramMechanism};

use crate::said;

const MINTED: MintedUser = MintedUser { now_ms: 4_000, decoy_secret: [7; 32] };

/// Takes one step, writes what came of it and gives back its records.
pub(crate) fn step(
    catalog: &Catalog,
    org: OrgId,
    verb: &str,
    words: &[&str],
    input: &[&str],
    out: &mut String,
) -> Vec<Record> {
    let told = |out: &mut String, outcome: Result<String, AdminError>| match outcome {
        Ok(done) => writeln!(out, "{done}").unwrap(),
        Err(AdminError::Unknown(why)) => writeln!(out, "unknown: {why}").unwrap(),
        Err(AdminError::Conflict(why)) => writeln!(out, "conflict: {why}").unwrap(),
        Err(AdminError::Invalid(why)) => writeln!(out, "invalid: {why}").unwrap(),
    };
    match verb {
        "create-org" => {
            let mut limits = OrgLimits::default();
            for (name, limit) in limits_of(&words[1..]) {
                assert!(limits.set(&name, limit), "{name}");
            }
            // Ids of organisations and their topics follow from their names, far from those of other topics.
            let bits = words[0].bytes().fold(1_u128 << 64, |bits, byte| (bits << 8) + u128::from(byte));
            let topic_ids = [TopicId::from_u128(bits)];
            let minted = Minted { now_ms: 5_000, topic_ids: &topic_ids };
            let new = NewOrg { id: OrgId::from_u128(bits), name: words[0].to_owned(), limits };
            let Decision { records, reply } = catalog.handle_create_org(new, minted);
            told(out, reply.map(|org| format!("created {}", org.name)));
            records
        }
        "delete-org" => {
            let Decision { records, reply } = catalog.handle_delete_org(words[0]);
            told(out, reply.map(|org| format!("deleted {}", org.name)));
            records
        }
        "limit" => {
            let Decision { records, reply } = catalog.handle_set_limits(words[0], &limits_of(&words[1..]));
            told(out, reply.map(|org| format!("limited {}", org.name)));
            records
        }
        "orgs" => {
            for org in catalog.orgs() {
                writeln!(out, "{} {:?}", org.name, catalog.org_usage(org.id)).unwrap();
            }
            Vec::new()
        }
        "create-user" | "passwd" => {
            let credentials: BTreeMap<_, _> = match words.get(1) {
                Some(&"without") => BTreeMap::new(),
                iterations => {
                    let iterations = iterations.map_or(4096, |iterations| iterations.parse().unwrap());
                    BTreeMap::from([(ScramMechanism::Sha256, credential(iterations, 32))])
                }
            };
            let Decision { records, reply } = if verb == "passwd" {
                catalog.handle_set_password(org, words[0], credentials)
            } else {
                catalog.handle_create_user(org, words[0], credentials, &MINTED)
            };
            told(out, reply.map(|user| format!("{} has a password", user.name)));
            records
        }
        "delete-user" => {
            let Decision { records, reply } = catalog.handle_delete_user(org, words[0]);
            told(out, reply.map(|user| format!("deleted {}", user.name)));
            records
        }
        "users" => {
            let users: String = catalog.users_of(org).map(|user| format!(" {}", user.name)).collect();
            writeln!(out, "users:{users}").unwrap();
            Vec::new()
        }
        "scram" => {
            let mut op = AlterUserScramCredentials { deletions: Vec::new(), upsertions: Vec::new() };
            for line in input {
                let words: Vec<&str> = line.split_whitespace().collect();
                let user = words[1].replace("''", "");
                let mechanism = mechanism(words[2]);
                match words[0] {
                    "take" => op.deletions.push(ScramDeletion { user, mechanism }),
                    _ => {
                        let iterations: i32 = words[3].parse().unwrap();
                        let length = if mechanism == Ok(ScramMechanism::Sha512) { 64 } else { 32 };
                        let credential = (!words.contains(&"short"))
                            .then(|| credential(iterations.unsigned_abs(), length));
                        let salt = Bytes::new();
                        op.upsertions.push(NewScramCredential {
                            user,
                            mechanism,
                            iterations,
                            salt,
                            credential,
                        });
                    }
                }
            }
            let Decision { records, reply } = catalog.handle_alter_scram(org, &op, &MINTED);
            for (user, error) in reply.users {
                writeln!(out, "{user}: {}", error.as_ref().map_or("altered".to_owned(), said)).unwrap();
            }
            records
        }
        "describe-scram" => {
            let users = Some(words.iter().map(|word| (*word).to_owned()).collect());
            let reply = catalog.describe_scram(org, &DescribeUserScramCredentials { users });
            for user in reply.result.unwrap() {
                match user.result {
                    Ok(kinds) => writeln!(out, "{} {kinds:?}", user.user).unwrap(),
                    Err(refusal) => writeln!(out, "{}: {}", user.user, said(&refusal)).unwrap(),
                }
            }
            Vec::new()
        }
        "login" => {
            let (org, user) = match words[0].split_once('/') {
                Some((org, user)) => (Some(org.to_owned()), user),
                None => (None, words[0]),
            };
            let reply = catalog.credentials(&Credentials { org, user: user.to_owned() });
            let login = reply.login.map(|login| {
                let kinds: Vec<ScramMechanism> = login.credentials.iter().map(|(kind, _)| *kind).collect();
                format!("{:x} {kinds:?}", login.org.as_u128())
            });
            let decoy: String = reply.decoy_salt.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            writeln!(out, "{} decoy={decoy}", login.unwrap_or("no such org".to_owned())).unwrap();
            Vec::new()
        }
        "create-acls" => {
            let acls = input.iter().map(|line| Ok(acl(line))).collect();
            let Decision { records, reply } = catalog.handle_create_acls(org, &CreateAcls { acls });
            for error in reply.results {
                writeln!(out, "{}", error.as_ref().map_or("created".to_owned(), said)).unwrap();
            }
            records
        }
        "describe-acls" => {
            let filter = Ok(filter(input[0]));
            for acl in catalog.describe_acls(org, &DescribeAcls { filter }).result.unwrap() {
                writeln!(out, "{}", written(&acl)).unwrap();
            }
            Vec::new()
        }
        "delete-acls" => {
            let filters = input.iter().map(|line| Ok(filter(line))).collect();
            let Decision { records, reply } = catalog.handle_delete_acls(org, &DeleteAcls { filters });
            for result in reply.results {
                let gone: Vec<String> =
                    result.unwrap().iter().map(|acl| format!(" {}", written(acl))).collect();
                writeln!(out, "gone:{}", gone.join(";")).unwrap();
            }
            records
        }
        "allow" | "deny" => {
            let id = words[0].repeat(64);
            let Decision { records, reply } = if verb == "allow" {
                catalog.handle_allow_gateway(&id)
            } else {
                catalog.handle_deny_gateway(&id)
            };
            told(
                out,
                reply.map(|gateway| format!("node {} is_allowed={}", gateway.node_id, gateway.is_allowed)),
            );
            records
        }
        "nodes" => {
            let nodes: Vec<i32> = (0..9).filter(|id| catalog.is_node(*id)).collect();
            writeln!(out, "{nodes:?}").unwrap();
            Vec::new()
        }
        other => panic!("unknown command {other}"),
    }
}

/// `max.topics=3`, or `max.topics=` for none.
fn limits_of(words: &[&str]) -> Vec<(String, Option<u64>)> {
    let limit = |word: &&str| {
        let (name, limit) = word.split_once('=').unwrap();
        (name.to_owned(), limit.parse().ok())
    };
    words.iter().map(limit).collect()
}

fn mechanism(number: &str) -> Result<ScramMechanism, i8> {
    match number {
        "1" => Ok(ScramMechanism::Sha256),
        "2" => Ok(ScramMechanism::Sha512),
        other => Err(other.parse().unwrap()),
    }
}

fn credential(iterations: u32, length: usize) -> ScramCredential {
    let key = vec![0xaa; length];
    ScramCredential { salt: vec![1], iterations, stored_key: key.clone(), server_key: key }
}

/// `2 3 orders User:alice * 3 3`: kind, pattern, name, principal, host, operation, permission.
fn acl(line: &str) -> Acl {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |index: usize| words[index].parse::<i8>().unwrap();
    Acl {
        resource: Resource {
            kind: ResourceType::from_number(number(0)).unwrap(),
            pattern: PatternType::from_number(number(1)).unwrap(),
            name: words[2].to_owned(),
        },
        principal: words[3].to_owned(),
        host: words[4].to_owned(),
        operation: Operation::from_number(number(5)).unwrap(),
        permission: Permission::from_number(number(6)).unwrap(),
    }
}

/// `2 3 orders`: kind, pattern and name; `-` is any.
fn filter(line: &str) -> AclFilter {
    let words: Vec<&str> = line.split_whitespace().collect();
    AclFilter {
        kind: words[0].parse().ok().and_then(ResourceType::from_number),
        pattern: words[1].parse().unwrap(),
        name: Some(words[2].to_owned()).filter(|name| name != "-"),
        principal: None,
        host: None,
        operation: None,
        permission: None,
    }
}

fn written(acl: &Acl) -> String {
    let Acl { resource, principal, host, operation, permission } = acl;
    let Resource { kind, name, pattern } = resource;
    let (kind, pattern, operation, permission) =
        (kind.name(), pattern.name(), operation.name(), permission.name());
    format!("{kind} {pattern} {name} {principal} {host} {operation} {permission}")
}
