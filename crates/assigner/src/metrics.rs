//! What is counted and measured.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use coordination::handoff::{Handoff, Phase};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::clock::now_ms;
use crate::groups::HandoffChange;
use crate::instance::Instance;
use crate::topics::shown;

/// Of how many consumers it is told that they are waited for: those who hold up most. A label for each of any number
/// would be too much for who collects them.
const WAITED_FOR_MAX: usize = 100;

/// What every name begins with.
const PREFIX: &str = "kohort_assigner";

/// All counters of one instance.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// Streams of consumers that are open here.
    pub(crate) streams: Gauge,
    /// 1 while this instance leads.
    pub(crate) is_leader: Gauge,
    /// How often this instance was elected.
    pub(crate) elections_won: Counter,
    /// Snapshots that had to be read after the first.
    pub(crate) resyncs: Counter,
    /// Values that this version cannot read.
    pub(crate) unreadable_values: Counter,
    /// How long it takes to decide.
    pub(crate) plan_duration: Histogram,
    handoffs_completed: Counter,
    handoffs_cancelled: Family<ByReason, Counter>,
    phase_duration: Family<ByPhase, Histogram>,
    etcd_duration: Family<ByEtcdRequest, Histogram>,
}

/// A request to etcd, by what it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EtcdRequest {
    Transaction,
    Read,
    Revision,
    Grant,
    KeepAlive,
    Revoke,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByEtcdRequest {
    kind: EtcdRequest,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPhase {
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByConsumer {
    group: String,
    consumer: String,
}

impl EncodeLabelValue for EtcdRequest {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        let name = match self {
            Self::Transaction => "transaction",
            Self::Read => "read",
            Self::Revision => "revision",
            Self::Grant => "grant",
            Self::KeepAlive => "keep_alive",
            Self::Revoke => "revoke",
        };
        EncodeLabelValue::encode(&name, encoder)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix(PREFIX),
            streams: Gauge::default(),
            is_leader: Gauge::default(),
            elections_won: Counter::default(),
            resyncs: Counter::default(),
            unreadable_values: Counter::default(),
            plan_duration: short(),
            handoffs_completed: Counter::default(),
            handoffs_cancelled: Family::default(),
            phase_duration: Family::new_with_constructor(long),
            etcd_duration: Family::new_with_constructor(short),
        };
        metrics.register();
        metrics
    }
}

/// From a request to etcd on the same machine to one that is about to be given up.
fn short() -> Histogram {
    Histogram::new([0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0])
}

/// From a release that is a matter of a flush to an hour of warming up.
fn long() -> Histogram {
    Histogram::new([
        0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
    ])
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("streams", "Consumers whose streams this instance serves", self.streams.clone());
        registry.register("is_leader", "1 while this instance leads", self.is_leader.clone());
        registry.register(
            "elections_won",
            "How often this instance began to lead",
            self.elections_won.clone(),
        );
        registry.register("resyncs", "How often all keys had to be read again", self.resyncs.clone());
        registry.register(
            "unreadable_values",
            "Values in etcd that this version cannot read",
            self.unreadable_values.clone(),
        );
        registry.register(
            "handoffs_completed",
            "Handoffs after which the target owns the partition, as seen while this instance leads",
            self.handoffs_completed.clone(),
        );
        registry.register(
            "handoffs_cancelled",
            "Handoffs that were given up by this instance",
            self.handoffs_cancelled.clone(),
        );
        registry.register_with_unit(
            "handoff_phase_duration",
            "How long handoffs were in a phase, as seen while this instance leads",
            Unit::Seconds,
            self.phase_duration.clone(),
        );
        registry.register_with_unit(
            "plan_duration",
            "How long it took to decide about a group",
            Unit::Seconds,
            self.plan_duration.clone(),
        );
        registry.register_with_unit(
            "etcd_request_duration",
            "How long etcd took to answer",
            Unit::Seconds,
            self.etcd_duration.clone(),
        );
    }

    /// Measures how long etcd takes to answer.
    pub(crate) async fn timed<T>(&self, kind: EtcdRequest, request: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let answer = request.await;
        self.etcd_duration.get_or_create(&ByEtcdRequest { kind }).observe(began.elapsed().as_secs_f64());
        answer
    }

    /// Counts a handoff that is given up.
    pub(crate) fn count_cancellation(&self, reason: &'static str) {
        self.handoffs_cancelled.get_or_create(&ByReason { reason }).inc();
    }

    /// Counts what has become of a handoff. All instances see it, so only the leader does.
    pub(crate) fn observe(&self, change: &HandoffChange) {
        if self.is_leader.get() == 0 {
            return;
        }
        let HandoffChange { group, partition, before, after, is_moved } = change;
        let is_same = |after: &Handoff| after.id == before.id && after.phase == before.phase;
        if after.as_ref().is_some_and(is_same) || before.phase == Phase::Cancelled {
            return;
        }
        let until = after.as_ref().map_or_else(now_ms, |after| after.phase_since_ms);
        let lasted = Duration::from_millis(until.saturating_sub(before.phase_since_ms));
        let phase = name(before.phase);
        self.phase_duration.get_or_create(&ByPhase { phase }).observe(lasted.as_secs_f64());
        if *is_moved && before.phase != Phase::Complete {
            self.handoffs_completed.inc();
            let Handoff { id, from, to, epoch, .. } = before;
            tracing::debug!(group = shown(group), %id, %epoch, "{partition} handoff from {from} to {to} is complete");
        }
    }

    /// Everything as Prometheus reads it, with what the mirror shows at the moment.
    pub(crate) fn render(&self, instance: &Instance) -> String {
        let mut text = String::new();
        let moment = Moment::of(instance).registry();
        let encoded = encode_registry(&mut text, &self.registry)
            .and_then(|()| encode_registry(&mut text, &moment))
            .and_then(|()| encode_eof(&mut text));
        encoded.expect("a text takes anything");
        text
    }
}

/// The name of a phase, as everywhere outside.
pub(crate) fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Warming => "warming",
        Phase::Ready => "ready",
        Phase::Complete => "complete",
        Phase::Cancelled => "cancelled",
    }
}

/// What the mirror shows at one moment.
#[derive(Debug, Default)]
struct Moment {
    is_current: bool,
    is_kafka_well: bool,
    groups: i64,
    consumers: i64,
    partitions: i64,
    unassigned: i64,
    phases: BTreeMap<&'static str, Open>,
    waited_for: BTreeMap<(String, String), i64>,
}

/// Handoffs in one phase.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    count: i64,
    oldest_ms: u64,
}

impl Moment {
    fn of(instance: &Instance) -> Self {
        let now_ms = now_ms();
        let phases = [Phase::Warming, Phase::Ready, Phase::Complete, Phase::Cancelled];
        let mut moment = Self {
            is_current: instance.groups.is_current(),
            is_kafka_well: instance.topics.problem().is_none(),
            phases: phases.map(|phase| (name(phase), Open::default())).into(),
            ..Self::default()
        };
        for id in instance.groups.ids() {
            moment.groups += 1;
            instance.groups.with(&id, |group| {
                moment.consumers += size(group.state.consumers.len());
                let all: usize =
                    group.state.topics.values().map(|stored| stored.value.partition_numbers().len()).sum();
                let owned =
                    group.state.assignments.keys().filter(|place| group.state.has_partition(place)).count();
                moment.partitions += size(all);
                moment.unassigned += size(all.saturating_sub(owned));
                for stored in group.state.handoffs.values() {
                    moment.add(shown(&id), &stored.value, now_ms);
                }
            });
        }
        moment
    }

    fn add(&mut self, group: &str, handoff: &Handoff, now_ms: u64) {
        let open = self.phases.entry(name(handoff.phase)).or_default();
        open.count += 1;
        open.oldest_ms = open.oldest_ms.max(now_ms.saturating_sub(handoff.phase_since_ms));
        let waited_for = match handoff.phase {
            Phase::Warming => &handoff.to,
            Phase::Ready | Phase::Complete => &handoff.from,
            Phase::Cancelled => return,
        };
        *self.waited_for.entry((group.to_owned(), waited_for.to_string())).or_default() += 1;
    }

    fn registry(self) -> Registry {
        let mut registry = Registry::with_prefix(PREFIX);
        let mut gauge = |name: &str, help: &str, value: i64| {
            let gauge: Gauge = Gauge::default();
            gauge.set(value);
            registry.register(name, help, gauge);
        };
        gauge("is_current", "1 while this instance hears of changes in etcd", self.is_current.into());
        gauge("is_kafka_reachable", "0 after Kafka has not answered", self.is_kafka_well.into());
        gauge("groups", "Groups of which anything is known", self.groups);
        gauge("consumers", "Consumers that are registered", self.consumers);
        gauge("partitions", "Partitions of all topics of all groups", self.partitions);
        gauge("partitions_unassigned", "Partitions that nobody owns", self.unassigned);
        let (handoffs, ages) =
            (Family::<ByPhase, Gauge>::default(), Family::<ByPhase, FloatGauge>::default());
        for (phase, open) in self.phases {
            handoffs.get_or_create(&ByPhase { phase }).set(open.count);
            ages.get_or_create(&ByPhase { phase }).set(Duration::from_millis(open.oldest_ms).as_secs_f64());
        }
        registry.register(
            "handoffs",
            "Handoffs that are under way or were given up a short while ago",
            handoffs,
        );
        registry.register_with_unit(
            "handoff_oldest_age",
            "For how long the oldest is in its phase",
            Unit::Seconds,
            ages,
        );
        let waiting = Family::<ByConsumer, Gauge>::default();
        let mut waited_for: Vec<((String, String), i64)> = self.waited_for.into_iter().collect();
        waited_for.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for ((group, consumer), count) in waited_for.into_iter().take(WAITED_FOR_MAX) {
            waiting.get_or_create(&ByConsumer { group, consumer }).set(count);
        }
        registry.register(
            "handoffs_waiting_for",
            "Handoffs that go on when this consumer has done its part",
            waiting,
        );
        registry
    }
}

type FloatGauge = Gauge<f64, std::sync::atomic::AtomicU64>;

fn size(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
