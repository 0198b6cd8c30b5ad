//! Scripts about who may do what: each API asked by users with no, exactly the right, all other and denied permissions.

use wire::AnyRequest;

use crate::acl_requests::*;
use crate::group_requests::{commit, describe_groups, simple};
use crate::guests::{ADMIN, DENIED, NONE, OTHER, SOME, USERS};
use crate::names::Names;
use crate::pair::Pair;
use crate::permission_cases::{Case, Need, cases, cases_that_need_more};
use crate::requests::*;

pub(crate) fn run(pair: &mut Pair) {
    furnish(pair);
    for case in cases() {
        let [refused, allowed] = play(pair, &case);
        if allowed == refused {
            // It is not what the request asks for, and nothing has been compared.
            pair.found(format!("{}: the permission changes nothing", case.what));
        }
    }
    for case in cases_that_need_more() {
        play(pair, &case);
    }
    combining_rules(pair);
    refused_for_transactions(pair);
}

/// The topics and groups that are asked about: mine, which rules are about, and theirs, which they are not.
fn furnish(pair: &mut Pair) {
    let topics = ["mine", "theirs"].map(|name| topic(name, 2, 1));
    pair.ask("topics", 7, |_| create(&topics, false));
    let deleted: Vec<_> = (1..=6)
        .flat_map(|version| USERS.map(|(seat, _)| format!("mine-gone-{version}-{seat}")))
        .map(|name| topic(&name, 1, 1))
        .collect();
    pair.ask("topics to delete", 7, |_| create(&deleted, false));
    for name in ["mine", "theirs"] {
        pair.ask("records", 12, |names| {
            produce(names, name, 0, Some(records(3, batch::Codec::None, None)), -1)
        });
        pair.ask("offsets", 9, |names| {
            let group = format!("{name}-group");
            let mut request = commit(&group, 0, names, &[("mine", &[0]), ("theirs", &[0, 1])]);
            simple(names, &mut request);
            AnyRequest::OffsetCommit(request)
        });
    }
}

/// Asks as everybody; returns what Kafka said to who has no permission, and to who has it.
fn play(pair: &mut Pair, case: &Case) -> [Vec<String>; 2] {
    let ask = |pair: &mut Pair, seat: usize| {
        let who = USERS.iter().find(|(of, _)| *of == seat).map_or("", |(_, user)| user);
        let what = format!("{} as {who}", case.what);
        let versions = case.versions.clone();
        let ask = |version| pair.ask_at(seat, &what, version, |names| (case.build)(names, version, seat));
        versions.map(ask).collect::<Vec<String>>()
    };
    let refused = ask(pair, NONE);
    let mut rules = Vec::new();
    for &Need { kind, name, pattern, operation } in &case.needs {
        let rule = Rule { kind, name, pattern, ..Rule::default() };
        rules.push(Rule { operation, ..rule });
        let others = (3..=15).filter(|other| *other != operation);
        rules.extend(others.map(|operation| Rule { user: "other", operation, ..rule }));
        rules.push(Rule { user: "denied", operation: 2, ..rule });
        rules.push(Rule { user: "denied", operation, permission: DENY, ..rule });
    }
    pair.grant(&rules);
    ask(pair, DENIED);
    ask(pair, OTHER);
    let allowed = ask(pair, SOME);
    ask(pair, ADMIN);
    revoke(pair);
    [refused, allowed]
}

/// Takes away all rules about those who ask.
fn revoke(pair: &mut Pair) {
    let of = |user| Filter { principal: Some(user), ..Filter::default() };
    pair.ask("no rules", 3, |_| {
        delete_rules(&[of("User:some"), of("User:other"), of("User:denied"), of("User:*")])
    });
}

/// Several rules about one thing: names, prefixes, everybody, addresses, and what one operation says of another.
fn combining_rules(pair: &mut Pair) {
    let allow = Rule { name: "mine", ..Rule::default() };
    let deny = Rule { permission: DENY, ..allow };
    let sets: [&[Rule<'_>]; 30] = [
        &[allow],
        &[Rule { name: "mi", pattern: PREFIXED, ..allow }],
        &[Rule { name: "mi", ..allow }],
        &[Rule { name: "mine", pattern: PREFIXED, ..allow }],
        &[Rule { name: "mines", pattern: PREFIXED, ..allow }],
        &[Rule { name: "*", ..allow }],
        &[Rule { name: "*", pattern: PREFIXED, ..allow }],
        &[Rule { user: "*", ..allow }],
        &[Rule { name: "*", user: "*", ..allow }],
        &[Rule { name: "*", ..allow }, deny],
        &[Rule { name: "m", pattern: PREFIXED, ..deny }, allow],
        &[Rule { name: "*", ..deny }, allow],
        &[Rule { user: "*", ..deny }, allow],
        &[Rule { user: "none", ..deny }, allow],
        &[Rule { host: "127.0.0.1", ..allow }],
        &[Rule { host: "10.0.0.1", ..allow }],
        &[Rule { host: "10.0.0.1", ..deny }, allow],
        &[Rule { host: "127.0.0.1", ..deny }, allow],
        &[Rule { host: "localhost", ..allow }],
        &[Rule { operation: 2, ..allow }],
        &[Rule { operation: 2, ..allow }, Rule { operation: 4, ..deny }],
        &[Rule { operation: 2, ..deny }, allow],
        &[allow, Rule { operation: 8, ..deny }],
        &[Rule { operation: 4, ..allow }, Rule { name: "theirs", operation: 6, ..allow }],
        &[Rule { operation: 7, ..allow }, Rule { name: "theirs", operation: 11, ..allow }],
        &[Rule { operation: 4, ..allow }, Rule { name: "*", operation: 4, ..deny }],
        &[Rule { operation: 4, ..allow }, Rule { name: "mi", pattern: PREFIXED, operation: 4, ..deny }],
        &[
            Rule { name: "min", pattern: PREFIXED, operation: 4, ..allow },
            Rule { name: "mi", pattern: PREFIXED, operation: 2, ..deny },
        ],
        &[
            Rule { name: "mi", pattern: PREFIXED, operation: 4, ..allow },
            Rule { name: "min", pattern: PREFIXED, operation: 4, ..deny },
        ],
        &[
            Rule { kind: GROUP, name: "mine-group", operation: 3, ..allow },
            Rule { kind: CLUSTER, name: "kafka-cluster", operation: 7, ..allow },
        ],
    ];
    for rules in sets {
        pair.grant(rules);
        let what = format!("with {rules:?}");
        for seat in [SOME, NONE] {
            pair.ask_at(seat, &what, 12, |names| fetch(names, 12, "mine", 0, 0, |_| {}));
            pair.ask_at(seat, &what, 10, |_| all_topics(true));
            pair.ask_at(seat, &what, 13, |names| {
                let by_id = [(names.topic_id("mine"), None), (names.topic_id("theirs"), None)];
                let AnyRequest::Metadata(mut request) = metadata(&by_id, false) else {
                    unreachable!("it is one")
                };
                request.include_topic_authorized_operations = true;
                AnyRequest::Metadata(request)
            });
            pair.ask_at(seat, &what, 0, |_| page(&[], 2000, None));
            pair.ask_at(seat, &what, 6, |_| describe_groups(&["mine-group", "theirs-group"]));
            pair.ask_at(seat, &what, 5, |_| AnyRequest::ListGroups(Default::default()));
            pair.ask_at(seat, &what, 2, |_| cluster());
            pair.ask_at(seat, &what, 5, |_| init_producer(None, -1, -1));
        }
        revoke(pair);
    }
    pair.ask_at(ADMIN, "by one who may do everything", 10, |_| all_topics(true));
    pair.ask_at(ADMIN, "by one who may do everything", 6, |_| describe_groups(&["mine-group", "nothing"]));
    pair.ask_at(ADMIN, "by one who may do everything", 2, |_| cluster());
}

/// Transactions are refused in any case, but not with other words than Kafka's to those who may not have them.
fn refused_for_transactions(pair: &mut Pair) {
    for version in 0..=5 {
        pair.ask_at(NONE, "a transactional id", version, |_| init_producer(Some("theirs"), -1, -1));
    }
    for version in 0..=6 {
        pair.ask_at(NONE, "its coordinator", version, |_| transaction_coordinator("theirs"));
    }
    for version in 3..=13 {
        pair.ask_at(NONE, "its records", version, |names: &Names| {
            let batch = Some(records(1, batch::Codec::None, None));
            let AnyRequest::Produce(mut request) = produce(names, "mine", 0, batch, -1) else {
                unreachable!("it is one")
            };
            request.transactional_id = Some("theirs".to_owned());
            AnyRequest::Produce(request)
        });
    }
}

pub(crate) fn cluster() -> AnyRequest {
    AnyRequest::DescribeCluster(wire::api::describe_cluster::DescribeClusterRequest {
        include_cluster_authorized_operations: true,
        ..Default::default()
    })
}

fn transaction_coordinator(id: &str) -> AnyRequest {
    AnyRequest::FindCoordinator(wire::api::find_coordinator::FindCoordinatorRequest {
        key: id.to_owned(),
        key_type: 1,
        coordinator_keys: vec![id.to_owned()],
    })
}
