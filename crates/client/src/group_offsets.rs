//! Offsets of groups: read, set, forgotten.

use std::collections::BTreeMap;

use coordination::error_code::ErrorCode;
use wire::ApiKey;
use wire::api::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use wire::api::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic, OffsetDeleteResponse,
};
use wire::api::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse};

use crate::cluster::Client;
use crate::error::{ClientError, accepted};
use crate::groups::is_passing;

/// A partition of a topic, by name and number.
pub type TopicPartition = (String, i32);

/// How far a group has read a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The offset of the next record to read.
    pub offset: i64,
    /// The leader epoch of the last record read; none if it is not known.
    pub leader_epoch: Option<i32>,
    /// What the client wanted to remember with it.
    pub metadata: String,
}

/// The last versions of OffsetCommit and OffsetFetch that name topics; later ones want ids.
const LAST_WITH_NAMES: i16 = 9;

/// The first version of OffsetFetch that can ask for all topics.
const FETCH_ALL: i16 = 2;

impl Client {
    /// All offsets that a group has committed; none for a group that does not exist.
    pub async fn committed_offsets(
        &mut self,
        group: &str,
    ) -> Result<BTreeMap<TopicPartition, CommittedOffset>, ClientError> {
        let request = OffsetFetchRequest {
            group_id: group.to_owned(),
            groups: vec![OffsetFetchRequestGroup { group_id: group.to_owned(), ..Default::default() }],
            ..Default::default()
        };
        self.require(ApiKey::OffsetFetch, FETCH_ALL)?;
        let (_, response) = self.ask_coordinator(group, &request, LAST_WITH_NAMES, fetch_passes).await?;
        let code = fetch_error(&response);
        if code == ErrorCode::GroupIdNotFound.number() {
            return Ok(BTreeMap::new());
        }
        accepted(code, None)?;
        let mut offsets = BTreeMap::new();
        let mut add = |topic: &str, index, code, offset, leader_epoch: i32, metadata: Option<String>| {
            accepted(code, Some(format!("{topic}-{index}")))?;
            if offset >= 0 {
                let leader_epoch = (leader_epoch >= 0).then_some(leader_epoch);
                let committed =
                    CommittedOffset { offset, leader_epoch, metadata: metadata.unwrap_or_default() };
                offsets.insert((topic.to_owned(), index), committed);
            }
            Ok::<(), ClientError>(())
        };
        // One shape since version 8, another before; each version leaves the other one empty.
        for topic in response.groups.into_iter().flat_map(|group| group.topics) {
            for found in topic.partitions {
                let (offset, epoch) = (found.committed_offset, found.committed_leader_epoch);
                add(&topic.name, found.partition_index, found.error_code, offset, epoch, found.metadata)?;
            }
        }
        for topic in response.topics {
            for found in topic.partitions {
                let (offset, epoch) = (found.committed_offset, found.committed_leader_epoch);
                add(&topic.name, found.partition_index, found.error_code, offset, epoch, found.metadata)?;
            }
        }
        Ok(offsets)
    }

    /// Sets offsets of a group that has no members; what became of each is told by partition.
    pub async fn commit_offsets(
        &mut self,
        group: &str,
        offsets: &BTreeMap<TopicPartition, i64>,
    ) -> Result<BTreeMap<TopicPartition, Result<(), ClientError>>, ClientError> {
        let partition = |index: i32, offset: i64| OffsetCommitRequestPartition {
            partition_index: index,
            committed_offset: offset,
            committed_metadata: Some(String::new()),
            ..Default::default()
        };
        let topic = |(name, partitions): (String, Vec<(i32, i64)>)| OffsetCommitRequestTopic {
            name,
            partitions: partitions.into_iter().map(|(index, offset)| partition(index, offset)).collect(),
            ..Default::default()
        };
        let topics = by_topic(offsets.iter().map(|((topic, index), offset)| (topic, (*index, *offset))));
        let request = OffsetCommitRequest {
            group_id: group.to_owned(),
            topics: topics.into_iter().map(topic).collect(),
            ..Default::default()
        };
        // Some may be set already when others are not; setting them once more changes nothing.
        let passes = |response: &OffsetCommitResponse| {
            let mut results = response.topics.iter().flat_map(|topic| &topic.partitions);
            results.any(|result| is_passing(result.error_code))
        };
        let (_, response) = self.ask_coordinator(group, &request, LAST_WITH_NAMES, passes).await?;
        let mut results = unanswered(offsets.keys(), ApiKey::OffsetCommit);
        for topic in response.topics {
            for result in topic.partitions {
                let key = (topic.name.clone(), result.partition_index);
                results.insert(key, accepted(result.error_code, None));
            }
        }
        Ok(results)
    }

    /// Forgets offsets of a group; nobody in it may be subscribed to the topics. What became of each is told by
    /// partition.
    pub async fn delete_offsets(
        &mut self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, Result<(), ClientError>>, ClientError> {
        let topic = |(name, partitions): (String, Vec<i32>)| OffsetDeleteRequestTopic {
            name,
            partitions: partitions
                .into_iter()
                .map(|partition_index| OffsetDeleteRequestPartition { partition_index })
                .collect(),
        };
        let topics = by_topic(partitions.iter().map(|(topic, index)| (topic, *index)));
        let request = OffsetDeleteRequest {
            group_id: group.to_owned(),
            topics: topics.into_iter().map(topic).collect(),
        };
        let passes = |response: &OffsetDeleteResponse| {
            let mut results = response.topics.iter().flat_map(|topic| &topic.partitions);
            is_passing(response.error_code) || results.any(|result| is_passing(result.error_code))
        };
        let (_, response) = self.ask_coordinator(group, &request, i16::MAX, passes).await?;
        accepted(response.error_code, None)?;
        let mut results = unanswered(partitions, ApiKey::OffsetDelete);
        for topic in response.topics {
            for result in topic.partitions {
                let key = (topic.name.clone(), result.partition_index);
                results.insert(key, accepted(result.error_code, None));
            }
        }
        Ok(results)
    }
}

/// What became of partitions before the broker's answer has been read: nobody knows, and for those that the answer
/// leaves out it stays so.
fn unanswered<'a>(
    partitions: impl IntoIterator<Item = &'a TopicPartition>,
    api: ApiKey,
) -> BTreeMap<TopicPartition, Result<(), ClientError>> {
    let one = |partition: &TopicPartition| {
        (partition.clone(), Err(ClientError::Unanswered { request: api.name() }))
    };
    partitions.into_iter().map(one).collect()
}

/// Whether the group or one of its partitions has an error that will pass by itself.
fn fetch_passes(response: &OffsetFetchResponse) -> bool {
    let newer = response.groups.iter().flat_map(|group| &group.topics).flat_map(|topic| &topic.partitions);
    let older = response.topics.iter().flat_map(|topic| &topic.partitions);
    is_passing(fetch_error(response))
        || newer.map(|found| found.error_code).any(is_passing)
        || older.map(|found| found.error_code).any(is_passing)
}

/// The error of the whole group, wherever the version puts it.
fn fetch_error(response: &OffsetFetchResponse) -> i16 {
    response.groups.first().map_or(response.error_code, |group| group.error_code)
}

fn by_topic<'a, T>(items: impl Iterator<Item = (&'a String, T)>) -> BTreeMap<String, Vec<T>> {
    let mut topics: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for (topic, item) in items {
        topics.entry(topic.clone()).or_default().push(item);
    }
    topics
}
