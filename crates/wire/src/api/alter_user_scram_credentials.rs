//! AlterUserScramCredentials (51): gives users passwords and takes them away.

use bytes::Bytes;
use coordination::op::{self, NewScramCredential, Op, ScramDeletion};
use coordination::record::{ScramCredential, ScramMechanism};
use coordination::reply::{self, Refusal};
use sasl::Credential;
use sasl::scram::Variant;

use crate::api::{kept, refusal_message, refusal_number};
use crate::message::message;

message! {
    /// Passwords to take away and to give.
    pub struct AlterUserScramCredentialsRequest {
        deletions: Vec<ScramCredentialDeletion> [0+],
        upsertions: Vec<ScramCredentialUpsertion> [0+],
    }

    /// A password to take away.
    pub struct ScramCredentialDeletion {
        name: String [0+],
        mechanism: i8 [0+],
    }

    /// A password to give, hashed with a salt by the client.
    pub struct ScramCredentialUpsertion {
        name: String [0+],
        mechanism: i8 [0+],
        iterations: i32 [0+],
        salt: Bytes [0+],
        salted_password: Bytes [0+],
    }

    /// What became of each user.
    pub struct AlterUserScramCredentialsResponse {
        throttle_time_ms: i32 [0+],
        results: Vec<AlterUserScramCredentialsResult> [0+],
    }

    /// What became of one user.
    pub struct AlterUserScramCredentialsResult {
        user: String [0+],
        error_code: i16 [0+],
        error_message: Option<String> [0+, null 0+],
    }
}

impl AlterUserScramCredentialsRequest {
    pub(crate) fn into_op(self) -> Op {
        let deletion = |sent: ScramCredentialDeletion| ScramDeletion {
            user: sent.name,
            mechanism: mechanism(sent.mechanism),
        };
        Op::AlterUserScramCredentials(op::AlterUserScramCredentials {
            deletions: self.deletions.into_iter().map(deletion).collect(),
            upsertions: self.upsertions.into_iter().map(upsertion).collect(),
        })
    }
}

fn upsertion(sent: ScramCredentialUpsertion) -> NewScramCredential {
    let mechanism = mechanism(sent.mechanism);
    NewScramCredential {
        credential: mechanism.ok().and_then(|mechanism| credential(mechanism, &sent)),
        user: sent.name,
        mechanism,
        iterations: sent.iterations,
        salt: kept(&sent.salt),
    }
}

/// What is kept of a password. Whoever knew what the client sent could log in with it, so it goes no further.
fn credential(mechanism: ScramMechanism, sent: &ScramCredentialUpsertion) -> Option<ScramCredential> {
    let variant = match mechanism {
        ScramMechanism::Sha256 => Variant::Sha256,
        ScramMechanism::Sha512 => Variant::Sha512,
    };
    let iterations = u32::try_from(sent.iterations).ok()?;
    let kept = Credential::from_salted_password(variant, &sent.salted_password, &sent.salt, iterations)?;
    let Credential { salt, iterations, stored_key, server_key, .. } = kept;
    Some(ScramCredential { salt, iterations, stored_key, server_key })
}

fn mechanism(number: i8) -> Result<ScramMechanism, i8> {
    match number {
        1 => Ok(ScramMechanism::Sha256),
        2 => Ok(ScramMechanism::Sha512),
        number => Err(number),
    }
}

pub(crate) fn response(reply: reply::AlterUserScramCredentials) -> AlterUserScramCredentialsResponse {
    let result = |(user, refusal): (String, Option<Refusal>)| AlterUserScramCredentialsResult {
        user,
        error_code: refusal_number(refusal.as_ref()),
        error_message: refusal_message(refusal),
    };
    AlterUserScramCredentialsResponse {
        throttle_time_ms: 0,
        results: reply.users.into_iter().map(result).collect(),
    }
}
