//! What clients are told of the nodes there are.

use std::time::Duration;

use coordination::access::Operations;
use coordination::error_code::ErrorCode;
use coordination::ids::TopicId;
use coordination::op::TopicRef;
use coordination::reply::{self, PartitionMetadata, Reply};
use wire::api::*;
use wire::{Addresses, NodeAddress, RequestMessage, decode_response, encode_reply, leader};

use super::decoded;

const TOPIC: TopicId = TopicId::from_u128(9);

fn three() -> Addresses {
    let node = |id: i32| NodeAddress { id, host: format!("kafka-{id}.example"), port: 9092 };
    Addresses { nodes: [3, 1, 2].map(node).into(), ..Addresses::alone(2, "kafka-2.example", 9092) }
}

fn exchange<R: RequestMessage>(request: &R, version: i16, reply: Reply) -> R::Response {
    let frame = encode_reply(&decoded(request, version).head, reply, &three()).into_content();
    decode_response::<R>(frame, version).expect("an answer of ours").1
}

fn topic() -> reply::TopicMetadata {
    reply::TopicMetadata {
        error: None,
        name: Some("t".to_owned()),
        id: TOPIC,
        internal: false,
        partitions: (0..12).map(|index| PartitionMetadata { index, leader_epoch: 0 }).collect(),
        operations: Operations::OF_TOPIC,
    }
}

fn leaders() -> Vec<i32> {
    let leaders: Vec<_> = (0..12).filter_map(|index| leader(TOPIC, index, &three().nodes)).collect();
    assert!([1, 2, 3].iter().all(|id| leaders.contains(id)), "{leaders:?}");
    leaders
}

#[test]
fn metadata_lists_all_nodes_by_id_and_spreads_the_leaders_over_them() {
    let reply = reply::Metadata {
        cluster_id: "c".to_owned(),
        topics: vec![topic()],
        operations: Operations::OF_CLUSTER,
    };
    let told = exchange(&metadata::MetadataRequest::default(), 13, Reply::Metadata(reply));
    let nodes: Vec<_> = told.brokers.iter().map(|node| (node.node_id, node.host.as_str())).collect();
    assert_eq!(nodes, [(1, "kafka-1.example"), (2, "kafka-2.example"), (3, "kafka-3.example")]);
    assert_eq!(told.controller_id, 2, "the one that was asked");
    let partitions = &told.topics[0].partitions;
    assert_eq!(partitions.iter().map(|partition| partition.leader_id).collect::<Vec<_>>(), leaders());
    for partition in partitions {
        assert_eq!(partition.replica_nodes, [partition.leader_id]);
        assert_eq!(partition.isr_nodes, [partition.leader_id]);
    }
}

#[test]
fn a_page_of_topics_and_the_cluster_tell_the_same_as_metadata() {
    let reply = reply::DescribeTopicPartitions { topics: vec![topic()], next_cursor: None };
    let request = describe_topic_partitions::DescribeTopicPartitionsRequest::default();
    let told = exchange(&request, 0, Reply::DescribeTopicPartitions(reply));
    let partitions = &told.topics[0].partitions;
    assert_eq!(partitions.iter().map(|partition| partition.leader_id).collect::<Vec<_>>(), leaders());
    assert!(partitions.iter().all(|partition| partition.isr_nodes == [partition.leader_id]));

    let reply = reply::DescribeCluster { result: Ok("c".to_owned()), operations: Operations::OF_CLUSTER };
    let request = describe_cluster::DescribeClusterRequest::default();
    let told = exchange(&request, 2, Reply::DescribeCluster(reply));
    assert_eq!(told.brokers.iter().map(|node| node.broker_id).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(told.controller_id, 2);
}

#[test]
fn a_fetch_that_names_leaders_says_where_they_are() {
    let partition = |index| reply::FetchPartition {
        index,
        error: Some(ErrorCode::FencedLeaderEpoch),
        high_watermark: -1,
        last_stable_offset: -1,
        log_start_offset: -1,
        diverging_epoch: None,
        current_leader_epoch: (index < 2).then_some(0),
        records: Vec::new(),
        origin: reply::Origin::default(),
    };
    let reply = |topic| {
        let partitions = vec![partition(0), partition(1), partition(2)];
        let topics = vec![reply::FetchTopic { topic, id: None, partitions }];
        Reply::Fetch(reply::Fetch { error: None, session_id: 0, topics, throttle: Duration::ZERO })
    };
    let told = exchange(&fetch::FetchRequest::default(), 18, reply(TopicRef::Id(TOPIC)));
    let named: Vec<_> =
        told.responses[0].partitions.iter().map(|partition| partition.current_leader.leader_id).collect();
    assert_eq!(named, [leaders()[0], leaders()[1], -1]);
    let mut expected = leaders()[..2].to_vec();
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(told.node_endpoints.iter().map(|node| node.node_id).collect::<Vec<_>>(), expected);
    assert_eq!(told.node_endpoints[0].host, format!("kafka-{}.example", expected[0]));

    let told = exchange(&fetch::FetchRequest::default(), 12, reply(TopicRef::Name("t".to_owned())));
    assert_eq!(told.responses[0].partitions[0].current_leader.leader_id, 2, "the one that was asked");
    assert!(told.node_endpoints.is_empty(), "it is in no version before 16");
}
