//! What clients say to log in.

use std::time::Duration;

use bytes::Bytes;
use gateway::Options;
use sasl::scram::{Client as ScramClient, Variant};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use wire::api::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use wire::api::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};

use crate::script::{Client, soon};

pub(crate) const FAILED: i16 = 58;

/// Answers failures at once, however many there are.
pub(crate) fn impatient() -> Options {
    Options { failed_authentication_delay: Duration::ZERO, ..Options::default() }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) async fn choose(&mut self, mechanism: &str, version: i16) -> SaslHandshakeResponse {
        self.ask(&SaslHandshakeRequest { mechanism: mechanism.to_owned() }, version).await
    }

    pub(crate) async fn show(&mut self, message: impl AsRef<[u8]>, version: i16) -> SaslAuthenticateResponse {
        let auth_bytes = Bytes::copy_from_slice(message.as_ref());
        self.ask(&SaslAuthenticateRequest { auth_bytes }, version).await
    }

    /// Logs in by SCRAM; the last answer is the one that counts.
    pub(crate) async fn scram(
        &mut self,
        variant: Variant,
        user: &str,
        password: &str,
    ) -> SaslAuthenticateResponse {
        assert_eq!(self.choose(variant.name(), 1).await.error_code, 0);
        let scram = ScramClient::new(variant, user, password, "a nonce".replace(' ', "-"));
        let first = self.show(scram.first_message(), 2).await;
        if first.error_code != 0 {
            return first;
        }
        let (proof, signature) = scram.last_message(&first.auth_bytes).expect("a challenge");
        let last = self.show(proof, 2).await;
        if last.error_code == 0 {
            signature.check(&last.auth_bytes).expect("the server knows the password too");
        }
        last
    }

    /// Logs in by PLAIN.
    pub(crate) async fn plain(&mut self, user: &str, password: &str) -> SaslAuthenticateResponse {
        assert_eq!(self.choose("PLAIN", 1).await.error_code, 0);
        self.show(format!("\0{user}\0{password}"), 1).await
    }

    /// Sends a message without any header, as after version 0 of SaslHandshake, and gets one.
    pub(crate) async fn exchange_bare(&mut self, message: &[u8]) -> Option<Bytes> {
        let size = i32::try_from(message.len()).expect("short");
        soon(self.stream.write_all(&[&size.to_be_bytes(), message].concat())).await.expect("it is read");
        self.receive().await
    }
}
