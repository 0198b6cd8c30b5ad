//! A consumer of librdkafka that moves only when the test polls it, and remembers all that it was told.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

/// How long anything may take; reached only when it does not happen at all.
const PATIENCE: Duration = Duration::from_secs(30);

/// Topics and partitions.
pub(crate) type Partitions = BTreeSet<(String, i32)>;

/// These partitions of a topic.
pub(crate) fn partitions(topic: &str, numbers: Range<i32>) -> Partitions {
    numbers.map(|number| (topic.to_owned(), number)).collect()
}

/// Polls all readers again and again until `holds`.
pub(crate) fn until(what: &str, readers: &[&Reader], mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    loop {
        for reader in readers {
            reader.poll();
        }
        if holds() {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "waited too long until {what}: {readers:#?}");
        if readers.is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A consumer.
pub(crate) struct Reader {
    pub(crate) consumer: BaseConsumer<Diary>,
    records: RefCell<Vec<Record>>,
    troubles: RefCell<Vec<KafkaError>>,
}

/// A record that was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) value: String,
}

impl Reader {
    pub(crate) fn new(config: &ClientConfig) -> Self {
        let consumer = config.create_with_context(Diary::default()).unwrap();
        Self { consumer, records: RefCell::default(), troubles: RefCell::default() }
    }

    pub(crate) fn subscribed(self, topics: &[&str]) -> Self {
        self.consumer.subscribe(topics).unwrap();
        self
    }

    /// Assigns partitions without joining, each at this offset.
    pub(crate) fn assigned(self, wanted: &Partitions, offset: Offset) -> Self {
        let mut list = TopicPartitionList::new();
        for (topic, partition) in wanted {
            list.add_partition_offset(topic, *partition, offset).unwrap();
        }
        self.consumer.assign(&list).unwrap();
        self
    }

    /// Takes what has come, and waits a moment if nothing has.
    pub(crate) fn poll(&self) {
        let mut patience = Duration::from_millis(5);
        while let Some(polled) = self.consumer.poll(patience) {
            match polled {
                Ok(message) => self.records.borrow_mut().push(Record {
                    topic: message.topic().to_owned(),
                    partition: message.partition(),
                    offset: message.offset(),
                    value: String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned(),
                }),
                Err(error) => self.troubles.borrow_mut().push(error),
            }
            patience = Duration::ZERO;
        }
    }

    /// The partitions that it has now.
    pub(crate) fn assignment(&self) -> Partitions {
        set_of(&self.consumer.assignment().unwrap())
    }

    /// What it has read so far.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.records.borrow().clone()
    }

    /// How many records it has read so far.
    pub(crate) fn count(&self) -> usize {
        self.records.borrow().len()
    }

    /// Whether polling has given this error.
    pub(crate) fn met(&self, code: RDKafkaErrorCode) -> bool {
        self.troubles.borrow().iter().any(|it| it.rdkafka_error_code() == Some(code))
    }

    /// Whether polling has come to the end of a partition.
    pub(crate) fn met_end(&self) -> bool {
        self.troubles.borrow().iter().any(|it| matches!(it, KafkaError::PartitionEOF(_)))
    }

    /// What its callbacks were told so far.
    pub(crate) fn diary(&self) -> Arc<Diary> {
        Arc::clone(self.consumer.context())
    }

    pub(crate) fn commit(
        &self,
        topic: &str,
        partition: i32,
        offset: i64,
        metadata: &str,
        mode: CommitMode,
    ) -> KafkaResult<()> {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
        list.find_partition(topic, partition).unwrap().set_metadata(metadata);
        self.consumer.commit(&list, mode)
    }

    /// The committed offset and its metadata as the client itself asks for them.
    pub(crate) fn committed(&self, topic: &str, partition: i32) -> (Offset, String) {
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        let found = self.consumer.committed_offsets(list, PATIENCE).unwrap();
        let found = found.find_partition(topic, partition).unwrap();
        found.error().unwrap();
        (found.offset(), found.metadata().to_owned())
    }

    /// Closes the consumer; gives how long that took.
    pub(crate) fn close(self) -> Duration {
        let started = Instant::now();
        drop(self);
        started.elapsed()
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("assignment", &self.consumer.assignment())
            .field("records", &self.count())
            .field("troubles", &self.troubles.borrow())
            .field("told", &self.diary().told())
            .finish()
    }
}

/// What callbacks are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Assigned(Partitions),
    /// To be given up, and still its own until then.
    Revoked(Partitions),
    /// Gone already.
    Lost(Partitions),
}

/// The callbacks of a consumer, which write down what they are told.
#[derive(Debug, Default)]
pub(crate) struct Diary {
    told: Mutex<Vec<Told>>,
    pause: Mutex<Duration>,
}

impl Diary {
    pub(crate) fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What it was told, without the rebalances that brought it nothing.
    pub(crate) fn moves(&self) -> Vec<Told> {
        let nothing = Told::Assigned(Partitions::new());
        self.told().into_iter().filter(|told| *told != nothing).collect()
    }

    /// Forgets what it was told.
    pub(crate) fn clear(&self) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Lets every callback of a rebalance take so long from now on.
    pub(crate) fn dawdle(&self, pause: Duration) {
        *self.pause.lock().unwrap_or_else(PoisonError::into_inner) = pause;
    }

    fn note(&self, told: Told) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(told);
    }
}

impl ClientContext for Diary {}

impl ConsumerContext for Diary {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => self.note(Told::Assigned(set_of(list))),
            Rebalance::Revoke(list) if consumer.assignment_lost() => self.note(Told::Lost(set_of(list))),
            Rebalance::Revoke(list) => self.note(Told::Revoked(set_of(list))),
            Rebalance::Error(error) => panic!("a rebalance failed: {error}"),
        }
        thread::sleep(*self.pause.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn set_of(list: &TopicPartitionList) -> Partitions {
    list.elements().iter().map(|it| (it.topic().to_owned(), it.partition())).collect()
}
