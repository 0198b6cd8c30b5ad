//! What consumers put into a group's opaque fields: subscriptions and assignments.

use anyhow::{Context, Result};
use bytes::Bytes;
use coordination::group::consumer_protocol::assigned_partitions;

/// The version of both formats that we write; a newer one only adds fields behind.
const VERSION: i16 = 1;

/// The subscription of a consumer that owns nothing yet.
pub(crate) fn subscription(topic: &str) -> Bytes {
    let mut bytes = VERSION.to_be_bytes().to_vec();
    bytes.extend(1_i32.to_be_bytes());
    put_text(&mut bytes, topic);
    // No user data and no owned partitions.
    bytes.extend((-1_i32).to_be_bytes());
    bytes.extend(0_i32.to_be_bytes());
    bytes.into()
}

/// An assignment of partitions of one topic.
pub(crate) fn assignment(topic: &str, partitions: std::ops::Range<usize>) -> Bytes {
    let mut bytes = VERSION.to_be_bytes().to_vec();
    bytes.extend(1_i32.to_be_bytes());
    put_text(&mut bytes, topic);
    bytes.extend(length(partitions.len()));
    bytes.extend(partitions.flat_map(length));
    bytes.extend((-1_i32).to_be_bytes());
    bytes.into()
}

/// The partitions in an assignment, as [`assignment`] writes it; none in an empty one.
pub(crate) fn assigned(bytes: &[u8]) -> Result<Vec<i32>> {
    let topics = assigned_partitions(bytes).context("an assignment is not as it was sent")?;
    Ok(topics.into_iter().flat_map(|(_, partitions)| partitions).collect())
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).expect("topic names are short");
    bytes.extend(length.to_be_bytes());
    bytes.extend(text.as_bytes());
}

fn length(value: usize) -> [u8; 4] {
    i32::try_from(value).expect("partitions are counted in 31 bits").to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_is_read_as_it_was_written() {
        assert_eq!(assigned(&assignment("topic", 3..6)).expect("whole"), [3, 4, 5]);
        assert_eq!(assigned(&assignment("t", 0..0)).expect("whole"), Vec::<i32>::new());
        assert_eq!(assigned(&[]).expect("empty"), Vec::<i32>::new());
        let whole = assignment("topic", 0..2);
        for cut in 1..whole.len() - 4 {
            assert!(assigned(&whole[..cut]).is_err(), "{cut}");
        }
    }
}
