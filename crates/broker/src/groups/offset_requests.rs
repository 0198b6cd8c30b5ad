//! The requests about offsets, each with its answer. The broker looks for the topics, the machine does the rest.

use std::sync::Arc;

use coordination::error_code::ErrorCode;
use coordination::group::{Commit, CommitOffset, KAFKA_TEXT_MAX, WantedOffsets};
use coordination::ids::{OrgId, TopicId};
use coordination::op::{self, TopicRef};
use coordination::reply::{self, FetchedOffset, Reply};
use rail::{Answer, Durable};

use super::Groups;
use super::gathering::Split;
use super::refusals::{fetch_refused, named, refuse_fetched};
use super::requests::{all_gated, bad_id, gated, mint_group};
use super::step::Stepped;
use super::telling::Telling;
use crate::topics::Topic;

impl Groups {
    /// How far a group has read.
    pub(crate) fn commit(&self, org: OrgId, op: op::OffsetCommit) -> Answer {
        let found: Vec<Option<Arc<Topic>>> =
            op.topics.iter().map(|topic| self.topics.find(org, &topic.topic)).collect();
        let mut offsets = Vec::with_capacity(op.topics.first().map_or(0, |topic| topic.partitions.len()));
        for (asked, topic) in op.topics.iter().zip(&found) {
            let Some(topic) = topic else { continue };
            let known = asked.partitions.iter().filter(|part| topic.partition(part.index).is_some());
            offsets.extend(known.map(|part| CommitOffset {
                topic: &topic.name,
                topic_id: topic.id,
                partition: part.index,
                offset: part.offset,
                leader_epoch: part.leader_epoch,
                metadata: part.metadata.as_deref().unwrap_or_default(),
            }));
        }
        let (outcome, until) = if offsets.is_empty() {
            // As in Kafka, what has nothing left to commit is not looked at any further.
            (Ok(Vec::new()), None)
        } else {
            let commit = Commit {
                group: &op.group,
                generation: op.generation,
                member_id: &op.member_id,
                instance_id: op.instance_id.as_deref(),
                retention_ms: op.retention_ms,
                knows_missing_groups: op.knows_missing_groups,
                offsets: &offsets,
            };
            match self.commit_found(org, &commit, &found) {
                Some(committed) => committed,
                // A topic was deleted in between; it is not found again.
                None => return self.commit(org, op),
            }
        };
        drop(offsets);
        let reply = commit_reply(op.topics, &found, &outcome);
        gated(Reply::OffsetCommit(reply), until)
    }

    /// What was refused of a commit whose topics were found, and what to wait for; `None` if one has gone since.
    fn commit_found(
        &self,
        org: OrgId,
        commit: &Commit<'_>,
        found: &[Option<Arc<Topic>>],
    ) -> Option<(Outcome, Option<Durable>)> {
        if commit.group.len() > KAFKA_TEXT_MAX {
            return Some((Err(ErrorCode::InvalidGroupId), None));
        }
        let Some(shard) = self.shard(org, commit.group) else {
            return Some((Err(ErrorCode::NotCoordinator), None));
        };
        let broker = self.shared.room();
        let room = shard.share.within(broker);
        let committed = shard.step(Split::Never, |step| {
            // A topic is marked before the shard is told to forget it. So either the shard hears of it after this
            // commit, or the mark is there.
            if found
                .iter()
                .flatten()
                .any(|topic| topic.partitions.first().is_some_and(|first| first.is_closed()))
            {
                return None;
            }
            let minted = mint_group(step.now.wall_ms);
            Some(step.machine.handle_commit(step.now, commit, minted, room, step.effects))
        });
        match committed {
            Ok(Stepped { value, until }) => {
                let value = value?;
                match &value {
                    Ok(refused) => {
                        self.shared.metrics.committed(commit.offsets.len().saturating_sub(refused.len()));
                    }
                    Err(code) => self.tell_limit(&shard.share, *code, broker),
                }
                Some((value, until))
            }
            Err(not_ready) => Some((Err(not_ready.code()), None)),
        }
    }

    /// How far groups have read.
    pub(crate) fn fetch_offsets(&self, org: OrgId, op: op::OffsetFetch) -> Answer {
        let by_id = op.by_id;
        let mut waiting = Vec::new();
        let mut groups = Vec::with_capacity(op.groups.len());
        let mut telling = Telling::new(&self.shared);
        for asked in op.groups {
            let (group, until) = self.fetch_group(org, asked, by_id, &mut telling);
            waiting.extend(until.map(|until| (groups.len(), until)));
            groups.push(group);
        }
        all_gated(
            groups,
            waiting,
            |groups| Reply::OffsetFetch(reply::OffsetFetch { groups }),
            |group| {
                refuse_fetched(group, ErrorCode::NotCoordinator);
            },
        )
    }

    fn fetch_group(
        &self,
        org: OrgId,
        asked: op::OffsetFetchGroup,
        by_id: bool,
        telling: &mut Telling,
    ) -> (reply::OffsetFetchGroup, Option<Durable>) {
        if telling.is_over() {
            return (fetch_refused(asked, ErrorCode::PolicyViolation), None);
        }
        let Some(shard) = self.shard(org, &asked.group) else {
            return (fetch_refused(asked, ErrorCode::NotCoordinator), None);
        };
        let fetched = match &asked.topics {
            None => shard.look(|machine| machine.fetch_offsets(&asked.group, None)),
            Some(topics) => {
                // Topics that are asked for by an unknown id are not looked for. By name, nobody asks whether they
                // exist.
                let found: Vec<_> = topics.iter().map(|topic| self.named(org, topic)).collect();
                let wanted: Vec<_> = found
                    .iter()
                    .zip(topics)
                    .filter_map(|(found, topic)| {
                        let (name, id) = found.as_ref()?;
                        Some(WantedOffsets { name, id: *id, partitions: &topic.partitions })
                    })
                    .collect();
                shard.look(|machine| machine.fetch_offsets(&asked.group, Some(&wanted))).map(|stepped| {
                    let mut known = stepped.value.into_iter();
                    let value = topics.iter().zip(&found).map(|(topic, found)| {
                        let fetched = found.as_ref().and_then(|(_, id)| Some((known.next()?, *id)));
                        match fetched {
                            Some((fetched, id)) => reply::OffsetFetchTopic { id, ..fetched },
                            None => unknown_id(topic),
                        }
                    });
                    Stepped { value: value.collect(), until: stepped.until }
                })
            }
        };
        match fetched {
            Ok(Stepped { value, .. }) if !telling.may_tell_offsets(&value, asked.topics.is_none()) => {
                (fetch_refused(asked, ErrorCode::PolicyViolation), None)
            }
            Ok(Stepped { mut value, until }) => {
                if asked.topics.is_none() && by_id {
                    // What has no id cannot be told in this version.
                    value.retain_mut(|topic| match self.topics.by_name(org, &topic.name) {
                        Some(known) => {
                            topic.id = known.id;
                            true
                        }
                        None => false,
                    });
                }
                (reply::OffsetFetchGroup { group: asked.group, error: None, topics: value }, until)
            }
            Err(not_ready) => (fetch_refused(asked, not_ready.code()), None),
        }
    }

    /// The name of a topic that offsets are asked for, and its id if it was asked for by that.
    fn named(&self, org: OrgId, topic: &op::OffsetFetchTopic) -> Option<(Arc<str>, TopicId)> {
        match &topic.topic {
            TopicRef::Name(name) => Some((Arc::from(name.as_str()), TopicId::ZERO)),
            TopicRef::Id(id) => self.topics.by_id(org, *id).map(|known| (Arc::clone(&known.name), *id)),
        }
    }

    /// Offsets to forget.
    pub(crate) fn delete_offsets(&self, org: OrgId, op: op::OffsetDelete) -> Answer {
        let refused = |code| Reply::OffsetDelete(reply::OffsetDelete { result: Err(code) }).into();
        if let Some(code) = bad_id(&op.group) {
            return refused(code);
        }
        let Some(shard) = self.shard(org, &op.group) else { return refused(ErrorCode::NotCoordinator) };
        let exists = |name: &str, partition: i32| {
            self.topics.by_name(org, name).is_some_and(|topic| topic.partition(partition).is_some())
        };
        let known = op.topics.iter().map(|(name, partitions)| {
            (name.clone(), partitions.iter().copied().filter(|&number| exists(name, number)).collect())
        });
        let known = op::OffsetDelete { group: op.group, topics: known.collect() };
        let deleted = shard
            .step(Split::Anywhere, |step| step.machine.handle_delete_offsets(step.now, &known, step.effects));
        match deleted {
            Ok(Stepped { value, until }) => {
                let result = value.result.map(|deleted| merge_deleted(op.topics, &known.topics, &deleted));
                gated(Reply::OffsetDelete(reply::OffsetDelete { result }), until)
            }
            Err(not_ready) => refused(not_ready.code()),
        }
    }
}

/// The places in a commit that were refused, in order, or why all of it was.
type Outcome = Result<Vec<(usize, ErrorCode)>, ErrorCode>;

/// What became of every partition of a commit, in the client's order.
fn commit_reply(
    topics: Vec<op::OffsetCommitTopic>,
    found: &[Option<Arc<Topic>>],
    outcome: &Outcome,
) -> reply::OffsetCommit {
    let mut place = 0;
    // In the order of places. Each is looked at once: a request may have a hundred thousand.
    let mut refused = outcome.as_deref().unwrap_or_default().iter().peekable();
    let topics = topics.into_iter().zip(found).map(|(asked, topic)| {
        let missing = match asked.topic {
            TopicRef::Id(_) if topic.is_none() => ErrorCode::UnknownTopicId,
            TopicRef::Id(_) | TopicRef::Name(_) => ErrorCode::UnknownTopicOrPartition,
        };
        let partitions = asked.partitions.into_iter().map(|part| {
            if topic.as_ref().and_then(|topic| topic.partition(part.index)).is_none() {
                return (part.index, Some(missing));
            }
            let error = match outcome {
                Ok(_) => refused.next_if(|(at, _)| *at == place).map(|(_, code)| *code),
                Err(code) => Some(*code),
            };
            place += 1;
            (part.index, error)
        });
        reply::OffsetCommitTopic { topic: asked.topic, partitions: partitions.collect() }
    });
    reply::OffsetCommit { topics: topics.collect() }
}

/// A topic that was asked for by an id that nothing has.
fn unknown_id(topic: &op::OffsetFetchTopic) -> reply::OffsetFetchTopic {
    let (name, id) = named(topic.topic.clone());
    let unknown = |&index: &i32| FetchedOffset::none(index, Some(ErrorCode::UnknownTopicId));
    reply::OffsetFetchTopic { name, id, partitions: topic.partitions.iter().map(unknown).collect() }
}

/// A topic with what became of each of its partitions.
type DeletedOffsets = (String, Vec<(i32, Option<ErrorCode>)>);

/// What became of offsets to forget, with the partitions that do not exist in their places.
fn merge_deleted(
    asked: Vec<(String, Vec<i32>)>,
    known: &[(String, Vec<i32>)],
    deleted: &[DeletedOffsets],
) -> Vec<DeletedOffsets> {
    // What is known is what was asked for without the rest, and so is what was deleted: all three are gone through
    // once and together, because a request may have a hundred thousand.
    asked
        .into_iter()
        .zip(known.iter().zip(deleted))
        .map(|((name, partitions), ((_, known), (_, deleted)))| {
            let mut known = known.iter().zip(deleted).peekable();
            let results = partitions.into_iter().map(|number| {
                let result = known.next_if(|(known, _)| **known == number);
                (number, result.map_or(Some(ErrorCode::UnknownTopicOrPartition), |(_, (_, error))| *error))
            });
            (name, results.collect())
        })
        .collect()
}
