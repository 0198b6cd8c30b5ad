//! Where a reset leads, decided from what is known of the partitions alone.

use serde::Serialize;

/// Where offsets shall go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// To the first offset.
    Earliest,
    /// To the end.
    Latest,
    /// To what is committed; to the end where nothing is.
    Current,
    /// To this offset.
    Offset(i64),
    /// To the first record that is young enough, which [`Known::found`] tells.
    Time,
    /// So far from what is committed.
    Shift(i64),
}

/// What is known of a partition before its offset is reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// The topic.
    pub(crate) topic: String,
    /// The partition's number.
    pub(crate) partition: i32,
    /// What the group has committed.
    pub(crate) committed: Option<i64>,
    /// The first offset.
    pub(crate) start: i64,
    /// The offset after the last.
    pub(crate) end: i64,
    /// The first record that is young enough, for [`Target::Time`].
    pub(crate) found: Option<i64>,
}

/// A partition with its new offset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Planned {
    /// The topic.
    pub(crate) topic: String,
    /// The partition's number.
    pub(crate) partition: i32,
    /// The offset that it gets.
    pub(crate) new_offset: i64,
    /// The offset that it has.
    pub(crate) current_offset: Option<i64>,
    /// The offset after the last.
    pub(crate) log_end_offset: i64,
    /// How many records are left to read then; negative where the offset is beyond the end.
    pub(crate) new_lag: i64,
}

/// What a partition's offset becomes, and what a person should know about it; `Err` says why it cannot be told.
///
/// Offsets are kept within the partition as Kafka's tool does it: those asked for by number and by shift, not those
/// that are committed already.
pub(crate) fn plan(target: Target, known: Known) -> Result<(Planned, Option<String>), String> {
    let place = format!("{}-{}", known.topic, known.partition);
    let (new_offset, note) = match target {
        Target::Earliest => (known.start, None),
        Target::Latest => (known.end, None),
        Target::Offset(offset) => within(&known, offset),
        Target::Current => match known.committed {
            Some(offset) => (offset, None),
            None => (known.end, Some("has no committed offset; the end is taken".to_owned())),
        },
        Target::Time => match known.found {
            Some(offset) => (offset, None),
            None => (known.end, Some("has no record that young; the end is taken".to_owned())),
        },
        Target::Shift(by) => match known.committed {
            Some(offset) => within(&known, offset.saturating_add(by)),
            None => {
                return Err(format!(
                    "{place} has no committed offset to shift; leave it out, or choose another scenario for it"
                ));
            }
        },
    };
    let planned = Planned {
        topic: known.topic,
        partition: known.partition,
        new_offset,
        current_offset: known.committed,
        log_end_offset: known.end,
        new_lag: known.end.saturating_sub(new_offset),
    };
    Ok((planned, note.map(|note| format!("{place} {note}"))))
}

fn within(known: &Known, offset: i64) -> (i64, Option<String>) {
    if offset < known.start {
        let note = format!("begins at {}, after offset {offset}; {} is taken", known.start, known.start);
        (known.start, Some(note))
    } else if offset > known.end {
        let note = format!("ends at {}, before offset {offset}; {} is taken", known.end, known.end);
        (known.end, Some(note))
    } else {
        (offset, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A partition that holds 10 to 19 and whose group has read up to 15.
    fn known() -> Known {
        Known {
            topic: "orders".to_owned(),
            partition: 3,
            committed: Some(15),
            start: 10,
            end: 20,
            found: Some(12),
        }
    }

    fn check(target: Target, known: Known, offset: i64, note: &str) {
        let (planned, told) = plan(target, known).unwrap();
        assert_eq!((planned.new_offset, told.as_deref().unwrap_or_default()), (offset, note), "{target:?}");
    }

    #[test]
    fn every_scenario_has_its_offset() {
        check(Target::Earliest, known(), 10, "");
        check(Target::Latest, known(), 20, "");
        check(Target::Current, known(), 15, "");
        check(Target::Offset(13), known(), 13, "");
        check(Target::Time, known(), 12, "");
        check(Target::Shift(3), known(), 18, "");
        check(Target::Shift(-5), known(), 10, "");
    }

    #[test]
    fn offsets_stay_within_the_partition_and_it_is_said() {
        let before = "orders-3 begins at 10, after offset 4; 10 is taken";
        let after = "orders-3 ends at 20, before offset 21; 20 is taken";
        check(Target::Offset(4), known(), 10, before);
        check(Target::Shift(-11), known(), 10, before);
        check(Target::Offset(21), known(), 20, after);
        check(Target::Shift(6), known(), 20, after);
        check(Target::Offset(20), known(), 20, "");
        let (planned, _) = plan(Target::Shift(i64::MIN), known()).unwrap();
        assert_eq!(planned.new_offset, 10);
    }

    #[test]
    fn what_is_committed_is_kept_even_outside_the_partition() {
        check(Target::Current, Known { committed: Some(3), ..known() }, 3, "");
        let beyond = Known { committed: Some(50), ..known() };
        let (planned, _) = plan(Target::Current, beyond).unwrap();
        assert_eq!((planned.new_offset, planned.new_lag), (50, -30));
    }

    #[test]
    fn without_a_commit_current_is_the_end_and_a_shift_is_refused() {
        let fresh = Known { committed: None, ..known() };
        check(Target::Current, fresh.clone(), 20, "orders-3 has no committed offset; the end is taken");
        let refusal = plan(Target::Shift(1), fresh).unwrap_err();
        assert!(refusal.contains("orders-3 has no committed offset to shift"), "{refusal}");
    }

    #[test]
    fn where_nothing_is_young_enough_the_end_is_taken() {
        let old = Known { found: None, ..known() };
        check(Target::Time, old, 20, "orders-3 has no record that young; the end is taken");
    }

    #[test]
    fn the_plan_tells_what_is_left_to_read() {
        let (planned, _) = plan(Target::Earliest, known()).unwrap();
        assert_eq!((planned.current_offset, planned.new_lag), (Some(15), 10));
    }
}
