//! The permission table: what each op needs, and what is answered without it. A live Kafka 4.3 gave the answers.

use std::collections::BTreeSet;

use super::ops::{
    alter_configs, alter_user_scram_credentials, create_acls, create_partitions, create_topics, delete_acls,
    delete_groups, delete_records, delete_topics, describe_acls, describe_client_quotas, describe_configs,
    describe_groups, describe_topic_partitions, describe_user_scram_credentials, fetch, find_coordinator,
    heartbeat, id, init_producer_id, join_group, leave_group, list_groups, list_offsets, metadata, named,
    offset_commit, offset_delete, offset_fetch, offset_for_leader_epoch, produce, resource, sync_group,
};
use super::{Right, Screened, ann, cluster, group, rules, screened, topic};
use crate::access::{Judge, Operation as O, ResourceType};
use crate::error_code::ErrorCode;
use crate::op::{self, Op};
use crate::reply::{Refusal, Reply};

const TOPIC: Option<i16> = Some(29);
const GROUP: Option<i16> = Some(30);
const CLUSTER: Option<i16> = Some(31);
const TRANSACTIONAL_ID: Option<i16> = Some(53);

/// An op, the sets of rights each of which is enough, and the code that is answered to whoever has none.
type Row = (Op, Vec<Vec<Right>>, Option<i16>);

fn table() -> Vec<Row> {
    let transactional_id = (O::Write, ResourceType::TransactionalId, "x");
    let group_settings = |operation| (operation, ResourceType::Group, "g");
    vec![
        (
            metadata(Some(vec![named("t")])),
            vec![vec![topic(O::Describe, "t")], vec![topic(O::Read, "t")]],
            TOPIC,
        ),
        (metadata(Some(vec![id(1)])), vec![vec![topic(O::Describe, "t")]], TOPIC),
        (
            metadata(Some(vec![named("new")])),
            vec![
                vec![topic(O::Describe, "new"), topic(O::Create, "new")],
                vec![topic(O::Describe, "new"), cluster(O::Create)],
            ],
            TOPIC,
        ),
        (produce(vec![named("t")]), vec![vec![topic(O::Write, "t")]], TOPIC),
        (produce(vec![id(1)]), vec![vec![topic(O::Write, "t")]], TOPIC),
        (list_offsets(&["t"]), vec![vec![topic(O::Describe, "t")]], TOPIC),
        (
            offset_for_leader_epoch(),
            vec![vec![topic(O::Describe, "t")], vec![cluster(O::ClusterAction)]],
            TOPIC,
        ),
        (create_topics(&["t"]), vec![vec![topic(O::Create, "t")], vec![cluster(O::Create)]], TOPIC),
        (delete_topics(vec![named("t")]), vec![vec![topic(O::Delete, "t")], vec![cluster(O::Delete)]], TOPIC),
        (delete_topics(vec![id(1)]), vec![vec![topic(O::Delete, "t")], vec![cluster(O::Delete)]], TOPIC),
        (create_partitions(&["t"]), vec![vec![topic(O::Alter, "t")]], TOPIC),
        (delete_records(), vec![vec![topic(O::Delete, "t")]], TOPIC),
        (describe_topic_partitions(&["t"], None), vec![vec![topic(O::Describe, "t")]], TOPIC),
        (
            init_producer_id(None),
            vec![vec![cluster(O::IdempotentWrite)], vec![topic(O::Write, "whatever")]],
            CLUSTER,
        ),
        (init_producer_id(Some("x")), vec![vec![transactional_id]], TRANSACTIONAL_ID),
        (
            describe_configs(vec![resource(2, "t")]),
            vec![vec![topic(O::DescribeConfigs, "t")], vec![topic(O::AlterConfigs, "t")]],
            TOPIC,
        ),
        (describe_configs(vec![resource(4, "1")]), vec![vec![cluster(O::DescribeConfigs)]], CLUSTER),
        (describe_configs(vec![resource(8, "1")]), vec![vec![cluster(O::DescribeConfigs)]], CLUSTER),
        (describe_configs(vec![resource(16, "m")]), vec![vec![cluster(O::DescribeConfigs)]], CLUSTER),
        (describe_configs(vec![resource(32, "g")]), vec![vec![group_settings(O::DescribeConfigs)]], GROUP),
        (alter_configs(vec![resource(2, "t")]), vec![vec![topic(O::AlterConfigs, "t")]], TOPIC),
        (alter_configs(vec![resource(4, "1")]), vec![vec![cluster(O::AlterConfigs)]], CLUSTER),
        (alter_configs(vec![resource(32, "g")]), vec![vec![group_settings(O::AlterConfigs)]], GROUP),
        (
            Op::DescribeLogDirs(op::DescribeLogDirs { topics: None }),
            vec![vec![cluster(O::Describe)]],
            CLUSTER,
        ),
        (
            Op::ListPartitionReassignments(op::ListPartitionReassignments { topics: None }),
            vec![vec![cluster(O::Describe)], vec![cluster(O::Alter)]],
            CLUSTER,
        ),
        (join_group(), vec![vec![group(O::Read)]], GROUP),
        (sync_group(Some("range")), vec![vec![group(O::Read)]], GROUP),
        (heartbeat(), vec![vec![group(O::Read)]], GROUP),
        (leave_group(), vec![vec![group(O::Read)]], GROUP),
        (offset_commit(vec![named("t")]), vec![vec![group(O::Read), topic(O::Read, "t")]], GROUP),
        (
            offset_fetch(vec![("g", Some(vec![named("t")]))]),
            vec![
                vec![group(O::Describe), topic(O::Describe, "t")],
                vec![group(O::Read), topic(O::Read, "t")],
            ],
            GROUP,
        ),
        (offset_fetch(vec![("g", None)]), vec![vec![group(O::Describe)]], GROUP),
        (offset_delete(&["t"]), vec![vec![group(O::Delete), topic(O::Read, "t")]], GROUP),
        (describe_groups(&["g"]), vec![vec![group(O::Describe)]], GROUP),
        (delete_groups(&["g"]), vec![vec![group(O::Delete)]], GROUP),
        (find_coordinator(&["g"]), vec![vec![group(O::Describe)]], GROUP),
        (create_acls(), vec![vec![cluster(O::Alter)]], CLUSTER),
        (describe_acls(), vec![vec![cluster(O::Describe)]], CLUSTER),
        (delete_acls(), vec![vec![cluster(O::Alter)]], CLUSTER),
        (describe_client_quotas(), vec![vec![cluster(O::DescribeConfigs)]], CLUSTER),
        (describe_user_scram_credentials(), vec![vec![cluster(O::Describe)]], CLUSTER),
        (alter_user_scram_credentials(), vec![vec![cluster(O::Alter)]], CLUSTER),
        // What is left out, or not, is seen in the replies.
        (metadata(None), vec![vec![]], None),
        (list_groups(), vec![vec![]], None),
        (Op::DescribeCluster(op::DescribeCluster { endpoint_type: 1 }), vec![vec![]], None),
        // These come from gateways.
        (Op::Enter, vec![vec![]], None),
        (Op::Credentials(op::Credentials { org: None, user: "ann".to_owned() }), vec![vec![]], None),
    ]
}

/// The place of each kind of op, so that none is missing in the table.
fn place(op: &Op) -> usize {
    match op {
        Op::Metadata(_) => 0,
        Op::Produce(_) => 1,
        Op::Fetch(_) => 2,
        Op::ListOffsets(_) => 3,
        Op::OffsetForLeaderEpoch(_) => 4,
        Op::CreateTopics(_) => 5,
        Op::DeleteTopics(_) => 6,
        Op::CreatePartitions(_) => 7,
        Op::DeleteRecords(_) => 8,
        Op::InitProducerId(_) => 9,
        Op::DescribeConfigs(_) => 10,
        Op::AlterConfigs(_) => 11,
        Op::DescribeTopicPartitions(_) => 12,
        Op::DescribeLogDirs(_) => 13,
        Op::ListPartitionReassignments(_) => 14,
        Op::DescribeCluster(_) => 15,
        Op::JoinGroup(_) => 16,
        Op::SyncGroup(_) => 17,
        Op::Heartbeat(_) => 18,
        Op::LeaveGroup(_) => 19,
        Op::OffsetCommit(_) => 20,
        Op::OffsetFetch(_) => 21,
        Op::OffsetDelete(_) => 22,
        Op::ListGroups(_) => 23,
        Op::DescribeGroups(_) => 24,
        Op::DeleteGroups(_) => 25,
        Op::FindCoordinator(_) => 26,
        Op::Credentials(_) => 27,
        Op::Enter => 28,
        Op::CreateAcls(_) => 29,
        Op::DescribeAcls(_) => 30,
        Op::DeleteAcls(_) => 31,
        Op::DescribeUserScramCredentials(_) => 32,
        Op::AlterUserScramCredentials(_) => 33,
        Op::DescribeClientQuotas(_) => 34,
    }
}

/// The only code in a reply; `None` where it has none.
fn code_of(reply: &Reply) -> Option<i16> {
    let of = |refusal: &Refusal| refusal.code;
    let codes: Vec<ErrorCode> = match reply {
        Reply::Metadata(reply) => reply.topics.iter().filter_map(|topic| topic.error).collect(),
        Reply::Produce(reply) => {
            let partitions = reply.topics.iter().flat_map(|topic| &topic.partitions);
            partitions
                .filter_map(|partition| partition.result.as_ref().err())
                .map(|why| why.refusal.code)
                .collect()
        }
        Reply::Fetch(_) | Reply::Credentials(_) | Reply::Enter(_) => Vec::new(),
        Reply::ListOffsets(reply) => {
            let partitions = reply.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.filter_map(|partition| partition.result.err()).collect()
        }
        Reply::OffsetForLeaderEpoch(reply) => {
            let partitions = reply.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.filter_map(|partition| partition.result.err()).collect()
        }
        Reply::CreateTopics(reply) => {
            reply.topics.iter().filter_map(|topic| topic.result.as_ref().err()).map(of).collect()
        }
        Reply::DeleteTopics(reply) => {
            reply.topics.iter().filter_map(|topic| topic.error.as_ref()).map(of).collect()
        }
        Reply::CreatePartitions(reply) => {
            reply.topics.iter().filter_map(|(_, error)| error.as_ref()).map(of).collect()
        }
        Reply::DeleteRecords(reply) => {
            let partitions = reply.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.filter_map(|(_, result)| result.err()).collect()
        }
        Reply::InitProducerId(reply) => reply.result.err().into_iter().collect(),
        Reply::DescribeConfigs(reply) => {
            reply.resources.iter().filter_map(|(_, result)| result.as_ref().err()).map(of).collect()
        }
        Reply::AlterConfigs(reply) => {
            reply.resources.iter().filter_map(|(_, error)| error.as_ref()).map(of).collect()
        }
        Reply::DescribeTopicPartitions(reply) => {
            reply.topics.iter().filter_map(|topic| topic.error).collect()
        }
        Reply::DescribeLogDirs(reply) => reply.result.as_ref().err().copied().into_iter().collect(),
        Reply::ListPartitionReassignments(reply) => reply.error.iter().map(of).collect(),
        Reply::DescribeCluster(reply) => reply.result.as_ref().err().map(of).into_iter().collect(),
        Reply::JoinGroup(reply) => reply.result.as_ref().err().copied().into_iter().collect(),
        Reply::SyncGroup(reply) => reply.result.as_ref().err().copied().into_iter().collect(),
        Reply::Heartbeat(reply) => reply.error.into_iter().collect(),
        Reply::LeaveGroup(reply) => reply.result.as_ref().err().copied().into_iter().collect(),
        Reply::OffsetCommit(reply) => {
            let partitions = reply.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.filter_map(|(_, error)| *error).collect()
        }
        Reply::OffsetFetch(reply) => reply.groups.iter().filter_map(|group| group.error).collect(),
        Reply::OffsetDelete(reply) => match &reply.result {
            Ok(topics) => {
                topics.iter().flat_map(|(_, partitions)| partitions).filter_map(|(_, error)| *error).collect()
            }
            Err(code) => vec![*code],
        },
        Reply::ListGroups(reply) => reply.result.as_ref().err().copied().into_iter().collect(),
        Reply::DescribeGroups(reply) => reply.groups.iter().filter_map(|group| group.error).collect(),
        Reply::DeleteGroups(reply) => reply.groups.iter().filter_map(|(_, error)| *error).collect(),
        Reply::FindCoordinator(reply) => {
            reply.groups.iter().filter_map(|(_, error)| error.as_ref()).map(of).collect()
        }
        Reply::CreateAcls(reply) => reply.results.iter().flatten().map(of).collect(),
        Reply::DescribeAcls(reply) => reply.result.as_ref().err().map(of).into_iter().collect(),
        Reply::DeleteAcls(reply) => {
            reply.results.iter().filter_map(|result| result.as_ref().err()).map(of).collect()
        }
        Reply::DescribeClientQuotas(reply) => reply.error.iter().map(of).collect(),
        Reply::DescribeUserScramCredentials(reply) => {
            reply.result.as_ref().err().map(of).into_iter().collect()
        }
        Reply::AlterUserScramCredentials(reply) => {
            reply.users.iter().filter_map(|(_, error)| error.as_ref()).map(of).collect()
        }
    };
    assert!(codes.windows(2).all(|pair| pair[0] == pair[1]), "{codes:?}");
    codes.first().map(|code| code.number())
}

/// What is answered for the parts of an op that are not allowed; `None` where all are.
fn refusal(rights: &[Right], op: &Op) -> Option<i16> {
    match screened(rights, op.clone()) {
        Screened::Refused(reply) => Some(code_of(&reply).expect("a refusal has a code")),
        Screened::Allowed(left, _) if left == *op => None,
        Screened::Allowed(left, mend) => {
            // Nothing of these is known without asking further, but what is known is in the mended reply.
            let empty = match left {
                Op::Metadata(_) => Reply::Metadata(crate::reply::Metadata {
                    cluster_id: String::new(),
                    topics: Vec::new(),
                    operations: crate::access::Operations::OF_CLUSTER,
                }),
                Op::OffsetFetch(_) => return Some(ErrorCode::TopicAuthorizationFailed.number()),
                other => panic!("{other:?} has only one part, and that is refused"),
            };
            let rules = rules(rights);
            Some(code_of(&mend.apply(&ann(&rules), empty)).expect("what is taken out is refused"))
        }
        Screened::Fetch(_) => panic!("whoever reads knows what is refused"),
    }
}

/// Proves GATE-10 with the rows of joins, syncs, heartbeats, leaves and commits.
#[test]
fn every_op_is_refused_with_kafkas_code_and_needs_what_kafka_asks_for() {
    for (op, enough, code) in table() {
        assert_eq!(refusal(&[], &op), code, "{op:?}");
        for rights in enough {
            assert_eq!(refusal(&rights, &op), None, "{op:?} with {rights:?}");
            for without in 0..rights.len() {
                let mut fewer = rights.clone();
                fewer.remove(without);
                assert!(refusal(&fewer, &op).is_some(), "{op:?} with {fewer:?}");
            }
        }
    }
}

#[test]
fn no_kind_of_op_is_missing_in_the_table() {
    let mut places: BTreeSet<usize> = table().iter().map(|(op, ..)| place(op)).collect();
    places.insert(place(&fetch()));
    assert_eq!(places, (0..35).collect());
}

#[test]
fn rights_to_other_things_do_not_help() {
    let others = [
        topic(O::All, "other"),
        (O::All, ResourceType::Group, "other"),
        (O::All, ResourceType::TransactionalId, "other"),
        (O::All, ResourceType::User, "ann"),
    ];
    for (op, _, code) in table() {
        // Who may write any topic may write with idempotence.
        if !matches!(&op, Op::InitProducerId(op) if op.transactional_id.is_none()) {
            assert_eq!(refusal(&others, &op), code, "{op:?}");
        }
    }
}

#[test]
fn super_users_and_lonely_resources_pass() {
    let rules = rules(&[]);
    for (op, ..) in table() {
        for judge in
            [Judge { is_super: true, ..ann(&rules) }, Judge { everyone_if_no_rule: true, ..ann(&rules) }]
        {
            match super::screen(&judge, op.clone(), &super::World) {
                Screened::Allowed(left, _) => assert_eq!(left, op),
                other => panic!("{op:?} became {other:?}"),
            }
        }
    }
}

#[test]
fn a_fetch_is_left_to_whoever_knows_its_session() {
    let Op::Fetch(op) = fetch() else { panic!("it is a fetch") };
    assert_eq!(screened(&[], fetch()), Screened::Fetch(op));
    assert!(!ann(&rules(&[])).may_read("t"));
    assert!(!ann(&rules(&[topic(O::Describe, "t")])).may_read("t"));
    assert!(ann(&rules(&[topic(O::Read, "t")])).may_read("t"));
}

#[test]
fn the_group_of_a_commit_comes_before_its_topics() {
    assert_eq!(refusal(&[topic(O::Read, "t")], &offset_commit(vec![named("t")])), GROUP);
    assert_eq!(refusal(&[group(O::Read)], &offset_commit(vec![named("t")])), TOPIC);
    assert_eq!(refusal(&[group(O::Read)], &offset_commit(vec![id(1)])), TOPIC);
    assert_eq!(refusal(&[group(O::Read)], &offset_commit(vec![id(9)])), None, "an unknown id is no secret");
}

#[test]
fn a_sync_that_is_not_whole_is_told_so_first() {
    let expected = ErrorCode::InconsistentGroupProtocol.number();
    assert_eq!(refusal(&[], &sync_group(None)), Some(expected));
}

#[test]
fn what_is_named_twice_is_left_for_that_refusal() {
    for op in [
        create_topics(&["t", "t"]),
        delete_topics(vec![named("t"), named("t")]),
        create_partitions(&["t", "t"]),
        alter_configs(vec![resource(2, "t"), resource(2, "t")]),
    ] {
        assert_eq!(refusal(&[], &op), None, "{op:?}");
    }
}
