//! From the settings of a listener to what it asks of its clients.

use std::path::PathBuf;

use coordination::settings::{ClientAuth, SecurityProtocol, Settings};
use gateway::{Mechanism, OAuth, Sasl, Security, Tls};

use crate::failure::{Failure, Kind};

/// How the listener of this name is protected.
pub(crate) fn security(settings: &Settings, listener: &str) -> anyhow::Result<Security> {
    let own = settings.of_listener(listener);
    let Some(protocol) = own.security_protocol(listener) else {
        let message = format!("listener.security.protocol.map does not say what listener {listener} speaks");
        return Err(Failure::new(Kind::Usage, message).into());
    };
    let tls = if protocol.has_tls() { Some(tls(&own, listener)?) } else { None };
    let sasl = protocol.has_sasl().then(|| sasl(&own, protocol));
    Ok(Security { tls, sasl, org: own.org() })
}

fn tls(own: &Settings, listener: &str) -> anyhow::Result<Tls> {
    let keystore = own.ssl_keystore_location().ok_or_else(|| {
        Failure::new(Kind::Usage, format!("listener {listener}: TLS needs ssl.keystore.location"))
    })?;
    let protocols = own.ssl_enabled_protocols();
    let speaks = |version: &str| protocols.iter().any(|protocol| protocol == version);
    Ok(Tls {
        keystore: PathBuf::from(keystore),
        key: own.ssl_key_location().map(PathBuf::from),
        truststore: own.ssl_truststore_location().map(PathBuf::from),
        client_auth: match own.ssl_client_auth() {
            ClientAuth::None => gateway::ClientAuth::None,
            ClientAuth::Requested => gateway::ClientAuth::Requested,
            ClientAuth::Required => gateway::ClientAuth::Required,
        },
        tls12: speaks("TLSv1.2"),
        tls13: speaks("TLSv1.3"),
        principal_mapping_rules: own.ssl_principal_mapping_rules(),
    })
}

fn sasl(own: &Settings, protocol: SecurityProtocol) -> Sasl {
    let mechanisms = own.sasl_enabled_mechanisms();
    Sasl {
        mechanisms: mechanisms.iter().filter_map(|name| name.parse::<Mechanism>().ok()).collect(),
        plain_without_tls: own.sasl_plain_without_tls() && !protocol.has_tls(),
        max_reauth: own.connections_max_reauth(),
        max_receive_size: own.sasl_server_max_receive_size(),
        oauth: own.oauth().map(|oauth| OAuth {
            jwks: PathBuf::from(oauth.jwks_file),
            audiences: oauth.audience,
            issuer: oauth.issuer,
            subject_claim: oauth.sub_claim,
            clock_skew: oauth.clock_skew,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use coordination::settings::Layer;

    use super::*;

    #[test]
    fn a_plain_listener_asks_for_nothing() {
        assert_eq!(security(&Settings::default(), "PLAINTEXT").unwrap(), Security::default());
    }

    #[test]
    fn every_setting_reaches_its_listener() {
        let mut settings = Settings::default();
        for (name, value) in [
            ("listener.security.protocol.map", "IN:PLAINTEXT,OUT:SASL_SSL"),
            ("listener.name.in.kohort.org", "acme"),
            ("listener.name.out.ssl.keystore.location", "out.pem"),
            ("kohort.ssl.key.location", "key.pem"),
            ("ssl.truststore.location", "ca.pem"),
            ("ssl.client.auth", "requested"),
            ("ssl.enabled.protocols", "TLSv1.3"),
            ("ssl.principal.mapping.rules", "RULE:^CN=(.*?)$/$1/"),
            ("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-512,OAUTHBEARER"),
            ("connections.max.reauth.ms", "5000"),
            ("sasl.server.max.receive.size", "4096"),
            ("sasl.oauthbearer.jwks.endpoint.url", "file:///keys"),
            ("sasl.oauthbearer.expected.audience", "a,b"),
            ("sasl.oauthbearer.expected.issuer", "i"),
        ] {
            settings.set(Layer::Flags, name, value).unwrap();
        }
        assert_eq!(
            security(&settings, "IN").unwrap(),
            Security { org: Some("acme".to_owned()), ..Security::default() }
        );
        let out = security(&settings, "OUT").unwrap();
        assert_eq!(out.org, None);
        assert_eq!(
            out.tls.unwrap(),
            Tls {
                keystore: "out.pem".into(),
                key: Some("key.pem".into()),
                truststore: Some("ca.pem".into()),
                client_auth: gateway::ClientAuth::Requested,
                tls12: false,
                tls13: true,
                principal_mapping_rules: "RULE:^CN=(.*?)$/$1/".to_owned(),
            }
        );
        let sasl = out.sasl.unwrap();
        let names: Vec<&str> = sasl.mechanisms.iter().map(|mechanism| mechanism.name()).collect();
        assert_eq!(names, ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"]);
        assert_eq!((sasl.plain_without_tls, sasl.max_receive_size), (false, 4096));
        assert_eq!(sasl.max_reauth, Some(Duration::from_secs(5)));
        let oauth = sasl.oauth.unwrap();
        assert_eq!(oauth.jwks, PathBuf::from("/keys"));
        assert_eq!(
            (oauth.audiences, oauth.issuer),
            (vec!["a".to_owned(), "b".to_owned()], Some("i".to_owned()))
        );
        assert!(security(&settings, "ELSEWHERE").is_err());
    }
}
