//! Leader epochs: there is one, for every partition and for ever.

use std::sync::Arc;

use coordination::catalog::LEADER_EPOCH;
use coordination::error_code::ErrorCode;
use coordination::ids::OrgId;
use coordination::op;
use coordination::reply::{self, Reply};
use rail::Answer;

use crate::Inner;

/// Handles one OffsetForLeaderEpoch request.
pub(crate) fn handle_offset_for_leader_epoch(
    inner: &Arc<Inner>,
    org: OrgId,
    op: op::OffsetForLeaderEpoch,
) -> Answer {
    let topics = op.topics.into_iter().map(|asked| {
        let topic = inner.topics.by_name(org, &asked.name);
        let partitions = asked.partitions.into_iter().map(|part| {
            let partition = topic.as_ref().and_then(|topic| topic.partition(part.index));
            let result = match partition {
                None => Err(ErrorCode::UnknownTopicOrPartition),
                Some(partition) => check_leader_epoch(part.current_leader_epoch)
                    .map(|()| epoch_end(part.leader_epoch, partition.log().end_offset())),
            };
            reply::EpochPartition { index: part.index, result }
        });
        reply::EpochTopic { partitions: partitions.collect(), name: asked.name }
    });
    Reply::OffsetForLeaderEpoch(reply::OffsetForLeaderEpoch { topics: topics.collect() }).into()
}

/// Compares the epoch that a client knows with ours.
///
/// # Errors
/// When the client's is older (74) or newer (75).
pub(crate) fn check_leader_epoch(known: Option<i32>) -> Result<(), ErrorCode> {
    match known {
        Some(epoch) if epoch < LEADER_EPOCH => Err(ErrorCode::FencedLeaderEpoch),
        Some(epoch) if epoch > LEADER_EPOCH => Err(ErrorCode::UnknownLeaderEpoch),
        _ => Ok(()),
    }
}

/// The largest epoch up to `epoch` and its end in a log that ends at `end_offset`, in the way of Kafka's cache of
/// epochs: -1 and -1 for one that is not known yet.
pub(crate) fn epoch_end(epoch: i32, end_offset: i64) -> (i32, i64) {
    match epoch {
        LEADER_EPOCH => (LEADER_EPOCH, end_offset),
        // Before the first epoch there was nothing, and that ended where the first began.
        ..=-2 => (epoch, 0),
        _ => (-1, -1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_current_epoch_has_an_end() {
        assert_eq!(epoch_end(0, 17), (0, 17));
        assert_eq!(epoch_end(1, 17), (-1, -1));
        assert_eq!(epoch_end(-1, 17), (-1, -1));
    }

    #[test]
    fn a_client_that_knows_another_epoch_is_refused() {
        assert_eq!(check_leader_epoch(None), Ok(()));
        assert_eq!(check_leader_epoch(Some(0)), Ok(()));
        assert_eq!(check_leader_epoch(Some(1)), Err(ErrorCode::UnknownLeaderEpoch));
        assert_eq!(check_leader_epoch(Some(-2)), Err(ErrorCode::FencedLeaderEpoch));
    }
}
