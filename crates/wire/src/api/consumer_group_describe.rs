//! ConsumerGroupDescribe (69): shows groups of the newer protocol (KIP-848) with their members.
//!
//! Asked of other brokers only.

use crate::field::Uuid;
use crate::message::message;

message! {
    /// Groups to show.
    pub struct ConsumerGroupDescribeRequest {
        group_ids: Vec<String> [0+],
        include_authorized_operations: bool [0+],
    }

    /// Groups with their members.
    pub struct ConsumerGroupDescribeResponse {
        throttle_time_ms: i32 [0+],
        groups: Vec<DescribedGroup> [0+],
    }

    /// One group.
    pub struct DescribedGroup {
        error_code: i16 [0+],
        error_message: Option<String> [0+, null 0+],
        group_id: String [0+],
        group_state: String [0+],
        group_epoch: i32 [0+],
        assignment_epoch: i32 [0+],
        assignor_name: String [0+],
        members: Vec<Member> [0+],
        authorized_operations: i32 [0+] = i32::MIN,
    }

    /// One member.
    pub struct Member {
        member_id: String [0+],
        instance_id: Option<String> [0+, null 0+],
        rack_id: Option<String> [0+, null 0+],
        member_epoch: i32 [0+],
        client_id: String [0+],
        client_host: String [0+],
        subscribed_topic_names: Vec<String> [0+],
        subscribed_topic_regex: Option<String> [0+, null 0+],
        assignment: Assignment [0+],
        target_assignment: Assignment [0+],
        member_type: i8 [1+] = -1,
    }

    /// What a member has, or is to have.
    pub struct Assignment {
        topic_partitions: Vec<TopicPartitions> [0+],
    }

    /// Partitions of one topic.
    pub struct TopicPartitions {
        topic_id: Uuid [0+],
        topic_name: String [0+],
        partitions: Vec<i32> [0+],
    }
}
