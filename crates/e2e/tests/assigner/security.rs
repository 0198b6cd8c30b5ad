//! Everybody asks everybody else who they are: consumers and instances, instances and etcd, instances and Kafka.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use assigner_client::{Builder, Consumer, RunError, Tls};
use client::{Client, NewTopic, Options};
use e2e::etcd::{Etcd, EtcdCluster};
use e2e::jars;
use e2e::kafka::{Kafka, Setup};
use e2e::ports;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::worker::Worker;
use crate::world::{TOPIC, World};

const TOKEN: &str = "a-token-that-is-long-enough";

#[test]
fn partitions_are_handed_over_where_everybody_shows_who_they_are() {
    if jars::for_tests().is_none() {
        return;
    }
    let authority = Authority::new();
    let directory = tempfile::Builder::new().prefix("security-").tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        write_secret(&path, content);
        path.display().to_string()
    };
    let kafka = authority.kafka();
    let (node, options) = authority.etcd();
    let mut world = World::reached_by(EtcdCluster { nodes: vec![node] }, options);
    world.runtime().block_on(async {
        let mut client = Client::connect(&[kafka.bootstrap()], Options::default()).await.unwrap();
        let topic = NewTopic { name: TOPIC.to_owned(), partitions: Some(5), ..NewTopic::default() };
        client.create_topic(&topic).await.unwrap();
    });

    let ca = file("ca.pem", &authority.0.pem());
    let (certificate, key) = authority.issue("127.0.0.1");
    let (certificate, key) = (file("cert.pem", &certificate), file("key.pem", &key));
    let token = file("token", &format!("{TOKEN}\n"));
    let etcd_password = file("etcd-password", "secret\n");
    let kafka_password = file("kafka-password", "long secret\n");
    let settings = [
        ("tls_cert_file", certificate.as_str()),
        ("tls_key_file", &key),
        ("tls_client_ca_file", &ca),
        ("token_file", &token),
        ("etcd_user", "root"),
        ("etcd_password_file", &etcd_password),
        ("etcd_ca_file", &ca),
        ("etcd_cert_file", &certificate),
        ("etcd_key_file", &key),
        ("kafka_ca_file", &ca),
        ("kafka_sasl_mechanism", "SCRAM-SHA-512"),
        ("kafka_sasl_user", "ann"),
        ("kafka_sasl_password_file", &kafka_password),
    ];
    for _ in 0..2 {
        world.add_instance(&world.cluster.urls().join(","), &kafka.listener("FULL"), &settings);
    }

    let a = Worker::start(&world.journal, "a", authority.consumer(&world, "a").token(TOKEN));
    world.rest(&[&a]);
    let b = Worker::start(&world.journal, "b", authority.consumer(&world, "b").token(TOKEN));
    world.rest(&[&a, &b]);
    a.leave();
    assert_eq!(world.rest(&[&b]).owners.len(), 5);

    let stranger = Worker::start(&world.journal, "c", authority.consumer(&world, "c").token("another"));
    let refused = stranger.end();
    assert!(matches!(refused, RunError::Refused { .. }), "{refused:?}");
}

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate and its key.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    /// A consumer with a certificate and without a token.
    fn consumer(&self, world: &World, name: &str) -> Builder {
        let urls = world.assigners.iter().map(|assigner| assigner.url().replace("http://", "https://"));
        let (certificate, key) = self.issue("consumer");
        let tls = Tls {
            ca: self.0.pem().into_bytes(),
            identity: Some((certificate.into_bytes(), key.into_bytes())),
            domain: None,
        };
        Consumer::builder(name).topic(TOPIC).endpoints(urls).tls(tls)
    }

    /// A node that wants a certificate, a name and a password.
    fn etcd(&self) -> (Etcd, etcd::Options) {
        // Administration goes in the clear, since it is not what is tested.
        let [administration] = ports::lasting_ports().unwrap();
        let (certificate, key) = self.issue("127.0.0.1");
        let node = Etcd::start(&e2e::etcd::Options {
            without_fsync: true,
            tls: Some(e2e::etcd::Tls { ca: self.0.pem(), certificate, key }),
            arguments: vec![format!("--listen-client-http-urls=http://{administration}")],
        })
        .unwrap();
        for (path, json) in [
            ("user/add", r#"{"name":"root","password":"secret"}"#),
            ("user/grant", r#"{"user":"root","role":"root"}"#),
            ("enable", "{}"),
        ] {
            post(administration, &format!("/v3/auth/{path}"), json);
        }
        let (certificate, key) = self.issue("test");
        let options = etcd::Options {
            endpoints: vec![node.url()],
            user: Some(("root".to_owned(), "secret".to_owned())),
            tls: Some(etcd::Tls {
                ca: self.0.pem().into_bytes(),
                identity: Some((certificate.into_bytes(), key.into_bytes())),
                domain: None,
            }),
            ..etcd::Options::default()
        };
        (node, options)
    }

    /// A broker with a listener that wants TLS, a name and a password.
    fn kafka(&self) -> Kafka {
        let (certificate, key) = self.issue("127.0.0.1");
        let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
        let properties = [
            ("ssl.keystore.type", "PEM"),
            ("ssl.keystore.key", &in_one_line(&key)),
            ("ssl.keystore.certificate.chain", &in_one_line(&certificate)),
            ("listener.name.full.sasl.enabled.mechanisms", "SCRAM-SHA-512"),
            ("listener.name.full.scram-sha-512.sasl.jaas.config", scram),
        ];
        Kafka::start_as(&Setup {
            properties: &properties,
            listeners: &[("FULL", "SASL_SSL")],
            scram_users: &["SCRAM-SHA-512=[name=ann,password=long secret]"],
        })
        .unwrap()
    }
}

/// PEM as a value in a file of Java properties.
fn in_one_line(pem: &str) -> String {
    pem.trim().replace("\r\n", "\n").replace('\n', "\\n")
}

/// A file that only its owner can read.
fn write_secret(path: &Path, content: &str) {
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path).unwrap();
    file.write_all(content.as_bytes()).unwrap();
}

fn post(address: SocketAddr, path: &str, json: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = json.len();
    let request =
        format!("POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{json}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer.split(' ').nth(1), Some("200"), "{answer}");
}
