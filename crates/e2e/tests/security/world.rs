//! A Kohort with every kind of listener, and who may come in.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use e2e::clients::Client;
use e2e::kohort::{self, Kohort, Options};
use e2e::process::{Finished, run_within};
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData, SigningKey};
use serde_json::json;
use tempfile::TempDir;

use crate::certificates::{Authority, Certified, named};

/// How long a command or a login may take.
const WITHIN: Duration = Duration::from_secs(60);

/// The topic that everybody uses.
pub(crate) const TOPIC: &str = "orders";

/// What the tokens of this test are for.
const AUDIENCE: &str = "kohort";
const ISSUER: &str = "https://issuer.test";

/// What switches ACLs on.
pub(crate) const AUTHORIZER: (&str, &str) =
    ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");

/// The clients that log in.
pub(crate) const CLIENTS: [Client; 4] =
    [Client::Java, Client::ConfluentKafka, Client::KafkaPython, Client::FranzGo];

pub(crate) struct World {
    pub(crate) kohort: Kohort,
    pub(crate) authority: Authority,
    signer: KeyPair,
    directory: TempDir,
}

/// Who a client says it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Who {
    pub(crate) protocol: &'static str,
    pub(crate) mechanism: Option<&'static str>,
    pub(crate) user: Option<&'static str>,
    pub(crate) password: Option<&'static str>,
    pub(crate) token: Option<String>,
    pub(crate) ca: Option<PathBuf>,
    /// A certificate and its key.
    pub(crate) shown: Option<(PathBuf, PathBuf)>,
}

impl World {
    /// Starts it with these settings besides.
    pub(crate) fn start(settings: &[(&str, &str)]) -> Self {
        let directory = tempfile::Builder::new().prefix("security-").tempdir().unwrap();
        let authority = Authority::new("the authority");
        let signer = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let file = |name: &str, content: &str| {
            let path = directory.path().join(name);
            fs::write(&path, content).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let both = |certified: &Certified| format!("{}{}", certified.certificate, certified.key);
        let keystore = file("server.pem", &both(&authority.certify(|_| ())));
        let expired = authority.certify(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
        let expired = file("expired.pem", &both(&expired));
        let truststore = file("ca.pem", &authority.pem());
        let jwks = format!("file://{}", file("jwks.json", &jwks(&signer)));
        let options = Options::default()
            .listen("TLS", "SSL")
            .listen("MUTUAL", "SSL")
            .listen("EXPIRED", "SSL")
            .listen("BARE", "SASL_PLAINTEXT")
            .listen("FULL", "SASL_SSL")
            .listen("ACME", "SASL_SSL")
            .set("ssl.keystore.location", &keystore)
            .set("ssl.truststore.location", &truststore)
            .set("listener.name.expired.ssl.keystore.location", &expired)
            .set("listener.name.mutual.ssl.client.auth", "required")
            .set("listener.name.mutual.ssl.principal.mapping.rules", "RULE:^CN=([^,]+).*$/$1/,DEFAULT")
            .set("listener.name.bare.sasl.enabled.mechanisms", "SCRAM-SHA-256")
            .set(
                "listener.name.full.sasl.enabled.mechanisms",
                "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            )
            .set("listener.name.acme.kohort.org", "acme")
            .set("sasl.oauthbearer.jwks.endpoint.url", &jwks)
            .set("sasl.oauthbearer.expected.audience", AUDIENCE)
            .set("sasl.oauthbearer.expected.issuer", ISSUER);
        let options = settings.iter().fold(options, |options, (name, value)| options.set(name, value));
        let kohort = Kohort::start(options).unwrap();
        Self { kohort, authority, signer, directory }
    }

    /// Makes the users that the tests speak of: ann of `default`, and another ann, of `acme`.
    pub(crate) fn populate(&self) {
        self.admin(&["org", "create", "acme"]);
        self.create_user("ann", "short secret", &[]);
        self.create_user("zoe", "sécrèt", &[]);
        self.create_user("ann", "another secret", &["--org", "acme"]);
    }

    pub(crate) fn create_user(&self, name: &str, password: &str, more: &[&str]) {
        let file = self.file("password", password);
        let file = file.to_str().unwrap();
        self.admin(&[&["user", "create", name, "--password-file", file], more].concat());
    }

    /// Runs a command that asks the admin listener, and returns what it printed.
    pub(crate) fn admin(&self, arguments: &[&str]) -> String {
        let data_dir = self.kohort.data_dir().to_str().unwrap();
        let place = ["--admin", &self.kohort.admin(), "--data-dir", data_dir];
        self.command(&[arguments, &place].concat())
    }

    /// Runs our binary and returns what it printed.
    pub(crate) fn command(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(kohort::binary().unwrap());
        command.args(arguments);
        let finished = run_within(command, WITHIN).unwrap();
        assert!(finished.success(), "kohort {arguments:?}: {}", finished.stderr);
        finished.stdout
    }

    /// A file that is gone with the test.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn ca(&self) -> Option<PathBuf> {
        Some(self.directory.path().join("ca.pem"))
    }

    /// Somebody with a password.
    pub(crate) fn by_password(
        &self,
        protocol: &'static str,
        mechanism: &'static str,
        user: &'static str,
        password: &'static str,
    ) -> Who {
        Who {
            protocol,
            mechanism: Some(mechanism),
            user: Some(user),
            password: Some(password),
            ca: self.ca().filter(|_| protocol == "SASL_SSL"),
            ..Who::default()
        }
    }

    /// A certificate for a client of this name.
    pub(crate) fn certificate(&self, authority: &Authority, name: &str) -> (PathBuf, PathBuf) {
        let certified = authority.certify(|params| params.distinguished_name = named(name));
        let certificate = self.file(&format!("{name}.crt"), &certified.certificate);
        (certificate, self.file(&format!("{name}.key"), &certified.key))
    }

    /// A token for `subject` that ends so many seconds from now.
    pub(crate) fn token(&self, subject: &str, audience: &str, seconds: i64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let expires = i64::try_from(now).unwrap() + seconds;
        let head = json!({"alg": "EdDSA", "typ": "JWT", "kid": "one"});
        let claims = json!({"sub": subject, "aud": audience, "iss": ISSUER, "exp": expires, "iat": now});
        let signed =
            format!("{}.{}", base64(head.to_string().as_bytes()), base64(claims.to_string().as_bytes()));
        let signature = self.signer.sign(signed.as_bytes()).unwrap();
        format!("{signed}.{}", base64(&signature))
    }

    pub(crate) fn good_token(&self, subject: &str) -> String {
        self.token(subject, AUDIENCE, 300)
    }

    /// Lets a client log in at a listener; `None` where the client cannot run on this machine.
    pub(crate) fn log_in(&self, client: Client, listener: &str, who: &Who) -> Option<Finished> {
        let mut command = match client.login() {
            Ok(command) => command,
            Err(missing) => {
                let is_ci = std::env::var("CI").is_ok_and(|it| it == "true");
                assert!(!is_ci, "{}: {missing}", client.name());
                return None;
            }
        };
        let address = match listener {
            "PLAINTEXT" => self.kohort.bootstrap(),
            named => self.kohort.listener(named),
        };
        command.args([&address, TOPIC]);
        let path = |path: &PathBuf| path.to_str().unwrap().to_owned();
        let settings = [
            ("E2E_PROTOCOL", Some(who.protocol.to_owned())),
            ("E2E_MECHANISM", who.mechanism.map(str::to_owned)),
            ("E2E_USER", who.user.map(str::to_owned)),
            ("E2E_PASSWORD", who.password.map(str::to_owned)),
            ("E2E_TOKEN", who.token.clone()),
            ("E2E_CA", who.ca.as_ref().map(path)),
            ("E2E_CERTIFICATE", who.shown.as_ref().map(|(certificate, _)| path(certificate))),
            ("E2E_KEY", who.shown.as_ref().map(|(_, key)| path(key))),
        ];
        for (name, value) in settings {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        Some(run_within(command, WITHIN).unwrap())
    }
}

fn jwks(signer: &KeyPair) -> String {
    let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": "one", "use": "sig", "alg": "EdDSA", "x": base64(signer.der_bytes())});
    json!({"keys": [key]}).to_string()
}

/// Base64 for URLs, without padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            let index = bits >> (18 - 6 * place) & 63;
            text.push(char::from(ALPHABET[usize::try_from(index).unwrap()]));
        }
    }
    text
}
