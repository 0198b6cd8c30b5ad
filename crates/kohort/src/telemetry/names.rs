//! What the span of an op is called on either side of the rail.

use coordination::op::Op;

/// Both names of an op's span.
macro_rules! names {
    ($op:expr; $($variant:pat => $name:literal,)*) => {
        match $op {
            $($variant => (concat!("kohort.gateway.", $name), concat!("kohort.broker.", $name)),)*
        }
    };
}

/// What a gateway calls the span of an op.
pub(super) fn at_gateway(op: &Op) -> &'static str {
    both(op).0
}

/// What a broker calls the span of an op.
pub(super) fn at_broker(op: &Op) -> &'static str {
    both(op).1
}

fn both(op: &Op) -> (&'static str, &'static str) {
    names! { op;
        Op::Metadata(_) => "topic.metadata",
        Op::Produce(_) => "produce",
        Op::Fetch(_) => "fetch",
        Op::ListOffsets(_) => "topic.list-offsets",
        Op::OffsetForLeaderEpoch(_) => "topic.offset-for-leader-epoch",
        Op::CreateTopics(_) => "topic.create",
        Op::DeleteTopics(_) => "topic.delete",
        Op::CreatePartitions(_) => "topic.create-partitions",
        Op::DeleteRecords(_) => "topic.delete-records",
        Op::InitProducerId(_) => "producer.init",
        Op::DescribeConfigs(_) => "config.describe",
        Op::AlterConfigs(_) => "config.alter",
        Op::DescribeTopicPartitions(_) => "topic.describe",
        Op::DescribeLogDirs(_) => "topic.describe-log-dirs",
        Op::ListPartitionReassignments(_) => "topic.list-reassignments",
        Op::DescribeCluster(_) => "cluster.describe",
        Op::JoinGroup(_) => "group.join",
        Op::SyncGroup(_) => "group.sync",
        Op::Heartbeat(_) => "group.heartbeat",
        Op::LeaveGroup(_) => "group.leave",
        Op::OffsetCommit(_) => "group.offset-commit",
        Op::OffsetFetch(_) => "group.offset-fetch",
        Op::OffsetDelete(_) => "group.offset-delete",
        Op::ListGroups(_) => "group.list",
        Op::DescribeGroups(_) => "group.describe",
        Op::DeleteGroups(_) => "group.delete",
        Op::FindCoordinator(_) => "kafka.find-coordinator",
        Op::Credentials(_) => "user.credentials",
        Op::Enter => "client.enter",
        Op::CreateAcls(_) => "acl.create",
        Op::DescribeAcls(_) => "acl.describe",
        Op::DeleteAcls(_) => "acl.delete",
        Op::DescribeClientQuotas(_) => "quota.describe",
        Op::DescribeUserScramCredentials(_) => "user.describe",
        Op::AlterUserScramCredentials(_) => "user.alter",
    }
}
