//! Saying who we are, in the words of SASL that Kafka carries (KIP-43, KIP-152).

use std::time::{Duration, Instant};

use ::sasl::base64;
use ::sasl::scram::{Client as Scram, ClientFault as Fault, Variant};
use bytes::Bytes;
use tokio::task::spawn_blocking;
use wire::ApiKey;
use wire::api::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use wire::api::sasl_handshake::SaslHandshakeRequest;

use crate::connection::Connection;
use crate::error::{ClientError, accepted};
use crate::security::{Mechanism, Sasl};
use crate::tls::{listed, shortened};

/// Kafka's error numbers that only this exchange knows.
const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
const ILLEGAL_SASL_STATE: i16 = 34;
const SASL_AUTHENTICATION_FAILED: i16 = 58;

/// The version of SaslHandshake since which what follows it has a frame and can be refused with words (KIP-152).
const FRAMED: i16 = 1;

/// How many unpredictable bytes go into a nonce.
const NONCE_BYTES: usize = 24;

/// Convinces the broker, and says until when that holds if not for ever.
pub(crate) async fn authenticate(
    connection: &mut Connection,
    sasl: &Sasl,
) -> Result<Option<Instant>, ClientError> {
    let mut conversation = Conversation { connection, sasl };
    conversation.agree().await?;
    let before = Instant::now();
    let last = match sasl.mechanism {
        Mechanism::Plain => {
            let message = format!("\0{}\0{}", sasl.user, sasl.password.expose());
            conversation.say(message).await?
        }
        Mechanism::ScramSha256 => conversation.scram(Variant::Sha256).await?,
        Mechanism::ScramSha512 => conversation.scram(Variant::Sha512).await?,
    };
    let lifetime = u64::try_from(last.session_lifetime_ms).unwrap_or(0);
    if lifetime == 0 {
        return Ok(None);
    }
    // A seventh is left for the last request to be answered, as other clients leave it.
    let lifetime = Duration::from_millis(lifetime - lifetime / 7);
    Ok(before.checked_add(lifetime))
}

struct Conversation<'a> {
    connection: &'a mut Connection,
    sasl: &'a Sasl,
}

impl Conversation<'_> {
    /// Agrees with the broker on the mechanism.
    async fn agree(&mut self) -> Result<(), ClientError> {
        match self.connection.version(ApiKey::SaslHandshake, i16::MAX) {
            None => return Err(self.not_asked_for()),
            Some(version) if version < FRAMED => {
                let address = self.connection.address().to_owned();
                return Err(ClientError::TooOld { address, wish: "say why it refuses a user (KIP-152)" });
            }
            Some(_) => {}
        }
        let request = SaslHandshakeRequest { mechanism: self.sasl.mechanism.name().to_owned() };
        let response = self.connection.call(&request).await?;
        match response.error_code {
            ILLEGAL_SASL_STATE => Err(self.not_asked_for()),
            UNSUPPORTED_SASL_MECHANISM => {
                let offered = match listed(&response.mechanisms) {
                    none if none.is_empty() => "none".to_owned(),
                    some => some,
                };
                Err(self.failed(format!("it does not offer {}, but {offered}", self.sasl.mechanism)))
            }
            code => accepted(code, None),
        }
    }

    async fn scram(&mut self, variant: Variant) -> Result<SaslAuthenticateResponse, ClientError> {
        let nonce = base64::encode(&rand::random::<[u8; NONCE_BYTES]>());
        let scram = Scram::new(variant, &self.sasl.user, self.sasl.password.expose(), nonce);
        let challenge = self.say(scram.first_message()).await?.auth_bytes;
        // The broker decides how long this takes; others are not to wait for it.
        let (last_message, signature) = spawn_blocking(move || scram.last_message(&challenge))
            .await
            .expect("no message makes it panic, and nobody cancels it")
            .map_err(|fault| self.at_fault(&fault))?;
        let last = self.say(last_message).await?;
        signature.check(&last.auth_bytes).map_err(|fault| self.at_fault(&fault))?;
        Ok(last)
    }

    /// Sends one message and gets one.
    async fn say(&mut self, message: String) -> Result<SaslAuthenticateResponse, ClientError> {
        let request = SaslAuthenticateRequest { auth_bytes: Bytes::from(message) };
        let response = self.connection.call(&request).await?;
        if response.error_code == SASL_AUTHENTICATION_FAILED {
            let said = response.error_message.filter(|said| !said.is_empty());
            let said = said.map(|said| format!(" ({})", shortened(&said))).unwrap_or_default();
            let user = &self.sasl.user;
            return Err(self.failed(format!("it does not accept user {user}; check name and password{said}")));
        }
        accepted(response.error_code, response.error_message.clone())?;
        Ok(response)
    }

    fn not_asked_for(&self) -> ClientError {
        self.failed(
            "the listener does not ask who its clients are; leave user and password out, or dial another",
        )
    }

    fn at_fault(&self, fault: &Fault) -> ClientError {
        self.failed(shortened(&fault.to_string()))
    }

    fn failed(&self, problem: impl Into<String>) -> ClientError {
        ClientError::Authentication {
            address: self.connection.address().to_owned(),
            mechanism: self.sasl.mechanism,
            problem: problem.into(),
        }
    }
}
