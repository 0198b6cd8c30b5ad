//! How a consumer comes to its end.

use super::*;

#[test]
fn a_fenced_consumer_stops_says_so_and_ends() {
    let mut rig = Rig::working(&[(0, 3)]);
    rig.warm(1, "w", 9);
    let _ = rig.wants();
    let link = rig.link.unwrap();
    rig.machine.handle_disconnected(rig.now, link, &failure(FailureKind::Fenced));
    assert_eq!(rig.wants(), ["fenced", "disown t-0", "revoke t-0", "end warm t-1 Cancelled", "disconnect"]);
    rig.returns(0);
    rig.returns(1);
    assert_eq!(rig.wants(), ["cancel t-1"], "not before all has stopped");
    rig.returns(1);
    assert_eq!(rig.wants(), ["stopped"]);
    rig.answer("stopped", Ok(Answer::ShutDownNow));
    assert_eq!(rig.wants(), ["end Fenced"]);
    rig.pass(secs(60));
    assert_eq!(rig.wants(), [""; 0], "and does not come back");
}

#[test]
fn a_drain_goes_on_until_all_is_handed_over() {
    let mut rig = Rig::working(&[(0, 3)]);
    rig.machine.deregister(rig.now);
    assert_eq!(rig.wants(), ["deregister"]);
    rig.answer("deregister", Ok(Answer::WaitForDrain));
    rig.release(0, "h", 4);
    rig.returns(0);
    assert_eq!(rig.wants(), ["release t-0", "disown t-0", "released t-0 h"]);
    rig.answer("released t-0 h", Ok(Answer::Done));
    assert_eq!(rig.wants(), ["deregister"], "as soon as nothing is left");
    rig.answer("deregister", Ok(Answer::ShutDownNow));
    assert_eq!(rig.wants(), ["stopped"]);
    rig.answer("stopped", Ok(Answer::ShutDownNow));
    assert_eq!(rig.wants(), ["disconnect", "end Left"]);
}

#[test]
fn what_nobody_takes_is_released_before_the_end() {
    let mut rig = Rig::working(&[(0, 3), (1, 3)]);
    rig.machine.deregister(rig.now);
    let _ = rig.wants();
    rig.answer("deregister", Ok(Answer::ShutDownNow));
    assert_eq!(rig.wants(), ["release t-0", "release t-1"], "it is ours until then, so it can commit");
    rig.returns(0);
    rig.fails(1);
    assert_eq!(rig.wants(), ["disown t-0", "disown t-1", "revoke t-1"]);
    rig.returns(1);
    assert_eq!(rig.wants(), ["stopped"]);
    rig.answer("stopped", Err(FailureKind::Later));
    rig.pass(SAY_AGAIN);
    assert_eq!(rig.wants(), ["disconnect", "turn to 1", "stopped"], "another may hear it");
    rig.answer("stopped", Err(FailureKind::Later));
    rig.pass(SAY_AGAIN);
    assert_eq!(rig.wants(), ["turn to 0", "stopped"]);
    rig.answer("stopped", Err(FailureKind::Later));
    assert_eq!(rig.wants(), ["end Left"], "the lease ends by itself");
}

#[test]
fn a_drain_without_an_assigner_ends_with_the_lease() {
    let mut rig = Rig::working(&[(0, 3)]);
    rig.loses_link();
    rig.machine.deregister(rig.now);
    rig.pass(secs(20));
    let wants = rig.wants();
    assert!(wants.contains(&"revoke t-0".to_owned()), "{wants:?}");
    rig.returns(0);
    assert_eq!(rig.wants(), ["stopped"]);
}

#[test]
fn a_consumer_that_was_never_wanted_ends() {
    let mut rig = Rig::new();
    let link = rig.link.unwrap();
    rig.machine.handle_disconnected(rig.now, link, &failure(FailureKind::Hopeless));
    assert_eq!(rig.wants(), ["disconnect", "end Refused(\"no\")"]);
}

#[test]
fn work_that_is_being_ended_is_not_ours_once_the_registration_is_gone() {
    let mut rig = Rig::working(&[(0, 3)]);
    rig.machine.stop(rig.now);
    assert_eq!(rig.wants(), ["release t-0"]);
    rig.pass(INTERVAL);
    assert_eq!(rig.wants(), ["alive"], "it may take long to store everything");
    rig.answer("alive", Err(FailureKind::Unregistered));
    assert_eq!(rig.wants(), ["nothing is ours", "disown t-0", "disconnect"]);
    rig.returns(0);
    assert_eq!(rig.wants(), ["stopped"]);
}

#[test]
fn a_keep_alive_that_fails_does_not_change_how_it_ends() {
    let mut rig = Rig::working(&[(0, 3)]);
    rig.machine.stop(rig.now);
    rig.pass(INTERVAL);
    assert_eq!(rig.wants(), ["release t-0", "alive"]);
    rig.answer("alive", Err(FailureKind::Hopeless));
    rig.returns(0);
    assert_eq!(rig.wants(), ["disown t-0", "stopped"]);
    rig.answer("stopped", Ok(Answer::ShutDownNow));
    assert_eq!(rig.wants(), ["disconnect", "end Left"]);
}

#[test]
fn one_who_leaves_while_it_registers_says_that_it_has_stopped() {
    let mut rig = Rig::new();
    rig.machine.stop(rig.now);
    assert_eq!(rig.wants(), ["disconnect", "stopped"], "it may be registered by now");
    rig.answer("stopped", Err(FailureKind::Unregistered));
    assert_eq!(rig.wants(), ["end Left"]);
}
