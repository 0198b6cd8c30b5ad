//! A producer that sends records of known content to all partitions at a steady pace.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};

use crate::world::{PATIENCE, lock, now_us};

/// The record with this number in this partition, which has that offset too.
///
/// Two of its words recur at intervals that have no divisor in common, so that a record which was left out or counted
/// twice changes counts that no other record could mend.
pub(crate) fn line(partition: usize, number: i64) -> String {
    format!("p{partition} a{} b{}", number % 97, number % 101)
}

/// How often each word occurs in the records before an offset.
pub(crate) fn words(partition: usize, before: i64) -> BTreeMap<String, u64> {
    let mut words = BTreeMap::new();
    for number in 0..before {
        for word in line(partition, number).split(' ') {
            *words.entry(word.to_owned()).or_default() += 1;
        }
    }
    words
}

/// A thread that sends one record to each partition, again and again.
pub(crate) struct Producer {
    stop: Arc<AtomicBool>,
    acknowledged: Acknowledged,
    sent: Arc<AtomicI64>,
    thread: JoinHandle<()>,
}

impl Producer {
    /// Sends `at_once` records to each partition as fast as it goes, and then one each time the interval has passed.
    pub(crate) fn start(
        bootstrap: &str,
        topic: &str,
        partitions: usize,
        at_once: i64,
        interval: Duration,
    ) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap).set("acks", "all").set("enable.idempotence", "true");
        config.set("linger.ms", "1").set("queue.buffering.max.messages", "200000");
        let acknowledged: Acknowledged = Arc::new((0..partitions).map(|_| Mutex::default()).collect());
        let context = Places(Arc::clone(&acknowledged));
        let producer: ThreadedProducer<Places> = config.create_with_context(context).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicI64::new(0));
        let thread = thread::spawn({
            let (stop, sent, topic) = (Arc::clone(&stop), Arc::clone(&sent), topic.to_owned());
            move || {
                let mut number = 0;
                let mut next = Instant::now();
                while number < at_once || !stop.load(Ordering::Relaxed) {
                    if number >= at_once {
                        thread::sleep(next.saturating_duration_since(Instant::now()));
                        next = Instant::now().max(next + interval);
                    }
                    for partition in 0..partitions {
                        send(&producer, &topic, partition, number);
                    }
                    number += 1;
                    if number == at_once {
                        producer.flush(PATIENCE).unwrap();
                        next = Instant::now();
                    }
                    if number >= at_once {
                        sent.store(number, Ordering::Relaxed);
                    }
                }
                producer.flush(PATIENCE).unwrap();
            }
        });
        Self { stop, acknowledged, sent, thread }
    }

    /// How many records each partition has been sent; none until all of those are acknowledged that are sent at once.
    pub(crate) fn sent(&self) -> i64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// When each record of each partition was there for all to read, in microseconds on the monotonic clock.
    pub(crate) fn acknowledged_us(&self) -> Vec<Vec<u64>> {
        self.acknowledged.iter().map(|times| lock(times).clone()).collect()
    }

    /// Stops sending, and says how many records each partition has.
    pub(crate) fn finish(self) -> i64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("all records were acknowledged where they belong");
        self.sent.load(Ordering::Relaxed)
    }
}

fn send(producer: &ThreadedProducer<Places>, topic: &str, partition: usize, number: i64) {
    let text = line(partition, number);
    let place = i32::try_from(partition).unwrap();
    let mut record: BaseRecord<'_, (), String, _> =
        BaseRecord::with_opaque_to(topic, Box::new(number)).partition(place).payload(&text);
    loop {
        match producer.send(record) {
            Ok(()) => return,
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                record = back;
                thread::sleep(Duration::from_millis(1));
            }
            Err((error, _)) => panic!("send a record: {error}"),
        }
    }
}

/// For each partition, when each of its records was acknowledged.
type Acknowledged = Arc<Vec<Mutex<Vec<u64>>>>;

/// Sees to it that the offset of each record is its number, and remembers when it was there.
struct Places(Acknowledged);

impl ClientContext for Places {}

impl ProducerContext for Places {
    type DeliveryOpaque = Box<i64>;

    fn delivery(&self, result: &DeliveryResult<'_>, number: Self::DeliveryOpaque) {
        // What is wrong here shows in the end: counts and offsets are then not those that were sent.
        match result {
            Ok(message) if message.offset() == *number => {
                let partition = usize::try_from(message.partition()).unwrap_or_default();
                lock(&self.0[partition]).push(now_us());
            }
            Ok(message) => println!("record {number} is at offset {}", message.offset()),
            Err((error, _)) => println!("record {number}: {error}"),
        }
    }
}
