//! A gateway's side of the conversation: frames in, ops out, replies in, frames out.

mod groups;

use bytes::{Bytes, BytesMut};
use coordination::error_code::ErrorCode;
use coordination::ids::TopicId;
use coordination::op::{
    self, ConfigChanges, ConfigOperation, ConfigResource, NoTopicRef, OffsetTarget, Op, TopicRef,
};
use coordination::reply::{self, Refusal, Reply};
use wire::api::*;
use wire::{
    Addresses, AnyRequest, AnyResponse, ApiKey, Body, DecodeError, Local, Request, RequestHeader,
    RequestMessage, Uuid, answer, decode_any_response, decode_request, decode_response, encode_any_request,
    encode_reply, encode_reply_onto, encode_request,
};

fn addresses() -> Addresses {
    Addresses { node_id: 7, host: "kafka.example".to_owned(), port: 9092 }
}

fn decoded<R: RequestMessage>(request: &R, version: i16) -> Request {
    decode_request(encode_request(request, version, 42, Some("test")).into_content())
        .expect("a frame of ours")
}

fn op<R: RequestMessage>(request: &R, version: i16) -> Op {
    match decoded(request, version).body {
        Body::Op(op) => op,
        Body::Local(local) => panic!("{local:?} is no op"),
    }
}

/// Carries a request to `reply` and reads the answer as its client would.
fn exchange<R: RequestMessage>(request: &R, version: i16, reply: Reply) -> R::Response {
    let head = decoded(request, version).head;
    let frame = encode_reply(&head, reply, &addresses()).into_content();
    let (correlation_id, response) = decode_response::<R>(frame, version).expect("an answer of ours");
    assert_eq!(correlation_id, 42);
    response
}

/// Has a request answered without a broker, and reads the answer as its client would.
fn local<R: RequestMessage>(request: &R, version: i16) -> R::Response {
    let Request { head, body: Body::Local(local), .. } = decoded(request, version) else {
        panic!("no op here")
    };
    decode_response::<R>(answer(&head, local, &addresses()).into_content(), version)
        .expect("an answer of ours")
        .1
}

fn metadata_topic(name: Option<&str>, id: u128) -> metadata::MetadataRequestTopic {
    metadata::MetadataRequestTopic { name: name.map(str::to_owned), topic_id: Uuid(id) }
}

fn metadata_request(topics: Option<Vec<metadata::MetadataRequestTopic>>) -> metadata::MetadataRequest {
    metadata::MetadataRequest { topics, ..Default::default() }
}

#[test]
fn every_api_is_understood_and_answered_in_every_version() {
    for &api in ApiKey::ALL {
        for version in api.versions() {
            let request = default_request(api);
            let header = RequestHeader { api, version, correlation_id: -5, client_id: None };
            let frame = encode_any_request(&header, &request).into_content();
            let Request { head, body, .. } = decode_request(frame).unwrap();
            assert_eq!((head.api, head.version, head.correlation_id), (api, version, -5));
            let frame = match body {
                Body::Op(op) => encode_reply(&head, some_reply(&op), &addresses()),
                Body::Local(local) => answer(&head, local, &addresses()),
            };
            let (correlation_id, response) = decode_any_response(frame.into_content(), api, version).unwrap();
            assert_eq!(correlation_id, -5);
            assert_eq!(response.api(), api);
        }
    }
}

fn default_request(api: ApiKey) -> AnyRequest {
    match api {
        ApiKey::Produce => produce::ProduceRequest::default().into(),
        ApiKey::Fetch => fetch::FetchRequest::default().into(),
        ApiKey::ListOffsets => list_offsets::ListOffsetsRequest::default().into(),
        ApiKey::Metadata => metadata::MetadataRequest::default().into(),
        ApiKey::FindCoordinator => find_coordinator::FindCoordinatorRequest::default().into(),
        ApiKey::ApiVersions => api_versions::ApiVersionsRequest::default().into(),
        ApiKey::CreateTopics => create_topics::CreateTopicsRequest::default().into(),
        ApiKey::DeleteTopics => delete_topics::DeleteTopicsRequest::default().into(),
        ApiKey::DeleteRecords => delete_records::DeleteRecordsRequest::default().into(),
        ApiKey::InitProducerId => init_producer_id::InitProducerIdRequest::default().into(),
        ApiKey::OffsetForLeaderEpoch => {
            offset_for_leader_epoch::OffsetForLeaderEpochRequest::default().into()
        }
        ApiKey::DescribeConfigs => describe_configs::DescribeConfigsRequest::default().into(),
        ApiKey::AlterConfigs => alter_configs::AlterConfigsRequest::default().into(),
        ApiKey::DescribeLogDirs => describe_log_dirs::DescribeLogDirsRequest::default().into(),
        ApiKey::CreatePartitions => create_partitions::CreatePartitionsRequest::default().into(),
        ApiKey::IncrementalAlterConfigs => {
            incremental_alter_configs::IncrementalAlterConfigsRequest::default().into()
        }
        ApiKey::ListPartitionReassignments => {
            list_partition_reassignments::ListPartitionReassignmentsRequest::default().into()
        }
        ApiKey::DescribeCluster => describe_cluster::DescribeClusterRequest::default().into(),
        ApiKey::DescribeTopicPartitions => {
            describe_topic_partitions::DescribeTopicPartitionsRequest::default().into()
        }
        ApiKey::OffsetCommit => offset_commit::OffsetCommitRequest::default().into(),
        ApiKey::OffsetFetch => offset_fetch::OffsetFetchRequest::default().into(),
        ApiKey::JoinGroup => join_group::JoinGroupRequest::default().into(),
        ApiKey::Heartbeat => heartbeat::HeartbeatRequest::default().into(),
        ApiKey::LeaveGroup => leave_group::LeaveGroupRequest::default().into(),
        ApiKey::SyncGroup => sync_group::SyncGroupRequest::default().into(),
        ApiKey::DescribeGroups => describe_groups::DescribeGroupsRequest::default().into(),
        ApiKey::ListGroups => list_groups::ListGroupsRequest::default().into(),
        ApiKey::DeleteGroups => delete_groups::DeleteGroupsRequest::default().into(),
        ApiKey::OffsetDelete => offset_delete::OffsetDeleteRequest::default().into(),
    }
}

fn some_reply(op: &Op) -> Reply {
    match op {
        Op::Metadata(_) => Reply::Metadata(reply::Metadata { cluster_id: "c".to_owned(), topics: vec![] }),
        Op::Produce(_) => Reply::Produce(reply::Produce { topics: vec![] }),
        Op::Fetch(_) => Reply::Fetch(reply::Fetch { error: None, session_id: 0, topics: vec![] }),
        Op::ListOffsets(_) => Reply::ListOffsets(reply::ListOffsets { topics: vec![] }),
        Op::OffsetForLeaderEpoch(_) => {
            Reply::OffsetForLeaderEpoch(reply::OffsetForLeaderEpoch { topics: vec![] })
        }
        Op::CreateTopics(_) => Reply::CreateTopics(reply::CreateTopics { topics: vec![] }),
        Op::DeleteTopics(_) => Reply::DeleteTopics(reply::DeleteTopics { topics: vec![] }),
        Op::CreatePartitions(_) => Reply::CreatePartitions(reply::CreatePartitions { topics: vec![] }),
        Op::DeleteRecords(_) => Reply::DeleteRecords(reply::DeleteRecords { topics: vec![] }),
        Op::InitProducerId(_) => Reply::InitProducerId(reply::InitProducerId { result: Ok((1, 0)) }),
        Op::DescribeConfigs(_) => Reply::DescribeConfigs(reply::DescribeConfigs { resources: vec![] }),
        Op::AlterConfigs(_) => Reply::AlterConfigs(reply::AlterConfigs { resources: vec![] }),
        Op::DescribeTopicPartitions(_) => Reply::DescribeTopicPartitions(reply::DescribeTopicPartitions {
            topics: vec![],
            next_cursor: None,
        }),
        Op::DescribeLogDirs(_) => {
            Reply::DescribeLogDirs(reply::DescribeLogDirs { result: Err(ErrorCode::KafkaStorageError) })
        }
        Op::ListPartitionReassignments(_) => {
            Reply::ListPartitionReassignments(reply::ListPartitionReassignments {})
        }
        Op::DescribeCluster(_) => {
            Reply::DescribeCluster(reply::DescribeCluster { result: Ok("c".to_owned()) })
        }
        Op::JoinGroup(_) => Reply::JoinGroup(reply::JoinGroup {
            member_id: "m".to_owned(),
            result: Err(ErrorCode::UnknownMemberId),
        }),
        Op::SyncGroup(_) => Reply::SyncGroup(reply::SyncGroup { result: Err(ErrorCode::UnknownMemberId) }),
        Op::Heartbeat(_) => Reply::Heartbeat(reply::Heartbeat { error: None }),
        Op::LeaveGroup(_) => Reply::LeaveGroup(reply::LeaveGroup { result: Ok(vec![]) }),
        Op::OffsetCommit(_) => Reply::OffsetCommit(reply::OffsetCommit { topics: vec![] }),
        Op::OffsetFetch(_) => Reply::OffsetFetch(reply::OffsetFetch { groups: vec![] }),
        Op::OffsetDelete(_) => Reply::OffsetDelete(reply::OffsetDelete { result: Ok(vec![]) }),
        Op::ListGroups(_) => Reply::ListGroups(reply::ListGroups { result: Ok(vec![]) }),
        Op::DescribeGroups(_) => Reply::DescribeGroups(reply::DescribeGroups { groups: vec![] }),
        Op::DeleteGroups(_) => Reply::DeleteGroups(reply::DeleteGroups { groups: vec![] }),
    }
}

#[test]
fn unknown_apis_and_versions_are_errors() {
    let frame = |key: i16, version: i16| {
        let mut frame = [key.to_be_bytes(), version.to_be_bytes()].concat();
        frame.extend([0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0]);
        decode_request(frame.into())
    };
    assert_eq!(frame(4, 0), Err(DecodeError::UnknownApi { key: 4 }));
    assert_eq!(frame(3, 14), Err(DecodeError::UnsupportedVersion { api: "Metadata", version: 14 }));
    assert_eq!(frame(3, -1), Err(DecodeError::UnsupportedVersion { api: "Metadata", version: -1 }));
    assert_eq!(frame(0, 2), Err(DecodeError::UnsupportedVersion { api: "Produce", version: 2 }));
    assert!(decode_request(Bytes::new()).is_err());
}

#[test]
fn a_client_id_is_compared_where_it_stands_and_read_once() {
    let client_id = |sent: Option<&str>| {
        let frame = encode_request(&metadata_request(None), 9, 1, sent).into_content();
        decode_request(frame).unwrap().client_id
    };
    let named = client_id(Some("test"));
    assert!(named.is(Some("test")));
    assert!(!named.is(Some("other")) && !named.is(None));
    assert_eq!(named.text().as_deref(), Some("test"));
    assert!(client_id(Some("")).is(Some("")));
    assert!(client_id(None).is(None));
    assert_eq!(client_id(None).text(), None);

    // Metadata version 1 from a client whose id is in Latin-1.
    let latin = Bytes::from_static(b"\0\x03\0\x01\0\0\0\x07\0\x02\xe9a\xff\xff\xff\xff");
    assert_eq!(decode_request(latin).unwrap().client_id.text().as_deref(), Some("\u{fffd}a"));
}

#[test]
fn answers_written_behind_each_other_are_the_frames_that_they_are_alone() {
    let head = decoded(&heartbeat::HeartbeatRequest::default(), 4).head;
    let reply = |error| Reply::Heartbeat(reply::Heartbeat { error });
    let mut tail = BytesMut::new();
    for error in [None, Some(ErrorCode::RebalanceInProgress)] {
        let before = tail.clone();
        assert!(encode_reply_onto(&mut tail, &head, reply(error), &addresses()).is_empty());
        let alone = encode_reply(&head, reply(error), &addresses()).into_bytes();
        assert_eq!(tail, [&before[..], &alone[..]].concat());
    }
}

#[test]
fn bytes_behind_the_body_are_ignored() {
    let request = metadata_request(None);
    let mut frame = encode_request(&request, 4, 1, None).into_content().to_vec();
    frame.extend(b"more");
    assert!(decode_request(frame.into()).is_ok());
}

/// WIRE-01.
#[test]
fn an_unknown_version_of_api_versions_is_answered_in_version_0() {
    let frame = [&[0, 18, 0, 99, 0, 0, 0, 7, 0, 1, b'c', 0][..], b"what the future brings"].concat();
    let Request { head, body, .. } = decode_request(frame.into()).unwrap();
    assert_eq!(body, Body::Local(Local::UnsupportedApiVersions));
    let Body::Local(local) = body else { unreachable!() };
    let frame = answer(&head, local, &addresses()).into_content();
    // What a live Kafka 4.3 sends, byte for byte.
    assert_eq!(frame[..], [0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4]);

    let (_, response) = decode_response::<api_versions::ApiVersionsRequest>(frame, 4).unwrap();
    assert_eq!(response.error_code, ErrorCode::UnsupportedVersion.number());
}

/// WIRE-02, WIRE-03.
#[test]
fn api_versions_shows_the_table_and_refuses_odd_names_of_software() {
    let mut request = api_versions::ApiVersionsRequest {
        client_software_name: "test".to_owned(),
        client_software_version: "1.0".to_owned(),
    };
    let shown = local(&request, 4);
    assert_eq!(shown.api_keys.len(), ApiKey::ALL.len());
    assert_eq!((shown.api_keys[0].api_key, shown.api_keys[0].min_version), (ApiKey::Produce.number(), 0));
    assert_eq!(shown.error_code, 0);

    for name in ["two words", ""] {
        request.client_software_name = name.to_owned();
        let refused = local(&request, 3);
        assert_eq!(refused.error_code, ErrorCode::InvalidRequest.number());
        assert!(refused.api_keys.is_empty());
    }
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
    };
    let reply = Reply::Metadata(reply::Metadata { cluster_id: "id".to_owned(), topics: vec![topic] });
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
}

#[test]
fn special_timestamps_are_refused_in_versions_that_do_not_have_them() {
    let target = |timestamp, version| {
        let partition = list_offsets::ListOffsetsPartition { timestamp, ..Default::default() };
        let topic = list_offsets::ListOffsetsTopic { name: "a".to_owned(), partitions: vec![partition] };
        let request = list_offsets::ListOffsetsRequest { topics: vec![topic], ..Default::default() };
        match op(&request, version) {
            Op::ListOffsets(list) => list.topics[0].partitions[0].target,
            op => panic!("{op:?}"),
        }
    };
    let since = [
        (-1, 1, OffsetTarget::Latest),
        (-2, 1, OffsetTarget::Earliest),
        (-3, 7, OffsetTarget::MaxTimestamp),
        (-4, 8, OffsetTarget::EarliestLocal),
        (-5, 9, OffsetTarget::LatestTiered),
        (-6, 11, OffsetTarget::EarliestPendingUpload),
        (12, 1, OffsetTarget::Time(12)),
    ];
    for (timestamp, first, expected) in since {
        for version in 1..=11 {
            let expected = if version < first { Err(ErrorCode::UnsupportedVersion) } else { Ok(expected) };
            assert_eq!(target(timestamp, version), expected, "{timestamp} in version {version}");
        }
    }
    assert_eq!(target(-7, 11), Err(ErrorCode::UnsupportedVersion));
}

#[test]
fn produced_records_share_the_frame_and_acks_0_expects_no_reply() {
    let records = Bytes::from(vec![1; 10_000]);
    let request = produce::ProduceRequest {
        acks: 0,
        topic_data: vec![produce::TopicProduceData {
            name: "a".to_owned(),
            topic_id: Uuid(5),
            partition_data: vec![produce::PartitionProduceData { index: 3, records: Some(records.clone()) }],
        }],
        ..Default::default()
    };
    let frame = encode_request(&request, 12, 1, None).into_content();
    let within = frame.as_ptr_range();
    let Request { head, body: Body::Op(Op::Produce(op)), .. } = decode_request(frame).unwrap() else {
        panic!("an op")
    };
    assert!(!head.expects_reply());
    assert_eq!(op.topics[0].topic, TopicRef::Name("a".to_owned()));
    let shared = op.topics[0].partitions[0].records.clone().unwrap();
    assert_eq!(shared, records);
    assert!(within.contains(&shared.as_ptr()), "no copy was made");

    let Op::Produce(op) = self::op(&request, 13) else { panic!("an op") };
    assert_eq!(op.topics[0].topic, TopicRef::Id(TopicId::from_u128(5)));
}

#[test]
fn a_produce_refusal_shows_what_its_version_can_say() {
    let refusal = reply::ProduceRefusal {
        refusal: Refusal::new(ErrorCode::InvalidRecord, "no key"),
        record_errors: vec![(2, Some("here".to_owned()))],
        log_start_offset: 4,
    };
    let partition = reply::ProducePartition { index: 1, result: Err(refusal) };
    let topic = reply::ProduceTopic { topic: TopicRef::Name("a".to_owned()), partitions: vec![partition] };
    let reply = Reply::Produce(reply::Produce { topics: vec![topic] });
    let request = produce::ProduceRequest { acks: 1, ..Default::default() };
    let new = exchange(&request, 12, reply.clone());
    let told = &new.responses[0].partition_responses[0];
    assert_eq!((told.error_code, told.base_offset, told.log_start_offset), (87, -1, 4));
    assert_eq!(told.error_message.as_deref(), Some("no key"));
    assert_eq!(told.record_errors[0].batch_index, 2);
    let old = exchange(&request, 3, reply);
    assert_eq!(old.responses[0].partition_responses[0].error_code, 87);
}

fn fetched(error: Option<ErrorCode>) -> Reply {
    let partition = reply::FetchPartition {
        index: 0,
        error,
        high_watermark: 5,
        last_stable_offset: 5,
        log_start_offset: 0,
        diverging_epoch: None,
        current_leader_epoch: error.map(|_| 2),
        records: vec![Bytes::from(vec![1; 5_000]), Bytes::from(vec![2; 10])],
    };
    let topic = reply::FetchTopic { topic: TopicRef::Name("a".to_owned()), partitions: vec![partition] };
    Reply::Fetch(reply::Fetch { error: None, session_id: 0, topics: vec![topic] })
}

#[test]
fn fetched_batches_go_out_as_they_are() {
    let head = decoded(&fetch::FetchRequest::default(), 12).head;
    let reply = fetched(None);
    let Reply::Fetch(fetch) = &reply else { unreachable!() };
    let batch = fetch.topics[0].partitions[0].records[0].clone();
    let frame = encode_reply(&head, reply, &addresses());
    assert!(frame.chunks().iter().any(|chunk| chunk.as_ptr() == batch.as_ptr()), "no copy was made");
    let (_, response) = decode_response::<fetch::FetchRequest>(frame.into_content(), 12).unwrap();
    let records = response.responses[0].partitions[0].records.clone().unwrap();
    assert_eq!(records.len(), 5_010);
}

#[test]
fn a_fetch_lists_aborted_transactions_as_kafka_does() {
    let aborted = |isolation_level, error| {
        let request = fetch::FetchRequest { isolation_level, ..Default::default() };
        exchange(&request, 11, fetched(error)).responses[0].partitions[0].aborted_transactions.clone()
    };
    assert_eq!(aborted(0, None), None);
    assert_eq!(aborted(1, None), Some(vec![]));
    assert_eq!(aborted(0, Some(ErrorCode::OffsetOutOfRange)), None);
    assert_eq!(aborted(0, Some(ErrorCode::UnknownTopicOrPartition)), Some(vec![]));
}

#[test]
fn old_consumers_are_not_told_of_a_failed_disk() {
    let code = |version, error| {
        exchange(&fetch::FetchRequest::default(), version, fetched(Some(error))).responses[0].partitions[0]
            .error_code
    };
    assert_eq!(code(5, ErrorCode::KafkaStorageError), ErrorCode::NotLeaderOrFollower.number());
    assert_eq!(code(6, ErrorCode::KafkaStorageError), ErrorCode::KafkaStorageError.number());
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
        };
        let reply = reply::DescribeTopicPartitions { topics: vec![topic], next_cursor: None };
        let request = describe_topic_partitions::DescribeTopicPartitionsRequest::default();
        let shown = exchange(&request, 0, Reply::DescribeTopicPartitions(reply));
        shown.topics[0].topic_authorized_operations
    };
    assert_eq!(operations(Some(ErrorCode::InvalidRequest)), i32::MIN);
    assert_eq!(operations(Some(ErrorCode::UnknownServerError)), i32::MIN);
    assert_eq!(operations(Some(ErrorCode::UnknownTopicOrPartition)), 3576);
    assert_eq!(operations(None), 3576);
}

#[test]
fn metadata_of_a_topic_without_name_and_id_fails_as_a_whole() {
    let request = metadata_request(Some(vec![metadata_topic(None, 0)]));
    let refused = local(&request, 13);
    assert_eq!((refused.error_code, refused.topics[0].error_code), (-1, -1));
}

#[test]
fn a_gateway_names_itself_as_coordinator_of_every_group() {
    let request = find_coordinator::FindCoordinatorRequest {
        key: "group".to_owned(),
        coordinator_keys: vec!["a".to_owned(), "b".to_owned()],
        key_type: 0,
    };
    for version in 0..=3 {
        let found = local(&request, version);
        assert_eq!((found.error_code, found.node_id, found.port), (0, 7, 9092));
        assert_eq!(found.error_message.as_deref(), (version > 0).then_some("NONE"));
    }
    let found = local(&request, 6);
    let keys: Vec<_> = found.coordinators.iter().map(|found| found.key.as_str()).collect();
    assert_eq!(keys, ["a", "b"]);
    assert_eq!(found.coordinators[1].host, "kafka.example");
    assert_eq!(found.coordinators[1].error_message.as_deref(), Some(""));
}

/// LIST-16.
#[test]
fn a_share_group_has_no_coordinator_in_any_version() {
    let key = "group:AAAAAAAAAAAAAAAAAAAAAQ:0".to_owned();
    let request = find_coordinator::FindCoordinatorRequest {
        key: key.clone(),
        coordinator_keys: vec![key],
        key_type: 2,
    };
    for version in 1..=3 {
        assert_eq!(local(&request, version).error_code, ErrorCode::InvalidRequest.number());
    }
    for version in 4..=6 {
        assert_eq!(local(&request, version).coordinators[0].error_code, ErrorCode::InvalidRequest.number());
    }
}

#[test]
fn a_transactional_producer_is_told_at_once_that_there_are_no_transactions() {
    let request = find_coordinator::FindCoordinatorRequest {
        key: "tx".to_owned(),
        coordinator_keys: vec!["tx".to_owned()],
        key_type: 1,
    };
    let old = local(&request, 2);
    assert_eq!(old.error_code, ErrorCode::TransactionalIdAuthorizationFailed.number());
    assert!(old.error_message.unwrap().contains("transactions"));
    let new = local(&request, 6);
    assert_eq!(new.coordinators[0].error_code, ErrorCode::UnsupportedVersion.number());
    assert!(new.coordinators[0].error_message.as_deref().unwrap().contains("transactions"));
}

#[test]
fn a_request_whose_answer_would_be_gigabytes_is_refused() {
    // 20 MB of keys, each of which would be answered with an address.
    let coordinator_keys = vec!["123456789".to_owned(); 2_000_000];
    let request = find_coordinator::FindCoordinatorRequest { coordinator_keys, ..Default::default() };
    let refused = decode_request(encode_request(&request, 6, 42, None).into_content()).unwrap_err();
    assert!(refused.to_string().starts_with("too many small elements"), "{refused}");
}

#[test]
fn a_sentence_too_long_for_clients_loses_its_end() {
    let refusal = Refusal::new(ErrorCode::InvalidTopic, "é".repeat(20_000));
    let topic = reply::CreatedTopic { name: "a".to_owned(), result: Err(refusal) };
    let reply = Reply::CreateTopics(reply::CreateTopics { topics: vec![topic] });
    let request = create_topics::CreateTopicsRequest::default();
    for version in 4..=5 {
        let answer = exchange(&request, version, reply.clone());
        assert_eq!(answer.topics[0].error_message.as_deref().map(str::len), Some(32_766));
    }
}

#[test]
fn a_name_that_is_longer_than_kafka_reads_is_refused() {
    // One byte more than what older versions can say; the newer ones could say any length.
    let body = [&[0, 0x82, 0x80, 0x02][..], &[b'x'; 0x8001], &[0; 16]].concat();
    let frame = [&[0, 11, 0, 9, 0, 0, 0, 42, 0xff, 0xff][..], &body].concat();
    let refused = decode_request(frame.into()).unwrap_err();
    assert!(refused.to_string().starts_with("a text of 32769 bytes"), "{refused}");
}

#[test]
fn a_refused_request_is_answered_with_what_it_holds() {
    let head = decoded(&metadata_request(None), 1).head;
    let response = AnyResponse::Metadata(metadata::MetadataResponse::default());
    let frame = answer(&head, Local::Refused(response.clone()), &addresses()).into_content();
    assert_eq!(decode_any_response(frame, ApiKey::Metadata, 1).unwrap(), (42, response));
}
