//! What a client says to prove who it is, and what it is answered.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use coordination::error_code::ErrorCode;
use coordination::reply::Refusal;

use crate::api::{sasl_authenticate, sasl_handshake};
use crate::reply::respond;
use crate::request::Head;
use crate::table::ApiKey;
use crate::writer::{Frame, Writer};

/// A step of a login, which the gateway carries out.
#[derive(Clone, PartialEq, Eq)]
pub enum Sasl {
    /// SaslHandshake: the client chooses a mechanism; [`encode_sasl_handshake`] answers it.
    ///
    /// After version 1 its messages come as [`Sasl::Authenticate`]. After version 0, if the answer was no error, all
    /// frames in both directions are the mechanism's bare messages, without Kafka's headers, until the login has
    /// succeeded or failed. This crate does not remember what a connection has said, so until then the gateway must
    /// not hand such frames to [`decode_request`](crate::decode_request); a login that fails there has no answer, and
    /// the connection is closed.
    Handshake {
        /// The mechanism's name as the client wrote it.
        mechanism: String,
    },
    /// SaslAuthenticate: the mechanism's next message; [`encode_sasl_authenticate`] answers it.
    Authenticate {
        /// The message. It may hold a password: it must not be logged.
        auth_bytes: Bytes,
    },
}

impl fmt::Debug for Sasl {
    /// Says nothing of what a mechanism sends.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handshake { mechanism } => {
                f.debug_struct("Handshake").field("mechanism", mechanism).finish()
            }
            Self::Authenticate { .. } => f.debug_struct("Authenticate").finish_non_exhaustive(),
        }
    }
}

/// Answers a [`Sasl::Handshake`]: what is wrong, if anything, and the mechanisms that there are.
///
/// # Panics
///
/// If the request was another one.
pub fn encode_sasl_handshake(head: &Head, error: Option<ErrorCode>, mechanisms: Vec<String>) -> Frame {
    assert_eq!(head.api, ApiKey::SaslHandshake, "the answer belongs to a handshake");
    let mut writer = Writer::frame();
    respond(&mut writer, head, &sasl_handshake::response(error, mechanisms));
    writer.finish()
}

/// Answers a [`Sasl::Authenticate`] with the mechanism's next message and, when it is the last one, with how long the
/// login is good for; zero is for ever, or not done yet.
///
/// # Panics
///
/// If the request was another one.
pub fn encode_sasl_authenticate(head: &Head, result: Result<(Bytes, Duration), Refusal>) -> Frame {
    assert_eq!(head.api, ApiKey::SaslAuthenticate, "the answer belongs to a step of a login");
    let mut writer = Writer::frame();
    respond(&mut writer, head, &sasl_authenticate::response(result));
    writer.finish()
}
