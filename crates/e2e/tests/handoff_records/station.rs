//! What a consumer with state does, however it gets its partitions: counts words, and reads the last records again to
//! have the counts of a partition that it has not had before.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{Offset, TopicPartitionList};

use crate::world::{PATIENCE, lock, now_us};

/// How many records of a partition are read in a second to rebuild its state. It is what a store across a network might
/// give; as fast as it goes, those who rebuild would take the processor from those who work, since all share a machine.
const REBUILT_PER_SECOND: f64 = 5_000.0;

/// How often offsets are committed while work goes on.
pub(crate) const COMMIT_INTERVAL: Duration = Duration::from_millis(500);

/// Where a group reads, and where what it does is written down.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) bootstrap: String,
    pub(crate) topic: &'static str,
    pub(crate) group: String,
    /// A state is that of so many records.
    pub(crate) window: i64,
    pub(crate) log: Log,
}

/// What all members of a group have worked on, for each partition in order. Clones share.
#[derive(Clone)]
pub(crate) struct Log(Arc<Vec<Mutex<Vec<Seen>>>>);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) offset: i64,
    pub(crate) who: usize,
    pub(crate) at_us: u64,
}

/// One member's own state. Clones share.
#[derive(Clone)]
pub(crate) struct Station(Arc<Shared>);

struct Shared {
    who: usize,
    place: Place,
    /// Asks for offsets and belongs to no group.
    asker: BaseConsumer,
    /// Kept when a partition goes, as a store on disk would be.
    states: Mutex<BTreeMap<i32, Arc<Mutex<State>>>>,
}

#[derive(Default)]
struct State {
    next: i64,
    counts: HashMap<String, u64>,
}

impl State {
    /// Counts a record unless it is counted already.
    fn add(&mut self, offset: i64, payload: &[u8]) {
        if offset < self.next {
            return;
        }
        self.next = offset + 1;
        for word in String::from_utf8_lossy(payload).split(' ') {
            match self.counts.get_mut(word) {
                Some(count) => *count += 1,
                None => {
                    self.counts.insert(word.to_owned(), 1);
                }
            }
        }
    }
}

impl Station {
    pub(crate) fn new(who: usize, place: &Place) -> Self {
        let asker = place.config().create().unwrap();
        Self(Arc::new(Shared { who, place: place.clone(), asker, states: Mutex::default() }))
    }

    pub(crate) fn who(&self) -> usize {
        self.0.who
    }

    fn state(&self, partition: i32) -> Arc<Mutex<State>> {
        Arc::clone(lock(&self.0.states).entry(partition).or_default())
    }

    /// The first offset that is not in the state.
    pub(crate) fn next(&self, partition: i32) -> i64 {
        lock(&self.state(partition)).next
    }

    /// Counts a record that another has worked on.
    pub(crate) fn count(&self, partition: i32, offset: i64, payload: &[u8]) {
        lock(&self.state(partition)).add(offset, payload);
    }

    /// Works on a record.
    pub(crate) fn work_on(&self, partition: i32, offset: i64, payload: &[u8]) {
        self.count(partition, offset, payload);
        let seen = Seen { offset, who: self.0.who, at_us: now_us() };
        lock(&self.0.place.log.0[usize::try_from(partition).unwrap()]).push(seen);
    }

    /// Counts the last records that others have worked on, up to an offset or until there `is_no_need` any more.
    pub(crate) fn rebuild(&self, partition: i32, to: i64, is_no_need: impl Fn(i64) -> bool) {
        let state = self.state(partition);
        let from = lock(&state).next.max(to - self.0.place.window);
        if from >= to {
            return;
        }
        let started = Instant::now();
        let consumer: BaseConsumer = self.0.place.config().create().unwrap();
        consumer.assign(&self.at(partition, Offset::Offset(from))).unwrap();
        loop {
            let record = consumer.poll(PATIENCE).expect("a record comes").unwrap();
            if record.offset() >= to {
                return;
            }
            lock(&state).add(record.offset(), record.payload().unwrap_or_default());
            if record.offset() + 1 == to {
                return;
            }
            if record.offset() % 50 == 0 {
                if is_no_need(record.offset()) {
                    return;
                }
                let due = Duration::from_secs_f64((record.offset() - from) as f64 / REBUILT_PER_SECOND);
                thread::sleep(due.saturating_sub(started.elapsed()));
            }
        }
    }

    /// Where the group is in this partition.
    pub(crate) fn committed(&self, partition: i32) -> i64 {
        let asked = self.at(partition, Offset::Invalid);
        let answered = self.0.asker.committed_offsets(asked, PATIENCE).unwrap();
        match answered.find_partition(self.0.place.topic, partition).map(|it| it.offset()) {
            Some(Offset::Offset(offset)) => offset,
            other => panic!("no offset is committed for partition {partition}: {other:?}"),
        }
    }

    /// A partition at an offset, as rdkafka wants it.
    pub(crate) fn at(&self, partition: i32, offset: Offset) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(self.0.place.topic, partition, offset).unwrap();
        list
    }

    /// These partitions at the offsets up to which this station has worked on them.
    pub(crate) fn progress(&self, partitions: impl IntoIterator<Item = i32>) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            let offset = Offset::Offset(self.next(partition));
            list.add_partition_offset(self.0.place.topic, partition, offset).unwrap();
        }
        list
    }
}

impl Place {
    pub(crate) fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap).set("group.id", &self.group);
        config.set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
        config
    }

    /// Makes the group begin at this offset in all partitions.
    pub(crate) fn begin_at(&self, offset: i64) -> KafkaResult<()> {
        let consumer: BaseConsumer = self.config().create()?;
        let mut list = TopicPartitionList::new();
        for partition in 0..self.log.0.len() {
            let partition = i32::try_from(partition).unwrap();
            list.add_partition_offset(self.topic, partition, Offset::Offset(offset))?;
        }
        consumer.commit(&list, CommitMode::Sync)
    }
}

impl Log {
    pub(crate) fn new(partitions: usize) -> Self {
        Self(Arc::new((0..partitions).map(|_| Mutex::default()).collect()))
    }

    /// The last record of each partition that was worked on.
    pub(crate) fn last(&self) -> Vec<Option<Seen>> {
        self.0.iter().map(|seen| lock(seen).last().copied()).collect()
    }

    /// All that was worked on, for each partition.
    pub(crate) fn all(&self) -> Vec<Vec<Seen>> {
        self.0.iter().map(|seen| lock(seen).clone()).collect()
    }
}

/// What a record holds, and where it was.
pub(crate) fn owned(record: &BorrowedMessage<'_>) -> (i32, i64, Vec<u8>) {
    (record.partition(), record.offset(), record.payload().unwrap_or_default().to_vec())
}
