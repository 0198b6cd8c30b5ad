//! Each API with the permissions that it asks for.

use std::ops::RangeInclusive;

use bytes::Bytes;
use wire::api::*;
use wire::{AnyRequest, Uuid};

use crate::acl_requests::*;
use crate::group_requests::{self, commit, delete_groups, describe_groups, simple};
use crate::names::Names;
use crate::permission_scripts::cluster;
use crate::requests::*;

/// One request, and what one must be allowed to for it.
pub(crate) struct Case {
    pub(crate) what: &'static str,
    pub(crate) versions: RangeInclusive<i16>,
    pub(crate) needs: Vec<Need>,
    /// The request of the one at a seat, in a version.
    pub(crate) build: fn(&Names, i16, usize) -> AnyRequest,
}

/// One operation on one thing.
#[derive(Clone, Copy)]
pub(crate) struct Need {
    pub(crate) kind: i8,
    pub(crate) name: &'static str,
    pub(crate) pattern: i8,
    pub(crate) operation: i8,
}

const READ: i8 = 3;
const WRITE: i8 = 4;
const CREATE: i8 = 5;
const DELETE: i8 = 6;
const ALTER: i8 = 7;
const DESCRIBE: i8 = 8;
const CLUSTER_ACTION: i8 = 9;
const DESCRIBE_CONFIGS: i8 = 10;
const ALTER_CONFIGS: i8 = 11;
const IDEMPOTENT_WRITE: i8 = 12;

/// The topic.
const fn mine(operation: i8) -> Need {
    Need { kind: TOPIC, name: "mine", pattern: LITERAL, operation }
}

/// All things whose names begin with it.
const fn all_mine(kind: i8, operation: i8) -> Need {
    Need { kind, name: "mine", pattern: PREFIXED, operation }
}

const fn of_cluster(operation: i8) -> Need {
    Need { kind: CLUSTER, name: "kafka-cluster", pattern: LITERAL, operation }
}

/// A topic that rules are about, one that they are not about, and one that is not there.
const TOPICS: [&str; 3] = ["mine", "theirs", "absent"];

/// The same with groups.
const GROUPS: [&str; 4] = ["mine-group", "theirs-group", "mine-absent", "absent"];

pub(crate) fn cases() -> Vec<Case> {
    [about_records(), about_topics(), about_settings(), about_groups(), about_the_cluster()]
        .into_iter()
        .flatten()
        .collect()
}

/// Requests that are answered alike with and without this permission, for they need others first.
pub(crate) fn cases_that_need_more() -> Vec<Case> {
    vec![
        case("sync without a protocol", 4..=5, &[all_mine(GROUP, READ)], |names, _, seat| {
            let mut request = group_requests::sync("mine-group", seat, names);
            (request.protocol_type, request.protocol_name) = (None, None);
            AnyRequest::SyncGroup(request)
        }),
        case("offsets of others", 1..=10, &[mine(DESCRIBE)], |names, _, _| {
            group_requests::fetch(names, &GROUPS[1..], Some(&[("mine", &[0]), ("theirs", &[0])]), false)
        }),
        case("delete offsets of others", 0..=0, &[mine(READ)], |_, _, _| {
            group_requests::forget("theirs-group", &[("mine", &[0])])
        }),
    ]
}

fn case(
    what: &'static str,
    versions: RangeInclusive<i16>,
    needs: &[Need],
    build: fn(&Names, i16, usize) -> AnyRequest,
) -> Case {
    Case { what, versions, needs: needs.to_vec(), build }
}

fn about_records() -> Vec<Case> {
    vec![
        case("produce", 3..=13, &[mine(WRITE)], |names, _, _| some_records(names)),
        case("fetch", 4..=18, &[mine(READ)], |names, version, _| fetches(names, version)),
        case("find offsets", 1..=11, &[mine(DESCRIBE)], |_, _, _| offsets()),
        case("epochs", 2..=4, &[mine(DESCRIBE)], |_, _, _| epochs()),
        case("epochs for a broker", 2..=4, &[of_cluster(CLUSTER_ACTION)], |_, _, _| epochs()),
        case("delete records", 0..=2, &[mine(DELETE)], |_, _, _| no_records()),
        case("a producer id", 0..=5, &[of_cluster(IDEMPOTENT_WRITE)], |_, _, _| init_producer(None, -1, -1)),
        case("a producer id by a topic", 0..=5, &[mine(WRITE)], |_, _, _| init_producer(None, -1, -1)),
        case("a producer id by topics", 0..=5, &[all_mine(TOPIC, WRITE)], |_, _, _| {
            init_producer(None, -1, -1)
        }),
    ]
}

fn about_topics() -> Vec<Case> {
    vec![
        case("topics", 4..=13, &[mine(DESCRIBE)], |_, _, _| {
            with_operations(metadata(&TOPICS.map(|name| (Uuid(0), Some(name))), false))
        }),
        case("two topics", 0..=3, &[mine(DESCRIBE)], |_, _, _| {
            metadata(&["mine", "theirs"].map(|name| (Uuid(0), Some(name))), true)
        }),
        case("all topics", 0..=13, &[mine(DESCRIBE)], |_, version, _| {
            if version == 0 { metadata(&[], true) } else { all_topics(true) }
        }),
        case("topics by id", 12..=13, &[mine(DESCRIBE)], |names, _, _| {
            with_operations(metadata(&TOPICS.map(|name| (names.topic_id(name), None)), false))
        }),
        case(
            "topics that asking makes",
            0..=13,
            &[all_mine(TOPIC, DESCRIBE), all_mine(TOPIC, CREATE)],
            |_, version, seat| asked_for("mine-made", version, seat),
        ),
        case("topics that asking would make", 0..=13, &[all_mine(TOPIC, DESCRIBE)], |_, version, seat| {
            asked_for("mine-unmade", version, seat)
        }),
        case(
            "topics that asking makes in the cluster",
            0..=13,
            &[all_mine(TOPIC, DESCRIBE), of_cluster(CREATE)],
            |_, version, seat| asked_for("mine-grown", version, seat),
        ),
        case("a page", 0..=0, &[mine(DESCRIBE)], |_, _, _| page(&TOPICS, 10, None)),
        case("a page of all", 0..=0, &[mine(DESCRIBE)], |_, _, _| page(&[], 2000, None)),
        case("new topics", 2..=7, &[all_mine(TOPIC, CREATE)], new_topics),
        case(
            "new topics to be seen",
            5..=7,
            &[all_mine(TOPIC, CREATE), all_mine(TOPIC, DESCRIBE_CONFIGS)],
            new_topics,
        ),
        case("new topics in the cluster", 2..=7, &[of_cluster(CREATE)], new_topics),
        case("partitions", 0..=3, &[mine(ALTER)], |_, _, _| partitions()),
        case("delete topics", 1..=6, &[all_mine(TOPIC, DELETE)], |_, version, seat| {
            let gone = format!("mine-gone-{version}-{seat}");
            delete(version, &[&gone, "theirs", "absent", "mine-absent", "bad name"])
        }),
        case("delete topics by id", 6..=6, &[mine(DESCRIBE)], |names, _, _| by_ids(names)),
    ]
}

fn about_settings() -> Vec<Case> {
    vec![
        case("settings", 1..=4, &[mine(DESCRIBE_CONFIGS)], |_, _, _| settings()),
        case("settings of the broker", 1..=4, &[of_cluster(DESCRIBE_CONFIGS)], |_, _, _| settings()),
        case("settings of groups", 1..=4, &[all_mine(GROUP, DESCRIBE_CONFIGS)], |_, _, _| settings()),
        case("new settings", 0..=1, &[mine(ALTER_CONFIGS)], |_, _, _| new_settings()),
        case("new settings of the broker", 0..=1, &[of_cluster(ALTER_CONFIGS)], |_, _, _| new_settings()),
        case("new settings of groups", 0..=1, &[all_mine(GROUP, ALTER_CONFIGS)], |_, _, _| new_settings()),
        case("all new settings", 0..=2, &[mine(ALTER_CONFIGS)], |_, _, _| replaced_settings()),
    ]
}

fn about_groups() -> Vec<Case> {
    vec![
        case("coordinators", 0..=6, &[all_mine(GROUP, DESCRIBE)], |_, version, _| {
            let key = ["mine-group", "theirs-group"][usize::from(version == 1)];
            AnyRequest::FindCoordinator(find_coordinator::FindCoordinatorRequest {
                key: key.to_owned(),
                key_type: 0,
                coordinator_keys: GROUPS.map(str::to_owned).to_vec(),
            })
        }),
        case("join", 0..=9, &[all_mine(GROUP, READ)], |names, version, seat| {
            let group = format!("mine-joined-{version}-{seat}");
            AnyRequest::JoinGroup(group_requests::join(&group, seat, names))
        }),
        case("sync", 0..=5, &[all_mine(GROUP, READ)], |names, _, seat| {
            AnyRequest::SyncGroup(group_requests::sync("mine-group", seat, names))
        }),
        case("heartbeat", 0..=4, &[all_mine(GROUP, READ)], |_, _, _| {
            AnyRequest::Heartbeat(heartbeat::HeartbeatRequest {
                group_id: "mine-group".to_owned(),
                member_id: "nobody".to_owned(),
                ..Default::default()
            })
        }),
        case("leave", 0..=5, &[all_mine(GROUP, READ)], |_, _, _| {
            AnyRequest::LeaveGroup(leave_group::LeaveGroupRequest {
                group_id: "mine-group".to_owned(),
                member_id: "nobody".to_owned(),
                members: vec![group_requests::leaver("nobody", None)],
            })
        }),
        case("commit", 2..=10, &[all_mine(GROUP, READ), mine(READ)], committed),
        case("commit of no topic", 2..=10, &[all_mine(GROUP, READ)], committed),
        case("offsets", 1..=10, &[all_mine(GROUP, DESCRIBE), mine(DESCRIBE)], |names, _, _| {
            let topics: &[(&str, &[i32])] = &[("theirs", &[0, 1]), ("mine", &[0, 9]), ("absent", &[0])];
            group_requests::fetch(names, &GROUPS, Some(topics), false)
        }),
        case("all offsets", 2..=10, &[all_mine(GROUP, DESCRIBE), mine(DESCRIBE)], |names, _, _| {
            group_requests::fetch(names, &GROUPS, None, false)
        }),
        case("delete offsets", 0..=0, &[all_mine(GROUP, DELETE), mine(READ)], |_, _, _| {
            group_requests::forget("mine-group", &[("theirs", &[0]), ("mine", &[9]), ("absent", &[0])])
        }),
        case("groups", 0..=6, &[all_mine(GROUP, DESCRIBE)], |_, _, _| describe_groups(&GROUPS)),
        case("all groups", 0..=5, &[all_mine(GROUP, DESCRIBE)], |_, _, _| {
            AnyRequest::ListGroups(Default::default())
        }),
        case("all groups of the cluster", 0..=5, &[of_cluster(DESCRIBE)], |_, _, _| {
            AnyRequest::ListGroups(Default::default())
        }),
        case("delete groups", 0..=2, &[all_mine(GROUP, DELETE)], |_, _, _| {
            delete_groups(&["theirs-group", "mine-absent", "absent", "absent"])
        }),
    ]
}

fn about_the_cluster() -> Vec<Case> {
    vec![
        case("the cluster", 0..=2, &[of_cluster(DESCRIBE)], |_, _, _| cluster()),
        case("what may be done with it", 0..=2, &[of_cluster(ALTER)], |_, _, _| cluster()),
        case("disk use", 1..=5, &[of_cluster(DESCRIBE)], |_, _, _| {
            AnyRequest::DescribeLogDirs(Default::default())
        }),
        case("moves", 0..=0, &[of_cluster(DESCRIBE)], |_, _, _| {
            AnyRequest::ListPartitionReassignments(Default::default())
        }),
        case("rules", 1..=3, &[of_cluster(DESCRIBE)], |_, _, _| {
            show_rules(Filter { name: Some("mine"), ..Filter::default() })
        }),
        case("new rules", 1..=3, &[of_cluster(ALTER)], |_, _, _| {
            create_rules(&[
                Rule { name: "new", user: "new", ..Rule::default() },
                Rule { name: "", ..Rule::default() },
            ])
        }),
        case("no rules", 1..=3, &[of_cluster(ALTER)], |_, _, _| {
            delete_rules(&[
                Filter { name: Some("nothing"), ..Filter::default() },
                Filter { kind: 99, ..Filter::default() },
            ])
        }),
        case("passwords", 0..=0, &[of_cluster(DESCRIBE)], |_, _, _| show_users(Some(&["some", "ghost"]))),
        case("all passwords", 0..=0, &[of_cluster(DESCRIBE)], |_, _, _| show_users(Some(&[]))),
        case("quotas", 0..=1, &[of_cluster(DESCRIBE_CONFIGS)], |_, _, _| {
            show_quotas(&[("user", 2, None)], true)
        }),
        case("new passwords", 0..=0, &[of_cluster(ALTER)], |_, _, _| {
            let given = Given {
                name: "new".to_owned(),
                mechanism: 1,
                iterations: 1,
                salt: Bytes::new(),
                salted: Bytes::new(),
            };
            alter_users(&[("ghost", 1), ("ghost", 2), ("other", 9)], &[given])
        }),
    ]
}

fn some_records(names: &Names) -> AnyRequest {
    let records = records(1, batch::Codec::None, None);
    let data = TOPICS.map(|name| produce::TopicProduceData {
        name: name.to_owned(),
        topic_id: names.topic_id(name),
        partition_data: [0, 9]
            .map(|index| produce::PartitionProduceData { index, records: Some(records.clone()) })
            .to_vec(),
    });
    AnyRequest::Produce(produce::ProduceRequest {
        acks: -1,
        timeout_ms: 10_000,
        topic_data: data.to_vec(),
        ..Default::default()
    })
}

fn fetches(names: &Names, version: i16) -> AnyRequest {
    let topics = TOPICS.map(|name| fetch::FetchTopic {
        topic: if version < 13 { name.to_owned() } else { String::new() },
        topic_id: names.topic_id(name),
        partitions: [0, 9]
            .map(|partition| fetch::FetchPartition {
                partition,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            })
            .to_vec(),
    });
    AnyRequest::Fetch(fetch::FetchRequest {
        replica_id: -1,
        min_bytes: 1,
        max_bytes: 50 << 20,
        session_epoch: -1,
        topics: topics.to_vec(),
        ..Default::default()
    })
}

fn offsets() -> AnyRequest {
    let topics = TOPICS.map(|name| list_offsets::ListOffsetsTopic {
        name: name.to_owned(),
        partitions: [0, 9]
            .map(|partition_index| list_offsets::ListOffsetsPartition {
                partition_index,
                current_leader_epoch: -1,
                timestamp: -1,
            })
            .to_vec(),
    });
    AnyRequest::ListOffsets(list_offsets::ListOffsetsRequest {
        replica_id: -1,
        topics: topics.to_vec(),
        ..Default::default()
    })
}

fn epochs() -> AnyRequest {
    let topics = TOPICS.map(|name| offset_for_leader_epoch::OffsetForLeaderTopic {
        topic: name.to_owned(),
        partitions: [0, 9]
            .map(|partition| offset_for_leader_epoch::OffsetForLeaderPartition {
                partition,
                current_leader_epoch: -1,
                leader_epoch: 0,
            })
            .to_vec(),
    });
    AnyRequest::OffsetForLeaderEpoch(offset_for_leader_epoch::OffsetForLeaderEpochRequest {
        replica_id: -1,
        topics: topics.to_vec(),
    })
}

fn no_records() -> AnyRequest {
    let topics = TOPICS.map(|name| delete_records::DeleteRecordsTopic {
        name: name.to_owned(),
        partitions: [0, 9]
            .map(|partition_index| delete_records::DeleteRecordsPartition { partition_index, offset: 0 })
            .to_vec(),
    });
    AnyRequest::DeleteRecords(delete_records::DeleteRecordsRequest {
        topics: topics.to_vec(),
        timeout_ms: 10_000,
    })
}

fn with_operations(request: AnyRequest) -> AnyRequest {
    let AnyRequest::Metadata(mut request) = request else { unreachable!("it is one") };
    request.include_cluster_authorized_operations = true;
    request.include_topic_authorized_operations = true;
    AnyRequest::Metadata(request)
}

fn asked_for(name: &str, version: i16, seat: usize) -> AnyRequest {
    metadata(&[(Uuid(0), Some(&format!("{name}-{version}-{seat}"))), (Uuid(0), Some("theirs-unmade"))], true)
}

fn new_topics(_: &Names, version: i16, _: usize) -> AnyRequest {
    let names =
        [format!("mine-new-{version}"), "theirs-new".to_owned(), "mine".to_owned(), "mine bad".to_owned()];
    let mut topics = names.map(|name| topic(&name, 1, 1)).to_vec();
    topics.push(topic("theirs-twice", 1, 1));
    topics.push(topic("theirs-twice", 1, 1));
    create(&topics, true)
}

fn partitions() -> AnyRequest {
    let topic = |(name, count): (&str, i32)| create_partitions::CreatePartitionsTopic {
        name: name.to_owned(),
        count,
        assignments: None,
    };
    AnyRequest::CreatePartitions(create_partitions::CreatePartitionsRequest {
        topics: [("mine", 5), ("theirs", 5), ("absent", 5), ("theirs-twice", 1), ("theirs-twice", 2)]
            .map(topic)
            .to_vec(),
        timeout_ms: 10_000,
        validate_only: true,
    })
}

/// Who may see a topic, and not delete it, learns its name from its id.
fn by_ids(names: &Names) -> AnyRequest {
    let state = |topic_id| delete_topics::DeleteTopicState { name: None, topic_id };
    AnyRequest::DeleteTopics(delete_topics::DeleteTopicsRequest {
        topics: TOPICS.map(|name| state(names.topic_id(name))).to_vec(),
        timeout_ms: 10_000,
        ..Default::default()
    })
}

/// A kind of settings, and whose they are.
const SETTLED: [(i8, &str); 8] = [
    (2, "mine"),
    (2, "theirs"),
    (2, "absent"),
    (4, "1"),
    (4, ""),
    (32, "mine-group"),
    (32, "theirs-group"),
    (77, "mine"),
];

fn settings() -> AnyRequest {
    let keys = ["retention.ms", "message.max.bytes", "consumer.session.timeout.ms"];
    let resource = |(resource_type, name): (i8, &str)| describe_configs::DescribeConfigsResource {
        resource_type,
        resource_name: name.to_owned(),
        configuration_keys: Some(keys.map(str::to_owned).to_vec()),
    };
    AnyRequest::DescribeConfigs(describe_configs::DescribeConfigsRequest {
        resources: SETTLED[..7].iter().copied().map(resource).collect(),
        ..Default::default()
    })
}

fn new_settings() -> AnyRequest {
    let resource = |(resource_type, name): (i8, &str)| incremental_alter_configs::AlterConfigsResource {
        resource_type,
        resource_name: name.to_owned(),
        configs: vec![incremental_alter_configs::AlterableConfig {
            name: match resource_type {
                4 => "message.max.bytes",
                32 => "consumer.session.timeout.ms",
                _ => "retention.ms",
            }
            .to_owned(),
            config_operation: 0,
            value: Some("50000".to_owned()),
        }],
    };
    AnyRequest::IncrementalAlterConfigs(incremental_alter_configs::IncrementalAlterConfigsRequest {
        resources: SETTLED.map(resource).to_vec(),
        validate_only: true,
    })
}

fn replaced_settings() -> AnyRequest {
    let resource = |name: &str| alter_configs::AlterConfigsResource {
        resource_type: 2,
        resource_name: name.to_owned(),
        configs: vec![alter_configs::AlterableConfig {
            name: "retention.ms".to_owned(),
            value: Some("50000".to_owned()),
        }],
    };
    AnyRequest::AlterConfigs(alter_configs::AlterConfigsRequest {
        resources: TOPICS.map(resource).to_vec(),
        validate_only: true,
    })
}

fn committed(names: &Names, _: i16, seat: usize) -> AnyRequest {
    let mut request =
        commit("mine-group", seat, names, &[("theirs", &[0]), ("mine", &[0, 9]), ("absent", &[0])]);
    simple(names, &mut request);
    AnyRequest::OffsetCommit(request)
}
