//! A gateway's side of the conversation: frames in, ops out, replies in, frames out.

mod groups;
mod nodes;
mod records;
mod security;
mod topics;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use coordination::access::Operations;
use coordination::error_code::ErrorCode;
use coordination::op::{self, Op};
use coordination::reply::{self, Refusal, Reply};
use wire::api::*;
use wire::{
    Addresses, AnyRequest, AnyResponse, ApiKey, Body, DecodeError, Local, Request, RequestHeader,
    RequestMessage, Sasl, answer, decode_any_response, decode_request, decode_response, encode_any_request,
    encode_reply, encode_reply_onto, encode_request, encode_sasl_authenticate, encode_sasl_handshake,
};

fn addresses() -> Addresses {
    Addresses::alone(7, "kafka.example", 9092)
}

fn decoded<R: RequestMessage>(request: &R, version: i16) -> Request {
    decode_request(encode_request(request, version, 42, Some("test")).into_content())
        .expect("a frame of ours")
}

fn op<R: RequestMessage>(request: &R, version: i16) -> Op {
    match decoded(request, version).body {
        Body::Op(op) => op,
        other => panic!("{other:?} is no op"),
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
    decode_response::<R>(answer(&head, local).into_content(), version).expect("an answer of ours").1
}

fn metadata_request(topics: Option<Vec<metadata::MetadataRequestTopic>>) -> metadata::MetadataRequest {
    metadata::MetadataRequest { topics, ..Default::default() }
}

#[test]
fn every_api_is_understood_and_answered_in_every_version() {
    for &api in ApiKey::ANSWERED {
        for version in api.versions() {
            let request = default_request(api);
            let header = RequestHeader { api, version, correlation_id: -5, client_id: None };
            let frame = encode_any_request(&header, &request).into_content();
            let Request { head, body, .. } = decode_request(frame).unwrap();
            assert_eq!((head.api, head.version, head.correlation_id), (api, version, -5));
            let frame = match body {
                Body::Op(op) => encode_reply(&head, some_reply(&op), &addresses()),
                Body::Local(local) => answer(&head, local),
                Body::Sasl(Sasl::Handshake { .. }) => encode_sasl_handshake(&head, None, Vec::new()),
                Body::Sasl(Sasl::Authenticate { .. }) => {
                    encode_sasl_authenticate(&head, Ok((Bytes::new(), Duration::ZERO)))
                }
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
        ApiKey::ConsumerGroupDescribe => {
            consumer_group_describe::ConsumerGroupDescribeRequest::default().into()
        }
        ApiKey::SaslHandshake => sasl_handshake::SaslHandshakeRequest::default().into(),
        ApiKey::SaslAuthenticate => sasl_authenticate::SaslAuthenticateRequest::default().into(),
        ApiKey::DescribeAcls => describe_acls::DescribeAclsRequest::default().into(),
        ApiKey::CreateAcls => create_acls::CreateAclsRequest::default().into(),
        ApiKey::DeleteAcls => delete_acls::DeleteAclsRequest::default().into(),
        ApiKey::DescribeClientQuotas => describe_client_quotas::DescribeClientQuotasRequest::default().into(),
        ApiKey::DescribeUserScramCredentials => {
            describe_user_scram_credentials::DescribeUserScramCredentialsRequest::default().into()
        }
        ApiKey::AlterUserScramCredentials => {
            alter_user_scram_credentials::AlterUserScramCredentialsRequest::default().into()
        }
    }
}

fn some_reply(op: &Op) -> Reply {
    match op {
        Op::Metadata(_) => Reply::Metadata(reply::Metadata {
            cluster_id: "c".to_owned(),
            topics: vec![],
            operations: Operations::OF_CLUSTER,
        }),
        Op::Produce(_) => Reply::Produce(reply::Produce { topics: vec![], throttle: Duration::ZERO }),
        Op::Fetch(_) => Reply::Fetch(reply::Fetch {
            error: None,
            session_id: 0,
            topics: vec![],
            throttle: Duration::ZERO,
        }),
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
            Reply::ListPartitionReassignments(reply::ListPartitionReassignments { error: None })
        }
        Op::DescribeCluster(_) => Reply::DescribeCluster(reply::DescribeCluster {
            result: Ok("c".to_owned()),
            operations: Operations::OF_CLUSTER,
        }),
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
        Op::FindCoordinator(op) => Reply::FindCoordinator(reply::FindCoordinator {
            groups: op.groups.iter().map(|group| (group.clone(), None)).collect(),
        }),
        Op::Credentials(_) | Op::Enter => panic!("no client can ask for {op:?}"),
        Op::CreateAcls(_) => Reply::CreateAcls(reply::CreateAcls { results: vec![] }),
        Op::DescribeAcls(_) => Reply::DescribeAcls(reply::DescribeAcls { result: Ok(vec![]) }),
        Op::DeleteAcls(_) => Reply::DeleteAcls(reply::DeleteAcls { results: vec![] }),
        Op::DescribeClientQuotas(_) => {
            Reply::DescribeClientQuotas(reply::DescribeClientQuotas { error: None })
        }
        Op::DescribeUserScramCredentials(_) => {
            Reply::DescribeUserScramCredentials(reply::DescribeUserScramCredentials { result: Ok(vec![]) })
        }
        Op::AlterUserScramCredentials(_) => {
            Reply::AlterUserScramCredentials(reply::AlterUserScramCredentials { users: vec![] })
        }
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
    // ConsumerGroupDescribe, which we only ask.
    assert_eq!(frame(69, 0), Err(DecodeError::UnknownApi { key: 69 }));
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
    let frame = answer(&head, local).into_content();
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
    assert_eq!(shown.api_keys.len(), ApiKey::ANSWERED.len());
    assert_eq!((shown.api_keys[0].api_key, shown.api_keys[0].min_version), (ApiKey::Produce.number(), 0));
    assert_eq!(shown.error_code, 0);

    for (name, version) in [("two words", "1.0"), ("", "1.0"), ("test", ""), ("test", "-1.0")] {
        request.client_software_name = name.to_owned();
        request.client_software_version = version.to_owned();
        let refused = local(&request, 3);
        assert_eq!(refused.error_code, ErrorCode::InvalidRequest.number());
        assert!(refused.api_keys.is_empty());
    }
}

#[test]
fn a_gateway_names_itself_as_coordinator_of_every_group() {
    let request = find_coordinator::FindCoordinatorRequest {
        key: "group".to_owned(),
        coordinator_keys: vec!["a".to_owned(), "b".to_owned()],
        key_type: 0,
    };
    let found = |version| {
        let op = op(&request, version);
        exchange(&request, version, some_reply(&op))
    };
    for version in 0..=3 {
        let found = found(version);
        assert_eq!((found.error_code, found.node_id, found.port), (0, 7, 9092));
        assert_eq!(found.error_message.as_deref(), (version > 0).then_some("NONE"));
    }
    let found = found(6);
    let keys: Vec<_> = found.coordinators.iter().map(|found| found.key.as_str()).collect();
    assert_eq!(keys, ["a", "b"]);
    assert_eq!(found.coordinators[1].host, "kafka.example");
    assert_eq!(found.coordinators[1].error_message.as_deref(), Some(""));
}

/// What a live Kafka 4.3 answers.
#[test]
fn a_group_that_the_user_may_not_see_has_no_coordinator() {
    let refused = |version| {
        let key = || "g".to_owned();
        let groups = vec![(key(), Some(ErrorCode::GroupAuthorizationFailed.into())), (key(), None)];
        let request = find_coordinator::FindCoordinatorRequest {
            key: key(),
            coordinator_keys: vec![key(), key()],
            key_type: 0,
        };
        let groups = if version < 4 { groups[..1].to_vec() } else { groups };
        exchange(&request, version, Reply::FindCoordinator(reply::FindCoordinator { groups }))
    };
    for version in 0..=3 {
        let refused = refused(version);
        assert_eq!((refused.error_code, refused.node_id, refused.port), (30, -1, -1));
        assert_eq!(refused.host, "");
        assert_eq!(refused.error_message.as_deref(), (version > 0).then_some("Group authorization failed."));
    }
    let refused = refused(6);
    let [no, yes] = &refused.coordinators[..] else { panic!("{refused:?}") };
    assert_eq!((no.error_code, no.node_id, no.port, no.host.as_str()), (30, -1, -1, ""));
    assert_eq!(no.error_message.as_deref(), Some(""));
    assert_eq!((yes.error_code, yes.node_id), (0, 7));
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
    let frame = answer(&head, Local::Refused(response.clone())).into_content();
    assert_eq!(decode_any_response(frame, ApiKey::Metadata, 1).unwrap(), (42, response));
}
