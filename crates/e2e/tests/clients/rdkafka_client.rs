//! The scenarios with the crate rdkafka, in the same shape as the other client programs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};
use tokio::runtime::Runtime;

const FIRST_TIMESTAMP: i64 = 1_700_000_000_000;
const PATIENCE: Duration = Duration::from_secs(20);
const COMPACT_WITHIN: Duration = Duration::from_secs(60);
/// Timestamps lie in the past, where the default retention would delete them.
const KEEP: &[(&str, &str)] = &[("retention.ms", "-1")];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Record {
    partition: i32,
    offset: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    timestamp: Option<i64>,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

/// Runs one scenario and prints its checks.
pub(crate) fn run(bootstrap: &str, scenario: &str, prefix: &str) -> Result<()> {
    if scenario == "version" {
        let (_, librdkafka) = rdkafka::util::get_rdkafka_version();
        println!("{{\"version\": \"0.39 (librdkafka {librdkafka})\"}}");
        return Ok(());
    }
    let client = Client {
        admin: config(bootstrap).create().context("create the admin client")?,
        bootstrap: bootstrap.to_owned(),
        topic: format!("{prefix}-{scenario}"),
        runtime: Runtime::new().context("start the runtime")?,
    };
    match scenario {
        "create" => client.create_and_describe(),
        "from-offset" => client.read_from_offset(),
        "by-time" => client.by_time(),
        "idempotent" => client.idempotent(),
        "compaction" => client.compaction(),
        "delete" => client.delete(),
        other => match other.strip_prefix("produce-") {
            Some(codec) => client.produce_and_compare(codec),
            None => bail!("no scenario {other}"),
        },
    }
}

fn config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    config
}

fn check<T: PartialEq + std::fmt::Debug>(name: &str, found: &T, wanted: &T) -> Result<()> {
    ensure!(found == wanted, "{name}: found {found:?}, wanted {wanted:?}");
    println!("{{\"check\": \"{name}\"}}");
    Ok(())
}

struct Client {
    admin: AdminClient<DefaultClientContext>,
    bootstrap: String,
    topic: String,
    runtime: Runtime,
}

impl Client {
    fn create(&self, partitions: i32, config: &[(&str, &str)]) -> Result<()> {
        let mut topic = NewTopic::new(&self.topic, partitions, TopicReplication::Fixed(1));
        for (name, value) in config {
            topic = topic.set(name, value);
        }
        let options = AdminOptions::new();
        let made = self.runtime.block_on(self.admin.create_topics([&topic], &options)).context("create")?;
        for result in made {
            if let Err((name, code)) = result {
                bail!("create {name}: {code}");
            }
        }
        Ok(())
    }

    fn partitions(&self) -> Result<usize> {
        let metadata = self.admin.inner().fetch_metadata(None, PATIENCE).context("fetch metadata")?;
        Ok(metadata.topics().iter().find(|it| it.name() == self.topic).map_or(0, |it| it.partitions().len()))
    }

    fn send(&self, records: &[Record], codec: &str, idempotent: bool) -> Result<()> {
        let producer: FutureProducer = config(&self.bootstrap)
            .set("compression.type", codec)
            .set("acks", "all")
            .set("linger.ms", "5")
            .set("enable.idempotence", if idempotent { "true" } else { "false" })
            .create()
            .context("create the producer")?;
        let mut sent = Vec::new();
        for record in records {
            let mut out: FutureRecord<'_, [u8], [u8]> =
                FutureRecord::to(&self.topic).partition(record.partition);
            out.key = record.key.as_deref();
            out.payload = record.value.as_deref();
            out.timestamp = record.timestamp;
            if !record.headers.is_empty() {
                let mut headers = OwnedHeaders::new();
                for (key, value) in &record.headers {
                    headers = headers.insert(Header { key, value: value.as_ref() });
                }
                out.headers = Some(headers);
            }
            let _guard = self.runtime.enter();
            sent.push(producer.send_result(out).map_err(|(error, _)| error).context("send")?);
        }
        self.runtime.block_on(async {
            for delivery in sent {
                delivery
                    .await
                    .context("the producer is gone")?
                    .map_err(|(error, _)| error)
                    .context("deliver")?;
            }
            Ok(())
        })
    }

    fn consumer(&self) -> Result<BaseConsumer> {
        // librdkafka wants a group id even for assigned partitions; nothing is committed, so no group comes to be.
        config(&self.bootstrap)
            .set("group.id", "unused")
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "error")
            .set("check.crcs", "true")
            .set("fetch.wait.max.ms", "100")
            .create()
            .context("create the consumer")
    }

    fn read(&self, partition: i32, mut start: i64, until: i64) -> Result<Vec<Record>> {
        let consumer = self.consumer()?;
        let mut assignment = TopicPartitionList::new();
        assignment
            .add_partition_offset(&self.topic, partition, Offset::Offset(start))
            .context("name the offset")?;
        consumer.assign(&assignment).context("assign")?;
        let started = Instant::now();
        let mut found = Vec::new();
        while start < until {
            ensure!(started.elapsed() < PATIENCE, "read to {start} of {until}");
            let Some(message) = consumer.poll(Duration::from_millis(500)) else { continue };
            let message = message.context("poll")?;
            start = message.offset() + 1;
            if message.offset() < until {
                let headers = message.headers().map_or_else(Vec::new, |headers| {
                    headers.iter().map(|it| (it.key.to_owned(), it.value.map(<[u8]>::to_vec))).collect()
                });
                found.push(Record {
                    partition,
                    offset: message.offset(),
                    key: message.key().map(<[u8]>::to_vec),
                    value: message.payload().map(<[u8]>::to_vec),
                    timestamp: message.timestamp().to_millis(),
                    headers,
                });
            }
        }
        Ok(found)
    }

    fn bounds(&self, partition: i32) -> Result<(i64, i64)> {
        self.consumer()?.fetch_watermarks(&self.topic, partition, PATIENCE).context("ask for the bounds")
    }

    /// Reads numbered records and checks that none is missing, doubled or out of place.
    fn read_run(&self, partition: i32, start: i64, until: i64) -> Result<()> {
        let found: Vec<_> = self
            .read(partition, start, until)?
            .into_iter()
            .map(|it| (it.offset, String::from_utf8_lossy(&it.value.unwrap_or_default()).into_owned()))
            .collect();
        let wanted: Vec<_> = (start..until).map(|i| (i, i.to_string())).collect();
        check(&format!("from offset {start} of partition {partition}"), &found, &wanted)
    }

    fn create_and_describe(&self) -> Result<()> {
        self.create(3, &[("retention.ms", "123456789"), ("cleanup.policy", "delete")])?;
        check("partitions in metadata", &self.partitions()?, &3)?;
        let asked = [ResourceSpecifier::Topic(&self.topic)];
        let options = AdminOptions::new();
        let described = self
            .runtime
            .block_on(self.admin.describe_configs(&asked, &options))
            .context("describe configs")?;
        let resource = described.into_iter().next().context("one resource")?.context("describe the topic")?;
        let value = |name: &str| resource.get(name).and_then(|entry| entry.value.clone()).unwrap_or_default();
        check("retention.ms", &value("retention.ms"), &"123456789".to_owned())?;
        check("cleanup.policy", &value("cleanup.policy"), &"delete".to_owned())?;
        let topic = NewTopic::new(&self.topic, 3, TopicReplication::Fixed(1));
        let again = self.runtime.block_on(self.admin.create_topics([&topic], &options)).context("create")?;
        let code = again.into_iter().next().and_then(Result::err).map(|(_, code)| code);
        check("creating it again is refused", &code, &Some(RDKafkaErrorCode::TopicAlreadyExists))
    }

    fn produce_and_compare(&self, codec: &str) -> Result<()> {
        self.create(2, KEEP)?;
        let records = mixed();
        self.send(&records, codec, false)?;
        for partition in 0..2 {
            let mut wanted: Vec<_> = records.iter().filter(|it| it.partition == partition).cloned().collect();
            for (offset, record) in (0..).zip(&mut wanted) {
                record.offset = offset;
            }
            let found = self.read(partition, 0, 30)?;
            check(&format!("partition {partition} byte for byte"), &found, &wanted)?;
        }
        Ok(())
    }

    fn read_from_offset(&self) -> Result<()> {
        self.create(1, KEEP)?;
        self.send(&numbered(100), "none", false)?;
        check("bounds", &self.bounds(0)?, &(0, 100))?;
        self.read_run(0, 37, 100)?;
        self.read_run(0, 99, 100)
    }

    fn by_time(&self) -> Result<()> {
        self.create(1, KEEP)?;
        for records in numbered(100).chunks(25) {
            self.send(records, "none", false)?;
        }
        let consumer = self.consumer()?;
        let asked = [(0, 0), (41_500, 42), (42_000, 42), (50_000, 50), (99_000, 99)];
        for (after, wanted) in asked
            .map(|(after, offset)| (after, Offset::Offset(offset)))
            .into_iter()
            .chain([(99_001, Offset::End)])
        {
            let mut times = TopicPartitionList::new();
            times
                .add_partition_offset(&self.topic, 0, Offset::Offset(FIRST_TIMESTAMP + after))
                .context("name a time")?;
            let found = consumer.offsets_for_times(times, PATIENCE).context("ask for offsets by time")?;
            let offset = found.elements().first().context("one partition")?.offset();
            check(&format!("offset at +{after} ms"), &offset, &wanted)?;
        }
        self.read_run(0, 42, 100)
    }

    fn idempotent(&self) -> Result<()> {
        self.create(3, &[])?;
        let records: Vec<_> = (0..3000)
            .map(|i| Record {
                partition: i % 3,
                value: Some((i / 3).to_string().into_bytes()),
                ..Record::default()
            })
            .collect();
        self.send(&records, "none", true)?;
        for partition in 0..3 {
            check(&format!("bounds of partition {partition}"), &self.bounds(partition)?, &(0, 1000))?;
            self.read_run(partition, 0, 1000)?;
        }
        Ok(())
    }

    fn compaction(&self) -> Result<()> {
        self.create(
            1,
            &[
                ("cleanup.policy", "compact"),
                ("segment.ms", "300"),
                ("segment.bytes", "1048576"),
                ("min.cleanable.dirty.ratio", "0.01"),
                ("delete.retention.ms", "100"),
            ],
        )?;
        let keys: Vec<String> = (0..10).map(|key| format!("key-{key}")).collect();
        for round in 0..5 {
            let mut records = Vec::new();
            for version in 0..4 {
                records.extend(
                    keys.iter().map(|key| keyed(key, Some(&format!("round {round} version {version}")))),
                );
            }
            records.push(keyed("gone", Some("here")));
            self.send(&records, "none", false)?;
        }
        self.send(&[keyed("gone", None)], "none", false)?;
        let wanted: BTreeMap<_, _> =
            keys.iter().map(|key| (key.clone(), "round 4 version 3".to_owned())).collect();
        let started = Instant::now();
        loop {
            // A record that comes after segment.ms closes the segment before it; only closed segments are compacted.
            self.send(&[keyed("tick", Some("tick"))], "none", false)?;
            let (begin, end) = self.bounds(0)?;
            let found = self.read(0, begin, end)?;
            ensure!(found.is_sorted_by_key(|it| it.offset), "compaction changed the order");
            let text =
                |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|it| String::from_utf8_lossy(it).into_owned());
            let left: Vec<_> = found.iter().map(|it| (text(&it.key), text(&it.value))).collect();
            let left: Vec<_> = left.into_iter().filter(|(key, _)| key.as_deref() != Some("tick")).collect();
            let mut latest = BTreeMap::new();
            for (key, value) in &left {
                latest.insert(key.clone().unwrap_or_default(), value.clone());
            }
            ensure!(latest.remove("gone").flatten().is_none(), "the deleted key came back");
            let latest: BTreeMap<_, _> =
                latest.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect();
            ensure!(latest == wanted, "the last value of a key is lost: {latest:?}");
            let values = left.iter().filter(|(_, value)| value.is_some()).count();
            if values == keys.len() {
                return check("one value for each key", &values, &keys.len());
            }
            ensure!(started.elapsed() < COMPACT_WITHIN, "still {values} values for {} keys", keys.len());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn delete(&self) -> Result<()> {
        self.create(1, KEEP)?;
        self.send(&numbered(10), "none", false)?;
        let options = AdminOptions::new();
        let mut before = TopicPartitionList::new();
        before.add_partition_offset(&self.topic, 0, Offset::Offset(5)).context("name the offset")?;
        self.runtime.block_on(self.admin.delete_records(&before, &options)).context("delete records")?;
        check("bounds after deleting records", &self.bounds(0)?, &(5, 10))?;
        self.read_run(0, 5, 10)?;
        let deleted =
            self.runtime.block_on(self.admin.delete_topics(&[&self.topic], &options)).context("delete")?;
        for result in deleted {
            if let Err((name, code)) = result {
                bail!("delete {name}: {code}");
            }
        }
        let started = Instant::now();
        while self.partitions()? > 0 {
            ensure!(started.elapsed() < PATIENCE, "the deleted topic stays in metadata");
        }
        check("gone from metadata", &true, &true)
    }
}

/// Sixty records over two partitions with every shape of key, value, header and timestamp.
fn mixed() -> Vec<Record> {
    let record = |i: u16| {
        let mut value = format!("value-{i}-").into_bytes();
        let [_, filler] = (i * 37).to_be_bytes();
        value.resize(value.len() + usize::from(i * 13 % 300), filler);
        let mut key = format!("key-{i}").into_bytes();
        key.extend([0, 255]);
        let header = |name: &str, value: Option<&[u8]>| (name.to_owned(), value.map(<[u8]>::to_vec));
        Record {
            partition: i32::from(i % 2),
            offset: 0,
            key: (!i.is_multiple_of(5)).then_some(key),
            value: (i % 7 != 3).then_some(value),
            timestamp: Some(FIRST_TIMESTAMP + i64::from(i) * 1000),
            headers: match i % 3 {
                0 => vec![
                    header("a", Some(b"1")),
                    header("a", Some(b"2")),
                    header("empty", Some(b"")),
                    header("null", None),
                ],
                2 => vec![header("bytes", Some(&(0..=255).collect::<Vec<u8>>()))],
                _ => Vec::new(),
            },
        }
    };
    (0..60).map(record).collect()
}

fn numbered(count: i32) -> Vec<Record> {
    let record = |i: i32| Record {
        key: Some(format!("k{i}").into_bytes()),
        value: Some(i.to_string().into_bytes()),
        timestamp: Some(FIRST_TIMESTAMP + i64::from(i) * 1000),
        ..Record::default()
    };
    (0..count).map(record).collect()
}

fn keyed(key: &str, value: Option<&str>) -> Record {
    Record {
        key: Some(key.as_bytes().to_vec()),
        value: value.map(|it| it.as_bytes().to_vec()),
        ..Record::default()
    }
}
