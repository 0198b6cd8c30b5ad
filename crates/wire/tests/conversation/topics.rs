//! What is said about topics and their settings.

use coordination::access::Operations;
use coordination::error_code::ErrorCode;
use coordination::ids::TopicId;
use coordination::op::{ConfigChanges, ConfigOperation, ConfigResource, NoTopicRef, Op, TopicRef};
use coordination::reply::{self, Reply};
use wire::Uuid;
use wire::api::*;

use super::{exchange, local, metadata_request, op};

fn metadata_topic(name: Option<&str>, id: u128) -> metadata::MetadataRequestTopic {
    metadata::MetadataRequestTopic { name: name.map(str::to_owned), topic_id: Uuid(id) }
}

#[test]
fn all_topics_are_asked_for_with_an_empty_list_in_version_0_and_with_null_later() {
    let topics = |version, topics| match op(&metadata_request(topics), version) {
        Op::Metadata(metadata) => metadata.topics,
        op => panic!("{op:?}"),
    };
    assert_eq!(topics(0, Some(vec![])), None);
    assert_eq!(topics(1, Some(vec![])), Some(vec![]));
    assert_eq!(topics(1, None), None);
    assert_eq!(
        topics(1, Some(vec![metadata_topic(Some("a"), 0), metadata_topic(Some("a"), 0)])),
        Some(vec![TopicRef::Name("a".to_owned())]),
        "once"
    );
    assert_eq!(
        topics(12, Some(vec![metadata_topic(Some("a"), 0), metadata_topic(None, 5)])),
        Some(vec![TopicRef::Id(TopicId::from_u128(5))]),
        "ids win"
    );
}

#[test]
fn metadata_by_id_is_refused_before_version_12() {
    let request = metadata_request(Some(vec![metadata_topic(None, 5)]));
    for version in [10, 11] {
        let refused = local(&request, version);
        assert_eq!(refused.topics[0].error_code, ErrorCode::InvalidRequest.number());
        assert_eq!(refused.topics[0].name.as_deref(), Some(""));
        assert_eq!((refused.brokers.len(), refused.controller_id), (0, -1));
    }
    let nothing = metadata_request(Some(vec![metadata_topic(None, 0)]));
    assert_eq!(local(&nothing, 12).topics[0].error_code, -1);
}

#[test]
fn metadata_names_this_node_as_leader_and_tells_operations_only_when_asked() {
    let topic = reply::TopicMetadata {
        error: None,
        name: Some("a".to_owned()),
        id: TopicId::from_u128(9),
        internal: false,
        partitions: vec![reply::PartitionMetadata { index: 0, leader_epoch: 3 }],
        operations: Operations::OF_TOPIC,
    };
    let hidden = reply::TopicMetadata {
        error: Some(ErrorCode::TopicAuthorizationFailed),
        operations: Operations::NONE,
        ..topic.clone()
    };
    let reply = Reply::Metadata(reply::Metadata {
        cluster_id: "id".to_owned(),
        topics: vec![topic, hidden],
        operations: Operations::OF_CLUSTER,
    });
    let mut request = metadata_request(None);
    let plain = exchange(&request, 9, reply.clone());
    assert_eq!(plain.brokers[0].host, "kafka.example");
    assert_eq!((plain.brokers[0].port, plain.controller_id), (9092, 7));
    assert_eq!(plain.topics[0].topic_id, Uuid::ZERO, "ids come with version 10");
    assert_eq!(plain.topics[0].topic_authorized_operations, i32::MIN);
    let partition = &plain.topics[0].partitions[0];
    assert_eq!((partition.leader_id, partition.leader_epoch), (7, 3));
    assert_eq!((&partition.replica_nodes[..], &partition.isr_nodes[..]), (&[7][..], &[7][..]));

    request.include_topic_authorized_operations = true;
    request.include_cluster_authorized_operations = true;
    let full = exchange(&request, 10, reply);
    assert_eq!(full.topics[0].topic_id, Uuid(9));
    // The numbers of a live Kafka 4.3 without an authorizer.
    assert_eq!(full.topics[0].topic_authorized_operations, 3576);
    assert_eq!(full.cluster_authorized_operations, 8096);
    assert_eq!(full.topics[1].topic_authorized_operations, i32::MIN, "of one that may not be seen");
}

#[test]
fn metadata_of_a_topic_without_name_and_id_fails_as_a_whole() {
    let request = metadata_request(Some(vec![metadata_topic(None, 0)]));
    let refused = local(&request, 13);
    assert_eq!((refused.error_code, refused.topics[0].error_code), (-1, -1));
}

#[test]
fn a_topic_to_delete_has_a_name_or_an_id() {
    let topic = |name: Option<&str>, id| delete_topics::DeleteTopicState {
        name: name.map(str::to_owned),
        topic_id: Uuid(id),
    };
    let request = delete_topics::DeleteTopicsRequest {
        topics: vec![topic(Some("a"), 0), topic(None, 5), topic(Some("a"), 5), topic(None, 0)],
        topic_names: vec!["old".to_owned()],
        ..Default::default()
    };
    let name = |name: &str| Ok(TopicRef::Name(name.to_owned()));
    assert_eq!(
        op(&request, 6),
        Op::DeleteTopics(op::DeleteTopics {
            topics: vec![
                name("a"),
                Ok(TopicRef::Id(TopicId::from_u128(5))),
                Err(NoTopicRef::Both { name: "a".to_owned(), id: TopicId::from_u128(5) }),
                Err(NoTopicRef::Neither),
            ]
        })
    );
    assert_eq!(op(&request, 5), Op::DeleteTopics(op::DeleteTopics { topics: vec![name("old")] }));
}

#[test]
fn a_broker_that_deletes_no_topics_says_so_in_words_its_client_knows() {
    let code = |version| {
        let topic = reply::DeletedTopic {
            name: Some("a".to_owned()),
            id: TopicId::ZERO,
            error: Some(ErrorCode::TopicDeletionDisabled.into()),
        };
        let reply = Reply::DeleteTopics(reply::DeleteTopics { topics: vec![topic] });
        exchange(&delete_topics::DeleteTopicsRequest::default(), version, reply).responses[0].error_code
    };
    assert_eq!(code(2), ErrorCode::InvalidRequest.number());
    assert_eq!(code(3), ErrorCode::TopicDeletionDisabled.number());
}

#[test]
fn an_operation_on_a_setting_that_does_not_exist_keeps_its_number() {
    let config = |config_operation| incremental_alter_configs::AlterableConfig {
        name: "a".to_owned(),
        config_operation,
        value: None,
    };
    let request = incremental_alter_configs::IncrementalAlterConfigsRequest {
        resources: vec![incremental_alter_configs::AlterConfigsResource {
            configs: vec![config(1), config(9)],
            ..Default::default()
        }],
        ..Default::default()
    };
    let Op::AlterConfigs(op) = op(&request, 1) else { panic!("an op") };
    let changes = vec![("a".to_owned(), Ok(ConfigOperation::Delete), None), ("a".to_owned(), Err(9), None)];
    assert_eq!(op.resources[0].1, ConfigChanges::Incremental(changes));
}

#[test]
fn settings_that_are_shown_come_with_an_empty_message() {
    let resource = ConfigResource { resource_type: 2, name: "a".to_owned() };
    for version in 1..=4 {
        let reply = reply::DescribeConfigs { resources: vec![(resource.clone(), Ok(Vec::new()))] };
        let request = describe_configs::DescribeConfigsRequest::default();
        let shown = exchange(&request, version, Reply::DescribeConfigs(reply));
        assert_eq!(shown.results[0].error_message.as_deref(), Some(""));
    }
}

#[test]
fn a_page_of_topics_that_is_refused_as_a_whole_tells_no_operations() {
    let operations = |error| {
        let topic = reply::TopicMetadata {
            name: Some("a".to_owned()),
            id: TopicId::ZERO,
            error,
            internal: false,
            partitions: Vec::new(),
            operations: Operations::OF_TOPIC,
        };
        let reply = reply::DescribeTopicPartitions { topics: vec![topic], next_cursor: None };
        let request = describe_topic_partitions::DescribeTopicPartitionsRequest::default();
        let shown = exchange(&request, 0, Reply::DescribeTopicPartitions(reply));
        shown.topics[0].topic_authorized_operations
    };
    assert_eq!(operations(Some(ErrorCode::InvalidRequest)), i32::MIN);
    assert_eq!(operations(Some(ErrorCode::UnknownServerError)), i32::MIN);
    assert_eq!(operations(Some(ErrorCode::TopicAuthorizationFailed)), i32::MIN);
    assert_eq!(operations(Some(ErrorCode::UnknownTopicOrPartition)), 3576);
    assert_eq!(operations(None), 3576);
}
