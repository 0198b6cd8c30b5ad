//! Plain produce and fetch, for tests and tools.

use std::time::Duration;

use bytes::Bytes;
use wire::api::fetch::{FetchPartition, FetchRequest, FetchTopic};
use wire::api::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};

use crate::cluster::{Client, unknown_partition};
use crate::error::{ClientError, accepted};

/// The last versions of Produce and Fetch that name topics; later ones want ids.
const LAST_WITH_NAMES: i16 = 12;

/// Where records went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Produced {
    /// The offset of the first record.
    pub base_offset: i64,
    /// The time that the broker gave the records; -1 when they kept the producer's.
    pub log_append_time_ms: i64,
    /// The partition's first offset.
    pub log_start_offset: i64,
}

/// Records as they came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The end of what may be read.
    pub high_watermark: i64,
    /// The partition's first offset.
    pub log_start_offset: i64,
    /// Record batches one after the other; the last one may be cut.
    pub records: Bytes,
}

impl Client {
    /// Appends record batches (as crate `batch` builds them) and waits until they are stored.
    pub async fn produce(
        &mut self,
        topic: &str,
        partition: i32,
        batches: Bytes,
    ) -> Result<Produced, ClientError> {
        let request = ProduceRequest {
            transactional_id: None,
            acks: -1,
            timeout_ms: self.timeout_ms(),
            topic_data: vec![TopicProduceData {
                name: topic.to_owned(),
                partition_data: vec![PartitionProduceData { index: partition, records: Some(batches) }],
                ..Default::default()
            }],
        };
        let response = self.leader(topic, partition).await?.call_up_to(&request, LAST_WITH_NAMES).await?;
        let result = response
            .responses
            .into_iter()
            .flat_map(|topic| topic.partition_responses)
            .next()
            .ok_or_else(unknown_partition)?;
        accepted(result.error_code, result.error_message)?;
        Ok(Produced {
            base_offset: result.base_offset,
            log_append_time_ms: result.log_append_time_ms,
            log_start_offset: result.log_start_offset,
        })
    }

    /// Reads record batches from `offset` on, waiting up to `max_wait` for the first.
    pub async fn fetch(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        max_wait: Duration,
    ) -> Result<Fetched, ClientError> {
        let request = FetchRequest {
            max_wait_ms: i32::try_from(max_wait.as_millis()).unwrap_or(i32::MAX),
            min_bytes: 1,
            max_bytes: FETCH_BYTES,
            topics: vec![FetchTopic {
                topic: topic.to_owned(),
                partitions: vec![FetchPartition {
                    partition,
                    fetch_offset: offset,
                    partition_max_bytes: FETCH_BYTES,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let response = self.leader(topic, partition).await?.call_up_to(&request, LAST_WITH_NAMES).await?;
        accepted(response.error_code, None)?;
        let result = response
            .responses
            .into_iter()
            .flat_map(|topic| topic.partitions)
            .next()
            .ok_or_else(unknown_partition)?;
        accepted(result.error_code, None)?;
        Ok(Fetched {
            high_watermark: result.high_watermark,
            log_start_offset: result.log_start_offset,
            records: result.records.map(|records| records.into_bytes()).unwrap_or_default(),
        })
    }
}

/// What one fetch may bring.
const FETCH_BYTES: i32 = 16 << 20;
