//! Where things lie in etcd: `{prefix}{group}/…`, or `{prefix}…` for those who name no group.

use super::names::{ConsumerName, GroupName, NameError, RESERVED, TopicName, TopicPartition};

/// What a key stands for within its group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// `consumers/{name}`: a consumer that is registered, for as long as its lease.
    Consumer(ConsumerName),
    /// `assignments/{topic}/{partition}`: who owns the partition.
    Assignment(TopicPartition),
    /// `handoffs/{topic}/{partition}`: the partition is changing its owner.
    Handoff(TopicPartition),
    /// `config/topics/{topic}`: the topic is worked on by this group.
    Topic(TopicName),
    /// `assigner/leader`: which instance writes, for as long as its lease. What it holds is the instances' own affair.
    Leader,
}

/// A key that is none of ours.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum KeyError {
    /// It lies outside of the prefix.
    #[error("`{key}` does not begin with `{prefix}`")]
    Outside {
        /// The key.
        key: String,
        /// The prefix.
        prefix: String,
    },
    /// It has a form that this version does not know.
    #[error("`{key}` is no key that this version of the assigner knows")]
    Unknown {
        /// The key.
        key: String,
    },
    /// A name in it is none.
    #[error("a key has an illegal name in it: {0}")]
    Name(#[from] NameError),
}

impl Key {
    /// The key as text.
    pub fn encode(&self, prefix: &str, group: Option<&GroupName>) -> String {
        let mut text = prefix.to_owned();
        if let Some(group) = group {
            text.push_str(group.as_str());
            text.push('/');
        }
        let rest = match self {
            Self::Consumer(name) => format!("consumers/{name}"),
            Self::Assignment(place) => format!("assignments/{}/{}", place.topic, place.partition),
            Self::Handoff(place) => format!("handoffs/{}/{}", place.topic, place.partition),
            Self::Topic(topic) => format!("config/topics/{topic}"),
            Self::Leader => "assigner/leader".to_owned(),
        };
        text.push_str(&rest);
        text
    }

    /// What a text under the prefix stands for, and in which group.
    ///
    /// # Errors
    /// When it is no key of the assigner.
    pub fn decode(prefix: &str, text: &str) -> Result<(Option<GroupName>, Self), KeyError> {
        let Some(rest) = text.strip_prefix(prefix) else {
            return Err(KeyError::Outside { key: text.to_owned(), prefix: prefix.to_owned() });
        };
        let parts: Vec<&str> = rest.splitn(5, '/').collect();
        let unknown = || KeyError::Unknown { key: text.to_owned() };
        match parts.as_slice() {
            [first, ..] if RESERVED.contains(first) => Ok((None, in_group(&parts)?.ok_or_else(unknown)?)),
            [group, rest @ ..] if !rest.is_empty() => {
                Ok((Some(group.parse()?), in_group(rest)?.ok_or_else(unknown)?))
            }
            _ => Err(unknown()),
        }
    }
}

fn in_group(parts: &[&str]) -> Result<Option<Key>, NameError> {
    Ok(match parts {
        ["consumers", name] => Some(Key::Consumer(name.parse()?)),
        ["assignments", topic, number] => partition(topic, number)?.map(Key::Assignment),
        ["handoffs", topic, number] => partition(topic, number)?.map(Key::Handoff),
        ["config", "topics", topic] => Some(Key::Topic(topic.parse()?)),
        ["assigner", "leader"] => Some(Key::Leader),
        _ => None,
    })
}

/// A partition has one key: numbers with a sign or leading zeros are not ours.
fn partition(topic: &str, number: &str) -> Result<Option<TopicPartition>, NameError> {
    let topic = topic.parse()?;
    let parsed = number.parse::<u32>().ok().filter(|parsed| parsed.to_string() == number);
    Ok(parsed.map(|partition| TopicPartition { topic, partition }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "/kafka-assigner/";

    #[test]
    fn keys_are_read_back_with_and_without_a_group() {
        let place = TopicPartition { topic: "a.b".parse().unwrap(), partition: 7 };
        let keys = [
            (Key::Consumer("consumers".parse().unwrap()), "consumers/consumers"),
            (Key::Assignment(place.clone()), "assignments/a.b/7"),
            (Key::Handoff(place), "handoffs/a.b/7"),
            (Key::Topic("a.b".parse().unwrap()), "config/topics/a.b"),
            (Key::Leader, "assigner/leader"),
        ];
        for (key, text) in keys {
            assert_eq!(key.encode(PREFIX, None), format!("{PREFIX}{text}"));
            assert_eq!(Key::decode(PREFIX, &format!("{PREFIX}{text}")), Ok((None, key.clone())));
            let group: GroupName = "orders.eu".parse().unwrap();
            let text = format!("{PREFIX}orders.eu/{text}");
            assert_eq!(key.encode(PREFIX, Some(&group)), text);
            assert_eq!(Key::decode(PREFIX, &text), Ok((Some(group), key)));
        }
    }

    #[test]
    fn other_keys_are_refused() {
        for text in [
            "/elsewhere/consumers/a",
            "/kafka-assigner/",
            "/kafka-assigner/g",
            "/kafka-assigner/consumers",
            "/kafka-assigner/consumers/a/b",
            "/kafka-assigner/consumers/a b",
            "/kafka-assigner/g/consumers/",
            "/kafka-assigner/g/handoffs/t/07",
            "/kafka-assigner/g/handoffs/t/+7",
            "/kafka-assigner/g/handoffs/t/4294967296",
            "/kafka-assigner/g/h/consumers/a",
            "/kafka-assigner/g/config/topics/t/u/v",
            "/kafka-assigner/g g/consumers/a",
        ] {
            assert!(Key::decode(PREFIX, text).is_err(), "{text}");
        }
    }
}
