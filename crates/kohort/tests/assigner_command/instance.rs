//! An instance as a process, without an etcd: it says so, is alive and not ready, and ends when told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{kohort, scripted_assigner};

/// A running instance, killed when the test ends.
struct Instance {
    child: Child,
    stdout: BufReader<ChildStdout>,
    announced: String,
}

impl Instance {
    fn start(etcd: &str) -> Self {
        let mut child = kohort()
            .args(["assigner", "--etcd", etcd, "--name", "one"])
            .args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .env("KOHORT_NUM_PARTITIONS", "3")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut announced = String::new();
        while !announced.lines().any(|line| line.starts_with("serving after ")) {
            assert_ne!(stdout.read_line(&mut announced).unwrap(), 0, "it ended after saying\n{announced}");
        }
        Self { child, stdout, announced }
    }

    /// What follows `mark` in what it said, up to a space or slash.
    fn after(&self, mark: &str) -> String {
        let rest = self.announced.split_once(mark).map(|(_, rest)| rest).unwrap_or_default();
        rest.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or_default().to_owned()
    }

    /// The head and body of what it answers over HTTP.
    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.after("http   http://")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_instance_without_etcd_is_alive_not_ready_and_ends_when_told_to() {
    let (_unheard, etcd) = scripted_assigner::unheard();
    let mut instance = Instance::start(&etcd);
    let first = instance.announced.lines().next().unwrap_or_default();
    let grpc = instance.after("assigner one on http://");
    assert!(first.ends_with(&format!("assigner one on http://{grpc}")), "{first}");
    assert!(instance.announced.contains(&format!("{etcd} under /kafka-assigner/")), "{}", instance.announced);

    assert!(instance.get("/livez").starts_with("HTTP/1.0 200"));
    let not_ready = instance.get("/readyz");
    assert!(not_ready.starts_with("HTTP/1.0 503") && not_ready.contains("not ready"), "{not_ready}");
    let metrics = instance.get("/metrics");
    assert!(metrics.contains("\nkohort_assigner_is_leader 0\n"), "{metrics}");
    assert!(metrics.contains("process_resident_memory_bytes "), "{metrics}");

    let url = format!("http://{grpc}");
    let status = kohort().args(["assigner", "status", "--assigner", &url]).output().unwrap();
    let said = String::from_utf8_lossy(&status.stdout);
    assert!(said.starts_with("Instance one (kohort ") && said.contains("nobody leads"), "{said}");

    let pid = Pid::from_raw(i32::try_from(instance.child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let mut rest = String::new();
    instance.stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(instance.child.wait().unwrap().code(), Some(0));
}

#[test]
fn wrong_settings_are_all_told_and_exit_with_2() {
    let output = kohort()
        .args(["assigner", "--set", "bind_prot=1", "--set", "handoff_timeout_secs=soon"])
        .env("KOHORT_ASSIGNER_KAFKA_HOST", "k:9092")
        .env("ETCD_PREFIX", "/no-slash")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    expect_test::expect![[r#"
        kohort: the settings are wrong:
          --set: unknown setting bind_prot; did you mean bind_port?
          KOHORT_ASSIGNER_KAFKA_HOST: unknown setting; did you mean KOHORT_ASSIGNER_KAFKA_HOSTS?
          --set: handoff_timeout_secs: `soon` is not a number of seconds
          etcd_prefix: it does not end with a slash
    "#]]
    .assert_eq(&String::from_utf8_lossy(&output.stderr));
}

#[test]
fn settings_are_checked_and_listed_without_running() {
    let check = kohort()
        .args(["assigner", "config", "check", "--etcd", "http://e:2379"])
        .env("BIND_PORT", "7")
        .env("KOHORT_ASSIGNER_BIND_PORT", "8")
        .output()
        .unwrap();
    assert_eq!(check.status.code(), Some(0));
    expect_test::expect![[r#"
        SETTING         VALUE          SOURCE       DEFAULT
        etcd_endpoints  http://e:2379  flag         http://127.0.0.1:2379
        bind_port       8              environment  50051
    "#]]
    .assert_eq(&String::from_utf8_lossy(&check.stdout));
    let list = kohort().args(["assigner", "config", "list"]).output().unwrap();
    let list = String::from_utf8_lossy(&list.stdout);
    assert!(list.starts_with("SETTING ") && list.contains("\nbind_port "), "{list}");
}
