//! Our client against a real Kafka that speaks TLS and asks who its clients are.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/certificates.rs"]
mod certificates;

use std::time::Duration;

use client::{
    Client, ClientError, Identity, Mechanism, NewTopic, Options, Password, Sasl, Security, Tls, Topic,
};
use e2e::jars;
use e2e::kafka::{Kafka, Setup};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose};

use crate::certificates::{Authority, NAME};

const LISTENERS: [(&str, &str); 6] = [
    ("TLS", "SSL"),
    ("MUTUAL", "SSL"),
    ("EXPIRED", "SSL"),
    ("BARE", "SASL_PLAINTEXT"),
    ("FULL", "SASL_SSL"),
    ("HURRIED", "SASL_PLAINTEXT"),
];

const SCRAM_USERS: [&str; 3] = [
    "SCRAM-SHA-256=[name=ann,password=short secret]",
    "SCRAM-SHA-512=[name=ann,password=long secret,iterations=16384]",
    "SCRAM-SHA-256=[name=zoe,password=sécrèt]",
];

/// For how long Kafka believes those who come by the hurried listener.
const SESSION_LASTS: Duration = Duration::from_secs(2);

#[tokio::test]
async fn topics_are_listed_over_tls_and_sasl_and_what_is_wrong_is_told_clearly() {
    if jars::for_tests().is_none() {
        return;
    }
    let world = World::start();
    world.create_topic().await;

    world.everything_that_is_right_is_let_in().await;
    world.wrong_certificates_are_told().await;
    world.wrong_credentials_are_told().await;
    world.wrong_listeners_are_told().await;
    world.a_session_that_ends_is_begun_anew().await;
}

struct World {
    kafka: Kafka,
    authority: Authority,
}

impl World {
    fn start() -> Self {
        let authority = Authority::new("the authority");
        let broker = certify(&authority, |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        });
        let expired = certify(&authority, |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
        let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
        let plain =
            "org.apache.kafka.common.security.plain.PlainLoginModule required user_ann=\"plain secret\";";
        let properties = [
            ("ssl.keystore.type", "PEM".to_owned()),
            ("ssl.keystore.key", in_one_line(&broker.key_pem)),
            ("ssl.keystore.certificate.chain", in_one_line(&broker.certificate_pem)),
            ("ssl.truststore.type", "PEM".to_owned()),
            ("ssl.truststore.certificates", in_one_line(authority.pem().as_bytes())),
            ("listener.name.mutual.ssl.client.auth", "required".to_owned()),
            ("listener.name.expired.ssl.keystore.key", in_one_line(&expired.key_pem)),
            ("listener.name.expired.ssl.keystore.certificate.chain", in_one_line(&expired.certificate_pem)),
            ("listener.name.bare.sasl.enabled.mechanisms", "SCRAM-SHA-256".to_owned()),
            ("listener.name.bare.scram-sha-256.sasl.jaas.config", scram.to_owned()),
            ("listener.name.full.sasl.enabled.mechanisms", "SCRAM-SHA-512,PLAIN".to_owned()),
            ("listener.name.full.scram-sha-512.sasl.jaas.config", scram.to_owned()),
            ("listener.name.full.plain.sasl.jaas.config", plain.to_owned()),
            ("listener.name.hurried.sasl.enabled.mechanisms", "SCRAM-SHA-256".to_owned()),
            ("listener.name.hurried.scram-sha-256.sasl.jaas.config", scram.to_owned()),
            (
                "listener.name.hurried.scram-sha-256.connections.max.reauth.ms",
                SESSION_LASTS.as_millis().to_string(),
            ),
        ];
        let properties: Vec<(&str, &str)> =
            properties.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let setup = Setup { properties: &properties, listeners: &LISTENERS, scram_users: &SCRAM_USERS };
        Self { kafka: Kafka::start_as(&setup).unwrap(), authority }
    }

    async fn create_topic(&self) {
        let mut client = Client::connect(&[self.kafka.bootstrap()], Options::default()).await.unwrap();
        let topic = NewTopic { name: "orders".to_owned(), partitions: Some(3), ..NewTopic::default() };
        client.create_topic(&topic).await.unwrap();
    }

    async fn everything_that_is_right_is_let_in(&self) {
        let shown = certify(&self.authority, |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        });
        let mutual = Tls { identity: Some(shown), ..self.tls() };
        let by_name = Tls { server_name: Some(NAME.to_owned()), ..self.tls() };
        let scram_512 = sasl(Mechanism::ScramSha512, "ann", "long secret");
        for (listener, security) in [
            ("TLS", Security { tls: Some(self.tls()), ..Security::default() }),
            ("TLS", Security { tls: Some(by_name), ..Security::default() }),
            ("MUTUAL", Security { tls: Some(mutual), ..Security::default() }),
            ("BARE", sasl(Mechanism::ScramSha256, "ann", "short secret")),
            ("BARE", sasl(Mechanism::ScramSha256, "zoe", "sécrèt")),
            ("FULL", Security { tls: Some(self.tls()), ..scram_512 }),
            ("FULL", Security { tls: Some(self.tls()), ..sasl(Mechanism::Plain, "ann", "plain secret") }),
        ] {
            let topics =
                self.topics(listener, security).await.unwrap_or_else(|error| panic!("{listener}: {error}"));
            let topic = topics.iter().find(|topic| topic.name == "orders").expect("it was created");
            assert_eq!(topic.partitions.len(), 3, "{listener}");
        }
    }

    async fn wrong_certificates_are_told(&self) {
        let stranger = Authority::new("another authority");
        let trusting = |tls| Security { tls: Some(tls), ..Security::default() };

        let unknown = trusting(Tls { ca_pem: stranger.pem().into_bytes(), ..self.tls() });
        self.check("TLS", unknown, "signed by none of the authorities given").await;
        let misnamed = trusting(Tls { server_name: Some("other.test".to_owned()), ..self.tls() });
        self.check("TLS", misnamed, "not for the name other.test").await;
        self.check("EXPIRED", trusting(self.tls()), "has expired").await;

        let error = self.topics("MUTUAL", trusting(self.tls())).await.unwrap_err();
        assert!(error.is_unreachable() && told(&error).contains("certificate"), "{}", told(&error));
        let foreign = Tls { identity: Some(certify(&stranger, |_| ())), ..self.tls() };
        let error = self.topics("MUTUAL", trusting(foreign)).await.unwrap_err();
        assert!(error.is_unreachable() && told(&error).contains("certificate"), "{}", told(&error));
    }

    async fn wrong_credentials_are_told(&self) {
        let wrong = sasl(Mechanism::ScramSha256, "ann", "no secret");
        self.check("BARE", wrong, "does not accept user ann; check name and password").await;
        let nobody = sasl(Mechanism::ScramSha256, "bob", "short secret");
        self.check("BARE", nobody, "does not accept user bob; check name and password").await;
        let absent = sasl(Mechanism::ScramSha512, "ann", "long secret");
        self.check("BARE", absent, "it does not offer SCRAM-SHA-512, but SCRAM-SHA-256").await;
        let over_tls = |security| Security { tls: Some(self.tls()), ..security };
        let wrong = over_tls(sasl(Mechanism::Plain, "ann", "no secret"));
        self.check("FULL", wrong, "does not accept user ann; check name and password").await;
        let wrong = over_tls(sasl(Mechanism::ScramSha512, "ann", "no secret"));
        self.check("FULL", wrong, "does not accept user ann; check name and password").await;
    }

    async fn wrong_listeners_are_told(&self) {
        self.check("TLS", Security::default(), "TLS").await;
        self.check("BARE", Security::default(), "give a mechanism, user and password").await;
        let over_tls = |security| Security { tls: Some(self.tls()), ..security };
        self.check("BARE", over_tls(Security::default()), "leave the CA out").await;
        let known = || sasl(Mechanism::ScramSha256, "ann", "short secret");
        self.check("TLS", over_tls(known()), "leave user and password out").await;
    }

    /// Kafka closes a connection that is used after its time. A client that does not begin anew never gets through so
    /// many sessions; one that does may still be held up by a busy machine just before it asks, and tries once more.
    async fn a_session_that_ends_is_begun_anew(&self) {
        const ATTEMPTS: usize = 5;
        for attempt in 1..=ATTEMPTS {
            match self.ask_for(3 * SESSION_LASTS).await {
                Ok(()) => return,
                Err(error) => assert!(error.is_unreachable() && attempt < ATTEMPTS, "{}", told(&error)),
            }
        }
    }

    /// Asks again and again, over one client.
    async fn ask_for(&self, time: Duration) -> Result<(), ClientError> {
        let options =
            Options { security: sasl(Mechanism::ScramSha256, "ann", "short secret"), ..Options::default() };
        let mut client = Client::connect(&[self.kafka.listener("HURRIED")], options).await?;
        let begun = std::time::Instant::now();
        while begun.elapsed() < time {
            client.topics(None).await?;
        }
        Ok(())
    }

    fn tls(&self) -> Tls {
        Tls { ca_pem: self.authority.pem().into_bytes(), identity: None, server_name: None }
    }

    async fn topics(&self, listener: &str, security: Security) -> Result<Vec<Topic>, ClientError> {
        let options = Options { security, ..Options::default() };
        Client::connect(&[self.kafka.listener(listener)], options).await?.topics(None).await
    }

    async fn check(&self, listener: &str, security: Security, expected: &str) {
        let error = self.topics(listener, security).await.unwrap_err();
        assert!(told(&error).contains(expected), "{listener}: {}\nexpected: {expected}", told(&error));
    }
}

/// The error as the commands print it.
fn told(error: &ClientError) -> String {
    let source = std::error::Error::source(error).map(|source| format!(" ({source})")).unwrap_or_default();
    format!("{error}{source}")
}

fn sasl(mechanism: Mechanism, user: &str, password: &str) -> Security {
    let sasl = Sasl { mechanism, user: user.to_owned(), password: Password::new(password) };
    Security { sasl: Some(sasl), ..Security::default() }
}

/// PEM as a value in a file of Java properties.
fn in_one_line(pem: &[u8]) -> String {
    String::from_utf8(pem.to_vec()).unwrap().trim().replace("\r\n", "\n").replace('\n', "\\n")
}

fn certify(authority: &Authority, change: impl FnOnce(&mut CertificateParams)) -> Identity {
    let certified = authority.certify(change);
    Identity { certificate_pem: certified.certificate.into_bytes(), key_pem: certified.key.into_bytes() }
}
