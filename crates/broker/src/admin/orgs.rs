//! Organisations, users and gateways, as whoever runs the broker makes them.

use std::sync::Arc;

use ulid::Ulid;

use coordination::catalog::{AdminError, Catalog, Decision, Minted, MintedUser, NewOrg, ScramCredentials};
use coordination::error_code::ErrorCode;
use coordination::ids::OrgId;
use coordination::record::{Gateway, Org, OrgLimits, User};

use super::Admin;
use super::change::mint_topic_ids;
use crate::now_ms;

/// Why something about organisations, users or gateways was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It cannot be done; asking again will not help.
    #[error(transparent)]
    Refused(#[from] AdminError),
    /// The store did not take it, and nothing has changed.
    #[error("the change could not be stored: {0}")]
    NotStored(ErrorCode),
}

impl Admin {
    /// Makes an organisation. Its groups can be used when this returns.
    ///
    /// # Errors
    /// When the name cannot be used, or the store does not take it.
    pub async fn create_org(self: &Arc<Self>, name: &str, limits: OrgLimits) -> Result<Org, Failure> {
        let topic_ids = mint_topic_ids(1);
        let new = NewOrg { id: mint_org(), name: name.to_owned(), limits };
        self.decided(move |catalog, now_ms| {
            catalog.handle_create_org(new, Minted { now_ms, topic_ids: &topic_ids })
        })
        .await
    }

    /// Sets and lifts limits of an organisation, by their names. They hold when this returns.
    ///
    /// # Errors
    /// When there is no such organisation or limit, or the store does not take it.
    pub async fn set_limits(
        self: &Arc<Self>,
        org: &str,
        changes: Vec<(String, Option<u64>)>,
    ) -> Result<Org, Failure> {
        let org = org.to_owned();
        self.decided(move |catalog, _| catalog.handle_set_limits(&org, &changes)).await
    }

    /// Removes an organisation with its groups and rules.
    ///
    /// # Errors
    /// When there is none, it has topics or users, or the store does not take it.
    pub async fn delete_org(self: &Arc<Self>, org: &str) -> Result<Org, Failure> {
        let org = org.to_owned();
        self.decided(move |catalog, _| catalog.handle_delete_org(&org)).await
    }

    /// Makes a user with a password.
    ///
    /// # Errors
    /// When there is no such organisation or such a user already, or the store does not take it.
    pub async fn create_user(
        self: &Arc<Self>,
        org: &str,
        user: &str,
        credentials: ScramCredentials,
    ) -> Result<User, Failure> {
        let (org, user) = (org.to_owned(), user.to_owned());
        let decoy_secret = rand::random();
        self.decided(move |catalog, now_ms| {
            within(catalog, &org, |id| {
                catalog.handle_create_user(id, &user, credentials, &MintedUser { now_ms, decoy_secret })
            })
        })
        .await
    }

    /// Gives a user another password.
    ///
    /// # Errors
    /// When there is no such user, or the store does not take it.
    pub async fn set_password(
        self: &Arc<Self>,
        org: &str,
        user: &str,
        credentials: ScramCredentials,
    ) -> Result<User, Failure> {
        let (org, user) = (org.to_owned(), user.to_owned());
        self.decided(move |catalog, _| {
            within(catalog, &org, |id| catalog.handle_set_password(id, &user, credentials))
        })
        .await
    }

    /// Removes a user.
    ///
    /// # Errors
    /// When there is none, or the store does not take it.
    pub async fn delete_user(self: &Arc<Self>, org: &str, user: &str) -> Result<User, Failure> {
        let (org, user) = (org.to_owned(), user.to_owned());
        self.decided(move |catalog, _| within(catalog, &org, |id| catalog.handle_delete_user(id, &user)))
            .await
    }

    /// Lets a gateway in and gives it its node id.
    ///
    /// # Errors
    /// When that is no endpoint id, or the store does not take it.
    pub async fn allow_gateway(self: &Arc<Self>, endpoint_id: &str) -> Result<Gateway, Failure> {
        let endpoint_id = endpoint_id.to_owned();
        self.decided(move |catalog, _| catalog.handle_allow_gateway(&endpoint_id)).await
    }

    /// Keeps a gateway out from its next connection on.
    ///
    /// # Errors
    /// When it was never allowed, or the store does not take it.
    pub(crate) async fn deny_gateway(self: &Arc<Self>, endpoint_id: &str) -> Result<Gateway, Failure> {
        let endpoint_id = endpoint_id.to_owned();
        self.decided(move |catalog, _| catalog.handle_deny_gateway(&endpoint_id)).await
    }

    async fn decided<R: Send + 'static>(
        self: &Arc<Self>,
        decide: impl FnOnce(&Catalog, i64) -> Decision<Result<R, AdminError>> + Send + 'static,
    ) -> Result<R, Failure> {
        Ok(self.change(decide).await.map_err(Failure::NotStored)??)
    }
}

/// What is decided within the organisation of this name.
fn within<R>(
    catalog: &Catalog,
    org: &str,
    decide: impl FnOnce(OrgId) -> Decision<Result<R, AdminError>>,
) -> Decision<Result<R, AdminError>> {
    match catalog.known_org(org) {
        Ok(org) => decide(org.id),
        Err(error) => Decision { records: Vec::new(), reply: Err(error) },
    }
}

fn mint_org() -> OrgId {
    Ulid::from_parts(u64::try_from(now_ms()).unwrap_or(0), rand::random()).into()
}
