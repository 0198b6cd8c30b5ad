//! Which crate may know which, as DESIGN.md draws it, held against what cargo says.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// For each crate of ours, the crates of ours that it may use.
const ALLOWED: [(&str, &[&str]); 16] = [
    ("coordination", &[]),
    ("batch", &[]),
    ("sasl", &[]),
    ("scheduling", &[]),
    ("wire", &["coordination", "sasl"]),
    ("store", &["batch", "coordination", "scheduling"]),
    ("rail", &["coordination"]),
    ("gateway", &["coordination", "rail", "sasl", "scheduling", "wire"]),
    ("broker", &["batch", "coordination", "rail", "sasl", "store"]),
    ("client", &["batch", "coordination", "sasl", "wire"]),
    ("etcd", &[]),
    ("assigner-client", &[]),
    ("word-counters", &["assigner-client"]),
    ("assigner", &["assigner-client", "client", "coordination", "etcd"]),
    ("sim", &["coordination"]),
    ("bench", &["assigner-client", "batch", "coordination", "wire"]),
];

/// The binary, which puts all together, and the crates that test or measure.
const FREE: [&str; 4] = ["kohort", "e2e", "microbench", "xtask"];

/// Crates that decide and describe, and therefore reach nothing outside.
const PURE: [&str; 3] = ["coordination", "batch", "wire"];

/// What would let a pure crate wait, guess or look at the world.
const IMPURE: [&str; 11] = [
    "async-std",
    "futures",
    "futures-util",
    "getrandom",
    "mio",
    "polling",
    "rand",
    "rustix",
    "smol",
    "socket2",
    "tokio",
];

#[test]
fn crates_use_only_what_the_design_allows() {
    let metadata = MetadataCommand::new()
        .no_deps()
        .other_options(["--locked".to_owned()])
        .exec()
        .expect("cargo metadata");
    let allowed: BTreeMap<_, _> = ALLOWED.into_iter().collect();
    let ours: BTreeSet<_> = metadata.workspace_packages().iter().map(|it| it.name.to_string()).collect();
    for package in metadata.workspace_packages() {
        let name = package.name.as_str();
        if FREE.contains(&name) {
            continue;
        }
        let allowed =
            allowed.get(name).unwrap_or_else(|| panic!("{name} has no entry in the table of directions"));
        for dependency in &package.dependencies {
            let test_only = dependency.kind == DependencyKind::Development;
            if ours.contains(&dependency.name) && !test_only {
                assert!(
                    allowed.contains(&dependency.name.as_str()),
                    "{name} must not use {}",
                    dependency.name
                );
            }
        }
    }
}

#[test]
fn pure_crates_reach_neither_async_nor_randomness_nor_sockets() {
    for name in PURE {
        let reached = normal_dependencies(name);
        for impure in IMPURE {
            assert!(!reached.contains(impure), "{name} reaches {impure}");
        }
    }
}

/// It decides like the pure ones and is handed nonces and the time, but ring, which checks signatures for it, can draw
/// random numbers for others.
#[test]
fn sasl_reaches_neither_async_nor_sockets() {
    let reached = normal_dependencies("sasl");
    for impure in IMPURE.into_iter().filter(|name| *name != "getrandom") {
        assert!(!reached.contains(impure), "sasl reaches {impure}");
    }
}

/// The names of all that ends up in the crate, without what only its tests or build scripts use.
///
/// Asked of `cargo tree`, because `cargo metadata` switches on the features that the rest of the workspace wants.
fn normal_dependencies(name: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--package",
            name,
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .output()
        .expect("cargo tree");
    assert!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let names: BTreeSet<_> =
        text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    assert!(names.contains(name), "cargo tree names the crate itself");
    names
}
