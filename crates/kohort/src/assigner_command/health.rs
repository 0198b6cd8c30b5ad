//! How an instance of the assigner is.

use std::fmt;
use std::sync::{PoisonError, RwLock};

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::health_listener::Health;
use crate::metrics;

/// What is known of the instance. Its listener answers from the first moment on, so that a supervisor can tell an
/// instance that waits for etcd from one that hangs.
pub(super) struct InstanceHealth {
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

impl InstanceHealth {
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

impl Health for InstanceHealth {
    fn objection(&self) -> Option<String> {
        self.ask(|phase| match phase {
            Phase::Starting => Some("starting"),
            Phase::Running(instance) if instance.is_ready() => None,
            Phase::Running(_) => Some("not ready: what etcd holds is not known, or not up to date"),
            Phase::Stopping => Some("stopping"),
        })
        .map(str::to_owned)
    }

    fn metrics(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.process)?;
        let of_the_instance = self.ask(|phase| match phase {
            Phase::Running(instance) => instance.metrics(),
            Phase::Starting | Phase::Stopping => String::new(),
        });
        Ok(joined(&text, &of_the_instance))
    }
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::net::TcpListener;

    use super::*;
    use crate::health_listener::serve;
    use crate::http::request;

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
        let health = Arc::new(InstanceHealth::starting());
        tokio::spawn(serve(listener, Arc::clone(&health) as Arc<dyn Health>));
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
