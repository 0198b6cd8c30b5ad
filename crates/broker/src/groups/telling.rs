//! How much one answer may tell of groups.

use coordination::reply::{DescribedGroup, GroupState, OffsetFetchTopic};

use super::Shared;

/// So many bytes are always told.
const FREE: usize = 16 << 20;

/// What an offset without metadata takes, in memory and about as much in an answer.
const OFFSET_BYTES: usize = 32;

/// What a group or a member takes at least, in memory and in an answer.
const DESCRIBED_BYTES: usize = 256;

/// What one answer may still tell.
///
/// A request names a group in a few bytes and is told megabytes of it, so whoever named it a hundred thousand times
/// would have the broker run out of memory. An answer to a request that names everything once holds no more than all
/// groups have in memory; a longer one repeats itself, and its rest is refused.
#[derive(Debug)]
pub(super) struct Telling {
    left: Option<usize>,
}

impl Telling {
    pub(super) fn new(shared: &Shared) -> Self {
        Self { left: Some(shared.usage.now().bytes.max(FREE)) }
    }

    /// Whether nothing more is told.
    pub(super) fn is_over(&self) -> bool {
        self.left.is_none()
    }

    /// Takes note of what is told of a group; says whether it may be.
    pub(super) fn may_describe(&mut self, group: &DescribedGroup) -> bool {
        let members = group.members.iter().map(|member| {
            let ids = member.member_id.len() + member.client_id.len() + member.client_host.len();
            let instance = member.instance_id.as_ref().map_or(0, String::len);
            DESCRIBED_BYTES + ids + instance + member.metadata.len() + member.assignment.len()
        });
        // Of one that does not exist there is nothing to tell but its name, which the request has as well.
        let own = match group.state {
            GroupState::Dead => 0,
            _ => DESCRIBED_BYTES + group.group.len() + group.protocol_type.len() + group.protocol.len(),
        };
        self.take(members.chain([own]))
    }

    /// Takes note of what is told of a group's offsets; says whether it may be. What the request says of an offset is
    /// about as long as the offset, unless it asks for all.
    pub(super) fn may_tell_offsets(&mut self, topics: &[OffsetFetchTopic], are_all: bool) -> bool {
        let offsets = topics.iter().flat_map(|topic| &topic.partitions);
        let unnamed = if are_all { OFFSET_BYTES } else { 0 };
        let names = topics.iter().map(|topic| if are_all { topic.name.len() } else { 0 });
        self.take(offsets.map(|offset| offset.metadata.len() + unnamed).chain(names))
    }

    fn take(&mut self, bytes: impl Iterator<Item = usize>) -> bool {
        self.left = self.left.and_then(|left| left.checked_sub(bytes.sum()));
        self.left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use coordination::access::Operations;

    use super::*;

    fn told(group: &DescribedGroup, times: usize) -> usize {
        let mut telling = Telling { left: Some(FREE) };
        (0..times).take_while(|_| telling.may_describe(group)).count()
    }

    fn group(state: GroupState, protocol_type: String) -> DescribedGroup {
        let (group, protocol) = ("g".to_owned(), String::new());
        DescribedGroup {
            group,
            error: None,
            state,
            protocol_type,
            protocol,
            members: Vec::new(),
            operations: Operations::OF_GROUP,
        }
    }

    #[test]
    fn a_group_without_members_that_is_named_again_and_again_is_refused_in_the_end() {
        let kind = "k".repeat(30_000);
        assert!(told(&group(GroupState::Empty, kind), 1_000_000) < 600);
        assert!(told(&group(GroupState::Empty, String::new()), 1_000_000) < 70_000);
    }

    #[test]
    fn groups_that_do_not_exist_are_told_however_many_are_named() {
        assert_eq!(told(&group(GroupState::Dead, String::new()), 1_000_000), 1_000_000);
    }
}
