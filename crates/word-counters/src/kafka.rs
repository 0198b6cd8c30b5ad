//! Reading from Kafka.

use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use assigner_client::Partition;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{Offset, TopicPartitionList};

/// How long Kafka may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// How to reach Kafka, and what to read for which group.
#[derive(Clone, Debug)]
pub(crate) struct Kafka {
    pub(crate) bootstrap: String,
    pub(crate) topic: String,
    pub(crate) group: String,
}

impl Kafka {
    /// A consumer that belongs to no group in Kafka's sense: the assigner decides what it reads. The group's name is only
    /// where offsets are committed.
    pub(crate) fn consumer(&self) -> Result<BaseConsumer> {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.bootstrap)
            .set("group.id", &self.group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "earliest")
            // A partition that comes is not read before the request for the others is answered.
            .set("fetch.wait.max.ms", "20");
        config.create().context("create a consumer")
    }

    /// Reads the records from one offset to before another, until `visit` has enough.
    pub(crate) fn read(
        &self,
        partition: &Partition,
        from: i64,
        to: i64,
        mut visit: impl FnMut(i64, &str) -> ControlFlow<()>,
    ) -> Result<()> {
        if from >= to {
            return Ok(());
        }
        let consumer = self.consumer()?;
        consumer.assign(&at(partition, Offset::Offset(from))?).context("assign a partition to read")?;
        loop {
            match consumer.poll(ANSWER_WITHIN) {
                None => anyhow::bail!("{partition} could not be read for {ANSWER_WITHIN:?}"),
                // The last records before `to` may be gone.
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(()),
                Some(Err(error)) => return Err(error).context("read a partition"),
                Some(Ok(record)) if record.offset() >= to => return Ok(()),
                Some(Ok(record)) => {
                    let is_last = record.offset() + 1 == to;
                    if visit(record.offset(), &line(&record)).is_break() || is_last {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Learns who leads the partitions of the topic. Otherwise the first that comes would wait for this, for a second or so.
pub(crate) fn learn(consumer: &BaseConsumer, topic: &str) -> Result<()> {
    consumer.fetch_metadata(Some(topic), ANSWER_WITHIN).context("ask for the topic")?;
    Ok(())
}

/// Where the group is in this partition: the committed offset, or the first there is.
pub(crate) fn committed(consumer: &BaseConsumer, partition: &Partition) -> Result<i64> {
    let asked = at(partition, Offset::Invalid)?;
    let answered =
        consumer.committed_offsets(asked, ANSWER_WITHIN).context("ask for the committed offset")?;
    let number = i32::try_from(partition.number)?;
    let found = answered.find_partition(&partition.topic, number).context("no offset was answered")?;
    found.error().context("ask for the committed offset")?;
    match found.offset() {
        Offset::Offset(offset) => Ok(offset),
        _ => {
            let watermarks = consumer.fetch_watermarks(&partition.topic, number, ANSWER_WITHIN);
            Ok(watermarks.context("ask for the first offset")?.0)
        }
    }
}

/// Commits an offset and waits until that is done.
pub(crate) fn commit(consumer: &BaseConsumer, partition: &Partition, offset: i64) -> Result<()> {
    consumer.commit(&at(partition, Offset::Offset(offset))?, CommitMode::Sync).context("commit")
}

/// A partition at an offset, as rdkafka wants it.
pub(crate) fn at(partition: &Partition, offset: Offset) -> Result<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    let number = i32::try_from(partition.number)?;
    list.add_partition_offset(&partition.topic, number, offset)?;
    ensure!(list.count() == 1, "one partition was added");
    Ok(list)
}

/// The line that a record holds.
pub(crate) fn line(record: &BorrowedMessage<'_>) -> String {
    String::from_utf8_lossy(record.payload().unwrap_or_default()).into_owned()
}
