//! A table of clients and what they were put through, as `docs/compatibility.md` shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::{env, fs};

use anyhow::{Context, Result};
use e2e::checkout;

const PASSED: &str = "passed";

/// Which table of the document it is.
#[derive(Debug)]
pub(crate) struct Grid {
    /// The name in the comments that mark its begin and its end.
    pub(crate) mark: &'static str,
    /// What a document without marks gets above the table.
    pub(crate) heading: &'static str,
    pub(crate) columns: &'static [&'static str],
}

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

impl Grid {
    /// Writes the table into the document when asked to; otherwise compares, and returns what got worse.
    pub(crate) fn keep(&self, rows: &[Row]) -> Result<Vec<String>> {
        let path = checkout::root().join("docs/compatibility.md");
        let document = fs::read_to_string(&path).unwrap_or_else(|_| "# Compatibility\n".to_owned());
        if env::var("KOHORT_WRITE_GRID").is_ok_and(|it| it == "1") {
            let document = self.insert(&document, &self.render(rows))?;
            fs::create_dir_all(checkout::root().join("docs")).context("create docs")?;
            fs::write(&path, document).with_context(|| format!("write {}", path.display()))?;
            println!("wrote the table into docs/compatibility.md");
            return Ok(Vec::new());
        }
        let mut worse = Vec::new();
        let before = self.passed_before(&document);
        let skips = self.skips_before(&document);
        for row in rows {
            for (column, cell) in &row.cells {
                let documented = before.contains(&(row.client.clone(), column.replace('-', " ")));
                if let Cell::Passed { skipped } = cell {
                    let new =
                        skipped.iter().map(|what| note(row, what)).filter(|it| !skips.contains(it.as_str()));
                    worse.extend(new.map(|note| {
                        format!("{column}: docs/compatibility.md does not say that it skips {note}")
                    }));
                }
                match cell {
                    Cell::Passed { .. } if !documented => {
                        println!("{}: {column} passes and docs/compatibility.md does not say so", row.client);
                    }
                    Cell::Unsupported(_) if documented => {
                        worse.push(format!("{}: {column} passed before and is now unsupported", row.client));
                    }
                    _ => {}
                }
            }
        }
        Ok(worse)
    }

    fn begin(&self) -> String {
        format!("<!-- {}:begin -->", self.mark)
    }

    fn end(&self) -> String {
        format!("<!-- {}:end -->", self.mark)
    }

    /// The table, with what clients cannot do below it.
    fn render(&self, rows: &[Row]) -> String {
        let mut text = String::from("| client | version |");
        for column in self.columns {
            let _ = write!(text, " {} |", column.replace('-', " "));
        }
        text.push_str("\n|---|---|");
        text.push_str(&"---|".repeat(self.columns.len()));
        text.push('\n');
        let mut notes: Vec<String> = Vec::new();
        for row in rows {
            let _ = write!(text, "| {} | {} |", row.client, row.version);
            for column in self.columns {
                let word = match row.cells.get(column) {
                    Some(Cell::Passed { skipped }) => {
                        let numbers = skipped.iter().map(|what| number_of(&mut notes, &note(row, what)));
                        let numbers: Vec<_> = numbers.map(|number| number.to_string()).collect();
                        if numbers.is_empty() {
                            PASSED.to_owned()
                        } else {
                            format!("{PASSED} [{}]", numbers.join(", "))
                        }
                    }
                    Some(Cell::Unsupported(reason)) => format!("n/a: {reason}"),
                    Some(Cell::Failed) => "**failed**".to_owned(),
                    Some(Cell::NotRun(_)) => "not run".to_owned(),
                    None => "–".to_owned(),
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

    /// `document` with the table put between its marks; a document without marks gets a section at its end.
    fn insert(&self, document: &str, table: &str) -> Result<String> {
        let (begin, end, heading) = (self.begin(), self.end(), self.heading);
        let Some((before, rest)) = document.split_once(&begin) else {
            return Ok(format!("{}\n\n{heading}\n\n{begin}\n{table}{end}\n", document.trim_end()));
        };
        let (_, after) = rest.split_once(&end).context("the table has a begin mark but no end mark")?;
        Ok(format!("{before}{begin}\n{table}{end}{after}"))
    }

    /// What stands between the marks.
    fn section<'a>(&self, document: &'a str) -> &'a str {
        let (begin, end) = (self.begin(), self.end());
        let section = document.split_once(&begin).and_then(|(_, rest)| rest.split_once(&end));
        section.map_or("", |(section, _)| section)
    }

    /// What `document` says that clients cannot.
    fn skips_before<'a>(&self, document: &'a str) -> BTreeSet<&'a str> {
        let notes = self.section(document).lines().filter_map(|line| line.split_once(". "));
        notes.filter(|(number, _)| number.parse::<usize>().is_ok()).map(|(_, note)| note).collect()
    }

    /// The cells that `document` shows as passed, as client and column.
    fn passed_before(&self, document: &str) -> BTreeSet<(String, String)> {
        let mut rows = self.section(document).lines().filter(|line| line.starts_with('|')).map(|line| {
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
        });
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
}

/// What a client cannot, as the document lists it.
fn note(row: &Row, what: &str) -> String {
    format!("{}: {what}", row.client)
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
