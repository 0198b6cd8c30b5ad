//! Writing values into a frame. Large byte strings are taken over as they are, never copied.

use bytes::{BufMut, Bytes, BytesMut};

/// From this size on, bytes become a chunk of their own: below it, copying is cheaper than one more
/// entry in a vectored write.
const OWN_CHUNK: usize = 4096;

/// What most answers fit in.
const FIRST_CAPACITY: usize = 256;

/// A frame ready to be sent, its 4-byte size in front.
///
/// It is a list of chunks for a vectored write; most frames have a single one.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    chunks: Chunks,
    length: usize,
}

/// A single chunk, as most frames have, needs no memory of its own.
#[derive(Clone, Debug)]
enum Chunks {
    One([Bytes; 1]),
    Many(Vec<Bytes>),
}

impl Default for Chunks {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Frame {
    /// How many bytes there are to send, the size in front included.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The chunks in the order in which they are sent.
    pub fn chunks(&self) -> &[Bytes] {
        match &self.chunks {
            Chunks::One(chunk) => chunk,
            Chunks::Many(chunks) => chunks,
        }
    }

    /// The chunks, to be owned.
    pub fn into_chunks(self) -> impl Iterator<Item = Bytes> {
        let (one, many) = match self.chunks {
            Chunks::One([chunk]) => (Some(chunk), Vec::new()),
            Chunks::Many(chunks) => (None, chunks),
        };
        one.into_iter().chain(many)
    }

    /// All chunks in one, for tests and tools; copies unless there is only one.
    pub fn into_bytes(self) -> Bytes {
        match self.chunks {
            Chunks::One([chunk]) => chunk,
            Chunks::Many(chunks) => chunks.concat().into(),
        }
    }

    /// What a peer gets to see as the frame: all but the size in front.
    pub fn into_content(self) -> Bytes {
        let bytes = self.into_bytes();
        bytes.slice(4.min(bytes.len())..)
    }
}

/// Collects a frame.
#[derive(Debug)]
pub struct Writer {
    /// Everything but the large byte strings, one after the other; before `start` stands what was there before.
    small: BytesMut,
    start: usize,
    /// Large byte strings and the places in `small` before which each belongs.
    large: Vec<(usize, Bytes)>,
    large_length: usize,
    /// The length of the longest text that had to be cut; 0 if none had to be.
    longest_cut: usize,
    /// Ends every structure with tagged fields that nobody knows, to see that readers skip them.
    #[cfg(test)]
    pub(crate) unknown_tags: bool,
}

impl Writer {
    /// Starts a frame with room for its size.
    pub(crate) fn frame() -> Self {
        Self::frame_behind(BytesMut::with_capacity(FIRST_CAPACITY))
    }

    /// Starts a frame behind other bytes.
    #[inline]
    pub(crate) fn frame_behind(before: BytesMut) -> Self {
        let mut writer = Self::behind(before);
        writer.small.put_i32(0);
        writer
    }

    #[inline]
    fn behind(before: BytesMut) -> Self {
        Self {
            start: before.len(),
            small: before,
            large: Vec::new(),
            large_length: 0,
            longest_cut: 0,
            #[cfg(test)]
            unknown_tags: false,
        }
    }

    /// Ends the frame that [`Writer::frame`] started.
    pub(crate) fn finish(mut self) -> Frame {
        self.put_size();
        self.into_frame()
    }

    /// Ends the frame that [`Writer::frame_behind`] started. It stays behind the other bytes, which come back with
    /// nothing to send; if it has large byte strings in it, they come back alone, and the frame by itself.
    #[inline]
    pub(crate) fn finish_behind(mut self) -> (BytesMut, Frame) {
        self.put_size();
        if self.large.is_empty() {
            return (self.small, Frame::default());
        }
        let small = self.small.split_off(self.start);
        let before = std::mem::replace(&mut self.small, small);
        for (place, _) in &mut self.large {
            *place -= self.start;
        }
        self.start = 0;
        (before, self.into_frame())
    }

    /// The length of the longest text that had to be cut, if one had to be.
    pub(crate) fn longest_cut(&self) -> Option<usize> {
        (self.longest_cut > 0).then_some(self.longest_cut)
    }

    /// As much of a text as `longest` bytes hold; that the rest is missing is remembered.
    #[cold]
    pub(crate) fn cut<'a>(&mut self, text: &'a str, longest: usize) -> &'a str {
        self.longest_cut = self.longest_cut.max(text.len());
        &text[..text.floor_char_boundary(longest)]
    }

    #[inline]
    fn put_size(&mut self) {
        let length = self.small.len() - self.start + self.large_length;
        let size = i32::try_from(length - 4).expect("an answer is far below 2 GiB: fetches are bounded");
        self.small[self.start..self.start + 4].copy_from_slice(&size.to_be_bytes());
    }

    fn into_frame(self) -> Frame {
        let length = self.small.len() + self.large_length;
        let small = self.small.freeze();
        if self.large.is_empty() {
            return Frame { chunks: Chunks::One([small]), length };
        }
        let mut chunks = Vec::with_capacity(2 * self.large.len() + 1);
        let mut position = 0;
        for (before, bytes) in self.large {
            if position < before {
                chunks.push(small.slice(position..before));
            }
            chunks.push(bytes);
            position = before;
        }
        if position < small.len() {
            chunks.push(small.slice(position..));
        }
        Frame { chunks: Chunks::Many(chunks), length }
    }

    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.small.extend_from_slice(bytes);
    }

    #[inline]
    pub(crate) fn put_array<const N: usize>(&mut self, bytes: [u8; N]) {
        self.small.extend_from_slice(&bytes);
    }

    #[inline]
    pub(crate) fn unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.small.put_u8(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.small.put_u8(value.to_le_bytes()[0]);
    }

    /// Adds bytes without their length, taking them over if they are large.
    #[inline]
    pub(crate) fn share(&mut self, bytes: &Bytes) {
        if bytes.len() < OWN_CHUNK {
            self.small.extend_from_slice(bytes);
        } else {
            self.large_length += bytes.len();
            self.large.push((self.small.len(), bytes.clone()));
        }
    }

    /// Announces how many tagged fields follow.
    #[inline]
    pub(crate) fn begin_tags(&mut self, count: u32) {
        #[cfg(test)]
        let count = count + u32::from(self.unknown_tags);
        self.unsigned_varint(count);
    }

    /// Ends a structure after its tagged fields.
    #[inline]
    pub(crate) fn end_tags(&mut self) {
        #[cfg(test)]
        if self.unknown_tags {
            self.unsigned_varint(9_999);
            self.unsigned_varint(3);
            self.put(b"???");
        }
    }

    /// Adds a tagged field: tag, size, then what `value` writes.
    pub(crate) fn tagged(&mut self, tag: u32, value: impl FnOnce(&mut Self)) {
        let mut inner = Self::behind(BytesMut::with_capacity(64));
        #[cfg(test)]
        {
            inner.unknown_tags = self.unknown_tags;
        }
        value(&mut inner);
        assert!(inner.large.is_empty(), "no tagged field holds records");
        self.unsigned_varint(tag);
        self.unsigned_varint(length32(inner.small.len()));
        self.small.extend_from_slice(&inner.small);
        self.longest_cut = self.longest_cut.max(inner.longest_cut);
    }
}

/// A length as the wire has it.
#[inline]
pub(crate) fn length32(length: usize) -> u32 {
    u32::try_from(length).expect("nothing we send is as long as 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bytes_are_chunks_of_their_own_and_share_memory() {
        let large = Bytes::from(vec![7; OWN_CHUNK]);
        let mut writer = Writer::frame();
        writer.put(b"ab");
        writer.share(&large);
        writer.share(&large);
        writer.share(&Bytes::from_static(b"small"));
        let frame = writer.finish();

        let [head, first, second, tail] = frame.chunks() else { panic!("{frame:?}") };
        assert_eq!(first.as_ptr(), large.as_ptr());
        assert_eq!(second.as_ptr(), large.as_ptr());
        assert_eq!(&head[4..], b"ab");
        assert_eq!(&tail[..], b"small");
        assert_eq!(frame.len(), 4 + 2 + 2 * OWN_CHUNK + 5);
        assert_eq!(head[..4], i32::try_from(frame.len() - 4).unwrap().to_be_bytes());
        assert_eq!(frame.clone().into_content().len(), frame.len() - 4);
    }

    #[test]
    fn a_frame_goes_behind_others_unless_it_has_large_bytes() {
        let before = BytesMut::from(&b"before"[..]);
        let mut writer = Writer::frame_behind(before);
        writer.put(b"ab");
        let (before, frame) = writer.finish_behind();
        assert_eq!(before[..], *b"before\0\0\0\x02ab");
        assert!(frame.is_empty());
        assert_eq!(frame.into_chunks().count(), 0);

        let large = Bytes::from(vec![7; OWN_CHUNK]);
        let mut writer = Writer::frame_behind(before);
        writer.put(b"cd");
        writer.share(&large);
        writer.put(b"ef");
        let (before, frame) = writer.finish_behind();
        assert_eq!(before[..], *b"before\0\0\0\x02ab");
        let [head, shared, tail] = frame.chunks() else { panic!("{frame:?}") };
        assert_eq!(head[..], *b"\0\0\x10\x04cd");
        assert_eq!(shared.as_ptr(), large.as_ptr());
        assert_eq!(tail[..], *b"ef");
        assert_eq!(frame.len(), 4 + 2 + OWN_CHUNK + 2);
    }
}
