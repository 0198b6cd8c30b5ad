//! What the gateway counts. Nothing here takes a lock or allocates while requests are served; logins do.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use coordination::error_code::ErrorCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use wire::ApiKey;

/// Upper bounds of the latency histogram, in microseconds: 50 µs, where an answer from memory lies, to 10 s.
const BOUNDS_MICROS: [u64; 17] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

/// One counter for each error code and one for none.
const OUTCOMES: usize = ErrorCode::ALL.len() + 1;

/// How many APIs are answered.
pub(crate) const APIS: usize = ApiKey::ANSWERED.len();

/// The counters of one gateway; clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// What each thread has counted: if all counted in one place, they would wait for each other there.
    pub(crate) traffic: Arc<[Arc<Traffic>]>,
    pub(crate) connections: Gauge,
    pub(crate) connections_accepted: Counter,
    pub(crate) connections_refused: Counter,
    pub(crate) connections_idle_closed: Counter,
    pub(crate) connections_stalled_closed: Counter,
    pub(crate) decode_failures: Counter,
    /// Clients that the broker did not let in.
    pub(crate) connections_denied: Counter,
    pub(crate) tls_failures: Counter,
    pub(crate) authentication_timeouts: Counter,
    pub(crate) sessions_expired: Counter,
    pub(crate) throttled: Counter,
    logins: Family<[(&'static str, &'static str); 1], Counter>,
    failed_logins: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Metrics {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            traffic: (0..threads).map(|_| Arc::new(Traffic::new())).collect(),
            connections: Gauge::default(),
            connections_accepted: Counter::default(),
            connections_refused: Counter::default(),
            connections_idle_closed: Counter::default(),
            connections_stalled_closed: Counter::default(),
            decode_failures: Counter::default(),
            connections_denied: Counter::default(),
            tls_failures: Counter::default(),
            authentication_timeouts: Counter::default(),
            sessions_expired: Counter::default(),
            throttled: Counter::default(),
            logins: Family::default(),
            failed_logins: Family::default(),
        }
    }

    /// A client has shown who it is.
    pub(crate) fn succeeded_login(&self, mechanism: &'static str) {
        self.logins.get_or_create(&[("mechanism", mechanism)]).inc();
    }

    /// A client has not.
    pub(crate) fn failed_login(&self, mechanism: &'static str) {
        self.failed_logins.get_or_create(&[("mechanism", mechanism)]).inc();
    }

    /// Makes the counters part of what `registry` shows.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(AllTraffic(Arc::clone(&self.traffic))));
        registry.register("connections", "Clients that are connected", self.connections.clone());
        registry.register(
            "connections_accepted",
            "Connections that were accepted",
            self.connections_accepted.clone(),
        );
        registry.register(
            "connections_refused",
            "Connections closed at once because of max.connections or max.connections.per.ip, or because their address has \
             too many that have not shown who they are",
            self.connections_refused.clone(),
        );
        registry.register(
            "connections_idle_closed",
            "Connections closed because of connections.max.idle.ms",
            self.connections_idle_closed.clone(),
        );
        registry.register(
            "connections_stalled_closed",
            "Connections closed because the client did not read its answers",
            self.connections_stalled_closed.clone(),
        );
        registry.register(
            "undecodable_requests",
            "Requests of a size, API, version or form that is not known; each closes its connection",
            self.decode_failures.clone(),
        );
        let counters = [
            (
                "connections_denied",
                "Connections closed because their organisation has as many as it may",
                &self.connections_denied,
            ),
            ("tls_handshake_failures", "Connections on which TLS did not come about", &self.tls_failures),
            (
                "authentication_timeouts",
                "Connections closed because of kohort.authentication.timeout.ms",
                &self.authentication_timeouts,
            ),
            (
                "sessions_expired",
                "Connections closed because the client did not show again who it is",
                &self.sessions_expired,
            ),
            ("throttled", "Answers after which a connection was not read for a while", &self.throttled),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        registry.register(
            "authentications",
            "Clients that have shown who they are, by mechanism",
            self.logins.clone(),
        );
        registry.register(
            "authentication_failures",
            "Clients that have not, by mechanism",
            self.failed_logins.clone(),
        );
    }
}

/// What came and went on one thread: requests by API with their errors and latencies, and bytes.
pub(crate) struct Traffic {
    apis: [OneApi; APIS],
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

struct OneApi {
    /// By outcome: none first, then the codes in the order of [`ErrorCode::ALL`].
    outcomes: [AtomicU64; OUTCOMES],
    /// By the first bound that is not below the latency; the last is for those above all.
    latencies: [AtomicU64; BOUNDS_MICROS.len() + 1],
    latency_sum_micros: AtomicU64,
}

impl Traffic {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            apis: std::array::from_fn(|_| OneApi {
                outcomes: std::array::from_fn(|_| zero()),
                latencies: std::array::from_fn(|_| zero()),
                latency_sum_micros: zero(),
            }),
            bytes_in: zero(),
            bytes_out: zero(),
        }
    }

    pub(crate) fn received(&self, bytes: usize) {
        add(&self.bytes_in, bytes as u64);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        add(&self.bytes_out, bytes as u64);
    }

    /// Counts `count` requests of an API that took `latency` each and ended in `error`.
    pub(crate) fn count(&self, slot: ApiSlot, error: Option<ErrorCode>, latency: Duration, count: u64) {
        let api = &self.apis[slot.0];
        let outcome = match error {
            None => 0,
            // An outcome that is not in the list cannot be; if it were, it must not bring a connection down.
            Some(code) => ErrorCode::ALL.iter().position(|&known| known == code).map_or(0, |index| index + 1),
        };
        add(&api.outcomes[outcome], count);
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_MICROS.partition_point(|&bound| bound < micros);
        add(&api.latencies[bucket], count);
        add(&api.latency_sum_micros, micros.saturating_mul(count));
    }
}

/// Adds to a number that one thread writes and others only read, which needs no lock of the processor's.
#[inline]
fn add(number: &AtomicU64, count: u64) {
    number.store(number.load(Relaxed).wrapping_add(count), Relaxed);
}

impl fmt::Debug for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traffic").finish_non_exhaustive()
    }
}

/// Where an API's counters are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ApiSlot(usize);

impl ApiSlot {
    pub(crate) fn of(api: ApiKey) -> Self {
        // The list has a handful of entries and is sorted, so this is a few comparisons.
        Self(ApiKey::ANSWERED.partition_point(|&known| known < api))
    }
}

/// Requests answered at once, counted together when the batch is done: one clock reading for all of them.
#[derive(Debug)]
pub(crate) struct Tally {
    counts: [u32; APIS],
    /// Where there is something: mostly in one place, and at first in none.
    first: usize,
    end: usize,
}

impl Default for Tally {
    fn default() -> Self {
        Self { counts: [0; APIS], first: APIS, end: 0 }
    }
}

impl Tally {
    pub(crate) fn add(&mut self, slot: ApiSlot) {
        self.counts[slot.0] += 1;
        self.first = self.first.min(slot.0);
        self.end = self.end.max(slot.0 + 1);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.end == 0
    }

    pub(crate) fn flush(&mut self, traffic: &Traffic, latency: Duration) {
        for index in self.first..self.end {
            let count = std::mem::take(&mut self.counts[index]);
            if count > 0 {
                traffic.count(ApiSlot(index), None, latency, u64::from(count));
            }
        }
        (self.first, self.end) = (APIS, 0);
    }
}

/// What all threads have counted.
#[derive(Debug)]
struct AllTraffic(Arc<[Arc<Traffic>]>);

impl AllTraffic {
    /// The sum of one number over all threads.
    fn sum(&self, number: impl Fn(&Traffic) -> &AtomicU64) -> u64 {
        self.0.iter().map(|traffic| number(traffic).load(Relaxed)).sum()
    }

    /// How many answers of an API took how long.
    fn latencies(&self, api: usize) -> [u64; BOUNDS_MICROS.len() + 1] {
        std::array::from_fn(|bucket| self.sum(|traffic| &traffic.apis[api].latencies[bucket]))
    }
}

impl Collector for AllTraffic {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let used = || {
            let apis = (0..APIS).zip(ApiKey::ANSWERED).map(|(api, key)| (api, key, self.latencies(api)));
            apis.filter(|(_, _, latencies)| latencies.iter().any(|count| *count > 0))
        };

        let mut counters = encoder.encode_descriptor(
            "requests",
            "Requests answered, by API and error",
            None,
            MetricType::Counter,
        )?;
        for (api, key, _) in used() {
            let names = [None].into_iter().chain(ErrorCode::ALL.iter().map(Some));
            for (outcome, code) in names.enumerate() {
                let count = self.sum(|traffic| &traffic.apis[api].outcomes[outcome]);
                if count > 0 {
                    let labels = [("api", key.name()), ("error", code.map_or("NONE", |code| code.name()))];
                    ConstCounter::new(count).encode(counters.encode_family(&labels)?)?;
                }
            }
        }

        let mut histograms = encoder.encode_descriptor(
            "request_latency",
            "Time from having read a request to its answer",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (api, key, latencies) in used() {
            let bounds = BOUNDS_MICROS.iter().map(|&micros| seconds(micros)).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(latencies).collect();
            histograms.encode_family(&[("api", key.name())])?.encode_histogram::<NoLabelSet>(
                seconds(self.sum(|traffic| &traffic.apis[api].latency_sum_micros)),
                latencies.iter().sum(),
                &buckets,
                None,
            )?;
        }

        let received = self.sum(|traffic| &traffic.bytes_in);
        let sent = self.sum(|traffic| &traffic.bytes_out);
        for (name, help, bytes) in
            [("received", "Bytes read from clients", received), ("sent", "Bytes written to clients", sent)]
        {
            let bytes = ConstCounter::new(bytes);
            bytes.encode(encoder.encode_descriptor(
                name,
                help,
                Some(&Unit::Bytes),
                MetricType::Counter,
            )?)?;
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a histogram's sum needs no more digits than a double has")]
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn a_tally_is_counted_once_wherever_there_is_something_in_it() {
        let (traffic, mut tally) = (Traffic::new(), Tally::default());
        assert!(tally.is_empty());
        for round in 1..=2 {
            for api in [ApiKey::Heartbeat, ApiKey::Produce, ApiKey::DescribeCluster, ApiKey::Heartbeat] {
                tally.add(ApiSlot::of(api));
            }
            assert!(!tally.is_empty());
            tally.flush(&traffic, Duration::ZERO);
            assert!(tally.is_empty());
            let answered = |api| traffic.apis[ApiSlot::of(api).0].outcomes[0].load(Relaxed);
            let counted = [ApiKey::Produce, ApiKey::Fetch, ApiKey::Heartbeat, ApiKey::DescribeCluster];
            assert_eq!(counted.map(answered), [round, 0, 2 * round, round]);
        }
    }

    #[test]
    fn what_all_threads_have_counted_is_shown_by_api_and_error_with_latency() {
        let metrics = Metrics::new(2);
        for traffic in &*metrics.traffic {
            let mut tally = Tally::default();
            tally.add(ApiSlot::of(ApiKey::Metadata));
            tally.flush(traffic, Duration::from_micros(80));
        }
        metrics.traffic[1].count(
            ApiSlot::of(ApiKey::Produce),
            Some(ErrorCode::MessageTooLarge),
            Duration::from_millis(3),
            1,
        );
        metrics.traffic[0].received(4);
        metrics.traffic[1].received(3);

        let mut registry = Registry::with_prefix("kohort");
        metrics.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).expect("text takes anything");
        for line in [
            "kohort_requests_total{api=\"Metadata\",error=\"NONE\"} 2",
            "kohort_requests_total{api=\"Produce\",error=\"MESSAGE_TOO_LARGE\"} 1",
            "kohort_request_latency_seconds_bucket{le=\"0.00005\",api=\"Metadata\"} 0",
            "kohort_request_latency_seconds_bucket{le=\"0.0001\",api=\"Metadata\"} 2",
            "kohort_request_latency_seconds_bucket{le=\"+Inf\",api=\"Metadata\"} 2",
            "kohort_request_latency_seconds_count{api=\"Produce\"} 1",
            "kohort_received_bytes_total 7",
            "kohort_connections 0",
        ] {
            assert!(text.lines().any(|have| have == line), "no line {line} in\n{text}");
        }
    }
}
