//! What each op needs, what is told without it, and what the client sees of replies.

mod mended;
mod ops;
mod table;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::{Screened, Topics, screen};
use crate::access::{Acl, Judge, Operation, PatternType, Permission, Resource, ResourceType, Rules};
use crate::ids::TopicId;
use crate::op::Op;
use crate::reply::Reply;

/// The topics `t` and `u`, with the ids 1 and 2.
struct World;

impl Topics for World {
    fn name(&self, id: TopicId) -> Option<Arc<str>> {
        match id.as_u128() {
            1 => Some("t".into()),
            2 => Some("u".into()),
            _ => None,
        }
    }

    fn exists(&self, name: &str) -> bool {
        matches!(name, "t" | "u")
    }

    fn names(&self) -> Vec<Arc<str>> {
        vec!["u".into(), "t".into()]
    }

    fn are_created_on_demand(&self) -> bool {
        true
    }
}

/// Something that a user may do.
type Right = (Operation, ResourceType, &'static str);

const fn topic(operation: Operation, name: &'static str) -> Right {
    (operation, ResourceType::Topic, name)
}

const fn group(operation: Operation) -> Right {
    (operation, ResourceType::Group, "g")
}

const fn cluster(operation: Operation) -> Right {
    (operation, ResourceType::Cluster, Resource::CLUSTER)
}

fn rules(rights: &[Right]) -> Rules {
    let mut rules = Rules::new();
    for (operation, kind, name) in rights {
        rules.insert(Acl {
            resource: Resource { kind: *kind, name: (*name).to_owned(), pattern: PatternType::Literal },
            principal: "User:ann".to_owned(),
            host: "*".to_owned(),
            operation: *operation,
            permission: Permission::Allow,
        });
    }
    rules
}

fn ann(rules: &Rules) -> Judge<'_> {
    Judge {
        rules,
        principal: "User:ann",
        host: IpAddr::V4(Ipv4Addr::LOCALHOST),
        is_super: false,
        everyone_if_no_rule: false,
    }
}

fn screened(rights: &[Right], op: Op) -> Screened {
    screen(&ann(&rules(rights)), op, &World)
}

/// What ann sees of `reply`, the answer to what is left of the op.
fn seen(rights: &[Right], op: Op, reply: Reply) -> Reply {
    match screened(rights, op) {
        Screened::Refused(refused) => refused,
        Screened::Allowed(_, mend) => mend.apply(&ann(&rules(rights)), reply),
        Screened::Fetch(_) => panic!("a fetch is not answered here"),
    }
}
