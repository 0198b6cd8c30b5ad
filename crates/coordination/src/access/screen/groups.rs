//! What is asked for with groups.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::split::{Refused, may_topic, merged, split, take_refused};
use super::{Screened, Topics};
use crate::access::mend::{Repair, RepairOffsets};
use crate::access::{Judge, Mend, Operation, Operations};
use crate::error_code::ErrorCode;
use crate::ids::TopicId;
use crate::op::{self, Op, TopicRef};
use crate::reply::{self, FetchedOffset, Refusal, Reply};

const REFUSED: ErrorCode = ErrorCode::GroupAuthorizationFailed;

/// What Kafka says with it.
pub(super) const NOT_THIS_GROUP: &str = "Group authorization failed.";

/// READ on the group.
pub(super) fn join_group(judge: &Judge<'_>, op: op::JoinGroup) -> Screened {
    if judge.may_group(Operation::Read, &op.group) {
        return Screened::untouched(Op::JoinGroup(op));
    }
    let reply = reply::JoinGroup { member_id: String::new(), result: Err(REFUSED) };
    Screened::Refused(Reply::JoinGroup(reply))
}

/// READ on the group.
pub(super) fn sync_group(judge: &Judge<'_>, op: op::SyncGroup) -> Screened {
    if judge.may_group(Operation::Read, &op.group) {
        return Screened::untouched(Op::SyncGroup(op));
    }
    // Kafka looks first whether the request is whole.
    let is_whole = !op.must_name_protocol || (op.protocol_type.is_some() && op.protocol.is_some());
    let code = if is_whole { REFUSED } else { ErrorCode::InconsistentGroupProtocol };
    Screened::Refused(Reply::SyncGroup(reply::SyncGroup { result: Err(code) }))
}

/// READ on the group.
pub(super) fn heartbeat(judge: &Judge<'_>, op: Arc<op::Heartbeat>) -> Screened {
    if judge.may_group(Operation::Read, &op.group) {
        return Screened::untouched(Op::Heartbeat(op));
    }
    Screened::Refused(Reply::Heartbeat(reply::Heartbeat { error: Some(REFUSED) }))
}

/// READ on the group.
pub(super) fn leave_group(judge: &Judge<'_>, op: op::LeaveGroup) -> Screened {
    if judge.may_group(Operation::Read, &op.group) {
        return Screened::untouched(Op::LeaveGroup(op));
    }
    Screened::Refused(Reply::LeaveGroup(reply::LeaveGroup { result: Err(REFUSED) }))
}

/// READ on the group and on each topic.
pub(super) fn offset_commit(judge: &Judge<'_>, mut op: op::OffsetCommit, topics: &dyn Topics) -> Screened {
    if !judge.may_group(Operation::Read, &op.group) {
        let topics = op.topics.into_iter().map(|topic| uncommitted(topic, REFUSED)).collect();
        return Screened::Refused(Reply::OffsetCommit(reply::OffsetCommit { topics }));
    }
    let may = |topic: &op::OffsetCommitTopic| may_topic(judge, Operation::Read, &topic.topic, topics);
    let refuse = |topic| uncommitted(topic, ErrorCode::TopicAuthorizationFailed);
    split!(OffsetCommit, op.topics, may, refuse)
}

fn uncommitted(topic: op::OffsetCommitTopic, code: ErrorCode) -> reply::OffsetCommitTopic {
    let partitions = topic.partitions.iter().map(|partition| (partition.index, Some(code))).collect();
    reply::OffsetCommitTopic { topic: topic.topic, partitions }
}

/// DESCRIBE on each group and on each topic. What is asked for as a whole is told as far as it may be seen.
pub(super) fn offset_fetch(judge: &Judge<'_>, mut op: op::OffsetFetch, topics: &dyn Topics) -> Screened {
    let may = |group: &op::OffsetFetchGroup| judge.may_group(Operation::Describe, &group.group);
    let groups = take_refused(&mut op.groups, may, untold_group);
    if op.groups.is_empty() && !groups.is_empty() {
        let groups = merged(Vec::new(), groups);
        return Screened::Refused(Reply::OffsetFetch(reply::OffsetFetch { groups }));
    }
    let mut offsets = Vec::new();
    for (at, group) in op.groups.iter_mut().enumerate() {
        match &mut group.topics {
            None => offsets.push((at, RepairOffsets::All)),
            Some(asked) => {
                let may = |topic: &op::OffsetFetchTopic| {
                    may_topic(judge, Operation::Describe, &topic.topic, topics)
                };
                let refuse = |topic| untold_topic(topic, ErrorCode::TopicAuthorizationFailed);
                let refused: Refused<_> = take_refused(asked, may, refuse);
                if !refused.is_empty() {
                    offsets.push((at, RepairOffsets::Named(refused)));
                }
            }
        }
    }
    if groups.is_empty() && offsets.is_empty() {
        return Screened::untouched(Op::OffsetFetch(op));
    }
    Screened::Allowed(Op::OffsetFetch(op), Mend(Repair::OffsetFetch { offsets, groups }))
}

fn untold_group(group: op::OffsetFetchGroup) -> reply::OffsetFetchGroup {
    let topics = group.topics.unwrap_or_default().into_iter();
    reply::OffsetFetchGroup {
        group: group.group,
        error: Some(REFUSED),
        topics: topics.map(|topic| untold_topic(topic, REFUSED)).collect(),
    }
}

fn untold_topic(topic: op::OffsetFetchTopic, code: ErrorCode) -> reply::OffsetFetchTopic {
    let (name, id) = match topic.topic {
        TopicRef::Name(name) => (name, TopicId::ZERO),
        TopicRef::Id(id) => (String::new(), id),
    };
    let partitions =
        topic.partitions.into_iter().map(|index| FetchedOffset::none(index, Some(code))).collect();
    reply::OffsetFetchTopic { name, id, partitions }
}

/// DELETE on the group, READ on each topic.
pub(super) fn offset_delete(judge: &Judge<'_>, mut op: op::OffsetDelete) -> Screened {
    if !judge.may_group(Operation::Delete, &op.group) {
        return Screened::Refused(Reply::OffsetDelete(reply::OffsetDelete { result: Err(REFUSED) }));
    }
    let may = |(name, _): &(String, Vec<i32>)| judge.may_topic(Operation::Read, name);
    let code = Some(ErrorCode::TopicAuthorizationFailed);
    let refuse = |(name, partitions): (String, Vec<i32>)| {
        (name, partitions.into_iter().map(|index| (index, code)).collect())
    };
    let refused = take_refused(&mut op.topics, may, refuse);
    if refused.is_empty() {
        Screened::untouched(Op::OffsetDelete(op))
    } else if op.topics.is_empty() {
        let result = Ok(merged(Vec::new(), refused));
        Screened::Refused(Reply::OffsetDelete(reply::OffsetDelete { result }))
    } else {
        Screened::Allowed(Op::OffsetDelete(op), Mend(Repair::OffsetDelete(refused)))
    }
}

/// DESCRIBE on each group.
pub(super) fn describe_groups(judge: &Judge<'_>, mut op: op::DescribeGroups) -> Screened {
    let refuse = |group: String| reply::DescribedGroup {
        group,
        error: Some(REFUSED),
        state: reply::GroupState::Dead,
        protocol_type: String::new(),
        protocol: String::new(),
        members: Vec::new(),
        operations: Operations::NONE,
    };
    let refused = take_refused(&mut op.groups, |group| judge.may_group(Operation::Describe, group), refuse);
    if op.groups.is_empty() && !refused.is_empty() {
        let groups = merged(Vec::new(), refused);
        return Screened::Refused(Reply::DescribeGroups(reply::DescribeGroups { groups }));
    }
    Screened::Allowed(Op::DescribeGroups(op), Mend(Repair::DescribeGroups(refused)))
}

/// DELETE on each group.
pub(super) fn delete_groups(judge: &Judge<'_>, mut op: op::DeleteGroups) -> Screened {
    let may = |group: &String| judge.may_group(Operation::Delete, group);
    // A group that is named twice is answered once.
    let mut seen = BTreeSet::new();
    op.groups.retain(|group| may(group) || seen.insert(group.clone()));
    split!(DeleteGroups, op.groups, may, |group| (group, Some(REFUSED)))
}

/// DESCRIBE on each group.
pub(super) fn find_coordinator(judge: &Judge<'_>, mut op: op::FindCoordinator) -> Screened {
    let may = |group: &String| judge.may_group(Operation::Describe, group);
    // What is said with it depends on the version, which the gateway knows.
    split!(FindCoordinator, op.groups, may, |group| (group, Some(Refusal::from(REFUSED))))
}
