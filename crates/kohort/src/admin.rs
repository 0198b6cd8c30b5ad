//! The admin HTTP listener: health, metrics, and what Kafka's protocol cannot say.

pub(crate) mod manage;

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use broker::Broker;
use coordination::catalog::ORG_NAME_OF_DEFAULT;
use coordination::group::{Event, Underway};
use coordination::ids::GroupId;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::SnapshotSummary;
use tokio::net::TcpListener;

use crate::token;

/// Copies the data into a new directory; blocks.
pub(crate) type TakeSnapshot = Box<dyn Fn(&Path) -> anyhow::Result<SnapshotSummary> + Send + Sync>;

/// Tells what the broker remembers of a group's rebalances.
pub(crate) type FindGroupEvents = Box<
    dyn Fn(GroupNamed) -> Pin<Box<dyn Future<Output = Result<GroupEvents, NoEvents>> + Send>> + Send + Sync,
>;

/// A group of an organisation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupNamed {
    /// The group's name.
    pub(crate) group: String,
    /// The organisation's name.
    #[serde(default = "default_org")]
    pub(crate) org: String,
}

fn default_org() -> String {
    ORG_NAME_OF_DEFAULT.to_owned()
}

/// Why nothing can be told of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoEvents {
    /// There is no such group.
    Absent,
    /// There is no such organisation.
    NoOrg,
    /// The groups among which it would be are being loaded.
    Loading,
    /// The groups among which it would be cannot be read.
    Unreadable,
}

/// What the admin listener knows of the broker. It answers from the first moment on, so that a supervisor can
/// tell a broker that recovers from one that hangs.
#[derive(Default)]
pub(crate) struct Admin {
    phase: AtomicU8,
    serving: OnceLock<Serving>,
}

/// What is there once the data has been recovered.
pub(crate) struct Serving {
    /// What `/metrics` shows.
    pub(crate) registry: Registry,
    /// What requests that do something must bring.
    pub(crate) token: String,
    /// What `/v1/snapshot` does.
    pub(crate) take_snapshot: TakeSnapshot,
    /// What `/v1/group-events` tells.
    pub(crate) group_events: FindGroupEvents,
    /// Who knows organisations, users and gateways.
    pub(crate) broker: Arc<Broker>,
}

/// How far the broker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It reads its data.
    Recovering = 0,
    /// It answers clients.
    Serving = 1,
    /// It ends.
    Draining = 2,
}

impl Admin {
    /// The broker has recovered and answers clients.
    pub(crate) fn serving(&self, serving: Serving) {
        let first = self.serving.set(serving).is_ok();
        assert!(first, "a broker recovers once");
        self.phase.store(Phase::Serving as u8, Ordering::Release);
    }

    /// The broker takes no more clients.
    pub(crate) fn draining(&self) {
        self.phase.store(Phase::Draining as u8, Ordering::Release);
    }

    /// What is there, for a request that brings the token; else what to answer.
    #[expect(clippy::result_large_err, reason = "it is the answer, and is sent at once")]
    fn admit(&self, headers: &HeaderMap) -> Result<&Serving, Response> {
        let Some(serving) = self.serving.get() else {
            let message = "the broker still recovers; try again when it is ready";
            return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, message));
        };
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        if !token::matches(&serving.token, given) {
            let message =
                "the token is missing or wrong; it is in the file admin-token of the data directory";
            return Err(refuse(StatusCode::UNAUTHORIZED, message));
        }
        Ok(serving)
    }

    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Recovering,
            1 => Phase::Serving,
            _ => Phase::Draining,
        }
    }
}

/// Listens on `address`.
pub(crate) async fn bind(address: &str) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Answers on `listener` for as long as the process lives; also while it drains, to say so.
pub(crate) async fn serve(listener: TcpListener, admin: Arc<Admin>) {
    if let Err(error) = axum::serve(listener, router(admin)).await {
        tracing::error!(%error, "the admin listener has ended");
    }
}

fn router(admin: Arc<Admin>) -> Router {
    manage::routes(Router::new())
        .route("/livez", get(async || "alive\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/v1/group-events", get(group_events))
        .route("/v1/snapshot", post(snapshot))
        .fallback(async || {
            refuse(StatusCode::NOT_FOUND, "there is nothing here; see /livez, /readyz and /metrics")
        })
        .with_state(admin)
}

async fn readyz(State(admin): State<Arc<Admin>>) -> Response {
    match admin.phase() {
        Phase::Serving => "ready\n".into_response(),
        Phase::Recovering => (StatusCode::SERVICE_UNAVAILABLE, "recovering\n").into_response(),
        Phase::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response(),
    }
}

async fn metrics(State(admin): State<Arc<Admin>>) -> Response {
    let mut text = String::new();
    if let Some(serving) = admin.serving.get()
        && encode(&mut text, &serving.registry).is_err()
    {
        return refuse(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written");
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotRequest {
    directory: PathBuf,
}

/// What `/v1/snapshot` answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SnapshotTaken {
    /// Where the copy is.
    pub(crate) directory: PathBuf,
    /// How many partitions it holds.
    pub(crate) partitions: usize,
    /// How many bytes of record batches.
    pub(crate) bytes: u64,
    /// How many of its files share their space with the original.
    pub(crate) linked_files: usize,
    /// How many files were copied.
    pub(crate) copied_files: usize,
}

async fn snapshot(State(admin): State<Arc<Admin>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Err(refusal) = admin.admit(&headers) {
        return refusal;
    }
    let request: SnapshotRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => {
            return refuse(StatusCode::BAD_REQUEST, &format!("expected {{\"directory\": …}}: {error}"));
        }
    };
    if !request.directory.is_absolute() {
        let message = format!(
            "{} is a relative path, and the broker may run elsewhere than you; name the directory from / on",
            request.directory.display()
        );
        return refuse(StatusCode::BAD_REQUEST, &message);
    }
    let directory = request.directory.clone();
    let shared = Arc::clone(&admin);
    let taken = tokio::task::spawn_blocking(move || {
        let serving = shared.serving.get().expect("whoever is admitted is served");
        (serving.take_snapshot)(&directory)
    })
    .await;
    match taken {
        Ok(Ok(SnapshotSummary { partitions, bytes, linked_files, copied_files })) => {
            let directory = request.directory;
            Json(SnapshotTaken { directory, partitions, bytes, linked_files, copied_files }).into_response()
        }
        Ok(Err(error)) => refuse(StatusCode::CONFLICT, &format!("{error:#}")),
        Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "the snapshot failed; see the broker's log"),
    }
}

/// What `/v1/group-events` answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GroupEvents {
    /// The group's name.
    pub(crate) group: String,
    /// Its id, the same for as long as it exists.
    pub(crate) id: GroupId,
    /// Its locator.
    pub(crate) rrl: String,
    /// Its last rebalances, the oldest first.
    pub(crate) events: Vec<Event>,
    /// The one that has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) underway: Option<Underway>,
}

async fn group_events(
    State(admin): State<Arc<Admin>>,
    headers: HeaderMap,
    query: Result<Query<GroupNamed>, QueryRejection>,
) -> Response {
    let serving = match admin.admit(&headers) {
        Ok(serving) => serving,
        Err(refusal) => return refusal,
    };
    let named = match query {
        Ok(Query(named)) => named,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &format!("expected ?group=NAME: {error}")),
    };
    let GroupNamed { group, org } = named.clone();
    match (serving.group_events)(named).await {
        Ok(events) => Json(events).into_response(),
        Err(NoEvents::NoOrg) => refuse(StatusCode::NOT_FOUND, &format!("organisation {org} does not exist")),
        Err(NoEvents::Absent) => refuse(StatusCode::NOT_FOUND, &format!("group {group} does not exist")),
        Err(NoEvents::Loading) => {
            let message = "the broker still loads its groups; try again in a moment";
            refuse(StatusCode::SERVICE_UNAVAILABLE, message)
        }
        Err(NoEvents::Unreadable) => {
            let message =
                format!("the groups among which {group} would be cannot be read; see the broker's log");
            refuse(StatusCode::SERVICE_UNAVAILABLE, &message)
        }
    }
}

fn refuse(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "error": message }))).into_response()
}

#[cfg(test)]
mod tests {
    use std::future;

    use coordination::settings::Settings;
    use store::{LocalStore, RealDisk};

    use crate::http::request;

    use super::*;

    pub(super) const TOKEN: &str = "secret-secret-secret";

    pub(super) async fn start() -> (Arc<Admin>, String) {
        let listener = bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let admin = Arc::new(Admin::default());
        tokio::spawn(serve(listener, Arc::clone(&admin)));
        (admin, address)
    }

    /// A broker on a new data directory, which is removed when the directory is dropped.
    pub(super) async fn ready(admin: &Admin) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let take_snapshot: TakeSnapshot = Box::new(|directory| {
            anyhow::ensure!(directory != Path::new("/taken"), "/taken exists already");
            Ok(SnapshotSummary { bytes: 42, ..SnapshotSummary::default() })
        });
        let registry = Registry::with_prefix("kohort");
        let group_events: FindGroupEvents = Box::new(|GroupNamed { group, org }| {
            Box::pin(future::ready(match &*group {
                _ if org != "default" => Err(NoEvents::NoOrg),
                "a b" => Ok(GroupEvents {
                    group,
                    id: GroupId::from_u128(1),
                    rrl: "default/consumer-groups/a-b".to_owned(),
                    events: Vec::new(),
                    underway: None,
                }),
                "loading" => Err(NoEvents::Loading),
                "unreadable" => Err(NoEvents::Unreadable),
                _ => Err(NoEvents::Absent),
            }))
        });
        let token = TOKEN.to_owned();
        let store = LocalStore::open(Arc::new(RealDisk), dir.path(), store::Options::default()).unwrap().0;
        let broker = Broker::start(Arc::new(store), Settings::default()).await.unwrap();
        admin.serving(Serving { registry, token, take_snapshot, group_events, broker });
        dir
    }

    #[tokio::test]
    async fn readiness_follows_the_brokers_life_and_liveness_does_not() {
        let (admin, address) = start().await;
        let get = async |path| request(&address, "GET", path, None, "").await.unwrap();
        assert_eq!(get("/livez").await.status, 200);
        assert_eq!(get("/readyz").await, (503, "recovering\n"));
        assert_eq!(get("/metrics").await.status, 200);
        let _dir = ready(&admin).await;
        assert_eq!(get("/readyz").await, (200, "ready\n"));
        assert!(get("/metrics").await.body.ends_with("# EOF\n"));
        admin.draining();
        assert_eq!(get("/readyz").await, (503, "draining\n"));
        assert_eq!(get("/livez").await.status, 200);
        assert_eq!(get("/elsewhere").await.status, 404);
    }

    #[tokio::test]
    async fn a_snapshot_needs_the_token_and_a_directory() {
        let (admin, address) = start().await;
        let post = async |token, body| request(&address, "POST", "/v1/snapshot", token, body).await.unwrap();
        let right = Some("secret-secret-secret");
        assert_eq!(post(right, "{\"directory\": \"/new\"}").await.status, 503);
        let _dir = ready(&admin).await;
        assert_eq!(post(None, "{\"directory\": \"/new\"}").await.status, 401);
        assert_eq!(post(Some("guess"), "{\"directory\": \"/new\"}").await.status, 401);
        assert_eq!(post(right, "{}").await.status, 400);
        let relative = post(right, "{\"directory\": \"new\"}").await;
        assert!(relative.status == 400 && relative.body.contains("new is a relative path"), "{relative:?}");
        assert_eq!(
            post(right, "{\"directory\": \"/taken\"}").await,
            (409, "{\"error\":\"/taken exists already\"}")
        );
        assert_eq!(
            post(right, "{\"directory\": \"/new\"}").await,
            (
                200,
                "{\"directory\":\"/new\",\"partitions\":0,\"bytes\":42,\"linked_files\":0,\"copied_files\":0}"
            )
        );
        assert_eq!(request(&address, "GET", "/v1/snapshot", right, "").await.unwrap().status, 405);
    }

    #[tokio::test]
    async fn a_group_that_cannot_be_looked_for_is_not_said_to_be_absent() {
        let (admin, address) = start().await;
        let _dir = ready(&admin).await;
        let get = async |group| {
            let path = format!("/v1/group-events?group={group}");
            request(&address, "GET", &path, Some("secret-secret-secret"), "").await.unwrap()
        };
        let loading = get("loading").await;
        assert!(loading.status == 503 && loading.body.contains("still loads its groups"), "{loading:?}");
        let unreadable = get("unreadable").await;
        assert!(unreadable.status == 503 && unreadable.body.contains("cannot be read"), "{unreadable:?}");
    }

    #[tokio::test]
    async fn group_events_need_the_token_and_a_group() {
        let (admin, address) = start().await;
        let get = async |token, path| request(&address, "GET", path, token, "").await.unwrap();
        let (right, path) = (Some("secret-secret-secret"), "/v1/group-events?group=a%20b");
        assert_eq!(get(right, path).await.status, 503);
        let _dir = ready(&admin).await;
        assert_eq!(get(None, path).await.status, 401);
        assert_eq!(get(right, "/v1/group-events").await.status, 400);
        assert_eq!(
            get(right, "/v1/group-events?group=c&org=acme").await,
            (404, "{\"error\":\"organisation acme does not exist\"}")
        );
        assert_eq!(
            get(right, "/v1/group-events?group=c").await,
            (404, "{\"error\":\"group c does not exist\"}")
        );
        assert_eq!(
            get(right, path).await,
            (
                200,
                "{\"group\":\"a b\",\"id\":\"cgp_00000000000000000000000001\",\
                 \"rrl\":\"default/consumer-groups/a-b\",\"events\":[]}"
            )
        );
    }
}
