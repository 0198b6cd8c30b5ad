//! Every message in every version, held against another implementation and against hostile bytes.
//!
//! The crate `kafka-protocol` is generated from Kafka's own schemas and knows nothing of our descriptions,
//! so what both agree on is right.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable, Message as Theirs};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::api::*;
use crate::arbitrary::Entropy;
use crate::error::{DecodeError, Problem};
use crate::message::Message;
use crate::reader::Reader;
use crate::writer::Writer;

/// Makes tests for each message, given ours and theirs.
macro_rules! messages {
    ($($name:ident: $ours:ty, $theirs:ty;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn agrees_with_the_other_implementation() {
                agrees::<$ours, $theirs>();
            }

            #[test]
            fn survives_a_round_trip_in_every_version() {
                round_trips::<$ours>();
            }

            #[test]
            fn refuses_what_is_cut_short_and_outlives_what_is_garbled() {
                outlives_hostile_bytes::<$ours>();
            }
        }
    )*};
}

messages! {
    produce_request: produce::ProduceRequest, theirs::ProduceRequest;
    produce_response: produce::ProduceResponse, theirs::ProduceResponse;
    fetch_request: fetch::FetchRequest, theirs::FetchRequest;
    fetch_response: fetch::FetchResponse, theirs::FetchResponse;
    list_offsets_request: list_offsets::ListOffsetsRequest, theirs::ListOffsetsRequest;
    list_offsets_response: list_offsets::ListOffsetsResponse, theirs::ListOffsetsResponse;
    metadata_request: metadata::MetadataRequest, theirs::MetadataRequest;
    metadata_response: metadata::MetadataResponse, theirs::MetadataResponse;
    find_coordinator_request: find_coordinator::FindCoordinatorRequest, theirs::FindCoordinatorRequest;
    find_coordinator_response: find_coordinator::FindCoordinatorResponse, theirs::FindCoordinatorResponse;
    api_versions_request: api_versions::ApiVersionsRequest, theirs::ApiVersionsRequest;
    api_versions_response: api_versions::ApiVersionsResponse, theirs::ApiVersionsResponse;
    create_topics_request: create_topics::CreateTopicsRequest, theirs::CreateTopicsRequest;
    create_topics_response: create_topics::CreateTopicsResponse, theirs::CreateTopicsResponse;
    delete_topics_request: delete_topics::DeleteTopicsRequest, theirs::DeleteTopicsRequest;
    delete_topics_response: delete_topics::DeleteTopicsResponse, theirs::DeleteTopicsResponse;
    delete_records_request: delete_records::DeleteRecordsRequest, theirs::DeleteRecordsRequest;
    delete_records_response: delete_records::DeleteRecordsResponse, theirs::DeleteRecordsResponse;
    init_producer_id_request: init_producer_id::InitProducerIdRequest, theirs::InitProducerIdRequest;
    init_producer_id_response: init_producer_id::InitProducerIdResponse, theirs::InitProducerIdResponse;
    offset_for_leader_epoch_request:
        offset_for_leader_epoch::OffsetForLeaderEpochRequest, theirs::OffsetForLeaderEpochRequest;
    offset_for_leader_epoch_response:
        offset_for_leader_epoch::OffsetForLeaderEpochResponse, theirs::OffsetForLeaderEpochResponse;
    describe_configs_request: describe_configs::DescribeConfigsRequest, theirs::DescribeConfigsRequest;
    describe_configs_response: describe_configs::DescribeConfigsResponse, theirs::DescribeConfigsResponse;
    alter_configs_request: alter_configs::AlterConfigsRequest, theirs::AlterConfigsRequest;
    alter_configs_response: alter_configs::AlterConfigsResponse, theirs::AlterConfigsResponse;
    describe_log_dirs_request: describe_log_dirs::DescribeLogDirsRequest, theirs::DescribeLogDirsRequest;
    describe_log_dirs_response: describe_log_dirs::DescribeLogDirsResponse, theirs::DescribeLogDirsResponse;
    create_partitions_request: create_partitions::CreatePartitionsRequest, theirs::CreatePartitionsRequest;
    create_partitions_response: create_partitions::CreatePartitionsResponse, theirs::CreatePartitionsResponse;
    incremental_alter_configs_request:
        incremental_alter_configs::IncrementalAlterConfigsRequest, theirs::IncrementalAlterConfigsRequest;
    incremental_alter_configs_response:
        incremental_alter_configs::IncrementalAlterConfigsResponse, theirs::IncrementalAlterConfigsResponse;
    list_partition_reassignments_request:
        list_partition_reassignments::ListPartitionReassignmentsRequest,
        theirs::ListPartitionReassignmentsRequest;
    list_partition_reassignments_response:
        list_partition_reassignments::ListPartitionReassignmentsResponse,
        theirs::ListPartitionReassignmentsResponse;
    describe_cluster_request: describe_cluster::DescribeClusterRequest, theirs::DescribeClusterRequest;
    describe_cluster_response: describe_cluster::DescribeClusterResponse, theirs::DescribeClusterResponse;
    describe_topic_partitions_request:
        describe_topic_partitions::DescribeTopicPartitionsRequest, theirs::DescribeTopicPartitionsRequest;
    describe_topic_partitions_response:
        describe_topic_partitions::DescribeTopicPartitionsResponse, theirs::DescribeTopicPartitionsResponse;
    offset_commit_request: offset_commit::OffsetCommitRequest, theirs::OffsetCommitRequest;
    offset_commit_response: offset_commit::OffsetCommitResponse, theirs::OffsetCommitResponse;
    offset_fetch_request: offset_fetch::OffsetFetchRequest, theirs::OffsetFetchRequest;
    offset_fetch_response: offset_fetch::OffsetFetchResponse, theirs::OffsetFetchResponse;
    join_group_request: join_group::JoinGroupRequest, theirs::JoinGroupRequest;
    join_group_response: join_group::JoinGroupResponse, theirs::JoinGroupResponse;
    heartbeat_request: heartbeat::HeartbeatRequest, theirs::HeartbeatRequest;
    heartbeat_response: heartbeat::HeartbeatResponse, theirs::HeartbeatResponse;
    leave_group_request: leave_group::LeaveGroupRequest, theirs::LeaveGroupRequest;
    leave_group_response: leave_group::LeaveGroupResponse, theirs::LeaveGroupResponse;
    sync_group_request: sync_group::SyncGroupRequest, theirs::SyncGroupRequest;
    sync_group_response: sync_group::SyncGroupResponse, theirs::SyncGroupResponse;
    describe_groups_request: describe_groups::DescribeGroupsRequest, theirs::DescribeGroupsRequest;
    describe_groups_response: describe_groups::DescribeGroupsResponse, theirs::DescribeGroupsResponse;
    list_groups_request: list_groups::ListGroupsRequest, theirs::ListGroupsRequest;
    list_groups_response: list_groups::ListGroupsResponse, theirs::ListGroupsResponse;
    delete_groups_request: delete_groups::DeleteGroupsRequest, theirs::DeleteGroupsRequest;
    delete_groups_response: delete_groups::DeleteGroupsResponse, theirs::DeleteGroupsResponse;
    consumer_group_describe_request:
        consumer_group_describe::ConsumerGroupDescribeRequest, theirs::ConsumerGroupDescribeRequest;
    consumer_group_describe_response:
        consumer_group_describe::ConsumerGroupDescribeResponse, theirs::ConsumerGroupDescribeResponse;
    offset_delete_request: offset_delete::OffsetDeleteRequest, theirs::OffsetDeleteRequest;
    offset_delete_response: offset_delete::OffsetDeleteResponse, theirs::OffsetDeleteResponse;
    sasl_handshake_request: sasl_handshake::SaslHandshakeRequest, theirs::SaslHandshakeRequest;
    sasl_handshake_response: sasl_handshake::SaslHandshakeResponse, theirs::SaslHandshakeResponse;
    sasl_authenticate_request: sasl_authenticate::SaslAuthenticateRequest, theirs::SaslAuthenticateRequest;
    sasl_authenticate_response: sasl_authenticate::SaslAuthenticateResponse, theirs::SaslAuthenticateResponse;
    describe_acls_request: describe_acls::DescribeAclsRequest, theirs::DescribeAclsRequest;
    describe_acls_response: describe_acls::DescribeAclsResponse, theirs::DescribeAclsResponse;
    create_acls_request: create_acls::CreateAclsRequest, theirs::CreateAclsRequest;
    create_acls_response: create_acls::CreateAclsResponse, theirs::CreateAclsResponse;
    delete_acls_request: delete_acls::DeleteAclsRequest, theirs::DeleteAclsRequest;
    delete_acls_response: delete_acls::DeleteAclsResponse, theirs::DeleteAclsResponse;
    describe_client_quotas_request: describe_client_quotas::DescribeClientQuotasRequest, theirs::DescribeClientQuotasRequest;
    describe_client_quotas_response: describe_client_quotas::DescribeClientQuotasResponse, theirs::DescribeClientQuotasResponse;
    describe_user_scram_credentials_request: describe_user_scram_credentials::DescribeUserScramCredentialsRequest, theirs::DescribeUserScramCredentialsRequest;
    describe_user_scram_credentials_response: describe_user_scram_credentials::DescribeUserScramCredentialsResponse, theirs::DescribeUserScramCredentialsResponse;
    alter_user_scram_credentials_request: alter_user_scram_credentials::AlterUserScramCredentialsRequest, theirs::AlterUserScramCredentialsRequest;
    alter_user_scram_credentials_response: alter_user_scram_credentials::AlterUserScramCredentialsResponse, theirs::AlterUserScramCredentialsResponse;
}

/// Versions of Kafka 4.3 that the other implementation does not know yet.
const BEYOND_THE_ORACLE: [(&str, i16); 4] =
    [("ListOffsets", 11), ("DescribeLogDirs", 5), ("OffsetCommit", 10), ("OffsetFetch", 10)];

const CASES_PER_VERSION: u32 = 32;

/// Runs `check` on values of every version that we support.
fn for_values<M: Message>(check: impl Fn(&M, i16)) {
    for version in M::API.versions() {
        let mut runner = TestRunner::new_with_rng(
            Config { cases: CASES_PER_VERSION, failure_persistence: None, ..Config::default() },
            proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
        );
        let entropy = proptest::collection::vec(any::<u8>(), 0..400);
        let ran = runner.run(&entropy, |entropy| {
            let value = M::arbitrary(&mut Entropy::new(&entropy), M::API.at(version));
            check(&value, version);
            Ok(())
        });
        if let Err(failure) = ran {
            panic!("{} version {version}: {failure}", M::NAME);
        }
    }
}

fn encoded<M: Message>(value: &M, version: i16) -> Bytes {
    let mut writer = Writer::frame();
    value.encode(&mut writer, version);
    writer.finish().into_content()
}

/// Reads a value and checks that nothing is left.
fn decoded<M: Message>(bytes: Bytes, version: i16) -> M {
    let mut reader = Reader::new(bytes);
    let value = M::decode_from(&mut reader, version).expect("what was written can be read");
    assert_eq!(reader.left(), 0, "all of it was read");
    value
}

fn agrees<M: Message, T: Theirs + Encodable + Decodable>() {
    for_values::<M>(|value, version| {
        if version > T::VERSIONS.max {
            assert!(BEYOND_THE_ORACLE.contains(&(M::API.name(), version)), "version {version}");
            return;
        }
        let ours = encoded(value, version);
        let mut rest = ours.clone();
        let understood = T::decode(&mut rest, version).expect("the other implementation reads our bytes");
        assert!(rest.is_empty(), "the other implementation reads all of our bytes");
        let mut theirs = BytesMut::new();
        understood.encode(&mut theirs, version).expect("the other implementation writes the same value");
        assert_eq!(ours, theirs, "both write the same bytes");
        assert_eq!(&decoded::<M>(theirs.freeze(), version), value, "we read their bytes");
    });
}

fn round_trips<M: Message>() {
    for_values::<M>(|value, version| {
        assert_eq!(&decoded::<M>(encoded(value, version), version), value);

        let mut writer = Writer::frame();
        writer.unknown_tags = true;
        value.encode(&mut writer, version);
        let extended = writer.finish().into_content();
        assert_eq!(&decoded::<M>(extended, version), value, "unknown tagged fields are skipped");
    });
}

/// Cutting or changing bytes gives an error or another value, never a panic.
fn outlives_hostile_bytes<M: Message>() {
    for_values::<M>(|value, version| {
        let bytes = encoded(value, version);
        // Every place in a short message; in a long one, places spread over it.
        let step = bytes.len() / 100 + 1;
        for length in (0..bytes.len()).step_by(step) {
            let cut = M::decode(bytes.slice(..length), version);
            assert!(cut.is_err(), "{length} of {} bytes are not a message: {cut:?}", bytes.len());
        }
        for position in (0..bytes.len()).step_by(step) {
            for byte in [0, 0x7f, 0xff, bytes[position] ^ 1] {
                let mut garbled = bytes.to_vec();
                garbled[position] = byte;
                if let Ok(other) = M::decode(garbled.into(), version) {
                    assert_eq!(decoded::<M>(encoded(&other, version), version), other);
                }
            }
        }
    });
}

#[test]
fn a_huge_array_is_refused_before_anything_is_allocated_for_it() {
    // The body of a Metadata request that claims two thousand million topics.
    let huge = metadata::MetadataRequest::decode(Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff]), 1);
    let Err(DecodeError::Malformed { problem, place }) = huge else { panic!("{huge:?}") };
    assert_eq!(problem, Problem::TooManyElements { count: 0x7fff_ffff, left: 0 });
    assert_eq!(place.to_string(), "MetadataRequest.topics");
}

#[test]
fn a_frame_full_of_empty_elements_does_not_become_gigabytes() {
    // 32 MiB that claim 16 million topics without a name; each would take 40 bytes in memory.
    let count: u32 = 16 << 20;
    let mut writer = Writer::frame();
    writer.unsigned_varint(count + 1);
    let mut body = writer.finish().into_content().to_vec();
    body.resize(body.len() + 2 * count as usize, 1);
    let decoded = metadata::MetadataRequest::decode(body.into(), 9);
    assert!(
        matches!(decoded, Err(DecodeError::Malformed { problem: Problem::TooExpensive, .. })),
        "{decoded:?}"
    );
}
