//! From a reply to the bytes that the client's version expects.

use bytes::BytesMut;
use coordination::reply::Reply;

use crate::addresses::Addresses;
use crate::api::*;
use crate::exchange::begin_response;
use crate::message::Message;
use crate::request::{Head, Local};
use crate::table::ApiKey;
use crate::writer::{Frame, Writer};

/// Writes the broker's reply in the version that the client spoke.
///
/// # Panics
///
/// If the reply belongs to another op than the one that [`decode_request`](crate::decode_request) made.
pub fn encode_reply(head: &Head, reply: Reply, addresses: &Addresses) -> Frame {
    let mut writer = Writer::frame();
    write_reply(&mut writer, head, reply, addresses);
    writer.finish()
}

/// Writes the broker's reply as [`encode_reply`] does, but behind `tail`, and returns an empty frame; only one that
/// shares large pieces, such as fetched records, is returned and `tail` left as it was.
///
/// Thousands of small answers so take no memory of their own.
///
/// # Panics
///
/// As [`encode_reply`].
pub fn encode_reply_onto(tail: &mut BytesMut, head: &Head, reply: Reply, addresses: &Addresses) -> Frame {
    let mut writer = Writer::frame_behind(std::mem::take(tail));
    write_reply(&mut writer, head, reply, addresses);
    let (before, frame) = writer.finish_behind();
    *tail = before;
    frame
}

#[inline]
fn write_reply(writer: &mut Writer, head: &Head, reply: Reply, addresses: &Addresses) {
    let Head { version, asked, .. } = *head;
    match (head.api, reply) {
        (ApiKey::Produce, Reply::Produce(reply)) => respond(writer, head, &produce::response(reply)),
        (ApiKey::Fetch, Reply::Fetch(reply)) => {
            respond(writer, head, &fetch::response(reply, version, asked, addresses));
        }
        (ApiKey::ListOffsets, Reply::ListOffsets(reply)) => {
            respond(writer, head, &list_offsets::response(reply));
        }
        (ApiKey::Metadata, Reply::Metadata(reply)) => {
            respond(writer, head, &metadata::response(reply, asked, addresses));
        }
        (ApiKey::OffsetCommit, Reply::OffsetCommit(reply)) => {
            respond(writer, head, &offset_commit::response(reply));
        }
        (ApiKey::OffsetFetch, Reply::OffsetFetch(reply)) => {
            respond(writer, head, &offset_fetch::response(reply, version));
        }
        (ApiKey::FindCoordinator, Reply::FindCoordinator(reply)) => {
            respond(writer, head, &find_coordinator::response(reply, version, addresses));
        }
        (ApiKey::JoinGroup, Reply::JoinGroup(reply)) => respond(writer, head, &join_group::response(reply)),
        (ApiKey::Heartbeat, Reply::Heartbeat(reply)) => respond(writer, head, &heartbeat::response(reply)),
        (ApiKey::LeaveGroup, Reply::LeaveGroup(reply)) => {
            respond(writer, head, &leave_group::response(reply, version));
        }
        (ApiKey::SyncGroup, Reply::SyncGroup(reply)) => respond(writer, head, &sync_group::response(reply)),
        (ApiKey::DescribeGroups, Reply::DescribeGroups(reply)) => {
            respond(writer, head, &describe_groups::response(reply, version, asked));
        }
        (ApiKey::ListGroups, Reply::ListGroups(reply)) => {
            respond(writer, head, &list_groups::response(reply));
        }
        (ApiKey::CreateTopics, Reply::CreateTopics(reply)) => {
            respond(writer, head, &create_topics::response(reply));
        }
        (ApiKey::DeleteTopics, Reply::DeleteTopics(reply)) => {
            respond(writer, head, &delete_topics::response(reply, version));
        }
        (ApiKey::DeleteRecords, Reply::DeleteRecords(reply)) => {
            respond(writer, head, &delete_records::response(reply));
        }
        (ApiKey::InitProducerId, Reply::InitProducerId(reply)) => {
            respond(writer, head, &init_producer_id::response(&reply));
        }
        (ApiKey::OffsetForLeaderEpoch, Reply::OffsetForLeaderEpoch(reply)) => {
            respond(writer, head, &offset_for_leader_epoch::response(reply));
        }
        (ApiKey::DescribeAcls, Reply::DescribeAcls(reply)) => {
            respond(writer, head, &describe_acls::response(reply));
        }
        (ApiKey::CreateAcls, Reply::CreateAcls(reply)) => {
            respond(writer, head, &create_acls::response(reply));
        }
        (ApiKey::DeleteAcls, Reply::DeleteAcls(reply)) => {
            respond(writer, head, &delete_acls::response(reply));
        }
        (ApiKey::DescribeConfigs, Reply::DescribeConfigs(reply)) => {
            respond(writer, head, &describe_configs::response(reply));
        }
        (ApiKey::AlterConfigs, Reply::AlterConfigs(reply)) => {
            respond(writer, head, &alter_configs::response(reply));
        }
        (ApiKey::DescribeLogDirs, Reply::DescribeLogDirs(reply)) => {
            respond(writer, head, &describe_log_dirs::response(reply));
        }
        (ApiKey::CreatePartitions, Reply::CreatePartitions(reply)) => {
            respond(writer, head, &create_partitions::response(reply));
        }
        (ApiKey::DeleteGroups, Reply::DeleteGroups(reply)) => {
            respond(writer, head, &delete_groups::response(reply));
        }
        (ApiKey::IncrementalAlterConfigs, Reply::AlterConfigs(reply)) => {
            respond(writer, head, &incremental_alter_configs::response(reply));
        }
        (ApiKey::ListPartitionReassignments, Reply::ListPartitionReassignments(reply)) => {
            respond(writer, head, &list_partition_reassignments::response(&reply));
        }
        (ApiKey::OffsetDelete, Reply::OffsetDelete(reply)) => {
            respond(writer, head, &offset_delete::response(reply));
        }
        (ApiKey::DescribeClientQuotas, Reply::DescribeClientQuotas(reply)) => {
            respond(writer, head, &describe_client_quotas::response(reply));
        }
        (ApiKey::DescribeUserScramCredentials, Reply::DescribeUserScramCredentials(reply)) => {
            respond(writer, head, &describe_user_scram_credentials::response(reply));
        }
        (ApiKey::AlterUserScramCredentials, Reply::AlterUserScramCredentials(reply)) => {
            respond(writer, head, &alter_user_scram_credentials::response(reply));
        }
        (ApiKey::DescribeCluster, Reply::DescribeCluster(reply)) => {
            respond(writer, head, &describe_cluster::response(reply, asked, addresses));
        }
        (ApiKey::DescribeTopicPartitions, Reply::DescribeTopicPartitions(reply)) => {
            respond(writer, head, &describe_topic_partitions::response(reply, addresses));
        }
        (api, reply) => panic!("{} is not answered with {reply:?}", api.name()),
    }
}

/// Answers a request that needs no state.
pub fn answer(head: &Head, request: Local) -> Frame {
    let mut writer = Writer::frame();
    match request {
        Local::ApiVersions(request) => {
            respond(&mut writer, head, &api_versions::response(&request, head.version));
        }
        Local::UnsupportedApiVersions => {
            // In version 0, which every client can read.
            begin_response(&mut writer, head.api, 0, head.correlation_id);
            api_versions::unsupported().encode(&mut writer, 0);
        }
        Local::FindCoordinator(request) => {
            respond(&mut writer, head, &find_coordinator::refused(request, head.version));
        }
        Local::Refused(response) => {
            begin_response(&mut writer, head.api, head.version, head.correlation_id);
            response.encode(&mut writer, head.version);
        }
    }
    writer.finish()
}

#[inline]
pub(crate) fn respond<M: Message>(writer: &mut Writer, head: &Head, response: &M) {
    begin_response(writer, head.api, head.version, head.correlation_id);
    response.encode(writer, head.version);
}
