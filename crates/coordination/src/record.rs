//! Facts that survive a restart, as they stand in the internal topic `__kohort`.
//!
//! A record has a text key and a JSON value. The topic is compacted by key, so a record says all there is to say
//! under its key and never builds on an older one; a deletion is a key without a value.

mod security;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::access::{Acl, Operation, PatternType, Permission, Resource, ResourceType};
use crate::ids::{OrgId, TopicId};
use security::{DecoySecretValue, GatewayValue, UserValue};

pub use security::{Gateway, Org, OrgLimits, ScramCredential, ScramMechanism, User};

/// One fact. Applying all of them in their order gives back what the broker knew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A topic is as this says.
    Topic(Topic),
    /// The topic is gone.
    TopicDeleted(TopicId),
    /// Producer ids below this may have been given out.
    ProducerIds {
        /// The first id that has not been given out.
        next: i64,
    },
    /// Which cluster this is.
    Cluster {
        /// The cluster's id, as Kafka writes one: 128 bits in 22 characters.
        id: String,
    },
    /// The broker settings that were set while it ran.
    BrokerConfigs(BrokerConfigs),
    /// The settings that a group has of its own.
    GroupConfigs(GroupConfigs),
    /// An organisation is as this says.
    Org(Org),
    /// The organisation is gone.
    OrgDeleted(OrgId),
    /// A user is as this says.
    User(User),
    /// The user is gone.
    UserDeleted {
        /// The organisation that the user belonged to.
        org: OrgId,
        /// The user's name.
        name: String,
    },
    /// A rule of an organisation holds.
    Acl {
        /// The organisation.
        org: OrgId,
        /// The rule.
        acl: Acl,
    },
    /// The rule holds no more.
    AclDeleted {
        /// The organisation.
        org: OrgId,
        /// The rule.
        acl: Acl,
    },
    /// A gateway is as this says.
    Gateway(Gateway),
    /// What the salts of users that do not exist are made from.
    DecoySecret {
        /// Random bytes.
        secret: Vec<u8>,
    },
}

/// What is stored of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topic {
    /// The topic's id.
    pub id: TopicId,
    /// The organisation that owns it.
    pub org: OrgId,
    /// Its name within the organisation.
    pub name: String,
    /// How many partitions it has.
    pub partitions: u32,
    /// The settings that it has of its own.
    pub configs: BTreeMap<String, String>,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
}

/// What is stored of the broker's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerConfigs {
    /// Set for all brokers.
    pub all: BTreeMap<String, String>,
    /// Set for this broker.
    pub own: BTreeMap<String, String>,
}

/// What is stored of a group's settings. Without any, nothing is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfigs {
    /// The organisation that the group belongs to.
    pub org: OrgId,
    /// The group's name. A group can have settings before it exists.
    pub group: String,
    /// The settings.
    pub configs: BTreeMap<String, String>,
}

/// A key and a value in `__kohort` that this version cannot take for a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The key is none that this version writes. A newer one may have; leaving the record out would lose what
    /// it says.
    #[error(
        "`{key}` is no key of a record that this version of Kohort knows; a newer one may have written it"
    )]
    UnknownKey {
        /// The key, as far as it is text.
        key: String,
    },
    /// The value does not say what its key promises.
    #[error("the record `{key}` cannot be read: {reason}")]
    Value {
        /// The key.
        key: String,
        /// What is wrong.
        reason: String,
    },
}

#[derive(Serialize, Deserialize)]
struct ProducerIdsValue {
    next: i64,
}

#[derive(Serialize, Deserialize)]
struct ClusterValue {
    id: String,
}

impl Record {
    /// The record's key, and its value unless it is a deletion.
    pub fn encode(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        let (key, value) = match self {
            Self::Topic(topic) => (topic_key(topic.id), Some(json(topic))),
            Self::TopicDeleted(id) => (topic_key(*id), None),
            Self::ProducerIds { next } => {
                (PRODUCER_IDS.to_owned(), Some(json(&ProducerIdsValue { next: *next })))
            }
            Self::Cluster { id } => (CLUSTER.to_owned(), Some(json(&ClusterValue { id: id.clone() }))),
            Self::BrokerConfigs(configs) => (BROKER_CONFIGS.to_owned(), Some(json(configs))),
            Self::GroupConfigs(GroupConfigs { org, group, configs }) => {
                let value = (!configs.is_empty()).then(|| json(configs));
                (format!("{GROUP_CONFIGS}{org}/{group}"), value)
            }
            Self::Org(org) => (format!("{ORG}{}", org.id), Some(json(org))),
            Self::OrgDeleted(id) => (format!("{ORG}{id}"), None),
            Self::User(User { org, name, credentials, created_ms }) => {
                let value = UserValue { credentials: credentials.clone(), created_ms: *created_ms };
                (format!("{USER}{org}/{name}"), Some(json(&value)))
            }
            Self::UserDeleted { org, name } => (format!("{USER}{org}/{name}"), None),
            Self::Acl { org, acl } => (acl_key(*org, acl), Some(b"{}".to_vec())),
            Self::AclDeleted { org, acl } => (acl_key(*org, acl), None),
            Self::Gateway(Gateway { endpoint_id, is_allowed, node_id }) => {
                let value = GatewayValue { is_allowed: *is_allowed, node_id: *node_id };
                (format!("{GATEWAY}{endpoint_id}"), Some(json(&value)))
            }
            Self::DecoySecret { secret } => {
                (DECOY_SECRET.to_owned(), Some(json(&DecoySecretValue { secret: secret.clone() })))
            }
        };
        (key.into_bytes(), value)
    }

    /// The record that [`Self::encode`] made these bytes of.
    ///
    /// # Errors
    /// When it was not this version, or one that wrote the same, that made them.
    pub fn decode(key: &[u8], value: Option<&[u8]>) -> Result<Self, RecordError> {
        let unknown = || RecordError::UnknownKey { key: String::from_utf8_lossy(key).into_owned() };
        let text = std::str::from_utf8(key).map_err(|_| unknown())?;
        if let Some(id) = text.strip_prefix(TOPIC) {
            let id: TopicId = id.parse().map_err(|_| unknown())?;
            let Some(value) = value else { return Ok(Self::TopicDeleted(id)) };
            let topic: Topic = parse(text, value)?;
            if topic.id != id {
                let reason = format!("it speaks of {}", topic.id);
                return Err(RecordError::Value { key: text.to_owned(), reason });
            }
            return Ok(Self::Topic(topic));
        }
        if let Some(place) = text.strip_prefix(GROUP_CONFIGS) {
            let (org, group) = place.split_once('/').ok_or_else(unknown)?;
            let org = org.parse().map_err(|_| unknown())?;
            let configs = value.map(|value| parse(text, value)).transpose()?.unwrap_or_default();
            return Ok(Self::GroupConfigs(GroupConfigs { org, group: group.to_owned(), configs }));
        }
        if let Some(id) = text.strip_prefix(ORG) {
            let id: OrgId = id.parse().map_err(|_| unknown())?;
            let Some(value) = value else { return Ok(Self::OrgDeleted(id)) };
            let org: Org = parse(text, value)?;
            if org.id != id {
                let reason = format!("it speaks of {}", org.id);
                return Err(RecordError::Value { key: text.to_owned(), reason });
            }
            return Ok(Self::Org(org));
        }
        if let Some(place) = text.strip_prefix(USER) {
            let (org, name) = place.split_once('/').ok_or_else(unknown)?;
            let (org, name) = (org.parse().map_err(|_| unknown())?, name.to_owned());
            let Some(value) = value else { return Ok(Self::UserDeleted { org, name }) };
            let UserValue { credentials, created_ms } = parse(text, value)?;
            return Ok(Self::User(User { org, name, credentials, created_ms }));
        }
        if let Some(place) = text.strip_prefix(ACL) {
            let (org, acl) = place.split_once('/').ok_or_else(unknown)?;
            let org = org.parse().map_err(|_| unknown())?;
            let acl = acl_of_key(acl).ok_or_else(unknown)?;
            return Ok(if value.is_some() { Self::Acl { org, acl } } else { Self::AclDeleted { org, acl } });
        }
        let present = || {
            let reason = "it has no value".to_owned();
            value.ok_or(RecordError::Value { key: text.to_owned(), reason })
        };
        if let Some(endpoint_id) = text.strip_prefix(GATEWAY) {
            let GatewayValue { is_allowed, node_id } = parse(text, present()?)?;
            return Ok(Self::Gateway(Gateway { endpoint_id: endpoint_id.to_owned(), is_allowed, node_id }));
        }
        match text {
            PRODUCER_IDS => {
                let ProducerIdsValue { next } = parse(text, present()?)?;
                Ok(Self::ProducerIds { next })
            }
            CLUSTER => {
                let ClusterValue { id } = parse(text, present()?)?;
                Ok(Self::Cluster { id })
            }
            BROKER_CONFIGS => Ok(Self::BrokerConfigs(parse(text, present()?)?)),
            DECOY_SECRET => {
                let DecoySecretValue { secret } = parse(text, present()?)?;
                Ok(Self::DecoySecret { secret })
            }
            _ => Err(unknown()),
        }
    }
}

const TOPIC: &str = "topic/";
const PRODUCER_IDS: &str = "producer-ids";
const CLUSTER: &str = "cluster";
const BROKER_CONFIGS: &str = "broker-configs";
const GROUP_CONFIGS: &str = "group-configs/";
const ORG: &str = "org/";
const USER: &str = "user/";
const ACL: &str = "acl/";
const GATEWAY: &str = "gateway/";
const DECOY_SECRET: &str = "decoy-secret";

fn topic_key(id: TopicId) -> String {
    format!("{TOPIC}{id}")
}

/// All of a rule stands in its key, since a rule has no part that can change. Names may hold anything, so they are
/// written as JSON.
fn acl_key(org: OrgId, acl: &Acl) -> String {
    let Acl { resource, principal, host, operation, permission } = acl;
    let parts = [
        resource.kind.name(),
        resource.pattern.name(),
        &resource.name,
        principal,
        host,
        operation.name(),
        permission.name(),
    ];
    format!("{ACL}{org}/{}", String::from_utf8_lossy(&json(&parts)))
}

fn acl_of_key(text: &str) -> Option<Acl> {
    let parts: [String; 7] = serde_json::from_str(text).ok()?;
    let [kind, pattern, name, principal, host, operation, permission] = parts;
    let resource = Resource {
        kind: *ResourceType::ALL.iter().find(|known| known.name() == kind)?,
        pattern: *PatternType::ALL.iter().find(|known| known.name() == pattern)?,
        name,
    };
    let operation = *Operation::ALL.iter().find(|known| known.name() == operation)?;
    let permission = *Permission::ALL.iter().find(|known| known.name() == permission)?;
    Some(Acl { resource, principal, host, operation, permission })
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts, numbers and maps with text keys are always JSON")
}

fn parse<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, RecordError> {
    serde_json::from_slice(value)
        .map_err(|error| RecordError::Value { key: key.to_owned(), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: TopicId = TopicId::from_u128(0x0199_7a5d_3c1e_8f00_1234_5678_9abc_def0);

    fn acl() -> Acl {
        Acl {
            resource: Resource {
                kind: ResourceType::Topic,
                name: "a/\"b".to_owned(),
                pattern: PatternType::Prefixed,
            },
            principal: "User:alice".to_owned(),
            host: "*".to_owned(),
            operation: Operation::Read,
            permission: Permission::Allow,
        }
    }

    fn every_kind() -> Vec<Record> {
        let configs = BTreeMap::from([("retention.ms".to_owned(), "5".to_owned())]);
        vec![
            Record::Topic(Topic {
                id: ID,
                org: OrgId::DEFAULT,
                name: "orders".to_owned(),
                partitions: 3,
                configs: configs.clone(),
                created_ms: 1_763_000_000_000,
            }),
            Record::TopicDeleted(ID),
            Record::ProducerIds { next: 1000 },
            Record::Cluster { id: "a29ob3J0LXBlZXItMDAwMQ".to_owned() },
            Record::BrokerConfigs(BrokerConfigs { all: configs.clone(), own: BTreeMap::new() }),
            Record::GroupConfigs(GroupConfigs { org: OrgId::DEFAULT, group: "a/b c".to_owned(), configs }),
            Record::GroupConfigs(GroupConfigs {
                org: OrgId::DEFAULT,
                group: String::new(),
                configs: BTreeMap::new(),
            }),
            Record::Org(Org {
                id: OrgId::DEFAULT,
                name: "default".to_owned(),
                limits: OrgLimits { topics: Some(3), ..OrgLimits::default() },
                created_ms: 7,
            }),
            Record::OrgDeleted(OrgId::DEFAULT),
            Record::User(User {
                org: OrgId::DEFAULT,
                name: "alice@x.example".to_owned(),
                credentials: BTreeMap::from([(
                    ScramMechanism::Sha256,
                    ScramCredential {
                        salt: vec![1, 0xab],
                        iterations: 4096,
                        stored_key: vec![2],
                        server_key: vec![3],
                    },
                )]),
                created_ms: 7,
            }),
            Record::UserDeleted { org: OrgId::DEFAULT, name: "alice".to_owned() },
            Record::Acl { org: OrgId::DEFAULT, acl: acl() },
            Record::AclDeleted { org: OrgId::DEFAULT, acl: acl() },
            Record::Gateway(Gateway { endpoint_id: "ab".repeat(32), is_allowed: true, node_id: 2 }),
            Record::DecoySecret { secret: vec![9; 4] },
        ]
    }

    #[test]
    fn what_is_encoded_is_decoded_again() {
        for record in every_kind() {
            let (key, value) = record.encode();
            assert_eq!(Record::decode(&key, value.as_deref()), Ok(record));
        }
    }

    #[test]
    fn records_on_disk_are_text_that_stays_the_same() {
        let lines: Vec<String> = every_kind()
            .iter()
            .map(|record| {
                let (key, value) = record.encode();
                let value =
                    value.map_or("-".to_owned(), |value| String::from_utf8(value).expect("JSON is text"));
                format!("{} {value}", String::from_utf8(key).expect("keys are text"))
            })
            .collect();
        assert_eq!(
            lines,
            [
                "topic/top_01k5x5tf0yhw014d2pf2dbsqqg {\"id\":\"top_01k5x5tf0yhw014d2pf2dbsqqg\",\
                 \"org\":\"org_01jg0000008008000000000001\",\"name\":\"orders\",\"partitions\":3,\
                 \"configs\":{\"retention.ms\":\"5\"},\"created_ms\":1763000000000}",
                "topic/top_01k5x5tf0yhw014d2pf2dbsqqg -",
                "producer-ids {\"next\":1000}",
                "cluster {\"id\":\"a29ob3J0LXBlZXItMDAwMQ\"}",
                "broker-configs {\"all\":{\"retention.ms\":\"5\"},\"own\":{}}",
                "group-configs/org_01jg0000008008000000000001/a/b c {\"retention.ms\":\"5\"}",
                "group-configs/org_01jg0000008008000000000001/ -",
                "org/org_01jg0000008008000000000001 {\"id\":\"org_01jg0000008008000000000001\",\
                 \"name\":\"default\",\"limits\":{\"max.topics\":3},\"created_ms\":7}",
                "org/org_01jg0000008008000000000001 -",
                "user/org_01jg0000008008000000000001/alice@x.example {\"credentials\":{\"SCRAM-SHA-256\":\
                 {\"salt\":\"01ab\",\"iterations\":4096,\"stored_key\":\"02\",\"server_key\":\"03\"}},\
                 \"created_ms\":7}",
                "user/org_01jg0000008008000000000001/alice -",
                "acl/org_01jg0000008008000000000001/[\"TOPIC\",\"PREFIXED\",\"a/\\\"b\",\"User:alice\",\"*\",\
                 \"READ\",\"ALLOW\"] {}",
                "acl/org_01jg0000008008000000000001/[\"TOPIC\",\"PREFIXED\",\"a/\\\"b\",\"User:alice\",\"*\",\
                 \"READ\",\"ALLOW\"] -",
                "gateway/abababababababababababababababababababababababababababababababab \
                 {\"is_allowed\":true,\"node_id\":2}",
                "decoy-secret {\"secret\":\"09090909\"}",
            ]
        );
    }

    #[test]
    fn a_key_of_a_newer_version_is_an_error_that_says_so() {
        for key in [
            "group/cgp_1",
            "group-configs/",
            "group-configs/org_1/g",
            "topic/orders",
            "topic/top_",
            "",
            "clusters",
            "org/acme",
            "user/alice",
            "acl/org_01jg0000008008000000000001/[]",
            "acl/org_01jg0000008008000000000001/[\"SECRET\",\"LITERAL\",\"a\",\"b\",\"*\",\"READ\",\"ALLOW\"]",
        ] {
            let error = Record::decode(key.as_bytes(), Some(b"{}")).expect_err("no such key");
            assert!(error.to_string().contains("a newer one may have written it"), "{error}");
        }
        assert!(Record::decode(&[0xff], None).is_err());
    }

    #[test]
    fn a_value_that_does_not_fit_its_key_is_an_error() {
        let (key, _) = Record::TopicDeleted(ID).encode();
        let other = Record::Topic(Topic {
            id: TopicId::KOHORT,
            org: OrgId::DEFAULT,
            name: "x".to_owned(),
            partitions: 1,
            configs: BTreeMap::new(),
            created_ms: 0,
        });
        for value in [Some(&b"{"[..]), Some(b"{}"), other.encode().1.as_deref()] {
            assert!(matches!(Record::decode(&key, value), Err(RecordError::Value { .. })));
        }
        assert!(Record::decode(b"cluster", None).is_err());
    }
}
