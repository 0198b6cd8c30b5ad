//! One message: an op, a reply, or a word between the two ends.

use bytes::Bytes;
use coordination::op::Op;
use coordination::reply::Reply;

use super::codes::{
    code_of, code_of_reply, decode_op, decode_reply, encode_op, encode_reply, name_of, since,
};
use super::control::{Announced, Hello, Welcome};
use super::kept_records::{KeptRecords, SentRecords};
use super::put::{put, put_number, take, take_bounded, take_number};
use super::records::all_read;
use super::together::{self, Memory, Run, Said};
use super::{FormatError, Version};
use crate::carrier::TraceContext;
use crate::limits::{CARRIERS, IN_FLIGHT, KEPT_IN_PLACE};
use crate::roster::Roster;

/// What stands before an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What the reply will be called by. It is in use until the reply, or word that there will be none, has come.
    pub id: u32,
    /// The client, by the place that it was announced with on the lane.
    pub carrier: u32,
    /// The span that the op belongs to.
    pub trace: Option<TraceContext>,
}

/// What a gateway says.
#[derive(Clone, Debug, PartialEq)]
pub enum FromGateway {
    /// An op.
    Request(Head, Op),
    /// From now on a carrier means this client.
    Announce(u32, Announced),
    /// The client has gone.
    Leave(u32),
    /// A heartbeat with this id, the same as this client's last one on the lane.
    Again(u32, u32),
    /// Heartbeats and commits with this id, of this client.
    Together(u32, u32, Vec<Said>),
    /// Nobody waits for this reply any more.
    Cancel(u32),
    /// The first word on the first stream.
    Hello(Hello),
    /// The first word on each other stream.
    Lane(LaneClass),
    /// The same on a lane for fetches, of a gateway that keeps this many bytes of the records that come over it.
    KeepingLane(u64),
}

/// What the broker says.
#[derive(Clone, Debug, PartialEq)]
pub enum FromBroker {
    /// The reply to a request.
    Reply(u32, Reply),
    /// The replies to what was asked together, in its order.
    Together(u32, Vec<Run>),
    /// The request was cancelled, and its id is free.
    Gone(u32),
    /// The first word on the first stream.
    Welcome(Welcome),
    /// A gateway has come or gone.
    Roster(Roster),
}

/// What a lane is for. Ops of different classes do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LaneClass {
    /// Small ops that somebody waits for: groups, metadata, offsets.
    Light = 0,
    /// Records on their way in.
    Produce = 1,
    /// Records on their way out.
    Fetch = 2,
    /// What is seldom, and may be large.
    Bulk = 3,
}

impl LaneClass {
    const ALL: [Self; 4] = [Self::Light, Self::Produce, Self::Fetch, Self::Bulk];

    /// Which stream goes first when the link is full.
    pub(crate) const fn priority(self) -> i32 {
        match self {
            Self::Light => 1,
            Self::Produce | Self::Fetch | Self::Bulk => 0,
        }
    }
}

const ANNOUNCE: u8 = 0xF0;
const LEAVE: u8 = 0xF1;
const CANCEL: u8 = 0xF2;
const HELLO: u8 = 0xF3;
const LANE: u8 = 0xF4;
const GONE: u8 = 0xF5;
const WELCOME: u8 = 0xF6;
const ROSTER: u8 = 0xF7;
const AGAIN: u8 = 0xF8;
const TOGETHER: u8 = 0xF9;

/// The last code that an op may get.
const LAST_OP: u8 = 0xEF;

/// Appends an op. Its records go to `records`.
///
/// # Errors
/// When it has no form that can be sent.
pub fn request(
    head: Head,
    op: &mut Op,
    out: &mut Vec<u8>,
    records: &mut Vec<Bytes>,
) -> Result<(), FormatError> {
    out.push(code_of(op));
    put_number(u64::from(head.id), out);
    put_number(u64::from(head.carrier), out);
    put_trace(head.trace, out);
    encode_op(op, out, records)
}

/// Appends a reply. Its records go to `records`, but for those that `sent` knows.
///
/// # Errors
/// When it has no form that can be sent. The lane has to end then, since `sent` may be ahead of what the gateway gets.
pub fn reply(
    version: Version,
    id: u32,
    reply: &mut Reply,
    sent: &mut SentRecords,
    out: &mut Vec<u8>,
    records: &mut Vec<Bytes>,
) -> Result<(), FormatError> {
    out.push(code_of_reply(reply));
    put_number(u64::from(id), out);
    encode_reply(version, reply, sent, out, records)
}

/// Appends the announcement of a client.
///
/// # Errors
/// When it has no form that can be sent.
pub fn announce(carrier: u32, announced: &Announced, out: &mut Vec<u8>) -> Result<(), FormatError> {
    out.push(ANNOUNCE);
    put_number(u64::from(carrier), out);
    put("Announce", announced, out)
}

/// Appends the heartbeat that the client has sent before, from version 3 on.
pub fn again(id: u32, carrier: u32, out: &mut Vec<u8>) {
    out.push(AGAIN);
    put_number(u64::from(id), out);
    put_number(u64::from(carrier), out);
}

/// Appends heartbeats and commits that a client has sent together, from version 5 on. `memory` is what is remembered of
/// the client, and `scratch` any buffer.
///
/// # Errors
/// When one of them has no form that can be sent. All has to be forgotten then, since `memory` is ahead of the broker's.
pub fn together(
    id: u32,
    carrier: u32,
    ops: &[Op],
    memory: &mut Memory,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    begin_together(id, out);
    put_number(u64::from(carrier), out);
    together::put_ops(ops, memory, scratch, out)
}

/// Appends the replies to ops that were sent together.
///
/// # Errors
/// When one of them has no form that can be sent.
pub fn replies(id: u32, runs: &[Run], out: &mut Vec<u8>) -> Result<(), FormatError> {
    begin_together(id, out);
    together::put_replies(runs, out)
}

fn begin_together(id: u32, out: &mut Vec<u8>) {
    out.push(TOGETHER);
    put_number(u64::from(id), out);
}

/// Appends that a client has gone.
pub fn leave(carrier: u32, out: &mut Vec<u8>) {
    out.push(LEAVE);
    put_number(u64::from(carrier), out);
}

/// Appends that nobody waits for a reply any more.
pub fn cancel(id: u32, out: &mut Vec<u8>) {
    out.push(CANCEL);
    put_number(u64::from(id), out);
}

/// Appends that there will be no reply.
pub fn gone(id: u32, out: &mut Vec<u8>) {
    out.push(GONE);
    put_number(u64::from(id), out);
}

/// Appends how a gateway introduces itself.
///
/// # Errors
/// When it has no form that can be sent.
pub fn greet(hello: &Hello, out: &mut Vec<u8>) -> Result<(), FormatError> {
    out.push(HELLO);
    put("Hello", hello, out)
}

/// Appends what a stream is for and, from version 3 on, how many bytes are kept of the records that come over it, which
/// may be some for fetches only.
pub fn lane(version: Version, class: LaneClass, keeps: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&[LANE, class as u8]);
    if version >= Version::Three {
        put_number(keeps, out);
    }
}

/// Appends what a gateway is told that is let in.
///
/// # Errors
/// When it has no form that can be sent.
pub fn welcome(welcome: &Welcome, out: &mut Vec<u8>) -> Result<(), FormatError> {
    out.push(WELCOME);
    put("Welcome", welcome, out)
}

/// Appends the gateways there are.
///
/// # Errors
/// When it has no form that can be sent.
pub fn roster(roster: &Roster, out: &mut Vec<u8>) -> Result<(), FormatError> {
    out.push(ROSTER);
    put("Roster", roster, out)
}

/// Reads what a gateway says.
///
/// # Errors
/// When it is nothing that can be said in this version.
pub fn decode_from_gateway(version: Version, message: &Bytes) -> Result<FromGateway, FormatError> {
    let (code, mut rest) = split_code(message)?;
    let name = name_of(code);
    match code {
        0..=LAST_OP => {
            let id = take_id(name, &mut rest)?;
            let carrier = take_carrier(name, &mut rest)?;
            let trace = take_trace(name, &mut rest)?;
            let head = message.len() - rest.len();
            let keep =
                (name == "Produce" && message.len() < KEPT_IN_PLACE).then(|| Bytes::copy_from_slice(message));
            let op = decode_op(code, keep.as_ref().unwrap_or(message), head)?;
            if version < since(&op) {
                return Err(FormatError::Code(code));
            }
            Ok(FromGateway::Request(Head { id, carrier, trace }, op))
        }
        ANNOUNCE => {
            let carrier = take_carrier("Announce", &mut rest)?;
            let announced = take("Announce", &mut rest)?;
            finish("Announce", rest, FromGateway::Announce(carrier, announced))
        }
        LEAVE => {
            let carrier = take_carrier("Leave", &mut rest)?;
            finish("Leave", rest, FromGateway::Leave(carrier))
        }
        AGAIN if version >= Version::Three => {
            let id = take_id("Again", &mut rest)?;
            let carrier = take_carrier("Again", &mut rest)?;
            finish("Again", rest, FromGateway::Again(id, carrier))
        }
        TOGETHER if version >= Version::Five => {
            let id = take_id("Together", &mut rest)?;
            let carrier = take_carrier("Together", &mut rest)?;
            Ok(FromGateway::Together(id, carrier, together::take_ops(message, rest)?))
        }
        CANCEL => {
            let id = take_id("Cancel", &mut rest)?;
            finish("Cancel", rest, FromGateway::Cancel(id))
        }
        HELLO => {
            let hello = take("Hello", &mut rest)?;
            finish("Hello", rest, FromGateway::Hello(hello))
        }
        LANE => {
            let number = take_bounded("Lane", usize::from(u8::MAX), &mut rest)?;
            let class = LaneClass::ALL.into_iter().find(|&class| u32::from(class as u8) == number);
            let class = class.ok_or(FormatError::Bound("the class of a lane", u64::from(number)))?;
            let keeps = if version >= Version::Three { take_number("Lane", &mut rest)? } else { 0 };
            let opened = match (class, keeps) {
                (class, 0) => FromGateway::Lane(class),
                (LaneClass::Fetch, keeps) => FromGateway::KeepingLane(keeps),
                _ => return Err(FormatError::Bound("the size of kept records", keeps)),
            };
            finish("Lane", rest, opened)
        }
        _ => Err(FormatError::Code(code)),
    }
}

/// Reads what the broker says. `kept` is what came before over the same lane.
///
/// # Errors
/// When it is nothing that can be said in this version. The lane has to end then, since `kept` may be out of step.
pub fn decode_from_broker(
    version: Version,
    message: &Bytes,
    kept: &mut KeptRecords,
) -> Result<FromBroker, FormatError> {
    let (code, mut rest) = split_code(message)?;
    match code {
        0..=LAST_OP => {
            let id = take_id(name_of(code), &mut rest)?;
            let reply = decode_reply(version, code, message, message.len() - rest.len(), kept)?;
            Ok(FromBroker::Reply(id, reply))
        }
        TOGETHER if version >= Version::Five => {
            let id = take_id("Together", &mut rest)?;
            Ok(FromBroker::Together(id, together::take_replies(rest)?))
        }
        GONE => {
            let id = take_id("Gone", &mut rest)?;
            finish("Gone", rest, FromBroker::Gone(id))
        }
        WELCOME => {
            let welcome = take("Welcome", &mut rest)?;
            finish("Welcome", rest, FromBroker::Welcome(welcome))
        }
        ROSTER => {
            let roster = take("Roster", &mut rest)?;
            finish("Roster", rest, FromBroker::Roster(roster))
        }
        _ => Err(FormatError::Code(code)),
    }
}

fn split_code(message: &Bytes) -> Result<(u8, &[u8]), FormatError> {
    message.split_first().map(|(&code, rest)| (code, rest)).ok_or(FormatError::FrameSize(0))
}

fn finish<T>(name: &'static str, rest: &[u8], message: T) -> Result<T, FormatError> {
    all_read(name, rest).map(|()| message)
}

fn take_id(name: &'static str, bytes: &mut &[u8]) -> Result<u32, FormatError> {
    take_bounded(name, IN_FLIGHT, bytes)
}

fn take_carrier(name: &'static str, bytes: &mut &[u8]) -> Result<u32, FormatError> {
    take_bounded(name, CARRIERS, bytes)
}

/// 0 for no span, 1 for one that is not recorded, 2 for one that is; then 16 and 8 bytes, the most significant first.
fn put_trace(trace: Option<TraceContext>, out: &mut Vec<u8>) {
    let Some(TraceContext { trace_id, span_id, is_sampled }) = trace else { return out.push(0) };
    out.push(1 + u8::from(is_sampled));
    out.extend_from_slice(&trace_id.to_be_bytes());
    out.extend_from_slice(&span_id.to_be_bytes());
}

fn take_trace(name: &'static str, bytes: &mut &[u8]) -> Result<Option<TraceContext>, FormatError> {
    let (&kind, rest) = bytes.split_first().ok_or(FormatError::Short(name))?;
    *bytes = rest;
    if kind == 0 {
        return Ok(None);
    }
    if kind > 2 {
        return Err(FormatError::Bound("the kind of a trace context", u64::from(kind)));
    }
    let (trace_id, rest) = rest.split_first_chunk::<16>().ok_or(FormatError::Short(name))?;
    let (span_id, rest) = rest.split_first_chunk::<8>().ok_or(FormatError::Short(name))?;
    *bytes = rest;
    Ok(Some(TraceContext {
        trace_id: u128::from_be_bytes(*trace_id),
        span_id: u64::from_be_bytes(*span_id),
        is_sampled: kind == 2,
    }))
}
