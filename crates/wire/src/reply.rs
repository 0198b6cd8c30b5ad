//! From a reply to the bytes that the client's version expects.

use coordination::reply::Reply;

use crate::api::*;
use crate::exchange::begin_response;
use crate::message::Message;
use crate::request::{Head, Local};
use crate::table::ApiKey;
use crate::writer::Frame;

/// Where clients reach this node: what an answer names as leader, controller and coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The node's id.
    pub node_id: i32,
    /// The host that clients of this listener dial.
    pub host: String,
    /// The port that clients of this listener dial.
    pub port: u16,
}

/// Writes the broker's reply in the version that the client spoke.
///
/// # Panics
///
/// If the reply belongs to another op than the one that [`decode_request`](crate::decode_request) made.
pub fn encode_reply(head: &Head, reply: Reply, addresses: &Addresses) -> Frame {
    let Head { version, asked, .. } = *head;
    match (head.api, reply) {
        (ApiKey::Produce, Reply::Produce(reply)) => respond(head, &produce::response(reply)),
        (ApiKey::Fetch, Reply::Fetch(reply)) => {
            respond(head, &fetch::response(reply, version, asked, addresses))
        }
        (ApiKey::ListOffsets, Reply::ListOffsets(reply)) => respond(head, &list_offsets::response(reply)),
        (ApiKey::Metadata, Reply::Metadata(reply)) => {
            respond(head, &metadata::response(reply, asked, addresses))
        }
        (ApiKey::CreateTopics, Reply::CreateTopics(reply)) => respond(head, &create_topics::response(reply)),
        (ApiKey::DeleteTopics, Reply::DeleteTopics(reply)) => {
            respond(head, &delete_topics::response(reply, version))
        }
        (ApiKey::DeleteRecords, Reply::DeleteRecords(reply)) => {
            respond(head, &delete_records::response(reply))
        }
        (ApiKey::InitProducerId, Reply::InitProducerId(reply)) => {
            respond(head, &init_producer_id::response(&reply))
        }
        (ApiKey::OffsetForLeaderEpoch, Reply::OffsetForLeaderEpoch(reply)) => {
            respond(head, &offset_for_leader_epoch::response(reply))
        }
        (ApiKey::DescribeConfigs, Reply::DescribeConfigs(reply)) => {
            respond(head, &describe_configs::response(reply))
        }
        (ApiKey::AlterConfigs, Reply::AlterConfigs(reply)) => respond(head, &alter_configs::response(reply)),
        (ApiKey::DescribeLogDirs, Reply::DescribeLogDirs(reply)) => {
            respond(head, &describe_log_dirs::response(reply))
        }
        (ApiKey::CreatePartitions, Reply::CreatePartitions(reply)) => {
            respond(head, &create_partitions::response(reply))
        }
        (ApiKey::IncrementalAlterConfigs, Reply::AlterConfigs(reply)) => {
            respond(head, &incremental_alter_configs::response(reply))
        }
        (ApiKey::ListPartitionReassignments, Reply::ListPartitionReassignments(reply)) => {
            respond(head, &list_partition_reassignments::response(&reply))
        }
        (ApiKey::DescribeCluster, Reply::DescribeCluster(reply)) => {
            respond(head, &describe_cluster::response(reply, asked, addresses))
        }
        (ApiKey::DescribeTopicPartitions, Reply::DescribeTopicPartitions(reply)) => {
            respond(head, &describe_topic_partitions::response(reply, addresses))
        }
        (api, reply) => panic!("{} is not answered with {reply:?}", api.name()),
    }
}

/// Answers a request that needs no state.
pub fn answer(head: &Head, request: Local, addresses: &Addresses) -> Frame {
    match request {
        Local::ApiVersions(request) => respond(head, &api_versions::response(&request, head.version)),
        Local::UnsupportedApiVersions => {
            // In version 0, which every client can read.
            let mut writer = begin_response(head.api, 0, head.correlation_id);
            api_versions::unsupported().encode(&mut writer, 0);
            writer.finish()
        }
        Local::FindCoordinator(request) => {
            respond(head, &find_coordinator::response(request, head.version, addresses))
        }
        Local::Refused(response) => {
            let mut writer = begin_response(head.api, head.version, head.correlation_id);
            response.encode(&mut writer, head.version);
            writer.finish()
        }
    }
}

#[inline]
fn respond<M: Message>(head: &Head, response: &M) -> Frame {
    let mut writer = begin_response(head.api, head.version, head.correlation_id);
    response.encode(&mut writer, head.version);
    writer.finish()
}
