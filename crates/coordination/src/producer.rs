//! Which idempotent producers have written to a partition, and what they may write next.
//!
//! The rules are those of Kafka's ProducerStateManager for producers without transactions. The broker asks
//! [`ProducerTable::check`] and, if the batch is to be appended, tells [`ProducerTable::observe`]; recovery
//! tells the same for every batch it reads, so the table is always what the log makes it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many batches of each producer are remembered, as in Kafka: a client may have five requests in flight
/// and send each of them again.
pub const BATCHES_REMEMBERED: usize = 5;

/// How many producers one partition remembers; beyond it the longest idle one is forgotten.
///
/// A producer id costs its sender nothing, and up to 300 bytes here. A forgotten producer goes on unhindered:
/// only a batch that it repeats after that long would be appended twice.
pub const PRODUCERS_PER_PARTITION_MAX: usize = 4_096;

/// The epoch of a producer that has none, whose sequences Kafka does not check.
const NO_EPOCH: i16 = -1;

/// What an idempotent producer says about its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerBatch {
    /// The producer's id, from 0.
    pub producer_id: i64,
    /// The producer's epoch.
    pub epoch: i16,
    /// The sequence number of the first record.
    pub first_sequence: i32,
    /// The sequence number of the last record; smaller than the first where sequences have wrapped.
    pub last_sequence: i32,
}

/// Where a batch is in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchPlace {
    /// The offset of the first record.
    pub base_offset: i64,
    /// The offset of the last record.
    pub last_offset: i64,
    /// The batch's largest timestamp, which Kafka reports for a duplicate as the time of its append.
    pub timestamp: i64,
}

/// What is to be done with a producer's batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// Append it, then [`ProducerTable::observe`] it.
    Append,
    /// It is already in the log: answer with where it is, and append nothing.
    Duplicate(BatchPlace),
    /// A batch before it is missing: OUT_OF_ORDER_SEQUENCE_NUMBER (45).
    OutOfOrder,
    /// A newer producer has taken over this id: INVALID_PRODUCER_EPOCH (47).
    StaleEpoch,
}

/// The idempotent producers of one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProducerTable {
    producers: BTreeMap<i64, Producer>,
    /// Time of the last append and producer id of every producer, so that the longest idle one is the first.
    by_idleness: BTreeSet<(i64, i64)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Producer {
    epoch: i16,
    last_append_ms: i64,
    /// The last batches of this epoch, oldest first; never empty.
    batches: VecDeque<Remembered>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Remembered {
    first_sequence: i32,
    last_sequence: i32,
    place: BatchPlace,
}

impl ProducerTable {
    /// Says what is to be done with `batch`, and changes nothing.
    ///
    /// A producer that this partition does not know may begin with any sequence (KIP-360): its earlier
    /// batches may have been deleted, or it may have been idle for too long.
    pub fn check(&self, batch: &ProducerBatch) -> Decision {
        let known = self.producers.get(&batch.producer_id);
        let known_epoch = known.map_or(NO_EPOCH, |known| known.epoch);
        if batch.epoch < known_epoch {
            return Decision::StaleEpoch;
        }
        let mut batches = known.iter().flat_map(|known| &known.batches);
        if batch.epoch == known_epoch
            && let Some(same) = batches.clone().find(|remembered| remembered.is(batch))
        {
            return Decision::Duplicate(same.place);
        }
        let expected = match batches.next_back() {
            _ if known_epoch == NO_EPOCH => return Decision::Append,
            Some(last) if batch.epoch == known_epoch => next_sequence(last.last_sequence),
            // The producer has begun anew after an error, and so must its sequences.
            _ => 0,
        };
        if batch.first_sequence == expected { Decision::Append } else { Decision::OutOfOrder }
    }

    /// Makes it true that `batch` is in the log at `place`, appended at `now_ms`.
    ///
    /// The log is right: nothing is checked here.
    pub fn observe(&mut self, batch: &ProducerBatch, place: BatchPlace, now_ms: i64) {
        let remembered =
            Remembered { first_sequence: batch.first_sequence, last_sequence: batch.last_sequence, place };
        match self.producers.get_mut(&batch.producer_id) {
            Some(known) => {
                if known.epoch != batch.epoch {
                    known.epoch = batch.epoch;
                    known.batches.clear();
                }
                if known.batches.len() == BATCHES_REMEMBERED {
                    known.batches.pop_front();
                }
                known.batches.push_back(remembered);
                if known.last_append_ms != now_ms {
                    self.by_idleness.remove(&(known.last_append_ms, batch.producer_id));
                    self.by_idleness.insert((now_ms, batch.producer_id));
                    known.last_append_ms = now_ms;
                }
            }
            None => {
                self.insert(
                    batch.producer_id,
                    Producer { epoch: batch.epoch, last_append_ms: now_ms, batches: [remembered].into() },
                );
                self.forget_beyond_bound(batch.producer_id);
            }
        }
    }

    /// Forgets the producers that have appended nothing for `after_ms` and says how many there were.
    pub fn expire(&mut self, now_ms: i64, after_ms: i64) -> usize {
        let mut expired = 0;
        while let Some(&(last_append_ms, producer_id)) = self.by_idleness.first()
            && now_ms.saturating_sub(last_append_ms) >= after_ms
        {
            self.forget(last_append_ms, producer_id);
            expired += 1;
        }
        expired
    }

    /// How many producers are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.producers.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    fn insert(&mut self, producer_id: i64, producer: Producer) {
        self.by_idleness.insert((producer.last_append_ms, producer_id));
        self.producers.insert(producer_id, producer);
    }

    fn forget(&mut self, last_append_ms: i64, producer_id: i64) {
        self.by_idleness.remove(&(last_append_ms, producer_id));
        self.producers.remove(&producer_id);
    }

    /// Forgets the longest idle producers beyond the bound, but not the one that has just come.
    fn forget_beyond_bound(&mut self, newcomer: i64) {
        while self.producers.len() > PRODUCERS_PER_PARTITION_MAX {
            // The newcomer is first only if the clock has gone back; its batch is in the log all the same.
            let idle = self.by_idleness.iter().find(|(_, producer_id)| *producer_id != newcomer).copied();
            let Some((last_append_ms, producer_id)) = idle else { return };
            self.forget(last_append_ms, producer_id);
        }
    }
}

impl Remembered {
    fn is(&self, batch: &ProducerBatch) -> bool {
        (self.first_sequence, self.last_sequence) == (batch.first_sequence, batch.last_sequence)
    }
}

fn next_sequence(last: i32) -> i32 {
    last.checked_add(1).unwrap_or(0)
}

/// The version that [`ProducerTable::encode`] writes.
const VERSION: u8 = 1;

/// Why bytes are not a producer table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProducerTableError {
    /// Written by a later Kohort than this.
    #[error("producer table of version {0}, which this version cannot read")]
    Version(u8),
    /// The bytes end too soon.
    #[error("producer table is cut off")]
    Truncated,
    /// The bytes say what cannot be.
    #[error("producer table is malformed: {0}")]
    Malformed(&'static str),
}

impl ProducerTable {
    /// The whole table as bytes, the same for the same table.
    ///
    /// Big-endian: version u8, count u32, then by ascending id: id i64, epoch i16, last append i64, number of
    /// batches u8, and for each the first and last sequence i32, base offset i64, last offset i64, timestamp i64.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let batches: usize = self.producers.values().map(|producer| producer.batches.len()).sum();
        let mut bytes = Vec::with_capacity(5 + self.producers.len() * 19 + batches * 32);
        bytes.push(VERSION);
        let count = u32::try_from(self.producers.len()).expect("the number of producers is bounded");
        bytes.extend_from_slice(&count.to_be_bytes());
        for (producer_id, producer) in &self.producers {
            bytes.extend_from_slice(&producer_id.to_be_bytes());
            bytes.extend_from_slice(&producer.epoch.to_be_bytes());
            bytes.extend_from_slice(&producer.last_append_ms.to_be_bytes());
            bytes.push(u8::try_from(producer.batches.len()).expect("few batches are remembered"));
            for batch in &producer.batches {
                bytes.extend_from_slice(&batch.first_sequence.to_be_bytes());
                bytes.extend_from_slice(&batch.last_sequence.to_be_bytes());
                bytes.extend_from_slice(&batch.place.base_offset.to_be_bytes());
                bytes.extend_from_slice(&batch.place.last_offset.to_be_bytes());
                bytes.extend_from_slice(&batch.place.timestamp.to_be_bytes());
            }
        }
        bytes
    }

    /// The table that [`Self::encode`] has made these bytes of.
    ///
    /// # Errors
    /// When there is none. Whether the bytes are those that were written is for their keeper's checksum to say.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProducerTableError> {
        let mut left = bytes;
        let [version] = take(&mut left)?;
        if version != VERSION {
            return Err(ProducerTableError::Version(version));
        }
        let count = u32::from_be_bytes(take(&mut left)?);
        let mut table = Self::default();
        for _ in 0..count {
            let producer_id = i64::from_be_bytes(take(&mut left)?);
            if table.producers.last_key_value().is_some_and(|(last, _)| *last >= producer_id) {
                return Err(ProducerTableError::Malformed("producers are out of order"));
            }
            let epoch = i16::from_be_bytes(take(&mut left)?);
            let last_append_ms = i64::from_be_bytes(take(&mut left)?);
            let [batch_count] = take(&mut left)?;
            if batch_count == 0 || usize::from(batch_count) > BATCHES_REMEMBERED {
                return Err(ProducerTableError::Malformed("number of batches"));
            }
            let mut batches = VecDeque::with_capacity(BATCHES_REMEMBERED);
            for _ in 0..batch_count {
                batches.push_back(Remembered {
                    first_sequence: i32::from_be_bytes(take(&mut left)?),
                    last_sequence: i32::from_be_bytes(take(&mut left)?),
                    place: BatchPlace {
                        base_offset: i64::from_be_bytes(take(&mut left)?),
                        last_offset: i64::from_be_bytes(take(&mut left)?),
                        timestamp: i64::from_be_bytes(take(&mut left)?),
                    },
                });
            }
            table.insert(producer_id, Producer { epoch, last_append_ms, batches });
        }
        if left.is_empty() { Ok(table) } else { Err(ProducerTableError::Malformed("bytes remain")) }
    }
}

fn take<const N: usize>(left: &mut &[u8]) -> Result<[u8; N], ProducerTableError> {
    let (field, rest) = left.split_first_chunk::<N>().ok_or(ProducerTableError::Truncated)?;
    *left = rest;
    Ok(*field)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY_MS: i64 = 86_400_000;

    fn batch(producer_id: i64, epoch: i16, sequences: (i32, i32)) -> ProducerBatch {
        ProducerBatch { producer_id, epoch, first_sequence: sequences.0, last_sequence: sequences.1 }
    }

    fn place(base_offset: i64, last_offset: i64) -> BatchPlace {
        BatchPlace { base_offset, last_offset, timestamp: 1_000 + last_offset }
    }

    /// Runs a script, a batch to a line: `producer epoch first last`, and says what became of each.
    fn run(script: &str) -> String {
        let mut table = ProducerTable::default();
        let mut end = 0;
        let mut story = String::new();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let fields: Vec<i64> = line.split(' ').map(|field| field.parse().unwrap()).collect();
            let [producer_id, epoch, first, last] = fields[..] else { panic!("four fields in {line}") };
            let batch = batch(
                producer_id,
                epoch.try_into().unwrap(),
                (first.try_into().unwrap(), last.try_into().unwrap()),
            );
            let told = match table.check(&batch) {
                Decision::Append => {
                    let records =
                        i64::from(batch.last_sequence.wrapping_sub(batch.first_sequence) & i32::MAX) + 1;
                    table.observe(&batch, place(end, end + records - 1), 0);
                    end += records;
                    format!("append at {}", end - records)
                }
                Decision::Duplicate(place) => {
                    format!("duplicate of {}-{}", place.base_offset, place.last_offset)
                }
                Decision::OutOfOrder => "out of order".to_owned(),
                Decision::StaleEpoch => "stale epoch".to_owned(),
            };
            story.push_str(&format!("{line}: {told}\n"));
        }
        story
    }

    #[track_caller]
    fn check(script_and_story: &str) {
        let story: String = script_and_story
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(|line| format!("{line}\n"))
            .collect();
        let script: String =
            story.lines().map(|line| format!("{}\n", line.split(':').next().unwrap())).collect();
        assert_eq!(run(&script), story);
    }

    #[test]
    fn sequences_follow_one_another() {
        check(
            "1 0 0 9: append at 0
             1 0 10 10: append at 10
             1 0 12 12: out of order
             1 0 11 12: append at 11
             2 0 0 0: append at 13
             1 0 13 13: append at 14",
        );
    }

    #[test]
    fn a_repeated_batch_is_answered_with_its_place() {
        check(
            "1 0 0 4: append at 0
             1 0 5 9: append at 5
             1 0 0 4: duplicate of 0-4
             1 0 5 9: duplicate of 5-9
             1 0 0 9: out of order
             1 0 5 8: out of order
             1 0 10 10: append at 10",
        );
    }

    #[test]
    fn the_last_five_batches_are_remembered() {
        check(
            "1 0 0 0: append at 0
             1 0 1 1: append at 1
             1 0 2 2: append at 2
             1 0 3 3: append at 3
             1 0 4 4: append at 4
             1 0 0 0: duplicate of 0-0
             1 0 5 5: append at 5
             1 0 0 0: out of order
             1 0 1 1: duplicate of 1-1",
        );
    }

    #[test]
    fn a_new_epoch_begins_at_zero_and_ends_the_old_one() {
        check(
            "1 0 0 0: append at 0
             1 1 1 1: out of order
             1 1 0 0: append at 1
             1 1 0 0: duplicate of 1-1
             1 0 1 1: stale epoch
             1 0 0 0: stale epoch
             1 7 0 2: append at 2",
        );
    }

    #[test]
    fn an_unknown_producer_may_begin_anywhere() {
        check(
            "1 3 17 18: append at 0
             1 3 17 18: duplicate of 0-1
             1 3 0 0: out of order
             1 3 19 19: append at 2",
        );
    }

    #[test]
    fn sequences_without_an_epoch_are_not_checked() {
        check(
            "1 -1 5 5: append at 0
             1 -1 9 9: append at 1
             1 -1 9 9: duplicate of 1-1
             1 -2 10 10: stale epoch
             1 0 77 77: append at 2
             1 -1 10 10: stale epoch
             2 -2 0 0: stale epoch",
        );
    }

    #[test]
    fn sequences_go_on_from_zero_after_the_largest() {
        check(
            "1 0 2147483646 2147483647: append at 0
             1 0 0 0: append at 2
             2 0 2147483647 1: append at 3
             2 0 2147483647 1: duplicate of 3-5
             2 0 2 2: append at 6",
        );
    }

    #[test]
    fn an_idle_producer_is_forgotten_and_may_begin_anywhere() {
        let mut table = ProducerTable::default();
        table.observe(&batch(1, 5, (0, 0)), place(0, 0), 0);
        table.observe(&batch(2, 5, (0, 0)), place(1, 1), 1);
        assert_eq!(table.expire(DAY_MS - 1, DAY_MS), 0);
        assert_eq!(table.expire(DAY_MS, DAY_MS), 1);
        assert_eq!(table.len(), 1);
        assert_eq!(table.check(&batch(1, 0, (44, 44))), Decision::Append);
        assert_eq!(table.check(&batch(2, 0, (44, 44))), Decision::StaleEpoch);

        table.observe(&batch(2, 5, (1, 1)), place(2, 2), DAY_MS);
        assert_eq!(table.expire(DAY_MS + 1, DAY_MS), 0);
    }

    #[test]
    fn beyond_the_bound_the_longest_idle_producer_is_forgotten() {
        let mut table = ProducerTable::default();
        let bound = i64::try_from(PRODUCERS_PER_PARTITION_MAX).unwrap();
        for id in 0..bound {
            table.observe(&batch(id, 0, (0, 0)), place(id, id), id);
        }
        table.observe(&batch(0, 0, (1, 1)), place(bound, bound), bound);
        table.observe(&batch(bound, 0, (0, 0)), place(bound + 1, bound + 1), bound);
        assert_eq!(table.len(), PRODUCERS_PER_PARTITION_MAX);
        assert_eq!(table.check(&batch(1, 0, (9, 9))), Decision::Append, "1 was the longest idle");
        assert_eq!(table.check(&batch(0, 0, (9, 9))), Decision::OutOfOrder);

        // A clock that has gone back makes the newcomer look idle; it is remembered all the same.
        table.observe(&batch(-1, 0, (0, 0)), place(0, 0), -5);
        assert_eq!(table.len(), PRODUCERS_PER_PARTITION_MAX);
        assert_eq!(table.check(&batch(-1, 0, (9, 9))), Decision::OutOfOrder);
    }

    fn observed() -> impl Strategy<Value = ProducerTable> {
        let batch = (0..20_i64, any::<i16>(), any::<i32>(), any::<i32>(), any::<[i64; 4]>());
        prop::collection::vec(batch, 0..100).prop_map(|batches| {
            let mut table = ProducerTable::default();
            for (
                producer_id,
                epoch,
                first_sequence,
                last_sequence,
                [base_offset, last_offset, timestamp, now],
            ) in batches
            {
                let batch = ProducerBatch { producer_id, epoch: epoch % 3, first_sequence, last_sequence };
                table.observe(&batch, BatchPlace { base_offset, last_offset, timestamp }, now);
            }
            table
        })
    }

    proptest! {
        #[test]
        fn every_table_comes_back(table in observed()) {
            prop_assert_eq!(ProducerTable::decode(&table.encode()), Ok(table));
        }

        #[test]
        fn a_cut_table_is_refused(table in observed(), cut: prop::sample::Index) {
            let bytes = table.encode();
            let cut = cut.index(bytes.len());
            prop_assert_eq!(ProducerTable::decode(&bytes[..cut]), Err(ProducerTableError::Truncated));
        }

        #[test]
        fn any_bytes_get_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = ProducerTable::decode(&bytes);
            let _ = ProducerTable::decode(&[&[VERSION, 0, 0, 0, 2][..], &bytes].concat());
        }

        // A network that loses answers and lets requests overtake one another: the client sends its
        // unanswered batches again, and each must be in the log once and in order.
        #[test]
        fn each_batch_is_appended_once_and_in_order(
            sizes in prop::collection::vec(1..4_i32, 1..30),
            begins in prop_oneof![Just(0), Just(i32::MAX - 20)],
            picks in prop::collection::vec((0..BATCHES_REMEMBERED, any::<bool>()), 0..400),
        ) {
            let mut first = begins;
            let mut waiting: VecDeque<(ProducerBatch, Option<i64>)> = sizes.iter().map(|size| {
                let last = first.wrapping_add(size - 1) & i32::MAX;
                let sent = batch(1, 0, (first, last));
                first = next_sequence(last);
                (sent, None)
            }).collect();
            let sent: Vec<_> = waiting.iter().map(|(batch, _)| *batch).collect();

            let mut table = ProducerTable::default();
            // The first batch is known to be in the log before others follow, as clients see to.
            let (begun, _) = waiting.pop_front().expect("there is at least one batch");
            let mut log = vec![begun];
            table.observe(&begun, place(0, 0), 0);
            for (pick, answered) in picks {
                let in_flight = waiting.len().min(BATCHES_REMEMBERED);
                if in_flight == 0 {
                    break;
                }
                let (batch, offset) = &mut waiting[pick % in_flight];
                match table.check(batch) {
                    Decision::Append => {
                        let at = i64::try_from(log.len()).expect("a short log");
                        table.observe(batch, place(at, at), at);
                        log.push(*batch);
                        *offset = Some(at);
                    }
                    Decision::Duplicate(place) => prop_assert_eq!(Some(place.base_offset), *offset),
                    Decision::OutOfOrder => prop_assert_eq!(*offset, None),
                    Decision::StaleEpoch => prop_assert!(false, "there is one epoch"),
                }
                while answered && waiting.front().is_some_and(|(_, offset)| offset.is_some()) {
                    waiting.pop_front();
                }
            }
            prop_assert_eq!(&log[..], &sent[..log.len()]);
        }
    }

    #[test]
    fn a_table_of_a_later_version_is_refused_by_name() {
        assert_eq!(ProducerTable::decode(&[9]), Err(ProducerTableError::Version(9)));
        assert_eq!(
            ProducerTable::decode(&[1, 0, 0, 0, 0, 0]),
            Err(ProducerTableError::Malformed("bytes remain"))
        );
    }

    #[test]
    fn the_format_is_what_it_was() {
        let mut table = ProducerTable::default();
        table.observe(
            &batch(258, 3, (5, 6)),
            BatchPlace { base_offset: 7, last_offset: 8, timestamp: 9 },
            10,
        );
        let golden = [
            &[1, 0, 0, 0, 1][..],
            &[0, 0, 0, 0, 0, 0, 1, 2, 0, 3, 0, 0, 0, 0, 0, 0, 0, 10, 1],
            &[0, 0, 0, 5, 0, 0, 0, 6],
            &[0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9],
        ]
        .concat();
        assert_eq!(table.encode(), golden);
        assert_eq!(ProducerTable::decode(&golden), Ok(table));
    }
}
