//! Messages on their way out, as frames.

use std::collections::VecDeque;

use bytes::Bytes;

use super::FormatError;
use super::inlet::{LAST_PART, PART, PREFIX};
use super::put::put_number;
use crate::limits::{APART, FRAME_MAX, MESSAGE_MAX};

/// What is queued for one lane.
///
/// Small messages are gathered in one buffer; records stay where they are and are written from there.
#[derive(Debug)]
pub struct Outbox {
    order: Order,
    /// What goes first.
    chunks: Vec<Bytes>,
    /// What follows, still growing.
    tail: Vec<u8>,
    /// Messages that are larger than a frame, each of which gives one frame at a time.
    large: VecDeque<Large>,
    next_part: u32,
    queued: usize,
    /// The records of the message that is being pushed.
    records: Vec<Bytes>,
}

/// Whether a message may overtake a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// No: ops take effect in the order in which they were handed over, and records are kept in that order.
    Kept,
    /// Yes: replies go to different clients.
    Free,
}

/// What is left of a message that is larger than a frame.
#[derive(Debug)]
struct Large {
    part: u32,
    pieces: VecDeque<Bytes>,
    length: usize,
}

/// A part's code, the longest id, and what a frame has room for beside them.
const ROOM: usize = FRAME_MAX - 1 - 5;

/// How much is taken at once. What is larger, and may not be overtaken, stays queued: whoever counts what is queued before
/// it queues more shall not take it for written.
const AT_ONCE: usize = 4 << 20;

/// How much is reserved at once for small messages.
const TAIL: usize = 16 << 10;

impl Outbox {
    /// An empty one.
    pub fn new(order: Order) -> Self {
        Self {
            order,
            chunks: Vec::new(),
            tail: Vec::new(),
            large: VecDeque::new(),
            next_part: 0,
            queued: 0,
            records: Vec::new(),
        }
    }

    /// From now on no message overtakes another.
    pub fn keep_order(&mut self) {
        self.order = Order::Kept;
    }

    /// How many bytes are queued.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Queues the message that `write` appends, with records apart.
    ///
    /// # Errors
    /// When `write` fails or the message is too large; nothing is queued then.
    pub fn push(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>, &mut Vec<Bytes>) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        let start = self.tail.len();
        if self.tail.capacity() == start {
            self.tail.reserve(TAIL);
        }
        self.tail.extend_from_slice(&[0; PREFIX]);
        let body = self.tail.len();
        let written = write(&mut self.tail, &mut self.records);
        let head = self.tail.len() - body;
        let length = head + self.records.iter().map(Bytes::len).sum::<usize>();
        if written.is_err() || length > MESSAGE_MAX {
            self.tail.truncate(start);
            self.records.clear();
            return written.and(Err(FormatError::TooLarge(MESSAGE_MAX)));
        }
        if length > FRAME_MAX {
            self.push_large(start, body, length);
            return Ok(());
        }
        self.tail[start..body].copy_from_slice(&size(length));
        self.queued += PREFIX + length;
        let mut records = std::mem::take(&mut self.records);
        for piece in records.drain(..) {
            self.append(piece);
        }
        self.records = records;
        Ok(())
    }

    /// Takes what is to be written next: what goes first, up to a bound, and a frame of each message that is large.
    pub fn take(&mut self, into: &mut Vec<Bytes>) {
        self.seal();
        let mut taken = 0;
        let fits = |chunk: &&Bytes| {
            let has_room = taken < AT_ONCE;
            taken += chunk.len();
            has_room
        };
        let count = self.chunks.iter().take_while(fits).count();
        into.extend(self.chunks.drain(..count));
        for _ in 0..self.large.len() {
            let Some(mut large) = self.large.pop_front() else { break };
            large.next_frame(|piece| {
                self.queued += piece.len();
                into.push(piece);
            });
            if large.length > 0 {
                self.large.push_back(large);
            }
        }
        // What is taken is counted by whoever has it now.
        let left: usize = self.chunks.iter().map(Bytes::len).sum();
        self.queued = left + self.large.iter().map(|large| large.length).sum::<usize>();
    }

    /// Appends what may be large, where it is if it is.
    fn append(&mut self, piece: Bytes) {
        if piece.len() < APART {
            self.tail.extend_from_slice(&piece);
        } else {
            self.seal();
            self.chunks.push(piece);
        }
    }

    /// Ends the buffer of small messages.
    fn seal(&mut self) {
        if !self.tail.is_empty() {
            // What was needed last time is likely to be needed again.
            let next = Vec::with_capacity(if self.tail.len() > TAIL / 2 {
                self.tail.len().min(4 * TAIL)
            } else {
                0
            });
            self.chunks.push(std::mem::replace(&mut self.tail, next).into());
        }
    }

    fn push_large(&mut self, start: usize, body: usize, length: usize) {
        let head = Bytes::copy_from_slice(&self.tail[body..]);
        self.tail.truncate(start);
        let pieces = std::iter::once(head).chain(self.records.drain(..)).collect();
        let mut large = Large { part: self.next_part, pieces, length };
        self.next_part = self.next_part.wrapping_add(1);
        match self.order {
            Order::Free => {
                self.queued += length;
                self.large.push_back(large);
            }
            Order::Kept => {
                while large.length > 0 {
                    large.next_frame(|piece| {
                        self.queued += piece.len();
                        if piece.len() < APART {
                            self.tail.extend_from_slice(&piece);
                        } else {
                            if !self.tail.is_empty() {
                                self.chunks.push(std::mem::take(&mut self.tail).into());
                            }
                            self.chunks.push(piece);
                        }
                    });
                }
            }
        }
    }
}

impl Large {
    /// Gives the next frame, piece by piece.
    fn next_frame(&mut self, mut give: impl FnMut(Bytes)) {
        let mut left = self.length.min(ROOM);
        let mut head = Vec::with_capacity(PREFIX + 6);
        head.extend_from_slice(&[0; PREFIX]);
        head.push(if left == self.length { LAST_PART } else { PART });
        put_number(u64::from(self.part), &mut head);
        let length = size(head.len() - PREFIX + left);
        head[..PREFIX].copy_from_slice(&length);
        give(head.into());
        self.length -= left;
        while left > 0 {
            let Some(first) = self.pieces.front_mut() else { return };
            if first.len() > left {
                return give(first.split_to(left));
            }
            left -= first.len();
            if let Some(whole) = self.pieces.pop_front() {
                give(whole);
            }
        }
    }
}

fn size(length: usize) -> [u8; PREFIX] {
    u32::try_from(length).expect("a frame has at most a mebibyte").to_le_bytes()
}
