//! The client against brokers that speak TLS and SASL by a script: good ones, confused ones and hostile ones.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use client::{Client, ClientError, Connection, Identity, Mechanism, Options, Password, Sasl, Security, Tls};
use proptest::prelude::*;
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use wire::api::api_versions::{ApiVersion, ApiVersionsResponse};
use wire::api::metadata::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::{AnyResponse, encode_any_response};

const API_VERSIONS: i16 = 18;
const METADATA: i16 = 3;
const SASL_HANDSHAKE: i16 = 17;
const SASL_AUTHENTICATE: i16 = 36;

/// How a scripted broker treats those who say who they are.
#[derive(Clone, Default)]
struct Script {
    /// Answers the greeting without SASL among what it can do.
    knows_no_sasl: bool,
    handshake_error: i16,
    mechanisms: &'static [&'static str],
    authentication_error: i16,
    /// What it says to each message of the client, in turn.
    messages: Vec<Vec<u8>>,
    session_lifetime_ms: i64,
    /// The brokers that it names, by address.
    brokers: Vec<String>,
    /// How many clients have dialled.
    dialled: Arc<AtomicUsize>,
}

impl Script {
    /// One that accepts any password.
    fn trusting() -> Self {
        Self { messages: vec![Vec::new()], ..Self::default() }
    }

    fn with_messages(messages: &[&[u8]]) -> Self {
        Self { messages: messages.iter().map(|message| message.to_vec()).collect(), ..Self::default() }
    }

    async fn serve(self) -> String {
        self.serve_under(None).await
    }

    async fn serve_under(self, tls: Option<TlsAcceptor>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        self.serve_on(listener, tls);
        address
    }

    fn serve_on(self, listener: TcpListener, tls: Option<TlsAcceptor>) {
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                self.dialled.fetch_add(1, Ordering::Relaxed);
                let (script, tls) = (self.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => script.converse(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                script.converse(stream).await;
                            }
                        }
                    }
                });
            }
        });
    }

    async fn converse(self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut messages = self.messages.clone().into_iter();
        while let Some((api, version, correlation_id)) = next_request(&mut stream).await {
            let answer = match api {
                API_VERSIONS => {
                    encode_any_response(version, correlation_id, &self.greeting()).into_bytes().to_vec()
                }
                METADATA => {
                    encode_any_response(version, correlation_id, &self.metadata()).into_bytes().to_vec()
                }
                SASL_HANDSHAKE => framed(correlation_id, &self.handshake()),
                SASL_AUTHENTICATE => {
                    // A broker that has nothing more to say hangs up.
                    let Some(message) = messages.next() else { return };
                    framed(correlation_id, &self.authenticated(&message))
                }
                other => panic!("nobody asks for {other}"),
            };
            if stream.write_all(&answer).await.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
    }

    fn greeting(&self) -> AnyResponse {
        let api = |(api_key, max_version)| ApiVersion { api_key, min_version: 0, max_version };
        let mut api_keys: Vec<_> = [(METADATA, 5), (API_VERSIONS, 3)].map(api).into();
        if !self.knows_no_sasl {
            api_keys.extend([(SASL_HANDSHAKE, 1), (SASL_AUTHENTICATE, 1)].map(api));
        }
        ApiVersionsResponse { api_keys, ..Default::default() }.into()
    }

    fn metadata(&self) -> AnyResponse {
        let broker = |(node_id, address): (i32, &String)| {
            let (host, port) = address.rsplit_once(':').unwrap();
            let port = port.parse().unwrap();
            MetadataResponseBroker { node_id, host: host.to_owned(), port, rack: None }
        };
        MetadataResponse {
            brokers: (0..).zip(&self.brokers).map(broker).collect(),
            topics: vec![MetadataResponseTopic {
                name: Some("orders".to_owned()),
                partitions: vec![MetadataResponsePartition::default()],
                ..Default::default()
            }],
            ..Default::default()
        }
        .into()
    }

    fn handshake(&self) -> Vec<u8> {
        let mut body = self.handshake_error.to_be_bytes().to_vec();
        body.extend(u32::try_from(self.mechanisms.len()).unwrap().to_be_bytes());
        for mechanism in self.mechanisms {
            body.extend(u16::try_from(mechanism.len()).unwrap().to_be_bytes());
            body.extend(mechanism.as_bytes());
        }
        body
    }

    fn authenticated(&self, message: &[u8]) -> Vec<u8> {
        let mut body = self.authentication_error.to_be_bytes().to_vec();
        body.extend((-1_i16).to_be_bytes());
        body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        body.extend(message);
        body.extend(self.session_lifetime_ms.to_be_bytes());
        body
    }
}

/// The API, version and number of the next request.
async fn next_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<(i16, i16, i32)> {
    let length = usize::try_from(stream.read_i32().await.ok()?).unwrap();
    // What is no request, such as the beginning of TLS, ends a conversation in Kafka too.
    if length > 1 << 20 {
        return None;
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).await.ok()?;
    let number = |at: usize| i16::from_be_bytes([frame[at], frame[at + 1]]);
    Some((number(0), number(2), i32::from_be_bytes(frame[4..8].try_into().unwrap())))
}

fn framed(correlation_id: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(body.len() + 4).unwrap().to_be_bytes().to_vec();
    frame.extend(correlation_id.to_be_bytes());
    frame.extend(body);
    frame
}

fn options(security: Security) -> Options {
    Options { patience: Duration::from_secs(10), security, ..Options::default() }
}

fn sasl(mechanism: Mechanism) -> Security {
    let sasl = Sasl { mechanism, user: "ann".to_owned(), password: Password::new("secret") };
    Security { sasl: Some(sasl), allow_plain_without_tls: true, tls: None }
}

/// What the commands would print.
fn told(error: &ClientError) -> String {
    let source = std::error::Error::source(error).map(|source| format!(" ({source})")).unwrap_or_default();
    format!("{error}{source}")
}

async fn refusal(address: &str, security: Security) -> String {
    let error = match Connection::connect_with(address, &options(security)).await {
        Err(error) => error,
        Ok(mut connection) => {
            connection.call(&wire::api::metadata::MetadataRequest::default()).await.unwrap_err()
        }
    };
    told(&error)
}

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn certify(&self, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned(), "kafka.test".to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity {
            certificate_pem: certificate.pem().into_bytes(),
            key_pem: key.serialize_pem().into_bytes(),
        }
    }

    fn acceptor(&self, change: impl FnOnce(&mut CertificateParams)) -> TlsAcceptor {
        let identity = self.certify(change);
        let chain =
            tokio_rustls::rustls::pki_types::CertificateDer::pem_slice_iter(&identity.certificate_pem)
                .collect::<Result<_, _>>()
                .unwrap();
        let key = PrivateKeyDer::from_pem_slice(&identity.key_pem).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    fn trusted(&self) -> Security {
        let tls = Tls { ca_pem: self.0.pem().into_bytes(), identity: None, server_name: None };
        Security { tls: Some(tls), ..Security::default() }
    }

    fn expecting(&self, name: &str) -> Security {
        let mut security = self.trusted();
        security.tls.as_mut().unwrap().server_name = Some(name.to_owned());
        security
    }
}

#[tokio::test]
async fn discovered_brokers_are_dialled_as_the_first_one_is() {
    let authority = Authority::new();
    let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let second = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let brokers: Vec<_> = [&first, &second].map(|it| it.local_addr().unwrap().to_string()).into();
    let scripts = [first, second].map(|listener| {
        let script = Script { brokers: brokers.clone(), ..Script::trusting() };
        script.clone().serve_on(listener, Some(authority.acceptor(|_| ())));
        script
    });
    let security = Security { tls: authority.trusted().tls, ..sasl(Mechanism::Plain) };
    let mut client = Client::connect(&brokers[1..], options(security)).await.unwrap();
    // It leads the partition, and offers no ListOffsets; that is found out only after TLS and SASL.
    let topics = client.topics(None).await.unwrap();
    let error = client.offsets(&topics[0]).await.unwrap_err();
    assert!(matches!(error, ClientError::Unsupported { request: "ListOffsets", .. }), "{error}");
    assert_eq!(scripts.map(|script| script.dialled.load(Ordering::Relaxed)), [1, 1]);
}

#[tokio::test]
async fn certificates_are_checked() {
    let authority = Authority::new();
    let good = Script::default().serve_under(Some(authority.acceptor(|_| ()))).await;
    for security in [authority.trusted(), authority.expecting("kafka.test")] {
        let mut client = Client::connect(std::slice::from_ref(&good), options(security)).await.unwrap();
        assert_eq!(client.topics(None).await.unwrap().len(), 1);
    }
    let unknown = refusal(&good, Authority::new().trusted()).await;
    assert!(unknown.contains("signed by none of the authorities given"), "{unknown}");
    let misnamed = refusal(&good, authority.expecting("other.test")).await;
    assert!(misnamed.contains("not for the name other.test but for 127.0.0.1, kafka.test;"), "{misnamed}");

    let expired = authority.acceptor(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    let expired = refusal(&Script::default().serve_under(Some(expired)).await, authority.trusted()).await;
    assert!(expired.contains("has expired"), "{expired}");
    let early = authority.acceptor(|params| params.not_before = rcgen::date_time_ymd(3000, 1, 1));
    let early = refusal(&Script::default().serve_under(Some(early)).await, authority.trusted()).await;
    assert!(early.contains("not valid yet"), "{early}");
}

#[tokio::test]
async fn one_side_that_speaks_tls_alone_is_told_what_to_do() {
    let authority = Authority::new();
    let encrypted = Script::default().serve_under(Some(authority.acceptor(|_| ()))).await;
    let error = refusal(&encrypted, Security::default()).await;
    assert!(error.ends_with("speaks TLS; give the CA that signed its certificate"), "{error}");
    let plain = Script::default().serve().await;
    let error = refusal(&plain, authority.trusted()).await;
    assert!(error.contains("leave the CA out"), "{error}");
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_before_anything_is_dialled() {
    let authority = Authority::new();
    let identity = authority.certify(|_| ());
    let other = authority.certify(|_| ());
    let broken = |change: &dyn Fn(&mut Tls)| {
        let mut security = authority.trusted();
        change(security.tls.as_mut().unwrap());
        security.check().unwrap_err().to_string()
    };
    assert_eq!(broken(&|tls| tls.ca_pem.clear()), "the CA holds no certificate in PEM");
    let garbled = b"-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n";
    assert!(broken(&|tls| tls.ca_pem = garbled.to_vec()).contains("cannot be used"));
    assert!(broken(&|tls| tls.server_name = Some("no name".to_owned())).contains("no name"));
    let certificate_pem = identity.certificate_pem;
    let keyless = Identity { certificate_pem: certificate_pem.clone(), key_pem: certificate_pem.clone() };
    assert!(broken(&|tls| tls.identity = Some(keyless.clone())).contains("not an unencrypted key"));
    let swapped = Identity { certificate_pem, key_pem: other.key_pem };
    assert!(broken(&|tls| tls.identity = Some(swapped.clone())).contains("cannot be used"));
}

#[tokio::test]
async fn refusals_say_what_is_wrong() {
    let address = Script { handshake_error: 33, mechanisms: &["GSSAPI", "PLAIN"], ..Script::default() };
    let error = refusal(&address.serve().await, sasl(Mechanism::ScramSha256)).await;
    assert!(error.ends_with("it does not offer SCRAM-SHA-256, but GSSAPI, PLAIN"), "{error}");

    let wrong = Script { authentication_error: 58, ..Script::trusting() };
    let error = refusal(&wrong.serve().await, sasl(Mechanism::Plain)).await;
    assert!(error.ends_with("it does not accept user ann; check name and password"), "{error}");
    assert!(!error.contains("secret"), "{error}");

    for script in [
        Script { handshake_error: 34, ..Script::default() },
        Script { knows_no_sasl: true, ..Script::default() },
    ] {
        let error = refusal(&script.serve().await, sasl(Mechanism::Plain)).await;
        assert!(error.contains("leave user and password out"), "{error}");
    }
}

#[tokio::test]
async fn a_session_that_ends_is_begun_anew() {
    let script = Script { session_lifetime_ms: 1, ..Script::trusting() };
    let dialled = script.dialled.clone();
    let address = script.serve().await;
    let mut client = Client::connect(&[address], options(sasl(Mechanism::Plain))).await.unwrap();
    // The clock has to reach the next millisecond; until then the session holds.
    while dialled.load(Ordering::Relaxed) < 3 {
        client.topics(None).await.unwrap();
    }

    let script = Script { session_lifetime_ms: i64::MAX, ..Script::trusting() };
    let dialled = script.dialled.clone();
    let mut client = Client::connect(&[script.serve().await], options(sasl(Mechanism::Plain))).await.unwrap();
    client.topics(None).await.unwrap();
    assert_eq!(dialled.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_broker_that_says_yes_without_a_proof_is_not_believed() {
    for script in [
        // It accepts whatever the client says.
        Script::with_messages(&[b"", b""]),
        Script::with_messages(&[b"r=theirs,s=QUJD,i=4096", b"v=QUJD"]),
        Script::with_messages(&[b"r=theirs,s=QUJD,i=4294967295"]),
    ] {
        for mechanism in [Mechanism::ScramSha256, Mechanism::ScramSha512] {
            let error =
                Connection::connect_with(&script.clone().serve().await, &options(sasl(mechanism))).await;
            assert!(matches!(error, Err(ClientError::Authentication { .. })), "{error:?}");
        }
    }
}

#[test]
fn no_message_of_a_broker_is_the_end() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    proptest!(ProptestConfig::with_cases(64), |(messages: Vec<Vec<u8>>)| {
        runtime.block_on(async {
            let script = Script { messages, ..Script::default() };
            let address = script.serve().await;
            let connected = Connection::connect_with(&address, &options(sasl(Mechanism::ScramSha512))).await;
            assert!(connected.is_err(), "{connected:?}");
        });
    });
}

/// A listener that wants SASL answers the greeting and hangs up at anything else.
#[tokio::test]
async fn a_broker_that_hangs_up_at_the_first_request_may_want_to_know_who_asks() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            greet_and_hang_up(&mut stream).await;
        }
    });
    let error = refusal(&address, Security::default()).await;
    assert!(error.contains("give a mechanism, user and password"), "{error}");
}

async fn greet_and_hang_up(stream: &mut TcpStream) {
    let (_, version, correlation_id) = next_request(stream).await.unwrap();
    let greeting = encode_any_response(version, correlation_id, &Script::default().greeting());
    stream.write_all(&greeting.into_bytes()).await.unwrap();
    next_request(stream).await.unwrap();
}
