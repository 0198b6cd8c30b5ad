//! An op of each kind, about the topic `t` and the group `g`.

use std::time::Duration;

use crate::access::{Acl, Operation, PatternType, Permission, Resource, ResourceType};
use crate::ids::TopicId;
use crate::op::{self, AclFilter, ConfigChanges, ConfigResource, Op, TopicRef};
use crate::record::ScramMechanism;

pub(super) fn named(name: &str) -> TopicRef {
    TopicRef::Name(name.to_owned())
}

pub(super) fn id(number: u128) -> TopicRef {
    TopicRef::Id(TopicId::from_u128(number))
}

pub(super) fn metadata(topics: Option<Vec<TopicRef>>) -> Op {
    Op::Metadata(op::Metadata { topics, allow_auto_topic_creation: true })
}

pub(super) fn produce(topics: Vec<TopicRef>) -> Op {
    let partitions = || vec![op::ProducePartition { index: 0, records: None }];
    let topics =
        topics.into_iter().map(|topic| op::ProduceTopic { topic, partitions: partitions() }).collect();
    Op::Produce(op::Produce { transactional_id: None, acks: 1, zstd: true, topics })
}

pub(super) fn fetch() -> Op {
    Op::Fetch(op::Fetch {
        max_wait: Duration::ZERO,
        min_bytes: 0,
        max_bytes: 0,
        read_committed: false,
        session_id: 0,
        session_epoch: 0,
        by_id: false,
        topics: vec![op::FetchTopic { topic: named("t"), partitions: Vec::new() }],
        forgotten: Vec::new(),
    })
}

pub(super) fn list_offsets(names: &[&str]) -> Op {
    let topic = |name: &&str| op::ListOffsetsTopic {
        name: (*name).to_owned(),
        partitions: vec![op::ListOffsetsPartition {
            index: 0,
            current_leader_epoch: None,
            target: Ok(op::OffsetTarget::Latest),
        }],
    };
    Op::ListOffsets(op::ListOffsets { read_committed: false, topics: names.iter().map(topic).collect() })
}

pub(super) fn offset_for_leader_epoch() -> Op {
    let partition = op::EpochPartition { index: 0, current_leader_epoch: None, leader_epoch: 0 };
    let topic = op::EpochTopic { name: "t".to_owned(), partitions: vec![partition] };
    Op::OffsetForLeaderEpoch(op::OffsetForLeaderEpoch { topics: vec![topic] })
}

pub(super) fn create_topics(names: &[&str]) -> Op {
    let topic = |name: &&str| op::NewTopic {
        name: (*name).to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        assignments: Vec::new(),
        configs: Vec::new(),
    };
    Op::CreateTopics(op::CreateTopics { topics: names.iter().map(topic).collect(), validate_only: false })
}

pub(super) fn delete_topics(topics: Vec<TopicRef>) -> Op {
    Op::DeleteTopics(op::DeleteTopics { topics: topics.into_iter().map(Ok).collect() })
}

pub(super) fn create_partitions(names: &[&str]) -> Op {
    let topic = |name: &&str| op::MorePartitions { name: (*name).to_owned(), count: 2, assignments: None };
    Op::CreatePartitions(op::CreatePartitions {
        topics: names.iter().map(topic).collect(),
        validate_only: false,
    })
}

pub(super) fn delete_records() -> Op {
    let topic = op::DeleteRecordsTopic { name: "t".to_owned(), partitions: vec![(0, -1)] };
    Op::DeleteRecords(op::DeleteRecords { topics: vec![topic] })
}

pub(super) fn init_producer_id(transactional_id: Option<&str>) -> Op {
    let transactional_id = transactional_id.map(str::to_owned);
    Op::InitProducerId(op::InitProducerId { transactional_id, producer_id: -1, producer_epoch: -1 })
}

pub(super) fn resource(resource_type: i8, name: &str) -> ConfigResource {
    ConfigResource { resource_type, name: name.to_owned() }
}

pub(super) fn describe_configs(resources: Vec<ConfigResource>) -> Op {
    Op::DescribeConfigs(op::DescribeConfigs {
        resources: resources.into_iter().map(|resource| (resource, None)).collect(),
        include_synonyms: false,
        include_documentation: false,
    })
}

pub(super) fn alter_configs(resources: Vec<ConfigResource>) -> Op {
    let changes = || ConfigChanges::Replace(Vec::new());
    Op::AlterConfigs(op::AlterConfigs {
        resources: resources.into_iter().map(|resource| (resource, changes())).collect(),
        validate_only: false,
    })
}

pub(super) fn describe_topic_partitions(names: &[&str], cursor: Option<(&str, i32)>) -> Op {
    Op::DescribeTopicPartitions(op::DescribeTopicPartitions {
        topics: names.iter().map(|name| (*name).to_owned()).collect(),
        partition_limit: 10,
        cursor: cursor.map(|(name, partition)| (name.to_owned(), partition)),
    })
}

pub(super) fn join_group() -> Op {
    Op::JoinGroup(op::JoinGroup {
        group: "g".to_owned(),
        member_id: "m".to_owned(),
        instance_id: None,
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "consumer".to_owned(),
        protocols: Vec::new(),
        reason: None,
        takes_member_id_first: true,
        can_skip_assignment: true,
    })
}

pub(super) fn sync_group(protocol: Option<&str>) -> Op {
    Op::SyncGroup(op::SyncGroup {
        group: "g".to_owned(),
        generation: 1,
        member_id: "m".to_owned(),
        instance_id: None,
        protocol_type: Some("consumer".to_owned()),
        protocol: protocol.map(str::to_owned),
        must_name_protocol: true,
        assignments: Vec::new(),
    })
}

pub(super) fn heartbeat() -> Op {
    let (group, member_id) = ("g".to_owned(), "m".to_owned());
    Op::Heartbeat(op::Heartbeat { group, generation: 1, member_id, instance_id: None }.into())
}

pub(super) fn leave_group() -> Op {
    let member = op::LeavingMember { member_id: "m".to_owned(), instance_id: None, reason: None };
    Op::LeaveGroup(op::LeaveGroup { group: "g".to_owned(), members: vec![member] })
}

pub(super) fn offset_commit(topics: Vec<TopicRef>) -> Op {
    let partition = op::OffsetCommitPartition { index: 0, offset: 1, leader_epoch: -1, metadata: None };
    let topic = |topic| op::OffsetCommitTopic { topic, partitions: vec![partition.clone()] };
    Op::OffsetCommit(op::OffsetCommit {
        group: "g".to_owned(),
        generation: 1,
        member_id: "m".to_owned(),
        instance_id: None,
        retention_ms: None,
        knows_missing_groups: true,
        topics: topics.into_iter().map(topic).collect(),
    })
}

pub(super) fn offset_fetch(groups: Vec<(&str, Option<Vec<TopicRef>>)>) -> Op {
    let topic = |topic| op::OffsetFetchTopic { topic, partitions: vec![0] };
    let group = |(group, topics): (&str, Option<Vec<TopicRef>>)| op::OffsetFetchGroup {
        group: group.to_owned(),
        member_id: None,
        member_epoch: -1,
        topics: topics.map(|topics| topics.into_iter().map(topic).collect()),
    };
    Op::OffsetFetch(op::OffsetFetch {
        groups: groups.into_iter().map(group).collect(),
        require_stable: false,
        by_id: false,
    })
}

pub(super) fn offset_delete(names: &[&str]) -> Op {
    let topics = names.iter().map(|name| ((*name).to_owned(), vec![0])).collect();
    Op::OffsetDelete(op::OffsetDelete { group: "g".to_owned(), topics })
}

pub(super) fn list_groups() -> Op {
    Op::ListGroups(op::ListGroups { states: Vec::new(), types: Vec::new() })
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub(super) fn describe_groups(groups: &[&str]) -> Op {
    Op::DescribeGroups(op::DescribeGroups { groups: owned(groups) })
}

pub(super) fn delete_groups(groups: &[&str]) -> Op {
    Op::DeleteGroups(op::DeleteGroups { groups: owned(groups) })
}

pub(super) fn find_coordinator(groups: &[&str]) -> Op {
    Op::FindCoordinator(op::FindCoordinator { groups: owned(groups) })
}

pub(super) fn create_acls() -> Op {
    let acl = Acl {
        resource: Resource { kind: ResourceType::Topic, name: "t".to_owned(), pattern: PatternType::Literal },
        principal: "User:eve".to_owned(),
        host: "*".to_owned(),
        operation: Operation::All,
        permission: Permission::Deny,
    };
    Op::CreateAcls(op::CreateAcls { acls: vec![Ok(acl)] })
}

fn any_acl() -> AclFilter {
    let (name, principal, host) = (None, None, None);
    AclFilter { kind: None, name, pattern: 1, principal, host, operation: None, permission: None }
}

pub(super) fn describe_acls() -> Op {
    Op::DescribeAcls(op::DescribeAcls { filter: Ok(any_acl()) })
}

pub(super) fn delete_acls() -> Op {
    Op::DeleteAcls(op::DeleteAcls { filters: vec![Ok(any_acl())] })
}

pub(super) fn describe_client_quotas() -> Op {
    Op::DescribeClientQuotas(op::DescribeClientQuotas { components: Vec::new() })
}

pub(super) fn describe_user_scram_credentials() -> Op {
    Op::DescribeUserScramCredentials(op::DescribeUserScramCredentials { users: None })
}

pub(super) fn alter_user_scram_credentials() -> Op {
    let deletion = op::ScramDeletion { user: "eve".to_owned(), mechanism: Ok(ScramMechanism::Sha256) };
    Op::AlterUserScramCredentials(op::AlterUserScramCredentials {
        deletions: vec![deletion.clone(), deletion],
        upsertions: Vec::new(),
    })
}
