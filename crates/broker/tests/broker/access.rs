use coordination::access::{Acl, Operation, PatternType, Permission, Resource, ResourceType};
use coordination::error_code::ErrorCode;
use coordination::op::{self, Op};
use coordination::reply::{self, Reply};
use store::Crash;

use crate::group_world::AT_ONCE;
use crate::world::{World, batch, fetch};

const AUTHORIZER: (&str, &str) =
    ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");

fn acl(principal: &str, operation: Operation, kind: ResourceType, name: &str) -> Acl {
    let resource = Resource { kind, name: name.to_owned(), pattern: PatternType::Literal };
    let (principal, host) = (principal.to_owned(), "*".to_owned());
    Acl { resource, principal, host, operation, permission: Permission::Allow }
}

fn filter(name: &str) -> op::AclFilter {
    op::AclFilter {
        kind: Some(ResourceType::Topic),
        name: Some(name.to_owned()),
        pattern: 3,
        principal: None,
        host: None,
        operation: None,
        permission: None,
    }
}

impl World {
    async fn authorized() -> Self {
        let configs = [AT_ONCE[0], AUTHORIZER, ("super.users", "User:root;User:acme/root")];
        let world = Self::with(&configs).await;
        world.groups_are_loaded().await;
        let world = world.seen_by(world.carrier.org(), "User:root");
        world.create("orders", 1, &[]).await;
        world.append("orders", 0, 1).await;
        world
    }

    async fn allow(&self, acl: Acl) -> Option<ErrorCode> {
        let op = op::CreateAcls { acls: vec![Ok(acl)] };
        match self.call(Op::CreateAcls(op)).reply().await.unwrap() {
            Reply::CreateAcls(mut reply) => reply.results.remove(0).map(|refusal| refusal.code),
            other => panic!("{other:?}"),
        }
    }

    async fn remove_rules(&self, name: &str) -> Result<Vec<Acl>, ErrorCode> {
        let op = op::DeleteAcls { filters: vec![Ok(filter(name))] };
        match self.call(Op::DeleteAcls(op)).reply().await.unwrap() {
            Reply::DeleteAcls(mut reply) => reply.results.remove(0).map_err(|refusal| refusal.code),
            other => panic!("{other:?}"),
        }
    }

    async fn rules(&self, name: &str) -> Result<Vec<Acl>, ErrorCode> {
        let op = op::DescribeAcls { filter: Ok(filter(name)) };
        match self.call(Op::DescribeAcls(op)).reply().await.unwrap() {
            Reply::DescribeAcls(reply) => reply.result.map_err(|refusal| refusal.code),
            other => panic!("{other:?}"),
        }
    }

    async fn read_error(&self) -> Option<ErrorCode> {
        self.read("orders", 0, 0).await.error
    }
}

#[tokio::test]
async fn without_an_authorizer_there_are_no_rules() {
    let world = World::new().await;
    let rule = acl("User:alice", Operation::Read, ResourceType::Topic, "orders");
    assert_eq!(world.allow(rule).await, Some(ErrorCode::SecurityDisabled));
    assert_eq!(world.rules("orders").await, Err(ErrorCode::SecurityDisabled));
    assert_eq!(world.remove_rules("orders").await, Err(ErrorCode::SecurityDisabled));
    world.create("orders", 1, &[]).await;
    assert_eq!(world.read_error().await, None);
}

#[tokio::test]
async fn rules_hold_as_soon_as_they_are_acknowledged() {
    let world = World::authorized().await;
    let alice = world.seen_by(world.carrier.org(), "User:alice");
    assert_eq!(alice.read_error().await, Some(ErrorCode::TopicAuthorizationFailed));
    let rule = acl("User:alice", Operation::Read, ResourceType::Topic, "orders");
    assert_eq!(world.allow(rule.clone()).await, None);
    assert_eq!(alice.read_error().await, None);
    assert_eq!(alice.refusal("orders", batch(1)).await, ErrorCode::TopicAuthorizationFailed);
    let write = acl("User:alice", Operation::Write, ResourceType::Topic, "orders");
    assert_eq!(world.allow(write).await, None);
    assert!(alice.produce("orders", 0, batch(1)).await.is_ok());
    assert_eq!(alice.allow(rule).await, Some(ErrorCode::ClusterAuthorizationFailed));
    assert_eq!(world.remove_rules("orders").await.unwrap().len(), 2);
    assert_eq!(alice.read_error().await, Some(ErrorCode::TopicAuthorizationFailed));
    assert_eq!(alice.read("nowhere", 0, 0).await.error, Some(ErrorCode::TopicAuthorizationFailed));
}

#[tokio::test]
async fn a_fetch_session_reads_only_as_long_as_it_may() {
    let world = World::authorized().await;
    let alice = world.seen_by(world.carrier.org(), "User:alice");
    world.allow(acl("User:alice", Operation::Read, ResourceType::Topic, "orders")).await;
    let first = alice.fetch(op::Fetch { session_epoch: 0, ..fetch("orders", &[(0, 0)]) }).await;
    assert_eq!(first.topics[0].partitions[0].error, None);
    let id = first.session_id;
    let next = |session_epoch| op::Fetch {
        session_id: id,
        session_epoch,
        topics: Vec::new(),
        ..fetch("orders", &[])
    };
    assert_eq!(alice.fetch(next(1)).await.topics[0].partitions[0].error, None);
    world.remove_rules("orders").await.unwrap();
    let refused = alice.fetch(next(2)).await;
    let part = &refused.topics[0].partitions[0];
    assert_eq!((part.error, part.records.len()), (Some(ErrorCode::TopicAuthorizationFailed), 0));
    world.allow(acl("User:alice", Operation::Read, ResourceType::Topic, "orders")).await;
    assert!(!alice.fetch(next(3)).await.topics[0].partitions[0].records.is_empty());
}

#[tokio::test]
async fn each_organisation_has_its_own_rules() {
    let world = World::authorized().await;
    let root = world.seen_by(world.org("acme").await, "User:root");
    root.create("orders", 1, &[]).await;
    let alice = root.seen_by(root.carrier.org(), "User:alice");
    world.allow(acl("User:*", Operation::All, ResourceType::Topic, "orders")).await;
    assert_eq!(alice.read_error().await, Some(ErrorCode::TopicAuthorizationFailed));
    assert_eq!(root.rules("orders").await, Ok(Vec::new()));
    let rule = acl("User:alice", Operation::Read, ResourceType::Topic, "orders");
    root.allow(rule.clone()).await;
    assert_eq!(alice.read_error().await, None);
    let namesake = world.seen_by(world.org("other").await, "User:root");
    assert_eq!(namesake.rules("orders").await, Err(ErrorCode::ClusterAuthorizationFailed));
    let stranger = world.seen_by(world.carrier.org(), "User:bob");
    assert_eq!(stranger.read_error().await, None, "everybody may, there");

    let org = root.carrier.org();
    drop((root, alice, stranger));
    let world = world.crash(Crash::LosesAll).await;
    let root = world.seen_by(org, "User:root");
    assert_eq!(root.rules("orders").await, Ok(vec![rule]), "rules outlive a crash");
}

#[tokio::test]
async fn groups_and_what_is_shown_of_them_ask_the_rules_too() {
    let world = World::authorized().await;
    let alice = world.seen_by(world.carrier.org(), "User:alice");
    assert_eq!(alice.join("billing", "").await.result.unwrap_err(), ErrorCode::GroupAuthorizationFailed);
    world.stable("secret").await;
    world.allow(acl("User:alice", Operation::Read, ResourceType::Group, "billing")).await;
    alice.stable("billing").await;
    let names =
        |listed: Vec<reply::ListedGroup>| listed.into_iter().map(|group| group.group).collect::<Vec<_>>();
    assert_eq!(names(alice.list().await.unwrap()), ["billing"]);
    assert_eq!(names(world.list().await.unwrap()), ["billing", "secret"]);
    assert_eq!(alice.describe("secret").await.error, Some(ErrorCode::GroupAuthorizationFailed));
    let shown = alice.describe("billing").await;
    assert!(shown.operations.contains(Operation::Read) && !shown.operations.contains(Operation::Delete));
    assert_eq!(alice.heartbeat("secret", "x", 1), Some(ErrorCode::GroupAuthorizationFailed));
}

#[tokio::test]
async fn where_nothing_is_said_everybody_may_if_that_is_set() {
    let configs = [AUTHORIZER, ("allow.everyone.if.no.acl.found", "true"), ("super.users", "User:root")];
    let world = World::with(&configs).await;
    world.create("orders", 1, &[]).await;
    world.append("orders", 0, 1).await;
    assert_eq!(world.read_error().await, None);
    let root = world.seen_by(world.carrier.org(), "User:root");
    root.allow(acl("User:alice", Operation::Read, ResourceType::Topic, "orders")).await;
    assert_eq!(world.read_error().await, Some(ErrorCode::TopicAuthorizationFailed));
}
