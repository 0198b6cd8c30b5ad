//! From a frame to what is to be done with it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use coordination::op::Op;

use crate::api::api_versions::ApiVersionsRequest;
use crate::api::find_coordinator::FindCoordinatorRequest;
use crate::error::DecodeError;
use crate::exchange::{FixedHead, decode_head};
use crate::login::Sasl;
use crate::message::Message;
use crate::reader::Reader;
use crate::table::{AnyResponse, ApiKey};

/// A request, ready to be carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What is needed to answer it.
    pub head: Head,
    /// The client's name for itself.
    pub client_id: ClientId,
    /// What is asked.
    pub body: Body,
}

/// What a gateway keeps of a request in order to answer it.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The API.
    pub api: ApiKey,
    /// The version in which the client spoke and will be answered.
    pub version: i16,
    /// The client's number for the request.
    pub correlation_id: i32,
    /// What the client wants to see in the answer.
    pub(crate) asked: Asked,
}

impl Head {
    /// Whether the client waits for an answer. Only a producer with acks=0 does not.
    pub fn expects_reply(&self) -> bool {
        !self.asked.silence
    }
}

/// A client's name for itself, where it stands in the frame.
///
/// A client sends the same name with every request, so it is compared often and read once. It holds on to the frame:
/// drop it when the request has begun.
#[derive(Clone)]
pub struct ClientId {
    frame: Bytes,
    span: Option<Range<usize>>,
}

impl ClientId {
    /// Whether this is the name that is known already.
    #[inline]
    pub fn is(&self, known: Option<&str>) -> bool {
        self.bytes() == known.map(str::as_bytes)
    }

    /// The name; `None` where the client gave none. What is not UTF-8 in it becomes U+FFFD, as in Kafka.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        self.bytes().map(String::from_utf8_lossy)
    }

    /// All of the frame that it stands in.
    pub(crate) fn frame(&self) -> &[u8] {
        &self.frame
    }

    #[inline]
    fn bytes(&self) -> Option<&[u8]> {
        self.span.clone().map(|span| &self.frame[span])
    }
}

impl PartialEq for ClientId {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

/// What the answer depends on that is no business of the broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// No answer at all.
    pub(crate) silence: bool,
    /// What the user may do with the cluster.
    pub(crate) cluster_operations: bool,
    /// What the user may do with each topic.
    pub(crate) topic_operations: bool,
    /// What the user may do with each group.
    pub(crate) group_operations: bool,
    /// Only committed records, with a list of aborted transactions.
    pub(crate) read_committed: bool,
}

/// What is asked, and of whom.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// For the broker.
    Op(Op),
    /// For [`answer`](crate::answer): no state is needed.
    Local(Local),
    /// For the gateway, which knows whose connection this is.
    Sasl(Sasl),
}

/// A request that is answered without the broker.
#[derive(Clone, Debug, PartialEq)]
pub enum Local {
    /// What can be used.
    ApiVersions(ApiVersionsRequest),
    /// ApiVersions in a version that we do not know.
    UnsupportedApiVersions,
    /// Who coordinates something that is no group.
    FindCoordinator(FindCoordinatorRequest),
    /// A request that contradicts its own version; this is the answer.
    Refused(AnyResponse),
}

/// Reads a request: a frame without the size in front.
///
/// Bytes behind the body are ignored, as a live Kafka ignores them.
pub fn decode_request(frame: Bytes) -> Result<Request, DecodeError> {
    let mut reader = Reader::of_request(frame);
    let (FixedHead { api, version, correlation_id }, span) = decode_head(&mut reader)?;
    let mut asked = Asked::default();
    let body = if api == ApiKey::ApiVersions && !api.versions().contains(&version) {
        Body::Local(Local::UnsupportedApiVersions)
    } else {
        decode_body(api, version, &mut reader, &mut asked)?
    };
    let client_id = ClientId { frame: reader.into_frame(), span };
    Ok(Request { head: Head { api, version, correlation_id, asked }, client_id, body })
}

fn decode_body(
    api: ApiKey,
    version: i16,
    reader: &mut Reader,
    asked: &mut Asked,
) -> Result<Body, DecodeError> {
    use crate::api::*;

    let op = match api {
        ApiKey::Produce => produce::ProduceRequest::decode_from(reader, version)?.into_op(version, asked),
        ApiKey::Fetch => fetch::FetchRequest::decode_from(reader, version)?.into_op(version, asked),
        ApiKey::ListOffsets => {
            list_offsets::ListOffsetsRequest::decode_from(reader, version)?.into_op(version)
        }
        ApiKey::Metadata => {
            return Ok(metadata::MetadataRequest::decode_from(reader, version)?.into_body(version, asked));
        }
        ApiKey::OffsetCommit => {
            offset_commit::OffsetCommitRequest::decode_from(reader, version)?.into_op(version)
        }
        ApiKey::OffsetFetch => {
            offset_fetch::OffsetFetchRequest::decode_from(reader, version)?.into_op(version)
        }
        ApiKey::FindCoordinator => {
            return Ok(FindCoordinatorRequest::decode_from(reader, version)?.into_body(version));
        }
        ApiKey::JoinGroup => join_group::JoinGroupRequest::decode_from(reader, version)?.into_op(version),
        ApiKey::Heartbeat => heartbeat::HeartbeatRequest::decode_from(reader, version)?.into_op(),
        ApiKey::LeaveGroup => leave_group::LeaveGroupRequest::decode_from(reader, version)?.into_op(version),
        ApiKey::SyncGroup => sync_group::SyncGroupRequest::decode_from(reader, version)?.into_op(version),
        ApiKey::DescribeGroups => {
            describe_groups::DescribeGroupsRequest::decode_from(reader, version)?.into_op(asked)
        }
        ApiKey::ListGroups => list_groups::ListGroupsRequest::decode_from(reader, version)?.into_op(),
        ApiKey::SaslHandshake => {
            let request = sasl_handshake::SaslHandshakeRequest::decode_from(reader, version)?;
            return Ok(Body::Sasl(Sasl::Handshake { mechanism: request.mechanism }));
        }
        ApiKey::ApiVersions => {
            let request = ApiVersionsRequest::decode_from(reader, version)?;
            return Ok(Body::Local(Local::ApiVersions(request)));
        }
        ApiKey::CreateTopics => create_topics::CreateTopicsRequest::decode_from(reader, version)?.into_op(),
        ApiKey::DeleteTopics => {
            delete_topics::DeleteTopicsRequest::decode_from(reader, version)?.into_op(version)
        }
        ApiKey::DeleteRecords => {
            delete_records::DeleteRecordsRequest::decode_from(reader, version)?.into_op()
        }
        ApiKey::InitProducerId => {
            init_producer_id::InitProducerIdRequest::decode_from(reader, version)?.into_op()
        }
        ApiKey::OffsetForLeaderEpoch => {
            offset_for_leader_epoch::OffsetForLeaderEpochRequest::decode_from(reader, version)?.into_op()
        }
        ApiKey::DescribeAcls => describe_acls::DescribeAclsRequest::decode_from(reader, version)?.into_op(),
        ApiKey::CreateAcls => create_acls::CreateAclsRequest::decode_from(reader, version)?.into_op(),
        ApiKey::DeleteAcls => delete_acls::DeleteAclsRequest::decode_from(reader, version)?.into_op(),
        ApiKey::DescribeConfigs => {
            describe_configs::DescribeConfigsRequest::decode_from(reader, version)?.into_op()
        }
        ApiKey::AlterConfigs => alter_configs::AlterConfigsRequest::decode_from(reader, version)?.into_op(),
        ApiKey::DescribeLogDirs => {
            describe_log_dirs::DescribeLogDirsRequest::decode_from(reader, version)?.into_op()
        }
        ApiKey::SaslAuthenticate => {
            let request = sasl_authenticate::SaslAuthenticateRequest::decode_from(reader, version)?;
            return Ok(Body::Sasl(Sasl::Authenticate { auth_bytes: request.auth_bytes }));
        }
        ApiKey::CreatePartitions => {
            create_partitions::CreatePartitionsRequest::decode_from(reader, version)?.into_op()
        }
        ApiKey::DeleteGroups => delete_groups::DeleteGroupsRequest::decode_from(reader, version)?.into_op(),
        ApiKey::IncrementalAlterConfigs => {
            incremental_alter_configs::IncrementalAlterConfigsRequest::decode_from(reader, version)?.into_op()
        }
        ApiKey::ListPartitionReassignments => {
            list_partition_reassignments::ListPartitionReassignmentsRequest::decode_from(reader, version)?
                .into_op()
        }
        ApiKey::OffsetDelete => offset_delete::OffsetDeleteRequest::decode_from(reader, version)?.into_op(),
        ApiKey::DescribeClientQuotas => {
            describe_client_quotas::DescribeClientQuotasRequest::decode_from(reader, version)?.into_op()
        }
        ApiKey::DescribeUserScramCredentials => {
            describe_user_scram_credentials::DescribeUserScramCredentialsRequest::decode_from(
                reader, version,
            )?
            .into_op()
        }
        ApiKey::AlterUserScramCredentials => {
            alter_user_scram_credentials::AlterUserScramCredentialsRequest::decode_from(reader, version)?
                .into_op()
        }
        ApiKey::DescribeCluster => {
            describe_cluster::DescribeClusterRequest::decode_from(reader, version)?.into_op(asked)
        }
        ApiKey::DescribeTopicPartitions => {
            describe_topic_partitions::DescribeTopicPartitionsRequest::decode_from(reader, version)?.into_op()
        }
        // What is only asked is never found by its number.
        ApiKey::ConsumerGroupDescribe => return Err(DecodeError::UnknownApi { key: api.number() }),
    };
    Ok(Body::Op(op))
}
