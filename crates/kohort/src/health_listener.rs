//! An HTTP listener that says how a process is: `/livez`, `/readyz` and `/metrics`.

use std::fmt;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Json, Router};
use serde_json::json;
use tokio::net::TcpListener;

/// What a process tells about itself.
pub(crate) trait Health: Send + Sync + 'static {
    /// Why nobody should be sent here, if nobody should.
    fn objection(&self) -> Option<String>;

    /// What it counts, in Prometheus' text format.
    fn metrics(&self) -> Result<String, fmt::Error>;
}

/// Answers on `listener` for as long as the process lives; also while it ends, to say so.
pub(crate) async fn serve(listener: TcpListener, health: Arc<dyn Health>) {
    if let Err(error) = axum::serve(listener, router(health)).await {
        tracing::error!(%error, "the HTTP listener has ended");
    }
}

fn router(health: Arc<dyn Health>) -> Router {
    Router::new()
        .route("/livez", get(async || "alive\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(async |State(health): State<Arc<dyn Health>>| show_metrics(health.metrics())))
        .fallback(async || {
            (StatusCode::NOT_FOUND, "there is nothing here; see /livez, /readyz and /metrics\n")
        })
        // Whoever asks a broker's questions has the wrong address, and is told so in the form that a broker answers in.
        .route(
            "/v1/{*question}",
            any(async || (StatusCode::MISDIRECTED_REQUEST, Json(json!({ "error": NO_BROKER })))),
        )
        .with_state(health)
}

const NO_BROKER: &str = "this is not a broker's admin listener; name the broker's with --admin";

async fn readyz(State(health): State<Arc<dyn Health>>) -> Response {
    match health.objection() {
        None => "ready\n".into_response(),
        Some(objection) => (StatusCode::SERVICE_UNAVAILABLE, format!("{objection}\n")).into_response(),
    }
}

/// Metrics as an answer.
pub(crate) fn show_metrics(text: Result<String, fmt::Error>) -> Response {
    let Ok(text) = text else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written\n").into_response();
    };
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
