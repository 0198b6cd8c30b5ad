//! Lost connections, late answers and the end of leases.

use super::*;

#[test]
fn a_reconnect_within_the_lease_begins_nothing_again() {
    let mut rig = Rig::working(&[(0, 3), (1, 3), (2, 3)]);
    rig.warm(5, "w", 9);
    rig.release(1, "r", 4);
    rig.release(2, "s", 4);
    rig.returns(2);
    assert_eq!(rig.wants(), ["warm t-5 w", "release t-1", "release t-2", "disown t-2", "released t-2 s"]);
    rig.reconnects();
    rig.snapshot(&[(0, 3), (1, 3), (2, 3)]);
    rig.release(1, "r", 4);
    rig.release(2, "s", 4);
    rig.warm(5, "w", 9);
    assert_eq!(rig.wants(), ["released t-2 s"], "said again, and nothing else");
    rig.returns(1);
    rig.returns(5);
    assert_eq!(rig.wants(), ["disown t-1", "released t-1 r", "ready t-5 w"]);
}

#[test]
fn what_a_reconnect_does_not_repeat_is_given_up() {
    let mut rig = Rig::working(&[(0, 3), (1, 3)]);
    rig.warm(5, "w", 9);
    rig.release(1, "r", 4);
    rig.returns(1);
    let _ = rig.wants();
    let before = rig.tickets["released t-1 r"];
    rig.reconnects();
    rig.snapshot(&[(1, 3), (7, 1)]);
    assert_eq!(
        rig.wants(),
        ["disown t-0", "revoke t-0", "released t-1 r", "own t-7", "assign t-7 1"],
        "what is not ours is revoked at once"
    );
    rig.machine.handle_answer(rig.now, before, Err(failure(FailureKind::Later)));
    rig.pass(DOUBT);
    assert_eq!(rig.wants(), ["end warm t-5 Cancelled"]);
    rig.answer("released t-1 r", Err(FailureKind::Refused));
    assert_eq!(rig.wants(), ["own t-1", "assign t-1 3"]);
}

#[test]
fn an_epoch_that_grew_while_we_were_away_means_that_another_worked_meanwhile() {
    let mut rig = Rig::working(&[(0, 3)]);
    rig.reconnects();
    rig.snapshot(&[(0, 5)]);
    assert_eq!(rig.wants(), ["disown t-0", "revoke t-0"]);
    rig.returns(0);
    assert_eq!(rig.wants(), ["own t-0", "assign t-0 5"]);
}

#[test]
fn everything_stops_after_two_thirds_of_a_lease_that_was_not_renewed() {
    let mut rig = Rig::working(&[(0, 3)]);
    rig.pass(INTERVAL);
    assert_eq!(rig.wants(), ["alive"]);
    let sent_at = rig.now;
    rig.now += secs(3);
    rig.answer("alive", Ok(Answer::Alive { lease_ttl: LEASE }));
    // It counts from when it was sent, since the assigner may have seen it just then.
    rig.pass(sent_at + secs(20) - Duration::from_millis(1) - rig.now);
    assert_eq!(rig.wants(), ["alive"]);
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.wants(), ["nothing is ours", "disown t-0", "revoke t-0", "disconnect"]);
    rig.answer("alive", Ok(Answer::Alive { lease_ttl: LEASE }));
    rig.returns(0);
    rig.pass(secs(1));
    assert_eq!(rig.wants(), ["connect 1"], "an answer that comes too late helps nobody");
    rig.snapshot(&[(0, 3)]);
    assert_eq!(rig.wants(), ["own t-0", "assign t-0 3"], "it begins anew");
}

#[test]
fn a_process_that_slept_stops_before_it_does_anything_else() {
    let mut rig = Rig::working(&[(0, 3)]);
    rig.now += secs(3_600);
    rig.assigned(1, 7);
    assert_eq!(rig.wants(), ["nothing is ours", "disown t-0", "revoke t-0", "disconnect"]);
}

#[test]
fn an_instance_that_does_not_answer_is_left_for_another_within_the_lease() {
    let mut rig = Rig::working(&[(0, 3)]);
    rig.pass(INTERVAL);
    assert_eq!(rig.wants(), ["alive"]);
    rig.answer("alive", Err(FailureKind::Later));
    rig.pass(secs(2));
    assert_eq!(rig.wants(), ["alive"]);
    rig.answer("alive", Err(FailureKind::Later));
    assert_eq!(rig.wants(), ["disconnect"], "and nothing is revoked");
    rig.pass(secs(1));
    assert_eq!(rig.wants(), ["connect 1"]);
}

#[test]
fn an_instance_that_hangs_does_not_use_up_the_lease() {
    let mut rig = Rig::working(&[(0, 3)]);
    assert_eq!(rig.within, REGISTER_WITHIN, "nothing was to be lost then");
    rig.pass(secs(4));
    let stop_at = rig.now + secs(16);
    let mut attempts = 0;
    while rig.now < stop_at - secs(1) {
        rig.reconnects_somewhere();
        assert!(rig.now + rig.within < stop_at, "{:?} at {:?}", rig.within, rig.now);
        rig.now += rig.within;
        attempts += 1;
    }
    assert!(attempts >= 3, "{attempts}");
    assert_eq!(rig.wants(), [""; 0], "nothing is revoked meanwhile");
}

#[test]
fn a_consumer_that_is_not_registered_any_more_stops_and_registers() {
    let mut rig = Rig::working(&[(0, 3)]);
    rig.pass(INTERVAL);
    let _ = rig.wants();
    rig.answer("alive", Err(FailureKind::Unregistered));
    assert_eq!(rig.wants(), ["nothing is ours", "disown t-0", "revoke t-0", "disconnect"]);
    rig.pass(secs(1));
    assert_eq!(rig.wants(), ["connect 1"]);
}

#[test]
fn a_stream_that_does_not_begin_with_a_snapshot_is_dropped() {
    let mut rig = Rig::new();
    rig.assigned(0, 3);
    assert_eq!(rig.wants(), ["disconnect"]);
    rig.pass(secs(1));
    assert_eq!(rig.wants(), ["connect 1"]);
}

#[test]
fn what_was_let_go_is_taken_back_only_when_the_answer_says_so() {
    let mut rig = Rig::working(&[(0, 3), (1, 3)]);
    for number in [0, 1] {
        rig.release(number, "r", 4);
        rig.returns(number);
    }
    let _ = rig.wants();
    let before = [rig.tickets["released t-0 r"], rig.tickets["released t-1 r"]];
    rig.reconnects();
    rig.snapshot(&[(0, 3), (1, 3)]);
    assert_eq!(rig.wants(), ["released t-0 r", "released t-1 r"], "they may not have been heard");
    rig.pass(DOUBT);
    assert_eq!(rig.wants(), [""; 0], "however long it takes");
    rig.answer("released t-0 r", Err(FailureKind::Refused));
    assert_eq!(rig.wants(), [""; 0], "what was said before may still be heard");
    rig.machine.handle_answer(rig.now, before[0], Err(failure(FailureKind::Hopeless)));
    rig.pass(SAY_AGAIN);
    assert_eq!(rig.wants(), ["released t-0 r"], "that was no assigner");
    rig.answer("released t-0 r", Err(FailureKind::Refused));
    assert_eq!(rig.wants(), ["own t-0", "assign t-0 3"], "the handoff was given up");
    rig.machine.handle_answer(rig.now, before[1], Ok(Answer::Done));
    rig.answer("released t-1 r", Err(FailureKind::Refused));
    assert_eq!(rig.wants(), [""; 0], "the other has it");
}

#[test]
fn what_was_given_away_after_all_is_revoked() {
    let mut rig = Rig::working(&[(0, 3)]);
    rig.release(0, "r", 4);
    rig.returns(0);
    let _ = rig.wants();
    // What is said over the stream and what is answered may overtake each other.
    rig.assigned(0, 3);
    assert_eq!(rig.wants(), ["own t-0", "assign t-0 3"]);
    rig.answer("released t-0 r", Ok(Answer::Done));
    assert_eq!(rig.wants(), ["disown t-0"]);
    rig.returns(0);
    assert_eq!(rig.wants(), ["revoke t-0"]);
    rig.returns(0);
    rig.assigned(0, 4);
    assert_eq!(rig.wants(), [""; 0], "that is the epoch of the other");
}

#[test]
fn what_is_refused_though_it_is_still_wanted_is_said_again() {
    let mut rig = Rig::working(&[(0, 3)]);
    rig.release(0, "r", 4);
    rig.returns(0);
    rig.warm(1, "w", 7);
    rig.returns(1);
    let _ = rig.wants();
    for word in ["released t-0 r", "ready t-1 w"] {
        rig.answer(word, Err(FailureKind::Refused));
    }
    rig.pass(SAY_AGAIN_REFUSED);
    assert_eq!(rig.wants(), ["released t-0 r", "ready t-1 w", "alive"]);
}

#[test]
fn answers_from_before_the_present_registration_say_nothing_about_it() {
    let mut rig = Rig::working(&[(0, 3)]);
    rig.pass(INTERVAL);
    assert_eq!(rig.wants(), ["alive"]);
    let old = rig.tickets["alive"];
    rig.reconnects();
    rig.snapshot(&[(0, 3)]);
    rig.machine.handle_answer(rig.now, old, Err(failure(FailureKind::Unregistered)));
    assert_eq!(rig.wants(), [""; 0], "the lease before is gone, as it should");
    assert_eq!(rig.machine.unanswered, 0);
}

#[test]
fn a_stream_that_ends_because_the_registration_is_gone_ends_all_work() {
    let mut rig = Rig::working(&[(0, 3)]);
    let link = rig.link.unwrap();
    rig.machine.handle_disconnected(rig.now, link, &failure(FailureKind::Unregistered));
    assert_eq!(rig.wants(), ["nothing is ours", "disown t-0", "revoke t-0", "disconnect"]);
    rig.pass(secs(1));
    assert_eq!(rig.wants(), ["connect 1"]);
}

#[test]
fn an_instance_that_knows_no_keep_alive_is_left_for_another() {
    let mut rig = Rig::working(&[(0, 3)]);
    for pause in [INTERVAL, secs(2)] {
        rig.pass(pause);
        assert_eq!(rig.wants(), ["alive"]);
        rig.answer("alive", Err(FailureKind::Hopeless));
    }
    assert_eq!(rig.wants(), ["disconnect"], "and the work goes on");
    rig.pass(secs(1));
    assert_eq!(rig.wants(), ["connect 1"]);
}
