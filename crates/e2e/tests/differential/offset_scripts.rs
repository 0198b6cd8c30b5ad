//! Scripts about the offsets of groups.

use wire::AnyRequest;
use wire::api::*;

use crate::group_requests::*;
use crate::pair::Pair;
use crate::requests::{create, delete, topic};

pub(crate) fn run(pair: &mut Pair) {
    commits_in_each_state(pair);
    simple_commits(pair);
    shapes_of_commits(pair);
    shapes_of_fetches(pair);
    forgetting_offsets(pair);
    topics_that_go(pair);
}

/// COMMIT-01, COMMIT-05, COMMIT-06, COMMIT-07, COMMIT-08, COMMIT-09, COMMIT-10, COMMIT-11, COMMIT-12: who may commit
/// when.
fn commits_in_each_state(pair: &mut Pair) {
    for version in 2..=10 {
        let mut group = Group::new(pair, &format!("commit-{version}"));
        // Nobody knows the group.
        let missing = if version >= 9 { 69 } else { 22 };
        group.commit(ANNA, version, &[(ANNA, missing)], |_, _| {});
        group.commit(ANNA, version, &[(ANNA, missing)], |_, request| request.member_id = NOBODY.to_owned());
        try_everybody(&mut group, version, true);
        // Somebody waits alone for an assignment.
        group.join(ANNA, 9, &[(ANNA, 79)], |_, _| {});
        group.commit(ANNA, version, &[(ANNA, 25)], |_, _| {});
        group.join(ANNA, 9, &[(ANNA, 0)], |_, _| {});
        try_everybody(&mut group, version, false);
        group.commit(ANNA, version, &[(ANNA, 27)], |_, _| {});
        group.sync(ANNA, 5, &[(ANNA, 0)], assign(&[ANNA]));
        try_everybody(&mut group, version, false);
        group.commit(ANNA, version, &[(ANNA, 0)], |_, _| {});
        // Another joins.
        group.join(BEN, 9, &[], renamed("b"));
        try_everybody(&mut group, version, false);
        group.commit(ANNA, version, &[(ANNA, 0)], |_, request| {
            request.topics[0].partitions[0].committed_offset = 300;
        });
        group.join(ANNA, 9, &[(ANNA, 0), (BEN, 0)], |_, _| {});
        group.commit(BEN, version, &[(BEN, 27)], |_, request| {
            request.group_instance_id = Some("b".to_owned());
        });
        group.sync(ANNA, 5, &[(ANNA, 0)], assign(&[ANNA, BEN]));
        for instance in ["b", "c"] {
            let code = match (version >= 7, instance) {
                (true, "b") => 82,
                (true, _) => 25,
                (false, _) => 0,
            };
            group.commit(ANNA, version, &[(ANNA, code)], |_, request| {
                request.group_instance_id = Some(instance.to_owned());
            });
        }
        group.leave(CARA, 5, &[(CARA, 0)], |names, request| {
            request.members = vec![leaver(&names.member_id(ANNA), None), leaver(&names.member_id(BEN), None)];
        });
        try_everybody(&mut group, version, true);
        group.look();
    }
}

/// Commits of one who is no member, with and without a generation, an id and a name.
fn try_everybody(group: &mut Group<'_>, version: i16, empty: bool) {
    let no_member = if empty { 0 } else { 25 };
    group.commit(EVA, version, &[(EVA, no_member)], |_, request| {
        request.generation_id_or_member_epoch = -1;
        request.member_id = NOBODY.to_owned();
    });
    group.commit(EVA, version, &[(EVA, no_member)], simple);
    group.commit(EVA, version, &[(EVA, no_member)], |_, request| {
        request.generation_id_or_member_epoch = i32::MIN;
        request.member_id.clear();
        request.group_instance_id = Some("x".to_owned());
    });
    group.commit(EVA, version, &[(EVA, 25)], |_, request| {
        request.generation_id_or_member_epoch = 0;
        request.member_id.clear();
    });
    group.commit(EVA, version, &[(EVA, 25)], |_, request| {
        request.generation_id_or_member_epoch = 1;
        request.member_id = NOBODY.to_owned();
    });
}

/// COMMIT-02, COMMIT-03, LIST-05: offsets without members, in each version.
fn simple_commits(pair: &mut Pair) {
    for version in 2..=10 {
        for name in [String::new(), format!("simple-{version}")] {
            let mut group = Group::new(pair, &name);
            group.commit(ANNA, version, &[(ANNA, 0)], simple);
            group.look_in_each_version();
            group.commit(ANNA, version, &[(ANNA, 0)], |names, request| {
                simple(names, request);
                request.retention_time_ms = 1_000_000_000;
                request.topics[0].partitions[0].committed_metadata = None;
                request.topics[0].partitions[0].committed_leader_epoch = -1;
            });
            group.look_in_each_version();
            group.commit(ANNA, version, &[(ANNA, 25)], |_, request| request.member_id = NOBODY.to_owned());
            group.join(ANNA, 3, &[(ANNA, if name.is_empty() { 24 } else { 0 })], |_, _| {});
            group.look();
            group.pair.ask("the group is deleted", version.min(2), |_| delete_groups(&[&name]));
            group.leave(ANNA, 0, &[(ANNA, if name.is_empty() { 24 } else { 0 })], |_, _| {});
            group.pair.ask("the group is deleted", version.min(2), |_| delete_groups(&[&name]));
            group.look();
        }
    }
}

/// COMMIT-15, COMMIT-16, COMMIT-17, COMMIT-19, COMMIT-20, COMMIT-30, FETCH-01, FETCH-02: what is committed.
fn shapes_of_commits(pair: &mut Pair) {
    type Topics = &'static [(&'static str, &'static [i32])];
    let shapes: [Topics; 8] = [
        &[],
        &[("t", &[])],
        &[("t", &[0, 1, 2]), ("u", &[0])],
        &[("t", &[9]), ("t", &[0]), ("nosuch", &[0])],
        &[("nosuch", &[0, 1])],
        &[("t", &[0]), ("u", &[1]), ("t", &[1])],
        &[("t", &[0, 0, 1])],
        &[("t", &[-1, i32::MAX]), ("", &[0]), ("bad name", &[0])],
    ];
    for version in 2..=10 {
        for (place, shape) in shapes.iter().enumerate() {
            let name = format!("shape-{version}-{place}");
            let group = Group::new(pair, &name);
            group.pair.ask("offsets", version, |names| {
                let mut request = commit(&name, ANNA, names, shape);
                simple(names, &mut request);
                AnyRequest::OffsetCommit(request)
            });
            group.pair.ask("what is left", version.max(2), |names| fetch(names, &[&name], None, false));
            // A commit of which nothing is left is not looked at further.
            group.pair.ask("offsets of nobody", version, |names| {
                AnyRequest::OffsetCommit(commit(&name, ANNA, names, shape))
            });
        }
        let mut group = Group::new(pair, &format!("values-{version}"));
        for (offset, epoch) in [(0, 0), (-1, -1), (i64::MAX, i32::MAX), (i64::MIN, i32::MIN), (-2, -2)] {
            group.commit(ANNA, version, &[(ANNA, 0)], |names, request| {
                simple(names, request);
                request.topics[0].partitions[0].committed_offset = offset;
                request.topics[0].partitions[0].committed_leader_epoch = epoch;
            });
            group.fetch(Some(&[("t", &[0])]));
        }
        for (text, code) in [
            (String::new(), 0),
            ("x".repeat(4096), 0),
            ("x".repeat(4097), 12),
            ("é".repeat(4096), 0),
            ("🦀".repeat(2048), 0),
            ("🦀".repeat(2049), 12),
            ("x".repeat(32_767), 12),
        ] {
            group.commit(ANNA, version, &[(ANNA, code)], |names, request| {
                simple(names, request);
                request.topics[0].partitions[0].committed_metadata = Some(text.clone());
            });
            group.fetch(Some(&[("t", &[0])]));
        }
        for retention in [0, 1, -2, i64::MAX] {
            group.commit(ANNA, version, &[(ANNA, 0)], |names, request| {
                simple(names, request);
                request.retention_time_ms = retention;
            });
        }
        group.look();
    }
}

/// FETCH-02, FETCH-03, FETCH-05, FETCH-06, FETCH-07, FETCH-09, FETCH-13: what is asked for.
fn shapes_of_fetches(pair: &mut Pair) {
    let mut group = Group::new(pair, "fetched");
    group.one_settled();
    group.pair.ask("offsets", 9, |names| {
        AnyRequest::OffsetCommit(commit("fetched", ANNA, names, &[("t", &[0, 1]), ("u", &[1])]))
    });
    type Topics = &'static [(&'static str, &'static [i32])];
    let shapes: [Option<Topics>; 9] = [
        None,
        Some(&[]),
        Some(&[("t", &[])]),
        Some(&[("t", &[0, 1, 2, 99, -1])]),
        Some(&[("t", &[0, 0])]),
        Some(&[("t", &[0]), ("t", &[1])]),
        Some(&[("nosuch", &[0, 1]), ("t", &[1])]),
        Some(&[("", &[0]), ("bad name", &[0])]),
        Some(&[("gone", &[0]), ("u", &[1, 0])]),
    ];
    for version in 1..=10 {
        for shape in shapes {
            for require_stable in [false, true] {
                for groups in
                    [&["fetched"][..], &["unknown"], &[""], &["fetched", "unknown"], &["fetched"; 3], &[]]
                {
                    if shape.is_some() || version >= 2 {
                        group.pair.ask("some offsets", version, |names| {
                            fetch(names, groups, shape, require_stable)
                        });
                    }
                }
            }
        }
    }
    for version in 9..=10 {
        for (member, epoch) in [(Some(""), -1), (Some(NOBODY), 5), (None, 5), (Some(""), i32::MIN)] {
            group.pair.ask("offsets of a member", version, |names| {
                let AnyRequest::OffsetFetch(mut request) =
                    fetch(names, &["fetched", "unknown"], Some(&[("t", &[0])]), true)
                else {
                    unreachable!("it is one")
                };
                for group in &mut request.groups {
                    (group.member_id, group.member_epoch) = (member.map(str::to_owned), epoch);
                }
                AnyRequest::OffsetFetch(request)
            });
        }
    }
    group.pair.ask("offsets of the zero id", 10, |names| {
        let AnyRequest::OffsetFetch(mut request) = fetch(names, &["fetched"], Some(&[("t", &[0])]), true)
        else {
            unreachable!("it is one")
        };
        let topics = request.groups[0].topics.as_mut().expect("some");
        topics[0].topic_id = wire::Uuid(0);
        AnyRequest::OffsetFetch(request)
    });
}

/// ODEL-01, ODEL-02, ODEL-03, ODEL-04, ODEL-05, ODEL-06, ODEL-07, ODEL-08, ODEL-10, ODEL-11, ODEL-12, ODEL-13,
/// ODEL-14, ODEL-16, PROTO-09, PROTO-10, PROTO-11: offsets and groups that are to be forgotten.
fn forgetting_offsets(pair: &mut Pair) {
    type Topics = &'static [(&'static str, &'static [i32])];
    let shapes: [Topics; 9] = [
        &[],
        &[("t", &[])],
        &[("t", &[0])],
        &[("t", &[9]), ("u", &[1]), ("u", &[0])],
        &[("u", &[0, 1]), ("t", &[1])],
        &[("t", &[9]), ("nosuch", &[0])],
        &[("u", &[0]), ("u", &[1]), ("u", &[0])],
        &[("u", &[0, 0])],
        &[("", &[0]), ("bad name", &[1])],
    ];
    let everything = |group: &mut Group<'_>| {
        for shape in shapes {
            group.forget(shape);
            group.look();
        }
    };
    for name in ["", "unknown"] {
        let mut group = Group::new(pair, name);
        group.pair.ask("the group is deleted", 2, |_| delete_groups(&[name]));
        everything(&mut group);
        group.commit(ANNA, 9, &[(ANNA, 0)], simple);
        everything(&mut group);
    }
    // A consumer of t; something else; a consumer whose subscription cannot be read; each in each state.
    for (name, kind, metadata) in [
        ("subscribed", "consumer", subscription(&["t"], ANNA)),
        ("connecting", "connect", subscription(&["t"], ANNA)),
        ("garbled", "consumer", b"\0".to_vec()),
        ("newer", "consumer", [b"\0\x09", &subscription(&["t"], ANNA)[2..]].concat()),
        ("without-metadata", "consumer", Vec::new()),
    ] {
        let mut group = Group::new(pair, name);
        let edit = |_: &crate::names::Names, request: &mut join_group::JoinGroupRequest| {
            kind.clone_into(&mut request.protocol_type);
            request.protocols = vec![protocol("range", &metadata)];
        };
        let all = |_: &crate::names::Names, request: &mut offset_commit::OffsetCommitRequest| {
            let mut second = request.topics[0].clone();
            second.name = "u".to_owned();
            request.topics.push(second);
        };
        group.join(ANNA, 9, &[(ANNA, 79)], edit);
        everything(&mut group);
        group.join(ANNA, 9, &[(ANNA, 0)], edit);
        everything(&mut group);
        group.pair.ask("the group is deleted", 2, |_| delete_groups(&[name]));
        group.sync(ANNA, 4, &[(ANNA, 0)], assign(&[ANNA]));
        group.commit(ANNA, 9, &[(ANNA, 0)], all);
        everything(&mut group);
        group.pair.ask("the group is deleted", 2, |_| delete_groups(&[name]));
        group.commit(ANNA, 9, &[(ANNA, 0)], all);
        group.join(BEN, 9, &[], |names, request| {
            edit(names, request);
            request.group_instance_id = Some("b".to_owned());
        });
        everything(&mut group);
        group.pair.ask("the group is deleted", 2, |_| delete_groups(&[name]));
        group.leave(CARA, 5, &[(BEN, 25), (CARA, 0)], |names, request| {
            request.members = vec![leaver("", Some("b")), leaver(&names.member_id(ANNA), None)];
        });
        group.look();
        everything(&mut group);
        for version in 0..=2 {
            group.pair.ask("groups are deleted", version, |_| delete_groups(&[name, "unknown", "", name]));
        }
        group.look();
        group.commit(ANNA, 9, &[(ANNA, 69)], |_, _| {});
        group.join(ANNA, 9, &[(ANNA, 25)], |_, _| {});
        // The next group of this name begins again.
        group.pair.vacate(ANNA);
        group.join(ANNA, 3, &[(ANNA, 0)], edit);
    }
    for version in 0..=2 {
        for groups in [&[][..], &["unknown", "subscribed"], &["subscribed"; 2]] {
            pair.ask("groups are deleted", version, |_| delete_groups(groups));
        }
    }
}

/// FETCH-18, EXP-15, COMMIT-19: offsets of topics that are deleted, and made again.
fn topics_that_go(pair: &mut Pair) {
    let mut group = Group::new(pair, "mourning");
    group.pair.ask("offsets", 9, |names| {
        let mut request = commit("mourning", ANNA, names, &[("gone", &[0]), ("t", &[0])]);
        simple(names, &mut request);
        AnyRequest::OffsetCommit(request)
    });
    group.look_in_each_version();
    group.pair.ask("a topic goes", 6, |_| delete(6, &["gone"]));
    // Kafka's coordinator hears of it a little later than its broker.
    group.pair.ask_until_same("what is left", 9, |names| fetch(names, &["mourning"], None, false));
    group.commit(ANNA, 9, &[(ANNA, 3)], |names, request| {
        simple(names, request);
        request.topics[0].name = "gone".to_owned();
    });
    group.commit(ANNA, 10, &[(ANNA, 100)], |names, request| {
        simple(names, request);
        request.topics[0].topic_id = NO_TOPIC;
    });
    group.look_in_each_version();
    group.pair.ask("it comes back", 7, |_| create(&[topic("gone", 1, 1)], false));
    group.fetch(Some(&[("gone", &[0])]));
    group.fetch(None);
}
