//! Scripts that a person can review: steps with what came of them.
//!
//! A step is a command, perhaps with lines of input, then `----` and what came of it; steps are apart by an empty line,
//! and lines that begin with `#` are comments.

use std::path::Path;

/// Plays all scripts in `tests/scenarios/{kind}` and compares what came of each step with what is written; `REWRITE=1`
/// writes it instead. `stage` sets one up for a script; it is given commands with their input and says what came of
/// them.
pub(crate) fn come_out_as_written<S: FnMut(&str, &[&str]) -> String>(kind: &str, stage: impl Fn() -> S) {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios").join(kind);
    let mut paths: Vec<_> =
        std::fs::read_dir(scenarios).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in &paths {
        let script = std::fs::read_to_string(path).unwrap();
        let outcome = played(&script, stage());
        if std::env::var_os("REWRITE").is_some() {
            std::fs::write(path, outcome).unwrap();
        } else {
            assert!(outcome == script, "{} came out as\n{outcome}", path.display());
        }
    }
    assert!(!paths.is_empty(), "there are no scripts");
}

/// The script with what really came of each step.
fn played(script: &str, mut stage: impl FnMut(&str, &[&str]) -> String) -> String {
    let mut outcome = String::new();
    for step in script.trim_end().split("\n\n") {
        let told: Vec<&str> = step.lines().take_while(|line| *line != "----").collect();
        outcome.push_str(&told.join("\n"));
        outcome.push('\n');
        let mut lines = told.into_iter().filter(|line| !line.starts_with('#'));
        if let Some(command) = lines.next() {
            outcome.push_str("----\n");
            outcome.push_str(&stage(command, &lines.collect::<Vec<_>>()));
        }
        outcome.push('\n');
    }
    format!("{}\n", outcome.trim_end())
}
