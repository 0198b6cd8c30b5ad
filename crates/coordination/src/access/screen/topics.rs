//! What is asked for with topics.

use std::time::Duration;

use super::split::{may_topic, merged, named_twice, split, take_refused};
use super::{Screened, Topics};
use crate::access::mend::Repair;
use crate::access::{Judge, Mend, Operation, Operations};
use crate::catalog::is_internal;
use crate::error_code::ErrorCode;
use crate::ids::TopicId;
use crate::op::{self, Op, TopicRef};
use crate::reply::{self, CreatedTopic, DeletedTopic, ProduceRefusal, Refusal, Reply, TopicMetadata};

const REFUSED: ErrorCode = ErrorCode::TopicAuthorizationFailed;

/// What Kafka says with it.
pub(super) const NOT_THIS_TOPIC: &str = "Topic authorization failed.";

/// DESCRIBE on each topic, and CREATE on it or the cluster where asking would make it. What is asked for as a whole is
/// shown as far as it may be seen.
pub(super) fn metadata(judge: &Judge<'_>, mut op: op::Metadata, topics: &dyn Topics) -> Screened {
    let creates = op.allow_auto_topic_creation && topics.are_created_on_demand();
    let may_create = |name: &str| {
        !creates
            || topics.exists(name)
            || judge.may_cluster(Operation::Create)
            || judge.may_topic(Operation::Create, name)
    };
    let may = |topic: &TopicRef| {
        may_topic(judge, Operation::Describe, topic, topics)
            && !matches!(topic, TopicRef::Name(name) if !may_create(name))
    };
    // Whoever may see a topic but not make it is told whether it would be one of the broker's own.
    let refuse = |topic: TopicRef| match topic {
        TopicRef::Name(name) => {
            let internal = is_internal(&name) && judge.may_topic(Operation::Describe, &name);
            TopicMetadata { internal, ..unseen(Some(name), TopicId::ZERO) }
        }
        TopicRef::Id(id) => unseen(None, id),
    };
    let all = op.topics.is_none();
    let mut refused = Vec::new();
    if let Some(asked) = &mut op.topics {
        // With ids in the request its names do not count; they must not begin to when the ids are taken out.
        if asked.iter().any(|topic| matches!(topic, TopicRef::Id(_))) {
            asked.retain(|topic| matches!(topic, TopicRef::Id(_)));
        }
        refused = take_refused(asked, may, refuse);
    }
    Screened::Allowed(Op::Metadata(op), Mend(Repair::Metadata { all, refused }))
}

/// WRITE on each topic. Batches of transactions, for which Kafka asks for the transactional id as well, are refused by
/// the broker in any case.
pub(super) fn produce(judge: &Judge<'_>, mut op: op::Produce, topics: &dyn Topics) -> Screened {
    let may = |topic: &op::ProduceTopic| may_topic(judge, Operation::Write, &topic.topic, topics);
    let refuse = |topic: op::ProduceTopic| reply::ProduceTopic {
        topic: topic.topic,
        partitions: topic.partitions.iter().map(refused_batches).collect(),
    };
    split!(Produce, op.topics, may, refuse, throttle: Duration::ZERO)
}

fn refused_batches(partition: &op::ProducePartition) -> reply::ProducePartition {
    reply::ProducePartition { index: partition.index, result: Err(ProduceRefusal::from(REFUSED)) }
}

/// DESCRIBE on each topic.
pub(super) fn list_offsets(judge: &Judge<'_>, mut op: op::ListOffsets) -> Screened {
    let may = |topic: &op::ListOffsetsTopic| judge.may_topic(Operation::Describe, &topic.name);
    let partition = |partition: op::ListOffsetsPartition| reply::ListOffsetsPartition {
        index: partition.index,
        result: Err(REFUSED),
    };
    let refuse = |topic: op::ListOffsetsTopic| reply::ListOffsetsTopic {
        name: topic.name,
        partitions: topic.partitions.into_iter().map(partition).collect(),
    };
    split!(ListOffsets, op.topics, may, refuse)
}

/// DESCRIBE on each topic, or CLUSTER_ACTION: brokers ask this of each other too.
pub(super) fn offset_for_leader_epoch(judge: &Judge<'_>, mut op: op::OffsetForLeaderEpoch) -> Screened {
    let may = |topic: &op::EpochTopic| {
        judge.may_topic(Operation::Describe, &topic.name) || judge.may_cluster(Operation::ClusterAction)
    };
    let partition = |partition: op::EpochPartition| reply::EpochPartition {
        index: partition.index,
        result: Err(REFUSED),
    };
    let refuse = |topic: op::EpochTopic| reply::EpochTopic {
        name: topic.name,
        partitions: topic.partitions.into_iter().map(partition).collect(),
    };
    split!(OffsetForLeaderEpoch, op.topics, may, refuse)
}

/// CREATE on the cluster or on each topic, and DESCRIBE_CONFIGS on it to see what was made.
pub(super) fn create_topics(judge: &Judge<'_>, mut op: op::CreateTopics) -> Screened {
    let mut refused = Vec::new();
    if !judge.may_cluster(Operation::Create) {
        let twice = named_twice(op.topics.iter().map(|topic| topic.name.clone()));
        let may = |topic: &op::NewTopic| {
            judge.may_topic(Operation::Create, &topic.name) || twice.contains(&topic.name)
        };
        let refuse = |topic: op::NewTopic| CreatedTopic {
            name: topic.name,
            result: Err(Refusal::new(REFUSED, "Authorization failed.")),
        };
        refused = take_refused(&mut op.topics, may, refuse);
    }
    if op.topics.is_empty() && !refused.is_empty() {
        let topics = merged(Vec::new(), refused);
        return Screened::Refused(Reply::CreateTopics(reply::CreateTopics { topics }));
    }
    Screened::Allowed(Op::CreateTopics(op), Mend(Repair::CreateTopics(refused)))
}

/// DELETE on the cluster or on each topic. Only who has DESCRIBE learns whether a topic exists and what it is called.
pub(super) fn delete_topics(judge: &Judge<'_>, mut op: op::DeleteTopics, topics: &dyn Topics) -> Screened {
    if judge.may_cluster(Operation::Delete) {
        return Screened::untouched(Op::DeleteTopics(op));
    }
    let twice = named_twice(op.topics.iter().flatten().cloned());
    let may = |topic: &Result<TopicRef, op::NoTopicRef>| match topic {
        Err(_) => true,
        Ok(named) if twice.contains(named) => true,
        Ok(TopicRef::Name(name)) => {
            judge.may_topic(Operation::Describe, name)
                && (judge.may_topic(Operation::Delete, name) || !topics.exists(name))
        }
        Ok(named) => may_topic(judge, Operation::Delete, named, topics),
    };
    let refuse = |topic: Result<TopicRef, op::NoTopicRef>| {
        let error = Some(Refusal::new(REFUSED, NOT_THIS_TOPIC));
        match topic {
            Ok(TopicRef::Name(name)) => DeletedTopic { name: Some(name), id: TopicId::ZERO, error },
            Ok(TopicRef::Id(id)) => {
                let seen = topics.name(id).filter(|name| judge.may_topic(Operation::Describe, name));
                DeletedTopic { name: seen.map(|name| name.as_ref().to_owned()), id, error }
            }
            Err(_) => DeletedTopic { name: None, id: TopicId::ZERO, error },
        }
    };
    split!(DeleteTopics, op.topics, may, refuse)
}

/// ALTER on each topic.
pub(super) fn create_partitions(judge: &Judge<'_>, mut op: op::CreatePartitions) -> Screened {
    let twice = named_twice(op.topics.iter().map(|topic| topic.name.clone()));
    let may = |topic: &op::MorePartitions| {
        judge.may_topic(Operation::Alter, &topic.name) || twice.contains(&topic.name)
    };
    let refuse = |topic: op::MorePartitions| (topic.name, Some(Refusal::from(REFUSED)));
    split!(CreatePartitions, op.topics, may, refuse)
}

/// DELETE on each topic.
pub(super) fn delete_records(judge: &Judge<'_>, mut op: op::DeleteRecords) -> Screened {
    let may = |topic: &op::DeleteRecordsTopic| judge.may_topic(Operation::Delete, &topic.name);
    let refuse = |topic: op::DeleteRecordsTopic| reply::DeleteRecordsTopic {
        name: topic.name,
        partitions: topic.partitions.into_iter().map(|(index, _)| (index, Err(REFUSED))).collect(),
    };
    split!(DeleteRecords, op.topics, may, refuse)
}

/// DESCRIBE on each topic. Pages hold only what may be seen, so the names are chosen here when all are asked for.
pub(super) fn describe_topic_partitions(
    judge: &Judge<'_>,
    mut op: op::DescribeTopicPartitions,
    topics: &dyn Topics,
) -> Screened {
    let all = op.topics.is_empty();
    if let Some((name, partition)) = &op.cursor
        && (*partition < 0 || !all && !op.topics.contains(name))
    {
        // Such a request is refused as a whole, and the refusal tells nothing.
        return Screened::untouched(Op::DescribeTopicPartitions(op));
    }
    let first = op.cursor.as_ref().map_or("", |(name, _)| name.as_str());
    let mut refused = Vec::new();
    if all {
        let may = |name: &str| name >= first && judge.may_topic(Operation::Describe, name);
        op.topics =
            topics.names().iter().filter(|name| may(name)).map(|name| name.as_ref().to_owned()).collect();
        op.topics.sort_unstable();
    } else {
        op.topics.retain(|name| name.as_str() >= first);
        let may = |name: &String| judge.may_topic(Operation::Describe, name);
        let taken = take_refused(&mut op.topics, may, |name| name);
        refused = taken.into_iter().map(|(_, name)| name).collect();
        refused.sort_unstable();
        refused.dedup();
    }
    let refused = refused.into_iter().map(|name| unseen(Some(name), TopicId::ZERO)).collect();
    if op.topics.is_empty() {
        let reply = reply::DescribeTopicPartitions { topics: refused, next_cursor: None };
        return Screened::Refused(Reply::DescribeTopicPartitions(reply));
    }
    // A page may begin with a topic that is gone since, or may no longer be seen: it then begins with the next one.
    op.cursor.take_if(|(name, _)| !op.topics.contains(name));
    Screened::Allowed(Op::DescribeTopicPartitions(op), Mend(Repair::DescribeTopicPartitions { all, refused }))
}

/// A topic of which nothing is told.
fn unseen(name: Option<String>, id: TopicId) -> TopicMetadata {
    TopicMetadata {
        error: Some(REFUSED),
        name,
        id,
        internal: false,
        partitions: Vec::new(),
        operations: Operations::NONE,
    }
}
