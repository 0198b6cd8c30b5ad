//! Retention: which of a partition's segments are too old or too many.

use coordination::settings::TopicConfig;
use store::SegmentSummary;

/// Where the log shall begin now, if anything is to go.
///
/// As in Kafka only whole segments go, from the front: one that is older than `retention.ms` by its largest
/// timestamp, or without which there is still as much as `retention.bytes`. What is not settled into a segment
/// yet stays, and counts.
pub fn plan_retention(
    segments: &[SegmentSummary],
    total_bytes: u64,
    config: &TopicConfig,
    now_ms: i64,
) -> Option<i64> {
    if !config.cleanup_policy.delete {
        return None;
    }
    let too_old = |segment: &SegmentSummary| {
        // Producers may leave records without a time (-1), which says nothing about their age.
        let timed = segment.max_timestamp >= 0;
        config.retention_ms.is_some_and(|keep| timed && now_ms.saturating_sub(segment.max_timestamp) > keep)
    };
    let mut left = total_bytes;
    let mut start = None;
    for segment in segments {
        let without = left.saturating_sub(segment.bytes);
        let too_many = config.retention_bytes.is_some_and(|keep| without >= keep);
        if !too_old(segment) && !too_many {
            break;
        }
        left = without;
        start = Some(segment.end_offset);
    }
    start
}

#[cfg(test)]
mod tests {
    use coordination::settings::{CleanupPolicy, Settings};

    use super::*;

    const NOW: i64 = 1_000_000;

    fn config(retention_ms: Option<i64>, retention_bytes: Option<u64>) -> TopicConfig {
        let cleanup_policy = CleanupPolicy { compact: false, delete: true };
        TopicConfig { retention_ms, retention_bytes, cleanup_policy, ..Settings::default().topic_defaults() }
    }

    fn segments() -> Vec<SegmentSummary> {
        let segment = |base_offset, age, active| SegmentSummary {
            base_offset,
            end_offset: base_offset + 10,
            bytes: 100,
            max_timestamp: NOW - age,
            active,
        };
        vec![segment(0, 900, false), segment(10, 500, false), segment(20, 700, false), segment(30, 10, true)]
    }

    #[test]
    fn segments_go_from_the_front_until_one_is_young_enough() {
        assert_eq!(plan_retention(&segments(), 400, &config(Some(800), None), NOW), Some(10));
        assert_eq!(plan_retention(&segments(), 400, &config(Some(600), None), NOW), Some(10));
        assert_eq!(plan_retention(&segments(), 400, &config(Some(499), None), NOW), Some(30));
        assert_eq!(plan_retention(&segments(), 400, &config(Some(900), None), NOW), None);
    }

    #[test]
    fn records_without_a_time_do_not_become_old() {
        let mut segments = segments();
        segments[0].max_timestamp = -1;
        assert_eq!(plan_retention(&segments, 400, &config(Some(800), None), NOW), None);
        assert_eq!(plan_retention(&segments, 400, &config(None, Some(300)), NOW), Some(10));
    }

    #[test]
    fn an_active_segment_goes_too_when_all_of_it_is_old() {
        assert_eq!(plan_retention(&segments(), 400, &config(Some(5), None), NOW), Some(40));
    }

    #[test]
    fn as_much_as_retention_bytes_is_kept() {
        assert_eq!(plan_retention(&segments(), 400, &config(None, Some(400)), NOW), None);
        assert_eq!(plan_retention(&segments(), 400, &config(None, Some(301)), NOW), None);
        assert_eq!(plan_retention(&segments(), 400, &config(None, Some(300)), NOW), Some(10));
        assert_eq!(plan_retention(&segments(), 400, &config(None, Some(0)), NOW), Some(40));
    }

    #[test]
    fn what_is_not_settled_counts() {
        assert_eq!(plan_retention(&segments(), 1_000, &config(None, Some(700)), NOW), Some(30));
    }

    #[test]
    fn a_topic_without_the_delete_policy_keeps_everything() {
        let compacted = TopicConfig {
            cleanup_policy: CleanupPolicy { compact: true, delete: false },
            ..config(Some(0), Some(0))
        };
        assert_eq!(plan_retention(&segments(), 400, &compacted, NOW), None);
    }
}
