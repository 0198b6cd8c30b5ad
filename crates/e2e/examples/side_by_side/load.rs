//! A connection on which requests are sent by hand: what prepares a run, and a reader that never reads.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use batch::{BatchBuilder, NewRecord};
use bytes::Bytes;
use wire::api::create_topics::{CreatableTopic, CreateTopicsRequest};
use wire::api::fetch::{FetchPartition, FetchRequest, FetchTopic};
use wire::api::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use wire::api::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::{Frame, RequestMessage};

/// Versions that both brokers know and that name topics by name.
const PRODUCE: i16 = 9;
const FETCH: i16 = 11;
const CREATE_TOPICS: i16 = 5;
const LIST_OFFSETS: i16 = 5;

/// What ListOffsets calls the end of a partition, and who asks when no replica does.
const LATEST: i64 = -1;
const CONSUMER: i32 = -1;

/// A connection on which requests are sent by hand.
pub(crate) struct Connection {
    stream: TcpStream,
}

impl Connection {
    pub(crate) fn open(bootstrap: &str) -> Result<Self> {
        let stream = TcpStream::connect(bootstrap).with_context(|| format!("connect to {bootstrap}"))?;
        stream.set_nodelay(true).context("set nodelay")?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).context("set a timeout")?;
        Ok(Self { stream })
    }

    pub(crate) fn create_topic(&mut self, name: &str, num_partitions: i32) -> Result<()> {
        let topic = CreatableTopic {
            name: name.to_owned(),
            num_partitions,
            replication_factor: 1,
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 30_000, validate_only: false };
        let answer = self.ask(&request, CREATE_TOPICS)?;
        let error = answer.topics.first().map_or(-1, |topic| topic.error_code);
        ensure!(error == 0, "creating {name} failed with error {error}");
        Ok(())
    }

    /// Produces one batch and waits for its answer.
    pub(crate) fn produce(&mut self, topic: &str, partition: i32, batch: &Bytes) -> Result<()> {
        self.send(&produce_frame(topic, partition, batch))?;
        let frame = self.receive()?;
        let (_, answer) =
            wire::decode_response::<ProduceRequest>(frame, PRODUCE).context("read an answer")?;
        for partition in answer.responses.iter().flat_map(|topic| &topic.partition_responses) {
            ensure!(partition.error_code == 0, "a produce failed with error {}", partition.error_code);
        }
        Ok(())
    }

    /// Produces one batch to a partition that may not be open yet, though its leader has a name already.
    pub(crate) fn produce_when_open(&mut self, topic: &str, partition: i32, batch: &Bytes) -> Result<()> {
        let begun = Instant::now();
        loop {
            match self.produce(topic, partition, batch) {
                Err(_) if begun.elapsed() < Duration::from_secs(10) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                outcome => return outcome,
            }
        }
    }

    /// Fails unless the log of a topic's only partition has so many records: none lost, none there twice.
    pub(crate) fn expect_records(&mut self, topic: &str, records: u64) -> Result<()> {
        let partition = ListOffsetsPartition { partition_index: 0, timestamp: LATEST, ..Default::default() };
        let request = ListOffsetsRequest {
            replica_id: CONSUMER,
            topics: vec![ListOffsetsTopic { name: topic.to_owned(), partitions: vec![partition] }],
            ..Default::default()
        };
        let answer = self.ask(&request, LIST_OFFSETS)?;
        let found = answer.topics.first().and_then(|topic| topic.partitions.first());
        let found = found.with_context(|| format!("find the end of {topic}"))?;
        ensure!(found.error_code == 0, "finding the end of {topic} failed with error {}", found.error_code);
        ensure!(
            u64::try_from(found.offset) == Ok(records),
            "{topic} ends at {} after {records} records were produced",
            found.offset
        );
        Ok(())
    }

    /// Sends a fetch and leaves its answer unread.
    pub(crate) fn fetch_without_reading(&mut self, topic: &str) -> Result<()> {
        let partition = FetchPartition { partition_max_bytes: 50 << 20, ..Default::default() };
        let request = FetchRequest {
            min_bytes: 1,
            max_bytes: 50 << 20,
            topics: vec![FetchTopic {
                topic: topic.to_owned(),
                partitions: vec![partition],
                ..Default::default()
            }],
            ..Default::default()
        };
        self.send(&wire::encode_request(&request, FETCH, 0, Some("bench")))
    }

    fn send(&mut self, frame: &Frame) -> Result<()> {
        frame.chunks().iter().try_for_each(|chunk| self.stream.write_all(chunk)).context("send a request")
    }

    fn ask<R: RequestMessage>(&mut self, request: &R, version: i16) -> Result<R::Response> {
        self.send(&wire::encode_request(request, version, 0, Some("bench")))?;
        let frame = self.receive()?;
        Ok(wire::decode_response::<R>(frame, version).context("read an answer")?.1)
    }

    fn receive(&mut self) -> Result<Bytes> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).context("read an answer's size")?;
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        self.stream.read_exact(&mut frame).context("read an answer")?;
        Ok(frame.into())
    }
}

/// A produce request for one batch.
fn produce_frame(topic: &str, partition: i32, batch: &Bytes) -> Frame {
    let request = ProduceRequest {
        transactional_id: None,
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData {
            name: topic.to_owned(),
            partition_data: vec![PartitionProduceData { index: partition, records: Some(batch.clone()) }],
            ..Default::default()
        }],
    };
    wire::encode_request(&request, PRODUCE, 0, Some("bench"))
}

/// A batch of `records` records of now, with values of `bytes` bytes.
pub(crate) fn batch(records: usize, bytes: usize) -> Result<Bytes> {
    let mut builder = BatchBuilder::new(0);
    let value = vec![b'x'; bytes];
    let timestamp = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    for _ in 0..records {
        builder.push(&NewRecord { timestamp, key: None, value: Some(&value), headers: &[] })?;
    }
    Ok(builder.finish()?)
}
