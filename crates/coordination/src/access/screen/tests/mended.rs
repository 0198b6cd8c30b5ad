//! What clients see of replies.

use proptest::prelude::*;

use super::super::split::{merged, take_refused};
use super::ops::{
    create_topics, delete_groups, delete_topics, describe_groups, describe_topic_partitions,
    find_coordinator, id, list_groups, list_offsets, metadata, named, offset_commit, offset_delete,
    offset_fetch, produce,
};
use super::{Right, Screened, ann, cluster, group, rules, screened, seen, topic};
use crate::access::{Operation as O, Operations};
use crate::error_code::ErrorCode;
use crate::ids::TopicId;
use crate::op::{self, Op, TopicRef};
use crate::reply::{self, FetchedOffset, FoundOffset, GroupState, Refusal, Reply, TopicMetadata};

const NOT_THIS_TOPIC: Option<ErrorCode> = Some(ErrorCode::TopicAuthorizationFailed);

proptest! {
    #[test]
    fn what_is_taken_out_is_put_back_where_it_was(parts in prop::collection::vec((0..100, any::<bool>()), 0..20)) {
        let mut allowed = parts.clone();
        let refused = take_refused(&mut allowed, |(_, may)| *may, |part| part);
        prop_assert!(allowed.iter().all(|(_, may)| *may));
        prop_assert!(refused.iter().all(|(_, (_, may))| !may));
        prop_assert_eq!(merged(allowed, refused), parts);
    }
}

fn shown(name: &str, number: u128) -> TopicMetadata {
    TopicMetadata {
        error: None,
        name: Some(name.to_owned()),
        id: TopicId::from_u128(number),
        internal: false,
        partitions: Vec::new(),
        operations: Operations::OF_TOPIC,
    }
}

fn all_metadata(topics: Vec<TopicMetadata>) -> Reply {
    Reply::Metadata(reply::Metadata {
        cluster_id: "c".to_owned(),
        topics,
        operations: Operations::OF_CLUSTER,
    })
}

/// The name, code and operations of a topic in a reply.
type Told = (Option<String>, Option<ErrorCode>, i32);

/// What a reply tells of topics, and the operations on the cluster.
fn summary(reply: Reply) -> (Vec<Told>, i32) {
    let Reply::Metadata(reply) = reply else { panic!("{reply:?} is not about topics") };
    let topic = |topic: TopicMetadata| (topic.name, topic.error, topic.operations.bits());
    (reply.topics.into_iter().map(topic).collect(), reply.operations.bits())
}

#[test]
fn all_topics_are_those_that_may_be_seen_with_what_may_be_done() {
    let rights = [topic(O::Read, "u"), topic(O::Write, "hidden-no-longer"), cluster(O::Alter)];
    let reply = all_metadata(vec![shown("t", 1), shown("u", 2)]);
    let (topics, cluster) = summary(seen(&rights, metadata(None), reply.clone()));
    let read_and_describe = (1 << 3) | (1 << 8);
    assert_eq!(topics, [(Some("u".to_owned()), None, read_and_describe)]);
    assert_eq!(cluster, (1 << 7) | (1 << 8));
    let (topics, cluster) = summary(seen(&[], metadata(None), reply));
    assert_eq!((topics, cluster), (Vec::new(), 0));
}

#[test]
fn named_topics_are_refused_in_their_places() {
    let rights = [topic(O::Describe, "t")];
    let asked = ["no", "t", "nor-this"].map(named).to_vec();
    let Screened::Allowed(left, _) = screened(&rights, metadata(Some(asked.clone()))) else {
        panic!("t is allowed")
    };
    assert_eq!(left, metadata(Some(vec![named("t")])));
    let (topics, _) = summary(seen(&rights, metadata(Some(asked)), all_metadata(vec![shown("t", 1)])));
    let names: Vec<_> = topics.iter().map(|(name, error, _)| (name.as_deref(), *error)).collect();
    assert_eq!(names, [(Some("no"), NOT_THIS_TOPIC), (Some("t"), None), (Some("nor-this"), NOT_THIS_TOPIC)]);
}

#[test]
fn an_id_does_not_tell_its_name() {
    let Reply::Metadata(reply) = seen(&[], metadata(Some(vec![id(1), named("t")])), all_metadata(Vec::new()))
    else {
        panic!("metadata is answered with metadata");
    };
    let told: Vec<_> = reply.topics.into_iter().map(|topic| (topic.name, topic.id, topic.error)).collect();
    assert_eq!(told, [(None, TopicId::from_u128(1), NOT_THIS_TOPIC)]);
}

#[test]
fn a_topic_that_asking_would_make_must_be_one_that_may_be_made() {
    let rights = [topic(O::Describe, "new"), topic(O::Describe, "newer"), topic(O::Create, "newer")];
    let op = metadata(Some(vec![named("new"), named("newer")]));
    let Screened::Allowed(left, _) = screened(&rights, op) else { panic!("newer is allowed") };
    assert_eq!(left, metadata(Some(vec![named("newer")])));
    // Whoever only asks may ask for what is not there.
    let ask = |topics| Op::Metadata(op::Metadata { topics: Some(topics), allow_auto_topic_creation: false });
    let Screened::Allowed(left, _) = screened(&rights, ask(vec![named("new")])) else {
        panic!("new may be seen")
    };
    assert_eq!(left, ask(vec![named("new")]));
}

#[test]
fn refused_parts_are_answered_between_the_others() {
    let found = |name: &str| reply::ListOffsetsTopic {
        name: name.to_owned(),
        partitions: vec![reply::ListOffsetsPartition { index: 0, result: Ok(FoundOffset::NONE) }],
    };
    let rights = [topic(O::Describe, "t"), topic(O::Describe, "u")];
    let reply = Reply::ListOffsets(reply::ListOffsets { topics: vec![found("t"), found("u")] });
    let Reply::ListOffsets(reply) = seen(&rights, list_offsets(&["1", "t", "2", "3", "u", "4"]), reply)
    else {
        panic!("offsets are answered with offsets");
    };
    let told: Vec<_> =
        reply.topics.iter().map(|topic| (topic.name.as_str(), topic.partitions[0].result.is_ok())).collect();
    assert_eq!(told, [("1", false), ("t", true), ("2", false), ("3", false), ("u", true), ("4", false)]);
}

#[test]
fn records_go_only_where_they_may() {
    let op = produce(vec![id(2), named("t"), id(9)]);
    let Screened::Allowed(left, mend) = screened(&[topic(O::Write, "t")], op) else { panic!("t is allowed") };
    assert_eq!(left, produce(vec![named("t"), id(9)]));
    assert!(!mend.is_nothing());
    let Screened::Allowed(_, mend) = screened(&[topic(O::Write, "t")], produce(vec![named("t"), id(1)]))
    else {
        panic!("t is allowed");
    };
    assert!(mend.is_nothing());
}

#[test]
fn the_settings_of_a_new_topic_are_shown_to_who_may_see_them() {
    let made = |name: &str| reply::CreatedTopic {
        name: name.to_owned(),
        result: Ok(reply::TopicMade {
            id: TopicId::from_u128(7),
            num_partitions: 3,
            replication_factor: 1,
            configs: Some(Vec::new()),
        }),
    };
    let rights = [cluster(O::Create), topic(O::DescribeConfigs, "seen")];
    let reply = Reply::CreateTopics(reply::CreateTopics { topics: vec![made("seen"), made("unseen")] });
    let Reply::CreateTopics(reply) = seen(&rights, create_topics(&["seen", "unseen"]), reply) else {
        panic!("new topics are answered with new topics");
    };
    assert_eq!(reply.topics[0], made("seen"));
    let hidden = reply::TopicMade {
        id: TopicId::from_u128(7),
        num_partitions: -1,
        replication_factor: -1,
        configs: None,
    };
    assert_eq!(reply.topics[1].result, Ok(hidden));
}

#[test]
fn only_who_may_see_a_topic_learns_whether_it_is_there() {
    let told = |rights: &[Right], topic: TopicRef| match screened(rights, delete_topics(vec![topic])) {
        Screened::Refused(Reply::DeleteTopics(reply)) => {
            let topic = &reply.topics[0];
            Some((topic.name.clone(), topic.id.as_u128(), topic.error.as_ref().map(|error| error.code)))
        }
        Screened::Allowed(..) => None,
        other => panic!("{other:?} is no answer to this"),
    };
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(told(&[], named("t")), Some((name("t"), 0, NOT_THIS_TOPIC)));
    assert_eq!(told(&[], named("missing")), Some((name("missing"), 0, NOT_THIS_TOPIC)));
    assert_eq!(told(&[], id(1)), Some((None, 1, NOT_THIS_TOPIC)));
    assert_eq!(told(&[], id(9)), None);
    let describe = [topic(O::Describe, "t"), topic(O::Describe, "missing")];
    assert_eq!(told(&describe, named("t")), Some((name("t"), 0, NOT_THIS_TOPIC)));
    assert_eq!(told(&describe, named("missing")), None);
    assert_eq!(told(&describe, id(1)), Some((name("t"), 1, NOT_THIS_TOPIC)));
}

#[test]
fn pages_hold_only_topics_that_may_be_seen() {
    let rights = [topic(O::Describe, "u")];
    let left = |op| match screened(&rights, op) {
        Screened::Allowed(left, _) => left,
        other => panic!("{other:?}: u is allowed"),
    };
    let u = describe_topic_partitions(&["u"], None);
    assert_eq!(left(describe_topic_partitions(&[], None)), u);
    assert_eq!(left(describe_topic_partitions(&["t", "u"], None)), u);
    assert_eq!(
        left(describe_topic_partitions(&[], Some(("t", 3)))),
        u,
        "the page begins after what is hidden"
    );
    let from_u = describe_topic_partitions(&["u"], Some(("u", 1)));
    assert_eq!(left(describe_topic_partitions(&["t", "u"], Some(("u", 1)))), from_u);
    assert_eq!(left(describe_topic_partitions(&[], Some(("u", 1)))), from_u);

    let page =
        |topics| Reply::DescribeTopicPartitions(reply::DescribeTopicPartitions { topics, next_cursor: None });
    let nothing = screened(&[], describe_topic_partitions(&[], None));
    assert_eq!(nothing, Screened::Refused(page(Vec::new())), "no names would ask for all");
    let Reply::DescribeTopicPartitions(reply) =
        seen(&rights, describe_topic_partitions(&["u", "t"], None), page(vec![shown("u", 2)]))
    else {
        panic!("pages are answered with pages");
    };
    let told: Vec<_> = reply.topics.iter().map(|topic| (topic.name.as_deref(), topic.error)).collect();
    assert_eq!(told, [(Some("u"), None), (Some("t"), NOT_THIS_TOPIC)]);
    assert_eq!(reply.topics[0].operations.bits(), 1 << 8);
}

fn offsets(name: &str) -> reply::OffsetFetchTopic {
    let offset = FetchedOffset { offset: 5, ..FetchedOffset::none(0, None) };
    reply::OffsetFetchTopic { name: name.to_owned(), id: TopicId::ZERO, partitions: vec![offset] }
}

fn fetched(group: &str, topics: &[&str]) -> reply::OffsetFetchGroup {
    let topics = topics.iter().map(|name| offsets(name)).collect();
    reply::OffsetFetchGroup { group: group.to_owned(), error: None, topics }
}

/// COMMIT-18
#[test]
fn offsets_are_kept_of_topics_that_may_be_read() {
    let rights = [group(O::Read), topic(O::Read, "t")];
    let op = offset_commit(vec![named("u"), named("t"), id(2)]);
    let Screened::Allowed(left, _) = screened(&rights, op.clone()) else { panic!("t is allowed") };
    assert_eq!(left, offset_commit(vec![named("t")]));
    let done = |topic, error| reply::OffsetCommitTopic { topic, partitions: vec![(0, error)] };
    let told = |topics| Reply::OffsetCommit(reply::OffsetCommit { topics });
    let expected =
        told(vec![done(named("u"), NOT_THIS_TOPIC), done(named("t"), None), done(id(2), NOT_THIS_TOPIC)]);
    assert_eq!(seen(&rights, op, told(vec![done(named("t"), None)])), expected);
}

/// FETCH-19, FETCH-20
#[test]
fn offsets_are_told_of_groups_and_topics_that_may_be_seen() {
    let rights = [group(O::Describe), topic(O::Describe, "t")];
    let some = || Some(vec![named("u"), named("t")]);
    let op = offset_fetch(vec![("no", some()), ("g", some()), ("nor-this", None), ("g", None)]);
    let reply = reply::OffsetFetch { groups: vec![fetched("g", &["t"]), fetched("g", &["t", "u"])] };
    let Reply::OffsetFetch(reply) = seen(&rights, op, Reply::OffsetFetch(reply)) else {
        panic!("offsets are answered with offsets");
    };
    let topic = |topic: &reply::OffsetFetchTopic| (topic.name.clone(), topic.partitions[0].error);
    let told: Vec<_> = reply
        .groups
        .iter()
        .map(|group| (group.group.as_str(), group.error, group.topics.iter().map(topic).collect::<Vec<_>>()))
        .collect();
    let not_this_group = Some(ErrorCode::GroupAuthorizationFailed);
    let (t, u) = ("t".to_owned(), "u".to_owned());
    let expected = [
        ("no", not_this_group, vec![(u.clone(), not_this_group), (t.clone(), not_this_group)]),
        ("g", None, vec![(u, NOT_THIS_TOPIC), (t.clone(), None)]),
        ("nor-this", not_this_group, Vec::new()),
        ("g", None, vec![(t, None)]),
    ];
    assert_eq!(told, expected);
}

/// FETCH-21
#[test]
fn what_is_wrong_with_a_group_is_said_of_its_refused_topics_too() {
    let op = offset_fetch(vec![("g", Some(vec![named("t")]))]);
    let code = Some(ErrorCode::NotCoordinator);
    let group_reply = reply::OffsetFetchGroup { error: code, ..fetched("g", &[]) };
    let reply = Reply::OffsetFetch(reply::OffsetFetch { groups: vec![group_reply] });
    let Reply::OffsetFetch(reply) = seen(&[group(O::Describe)], op, reply) else {
        panic!("offsets are answered with offsets");
    };
    assert_eq!(reply.groups[0].topics[0].partitions, [FetchedOffset::none(0, code)]);
}

#[test]
fn offsets_are_forgotten_of_topics_that_may_be_read() {
    let rights = [group(O::Delete), topic(O::Read, "t")];
    let done = |name: &str, error| (name.to_owned(), vec![(0, error)]);
    let told = |rights: &[Right], reply| seen(rights, offset_delete(&["u", "t"]), Reply::OffsetDelete(reply));
    let both = reply::OffsetDelete { result: Ok(vec![done("u", NOT_THIS_TOPIC), done("t", None)]) };
    let reply = reply::OffsetDelete { result: Ok(vec![done("t", None)]) };
    assert_eq!(told(&rights, reply), Reply::OffsetDelete(both));
    let failed = reply::OffsetDelete { result: Err(ErrorCode::NonEmptyGroup) };
    assert_eq!(told(&rights, failed.clone()), Reply::OffsetDelete(failed));
    let neither =
        reply::OffsetDelete { result: Ok(vec![done("u", NOT_THIS_TOPIC), done("t", NOT_THIS_TOPIC)]) };
    let screened = screened(&[group(O::Delete)], offset_delete(&["u", "t"]));
    assert_eq!(screened, Screened::Refused(Reply::OffsetDelete(neither)));
}

/// LIST-07
#[test]
fn groups_are_listed_to_who_may_see_them_or_the_cluster() {
    let listed = |group: &str| reply::ListedGroup {
        group: group.to_owned(),
        protocol_type: String::new(),
        state: GroupState::Empty,
    };
    let list = |groups: &[&str]| {
        Reply::ListGroups(reply::ListGroups {
            result: Ok(groups.iter().map(|group| listed(group)).collect()),
        })
    };
    let told = |rights: &[Right]| seen(rights, list_groups(), list(&["g", "h"]));
    assert_eq!(told(&[]), list(&[]));
    assert_eq!(told(&[group(O::Read)]), list(&["g"]));
    assert_eq!(told(&[cluster(O::Describe)]), list(&["g", "h"]));
}

#[test]
fn described_groups_show_what_may_be_done_with_them() {
    let described = |error| reply::DescribedGroup {
        group: "g".to_owned(),
        error,
        state: GroupState::Empty,
        protocol_type: String::new(),
        protocol: String::new(),
        members: Vec::new(),
        operations: Operations::OF_GROUP,
    };
    let reply = Reply::DescribeGroups(reply::DescribeGroups { groups: vec![described(None)] });
    let Reply::DescribeGroups(reply) = seen(&[group(O::Read)], describe_groups(&["h", "g"]), reply) else {
        panic!("groups are answered with groups");
    };
    let told: Vec<_> = reply
        .groups
        .iter()
        .map(|group| (group.group.as_str(), group.error, group.operations.bits()))
        .collect();
    let refused = Some(ErrorCode::GroupAuthorizationFailed);
    assert_eq!(told, [("h", refused, 0), ("g", None, (1 << 3) | (1 << 8))]);
}

#[test]
fn a_refused_group_that_is_named_twice_is_answered_once() {
    let refused = Some(ErrorCode::GroupAuthorizationFailed);
    let reply = reply::DeleteGroups { groups: vec![("g".to_owned(), refused)] };
    assert_eq!(screened(&[], delete_groups(&["g", "g"])), Screened::Refused(Reply::DeleteGroups(reply)));
}

/// LIST-17
#[test]
fn a_coordinator_is_refused_without_words_since_they_depend_on_the_version() {
    let refused = |group: &str| (group.to_owned(), Some(Refusal::from(ErrorCode::GroupAuthorizationFailed)));
    let told = |groups| Reply::FindCoordinator(reply::FindCoordinator { groups });
    assert_eq!(screened(&[], find_coordinator(&["g"])), Screened::Refused(told(vec![refused("g")])));
    // The other keys of the request are looked up.
    let (rights, found) = ([group(O::Describe)], ("g".to_owned(), None));
    let Screened::Allowed(left, _) = screened(&rights, find_coordinator(&["h", "g"])) else {
        panic!("g is allowed")
    };
    assert_eq!(left, find_coordinator(&["g"]));
    let seen = seen(&rights, find_coordinator(&["h", "g"]), told(vec![found.clone()]));
    assert_eq!(seen, told(vec![refused("h"), found]));
}

#[test]
fn the_cluster_is_shown_to_everybody_but_not_what_can_be_done_with_it() {
    let op = || Op::DescribeCluster(op::DescribeCluster { endpoint_type: 1 });
    let cluster_reply = |operations| {
        Reply::DescribeCluster(reply::DescribeCluster { result: Ok("c".to_owned()), operations })
    };
    let full = cluster_reply(Operations::OF_CLUSTER);
    assert_eq!(seen(&[], op(), full.clone()), cluster_reply(Operations::NONE));
    assert_eq!(seen(&[cluster(O::All)], op(), full.clone()), full);
    assert_eq!(seen(&[cluster(O::Create)], op(), full), cluster_reply(Operations::NONE));
}

#[test]
fn a_reply_that_belongs_to_no_repair_goes_as_it_is() {
    let rules = rules(&[]);
    let Screened::Allowed(_, mend) = screened(&[], list_groups()) else {
        panic!("lists are filtered afterwards")
    };
    let reply = Reply::Enter(Some(Refusal::from(ErrorCode::UnknownServerError)));
    assert_eq!(mend.apply(&ann(&rules), reply.clone()), reply);
}
