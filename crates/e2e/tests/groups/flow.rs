//! Records that flow steadily while members come and go, and what the group has committed of them.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};
use rdkafka::{Offset, TopicPartitionList};

use crate::events::{Moment, now};

/// One record for each partition, so often.
const PACE: Duration = Duration::from_millis(25);

/// How long what is still in flight at the end may take.
const DELIVER_WITHIN: Duration = Duration::from_secs(30);

/// How often the committed offsets are looked at, and how long the broker may take to tell them.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const TELL_WITHIN: Duration = Duration::from_secs(5);

/// Creates a topic.
pub(crate) fn create_topic(bootstrap: &str, name: &str, partitions: usize) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", bootstrap).create().context("create an admin client")?;
    let topic = NewTopic::new(name, i32::try_from(partitions)?, TopicReplication::Fixed(1));
    let runtime = tokio::runtime::Runtime::new().context("start a runtime")?;
    for made in runtime.block_on(admin.create_topics([&topic], &AdminOptions::new())).context("create")? {
        if let Err((name, code)) = made {
            bail!("create {name}: {code}");
        }
    }
    Ok(())
}

/// A thread that goes on until it is told to finish. Dropping it ends the thread, whatever it still had to do.
#[derive(Debug)]
struct Ongoing<T> {
    /// Gone when nobody waits for what comes of it.
    finish: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<T>>>,
}

/// What a thread hears between two of its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    GoOn,
    Finish,
    /// A test has failed; nobody wants to know how this ends.
    GiveUp,
}

impl<T: Send + 'static> Ongoing<T> {
    fn start(run: impl FnOnce(&Receiver<()>) -> Result<T> + Send + 'static) -> Self {
        let (finish, told) = mpsc::channel();
        Self { finish: Some(finish), thread: Some(thread::spawn(move || run(&told))) }
    }

    fn finish(mut self) -> Result<T> {
        if let Some(finish) = &self.finish {
            // Fails only when the thread has ended already, with an error that is about to be seen.
            let _ = finish.send(());
        }
        match self.thread.take().context("a thread ends once")?.join() {
            Ok(outcome) => outcome,
            Err(_) => bail!("the thread panicked"),
        }
    }
}

impl<T> Drop for Ongoing<T> {
    fn drop(&mut self) {
        self.finish = None;
        if let Some(thread) = self.thread.take() {
            // The test fails for another reason.
            let _ = thread.join();
        }
    }
}

/// Waits for `pause`, or until there is something to hear.
fn hear(told: &Receiver<()>, pause: Duration) -> Heard {
    match told.recv_timeout(pause) {
        Err(RecvTimeoutError::Timeout) => Heard::GoOn,
        Ok(()) => Heard::Finish,
        Err(RecvTimeoutError::Disconnected) => Heard::GiveUp,
    }
}

/// A thread that sends to every partition in turn. The value of a record is its number in its partition, as text.
#[derive(Debug)]
pub(crate) struct Flow(Ongoing<i64>);

impl Flow {
    pub(crate) fn start(bootstrap: &str, topic: &str, partitions: usize) -> Result<Self> {
        let producer: FutureProducer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("enable.idempotence", "true")
            .set("linger.ms", "1")
            // Records wait for the broker to come back, however long, instead of failing.
            .set("message.timeout.ms", "0")
            .set("reconnect.backoff.ms", "20")
            .set("reconnect.backoff.max.ms", "200")
            .create()
            .context("create the producer")?;
        let (topic, partitions) = (topic.to_owned(), i32::try_from(partitions)?);
        Ok(Self(Ongoing::start(move |told| send_until_told(&producer, &topic, partitions, told))))
    }

    /// Stops sending and returns how many records were sent to each partition.
    pub(crate) fn finish(self) -> Result<i64> {
        self.0.finish().context("send records")
    }
}

fn send_until_told(
    producer: &FutureProducer,
    topic: &str,
    partitions: i32,
    told: &Receiver<()>,
) -> Result<i64> {
    let mut sent = Vec::new();
    let mut number = 0;
    loop {
        let value = number.to_string();
        for partition in 0..partitions {
            let record: FutureRecord<'_, (), String> =
                FutureRecord::to(topic).partition(partition).payload(&value);
            sent.push(producer.send_result(record).map_err(|(error, _)| error).context("send")?);
        }
        number += 1;
        match hear(told, PACE) {
            Heard::GoOn => {}
            Heard::Finish => break,
            Heard::GiveUp => bail!("nobody waits for the records any more"),
        }
    }
    producer.flush(DELIVER_WITHIN).context("deliver what is in flight")?;
    let runtime = tokio::runtime::Runtime::new().context("start a runtime")?;
    for delivery in sent {
        let delivery = runtime.block_on(delivery).context("a delivery is reported")?;
        delivery.map_err(|(error, _)| error).context("deliver")?;
    }
    Ok(number)
}

/// A thread that asks for the group's committed offsets all the time, without being a member.
#[derive(Debug)]
pub(crate) struct Watch(Ongoing<Vec<Seen>>);

/// What one look at the committed offsets found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// When the answer had arrived.
    pub(crate) at: Moment,
    pub(crate) partition: usize,
    pub(crate) offset: i64,
}

impl Watch {
    pub(crate) fn start(bootstrap: &str, group: &str, topic: &str, partitions: usize) -> Result<Self> {
        let consumer = looker(bootstrap, group)?;
        let topic = topic.to_owned();
        Ok(Self(Ongoing::start(move |told| {
            let mut seen = Vec::new();
            while hear(told, LOOK_EVERY) == Heard::GoOn {
                // The broker may be away; what is looked for comes later.
                if let Ok(found) = committed(&consumer, &topic, partitions, TELL_WITHIN) {
                    let at = now();
                    for (partition, offset) in found.into_iter().enumerate() {
                        seen.push(Seen { at, partition, offset });
                    }
                }
            }
            Ok(seen)
        })))
    }

    /// Stops looking and returns what was seen.
    pub(crate) fn finish(self) -> Result<Vec<Seen>> {
        self.0.finish().context("watch the committed offsets")
    }
}

/// A client that asks about a group without joining it.
pub(crate) fn looker(bootstrap: &str, group: &str) -> Result<BaseConsumer> {
    ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("reconnect.backoff.ms", "20")
        .set("reconnect.backoff.max.ms", "200")
        .create()
        .context("create a client that looks")
}

/// The committed offset of each partition; 0 where there is none.
pub(crate) fn committed(
    consumer: &BaseConsumer,
    topic: &str,
    partitions: usize,
    limit: Duration,
) -> Result<Vec<i64>> {
    let mut wanted = TopicPartitionList::new();
    for partition in 0..partitions {
        wanted.add_partition(topic, i32::try_from(partition)?);
    }
    let found = consumer.committed_offsets(wanted, limit).context("ask for committed offsets")?;
    let mut offsets = vec![0; partitions];
    for element in found.elements() {
        element.error().context("the committed offset of a partition")?;
        if let Offset::Offset(offset) = element.offset() {
            offsets[usize::try_from(element.partition())?] = offset;
        }
    }
    Ok(offsets)
}

/// Where each partition ends.
pub(crate) fn ends(
    consumer: &BaseConsumer,
    topic: &str,
    partitions: usize,
    limit: Duration,
) -> Result<Vec<i64>> {
    let mut ends = Vec::new();
    for partition in 0..partitions {
        let (_, end) =
            consumer.fetch_watermarks(topic, i32::try_from(partition)?, limit).context("ask for the end")?;
        ends.push(end);
    }
    Ok(ends)
}
