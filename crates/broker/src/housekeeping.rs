//! What the broker does on its own time: retention, compaction, and forgetting silent producers.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::compaction::compact_all;
use crate::retention::plan_retention;
use crate::{Inner, now_ms};

/// The first check for old segments comes this soon after the start at the latest, as in Kafka.
const FIRST_RETENTION_CHECK: Duration = Duration::from_secs(30);

/// Begins to look after the logs.
pub(crate) fn start(inner: &Arc<Inner>) -> Vec<JoinHandle<()>> {
    let retention = {
        let inner = Arc::clone(inner);
        tokio::spawn(async move {
            let mut pause = check_interval(&inner).min(FIRST_RETENTION_CHECK);
            loop {
                tokio::time::sleep(pause).await;
                retain(&inner).await;
                pause = check_interval(&inner);
            }
        })
    };
    let compaction = {
        let inner = Arc::clone(inner);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(millis(inner.limits.settings().cleaner_backoff_ms())).await;
                compact_all(&inner).await;
            }
        })
    };
    vec![retention, compaction]
}

/// Lets old segments and silent producers go.
pub(crate) async fn retain(inner: &Arc<Inner>) {
    let now_ms = now_ms();
    expire_producers(inner, now_ms).await;
    for topic in inner.topics.all() {
        for partition in &topic.partitions {
            let log = partition.log();
            let Some(start) = plan_retention(&log.segments(), log.size_bytes(), &topic.config, now_ms) else {
                continue;
            };
            let from = log.start_offset();
            if start > from && partition.move_start(start).await.is_ok() {
                let (topic, partition) = (&topic.name, log.key().partition);
                tracing::info!(%topic, partition, from, to = start, "records went by retention");
            }
        }
    }
}

/// Forgets silent producers, on a thread where blocking is allowed: the settler may be at work on a partition.
async fn expire_producers(inner: &Arc<Inner>, now_ms: i64) {
    let after_ms = inner.limits.settings().producer_id_expiration_ms();
    let topics = inner.topics.all();
    let work = tokio::task::spawn_blocking(move || {
        for partition in topics.iter().flat_map(|topic| &topic.partitions) {
            partition.expire_producers(now_ms, after_ms);
        }
    });
    // A panic there has been reported by its thread; the next round tries again.
    let _ = work.await;
}

fn check_interval(inner: &Inner) -> Duration {
    millis(inner.limits.settings().retention_check_interval_ms())
}

/// At least a moment, so that a setting of 0 does not make a busy loop.
fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0)).max(Duration::from_millis(10))
}
