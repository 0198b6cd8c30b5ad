//! Who is let in.

use assigner::{Assigner, ServerTls, Settings, StartError, Token};
use assigner_client::proto;
use assigner_client::proto::kafka_assigner_admin_client::KafkaAssignerAdminClient;
use assigner_client::proto::kafka_assigner_client::KafkaAssignerClient;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::world::{World, dial, eventually, within};

async fn status(channel: Channel, header: Option<&str>) -> Result<proto::StatusResponse, Status> {
    let mut request = Request::new(proto::StatusRequest::default());
    if let Some(header) = header {
        request.metadata_mut().insert("authorization", header.parse().unwrap());
    }
    let mut admin = KafkaAssignerAdminClient::new(channel);
    within("an answer", admin.status(request)).await.map(tonic::Response::into_inner)
}

async fn says(channel: &Channel, status: ServingStatus) -> Option<()> {
    let request = HealthCheckRequest { service: "kafka_assigner.v1.KafkaAssigner".to_owned() };
    let answer = HealthClient::new(channel.clone()).check(request).await.ok()?;
    (answer.into_inner().status() == status).then_some(())
}

#[tokio::test]
async fn any_of_the_tokens_lets_in_and_the_health_needs_none() {
    let world = World::with_topic("t", 1).await;
    let tokens = ["old", "new"].map(|token| Token(token.to_owned())).to_vec();
    let instance = world.instance(Settings { tokens, ..world.settings() }).await;
    let channel = dial(&instance).await;
    for header in ["Bearer old", "Bearer new"] {
        status(channel.clone(), Some(header)).await.unwrap();
    }
    for header in [None, Some("Bearer older"), Some("old")] {
        let refused = status(channel.clone(), header).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{header:?}");
    }
    eventually("it serves", async || says(&channel, ServingStatus::Serving).await).await;
}

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    /// A certificate and its key.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    fn server(&self, client_ca: Option<&Self>) -> ServerTls {
        let (certificate, key) = self.issue("localhost");
        let client_ca = client_ca.map(|authority| authority.issuer.pem().into_bytes());
        ServerTls { certificate: certificate.into_bytes(), key: key.into_bytes(), client_ca }
    }

    fn client(&self) -> ClientTlsConfig {
        ClientTlsConfig::new()
            .domain_name("localhost")
            .ca_certificate(Certificate::from_pem(self.issuer.pem()))
    }
}

async fn over_tls(instance: &Assigner, tls: ClientTlsConfig) -> Result<proto::StatusResponse, String> {
    let endpoint = Endpoint::from_shared(format!("https://{}", instance.address())).unwrap();
    let channel = within("a connection", endpoint.tls_config(tls).unwrap().connect()).await;
    let channel = channel.map_err(|error| format!("{error:?}"))?;
    status(channel, None).await.map_err(|status| status.to_string())
}

#[tokio::test]
async fn over_tls_the_client_knows_whom_it_speaks_with() {
    let world = World::with_topic("t", 1).await;
    let authority = Authority::new();
    let instance = world.instance(Settings { tls: Some(authority.server(None)), ..world.settings() }).await;
    over_tls(&instance, authority.client()).await.unwrap();
    over_tls(&instance, Authority::new().client()).await.unwrap_err();
    let endpoint = Endpoint::from_shared(format!("http://{}", instance.address())).unwrap();
    if let Ok(channel) = within("a connection", endpoint.connect()).await {
        status(channel, None).await.unwrap_err();
    }
}

#[tokio::test]
async fn with_an_authority_for_clients_only_those_with_a_certificate_of_it_are_let_in() {
    let world = World::with_topic("t", 1).await;
    let (servers, clients) = (Authority::new(), Authority::new());
    let instance =
        world.instance(Settings { tls: Some(servers.server(Some(&clients))), ..world.settings() }).await;
    let as_one_of = |authority: &Authority| {
        let (certificate, key) = authority.issue("client");
        servers.client().identity(Identity::from_pem(certificate, key))
    };
    over_tls(&instance, as_one_of(&clients)).await.unwrap();
    over_tls(&instance, as_one_of(&servers)).await.unwrap_err();
    over_tls(&instance, servers.client()).await.unwrap_err();
}

#[tokio::test]
async fn an_instance_with_a_key_that_is_none_does_not_start() {
    let tls = ServerTls { certificate: b"nothing".to_vec(), key: b"secret".to_vec(), client_ca: None };
    let settings =
        Settings { tls: Some(tls), bind_host: "127.0.0.1".to_owned(), bind_port: 0, ..Settings::default() };
    let error = Assigner::start(settings).await.err().unwrap();
    assert!(matches!(&error, StartError::Tls { problem } if !problem.contains("secret")), "{error:?}");
}

#[tokio::test]
async fn an_instance_that_has_not_read_etcd_says_that_it_does_not_serve() {
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = Settings {
        etcd_endpoints: vec![format!("http://{}", nobody.local_addr().unwrap())],
        bind_host: "127.0.0.1".to_owned(),
        bind_port: 0,
        ..Settings::default()
    };
    let instance = Assigner::start(settings).await.unwrap();
    let channel = dial(&instance).await;
    eventually("it says so", async || says(&channel, ServingStatus::NotServing).await).await;
    let mut client = KafkaAssignerClient::new(channel);
    let refused = client.register(crate::consumer::original("a", "t")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
}
