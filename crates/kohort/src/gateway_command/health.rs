//! The gateway's HTTP listener: `/livez`, `/readyz` and `/metrics`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use gateway::Gateway;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use rail::LinkState;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::metrics;

/// What the listener knows of the gateway.
pub(super) struct Health {
    registry: Registry,
    link: watch::Receiver<LinkState>,
    is_draining: AtomicBool,
}

impl Health {
    /// Of this gateway behind this link.
    pub(super) fn new(gateway: &Gateway, link: watch::Receiver<LinkState>) -> Self {
        let mut registry = Registry::default();
        metrics::register_process(&mut registry);
        gateway.metrics().register(registry.sub_registry_with_prefix("kohort"));
        Self { registry, link, is_draining: AtomicBool::new(false) }
    }

    /// The gateway takes no more clients.
    pub(super) fn draining(&self) {
        self.is_draining.store(true, Ordering::Release);
    }

    /// Why clients should not be sent here, if they should not.
    fn objection(&self) -> Option<String> {
        if self.is_draining.load(Ordering::Acquire) {
            return Some("draining\n".to_owned());
        }
        match &*self.link.borrow() {
            LinkState::Up { .. } => None,
            LinkState::Dialling => Some("dialling the broker\n".to_owned()),
            LinkState::Refused { reason } => Some(format!("refused by the broker: {reason}\n")),
            LinkState::Closed => Some("ended\n".to_owned()),
        }
    }
}

/// Answers on `listener` for as long as the process lives; also while it drains, to say so.
pub(super) async fn serve(listener: TcpListener, health: Arc<Health>) {
    if let Err(error) = axum::serve(listener, router(health)).await {
        tracing::error!(%error, "the admin listener has ended");
    }
}

fn router(health: Arc<Health>) -> Router {
    Router::new()
        .route("/livez", get(async || "alive\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(show_metrics))
        .fallback(async || {
            (StatusCode::NOT_FOUND, "there is nothing here; see /livez, /readyz and /metrics\n")
        })
        .with_state(health)
}

async fn readyz(State(health): State<Arc<Health>>) -> Response {
    match health.objection() {
        None => "ready\n".into_response(),
        Some(objection) => (StatusCode::SERVICE_UNAVAILABLE, objection).into_response(),
    }
}

async fn show_metrics(State(health): State<Arc<Health>>) -> Response {
    let mut text = String::new();
    if encode(&mut text, &health.registry).is_err() {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written\n").into_response();
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

#[cfg(test)]
mod tests {
    use gateway::Options;

    use super::*;
    use crate::http::request;

    #[tokio::test]
    async fn a_gateway_is_ready_while_its_link_is_up() {
        let gateway = Gateway::bind(Vec::new(), Options::default()).unwrap();
        let (link, state) = watch::channel(LinkState::Dialling);
        let health = Arc::new(Health::new(&gateway, state));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(serve(listener, Arc::clone(&health)));
        let get = async |path| request(&address, "GET", path, None, "").await.unwrap();
        assert_eq!(get("/readyz").await, (503, "dialling the broker\n"));
        link.send_replace(LinkState::Refused { reason: "it is unknown".to_owned() });
        assert_eq!(get("/readyz").await, (503, "refused by the broker: it is unknown\n"));
        link.send_replace(LinkState::Up { node: 2 });
        assert_eq!(get("/readyz").await, (200, "ready\n"));
        assert!(get("/metrics").await.body.ends_with("# EOF\n"));
        health.draining();
        assert_eq!(get("/readyz").await, (503, "draining\n"));
        assert_eq!(get("/livez").await.status, 200);
        assert_eq!(get("/v1/orgs").await.status, 404);
    }
}
