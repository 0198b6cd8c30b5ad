//! For tests: a server with one topic at a time that keeps what is produced, and answers that a test may change.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use batch::BatchHeader;
use bytes::Bytes;
use clap::{Args, Command};
use wire::api::api_versions::{ApiVersion, ApiVersionsResponse};
use wire::api::create_topics::{CreatableTopicResult, CreateTopicsResponse};
use wire::api::fetch::{FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData};
use wire::api::list_offsets::{
    ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use wire::api::metadata::{MetadataResponse, MetadataResponsePartition, MetadataResponseTopic};
use wire::api::produce::{PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse};
use wire::{AnyRequest, AnyResponse, ApiKey, Records};

use crate::compare::{Place, Target};
use crate::scenario::Scenario;

/// Changes an answer before it leaves.
pub(crate) type Tamper = fn(&AnyRequest, &mut AnyResponse);

/// Starts the server; it ends with the test.
pub(crate) fn start(tamper: Tamper) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address");
    let topic = Arc::new(Mutex::new(Topic::default()));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let topic = Arc::clone(&topic);
            thread::spawn(move || serve(stream, &topic, tamper));
        }
    });
    address
}

/// Runs a scenario with these flags for a moment, and says what was wrong, or "nothing".
pub(crate) fn measured<S: Scenario + Args>(address: SocketAddr, flags: &[&str]) -> String {
    let brief = ["bench", "--duration", "20ms", "--warmup", "0s"];
    let matches = S::augment_args(Command::new("bench")).try_get_matches_from(brief.iter().chain(flags));
    let scenario =
        S::from_arg_matches(&matches.expect("flags of the scenario")).expect("flags of the scenario");
    let target = Target { name: "scripted".to_owned(), place: Place::Server(address, None) };
    scenario.measure(&target).map_or_else(|error| format!("{error:#}"), |_| "nothing".to_owned())
}

/// Batches by partition, with their offsets in them.
#[derive(Default)]
struct Topic {
    partitions: Vec<Vec<Bytes>>,
}

/// Answers until the connection ends.
fn serve(mut stream: TcpStream, topic: &Mutex<Topic>, tamper: Tamper) -> io::Result<()> {
    loop {
        let mut size = [0; 4];
        stream.read_exact(&mut size)?;
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        stream.read_exact(&mut frame)?;
        let (header, request) = wire::decode_any_request(frame.into()).expect("a request");
        let mut answer = topic.lock().unwrap_or_else(PoisonError::into_inner).answer(&request);
        tamper(&request, &mut answer);
        let reply = wire::encode_any_response(header.version, header.correlation_id, &answer);
        stream.write_all(&reply.into_bytes())?;
    }
}

impl Topic {
    fn answer(&mut self, request: &AnyRequest) -> AnyResponse {
        match request {
            AnyRequest::ApiVersions(_) => {
                let offer = |api: &ApiKey| ApiVersion {
                    api_key: api.number(),
                    min_version: *api.versions().start(),
                    max_version: *api.versions().end(),
                };
                let api_keys = ApiKey::ANSWERED.iter().map(offer).collect();
                AnyResponse::ApiVersions(ApiVersionsResponse { api_keys, ..Default::default() })
            }
            AnyRequest::CreateTopics(asked) => {
                let count = usize::try_from(asked.topics[0].num_partitions).expect("a count");
                self.partitions = vec![Vec::new(); count];
                let topics = vec![CreatableTopicResult::default()];
                AnyResponse::CreateTopics(CreateTopicsResponse { topics, ..Default::default() })
            }
            AnyRequest::DeleteTopics(_) => AnyResponse::DeleteTopics(Default::default()),
            AnyRequest::Metadata(_) => {
                let partitions = vec![MetadataResponsePartition::default(); self.partitions.len()];
                let topics = vec![MetadataResponseTopic { partitions, ..Default::default() }];
                AnyResponse::Metadata(MetadataResponse { topics, ..Default::default() })
            }
            AnyRequest::Produce(asked) => self.produce(asked),
            AnyRequest::ListOffsets(asked) => self.list(asked),
            AnyRequest::Fetch(asked) => self.fetch(asked),
            other => panic!("no answer to {other:?}"),
        }
    }

    fn produce(&mut self, asked: &ProduceRequest) -> AnyResponse {
        let data = &asked.topic_data[0].partition_data[0];
        let base_offset = self.end(data.index);
        let records = data.records.clone().expect("a batch");
        self.log(data.index).push(moved(&records, base_offset));
        let appended = PartitionProduceResponse { index: data.index, base_offset, ..Default::default() };
        let topic = TopicProduceResponse { partition_responses: vec![appended], ..Default::default() };
        AnyResponse::Produce(ProduceResponse { responses: vec![topic], ..Default::default() })
    }

    fn list(&mut self, asked: &ListOffsetsRequest) -> AnyResponse {
        let found = asked.topics[0].partitions.iter().map(|partition| ListOffsetsPartitionResponse {
            partition_index: partition.partition_index,
            offset: self.end(partition.partition_index),
            ..Default::default()
        });
        let topic = ListOffsetsTopicResponse { partitions: found.collect(), ..Default::default() };
        AnyResponse::ListOffsets(ListOffsetsResponse { topics: vec![topic], ..Default::default() })
    }

    /// One batch at a time.
    fn fetch(&mut self, asked: &FetchRequest) -> AnyResponse {
        let wanted = &asked.topics[0].partitions[0];
        let here = |batch: &&Bytes| header(batch).base_offset == wanted.fetch_offset;
        let batch = self.log(wanted.partition).iter().find(here).cloned();
        let found = PartitionData {
            partition_index: wanted.partition,
            records: batch.map(|batch| Records(vec![batch])),
            ..Default::default()
        };
        let topic = FetchableTopicResponse { partitions: vec![found], ..Default::default() };
        AnyResponse::Fetch(FetchResponse { responses: vec![topic], ..Default::default() })
    }

    fn log(&mut self, partition: i32) -> &mut Vec<Bytes> {
        &mut self.partitions[usize::try_from(partition).expect("a partition")]
    }

    fn end(&mut self, partition: i32) -> i64 {
        self.log(partition).last().map_or(0, |batch| header(batch).last_offset() + 1)
    }
}

fn header(batch: &[u8]) -> BatchHeader {
    BatchHeader::parse(batch).expect("a batch")
}

/// The batch at another offset.
fn moved(batch: &[u8], base_offset: i64) -> Bytes {
    changed(batch, |header| header.base_offset = base_offset)
}

fn changed(batch: &[u8], change: impl FnOnce(&mut BatchHeader)) -> Bytes {
    let mut header = header(batch);
    change(&mut header);
    let mut batch = batch.to_vec();
    let front = header.to_bytes();
    batch[..front.len()].copy_from_slice(&front);
    batch.into()
}

/// Changes to the answer to ListOffsets.
pub(crate) trait ListedOffset {
    /// Other end offsets; any other answer stays as it is.
    fn list(&mut self, change: impl Fn(i64) -> i64);
}

impl ListedOffset for AnyResponse {
    fn list(&mut self, change: impl Fn(i64) -> i64) {
        if let Self::ListOffsets(answer) = self {
            for partition in answer.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
                partition.offset = change(partition.offset);
            }
        }
    }
}

/// Changes to the batch in the answer to Fetch; any other answer stays as it is.
pub(crate) trait FetchedBatch {
    fn records(&mut self) -> Option<&mut Option<Records>>;

    /// Changes the bytes of the batch, if there is one.
    fn rewrite(&mut self, change: impl FnOnce(&[u8]) -> Bytes) {
        if let Some(Some(records)) = self.records() {
            *records = Records(vec![change(&std::mem::take(records).into_bytes())]);
        }
    }

    /// Where the batch begins.
    fn base_offset(&mut self) -> Option<i64> {
        let records = self.records()?.as_ref()?;
        Some(header(&records.0[0]).base_offset)
    }

    /// Lets it begin elsewhere.
    fn batch(&mut self, change: impl FnOnce(i64) -> i64) {
        self.rewrite(|batch| moved(batch, change(header(batch).base_offset)));
    }

    fn take_records(&mut self) {
        if let Some(records) = self.records() {
            *records = None;
        }
    }

    fn drop_a_record(&mut self) {
        self.rewrite(|batch| changed(batch, |header| header.records_count -= 1));
    }

    fn spoil_magic(&mut self) {
        self.rewrite(|batch| changed(batch, |header| header.magic = 7));
    }
}

impl FetchedBatch for AnyResponse {
    fn records(&mut self) -> Option<&mut Option<Records>> {
        match self {
            Self::Fetch(answer) => Some(&mut answer.responses[0].partitions[0].records),
            _ => None,
        }
    }
}
