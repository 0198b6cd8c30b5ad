//! What the assigner's settings name by file: certificates, keys, passwords, tokens; and what goes with them.

use std::path::Path;

use assigner::{EtcdTls, EtcdUser, ServerTls, Settings, Token};
use client::{Identity, Mechanism, Password, Sasl, Tls};

use super::secret_file::{read_password, read_pem, read_tokens};

/// Names of files, and what is of use only together with one.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) etcd_user: Option<String>,
    pub(super) etcd_password: Option<String>,
    pub(super) etcd_ca: Option<String>,
    pub(super) etcd_cert: Option<String>,
    pub(super) etcd_key: Option<String>,
    pub(super) etcd_server_name: Option<String>,
    pub(super) tls_cert: Option<String>,
    pub(super) tls_key: Option<String>,
    pub(super) tls_client_ca: Option<String>,
    pub(super) tokens: Option<String>,
    pub(super) kafka_ca: Option<String>,
    pub(super) kafka_cert: Option<String>,
    pub(super) kafka_key: Option<String>,
    pub(super) kafka_server_name: Option<String>,
    pub(super) kafka_mechanism: Option<Mechanism>,
    pub(super) kafka_user: Option<String>,
    pub(super) kafka_password: Option<String>,
}

impl Files {
    /// Reads all of them, and says everything that is wrong.
    pub(super) fn read_into(&self, settings: &mut Settings) -> Vec<String> {
        let mut reading = Reading::default();
        settings.etcd_user = self.etcd_user(&mut reading);
        settings.etcd_tls = self.etcd_tls(&mut reading);
        settings.tls = self.server_tls(&mut reading);
        if let Some(tokens) = reading.file("token_file", self.tokens.as_ref(), read_tokens) {
            settings.tokens = tokens.into_iter().map(Token).collect();
        }
        settings.kafka.security.tls = self.kafka_tls(&mut reading);
        settings.kafka.security.sasl = self.kafka_sasl(&mut reading);
        reading.problems
    }

    fn etcd_user(&self, reading: &mut Reading) -> Option<EtcdUser> {
        reading.together(&[
            ("etcd_user", self.etcd_user.is_some()),
            ("etcd_password_file", self.etcd_password.is_some()),
        ]);
        let password = reading.file("etcd_password_file", self.etcd_password.as_ref(), read_password)?;
        Some(EtcdUser { name: self.etcd_user.clone()?, password })
    }

    fn etcd_tls(&self, reading: &mut Reading) -> Option<EtcdTls> {
        let identity = reading
            .pair(("etcd_cert_file", self.etcd_cert.as_ref()), ("etcd_key_file", self.etcd_key.as_ref()));
        let of_use = self.etcd_cert.is_some() || self.etcd_server_name.is_some();
        reading.needs("etcd_ca_file", self.etcd_ca.is_some(), of_use);
        let ca = reading.file("etcd_ca_file", self.etcd_ca.as_ref(), read_pem)?;
        Some(EtcdTls { ca, identity, domain: self.etcd_server_name.clone() })
    }

    fn server_tls(&self, reading: &mut Reading) -> Option<ServerTls> {
        let pair =
            reading.pair(("tls_cert_file", self.tls_cert.as_ref()), ("tls_key_file", self.tls_key.as_ref()));
        reading.needs("tls_cert_file", self.tls_cert.is_some(), self.tls_client_ca.is_some());
        let client_ca = reading.file("tls_client_ca_file", self.tls_client_ca.as_ref(), read_pem);
        let (certificate, key) = pair?;
        Some(ServerTls { certificate, key, client_ca })
    }

    fn kafka_tls(&self, reading: &mut Reading) -> Option<Tls> {
        let identity = reading
            .pair(("kafka_cert_file", self.kafka_cert.as_ref()), ("kafka_key_file", self.kafka_key.as_ref()));
        let identity = identity.map(|(certificate_pem, key_pem)| Identity { certificate_pem, key_pem });
        let of_use = self.kafka_cert.is_some() || self.kafka_server_name.is_some();
        reading.needs("kafka_ca_file", self.kafka_ca.is_some(), of_use);
        let ca_pem = reading.file("kafka_ca_file", self.kafka_ca.as_ref(), read_pem)?;
        Some(Tls { ca_pem, identity, server_name: self.kafka_server_name.clone() })
    }

    fn kafka_sasl(&self, reading: &mut Reading) -> Option<Sasl> {
        reading.together(&[
            ("kafka_sasl_mechanism", self.kafka_mechanism.is_some()),
            ("kafka_sasl_user", self.kafka_user.is_some()),
            ("kafka_sasl_password_file", self.kafka_password.is_some()),
        ]);
        let password =
            reading.file("kafka_sasl_password_file", self.kafka_password.as_ref(), read_password)?;
        Some(Sasl {
            mechanism: self.kafka_mechanism?,
            user: self.kafka_user.clone()?,
            password: Password::new(password),
        })
    }
}

#[derive(Default)]
struct Reading {
    problems: Vec<String>,
}

impl Reading {
    /// What a file holds, if one is named and good.
    fn file<T>(
        &mut self,
        name: &str,
        path: Option<&String>,
        read: impl FnOnce(&Path) -> Result<T, String>,
    ) -> Option<T> {
        let path = path?;
        match read(Path::new(path)) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.problems.push(format!("{name}: {path}: {problem}"));
                None
            }
        }
    }

    /// A certificate and its key, if they are named and good.
    fn pair(
        &mut self,
        certificate: (&str, Option<&String>),
        key: (&str, Option<&String>),
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        self.together(&[(certificate.0, certificate.1.is_some()), (key.0, key.1.is_some())]);
        let certificate = self.file(certificate.0, certificate.1, read_pem);
        let key = self.file(key.0, key.1, read_pem);
        Some((certificate?, key?))
    }

    /// All of these are set or none.
    fn together(&mut self, settings: &[(&str, bool)]) {
        if settings.iter().any(|(_, is_set)| *is_set) {
            for (missing, _) in settings.iter().filter(|(_, is_set)| !is_set) {
                let set: Vec<&str> =
                    settings.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name).collect();
                self.problems.push(format!("{missing}: is missing; it goes with {}", set.join(", ")));
            }
        }
    }

    /// What is set has no effect without this.
    fn needs(&mut self, name: &str, is_set: bool, is_needed: bool) {
        if is_needed && !is_set {
            self.problems.push(format!("{name}: is missing; without it there is no TLS"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(files: &Files) -> Vec<String> {
        files.read_into(&mut Settings::default())
    }

    #[test]
    fn halves_of_pairs_are_refused() {
        let set = || Some("/nowhere".to_owned());
        let halves = Files {
            etcd_user: set(),
            etcd_server_name: set(),
            tls_client_ca: None,
            kafka_mechanism: Some(Mechanism::Plain),
            ..Files::default()
        };
        assert_eq!(
            problems(&halves),
            [
                "etcd_password_file: is missing; it goes with etcd_user",
                "etcd_ca_file: is missing; without it there is no TLS",
                "kafka_sasl_user: is missing; it goes with kafka_sasl_mechanism",
                "kafka_sasl_password_file: is missing; it goes with kafka_sasl_mechanism",
            ]
        );
        let unread = problems(&Files { tokens: set(), tls_cert: set(), ..Files::default() });
        assert_eq!(unread.len(), 3, "{unread:?}");
        assert!(unread[0].starts_with("tls_key_file: is missing"), "{unread:?}");
        assert!(unread[2].starts_with("token_file: /nowhere: cannot be read"), "{unread:?}");
    }

    #[test]
    fn what_files_hold_reaches_the_instance() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            Some(path.to_str().unwrap().to_owned())
        };
        let pem = file("pem", "-----BEGIN CERTIFICATE-----\n");
        let files = Files {
            etcd_user: Some("root".to_owned()),
            etcd_password: file("password", "secret\n"),
            etcd_ca: pem.clone(),
            etcd_server_name: Some("etcd".to_owned()),
            tls_cert: pem.clone(),
            tls_key: pem.clone(),
            tls_client_ca: pem.clone(),
            tokens: file("tokens", "0123456789abcdef\n"),
            kafka_ca: pem,
            kafka_mechanism: Some(Mechanism::ScramSha256),
            kafka_user: Some("ann".to_owned()),
            kafka_password: file("kafka", "secret"),
            ..Files::default()
        };
        let mut settings = Settings::default();
        assert_eq!(files.read_into(&mut settings), [""; 0]);
        let user = settings.etcd_user.unwrap();
        assert_eq!((user.name.as_str(), user.password.as_str()), ("root", "secret"));
        assert_eq!(settings.etcd_tls.unwrap().domain.as_deref(), Some("etcd"));
        assert!(settings.tls.unwrap().client_ca.is_some());
        assert_eq!(settings.tokens, [Token("0123456789abcdef".to_owned())]);
        let security = settings.kafka.security;
        assert!(security.tls.is_some());
        assert_eq!(security.sasl.unwrap().user, "ann");
    }
}
