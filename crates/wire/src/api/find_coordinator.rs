//! FindCoordinator (10): who coordinates a group. The broker says whether the user may know of it; the gateway names
//! itself, since any gateway reaches every group.

use coordination::error_code::ErrorCode;
use coordination::op::{self, Op};
use coordination::reply::{self, NO_TRANSACTIONS, Refusal};

use crate::addresses::Addresses;
use crate::message::message;
use crate::request::{Body, Local};

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

/// Since this version several keys can be asked for at once.
const SEVERAL: i16 = 4;

impl FindCoordinatorRequest {
    pub(crate) fn into_body(self, version: i16) -> Body {
        if self.key_type != GROUP {
            return Body::Local(Local::FindCoordinator(self));
        }
        Body::Op(Op::FindCoordinator(op::FindCoordinator { groups: self.keys(version) }))
    }

    fn keys(self, version: i16) -> Vec<String> {
        if version >= SEVERAL { self.coordinator_keys } else { vec![self.key] }
    }
}

pub(crate) fn response(
    reply: reply::FindCoordinator,
    version: i16,
    addresses: &Addresses,
) -> FindCoordinatorResponse {
    let found = |(key, refusal): (String, Option<Refusal>)| match refusal {
        None => Coordinator {
            key,
            node_id: addresses.node_id,
            host: addresses.host.clone(),
            port: i32::from(addresses.port),
            error_code: 0,
            // A live Kafka 4.3 writes the name of "no error" in the older versions, and nothing in later ones.
            error_message: Some(if version >= SEVERAL { "" } else { "NONE" }.to_owned()),
        },
        Some(refusal) => {
            let code = refusal.code;
            let said = refusal.message.unwrap_or_else(|| said(code, version).to_owned());
            nowhere(key, code, said)
        }
    };
    shown(reply.groups.into_iter().map(found).collect(), version)
}

/// The answer to whoever looks for the coordinator of anything but groups.
pub(crate) fn refused(request: FindCoordinatorRequest, version: i16) -> FindCoordinatorResponse {
    let (error, message) = why_none(request.key_type, version);
    let refuse = |key| nowhere(key, error, message.to_owned());
    shown(request.keys(version).into_iter().map(refuse).collect(), version)
}

/// The error and the sentence that say why we coordinate none of this kind.
fn why_none(key_type: i8, version: i16) -> (ErrorCode, &'static str) {
    match key_type {
        // The clients that speak up to version 3 (librdkafka, Sarama, kafkajs) ask again for ever on most
        // errors, but give up on this one. Those that speak newer ones (Java, franz-go) give up on any
        // error that they do not expect and show its message.
        TRANSACTION if version < SEVERAL => (ErrorCode::TransactionalIdAuthorizationFailed, NO_TRANSACTIONS),
        TRANSACTION => (ErrorCode::UnsupportedVersion, NO_TRANSACTIONS),
        // A shared partition, but a key that names none.
        SHARE if version >= SEVERAL => (ErrorCode::InvalidRequest, ""),
        _ => (ErrorCode::InvalidRequest, INVALID_REQUEST),
    }
}

/// What Kafka says of an error: its usual sentence in the older versions, and nothing in later ones.
fn said(code: ErrorCode, version: i16) -> &'static str {
    match code {
        _ if version >= SEVERAL => "",
        ErrorCode::GroupAuthorizationFailed => "Group authorization failed.",
        ErrorCode::CoordinatorNotAvailable => "The coordinator is not available.",
        code => code.name(),
    }
}

fn nowhere(key: String, error: ErrorCode, message: String) -> Coordinator {
    Coordinator {
        key,
        node_id: -1,
        host: String::new(),
        port: -1,
        error_code: error.number(),
        error_message: Some(message),
    }
}

fn shown(mut coordinators: Vec<Coordinator>, version: i16) -> FindCoordinatorResponse {
    if version >= SEVERAL {
        return FindCoordinatorResponse { coordinators, ..FindCoordinatorResponse::default() };
    }
    let only = coordinators.pop().unwrap_or_default();
    FindCoordinatorResponse {
        error_code: only.error_code,
        error_message: only.error_message,
        node_id: only.node_id,
        host: only.host,
        port: only.port,
        ..FindCoordinatorResponse::default()
    }
}
