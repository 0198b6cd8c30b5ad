//! Users that log in with passwords: shown, given one, deprived of it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::Bytes;
use coordination::record::ScramMechanism;
use sasl::limits::SALT_BYTES;
use sasl::salt_password;
use sasl::scram::Variant;
use tokio::task::spawn_blocking;
use wire::api::alter_user_scram_credentials::{
    AlterUserScramCredentialsRequest, ScramCredentialDeletion, ScramCredentialUpsertion,
};
use wire::api::describe_user_scram_credentials::{
    CredentialInfo, DescribeUserScramCredentialsRequest, UserName,
};

use crate::cluster::Client;
use crate::error::{ClientError, accepted};
use crate::security::Password;

/// A user that has passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScramUser {
    /// Its name.
    pub user: String,
    /// The kinds of passwords that it has, and how often each was hashed.
    pub kinds: Vec<(ScramMechanism, i32)>,
}

/// How the passwords of users change.
#[derive(Debug, Clone)]
pub enum ScramChange {
    /// The user logs in with this password from now on.
    Set {
        /// The user.
        user: String,
        /// The kind of password.
        mechanism: ScramMechanism,
        /// The password. It does not leave this process; the broker is told what it hashes to.
        password: Password,
        /// How often it is hashed; brokers take 4096 to 16384.
        iterations: u32,
    },
    /// The user no longer logs in with a password of this kind.
    Delete {
        /// The user.
        user: String,
        /// The kind of password.
        mechanism: ScramMechanism,
    },
}

impl ScramChange {
    /// Whose password changes.
    pub fn user(&self) -> &str {
        match self {
            Self::Set { user, .. } | Self::Delete { user, .. } => user,
        }
    }
}

impl Client {
    /// All users that have passwords, or those named. A named one that has none is an error.
    pub async fn scram_users(&mut self, names: Option<&[String]>) -> Result<Vec<ScramUser>, ClientError> {
        let named = |name: &String| UserName { name: name.clone() };
        // To a broker no names at all are all of them.
        if names.is_some_and(<[_]>::is_empty) {
            return Ok(Vec::new());
        }
        let request = DescribeUserScramCredentialsRequest {
            users: names.map(|names| names.iter().map(named).collect()),
        };
        let response = self.call(&request).await?;
        accepted(response.error_code, response.error_message)?;
        let mut users = Vec::with_capacity(response.results.len());
        for result in response.results {
            accepted(result.error_code, result.error_message)?;
            let kinds = result.credential_infos.iter().map(kind).collect::<Result<_, _>>()?;
            users.push(ScramUser { user: result.user, kinds });
        }
        users.sort_unstable_by(|one, other| one.user.cmp(&other.user));
        Ok(users)
    }

    /// Gives passwords and takes them away. Each change has its own result, in the same order.
    ///
    /// Kafka takes one change of a user in a request, so several are asked for one after the other; when one of the
    /// requests fails as a whole, the earlier ones have been carried out.
    pub async fn alter_scram_users(
        &mut self,
        changes: Vec<ScramChange>,
    ) -> Result<Vec<Result<(), ClientError>>, ClientError> {
        let mut results = BTreeMap::new();
        let mut rest: Vec<(usize, ScramChange)> = changes.into_iter().enumerate().collect();
        while !rest.is_empty() {
            let mut places = BTreeMap::new();
            let mut round = Vec::new();
            for (place, change) in std::mem::take(&mut rest) {
                match places.entry(change.user().to_owned()) {
                    Entry::Vacant(entry) => {
                        entry.insert(place);
                        round.push(change);
                    }
                    Entry::Occupied(_) => rest.push((place, change)),
                }
            }
            // Hashing takes a while by design; what else the caller has on this thread goes on meanwhile.
            let request = spawn_blocking(move || request(round)).await.expect("hashing does not panic");
            let response = self.call(&request).await?;
            for result in response.results {
                if let Some(place) = places.remove(&result.user) {
                    results.insert(place, accepted(result.error_code, result.error_message));
                }
            }
            let unanswered = || Err(ClientError::Unanswered { request: "AlterUserScramCredentials" });
            results.extend(places.into_values().map(|place| (place, unanswered())));
        }
        Ok(results.into_values().collect())
    }
}

fn kind(info: &CredentialInfo) -> Result<(ScramMechanism, i32), ClientError> {
    let mechanism = match info.mechanism {
        1 => ScramMechanism::Sha256,
        2 => ScramMechanism::Sha512,
        number => return Err(ClientError::UnknownNumber { what: "SCRAM mechanism", number }),
    };
    Ok((mechanism, info.iterations))
}

fn request(changes: Vec<ScramChange>) -> AlterUserScramCredentialsRequest {
    let mut request = AlterUserScramCredentialsRequest::default();
    for change in changes {
        match change {
            ScramChange::Set { user, mechanism, password, iterations } => {
                let salt = rand::random::<[u8; SALT_BYTES]>();
                let variant = match mechanism {
                    ScramMechanism::Sha256 => Variant::Sha256,
                    ScramMechanism::Sha512 => Variant::Sha512,
                };
                let salted = salt_password(variant, password.expose(), &salt, iterations);
                request.upsertions.push(ScramCredentialUpsertion {
                    name: user,
                    mechanism: mechanism as i8,
                    iterations: i32::try_from(iterations).unwrap_or(i32::MAX),
                    salt: Bytes::copy_from_slice(&salt),
                    salted_password: salted.into(),
                });
            }
            ScramChange::Delete { user, mechanism } => {
                request.deletions.push(ScramCredentialDeletion { name: user, mechanism: mechanism as i8 });
            }
        }
    }
    request
}
