//! The APIs, one file each: request and response side by side, and what they mean to the broker.

mod acl;
pub mod alter_configs;
pub mod alter_user_scram_credentials;
pub mod api_versions;
pub mod consumer_group_describe;
pub mod create_acls;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_acls;
pub mod delete_groups;
pub mod delete_records;
pub mod delete_topics;
pub mod describe_acls;
pub mod describe_client_quotas;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_groups;
pub mod describe_log_dirs;
pub mod describe_topic_partitions;
pub mod describe_user_scram_credentials;
pub mod fetch;
pub mod find_coordinator;
pub mod heartbeat;
pub mod incremental_alter_configs;
pub mod init_producer_id;
pub mod join_group;
pub mod leave_group;
pub mod list_groups;
pub mod list_offsets;
pub mod list_partition_reassignments;
pub mod metadata;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
pub mod produce;
pub mod sasl_authenticate;
pub mod sasl_handshake;
pub mod sync_group;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use coordination::access::Operations;
use coordination::error_code::ErrorCode;
use coordination::op::TopicRef;
use coordination::reply::Refusal;

use crate::field::Uuid;

/// The topic a request is about, in a version that names it by id or one that does not.
fn topic_ref(by_id: bool, name: String, id: Uuid) -> TopicRef {
    if by_id { TopicRef::Id(id.into()) } else { TopicRef::Name(name) }
}

/// The name and the id by which an answer names a topic; the version leaves one of them out.
fn topic_named(topic: TopicRef) -> (String, Uuid) {
    match topic {
        TopicRef::Name(name) => (name, Uuid::ZERO),
        TopicRef::Id(id) => (String::new(), id.into()),
    }
}

/// A leader epoch that a client knows; -1 says that it knows none.
fn known_epoch(epoch: i32) -> Option<i32> {
    (epoch != -1).then_some(epoch)
}

/// Bytes that a group keeps for as long as it lives, moved out of the frame: they would else keep all that was read
/// with them.
fn kept(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// A partition's number, and what is wrong with it.
type PartitionOutcome = (i32, Option<ErrorCode>);

/// Answers about offsets, as Kafka gathers them: only where some partition does not exist is a topic that was named
/// twice answered once.
fn gathered_offsets<T, K: Ord + Clone>(
    mut topics: Vec<T>,
    key: fn(&T) -> &K,
    partitions: fn(&mut T) -> &mut Vec<PartitionOutcome>,
) -> Vec<T> {
    let is_missing = |(_, error): &PartitionOutcome| {
        matches!(error, Some(ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId))
    };
    if topics.iter_mut().any(|topic| partitions(topic).iter().any(is_missing)) {
        return gathered(topics, key, partitions);
    }
    topics.retain_mut(|topic| !partitions(topic).is_empty());
    topics
}

/// Answers by topic, as Kafka gathers them: a topic that was asked about twice is answered once, and one of which
/// no partition was asked about not at all.
fn gathered<T, K: Ord + Clone, P>(
    mut topics: Vec<T>,
    key: fn(&T) -> &K,
    partitions: fn(&mut T) -> &mut Vec<P>,
) -> Vec<T> {
    topics.retain_mut(|topic| !partitions(topic).is_empty());
    if topics.len() <= 1 || topics.iter().map(key).collect::<BTreeSet<_>>().len() == topics.len() {
        return topics;
    }
    let mut places: BTreeMap<K, usize> = BTreeMap::new();
    let mut gathered: Vec<T> = Vec::with_capacity(topics.len());
    for mut topic in topics {
        match places.get(key(&topic)) {
            Some(&place) => {
                let more = std::mem::take(partitions(&mut topic));
                partitions(&mut gathered[place]).extend(more);
            }
            None => {
                places.insert(key(&topic).clone(), gathered.len());
                gathered.push(topic);
            }
        }
    }
    gathered
}

/// What the user may do, each operation a bit, where that is told at all.
fn operations(operations: Operations, told: bool) -> i32 {
    if told { operations.bits() } else { i32::MIN }
}

/// A time as answers write it.
fn milliseconds(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

fn refusal_number(refusal: Option<&Refusal>) -> i16 {
    refusal.map_or(0, |refusal| refusal.code.number())
}

fn refusal_message(refusal: Option<Refusal>) -> Option<String> {
    refusal.and_then(|refusal| refusal.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_gathered_by_topic() {
        let gather = |topics: &[(&'static str, &[i32])]| {
            let topics = topics.iter().map(|(name, parts)| (*name, parts.to_vec())).collect();
            gathered(topics, |topic: &(&str, Vec<i32>)| &topic.0, |topic| &mut topic.1)
        };
        assert_eq!(gather(&[("b", &[1, 0]), ("a", &[2])]), [("b", vec![1, 0]), ("a", vec![2])]);
        assert_eq!(gather(&[("b", &[1]), ("a", &[2]), ("b", &[0])]), [("b", vec![1, 0]), ("a", vec![2])]);
        assert_eq!(gather(&[("b", &[]), ("a", &[2])]), [("a", vec![2])]);
        assert_eq!(gather(&[("b", &[])]), []);
    }
}
