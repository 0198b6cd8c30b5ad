//! Frames out of a stream of bytes, without believing a length before its bytes are there.

use std::cmp;

use bytes::{Buf, Bytes, BytesMut};

use crate::limits::{GROWTH, KEPT_IN_PLACE, READ_MAX, READ_MIN};

/// The size in front of every frame.
const PREFIX: usize = 4;

/// How many reads in a row must be small before the room for one read shrinks.
const SMALL_READS: u8 = 16;

/// What has been read of a connection and not been handled yet.
///
/// Frames share the memory that they were read into. While nobody holds on to them the same memory is used
/// over and over; when somebody does (records on their way to the disk), the next read goes on behind them and
/// a new piece is taken only when this one is full.
#[derive(Debug)]
pub(crate) struct Input {
    buffer: BytesMut,
    max_frame: usize,
    /// How much room the next read gets: follows what the client sends.
    room: usize,
    /// How many reads in a row were far below `room`.
    small_reads: u8,
}

/// What is at the front.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Front {
    /// More bytes are needed.
    Incomplete,
    /// A frame with this many bytes behind its size.
    Frame(usize),
}

/// A size that no request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {size} bytes, where 1 to {max} are allowed")]
pub(crate) struct BadSize {
    size: i32,
    max: usize,
}

impl Input {
    pub(crate) fn new(max_frame: usize) -> Self {
        Self { buffer: BytesMut::new(), max_frame, room: READ_MIN, small_reads: 0 }
    }

    /// From now on frames may have this size.
    pub(crate) fn allow(&mut self, max_frame: usize) {
        self.max_frame = max_frame;
    }

    /// How many bytes wait to be handled.
    pub(crate) fn len(&self) -> usize {
        self.buffer.len()
    }

    /// What is at the front; no memory is taken for a frame before this has accepted its size.
    pub(crate) fn front(&self) -> Result<Front, BadSize> {
        let Some(prefix) = self.buffer.first_chunk::<PREFIX>() else { return Ok(Front::Incomplete) };
        let size = i32::from_be_bytes(*prefix);
        match usize::try_from(size) {
            Ok(length) if (1..=self.max_frame).contains(&length) => {
                let is_complete = self.buffer.len() - PREFIX >= length;
                Ok(if is_complete { Front::Frame(length) } else { Front::Incomplete })
            }
            _ => Err(BadSize { size, max: self.max_frame }),
        }
    }

    /// The number of the API that the frame at the front is for, as far as it has one.
    pub(crate) fn front_api(&self) -> Option<i16> {
        self.buffer.get(PREFIX..)?.first_chunk().map(|key| i16::from_be_bytes(*key))
    }

    /// The frame at the front, of which [`Self::front`] has told the length.
    pub(crate) fn front_frame(&self, length: usize) -> &[u8] {
        &self.buffer[PREFIX..PREFIX + length]
    }

    /// Passes the frame at the front over.
    pub(crate) fn skip(&mut self, length: usize) {
        self.buffer.advance(PREFIX + length);
    }

    /// Takes the frame at the front, of which [`Self::front`] has told the length.
    pub(crate) fn take(&mut self, length: usize) -> Bytes {
        self.buffer.advance(PREFIX);
        self.buffer.split_to(length).freeze()
    }

    /// Takes the frame at the front as [`Self::take`] does, for somebody who will keep a part of it.
    ///
    /// A small one moves out: a few records that the broker keeps in memory would else keep all that was read
    /// with them, and a client that mixes small records into large rubbish could make that hundreds of times
    /// what the broker counts.
    pub(crate) fn take_to_keep(&mut self, length: usize) -> Bytes {
        let frame = self.take(length);
        if length < KEPT_IN_PLACE { Bytes::copy_from_slice(&frame) } else { frame }
    }

    /// Room for the next read, never empty.
    pub(crate) fn spare(&mut self) -> &mut BytesMut {
        let received = self.buffer.len();
        let wanted = match self.buffer.first_chunk::<PREFIX>().map(|prefix| self.announced(*prefix)) {
            // A frame that will not fit gets room in a few steps, the last of them for exactly itself, so that a
            // large one is read by few calls straight to where it stays, and ends where its memory ends.
            Some(announced) if received < announced && announced > self.room => {
                let (piece, missing) = (Self::earned(received, announced), announced - received);
                if piece > self.room {
                    piece - received
                } else if missing / 2 <= self.room {
                    // A last step that would be small is taken together with this one.
                    missing
                } else {
                    self.room
                }
            }
            _ if self.buffer.capacity() - received >= self.room / 4 => return &mut self.buffer,
            _ => self.room,
        };
        self.buffer.reserve(wanted);
        &mut self.buffer
    }

    /// How much memory a frame of `announced` bytes has earned with the `received` bytes that are there.
    ///
    /// All of it, or a part that is [`GROWTH`] times smaller, or one that is so much smaller again: what moves from
    /// a part that is full to the next is a small part of that, however much one read brings. A part that is half
    /// full already is passed over, or nearly all of it would be moved twice.
    fn earned(received: usize, announced: usize) -> usize {
        let mut piece = announced;
        while piece / GROWTH / 2 > received {
            piece /= GROWTH;
        }
        piece
    }

    /// The bytes that a frame with this size in front takes in all, as far as its size is allowed.
    fn announced(&self, prefix: [u8; PREFIX]) -> usize {
        let length = usize::try_from(i32::from_be_bytes(prefix)).unwrap_or(0);
        PREFIX + cmp::min(length, self.max_frame)
    }

    /// Learns from a read of `count` bytes how much room the next one should get.
    pub(crate) fn note_read(&mut self, count: usize) {
        if count >= self.room || self.buffer.len() == self.buffer.capacity() {
            self.room = cmp::min(self.room * 2, READ_MAX);
            self.small_reads = 0;
        } else if count < self.room / 4 && self.room > READ_MIN {
            self.small_reads += 1;
            if self.small_reads >= SMALL_READS {
                self.room = cmp::max(self.room / 2, READ_MIN);
                self.small_reads = 0;
            }
        } else {
            self.small_reads = 0;
        }
    }

    /// Lets go of memory that a connection without anything to do should not keep.
    pub(crate) fn rest(&mut self) {
        if self.buffer.is_empty() && self.buffer.capacity() > READ_MIN {
            self.buffer = BytesMut::new();
            self.room = READ_MIN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 100 << 20;

    fn frame(length: usize) -> Vec<u8> {
        let mut bytes = i32::try_from(length).expect("short").to_be_bytes().to_vec();
        bytes.resize(PREFIX + length, 7);
        bytes
    }

    /// Hands `bytes` over as a socket would, which fills at most the room that is there.
    fn feed(input: &mut Input, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let spare = input.spare();
            let count = cmp::min(bytes.len(), spare.capacity() - spare.len());
            assert!(count > 0, "there is always room");
            spare.extend_from_slice(&bytes[..count]);
            input.note_read(count);
            bytes = &bytes[count..];
        }
    }

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let stream: Vec<u8> = (1..400).flat_map(frame).collect();
        for step in [1, 3, 64, 1000, stream.len()] {
            let mut input = Input::new(MAX);
            let mut lengths = Vec::new();
            for piece in stream.chunks(step) {
                feed(&mut input, piece);
                while let Ok(Front::Frame(length)) = input.front() {
                    lengths.push(input.take(length).len());
                }
            }
            assert_eq!(lengths, (1..400).collect::<Vec<_>>(), "in steps of {step}");
        }
    }

    #[test]
    fn a_claim_of_a_hundred_megabytes_gets_no_memory() {
        let mut input = Input::new(MAX);
        feed(&mut input, &frame(MAX)[..PREFIX]);
        assert_eq!(input.front(), Ok(Front::Incomplete));
        input.spare();
        assert!(input.buffer.capacity() <= 2 * READ_MIN, "{}", input.buffer.capacity());
    }

    #[test]
    fn a_large_frame_ends_where_its_memory_ends() {
        let mut input = Input::new(MAX);
        let bytes = frame(1 << 20);
        feed(&mut input, &bytes);
        assert_eq!(input.front(), Ok(Front::Frame(1 << 20)));
        assert!(input.buffer.capacity() <= bytes.len() + READ_MAX, "{}", input.buffer.capacity());
    }

    #[test]
    fn a_frame_of_a_hundred_megabytes_that_comes_in_one_stroke_moves_a_sixteenth_of_itself_at_a_time() {
        let mut input = Input::new(MAX);
        let bytes = frame(MAX - PREFIX);
        let mut bytes = &bytes[..];
        let mut moves = Vec::new();
        while !bytes.is_empty() {
            let (held, full) = (input.buffer.len(), input.buffer.capacity());
            let spare = input.spare();
            let room = cmp::min(bytes.len(), spare.capacity() - spare.len());
            if spare.capacity() != full {
                moves.push(held);
            }
            spare.extend_from_slice(&bytes[..room]);
            input.note_read(room);
            bytes = &bytes[room..];
        }
        assert!(moves.iter().all(|held| *held <= MAX / GROWTH), "{moves:?} bytes were moved");
        assert!(moves.len() < 10, "{moves:?} bytes were moved");
        assert_eq!(input.buffer.capacity(), MAX, "it ends where its memory ends");
    }

    #[test]
    fn memory_is_used_again_when_nobody_shares_it() {
        let mut input = Input::new(MAX);
        let bytes = frame(1000);
        feed(&mut input, &bytes);
        let start = input.buffer.as_ptr() as usize;
        let mut pieces = 0;
        let mut last = start;
        for _ in 0..1000 {
            input.take(1000);
            feed(&mut input, &bytes);
            let here = input.buffer.as_ptr() as usize;
            pieces += usize::from(here.abs_diff(last) > READ_MAX);
            last = here;
        }
        assert_eq!(pieces, 0, "a megabyte went through the same few kilobytes");
    }

    #[test]
    fn a_small_frame_that_is_kept_does_not_keep_what_was_read_with_it() {
        let mut input = Input::new(MAX);
        feed(&mut input, &[frame(100), frame(KEPT_IN_PLACE), frame(100)].concat());
        let read_into = input.buffer.as_ptr_range();
        let (small, large) = (input.take_to_keep(100), input.take_to_keep(KEPT_IN_PLACE));
        assert!(!read_into.contains(&small.as_ptr()) && read_into.contains(&large.as_ptr()));
        assert_eq!(small, frame(100)[PREFIX..]);
    }

    #[test]
    fn sizes_that_no_request_has_are_refused() {
        for size in [0, -1, i32::MIN, i32::MAX, 101] {
            let mut input = Input::new(100);
            feed(&mut input, &size.to_be_bytes());
            assert_eq!(input.front(), Err(BadSize { size, max: 100 }));
        }
    }
}
