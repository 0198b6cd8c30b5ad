//! Names of topics, as Kafka checks them.

use crate::error_code::ErrorCode;
use crate::limits::TOPIC_NAME_MAX;
use crate::reply::Refusal;

/// The internal topic that holds the catalog's own records. No organisation sees it or can make one of its name.
pub const TOPIC_NAME_OF_RECORDS: &str = "__kohort";

/// The internal topic in which an organisation's groups keep their members and offsets, as in Kafka.
pub const TOPIC_NAME_OF_OFFSETS: &str = "__consumer_offsets";

/// Where Kafka keeps what `__kohort` keeps. Nobody may make it in Kafka, and tools may rely on that.
const TOPIC_NAME_OF_KAFKAS_RECORDS: &str = "__cluster_metadata";

/// Whether a topic of this name belongs to the broker: clients see that and do not write to it.
pub fn is_internal(name: &str) -> bool {
    matches!(name, TOPIC_NAME_OF_OFFSETS | "__transaction_state" | "__share_group_state")
}

/// Whether no client may make a topic of this name.
pub(super) fn is_prohibited(name: &str) -> bool {
    matches!(name, TOPIC_NAME_OF_RECORDS | TOPIC_NAME_OF_KAFKAS_RECORDS)
}

/// Says why a topic cannot have this name, in Kafka's words.
///
/// # Errors
/// INVALID_TOPIC_EXCEPTION, when it cannot.
pub fn check_topic_name(name: &str) -> Result<(), Refusal> {
    let legal = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    let why = if name.is_empty() {
        "the empty string is not allowed".to_owned()
    } else if name == "." || name == ".." {
        format!("'{name}' is not allowed")
    } else if name.encode_utf16().count() > TOPIC_NAME_MAX {
        format!("the length of '{name}' is longer than the max allowed length {TOPIC_NAME_MAX}")
    } else if !name.chars().all(legal) {
        format!("'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
    } else {
        return Ok(());
    };
    Err(Refusal::new(ErrorCode::InvalidTopic, format!("Topic name is invalid: {why}")))
}

/// The name with every `.` written as `_`; `None` when it has neither.
pub(super) fn unify(name: &str) -> Option<String> {
    name.contains(['.', '_']).then(|| name.replace('.', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_kafka_does() {
        for name in ["a", "A.b_c-9", "...", &"a".repeat(249)] {
            assert_eq!(check_topic_name(name), Ok(()), "{name}");
        }
        for name in ["", ".", "..", "a b", "ä", "a/b", "a\n", &"a".repeat(250)] {
            let refusal = check_topic_name(name).expect_err("not a legal name");
            assert_eq!(refusal.code, ErrorCode::InvalidTopic, "{name}");
        }
    }
}
