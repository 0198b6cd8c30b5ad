//! `--command-config`: how a command protects its connections, in the file that Kafka's own tools read.
//!
//! A file of properties, with the names of Kafka's clients or of librdkafka's. Certificates are PEM files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use client::{Identity, Mechanism, Password, Sasl, Security, Tls};

use crate::failure::{Failure, Kind};

/// Reads the file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Security> {
    let wrong = |problem: String| Failure::new(Kind::Usage, format!("{}: {problem}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    Ok(security(&properties(&text)).map_err(wrong)?)
}

type Properties = BTreeMap<String, String>;

/// `name=value` or `name: value`, a line each; `#` and `!` begin comments, and a `\` at its end continues a line.
fn properties(text: &str) -> Properties {
    let mut properties = Properties::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut line = line.trim_start().to_owned();
        if line.starts_with(['#', '!']) {
            continue;
        }
        while line.ends_with('\\') {
            line.pop();
            let Some(next) = lines.next() else { break };
            line.push_str(next.trim_start());
        }
        if let Some((name, value)) = line.split_once(['=', ':']) {
            properties.insert(name.trim().to_owned(), value.trim().to_owned());
        }
    }
    properties
}

fn security(properties: &Properties) -> Result<Security, String> {
    let first = |names: &[&str]| names.iter().find_map(|name| properties.get(*name)).cloned();
    let protocol = first(&["security.protocol"]).unwrap_or("PLAINTEXT".to_owned()).to_ascii_uppercase();
    let (has_tls, has_sasl) = match protocol.as_str() {
        "PLAINTEXT" => (false, false),
        "SSL" => (true, false),
        "SASL_PLAINTEXT" => (false, true),
        "SASL_SSL" => (true, true),
        other => return Err(format!("security.protocol: {other} is none that Kafka has")),
    };
    let tls = has_tls.then(|| tls(properties, &first)).transpose()?;
    let sasl = has_sasl.then(|| sasl(&first)).transpose()?;
    // Whoever wrote SASL_PLAINTEXT beside PLAIN has decided.
    Ok(Security { tls, sasl, allow_plain_without_tls: !has_tls })
}

fn tls(properties: &Properties, first: &impl Fn(&[&str]) -> Option<String>) -> Result<Tls, String> {
    for name in ["ssl.truststore.type", "ssl.keystore.type"] {
        if let Some(kind) = properties.get(name).filter(|kind| !kind.eq_ignore_ascii_case("PEM")) {
            return Err(format!("{name}: {kind} is not supported; use PEM files"));
        }
    }
    let authorities = first(&["ssl.truststore.location", "ssl.ca.location"])
        .ok_or("TLS needs ssl.truststore.location (or ssl.ca.location), a PEM file of whom to trust")?;
    let certificate = first(&["ssl.keystore.location", "ssl.certificate.location"]);
    let identity = match certificate {
        None => None,
        Some(certificate) => {
            let key = first(&["ssl.key.location"]).unwrap_or_else(|| certificate.clone());
            Some(Identity { certificate_pem: pem(&certificate)?, key_pem: pem(&key)? })
        }
    };
    Ok(Tls { ca_pem: pem(&authorities)?, identity, server_name: None })
}

fn pem(path: &str) -> Result<Vec<u8>, String> {
    let text = fs::read(path).map_err(|error| format!("{path}: cannot be read: {error}"))?;
    if text.windows(10).any(|window| window == b"-----BEGIN") {
        Ok(text)
    } else {
        Err(format!("{path}: is no PEM file"))
    }
}

fn sasl(first: &impl Fn(&[&str]) -> Option<String>) -> Result<Sasl, String> {
    let mechanism = first(&["sasl.mechanism", "sasl.mechanisms"]).ok_or("SASL needs sasl.mechanism")?;
    let mechanism: Mechanism = mechanism.parse().map_err(|error| format!("sasl.mechanism: {error}"))?;
    let jaas = first(&["sasl.jaas.config"]).unwrap_or_default();
    let user = first(&["sasl.username"]).or_else(|| jaas_option(&jaas, "username"));
    let password = first(&["sasl.password"]).or_else(|| jaas_option(&jaas, "password"));
    match (user, password) {
        (Some(user), Some(password)) => Ok(Sasl { mechanism, user, password: Password::new(password) }),
        _ => Err("SASL needs a user and a password, in sasl.jaas.config or sasl.username and sasl.password"
            .to_owned()),
    }
}

/// `… required username="alice" password="secret";`
fn jaas_option(jaas: &str, name: &str) -> Option<String> {
    let start = jaas.find(&format!("{name}="))? + name.len() + 1;
    let rest = &jaas[start..];
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find(|letter: char| letter.is_whitespace() || letter == ';').unwrap_or(rest.len());
        return Some(rest[..end].to_owned());
    };
    let mut value = String::new();
    let mut letters = quoted.chars();
    loop {
        match letters.next()? {
            '"' => return Some(value),
            '\\' => value.push(letters.next()?),
            letter => value.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Security, String> {
        security(&properties(text))
    }

    #[test]
    fn the_file_of_kafkas_tools_will_do() {
        let security = read_text(
            "# for kafka-topics.sh\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism = SCRAM-SHA-512\n\
             sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n  \
             username=\"acme/alice\" password=\"a \\\"b\\\"\";\n",
        )
        .unwrap();
        let sasl = security.sasl.unwrap();
        assert_eq!((sasl.user.as_str(), sasl.mechanism), ("acme/alice", Mechanism::ScramSha512));
        assert!(security.tls.is_none());
    }

    #[test]
    fn the_names_of_librdkafka_will_do_too() {
        let dir = tempfile::tempdir().unwrap();
        let ca = dir.path().join("ca.pem");
        fs::write(&ca, "-----BEGIN CERTIFICATE-----\n").unwrap();
        let text = format!(
            "security.protocol=sasl_ssl\nssl.ca.location={}\nsasl.mechanisms=PLAIN\nsasl.username=a\n\
             sasl.password=b=c\n",
            ca.display()
        );
        let security = read_text(&text).unwrap();
        assert!(security.tls.is_some() && !security.allow_plain_without_tls);
        assert_eq!(security.sasl.unwrap().user, "a");
    }

    #[test]
    fn what_is_missing_is_told() {
        for (text, problem) in [
            ("security.protocol=TLS", "none that Kafka has"),
            ("security.protocol=SSL", "TLS needs ssl.truststore.location"),
            ("security.protocol=SSL\nssl.truststore.type=JKS", "use PEM files"),
            ("security.protocol=SSL\nssl.truststore.location=/nowhere", "cannot be read"),
            ("security.protocol=SASL_PLAINTEXT", "SASL needs sasl.mechanism"),
            ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI", "is not a mechanism"),
            ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN", "a user and a password"),
        ] {
            let refusal = read_text(text).unwrap_err();
            assert!(refusal.contains(problem), "{text}: {refusal}");
        }
        assert!(read_text("").unwrap().sasl.is_none());
    }
}
