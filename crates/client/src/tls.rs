//! TLS to a broker, and what its failures mean to the one who set it up.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, Error as TlsError, RootCertStore,
};

use crate::error::ClientError;
use crate::security::{Tls, misuse};

/// What all connections share. The provider is named here, so that none has to be installed for the process.
pub(crate) fn config(tls: &Tls) -> Result<ClientConfig, ClientError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&tls.ca_pem, "the CA")? {
        roots
            .add(certificate)
            .map_err(|error| misuse(format!("a certificate of the CA cannot be used: {error}")))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider knows the protocol versions that are on by default")
        .with_root_certificates(roots);
    if let Some(name) = &tls.server_name {
        ServerName::try_from(name.as_str())
            .map_err(|_| misuse(format!("{name} is not a name that a certificate can be for")))?;
    }
    let Some(identity) = &tls.identity else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(&identity.certificate_pem, "the client's certificate")?;
    let key = PrivateKeyDer::from_pem_slice(&identity.key_pem)
        .map_err(|error| misuse(format!("the client's key is not an unencrypted key in PEM: {error}")))?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| misuse(format!("the client's certificate and key cannot be used: {error}")))
}

fn certificates(pem: &[u8], whose: &str) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| misuse(format!("{whose} is not PEM: {error}")))?;
    if certificates.is_empty() {
        return Err(misuse(format!("{whose} holds no certificate in PEM")));
    }
    Ok(certificates)
}

/// Speaks TLS on `stream`, which was dialled by `address`. The name in the broker's certificate must be `expected`,
/// or else the host of the address.
pub(crate) async fn begin(
    stream: TcpStream,
    address: &str,
    config: Arc<ClientConfig>,
    expected: Option<&str>,
) -> Result<TlsStream<TcpStream>, ClientError> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = expected.unwrap_or(host);
    let server_name = ServerName::try_from(name.to_owned()).map_err(|_| ClientError::Tls {
        address: address.to_owned(),
        problem: format!("{name} is not a name that a certificate can be for; set the server name"),
    })?;
    TlsConnector::from(config).connect(server_name, stream).await.map_err(|error| ClientError::Tls {
        address: address.to_owned(),
        problem: handshake_problem(&error, name),
    })
}

/// What a failed handshake means, and what to do about it.
fn handshake_problem(error: &io::Error, name: &str) -> String {
    match tls_error(error) {
        Some(error) => problem(error, name),
        None => format!(
            "the other side broke off the handshake ({error}); if it is a listener without TLS, leave the CA out"
        ),
    }
}

/// What TLS has to say about a connection that broke after the handshake. In TLS 1.3 the broker looks at the client's
/// certificate only then.
pub(crate) fn late_problem(error: &io::Error) -> Option<String> {
    tls_error(error).map(|error| problem(error, "the broker"))
}

fn tls_error(error: &io::Error) -> Option<&TlsError> {
    error.get_ref()?.downcast_ref()
}

fn problem(error: &TlsError, name: &str) -> String {
    match error {
        TlsError::InvalidCertificate(certificate) => certificate_problem(certificate, name),
        TlsError::AlertReceived(alert) => alert_problem(*alert),
        TlsError::InvalidMessage(_) => {
            "what came back is not TLS; if it is a listener without TLS, leave the CA out".to_owned()
        }
        other => other.to_string(),
    }
}

fn certificate_problem(error: &CertificateError, name: &str) -> String {
    match error {
        // The signature is bad where another authority of the same name is given, as when one was made anew.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the broker's certificate is signed by none of the authorities given; give the CA that signed it"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the broker's certificate has expired; renew it, or set this machine's clock right".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the broker's certificate is not valid yet; is this machine's clock right?".to_owned()
        }
        CertificateError::NotValidForName => wrong_name(name, &[]),
        CertificateError::NotValidForNameContext { presented, .. } => wrong_name(name, presented),
        other => format!("the broker's certificate cannot be trusted: {other}"),
    }
}

fn wrong_name(name: &str, presented: &[String]) -> String {
    let kind = if name.parse::<IpAddr>().is_ok() { "address" } else { "name" };
    let presented = match presented {
        [] => String::new(),
        names => {
            let bare: Vec<String> = names.iter().map(|name| bare(name).to_owned()).collect();
            format!(" but for {}", listed(&bare))
        }
    };
    format!(
        "the broker's certificate is not for the {kind} {name}{presented}; dial what it is for, or set the server name"
    )
}

/// A name as a person writes it, of one as the library shows it: `kafka.test` of `DnsName("kafka.test")`.
fn bare(shown: &str) -> &str {
    let inner = shown.split_once('(').and_then(|(_, inner)| inner.strip_suffix(')')).unwrap_or(shown);
    inner.trim_matches('"')
}

fn alert_problem(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired => {
            "the broker wants a certificate from its clients; give one with its key".to_owned()
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnknownCA
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::AccessDenied => format!(
            "the broker refused the client's certificate, or the lack of one ({alert:?}); give one that it trusts"
        ),
        AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure => format!(
            "the broker speaks no version or cipher of TLS that this client does ({alert:?}); it needs TLS 1.2 or 1.3"
        ),
        other => format!("the broker broke off: {other:?}"),
    }
}

/// Names that the other side sent: not more of them than one wants to read.
pub(crate) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| shortened(name)).collect();
    let more = if names.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// A text that the other side sent, as far as one wants to read it.
pub(crate) fn shortened(text: &str) -> String {
    const LONGEST: usize = 200;
    text.chars().filter(|c| !c.is_control()).take(LONGEST).collect()
}
