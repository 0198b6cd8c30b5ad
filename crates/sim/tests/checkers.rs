//! A checker that never complains proves nothing: here the machine's answers and records are spoilt on their way out,
//! each in one way, and the run has to fail for the right reason.

use bytes::Bytes;
use coordination::error_code::ErrorCode;
use coordination::group::{Effects, GroupRecord};
use coordination::reply::{JoinGroup, Reply, SyncGroup, Synced};

use sim::broker::{Handed, Tamper};
use sim::message::Response;

/// Plays seeds until one fails, and says why it did.
fn caught(tamper: impl Fn() -> Tamper) -> String {
    let failure = (1..=60).find_map(|seed| sim::run(seed, false, Some(tamper())).err());
    failure.expect("somebody notices").message
}

fn effects_caught_as<F: FnMut(&mut Effects) + 'static>(expected: &[&str], tamper: impl Fn() -> F) {
    caught_as(expected, || {
        let mut tamper = tamper();
        Box::new(move |handed| {
            if let Handed::Effects(effects) = handed {
                tamper(effects);
            }
        })
    });
}

fn answers_caught_as<F: FnMut(&mut Response) + 'static>(expected: &[&str], tamper: impl Fn() -> F) {
    caught_as(expected, || {
        let mut tamper = tamper();
        Box::new(move |handed| {
            if let Handed::Answer(answer) = handed {
                tamper(answer);
            }
        })
    });
}

fn caught_as(expected: &[&str], tamper: impl Fn() -> Tamper) {
    let message = caught(tamper);
    assert!(expected.iter().any(|it| message.contains(it)), "{message}");
}

#[test]
fn the_checkers_see_a_partition_with_two_owners() {
    effects_caught_as(&["has two owners in generation"], || {
        |effects: &mut Effects| {
            let mut first = None;
            for (_, reply) in &mut effects.replies {
                if let Reply::SyncGroup(SyncGroup { result: Ok(synced) }) = reply {
                    synced.assignment = first.get_or_insert(synced.assignment.clone()).clone();
                }
            }
        }
    });
}

#[test]
fn the_checkers_see_a_commit_that_was_not_written() {
    effects_caught_as(&["came back with", "read back: there is"], || {
        let mut commits = 0;
        move |effects: &mut Effects| {
            effects.records.retain(|record| {
                let is_commit = matches!(record, GroupRecord::Offset { value: Some(_), .. });
                commits += u32::from(is_commit);
                !is_commit || commits % 50 != 0
            });
        }
    });
}

#[test]
fn the_checkers_see_an_offset_that_goes_back() {
    effects_caught_as(&["read back: there is", "the last commit for"], || {
        let mut first = None;
        move |effects: &mut Effects| {
            for record in &mut effects.records {
                if let GroupRecord::Offset { value: Some(value), .. } = record {
                    *value = first.get_or_insert(value.clone()).clone();
                }
            }
        }
    });
}

#[test]
fn the_checkers_see_a_generation_that_is_given_out_twice() {
    effects_caught_as(&["is given out twice", "which has", "for the first time after"], || {
        |effects: &mut Effects| {
            for (_, reply) in &mut effects.replies {
                if let Reply::JoinGroup(JoinGroup { result: Ok(joined), .. }) = reply {
                    joined.generation = 1 + joined.generation / 2;
                }
            }
        }
    });
}

#[test]
fn the_checkers_see_a_generation_that_was_not_written() {
    effects_caught_as(&["after a restart the highest is", "read back: there is"], || {
        |effects: &mut Effects| {
            for record in &mut effects.records {
                if let GroupRecord::Identity(identity) = record {
                    identity.generation -= 1;
                }
            }
        }
    });
}

#[test]
fn the_checkers_see_a_request_that_is_never_answered() {
    effects_caught_as(&["waits for", "is still parked"], || {
        let mut replies = 0;
        move |effects: &mut Effects| {
            effects.replies.retain(|(_, reply)| {
                let is_success = matches!(reply, Reply::JoinGroup(JoinGroup { result: Ok(_), .. }));
                replies += u32::from(is_success);
                !is_success || replies % 5 != 0
            });
        }
    });
}

#[test]
fn the_checkers_see_a_request_that_is_answered_twice() {
    effects_caught_as(&["is answered twice"], || {
        let mut replies = 0;
        move |effects: &mut Effects| {
            replies += effects.replies.len();
            if replies > 20
                && let Some(reply) = effects.replies.first().cloned()
            {
                effects.replies.push(reply);
            }
        }
    });
}

#[test]
fn the_checkers_see_a_group_that_does_not_settle() {
    effects_caught_as(&["after the faults stopped", "waits for"], || {
        |effects: &mut Effects| {
            for (_, reply) in &mut effects.replies {
                if let Reply::SyncGroup(sync) = reply {
                    sync.result = Err(ErrorCode::IllegalGeneration);
                }
            }
        }
    });
}

#[test]
fn the_checkers_see_an_assignment_for_somebody_who_is_not_in_the_generation() {
    effects_caught_as(&["an assignment is accepted although"], || {
        |effects: &mut Effects| {
            for (_, reply) in &mut effects.replies {
                if let Reply::SyncGroup(sync) = reply
                    && let Err(ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration) = sync.result
                {
                    let assignment = Bytes::new();
                    sync.result = Ok(Synced { protocol_type: None, protocol: None, assignment }.into());
                }
            }
        }
    });
}

#[test]
fn the_checkers_see_a_heartbeat_of_somebody_who_is_not_in_the_group() {
    answers_caught_as(&["a heartbeat is accepted although"], || {
        |answer: &mut Response| {
            if let Response::Heartbeat(reply) = answer
                && let Some(ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId) = reply.error
            {
                reply.error = None;
            }
        }
    });
}

#[test]
fn the_checkers_see_a_heartbeat_of_an_old_generation() {
    answers_caught_as(&["a heartbeat is accepted although"], || {
        |answer: &mut Response| {
            if let Response::Heartbeat(reply) = answer
                && reply.error == Some(ErrorCode::IllegalGeneration)
            {
                reply.error = None;
            }
        }
    });
}

#[test]
fn the_checkers_see_a_commit_of_somebody_who_is_not_in_the_group() {
    let expected =
        ["a commit is accepted although", "although there are members", "is accepted although generation"];
    answers_caught_as(&expected, || {
        |answer: &mut Response| {
            if answer.is_fenced()
                && let Response::Commit(error) = answer
            {
                *error = None;
            }
        }
    });
}
