//! Figures gathered over repetitions, and the page made of them.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};
use e2e::checkout;

use crate::Scale;

/// What was measured so far.
pub(crate) struct Report {
    scale: Scale,
    /// Kohort's and Kafka's figures by row, in the order in which rows first came.
    rows: Vec<Row>,
    /// What only Kohort owes: what, figure, what is owed.
    alone: Vec<[String; 3]>,
    /// What was measured, on what.
    facts: Vec<(&'static str, String)>,
}

struct Row {
    what: &'static str,
    unit: &'static str,
    owed: &'static str,
    kohort: Vec<f64>,
    kafka: Vec<f64>,
}

/// One figure to be compared.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    /// What Kohort owes, as a ratio to Kafka or a bound of its own.
    pub(crate) owed: &'static str,
}

impl Report {
    pub(crate) fn new(scale: Scale, facts: Vec<(&'static str, String)>) -> Self {
        Self { scale, rows: Vec::new(), alone: Vec::new(), facts }
    }

    pub(crate) fn add(&mut self, figure: Figure, is_kohort: bool, value: f64) {
        let index = self.rows.iter().position(|row| row.what == figure.what).unwrap_or_else(|| {
            let Figure { what, unit, owed } = figure;
            self.rows.push(Row { what, unit, owed, kohort: Vec::new(), kafka: Vec::new() });
            self.rows.len() - 1
        });
        let row = &mut self.rows[index];
        if is_kohort { row.kohort.push(value) } else { row.kafka.push(value) }
    }

    pub(crate) fn add_alone(&mut self, what: &str, figure: String, owed: &str) {
        self.alone.push([what.to_owned(), figure, owed.to_owned()]);
    }

    /// The page, without its explanation.
    pub(crate) fn markdown(&self) -> String {
        let mut text =
            String::from("| what | Kohort | Kafka | ratio of medians | owed |\n|---|---|---|---|---|\n");
        for row in &self.rows {
            let ratio = median(&row.kohort) / median(&row.kafka);
            let Row { what, unit, owed, kohort, kafka } = row;
            let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
            let _ = writeln!(
                text,
                "| {what}{unit} | {} | {} | {ratio:.3} | {owed} |",
                spread(kohort),
                spread(kafka)
            );
        }
        text.push_str("\n| Kohort alone | measured | owed |\n|---|---|---|\n");
        for [what, figure, owed] in &self.alone {
            let _ = writeln!(text, "| {what} | {figure} | {owed} |");
        }
        text
    }

    /// Writes docs/benchmarks.md.
    pub(crate) fn write(&self) -> Result<()> {
        let mut text = String::from(
            "# Kohort beside Apache Kafka\n\nMade by `cargo xtask bench`, which repeats it on your machine. Both brokers \
             ran with their defaults, one at a time, in turn, on the cores that the load used too. Kohort's \
             acknowledgement means that the record is on disk; Kafka's does not. Figures are medians over \
             repetitions, with the lowest and highest beside them.\n\n",
        );
        let _ = writeln!(text, "- Repetitions: {}", self.scale.repetitions);
        for (name, fact) in &self.facts {
            let _ = writeln!(text, "- {name}: {fact}");
        }
        text.push('\n');
        text.push_str(&self.markdown());
        // What people wrote below the figures stays.
        let path = checkout::root().join("docs/benchmarks.md");
        let old = fs::read_to_string(&path).unwrap_or_default();
        if let Some(notes) = old.find("\n## ") {
            text.push_str(&old[notes..]);
        }
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }
}

/// The middle value; not a number when there is none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn spread(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let show = |value: f64| if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    format!("{} ({}–{})", show(median(values)), show(low), show(high))
}
