//! OffsetCommit and its opposite: how far a group has read, remembered and told.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error_code::ErrorCode;
use crate::ids::{GroupId, TopicId};
use crate::op;
use crate::reply::{self, FetchedOffset, OffsetFetchTopic};

use super::Shard;
use super::effects::{Effects, Room};
use super::machine::{CONSUMER, GROUP_BYTES, Group, Step};
use super::offsets::{CommittedOffset, metadata_fits};
use super::phase::Phase;
use super::record::{GroupRecord, KAFKA_TEXT_MAX, OffsetValue};
use super::timestamp::Now;

/// Offsets that a group commits. The broker has found the topics and refused what does not exist.
#[derive(Clone, Copy, Debug)]
pub struct Commit<'a> {
    /// The group's id; here it may be empty.
    pub group: &'a str,
    /// The generation of the member that commits; negative for one that is no member.
    pub generation: i32,
    /// The member's id, or empty.
    pub member_id: &'a str,
    /// The name that a static member keeps over restarts.
    pub instance_id: Option<&'a str>,
    /// How long to keep the offsets, from the old versions that can say it.
    pub retention_ms: Option<i64>,
    /// Whether the client's version knows that a group can be missing.
    pub knows_missing_groups: bool,
    /// What is committed, in the client's order.
    pub offsets: &'a [CommitOffset<'a>],
}

/// One offset of a commit.
#[derive(Clone, Copy, Debug)]
pub struct CommitOffset<'a> {
    /// The topic's name.
    pub topic: &'a Arc<str>,
    /// The topic's id.
    pub topic_id: TopicId,
    /// The partition's number.
    pub partition: i32,
    /// The offset of the next record to read.
    pub offset: i64,
    /// The leader epoch of the last record read, or -1.
    pub leader_epoch: i32,
    /// Whatever the client wants to remember with it; empty where it sent null.
    pub metadata: &'a str,
}

/// Offsets of one topic that are asked for.
#[derive(Clone, Copy, Debug)]
pub struct WantedOffsets<'a> {
    /// The topic's name.
    pub name: &'a str,
    /// The topic's id if the client asked by it, else zero. Offsets of an earlier topic of that name are then left out.
    pub id: TopicId,
    /// The partitions' numbers.
    pub partitions: &'a [i32],
}

/// What one more offset takes at most, beside its metadata.
const OFFSET_BYTES: usize = 160;

/// How many offsets of one commit may find their places one by one.
const OFFSETS_ONE_BY_ONE: usize = 100;

/// How many bytes of metadata an answer may have beside those that the group holds. One that has more tells the same
/// again: a partition is asked for in four bytes and may have thousands.
const METADATA_FREE: usize = 1 << 20;

impl Shard {
    /// Remembers how far a group has read. Answers with the places in [`Commit::offsets`] that were refused, and
    /// why; mostly none.
    ///
    /// # Errors
    /// When nothing is committed; every partition gets this error.
    pub fn handle_commit(
        &mut self,
        now: Now,
        commit: &Commit<'_>,
        minted: GroupId,
        room: Room,
        effects: &mut Effects,
    ) -> Result<Vec<(usize, ErrorCode)>, ErrorCode> {
        if !self.groups.contains_key(commit.group) {
            if commit.generation >= 0 {
                return Err(if commit.knows_missing_groups {
                    ErrorCode::GroupIdNotFound
                } else {
                    ErrorCode::IllegalGeneration
                });
            }
            if commit.group.len() > KAFKA_TEXT_MAX {
                return Err(ErrorCode::InvalidGroupId);
            }
            let offsets: usize = commit.offsets.iter().map(bytes).sum();
            if room.groups == 0 || room.bytes < GROUP_BYTES + commit.group.len() + offsets {
                return Err(ErrorCode::PolicyViolation);
            }
            self.add_group(commit.group);
        }
        let committed = self.within(now, commit.group, effects, |group, step| {
            step.room = room;
            group.check_commit(step, commit)?;
            group.identify(step, minted);
            group.commit(step, commit)
        });
        committed.unwrap_or(Err(ErrorCode::UnknownServerError))
    }

    /// How far a group has read; -1 where it has not. `None` asks for all that is there, by name and number; each
    /// topic then has the id that its offsets were committed to.
    ///
    /// A request that asks for a partition again and again is refused when what it would be told is more than there is.
    pub fn fetch_offsets(&self, group: &str, wanted: Option<&[WantedOffsets<'_>]>) -> Vec<OffsetFetchTopic> {
        let group = self.groups.get(group).filter(|group| !matches!(group.phase, Phase::Dead));
        let mut left = group.map_or(0, |group| group.offsets.bytes()).max(METADATA_FREE);
        match (wanted, group) {
            (Some(wanted), group) => wanted
                .iter()
                .map(|topic| OffsetFetchTopic {
                    name: topic.name.to_owned(),
                    id: topic.id,
                    partitions: topic
                        .partitions
                        .iter()
                        .map(|index| {
                            let offset =
                                group.and_then(|group| group.offsets.get_of(topic.name, topic.id, *index));
                            let Some(offset) = offset else { return FetchedOffset::none(*index, None) };
                            let Some(rest) = left.checked_sub(offset.metadata.len()) else {
                                return FetchedOffset::none(*index, Some(ErrorCode::PolicyViolation));
                            };
                            left = rest;
                            fetched(*index, offset)
                        })
                        .collect(),
                })
                .collect(),
            (None, Some(group)) => group
                .offsets
                .topics()
                .map(|(name, offsets)| {
                    let mut id = TopicId::ZERO;
                    let partitions = offsets.map(|(index, offset)| {
                        id = offset.topic_id;
                        fetched(index, offset)
                    });
                    let partitions = partitions.collect();
                    OffsetFetchTopic { name: name.to_string(), id, partitions }
                })
                .collect(),
            (None, None) => Vec::new(),
        }
    }

    /// Forgets offsets. The broker has taken out the partitions that do not exist.
    pub fn handle_delete_offsets(
        &mut self,
        now: Now,
        op: &op::OffsetDelete,
        effects: &mut Effects,
    ) -> reply::OffsetDelete {
        if op.group.is_empty() {
            return reply::OffsetDelete { result: Err(ErrorCode::InvalidGroupId) };
        }
        let deleted =
            self.within(now, &op.group, effects, |group, step| group.delete_offsets(step, &op.topics));
        reply::OffsetDelete { result: deleted.unwrap_or(Err(ErrorCode::GroupIdNotFound)) }
    }
}

impl Group {
    /// Who may commit: a member of this generation, or anybody while nobody is in the group.
    fn check_commit(&mut self, step: &Step<'_>, commit: &Commit<'_>) -> Result<(), ErrorCode> {
        match self.phase {
            Phase::Dead => return Err(ErrorCode::CoordinatorNotAvailable),
            Phase::Empty if commit.generation < 0 => return Ok(()),
            Phase::Empty | Phase::Preparing(_) | Phase::Completing(_) | Phase::Stable(_) => {}
        }
        if commit.generation < 0 && commit.member_id.is_empty() && commit.instance_id.is_none() {
            return Err(ErrorCode::UnknownMemberId);
        }
        let member = self.members.find_mut(commit.member_id, commit.instance_id)?;
        if commit.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        if matches!(self.phase, Phase::Completing(_)) {
            return Err(ErrorCode::RebalanceInProgress);
        }
        member.renew(step.now.at);
        Ok(())
    }

    fn commit(
        &mut self,
        step: &mut Step<'_>,
        commit: &Commit<'_>,
    ) -> Result<Vec<(usize, ErrorCode)>, ErrorCode> {
        // Mostly there is room for all of them, whether or not they replace others.
        let room = step.room.bytes;
        if room < commit.offsets.iter().map(bytes).sum() && room < self.growth(commit) {
            return Err(ErrorCode::PolicyViolation);
        }
        let metadata_max = step.settings.offset_metadata_max;
        if commit.offsets.len() > OFFSETS_ONE_BY_ONE {
            let fitting = commit.offsets.iter().filter(|offset| metadata_fits(offset.metadata, metadata_max));
            self.offsets.make_places(
                fitting.map(|offset| (offset.topic, offset.topic_id, offset.partition)).collect(),
            );
        }
        let expire_ms = commit.retention_ms.map(|retention| step.now.wall_ms.saturating_add(retention));
        let mut refused = Vec::new();
        for (place, offset) in commit.offsets.iter().enumerate() {
            if !metadata_fits(offset.metadata, metadata_max) {
                refused.push((place, ErrorCode::OffsetMetadataTooLarge));
                continue;
            }
            // The format that has room for an expiry has none for these two.
            let has_expiry = expire_ms.is_some();
            let value = OffsetValue {
                offset: offset.offset,
                leader_epoch: if has_expiry { -1 } else { offset.leader_epoch },
                metadata: offset.metadata.into(),
                commit_ms: step.now.wall_ms,
                expire_ms,
                topic_id: if has_expiry { TopicId::ZERO } else { offset.topic_id },
            };
            self.offsets.set(offset.topic, offset.partition, Some(&value));
            step.effects.records.push(GroupRecord::Offset {
                group: Arc::clone(&self.name),
                topic: Arc::clone(offset.topic),
                partition: offset.partition,
                value: Some(value),
            });
        }
        Ok(refused)
    }

    /// What a commit takes beyond what the group has. Offsets that replace others take no more, but for their metadata.
    fn growth(&self, commit: &Commit<'_>) -> usize {
        let growth = |offset: &CommitOffset<'_>| match self.offsets.get(offset.topic, offset.partition) {
            None => bytes(offset),
            Some(before) if offset.metadata.len() <= before.metadata.len() => 0,
            Some(_) => OFFSET_BYTES + offset.metadata.len(),
        };
        commit.offsets.iter().map(growth).sum()
    }

    /// Forgets offsets, by name and number, in memory and for the log.
    pub(super) fn forget_offsets(&mut self, step: &mut Step<'_>, gone: Vec<(Arc<str>, i32)>) {
        self.offsets.forget_all(&gone);
        step.effects.records.extend(gone.into_iter().map(|(topic, partition)| GroupRecord::Offset {
            group: Arc::clone(&self.name),
            topic,
            partition,
            value: None,
        }));
    }

    #[expect(clippy::type_complexity, reason = "the shape of the answer")]
    fn delete_offsets(
        &mut self,
        step: &mut Step<'_>,
        topics: &[(String, Vec<i32>)],
    ) -> Result<Vec<(String, Vec<(i32, Option<ErrorCode>)>)>, ErrorCode> {
        let is_consumer = self.protocol_type.as_deref() == Some(CONSUMER);
        let subscribed = match self.phase {
            Phase::Dead => return Err(ErrorCode::GroupIdNotFound),
            Phase::Empty => Some(BTreeSet::new()),
            Phase::Preparing(_) | Phase::Completing(_) | Phase::Stable(_) => {
                if !is_consumer {
                    return Err(ErrorCode::NonEmptyGroup);
                }
                self.subscribed(topics.iter().map(|(topic, _)| topic.as_str()))
            }
        };
        let mut gone = BTreeSet::new();
        let mut answer = Vec::with_capacity(topics.len());
        for (topic, partitions) in topics {
            // A group that does not say what it reads may read anything.
            let is_subscribed =
                subscribed.as_ref().is_none_or(|subscribed| subscribed.contains(topic.as_str()));
            let refusal = is_subscribed.then_some(ErrorCode::GroupSubscribedToTopic);
            if refusal.is_none() {
                let name: Arc<str> = topic.as_str().into();
                let known =
                    partitions.iter().filter(|partition| self.offsets.get(topic, **partition).is_some());
                gone.extend(known.map(|partition| (Arc::clone(&name), *partition)));
            }
            let results = partitions.iter().map(|partition| (*partition, refusal)).collect();
            answer.push((topic.clone(), results));
        }
        self.forget_offsets(step, gone.into_iter().collect());
        Ok(answer)
    }
}

/// About what an offset takes that was not there before.
fn bytes(offset: &CommitOffset<'_>) -> usize {
    OFFSET_BYTES + offset.topic.len() + offset.metadata.len()
}

fn fetched(index: i32, offset: CommittedOffset<'_>) -> FetchedOffset {
    FetchedOffset {
        index,
        offset: offset.offset,
        leader_epoch: offset.leader_epoch,
        metadata: offset.metadata.to_owned(),
        error: None,
    }
}

impl From<CommittedOffset<'_>> for OffsetValue {
    fn from(offset: CommittedOffset<'_>) -> Self {
        Self {
            offset: offset.offset,
            leader_epoch: offset.leader_epoch,
            metadata: offset.metadata.into(),
            commit_ms: offset.commit_ms,
            expire_ms: offset.expire_ms,
            topic_id: offset.topic_id,
        }
    }
}
