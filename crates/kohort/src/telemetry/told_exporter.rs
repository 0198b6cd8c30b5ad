//! An exporter that says when its spans are not taken.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry_otlp::SpanExporter as OtlpExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tracing::{info, warn};

/// Exports spans; a collector that cannot be reached is logged once, and when it is back.
#[derive(Debug)]
pub(super) struct ToldExporter {
    exporter: OtlpExporter,
    endpoint: String,
    has_failed: AtomicBool,
}

impl ToldExporter {
    pub(super) fn new(exporter: OtlpExporter, endpoint: String) -> Self {
        Self { exporter, endpoint, has_failed: AtomicBool::new(false) }
    }
}

impl SpanExporter for ToldExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let exported = self.exporter.export(batch).await;
        let endpoint = &self.endpoint;
        match &exported {
            Err(error) if !self.has_failed.swap(true, Ordering::Relaxed) => {
                warn!(endpoint, spans, %error, "spans are not taken, and lost until they are");
            }
            Ok(()) if self.has_failed.swap(false, Ordering::Relaxed) => {
                info!(endpoint, "spans are taken again");
            }
            _ => {}
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
