//! The error that a reply is counted under, and by which an unanswered producer is cut off.

use std::time::Duration;

use coordination::error_code::ErrorCode;
use coordination::reply::{Refusal, Reply};

/// The first error in `reply`, whether it is about all of the request or a part.
pub(crate) fn first_error(reply: &Reply) -> Option<ErrorCode> {
    match reply {
        Reply::Metadata(reply) => reply.topics.iter().find_map(|topic| topic.error),
        Reply::Produce(reply) => {
            let mut partitions = reply.topics.iter().flat_map(|topic| &topic.partitions);
            partitions
                .find_map(|partition| partition.result.as_ref().err().map(|refused| refused.refusal.code))
        }
        Reply::Fetch(reply) => reply.error.or_else(|| {
            let mut partitions = reply.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.find_map(|partition| partition.error)
        }),
        Reply::ListOffsets(reply) => {
            let mut partitions = reply.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.find_map(|partition| partition.result.err())
        }
        Reply::OffsetForLeaderEpoch(reply) => {
            let mut partitions = reply.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.find_map(|partition| partition.result.err())
        }
        Reply::CreateTopics(reply) => {
            reply.topics.iter().find_map(|topic| topic.result.as_ref().err().map(|refusal| refusal.code))
        }
        Reply::DeleteTopics(reply) => {
            reply.topics.iter().find_map(|topic| topic.error.as_ref().map(|refusal| refusal.code))
        }
        Reply::CreatePartitions(reply) => {
            reply.topics.iter().find_map(|(_, refusal)| refusal.as_ref().map(|refusal| refusal.code))
        }
        Reply::DeleteRecords(reply) => {
            let mut partitions = reply.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.find_map(|(_, result)| result.err())
        }
        Reply::InitProducerId(reply) => reply.result.err(),
        Reply::DescribeConfigs(reply) => {
            reply.resources.iter().find_map(|(_, result)| result.as_ref().err().map(|refusal| refusal.code))
        }
        Reply::AlterConfigs(reply) => {
            reply.resources.iter().find_map(|(_, refusal)| refusal.as_ref().map(|refusal| refusal.code))
        }
        Reply::DescribeTopicPartitions(reply) => reply.topics.iter().find_map(|topic| topic.error),
        Reply::DescribeLogDirs(reply) => reply.result.as_ref().err().copied(),
        Reply::ListPartitionReassignments(_) => None,
        Reply::DescribeCluster(reply) => reply.result.as_ref().err().map(|refusal| refusal.code),
        Reply::JoinGroup(reply) => reply.result.as_ref().err().copied(),
        Reply::SyncGroup(reply) => reply.result.as_ref().err().copied(),
        Reply::Heartbeat(reply) => reply.error,
        Reply::LeaveGroup(reply) => match &reply.result {
            Ok(members) => members.iter().find_map(|member| member.error),
            Err(code) => Some(*code),
        },
        Reply::OffsetCommit(reply) => {
            let mut partitions = reply.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.find_map(|(_, error)| *error)
        }
        Reply::OffsetFetch(reply) => reply.groups.iter().find_map(|group| {
            let mut partitions = group.topics.iter().flat_map(|topic| &topic.partitions);
            group.error.or_else(|| partitions.find_map(|partition| partition.error))
        }),
        Reply::OffsetDelete(reply) => match &reply.result {
            Ok(topics) => topics.iter().flat_map(|(_, partitions)| partitions).find_map(|(_, error)| *error),
            Err(code) => Some(*code),
        },
        Reply::ListGroups(reply) => reply.result.as_ref().err().copied(),
        Reply::DescribeGroups(reply) => reply.groups.iter().find_map(|group| group.error),
        Reply::DeleteGroups(reply) => reply.groups.iter().find_map(|(_, error)| *error),
        Reply::FindCoordinator(reply) => reply.groups.iter().find_map(|(_, refusal)| code(refusal.as_ref())),
        Reply::Enter(refusal) => code(refusal.as_ref()),
        Reply::Credentials(_) => None,
        Reply::CreateAcls(reply) => reply.results.iter().find_map(|refusal| code(refusal.as_ref())),
        Reply::DescribeAcls(reply) => code(reply.result.as_ref().err()),
        Reply::DeleteAcls(reply) => reply.results.iter().find_map(|result| code(result.as_ref().err())),
        Reply::DescribeClientQuotas(reply) => code(reply.error.as_ref()),
        Reply::DescribeUserScramCredentials(reply) => match &reply.result {
            Ok(users) => users.iter().find_map(|user| code(user.result.as_ref().err())),
            Err(refusal) => Some(refusal.code),
        },
        Reply::AlterUserScramCredentials(reply) => {
            reply.users.iter().find_map(|(_, refusal)| code(refusal.as_ref()))
        }
    }
}

/// How long the client shall wait after this reply.
#[inline]
pub(crate) fn throttle(reply: &Reply) -> Duration {
    match reply {
        Reply::Produce(reply) => reply.throttle,
        Reply::Fetch(reply) => reply.throttle,
        _ => Duration::ZERO,
    }
}

fn code(refusal: Option<&Refusal>) -> Option<ErrorCode> {
    refusal.map(|refusal| refusal.code)
}
