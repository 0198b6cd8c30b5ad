//! Frames to ops and replies to frames, for what clients ask most, in the versions that Java's client 4.x speaks.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use batch::{BatchBuilder, NewRecord};
use bytes::{Bytes, BytesMut};
use coordination::op::{Op, TopicRef};
use coordination::reply::{self, Appended, Reply};
use wire::api::{fetch, heartbeat, offset_commit, produce};
use wire::{Addresses, Body, Head, RequestMessage, Uuid, decode_request, encode_reply_onto, encode_request};

use crate::measure::measure;

/// Requests that are handled one behind the other, as a client that pipelines sends them.
const AT_ONCE: usize = 256;

/// Partitions in one commit or fetch.
const PARTITIONS: i32 = 10;

const TOPIC_ID: Uuid = Uuid(0x0194_0000_0000_7000_8000_0000_0000_0007);

pub(crate) fn decode_heartbeat() -> Result<usize> {
    decode(&heartbeat_request(), 4)
}

pub(crate) fn encode_heartbeat() -> Result<usize> {
    encode(&heartbeat_request(), 4, |_| Reply::Heartbeat(reply::Heartbeat { error: None }))
}

pub(crate) fn decode_offset_commit() -> Result<usize> {
    decode(&commit_request(), 9)
}

pub(crate) fn encode_offset_commit() -> Result<usize> {
    encode(&commit_request(), 9, |topic| {
        let partitions = (0..PARTITIONS).map(|index| (index, None)).collect();
        Reply::OffsetCommit(reply::OffsetCommit {
            topics: vec![reply::OffsetCommitTopic { topic, partitions }],
        })
    })
}

pub(crate) fn decode_produce() -> Result<usize> {
    decode(&produce_request()?, 13)
}

pub(crate) fn encode_produce() -> Result<usize> {
    encode(&produce_request()?, 13, |topic| {
        let appended = Appended { base_offset: 123_456, log_append_time_ms: -1, log_start_offset: 0 };
        let partitions = vec![reply::ProducePartition { index: 0, result: Ok(appended) }];
        Reply::Produce(reply::Produce {
            topics: vec![reply::ProduceTopic { topic, partitions }],
            throttle: Duration::ZERO,
        })
    })
}

pub(crate) fn decode_fetch() -> Result<usize> {
    decode(&fetch_request(), 17)
}

pub(crate) fn encode_fetch() -> Result<usize> {
    let records = records()?;
    encode(&fetch_request(), 17, |topic| {
        let partition = |index| reply::FetchPartition {
            index,
            error: None,
            high_watermark: 123_456,
            last_stable_offset: 123_456,
            log_start_offset: 0,
            diverging_epoch: None,
            current_leader_epoch: None,
            records: vec![records.clone()],
            origin: reply::Origin::default(),
        };
        let partitions = (0..PARTITIONS).map(partition).collect();
        let topics = vec![reply::FetchTopic { topic, id: None, partitions }];
        Reply::Fetch(reply::Fetch { error: None, session_id: 7, topics, throttle: Duration::ZERO })
    })
}

fn decode<R: RequestMessage>(request: &R, version: i16) -> Result<usize> {
    let frame = frame(request, version);
    decode_request(frame.clone()).context("decode the request")?;
    Ok(measure(
        || vec![frame.clone(); AT_ONCE],
        |frame| {
            let _ = black_box(decode_request(frame));
        },
    ))
}

fn encode<R: RequestMessage>(request: &R, version: i16, reply: impl Fn(TopicRef) -> Reply) -> Result<usize> {
    let decoded = decode_request(frame(request, version)).context("decode the request")?;
    let Body::Op(op) = decoded.body else { bail!("the request is for the broker") };
    let (head, topic): (Head, TopicRef) = (decoded.head, topic_of(op));
    let addresses = Addresses::alone(1, "localhost", 9092);
    let mut output = BytesMut::new();
    let rounds = measure(
        || vec![(0..AT_ONCE).map(|_| reply(topic.clone())).collect::<Vec<_>>()],
        |replies| {
            output.clear();
            for reply in replies {
                black_box(encode_reply_onto(&mut output, &head, reply, &addresses));
            }
        },
    );
    Ok(rounds * AT_ONCE)
}

fn frame<R: RequestMessage>(request: &R, version: i16) -> Bytes {
    encode_request(request, version, 7, Some("consumer-orders-1")).into_content()
}

/// The topic that the answer is about, as the client named it.
fn topic_of(op: Op) -> TopicRef {
    let topic = match op {
        Op::OffsetCommit(op) => op.topics.into_iter().next().map(|topic| topic.topic),
        Op::Produce(op) => op.topics.into_iter().next().map(|topic| topic.topic),
        Op::Fetch(op) => op.topics.into_iter().next().map(|topic| topic.topic),
        _ => None,
    };
    topic.unwrap_or_else(|| TopicRef::Name(String::new()))
}

fn heartbeat_request() -> heartbeat::HeartbeatRequest {
    heartbeat::HeartbeatRequest {
        group_id: "orders-consumers".to_owned(),
        generation_id: 17,
        member_id: "consumer-orders-1-0bb0a2c4-5d0a-4f6e-8c1e-3d9e4e4d3c11".to_owned(),
        group_instance_id: None,
    }
}

fn commit_request() -> offset_commit::OffsetCommitRequest {
    let partition = |partition_index| offset_commit::OffsetCommitRequestPartition {
        partition_index,
        committed_offset: 123_456,
        committed_leader_epoch: 0,
        committed_metadata: Some(String::new()),
    };
    offset_commit::OffsetCommitRequest {
        group_id: "orders-consumers".to_owned(),
        generation_id_or_member_epoch: 17,
        member_id: "consumer-orders-1-0bb0a2c4-5d0a-4f6e-8c1e-3d9e4e4d3c11".to_owned(),
        topics: vec![offset_commit::OffsetCommitRequestTopic {
            name: "orders".to_owned(),
            partitions: (0..PARTITIONS).map(partition).collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn produce_request() -> Result<produce::ProduceRequest> {
    let records = Some(records()?);
    Ok(produce::ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![produce::TopicProduceData {
            topic_id: TOPIC_ID,
            partition_data: vec![produce::PartitionProduceData { index: 0, records }],
            ..Default::default()
        }],
        ..Default::default()
    })
}

fn fetch_request() -> fetch::FetchRequest {
    let partition = |partition| fetch::FetchPartition {
        partition,
        current_leader_epoch: 0,
        fetch_offset: 123_456,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    fetch::FetchRequest {
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 50 << 20,
        session_id: 7,
        session_epoch: 3,
        topics: vec![fetch::FetchTopic {
            topic_id: TOPIC_ID,
            partitions: (0..PARTITIONS).map(partition).collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A batch of ten records of a hundred bytes.
fn records() -> Result<Bytes> {
    let mut builder = BatchBuilder::new(0);
    for _ in 0..10 {
        let value = [b'v'; 100];
        builder.push(&NewRecord { timestamp: 1, key: None, value: Some(&value), headers: &[] })?;
    }
    Ok(builder.finish()?)
}
