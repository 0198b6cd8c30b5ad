//! Names that outlive a restart: organisations, topics and their partitions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ulid::Ulid;

/// Writes and reads an id as `<prefix>_<ULID in lower case>`, in text and in JSON alike; in formats for machines it
/// is its 16 bytes.
macro_rules! prefixed_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// The id that holds these 128 bits.
            pub const fn from_u128(bits: u128) -> Self {
                Self(bits)
            }

            /// The id's 128 bits.
            pub const fn as_u128(self) -> u128 {
                self.0
            }
        }

        impl From<Ulid> for $name {
            fn from(ulid: Ulid) -> Self {
                Self(ulid.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}"), Ulid(self.0).to_string().to_ascii_lowercase())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let ulid = text
                    .strip_prefix(concat!($prefix, "_"))
                    .ok_or_else(|| IdError { text: text.to_owned(), expected: concat!($prefix, "_<ULID>") })?;
                // A ULID has 130 bits of text for 128 of value; what decodes to another spelling is not one of ours.
                let parsed = Ulid::from_string(&ulid.to_ascii_uppercase()).map(|ulid| Self(ulid.0));
                match parsed {
                    Ok(id) if id.to_string() == text => Ok(id),
                    _ => Err(IdError { text: text.to_owned(), expected: concat!($prefix, "_<ULID>") }),
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.collect_str(self)
                } else {
                    self.0.to_be_bytes().serialize(serializer)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    let text = String::deserialize(deserializer)?;
                    text.parse().map_err(serde::de::Error::custom)
                } else {
                    <[u8; 16]>::deserialize(deserializer).map(|bytes| Self(u128::from_be_bytes(bytes)))
                }
            }
        }
    };
}

pub(crate) use prefixed_id;

prefixed_id! {
    /// An organisation: the tenant that owns topics and groups. What is stored names it by this id.
    OrgId, "org"
}

prefixed_id! {
    /// A topic, for as long as it exists: minted once, and the same 128 bits that Kafka clients see as
    /// the topic's UUID.
    TopicId, "top"
}

prefixed_id! {
    /// A consumer group, for as long as it exists: minted at its first join or commit, kept over leaves and
    /// restarts. Clients know the group by its name alone.
    GroupId, "cgp"
}

impl OrgId {
    /// The organisation of plain listeners. Its id is the same in every deployment.
    pub const DEFAULT: Self = Self(0x0194_0000_0000_4000_8000_0000_0000_0001);
}

impl TopicId {
    /// What Kafka writes where a request or an answer has no topic id.
    pub const ZERO: Self = Self(0);

    /// The internal topic `__kohort`, which holds Kohort's own records. Its id is the same in every data
    /// directory, because everything else is found through it.
    pub const KOHORT: Self = Self(0x0194_0000_0000_4000_8000_0000_0000_0002);

    /// Whether this stands for "no id".
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// One partition of one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionKey {
    /// The topic.
    pub topic: TopicId,
    /// The partition's number within the topic, from 0.
    pub partition: u32,
}

impl fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

/// A text that is not an id of the kind that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an id of the form {expected}")]
pub struct IdError {
    /// What was given.
    pub text: String,
    /// The form that was expected.
    pub expected: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_in_lower_case_and_read_back() {
        let id = TopicId::from_u128(0x0199_7a5d_3c1e_8f00_1234_5678_9abc_def0);
        let text = id.to_string();
        assert!(text.starts_with("top_01"), "{text}");
        assert_eq!(text, text.to_ascii_lowercase());
        assert_eq!(text.parse::<TopicId>(), Ok(id));
    }

    #[test]
    fn an_id_of_another_kind_or_spelling_is_refused() {
        let org = OrgId::DEFAULT.to_string();
        for text in [org.as_str(), "top_", "top_zzz", "top_8ZZZZZZZZZZZZZZZZZZZZZZZZZ", ""] {
            assert!(text.parse::<TopicId>().is_err(), "{text}");
        }
    }
}
