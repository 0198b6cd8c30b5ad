//! What `/metrics` shows of the store and of the process; the gateway and the broker bring their own.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use store::{Metrics, SYNC_BUCKETS_SECONDS};

/// Adds what this process and its store count; names of the store's begin with `kohort_`.
pub(crate) fn register(registry: &mut Registry, store: Arc<Metrics>) {
    register_process(registry);
    let kohort = registry.sub_registry_with_prefix("kohort");
    kohort.register_collector(Box::new(StoreCollector(store)));
}

/// Adds what this process is and uses.
pub(crate) fn register_process(registry: &mut Registry) {
    registry.register_collector(Box::new(ProcessCollector { started: SystemTime::now() }));
    let kohort = registry.sub_registry_with_prefix("kohort");
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    kohort.register("build", "What runs", Info::new(version));
}

#[derive(Debug)]
struct StoreCollector(Arc<Metrics>);

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let store = &*self.0;
        let mut syncs = encoder.encode_descriptor(
            "log_sync",
            "Time that syncs of the log took",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        let bounds = SYNC_BUCKETS_SECONDS.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(store.sync_buckets.iter().map(Metrics::get)).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        syncs.encode_histogram::<NoLabelSet>(
            seconds(Metrics::get(&store.sync_nanos)),
            count,
            &buckets,
            None,
        )?;

        for (name, help, counter) in [
            ("log_appends", "Record batches made durable", &store.appends),
            ("log_appended_bytes", "Bytes of record batches made durable", &store.appended_bytes),
            ("log_failed_appends", "Record batches that could not be made durable", &store.failed_appends),
            ("settled_files", "Log files settled into segments", &store.settled_files),
            ("failed_settles", "Attempts to settle a log file that failed", &store.failed_settles),
            ("recovery_cuts", "Torn tails that recovery cut", &store.cuts),
        ] {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(Metrics::get(counter)).encode(metric)?;
        }
        for (name, help, gauge) in [
            ("log_queue_bytes", "Bytes waiting to be written to the log", &store.queued_bytes),
            ("settle_backlog_bytes", "Bytes of log waiting to be settled", &store.backlog_bytes),
            ("settle_backlog_appends", "Record batches waiting to be settled", &store.backlog_appends),
            ("cache_bytes", "Bytes of recent batches held in memory", &store.cache_bytes),
        ] {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(i64::try_from(Metrics::get(gauge)).unwrap_or(i64::MAX)).encode(metric)?;
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a sum of times needs no more digits than a double has")]
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// The process as its operating system sees it, under the names that dashboards expect.
#[derive(Debug)]
struct ProcessCollector {
    started: SystemTime,
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Memory in use", resident_bytes()),
            ("process_open_fds", "Open file descriptors", open_files()),
            ("process_start_time_seconds", "When the process started", i64::try_from(started).ok()),
        ] {
            // Where the system does not tell, nothing is shown; a zero would look like a measurement.
            if let Some(value) = value {
                let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                ConstGauge::new(value).encode(metric)?;
            }
        }
        Ok(())
    }
}

fn resident_bytes() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn open_files() -> Option<i64> {
    i64::try_from(fs::read_dir("/proc/self/fd").ok()?.count()).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn the_stores_counters_and_the_process_are_shown() {
        let store = Arc::new(Metrics::default());
        store.backlog_bytes.store(7, Ordering::Relaxed);
        store.sync_buckets[0].store(2, Ordering::Relaxed);
        store.sync_nanos.store(150_000, Ordering::Relaxed);
        let mut registry = Registry::default();
        register(&mut registry, store);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "kohort_settle_backlog_bytes 7",
            "kohort_log_sync_seconds_count 2",
            "kohort_log_sync_seconds_sum 0.00015",
            "kohort_log_sync_seconds_bucket{le=\"0.0001\"} 2",
            "kohort_log_sync_seconds_bucket{le=\"+Inf\"} 2",
            "kohort_log_appends_total 0",
        ] {
            assert!(text.lines().any(|have| have == line), "no line {line} in\n{text}");
        }
        assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
        assert!(text.contains("kohort_build_info{version="), "{text}");
    }
}
