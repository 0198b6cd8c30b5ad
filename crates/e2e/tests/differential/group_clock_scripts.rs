//! Scripts in which a clock ends something; each waits for what both must show, however long that takes.

use wire::api::join_group::JoinGroupRequest;

use crate::group_requests::*;
use crate::names::Names;
use crate::pair::Pair;

pub(crate) fn run(pair: &mut Pair) {
    sessions(pair);
    pending_ids(pair);
    join_phases(pair);
    sync_phases(pair);
}

/// Short enough to wait for, long enough to act before.
const SHORT: i32 = 6_000;

fn short_session(_: &Names, request: &mut JoinGroupRequest) {
    request.session_timeout_ms = SHORT;
}

fn short_rebalance(_: &Names, request: &mut JoinGroupRequest) {
    request.rebalance_timeout_ms = SHORT;
}

/// HB-08, HB-11, HB-17, STATIC-27, PHASE-08: members that go silent, dynamic and static.
fn sessions(pair: &mut Pair) {
    let mut group = Group::new(pair, "silent");
    group.join(ANNA, 3, &[(ANNA, 0)], short_session);
    group.sync(ANNA, 3, &[(ANNA, 0)], assign(&[ANNA]));
    group.until("Empty", &[]);
    group.look();
    group.beat(ANNA, 4, &[(ANNA, 25)], |_, _| {});

    // The follower goes silent; the leader is told, and is alone.
    let mut group = Group::new(pair, "silent-follower");
    group.join(ANNA, 9, &[(ANNA, 0)], named("a"));
    group.join(BEN, 9, &[], |names, request| {
        named("b")(names, request);
        short_session(names, request);
    });
    group.join(ANNA, 9, &[(ANNA, 0), (BEN, 0)], named("a"));
    group.sync(ANNA, 5, &[(ANNA, 0)], assign(&[ANNA, BEN]));
    group.sync(BEN, 5, &[(BEN, 0)], |_, _| {});
    group.until("PreparingRebalance", &[]);
    group.beat(ANNA, 4, &[(ANNA, 27)], |_, _| {});
    group.join(BEN, 9, &[(BEN, 25)], named("b"));
    group.join(ANNA, 9, &[(ANNA, 0)], named("a"));
    group.look();

    // Who does not join again, and says nothing, is not waited for; who waits is alive.
    let mut group = Group::new(pair, "silent-in-a-phase");
    group.join(ANNA, 3, &[(ANNA, 0)], short_session);
    group.sync(ANNA, 3, &[(ANNA, 0)], assign(&[ANNA]));
    group.join(BEN, 3, &[], short_session);
    group.until("CompletingRebalance", &[(BEN, 0)]);
    group.look();
}

/// PHASE-11, HB-14: an id that nobody uses holds up the phase for as long as its session.
fn pending_ids(pair: &mut Pair) {
    let mut group = Group::new(pair, "unused");
    group.one_settled();
    group.join(BEN, 9, &[(BEN, 79)], short_session);
    group.join(ANNA, 9, &[], |_, _| {});
    group.until("CompletingRebalance", &[(ANNA, 0)]);
    group.join(BEN, 9, &[(BEN, 25)], |_, _| {});
    group.look();
}

/// PHASE-02, PHASE-03, PHASE-05, STATIC-25, STATIC-26: members that do not join again in time.
fn join_phases(pair: &mut Pair) {
    let mut group = Group::new(pair, "late-follower");
    group.join(ANNA, 3, &[(ANNA, 0)], short_rebalance);
    group.join(BEN, 3, &[], short_rebalance);
    group.join(ANNA, 3, &[(ANNA, 0), (BEN, 0)], short_rebalance);
    group.sync(ANNA, 3, &[(ANNA, 0)], assign(&[ANNA, BEN]));
    group.sync(BEN, 3, &[(BEN, 0)], |_, _| {});
    group.join(ANNA, 3, &[], short_rebalance);
    group.until("CompletingRebalance", &[(ANNA, 0)]);
    group.look();
    group.beat(BEN, 4, &[(BEN, 25)], |_, _| {});

    // The leader is late and loses its place; being static, it stays, and so does its name.
    let mut group = Group::new(pair, "late-leader");
    let (a, b) = (
        |names: &Names, request: &mut JoinGroupRequest| {
            named("a")(names, request);
            short_rebalance(names, request);
        },
        |names: &Names, request: &mut JoinGroupRequest| {
            named("b")(names, request);
            short_rebalance(names, request);
        },
    );
    group.join(ANNA, 9, &[(ANNA, 0)], a);
    group.join(BEN, 9, &[], b);
    group.join(ANNA, 9, &[(ANNA, 0), (BEN, 0)], a);
    group.sync(ANNA, 5, &[(ANNA, 0)], assign(&[ANNA, BEN]));
    group.sync(BEN, 5, &[(BEN, 0)], |_, _| {});
    group.join(BEN, 9, &[], |names, request| {
        b(names, request);
        request.protocols.push(protocol("more", b""));
    });
    group.until("CompletingRebalance", &[(BEN, 0)]);
    group.look();
    group.sync(BEN, 5, &[(BEN, 0)], assign(&[ANNA, BEN]));
    group.sync(ANNA, 5, &[(ANNA, 22)], |_, _| {});
    group.look();
}

/// PSYNC-01, PSYNC-02, PSYNC-03, PSYNC-05: members that join and do not sync.
fn sync_phases(pair: &mut Pair) {
    let mut group = Group::new(pair, "nobody-syncs");
    group.join(ANNA, 3, &[(ANNA, 0)], short_rebalance);
    group.beat(ANNA, 4, &[(ANNA, 0)], |_, _| {});
    group.until("Empty", &[]);
    group.look();

    let mut group = Group::new(pair, "leader-does-not-sync");
    group.join(ANNA, 3, &[(ANNA, 0)], short_rebalance);
    group.join(BEN, 3, &[], short_rebalance);
    group.join(ANNA, 3, &[(ANNA, 0), (BEN, 0)], short_rebalance);
    group.sync(BEN, 3, &[], |_, _| {});
    group.until("PreparingRebalance", &[(BEN, 27)]);
    group.join(BEN, 3, &[(BEN, 0)], |_, _| {});
    group.look();

    let mut group = Group::new(pair, "follower-does-not-sync");
    group.join(ANNA, 3, &[(ANNA, 0)], short_rebalance);
    group.join(BEN, 3, &[], short_rebalance);
    group.join(ANNA, 3, &[(ANNA, 0), (BEN, 0)], short_rebalance);
    group.sync(ANNA, 3, &[(ANNA, 0)], assign(&[ANNA, BEN]));
    group.until("PreparingRebalance", &[]);
    group.join(ANNA, 3, &[(ANNA, 0)], |_, _| {});
    group.look();
}
