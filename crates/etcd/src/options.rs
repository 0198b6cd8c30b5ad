//! How to reach etcd.

use std::fmt;
use std::time::Duration;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::EtcdError;

/// How long a request may take if the options do not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a member may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How often the connection is proven alive while something waits on it. etcd closes connections that ask more often
/// than every five seconds.
const PING_INTERVAL: Duration = Duration::from_secs(6);

/// How long the proof may take.
const PING_TIMEOUT: Duration = Duration::from_secs(4);

/// How much of one answer etcd may send ahead of its reader.
const STREAM_WINDOW: u32 = 1 << 20;

/// The same for all answers of a connection: a mirror that nobody reads for a while fills its own window, and there
/// must be room beside it.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// How to reach etcd.
#[derive(Clone, Default)]
pub struct Options {
    /// `http://host:port` or `https://host:port`, or `host:port` for the former.
    pub endpoints: Vec<String>,
    /// Name and password.
    pub user: Option<(String, String)>,
    /// For `https`.
    pub tls: Option<Tls>,
    /// How long one request may take. Zero means five seconds.
    pub timeout: Duration,
}

/// PEM texts.
#[derive(Clone, Default)]
pub struct Tls {
    /// Whom to trust; the machine's own roots are never used.
    pub ca: Vec<u8>,
    /// Certificate and key of this side.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name in the server's certificate, if it is not that of the endpoint.
    pub domain: Option<String>,
}

impl Options {
    /// Says what is wrong with the options, without connecting.
    ///
    /// # Errors
    /// When something is.
    pub fn check(&self) -> Result<(), EtcdError> {
        self.prepare().map(drop)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        if self.timeout.is_zero() { DEFAULT_TIMEOUT } else { self.timeout }
    }

    /// The endpoints, ready to connect to.
    pub(crate) fn prepare(&self) -> Result<Vec<Endpoint>, EtcdError> {
        if self.endpoints.is_empty() {
            return Err(EtcdError::Options("no endpoint is named".to_owned()));
        }
        self.endpoints.iter().map(|text| self.endpoint(text)).collect()
    }

    fn endpoint(&self, text: &str) -> Result<Endpoint, EtcdError> {
        // It is not repeated: who writes it so has a password in it.
        if text.contains('@') {
            let reason = "an endpoint names a user; the name and the password have options of their own";
            return Err(EtcdError::Options(reason.to_owned()));
        }
        let wrong = |reason: &str| EtcdError::Options(format!("the endpoint {text:?} {reason}"));
        let url = match text.split_once("://") {
            Some(("http" | "https", _)) => text.to_owned(),
            Some(_) => return Err(wrong("begins with neither http:// nor https://")),
            None => format!("http://{text}"),
        };
        let endpoint = Endpoint::from_shared(url).map_err(|_| wrong("is no address"))?;
        let uri = endpoint.uri();
        if uri.port_u16().is_none() {
            return Err(wrong("names no port"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong("has something behind its port"));
        }
        let is_https = uri.scheme_str() == Some("https");
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        match (&self.tls, is_https) {
            (None, false) => Ok(endpoint),
            (None, true) => Err(wrong("is https, but no certificate authority is given")),
            // A password or a secret value must not go out in the clear because of a missing letter.
            (Some(_), false) => Err(wrong("is not https, but a certificate authority is given")),
            (Some(tls), true) => {
                let config = tls.config()?;
                endpoint.tls_config(config).map_err(|error| {
                    EtcdError::Options(format!("the certificates cannot be used: {}", reason(&error)))
                })
            }
        }
    }
}

impl Tls {
    fn config(&self) -> Result<ClientTlsConfig, EtcdError> {
        // Otherwise a file that is something else would read as trust in nobody, and look like a fault of the server.
        if !self.ca.windows(BEGIN.len()).any(|window| window == BEGIN) {
            return Err(EtcdError::Options("the certificate authority is no PEM certificate".to_owned()));
        }
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.ca));
        if let Some((certificate, key)) = &self.identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        if let Some(domain) = &self.domain {
            config = config.domain_name(domain);
        }
        Ok(config)
    }
}

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// The innermost reason of an error, which is the one that helps.
pub(crate) fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// An endpoint as it may be shown.
fn without_user(text: &str) -> &str {
    text.rsplit_once('@').map_or(text, |(_, address)| address)
}

// Options end up in logs; passwords and keys must not.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("endpoints", &self.endpoints.iter().map(|text| without_user(text)).collect::<Vec<_>>())
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .field("tls", &self.tls)
            .field("timeout", &self.timeout)
            .finish()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("has_identity", &self.identity.is_some())
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(options: &Options) -> String {
        match options.prepare() {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    fn with_endpoint(text: &str) -> Options {
        Options { endpoints: vec![text.to_owned()], ..Options::default() }
    }

    #[test]
    fn an_endpoint_may_leave_its_scheme_out() {
        assert_eq!(refusal(&with_endpoint("127.0.0.1:2379")), "");
        assert_eq!(refusal(&with_endpoint("http://etcd-0.etcd:2379")), "");
        assert_eq!(refusal(&with_endpoint("http://[::1]:2379/")), "");
    }

    #[test]
    fn a_wrong_endpoint_is_named() {
        for (text, expected) in [
            ("etcd", "names no port"),
            ("ftp://etcd:1", "begins with neither http:// nor https://"),
            ("http://etcd:2379/v3", "has something behind its port"),
            ("https://etcd:2379", "is https, but no certificate authority is given"),
        ] {
            let refusal = refusal(&with_endpoint(text));
            assert!(refusal.contains(text) && refusal.contains(expected), "{text}: {refusal}");
        }
        assert!(refusal(&Options::default()).contains("no endpoint"));
    }

    #[test]
    fn a_password_in_an_endpoint_is_refused_and_not_repeated() {
        for text in ["http://root:hunter2@etcd:2379", "root:hunter2@etcd:2379", "ftp://root:hunter2@etcd"] {
            let refusal = refusal(&with_endpoint(text));
            assert!(refusal.contains("names a user") && !refusal.contains("hunter2"), "{refusal}");
            assert!(!format!("{:?}", with_endpoint(text)).contains("hunter2"));
        }
    }

    #[test]
    fn certificates_do_not_go_with_a_plain_endpoint() {
        let options = Options { tls: Some(Tls::default()), ..with_endpoint("etcd:2379") };
        assert!(refusal(&options).contains("is not https"));
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        let tls = Tls { ca: b"hello".to_vec(), ..Tls::default() };
        let options = Options { tls: Some(tls), ..with_endpoint("https://etcd:2379") };
        assert!(refusal(&options).contains("no PEM certificate"));
    }

    #[test]
    fn secrets_are_not_shown() {
        let tls = Tls { identity: Some((b"CERT".to_vec(), b"KEY".to_vec())), ..Tls::default() };
        let user = Some(("root".to_owned(), "hunter2".to_owned()));
        let shown = format!("{:?}", Options { user, tls: Some(tls), ..with_endpoint("https://etcd:1") });
        assert!(shown.contains("root") && !shown.contains("hunter2") && !shown.contains("75"), "{shown}");
    }
}
