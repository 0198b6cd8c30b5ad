//! What is stored of organisations, their users and the gateways.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ids::OrgId;

/// What is stored of an organisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Org {
    /// The organisation's id.
    pub id: OrgId,
    /// Its name, by which users and commands know it.
    pub name: String,
    /// How much it may use.
    pub limits: OrgLimits,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
}

/// How much an organisation may use; `None` is without a limit of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrgLimits {
    /// Topics, without the one that its groups are kept in.
    #[serde(rename = "max.topics", default, skip_serializing_if = "Option::is_none")]
    pub topics: Option<u64>,
    /// Partitions of all these topics together.
    #[serde(rename = "max.partitions", default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u64>,
    /// Groups.
    #[serde(rename = "max.groups", default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<u64>,
    /// Members of all its groups together.
    #[serde(rename = "max.members", default, skip_serializing_if = "Option::is_none")]
    pub members: Option<u64>,
    /// Connections at a time, through all gateways.
    #[serde(rename = "max.connections", default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    /// Bytes of records that are produced, and as many that are fetched, in a second.
    #[serde(rename = "max.bytes.per.second", default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
}

impl OrgLimits {
    /// The names of all limits.
    pub const NAMES: [&str; 6] = [
        "max.topics",
        "max.partitions",
        "max.groups",
        "max.members",
        "max.connections",
        "max.bytes.per.second",
    ];

    /// The limit of this name; `None` when there is no such limit.
    pub fn get(&self, name: &str) -> Option<Option<u64>> {
        let mut copy = *self;
        copy.place(name).map(|place| *place)
    }

    /// Sets the limit of this name, or lifts it; false when there is no such limit.
    #[must_use]
    pub fn set(&mut self, name: &str, limit: Option<u64>) -> bool {
        self.place(name).map(|place| *place = limit).is_some()
    }

    fn place(&mut self, name: &str) -> Option<&mut Option<u64>> {
        match name {
            "max.topics" => Some(&mut self.topics),
            "max.partitions" => Some(&mut self.partitions),
            "max.groups" => Some(&mut self.groups),
            "max.members" => Some(&mut self.members),
            "max.connections" => Some(&mut self.connections),
            "max.bytes.per.second" => Some(&mut self.bytes_per_second),
            _ => None,
        }
    }
}

/// What is stored of a user. The name and the organisation stand in the record's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The organisation that the user belongs to.
    pub org: OrgId,
    /// The user's name within it.
    pub name: String,
    /// What is kept of the password, for each way to prove that one knows it.
    pub credentials: BTreeMap<ScramMechanism, ScramCredential>,
    /// When the user was made, in milliseconds since 1970.
    pub created_ms: i64,
}

/// What is stored of a gateway. Its endpoint id stands in the record's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// The gateway's endpoint id, in text: its public key.
    pub endpoint_id: String,
    /// Whether it may connect.
    pub is_allowed: bool,
    /// Its node id, given once and kept, so that clients find the same gateway behind the same number.
    pub node_id: i32,
}

/// A way to prove that one knows a password (RFC 5802), with Kafka's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(i8)]
pub enum ScramMechanism {
    /// SCRAM-SHA-256.
    #[serde(rename = "SCRAM-SHA-256")]
    Sha256 = 1,
    /// SCRAM-SHA-512.
    #[serde(rename = "SCRAM-SHA-512")]
    Sha512 = 2,
}

impl ScramMechanism {
    /// Its name, as SASL has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }
}

/// What is stored instead of a password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScramCredential {
    /// Makes equal passwords look different.
    #[serde(with = "hex")]
    pub salt: Vec<u8>,
    /// How often the password was hashed.
    pub iterations: u32,
    /// Proves the client.
    #[serde(with = "hex")]
    pub stored_key: Vec<u8>,
    /// Proves the server.
    #[serde(with = "hex")]
    pub server_key: Vec<u8>,
}

impl std::fmt::Debug for ScramCredential {
    /// Says nothing that would help to guess the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScramCredential").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct UserValue {
    pub(super) credentials: BTreeMap<ScramMechanism, ScramCredential>,
    pub(super) created_ms: i64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct GatewayValue {
    pub(super) is_allowed: bool,
    pub(super) node_id: i32,
}

#[derive(Serialize, Deserialize)]
pub(super) struct DecoySecretValue {
    #[serde(with = "hex")]
    pub(super) secret: Vec<u8>,
}

/// Bytes as two digits each in formats for people, and as they are in those for machines.
mod hex {
    use serde::de::Error;

    use super::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            serializer.serialize_str(&digits)
        } else {
            bytes.serialize(serializer)
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        if !deserializer.is_human_readable() {
            return Vec::<u8>::deserialize(deserializer);
        }
        let text = String::deserialize(deserializer)?;
        let byte = |pair: &[u8]| {
            let digit = |letter: u8| char::from(letter).to_digit(16);
            let (high, low) = (digit(*pair.first()?)?, digit(*pair.get(1)?)?);
            u8::try_from(high * 16 + low).ok()
        };
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
        bytes.ok_or_else(|| D::Error::custom("expected pairs of hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_found_by_its_name() {
        let mut limits = OrgLimits::default();
        for (number, name) in (1..).zip(OrgLimits::NAMES) {
            assert_eq!(limits.get(name), Some(None), "{name}");
            assert!(limits.set(name, Some(number)));
        }
        let values: Vec<_> = OrgLimits::NAMES.iter().map(|name| limits.get(name)).collect();
        assert_eq!(values, (1..=6).map(|number| Some(Some(number))).collect::<Vec<_>>());
        assert!(!limits.set("max.gods", Some(1)));
        assert_eq!(limits.get("max.gods"), None);
    }

    #[test]
    fn a_credential_is_text_in_json_and_never_in_a_log() {
        let credential = ScramCredential {
            salt: vec![0, 255],
            iterations: 4096,
            stored_key: vec![1],
            server_key: Vec::new(),
        };
        let json = serde_json::to_string(&credential).unwrap();
        assert_eq!(json, r#"{"salt":"00ff","iterations":4096,"stored_key":"01","server_key":""}"#);
        assert_eq!(serde_json::from_str::<ScramCredential>(&json).unwrap(), credential);
        for wrong in ["0", "0g", "ä"] {
            let json = json.replace("00ff", wrong);
            assert!(serde_json::from_str::<ScramCredential>(&json).is_err(), "{wrong}");
        }
        assert_eq!(format!("{credential:?}"), "ScramCredential { iterations: 4096, .. }");
    }
}
