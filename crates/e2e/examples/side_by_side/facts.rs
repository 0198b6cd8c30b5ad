//! What was measured, on what: without it figures say nothing.

use std::process::Command;

use e2e::checkout;

use crate::tools::Tools;

/// Machine and versions, for what both brokers do.
pub(crate) fn of_brokers(tools: &Tools) -> Vec<(&'static str, String)> {
    let kafka = format!("{}, one node, its defaults, a heap of 1 GiB", tools.kafka_version());
    let others = [
        ("Apache Kafka", kafka),
        ("Java", said("java", &["-version"])),
        ("librdkafka", rdkafka::util::get_rdkafka_version().1),
    ];
    machine().into_iter().chain(others).collect()
}

/// Machine and versions, for gateways.
pub(crate) fn of_gateways() -> Vec<(&'static str, String)> {
    machine().into_iter().chain([("Java", said("java", &["-version"]))]).collect()
}

/// Machine and versions, for the assigner.
pub(crate) fn of_the_assigner() -> Vec<(&'static str, String)> {
    machine().into_iter().chain([("etcd", format!("{}, one node", etcd_version()))]).collect()
}

fn machine() -> Vec<(&'static str, String)> {
    let machine = bench::Machine::here();
    vec![
        ("Cores, shared by all and the load", machine.cores.to_string()),
        ("Processor", machine.processor),
        ("Memory", machine.memory),
        ("Kernel", format!("Linux {}", machine.kernel)),
        ("Kohort", format!("{} at {}", env!("CARGO_PKG_VERSION"), commit())),
    ]
}

/// The version of the etcd that the assigner stands on.
fn etcd_version() -> String {
    let built = checkout::tools().join("etcd/etcd").display().to_string();
    let version = said(&built, &["--version"]);
    version.trim_start_matches("etcd Version: ").to_owned()
}

/// The commit that is checked out, and whether files differ from it.
fn commit() -> String {
    let root = checkout::root();
    let root = root.to_string_lossy();
    let hash = said("git", &["-C", &root, "rev-parse", "--short", "HEAD"]);
    let changed = said("git", &["-C", &root, "status", "--porcelain", "--untracked-files=no"]);
    if changed.is_empty() { hash } else { format!("{hash} with changes") }
}

/// The first line that a program says.
fn said(program: &str, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else { return "unknown".to_owned() };
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().replace('"', "")
}
