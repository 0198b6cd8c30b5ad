//! Certificates of an authority of the test's own.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// The name in certificates, where it is not the address.
pub(crate) const NAME: &str = "kafka.test";

/// A certificate and its key, both as PEM.
pub(crate) struct Certified {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Who signs.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name = named(name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Its own certificate.
    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this machine, with whatever `change` makes of it.
    pub(crate) fn certify(&self, change: impl FnOnce(&mut CertificateParams)) -> Certified {
        let names = ["127.0.0.1".to_owned(), NAME.to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = named(NAME);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Certified { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// The subject of a certificate.
pub(crate) fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}
