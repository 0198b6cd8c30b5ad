//! A broker that answers by a script.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use coordination::error_code::ErrorCode;
use wire::api::api_versions::{ApiVersion, ApiVersionsResponse};
use wire::api::delete_groups::{DeletableGroupResult, DeleteGroupsResponse};
use wire::api::describe_groups::{DescribeGroupsResponse, DescribedGroup, DescribedGroupMember};
use wire::api::find_coordinator::{Coordinator, FindCoordinatorResponse};
use wire::api::list_groups::{ListGroupsResponse, ListedGroup};
use wire::api::list_offsets::{ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse};
use wire::api::metadata::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::api::offset_commit::{
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::api::offset_delete::{
    OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use wire::api::offset_fetch::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use wire::{AnyRequest, AnyResponse, ApiKey, decode_any_request, encode_any_response};

/// A broker with the topics `orders` (two partitions, records 0 to 9 in each) and `users` (one); `broken` goes
/// without a leader. It knows the groups that the test gives it.
#[derive(Clone, Default)]
pub(crate) struct Broker {
    pub(crate) groups: Vec<Group>,
    /// Partitions for which the answers to OffsetCommit and OffsetDelete have this code.
    pub(crate) refused: Vec<(&'static str, i32, ErrorCode)>,
    /// Partitions that every answer leaves out.
    pub(crate) left_out: Vec<(&'static str, i32)>,
    /// The highest version of ListGroups; 5 if it is not given.
    pub(crate) list_groups: Option<i16>,
}

#[derive(Clone, Default)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    /// What DescribeGroups answers instead.
    pub(crate) error: Option<ErrorCode>,
    /// Whether the broker ends the connection instead of describing it.
    pub(crate) fatal: bool,
    pub(crate) member: Option<&'static str>,
    /// The type of a group that is shown in the list and nowhere else.
    pub(crate) kind: Option<&'static str>,
    pub(crate) committed: Vec<(&'static str, i32, i64)>,
}

pub(crate) fn group(name: &'static str, committed: &[(&'static str, i32, i64)]) -> Group {
    Group { name, committed: committed.to_vec(), ..Default::default() }
}

const END: i64 = 10;

impl Broker {
    /// Serves on a free port for as long as the test runs.
    pub(crate) fn start(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let broker = Arc::new(self);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let broker = Arc::clone(&broker);
                thread::spawn(move || broker.serve(stream.unwrap()));
            }
        });
        address
    }

    /// Answers until the other side ends.
    fn serve(&self, mut stream: TcpStream) {
        let mut length = [0; 4];
        while stream.read_exact(&mut length).is_ok() {
            let mut frame = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
            stream.read_exact(&mut frame).unwrap();
            let (header, request) = decode_any_request(frame.into()).unwrap();
            if let AnyRequest::DescribeGroups(request) = &request
                && request.groups.iter().any(|name| self.group(name).is_some_and(|group| group.fatal))
            {
                return;
            }
            let answer = encode_any_response(header.version, header.correlation_id, &self.answer(request));
            stream.write_all(&answer.into_bytes()).unwrap();
        }
    }

    fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    fn tells_of(&self, topic: &str, partition: i32) -> bool {
        !self.left_out.contains(&(topic, partition))
    }

    fn refusal(&self, topic: &str, partition: i32) -> i16 {
        let mut refused = self.refused.iter();
        refused.find(|it| (it.0, it.1) == (topic, partition)).map_or(0, |it| it.2.number())
    }

    fn answer(&self, request: AnyRequest) -> AnyResponse {
        match request {
            AnyRequest::ApiVersions(_) => self.versions(),
            AnyRequest::Metadata(request) => {
                let asked = request.topics.unwrap_or_default().into_iter();
                let names = asked.map(|topic| topic.name.unwrap_or_default());
                let broker =
                    MetadataResponseBroker { node_id: 1, host: "nowhere".to_owned(), port: 1, rack: None };
                let topics = names.map(topic).collect();
                MetadataResponse { brokers: vec![broker], topics, ..Default::default() }.into()
            }
            AnyRequest::FindCoordinator(request) => {
                let coordinator = |key| Coordinator { key, node_id: 1, ..Default::default() };
                let coordinators = request.coordinator_keys.into_iter().map(coordinator).collect();
                FindCoordinatorResponse { coordinators, ..Default::default() }.into()
            }
            AnyRequest::ListGroups(_) => {
                let listed = |group: &Group| ListedGroup {
                    group_id: group.name.to_owned(),
                    group_state: if group.kind.is_some() { "Stable" } else { "Empty" }.to_owned(),
                    group_type: group.kind.unwrap_or("classic").to_owned(),
                    ..Default::default()
                };
                let groups = self.groups.iter().map(listed).collect();
                ListGroupsResponse { groups, ..Default::default() }.into()
            }
            AnyRequest::DescribeGroups(request) => {
                let groups = request.groups.into_iter().map(|name| self.described(name)).collect();
                DescribeGroupsResponse { groups, ..Default::default() }.into()
            }
            AnyRequest::DeleteGroups(request) => {
                let result = |group_id: String| DeletableGroupResult {
                    error_code: match self.group(&group_id) {
                        None => ErrorCode::GroupIdNotFound.number(),
                        Some(group) if group.member.is_some() => ErrorCode::NonEmptyGroup.number(),
                        Some(group) => group.error.map_or(0, ErrorCode::number),
                    },
                    group_id,
                };
                let results = request.groups_names.into_iter().map(result).collect();
                DeleteGroupsResponse { results, ..Default::default() }.into()
            }
            AnyRequest::OffsetFetch(request) => {
                let groups = request.groups.into_iter().map(|group| self.fetched(group.group_id)).collect();
                OffsetFetchResponse { groups, ..Default::default() }.into()
            }
            AnyRequest::ListOffsets(request) => self.listed_offsets(request),
            AnyRequest::OffsetCommit(request) => {
                let topic = |topic: wire::api::offset_commit::OffsetCommitRequestTopic| {
                    let asked = topic.partitions.iter().map(|partition| partition.partition_index);
                    let asked = asked.filter(|index| self.tells_of(&topic.name, *index));
                    let partition = |partition_index| OffsetCommitResponsePartition {
                        partition_index,
                        error_code: self.refusal(&topic.name, partition_index),
                    };
                    let partitions = asked.map(partition).collect();
                    OffsetCommitResponseTopic { name: topic.name.clone(), partitions, ..Default::default() }
                };
                let topics = request.topics.into_iter().map(topic).collect();
                OffsetCommitResponse { topics, ..Default::default() }.into()
            }
            AnyRequest::OffsetDelete(request) => {
                let topic = |topic: wire::api::offset_delete::OffsetDeleteRequestTopic| {
                    let asked = topic.partitions.iter().map(|partition| partition.partition_index);
                    let asked = asked.filter(|index| self.tells_of(&topic.name, *index));
                    let partition = |partition_index| OffsetDeleteResponsePartition {
                        partition_index,
                        error_code: self.refusal(&topic.name, partition_index),
                    };
                    let partitions = asked.map(partition).collect();
                    OffsetDeleteResponseTopic { name: topic.name.clone(), partitions }
                };
                let topics = request.topics.into_iter().map(topic).collect();
                OffsetDeleteResponse { topics, ..Default::default() }.into()
            }
            other => panic!("{other:?}"),
        }
    }

    fn versions(&self) -> AnyResponse {
        let api = |(api, max_version): (ApiKey, i16)| ApiVersion {
            api_key: api.number(),
            min_version: 0,
            max_version,
        };
        let apis = [
            (ApiKey::Metadata, 12),
            (ApiKey::FindCoordinator, 4),
            (ApiKey::ListGroups, self.list_groups.unwrap_or(5)),
            (ApiKey::DescribeGroups, 5),
            (ApiKey::DeleteGroups, 2),
            (ApiKey::OffsetFetch, 9),
            (ApiKey::ListOffsets, 7),
            (ApiKey::OffsetCommit, 9),
            (ApiKey::OffsetDelete, 0),
        ];
        ApiVersionsResponse { api_keys: apis.into_iter().map(api).collect(), ..Default::default() }.into()
    }

    fn described(&self, group_id: String) -> DescribedGroup {
        let Some(group) = self.group(&group_id).filter(|group| group.kind.is_none()) else {
            return DescribedGroup { group_id, group_state: "Dead".to_owned(), ..Default::default() };
        };
        let member = |id: &str| DescribedGroupMember {
            member_id: id.to_owned(),
            client_host: "/10.0.0.7".to_owned(),
            ..Default::default()
        };
        DescribedGroup {
            group_id,
            error_code: group.error.map_or(0, ErrorCode::number),
            group_state: if group.member.is_some() { "Stable".to_owned() } else { "Empty".to_owned() },
            members: group.member.into_iter().map(member).collect(),
            ..Default::default()
        }
    }

    fn fetched(&self, group_id: String) -> OffsetFetchResponseGroup {
        let committed = self.group(&group_id).map(|group| &group.committed[..]).unwrap_or_default();
        let topic = |&(topic, partition_index, committed_offset): &(&str, i32, i64)| {
            let partition = OffsetFetchResponsePartitions {
                partition_index,
                committed_offset,
                committed_leader_epoch: -1,
                ..Default::default()
            };
            let partitions = vec![partition];
            OffsetFetchResponseTopics { name: topic.to_owned(), partitions, ..Default::default() }
        };
        let topics = committed.iter().map(topic).collect();
        OffsetFetchResponseGroup { group_id, topics, ..Default::default() }
    }

    fn listed_offsets(&self, request: wire::api::list_offsets::ListOffsetsRequest) -> AnyResponse {
        let topic = |topic: wire::api::list_offsets::ListOffsetsTopic| {
            let partition = |partition: &wire::api::list_offsets::ListOffsetsPartition| {
                // Only the search by time leaves partitions out, so that it is not the beginning or the end.
                if partition.timestamp >= 0 && !self.tells_of(&topic.name, partition.partition_index) {
                    return None;
                }
                Some(ListOffsetsPartitionResponse {
                    partition_index: partition.partition_index,
                    offset: if partition.timestamp == -1 { END } else { 0 },
                    ..Default::default()
                })
            };
            let partitions = topic.partitions.iter().filter_map(partition).collect();
            ListOffsetsTopicResponse { name: topic.name.clone(), partitions }
        };
        let topics = request.topics.into_iter().map(topic).collect();
        ListOffsetsResponse { topics, ..Default::default() }.into()
    }
}

fn topic(name: String) -> MetadataResponseTopic {
    let partitions = match name.as_str() {
        "orders" => 2,
        "users" | "broken" => 1,
        _ => {
            let error_code = ErrorCode::UnknownTopicOrPartition.number();
            return MetadataResponseTopic { name: Some(name), error_code, ..Default::default() };
        }
    };
    let leader_id = if name == "broken" { -1 } else { 1 };
    let partition =
        |partition_index| MetadataResponsePartition { partition_index, leader_id, ..Default::default() };
    let partitions = (0..partitions).map(partition).collect();
    MetadataResponseTopic { name: Some(name), partitions, ..Default::default() }
}
