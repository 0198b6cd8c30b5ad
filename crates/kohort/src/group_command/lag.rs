//! How far a group is behind, from what it has committed, what its members own and where the partitions end.

use std::collections::BTreeMap;

use client::{CommittedOffset, GroupDescription, GroupMember, TopicPartition};
use serde::Serialize;

/// A group with all partitions that it owns or has offsets of.
#[derive(Debug, Serialize)]
pub(super) struct GroupLag {
    pub(super) group: String,
    pub(super) state: String,
    /// None if there are some that cannot be shown.
    pub(super) members: Option<usize>,
    /// The sum of all that is known.
    pub(super) total_lag: i64,
    pub(super) partitions: Vec<PartitionLag>,
}

/// A partition as the group sees it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct PartitionLag {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) leader_epoch: Option<i32>,
    /// None where nothing is committed.
    pub(super) current_offset: Option<i64>,
    /// None where nobody leads the partition, or it is gone.
    pub(super) log_end_offset: Option<i64>,
    pub(super) lag: Option<i64>,
    /// Who owns it, if anybody does.
    pub(super) consumer_id: Option<String>,
    pub(super) host: Option<String>,
    pub(super) client_id: Option<String>,
}

impl GroupLag {
    /// Puts together what is known of a group; `ends` has the offset after the last of each partition.
    pub(super) fn new(
        group: &GroupDescription,
        committed: &BTreeMap<TopicPartition, CommittedOffset>,
        ends: &BTreeMap<TopicPartition, i64>,
    ) -> Self {
        let mut owners: BTreeMap<TopicPartition, Option<&GroupMember>> =
            committed.keys().map(|partition| (partition.clone(), None)).collect();
        for member in &group.members {
            for (topic, partitions) in &member.assignment {
                owners.extend(partitions.iter().map(|index| ((topic.clone(), *index), Some(member))));
            }
        }
        let partition = |(key, owner): (TopicPartition, Option<&GroupMember>)| {
            let commit = committed.get(&key);
            let current_offset = commit.map(|commit| commit.offset);
            let log_end_offset = ends.get(&key).copied();
            let (topic, partition) = key;
            PartitionLag {
                topic,
                partition,
                leader_epoch: commit.and_then(|commit| commit.leader_epoch),
                current_offset,
                log_end_offset,
                lag: current_offset.zip(log_end_offset).map(|(current, end)| end.saturating_sub(current)),
                consumer_id: owner.map(|member| member.member_id.clone()),
                host: owner.map(|member| member.host.clone()),
                client_id: owner.map(|member| member.client_id.clone()),
            }
        };
        let partitions: Vec<PartitionLag> = owners.into_iter().map(partition).collect();
        // A commit beyond the end, as after a topic was made anew, does not make up for lag elsewhere.
        let known = partitions.iter().filter_map(|partition| partition.lag);
        let total_lag = known.fold(0, |total: i64, lag| total.saturating_add(lag.max(0)));
        Self {
            group: group.group.clone(),
            state: group.state.clone(),
            members: group.member_count(),
            total_lag,
            partitions,
        }
    }

    /// How many partitions have an owner and no offset, so that their lag is not known.
    pub(super) fn without_commit(&self) -> usize {
        self.partitions.iter().filter(|partition| partition.current_offset.is_none()).count()
    }
}

#[cfg(test)]
mod tests {
    use client::Coordinator;

    use super::*;

    fn group(assignment: &[(&str, &[i32])]) -> GroupDescription {
        let member = GroupMember {
            member_id: "m-1".to_owned(),
            instance_id: None,
            client_id: "c-1".to_owned(),
            host: "/10.0.0.1".to_owned(),
            assignment: assignment
                .iter()
                .map(|(topic, partitions)| ((*topic).to_owned(), partitions.to_vec()))
                .collect(),
            progress: None,
        };
        GroupDescription {
            group: "billing".to_owned(),
            state: "Stable".to_owned(),
            protocol: "range".to_owned(),
            coordinator: Coordinator { node: 1, host: "localhost".to_owned(), port: 9092 },
            members: if assignment.is_empty() { Vec::new() } else { vec![member] },
            epochs: None,
            withheld: None,
        }
    }

    fn committed(offsets: &[(&str, i32, i64)]) -> BTreeMap<TopicPartition, CommittedOffset> {
        let one = |&(topic, partition, offset): &(&str, i32, i64)| {
            let commit = CommittedOffset { offset, leader_epoch: None, metadata: String::new() };
            ((topic.to_owned(), partition), commit)
        };
        offsets.iter().map(one).collect()
    }

    fn ends(offsets: &[(&str, i32, i64)]) -> BTreeMap<TopicPartition, i64> {
        offsets.iter().map(|&(topic, partition, end)| ((topic.to_owned(), partition), end)).collect()
    }

    fn lags(lag: &GroupLag) -> Vec<(&str, i32, Option<i64>, bool)> {
        let mut lags = Vec::new();
        for PartitionLag { topic, partition, lag, consumer_id, .. } in &lag.partitions {
            lags.push((topic.as_str(), *partition, *lag, consumer_id.is_some()));
        }
        lags
    }

    #[test]
    fn an_empty_group_has_lag_too() {
        let committed = committed(&[("orders", 1, 4), ("orders", 0, 10), ("users", 0, 2)]);
        let ends = ends(&[("orders", 0, 10), ("orders", 1, 10), ("users", 0, 14)]);
        let lag = GroupLag::new(&group(&[]), &committed, &ends);
        let expected =
            [("orders", 0, Some(0), false), ("orders", 1, Some(6), false), ("users", 0, Some(12), false)];
        assert_eq!(lags(&lag), expected);
        assert_eq!((lag.total_lag, lag.without_commit()), (18, 0));
    }

    #[test]
    fn what_is_owned_without_a_commit_is_shown_with_its_end() {
        let lag = GroupLag::new(
            &group(&[("orders", &[0, 1])]),
            &committed(&[("orders", 0, 7), ("users", 0, 1)]),
            &ends(&[("orders", 0, 9), ("orders", 1, 5)]),
        );
        let expected = [("orders", 0, Some(2), true), ("orders", 1, None, true), ("users", 0, None, false)];
        assert_eq!(lags(&lag), expected);
        assert_eq!(lag.partitions[1].log_end_offset, Some(5));
        assert_eq!((lag.total_lag, lag.without_commit()), (2, 1));
    }

    #[test]
    fn a_commit_beyond_the_end_does_not_hide_lag_elsewhere() {
        let committed = committed(&[("orders", 0, 100), ("orders", 1, 3)]);
        let lag = GroupLag::new(&group(&[]), &committed, &ends(&[("orders", 0, 10), ("orders", 1, 8)]));
        assert_eq!(lag.partitions[0].lag, Some(-90));
        assert_eq!(lag.total_lag, 5);
    }
}
