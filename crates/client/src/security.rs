//! Whom a client trusts, and how it says who it is.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tokio_rustls::rustls::ClientConfig;

use crate::error::ClientError;
use crate::tls;

/// How a connection is protected. The default is a plain one on which nobody says who they are.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// Speaks TLS if given.
    pub tls: Option<Tls>,
    /// Authenticates if given.
    pub sasl: Option<Sasl>,
    /// Lets [`Mechanism::Plain`] send its password over a connection without TLS, where anyone on the way reads it.
    pub allow_plain_without_tls: bool,
}

/// What TLS needs. The machine's own roots are never used.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The certificates of the authorities that are trusted, as PEM: at least one.
    pub ca_pem: Vec<u8>,
    /// What the client shows when the broker asks for a certificate.
    pub identity: Option<Identity>,
    /// The name that the broker's certificate must be for. Without one it is the host that is dialled, which differs
    /// from broker to broker; with one it is the same for all.
    pub server_name: Option<String>,
}

/// A certificate and its key.
#[derive(Clone)]
pub struct Identity {
    /// The certificate, followed by those between it and an authority, as PEM.
    pub certificate_pem: Vec<u8>,
    /// The key, unencrypted, as PEM.
    pub key_pem: Vec<u8>,
}

/// A user, a password, and how the broker is told of them.
///
/// Both go out as the UTF-8 they are given in. SASLprep (RFC 4013), which would make equal what only looks equal, is
/// not applied; it leaves ASCII as it is, and Kafka does not apply it either. With SCRAM, Kafka takes only ASCII for
/// the name of a user.
#[derive(Clone, Debug)]
pub struct Sasl {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The user's name.
    pub user: String,
    /// The user's password.
    pub password: Password,
}

/// How a broker is convinced that one knows the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// By telling it (RFC 4616).
    Plain,
    /// By a proof that does not tell it (RFC 5802, RFC 7677).
    ScramSha256,
    /// The same with the longer hash.
    ScramSha512,
}

impl Mechanism {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Plain, Self::ScramSha256, Self::ScramSha512];

    /// The name by which clients and brokers know it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mechanism {
    type Err = UnknownMechanism;

    fn from_str(text: &str) -> Result<Self, UnknownMechanism> {
        let known = Self::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(text));
        known.ok_or_else(|| UnknownMechanism(text.to_owned()))
    }
}

/// The text names no mechanism that we speak.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a mechanism; expected PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")]
pub struct UnknownMechanism(pub String);

/// A text that is not printed.
#[derive(Clone)]
pub struct Password(String);

impl Password {
    /// Keeps `text` from being printed.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Password {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(..)")
    }
}

impl Security {
    /// Says what is wrong with the settings before anything is dialled.
    pub fn check(&self) -> Result<(), ClientError> {
        self.prepare().map(|_| ())
    }

    /// The settings in the form that connections use, made once for all of them.
    pub(crate) fn prepare(&self) -> Result<Prepared, ClientError> {
        let tls = match &self.tls {
            Some(tls) => Some((Arc::new(tls::config(tls)?), tls.server_name.clone())),
            None => None,
        };
        if let Some(sasl) = &self.sasl {
            let plain = sasl.mechanism == Mechanism::Plain;
            if plain && tls.is_none() && !self.allow_plain_without_tls {
                return Err(misuse(
                    "PLAIN without TLS would let anyone on the way read the password; give a CA, use a SCRAM \
                     mechanism, or allow it explicitly",
                ));
            }
            if sasl.user.is_empty() {
                return Err(misuse("a SASL mechanism needs a user"));
            }
            if plain && [&*sasl.user, sasl.password.expose()].iter().any(|text| text.contains('\0')) {
                return Err(misuse("PLAIN cannot carry a NUL in a user or password"));
            }
        }
        Ok(Prepared { tls, sasl: self.sasl.clone() })
    }
}

/// Settings that were found good.
#[derive(Clone)]
pub(crate) struct Prepared {
    /// How TLS is spoken, and the name that is expected if it is not the host.
    pub(crate) tls: Option<(Arc<ClientConfig>, Option<String>)>,
    pub(crate) sasl: Option<Sasl>,
}

/// What a library prints of a key that it was given is not ours to decide.
impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prepared(..)")
    }
}

pub(crate) fn misuse(problem: impl Into<String>) -> ClientError {
    ClientError::Security { problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sasl(mechanism: Mechanism, user: &str, password: &str) -> Security {
        let sasl = Sasl { mechanism, user: user.to_owned(), password: Password::new(password) };
        Security { sasl: Some(sasl), ..Security::default() }
    }

    #[test]
    fn secrets_are_not_printed() {
        let identity = Identity { certificate_pem: b"cert".to_vec(), key_pem: b"hunter2".to_vec() };
        let tls = Tls { ca_pem: Vec::new(), identity: Some(identity), server_name: None };
        let security = Security { tls: Some(tls), ..sasl(Mechanism::Plain, "ann", "hunter2") };
        let printed = format!("{security:?} {security:#?}");
        assert!(printed.contains("ann"), "{printed}");
        // The key's bytes would be printed as numbers.
        assert!(!printed.contains("hunter2") && !printed.contains("104"), "{printed}");
    }

    #[test]
    fn plain_without_tls_has_to_be_allowed() {
        let mut security = sasl(Mechanism::Plain, "ann", "secret");
        let error = security.check().unwrap_err().to_string();
        assert!(error.contains("without TLS") && !error.contains("secret"), "{error}");
        security.allow_plain_without_tls = true;
        security.check().expect("it was allowed");
        sasl(Mechanism::ScramSha256, "ann", "secret").check().expect("SCRAM does not tell the password");
    }

    #[test]
    fn users_and_passwords_that_cannot_be_sent_are_refused() {
        sasl(Mechanism::ScramSha512, "", "secret").check().expect_err("no user");
        for (user, password) in [("a\0b", "secret"), ("ann", "sec\0ret")] {
            let security = sasl(Mechanism::Plain, user, password);
            Security { allow_plain_without_tls: true, ..security }.check().expect_err("a NUL ends a field");
        }
    }

    #[test]
    fn mechanisms_are_found_by_name() {
        for mechanism in Mechanism::ALL {
            assert_eq!(mechanism.name().parse(), Ok(mechanism));
            assert_eq!(mechanism.name().to_lowercase().parse(), Ok(mechanism));
        }
        let unknown = "GSSAPI".parse::<Mechanism>().unwrap_err().to_string();
        assert_eq!(unknown, "GSSAPI is not a mechanism; expected PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512");
    }
}
