//! The error numbers of Kafka's protocol that Kohort gives.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Defines the enum, its numbers and their names in one list.
macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $kafka:literal;)*) => {
        /// A refusal, as Kafka's protocol numbers it. "No error" is the absence of one of these.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ErrorCode {
            $($(#[$doc])* $name = $number,)*
        }

        impl ErrorCode {
            /// Every code that Kohort knows.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name Kafka's documentation uses.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $kafka,)*
                }
            }

            /// The code with this number; `None` for 0 and for numbers Kohort does not know.
            pub const fn from_number(number: i16) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

error_codes! {
    /// Something failed that has no better number.
    UnknownServerError = -1, "UNKNOWN_SERVER_ERROR";
    /// The offset is below the log's start or beyond its end.
    OffsetOutOfRange = 1, "OFFSET_OUT_OF_RANGE";
    /// A checksum, size or structure in the record batch is wrong.
    CorruptMessage = 2, "CORRUPT_MESSAGE";
    /// No such topic, or the topic has no such partition.
    UnknownTopicOrPartition = 3, "UNKNOWN_TOPIC_OR_PARTITION";
    /// A fetch size that makes no sense.
    InvalidFetchSize = 4, "INVALID_FETCH_SIZE";
    /// The partition has no leader at the moment; try again.
    LeaderNotAvailable = 5, "LEADER_NOT_AVAILABLE";
    /// Another node leads the partition.
    NotLeaderOrFollower = 6, "NOT_LEADER_OR_FOLLOWER";
    /// The request was not finished in its time.
    RequestTimedOut = 7, "REQUEST_TIMED_OUT";
    /// A batch is larger than `max.message.bytes`.
    MessageTooLarge = 10, "MESSAGE_TOO_LARGE";
    /// The metadata of a committed offset is too long.
    OffsetMetadataTooLarge = 12, "OFFSET_METADATA_TOO_LARGE";
    /// The connection to the server broke.
    NetworkException = 13, "NETWORK_EXCEPTION";
    /// Groups are still being read from the log.
    CoordinatorLoadInProgress = 14, "COORDINATOR_LOAD_IN_PROGRESS";
    /// No coordinator can be named at the moment.
    CoordinatorNotAvailable = 15, "COORDINATOR_NOT_AVAILABLE";
    /// Another node coordinates the group.
    NotCoordinator = 16, "NOT_COORDINATOR";
    /// The topic's name is not a legal one, or the topic may not be touched.
    InvalidTopic = 17, "INVALID_TOPIC_EXCEPTION";
    /// The batches are larger than a segment.
    RecordListTooLarge = 18, "RECORD_LIST_TOO_LARGE";
    /// Acks other than -1, 0 and 1.
    InvalidRequiredAcks = 21, "INVALID_REQUIRED_ACKS";
    /// The generation is not the group's current one.
    IllegalGeneration = 22, "ILLEGAL_GENERATION";
    /// The protocol type or the protocols do not fit the group's.
    InconsistentGroupProtocol = 23, "INCONSISTENT_GROUP_PROTOCOL";
    /// The group id is not a legal one.
    InvalidGroupId = 24, "INVALID_GROUP_ID";
    /// The group has no such member.
    UnknownMemberId = 25, "UNKNOWN_MEMBER_ID";
    /// The session timeout is out of the broker's bounds.
    InvalidSessionTimeout = 26, "INVALID_SESSION_TIMEOUT";
    /// The group is rebalancing; join again.
    RebalanceInProgress = 27, "REBALANCE_IN_PROGRESS";
    /// The topic is not for this user.
    TopicAuthorizationFailed = 29, "TOPIC_AUTHORIZATION_FAILED";
    /// The group is not for this user.
    GroupAuthorizationFailed = 30, "GROUP_AUTHORIZATION_FAILED";
    /// The cluster is not for this user.
    ClusterAuthorizationFailed = 31, "CLUSTER_AUTHORIZATION_FAILED";
    /// A timestamp is out of the bounds set for the topic.
    InvalidTimestamp = 32, "INVALID_TIMESTAMP";
    /// The listener does not offer this way to authenticate.
    UnsupportedSaslMechanism = 33, "UNSUPPORTED_SASL_MECHANISM";
    /// A SASL request at a moment when none is expected.
    IllegalSaslState = 34, "ILLEGAL_SASL_STATE";
    /// The version of the API, or a value in it, is not supported.
    UnsupportedVersion = 35, "UNSUPPORTED_VERSION";
    /// A topic of that name exists.
    TopicAlreadyExists = 36, "TOPIC_ALREADY_EXISTS";
    /// A number of partitions that cannot be.
    InvalidPartitions = 37, "INVALID_PARTITIONS";
    /// More replicas than nodes, or less than one.
    InvalidReplicationFactor = 38, "INVALID_REPLICATION_FACTOR";
    /// A manual assignment that does not fit the nodes.
    InvalidReplicaAssignment = 39, "INVALID_REPLICA_ASSIGNMENT";
    /// A setting's name or value is wrong.
    InvalidConfig = 40, "INVALID_CONFIG";
    /// This node is not the controller.
    NotController = 41, "NOT_CONTROLLER";
    /// The request contradicts itself.
    InvalidRequest = 42, "INVALID_REQUEST";
    /// The record batch is of a format that the topic or the request does not take.
    UnsupportedForMessageFormat = 43, "UNSUPPORTED_FOR_MESSAGE_FORMAT";
    /// A policy refuses the request.
    PolicyViolation = 44, "POLICY_VIOLATION";
    /// A producer's sequence number does not follow the last one.
    OutOfOrderSequenceNumber = 45, "OUT_OF_ORDER_SEQUENCE_NUMBER";
    /// The batch was appended before.
    DuplicateSequenceNumber = 46, "DUPLICATE_SEQUENCE_NUMBER";
    /// The producer has been replaced by one with a newer epoch.
    InvalidProducerEpoch = 47, "INVALID_PRODUCER_EPOCH";
    /// The transaction is in no state for this.
    InvalidTxnState = 48, "INVALID_TXN_STATE";
    /// The user may not use this transactional id.
    TransactionalIdAuthorizationFailed = 53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED";
    /// The broker has no authorizer, so there are no ACLs.
    SecurityDisabled = 54, "SECURITY_DISABLED";
    /// The disk refused; nothing was stored.
    KafkaStorageError = 56, "KAFKA_STORAGE_ERROR";
    /// The name, the password or the token is wrong.
    SaslAuthenticationFailed = 58, "SASL_AUTHENTICATION_FAILED";
    /// Nothing is known of this producer.
    UnknownProducerId = 59, "UNKNOWN_PRODUCER_ID";
    /// The group has members.
    NonEmptyGroup = 68, "NON_EMPTY_GROUP";
    /// There is no such group.
    GroupIdNotFound = 69, "GROUP_ID_NOT_FOUND";
    /// The fetch session does not exist (any more).
    FetchSessionIdNotFound = 70, "FETCH_SESSION_ID_NOT_FOUND";
    /// The fetch session is at another epoch.
    InvalidFetchSessionEpoch = 71, "INVALID_FETCH_SESSION_EPOCH";
    /// The broker is set up not to remove topics.
    TopicDeletionDisabled = 73, "TOPIC_DELETION_DISABLED";
    /// The client knows an older leader epoch than the broker.
    FencedLeaderEpoch = 74, "FENCED_LEADER_EPOCH";
    /// The client knows a newer leader epoch than the broker.
    UnknownLeaderEpoch = 75, "UNKNOWN_LEADER_EPOCH";
    /// The codec is not known.
    UnsupportedCompressionType = 76, "UNSUPPORTED_COMPRESSION_TYPE";
    /// Join again with the member id that this answer carries (KIP-394).
    MemberIdRequired = 79, "MEMBER_ID_REQUIRED";
    /// The group has as many members as it may have.
    GroupMaxSizeReached = 81, "GROUP_MAX_SIZE_REACHED";
    /// Another member has taken over this static member's name (KIP-345).
    FencedInstanceId = 82, "FENCED_INSTANCE_ID";
    /// The group reads this topic, so its offsets stay.
    GroupSubscribedToTopic = 86, "GROUP_SUBSCRIBED_TO_TOPIC";
    /// A record in the batch breaks a rule of the topic.
    InvalidRecord = 87, "INVALID_RECORD";
    /// A transaction that is still open has committed this offset.
    UnstableOffsetCommit = 88, "UNSTABLE_OFFSET_COMMIT";
    /// There is no such thing.
    ResourceNotFound = 91, "RESOURCE_NOT_FOUND";
    /// One thing is named twice in a request.
    DuplicateResource = 92, "DUPLICATE_RESOURCE";
    /// The credential cannot be used.
    UnacceptableCredential = 93, "UNACCEPTABLE_CREDENTIAL";
    /// No topic has this id.
    UnknownTopicId = 100, "UNKNOWN_TOPIC_ID";
    /// The id and the name in the request name different topics.
    InconsistentTopicId = 103, "INCONSISTENT_TOPIC_ID";
    /// A fetch session mixes names and ids.
    FetchSessionTopicIdError = 106, "FETCH_SESSION_TOPIC_ID_ERROR";
    /// The request was meant for a controller.
    MismatchedEndpointType = 114, "MISMATCHED_ENDPOINT_TYPE";
    /// No such type of endpoint.
    UnsupportedEndpointType = 115, "UNSUPPORTED_ENDPOINT_TYPE";
}

impl ErrorCode {
    /// The number on the wire.
    pub const fn number(self) -> i16 {
        self as i16
    }

    /// The number on the wire of an outcome: 0 when nothing is wrong.
    pub const fn number_of(error: Option<Self>) -> i16 {
        match error {
            Some(code) => code.number(),
            None => 0,
        }
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.number().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    /// A number that this version does not know is one that a newer one gives: something failed.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        i16::deserialize(deserializer)
            .map(|number| Self::from_number(number).unwrap_or(Self::UnknownServerError))
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name(), self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_by_its_number() {
        for &code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_number(code.number()), Some(code));
        }
        assert_eq!(ErrorCode::from_number(0), None);
    }
}
