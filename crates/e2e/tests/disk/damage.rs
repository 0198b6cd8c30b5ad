//! Files that say something else than was written.

use std::fs;
use std::os::unix::fs::FileExt;

use e2e::kohort::{Kohort, Options};

use crate::support::{Connection, code, kohort, one, wait_until};

#[test]
fn a_damaged_settled_file_is_named_and_the_rest_is_served() {
    let options =
        Options::default().set("kohort.settle.interval.ms", "20").set("kohort.cache.bytes", "1048576");
    let mut kohort_process = Kohort::start(options).unwrap();
    let mut client = Connection::open(&kohort_process.bootstrap());
    client.create_topic("damaged", 1);
    client.create_topic("sound", 1);
    let value = |number: usize| format!("{number} {}", "z".repeat(500));
    for number in 0..100 {
        client.produce("damaged", 0, one(&value(number))).unwrap();
        client.produce("sound", 0, one(&value(number))).unwrap();
    }
    let ids = kohort(&["topic", "list", "-o", "json", "-b", &kohort_process.bootstrap()]);
    let listed: serde_json::Value = serde_json::from_str(&ids.stdout).unwrap();
    let find = |topic: &serde_json::Value| topic["name"] == "damaged";
    let id = listed.as_array().unwrap().iter().find(|topic| find(topic)).unwrap()["id"].as_str().unwrap();
    let segment = kohort_process.data_dir().join("topics").join(id).join("0/00000000000000000000.log");
    wait_until("all is settled", || fs::metadata(&segment).is_ok_and(|it| it.len() > 100 * 500));
    kohort_process.stop().unwrap();

    // In the middle of a record in the middle of the file.
    let file = fs::OpenOptions::new().read(true).write(true).open(&segment).unwrap();
    let middle = file.metadata().unwrap().len() / 2;
    let mut bytes = [0; 16];
    file.read_exact_at(&mut bytes, middle).unwrap();
    file.write_all_at(&bytes.map(|byte| !byte), middle).unwrap();
    file.sync_all().unwrap();

    let data_dir = kohort_process.data_dir().to_str().unwrap().to_owned();
    let verified = kohort(&["log", "verify", "--data-dir", &data_dir, "-o", "json"]);
    assert_eq!(code(&verified), Some(1), "{verified:?}");
    let report: serde_json::Value = serde_json::from_str(&verified.stdout).unwrap();
    assert_eq!(report["sound"], false);
    let finding = report["findings"].as_array().unwrap().iter().find(|finding| finding["harmless"] == false);
    let finding = finding.unwrap_or_else(|| panic!("no finding in {report}"));
    assert!(finding["file"].as_str().unwrap().ends_with(segment.to_str().unwrap()), "{finding}");
    let position = finding["position"].as_u64().unwrap();
    assert!(position <= middle && middle < position + 700, "{finding} for byte {middle}");

    kohort_process.restart().unwrap();
    let mut client = Connection::open(&kohort_process.bootstrap());
    let all: Vec<String> = (0..100).map(value).collect();
    assert_eq!(client.values("sound", 0, 0).unwrap(), all);
    // What lies before the damage is served, what lies behind it too.
    assert_eq!(client.values("damaged", 0, 90).unwrap(), all[90..]);
    let refused = client.values("damaged", 0, 0);
    assert!(refused.is_err(), "damaged bytes were served: {} values", refused.unwrap().len());
    let said = kohort_process.output();
    let told = said.lines().find(|line| line.contains("ERROR") && line.contains("00000000000000000000.log"));
    let told = told.unwrap_or_else(|| panic!("nobody was told; the broker said\n{said}"));
    assert!(told.contains(id) && told.contains(&position.to_string()), "{told}");
    client.produce("damaged", 0, one("goes on")).expect("a damaged partition takes new records");
    assert_eq!(client.values("damaged", 0, 100).unwrap(), ["goes on"]);
    assert!(!kohort_process.output().contains("panicked"), "{}", kohort_process.output());
}

#[test]
fn a_log_that_lacks_what_was_acknowledged_is_refused_by_name() {
    // Nothing is settled, so all is in the log.
    let mut broker = Kohort::start(Options::default().set("kohort.settle.interval.ms", "3600000")).unwrap();
    let mut client = Connection::open(&broker.bootstrap());
    client.create_topic("t", 1);
    let all: Vec<String> = (0..50).map(|number| format!("{number} {}", "d".repeat(500))).collect();
    for value in &all {
        client.produce("t", 0, one(value)).unwrap();
    }
    broker.kill().unwrap();
    let directory = fs::read_dir(broker.data_dir().join("log")).unwrap();
    let log = directory
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|it| it == "log"));
    let log = log.unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).open(&log).unwrap();
    let damaged = 10_000;
    let mut byte = [0];
    file.read_exact_at(&mut byte, damaged).unwrap();
    file.write_all_at(&[!byte[0]], damaged).unwrap();

    let data_dir = broker.data_dir().to_str().unwrap().to_owned();
    let refused = kohort(&["serve", "--listen", "127.0.0.1:0", "--admin", "none", "--data-dir", &data_dir]);
    assert_eq!(code(&refused), Some(1), "{refused:?}");
    assert!(refused.stderr.contains(log.to_str().unwrap()), "{}", refused.stderr);
    assert!(refused.stderr.contains("is damaged at position"), "{}", refused.stderr);
    let verified = kohort(&["log", "verify", "--data-dir", &data_dir]);
    assert_eq!(code(&verified), Some(1), "{verified:?}");
    assert!(verified.stdout.contains(log.file_name().unwrap().to_str().unwrap()), "{}", verified.stdout);

    // Neither has changed anything: with the byte as it was, all is there.
    file.write_all_at(&byte, damaged).unwrap();
    broker.restart().unwrap();
    assert_eq!(Connection::open(&broker.bootstrap()).values("t", 0, 0).unwrap(), all);
}
