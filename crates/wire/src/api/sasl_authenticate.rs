//! SaslAuthenticate (36): one message of a SASL mechanism each way. Asked by our client only.

use bytes::Bytes;

use crate::message::message;

message! {
    /// The client's next message.
    pub struct SaslAuthenticateRequest {
        auth_bytes: Bytes [0+],
    }

    /// The broker's next message.
    pub struct SaslAuthenticateResponse {
        error_code: i16 [0+],
        error_message: Option<String> [0+, null 0+],
        auth_bytes: Bytes [0+],
        /// How long the client may go on before it authenticates again; zero for ever.
        session_lifetime_ms: i64 [1+],
    }
}
