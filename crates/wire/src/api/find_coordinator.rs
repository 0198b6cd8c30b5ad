//! FindCoordinator (10): who coordinates a group. Answered by the gateway, which names itself: any gateway
//! reaches every group.

use coordination::error_code::ErrorCode;
use coordination::reply::NO_TRANSACTIONS;

use crate::message::message;
use crate::reply::Addresses;

message! {
    /// Asks who coordinates a group or transaction: one of them, or since version 4 several.
    pub struct FindCoordinatorRequest {
        key: String [0-3],
        key_type: i8 [1+],
        coordinator_keys: Vec<String> [4+],
    }

    /// The coordinator, or since version 4 one for each key.
    pub struct FindCoordinatorResponse {
        throttle_time_ms: i32 [1+],
        error_code: i16 [0-3],
        error_message: Option<String> [1-3, null 1-3],
        node_id: i32 [0-3],
        host: String [0-3],
        port: i32 [0-3],
        coordinators: Vec<Coordinator> [4+],
    }

    /// The coordinator of one key.
    pub struct Coordinator {
        key: String [4+],
        node_id: i32 [4+],
        host: String [4+],
        port: i32 [4+],
        error_code: i16 [4+],
        error_message: Option<String> [4+, null 4+],
    }
}

/// The kinds of coordinator that can be asked for.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

/// What Kafka says to every invalid request.
const INVALID_REQUEST: &str = "This most likely occurs because of a request being malformed by the client \
    library or the message was sent to an incompatible broker. See the broker logs for more details.";

pub(crate) fn response(
    request: FindCoordinatorRequest,
    version: i16,
    addresses: &Addresses,
) -> FindCoordinatorResponse {
    let found = find(request.key_type, version);
    if version >= 4 {
        let coordinator = |key| coordinator(key, found, addresses);
        return FindCoordinatorResponse {
            coordinators: request.coordinator_keys.into_iter().map(coordinator).collect(),
            ..FindCoordinatorResponse::default()
        };
    }
    let only = coordinator(request.key, found, addresses);
    FindCoordinatorResponse {
        error_code: only.error_code,
        // A live Kafka 4.3 writes the name of "no error" in these versions, and nothing in later ones.
        error_message: if only.error_code == 0 { Some("NONE".to_owned()) } else { only.error_message },
        node_id: only.node_id,
        host: only.host,
        port: only.port,
        ..FindCoordinatorResponse::default()
    }
}

/// Whether we coordinate this kind of thing, or the error and the sentence that say why not.
fn find(key_type: i8, version: i16) -> Result<(), (ErrorCode, &'static str)> {
    match key_type {
        GROUP => Ok(()),
        // The clients that speak up to version 3 (librdkafka, Sarama, kafkajs) ask again for ever on most
        // errors, but give up on this one. Those that speak newer ones (Java, franz-go) give up on any
        // error that they do not expect and show its message.
        TRANSACTION if version < 4 => Err((ErrorCode::TransactionalIdAuthorizationFailed, NO_TRANSACTIONS)),
        TRANSACTION => Err((ErrorCode::UnsupportedVersion, NO_TRANSACTIONS)),
        // A shared partition, but a key that names none.
        SHARE if version >= 4 => Err((ErrorCode::InvalidRequest, "")),
        _ => Err((ErrorCode::InvalidRequest, INVALID_REQUEST)),
    }
}

fn coordinator(
    key: String,
    found: Result<(), (ErrorCode, &'static str)>,
    addresses: &Addresses,
) -> Coordinator {
    match found {
        Ok(()) => Coordinator {
            key,
            node_id: addresses.node_id,
            host: addresses.host.clone(),
            port: i32::from(addresses.port),
            error_code: 0,
            error_message: Some(String::new()),
        },
        Err((error, message)) => Coordinator {
            key,
            node_id: -1,
            host: String::new(),
            port: -1,
            error_code: error.number(),
            error_message: Some(message.to_owned()),
        },
    }
}
