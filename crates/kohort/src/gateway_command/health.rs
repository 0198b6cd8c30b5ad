//! How a gateway is.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use gateway::Gateway;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use rail::LinkState;
use tokio::sync::watch;

use crate::health_listener::Health;
use crate::metrics;

/// What is known of the gateway.
pub(super) struct GatewayHealth {
    registry: Registry,
    link: watch::Receiver<LinkState>,
    is_draining: AtomicBool,
}

impl GatewayHealth {
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
}

impl Health for GatewayHealth {
    fn objection(&self) -> Option<String> {
        if self.is_draining.load(Ordering::Acquire) {
            return Some("draining".to_owned());
        }
        match &*self.link.borrow() {
            LinkState::Up { .. } => None,
            LinkState::Dialling => Some("dialling the broker".to_owned()),
            LinkState::Refused { reason } => Some(format!("refused by the broker: {reason}")),
            LinkState::Closed => Some("ended".to_owned()),
        }
    }

    fn metrics(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gateway::Options;
    use tokio::net::TcpListener;

    use super::*;
    use crate::health_listener::serve;
    use crate::http::request;

    #[tokio::test]
    async fn a_gateway_is_ready_while_its_link_is_up() {
        let gateway = Gateway::bind(Vec::new(), Options::default()).unwrap();
        let (link, state) = watch::channel(LinkState::Dialling);
        let health = Arc::new(GatewayHealth::new(&gateway, state));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(serve(listener, Arc::clone(&health) as Arc<dyn Health>));
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
        assert_eq!(get("/v1").await.status, 404);
        let no_broker =
            r#"{"error":"this is not a broker's admin listener; name the broker's with --admin"}"#;
        assert_eq!(get("/v1/orgs").await, (421, no_broker));
    }
}
