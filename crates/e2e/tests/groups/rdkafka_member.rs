//! A member of a group with the crate rdkafka, in the same shape as the other member programs.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use crate::events::now;

/// A commit is sent when so many records or so much time have passed since the last one.
const COMMIT_RECORDS: usize = 20;
const COMMIT_AFTER: Duration = Duration::from_millis(100);

/// Takes part in a group until standard input ends.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [bootstrap, group, topic, assignor, session, instance @ ..] = arguments else {
        bail!("usage: BOOTSTRAP GROUP TOPIC ASSIGNOR SESSION_MS [INSTANCE]");
    };
    let heartbeat = session.parse::<u32>().context("read the session timeout")? / 12;
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("group.id", group);
    config.set("partition.assignment.strategy", assignor);
    config.set("session.timeout.ms", session).set("heartbeat.interval.ms", heartbeat.to_string());
    config.set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
    config.set("fetch.wait.max.ms", "100");
    config.set("reconnect.backoff.ms", "20").set("reconnect.backoff.max.ms", "200");
    if let [instance] = instance {
        config.set("group.instance.id", instance);
    }
    let context = Progress { topic: topic.clone(), uncommitted: Mutex::default() };
    let consumer: BaseConsumer<Progress> = config.create_with_context(context).context("create")?;
    consumer.subscribe(&[topic]).context("subscribe")?;

    let told = Arc::new(AtomicBool::new(false));
    let ear = Arc::clone(&told);
    thread::spawn(move || {
        // Its end and its failure mean the same.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        ear.store(true, Ordering::Relaxed);
    });
    let (mut waiting, mut since) = (0, Instant::now());
    while !told.load(Ordering::Relaxed) {
        match consumer.poll(Duration::from_millis(50)) {
            Some(Ok(message)) => {
                let value = String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned();
                say(&format!("record {} {} {value}", message.partition(), message.offset()));
                consumer.context().uncommitted().insert(message.partition(), message.offset() + 1);
                if waiting == 0 {
                    since = Instant::now();
                }
                waiting += 1;
            }
            Some(Err(error)) => say(&format!("trouble {error}")),
            None => {}
        }
        if waiting >= COMMIT_RECORDS || (waiting > 0 && since.elapsed() > COMMIT_AFTER) {
            let all: Vec<i32> = consumer.context().uncommitted().keys().copied().collect();
            consumer.context().commit(&consumer, &all);
            waiting = 0;
        }
    }
    // Closing serves the callback that gives everything up.
    consumer.unsubscribe();
    while consumer.assignment().is_ok_and(|it| it.count() > 0) {
        consumer.poll(Duration::from_millis(10));
    }
    drop(consumer);
    say("left");
    Ok(())
}

/// What was processed and is not committed yet, as the next offset of each partition.
struct Progress {
    topic: String,
    uncommitted: Mutex<BTreeMap<i32, i64>>,
}

impl Progress {
    fn uncommitted(&self) -> std::sync::MutexGuard<'_, BTreeMap<i32, i64>> {
        self.uncommitted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit(&self, consumer: &BaseConsumer<Self>, partitions: &[i32]) {
        let mut offsets = TopicPartitionList::new();
        let mut words = Vec::new();
        for partition in partitions {
            let Some(offset) = self.uncommitted().get(partition).copied() else { continue };
            words.push(format!("{partition}:{offset}"));
            if let Err(error) = offsets.add_partition_offset(&self.topic, *partition, Offset::Offset(offset))
            {
                say(&format!("trouble {error}"));
            }
        }
        if words.is_empty() {
            return;
        }
        match consumer.commit(&offsets, CommitMode::Sync) {
            Ok(()) => {
                say(&format!("committed {}", words.join(",")));
                self.uncommitted().retain(|partition, _| !partitions.contains(partition));
            }
            Err(error) => say(&format!("trouble commit: {error}")),
        }
    }
}

impl ClientContext for Progress {}

impl ConsumerContext for Progress {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let numbers = |partitions: &TopicPartitionList| -> Vec<i32> {
            partitions.elements().iter().map(|it| it.partition()).collect()
        };
        let words = |numbers: &[i32]| -> String {
            numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        match rebalance {
            Rebalance::Assign(partitions) => say(&format!("assigned {}", words(&numbers(partitions)))),
            Rebalance::Revoke(partitions) => {
                let numbers = numbers(partitions);
                let lost = consumer.assignment_lost();
                if !lost {
                    self.commit(consumer, &numbers);
                }
                self.uncommitted().retain(|partition, _| !numbers.contains(partition));
                say(&format!("{} {}", if lost { "lost" } else { "revoked" }, words(&numbers)));
            }
            Rebalance::Error(error) => say(&format!("trouble {error}")),
        }
    }
}

fn say(event: &str) {
    // One write for each line, so that a kill leaves whole lines. A harness that is gone reads nothing.
    let _ = io::stdout().write_all(format!("{} {event}\n", now()).as_bytes());
}
