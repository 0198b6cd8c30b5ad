//! A broker on a disk in memory, and short ways to ask it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use batch::{BatchBuilder, Batches, Codec, NewRecord, ProducerFields, Record, Records};
use broker::Broker;
use broker::topics::Topic;
use bytes::Bytes;
use coordination::error_code::ErrorCode;
use coordination::ids::{OrgId, TopicId};
use coordination::op::{self, Op, TopicRef};
use coordination::reply::{self, Appended, ProduceRefusal, Reply};
use coordination::settings::{Layer, Settings};
use rail::{Answer, Carrier, Rail};
use store::{LocalStore, MemoryDisk, Options, PartitionLog};

pub(crate) struct World {
    pub(crate) broker: Arc<Broker>,
    pub(crate) disk: MemoryDisk,
    /// On whose behalf ops are asked.
    pub(crate) carrier: Carrier,
    settings: Settings,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(&[]).await
    }

    pub(crate) async fn with(configs: &[(&str, &str)]) -> Self {
        let mut settings = Settings::default();
        for (name, value) in configs {
            settings.set(Layer::Flags, name, value).unwrap();
        }
        Self::start(MemoryDisk::new(), settings).await
    }

    async fn start(disk: MemoryDisk, settings: Settings) -> Self {
        Self::start_in("data", disk, settings).await
    }

    /// Starts a broker on a copy that is taken while this one runs.
    pub(crate) async fn snapshot(&self) -> Self {
        self.broker.store().snapshot("copy".as_ref()).unwrap();
        Self::start_in("copy", self.disk.clone(), self.settings.clone()).await
    }

    async fn start_in(dir: &str, disk: MemoryDisk, settings: Settings) -> Self {
        let options = Options { log_file_bytes: 1 << 20, ..Options::default() };
        let (store, _) = LocalStore::open(Arc::new(disk.clone()), dir.as_ref(), options).unwrap();
        let broker = Broker::start(Arc::new(store), settings.clone()).await.unwrap();
        let carrier = Carrier::new(IpAddr::V4(Ipv4Addr::LOCALHOST), "PLAINTEXT".into());
        Self { broker, disk, carrier, settings }
    }

    /// The same broker, asked by another user of another organisation.
    pub(crate) fn seen_by(&self, org: OrgId, principal: &str) -> Self {
        let mut carrier = Carrier::new(IpAddr::V4(Ipv4Addr::LOCALHOST), "PLAINTEXT".into());
        carrier.belongs_to(org, principal.into());
        let (broker, disk) = (Arc::clone(&self.broker), self.disk.clone());
        Self { broker, disk, carrier, settings: self.settings.clone() }
    }

    /// Ends the broker in good order and starts another on the same disk.
    pub(crate) async fn restart(self) -> Self {
        self.broker.shutdown().await;
        let Self { broker, disk, settings, .. } = self;
        drop(broker);
        // The lock of the directory goes with the last owner of the store.
        Self::start(disk, settings).await
    }

    /// Takes the power away and starts a broker on what is left.
    pub(crate) async fn crash(self, crash: store::Crash) -> Self {
        let disk = self.disk.crash(crash);
        Self::start(disk, self.settings.clone()).await
    }

    pub(crate) fn call(&self, op: Op) -> Answer {
        self.broker.call(&self.carrier, op)
    }

    pub(crate) async fn create(&self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> TopicId {
        let topic = op::NewTopic {
            name: name.to_owned(),
            num_partitions: partitions,
            replication_factor: 1,
            assignments: Vec::new(),
            configs: configs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())))
                .collect(),
        };
        let op = Op::CreateTopics(op::CreateTopics { topics: vec![topic], validate_only: false });
        match self.call(op).reply().await.unwrap() {
            Reply::CreateTopics(made) => made.topics[0].result.as_ref().unwrap().id,
            other => panic!("{other:?}"),
        }
    }

    /// The topic of this name.
    pub(crate) fn topic(&self, name: &str) -> Arc<Topic> {
        self.broker.topics().by_name(OrgId::DEFAULT, name).unwrap()
    }

    /// The topic of this name in the organisation that asks.
    pub(crate) fn topic_of(&self, name: &str) -> Arc<Topic> {
        self.broker.topics().by_name(self.carrier.org(), name).unwrap()
    }

    pub(crate) async fn delete(&self, name: &str) {
        let topics = vec![Ok(TopicRef::Name(name.to_owned()))];
        let _ = self.call(Op::DeleteTopics(op::DeleteTopics { topics })).reply().await.unwrap();
    }

    pub(crate) fn send(&self, topic: &str, partition: i32, records: Bytes) -> Answer {
        self.call(produce(-1, topic, vec![(partition, records)]))
    }

    pub(crate) async fn produce(&self, topic: &str, partition: i32, records: Bytes) -> Produced {
        produced(self.send(topic, partition, records).reply().await.unwrap())
    }

    pub(crate) async fn append(&self, topic: &str, partition: i32, count: usize) -> i64 {
        self.produce(topic, partition, batch(count)).await.unwrap().base_offset
    }

    pub(crate) async fn refusal(&self, topic: &str, records: Bytes) -> ErrorCode {
        self.produce(topic, 0, records).await.unwrap_err().refusal.code
    }

    pub(crate) async fn fetch(&self, fetch: op::Fetch) -> reply::Fetch {
        match self.call(Op::Fetch(fetch)).reply().await.unwrap() {
            Reply::Fetch(fetch) => fetch,
            other => panic!("{other:?}"),
        }
    }

    /// What one partition holds from `offset` on, without waiting.
    pub(crate) async fn read(&self, topic: &str, partition: i32, offset: i64) -> reply::FetchPartition {
        let fetched = self.fetch(fetch(topic, &[(partition, offset)])).await;
        fetched.topics[0].partitions[0].clone()
    }

    /// Has the store move everything from its log into segments.
    pub(crate) async fn settle(&self) {
        self.broker.store().seal();
        let settled = |log: &PartitionLog| log.settled_end() >= log.end_offset();
        // The settler has its own thread and tells nobody when it is done.
        while !self.broker.store().partitions().iter().all(|log| settled(log)) {
            tokio::task::yield_now().await;
        }
    }

    /// The values of all batches from the one that holds `offset` on.
    pub(crate) async fn values(&self, topic: &str, partition: i32, offset: i64) -> Vec<String> {
        let (mut values, mut next) = (Vec::new(), offset);
        loop {
            let read = self.read(topic, partition, next).await;
            assert_eq!(read.error, None);
            for record in records(&read.records) {
                next = record.offset + 1;
                values.push(String::from_utf8(record.value.unwrap_or_default().to_vec()).unwrap());
            }
            if next >= read.high_watermark {
                return values;
            }
        }
    }
}

pub(crate) type Produced = Result<Appended, ProduceRefusal>;

pub(crate) fn produced(reply: Reply) -> Produced {
    match reply {
        Reply::Produce(reply) => reply.topics[0].partitions[0].result.clone(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn produce(acks: i16, topic: &str, partitions: Vec<(i32, Bytes)>) -> Op {
    let part = |(index, records)| op::ProducePartition { index, records: Some(records) };
    let partitions = partitions.into_iter().map(part).collect();
    let topics = vec![op::ProduceTopic { topic: TopicRef::Name(topic.to_owned()), partitions }];
    Op::Produce(op::Produce { transactional_id: None, acks, zstd: true, topics })
}

pub(crate) fn fetch(topic: &str, partitions: &[(i32, i64)]) -> op::Fetch {
    op::Fetch {
        max_wait: Duration::ZERO,
        min_bytes: 1,
        max_bytes: 1 << 20,
        read_committed: false,
        session_id: 0,
        session_epoch: -1,
        by_id: false,
        topics: vec![fetch_topic(TopicRef::Name(topic.to_owned()), partitions)],
        forgotten: Vec::new(),
    }
}

pub(crate) fn fetch_topic(topic: TopicRef, partitions: &[(i32, i64)]) -> op::FetchTopic {
    let part = |&(index, fetch_offset): &(i32, i64)| op::FetchPartition {
        index,
        current_leader_epoch: None,
        fetch_offset,
        last_fetched_epoch: None,
        max_bytes: 1 << 20,
    };
    op::FetchTopic { topic, partitions: partitions.iter().map(part).collect() }
}

/// As many records, with keys `k0`… and values `v0`…, all of now.
pub(crate) fn batch(count: usize) -> Bytes {
    build(count, BatchBuilder::new(0), now_ms())
}

pub(crate) fn batch_at(count: usize, timestamp: i64) -> Bytes {
    build(count, BatchBuilder::new(0), timestamp)
}

pub(crate) fn packed(count: usize, codec: Codec) -> Bytes {
    build(count, BatchBuilder::new(0).codec(codec), now_ms())
}

pub(crate) fn from_producer(count: usize, id: i64, epoch: i16, base_sequence: i32) -> Bytes {
    build(count, BatchBuilder::new(0).producer(ProducerFields { id, epoch, base_sequence }), now_ms())
}

/// One record for each key and value.
pub(crate) fn keyed(records: &[(Option<&str>, Option<&str>)]) -> Bytes {
    let mut builder = BatchBuilder::new(0);
    for (key, value) in records {
        let record = NewRecord {
            timestamp: now_ms(),
            key: key.map(str::as_bytes),
            value: value.map(str::as_bytes),
            headers: &[],
        };
        builder.push(&record).unwrap();
    }
    builder.finish().unwrap()
}

/// One record for each timestamp.
pub(crate) fn timed(timestamps: &[i64]) -> Bytes {
    let mut builder = BatchBuilder::new(0);
    for &timestamp in timestamps {
        builder.push(&NewRecord { timestamp, key: Some(b"k"), value: Some(b"v"), headers: &[] }).unwrap();
    }
    builder.finish().unwrap()
}

fn build(count: usize, mut builder: BatchBuilder, timestamp: i64) -> Bytes {
    for number in 0..count {
        let (key, value) = (format!("k{number}"), format!("v{number}"));
        let record =
            NewRecord { timestamp, key: Some(key.as_bytes()), value: Some(value.as_bytes()), headers: &[] };
        builder.push(&record).unwrap();
    }
    builder.finish().unwrap()
}

pub(crate) fn records(chunks: &[Bytes]) -> Vec<Record> {
    let all = Bytes::from(chunks.concat());
    let batches = Batches::new(&all);
    batches.flat_map(|batch| Records::new(&batch.unwrap().1).unwrap()).map(Result::unwrap).collect()
}

pub(crate) fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}
