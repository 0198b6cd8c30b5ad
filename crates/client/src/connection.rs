//! One socket to one broker.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use wire::api::api_versions::ApiVersionsRequest;
use wire::{ApiKey, RequestMessage, decode_response, encode_request};

use crate::error::{ClientError, accepted};

/// The largest answer that is read. A fetch is bounded by what it asks for, far below this.
const MAX_RESPONSE: usize = 256 << 20;

/// How much room an answer gets before any of it has arrived; its length is only a claim.
const FIRST_READ: usize = 64 << 10;

/// A connection on which requests are asked and answered one at a time.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    address: String,
    client_id: String,
    patience: Duration,
    versions: BTreeMap<i16, RangeInclusive<i16>>,
    next_correlation_id: i32,
    /// Whether the next answer will be the one to the next request.
    in_step: bool,
}

impl Connection {
    /// Dials `address` (`host:port`) and asks which versions the broker speaks.
    ///
    /// Each later request fails when it is not answered within `patience`.
    pub async fn connect(address: &str, client_id: &str, patience: Duration) -> Result<Self, ClientError> {
        if address.rsplit_once(':').is_none_or(|(host, port)| host.is_empty() || port.parse::<u16>().is_err())
        {
            return Err(ClientError::Address { address: address.to_owned() });
        }
        let unreachable = |source| ClientError::Connect { address: address.to_owned(), source };
        let stream = timeout(patience, TcpStream::connect(address))
            .await
            .map_err(|_| unreachable(io::ErrorKind::TimedOut.into()))?
            .map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let mut connection = Self {
            stream,
            address: address.to_owned(),
            client_id: client_id.to_owned(),
            patience,
            versions: BTreeMap::new(),
            next_correlation_id: 0,
            in_step: true,
        };
        connection.negotiate().await?;
        Ok(connection)
    }

    /// The address that was dialled.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether more can be asked. After a request without an answer that is one, nothing can.
    pub fn is_usable(&self) -> bool {
        self.in_step
    }

    /// The highest version that both sides speak, up to `at_most`.
    pub fn version(&self, api: ApiKey, at_most: i16) -> Option<i16> {
        let theirs = self.versions.get(&api.number())?;
        let ours = api.versions();
        let highest = (*theirs.end()).min(*ours.end()).min(at_most);
        (highest >= *theirs.start() && highest >= *ours.start()).then_some(highest)
    }

    /// Asks in the highest version that both sides speak.
    pub async fn call<R: RequestMessage>(&mut self, request: &R) -> Result<R::Response, ClientError> {
        self.call_up_to(request, i16::MAX).await
    }

    /// Asks in the highest version that both sides speak, but none above `at_most`.
    pub async fn call_up_to<R: RequestMessage>(
        &mut self,
        request: &R,
        at_most: i16,
    ) -> Result<R::Response, ClientError> {
        let version = self.version(R::API, at_most).ok_or_else(|| ClientError::Unsupported {
            address: self.address.clone(),
            request: R::API.name(),
        })?;
        self.call_in(request, version).await
    }

    /// Asks in this version, whatever the broker says it speaks.
    pub async fn call_in<R: RequestMessage>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<R::Response, ClientError> {
        // An answer that comes late would be taken for that to the next request.
        self.in_step = false;
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = self.next_correlation_id.wrapping_add(1);
        let frame = encode_request(request, version, correlation_id, Some(&self.client_id)).into_bytes();
        let answer = match timeout(self.patience, exchange(&mut self.stream, &frame)).await {
            Err(_) => {
                return Err(ClientError::TimedOut {
                    address: self.address.clone(),
                    request: R::API.name(),
                    seconds: self.patience.as_secs(),
                });
            }
            Ok(Err(source)) if source.kind() == io::ErrorKind::InvalidData => {
                return Err(self.not_kafka(&source));
            }
            Ok(Err(source)) => {
                return Err(ClientError::Broken {
                    address: self.address.clone(),
                    request: R::API.name(),
                    source,
                });
            }
            Ok(Ok(answer)) => answer,
        };
        let (answered, response) =
            decode_response::<R>(answer, version).map_err(|error| self.not_kafka(&error))?;
        if answered != correlation_id {
            return Err(self.not_kafka(&"an answer to another request"));
        }
        self.in_step = true;
        Ok(response)
    }

    async fn negotiate(&mut self) -> Result<(), ClientError> {
        let request = ApiVersionsRequest {
            client_software_name: self.client_id.clone(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let mut response = self.call_in(&request, 3).await?;
        if response.error_code == coordination::error_code::ErrorCode::UnsupportedVersion.number() {
            response = self.call_in(&request, 0).await?;
        }
        accepted(response.error_code, None)?;
        self.versions = response
            .api_keys
            .into_iter()
            .map(|api| (api.api_key, api.min_version..=api.max_version))
            .collect();
        Ok(())
    }

    fn not_kafka(&self, problem: &dyn std::fmt::Display) -> ClientError {
        ClientError::NotKafka { address: self.address.clone(), problem: problem.to_string() }
    }
}

async fn exchange(stream: &mut TcpStream, frame: &[u8]) -> io::Result<Bytes> {
    stream.write_all(frame).await?;
    let length = usize::try_from(stream.read_i32().await?).unwrap_or(usize::MAX);
    if length > MAX_RESPONSE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer of an impossible size"));
    }
    let mut answer = BytesMut::with_capacity(length.min(FIRST_READ));
    let mut rest = stream.take(length as u64);
    while answer.len() < length {
        if rest.read_buf(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(answer.freeze())
}
