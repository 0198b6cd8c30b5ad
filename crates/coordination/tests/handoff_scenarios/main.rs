//! The assigner's decisions, told as scripts: `scenarios/handoff/*.txt`.
//!
//! A step is a command, then `----` and what came of it: what was written, and what each consumer was told. Lines that
//! begin with `#` are comments. `REWRITE=1` writes what came of each step into the files. After each step no partition
//! is worked on by two consumers, unless the mode is overlap.
//!
//! Commands, with their defaults:
//! - `settings mode=exclusive warming=300000 release=300000 retry=30000 newcomers=2/60000`
//! - `topic t 10 weight=1 weights=0:2,3:9 racks=r1,r2`: its partitions, and where the first ones are; `topic t gone`
//! - `consumers a b session=1 topics= capacity=1 rack= holds=t-0,t-1`: they register, or come back; `forgets a`: its
//!   stream broke and is back; `dies a`: its lease has ended; `deregister a session=`
//! - `stopped a session=1`: that process has stopped; `waited a`: a lease later, those before a have.
//! - `plan` writes what the leader plans; `urgent` what of it cannot wait; `dry-run` says why; `wait 1000` lets time pass.
//! - `ready b t-0 id=1 epoch=2 session=1`, `released a t-0`, `progress b t-0 done=1`: what consumers say; what is left
//!   out is not said, and without a session it is the registered one that speaks. Session 0 is for those who know none. `cancel t-0 id=1` is an operator's.
//! - `remember x`: instance x hears of nothing more; `zombie x plan`, `zombie x ready b t-0`: it decides all the same.
//! - `owners`; `settle` lets all consumers answer and plans until nothing is left to do.

#![expect(
    clippy::unwrap_used,
    reason = "a script that cannot be read fails the test, and where is plain to see"
)]

mod balance;
#[path = "../support/scripts.rs"]
mod scripts;
mod stage;
mod text;

use proptest::prelude::*;

use stage::Stage;
use text::Words;

#[test]
fn scripts_come_out_as_written() {
    scripts::come_out_as_written("handoff", || {
        let mut stage = Stage::new();
        move |command, _| stage.step(command)
    });
}

/// What happens next in a history. Consumers hear of changes late, and what they say is late, lost or said twice.
#[derive(Clone, Debug)]
enum Event {
    Do(&'static str),
    Tell(usize),
    Hear { which: usize, again: bool },
    Lose(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let deeds = vec![
        "consumers a",
        "consumers b",
        "consumers c",
        "consumers a session=2",
        "consumers a session=3",
        "consumers a session=0",
        "stopped a",
        "stopped a session=2",
        "stopped b",
        "waited a",
        "waited b",
        "consumers b session=2 topics=u",
        "forgets a",
        "forgets b",
        "dies a",
        "dies b",
        "dies c",
        "deregister a",
        "deregister b",
        "topic t 3",
        "topic t 5",
        "topic u 2",
        "topic u gone",
        "wait 1000",
        "wait 40000",
        "wait 400000",
        "cancel t-0",
        "cancel t-3",
        "settings newcomers=1/50000",
    ];
    prop_oneof![
        4 => prop::sample::select(deeds).prop_map(Event::Do),
        4 => Just(Event::Do("plan")),
        2 => Just(Event::Do("urgent")),
        6 => (0..3_usize).prop_map(Event::Tell),
        4 => (0..8_usize, any::<bool>()).prop_map(|(which, again)| Event::Hear { which, again }),
        1 => (0..8_usize).prop_map(Event::Lose),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// [`Stage::check`] looks after every event for partitions with two owners. When the faults stop, what is desired
    /// comes true.
    #[test]
    fn any_history_keeps_one_owner_and_converges(
        mode in prop::sample::select(vec!["settings", "settings mode=overlap"]),
        events in prop::collection::vec(event(), 1..80),
    ) {
        let mut stage = Stage::new();
        stage.step(mode);
        stage.answers = true;
        stage.step("topic t 5");
        for event in events {
            let out = &mut String::new();
            match event {
                Event::Do(command) => stage.run(&Words::of(command), out),
                Event::Tell(which) => stage.tell(&["a", "b", "c"][which].parse().unwrap(), out),
                Event::Hear { which, again } => {
                    if let Some(said) = stage.said.get(which).cloned() {
                        if !again {
                            stage.said.remove(which);
                        }
                        stage.hear(&said, out);
                    }
                }
                Event::Lose(which) => {
                    if which < stage.said.len() {
                        stage.said.remove(which);
                    }
                }
            }
            stage.check();
        }
        stage.settle();
        stage.check_settled();
    }
}
