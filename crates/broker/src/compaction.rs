//! Compaction: which logs are compacted, when, and how far. The work itself is the store's.

use std::sync::Arc;
use std::time::Duration;

use coordination::settings::{Settings, TopicConfig};
use store::{CompactOptions, PartitionConfig, PartitionLog};

use crate::admin::CATALOG_PARTITION;
use crate::{Inner, groups, now_ms};

/// Memory that one key takes while a log is compacted.
const KEY_BYTES: usize = 50;

/// The records of the broker's own topic are few and change often, so small segments let most of them go early.
const OWN_SEGMENT_BYTES: u64 = 16 << 20;

/// Compacts every log that is due, one after the other, on a thread where blocking is allowed.
pub(crate) async fn compact_all(inner: &Arc<Inner>) {
    let settings = inner.limits.settings();
    if !settings.cleaner_enabled() {
        return;
    }
    let now_ms = now_ms();
    let own = options(&settings, &settings.topic_defaults(), now_ms);
    let mut due: Vec<_> = own_logs(inner).into_iter().map(|log| (log, own)).collect();
    for topic in inner.topics.all() {
        if topic.config.cleanup_policy.compact {
            let options = options(&settings, &topic.config, now_ms);
            due.extend(topic.partitions.iter().map(|partition| (Arc::clone(partition.log()), options)));
        }
    }
    let store = Arc::clone(&inner.store);
    let work = tokio::task::spawn_blocking(move || {
        for (log, options) in due {
            let partition = log.key();
            match store.compact(&log, &options) {
                Ok(None) => {}
                Ok(Some(done)) => {
                    let (dropped, before, after) =
                        (done.records_dropped, done.bytes_before, done.bytes_after);
                    tracing::info!(%partition, dropped, before, after, "compacted");
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(%partition, error, "compact; the next attempt begins again");
                }
            }
        }
    });
    // A panic there has been reported by its thread; the next round tries again.
    let _ = work.await;
}

/// The logs of the broker's own records, the catalog's and the groups', set up to be compacted.
pub(crate) fn own_logs(inner: &Inner) -> [Arc<PartitionLog>; 2] {
    [CATALOG_PARTITION, groups::OWN_PARTITION].map(|partition| {
        let log = inner.store.partition(partition);
        log.configure(PartitionConfig { segment_bytes: OWN_SEGMENT_BYTES, ..PartitionConfig::default() });
        log
    })
}

fn options(settings: &Settings, config: &TopicConfig, now_ms: i64) -> CompactOptions {
    let millis = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
    CompactOptions {
        now_ms,
        delete_retention: millis(config.delete_retention_ms),
        min_lag: millis(config.min_compaction_lag_ms),
        max_lag: millis(config.max_compaction_lag_ms),
        min_dirty_ratio: config.min_cleanable_dirty_ratio,
        keys_max: (settings.cleaner_dedupe_buffer_bytes() / KEY_BYTES).max(1),
    }
}
