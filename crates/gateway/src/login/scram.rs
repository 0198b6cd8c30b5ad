//! SCRAM: the client proves that it knows its password.

use bytes::Bytes;
use sasl::base64;
use sasl::scram::{Challenged, Refused, Server, Variant};

use super::{Denied, Desk, Exchange, Failure, Heard, Identity, SOMEONE_ELSE};

/// How many random bytes make the server's part of a nonce.
const NONCE_BYTES: usize = 24;

/// A challenge that the client is to answer.
pub(crate) struct Proof {
    challenged: Box<Challenged>,
    user: String,
    /// `None` of someone who does not exist, and is told so at the end only.
    who: Option<Identity>,
}

pub(super) async fn hear(variant: Variant, message: &[u8], desk: &Desk) -> Result<Heard, Denied> {
    let server = Server::hear(variant, message).map_err(|refused| {
        let failure = Failure::new(None, &refused);
        match refused {
            Refused::SomeoneElse => failure.saying(SOMEONE_ELSE),
            _ => failure,
        }
    })?;
    let user = server.user().to_owned();
    let known = desk.look_up(desk.login(&user)?).await?;
    let credential = known.credential(variant).unwrap_or_else(|| known.decoy(variant));
    let nonce = base64::encode(&rand::random::<[u8; NONCE_BYTES]>());
    let challenged = Box::new(server.challenge(credential, &nonce));
    let message = Bytes::copy_from_slice(challenged.message().as_bytes());
    Ok(Heard::Say { message, then: Exchange::Proof(Proof { challenged, user, who: known.identity() }) })
}

impl Proof {
    pub(super) fn hear(self, message: &[u8]) -> Result<Heard, Failure> {
        let Self { challenged, user, who } = self;
        let failed = |refused: Refused| Failure::new(Some(&user), &refused);
        let last = challenged.conclude(message).map_err(failed)?;
        let who = who.ok_or_else(|| failed(Refused::WrongPassword))?;
        Ok(Heard::Known { message: Bytes::from(last), who, expires_ms: None })
    }
}
