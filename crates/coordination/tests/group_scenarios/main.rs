//! Groups, told as scripts: `scenarios/groups/*.txt`.
//!
//! A step is a command, then `----` and what came of it; lines that begin with `#` are comments, and `# proves:` names
//! the behaviours that a script proves. `REWRITE=1` writes what came of each step into the files. After each step a
//! shard that was told only the records, and one that was told only what compaction leaves of them, must be what the
//! shard in memory is; no request is answered twice.
//!
//! Commands, with their defaults. The group is `g` everywhere unless `group=` says otherwise; `""` is the empty text.
//! - `settings delay=3000 quiet=0 max-size=9 min-session=6000 max-session=1800000 metadata-max=4096 retention=604800000`
//! - `join NAME v=9 member= instance= session=10000 rebalance=60000 type=consumer protocols=range reason=`: NAME is the
//!   client id and names the request. A new member's id is shown as NAME~1, NAME~2 … `protocols=range,rr@t1+t2,x:text`
//!   offers three: without metadata, with a consumer's subscription to t1 and t2, with the metadata `text`.
//! - `sync NAME member=NAME~1 generation=1 v=5 instance= type=consumer protocol=range assign=a~1:text,b~2@t-0+t-1`
//! - `heartbeat NAME~1 generation=1 instance=`; `leave NAME~1 NAME~2/instance /instance client=NAME reason=`
//! - `members a b c/instance`: joins all of them, waits and syncs, so that the group is stable; `assign=` as in sync.
//! - `wait 3000` lets time pass, deadlines included; `stall 3000` lets it pass unnoticed; `deadlines` notices.
//! - `commit member= generation=-1 instance= retention= v=9 id=1 t-0=5 t-1=5/3/metadata`: offset, leader epoch, metadata.
//!   `id=` is the id of the topics.
//! - `fetch t-0 t-1 id=0` or `fetch all`; `delete-offsets t-0 t-1`; `delete-group`; `topic-deleted t id=1`; `expire`
//! - `list states=a,b types=classic`; `describe`; `events`; `usage`; `room groups=1 bytes=100` bounds what is left.
//! - `stored generation=3 type=consumer protocol=range leader=a members=a,b/instance session=10000 rebalance=60000`
//!   `since=`: a record of the log, as recovery finds it; `stored gone`. `restart` recovers from the log; `unload`.

#![expect(
    clippy::unwrap_used,
    reason = "a script that cannot be read fails the test, and where is plain to see"
)]

mod promises;
#[path = "../support/scripts.rs"]
mod scripts;
mod stage;
mod text;

use proptest::prelude::*;

use stage::Stage;

#[test]
fn scripts_come_out_as_written() {
    scripts::come_out_as_written("groups", || {
        let mut stage = Stage::new();
        move |command, _| stage.step(command)
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// [`Stage::check`] looks after every step.
    #[test]
    fn any_history_keeps_its_promises(steps in prop::collection::vec(step(), 1..60)) {
        let mut stage = Stage::new();
        for step in steps {
            stage.step(&step);
        }
        stage.check_crashes();
        stage.check_end();
    }
}

/// One step among a few members, so that steps meet. Ids are those of the first requests.
fn step() -> impl Strategy<Value = String> {
    let name = || prop::sample::select(vec!["a", "b"]);
    let id = || (name(), 1..7).prop_map(|(name, number)| format!("{name}~{number}"));
    let static_id = || (1..12).prop_map(|number| format!("i~{number}"));
    let any_id = || prop_oneof![4 => id(), 1 => static_id()];
    let offer = || prop::sample::select(vec!["range", "range,rr", "rr,range", "rr", "range:x", "rr,rr"]);
    let timeout = || prop::sample::select(vec!["0", "5000", "60000"]);
    prop_oneof![
        3 => (name(), 3..10, offer(), timeout())
            .prop_map(|(name, v, offer, timeout)| format!("join {name} v={v} protocols={offer} rebalance={timeout}")),
        2 => (name(), offer(), timeout())
            .prop_map(|(name, offer, timeout)| format!("join {name} instance=i protocols={offer} rebalance={timeout}")),
        6 => (any_id(), offer()).prop_map(|(id, offer)| format!("join z member={id} protocols={offer}")),
        6 => (any_id(), 1..6).prop_map(|(id, generation)| {
            format!("sync z member={id} v=3 generation={generation} assign=a~1:p0,b~2@t-0")
        }),
        2 => (any_id(), 1..6).prop_map(|(id, generation)| format!("heartbeat {id} generation={generation}")),
        2 => any_id().prop_map(|id| format!("leave {id}")),
        1 => Just("leave /i".to_owned()),
        3 => prop::sample::select(vec!["wait 100", "wait 4000", "wait 9000", "stall 20000", "deadlines"])
            .prop_map(str::to_owned),
        2 => (any_id(), 1..6).prop_map(|(id, generation)| format!("commit member={id} generation={generation} t-0=1")),
        1 => Just("commit t-0=1 u-1=2".to_owned()),
        1 => prop::sample::select(vec![
            "restart",
            "expire",
            "delete-group",
            "delete-offsets t-0",
            "topic-deleted u",
            "settings max-size=2",
            "settings max-size=9",
            "settings quiet=0",
            "settings retention=1000",
            "room bytes=0",
            "room bytes=1000000",
        ])
        .prop_map(str::to_owned),
    ]
}
