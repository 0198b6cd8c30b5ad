//! `cargo xtask behaviours`: which behaviour of Kafka is proven by which test.
//!
//! docs/behaviours.list names the behaviours; tests name the ids that they prove. docs/behaviours.md is written from
//! both, and a test of this crate fails when it is out of date or when a behaviour has neither a test nor a reason.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use e2e::checkout;

const LIST: &str = "docs/behaviours.list";
const PAGE: &str = "docs/behaviours.md";

/// Writes the page, and says what is missing.
pub(crate) fn run() -> Result<ExitCode> {
    let root = checkout::root();
    let survey = Survey::of(&root)?;
    fs::write(root.join(PAGE), survey.page()).with_context(|| format!("write {PAGE}"))?;
    let faults = survey.faults();
    for fault in &faults {
        println!("{fault}");
    }
    println!("{}", survey.summary());
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The behaviours and what the tests say of them.
struct Survey {
    families: Vec<Family>,
    proofs: BTreeMap<String, Vec<Proof>>,
}

/// Behaviours that belong together.
struct Family {
    title: String,
    behaviours: Vec<Behaviour>,
}

/// One line of the list.
struct Behaviour {
    id: String,
    text: String,
    /// Why there is no test.
    reason: Option<String>,
}

/// A test that names an id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Proof {
    /// The file, from the root of the project.
    path: String,
    /// The test's name; empty for a scenario, which is a file.
    name: String,
}

impl Survey {
    fn of(root: &Path) -> Result<Self> {
        let list = fs::read_to_string(root.join(LIST)).with_context(|| format!("read {LIST}"))?;
        let families = parse(&list)?;
        let prefixes: Vec<&str> = families
            .iter()
            .flat_map(|family| family.behaviours.first())
            .map(|first| prefix(&first.id))
            .collect();
        let mut proofs: BTreeMap<String, Vec<Proof>> = BTreeMap::new();
        for file in files(&root.join("crates"))? {
            let Ok(text) = fs::read_to_string(&file) else { continue };
            let path = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
            for (id, name) in mentions(&path, &text, &prefixes) {
                let proofs = proofs.entry(id).or_default();
                let proof = Proof { path: path.clone(), name };
                if !proofs.contains(&proof) {
                    proofs.push(proof);
                }
            }
        }
        Ok(Self { families, proofs })
    }

    fn behaviours(&self) -> impl Iterator<Item = &Behaviour> {
        self.families.iter().flat_map(|family| &family.behaviours)
    }

    /// What a reader of the page would be told wrongly, or not at all.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for behaviour in self.behaviours() {
            match (&behaviour.reason, self.proofs.get(&behaviour.id)) {
                (None, None) => faults.push(format!("{} has neither a test nor a reason", behaviour.id)),
                (Some(_), Some(proofs)) => {
                    let path = &proofs[0].path;
                    faults.push(format!("{} is said not to apply and is proven in {path}", behaviour.id));
                }
                _ => {}
            }
        }
        for (id, proofs) in &self.proofs {
            if self.behaviours().all(|behaviour| behaviour.id != *id) {
                faults.push(format!("{} names {id}, which {LIST} does not", proofs[0].path));
            }
        }
        faults
    }

    fn summary(&self) -> String {
        let proven = self.behaviours().filter(|behaviour| self.proofs.contains_key(&behaviour.id)).count();
        let excused = self.behaviours().filter(|behaviour| behaviour.reason.is_some()).count();
        format!("{} behaviours: {proven} proven by tests, {excused} do not apply", self.behaviours().count())
    }

    fn page(&self) -> String {
        let mut page = String::from(
            "# Behaviours of Kafka, and the tests that prove them\n\n\
             Written by `cargo xtask behaviours` from docs/behaviours.list and from the tests, which name the ids \
             that they prove.\n\n",
        );
        let _ = writeln!(page, "{}.", self.summary());
        for family in &self.families {
            let _ = writeln!(page, "\n## {}\n\n| id | behaviour | proven by |\n|---|---|---|", family.title);
            for Behaviour { id, text, reason } in &family.behaviours {
                let proven = match (self.proofs.get(id), reason) {
                    (Some(proofs), _) => proofs.iter().map(Proof::link).collect::<Vec<_>>().join("<br>"),
                    (None, Some(reason)) => format!("does not apply: {reason}"),
                    (None, None) => "**nothing yet**".to_owned(),
                };
                let _ = writeln!(page, "| {id} | {text} | {proven} |");
            }
        }
        page
    }
}

impl Proof {
    fn link(&self) -> String {
        let Self { path, name } = self;
        let file = path.rsplit('/').next().unwrap_or(path);
        match name.as_str() {
            "" => format!("[{file}](../{path})"),
            name => format!("[{name}](../{path})"),
        }
    }
}

fn parse(list: &str) -> Result<Vec<Family>> {
    let mut families: Vec<Family> = Vec::new();
    for line in list.lines().filter(|line| !line.is_empty()) {
        if let Some(title) = line.strip_prefix("## ") {
            families.push(Family { title: title.to_owned(), behaviours: Vec::new() });
        } else if !line.starts_with('#') {
            let parts = line.split_once(' ').zip(families.last_mut());
            let Some(((id, rest), family)) = parts else { bail!("{LIST}: `{line}` belongs to no family") };
            let (text, reason) = match rest.split_once(" | n/a: ") {
                Some((text, reason)) => (text, Some(reason.to_owned())),
                None => (rest, None),
            };
            family.behaviours.push(Behaviour { id: id.to_owned(), text: text.to_owned(), reason });
        }
    }
    Ok(families)
}

fn prefix(id: &str) -> &str {
    id.split('-').next().unwrap_or(id)
}

/// Every file below `directory` that can hold a test, in order.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "node_modules" && name != "xtask") {
                found.extend(files(&path)?);
            }
        } else if is_source(&path) || is_scenario(&path) {
            found.push(path);
        }
    }
    Ok(found)
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

fn is_scenario(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "scenarios")
}

/// The ids that a file's tests name, each with the test's name.
fn mentions(path: &str, text: &str, prefixes: &[&str]) -> Vec<(String, String)> {
    if is_scenario(Path::new(path)) {
        return text.lines().flat_map(|line| ids(line, prefixes)).map(|id| (id, String::new())).collect();
    }
    // What is said outside of tests is not proven by it.
    let mut in_tests = path.contains("/tests/") || path.ends_with("/tests.rs");
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        in_tests |= line.starts_with("mod tests") || line.starts_with("#[cfg(test)]");
        if !in_tests {
            continue;
        }
        for id in ids(line, prefixes) {
            found.push((id, test_at(&lines, at).unwrap_or_default().to_owned()));
        }
    }
    found
}

/// The name of the function that a line is in, or stands in front of.
fn test_at<'a>(lines: &[&'a str], at: usize) -> Option<&'a str> {
    let is_before = |line: &&&str| ["//", "#["].iter().any(|start| line.trim_start().starts_with(start));
    let in_front = lines[at..].iter().find(|line| !is_before(line)).and_then(|line| function(line));
    in_front.or_else(|| lines[..=at].iter().rev().find_map(|line| function(line)))
}

/// The name of the function that begins in this line.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = [
        "fn ",
        "async fn ",
        "pub fn ",
        "pub async fn ",
        "pub(crate) fn ",
        "pub(crate) async fn ",
        "pub(super) fn ",
        "pub(super) async fn ",
    ]
    .iter()
    .find_map(|start| line.strip_prefix(start))?;
    rest.split(['(', '<']).next()
}

/// The ids in a line.
fn ids(line: &str, prefixes: &[&str]) -> Vec<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    line.split(|c: char| !word(c))
        .filter(|token| {
            token.split_once('-').is_some_and(|(family, number)| {
                prefixes.contains(&family) && number.len() == 2 && number.bytes().all(|b| b.is_ascii_digit())
            })
        })
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_behaviour_has_a_test_or_a_reason_and_the_page_says_which() {
        let root = checkout::root();
        let survey = Survey::of(&root).expect("the list and the tests can be read");
        assert_eq!(survey.faults(), Vec::<String>::new());
        let page = fs::read_to_string(root.join(PAGE)).expect("the page is there");
        assert!(page == survey.page(), "{PAGE} is out of date: run `cargo xtask behaviours`");
    }

    #[test]
    fn an_id_belongs_to_the_test_that_it_stands_in_or_in_front_of() {
        let text = "/// Proves AA-01.\n#[test]\nfn first() {\n    // And AA-02, AA-03.\n}\n\n// AA-04\nasync fn second() {}\n";
        let found = mentions("crates/x/tests/y.rs", text, &["AA"]);
        let found: Vec<_> = found.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect();
        assert_eq!(found, [("AA-01", "first"), ("AA-02", "first"), ("AA-03", "first"), ("AA-04", "second")]);
    }

    #[test]
    fn what_looks_like_an_id_and_is_none_is_passed_over() {
        assert_eq!(ids("AA-1 AA-001 BB-01 XAA-01 AA-01-02 AA-07", &["AA"]), ["AA-07"]);
    }

    #[test]
    fn what_the_code_says_of_itself_proves_nothing() {
        assert!(mentions("crates/x/src/y.rs", "// AA-01\nfn y() {}\n", &["AA"]).is_empty());
        let tested = "fn y() {}\n#[cfg(test)]\nmod tests {\n    // AA-01\n    fn z() {}\n}\n";
        assert_eq!(mentions("crates/x/src/y.rs", tested, &["AA"]), [("AA-01".to_owned(), "z".to_owned())]);
    }
}
