//! What is answered while there is no way to the broker.

use std::time::Duration;

use coordination::access::Operations;
use coordination::error_code::ErrorCode;
use coordination::op::Op;
use coordination::reply::{self, Refusal, Reply};

use crate::Lost;
use crate::format::{Version, since};

/// What clients make of a broker that cannot be reached: errors that they answer by asking again.
const NO_LEADER: ErrorCode = ErrorCode::NotLeaderOrFollower;
const NO_COORDINATOR: ErrorCode = ErrorCode::NotCoordinator;

/// What a person is told who looks at the answer.
const NO_LINK: &str = "This gateway cannot reach its broker at the moment. Try again.";

/// The answer to `op` while there is no link to the broker: an error that says to try again.
///
/// # Errors
/// When every answer would say something that is not known, such as which topics there are.
pub fn refuse(op: &Op) -> Result<Reply, Lost> {
    Ok(match op {
        // An answer without topics would say that there are none, and one with an error for each that they have no
        // partitions: some clients give up what they were assigned then. Without an answer all go on as they were.
        Op::Metadata(_) => return Err(Lost),
        Op::Produce(op) => Reply::Produce(reply::Produce {
            topics: op.topics.iter().map(refuse_produce).collect(),
            throttle: Duration::ZERO,
        }),
        // Only the broker knows which partitions a session means. A client that begins anew names them.
        Op::Fetch(op) if op.topics.is_empty() || op.session_id != 0 => Reply::Fetch(reply::Fetch {
            error: Some(ErrorCode::FetchSessionIdNotFound),
            session_id: 0,
            topics: Vec::new(),
            throttle: Duration::ZERO,
        }),
        Op::Fetch(op) => Reply::Fetch(reply::Fetch {
            error: None,
            session_id: 0,
            topics: op.topics.iter().map(refuse_fetch).collect(),
            throttle: Duration::ZERO,
        }),
        Op::ListOffsets(op) => {
            let partition = |index| reply::ListOffsetsPartition { index, result: Err(NO_LEADER) };
            let topics = op.topics.iter().map(|topic| reply::ListOffsetsTopic {
                name: topic.name.clone(),
                partitions: topic.partitions.iter().map(|asked| partition(asked.index)).collect(),
            });
            Reply::ListOffsets(reply::ListOffsets { topics: topics.collect() })
        }
        Op::OffsetForLeaderEpoch(op) => {
            let partition = |index| reply::EpochPartition { index, result: Err(NO_LEADER) };
            let topics = op.topics.iter().map(|topic| reply::EpochTopic {
                name: topic.name.clone(),
                partitions: topic.partitions.iter().map(|asked| partition(asked.index)).collect(),
            });
            Reply::OffsetForLeaderEpoch(reply::OffsetForLeaderEpoch { topics: topics.collect() })
        }
        Op::DeleteRecords(op) => {
            let topics = op.topics.iter().map(|topic| reply::DeleteRecordsTopic {
                name: topic.name.clone(),
                partitions: topic.partitions.iter().map(|&(index, _)| (index, Err(NO_LEADER))).collect(),
            });
            Reply::DeleteRecords(reply::DeleteRecords { topics: topics.collect() })
        }
        Op::InitProducerId(_) => {
            Reply::InitProducerId(reply::InitProducerId { result: Err(ErrorCode::CoordinatorNotAvailable) })
        }
        Op::JoinGroup(op) => Reply::JoinGroup(reply::JoinGroup {
            member_id: op.member_id.clone(),
            result: Err(NO_COORDINATOR),
        }),
        Op::SyncGroup(_) => Reply::SyncGroup(reply::SyncGroup { result: Err(NO_COORDINATOR) }),
        Op::Heartbeat(_) => Reply::Heartbeat(reply::Heartbeat { error: Some(NO_COORDINATOR) }),
        Op::LeaveGroup(_) => Reply::LeaveGroup(reply::LeaveGroup { result: Err(NO_COORDINATOR) }),
        Op::OffsetCommit(op) => {
            let topics = op.topics.iter().map(|topic| reply::OffsetCommitTopic {
                topic: topic.topic.clone(),
                partitions: topic
                    .partitions
                    .iter()
                    .map(|asked| (asked.index, Some(NO_COORDINATOR)))
                    .collect(),
            });
            Reply::OffsetCommit(reply::OffsetCommit { topics: topics.collect() })
        }
        Op::OffsetFetch(op) => {
            let groups = op.groups.iter().map(|asked| reply::OffsetFetchGroup {
                group: asked.group.clone(),
                error: Some(NO_COORDINATOR),
                topics: Vec::new(),
            });
            Reply::OffsetFetch(reply::OffsetFetch { groups: groups.collect() })
        }
        Op::OffsetDelete(_) => Reply::OffsetDelete(reply::OffsetDelete { result: Err(NO_COORDINATOR) }),
        Op::ListGroups(_) => {
            Reply::ListGroups(reply::ListGroups { result: Err(ErrorCode::CoordinatorNotAvailable) })
        }
        Op::DescribeGroups(op) => {
            let groups = op.groups.iter().map(|group| reply::DescribedGroup {
                group: group.clone(),
                error: Some(NO_COORDINATOR),
                state: reply::GroupState::Dead,
                protocol_type: String::new(),
                protocol: String::new(),
                members: Vec::new(),
                operations: Operations::NONE,
            });
            Reply::DescribeGroups(reply::DescribeGroups { groups: groups.collect() })
        }
        Op::DeleteGroups(op) => {
            let groups = op.groups.iter().map(|group| (group.clone(), Some(NO_COORDINATOR)));
            Reply::DeleteGroups(reply::DeleteGroups { groups: groups.collect() })
        }
        Op::FindCoordinator(op) => {
            let refusal = || Some(Refusal::new(ErrorCode::CoordinatorNotAvailable, NO_LINK));
            let groups = op.groups.iter().map(|group| (group.clone(), refusal()));
            Reply::FindCoordinator(reply::FindCoordinator { groups: groups.collect() })
        }
        Op::CreateTopics(op) => {
            let topics = op.topics.iter().map(|topic| reply::CreatedTopic {
                name: topic.name.clone(),
                result: Err(Refusal::new(ErrorCode::NotController, NO_LINK)),
            });
            Reply::CreateTopics(reply::CreateTopics { topics: topics.collect() })
        }
        Op::CreatePartitions(op) => {
            let refusal = || Some(Refusal::new(ErrorCode::NotController, NO_LINK));
            let topics = op.topics.iter().map(|topic| (topic.name.clone(), refusal()));
            Reply::CreatePartitions(reply::CreatePartitions { topics: topics.collect() })
        }
        // Whether there is room cannot be known now; what the client asks next is told to be asked again.
        Op::Enter => Reply::Enter(None),
        // Nobody asks these again because of an error in the answer, but does when the connection ends.
        Op::DeleteTopics(_)
        | Op::DescribeConfigs(_)
        | Op::AlterConfigs(_)
        | Op::DescribeTopicPartitions(_)
        | Op::DescribeLogDirs(_)
        | Op::ListPartitionReassignments(_)
        | Op::DescribeCluster(_)
        | Op::Credentials(_)
        | Op::CreateAcls(_)
        | Op::DescribeAcls(_)
        | Op::DeleteAcls(_)
        | Op::DescribeClientQuotas(_)
        | Op::DescribeUserScramCredentials(_)
        | Op::AlterUserScramCredentials(_) => return Err(Lost),
    })
}

/// The answer to `op` if the broker is too old to know it.
pub(crate) fn unknown_to_broker(version: Version, op: &Op) -> Option<Reply> {
    if version >= since(op) {
        return None;
    }
    let refusal = || {
        Refusal::new(
            ErrorCode::UnsupportedVersion,
            "The broker is older than the gateway and does not know this request.",
        )
    };
    match op {
        Op::DescribeClientQuotas(_) => {
            Some(Reply::DescribeClientQuotas(reply::DescribeClientQuotas { error: Some(refusal()) }))
        }
        _ => None,
    }
}

fn refuse_produce(topic: &coordination::op::ProduceTopic) -> reply::ProduceTopic {
    let partition = |index| reply::ProducePartition { index, result: Err(NO_LEADER.into()) };
    reply::ProduceTopic {
        topic: topic.topic.clone(),
        partitions: topic.partitions.iter().map(|asked| partition(asked.index)).collect(),
    }
}

fn refuse_fetch(topic: &coordination::op::FetchTopic) -> reply::FetchTopic {
    let partition = |index| reply::FetchPartition {
        index,
        error: Some(NO_LEADER),
        high_watermark: -1,
        last_stable_offset: -1,
        log_start_offset: -1,
        diverging_epoch: None,
        current_leader_epoch: None,
        records: Vec::new(),
        origin: reply::Origin::default(),
    };
    reply::FetchTopic {
        topic: topic.topic.clone(),
        id: None,
        partitions: topic.partitions.iter().map(|asked| partition(asked.index)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use coordination::op;

    use super::*;

    #[test]
    fn who_makes_a_topic_is_told_that_the_broker_is_not_reached() {
        let topic = op::NewTopic {
            name: "orders".to_owned(),
            num_partitions: -1,
            replication_factor: -1,
            assignments: Vec::new(),
            configs: Vec::new(),
        };
        let asked = op::CreateTopics { topics: vec![topic], validate_only: false };
        let result = Err(Refusal::new(ErrorCode::NotController, NO_LINK));
        let told = vec![reply::CreatedTopic { name: "orders".to_owned(), result }];
        assert_eq!(
            refuse(&Op::CreateTopics(asked)),
            Ok(Reply::CreateTopics(reply::CreateTopics { topics: told }))
        );
    }
}
