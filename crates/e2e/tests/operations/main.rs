//! What whoever runs a Kohort does with it: start, stop, look, copy, command.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod commands;
mod copying;
mod ending;
mod groups;
mod load;
mod starting;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;

use e2e::kohort::Kohort;

use crate::support::get;

fn data_dir(broker: &Kohort) -> &str {
    broker.data_dir().to_str().unwrap()
}

/// Everything that `/metrics` shows, by name and labels; fails when it is no OpenMetrics text.
fn metrics(broker: &Kohort) -> BTreeMap<String, f64> {
    let (status, text) = get(&broker.admin(), "/metrics");
    assert_eq!(status, 200);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.last(), Some(&"# EOF"), "{text}");
    let mut families = Vec::new();
    let mut samples = BTreeMap::new();
    for line in &lines[..lines.len() - 1] {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.split(' ');
            let (kind, family) = (words.next().unwrap(), words.next().unwrap());
            assert!(["HELP", "TYPE", "UNIT"].contains(&kind), "{line}");
            if kind == "TYPE" {
                assert!(!families.contains(&family), "{family} is there twice");
                families.push(family);
            }
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value in {line}"));
        let value: f64 = value.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        let bare = name.split('{').next().unwrap();
        assert!(families.iter().any(|family| bare.starts_with(family)), "{line} has no type");
        assert!(samples.insert(name.to_owned(), value).is_none(), "{name} is there twice");
    }
    samples
}
