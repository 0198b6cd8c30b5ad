//! Reading: one consumer that follows along during the kills, and one that reads everything afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use crate::load::Stored;

const READ_WITHIN: Duration = Duration::from_secs(180);

/// A consumer that never goes back: what it was shown once must stay so.
pub(crate) struct Reader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Reader {
    pub(crate) fn start(bootstrap: &str, topic: &str, partitions: i32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let consumer = assigned(bootstrap, topic, partitions);
        let told = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut seen: Vec<Vec<Stored>> = vec![Vec::new(); usize::try_from(partitions).unwrap()];
            while !told.load(Ordering::Relaxed) {
                take(&consumer, &mut seen, Gaps::Forbidden);
            }
            Seen(seen)
        });
        Self { stop, thread }
    }

    pub(crate) fn finish(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the reader's thread")
    }
}

/// What a reader was shown while the broker came and went.
pub(crate) struct Seen(Vec<Vec<Stored>>);

impl Seen {
    /// A record that a reader has seen is durable: it lies where it was seen, with nothing slipped in before it.
    pub(crate) fn check_against(&self, found: &[Vec<Stored>]) {
        let count: usize = self.0.iter().map(Vec::len).sum();
        println!("{count} records were read while the broker came and went");
        for (partition, (seen, found)) in self.0.iter().zip(found).enumerate() {
            assert!(
                seen.len() <= found.len(),
                "partition {partition}: records vanished after they were read"
            );
            for (seen, found) in seen.iter().zip(found) {
                assert_eq!(seen, found, "partition {partition}: a record changed after it was read");
            }
        }
    }
}

/// Whether offsets may be missing, as they are in a compacted topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gaps {
    Allowed,
    Forbidden,
}

/// Everything in the topic, partition by partition.
pub(crate) fn read_to_end(bootstrap: &str, topic: &str, partitions: i32, gaps: Gaps) -> Vec<Vec<Stored>> {
    let consumer = assigned(bootstrap, topic, partitions);
    let ends: Vec<i64> = (0..partitions)
        .map(|partition| consumer.fetch_watermarks(topic, partition, Duration::from_secs(20)).unwrap())
        .map(|(begin, end)| {
            assert_eq!(begin, 0, "nothing was to be deleted");
            end
        })
        .collect();
    let mut found: Vec<Vec<Stored>> = vec![Vec::new(); ends.len()];
    let started = Instant::now();
    while found.iter().zip(&ends).any(|(found, end)| next_offset(found) < *end) {
        take(&consumer, &mut found, gaps);
        assert!(started.elapsed() < READ_WITHIN, "the topic cannot be read to its end");
    }
    found
}

fn next_offset(found: &[Stored]) -> i64 {
    found.last().map_or(0, |record| record.offset + 1)
}

fn take(consumer: &BaseConsumer, found: &mut [Vec<Stored>], gaps: Gaps) {
    match consumer.poll(Duration::from_millis(50)) {
        None => {}
        Some(Ok(message)) => {
            let partition = usize::try_from(message.partition()).unwrap();
            let next = next_offset(&found[partition]);
            assert!(
                message.offset() >= next,
                "partition {partition}: offset {} came again",
                message.offset()
            );
            let gap = message.offset() > next;
            assert!(!gap || gaps == Gaps::Allowed, "partition {partition}: nothing at offset {next}");
            found[partition].push(Stored::parse(message.offset(), message.payload().expect("a value")));
        }
        // The broker is away.
        Some(Err(KafkaError::MessageConsumption(
            RDKafkaErrorCode::BrokerTransportFailure
            | RDKafkaErrorCode::AllBrokersDown
            | RDKafkaErrorCode::OperationTimedOut,
        ))) => {}
        Some(Err(error)) => panic!("the reader was refused: {error}"),
    }
}

fn assigned(bootstrap: &str, topic: &str, partitions: i32) -> BaseConsumer {
    // librdkafka wants a group id even for assigned partitions; nothing is committed, so no group comes to be. A log
    // that became shorter than what was read is an error, not a reason to start over.
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "unused")
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "error")
        .set("check.crcs", "true")
        .set("fetch.wait.max.ms", "50")
        .set("reconnect.backoff.ms", "10")
        .set("reconnect.backoff.max.ms", "100")
        .create()
        .unwrap();
    let mut assignment = TopicPartitionList::new();
    for partition in 0..partitions {
        assignment.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&assignment).unwrap();
    consumer
}
