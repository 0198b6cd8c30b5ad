//! How much one answer may tell of groups.

use coordination::reply::{DescribedGroup, OffsetFetchTopic};

use super::Shared;

/// So many bytes are always told.
const FREE: usize = 16 << 20;

/// What an offset without metadata takes, in memory and about as much in an answer.
const OFFSET_BYTES: usize = 32;

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
        self.take(group.members.iter().map(|member| {
            let ids = member.member_id.len() + member.client_id.len() + member.client_host.len();
            ids + member.metadata.len() + member.assignment.len()
        }))
    }

    /// Takes note of what is told of a group's offsets; says whether it may be. What the request says of an offset is
    /// about as long as the offset, unless it asks for all.
    pub(super) fn may_tell_offsets(&mut self, topics: &[OffsetFetchTopic], are_all: bool) -> bool {
        let offsets = topics.iter().flat_map(|topic| &topic.partitions);
        let unnamed = if are_all { OFFSET_BYTES } else { 0 };
        self.take(offsets.map(|offset| offset.metadata.len() + unnamed))
    }

    fn take(&mut self, bytes: impl Iterator<Item = usize>) -> bool {
        self.left = self.left.and_then(|left| left.checked_sub(bytes.sum()));
        self.left.is_some()
    }
}
