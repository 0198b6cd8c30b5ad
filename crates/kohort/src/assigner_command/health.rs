//! The instance's HTTP listener: `/livez`, `/readyz` and `/metrics`.

use std::sync::{Arc, PoisonError, RwLock};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::metrics;

/// What the listener knows of the instance. It answers from the first moment on, so that a supervisor can tell an
/// instance that waits for etcd from one that hangs.
pub(super) struct Health {
    phase: RwLock<Phase>,
    /// What this process is and uses.
    process: Registry,
}

/// How far the instance is.
enum Phase {
    /// It is being put together.
    Starting,
    /// It is there, ready or not.
    Running(Box<dyn Instance>),
    /// It ends.
    Stopping,
}

/// What an instance tells.
pub(super) trait Instance: Send + Sync {
    /// Whether it may be sent consumers.
    fn is_ready(&self) -> bool;
    /// What it counts, in Prometheus' text format.
    fn metrics(&self) -> String;
}

impl Health {
    /// Of an instance that is being put together.
    pub(super) fn starting() -> Self {
        let mut process = Registry::default();
        metrics::register_process(&mut process);
        Self { phase: RwLock::new(Phase::Starting), process }
    }

    /// The instance is there.
    pub(super) fn running(&self, instance: Box<dyn Instance>) {
        self.set(Phase::Running(instance));
    }

    /// The instance takes no more consumers.
    pub(super) fn stopping(&self) {
        self.set(Phase::Stopping);
    }

    fn set(&self, phase: Phase) {
        *self.phase.write().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    fn ask<T>(&self, question: impl FnOnce(&Phase) -> T) -> T {
        question(&self.phase.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Answers on `listener` for as long as the process lives; also while it stops, to say so.
pub(super) async fn serve(listener: TcpListener, health: Arc<Health>) {
    if let Err(error) = axum::serve(listener, router(health)).await {
        tracing::error!(%error, "the HTTP listener has ended");
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
    let said = health.ask(|phase| match phase {
        Phase::Starting => Err("starting\n"),
        Phase::Running(instance) if instance.is_ready() => Ok("ready\n"),
        Phase::Running(_) => Err("not ready: what etcd holds is not known, or not up to date\n"),
        Phase::Stopping => Err("stopping\n"),
    });
    match said {
        Ok(ready) => ready.into_response(),
        Err(why_not) => (StatusCode::SERVICE_UNAVAILABLE, why_not).into_response(),
    }
}

async fn show_metrics(State(health): State<Arc<Health>>) -> Response {
    let mut text = String::new();
    if encode(&mut text, &health.process).is_err() {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written\n").into_response();
    }
    let of_the_instance = health.ask(|phase| match phase {
        Phase::Running(instance) => instance.metrics(),
        Phase::Starting | Phase::Stopping => String::new(),
    });
    let text = joined(&text, &of_the_instance);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Two texts of metrics as one, with one end.
fn joined(first: &str, second: &str) -> String {
    let body = |text: &str| text.strip_suffix(END).unwrap_or(text).to_owned();
    body(first) + &body(second) + END
}

/// What a text of metrics ends with.
const END: &str = "# EOF\n";

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::http::request;

    use super::*;

    struct Scripted(Arc<AtomicBool>);

    impl Instance for Scripted {
        fn is_ready(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        fn metrics(&self) -> String {
            "# TYPE kohort_assigner_x gauge\nkohort_assigner_x 1\n# EOF\n".to_owned()
        }
    }

    #[tokio::test]
    async fn readiness_follows_the_instance_and_liveness_does_not() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let health = Arc::new(Health::starting());
        tokio::spawn(serve(listener, Arc::clone(&health)));
        let get = async |path| request(&address, "GET", path, None, "").await.unwrap();
        assert_eq!(get("/livez").await.status, 200);
        assert_eq!(get("/readyz").await, (503, "starting\n"));

        let is_ready = Arc::new(AtomicBool::new(false));
        health.running(Box::new(Scripted(Arc::clone(&is_ready))));
        assert_eq!(get("/readyz").await.status, 503);
        is_ready.store(true, Ordering::Relaxed);
        assert_eq!(get("/readyz").await, (200, "ready\n"));
        let metrics = get("/metrics").await.body;
        assert!(
            metrics.contains("kohort_build_info") && metrics.contains("kohort_assigner_x 1\n"),
            "{metrics}"
        );
        assert_eq!(metrics.matches("# EOF").count(), 1, "{metrics}");

        health.stopping();
        assert_eq!(get("/readyz").await, (503, "stopping\n"));
        assert_eq!((get("/livez").await.status, get("/elsewhere").await.status), (200, 404));
    }
}
