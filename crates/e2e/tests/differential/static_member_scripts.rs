//! Scripts about static members (KIP-345).

use crate::group_requests::*;
use crate::pair::Pair;

pub(crate) fn run(pair: &mut Pair) {
    static_members(pair);
    static_members_that_wait(pair);
}

/// STATIC-01, STATIC-02, STATIC-03, STATIC-05, STATIC-06, STATIC-07, STATIC-09, STATIC-10, STATIC-15, STATIC-16,
/// STATIC-17, STATIC-18, STATIC-19, STATIC-20, STATIC-21, STATIC-22, SYNC-18, HB-07, COMMIT-07: a static member that
/// comes back, and the one that it was before.
fn static_members(pair: &mut Pair) {
    for version in 5..=9 {
        let syncs = version.min(5);
        let mut group = Group::new(pair, &format!("static-{version}"));
        group.join(ANNA, version, &[(ANNA, 0)], named("a"));
        group.join(BEN, version, &[], named("b"));
        group.look();
        group.join(ANNA, version, &[(ANNA, 0), (BEN, 0)], named("a"));
        group.sync(ANNA, syncs, &[(ANNA, 0)], assign(&[ANNA, BEN]));
        group.sync(BEN, syncs, &[(BEN, 0)], |_, request| request.group_instance_id = Some("b".to_owned()));
        group.look();
        // The follower comes back, then the leader: nobody is disturbed.
        group.join(BEN, version, &[(BEN, 0)], renamed("b"));
        group.look();
        group.sync(BEN, syncs, &[(BEN, 0)], |_, _| {});
        group.join(ANNA, version, &[(ANNA, 0)], renamed("a"));
        group.look();
        group.sync(ANNA, syncs, &[(ANNA, 0)], |_, _| {});
        group.commit(ANNA, 7, &[(ANNA, 0)], |_, request| request.group_instance_id = Some("a".to_owned()));
        // What it was before is fenced where it says who it is, and unknown where it does not.
        for (instance, code) in [(Some("a"), 82), (None, 25), (Some("b"), 82), (Some("c"), 25)] {
            let instance = instance.map(str::to_owned);
            group.join(ANNA, version, &[(ANNA, code)], |names, request| {
                request.member_id = names.former_id(ANNA, 1);
                request.group_instance_id.clone_from(&instance);
            });
            group.sync(ANNA, syncs, &[(ANNA, code)], |names, request| {
                request.member_id = names.former_id(ANNA, 1);
                request.group_instance_id.clone_from(&instance);
            });
            group.beat(ANNA, 4, &[(ANNA, code)], |names, request| {
                request.member_id = names.former_id(ANNA, 1);
                request.group_instance_id.clone_from(&instance);
            });
            group.commit(
                ANNA,
                version + 1,
                &[(ANNA, if version == 5 { 25 } else { code })],
                |names, request| {
                    request.member_id = names.former_id(ANNA, 1);
                    request.group_instance_id.clone_from(&instance);
                },
            );
            group.leave(ANNA, syncs, &[(ANNA, 0)], |names, request| {
                request.members = vec![leaver(&names.former_id(ANNA, 1), instance.as_deref())];
            });
        }
        // The member of one name and the id of another, and a wrong generation.
        for instance in ["b", "c"] {
            let code = if instance == "b" { 82 } else { 25 };
            group.join(ANNA, version, &[(ANNA, code)], named(instance));
            group.sync(ANNA, syncs, &[(ANNA, code)], |_, request| {
                request.group_instance_id = Some(instance.to_owned());
                request.generation_id = 99;
            });
            group.beat(ANNA, 4, &[(ANNA, code)], |_, request| {
                request.group_instance_id = Some(instance.to_owned());
                request.generation_id = 99;
            });
        }
        // With another list of protocols that still elects the same one nobody is disturbed.
        group.join(BEN, version, &[(BEN, 0)], |names, request| {
            renamed("b")(names, request);
            request.protocols.push(protocol("more", b"x"));
        });
        group.join(BEN, version, &[(BEN, 0)], |names, request| {
            named("b")(names, request);
            request.protocols.push(protocol("more", b"x"));
        });
        group.look();
        group.join(BEN, version, &[], named("b"));
        group.join(ANNA, version, &[(ANNA, 0), (BEN, 0)], named("a"));
        group.sync(ANNA, syncs, &[(ANNA, 0)], assign(&[ANNA, BEN]));
        group.join(ANNA, version, &[], named("a"));
        group.join(BEN, version, &[(ANNA, 0), (BEN, 0)], named("b"));
        group.look();
    }
    let mut group = Group::new(pair, "static-other-protocol");
    group.join(ANNA, 9, &[(ANNA, 0)], |names, request| {
        named("a")(names, request);
        offering(&["range", "sticky"])(names, request);
    });
    group.sync(ANNA, 5, &[(ANNA, 0)], assign(&[ANNA]));
    group.join(ANNA, 9, &[(ANNA, 0)], |names, request| {
        renamed("a")(names, request);
        offering(&["sticky", "range"])(names, request);
    });
    group.look();
    group.join(BEN, 9, &[], renamed(""));
    group.join(ANNA, 9, &[(ANNA, 0), (BEN, 0)], |names, request| {
        named("a")(names, request);
        offering(&["sticky", "range"])(names, request);
    });
    group.look();
}

/// STATIC-11, STATIC-12, STATIC-13, STATIC-14, LEAVE-09, LEAVE-10, LEAVE-11, LEAVE-12: replaced while it waits.
fn static_members_that_wait(pair: &mut Pair) {
    for version in 5..=9 {
        let mut group = Group::new(pair, &format!("static-waiting-{version}"));
        group.join(ANNA, version, &[(ANNA, 0)], named("a"));
        group.join(BEN, version, &[], named("b"));
        // Ben's parked join is fenced by whoever takes his name.
        group.join(CARA, version, &[(BEN, 82)], renamed("b"));
        group.join(ANNA, version, &[(ANNA, 0), (CARA, 0)], named("a"));
        group.look();
        group.sync(CARA, version.min(5), &[], |_, _| {});
        // So is a parked sync, and the phase starts over.
        group.join(DAN, version, &[(CARA, 82)], renamed("b"));
        group.look();
        group.sync(ANNA, version.min(5), &[(ANNA, 27)], |_, _| {});
        group.join(ANNA, version, &[(ANNA, 0), (DAN, 0)], named("a"));
        group.sync(DAN, version.min(5), &[], |_, _| {});
        // The leader is replaced before it has assigned anything.
        group.join(EVA, version, &[(DAN, 27)], renamed("a"));
        group.join(DAN, version, &[(DAN, 0), (EVA, 0)], named("b"));
        group.sync(EVA, version.min(5), &[(EVA, 0)], assign(&[DAN, EVA]));
        group.look();
        // Removed by name.
        group.leave(CARA, version.min(5), &[(CARA, 0)], |_, request| {
            request.members = vec![leaver("", Some("x")), leaver("", None), leaver(NOBODY, Some("b"))];
        });
        group.look();
        group.leave(CARA, version.min(5), &[(CARA, 0)], |_, request| {
            request.members = vec![leaver("", Some("b")), leaver("", Some("b")), leaver("", Some("a"))];
        });
        group.look();
        // An empty group that knew the name.
        group.join(EVA, version, &[(EVA, 25)], named("a"));
        group.join(EVA, version, &[(EVA, 0)], renamed("a"));
    }
}
