//! Records to produce, and requests that carry or fetch them.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use batch::{BatchBuilder, Codec, NewRecord};
use bytes::Bytes;
use coordination::error_code::ErrorCode;
use wire::Records;
use wire::api::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use wire::api::produce::{PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData};

use crate::dialogue::{Dialogue, accepted};

/// The last versions that name topics; the next have their ids.
pub(crate) const PRODUCE_BY_NAME: i16 = 12;
pub(crate) const FETCH_BY_NAME: i16 = 12;

/// How long a new partition may take until it can be written to.
const OPEN_WITHIN: Duration = Duration::from_secs(10);

/// A batch of `records` records with values of `bytes` bytes, which a codec can make about half as large. They are of now:
/// older ones would go by retention in the middle of a run.
pub(crate) fn batch(records: usize, bytes: usize, codec: Codec) -> Result<Bytes> {
    let mut builder = BatchBuilder::new(0).codec(codec);
    let mut noise = Noise(0x4b6f_686f_7274);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let timestamp = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    for _ in 0..records {
        let value: Vec<u8> = (0..bytes).map(|_| noise.digit()).collect();
        builder
            .push(&NewRecord { timestamp, key: None, value: Some(&value), headers: &[] })
            .context("make a batch")?;
    }
    builder.finish().context("make a batch")
}

/// Hexadecimal digits in no order, the same in every run.
struct Noise(u64);

impl Noise {
    fn digit(&mut self) -> u8 {
        // Xorshift; all that is asked of it is that codecs find no pattern.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        b"0123456789abcdef"[usize::from(self.0.to_le_bytes()[3] & 15)]
    }
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

/// Fails unless the one batch of a request was appended.
pub(crate) fn judge_produced(response: &ProduceResponse) -> Result<()> {
    let partitions = || response.responses.iter().flat_map(|topic| &topic.partition_responses);
    partitions().try_for_each(|partition| accepted(partition.error_code, "Produce"))?;
    let count = partitions().count();
    ensure!(count == 1, "Produce to one partition was answered for {count}");
    Ok(())
}

/// What came of the one partition that was asked for; fails unless it could be read.
pub(crate) fn fetched(response: FetchResponse, partition: i32) -> Result<Bytes> {
    accepted(response.error_code, "Fetch")?;
    let mut partitions: Vec<_> = response.responses.into_iter().flat_map(|topic| topic.partitions).collect();
    partitions.iter().try_for_each(|found| accepted(found.error_code, "Fetch"))?;
    let found: Vec<i32> = partitions.iter().map(|found| found.partition_index).collect();
    ensure!(found == [partition], "Fetch of partition {partition} was answered for {found:?}");
    let records = partitions.pop().and_then(|found| found.records);
    Ok(records.map_or_else(Bytes::new, Records::into_bytes))
}

/// Appends the same batch several times.
pub(crate) fn append_times(
    dialogue: &mut Dialogue,
    topic: &str,
    partition: i32,
    batch: &Bytes,
    times: usize,
) -> Result<()> {
    if times == 0 {
        return Ok(());
    }
    append(dialogue, topic, partition, batch)?;
    let request = produce(topic, partition, -1, batch);
    dialogue.ask_repeatedly(&request, PRODUCE_BY_NAME, times - 1, judge_produced)
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

#[cfg(test)]
mod tests {
    use batch::BatchHeader;

    use super::*;

    #[test]
    fn records_are_too_young_to_go_by_retention() {
        let batch = batch(1, 1, Codec::None).expect("a batch");
        let header = BatchHeader::parse(&batch).expect("a header");
        let made = UNIX_EPOCH + Duration::from_millis(header.max_timestamp.unsigned_abs());
        let age = SystemTime::now().duration_since(made).expect("a time that has been");
        assert!(age < Duration::from_secs(3600), "{age:?}");
    }

    #[test]
    fn codecs_find_something_to_save_but_not_all() {
        let plain = batch(16, 1024, Codec::None).expect("a batch").len();
        for codec in [Codec::Gzip, Codec::Zstd] {
            let packed = batch(16, 1024, codec).expect("a batch").len();
            assert!(packed > plain / 4 && packed < plain * 3 / 4, "{codec:?}: {packed} of {plain}");
        }
    }
}
