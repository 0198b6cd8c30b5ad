//! What each op asks for, as Kafka's brokers and controllers check it.

mod cluster;
mod groups;
mod split;
mod topics;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(super) use self::split::{Refused, merged};
use super::mend::Repair;
use super::{Judge, Mend, Operation};
use crate::ids::TopicId;
use crate::op::{self, Op};
use crate::reply::Reply;

/// What becomes of an op.
#[derive(Clone, Debug, PartialEq)]
pub enum Screened {
    /// Nothing of it is allowed; this is the answer.
    Refused(Reply),
    /// What is left of the op is allowed; its reply has to be mended.
    Allowed(Op, Mend),
    /// A fetch. What it reads is known to its session alone, so whoever reads asks [`Judge::may_read`] for each topic.
    Fetch(op::Fetch),
}

/// What must be known of the organisation's topics.
pub trait Topics {
    /// The name of the topic with this id.
    fn name(&self, id: TopicId) -> Option<Arc<str>>;

    /// Whether there is a topic of this name.
    fn exists(&self, name: &str) -> bool;

    /// All names, in any order.
    fn names(&self) -> Vec<Arc<str>>;

    /// `auto.create.topics.enable`: whether asking for a topic that does not exist may make it.
    fn are_created_on_demand(&self) -> bool;
}

/// Takes out of the op what its user may not do.
///
/// An op of which everything is allowed comes back as it was. [`Op::Credentials`] and [`Op::Enter`] come from
/// gateways, not from users, and are never refused.
pub fn screen(judge: &Judge<'_>, op: Op, topics: &dyn Topics) -> Screened {
    match op {
        Op::Fetch(op) => Screened::Fetch(op),
        op if judge.is_super => Screened::untouched(op),

        Op::Metadata(op) => topics::metadata(judge, op, topics),
        Op::Produce(op) => topics::produce(judge, op, topics),
        Op::ListOffsets(op) => topics::list_offsets(judge, op),
        Op::OffsetForLeaderEpoch(op) => topics::offset_for_leader_epoch(judge, op),
        Op::CreateTopics(op) => topics::create_topics(judge, op),
        Op::DeleteTopics(op) => topics::delete_topics(judge, op, topics),
        Op::CreatePartitions(op) => topics::create_partitions(judge, op),
        Op::DeleteRecords(op) => topics::delete_records(judge, op),
        Op::DescribeTopicPartitions(op) => topics::describe_topic_partitions(judge, op, topics),

        Op::InitProducerId(op) => cluster::init_producer_id(judge, op),
        Op::DescribeConfigs(op) => cluster::describe_configs(judge, op),
        Op::AlterConfigs(op) => cluster::alter_configs(judge, op),
        Op::DescribeLogDirs(op) => cluster::describe_log_dirs(judge, op),
        Op::ListPartitionReassignments(op) => cluster::list_partition_reassignments(judge, op),
        // Everybody may see which cluster this is, but not what can be done with it.
        Op::DescribeCluster(_) => Screened::Allowed(op, Mend(Repair::DescribeCluster)),
        Op::CreateAcls(op) => cluster::create_acls(judge, op),
        Op::DescribeAcls(op) => cluster::describe_acls(judge, op),
        Op::DeleteAcls(op) => cluster::delete_acls(judge, op),
        Op::DescribeClientQuotas(op) => cluster::describe_client_quotas(judge, op),
        Op::DescribeUserScramCredentials(op) => cluster::describe_user_scram_credentials(judge, op),
        Op::AlterUserScramCredentials(op) => cluster::alter_user_scram_credentials(judge, op),

        Op::JoinGroup(op) => groups::join_group(judge, op),
        Op::SyncGroup(op) => groups::sync_group(judge, op),
        Op::Heartbeat(op) => groups::heartbeat(judge, op),
        Op::LeaveGroup(op) => groups::leave_group(judge, op),
        Op::OffsetCommit(op) => groups::offset_commit(judge, op, topics),
        Op::OffsetFetch(op) => groups::offset_fetch(judge, op, topics),
        Op::OffsetDelete(op) => groups::offset_delete(judge, op),
        Op::DescribeGroups(op) => groups::describe_groups(judge, op),
        Op::DeleteGroups(op) => groups::delete_groups(judge, op),
        Op::FindCoordinator(op) => groups::find_coordinator(judge, op),
        // Whoever may see the cluster sees all groups; the others see those that they may see one by one.
        Op::ListGroups(_) if judge.may_cluster(Operation::Describe) => Screened::untouched(op),
        Op::ListGroups(_) => Screened::Allowed(op, Mend(Repair::ListGroups)),

        Op::Credentials(_) | Op::Enter => Screened::untouched(op),
    }
}

impl Screened {
    fn untouched(op: Op) -> Self {
        Self::Allowed(op, Mend(Repair::Nothing))
    }
}
