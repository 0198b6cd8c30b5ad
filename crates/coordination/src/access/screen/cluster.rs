//! What is asked for with the cluster, its settings, users and rules.

use std::collections::BTreeSet;

use super::Screened;
use super::groups::NOT_THIS_GROUP;
use super::split::{named_twice, split};
use super::topics::NOT_THIS_TOPIC;
use crate::access::mend::Repair;
use crate::access::{Judge, Mend, Operation, ResourceType};
use crate::error_code::ErrorCode;
use crate::op::{self, ConfigChanges, ConfigResource, Op};
use crate::reply::{self, Refusal, Reply};

const REFUSED: ErrorCode = ErrorCode::ClusterAuthorizationFailed;

/// WRITE on the transactional id; without one, IDEMPOTENT_WRITE on the cluster or WRITE on any topic.
pub(super) fn init_producer_id(judge: &Judge<'_>, op: op::InitProducerId) -> Screened {
    let (may, code) = match &op.transactional_id {
        Some(id) => (
            judge.may(Operation::Write, ResourceType::TransactionalId, id),
            ErrorCode::TransactionalIdAuthorizationFailed,
        ),
        None => (
            judge.may_cluster(Operation::IdempotentWrite)
                || judge.may_any(Operation::Write, ResourceType::Topic),
            REFUSED,
        ),
    };
    if may {
        return Screened::untouched(Op::InitProducerId(op));
    }
    Screened::Refused(Reply::InitProducerId(reply::InitProducerId { result: Err(code) }))
}

/// DESCRIBE_CONFIGS on what has the settings.
pub(super) fn describe_configs(judge: &Judge<'_>, mut op: op::DescribeConfigs) -> Screened {
    let may = |(resource, _): &(ConfigResource, _)| {
        refused_settings(judge, Operation::DescribeConfigs, resource).is_none()
    };
    let refuse = |(resource, _): (ConfigResource, Option<Vec<String>>)| {
        let refusal = refused_settings(judge, Operation::DescribeConfigs, &resource);
        (resource, Err(refusal.unwrap_or_else(not_the_cluster)))
    };
    split!(DescribeConfigs, op.resources, may, refuse)
}

/// ALTER_CONFIGS on what has the settings.
pub(super) fn alter_configs(judge: &Judge<'_>, mut op: op::AlterConfigs) -> Screened {
    let twice = named_twice(op.resources.iter().map(|(resource, _)| resource.clone()));
    let may = |(resource, _): &(ConfigResource, _)| {
        refused_settings(judge, Operation::AlterConfigs, resource).is_none() || twice.contains(resource)
    };
    let refuse = |(resource, _): (ConfigResource, ConfigChanges)| {
        let refusal = refused_settings(judge, Operation::AlterConfigs, &resource);
        (resource, refusal)
    };
    split!(AlterConfigs, op.resources, may, refuse)
}

/// Why the user may not do this with the settings. A kind of thing that has none is refused by whoever looks for it.
fn refused_settings(judge: &Judge<'_>, operation: Operation, resource: &ConfigResource) -> Option<Refusal> {
    let name = &resource.name;
    match resource.resource_type {
        2 if !judge.may_topic(operation, name) => {
            Some(Refusal::new(ErrorCode::TopicAuthorizationFailed, NOT_THIS_TOPIC))
        }
        32 if !judge.may_group(operation, name) => {
            Some(Refusal::new(ErrorCode::GroupAuthorizationFailed, NOT_THIS_GROUP))
        }
        4 | 8 | 16 if !judge.may_cluster(operation) => Some(not_the_cluster()),
        _ => None,
    }
}

/// DESCRIBE on the cluster.
pub(super) fn describe_log_dirs(judge: &Judge<'_>, op: op::DescribeLogDirs) -> Screened {
    if judge.may_cluster(Operation::Describe) {
        return Screened::untouched(Op::DescribeLogDirs(op));
    }
    Screened::Refused(Reply::DescribeLogDirs(reply::DescribeLogDirs { result: Err(REFUSED) }))
}

/// DESCRIBE on the cluster.
pub(super) fn list_partition_reassignments(
    judge: &Judge<'_>,
    op: op::ListPartitionReassignments,
) -> Screened {
    if judge.may_cluster(Operation::Describe) {
        return Screened::untouched(Op::ListPartitionReassignments(op));
    }
    let reply = reply::ListPartitionReassignments { error: Some(not_the_cluster()) };
    Screened::Refused(Reply::ListPartitionReassignments(reply))
}

/// ALTER on the cluster.
pub(super) fn create_acls(judge: &Judge<'_>, op: op::CreateAcls) -> Screened {
    if judge.may_cluster(Operation::Alter) {
        return Screened::untouched(Op::CreateAcls(op));
    }
    let results = op.acls.iter().map(|_| Some(not_the_cluster())).collect();
    Screened::Refused(Reply::CreateAcls(reply::CreateAcls { results }))
}

/// DESCRIBE on the cluster.
pub(super) fn describe_acls(judge: &Judge<'_>, op: op::DescribeAcls) -> Screened {
    if judge.may_cluster(Operation::Describe) {
        return Screened::untouched(Op::DescribeAcls(op));
    }
    Screened::Refused(Reply::DescribeAcls(reply::DescribeAcls { result: Err(not_the_cluster()) }))
}

/// ALTER on the cluster.
pub(super) fn delete_acls(judge: &Judge<'_>, op: op::DeleteAcls) -> Screened {
    if judge.may_cluster(Operation::Alter) {
        return Screened::untouched(Op::DeleteAcls(op));
    }
    let results = op.filters.iter().map(|_| Err(not_the_cluster())).collect();
    Screened::Refused(Reply::DeleteAcls(reply::DeleteAcls { results }))
}

/// DESCRIBE_CONFIGS on the cluster.
pub(super) fn describe_client_quotas(judge: &Judge<'_>, op: op::DescribeClientQuotas) -> Screened {
    if judge.may_cluster(Operation::DescribeConfigs) {
        return Screened::untouched(Op::DescribeClientQuotas(op));
    }
    let reply = reply::DescribeClientQuotas { error: Some(Refusal::from(REFUSED)) };
    Screened::Refused(Reply::DescribeClientQuotas(reply))
}

/// DESCRIBE on the cluster.
pub(super) fn describe_user_scram_credentials(
    judge: &Judge<'_>,
    op: op::DescribeUserScramCredentials,
) -> Screened {
    if judge.may_cluster(Operation::Describe) {
        return Screened::untouched(Op::DescribeUserScramCredentials(op));
    }
    let reply = reply::DescribeUserScramCredentials { result: Err(Refusal::from(REFUSED)) };
    Screened::Refused(Reply::DescribeUserScramCredentials(reply))
}

/// ALTER on the cluster.
pub(super) fn alter_user_scram_credentials(judge: &Judge<'_>, op: op::AlterUserScramCredentials) -> Screened {
    if judge.may_cluster(Operation::Alter) {
        return Screened::untouched(Op::AlterUserScramCredentials(op));
    }
    let deleted = op.deletions.into_iter().map(|deletion| deletion.user);
    let given = op.upsertions.into_iter().map(|upsertion| upsertion.user);
    let users: BTreeSet<String> = deleted.chain(given).collect();
    let users = users.into_iter().map(|user| (user, Some(not_the_cluster()))).collect();
    Screened::Refused(Reply::AlterUserScramCredentials(reply::AlterUserScramCredentials { users }))
}

/// Kafka says here which request of which connection needs what; nobody needs that.
fn not_the_cluster() -> Refusal {
    Refusal::new(REFUSED, "Cluster authorization failed.")
}
