//! DeleteRecords: logs that begin later than they did.

use std::collections::HashMap;
use std::sync::Arc;

use coordination::error_code::ErrorCode;
use coordination::ids::OrgId;
use coordination::op;
use coordination::reply::{self, Reply};
use rail::Answer;

use crate::Inner;
use crate::partition::Partition;
use crate::topics::Topic;

/// Stands for the high watermark.
const ALL_THERE_IS: i64 = -1;

/// Handles one DeleteRecords request.
pub(crate) fn handle_delete_records(inner: &Arc<Inner>, org: OrgId, op: op::DeleteRecords) -> Answer {
    let mut reply = reply::DeleteRecords { topics: Vec::with_capacity(op.topics.len()) };
    let mut moves = Vec::new();
    for asked in op.topics {
        let topic = inner.topics.by_name(org, &asked.name);
        let mut partitions = Vec::with_capacity(asked.partitions.len());
        // As in Kafka, what is said last of a partition counts, and is answered once.
        let mut last: HashMap<i32, i64> = asked.partitions.iter().copied().collect();
        for (index, _) in asked.partitions {
            let Some(offset) = last.remove(&index) else { continue };
            let result = match topic.as_deref().and_then(|topic| Some((topic, topic.partition(index)?))) {
                None => Err(ErrorCode::UnknownTopicOrPartition),
                Some((topic, partition)) => {
                    let start = new_start(topic, partition, offset);
                    if let Ok(start) = start {
                        moves.push(((reply.topics.len(), partitions.len()), Arc::clone(partition), start));
                    }
                    start
                }
            };
            partitions.push((index, result));
        }
        reply.topics.push(reply::DeleteRecordsTopic { name: asked.name, partitions });
    }
    if moves.is_empty() {
        return Reply::DeleteRecords(reply).into();
    }
    Answer::Later(Box::pin(async move {
        for ((topic, at), partition, start) in moves {
            let moved = partition.move_start(start).await;
            reply.topics[topic].partitions[at].1 = moved.map(|()| partition.log().start_offset());
        }
        Reply::DeleteRecords(reply)
    }))
}

/// Where the log shall begin.
fn new_start(topic: &Topic, partition: &Partition, offset: i64) -> Result<i64, ErrorCode> {
    if topic.internal {
        return Err(ErrorCode::InvalidTopic);
    }
    if !topic.config.cleanup_policy.delete {
        return Err(ErrorCode::PolicyViolation);
    }
    let end = partition.log().end_offset();
    match offset {
        ALL_THERE_IS => Ok(end),
        offset if offset < 0 || offset > end => Err(ErrorCode::OffsetOutOfRange),
        offset => Ok(offset),
    }
}
