//! Scripts about topics and settings.

use wire::api::*;
use wire::{AnyRequest, ApiKey, Uuid};

use crate::differences::RECOUNTED;
use crate::pair::{Pair, newest};
use crate::requests::*;

pub(crate) fn creating_topics(pair: &mut Pair) {
    for version in 2..=7 {
        pair.ask("a plain topic", version, |_| create(&[topic(&format!("plain-{version}"), 2, 1)], false));
        pair.ask("the same again", version, |_| create(&[topic(&format!("plain-{version}"), 2, 1)], false));
        pair.ask("only asking", version, |_| create(&[topic(&format!("asked-{version}"), 3, 1)], true));
        pair.ask("defaults", version, |_| create(&[topic(&format!("default-{version}"), -1, -1)], false));
    }
    let v = newest(ApiKey::CreateTopics);
    for name in
        ["", ".", "..", "a b", "ünicode", "plain.7", "__cluster_metadata", &"x".repeat(249), &"x".repeat(250)]
    {
        pair.ask("a name to look at twice", v, |_| create(&[topic(name, 1, 1)], false));
    }
    for partitions in [0, -2, 1_000_000] {
        pair.ask("a number of partitions", v, |_| create(&[topic("odd", partitions, 1)], true));
    }
    for factor in [0, -2, 2, 32767] {
        pair.ask("a number of replicas", v, |_| create(&[topic("odd", 1, factor)], true));
    }
    pair.ask("twice in one request", v, |_| {
        create(&[topic("twice", 1, 1), topic("once", 1, 1), topic("twice", 1, 1)], false)
    });
    for configs in [
        &[("retention.ms", Some("1000")), ("cleanup.policy", Some("compact"))][..],
        &[("cleanup.policy", Some("compact,delete"))],
        &[("retention.ms", Some("soon"))],
        &[("no.such.thing", Some("1"))],
        &[("cleanup.policy", Some("shred"))],
        &[("segment.bytes", Some("1"))],
        &[("retention.ms", None)],
        &[("max.message.bytes", Some("-1"))],
        &[("compression.type", Some("zip"))],
        &[("min.cleanable.dirty.ratio", Some("2"))],
        &[("retention.ms", Some("1")), ("retention.ms", Some("2"))],
        &[("message.timestamp.type", Some("Whenever"))],
        &[("", Some("1"))],
    ] {
        pair.ask("settings", v, |_| {
            let mut new = topic("configured", 1, 1);
            for (name, value) in configs {
                new.configs.push(create_topics::CreatableTopicConfig {
                    name: (*name).to_owned(),
                    value: value.map(str::to_owned),
                });
            }
            create(&[new], true)
        });
    }
    for name in SETTINGS {
        for value in VALUES {
            pair.ask("every value of a setting", v, |_| {
                let mut new = topic("configured", 1, 1);
                new.configs.push(config(name, value));
                create(&[new], true)
            });
        }
    }
    for assignments in [
        &[(0, &[1][..]), (1, &[1])][..],
        &[(0, &[2])],
        &[(1, &[1])],
        &[(0, &[1, 1])],
        &[(0, &[])],
        &[(0, &[1]), (0, &[1])],
        &[(-1, &[1])],
    ] {
        for counts in [(-1, -1), (2, 1)] {
            pair.ask("a manual assignment", v, |_| {
                let mut new = topic("assigned", counts.0, counts.1);
                for (partition_index, nodes) in assignments {
                    new.assignments.push(create_topics::CreatableReplicaAssignment {
                        partition_index: *partition_index,
                        broker_ids: nodes.to_vec(),
                    });
                }
                create(&[new], true)
            });
        }
    }
    pair.ask("nothing", v, |_| create(&[], false));

    pair.ask("the topics of the other scripts", v, |_| {
        let mut compacted = topic("compacted", 1, 1);
        compacted.configs.push(config("cleanup.policy", "compact"));
        let mut stamped = topic("stamped", 1, 1);
        stamped.configs.push(config("message.timestamp.type", "LogAppendTime"));
        let mut small = topic("small", 1, 1);
        small.configs.push(config("max.message.bytes", "200"));
        let mut zipped = topic("zipped", 1, 1);
        zipped.configs.push(config("compression.type", "gzip"));
        let mut timely = topic("timely", 1, 1);
        timely.configs.push(config("message.timestamp.before.max.ms", "1000"));
        timely.configs.push(config("message.timestamp.after.max.ms", "1000"));
        let mut squeezed = topic("squeezed", 1, 1);
        squeezed.configs.push(config("compression.type", "zstd"));
        let plain = ["t", "idem", "spoilt", RECOUNTED].map(|name| topic(name, 3, 1));
        create(&[&plain[..], &[compacted, stamped, small, zipped, timely, squeezed]].concat(), false)
    });
    for version in 0..=3 {
        for (name, count) in [
            ("plain-2", 2),
            ("plain-2", 1),
            ("nosuch", 5),
            ("plain-2", -1),
            ("plain-3", 4 + i32::from(version)),
        ] {
            pair.ask("more partitions", version, |_| more_partitions(name, count, None, false));
            pair.ask("would more partitions work", version, |_| more_partitions(name, count + 5, None, true));
        }
        pair.ask("nodes for them", version, |_| more_partitions("plain-4", 3, Some(vec![vec![1]]), true));
        pair.ask("too many nodes", version, |_| {
            more_partitions("plain-4", 3, Some(vec![vec![1], vec![1]]), true)
        });
        pair.ask("a node that is not", version, |_| more_partitions("plain-4", 3, Some(vec![vec![7]]), true));
    }
}

pub(crate) fn asking_for_topics(pair: &mut Pair) {
    for version in 0..=13 {
        pair.ask("all topics", version, |_| {
            let AnyRequest::Metadata(mut request) = all_topics(true) else { unreachable!("it is one") };
            if version == 0 {
                request.topics = Some(Vec::new());
            }
            AnyRequest::Metadata(request)
        });
        pair.ask("one topic", version, |_| metadata(&[(Uuid(0), Some("t"))], false));
        for name in ["nosuch", "bad name", "", "__consumer_offsets_not"] {
            // Before version 4 a question always makes the topic: see `making_topics_by_asking`.
            if version >= 4 || name != "nosuch" && name != "__consumer_offsets_not" {
                pair.ask("no topic", version, |_| metadata(&[(Uuid(0), Some(name))], false));
            }
        }
        pair.ask("two topics", version, |_| {
            metadata(&[(Uuid(0), Some("plain-7")), (Uuid(0), Some("t"))], false)
        });
        if version >= 10 {
            pair.ask("by id", version, |names| metadata(&[(names.topic_id("t"), None)], false));
            pair.ask("by an unknown id", version, |_| metadata(&[(Uuid(0xdead_beef), None)], false));
            pair.ask("by id and name", version, |names| metadata(&[(names.topic_id("t"), Some("t"))], false));
            pair.ask("by neither", version, |_| metadata(&[(Uuid(0), None)], false));
        }
    }
    pair.ask("a page", 0, |_| page(&["t", "nosuch", "plain-2", "bad name"], 2, None));
    pair.ask("the next page", 0, |_| page(&["t", "plain-2"], 2, Some(("t", 1))));
    pair.ask("a page of all", 0, |_| page(&[], 2000, None));
    pair.ask("a page of none", 0, |_| page(&["t"], 0, None));
    pair.ask("a cursor on a topic that is not asked for", 0, |_| page(&["t"], 10, Some(("u", 0))));
    pair.ask("moves", 0, |_| AnyRequest::ListPartitionReassignments(Default::default()));
    pair.ask("moves of one", 0, |_| {
        AnyRequest::ListPartitionReassignments(
            list_partition_reassignments::ListPartitionReassignmentsRequest {
                topics: Some(vec![list_partition_reassignments::ListPartitionReassignmentsTopics {
                    name: "t".to_owned(),
                    partition_indexes: vec![0, 9],
                }]),
                ..Default::default()
            },
        )
    });
}

/// Kafka says that the topic is unknown and makes it meanwhile; Kohort makes it and shows it.
pub(crate) fn making_topics_by_asking(pair: &mut Pair) {
    for version in 0..=13 {
        let name = format!("auto-{version}");
        pair.ask("a topic that is made by asking", version, |_| metadata(&[(Uuid(0), Some(&name))], true));
        pair.ask("and is there", version, |_| metadata(&[(Uuid(0), Some(&name))], true));
        pair.ask("a name that none can have", version, |_| metadata(&[(Uuid(0), Some("bad name"))], true));
    }
}

pub(crate) fn settings(pair: &mut Pair) {
    for version in 1..=4 {
        for (synonyms, words) in [(false, false), (true, true)] {
            for (resource_type, name) in [
                (2, "t"),
                (2, "compacted"),
                (2, "nosuch"),
                (2, "bad name"),
                (2, ""),
                (3, "t"),
                (4, "9"),
                (4, "x"),
            ] {
                pair.ask("settings", version, |_| describe(resource_type, name, None, synonyms, words));
            }
            pair.ask("one setting", version, |_| {
                describe(2, "t", Some(&["retention.ms", "no.such"]), synonyms, words)
            });
            pair.ask("no setting", version, |_| describe(2, "t", Some(&[]), synonyms, words));
        }
    }
    for version in 0..=1 {
        for (what, name, operation, value) in [
            ("set", "retention.ms", 0, Some("900000005000")),
            ("set to nonsense", "retention.ms", 0, Some("x")),
            ("set to null", "retention.ms", 0, None),
            ("an unknown name", "no.such", 0, Some("1")),
            ("append", "cleanup.policy", 2, Some("compact")),
            ("append again", "cleanup.policy", 2, Some("compact")),
            ("subtract", "cleanup.policy", 3, Some("delete")),
            ("append to a number", "retention.ms", 2, Some("1")),
            ("an unknown operation", "retention.ms", 9, Some("1")),
            ("delete", "cleanup.policy", 1, None),
            ("a number with a sign", "index.interval.bytes", 0, Some(" +04096 ")),
            ("a number without", "index.interval.bytes", 1, None),
            ("delete what is not set", "max.message.bytes", 1, None),
            ("delete an unknown name", "no.such", 1, None),
            ("delete the first", "retention.ms", 1, None),
        ] {
            for validate_only in [true, false] {
                pair.ask(what, version, |_| alter(2, "t", &[(name, operation, value)], validate_only));
            }
        }
        pair.ask("of an unknown topic", version, |_| {
            alter(2, "nosuch", &[("retention.ms", 0, Some("1"))], false)
        });
        pair.ask("of nothing", version, |_| alter(2, "", &[("retention.ms", 0, Some("1"))], false));
        pair.ask("the same name twice", version, |_| {
            alter(2, "t", &[("retention.ms", 0, Some("1")), ("retention.ms", 0, Some("2"))], false)
        });
        pair.ask("of an unknown kind", version, |_| alter(99, "t", &[("retention.ms", 0, Some("1"))], false));
    }
    for name in SETTINGS {
        for value in VALUES {
            for operation in [0, 2, 3] {
                pair.ask("every value of a setting", 1, |_| {
                    alter(2, "t", &[(name, operation, Some(value))], true)
                });
            }
        }
    }
    for version in 0..=2 {
        for configs in [
            &[("retention.ms", Some("900000007000"))][..],
            &[("retention.ms", None)],
            &[("no.such", Some("1"))],
            &[],
        ] {
            pair.ask("replace", version, |_| {
                AnyRequest::AlterConfigs(alter_configs::AlterConfigsRequest {
                    resources: vec![alter_configs::AlterConfigsResource {
                        resource_type: 2,
                        resource_name: "t".to_owned(),
                        configs: configs
                            .iter()
                            .map(|(name, value)| alter_configs::AlterableConfig {
                                name: (*name).to_owned(),
                                value: value.map(str::to_owned),
                            })
                            .collect(),
                    }],
                    validate_only: false,
                })
            });
        }
    }
}

/// Properties that mean the same in both, and are set alike here.
const BROKER_SETTINGS: [&str; 26] = [
    "auto.create.topics.enable",
    "compression.type",
    "compression.zstd.level",
    "connections.max.idle.ms",
    "default.replication.factor",
    "delete.topic.enable",
    "fetch.max.bytes",
    "group.initial.rebalance.delay.ms",
    "log.cleaner.backoff.ms",
    "log.cleaner.enable",
    "log.cleanup.policy",
    "log.flush.interval.ms",
    "log.message.timestamp.type",
    "log.retention.bytes",
    "log.retention.check.interval.ms",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.roll.hours",
    "log.segment.bytes",
    "message.max.bytes",
    "no.such",
    "num.io.threads",
    "num.partitions",
    "producer.id.expiration.ms",
    "unclean.leader.election.enable",
];

pub(crate) fn settings_of_the_broker(pair: &mut Pair) {
    let look = |pair: &mut Pair| {
        for version in 1..=4 {
            for name in ["1", ""] {
                pair.ask("settings of the broker", version, |_| {
                    describe(4, name, Some(&BROKER_SETTINGS), true, false)
                });
            }
        }
    };
    look(pair);
    for (what, name, key, operation, value) in [
        ("set", "1", "message.max.bytes", 0, Some("500000")),
        ("set for all", "", "message.max.bytes", 0, Some("600000")),
        ("set to nonsense", "1", "message.max.bytes", 0, Some("many")),
        ("set out of range", "1", "message.max.bytes", 0, Some("-5")),
        ("set what is fixed", "1", "num.partitions", 0, Some("4")),
        ("set an unknown name", "1", "no.such", 0, Some("4")),
        ("an unknown operation", "1", "message.max.bytes", 9, Some("4")),
        ("append", "1", "log.cleanup.policy", 2, Some("compact")),
        ("append to a number", "1", "message.max.bytes", 2, Some("4")),
        ("another node", "9", "message.max.bytes", 0, Some("500000")),
        ("no node", "one", "message.max.bytes", 0, Some("500000")),
    ] {
        for validate_only in [true, false] {
            pair.ask(what, 1, |_| alter(4, name, &[(key, operation, value)], validate_only));
        }
    }
    look(pair);
    for (name, key) in [("1", "message.max.bytes"), ("", "message.max.bytes"), ("1", "log.cleanup.policy")] {
        pair.ask("back", 1, |_| alter(4, name, &[(key, 1, None)], false));
    }
    look(pair);
}

pub(crate) fn deleting(pair: &mut Pair) {
    for version in 1..=5 {
        pair.ask("disk use", version, |_| AnyRequest::DescribeLogDirs(Default::default()));
    }
    for version in 0..=2 {
        for (topic, partition, offset) in [
            ("t", 0, 2),
            ("t", 0, 1),
            ("t", 0, 1_000_000),
            ("t", 0, -2),
            ("t", 9, 0),
            ("nosuch", 0, 0),
            ("compacted", 0, 1),
            ("t", 1, -1),
        ] {
            pair.ask("forget records", version, |_| forget(topic, partition, offset));
        }
        pair.ask("where the log begins", 7, |_| find_offsets("t", 0, -2));
        pair.ask("below the start", 12, |names| fetch(names, 12, "t", 0, 1, |_| {}));
        pair.ask("at the start", 12, |names| fetch(names, 12, "t", 0, 2, |_| {}));
        pair.ask("disk use", 4, |_| AnyRequest::DescribeLogDirs(Default::default()));
    }
    for version in 1..=6 {
        for name in ["nosuch", "", "bad name"] {
            pair.ask("delete a topic that is not", version, |_| delete(version, &[name]));
        }
        pair.ask("delete", version, |_| delete(version, &[&format!("default-{}", version + 1)]));
        pair.ask("delete again", version, |_| delete(version, &[&format!("default-{}", version + 1)]));
    }
    pair.ask("delete twice in one request", 6, |_| delete(6, &["once", "once"]));
    pair.ask("delete by id", 6, |names| delete_by_id(names.topic_id("plain-2"), None));
    pair.ask("delete by an unknown id", 6, |_| delete_by_id(Uuid(0xdead_beef), None));
    pair.ask("delete by id and name", 6, |names| delete_by_id(names.topic_id("plain-3"), Some("plain-3")));
    pair.ask("delete by neither", 6, |_| delete_by_id(Uuid(0), None));
    pair.ask("a deleted topic made anew", 7, |_| create(&[topic("plain-2", 1, 1)], false));
    pair.ask("is empty", 12, |names| fetch(names, 12, "plain-2", 0, 0, |_| {}));
}
