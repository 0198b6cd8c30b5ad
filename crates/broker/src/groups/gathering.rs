//! Records on their way into record batches.

use batch::{BatchBuilder, BatchError, NewRecord};
use bytes::Bytes;

use coordination::group::{Effects, GroupLog, GroupRecord};

/// A batch is closed when it has this many bytes: large enough that its head costs nothing, small enough that
/// whoever reads it back needs no more memory than for any other.
const BATCH_BYTES: usize = 1 << 20;

/// How many records, and bytes of a key or a value, a shard keeps memory for between steps.
const RECORDS_KEPT: usize = 64;
const BYTES_KEPT: usize = 4 << 10;

/// What the next flush of a shard will write.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    kohort: OpenBatches,
    offsets: OpenBatches,
    records: usize,
    bytes: usize,
    // Kept, so that a record costs no allocation.
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Batches of one log, as bytes with the number of their records.
pub(crate) type Closed = Vec<(Bytes, i64)>;

/// What one flush writes, each log's in its order.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    kohort: Vec<BatchBuilder>,
    offsets: Vec<BatchBuilder>,
}

#[derive(Debug, Default)]
struct OpenBatches {
    full: Vec<BatchBuilder>,
    open: Option<BatchBuilder>,
}

/// Whether the records of one step have to be in one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// They may be in several: each says something that is true without the others.
    Anywhere,
    /// A crash must not leave some of them, because a client sent them together.
    Never,
}

impl Gathering {
    /// Adds the records of one step, and takes them out of `effects`.
    ///
    /// # Errors
    /// When a batch has no room for them, which takes 2 GiB in one step.
    pub(crate) fn push(
        &mut self,
        effects: &mut Effects,
        wall_ms: i64,
        split: Split,
    ) -> Result<(), BatchError> {
        for record in effects.records.drain(..) {
            record.encode_into(&mut self.key, &mut self.value);
            self.records += 1;
            self.bytes += self.key.len() + self.value.len();
            let new = NewRecord {
                timestamp: wall_ms,
                key: Some(&self.key),
                value: (!record.is_tombstone()).then_some(&*self.value),
                headers: &[],
            };
            let batches = match GroupRecord::log(&record) {
                GroupLog::Kohort => &mut self.kohort,
                GroupLog::Offsets => &mut self.offsets,
            };
            batches.push(&new)?;
            if split == Split::Anywhere {
                batches.close_if_full();
            }
        }
        self.kohort.close_if_full();
        self.offsets.close_if_full();
        // What a large group or a long list has needed once is given back.
        effects.records.shrink_to(RECORDS_KEPT);
        self.key.shrink_to(BYTES_KEPT);
        self.value.shrink_to(BYTES_KEPT);
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// How many records, and bytes of keys and values, have been gathered.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.records, self.bytes)
    }

    /// Takes all of it and begins anew.
    pub(crate) fn take(&mut self) -> Gathered {
        (self.records, self.bytes) = (0, 0);
        Gathered { kohort: self.kohort.take(), offsets: self.offsets.take() }
    }
}

impl OpenBatches {
    fn push(&mut self, record: &NewRecord<'_>) -> Result<(), BatchError> {
        self.open.get_or_insert_with(|| BatchBuilder::new(0)).push(record)
    }

    fn close_if_full(&mut self) {
        self.full.extend(self.open.take_if(|open| open.size() >= BATCH_BYTES));
    }

    fn take(&mut self) -> Vec<BatchBuilder> {
        let mut all = std::mem::take(&mut self.full);
        all.extend(self.open.take());
        all
    }
}

impl Gathered {
    /// The batches' bytes: those of `__kohort`, then those of `__consumer_offsets`.
    ///
    /// # Errors
    /// When one of them has more bytes than a batch can have.
    pub(crate) fn close(self) -> Result<(Closed, Closed), BatchError> {
        let close = |batches: Vec<BatchBuilder>| {
            let closed = |batch: BatchBuilder| {
                let records = i64::try_from(batch.len()).unwrap_or(i64::MAX);
                Ok((batch.finish()?, records))
            };
            batches.into_iter().map(closed).collect::<Result<Closed, BatchError>>()
        };
        Ok((close(self.kohort)?, close(self.offsets)?))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn tombstone(number: i32) -> GroupRecord {
        let (group, topic) = (Arc::from("g".repeat(1000)), Arc::from("orders"));
        GroupRecord::Offset { group, topic, partition: number, value: None }
    }

    fn gather(records: i32, split: Split) -> Vec<i64> {
        let mut gathering = Gathering::default();
        let mut effects = Effects::default();
        effects.records.extend((0..records).map(tombstone));
        gathering.push(&mut effects, 5, split).expect("there is room");
        assert!(effects.records.is_empty());
        let (kohort, offsets) = gathering.take().close().expect("they are small enough");
        assert!(kohort.is_empty() && gathering.is_empty());
        offsets.into_iter().map(|(_, records)| records).collect()
    }

    /// Proves RT-15.
    #[test]
    fn many_records_are_split_into_batches_unless_they_belong_together() {
        assert_eq!(gather(10, Split::Anywhere), [10]);
        let several = gather(3_000, Split::Anywhere);
        assert!(several.len() == 3 && several.iter().sum::<i64>() == 3_000, "{several:?}");
        assert_eq!(gather(3_000, Split::Never), [3_000]);
    }
}
