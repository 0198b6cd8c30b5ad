//! How long the hottest requests take from frame to op and from reply to frame.
//!
//! ```text
//! cargo run --release -p wire --example speed
//! ```

#![expect(clippy::disallowed_methods, reason = "a tool, not a part of the crate")]
#![expect(clippy::print_stdout, reason = "it talks to a person")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use coordination::op::Op;
use coordination::reply::{self, Reply};
use wire::api::{heartbeat, offset_commit};
use wire::{
    Addresses, Body, RequestMessage, decode_request, encode_reply, encode_reply_onto, encode_request,
};

/// Requests that lie one behind the other, as a client that pipelines sends them.
const AT_ONCE: usize = 64;

const ROUNDS: usize = 40_000;

fn main() {
    let heartbeat = heartbeat::HeartbeatRequest {
        group_id: "orders-consumers".to_owned(),
        generation_id: 17,
        member_id: "rdkafka-0bb0a2c4-5d0a-4f6e-8c1e-3d9e4e4d3c11".to_owned(),
        group_instance_id: None,
    };
    measure("Heartbeat v4", &heartbeat, 4);
    let partition = |partition_index| offset_commit::OffsetCommitRequestPartition {
        partition_index,
        committed_offset: 123_456,
        committed_leader_epoch: 0,
        committed_metadata: Some(String::new()),
    };
    let commit = |partitions| offset_commit::OffsetCommitRequest {
        group_id: "orders-consumers".to_owned(),
        generation_id_or_member_epoch: 17,
        member_id: "rdkafka-0bb0a2c4-5d0a-4f6e-8c1e-3d9e4e4d3c11".to_owned(),
        topics: vec![offset_commit::OffsetCommitRequestTopic {
            name: "orders".to_owned(),
            partitions: (0..partitions).map(partition).collect(),
            ..Default::default()
        }],
        ..Default::default()
    };
    measure("OffsetCommit v8, 1 partition", &commit(1), 8);
    measure("OffsetCommit v8, 10 partitions", &commit(10), 8);
}

fn measure<R: RequestMessage>(name: &str, request: &R, version: i16) {
    let addresses = Addresses::alone(1, "localhost", 9092);
    let frame = encode_request(request, version, 7, Some("rdkafka")).into_bytes();
    let read: Vec<u8> = frame.repeat(AT_ONCE);
    let mut buffer = BytesMut::new();
    let mut output = BytesMut::new();
    let [mut decoding, mut encoding, mut appending] = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        buffer.reserve(read.len());
        buffer.extend_from_slice(&read);
        let started = Instant::now();
        let mut requests: Vec<_> = Vec::with_capacity(AT_ONCE);
        while let Some(frame) = next(&mut buffer) {
            let request = decode_request(frame).expect("a frame of ours");
            assert!(black_box(request.client_id.is(Some("rdkafka"))));
            let Body::Op(op) = request.body else { panic!("it is for the broker") };
            requests.push((request.head, reply_to(black_box(&op))));
        }
        decoding.push(started.elapsed());
        let started = Instant::now();
        for (head, reply) in &requests {
            black_box(encode_reply(head, reply.clone(), &addresses));
        }
        encoding.push(started.elapsed());
        let started = Instant::now();
        output.clear();
        for (head, reply) in requests {
            black_box(encode_reply_onto(&mut output, &head, reply, &addresses));
        }
        appending.push(started.elapsed());
    }
    println!(
        "{name}: {} ns to read, {} ns to answer with a frame, {} ns behind others",
        median_of_one(decoding),
        median_of_one(encoding),
        median_of_one(appending)
    );
}

/// What one request takes in the middle round; the mean would tell how busy the machine is.
fn median_of_one(mut rounds: Vec<Duration>) -> u128 {
    rounds.sort_unstable();
    rounds[rounds.len() / 2].as_nanos() / AT_ONCE as u128
}

fn next(buffer: &mut BytesMut) -> Option<Bytes> {
    let size = i32::from_be_bytes(*buffer.first_chunk()?);
    buffer.advance(4);
    Some(buffer.split_to(usize::try_from(size).ok()?).freeze())
}

fn reply_to(op: &Op) -> Reply {
    match op {
        Op::Heartbeat(_) => Reply::Heartbeat(reply::Heartbeat { error: None }),
        Op::OffsetCommit(commit) => {
            let topic = |topic: &coordination::op::OffsetCommitTopic| reply::OffsetCommitTopic {
                topic: topic.topic.clone(),
                partitions: topic.partitions.iter().map(|partition| (partition.index, None)).collect(),
            };
            Reply::OffsetCommit(reply::OffsetCommit { topics: commit.topics.iter().map(topic).collect() })
        }
        op => panic!("{op:?} is not measured"),
    }
}
