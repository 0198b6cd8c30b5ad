//! A consumer: how it is described, started and ended.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use ulid::Ulid;

use crate::calls::Token;
use crate::driver::{Control, Driver};
use crate::handler::Handler;
use crate::machine::{Machine, Outcome};
use crate::ownership::Ownership;
use crate::partition::Partition;
use crate::proto;

/// The version of the contract that this library speaks: sessions, KeepAlive and Cancel.
const PROTOCOL_VERSION: u32 = 2;
/// How long a connection may take to be made before the next endpoint is tried.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// A consumer that is about to start.
#[derive(Clone, Debug)]
pub struct Consumer {
    registration: proto::RegisterRequest,
    endpoints: Vec<Endpoint>,
    token: Token,
}

impl Consumer {
    /// Describes a consumer. Its name is that of the place it fills in its group, and stays the same over restarts; of
    /// two processes with the same name the one that registers later works.
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder { name: name.into(), ..Builder::default() }
    }

    /// Registers and works in the background, for as long as the handle that is returned is kept. Without an assigner
    /// in reach it goes on trying.
    ///
    /// # Panics
    /// When it is not called within a runtime of tokio.
    #[must_use = "when the handle is dropped the consumer stops"]
    pub fn start<H: Handler>(&self, handler: H) -> Running {
        let mut registration = self.registration.clone();
        let session = u128::from_be_bytes(rand::random());
        registration.session = Ulid::from_parts(unix_ms(), session).to_string();
        let ownership = Ownership::new();
        let (control, wishes) = mpsc::unbounded_channel();
        let (ended, finished) = watch::channel(None);
        let name = registration.consumer_name.clone();
        let driver = Driver {
            handler: Arc::new(handler),
            endpoints: self.endpoints.clone(),
            token: self.token.clone(),
            registration,
            ownership: ownership.clone(),
            control: wishes,
            machine: Machine::new(self.endpoints.len(), rand::random()),
        };
        tokio::spawn(async move {
            let result = match driver.run().await {
                Outcome::Left => Ok(()),
                Outcome::Fenced => Err(RunError::Fenced { name }),
                Outcome::Refused(reason) => Err(RunError::Refused { reason }),
            };
            ended.send_replace(Some(result));
        });
        Running { control, finished, ownership }
    }
}

fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(0)
}

/// Describes a consumer.
#[derive(Clone, Default)]
#[must_use]
pub struct Builder {
    name: String,
    group: String,
    topics: Vec<String>,
    capacity: u32,
    rack: String,
    labels: BTreeMap<String, String>,
    holds: Vec<Partition>,
    endpoints: Vec<String>,
    token: Option<String>,
    tls: Option<Tls>,
}

/// How to speak TLS with the assigner.
#[derive(Clone, Default)]
pub struct Tls {
    /// The certificates of those who may vouch for the assigner, as PEM.
    pub ca: Vec<u8>,
    /// Our own certificate and its key, as PEM, if the assigner wants one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name in the assigner's certificate, if it is not that of the endpoint.
    pub domain: Option<String>,
}

/// What cannot be a consumer.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// It has no name.
    #[error("a consumer needs a name")]
    NoName,
    /// It works on no topic.
    #[error("a consumer needs a topic")]
    NoTopic,
    /// There is nobody to ask.
    #[error("a consumer needs the endpoint of at least one instance of the assigner")]
    NoEndpoint,
    /// TLS is wanted, and an endpoint would be spoken to in the clear.
    #[error("endpoint `{endpoint}` does not begin with https://, but TLS is wanted")]
    Clear {
        /// What was given.
        endpoint: String,
    },
    /// An endpoint wants TLS, and nothing was said about whom to trust.
    #[error("endpoint `{endpoint}` begins with https://, but nothing is said of TLS")]
    NoTls {
        /// What was given.
        endpoint: String,
    },
    /// TLS is wanted, and nobody is trusted.
    #[error("TLS needs the PEM certificate of an authority to trust")]
    NoAuthority,
    /// This is no endpoint, or what was said of TLS is wrong.
    #[error("endpoint `{endpoint}`: {source}")]
    Endpoint {
        /// What was given.
        endpoint: String,
        /// What is wrong with it.
        source: tonic::transport::Error,
    },
    /// The token cannot be sent.
    #[error("the token has characters that cannot be sent")]
    Token,
}

impl Builder {
    /// The group whose consumers share the partitions. Without one all consumers that name none are the group.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = group.into();
        self
    }

    /// Adds a topic to work on.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topics.push(topic.into());
        self
    }

    /// How much it can carry compared with others, which carry 1 unless they say otherwise.
    pub fn capacity(mut self, capacity: u32) -> Self {
        self.capacity = capacity;
        self
    }

    /// Where it runs. Partitions of the same place are preferred.
    pub fn rack(mut self, rack: impl Into<String>) -> Self {
        self.rack = rack.into();
        self
    }

    /// Says something about it for operators to read.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// A partition whose state it has already, from an earlier run for example. It is preferred for that one.
    pub fn holds(mut self, partition: Partition) -> Self {
        self.holds.push(partition);
        self
    }

    /// Where instances of the assigner are, such as `http://assigner-0:50051`. Any of them will do; when one is lost
    /// the next is tried.
    pub fn endpoints<T: Into<String>>(mut self, endpoints: impl IntoIterator<Item = T>) -> Self {
        self.endpoints.extend(endpoints.into_iter().map(Into::into));
        self
    }

    /// The token that the assigner wants to see.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Speaks TLS. Endpoints begin with `https://` then.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The consumer.
    ///
    /// # Errors
    /// When something is missing, or an endpoint is none.
    pub fn build(self) -> Result<Consumer, BuildError> {
        if self.name.is_empty() {
            return Err(BuildError::NoName);
        }
        let mut topics = self.topics.into_iter();
        let Some(topic) = topics.next() else { return Err(BuildError::NoTopic) };
        if self.endpoints.is_empty() {
            return Err(BuildError::NoEndpoint);
        }
        let tls = self.tls.as_ref();
        let endpoints = self.endpoints.into_iter().map(|endpoint| open(&endpoint, tls));
        let token = self.token.as_deref().map(Token::new).transpose().map_err(|_| BuildError::Token)?;
        let registration = proto::RegisterRequest {
            consumer_name: self.name,
            topic,
            group: self.group,
            protocol_version: PROTOCOL_VERSION,
            session: String::new(),
            topics: topics.collect(),
            capacity: self.capacity,
            rack: self.rack,
            labels: self.labels.into_iter().collect(),
            holds: self.holds.iter().map(Partition::encode).collect(),
        };
        Ok(Consumer {
            registration,
            endpoints: endpoints.collect::<Result<_, _>>()?,
            token: token.unwrap_or_default(),
        })
    }
}

fn open(endpoint: &str, tls: Option<&Tls>) -> Result<Endpoint, BuildError> {
    let named = |source| BuildError::Endpoint { endpoint: endpoint.to_owned(), source };
    let opened = Endpoint::from_shared(endpoint.to_owned()).map_err(named)?;
    let opened = opened.connect_timeout(CONNECT_WITHIN).tcp_nodelay(true);
    let tls = match (tls, opened.uri().scheme_str() == Some("https")) {
        (None, false) => return Ok(opened),
        (None, true) => return Err(BuildError::NoTls { endpoint: endpoint.to_owned() }),
        // A token must not go out in the clear because of a missing letter.
        (Some(_), false) => return Err(BuildError::Clear { endpoint: endpoint.to_owned() }),
        (Some(tls), true) => tls,
    };
    // Otherwise a file that is something else would read as trust in nobody, and look like a fault of the assigner.
    if !tls.ca.windows(BEGIN.len()).any(|window| window == BEGIN) {
        return Err(BuildError::NoAuthority);
    }
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.ca));
    if let Some((certificate, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(certificate, key));
    }
    if let Some(domain) = &tls.domain {
        config = config.domain_name(domain);
    }
    opened.tls_config(config).map_err(named)
}

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// Whatever is printed, the token is not.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, group, topics, capacity, rack, labels, holds, endpoints, token, tls } = self;
        f.debug_struct("Builder")
            .field("name", name)
            .field("group", group)
            .field("topics", topics)
            .field("capacity", capacity)
            .field("rack", rack)
            .field("labels", labels)
            .field("holds", holds)
            .field("endpoints", endpoints)
            .field("has_token", &token.is_some())
            .field("tls", tls)
            .finish()
    }
}

/// Whatever is printed, the key is not.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ca: _, identity, domain } = self;
        f.debug_struct("Tls")
            .field("has_identity", &identity.is_some())
            .field("domain", domain)
            .finish_non_exhaustive()
    }
}

/// A consumer at work. When this is dropped it stops as with [`Self::stop`], without anyone waiting for it.
#[derive(Debug)]
pub struct Running {
    control: mpsc::UnboundedSender<Control>,
    finished: watch::Receiver<Option<Result<(), RunError>>>,
    ownership: Ownership,
}

/// Why a consumer ended without being asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Another process works under its name. This one has stopped all work and must not be started again under it.
    #[error("another process has registered as {name}")]
    Fenced {
        /// The name.
        name: String,
    },
    /// The assigner will not have it, however often it is asked.
    #[error("the assigner refuses this consumer: {reason}")]
    Refused {
        /// What it says.
        reason: String,
    },
    /// The runtime was shut down before the consumer had ended.
    #[error("the consumer was ended together with its runtime")]
    Aborted,
}

impl Running {
    /// What this consumer owns, for whoever wants to know at any moment.
    pub fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// Leaves the group: hands its partitions over to others, which warm up first, and returns when they have them all.
    /// What nobody can take is released. Until then it works as before. When the lease is lost meanwhile, there is nothing
    /// left to hand over, and it returns as well.
    ///
    /// Warming may take long. If time is short, give this future some and call [`Self::stop`] then.
    ///
    /// # Errors
    /// When it ended for another reason.
    pub async fn deregister(&self) -> Result<(), RunError> {
        let _ = self.control.send(Control::Deregister);
        self.finished().await
    }

    /// Releases everything now and leaves; others get the partitions at once, and cold.
    ///
    /// It waits for the handler: while one of its calls does not return the lease is renewed, and nobody else gets the
    /// partitions. A process that cannot wait ends itself; the lease does the rest.
    ///
    /// # Errors
    /// When it ended for another reason.
    pub async fn stop(&self) -> Result<(), RunError> {
        let _ = self.control.send(Control::Stop);
        self.finished().await
    }

    /// Returns when the consumer has ended, whatever the reason.
    ///
    /// # Errors
    /// When it was not asked to.
    pub async fn finished(&self) -> Result<(), RunError> {
        let mut finished = self.finished.clone();
        match finished.wait_for(Option::is_some).await {
            Ok(result) => result.clone().unwrap_or(Ok(())),
            Err(_) => Err(RunError::Aborted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(endpoint: &str) -> Builder {
        Consumer::builder("a").topic("t").token("open-sesame").endpoints([endpoint])
    }

    fn tls() -> Tls {
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (own.cert.pem().into_bytes(), own.signing_key.serialize_pem().into_bytes());
        Tls { ca: certificate.clone(), identity: Some((certificate, key)), domain: None }
    }

    #[tokio::test]
    async fn https_and_tls_go_together() {
        assert!(describe("http://h:1").build().is_ok());
        assert!(describe("https://h:1").tls(tls()).build().is_ok());
        let refused = |builder: Builder| builder.build().unwrap_err().to_string();
        let clear = refused(describe("http://h:1").tls(tls()));
        assert_eq!(clear, "endpoint `http://h:1` does not begin with https://, but TLS is wanted");
        let untrusted = refused(describe("https://h:1"));
        assert_eq!(untrusted, "endpoint `https://h:1` begins with https://, but nothing is said of TLS");
        let nobody = refused(describe("https://h:1").tls(Tls::default()));
        assert_eq!(nobody, "TLS needs the PEM certificate of an authority to trust");
    }

    #[tokio::test]
    async fn what_is_printed_holds_no_secret() {
        let tls = tls();
        let key = tls.identity.clone().unwrap().1;
        let builder = describe("https://h:1").tls(tls);
        let consumer = builder.clone().build().unwrap();
        let printed = format!("{builder:?} {consumer:?}");
        assert!(printed.contains("has_token: true"), "{printed}");
        assert!(!printed.contains("sesame"), "{printed}");
        let bytes = format!("{key:?}");
        let line = String::from_utf8(key).unwrap().lines().nth(1).unwrap().to_owned();
        assert!(!printed.contains(bytes.trim_matches(['[', ']'])) && !printed.contains(&line), "{printed}");
    }
}
