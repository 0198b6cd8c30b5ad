//! Kafka's own tools for permissions and passwords.

use std::path::Path;
use std::time::Duration;

use e2e::clients::Client;
use e2e::jars;
use e2e::process::run_within;

use crate::world::{AUTHORIZER, TOPIC, Who, World};

const ACLS: &str = "org.apache.kafka.tools.AclCommand";
const CONFIGS: &str = "kafka.admin.ConfigCommand";
const WITHIN: Duration = Duration::from_secs(60);

/// The plain listener is the operator's: whoever comes by it may do everything.
const WITH_ACLS: [(&str, &str); 2] = [AUTHORIZER, ("super.users", "User:ANONYMOUS")];

fn tool(jars: &Path, class: &str, arguments: &[&str]) -> String {
    let mut command = jars::java(jars, "-Xmx256m");
    command.arg(class).args(arguments);
    let finished = run_within(command, WITHIN).unwrap();
    assert!(finished.success(), "{class} {arguments:?}:\n{}\n{}", finished.stdout, finished.stderr);
    finished.stdout
}

fn ann() -> Who {
    Who {
        protocol: "SASL_PLAINTEXT",
        mechanism: Some("SCRAM-SHA-256"),
        user: Some("ann"),
        password: Some("short secret"),
        ..Who::default()
    }
}

#[test]
fn kafka_acls_lets_a_user_in_and_out() {
    let Some(jars) = jars::for_tests() else { return };
    let world = World::start(&WITH_ACLS);
    world.populate();
    let bootstrap = world.kohort.bootstrap();
    world.command(&["topic", "create", TOPIC, "--partitions", "2", "--bootstrap", &bootstrap]);
    let acls = |more: &[&str]| tool(&jars, ACLS, &[&["--bootstrap-server", &bootstrap], more].concat());
    let logs_in = || world.log_in(Client::Java, "BARE", &ann()).unwrap();

    let refused = logs_in();
    assert!(!refused.success() && refused.stderr.contains("TopicAuthorization"), "{refused:?}");

    acls(&["--add", "--allow-principal", "User:ann", "--producer", "--topic", TOPIC]);
    acls(&["--add", "--allow-principal", "User:ann", "--operation", "Read", "--topic", TOPIC]);
    let refused = logs_in();
    assert!(!refused.success() && refused.stderr.contains("GroupAuthorization"), "{refused:?}");

    let readers = format!("{TOPIC}-readers-");
    let group = ["--group", readers.as_str(), "--resource-pattern-type", "prefixed"];
    acls(&[&["--add", "--allow-principal", "User:ann", "--operation", "Read"], &group[..]].concat());
    let let_in = logs_in();
    assert!(let_in.success(), "{let_in:?}");

    let listed = acls(&["--list", "--principal", "User:ann"]);
    for expected in
        ["name=orders", "patternType=PREFIXED", "operation=READ", "operation=WRITE", "permissionType=ALLOW"]
    {
        assert!(listed.contains(expected), "{expected}: {listed}");
    }

    acls(&["--add", "--deny-principal", "User:ann", "--operation", "Write", "--topic", TOPIC]);
    let refused = logs_in();
    // Who may write to no topic at all may not even have a producer id.
    assert!(!refused.success() && refused.stderr.contains("ClusterAuthorization"), "deny wins: {refused:?}");

    acls(&["--remove", "--force", "--deny-principal", "User:ann", "--operation", "Write", "--topic", TOPIC]);
    assert!(logs_in().success());
    acls(&["--remove", "--force", "--topic", TOPIC]);
    assert!(!acls(&["--list"]).contains("name=orders,"));
    assert!(!logs_in().success());
}

#[test]
fn kafka_configs_gives_and_takes_passwords() {
    let Some(jars) = jars::for_tests() else { return };
    let world = World::start(&[]);
    let bootstrap = world.kohort.bootstrap();
    let configs = |more: &[&str]| {
        let at = ["--bootstrap-server", &bootstrap, "--entity-type", "users", "--entity-name", "ann"];
        tool(&jars, CONFIGS, &[&at[..], more].concat())
    };
    let logs_in = || world.log_in(Client::Java, "BARE", &ann()).unwrap();

    assert!(!logs_in().success());
    configs(&["--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=short secret]"]);
    let listed = world.admin(&["user", "list", "-o", "json"]);
    assert!(listed.contains("ann"), "{listed}");
    let let_in = logs_in();
    assert!(let_in.success(), "{let_in:?}");
    let described = configs(&["--describe"]);
    assert!(described.contains("ann") && described.contains("SCRAM-SHA-256=iterations=8192"), "{described}");
    configs(&["--alter", "--delete-config", "SCRAM-SHA-256"]);
    assert!(!logs_in().success());
}
