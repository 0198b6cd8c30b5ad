//! What all connections of one listener share.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sasl::jwt::{Claims, Expectations, Jwks, Refused};
use sasl::principal::{MappingRules, subject};
use sasl::{Login, Mechanism};
use tokio_rustls::rustls::ServerConfig;

use crate::complaint::Complaint;
use crate::options::ListenerConfig;
use crate::security::{OAuth, Sasl, Security};
use crate::tls;
use crate::watched::{Unusable, Watched, read};

/// A listener, as its clients meet it.
pub(crate) struct Entrance {
    /// What it is called.
    pub(crate) name: Arc<str>,
    /// The host and port that clients are told to dial.
    pub(crate) advertised: Option<(String, u16)>,
    /// The organisation that all clients belong to.
    pub(crate) org: Option<String>,
    /// How TLS is spoken.
    pub(crate) tls: Option<Watched<ServerConfig>>,
    /// What users are called who show certificates.
    subjects: MappingRules,
    /// How clients say who they are, if they are asked.
    pub(crate) logins: Option<Logins>,
    /// About clients that were not let in by the broker.
    pub(crate) denials: Complaint,
    /// About TLS that did not come about.
    pub(crate) broken_handshakes: Complaint,
    /// About clients that did not show who they are.
    pub(crate) failed_logins: Complaint,
}

/// How clients say who they are.
pub(crate) struct Logins {
    /// What is offered.
    pub(crate) mechanisms: Vec<Mechanism>,
    /// The longest that a login holds.
    pub(crate) max_reauth: Option<Duration>,
    /// The largest request of a client that has not logged in.
    pub(crate) max_receive_size: usize,
    /// Whose tokens are taken.
    pub(crate) issuer: Option<Issuer>,
}

impl Entrance {
    /// Reads all files that the settings name.
    pub(crate) fn open(config: ListenerConfig) -> Result<Self, Unusable> {
        let ListenerConfig { name, advertised, security: Security { tls, sasl, org }, .. } = config;
        let name: Arc<str> = name.into();
        let subjects = match &tls {
            Some(tls) => MappingRules::parse(&tls.principal_mapping_rules)
                .map_err(|error| Unusable::Setting(format!("ssl.principal.mapping.rules: {error}")))?,
            None => MappingRules::default(),
        };
        let logins = match &sasl {
            Some(sasl) => Some(Logins::open(&name, sasl, tls.is_some())?),
            None => None,
        };
        Ok(Self {
            advertised,
            org,
            tls: tls.map(|tls| tls::watch(Arc::clone(&name), tls)).transpose()?,
            subjects,
            logins,
            denials: Complaint::default(),
            broken_handshakes: Complaint::default(),
            failed_logins: Complaint::default(),
            name,
        })
    }

    /// Whether clients have to do something before they can be let in.
    pub(crate) fn is_guarded(&self) -> bool {
        self.tls.is_some() || self.logins.is_some()
    }

    /// Who shows this certificate.
    pub(crate) fn login_of(&self, certificate: &[u8]) -> Result<Login, String> {
        let subject = subject(certificate).map_err(|error| error.to_string())?;
        let name = self.subjects.name(&subject);
        let name = name.ok_or_else(|| format!("no rule of ssl.principal.mapping.rules fits {subject}"))?;
        Login::parse(&name, self.org.as_deref()).map_err(|error| format!("{name:?}: {error}"))
    }
}

impl Logins {
    fn open(listener: &Arc<str>, sasl: &Sasl, has_tls: bool) -> Result<Self, Unusable> {
        let setting = |problem: &str| Err(Unusable::Setting(problem.to_owned()));
        let offers = |mechanism| sasl.mechanisms.contains(&mechanism);
        if sasl.mechanisms.is_empty() {
            return setting("sasl.enabled.mechanisms is empty");
        }
        if offers(Mechanism::Plain) && !has_tls && !sasl.plain_without_tls {
            return setting(
                "PLAIN without TLS would let anyone on the way read passwords; use TLS or a SCRAM mechanism, or set \
                 kohort.sasl.plain.without.tls",
            );
        }
        let issuer = match &sasl.oauth {
            _ if !offers(Mechanism::OauthBearer) => None,
            Some(oauth) => Some(Issuer::open(listener, oauth)?),
            None => return setting("OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url"),
        };
        Ok(Self {
            mechanisms: sasl.mechanisms.clone(),
            max_reauth: sasl.max_reauth,
            max_receive_size: sasl.max_receive_size,
            issuer,
        })
    }

    /// The mechanism of this name, if it is offered.
    pub(crate) fn offered(&self, name: &str) -> Option<Mechanism> {
        self.mechanisms.iter().copied().find(|mechanism| mechanism.name() == name)
    }

    /// The names of what is offered.
    pub(crate) fn names(&self) -> Vec<String> {
        self.mechanisms.iter().map(|mechanism| mechanism.name().to_owned()).collect()
    }
}

/// Whose tokens are taken.
pub(crate) struct Issuer {
    keys: Watched<Jwks>,
    oauth: OAuth,
}

impl Issuer {
    fn open(listener: &Arc<str>, oauth: &OAuth) -> Result<Self, Unusable> {
        let path = oauth.jwks.clone();
        let load = move || {
            let text = String::from_utf8(read(&path)?).map_err(|_| Unusable::content(&path, "not JSON"))?;
            Jwks::parse(&text).map_err(|error| Unusable::content(&path, error.to_string()))
        };
        let keys = Watched::new(Arc::clone(listener), vec![oauth.jwks.clone()], load)?;
        Ok(Self { keys, oauth: oauth.clone() })
    }

    /// What a token says, if it is to be believed.
    pub(crate) fn verify(&self, token: &str) -> Result<Claims, Refused> {
        let OAuth { audiences, issuer, subject_claim, clock_skew, .. } = &self.oauth;
        let expected = Expectations {
            audience: audiences.clone(),
            issuer: issuer.clone(),
            subject_claim: subject_claim.clone(),
            clock_skew: *clock_skew,
            now_ms: now_ms(),
        };
        self.keys.current(Instant::now()).verify(token, &expected)
    }
}

/// The time, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
