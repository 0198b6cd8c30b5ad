//! Spans, exported by OpenTelemetry where somebody asked for it.
//!
//! [`Telemetry::start`] gives nothing unless it is told where spans go, as `kohort.otlp.endpoint` does. With it, [`Telemetry::at_gateway`] and
//! [`Telemetry::at_broker`] put a rail around the rail that records a span for each op, and [`Telemetry::layer`]
//! exports the spans that `tracing` knows. Without it there is no such rail, so ops cost what they cost before.

mod names;
mod told_exporter;
mod traced_rail;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use rail::Rail;
use tracing::{Level, Subscriber, warn};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;

use told_exporter::ToldExporter;
use traced_rail::TracedRail;

/// How long the end of the process waits for the last spans to be taken.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Where spans go.
#[derive(Debug, Clone)]
pub(crate) struct Telemetry {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Telemetry {
    /// Begins to export spans if `endpoint` names a place for them. Must be called within a tokio runtime. A place
    /// that cannot be reached costs spans, nothing else.
    pub(crate) fn start(
        endpoint: Option<String>,
        sample_ratio: f64,
        role: &'static str,
    ) -> anyhow::Result<Option<Self>> {
        let Some(endpoint) = endpoint else { return Ok(None) };
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(&endpoint)
            .build()
            .with_context(|| format!("export spans to kohort.otlp.endpoint {endpoint}"))?;
        let resource = Resource::builder()
            .with_service_name("kohort")
            .with_attributes([
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                KeyValue::new("kohort.role", role),
            ])
            .build();
        // Whoever began a trace has decided whether it is recorded.
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(sample_ratio)));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(ToldExporter::new(exporter, endpoint))
            .with_sampler(sampler)
            .with_resource(resource)
            .build();
        let tracer = provider.tracer("kohort");
        Ok(Some(Self { provider, tracer }))
    }

    /// The rail as a gateway uses it: each op begins a trace.
    pub(crate) fn at_gateway(&self, rail: Arc<dyn Rail>) -> Arc<dyn Rail> {
        Arc::new(TracedRail::new(rail, self.tracer.clone(), names::at_gateway))
    }

    /// The rail as a broker offers it: each op goes on with the trace that its gateway began.
    pub(crate) fn at_broker(&self, rail: Arc<dyn Rail>) -> Arc<dyn Rail> {
        Arc::new(TracedRail::new(rail, self.tracer.clone(), names::at_broker))
    }

    /// Exports the spans that code marks with `tracing`.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + Send + Sync + for<'a> LookupSpan<'a>,
    {
        let ours = filter_fn(|metadata| {
            metadata.is_span() && *metadata.level() <= Level::INFO && !is_of_the_export(metadata.target())
        });
        tracing_opentelemetry::layer()
            .with_tracer(self.tracer.clone())
            .with_filter(ours.with_max_level_hint(LevelFilter::INFO))
    }

    /// Sends the last spans.
    pub(crate) fn end(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH_TIMEOUT) {
            warn!(%error, "the last spans were not exported");
        }
    }
}

/// Whether a span belongs to what exports spans: to export those as well would never end.
fn is_of_the_export(target: &str) -> bool {
    ["tonic", "h2", "hyper", "tower", "opentelemetry"].iter().any(|name| target.starts_with(name))
}
