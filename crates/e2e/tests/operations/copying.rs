//! Copies of the data of a broker that goes on.

use e2e::kohort::{Kohort, Options};
use serde_json::{Value, json};

use crate::data_dir;
use crate::load::{Load, numbered};
use crate::support::{Connection, code, kohort, one, wait_until};

#[test]
fn a_snapshot_under_load_is_a_directory_that_serves_all_that_was_acknowledged() {
    const PARTITIONS: i32 = 3;
    // Small files and short intervals, so that settling goes on while the copy is made.
    let options =
        Options::default().set("kohort.log.file.bytes", "1048576").set("kohort.settle.interval.ms", "20");
    let broker = Kohort::start(options).unwrap();
    Connection::open(&broker.bootstrap()).create_topic("t", PARTITIONS);
    let loads: Vec<Load> =
        (0..PARTITIONS).map(|partition| Load::start(&broker.bootstrap(), partition)).collect();
    let scratch = tempfile::tempdir().unwrap();
    let mut taken = Vec::new();
    for number in 0..3 {
        for load in &loads {
            let so_far = load.acknowledged();
            wait_until("the load goes on", || load.acknowledged() > so_far + 20);
        }
        let directory = scratch.path().join(format!("copy-{number}"));
        let before: Vec<usize> = loads.iter().map(Load::acknowledged).collect();
        let path = directory.to_str().unwrap();
        let arguments =
            ["snapshot", path, "--admin", &broker.admin(), "--data-dir", data_dir(&broker), "-o", "json"];
        let done = kohort(&arguments);
        assert_eq!(code(&done), Some(0), "{done:?}");
        let told: Value = serde_json::from_str(&done.stdout).unwrap();
        assert!(told["bytes"].as_u64().unwrap() > 0, "{told}");
        taken.push((directory, before));
    }
    let again = kohort(&[
        "snapshot",
        taken[0].0.to_str().unwrap(),
        "--admin",
        &broker.admin(),
        "--data-dir",
        data_dir(&broker),
    ]);
    assert_eq!(code(&again), Some(1), "a place that is taken is refused: {again:?}");
    let counts: Vec<usize> = loads.into_iter().map(Load::finish).collect();

    for (directory, before) in taken {
        let verified = kohort(&["log", "verify", "--data-dir", directory.to_str().unwrap(), "-o", "json"]);
        assert_eq!(code(&verified), Some(0), "{verified:?}");
        let report: Value = serde_json::from_str(&verified.stdout).unwrap();
        assert_eq!(report["findings"], json!([]), "a copy has not even what a crash may leave");
        let copy = Kohort::start(Options { data_dir: Some(directory), ..Options::default() }).unwrap();
        let mut client = Connection::open(&copy.bootstrap());
        for (partition, (before, sent)) in (0..PARTITIONS).zip(before.into_iter().zip(&counts)) {
            let stored = client.values("t", partition, 0).unwrap();
            assert!(stored.len() >= before, "{} of {before} records are in the copy", stored.len());
            assert!(stored.len() <= *sent + 1);
            assert_eq!(stored, (0..stored.len()).map(numbered).collect::<Vec<_>>());
        }
        client.produce("t", 0, one("the copy goes its own way")).unwrap();
    }
    for (partition, sent) in (0..PARTITIONS).zip(counts) {
        let stored = Connection::open(&broker.bootstrap()).values("t", partition, 0).unwrap();
        assert_eq!(stored, (0..sent).map(numbered).collect::<Vec<_>>(), "the original is as it was");
    }
}
