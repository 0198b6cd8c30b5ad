//! Organisations, users and ACLs through the commands, against a broker that asks who one is.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A running broker, killed when the test ends.
struct Broker {
    child: Child,
    bootstrap: String,
    admin: String,
    dir: tempfile::TempDir,
}

impl Broker {
    fn start(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = kohort();
        command.args(["serve", "--admin", "127.0.0.1:0", "--data-dir"]).arg(dir.path().join("data"));
        command.args(args).env("KOHORT_LOG", "warn").stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut announced = String::new();
        while !announced.lines().any(|line| line.starts_with("ready in ")) {
            assert_ne!(stdout.read_line(&mut announced).unwrap(), 0, "it ended after saying\n{announced}");
        }
        let after = |mark: &str| {
            let rest = announced.split_once(mark).map(|(_, rest)| rest).unwrap_or_default();
            rest.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or_default().to_owned()
        };
        let (bootstrap, admin) = (after("bootstrap.servers="), after("http://"));
        Self { child, bootstrap, admin, dir }
    }

    /// A command that asks the admin listener.
    fn ask(&self, args: &[&str], input: &str) -> Output {
        let mut command = kohort();
        command.args(args).args(["--admin", &self.admin, "--data-dir"]).arg(self.dir.path().join("data"));
        run(&mut command, input)
    }

    /// A command that speaks Kafka's protocol as this user.
    fn as_user(&self, login: &str, password: &str, args: &[&str]) -> Output {
        let mut command = kohort();
        command.args(args).args(["--bootstrap", &self.bootstrap, "--command-config"]);
        command.arg(login_file(self.dir.path(), login, password));
        run(&mut command, "")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // Fails only when it has ended already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command in an environment that nobody has touched.
fn kohort() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kohort"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("KOHORT_")) {
        command.env_remove(name);
    }
    command
}

fn run(command: &mut Command, input: &str) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The file that Kafka's own tools read.
fn login_file(dir: &Path, login: &str, password: &str) -> PathBuf {
    let path = dir.join(format!("{}.properties", login.replace('/', "-")));
    let text = format!(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config=\
         org.apache.kafka.common.security.scram.ScramLoginModule required username=\"{login}\" \
         password=\"{password}\";\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refused(output: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

const SASL: &str = "SASL_PLAINTEXT://127.0.0.1:0";

#[test]
fn two_organisations_share_a_broker_and_never_meet() {
    let broker = Broker::start(&["--listen", SASL]);
    good(&broker.ask(&["org", "create", "acme", "--limit", "max.topics=1"], ""));
    assert!(refused(&broker.ask(&["org", "create", "acme"], ""), 4).contains("already"));
    assert!(refused(&broker.ask(&["org", "describe", "nobody"], ""), 4).contains("no organisation"));
    good(&broker.ask(&["user", "create", "alice"], "one\n"));
    good(&broker.ask(&["user", "create", "acme/alice"], "two\n"));
    assert!(refused(&broker.ask(&["user", "create", "alice"], "x"), 4).contains("already"));
    assert!(refused(&broker.ask(&["user", "create", "bob"], ""), 2).contains("empty"));
    assert!(good(&broker.ask(&["user", "list", "--org", "acme"], "")).contains("acme/alice"));

    let wrong = broker.as_user("alice", "two", &["topic", "list"]);
    assert!(!wrong.status.success(), "one user's password let another in");
    good(&broker.as_user("alice", "one", &["topic", "create", "orders"]));
    assert!(!good(&broker.as_user("acme/alice", "two", &["topic", "list"])).contains("orders"));
    good(&broker.as_user("acme/alice", "two", &["topic", "create", "orders", "--partitions", "3"]));
    let more = broker.as_user("acme/alice", "two", &["topic", "create", "more"]);
    assert!(refused(&more, 1).contains("max.topics"), "{more:?}");
    let listed = good(&broker.ask(&["org", "list"], ""));
    assert!(listed.lines().any(|line| line.starts_with("acme") && line.contains("1/1")), "{listed}");

    good(&broker.ask(&["user", "passwd", "acme/alice"], "three"));
    assert!(!broker.as_user("acme/alice", "two", &["topic", "list"]).status.success());
    good(&broker.as_user("acme/alice", "three", &["topic", "delete", "orders"]));
    assert!(refused(&broker.ask(&["org", "delete", "acme"], ""), 1).contains("1 users"));
    good(&broker.ask(&["user", "delete", "alice", "--org", "acme"], ""));
    good(&broker.ask(&["org", "delete", "acme"], ""));
    assert!(!broker.as_user("acme/alice", "three", &["topic", "list"]).status.success());
    assert!(good(&broker.as_user("alice", "one", &["topic", "list"])).contains("orders"));
}

#[test]
fn acls_are_added_listed_and_removed_by_who_may() {
    let authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    let broker = Broker::start(&["--listen", SASL, "--set", authorizer, "--set", "super.users=User:admin"]);
    good(&broker.ask(&["user", "create", "admin"], "root"));
    good(&broker.ask(&["user", "create", "alice"], "pass"));
    good(&broker.as_user("admin", "root", &["topic", "create", "orders"]));
    let unseen = good(&broker.as_user("alice", "pass", &["topic", "list"]));
    assert!(!unseen.contains("orders"), "{unseen}");
    let allow =
        ["acl", "add", "--allow-principal", "User:alice", "--operation", "describe", "--topic", "orders"];
    assert!(!broker.as_user("alice", "pass", &allow).status.success());
    assert!(good(&broker.as_user("admin", "root", &allow)).starts_with("1 ACL added"));
    let of_nobody =
        ["acl", "add", "--deny-principal", "User:acme/alice", "--operation", "all", "--topic", "t"];
    let output = broker.as_user("admin", "root", &of_nobody);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("the principal is User:alice"), "{said}");
    assert!(good(&broker.as_user("alice", "pass", &["topic", "list"])).contains("orders"));
    let described = broker.as_user("alice", "pass", &["topic", "describe", "orders"]);
    assert!(refused(&described, 1).contains("the settings of topic orders: "), "{described:?}");
    assert!(good(&broker.as_user("admin", "root", &["acl", "list"])).contains("User:alice"));
    let remove = ["acl", "remove", "--allow-principal", "User:alice"];
    assert!(good(&broker.as_user("admin", "root", &remove)).starts_with("1 ACL removed"));
    assert!(!good(&broker.as_user("alice", "pass", &["topic", "list"])).contains("orders"));
}
