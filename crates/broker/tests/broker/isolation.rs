//! One organisation drives every op against what another has, and hears what it would hear if there were nothing.

use std::collections::BTreeMap;

use coordination::access::{Acl, Operation, PatternType, Permission, Resource, ResourceType};
use coordination::catalog::TOPIC_NAME_OF_OFFSETS;
use coordination::ids::TopicId;
use coordination::op::{self, ConfigChanges, ConfigOperation, ConfigResource, OffsetTarget, Op, TopicRef};
use coordination::record::{ScramCredential, ScramMechanism};
use coordination::reply::Reply;

use crate::group_world::{AT_ONCE, commit_op, join_op, soon, sync_op};
use crate::world::{World, batch, fetch, fetch_topic, from_producer, produce};

/// What the victim has, as a stranger may have heard of it.
struct Loot {
    topic: TopicId,
    member: String,
    generation: i32,
    session: i32,
    producer: i64,
}

/// An organisation with a bit of everything, and another that has nothing.
async fn furnish(victim: &World, org: &str) -> Loot {
    let topic = victim.create("orders", 2, &[]).await;
    let Reply::InitProducerId(init) = soon(victim.call(init_producer()).reply()).await.unwrap() else {
        panic!()
    };
    let producer = init.result.unwrap().0;
    victim.produce("orders", 0, from_producer(3, producer, 0, 0)).await.unwrap();
    let (member, generation) = victim.stable("billing").await;
    assert_eq!(victim.commit("billing", &member, generation, 2).await, None);
    let session = victim.fetch(op::Fetch { session_epoch: 0, ..fetch("orders", &[(0, 0)]) }).await.session_id;
    assert!(session > 0);
    let credential = ScramCredential {
        salt: vec![1; 16],
        iterations: 4096,
        stored_key: vec![1; 32],
        server_key: vec![1; 32],
    };
    let password = BTreeMap::from([(ScramMechanism::Sha256, credential)]);
    victim.broker.admin().create_user(org, "carol", password).await.unwrap();
    Loot { topic, member, generation, session, producer }
}

fn init_producer() -> Op {
    Op::InitProducerId(op::InitProducerId { transactional_id: None, producer_id: -1, producer_epoch: -1 })
}

/// Every op that takes a name, an id or a number, with those of the victim.
fn raid(loot: &Loot) -> Vec<Op> {
    let name = || "orders".to_owned();
    let (by_name, by_id) = (TopicRef::Name(name()), TopicRef::Id(loot.topic));
    let both = [by_name.clone(), by_id.clone()];
    let mut ops = Vec::new();
    let metadata = |topics| Op::Metadata(op::Metadata { topics, allow_auto_topic_creation: false });
    ops.extend([metadata(None), metadata(Some(both.to_vec()))]);
    ops.push(produce(1, "orders", vec![(0, from_producer(1, loot.producer, 0, 3))]));
    let part = op::ProducePartition { index: 0, records: Some(batch(1)) };
    let topics = vec![op::ProduceTopic { topic: by_id.clone(), partitions: vec![part] }];
    ops.push(Op::Produce(op::Produce { transactional_id: None, acks: 1, zstd: true, topics }));
    ops.push(Op::Fetch(fetch("orders", &[(0, 0)])));
    let topics = vec![fetch_topic(by_id.clone(), &[(0, 0)])];
    ops.push(Op::Fetch(op::Fetch { by_id: true, topics, ..fetch("orders", &[]) }));
    for session_epoch in [1, -1, 0] {
        let topics = Vec::new();
        ops.push(Op::Fetch(op::Fetch {
            session_id: loot.session,
            session_epoch,
            topics,
            ..fetch("orders", &[])
        }));
    }
    let target = Ok(OffsetTarget::Latest);
    let partitions = vec![op::ListOffsetsPartition { index: 0, current_leader_epoch: None, target }];
    let topics = vec![op::ListOffsetsTopic { name: name(), partitions }];
    ops.push(Op::ListOffsets(op::ListOffsets { read_committed: false, topics }));
    let partitions = vec![op::EpochPartition { index: 0, current_leader_epoch: None, leader_epoch: 0 }];
    let topics = vec![op::EpochTopic { name: name(), partitions }];
    ops.push(Op::OffsetForLeaderEpoch(op::OffsetForLeaderEpoch { topics }));
    let topics = vec![op::DeleteRecordsTopic { name: name(), partitions: vec![(0, 1)] }];
    ops.push(Op::DeleteRecords(op::DeleteRecords { topics }));
    ops.push(Op::DeleteTopics(op::DeleteTopics { topics: both.into_iter().map(Ok).collect() }));
    let topics = vec![op::MorePartitions { name: name(), count: 9, assignments: None }];
    ops.push(Op::CreatePartitions(op::CreatePartitions { topics, validate_only: false }));
    for (resource_type, name) in [(2, "orders"), (32, "billing"), (4, "1"), (4, "")] {
        let resource = ConfigResource { resource_type, name: name.to_owned() };
        let key = Some(vec!["retention.ms".to_owned()]);
        let resources = vec![(resource.clone(), key)];
        ops.push(Op::DescribeConfigs(op::DescribeConfigs {
            resources,
            include_synonyms: false,
            include_documentation: false,
        }));
        let change = ("retention.ms".to_owned(), Ok(ConfigOperation::Set), Some("1".to_owned()));
        let resources = vec![(resource, ConfigChanges::Incremental(vec![change]))];
        ops.push(Op::AlterConfigs(op::AlterConfigs { resources, validate_only: false }));
    }
    for topics in [Vec::new(), vec![name()]] {
        let (partition_limit, cursor) = (100, None);
        ops.push(Op::DescribeTopicPartitions(op::DescribeTopicPartitions {
            topics,
            partition_limit,
            cursor,
        }));
    }
    ops.push(Op::DescribeLogDirs(op::DescribeLogDirs { topics: Some(vec![(name(), vec![0])]) }));
    ops.push(Op::JoinGroup(join_op("billing", &loot.member)));
    ops.push(Op::SyncGroup(sync_op("billing", &loot.member, loot.generation, &[&loot.member])));
    let (group, member_id) = (|| "billing".to_owned(), || loot.member.clone());
    let instance_id = None;
    let heartbeat =
        op::Heartbeat { group: group(), generation: loot.generation, member_id: member_id(), instance_id };
    ops.push(Op::Heartbeat(heartbeat.into()));
    let leaving = op::LeavingMember { member_id: member_id(), instance_id: None, reason: None };
    ops.push(Op::LeaveGroup(op::LeaveGroup { group: group(), members: vec![leaving] }));
    ops.push(Op::OffsetCommit(commit_op("billing", &loot.member, loot.generation, 1)));
    for topics in [None, Some(vec![op::OffsetFetchTopic { topic: by_name, partitions: vec![0] }])] {
        let asked = op::OffsetFetchGroup { group: group(), member_id: None, member_epoch: -1, topics };
        ops.push(Op::OffsetFetch(op::OffsetFetch {
            groups: vec![asked],
            require_stable: true,
            by_id: false,
        }));
    }
    let partitions = vec![0];
    let asked = op::OffsetFetchTopic { topic: by_id, partitions };
    let asked =
        op::OffsetFetchGroup { group: group(), member_id: None, member_epoch: -1, topics: Some(vec![asked]) };
    ops.push(Op::OffsetFetch(op::OffsetFetch { groups: vec![asked], require_stable: true, by_id: true }));
    ops.push(Op::OffsetDelete(op::OffsetDelete { group: group(), topics: vec![(name(), vec![0])] }));
    ops.push(Op::ListGroups(op::ListGroups { states: Vec::new(), types: Vec::new() }));
    ops.push(Op::DescribeGroups(op::DescribeGroups { groups: vec![group()] }));
    ops.push(Op::DeleteGroups(op::DeleteGroups { groups: vec![group()] }));
    ops.push(Op::FindCoordinator(op::FindCoordinator { groups: vec![group()] }));
    for users in [None, Some(vec!["carol".to_owned()])] {
        ops.push(Op::DescribeUserScramCredentials(op::DescribeUserScramCredentials { users }));
    }
    let taken = op::ScramDeletion { user: "carol".to_owned(), mechanism: Ok(ScramMechanism::Sha256) };
    let op = op::AlterUserScramCredentials { deletions: vec![taken], upsertions: Vec::new() };
    ops.push(Op::AlterUserScramCredentials(op));
    let everybody = Acl {
        resource: Resource {
            kind: ResourceType::Topic,
            name: Resource::ANY.to_owned(),
            pattern: PatternType::Literal,
        },
        principal: "User:*".to_owned(),
        host: "*".to_owned(),
        operation: Operation::All,
        permission: Permission::Deny,
    };
    ops.push(Op::CreateAcls(op::CreateAcls { acls: vec![Ok(everybody)] }));
    let all = op::AclFilter {
        kind: None,
        name: None,
        pattern: 1,
        principal: None,
        host: None,
        operation: None,
        permission: None,
    };
    ops.push(Op::DescribeAcls(op::DescribeAcls { filter: Ok(all.clone()) }));
    ops.push(Op::DeleteAcls(op::DeleteAcls { filters: vec![Ok(all)] }));
    ops
}

/// What the stranger hears, with its own ids taken out.
async fn heard(stranger: &World, ops: &[Op]) -> Vec<String> {
    let org = stranger.carrier.org();
    let offsets = stranger.broker.topics().by_name(org, TOPIC_NAME_OF_OFFSETS).unwrap().id;
    let cluster = stranger.broker.admin().look(|catalog| catalog.cluster_id().unwrap().to_owned());
    let mut heard = Vec::new();
    for op in ops {
        let reply = soon(stranger.call(op.clone()).reply()).await.unwrap();
        let reply = if let Reply::Fetch(mut fetch) = reply {
            // A new session has a random number.
            fetch.session_id = fetch.session_id.min(1);
            Reply::Fetch(fetch)
        } else {
            reply
        };
        let text = format!("{reply:?}").replace(&format!("{offsets:?}"), "OFFSETS");
        heard.push(text.replace(&org.to_string(), "ORG").replace(&cluster, "CLUSTER"));
    }
    heard
}

async fn raid_finds_nothing(configs: &[(&str, &str)], principal: &str, victim_is_default: bool) {
    let configs: Vec<_> = AT_ONCE.iter().chain(configs).copied().collect();
    let mut heard_with_and_without = Vec::new();
    let mut loot = None;
    for is_furnished in [true, false] {
        let world = World::with(&configs).await;
        world.groups_are_loaded().await;
        let acme = world.org("acme").await;
        let default = world.carrier.org();
        let (victim, stranger) = if victim_is_default { (default, acme) } else { (acme, default) };
        let owner = world.seen_by(victim, "User:owner");
        let stranger = world.seen_by(stranger, principal);
        if is_furnished {
            let name = if victim_is_default { "default" } else { "acme" };
            loot = Some(furnish(&owner, name).await);
        }
        let taken = loot.as_ref().unwrap();
        heard_with_and_without.push(heard(&stranger, &raid(taken)).await);
        if is_furnished {
            assert_eq!(owner.values("orders", 0, 0).await, ["v0", "v1", "v2"]);
            assert_eq!(owner.topic_of("orders").partitions.len(), 2);
            assert_eq!(owner.heartbeat("billing", &taken.member, taken.generation), None);
            assert_eq!(owner.offset("billing").await, Ok(2));
            let goes_on = op::Fetch {
                session_id: taken.session,
                session_epoch: 1,
                topics: Vec::new(),
                ..fetch("orders", &[])
            };
            assert_eq!(owner.fetch(goes_on).await.error, None, "its session goes on");
            let known = world.broker.admin().look(|catalog| catalog.user(victim, "carol").is_some());
            assert!(known, "its user is there");
            let sent = owner.produce("orders", 0, from_producer(1, taken.producer, 0, 3)).await;
            assert_eq!(sent.unwrap().base_offset, 3, "its producer goes on");
        }
    }
    let [with, without] = &heard_with_and_without[..] else { panic!() };
    for (with, without) in with.iter().zip(without) {
        assert_eq!(with, without);
    }
}

#[tokio::test]
async fn a_stranger_hears_what_it_would_hear_if_nobody_else_were_here() {
    for victim_is_default in [true, false] {
        raid_finds_nothing(&[], rail::ANONYMOUS, victim_is_default).await;
        raid_finds_nothing(&[], "User:owner", victim_is_default).await;
    }
}

#[tokio::test]
async fn a_super_user_is_one_in_its_own_organisation_only() {
    let authorizer = ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
    for (victim_is_default, super_users) in
        [(true, "User:owner;User:acme/mallory"), (false, "User:acme/owner;User:mallory")]
    {
        let configs = [authorizer, ("super.users", super_users)];
        raid_finds_nothing(&configs, "User:mallory", victim_is_default).await;
        raid_finds_nothing(&configs, "User:owner", victim_is_default).await;
    }
}
