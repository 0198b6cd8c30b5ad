//! What a listener asks of its clients: TLS, a certificate, a password or a token.

use std::path::PathBuf;
use std::time::Duration;

pub use sasl::Mechanism;

/// How a listener is protected. The default is a plain one on which nobody says who they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// Speaks TLS if given.
    pub tls: Option<Tls>,
    /// Asks clients who they are before anything else, if given.
    pub sasl: Option<Sasl>,
    /// `kohort.org`: the name of the organisation whose users, and nobody else, are let in. Clients that are not asked
    /// who they are belong to it too.
    pub org: Option<String>,
}

/// How a listener speaks TLS. All files are PEM, and are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// `ssl.keystore.location`: the certificate, those between it and an authority, and the key unless that is apart.
    pub keystore: PathBuf,
    /// `kohort.ssl.key.location`: the key, where it is not in the keystore. It must not be encrypted.
    pub key: Option<PathBuf>,
    /// `ssl.truststore.location`: the authorities that clients' certificates must come from. Needed unless clients are
    /// not asked for certificates.
    pub truststore: Option<PathBuf>,
    /// `ssl.client.auth`.
    pub client_auth: ClientAuth,
    /// `ssl.enabled.protocols`: `TLSv1.2`.
    pub tls12: bool,
    /// `ssl.enabled.protocols`: `TLSv1.3`.
    pub tls13: bool,
    /// `ssl.principal.mapping.rules`: how the subject of a certificate becomes the name of a user.
    pub principal_mapping_rules: String,
}

impl Tls {
    /// TLS as Kafka has it unless told otherwise: clients are not asked for certificates.
    pub fn new(keystore: impl Into<PathBuf>) -> Self {
        Self {
            keystore: keystore.into(),
            key: None,
            truststore: None,
            client_auth: ClientAuth::None,
            tls12: true,
            tls13: true,
            principal_mapping_rules: "DEFAULT".to_owned(),
        }
    }
}

/// `ssl.client.auth`: whether clients show certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// `none`: they are not asked for one.
    #[default]
    None,
    /// `requested`: who shows none is anonymous.
    Requested,
    /// `required`: who shows none is not let in.
    Required,
}

/// How clients say who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sasl {
    /// `sasl.enabled.mechanisms`, in the order in which clients are told of them.
    pub mechanisms: Vec<Mechanism>,
    /// `kohort.sasl.plain.without.tls`: lets [`Mechanism::Plain`] be used without TLS, where anyone on the way reads
    /// the password. Without it such a listener is not opened.
    pub plain_without_tls: bool,
    /// `connections.max.reauth.ms`: after this long a client has to show again who it is; `None` is never, for those
    /// whose token does not expire.
    pub max_reauth: Option<Duration>,
    /// `sasl.server.max.receive.size`: the largest request before a client has shown who it is.
    pub max_receive_size: usize,
    /// What [`Mechanism::OauthBearer`] needs.
    pub oauth: Option<OAuth>,
}

impl Default for Sasl {
    fn default() -> Self {
        use sasl::scram::Variant;
        Self {
            mechanisms: vec![Mechanism::Scram(Variant::Sha256), Mechanism::Scram(Variant::Sha512)],
            plain_without_tls: false,
            max_reauth: None,
            max_receive_size: 524_288,
            oauth: None,
        }
    }
}

/// Whose tokens are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuth {
    /// `sasl.oauthbearer.jwks.endpoint.url`: the file with the issuer's public keys, read again when it changes.
    pub jwks: PathBuf,
    /// `sasl.oauthbearer.expected.audience`: a token must be for one of these. Where it is empty, a token
    /// that is for someone is refused.
    pub audiences: Vec<String>,
    /// `sasl.oauthbearer.expected.issuer`: who must have issued the token; `None` for anyone.
    pub issuer: Option<String>,
    /// `sasl.oauthbearer.sub.claim.name`: which claim is the name of the user.
    pub subject_claim: String,
    /// `sasl.oauthbearer.clock.skew.seconds`: how far the issuer's clock may be off.
    pub clock_skew: Duration,
}
