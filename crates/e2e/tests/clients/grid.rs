//! The table of clients and scenarios, as `docs/compatibility.md` shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, Result};
use e2e::clients::SCENARIOS;

const BEGIN: &str = "<!-- grid:begin -->";
const END: &str = "<!-- grid:end -->";
const PASSED: &str = "passed";

/// How one client did in one scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    /// All that the client can do went well; `skipped` says what it cannot.
    Passed { skipped: Vec<String> },
    /// The client has no such feature.
    Unsupported(String),
    /// Something that should be true was not.
    Failed,
    /// The machine lacks what the client needs.
    NotRun(String),
}

/// One client with its version and cells.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) client: String,
    pub(crate) version: String,
    pub(crate) cells: BTreeMap<&'static str, Cell>,
}

/// The table, with what clients cannot do below it.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut text = String::from("| client | version |");
    for scenario in SCENARIOS {
        let _ = write!(text, " {} |", scenario.replace('-', " "));
    }
    text.push_str("\n|---|---|");
    text.push_str(&"---|".repeat(SCENARIOS.len()));
    text.push('\n');
    let mut notes: Vec<String> = Vec::new();
    for row in rows {
        let _ = write!(text, "| {} | {} |", row.client, row.version);
        for scenario in SCENARIOS {
            let word = match row.cells.get(scenario) {
                Some(Cell::Passed { skipped }) => {
                    let numbers =
                        skipped.iter().map(|what| number_of(&mut notes, &format!("{}: {what}", row.client)));
                    let numbers: Vec<_> = numbers.map(|number| number.to_string()).collect();
                    if numbers.is_empty() {
                        PASSED.to_owned()
                    } else {
                        format!("{PASSED} [{}]", numbers.join(", "))
                    }
                }
                Some(Cell::Unsupported(reason)) => format!("n/a: {reason}"),
                Some(Cell::Failed) => "**failed**".to_owned(),
                Some(Cell::NotRun(_)) | None => "not run".to_owned(),
            };
            let _ = write!(text, " {word} |");
        }
        text.push('\n');
    }
    if !notes.is_empty() {
        text.push_str("\nNot tried, because the client cannot:\n\n");
    }
    for (number, note) in (1..).zip(notes) {
        let _ = writeln!(text, "{number}. {note}");
    }
    text
}

/// The number of a note, which is added when it is new.
fn number_of(notes: &mut Vec<String>, note: &str) -> usize {
    match notes.iter().position(|it| it == note) {
        Some(position) => position + 1,
        None => {
            notes.push(note.to_owned());
            notes.len()
        }
    }
}

/// `document` with the table put between its marks; a document without marks gets a section at its end.
pub(crate) fn insert(document: &str, table: &str) -> Result<String> {
    let Some((before, rest)) = document.split_once(BEGIN) else {
        return Ok(format!("{}\n\n## Clients\n\n{BEGIN}\n{table}{END}\n", document.trim_end()));
    };
    let (_, after) = rest.split_once(END).context("the table has a begin mark but no end mark")?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

/// The cells that `document` shows as passed, as client and scenario.
pub(crate) fn passed_before(document: &str) -> BTreeSet<(String, String)> {
    let table =
        document.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).map_or("", |(table, _)| table);
    let mut rows = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>());
    let heads = rows.next().unwrap_or_default();
    let mut passed = BTreeSet::new();
    for row in rows {
        for (head, cell) in heads.iter().zip(&row) {
            if cell.split(' ').next() == Some(PASSED) {
                passed.insert((row[0].clone(), head.clone()));
            }
        }
    }
    passed
}
