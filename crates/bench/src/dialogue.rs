//! One connection on which requests are asked and answered one at a time: what prepares and checks a run.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use coordination::error_code::ErrorCode;
use wire::api::api_versions::ApiVersionsRequest;
use wire::api::create_topics::{CreatableTopic, CreateTopicsRequest};
use wire::api::delete_groups::DeleteGroupsRequest;
use wire::api::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use wire::api::find_coordinator::FindCoordinatorRequest;
use wire::api::metadata::{MetadataRequest, MetadataRequestTopic};
use wire::api::offset_fetch::{OffsetFetchRequest, OffsetFetchResponse};
use wire::{ApiKey, RequestMessage, decode_response, encode_request};

use crate::misuse::Misuse;
use crate::template::CLIENT_ID;

/// How long a single answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a server may take until a new topic has leaders or a group a coordinator.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Groups that are asked for as a sample of very many: enough to meet every partition of the offsets topic.
const SAMPLES: usize = 1000;

/// No single answer is larger.
const MAX_ANSWER: usize = 256 << 20;

/// A connection with what the server speaks on it.
#[derive(Debug)]
pub(crate) struct Dialogue {
    stream: TcpStream,
    versions: Versions,
    next_correlation_id: i32,
}

/// Nobody answers at the address.
#[derive(Debug)]
pub struct Unreachable {
    /// Who was looked for.
    pub(crate) whom: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) source: io::Error,
}

impl std::error::Error for Unreachable {}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { whom, address, source } = self;
        write!(f, "cannot reach {whom} at {address}; is one running there? ({source})")
    }
}

/// The versions that a server speaks, by API.
#[derive(Clone, Debug, Default)]
pub(crate) struct Versions(BTreeMap<i16, (i16, i16)>);

impl Versions {
    /// The highest version that both sides speak, up to `at_most`.
    pub(crate) fn of(&self, api: ApiKey, at_most: i16) -> Result<i16> {
        let ours = api.versions();
        let (first, last) =
            *self.0.get(&api.number()).with_context(|| format!("the server has no {}", api.name()))?;
        let highest = last.min(*ours.end()).min(at_most);
        ensure!(
            highest >= first.max(*ours.start()),
            "no common version of {}: the server has {first} to {last}",
            api.name()
        );
        Ok(highest)
    }
}

/// The address behind `host:port`.
pub(crate) fn resolve(address: &str) -> Result<SocketAddr> {
    let mut found = address
        .to_socket_addrs()
        .map_err(|error| Misuse::new(format!("{address} is not an address: {error}")))?;
    Ok(found.next().ok_or_else(|| Misuse::new(format!("{address} has no address")))?)
}

/// Fails unless the code is 0, and names it.
pub(crate) fn accepted(code: i16, what: &str) -> Result<()> {
    match ErrorCode::from_number(code) {
        None if code == 0 => Ok(()),
        None => bail!("{what} got error {code}"),
        Some(code) => bail!("{what} got {code}"),
    }
}

/// Fails unless a group is gone.
fn gone(code: i16) -> Result<()> {
    match ErrorCode::from_number(code) {
        Some(ErrorCode::GroupIdNotFound) => Ok(()),
        _ => accepted(code, "DeleteGroups"),
    }
}

/// Whether a coordinator that answers so is only not there yet.
pub(crate) fn comes_later(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::CoordinatorLoadInProgress | ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator
    )
}

impl Dialogue {
    /// Connects and asks which versions the server speaks.
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(|source| Unreachable {
            whom: "a broker",
            address,
            source,
        })?;
        stream.set_nodelay(true).context("set up a connection")?;
        stream.set_read_timeout(Some(PATIENCE)).context("set up a connection")?;
        stream.set_write_timeout(Some(PATIENCE)).context("set up a connection")?;
        let mut dialogue = Self { stream, versions: Versions::default(), next_correlation_id: 0 };
        let asked = ApiVersionsRequest {
            client_software_name: CLIENT_ID.to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let mut answer = dialogue.ask_in(&asked, 3)?;
        if answer.error_code == ErrorCode::UnsupportedVersion.number() {
            answer = dialogue.ask_in(&asked, 0)?;
        }
        accepted(answer.error_code, "ApiVersions")?;
        let ranges = answer.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version)));
        dialogue.versions = Versions(ranges.collect());
        Ok(dialogue)
    }

    /// Connects to the only broker of a cluster. Of several, each would answer for a part of what is asked here, and
    /// refuse the rest.
    pub(crate) fn with_one_broker(address: SocketAddr) -> Result<Self> {
        let mut dialogue = Self::open(address)?;
        let about_no_topic = MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
        let brokers = dialogue.ask(&about_no_topic, 12)?.brokers.len();
        ensure!(brokers <= 1, "bench measures one broker; this cluster has {brokers}");
        Ok(dialogue)
    }

    /// What the server speaks.
    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Asks in the highest version that both sides speak, up to `at_most`.
    pub(crate) fn ask<R: RequestMessage>(&mut self, request: &R, at_most: i16) -> Result<R::Response> {
        let version = self.versions.of(R::API, at_most)?;
        self.ask_in(request, version)
    }

    fn ask_in<R: RequestMessage>(&mut self, request: &R, version: i16) -> Result<R::Response> {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = self.next_correlation_id.wrapping_add(1);
        let frame = encode_request(request, version, correlation_id, Some(CLIENT_ID)).into_bytes();
        let answer = self.exchange(&frame).with_context(|| format!("ask {}", R::API.name()))?;
        let (answered, response) = decode_response::<R>(answer, version)
            .with_context(|| format!("read the answer to {}", R::API.name()))?;
        ensure!(answered == correlation_id, "the answer to {} is to another request", R::API.name());
        Ok(response)
    }

    /// Asks the same several times, with some in flight, and shows each answer to `judge`.
    pub(crate) fn ask_repeatedly<R: RequestMessage>(
        &mut self,
        request: &R,
        at_most: i16,
        times: usize,
        judge: fn(&R::Response) -> Result<()>,
    ) -> Result<()> {
        const IN_FLIGHT: usize = 8;
        let version = self.versions.of(R::API, at_most)?;
        let asking = || format!("ask {}", R::API.name());
        let frame = encode_request(request, version, 0, Some(CLIENT_ID)).into_bytes();
        for sent in 0..times + IN_FLIGHT {
            if sent < times {
                self.stream.write_all(&frame).with_context(asking)?;
            }
            if sent >= IN_FLIGHT {
                let answer = self.receive().with_context(asking)?;
                let (_, response) = decode_response::<R>(answer, version).with_context(asking)?;
                judge(&response)?;
            }
        }
        Ok(())
    }

    fn exchange(&mut self, frame: &[u8]) -> Result<Bytes> {
        self.stream.write_all(frame)?;
        self.receive()
    }

    fn receive(&mut self) -> Result<Bytes> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        let size = u32::from_be_bytes(size) as usize;
        ensure!(size <= MAX_ANSWER, "an answer of {size} bytes; is this a Kafka server?");
        let mut answer = Vec::new();
        let read = (&mut self.stream).take(size as u64).read_to_end(&mut answer)?;
        ensure!(read == size, "the connection ended in the middle of an answer");
        Ok(answer.into())
    }

    /// Makes a topic and waits until its partitions have leaders.
    pub(crate) fn create_topic(&mut self, name: &str, partitions: usize) -> Result<()> {
        let topic = CreatableTopic {
            name: name.to_owned(),
            num_partitions: i32::try_from(partitions).context("count partitions")?,
            replication_factor: 1,
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 30_000, validate_only: false };
        let answer = self.ask(&request, 7)?;
        let result = answer.topics.first().context("CreateTopics was answered with nothing")?;
        accepted(result.error_code, "CreateTopics").with_context(|| format!("create topic {name}"))?;
        let named = vec![MetadataRequestTopic { name: Some(name.to_owned()), ..Default::default() }];
        let request =
            MetadataRequest { topics: Some(named), allow_auto_topic_creation: false, ..Default::default() };
        let begun = Instant::now();
        loop {
            let answer = self.ask(&request, 12)?;
            let topic = answer.topics.first();
            let ready = topic.is_some_and(|topic| {
                topic.error_code == 0
                    && topic.partitions.len() == partitions
                    && topic.partitions.iter().all(|partition| partition.error_code == 0)
            });
            if ready {
                return Ok(());
            }
            ensure!(begun.elapsed() < READY_WITHIN, "topic {name} has no leaders after {READY_WITHIN:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Removes a topic.
    pub(crate) fn delete_topic(&mut self, name: &str) -> Result<()> {
        let request = DeleteTopicsRequest {
            topics: vec![DeleteTopicState { name: Some(name.to_owned()), ..Default::default() }],
            topic_names: vec![name.to_owned()],
            timeout_ms: 30_000,
        };
        let answer = self.ask(&request, 6)?;
        answer.responses.iter().try_for_each(|topic| accepted(topic.error_code, "DeleteTopics"))
    }

    /// Waits until the groups can be used. The first question makes a Kafka create its offsets topic, whose partitions
    /// then open one after the other; of very many groups a sample meets them all.
    pub(crate) fn await_coordinators(&mut self, groups: &[String]) -> Result<()> {
        let begun = Instant::now();
        for group in groups.iter().step_by(groups.len().div_ceil(SAMPLES).max(1)) {
            while let Some(code) = self.not_ready(group)? {
                ensure!(begun.elapsed() < READY_WITHIN, "group {group} cannot be used: {code}");
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Why a group cannot be used yet, if so.
    fn not_ready(&mut self, group: &str) -> Result<Option<ErrorCode>> {
        let request = FindCoordinatorRequest {
            key: group.to_owned(),
            key_type: 0,
            coordinator_keys: vec![group.to_owned()],
        };
        let answer = self.ask(&request, 4)?;
        let code = answer.coordinators.first().map_or(answer.error_code, |found| found.error_code);
        if code != 0 {
            let code = ErrorCode::from_number(code).filter(|&code| comes_later(code));
            return code.context("FindCoordinator got an error that does not pass").map(Some);
        }
        let code = self.all_offsets(group)?.error_code;
        Ok(ErrorCode::from_number(code).filter(|&code| comes_later(code)))
    }

    /// All that a group has committed, in the shape of version 7 and before, which has one group in it.
    pub(crate) fn all_offsets(&mut self, group: &str) -> Result<OffsetFetchResponse> {
        self.ask(&OffsetFetchRequest { group_id: group.to_owned(), ..Default::default() }, 7)
    }

    /// Removes groups that have offsets, and no members. All of them must be there.
    pub(crate) fn delete_groups(&mut self, groups: &[String]) -> Result<()> {
        self.delete_each(groups, |code| accepted(code, "DeleteGroups"))
    }

    /// Removes groups that have neither. From time to time a server itself removes such groups.
    pub(crate) fn delete_empty_groups(&mut self, groups: &[String]) -> Result<()> {
        self.delete_each(groups, gone)
    }

    fn delete_each(&mut self, groups: &[String], check: fn(i16) -> Result<()>) -> Result<()> {
        for some in groups.chunks(1000) {
            let answer = self.ask(&DeleteGroupsRequest { groups_names: some.to_vec() }, 2)?;
            answer.results.iter().try_for_each(|group| check(group.error_code))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_the_server_has_removed_itself_is_gone_and_one_with_members_is_not() {
        assert!(gone(0).is_ok() && gone(ErrorCode::GroupIdNotFound.number()).is_ok());
        let told = gone(ErrorCode::NonEmptyGroup.number()).map_err(|error| error.to_string());
        assert_eq!(told, Err("DeleteGroups got NON_EMPTY_GROUP (68)".to_owned()));
    }
}
