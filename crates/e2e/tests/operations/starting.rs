//! What a broker needs to start, what keeps it from starting, and what it tells those who dial it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Stdio};

use e2e::kohort::{Kohort, Options};
use e2e::ports::free_ports;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::data_dir;
use crate::support::{Connection, code, kohort, kohort_command, kohort_with, one, wait_until};

#[test]
fn a_second_process_on_the_same_directory_is_refused() {
    let first = Kohort::start(Options::default()).unwrap();
    let second = serve_until_it_ends(&first);
    assert_eq!(code(&second), Some(1), "{second:?}");
    assert!(second.stderr.contains("in use by another process"), "{}", second.stderr);
    assert!(second.stderr.contains(data_dir(&first)), "{}", second.stderr);
    let mut client = Connection::open(&first.bootstrap());
    client.create_topic("t", 1);
    assert_eq!(client.produce("t", 0, one("served all the while")), Ok(0));

    let verified = kohort(&["log", "verify", "--data-dir", data_dir(&first)]);
    assert_eq!(code(&verified), Some(1), "{verified:?}");
    assert!(verified.stderr.contains("in use by another process"), "{}", verified.stderr);
}

#[test]
fn data_of_a_newer_version_is_refused_and_left_alone() {
    let mut broker = Kohort::start(Options::default()).unwrap();
    Connection::open(&broker.bootstrap()).create_topic("t", 1);
    broker.stop().unwrap();
    let format = broker.data_dir().join("format");
    let ours = fs::read(&format).unwrap();
    let mut newer: Value = serde_json::from_slice(&ours).unwrap();
    newer["version"] = json!(newer["version"].as_u64().unwrap() + 1);
    fs::write(&format, newer.to_string()).unwrap();

    let refused = serve_until_it_ends(&broker);
    assert_eq!(code(&refused), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("format version 2"), "{}", refused.stderr);
    let verified = kohort(&["log", "verify", "--data-dir", data_dir(&broker)]);
    assert_eq!(code(&verified), Some(1), "{verified:?}");

    fs::write(&format, ours).unwrap();
    broker.restart().unwrap();
    assert_eq!(Connection::open(&broker.bootstrap()).values("t", 0, 0), Ok(Vec::new()));
}

#[test]
fn wrong_settings_are_refused_with_the_nearest_right_one() {
    let checked = kohort(&["config", "check", "--set", "num.partition=3"]);
    assert_eq!(code(&checked), Some(2), "{checked:?}");
    assert!(checked.stderr.contains("num.partition; did you mean num.partitions?"), "{}", checked.stderr);
    let checked = kohort(&["config", "check", "--set", "num.partitions=3", "-o", "json"]);
    assert_eq!(code(&checked), Some(0), "{checked:?}");
    let changed: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!((&changed[0]["name"], &changed[0]["value"]), (&json!("num.partitions"), &json!("3")));

    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("never-made");
    let serve =
        ["serve", "--listen", "127.0.0.1:0", "--admin", "none", "--data-dir", directory.to_str().unwrap()];
    let refused = kohort_with(&serve, &[("KOHORT_NUM_PARTITION", "3")]);
    assert_eq!(code(&refused), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("did you mean KOHORT_NUM_PARTITIONS?"), "{}", refused.stderr);
    let refused = kohort_with(&serve, &[("KOHORT_FLUSH", "sometimes")]);
    assert_eq!(code(&refused), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("KOHORT_FLUSH"), "{}", refused.stderr);
    assert!(!directory.exists(), "wrong settings leave nothing behind");
}

#[test]
fn every_client_is_told_the_address_that_it_dialled() {
    let scratch = tempfile::tempdir().unwrap();
    let data_dir = scratch.path().join("data");
    let mut command = kohort_command(&["serve", "--listen", "[::]:0", "--admin", "none", "--data-dir"]);
    command.arg(data_dir).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = Process(command.spawn().unwrap());
    let stdout = BufReader::new(process.0.stdout.take().unwrap());
    let mut lines = stdout.lines().map(Result::unwrap);
    let clients = lines.find_map(|line| Some(line.split_once("bootstrap.servers=")?.1.to_owned())).unwrap();
    let port: i32 = clients.rsplit(':').next().unwrap().parse().unwrap();
    let dialled = |host: &str, address: String| {
        assert_eq!(Connection::open(&address).advertised(), (host.to_owned(), port));
    };
    dialled("127.0.0.1", format!("127.0.0.1:{port}"));
    // The whole of 127/8 is this machine on Linux.
    dialled("127.0.0.2", format!("127.0.0.2:{port}"));
    if TcpListener::bind("[::1]:0").is_ok() {
        dialled("::1", format!("[::1]:{port}"));
    } else {
        println!("left out: this machine has no IPv6");
    }
}

#[test]
fn a_broker_whose_output_nobody_can_take_starts_serves_and_ends() {
    let scratch = tempfile::tempdir().unwrap();
    let [address] = free_ports().unwrap().map(|address| address.to_string());
    let mut command = kohort_command(&["serve", "--listen", &address, "--admin", "none", "--data-dir"]);
    command.arg(scratch.path().join("data")).stdin(Stdio::null());
    // Every write to it fails as on a full disk.
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut process = Process(command.stdout(full()).stderr(full()).spawn().unwrap());
    wait_until("it listens", || Connection::try_open(&address).is_ok());
    let mut client = Connection::open(&address);
    client.create_topic("t", 1);
    assert_eq!(client.produce("t", 0, one("kept")), Ok(0));
    drop(client);
    let pid = i32::try_from(process.0.id()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(process.0.wait().unwrap().code(), Some(0));
}

/// Starts another broker on the same data, which is expected to end by itself.
fn serve_until_it_ends(other: &Kohort) -> e2e::process::Finished {
    kohort(&["serve", "--listen", "127.0.0.1:0", "--admin", "none", "--data-dir", data_dir(other)])
}

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
