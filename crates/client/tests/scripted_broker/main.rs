//! The client against brokers that answer by a script: good ones, old ones and ones that are none.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod permissions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use client::{Client, ClientError, Connection, Leaver, NewTopic, Options};
use coordination::error_code::ErrorCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wire::api::api_versions::{ApiVersion, ApiVersionsResponse};
use wire::api::create_topics::{CreatableTopicResult, CreateTopicsResponse};
use wire::api::find_coordinator::{Coordinator, FindCoordinatorResponse};
use wire::api::leave_group::{LeaveGroupResponse, MemberResponse};
use wire::api::list_groups::{ListGroupsResponse, ListedGroup};
use wire::api::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use wire::api::offset_commit::{
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::api::offset_delete::{
    OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use wire::api::offset_fetch::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use wire::{AnyRequest, AnyResponse, ApiKey, RequestHeader, decode_any_request, encode_any_response};

const PATIENCE: Duration = Duration::from_secs(10);

/// Answers every request on every connection with what `script` says.
async fn broker(
    script: impl Fn(&RequestHeader, AnyRequest) -> AnyResponse + Clone + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let script = script.clone();
            tokio::spawn(async move {
                while let Some((header, request)) = next_request(&mut stream).await {
                    let refused = header.api == ApiKey::ApiVersions && {
                        let AnyResponse::ApiVersions(answer) = script(&header, request.clone()) else {
                            panic!()
                        };
                        answer.error_code != 0
                    };
                    let version = if refused { 0 } else { header.version };
                    let answer =
                        encode_any_response(version, header.correlation_id, &script(&header, request));
                    stream.write_all(&answer.into_bytes()).await.unwrap();
                }
            });
        }
    });
    address
}

async fn next_request(stream: &mut TcpStream) -> Option<(RequestHeader, AnyRequest)> {
    let length = usize::try_from(stream.read_i32().await.ok()?).unwrap();
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).await.ok()?;
    Some(decode_any_request(frame.into()).unwrap())
}

/// Sends `bytes` to whoever connects, after it has said something.
async fn stranger(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut said = [0; 4];
            stream.read_exact(&mut said).await.unwrap();
            stream.write_all(bytes).await.unwrap();
        }
    });
    address
}

fn versions(apis: &[(ApiKey, i16, i16)]) -> AnyResponse {
    let api = |&(api, min_version, max_version): &(ApiKey, i16, i16)| ApiVersion {
        api_key: api.number(),
        min_version,
        max_version,
    };
    ApiVersionsResponse { api_keys: apis.iter().map(api).collect(), ..Default::default() }.into()
}

fn one_topic() -> AnyResponse {
    MetadataResponse {
        brokers: vec![MetadataResponseBroker { node_id: 1, host: "nowhere".to_owned(), port: 1, rack: None }],
        topics: vec![MetadataResponseTopic {
            name: Some("orders".to_owned()),
            partitions: vec![MetadataResponsePartition { leader_id: 1, ..Default::default() }],
            ..Default::default()
        }],
        ..Default::default()
    }
    .into()
}

#[tokio::test]
async fn requests_use_the_highest_version_that_both_sides_speak() {
    let address = broker(|header, request| match request {
        AnyRequest::ApiVersions(_) => versions(&[(ApiKey::ApiVersions, 0, 4), (ApiKey::Metadata, 0, 5)]),
        _ => {
            assert_eq!((header.api, header.version), (ApiKey::Metadata, 5));
            one_topic()
        }
    })
    .await;
    let mut connection = Connection::connect(&address, "test", PATIENCE).await.unwrap();
    assert_eq!(connection.version(ApiKey::Metadata, i16::MAX), Some(5));
    assert_eq!(connection.version(ApiKey::Metadata, 3), Some(3));
    assert_eq!(connection.version(ApiKey::Fetch, i16::MAX), None);
    let response = connection.call(&MetadataRequest::default()).await.unwrap();
    assert_eq!(response.topics[0].name.as_deref(), Some("orders"));
}

#[tokio::test]
async fn an_old_broker_is_asked_for_its_versions_once_more() {
    let address = broker(|header, _| match header.version {
        0 => versions(&[(ApiKey::ApiVersions, 0, 0)]),
        _ => {
            let error_code = ErrorCode::UnsupportedVersion.number();
            ApiVersionsResponse { error_code, ..Default::default() }.into()
        }
    })
    .await;
    let connection = Connection::connect(&address, "test", PATIENCE).await.unwrap();
    assert_eq!(connection.version(ApiKey::ApiVersions, i16::MAX), Some(0));
}

#[tokio::test]
async fn a_refusal_carries_the_brokers_words() {
    let address = broker(|_, request| match request {
        AnyRequest::ApiVersions(_) => versions(&[(ApiKey::CreateTopics, 2, 7)]),
        AnyRequest::CreateTopics(request) => {
            assert_eq!(request.topics[0].num_partitions, -1);
            let result = CreatableTopicResult {
                name: "orders".to_owned(),
                error_code: ErrorCode::TopicAlreadyExists.number(),
                error_message: Some("Topic 'orders' already exists.".to_owned()),
                ..Default::default()
            };
            CreateTopicsResponse { topics: vec![result], ..Default::default() }.into()
        }
        _ => unreachable!(),
    })
    .await;
    let mut client = Client::connect(&[address], Options::default()).await.unwrap();
    let topic = NewTopic { name: "orders".to_owned(), ..Default::default() };
    let error = client.create_topic(&topic).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::TopicAlreadyExists));
    assert_eq!(error.to_string(), "Topic 'orders' already exists. [TOPIC_ALREADY_EXISTS (36)]");
}

/// The beginning of such a name is a name too, perhaps of a group that is in use.
#[tokio::test]
async fn a_name_that_would_have_to_be_cut_is_never_sent() {
    let address = broker(|_, request| match request {
        AnyRequest::ApiVersions(_) => versions(&[(ApiKey::FindCoordinator, 0, 6), (ApiKey::Metadata, 0, 13)]),
        AnyRequest::Metadata(_) => one_topic(),
        other => panic!("{other:?}"),
    })
    .await;
    let mut client = Client::connect(&[address], Options::default()).await.unwrap();
    let error = client.delete_group(&"g".repeat(32_768)).await.unwrap_err();
    assert!(matches!(error, ClientError::TooLong { .. }), "{error}");
    assert!(client.is_usable(), "nothing was asked");
    client.metadata(None).await.unwrap();
}

#[tokio::test]
async fn what_is_no_name_of_a_topic_is_called_so() {
    let address = broker(|_, request| match request {
        AnyRequest::ApiVersions(_) => versions(&[(ApiKey::Metadata, 0, 13)]),
        _ => MetadataResponse {
            topics: vec![MetadataResponseTopic {
                name: Some("a b".to_owned()),
                error_code: ErrorCode::InvalidTopic.number(),
                ..Default::default()
            }],
            ..Default::default()
        }
        .into(),
    })
    .await;
    let mut client = Client::connect(&[address], Options::default()).await.unwrap();
    let error = client.existing_topics(&["a b".to_owned()]).await.unwrap_err();
    assert_eq!(error.to_string(), "`a b` is no name of a topic [INVALID_TOPIC_EXCEPTION (17)]");
}

#[tokio::test]
async fn the_first_address_that_answers_is_used() {
    let good = broker(|_, request| match request {
        AnyRequest::ApiVersions(_) => versions(&[(ApiKey::Metadata, 0, 13)]),
        _ => one_topic(),
    })
    .await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let mut client = Client::connect(&[closed.clone(), good], Options::default()).await.unwrap();
    assert_eq!(client.topics(None).await.unwrap().len(), 1);
    let error = Client::connect(&[closed], Options::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }) && error.is_unreachable(), "{error}");
}

#[tokio::test]
async fn what_is_no_broker_is_told_so() {
    // The first would be an answer of 1.2 GB.
    for bytes in
        [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"\xff\xff\xff\xff", b"\0\0\0\x02ab", b"\0\x10\0\x01"]
    {
        let address = stranger(bytes).await;
        let error = Connection::connect(&address, "test", PATIENCE).await.unwrap_err();
        assert!(matches!(error, ClientError::NotKafka { .. }), "{bytes:?}: {error}");
    }
    let error = Connection::connect("localhost", "test", PATIENCE).await.unwrap_err();
    assert!(matches!(error, ClientError::Address { .. }), "{error}");
}

#[tokio::test]
async fn silence_ends_the_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let error = Connection::connect(&address, "test", Duration::from_millis(20)).await.unwrap_err();
    assert!(matches!(error, ClientError::TimedOut { request: "ApiVersions", .. }), "{error}");
}

#[tokio::test]
async fn a_broken_connection_is_no_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { drop(listener.accept().await.unwrap()) });
    let error = Connection::connect(&address, "test", PATIENCE).await.unwrap_err();
    assert!(matches!(error, ClientError::Broken { .. }), "{error}");
}

/// A coordinator as FindCoordinator names it, in the shape of either version.
fn here(error: Option<ErrorCode>) -> AnyResponse {
    let error_code = error.map_or(0, ErrorCode::number);
    let coordinators = vec![Coordinator { node_id: 1, error_code, ..Default::default() }];
    FindCoordinatorResponse { coordinators, node_id: 1, error_code, ..Default::default() }.into()
}

#[tokio::test]
async fn a_coordinator_that_is_not_there_yet_is_asked_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let address = broker(move |_, request| match request {
        AnyRequest::ApiVersions(_) => versions(&[
            (ApiKey::Metadata, 0, 13),
            (ApiKey::FindCoordinator, 0, 6),
            (ApiKey::OffsetFetch, 1, 9),
        ]),
        AnyRequest::FindCoordinator(request) => {
            assert_eq!(request.coordinator_keys, ["billing"]);
            let first = counted.fetch_add(1, Ordering::Relaxed) == 0;
            here(first.then_some(ErrorCode::CoordinatorNotAvailable))
        }
        AnyRequest::OffsetFetch(request) => {
            assert_eq!((request.groups[0].group_id.as_str(), &request.groups[0].topics), ("billing", &None));
            let partition = |partition_index, committed_offset| OffsetFetchResponsePartitions {
                partition_index,
                committed_offset,
                ..Default::default()
            };
            let topic = OffsetFetchResponseTopics {
                name: "orders".to_owned(),
                partitions: vec![partition(0, 42), partition(1, -1)],
                ..Default::default()
            };
            let group = OffsetFetchResponseGroup { topics: vec![topic], ..Default::default() };
            OffsetFetchResponse { groups: vec![group], ..Default::default() }.into()
        }
        _ => one_topic(),
    })
    .await;
    let mut client = Client::connect(&[address], Options::default()).await.unwrap();
    let offsets = client.committed_offsets("billing").await.unwrap();
    let offsets: Vec<_> = offsets.into_iter().map(|(partition, commit)| (partition, commit.offset)).collect();
    assert_eq!(offsets, [(("orders".to_owned(), 0), 42)], "what is not committed is left out");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn an_old_broker_tells_offsets_in_the_old_shape() {
    let address = broker(|_, request| match request {
        AnyRequest::ApiVersions(_) => versions(&[
            (ApiKey::Metadata, 0, 5),
            (ApiKey::FindCoordinator, 0, 2),
            (ApiKey::OffsetFetch, 0, 5),
            (ApiKey::LeaveGroup, 0, 2),
        ]),
        AnyRequest::FindCoordinator(request) => {
            assert_eq!(request.key, "billing");
            here(None)
        }
        AnyRequest::OffsetFetch(request) => {
            assert_eq!((request.group_id.as_str(), &request.topics), ("billing", &None));
            let partition = OffsetFetchResponsePartition {
                committed_offset: 7,
                committed_leader_epoch: 3,
                ..Default::default()
            };
            let topic = OffsetFetchResponseTopic { name: "orders".to_owned(), partitions: vec![partition] };
            OffsetFetchResponse { topics: vec![topic], ..Default::default() }.into()
        }
        _ => one_topic(),
    })
    .await;
    let mut client = Client::connect(&[address], Options::default()).await.unwrap();
    let offsets = client.committed_offsets("billing").await.unwrap();
    let commit = &offsets[&("orders".to_owned(), 0)];
    assert_eq!((commit.offset, commit.leader_epoch), (7, Some(3)));
    let error = client.remove_members("billing", &[Leaver::Member("a".to_owned())], "").await.unwrap_err();
    assert!(matches!(error, ClientError::Unsupported { request: "LeaveGroup", .. }), "{error}");
}

#[tokio::test]
async fn members_are_removed_by_id_and_by_instance_with_a_reason() {
    let address = broker(|_, request| match request {
        AnyRequest::ApiVersions(_) => versions(&[
            (ApiKey::Metadata, 0, 13),
            (ApiKey::FindCoordinator, 0, 6),
            (ApiKey::LeaveGroup, 0, 5),
            (ApiKey::ListGroups, 0, 5),
        ]),
        AnyRequest::FindCoordinator(_) => here(None),
        AnyRequest::LeaveGroup(request) => {
            assert!(request.members.iter().all(|member| member.reason.as_deref() == Some("enough")));
            let result = |member: wire::api::leave_group::MemberIdentity| MemberResponse {
                error_code: if member.member_id == "a" { ErrorCode::UnknownMemberId.number() } else { 0 },
                member_id: member.member_id,
                group_instance_id: member.group_instance_id,
            };
            let members = request.members.into_iter().map(result).collect();
            LeaveGroupResponse { members, ..Default::default() }.into()
        }
        AnyRequest::ListGroups(_) => {
            let group = |name: &str, state: &str| ListedGroup {
                group_id: name.to_owned(),
                group_state: state.to_owned(),
                ..Default::default()
            };
            ListGroupsResponse { groups: vec![group("b", "Stable"), group("a", "")], ..Default::default() }
                .into()
        }
        _ => one_topic(),
    })
    .await;
    let mut client = Client::connect(&[address], Options::default()).await.unwrap();
    let leavers = [Leaver::Member("a".to_owned()), Leaver::Instance("pod-0".to_owned())];
    let results = client.remove_members("billing", &leavers, "enough").await.unwrap();
    let codes: Vec<_> =
        results.iter().map(|result| result.as_ref().err().and_then(ClientError::code)).collect();
    assert_eq!(codes, [Some(ErrorCode::UnknownMemberId), None]);
    let listed = client.list_groups(&[], &[]).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|it| (it.group.as_str(), it.state.as_deref())).collect();
    assert_eq!(listed, [("a", None), ("b", Some("Stable"))]);
}

/// The codes of results; `None` for those that are good.
fn codes<'a>(results: impl IntoIterator<Item = &'a Result<(), ClientError>>) -> Vec<Option<&'a ClientError>> {
    results.into_iter().map(|result| result.as_ref().err()).collect()
}

#[tokio::test]
async fn a_commit_is_tried_again_while_any_of_its_partitions_is_loading() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let address = broker(move |_, request| match request {
        AnyRequest::ApiVersions(_) => versions(&[
            (ApiKey::Metadata, 0, 13),
            (ApiKey::FindCoordinator, 0, 6),
            (ApiKey::OffsetCommit, 2, 9),
            (ApiKey::OffsetDelete, 0, 0),
        ]),
        AnyRequest::FindCoordinator(_) => here(None),
        AnyRequest::OffsetCommit(_) => {
            let partition = |partition_index, code: Option<ErrorCode>| OffsetCommitResponsePartition {
                partition_index,
                error_code: code.map_or(0, ErrorCode::number),
            };
            let first = counted.fetch_add(1, Ordering::Relaxed) == 0;
            let second =
                if first { ErrorCode::CoordinatorLoadInProgress } else { ErrorCode::OffsetMetadataTooLarge };
            // Nothing is said about partition 2.
            let partitions = vec![partition(0, None), partition(1, Some(second))];
            let topic =
                OffsetCommitResponseTopic { name: "orders".to_owned(), partitions, ..Default::default() };
            OffsetCommitResponse { topics: vec![topic], ..Default::default() }.into()
        }
        AnyRequest::OffsetDelete(_) => {
            let partitions = vec![OffsetDeleteResponsePartition::default()];
            let topic = OffsetDeleteResponseTopic { name: "orders".to_owned(), partitions };
            OffsetDeleteResponse { topics: vec![topic], ..Default::default() }.into()
        }
        _ => one_topic(),
    })
    .await;
    let mut client = Client::connect(&[address], Options::default()).await.unwrap();
    let offsets: BTreeMap<_, _> = (0..3).map(|index| (("orders".to_owned(), index), 7)).collect();
    let results = client.commit_offsets("billing", &offsets).await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    let told = codes(results.values());
    assert!(told[0].is_none(), "{told:?}");
    assert_eq!(told[1].and_then(ClientError::code), Some(ErrorCode::OffsetMetadataTooLarge));
    assert!(matches!(told[2], Some(ClientError::Unanswered { request: "OffsetCommit" })), "{told:?}");

    let partitions: Vec<_> = offsets.into_keys().take(2).collect();
    let results = client.delete_offsets("billing", &partitions).await.unwrap();
    let told = codes(results.values());
    assert!(
        matches!(told[..], [None, Some(ClientError::Unanswered { request: "OffsetDelete" })]),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_member_that_the_answer_leaves_out_is_not_taken_for_removed() {
    let address = broker(|_, request| match request {
        AnyRequest::ApiVersions(_) => versions(&[
            (ApiKey::Metadata, 0, 13),
            (ApiKey::FindCoordinator, 0, 6),
            (ApiKey::LeaveGroup, 0, 5),
        ]),
        AnyRequest::FindCoordinator(_) => here(None),
        AnyRequest::LeaveGroup(_) => {
            let member = |id: &str, instance: Option<&str>, code: i16| MemberResponse {
                member_id: id.to_owned(),
                group_instance_id: instance.map(str::to_owned),
                error_code: code,
            };
            let unknown = ErrorCode::UnknownMemberId.number();
            let members = vec![member("", Some("pod-0"), unknown), member("a", None, 0)];
            LeaveGroupResponse { members, ..Default::default() }.into()
        }
        _ => one_topic(),
    })
    .await;
    let mut client = Client::connect(&[address], Options::default()).await.unwrap();
    let member = |id: &str| Leaver::Member(id.to_owned());
    let leavers = [member("a"), member("b"), Leaver::Instance("pod-0".to_owned())];
    let results = client.remove_members("billing", &leavers, "enough").await.unwrap();
    let told = codes(&results);
    assert!(matches!(told[..2], [None, Some(ClientError::Unanswered { request: "LeaveGroup" })]), "{told:?}");
    assert_eq!(told[2].and_then(ClientError::code), Some(ErrorCode::UnknownMemberId));
}

#[tokio::test]
async fn a_broker_that_is_too_old_to_tell_states_is_not_asked_for_them() {
    let address = broker(|_, request| match request {
        AnyRequest::ApiVersions(_) => versions(&[(ApiKey::Metadata, 0, 9), (ApiKey::ListGroups, 0, 3)]),
        AnyRequest::ListGroups(_) => {
            let group = ListedGroup { group_id: "billing".to_owned(), ..Default::default() };
            ListGroupsResponse { groups: vec![group], ..Default::default() }.into()
        }
        _ => one_topic(),
    })
    .await;
    let mut client = Client::connect(std::slice::from_ref(&address), Options::default()).await.unwrap();
    let error = client.list_groups(&["Stable".to_owned()], &[]).await.unwrap_err();
    assert_eq!(error.to_string(), format!("the broker at {address} is too old to tell the states of groups"));
    assert_eq!(client.list_groups(&[], &["Classic".to_owned()]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_topic_that_does_not_exist_can_be_left_out() {
    let address = broker(|_, request| match request {
        AnyRequest::ApiVersions(_) => versions(&[(ApiKey::Metadata, 0, 13)]),
        AnyRequest::Metadata(request) => {
            let topic = |asked: wire::api::metadata::MetadataRequestTopic| MetadataResponseTopic {
                error_code: match asked.name.as_deref() {
                    Some("gone") => ErrorCode::UnknownTopicOrPartition.number(),
                    Some("secret") => ErrorCode::TopicAuthorizationFailed.number(),
                    _ => 0,
                },
                name: asked.name,
                ..Default::default()
            };
            let topics = request.topics.unwrap_or_default().into_iter().map(topic).collect();
            MetadataResponse { topics, ..Default::default() }.into()
        }
        _ => unreachable!(),
    })
    .await;
    let mut client = Client::connect(&[address], Options::default()).await.unwrap();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let topics = client.existing_topics(&names(&["orders", "gone", "users"])).await.unwrap();
    assert_eq!(topics.iter().map(|topic| topic.name.as_str()).collect::<Vec<_>>(), ["orders", "users"]);
    let error = client.topics(Some(&names(&["orders", "gone"]))).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UnknownTopicOrPartition));
    let error = client.existing_topics(&names(&["secret", "gone"])).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::TopicAuthorizationFailed));
}

#[tokio::test]
async fn a_connection_that_missed_an_answer_is_not_used_again() {
    let address = broker(|_, request| match request {
        AnyRequest::ApiVersions(_) => versions(&[(ApiKey::Metadata, 0, 13)]),
        _ => one_topic(),
    })
    .await;
    let mut connection = Connection::connect(&address, "test", PATIENCE).await.unwrap();
    connection.call(&MetadataRequest::default()).await.unwrap();
    assert!(connection.is_usable());
    let silent = broker(|_, request| match request {
        AnyRequest::ApiVersions(_) => versions(&[(ApiKey::Metadata, 0, 13)]),
        // The connection ends with the task that answers on it.
        _ => panic!("this broker answers nothing more"),
    })
    .await;
    let mut client = Client::connect(&[silent], Options::default()).await.unwrap();
    assert!(client.is_usable());
    let error = client.topics(None).await.unwrap_err();
    assert!(error.is_unreachable() && !client.is_usable(), "{error}");
}
