//! The one table of ops and their codes.

use bytes::Bytes;
use coordination::op::Op;
use coordination::reply::Reply;

use super::fetched::{put_records, take_records};
use super::kept_records::{KeptRecords, SentRecords};
use super::put::{put, put_number, take, take_number};
use super::records::{Records, all_read};
use super::{FormatError, Version};

/// The code of an op and of its reply, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpCode {
    /// The byte that stands first.
    pub code: u8,
    /// What Kafka calls it.
    pub name: &'static str,
}

macro_rules! table {
    ($($name:ident = $code:literal,)*) => {
        /// All ops, by code.
        pub const fn op_codes() -> &'static [OpCode] {
            &[$(OpCode { code: $code, name: stringify!($name) },)* OpCode { code: ENTER, name: "Enter" }]
        }

        /// The code of `op`.
        pub(super) const fn code_of(op: &Op) -> u8 {
            match op {
                $(Op::$name(_) => $code,)*
                Op::Enter => ENTER,
            }
        }

        /// The code of `reply`, which is that of its op.
        pub(super) const fn code_of_reply(reply: &Reply) -> u8 {
            match reply {
                $(Reply::$name(_) => $code,)*
                Reply::Enter(_) => ENTER,
            }
        }

        fn put_op(op: &Op, out: &mut Vec<u8>) -> Result<(), FormatError> {
            match op {
                $(Op::$name(body) => put(stringify!($name), body, out),)*
                Op::Enter => Ok(()),
            }
        }

        fn take_op(code: u8, bytes: &mut &[u8]) -> Result<Op, FormatError> {
            match code {
                $($code => take(stringify!($name), bytes).map(Op::$name),)*
                ENTER => Ok(Op::Enter),
                _ => Err(FormatError::Code(code)),
            }
        }

        pub(super) fn put_reply(reply: &Reply, out: &mut Vec<u8>) -> Result<(), FormatError> {
            match reply {
                $(Reply::$name(body) => put(stringify!($name), body, out),)*
                Reply::Enter(body) => put("Enter", body, out),
            }
        }

        pub(super) fn take_reply(code: u8, bytes: &mut &[u8]) -> Result<Reply, FormatError> {
            match code {
                $($code => take(stringify!($name), bytes).map(Reply::$name),)*
                ENTER => take("Enter", bytes).map(Reply::Enter),
                _ => Err(FormatError::Code(code)),
            }
        }
    };
}

/// The one op without a body.
const ENTER: u8 = 0x1C;

table! {
    Metadata = 0x01,
    Produce = 0x02,
    Fetch = 0x03,
    ListOffsets = 0x04,
    InitProducerId = 0x05,
    JoinGroup = 0x06,
    SyncGroup = 0x07,
    Heartbeat = 0x08,
    LeaveGroup = 0x09,
    OffsetCommit = 0x0A,
    OffsetFetch = 0x0B,
    OffsetForLeaderEpoch = 0x0C,
    CreateTopics = 0x0D,
    DeleteTopics = 0x0E,
    CreatePartitions = 0x0F,
    DeleteRecords = 0x10,
    DescribeConfigs = 0x11,
    AlterConfigs = 0x12,
    DescribeTopicPartitions = 0x13,
    DescribeLogDirs = 0x14,
    ListPartitionReassignments = 0x15,
    DescribeCluster = 0x16,
    OffsetDelete = 0x17,
    ListGroups = 0x18,
    DescribeGroups = 0x19,
    DeleteGroups = 0x1A,
    FindCoordinator = 0x1B,
    Credentials = 0x1D,
    CreateAcls = 0x1E,
    DescribeAcls = 0x1F,
    DeleteAcls = 0x20,
    DescribeUserScramCredentials = 0x21,
    AlterUserScramCredentials = 0x22,
    DescribeClientQuotas = 0x23,
}

/// The version since which there is this op.
pub const fn since(op: &Op) -> Version {
    match op {
        Op::DescribeClientQuotas(_) => Version::Four,
        _ => Version::Two,
    }
}

/// Appends `op` and the lengths of its records, which go to `records`.
pub(super) fn encode_op(op: &mut Op, out: &mut Vec<u8>, records: &mut Vec<Bytes>) -> Result<(), FormatError> {
    let Op::Produce(produce) = op else { return put_op(op, out) };
    let first = records.len();
    let mut lengths = Vec::new();
    for partition in produce.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        match partition.records.take() {
            // Null is told apart from nothing.
            None => put_number(0, &mut lengths),
            Some(batches) => {
                put_number(batches.len() as u64 + 1, &mut lengths);
                records.push(batches);
            }
        }
    }
    let written = put_op(op, out);
    out.extend_from_slice(&lengths);
    if written.is_err() {
        records.truncate(first);
    }
    written
}

/// Reads an op from all of `message`, of which `head` bytes have been read.
pub(super) fn decode_op(code: u8, message: &Bytes, head: usize) -> Result<Op, FormatError> {
    let mut rest = &message[head..];
    let mut op = take_op(code, &mut rest)?;
    let Op::Produce(produce) = &mut op else { return all_read(name_of(code), rest).map(|()| op) };
    let mut lengths = rest;
    let partitions = || 0..produce.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>();
    let mut ends = lengths;
    for _ in partitions() {
        take_number("Produce", &mut ends)?;
    }
    let mut records = Records::behind(message, ends);
    for partition in produce.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        partition.records = match take_number("Produce", &mut lengths)? {
            0 => None,
            length => Some(records.next("Produce", length - 1)?),
        };
    }
    records.end("Produce").map(|()| op)
}

/// Appends `reply` and what there is to tell of its records, which go to `records`.
pub(super) fn encode_reply(
    version: Version,
    reply: &mut Reply,
    sent: &mut SentRecords,
    out: &mut Vec<u8>,
    records: &mut Vec<Bytes>,
) -> Result<(), FormatError> {
    let Reply::Fetch(fetch) = reply else { return put_reply(reply, out) };
    let first = records.len();
    let mut lengths = Vec::new();
    let written =
        put_records(version, fetch, sent, &mut lengths, records).and_then(|()| put_reply(reply, out));
    out.extend_from_slice(&lengths);
    if written.is_err() {
        records.truncate(first);
    }
    written
}

/// Reads a reply from all of `message`, of which `head` bytes have been read.
pub(super) fn decode_reply(
    version: Version,
    code: u8,
    message: &Bytes,
    head: usize,
    kept: &mut KeptRecords,
) -> Result<Reply, FormatError> {
    let mut rest = &message[head..];
    let mut reply = take_reply(code, &mut rest)?;
    match &mut reply {
        Reply::Fetch(fetch) => take_records(version, fetch, kept, message, rest)?,
        _ => all_read(name_of(code), rest)?,
    }
    Ok(reply)
}

/// The name that goes with `code`.
pub(super) fn name_of(code: u8) -> &'static str {
    op_codes().iter().find(|op| op.code == code).map_or("of an unknown code", |op| op.name)
}
