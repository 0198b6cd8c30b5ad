//! What a consumer may say of itself and an operator of a topic, before it is written.

use crate::limits::{
    HOLDS_MAX, LABEL_LENGTH_MAX, LABELS_MAX, RACK_LENGTH_MAX, TOPICS_PER_CONSUMER_MAX, VALUE_BYTES_MAX,
    WEIGHT_MAX,
};

use super::value::{Consumer, Topic, encoded_length};

/// Something that is more than may be written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BoundError {
    /// A number is out of its bounds.
    #[error("{what} is {given}; it must be from 1 to {max}")]
    Number {
        /// What it is the number of.
        what: &'static str,
        /// What was given.
        given: u32,
        /// The greatest that is allowed.
        max: u32,
    },
    /// There are too many of something.
    #[error("there are {given} {what}; at most {max} are allowed")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many were given.
        given: usize,
        /// How many are allowed.
        max: usize,
    },
    /// A text is too long, or empty.
    #[error("{what} has {given} bytes; it must have from 1 to {max}")]
    Length {
        /// What the text is.
        what: &'static str,
        /// Its length in bytes.
        given: usize,
        /// The greatest length.
        max: usize,
    },
    /// A partition is named that the topic does not have.
    #[error("there is no partition {partition}; the topic has {partitions}")]
    NoPartition {
        /// The number that was given.
        partition: u32,
        /// How many partitions there are.
        partitions: u32,
    },
}

/// Whether a consumer may register with all that it says of itself.
///
/// # Errors
/// Says what is too much. It is meant for the client to read.
pub fn check_consumer(consumer: &Consumer) -> Result<(), BoundError> {
    number("the capacity", consumer.capacity)?;
    count("topics", consumer.topics.len(), TOPICS_PER_CONSUMER_MAX)?;
    count("labels", consumer.labels.len(), LABELS_MAX)?;
    for (name, value) in &consumer.labels {
        length("the name of a label", name.len(), LABEL_LENGTH_MAX)?;
        // A label may be nothing but its name.
        length("a label", value.len().max(1), LABEL_LENGTH_MAX)?;
    }
    if let Some(rack) = &consumer.rack {
        length("the rack", rack.len(), RACK_LENGTH_MAX)?;
    }
    count("partitions that it holds", consumer.holds.len(), HOLDS_MAX)?;
    length("what the consumer says of itself", encoded_length(consumer), VALUE_BYTES_MAX)
}

/// Whether a topic may be written with its weights and racks.
///
/// # Errors
/// Says what is too much. It is meant for the operator to read.
pub fn check_topic(topic: &Topic) -> Result<(), BoundError> {
    number("the weight", topic.weight)?;
    let partitions = topic.partitions;
    for partition in topic.weights.keys().chain(topic.racks.keys()).copied() {
        if !topic.partition_numbers().contains(&partition) {
            return Err(BoundError::NoPartition { partition, partitions });
        }
    }
    for weight in topic.weights.values() {
        number("the weight of a partition", *weight)?;
    }
    for rack in topic.racks.values() {
        length("the rack of a partition", rack.len(), RACK_LENGTH_MAX)?;
    }
    length("what is said of the topic", encoded_length(topic), VALUE_BYTES_MAX)
}

fn number(what: &'static str, given: u32) -> Result<(), BoundError> {
    let is_within = (1..=WEIGHT_MAX).contains(&given);
    if is_within { Ok(()) } else { Err(BoundError::Number { what, given, max: WEIGHT_MAX }) }
}

fn count(what: &'static str, given: usize, max: usize) -> Result<(), BoundError> {
    if given <= max { Ok(()) } else { Err(BoundError::Count { what, given, max }) }
}

fn length(what: &'static str, given: usize, max: usize) -> Result<(), BoundError> {
    if (1..=max).contains(&given) { Ok(()) } else { Err(BoundError::Length { what, given, max }) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::handoff::{SessionId, TopicPartition};

    fn refused(change: impl FnOnce(&mut Consumer)) -> String {
        let mut consumer = Consumer::new(SessionId::from_u128(1), 5);
        assert_eq!(check_consumer(&consumer), Ok(()));
        change(&mut consumer);
        check_consumer(&consumer).unwrap_err().to_string()
    }

    #[test]
    fn a_consumer_that_says_too_much_is_told_what() {
        assert_eq!(refused(|it| it.capacity = 0), "the capacity is 0; it must be from 1 to 10000");
        assert_eq!(refused(|it| it.capacity = 10_001), "the capacity is 10001; it must be from 1 to 10000");
        assert_eq!(
            refused(|it| it.rack = Some(String::new())),
            "the rack has 0 bytes; it must have from 1 to 249"
        );
        let many = |count: usize| (0..count).map(|number| (format!("l{number}"), String::new()));
        assert_eq!(
            refused(|it| it.labels = many(65).collect()),
            "there are 65 labels; at most 64 are allowed"
        );
        assert_eq!(
            refused(|it| it.labels = BTreeMap::from([("l".to_owned(), "x".repeat(1_025))])),
            "a label has 1025 bytes; it must have from 1 to 1024"
        );
        let topic = |number: usize| format!("t{number}").parse().unwrap();
        assert_eq!(
            refused(|it| it.topics = (0..1_001).map(topic).collect()),
            "there are 1001 topics; at most 1000 are allowed"
        );
        let hold = |partition| TopicPartition { topic: "t".parse().unwrap(), partition };
        assert_eq!(
            refused(|it| it.holds = (0..10_001).map(hold).collect()),
            "there are 10001 partitions that it holds; at most 10000 are allowed"
        );
        let hold = |partition| TopicPartition { topic: "t".repeat(249).parse().unwrap(), partition };
        let all = refused(|it| it.holds = (0..10_000).map(hold).collect());
        assert!(all.starts_with("what the consumer says of itself has 27"), "{all}");
    }

    #[test]
    fn a_topic_has_weights_and_racks_of_its_partitions_only() {
        let topic = Topic { weights: BTreeMap::from([(3, 9)]), ..Topic::new(4) };
        assert_eq!(check_topic(&topic), Ok(()));
        let refused = |topic: Topic| check_topic(&topic).unwrap_err().to_string();
        let weights = BTreeMap::from([(4, 9)]);
        assert_eq!(refused(Topic { weights, ..topic.clone() }), "there is no partition 4; the topic has 4");
        let weights = BTreeMap::from([(3, 0)]);
        assert_eq!(
            refused(Topic { weights, ..topic.clone() }),
            "the weight of a partition is 0; it must be from 1 to 10000"
        );
        assert_eq!(
            refused(Topic { weight: 20_000, ..topic.clone() }),
            "the weight is 20000; it must be from 1 to 10000"
        );
        let racks = BTreeMap::from([(0, "r".repeat(250))]);
        assert_eq!(
            refused(Topic { racks, ..topic }),
            "the rack of a partition has 250 bytes; it must have from 1 to 249"
        );
    }
}
