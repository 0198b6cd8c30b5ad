//! What consumers, groups, topics, partitions and handoffs are called.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ulid::Ulid;

use crate::ids::{IdError, prefixed_id};
use crate::limits::TOPIC_NAME_MAX;

prefixed_id! {
    /// One handoff. Acknowledgements carry it, so that one that comes late cannot be taken for another's.
    HandoffId, "hnd"
}

prefixed_id! {
    /// One process that has registered under a consumer's name. The one that registered last is the consumer; whoever
    /// shows another id has been fenced.
    SessionId, "ses"
}

impl SessionId {
    /// What clients of the original contract are known by, who have no sessions: one that comes back is the same, and
    /// two under one name cannot be told apart.
    pub const NIL: Self = Self::from_u128(0);
}

/// A text that was checked as Kafka checks the name of a topic, cheap to copy.
macro_rules! checked_name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                match $check(text) {
                    Ok(()) => Ok(Self(Arc::from(text))),
                    // A name of any length may be sent; what is shown of it stays short.
                    Err(reason) => {
                        let text = text.chars().take(TOPIC_NAME_MAX).collect();
                        Err(NameError { what: $what, text, reason })
                    }
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

checked_name! {
    /// A consumer's name within its group.
    ConsumerName, "consumer", check
}

checked_name! {
    /// A topic's name.
    TopicName, "topic", check
}

checked_name! {
    /// A group's name. The words that begin the keys of a group without a name are none.
    GroupName, "group", check_group
}

/// A text that cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("`{text}` is no name of a {what}: {reason}")]
pub struct NameError {
    /// What it was to be the name of.
    pub what: &'static str,
    /// What was given, cut where it is too long.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// The words with which keys begin that belong to no named group.
pub(super) const RESERVED: [&str; 5] = ["consumers", "assignments", "handoffs", "config", "assigner"];

fn check(text: &str) -> Result<(), &'static str> {
    let legal = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    if text.is_empty() {
        Err("it is empty")
    } else if text == "." || text == ".." {
        Err("dots alone are not allowed")
    } else if !text.chars().all(legal) {
        Err("only ASCII letters and digits, '.', '_' and '-' are allowed")
    } else if text.len() > TOPIC_NAME_MAX {
        Err("it is longer than 249 characters")
    } else {
        Ok(())
    }
}

fn check_group(text: &str) -> Result<(), &'static str> {
    if RESERVED.contains(&text) { Err("the word is reserved") } else { check(text) }
}

/// One partition of one topic.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicName,
    /// The partition's number within the topic, from 0.
    pub partition: u32,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl fmt::Debug for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Grows whenever a partition changes its owner, so that of two who call themselves owner the later one is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of the next owner.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_kafka_does() {
        for text in ["a", "A.b_c-9", "...", &"a".repeat(249)] {
            assert!(text.parse::<ConsumerName>().is_ok(), "{text}");
        }
        for text in ["", ".", "..", "a b", "ä", "a/b", "a\n", &"a".repeat(250)] {
            assert!(text.parse::<TopicName>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_words_of_the_key_layout_name_no_group() {
        for text in RESERVED {
            assert!(text.parse::<GroupName>().is_err(), "{text}");
            assert!(text.parse::<ConsumerName>().is_ok(), "{text}");
        }
        assert!("consumers.of.orders".parse::<GroupName>().is_ok());
    }
}
