//! Writing the two sparse indexes of a segment as its batches come.

use batch::BatchHeader;

use crate::segment::{INDEX_ENTRY, Segment, TIME_ENTRY};

/// How far the indexes of a segment have been written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IndexState {
    /// Bytes of batches since the last entry.
    pub(crate) since: u64,
    pub(crate) index_len: u64,
    pub(crate) time_len: u64,
    /// The timestamp of the last entry of the time index; entries must grow.
    pub(crate) last_time: Option<i64>,
}

/// Makes index entries for the batches of one segment.
#[derive(Debug, Default)]
pub(crate) struct SegmentIndexer {
    pub(crate) state: IndexState,
    /// Entries that are not written yet.
    pub(crate) index_entries: Vec<u8>,
    pub(crate) time_entries: Vec<u8>,
}

impl SegmentIndexer {
    pub(crate) fn continuing(state: IndexState) -> Self {
        Self { state, ..Self::default() }
    }

    /// Takes note of a batch that follows all others, in the segment and in its indexes.
    pub(crate) fn push(&mut self, segment: &mut Segment, header: &BatchHeader, interval: u64) {
        let position = segment.bytes;
        segment.push(header);
        // As Kafka: the entry names the batch that comes after an interval without one, by its last offset.
        if self.state.since > interval {
            let relative = i32::try_from(header.last_offset() - segment.base).unwrap_or(i32::MAX);
            let position = i32::try_from(position).unwrap_or(i32::MAX);
            self.index_entries.extend(relative.to_be_bytes());
            self.index_entries.extend(position.to_be_bytes());
            self.state.index_len += INDEX_ENTRY;
            self.state.since = 0;
            self.push_time(segment);
        }
        self.state.since += header.size() as u64;
    }

    /// Has the last entry of the time index tell the segment's largest timestamp, as Kafka does when it closes one.
    pub(crate) fn push_time(&mut self, segment: &Segment) {
        if segment.max_timestamp < 0 || self.state.last_time.is_some_and(|last| segment.max_timestamp <= last)
        {
            return;
        }
        let relative = i32::try_from(segment.max_timestamp_offset - segment.base).unwrap_or(i32::MAX);
        self.time_entries.extend(segment.max_timestamp.to_be_bytes());
        self.time_entries.extend(relative.to_be_bytes());
        self.state.time_len += TIME_ENTRY;
        self.state.last_time = Some(segment.max_timestamp);
    }
}
