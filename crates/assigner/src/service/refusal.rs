//! The status that a refusal travels as.
//!
//! | status | what the consumer does |
//! |---|---|
//! | NOT_FOUND | it is not registered (any more), or its topic does not exist: register (again) |
//! | ABORTED | another process has its name: stop at once |
//! | FAILED_PRECONDITION | what it says is about a handoff that is over, another or not so far: forget it |
//! | PERMISSION_DENIED | what it says is not its to say: the handoff is between others |
//! | UNAVAILABLE | etcd or Kafka cannot be reached, this instance stops, or the other side of the handoff is away: try again |
//! | INVALID_ARGUMENT | the message itself is wrong, and would be so tomorrow |
//! | RESOURCE_EXHAUSTED | this instance has too much to do: go elsewhere |
//!
//! Programs that want to know more find the kind of a refusal in the metadata, under `kohort-refusal`.

use coordination::handoff::Refusal;
use etcd::EtcdError;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::groups::{Behind, SettleError};

/// The key of the metadata that names the kind of a refusal.
const KIND: &str = assigner_client::REFUSAL;

/// The status of a refusal. Its message is the refusal's text.
pub(super) fn status(refusal: &Refusal) -> Status {
    let (code, kind) = match refusal {
        Refusal::UnknownConsumer { .. } => (Code::NotFound, "unknown-consumer"),
        Refusal::Fenced { .. } => (Code::Aborted, "fenced"),
        // NOT_FOUND would be right as well, but that is what tells a consumer to register again.
        Refusal::UnknownHandoff { .. } => (Code::FailedPrecondition, "unknown-handoff"),
        Refusal::StaleHandoff { .. } => (Code::FailedPrecondition, "stale-handoff"),
        Refusal::StaleEpoch { .. } => (Code::FailedPrecondition, "stale-epoch"),
        Refusal::WrongPhase { .. } => (Code::FailedPrecondition, "wrong-phase"),
        Refusal::Cancelled { .. } => (Code::FailedPrecondition, "cancelled"),
        Refusal::TargetAway { .. } => (Code::Unavailable, "target-away"),
        Refusal::OwnerChanged { .. } => (Code::FailedPrecondition, "owner-changed"),
        Refusal::PredecessorWorks { .. } => (Code::FailedPrecondition, "predecessor-works"),
        Refusal::NotTheTarget { .. } => (Code::PermissionDenied, "not-the-target"),
        Refusal::NotTheOwner { .. } => (Code::PermissionDenied, "not-the-owner"),
    };
    of_kind(code, kind, refusal.to_string())
}

/// A status that says in its metadata of which kind it is.
pub(super) fn of_kind(code: Code, kind: &'static str, text: String) -> Status {
    let mut status = Status::new(code, text);
    status.metadata_mut().insert(KIND, MetadataValue::from_static(kind));
    status
}

/// The status of a decision of which nothing came.
pub(super) fn unsettled(error: &SettleError<Refusal>) -> Status {
    match error {
        SettleError::Refused(refusal) => status(refusal),
        SettleError::Contended => Status::unavailable(error.to_string()),
        SettleError::Behind(Behind) => Status::unavailable(error.to_string()),
        SettleError::Etcd(error) => etcd(error),
    }
}

/// The status of what etcd has not answered. Where etcd is, and what it says, is for the log.
pub(super) fn etcd(error: &EtcdError) -> Status {
    if error.is_transient() {
        tracing::debug!(%error, "etcd has not answered as it should");
    } else {
        tracing::warn!(%error, "etcd has not answered as it should");
    }
    Status::unavailable("etcd has not answered this instance; try again, elsewhere if possible")
}

#[cfg(test)]
mod tests {
    use coordination::handoff::{Epoch, HandoffId, Phase, TopicPartition};

    use super::*;

    fn shown(status: &Status) -> String {
        let kind = status.metadata().get(KIND).map(|kind| kind.to_str().unwrap());
        format!("{:?} {}: {}", status.code(), kind.unwrap_or("-"), status.message())
    }

    #[test]
    fn every_refusal_has_its_status_its_kind_and_its_text() {
        let partition = TopicPartition { topic: "t".parse().unwrap(), partition: 3 };
        let name = |text: &str| text.parse().unwrap();
        let handoff = HandoffId::from_u128(1);
        let refusals = [
            Refusal::UnknownConsumer { consumer: name("a") },
            Refusal::Fenced { consumer: name("a") },
            Refusal::PredecessorWorks { consumer: name("a") },
            Refusal::UnknownHandoff { partition: partition.clone() },
            Refusal::StaleHandoff { partition: partition.clone(), given: handoff, current: handoff },
            Refusal::StaleEpoch { partition: partition.clone(), given: Epoch(1), current: Epoch(2) },
            Refusal::NotTheTarget { partition: partition.clone(), caller: name("a"), target: name("b") },
            Refusal::NotTheOwner { partition: partition.clone(), caller: name("a"), owner: name("b") },
            Refusal::WrongPhase { partition: partition.clone(), phase: Phase::Warming },
            Refusal::Cancelled { partition: partition.clone(), handoff },
            Refusal::TargetAway { partition: partition.clone(), target: name("b") },
            Refusal::OwnerChanged { partition, handoff },
        ];
        let shown: Vec<String> = refusals.iter().map(|refusal| shown(&status(refusal))).collect();
        assert_eq!(
            shown,
            [
                "NotFound unknown-consumer: consumer a is not registered",
                "Aborted fenced: another process has registered as a; this one has to stop",
                "FailedPrecondition predecessor-works: a former process of a may still be at work",
                "FailedPrecondition unknown-handoff: no handoff of t-3 is under way",
                "FailedPrecondition stale-handoff: handoff hnd_00000000000000000000000001 of t-3 is over; \
                 hnd_00000000000000000000000001 is under way",
                "FailedPrecondition stale-epoch: epoch 1 of t-3 is not that of its handoff, which has 2",
                "PermissionDenied not-the-target: t-3 is handed over to b, not to a",
                "PermissionDenied not-the-owner: t-3 is handed over by b, not by a",
                "FailedPrecondition wrong-phase: the handoff of t-3 is in phase Warming, where this cannot be said",
                "FailedPrecondition cancelled: handoff hnd_00000000000000000000000001 of t-3 was given up",
                "Unavailable target-away: b, which t-3 is handed over to, is away; say it again",
                "FailedPrecondition owner-changed: t-3 has another owner than when handoff \
                 hnd_00000000000000000000000001 began",
            ]
        );
    }

    #[test]
    fn what_may_go_well_another_time_is_unavailable() {
        for error in [SettleError::Contended, SettleError::Behind(Behind)] {
            assert_eq!(unsettled(&error).code(), Code::Unavailable);
        }
        let refusal = Refusal::UnknownConsumer { consumer: "a".parse().unwrap() };
        assert_eq!(unsettled(&SettleError::Refused(refusal)).code(), Code::NotFound);
    }
}
