//! ListOffsets: offsets by meaning and by time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use batch::RecordCursor;
use coordination::catalog::LEADER_EPOCH;
use coordination::error_code::ErrorCode;
use coordination::ids::OrgId;
use coordination::op::{self, OffsetTarget};
use coordination::reply::{self, FoundOffset, Reply};
use rail::Answer;
use store::{PartitionLog, ReadError};

use crate::Inner;
use crate::leader_epoch::check_leader_epoch;
use crate::partition::Partition;

/// Handles one ListOffsets request.
pub(crate) fn handle_list_offsets(inner: &Arc<Inner>, org: OrgId, op: op::ListOffsets) -> Answer {
    let mut repeated = repeated_partitions(&op.topics);
    let mut reply = reply::ListOffsets { topics: Vec::with_capacity(op.topics.len()) };
    let mut searches = Vec::new();
    for asked in op.topics {
        let topic = inner.topics.by_name(org, &asked.name);
        let mut partitions = Vec::with_capacity(asked.partitions.len());
        for part in asked.partitions {
            let partition = topic.as_ref().and_then(|topic| topic.partition(part.index));
            if !repeated.is_empty()
                && let Some(answered) = repeated.get_mut(&(asked.name.clone(), part.index))
            {
                if !std::mem::replace(answered, true) {
                    let result = Err(ErrorCode::InvalidRequest);
                    partitions.push(reply::ListOffsetsPartition { index: part.index, result });
                }
                continue;
            }
            let result = match (partition, part.target) {
                (_, Err(code)) => Err(code),
                (None, Ok(_)) => Err(ErrorCode::UnknownTopicOrPartition),
                (Some(partition), Ok(target)) => {
                    check_leader_epoch(part.current_leader_epoch).map(|()| match known(partition, target) {
                        Ok(found) => found,
                        Err(search) => {
                            let place = (reply.topics.len(), partitions.len());
                            searches.push((place, Arc::clone(partition), search));
                            FoundOffset::NONE
                        }
                    })
                }
            };
            partitions.push(reply::ListOffsetsPartition { index: part.index, result });
        }
        reply.topics.push(reply::ListOffsetsTopic { name: asked.name, partitions });
    }
    if searches.is_empty() {
        return Reply::ListOffsets(reply).into();
    }
    Answer::Later(Box::pin(async move {
        let places: Vec<_> = searches.iter().map(|(place, ..)| *place).collect();
        let found = tokio::task::spawn_blocking(move || {
            searches.iter().map(|(_, partition, target)| search(partition.log(), *target)).collect::<Vec<_>>()
        });
        let found = found.await.unwrap_or_default();
        for (at, (topic, partition)) in places.into_iter().enumerate() {
            let result = found.get(at).copied().unwrap_or(Err(ErrorCode::UnknownServerError));
            reply.topics[topic].partitions[partition].result = result;
        }
        Reply::ListOffsets(reply)
    }))
}

/// What records must be read for.
#[derive(Debug, Clone, Copy)]
enum Search {
    Time(i64),
    MaxTimestamp,
}

/// What can be said without reading records.
fn known(partition: &Partition, target: OffsetTarget) -> Result<FoundOffset, Search> {
    let at = |offset| FoundOffset { offset, timestamp_ms: -1, leader_epoch: LEADER_EPOCH };
    match target {
        OffsetTarget::Latest => Ok(at(partition.log().end_offset())),
        OffsetTarget::Earliest | OffsetTarget::EarliestLocal => Ok(at(partition.log().start_offset())),
        OffsetTarget::LatestTiered | OffsetTarget::EarliestPendingUpload => Ok(FoundOffset::NONE),
        OffsetTarget::MaxTimestamp => Err(Search::MaxTimestamp),
        OffsetTarget::Time(time) => Err(Search::Time(time)),
    }
}

/// Looks through records. Blocks.
fn search(log: &PartitionLog, target: Search) -> Result<FoundOffset, ErrorCode> {
    let found = match target {
        Search::Time(time) => log.find_by_time(time).map(|batch| (batch, Some(time))),
        Search::MaxTimestamp => log.max_timestamp().map(|batch| (batch, None)),
    };
    match found {
        Ok((Some(batch), time)) => Ok(first_record(&batch, log.start_offset(), time)),
        Ok((None, _)) => Ok(FoundOffset::NONE),
        Err(error) => Err(read_refusal(log, &error)),
    }
}

/// The first record at or after `time`; without a time, the first with the largest timestamp of its batch.
fn first_record(batch: &Bytes, start_offset: i64, time: Option<i64>) -> FoundOffset {
    let Ok(mut records) = RecordCursor::new(batch) else { return FoundOffset::NONE };
    let time = time.unwrap_or(records.header().max_timestamp);
    // A batch that was stored can be read; if it cannot, there is nothing to be found in it.
    while let Some(Ok(record)) = records.next_record() {
        if record.timestamp >= time && record.offset >= start_offset {
            return FoundOffset {
                offset: record.offset,
                timestamp_ms: record.timestamp,
                leader_epoch: LEADER_EPOCH,
            };
        }
    }
    FoundOffset::NONE
}

fn read_refusal(log: &PartitionLog, error: &ReadError) -> ErrorCode {
    tracing::error!(partition = %log.key(), error = error as &dyn std::error::Error, "look for an offset by time");
    ErrorCode::KafkaStorageError
}

/// Partitions that a request names more than once, which Kafka refuses; each is answered once.
fn repeated_partitions(topics: &[op::ListOffsetsTopic]) -> HashMap<(String, i32), bool> {
    let mut seen = HashSet::new();
    let mut repeated = HashMap::new();
    if let [topic] = topics
        && topic.partitions.len() <= 1
    {
        return repeated;
    }
    for topic in topics {
        for partition in &topic.partitions {
            if !seen.insert((&topic.name, partition.index)) {
                repeated.insert((topic.name.clone(), partition.index), false);
            }
        }
    }
    repeated
}
