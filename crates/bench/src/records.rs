//! Records to produce, and requests that carry or fetch them.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use batch::{BatchBuilder, Codec, NewRecord};
use bytes::Bytes;
use coordination::error_code::ErrorCode;
use wire::api::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use wire::api::produce::{PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData};

use crate::dialogue::{Dialogue, accepted};

/// The last versions that name topics; the next have their ids.
pub(crate) const PRODUCE_BY_NAME: i16 = 12;
pub(crate) const FETCH_BY_NAME: i16 = 12;

/// How long a new partition may take until it can be written to.
const OPEN_WITHIN: Duration = Duration::from_secs(10);

/// A batch of `records` records with values of `bytes` bytes.
pub(crate) fn batch(records: usize, bytes: usize, codec: Codec) -> Result<Bytes> {
    let mut builder = BatchBuilder::new(0).codec(codec);
    let value = vec![b'x'; bytes];
    for _ in 0..records {
        builder
            .push(&NewRecord { timestamp: 1, key: None, value: Some(&value), headers: &[] })
            .context("make a batch")?;
    }
    builder.finish().context("make a batch")
}

/// A request to append one batch.
pub(crate) fn produce(topic: &str, partition: i32, acks: i16, batch: &Bytes) -> ProduceRequest {
    ProduceRequest {
        transactional_id: None,
        acks,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData {
            name: topic.to_owned(),
            partition_data: vec![PartitionProduceData { index: partition, records: Some(batch.clone()) }],
            ..Default::default()
        }],
    }
}

/// A request to read from one partition, with a consumer's defaults.
pub(crate) fn fetch(topic: &str, partition: i32, offset: i64, max_bytes: i32) -> FetchRequest {
    FetchRequest {
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 50 << 20,
        topics: vec![FetchTopic {
            topic: topic.to_owned(),
            partitions: vec![FetchPartition {
                partition,
                fetch_offset: offset,
                partition_max_bytes: max_bytes,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Fails unless every batch was appended.
pub(crate) fn judge_produced(response: &ProduceResponse) -> Result<()> {
    let mut partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    partitions.try_for_each(|partition| accepted(partition.error_code, "Produce"))
}

/// Fails unless every partition could be read.
pub(crate) fn judge_fetched(response: &FetchResponse) -> Result<()> {
    accepted(response.error_code, "Fetch")?;
    let mut partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    partitions.try_for_each(|partition| accepted(partition.error_code, "Fetch"))
}

/// Appends one batch and waits for its answer. A new partition may not be open yet, though a Kafka has named its
/// leader already.
pub(crate) fn append(dialogue: &mut Dialogue, topic: &str, partition: i32, batch: &Bytes) -> Result<()> {
    let begun = Instant::now();
    loop {
        let answer = dialogue.ask(&produce(topic, partition, -1, batch), PRODUCE_BY_NAME)?;
        let code = answer.responses.first().and_then(|topic| topic.partition_responses.first());
        let code = code.map_or(0, |partition| partition.error_code);
        let opening = [ErrorCode::NotLeaderOrFollower, ErrorCode::UnknownTopicOrPartition];
        if begun.elapsed() > OPEN_WITHIN || !opening.iter().any(|opening| opening.number() == code) {
            return judge_produced(&answer);
        }
        thread::sleep(Duration::from_millis(5));
    }
}
