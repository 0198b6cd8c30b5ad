//! What was measured, on what: without it figures say nothing.

use std::process::Command;

use e2e::checkout;

use crate::tools::Tools;

/// Machine and versions.
pub(crate) fn gather(tools: &Tools) -> Vec<(&'static str, String)> {
    let machine = bench::Machine::here();
    vec![
        ("Cores, shared by broker and load", machine.cores.to_string()),
        ("Processor", machine.processor),
        ("Memory", machine.memory),
        ("Kernel", format!("Linux {}", machine.kernel)),
        ("Kohort", format!("{} at {}", env!("CARGO_PKG_VERSION"), commit())),
        ("Apache Kafka", format!("{}, one node, its defaults, a heap of 1 GiB", tools.kafka_version())),
        ("Java", said("java", &["-version"])),
        ("librdkafka", rdkafka::util::get_rdkafka_version().1),
    ]
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
