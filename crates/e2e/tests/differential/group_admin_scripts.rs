//! Scripts about groups as an administrator sees them, and about what nobody should send.

use bytes::Bytes;
use wire::AnyRequest;
use wire::api::*;

use crate::group_requests::*;
use crate::pair::Pair;
use crate::requests::{alter, describe};

pub(crate) fn run(pair: &mut Pair) {
    lists(pair);
    descriptions(pair);
    settings_of_groups(pair);
    large_things(pair);
    long_names(pair);
    frames_of_groups(pair);
}

/// LIST-01, LIST-02, LIST-03, LIST-04, LIST-05, STATE-12: filters of ListGroups, with groups in every state.
fn lists(pair: &mut Pair) {
    let mut group = Group::new(pair, "listed-simple");
    group.commit(ANNA, 9, &[(ANNA, 0)], simple);
    let mut group = Group::new(pair, "listed-empty");
    group.join(ANNA, 9, &[(ANNA, 79)], |_, _| {});
    let mut group = Group::new(pair, "listed-stable");
    group.one_settled();
    let mut group = Group::new(pair, "listed-completing");
    group.join(ANNA, 3, &[(ANNA, 0)], |_, request| request.protocol_type = "connect".to_owned());
    let mut group = Group::new(pair, "listed-preparing");
    group.join(ANNA, 3, &[(ANNA, 0)], |_, _| {});
    group.join(BEN, 3, &[], |_, _| {});
    let filters: [&[&str]; 16] = [
        &[],
        &["Stable"],
        &["stable"],
        &[" STABLE "],
        &["Empty", "Stable"],
        &["PreparingRebalance"],
        &["completingrebalance"],
        &["Dead"],
        &["unknown"],
        &[""],
        &["Assigning", "Reconciling"],
        &["nonsense", "Empty"],
        &["classic"],
        &["Classic", "consumer"],
        &["consumer", "share"],
        &[" classic "],
    ];
    for version in 4..=5 {
        for states in filters {
            for types in filters {
                if version == 5 || types.is_empty() {
                    pair.ask("some groups", version, |_| {
                        AnyRequest::ListGroups(list_groups::ListGroupsRequest {
                            states_filter: states.iter().map(|&name| name.to_owned()).collect(),
                            types_filter: types.iter().map(|&name| name.to_owned()).collect(),
                        })
                    });
                }
            }
        }
    }
}

/// LIST-08, LIST-09, LIST-10, LIST-13, LIST-15: several at once, known, unknown, doubled.
fn descriptions(pair: &mut Pair) {
    for version in 0..=6 {
        for groups in [
            &[][..],
            &[""],
            &["unknown"],
            &["listed-stable", "unknown", "listed-stable"],
            &["listed-simple", "listed-empty", "listed-completing", "listed-preparing"],
        ] {
            pair.ask("groups", version, |_| describe_groups(groups));
        }
    }
    for version in 4..=6 {
        for keys in [&[][..], &["b", "a", "", "b"], &["ü"]] {
            pair.ask("who coordinates", version, |_| {
                AnyRequest::FindCoordinator(find_coordinator::FindCoordinatorRequest {
                    key: String::new(),
                    key_type: 0,
                    coordinator_keys: keys.iter().map(|&key| key.to_owned()).collect(),
                })
            });
        }
    }
}

/// LIST-18: settings of a group, whether it exists or not.
fn settings_of_groups(pair: &mut Pair) {
    const GROUP: i8 = 32;
    let look = |pair: &mut Pair| {
        for version in 1..=4 {
            for name in ["listed-stable", "unknown", ""] {
                pair.ask("settings", version, |_| describe(GROUP, name, None, true, true));
                pair.ask("some settings", version, |_| {
                    describe(GROUP, name, Some(&["consumer.session.timeout.ms", "no.such"]), true, false)
                });
            }
        }
    };
    look(pair);
    for (what, name, key, operation, value) in [
        ("set", "listed-stable", "consumer.session.timeout.ms", 0, Some("46000")),
        ("set another", "unknown", "consumer.heartbeat.interval.ms", 0, Some("6000")),
        ("set to nonsense", "unknown", "consumer.session.timeout.ms", 0, Some("soon")),
        ("set too low", "unknown", "consumer.session.timeout.ms", 0, Some("1")),
        ("set too high", "unknown", "consumer.session.timeout.ms", 0, Some("60001")),
        ("set to null", "unknown", "consumer.session.timeout.ms", 0, None),
        ("set an unknown name", "unknown", "no.such", 0, Some("1")),
        ("append", "unknown", "consumer.session.timeout.ms", 2, Some("1")),
        ("delete", "unknown", "consumer.heartbeat.interval.ms", 1, None),
        ("delete what is not set", "unknown", "consumer.session.timeout.ms", 1, None),
        ("of no group", "", "consumer.session.timeout.ms", 0, Some("46000")),
        ("delete the first", "listed-stable", "consumer.session.timeout.ms", 1, None),
    ] {
        for validate_only in [true, false] {
            pair.ask(what, 1, |_| alter(GROUP, name, &[(key, operation, value)], validate_only));
        }
        if matches!(what, "set" | "set another") {
            look(pair);
        }
    }
    look(pair);
}

/// Long lists and long values, in requests that are right otherwise.
fn large_things(pair: &mut Pair) {
    let mut group = Group::new(pair, "large");
    group.join(ANNA, 9, &[(ANNA, 79)], |_, _| {});
    // All that a consumer says beside its topics.
    let mut large = subscription(&["t"], ANNA);
    let length = large.len() - "seat 1".len();
    large[length - 4..length].copy_from_slice(&900_000_u32.to_be_bytes());
    large.resize(length + 900_000, 7);
    let large = Bytes::from(large);
    group.join(ANNA, 9, &[(ANNA, 0)], |_, request| request.protocols[0].metadata = large.clone());
    group.look();
    group.sync(ANNA, 5, &[(ANNA, 0)], assign(&[ANNA]));
    group.look();
    group.join(ANNA, 9, &[(ANNA, 0)], |_, request| {
        request.protocols = (0..1000).map(|n| protocol(&format!("p{n}"), b"x")).collect();
        request.protocols.push(protocol("range", b"y"));
    });
    group.leave(BEN, 5, &[(BEN, 0)], |_, request| {
        request.members = (0..3000).map(|n| leaver(&format!("stranger-{n}"), None)).collect();
    });
    group.sync(ANNA, 4, &[(ANNA, 0)], |names, request| {
        assign(&[ANNA])(names, request);
        for n in 0..3000 {
            let mut stranger = request.assignments[0].clone();
            stranger.member_id = format!("stranger-{n}");
            request.assignments.push(stranger);
        }
    });
    group.look();
    group.pair.ask("many groups", 5, |_| {
        let names: Vec<String> = (0..2000).map(|n| format!("no-{n}")).collect();
        describe_groups(&names.iter().map(String::as_str).collect::<Vec<_>>())
    });
    for timeout in [0, -1, i32::MIN, i32::MAX] {
        let mut group = Group::new(pair, &format!("timeout{timeout}"));
        group.join(ANNA, 9, &[(ANNA, 79)], |_, _| {});
        group.join(ANNA, 9, &[(ANNA, 0)], |_, request| request.rebalance_timeout_ms = timeout);
        if timeout <= 0 {
            // There is no time to sync at all.
            group.until("Empty", &[]);
            group.sync(ANNA, 5, &[(ANNA, 25)], |_, _| {});
        }
    }
}

/// Names at the length that Kafka reads, and beyond it, where it closes the connection.
fn long_names(pair: &mut Pair) {
    for length in [32_767, 32_768, 40_000] {
        let name = "x".repeat(length);
        pair.ask("the group of a long name", 9, |names| {
            let mut request = join(&name, ANNA, names);
            request.member_id = NOBODY.to_owned();
            AnyRequest::JoinGroup(request)
        });
        pair.ask("a commit of a long name", 9, |names| {
            let mut request = commit(&name, ANNA, names, &[("t", &[0])]);
            simple(names, &mut request);
            AnyRequest::OffsetCommit(request)
        });
        pair.ask("a member of a long name", 9, |names| {
            let mut request = join("long-names", ANNA, names);
            (request.member_id, request.group_instance_id) = (NOBODY.to_owned(), Some(name.clone()));
            AnyRequest::JoinGroup(request)
        });
        pair.ask("groups of long names", 6, |_| describe_groups(&[&name]));
    }
}

/// GATE-02, LIST-12: ids that are null, and bodies that end too early, close the connection.
fn frames_of_groups(pair: &mut Pair) {
    let apis: [(&str, u8, u8); 10] = [
        ("OffsetCommit", 8, 2),
        ("OffsetFetch", 9, 1),
        ("JoinGroup", 11, 0),
        ("Heartbeat", 12, 0),
        ("LeaveGroup", 13, 0),
        ("SyncGroup", 14, 0),
        ("DescribeGroups", 15, 0),
        ("DeleteGroups", 42, 0),
        ("OffsetDelete", 47, 0),
        ("ListGroups", 16, 0),
    ];
    for (name, key, version) in apis {
        let frame =
            |version: u8, body: &[u8]| [&[0, key, 0, version, 0, 0, 0, 1, 0xff, 0xff][..], body].concat();
        pair.ask_raw(&format!("{name} without a body"), &frame(version, &[]));
        pair.ask_raw(&format!("{name} of null"), &frame(version, &[0xff; 40]));
        pair.ask_raw(&format!("{name} of half a name"), &frame(version, &[0, 5, b'a']));
        pair.ask_raw(&format!("{name} in a version that is none"), &frame(99, &[0; 64]));
        pair.ask_raw(
            &format!("{name} with a huge array"),
            &frame(version, &[0, 1, b'g', 0x7f, 0xff, 0xff, 0xff]),
        );
    }
}
