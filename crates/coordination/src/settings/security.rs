//! What the settings say about who may come in and what they may do.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{LISTENER_PREFIX, Settings, items};
use crate::catalog::{ORG_NAME_OF_DEFAULT, check_org_name};

/// What a listener speaks, with Kafka's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityProtocol {
    /// `PLAINTEXT`: neither TLS nor a login.
    Plaintext,
    /// `SSL`: TLS, and perhaps a client's certificate.
    Ssl,
    /// `SASL_PLAINTEXT`: a login without TLS.
    SaslPlaintext,
    /// `SASL_SSL`: a login within TLS.
    SaslSsl,
}

impl SecurityProtocol {
    /// Whether it has TLS.
    pub fn has_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    /// Whether it asks for a login.
    pub fn has_sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }

    fn named(name: &str) -> Option<Self> {
        match name.to_ascii_uppercase().as_str() {
            "PLAINTEXT" => Some(Self::Plaintext),
            "SSL" => Some(Self::Ssl),
            "SASL_PLAINTEXT" => Some(Self::SaslPlaintext),
            "SASL_SSL" => Some(Self::SaslSsl),
            _ => None,
        }
    }
}

/// `ssl.client.auth`: whether clients show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked.
    None,
    /// They may.
    Requested,
    /// They must.
    Required,
}

/// How tokens are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oauth {
    /// The file of keys.
    pub jwks_file: String,
    /// Whom tokens must be for, if it matters.
    pub audience: Vec<String>,
    /// Who must have issued them, if it matters.
    pub issuer: Option<String>,
    /// Which claim names the user.
    pub sub_claim: String,
    /// How far clocks may differ.
    pub clock_skew: Duration,
}

/// Who may do everything in an organisation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SuperUser {
    /// The organisation's name.
    pub org: String,
    /// The user within it, as `User:name`.
    pub principal: String,
}

impl Settings {
    /// `listener.security.protocol.map`: what the listener of this name speaks; none when nothing is said of it.
    pub fn security_protocol(&self, listener: &str) -> Option<SecurityProtocol> {
        let map = parse_protocol_map(&self.text("listener.security.protocol.map")).unwrap_or_default();
        let listener = listener.to_ascii_uppercase();
        map.into_iter().find(|(name, _)| *name == listener).map(|(_, protocol)| protocol)
    }

    /// `ssl.keystore.location`: the file of certificates and, unless [`Self::ssl_key_location`] says so, of the key.
    pub fn ssl_keystore_location(&self) -> Option<String> {
        self.filled("ssl.keystore.location")
    }

    /// `kohort.ssl.key.location`: the file of the key, where it is apart.
    pub fn ssl_key_location(&self) -> Option<String> {
        self.filled("kohort.ssl.key.location")
    }

    /// `ssl.truststore.location`: the file of trusted authorities.
    pub fn ssl_truststore_location(&self) -> Option<String> {
        self.filled("ssl.truststore.location")
    }

    /// `ssl.client.auth`.
    pub fn ssl_client_auth(&self) -> ClientAuth {
        match self.text("ssl.client.auth").as_str() {
            "required" => ClientAuth::Required,
            "requested" => ClientAuth::Requested,
            _ => ClientAuth::None,
        }
    }

    /// `ssl.enabled.protocols`: among `TLSv1.2` and `TLSv1.3`.
    pub fn ssl_enabled_protocols(&self) -> Vec<String> {
        items(&self.text("ssl.enabled.protocols")).map(str::to_owned).collect()
    }

    /// `ssl.principal.mapping.rules`, in Kafka's syntax.
    pub fn ssl_principal_mapping_rules(&self) -> String {
        self.text("ssl.principal.mapping.rules")
    }

    /// `sasl.enabled.mechanisms`, by their names.
    pub fn sasl_enabled_mechanisms(&self) -> Vec<String> {
        items(&self.text("sasl.enabled.mechanisms")).map(str::to_owned).collect()
    }

    /// `kohort.sasl.plain.without.tls`.
    pub fn sasl_plain_without_tls(&self) -> bool {
        self.boolean("kohort.sasl.plain.without.tls")
    }

    /// `connections.max.reauth.ms`; none for logins that last as long as their connection.
    pub fn connections_max_reauth(&self) -> Option<Duration> {
        let millis = u64::try_from(self.long("connections.max.reauth.ms")).ok()?;
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    /// `connection.failed.authentication.delay.ms`.
    pub fn failed_authentication_delay(&self) -> Duration {
        Duration::from_millis(self.size("connection.failed.authentication.delay.ms") as u64)
    }

    /// `kohort.authentication.timeout.ms`.
    pub fn authentication_timeout(&self) -> Duration {
        Duration::from_millis(self.size("kohort.authentication.timeout.ms") as u64)
    }

    /// `sasl.server.max.receive.size`.
    pub fn sasl_server_max_receive_size(&self) -> usize {
        self.size("sasl.server.max.receive.size")
    }

    /// `sasl.oauthbearer.*`; none without a file of keys.
    pub fn oauth(&self) -> Option<Oauth> {
        let url = self.filled("sasl.oauthbearer.jwks.endpoint.url")?;
        let seconds = self.size("sasl.oauthbearer.clock.skew.seconds") as u64;
        Some(Oauth {
            jwks_file: url.strip_prefix("file://").unwrap_or(&url).to_owned(),
            audience: items(&self.text("sasl.oauthbearer.expected.audience")).map(str::to_owned).collect(),
            issuer: self.filled("sasl.oauthbearer.expected.issuer"),
            sub_claim: self.text("sasl.oauthbearer.sub.claim.name"),
            clock_skew: Duration::from_secs(seconds),
        })
    }

    /// `authorizer.class.name`: whether requests are checked against ACLs.
    pub fn has_authorizer(&self) -> bool {
        self.filled("authorizer.class.name").is_some()
    }

    /// `super.users`.
    pub fn super_users(&self) -> BTreeSet<SuperUser> {
        parse_super_users(&self.text("super.users")).unwrap_or_default()
    }

    /// `allow.everyone.if.no.acl.found`.
    pub fn allow_everyone_if_no_acl_found(&self) -> bool {
        self.boolean("allow.everyone.if.no.acl.found")
    }

    /// `kohort.org`: the organisation of a listener's clients, if they have no choice.
    pub fn org(&self) -> Option<String> {
        self.filled("kohort.org")
    }

    /// `kohort.rail.listen`: where gateways are accepted, if they are.
    pub fn rail_listen(&self) -> Option<std::net::SocketAddr> {
        self.filled("kohort.rail.listen")?.parse().ok()
    }

    /// `kohort.connection.threads.pinned`: whether each thread of connections keeps to a processor of its own.
    pub fn connection_threads_pinned(&self) -> bool {
        self.boolean("kohort.connection.threads.pinned")
    }

    /// `kohort.gateway.record.memory.bytes`: how much a separate gateway keeps of the records that it has fetched.
    pub fn gateway_record_memory(&self) -> usize {
        self.size("kohort.gateway.record.memory.bytes")
    }

    /// `kohort.otlp.endpoint`: where spans go, if anywhere.
    pub fn otlp_endpoint(&self) -> Option<String> {
        self.filled("kohort.otlp.endpoint")
    }

    /// `kohort.trace.sample.ratio`.
    pub fn trace_sample_ratio(&self) -> f64 {
        self.text("kohort.trace.sample.ratio").parse().unwrap_or(1.0)
    }

    /// What is wrong with the settings of listeners when they are looked at together, each in a sentence.
    pub fn listener_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let names: BTreeSet<String> = self.listeners().into_iter().map(|listener| listener.name).collect();
        for unknown in self.listeners_with_settings() {
            if !names.contains(&unknown.to_ascii_uppercase()) {
                problems.push(format!(
                    "{LISTENER_PREFIX}{unknown}.*: there is no listener named {}",
                    unknown.to_ascii_uppercase()
                ));
            }
        }
        for name in &names {
            let problem = |what: &str| format!("listener {name}: {what}");
            let Some(protocol) = self.security_protocol(name) else {
                problems.push(problem(
                    "listener.security.protocol.map does not say what it speaks; add a pair such as NAME:SASL_SSL",
                ));
                continue;
            };
            let own = self.of_listener(name);
            problems.extend(own.protocol_problems(protocol).iter().map(|what| problem(what)));
        }
        problems
    }

    fn protocol_problems(&self, protocol: SecurityProtocol) -> Vec<&'static str> {
        let mut problems = Vec::new();
        if protocol.has_tls() {
            if self.ssl_keystore_location().is_none() {
                problems.push("TLS needs ssl.keystore.location, a PEM file of certificates and their key");
            }
            if self.ssl_client_auth() != ClientAuth::None && self.ssl_truststore_location().is_none() {
                problems.push(
                    "ssl.client.auth needs ssl.truststore.location, a PEM file of the authorities to trust",
                );
            }
            if self.ssl_enabled_protocols().is_empty() {
                problems.push("ssl.enabled.protocols names no version of TLS");
            }
        }
        if protocol.has_sasl() {
            let mechanisms = self.sasl_enabled_mechanisms();
            let offers = |name: &str| mechanisms.iter().any(|mechanism| mechanism == name);
            if mechanisms.is_empty() {
                problems.push("SASL needs at least one of sasl.enabled.mechanisms");
            }
            if offers("PLAIN") && !protocol.has_tls() && !self.sasl_plain_without_tls() {
                problems.push(
                    "PLAIN sends passwords in the clear; use SASL_SSL, or set kohort.sasl.plain.without.tls=true",
                );
            }
            if offers("OAUTHBEARER") && self.oauth().is_none() {
                problems.push("OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url, a file of keys");
            }
        }
        problems
    }

    /// A text that is set to something.
    fn filled(&self, name: &str) -> Option<String> {
        self.value(name).filter(|value| !value.is_empty())
    }
}

/// Reads `NAME:PROTOCOL,…`; names come out in capitals.
pub(super) fn parse_protocol_map(text: &str) -> Result<Vec<(String, SecurityProtocol)>, String> {
    let mut map: Vec<(String, SecurityProtocol)> = Vec::new();
    for item in items(text) {
        let (name, protocol) =
            item.split_once(':').ok_or_else(|| format!("{item} is not of the form NAME:PROTOCOL"))?;
        let name = name.trim().to_ascii_uppercase();
        let protocol = SecurityProtocol::named(protocol.trim()).ok_or_else(|| {
            format!("{} is none of PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL", protocol.trim())
        })?;
        if map.iter().any(|(known, _)| *known == name) {
            return Err(format!("{name} has two protocols"));
        }
        map.push((name, protocol));
    }
    Ok(map)
}

/// Reads `User:name;User:org/name;…`.
pub(super) fn parse_super_users(text: &str) -> Result<BTreeSet<SuperUser>, String> {
    let users = text.split(';').map(str::trim).filter(|user| !user.is_empty());
    users
        .map(|user| {
            let refuse = || format!("{user} is not of the form User:name or User:org/name");
            let login = user.strip_prefix("User:").filter(|login| !login.is_empty()).ok_or_else(refuse)?;
            let (org, name) = login.split_once('/').unwrap_or((ORG_NAME_OF_DEFAULT, login));
            if name.is_empty() || check_org_name(org).is_err() {
                return Err(refuse());
            }
            Ok(SuperUser { org: org.to_owned(), principal: format!("User:{name}") })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Layer;

    fn settings(values: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        for (name, value) in values {
            settings.set(Layer::File, name, value).unwrap();
        }
        settings
    }

    #[test]
    fn without_any_setting_everything_is_as_plain_as_before() {
        let settings = Settings::default();
        assert_eq!(settings.security_protocol("plaintext"), Some(SecurityProtocol::Plaintext));
        assert_eq!(settings.security_protocol("OUTSIDE"), None);
        assert_eq!(settings.sasl_enabled_mechanisms(), ["SCRAM-SHA-256", "SCRAM-SHA-512"]);
        assert_eq!(settings.ssl_enabled_protocols(), ["TLSv1.2", "TLSv1.3"]);
        assert_eq!(settings.ssl_client_auth(), ClientAuth::None);
        assert_eq!(settings.ssl_principal_mapping_rules(), "DEFAULT");
        assert_eq!((settings.ssl_keystore_location(), settings.ssl_key_location()), (None, None));
        assert_eq!((settings.ssl_truststore_location(), settings.oauth()), (None, None));
        assert_eq!(settings.connections_max_reauth(), None);
        assert_eq!(settings.failed_authentication_delay(), Duration::from_millis(100));
        assert_eq!(settings.authentication_timeout(), Duration::from_secs(10));
        assert_eq!(settings.sasl_server_max_receive_size(), 524_288);
        assert!(!settings.has_authorizer() && !settings.allow_everyone_if_no_acl_found());
        assert!(!settings.sasl_plain_without_tls() && settings.super_users().is_empty());
        assert_eq!((settings.org(), settings.rail_listen(), settings.otlp_endpoint()), (None, None, None));
        assert_eq!(settings.gateway_record_memory(), 256 << 20);
        assert!(settings.connection_threads_pinned());
        assert!((settings.trace_sample_ratio() - 1.0).abs() < f64::EPSILON);
        assert!(settings.listener_problems().is_empty());
    }

    #[test]
    fn super_users_belong_to_an_organisation() {
        let settings = settings(&[("super.users", "User:admin; User:acme/alice;")]);
        let written: Vec<String> =
            settings.super_users().iter().map(|user| format!("{} {}", user.org, user.principal)).collect();
        assert_eq!(written, ["acme User:alice", "default User:admin"]);
        for wrong in ["admin", "User:", "User:/a", "User:acme/", "Group:x"] {
            assert!(Settings::default().set(Layer::File, "super.users", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_that_make_no_sense_are_refused() {
        for (name, wrong) in [
            ("sasl.oauthbearer.jwks.endpoint.url", "https://issuer/keys"),
            ("sasl.oauthbearer.jwks.endpoint.url", "file://keys"),
            ("kohort.rail.listen", "localhost:9643"),
            ("kohort.gateway.record.memory.bytes", "-1"),
            ("kohort.org", "Acme Inc"),
            ("listener.security.protocol.map", "A"),
            ("listener.security.protocol.map", "A:TLS"),
            ("listener.security.protocol.map", "A:SSL,a:SSL"),
            ("sasl.enabled.mechanisms", "GSSAPI"),
            ("ssl.keystore.type", "JKS"),
            ("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer"),
            ("kohort.trace.sample.ratio", "2"),
        ] {
            assert!(Settings::default().set(Layer::File, name, wrong).is_err(), "{name}={wrong}");
        }
        let keys = settings(&[("sasl.oauthbearer.jwks.endpoint.url", "file:///etc/keys.json")]);
        assert_eq!(keys.oauth().map(|oauth| oauth.jwks_file).as_deref(), Some("/etc/keys.json"));
    }

    #[test]
    fn what_a_listener_lacks_is_told_with_its_name() {
        let problems = |values: &[(&str, &str)]| settings(values).listener_problems();
        let on = |listener: &'static str| ("listeners", listener);
        assert_eq!(
            problems(&[on("OUT://:1")]),
            ["listener OUT: listener.security.protocol.map does not say what it speaks; add a pair such as \
              NAME:SASL_SSL"]
        );
        let ssl = "listener SSL: TLS needs ssl.keystore.location, a PEM file of certificates and their key";
        assert_eq!(problems(&[on("SSL://:1")]), [ssl]);
        assert!(problems(&[on("SSL://:1"), ("listener.name.ssl.ssl.keystore.location", "a.pem")]).is_empty());
        assert_eq!(
            problems(&[on("SSL://:1"), ("ssl.keystore.location", "a.pem"), ("ssl.client.auth", "required")]),
            [
                "listener SSL: ssl.client.auth needs ssl.truststore.location, a PEM file of the authorities to trust"
            ]
        );
        let plain = [on("SASL_PLAINTEXT://:1"), ("sasl.enabled.mechanisms", "PLAIN")];
        assert_eq!(
            problems(&plain),
            ["listener SASL_PLAINTEXT: PLAIN sends passwords in the clear; use SASL_SSL, or set \
              kohort.sasl.plain.without.tls=true"]
        );
        assert!(problems(&[plain[0], plain[1], ("kohort.sasl.plain.without.tls", "true")]).is_empty());
        assert_eq!(
            problems(&[plain[0], ("sasl.enabled.mechanisms", "")]),
            ["listener SASL_PLAINTEXT: SASL needs at least one of sasl.enabled.mechanisms"]
        );
        assert_eq!(
            problems(&[plain[0], ("sasl.enabled.mechanisms", "OAUTHBEARER")]),
            ["listener SASL_PLAINTEXT: OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url, a file of keys"]
        );
        assert_eq!(
            problems(&[("listener.name.out.kohort.org", "acme")]),
            ["listener.name.out.*: there is no listener named OUT"]
        );
    }
}
