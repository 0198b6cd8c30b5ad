//! What is counted of groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use coordination::group::{Cause, GroupRecord, Usage};
use coordination::ids::OrgId;
use coordination::reply::GroupState;

use super::Groups;
use super::spans::rebalance_ended;

/// The counters of all shards.
#[derive(Debug)]
pub(crate) struct Metrics {
    commits: Counter,
    committed_offsets: Counter,
    rebalances: Family<CauseLabel, Counter>,
    flushes: Counter,
    flushed_records: Histogram,
    flushed_bytes: Counter,
    load_ms: Gauge,
    read_back: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabel {
    cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

/// How many records one flush may hold, in powers of four: one is a lone commit, thousands are a storm of them.
const FLUSH_BUCKETS: [f64; 8] = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0];

impl Default for Metrics {
    fn default() -> Self {
        Self {
            commits: Counter::default(),
            committed_offsets: Counter::default(),
            rebalances: Family::default(),
            flushes: Counter::default(),
            flushed_records: Histogram::new(FLUSH_BUCKETS),
            flushed_bytes: Counter::default(),
            load_ms: Gauge::default(),
            read_back: Counter::default(),
        }
    }
}

impl Metrics {
    /// Adds the counters, and how many groups and members there are, to `registry`.
    pub(crate) fn register(&self, groups: &Arc<Groups>, registry: &mut Registry) {
        registry.register("group_commits", "OffsetCommit requests that were accepted", self.commits.clone());
        registry.register(
            "group_committed_offsets",
            "Offsets in OffsetCommit requests that were accepted",
            self.committed_offsets.clone(),
        );
        registry.register(
            "group_rebalances",
            "Rebalances that have ended, by what began them",
            self.rebalances.clone(),
        );
        registry.register("group_flushes", "Writes of group records", self.flushes.clone());
        registry.register(
            "group_flush_records",
            "Records of groups written together",
            self.flushed_records.clone(),
        );
        registry.register("group_flushed_bytes", "Bytes of group records", self.flushed_bytes.clone());
        registry.register(
            "group_load_milliseconds",
            "How long the groups took to load at the start",
            self.load_ms.clone(),
        );
        registry.register(
            "group_shards_read_back",
            "How often groups were read back because their records could not be stored",
            self.read_back.clone(),
        );
        registry.register_collector(Box::new(Counts { groups: Arc::downgrade(groups) }));
    }

    pub(crate) fn committed(&self, offsets: usize) {
        self.commits.inc();
        self.committed_offsets.inc_by(offsets as u64);
    }

    /// Counts what the records of a step tell of.
    pub(crate) fn emitted(&self, org: OrgId, records: &[GroupRecord]) {
        for record in records {
            if let GroupRecord::Event { event: Some(event), .. } = record {
                self.rebalances.get_or_create(&CauseLabel { cause: cause(&event.cause) }).inc();
                rebalance_ended(org, event, records);
            }
        }
    }

    pub(crate) fn flushed(&self, records: usize, bytes: usize) {
        self.flushes.inc();
        self.flushed_bytes.inc_by(bytes as u64);
        self.flushed_records.observe(f64::from(u32::try_from(records).unwrap_or(u32::MAX)));
    }

    pub(crate) fn loaded(&self, took: Duration) {
        self.load_ms.set(i64::try_from(took.as_millis()).unwrap_or(i64::MAX));
    }

    pub(crate) fn read_back(&self) {
        self.read_back.inc();
    }
}

fn cause(cause: &Cause) -> &'static str {
    match cause {
        Cause::MemberJoined { .. } => "member_joined",
        Cause::MemberLeft { .. } => "member_left",
        Cause::MemberRemoved { .. } | Cause::MembersRemoved { .. } => "member_removed",
        Cause::SessionExpired => "session_expired",
        Cause::SyncMissed => "sync_missed",
        Cause::SubscriptionChanged { .. } => "subscription_changed",
        Cause::MemberRejoined { .. } => "member_rejoined",
        Cause::LeaderRejoined { .. } => "leader_rejoined",
        Cause::StaticReplaced => "static_replaced",
        Cause::TooLarge => "too_large",
    }
}

/// What the groups of all shards take together.
#[derive(Debug, Default)]
pub(crate) struct TotalUsage {
    groups: AtomicI64,
    members: AtomicI64,
    bytes: AtomicI64,
}

impl TotalUsage {
    /// One shard takes `after` where it took `before`.
    pub(crate) fn replace(&self, before: Usage, after: Usage) {
        let add = |total: &AtomicI64, before: usize, after: usize| {
            if before != after {
                let signed = |count| i64::try_from(count).unwrap_or(i64::MAX);
                total.fetch_add(signed(after) - signed(before), Ordering::Relaxed);
            }
        };
        add(&self.groups, before.groups, after.groups);
        add(&self.members, before.members, after.members);
        add(&self.bytes, before.bytes, after.bytes);
    }

    pub(crate) fn now(&self) -> Usage {
        let get = |total: &AtomicI64| usize::try_from(total.load(Ordering::Relaxed)).unwrap_or(0);
        Usage { groups: get(&self.groups), members: get(&self.members), bytes: get(&self.bytes) }
    }
}

/// Counted when somebody looks.
#[derive(Debug)]
struct Counts {
    groups: std::sync::Weak<Groups>,
}

impl Collector for Counts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(groups) = self.groups.upgrade() else { return Ok(()) };
        let usage = groups.shared.usage.now();
        for (name, help, count) in [
            ("group_members", "Members of all groups", usage.members),
            ("group_bytes", "About how much memory groups take", usage.bytes),
        ] {
            let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        let states = groups.count_by_state();
        let family = Family::<StateLabel, Gauge>::default();
        for state in [
            GroupState::Empty,
            GroupState::PreparingRebalance,
            GroupState::CompletingRebalance,
            GroupState::Stable,
        ] {
            let count = states.get(&state).copied().unwrap_or(0);
            let gauge = family.get_or_create_owned(&StateLabel { state: state.name() });
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let metric = encoder.encode_descriptor("groups", "Groups by state", None, family.metric_type())?;
        family.encode(metric)
    }
}
