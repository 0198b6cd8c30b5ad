//! Every API that is offered, asked about given names.

use std::io;

use bytes::Bytes;
use wire::api::*;
use wire::{AnyRequest, ApiKey, RequestHeader, Uuid, decode_any_response, encode_any_request};

use crate::support::{Connection, fetch_request, one};

/// What is asked about.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) topic: String,
    pub(crate) id: Uuid,
    pub(crate) group: String,
    pub(crate) user: String,
}

/// What was answered, as text in which the names that were asked about stand as placeholders.
pub(crate) struct Answered {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) text: String,
}

impl Answered {
    /// All error codes in the answer, but for "no error".
    pub(crate) fn errors(&self) -> Vec<i16> {
        let codes = self.text.split("error_code: ").skip(1).filter_map(|rest| {
            let number: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
            number.parse().ok()
        });
        codes.filter(|code| *code != 0).collect()
    }
}

/// Asks about the names by every API and version in which that looks different.
pub(crate) fn ask_everything(connection: &mut Connection, names: &Names) -> Vec<Answered> {
    let mut answers = Vec::new();
    for &api in ApiKey::ANSWERED {
        for (version, request) in requests(api, names) {
            let text = ask(connection, api, version, &request)
                .unwrap_or_else(|error| panic!("{} {version}: {error}", api.name()));
            answers.push(Answered { api, version, text: without(&text, names) });
        }
    }
    answers
}

/// Asks and gives the answer as text.
pub(crate) fn ask(
    connection: &mut Connection,
    api: ApiKey,
    version: i16,
    request: &AnyRequest,
) -> io::Result<String> {
    let header = RequestHeader { api, version, correlation_id: 7, client_id: Some("a test".to_owned()) };
    connection.send_frame(&encode_any_request(&header, request).into_bytes())?;
    let frame = connection.receive_frame()?;
    let (_, response) = decode_any_response(frame, api, version).map_err(io::Error::other)?;
    Ok(format!("{response:?}"))
}

fn without(text: &str, names: &Names) -> String {
    text.replace(&names.topic, "TOPIC")
        .replace(&names.group, "GROUP")
        .replace(&names.user, "USER")
        .replace(&format!("{:?}", names.id), "ID")
}

/// The requests by which an API can be asked about the names. An API that is added has to be added here.
pub(crate) fn requests(api: ApiKey, names: &Names) -> Vec<(i16, AnyRequest)> {
    let Names { topic, id, group, user } = names.clone();
    let member = || "nobody".to_owned();
    match api {
        // They are about the connection and nothing else.
        ApiKey::ApiVersions | ApiKey::SaslHandshake | ApiKey::SaslAuthenticate => Vec::new(),
        ApiKey::Produce => {
            let partition = || produce::PartitionProduceData { index: 0, records: Some(one("intruder")) };
            let request = |name: String, topic_id| {
                AnyRequest::Produce(produce::ProduceRequest {
                    acks: -1,
                    timeout_ms: 10_000,
                    topic_data: vec![produce::TopicProduceData {
                        name,
                        topic_id,
                        partition_data: vec![partition()],
                    }],
                    ..Default::default()
                })
            };
            vec![(12, request(topic, Uuid::ZERO)), (13, request(String::new(), id))]
        }
        ApiKey::Fetch => {
            let by_name = fetch_request(&topic, 0, 0);
            let mut by_id = by_name.clone();
            (by_id.topics[0].topic, by_id.topics[0].topic_id) = (String::new(), id);
            vec![(12, AnyRequest::Fetch(by_name)), (13, AnyRequest::Fetch(by_id))]
        }
        ApiKey::ListOffsets => {
            let partition = list_offsets::ListOffsetsPartition { timestamp: -1, ..Default::default() };
            let topics = vec![list_offsets::ListOffsetsTopic { name: topic, partitions: vec![partition] }];
            vec![(
                9,
                AnyRequest::ListOffsets(list_offsets::ListOffsetsRequest {
                    replica_id: -1,
                    topics,
                    ..Default::default()
                }),
            )]
        }
        ApiKey::Metadata => {
            let request = |topics| {
                AnyRequest::Metadata(metadata::MetadataRequest {
                    topics,
                    allow_auto_topic_creation: false,
                    include_topic_authorized_operations: true,
                    ..Default::default()
                })
            };
            let by_name = metadata::MetadataRequestTopic { topic_id: Uuid::ZERO, name: Some(topic) };
            let by_id = metadata::MetadataRequestTopic { topic_id: id, name: None };
            vec![(12, request(Some(vec![by_name]))), (12, request(Some(vec![by_id]))), (12, request(None))]
        }
        ApiKey::OffsetCommit => {
            let request = |name: String, topic_id| {
                let partition =
                    offset_commit::OffsetCommitRequestPartition { committed_offset: 7, ..Default::default() };
                AnyRequest::OffsetCommit(offset_commit::OffsetCommitRequest {
                    group_id: group.clone(),
                    generation_id_or_member_epoch: 1,
                    member_id: member(),
                    topics: vec![offset_commit::OffsetCommitRequestTopic {
                        name,
                        topic_id,
                        partitions: vec![partition],
                    }],
                    ..Default::default()
                })
            };
            vec![(9, request(topic, Uuid::ZERO)), (10, request(String::new(), id))]
        }
        ApiKey::OffsetFetch => {
            let request = |topics| {
                let group_id = group.clone();
                let asked = offset_fetch::OffsetFetchRequestGroup { group_id, topics, ..Default::default() };
                AnyRequest::OffsetFetch(offset_fetch::OffsetFetchRequest {
                    groups: vec![asked],
                    ..Default::default()
                })
            };
            let topics = |name: String, topic_id| {
                Some(vec![offset_fetch::OffsetFetchRequestTopics {
                    name,
                    topic_id,
                    partition_indexes: vec![0],
                }])
            };
            vec![
                (9, request(topics(topic, Uuid::ZERO))),
                (9, request(None)),
                (10, request(topics(String::new(), id))),
            ]
        }
        ApiKey::FindCoordinator => vec![(
            4,
            AnyRequest::FindCoordinator(find_coordinator::FindCoordinatorRequest {
                coordinator_keys: vec![group],
                ..Default::default()
            }),
        )],
        ApiKey::JoinGroup => {
            let protocol =
                join_group::JoinGroupRequestProtocol { name: "range".to_owned(), metadata: Bytes::new() };
            let request = join_group::JoinGroupRequest {
                group_id: group,
                session_timeout_ms: 10_000,
                rebalance_timeout_ms: 10_000,
                member_id: member(),
                protocol_type: "consumer".to_owned(),
                protocols: vec![protocol],
                ..Default::default()
            };
            vec![(7, AnyRequest::JoinGroup(request))]
        }
        ApiKey::Heartbeat => {
            let request = heartbeat::HeartbeatRequest {
                group_id: group,
                generation_id: 1,
                member_id: member(),
                ..Default::default()
            };
            vec![(4, AnyRequest::Heartbeat(request))]
        }
        ApiKey::LeaveGroup => {
            let leaving = leave_group::MemberIdentity { member_id: member(), ..Default::default() };
            let request = leave_group::LeaveGroupRequest {
                group_id: group,
                members: vec![leaving],
                ..Default::default()
            };
            vec![(5, AnyRequest::LeaveGroup(request))]
        }
        ApiKey::SyncGroup => {
            let request = sync_group::SyncGroupRequest {
                group_id: group,
                generation_id: 1,
                member_id: member(),
                protocol_type: Some("consumer".to_owned()),
                protocol_name: Some("range".to_owned()),
                ..Default::default()
            };
            vec![(5, AnyRequest::SyncGroup(request))]
        }
        ApiKey::DescribeGroups => {
            let request = describe_groups::DescribeGroupsRequest {
                groups: vec![group],
                include_authorized_operations: true,
            };
            vec![(6, AnyRequest::DescribeGroups(request))]
        }
        ApiKey::ListGroups => vec![(5, AnyRequest::ListGroups(Default::default()))],
        ApiKey::CreateTopics => {
            let topic = create_topics::CreatableTopic {
                name: topic,
                num_partitions: 1,
                replication_factor: 1,
                ..Default::default()
            };
            let request = create_topics::CreateTopicsRequest {
                topics: vec![topic],
                validate_only: true,
                ..Default::default()
            };
            // The next version shows an id, which is another one each time.
            vec![(6, AnyRequest::CreateTopics(request))]
        }
        ApiKey::DeleteTopics => {
            let by_name = delete_topics::DeleteTopicState { name: Some(topic), topic_id: Uuid::ZERO };
            let by_id = delete_topics::DeleteTopicState { name: None, topic_id: id };
            let request = |topics| {
                AnyRequest::DeleteTopics(delete_topics::DeleteTopicsRequest {
                    topics,
                    timeout_ms: 10_000,
                    ..Default::default()
                })
            };
            vec![(6, request(vec![by_name])), (6, request(vec![by_id]))]
        }
        ApiKey::DeleteRecords => {
            let partition = delete_records::DeleteRecordsPartition { partition_index: 0, offset: -1 };
            let topics =
                vec![delete_records::DeleteRecordsTopic { name: topic, partitions: vec![partition] }];
            vec![(
                2,
                AnyRequest::DeleteRecords(delete_records::DeleteRecordsRequest {
                    topics,
                    timeout_ms: 10_000,
                }),
            )]
        }
        ApiKey::InitProducerId => {
            // An id that others have is not taken over: its owner's numbers go on.
            let request = init_producer_id::InitProducerIdRequest {
                transactional_id: Some(topic),
                transaction_timeout_ms: 10_000,
                ..Default::default()
            };
            vec![(4, AnyRequest::InitProducerId(request))]
        }
        ApiKey::OffsetForLeaderEpoch => {
            let partitions = vec![offset_for_leader_epoch::OffsetForLeaderPartition::default()];
            let topics = vec![offset_for_leader_epoch::OffsetForLeaderTopic { topic, partitions }];
            let request =
                offset_for_leader_epoch::OffsetForLeaderEpochRequest { topics, ..Default::default() };
            vec![(4, AnyRequest::OffsetForLeaderEpoch(request))]
        }
        ApiKey::DescribeAcls => {
            let request = |name| {
                AnyRequest::DescribeAcls(describe_acls::DescribeAclsRequest {
                    resource_type_filter: 1,
                    resource_name_filter: name,
                    pattern_type_filter: 1,
                    operation: 1,
                    permission_type: 1,
                    ..Default::default()
                })
            };
            vec![(3, request(Some(topic))), (3, request(None))]
        }
        ApiKey::CreateAcls => {
            let creation = create_acls::AclCreation {
                resource_type: 2,
                resource_name: topic,
                resource_pattern_type: 3,
                principal: "User:intruder".to_owned(),
                host: "*".to_owned(),
                operation: 3,
                permission_type: 3,
            };
            vec![(3, AnyRequest::CreateAcls(create_acls::CreateAclsRequest { creations: vec![creation] }))]
        }
        ApiKey::DeleteAcls => {
            let filter = delete_acls::DeleteAclsFilter {
                resource_type_filter: 1,
                resource_name_filter: Some(topic),
                pattern_type_filter: 1,
                principal_filter: Some("User:intruder".to_owned()),
                operation: 1,
                permission_type: 1,
                ..Default::default()
            };
            vec![(3, AnyRequest::DeleteAcls(delete_acls::DeleteAclsRequest { filters: vec![filter] }))]
        }
        ApiKey::DescribeConfigs => {
            let resource = |resource_type, resource_name| describe_configs::DescribeConfigsResource {
                resource_type,
                resource_name,
                configuration_keys: None,
            };
            let resources = vec![resource(2, topic), resource(32, group)];
            vec![(
                4,
                AnyRequest::DescribeConfigs(describe_configs::DescribeConfigsRequest {
                    resources,
                    ..Default::default()
                }),
            )]
        }
        ApiKey::AlterConfigs => {
            let resource = alter_configs::AlterConfigsResource {
                resource_type: 2,
                resource_name: topic,
                configs: Vec::new(),
            };
            let request =
                alter_configs::AlterConfigsRequest { resources: vec![resource], validate_only: false };
            vec![(2, AnyRequest::AlterConfigs(request))]
        }
        ApiKey::DescribeLogDirs => {
            let topics = Some(vec![describe_log_dirs::DescribableLogDirTopic { topic, partitions: vec![0] }]);
            let request =
                |topics| AnyRequest::DescribeLogDirs(describe_log_dirs::DescribeLogDirsRequest { topics });
            // Later versions tell how full the disk is, which is not the same for long.
            vec![(3, request(topics)), (3, request(None))]
        }
        ApiKey::CreatePartitions => {
            let topics =
                vec![create_partitions::CreatePartitionsTopic { name: topic, count: 9, assignments: None }];
            let request = create_partitions::CreatePartitionsRequest {
                topics,
                timeout_ms: 10_000,
                validate_only: false,
            };
            vec![(3, AnyRequest::CreatePartitions(request))]
        }
        ApiKey::DeleteGroups => {
            vec![(
                2,
                AnyRequest::DeleteGroups(delete_groups::DeleteGroupsRequest { groups_names: vec![group] }),
            )]
        }
        ApiKey::IncrementalAlterConfigs => {
            let config = incremental_alter_configs::AlterableConfig {
                name: "retention.ms".to_owned(),
                config_operation: 0,
                value: Some("1".to_owned()),
            };
            let resource = incremental_alter_configs::AlterConfigsResource {
                resource_type: 2,
                resource_name: topic,
                configs: vec![config],
            };
            let request = incremental_alter_configs::IncrementalAlterConfigsRequest {
                resources: vec![resource],
                validate_only: false,
            };
            vec![(1, AnyRequest::IncrementalAlterConfigs(request))]
        }
        ApiKey::ListPartitionReassignments => {
            let topics = Some(vec![list_partition_reassignments::ListPartitionReassignmentsTopics {
                name: topic,
                partition_indexes: vec![0],
            }]);
            let request = list_partition_reassignments::ListPartitionReassignmentsRequest {
                topics,
                ..Default::default()
            };
            vec![(0, AnyRequest::ListPartitionReassignments(request))]
        }
        ApiKey::OffsetDelete => {
            let partitions = vec![offset_delete::OffsetDeleteRequestPartition { partition_index: 0 }];
            let topics = vec![offset_delete::OffsetDeleteRequestTopic { name: topic, partitions }];
            vec![(
                0,
                AnyRequest::OffsetDelete(offset_delete::OffsetDeleteRequest { group_id: group, topics }),
            )]
        }
        ApiKey::DescribeClientQuotas => {
            let named = describe_client_quotas::ComponentData {
                entity_type: "user".to_owned(),
                match_type: 0,
                match_name: Some(user),
            };
            let components = vec![named];
            let request = describe_client_quotas::DescribeClientQuotasRequest { components, strict: false };
            vec![
                (0, AnyRequest::DescribeClientQuotas(request.clone())),
                (1, AnyRequest::DescribeClientQuotas(request)),
            ]
        }
        ApiKey::DescribeUserScramCredentials => {
            let users = Some(vec![describe_user_scram_credentials::UserName { name: user }]);
            let request = |users| {
                AnyRequest::DescribeUserScramCredentials(
                    describe_user_scram_credentials::DescribeUserScramCredentialsRequest { users },
                )
            };
            vec![(0, request(users)), (0, request(None))]
        }
        ApiKey::AlterUserScramCredentials => {
            let deletion = alter_user_scram_credentials::ScramCredentialDeletion { name: user, mechanism: 1 };
            let request = alter_user_scram_credentials::AlterUserScramCredentialsRequest {
                deletions: vec![deletion],
                upsertions: Vec::new(),
            };
            vec![(0, AnyRequest::AlterUserScramCredentials(request))]
        }
        ApiKey::DescribeCluster => {
            let request = describe_cluster::DescribeClusterRequest {
                include_cluster_authorized_operations: true,
                ..Default::default()
            };
            vec![(1, AnyRequest::DescribeCluster(request))]
        }
        ApiKey::DescribeTopicPartitions => {
            let topics = vec![describe_topic_partitions::TopicRequest { name: topic }];
            let request = |topics| {
                AnyRequest::DescribeTopicPartitions(
                    describe_topic_partitions::DescribeTopicPartitionsRequest {
                        topics,
                        ..Default::default()
                    },
                )
            };
            vec![(0, request(topics)), (0, request(Vec::new()))]
        }
        // Nobody answers it.
        ApiKey::ConsumerGroupDescribe => Vec::new(),
    }
}
