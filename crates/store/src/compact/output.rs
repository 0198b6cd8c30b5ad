//! A segment that compaction writes.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use batch::BatchHeader;

use super::replacement::compact_name;
use crate::disk::{Disk, DiskFile, Open};
use crate::segment::{Segment, segment_path};
use crate::segment_index::SegmentIndexer;

/// How much of the new segment is written at once.
const WRITE_BYTES: usize = 1 << 20;

/// A segment that will take the place of others.
pub(super) struct Output<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    file: Arc<dyn DiskFile>,
    pub(super) segment: Segment,
    indexer: SegmentIndexer,
    interval: u64,
    buffer: Vec<u8>,
    written: u64,
}

impl<'a> Output<'a> {
    pub(super) fn create(
        disk: &'a dyn Disk,
        dir: &'a Path,
        first: &Segment,
        interval: u64,
    ) -> io::Result<Self> {
        let mut segment = Segment::new(first.base, first.first_append_ms);
        segment.closed = true;
        let file = disk.open(&compact_name(&segment_path(dir, first.base, "log")), Open::Replace)?;
        let (indexer, buffer) = (SegmentIndexer::default(), Vec::new());
        Ok(Self { disk, dir, file, segment, indexer, interval, buffer, written: 0 })
    }

    pub(super) fn push(&mut self, header: &BatchHeader, batch: &[u8]) -> io::Result<()> {
        self.indexer.push(&mut self.segment, header, self.interval);
        self.buffer.extend_from_slice(batch);
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(self.written, &mut [IoSlice::new(&self.buffer)])?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes the files durable under names that do not count yet.
    pub(super) fn finish(mut self) -> io::Result<Segment> {
        self.flush()?;
        self.file.sync_data()?;
        self.indexer.push_time(&self.segment);
        let indexes = [("index", &self.indexer.index_entries), ("timeindex", &self.indexer.time_entries)];
        for (extension, entries) in indexes {
            let path = compact_name(&segment_path(self.dir, self.segment.base, extension));
            let file = self.disk.open(&path, Open::Replace)?;
            file.write_at(0, &mut [IoSlice::new(entries)])?;
            file.sync_data()?;
        }
        self.disk.sync_dir(self.dir)?;
        Ok(self.segment)
    }

    pub(super) fn discard(self) {
        let path = compact_name(&segment_path(self.dir, self.segment.base, "log"));
        // If it stays, the next start removes it.
        let _ = self.disk.remove_file(&path);
    }
}
