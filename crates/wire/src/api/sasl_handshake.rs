//! SaslHandshake (17): which mechanism a client will authenticate with. The gateway knows which there are.

use coordination::error_code::ErrorCode;

use crate::message::message;

message! {
    /// The mechanism that the client wants to use.
    pub struct SaslHandshakeRequest {
        mechanism: String [0+],
    }

    /// Whether it can, and which ones there are. After version 1 the mechanism's own messages travel in
    /// SaslAuthenticate; after version 0 they travel bare.
    pub struct SaslHandshakeResponse {
        error_code: i16 [0+],
        mechanisms: Vec<String> [0+],
    }
}

pub(crate) fn response(error: Option<ErrorCode>, mechanisms: Vec<String>) -> SaslHandshakeResponse {
    SaslHandshakeResponse { error_code: ErrorCode::number_of(error), mechanisms }
}
