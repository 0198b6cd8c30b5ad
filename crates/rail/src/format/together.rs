//! Heartbeats and commits that a client has sent together, in one message, and their replies in another.
//!
//! ```text
//! ops      0xF9  request id  carrier  number of ops  then one after the other:
//!            0x08  a heartbeat as postcard
//!            0x00  count                  the client's last heartbeat, this many times
//!            0x0A  length  a commit as postcard
//!            0x01  front  back  length  bytes     a commit like the client's last one, but for what is between
//! replies  0xF9  request id  number of ops  then one after the other:
//!            0x08 or 0x0A  a reply as postcard
//!            0x00  count                  the reply before it, this many times more
//! ```
//!
//! A client's heartbeats are all the same until the next rebalance, and its commits differ in a few offsets. So both ends
//! remember the last of each, as far as they are short, and only what is new travels. The replies leave when the last of
//! them may.

use std::sync::Arc;

use bytes::Bytes;
use coordination::op::{self, Op};
use coordination::reply::Reply;

use super::FormatError;
use super::codes::{code_of, code_of_reply, put_reply, take_reply};
use super::put::{put, put_number, take, take_bounded, take_number};
use super::records::all_read;
use crate::limits::{REMEMBERED_COMMIT, REMEMBERED_HEARTBEAT, TOGETHER};

/// What a message is called that has several ops, or replies.
const NAME: &str = "Together";

const HEARTBEAT: u8 = 0x08;
const COMMIT: u8 = 0x0A;
const REPEATED: u8 = 0x00;
const LIKE: u8 = 0x01;

/// What a gateway says of one op, or of several that are the same.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A heartbeat.
    Heartbeat(Arc<op::Heartbeat>),
    /// The client's last heartbeat, this many times.
    HeartbeatAgain(u32),
    /// A commit, as postcard.
    Commit(Bytes),
    /// A commit that begins and ends with as many bytes of the client's last one, and has these between.
    CommitLike {
        /// How many bytes at the beginning.
        front: u32,
        /// How many at the end.
        back: u32,
        /// What is between.
        middle: Bytes,
    },
}

impl Said {
    /// How many ops it is.
    pub fn count(&self) -> u32 {
        match self {
            Self::HeartbeatAgain(count) => *count,
            Self::Heartbeat(_) | Self::Commit(_) | Self::CommitLike { .. } => 1,
        }
    }
}

/// A reply, and how many ops it is the reply to.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The reply.
    pub reply: Reply,
    /// To how many ops, one behind the other.
    pub count: u32,
}

impl Run {
    /// Adds a reply behind others.
    pub fn add(runs: &mut Vec<Self>, reply: Reply, count: u32) {
        match runs.last_mut() {
            Some(last) if last.reply == reply => last.count += count,
            _ => runs.push(Self { reply, count }),
        }
    }
}

/// What one end of a lane remembers of what a client has said over it. Both ends remember the same.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The last heartbeat.
    pub heartbeat: Option<Arc<op::Heartbeat>>,
    /// The last commit, as postcard; empty if there is none.
    commit: Vec<u8>,
}

impl Memory {
    /// Whether `heartbeat` is the last one. It is from now on, unless it is longer than any client's: the broker would
    /// keep it for every client that a gateway speaks of.
    pub fn is_said_again(&mut self, heartbeat: &Arc<op::Heartbeat>) -> bool {
        if self.heartbeat.as_ref() == Some(heartbeat) {
            return true;
        }
        self.hear(heartbeat);
        false
    }

    /// Remembers a heartbeat.
    pub fn hear(&mut self, heartbeat: &Arc<op::Heartbeat>) {
        let op::Heartbeat { group, member_id, instance_id, .. } = &**heartbeat;
        let length = group.len() + member_id.len() + instance_id.as_ref().map_or(0, String::len);
        if length <= REMEMBERED_HEARTBEAT {
            self.heartbeat = Some(Arc::clone(heartbeat));
        }
    }

    /// Reads a commit that came whole.
    ///
    /// # Errors
    /// When it is none.
    pub fn commit(&mut self, body: &[u8]) -> Result<op::OffsetCommit, FormatError> {
        let commit = whole_commit(body)?;
        if body.len() <= REMEMBERED_COMMIT {
            self.commit.clear();
            self.commit.extend_from_slice(body);
        }
        Ok(commit)
    }

    /// Reads a commit that is like the last one.
    ///
    /// # Errors
    /// When it is none.
    pub fn commit_like(
        &mut self,
        front: u32,
        back: u32,
        middle: &[u8],
    ) -> Result<op::OffsetCommit, FormatError> {
        let outside = |count: u32| FormatError::Bound("a part of the last commit", u64::from(count));
        let length = self.commit.len();
        let from = usize::try_from(front).ok().filter(|&from| from <= length).ok_or(outside(front))?;
        let to = usize::try_from(back).ok().and_then(|back| length.checked_sub(back));
        let to = to.filter(|&to| from <= to).ok_or(outside(back))?;
        if length - (to - from) + middle.len() > REMEMBERED_COMMIT {
            return Err(FormatError::Bound("the length of a commit", middle.len() as u64));
        }
        self.commit.splice(from..to, middle.iter().copied());
        whole_commit(&self.commit)
    }
}

/// Whether an op may travel with others.
pub fn is_gathered(op: &Op) -> bool {
    matches!(op, Op::Heartbeat(_) | Op::OffsetCommit(_))
}

/// Appends ops, all of which are [gathered](is_gathered). What is remembered of the client is in `memory`, which follows.
///
/// # Errors
/// When one of them has no form that can be sent. All has to be forgotten then, since `memory` is ahead of the broker's.
pub(super) fn put_ops(
    ops: &[Op],
    memory: &mut Memory,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    put_number(ops.len() as u64, out);
    let mut again = 0;
    for op in ops {
        match op {
            Op::Heartbeat(heartbeat) if memory.is_said_again(heartbeat) => {
                again += 1;
                continue;
            }
            _ => put_again(std::mem::take(&mut again), out),
        }
        match op {
            Op::Heartbeat(heartbeat) => put_heartbeat(heartbeat, out)?,
            Op::OffsetCommit(commit) => {
                scratch.clear();
                put("OffsetCommit", commit, scratch)?;
                put_next_commit(memory, scratch, out);
            }
            _ => return Err(FormatError::Code(code_of(op))),
        }
    }
    put_again(again, out);
    Ok(())
}

/// Appends a commit as the difference to the one before, if there is one, and remembers it.
fn put_next_commit(memory: &mut Memory, commit: &[u8], out: &mut Vec<u8>) {
    let last = &mut memory.commit;
    if commit.len() > REMEMBERED_COMMIT {
        return put_commit(commit, out);
    }
    if last.is_empty() {
        put_commit(commit, out);
    } else {
        let front = common(last.iter(), commit.iter());
        let back = common(last[front..].iter().rev(), commit[front..].iter().rev());
        put_commit_like(front, back, &commit[front..commit.len() - back], out);
    }
    last.clear();
    last.extend_from_slice(commit);
}

fn put_heartbeat(heartbeat: &op::Heartbeat, out: &mut Vec<u8>) -> Result<(), FormatError> {
    out.push(HEARTBEAT);
    put("Heartbeat", heartbeat, out)
}

fn put_again(count: u32, out: &mut Vec<u8>) {
    if count > 0 {
        out.push(REPEATED);
        put_number(u64::from(count), out);
    }
}

fn put_commit(commit: &[u8], out: &mut Vec<u8>) {
    out.push(COMMIT);
    put_bytes(commit, out);
}

fn put_commit_like(front: usize, back: usize, middle: &[u8], out: &mut Vec<u8>) {
    out.push(LIKE);
    put_number(front as u64, out);
    put_number(back as u64, out);
    put_bytes(middle, out);
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// How many bytes are the same before the first that is not.
fn common<'a>(one: impl Iterator<Item = &'a u8>, other: impl Iterator<Item = &'a u8>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}

/// Reads ops up to the end of `message`, of which `rest` is left.
pub(super) fn take_ops(message: &Bytes, mut rest: &[u8]) -> Result<Vec<Said>, FormatError> {
    let mut said = Vec::new();
    let mut left = Left::of(&mut rest)?;
    while let Some(code) = left.next(&mut rest)? {
        let next = match code {
            HEARTBEAT => Said::Heartbeat(take("Heartbeat", &mut rest)?),
            REPEATED => Said::HeartbeatAgain(left.repeated(&mut rest)?),
            COMMIT => Said::Commit(take_bytes(message, &mut rest)?),
            LIKE => {
                let front = take_bounded("a part of the last commit", REMEMBERED_COMMIT, &mut rest)?;
                let back = take_bounded("a part of the last commit", REMEMBERED_COMMIT, &mut rest)?;
                Said::CommitLike { front, back, middle: take_bytes(message, &mut rest)? }
            }
            _ => return Err(FormatError::Code(code)),
        };
        said.push(next);
    }
    Ok(said)
}

/// Appends replies.
pub(super) fn put_replies(runs: &[Run], out: &mut Vec<u8>) -> Result<(), FormatError> {
    put_number(runs.iter().map(|run| u64::from(run.count)).sum(), out);
    for Run { reply, count } in runs {
        out.push(code_of_reply(reply));
        put_reply(reply, out)?;
        put_again(count.saturating_sub(1), out);
    }
    Ok(())
}

/// Reads replies up to the end of a message, of which `rest` is left.
pub(super) fn take_replies(mut rest: &[u8]) -> Result<Vec<Run>, FormatError> {
    let mut runs: Vec<Run> = Vec::new();
    let mut left = Left::of(&mut rest)?;
    while let Some(code) = left.next(&mut rest)? {
        match (code, runs.last_mut()) {
            (HEARTBEAT | COMMIT, _) => runs.push(Run { reply: take_reply(code, &mut rest)?, count: 1 }),
            (REPEATED, Some(last)) => last.count += left.repeated(&mut rest)?,
            _ => return Err(FormatError::Code(code)),
        }
    }
    Ok(runs)
}

/// How many ops of a message, or replies, have not been read.
struct Left(u32);

impl Left {
    fn of(rest: &mut &[u8]) -> Result<Self, FormatError> {
        take_bounded("the number of ops together", TOGETHER, rest).map(Self)
    }

    /// The code of the next one; `None` at the end of the message.
    fn next(&mut self, rest: &mut &[u8]) -> Result<Option<u8>, FormatError> {
        if self.0 == 0 {
            return all_read(NAME, rest).map(|()| None);
        }
        self.0 -= 1;
        let (&code, behind) = rest.split_first().ok_or(FormatError::Short(NAME))?;
        *rest = behind;
        Ok(Some(code))
    }

    /// How many are the same, of which one is counted already.
    fn repeated(&mut self, rest: &mut &[u8]) -> Result<u32, FormatError> {
        let count = take_bounded("how often something is repeated", TOGETHER, rest)?;
        let more = count.checked_sub(1).filter(|&more| more <= self.0);
        self.0 -= more.ok_or(FormatError::Bound("how often something is repeated", u64::from(count)))?;
        Ok(count)
    }
}

fn take_bytes(message: &Bytes, rest: &mut &[u8]) -> Result<Bytes, FormatError> {
    let length = usize::try_from(take_number(NAME, rest)?).unwrap_or(usize::MAX);
    let (bytes, behind) = rest.split_at_checked(length).ok_or(FormatError::Short(NAME))?;
    *rest = behind;
    Ok(message.slice_ref(bytes))
}

fn whole_commit(mut body: &[u8]) -> Result<op::OffsetCommit, FormatError> {
    let commit = take("OffsetCommit", &mut body)?;
    all_read("OffsetCommit", body).map(|()| commit)
}

#[cfg(test)]
mod tests {
    use coordination::op::{OffsetCommit, OffsetCommitPartition, OffsetCommitTopic, TopicRef};

    use super::*;

    fn commit(member: &str, offset: i64) -> Op {
        let partition =
            OffsetCommitPartition { index: 0, offset, leader_epoch: -1, metadata: Some(String::new()) };
        let topic =
            OffsetCommitTopic { topic: TopicRef::Name("orders".to_owned()), partitions: vec![partition] };
        Op::OffsetCommit(OffsetCommit {
            group: "billing".to_owned(),
            generation: 3,
            member_id: member.to_owned(),
            instance_id: None,
            retention_ms: None,
            knows_missing_groups: true,
            topics: vec![topic],
        })
    }

    fn heartbeat(member: &str) -> Op {
        Op::Heartbeat(Arc::new(op::Heartbeat {
            group: "billing".to_owned(),
            generation: 3,
            member_id: member.to_owned(),
            instance_id: None,
        }))
    }

    /// Says `ops` and hears them at the other end. Gives back how many bytes that took.
    fn pass(ops: &[Op], here: &mut Memory, there: &mut Memory) -> usize {
        let mut out = Vec::new();
        put_ops(ops, here, &mut Vec::new(), &mut out).expect("they can be sent");
        let message = Bytes::from(out);
        let mut heard = Vec::new();
        for said in take_ops(&message, &message).expect("it is well said") {
            match said {
                Said::Heartbeat(heartbeat) => {
                    there.hear(&heartbeat);
                    heard.push(Op::Heartbeat(heartbeat));
                }
                Said::HeartbeatAgain(count) => {
                    let last = there.heartbeat.clone().expect("it is remembered");
                    heard.extend((0..count).map(|_| Op::Heartbeat(Arc::clone(&last))));
                }
                Said::Commit(body) => heard.push(Op::OffsetCommit(there.commit(&body).expect("a commit"))),
                Said::CommitLike { front, back, middle } => {
                    let commit = there.commit_like(front, back, &middle).expect("a commit");
                    heard.push(Op::OffsetCommit(commit));
                }
            }
        }
        assert_eq!(heard, ops);
        assert_eq!(here.heartbeat, there.heartbeat);
        assert_eq!(here.commit, there.commit);
        message.len()
    }

    #[test]
    fn what_is_said_together_is_heard_in_order_and_what_is_not_new_takes_few_bytes() {
        let (mut here, mut there) = (Memory::default(), Memory::default());
        let first = pass(&[heartbeat("m-1"), commit("m-1", 7)], &mut here, &mut there);
        assert!(first > 40, "{first}");
        assert_eq!(pass(&vec![heartbeat("m-1"); 64], &mut here, &mut there), 3);
        let commits: Vec<Op> = (0..64).map(|offset| commit("m-1", 1000 + offset)).collect();
        let length = pass(&commits, &mut here, &mut there);
        assert!(length < 64 * 7, "{length}");
        let mixed =
            [commit("m-1", 5), heartbeat("m-1"), heartbeat("m-2"), heartbeat("m-2"), commit("m-2", i64::MAX)];
        pass(&mixed, &mut here, &mut there);
        pass(&[commit("m-2", i64::MAX), commit("m-2", i64::MAX), heartbeat("m-2")], &mut here, &mut there);
    }

    #[test]
    fn what_is_long_travels_whole_and_is_not_remembered() {
        let (mut here, mut there) = (Memory::default(), Memory::default());
        pass(&[heartbeat("m"), commit("m", 1)], &mut here, &mut there);
        let long = "m".repeat(REMEMBERED_COMMIT + REMEMBERED_HEARTBEAT);
        let length = pass(&[heartbeat(&long), heartbeat(&long)], &mut here, &mut there);
        assert!(length > 2 * long.len());
        let length = pass(&[commit(&long, 1), commit(&long, 2)], &mut here, &mut there);
        assert!(length > 2 * long.len());
        assert!(pass(&[heartbeat("m"), commit("m", 2)], &mut here, &mut there) < 13);
    }

    #[test]
    fn no_part_of_a_commit_is_taken_that_was_not_said() {
        let mut memory = Memory::default();
        assert!(memory.commit_like(0, 1, b"").is_err(), "nothing is remembered");
        let Op::OffsetCommit(op) = commit("m", 1) else { unreachable!("it is one") };
        let mut body = Vec::new();
        put("OffsetCommit", &op, &mut body).expect("it can be written");
        memory.commit(&body).expect("a commit");
        let length = u32::try_from(body.len()).expect("short");
        assert_eq!(memory.commit_like(length, 0, b""), Ok(op));
        for (front, back) in [(length + 1, 0), (0, length + 1), (length, 1), (u32::MAX, u32::MAX)] {
            assert!(memory.clone().commit_like(front, back, b"").is_err(), "{front} and {back}");
        }
        assert!(memory.clone().commit_like(1, 0, &[0; REMEMBERED_COMMIT]).is_err(), "too long");
        assert!(memory.commit_like(length, 0, b"x").is_err(), "more than a commit");
    }

    #[test]
    fn the_number_of_ops_and_of_replies_is_bounded() {
        let reply = Reply::Heartbeat(coordination::reply::Heartbeat { error: None });
        let most = u32::try_from(TOGETHER).expect("few");
        let mut out = Vec::new();
        put_replies(&[Run { reply: reply.clone(), count: most }], &mut out).expect("they can be sent");
        assert_eq!(take_replies(&out), Ok(vec![Run { reply, count: most }]));
        out.extend_from_slice(&[REPEATED, 1]);
        assert!(take_replies(&out).is_err(), "more than was said");
        assert!(take_replies(&[1, REPEATED, 1]).is_err(), "none before it");
        for bytes in [
            &[][..],
            &[1],
            &[1, REPEATED, 0],
            &[1, REPEATED, 2],
            &[2, REPEATED, 1],
            &[0x81, 0x08, REPEATED, 1],
            &[1, 0x07],
            &[1, COMMIT, 9],
            &[1, LIKE, 0],
        ] {
            let message = Bytes::copy_from_slice(bytes);
            assert!(take_ops(&message, &message).is_err(), "{bytes:?}");
        }
    }
}
