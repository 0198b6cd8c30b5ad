//! DescribeLogDirs.

use std::collections::BTreeMap;
use std::path::Path;

use coordination::ids::{OrgId, PartitionKey};
use coordination::op;
use coordination::reply::{self, LogDir, Reply};
use rail::Answer;

use super::Admin;

impl Admin {
    /// How much disk the organisation's partitions take.
    pub fn describe_log_dirs(&self, org: OrgId, op: &op::DescribeLogDirs) -> Answer {
        let keys = self.look(|catalog| match &op.topics {
            None => catalog
                .topics_of(org)
                .map(|topic| (topic.name.clone(), keys(topic.id, 0..topic.partitions)))
                .collect::<BTreeMap<_, _>>(),
            Some(asked) => {
                let mut wanted: BTreeMap<String, Vec<PartitionKey>> = BTreeMap::new();
                for (name, partitions) in asked {
                    let Some(topic) = catalog.topic_named(org, name) else { continue };
                    let partitions = partitions.iter().filter_map(|partition| u32::try_from(*partition).ok());
                    let there = partitions.filter(|partition| *partition < topic.partitions);
                    wanted.entry(name.clone()).or_default().extend(keys(topic.id, there));
                }
                wanted
            }
        });
        let sized = |(name, mut keys): (String, Vec<PartitionKey>)| {
            keys.sort_unstable();
            keys.dedup();
            let size = |key: PartitionKey| {
                let bytes = self.store.partition(key).size_bytes();
                (i32::try_from(key.partition).unwrap_or(i32::MAX), i64::try_from(bytes).unwrap_or(i64::MAX))
            };
            (name, keys.into_iter().map(size).collect::<Vec<_>>())
        };
        let topics = keys.into_iter().map(sized).filter(|(_, partitions)| !partitions.is_empty()).collect();
        let (path, (total_bytes, usable_bytes)) = if org == OrgId::DEFAULT {
            let dir = self.store.dir();
            let path = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
            (path.display().to_string(), space(dir))
        } else {
            // Where the broker keeps its files and how much others have in them is nothing to those who share it.
            (format!("/{org}"), (-1, -1))
        };
        let log_dir = LogDir { path, total_bytes, usable_bytes, topics };
        Reply::DescribeLogDirs(reply::DescribeLogDirs { result: Ok(log_dir.into()) }).into()
    }
}

fn keys(topic: coordination::ids::TopicId, partitions: impl IntoIterator<Item = u32>) -> Vec<PartitionKey> {
    partitions.into_iter().map(|partition| PartitionKey { topic, partition }).collect()
}

/// The size of the file system and what is left of it; -1 each where it cannot be known.
fn space(dir: &Path) -> (i64, i64) {
    let Ok(stat) = rustix::fs::statvfs(dir) else { return (-1, -1) };
    let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(stat.f_frsize)).unwrap_or(i64::MAX);
    (bytes(stat.f_blocks), bytes(stat.f_bavail))
}
