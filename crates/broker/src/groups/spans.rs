//! What is traced of groups, beside the ops.

use coordination::group::{Event, GroupRecord, Outcome};
use coordination::ids::OrgId;

/// Marks the end of a rebalance that gave everybody an assignment. `records` are those of the step that ended it.
pub(super) fn rebalance_ended(org: OrgId, event: &Event, records: &[GroupRecord]) {
    if event.outcome != Outcome::Stable {
        return;
    }
    let stored = records.iter().find_map(|record| match record {
        GroupRecord::Group { group, value: Some(value) } if value.generation == event.generation => {
            Some((group, value))
        }
        _ => None,
    });
    let Some((group, value)) = stored else { return };
    // It has no length of its own: how long members joined and waited is in the event.
    tracing::info_span!(
        "kohort.broker.coordinator.rebalance-complete",
        %org,
        group = &**group,
        generation_id = event.generation,
        leader_id = value.leader.as_deref().unwrap_or_default(),
        members = event.members_after,
        join_ms = event.join_ms,
        sync_ms = event.sync_ms,
    )
    .in_scope(|| ());
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::sync::Arc;

    use coordination::group::{Cause, GroupValue};
    use coordination::ids::GroupId;
    use parking_lot::Mutex;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Metadata, Subscriber};

    use super::*;

    /// Writes down the spans that begin.
    #[derive(Clone, Default)]
    struct Spans(Arc<Mutex<String>>);

    impl Subscriber for Spans {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, span: &Attributes<'_>) -> Id {
            self.0.lock().push_str(span.metadata().name());
            span.record(&mut Fields(&mut self.0.lock()));
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &tracing::Event<'_>) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    struct Fields<'a>(&'a mut String);

    impl Visit for Fields<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            write!(self.0, " {}={value:?}", field.name()).expect("a text has room");
        }
    }

    #[test]
    fn a_rebalance_that_ends_well_is_a_span_with_its_generation_and_leader() {
        let event = |outcome| Event {
            number: 0,
            began_ms: 1,
            cause: Cause::SessionExpired,
            who: None,
            outcome,
            generation: 7,
            members_before: 1,
            members_after: 2,
            join_ms: 3,
            sync_ms: 4,
            partitions_moved: None,
        };
        let value = GroupValue {
            protocol_type: "consumer".to_owned(),
            generation: 7,
            protocol: Some("range".to_owned()),
            leader: Some("anna-1".to_owned()),
            state_timestamp_ms: None,
            members: Vec::new(),
        };
        let records = [
            GroupRecord::IdentityDeleted(GroupId::from_u128(1)),
            GroupRecord::Group { group: "billing".into(), value: Some(Box::new(value)) },
        ];
        let spans = Spans::default();
        tracing::subscriber::with_default(spans.clone(), || {
            rebalance_ended(OrgId::DEFAULT, &event(Outcome::Overtaken), &records);
            rebalance_ended(OrgId::DEFAULT, &event(Outcome::Stable), &[]);
            rebalance_ended(OrgId::DEFAULT, &event(Outcome::Stable), &records);
        });
        let org = OrgId::DEFAULT;
        let expected = format!(
            "kohort.broker.coordinator.rebalance-complete org={org} group=\"billing\" generation_id=7 \
             leader_id=\"anna-1\" members=2 join_ms=3 sync_ms=4"
        );
        assert_eq!(*spans.0.lock(), expected);
    }
}
