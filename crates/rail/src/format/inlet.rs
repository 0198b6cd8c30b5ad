//! Messages out of a stream of bytes, without believing a length before its bytes are there.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

use super::FormatError;
use super::put::take_number;
use crate::limits::{FRAME_MAX, MESSAGE_MAX, UNFINISHED_COUNT, UNFINISHED_MAX};

/// The length in front of every frame.
pub(super) const PREFIX: usize = 4;

/// A part of a message; more follow.
pub(super) const PART: u8 = 0xFE;

/// The last part of a message.
pub(super) const LAST_PART: u8 = 0xFF;

/// After this many pieces of one frame they are put together: a peer that sends single bytes must not make each
/// keep a datagram.
const PIECES: usize = 256;

/// What has been received of a lane and not been handled yet.
///
/// Pieces stay where they were received. A frame that is in one piece is never copied, any other once, when all of it
/// is there.
#[derive(Debug, Default)]
pub struct Inlet {
    arrived: Pieces,
    unfinished: Vec<Unfinished>,
    unfinished_bytes: usize,
}

/// A message of which parts have come.
#[derive(Debug)]
struct Unfinished {
    id: u64,
    parts: Pieces,
}

impl Inlet {
    /// Takes what was received next.
    pub fn feed(&mut self, piece: Bytes) {
        self.arrived.push(piece);
        self.arrived.settle();
    }

    /// The next whole message, if it is there.
    ///
    /// # Errors
    /// When the peer does not keep to the format; nothing that follows means anything then.
    pub fn next_message(&mut self) -> Result<Option<Bytes>, FormatError> {
        loop {
            let Some(prefix) = self.arrived.peek::<PREFIX>() else { return Ok(None) };
            let length = usize::try_from(u32::from_le_bytes(prefix)).unwrap_or(usize::MAX);
            if !(1..=FRAME_MAX).contains(&length) {
                return Err(FormatError::FrameSize(length));
            }
            if self.arrived.length - PREFIX < length {
                return Ok(None);
            }
            self.arrived.advance(PREFIX);
            if let [code @ (PART | LAST_PART)] = self.arrived.peek::<1>().unwrap_or_default() {
                let frame = self.arrived.split_to(length);
                match self.take_part(frame, code == LAST_PART)? {
                    Some(message) => return Ok(Some(message)),
                    None => continue,
                }
            }
            return Ok(Some(self.arrived.take(length)));
        }
    }

    fn take_part(&mut self, mut frame: Pieces, is_last: bool) -> Result<Option<Bytes>, FormatError> {
        frame.advance(1);
        let front: Vec<u8> = frame.front(10);
        let mut rest = front.as_slice();
        let id = take_number("Part", &mut rest)?;
        frame.advance(front.len() - rest.len());
        let place = match self.unfinished.iter().position(|message| message.id == id) {
            Some(place) => place,
            None if self.unfinished.len() < UNFINISHED_COUNT => {
                self.unfinished.push(Unfinished { id, parts: Pieces::default() });
                self.unfinished.len() - 1
            }
            None => return Err(FormatError::TooManyParts),
        };
        let parts = &mut self.unfinished[place].parts;
        self.unfinished_bytes += frame.length;
        if parts.length + frame.length > MESSAGE_MAX {
            return Err(FormatError::TooLarge(MESSAGE_MAX));
        }
        if self.unfinished_bytes > UNFINISHED_MAX {
            return Err(FormatError::TooLarge(UNFINISHED_MAX));
        }
        parts.append(frame);
        if !is_last {
            return Ok(None);
        }
        let message = self.unfinished.swap_remove(place).parts;
        self.unfinished_bytes -= message.length;
        // A part within parts would be a way to go on for ever.
        match message.peek::<1>() {
            None => Err(FormatError::FrameSize(0)),
            Some([code @ (PART | LAST_PART)]) => Err(FormatError::Code(code)),
            Some(_) => Ok(Some(message.into_bytes())),
        }
    }
}

/// Bytes in pieces.
#[derive(Debug, Default)]
struct Pieces {
    list: VecDeque<Bytes>,
    length: usize,
}

impl Pieces {
    fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.length += piece.len();
            self.list.push_back(piece);
        }
    }

    fn append(&mut self, mut other: Self) {
        self.length += other.length;
        // Small parts would each keep what they came in.
        if other.list.len() > 1 && other.length < PIECES * PIECES {
            other = Self { length: other.length, list: VecDeque::from([other.into_bytes()]) };
        }
        self.list.append(&mut other.list);
        self.settle();
    }

    /// Puts the pieces together when they are many and small.
    fn settle(&mut self) {
        if self.list.len() > PIECES && self.length / self.list.len() < PIECES {
            let all = std::mem::take(self);
            let length = all.length;
            *self = Self { length, list: VecDeque::from([all.into_bytes()]) };
        }
    }

    /// The first `N` bytes.
    fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        if let Some(first) = self.list.front().and_then(|piece| piece.first_chunk::<N>()) {
            return Some(*first);
        }
        self.front(N).try_into().ok()
    }

    /// Up to `count` bytes from the front.
    fn front(&self, count: usize) -> Vec<u8> {
        self.list.iter().flatten().copied().take(count).collect()
    }

    fn advance(&mut self, mut count: usize) {
        self.length -= count;
        while let Some(first) = self.list.front_mut() {
            if first.len() > count {
                first.advance(count);
                return;
            }
            count -= first.len();
            self.list.pop_front();
        }
    }

    /// The first `count` bytes in one piece, which they mostly are already.
    fn take(&mut self, count: usize) -> Bytes {
        match self.list.front_mut() {
            Some(first) if first.len() > count => {
                self.length -= count;
                first.split_to(count)
            }
            _ => self.split_to(count).into_bytes(),
        }
    }

    fn split_to(&mut self, mut count: usize) -> Self {
        self.length -= count;
        let mut taken = Self::default();
        while count > 0 {
            let Some(first) = self.list.front_mut() else { break };
            if first.len() > count {
                taken.push(first.split_to(count));
                break;
            }
            count -= first.len();
            if let Some(whole) = self.list.pop_front() {
                taken.push(whole);
            }
        }
        taken
    }

    fn into_bytes(mut self) -> Bytes {
        if self.list.len() <= 1 {
            return self.list.pop_front().unwrap_or_default();
        }
        let mut whole = BytesMut::with_capacity(self.length);
        for piece in &self.list {
            whole.extend_from_slice(piece);
        }
        whole.freeze()
    }
}
