//! Puts what was refused back into the reply, and takes out what its user may not see.

use super::screen::{Refused, merged};
use super::{Judge, Operation};
use crate::reply::{self, FetchedOffset, Refusal, Reply};

/// How the reply to a screened op becomes the reply to what the client asked for.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "what was taken out of the op is missing in the reply"]
pub struct Mend(pub(super) Repair);

/// What a reply lacks or shows too much of: the refused parts of ops that have parts, by their place in the request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Repair {
    Nothing,
    Metadata {
        all: bool,
        refused: Refused<reply::TopicMetadata>,
    },
    Produce(Refused<reply::ProduceTopic>),
    ListOffsets(Refused<reply::ListOffsetsTopic>),
    OffsetForLeaderEpoch(Refused<reply::EpochTopic>),
    CreateTopics(Refused<reply::CreatedTopic>),
    DeleteTopics(Refused<reply::DeletedTopic>),
    CreatePartitions(Refused<(String, Option<Refusal>)>),
    DeleteRecords(Refused<reply::DeleteRecordsTopic>),
    DescribeConfigs(Refused<(crate::op::ConfigResource, Result<Vec<reply::ConfigEntry>, Refusal>)>),
    AlterConfigs(Refused<(crate::op::ConfigResource, Option<Refusal>)>),
    DescribeTopicPartitions {
        all: bool,
        refused: Vec<reply::TopicMetadata>,
    },
    DescribeCluster,
    OffsetCommit(Refused<reply::OffsetCommitTopic>),
    /// What is to be done with some of the groups that were asked for, and the groups that were not.
    OffsetFetch {
        offsets: Vec<(usize, RepairOffsets)>,
        groups: Refused<reply::OffsetFetchGroup>,
    },
    OffsetDelete(Refused<reply::OffsetDeleteTopic>),
    ListGroups,
    DescribeGroups(Refused<reply::DescribedGroup>),
    DeleteGroups(Refused<(String, Option<crate::error_code::ErrorCode>)>),
    FindCoordinator(Refused<(String, Option<Refusal>)>),
}

/// What the offsets of one group lack or show too much of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RepairOffsets {
    /// All were asked for; only what may be seen is told.
    All,
    Named(Refused<reply::OffsetFetchTopic>),
}

/// Puts the refused parts of a reply back.
macro_rules! put_back {
    ($repair:expr, $reply:expr; $($kind:ident.$parts:ident),* $(,)?) => {
        match ($repair, $reply) {
            $((Repair::$kind(refused), Reply::$kind(mut reply)) => {
                reply.$parts = merged(reply.$parts, refused);
                Reply::$kind(reply)
            })*
            // A reply to another op is nothing that we could mend.
            (_, reply) => reply,
        }
    };
}

impl Mend {
    /// Whether the reply may go as it is, whatever it says.
    pub fn is_nothing(&self) -> bool {
        matches!(self.0, Repair::Nothing)
    }

    /// Mends the reply for the user who asked.
    pub fn apply(self, judge: &Judge<'_>, reply: Reply) -> Reply {
        match (self.0, reply) {
            (Repair::Nothing, reply) => reply,
            (Repair::Metadata { all, refused }, Reply::Metadata(reply)) => {
                Reply::Metadata(metadata(judge, reply, all, refused))
            }
            (Repair::DescribeTopicPartitions { all, refused }, Reply::DescribeTopicPartitions(reply)) => {
                Reply::DescribeTopicPartitions(described_topics(judge, reply, all, refused))
            }
            (Repair::DescribeCluster, Reply::DescribeCluster(mut reply)) => {
                reply.operations = judge.cluster_operations();
                Reply::DescribeCluster(reply)
            }
            (Repair::CreateTopics(refused), Reply::CreateTopics(mut reply)) => {
                for topic in &mut reply.topics {
                    hide_settings(judge, topic);
                }
                reply.topics = merged(reply.topics, refused);
                Reply::CreateTopics(reply)
            }
            (Repair::ListGroups, Reply::ListGroups(mut reply)) => {
                if let Ok(groups) = &mut reply.result {
                    groups.retain(|listed| judge.may_group(Operation::Describe, &listed.group));
                }
                Reply::ListGroups(reply)
            }
            (Repair::DescribeGroups(refused), Reply::DescribeGroups(mut reply)) => {
                for group in &mut reply.groups {
                    group.operations = judge.group_operations(&group.group);
                }
                reply.groups = merged(reply.groups, refused);
                Reply::DescribeGroups(reply)
            }
            (Repair::OffsetFetch { offsets, groups }, Reply::OffsetFetch(mut reply)) => {
                for (at, repair) in offsets {
                    if let Some(group) = reply.groups.get_mut(at) {
                        mend_offsets(judge, group, repair);
                    }
                }
                reply.groups = merged(reply.groups, groups);
                Reply::OffsetFetch(reply)
            }
            (Repair::OffsetDelete(refused), Reply::OffsetDelete(reply)) => {
                let result = reply.result.map(|topics| merged(topics, refused));
                Reply::OffsetDelete(reply::OffsetDelete { result })
            }
            (repair, reply) => put_back!(
                repair, reply;
                Produce.topics,
                ListOffsets.topics,
                OffsetForLeaderEpoch.topics,
                DeleteTopics.topics,
                CreatePartitions.topics,
                DeleteRecords.topics,
                DescribeConfigs.resources,
                AlterConfigs.resources,
                OffsetCommit.topics,
                DeleteGroups.groups,
                FindCoordinator.groups,
            ),
        }
    }
}

fn metadata(
    judge: &Judge<'_>,
    mut reply: reply::Metadata,
    all: bool,
    refused: Refused<reply::TopicMetadata>,
) -> reply::Metadata {
    if all {
        let may = |name: &String| judge.may_topic(Operation::Describe, name);
        reply.topics.retain(|topic| topic.name.as_ref().is_none_or(may));
    }
    show_operations(judge, &mut reply.topics);
    reply.topics = merged(reply.topics, refused);
    reply.operations = judge.cluster_operations();
    reply
}

fn described_topics(
    judge: &Judge<'_>,
    mut reply: reply::DescribeTopicPartitions,
    all: bool,
    refused: Vec<reply::TopicMetadata>,
) -> reply::DescribeTopicPartitions {
    if all {
        // The names were chosen for the client; a topic that is gone since is not missed.
        reply.topics.retain(|topic| topic.error.is_none());
    }
    show_operations(judge, &mut reply.topics);
    // As in Kafka, on every page and after the others.
    reply.topics.extend(refused);
    reply
}

fn show_operations(judge: &Judge<'_>, topics: &mut [reply::TopicMetadata]) {
    for topic in topics {
        if let Some(name) = &topic.name {
            topic.operations = judge.topic_operations(name);
        }
    }
}

fn hide_settings(judge: &Judge<'_>, topic: &mut reply::CreatedTopic) {
    if let Ok(made) = &mut topic.result
        && !judge.may_topic(Operation::DescribeConfigs, &topic.name)
    {
        made.num_partitions = -1;
        made.replication_factor = -1;
        made.configs = None;
    }
}

fn mend_offsets(judge: &Judge<'_>, group: &mut reply::OffsetFetchGroup, repair: RepairOffsets) {
    match repair {
        RepairOffsets::All => {
            group.topics.retain(|topic| judge.may_topic(Operation::Describe, &topic.name));
        }
        RepairOffsets::Named(mut refused) => {
            // What is wrong with the whole group is said of all its topics.
            if let Some(code) = group.error {
                for offset in refused.iter_mut().flat_map(|(_, topic)| &mut topic.partitions) {
                    *offset = FetchedOffset::none(offset.index, Some(code));
                }
            }
            group.topics = merged(std::mem::take(&mut group.topics), refused);
        }
    }
}
