//! A client that does exactly what a test tells it: one connection, no retries, no caches.
#![allow(dead_code, reason = "every test uses its own part")]

pub(crate) mod member;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use batch::{BatchBuilder, Codec, NewRecord, RecordCursor};
use bytes::{Buf, Bytes};
use e2e::process::{Finished, run_within};
use wire::api::{create_topics, fetch, metadata, produce};
use wire::{RequestMessage, decode_response, encode_request};

/// How long a broker may take to answer; reached only when it does not answer at all.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// How long anything may take that needs several answers, and sessions and rebalances to end; reached only when it
/// never comes.
const COMES_WITHIN: Duration = Duration::from_secs(60);

/// The error of a disk that does not take or give.
pub(crate) const STORAGE_ERROR: i16 = 56;

/// The version in which topics have names, so that nobody has to ask for their ids.
const PRODUCE: i16 = 9;
const FETCH: i16 = 12;

/// One connection to a broker.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    correlation_id: i32,
}

impl Connection {
    pub(crate) fn open(address: &str) -> Self {
        Self::try_open(address).unwrap_or_else(|error| panic!("connect to {address}: {error}"))
    }

    pub(crate) fn try_open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        Ok(Self { stream, correlation_id: 0 })
    }

    /// The same connection, for a thread that sends while another receives.
    pub(crate) fn twin(&self) -> Self {
        let stream = self.stream.try_clone().unwrap_or_else(|error| panic!("share a connection: {error}"));
        Self { stream, correlation_id: self.correlation_id }
    }

    /// Sends a request and waits for the answer.
    pub(crate) fn ask<R: RequestMessage>(&mut self, request: &R, version: i16) -> R::Response {
        self.try_ask(request, version).unwrap_or_else(|error| panic!("{}: {error}", R::NAME))
    }

    pub(crate) fn try_ask<R: RequestMessage>(
        &mut self,
        request: &R,
        version: i16,
    ) -> io::Result<R::Response> {
        self.send(request, version)?;
        self.receive::<R>(version)
    }

    pub(crate) fn send<R: RequestMessage>(&mut self, request: &R, version: i16) -> io::Result<()> {
        self.correlation_id += 1;
        let frame = encode_request(request, version, self.correlation_id, Some("a test"));
        self.send_frame(&frame.into_bytes())
    }

    /// Sends bytes that begin with their size.
    pub(crate) fn send_frame(&mut self, frame: &[u8]) -> io::Result<()> {
        self.stream.write_all(frame)
    }

    /// The next answer, which must be to a request of this kind.
    pub(crate) fn receive<R: RequestMessage>(&mut self, version: i16) -> io::Result<R::Response> {
        let (_, response) = decode_response::<R>(self.receive_frame()?, version).map_err(io::Error::other)?;
        Ok(response)
    }

    /// The next answer, without its size.
    pub(crate) fn receive_frame(&mut self) -> io::Result<Bytes> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        let mut frame = vec![0; usize::try_from(u32::from_be_bytes(size)).map_err(io::Error::other)?];
        self.stream.read_exact(&mut frame)?;
        Ok(frame.into())
    }

    pub(crate) fn create_topic(&mut self, name: &str, partitions: i32) {
        let topic = create_topics::CreatableTopic {
            name: name.to_owned(),
            num_partitions: partitions,
            replication_factor: 1,
            ..Default::default()
        };
        let request = create_topics::CreateTopicsRequest {
            topics: vec![topic],
            timeout_ms: 10_000,
            validate_only: false,
        };
        let answer = self.ask(&request, 7);
        assert_eq!(answer.topics[0].error_code, 0, "create {name}: {:?}", answer.topics[0].error_message);
    }

    /// Appends a batch and gives its offset, or the error.
    pub(crate) fn produce(&mut self, topic: &str, partition: i32, batch: Bytes) -> Result<i64, i16> {
        self.try_produce(topic, partition, batch).unwrap_or_else(|error| panic!("produce: {error}"))
    }

    pub(crate) fn try_produce(
        &mut self,
        topic: &str,
        partition: i32,
        batch: Bytes,
    ) -> io::Result<Result<i64, i16>> {
        self.send_produce(topic, partition, batch)?;
        self.produced()
    }

    pub(crate) fn send_produce(&mut self, topic: &str, partition: i32, batch: Bytes) -> io::Result<()> {
        let data = produce::PartitionProduceData { index: partition, records: Some(batch) };
        let topic = produce::TopicProduceData {
            name: topic.to_owned(),
            partition_data: vec![data],
            ..Default::default()
        };
        let request = produce::ProduceRequest {
            acks: -1,
            timeout_ms: 10_000,
            topic_data: vec![topic],
            ..Default::default()
        };
        self.send(&request, PRODUCE)
    }

    /// The answer to the oldest Produce request that was sent and not answered.
    pub(crate) fn produced(&mut self) -> io::Result<Result<i64, i16>> {
        let answer = self.receive::<produce::ProduceRequest>(PRODUCE)?;
        let partition = &answer.responses[0].partition_responses[0];
        Ok(match partition.error_code {
            0 => Ok(partition.base_offset),
            error => Err(error),
        })
    }

    pub(crate) fn send_fetch(&mut self, topic: &str, partition: i32, offset: i64) -> io::Result<()> {
        self.send(&fetch_request(topic, partition, offset), FETCH)
    }

    /// The values that the partition holds from `offset` to its end, or the error.
    pub(crate) fn values(
        &mut self,
        topic: &str,
        partition: i32,
        mut offset: i64,
    ) -> Result<Vec<String>, i16> {
        let mut values = Vec::new();
        loop {
            let answer = self.ask(&fetch_request(topic, partition, offset), FETCH);
            assert_eq!(answer.error_code, 0, "fetch");
            let found = &answer.responses[0].partitions[0];
            if found.error_code != 0 {
                return Err(found.error_code);
            }
            let mut bytes: Vec<u8> = Vec::new();
            for piece in found.records.iter().flat_map(|records| &records.0) {
                bytes.extend_from_slice(piece);
            }
            let mut bytes = Bytes::from(bytes);
            if bytes.is_empty() {
                assert_eq!(offset, found.high_watermark, "{topic}-{partition}: the end is shown");
                return Ok(values);
            }
            while let Ok(header) = batch::BatchHeader::parse(&bytes) {
                if bytes.len() < header.size() {
                    break;
                }
                let whole = bytes.split_to(header.size());
                batch::verify_crc(&whole).expect("a batch comes back as it went in");
                let mut cursor = RecordCursor::new(&whole).expect("a batch can be read");
                while let Some(record) = cursor.next_record() {
                    let record = record.expect("a record can be read");
                    assert!(record.offset >= offset, "offsets grow");
                    offset = record.offset + 1;
                    let mut value = record.value.unwrap_or_default();
                    values
                        .push(String::from_utf8_lossy(&value.copy_to_bytes(value.remaining())).into_owned());
                }
            }
        }
    }

    /// The host and port that the broker names for itself.
    pub(crate) fn advertised(&mut self) -> (String, i32) {
        let request = metadata::MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
        let answer = self.ask(&request, 12);
        (answer.brokers[0].host.clone(), answer.brokers[0].port)
    }
}

pub(crate) fn fetch_request(topic: &str, partition: i32, offset: i64) -> fetch::FetchRequest {
    let partition = fetch::FetchPartition {
        partition,
        fetch_offset: offset,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    fetch::FetchRequest {
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: 50 << 20,
        topics: vec![fetch::FetchTopic {
            topic: topic.to_owned(),
            partitions: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A batch with one record for each value.
pub(crate) fn batch_of<V: AsRef<[u8]>>(values: &[V], codec: Codec) -> Bytes {
    let mut builder = BatchBuilder::new(0).codec(codec);
    for value in values {
        let record =
            NewRecord { timestamp: 1_700_000_000_000, value: Some(value.as_ref()), ..Default::default() };
        builder.push(&record).expect("a small record");
    }
    builder.finish().expect("a batch")
}

/// A batch with this one value.
pub(crate) fn one(value: &str) -> Bytes {
    batch_of(&[value], Codec::None)
}

/// Looks again and again until `condition` holds.
pub(crate) fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    wait_until_or_tell(what, condition, String::new);
}

/// The same; if it never holds, the test ends with what `story` tells.
pub(crate) fn wait_until_or_tell(
    what: &str,
    mut condition: impl FnMut() -> bool,
    story: impl Fn() -> String,
) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < COMES_WITHIN, "waited too long until {what}{}", story());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs `kohort` with these arguments and waits for its end.
pub(crate) fn kohort(arguments: &[&str]) -> Finished {
    kohort_with(arguments, &[])
}

pub(crate) fn kohort_with(arguments: &[&str], environment: &[(&str, &str)]) -> Finished {
    let mut command = kohort_command(arguments);
    command.envs(environment.iter().copied());
    run_within(command, ANSWER_WITHIN).expect("run kohort")
}

/// `kohort` with these arguments and nothing of our own environment that it would take for a setting.
pub(crate) fn kohort_command(arguments: &[&str]) -> Command {
    let mut command = e2e::kohort::clean_command().expect("a kohort binary");
    command.args(arguments);
    command
}

/// The exit code, if it ended by itself.
pub(crate) fn code(finished: &Finished) -> Option<i32> {
    finished.status.and_then(|status| status.code())
}

/// Asks an admin listener; gives the status and the body.
pub(crate) fn get(admin: &str, path: &str) -> (u16, String) {
    get_with(admin, path, None)
}

/// The same with the broker's token.
pub(crate) fn get_with(admin: &str, path: &str, token: Option<&str>) -> (u16, String) {
    let mut stream = TcpStream::connect(admin).expect("connect to the admin listener");
    stream.set_read_timeout(Some(ANSWER_WITHIN)).expect("set a timeout");
    let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!("GET {path} HTTP/1.0\r\nHost: {admin}\r\n{authorization}\r\n");
    stream.write_all(request.as_bytes()).expect("ask the admin listener");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read its answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body.to_owned())
}
