//! Java's hash of a string, which decides two things that clients and tools see.

/// Java's `String.hashCode`: over UTF-16 units, in 32 bits that wrap.
pub(super) fn java_hash(text: &str) -> i32 {
    let add = |hash: i32, unit: u16| hash.wrapping_mul(31).wrapping_add(i32::from(unit));
    if text.is_ascii() {
        // As good as every name, and each of its bytes is a unit.
        text.bytes().fold(0, |hash, byte| add(hash, u16::from(byte)))
    } else {
        text.encode_utf16().fold(0, add)
    }
}

/// The partition of `__consumer_offsets` that a group is kept in, where there are `partitions` of them: as Kafka
/// maps it, so that its tools find the group.
///
/// # Panics
/// When there are no partitions.
pub fn group_partition(group: &str, partitions: u32) -> u32 {
    // The smallest number has no absolute value; Kafka takes 0 for it.
    let hash = java_hash(group).checked_abs().unwrap_or(0);
    hash.unsigned_abs() % partitions
}

/// Where Java's hash map of up to twelve entries keeps a string, which is the order it goes through them in.
pub(super) fn java_bucket(text: &str) -> u32 {
    let hash = java_hash(text).cast_unsigned();
    (hash ^ (hash >> 16)) & 15
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves GATE-11.
    #[test]
    fn a_group_is_in_the_partition_that_kafka_puts_it_in() {
        for (group, of_50, of_10) in [
            ("", 0, 0),
            ("a", 47, 7),
            ("foo", 24, 4),
            ("grp", 29, 9),
            ("my-group", 12, 2),
            ("group-id", 13, 3),
            ("test-consumer-group", 31, 1),
            ("polygenelubricants", 0, 0),
            ("\u{e9}t\u{e9}", 42, 2),
            ("\u{1f980}", 2, 2),
        ] {
            assert_eq!(group_partition(group, 50), of_50, "{group}");
            assert_eq!(group_partition(group, 10), of_10, "{group}");
        }
    }
}
