//! Scripts about groups: who joins, syncs, stays and leaves.

use bytes::Bytes;

use crate::group_requests::*;
use crate::pair::Pair;
use crate::requests::{create, topic};

pub(crate) fn run(pair: &mut Pair) {
    prepare(pair);
    a_life_in_each_version(pair);
    at_the_gate(pair);
    refused_joins(pair);
    joining_again(pair);
    votes(pair);
    pending_members(pair);
    full_groups(pair);
    syncs_and_heartbeats(pair);
    leaving(pair);
    waiting_twice(pair);
}

/// What the scripts of groups commit to.
pub(crate) fn prepare(pair: &mut Pair) {
    pair.ask("the topics", 7, |_| create(&[topic("t", 3, 1), topic("u", 2, 1), topic("gone", 1, 1)], false));
}

/// WIRE-05, JOIN-01, JOIN-02, JOIN-03, JOIN-14, JOIN-16, JOIN-17, JOIN-27, JOIN-28, JOIN-30, SYNC-06, SYNC-07,
/// SYNC-10, SYNC-11, HB-04, HB-05, HB-06, COMMIT-08, COMMIT-09, COMMIT-10, LEAVE-05, LEAVE-06, LEAVE-17, LIST-01,
/// LIST-08, LIST-09, DELAY-07: two members from the first join to the last leave, in every version.
fn a_life_in_each_version(pair: &mut Pair) {
    for version in 0..=9 {
        let (syncs, beats, leaves) = (version.min(5), version.min(4), version.min(5));
        let commits = version + 1;
        let commits = commits.max(2);
        let mut group = Group::new(pair, &format!("life-{version}"));
        group.look_in_each_version();
        if version >= 4 {
            group.join(ANNA, version, &[(ANNA, 79)], |_, _| {});
            group.look_in_each_version();
            group.beat(ANNA, beats, &[(ANNA, 25)], |_, _| {});
        }
        group.join(ANNA, version, &[(ANNA, 0)], |_, _| {});
        group.look_in_each_version();
        group.beat(ANNA, beats, &[(ANNA, 0)], |_, _| {});
        group.commit(ANNA, commits, &[(ANNA, 27)], |_, _| {});
        group.sync(ANNA, syncs, &[(ANNA, 0)], assign(&[ANNA]));
        group.look_in_each_version();
        group.beat(ANNA, beats, &[(ANNA, 0)], |_, _| {});
        group.commit(ANNA, commits, &[(ANNA, 0)], |_, _| {});
        if version >= 4 {
            group.join(BEN, version, &[(BEN, 79)], |_, _| {});
            group.beat(ANNA, beats, &[(ANNA, 0)], |_, _| {});
        }
        group.join(BEN, version, &[], |_, _| {});
        group.look_in_each_version();
        group.beat(ANNA, beats, &[(ANNA, 27)], |_, _| {});
        group.commit(ANNA, commits, &[(ANNA, 0)], |_, request| {
            request.topics[0].partitions[0].committed_offset = 200;
        });
        group.sync(ANNA, syncs, &[(ANNA, 27)], |_, _| {});
        group.join(ANNA, version, &[(ANNA, 0), (BEN, 0)], |_, _| {});
        group.look_in_each_version();
        group.sync(BEN, syncs, &[], |_, _| {});
        group.sync(ANNA, syncs, &[(ANNA, 0), (BEN, 0)], assign(&[ANNA, BEN]));
        group.look_in_each_version();
        group.sync(BEN, syncs, &[(BEN, 0)], assign(&[ANNA]));
        group.commit(BEN, commits, &[(BEN, 0)], |_, _| {});
        group.leave(ANNA, leaves, &[(ANNA, 0)], |_, _| {});
        group.look_in_each_version();
        group.beat(BEN, beats, &[(BEN, 27)], |_, _| {});
        group.join(BEN, version, &[(BEN, 0)], |_, _| {});
        group.sync(BEN, syncs, &[(BEN, 0)], assign(&[BEN]));
        group.leave(BEN, leaves, &[(BEN, 0)], |_, _| {});
        group.look_in_each_version();
        group.leave(BEN, leaves, &[(BEN, if version < 3 { 25 } else { 0 })], |_, _| {});
        group.join(BEN, version, &[(BEN, 25)], |_, _| {});
        group.beat(BEN, beats, &[(BEN, 25)], |_, _| {});
        group.sync(BEN, syncs, &[(BEN, 25)], |_, _| {});
        if version >= 4 {
            group.join(CARA, version, &[(CARA, 79)], |_, _| {});
        }
        group.join(CARA, version, &[(CARA, 0)], |_, _| {});
        group.look_in_each_version();
    }
}

/// GATE-02, GATE-03, GATE-04, GATE-05, GATE-06, GATE-15, JOIN-15, LEAVE-02: what is refused before the group is
/// looked at.
fn at_the_gate(pair: &mut Pair) {
    for version in 0..=9 {
        let mut group = Group::new(pair, "");
        group.join(ANNA, version, &[(ANNA, 24)], |_, _| {});
        group.join(ANNA, version, &[(ANNA, 24)], |_, request| request.member_id = NOBODY.to_owned());
        if version <= 5 {
            group.sync(ANNA, version, &[(ANNA, 24)], |_, _| {});
            group.leave(ANNA, version, &[(ANNA, 24)], |_, _| {});
        }
        if version <= 4 {
            group.beat(ANNA, version, &[(ANNA, 24)], |_, _| {});
        }
        let mut group = Group::new(pair, &format!("gate-{version}"));
        for (timeout, code) in [(99, 26), (1_800_001, 26), (-1, 26), (i32::MAX, 26), (i32::MIN, 26), (0, 26)]
        {
            group.join(ANNA, version, &[(ANNA, code)], |_, request| {
                request.session_timeout_ms = timeout;
                request.member_id = NOBODY.to_owned();
            });
        }
        group.look();
        if version >= 4 {
            for timeout in [100, 1_800_000] {
                group.join(ANNA, version, &[(ANNA, 79)], |_, request| {
                    request.session_timeout_ms = timeout;
                    request.member_id.clear();
                });
            }
        }
    }
    let mut group = Group::new(pair, "gate-sync");
    for (kind, name) in
        [(None, None), (Some("consumer"), None), (None, Some("range")), (Some("consumer"), Some("range"))]
    {
        let code = if kind.is_some() && name.is_some() { 25 } else { 23 };
        group.sync(ANNA, 5, &[(ANNA, code)], |_, request| {
            request.protocol_type = kind.map(str::to_owned);
            request.protocol_name = name.map(str::to_owned);
        });
    }
    for name in [" ", "\t", "ünicode", "🦀", "a/b:c", &"x".repeat(30_000)] {
        let mut group = Group::new(pair, name);
        group.join(ANNA, 3, &[(ANNA, 0)], |_, _| {});
        group.look();
        group.leave(ANNA, 2, &[(ANNA, 0)], |_, _| {});
    }
}

/// JOIN-05, JOIN-06, JOIN-10, JOIN-11, JOIN-12, JOIN-13, JOIN-24, JOIN-26, JOIN-29: joins that are refused, and what
/// they leave behind.
fn refused_joins(pair: &mut Pair) {
    for version in 0..=9 {
        let mut group = Group::new(pair, &format!("refused-{version}"));
        group.join(ANNA, version, &[(ANNA, 25)], |_, request| request.member_id = NOBODY.to_owned());
        group.look();
        group.join(ANNA, version, &[(ANNA, 23)], |_, request| request.protocol_type.clear());
        group.look();
        group.join(ANNA, version, &[(ANNA, 23)], |_, request| request.protocols.clear());
        if version >= 4 {
            group.join(ANNA, version, &[(ANNA, 79)], |_, request| {
                request.reason = Some("a reason".to_owned());
            });
            group.join(ANNA, version, &[(ANNA, 23)], |_, request| request.protocol_type.clear());
            if version >= 5 {
                group.join(ANNA, version, &[(ANNA, -1)], named("late"));
            }
        }
        group.join(ANNA, version, &[(ANNA, 0)], |_, _| {});
        group.sync(ANNA, version.min(5), &[(ANNA, 0)], assign(&[ANNA]));
        for edit in [
            |kind: &mut String, _: &mut Vec<_>| "connect".clone_into(kind),
            |kind: &mut String, _: &mut Vec<_>| kind.clear(),
            |_: &mut String, protocols: &mut Vec<_>| protocols.clear(),
            |_: &mut String, protocols: &mut Vec<_>| *protocols = vec![protocol("other", b"x")],
        ] {
            group.join(BEN, version, &[(BEN, 23)], |_, request| {
                edit(&mut request.protocol_type, &mut request.protocols);
            });
            group.join(ANNA, version, &[(ANNA, 23)], |_, request| {
                edit(&mut request.protocol_type, &mut request.protocols);
            });
        }
        group.join(BEN, version, &[(BEN, 25)], |_, request| request.member_id = NOBODY.to_owned());
        group.leave(ANNA, version.min(5), &[(ANNA, 0)], |_, _| {});
        group.join(ANNA, version, &[(ANNA, 25)], |_, _| {});
        group.look();
    }
}

/// JOIN-18, JOIN-19, JOIN-20, JOIN-21, JOIN-22, JOIN-23, PHASE-01, PHASE-06, PHASE-15: who joins again, unchanged or
/// changed, in each state.
fn joining_again(pair: &mut Pair) {
    for version in 0..=9 {
        let mut group = Group::new(pair, &format!("again-{version}"));
        group.two_settled();
        // A follower that has nothing new to say is told what is; a leader starts over.
        group.join(BEN, version, &[(BEN, 0)], |_, _| {});
        group.join(ANNA, version, &[], |_, _| {});
        group.look();
        group.join(BEN, version, &[(ANNA, 0), (BEN, 0)], |_, _| {});
        group.look();
        // While the leader assigns, both are told the same again.
        group.join(BEN, version, &[(BEN, 0)], |_, _| {});
        group.join(ANNA, version, &[(ANNA, 0)], |_, _| {});
        group.sync(BEN, version.min(5), &[], |_, _| {});
        // A leader with another subscription starts over, which ends the follower's wait.
        group.join(ANNA, version, &[(ANNA, 0)].map(|_| (BEN, 27)), |_, request| {
            request.protocols[0].metadata = Bytes::from(subscription(&["u"], ANNA));
        });
        group.join(BEN, version, &[(ANNA, 0), (BEN, 0)], |_, _| {});
        group.sync(ANNA, version.min(5), &[(ANNA, 0)], assign(&[BEN]));
        group.look();
        group.sync(BEN, version.min(5), &[(BEN, 0)], |_, _| {});
        // A follower that changed starts over, too.
        group.join(BEN, version, &[], |_, request| {
            request.protocols[0].metadata = Bytes::from(subscription(&["u"], BEN));
        });
        group.join(ANNA, version, &[(ANNA, 0), (BEN, 0)], |_, _| {});
        group.look();
        group.sync(ANNA, version.min(5), &[(ANNA, 0)], assign(&[ANNA, BEN]));
        group.look();
    }
}

/// PROTO-01, PROTO-02, PROTO-03, PROTO-06, PROTO-07, PROTO-12: the vote, ties included.
fn votes(pair: &mut Pair) {
    let ballots: [&[&[&str]]; 7] = [
        &[&["range", "roundrobin"], &["roundrobin", "range"]],
        &[&["sticky", "range"], &["range", "sticky"]],
        &[&["a", "b", "c"], &["b", "c", "a"], &["c", "a", "b"]],
        &[&["x", "y"], &["y", "x"], &["y", "x"]],
        &[&["only", "both"], &["both", "other"]],
        &[&["cooperative-sticky", "range"], &["range", "cooperative-sticky"]],
        &[&["", "b"], &["b", ""]],
    ];
    for (place, ballot) in ballots.iter().enumerate() {
        let mut group = Group::new(pair, &format!("vote-{place}"));
        group.join(ANNA, 3, &[(ANNA, 0)], offering(ballot[0]));
        group.join(BEN, 3, &[], offering(ballot[1]));
        let mut answered = vec![(ANNA, 0), (BEN, 0)];
        if let Some(third) = ballot.get(2) {
            group.join(CARA, 3, &[], offering(third));
            answered.push((CARA, 0));
        }
        group.join(ANNA, 9, &answered, offering(ballot[0]));
        group.look();
        group.sync(ANNA, 0, &[(ANNA, 0)], assign(&[ANNA, BEN]));
        group.look();
        group.join(BEN, 9, &[(BEN, 23)], offering(&["unheard of"]));
        // The same offer in another order is another offer.
        let reversed: Vec<&str> = ballot[1].iter().rev().copied().collect();
        group.join(BEN, 9, &[], offering(&reversed));
    }
    let mut group = Group::new(pair, "vote-alone");
    group.one_settled();
    group.join(ANNA, 9, &[(ANNA, 23)], offering(&["new"]));
    group.join(ANNA, 9, &[(ANNA, 0)], offering(&["new", "range"]));
    group.join(ANNA, 9, &[(ANNA, 0)], offering(&["new"]));
    group.sync(ANNA, 4, &[(ANNA, 0)], |_, _| {});
}

/// PHASE-09, PHASE-10, PHASE-12, PHASE-13, PHASE-16, LEAVE-07, LEAVE-13, LEAVE-16, JOIN-04: ids that were handed out
/// and not yet used.
fn pending_members(pair: &mut Pair) {
    for version in 4..=9 {
        let mut group = Group::new(pair, &format!("pending-{version}"));
        group.two_settled();
        group.join(CARA, version, &[(CARA, 79)], |_, _| {});
        group.look();
        // A pending id does not disturb, but holds up the next phase.
        group.join(ANNA, version, &[], |_, _| {});
        group.join(BEN, version, &[], |_, _| {});
        group.look();
        group.sync(CARA, version.min(5), &[(CARA, 25)], |_, _| {});
        group.commit(CARA, version, &[(CARA, 25)], |_, _| {});
        group.leave(CARA, version.min(5), &[(ANNA, 0), (BEN, 0), (CARA, 0)], |_, _| {});
        group.sync(ANNA, 5, &[(ANNA, 0)], assign(&[ANNA, BEN]));
        group.sync(BEN, 5, &[(BEN, 0)], |_, _| {});
        // One that leaves a stable group makes everybody join again.
        group.pair.vacate(CARA);
        group.join(CARA, version, &[(CARA, 79)], |_, _| {});
        group.leave(CARA, version.min(5), &[(CARA, 0)], |_, _| {});
        group.look();
        group.beat(ANNA, 4, &[(ANNA, 27)], |_, _| {});
        group.join(ANNA, version, &[], |_, _| {});
        // Who leaves while it waits to join is answered.
        group.leave(DAN, version.min(5), &[(ANNA, 25), (DAN, 0)], |names, request| {
            request.member_id = names.member_id(ANNA);
            request.members = vec![leaver(&names.member_id(ANNA), None)];
        });
        group.join(BEN, version, &[(BEN, 0)], |_, _| {});
        group.look();
    }
}

/// SIZE-01, SIZE-02, SIZE-03, SIZE-04, STATIC-29: one member too many.
fn full_groups(pair: &mut Pair) {
    let members = [ANNA, BEN, CARA, DAN];
    for version in [0, 3, 4, 5, 9] {
        let mut group = Group::new(pair, &format!("full-{version}"));
        if version >= 4 {
            for seat in members {
                group.join(seat, version, &[(seat, 79)], |_, _| {});
            }
        }
        group.join(ANNA, version, &[(ANNA, 0)], |_, _| {});
        for seat in [BEN, CARA, DAN] {
            group.join(seat, version, &[], |_, _| {});
        }
        group.join(ANNA, version, &members.map(|seat| (seat, 0)), |_, _| {});
        group.look();
        group.join(EVA, version, &[(EVA, 81)], |_, request| request.member_id.clear());
        group.join(EVA, version, &[(EVA, 81)], |_, request| request.member_id = NOBODY.to_owned());
        group.join(EVA, version, &[(EVA, 81)], |_, request| request.protocol_type = "other".to_owned());
        if version >= 5 {
            group.join(EVA, version, &[(EVA, 81)], renamed("five"));
        }
        group.join(BEN, version, &[(BEN, 0)], |_, _| {});
        group.look();
    }
    // Ids that were handed out do not count; who uses one too many is refused, and the others are not asked again.
    let mut group = Group::new(pair, "full-pending");
    for seat in [ANNA, BEN, CARA, DAN, EVA] {
        group.join(seat, 9, &[(seat, 79)], |_, _| {});
    }
    group.join(ANNA, 9, &[(ANNA, 0)], |_, _| {});
    for seat in [BEN, CARA, DAN, ANNA] {
        group.join(seat, 9, &[], |_, _| {});
    }
    group.join(EVA, 9, &[(EVA, 81)], |_, _| {});
    group.look();
    group.leave(EVA, 5, &[(ANNA, 0), (BEN, 0), (CARA, 0), (DAN, 25), (EVA, 0)], |names, request| {
        request.members = vec![leaver(&names.member_id(DAN), None)];
    });
    group.look();
}

/// SYNC-01, SYNC-02, SYNC-03, SYNC-04, SYNC-05, SYNC-08, SYNC-12, SYNC-13, SYNC-14, SYNC-17, HB-01, HB-03:
/// syncs and heartbeats of the wrong ones, and an assignment for others.
fn syncs_and_heartbeats(pair: &mut Pair) {
    for version in 0..=5 {
        let beats = version.min(4);
        let mut group = Group::new(pair, &format!("sync-{version}"));
        group.sync(ANNA, version, &[(ANNA, 25)], |_, request| request.member_id = NOBODY.to_owned());
        group.beat(ANNA, beats, &[(ANNA, 25)], |_, request| request.member_id = NOBODY.to_owned());
        group.two_settled();
        for (member, generation, code) in [
            (true, 1, 22),
            (true, 3, 22),
            (true, -1, 22),
            (true, i32::MIN, 22),
            (true, i32::MAX, 22),
            (false, 2, 25),
            (false, 9, 25),
        ] {
            group.sync(ANNA, version, &[(ANNA, code)], |_, request| {
                request.generation_id = generation;
                if !member {
                    request.member_id = NOBODY.to_owned();
                }
            });
            group.beat(ANNA, beats, &[(ANNA, code)], |_, request| {
                request.generation_id = generation;
                if !member {
                    request.member_id = NOBODY.to_owned();
                }
            });
        }
        group.sync(ANNA, version, &[(ANNA, 25)], |_, request| request.member_id.clear());
        if version == 5 {
            for (kind, name) in
                [("consumer", "sticky"), ("connect", "range"), ("", "range"), ("consumer", "")]
            {
                group.sync(ANNA, version, &[(ANNA, 23)], |_, request| {
                    request.protocol_type = Some(kind.to_owned());
                    request.protocol_name = Some(name.to_owned());
                });
            }
        }
        if version >= 3 {
            group.sync(ANNA, version, &[(ANNA, 25)], |_, request| {
                request.group_instance_id = Some("none".to_owned());
            });
            group.beat(ANNA, beats, &[(ANNA, 25)], |_, request| {
                request.group_instance_id = Some("none".to_owned());
            });
        }
        // The follower's parked sync is told to join again when the leader leaves.
        group.join(ANNA, 9, &[], |_, _| {});
        group.beat(BEN, beats, &[(BEN, 22)], |_, request| request.generation_id = 1);
        group.sync(BEN, version, &[(BEN, 22)], |_, request| request.generation_id = 1);
        group.sync(BEN, version, &[(BEN, 27)], |_, _| {});
        group.join(BEN, 9, &[(ANNA, 0), (BEN, 0)], |_, _| {});
        group.sync(BEN, version, &[], assign(&[ANNA, BEN]));
        group.leave(ANNA, 5, &[(ANNA, 0), (BEN, 27)], |_, _| {});
        group.join(BEN, 9, &[(BEN, 0)], |_, _| {});
        // An assignment for strangers, twice for oneself, and for nobody.
        group.sync(BEN, version, &[(BEN, 0)], |names, request| {
            let assignment = |member_id: String, assignment: &'static [u8]| {
                wire::api::sync_group::SyncGroupRequestAssignment { member_id, assignment: assignment.into() }
            };
            request.assignments = vec![
                assignment(names.member_id(BEN), b"first"),
                assignment(NOBODY.to_owned(), b"stranger"),
                assignment(String::new(), b"nobody"),
                assignment(names.member_id(ANNA), b"gone"),
                assignment(names.member_id(BEN), b"second"),
            ];
        });
        group.look();
        group.join(BEN, 9, &[(BEN, 0)], |_, _| {});
        group.sync(BEN, version, &[(BEN, 0)], |_, _| {});
        group.look();
    }
}

/// LEAVE-01, LEAVE-03, LEAVE-08, LEAVE-15, LEAVE-18: batches of leavers.
fn leaving(pair: &mut Pair) {
    for version in 0..=5 {
        let mut group = Group::new(pair, &format!("leave-{version}"));
        let missing = if version < 3 { 25 } else { 0 };
        group.leave(ANNA, version, &[(ANNA, missing)], |_, request| {
            request.member_id = NOBODY.to_owned();
            request.members = vec![leaver(NOBODY, None), leaver("", Some("x")), leaver("", None)];
        });
        group.leave(ANNA, version, &[(ANNA, missing)], |_, request| request.members.clear());
        group.look();
        group.two_settled();
        group.join(CARA, 9, &[(CARA, 79)], |_, _| {});
        group.leave(DAN, version, &[(DAN, missing)], |_, request| {
            request.member_id = NOBODY.to_owned();
            request.members = vec![leaver(NOBODY, None), leaver("", None), leaver("", Some("x"))];
        });
        group.leave(DAN, version, &[(DAN, missing)], |_, request| request.members.clear());
        group.look();
        group.leave(DAN, version, &[(DAN, 0)], |names, request| {
            request.member_id = names.member_id(BEN);
            request.members = vec![
                leaver(&names.member_id(BEN), None),
                leaver(NOBODY, None),
                leaver(&names.member_id(CARA), None),
                leaver(&names.member_id(BEN), None),
                leaver(&names.member_id(ANNA), Some("x")),
            ];
        });
        group.look();
        group.beat(ANNA, 4, &[(ANNA, 27)], |_, _| {});
        group.join(BEN, 9, &[(BEN, 25)], |_, _| {});
    }
    let mut group = Group::new(pair, "leave-all");
    group.two_settled();
    group.leave(ANNA, 5, &[(ANNA, 0)], |names, request| {
        request.members = vec![leaver(&names.member_id(ANNA), None), leaver(&names.member_id(BEN), None)];
    });
    group.look();
    group.sync(ANNA, 5, &[(ANNA, 25)], |_, _| {});
    group.commit(ANNA, 9, &[(ANNA, 25)], |_, _| {});
    group.commit(ANNA, 9, &[(ANNA, 0)], simple);
}

/// Not in the catalogue: the newest of two waiting requests of a member is the one that counts, and who is removed
/// while it waits is told so. Kafka says nothing to them.
fn waiting_twice(pair: &mut Pair) {
    let mut group = Group::new(pair, "twice");
    group.two_settled();
    group.join(ANNA, 9, &[], |_, _| {});
    group.join(CARA, 9, &[], |names, request| {
        request.member_id = names.member_id(ANNA);
        request.protocols[0].metadata = Bytes::from_static(b"newer");
    });
    group.pair.hang_up(ANNA);
    group.join(BEN, 9, &[(BEN, 0), (CARA, 0)], |_, _| {});
    group.sync(BEN, 5, &[], |_, _| {});
    group.sync(DAN, 5, &[], |names, request| {
        request.member_id = names.member_id(BEN);
        request.generation_id = names.generation(BEN);
    });
    group.pair.hang_up(BEN);
    group.sync(CARA, 5, &[(CARA, 0), (DAN, 0)], assign(&[BEN, CARA]));
    group.look();
    group.join(CARA, 9, &[], |_, _| {});
    group.join(DAN, 9, &[(CARA, 0), (DAN, 0)], |names, request| request.member_id = names.member_id(BEN));
    group.sync(DAN, 5, &[], |_, _| {});
    group.leave(EVA, 5, &[(EVA, 0)], |names, request| {
        request.members = vec![leaver(&names.member_id(DAN), None)];
    });
    group.look();
}
