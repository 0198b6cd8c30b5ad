//! Records that have crossed a lane once.
//!
//! The broker remembers which records it has sent over a lane, and the gateway keeps them. When another client reads
//! them, or the same one again, they are named instead of sent. Both ends add to their memory in the order of the
//! messages and of the records in each, and what is forgotten the broker says, so the two are in step for as long as
//! the messages of the lane arrive in the order in which they were written. Neither outlives the link.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use coordination::ids::TopicId;

use super::FormatError;
use super::batch_run::BatchRun;
use crate::limits::{APART, KEPT_COUNT, SENT_RECORDS_MAX};

/// What the broker knows of the records that a gateway keeps of one lane. It has their names and not their bytes.
#[derive(Debug, Default)]
pub struct SentRecords {
    most: usize,
    bytes: usize,
    /// In the order in which they were sent, the oldest first.
    order: VecDeque<Name>,
    /// How many there have ever been. The last has this number.
    count: u64,
    known: HashMap<Name, Known>,
    /// How long the records are that were sent last of a place.
    newest: HashMap<Place, usize>,
}

/// What records are known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Name {
    place: Place,
    length: usize,
}

/// Where records begin.
///
/// A topic's id is given once, over all organisations, so no client can be given records of another organisation, nor
/// of a topic that was deleted and had the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    topic: TopicId,
    partition: i32,
    base_offset: i64,
}

/// The newest records that were sent under a name.
#[derive(Clone, Copy, Debug)]
struct Known {
    number: u64,
    digest: u64,
    /// The offset behind them.
    next_offset: i64,
    /// The state of the log's files in which they were seen there last.
    files: u64,
}

/// Records that a gateway keeps, one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AtHand {
    /// Their numbers.
    pub numbers: Vec<u64>,
    /// Their bytes.
    pub bytes: usize,
    /// The offset behind the last.
    pub next_offset: i64,
}

/// What is said of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saying {
    /// They follow, and are not kept.
    Here,
    /// They follow, and are kept.
    Kept,
    /// They are those that were kept so many before the newest.
    Again(u64),
}

impl SentRecords {
    /// For a gateway that offers to keep this many bytes.
    pub fn new(offered: u64) -> Self {
        let most = usize::try_from(offered).unwrap_or(usize::MAX).min(SENT_RECORDS_MAX);
        Self { most, ..Self::default() }
    }

    /// Whether anything is remembered.
    pub fn is_on(&self) -> bool {
        self.most > 0
    }

    /// The records at the front of `pieces`, if these are whole batches.
    pub(super) fn first_run(&self, pieces: &[Bytes]) -> Option<BatchRun> {
        BatchRun::first_of(pieces, self.known.hasher())
    }

    /// Says how records are sent, which is done then.
    pub(super) fn say(&mut self, topic: TopicId, partition: i32, files: u64, run: &BatchRun) -> Saying {
        let &BatchRun { length, base_offset, next_offset, digest, .. } = run;
        // To name few bytes costs as much as to send them. More than there is room for would drive out all others.
        if length < APART || length > self.most {
            return Saying::Here;
        }
        let place = Place { topic, partition, base_offset };
        let name = Name { place, length };
        self.newest.insert(place, length);
        match self.known.get_mut(&name) {
            Some(known) if known.digest == digest => {
                known.files = files;
                return Saying::Again(self.count - known.number);
            }
            _ => {}
        }
        self.count += 1;
        self.known.insert(name, Known { number: self.count, digest, next_offset, files });
        self.order.push_back(name);
        self.bytes += length;
        Saying::Kept
    }

    /// What the gateway keeps of a partition from `offset` on, `most` bytes at most, if it was sent while the log's files
    /// were as they are now.
    pub fn at_hand(&self, topic: TopicId, partition: i32, files: u64, offset: i64, most: usize) -> AtHand {
        let mut found = AtHand { next_offset: offset, ..AtHand::default() };
        loop {
            let place = Place { topic, partition, base_offset: found.next_offset };
            let Some(&length) = self.newest.get(&place) else { return found };
            match self.known.get(&Name { place, length }) {
                Some(known) if known.files == files && found.bytes + length <= most => {
                    found.numbers.push(known.number);
                    found.bytes += length;
                    found.next_offset = known.next_offset;
                }
                _ => return found,
            }
        }
    }

    /// How many were sent behind the records with this number, and their length; nothing if they are forgotten.
    pub(super) fn back(&self, number: u64) -> Option<(u64, usize)> {
        let back = self.count.checked_sub(number)?;
        let place = self.order.len().checked_sub(1)?.checked_sub(usize::try_from(back).ok()?)?;
        Some((back, self.order.get(place)?.length))
    }

    /// Forgets the oldest until the rest is within its bounds. Says how many they were, which the gateway is told at the
    /// end of the message.
    pub(super) fn forget(&mut self) -> u64 {
        let mut forgotten = 0;
        while self.bytes > self.most || self.order.len() > KEPT_COUNT {
            let oldest = self.count - self.order.len() as u64 + 1;
            let Some(name) = self.order.pop_front() else { break };
            self.bytes -= name.length;
            // Others may have been sent under the name since then.
            if self.known.get(&name).is_some_and(|known| known.number == oldest) {
                self.known.remove(&name);
                if self.newest.get(&name.place) == Some(&name.length) {
                    self.newest.remove(&name.place);
                }
            }
            forgotten += 1;
        }
        forgotten
    }
}

/// What a gateway keeps of the records that came over one lane.
#[derive(Debug, Default)]
pub struct KeptRecords {
    most: usize,
    bytes: usize,
    /// The oldest first.
    records: VecDeque<Bytes>,
}

impl KeptRecords {
    /// For a gateway that has offered to keep this many bytes.
    pub fn new(offered: usize) -> Self {
        Self { most: offered, ..Self::default() }
    }

    /// How many bytes are kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps records. What is too much is found at the end of the message, which is bounded itself.
    pub(super) fn keep(&mut self, records: Bytes) -> Result<(), FormatError> {
        if self.most == 0 {
            return Err(FormatError::Bound("the size of kept records", records.len() as u64));
        }
        self.bytes += records.len();
        self.records.push_back(records);
        Ok(())
    }

    /// The records that were kept so many before the newest.
    pub(super) fn again(&self, back: u64) -> Result<Bytes, FormatError> {
        let newest = self.records.len().checked_sub(1);
        let place = newest.and_then(|newest| newest.checked_sub(usize::try_from(back).ok()?));
        let found = place.and_then(|place| self.records.get(place));
        found.cloned().ok_or(FormatError::Bound("the place of kept records", back))
    }

    /// Forgets the oldest, at the end of a message.
    pub(super) fn forget(&mut self, count: u64) -> Result<(), FormatError> {
        let fits = usize::try_from(count).ok().filter(|&count| count <= self.records.len());
        let count = fits.ok_or(FormatError::Bound("the number of forgotten records", count))?;
        self.bytes -= self.records.drain(..count).map(|records| records.len()).sum::<usize>();
        if self.bytes > self.most {
            return Err(FormatError::Bound("the size of kept records", self.bytes as u64));
        }
        if self.records.len() > KEPT_COUNT {
            return Err(FormatError::Bound("the number of kept records", self.records.len() as u64));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: TopicId = TopicId::from_u128(1);

    fn run(base_offset: i64, length: usize, digest: u64) -> BatchRun {
        BatchRun { pieces: 1, length, base_offset, next_offset: base_offset + 10, digest }
    }

    #[test]
    fn records_are_named_by_their_distance_from_the_newest() {
        let mut sent = SentRecords::new(1 << 20);
        let runs = [run(0, 2000, 1), run(10, 3000, 2), run(20, 4000, 3)];
        for run in &runs {
            assert_eq!(sent.say(TOPIC, 0, 0, run), Saying::Kept);
        }
        let again = runs.map(|run| sent.say(TOPIC, 0, 0, &run));
        assert_eq!(again, [Saying::Again(2), Saying::Again(1), Saying::Again(0)]);
        assert_eq!(sent.forget(), 0);
    }

    #[test]
    fn what_differs_in_anything_is_sent() {
        let mut sent = SentRecords::new(1 << 20);
        let first = run(7, 2000, 1);
        assert_eq!(sent.say(TOPIC, 0, 0, &first), Saying::Kept);
        assert_eq!(sent.say(TopicId::from_u128(2), 0, 0, &first), Saying::Kept, "another topic");
        assert_eq!(sent.say(TOPIC, 1, 0, &first), Saying::Kept, "another partition");
        assert_eq!(sent.say(TOPIC, 0, 0, &run(8, 2000, 1)), Saying::Kept, "another offset");
        assert_eq!(sent.say(TOPIC, 0, 0, &run(7, 2001, 1)), Saying::Kept, "another length");
        assert_eq!(sent.say(TOPIC, 0, 0, &first), Saying::Again(4));
        let rewritten = run(7, 2000, 2);
        assert_eq!(sent.say(TOPIC, 0, 0, &rewritten), Saying::Kept, "other headers");
        assert_eq!(sent.say(TOPIC, 0, 0, &rewritten), Saying::Again(0));
        assert_eq!(sent.say(TOPIC, 0, 0, &first), Saying::Kept, "what was before is not known any more");
    }

    #[test]
    fn the_oldest_are_forgotten_first_and_are_sent_again() {
        let mut sent = SentRecords::new(5000);
        let runs = [run(0, 2000, 1), run(10, 2000, 2), run(20, 2000, 3)];
        for run in &runs {
            assert_eq!(sent.say(TOPIC, 0, 0, run), Saying::Kept);
        }
        assert_eq!(sent.forget(), 1);
        assert_eq!(sent.say(TOPIC, 0, 0, &runs[1]), Saying::Again(1));
        assert_eq!(sent.say(TOPIC, 0, 0, &runs[0]), Saying::Kept);
        assert_eq!(sent.forget(), 1);
        assert_eq!(sent.known.len(), 2);
    }

    #[test]
    fn a_name_that_was_given_again_outlives_the_oldest_that_had_it() {
        let mut sent = SentRecords::new(5000);
        assert_eq!(sent.say(TOPIC, 0, 0, &run(0, 2000, 1)), Saying::Kept);
        assert_eq!(sent.say(TOPIC, 0, 0, &run(0, 2000, 2)), Saying::Kept);
        assert_eq!(sent.say(TOPIC, 0, 0, &run(9, 2000, 3)), Saying::Kept);
        assert_eq!(sent.forget(), 1);
        assert_eq!(sent.say(TOPIC, 0, 0, &run(0, 2000, 2)), Saying::Again(1));
    }

    #[test]
    fn what_a_gateway_has_is_found_from_an_offset_on_as_far_as_it_goes() {
        let mut sent = SentRecords::new(1 << 20);
        for offset in [0, 10, 20, 40] {
            assert_eq!(sent.say(TOPIC, 0, 3, &run(offset, 2000, 1)), Saying::Kept);
        }
        let found = |offset, most| sent.at_hand(TOPIC, 0, 3, offset, most);
        let all = AtHand { numbers: vec![1, 2, 3], bytes: 6000, next_offset: 30 };
        assert_eq!(found(0, 9000), all, "up to what was never sent");
        assert_eq!(found(10, 3999), AtHand { numbers: vec![2], bytes: 2000, next_offset: 20 });
        assert_eq!(found(10, 4000), AtHand { numbers: vec![2, 3], bytes: 4000, next_offset: 30 });
        for offset in [5, 30, 50, -1, i64::MAX] {
            assert_eq!(found(offset, 9000), AtHand { next_offset: offset, ..AtHand::default() });
        }
        assert_eq!(sent.at_hand(TOPIC, 1, 3, 0, 9000).bytes, 0, "another partition");
        assert_eq!(sent.at_hand(TopicId::from_u128(2), 0, 3, 0, 9000).bytes, 0, "another topic");
        assert_eq!(sent.back(1), Some((3, 2000)));
        assert_eq!(sent.back(4), Some((0, 2000)));
        assert_eq!((sent.back(0), sent.back(5)), (None, None));
    }

    #[test]
    fn what_was_sent_before_files_changed_is_at_hand_again_when_it_was_seen_in_them() {
        let mut sent = SentRecords::new(1 << 20);
        assert_eq!(sent.say(TOPIC, 0, 3, &run(0, 2000, 1)), Saying::Kept);
        assert_eq!(sent.at_hand(TOPIC, 0, 4, 0, 9000).bytes, 0);
        assert_eq!(sent.say(TOPIC, 0, 4, &run(0, 2000, 1)), Saying::Again(0));
        assert_eq!(sent.at_hand(TOPIC, 0, 4, 0, 9000).bytes, 2000);
        assert_eq!(sent.say(TOPIC, 0, 5, &run(0, 2000, 2)), Saying::Kept, "written anew");
        assert_eq!(sent.at_hand(TOPIC, 0, 5, 0, 9000).numbers, [2]);
    }

    #[test]
    fn readers_who_take_different_amounts_do_not_make_each_other_forget() {
        let mut sent = SentRecords::new(1 << 20);
        let (much, little) = (run(0, 4000, 1), run(0, 2000, 2));
        assert_eq!(sent.say(TOPIC, 0, 0, &much), Saying::Kept);
        assert_eq!(sent.say(TOPIC, 0, 0, &little), Saying::Kept);
        assert_eq!(sent.at_hand(TOPIC, 0, 0, 0, 9000).numbers, [2], "what was sent last");
        for _ in 0..2 {
            assert_eq!(sent.say(TOPIC, 0, 0, &much), Saying::Again(1));
            assert_eq!(sent.at_hand(TOPIC, 0, 0, 0, 9000).numbers, [1]);
            assert_eq!(sent.say(TOPIC, 0, 0, &little), Saying::Again(0));
        }
    }

    #[test]
    fn what_is_forgotten_is_not_at_hand() {
        let mut sent = SentRecords::new(5000);
        for offset in [0, 10, 20] {
            assert_eq!(sent.say(TOPIC, 0, 0, &run(offset, 2000, 1)), Saying::Kept);
        }
        assert_eq!(sent.back(1), Some((2, 2000)), "until the end of the message");
        assert_eq!(sent.forget(), 1);
        assert_eq!(sent.back(1), None);
        assert_eq!(sent.at_hand(TOPIC, 0, 0, 0, 9000).bytes, 0);
        assert_eq!(sent.at_hand(TOPIC, 0, 0, 10, 9000).numbers, [2, 3]);
    }

    #[test]
    fn small_and_huge_records_are_not_kept_and_nothing_is_without_room() {
        let mut sent = SentRecords::new(5000);
        assert_eq!(sent.say(TOPIC, 0, 0, &run(0, APART - 1, 1)), Saying::Here);
        assert_eq!(sent.say(TOPIC, 0, 0, &run(0, 5001, 1)), Saying::Here);
        assert!(!SentRecords::new(0).is_on());
        assert_eq!(SentRecords::new(0).say(TOPIC, 0, 0, &run(0, 2000, 1)), Saying::Here);
        assert_eq!(SentRecords::new(u64::MAX).most, SENT_RECORDS_MAX);
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let mut sent = SentRecords::new(u64::MAX);
        let more = 3;
        for offset in 0..i64::try_from(KEPT_COUNT).expect("it fits") + more {
            assert_eq!(sent.say(TOPIC, 0, 0, &run(offset, APART, 1)), Saying::Kept);
        }
        assert_eq!(sent.forget(), 3);
        assert_eq!(
            (sent.order.len(), sent.known.len(), sent.newest.len()),
            (KEPT_COUNT, KEPT_COUNT, KEPT_COUNT)
        );
    }

    #[test]
    fn a_gateway_keeps_what_it_offered_and_no_more() {
        let mut kept = KeptRecords::new(10);
        for size in [4, 5, 6] {
            kept.keep(Bytes::from(vec![0; size])).expect("within the message");
        }
        assert_eq!(kept.again(2).map(|records| records.len()), Ok(4));
        assert!(kept.again(3).is_err() && kept.again(u64::MAX).is_err());
        assert_eq!(kept.forget(1), Err(FormatError::Bound("the size of kept records", 11)));
        assert_eq!(kept.forget(1), Ok(()));
        assert_eq!(kept.bytes(), 6);
        assert_eq!(kept.forget(2), Err(FormatError::Bound("the number of forgotten records", 2)));
        assert!(KeptRecords::new(0).keep(Bytes::new()).is_err(), "it offered nothing");
    }

    #[test]
    fn records_of_no_bytes_cannot_fill_a_gateway() {
        let mut kept = KeptRecords::new(1);
        for _ in 0..=KEPT_COUNT {
            kept.keep(Bytes::new()).expect("within the message");
        }
        assert!(kept.forget(0).is_err());
        assert_eq!(kept.forget(1), Ok(()));
    }
}
