//! The one table of APIs: number, versions, flexibility and the messages of each.
//!
//! ApiVersions is answered from it, requests are accepted by it, and the tests go through it. An API without advertised
//! versions is one that our client asks of other brokers and that we do not answer.

use std::ops::RangeInclusive;

use bytes::Bytes;

use crate::api;
use crate::error::DecodeError;
use crate::field::At;
use crate::message::{Message, RequestMessage};
use crate::writer::Writer;

/// The second of two, where there is a first: how the table picks the APIs that are advertised.
macro_rules! answered {
    ($advertised:literal, $api:expr) => {
        $api
    };
}

macro_rules! table {
    ($(
        $name:ident = $key:literal, $first:literal ..= $last:literal,
        $(advertised $advertised:literal,)? flexible $flexible:literal,
        $module:ident: $request:ident => $response:ident;
    )*) => {
        /// An API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ApiKey {
            $(
                #[doc = concat!("Versions ", stringify!($first), " to ", stringify!($last), ".")]
                $name = $key,
            )*
        }

        impl ApiKey {
            /// All that we answer, by number.
            pub const ANSWERED: &[Self] = &[$($(answered!($advertised, Self::$name),)?)*];

            /// The API with this number, if we answer it.
            #[inline]
            pub const fn from_number(key: i16) -> Option<Self> {
                match key {
                    $($($key => Some(answered!($advertised, Self::$name)),)?)*
                    _ => None,
                }
            }

            /// Kafka's name for it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The versions that we understand.
            #[inline]
            pub const fn versions(self) -> RangeInclusive<i16> {
                match self {
                    $(Self::$name => $first..=$last,)*
                }
            }

            /// The versions that ApiVersions shows. They begin earlier than [`ApiKey::versions`] for Produce
            /// alone, as in Kafka: some versions of librdkafka switch features off unless it begins at 0.
            /// None for an API that we only ask.
            pub const fn advertised(self) -> Option<RangeInclusive<i16>> {
                match self {
                    $($(Self::$name => Some($advertised..=$last),)?)*
                    _ => None,
                }
            }

            /// Whether the version has compact lengths and tagged fields.
            #[inline]
            pub const fn is_flexible(self, version: i16) -> bool {
                match self {
                    $(Self::$name => version >= $flexible,)*
                }
            }
        }

        $(
            impl Message for api::$module::$request {
                const API: ApiKey = ApiKey::$name;
                const NAME: &'static str = stringify!($request);
            }

            impl RequestMessage for api::$module::$request {
                type Response = api::$module::$response;
            }

            impl Message for api::$module::$response {
                const API: ApiKey = ApiKey::$name;
                const NAME: &'static str = stringify!($response);
            }
        )*

        /// The body of any request.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each variant is named for its API")]
        pub enum AnyRequest {
            $($name(api::$module::$request),)*
        }

        impl AnyRequest {
            /// Reads the body of a request.
            pub fn decode(api: ApiKey, version: i16, body: Bytes) -> Result<Self, DecodeError> {
                match api {
                    $(ApiKey::$name => api::$module::$request::decode(body, version).map(Self::$name),)*
                }
            }

            /// Writes the body.
            pub fn encode(&self, writer: &mut Writer, version: i16) {
                match self {
                    $(Self::$name(body) => body.encode(writer, version),)*
                }
            }

            /// The API it belongs to.
            pub const fn api(&self) -> ApiKey {
                match self {
                    $(Self::$name(_) => ApiKey::$name,)*
                }
            }
        }

        /// The body of any response.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each variant is named for its API")]
        pub enum AnyResponse {
            $($name(api::$module::$response),)*
        }

        impl AnyResponse {
            /// Reads the body of a response.
            pub fn decode(api: ApiKey, version: i16, body: Bytes) -> Result<Self, DecodeError> {
                match api {
                    $(ApiKey::$name => api::$module::$response::decode(body, version).map(Self::$name),)*
                }
            }

            /// Writes the body.
            pub fn encode(&self, writer: &mut Writer, version: i16) {
                match self {
                    $(Self::$name(body) => body.encode(writer, version),)*
                }
            }

            /// The API it belongs to.
            pub const fn api(&self) -> ApiKey {
                match self {
                    $(Self::$name(_) => ApiKey::$name,)*
                }
            }
        }

        $(
            impl From<api::$module::$request> for AnyRequest {
                fn from(body: api::$module::$request) -> Self {
                    Self::$name(body)
                }
            }

            impl From<api::$module::$response> for AnyResponse {
                fn from(body: api::$module::$response) -> Self {
                    Self::$name(body)
                }
            }
        )*
    };
}

table! {
    Produce = 0, 3..=13, advertised 0, flexible 9, produce: ProduceRequest => ProduceResponse;
    Fetch = 1, 4..=18, advertised 4, flexible 12, fetch: FetchRequest => FetchResponse;
    ListOffsets = 2, 1..=11, advertised 1, flexible 6, list_offsets: ListOffsetsRequest => ListOffsetsResponse;
    Metadata = 3, 0..=13, advertised 0, flexible 9, metadata: MetadataRequest => MetadataResponse;
    OffsetCommit = 8, 2..=10, advertised 2, flexible 8,
        offset_commit: OffsetCommitRequest => OffsetCommitResponse;
    OffsetFetch = 9, 1..=10, advertised 1, flexible 6, offset_fetch: OffsetFetchRequest => OffsetFetchResponse;
    FindCoordinator = 10, 0..=6, advertised 0, flexible 3,
        find_coordinator: FindCoordinatorRequest => FindCoordinatorResponse;
    JoinGroup = 11, 0..=9, advertised 0, flexible 6, join_group: JoinGroupRequest => JoinGroupResponse;
    Heartbeat = 12, 0..=4, advertised 0, flexible 4, heartbeat: HeartbeatRequest => HeartbeatResponse;
    LeaveGroup = 13, 0..=5, advertised 0, flexible 4, leave_group: LeaveGroupRequest => LeaveGroupResponse;
    SyncGroup = 14, 0..=5, advertised 0, flexible 4, sync_group: SyncGroupRequest => SyncGroupResponse;
    DescribeGroups = 15, 0..=6, advertised 0, flexible 5,
        describe_groups: DescribeGroupsRequest => DescribeGroupsResponse;
    ListGroups = 16, 0..=5, advertised 0, flexible 3, list_groups: ListGroupsRequest => ListGroupsResponse;
    SaslHandshake = 17, 0..=1, advertised 0, flexible 2,
        sasl_handshake: SaslHandshakeRequest => SaslHandshakeResponse;
    ApiVersions = 18, 0..=4, advertised 0, flexible 3, api_versions: ApiVersionsRequest => ApiVersionsResponse;
    CreateTopics = 19, 2..=7, advertised 2, flexible 5,
        create_topics: CreateTopicsRequest => CreateTopicsResponse;
    DeleteTopics = 20, 1..=6, advertised 1, flexible 4,
        delete_topics: DeleteTopicsRequest => DeleteTopicsResponse;
    DeleteRecords = 21, 0..=2, advertised 0, flexible 2,
        delete_records: DeleteRecordsRequest => DeleteRecordsResponse;
    InitProducerId = 22, 0..=5, advertised 0, flexible 2,
        init_producer_id: InitProducerIdRequest => InitProducerIdResponse;
    OffsetForLeaderEpoch = 23, 2..=4, advertised 2, flexible 4,
        offset_for_leader_epoch: OffsetForLeaderEpochRequest => OffsetForLeaderEpochResponse;
    DescribeAcls = 29, 1..=3, advertised 1, flexible 2,
        describe_acls: DescribeAclsRequest => DescribeAclsResponse;
    CreateAcls = 30, 1..=3, advertised 1, flexible 2, create_acls: CreateAclsRequest => CreateAclsResponse;
    DeleteAcls = 31, 1..=3, advertised 1, flexible 2, delete_acls: DeleteAclsRequest => DeleteAclsResponse;
    DescribeConfigs = 32, 1..=4, advertised 1, flexible 4,
        describe_configs: DescribeConfigsRequest => DescribeConfigsResponse;
    AlterConfigs = 33, 0..=2, advertised 0, flexible 2,
        alter_configs: AlterConfigsRequest => AlterConfigsResponse;
    DescribeLogDirs = 35, 1..=5, advertised 1, flexible 2,
        describe_log_dirs: DescribeLogDirsRequest => DescribeLogDirsResponse;
    SaslAuthenticate = 36, 0..=2, advertised 0, flexible 2,
        sasl_authenticate: SaslAuthenticateRequest => SaslAuthenticateResponse;
    CreatePartitions = 37, 0..=3, advertised 0, flexible 2,
        create_partitions: CreatePartitionsRequest => CreatePartitionsResponse;
    DeleteGroups = 42, 0..=2, advertised 0, flexible 2,
        delete_groups: DeleteGroupsRequest => DeleteGroupsResponse;
    IncrementalAlterConfigs = 44, 0..=1, advertised 0, flexible 1,
        incremental_alter_configs: IncrementalAlterConfigsRequest => IncrementalAlterConfigsResponse;
    ListPartitionReassignments = 46, 0..=0, advertised 0, flexible 0,
        list_partition_reassignments: ListPartitionReassignmentsRequest => ListPartitionReassignmentsResponse;
    OffsetDelete = 47, 0..=0, advertised 0, flexible 1,
        offset_delete: OffsetDeleteRequest => OffsetDeleteResponse;
    DescribeClientQuotas = 48, 0..=1, advertised 0, flexible 1,
        describe_client_quotas: DescribeClientQuotasRequest => DescribeClientQuotasResponse;
    DescribeUserScramCredentials = 50, 0..=0, advertised 0, flexible 0,
        describe_user_scram_credentials:
            DescribeUserScramCredentialsRequest => DescribeUserScramCredentialsResponse;
    AlterUserScramCredentials = 51, 0..=0, advertised 0, flexible 0,
        alter_user_scram_credentials: AlterUserScramCredentialsRequest => AlterUserScramCredentialsResponse;
    DescribeCluster = 60, 0..=2, advertised 0, flexible 0,
        describe_cluster: DescribeClusterRequest => DescribeClusterResponse;
    ConsumerGroupDescribe = 69, 0..=1, flexible 0,
        consumer_group_describe: ConsumerGroupDescribeRequest => ConsumerGroupDescribeResponse;
    DescribeTopicPartitions = 75, 0..=0, advertised 0, flexible 0,
        describe_topic_partitions: DescribeTopicPartitionsRequest => DescribeTopicPartitionsResponse;
}

impl ApiKey {
    /// The number on the wire.
    #[inline]
    pub const fn number(self) -> i16 {
        self as i16
    }

    /// Whether the header of a response has tagged fields. It has whenever the body has, but for
    /// ApiVersions: its answer must be readable by a client that does not yet know what we speak.
    #[inline]
    pub const fn has_tagged_response_header(self, version: i16) -> bool {
        self.is_flexible(version) && !matches!(self, Self::ApiVersions)
    }

    #[inline]
    pub(crate) const fn at(self, version: i16) -> At {
        At { version, flexible: self.is_flexible(version), nullable: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apis_are_listed_by_number_and_found_by_it() {
        assert!(ApiKey::ANSWERED.is_sorted());
        for &api in ApiKey::ANSWERED {
            assert_eq!(ApiKey::from_number(api.number()), Some(api));
            let advertised = api.advertised().expect("what is answered is advertised");
            assert!(advertised.start() <= api.versions().start());
            assert_eq!(advertised.end(), api.versions().end());
        }
        assert_eq!(ApiKey::from_number(4), None);
    }

    #[test]
    fn what_is_only_asked_is_neither_advertised_nor_answered() {
        let asked = ApiKey::ConsumerGroupDescribe;
        assert!(!ApiKey::ANSWERED.contains(&asked));
        assert_eq!((ApiKey::from_number(asked.number()), asked.advertised()), (None, None));
    }
}
