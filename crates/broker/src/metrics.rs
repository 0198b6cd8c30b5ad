//! What the broker counts.

use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::topics::Topics;

/// The broker's counters; [`Metrics::register`] shows them.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    produce_requests: Counter,
    produced_bytes: Counter,
    fetch_requests: Counter,
    fetched_bytes: Counter,
}

impl Metrics {
    /// Adds the counters, and how many topics and partitions there are, to `registry`.
    pub fn register(&self, topics: &Arc<Topics>, registry: &mut Registry) {
        let counters = [
            ("broker_produce_requests", "Produce requests", &self.produce_requests),
            ("broker_produced_bytes", "Bytes of record batches taken from producers", &self.produced_bytes),
            ("broker_fetch_requests", "Fetch requests that were answered", &self.fetch_requests),
            ("broker_fetched_bytes", "Bytes of record batches given to consumers", &self.fetched_bytes),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        registry.register_collector(Box::new(Counts { topics: Arc::clone(topics) }));
    }

    pub(crate) fn produced(&self, bytes: usize) {
        self.produce_requests.inc();
        self.produced_bytes.inc_by(bytes as u64);
    }

    pub(crate) fn fetched(&self, bytes: usize) {
        self.fetch_requests.inc();
        self.fetched_bytes.inc_by(bytes as u64);
    }
}

/// Counted when somebody looks.
#[derive(Debug)]
struct Counts {
    topics: Arc<Topics>,
}

impl Collector for Counts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (topics, partitions) = self.topics.count();
        for (name, help, count) in
            [("topics", "Topics", topics), ("partitions", "Partitions of all topics", partitions)]
        {
            let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        Ok(())
    }
}
