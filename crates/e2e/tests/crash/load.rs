//! Producers that send numbered records until told to stop, and remember what was acknowledged.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};

/// How many keys the records of a partition have among them.
const KEYS: usize = 20;

/// How long what is still in flight may take after the last kill.
const SETTLE_WITHIN: Duration = Duration::from_secs(90);

/// What the producer is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guarantee {
    Once,
    AtLeastOnce,
}

/// A record as it lies in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) offset: i64,
    pub(crate) producer: usize,
    pub(crate) number: usize,
}

impl Stored {
    /// Reads what [`Producer`] wrote.
    pub(crate) fn parse(offset: i64, payload: &[u8]) -> Self {
        let text = std::str::from_utf8(payload).expect("a record of this test is text");
        let mut words = text.split(' ');
        let mut number =
            || words.next().and_then(|word| word.parse().ok()).expect("a record names its producer");
        Self { offset, producer: number(), number: number() }
    }
}

/// Creates a topic and waits until it is there.
pub(crate) fn create_topic(bootstrap: &str, name: &str, partitions: i32, config: &[(&str, &str)]) {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", bootstrap).create().unwrap();
    let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    for (name, value) in config {
        topic = topic.set(name, value);
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let made = runtime.block_on(admin.create_topics([&topic], &AdminOptions::new())).unwrap();
    for result in made {
        result.unwrap();
    }
}

/// A thread that sends.
pub(crate) struct Producer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Sent>,
}

impl Producer {
    /// Starts to send to all partitions in turn.
    pub(crate) fn start(
        bootstrap: &str,
        topic: &'static str,
        id: usize,
        partitions: i32,
        guarantee: Guarantee,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap).set("acks", "all").set("linger.ms", "1");
        // Records wait for the broker to come back, however long, instead of failing.
        config
            .set("message.timeout.ms", "0")
            .set("reconnect.backoff.ms", "10")
            .set("reconnect.backoff.max.ms", "100");
        config.set("retry.backoff.ms", "10").set("queue.buffering.max.messages", "2000");
        config.set("enable.idempotence", if guarantee == Guarantee::Once { "true" } else { "false" });
        let lanes = usize::try_from(partitions).unwrap();
        let journal = Journal { lanes: Mutex::new(vec![Vec::new(); lanes]), problems: Mutex::default() };
        let producer: ThreadedProducer<Journal> = config.create_with_context(journal).unwrap();
        let told = Arc::clone(&stop);
        let thread = thread::spawn(move || send_until_told(&producer, topic, id, partitions, &told));
        Self { stop, thread }
    }

    /// Stops sending, waits for what is in flight, and returns what was sent.
    pub(crate) fn finish(self) -> Sent {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the producer's thread")
    }
}

fn send_until_told(
    producer: &ThreadedProducer<Journal>,
    topic: &str,
    id: usize,
    partitions: i32,
    stop: &AtomicBool,
) -> Sent {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        // Sizes differ, so that batches, and the places where a kill cuts them, differ too.
        let text = format!("{id} {number} {}", "x".repeat(number * 31 % 900));
        let key = (number % KEYS).to_string();
        for partition in 0..partitions {
            let lane = usize::try_from(partition).unwrap();
            producer.context().lanes.lock().unwrap()[lane].push(None);
            let opaque = Box::new((lane, number));
            let mut record: BaseRecord<'_, String, String, _> =
                BaseRecord::with_opaque_to(topic, opaque).partition(partition).key(&key).payload(&text);
            loop {
                match producer.send(record) {
                    Ok(()) => break,
                    Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                        record = back;
                        thread::sleep(Duration::from_millis(1));
                    }
                    Err((error, _)) => panic!("producer {id}: {error}"),
                }
            }
        }
        number += 1;
    }
    producer.flush(SETTLE_WITHIN).unwrap_or_else(|error| panic!("producer {id} cannot deliver: {error}"));
    let journal = producer.context();
    let problems = std::mem::take(&mut *journal.problems.lock().unwrap());
    assert!(problems.is_empty(), "producer {id}: {problems:?}");
    Sent { id, lanes: std::mem::take(&mut *journal.lanes.lock().unwrap()) }
}

/// What librdkafka reports, from its own threads.
struct Journal {
    /// For each partition, the offset at which each number was acknowledged.
    lanes: Mutex<Vec<Vec<Option<i64>>>>,
    problems: Mutex<Vec<String>>,
}

impl ClientContext for Journal {
    fn error(&self, error: KafkaError, reason: &str) {
        // Connections break all the time here; what is fatal ends the producer's promise.
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
            self.problems.lock().unwrap().push(format!("fatal: {reason}"));
        }
    }
}

impl ProducerContext for Journal {
    type DeliveryOpaque = Box<(usize, usize)>;

    fn delivery(&self, result: &DeliveryResult<'_>, opaque: Self::DeliveryOpaque) {
        let (lane, number) = *opaque;
        match result {
            Ok(message) => self.lanes.lock().unwrap()[lane][number] = Some(message.offset()),
            Err((error, _)) => self.problems.lock().unwrap().push(format!("record {number}: {error}")),
        }
    }
}

/// What one producer sent, partition by partition.
pub(crate) struct Sent {
    id: usize,
    lanes: Vec<Vec<Option<i64>>>,
}

impl Sent {
    pub(crate) fn sent(&self) -> usize {
        self.lanes.iter().map(Vec::len).sum()
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.lanes.iter().flatten().flatten().count()
    }

    fn own<'a>(&self, records: &'a [Stored]) -> impl Iterator<Item = &'a Stored> {
        let id = self.id;
        records.iter().filter(move |record| record.producer == id)
    }

    /// The partition holds all this producer sent, once each, in order, where it was told they are.
    pub(crate) fn check_once_in_order(&self, partition: usize, records: &[Stored]) {
        let lane = &self.lanes[partition];
        let mut wanted = 0;
        for record in self.own(records) {
            let place = format!("producer {} partition {partition} offset {}", self.id, record.offset);
            assert_eq!(record.number, wanted, "{place}: a record is lost, doubled or out of order");
            // librdkafka may not know the offset of a record whose first acknowledgement was lost.
            if let Some(offset) = lane[record.number].filter(|offset| *offset >= 0) {
                assert_eq!(record.offset, offset, "{place}: acknowledged at another offset");
            }
            wanted += 1;
        }
        assert_eq!(wanted, lane.len(), "producer {} partition {partition}: records are lost", self.id);
    }

    /// The partition holds the last record of each key, and of the others only some, in order.
    pub(crate) fn check_last_of_each_key(&self, partition: usize, records: &[Stored]) {
        let mut last = [None; KEYS];
        let mut before = None;
        for record in self.own(records) {
            assert!(before < Some(record.number), "partition {partition}: {record:?} is out of order");
            before = Some(record.number);
            last[record.number % KEYS] = before;
        }
        for number in (0..self.lanes[partition].len()).rev().take(KEYS) {
            assert_eq!(
                last[number % KEYS],
                Some(number),
                "partition {partition}: the last value of a key is lost"
            );
        }
    }

    /// The partition holds all that was acknowledged, where the producer was told it is.
    pub(crate) fn check_at_least_once(&self, partition: usize, records: &[Stored]) {
        let found: HashSet<(usize, i64)> =
            self.own(records).map(|record| (record.number, record.offset)).collect();
        for (number, offset) in self.lanes[partition].iter().enumerate() {
            let offset = offset.unwrap_or_else(|| panic!("record {number} was not delivered"));
            assert!(
                found.contains(&(number, offset)),
                "partition {partition}: record {number} at {offset} is lost"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent() -> Sent {
        Sent { id: 1, lanes: vec![(0..50).map(Some).collect()] }
    }

    fn stored() -> Vec<Stored> {
        (0..50).map(|i| Stored { offset: i, producer: 1, number: usize::try_from(i).unwrap() }).collect()
    }

    #[test]
    fn what_was_sent_passes() {
        sent().check_once_in_order(0, &stored());
        sent().check_at_least_once(0, &stored());
        sent().check_last_of_each_key(0, &stored()[30..]);
    }

    #[test]
    #[should_panic(expected = "lost")]
    fn a_lost_record_is_noticed() {
        let mut stored = stored();
        stored.remove(20);
        sent().check_once_in_order(0, &stored);
    }

    #[test]
    #[should_panic(expected = "records are lost")]
    fn a_lost_tail_is_noticed() {
        sent().check_once_in_order(0, &stored()[..49]);
    }

    #[test]
    #[should_panic(expected = "doubled")]
    fn a_doubled_record_is_noticed() {
        let mut stored = stored();
        stored.insert(20, stored[20].clone());
        sent().check_once_in_order(0, &stored);
    }

    #[test]
    #[should_panic(expected = "is lost")]
    fn a_lost_record_is_noticed_without_idempotence() {
        let mut stored = stored();
        stored.remove(20);
        sent().check_at_least_once(0, &stored);
    }

    #[test]
    #[should_panic(expected = "the last value of a key is lost")]
    fn a_lost_last_value_is_noticed() {
        let mut stored = stored();
        stored.remove(35);
        sent().check_last_of_each_key(0, &stored);
    }
}
