//! Requests and replies in the shapes of the machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use coordination::error_code::ErrorCode;
use coordination::group::{self, CommitOffset, Effects, Now, Room, Shard, Timestamp, WantedOffsets};
use coordination::ids::{GroupId, TopicId};
use coordination::reply;

use crate::consumer_protocol::Partition;
use crate::message::{Commit, Committed, Fetch};

pub(super) fn commit_offsets(
    machine: &mut Shard,
    now: Now,
    commit: &Commit,
    topic_ids: &BTreeMap<String, TopicId>,
    minted: GroupId,
    room: Room,
    effects: &mut Effects,
) -> Result<Option<ErrorCode>, String> {
    let topics: Vec<Arc<str>> = commit.offsets.iter().map(|it| Arc::from(it.partition.0.as_str())).collect();
    let offsets: Vec<CommitOffset<'_>> = commit
        .offsets
        .iter()
        .zip(&topics)
        .map(|(it, topic)| CommitOffset {
            topic,
            topic_id: topic_ids.get(&it.partition.0).copied().unwrap_or(TopicId::ZERO),
            partition: it.partition.1,
            offset: it.offset,
            leader_epoch: 0,
            metadata: &it.metadata,
        })
        .collect();
    let asked = group::Commit {
        group: &commit.group,
        generation: commit.generation,
        member_id: &commit.member_id,
        instance_id: commit.instance_id.as_deref(),
        retention_ms: None,
        knows_missing_groups: true,
        offsets: &offsets,
    };
    match machine.handle_commit(now, &asked, minted, room, effects) {
        Ok(refused) if refused.is_empty() => Ok(None),
        Ok(refused) => Err(format!("some offsets of {commit:?} are refused: {refused:?}")),
        Err(error) => Ok(Some(error)),
    }
}

pub(super) fn fetch_offsets(machine: &Shard, fetch: &Fetch) -> Vec<Committed> {
    let partitions: Vec<[i32; 1]> = fetch.partitions.iter().map(|(_, partition)| [*partition]).collect();
    let wanted: Vec<WantedOffsets<'_>> = fetch
        .partitions
        .iter()
        .zip(&partitions)
        .map(|((topic, _), partition)| WantedOffsets {
            name: topic,
            id: TopicId::ZERO,
            partitions: partition,
        })
        .collect();
    found(machine.fetch_offsets(&fetch.group, Some(&wanted)))
}

pub(super) fn fetch_all(machine: &Shard, group: &str) -> BTreeMap<Partition, (i64, String)> {
    found(machine.fetch_offsets(group, None))
        .into_iter()
        .map(|it| (it.partition, (it.offset, it.metadata)))
        .collect()
}

pub(super) fn found(topics: Vec<reply::OffsetFetchTopic>) -> Vec<Committed> {
    let mut all = Vec::new();
    for topic in topics {
        for it in topic.partitions {
            if it.offset >= 0 {
                let partition = (topic.name.clone(), it.index);
                all.push(Committed { partition, offset: it.offset, metadata: it.metadata });
            }
        }
    }
    all
}

/// The broker's two clocks. The one on the wall started long before the other.
pub(super) fn now(at: u64) -> Now {
    let wall_ms = 1_700_000_000_000 + i64::try_from(at).expect("a run does not take so long");
    Now { at: Timestamp::from_millis(at), wall_ms }
}
