//! Other clients, where the crate rdkafka cannot do what a test needs.

use std::process::Command;
use std::time::Duration;

use e2e::process::{is_installed, run_within};
use e2e::{checkout, jars};

/// A JVM starts and compiles the program first, beside all the other tests.
const WITHIN: Duration = Duration::from_secs(60);

/// Runs a program with the clients of Python and gives what it prints; `None` where they are missing and may be.
pub(crate) fn python(program: &str, arguments: &[&str]) -> Option<String> {
    let python = checkout::tools().join("venv/bin/python");
    if !expected(python.is_file(), "the clients of Python") {
        return None;
    }
    let mut command = Command::new(python);
    command.args(["-B", "-c", program]).args(arguments);
    Some(run(command))
}

/// Runs a scenario of `Reading.java` and gives what it prints; `None` where Java is missing and may be.
pub(crate) fn java(arguments: &[&str]) -> Option<String> {
    let jars = checkout::tools().join("jars");
    if !expected(is_installed("java"), "java") || !expected(jars.join("pom.xml").is_file(), "Kafka's jars") {
        return None;
    }
    let mut command = jars::java(&jars, "-Xmx256m");
    command.arg(checkout::root().join("crates/e2e/tests/consumers/Reading.java")).args(arguments);
    Some(run(command))
}

fn run(command: Command) -> String {
    let finished = run_within(command, WITHIN).unwrap();
    assert!(finished.success(), "{}{}", finished.stdout, finished.stderr);
    finished.stdout
}

/// Whether something is there; it may be missing anywhere but in CI.
fn expected(found: bool, what: &str) -> bool {
    let in_ci = std::env::var("CI").is_ok_and(|it| it == "true");
    assert!(found || !in_ci, "missing: {what}; run cargo xtask setup");
    found
}
