//! Requests in an order that a person chose, good and bad.

use wire::api::*;
use wire::{AnyRequest, ApiKey};

use crate::names::Names;
use crate::pair::{Pair, newest};
use crate::requests::all_topics;
use crate::{many_at_once, record_scripts, topic_scripts};

pub(crate) fn run(pair: &mut Pair) {
    first_words(pair);
    topic_scripts::creating_topics(pair);
    topic_scripts::asking_for_topics(pair);
    topic_scripts::making_topics_by_asking(pair);
    record_scripts::producing(pair);
    record_scripts::spoiling_each_byte(pair);
    record_scripts::idempotent_producers(pair);
    record_scripts::fetching(pair);
    record_scripts::fetch_sessions(pair);
    record_scripts::finding_offsets(pair);
    many_at_once::run(pair);
    topic_scripts::settings(pair);
    topic_scripts::settings_of_the_broker(pair);
    topic_scripts::deleting(pair);
    frames_that_make_no_sense(pair);
}

/// What both brokers must agree on once a change has gone through: topics, their settings, and that every
/// partition can be used, which in Kafka comes last.
#[expect(clippy::type_complexity, reason = "three requests, each built with a broker's own names")]
pub(crate) fn whole_state() -> [(i16, fn(&Names) -> AnyRequest); 3] {
    let metadata: fn(&Names) -> AnyRequest = |_| all_topics(false);
    let configs: fn(&Names) -> AnyRequest = |names| {
        let resources = names.topics().map(|(name, _)| describe_configs::DescribeConfigsResource {
            resource_type: 2,
            resource_name: name.to_owned(),
            configuration_keys: None,
        });
        AnyRequest::DescribeConfigs(describe_configs::DescribeConfigsRequest {
            resources: resources.collect(),
            ..Default::default()
        })
    };
    let starts: fn(&Names) -> AnyRequest = |names| {
        let partition = |partition_index| list_offsets::ListOffsetsPartition {
            partition_index,
            current_leader_epoch: -1,
            timestamp: -2,
        };
        let topics = names.topics().map(|(name, partitions)| list_offsets::ListOffsetsTopic {
            name: name.to_owned(),
            partitions: (0..partitions).map(partition).collect(),
        });
        AnyRequest::ListOffsets(list_offsets::ListOffsetsRequest {
            replica_id: -1,
            topics: topics.collect(),
            ..Default::default()
        })
    };
    [
        (newest(ApiKey::Metadata), metadata),
        (newest(ApiKey::DescribeConfigs), configs),
        (newest(ApiKey::ListOffsets), starts),
    ]
}

fn first_words(pair: &mut Pair) {
    for version in 0..=4 {
        for (name, software) in
            [("kohort", "1.0"), ("", ""), ("bad name!", "1"), ("-dash", "1"), ("a", "1-rc.2")]
        {
            pair.ask("who are you", version, |_| {
                AnyRequest::ApiVersions(api_versions::ApiVersionsRequest {
                    client_software_name: name.to_owned(),
                    client_software_version: software.to_owned(),
                })
            });
        }
    }
    for version in 0..=2 {
        for endpoint_type in [1, 2, 3, 0] {
            pair.ask("which cluster", version, |_| {
                AnyRequest::DescribeCluster(describe_cluster::DescribeClusterRequest {
                    include_cluster_authorized_operations: endpoint_type == 1,
                    endpoint_type,
                    include_fenced_brokers: false,
                })
            });
        }
    }
    for version in 0..=6 {
        for key_type in [0, 1, 2, 3] {
            pair.ask("who coordinates", version, |_| {
                AnyRequest::FindCoordinator(find_coordinator::FindCoordinatorRequest {
                    key: "g".to_owned(),
                    key_type,
                    coordinator_keys: ["g", "", "h"].map(str::to_owned).to_vec(),
                })
            });
        }
    }
}

fn frames_that_make_no_sense(pair: &mut Pair) {
    let frames: &[(&str, &[u8])] = &[
        ("an empty frame", &[]),
        ("an unknown api", &[0x03, 0xe7, 0, 0, 0, 0, 0, 1, 0xff, 0xff]),
        ("a negative api", &[0xff, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff]),
        ("an unsupported version of Metadata", &[0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0]),
        ("an unsupported version of ApiVersions", &[0, 18, 0, 99, 0, 0, 0, 1, 0xff, 0xff]),
        ("a negative version of ApiVersions", &[0, 18, 0xff, 0xff, 0, 0, 0, 1, 0xff, 0xff]),
        ("Produce 2", &[0, 0, 0, 2, 0, 0, 0, 1, 0xff, 0xff, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]),
        ("half a header", &[0, 18, 0, 0, 0]),
        ("Metadata with a huge array", &[0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]),
        ("Metadata with a negative array", &[0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x80, 0, 0, 0]),
        ("Metadata with bytes behind it", &[0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0, 1, 2, 3]),
        ("ApiVersions 0 with bytes behind it", &[0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 9, 9, 9]),
        ("a client id that is not UTF-8", &[0, 18, 0, 0, 0, 0, 0, 1, 0, 2, 0xff, 0xfe]),
        (
            "a topic name that is not UTF-8",
            &[0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 1, 0, 2, 0xff, 0xfe],
        ),
        ("a null topic name", &[0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 1, 0xff, 0xff]),
        (
            "an unknown tagged field",
            &[0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0, 2, b'a', 2, b'1', 1, 99, 2, 1, 2],
        ),
        ("a cut body", &[0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0, 2]),
    ];
    for (what, frame) in frames {
        pair.ask_raw(what, frame);
    }
}
