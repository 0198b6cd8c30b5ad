//! TLS towards clients, and what its failures mean to the one who runs the listener.

use std::io;
use std::path::Path;
use std::sync::Arc;

use sasl::principal::Validity;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, Error as TlsError, RootCertStore, ServerConfig,
    SupportedProtocolVersion,
};
use tokio_rustls::server::TlsStream;

use crate::limits::TLS_OUTPUT;
use crate::security::{ClientAuth, Tls};
use crate::stream::Wide;
use crate::watched::{Unusable, Watched, read};

/// How a listener speaks TLS, and speaks it from now on when the files have changed.
pub(crate) fn watch(listener: Arc<str>, tls: Tls) -> Result<Watched<ServerConfig>, Unusable> {
    let trusted = tls.truststore.as_ref().filter(|_| tls.client_auth != ClientAuth::None);
    let paths = [Some(&tls.keystore), tls.key.as_ref(), trusted].into_iter().flatten().cloned().collect();
    Watched::new(listener, paths, move || config(&tls))
}

/// Reads all files. The provider is named here, so that none has to be installed for the process.
fn config(tls: &Tls) -> Result<ServerConfig, Unusable> {
    let provider = Arc::new(ring::default_provider());
    let versions: Vec<&'static SupportedProtocolVersion> = [(tls.tls13, &TLS13), (tls.tls12, &TLS12)]
        .into_iter()
        .filter(|(on, _)| *on)
        .map(|(_, it)| it)
        .collect();
    if versions.is_empty() {
        return Err(setting("ssl.enabled.protocols names neither TLSv1.2 nor TLSv1.3"));
    }
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|error| setting(error.to_string()))?;
    let builder = match tls.client_auth {
        ClientAuth::None => builder.with_no_client_auth(),
        wanted => {
            let path = tls.truststore.as_deref().ok_or_else(|| {
                setting("ssl.client.auth needs ssl.truststore.location, to know whose certificates to trust")
            })?;
            let verifier = WebPkiClientVerifier::builder_with_provider(roots(path)?.into(), provider);
            let verifier = match wanted {
                ClientAuth::Requested => verifier.allow_unauthenticated(),
                ClientAuth::None | ClientAuth::Required => verifier,
            };
            let verifier = verifier.build().map_err(|error| Unusable::content(path, error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let chain = certificates(&tls.keystore)?;
    usable_by_clients(&chain).map_err(|problem| Unusable::content(&tls.keystore, problem))?;
    let key = key(tls.key.as_deref().unwrap_or(&tls.keystore))?;
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        let problem = match error {
            TlsError::InconsistentKeys(_) => "the certificate is not for the key".to_owned(),
            other => format!("the certificate and its key cannot be used: {other}"),
        };
        Unusable::content(&tls.keystore, problem)
    })?;
    if tls.client_auth != ClientAuth::None {
        // Who resumes a session shows no certificate again, so one that has expired since would still let it in.
        config.session_storage = Arc::new(NoServerSessionStorage {});
    }
    Ok(config)
}

fn setting(problem: impl Into<String>) -> Unusable {
    Unusable::Setting(problem.into())
}

fn roots(path: &Path) -> Result<RootCertStore, Unusable> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| {
            Unusable::content(path, format!("a certificate in it cannot be trusted: {error}"))
        })?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Unusable> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<Result<_, _>>()
        .map_err(|error| Unusable::content(path, format!("not PEM: {error}")))?;
    if certificates.is_empty() {
        return Err(Unusable::content(path, "no certificate in PEM (-----BEGIN CERTIFICATE-----) in it"));
    }
    Ok(certificates)
}

/// Whether clients can use the first certificate of `chain`, which is the listener's own, at any time. Of what is no
/// certificate at all the library has more to say.
fn usable_by_clients(chain: &[CertificateDer<'_>]) -> Result<(), String> {
    match chain.first().map(|own| Validity::of(own)) {
        // Certificates made by openssl without an extension file are of the first.
        Some(Ok(Validity { version, .. })) if version != 3 => {
            Err(format!("the certificate is one of X.509 version {version}; it must be of version 3"))
        }
        _ => Ok(()),
    }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, Unusable> {
    let text = read(path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let is_encrypted = String::from_utf8_lossy(&text).contains("ENCRYPTED PRIVATE KEY");
        let problem = match error {
            pem::Error::NoItemsFound if is_encrypted => "the key is encrypted; it must not be".to_owned(),
            pem::Error::NoItemsFound => "no key in PEM (-----BEGIN PRIVATE KEY-----) in it".to_owned(),
            other => format!("the key is not PEM: {other}"),
        };
        Unusable::content(path, problem)
    })
}

/// Shakes hands. After a failure the client has been sent an alert, where there is one for it.
pub(crate) async fn accept(
    stream: TcpStream,
    config: Arc<ServerConfig>,
) -> Result<TlsStream<Wide>, (io::Error, TcpStream)> {
    let accept = TlsAcceptor::from(config)
        .accept_with(Wide::new(stream), |session| session.set_buffer_limit(Some(TLS_OUTPUT)));
    accept.into_fallible().await.map_err(|(failure, stream)| (failure, stream.into_inner()))
}

/// What a failed handshake means.
pub(crate) fn problem(failure: &io::Error) -> String {
    match failure.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) {
        Some(TlsError::InvalidCertificate(certificate)) => certificate_problem(certificate),
        Some(TlsError::NoCertificatesPresented) => "the client showed no certificate".to_owned(),
        Some(TlsError::InvalidMessage(_)) => {
            "what came is not TLS; is the client set to speak without it?".to_owned()
        }
        Some(TlsError::PeerIncompatible(why)) => {
            format!("the client speaks no version or cipher of TLS that is offered here ({why:?})")
        }
        Some(TlsError::AlertReceived(alert)) => alert_problem(*alert),
        Some(other) => other.to_string(),
        None => failure.to_string(),
    }
}

fn certificate_problem(error: &CertificateError) -> String {
    match error {
        // The signature is bad where the truststore has another authority of the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the client's certificate is signed by none of the authorities in the truststore".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the client's certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the client's certificate is not valid yet".to_owned()
        }
        // The library has no name for it. Certificates made by openssl without an extension file are such.
        other if format!("{other:?}").contains("UnsupportedCertVersion") => {
            "the client's certificate is one of X.509 version 1; it must be of version 3".to_owned()
        }
        other => format!("the client's certificate cannot be trusted: {other}"),
    }
}

fn alert_problem(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateExpired => {
            "the client says that this listener's certificate has expired".to_owned()
        }
        AlertDescription::UnknownCA => {
            "the client does not trust the authority that signed this listener's certificate".to_owned()
        }
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateRevoked
        | AlertDescription::UnsupportedCertificate => format!(
            "the client does not accept this listener's certificate ({alert:?}); is it for the name that is dialled?"
        ),
        other => format!("the client broke it off ({other:?})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By `openssl x509 -req` without a file of extensions.
    const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIHSMIGFAhRZGHKHglaEgT+iQEWDLybAX5OkXDAFBgMrZXAwDDEKMAgGA1UEAwwB
YTAeFw0yNjExMTYxMTQyMjJaFw0yNjExMTcxMTQyMjJaMAwxCjAIBgNVBAMMAWEw
KjAFBgMrZXADIQBRUe2B5+Xm2UPXCftO6Befio79vnUTUsJfDCBgav9A4zAFBgMr
ZXADQQB8JxFeuEzJP3A0tLwheD+hO7R86p1fu30QoNuQUwasFHqko/1FdMIBj/gW
1qtMGgMFABK0txA9AfBrufFv8iAD
-----END CERTIFICATE-----";

    fn judged(certificate: CertificateDer<'_>) -> Result<(), String> {
        usable_by_clients(&[certificate])
    }

    #[test]
    fn a_certificate_of_the_first_version_is_no_certificate_for_a_listener() {
        let third = rcgen::generate_simple_self_signed(["broker".to_owned()]).unwrap().cert.der().clone();
        assert_eq!(judged(third), Ok(()));
        let first = CertificateDer::from_pem_slice(VERSION_1.as_bytes()).unwrap();
        let problem = "the certificate is one of X.509 version 1; it must be of version 3";
        assert_eq!(judged(first), Err(problem.to_owned()));
    }

    #[test]
    fn of_what_is_no_certificate_the_library_has_more_to_say() {
        assert_eq!(judged(CertificateDer::from(vec![1, 2, 3])), Ok(()));
        assert_eq!(usable_by_clients(&[]), Ok(()));
    }
}
