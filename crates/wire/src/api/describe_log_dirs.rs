//! DescribeLogDirs (35): how much disk partitions take.

use coordination::op::{self, Op};
use coordination::reply;

use crate::message::message;

message! {
    /// Partitions whose disk use is asked for; null asks for all.
    pub struct DescribeLogDirsRequest {
        topics: Option<Vec<DescribableLogDirTopic>> [0+, null 0+],
    }

    /// Partitions of one topic.
    pub struct DescribableLogDirTopic {
        topic: String [0+],
        partitions: Vec<i32> [0+],
    }

    /// How much disk partitions take.
    pub struct DescribeLogDirsResponse {
        throttle_time_ms: i32 [0+],
        error_code: i16 [3+],
        results: Vec<DescribeLogDirsResult> [0+],
    }

    /// One directory.
    pub struct DescribeLogDirsResult {
        error_code: i16 [0+],
        log_dir: String [0+],
        topics: Vec<DescribeLogDirsTopic> [0+],
        total_bytes: i64 [4+] = -1,
        usable_bytes: i64 [4+] = -1,
        is_cordoned: bool [5+],
    }

    /// One topic in a directory.
    pub struct DescribeLogDirsTopic {
        name: String [0+],
        partitions: Vec<DescribeLogDirsPartition> [0+],
    }

    /// One partition in a directory.
    pub struct DescribeLogDirsPartition {
        partition_index: i32 [0+],
        partition_size: i64 [0+],
        offset_lag: i64 [0+],
        is_future_key: bool [0+],
    }
}

impl DescribeLogDirsRequest {
    pub(crate) fn into_op(self) -> Op {
        let topics = self
            .topics
            .map(|topics| topics.into_iter().map(|topic| (topic.topic, topic.partitions)).collect());
        Op::DescribeLogDirs(op::DescribeLogDirs { topics })
    }
}

pub(crate) fn response(reply: reply::DescribeLogDirs) -> DescribeLogDirsResponse {
    match reply.result {
        Ok(dir) => {
            DescribeLogDirsResponse { results: vec![directory(*dir)], ..DescribeLogDirsResponse::default() }
        }
        Err(error) => {
            DescribeLogDirsResponse { error_code: error.number(), ..DescribeLogDirsResponse::default() }
        }
    }
}

fn directory(dir: reply::LogDir) -> DescribeLogDirsResult {
    let partition = |(partition_index, partition_size): (i32, i64)| DescribeLogDirsPartition {
        partition_index,
        partition_size,
        offset_lag: 0,
        is_future_key: false,
    };
    let topic = |(name, partitions): (String, Vec<(i32, i64)>)| DescribeLogDirsTopic {
        name,
        partitions: partitions.into_iter().map(partition).collect(),
    };
    DescribeLogDirsResult {
        error_code: 0,
        log_dir: dir.path,
        topics: dir.topics.into_iter().map(topic).collect(),
        total_bytes: dir.total_bytes,
        usable_bytes: dir.usable_bytes,
        is_cordoned: false,
    }
}
