//! Authorities, certificates and the files they are in.

use std::path::PathBuf;
use std::sync::Arc;
use std::{fs, io};

use rcgen::{CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

use crate::script::{Client, soon};

/// The name that certificates of listeners are for.
pub(crate) const SERVER: &str = "kafka.test";

/// Who signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Identity {
    /// Both in one file.
    pub(crate) fn pem(&self) -> String {
        format!("{}{}", self.certificate, self.key)
    }
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a listener.
    pub(crate) fn listener(&self) -> Identity {
        self.certify(|_| {})
    }

    /// A certificate for a user.
    pub(crate) fn user(&self, name: &str) -> Identity {
        self.certify(|params| {
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::OrganizationName, "Example");
            params.distinguished_name.push(DnType::CommonName, name);
        })
    }

    pub(crate) fn certify(&self, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::new([SERVER.to_owned()]).expect("a name");
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// What a client needs that trusts this authority.
    pub(crate) fn client(&self) -> Dialler {
        Dialler { ca: self.pem(), identity: None, versions: vec![&TLS13, &TLS12] }
    }
}

/// A client of a listener with TLS.
pub(crate) struct Dialler {
    ca: String,
    identity: Option<(String, String)>,
    versions: Vec<&'static SupportedProtocolVersion>,
}

impl Dialler {
    pub(crate) fn showing(self, identity: &Identity) -> Self {
        Self { identity: Some((identity.certificate.clone(), identity.key.clone())), ..self }
    }

    pub(crate) fn speaking(self, version: &'static SupportedProtocolVersion) -> Self {
        Self { versions: vec![version], ..self }
    }

    pub(crate) async fn dial(
        &self,
        addr: std::net::SocketAddr,
        name: &'static str,
    ) -> io::Result<Client<TlsStream<TcpStream>>> {
        dial_with(self.config(), addr, name).await
    }

    /// What all connections share that are to know of each other.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.ca.as_bytes()).expect("PEM")).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&self.versions)
            .expect("versions that are known")
            .with_root_certificates(roots);
        Arc::new(match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
                builder.with_client_auth_cert(chain, key).expect("they fit")
            }
        })
    }
}

pub(crate) async fn dial_with(
    config: Arc<ClientConfig>,
    addr: std::net::SocketAddr,
    name: &'static str,
) -> io::Result<Client<TlsStream<TcpStream>>> {
    let stream = soon(TcpStream::connect(addr)).await?;
    let name = ServerName::try_from(name).expect("a name");
    let stream = soon(TlsConnector::from(config).connect(name, stream)).await?;
    Ok(Client { stream })
}

/// Files that go away with the test.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    /// Puts a file in place, or another in its place, at once.
    pub(crate) fn put(&self, name: &str, text: &str) -> PathBuf {
        let (path, next) = (self.0.path().join(name), self.0.path().join("next"));
        fs::write(&next, text).expect("written");
        fs::rename(&next, &path).expect("renamed");
        path
    }
}
