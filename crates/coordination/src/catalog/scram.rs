//! DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554).

use std::collections::{BTreeMap, BTreeSet};

use super::users::{MintedUser, SCRAM_ITERATIONS, check_credential, check_user_name};
use super::{Catalog, Decision, repeated};
use crate::error_code::ErrorCode;
use crate::ids::OrgId;
use crate::op::{self, NewScramCredential, ScramDeletion};
use crate::record::{Record, User};
use crate::reply::{self, Refusal, ScramUser};

impl Catalog {
    /// Which users have passwords, and of which kinds.
    pub fn describe_scram(
        &self,
        org: OrgId,
        op: &op::DescribeUserScramCredentials,
    ) -> reply::DescribeUserScramCredentials {
        let kinds = |user: &User| {
            user.credentials
                .iter()
                .map(|(mechanism, credential)| {
                    (*mechanism, i32::try_from(credential.iterations).unwrap_or(i32::MAX))
                })
                .collect()
        };
        let asked = op.users.as_deref().unwrap_or_default();
        // As in Kafka, who asks for nobody asks for all.
        if asked.is_empty() {
            let users = self.users_of(org);
            let users = users.map(|user| ScramUser { user: user.name.clone(), result: Ok(kinds(user)) });
            return reply::DescribeUserScramCredentials { result: Ok(users.collect()) };
        }
        let twice = repeated(asked.iter());
        let mut seen = BTreeSet::new();
        let described = asked.iter().filter(|name| seen.insert(*name)).map(|name| {
            let result = if twice.contains(name) {
                let message = format!(
                    "Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
                );
                Err(Refusal::new(ErrorCode::DuplicateResource, message))
            } else {
                self.user(org, name).map(kinds).ok_or_else(|| {
                    let message =
                        format!("Attempt to describe a user credential that does not exist: {name}");
                    Refusal::new(ErrorCode::ResourceNotFound, message)
                })
            };
            ScramUser { user: name.clone(), result }
        });
        reply::DescribeUserScramCredentials { result: Ok(described.collect()) }
    }

    /// Gives users passwords and takes them away. A user that is named twice gets none of the changes; one without a
    /// password is gone, and one that gets its first comes to be.
    pub fn handle_alter_scram(
        &self,
        org: OrgId,
        op: &op::AlterUserScramCredentials,
        minted: &MintedUser,
    ) -> Decision<reply::AlterUserScramCredentials> {
        // In the order in which they are first named.
        let mut order: Vec<&str> = Vec::new();
        let mut users: BTreeMap<&str, Result<Altered, Refusal>> = BTreeMap::new();
        let deletions = op.deletions.iter().map(|deletion| (deletion.user.as_str(), Step::Delete(deletion)));
        let upsertions = op.upsertions.iter().map(|given| (given.user.as_str(), Step::Give(given)));
        for (name, step) in deletions.chain(upsertions) {
            let altered = users.entry(name).or_insert_with(|| {
                order.push(name);
                Ok(Altered::of(self.user(org, name)))
            });
            // The first thing that is wrong with a user is told.
            if let Ok(state) = altered
                && let Err(refusal) = state.take(name, &step)
            {
                *altered = Err(refusal);
            }
        }
        let mut records = Vec::new();
        let mut replies = Vec::new();
        let (mut is_secret_kept, mut made) = (false, 0);
        for name in order {
            let outcome = match users.remove(name) {
                Some(Ok(altered)) => self.altered_user(org, name, altered, minted, &mut made),
                Some(Err(refusal)) => Err(refusal),
                None => continue,
            };
            let error = match outcome {
                Ok(record) => {
                    if !is_secret_kept && matches!(record, Record::User(_)) {
                        records.extend(self.secret_if_none(minted));
                        is_secret_kept = true;
                    }
                    records.push(record);
                    None
                }
                Err(refusal) => Some(refusal),
            };
            replies.push((name.to_owned(), error));
        }
        Decision { records, reply: reply::AlterUserScramCredentials { users: replies } }
    }

    /// What becomes of a user; `made` counts those that the request makes.
    fn altered_user(
        &self,
        org: OrgId,
        name: &str,
        altered: Altered,
        minted: &MintedUser,
        made: &mut usize,
    ) -> Result<Record, Refusal> {
        if altered.credentials.is_empty() {
            return Ok(Record::UserDeleted { org, name: name.to_owned() });
        }
        let before = self.user(org, name);
        if before.is_none() {
            self.check_room_for_user(org, *made)
                .map_err(|error| Refusal::new(ErrorCode::PolicyViolation, error.to_string()))?;
            *made += 1;
        }
        Ok(Record::User(User {
            org,
            name: name.to_owned(),
            credentials: altered.credentials,
            created_ms: before.map_or(minted.now_ms, |user| user.created_ms),
        }))
    }
}

enum Step<'a> {
    Delete(&'a ScramDeletion),
    Give(&'a NewScramCredential),
}

/// A user on the way through a request.
struct Altered {
    credentials: super::ScramCredentials,
    /// Whether the request has changed the user.
    is_changed: bool,
}

impl Altered {
    fn of(user: Option<&User>) -> Self {
        let credentials = user.map(|user| user.credentials.clone()).unwrap_or_default();
        Self { credentials, is_changed: false }
    }

    fn take(&mut self, name: &str, step: &Step<'_>) -> Result<(), Refusal> {
        // Kafka 4.3 says so whatever the mechanisms are.
        if std::mem::replace(&mut self.is_changed, true) {
            let message = "A user credential cannot be altered twice in the same request";
            return Err(Refusal::new(ErrorCode::DuplicateResource, message));
        }
        if name.is_empty() {
            return Err(unacceptable("Username must not be empty"));
        }
        let mechanism = match step {
            Step::Delete(deletion) => deletion.mechanism,
            Step::Give(given) => given.mechanism,
        };
        let mechanism = mechanism
            .map_err(|_| Refusal::new(ErrorCode::UnsupportedSaslMechanism, "Unknown SCRAM mechanism"))?;
        match step {
            Step::Delete(_) => {
                self.credentials.remove(&mechanism).ok_or_else(|| {
                    let message = "Attempt to delete a user credential that does not exist";
                    Refusal::new(ErrorCode::ResourceNotFound, message)
                })?;
            }
            Step::Give(given) => {
                if given.iterations < *SCRAM_ITERATIONS.start() {
                    return Err(unacceptable("Too few iterations"));
                }
                if given.iterations > *SCRAM_ITERATIONS.end() {
                    return Err(unacceptable("Too many iterations"));
                }
                // Kafka takes what follows as it comes, and finds at the first login that it is of no use.
                check_user_name(name).map_err(|error| unacceptable(error.to_string()))?;
                let credential = given.credential.clone();
                let credential = credential
                    .ok_or_else(|| unacceptable("The salted password has not the length of its hash"))?;
                check_credential(mechanism, &credential)
                    .map_err(|why| unacceptable(format!("The password {why}")))?;
                self.credentials.insert(mechanism, credential);
            }
        }
        Ok(())
    }
}

fn unacceptable(message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::UnacceptableCredential, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::USERS_PER_ORG_MAX;
    use crate::record::{ScramCredential, ScramMechanism};
    use crate::settings::Settings;

    #[test]
    fn one_request_makes_no_more_users_than_are_kept() {
        let mechanism = ScramMechanism::Sha256;
        let (salt, key) = (vec![1], vec![2; 32]);
        let credential = ScramCredential { salt, iterations: 4096, stored_key: key.clone(), server_key: key };
        let mut catalog = Catalog::new(Settings::default());
        for number in 1..USERS_PER_ORG_MAX {
            catalog.apply(&Record::User(User {
                org: OrgId::DEFAULT,
                name: number.to_string(),
                credentials: BTreeMap::from([(mechanism, credential.clone())]),
                created_ms: 0,
            }));
        }
        let given = |user: &str| NewScramCredential {
            user: user.to_owned(),
            mechanism: Ok(mechanism),
            iterations: 4096,
            salt: bytes::Bytes::from_static(&[1]),
            credential: Some(credential.clone()),
        };
        let upsertions = vec![given("one-more"), given("1"), given("too-many")];
        let op = op::AlterUserScramCredentials { deletions: Vec::new(), upsertions };
        let minted = MintedUser { now_ms: 1, decoy_secret: [0; 32] };
        let reply = catalog.handle_alter_scram(OrgId::DEFAULT, &op, &minted).reply;
        let codes: Vec<_> =
            reply.users.into_iter().map(|(_, error)| error.map(|refusal| refusal.code)).collect();
        assert_eq!(codes, [None, None, Some(ErrorCode::PolicyViolation)]);
    }
}
