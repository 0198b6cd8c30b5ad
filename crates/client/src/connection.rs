//! One socket to one broker.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use wire::api::api_versions::ApiVersionsRequest;
use wire::{ApiKey, RequestMessage, decode_response, encode_whole_request};

use crate::cluster::Options;
use crate::error::{ClientError, accepted};
use crate::security::Prepared;
use crate::{sasl, tls};

/// The largest answer that is read. A fetch is bounded by what it asks for, far below this.
const MAX_RESPONSE: usize = 256 << 20;
/// The largest answer to the greeting: whoever listens there may be anything.
const MAX_GREETING: usize = 1 << 20;

/// How much room an answer gets before any of it has arrived; its length is only a claim.
const FIRST_READ: usize = 64 << 10;

/// A connection on which requests are asked and answered one at a time.
#[derive(Debug)]
pub struct Connection {
    stream: Box<dyn Stream>,
    is_encrypted: bool,
    address: String,
    client_id: String,
    patience: Duration,
    versions: BTreeMap<i16, RangeInclusive<i16>>,
    next_correlation_id: i32,
    /// Whether the next answer will be the one to the next request.
    in_step: bool,
    /// How far the broker has let us come.
    reached: Reached,
    /// When the broker wants to hear again who we are, and it is better to dial anew.
    ends: Option<Instant>,
}

/// What a plain socket and one under TLS have in common.
trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin + std::fmt::Debug {}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin + std::fmt::Debug> Stream for S {}

/// How far a broker has let us come; it explains why one hangs up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    /// Not even the greeting has been answered.
    Nothing,
    /// The greeting has, which any listener answers to anyone.
    Greeting,
    /// Something else has, too, or we have said who we are.
    Trust,
}

impl Connection {
    /// Dials `address` (`host:port`) without TLS and asks which versions the broker speaks.
    ///
    /// Each later request fails when it is not answered within `patience`.
    pub async fn connect(address: &str, client_id: &str, patience: Duration) -> Result<Self, ClientError> {
        let options = Options { client_id: client_id.to_owned(), patience, ..Options::default() };
        Self::connect_with(address, &options).await
    }

    /// Dials `address` (`host:port`) as the options say, asks which versions the broker speaks, and says who we are
    /// if the options do.
    ///
    /// Each later request fails when it is not answered within the options' patience.
    pub async fn connect_with(address: &str, options: &Options) -> Result<Self, ClientError> {
        Self::open(address, options, &options.security.prepare()?).await
    }

    /// [`Self::connect_with`] with settings that were looked at already.
    pub(crate) async fn open(
        address: &str,
        options: &Options,
        security: &Prepared,
    ) -> Result<Self, ClientError> {
        let patience = options.patience;
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
        let stream: Box<dyn Stream> = match &security.tls {
            Some((config, name)) => {
                let begun = timeout(patience, tls::begin(stream, address, config.clone(), name.as_deref()));
                let timed_out = |_| ClientError::TimedOut {
                    address: address.to_owned(),
                    request: "the TLS handshake",
                    seconds: patience.as_secs(),
                };
                Box::new(begun.await.map_err(timed_out)??)
            }
            None => Box::new(stream),
        };
        let mut connection = Self {
            stream,
            is_encrypted: security.tls.is_some(),
            address: address.to_owned(),
            client_id: options.client_id.clone(),
            patience,
            versions: BTreeMap::new(),
            next_correlation_id: 0,
            in_step: true,
            reached: Reached::Nothing,
            ends: None,
        };
        connection.negotiate().await?;
        connection.reached = Reached::Greeting;
        if let Some(sasl) = &security.sasl {
            connection.ends = sasl::authenticate(&mut connection, sasl).await?;
            connection.reached = Reached::Trust;
        }
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

    /// Whether the broker wants to hear again who we are, or will before the next request is answered.
    pub(crate) fn is_over(&self) -> bool {
        self.ends.is_some_and(|ends| ends <= Instant::now())
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
        let correlation_id = self.next_correlation_id;
        let frame = encode_whole_request(request, version, correlation_id, Some(&self.client_id))
            .map_err(|source| ClientError::TooLong { request: R::API.name(), source })?
            .into_bytes();
        self.next_correlation_id = self.next_correlation_id.wrapping_add(1);
        // An answer that comes late would be taken for that to the next request.
        self.in_step = false;
        let length_max = if self.reached == Reached::Nothing { MAX_GREETING } else { MAX_RESPONSE };
        let answer = match timeout(self.patience, exchange(&mut *self.stream, &frame, length_max)).await {
            Err(_) => {
                return Err(ClientError::TimedOut {
                    address: self.address.clone(),
                    request: R::API.name(),
                    seconds: self.patience.as_secs(),
                });
            }
            Ok(Err(Unread::Impossible)) => return Err(self.not_kafka(&"an answer of an impossible size")),
            Ok(Err(Unread::Tls)) => return Err(ClientError::WantsTls { address: self.address.clone() }),
            Ok(Err(Unread::Broken(source))) => return Err(self.broken(R::API.name(), source)),
            Ok(Ok(answer)) => answer,
        };
        let (answered, response) =
            decode_response::<R>(answer, version).map_err(|error| self.not_kafka(&error))?;
        if answered != correlation_id {
            return Err(self.not_kafka(&"an answer to another request"));
        }
        self.in_step = true;
        if self.reached == Reached::Greeting {
            self.reached = Reached::Trust;
        }
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

    /// What a broken connection means, as far as it can be told.
    fn broken(&self, request: &'static str, source: io::Error) -> ClientError {
        let address = self.address.clone();
        if let Some(problem) = tls::late_problem(&source) {
            return ClientError::Tls { address, problem };
        }
        let hung_up = matches!(source.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset);
        let hint = match self.reached {
            Reached::Nothing if self.is_encrypted => {
                "a listener that wants certificates from its clients hangs up so"
            }
            Reached::Nothing => {
                "a listener that speaks TLS hangs up so; then give the CA that signed its certificate"
            }
            Reached::Greeting => {
                "a listener that asks who its clients are hangs up so, then give a mechanism, user and password; and so \
                 does a gateway that cannot reach its broker"
            }
            Reached::Trust => return ClientError::Broken { address, request, source },
        };
        let source =
            if hung_up { io::Error::new(source.kind(), format!("{source}; {hint}")) } else { source };
        ClientError::Broken { address, request, source }
    }

    fn not_kafka(&self, problem: &dyn std::fmt::Display) -> ClientError {
        ClientError::NotKafka { address: self.address.clone(), problem: problem.to_string() }
    }
}

/// Why there is no answer to look at.
enum Unread {
    Broken(io::Error),
    /// Its size cannot be one.
    Impossible,
    /// It is an alert of TLS.
    Tls,
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

async fn exchange(stream: &mut dyn Stream, frame: &[u8], length_max: usize) -> Result<Bytes, Unread> {
    stream.write_all(frame).await?;
    stream.flush().await?;
    let size = stream.read_i32().await?;
    // The type of an alert and the major version of all TLS there is. As a size it would be beyond the largest.
    if size.to_be_bytes().starts_with(&[0x15, 0x03]) {
        return Err(Unread::Tls);
    }
    let length = usize::try_from(size).unwrap_or(usize::MAX);
    if length > length_max {
        return Err(Unread::Impossible);
    }
    let mut answer = BytesMut::with_capacity(length.min(FIRST_READ));
    let mut rest = stream.take(length as u64);
    while answer.len() < length {
        if rest.read_buf(&mut answer).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
    Ok(answer.freeze())
}
