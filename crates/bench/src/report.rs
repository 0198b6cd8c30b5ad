//! Figures over targets and repetitions, as a table or as JSON.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::json;

use crate::figure::{Better, Figure, Outcome};
use crate::machine::Machine;
use crate::statistics::Spread;

/// What a command shows in the end.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) scenario: &'static str,
    pub(crate) settings: Vec<(&'static str, String)>,
    pub(crate) repetitions: u16,
    pub(crate) machine: Machine,
    /// By target, the one that ratios refer to first.
    pub(crate) series: Vec<Series>,
}

/// One target's figures over the repetitions.
#[derive(Debug)]
pub(crate) struct Series {
    name: String,
    rows: Vec<Row>,
    doubts: Vec<String>,
}

#[derive(Debug)]
struct Row {
    figure: Figure,
    values: Vec<f64>,
}

impl Series {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), rows: Vec::new(), doubts: Vec::new() }
    }

    /// Adds one repetition.
    pub(crate) fn add(&mut self, outcome: Outcome) {
        for figure in outcome.figures {
            match self.rows.iter_mut().find(|row| row.figure.name == figure.name) {
                Some(row) => row.values.push(figure.value),
                None => self.rows.push(Row { values: vec![figure.value], figure }),
            }
        }
        for doubt in outcome.doubts {
            if !self.doubts.contains(&doubt) {
                self.doubts.push(doubt);
            }
        }
    }

    fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.figure.name == name)
    }
}

impl Row {
    fn spread(&self) -> Spread {
        Spread::of(&self.values).expect("a row begins with a value")
    }
}

impl Report {
    /// For people.
    pub(crate) fn table(&self) -> String {
        let mut text = self.scenario.to_owned();
        for (position, (name, value)) in self.settings.iter().enumerate() {
            let _ = write!(text, "{}{name} {value}", if position == 0 { ": " } else { ", " });
        }
        let often = match self.repetitions {
            1 => "once".to_owned(),
            more => format!("{more} times"),
        };
        let _ = writeln!(text, "; measured {often}, {} cores", self.machine.cores);
        let mut rows = vec![vec![String::new()]];
        rows[0].extend(self.series.iter().map(|series| series.name.clone()));
        for figure in self.names() {
            // A rate says so in its name.
            let unit = match figure.unit {
                "" | "/s" => String::new(),
                unit => format!(", {unit}"),
            };
            let mut row = vec![format!("{}{unit}", figure.name)];
            row.extend((0..self.series.len()).map(|target| self.cell(target, &figure.name)));
            rows.push(row);
        }
        align(&rows, &mut text);
        for series in &self.series {
            for doubt in &series.doubts {
                let _ = writeln!(text, "note, {}: {doubt}", series.name);
            }
        }
        text
    }

    /// For programs.
    pub(crate) fn json(&self) -> Result<String> {
        let figure = |target: usize, row: &Row| {
            let spread = row.spread();
            json!({
                "name": row.figure.name.trim_start(),
                "unit": row.figure.unit,
                "better": row.figure.better,
                "median": spread.median,
                "low": spread.low,
                "high": spread.high,
                "values": row.values,
                "ratio": self.ratio(target, &row.figure.name),
            })
        };
        let target = |(number, series): (usize, &Series)| {
            json!({
                "name": series.name,
                "figures": series.rows.iter().map(|row| figure(number, row)).collect::<Vec<_>>(),
                "notes": series.doubts,
            })
        };
        let settings: serde_json::Map<_, _> =
            self.settings.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let report = json!({
            "scenario": self.scenario,
            "settings": settings,
            "repetitions": self.repetitions,
            "machine": self.machine,
            "targets": self.series.iter().enumerate().map(target).collect::<Vec<_>>(),
        });
        serde_json::to_string_pretty(&report).context("write the figures")
    }

    /// The figures that any target has. One that an earlier target has not stands behind its neighbour.
    fn names(&self) -> Vec<&Figure> {
        let mut names: Vec<&Figure> = Vec::new();
        for series in &self.series {
            let mut place = 0;
            for Row { figure, .. } in &series.rows {
                let known = names.iter().position(|known| known.name == figure.name);
                if known.is_none() {
                    names.insert(place, figure);
                }
                place = known.unwrap_or(place) + 1;
            }
        }
        names
    }

    fn cell(&self, target: usize, name: &str) -> String {
        let Some(row) = self.series[target].row(name) else { return "–".to_owned() };
        let spread = row.spread();
        let mut text = number(spread.median);
        if row.values.len() > 1 {
            let _ = write!(text, " ({}–{})", number(spread.low), number(spread.high));
        }
        if let Some(ratio) = self.ratio(target, name) {
            let _ = write!(text, "  ×{ratio:.2}");
        }
        text
    }

    /// A later target's median over the first one's; none for the first, and none for what is no aim.
    fn ratio(&self, target: usize, name: &str) -> Option<f64> {
        let row = self.series[target].row(name)?;
        if target == 0 || row.figure.better == Better::Neither {
            return None;
        }
        let ratio = row.spread().median / self.series[0].row(name)?.spread().median;
        ratio.is_finite().then_some(ratio)
    }
}

/// A number with as many digits as one reads.
fn number(value: f64) -> String {
    if value.abs() >= 1000.0 {
        let digits = format!("{:.0}", value.abs());
        let mut text = String::new();
        for (position, digit) in digits.chars().enumerate() {
            if position > 0 && (digits.len() - position).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        return if value < 0.0 { format!("-{text}") } else { text };
    }
    if value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let decimals = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else if value.abs() >= 1.0 {
        2
    } else {
        3
    };
    format!("{value:.decimals$}")
}

fn align(rows: &[Vec<String>], text: &mut String) {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column] - cell.chars().count());
            if column == 0 {
                let _ = write!(line, "{cell}{pad}");
            } else {
                let _ = write!(line, "   {pad}{cell}");
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;

    use super::*;

    fn report() -> Report {
        let run = |rate: f64, millis: u64| {
            let mut outcome = Outcome::default();
            outcome.add("heartbeats per second, 1 in flight", "/s", Better::Higher, rate);
            outcome.time("  latency p50, 1 in flight", Duration::from_micros(millis));
            outcome.count("generations", 1);
            outcome
        };
        let mut kafka = Series::new("kafka");
        kafka.add(run(60_000.4, 800));
        kafka.add(run(70_000.0, 900));
        let mut kohort = Series::new("kohort");
        kohort.add(run(1_234_567.0, 64));
        kohort.add(run(130_000.0, 64));
        kohort.doubts.push("the load took 1.1 cores".to_owned());
        kohort.rows.pop();
        let machine = Machine {
            cores: 2,
            processor: "a fast one".to_owned(),
            memory: "8 GB".to_owned(),
            kernel: "6.1".to_owned(),
        };
        let settings = vec![("members", "64".to_owned()), ("groups", "1".to_owned())];
        Report { scenario: "heartbeat", settings, repetitions: 2, machine, series: vec![kafka, kohort] }
    }

    #[test]
    fn the_table_has_medians_ranges_and_ratios() {
        expect![[r#"
                heartbeat: members 64, groups 1; measured 2 times, 2 cores
                                                                      kafka                                kohort
                heartbeats per second, 1 in flight   65,000 (60,000–70,000)   682,284 (130,000–1,234,567)  ×10.50
                  latency p50, 1 in flight, ms          0.850 (0.800–0.900)            0.064 (0.064–0.064)  ×0.08
                generations                                         1 (1–1)                                     –
                note, kohort: the load took 1.1 cores
            "#]].assert_eq(&report().table());
    }

    #[test]
    fn the_json_has_every_repetition() {
        let text = report().json().expect("json");
        let value: serde_json::Value = serde_json::from_str(&text).expect("json again");
        let figure = &value["targets"][1]["figures"][0];
        assert_eq!(figure["values"], json!([1_234_567.0, 130_000.0]));
        assert_eq!(figure["better"], "higher");
        assert!(figure["ratio"].as_f64().is_some_and(|ratio| ratio > 10.0 && ratio < 11.0));
        assert_eq!(value["targets"][0]["figures"][0]["ratio"], serde_json::Value::Null);
        assert_eq!(value["settings"]["members"], "64");
        assert_eq!(value["machine"]["cores"], 2);
    }

    #[test]
    fn numbers_have_the_digits_one_reads() {
        let shown: Vec<_> = [0.0, 0.1234, 1.5, 12.34, 123.4, 999.0, 1000.0, 1_234_567.8, -4321.0]
            .into_iter()
            .map(number)
            .collect();
        assert_eq!(shown, ["0", "0.123", "1.50", "12.3", "123", "999", "1,000", "1,234,568", "-4,321"]);
    }
}
