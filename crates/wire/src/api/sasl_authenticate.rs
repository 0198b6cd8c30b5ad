//! SaslAuthenticate (36): one message of a SASL mechanism each way. The gateway checks them.

use std::time::Duration;

use bytes::Bytes;
use coordination::reply::Refusal;

use crate::message::message;

message! {
    /// The client's next message.
    pub struct SaslAuthenticateRequest {
        auth_bytes: Bytes [0+],
    }

    /// The broker's next message.
    pub struct SaslAuthenticateResponse {
        error_code: i16 [0+],
        error_message: Option<String> [0+, null 0+] = Some(String::new()),
        auth_bytes: Bytes [0+],
        /// How long the client may go on before it authenticates again; zero for ever.
        session_lifetime_ms: i64 [1+],
    }
}

pub(crate) fn response(result: Result<(Bytes, Duration), Refusal>) -> SaslAuthenticateResponse {
    match result {
        Ok((auth_bytes, session_lifetime)) => SaslAuthenticateResponse {
            auth_bytes,
            session_lifetime_ms: i64::try_from(session_lifetime.as_millis()).unwrap_or(i64::MAX),
            ..SaslAuthenticateResponse::default()
        },
        Err(refusal) => SaslAuthenticateResponse {
            error_code: refusal.code.number(),
            error_message: refusal.message,
            ..SaslAuthenticateResponse::default()
        },
    }
}
