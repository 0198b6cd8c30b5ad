//! Requests about many things, with some of them wrong, doubled or missing.

use batch::Codec;
use wire::api::*;
use wire::{AnyRequest, Uuid};

use crate::names::Names;
use crate::pair::Pair;
use crate::requests::*;

pub(crate) fn run(pair: &mut Pair) {
    producing(pair);
    fetching(pair);
    finding_offsets(pair);
    asking_for_topics(pair);
    changing_topics(pair);
}

fn producing(pair: &mut Pair) {
    let batch = |count| Some(records(count, Codec::None, None));
    let data = |names: &Names, topic: &str, parts: &[(i32, usize)]| produce::TopicProduceData {
        name: topic.to_owned(),
        topic_id: names.topic_id(topic),
        partition_data: parts
            .iter()
            .map(|&(index, count)| produce::PartitionProduceData { index, records: batch(count) })
            .collect(),
    };
    type Parts = &'static [(&'static str, &'static [(i32, usize)])];
    let cases: [(&str, Parts); 6] = [
        ("nothing", &[]),
        ("a topic without partitions", &[("t", &[])]),
        ("two topics", &[("t", &[(0, 1), (1, 2)]), ("stamped", &[(0, 1)])]),
        ("the same partition twice", &[("t", &[(0, 1), (1, 1), (0, 3)])]),
        ("the same topic twice", &[("t", &[(0, 1)]), ("t", &[(1, 1)])]),
        ("a known and an unknown topic", &[("nosuch", &[(0, 1)]), ("t", &[(0, 1)])]),
    ];
    for version in [3, 9, 12, 13] {
        for (what, topics) in cases {
            pair.ask(what, version, |names| {
                AnyRequest::Produce(produce::ProduceRequest {
                    acks: -1,
                    timeout_ms: 10_000,
                    topic_data: topics.iter().map(|(topic, parts)| data(names, topic, parts)).collect(),
                    ..Default::default()
                })
            });
        }
    }
}

fn fetching(pair: &mut Pair) {
    let topic = |names: &Names, topic: &str, parts: &[(i32, i64)]| fetch::FetchTopic {
        topic: topic.to_owned(),
        topic_id: names.topic_id(topic),
        partitions: parts
            .iter()
            .map(|&(partition, fetch_offset)| fetch::FetchPartition {
                partition,
                fetch_offset,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            })
            .collect(),
    };
    type Parts = &'static [(&'static str, &'static [(i32, i64)])];
    let cases: [(&str, Parts); 6] = [
        ("nothing", &[]),
        ("a topic without partitions", &[("t", &[])]),
        ("two topics", &[("t", &[(0, 0), (1, 3)]), ("stamped", &[(0, 0)])]),
        ("the same partition twice", &[("t", &[(0, 0), (1, 0), (0, 3)])]),
        ("the same topic twice", &[("t", &[(0, 0)]), ("t", &[(1, 0)])]),
        (
            "known and unknown ones",
            &[("nosuch", &[(0, 0)]), ("t", &[(9, 0), (0, 0)]), ("stamped", &[(0, 99)])],
        ),
    ];
    for version in [4, 7, 12, 13, 18] {
        for (what, topics) in cases {
            for (max_bytes, min_bytes, isolation_level) in
                [(50 << 20, 1, 0), (50 << 20, 1, 1), (1, 1, 0), (0, 0, 0), (400, 1000, 0), (-1, 1, 0)]
            {
                pair.ask(what, version, |names| {
                    AnyRequest::Fetch(fetch::FetchRequest {
                        replica_id: -1,
                        max_wait_ms: 0,
                        min_bytes,
                        max_bytes,
                        isolation_level,
                        session_epoch: -1,
                        topics: topics.iter().map(|(name, parts)| topic(names, name, parts)).collect(),
                        ..Default::default()
                    })
                });
            }
        }
    }
    for (min_bytes, max_wait_ms) in [(1, 50), (1 << 20, 50), (1, 0), (1, -1)] {
        pair.ask("waiting at the end", 12, |names| {
            let AnyRequest::Fetch(mut request) = fetch(names, 12, "timely", 0, 0, |_| {}) else {
                unreachable!("it is one")
            };
            (request.min_bytes, request.max_wait_ms) = (min_bytes, max_wait_ms);
            AnyRequest::Fetch(request)
        });
    }
}

fn finding_offsets(pair: &mut Pair) {
    type Parts = &'static [(&'static str, &'static [i32])];
    let cases: [(&str, Parts); 5] = [
        ("nothing", &[]),
        ("a topic without partitions", &[("t", &[]), ("stamped", &[0])]),
        ("two topics", &[("t", &[0, 1, 2]), ("stamped", &[0])]),
        ("the same topic twice", &[("t", &[0]), ("t", &[1])]),
        ("known and unknown ones", &[("nosuch", &[0]), ("t", &[9, 0])]),
    ];
    for (what, topics) in cases {
        for (version, isolation_level) in [(1, 0), (5, 0), (5, 1), (11, 1)] {
            pair.ask(what, version, |_| {
                let part = |&partition_index: &i32| list_offsets::ListOffsetsPartition {
                    partition_index,
                    current_leader_epoch: -1,
                    timestamp: -1,
                };
                let topic = |(name, parts): &(&str, &[i32])| list_offsets::ListOffsetsTopic {
                    name: (*name).to_owned(),
                    partitions: parts.iter().map(part).collect(),
                };
                AnyRequest::ListOffsets(list_offsets::ListOffsetsRequest {
                    replica_id: -1,
                    isolation_level,
                    topics: topics.iter().map(topic).collect(),
                    timeout_ms: 10_000,
                })
            });
        }
        for version in 2..=4 {
            pair.ask(what, version, |_| {
                let part = |&partition: &i32| offset_for_leader_epoch::OffsetForLeaderPartition {
                    partition,
                    current_leader_epoch: -1,
                    leader_epoch: 0,
                };
                let topic = |(name, parts): &(&str, &[i32])| offset_for_leader_epoch::OffsetForLeaderTopic {
                    topic: (*name).to_owned(),
                    partitions: parts.iter().map(part).collect(),
                };
                AnyRequest::OffsetForLeaderEpoch(offset_for_leader_epoch::OffsetForLeaderEpochRequest {
                    replica_id: -1,
                    topics: topics.iter().map(topic).collect(),
                })
            });
        }
        for version in 0..=2 {
            pair.ask(what, version, |_| {
                let part = |&partition_index: &i32| delete_records::DeleteRecordsPartition {
                    partition_index,
                    offset: 0,
                };
                let topic = |(name, parts): &(&str, &[i32])| delete_records::DeleteRecordsTopic {
                    name: (*name).to_owned(),
                    partitions: parts.iter().map(part).collect(),
                };
                AnyRequest::DeleteRecords(delete_records::DeleteRecordsRequest {
                    topics: topics.iter().map(topic).collect(),
                    timeout_ms: 10_000,
                })
            });
        }
        for version in 1..=5 {
            pair.ask(what, version, |_| {
                let topic = |(name, parts): &(&str, &[i32])| describe_log_dirs::DescribableLogDirTopic {
                    topic: (*name).to_owned(),
                    partitions: parts.to_vec(),
                };
                AnyRequest::DescribeLogDirs(describe_log_dirs::DescribeLogDirsRequest {
                    topics: Some(topics.iter().map(topic).collect()),
                })
            });
        }
    }
}

fn asking_for_topics(pair: &mut Pair) {
    let named = |name: &'static str| (Uuid(0), Some(name));
    for version in 4..=13 {
        pair.ask("no topics", version, |_| metadata(&[], false));
        pair.ask("the same twice", version, |_| metadata(&[named("t"), named("t")], false));
        pair.ask("known and unknown ones", version, |_| {
            metadata(&[named("nosuch"), named("t"), named("bad name")], false)
        });
    }
    for version in 12..=13 {
        pair.ask("by ids and names", version, |names| {
            metadata(&[named("idem"), (names.topic_id("t"), None), (Uuid(0xdead_beef), None)], false)
        });
    }
    for version in 1..=4 {
        pair.ask("settings of many", version, |_| {
            let resource = |(resource_type, name): (i8, &str)| describe_configs::DescribeConfigsResource {
                resource_type,
                resource_name: name.to_owned(),
                configuration_keys: Some(vec!["retention.ms".to_owned()]),
            };
            AnyRequest::DescribeConfigs(describe_configs::DescribeConfigsRequest {
                resources: [(2, "t"), (2, "nosuch"), (2, "t"), (7, "t")].map(resource).to_vec(),
                ..Default::default()
            })
        });
    }
}

fn changing_topics(pair: &mut Pair) {
    for version in 2..=7 {
        pair.ask("good and bad ones", version, |_| {
            create(
                &[topic("many", 1, 1), topic("bad name", 1, 1), topic("t", 1, 1), topic("many-2", 0, 1)],
                false,
            )
        });
        pair.ask("each of them deleted", version.min(6), |_| {
            delete(version.min(6), &["many", "bad name", "nosuch", "many"])
        });
        pair.ask("once", version.min(6), |_| delete(version.min(6), &["many", "nosuch"]));
    }
    pair.ask("topics to delete", 7, |_| create(&[topic("many", 1, 1), topic("more", 1, 1)], false));
    pair.ask("deleted by name and by id", 6, |names| {
        let state = |name: Option<&str>, topic_id| delete_topics::DeleteTopicState {
            name: name.map(str::to_owned),
            topic_id,
        };
        AnyRequest::DeleteTopics(delete_topics::DeleteTopicsRequest {
            topics: vec![
                state(Some("many"), Uuid(0)),
                state(None, names.topic_id("many")),
                state(None, names.topic_id("more")),
                state(Some("more"), names.topic_id("more")),
                state(None, Uuid(0)),
                state(None, Uuid(0xdead_beef)),
            ],
            timeout_ms: 10_000,
            ..Default::default()
        })
    });
    for version in 0..=3 {
        pair.ask("more partitions of many", version, |_| {
            let topic = |(name, count): (&str, i32)| create_partitions::CreatePartitionsTopic {
                name: name.to_owned(),
                count,
                assignments: None,
            };
            AnyRequest::CreatePartitions(create_partitions::CreatePartitionsRequest {
                topics: [("plain-5", 3 + i32::from(version)), ("nosuch", 3), ("plain-6", 1)]
                    .map(topic)
                    .to_vec(),
                timeout_ms: 10_000,
                validate_only: false,
            })
        });
        pair.ask("more partitions of the same twice", version, |_| {
            let topic = |count| create_partitions::CreatePartitionsTopic {
                name: "plain-7".to_owned(),
                count,
                assignments: None,
            };
            AnyRequest::CreatePartitions(create_partitions::CreatePartitionsRequest {
                topics: [8, 9].map(topic).to_vec(),
                timeout_ms: 10_000,
                validate_only: false,
            })
        });
    }
    for version in 0..=1 {
        pair.ask("settings of many changed", version, |_| {
            let resource = |(name, value): (&str, &str)| incremental_alter_configs::AlterConfigsResource {
                resource_type: 2,
                resource_name: name.to_owned(),
                configs: vec![incremental_alter_configs::AlterableConfig {
                    name: "segment.ms".to_owned(),
                    config_operation: 0,
                    value: Some(value.to_owned()),
                }],
            };
            AnyRequest::IncrementalAlterConfigs(incremental_alter_configs::IncrementalAlterConfigsRequest {
                resources: [("t", "3600000"), ("nosuch", "1"), ("idem", "soon")].map(resource).to_vec(),
                validate_only: false,
            })
        });
    }
}
