//! A partition as this library names it.

use std::fmt;
use std::sync::Arc;

use crate::proto;

/// One partition of one topic, cheap to copy.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition's number within the topic, from 0.
    pub number: u32,
}

impl Partition {
    /// A partition of a topic.
    pub fn new(topic: &str, number: u32) -> Self {
        Self { topic: Arc::from(topic), number }
    }

    pub(crate) fn decode(sent: &proto::TopicPartition) -> Self {
        Self::new(&sent.topic, sent.partition)
    }

    pub(crate) fn encode(&self) -> proto::TopicPartition {
        proto::TopicPartition { topic: self.topic.to_string(), partition: self.number }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.number)
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
