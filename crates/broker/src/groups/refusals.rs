//! Replies turned into refusals: the shard was dropped before what they say was durable.

use coordination::access::Operations;
use coordination::error_code::ErrorCode;
use coordination::reply::{self, Reply};
use coordination::{op, reply::FetchedOffset};

/// NOT_COORDINATOR in place of what would have been answered. What was refused for another reason keeps it.
pub(crate) fn not_coordinator(reply: Reply) -> Reply {
    let code = ErrorCode::NotCoordinator;
    match reply {
        Reply::OffsetCommit(mut reply) => {
            for (_, error) in reply.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
                error.get_or_insert(code);
            }
            Reply::OffsetCommit(reply)
        }
        Reply::LeaveGroup(_) => Reply::LeaveGroup(reply::LeaveGroup { result: Err(code) }),
        Reply::OffsetDelete(_) => Reply::OffsetDelete(reply::OffsetDelete { result: Err(code) }),
        Reply::ListGroups(_) => Reply::ListGroups(reply::ListGroups { result: Err(code) }),
        other => other,
    }
}

/// A group whose offsets cannot be told.
pub(crate) fn fetch_refused(asked: op::OffsetFetchGroup, code: ErrorCode) -> reply::OffsetFetchGroup {
    let refused = |topic: op::OffsetFetchTopic| {
        let (name, id) = named(topic.topic);
        let partitions =
            topic.partitions.into_iter().map(|index| FetchedOffset::none(index, Some(code))).collect();
        reply::OffsetFetchTopic { name, id, partitions }
    };
    reply::OffsetFetchGroup {
        group: asked.group,
        error: Some(code),
        topics: asked.topics.unwrap_or_default().into_iter().map(refused).collect(),
    }
}

/// The same for a group whose offsets were about to be told.
pub(crate) fn refuse_fetched(group: &mut reply::OffsetFetchGroup, code: ErrorCode) {
    group.error = Some(code);
    for offset in group.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        *offset = FetchedOffset::none(offset.index, Some(code));
    }
}

/// A group that cannot be shown.
pub(crate) fn describe_refused(group: String, code: ErrorCode) -> reply::DescribedGroup {
    reply::DescribedGroup {
        group,
        error: Some(code),
        state: reply::GroupState::Dead,
        protocol_type: String::new(),
        protocol: String::new(),
        members: Vec::new(),
        operations: Operations::OF_GROUP,
    }
}

/// What a reply says of a topic that was asked for so.
pub(crate) fn named(topic: op::TopicRef) -> (String, coordination::ids::TopicId) {
    match topic {
        op::TopicRef::Name(name) => (name, coordination::ids::TopicId::ZERO),
        op::TopicRef::Id(id) => (String::new(), id),
    }
}
