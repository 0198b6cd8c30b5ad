//! Ops through the broker, and what they write through the log into a file and its sync.
//!
//! What the kernel does in a write or a sync is not counted, only what we do around it.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use batch::{BatchBuilder, NewRecord, ProducerFields};
use bytes::Bytes;
use coordination::op::{self, Op, TopicRef};
use coordination::reply::Reply;
use rail::Answer;

use crate::measure::measure;
use crate::stage::{Member, PARTITIONS, Stage, TOPIC, poll};

const GROUPS: usize = 16;

/// Commits that come while the disk is busy with those before them.
const TOGETHER: usize = 64;

/// Records in a batch that is produced or fetched.
const RECORDS: i32 = 10;

/// Sixteen members in each of sixteen groups beat once.
pub(crate) fn heartbeat() -> Result<usize> {
    let stage = Stage::new()?;
    let members = stage.groups(GROUPS, 16)?;
    Ok(measure(
        || members.iter().map(beat).collect(),
        |op| match stage.call(op) {
            Answer::Now(Reply::Heartbeat(reply)) if reply.error.is_none() => {}
            _ => panic!("a member may stay"),
        },
    ))
}

/// Members commit one partition each, one after the other; each waits for the disk alone.
pub(crate) fn commit() -> Result<usize> {
    commits_alone(1)
}

/// The same with ten partitions in a commit.
pub(crate) fn commit_of_ten() -> Result<usize> {
    commits_alone(10)
}

fn commits_alone(partitions: i32) -> Result<usize> {
    let stage = Stage::new()?;
    let members = stage.groups(GROUPS, 4)?;
    Ok(measure(
        || members.iter().map(|member| commit_op(member, partitions)).collect(),
        |op| {
            let mut answer = stage.call(op);
            assert!(poll(&mut answer).is_none(), "nothing is durable yet");
            stage.write();
            check_committed(poll(&mut answer));
        },
    ))
}

/// As many commits of one partition as there are members are handed over before the disk is ready for any of them.
pub(crate) fn commits_together() -> Result<usize> {
    let stage = Stage::new()?;
    let members = stage.groups(GROUPS, TOGETHER / GROUPS)?;
    ensure!(members.len() == TOGETHER, "as many members as commits");
    let rounds = 8;
    let times = measure(
        || {
            let round = || members.iter().map(|member| commit_op(member, 1)).collect::<Vec<_>>();
            (0..rounds).map(|_| round()).collect()
        },
        |ops| {
            let mut answers: Vec<_> = ops.into_iter().map(|op| stage.call(op)).collect();
            for answer in &mut answers {
                assert!(poll(answer).is_none(), "nothing is durable yet");
            }
            stage.write();
            for mut answer in answers {
                check_committed(poll(&mut answer));
            }
        },
    );
    Ok(times * TOGETHER)
}

/// Batches of an idempotent producer, one after the other, over all partitions; each waits for the disk alone.
pub(crate) fn produce() -> Result<usize> {
    let stage = Stage::new()?;
    let mut sequence = 0;
    Ok(measure(
        || {
            let mut ops = Vec::new();
            for _ in 0..8 {
                ops.extend((0..PARTITIONS).map(|partition| produce_op(partition, sequence)));
                sequence += RECORDS;
            }
            ops
        },
        |op| {
            let mut answer = stage.call(op);
            assert!(poll(&mut answer).is_none(), "nothing is durable yet");
            stage.write();
            check_produced(poll(&mut answer));
        },
    ))
}

/// One fetch of all partitions, each of which has a batch in memory.
pub(crate) fn fetch() -> Result<usize> {
    let stage = Stage::new()?;
    for partition in 0..PARTITIONS {
        let mut answer = stage.call(produce_op(partition, 0));
        stage.write();
        check_produced(poll(&mut answer));
    }
    let found = match stage.call(fetch_op()) {
        Answer::Now(Reply::Fetch(reply)) => reply.topics.into_iter().next().context("the topic is there")?,
        _ => anyhow::bail!("a fetch from memory is answered at once"),
    };
    ensure!(found.partitions.iter().all(|part| !part.records.is_empty()), "every partition has records");
    Ok(measure(
        || (0..64).map(|_| fetch_op()).collect(),
        |op| match stage.call(op) {
            Answer::Now(reply) => drop(black_box(reply)),
            Answer::Gated(_) | Answer::Later(_) | Answer::Owed(_) | Answer::Sent(_) => {
                panic!("a fetch from memory is answered at once")
            }
        },
    ))
}

fn check_committed(reply: Option<Reply>) {
    let Some(Reply::OffsetCommit(reply)) = reply else { panic!("a commit is durable") };
    let mut outcomes = reply.topics.iter().flat_map(|topic| &topic.partitions);
    assert!(outcomes.all(|(_, error)| error.is_none()), "nothing is refused");
}

fn check_produced(reply: Option<Reply>) {
    let Some(Reply::Produce(reply)) = reply else { panic!("a batch is durable") };
    let mut outcomes = reply.topics.iter().flat_map(|topic| &topic.partitions);
    assert!(outcomes.all(|part| part.result.is_ok()), "nothing is refused");
}

fn beat(member: &Member) -> Op {
    Op::Heartbeat(Arc::new(op::Heartbeat {
        group: member.group.clone(),
        generation: member.generation,
        member_id: member.member_id.clone(),
        instance_id: None,
    }))
}

fn commit_op(member: &Member, partitions: i32) -> Op {
    let partition = |index| op::OffsetCommitPartition {
        index,
        offset: 123_456,
        leader_epoch: 0,
        metadata: Some(String::new()),
    };
    Op::OffsetCommit(op::OffsetCommit {
        group: member.group.clone(),
        generation: member.generation,
        member_id: member.member_id.clone(),
        instance_id: None,
        retention_ms: None,
        knows_missing_groups: true,
        topics: vec![op::OffsetCommitTopic {
            topic: TopicRef::Name(TOPIC.to_owned()),
            partitions: (0..partitions).map(partition).collect(),
        }],
    })
}

fn produce_op(index: i32, base_sequence: i32) -> Op {
    let records = Some(batch(base_sequence));
    Op::Produce(op::Produce {
        transactional_id: None,
        acks: -1,
        zstd: true,
        topics: vec![op::ProduceTopic {
            topic: TopicRef::Name(TOPIC.to_owned()),
            partitions: vec![op::ProducePartition { index, records }],
        }],
    })
}

fn batch(base_sequence: i32) -> Bytes {
    let producer = ProducerFields { id: 1, epoch: 0, base_sequence };
    let mut builder = BatchBuilder::new(0).producer(producer);
    for _ in 0..RECORDS {
        let value = [b'v'; 100];
        let record = NewRecord { timestamp: 1_700_000_000_000, key: None, value: Some(&value), headers: &[] };
        builder.push(&record).expect("a small batch has room");
    }
    builder.finish().expect("a small batch can be closed")
}

fn fetch_op() -> Op {
    let partition = |index| op::FetchPartition {
        index,
        current_leader_epoch: None,
        fetch_offset: 0,
        last_fetched_epoch: None,
        max_bytes: 1 << 20,
    };
    Op::Fetch(op::Fetch {
        max_wait: std::time::Duration::ZERO,
        min_bytes: 1,
        max_bytes: 50 << 20,
        read_committed: false,
        session_id: 0,
        session_epoch: -1,
        by_id: false,
        topics: vec![op::FetchTopic {
            topic: TopicRef::Name(TOPIC.to_owned()),
            partitions: (0..PARTITIONS).map(partition).collect(),
        }],
        forgotten: Vec::new(),
    })
}
