//! `/v1/orgs`, `/v1/users` and `/v1/gateways`: what Kafka's protocol cannot say about who may come in.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use broker::Broker;
use broker::admin::Failure;
use coordination::catalog::{AdminError, Catalog, ScramCredentials, unknown_limit};
use coordination::ids::OrgId;
use coordination::record::{Gateway, Org, OrgLimits, ScramMechanism, User};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Admin, refuse};

/// Adds the routes.
pub(super) fn routes(router: Router<Arc<Admin>>) -> Router<Arc<Admin>> {
    router
        .route("/v1/orgs", get(orgs).post(create_org).patch(set_limits).delete(delete_org))
        .route("/v1/users", get(users).post(create_user).put(set_password).delete(delete_user))
        .route("/v1/gateways", get(gateways).post(allow_gateway).delete(deny_gateway))
}

/// An organisation as it is shown.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OrgShown {
    /// Its name.
    pub(crate) name: String,
    /// Its id.
    pub(crate) id: OrgId,
    /// How much it may use; what is not named has no limit.
    pub(crate) limits: OrgLimits,
    /// How much it uses, by the names of the limits.
    pub(crate) uses: BTreeMap<String, u64>,
    /// When it was made, in milliseconds since 1970.
    pub(crate) created_ms: i64,
}

/// What to make.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewOrg {
    /// Its name.
    pub(crate) name: String,
    /// How much it may use.
    #[serde(default)]
    pub(crate) limits: BTreeMap<String, Option<u64>>,
}

/// A user as it is shown.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct UserShown {
    /// The user's name.
    pub(crate) name: String,
    /// The organisation's name.
    pub(crate) org: String,
    /// How the user may log in.
    pub(crate) mechanisms: Vec<ScramMechanism>,
    /// When the user was made, in milliseconds since 1970.
    pub(crate) created_ms: i64,
}

/// A user with what is kept of the password.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewUser {
    /// The organisation's name.
    pub(crate) org: String,
    /// The user's name.
    pub(crate) name: String,
    /// What is kept of the password.
    pub(crate) credentials: ScramCredentials,
}

/// A gateway as it is shown.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GatewayShown {
    /// Its endpoint id.
    pub(crate) endpoint_id: String,
    /// Its node id.
    pub(crate) node_id: i32,
    /// Whether it may come in.
    pub(crate) is_allowed: bool,
    /// What it says of itself, while it is connected.
    pub(crate) connected: Option<Connected>,
}

/// A gateway that is connected.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Connected {
    /// Where it comes from.
    pub(crate) address: Option<String>,
    /// What it runs.
    pub(crate) software: String,
    /// Where it sends clients: `NAME://host:port`.
    pub(crate) advertises: Vec<String>,
}

/// A gateway that is meant.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GatewayNamed {
    /// Its endpoint id.
    pub(crate) endpoint_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OrgQuery {
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserQuery {
    org: String,
    name: Option<String>,
}

type Asked<T> = Result<Query<T>, QueryRejection>;

async fn orgs(State(admin): State<Arc<Admin>>, headers: HeaderMap, query: Asked<OrgQuery>) -> Response {
    answer(async {
        let broker = admit(&admin, &headers)?;
        let Query(OrgQuery { name }) = asked(query)?;
        let orgs: Vec<Org> = broker.admin().look(|catalog| match &name {
            Some(name) => catalog.known_org(name).cloned().map(|org| vec![org]),
            None => Ok(catalog.orgs().cloned().collect()),
        })?;
        Ok(Json(orgs.into_iter().map(|org| shown_org(broker, org)).collect::<Vec<_>>()))
    })
    .await
}

async fn create_org(State(admin): State<Arc<Admin>>, headers: HeaderMap, body: Bytes) -> Response {
    answer(async {
        let broker = admit(&admin, &headers)?;
        let NewOrg { name, limits } = read(&body)?;
        let mut set = OrgLimits::default();
        for (limit, value) in limits {
            if !set.set(&limit, value) {
                return Err(AdminError::Invalid(unknown_limit(&limit)).into());
            }
        }
        let org = broker.admin().create_org(&name, set).await?;
        tracing::info!(org = org.name, id = %org.id, "an organisation was created");
        Ok(Json(shown_org(broker, org)))
    })
    .await
}

async fn set_limits(State(admin): State<Arc<Admin>>, headers: HeaderMap, body: Bytes) -> Response {
    answer(async {
        let broker = admit(&admin, &headers)?;
        let NewOrg { name, limits } = read(&body)?;
        let org = broker.admin().set_limits(&name, limits.into_iter().collect()).await?;
        let limit = |name: &&str| Some(format!("{name}={}", org.limits.get(name)??));
        let limits: Vec<String> = OrgLimits::NAMES.iter().filter_map(limit).collect();
        tracing::info!(org = org.name, limits = limits.join(","), "limits were set");
        Ok(Json(shown_org(broker, org)))
    })
    .await
}

async fn delete_org(State(admin): State<Arc<Admin>>, headers: HeaderMap, query: Asked<OrgQuery>) -> Response {
    answer(async {
        let broker = admit(&admin, &headers)?;
        let Query(OrgQuery { name }) = asked(query)?;
        let name = name.ok_or_else(|| wrong("expected ?name=ORGANISATION"))?;
        let org = broker.admin().delete_org(&name).await?;
        tracing::info!(org = org.name, id = %org.id, "an organisation was deleted");
        Ok(Json(shown_org(broker, org)))
    })
    .await
}

async fn users(State(admin): State<Arc<Admin>>, headers: HeaderMap, query: Asked<UserQuery>) -> Response {
    answer(async {
        let broker = admit(&admin, &headers)?;
        let Query(UserQuery { org, .. }) = asked(query)?;
        let users = broker.admin().look(|catalog| {
            let org = catalog.known_org(&org)?;
            let users = catalog.users_of(org.id).map(|user| shown_user(&org.name, user));
            Ok::<Vec<UserShown>, AdminError>(users.collect())
        })?;
        Ok(Json(users))
    })
    .await
}

async fn create_user(State(admin): State<Arc<Admin>>, headers: HeaderMap, body: Bytes) -> Response {
    answer(async {
        let broker = admit(&admin, &headers)?;
        let NewUser { org, name, credentials } = read(&body)?;
        let user = broker.admin().create_user(&org, &name, credentials).await?;
        tracing::info!(org, user = user.name, "a user was created");
        Ok(Json(shown_user(&org, &user)))
    })
    .await
}

async fn set_password(State(admin): State<Arc<Admin>>, headers: HeaderMap, body: Bytes) -> Response {
    answer(async {
        let broker = admit(&admin, &headers)?;
        let NewUser { org, name, credentials } = read(&body)?;
        let user = broker.admin().set_password(&org, &name, credentials).await?;
        tracing::info!(org, user = user.name, "a user got another password");
        Ok(Json(shown_user(&org, &user)))
    })
    .await
}

async fn delete_user(
    State(admin): State<Arc<Admin>>,
    headers: HeaderMap,
    query: Asked<UserQuery>,
) -> Response {
    answer(async {
        let broker = admit(&admin, &headers)?;
        let Query(UserQuery { org, name }) = asked(query)?;
        let name = name.ok_or_else(|| wrong("expected ?org=ORGANISATION&name=USER"))?;
        let user = broker.admin().delete_user(&org, &name).await?;
        tracing::info!(org, user = user.name, "a user was deleted");
        Ok(Json(shown_user(&org, &user)))
    })
    .await
}

async fn gateways(State(admin): State<Arc<Admin>>, headers: HeaderMap) -> Response {
    answer(async {
        let broker = admit(&admin, &headers)?;
        let known: Vec<Gateway> = broker.admin().look(|catalog| catalog.gateways().cloned().collect());
        Ok(Json(known.into_iter().map(|gateway| shown_gateway(broker, gateway)).collect::<Vec<_>>()))
    })
    .await
}

async fn allow_gateway(State(admin): State<Arc<Admin>>, headers: HeaderMap, body: Bytes) -> Response {
    answer(async {
        let broker = admit(&admin, &headers)?;
        let GatewayNamed { endpoint_id } = read(&body)?;
        let gateway = broker.allow_gateway(&endpoint_id).await?;
        tracing::info!(endpoint_id, node_id = gateway.node_id, "a gateway is allowed");
        Ok(Json(shown_gateway(broker, gateway)))
    })
    .await
}

async fn deny_gateway(
    State(admin): State<Arc<Admin>>,
    headers: HeaderMap,
    query: Asked<GatewayNamed>,
) -> Response {
    answer(async {
        let broker = admit(&admin, &headers)?;
        let Query(GatewayNamed { endpoint_id }) = asked(query)?;
        let gateway = broker.deny_gateway(&endpoint_id).await?;
        tracing::info!(endpoint_id, node_id = gateway.node_id, "a gateway is denied");
        Ok(Json(shown_gateway(broker, gateway)))
    })
    .await
}

/// What is answered instead of a result.
struct Refused(Box<Response>);

impl Refused {
    fn new(status: StatusCode, message: &str) -> Self {
        Self(Box::new(refuse(status, message)))
    }
}

impl From<AdminError> for Refused {
    fn from(error: AdminError) -> Self {
        let status = match error {
            AdminError::Unknown(_) => StatusCode::NOT_FOUND,
            AdminError::Conflict(_) => StatusCode::CONFLICT,
            AdminError::Invalid(_) => StatusCode::BAD_REQUEST,
        };
        Self::new(status, &error.to_string())
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => error.into(),
            Failure::NotStored(_) => {
                let message = "the broker could not store it; see its log";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
            }
        }
    }
}

async fn answer<T: IntoResponse>(result: impl Future<Output = Result<T, Refused>>) -> Response {
    match result.await {
        Ok(result) => result.into_response(),
        Err(Refused(response)) => *response,
    }
}

fn admit<'a>(admin: &'a Admin, headers: &HeaderMap) -> Result<&'a Arc<Broker>, Refused> {
    admin.admit(headers).map(|serving| &serving.broker).map_err(|response| Refused(Box::new(response)))
}

fn asked<T>(query: Asked<T>) -> Result<Query<T>, Refused> {
    query.map_err(|error| wrong(&error.body_text()))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|error| wrong(&format!("the request cannot be read: {error}")))
}

fn wrong(message: &str) -> Refused {
    Refused::new(StatusCode::BAD_REQUEST, message)
}

fn shown_org(broker: &Broker, org: Org) -> OrgShown {
    let (topics, partitions) = broker.admin().look(|catalog: &Catalog| catalog.org_usage(org.id));
    let usage = broker.usage(org.id);
    let uses = [
        ("max.topics", topics),
        ("max.partitions", partitions),
        ("max.groups", usage.groups),
        ("max.members", usage.members),
        ("max.connections", usage.connections),
    ];
    let uses = uses.into_iter().map(|(name, number)| (name.to_owned(), number)).collect();
    OrgShown { name: org.name, id: org.id, limits: org.limits, uses, created_ms: org.created_ms }
}

fn shown_user(org: &str, user: &User) -> UserShown {
    UserShown {
        name: user.name.clone(),
        org: org.to_owned(),
        mechanisms: user.credentials.keys().copied().collect(),
        created_ms: user.created_ms,
    }
}

fn shown_gateway(broker: &Broker, gateway: Gateway) -> GatewayShown {
    let live = broker.live_gateways().into_iter().find(|live| live.id.to_string() == gateway.endpoint_id);
    let connected = live.map(|live| Connected {
        address: live.address.map(|address| address.to_string()),
        software: live.software,
        advertises: live
            .listeners
            .iter()
            .map(|(name, host, port)| format!("{name}://{host}:{port}"))
            .collect(),
    });
    GatewayShown {
        endpoint_id: gateway.endpoint_id,
        node_id: gateway.node_id,
        is_allowed: gateway.is_allowed,
        connected,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{TOKEN, ready, start};
    use crate::http::{Answer, request};

    struct Caller {
        address: String,
    }

    impl Caller {
        async fn call(&self, method: &str, path: &str, body: &str) -> Answer {
            request(&self.address, method, path, Some(TOKEN), body).await.unwrap()
        }
    }

    #[tokio::test]
    async fn organisations_users_and_gateways_need_the_token() {
        let (admin, address) = start().await;
        for path in ["/v1/orgs", "/v1/users?org=default", "/v1/gateways"] {
            assert_eq!(request(&address, "GET", path, Some(TOKEN), "").await.unwrap().status, 503, "{path}");
        }
        let _dir = ready(&admin).await;
        for path in ["/v1/orgs", "/v1/users?org=default", "/v1/gateways"] {
            for token in [None, Some("guess")] {
                for method in ["GET", "POST", "DELETE"] {
                    let answer = request(&address, method, path, token, "{}").await.unwrap();
                    assert_eq!(answer.status, 401, "{method} {path}");
                }
            }
        }
    }

    #[tokio::test]
    async fn an_organisation_is_made_limited_and_deleted() {
        let (admin, address) = start().await;
        let _dir = ready(&admin).await;
        let caller = Caller { address };
        let made = caller.call("POST", "/v1/orgs", r#"{"name": "acme", "limits": {"max.topics": 2}}"#).await;
        assert!(made.status == 200 && made.body.contains(r#""limits":{"max.topics":2}"#), "{made:?}");
        assert_eq!(caller.call("POST", "/v1/orgs", r#"{"name": "acme"}"#).await.status, 409);
        assert_eq!(caller.call("POST", "/v1/orgs", r#"{"name": "A"}"#).await.status, 400);
        assert_eq!(caller.call("POST", "/v1/orgs", r#"{"nam": "b"}"#).await.status, 400);
        let unknown = caller.call("POST", "/v1/orgs", r#"{"name": "b", "limits": {"max.gods": 1}}"#).await;
        assert!(unknown.status == 400 && unknown.body.contains("no limit named max.gods"), "{unknown:?}");
        let all = caller.call("GET", "/v1/orgs", "").await;
        assert!(all.body.contains(r#""name":"acme""#) && all.body.contains(r#""name":"default""#), "{all:?}");
        let lifted =
            caller.call("PATCH", "/v1/orgs", r#"{"name": "acme", "limits": {"max.topics": null}}"#).await;
        assert!(lifted.status == 200 && lifted.body.contains(r#""limits":{}"#), "{lifted:?}");
        assert_eq!(caller.call("GET", "/v1/orgs?name=nobody", "").await.status, 404);
        assert_eq!(caller.call("DELETE", "/v1/orgs", "").await.status, 400);
        assert_eq!(caller.call("DELETE", "/v1/orgs?name=default", "").await.status, 409);
        assert_eq!(caller.call("DELETE", "/v1/orgs?name=acme", "").await.status, 200);
        assert_eq!(caller.call("DELETE", "/v1/orgs?name=acme", "").await.status, 404);
    }

    #[tokio::test]
    async fn a_users_password_comes_in_and_never_goes_out() {
        let (admin, address) = start().await;
        let _dir = ready(&admin).await;
        let caller = Caller { address };
        let key = "5e".repeat(32);
        let user = |iterations: u32| {
            let credential = format!(
                r#"{{"salt": "0102", "iterations": {iterations}, "stored_key": "{key}", "server_key": "{key}"}}"#
            );
            format!(
                r#"{{"org": "default", "name": "a b", "credentials": {{"SCRAM-SHA-256": {credential}}}}}"#
            )
        };
        let made = caller.call("POST", "/v1/users", &user(4096)).await;
        assert!(made.status == 200 && made.body.contains("SCRAM-SHA-256"), "{made:?}");
        assert_eq!(caller.call("POST", "/v1/users", &user(4096)).await.status, 409);
        assert_eq!(caller.call("PUT", "/v1/users", &user(1)).await.status, 400);
        assert_eq!(caller.call("PUT", "/v1/users", &user(8192)).await.status, 200);
        let all = caller.call("GET", "/v1/users?org=default", "").await;
        assert!(all.body.contains(r#""name":"a b""#) && !all.body.contains("5e5e"), "{all:?}");
        assert_eq!(caller.call("GET", "/v1/users?org=nobody", "").await.status, 404);
        assert_eq!(caller.call("DELETE", "/v1/users?org=default&name=a%20b", "").await.status, 200);
        assert_eq!(caller.call("DELETE", "/v1/users?org=default&name=a%20b", "").await.status, 404);
    }

    #[tokio::test]
    async fn a_gateway_is_allowed_and_denied() {
        let (admin, address) = start().await;
        let _dir = ready(&admin).await;
        let caller = Caller { address };
        let id = "ab".repeat(32);
        let allowed = caller.call("POST", "/v1/gateways", &format!(r#"{{"endpoint_id": "{id}"}}"#)).await;
        assert!(allowed.status == 200 && allowed.body.contains(r#""node_id":2"#), "{allowed:?}");
        assert_eq!(caller.call("POST", "/v1/gateways", r#"{"endpoint_id": "x"}"#).await.status, 400);
        let denied = caller.call("DELETE", &format!("/v1/gateways?endpoint_id={id}"), "").await;
        assert!(denied.status == 200 && denied.body.contains(r#""is_allowed":false"#), "{denied:?}");
        assert_eq!(caller.call("DELETE", "/v1/gateways?endpoint_id=x", "").await.status, 404);
        let all = caller.call("GET", "/v1/gateways", "").await;
        assert!(all.body.contains(&id) && all.body.contains(r#""connected":null"#), "{all:?}");
    }
}
