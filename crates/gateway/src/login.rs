//! How a client shows who it is: one message of a mechanism after the other.

mod oauth_bearer;
mod plain;
mod scram;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use coordination::ids::OrgId;
use coordination::op::{self, Op};
use coordination::record::ScramMechanism;
use coordination::reply::{self, Reply};
use rail::{Carrier, Lost};
use sasl::scram::Variant;
use sasl::{Credential, Login, Mechanism};

use crate::connection::Shared;
use crate::entrance::Entrance;

/// What Kafka says to those who want to act on behalf of others.
const SOMEONE_ELSE: &str =
    "Authentication failed: Client requested an authorization id that is different from username";

/// How far a client has come.
pub(crate) enum Exchange {
    /// PLAIN: the one message there is comes next.
    Plain,
    /// SCRAM: the name comes next.
    Scram(Variant),
    /// SCRAM: the proof comes next.
    Proof(scram::Proof),
    /// OAUTHBEARER: the token comes next.
    OauthBearer,
    /// OAUTHBEARER: the client takes note that its token was refused.
    Acknowledgement(oauth_bearer::Refused),
}

/// What came of a message.
pub(crate) enum Heard {
    /// The exchange goes on.
    Say { message: Bytes, then: Exchange },
    /// The client is this one.
    Known {
        message: Bytes,
        who: Identity,
        /// When what it showed expires, in milliseconds since 1970.
        expires_ms: Option<i64>,
    },
}

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) org: OrgId,
    /// `User:name`.
    pub(crate) principal: Arc<str>,
}

/// Why a client is not let in.
#[derive(Debug)]
pub(crate) enum Denied {
    /// It did not show who it is.
    Failed(Failure),
    /// It failed before, which was counted then, and has had its last word.
    Refused { said: Option<String> },
    /// It cannot be told.
    Lost(Lost),
}

/// How a client failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What the client is told, where Kafka says more than that the credentials are invalid.
    pub(crate) said: Option<String>,
    /// The name that it gave.
    pub(crate) user: Option<String>,
    /// What the log is told.
    pub(crate) why: String,
}

impl Failure {
    fn new(user: Option<&str>, why: &dyn fmt::Display) -> Self {
        Self { said: None, user: user.map(str::to_owned), why: why.to_string() }
    }

    fn saying(self, said: impl Into<String>) -> Self {
        Self { said: Some(said.into()), ..self }
    }
}

impl From<Failure> for Denied {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Lost> for Denied {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

impl Exchange {
    pub(crate) fn new(mechanism: Mechanism) -> Self {
        match mechanism {
            Mechanism::Plain => Self::Plain,
            Mechanism::Scram(variant) => Self::Scram(variant),
            Mechanism::OauthBearer => Self::OauthBearer,
        }
    }

    /// Hears the client's next message.
    pub(crate) async fn hear(self, message: &[u8], desk: &Desk) -> Result<Heard, Denied> {
        match self {
            Self::Plain => plain::hear(message, desk).await,
            Self::Scram(variant) => scram::hear(variant, message, desk).await,
            Self::Proof(proof) => Ok(proof.hear(message)?),
            Self::OauthBearer => oauth_bearer::hear(message, desk).await,
            Self::Acknowledgement(refused) => Err(refused.hear(message)),
        }
    }
}

/// Where a client's claims are looked into.
pub(crate) struct Desk {
    pub(crate) shared: Arc<Shared>,
    pub(crate) entrance: Arc<Entrance>,
    pub(crate) carrier: Carrier,
}

impl Desk {
    /// The login that a name stands for on this listener.
    fn login(&self, name: &str) -> Result<Login, Failure> {
        Login::parse(name, self.entrance.org.as_deref()).map_err(|error| Failure::new(Some(name), &error))
    }

    /// What the broker knows of a user.
    async fn look_up(&self, login: Login) -> Result<Known, Lost> {
        let Login { org, user } = login;
        let principal: Arc<str> = format!("User:{user}").into();
        let op = Op::Credentials(op::Credentials { org, user });
        match self.shared.rail.call(&self.carrier, op).reply().await? {
            Reply::Credentials(reply) => Ok(Known { reply, principal }),
            // No broker answers so; nobody is let in by one that does.
            _ => Err(Lost),
        }
    }

    /// Who a login is that needs no password; `None` when there is no such organisation.
    pub(crate) async fn identify(&self, login: Login) -> Result<Option<Identity>, Lost> {
        if login.org.is_none() {
            let principal = format!("User:{}", login.user).into();
            return Ok(Some(Identity { org: OrgId::DEFAULT, principal }));
        }
        Ok(self.look_up(login).await?.identity())
    }
}

/// What the broker knows of a user.
struct Known {
    reply: reply::Credentials,
    principal: Arc<str>,
}

/// How often the passwords of most users are hashed. One that does not exist must not look different.
const DECOY_ITERATIONS: u32 = 4096;

impl Known {
    fn identity(&self) -> Option<Identity> {
        let org = self.reply.login.as_ref()?.org;
        Some(Identity { org, principal: Arc::clone(&self.principal) })
    }

    /// What is kept of the user's password by this hash.
    fn credential(&self, variant: Variant) -> Option<Credential> {
        let wanted = match variant {
            Variant::Sha256 => ScramMechanism::Sha256,
            Variant::Sha512 => ScramMechanism::Sha512,
        };
        let credentials = &self.reply.login.as_ref()?.credentials;
        let (_, kept) = credentials.iter().find(|(mechanism, _)| *mechanism == wanted)?;
        Some(Credential {
            variant,
            salt: kept.salt.clone(),
            iterations: kept.iterations,
            stored_key: kept.stored_key.clone(),
            server_key: kept.server_key.clone(),
        })
    }

    /// What a user without a password is asked for and nobody can show.
    fn decoy(&self, variant: Variant) -> Credential {
        Credential::decoy(variant, &self.reply.decoy_salt, DECOY_ITERATIONS)
    }
}
