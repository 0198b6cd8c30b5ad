//! Users of organisations and what is kept of their passwords.

use std::collections::BTreeMap;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::orgs::ORG_NAME_OF_DEFAULT;
use super::{AdminError, Catalog, Decision};
use crate::ids::OrgId;
use crate::limits::{SALT_BYTES_MAX, USER_NAME_MAX, USERS_PER_ORG_MAX};
use crate::op;
use crate::record::{Record, ScramCredential, ScramMechanism, User};
use crate::reply;

/// A user's passwords by kind.
pub type ScramCredentials = BTreeMap<ScramMechanism, ScramCredential>;

/// What the machine cannot make up by itself where users are made.
#[derive(Clone, Copy, Debug)]
pub struct MintedUser {
    /// Milliseconds since 1970.
    pub now_ms: i64,
    /// Random bytes; kept when the first user of all is made.
    pub decoy_secret: [u8; 32],
}

/// How often a password may have been hashed, as in Kafka.
pub const SCRAM_ITERATIONS: std::ops::RangeInclusive<i32> = 4096..=16_384;

impl Catalog {
    /// The user of this name.
    pub fn user(&self, org: OrgId, name: &str) -> Option<&User> {
        self.users.get(&org)?.get(name)
    }

    /// The users of the organisation, by name.
    pub fn users_of(&self, org: OrgId) -> impl Iterator<Item = &User> {
        self.users.get(&org).into_iter().flat_map(BTreeMap::values)
    }

    /// How many users the organisation has.
    pub fn user_count(&self, org: OrgId) -> usize {
        self.users.get(&org).map_or(0, BTreeMap::len)
    }

    /// What a gateway needs in order to check a login.
    ///
    /// Whoever has no password here gets what a decoy is made from, always the same for the same name.
    pub fn credentials(&self, op: &op::Credentials) -> reply::Credentials {
        let org_name = op.org.as_deref().unwrap_or(ORG_NAME_OF_DEFAULT);
        let login = self.org_named(org_name).map(|org| {
            let user = self.user(org.id, &op.user);
            let credentials = user.into_iter().flat_map(|user| user.credentials.clone()).collect();
            Box::new(reply::Login { org: org.id, credentials })
        });
        reply::Credentials { login, decoy_salt: self.decoy_salt(org_name, &op.user) }
    }

    /// Makes a user with a password.
    pub fn handle_create_user(
        &self,
        org: OrgId,
        name: &str,
        credentials: ScramCredentials,
        minted: &MintedUser,
    ) -> Decision<Result<User, AdminError>> {
        let made = self.check_new_user(org, name, &credentials).map(|()| User {
            org,
            name: name.to_owned(),
            credentials,
            created_ms: minted.now_ms,
        });
        let mut records = Vec::new();
        if let Ok(user) = &made {
            records.extend(self.secret_if_none(minted));
            records.push(Record::User(user.clone()));
        }
        Decision { records, reply: made }
    }

    /// Gives a user another password. All the old ones are gone then.
    pub fn handle_set_password(
        &self,
        org: OrgId,
        name: &str,
        credentials: ScramCredentials,
    ) -> Decision<Result<User, AdminError>> {
        let changed = self.known_user(org, name).cloned().and_then(|user| {
            check_credentials(&credentials)?;
            Ok(User { credentials, ..user })
        });
        let records = changed.iter().map(|user| Record::User(user.clone())).collect();
        Decision { records, reply: changed }
    }

    /// Removes a user. Rules that name it stay, as in Kafka.
    pub fn handle_delete_user(&self, org: OrgId, name: &str) -> Decision<Result<User, AdminError>> {
        let reply = self.known_user(org, name).cloned();
        let records = reply.iter().map(|user| Record::UserDeleted { org, name: user.name.clone() }).collect();
        Decision { records, reply }
    }

    /// The record that keeps the secret, unless one is kept.
    pub(super) fn secret_if_none(&self, minted: &MintedUser) -> Option<Record> {
        self.decoy_secret.is_none().then(|| Record::DecoySecret { secret: minted.decoy_secret.to_vec() })
    }

    /// Whether one more user can be kept, besides as many that are on their way.
    pub(super) fn check_room_for_user(&self, org: OrgId, on_their_way: usize) -> Result<(), AdminError> {
        if self.user_count(org) + on_their_way < USERS_PER_ORG_MAX {
            return Ok(());
        }
        Err(AdminError::Conflict(format!(
            "The organisation has {USERS_PER_ORG_MAX} users; no more are kept."
        )))
    }

    fn check_new_user(
        &self,
        org: OrgId,
        name: &str,
        credentials: &ScramCredentials,
    ) -> Result<(), AdminError> {
        if self.org(org).is_none() {
            return Err(AdminError::Unknown("There is no such organisation.".to_owned()));
        }
        check_user_name(name)?;
        check_credentials(credentials)?;
        if self.user(org, name).is_some() {
            return Err(AdminError::Conflict(format!("There is a user named {name} already.")));
        }
        self.check_room_for_user(org, 0)
    }

    fn known_user(&self, org: OrgId, name: &str) -> Result<&User, AdminError> {
        self.user(org, name).ok_or_else(|| AdminError::Unknown(format!("There is no user named {name}.")))
    }

    /// Until there is a user, nobody can be told from anybody else, and the cluster's id serves for a secret.
    fn decoy_salt(&self, org: &str, user: &str) -> Bytes {
        let secret = match &self.decoy_secret {
            Some(secret) => secret.as_slice(),
            None => self.cluster_id.as_deref().unwrap_or_default().as_bytes(),
        };
        // Neither name has a slash in it, so that no two logins are written alike. What is hashed twice cannot be
        // continued by someone who knows a part.
        let inner = Sha256::new().chain_update(secret).chain_update(org).chain_update("/").chain_update(user);
        let outer = Sha256::new().chain_update(secret).chain_update(inner.finalize());
        Bytes::copy_from_slice(&outer.finalize())
    }
}

/// Says why a user cannot have this name.
///
/// # Errors
/// When it cannot.
pub fn check_user_name(name: &str) -> Result<(), AdminError> {
    let why = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.len() > USER_NAME_MAX {
        format!("it is longer than {USER_NAME_MAX} bytes")
    } else if name.contains('/') {
        "it has a slash, which stands between an organisation and a user".to_owned()
    } else if name.chars().any(char::is_control) {
        "it has a control character".to_owned()
    } else {
        return Ok(());
    };
    Err(AdminError::Invalid(format!("This cannot name a user: {why}.")))
}

fn check_credentials(credentials: &ScramCredentials) -> Result<(), AdminError> {
    if credentials.is_empty() {
        return Err(AdminError::Invalid("A user needs a password.".to_owned()));
    }
    for (mechanism, credential) in credentials {
        check_credential(*mechanism, credential)
            .map_err(|why| AdminError::Invalid(format!("The password for {} {why}.", mechanism.name())))?;
    }
    Ok(())
}

/// What is wrong with a credential, if anything is.
pub(super) fn check_credential(
    mechanism: ScramMechanism,
    credential: &ScramCredential,
) -> Result<(), String> {
    let hash_bytes = match mechanism {
        ScramMechanism::Sha256 => 32,
        ScramMechanism::Sha512 => 64,
    };
    let (least, most) = SCRAM_ITERATIONS.into_inner();
    if !(least.unsigned_abs()..=most.unsigned_abs()).contains(&credential.iterations) {
        return Err(format!("was hashed {} times; {least} to {most} are allowed", credential.iterations));
    }
    if credential.stored_key.len() != hash_bytes || credential.server_key.len() != hash_bytes {
        return Err(format!("has keys that are not {hash_bytes} bytes long"));
    }
    if credential.salt.is_empty() || credential.salt.len() > SALT_BYTES_MAX {
        return Err(format!("has a salt that is not 1 to {SALT_BYTES_MAX} bytes long"));
    }
    Ok(())
}
